/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings: when one is offered and withdrawn, what goes by it, and in which order all of it counts.
 */
#include "lone.h"

#include <errno.h>

#define ID   5
#define PEER 7
#define HOT  4 /* short messages before a ring is offered */

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;
static unsigned got;
static char last; /* the first byte of the message that came last */
static size_t last_len;

static void take(void *arg, vbn_endpoint_t *from, uint8_t id, void *data, size_t len)
{
    (void)arg;
    assert_int_equal(id, ID);
    assert_ptr_equal(from, ep);
    assert_int_equal((uintptr_t)data % 16, 0);
    got++;
    last = len ? *(const char *)data : 0;
    last_len = len;
}

static void tweak(struct vbn_options *opts)
{
    opts->ring_after = HOT;
    opts->ring_peers = 2;
}

/* A connection to a peer whose answer is of wire VERSION. */
static void start_with(uint8_t version, void (*change)(struct vbn_options *))
{
    ctx = lone_open(change);
    vbn_am_handler(ctx, ID, take, NULL);
    conn = lone_connect_by(ctx, PEER, version);
    ep = conn->ep;
}

static void start(void (*change)(struct vbn_options *))
{
    start_with(VBN_WIRE_VERSION, change);
}

static int setup(void **state)
{
    lone_setup(state);
    got = 0;
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

static void short_ones(struct vbn_conn *from, unsigned count)
{
    static const char byte = 's';

    while (count--)
        lone_am(from, ID, &byte, 1);
    lone_complete(from);
}

/* Our ring is there, and the peer has taken it up. */
static void open_ring(void)
{
    start(tweak);
    short_ones(conn, HOT);
    lone_ring_heard(conn);
    lone_complete(conn);
    assert_non_null(conn->ring.in.slots);
    got = 0;
}

/* The last word about rings that CONN has said; false: none. */
static bool last_word(const struct vbn_conn *by, struct vbn_wire_ring *word)
{
    struct vbn_wire_hdr hdr;
    const struct fake_send *s;

    for (unsigned n = lone_sent(by); n-- > 0;) {
        if (lone_send_at(by, n, NULL)->wr.opcode != IBV_WR_SEND)
            continue;
        s = lone_send_at(by, n, &hdr);
        if (hdr.type == VBN_WIRE_RING)
            return vbn_wire_ring_read(s->bytes + sizeof(hdr), word);
    }
    return false;
}

/* --- offering ------------------------------------------------------------------------------------
 */

static void offered_to_who_sends_often(void **state)
{
    struct vbn_wire_ring word;

    (void)state;
    start(tweak);
    short_ones(conn, HOT - 1);
    assert_false(last_word(conn, &word));
    short_ones(conn, 1);
    assert_true(last_word(conn, &word));
    assert_int_equal(word.count, 1);
    assert_int_equal(word.heard, 0);
    assert_int_equal(word.addr, (uintptr_t)conn->ring.in.slots);
    assert_int_equal(word.rkey, conn->ring.in.mr->rkey);
    assert_int_equal(word.addr % 4096, 0); /* nothing else of ours is in its pages */
    short_ones(conn, 3 * HOT);
    assert_int_equal(conn->ring.in.count, 1); /* once */
}

static void not_for_long_messages_or_acknowledgements(void **state)
{
    static const char bytes[VBN_RING_ROOM + 1];

    (void)state;
    start(tweak);
    for (int i = 0; i < 3 * HOT; i++) {
        lone_am(conn, ID, bytes, sizeof(bytes));
        lone_ack(conn);
        lone_complete(conn);
    }
    assert_null(conn->ring.in.slots);
    for (int i = 0; i < HOT; i++)
        lone_am(conn, ID, bytes, VBN_RING_ROOM);
    assert_non_null(conn->ring.in.slots);
}

static void no_rings(struct vbn_options *opts)
{
    tweak(opts);
    opts->ring_peers = 0;
}

static void version_1(struct vbn_options *opts)
{
    tweak(opts);
    opts->wire_version = 1;
}

static void no_offer(uint8_t version, void (*change)(struct vbn_options *))
{
    start_with(version, change);
    short_ones(conn, 3 * HOT);
    assert_int_equal(conn->ring.in.count, 0);
    lone_close(ctx);
}

static void not_where_there_can_be_none(void **state)
{
    (void)state;
    no_offer(VBN_WIRE_VERSION, no_rings);
    no_offer(1, version_1);
    no_offer(1, tweak); /* a peer of the release before */
    lone_device->device.transport_type = IBV_TRANSPORT_IWARP;
    no_offer(VBN_WIRE_VERSION, tweak);
    start(tweak);
}

static void memory_that_cannot_be_registered(void **state)
{
    (void)state;
    start(tweak);
    fake_fail(FAKE_REG_MR, 1, ENOMEM);
    short_ones(conn, HOT);
    assert_null(conn->ring.in.slots);
    unit_fail_allocs(true);
    short_ones(conn, 0);
    unit_fail_allocs(false);
    assert_int_equal(got, HOT);
    short_ones(conn, HOT);
    assert_non_null(conn->ring.in.slots);
}

/* --- by the ring ---------------------------------------------------------------------------------
 */

static void taken_in_their_order(void **state)
{
    struct vbn_wire_hdr first, second;

    (void)state;
    open_ring();
    for (unsigned i = 0; i < 3 * VBN_RING_SLOTS; i++) {
        char bytes[VBN_RING_ROOM] = {(char)('a' + i % 26)};

        lone_ring_am(conn, ID, bytes, 1 + i % VBN_RING_ROOM);
        assert_int_equal(got, i + 1);
        assert_int_equal(last, bytes[0]);
        assert_int_equal(last_len, 1 + i % VBN_RING_ROOM);
        vbn_progress(ctx);
        assert_int_equal(got, i + 1);
        lone_complete(conn);
    }
    got = 0;
    /* One by the ring overtakes none that comes by a receive buffer. */
    first = second = lone_hdr(conn, VBN_WIRE_AM);
    first.id = second.id = ID;
    first.len = second.len = 1;
    second.seq++;
    lone_ring_write(conn, &second, "2", (uint16_t)(conn->flow.rx_count + 2));
    vbn_progress(ctx);
    assert_int_equal(got, 0);
    lone_message(conn, &first, "1");
    vbn_progress(ctx);
    assert_int_equal(got, 2);
    assert_int_equal(last, '2');
    /* And the other way round. */
    first.seq += 2, second.seq += 2;
    lone_ring_write(conn, &first, "3", (uint16_t)(conn->flow.rx_count + 1));
    lone_message(conn, &second, "4");
    vbn_progress(ctx); /* rings first */
    assert_int_equal(got, 4);
    assert_int_equal(last, '4');
    assert_int_equal(unit.failures, 0);
}

static unsigned others; /* messages of another peer */

static void take_other(void *arg, vbn_endpoint_t *from, uint8_t id, void *data, size_t len)
{
    (void)arg, (void)from, (void)id, (void)data, (void)len;
    others++;
}

/* However much comes by a ring, what is in the queue comes, too. */
static void the_queue_has_its_turn(void **state)
{
    struct vbn_conn *other;
    struct vbn_wire_hdr hdr;

    (void)state;
    open_ring();
    others = 0;
    vbn_am_handler(ctx, ID + 1, take_other, NULL);
    other = lone_connect(ctx, PEER + 1);
    hdr = lone_hdr(other, VBN_WIRE_AM);
    hdr.id = ID + 1;
    lone_queued(other, &hdr, NULL);
    for (unsigned i = 0; i < 8; i++)
        lone_ring_am(conn, ID, "r", 1);
    assert_int_equal(got, 8);
    assert_int_equal(others, 1);
}

/* What an acknowledgement grants must not come after what the message behind it does. */
/* Of messages without a number nobody sees that a device has given one twice. Then the order that
 * seals go by is one too high here, and the message behind the next one fits. */
static void not_ahead_of_its_number(void **state)
{
    struct vbn_wire_hdr first, second;

    (void)state;
    open_ring();
    first = second = lone_hdr(conn, VBN_WIRE_AM);
    first.id = second.id = ID;
    first.len = VBN_BARE_MIN;
    second.len = 1;
    second.seq++;
    lone_ring_write(conn, &second, "2", (uint16_t)(conn->flow.rx_count + 1));
    lone_message(conn, &first, NULL);
    assert_int_equal(got, 1);
    assert_int_equal(last_len, VBN_BARE_MIN);
    assert_int_equal(ep->rx_next, second.seq);
    /* It never fits; what comes behind it shows that, and ends the connection. */
    second.seq++;
    lone_message(conn, &second, "3");
    lone_progress(ctx);
    assert_int_equal(got, 1);
    assert_null(ep->conn);
    assert_int_equal(ep->rx_next, second.seq - 1);
    assert_contains(conn->cause, "out of order");
}

static void acknowledgements_are_not_overtaken(void **state)
{
    struct vbn_wire_hdr ack, am;
    uint16_t count;

    (void)state;
    open_ring();
    ack = lone_hdr(conn, VBN_WIRE_ACK);
    am = lone_hdr(conn, VBN_WIRE_AM);
    am.id = ID;
    am.credits++;
    count = conn->flow.rx_count;
    lone_ring_write(conn, &am, NULL, (uint16_t)(count + 2));
    vbn_progress(ctx);
    assert_int_equal(got, 0);
    lone_message(conn, &ack, NULL);
    vbn_progress(ctx);
    assert_int_equal(got, 1);
    assert_int_equal(conn->flow.rx_count, count + 2);
    assert_ptr_equal(ep->conn, conn);
}

/* In whatever order the bytes of a message come, it is taken when it is whole, and not before. */
static void taken_when_it_is_whole(void **state)
{
    static const char payload[12] = "one message";
    const size_t bytes = vbn_wire_sealed_len(sizeof(payload));
    uint64_t random = 1;

    (void)state;
    open_ring();
    for (unsigned i = 0; i < 500; i++) {
        struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);
        char *slot = (char *)(uintptr_t)conn->ring.in.next, was[VBN_RING_SLOT], is[VBN_RING_SLOT];
        unsigned before = got;

        memcpy(was, slot, sizeof(was));
        hdr.id = ID;
        hdr.len = sizeof(payload);
        lone_ring_write(conn, &hdr, payload, (uint16_t)(conn->flow.rx_count + 1));
        memcpy(is, slot, sizeof(is));
        memcpy(slot, was, sizeof(was));
        for (unsigned missing = 1; missing;) {
            vbn_progress(ctx);
            assert_int_equal(got, before);
            missing = 0;
            for (size_t at = 0; at < bytes; at++) {
                if (unit_random(&random) % 3 == 0)
                    slot[at] = is[at];
                missing += slot[at] != is[at];
            }
        }
        vbn_progress(ctx);
        assert_int_equal(got, before + 1);
        lone_complete(conn);
    }
    assert_int_equal(unit.failures, 0);
}

static void no_memory_for_what_comes(void **state)
{
    (void)state;
    open_ring();
    unit_fail_allocs(true);
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);
    hdr.id = ID;
    lone_ring_write(conn, &hdr, NULL, (uint16_t)(conn->flow.rx_count + 1));
    vbn_progress(ctx);
    assert_int_equal(got, 0);
    unit_fail_allocs(false);
    vbn_progress(ctx);
    assert_int_equal(got, 1);
}

/* --- what cannot be ------------------------------------------------------------------------------
 */

static void other_types_do_not_go_by_rings(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    open_ring();
    hdr = lone_hdr(conn, VBN_WIRE_BYE);
    lone_ring_write(conn, &hdr, NULL, (uint16_t)(conn->flow.rx_count + 1));
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PROTOCOL);
}

static void longer_than_a_slot(void **state)
{
    static const uint32_t lengths[] = {VBN_RING_ROOM + 1, 1u << 28, UINT32_MAX - 7, UINT32_MAX};
    uint64_t *slot;

    (void)state;
    open_ring();
    slot = (uint64_t *)(uintptr_t)conn->ring.in.next;
    for (unsigned i = 0; i < 4; i++) {
        slot[0] = htole64(VBN_WIRE_AM | ID << 8 | (uint64_t)lengths[i] << 32);
        slot[1] = htole64(ep->rx_next);
        lone_progress(ctx);
    }
    assert_int_equal(got, 0);
    assert_int_equal(unit.failures, 0);
}

/* The peer says WORD, whatever it is. */
static void say(const struct vbn_wire_ring *word)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_RING);
    char bytes[sizeof(*word)];

    hdr.len = sizeof(bytes);
    vbn_wire_ring_write(bytes, word);
    lone_message(conn, &hdr, bytes);
}

static void word_refused(const struct vbn_wire_ring *word)
{
    unit.failures = 0;
    open_ring();
    say(word);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PROTOCOL);
    lone_close(ctx);
}

static void words_that_cannot_be(void **state)
{
    (void)state;
    /* Ours has been offered once, and the peer has heard it; it has none itself. */
    word_refused(&(struct vbn_wire_ring){.heard = 2});
    word_refused(&(struct vbn_wire_ring){.heard = 0});
    word_refused(&(struct vbn_wire_ring){.count = 2, .heard = 1});
    word_refused(&(struct vbn_wire_ring){.count = 3, .addr = 4096, .heard = 1});
    word_refused(&(struct vbn_wire_ring){.count = 1, .addr = 0, .heard = 1});
    word_refused(&(struct vbn_wire_ring){.count = 1, .addr = 4097, .heard = 1});
    word_refused(&(struct vbn_wire_ring){.count = 1, .addr = UINT64_MAX - 7, .heard = 1});
    word_refused(&(struct vbn_wire_ring){.count = 0, .addr = 4096, .heard = 1});
    for (int iwarp = 0; iwarp < 2; iwarp++) { /* nor where there are no rings */
        start_with(iwarp ? VBN_WIRE_VERSION : 1, tweak);
        ctx->device.iwarp = iwarp;
        unit.failures = 0;
        say(&(struct vbn_wire_ring){.count = 0});
        lone_progress(ctx);
        assert_int_equal(unit.failures, 1);
        if (!iwarp)
            lone_close(ctx);
    }
}

/* --- the peer's ring -----------------------------------------------------------------------------
 */

#define THERE 0x10000

static void send_len(size_t len)
{
    static char bytes[1024] = "x";
    struct iovec iov = {bytes, len};

    assert_int_equal(vbn_am_send(ep, ID, &iov, 1), VBN_OK);
    lone_complete(conn);
}

static const struct fake_send *last_sent(void)
{
    return lone_send_at(conn, lone_sent(conn) - 1, NULL);
}

static void written_into_the_peers_ring(void **state)
{
    struct vbn_wire_hdr hdr;
    struct vbn_wire_ring word;
    char slot[VBN_RING_SLOT] = {0}, out[VBN_RING_SLOT];
    struct vbn_counters counters = {.size = sizeof(counters)};

    (void)state;
    start(tweak);
    send_len(8);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_SEND);
    lone_ring_word(conn, 1, THERE, 0x77);
    lone_complete(conn);
    assert_true(last_word(conn, &word)); /* it is told that we have heard */
    assert_int_equal(word.heard, 1);
    assert_int_equal(word.count, 0);
    send_len(8);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(last_sent()->wr.wr.rdma.rkey, 0x77);
    assert_int_equal(last_sent()->wr.wr.rdma.remote_addr, THERE);
    assert_int_equal(last_sent()->sge.length, 16 + 8 + 8);
    memcpy(slot, last_sent()->bytes, 32);
    assert_true(vbn_wire_sealed_read(slot, conn->flow.tx_count, out, &hdr));
    assert_false(vbn_wire_sealed_read(slot, (uint16_t)(conn->flow.tx_count + 1), out, &hdr));
    assert_int_equal(hdr.type, VBN_WIRE_AM);
    assert_int_equal(hdr.id, ID);
    assert_int_equal(hdr.seq, 1);
    assert_int_equal(hdr.len, 8);
    assert_int_equal(out[16], 'x');
    send_len(VBN_RING_ROOM + 1);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_SEND);
    send_len(VBN_RING_ROOM);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(last_sent()->wr.wr.rdma.remote_addr, THERE + VBN_RING_SLOT);
    assert_int_equal(last_sent()->sge.length, VBN_RING_SLOT);
    vbn_counters(ctx, &counters);
    assert_int_equal(counters.ring_msgs, 2);
    assert_int_equal(counters.tx_msgs, 4);
}

static void only_where_the_last_one_has_arrived(void **state)
{
    (void)state;
    lone_credits = 200;
    start(tweak);
    lone_ring_word(conn, 1, THERE, 0x77);
    for (unsigned i = 0; i < VBN_RING_SLOTS; i++) {
        send_len(1);
        assert_int_equal(last_sent()->wr.opcode, IBV_WR_RDMA_WRITE);
        assert_int_equal(last_sent()->wr.wr.rdma.remote_addr, THERE + i * VBN_RING_SLOT);
    }
    send_len(1); /* its slot may not have been read */
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_SEND);
    lone_ack(conn);
    send_len(1);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(last_sent()->wr.wr.rdma.remote_addr, THERE);
}

static void withdrawn_by_the_peer(void **state)
{
    struct vbn_wire_ring word;

    (void)state;
    start(tweak);
    lone_ring_word(conn, 1, THERE, 0x77);
    send_len(1);
    lone_ring_word(conn, 2, 0, 0);
    lone_complete(conn);
    assert_true(last_word(conn, &word));
    assert_int_equal(word.heard, 2);
    send_len(1);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_SEND);
    lone_ring_word(conn, 3, 2 * THERE, 0x78); /* and there is another */
    send_len(1);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(last_sent()->wr.wr.rdma.remote_addr, 2 * THERE);
}

/* Nothing tells a sender that what it wrote was never seen: it asks, once for each silence. */
static void asks_after_what_is_not_acknowledged(void **state)
{
    struct vbn_wire_hdr hdr;
    unsigned sent;

    (void)state;
    start(tweak);
    lone_ring_word(conn, 1, THERE, 0x77);
    send_len(1);
    lone_pass(ctx, 1100);
    lone_complete(conn);
    lone_send_at(conn, lone_sent(conn) - 1, NULL);
    sent = 0;
    for (unsigned n = 0; n < lone_sent(conn); n++)
        if (lone_send_at(conn, n, NULL)->wr.opcode == IBV_WR_SEND) {
            lone_send_at(conn, n, &hdr);
            sent += hdr.type == VBN_WIRE_ACK && hdr.seq == 1;
        }
    assert_int_equal(sent, 1);
    sent = lone_sent(conn);
    lone_pass(ctx, 1100);
    for (unsigned n = sent; n < lone_sent(conn); n++)
        assert_int_equal(lone_send_at(conn, n, NULL)->wr.opcode, IBV_WR_RDMA_WRITE); /* probes */
}

static void leave_one_credit(void)
{
    while (vbn_tx_may_send(ep))
        send_len(1);
    lone_complete(conn);
    assert_int_equal(vbn_flow_credits(&conn->flow), 1);
}

/* By the last credit, too, where the peer is not short of them. */
static void asks_by_the_last_credit(void **state)
{
    struct vbn_wire_hdr hdr = {0};

    (void)state;
    start(tweak);
    lone_ring_word(conn, 1, THERE, 0x77);
    leave_one_credit();
    lone_pass(ctx, 1100);
    lone_complete(conn);
    for (unsigned n = 0; n < lone_sent(conn) && hdr.type != VBN_WIRE_ACK; n++)
        if (lone_send_at(conn, n, NULL)->wr.opcode == IBV_WR_SEND)
            lone_send_at(conn, n, &hdr);
    assert_int_equal(hdr.type, VBN_WIRE_ACK);
    assert_int_equal(vbn_flow_credits(&conn->flow), 0);
}

/* A word about rings can wait, and goes with the credits that come. */
static void withdraws_when_there_are_credits(void **state)
{
    struct vbn_wire_ring word;
    int ms;

    (void)state;
    open_ring();
    leave_one_credit();
    vbn_arm(ctx, &ms);
    assert_int_equal(vbn_flow_credits(&conn->flow), 1);
    lone_ack(conn);
    lone_pass(ctx, 50);
    assert_true(last_word(conn, &word));
    assert_int_equal(word.count, 2);
}

/* What was asked shows that a message is missing: the connection is no good. */
static void what_is_missing_ends_the_connection(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    open_ring();
    hdr = lone_hdr(conn, VBN_WIRE_ACK);
    hdr.seq++;
    lone_message(conn, &hdr, NULL);
    lone_progress(ctx);
    assert_null(ep->conn);
}

static void recovering(struct vbn_options *opts)
{
    tweak(opts);
    opts->recovery_timeout_ms = 1000;
}

static void not_again_where_it_was_denied(void **state)
{
    (void)state;
    start(recovering);
    lone_ring_word(conn, 1, THERE, 0x77);
    lone_complete(conn);
    assert_int_equal(vbn_am_send(ep, ID, NULL, 0), VBN_OK);
    assert_int_equal(last_sent()->wr.opcode, IBV_WR_RDMA_WRITE);
    fake_send_completes(conn->q.qp, lone_sent(conn) - 1, IBV_WC_REM_ACCESS_ERR);
    lone_progress(ctx);
    assert_null(ep->conn);
    assert_int_equal(unit.failures, 0);
    assert_true(ep->ring_denied);
}

static void put_over(void *arg, vbn_endpoint_t *of, int status)
{
    (void)arg;
    (void)of;
    (void)status;
}

/* It was the caller's key that was wrong. */
static void a_denied_put_ends_no_ring(void **state)
{
    static char bytes[64];
    vbn_mem_t *mem;

    (void)state;
    start(recovering);
    assert_int_equal(vbn_mem_register(ctx, bytes, sizeof(bytes), VBN_ACCESS_LOCAL_WRITE, &mem), 0);
    lone_ring_word(conn, 1, THERE, 0x77);
    lone_complete(conn);
    assert_int_equal(vbn_put(ep, bytes, mem, 0x1000, 0x22, sizeof(bytes), put_over, NULL), VBN_OK);
    fake_send_completes(conn->q.qp, lone_sent(conn) - 1, IBV_WC_REM_ACCESS_ERR);
    lone_progress(ctx);
    assert_null(ep->conn);
    assert_false(ep->ring_denied);
    vbn_mem_deregister(mem);
}

/* --- sleeping, and room --------------------------------------------------------------------------
 */

/* Sleeping is allowed for so long. */
static int armed_ms(void)
{
    int timeout_ms = -2;

    for (int i = 0; i < 10 && vbn_arm(ctx, &timeout_ms) != VBN_OK; i++)
        ;
    return timeout_ms;
}

static void who_sleeps_has_no_ring(void **state)
{
    struct vbn_wire_ring word;
    int live;

    (void)state;
    open_ring();
    live = fake_live();
    assert_in_range(armed_ms(), 0, 2);
    lone_complete(conn);
    assert_true(last_word(conn, &word));
    assert_int_equal(word.count, 2);
    assert_int_equal(word.addr, 0);
    say(&(struct vbn_wire_ring){.heard = 1}); /* the peer has not heard it yet */
    lone_ring_am(conn, ID, NULL, 0);
    assert_int_equal(got, 1);
    assert_in_range(armed_ms(), 0, 2);
    lone_complete(conn);
    lone_ring_heard(conn);
    assert_null(conn->ring.in.slots);
    assert_int_equal(ctx->rings.count, 0);
    assert_int_equal(fake_live(), live - 1); /* its registration */
    lone_pass(ctx, 100);
    lone_complete(conn);
    assert_in_range(armed_ms(), 3, 2000);
    /* It gets one again when its peer has sent twice as often without a sleep between. */
    short_ones(conn, HOT);
    assert_null(conn->ring.in.slots);
    short_ones(conn, HOT);
    assert_non_null(conn->ring.in.slots);
}

/* Who waits for a peer that hears nothing looks less and less often, until something comes. */
static void looks_less_often(void **state)
{
    (void)state;
    open_ring();
    armed_ms();
    lone_complete(conn);
    assert_in_range(armed_ms(), 0, 2);
    unit.now_ns += 100 * (uint64_t)UNIT_MS;
    assert_in_range(armed_ms(), 10, 16);
    unit.now_ns += 10000 * (uint64_t)UNIT_MS;
    armed_ms(); /* its peers are asked whether they live, first */
    lone_complete(conn);
    assert_in_range(armed_ms(), 30, 33);
    lone_ring_am(conn, ID, NULL, 0);
    lone_pass(ctx, 50); /* its acknowledgement */
    lone_complete(conn);
    assert_in_range(armed_ms(), 0, 2);
}

/* What waits to be said cannot have been heard. (Found by fuzz_rx.) */
static void heard_before_it_was_said(void **state)
{
    struct vbn_ctl *ctl;

    (void)state;
    open_ring();
    ctl = conn->ctl; /* the pool's: it outlives the connection */
    ctl->busy = true;
    armed_ms(); /* the ring is withdrawn */
    assert_int_equal(conn->ring.in.count, 2);
    unit.failures = 0;
    say(&(struct vbn_wire_ring){.heard = 2});
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PROTOCOL);
    ctl->busy = false;
}

/* An offer that the peer has not heard of cannot be taken back. */
static void offer_on_its_way(void **state)
{
    (void)state;
    start(tweak);
    short_ones(conn, HOT);
    assert_in_range(armed_ms(), 0, 2);
    assert_int_equal(conn->ring.in.count, 1);
    lone_ring_heard(conn);
    assert_in_range(armed_ms(), 0, 2);
    assert_int_equal(conn->ring.in.count, 2);
}

static void unused_ones_make_room(void **state)
{
    struct vbn_conn *of[3];

    (void)state;
    start(tweak);
    of[0] = conn;
    of[1] = lone_connect(ctx, 8);
    of[2] = lone_connect(ctx, 9);
    for (int i = 0; i < 3; i++) {
        ep = of[i]->ep;
        short_ones(of[i], HOT);
        if (i < 2)
            lone_ring_heard(of[i]);
        lone_complete(of[i]);
    }
    assert_null(of[2]->ring.in.slots);
    assert_int_equal(of[0]->ring.in.count, 1);
    ep = of[1]->ep;
    lone_ring_am(of[1], ID, NULL, 0);
    ep = of[2]->ep;
    short_ones(of[2], HOT);
    assert_int_equal(of[0]->ring.in.count, 2); /* unused since the third has come */
    assert_int_equal(of[1]->ring.in.count, 1);
    lone_ring_heard(of[0]);
    assert_null(of[0]->ring.in.slots);
    short_ones(of[2], HOT);
    assert_non_null(of[2]->ring.in.slots);
}

/* --- early ones ----------------------------------------------------------------------------------
 */

static void keeping_nothing(struct vbn_options *opts)
{
    tweak(opts);
    opts->unexpected_limit = 0;
}

static void tagged(uint64_t tag, char byte)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_TAG);
    struct vbn_wire_tag head = {.tag = tag, .len = 1};
    char bytes[sizeof(head) + 1];

    vbn_wire_tag_write(bytes, &head);
    bytes[sizeof(head)] = byte;
    hdr.id = VBN_TAG_EAGER;
    hdr.len = sizeof(bytes);
    lone_ring_write(conn, &hdr, bytes, (uint16_t)(conn->flow.rx_count + 1));
    vbn_progress(ctx);
}

/* Beyond the limit they are held, and keep their credits, as if they had come another way. */
static void early_ones_are_held(void **state)
{
    struct vbn_op op = {.status = VBN_PENDING};
    char byte = 0;

    (void)state;
    start(keeping_nothing);
    short_ones(conn, HOT);
    lone_ring_heard(conn);
    lone_complete(conn);
    for (char i = 0; i < 4; i++)
        tagged(3, (char)('a' + i));
    assert_in_range(conn->flow.held, 2, 4);
    for (char i = 0; i < 4; i++) {
        if (vbn_tag_recv(ctx, ep, &byte, 1, 3, VBN_TAG_MAX, &op) == VBN_PENDING)
            vbn_progress(ctx);
        assert_int_equal(op.status, VBN_OK);
        assert_int_equal(byte, 'a' + i);
    }
    assert_int_equal(conn->flow.held, 0);
    tagged(3, 'x'); /* and what is held at the end goes with the endpoint */
    tagged(3, 'y');
    assert_in_range(conn->flow.held, 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(offered_to_who_sends_often, setup, teardown),
        cmocka_unit_test_setup_teardown(not_for_long_messages_or_acknowledgements, setup, teardown),
        cmocka_unit_test_setup_teardown(not_where_there_can_be_none, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_that_cannot_be_registered, setup, teardown),
        cmocka_unit_test_setup_teardown(taken_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(not_ahead_of_its_number, setup, teardown),
        cmocka_unit_test_setup_teardown(the_queue_has_its_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(acknowledgements_are_not_overtaken, setup, teardown),
        cmocka_unit_test_setup_teardown(taken_when_it_is_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_what_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(other_types_do_not_go_by_rings, setup, teardown),
        cmocka_unit_test_setup_teardown(longer_than_a_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(words_that_cannot_be, setup, teardown),
        cmocka_unit_test_setup_teardown(written_into_the_peers_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(only_where_the_last_one_has_arrived, setup, teardown),
        cmocka_unit_test_setup_teardown(withdrawn_by_the_peer, setup, teardown),
        cmocka_unit_test_setup_teardown(asks_after_what_is_not_acknowledged, setup, teardown),
        cmocka_unit_test_setup_teardown(asks_by_the_last_credit, setup, teardown),
        cmocka_unit_test_setup_teardown(withdraws_when_there_are_credits, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_missing_ends_the_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(not_again_where_it_was_denied, setup, teardown),
        cmocka_unit_test_setup_teardown(a_denied_put_ends_no_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(who_sleeps_has_no_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(looks_less_often, setup, teardown),
        cmocka_unit_test_setup_teardown(heard_before_it_was_said, setup, teardown),
        cmocka_unit_test_setup_teardown(offer_on_its_way, setup, teardown),
        cmocka_unit_test_setup_teardown(unused_ones_make_room, setup, teardown),
        cmocka_unit_test_setup_teardown(early_ones_are_held, setup, teardown),
    };

    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
