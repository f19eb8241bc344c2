/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's messages on their way, and what the kernel of the receiving node does
 * with each in which state (drivers/infiniband/core/cm.c). A message that is lost, by chance or
 * because the way is blocked, is sent again after the CM's timeout until its tries are used up;
 * the sender then gets the event of its failure.
 */
#include "sim.h"

enum {
    REJ_NO_RESOURCES = 3,
    REJ_TIMEOUT = 4,
    REJ_INVALID_SERVICE = 8,
    REJ_STALE = 10,
    REJ_CONSUMER = 28,
    REP_BYTES = 196,
    REJ_BYTES = 148,
    STREAM_RETRIES = 64 /* TCP goes on for minutes where the CM gives up */
};

static void msg_arrive(void *obj, uint64_t arg);

static uint64_t cm_timeout_ns(void)
{
    return sim.config.cm_timeout_ns ? sim.config.cm_timeout_ns : 6442450944u;
}

static uint32_t cm_retries(void)
{
    return sim.config.cm_retries ? sim.config.cm_retries : 15;
}

/* ---- sending ---- */

void sim_cm_send(struct sim_id *from, enum sim_cm_kind kind, struct sim_cm_msg *proto)
{
    struct sim_cm_msg *msg = sim_pool_get(sizeof(*msg));
    *msg = *proto;
    msg->kind = kind;
    msg->from = from;
    msg->from_gen = from->gen;
    msg->to = kind == SIM_MSG_REQ ? NULL : from->peer;
    msg->from_node = from->node;
    msg->to_node = from->remote_node;
    sim_garble(msg->from_node, msg->data, msg->data_len);
    if (from->node->address_away && !sim.stepping) /* else the kernel repeats it */
        sim.ranks[from->obj.rank].said_without_address++;
    sim_trace(SIM_T_CM_SEND, from->obj.number, kind, (uint64_t)msg->to_node->number);
    uint64_t at_ns = sim.now_ns + sim_latency() + sim_below(sim.config.cm_jitter_ns);
    if (kind == SIM_MSG_RTU && sim_chance(sim.config.early_data_ppm)) {
        sim_fault(FABRIC_DATA_EARLY);
        at_ns += sim_below(sim.config.cm_jitter_ns + 100000) + 10000;
    }
    from->sent_ns = at_ns > from->sent_ns ? at_ns : from->sent_ns + 1;
    sim_at(from->sent_ns, msg_arrive, msg, 0);
}

static void msg_free(struct sim_cm_msg *msg)
{
    sim_pool_put(msg, sizeof(*msg));
}

/* A REJ written by the network, to a REQ that reached no id. */
static void reply_reject(const struct sim_cm_msg *req, uint16_t reason)
{
    struct sim_cm_msg *msg = sim_pool_get(sizeof(*msg));
    memset(msg, 0, sizeof(*msg));
    msg->kind = SIM_MSG_REJ;
    msg->from = NULL;
    msg->to = req->from;
    msg->from_node = req->to_node;
    msg->to_node = req->from_node;
    msg->reason = reason;
    sim_after(sim_latency(), msg_arrive, msg, 0);
}

/* ---- the sender's failures ---- */

static void msg_give_up(struct sim_cm_msg *msg)
{
    struct sim_id *id = msg->from;
    if (!id || id->obj.magic != SIM_ALIVE || id->gen != msg->from_gen)
        return;
    if (msg->kind == SIM_MSG_REQ && id->cm == SIM_CM_REQ_SENT) {
        id->cm = SIM_CM_OVER;
        sim_cm_post(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    } else if (msg->kind == SIM_MSG_REP && id->cm == SIM_CM_REP_SENT) {
        id->cm = SIM_CM_OVER;
        sim_cm_post(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    } else if (msg->kind == SIM_MSG_DREQ && id->cm == SIM_CM_DREQ_SENT) {
        if (id->state == SIM_ID_CONNECT) {
            id->state = SIM_ID_DISCONNECT;
            sim_cm_post(id, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT, NULL, 0);
        }
        sim_cm_timewait(id);
    }
}

static void msg_lost(struct sim_cm_msg *msg)
{
    /* The end of an iWARP stream is TCP's: its kernel says it again, whatever became of the id. */
    bool ends_stream = msg->kind == SIM_MSG_DREQ && sim_node_is_iwarp(msg->from_node);
    bool sender_is_gone = msg->from && msg->from->obj.magic != SIM_ALIVE && !ends_stream;
    sim_trace(SIM_T_CM_LOST, msg->from ? msg->from->obj.number : 0, msg->kind, msg->tries);
    if (msg->tries++ < (ends_stream ? STREAM_RETRIES : cm_retries()) && !sender_is_gone) {
        sim_after(cm_timeout_ns(), msg_arrive, msg, 0);
        return;
    }
    msg_give_up(msg);
    msg_free(msg);
}

/* The answer did not come in all the time the CM allows (the peer does not respond). */
static void answer_overdue(void *obj, uint64_t gen)
{
    struct sim_id *id = obj;
    if (id->obj.magic != SIM_ALIVE || id->gen != gen ||
        (id->cm != SIM_CM_REQ_SENT && id->cm != SIM_CM_REP_SENT))
        return;
    id->cm = SIM_CM_OVER;
    sim_cm_post(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
}

static void answer_expect(struct sim_id *id)
{
    sim_after(cm_timeout_ns() * (cm_retries() + 1), answer_overdue, id, id->gen);
}

static void timewait_over(void *obj, uint64_t gen)
{
    struct sim_id *id = obj;
    if (id->obj.magic != SIM_ALIVE || id->gen != gen || id->cm != SIM_CM_TIMEWAIT)
        return;
    id->cm = SIM_CM_OVER;
    if (id->state == SIM_ID_DISCONNECT)
        sim_cm_post(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL, 0);
}

void sim_cm_timewait(struct sim_id *id)
{
    id->cm = SIM_CM_TIMEWAIT;
    id->gen++;
    sim_after(sim.config.timewait_ns ? sim.config.timewait_ns : 2000000000, timewait_over, id,
              id->gen);
}

/* ---- arrival ---- */

static struct sim_id *request_id_new(struct sim_id *listener, const struct sim_cm_msg *msg)
{
    struct sim_id *id =
        sim_id_new(SIM_OF(listener->id.channel, struct sim_cm_channel, ch), NULL, listener->id.ps);
    id->obj.hidden = true; /* until the request is read */
    id->has_user = false;
    id->passive = true;
    id->state = SIM_ID_CONNECT;
    id->cm = SIM_CM_REQ_RCVD;
    id->peer = msg->from;
    id->remote_node = msg->from_node;
    id->remote_qpn = msg->qp_num;
    id->remote_psn = msg->psn;
    id->responder_resources = msg->initiator_depth;
    id->initiator_depth = msg->responder_resources;
    id->retry_count = msg->retry_count;
    id->rnr_retry_count = msg->rnr_retry_count;
    id->id.route.addr.src_storage = msg->dst;
    id->id.route.addr.dst_storage = msg->src;
    sim_id_attach(id, id->node);
    sim_node_gid(msg->from_node, sim_node_gid_index(msg->from_node),
                 &id->id.route.addr.addr.ibaddr.dgid);
    msg->from->peer = id;
    return id;
}

/* The same request once more: dropped while the kernel still knows the first, else it is new. */
static void request_repeat(const struct sim_cm_msg *msg, struct sim_id *fresh)
{
    if (msg->is_repeat || !sim_chance(sim.config.cm_repeat_ppm))
        return;
    sim_fault(FABRIC_CM_REPEATED);
    struct sim_cm_msg *again = sim_pool_get(sizeof(*again));
    *again = *msg;
    again->is_repeat = true;
    again->delivered_to = fresh;
    sim_after(1 + sim_below(cm_timeout_ns()), msg_arrive, again, 0);
}

/* The sender of REQ gets an answer, or hears in time that none came: answers may be lost too. */
static void answer_owed(const struct sim_cm_msg *req)
{
    if (req->from->obj.magic == SIM_ALIVE && req->from->gen == req->from_gen)
        answer_expect(req->from);
}

/* False: dropped, as if lost (the listener's backlog is full). */
static bool on_request(struct sim_cm_msg *msg)
{
    const struct sim_id *before = msg->delivered_to;
    if (before && before->obj.magic == SIM_ALIVE && before->cm != SIM_CM_OVER)
        return true;
    struct sim_id *listener = sim_id_listener(msg->to_node, msg->port);
    if (!listener) {
        reply_reject(msg, REJ_INVALID_SERVICE);
        answer_owed(msg);
        return true;
    }
    if (sim_chance(sim.config.cm_reject_ppm)) {
        static const uint16_t reasons[] = {REJ_NO_RESOURCES, REJ_STALE, REJ_CONSUMER,
                                           REJ_INVALID_SERVICE};
        sim_fault(FABRIC_CM_REJECTED);
        reply_reject(msg, reasons[sim_below(4)]);
        answer_owed(msg);
        return true;
    }
    if (listener->backlog == 0)
        return false;
    struct sim_id *fresh = request_id_new(listener, msg);
    sim_cm_post_request(listener, fresh, msg);
    if (!msg->is_repeat)
        sim_rank_asked(msg->from->obj.rank, listener->obj.rank);
    request_repeat(msg, fresh);
    answer_owed(msg);
    return true;
}

static void on_reply(struct sim_id *id, struct sim_cm_msg *msg)
{
    bool iwarp = sim_node_is_iwarp(id->node);
    if (!iwarp && msg->from->obj.magic == SIM_ALIVE && msg->from->gen == msg->from_gen)
        answer_expect(msg->from);
    if (id->obj.magic != SIM_ALIVE || id->cm != SIM_CM_REQ_SENT) {
        if (iwarp)
            sim_iw_closed(msg->from);
        return;
    }
    id->peer = msg->from;
    id->remote_qpn = msg->qp_num;
    id->remote_psn = msg->psn;
    id->initiator_depth = msg->responder_resources;
    id->responder_resources = msg->initiator_depth;
    id->rnr_retry_count = msg->rnr_retry_count;
    if (!iwarp) {
        id->cm = SIM_CM_REP_RCVD;
        sim_cm_post(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, msg, REP_BYTES);
        return;
    }
    struct sim_qp *qp = sim_qp_by_number(id->local_qpn);
    if (!qp || qp->state >= IBV_QPS_RTS) {
        id->cm = SIM_CM_OVER;
        sim_cm_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNABORTED, NULL, 0);
        sim_iw_closed(msg->from);
        return;
    }
    id->cm = SIM_CM_ESTABLISHED;
    sim_qp_iw_connect(qp, id, id->remote_qpn);
    sim_cm_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, msg, 0);
}

static void on_ready(struct sim_id *id)
{
    if (id->obj.magic != SIM_ALIVE || id->cm != SIM_CM_REP_SENT)
        return;
    id->cm = SIM_CM_ESTABLISHED;
    sim_cm_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
}

static void on_reject(struct sim_id *id, const struct sim_cm_msg *msg)
{
    if (id->obj.magic != SIM_ALIVE || id->cm == SIM_CM_NONE || id->cm >= SIM_CM_DREQ_RCVD)
        return;
    bool iwarp = sim_node_is_iwarp(id->node);
    id->cm = SIM_CM_OVER;
    if (id->state != SIM_ID_CONNECT)
        return;
    sim_cm_post(id, RDMA_CM_EVENT_REJECTED, iwarp ? -ECONNREFUSED : msg->reason, msg,
                iwarp ? 0 : REJ_BYTES);
}

static void on_disconnect(struct sim_id *id, const struct sim_cm_msg *msg)
{
    if (id->obj.magic != SIM_ALIVE || id->cm == SIM_CM_TIMEWAIT || id->cm == SIM_CM_OVER) {
        struct sim_cm_msg drep = {0};
        if (id->remote_node && msg->from->obj.magic == SIM_ALIVE)
            sim_cm_send(id, SIM_MSG_DREP, &drep);
        return;
    }
    if (id->cm != SIM_CM_REP_SENT && id->cm != SIM_CM_ESTABLISHED && id->cm != SIM_CM_DREQ_SENT)
        return;
    id->cm = SIM_CM_DREQ_RCVD;
    if (id->state != SIM_ID_CONNECT)
        return;
    id->state = SIM_ID_DISCONNECT;
    sim_cm_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}

static void on_disconnected(struct sim_id *id)
{
    if (id->obj.magic != SIM_ALIVE || (id->cm != SIM_CM_DREQ_SENT && id->cm != SIM_CM_DREQ_RCVD))
        return;
    if (id->state == SIM_ID_CONNECT) {
        id->state = SIM_ID_DISCONNECT;
        sim_cm_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    }
    sim_cm_timewait(id);
}

/* iWARP: the other end of the stream closed. */
static void on_stream_end(struct sim_id *id)
{
    if (id->obj.magic != SIM_ALIVE || id->cm != SIM_CM_ESTABLISHED)
        return;
    struct sim_qp *qp = sim_qp_by_number(id->local_qpn);
    if (qp && qp->iw_id == id)
        sim_qp_error(qp, "the peer closed");
    else
        sim_iw_closed(id);
}

static bool msg_deliver(struct sim_cm_msg *msg)
{
    if (msg->kind == SIM_MSG_REQ)
        return on_request(msg);
    if (!msg->to && msg->from)
        msg->to = msg->from->peer;
    if (!msg->to)
        return true; /* a hang-up that overtook its own request */
    switch (msg->kind) {
    case SIM_MSG_REP:
        on_reply(msg->to, msg);
        break;
    case SIM_MSG_RTU:
        on_ready(msg->to);
        break;
    case SIM_MSG_REJ:
        on_reject(msg->to, msg);
        break;
    case SIM_MSG_DREQ:
        if (sim_node_is_iwarp(msg->to_node))
            on_stream_end(msg->to);
        else
            on_disconnect(msg->to, msg);
        break;
    default:
        on_disconnected(msg->to);
        break;
    }
    return true;
}

static void msg_arrive(void *obj, uint64_t arg)
{
    struct sim_cm_msg *msg = obj;
    (void)arg;
    bool lost = !sim_path_up(msg->from_node, msg->to_node);
    if (!lost && sim_chance(sim.config.cm_lost_ppm)) {
        sim_fault(FABRIC_CM_LOST);
        lost = true;
    }
    if (lost || !msg_deliver(msg))
        msg_lost(msg);
    else
        msg_free(msg);
}

/* ---- an id goes away ---- */

void sim_cm_hangup(struct sim_id *id)
{
    struct sim_cm_msg msg = {0};
    enum sim_cm_state cm = id->cm;
    if (sim_node_is_iwarp(id->node) && cm == SIM_CM_ESTABLISHED) {
        struct sim_qp *qp = sim_qp_by_number(id->local_qpn);
        id->has_user = false;
        if (qp && qp->iw_id == id) {
            sim_stream_drain(qp);
            sim_qp_error(qp, "its id was destroyed");
            qp->iw_id = NULL;
        }
        return;
    }
    id->cm = SIM_CM_OVER;
    id->gen++;
    switch (cm) {
    case SIM_CM_REQ_SENT:
        msg.reason = REJ_TIMEOUT;
        sim_cm_send(id, SIM_MSG_REJ, &msg);
        break;
    case SIM_CM_REQ_RCVD:
    case SIM_CM_REP_SENT:
    case SIM_CM_REP_RCVD:
        msg.reason = REJ_CONSUMER;
        sim_cm_send(id, SIM_MSG_REJ, &msg);
        break;
    case SIM_CM_ESTABLISHED:
        sim_cm_send(id, SIM_MSG_DREQ, &msg);
        break;
    case SIM_CM_DREQ_RCVD:
        sim_cm_send(id, SIM_MSG_DREP, &msg);
        break;
    default:
        break;
    }
}

void sim_iw_closed(struct sim_id *id)
{
    if (!id || id->cm != SIM_CM_ESTABLISHED)
        return;
    id->cm = SIM_CM_OVER;
    struct sim_cm_msg msg = {0};
    if (id->peer)
        sim_cm_send(id, SIM_MSG_DREQ, &msg);
    sim_cm_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}
