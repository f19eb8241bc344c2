/* SPDX-License-Identifier: BSD-3-Clause */
/* The state table of a connection, every state by every event; what the moves do; the end. */
#include "lone.h"

#include "half.h"

#include <errno.h>

static vbn_context_t *ctx;

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(NULL);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- the table -------------------------------------------------------------------------------- */

/*
 * One letter for each state: N A R C P(accepting) H(alf) E D(isconnecting) W(draining) L X(dead).
 * '.': nothing changes. '!': cannot come; where it does all the same, it counts as an error.
 * Events: CONNECT ACCEPT PREPARE JOIN | ADDR_OK ROUTE_OK ANSWER ESTABLISHED | REJECTED CM_ERROR
 * GONE QP_ERROR | CLOSE DRAINED TIMEOUT
 */
static const char letters[] = "NARCPHEDWLX";
static const char *const moves[VBN_CONN_STATES] = {
    [VBN_CONN_NEW] = "APH!!!!!!!!!!X!!",         [VBN_CONN_ADDR] = "!!!!R!!!X!XXXX!X",
    [VBN_CONN_ROUTE] = "!!!!.C!!X!XXXX!X",       [VBN_CONN_CONNECTING] = "!!!!..EEW!WWWW!W",
    [VBN_CONN_ACCEPTING] = "!!!!!!!EW.WWWW!W",   [VBN_CONN_HALF] = "!!!E!!!!!!W!WW!!",
    [VBN_CONN_ESTABLISHED] = "!!!!....D.DWDD!.", [VBN_CONN_DISCONNECTING] = "!!!!.......W..LX",
    [VBN_CONN_DRAINING] = "!!!!..........XX",    [VBN_CONN_LEAVING] = "!!!!.......X..!X",
    [VBN_CONN_DEAD] = "!!!!..........!.",
};

/* Receives of its own that nobody flushes keep a connection from being drained. */
static void no_srq(struct vbn_options *opts)
{
    opts->use_srq = false;
}

/* An endpoint forgets a connection before it closes it. */
static void close_conn(struct vbn_conn *conn)
{
    conn->ep->conn = conn->ep->attempt = NULL;
    vbn_conn_event(conn, VBN_EV_CLOSE);
}

/* Half of a connection, and what joining does before the event. */
static struct vbn_conn *half_conn(void)
{
    char blob[VBN_HALF_MAX];
    size_t len = sizeof(blob);
    struct vbn_conn *conn;
    vbn_half_t *half;

    assert_int_equal(vbn_half_create(ctx, blob, &len, &half, NULL), VBN_OK);
    conn = half->conn;
    conn->ep->conn_count--;
    conn->ep = lone_peer(ctx, 7);
    conn->ep->conn_count++;
    conn->ep->attempt = conn;
    return conn;
}

static struct vbn_conn *in_state(enum vbn_conn_state state, enum vbn_conn_event event)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    static struct vbn_half half;
    struct rdma_cm_id *id = NULL;
    struct vbn_conn *conn;

    switch (state) {
    case VBN_CONN_NEW:
        if (event == VBN_EV_ACCEPT) {
            struct rdma_cm_event *ev;

            id = lone_request(ctx, &hello);
            assert_int_equal(rdma_get_cm_event(ctx->cm.channel, &ev), 0);
            rdma_ack_cm_event(ev);
        }
        conn = vbn_conn_create(lone_peer(ctx, 7), id);
        conn->dst.in = (struct sockaddr_in){.sin_family = AF_INET};
        conn->ep->attempt = conn;
        conn->half = &half;
        half.conn = conn;
        return conn;
    case VBN_CONN_HALF:
        return half_conn();
    case VBN_CONN_ADDR:
    case VBN_CONN_ROUTE:
    case VBN_CONN_CONNECTING:
        return lone_attempt(ctx, 7, state);
    case VBN_CONN_ACCEPTING:
        id = lone_request(ctx, &hello);
        lone_progress(ctx);
        return id->context;
    default:
        conn = lone_connect(ctx, 7);
    }
    if (state == VBN_CONN_DISCONNECTING || state == VBN_CONN_LEAVING)
        close_conn(conn);
    if (state == VBN_CONN_DRAINING || state == VBN_CONN_DEAD)
        vbn_conn_event(conn, VBN_EV_GONE);
    if (state == VBN_CONN_LEAVING || state == VBN_CONN_DEAD)
        vbn_conn_event(conn, VBN_EV_DRAINED);
    return conn;
}

struct raise {
    struct vbn_conn *conn;
    enum vbn_conn_event event;
};

static void raise(void *arg)
{
    struct raise *r = arg;

    if (r->event == VBN_EV_CLOSE)
        close_conn(r->conn);
    else
        vbn_conn_event(r->conn, r->event);
}

static uint32_t in_progress(void)
{
    const struct vbn_conn *conn;
    uint32_t n = 0;

    TAILQ_FOREACH(conn, &ctx->conns, entry)
    n += conn->state < VBN_CONN_HALF;
    return n;
}

static void check_move(enum vbn_conn_state state, enum vbn_conn_event event)
{
    char want = moves[state][event];
    struct raise r = {.event = event};
    unsigned errors;
    bool asserted;

    lone_setup(NULL);
    fake_flush_by_itself(false);
    fake_disconnect_by_itself(false);
    ctx = lone_open(no_srq);
    r.conn = in_state(state, event);
    assert_int_equal(r.conn->state, state);
    r.conn->hello = lone_hello(ctx, 7);
    errors = unit.log_count[VBN_LOG_ERROR];
    asserted = unit_asserts(raise, &r);
    if (want == '!') {
        assert_true(asserted || unit.log_count[VBN_LOG_ERROR] > errors);
        want = asserted ? '.' : moves[state][VBN_EV_CM_ERROR];
    }
    if (letters[r.conn->state] != (want == '.' || want == '!' ? letters[state] : want))
        fail_msg("%s, event %d: went to %s, not %c", vbn_conn_state_str(state), (int)event,
                 vbn_conn_state_str(r.conn->state), want);
    assert_int_equal(ctx->connecting, in_progress());
    lone_close(ctx);
    lone_teardown(NULL);
}

static void table(void **state)
{
    for (int s = 0; s < VBN_CONN_STATES; s++) {
        assert_int_equal(strlen(moves[s]), VBN_CONN_EVENTS);
        for (int e = 0; e < VBN_CONN_EVENTS; e++)
            check_move((enum vbn_conn_state)s, (enum vbn_conn_event)e);
        for (int t = 0; t < s; t++)
            assert_string_not_equal(vbn_conn_state_str((enum vbn_conn_state)s),
                                    vbn_conn_state_str((enum vbn_conn_state)t));
    }
    (void)state;
}

/* --- what the moves do ------------------------------------------------------------------------ */

static void active_side_asks(void **state)
{
    struct vbn_conn *conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    const struct fake_id *id = fake_id(conn->id);
    const struct sockaddr_in *dst = (const struct sockaddr_in *)&id->dst;
    struct vbn_wire_hello h;

    (void)state;
    assert_int_equal(dst->sin_port, htons(7471));
    assert_int_equal(dst->sin_addr.s_addr, htonl(0x0a000002));
    assert_true(id->connected);
    assert_int_equal(id->param.retry_count, 7);
    assert_int_equal(id->param.rnr_retry_count, 7);
    assert_int_equal(id->param.responder_resources, 16);
    assert_int_equal(id->param.initiator_depth, 16);
    assert_int_equal(id->param.srq, 1);
    assert_int_equal(id->param.qp_num, conn->q.qp->qp_num);
    assert_true(vbn_wire_hello_read(id->data, id->data_len, &h));
    assert_int_equal(h.src_uid, LONE_UID);
    assert_int_equal(h.dst_uid, 7);
    assert_int_equal(h.buf_size, 16 + 1024);
    assert_int_equal(h.credits, conn->window);
    assert_int_equal(h.version, VBN_WIRE_VERSION);
    assert_int_equal(fake_qp(conn->q.qp)->state, IBV_QPS_INIT);
    assert_int_equal(fake_qp(conn->q.qp)->attr.qp_access_flags,
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
}

static void active_side_gets_its_answer(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    assert_int_equal(fake_qp(conn->q.qp)->state, IBV_QPS_RTS);
    assert_int_equal(fake_qp(conn->q.qp)->attr.max_rd_atomic, 16);
    assert_true(fake_id(conn->id)->established);
    assert_int_equal(conn->flow.window, 8); /* the first of it; the option says 16 */
    assert_int_equal(vbn_flow_credits(&conn->flow), 16);
    assert_true(vbn_endpoint_connected(conn->ep));
    assert_int_equal(ctx->counters.conns_made, 1);
    assert_int_equal(fake_events_unacked(), 0);
}

/* There the kernel's connection manager moves the queue pair, and no third message is needed. */
static void active_side_on_iwarp(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    unsigned char data[sizeof(hello)];
    struct vbn_conn *conn;

    (void)state;
    ctx->device.iwarp = true;
    conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    vbn_wire_hello_write(data, &hello);
    fake_event(conn->id, RDMA_CM_EVENT_ESTABLISHED, 0, data, sizeof(data));
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(fake_qp(conn->q.qp)->state, IBV_QPS_INIT);
    assert_false(fake_id(conn->id)->established);
    assert_int_equal(lone_sent(conn), 1); /* it speaks first (RFC 5044, 7) */
}

/* There the accepting side may not speak first, and does not know whether its answer arrived. */
static void passive_side_on_iwarp_waits_for_a_word(void **state)
{
    struct vbn_conn *conn;

    (void)state;
    ctx->device.iwarp = true;
    conn = lone_accept(ctx, 7);
    assert_int_equal(vbn_am_send(conn->ep, 1, NULL, 0), VBN_OK);
    assert_int_equal(lone_sent(conn), 0);
    lone_ack(conn);
    assert_int_equal(lone_sent(conn), 1);
    lone_pass(ctx, ctx->opts.connect_timeout_ms + 10);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(unit.failures, 0);
}

static void holds_all(struct vbn_options *opts)
{
    opts->unexpected_limit = 0;
}

/* Both have the same number of a session: what one holds is not the other's when that is freed. */
static void attempt_that_was_dropped_held_nothing(void **state)
{
    const struct vbn_wire_tag head = {.tag = 1};
    unsigned char bytes[sizeof(head)];
    struct vbn_conn *conn;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(holds_all);
    ctx->device.iwarp = true;
    fake_flush_by_itself(false);
    lone_accept(ctx, 7);
    conn = lone_accept(ctx, 7);
    lone_ack(conn);
    vbn_wire_tag_write(bytes, &head);
    for (int i = 0; i < 4; i++)
        lone_tagged(conn, VBN_TAG_EAGER, bytes, sizeof(bytes));
    assert_int_equal(conn->flow.held, 3); /* the first is early */
    assert_int_equal(conn->ep->conn_count, 2);
    lone_pass(ctx, 1200);
    assert_int_equal(conn->ep->conn_count, 1);
    assert_int_equal(ctx->rx.stale, 0);
}

static void peer_that_asks_again_instead_of_speaking(void **state)
{
    struct vbn_conn *old, *conn;
    vbn_endpoint_t *ep;

    (void)state;
    ctx->device.iwarp = true;
    old = lone_accept(ctx, 7);
    ep = old->ep;
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    conn = lone_accept(ctx, 7); /* the answer was lost, and it has given the first one up */
    assert_ptr_equal(ep->attempt, conn);
    lone_ack(conn);
    assert_ptr_equal(ep->conn, conn);
    assert_int_equal(lone_sent(conn), 1);
    assert_int_equal(ep->conn_count, 1);
    assert_int_equal(unit.failures, 0);
}

/* It had given this attempt up before the answer came: an attempt that failed, no loss. */
static void peer_that_leaves_instead_of_speaking(void **state)
{
    struct vbn_conn *conn;
    vbn_endpoint_t *ep;

    (void)state;
    ctx->device.iwarp = true;
    conn = lone_accept(ctx, 7);
    ep = conn->ep;
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 0);
    assert_null(ep->conn);
    conn = lone_accept(ctx, 7);
    lone_ack(conn);
    assert_int_equal(lone_sent(conn), 1);
}

static void peer_that_never_speaks(void **state)
{
    struct vbn_conn *conn;

    (void)state;
    ctx->device.iwarp = true;
    ctx->opts.connect_timeout_ms = 100;
    conn = lone_accept(ctx, 7);
    vbn_endpoint_claim(conn->ep, NULL);
    assert_int_equal(vbn_am_send(conn->ep, 1, NULL, 0), VBN_OK);
    lone_pass(ctx, 90);
    assert_int_equal(unit.failures, 0);
    lone_pass(ctx, 20);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_UNREACHABLE);
    assert_contains(unit.failed[0].reason, "said nothing");
}

static void passive_side_answers(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7), h;
    struct rdma_cm_id *id = lone_request(ctx, &hello);
    struct vbn_conn *conn;

    (void)state;
    ctx->device.max_read_in = 3;
    lone_progress(ctx);
    conn = id->context;
    assert_int_equal(conn->state, VBN_CONN_ACCEPTING);
    assert_true(fake_id(id)->accepted);
    assert_int_equal(fake_id(id)->param.responder_resources, 3); /* the lesser of both */
    assert_int_equal(fake_id(id)->param.initiator_depth, 16);
    assert_int_equal(fake_qp(conn->q.qp)->state, IBV_QPS_RTS); /* the peer may send at once */
    assert_true(vbn_wire_hello_read(fake_id(id)->data, fake_id(id)->data_len, &h));
    assert_int_equal(h.src_uid, LONE_UID);
    assert_int_equal(h.dst_uid, 7);
    assert_int_equal(h.version, h.version_min);
    assert_false(vbn_endpoint_connected(conn->ep));
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    lone_progress(ctx);
    assert_true(vbn_endpoint_connected(conn->ep));
    assert_null(vbn_endpoint_user(conn->ep));
}

/* --- calls that fail on the way --------------------------------------------------------------- */

/* The attempt is over, nothing of it is left, and it will be tried again. */
static void failed_softly(vbn_endpoint_t *ep, int live)
{
    lone_progress(ctx);
    assert_null(ep->attempt);
    assert_int_equal(ep->conn_count, 0);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(ctx->connecting, 0);
    assert_int_equal(fake_live(), live);
    assert_int_equal(unit.failures, 0);
    assert_true(ep->timer.at_ns > unit.now_ns - 100 * UNIT_MS);
}

static void active_calls_fail(void **state)
{
    static const struct {
        enum fake_call call;
        int nth;
        enum vbn_conn_state at;
    } cases[] = {
        {FAKE_CREATE_ID, 1, VBN_CONN_NEW},        {FAKE_RESOLVE_ADDR, 1, VBN_CONN_NEW},
        {FAKE_RESOLVE_ROUTE, 1, VBN_CONN_ADDR},   {FAKE_CREATE_QP, 1, VBN_CONN_ROUTE},
        {FAKE_INIT_QP_ATTR, 1, VBN_CONN_ROUTE},   {FAKE_MODIFY_QP, 1, VBN_CONN_ROUTE},
        {FAKE_CONNECT, 1, VBN_CONN_ROUTE},        {FAKE_INIT_QP_ATTR, 1, VBN_CONN_CONNECTING},
        {FAKE_MODIFY_QP, 1, VBN_CONN_CONNECTING}, {FAKE_MODIFY_QP, 2, VBN_CONN_CONNECTING},
        {FAKE_ESTABLISH, 1, VBN_CONN_CONNECTING},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vbn_endpoint_t *ep = lone_peer(ctx, 1000 + i);
        struct vbn_wire_hello hello = lone_hello(ctx, 1000 + i);
        int live = fake_live();

        if (cases[i].at == VBN_CONN_NEW)
            fake_fail(cases[i].call, (unsigned)cases[i].nth, ENOMEM);
        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
        if (cases[i].at == VBN_CONN_ADDR)
            fake_fail(cases[i].call, (unsigned)cases[i].nth, ENOMEM);
        if (cases[i].at >= VBN_CONN_ADDR) {
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
            lone_progress(ctx);
        }
        if (cases[i].at == VBN_CONN_ROUTE)
            fake_fail(cases[i].call, (unsigned)cases[i].nth, ENOMEM);
        if (cases[i].at >= VBN_CONN_ROUTE) {
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
            lone_progress(ctx);
        }
        if (cases[i].at == VBN_CONN_CONNECTING) {
            fake_fail(cases[i].call, (unsigned)cases[i].nth, ENOMEM);
            lone_answer(ep->attempt, &hello);
        }
        failed_softly(ep, live);
        assert_contains(unit.log[VBN_LOG_INFO], "trying again");
        vbn_endpoint_abandon(ep);
    }
}

static void passive_calls_fail(void **state)
{
    static const struct {
        enum fake_call call;
        int nth;
    } cases[] = {{FAKE_CREATE_QP, 1}, {FAKE_INIT_QP_ATTR, 1}, {FAKE_MODIFY_QP, 1},
                 {FAKE_MODIFY_QP, 2}, {FAKE_MODIFY_QP, 3},    {FAKE_ACCEPT, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vbn_wire_hello hello = lone_hello(ctx, 1000 + i);
        int live = fake_live();

        lone_request(ctx, &hello);
        fake_fail(cases[i].call, (unsigned)cases[i].nth, ENOMEM);
        lone_progress(ctx);
        assert_null(vbn_endpoint_find(ctx, 1000 + i));
        assert_int_equal(fake_live(), live); /* the id too: the kernel refuses for us */
        assert_int_equal(unit.failures, 0);
        assert_int_equal(ctx->rx.granted, 0);
    }
}

static void memory_fails_at_each_step(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 8; nth++) {
        struct vbn_wire_hello hello = lone_hello(ctx, 1000 + nth);
        int live = fake_live();
        vbn_endpoint_t *ep;

        lone_request(ctx, &hello);
        unit_fail_alloc(nth);
        lone_progress(ctx);
        unit_fail_alloc(0);
        ep = vbn_endpoint_find(ctx, 1000 + nth);
        if (!ep || !ep->attempt) {
            assert_int_equal(fake_live(), live);
            assert_true(!ep || !ep->conn_count);
            continue;
        }
        assert_true(nth > 4); /* endpoint, connection, ring, a table of queue pairs at least */
        assert_int_equal(ep->attempt->state, VBN_CONN_ACCEPTING);
        return;
    }
    fail_msg("never enough memory");
}

/* --- the end ---------------------------------------------------------------------------------- */

static void ends_when_the_last_completion_is_in(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;
    int live;

    (void)state;
    fake_flush_by_itself(false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_DRAINING);
    live = fake_live();
    lone_pass(ctx, 500);
    assert_int_equal(fake_live(), live); /* it waits */
    assert_int_equal(unit.failures, 0);  /* it may have said farewell */
    fake_flush(conn->q.qp);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "the peer disconnected");
    assert_int_equal(fake_live(), live - 2); /* queue pair and id */
    assert_int_equal(ep->conn_count, 0);
    assert_int_equal(ep->msgs_out, 0);
}

static void does_not_wait_for_ever(void **state)
{
    struct vbn_conn *draining = lone_connect(ctx, 7), *leaving = lone_connect(ctx, 8);
    int live = fake_live();

    (void)state;
    fake_flush_by_itself(false);
    fake_disconnect_by_itself(false);
    assert_int_equal(vbn_am_send(draining->ep, 1, NULL, 0), VBN_OK);
    vbn_conn_fail(draining, VBN_EV_GONE, "test");
    vbn_conn_fail(leaving, VBN_EV_QP_ERROR, "test");
    fake_flush(leaving->q.qp);
    lone_progress(ctx);
    assert_int_equal(draining->state, VBN_CONN_DRAINING);
    assert_int_equal(leaving->state, VBN_CONN_LEAVING);
    lone_pass(ctx, 900);
    assert_int_equal(fake_live(), live);
    lone_pass(ctx, 200);
    assert_int_equal(fake_live(), live - 4);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_true(TAILQ_EMPTY(&ctx->timers.list));
}

static void batches_of_four(struct vbn_options *opts)
{
    opts->poll_batch = 4;
}

static unsigned delivered;

static void count_delivered(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    (void)arg, (void)ep, (void)id, (void)data, (void)len;
    delivered++;
}

/* After that each call of one who seldom calls looks at completions, and then at the clock. */
static void call_seldom(void)
{
    for (int i = 0; i < 70; i++) {
        unit.now_ns += 2000ull * UNIT_MS;
        vbn_progress(ctx);
    }
}

/* One that computes and seldom calls: each call takes a batch. What a peer has said before it left
 * is taken before its queue pair goes, which may take it out of the completion queue. */
static void last_words_are_heard_before_the_cut(void **state)
{
    struct vbn_conn *leaver, *other;
    vbn_endpoint_t *ep;
    struct vbn_wire_hdr hdr;

    (void)state;
    fake_destroy_purges(true);
    lone_close(ctx);
    ctx = lone_open(batches_of_four);
    vbn_am_handler(ctx, 5, count_delivered, NULL);
    leaver = lone_connect(ctx, 7);
    other = lone_connect(ctx, 8);
    ep = leaver->ep;
    lone_pass(ctx, 10);
    call_seldom();
    delivered = 0;
    hdr = lone_hdr(other, VBN_WIRE_AM);
    hdr.id = 5;
    for (int i = 0; i < 12; i++, hdr.seq++)
        lone_queued(other, &hdr, NULL);
    hdr = lone_hdr(leaver, VBN_WIRE_AM);
    hdr.id = 5;
    lone_queued(leaver, &hdr, NULL);
    hdr = lone_hdr(leaver, VBN_WIRE_BYE);
    hdr.seq++;
    lone_queued(leaver, &hdr, NULL);
    fake_event(leaver->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    unit.now_ns += 2000ull * UNIT_MS;
    vbn_progress(ctx);
    assert_int_equal(leaver->state, VBN_CONN_DRAINING);
    unit.now_ns += 2000ull * UNIT_MS;
    vbn_progress(ctx); /* its time is over */
    lone_pass(ctx, 100);
    assert_int_equal(delivered, 13);
    assert_int_equal(unit.failures, 0);
    assert_int_equal(ep->state, VBN_EP_CLOSED);
    assert_int_equal(ctx->rx.shared.posted, fake_srq_posted(ctx->rx.shared.srq));
}

/* Who has not called for long finds more completions than it takes at once, and the time over. */
static void late_callers_learn_nothing_about_the_device(void **state)
{
    struct vbn_conn *conn;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(batches_of_four);
    conn = lone_connect(ctx, 7);
    fake_flush_by_itself(false);
    lone_pass(ctx, 10);
    call_seldom();
    for (int i = 0; i < 8; i++)
        assert_int_equal(vbn_am_send(conn->ep, 1, NULL, 0), VBN_OK);
    vbn_conn_fail(conn, VBN_EV_GONE, "test");
    fake_flush(conn->q.qp);
    unit.now_ns += 2000ull * UNIT_MS;
    vbn_progress(ctx);
    lone_progress(ctx);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_false(ctx->device.keeps_drain);
}

/* Some devices (libcxgb4) take no request in the error state, so that none tells when all is in. */
static void last_words_are_heard_where_nothing_is_taken(void **state)
{
    struct vbn_conn *leaver = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = leaver->ep;
    struct vbn_wire_hdr hdr;

    (void)state;
    lone_pass(ctx, 60);
    hdr = lone_hdr(leaver, VBN_WIRE_BYE);
    lone_queued(leaver, &hdr, NULL);
    fake_fail(FAKE_POST_SEND, 1, EINVAL);
    vbn_conn_fail(leaver, VBN_EV_GONE, "the peer disconnected");
    lone_pass(ctx, 60);
    assert_int_equal(unit.failures, 0);
    assert_int_equal(ep->state, VBN_EP_CLOSED);
    assert_int_equal(ep->conn_count, 0);
}

/* An attempt on iWARP that has been given up, whose peer has not answered. */
static struct vbn_conn *given_up_on_iwarp(bool flushes)
{
    struct vbn_conn *conn;

    ctx->device.iwarp = true;
    fake_flush_by_itself(flushes);
    conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    conn->ep->attempt = NULL;
    vbn_conn_event(conn, VBN_EV_CLOSE);
    lone_pass(ctx, 1100);
    assert_int_equal(conn->state, VBN_CONN_DEAD);
    return conn;
}

/* There the kernel lets nobody destroy an id or its queue pair while it asks: the call sleeps, and
 * with it all other peers. */
static void iwarp_s_answer_is_awaited(void **state)
{
    static const enum rdma_cm_event_type ends[] = {
        RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE,
        RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_DISCONNECTED};

    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct vbn_conn *conn = given_up_on_iwarp(i % 2);
        vbn_endpoint_t *ep = conn->ep;
        int live = fake_live();

        lone_pass(ctx, 5000);
        assert_int_equal(ep->conn_count, 1);
        assert_int_equal(fake_live(), live);
        fake_event(conn->id, ends[i], ends[i] == RDMA_CM_EVENT_ESTABLISHED ? 0 : -ETIMEDOUT, NULL,
                   0);
        lone_progress(ctx);
        assert_int_equal(ep->conn_count, 0);
        assert_int_equal(fake_live(), live - 2); /* queue pair and id */
        teardown(state);
        setup(state);
    }
}

/* But not for ever where all ends. */
static void iwarp_s_answer_does_not_hold_up_the_end(void **state)
{
    (void)state;
    given_up_on_iwarp(true);
    assert_true(vbn_shutdown(ctx) > 0);
    lone_pass(ctx, ctx->opts.close_timeout_ms / 2);
    vbn_shutdown(ctx);
    lone_progress(ctx);
    assert_int_equal(vbn_shutdown(ctx), 0);
}

/* Those that the device never reports are taken back all the same. */
static void own_receives_are_taken_back(void **state)
{
    uint32_t left;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(no_srq);
    left = vbn_pool_left(&ctx->rx.pool);
    fake_flush_by_itself(false);
    for (uint32_t peer = 7; peer < 19; peer++) {
        vbn_conn_fail(lone_connect(ctx, peer), VBN_EV_GONE, "test");
        lone_pass(ctx, 1200);
        assert_true(TAILQ_EMPTY(&ctx->conns));
        assert_int_equal(vbn_pool_left(&ctx->rx.pool), left);
    }
}

static void own_receives_are_drained_too(void **state)
{
    struct vbn_conn *conn;
    uint32_t free;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(no_srq);
    free = ctx->rx.pool.free_count + ctx->rx.pool.max - ctx->rx.pool.count;
    conn = lone_connect(ctx, 7);
    assert_int_equal(fake_qp_posted(conn->q.qp), 16 + VBN_RX_SLACK);
    fake_flush_by_itself(false);
    vbn_conn_fail(conn, VBN_EV_GONE, "test");
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_DRAINING);
    fake_flush(conn->q.qp);
    lone_pass(ctx, 4);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(ctx->rx.pool.free_count + ctx->rx.pool.max - ctx->rx.pool.count, free);
}

static void number_is_free(const struct ibv_qp *qp)
{
    assert_null(vbn_qpmap_find(&ctx->qpmap, qp->qp_num));
}

/* A callback of what is polled behind that may make another one, which may have the same number. */
static void queue_pair_s_number_goes_before_it(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    assert_ptr_equal(vbn_qpmap_find(&ctx->qpmap, conn->q.qp_num), conn);
    fake_on_destroy_qp(number_is_free);
    vbn_conn_fail(conn, VBN_EV_GONE, "test");
    lone_pass(ctx, 4);
    assert_true(TAILQ_EMPTY(&ctx->conns));
}

static void own_receives_fit_the_device_s_queue(void **state)
{
    struct fake_device *device = (struct fake_device *)ctx->device.verbs->device;
    enum { WINDOW = 9 };

    (void)state;
    lone_close(ctx);
    device->attr.max_qp_wr = WINDOW + VBN_RX_SLACK;
    ctx = lone_open(no_srq);
    assert_int_equal(fake_qp_posted(lone_connect(ctx, 7)->q.qp), WINDOW + VBN_RX_SLACK);
}

static void first_cause_is_told(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "the %s cause", "first");
    vbn_conn_fail(conn, VBN_EV_CM_ERROR, "the second");
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_contains(unit.failed[0].reason, "the first cause");
}

/* --- events of the device --------------------------------------------------------------------- */

static void device_event_ends_one(void **state)
{
    static const enum ibv_event_type types[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                                                IBV_EVENT_QP_ACCESS_ERR};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct vbn_conn *conn = lone_connect(ctx, 7 + i);

        fake_async(ctx->device.verbs, types[i], conn->q.qp);
        lone_progress(ctx);
        assert_int_equal(unit.failures, i + 1);
        assert_int_equal(unit.failed[i].status, VBN_ERR_PEER_LOST);
        assert_int_equal(fake_async_acked(), i + 1);
    }
}

static void device_event_ends_all(void **state)
{
    static const enum ibv_event_type types[] = {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR,
                                                IBV_EVENT_SRQ_ERR};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        lone_connect(ctx, 10 + i);
        vbn_endpoint_claim(lone_accept(ctx, 20 + i)->ep, NULL);
        fake_async(ctx->device.verbs, types[i], NULL);
        lone_progress(ctx);
        assert_int_equal(unit.failures, 2 * (i + 1));
        assert_contains(unit.log[VBN_LOG_ERROR], "fake0");
        lone_close(ctx);
        ctx = lone_open(NULL);
    }
}

/* Nor will any begin: neither what is under way then, nor what is wanted later. */
static void device_event_ends_attempts(void **state)
{
    struct vbn_conn *conn = lone_attempt(ctx, 8, VBN_CONN_CONNECTING);

    (void)state;
    assert_int_equal(vbn_am_send(conn->ep, 1, NULL, 0), VBN_OK);
    fake_async(ctx->device.verbs, IBV_EVENT_DEVICE_FATAL, NULL);
    lone_pass(ctx, 2000);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_DEVICE);
    assert_contains(unit.failed[0].reason, "device fake0 has failed");
    vbn_am_send(lone_peer(ctx, 9), 1, NULL, 0);
    lone_pass(ctx, 10);
    assert_int_equal(unit.failures, 2);
    assert_int_equal(unit.failed[1].status, VBN_ERR_DEVICE);
}

static void device_event_that_says_nothing(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    fake_async(ctx->device.verbs, IBV_EVENT_PORT_ERR, NULL);
    fake_async(ctx->device.verbs, IBV_EVENT_SQ_DRAINED, conn->q.qp);
    fake_async(ctx->device.verbs, IBV_EVENT_COMM_EST, conn->q.qp);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(fake_async_acked(), 3);
}

/* The peer's first bytes may overtake the connection manager's last message. */
static void communication_established_early(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *id = lone_request(ctx, &hello);
    struct vbn_conn *conn;

    (void)state;
    lone_progress(ctx);
    conn = id->context;
    fake_async(ctx->device.verbs, IBV_EVENT_COMM_EST, conn->q.qp);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0); /* late: nothing */
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(ctx->counters.conns_made, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test_setup_teardown(active_side_asks, setup, teardown),
        cmocka_unit_test_setup_teardown(active_side_gets_its_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(active_side_on_iwarp, setup, teardown),
        cmocka_unit_test_setup_teardown(passive_side_on_iwarp_waits_for_a_word, setup, teardown),
        cmocka_unit_test_setup_teardown(peer_that_leaves_instead_of_speaking, setup, teardown),
        cmocka_unit_test_setup_teardown(peer_that_asks_again_instead_of_speaking, setup, teardown),
        cmocka_unit_test_setup_teardown(attempt_that_was_dropped_held_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(peer_that_never_speaks, setup, teardown),
        cmocka_unit_test_setup_teardown(passive_side_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(active_calls_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(passive_calls_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_fails_at_each_step, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_when_the_last_completion_is_in, setup, teardown),
        cmocka_unit_test_setup_teardown(does_not_wait_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(last_words_are_heard_before_the_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(late_callers_learn_nothing_about_the_device, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(last_words_are_heard_where_nothing_is_taken, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(iwarp_s_answer_is_awaited, setup, teardown),
        cmocka_unit_test_setup_teardown(iwarp_s_answer_does_not_hold_up_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(own_receives_are_taken_back, setup, teardown),
        cmocka_unit_test_setup_teardown(own_receives_are_drained_too, setup, teardown),
        cmocka_unit_test_setup_teardown(queue_pair_s_number_goes_before_it, setup, teardown),
        cmocka_unit_test_setup_teardown(own_receives_fit_the_device_s_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(first_cause_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(device_event_ends_one, setup, teardown),
        cmocka_unit_test_setup_teardown(device_event_ends_all, setup, teardown),
        cmocka_unit_test_setup_teardown(device_event_ends_attempts, setup, teardown),
        cmocka_unit_test_setup_teardown(device_event_that_says_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(communication_established_early, setup, teardown),
    };

    return cmocka_run_group_tests_name("conn", tests, NULL, NULL);
}
