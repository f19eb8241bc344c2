/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: delivery, every breach of the rules, acknowledging, refilling, with and without SRQ.
 */
#include "lone.h"

#include <errno.h>

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;

static struct {
    unsigned calls;
    size_t len;
    uint8_t id;
    vbn_endpoint_t *ep;
    unsigned char data[1024];
    void (*act)(void); /* what the handler does besides */
} got;

static void handler(void *arg, vbn_endpoint_t *from, uint8_t id, void *data, size_t len)
{
    assert_ptr_equal(arg, &got);
    assert_int_equal((uintptr_t)data % 16, 0);
    got.calls++;
    got.len = len;
    got.id = id;
    got.ep = from;
    memcpy(got.data, data, len);
    memset(data, 0xee, len); /* the handler's until it returns */
    if (got.act)
        got.act();
}

static void start(void (*tweak)(struct vbn_options *))
{
    memset(&got, 0, sizeof(got));
    ctx = lone_open(tweak);
    vbn_am_handler(ctx, 5, handler, &got);
    conn = lone_connect(ctx, 7);
    ep = conn->ep;
}

static int setup(void **state)
{
    lone_setup(state);
    start(NULL);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- tagged: in which order they are over -------------------------------------------------------
 */

static struct {
    char order[4];
    unsigned over;
    uint64_t counted; /* messages, when the last one was over */
} ends;

static void on_end(struct vbn_op *op)
{
    struct vbn_counters counters = {.size = sizeof(counters)};

    vbn_counters(ctx, &counters);
    ends.counted = counters.rx_msgs;
    ends.order[ends.over++] = (char)op->tag;
}

/* The Nth message from now on: KIND, of TAG, with DATA of a message of LEN bytes. */
static void queue_tagged(uint32_t n, uint8_t kind, uint64_t tag, const char *data, size_t len)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_TAG);
    struct vbn_wire_tag head = {.tag = tag, .len = len};
    char bytes[sizeof(head) + 2];
    size_t at = kind == VBN_TAG_NEXT ? 0 : sizeof(head);

    hdr.seq += n;
    hdr.id = kind;
    vbn_wire_tag_write(bytes, &head);
    memcpy(bytes + at, data, strlen(data));
    hdr.len = (uint32_t)(at + strlen(data));
    lone_queued(conn, &hdr, bytes);
}

static void receives_are_over_in_their_order(void **state)
{
    struct vbn_op parts = {.done = on_end}, whole = {.done = on_end};
    char in[2][4];

    (void)state;
    memset(&ends, 0, sizeof(ends));
    assert_int_equal(vbn_tag_recv(ctx, ep, in[0], 4, 'p', VBN_TAG_MAX, &parts), VBN_PENDING);
    assert_int_equal(vbn_tag_recv(ctx, ep, in[1], 4, 'w', VBN_TAG_MAX, &whole), VBN_PENDING);
    queue_tagged(0, VBN_TAG_FIRST, 'p', "ab", 4);
    queue_tagged(1, VBN_TAG_NEXT, 'p', "cd", 4);
    queue_tagged(2, VBN_TAG_EAGER, 'w', "ef", 2);
    vbn_progress(ctx);
    assert_string_equal(ends.order, "pw");
    assert_memory_equal(in[0], "abcd", 4);
    assert_memory_equal(in[1], "ef", 2);
}

static void counted_before_they_are_over(void **state)
{
    struct vbn_op whole = {.done = on_end};
    char in[2];

    (void)state;
    memset(&ends, 0, sizeof(ends));
    assert_int_equal(vbn_tag_recv(ctx, ep, in, 2, 'w', VBN_TAG_MAX, &whole), VBN_PENDING);
    queue_tagged(0, VBN_TAG_EAGER, 'w', "ef", 2);
    vbn_progress(ctx);
    assert_string_equal(ends.order, "w");
    assert_int_equal(ends.counted, 1);
}

/* --- delivery --------------------------------------------------------------------------------- */

static void to_the_handler_of_its_id(void **state)
{
    unsigned char bytes[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7);
    for (size_t len = 0; len <= sizeof(bytes); len += 128) {
        got.calls = 0;
        lone_am(conn, 5, bytes, len);
        assert_int_equal(got.calls, 1);
        assert_int_equal(got.len, len);
        assert_int_equal(got.id, 5);
        assert_ptr_equal(got.ep, ep);
        assert_memory_equal(got.data, bytes, len);
    }
    assert_int_equal(ctx->counters.rx_msgs, 9);
    assert_int_equal(ctx->counters.rx_bytes, 128 * 36);
}

static void without_a_handler_counted_and_dropped(void **state)
{
    (void)state;
    lone_am(conn, 6, "x", 1);
    assert_int_equal(ctx->counters.bad_messages, 1);
    lone_am(conn, 5, "x", 1); /* the connection lives on */
    assert_int_equal(got.calls, 1);
    vbn_am_handler(ctx, 5, NULL, NULL);
    lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 1);
    assert_int_equal(ctx->counters.bad_messages, 2);
    assert_int_equal(unit.failures, 0);
}

static void close_inside(void)
{
    vbn_endpoint_close(ep);
}

static void handler_closes_its_endpoint(void **state)
{
    (void)state;
    got.act = close_inside;
    lone_am(conn, 5, "x", 1);
    lone_am(conn, 5, "x", 1); /* the peer does not know yet */
    assert_int_equal(got.calls, 1);
    lone_complete(conn);
    lone_progress(ctx);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(unit.failures, 0);
}

static void progress_inside(void)
{
    assert_int_equal(vbn_progress(ctx), 0);
}

static void progress_inside_a_handler_does_nothing(void **state)
{
    (void)state;
    got.act = progress_inside;
    lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 1);
}

/* The first bytes may overtake the connection manager's last message. */
static void message_before_established(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 8);
    struct rdma_cm_id *id = lone_request(ctx, &hello);
    struct vbn_conn *other;

    (void)state;
    lone_progress(ctx);
    other = id->context;
    vbn_flow_init(&other->flow, other->window, 16); /* for lone_hdr() */
    lone_am(other, 5, "x", 1);
    assert_int_equal(other->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(got.calls, 1);
    assert_ptr_equal(got.ep, other->ep);
}

static void message_after_the_end(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    fake_disconnect_by_itself(false);
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK); /* keeps the connection from going */
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "test");
    lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 0);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
}

/* --- breaches --------------------------------------------------------------------------------- */

/* The last message ended the endpoint with a protocol error, once. */
static void broken(unsigned times)
{
    lone_progress(ctx);
    assert_int_equal(unit.failures, times);
    assert_int_equal(unit.failed[times - 1].status, VBN_ERR_PROTOCOL);
    assert_contains(unit.failed[times - 1].reason, "10.0.0.2");
    assert_int_equal(ctx->counters.bad_messages, times);
    assert_int_equal(got.calls, 0);
    assert_null(ep->conn);
    lone_pass(ctx, 60);
    assert_int_equal(ep->conn_count, 0);
}

static void malformed(void **state)
{
    static const struct {
        uint8_t type, id;
        int32_t len_off;
        size_t bytes;
    } cases[] = {{VBN_WIRE_AM, 5, 1, 26}, {VBN_WIRE_AM, 5, -1, 26}, {0, 0, 0, 16},
                 {4, 0, 0, 16},           {VBN_WIRE_ACK, 0, 0, 17}, {VBN_WIRE_BYE, 1, 0, 16},
                 {VBN_WIRE_AM, 5, 0, 15}, {VBN_WIRE_AM, 5, 0, 0}};

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[64] = {0};
        struct vbn_wire_hdr hdr;

        conn = lone_connect(ctx, 50 + i);
        ep = conn->ep;
        hdr = lone_hdr(conn, cases[i].type);
        hdr.id = cases[i].id;
        hdr.len = (uint32_t)((int32_t)cases[i].bytes - 16 + cases[i].len_off);
        vbn_wire_hdr_write(bytes, &hdr);
        assert_true(fake_message(conn->q.qp, bytes, cases[i].bytes));
        broken(i + 1);
        assert_contains(unit.failed[i].reason, "malformed");
    }
}

static void out_of_order(void **state)
{
    static const uint32_t seq_off[] = {1, UINT32_MAX, 0x80000000, 1000};
    static const uint8_t type[] = {VBN_WIRE_AM, VBN_WIRE_ACK, VBN_WIRE_BYE};

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct vbn_wire_hdr hdr;

        conn = lone_connect(ctx, 50 + i);
        ep = conn->ep;
        hdr = lone_hdr(conn, type[i / 4]);
        hdr.id = type[i / 4] == VBN_WIRE_AM ? 5 : 0;
        hdr.seq += seq_off[i % 4];
        lone_message(conn, &hdr, NULL);
        broken(i + 1);
        assert_contains(unit.failed[i].reason, "sequence");
    }
}

static void credits_broken(void **state)
{
    static const uint16_t grant[] = {VBN_WINDOW_MAX + 1, 15, 0, 0x8000};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct vbn_wire_hdr hdr;

        conn = lone_connect(ctx, 50 + i);
        ep = conn->ep;
        hdr = lone_hdr(conn, VBN_WIRE_AM);
        hdr.id = 5;
        hdr.credits = grant[i];
        lone_message(conn, &hdr, NULL);
        broken(i + 1);
        assert_contains(unit.failed[i].reason, "credits");
    }
}

/* The peer's messages have had to wait for credits. */
static void peer_waited(void)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_DRY);

    lone_message(conn, &hdr, NULL);
}

/* The peer, of whom CAME messages have come, has twice the window, and is told. */
static void widened_and_told(uint16_t came)
{
    struct vbn_wire_hdr hdr;

    assert_int_equal(conn->window, 16);
    assert_int_equal(ctx->rx.granted, 16);
    assert_true(fake_srq_posted(ctx->rx.shared.srq) >= 16);
    lone_send_at(conn, lone_sent(conn) - 1, &hdr);
    assert_int_equal(hdr.type, VBN_WIRE_ACK);
    assert_int_equal(hdr.credits, came + 16);
}

/* A peer that has had to wait gets twice the window, until the option's; each grant is told. */
static void window_grows_with_need(void **state)
{
    (void)state;
    assert_int_equal(conn->window, 8);
    peer_waited();
    widened_and_told(1);
    lone_complete(conn);
    for (int i = 0; i < 3; i++)
        peer_waited();
    assert_int_equal(conn->window, 16);
    assert_int_equal(ctx->rx.granted, 16);
    assert_int_equal(unit.failures, 0);
}

/* A peer that uses its window up gets twice the window, until the option's; each grant is told. */
static void window_grows_with_use(void **state)
{
    (void)state;
    assert_int_equal(conn->window, 8);
    for (int i = 0; i < 4; i++)
        lone_am(conn, 5, "x", 1);
    widened_and_told(4);
    for (int i = 0; i < 40; i++) {
        lone_complete(conn);
        lone_am(conn, 5, "x", 1);
    }
    assert_int_equal(conn->window, 16);
    assert_int_equal(ctx->rx.granted, 16);
}

static void window_of_an_idle_peer_stays(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) { /* the answers carry the credits */
        lone_am(conn, 5, "x", 1);
        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
        lone_complete(conn);
        lone_ack(conn);
    }
    assert_int_equal(conn->window, 8);
}

/* To widen means to register memory: not for who takes his time, and does not wait. */
static void window_of_a_slow_peer_stays(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        unit.now_ns += UNIT_MS / 4;
        lone_am(conn, 5, "x", 1);
        lone_complete(conn);
    }
    assert_int_equal(conn->window, 8);
    for (int i = 0; i < 4; i++) /* until now it was slow */
        lone_am(conn, 5, "x", 1);
    assert_int_equal(conn->window, 16);
}

static void window_grows_no_further_than_the_queue(void **state)
{
    (void)state;
    ctx->rx.max = ctx->rx.granted + VBN_RX_SLACK + 6;
    for (int i = 0; i < 4; i++)
        lone_am(conn, 5, "x", 1);
    assert_int_equal(conn->window, 9); /* a quarter of what is left, and there are others */
    assert_int_equal(ctx->rx.granted, 9);
}

/* Without memory for more the window stays what it is. */
static void window_without_memory(void **state)
{
    (void)state;
    ctx->rx.pool.max = ctx->rx.pool.limit = ctx->rx.pool.count;
    while (ctx->rx.pool.free_count)
        vbn_pool_get(&ctx->rx.pool);
    for (int i = 0; i < 4; i++)
        lone_am(conn, 5, "x", 1);
    assert_int_equal(conn->window, 8);
    assert_int_equal(ctx->rx.granted, 8);
    assert_int_equal(unit.failures, 0);
}

/* Whose version has no such word ends the connection by it. */
static void waits_that_its_version_cannot_tell(void **state)
{
    (void)state;
    conn->version = VBN_WIRE_DRIES - 1;
    peer_waited();
    assert_int_equal(conn->window, 8);
    broken(1);
    assert_contains(unit.failed[0].reason, "version");
}

static void more_than_was_granted(void **state)
{
    unsigned taken = 0;

    (void)state;
    conn->ctl->busy = true; /* nothing is told: the grant stays as it was */
    while (ep->conn == conn && !conn->q.failed && taken < 100) {
        lone_am(conn, 5, "x", 1);
        vbn_progress(ctx);
        taken++;
    }
    conn->ctl->busy = false;
    assert_int_equal(taken, 9);
    assert_int_equal(got.calls, 8);
}

static void ack_of_what_was_not_sent(void **state)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_ACK);

    (void)state;
    hdr.ack = 1;
    lone_message(conn, &hdr, NULL);
    broken(1);
}

static void sequence_wraps(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    ep->rx_next = UINT32_MAX - 1;
    for (int i = 0; i < 4; i++)
        lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 4);
    assert_int_equal(ep->rx_next, 2);
    lone_pass(ctx, 5);
    lone_send_at(conn, 0, &hdr);
    assert_int_equal(hdr.ack, 2);
    assert_int_equal(unit.failures, 0);
}

static void receive_that_fails(void **state)
{
    (void)state;
    fake_recv_fails(conn->q.qp, IBV_WC_LOC_LEN_ERR); /* longer than a buffer */
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "receive");
    lone_pass(ctx, 60);
    assert_int_equal(ep->conn_count, 0);
}

/* --- marks ------------------------------------------------------------------------------------ */

static void peer_marks(void)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_MARK);

    lone_message(conn, &hdr, NULL);
}

/* At once; those that come while the answer is under way, together by the next. */
static void marks_are_answered(void **state)
{
    (void)state;
    peer_marks();
    lone_acknowledged(conn, 1, 1);
    peer_marks();
    peer_marks();
    assert_int_equal(lone_sent(conn), 1);
    lone_complete(conn);
    lone_acknowledged(conn, 2, 3);
    lone_complete(conn);
    lone_pass(ctx, 5);
    assert_int_equal(lone_sent(conn), 2);
    assert_int_equal(ctx->counters.rx_msgs, 3);
    assert_int_equal(got.calls, 0);
}

/* A message that leaves meanwhile has told. */
static void a_message_answers_marks_too(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    peer_marks();
    peer_marks();
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_send_at(conn, 1, &hdr);
    assert_int_equal(hdr.ack, 2);
    lone_complete(conn);
    assert_int_equal(lone_sent(conn), 2);
}

static void marks_that_its_version_has_not(void **state)
{
    (void)state;
    conn->version = VBN_WIRE_MARKS - 1;
    peer_marks();
    broken(1);
    assert_contains(unit.failed[0].reason, "version");
}

/* --- acknowledging ---------------------------------------------------------------------------- */

/* What a destroyed queue pair left in the completion queue, as some devices do. */
static void completion_of_nobody_s_queue_pair(void **state)
{
    struct ibv_qp gone = *conn->q.qp;
    struct vbn_rq *rq = &ctx->rx.shared;
    uint32_t buffers = rq->posted + rq->chain_len;

    (void)state;
    gone.qp_num = 0xabcdef;
    lone_am(conn, 5, "x", 1);
    for (int i = 0; i < 3; i++) {
        assert_true(fake_message(&gone, "a message of 24 bytes...", 24));
        fake_recv_fails(&gone, IBV_WC_WR_FLUSH_ERR);
    }
    vbn_progress(ctx);
    assert_int_equal(rq->posted + rq->chain_len, buffers); /* the queue has them back */
    assert_int_equal(got.calls, 1);
    lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 2);
    assert_int_equal(unit.failures, 0);
}

static void told_at_half_the_window(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    for (int i = 0; i < 3; i++)
        lone_am(conn, 5, "x", 1);
    assert_int_equal(lone_sent(conn), 0);
    lone_am(conn, 5, "x", 1);
    assert_int_equal(lone_sent(conn), 1);
    lone_send_at(conn, 0, &hdr);
    assert_int_equal(hdr.type, VBN_WIRE_ACK);
    assert_int_equal(hdr.ack, 4);
    assert_int_equal(hdr.credits, 16 + 4); /* and a wider window */
    assert_int_equal(hdr.seq, 0);
    assert_int_equal(ctx->counters.acks_sent, 1);
}

static void one_acknowledgement_at_a_time(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    for (int i = 0; i < 16; i++)
        lone_am(conn, 5, "x", 1);
    assert_int_equal(lone_sent(conn), 1); /* its buffer is with the device */
    lone_complete(conn);
    assert_int_equal(lone_sent(conn), 2); /* due again in the meantime */
    lone_send_at(conn, 1, &hdr);
    assert_int_equal(hdr.ack, 16);
    assert_int_equal(hdr.credits, 32);
    lone_complete(conn);
    assert_int_equal(lone_sent(conn), 2);
}

static void told_after_a_while(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    lone_am(conn, 5, "x", 1);
    for (int i = 0; i < 500; i++) /* less than the delay */
        vbn_progress(ctx);
    assert_int_equal(lone_sent(conn), 0);
    lone_pass(ctx, 6);
    assert_int_equal(lone_sent(conn), 1);
    lone_send_at(conn, 0, &hdr);
    assert_int_equal(hdr.ack, 1);
    lone_complete(conn);
    lone_pass(ctx, 50);
    assert_int_equal(lone_sent(conn), 1);
}

static void answer_inside(void)
{
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
}

static void answers_carry_it(void **state)
{
    struct vbn_wire_hdr hdr;

    (void)state;
    got.act = answer_inside;
    for (unsigned i = 0; i < 40; i++) {
        lone_am(conn, 5, "x", 1);
        lone_send_at(conn, i, &hdr);
        assert_int_equal(hdr.type, VBN_WIRE_AM);
        assert_int_equal(hdr.ack, i + 1);
        lone_complete(conn);
    }
    lone_pass(ctx, 20);
    assert_int_equal(ctx->counters.acks_sent, 0);
}

/* Else two idle sides would thank each other for ever. */
static void acknowledgements_are_not_acknowledged(void **state)
{
    (void)state;
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    for (int i = 0; i < 3; i++) {
        lone_ack(conn);
        lone_pass(ctx, 50);
        lone_complete(conn);
    }
    assert_int_equal(lone_sent(conn), 1);
    assert_int_equal(ctx->counters.acks_sent, 0);
    assert_int_equal(unit.failures, 0);
}

/* But the credits that they took must come back some time. */
static void credits_of_acknowledgements_come_back(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        lone_ack(conn);
        lone_complete(conn);
        assert_int_equal(unit.failures, 0);
    }
    assert_in_range(lone_sent(conn), 1000 / 16, 1000 / 8 + 1);
}

/* --- refilling -------------------------------------------------------------------------------- */

static void queue_never_below_what_was_granted(void **state)
{
    (void)state;
    assert_true(fake_srq_posted(ctx->rx.shared.srq) >= conn->window + VBN_RX_SLACK);
    for (int i = 0; i < 300; i++) {
        lone_am(conn, 5, "x", 1);
        lone_complete(conn);
        assert_true(fake_srq_posted(ctx->rx.shared.srq) > conn->window);
    }
    assert_int_equal(got.calls, 300);
    assert_int_equal(fake_srq_posted(ctx->rx.shared.srq) + ctx->rx.shared.chain_len,
                     ctx->rx.shared.target);
}

static void refills_in_lists(void **state)
{
    unsigned posts = fake_count(FAKE_POST_RECV);

    (void)state;
    for (int i = 0; i < 80; i++) {
        lone_am(conn, 5, "x", 1);
        lone_complete(conn);
    }
    assert_int_equal(fake_count(FAKE_POST_RECV) - posts, 10);
}

static void refill_that_fails(void **state)
{
    uint32_t target;

    (void)state;
    while (conn->window < 16 || ctx->rx.shared.chain_len) {
        lone_am(conn, 5, "x", 1);
        lone_complete(conn);
    }
    target = ctx->rx.shared.target;
    fake_recv_taken(3);
    fake_fail(FAKE_POST_RECV, 1, ENOMEM);
    for (int i = 0; i < 8; i++)
        lone_am(conn, 5, "x", 1);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_int_equal(ctx->rx.shared.chain_len, 5); /* three were taken */
    assert_int_equal(fake_srq_posted(ctx->rx.shared.srq), target - 5);
    conn = lone_connect(ctx, 8); /* fills up again */
    assert_int_equal(fake_srq_posted(ctx->rx.shared.srq), ctx->rx.shared.target);
    for (int i = 0; i < 40; i++) {
        lone_am(conn, 5, "x", 1);
        lone_complete(conn);
    }
    assert_int_equal(unit.failures, 1);
}

static void no_srq(struct vbn_options *opts)
{
    opts->use_srq = false;
}

static void queues_of_their_own(void **state)
{
    struct vbn_conn *other;

    (void)state;
    lone_close(ctx);
    start(no_srq);
    other = lone_connect(ctx, 8);
    assert_null(ctx->rx.shared.srq);
    assert_int_equal(fake_qp(conn->q.qp)->init.cap.max_recv_wr, 16 + VBN_RX_SLACK);
    for (int i = 0; i < 200; i++) {
        lone_am(conn, 5, "x", 1);
        lone_am(other, 5, "x", 1);
        lone_complete(conn);
        lone_complete(other);
        assert_in_range(fake_qp_posted(conn->q.qp), 17, 16 + VBN_RX_SLACK);
    }
    assert_int_equal(got.calls, 400);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    lone_am(other, 5, "x", 1);
    assert_int_equal(got.calls, 401);
    assert_int_equal(ctx->rx.pool.count - ctx->rx.pool.free_count, 16 + VBN_RX_SLACK);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static void smaller_shared_queue_is_tried(void **state)
{
    (void)state;
    lone_close(ctx);
    lone_device->max_srq = 100; /* less than it claims */
    start(NULL);
    assert_non_null(ctx->rx.shared.srq);
    assert_int_equal(ctx->rx.max, 64);
    for (uint64_t uid = 200; uid < 220; uid++) { /* more than it can hold are refused, not posted */
        struct vbn_wire_hello hello = lone_hello(ctx, uid);

        lone_request(ctx, &hello);
        lone_progress(ctx);
    }
    assert_true(fake_srq_posted(ctx->rx.shared.srq) <= 64);
}

static void no_shared_queue_although_claimed(void **state)
{
    (void)state;
    lone_close(ctx);
    lone_device->max_srq = 0;
    start(NULL);
    assert_null(ctx->rx.shared.srq);
    lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 1);
}

static void pools_within_the_locked_memory(void **state)
{
    struct vbn_options opts;
    struct vbn_error err;
    vbn_context_t *none;

    (void)state;
    lone_close(ctx);
    unit_memlock(512 * 1024);
    start(NULL);
    assert_true((ctx->rx.max + ctx->msgs.max) * (uint64_t)(16 + 1024) <= 384 * 1024);
    lone_am(conn, 5, "x", 1);
    assert_int_equal(got.calls, 1);
    lone_close(ctx);
    unit_memlock(64 * 1024);
    unit_options(&opts);
    assert_int_equal(vbn_open(&opts, &none, &err), VBN_ERR_MEMLOCK);
    assert_contains(err.text, "64 KiB");
    assert_contains(err.text, "ulimit -l");
    assert_contains(err.text, "eager_limit");
    assert_int_equal(fake_live(), 0);
    unit_memlock(UINT64_MAX);
    start(NULL);
}

/* Buffers are rounded up to cache lines: that is not for the peer. */
static void message_longer_than_the_limit(void **state)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);

    (void)state;
    hdr.id = 5;
    hdr.len = ctx->max_am_len;
    lone_message(conn, &hdr, NULL);
    assert_int_equal(got.calls, 1);
    hdr.seq++;
    hdr.len++;
    lone_message(conn, &hdr, NULL);
    lone_progress(ctx);
    assert_int_equal(got.calls, 1);
    assert_int_equal(unit.failures, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(to_the_handler_of_its_id),
        T(message_longer_than_the_limit),
        T(without_a_handler_counted_and_dropped),
        T(handler_closes_its_endpoint),
        T(progress_inside_a_handler_does_nothing),
        T(message_before_established),
        T(message_after_the_end),
        T(malformed),
        T(out_of_order),
        T(credits_broken),
        T(marks_are_answered),
        T(a_message_answers_marks_too),
        T(marks_that_its_version_has_not),
        T(more_than_was_granted),
        T(window_grows_with_need),
        T(window_grows_with_use),
        T(window_of_an_idle_peer_stays),
        T(window_of_a_slow_peer_stays),
        T(waits_that_its_version_cannot_tell),
        T(window_grows_no_further_than_the_queue),
        T(window_without_memory),
        T(ack_of_what_was_not_sent),
        T(sequence_wraps),
        T(receive_that_fails),
        T(completion_of_nobody_s_queue_pair),
        T(told_at_half_the_window),
        T(one_acknowledgement_at_a_time),
        T(told_after_a_while),
        T(answers_carry_it),
        T(acknowledgements_are_not_acknowledged),
        T(credits_of_acknowledgements_come_back),
        T(queue_never_below_what_was_granted),
        T(refills_in_lists),
        T(refill_that_fails),
        T(queues_of_their_own),
        T(smaller_shared_queue_is_tried),
        T(no_shared_queue_although_claimed),
        T(pools_within_the_locked_memory),
        T(receives_are_over_in_their_order),
        T(counted_before_they_are_over),
    };

    return cmocka_run_group_tests_name("rx", tests, NULL, NULL);
}
