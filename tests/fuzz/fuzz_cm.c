/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers at the connection manager: requests, answers and rejections with any private data, in any
 * order that a kernel's connection manager may report them in, while this side connects, sends,
 * waits and closes. Only a peer whose hello is right may get a connection.
 */
#include "fuzz.h"

#include "../unit/lone.h"

#include <stdlib.h>

enum { PEERS = 3, ID = 5, OPS_MAX = 200, PRIVATE_MAX = 196, CONNS_MAX = 24 };

static const uint64_t uid_of[PEERS] = {7, LONE_UID + 100, 9}; /* below ours, and above */

static vbn_context_t *ctx;
static bool released[PEERS];

static vbn_endpoint_t *endpoint_of(unsigned peer)
{
    return released[peer] ? NULL : vbn_endpoint_find(ctx, uid_of[peer]);
}

/* A fresh start for a peer whose closed endpoint is gone. */
static vbn_endpoint_t *claim(unsigned peer)
{
    struct vbn_wire_address a = lone_address(ctx, uid_of[peer]);
    unsigned char blob[VBN_ADDRESS_MAX];
    vbn_endpoint_t *ep = NULL;
    int rc;

    vbn_wire_address_write(blob, &a);
    rc = vbn_endpoint_create(ctx, blob, vbn_wire_address_len(&a), NULL, &ep, NULL);
    fuzz_check(rc == VBN_OK || (rc == VBN_ERR_AGAIN && released[peer]) ||
                   (rc == VBN_ERR_NO_MEMORY && unit_alloc_failed()),
               "an endpoint, or later");
    if (rc)
        return NULL;
    released[peer] = false;
    return ep;
}

/* --- private data ----------------------------------------------------------------------------- */

/* By the bytes alone, and nothing of wire.c. */
static bool is_right(const uint8_t *data, size_t len, uint64_t *uid)
{
    struct vbn_wire_hello h;

    if (len < sizeof(h))
        return false;
    memcpy(&h, data, sizeof(h));
    *uid = le64toh(h.src_uid);
    return le32toh(h.magic) == VBN_WIRE_MAGIC && h.version_min >= 1 &&
           h.version_min <= VBN_WIRE_VERSION && h.version >= h.version_min && *uid &&
           *uid != ctx->uid && le64toh(h.dst_uid) == ctx->uid &&
           le64toh(h.job_key) == ctx->opts.job_key &&
           le32toh(h.buf_size) == sizeof(struct vbn_wire_hdr) + ctx->max_am_len &&
           le16toh(h.credits) >= VBN_WINDOW_MIN && le16toh(h.credits) <= VBN_WINDOW_MAX;
}

static size_t make_hello(struct fuzz_in *in, unsigned peer, uint8_t *data)
{
    struct vbn_wire_hello h = lone_hello(ctx, uid_of[peer]);

    memset(data, 0, PRIVATE_MAX);
    vbn_wire_hello_write(data, &h);
    return fuzz_patch(in, data, sizeof(h), PRIVATE_MAX);
}

static size_t make_refusal(struct fuzz_in *in, uint8_t *data)
{
    struct vbn_wire_refusal r = {.version = VBN_WIRE_VERSION, .version_min = 1};

    r.reason = fuzz_u8(in) % 10;
    memset(data, 0, PRIVATE_MAX);
    vbn_wire_refusal_write(data, &r);
    return fuzz_patch(in, data, sizeof(r), PRIVATE_MAX);
}

/* --- events ----------------------------------------------------------------------------------- */

static unsigned conn_count(void)
{
    const struct vbn_conn *conn;
    unsigned n = 0;

    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        n++;
    }
    return n;
}

static struct vbn_conn *conn_at(unsigned at)
{
    struct vbn_conn *conn;

    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        if (at-- == 0)
            return conn;
    }
    return NULL;
}

static void event(struct vbn_conn *conn, enum rdma_cm_event_type type, int status)
{
    fake_event(conn->id, type, status, NULL, 0);
}

static void op_request(struct fuzz_in *in)
{
    uint8_t data[PRIVATE_MAX], how = fuzz_u8(in);
    size_t len = make_hello(in, how % PEERS, data);
    struct rdma_cm_id *id;
    struct vbn_conn *conn;
    uint64_t uid;

    if (conn_count() >= CONNS_MAX)
        return;
    id = fake_request(ctx->cm.listener[0], data, len);
    vbn_progress(ctx);
    lone_progress(ctx);
    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        if (conn->id == id && conn->state == VBN_CONN_ACCEPTING)
            fuzz_check(is_right(data, len, &uid) && uid == conn->ep->uid, "accepted with reason");
    }
}

static void answer(struct fuzz_in *in, struct vbn_conn *conn)
{
    uint8_t data[PRIVATE_MAX];
    uint64_t uid = conn->ep->uid, from = 0;
    unsigned peer = uid == uid_of[0] ? 0 : uid == uid_of[1] ? 1 : 2;
    size_t len = make_hello(in, peer, data);
    bool right = is_right(data, len, &from) && from == uid && data[4] <= VBN_WIRE_VERSION;

    fake_event(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, data, len);
    lone_progress(ctx);
    for (unsigned i = 0; (conn = conn_at(i)); i++)
        fuzz_check(right || conn->ep->uid != uid || !conn->active ||
                       conn->state != VBN_CONN_ESTABLISHED,
                   "established with reason");
}

static void reject(struct fuzz_in *in, struct vbn_conn *conn)
{
    uint8_t data[PRIVATE_MAX];
    int status = fuzz_u8(in) & 1 ? 28 : fuzz_u8(in);
    size_t len = make_refusal(in, data);

    fake_event(conn->id, RDMA_CM_EVENT_REJECTED, status, data, len);
}

/* What may be reported next of an attempt that waits for something. */
static void attempt_event(struct fuzz_in *in, struct vbn_conn *conn)
{
    uint8_t how = fuzz_u8(in) % 4;

    if (conn->state == VBN_CONN_ADDR)
        event(conn, how ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, how ? 0 : -110);
    else if (conn->state == VBN_CONN_ROUTE)
        event(conn, how ? RDMA_CM_EVENT_ROUTE_RESOLVED : RDMA_CM_EVENT_ROUTE_ERROR, how ? 0 : -110);
    else if (conn->state == VBN_CONN_CONNECTING && how > 1)
        answer(in, conn);
    else if (conn->state == VBN_CONN_CONNECTING && how == 1)
        reject(in, conn);
    else if (conn->state == VBN_CONN_ACCEPTING && how > 1)
        event(conn, RDMA_CM_EVENT_ESTABLISHED, 0);
    else
        event(conn, how ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_CONNECT_ERROR, -110);
}

/* What may come of a connection that is, or was, and late things. */
static void later_event(struct fuzz_in *in, struct vbn_conn *conn)
{
    static const enum rdma_cm_event_type type[] = {
        RDMA_CM_EVENT_DISCONNECTED,   RDMA_CM_EVENT_ESTABLISHED,     RDMA_CM_EVENT_TIMEWAIT_EXIT,
        RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_CONNECT_ERROR,   RDMA_CM_EVENT_ADDR_CHANGE,
        RDMA_CM_EVENT_UNREACHABLE,    RDMA_CM_EVENT_CONNECT_RESPONSE};
    uint8_t how = fuzz_u8(in);

    if (how % 9 == 8)
        reject(in, conn);
    else
        event(conn, type[how % 9], 0);
}

static void op_event(struct fuzz_in *in)
{
    unsigned count = conn_count();
    struct vbn_conn *conn = count ? conn_at(fuzz_u8(in) % count) : NULL;

    if (!conn || !conn->id)
        return;
    if (conn->state < VBN_CONN_ESTABLISHED)
        attempt_event(in, conn);
    else
        later_event(in, conn);
    lone_progress(ctx);
}

/* --- what this side does ---------------------------------------------------------------------- */

static void op_connect(struct fuzz_in *in)
{
    vbn_endpoint_t *ep = claim(fuzz_u8(in) % PEERS);

    if (ep)
        fuzz_check(vbn_endpoint_connect(ep) <= 0, "connecting says how it went");
}

static void op_send(struct fuzz_in *in)
{
    unsigned peer = fuzz_u8(in) % PEERS;
    vbn_endpoint_t *ep = endpoint_of(peer);
    struct iovec iov = {(char *)"x", 1};

    if (ep)
        fuzz_check(vbn_am_send(ep, ID, &iov, 1) <= 0, "sending says how it went");
}

static void op_close(struct fuzz_in *in)
{
    unsigned peer = fuzz_u8(in) % PEERS;
    vbn_endpoint_t *ep = endpoint_of(peer);

    if (!ep)
        return;
    released[peer] = true;
    vbn_endpoint_close(ep);
    lone_progress(ctx);
}

static void op_complete(struct fuzz_in *in)
{
    unsigned count = conn_count();
    struct vbn_conn *conn = count ? conn_at(fuzz_u8(in) % count) : NULL;

    if (conn && conn->q.qp)
        lone_complete(conn);
}

static void op_wait(struct fuzz_in *in)
{
    unit.now_ns += fuzz_u8(in) * (uint64_t)(10 * UNIT_MS);
    lone_progress(ctx);
}

/* One of the next calls of its kind fails. */
static void op_fault(struct fuzz_in *in)
{
    enum fake_call call = FAKE_CREATE_CQ + fuzz_u8(in) % (FAKE_CALLS - FAKE_CREATE_CQ);

    if (call != FAKE_POLL_CQ && call != FAKE_GETIFADDRS && call != FAKE_CREATE_CHANNEL)
        fake_fail(call, 1 + fuzz_u8(in) % 4, 12);
}

static void op_no_memory(struct fuzz_in *in)
{
    unit_fail_alloc(1 + fuzz_u8(in) % 4);
}

static void operate(struct fuzz_in *in)
{
    static void (*const ops[])(struct fuzz_in *) = {
        op_request, op_request, op_event,    op_event, op_event, op_event, op_connect,
        op_connect, op_send,    op_complete, op_close, op_wait,  op_fault, op_no_memory};

    ops[fuzz_u8(in) % (sizeof(ops) / sizeof(ops[0]))](in);
}

/* --- one run ---------------------------------------------------------------------------------- */

static uint8_t how_to_open;

static void tweak(struct vbn_options *opts)
{
    opts->use_srq = how_to_open & 1;
    opts->srq_depth = how_to_open & 2 ? 64 : 256;
    opts->cq_size = how_to_open & 4 ? 256 : 1024;
    opts->connect_timeout_ms = 1000;
}

/* Whatever the peers did, all ends within bounded time, and nothing is held any more. */
static void end(void)
{
    unit_wrap_reset();
    for (int i = 0; i < 40 && vbn_shutdown(ctx); i++) {
        unit.now_ns += 600 * (uint64_t)UNIT_MS;
        lone_progress(ctx);
    }
    unit.tick_ns = UNIT_MS;
    vbn_close(ctx);
    lone_teardown(NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};

    lone_setup(NULL);
    memset(released, 0, sizeof(released));
    how_to_open = fuzz_u8(&in);
    if (how_to_open & 8)
        lone_device->device.transport_type = IBV_TRANSPORT_IWARP;
    ctx = lone_open(tweak);
    for (int n = 0; n < OPS_MAX && in.left; n++)
        operate(&in);
    end();
    return 0;
}
