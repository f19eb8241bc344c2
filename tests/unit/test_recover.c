/* SPDX-License-Identifier: BSD-3-Clause */
/* Recovery seen from one side: what is posted again, what the peer is told, when it is over. */
#include "lone.h"

#include "rma.h"

#include <errno.h>

#define LEN   4096
#define PEER  7    /* smaller than ours: our request goes on where both ask */
#define LIMIT 1000 /* ms */

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;
static vbn_mem_t *mem;
static char memory[LEN];
static unsigned ended;
static int last_status;

static void done(void *arg, vbn_endpoint_t *e, int status)
{
    (void)arg;
    assert_ptr_equal(e, ep);
    ended++;
    last_status = status;
}

static void recovering(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = LIMIT;
    opts->unexpected_limit = 0; /* what nobody has asked for stays in its buffer */
}

static int setup(void **state)
{
    lone_setup(state);
    ended = 0;
    ctx = lone_open(recovering);
    conn = lone_connect(ctx, PEER);
    ep = conn->ep;
    assert_int_equal(vbn_mem_register(ctx, memory, LEN, VBN_ACCESS_LOCAL_WRITE, &mem), 0);
    return 0;
}

static int teardown(void **state)
{
    vbn_mem_deregister(mem);
    lone_close(ctx);
    return lone_teardown(state);
}

static void send_byte(char byte)
{
    struct iovec iov = {&byte, 1};

    assert_int_equal(vbn_am_send(ep, 5, &iov, 1), VBN_OK);
}

static void put(void)
{
    assert_int_equal(vbn_put(ep, memory, mem, 0x1000, 0x22, 100, done, NULL), VBN_OK);
}

static void get(void)
{
    assert_int_equal(vbn_get(ep, memory, mem, 0x1000, 0x22, 100, done, NULL), VBN_OK);
}

/* The connection fails, and its last completion is in. */
static void lose(enum ibv_wc_status status)
{
    struct fake_qp *qp = fake_qp(conn->q.qp);

    if (qp->send_done < qp->send_count)
        fake_send_completes(conn->q.qp, qp->send_done, status);
    else
        fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    lone_progress(ctx);
    assert_null(ep->conn);
}

/* Our next attempt has found the way to the peer, and asks. */
static void find_way(void)
{
    for (int i = 0; i < 100 && !ep->attempt; i++)
        lone_progress(ctx);
    assert_non_null(ep->attempt);
    fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    lone_progress(ctx);
    fake_event(ep->attempt->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    lone_progress(ctx);
}

/* Our next attempt is with the peer. */
static struct vbn_conn *ask(void)
{
    find_way();
    assert_int_equal(ep->attempt->state, VBN_CONN_CONNECTING);
    return ep->attempt;
}

/* The peer answers that ARRIVED is the next message that it expects. */
static void meet_again(uint32_t arrived)
{
    struct vbn_wire_hello hello = lone_hello(ctx, PEER);

    conn = ask();
    hello.session = ep->session;
    hello.rx_next = arrived;
    lone_answer(conn, &hello);
    lone_progress(ctx);
}

static char byte_at(unsigned n, uint32_t seq)
{
    struct vbn_wire_hdr hdr;
    const struct fake_send *s = lone_send_at(conn, n, &hdr);

    assert_int_equal(hdr.seq, seq);
    return (char)s->bytes[sizeof(hdr)];
}

/* --- what is posted again --------------------------------------------------------------------- */

static void messages_that_have_not_arrived(void **state)
{
    (void)state;
    for (char c = 'a'; c <= 'e'; c++)
        send_byte(c);
    assert_int_equal(lone_sent(conn), 5);
    lose(IBV_WC_RETRY_EXC_ERR);
    send_byte('f');
    assert_int_equal(unit.failures, 0);
    meet_again(2);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(lone_sent(conn), 4);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(byte_at(i, 2 + i), 'c' + (int)i);
    assert_int_equal(ctx->counters.recoveries, 1);
    assert_int_equal(ctx->counters.replayed, 3);
    assert_int_equal(ctx->counters.tx_msgs, 6);
    assert_int_equal(ctx->counters.tx_bytes, 6);
    assert_contains(unit.log[VBN_LOG_WARN], "made again after");
    assert_contains(unit.log[VBN_LOG_WARN], "completion error");
    assert_contains(unit.log[VBN_LOG_WARN], "3 requests");
}

static void nothing_where_all_has_arrived(void **state)
{
    (void)state;
    send_byte('a');
    send_byte('b');
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(2);
    assert_int_equal(lone_sent(conn), 0);
    assert_true(STAILQ_EMPTY(&ep->unacked));
    assert_int_equal(ctx->msgs.free_count, ctx->msgs.count);
    send_byte('c');
    assert_int_equal(byte_at(0, 2), 'c');
}

/* What we have received is told by our request, and stays so. */
static void our_request_says_what_has_come(void **state)
{
    struct vbn_wire_hello hello;

    (void)state;
    lone_am(conn, 9, "x", 1);
    lone_am(conn, 9, "y", 1);
    lose(IBV_WC_RETRY_EXC_ERR);
    conn = ask();
    assert_true(vbn_wire_hello_read(fake_id(conn->id)->data, fake_id(conn->id)->data_len, &hello));
    assert_int_equal(hello.rx_next, 2);
    assert_int_equal(hello.session, 1);
}

static unsigned heard;

static void count(void *arg, vbn_endpoint_t *of, uint8_t id, void *data, size_t len)
{
    (void)arg, (void)of, (void)id, (void)data, (void)len;
    heard++;
}

/* A device that breaks its word: message number 1 once more, number 3 before 2, and one without its
 * bytes. What was right on that connection counts, and the rest is asked for again. */
static void messages_not_as_they_were_sent(void **state)
{
    (void)state;
    heard = 0;
    vbn_am_handler(ctx, 9, count, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        struct vbn_wire_hdr hdr;

        lone_am(conn, 9, "x", 1);
        lone_am(conn, 9, "y", 1);
        hdr = lone_hdr(conn, VBN_WIRE_AM);
        hdr.id = 9;
        hdr.seq += i == 0 ? UINT32_MAX : 1;
        if (i < 2)
            lone_message(conn, &hdr, NULL);
        else
            assert_true(fake_message(conn->q.qp, "", 0));
        lone_progress(ctx);
        lone_progress(ctx);
        assert_null(ep->conn);
        assert_int_equal(unit.failures, 0);
        assert_int_equal(heard, 2 * i + 2);
        meet_again(0);
        assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    }
    assert_int_equal(ctx->counters.recoveries, 3);
    assert_contains(unit.log[VBN_LOG_WARN], "without bytes");
}

/* Else who begins each connection so could have us make them for ever. */
static void no_message_right(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    lone_am(conn, 9, "x", 1);
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(0);
    hdr = lone_hdr(conn, VBN_WIRE_AM);
    hdr.seq++;
    lone_message(conn, &hdr, NULL);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PROTOCOL);
}

static void puts_and_gets_in_their_place(void **state)
{
    (void)state;
    send_byte('a');
    put();
    send_byte('b');
    get();
    send_byte('c');
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(ended, 0);
    meet_again(0);
    assert_int_equal(lone_sent(conn), 5);
    assert_int_equal(byte_at(0, 0), 'a');
    assert_int_equal(lone_send_at(conn, 1, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(byte_at(2, 1), 'b');
    assert_int_equal(lone_send_at(conn, 3, NULL)->wr.opcode, IBV_WR_RDMA_READ);
    assert_int_equal(byte_at(4, 2), 'c');
    lone_complete(conn);
    assert_int_equal(ended, 2);
    assert_int_equal(last_status, VBN_OK);
}

/* A put of all of MEMORY, and a word that it is done. */
static void put_and_tell(void)
{
    struct vbn_rider done_word = {.number = 3, .last = 4};

    assert_int_equal(vbn_tx_get(ep, sizeof(struct vbn_wire_answer), &done_word.msg), VBN_OK);
    vbn_wire_answer_write(vbn_tx_payload(done_word.msg), &(struct vbn_wire_answer){.id = 3});
    vbn_tx_set(done_word.msg, VBN_WIRE_TAG, VBN_TAG_DONE, sizeof(struct vbn_wire_answer));
    assert_int_equal(vbn_rma_put_told(ep, memory, mem, 0x1000, 0x22, LEN, done, NULL, &done_word),
                     VBN_OK);
    assert_int_equal(lone_sent(conn), 1);
}

/* Its put may have been there already: the word is told by itself. */
static void a_word_that_rode_goes_behind_its_put(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    put_and_tell();
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(0);
    assert_int_equal(lone_sent(conn), 2);
    assert_int_equal(lone_send_at(conn, 0, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    lone_send_at(conn, 1, &hdr);
    assert_int_equal(hdr.type, VBN_WIRE_TAG);
    assert_int_equal(hdr.id, VBN_TAG_DONE);
    assert_int_equal(hdr.seq, 0);
    lone_complete(conn);
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_OK);
}

/* Who has heard it may use the memory for something else. */
static void no_put_whose_word_has_arrived(void **state)
{
    (void)state;
    put_and_tell();
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(1);
    lone_progress(ctx);
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_OK);
    assert_int_equal(lone_sent(conn), 0);
    assert_int_equal(ep->msgs_out, 0);
}

/* Who has got the message behind a put may use the memory for something else. */
static void no_put_before_what_has_arrived(void **state)
{
    (void)state;
    put();
    send_byte('a');
    get();
    send_byte('b');
    put();
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(2);
    lone_progress(ctx);
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_OK);
    assert_int_equal(lone_sent(conn), 2);
    assert_int_equal(lone_send_at(conn, 0, NULL)->wr.opcode, IBV_WR_RDMA_READ);
    assert_int_equal(lone_send_at(conn, 1, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
}

/* The buffer belongs to the connection that it came by: the next one owes nothing for it. */
static void a_message_held_meanwhile(void **state)
{
    const struct vbn_wire_tag tag = {.tag = 3, .len = 10};
    char payload[sizeof(tag) + 10] = {0};
    struct vbn_wire_hdr hdr;
    struct vbn_rxbuf *buf;

    (void)state;
    vbn_wire_tag_write(payload, &tag);
    for (int i = 0; i < 2; i++) { /* the first is kept, and all that may be */
        hdr = lone_hdr(conn, VBN_WIRE_TAG);
        hdr.id = VBN_TAG_EAGER;
        hdr.len = sizeof(payload);
        lone_message(conn, &hdr, payload);
    }
    assert_int_equal(conn->flow.held, 1);
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(0);
    assert_int_equal(conn->flow.held, 0);
    buf = STAILQ_FIRST(&ep->tag.held);
    STAILQ_REMOVE_HEAD(&ep->tag.held, held_entry);
    vbn_rx_release(ep, buf);
    assert_int_equal(conn->flow.held, 0);
}

/* Once: its process may be about to end. */
static void a_denied_put_is_tried_again(void **state)
{
    (void)state;
    put();
    send_byte('a');
    lose(IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ended, 0);
    meet_again(0);
    assert_int_equal(lone_sent(conn), 2);
    assert_int_equal(lone_send_at(conn, 0, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    lone_progress(ctx);
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_OK);
}

static void a_denied_put_ends_alone(void **state)
{
    (void)state;
    put();
    put();
    send_byte('a');
    lose(IBV_WC_REM_ACCESS_ERR);
    meet_again(0);
    assert_int_equal(ended, 0);
    lose(IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_ERR_INVALID);
    assert_int_equal(unit.failures, 0);
    meet_again(0);
    assert_int_equal(lone_sent(conn), 2);
}

static void a_put_that_always_fails(void **state)
{
    (void)state;
    put();
    for (int i = 0; i < 3; i++) {
        lose(i ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
        assert_int_equal(ended, 0);
        meet_again(0);
    }
    lose(IBV_WC_LOC_QP_OP_ERR);
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_ERR_DEVICE);
    assert_int_equal(unit.failures, 0);
}

/* Links that fail again and again have nothing to do with what was being sent. */
static void a_put_and_a_link_that_often_fails(void **state)
{
    (void)state;
    ctx->opts.recovery_timeout_ms = 60000;
    put();
    for (int i = 0; i < 10; i++) {
        lone_pass(ctx, 600);
        lose(IBV_WC_LOC_QP_OP_ERR);
        meet_again(0);
    }
    assert_int_equal(ended, 0);
    lone_complete(conn);
    assert_int_equal(last_status, VBN_OK);
}

/* --- meeting again ---------------------------------------------------------------------------- */

static struct rdma_cm_id *request(uint32_t session, uint32_t rx_next)
{
    struct vbn_wire_hello hello = lone_hello(ctx, PEER);
    struct rdma_cm_id *id;

    hello.session = session;
    hello.rx_next = rx_next;
    id = lone_request(ctx, &hello);
    lone_progress(ctx);
    return id;
}

static uint8_t refused_for(void)
{
    struct vbn_wire_refusal r = {0};

    assert_true(vbn_wire_refusal_read(fake_rejected.data, fake_rejected.data_len, &r));
    return r.reason;
}

/* The peer has lost what still looks well here: ours is drained first. */
static void a_request_of_who_has_lost_it(void **state)
{
    (void)state;
    request(1, 0);
    assert_int_equal(refused_for(), VBN_REASON_BUSY);
    assert_null(ep->conn);
    assert_int_equal(unit.failures, 0);
}

static void a_request_from_before(void **state)
{
    (void)state;
    request(0, 0);
    assert_int_equal(refused_for(), VBN_REASON_BUSY);
    assert_ptr_equal(ep->conn, conn);
    assert_true(conn->q.probed_ns); /* whether the peer knows of it its device tells */
}

/* It goes on asking, and its device does not answer on the connection that looks well here. */
static void requests_of_who_never_had_it(void **state)
{
    (void)state;
    request(0, 0);
    request(0, 0); /* the same one, twice on its way */
    assert_ptr_equal(ep->conn, conn);
    lone_pass(ctx, 25);
    request(0, 0);
    assert_int_equal(refused_for(), VBN_REASON_BUSY);
    assert_null(ep->conn);
    assert_int_equal(unit.failures, 0);
    assert_contains(ep->recovery.cause, "asks for another, and");
}

/* Its device answers: so they are old ones. */
static void requests_from_before_one_by_one(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        request(0, 0);
        lone_complete(conn);
        lone_pass(ctx, 25);
    }
    assert_ptr_equal(ep->conn, conn);
}

static void a_request_for_what_is_gone(void **state)
{
    (void)state;
    send_byte('a');
    send_byte('b');
    lone_ack(conn);
    lose(IBV_WC_RETRY_EXC_ERR);
    request(1, 1); /* has been acknowledged */
    assert_int_equal(refused_for(), VBN_REASON_BUSY);
    request(1, 3); /* was never sent in this session */
    assert_int_equal(refused_for(), VBN_REASON_CLOSED);
    assert_int_equal(unit.failures, 0);
}

/* The peer has another session in mind: this one is over. */
static void an_answer_for_what_is_gone(void **state)
{
    (void)state;
    send_byte('a');
    send_byte('b');
    lone_ack(conn);
    lose(IBV_WC_RETRY_EXC_ERR);
    meet_again(1);
    lone_pass(ctx, 60);
    assert_null(ep->conn);
    assert_int_equal(unit.failures, 1);
    assert_contains(unit.failed[0].reason, "given it up");
}

/* The endpoint that the peer means has been closed, and is gone. */
static void a_request_of_who_missed_the_farewell(void **state)
{
    (void)state;
    vbn_endpoint_close(ep);
    lone_complete(conn);
    lone_pass(ctx, 60);
    assert_null(vbn_endpoint_find(ctx, PEER));
    request(1, 0);
    assert_int_equal(refused_for(), VBN_REASON_CLOSED);
    assert_null(vbn_endpoint_find(ctx, PEER));
}

static void a_request_to_who_has_given_up(void **state)
{
    (void)state;
    vbn_endpoint_fail(ep, VBN_ERR_PROTOCOL, "test");
    lone_pass(ctx, 60);
    request(1, 0);
    assert_int_equal(refused_for(), VBN_REASON_LOST);
}

/* Another of its addresses may be another host's, where nobody listens. */
static void nobody_at_another_address(void **state)
{
    (void)state;
    lose(IBV_WC_RETRY_EXC_ERR);
    ep->peer.addrs[0].ip[3]++;
    for (int i = 0; i < 5; i++) {
        fake_event(ask()->id, RDMA_CM_EVENT_REJECTED, 8, NULL, 0);
        lone_progress(ctx);
    }
    assert_int_equal(unit.failures, 0);
}

/* Our own request, under way for long, may have been lost with the link. */
static void a_request_that_crosses_an_old_one(void **state)
{
    struct rdma_cm_id *id;

    (void)state;
    lose(IBV_WC_RETRY_EXC_ERR);
    ask();
    request(1, 0);
    assert_int_equal(refused_for(), VBN_REASON_CROSSED);
    lone_pass(ctx, 110);
    id = request(1, 0);
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    lone_progress(ctx);
    assert_non_null(ep->conn);
    assert_int_equal(ep->session, 2);
    assert_int_equal(ctx->counters.recoveries, 1);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void nobody_there(void)
{
    fake_event(ask()->id, RDMA_CM_EVENT_REJECTED, 8, NULL, 0);
    lone_progress(ctx);
}

/* A device that makes its stream in the call says so there. */
static void refused_in_the_call(void)
{
    fake_fail(FAKE_CONNECT, 1, ECONNREFUSED);
    find_way();
}

/* As TELL says each time that we ask. */
static void expect_end_of_process(void (*tell)(void))
{
    put();
    lose(IBV_WC_RETRY_EXC_ERR);
    tell();
    tell();
    assert_int_equal(unit.failures, 0); /* a single answer may be a mistake */
    tell();
    tell();
    assert_int_equal(unit.failures, 0); /* nor is a host sure that gets its address back */
    lone_pass(ctx, 600);
    tell();
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "its process has ended");
    assert_contains(unit.failed[0].reason, "completion error");
    assert_int_equal(ended, 1);
    assert_int_equal(last_status, VBN_ERR_PEER_LOST);
}

static void a_process_that_has_ended(void **state)
{
    (void)state;
    expect_end_of_process(nobody_there);
}

static void a_process_that_has_ended_by_the_call(void **state)
{
    (void)state;
    expect_end_of_process(refused_in_the_call);
}

static void a_peer_that_has_closed(void **state)
{
    (void)state;
    lose(IBV_WC_RETRY_EXC_ERR);
    lone_refuse(ask(), VBN_REASON_CLOSED);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 0);
    assert_int_equal(vbn_am_send(ep, 5, NULL, 0), VBN_ERR_CLOSED);
}

static void the_deadline(void **state)
{
    (void)state;
    put();
    lose(IBV_WC_RETRY_EXC_ERR);
    while (!unit.failures && unit.now_ns < 3000 * (uint64_t)UNIT_MS) {
        if (ep->attempt)
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, NULL, 0);
        lone_progress(ctx);
    }
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "not made again within 1");
    assert_int_equal(ended, 1);
}

/* Connections that are made and fail at once are no recovery. */
static void again_and_again(void **state)
{
    uint64_t start = unit.now_ns;

    (void)state;
    send_byte('a');
    while (!unit.failures && unit.now_ns < start + 3000 * (uint64_t)UNIT_MS) {
        lose(IBV_WC_RETRY_EXC_ERR);
        if (!unit.failures)
            meet_again(0);
    }
    assert_int_equal(unit.failures, 1);
    assert_in_range(unit.now_ns - start, LIMIT * (uint64_t)UNIT_MS, 2 * LIMIT * (uint64_t)UNIT_MS);
}

/* The same where each time something gets through: it goes on for as long as it must. */
static void again_and_again_with_progress(void **state)
{
    uint64_t start = unit.now_ns;

    (void)state;
    for (uint32_t n = 0; unit.now_ns < start + 3 * LIMIT * (uint64_t)UNIT_MS; n++) {
        send_byte('a');
        lose(IBV_WC_RETRY_EXC_ERR);
        assert_int_equal(unit.failures, 0);
        meet_again(n + 1);
    }
}

static void the_device_is_gone(void **state)
{
    (void)state;
    put();
    lose(IBV_WC_RETRY_EXC_ERR);
    fake_async(ctx->device.verbs, IBV_EVENT_DEVICE_FATAL, NULL);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_contains(unit.failed[0].reason, "fake0");
    assert_int_equal(ended, 1);
}

/* --- before the peer has spoken (iWARP) --------------------------------------------------------
 */

/* A peer whose address is not known: it has come by itself, and has spoken. */
static void one_without_an_address(uint64_t uid)
{
    conn = lone_accept(ctx, uid);
    ep = conn->ep;
    lone_am(conn, 9, "x", 1);
}

/* The peer has lost its connection, and asks for another. */
static void comes_again(void)
{
    struct vbn_wire_hello hello = lone_hello(ctx, ep->uid);

    hello.session = ep->session;
    conn = lone_accept_by(ctx, &hello);
    assert_ptr_equal(ep->attempt, conn); /* until it speaks */
}

/* Both have lost it, and are together again; but the peer has not spoken yet. */
static void lost_and_not_spoken(void)
{
    ctx->device.iwarp = true;
    lose(IBV_WC_RETRY_EXC_ERR);
    comes_again();
}

static void lost_again_before_a_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(unit.failures, 0);
    lone_pass(ctx, 20);
    assert_non_null(ep->attempt); /* both ask */
    comes_again();
    send_byte('a');
    assert_int_equal(lone_sent(conn), 0);
    lone_ack(conn);
    assert_int_equal(byte_at(0, 0), 'a');
}

/* The recovery goes on as it began: in time, with its pauses, and until the peer has spoken. */
static void ended_before_a_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    lose(IBV_WC_RETRY_EXC_ERR);
    refused_in_the_call();
    lone_pass(ctx, 300);
    refused_in_the_call();
    lone_pass(ctx, 310);
    assert_int_equal(unit.failures, 0);
    refused_in_the_call();
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "its process has ended");
}

/* A request from before the session, long on its way, is of nobody who will speak: what has been
 * agreed upon since stays as it is. */
static void a_request_from_before_it_all(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, PEER);

    (void)state;
    ctx->device.iwarp = true;
    send_byte('a');
    send_byte('b');
    lose(IBV_WC_RETRY_EXC_ERR);
    conn = lone_accept_by(ctx, &hello);
    lose(IBV_WC_RETRY_EXC_ERR);
    hello.session = ep->session;
    hello.rx_next = 2;
    conn = lone_accept_by(ctx, &hello);
    send_byte('c');
    lone_ack(conn);
    assert_int_equal(lone_sent(conn), 1);
    assert_int_equal(byte_at(0, 2), 'c');
    assert_int_equal(ctx->counters.recoveries, 1);
}

/* What its host has said before it came does not count. */
static void nobody_there_and_then_it_comes(void **state)
{
    union vbn_sockaddr place = ep->recovery.place;

    (void)state;
    ctx->device.iwarp = true;
    lose(IBV_WC_RETRY_EXC_ERR);
    for (int i = 0; i < 3; i++)
        refused_in_the_call();
    comes_again();
    ep->recovery.place = place; /* ids of the fakes have no peer's address */
    lone_pass(ctx, 600);
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(unit.failures, 0);
}

static void lost_again_without_an_address(void **state)
{
    (void)state;
    one_without_an_address(PEER + 1);
    lost_and_not_spoken();
    send_byte('a');
    lose(IBV_WC_RETRY_EXC_ERR);
    lone_pass(ctx, 100);
    assert_int_equal(unit.failures, 0);
    comes_again();
    lone_ack(conn);
    assert_int_equal(byte_at(0, 0), 'a');
}

static void ended_without_an_address(void **state)
{
    uint64_t start = unit.now_ns;

    (void)state;
    one_without_an_address(PEER + 1);
    lost_and_not_spoken();
    lone_pass(ctx, 100);
    lose(IBV_WC_RETRY_EXC_ERR);
    while (!unit.failures && unit.now_ns < start + 3000ull * UNIT_MS)
        lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_in_range((unit.now_ns - start) / UNIT_MS, LIMIT, LIMIT + 50);
}

/* The older connection makes way, and the newer one dies. */
static void asks_again_instead_of_speaking(void **state)
{
    (void)state;
    one_without_an_address(PEER + 1);
    lost_and_not_spoken();
    comes_again();
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(unit.failures, 0);
    lone_pass(ctx, LIMIT);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
}

/* The same, where there is no memory for the newer one: before the time to come is over, and after.
 */
static void asks_again_and_cannot_be_answered(void **state)
{
    static const uint64_t after[] = {100, LIMIT - 20};

    (void)state;
    ctx->device.iwarp = true;
    for (unsigned i = 0; i < 2; i++) {
        struct vbn_wire_hello hello;

        one_without_an_address(PEER + 1 + i);
        lose(IBV_WC_RETRY_EXC_ERR);
        lone_pass(ctx, after[i]);
        comes_again();
        lone_pass(ctx, 50);
        hello = lone_hello(ctx, ep->uid);
        hello.session = ep->session;
        lone_request(ctx, &hello);
        unit_fail_alloc(1);
        lone_progress(ctx);
        unit_fail_alloc(0);
        assert_null(ep->attempt);
        lone_pass(ctx, LIMIT);
        assert_int_equal(unit.failures, 1 + i);
        assert_int_equal(unit.failed[i].status, VBN_ERR_PEER_LOST);
    }
}

/* Its host may have died: nothing that we could send would tell. */
static void says_nothing_any_more(void **state)
{
    uint64_t start = unit.now_ns;

    (void)state;
    lost_and_not_spoken();
    lone_pass(ctx, LIMIT - 50);
    assert_ptr_equal(ep->attempt, conn);
    lone_pass(ctx, 100);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "said nothing");
    assert_in_range((unit.now_ns - start) / UNIT_MS, LIMIT, LIMIT + 100);
}

/* It has a moment for its first word all the same. */
static void comes_at_the_last_moment(void **state)
{
    (void)state;
    one_without_an_address(PEER + 1);
    ctx->device.iwarp = true;
    lose(IBV_WC_RETRY_EXC_ERR);
    lone_pass(ctx, LIMIT - 20);
    comes_again();
    lone_pass(ctx, 200);
    assert_ptr_equal(ep->attempt, conn);
    lone_ack(conn);
    lone_pass(ctx, 200);
    assert_ptr_equal(ep->conn, conn);
    assert_int_equal(unit.failures, 0);
}

/* Who has spoken in time may be silent for as long as he likes. */
static void says_one_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    lone_ack(conn);
    lone_pass(ctx, 3 * LIMIT);
    assert_ptr_equal(ep->conn, conn);
    assert_int_equal(unit.failures, 0);
    assert_int_equal(ctx->counters.recoveries, 1);
}

/* What is known then of the end of a connection counts: it is a new loss. */
static void lost_after_a_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    lone_pass(ctx, LIMIT - 50);
    lone_am(conn, 9, "x", 1);
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(ctx->counters.conns_lost, 2);
    lone_pass(ctx, 100);
    assert_int_equal(unit.failures, 0);
}

/* Who leaves says so as soon as he may speak. */
static void left_before_a_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    vbn_endpoint_close(ep);
    lone_pass(ctx, 10);
    assert_ptr_equal(ep->attempt, conn);
    lone_ack(conn);
    assert_true(lone_said_bye(conn));
    lone_complete(conn);
    lone_pass(ctx, 60);
    assert_null(vbn_endpoint_find(ctx, PEER));
    assert_int_equal(unit.failures, 0);
}

/* It ends at once and not when its queue pair is drained, which a device that has failed may not
 * tell; and so it is with nobody whose peer has spoken. */
static void a_device_gone_before_a_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    fake_flush_by_itself(false);
    fake_async(ctx->device.verbs, IBV_EVENT_DEVICE_FATAL, NULL);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
}

static void a_device_gone_after_a_word(void **state)
{
    (void)state;
    lost_and_not_spoken();
    lone_ack(conn);
    fake_flush_by_itself(false);
    fake_async(ctx->device.verbs, IBV_EVENT_DEVICE_FATAL, NULL);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 0); /* it may have said farewell */
    fake_flush(conn->q.qp);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
}

/* --- the farewell --------------------------------------------------------------------------- */

/* Said, and perhaps not heard: it is said again, by another connection. */
static void a_farewell_lost(void **state)
{
    (void)state;
    vbn_endpoint_close(ep);
    assert_true(lone_said_bye(conn));
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_ptr_equal(vbn_endpoint_find(ctx, PEER), ep);
    meet_again(0);
    assert_true(lone_said_bye(conn));
    lone_complete(conn);
    lone_pass(ctx, 60);
    assert_null(vbn_endpoint_find(ctx, PEER));
    assert_int_equal(unit.failures, 0);
}

/* The device does not even take it. */
static void a_farewell_refused(void **state)
{
    (void)state;
    fake_fail(FAKE_POST_SEND, 1, EIO);
    vbn_endpoint_close(ep);
    lone_progress(ctx);
    lone_progress(ctx);
    meet_again(0);
    assert_true(lone_said_bye(conn));
    lone_complete(conn);
    lone_pass(ctx, 60);
    assert_null(vbn_endpoint_find(ctx, PEER));
}

/* The peer had heard it, and is over. */
static void a_farewell_heard_after_all(void **state)
{
    (void)state;
    vbn_endpoint_close(ep);
    lose(IBV_WC_RETRY_EXC_ERR);
    lone_refuse(ask(), VBN_REASON_CLOSED);
    lone_pass(ctx, 60);
    assert_null(vbn_endpoint_find(ctx, PEER));
    assert_int_equal(unit.failures, 0);
}

/* Nobody is told of a loss where nothing is lost. */
static void a_farewell_to_nobody(void **state)
{
    (void)state;
    assert_true(vbn_shutdown(ctx) > 0); /* unlike vbn_endpoint_close(): the caller still hears */
    assert_true(lone_said_bye(conn));
    lose(IBV_WC_RETRY_EXC_ERR);
    nobody_there();
    lone_pass(ctx, 300);
    nobody_there();
    lone_pass(ctx, 310);
    nobody_there();
    assert_int_equal(ep->state, VBN_EP_CLOSED);
    assert_int_equal(unit.failures, 0);
    assert_int_equal(unit.log_count[VBN_LOG_ERROR], 0);
}

/* Only the peer can ask again: it has a moment for it. */
static void a_farewell_without_an_address(void **state)
{
    (void)state;
    conn = lone_accept(ctx, 8);
    ep = conn->ep;
    lone_am(conn, 9, "x", 1);
    assert_true(vbn_shutdown(ctx) > 0);
    assert_true(lone_said_bye(conn));
    lose(IBV_WC_RETRY_EXC_ERR);
    lone_pass(ctx, 500);
    assert_int_equal(ep->state, VBN_EP_CLOSING);
    lone_pass(ctx, 1100);
    assert_int_equal(ep->state, VBN_EP_CLOSED);
    assert_int_equal(unit.failures, 0);
}

/* --- the link --------------------------------------------------------------------------------- */

static void link_is(enum ibv_port_state state)
{
    lone_device->port[0].state = state;
    fake_async(ctx->device.verbs,
               state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, NULL);
    lone_progress(ctx);
}

static void nothing_is_said_without_a_link(void **state)
{
    unsigned said = fake_count(FAKE_DISCONNECT);

    (void)state;
    send_byte('a');
    link_is(IBV_PORT_DOWN);
    lose(IBV_WC_LOC_QP_OP_ERR);
    lone_pass(ctx, 200);
    assert_int_equal(fake_count(FAKE_DISCONNECT), said);
    link_is(IBV_PORT_ACTIVE);
    lone_pass(ctx, 60);
    assert_int_equal(fake_count(FAKE_DISCONNECT), said + 1);
}

static void nothing_is_said_without_an_address(void **state)
{
    unsigned said = fake_count(FAKE_DISCONNECT);

    (void)state;
    lone_at_home(conn->id);
    send_byte('a');
    fake_address_flags("eth0", 0);
    lose(IBV_WC_LOC_QP_OP_ERR);
    lone_pass(ctx, 200);
    assert_int_equal(fake_count(FAKE_DISCONNECT), said);
    fake_address_flags("eth0", IFF_UP);
    fake_async(ctx->device.verbs, IBV_EVENT_GID_CHANGE, NULL);
    lone_pass(ctx, 60);
    assert_int_equal(fake_count(FAKE_DISCONNECT), said + 1);
}

/* The connection goes with it, and attempts for a while come to nothing. */
static void lose_the_link(void)
{
    link_is(IBV_PORT_DOWN);
    lose(IBV_WC_RETRY_EXC_ERR);
    for (int i = 0; i < 150; i++) {
        if (ep->attempt)
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, NULL, 0);
        lone_progress(ctx);
    }
}

static void the_link_is_back(void **state)
{
    (void)state;
    lose_the_link();
    assert_null(ep->attempt);
    assert_true(ep->timer.at_ns > unit.now_ns + 5 * UNIT_MS);
    link_is(IBV_PORT_ACTIVE);
    lone_progress(ctx);
    lone_progress(ctx);
    assert_non_null(ep->attempt); /* at once */
}

/* A message, of which silence alone would say nothing for longer than a test lasts. */
static void message_under_way(void)
{
    ctx->opts.recovery_timeout_ms = 60000;
    lone_pass(ctx, 1100);
    send_byte('a');
    lone_pass(ctx, 1100);
}

/* It is under way when the link goes, and still is when it has come back. */
static void link_away_under_way(void)
{
    message_under_way();
    link_is(IBV_PORT_DOWN);
    lone_pass(ctx, 100);
    link_is(IBV_PORT_ACTIVE);
}

/* What completes nothing then never will. */
static void stuck_since_the_link_was_away(void **state)
{
    (void)state;
    link_away_under_way();
    assert_ptr_equal(ep->conn, conn);
    lone_pass(ctx, 1100);
    assert_null(ep->conn);
    assert_int_equal(unit.failures, 0);
    assert_contains(ep->recovery.cause, "has not answered");
}

static void stuck_since_an_address_was_away(void **state)
{
    (void)state;
    message_under_way();
    assert_ptr_equal(ep->conn, conn);
    fake_async(ctx->device.verbs, IBV_EVENT_GID_CHANGE, NULL);
    lone_pass(ctx, 1100);
    assert_null(ep->conn);
    assert_contains(ep->recovery.cause, "has not answered");
}

/* Only the look after the change finds that all was well until then. */
static void stuck_as_soon_as_an_address_goes(void **state)
{
    (void)state;
    message_under_way();
    lone_complete(conn);
    send_byte('b');
    fake_async(ctx->device.verbs, IBV_EVENT_GID_CHANGE, NULL);
    lone_pass(ctx, 100);
    assert_ptr_equal(ep->conn, conn);
    lone_pass(ctx, 300);
    assert_null(ep->conn);
    assert_contains(ep->recovery.cause, "has not answered");
}

static void well_since_the_link_is_back(void **state)
{
    (void)state;
    link_away_under_way();
    for (int i = 0; i < 12; i++) {
        lone_complete(conn); /* the probes, and with the first of them the message */
        lone_pass(ctx, 100);
    }
    assert_ptr_equal(ep->conn, conn);
}

/* What happens at another port of the device says nothing of ours. */
static void events_of_another_port(void **state)
{
    (void)state;
    message_under_way();
    fake_port_event(2, IBV_EVENT_PORT_ACTIVE);
    lone_pass(ctx, 1100);
    assert_ptr_equal(ep->conn, conn);
}

/* Other events before, and one for each GID of an address, do not hide that it has gone. */
static void an_address_goes_among_other_events(void **state)
{
    uint64_t then;

    (void)state;
    lose_the_link();
    assert_true(ep->timer.at_ns > 0);
    fake_address_flags("eth0", 0);
    ctx->device.addrs_seen = false;
    fake_async(ctx->device.verbs, IBV_EVENT_QP_LAST_WQE_REACHED, conn->q.qp);
    fake_async(ctx->device.verbs, IBV_EVENT_GID_CHANGE, NULL);
    fake_async(ctx->device.verbs, IBV_EVENT_GID_CHANGE, NULL);
    then = unit.now_ns;
    lone_progress(ctx);
    assert_true(ep->timer.at_ns >= then + 100 * UNIT_MS);
    fake_address_flags("eth0", IFF_UP);
}

/* No answer at all is no reason to wait longer than is allowed. */
static void a_silent_host_is_lost_in_time(void **state)
{
    uint64_t start = unit.now_ns;

    (void)state;
    ctx->opts.recovery_timeout_ms = 60000;
    lose(IBV_WC_RETRY_EXC_ERR);
    while (!unit.failures && unit.now_ns < start + 200000ull * UNIT_MS) {
        if (ep->attempt && ep->attempt->state == VBN_CONN_ADDR)
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
        else if (ep->attempt && ep->attempt->state == VBN_CONN_ROUTE)
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
        lone_progress(ctx);
    }
    assert_in_range((unit.now_ns - start) / UNIT_MS, 59000, 61000);
}

/* A disconnect whose peer stays silent is over in time. */
static void a_peer_that_does_not_part(void **state)
{
    (void)state;
    fake_disconnect_by_itself(false);
    send_byte('a');
    lose(IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(conn->state, VBN_CONN_LEAVING);
    assert_int_equal(ep->conn_count, 2);
    lone_pass(ctx, 1200);
    assert_in_range(ep->conn_count, 0, 1);
    fake_disconnect_by_itself(true);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(messages_that_have_not_arrived),
        T(nothing_where_all_has_arrived),
        T(our_request_says_what_has_come),
        T(messages_not_as_they_were_sent),
        T(no_message_right),
        T(puts_and_gets_in_their_place),
        T(no_put_before_what_has_arrived),
        T(a_word_that_rode_goes_behind_its_put),
        T(no_put_whose_word_has_arrived),
        T(a_message_held_meanwhile),
        T(a_denied_put_is_tried_again),
        T(a_denied_put_ends_alone),
        T(a_put_that_always_fails),
        T(a_put_and_a_link_that_often_fails),
        T(a_request_of_who_has_lost_it),
        T(a_request_from_before),
        T(requests_of_who_never_had_it),
        T(requests_from_before_one_by_one),
        T(a_request_for_what_is_gone),
        T(an_answer_for_what_is_gone),
        T(a_request_of_who_missed_the_farewell),
        T(a_request_to_who_has_given_up),
        T(nobody_at_another_address),
        T(a_request_that_crosses_an_old_one),
        T(a_process_that_has_ended),
        T(a_process_that_has_ended_by_the_call),
        T(a_peer_that_has_closed),
        T(the_deadline),
        T(again_and_again),
        T(again_and_again_with_progress),
        T(the_device_is_gone),
        T(lost_again_before_a_word),
        T(ended_before_a_word),
        T(a_request_from_before_it_all),
        T(nobody_there_and_then_it_comes),
        T(lost_again_without_an_address),
        T(ended_without_an_address),
        T(asks_again_instead_of_speaking),
        T(asks_again_and_cannot_be_answered),
        T(says_nothing_any_more),
        T(comes_at_the_last_moment),
        T(says_one_word),
        T(lost_after_a_word),
        T(left_before_a_word),
        T(a_device_gone_before_a_word),
        T(a_device_gone_after_a_word),
        T(a_farewell_lost),
        T(a_farewell_refused),
        T(a_farewell_heard_after_all),
        T(a_farewell_to_nobody),
        T(a_farewell_without_an_address),
        T(nothing_is_said_without_a_link),
        T(nothing_is_said_without_an_address),
        T(the_link_is_back),
        T(stuck_since_the_link_was_away),
        T(stuck_since_an_address_was_away),
        T(stuck_as_soon_as_an_address_goes),
        T(well_since_the_link_is_back),
        T(events_of_another_port),
        T(an_address_goes_among_other_events),
        T(a_silent_host_is_lost_in_time),
        T(a_peer_that_does_not_part),
    };

    return cmocka_run_group_tests_name("recover", tests, NULL, NULL);
}
