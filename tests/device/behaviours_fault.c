/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that fail: with which status, on which side, and what is left of the two queue pairs. */
#include "behaviours.h"

#include <string.h>

enum { REGION = 4096, TIMEOUT_67MS = 14 };

static uint8_t region[REGION]; /* of b, registered by the tests */

static struct ibv_mr *registered(struct end *end, unsigned access)
{
    struct ibv_mr *mr;

    world_enter(end->side);
    assert_non_null(mr = ibv_reg_mr(end->pd, region, REGION, (int)access));
    return mr;
}

static void deregister(struct end *end, struct ibv_mr *mr)
{
    world_enter(end->side);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* All retries take 0.2 s. */
static void connect_impatient(void)
{
    struct setting setting = usual;

    setting.timeout = TIMEOUT_67MS;
    connect_links(&ab, &ba, &setting);
}

/* --- remote access ---------------------------------------------------------------------------- */

static void request_is_denied(enum ibv_wr_opcode opcode, uint64_t remote, uint32_t rkey)
{
    world_misuse();
    assert_int_equal(post_rdma(&ab, opcode, sge_of(&a, 8, 64), remote, rkey), 0);
    expect_sent(&ab, 8, IBV_WC_REM_ACCESS_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_ERR);
    if (!world_may(QUIRK_NO_ERROR_EVENT))
        assert_true(async_event(&b, IBV_EVENT_QP_ACCESS_ERR));
}

static void access_is_denied(enum ibv_wr_opcode opcode, unsigned access, uint32_t offset,
                             uint32_t key_flaw)
{
    struct ibv_mr *mr = registered(&b, access);

    connect_usual();
    memset(region, 0xee, REGION);
    request_is_denied(opcode, (uintptr_t)region + offset, mr->rkey ^ key_flaw);
    for (uint32_t i = 0; i < REGION; i++)
        assert_int_equal(region[i], 0xee);
    deregister(&b, mr);
}

static void write_with_wrong_key(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_WRITE, ALL_ACCESS, 0, 0x5a5a0000);
}

static void read_with_wrong_key(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_READ, ALL_ACCESS, 0, 0x5a5a0000);
}

static void write_past_the_end(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_WRITE, ALL_ACCESS, REGION - 63, 0);
}

static void read_past_the_end(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_READ, ALL_ACCESS, REGION - 63, 0);
}

static void write_before_the_start(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_WRITE, ALL_ACCESS, (uint32_t)-1, 0);
}

static void write_without_the_right(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 0);
}

static void read_without_the_right(void **state)
{
    (void)state;
    access_is_denied(IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 0);
}

static void write_with_a_dead_key(void **state)
{
    struct ibv_mr *mr = registered(&b, ALL_ACCESS);
    uint32_t rkey = mr->rkey;

    (void)state;
    connect_usual();
    deregister(&b, mr);
    request_is_denied(IBV_WR_RDMA_WRITE, (uintptr_t)region, rkey);
}

static void write_with_the_key_of_another_pd(void **state)
{
    struct ibv_pd *pd;
    struct ibv_mr *mr;

    (void)state;
    connect_usual();
    world_enter(B);
    assert_non_null(pd = ibv_alloc_pd(b.verbs));
    assert_non_null(mr = ibv_reg_mr(pd, region, REGION, ALL_ACCESS));
    request_is_denied(IBV_WR_RDMA_WRITE, (uintptr_t)region, mr->rkey);
    deregister(&b, mr);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* The region allows it, the queue pair does not. */
static void queue_pair_forbids(unsigned access, enum ibv_wr_opcode opcode)
{
    struct setting setting = usual;

    setting.access = access;
    connect_links(&ab, &ba, &setting);
    world_misuse();
    post_rdma(&ab, opcode, sge_of(&a, 8, 64), (uintptr_t)b.memory, b.mr->rkey);
    expect_sent(&ab, 8, IBV_WC_REM_INV_REQ_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_ERR);
    if (!world_may(QUIRK_NO_ERROR_EVENT))
        assert_true(async_event(&b, IBV_EVENT_QP_REQ_ERR));
}

static void write_that_the_queue_pair_forbids(void **state)
{
    (void)state;
    queue_pair_forbids(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE);
}

static void read_that_the_queue_pair_forbids(void **state)
{
    (void)state;
    queue_pair_forbids(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ);
}

static void atomic_without_the_right(void **state)
{
    struct ibv_mr *mr = registered(&b, ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC);
    struct ibv_sge sge = sge_of(&a, 8, 8);
    struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, IBV_SEND_SIGNALED);

    (void)state;
    connect_usual();
    world_misuse();
    wr.wr.atomic.remote_addr = (uintptr_t)region;
    wr.wr.atomic.rkey = mr->rkey;
    assert_int_equal(post(&ab, &wr), 0);
    expect_sent(&ab, 0, IBV_WC_REM_ACCESS_ERR);
    expect_state(&ba, IBV_QPS_ERR);
    deregister(&b, mr);
}

/* A failure is told, asked for or not. */
static void unsignaled_failure_is_told(void **state)
{
    struct ibv_sge sge = sge_of(&a, 8, 8);
    struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, 0);

    (void)state;
    connect_usual();
    world_misuse();
    wr.wr_id = 5;
    wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
    wr.wr.rdma.rkey = b.mr->rkey ^ 0x5a5a0000;
    assert_int_equal(post(&ab, &wr), 0);
    expect_sent(&ab, 5, IBV_WC_REM_ACCESS_ERR);
}

/* What was posted behind the request at fault is flushed, what was before it is done. */
static void requests_around_a_denied_one(void **state)
{
    (void)state;
    connect_usual();
    world_misuse();
    post_recv(&ba, 0, 64);
    post_recv(&ba, 1, 64);
    post_send(&ab, 0, 1, 0);
    post_rdma(&ab, IBV_WR_RDMA_WRITE, sge_of(&a, 1, 64), (uintptr_t)b.memory,
              b.mr->rkey ^ 0x770000);
    post_send(&ab, 2, 1, 0);
    post_send(&ab, 3, 1, IBV_SEND_SIGNALED);
    expect_sent(&ab, 1, IBV_WC_REM_ACCESS_ERR);
    expect_sent(&ab, 2, IBV_WC_WR_FLUSH_ERR);
    expect_sent(&ab, 3, IBV_WC_WR_FLUSH_ERR);
    expect_received(&ba, 0, IBV_WC_SUCCESS);
    expect_received(&ba, 1, IBV_WC_WR_FLUSH_ERR);
    expect_silence(&a, a.send_cq);
}

/* --- local keys ------------------------------------------------------------------------------- */

static void send_is_at_fault(struct ibv_sge sge)
{
    struct ibv_send_wr wr = request(IBV_WR_SEND, &sge, IBV_SEND_SIGNALED);

    world_misuse();
    post_recv(&ba, 5, 64);
    wr.wr_id = 8;
    assert_int_equal(post(&ab, &wr), 0);
    expect_local_fault(&ab, a.send_cq, 8, IBV_WC_LOC_PROT_ERR, QUIRK_KEY_STATUS);
    expect_state(&ab, IBV_QPS_ERR);
    expect_silence(&b, b.recv_cq); /* nothing left */
    expect_state(&ba, IBV_QPS_RTS);
}

static void send_with_wrong_key(void **state)
{
    struct ibv_sge sge = sge_of(&a, 0, 8);

    (void)state;
    connect_usual();
    sge.lkey ^= 0x5a5a0000;
    send_is_at_fault(sge);
}

static void send_past_the_end(void **state)
{
    (void)state;
    connect_usual();
    send_is_at_fault(sge_of(&a, MEMORY - 7, 8));
}

static void read_into_memory_that_may_not_be_written(void **state)
{
    struct ibv_mr *mr = registered(&a, 0);
    struct ibv_sge sge = {(uintptr_t)region, 64, mr->lkey};
    struct ibv_send_wr wr = request(IBV_WR_RDMA_READ, &sge, IBV_SEND_SIGNALED);

    (void)state;
    connect_usual();
    world_misuse();
    memset(region, 0xee, REGION);
    wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
    wr.wr.rdma.rkey = b.mr->rkey;
    assert_int_equal(post(&ab, &wr), 0);
    expect_sent(&ab, 0, IBV_WC_LOC_PROT_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_RTS);
    assert_int_equal(region[0], 0xee);
    deregister(&a, mr);
}

static void receive_with_wrong_key(void **state)
{
    struct ibv_sge sge = sge_of(&b, 0, 64);
    struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad;

    (void)state;
    connect_usual();
    world_misuse();
    sge.lkey ^= 0x5a5a0000;
    world_enter(B);
    assert_int_equal(ibv_post_recv(ba.qp, &wr, &bad), 0);
    post_send(&ab, 8, 8, IBV_SEND_SIGNALED);
    expect_local_fault(&ba, b.recv_cq, 3, IBV_WC_LOC_PROT_ERR, QUIRK_KEY_STATUS);
    expect_sent(&ab, 8, IBV_WC_REM_OP_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_ERR);
}

/* --- receives --------------------------------------------------------------------------------- */

static void send_longer_than_the_receive(void **state)
{
    struct ibv_wc wc;

    (void)state;
    connect_usual();
    world_misuse();
    post_recv(&ba, 1, 100);
    post_recv(&ba, 2, 100);
    post_send(&ab, 3, 101, IBV_SEND_SIGNALED);
    post_send(&ab, 4, 1, IBV_SEND_SIGNALED);
    expect_local_fault(&ba, b.recv_cq, 1, IBV_WC_LOC_LEN_ERR, QUIRK_LENGTH_STATUS);
    expect_received(&ba, 2, IBV_WC_WR_FLUSH_ERR);
    assert_true(poll_one(&a, a.send_cq, &wc));
    assert_int_equal(wc.wr_id, 3);
    if (wc.status != IBV_WC_REM_OP_ERR || !world_may(QUIRK_LENGTH_STATUS))
        assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
    expect_sent(&ab, 4, IBV_WC_WR_FLUSH_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_ERR);
}

static void send_meets_no_receive(uint8_t rnr_retry)
{
    struct setting setting = usual;

    setting.rnr_retry = rnr_retry;
    connect_links(&ab, &ba, &setting);
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    post_send(&ab, 2, 8, 0);
    expect_sent(&ab, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    expect_sent(&ab, 2, IBV_WC_WR_FLUSH_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_RTS); /* it did nothing wrong */
}

static void no_receive_and_no_retry(void **state)
{
    (void)state;
    send_meets_no_receive(0);
}

static void no_receive_after_retries(void **state)
{
    (void)state;
    send_meets_no_receive(2);
}

static void seven_retries_wait_for_a_receive(void **state)
{
    (void)state;
    connect_usual();
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    expect_silence(&a, a.send_cq); /* 300 ms, with a timer of 0.64 ms */
    post_recv(&ba, 2, 64);
    expect_received(&ba, 2, IBV_WC_SUCCESS);
    expect_sent(&ab, 1, IBV_WC_SUCCESS);
}

/* The receiver says that it is there: the retries are for when it does not. */
static void waiting_costs_no_retries(void **state)
{
    (void)state;
    connect_impatient();
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    if (world_may(QUIRK_RNR_COSTS_RETRIES))
        return;
    expect_silence(&a, a.send_cq); /* longer than all retries take */
    post_recv(&ba, 2, 64);
    expect_received(&ba, 2, IBV_WC_SUCCESS);
    expect_sent(&ab, 1, IBV_WC_SUCCESS);
}

/* --- the peer goes ---------------------------------------------------------------------------- */

static void nobody_answers(void)
{
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    post_send(&ab, 2, 8, 0);
    post_recv(&ab, 3, 64);
    expect_sent(&ab, 1, IBV_WC_RETRY_EXC_ERR);
    expect_sent(&ab, 2, IBV_WC_WR_FLUSH_ERR);
    expect_received(&ab, 3, IBV_WC_WR_FLUSH_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_no_async(&a); /* the completions say it all */
}

static void peer_destroyed_its_queue_pair(void **state)
{
    (void)state;
    connect_impatient();
    post_recv(&ba, 0, 64);
    world_enter(B);
    assert_int_equal(ibv_destroy_qp(ba.qp), 0);
    ba.qp = NULL;
    nobody_answers();
}

static void peer_is_in_error(void **state)
{
    (void)state;
    connect_impatient();
    post_recv(&ba, 0, 64);
    link_fail(&ba);
    expect_received(&ba, 0, IBV_WC_WR_FLUSH_ERR);
    nobody_answers();
}

/* As many as there are: 0.6 s in all. */
static void seven_retries_come_to_an_end(void **state)
{
    struct setting setting = usual;
    struct ibv_wc wc;

    (void)state;
    setting.retry = 7;
    setting.timeout = TIMEOUT_67MS;
    connect_links(&ab, &ba, &setting);
    world_enter(B);
    assert_int_equal(ibv_destroy_qp(ba.qp), 0);
    ba.qp = NULL;
    post_send(&ab, 1, 8, IBV_SEND_SIGNALED);
    if (!world_may(QUIRK_SEVEN_IS_ENDLESS)) {
        expect_sent(&ab, 1, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    for (int i = 0; i < 8; i++)
        world_settle();
    if (ibv_poll_cq(a.send_cq, 1, &wc))
        assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
}

/* A queue pair that sends nothing does not notice. */
static void idle_queue_pair_stays(void **state)
{
    (void)state;
    connect_usual();
    post_recv(&ab, 0, 64);
    link_fail(&ba);
    expect_silence(&a, a.recv_cq);
    expect_state(&ab, IBV_QPS_RTS);
}

static void read_at_a_responder_that_takes_none(void **state)
{
    struct setting setting = usual;

    (void)state;
    setting.reads_taken = 0;
    connect_links(&ab, &ba, &setting);
    world_misuse();
    post_rdma(&ab, IBV_WR_RDMA_READ, sge_of(&a, 3, 64), (uintptr_t)b.memory, b.mr->rkey);
    expect_sent(&ab, 3, IBV_WC_REM_INV_REQ_ERR);
    expect_state(&ab, IBV_QPS_ERR);
    expect_state(&ba, IBV_QPS_ERR);
}

/* Eight reads under way at a responder that takes one: it may be quick enough, or refuse one. */
static void more_reads_than_the_responder_takes(void **state)
{
    struct setting setting = usual;
    bool refused = false;
    struct ibv_wc wc;

    (void)state;
    setting.reads_out = 8;
    setting.reads_taken = 1;
    connect_links(&ab, &ba, &setting);
    world_misuse();
    for (uint32_t i = 0; i < 8; i++)
        post_rdma(&ab, IBV_WR_RDMA_READ, sge_of(&a, i, 8), (uintptr_t)b.memory, b.mr->rkey);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(poll_one(&a, a.send_cq, &wc));
        assert_int_equal(wc.wr_id, i);
        if (refused)
            assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        else if (wc.status != IBV_WC_SUCCESS)
            assert_int_equal(wc.status, IBV_WC_REM_INV_REQ_ERR);
        refused |= wc.status != IBV_WC_SUCCESS;
    }
    assert_true(refused || world_may(QUIRK_READS_UNCOUNTED));
}

static const struct CMUnitTest tests[] = {
    BEHAVIOUR(write_with_wrong_key),
    BEHAVIOUR(read_with_wrong_key),
    BEHAVIOUR(write_past_the_end),
    BEHAVIOUR(read_past_the_end),
    BEHAVIOUR(write_before_the_start),
    BEHAVIOUR(write_without_the_right),
    BEHAVIOUR(read_without_the_right),
    BEHAVIOUR(write_with_a_dead_key),
    BEHAVIOUR(write_with_the_key_of_another_pd),
    BEHAVIOUR(write_that_the_queue_pair_forbids),
    BEHAVIOUR(read_that_the_queue_pair_forbids),
    BEHAVIOUR(atomic_without_the_right),
    BEHAVIOUR(unsignaled_failure_is_told),
    BEHAVIOUR(requests_around_a_denied_one),
    BEHAVIOUR(send_with_wrong_key),
    BEHAVIOUR(send_past_the_end),
    BEHAVIOUR(read_into_memory_that_may_not_be_written),
    BEHAVIOUR(receive_with_wrong_key),
    BEHAVIOUR(send_longer_than_the_receive),
    BEHAVIOUR(no_receive_and_no_retry),
    BEHAVIOUR(no_receive_after_retries),
    BEHAVIOUR(seven_retries_wait_for_a_receive),
    BEHAVIOUR(waiting_costs_no_retries),
    BEHAVIOUR(peer_destroyed_its_queue_pair),
    BEHAVIOUR(peer_is_in_error),
    BEHAVIOUR(seven_retries_come_to_an_end),
    BEHAVIOUR(idle_queue_pair_stays),
    BEHAVIOUR(read_at_a_responder_that_takes_none),
    BEHAVIOUR(more_reads_than_the_responder_takes),
};

const struct behaviours behaviours_fault = BEHAVIOURS(tests);
