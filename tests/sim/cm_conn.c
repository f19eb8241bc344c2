/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection protocol's calls: connect, accept, reject, establish, disconnect, and the QP
 * attributes that follow from a connection's state. InfiniBand and RoCE shake hands by
 * REQ, REP, RTU and part by DREQ, DREP; iWARP's negotiation uses the same messages here, without
 * RTU, and moves the QP itself.
 */
#include "sim.h"

enum {
    REQ_USER_BYTES = 56, /* 92 in the message, 36 of them are the CM's IP header */
    REP_BYTES = 196,
    REJ_BYTES = 148,
    IWARP_BYTES = 255,
    REJ_CONSUMER = 28
};

static uint8_t at_most(uint8_t value, uint8_t most)
{
    return value < most ? value : most;
}

static int param_check(const struct sim_id *id, const struct rdma_conn_param *param, int most)
{
    int depth = id->node->attr.max_rd_atom;
    int limit = sim_node_is_iwarp(id->node) ? IWARP_BYTES : most;
    if (param->private_data_len > limit)
        return EINVAL;
    bool fits =
        (param->responder_resources == RDMA_MAX_RESP_RES || param->responder_resources <= depth) &&
        (param->initiator_depth == RDMA_MAX_INIT_DEPTH || param->initiator_depth <= depth);
    return fits ? 0 : EINVAL;
}

static void msg_fill(const struct sim_id *id, const struct rdma_conn_param *param,
                     struct sim_cm_msg *msg)
{
    memset(msg, 0, sizeof(*msg));
    msg->qp_num = id->local_qpn;
    msg->psn = id->local_psn;
    msg->responder_resources = id->responder_resources;
    msg->initiator_depth = id->initiator_depth;
    msg->flow_control = param->flow_control;
    msg->retry_count = at_most(param->retry_count, 7);
    msg->rnr_retry_count = at_most(param->rnr_retry_count, 7);
    msg->srq = param->srq;
    if (param->private_data && param->private_data_len) {
        memcpy(msg->data, param->private_data, param->private_data_len);
        msg->data_len = param->private_data_len;
    }
}

static bool iwarp_qp_exists(const struct sim_id *id, uint32_t qp_num)
{
    struct sim_qp *qp = sim_qp_by_number(qp_num);
    return !sim_node_is_iwarp(id->node) || (qp && qp->node == id->node && qp->state < IBV_QPS_RTS);
}

/* Soft-iWARP makes the stream before it returns. */
static bool is_refused_at_once(const struct sim_id *id)
{
    return sim_node_is_soft_iwarp(id->node) && sim_path_up(id->node, id->remote_node) &&
           sim_path_up(id->remote_node, id->node) &&
           !sim_id_listener(id->remote_node, sim_addr_port(&id->id.route.addr.dst_addr));
}

int rdma_connect(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_connect");
    if (!id || !param || !sim_id_has_device(id, "rdma_connect") ||
        id->state != SIM_ID_ROUTE_RESOLVED || param_check(id, param, REQ_USER_BYTES))
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_connect"))
        return sim_err(ENOMEM);
    if (is_refused_at_once(id))
        return sim_err(ECONNREFUSED);
    uint8_t depth = at_most((uint8_t)id->node->attr.max_rd_atom, 255);
    id->responder_resources = at_most(param->responder_resources, depth);
    id->initiator_depth = at_most(param->initiator_depth, depth);
    id->retry_count = at_most(param->retry_count, 7);
    id->local_qpn = ibv->qp ? ibv->qp->qp_num : param->qp_num;
    if (!iwarp_qp_exists(id, id->local_qpn))
        return sim_err(EINVAL);
    struct sim_cm_msg msg;
    msg_fill(id, param, &msg);
    msg.src = ibv->route.addr.src_storage;
    msg.dst = ibv->route.addr.dst_storage;
    msg.port = sim_addr_port(&ibv->route.addr.dst_addr);
    id->state = SIM_ID_CONNECT;
    id->cm = SIM_CM_REQ_SENT;
    id->gen++;
    sim_cm_send(id, SIM_MSG_REQ, &msg);
    return 0;
}

static int send_reject(struct sim_id *id, const void *data, uint8_t data_len)
{
    bool may = id->cm == SIM_CM_REQ_SENT || id->cm == SIM_CM_REQ_RCVD ||
               id->cm == SIM_CM_REP_SENT || id->cm == SIM_CM_REP_RCVD;
    int most = sim_node_is_iwarp(id->node) ? IWARP_BYTES : REJ_BYTES;
    if (!may || data_len > most)
        return EINVAL;
    struct sim_cm_msg msg = {.reason = REJ_CONSUMER, .data_len = data ? data_len : 0};
    if (data)
        memcpy(msg.data, data, data_len);
    sim_cm_send(id, SIM_MSG_REJ, &msg);
    id->cm = SIM_CM_OVER;
    return 0;
}

static int accept_check(const struct sim_id *id, const struct rdma_conn_param *param)
{
    if (id->state != SIM_ID_CONNECT || id->cm != SIM_CM_REQ_RCVD ||
        param_check(id, param, REP_BYTES) || !iwarp_qp_exists(id, param->qp_num))
        return EINVAL;
    return sim_fails(FABRIC_FAIL_CM, "rdma_accept") ? ENOMEM : 0;
}

int rdma_accept(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_accept");
    if (!id || !param || !sim_id_has_device(id, "rdma_accept"))
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current))
        return sim_err(EIO);
    int error = accept_check(id, param);
    if (error) { /* the kernel refuses the connection in this case, too */
        send_reject(id, NULL, 0);
        return sim_err(error);
    }
    if (param->responder_resources != RDMA_MAX_RESP_RES)
        id->responder_resources = param->responder_resources;
    if (param->initiator_depth != RDMA_MAX_INIT_DEPTH)
        id->initiator_depth = param->initiator_depth;
    id->local_qpn = ibv->qp ? ibv->qp->qp_num : param->qp_num;
    id->has_user = true;
    id->cm = SIM_CM_REP_SENT;
    id->gen++;
    struct sim_cm_msg msg;
    msg_fill(id, param, &msg);
    sim_cm_send(id, SIM_MSG_REP, &msg);
    if (sim_node_is_iwarp(id->node)) {
        id->cm = SIM_CM_ESTABLISHED;
        sim_qp_iw_connect(sim_qp_by_number(id->local_qpn), id, id->remote_qpn);
        sim_cm_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    }
    return 0;
}

int rdma_reject(struct rdma_cm_id *ibv, const void *data, uint8_t data_len)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_reject");
    if (!id)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current))
        return sim_err(EIO);
    if (sim_fails(FABRIC_FAIL_CM, "rdma_reject"))
        return sim_err(ENOMEM);
    int error = send_reject(id, data, data_len);
    return error ? sim_err(error) : 0;
}

int rdma_establish(struct rdma_cm_id *ibv)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_establish");
    if (!id || ibv->qp || sim_node_is_iwarp(id->node))
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current))
        return sim_err(EIO);
    bool failed = sim_fails(FABRIC_FAIL_CM, "rdma_establish");
    if (failed || id->state != SIM_ID_CONNECT || id->cm != SIM_CM_REP_RCVD) {
        send_reject(id, NULL, 0);
        return sim_err(failed ? ENOMEM : EINVAL);
    }
    id->cm = SIM_CM_ESTABLISHED;
    struct sim_cm_msg msg = {0};
    sim_cm_send(id, SIM_MSG_RTU, &msg);
    return 0;
}

int rdma_notify(struct rdma_cm_id *ibv, enum ibv_event_type event)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_notify");
    if (!id)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_notify"))
        return sim_err(ENOMEM);
    if (sim_node_is_iwarp(id->node))
        return 0;
    if (event != IBV_EVENT_COMM_EST)
        return sim_err(EINVAL);
    if (id->cm == SIM_CM_ESTABLISHED)
        return sim_err(EISCONN);
    if (id->cm != SIM_CM_REP_SENT)
        return sim_err(EINVAL);
    id->cm = SIM_CM_ESTABLISHED;
    sim_cm_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    return 0;
}

int rdma_disconnect(struct rdma_cm_id *ibv)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_disconnect");
    if (!id || !ibv->verbs)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current))
        return 0;
    if (sim_fails(FABRIC_FAIL_CM, "rdma_disconnect"))
        return sim_err(ENOMEM);
    if (id->cm == SIM_CM_NONE)
        return sim_err(EINVAL);
    struct sim_cm_msg msg = {0};
    if (sim_node_is_iwarp(id->node)) {
        struct sim_qp *qp = sim_qp_by_number(id->local_qpn);
        if (id->cm == SIM_CM_ESTABLISHED && qp) {
            sim_stream_drain(qp);
            sim_qp_error(qp, "disconnected");
        }
    } else if (id->cm == SIM_CM_ESTABLISHED) {
        id->cm = SIM_CM_DREQ_SENT;
        sim_cm_send(id, SIM_MSG_DREQ, &msg);
    } else if (id->cm == SIM_CM_DREQ_RCVD) {
        sim_cm_send(id, SIM_MSG_DREP, &msg);
        sim_cm_timewait(id);
    }
    return 0;
}

/* ---- QP attributes ---- */

static void attr_init(const struct sim_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    attr->port_num = SIM_PORT;
    if (id->cm == SIM_CM_NONE)
        return; /* no connection yet: no remote access */
    attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id->responder_resources)
        attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void attr_rtr(const struct sim_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    attr->ah_attr.port_num = SIM_PORT;
    attr->ah_attr.dlid =
        id->node->attr.transport == FABRIC_INFINIBAND ? (uint16_t)(id->remote_node->number + 1) : 0;
    if (id->node->attr.transport == FABRIC_ROCE) {
        attr->ah_attr.is_global = 1;
        attr->ah_attr.grh.sgid_index = (uint8_t)sim_node_gid_index(id->node);
        attr->ah_attr.grh.hop_limit = 64;
        sim_node_gid(id->remote_node, sim_node_gid_index(id->remote_node), &attr->ah_attr.grh.dgid);
    }
    attr->path_mtu = SIM_MTU;
    attr->dest_qp_num = id->remote_qpn;
    attr->rq_psn = id->remote_psn;
    attr->max_dest_rd_atomic = id->responder_resources;
    attr->min_rnr_timer = 0; /* the longest there is: programs are expected to set their own */
}

static void attr_rts(const struct sim_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC;
    attr->sq_psn = id->local_psn;
    attr->timeout = id->ack_timeout ? id->ack_timeout : 19;
    attr->retry_cnt = id->retry_count;
    attr->rnr_retry = id->rnr_retry_count;
    attr->max_rd_atomic = id->initiator_depth;
}

static bool is_connecting(const struct sim_id *id)
{
    return id->cm == SIM_CM_REQ_RCVD || id->cm == SIM_CM_REP_SENT || id->cm == SIM_CM_REP_RCVD ||
           id->cm == SIM_CM_ESTABLISHED;
}

int rdma_init_qp_attr(struct rdma_cm_id *ibv, struct ibv_qp_attr *attr, int *mask)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_init_qp_attr");
    if (!id || !ibv->verbs)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_init_qp_attr"))
        return sim_err(ENOMEM);
    enum ibv_qp_state state = attr->qp_state;
    memset(attr, 0, sizeof(*attr));
    attr->qp_state = state;
    if (sim_node_is_iwarp(id->node)) {
        *mask = IBV_QP_PORT;
        attr->port_num = SIM_PORT;
        if (state == IBV_QPS_INIT || id->cm == SIM_CM_NONE) {
            *mask |= IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
            if (id->cm != SIM_CM_NONE)
                attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        }
        return 0;
    }
    if (state == IBV_QPS_INIT || id->cm == SIM_CM_NONE)
        attr_init(id, attr, mask);
    else if (state == IBV_QPS_RTR && is_connecting(id))
        attr_rtr(id, attr, mask);
    else if (state == IBV_QPS_RTS && is_connecting(id))
        attr_rts(id, attr, mask);
    else
        return sim_err(EINVAL);
    return 0;
}
