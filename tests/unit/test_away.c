/* SPDX-License-Identifier: BSD-3-Clause */
/* What is not said while this side's address is away, and what comes of it when it is back. */
#include "lone.h"

#include <errno.h>

static vbn_context_t *ctx;

static void recovering(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = 2000;
}

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(recovering);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

static void address_is(bool there)
{
    fake_address_flags("eth0", there ? IFF_UP : 0);
}

static void address_is_told(bool there)
{
    address_is(there);
    fake_async(ctx->device.verbs, IBV_EVENT_GID_CHANGE, NULL);
    lone_progress(ctx);
    lone_progress(ctx);
}

static struct rdma_cm_id *request(const struct vbn_wire_hello *hello)
{
    struct rdma_cm_id *id = lone_request(ctx, hello);

    lone_at_home(id);
    lone_progress(ctx);
    return id;
}

/* Its sender hears nothing, and that would have been the answer to one that is wrong, too. */
static void requests_wait(void **state)
{
    struct vbn_wire_hello good = lone_hello(ctx, 8), wrong = lone_hello(ctx, 9);
    unsigned accepted = fake_count(FAKE_ACCEPT), rejected = fake_count(FAKE_REJECT);
    int live = fake_live();

    (void)state;
    wrong.job_key++;
    address_is(false);
    request(&good);
    request(&wrong);
    lone_pass(ctx, 1000);
    assert_int_equal(fake_count(FAKE_ACCEPT), accepted);
    assert_int_equal(fake_count(FAKE_REJECT), rejected);
    assert_int_equal(fake_live(), live + 2); /* not even destroyed: that is an answer, too */
    address_is_told(true);
    assert_int_equal(fake_live(), live);
    assert_null(vbn_endpoint_find(ctx, 8));
}

/* Which it proves to be back, whether that has been told or not. */
static void a_request_is_ahead_of_the_link(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 8);
    unsigned accepted = fake_count(FAKE_ACCEPT);

    (void)state;
    lone_device->port[0].state = IBV_PORT_DOWN;
    fake_async(ctx->device.verbs, IBV_EVENT_PORT_ERR, NULL);
    lone_progress(ctx);
    assert_false(ctx->device.link_up);
    lone_device->port[0].state = IBV_PORT_ACTIVE;
    request(&hello);
    assert_int_equal(fake_count(FAKE_ACCEPT), accepted + 1);
}

static void a_request_that_is_taken_back(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 8);
    struct rdma_cm_id *id;
    int live = fake_live();

    (void)state;
    address_is(false);
    id = request(&hello);
    fake_event(id, RDMA_CM_EVENT_REJECTED, 4, NULL, 0);
    fake_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    lone_progress(ctx);
    address_is_told(true);
    assert_int_equal(fake_live(), live);
}

/* Closing waits for the address, and not for ever: teardown finds nothing left. */
static void a_request_at_the_end(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 8);

    (void)state;
    address_is(false);
    request(&hello);
    assert_int_equal(vbn_shutdown(ctx), 1);
    address_is_told(true);
    assert_int_equal(vbn_shutdown(ctx), 0);
    address_is(false);
    request(&hello);
}

static void nothing_is_asked(void **state)
{
    struct vbn_conn *attempt = lone_attempt(ctx, 7, VBN_CONN_ROUTE);
    unsigned asked = fake_count(FAKE_CONNECT);

    (void)state;
    lone_at_home(attempt->id);
    address_is(false);
    fake_event(attempt->id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(fake_count(FAKE_CONNECT), asked);
}

static void nothing_is_confirmed(void **state)
{
    struct vbn_conn *attempt = lone_attempt(ctx, 7, VBN_CONN_CONNECTING);
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    unsigned confirmed = fake_count(FAKE_ESTABLISH);
    vbn_endpoint_t *ep = attempt->ep;

    (void)state;
    lone_at_home(attempt->id);
    address_is(false);
    lone_answer(attempt, &hello);
    lone_progress(ctx);
    assert_int_equal(fake_count(FAKE_ESTABLISH), confirmed);
    assert_null(ep->conn);
    assert_true(ep->conn_count > 0); /* its id waits: without it the peer would be told */
    address_is_told(true);
    lone_pass(ctx, 10);
    assert_ptr_not_equal(ep->attempt, attempt);
}

/* Where one address has gone the next may go while a request by it is under way. */
static void who_has_lost_its_address_waits(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    lone_at_home(conn->id);
    address_is(false);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "its address is gone");
    lone_pass(ctx, 90);
    assert_null(ep->attempt);
    lone_pass(ctx, 20);
    assert_non_null(ep->attempt);
    address_is_told(false); /* now it is told, too */
    assert_null(ep->attempt);
    lone_pass(ctx, 90);
    assert_null(ep->attempt);
    address_is_told(true);
    lone_pass(ctx, 2);
    assert_non_null(ep->attempt);
}

/* Where the peer's disconnect has crossed ours, to destroy the id is to answer that. */
static void nothing_is_destroyed(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 7);
    struct rdma_cm_id *id = conn->id;
    vbn_endpoint_t *ep = conn->ep;
    unsigned said = fake_count(FAKE_DISCONNECT);

    (void)state;
    lone_at_home(id);
    fake_disconnect_by_itself(false);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "for no reason");
    lone_pass(ctx, 60);
    assert_int_equal(fake_count(FAKE_DISCONNECT), said + 1);
    address_is(false);
    fake_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_int_equal(conn->state, VBN_CONN_DEAD);
    assert_int_equal(ep->conn_count, 2);
    address_is_told(true);
    assert_int_equal(ep->conn_count, 1);
    fake_disconnect_by_itself(true);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_request_is_ahead_of_the_link), T(requests_wait),        T(a_request_that_is_taken_back),
        T(a_request_at_the_end),           T(nothing_is_asked),     T(nothing_is_confirmed),
        T(who_has_lost_its_address_waits), T(nothing_is_destroyed),
    };

    return cmocka_run_group_tests_name("away", tests, NULL, NULL);
}
