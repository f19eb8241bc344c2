/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushing, shared receive queues, completion queues and their events, and the port. */
#include "behaviours.h"

#include <errno.h>
#include <string.h>

/* --- flushing --------------------------------------------------------------------------------- */

/* Sends wait for a receive that never comes: all are in the queue when it fails. */
static void flush_is_in_order_and_complete(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(post_send(&ab, i, 8, i % 2 ? IBV_SEND_SIGNALED : 0), 0);
        assert_int_equal(post_recv(&ab, 100 + i, 64), 0);
    }
    link_fail(&ab);
    for (uint32_t i = 0; i < 10; i++)
        expect_sent(&ab, i, IBV_WC_WR_FLUSH_ERR);
    for (uint32_t i = 0; i < 10; i++)
        expect_received(&ab, 100 + i, IBV_WC_WR_FLUSH_ERR);
    expect_silence(&a, a.send_cq);
}

/* The last request to complete tells that all are through, as vbn_qp_fail() relies on. */
static void request_posted_in_error_is_the_last(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 5; i++)
        post_send(&ab, i, 8, 0);
    link_fail(&ab);
    post_send(&ab, 99, 8, IBV_SEND_SIGNALED);
    for (uint32_t i = 0; i < 5; i++)
        expect_sent(&ab, i, IBV_WC_WR_FLUSH_ERR);
    expect_sent(&ab, 99, IBV_WC_WR_FLUSH_ERR);
    expect_silence(&a, a.send_cq);
}

static void what_completed_in_silence_is_not_flushed(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 3; i++) {
        post_recv(&ba, i, 64);
        post_send(&ab, i, 8, 0);
        expect_received(&ba, i, IBV_WC_SUCCESS);
    }
    world_settle();          /* the acknowledgements */
    post_send(&ab, 3, 8, 0); /* waits for a receive */
    world_settle();
    link_fail(&ab);
    expect_sent(&ab, 3, IBV_WC_WR_FLUSH_ERR);
    expect_silence(&a, a.send_cq);
}

/* Failing twice is failing once. */
static void failed_queue_pair_may_be_failed_again(void **state)
{
    (void)state;
    connect_usual();
    post_send(&ab, 1, 8, 0);
    link_fail(&ab);
    link_fail(&ab);
    expect_sent(&ab, 1, IBV_WC_WR_FLUSH_ERR);
    expect_silence(&a, a.send_cq);
    expect_state(&ab, IBV_QPS_ERR);
}

static void reset_forgets_the_work(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 3; i++) {
        post_send(&ab, i, 8, IBV_SEND_SIGNALED);
        post_recv(&ab, i, 64);
    }
    world_settle();
    world_enter(A);
    assert_int_equal(ibv_modify_qp(ab.qp, &attr, IBV_QP_STATE), 0);
    expect_silence(&a, a.send_cq);
    expect_silence(&a, a.recv_cq);
    expect_state(&ab, IBV_QPS_RESET);
}

/* After a destroy nothing new appears; what had completed may still be read, or be gone. */
static void destroyed_queue_pair_is_silent(void **state)
{
    struct ibv_wc wc[8];
    uint32_t qp_num;
    int count;

    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 3; i++)
        post_recv(&ba, i, 64);
    for (uint32_t i = 0; i < 6; i++)
        post_send(&ab, i, 8, IBV_SEND_SIGNALED); /* three find a receive */
    for (uint32_t i = 0; i < 3; i++)
        expect_received(&ba, i, IBV_WC_SUCCESS);
    world_settle();
    world_enter(A);
    qp_num = ab.qp->qp_num;
    assert_int_equal(ibv_destroy_qp(ab.qp), 0);
    ab.qp = NULL;
    count = ibv_poll_cq(a.send_cq, 8, wc);
    assert_true(count == 0 || count == 3);
    for (int i = 0; i < count; i++) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal(wc[i].qp_num, qp_num);
        assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
    }
    expect_silence(&a, a.send_cq);
}

/* With the queue pair gone, its memory is free, whatever was not polled. */
static void memory_is_free_without_the_queue_pair(void **state)
{
    struct ibv_sge sge = {.length = 8};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    static uint8_t region[64];
    struct ibv_mr *mr;

    (void)state;
    connect_usual();
    world_enter(B);
    assert_non_null(mr = ibv_reg_mr(b.pd, region, sizeof(region), IBV_ACCESS_LOCAL_WRITE));
    sge.addr = (uintptr_t)region;
    sge.lkey = mr->lkey;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ibv_post_recv(ba.qp, &wr, &bad), 0);
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
    expect_sent(&ab, 1, IBV_WC_SUCCESS);
    world_enter(B);
    assert_int_equal(ibv_destroy_qp(ba.qp), 0);
    ba.qp = NULL;
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* --- shared receive queues -------------------------------------------------------------------- */

static void shared_receives_serve_both_connections(void **state)
{
    struct link cd = {0}, dc = {0};
    struct ibv_wc wc;

    (void)state;
    end_add_srq(&b, 16);
    connect_usual();
    connect_links(&cd, &dc, &usual);
    post_recv(&ba, 1, 64);
    post_recv(&ba, 2, 64);
    post_send(&cd, 0, 8, IBV_SEND_SIGNALED);
    assert_true(poll_one(&b, b.recv_cq, &wc));
    assert_int_equal(wc.qp_num, dc.qp->qp_num);
    assert_int_equal(wc.wr_id, 1);
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    assert_true(poll_one(&b, b.recv_cq, &wc));
    assert_int_equal(wc.qp_num, ba.qp->qp_num);
    assert_int_equal(wc.wr_id, 2);
    link_destroy(&cd);
    link_destroy(&dc);
}

static void failed_queue_pair_leaves_shared_receives(void **state)
{
    struct link cd = {0}, dc = {0};

    (void)state;
    end_add_srq(&b, 16);
    connect_usual();
    connect_links(&cd, &dc, &usual);
    post_recv(&ba, 1, 64);
    post_recv(&ba, 2, 64);
    link_fail(&ba);
    expect_silence(&b, b.recv_cq);
    post_send(&cd, 0, 8, IBV_SEND_SIGNALED);
    expect_received(&dc, 1, IBV_WC_SUCCESS);
    world_enter(B);
    assert_int_equal(ibv_destroy_qp(ba.qp), 0);
    ba.qp = NULL;
    post_send(&cd, 0, 8, IBV_SEND_SIGNALED);
    expect_received(&dc, 2, IBV_WC_SUCCESS);
    link_destroy(&cd);
    link_destroy(&dc);
}

static void empty_shared_queue_makes_senders_wait(void **state)
{
    (void)state;
    end_add_srq(&b, 16);
    connect_usual();
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    expect_silence(&a, a.send_cq);
    post_recv(&ba, 2, 64);
    expect_received(&ba, 2, IBV_WC_SUCCESS);
    expect_sent(&ab, 1, IBV_WC_SUCCESS);
}

static void last_wqe_reached_is_told(void **state)
{
    (void)state;
    end_add_srq(&b, 16);
    connect_usual();
    link_fail(&ba);
    if (!world_may(QUIRK_NO_LAST_WQE))
        assert_true(async_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED));
}

static void arm_limit(uint32_t limit)
{
    struct ibv_srq_attr attr = {.srq_limit = limit};

    world_enter(B);
    assert_int_equal(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), 0);
}

static void one_message(uint32_t wr_id)
{
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    expect_received(&ba, wr_id, IBV_WC_SUCCESS);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
}

/* The event comes once, when fewer than the limit are left. */
static void srq_limit_is_told_once(void **state)
{
    (void)state;
    end_add_srq(&b, 16);
    connect_usual();
    for (uint32_t i = 0; i < 5; i++)
        post_recv(&ba, i, 64);
    arm_limit(3);
    one_message(0);
    one_message(1);
    expect_no_async(&b); /* three are left */
    one_message(2);
    assert_true(async_event(&b, IBV_EVENT_SRQ_LIMIT_REACHED));
    one_message(3);
    expect_no_async(&b);
    for (uint32_t i = 5; i < 10; i++)
        post_recv(&ba, i, 64);
    arm_limit(6);
    one_message(4);
    assert_true(async_event(&b, IBV_EVENT_SRQ_LIMIT_REACHED));
}

/* With fewer than the limit at the arming: told at once, or by the next message. */
static void srq_below_its_limit_is_told(void **state)
{
    struct ibv_srq_attr attr;

    (void)state;
    end_add_srq(&b, 16);
    connect_usual();
    for (uint32_t i = 0; i < 3; i++)
        post_recv(&ba, i, 64);
    arm_limit(8);
    one_message(0);
    assert_true(async_event(&b, IBV_EVENT_SRQ_LIMIT_REACHED));
    expect_no_async(&b);
    world_enter(B);
    assert_int_equal(ibv_query_srq(b.srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 0); /* not armed any more */
    assert_true(attr.max_wr >= 16);
}

static void limit_beyond_the_queue_is_refused(void **state)
{
    struct ibv_srq_attr attr;

    (void)state;
    end_add_srq(&b, 16);
    world_enter(B);
    assert_int_equal(ibv_query_srq(b.srq, &attr), 0);
    attr.srq_limit = attr.max_wr + 1;
    assert_int_equal(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
}

/* --- completion queues ------------------------------------------------------------------------ */

static void poll_takes_no_more_than_asked(void **state)
{
    struct ibv_wc wc[8];

    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 7; i++) {
        post_recv(&ba, i, 64);
        post_send(&ab, i, 8, IBV_SEND_SIGNALED);
    }
    for (uint32_t i = 0; i < 7; i++)
        expect_received(&ba, i, IBV_WC_SUCCESS);
    world_settle();
    world_enter(A);
    assert_int_equal(ibv_poll_cq(a.send_cq, 3, wc), 3);
    assert_int_equal(wc[2].wr_id, 2);
    assert_int_equal(ibv_poll_cq(a.send_cq, 0, wc), 0);
    assert_int_equal(ibv_poll_cq(a.send_cq, 8, wc), 4);
    assert_int_equal(wc[0].wr_id, 3);
    assert_int_equal(wc[3].wr_id, 6);
    assert_int_equal(ibv_poll_cq(a.send_cq, 8, wc), 0);
}

/* The queue holds at least what was asked for, tells when that was not enough, and loses the rest.
 */
static void overrun_is_told(void **state)
{
    struct ibv_cq *large = a.send_cq, *small;
    struct ibv_wc wc;
    int count = 0;

    (void)state;
    world_misuse();
    world_enter(A);
    assert_non_null(small = ibv_create_cq(a.verbs, 4, NULL, a.channel, 0));
    assert_true(small->cqe >= 4 && small->cqe < (int)usual.sends);
    a.send_cq = small;
    connect_usual();
    a.send_cq = large;
    for (uint32_t i = 0; i < usual.sends; i++) {
        post_recv(&ba, i, 64);
        assert_int_equal(post_send(&ab, i, 8, IBV_SEND_SIGNALED), 0);
    }
    assert_true(async_event(&a, IBV_EVENT_CQ_ERR));
    world_settle();
    world_enter(A);
    while (ibv_poll_cq(small, 1, &wc) == 1)
        assert_int_equal(wc.wr_id, count++);
    assert_true(count <= small->cqe);
    link_destroy(&ab);
    assert_int_equal(ibv_destroy_cq(small), 0);
}

static bool cq_event_came(struct end *end)
{
    struct ibv_cq *cq;
    void *context;

    world_settle();
    world_enter(end->side);
    if (ibv_get_cq_event(end->channel, &cq, &context)) {
        assert_int_equal(errno, EAGAIN);
        return false;
    }
    assert_ptr_equal(context, end);
    ibv_ack_cq_events(cq, 1);
    return true;
}

static void arm(struct ibv_cq *cq, bool solicited_only)
{
    world_enter(cq == b.recv_cq ? B : A);
    assert_int_equal(ibv_req_notify_cq(cq, solicited_only), 0);
}

static void armed_queue_notifies_once(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 4; i++)
        post_recv(&ba, i, 64);
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    assert_false(cq_event_came(&b)); /* not armed */
    arm(b.recv_cq, false);
    assert_false(cq_event_came(&b)); /* what was there before does not count */
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    assert_true(cq_event_came(&b));
    assert_false(cq_event_came(&b));
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    assert_false(cq_event_came(&b)); /* not armed again */
}

static void solicited_and_failed_ones_notify(void **state)
{
    (void)state;
    connect_usual();
    for (uint32_t i = 0; i < 4; i++)
        post_recv(&ba, i, 64);
    arm(b.recv_cq, true);
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED);
    assert_false(cq_event_came(&b));
    post_send(&ab, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
    assert_true(cq_event_came(&b));
    arm(b.recv_cq, true);
    link_fail(&ba);
    assert_true(cq_event_came(&b) || world_may(QUIRK_FLUSH_IS_QUIET));
}

/* --- the port --------------------------------------------------------------------------------- */

static enum ibv_port_state port_state(void)
{
    struct ibv_port_attr attr;

    world_enter(A);
    assert_int_equal(ibv_query_port(a.verbs, 1, &attr), 0);
    return attr.state;
}

static void link_down_and_up_is_told(void **state)
{
    (void)state;
    connect_usual();
    if (!world_link_set(false)) {
        print_message("the link is not ours to change\n");
        skip();
    }
    assert_true(async_event(&a, IBV_EVENT_PORT_ERR));
    assert_int_equal(port_state(), IBV_PORT_DOWN);
    assert_true(world_link_set(true));
    assert_true(async_event(&a, IBV_EVENT_PORT_ACTIVE));
    assert_int_equal(port_state(), IBV_PORT_ACTIVE);
    post_recv(&ba, 0, 64); /* an idle connection lives on */
    one_message(0);
}

static const struct CMUnitTest tests[] = {
    BEHAVIOUR(flush_is_in_order_and_complete),
    BEHAVIOUR(request_posted_in_error_is_the_last),
    BEHAVIOUR(what_completed_in_silence_is_not_flushed),
    BEHAVIOUR(failed_queue_pair_may_be_failed_again),
    BEHAVIOUR(reset_forgets_the_work),
    BEHAVIOUR(destroyed_queue_pair_is_silent),
    BEHAVIOUR(memory_is_free_without_the_queue_pair),
    BEHAVIOUR(shared_receives_serve_both_connections),
    BEHAVIOUR(failed_queue_pair_leaves_shared_receives),
    BEHAVIOUR(empty_shared_queue_makes_senders_wait),
    BEHAVIOUR(last_wqe_reached_is_told),
    BEHAVIOUR(srq_limit_is_told_once),
    BEHAVIOUR(srq_below_its_limit_is_told),
    BEHAVIOUR(limit_beyond_the_queue_is_refused),
    BEHAVIOUR(poll_takes_no_more_than_asked),
    BEHAVIOUR(overrun_is_told),
    BEHAVIOUR(armed_queue_notifies_once),
    BEHAVIOUR(solicited_and_failed_ones_notify),
    BEHAVIOUR(link_down_and_up_is_told),
};

const struct behaviours behaviours_queue = BEHAVIOURS(tests);
