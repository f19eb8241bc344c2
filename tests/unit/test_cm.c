/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests, answers and rejections: what of a peer's private data is taken, and what is refused. */
#include "lone.h"

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
    assert_int_equal(fake_events_unacked(), 0);
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- requests --------------------------------------------------------------------------------- */

/* The last request was refused for REASON; nothing of it is left but, perhaps, an endpoint. Only
 * who has NAMED this side learns its identity. */
static void refused_as(uint8_t reason, int live, bool named)
{
    struct vbn_wire_refusal r;

    lone_progress(ctx);
    assert_true(fake_rejected.rejected);
    assert_true(vbn_wire_refusal_read(fake_rejected.data, fake_rejected.data_len, &r));
    assert_int_equal(r.reason, reason);
    assert_int_equal(r.uid, named ? LONE_UID : 0);
    assert_int_equal(r.version, VBN_WIRE_VERSION);
    assert_int_equal(fake_live(), live);
    memset(&fake_rejected, 0, sizeof(fake_rejected));
}

static void refused(uint8_t reason, int live)
{
    refused_as(reason, live, true);
}

static void request_refused(const struct vbn_wire_hello *hello, uint8_t reason)
{
    uint64_t before = ctx->counters.conns_refused;
    int live = fake_live();

    lone_request(ctx, hello);
    refused_as(reason, live,
               hello->dst_uid == LONE_UID && reason != VBN_REASON_MALFORMED &&
                   reason != VBN_REASON_VERSION);
    assert_int_equal(ctx->counters.conns_refused, before + 1);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_null(vbn_endpoint_find(ctx, 7));
}

static void malformed_requests(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    unsigned char data[sizeof(hello)];
    int live = fake_live();

    (void)state;
    vbn_wire_hello_write(data, &hello);
    fake_request(ctx->cm.listener[0], NULL, 0);
    refused_as(VBN_REASON_MALFORMED, live, false);
    fake_request(ctx->cm.listener[0], data, sizeof(data) - 1);
    refused_as(VBN_REASON_MALFORMED, live, false);
    data[0] ^= 0x20;
    fake_request(ctx->cm.listener[0], data, sizeof(data));
    refused_as(VBN_REASON_MALFORMED, live, false);
    hello.credits = 0;
    request_refused(&hello, VBN_REASON_MALFORMED);
    hello.credits = 16;
    hello.src_uid = 0;
    request_refused(&hello, VBN_REASON_MALFORMED);
}

static void requests_for_another(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    hello.dst_uid = LONE_UID + 1;
    request_refused(&hello, VBN_REASON_STRANGER);
    hello = lone_hello(ctx, 7);
    hello.job_key ^= 1;
    request_refused(&hello, VBN_REASON_STRANGER);
    hello = lone_hello(ctx, LONE_UID); /* ourselves */
    request_refused(&hello, VBN_REASON_STRANGER);
}

static void request_with_other_sizes(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    hello.buf_size += 64;
    request_refused(&hello, VBN_REASON_SIZES);
}

static void request_of_another_version(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    hello.version = 9, hello.version_min = 8;
    request_refused(&hello, VBN_REASON_VERSION);
    assert_contains(unit.log[VBN_LOG_ERROR], "8 to 9"); /* both ranges, and what to do */
    assert_contains(unit.log[VBN_LOG_ERROR], "1 to 7");
    assert_contains(unit.log[VBN_LOG_ERROR], "same release");
    hello.version = VBN_WIRE_VERSION + 1, hello.version_min = 1; /* has ours, too */
    lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_false(fake_rejected.rejected);
    assert_non_null(vbn_endpoint_find(ctx, 7)->attempt);
}

/* One line tells; what comes after it may be somebody's mischief. */
static void another_version_is_told_of_once(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    hello.version = 9, hello.version_min = 8;
    for (int i = 0; i < 10; i++)
        request_refused(&hello, VBN_REASON_VERSION);
    assert_int_equal(unit.log_count[VBN_LOG_ERROR], 1);
    assert_int_equal(unit.log_count[VBN_LOG_WARN], 0);
}

/* Who floods this side with requests does not keep it from its messages. */
static void many_requests_at_once(void **state)
{
    unsigned per_look = 0;

    (void)state;
    for (int i = 0; i < 60; i++)
        fake_request(ctx->cm.listener[0], NULL, 0);
    unit.now_ns += 2 * UNIT_MS;
    for (int i = 0; i < 65 && !per_look; i++) {
        vbn_progress(ctx);
        per_look = (unsigned)ctx->counters.conns_refused;
    }
    assert_in_range(per_look, 1, 32);
    lone_pass(ctx, 10);
    assert_int_equal(ctx->counters.conns_refused, 60);
}

static void request_while_closing(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    vbn_shutdown(ctx);
    request_refused(&hello, VBN_REASON_CLOSED);
}

/* What was sent before the close still goes out, by whichever request is the one. */
static void request_while_closing_with_work(void **state)
{
    static const enum vbn_conn_state states[] = {VBN_CONN_ADDR, VBN_CONN_ROUTE,
                                                 VBN_CONN_CONNECTING};
    struct vbn_conn *ours[3];
    vbn_endpoint_t *ep;

    (void)state;
    ctx->turns.most = 3;
    for (unsigned i = 0; i < 3; i++) {
        ours[i] = lone_attempt(ctx, 200 + i, states[i]);
        assert_int_equal(vbn_am_send(ours[i]->ep, 1, NULL, 0), VBN_OK);
    }
    lone_refuse(ours[2], VBN_REASON_CROSSED); /* so the peer's is on its way */
    lone_progress(ctx);
    vbn_shutdown(ctx);
    for (unsigned i = 0; i < 3; i++) {
        struct vbn_wire_hello hello = lone_hello(ctx, 200 + i);
        struct rdma_cm_id *id = lone_request(ctx, &hello);

        ep = vbn_endpoint_find(ctx, 200 + i);
        lone_progress(ctx);
        fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
        lone_progress(ctx);
        assert_non_null(ep->conn);
        assert_int_equal(lone_sent(ep->conn), 1);
    }
    assert_int_equal(ctx->counters.conns_refused, 0);
}

static void request_to_an_endpoint_that_is_over(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    vbn_endpoint_t *ep = lone_peer(ctx, 7);
    int live = fake_live();

    (void)state;
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "test");
    lone_request(ctx, &hello);
    refused(VBN_REASON_LOST, live);
}

static void request_beside_a_connection(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    int live = fake_live();

    (void)state;
    lone_request(ctx, &hello);
    refused(VBN_REASON_BUSY, live); /* the peer may try again once ours has been found dead */
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_ptr_equal(conn->ep->conn, conn);
}

/* Requests of 80 peers; returns how many are being accepted, *SUM gets their windows. */
static unsigned crowd(uint32_t *sum)
{
    unsigned taken = 0;

    *sum = 0;
    for (uint64_t uid = 1000; uid < 1080; uid++) {
        struct vbn_wire_hello hello = lone_hello(ctx, uid);
        const vbn_endpoint_t *ep;

        lone_request(ctx, &hello);
        lone_progress(ctx);
        ep = vbn_endpoint_find(ctx, uid);
        if (!ep)
            continue;
        taken++;
        assert_in_range(ep->attempt->window, VBN_WINDOW_MIN, 16);
        *sum += ep->attempt->window;
    }
    assert_int_equal(*sum, ctx->rx.granted);
    assert_int_equal(unit.failures, 0);
    return taken;
}

/* More peers than receive buffers: all are taken, the later ones with the smallest window. */
static void more_peers_than_buffers(void **state)
{
    uint32_t sum;

    (void)state;
    assert_int_equal(crowd(&sum), 80);
    assert_true(sum > ctx->rx.max); /* the test is one of what it says */
    assert_int_equal(fake_srq_posted(ctx->rx.shared.srq), ctx->rx.max);
}

/* Without a second try by the device those that fit get windows, the others are told to come back.
 */
static void more_peers_than_buffers_on_iwarp(void **state)
{
    uint32_t sum;

    (void)state;
    ctx->device.iwarp = true;
    assert_in_range(crowd(&sum), 20, 79);
    assert_true(sum + VBN_RX_SLACK <= ctx->rx.max);
    assert_in_range(fake_srq_posted(ctx->rx.shared.srq), sum, ctx->rx.max);
}

/* --- both connect at once --------------------------------------------------------------------- */

static void larger_uid_keeps_its_own_request(void **state)
{
    struct vbn_conn *ours = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    int live = fake_live();

    (void)state;
    lone_request(ctx, &hello);
    refused(VBN_REASON_CROSSED, live);
    assert_int_equal(ctx->counters.conns_crossed, 1);
    assert_int_equal(ctx->counters.conns_refused, 0);
    assert_ptr_equal(ours->ep->attempt, ours);
    lone_answer(ours, &hello);
    lone_progress(ctx);
    assert_int_equal(ours->state, VBN_CONN_ESTABLISHED);
}

static void gives_way(uint64_t first_uid, unsigned states_of_it)
{
    static const enum vbn_conn_state states[] = {VBN_CONN_ADDR, VBN_CONN_ROUTE,
                                                 VBN_CONN_CONNECTING};

    for (unsigned i = 0; i < states_of_it; i++) {
        struct vbn_conn *ours = lone_attempt(ctx, first_uid + i, states[i]);
        struct vbn_wire_hello hello = lone_hello(ctx, first_uid + i);
        vbn_endpoint_t *ep = ours->ep;
        struct rdma_cm_id *id;

        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
        id = lone_request(ctx, &hello);
        lone_progress(ctx);
        assert_false(fake_rejected.rejected);
        assert_int_equal(ep->conn_count, 1); /* ours is gone */
        assert_ptr_equal(ep->attempt, id->context);
        fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
        lone_progress(ctx);
        assert_true(vbn_endpoint_connected(ep));
        assert_int_equal(lone_sent(ep->conn), 1); /* the message was waiting */
    }
    assert_int_equal(unit.failures, 0);
}

static void smaller_uid_gives_way(void **state)
{
    (void)state;
    gives_way(200, 3);
}

/* There is nothing that could cross. */
static void larger_uid_gives_way_until_it_has_asked(void **state)
{
    (void)state;
    gives_way(7, 2);
}

/* Our request lost on the peer's side; its own is on the way and comes. */
static void told_of_a_crossing_waits_for_the_other(void **state)
{
    struct vbn_conn *ours = lone_attempt(ctx, 200, VBN_CONN_CONNECTING);
    struct vbn_wire_hello hello = lone_hello(ctx, 200);
    vbn_endpoint_t *ep = ours->ep;
    struct rdma_cm_id *id;

    (void)state;
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_refuse(ours, VBN_REASON_CROSSED);
    lone_progress(ctx);
    assert_null(ep->attempt);
    lone_pass(ctx, 1500);
    assert_null(ep->attempt); /* no hurry to ask again */
    id = lone_request(ctx, &hello);
    lone_progress(ctx);
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(lone_sent(ep->conn), 1);
    assert_int_equal(ep->timer.at_ns, 0);
    assert_int_equal(unit.failures, 0);
}

static void told_of_a_crossing_that_never_comes(void **state)
{
    struct vbn_conn *ours = lone_attempt(ctx, 200, VBN_CONN_CONNECTING);
    vbn_endpoint_t *ep = ours->ep;

    (void)state;
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_refuse(ours, VBN_REASON_CROSSED);
    lone_pass(ctx, 3100);
    assert_non_null(ep->attempt); /* so we ask again */
    assert_int_equal(ep->attempt->state, VBN_CONN_ADDR);
}

/* The peer gave up waiting for our answer, and asks anew. */
static void newer_request_replaces_the_older(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *first = lone_request(ctx, &hello), *second;
    struct vbn_conn *old;

    (void)state;
    lone_progress(ctx);
    old = first->context;
    assert_int_equal(old->state, VBN_CONN_ACCEPTING);
    second = lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_false(fake_rejected.rejected);
    assert_int_equal(vbn_endpoint_find(ctx, 7)->conn_count, 1);
    assert_ptr_equal(vbn_endpoint_find(ctx, 7)->attempt, second->context);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Answered by HELLO our attempt fails, and may be made again. */
static void answer_fails(const struct vbn_wire_hello *hello, const char *why)
{
    struct vbn_conn *conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    vbn_endpoint_t *ep = conn->ep;

    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_answer(conn, hello);
    lone_progress(ctx);
    if (vbn_endpoint_connected(ep))
        fail_msg("connected although: %s", why);
    assert_contains(unit.log[VBN_LOG_INFO], why);
    assert_int_equal(ep->conn_count, 0);
    lone_close(ctx);
    lone_teardown(NULL);
    setup(NULL);
}

static void bad_answers(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 8);

    (void)state;
    answer_fails(&hello, "not from the peer that was asked");
    hello = lone_hello(ctx, 7);
    hello.dst_uid = 101;
    answer_fails(&hello, "not from the peer that was asked");
    hello = lone_hello(ctx, 7);
    hello.job_key++;
    answer_fails(&hello, "not from the peer that was asked");
    hello = lone_hello(ctx, 7);
    hello.version = VBN_WIRE_VERSION + 1;
    answer_fails(&hello, "");
    hello = lone_hello(ctx, 7);
    hello.version = hello.version_min = VBN_WIRE_VERSION + 1;
    answer_fails(&hello, "");
    hello = lone_hello(ctx, 7);
    hello.credits = 2;
    answer_fails(&hello, "malformed");
    ctx->device.iwarp = true;
    hello = lone_hello(ctx, 7);
    hello.version = hello.version_min = VBN_WIRE_MARKS - 1;
    answer_fails(&hello, "not from the peer that was asked");
}

/* "The request's checks hold for them too" (conn.c). */
static void answer_with_other_sizes(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    hello.buf_size /= 2; /* its receive buffers are smaller than what we send */
    answer_fails(&hello, "");
}

static void answer_cut_short(void **state)
{
    struct vbn_conn *conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    fake_event(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL, 0);
    lone_progress(ctx);
    assert_false(vbn_endpoint_connected(ep));
    assert_int_equal(ep->conn_count, 0);
}

/* --- rejections ------------------------------------------------------------------------------- */

/* What the endpoint ends with when the peer refuses for REASON; VBN_OK: it goes on trying. */
static int refused_for(uint8_t reason)
{
    struct vbn_conn *conn = lone_attempt(ctx, 300 + reason, VBN_CONN_CONNECTING);
    vbn_endpoint_t *ep = conn->ep;
    unsigned failures = unit.failures;

    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_refuse(conn, reason);
    lone_progress(ctx);
    assert_int_equal(ep->conn_count, 0);
    if (ep->timer.at_ns) {
        assert_int_equal(unit.failures, failures);
        vbn_endpoint_abandon(ep);
        return VBN_OK;
    }
    assert_int_equal(unit.failures, failures + 1);
    assert_ptr_equal(unit.failed[failures].ep, ep);
    assert_contains(unit.failed[failures].reason, vbn_wire_reason_str(reason));
    assert_contains(unit.failed[failures].reason, "10.0.0.2");
    assert_contains(unit.failed[failures].reason, "fake0");
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), unit.failed[failures].status);
    return unit.failed[failures].status;
}

static void reasons_and_their_status(void **state)
{
    (void)state;
    assert_int_equal(refused_for(VBN_REASON_VERSION), VBN_ERR_VERSION);
    assert_contains(unit.failed[0].reason, "1 to 7");
    assert_int_equal(refused_for(VBN_REASON_STRANGER), VBN_ERR_REFUSED);
    assert_int_equal(refused_for(VBN_REASON_SIZES), VBN_ERR_REFUSED);
    assert_int_equal(refused_for(VBN_REASON_MALFORMED), VBN_ERR_REFUSED);
    assert_int_equal(refused_for(VBN_REASON_LOST), VBN_ERR_REFUSED);
    assert_int_equal(refused_for(VBN_REASON_CLOSED), VBN_ERR_CLOSED);
    assert_int_equal(refused_for(VBN_REASON_BUSY), VBN_OK);
    assert_int_equal(refused_for(VBN_REASON_CROSSED), VBN_OK);
    assert_int_equal(refused_for(99), VBN_OK); /* of a later release */
}

/* Nobody listens there yet (status 8), or the kernel refuses by itself: it may pass. */
static void refused_by_the_kernel(void **state)
{
    static const int status[] = {8, 10, 28};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct vbn_conn *conn = lone_attempt(ctx, 300 + i, VBN_CONN_CONNECTING);
        vbn_endpoint_t *ep = conn->ep;

        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
        fake_event(conn->id, RDMA_CM_EVENT_REJECTED, status[i], NULL, 0);
        lone_progress(ctx);
        assert_true(ep->timer.at_ns > 0);
        assert_int_equal(ep->state, VBN_EP_OPEN);
    }
    assert_int_equal(unit.failures, 0);
}

/* iWARP has no codes: the status is -ECONNREFUSED, whatever the private data say. */
static void refused_on_iwarp(void **state)
{
    struct vbn_wire_refusal r = {
        .version = 4, .version_min = 4, .reason = VBN_REASON_VERSION, .uid = 7};
    unsigned char data[sizeof(r)];
    struct vbn_conn *conn;

    (void)state;
    ctx->device.iwarp = true;
    conn = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    assert_int_equal(vbn_am_send(conn->ep, 1, NULL, 0), VBN_OK);
    vbn_wire_refusal_write(data, &r);
    fake_event(conn->id, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, data, sizeof(data));
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_VERSION);
}

/* --- other events ----------------------------------------------------------------------------- */

static void errors_on_the_way(void **state)
{
    static const struct {
        enum rdma_cm_event_type type;
        enum vbn_conn_state at;
    } cases[] = {{RDMA_CM_EVENT_ADDR_ERROR, VBN_CONN_ADDR},
                 {RDMA_CM_EVENT_ROUTE_ERROR, VBN_CONN_ROUTE},
                 {RDMA_CM_EVENT_CONNECT_ERROR, VBN_CONN_CONNECTING},
                 {RDMA_CM_EVENT_UNREACHABLE, VBN_CONN_CONNECTING}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct vbn_conn *conn = lone_attempt(ctx, 300 + i, cases[i].at);
        vbn_endpoint_t *ep = conn->ep;

        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
        fake_event(conn->id, cases[i].type, -ETIMEDOUT, NULL, 0);
        lone_progress(ctx);
        assert_int_equal(ep->conn_count, 0);
        assert_true(ep->timer.at_ns > 0);
        assert_contains(unit.log[VBN_LOG_INFO], "-110");
    }
}

/* What the peer sent before it left counts, although its leaving is seen first. */
static void completions_before_the_disconnect(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;
    struct vbn_wire_hdr bye = lone_hdr(conn, VBN_WIRE_BYE);
    unsigned char bytes[sizeof(bye)];

    (void)state;
    fake_flush_by_itself(false);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_DRAINING);
    vbn_wire_hdr_write(bytes, &bye); /* it arrived before, and reports only now */
    assert_true(fake_message(conn->q.qp, bytes, sizeof(bytes)));
    fake_flush(conn->q.qp);
    lone_progress(ctx);
    assert_int_equal(ep->state, VBN_EP_CLOSED);
    assert_int_equal(unit.failures, 0); /* it said farewell */
}

/* Its word that our answer was not confirmed counts for less than the peer's own. */
static void unconfirmed_but_heard(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *id = lone_request(ctx, &hello);
    struct vbn_wire_hdr hdr;
    unsigned char bytes[sizeof(hdr)];
    struct vbn_conn *conn;

    (void)state;
    lone_progress(ctx);
    conn = id->context;
    hdr = lone_hdr(conn, VBN_WIRE_AM);
    fake_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    lone_pass(ctx, 900);
    assert_int_equal(conn->state, VBN_CONN_ACCEPTING);
    vbn_wire_hdr_write(bytes, &hdr);
    assert_true(fake_message(conn->q.qp, bytes, sizeof(bytes)));
    lone_pass(ctx, 5000);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    fake_event(conn->id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0); /* as late as can be */
    lone_pass(ctx, 5000);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(unit.failures, 0);
}

static void count_delivered(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    (void)ep, (void)id, (void)data, (void)len;
    ++*(unsigned *)arg;
}

static void short_recovery(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = 1000;
}

/* The peer would repeat what it sent to an endpoint that is no more: a new one has never had it. */
static void session_of_a_former_endpoint(void **state)
{
    struct vbn_wire_hello hello;
    unsigned delivered = 0;
    struct vbn_conn *conn;
    vbn_endpoint_t *ep;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(short_recovery);
    vbn_am_handler(ctx, 5, count_delivered, &delivered);
    conn = lone_connect(ctx, 7);
    lone_am(conn, 5, "x", 1);
    assert_int_equal(delivered, 1);
    vbn_endpoint_close(conn->ep); /* the farewell, and the acknowledgement, are lost */
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    for (int i = 0; i < 3000 && (ep = vbn_endpoint_find(ctx, 7)); i++) {
        if (ep->attempt && ep->attempt->state == VBN_CONN_ADDR)
            fake_event(ep->attempt->id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, NULL, 0);
        lone_progress(ctx);
    }
    assert_null(vbn_endpoint_find(ctx, 7));
    ep = lone_peer(ctx, 7);
    assert_int_equal(ep->incarnation, 2);
    hello = lone_hello(ctx, 7);
    hello.session = 1;
    hello.peer_incarnation = 1;
    lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_null(ep->attempt);
    hello.peer_incarnation = 0; /* one that knows of nothing before */
    lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_non_null(ep->attempt);
}

/* The same on the peer's side: its endpoint, the fourth of its context, had perhaps taken what it
 * has not acknowledged, so another may not get it. */
static void peers_endpoint_after_the_first(void **state)
{
    struct vbn_wire_hello hello;
    struct vbn_conn *conn;
    vbn_endpoint_t *ep;
    int live;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(short_recovery);
    hello = lone_hello(ctx, 7);
    hello.incarnation = 4;
    conn = lone_accept_by(ctx, &hello);
    ep = conn->ep;
    assert_int_equal(vbn_am_send(ep, 5, NULL, 0), VBN_OK);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    assert_null(ep->conn);
    live = fake_live();
    hello.incarnation = 3;
    lone_request(ctx, &hello);
    refused(VBN_REASON_BUSY, live);
    assert_int_equal(ep->state, VBN_EP_OPEN);
    hello.incarnation = 5;
    lone_request(ctx, &hello);
    refused(VBN_REASON_CLOSED, live);
    assert_int_equal(ep->state, VBN_EP_CLOSED);
    assert_true(STAILQ_EMPTY(&ep->unacked) && STAILQ_EMPTY(&ep->queue));
}

/* Our own request made way for one that there is no memory for. */
static void makes_way_without_memory(void **state)
{
    struct vbn_conn *conn = lone_attempt(ctx, 200, VBN_CONN_CONNECTING); /* larger than ours */
    struct vbn_wire_hello hello = lone_hello(ctx, 200);
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_request(ctx, &hello);
    unit_fail_alloc(1);
    lone_progress(ctx);
    unit_fail_alloc(0);
    assert_true(ep->attempt != conn);
    lone_pass(ctx, 100);
    assert_non_null(ep->attempt);
}

static void device_removal(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    fake_event(ctx->cm.listener[0], RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
    fake_event(conn->id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_contains(unit.failed[0].reason, "removed");
}

static void events_that_say_nothing(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);

    (void)state;
    fake_event(conn->id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL, 0);
    fake_event(conn->id, RDMA_CM_EVENT_ADDR_CHANGE, 0, NULL, 0);
    fake_event(conn->id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    fake_event(conn->id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL, 0); /* again, and empty */
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(vbn_flow_credits(&conn->flow), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(malformed_requests, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_for_another, setup, teardown),
        cmocka_unit_test_setup_teardown(request_with_other_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(request_of_another_version, setup, teardown),
        cmocka_unit_test_setup_teardown(another_version_is_told_of_once, setup, teardown),
        cmocka_unit_test_setup_teardown(many_requests_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(request_while_closing, setup, teardown),
        cmocka_unit_test_setup_teardown(request_while_closing_with_work, setup, teardown),
        cmocka_unit_test_setup_teardown(request_to_an_endpoint_that_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(request_beside_a_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(more_peers_than_buffers, setup, teardown),
        cmocka_unit_test_setup_teardown(more_peers_than_buffers_on_iwarp, setup, teardown),
        cmocka_unit_test_setup_teardown(larger_uid_keeps_its_own_request, setup, teardown),
        cmocka_unit_test_setup_teardown(smaller_uid_gives_way, setup, teardown),
        cmocka_unit_test_setup_teardown(larger_uid_gives_way_until_it_has_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(told_of_a_crossing_waits_for_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(told_of_a_crossing_that_never_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(newer_request_replaces_the_older, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(answer_with_other_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(answer_cut_short, setup, teardown),
        cmocka_unit_test_setup_teardown(reasons_and_their_status, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_by_the_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_on_iwarp, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_on_the_way, setup, teardown),
        cmocka_unit_test_setup_teardown(completions_before_the_disconnect, setup, teardown),
        cmocka_unit_test_setup_teardown(unconfirmed_but_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(session_of_a_former_endpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(peers_endpoint_after_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(makes_way_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(device_removal, setup, teardown),
        cmocka_unit_test_setup_teardown(events_that_say_nothing, setup, teardown),
    };

    return cmocka_run_group_tests_name("cm", tests, NULL, NULL);
}
