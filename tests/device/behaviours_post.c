/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts and transitions that are refused at once, and with which errno. */
#include "behaviours.h"

#include <errno.h>
#include <string.h>

/* A queue pair without a connection. */
static void lone_qp(void)
{
    link_resolve(&ab, &a, &b.addr);
    link_make_qp(&ab, &a, &usual);
    world_misuse();
}

static void send_before_rts_is_refused(void **state)
{
    (void)state;
    lone_qp();
    assert_int_equal(post_send(&ab, 0, 1, IBV_SEND_SIGNALED), EINVAL);
    link_to_init(&ab, &usual);
    assert_int_equal(post_send(&ab, 0, 1, IBV_SEND_SIGNALED), EINVAL);
    expect_silence(&a, a.send_cq);
}

static void receive_in_reset_is_refused(void **state)
{
    (void)state;
    lone_qp();
    assert_int_equal(post_recv(&ab, 3, 64), EINVAL);
}

static void receive_in_init_is_taken(void **state)
{
    (void)state;
    lone_qp();
    link_to_init(&ab, &usual);
    assert_int_equal(post_recv(&ab, 3, 64), 0);
    link_fail(&ab);
    expect_received(&ab, 3, IBV_WC_WR_FLUSH_ERR);
}

static void post_in_error_is_flushed(void **state)
{
    (void)state;
    connect_usual();
    link_fail(&ab);
    assert_int_equal(post_send(&ab, 1, 1, IBV_SEND_SIGNALED), 0);
    assert_int_equal(post_recv(&ab, 2, 64), 0);
    assert_int_equal(post_send(&ab, 3, 1, 0), 0);
    expect_sent(&ab, 1, IBV_WC_WR_FLUSH_ERR);
    expect_sent(&ab, 3, IBV_WC_WR_FLUSH_ERR);
    if (world_may(QUIRK_LATE_RECEIVES))
        link_fail(&ab); /* this helps */
    expect_received(&ab, 2, IBV_WC_WR_FLUSH_ERR);
}

/* No receive is posted, so nothing leaves the send queue. A device may give more than was asked. */
static void full_send_queue_refuses(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 1);
    struct ibv_send_wr second = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED), first = second, *bad;
    uint32_t count = 0;
    int error = 0;

    (void)state;
    connect_usual();
    first.next = &second;
    assert_true(ab.cap.max_send_wr >= usual.sends);
    while (!error && count < 1000) {
        error = post_send(&ab, count, 1, IBV_SEND_SIGNALED);
        count += !error;
    }
    assert_int_equal(error, ENOMEM);
    assert_true(count >= usual.sends);
    world_enter(A);
    assert_int_equal(ibv_post_send(ab.qp, &first, &bad), ENOMEM);
    assert_ptr_equal(bad, &first);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(post_recv(&ba, i, 64), 0);
        expect_received(&ba, i, IBV_WC_SUCCESS);
        expect_sent(&ab, i, IBV_WC_SUCCESS);
    }
}

static void full_receive_queue_refuses(void **state)
{
    uint32_t count = 0;
    int error = 0;

    (void)state;
    connect_usual();
    while (!error && count < 1000) {
        error = post_recv(&ba, count, 64);
        count += !error;
    }
    assert_int_equal(error, ENOMEM);
    assert_true(count >= usual.recvs);
}

static void full_srq_refuses(void **state)
{
    uint32_t count = 0;
    int error = 0;

    (void)state;
    end_add_srq(&b, 10);
    connect_usual();
    while (!error && count < 1000) {
        error = post_recv(&ba, count, 64);
        count += !error;
    }
    assert_int_equal(error, ENOMEM);
    assert_true(count >= 10);
}

/* Of a list, what comes before the request at fault is posted. */
static void bad_request_in_a_list(void **state)
{
    struct ibv_sge sges[64];
    struct ibv_send_wr wrs[3], *bad;

    (void)state;
    connect_usual();
    world_misuse();
    for (size_t i = 0; i < 64; i++)
        sges[i] = sge_of(&a, 0, 1);
    for (size_t i = 0; i < 3; i++) {
        wrs[i] = request(IBV_WR_SEND, sges, IBV_SEND_SIGNALED);
        wrs[i].wr_id = i;
        wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
    }
    wrs[1].num_sge = (int)ab.cap.max_send_sge + 1;
    assert_true(wrs[1].num_sge <= 64);
    post_recv(&ba, 0, 64);
    post_recv(&ba, 64, 64);
    world_enter(A);
    assert_int_equal(ibv_post_send(ab.qp, wrs, &bad), EINVAL);
    assert_ptr_equal(bad, &wrs[1]);
    expect_sent(&ab, 0, IBV_WC_SUCCESS);
    expect_silence(&a, a.send_cq);
    expect_state(&ab, IBV_QPS_RTS); /* it goes on */
    assert_int_equal(post_send(&ab, 9, 1, IBV_SEND_SIGNALED), 0);
    expect_sent(&ab, 9, IBV_WC_SUCCESS);
}

static void too_many_scatter_entries_are_refused(void **state)
{
    struct ibv_sge sges[64];
    struct ibv_recv_wr wr = {.sg_list = sges}, *bad;

    (void)state;
    connect_usual();
    world_misuse();
    for (size_t i = 0; i < 64; i++)
        sges[i] = sge_of(&b, 0, 1);
    wr.num_sge = (int)ba.cap.max_recv_sge + 1;
    assert_true(wr.num_sge <= 64);
    world_enter(B);
    assert_int_equal(ibv_post_recv(ba.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
}

static void too_long_inline_is_refused(void **state)
{
    (void)state;
    connect_usual();
    world_misuse();
    assert_true(ab.cap.max_inline_data >= usual.inlines);
    assert_int_equal(
        post_send(&ab, 0, ab.cap.max_inline_data + 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE), EINVAL);
    post_recv(&ba, 0, 1000);
    assert_int_equal(post_send(&ab, 1, ab.cap.max_inline_data, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
                     0);
    expect_sent(&ab, 1, IBV_WC_SUCCESS);
}

static void misaligned_atomic_is_refused(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 8);
    struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, IBV_SEND_SIGNALED);

    (void)state;
    connect_usual();
    world_misuse();
    wr.wr.atomic.remote_addr = (uintptr_t)b.memory + 4;
    wr.wr.atomic.rkey = b.mr->rkey;
    assert_int_equal(post(&ab, &wr), EINVAL);
}

static void transition_out_of_turn_is_refused(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    int mask;

    (void)state;
    lone_qp();
    link_to_init(&ab, &usual);
    mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
           IBV_QP_MAX_QP_RD_ATOMIC;
    world_enter(A);
    assert_int_equal(ibv_modify_qp(ab.qp, &attr, mask), EINVAL);
    attr.qp_state = IBV_QPS_RTR; /* without the attributes it needs */
    assert_int_equal(ibv_modify_qp(ab.qp, &attr, IBV_QP_STATE), EINVAL);
    expect_state(&ab, IBV_QPS_INIT);
}

static bool makes_qp(struct ibv_qp_cap cap)
{
    struct ibv_qp_init_attr init = {
        .send_cq = a.send_cq, .recv_cq = a.recv_cq, .qp_type = IBV_QPT_RC, .cap = cap};
    struct ibv_qp *qp;

    world_enter(A);
    errno = 0;
    qp = ibv_create_qp(a.pd, &init);
    if (qp)
        assert_int_equal(ibv_destroy_qp(qp), 0);
    else
        assert_int_equal(errno, EINVAL);
    return qp != NULL;
}

static void queue_pair_beyond_the_device_is_refused(void **state)
{
    struct ibv_device_attr max;
    uint32_t sges;

    (void)state;
    world_enter(A);
    assert_int_equal(ibv_query_device(a.verbs, &max), 0);
    sges = (uint32_t)max.max_sge;
    assert_true(makes_qp((struct ibv_qp_cap){8, 8, sges, sges, 0}));
    assert_false(makes_qp((struct ibv_qp_cap){(uint32_t)max.max_qp_wr + 1, 8, 1, 1, 0}));
    assert_false(makes_qp((struct ibv_qp_cap){8, (uint32_t)max.max_qp_wr + 1, 1, 1, 0}));
    assert_false(makes_qp((struct ibv_qp_cap){8, 8, sges + 1, 1, 0}));
    assert_false(makes_qp((struct ibv_qp_cap){8, 8, 1, sges + 1, 0}));
    assert_false(makes_qp((struct ibv_qp_cap){8, 8, 1, 1, 1 << 20}));
}

static bool makes_srq(int max_wr, int max_sge)
{
    struct ibv_srq_init_attr init = {
        .attr = {.max_wr = (uint32_t)max_wr, .max_sge = (uint32_t)max_sge}};
    struct ibv_srq *srq;

    world_enter(A);
    errno = 0;
    srq = ibv_create_srq(a.pd, &init);
    if (srq)
        assert_int_equal(ibv_destroy_srq(srq), 0);
    else
        assert_int_equal(errno, EINVAL);
    return srq != NULL;
}

static void queues_beyond_the_device_are_refused(void **state)
{
    struct ibv_device_attr max;

    (void)state;
    world_enter(A);
    assert_int_equal(ibv_query_device(a.verbs, &max), 0);
    assert_true(makes_srq(8, max.max_srq_sge));
    assert_false(makes_srq(8, max.max_srq_sge + 1));
    assert_false(makes_srq(max.max_srq_wr + 1, 1));
    errno = 0;
    assert_null(ibv_create_cq(a.verbs, max.max_cqe + 1, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(ibv_create_cq(a.verbs, 0, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
}

static void busy_objects_are_not_destroyed(void **state)
{
    (void)state;
    connect_usual();
    world_misuse();
    world_enter(A);
    assert_int_equal(ibv_destroy_cq(a.send_cq), EBUSY);
    assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
}

static void remote_write_needs_local_write(void **state)
{
    (void)state;
    world_misuse();
    world_enter(A);
    errno = 0;
    assert_null(ibv_reg_mr(a.pd, a.memory, 64, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
}

static const struct CMUnitTest tests[] = {
    BEHAVIOUR(send_before_rts_is_refused),
    BEHAVIOUR(receive_in_reset_is_refused),
    BEHAVIOUR(receive_in_init_is_taken),
    BEHAVIOUR(post_in_error_is_flushed),
    BEHAVIOUR(full_send_queue_refuses),
    BEHAVIOUR(full_receive_queue_refuses),
    BEHAVIOUR(full_srq_refuses),
    BEHAVIOUR(bad_request_in_a_list),
    BEHAVIOUR(too_many_scatter_entries_are_refused),
    BEHAVIOUR(too_long_inline_is_refused),
    BEHAVIOUR(misaligned_atomic_is_refused),
    BEHAVIOUR(transition_out_of_turn_is_refused),
    BEHAVIOUR(queue_pair_beyond_the_device_is_refused),
    BEHAVIOUR(queues_beyond_the_device_are_refused),
    BEHAVIOUR(busy_objects_are_not_destroyed),
    BEHAVIOUR(remote_write_needs_local_write),
};

const struct behaviours behaviours_post = BEHAVIOURS(tests);
