/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An established connection whose peer sends what it likes, in any order with what this side does.
 * A model of the rules (doc/wire.md), made of nothing but what went over the wire, tells what must
 * come of each message: a legal one is taken, any other ends the endpoint and is not delivered.
 */
#include "fuzz.h"

#include "../unit/lone.h"

#include "rma.h"

#include <arpa/inet.h>
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
    struct vbn_wire_ring said, word; /* of rings: by it, and by us */
    unsigned slot;                   /* of our ring, that it writes next */
    unsigned slots;                  /* of its ring, that we have written */
    uint32_t heard;                  /* of its own, that we acknowledged last */
    unsigned whole;                  /* long messages that it sent whole */
    uint8_t fills[VBN_BARE_HEADS];   /* what the last of those began with */
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

static bool is_numbered(const struct vbn_wire_hdr *h)
{
    return h->type == VBN_WIRE_AM || h->type == VBN_WIRE_MARK;
}

/* One batch may not be all that has completed. */
static void take_all(void)
{
    do
        vbn_progress(ctx);
    while (fake_completions(ctx->cqs.cq[0]->cq));
}

/* What we have written into the peer's ring is whole, and in the slot that it looks at next. */
static void read_ring_write(const struct fake_send *s, struct vbn_wire_hdr *h)
{
    uint64_t at = peer.said.addr + (uint64_t)(peer.slots++ % VBN_RING_SLOTS) * VBN_RING_SLOT;
    uint64_t slot[VBN_RING_SLOT / 8] = {0}, copy[VBN_RING_SLOT / 8];

    fuzz_check(peer.said.count % 2 && s->wr.wr.rdma.rkey == peer.said.rkey, "there is a ring");
    fuzz_check(s->wr.wr.rdma.remote_addr == at && s->sge.length <= VBN_RING_SLOT, "and a slot");
    memcpy(slot, s->bytes, s->sge.length);
    fuzz_check(vbn_wire_sealed_read(slot, (uint16_t)(peer.taken + 1), copy, h), "sealed");
    fuzz_check(h->type == VBN_WIRE_AM, "only messages go by rings");
}

/* A long message of ours without its head. */
static void read_bare(const struct fake_send *s, struct vbn_wire_hdr *h)
{
    struct vbn_wire_bare bare = vbn_wire_bare_unpack(ntohl(s->wr.imm_data));

    fuzz_check(conn->version >= 3 && s->sge.length % 1024 == 0, "whole packets, which it knows of");
    fuzz_check(bare.seq == peer.queued % 16, "the lowest bits of its number");
    *h = (struct vbn_wire_hdr){.type = VBN_WIRE_AM,
                               .credits = (uint16_t)(peer.told + bare.news),
                               .seq = peer.queued,
                               .ack = peer.heard + bare.news};
}

/* Looks at what this side has sent since: grants, and the rules that it has to keep. */
static void read_ours(void)
{
    const struct fake_qp *qp = fake_qp(conn->q.qp);
    struct vbn_wire_hdr h;

    for (; peer.read < qp->send_count; peer.read++) {
        const struct fake_send *s = &qp->sends[peer.read];

        if (s->wr.opcode == IBV_WR_RDMA_WRITE && s->wr.num_sge &&
            s->sge.addr - (uintptr_t)region >= sizeof(region)) /* no put */
            read_ring_write(s, &h);
        else if (s->wr.opcode == IBV_WR_SEND_WITH_IMM)
            read_bare(s, &h);
        else if (s->wr.opcode != IBV_WR_SEND || !s->wr.num_sge)
            continue;
        else
            fuzz_check(vbn_wire_hdr_read(s->bytes, s->sge.length, &h), "we send good headers");
        if (h.type == VBN_WIRE_RING)
            fuzz_check(vbn_wire_ring_read(s->bytes + sizeof(h), &peer.word), "a good word");
        fuzz_check(peer.taken != peer.granted, "we keep to our credits");
        fuzz_check(!is_numbered(&h) || (uint16_t)(peer.granted - peer.taken) > 1,
                   "the last credit is kept for acknowledgements");
        fuzz_check(h.seq == peer.queued, "we number our messages one by one");
        fuzz_check(h.type != VBN_WIRE_MARK || ctx->device.iwarp, "marks where they are needed");
        fuzz_check(peer.seq - h.ack <= 1, "we acknowledge what came"); /* or is being delivered */
        peer.taken++;
        peer.queued += is_numbered(&h);
        peer.told = h.credits;
        peer.heard = h.ack;
    }
}

/* What the peer says of rings: its count goes on by one, once we have said that we heard the last;
 * and it has heard our last or the one before. (It looks at what we send after each message.) */
static bool is_legal_word(const uint8_t *bytes, struct vbn_wire_ring *w)
{
    return conn->version >= 2 && !ctx->device.iwarp && vbn_wire_ring_read(bytes, w) &&
           (w->heard == peer.word.count || w->heard == peer.said.heard) &&
           (w->count == peer.said.count || w->count == (uint16_t)(peer.said.count + 1));
}

static bool is_legal(const uint8_t *bytes, size_t len, struct vbn_wire_hdr *h)
{
    struct vbn_wire_ring word;
    uint16_t credits = (uint16_t)(peer.granted - peer.taken), more;

    if (len < sizeof(*h))
        return false;
    memcpy(h, bytes, sizeof(*h));
    h->credits = le16toh(h->credits);
    h->len = le32toh(h->len);
    h->seq = le32toh(h->seq);
    h->ack = le32toh(h->ack);
    more = (uint16_t)(h->credits - peer.taken);
    if (h->type < VBN_WIRE_AM || h->type > VBN_WIRE_TYPE_LAST || h->type == VBN_WIRE_TAG ||
        h->len != len - sizeof(*h) || (h->type != VBN_WIRE_AM && h->id) ||
        (h->type != VBN_WIRE_AM && h->len != (h->type == VBN_WIRE_RING ? sizeof(word) : 0)))
        return false;
    if (h->type == VBN_WIRE_RING && !is_legal_word(bytes + sizeof(*h), &word))
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

/* One message more than CALLS, of LEN bytes; none for an endpoint that had been RELEASED. */
static void expect_delivered(bool released, unsigned calls, const void *bytes, size_t len)
{
    fuzz_check(got.calls == calls + !released, "a legal message is delivered once");
    fuzz_check(released || (got.len == len && !memcmp(got.bytes, bytes, len)), "as it was sent");
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
        peer.seq += is_numbered(&h);
    }
    if (legal && h.type == VBN_WIRE_RING) {
        struct vbn_wire_ring before = peer.said;

        vbn_wire_ring_read(bytes + sizeof(h), &peer.said);
        if (peer.said.count != before.count)
            peer.slots = 0;
        else /* only a new count brings a new ring */
            peer.said.addr = before.addr, peer.said.rkey = before.rkey;
    }
    take_all();
    if (!legal) {
        expect_end(released, doubtful, calls, failures);
        return;
    }
    fuzz_check(unit.failures == failures, "what is legal does no harm");
    fuzz_check(h.type != VBN_WIRE_BYE || !alive(), "a farewell ends the connection");
    if (h.type == VBN_WIRE_AM && h.id == ID)
        expect_delivered(released, calls, bytes + sizeof(h), h.len);
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

/* A word about rings: a right one, or with something wrong in it. */
static void op_ring_word(struct fuzz_in *in)
{
    uint8_t bytes[sizeof(struct vbn_wire_hdr) + sizeof(struct vbn_wire_ring)], how = fuzz_u8(in);
    struct vbn_wire_hdr h = {.type = VBN_WIRE_RING,
                             .len = sizeof(struct vbn_wire_ring),
                             .credits = peer.granted,
                             .seq = peer.seq,
                             .ack = peer.queued};
    struct vbn_wire_ring w = peer.said;

    if (peer.sent == peer.told)
        return;
    if (how & 1 && peer.word.heard == peer.said.count) {
        w.count++;
        w.addr = w.count % 2 ? 0x10000u * (1 + how) : 0;
        w.rkey = how;
    }
    if (how & 2)
        w.heard = peer.word.count;
    vbn_wire_hdr_write(bytes, &h);
    vbn_wire_ring_write(bytes + sizeof(h), &w);
    if (how >= 0xe0)
        fuzz_patch(in, bytes + sizeof(h), sizeof(w), sizeof(w));
    message(bytes, sizeof(bytes));
}

/* What is written into our ring, well sealed as the next message: what must come of it? */
static void ring_message(const struct vbn_wire_hdr *h, const uint8_t *payload)
{
    uint16_t credits = (uint16_t)(peer.granted - peer.taken);
    uint16_t more = (uint16_t)(h->credits - peer.taken);
    bool doubtful = peer.sent == peer.told || more < credits || more > VBN_WINDOW_MAX;
    bool legal = !doubtful && h->type == VBN_WIRE_AM && h->ack - peer.ack <= peer.queued - peer.ack;
    unsigned calls = got.calls, failures = unit.failures;
    bool released = peer.released;

    doubtful = doubtful && (h->type == VBN_WIRE_AM || h->type == VBN_WIRE_TAG);
    if (legal) {
        peer.sent++;
        peer.granted = h->credits;
        peer.ack = h->ack;
        peer.seq++;
    }
    take_all();
    if (!legal) {
        expect_end(released, doubtful, calls, failures);
        return;
    }
    fuzz_check(unit.failures == failures, "what is legal does no harm");
    if (h->id == ID)
        expect_delivered(released, calls, payload, h->len);
}

/* Bytes into the slot of our ring that is next; HOW says what is wrong with them. */
static void op_ring_write(struct fuzz_in *in)
{
    uint8_t how = fuzz_u8(in), bytes[VBN_RING_SLOT + 8], *slot;
    struct vbn_wire_hdr h = {.type = VBN_WIRE_AM,
                             .id = ID,
                             .len = how % (VBN_RING_ROOM + 1),
                             .credits = peer.granted,
                             .seq = peer.seq,
                             .ack = peer.queued};
    uint8_t *payload = bytes + sizeof(h);
    unsigned calls = got.calls;

    if (!conn->ring.in.slots || peer.word.count % 2 == 0 || peer.said.heard != peer.word.count)
        return; /* who writes elsewhere is refused by the device */
    take_all(); /* a new grant perhaps */
    if (!alive())
        return;
    read_ours();
    if (!conn->ring.in.slots)
        return;
    slot = (uint8_t *)(uintptr_t)peer.word.addr + peer.slot % VBN_RING_SLOTS * VBN_RING_SLOT;
    memset(payload, how, h.len);
    if (how & 0x80) {
        uint8_t head[sizeof(h)];

        vbn_wire_hdr_write(head, &h);
        fuzz_patch(in, head, sizeof(head), sizeof(head));
        memcpy(&h, head, sizeof(h)); /* little-endian hosts */
        h.credits = le16toh(h.credits), h.len = le32toh(h.len);
        h.seq = le32toh(h.seq), h.ack = le32toh(h.ack);
        if (h.len > VBN_RING_ROOM || h.seq != peer.seq || h.type == VBN_WIRE_TAG) {
            memcpy(slot, head, sizeof(head));
            take_all();
            fuzz_check(got.calls == calls, "nothing is taken before it is there");
            return;
        }
    }
    vbn_wire_sealed_write(bytes, &h, vbn_wire_sealed_len(h.len), (uint16_t)(peer.sent + 1));
    if (how & 0x40) { /* not all of it yet */
        memcpy(slot, bytes, sizeof(h));
        slot[vbn_wire_sealed_len(h.len) - 1] = (uint8_t)~bytes[vbn_wire_sealed_len(h.len) - 1];
        take_all();
        fuzz_check(got.calls == calls, "nothing is taken before all of it is there");
    }
    memcpy(slot, bytes, vbn_wire_sealed_len(h.len));
    peer.slot++;
    ring_message(&h, payload);
}

enum { LONG = 1024 };

/* A long message, whose head is kept. */
static void op_long(struct fuzz_in *in)
{
    uint8_t bytes[BYTES_MAX], fill = fuzz_u8(in);
    struct vbn_wire_hdr h = {.type = VBN_WIRE_AM,
                             .id = ID,
                             .len = LONG,
                             .credits = peer.granted,
                             .seq = peer.seq,
                             .ack = peer.queued};

    if (peer.sent == peer.told)
        return;
    vbn_wire_hdr_write(bytes, &h);
    memset(bytes + sizeof(h), fill, LONG);
    peer.fills[peer.whole++ % VBN_BARE_HEADS] = fill;
    message(bytes, sizeof(h) + LONG);
}

/* What the model makes of LEN bytes that come bare. */
static bool is_legal_bare(const struct vbn_wire_bare *b, size_t len, bool *doubtful)
{
    uint16_t credits = (uint16_t)(peer.granted + b->news - peer.taken);
    bool too_many = peer.sent == peer.told || credits > VBN_WINDOW_MAX;
    size_t left_out = LONG - len;
    bool known = conn->version >= 3 && b->head < peer.whole && left_out <= VBN_BARE_HEAD &&
                 left_out % 2 == 0 && (b->word == 0 || 2u * b->word < left_out);
    bool next = known && b->seq == peer.seq % 16;

    if (len < LONG - VBN_BARE_HEAD) { /* no long one, whatever comes with it */
        *doubtful = peer.sent && !len;
        return false;
    }
    *doubtful = peer.sent && (!next || too_many);
    return next && !too_many && b->news <= peer.queued - peer.ack;
}

/* A word on a put: nothing has been offered, and no place been told, so it is for nobody. */
static void op_rider(struct fuzz_in *in)
{
    uint32_t imm = fuzz_u16(in) | (uint32_t)fuzz_u16(in) << 16;
    size_t len = VBN_RIDER_MIN + fuzz_u16(in);
    unsigned calls, failures = unit.failures;
    bool released = peer.released, next;
    struct vbn_wire_rider word;
    uint16_t credits;

    take_all();
    if (!alive())
        return;
    read_ours();
    if (imm & 1) /* the next message, for certain */
        imm = vbn_wire_rider_pack(
            &(struct vbn_wire_rider){.number = (uint16_t)imm, .seq = peer.seq % 16});
    next = vbn_wire_rider_unpack(imm, &word) && conn->version >= VBN_WIRE_RIDERS && !word.placed &&
           word.seq == peer.seq % 16;
    credits = (uint16_t)(peer.granted + word.news - peer.taken);
    calls = got.calls;
    if (!fake_put_imm(conn->q.qp, len, htonl(imm)))
        return;
    take_all();
    expect_end(released, peer.sent && (!next || peer.sent == peer.told || credits > VBN_WINDOW_MAX),
               calls, failures);
}

/* A bare one: a right one, or with anything wrong in it. */
static void op_bare(struct fuzz_in *in)
{
    uint8_t how = fuzz_u8(in), bytes[LONG + 16], want[LONG], fill = fuzz_u8(in);
    struct vbn_wire_bare b = {.head = how & 3, .value = 0x5a5a};
    size_t len = LONG - (how >> 2 & 15) * 2u, left_out;
    unsigned calls, failures = unit.failures;
    bool released = peer.released, legal, doubtful;

    take_all();
    if (!alive())
        return;
    read_ours();
    b.seq = peer.seq % 16;
    if (how & 0x40)
        b.news = (uint8_t)(peer.queued - peer.ack > 63 ? 63 : peer.queued - peer.ack);
    if (how & 0x80) {
        b = vbn_wire_bare_unpack(ntohl(fuzz_u16(in) | (uint32_t)fuzz_u16(in) << 16));
        len = fuzz_u16(in) % (sizeof(bytes) + 1);
    }
    calls = got.calls;
    legal = is_legal_bare(&b, len, &doubtful);
    memset(bytes, fill, sizeof(bytes));
    if (!fake_message_imm(conn->q.qp, bytes, len, htonl(vbn_wire_bare_pack(&b)))) {
        fuzz_check(!legal, "who keeps to his credits finds a buffer");
        return;
    }
    if (legal) {
        peer.sent++;
        peer.granted = (uint16_t)(peer.granted + b.news);
        peer.ack += b.news;
        peer.seq++;
    }
    take_all();
    if (!legal) {
        expect_end(released, doubtful, calls, failures);
        return;
    }
    fuzz_check(unit.failures == failures, "what is legal does no harm");
    left_out = LONG - len;
    memset(want, fill, sizeof(want));
    memset(want, peer.fills[b.head], left_out);
    if (left_out) {
        want[2 * b.word] = (uint8_t)b.value;
        want[2 * b.word + 1] = (uint8_t)(b.value >> 8);
    }
    expect_delivered(released, calls, want, LONG);
}

static void op_send(struct fuzz_in *in)
{
    static uint8_t bytes[BYTES_MAX];
    uint8_t how = fuzz_u8(in);
    struct iovec iov = {bytes, how == 0xcc ? LONG : how * 5u};
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
        op_good,          op_good,  op_good,      op_patched,   op_raw,        op_send,
        op_send,          op_rma,   op_complete,  op_time,      op_handler,    op_close,
        op_receive_fails, op_leave, op_ring_word, op_ring_word, op_ring_write, op_ring_write,
        op_long,          op_bare,  op_bare,      op_rider};
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
    opts->ring_after = how_to_open & 128 ? 2 : 64;
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
