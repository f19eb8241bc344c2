/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue's ring: which completion frees which requests, and what errors do to the others.
 */
#include "lone.h"

#include <errno.h>

#define COUNT 24

struct request {
    struct vbn_wr wr;
    unsigned calls;
    int status;
};

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static struct request request[COUNT];
static unsigned order[COUNT], retired;

static void tweak(struct vbn_options *opts)
{
    opts->sq_depth = 20;
}

static void request_retired(struct vbn_wr *wr, int status)
{
    struct request *r = (struct request *)wr;

    r->calls++;
    r->status = status;
    order[retired++] = (unsigned)(r - request);
}

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(tweak);
    conn = lone_connect(ctx, 7);
    memset(request, 0, sizeof(request));
    for (int i = 0; i < COUNT; i++)
        vbn_wr_init(&request[i].wr, request_retired);
    retired = 0;
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

static bool post(struct request *r, bool signaled)
{
    struct ibv_send_wr swr = {.opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = signaled ? IBV_SEND_SIGNALED : 0u};

    return vbn_conn_post(conn, &swr, r ? &r->wr : NULL);
}

static void retired_well(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        assert_int_equal(request[i].calls, 1);
        assert_int_equal(request[i].status, VBN_OK);
    }
}

static void one_completion_frees_all_before_it(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(post(&request[i], i == 2 || i == 4));
    assert_int_equal(conn->q.head - conn->q.tail, 5);
    fake_send_completes(conn->q.qp, 2, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_int_equal(retired, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(order[i], i);
    retired_well(0, 3);
    assert_int_equal(conn->q.head - conn->q.tail, 2);
    fake_send_completes(conn->q.qp, 4, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    retired_well(0, 5);
    assert_true(vbn_qp_drained(&conn->q));
}

static void requests_that_nobody_waits_for(void **state)
{
    (void)state;
    assert_true(post(NULL, false));
    assert_true(post(&request[0], false));
    assert_true(post(NULL, false));
    assert_true(post(&request[1], true));
    assert_int_equal(conn->q.unsignaled, 0);
    assert_true(post(NULL, false));
    assert_true(post(NULL, false));
    assert_int_equal(conn->q.unsignaled, 2);
    fake_send_completes(conn->q.qp, 3, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    retired_well(0, 2);
    assert_int_equal(retired, 2);
    assert_int_equal(conn->q.head - conn->q.tail, 2);
}

/* Not every device completes in order: siw completes a send before an earlier RDMA read. */
static void a_completion_says_nothing_of_earlier_signaled_ones(void **state)
{
    (void)state;
    assert_true(post(&request[0], false));
    assert_true(post(&request[1], true));
    assert_true(post(&request[2], false));
    assert_true(post(&request[3], true));
    assert_true(post(&request[4], true));
    fake_send_completes(conn->q.qp, 3, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_int_equal(request[0].calls + request[1].calls + request[4].calls, 0);
    retired_well(2, 4);
    assert_int_equal(conn->q.head - conn->q.tail, 5); /* slots are free from the oldest on */
    fake_send_completes(conn->q.qp, 4, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_int_equal(conn->q.head - conn->q.tail, 5);
    fake_send_completes(conn->q.qp, 1, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    retired_well(0, 5);
    assert_true(vbn_qp_drained(&conn->q));
}

/* No device should, but what it says decides about memory. */
static void fails_after_a_later_one_has_ended_well(void **state)
{
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    assert_true(post(&request[0], false));
    assert_true(post(&request[1], true));
    fake_send_completes(conn->q.qp, 1, IBV_WC_SUCCESS);
    lone_progress(ctx);
    retired_well(0, 2);
    fake_send_completes(conn->q.qp, 0, IBV_WC_LOC_QP_OP_ERR);
    lone_progress(ctx);
    retired_well(0, 2); /* once */
    assert_null(ep->conn);
    lone_pass(ctx, 60);
    assert_int_equal(ep->conn_count, 0);
}

static void room_for_the_depth(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_true(vbn_qp_has_room(&conn->q));
        assert_true(post(&request[i], true));
    }
    assert_false(vbn_qp_has_room(&conn->q));
    assert_int_equal(fake_qp(conn->q.qp)->init.cap.max_send_wr, 21); /* one more to drain */
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    vbn_progress(ctx);
    assert_true(vbn_qp_has_room(&conn->q));
}

static void counters_wrap(void **state)
{
    uint32_t posted = 0;

    (void)state;
    conn->q.head = conn->q.tail = conn->q.group = UINT32_MAX - 30;
    for (int round = 0; round < 10; round++) {
        retired = 0;
        memset(request, 0, sizeof(request));
        for (int i = 0; i < COUNT; i++)
            vbn_wr_init(&request[i].wr, request_retired);
        for (int i = 0; i < 17; i++, posted++)
            assert_true(post(&request[i], i == 16));
        fake_send_completes(conn->q.qp, posted - 1, IBV_WC_SUCCESS);
        vbn_progress(ctx);
        retired_well(0, 17);
    }
    assert_true(conn->q.head < 1000);
}

static void reserves_its_share_of_completions(void **state)
{
    struct vbn_cq *cq = conn->q.cq;
    uint32_t with = cq->reserved;

    (void)state;
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    lone_pass(ctx, 60);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(with - cq->reserved, 21); /* the depth and the one for draining */
}

/* --- errors ----------------------------------------------------------------------------------- */

static void error_in_the_middle(void **state)
{
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(post(&request[i], i >= 2));
    fake_send_completes(conn->q.qp, 2, IBV_WC_RETRY_EXC_ERR);
    lone_progress(ctx);
    assert_int_equal(retired, 5); /* nobody waits for what will not come */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(request[i].calls, 1);
        assert_true(i < 2 || request[i].status == VBN_ERR_PEER_LOST);
    }
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PEER_LOST);
    assert_contains(unit.failed[0].reason, "completion error");
    assert_contains(unit.failed[0].reason, "0x77");
    lone_pass(ctx, 60);
    assert_int_equal(ep->conn_count, 0);
}

/* Whoever cannot be put into the error state must not be given anything more to send. */
static void cannot_be_failed(void **state)
{
    (void)state;
    assert_true(post(&request[0], true));
    fake_fail(FAKE_MODIFY_QP, 0, EIO);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    assert_int_equal(lone_sent(conn), 1);
    assert_false(vbn_qp_has_room(&conn->q));
    lone_pass(ctx, 1100);
    assert_int_equal(request[0].calls, 1);
    assert_int_equal(unit.failures, 1);
}

/* Its memory may be gone as soon as its endpoint is over, so one refusal is not the end. */
static void is_stopped_at_the_second_try(void **state)
{
    (void)state;
    fake_fail(FAKE_MODIFY_QP, 1, ENOMEM);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    assert_int_equal(fake_qp(conn->q.qp)->state, IBV_QPS_ERR);
}

static void error_of_one_that_nobody_waits_for(void **state)
{
    (void)state;
    assert_true(post(&request[0], false));
    assert_true(post(NULL, false));
    assert_true(post(&request[1], true));
    fake_send_completes(conn->q.qp, 1, IBV_WC_REM_ACCESS_ERR);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_contains(unit.failed[0].reason, "completion error");
    assert_int_equal(request[0].calls, 1);
    assert_int_equal(request[1].calls, 1);
    assert_int_equal(request[1].status, VBN_ERR_PEER_LOST);
    lone_pass(ctx, 60);
    assert_true(TAILQ_EMPTY(&ctx->conns));
}

/* Good completions that were under way when the queue pair failed still count. */
static void good_completions_after_the_failure(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    for (int i = 0; i < 3; i++)
        assert_true(post(&request[i], true));
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    fake_send_completes(conn->q.qp, 1, IBV_WC_SUCCESS);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    assert_int_equal(fake_qp(conn->q.qp)->send_count, 4); /* and the one that drains */
    fake_flush(conn->q.qp);
    lone_progress(ctx);
    retired_well(0, 2);
    assert_int_equal(request[2].status, VBN_ERR_PEER_LOST);
    lone_pass(ctx, 60);
    assert_true(TAILQ_EMPTY(&ctx->conns));
}

/* Completed but unsignaled requests report nothing: the drain tells that they are through. */
static void unsignaled_before_the_failure(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    assert_true(post(&request[0], false));
    assert_true(post(&request[1], false));
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    assert_int_equal(retired, 0);
    fake_send_completes(conn->q.qp, 2, IBV_WC_WR_FLUSH_ERR);
    lone_progress(ctx);
    assert_int_equal(retired, 2);
    lone_pass(ctx, 60);
    assert_true(TAILQ_EMPTY(&ctx->conns));
}

static void refused_post(void **state)
{
    vbn_endpoint_t *ep = conn->ep;

    (void)state;
    assert_true(post(&request[0], true));
    fake_fail(FAKE_POST_SEND, 1, ENOMEM);
    assert_false(post(&request[1], true));
    assert_int_equal(request[1].calls, 0); /* not taken */
    lone_progress(ctx);
    assert_int_equal(request[1].calls, 0);
    assert_int_equal(request[0].calls, 1);
    assert_int_equal(unit.failures, 1);
    assert_contains(unit.failed[0].reason, "ibv_post_send");
    assert_null(ep->conn);
}

/* Nothing comes out of the device any more: the end comes by time, and frees all. */
static void destroyed_with_requests_outstanding(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    for (int i = 0; i < 4; i++)
        assert_true(post(&request[i], true));
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    vbn_conn_fail(conn, VBN_EV_GONE, "test");
    lone_pass(ctx, 1100);
    lone_pass(ctx, 60);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    retired_well(0, 1);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(request[i].calls, 1);
        assert_int_equal(request[i].status, VBN_ERR_PEER_LOST);
    }
}

/* What it has kept once is not waited for as long again. */
static void device_that_keeps_the_last_request(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    assert_true(post(&request[0], true));
    fake_send_completes(conn->q.qp, 0, IBV_WC_WR_FLUSH_ERR);
    vbn_conn_fail(conn, VBN_EV_GONE, "test");
    lone_pass(ctx, 900);
    assert_int_equal(conn->state, VBN_CONN_DRAINING);
    lone_pass(ctx, 200);
    assert_int_equal(request[0].calls, 1);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    conn = lone_connect(ctx, 8);
    vbn_conn_fail(conn, VBN_EV_GONE, "test");
    lone_pass(ctx, 40);
    assert_false(TAILQ_EMPTY(&ctx->conns));
    lone_pass(ctx, 60);
    assert_true(TAILQ_EMPTY(&ctx->conns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_completion_frees_all_before_it, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_that_nobody_waits_for, setup, teardown),
        cmocka_unit_test_setup_teardown(device_that_keeps_the_last_request, setup, teardown),
        cmocka_unit_test_setup_teardown(a_completion_says_nothing_of_earlier_signaled_ones, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(fails_after_a_later_one_has_ended_well, setup, teardown),
        cmocka_unit_test_setup_teardown(room_for_the_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(counters_wrap, setup, teardown),
        cmocka_unit_test_setup_teardown(reserves_its_share_of_completions, setup, teardown),
        cmocka_unit_test_setup_teardown(error_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(cannot_be_failed, setup, teardown),
        cmocka_unit_test_setup_teardown(is_stopped_at_the_second_try, setup, teardown),
        cmocka_unit_test_setup_teardown(error_of_one_that_nobody_waits_for, setup, teardown),
        cmocka_unit_test_setup_teardown(good_completions_after_the_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(unsignaled_before_the_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_post, setup, teardown),
        cmocka_unit_test_setup_teardown(destroyed_with_requests_outstanding, setup, teardown),
    };

    return cmocka_run_group_tests_name("qp", tests, NULL, NULL);
}
