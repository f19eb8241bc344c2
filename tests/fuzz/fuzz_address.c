/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address blobs, which a peer wrote, as vbn_endpoint_create() gets them: the input itself, or,
 * where its first byte is odd, a good blob with some bytes changed.
 */
#include "fuzz.h"

#include "../unit/lone.h"

#include <stdlib.h>

static bool is_good(const vbn_context_t *ctx, const struct vbn_wire_address *a)
{
    return a->version_min <= VBN_WIRE_VERSION && a->uid != ctx->uid &&
           a->job_key == ctx->opts.job_key &&
           a->buf_size == sizeof(struct vbn_wire_hdr) + ctx->max_am_len;
}

/* What follows from a blob that was taken: an attempt to connect, and an error. */
static void use(vbn_context_t *ctx, vbn_endpoint_t *ep)
{
    struct iovec iov = {(char *)"x", 1};

    fuzz_check(vbn_am_send(ep, 5, &iov, 1) == VBN_OK, "a message waits for the connection");
    fuzz_check(ep->attempt || ep->state >= VBN_EP_CLOSED, "somebody connects, or nobody can");
    if (ep->attempt)
        fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_ERROR, -1, NULL, 0);
    lone_progress(ctx);
    vbn_endpoint_close(ep);
}

static void create(vbn_context_t *ctx, const void *blob, size_t len)
{
    struct vbn_error err = {0};
    struct vbn_wire_address a;
    vbn_endpoint_t *ep = NULL, *again = NULL;
    int rc = vbn_endpoint_create(ctx, blob, len, ctx, &ep, &err);

    if (rc) {
        fuzz_check(err.status == rc && err.text[0], "a refusal says why");
        fuzz_check(!ctx->endpoints, "a refusal leaves nothing");
        return;
    }
    fuzz_check(vbn_wire_address_read(blob, len, &a) && is_good(ctx, &a), "a good address");
    fuzz_check(vbn_endpoint_create(ctx, blob, len, ctx, &again, NULL) == VBN_OK && again == ep,
               "one endpoint a peer");
    use(ctx, ep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    uint8_t bytes[VBN_ADDRESS_MAX];
    struct vbn_wire_address a;
    uint8_t *blob;
    size_t len;
    vbn_context_t *ctx;

    lone_setup(NULL);
    ctx = lone_open(NULL);
    unit.tick_ns = 10 * UNIT_MS;
    if (fuzz_u8(&in) & 1) {
        a = lone_address(ctx, 7);
        a.count = (uint8_t)(1 + fuzz_u8(&in) % VBN_WIRE_ADDRS_MAX);
        for (unsigned i = 1; i < a.count; i++)
            a.addrs[i] = (struct vbn_wire_sockaddr){.family = 6, .port = 1, .ip = {0xfd}};
        vbn_wire_address_write(bytes, &a);
        len = fuzz_patch(&in, bytes, vbn_wire_address_len(&a), sizeof(bytes));
    } else {
        len = fuzz_bytes(&in, bytes, sizeof(bytes));
    }
    blob = malloc(len ? len : 1);
    memcpy(blob, bytes, len);
    create(ctx, blob, len);
    vbn_close(ctx);
    free(blob);
    lone_teardown(NULL);
    return 0;
}
