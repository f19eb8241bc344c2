/* SPDX-License-Identifier: BSD-3-Clause */
/* Each misuse of the verbs must be reported: here every one is committed on purpose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct rig a, b;
static struct link ab, ba;

static int open_pair(void **state)
{
    (void)state;
    struct fabric_config config = {.quiet = true};
    fabric_create(1, &config);
    rig_open(&a, NULL, true);
    rig_open(&b, NULL, true);
    rig_connect(&ab, &a, &ba, &b);
    return 0;
}

/* After the misuse was reported and forgotten, the rest must be in order. */
static int close_pair(void **state)
{
    (void)state;
    fabric_violations_clear();
    struct ibv_wc wc;
    while (rig_poll(&a, &wc) || rig_poll(&b, &wc))
        ;
    struct ibv_async_event event;
    for (struct rig *rig = &a; rig; rig = rig == &a ? &b : NULL) {
        fabric_enter(rig->rank);
        while (ibv_get_async_event(rig->context, &event) == 0)
            ibv_ack_async_event(&event);
    }
    rig_hangup(&ab, &ba);
    rig_close(&a);
    rig_close(&b);
    if (fabric_violations())
        print_message("%s\n", fabric_violation_text(0));
    return fabric_destroy();
}

static void assert_reported(const char *part)
{
    assert_int_equal(fabric_violations(), 1);
    if (!strstr(fabric_violation_text(0), part))
        fail_msg("\"%s\" lacks \"%s\"", fabric_violation_text(0), part);
}

static void send_buffer_changed_before_it_left(void **state)
{
    (void)state;
    rig_recv(&ba, 0, 64);
    rig_send(&ab, 0, 32, IBV_SEND_SIGNALED);
    a.memory[31] = 1;
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    assert_true(fabric_violations() > 0);
    assert_non_null(strstr(fabric_violation_text(0), "changed"));
}

static void send_buffer_changed_before_the_completion_was_polled(void **state)
{
    (void)state;
    rig_recv(&ba, 0, 64);
    rig_send(&ab, 0, 32, IBV_SEND_SIGNALED);
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    rig_settle(100000);
    assert_int_equal(fabric_violations(), 0);
    a.memory[0] = 1;
    rig_poll_status(&a, IBV_WC_SUCCESS, 0);
    assert_reported("changed");
}

static void unsignaled_buffer_is_not_free_before_a_later_completion(void **state)
{
    (void)state;
    rig_recv(&ba, 0, 64);
    rig_recv(&ba, 64, 64);
    rig_send(&ab, 0, 32, 0);
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    a.memory[0] = 1; /* the message has arrived, but this side was not told */
    rig_send(&ab, 64, 32, IBV_SEND_SIGNALED);
    rig_poll_status(&a, IBV_WC_SUCCESS, 64);
    assert_reported("changed");
}

static void receive_buffer_changed_while_posted(void **state)
{
    (void)state;
    rig_recv(&ba, 0, 64);
    b.memory[3] = 1;
    rig_send(&ab, 0, 32, IBV_SEND_SIGNALED);
    rig_poll_status(&b, IBV_WC_SUCCESS, 0);
    assert_reported("receive buffer was changed");
}

static void post_before_rts(void **state)
{
    (void)state;
    struct link fresh = {.rig = &a};
    rig_qp(&fresh);
    assert_int_equal(rig_send(&fresh, 0, 8, 0), EINVAL);
    assert_reported("before RTS");
    assert_int_equal(ibv_destroy_qp(fresh.qp), 0);
}

static void receive_posted_to_a_reset_qp(void **state)
{
    (void)state;
    struct ibv_srq *srq = a.srq;
    a.srq = NULL;
    struct link fresh = {.rig = &a};
    rig_qp(&fresh);
    assert_int_equal(rig_recv(&fresh, 0, 8), EINVAL);
    assert_reported("reset state");
    assert_int_equal(ibv_destroy_qp(fresh.qp), 0);
    a.srq = srq;
}

static void inline_limit(void **state)
{
    (void)state;
    assert_int_equal(rig_send(&ab, 0, RIG_INLINE + 1, IBV_SEND_INLINE), EINVAL);
    assert_reported("more inline bytes");
}

static void longer_than_the_receive(void **state)
{
    (void)state;
    rig_recv(&ba, 0, 16);
    rig_send(&ab, 0, 17, 0);
    rig_poll_status(&a, IBV_WC_REM_INV_REQ_ERR, 0);
    rig_poll_status(&b, IBV_WC_LOC_LEN_ERR, 0);
    assert_reported("meets a receive of 16");
}

static void write_with(uint32_t rkey, uint64_t remote, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)a.memory, length, a.mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 1,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    fabric_enter(a.rank);
    assert_int_equal(ibv_post_send(ab.qp, &wr, &bad), 0);
}

static void expect_access_event(void)
{
    struct ibv_async_event event;
    fabric_enter(b.rank);
    assert_int_equal(ibv_get_async_event(b.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    assert_ptr_equal(event.element.qp, ba.qp);
    ibv_ack_async_event(&event);
}

static void remote_key_out_of_bounds(void **state)
{
    (void)state;
    write_with(b.mr->rkey, (uintptr_t)b.memory + RIG_BYTES - 7, 8);
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 1);
    assert_reported("outside its region");
    expect_access_event();
}

static void lkey_used_as_rkey(void **state)
{
    (void)state;
    write_with(b.mr->lkey, (uintptr_t)b.memory, 8);
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 1);
    assert_reported("no such key");
    expect_access_event();
}

static void remote_key_after_deregistration(void **state)
{
    (void)state;
    fabric_enter(b.rank);
    struct ibv_mr *mr =
        ibv_reg_mr(b.pd, b.memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    uint32_t rkey = mr->rkey;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    write_with(rkey, (uintptr_t)b.memory, 8);
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 1);
    assert_reported("was deregistered");
    expect_access_event();
}

static void region_without_the_right(void **state)
{
    (void)state;
    fabric_enter(b.rank);
    struct ibv_mr *mr = ibv_reg_mr(b.pd, b.memory, 4096, IBV_ACCESS_REMOTE_READ);
    write_with(mr->rkey, (uintptr_t)b.memory, 8);
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 1);
    assert_reported("does not allow");
    expect_access_event();
    fabric_enter(b.rank);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Refused, but who garbles what he says has asked for it. */
static void no_misuse_of_who_garbles(void **state)
{
    (void)state;
    fabric_node_garble(b.node, 1);
    write_with(b.mr->lkey, (uintptr_t)b.memory, 8);
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 1);
    assert_int_equal(fabric_violations(), 0);
    expect_access_event();
}

static void source_of_a_read_deregistered_too_early(void **state)
{
    (void)state;
    fabric_enter(b.rank);
    struct ibv_mr *mr = ibv_reg_mr(b.pd, b.memory, 4096, IBV_ACCESS_REMOTE_READ);
    struct ibv_mr *whole = b.mr;
    b.mr = mr;
    rig_read(&ab, 0, &ba, 0, 64);
    b.mr = whole;
    rig_settle(1500); /* the request has arrived, the answer has not */
    fabric_enter(b.rank);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    rig_poll_status(&a, IBV_WC_REM_ACCESS_ERR, 0);
    assert_reported("while it was read");
}

static void id_without_a_device(void **state)
{
    (void)state;
    struct rdma_conn_param param = {.qp_num = 1};
    struct rdma_cm_id *id;
    fabric_enter(a.rank);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_route(id, 1000), -1);
    assert_reported("rdma_resolve_route would crash");
    fabric_violations_clear();
    assert_int_equal(rdma_connect(id, &param), -1);
    assert_reported("rdma_connect would crash");
    fabric_violations_clear();
    assert_int_equal(rdma_accept(id, &param), -1);
    assert_reported("rdma_accept would crash");
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void operation_the_qp_forbids(void **state)
{
    (void)state;
    struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
    struct ibv_async_event event;
    fabric_enter(b.rank);
    assert_int_equal(ibv_modify_qp(ba.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
    write_with(b.mr->rkey, (uintptr_t)b.memory, 8);
    rig_poll_status(&a, IBV_WC_REM_INV_REQ_ERR, 1);
    assert_reported("access flags");
    fabric_enter(b.rank);
    assert_int_equal(ibv_get_async_event(b.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
    ibv_ack_async_event(&event);
}

static void local_key_after_deregistration(void **state)
{
    (void)state;
    fabric_enter(a.rank);
    struct ibv_mr *mr = ibv_reg_mr(a.pd, a.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {(uintptr_t)a.memory, 8, mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    assert_int_equal(ibv_post_send(ab.qp, &wr, &bad), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_reported("posted work request entries still name");
    fabric_violations_clear();
    rig_poll_status(&a, IBV_WC_LOC_PROT_ERR, 1);
    assert_reported("was deregistered");
}

static void cq_overrun(void **state)
{
    (void)state;
    fabric_enter(a.rank);
    struct ibv_cq *cq = ibv_create_cq(a.context, 4, NULL, NULL, 0), *usual = a.cq;
    struct link c, d;
    a.cq = cq;
    rig_connect(&c, &a, &d, &b);
    a.cq = usual;
    for (int i = 0; i < 5; i++)
        rig_write(&c, 0, &d, 0, 8);
    rig_settle(100000);
    assert_reported("overruns");
    struct ibv_async_event event;
    fabric_enter(a.rank);
    assert_int_equal(ibv_get_async_event(a.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, cq);
    ibv_ack_async_event(&event);
    rig_hangup(&c, &d);
    fabric_enter(a.rank);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void too_many_reads_for_the_responder(void **state)
{
    (void)state;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    struct ibv_qp_init_attr init;
    /* Both sides again by hand: 4 reads asked at once, 1 taken. */
    struct ibv_qp_attr mine, his;
    fabric_enter(a.rank);
    assert_int_equal(ibv_query_qp(ab.qp, &mine, 0, &init), 0);
    fabric_enter(b.rank);
    assert_int_equal(ibv_query_qp(ba.qp, &his, 0, &init), 0);
    assert_int_equal(ibv_modify_qp(ba.qp, &attr, IBV_QP_STATE), 0);
    his.qp_state = IBV_QPS_INIT;
    his.pkey_index = 0;
    assert_int_equal(
        ibv_modify_qp(ba.qp, &his,
                      IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
        0);
    his.qp_state = IBV_QPS_RTR;
    his.max_dest_rd_atomic = 1;
    assert_int_equal(ibv_modify_qp(ba.qp, &his,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    for (int i = 0; i < 4; i++)
        rig_read(&ab, 0, &ba, 0, 64);
    rig_settle(100000);
    assert_reported("reads outstanding");
    struct ibv_async_event event;
    fabric_enter(b.rank);
    while (ibv_get_async_event(b.context, &event) == 0)
        ibv_ack_async_event(&event);
}

static void skipped_state(void **state)
{
    (void)state;
    struct link fresh = {.rig = &a};
    rig_qp(&fresh);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    assert_int_equal(ibv_modify_qp(fresh.qp, &attr, IBV_QP_STATE), EINVAL);
    assert_reported("cannot go from state 0 to 3");
    fabric_violations_clear();
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
    assert_int_equal(ibv_modify_qp(fresh.qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    assert_reported("attributes missing");
    assert_int_equal(ibv_destroy_qp(fresh.qp), 0);
}

static void destroying_what_is_in_use(void **state)
{
    (void)state;
    fabric_enter(a.rank);
    assert_int_equal(ibv_destroy_cq(a.cq), EBUSY);
    assert_reported("QPs still use CQ");
    fabric_violations_clear();
    assert_int_equal(ibv_destroy_srq(a.srq), EBUSY);
    assert_reported("QPs still use SRQ");
    fabric_violations_clear();
    assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
    assert_reported("objects still use PD");
    fabric_violations_clear();
    assert_int_equal(ibv_destroy_comp_channel(a.channel), EBUSY);
    assert_reported("CQs still use channel");
}

static void destroyed_twice(void **state)
{
    (void)state;
    struct link fresh = {.rig = &a};
    rig_qp(&fresh);
    assert_int_equal(ibv_destroy_qp(fresh.qp), 0);
    assert_int_equal(ibv_destroy_qp(fresh.qp), EINVAL);
    assert_reported("was destroyed before");
}

static void used_by_another_rank(void **state)
{
    (void)state;
    struct ibv_wc wc;
    fabric_enter(b.rank);
    assert_int_equal(ibv_poll_cq(a.cq, 1, &wc), -1);
    assert_reported("belongs to rank 0, called by rank 1");
}

static void unacknowledged_cq_event(void **state)
{
    (void)state;
    fabric_enter(a.rank);
    struct ibv_cq *cq = ibv_create_cq(a.context, 4, NULL, a.channel, 0), *usual = a.cq, *got;
    void *context;
    struct link c, d;
    a.cq = cq;
    rig_connect(&c, &a, &d, &b);
    a.cq = usual;
    fabric_enter(a.rank);
    ibv_req_notify_cq(cq, 0);
    rig_write(&c, 0, &d, 0, 8);
    rig_settle(100000);
    fabric_enter(a.rank);
    assert_int_equal(ibv_get_cq_event(a.channel, &got, &context), 0);
    rig_hangup(&c, &d);
    fabric_enter(a.rank);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_reported("would hang: 1 events of CQ");
}

static void unacknowledged_async_event(void **state)
{
    (void)state;
    struct link c, d;
    rig_connect(&c, &a, &d, &b);
    fabric_qp_fail(c.qp->qp_num);
    struct ibv_async_event event;
    fabric_enter(a.rank);
    assert_int_equal(ibv_get_async_event(a.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
    rig_hangup(&c, &d);
    assert_reported("would hang: an async event of QP");
}

static void unacknowledged_cm_event(void **state)
{
    (void)state;
    struct rdma_cm_id *id;
    fabric_enter(a.rank);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&b.addr, 1000), 0);
    struct rdma_cm_event *event = rig_event(&a, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_reported("would hang: 1 events of id");
    rdma_ack_cm_event(event);
}

static void event_acknowledged_twice(void **state)
{
    (void)state;
    struct rdma_cm_id *id;
    fabric_enter(a.rank);
    assert_int_equal(rdma_create_id(a.cm, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&b.addr, 1000), 0);
    struct rdma_cm_event *event = rig_event(&a, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_ack_cm_event(event), -1);
    assert_reported("CM event");
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void blocking_read_of_an_empty_channel(void **state)
{
    (void)state;
    struct ibv_async_event event;
    fabric_enter(a.rank);
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    assert_int_equal(ibv_get_async_event(context, &event), -1);
    assert_reported("would block");
    assert_int_equal(ibv_close_device(context), 0);
}

static void leaks_are_found(void **state)
{
    (void)state;
    struct fabric_config config = {.quiet = true};
    fabric_create(1, &config);
    rig_open(&a, NULL, true);
    free(a.memory);
    /* listener, CM channel, MR, SRQ, CQ, completion channel, PD, context */
    assert_int_equal(fabric_destroy(), 8);
}

static void iwarp_sink_and_order(void **state)
{
    (void)state;
    struct fabric_config config = {.quiet = true};
    struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};
    fabric_create(1, &config);
    rig_open(&a, &iwarp, true);
    rig_open(&b, &iwarp, true);
    rig_connect(&ab, &a, &ba, &b);
    rig_recv(&ab, 8192, 64);
    rig_send(&ba, 0, 8, 0);
    assert_reported("accepting side sends before");
    fabric_violations_clear();
    rig_poll_status(&a, IBV_WC_SUCCESS, 8192);
    fabric_enter(a.rank);
    struct ibv_mr *whole = a.mr;
    a.mr = ibv_reg_mr(a.pd, a.memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    rig_read(&ab, 0, &ba, 0, 64);
    rig_poll_status(&a, IBV_WC_LOC_PROT_ERR, 0);
    assert_reported("does not allow this access");
    assert_int_equal(ibv_dereg_mr(a.mr), 0);
    a.mr = whole;
    fabric_violations_clear();
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND_WITH_IMM};
    assert_int_equal(ibv_post_send(ab.qp, &wr, &bad), EINVAL);
    assert_reported("does not have this opcode");
    fabric_violations_clear();
    rig_expect(&a, RDMA_CM_EVENT_DISCONNECTED);
    rig_expect(&b, RDMA_CM_EVENT_DISCONNECTED);
    rig_end(&ab, &ba);
}

#define WITH_PAIR(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PAIR(send_buffer_changed_before_it_left),
        WITH_PAIR(send_buffer_changed_before_the_completion_was_polled),
        WITH_PAIR(unsignaled_buffer_is_not_free_before_a_later_completion),
        WITH_PAIR(receive_buffer_changed_while_posted),
        WITH_PAIR(post_before_rts),
        WITH_PAIR(receive_posted_to_a_reset_qp),
        WITH_PAIR(inline_limit),
        WITH_PAIR(longer_than_the_receive),
        WITH_PAIR(remote_key_out_of_bounds),
        WITH_PAIR(lkey_used_as_rkey),
        WITH_PAIR(remote_key_after_deregistration),
        WITH_PAIR(region_without_the_right),
        WITH_PAIR(no_misuse_of_who_garbles),
        WITH_PAIR(source_of_a_read_deregistered_too_early),
        WITH_PAIR(id_without_a_device),
        WITH_PAIR(operation_the_qp_forbids),
        WITH_PAIR(local_key_after_deregistration),
        WITH_PAIR(cq_overrun),
        WITH_PAIR(too_many_reads_for_the_responder),
        WITH_PAIR(skipped_state),
        WITH_PAIR(destroying_what_is_in_use),
        WITH_PAIR(destroyed_twice),
        WITH_PAIR(used_by_another_rank),
        WITH_PAIR(unacknowledged_cq_event),
        WITH_PAIR(unacknowledged_async_event),
        WITH_PAIR(unacknowledged_cm_event),
        WITH_PAIR(event_acknowledged_twice),
        WITH_PAIR(blocking_read_of_an_empty_channel),
        cmocka_unit_test(leaks_are_found),
        cmocka_unit_test(iwarp_sink_and_order),
    };
    return cmocka_run_group_tests_name("fabric misuse", tests, NULL, NULL);
}
