/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM event channels. An event counts, from the moment it is read, against the id whose
 * destruction waits for its acknowledgement: the listener for a connection request, the id
 * itself for all others (librdmacm/cma.c). Unread events go with their id.
 */
#include "sim.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
    if (sim.current < 0 || sim_rank_is_dead(sim.current) ||
        sim_fails(FABRIC_FAIL_CM, "rdma_create_event_channel")) {
        errno = sim.current < 0 ? ENODEV : ENOMEM;
        return NULL;
    }
    struct sim_cm_channel *channel = sim_obj_new(SIM_CM_CHANNEL, sizeof(*channel), 0);
    sim_fd_open(&channel->event);
    channel->ch.fd = channel->event.fd;
    return &channel->ch;
}

void rdma_destroy_event_channel(struct rdma_event_channel *ibv)
{
    struct sim_cm_channel *channel = SIM_OF(ibv, struct sim_cm_channel, ch);
    if (!sim_obj_check(&channel->obj, SIM_CM_CHANNEL, "rdma_destroy_event_channel"))
        return;
    if (channel->ids > 0)
        sim_violation("rdma_destroy_event_channel: %d ids of the channel are not destroyed",
                      channel->ids);
    sim_fd_close(&channel->event);
    sim_obj_kill(&channel->obj);
}

/* ---- posting ---- */

static void enqueue(struct sim_cm_event *event)
{
    struct sim_cm_channel *channel = SIM_OF(event->owner->id.channel, struct sim_cm_channel, ch);
    if (channel->tail)
        channel->tail->next = event;
    else
        channel->head = event;
    channel->tail = event;
    sim.counters.cm_events++;
    sim_fd_raise(&channel->event);
}

static struct sim_cm_event *event_new(struct sim_id *owner, struct sim_id *id,
                                      enum rdma_cm_event_type type, int status,
                                      const struct sim_cm_msg *msg, uint16_t padded_len)
{
    struct sim_cm_event *event = sim_obj_new(SIM_CM_EVENT, sizeof(*event), 0);
    event->obj.hidden = true; /* until it is read */
    event->obj.rank = owner->obj.rank;
    event->owner = owner;
    event->id = id;
    event->ev.id = &id->id;
    event->ev.event = type;
    event->ev.status = status;
    sim_trace(SIM_T_CM_EVENT, id->obj.number, type, (uint64_t)(int64_t)status);
    if (!msg)
        return event;
    struct rdma_conn_param *param = &event->ev.param.conn;
    memcpy(event->data, msg->data, msg->data_len);
    param->private_data_len = (uint8_t)(padded_len ? padded_len : msg->data_len);
    param->private_data = param->private_data_len ? event->data : NULL;
    param->responder_resources = msg->initiator_depth;
    param->initiator_depth = msg->responder_resources;
    param->flow_control = msg->flow_control;
    param->retry_count = msg->retry_count;
    param->rnr_retry_count = msg->rnr_retry_count;
    param->srq = msg->srq;
    param->qp_num = msg->qp_num;
    return event;
}

static bool may_repeat(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_DISCONNECTED ||
           type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_TIMEWAIT_EXIT;
}

void sim_cm_post(struct sim_id *id, enum rdma_cm_event_type type, int status,
                 const struct sim_cm_msg *msg, uint16_t padded_len)
{
    if (id->obj.magic != SIM_ALIVE || !id->has_user)
        return;
    enqueue(event_new(id, id, type, status, msg, padded_len));
    if (may_repeat(type) && sim_chance(sim.config.cm_repeat_ppm)) {
        sim_fault(FABRIC_CM_REPEATED);
        enqueue(event_new(id, id, type, status, msg, padded_len));
    }
}

void sim_cm_post_join(struct sim_member *member, int status)
{
    struct sim_id *id = member->id;
    enum rdma_cm_event_type type =
        status ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN;
    if (!id->has_user)
        return;
    struct sim_cm_event *event = event_new(id, id, type, status, NULL, 0);
    event->member = member;
    sim_member_param(member, status == 0, &event->ev.param.ud);
    enqueue(event);
}

void sim_cm_post_request(struct sim_id *listener, struct sim_id *fresh,
                         const struct sim_cm_msg *msg)
{
    uint16_t padded_len = sim_node_is_iwarp(listener->node) ? 0 : 56;
    enqueue(event_new(listener, fresh, RDMA_CM_EVENT_CONNECT_REQUEST, 0, msg, padded_len));
    listener->backlog--;
}

void sim_cm_forget(struct sim_id *id, const struct sim_member *member)
{
    struct sim_cm_channel *channel = SIM_OF(id->id.channel, struct sim_cm_channel, ch);
    struct sim_cm_event **at = &channel->head, *last = NULL;
    while (*at) {
        struct sim_cm_event *event = *at;
        if (event->owner != id || (member && event->member != member)) {
            last = event;
            at = &event->next;
            continue;
        }
        *at = event->next;
        if (event->id != id) { /* a request that nobody will read */
            sim_cm_hangup(event->id);
            channel->ids--;
            sim_obj_kill(&event->id->obj);
        }
        sim_obj_kill(&event->obj);
    }
    channel->tail = last;
    if (!channel->head)
        sim_fd_lower(&channel->event);
}

/* ---- reading and acknowledging ---- */

/* What librdmacm does with an event on its way to the program. */
static void event_process(struct sim_cm_event *event)
{
    struct sim_id *id = event->id;
    if (event->ev.event == RDMA_CM_EVENT_ADDR_RESOLVED) {
        int error = sim_id_attach(id, id->node);
        if (error) {
            event->ev.event = RDMA_CM_EVENT_ADDR_ERROR;
            event->ev.status = -error;
        }
        if (id->remote_node)
            sim_node_gid(id->remote_node, sim_node_gid_index(id->remote_node),
                         &id->id.route.addr.addr.ibaddr.dgid);
    } else if (event->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        event->ev.listen_id = &event->owner->id;
        event->owner->backlog++;
        id->obj.hidden = false;
        id->id.context = event->owner->id.context;
    }
}

int rdma_get_cm_event(struct rdma_event_channel *ibv, struct rdma_cm_event **out)
{
    struct sim_cm_channel *channel = SIM_OF(ibv, struct sim_cm_channel, ch);
    if (!sim_obj_check(&channel->obj, SIM_CM_CHANNEL, "rdma_get_cm_event") || !out)
        return sim_err(EINVAL);
    struct sim_cm_event *event = channel->head;
    if (!event)
        return sim_fd_empty(&channel->event, "rdma_get_cm_event");
    if (sim_fails(FABRIC_FAIL_CM, "rdma_get_cm_event"))
        return sim_err(ENOMEM);
    channel->head = event->next;
    if (!channel->head) {
        channel->tail = NULL;
        sim_fd_lower(&channel->event);
    }
    event->obj.hidden = false;
    event->owner->reported++;
    if (event->member)
        event->member->reported++;
    event_process(event);
    *out = &event->ev;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *ibv)
{
    if (!ibv)
        return sim_err(EINVAL);
    struct sim_cm_event *event = SIM_OF(ibv, struct sim_cm_event, ev);
    if (!sim_obj_check(&event->obj, SIM_CM_EVENT, "rdma_ack_cm_event"))
        return sim_err(EINVAL);
    event->owner->acked++;
    if (event->member)
        event->member->acked++;
    memset(event->data, 0xdb, sizeof(event->data)); /* it was freed: nobody may still read it */
    memset(&event->ev, 0xdb, sizeof(event->ev));
    sim_obj_kill(&event->obj);
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *ibv, struct rdma_event_channel *ibv_channel)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_migrate_id");
    if (!id || !ibv_channel)
        return sim_err(EINVAL);
    if (sim_fails(FABRIC_FAIL_CM, "rdma_migrate_id"))
        return sim_err(ENOMEM);
    if (id->reported != id->acked)
        sim_violation("rdma_migrate_id would hang: %u events of id %u are not acknowledged",
                      id->reported - id->acked, id->obj.number);
    struct sim_cm_channel *from = SIM_OF(ibv->channel, struct sim_cm_channel, ch);
    struct sim_cm_channel *to = SIM_OF(ibv_channel, struct sim_cm_channel, ch);
    struct sim_cm_event *event = from->head;
    from->head = from->tail = NULL;
    sim_fd_lower(&from->event);
    from->ids--;
    to->ids++;
    ibv->channel = ibv_channel;
    while (event) { /* back in order, each to its id's channel */
        struct sim_cm_event *next = event->next;
        event->next = NULL;
        enqueue(event);
        event = next;
    }
    return 0;
}
