/* SPDX-License-Identifier: BSD-3-Clause */
#include "lone.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define PEER_PORT 7471

struct fake_device *lone_device;
uint16_t lone_credits;

int lone_setup(void **state)
{
    (void)state;
    unit_reset();
    fake_reset();
    lone_credits = 16;
    lone_device = fake_device_add("fake0");
    fake_address_add("eth0", "10.0.0.1", lone_device, 1);
    return 0;
}

int lone_teardown(void **state)
{
    (void)state;
    fake_reset();
    return 0;
}

vbn_context_t *lone_open(void (*tweak)(struct vbn_options *opts))
{
    struct vbn_options opts;
    struct vbn_error err;
    vbn_context_t *ctx;

    unit.random = LONE_UID;
    unit_options(&opts);
    opts.recovery_timeout_ms = 0; /* what is lost stays so: test_recover.c asks for more */
    if (tweak)
        tweak(&opts);
    if (vbn_open(&opts, &ctx, &err))
        fail_msg("vbn_open: %s", err.text);
    assert_int_equal(ctx->uid, LONE_UID);
    return ctx;
}

void lone_close(vbn_context_t *ctx)
{
    unit.tick_ns = UNIT_MS;
    vbn_close(ctx);
    unit.tick_ns = 1000;
}

void lone_progress(vbn_context_t *ctx)
{
    unit.now_ns += 2 * UNIT_MS;
    for (int i = 0; i < 70; i++)
        vbn_progress(ctx);
}

void lone_pass(vbn_context_t *ctx, uint64_t ms)
{
    uint64_t end = unit.now_ns + ms * UNIT_MS;

    while (unit.now_ns < end)
        lone_progress(ctx);
}

/* --- the peer's words ------------------------------------------------------------------------- */

struct vbn_wire_address lone_address(const vbn_context_t *ctx, uint64_t uid)
{
    return (struct vbn_wire_address){
        .version = VBN_WIRE_VERSION,
        .version_min = VBN_WIRE_VERSION_MIN,
        .count = 1,
        .uid = uid,
        .job_key = ctx->opts.job_key,
        .buf_size = (uint32_t)sizeof(struct vbn_wire_hdr) + ctx->max_am_len,
        .addrs = {{.family = 4, .port = PEER_PORT, .ip = {10, 0, 0, 2}}},
    };
}

vbn_endpoint_t *lone_peer(vbn_context_t *ctx, uint64_t uid)
{
    struct vbn_wire_address a = lone_address(ctx, uid);
    unsigned char blob[VBN_ADDRESS_MAX];
    struct vbn_error err;
    vbn_endpoint_t *ep;

    vbn_wire_address_write(blob, &a);
    if (vbn_endpoint_create(ctx, blob, vbn_wire_address_len(&a), NULL, &ep, &err))
        fail_msg("vbn_endpoint_create: %s", err.text);
    return ep;
}

struct vbn_wire_hello lone_hello(const vbn_context_t *ctx, uint64_t uid)
{
    return (struct vbn_wire_hello){
        .version = VBN_WIRE_VERSION,
        .version_min = VBN_WIRE_VERSION_MIN,
        .src_uid = uid,
        .dst_uid = ctx->uid,
        .job_key = ctx->opts.job_key,
        .buf_size = (uint32_t)sizeof(struct vbn_wire_hdr) + ctx->max_am_len,
        .credits = lone_credits,
    };
}

struct rdma_cm_id *lone_request(vbn_context_t *ctx, const struct vbn_wire_hello *hello)
{
    unsigned char data[sizeof(*hello)];

    vbn_wire_hello_write(data, hello);
    return fake_request(ctx->cm.listener[0], data, sizeof(data));
}

void lone_answer(struct vbn_conn *conn, const struct vbn_wire_hello *hello)
{
    unsigned char data[sizeof(*hello)];

    vbn_wire_hello_write(data, hello);
    fake_event(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, data, sizeof(data));
}

void lone_refuse(struct vbn_conn *conn, uint8_t reason)
{
    struct vbn_wire_refusal r = {
        .version = VBN_WIRE_VERSION, .version_min = 1, .reason = reason, .uid = conn->ep->uid};
    unsigned char data[sizeof(r)];

    vbn_wire_refusal_write(data, &r);
    fake_event(conn->id, RDMA_CM_EVENT_REJECTED, 28, data, sizeof(data));
}

/* --- connections ------------------------------------------------------------------------------ */

void lone_at_home(struct rdma_cm_id *id)
{
    struct sockaddr_in *own = (struct sockaddr_in *)rdma_get_local_addr(id);

    own->sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, "10.0.0.1", &own->sin_addr), 1);
}

/* Takes CONN, whose address is being resolved, up to STATE. */
static void resolve(struct vbn_conn *conn, enum vbn_conn_state state)
{
    if (state >= VBN_CONN_ROUTE) {
        fake_event(conn->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
        lone_progress(conn->ctx);
    }
    if (state >= VBN_CONN_CONNECTING) {
        fake_event(conn->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
        lone_progress(conn->ctx);
    }
    assert_int_equal(conn->state, state);
}

/* The peer, which speaks WIRE_VERSION alone, answers CONN's request. */
static void answer(struct vbn_conn *conn, uint8_t wire_version)
{
    struct vbn_wire_hello hello = lone_hello(conn->ctx, conn->ep->uid);

    hello.version = hello.version_min = wire_version;
    lone_answer(conn, &hello);
    lone_progress(conn->ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
}

struct vbn_conn *lone_attempt(vbn_context_t *ctx, uint64_t uid, enum vbn_conn_state state)
{
    vbn_endpoint_t *ep = lone_peer(ctx, uid);
    struct vbn_conn *conn;

    assert_int_equal(vbn_endpoint_connect(ep), VBN_OK);
    conn = ep->attempt;
    assert_non_null(conn);
    resolve(conn, state);
    return conn;
}

struct vbn_conn *lone_connect(vbn_context_t *ctx, uint64_t uid)
{
    return lone_connect_by(ctx, uid, VBN_WIRE_VERSION);
}

struct vbn_conn *lone_connect_by(vbn_context_t *ctx, uint64_t uid, uint8_t wire_version)
{
    struct vbn_conn *conn = lone_attempt(ctx, uid, VBN_CONN_CONNECTING);

    answer(conn, wire_version);
    return conn;
}

void lone_establish(struct vbn_conn *conn)
{
    resolve(conn, VBN_CONN_CONNECTING);
    answer(conn, VBN_WIRE_VERSION);
}

struct vbn_conn *lone_accept(vbn_context_t *ctx, uint64_t uid)
{
    struct vbn_wire_hello hello = lone_hello(ctx, uid);

    return lone_accept_by(ctx, &hello);
}

struct vbn_conn *lone_accept_by(vbn_context_t *ctx, const struct vbn_wire_hello *hello)
{
    struct rdma_cm_id *id = lone_request(ctx, hello);
    struct vbn_conn *conn;

    lone_progress(ctx);
    conn = id->context;
    assert_int_equal(conn->state, VBN_CONN_ACCEPTING);
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    return conn;
}

/* --- messages --------------------------------------------------------------------------------- */

struct vbn_wire_hdr lone_hdr(const struct vbn_conn *conn, uint8_t type)
{
    return (struct vbn_wire_hdr){
        .type = type,
        .credits = (uint16_t)(conn->flow.tx_count + lone_credits),
        .seq = conn->ep->rx_next,
        .ack = conn->ep->tx_next,
    };
}

void lone_queued(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr, const void *payload)
{
    unsigned char *bytes = calloc(1, sizeof(*hdr) + hdr->len);

    vbn_wire_hdr_write(bytes, hdr);
    if (payload)
        memcpy(bytes + sizeof(*hdr), payload, hdr->len);
    assert_true(fake_message(conn->q.qp, bytes, sizeof(*hdr) + hdr->len));
    free(bytes);
}

void lone_message(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr, const void *payload)
{
    lone_queued(conn, hdr, payload);
    vbn_progress(conn->ctx);
}

void lone_tagged(struct vbn_conn *conn, uint8_t kind, const void *payload, size_t len)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_TAG);

    hdr.id = kind;
    hdr.len = (uint32_t)len;
    lone_message(conn, &hdr, payload);
}

void lone_am(struct vbn_conn *conn, uint8_t id, const void *payload, size_t len)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);

    hdr.id = id;
    hdr.len = (uint32_t)len;
    lone_message(conn, &hdr, payload);
}

void lone_ack(struct vbn_conn *conn)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_ACK);

    lone_message(conn, &hdr, NULL);
}

/* --- rings ------------------------------------------------------------------------------------ */

void lone_ring_word(struct vbn_conn *conn, uint16_t count, uint64_t addr, uint32_t rkey)
{
    struct vbn_wire_ring word = {
        .addr = addr, .rkey = rkey, .count = count, .heard = conn->ring.in.count};
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_RING);
    char bytes[sizeof(word)];

    hdr.len = sizeof(bytes);
    vbn_wire_ring_write(bytes, &word);
    lone_message(conn, &hdr, bytes);
}

void lone_ring_heard(struct vbn_conn *conn)
{
    lone_ring_word(conn, conn->ring.out.heard, conn->ring.out.heard % 2 ? conn->ring.out.addr : 0,
                   conn->ring.out.put.wr.rdma.rkey);
}

void lone_ring_write(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr, const void *payload,
                     uint16_t order)
{
    char bytes[VBN_RING_SLOT] = {0};

    assert_true(hdr->len <= VBN_RING_ROOM);
    if (payload)
        memcpy(bytes + sizeof(*hdr), payload, hdr->len);
    vbn_wire_sealed_write(bytes, hdr, vbn_wire_sealed_len(hdr->len), order);
    memcpy((char *)(uintptr_t)conn->ring.in.next, bytes, vbn_wire_sealed_len(hdr->len));
}

void lone_ring_am(struct vbn_conn *conn, uint8_t id, const void *payload, size_t len)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);

    hdr.id = id;
    hdr.len = (uint32_t)len;
    lone_ring_write(conn, &hdr, payload, (uint16_t)(conn->flow.rx_count + 1));
    vbn_progress(conn->ctx);
}

/* --- what was sent ---------------------------------------------------------------------------- */

unsigned lone_sent(const struct vbn_conn *conn)
{
    return fake_qp(conn->q.qp)->send_count;
}

const struct fake_send *lone_send_at(const struct vbn_conn *conn, unsigned n,
                                     struct vbn_wire_hdr *hdr)
{
    const struct fake_send *s = &fake_qp(conn->q.qp)->sends[n];

    assert_true(n < lone_sent(conn));
    if (hdr)
        assert_true(vbn_wire_hdr_read(s->bytes, s->sge.length, hdr));
    return s;
}

void lone_acknowledged(const struct vbn_conn *conn, unsigned count, uint32_t ack)
{
    struct vbn_wire_hdr hdr;

    assert_int_equal(lone_sent(conn), count);
    lone_send_at(conn, count - 1, &hdr);
    assert_int_equal(hdr.type, VBN_WIRE_ACK);
    assert_int_equal(hdr.ack, ack);
}

bool lone_said_bye(const struct vbn_conn *conn)
{
    struct vbn_wire_hdr hdr;

    if (!lone_sent(conn))
        return false;
    lone_send_at(conn, lone_sent(conn) - 1, &hdr);
    return hdr.type == VBN_WIRE_BYE;
}

void lone_complete(struct vbn_conn *conn)
{
    struct fake_qp *qp = fake_qp(conn->q.qp);

    for (unsigned n = qp->send_done; n < qp->send_count; n++)
        if (qp->sends[n].wr.send_flags & IBV_SEND_SIGNALED)
            fake_send_completes(conn->q.qp, n, IBV_WC_SUCCESS);
    vbn_progress(conn->ctx);
}
