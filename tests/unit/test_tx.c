/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: order, signaling, inline or not, credits, a full queue, and who keeps a message how
 * long. */
#include "lone.h"

#include <errno.h>

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;

static void tweak(struct vbn_options *opts)
{
    opts->msg_priv_size = 40;
}

/* A connection whose peer grants CREDITS. */
static void start(uint16_t credits, void (*change)(struct vbn_options *))
{
    lone_credits = credits;
    ctx = lone_open(change ? change : tweak);
    conn = lone_connect(ctx, 7);
    ep = conn->ep;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

static int send_len(size_t len)
{
    static char bytes[1024];
    struct iovec iov = {bytes, len};

    return vbn_am_send(ep, 1, &iov, 1);
}

static unsigned flags_at(unsigned n)
{
    return lone_send_at(conn, n, NULL)->wr.send_flags;
}

/* --- what is posted --------------------------------------------------------------------------- */

static void pieces_become_one_message(void **state)
{
    struct iovec iov[] = {{(void *)"abc", 3}, {NULL, 0}, {(void *)"defgh", 5}};
    const struct fake_send *s;
    struct vbn_wire_hdr hdr;

    (void)state;
    start(16, NULL);
    assert_int_equal(vbn_am_send(ep, 0x42, iov, 3), VBN_OK);
    s = lone_send_at(conn, 0, &hdr);
    assert_int_equal(s->wr.opcode, IBV_WR_SEND);
    assert_int_equal(s->sge.length, 16 + 8);
    assert_int_equal(hdr.type, VBN_WIRE_AM);
    assert_int_equal(hdr.id, 0x42);
    assert_int_equal(hdr.len, 8);
    assert_int_equal(hdr.seq, 0);
    assert_int_equal(hdr.ack, 0);
    assert_int_equal(hdr.credits, conn->window);
    assert_memory_equal(s->bytes + 16, "abcdefgh", 8);
    assert_int_equal(ctx->counters.tx_msgs, 1);
    assert_int_equal(ctx->counters.tx_bytes, 8);
    assert_int_equal(ctx->counters.stalls, 0);
}

static void filled_in_place(void **state)
{
    vbn_msg_t *msg;

    (void)state;
    start(16, NULL);
    assert_int_equal(vbn_msg_get(ep, 100, &msg), VBN_OK);
    assert_int_equal((uintptr_t)vbn_msg_data(msg) % 16, 0);
    assert_int_equal((uintptr_t)vbn_msg_priv(msg) % 16, 0);
    memset(vbn_msg_priv(msg), 0xaa, 40);
    memset(vbn_msg_data(msg), 0x55, 100);
    assert_int_equal(vbn_msg_send(msg, 9, 60), VBN_OK);
    assert_int_equal(lone_send_at(conn, 0, NULL)->sge.length, 76);
    assert_int_equal(lone_send_at(conn, 0, NULL)->bytes[75], 0x55);
    assert_int_equal(((unsigned char *)vbn_msg_priv(msg))[39], 0xaa);
    vbn_msg_put(msg);
}

static void inline_up_to_the_limit(void **state)
{
    (void)state;
    start(16, NULL);
    assert_int_equal(ctx->device.max_inline, 256);
    assert_int_equal(send_len(240), VBN_OK);
    assert_int_equal(send_len(241), VBN_OK);
    assert_true(flags_at(0) & IBV_SEND_INLINE);
    assert_false(flags_at(1) & IBV_SEND_INLINE);
    assert_int_not_equal(lone_send_at(conn, 1, NULL)->sge.lkey, 0);
}

static void no_inline(struct vbn_options *opts)
{
    opts->inline_limit = 0;
}

static void never_inline(void **state)
{
    (void)state;
    start(16, no_inline);
    assert_int_equal(send_len(0), VBN_OK);
    assert_false(flags_at(0) & IBV_SEND_INLINE);
    lone_am(conn, 1, NULL, 0);
    lone_pass(ctx, 10); /* an acknowledgement */
    assert_int_equal(lone_sent(conn), 2);
    assert_false(flags_at(1) & IBV_SEND_INLINE);
}

static void one_in_so_many_is_signaled(void **state)
{
    (void)state;
    start(1000, NULL);
    for (int i = 0; i < 60; i++)
        assert_int_equal(send_len(i % 200), VBN_OK);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(!!(flags_at(i) & IBV_SEND_SIGNALED), i % 16 == 15);
}

/* Soft-iWARP is slower with sends of a page and more whose completion nobody asks for. */
static void long_ones_are_signaled_where_that_is_quicker(void **state)
{
    (void)state;
    start(1000, NULL);
    ctx->device.signal_from = 516;
    assert_int_equal(send_len(499), VBN_OK); /* and 16 of header */
    assert_int_equal(send_len(500), VBN_OK);
    assert_false(flags_at(0) & IBV_SEND_SIGNALED);
    assert_true(flags_at(1) & IBV_SEND_SIGNALED);
}

static void sequence_numbers_follow(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    start(1000, NULL);
    ep->tx_next = ep->tx_acked = UINT32_MAX - 2;
    for (int i = 0; i < 6; i++)
        assert_int_equal(send_len(10), VBN_OK);
    for (unsigned i = 0; i < 6; i++) {
        lone_send_at(conn, i, &hdr);
        assert_int_equal(hdr.seq, UINT32_MAX - 2 + i);
    }
    assert_int_equal(ep->tx_next, 3);
}

static void not_done(void *arg, vbn_endpoint_t *e, int status)
{
    (void)arg, (void)e, (void)status;
}

static void order_is_the_caller_s(void **state)
{
    static char memory[64];
    static const enum ibv_wr_opcode want[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_SEND,
                                              IBV_WR_RDMA_READ, IBV_WR_SEND};
    vbn_mem_t *mem;

    (void)state;
    lone_credits = 16;
    ctx = lone_open(NULL);
    assert_int_equal(vbn_mem_register(ctx, memory, 64, VBN_ACCESS_LOCAL_WRITE, &mem), VBN_OK);
    for (int queued = 0; queued < 2; queued++) { /* at once, or all waiting for the connection */
        conn = queued ? lone_attempt(ctx, 8, VBN_CONN_CONNECTING) : lone_connect(ctx, 7);
        ep = conn->ep;
        assert_int_equal(send_len(1), VBN_OK);
        assert_int_equal(vbn_put(ep, memory, mem, 1, 2, 64, not_done, NULL), VBN_OK);
        assert_int_equal(send_len(2), VBN_OK);
        assert_int_equal(vbn_get(ep, memory, mem, 1, 2, 64, not_done, NULL), VBN_OK);
        assert_int_equal(send_len(3), VBN_OK);
        if (queued) {
            struct vbn_wire_hello hello = lone_hello(ctx, 8);

            assert_int_equal(lone_sent(conn), 0);
            lone_answer(conn, &hello);
            lone_progress(ctx);
        }
        assert_int_equal(lone_sent(conn), 5);
        for (unsigned i = 0; i < 5; i++)
            assert_int_equal(lone_send_at(conn, i, NULL)->wr.opcode, want[i]);
    }
    assert_int_equal(ctx->counters.stalls, 5);
    vbn_mem_deregister(mem);
}

/* --- what is in the way ----------------------------------------------------------------------- */

static void credits_used_up(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    start(8, NULL);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_len(10), VBN_OK);
    assert_int_equal(lone_sent(conn), 7); /* the last is kept */
    assert_int_equal(ctx->counters.stalls, 3);
    hdr = lone_hdr(conn, VBN_WIRE_ACK);
    hdr.credits = 10; /* two were received and given back */
    hdr.ack = 2;
    lone_message(conn, &hdr, NULL);
    assert_int_equal(lone_sent(conn), 9);
    assert_int_equal(ep->msgs_out, 8);
    hdr = lone_hdr(conn, VBN_WIRE_ACK);
    lone_message(conn, &hdr, NULL);
    assert_int_equal(lone_sent(conn), 10 + 1); /* and that they had to wait */
}

/* The peer, who gives no more than 8 credits, sends a message of TYPE. */
static void peer_sends(uint8_t type)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, type);
    char head[sizeof(struct vbn_wire_tag)];

    hdr.credits = 8;
    hdr.id = type == VBN_WIRE_TAG ? VBN_TAG_EAGER : 0;
    hdr.len = type == VBN_WIRE_TAG ? sizeof(head) : 0;
    vbn_wire_tag_write(head, &(struct vbn_wire_tag){.tag = 1});
    lone_message(conn, &hdr, head);
    lone_pass(ctx, 50);
}

/* For one of TYPE it does not: the peer could not give one back, and both might end without any. */
static void last_credit_for_two(uint8_t type)
{
    start(8, NULL);
    for (int i = 0; i < 7; i++)
        assert_int_equal(send_len(10), VBN_OK);
    peer_sends(type);
    assert_int_equal(lone_sent(conn), 7);
    peer_sends(type);
    lone_acknowledged(conn, 8, 2);
}

static void the_last_credit_goes_for_two(void **state)
{
    (void)state;
    last_credit_for_two(VBN_WIRE_TAG);
}

static void the_last_credit_goes_for_two_marks(void **state)
{
    (void)state;
    last_credit_for_two(VBN_WIRE_MARK);
}

/* The same where the answer to a second mark is due when that to the first has left. */
static void the_last_credit_goes_for_two_marks_that_waited(void **state)
{
    (void)state;
    start(8, NULL);
    for (int k = 0; k < 6; k++)
        assert_int_equal(send_len(10), VBN_OK);
    peer_sends(VBN_WIRE_MARK);
    lone_acknowledged(conn, 7, 1);
    peer_sends(VBN_WIRE_MARK);
    lone_complete(conn);
    lone_pass(ctx, 50);
    assert_int_equal(lone_sent(conn), 7);
    peer_sends(VBN_WIRE_MARK);
    lone_acknowledged(conn, 8, 3);
}

static unsigned dry_words(void)
{
    struct vbn_wire_hdr hdr;
    unsigned n = 0;

    for (unsigned i = 0; i < lone_sent(conn); i++) {
        lone_send_at(conn, i, &hdr);
        n += hdr.type == VBN_WIRE_DRY;
    }
    return n;
}

/* The peer gives GRANT credits in all, and has got everything. */
static void peer_grants(uint16_t grant)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_ACK);

    hdr.credits = grant;
    lone_message(conn, &hdr, NULL);
}

/* The peer learns that messages have waited, but not by the credit that one of them needs. */
static void waits_are_told(void **state)
{
    (void)state;
    start(8, NULL);
    for (int i = 0; i < 7; i++)
        assert_int_equal(send_len(10), VBN_OK);
    peer_grants(16);
    assert_int_equal(dry_words(), 0); /* none has waited */
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_len(10), VBN_OK);
    assert_int_equal(lone_sent(conn), 15);
    peer_grants(17);
    assert_int_equal(lone_sent(conn), 16);
    assert_int_equal(dry_words(), 0);
    peer_grants(20);
    assert_int_equal(dry_words(), 1);
    assert_int_equal(lone_sent(conn), 18);
    peer_grants(30);
    assert_int_equal(dry_words(), 1); /* once for all of them */
}

/* A peer that gives no more for it is not told for ever. */
static void waits_are_told_some_times(void **state)
{
    (void)state;
    start(8, NULL);
    for (uint16_t grant = 16; grant < 800; grant = (uint16_t)(grant + 8)) {
        while (STAILQ_EMPTY(&ep->queue))
            assert_int_equal(send_len(10), VBN_OK);
        peer_grants(grant);
        lone_complete(conn);
    }
    assert_int_equal(dry_words(), 8);
}

static void older_peers_are_not_told(void **state)
{
    (void)state;
    start(8, NULL);
    conn->version = VBN_WIRE_DRIES - 1;
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_len(10), VBN_OK);
    peer_grants(30);
    assert_int_equal(lone_sent(conn), 10);
    assert_int_equal(dry_words(), 0);
}

static void what_waits_is_told(void **state)
{
    vbn_msg_t *msg[4];

    (void)state;
    start(4, NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(vbn_endpoint_ready(ep), 3 - i);
        assert_int_equal(vbn_msg_get(ep, 10, &msg[i]), VBN_OK);
        assert_false(vbn_msg_waiting(msg[i]));
        assert_int_equal(vbn_msg_send(msg[i], 1, 10), VBN_OK);
        assert_int_equal(vbn_msg_waiting(msg[i]), i == 3);
    }
    lone_ack(conn);
    assert_int_equal(lone_sent(conn), 4 + 1); /* and that it had to wait */
    assert_false(vbn_msg_waiting(msg[3]));
    assert_true(vbn_endpoint_ready(ep));
    for (int i = 0; i < 4; i++)
        vbn_msg_put(msg[i]);
    vbn_endpoint_close(ep);
    assert_int_equal(vbn_endpoint_ready(lone_peer(ctx, 8)), 0); /* not connected */
}

static void only_what_leaves_at_once(void **state)
{
    struct iovec iov = {"message", 8};
    vbn_endpoint_t *other;

    (void)state;
    start(4, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(vbn_am_send_now(ep, 1, &iov, 1), VBN_OK);
    assert_int_equal(lone_sent(conn), 3);
    assert_int_equal(vbn_am_send_now(ep, 1, &iov, 1), VBN_ERR_AGAIN); /* no credit */
    assert_int_equal(ep->msgs_out, 3);
    assert_true(STAILQ_EMPTY(&ep->queue));
    lone_ack(conn);
    assert_int_equal(vbn_am_send_now(ep, 1, &iov, 1), VBN_OK);
    assert_int_equal(lone_sent(conn), 4);
    other = lone_peer(ctx, 8);
    assert_int_equal(vbn_am_send_now(other, 1, &iov, 1), VBN_ERR_AGAIN);
    assert_null(other->attempt); /* nothing was begun */
    vbn_endpoint_close(ep);
    assert_int_equal(vbn_am_send_now(ep, 1, &iov, 1), VBN_ERR_CLOSED);
}

static void last_credit_carries_an_acknowledgement(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    start(4, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(send_len(10), VBN_OK);
    assert_int_equal(lone_sent(conn), 3);
    for (int i = 0; i < 2; i++) {
        hdr = lone_hdr(conn, VBN_WIRE_AM);
        hdr.credits = 4; /* no more than before */
        hdr.ack = 0;
        lone_message(conn, &hdr, NULL);
    }
    lone_pass(ctx, 10);
    assert_int_equal(lone_sent(conn), 4);
    lone_send_at(conn, 3, &hdr);
    assert_int_equal(hdr.type, VBN_WIRE_DRY); /* and tells that a message waits */
    assert_int_equal(hdr.ack, 2);
    assert_int_equal(vbn_flow_credits(&conn->flow), 0);
    hdr = lone_hdr(conn, VBN_WIRE_AM);
    hdr.credits = 4, hdr.ack = 0;
    lone_message(conn, &hdr, NULL);
    lone_complete(conn);
    lone_pass(ctx, 20);
    assert_int_equal(lone_sent(conn), 4); /* not one more than granted */
    assert_int_equal(unit.failures, 0);
}

static void small_queue(struct vbn_options *opts)
{
    opts->sq_depth = 8;
}

static void send_queue_full(void **state)
{
    (void)state;
    start(1000, small_queue);
    for (int i = 0; i < 20; i++)
        assert_int_equal(send_len(10), VBN_OK);
    assert_int_equal(lone_sent(conn), 8);
    assert_true(flags_at(3) & IBV_SEND_SIGNALED); /* a period of half the queue at most */
    fake_send_completes(conn->q.qp, 3, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_int_equal(lone_sent(conn), 12);
    for (int i = 0; i < 4; i++)
        lone_complete(conn);
    assert_int_equal(lone_sent(conn), 20);
}

static void too_long_or_over(void **state)
{
    struct iovec iov = {(void *)"x", 1025};
    vbn_msg_t *msg;

    (void)state;
    start(16, NULL);
    assert_int_equal(vbn_am_send(ep, 1, &iov, 1), VBN_ERR_INVALID);
    assert_int_equal(vbn_msg_get(ep, 1025, &msg), VBN_ERR_INVALID);
    assert_int_equal(vbn_msg_get(ep, 1024, &msg), VBN_OK);
    assert_int_equal(vbn_msg_send(msg, 1, 1025), VBN_ERR_INVALID);
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "test");
    assert_int_equal(vbn_msg_send(msg, 1, 1024), VBN_ERR_PEER_LOST);
    vbn_msg_put(msg); /* still the caller's */
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(send_len(1), VBN_ERR_PEER_LOST);
    assert_int_equal(vbn_msg_get(ep, 1, &msg), VBN_ERR_PEER_LOST);
}

/* One endpoint that cannot send must not take every buffer from the others. */
static void buffers_are_shared_fairly(void **state)
{
    vbn_endpoint_t *other, *third;
    unsigned sent = 0;
    int rc;

    (void)state;
    start(4, NULL);
    ctx->msgs_each = 1000; /* not the limit of an endpoint, but of all, is what counts here */
    while ((rc = send_len(10)) == VBN_OK && sent < 1000)
        sent++;
    assert_int_equal(rc, VBN_ERR_AGAIN);
    assert_int_equal(ctx->msgs.max, 256);
    assert_in_range(sent, 256 * 3 / 4, 256 * 7 / 8);
    other = lone_peer(ctx, 8);
    third = lone_peer(ctx, 9);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vbn_am_send(other, 1, NULL, 0), VBN_OK);
        assert_int_equal(vbn_am_send(third, 1, NULL, 0), VBN_OK);
    }
    assert_int_equal(vbn_am_send(other, 1, NULL, 0), VBN_ERR_AGAIN);
}

/* Without memory for further buffers those that there are must do. */
static void no_memory_for_more_buffers(void **state)
{
    unsigned sent = 0;

    (void)state;
    start(16, NULL);
    unit_fail_allocs(true);
    while (send_len(10) == VBN_OK && sent < 1000)
        sent++;
    unit_fail_allocs(false);
    assert_in_range(sent, 16, 63);
    assert_int_equal(sent, ctx->msgs.count);
    assert_int_equal(send_len(10), VBN_ERR_AGAIN);
    lone_ack(conn);
    assert_int_equal(send_len(10), VBN_OK);
    assert_int_equal(unit.failures, 0);
}

/* Where memory may not be pinned for as many as are wanted at the start, a few will do. */
static void few_buffers_at_the_start(void **state)
{
    uint32_t usual;

    (void)state;
    start(16, NULL);
    usual = ctx->msgs.count;
    lone_close(ctx);
    fake_fail(FAKE_REG_MR, 2, ENOMEM); /* the receivers' buffers are the first */
    start(16, NULL);
    assert_in_range(ctx->msgs.count, 1, usual - 1);
    while (send_len(10) == VBN_OK && ctx->msgs.count < usual)
        ;
    assert_true(ctx->msgs.count >= usual);
}

static void endpoint_s_own_limit(void **state)
{
    unsigned sent = 0;

    (void)state;
    start(4, NULL);
    while (send_len(10) == VBN_OK && sent < 1000)
        sent++;
    assert_int_equal(sent, 4 * 16); /* four windows */
}

static void iwarp_s_passive_side_waits_to_be_spoken_to(void **state)
{
    (void)state;
    ctx = lone_open(NULL);
    ctx->device.iwarp = true;
    conn = lone_accept(ctx, 7);
    ep = conn->ep;
    assert_int_equal(send_len(10), VBN_OK);
    lone_pass(ctx, 10);
    assert_int_equal(lone_sent(conn), 0);
    lone_ack(conn);
    assert_int_equal(lone_sent(conn), 1);
}

/* --- who keeps a message ---------------------------------------------------------------------- */

static void acked(uint32_t ack)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_ACK);

    hdr.ack = ack;
    lone_message(conn, &hdr, NULL);
}

static void inline_until_acknowledged(void **state)
{
    (void)state;
    start(1000, NULL);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_len(10), VBN_OK);
    assert_int_equal(ep->msgs_out, 10);
    acked(4);
    assert_int_equal(ep->msgs_out, 6);
    acked(4);
    assert_int_equal(ep->msgs_out, 6);
    acked(10);
    assert_int_equal(ep->msgs_out, 0);
}

static void short_period(struct vbn_options *opts)
{
    opts->signal_period = 8;
}

static void buffer_until_completed_and_acknowledged(void **state)
{
    (void)state;
    start(1000, short_period);
    for (int i = 0; i < 16; i++)
        assert_int_equal(send_len(500), VBN_OK);
    assert_int_equal(ctx->lazy, 14);
    acked(10);
    assert_int_equal(ep->msgs_out, 16); /* the device may still read them */
    fake_send_completes(conn->q.qp, 7, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_int_equal(ep->msgs_out, 8);
    assert_int_equal(ctx->lazy, 7);
    fake_send_completes(conn->q.qp, 15, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_int_equal(ep->msgs_out, 6); /* the peer may need them again */
    acked(16);
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(ctx->lazy, 0);
}

static void caller_until_put(void **state)
{
    vbn_msg_t *msg[2];

    (void)state;
    start(1000, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(vbn_msg_get(ep, 10, &msg[i]), VBN_OK);
    assert_int_equal(vbn_msg_send(msg[0], 1, 10), VBN_OK);
    acked(1);
    assert_int_equal(ep->msgs_out, 2);
    vbn_msg_put(msg[0]);
    assert_int_equal(ep->msgs_out, 1);
    vbn_msg_put(msg[1]); /* never sent */
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(lone_sent(conn), 1);
}

static void few_buffers(struct vbn_options *opts)
{
    opts->tx_buffers = 64;
    opts->signal_period = 64;
}

/* A quarter of the buffers may wait for a later completion; from there on each asks for its own. */
static void lazy_ones_are_bounded(void **state)
{
    (void)state;
    start(1000, few_buffers);
    for (int i = 0; i < 30; i++)
        assert_int_equal(send_len(500), VBN_OK);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(!!(flags_at(i) & IBV_SEND_SIGNALED), i >= 16);
    assert_int_equal(ctx->lazy, 16);
}

static void long_period(struct vbn_options *opts)
{
    opts->signal_period = 1000;
}

/* Nor may half of those made: the pool does not grow for them. */
static void lazy_ones_make_no_more(void **state)
{
    uint32_t made, lazy = 0;

    (void)state;
    start(1000, long_period);
    made = ctx->msgs.count;
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(send_len(500), VBN_OK);
        acked(i + 1);
        lazy = ctx->lazy > lazy ? ctx->lazy : lazy;
        if (flags_at(i) & IBV_SEND_SIGNALED)
            fake_send_completes(conn->q.qp, i, IBV_WC_SUCCESS);
        lone_progress(ctx);
    }
    assert_int_equal(lazy, made / 2);
    assert_int_equal(ctx->msgs.count, made);
}

static void small_window(struct vbn_options *opts)
{
    opts->window = 4;
    opts->signal_period = 32;
}

/* Acknowledged, and waiting only for a completion that nothing but further sends would bring. */
static void lazy_ones_do_not_stop_their_endpoint(void **state)
{
    (void)state;
    start(1000, small_window);
    for (int i = 0; i < 16; i++)
        assert_int_equal(send_len(500), VBN_OK);
    acked(16);
    assert_int_equal(ep->msgs_out, 16);
    assert_int_equal(send_len(500), VBN_OK);
}

/* The last of a burst; and a peer that owes an answer while nothing is under way. */
static void asks_for_a_sign_of_life(void **state)
{
    (void)state;
    start(1000, small_window);
    assert_int_equal(send_len(500), VBN_OK);
    lone_pass(ctx, 900);
    assert_int_equal(lone_sent(conn), 1);
    lone_pass(ctx, 200);
    assert_int_equal(lone_sent(conn), 2);
    assert_int_equal(lone_send_at(conn, 1, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(lone_send_at(conn, 1, NULL)->sge.length, 0);
    lone_pass(ctx, 3000);
    assert_int_equal(lone_sent(conn), 2); /* one at a time */
    fake_send_completes(conn->q.qp, 1, IBV_WC_SUCCESS);
    lone_progress(ctx);
    assert_int_equal(ctx->lazy, 0);
    lone_pass(ctx, 1100);
    assert_int_equal(lone_sent(conn), 3); /* it is not acknowledged yet */
    fake_send_completes(conn->q.qp, 2, IBV_WC_SUCCESS);
    lone_progress(ctx);
    acked(1);
    lone_pass(ctx, 5000);
    assert_int_equal(lone_sent(conn), 3); /* nothing more to ask for */
    assert_int_equal(unit.failures, 0);
}

static void wrapped_acknowledgements(void **state)
{
    (void)state;
    start(1000, NULL);
    ep->tx_next = ep->tx_acked = UINT32_MAX - 1;
    for (int i = 0; i < 4; i++)
        assert_int_equal(send_len(10), VBN_OK);
    acked(UINT32_MAX);
    assert_int_equal(ep->msgs_out, 3);
    acked(1);
    assert_int_equal(ep->msgs_out, 1);
    acked(2);
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(unit.failures, 0);
}

static void acknowledgement_out_of_range(void **state)
{
    static const uint32_t bad[] = {6, 1, 0, UINT32_MAX, 0x80000000};

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        start(1000, NULL);
        for (int k = 0; k < 5; k++)
            assert_int_equal(send_len(10), VBN_OK);
        acked(2);
        acked(bad[i]); /* beyond what was sent, or taken back */
        lone_progress(ctx);
        assert_int_equal(unit.failures, 1);
        assert_int_equal(unit.failed[0].status, VBN_ERR_PROTOCOL);
        assert_int_equal(ep->msgs_out, 0);
        lone_close(ctx);
        lone_teardown(NULL);
        lone_setup(NULL);
    }
    start(16, NULL);
}

static void all_are_dropped_with_the_endpoint(void **state)
{
    vbn_msg_t *msg;

    (void)state;
    start(8, NULL);
    assert_int_equal(vbn_msg_get(ep, 10, &msg), VBN_OK);
    assert_int_equal(vbn_msg_send(msg, 1, 10), VBN_OK);
    for (int i = 0; i < 20; i++) /* posted, lazy, queued */
        assert_int_equal(send_len(i % 2 ? 10 : 500), VBN_OK);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    assert_int_equal(ep->msgs_out, 1);
    vbn_msg_put(msg);
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(ctx->lazy, 0);
    assert_int_equal(ctx->msgs.free_count, ctx->msgs.count);
}

static void post_that_is_refused(void **state)
{
    (void)state;
    for (int inlined = 0; inlined < 2; inlined++) {
        start(8, NULL);
        fake_fail(FAKE_POST_SEND, 3, ENOMEM);
        for (int i = 0; i < 2; i++)
            assert_int_equal(send_len(500), VBN_OK);
        assert_int_equal(send_len(inlined ? 10 : 500), VBN_OK); /* taken, and lost with the rest */
        assert_int_equal(send_len(10), VBN_OK);                 /* until it is drained */
        lone_progress(ctx);
        assert_int_equal(send_len(10), VBN_ERR_PEER_LOST);
        assert_int_equal(unit.failures, 1);
        assert_int_equal(ep->msgs_out, 0);
        assert_int_equal(ctx->lazy, 0);
        assert_int_equal(ctx->msgs.free_count, ctx->msgs.count);
        lone_close(ctx);
        lone_teardown(NULL);
        lone_setup(NULL);
    }
    start(16, NULL);
}

static void post_from_the_queue_that_is_refused(void **state)
{
    (void)state;
    start(4, NULL);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_len(i % 2 ? 10 : 500), VBN_OK);
    fake_fail(FAKE_POST_SEND, 2, ENOMEM);
    acked(3); /* would send three more */
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(ctx->msgs.free_count, ctx->msgs.count);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, lone_setup, teardown)
    const struct CMUnitTest tests[] = {
        T(pieces_become_one_message),
        T(filled_in_place),
        T(inline_up_to_the_limit),
        T(never_inline),
        T(one_in_so_many_is_signaled),
        T(long_ones_are_signaled_where_that_is_quicker),
        T(sequence_numbers_follow),
        T(order_is_the_caller_s),
        T(credits_used_up),
        T(the_last_credit_goes_for_two),
        T(the_last_credit_goes_for_two_marks),
        T(the_last_credit_goes_for_two_marks_that_waited),
        T(waits_are_told),
        T(waits_are_told_some_times),
        T(older_peers_are_not_told),
        T(what_waits_is_told),
        T(only_what_leaves_at_once),
        T(last_credit_carries_an_acknowledgement),
        T(send_queue_full),
        T(too_long_or_over),
        T(buffers_are_shared_fairly),
        T(no_memory_for_more_buffers),
        T(few_buffers_at_the_start),
        T(endpoint_s_own_limit),
        T(iwarp_s_passive_side_waits_to_be_spoken_to),
        T(inline_until_acknowledged),
        T(buffer_until_completed_and_acknowledged),
        T(caller_until_put),
        T(lazy_ones_are_bounded),
        T(lazy_ones_make_no_more),
        T(lazy_ones_do_not_stop_their_endpoint),
        T(asks_for_a_sign_of_life),
        T(wrapped_acknowledgements),
        T(acknowledgement_out_of_range),
        T(all_are_dropped_with_the_endpoint),
        T(post_that_is_refused),
        T(post_from_the_queue_that_is_refused),
    };

    return cmocka_run_group_tests_name("tx", tests, NULL, NULL);
}
