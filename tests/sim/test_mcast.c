/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams to groups: who gets a copy and who does not, what is lost, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS = 4, GRH = 40, SLOT = 2048, MTU = 1024, ALWAYS = 1000000, HALF = 500000 };

static const struct fabric_node_attr roce, infiniband = {.transport = FABRIC_INFINIBAND},
                                           iwarp = {.transport = FABRIC_IWARP};

/* A rank with a queue pair for datagrams, and what it knows of the group. */
struct host {
    struct rig rig;
    struct link link; /* the queue pair alone */
    struct rdma_cm_id *id;
    struct ibv_ah_attr route;
    uint32_t qpn, qkey;
    struct ibv_ah *ah;
};

static struct host hosts[HOSTS];
static struct sockaddr_in group;

static struct sockaddr *group_addr(void)
{
    return (struct sockaddr *)&group;
}

static struct rdma_cm_id *udp_id(struct rig *rig)
{
    struct sockaddr_storage addr;
    struct rdma_cm_id *id;

    fabric_enter(rig->rank);
    fabric_node_addr(rig->node, &addr);
    assert_int_equal(rdma_create_id(rig->cm, &id, rig, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
    return id;
}

static void join(struct host *host)
{
    host->id = udp_id(&host->rig);
    assert_int_equal(rdma_join_multicast(host->id, group_addr(), host), 0);
    struct rdma_cm_event *event = rig_event(&host->rig, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(event->id, host->id);
    assert_ptr_equal(event->param.ud.private_data, host);
    host->route = event->param.ud.ah_attr;
    host->qpn = event->param.ud.qp_num;
    host->qkey = event->param.ud.qkey;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(host->qpn, 0xffffff);
}

static void qp_make(struct host *host)
{
    struct rig *rig = &host->rig;
    struct ibv_qp_init_attr init = {
        .send_cq = rig->cq,
        .recv_cq = rig->cq,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = RIG_SENDS,
                .max_recv_wr = RIG_RECVS,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = RIG_INLINE},
    };
    fabric_enter(rig->rank);
    host->link.rig = rig;
    host->link.qp = ibv_create_qp(rig->pd, &init);
    assert_non_null(host->link.qp);
}

static void qp_start(struct host *host, uint32_t qkey)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};

    assert_int_equal(ibv_modify_qp(host->link.qp, &attr,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                     0);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(host->link.qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(host->link.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void attach(struct host *host)
{
    fabric_enter(host->rig.rank);
    assert_int_equal(ibv_attach_mcast(host->link.qp, &host->route.grh.dgid, host->route.dlid), 0);
}

static void detach(struct host *host)
{
    fabric_enter(host->rig.rank);
    assert_int_equal(ibv_detach_mcast(host->link.qp, &host->route.grh.dgid, host->route.dlid), 0);
}

static void host_open(struct host *host, const struct fabric_node_attr *attr)
{
    rig_open(&host->rig, attr, false);
    join(host);
    qp_make(host);
    qp_start(host, host->qkey);
    attach(host);
    host->ah = ibv_create_ah(host->rig.pd, &host->route);
    assert_non_null(host->ah);
}

static void host_close(struct host *host)
{
    detach(host);
    assert_int_equal(ibv_destroy_qp(host->link.qp), 0);
    assert_int_equal(ibv_destroy_ah(host->ah), 0);
    assert_int_equal(rdma_leave_multicast(host->id, group_addr()), 0);
    assert_int_equal(rdma_destroy_id(host->id), 0);
    rig_close(&host->rig);
}

static void hosts_open(const struct fabric_config *config, const struct fabric_node_attr *attr)
{
    fabric_create(1, NULL);
    group = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, "239.1.2.3", &group.sin_addr), 1);
    for (int i = 0; i < HOSTS; i++)
        host_open(&hosts[i], attr);
    if (config)
        *fabric_config() = *config;
}

static void hosts_close(void)
{
    *fabric_config() = (struct fabric_config){.quiet = fabric_config()->quiet};
    for (int i = 0; i < HOSTS; i++)
        host_close(&hosts[i]);
    assert_int_equal(fabric_destroy(), 0);
}

static int cast(struct host *host, uint32_t offset, uint32_t length, unsigned flags)
{
    struct rig *rig = &host->rig;
    struct ibv_sge sge = {(uintptr_t)rig->memory + offset, length, rig->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = offset, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};
    struct ibv_send_wr *bad;

    wr.wr.ud.ah = host->ah;
    wr.wr.ud.remote_qpn = host->qpn;
    wr.wr.ud.remote_qkey = host->qkey;
    fabric_enter(rig->rank);
    return ibv_post_send(host->link.qp, &wr, &bad);
}

static void listen_for(struct host *host, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(rig_recv(&host->link, SLOT * (uint32_t)(1 + i), GRH + MTU), 0);
}

/* How many datagrams have come, the completions of sends not counted. */
static int heard(struct host *host)
{
    struct ibv_wc wc;
    int count = 0;

    while (rig_poll(&host->rig, &wc)) {
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        count += wc.opcode == IBV_WC_RECV;
    }
    return count;
}

static uint64_t faults_of(enum fabric_fault kind)
{
    struct fabric_counters counters;

    fabric_counters(&counters);
    return counters.kinds[kind];
}

static void assert_reported(const char *part)
{
    assert_int_equal(fabric_violations(), 1);
    if (!strstr(fabric_violation_text(0), part))
        fail_msg("\"%s\" lacks \"%s\"", fabric_violation_text(0), part);
    fabric_violations_clear();
}

/* ---- who gets a copy ---- */

static void copy_is_whole(struct host *to, const struct host *from, uint32_t length)
{
    struct ibv_wc wc;

    do
        assert_true(rig_poll(&to->rig, &wc));
    while (wc.opcode != IBV_WC_RECV);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, GRH + length);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH);
    assert_int_equal(wc.src_qp, from->link.qp->qp_num);
    assert_int_equal(wc.qp_num, to->link.qp->qp_num);
    assert_memory_equal(to->rig.memory + wc.wr_id + GRH, from->rig.memory, length);
    assert_memory_equal(to->rig.memory + wc.wr_id + 36, from->route.grh.dgid.raw + 12, 4);
    assert_int_equal(heard(to), 0);
}

static void everybody_attached_gets_one_copy(void **state)
{
    const struct fabric_node_attr *kinds[] = {&roce, &infiniband};
    const unsigned flags[] = {IBV_SEND_SIGNALED, IBV_SEND_INLINE, 0};
    const uint32_t lengths[] = {MTU, RIG_INLINE, 0};

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        hosts_open(NULL, kinds[kind]);
        for (int i = 0; i < 3; i++) {
            memset(hosts[0].rig.memory, 'a' + i, MTU);
            for (int to = 0; to < HOSTS; to++)
                listen_for(&hosts[to], 1);
            assert_int_equal(cast(&hosts[0], 0, lengths[i], flags[i]), 0);
            for (int to = 0; to < HOSTS; to++)
                copy_is_whole(&hosts[to], &hosts[0], lengths[i]);
        }
        hosts_close();
    }
}

static void ipv4_groups_are_mapped(void **state)
{
    static const uint8_t mgid[16] = {[10] = 0xff, [11] = 0xff, [12] = 239, 1, 2, 3};

    (void)state;
    hosts_open(NULL, &roce);
    assert_memory_equal(hosts[0].route.grh.dgid.raw, mgid, sizeof(mgid));
    assert_int_equal(hosts[0].route.is_global, 1);
    assert_int_equal(hosts[0].route.port_num, 1);
    hosts_close();
}

static void completion_waits_for_nobody(void **state)
{
    (void)state;
    hosts_open(NULL, &roce);
    assert_int_equal(cast(&hosts[0], 0, 64, IBV_SEND_SIGNALED), 0);
    uint64_t before_ns = fabric_now_ns();
    rig_poll_status(&hosts[0].rig, IBV_WC_SUCCESS, 0);
    assert_true(fabric_now_ns() - before_ns < 1000); /* one way */
    hosts_close();
}

/* What has completed shows then at the latest. */
static void nothing_shows_after_destroying(void **state)
{
    const struct fabric_config config = {.cq_hold_ns = 1000000000};
    struct host *host = &hosts[0];
    struct ibv_wc wc;

    (void)state;
    hosts_open(&config, &roce);
    assert_int_equal(cast(host, 0, 64, IBV_SEND_SIGNALED), 0);
    fabric_advance(10000);
    assert_int_equal(ibv_poll_cq(host->rig.cq, 1, &wc), 0);
    detach(host);
    assert_int_equal(ibv_destroy_qp(host->link.qp), 0);
    assert_int_equal(ibv_poll_cq(host->rig.cq, 1, &wc), 1);
    qp_make(host);
    qp_start(host, host->qkey);
    attach(host);
    hosts_close();
}

static void others_get_none(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qkey = 77};

    (void)state;
    hosts_open(NULL, &roce);
    for (int i = 0; i < HOSTS; i++)
        listen_for(&hosts[i], 1);
    detach(&hosts[1]);
    fabric_enter(hosts[2].rig.rank);
    assert_int_equal(ibv_modify_qp(hosts[2].link.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY), 0);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    assert_int_equal(heard(&hosts[1]), 0);
    assert_int_equal(heard(&hosts[2]), 0);
    assert_int_equal(heard(&hosts[3]), 1);
    attach(&hosts[1]);
    hosts_close();
}

static void other_groups_get_none(void **state)
{
    union ibv_gid other;

    (void)state;
    hosts_open(NULL, &roce);
    detach(&hosts[1]);
    other = hosts[1].route.grh.dgid;
    other.raw[15]++;
    assert_int_equal(ibv_attach_mcast(hosts[1].link.qp, &other, 0), 0);
    assert_int_equal(ibv_attach_mcast(hosts[1].link.qp, &other, 0), 0); /* once is enough */
    listen_for(&hosts[1], 1);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    assert_int_equal(heard(&hosts[1]), 0);
    assert_int_equal(ibv_detach_mcast(hosts[1].link.qp, &other, 0), 0);
    attach(&hosts[1]);
    hosts_close();
}

/* ---- what is lost ---- */

static void nothing_waits_for_a_receive(void **state)
{
    (void)state;
    hosts_open(NULL, &roce);
    listen_for(&hosts[1], 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(cast(&hosts[0], 0, 64, IBV_SEND_SIGNALED), 0);
    rig_settle(1000000);
    listen_for(&hosts[2], 1);
    assert_int_equal(heard(&hosts[1]), 1);
    assert_int_equal(heard(&hosts[2]), 0);
    hosts_close();
}

static void each_copy_is_lost_by_itself(void **state)
{
    const struct fabric_config config = {.datagram_lost_ppm = HALF};
    int total = 0;

    (void)state;
    hosts_open(&config, &roce);
    for (int i = 1; i < HOSTS; i++)
        listen_for(&hosts[i], 20);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(cast(&hosts[0], 0, 64, IBV_SEND_SIGNALED), 0);
    for (int i = 1; i < HOSTS; i++) {
        int count = heard(&hosts[i]);
        assert_in_range(count, 1, 19);
        total += count;
    }
    assert_in_range(faults_of(FABRIC_DATAGRAM_LOST), 60 - total, 80 - total);
    hosts_close();
}

static void nothing_passes_a_link_that_is_down(void **state)
{
    (void)state;
    hosts_open(NULL, &roce);
    for (int i = 1; i < HOSTS; i++)
        listen_for(&hosts[i], 2);
    fabric_link_set(hosts[1].rig.node, false);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    assert_int_equal(heard(&hosts[1]), 0);
    assert_int_equal(heard(&hosts[2]), 1);
    fabric_link_set(hosts[1].rig.node, true);
    fabric_link_set(hosts[0].rig.node, false);
    assert_int_equal(cast(&hosts[0], 0, 64, IBV_SEND_SIGNALED), 0);
    rig_poll_status(&hosts[0].rig, IBV_WC_SUCCESS, 0);
    assert_int_equal(heard(&hosts[3]), 1);
    fabric_link_set(hosts[0].rig.node, true);
    hosts_close();
}

static void soft_roce_fails_without_a_link(void **state)
{
    const struct fabric_config config = {.flap_is_fast_fail = true};

    (void)state;
    hosts_open(&config, &roce);
    listen_for(&hosts[0], 1);
    fabric_link_set(hosts[0].rig.node, false);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    rig_poll_status(&hosts[0].rig, IBV_WC_LOC_QP_OP_ERR, 0);
    rig_poll_status(&hosts[0].rig, IBV_WC_WR_FLUSH_ERR, SLOT);
    fabric_link_set(hosts[0].rig.node, true);
    hosts_close();
}

static void failed_queue_pairs_are_flushed(void **state)
{
    const struct fabric_config config = {.qp_fatal_ppm = ALWAYS};
    struct ibv_async_event event;

    (void)state;
    hosts_open(&config, &roce);
    listen_for(&hosts[0], 1);
    listen_for(&hosts[1], 1);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    rig_poll_status(&hosts[0].rig, IBV_WC_WR_FLUSH_ERR, 0);
    rig_poll_status(&hosts[0].rig, IBV_WC_WR_FLUSH_ERR, SLOT);
    assert_int_equal(heard(&hosts[1]), 0);
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(ibv_get_async_event(hosts[0].rig.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
    ibv_ack_async_event(&event);
    hosts_close();
}

static void the_dead_hear_nothing(void **state)
{
    (void)state;
    hosts_open(NULL, &roce);
    listen_for(&hosts[1], 1);
    listen_for(&hosts[2], 1);
    fabric_rank_kill(hosts[1].rig.rank);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    assert_int_equal(heard(&hosts[2]), 1);
    hosts_close();
}

static int out_of_order(struct host *host)
{
    int last = -1, count = 0;
    struct ibv_wc wc;

    while (rig_poll(&host->rig, &wc)) {
        int number = host->rig.memory[wc.wr_id + GRH];
        count += number < last;
        last = number;
    }
    return count;
}

static void order_is_kept_unless_one_is_late(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        const struct fabric_config config = {.jitter_ns = 20000, .datagram_late_ppm = late * HALF};
        hosts_open(&config, &roce);
        listen_for(&hosts[1], 20);
        for (uint32_t i = 0; i < 20; i++) {
            hosts[0].rig.memory[i] = (unsigned char)i;
            assert_int_equal(cast(&hosts[0], i, 1, 0), 0);
        }
        assert_int_equal(out_of_order(&hosts[1]) > 0, late);
        assert_int_equal(faults_of(FABRIC_DATAGRAM_LATE) > 0, late);
        hosts_close();
    }
}

/* ---- joining ---- */

static void joins_fail_by_chance(void **state)
{
    struct rdma_cm_id *id;
    struct rig rig;

    (void)state;
    hosts_open(NULL, &roce);
    rig_open(&rig, &roce, false);
    id = udp_id(&rig);
    fabric_config()->join_error_ppm = ALWAYS;
    assert_int_equal(rdma_join_multicast(id, group_addr(), &rig), 0);
    struct rdma_cm_event *event = rig_event(&rig, RDMA_CM_EVENT_MULTICAST_ERROR);
    assert_int_equal(event->status, -ETIMEDOUT);
    assert_ptr_equal(event->param.ud.private_data, &rig);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_destroy_id(id), 0); /* nothing is left to leave */
    rig_close(&rig);
    hosts_close();
}

static void who_leaves_hears_no_more(void **state)
{
    struct rdma_cm_id *id;

    (void)state;
    hosts_open(NULL, &roce);
    id = udp_id(&hosts[0].rig);
    assert_int_equal(rdma_leave_multicast(id, group_addr()), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(rdma_join_multicast(id, group_addr(), NULL), 0); /* under way */
    assert_int_equal(rdma_leave_multicast(id, group_addr()), 0);
    assert_null(rig_event_any(&hosts[0].rig));
    assert_int_equal(rdma_join_multicast(id, group_addr(), NULL), 0); /* told, not read */
    rig_settle(1000000);
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(rdma_leave_multicast(id, group_addr()), 0);
    assert_null(rig_event_any(&hosts[0].rig));
    assert_int_equal(rdma_destroy_id(id), 0);
    hosts_close();
}

static void only_bound_udp_ids_join(void **state)
{
    struct sockaddr_storage nobody = {0};
    struct rdma_cm_id *id;

    (void)state;
    hosts_open(NULL, &roce);
    struct rig *rig = &hosts[0].rig;
    fabric_enter(rig->rank);
    assert_int_equal(rdma_create_id(rig->cm, &id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_join_multicast(id, group_addr(), NULL), -1);
    assert_int_equal(errno, EINVAL);
    fabric_node_addr(rig->node, &nobody);
    assert_int_equal(rdma_join_multicast(hosts[0].id, (struct sockaddr *)&nobody, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_join_multicast(rig->listener, group_addr(), NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_destroy_id(id), 0);
    hosts_close();
}

static void iwarp_has_no_datagrams(void **state)
{
    struct rig rig;

    (void)state;
    fabric_create(1, NULL);
    group = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef000001)};
    rig_open(&rig, &iwarp, false);
    struct ibv_qp_init_attr init = {
        .send_cq = rig.cq, .recv_cq = rig.cq, .qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1}};
    struct rdma_cm_id *id = udp_id(&rig);
    assert_int_equal(rdma_join_multicast(id, group_addr(), NULL), -1);
    assert_int_equal(errno, ENOSYS);
    assert_null(ibv_create_qp(rig.pd, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(rdma_destroy_id(id), 0);
    rig_close(&rig);
    assert_int_equal(fabric_destroy(), 0);
}

/* ---- misuse ---- */

static int open_quiet(void **state)
{
    const struct fabric_config config = {.quiet = true};

    (void)state;
    hosts_open(&config, &roce);
    return 0;
}

static int close_quiet(void **state)
{
    (void)state;
    hosts_close();
    return 0;
}

static void attached_queue_pair_stays(void **state)
{
    (void)state;
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(ibv_destroy_qp(hosts[0].link.qp), EBUSY);
    assert_reported("is attached to 1 groups");
}

static void longer_than_the_mtu(void **state)
{
    (void)state;
    assert_int_equal(cast(&hosts[0], 0, MTU + 1, 0), EINVAL);
    assert_reported("active MTU");
}

static void shorter_receive(void **state)
{
    (void)state;
    assert_int_equal(rig_recv(&hosts[1].link, 0, GRH + 63), 0);
    assert_int_equal(cast(&hosts[0], 0, 64, 0), 0);
    rig_poll_status(&hosts[1].rig, IBV_WC_LOC_LEN_ERR, 0);
    assert_reported("meet a receive of 103");
}

static void posted_before_rts(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

    (void)state;
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(ibv_modify_qp(hosts[0].link.qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(cast(&hosts[0], 0, 8, 0), EINVAL);
    assert_reported("before RTS");
}

static void state_without_its_key(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET, .port_num = 1};

    (void)state;
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(ibv_modify_qp(hosts[0].link.qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(
        ibv_modify_qp(hosts[0].link.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT),
        EINVAL);
    assert_reported("attributes missing");
}

static void wrong_address_handle(void **state)
{
    struct ibv_ah *own = hosts[0].ah;

    (void)state;
    hosts[0].ah = NULL;
    assert_int_equal(cast(&hosts[0], 0, 8, 0), EINVAL);
    assert_reported("no address handle");
    hosts[0].ah = hosts[1].ah;
    assert_int_equal(cast(&hosts[0], 0, 8, 0), EINVAL);
    assert_reported("of another PD");
    hosts[0].ah = own;
    hosts[0].qpn = hosts[1].link.qp->qp_num;
    assert_int_equal(cast(&hosts[0], 0, 8, 0), EINVAL);
    assert_reported("to groups only");
    hosts[0].route.is_global = 0;
    assert_null(ibv_create_ah(hosts[0].rig.pd, &hosts[0].route));
    assert_reported("needs a global route");
}

static void address_handle_destroyed_too_early(void **state)
{
    struct ibv_ah *extra, *own = hosts[0].ah;

    (void)state;
    fabric_enter(hosts[0].rig.rank);
    extra = ibv_create_ah(hosts[0].rig.pd, &hosts[0].route);
    hosts[0].ah = extra;
    assert_int_equal(cast(&hosts[0], 0, 8, IBV_SEND_SIGNALED), 0);
    assert_int_equal(ibv_destroy_ah(extra), 0);
    assert_reported("1 posted sends still go by");
    rig_poll_status(&hosts[0].rig, IBV_WC_SUCCESS, 0);
    assert_int_equal(cast(&hosts[0], 0, 8, 0), EINVAL);
    assert_reported("was destroyed before");
    hosts[0].ah = own;
}

static void attaching_what_cannot_be(void **state)
{
    union ibv_gid nobody = {.raw = {0xfe, 0x80}};

    (void)state;
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(ibv_attach_mcast(hosts[0].link.qp, &nobody, 0), EINVAL);
    assert_reported("not a group's");
    assert_int_equal(ibv_detach_mcast(hosts[0].link.qp, &nobody, 0), EINVAL);
    assert_reported("not attached");
}

static void leaving_with_an_event_unacknowledged(void **state)
{
    (void)state;
    struct rdma_cm_id *id = udp_id(&hosts[0].rig);
    assert_int_equal(rdma_join_multicast(id, group_addr(), NULL), 0);
    struct rdma_cm_event *event = rig_event(&hosts[0].rig, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_int_equal(rdma_leave_multicast(id, group_addr()), 0);
    assert_reported("rdma_leave_multicast would hang");
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void leaks_are_found(void **state)
{
    (void)state;
    open_quiet(state);
    for (int i = 1; i < HOSTS; i++)
        host_close(&hosts[i]);
    fabric_enter(hosts[0].rig.rank);
    assert_int_equal(rdma_destroy_id(hosts[0].id), 0); /* still a member */
    free(hosts[0].rig.memory);
    /* QP, address handle, attachment, membership, and the rig's seven */
    assert_int_equal(fabric_destroy(), 11);
}

#define QUIET(name) cmocka_unit_test_setup_teardown(name, open_quiet, close_quiet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_attached_gets_one_copy),
        cmocka_unit_test(ipv4_groups_are_mapped),
        cmocka_unit_test(completion_waits_for_nobody),
        cmocka_unit_test(nothing_shows_after_destroying),
        cmocka_unit_test(others_get_none),
        cmocka_unit_test(other_groups_get_none),
        cmocka_unit_test(nothing_waits_for_a_receive),
        cmocka_unit_test(each_copy_is_lost_by_itself),
        cmocka_unit_test(nothing_passes_a_link_that_is_down),
        cmocka_unit_test(soft_roce_fails_without_a_link),
        cmocka_unit_test(failed_queue_pairs_are_flushed),
        cmocka_unit_test(the_dead_hear_nothing),
        cmocka_unit_test(order_is_kept_unless_one_is_late),
        cmocka_unit_test(joins_fail_by_chance),
        cmocka_unit_test(who_leaves_hears_no_more),
        cmocka_unit_test(only_bound_udp_ids_join),
        cmocka_unit_test(iwarp_has_no_datagrams),
        QUIET(attached_queue_pair_stays),
        QUIET(longer_than_the_mtu),
        QUIET(shorter_receive),
        QUIET(posted_before_rts),
        QUIET(state_without_its_key),
        QUIET(wrong_address_handle),
        QUIET(address_handle_destroyed_too_early),
        QUIET(attaching_what_cannot_be),
        QUIET(leaving_with_an_event_unacknowledged),
        cmocka_unit_test(leaks_are_found),
    };
    return cmocka_run_group_tests_name("fabric groups", tests, NULL, NULL);
}
