/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: creation within the device's limits, the state machine with the attributes each
 * transition needs (IBTA vol. 1, 10.3.1; the kernel checks the same table), and destruction.
 */
#include "sim.h"

struct transition {
    enum ibv_qp_state from, to;
    int required, optional;
};

static const struct transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
         IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_SQD, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

/* For datagrams. */
static const struct transition ud_transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_INIT, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RTR, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RTS, IBV_QPS_ERR, 0, 0},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_ERR, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_ERR, IBV_QPS_ERR, 0, 0},
};

bool sim_qp_is_ud(const struct sim_qp *qp)
{
    return qp->init.qp_type == IBV_QPT_UD;
}

struct sim_qp *sim_qp_by_number(uint32_t qp_num)
{
    if (qp_num < SIM_QPN_FIRST || qp_num - SIM_QPN_FIRST >= sim.qp_count)
        return NULL;
    struct sim_qp *qp = sim.qps[qp_num - SIM_QPN_FIRST];
    return qp->obj.magic == SIM_ALIVE ? qp : NULL;
}

struct sim_qp *sim_qp_peer(const struct sim_qp *qp)
{
    struct sim_qp *peer = qp->dest ? sim_qp_by_number(qp->attr.dest_qp_num) : NULL;
    if (!peer || peer->node != qp->dest || peer->attr.dest_qp_num != qp->qp.qp_num)
        return NULL;
    return peer;
}

/* ---- creation ---- */

static bool cap_fits(const struct fabric_node_attr *device, const struct ibv_qp_cap *cap)
{
    return cap->max_send_wr <= (uint32_t)device->max_qp_wr &&
           cap->max_recv_wr <= (uint32_t)device->max_qp_wr &&
           cap->max_send_sge <= (uint32_t)device->max_sge &&
           cap->max_recv_sge <= (uint32_t)device->max_sge &&
           cap->max_inline_data <= (uint32_t)device->max_inline;
}

static int create_check(struct sim_pd *pd, const struct ibv_qp_init_attr *init)
{
    const struct sim_node *node = sim_context_of(pd->pd.context)->node;
    bool is_ud = init->qp_type == IBV_QPT_UD;
    if ((init->qp_type != IBV_QPT_RC && !is_ud) || (is_ud && init->srq) || !init->send_cq ||
        !init->recv_cq || init->send_cq->context != pd->pd.context ||
        init->recv_cq->context != pd->pd.context)
        return EINVAL;
    if (!sim_obj_check(&SIM_OF(init->send_cq, struct sim_cq, cq)->obj, SIM_CQ, "ibv_create_qp") ||
        !sim_obj_check(&SIM_OF(init->recv_cq, struct sim_cq, cq)->obj, SIM_CQ, "ibv_create_qp"))
        return EINVAL;
    if (init->srq &&
        !sim_obj_check(&SIM_OF(init->srq, struct sim_srq, srq)->obj, SIM_SRQ, "ibv_create_qp"))
        return EINVAL;
    if (!cap_fits(&node->attr, &init->cap))
        return EINVAL;
    if (sim_rank_is_dead(sim.current) || node->removed)
        return EIO;
    if (is_ud && sim_node_is_iwarp(node))
        return EOPNOTSUPP;
    if (node->qps >= node->attr.max_qp || sim_fails(FABRIC_FAIL_VERBS, "ibv_create_qp"))
        return ENOMEM;
    return 0;
}

static void qp_remember(struct sim_qp *qp)
{
    if (sim.qp_count == sim.qp_cap) {
        sim.qp_cap = sim.qp_cap ? sim.qp_cap * 2 : 256;
        sim.qps = sim_regrow(sim.qps, sim.qp_cap * sizeof(struct sim_qp *));
    }
    qp->qp.qp_num = SIM_QPN_FIRST + (uint32_t)sim.qp_count;
    sim.qps[sim.qp_count++] = qp;
    if (sim.alive[SIM_QP] > sim.counters.qps_peak)
        sim.counters.qps_peak = sim.alive[SIM_QP];
}

static void users_add(struct sim_qp *qp, int delta)
{
    SIM_OF(qp->qp.pd, struct sim_pd, pd)->users += delta;
    SIM_OF(qp->init.send_cq, struct sim_cq, cq)->users += delta;
    SIM_OF(qp->init.recv_cq, struct sim_cq, cq)->users += delta;
    if (qp->init.srq)
        SIM_OF(qp->init.srq, struct sim_srq, srq)->users += delta;
    qp->node->qps += delta;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *ibv, struct ibv_qp_init_attr *init)
{
    struct sim_pd *pd = SIM_OF(ibv, struct sim_pd, pd);
    if (!sim_obj_check(&pd->obj, SIM_PD, "ibv_create_qp")) {
        errno = EINVAL;
        return NULL;
    }
    int error = create_check(pd, init);
    if (error) {
        errno = error;
        return NULL;
    }
    struct sim_qp *qp = sim_obj_new(SIM_QP, sizeof(*qp), 0);
    qp->node = sim_context_of(ibv->context)->node;
    qp->init = *init;
    qp->sq_sig_all = init->sq_sig_all;
    qp->rq.max_wr = init->srq ? 0 : init->cap.max_recv_wr;
    qp->rq.max_sge = init->srq ? 0 : init->cap.max_recv_sge;
    qp->qp.context = ibv->context;
    qp->qp.qp_context = init->qp_context;
    qp->qp.pd = ibv;
    qp->qp.send_cq = init->send_cq;
    qp->qp.recv_cq = init->recv_cq;
    qp->qp.srq = init->srq;
    qp->qp.qp_type = init->qp_type;
    qp->qp.state = qp->state = IBV_QPS_RESET;
    qp->qp.handle = qp->obj.number;
    if (sim_qp_is_ud(qp))
        qp->ud_number = sim.ud_count++;
    qp_remember(qp);
    users_add(qp, 1);
    return &qp->qp;
}

/* ---- the state machine ---- */

void sim_qp_set_state(struct sim_qp *qp, enum ibv_qp_state state)
{
    if (qp->state != state)
        sim_trace(SIM_T_QP_STATE, qp->qp.qp_num, qp->state, state);
    qp->state = state;
}

static const struct transition *transition_find(const struct sim_qp *qp, enum ibv_qp_state to)
{
    bool is_ud = sim_qp_is_ud(qp);
    const struct transition *at = is_ud ? ud_transitions : transitions;
    size_t bytes = is_ud ? sizeof(ud_transitions) : sizeof(transitions);
    const struct transition *end = at + bytes / sizeof(*at);
    while (at < end && (at->from != qp->state || at->to != to))
        at++;
    return at < end ? at : NULL;
}

static bool mask_fits(const struct sim_qp *qp, enum ibv_qp_state to, int mask)
{
    const struct transition *transition = transition_find(qp, to);
    if (!transition) {
        /* Into the error state the device goes by itself, so the program cannot know better. */
        if (qp->state != IBV_QPS_ERR)
            sim_violation("ibv_modify_qp: QP %u cannot go from state %d to %d", qp->qp.qp_num,
                          qp->state, to);
        return false;
    }
    int missing = transition->required & ~mask;
    int extra = mask & ~(transition->required | transition->optional | IBV_QP_STATE);
    if (missing || extra)
        sim_violation("ibv_modify_qp: QP %u, state %d to %d: attributes missing %#x, not allowed "
                      "%#x",
                      qp->qp.qp_num, qp->state, to, missing, extra);
    return !missing && !extra;
}

const char *sim_route_fault(const struct sim_node *node, const struct ibv_ah_attr *attr)
{
    union ibv_gid gid, none = {0};
    if (node->attr.transport == FABRIC_ROCE && !attr->is_global)
        return "RoCE needs a global route";
    sim_node_gid(node, attr->grh.sgid_index, &gid);
    if (attr->is_global && memcmp(&gid, &none, sizeof(gid)) == 0)
        return "the source GID index is empty";
    return NULL;
}

static const char *attr_fault(const struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct sim_node *node = qp->node;
    if ((mask & IBV_QP_PORT) && attr->port_num != SIM_PORT)
        return "there is no such port";
    if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0)
        return "there is no such P_Key index";
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > node->attr.max_rd_atom)
        return "max_rd_atomic is above the device's";
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > node->attr.max_rd_atom)
        return "max_dest_rd_atomic is above the device's";
    if (((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7) ||
        ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31) ||
        ((mask & IBV_QP_TIMEOUT) && attr->timeout > 31))
        return "a timer or count is out of its range";
    return mask & IBV_QP_AV ? sim_route_fault(node, &attr->ah_attr) : NULL;
}

static void attr_store(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr *to = &qp->attr;
    if (mask & IBV_QP_ACCESS_FLAGS)
        to->qp_access_flags = attr->qp_access_flags;
    if (mask & IBV_QP_QKEY)
        to->qkey = attr->qkey;
    if (mask & IBV_QP_PORT)
        to->port_num = attr->port_num;
    if (mask & IBV_QP_PATH_MTU)
        to->path_mtu = attr->path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        to->dest_qp_num = attr->dest_qp_num;
    if (mask & IBV_QP_RQ_PSN)
        qp->rx_seq = to->rq_psn = attr->rq_psn & SIM_PSN_MASK;
    if (mask & IBV_QP_SQ_PSN)
        qp->post_seq = to->sq_psn = attr->sq_psn & SIM_PSN_MASK;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        to->max_rd_atomic = attr->max_rd_atomic;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        to->min_rnr_timer = attr->min_rnr_timer;
    if (mask & IBV_QP_TIMEOUT)
        to->timeout = attr->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        to->retry_cnt = attr->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        to->rnr_retry = attr->rnr_retry;
    if (mask & IBV_QP_AV) {
        to->ah_attr = attr->ah_attr;
        uint16_t lid = attr->ah_attr.dlid;
        if (attr->ah_attr.is_global)
            qp->dest = sim_node_by_gid(&attr->ah_attr.grh.dgid);
        else
            qp->dest = lid > 0 && lid <= sim.node_count ? sim.nodes[lid - 1] : NULL;
    }
}

static void qp_reset(struct sim_qp *qp)
{
    sim_cq_detach(SIM_OF(qp->init.send_cq, struct sim_cq, cq), qp, true);
    sim_cq_detach(SIM_OF(qp->init.recv_cq, struct sim_cq, cq), qp, true);
    sim_qp_drop_work(qp);
    qp->tx_gen++;
    qp->ack_gen++;
    qp->tx_armed = qp->ack_armed = qp->early_armed = qp->tx_halted = false;
    qp->flushing = qp->flush_recvs = false;
    qp->rx_any = qp->last_wqe_raised = false;
    qp->retries = qp->rnr_tries = qp->reads_out = 0;
    qp->tx_last_ns = qp->ack_last_ns = 0;
    qp->dest = NULL;
    memset(&qp->attr, 0, sizeof(qp->attr));
}

static int modify_check(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask,
                        enum ibv_qp_state to)
{
    if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state)
        return EINVAL;
    if (!mask_fits(qp, to, mask))
        return EINVAL;
    const char *fault = attr_fault(qp, attr, mask);
    if (fault)
        sim_violation("ibv_modify_qp: QP %u: %s", qp->qp.qp_num, fault);
    return fault ? EINVAL : 0;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_modify_qp"))
        return EINVAL;
    enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
    if (sim_rank_is_dead(sim.current) || (qp->node->removed && to != IBV_QPS_ERR))
        return EIO;
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_modify_qp"))
        return ENOMEM;
    /* An RNIC's connection belongs to its CM: the drivers take what comes and do little. */
    int error = sim_node_is_iwarp(qp->node) ? 0 : modify_check(qp, attr, mask, to);
    if (error)
        return error;
    attr_store(qp, attr, mask);
    if (mask & IBV_QP_STATE)
        ibv->state = to;
    qp->closed = to == IBV_QPS_ERR;
    if (to == IBV_QPS_ERR && qp->state == IBV_QPS_ERR)
        sim_qp_flush(qp, true);
    else if (to == IBV_QPS_ERR)
        sim_qp_error(qp, NULL);
    else if (to == IBV_QPS_RESET)
        qp_reset(qp);
    sim_qp_set_state(qp, to);
    sim_tx_kick(qp);
    return 0;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    (void)mask;
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_query_qp"))
        return EINVAL;
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_query_qp"))
        return ENOMEM;
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->cap = qp->init.cap;
    *init = qp->init;
    return 0;
}

void sim_qp_iw_connect(struct sim_qp *qp, struct sim_id *id, uint32_t remote_qpn)
{
    qp->iw_id = id;
    qp->dest = id->remote_node;
    qp->attr.dest_qp_num = remote_qpn;
    qp->attr.max_rd_atomic = id->initiator_depth;
    qp->attr.max_dest_rd_atomic = id->responder_resources;
    qp->attr.timeout = 14;
    qp->attr.retry_cnt = 7;
    qp->rx_seq = qp->post_seq = 0;
    sim_qp_set_state(qp, IBV_QPS_RTS);
}

/* ---- the end ---- */

void sim_qp_drop_work(struct sim_qp *qp)
{
    while (qp->sq_head) {
        struct sim_wqe *wqe = qp->sq_head;
        qp->sq_head = wqe->next;
        if (!wqe->retired && !wqe->copy)
            sim_sge_hold(wqe->sge, wqe->num_sge, -1);
        sim_wqe_free(wqe);
    }
    qp->sq_tail = qp->ack_next = qp->tx_next = qp->early_next = NULL;
    qp->sq_used = 0;
    sim_rq_drop(&qp->rq);
}

static void qp_gone(struct sim_qp *qp)
{
    struct sim_context *context = sim_context_of(qp->qp.context);
    sim_stream_drain(qp);
    if (qp->state == IBV_QPS_RTS)
        sim_ghosts_spawn(qp);
    sim_async_forget(context, &qp->qp);
    sim_cq_detach(SIM_OF(qp->init.send_cq, struct sim_cq, cq), qp, sim.config.purge_on_destroy);
    sim_cq_detach(SIM_OF(qp->init.recv_cq, struct sim_cq, cq), qp, sim.config.purge_on_destroy);
    sim_qp_drop_work(qp);
    if (qp->iw_id)
        sim_iw_closed(qp->iw_id);
    users_add(qp, -1);
    sim_obj_kill(&qp->obj);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_destroy_qp"))
        return EINVAL;
    if (qp->attachments > 0) {
        sim_violation("ibv_destroy_qp: QP %u is attached to %d groups", ibv->qp_num,
                      qp->attachments);
        return EBUSY;
    }
    if (qp->async_reported != qp->async_acked)
        sim_violation("ibv_destroy_qp would hang: an async event of QP %u is not acknowledged",
                      ibv->qp_num);
    qp_gone(qp);
    return 0;
}

void sim_qp_reclaim(struct sim_qp *qp)
{
    sim_cq_detach(SIM_OF(qp->init.send_cq, struct sim_cq, cq), qp, true);
    sim_cq_detach(SIM_OF(qp->init.recv_cq, struct sim_cq, cq), qp, true);
    sim_qp_drop_work(qp);
    qp->tx_gen++;
    qp->ack_gen++;
    sim_qp_set_state(qp, IBV_QPS_RESET);
    if (qp->iw_id) /* its stream ends with the process */
        sim_iw_closed(qp->iw_id);
}
