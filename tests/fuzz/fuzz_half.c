/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blobs of halves, which a peer wrote, as vbn_half_join() gets them: the input itself, or, where
 * its first byte is odd, a good blob with some bytes changed.
 */
#include "fuzz.h"

#include "../unit/lone.h"

#include "half.h"

#include <stdlib.h>

#define PEER_UID 7

static bool is_good(const vbn_context_t *ctx, const struct vbn_wire_half *h)
{
    return h->hello.version_min <= VBN_WIRE_VERSION && h->hello.src_uid != ctx->uid &&
           h->hello.job_key == ctx->opts.job_key && h->hello.rx_next == 0 &&
           h->link == VBN_LINK_INFINIBAND &&
           h->hello.buf_size == sizeof(struct vbn_wire_hdr) + ctx->max_am_len;
}

/* What the queue pair was told is what the blob says, and in the range of the device. */
static void check_attributes(struct vbn_conn *conn, const struct vbn_wire_half *h)
{
    const struct ibv_qp_attr *attr = &fake_qp(conn->q.qp)->attr;

    fuzz_check(conn->state == VBN_CONN_ESTABLISHED, "connected");
    fuzz_check(attr->dest_qp_num == h->qp_num && attr->rq_psn == h->psn, "the peer's queue pair");
    fuzz_check(attr->path_mtu >= IBV_MTU_256 && attr->path_mtu <= IBV_MTU_1024, "the smaller MTU");
    fuzz_check(attr->max_rd_atomic <= 16 && attr->max_dest_rd_atomic <= 16, "read depths");
    fuzz_check(attr->ah_attr.is_global || attr->ah_attr.dlid, "some way to the peer");
}

static void join(vbn_half_t *half, const void *blob, size_t len)
{
    vbn_context_t *ctx = half->ctx;
    struct vbn_error err = {0};
    struct vbn_wire_half h;
    vbn_endpoint_t *ep;
    int rc = vbn_half_join(half, blob, len, ctx, &ep, &err);

    if (rc) {
        fuzz_check(err.status == rc && err.text[0], "a refusal says why");
        fuzz_check(!ctx->endpoints && half->conn, "a refusal changes nothing");
        vbn_half_destroy(half);
        return;
    }
    fuzz_check(vbn_wire_half_read(blob, len, &h) && is_good(ctx, &h), "a good blob");
    check_attributes(ep->conn, &h);
    fuzz_check(vbn_am_send(ep, 5, NULL, 0) == VBN_OK, "a message is sent");
    fuzz_check(lone_sent(ep->conn) == 1, "at once");
    vbn_endpoint_close(ep);
}

static struct vbn_wire_half good(const vbn_context_t *ctx)
{
    return (struct vbn_wire_half){
        .link = VBN_LINK_INFINIBAND,
        .mtu = IBV_MTU_2048,
        .read_in = 16,
        .read_out = 16,
        .hello = lone_hello(ctx, PEER_UID),
        .qp_num = 0x1234,
        .psn = 0xabcdef,
        .lid = 9,
        .gid = {0xfe, 0x80, [15] = 1},
    };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    uint8_t bytes[VBN_HALF_MAX];
    size_t len = sizeof(bytes);
    struct vbn_wire_half h;
    vbn_context_t *ctx;
    vbn_half_t *half;
    uint8_t *blob;

    lone_setup(NULL);
    lone_device->port[0].active_mtu = IBV_MTU_1024;
    lone_device->port[0].lid = 3;
    ctx = lone_open(NULL);
    unit.tick_ns = 10 * UNIT_MS;
    fuzz_check(vbn_half_create(ctx, bytes, &len, &half, NULL) == VBN_OK, "a half");
    if (fuzz_u8(&in) & 1) {
        h = good(ctx);
        vbn_wire_half_write(bytes, &h);
        len = fuzz_patch(&in, bytes, sizeof(h), sizeof(bytes));
    } else {
        len = fuzz_bytes(&in, bytes, sizeof(bytes));
    }
    blob = malloc(len ? len : 1);
    memcpy(blob, bytes, len);
    join(half, blob, len);
    vbn_close(ctx);
    free(blob);
    lone_teardown(NULL);
    return 0;
}
