/* SPDX-License-Identifier: BSD-3-Clause */
/* Each fault the fabric can inject does what it says, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum { ALWAYS = 1000000, HALF = 500000 };

static struct rig a, b;
static struct link ab, ba;

static void pair_open(uint64_t seed, const struct fabric_config *config, bool has_srq)
{
    fabric_create(seed, NULL);
    rig_open(&a, NULL, has_srq);
    rig_open(&b, NULL, has_srq);
    rig_connect(&ab, &a, &ba, &b);
    if (config)
        *fabric_config() = *config;
}

static void asyncs_drop(struct rig *rig)
{
    struct ibv_async_event event;
    fabric_enter(rig->rank);
    while (ibv_get_async_event(rig->context, &event) == 0)
        ibv_ack_async_event(&event);
}

static void pair_close(void)
{
    *fabric_config() = (struct fabric_config){0};
    asyncs_drop(&a);
    asyncs_drop(&b);
    rig_hangup(&ab, &ba);
    rig_close(&a);
    rig_close(&b);
    assert_int_equal(fabric_destroy(), 0);
}

/* Where one side is gone: without a goodbye. */
static void pair_drop(void)
{
    asyncs_drop(&a);
    rig_end(&ab, &ba);
}

static uint64_t counted(size_t offset)
{
    struct fabric_counters counters;
    fabric_counters(&counters);
    return *(uint64_t *)((char *)&counters + offset);
}

#define COUNT(field) counted(offsetof(struct fabric_counters, field))

/* ---- the data path ---- */

static void lost_packets_are_sent_again_once_each(void **state)
{
    (void)state;
    const struct fabric_config config = {.drop_ppm = HALF};
    pair_open(3, &config, true);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(rig_recv(&ba, 64 * i, 64), 0);
        a.memory[64 * i] = (unsigned char)i;
        assert_int_equal(rig_send(&ab, 64 * i, 8, IBV_SEND_SIGNALED), 0);
        struct ibv_wc wc;
        if (!rig_poll(&a, &wc) || wc.status != IBV_WC_SUCCESS)
            break; /* four losses in a row exceed this QP's retries */
        rig_poll_status(&b, IBV_WC_SUCCESS, 64 * i);
        assert_int_equal(b.memory[64 * i], i);
    }
    assert_true(COUNT(retries) > 0);
    struct ibv_wc wc;
    fabric_enter(b.rank);
    assert_int_equal(ibv_poll_cq(b.cq, 1, &wc), 0); /* nothing twice */
    pair_close();
}

static void receiver_seems_not_ready(void **state)
{
    (void)state;
    const struct fabric_config config = {.rnr_ppm = HALF};
    pair_open(5, &config, true);
    uint32_t sent = 0;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    for (; sent < 20 && wc.status == IBV_WC_SUCCESS; sent++) {
        assert_int_equal(rig_recv(&ba, 0, 64), 0);
        assert_int_equal(rig_send(&ab, 0, 8, IBV_SEND_SIGNALED), 0);
        assert_true(rig_poll(&a, &wc));
        if (wc.status == IBV_WC_SUCCESS)
            rig_poll_status(&b, IBV_WC_SUCCESS, 0);
        else
            assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
    }
    assert_true(COUNT(rnr_naks) > 0);
    pair_close();
}

/* Over some seeds both happen: the message came, and it did not. The sender cannot tell. */
static void given_up_message_may_have_arrived(void **state)
{
    (void)state;
    int arrived = 0, runs = 20;
    for (int seed = 1; seed <= runs; seed++) {
        const struct fabric_config config = {.retry_exc_ppm = ALWAYS};
        pair_open((uint64_t)seed, &config, true);
        assert_int_equal(rig_recv(&ba, 0, 64), 0);
        assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
        rig_poll_status(&a, IBV_WC_RETRY_EXC_ERR, 0);
        struct ibv_wc wc;
        fabric_enter(b.rank);
        arrived += ibv_poll_cq(b.cq, 1, &wc);
        pair_close();
    }
    assert_in_range(arrived, 1, runs - 1);
}

static void fatal_error_has_an_event(void **state)
{
    (void)state;
    struct ibv_async_event event;
    pair_open(1, NULL, true);
    assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    fabric_qp_fail(ab.qp->qp_num);
    fabric_enter(a.rank);
    assert_int_equal(ibv_get_async_event(a.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
    ibv_ack_async_event(&event);
    rig_poll_status(&a, IBV_WC_WR_FLUSH_ERR, 0);
    pair_close();
}

/* The write that arrives when its sender has long got its buffer back and destroyed the QP. */
static void qp_to_error(struct link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    fabric_enter(link->rig->rank);
    assert_int_equal(ibv_modify_qp(link->qp, &attr, IBV_QP_STATE), 0);
}

static void late_receives_wait_for_another_modify(void **state)
{
    (void)state;
    struct ibv_wc wc;
    pair_open(1, &(struct fabric_config){.late_recvs_stay = true}, false);
    rig_recv(&ab, 1, 64);
    qp_to_error(&ab);
    rig_poll_status(&a, IBV_WC_WR_FLUSH_ERR, 1);
    rig_recv(&ab, 2, 64);
    rig_send(&ab, 3, 8, 0);
    rig_poll_status(&a, IBV_WC_WR_FLUSH_ERR, 3);
    assert_false(rig_poll(&a, &wc));
    qp_to_error(&ab);
    rig_poll_status(&a, IBV_WC_WR_FLUSH_ERR, 2);
    pair_close();
}

static void refusal_may_be_silent(void **state)
{
    (void)state;
    struct ibv_async_event event;
    pair_open(1, &(struct fabric_config){.no_error_event = true, .quiet = true}, false);
    b.mr->rkey ^= 0x100;
    rig_write(&ab, 0, &ba, 0, 8);
    b.mr->rkey ^= 0x100;
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 0);
    fabric_enter(b.rank);
    assert_int_equal(ibv_get_async_event(b.context, &event), -1);
    fabric_violations_clear();
    pair_close();
}

static void ghost_arrives_late(void **state)
{
    (void)state;
    const struct fabric_config config = {.ghost_ppm = ALWAYS, .ghost_delay_ns = 1000000};
    pair_open(2, &config, true);
    a.memory[0] = 77;
    assert_int_equal(rig_write(&ab, 0, &ba, 4096, 1), 0);
    fabric_enter(a.rank);
    assert_int_equal(ibv_destroy_qp(ab.qp), 0);
    ab.qp = NULL;
    a.memory[0] = 1; /* its own again */
    assert_int_equal(b.memory[4096], 0);
    rig_settle(2000000);
    assert_int_equal(b.memory[4096], 77);
    assert_int_equal(COUNT(ghosts), 1);
    pair_close();
}

/* Once the receiving QP is in error, nothing of the old connection lands any more. */
static void no_ghost_through_a_dead_qp(void **state)
{
    (void)state;
    const struct fabric_config config = {.ghost_ppm = ALWAYS, .ghost_delay_ns = 1000000};
    pair_open(2, &config, true);
    a.memory[0] = 77;
    assert_int_equal(rig_write(&ab, 0, &ba, 4096, 1), 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    fabric_enter(a.rank);
    assert_int_equal(ibv_modify_qp(ab.qp, &attr, IBV_QP_STATE), 0);
    fabric_enter(b.rank);
    assert_int_equal(ibv_modify_qp(ba.qp, &attr, IBV_QP_STATE), 0);
    rig_settle(2000000);
    assert_int_equal(b.memory[4096], 0);
    assert_int_equal(COUNT(ghosts), 0);
    pair_close();
}

static void failed_write_leaves_a_part(void **state)
{
    (void)state;
    const struct fabric_config config = {.partial_write_ppm = ALWAYS};
    pair_open(2, &config, true);
    memset(a.memory, 9, 1000);
    assert_int_equal(rig_write(&ab, 0, &ba, 4096, 1000), 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(ab.qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(b.memory[4096], 9);
    assert_int_equal(b.memory[4096 + 999], 0);
    rig_poll_status(&a, IBV_WC_WR_FLUSH_ERR, 0);
    pair_close();
}

static void acknowledgements_blocked_one_way(void **state)
{
    (void)state;
    pair_open(1, NULL, true);
    fabric_path_set(b.node, a.node, false);
    assert_int_equal(rig_recv(&ba, 0, 64), 0);
    assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    rig_poll_status(&a, IBV_WC_RETRY_EXC_ERR, 0);
    struct ibv_wc wc;
    assert_false(rig_poll(&b, &wc));
    fabric_path_set(b.node, a.node, true);
    pair_close();
}

/* ---- nodes and ranks ---- */

static void link_down_and_up(void **state)
{
    (void)state;
    struct ibv_async_event event;
    pair_open(1, NULL, true);
    fabric_link_set(b.node, false);
    fabric_enter(b.rank);
    assert_int_equal(ibv_get_async_event(b.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
    assert_int_equal(event.element.port_num, 1);
    ibv_ack_async_event(&event);
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(b.context, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_DOWN);
    assert_int_equal(rig_recv(&ba, 0, 64), 0);
    assert_int_equal(rig_send(&ab, 0, 8, IBV_SEND_SIGNALED), 0);
    rig_settle(5000000); /* less than the QP's retries last */
    fabric_link_set(b.node, true);
    fabric_enter(b.rank);
    assert_int_equal(ibv_get_async_event(b.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_PORT_ACTIVE);
    ibv_ack_async_event(&event);
    rig_poll_status(&a, IBV_WC_SUCCESS, 0);
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    pair_close();
}

static void link_down_fails_fast_where_the_device_does(void **state)
{
    (void)state;
    const struct fabric_config config = {.flap_is_fast_fail = true};
    pair_open(1, &config, true);
    fabric_link_set(a.node, false);
    assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    rig_poll_status(&a, IBV_WC_LOC_QP_OP_ERR, 0);
    assert_true(fabric_now_ns() < 1000000);
    fabric_link_set(a.node, true);
    pair_close();
}

static void device_removed(void **state)
{
    (void)state;
    struct ibv_async_event event;
    pair_open(1, NULL, true);
    assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    fabric_device_remove(a.node);
    fabric_enter(a.rank);
    assert_int_equal(ibv_get_async_event(a.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    rig_expect(&a, RDMA_CM_EVENT_DEVICE_REMOVAL); /* the connection's and the listener's */
    rig_expect(&a, RDMA_CM_EVENT_DEVICE_REMOVAL);
    rig_poll_status(&a, IBV_WC_WR_FLUSH_ERR, 0);
    fabric_enter(a.rank);
    assert_null(ibv_reg_mr(a.pd, a.memory, 64, 0));
    assert_int_equal(errno, EIO);
    pair_drop();
}

static void powered_off_node_is_silent(void **state)
{
    (void)state;
    pair_open(1, NULL, true);
    fabric_node_power_off(b.node);
    assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    rig_poll_status(&a, IBV_WC_RETRY_EXC_ERR, 0);
    fabric_enter(a.rank);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    struct rdma_cm_event *event = rig_event(&a, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(event->status, -ETIMEDOUT);
    rdma_ack_cm_event(event);
    pair_drop();
}

static void killed_rank_hangs_up_and_leaks_nothing(void **state)
{
    (void)state;
    pair_open(1, NULL, true);
    assert_int_equal(rig_recv(&ba, 0, 64), 0);
    fabric_rank_kill(b.rank);
    rig_expect(&a, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    rig_poll_status(&a, IBV_WC_RETRY_EXC_ERR, 0);
    fabric_enter(b.rank);
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
    assert_int_equal(ibv_post_srq_recv(b.srq, &wr, &bad), EIO);
    pair_drop();
}

/* What becomes of a send (else a put) to a rank that has just been killed. */
static enum ibv_wc_status status_from_the_dead(uint64_t seed, bool sends)
{
    struct ibv_wc wc;

    pair_open(seed, NULL, true);
    assert_int_equal(rig_recv(&ba, 0, 64), 0);
    fabric_rank_kill(b.rank);
    if (sends)
        assert_int_equal(rig_send(&ab, 0, 8, 0), 0);
    else
        assert_int_equal(rig_write(&ab, 0, &ba, 0, 8), 0);
    assert_true(rig_poll(&a, &wc));
    rig_expect(&a, RDMA_CM_EVENT_DISCONNECTED);
    pair_drop();
    return wc.status;
}

/* The memory of a process goes before its queue pairs do. */
static void killed_rank_denies_until_it_is_gone(void **state)
{
    (void)state;
    int denied[2] = {0}, silent[2] = {0};
    for (uint64_t seed = 1; seed <= 40; seed++)
        for (int sends = 0; sends < 2; sends++) {
            enum ibv_wc_status status = status_from_the_dead(seed, sends);

            denied[sends] += status == (sends ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR);
            silent[sends] += status == IBV_WC_RETRY_EXC_ERR;
        }
    for (int sends = 0; sends < 2; sends++) {
        assert_true(denied[sends] > 0);
        assert_int_equal(denied[sends] + silent[sends], 40);
    }
}

/* On iWARP the stream ends with its process, whether or not that process knew it was connected. */
static void killed_rank_ends_its_streams(void **state)
{
    (void)state;
    const struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};
    for (int known = 0; known < 2; known++) {
        fabric_create(1, NULL);
        rig_open(&a, &iwarp, true);
        rig_open(&b, &iwarp, true);
        rig_resolve(&ab, &a, &b.addr);
        rig_qp(&ab);
        assert_int_equal(rig_request(&ab, "x", 1), 0);
        struct rdma_cm_event *event = rig_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
        ba = (struct link){.rig = &b, .id = event->id};
        rdma_ack_cm_event(event);
        rig_qp(&ba);
        struct rdma_conn_param param = {.qp_num = ba.qp->qp_num};
        assert_int_equal(rdma_accept(ba.id, &param), 0);
        rig_expect(&b, RDMA_CM_EVENT_ESTABLISHED);
        if (known)
            rig_expect(&a, RDMA_CM_EVENT_ESTABLISHED);
        else
            rig_settle(1000000);
        fabric_rank_kill(a.rank);
        rig_expect(&b, RDMA_CM_EVENT_DISCONNECTED);
        rig_destroy(&ab);
        rig_destroy(&ba);
        rig_close(&b);
        rig_close(&a);
        assert_int_equal(fabric_destroy(), 0);
    }
}

/* ---- the connection manager ---- */

static void lost_cm_messages_cost_time(void **state)
{
    (void)state;
    const struct fabric_config config = {.cm_lost_ppm = 300000, .cm_timeout_ns = 1000000};
    int late = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        fabric_create(seed, &config);
        rig_open(&a, NULL, true);
        rig_open(&b, NULL, true);
        rig_connect(&ab, &a, &ba, &b);
        late += fabric_now_ns() > 1000000;
        pair_close();
    }
    assert_in_range(late, 1, 10);
}

static void cm_gives_up_after_its_retries(void **state)
{
    (void)state;
    const struct fabric_config config = {
        .cm_lost_ppm = ALWAYS, .cm_timeout_ns = 1000000, .cm_retries = 3};
    fabric_create(1, &config);
    rig_open(&a, NULL, true);
    rig_open(&b, NULL, true);
    rig_resolve(&ab, &a, &b.addr);
    rig_qp(&ab);
    uint64_t before_ns = fabric_now_ns();
    assert_int_equal(rig_request(&ab, NULL, 0), 0);
    struct rdma_cm_event *event = rig_event(&a, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(event->status, -ETIMEDOUT);
    rdma_ack_cm_event(event);
    assert_true(fabric_now_ns() - before_ns >= 3000000);
    rig_destroy(&ab);
    rig_close(&a);
    rig_close(&b);
    assert_int_equal(fabric_destroy(), 0);
}

static void events_come_twice(void **state)
{
    (void)state;
    const struct fabric_config config = {.cm_repeat_ppm = ALWAYS};
    pair_open(1, &config, true);
    fabric_enter(a.rank);
    assert_int_equal(rdma_disconnect(ab.id), 0);
    rig_expect(&b, RDMA_CM_EVENT_DISCONNECTED);
    rig_expect(&b, RDMA_CM_EVENT_DISCONNECTED);
    rig_end(&ab, &ba);
}

/* A request that the network repeats comes again once the first was turned down. */
static void rejected_request_comes_again(void **state)
{
    (void)state;
    const struct fabric_config config = {.cm_repeat_ppm = ALWAYS};
    fabric_create(1, &config);
    rig_open(&a, NULL, true);
    rig_open(&b, NULL, true);
    rig_resolve(&ab, &a, &b.addr);
    rig_qp(&ab);
    assert_int_equal(rig_request(&ab, NULL, 0), 0);
    for (int i = 0; i < 2; i++) {
        struct rdma_cm_event *event = rig_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
        struct rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        assert_int_equal(rdma_reject(id, NULL, 0), 0);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    rig_expect(&a, RDMA_CM_EVENT_REJECTED);
    rig_expect(&a, RDMA_CM_EVENT_REJECTED);
    rig_destroy(&ab);
    rig_close(&a);
    rig_close(&b);
    assert_int_equal(fabric_destroy(), 0);
}

static void network_rejects_and_misdirects(void **state)
{
    (void)state;
    const struct fabric_config rejects = {.cm_reject_ppm = ALWAYS};
    fabric_create(1, &rejects);
    rig_open(&a, NULL, true);
    rig_open(&b, NULL, true);
    rig_resolve(&ab, &a, &b.addr);
    rig_qp(&ab);
    assert_int_equal(rig_request(&ab, NULL, 0), 0);
    struct rdma_cm_event *event = rig_event(&a, RDMA_CM_EVENT_REJECTED);
    assert_true(event->status > 0);
    rdma_ack_cm_event(event);
    rig_destroy(&ab);

    *fabric_config() = (struct fabric_config){.cm_addr_error_ppm = ALWAYS};
    struct rdma_cm_id *id;
    fabric_enter(a.rank);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&b.addr, 1000), 0);
    rig_expect(&a, RDMA_CM_EVENT_ADDR_ERROR);
    fabric_config()->cm_addr_error_ppm = 0;
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&b.addr, 1000), 0);
    rig_expect(&a, RDMA_CM_EVENT_ADDR_RESOLVED);
    fabric_config()->cm_addr_error_ppm = ALWAYS;
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    rig_expect(&a, RDMA_CM_EVENT_ROUTE_ERROR);
    assert_int_equal(rdma_destroy_id(id), 0);
    rig_close(&a);
    rig_close(&b);
    assert_int_equal(fabric_destroy(), 0);
}

static void soft_iwarp_is_refused_in_the_call(void **state)
{
    (void)state;
    const struct fabric_node_attr siw = {.transport = FABRIC_IWARP, .soft_iwarp = true};
    struct sockaddr_storage nobody;
    fabric_create(1, NULL);
    rig_open(&a, &siw, true);
    rig_open(&b, &siw, true);
    nobody = b.addr;
    ((struct sockaddr_in *)&nobody)->sin_port ^= 1;
    rig_resolve(&ab, &a, &nobody);
    rig_qp(&ab);
    assert_int_equal(rig_request(&ab, NULL, 0), -1);
    assert_int_equal(errno, ECONNREFUSED);
    rig_destroy(&ab);
    rig_close(&a);
    rig_close(&b);
    assert_int_equal(fabric_destroy(), 0);
}

/* The first message overtakes RTU: the passive side learns of the connection by COMM_EST. */
static void data_before_established(void **state)
{
    (void)state;
    const struct fabric_config config = {.early_data_ppm = ALWAYS, .cm_jitter_ns = 1000000};
    fabric_create(1, &config);
    rig_open(&a, NULL, true);
    rig_open(&b, NULL, true);
    rig_resolve(&ab, &a, &b.addr);
    rig_qp(&ab);
    assert_int_equal(rig_request(&ab, NULL, 0), 0);
    struct rdma_cm_event *event = rig_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
    memset(&ba, 0, sizeof(ba));
    ba.rig = &b;
    ba.id = event->id;
    rdma_ack_cm_event(event);
    rig_qp(&ba);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    int mask;
    assert_int_equal(rdma_init_qp_attr(ba.id, &attr, &mask), 0);
    assert_int_equal(ibv_modify_qp(ba.qp, &attr, mask), 0);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(rdma_init_qp_attr(ba.id, &attr, &mask), 0);
    assert_int_equal(ibv_modify_qp(ba.qp, &attr, mask), 0);
    struct rdma_conn_param param = {
        .responder_resources = 1, .initiator_depth = 1, .qp_num = ba.qp->qp_num};
    assert_int_equal(rdma_accept(ba.id, &param), 0);
    assert_int_equal(rig_recv(&ba, 0, 64), 0);
    rig_expect(&a, RDMA_CM_EVENT_CONNECT_RESPONSE);
    rig_to_rts(&ab);
    assert_int_equal(rdma_establish(ab.id), 0);
    assert_int_equal(rig_send(&ab, 0, 8, IBV_SEND_SIGNALED), 0);
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    fabric_enter(b.rank);
    struct ibv_async_event async;
    assert_int_equal(rdma_get_cm_event(b.cm, &event), -1);
    assert_int_equal(ibv_get_async_event(b.context, &async), 0);
    assert_int_equal(async.event_type, IBV_EVENT_COMM_EST);
    ibv_ack_async_event(&async);
    assert_int_equal(rdma_notify(ba.id, IBV_EVENT_COMM_EST), 0);
    rig_expect(&b, RDMA_CM_EVENT_ESTABLISHED);
    rig_poll_status(&a, IBV_WC_SUCCESS, 0);
    rig_settle(10000000); /* RTU comes and changes nothing */
    pair_close();
}

static void full_backlog_delays_requests(void **state)
{
    (void)state;
    const struct fabric_config config = {.cm_timeout_ns = 1000000};
    fabric_create(1, &config);
    rig_open(&a, NULL, true);
    rig_open(&b, NULL, true);
    struct link many[18];
    for (int i = 0; i < 18; i++) { /* the rig listens with a backlog of 16 */
        rig_resolve(&many[i], &a, &b.addr);
        rig_qp(&many[i]);
        assert_int_equal(rig_request(&many[i], NULL, 0), 0);
    }
    rig_settle(500000);
    for (int i = 0; i < 18; i++) {
        if (i == 16)
            assert_true(fabric_now_ns() < 1000000);
        struct rdma_cm_event *event = rig_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
        struct rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        assert_int_equal(rdma_reject(id, NULL, 0), 0);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    assert_true(fabric_now_ns() > 1000000);
    for (int i = 0; i < 18; i++)
        rig_expect(&a, RDMA_CM_EVENT_REJECTED);
    for (int i = 0; i < 18; i++)
        rig_destroy(&many[i]);
    rig_close(&a);
    rig_close(&b);
    assert_int_equal(fabric_destroy(), 0);
}

/* An active side that goes away while its request is answered: the other is told or times out. */
static void abandoned_request(void **state)
{
    (void)state;
    for (int when = 0; when < 3; when++) {
        fabric_create(1, NULL);
        rig_open(&a, NULL, true);
        rig_open(&b, NULL, true);
        rig_resolve(&ab, &a, &b.addr);
        rig_qp(&ab);
        assert_int_equal(rig_request(&ab, NULL, 0), 0);
        if (when == 0)
            rig_destroy(&ab); /* the request is on its way */
        struct rdma_cm_event *event = rig_event(&b, RDMA_CM_EVENT_CONNECT_REQUEST);
        struct rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        if (when == 1)
            rig_destroy(&ab);
        rig_settle(100000);
        struct rdma_conn_param param = {.qp_num = 1};
        fabric_enter(b.rank);
        int rc = rdma_accept(id, &param);
        assert_int_equal(rc, when == 2 ? 0 : -1); /* the hang-up was there before the accept */
        if (when == 2)
            rig_destroy(&ab);
        if (when == 2) {
            event = rig_event(&b, RDMA_CM_EVENT_REJECTED);
            assert_int_equal(event->status, 4);
            rdma_ack_cm_event(event);
        }
        fabric_enter(b.rank);
        assert_int_equal(rdma_destroy_id(id), 0);
        rig_close(&a);
        rig_close(&b);
        assert_int_equal(fabric_destroy(), 0);
    }
}

/* ---- failing calls ---- */

static void the_nth_call_fails(void **state)
{
    (void)state;
    fabric_create(1, NULL);
    rig_open(&a, NULL, true);
    fabric_fail_arm(FABRIC_FAIL_VERBS, 2);
    struct ibv_mr *first = ibv_reg_mr(a.pd, a.memory, 64, 0);
    assert_non_null(first);
    assert_false(fabric_fail_fired());
    assert_null(ibv_reg_mr(a.pd, a.memory, 64, 0));
    assert_int_equal(errno, ENOMEM);
    assert_true(fabric_fail_fired());
    assert_string_equal(fabric_fail_what(), "ibv_reg_mr");
    struct ibv_mr *third = ibv_reg_mr(a.pd, a.memory, 64, 0);
    assert_non_null(third);
    assert_int_equal(fabric_fail_disarm(), 3);
    struct rdma_cm_id *id;
    fabric_fail_arm(FABRIC_FAIL_CM, 1);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), -1);
    assert_int_equal(fabric_fail_disarm(), 1);
    assert_int_equal(ibv_dereg_mr(first), 0);
    assert_int_equal(ibv_dereg_mr(third), 0);
    rig_close(&a);
    assert_int_equal(fabric_destroy(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_packets_are_sent_again_once_each),
        cmocka_unit_test(receiver_seems_not_ready),
        cmocka_unit_test(given_up_message_may_have_arrived),
        cmocka_unit_test(fatal_error_has_an_event),
        cmocka_unit_test(late_receives_wait_for_another_modify),
        cmocka_unit_test(refusal_may_be_silent),
        cmocka_unit_test(ghost_arrives_late),
        cmocka_unit_test(no_ghost_through_a_dead_qp),
        cmocka_unit_test(failed_write_leaves_a_part),
        cmocka_unit_test(acknowledgements_blocked_one_way),
        cmocka_unit_test(link_down_and_up),
        cmocka_unit_test(link_down_fails_fast_where_the_device_does),
        cmocka_unit_test(device_removed),
        cmocka_unit_test(powered_off_node_is_silent),
        cmocka_unit_test(killed_rank_hangs_up_and_leaks_nothing),
        cmocka_unit_test(killed_rank_denies_until_it_is_gone),
        cmocka_unit_test(killed_rank_ends_its_streams),
        cmocka_unit_test(lost_cm_messages_cost_time),
        cmocka_unit_test(cm_gives_up_after_its_retries),
        cmocka_unit_test(events_come_twice),
        cmocka_unit_test(rejected_request_comes_again),
        cmocka_unit_test(network_rejects_and_misdirects),
        cmocka_unit_test(soft_iwarp_is_refused_in_the_call),
        cmocka_unit_test(data_before_established),
        cmocka_unit_test(full_backlog_delays_requests),
        cmocka_unit_test(abandoned_request),
        cmocka_unit_test(the_nth_call_fails),
    };
    return cmocka_run_group_tests_name("fabric faults", tests, NULL, NULL);
}
