/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues and their channels. A completion is in the ring from the moment the device
 * writes it; with cq_hold_ns it becomes visible to polling, and raises its event, only later,
 * together with those that gathered meanwhile.
 */
#include "sim.h"

/* ---- channels ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_create_comp_channel"))
        return NULL;
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_VERBS, "ibv_create_comp_channel")) {
        errno = EMFILE;
        return NULL;
    }
    struct sim_channel *channel = sim_obj_new(SIM_CHANNEL, sizeof(*channel), 0);
    sim_fd_open(&channel->event);
    channel->ch.context = ibv;
    channel->ch.fd = channel->event.fd;
    context->users++;
    return &channel->ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    struct sim_channel *channel = SIM_OF(ibv, struct sim_channel, ch);
    if (!sim_obj_check(&channel->obj, SIM_CHANNEL, "ibv_destroy_comp_channel"))
        return EINVAL;
    if (channel->ch.refcnt > 0) {
        sim_violation("ibv_destroy_comp_channel: %d CQs still use channel %u", channel->ch.refcnt,
                      channel->obj.number);
        return EBUSY;
    }
    sim_context_of(ibv->context)->users--;
    sim_fd_close(&channel->event);
    sim_obj_kill(&channel->obj);
    return 0;
}

static void channel_push(struct sim_channel *channel, struct sim_cq *cq)
{
    if (channel->count == channel->cap) {
        uint32_t cap = channel->cap ? channel->cap * 2 : 8;
        struct sim_cq **queue = sim_zalloc(cap * sizeof(struct sim_cq *));
        for (uint32_t i = 0; i < channel->count; i++)
            queue[i] = channel->queue[(channel->head + i) % channel->cap];
        sim_release(channel->queue);
        channel->queue = queue;
        channel->cap = cap;
        channel->head = 0;
    }
    channel->queue[(channel->head + channel->count++) % channel->cap] = cq;
    sim_fd_raise(&channel->event);
}

static void channel_forget(struct sim_channel *channel, const struct sim_cq *cq)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < channel->count; i++) {
        struct sim_cq *other = channel->queue[(channel->head + i) % channel->cap];
        if (other != cq)
            channel->queue[(channel->head + kept++) % channel->cap] = other;
    }
    channel->count = kept;
    if (kept == 0)
        sim_fd_lower(&channel->event);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **out, void **cq_context)
{
    struct sim_channel *channel = SIM_OF(ibv, struct sim_channel, ch);
    if (!sim_obj_check(&channel->obj, SIM_CHANNEL, "ibv_get_cq_event"))
        return sim_err(EINVAL);
    if (channel->count == 0)
        return sim_fd_empty(&channel->event, "ibv_get_cq_event");
    struct sim_cq *cq = channel->queue[channel->head];
    channel->head = (channel->head + 1) % channel->cap;
    if (--channel->count == 0)
        sim_fd_lower(&channel->event);
    cq->reported++;
    *out = &cq->cq;
    *cq_context = cq->cq.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned int nevents)
{
    struct sim_cq *cq = SIM_OF(ibv, struct sim_cq, cq);
    if (!sim_obj_check(&cq->obj, SIM_CQ, "ibv_ack_cq_events"))
        return;
    if (nevents > cq->reported - cq->acked)
        sim_violation("ibv_ack_cq_events: %u acknowledged, %u were outstanding on CQ %u", nevents,
                      cq->reported - cq->acked, cq->obj.number);
    else
        cq->acked += nevents;
}

/* ---- queues ---- */

struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    struct sim_context *context = sim_context_of(ibv);
    errno = EINVAL;
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_create_cq"))
        return NULL;
    if (cqe < 1 || cqe > context->node->attr.max_cqe || comp_vector < 0 ||
        comp_vector >= ibv->num_comp_vectors)
        return NULL;
    if (channel && channel->context != ibv) {
        sim_violation("ibv_create_cq: the channel belongs to another context");
        return NULL;
    }
    bool dead = sim_rank_is_dead(sim.current) || context->node->removed;
    if (dead || sim_fails(FABRIC_FAIL_VERBS, "ibv_create_cq")) {
        errno = dead ? EIO : ENOMEM;
        return NULL;
    }
    struct sim_cq *cq = sim_obj_new(SIM_CQ, sizeof(*cq), 0);
    cq->cq.context = ibv;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    cq->cq.handle = cq->obj.number;
    cq->cq.cqe = cqe;
    if (channel)
        channel->refcnt++;
    context->users++;
    return &cq->cq;
}

/* Slots of receives whose completions go with the CQ are not given back: their queue follows. */
static void cqes_drop(struct sim_cq *cq)
{
    for (; cq->count > 0; cq->count--) {
        struct sim_cqe *cqe = &cq->ring[cq->head];
        if (cqe->rwqe)
            sim_rwqe_done(cqe->rwqe);
        cq->head = (cq->head + 1) & (cq->cap - 1);
    }
    cq->visible = 0;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
    struct sim_cq *cq = SIM_OF(ibv, struct sim_cq, cq);
    if (!sim_obj_check(&cq->obj, SIM_CQ, "ibv_destroy_cq"))
        return EINVAL;
    if (cq->users > 0) {
        sim_violation("ibv_destroy_cq: %d QPs still use CQ %u", cq->users, cq->obj.number);
        return EBUSY;
    }
    if (cq->reported != cq->acked)
        sim_violation("ibv_destroy_cq would hang: %u events of CQ %u are not acknowledged",
                      cq->reported - cq->acked, cq->obj.number);
    if (cq->async_reported != cq->async_acked)
        sim_violation("ibv_destroy_cq would hang: an async event of CQ %u is not acknowledged",
                      cq->obj.number);
    if (ibv->channel) {
        ibv->channel->refcnt--;
        channel_forget(SIM_OF(ibv->channel, struct sim_channel, ch), cq);
    }
    struct sim_context *context = sim_context_of(ibv->context);
    context->users--;
    sim_async_forget(context, ibv);
    cqes_drop(cq);
    sim_obj_kill(&cq->obj);
    return 0;
}

int sim_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
    struct sim_cq *cq = SIM_OF(ibv, struct sim_cq, cq);
    if (!sim_obj_check(&cq->obj, SIM_CQ, "ibv_req_notify_cq"))
        return EINVAL;
    if (!ibv->channel)
        sim_violation("ibv_req_notify_cq: CQ %u has no channel", cq->obj.number);
    if (!solicited_only)
        cq->arm = SIM_ARM_ANY;
    else if (cq->arm == SIM_ARM_NONE)
        cq->arm = SIM_ARM_SOLICITED;
    return 0;
}

/* ---- the device writes completions ---- */

static void cq_show(struct sim_cq *cq, bool solicited)
{
    cq->visible = cq->count;
    if (cq->arm == SIM_ARM_NONE || (cq->arm == SIM_ARM_SOLICITED && !solicited))
        return;
    cq->arm = SIM_ARM_NONE;
    if (cq->cq.channel)
        channel_push(SIM_OF(cq->cq.channel, struct sim_channel, ch), cq);
}

static void cq_hold_over(void *obj, uint64_t arg)
{
    struct sim_cq *cq = obj;
    (void)arg;
    cq->hold_armed = false;
    if (cq->obj.magic == SIM_ALIVE && cq->count > cq->visible)
        cq_show(cq, cq->held_solicited);
    cq->held_solicited = false;
}

static void cq_grow(struct sim_cq *cq)
{
    uint32_t cap = cq->cap ? cq->cap * 2 : 16;
    struct sim_cqe *ring = sim_zalloc(cap * sizeof(*ring));
    for (uint32_t i = 0; i < cq->count; i++)
        ring[i] = cq->ring[(cq->head + i) & (cq->cap - 1)];
    sim_release(cq->ring);
    cq->ring = ring;
    cq->cap = cap;
    cq->head = 0;
}

static void cq_overrun(struct sim_cq *cq)
{
    cq->overrun = true;
    sim_violation("CQ %u overruns: all its %d entries are taken", cq->obj.number, cq->cq.cqe);
    struct ibv_async_event event = {.element.cq = &cq->cq, .event_type = IBV_EVENT_CQ_ERR};
    sim_async_raise(sim_context_of(cq->cq.context), &event);
}

void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe, bool solicited)
{
    if (cq->overrun || cq->obj.magic != SIM_ALIVE)
        return;
    if (cq->count == (uint32_t)cq->cq.cqe) {
        cq_overrun(cq);
        return;
    }
    if (cq->count == cq->cap)
        cq_grow(cq);
    cq->ring[(cq->head + cq->count++) & (cq->cap - 1)] = *cqe;
    sim.counters.completions++;
    sim_trace(SIM_T_CQE, cq->obj.number, cqe->wc.qp_num, cqe->wc.status);
    solicited |= cqe->wc.status != IBV_WC_SUCCESS;
    if (sim.config.cq_hold_ns == 0 && !cq->hold_armed) {
        cq_show(cq, solicited);
        return;
    }
    cq->held_solicited |= solicited;
    if (!cq->hold_armed) {
        cq->hold_armed = true;
        sim_after(sim_below(sim.config.cq_hold_ns), cq_hold_over, cq, 0);
    }
}

/* Its QP is gone, unpolled as it is: its buffers are the program's again. */
static void receive_detach(struct sim_rwqe *rwqe, bool is_shared)
{
    sim_sge_hold(rwqe->sge, rwqe->num_sge, -1);
    rwqe->num_sge = 0;
    if (!is_shared)
        rwqe->rq = NULL;
}

/* Nothing completes any more that does not show at once. */
void sim_cq_detach(struct sim_cq *cq, struct sim_qp *qp, bool purge)
{
    uint32_t kept = 0, visible = 0;
    bool held = false;
    for (uint32_t i = 0; i < cq->count; i++) {
        struct sim_cqe cqe = cq->ring[(cq->head + i) & (cq->cap - 1)];
        if (cqe.qp == qp && purge) {
            if (cqe.rwqe)
                sim_rwqe_done(cqe.rwqe);
            continue;
        }
        if (cqe.qp == qp) {
            cqe.qp = NULL;
            cqe.wqe = NULL;
            if (cqe.rwqe)
                receive_detach(cqe.rwqe, qp->init.srq != NULL);
            held |= i >= cq->visible;
        }
        visible += i < cq->visible;
        cq->ring[(cq->head + kept++) & (cq->cap - 1)] = cqe;
    }
    cq->count = kept;
    cq->visible = visible;
    if (held)
        cq_show(cq, cq->held_solicited);
}

/* ---- polling ---- */

/* What a failed completion leaves undefined is made useless, so that nobody relies on it. */
static void wc_spoil(struct ibv_wc *wc)
{
    struct ibv_wc spoiled = {.wr_id = wc->wr_id,
                             .status = wc->status,
                             .qp_num = wc->qp_num,
                             .vendor_err = wc->vendor_err};
    uint64_t noise = sim_rand();
    spoiled.opcode = noise & 1 ? IBV_WC_RECV : (enum ibv_wc_opcode)(noise >> 1 & 3);
    spoiled.byte_len = (uint32_t)(noise >> 32);
    spoiled.imm_data = (__be32)(noise >> 16);
    spoiled.src_qp = (uint32_t)(noise >> 8);
    spoiled.wc_flags = noise & 2 ? IBV_WC_WITH_IMM : 0;
    *wc = spoiled;
}

int sim_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
    struct sim_cq *cq = SIM_OF(ibv, struct sim_cq, cq);
    if (!sim_obj_check(&cq->obj, SIM_CQ, "ibv_poll_cq"))
        return -1;
    int count = 0;
    for (; count < num_entries && cq->visible > 0; count++) {
        struct sim_cqe *cqe = &cq->ring[cq->head];
        wc[count] = cqe->wc;
        if (cqe->wc.status != IBV_WC_SUCCESS)
            wc_spoil(&wc[count]);
        if (cqe->wqe)
            sim_wqe_retire(cqe->qp, cqe->wqe);
        if (cqe->rwqe)
            sim_rwqe_done(cqe->rwqe);
        cq->head = (cq->head + 1) & (cq->cap - 1);
        cq->count--;
        cq->visible--;
    }
    if (count > 0)
        sim_trace(SIM_T_POLL, cq->obj.number, (uint64_t)count, cq->count);
    return count;
}
