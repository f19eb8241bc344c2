/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An established connection whose peer sends what it likes, in any order with what this side does.
 * A model of the rules (doc/wire.md), made of nothing but what went over the wire, tells what must
 * come of each message: a legal one is taken, any other ends the endpoint and is not delivered.
 */
#include "fuzz.h"

#include "../unit/lone.h"

#include "rma.h"

#include <stdlib.h>

enum { PEER = 7, ID = 5, OPS_MAX = 300, BYTES_MAX = 1200 };

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;

/* What the peer knows, and what it said. */
static struct {
    uint16_t told, sent;       /* messages it may send by our last word, and has sent */
    uint16_t granted, taken;   /* messages we may send by its last word, and have sent */
    uint32_t seq, ack, queued; /* its next number; ours that it acknowledged, and that we sent */
    unsigned read;             /* of our sends, that it has looked at */
    bool released;             /* we closed the endpoint */
} peer;

/* What our handler saw, and does besides. */
static struct {
    unsigned calls, done;
    uint8_t bytes[BYTES_MAX];
    size_t len;
    enum { NOTHING, REPLY, CLOSE } act;
} got;

static unsigned char region[256];
static vbn_mem_t *mem;

static void close_endpoint(void)
{
    if (!peer.released)
        vbn_endpoint_close(ep);
    peer.released = true;
}

static void handler(void *arg, vbn_endpoint_t *from, uint8_t id, void *data, size_t len)
{
    struct iovec iov = {data, len};

    fuzz_check(arg == &got && from == ep && id == ID, "the handler is told what it was set for");
    fuzz_check(len <= sizeof(got.bytes), "the length of a message");
    got.calls++;
    got.len = len;
    memcpy(got.bytes, data, len);
    if (got.act == REPLY)
        vbn_am_send(from, ID, &iov, 1);
    else if (got.act == CLOSE)
        close_endpoint();
}

static void done(void *arg, vbn_endpoint_t *of, int status)
{
    fuzz_check(arg == &got && of == ep && status <= 0, "an operation ends as it began");
    got.done++;
}

/* --- the model -------------------------------------------------------------------------------- */

static bool alive(void)
{
    struct vbn_conn *c;

    TAILQ_FOREACH(c, &ctx->conns, entry)
    {
        if (c == conn)
            return conn->state == VBN_CONN_ESTABLISHED;
    }
    return false;
}

/* One batch may not be all that has completed. */
static void take_all(void)
{
    do
        vbn_progress(ctx);
    while (fake_completions(ctx->cqs.cq[0]->cq));
}

/* Looks at what this side has sent since: grants, and the rules that it has to keep. */
static void read_ours(void)
{
    const struct fake_qp *qp = fake_qp(conn->q.qp);
    struct vbn_wire_hdr h;

    for (; peer.read < qp->send_count; peer.read++) {
        const struct fake_send *s = &qp->sends[peer.read];

        if (s->wr.opcode != IBV_WR_SEND || !s->wr.num_sge)
            continue;
        fuzz_check(vbn_wire_hdr_read(s->bytes, s->sge.length, &h), "we send good headers");
        fuzz_check(peer.taken != peer.granted, "we keep to our credits");
        fuzz_check(h.type != VBN_WIRE_AM || (uint16_t)(peer.granted - peer.taken) > 1,
                   "the last credit is kept for acknowledgements");
        fuzz_check(h.seq == peer.queued, "we number our messages one by one");
        fuzz_check(peer.seq - h.ack <= 1, "we acknowledge what came"); /* or is being delivered */
        peer.taken++;
        peer.queued += h.type == VBN_WIRE_AM;
        peer.told = h.credits;
    }
}

static bool is_legal(const uint8_t *bytes, size_t len, struct vbn_wire_hdr *h)
{
    uint16_t credits = (uint16_t)(peer.granted - peer.taken), more;

    if (len < sizeof(*h))
        return false;
    memcpy(h, bytes, sizeof(*h));
    h->credits = le16toh(h->credits);
    h->len = le32toh(h->len);
    h->seq = le32toh(h->seq);
    h->ack = le32toh(h->ack);
    more = (uint16_t)(h->credits - peer.taken);
    if (h->type < VBN_WIRE_AM || h->type > VBN_WIRE_BYE || h->len != len - sizeof(*h) ||
        (h->type != VBN_WIRE_AM && (h->len || h->id)))
        return false;
    return peer.sent != peer.told && more >= credits && more <= VBN_WINDOW_MAX &&
           h->seq == peer.seq && h->ack - peer.ack <= peer.queued - peer.ack;
}

/* Not legal, but the device's doing perhaps, where the connection had begun well: a message out of
 * its order, of which nothing else counts then, one too many, or an empty one. */
static bool is_doubtful(const uint8_t *bytes, size_t len)
{
    uint16_t credits = (uint16_t)(peer.granted - peer.taken), more;
    struct vbn_wire_hdr h;

    if (!peer.sent || (len && !vbn_wire_hdr_read(bytes, len, &h)))
        return false;
    if (!len || h.seq != peer.seq)
        return true;
    more = (uint16_t)(h.credits - peer.taken);
    return peer.sent == peer.told || more < credits || more > VBN_WINDOW_MAX;
}

/* What illegal bytes must come to, where CALLS and FAILURES were told of before. */
static void expect_end(bool released, bool doubtful, unsigned calls, unsigned failures)
{
    bool told;

    fuzz_check(got.calls == calls, "what is illegal is not delivered");
    fuzz_check(!alive(), "what is illegal ends the connection");
    if (released)
        return;
    told = !doubtful || !ctx->opts.recovery_timeout_ms;
    fuzz_check(unit.failures == failures + told, "what cannot be mended is told once");
    fuzz_check(!told || unit.failed[0].status == (doubtful ? VBN_ERR_PEER_LOST : VBN_ERR_PROTOCOL),
               "as what it is");
}

/* The peer's bytes, and what must come of them. */
static void message(const uint8_t *bytes, size_t len)
{
    unsigned calls = got.calls, failures = unit.failures;
    bool released = peer.released, legal, doubtful;
    struct vbn_wire_hdr h;

    if (peer.sent == peer.told) { /* completions that wait may lead to a new grant */
        take_all();
        if (!alive())
            return;
        read_ours();
    }
    legal = is_legal(bytes, len, &h);
    doubtful = is_doubtful(bytes, len);
    if (!fake_message(conn->q.qp, bytes, len)) {
        fuzz_check(!legal, "who keeps to his credits finds a buffer");
        return;
    }
    if (legal) {
        peer.sent++;
        peer.granted = h.credits;
        peer.ack = h.ack;
        peer.seq += h.type == VBN_WIRE_AM;
    }
    take_all();
    if (!legal) {
        expect_end(released, doubtful, calls, failures);
        return;
    }
    fuzz_check(unit.failures == failures, "what is legal does no harm");
    fuzz_check(h.type != VBN_WIRE_BYE || !alive(), "a farewell ends the connection");
    if (h.type != VBN_WIRE_AM || h.id != ID || (released && !alive()))
        return; /* nobody to deliver to: our farewell had gone before it came */
    fuzz_check(got.calls == calls + 1, "a legal message is delivered once");
    fuzz_check(got.len == h.len && !memcmp(got.bytes, bytes + sizeof(h), h.len), "as it was sent");
}

/* --- operations ------------------------------------------------------------------------------- */

static size_t good_message(struct fuzz_in *in, uint8_t *bytes)
{
    struct vbn_wire_hdr h = {.type = VBN_WIRE_AM, .id = ID, .seq = peer.seq, .ack = peer.queued};
    uint8_t how = fuzz_u8(in);

    if (how >= 0xc0)
        h.type = how >= 0xf0 ? VBN_WIRE_BYE : VBN_WIRE_ACK;
    h.id = h.type == VBN_WIRE_AM ? ID : 0;
    h.len = h.type == VBN_WIRE_AM ? how * 4u : 0;
    h.credits = (uint16_t)(peer.taken + lone_credits);
    if (how & 1 || (uint16_t)(h.credits - peer.taken) < (uint16_t)(peer.granted - peer.taken))
        h.credits = peer.granted; /* it grants nothing, or must not take back what it did */
    vbn_wire_hdr_write(bytes, &h);
    for (uint32_t i = 0; i < h.len; i++)
        bytes[sizeof(h) + i] = (uint8_t)(how + i);
    return sizeof(h) + h.len;
}

static void op_good(struct fuzz_in *in)
{
    uint8_t bytes[BYTES_MAX];
    size_t len = good_message(in, bytes);

    if (peer.sent != peer.told)
        message(bytes, len);
}

static void op_patched(struct fuzz_in *in)
{
    uint8_t bytes[BYTES_MAX];
    size_t len = good_message(in, bytes);
    size_t head = fuzz_patch(in, bytes, sizeof(struct vbn_wire_hdr), sizeof(struct vbn_wire_hdr));

    message(bytes, head < sizeof(struct vbn_wire_hdr) ? head : len);
}

static void op_raw(struct fuzz_in *in)
{
    uint8_t bytes[64];
    size_t len = fuzz_bytes(in, bytes, fuzz_u8(in) % sizeof(bytes));

    message(bytes, len);
}

static void op_send(struct fuzz_in *in)
{
    static uint8_t bytes[BYTES_MAX];
    struct iovec iov = {bytes, fuzz_u8(in) * 5u};
    int rc = vbn_am_send(ep, ID, &iov, 1);

    if (iov.iov_len > ctx->max_am_len)
        fuzz_check(rc == VBN_ERR_INVALID, "too long a message is refused");
    else
        fuzz_check(rc == VBN_OK || rc == VBN_ERR_AGAIN, "a message is taken, or later");
}

static void op_rma(struct fuzz_in *in)
{
    size_t len = fuzz_u8(in);
    int rc = len & 1 ? vbn_put(ep, region, mem, 0x1000, 1, len, done, &got)
                     : vbn_get(ep, region, mem, 0x1000, 1, len, done, &got);

    fuzz_check(len ? rc == VBN_OK || rc == VBN_ERR_AGAIN : rc == VBN_ERR_INVALID, "a put or get");
}

static void op_complete(struct fuzz_in *in)
{
    (void)in;
    lone_complete(conn);
}

static void op_time(struct fuzz_in *in)
{
    (void)in;
    lone_progress(ctx);
}

static void op_handler(struct fuzz_in *in)
{
    got.act = fuzz_u8(in) % 3;
}

static void op_close(struct fuzz_in *in)
{
    (void)in;
    close_endpoint();
    vbn_progress(ctx);
}

static void op_receive_fails(struct fuzz_in *in)
{
    if (fake_qp_posted(conn->q.qp) || (ctx->rx.shared.srq && fake_srq_posted(ctx->rx.shared.srq)))
        fake_recv_fails(conn->q.qp, 1 + fuzz_u8(in) % IBV_WC_GENERAL_ERR);
    take_all();
}

static void op_leave(struct fuzz_in *in)
{
    (void)in;
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
}

/* The endpoint is the caller's no more once it was closed. */
static bool needs_endpoint(void (*op)(struct fuzz_in *))
{
    return op == op_send || op == op_rma;
}

static void operate(struct fuzz_in *in)
{
    static void (*const ops[])(struct fuzz_in *) = {
        op_good, op_good,     op_good, op_patched, op_raw,   op_send,          op_send,
        op_rma,  op_complete, op_time, op_handler, op_close, op_receive_fails, op_leave};
    void (*op)(struct fuzz_in *) = ops[fuzz_u8(in) % (sizeof(ops) / sizeof(ops[0]))];

    if (peer.released && needs_endpoint(op))
        return;
    op(in);
    if (alive())
        read_ours();
}

/* --- one run ---------------------------------------------------------------------------------- */

static uint8_t how_to_open;

static void tweak(struct vbn_options *opts)
{
    opts->use_srq = how_to_open & 1;
    opts->window = how_to_open & 2 ? VBN_WINDOW_MIN : 64;
    opts->sq_depth = how_to_open & 4 ? 4 : 64;
    opts->inline_limit = how_to_open & 8 ? 0 : 256;
    opts->tx_buffers = 64;
    opts->signal_period = how_to_open & 16 ? 1 : 16;
}

static void begin(struct fuzz_in *in)
{
    struct vbn_wire_hello ours;

    lone_setup(NULL);
    how_to_open = fuzz_u8(in);
    lone_credits = (uint16_t)(VBN_WINDOW_MIN + fuzz_u16(in) % (VBN_WINDOW_MAX - VBN_WINDOW_MIN));
    if (how_to_open & 32)
        lone_device->device.transport_type = IBV_TRANSPORT_IWARP;
    ctx = lone_open(tweak);
    vbn_am_handler(ctx, ID, handler, &got);
    conn = how_to_open & 64 ? lone_accept(ctx, PEER) : lone_connect(ctx, PEER);
    ep = conn->ep;
    vbn_endpoint_claim(ep, NULL); /* of strangers nobody is told */
    memset(&peer, 0, sizeof(peer));
    memset(&got, 0, sizeof(got));
    fuzz_check(vbn_wire_hello_read(fake_id(conn->id)->data, fake_id(conn->id)->data_len, &ours),
               "our private data are good");
    peer.told = ours.credits;
    peer.granted = lone_credits;
    fuzz_check(vbn_mem_register(ctx, region, sizeof(region), VBN_ACCESS_LOCAL_WRITE, &mem) == 0,
               "memory is registered");
    read_ours();
}

/* Whatever the peer did, nothing is held any more once all is over. */
static void end(void)
{
    close_endpoint();
    if (alive())
        fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    for (int i = 0; i < 6 && (vbn_shutdown(ctx) || ctx->endpoints); i++) {
        unit.now_ns += 600 * (uint64_t)UNIT_MS;
        lone_progress(ctx);
    }
    fuzz_check(vbn_shutdown(ctx) == 0, "all is over");
    fuzz_check(!ctx->endpoints, "the closed endpoint is gone");
    fuzz_check(ctx->msgs.free_count == ctx->msgs.count, "every message is back");
    fuzz_check(ctx->rmas.free_count == ctx->rmas.count, "every put and get has ended");
    fuzz_check(ctx->ctls.free_count == ctx->ctls.count, "every control buffer is back");
    fuzz_check(vbn_close(ctx) == VBN_OK, "closing finds nothing left");
    lone_teardown(NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};

    begin(&in);
    for (int n = 0; n < OPS_MAX && in.left && alive(); n++)
        operate(&in);
    end();
    return 0;
}
