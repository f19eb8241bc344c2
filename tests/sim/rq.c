/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives: a QP's own queue and shared receive queues with their limit event.
 *
 * A receive's slot is taken from the post until its completion is polled (as mlx4/5 count), its
 * buffer is the device's for as long; its first and last bytes are summed at the post and looked
 * at again when a message arrives.
 */
#include "sim.h"

/* ---- any receive queue ---- */

static int rq_check(const struct sim_rq *rq, const struct ibv_recv_wr *wr, const char *call)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
        sim_violation("%s: %d scatter entries, the queue was made for %u", call, wr->num_sge,
                      rq->max_sge);
        return EINVAL;
    }
    return rq->used >= rq->max_wr ? ENOMEM : 0;
}

int sim_rq_post(struct sim_rq *rq, const struct ibv_recv_wr *wr, const char *call)
{
    int error = rq_check(rq, wr, call);
    if (error)
        return error;
    size_t bytes = sizeof(struct sim_rwqe) + (size_t)wr->num_sge * sizeof(struct ibv_sge);
    struct sim_rwqe *rwqe = sim_pool_get(bytes);
    rwqe->next = NULL;
    rwqe->wr_id = wr->wr_id;
    rwqe->rq = rq;
    rwqe->bytes = (uint32_t)bytes;
    rwqe->num_sge = wr->num_sge;
    for (int i = 0; i < wr->num_sge; i++)
        rwqe->sge[i] = wr->sg_list[i];
    sim_sge_hold(rwqe->sge, rwqe->num_sge, 1);
    if (!sim.config.no_buffer_checks && sim_sge_alive(rwqe->sge, rwqe->num_sge))
        rwqe->sum = sim_sum_edges(rwqe->sge, rwqe->num_sge);
    if (rq->tail)
        rq->tail->next = rwqe;
    else
        rq->head = rwqe;
    rq->tail = rwqe;
    rq->posted++;
    rq->used++;
    return 0;
}

struct sim_rwqe *sim_rq_take(struct sim_rq *rq)
{
    struct sim_rwqe *rwqe = rq->head;
    if (!rwqe)
        return NULL;
    rq->head = rwqe->next;
    if (!rq->head)
        rq->tail = NULL;
    rq->posted--;
    if (!sim.config.no_buffer_checks && sim_sge_alive(rwqe->sge, rwqe->num_sge) &&
        sim_sum_edges(rwqe->sge, rwqe->num_sge) != rwqe->sum)
        sim_violation("a receive buffer was changed while it was posted (%u bytes)",
                      rwqe->num_sge ? rwqe->sge[0].length : 0);
    return rwqe;
}

void sim_rwqe_done(struct sim_rwqe *rwqe)
{
    sim_sge_hold(rwqe->sge, rwqe->num_sge, -1);
    if (rwqe->rq)
        rwqe->rq->used--;
    sim_pool_put(rwqe, rwqe->bytes);
}

void sim_rq_drop(struct sim_rq *rq)
{
    while (rq->head) {
        struct sim_rwqe *rwqe = rq->head;
        rq->head = rwqe->next;
        rwqe->rq = NULL;
        sim_rwqe_done(rwqe);
    }
    *rq = (struct sim_rq){.max_wr = rq->max_wr, .max_sge = rq->max_sge};
}

int sim_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    int error = 0;
    uint64_t count = 0;
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_post_recv"))
        error = EINVAL;
    else if (sim_rank_is_dead(sim.current))
        error = EIO;
    else if (qp->init.srq || qp->state == IBV_QPS_RESET) {
        sim_violation("ibv_post_recv: QP %u %s", ibv->qp_num,
                      qp->init.srq ? "receives from an SRQ" : "is in the reset state");
        error = EINVAL;
    } else if (sim_fails_armed(FABRIC_FAIL_VERBS, "ibv_post_recv"))
        error = ENOMEM;
    for (; wr && !error; wr = error ? wr : wr->next, count += !error)
        error = sim_rq_post(&qp->rq, wr, "ibv_post_recv");
    if (error)
        *bad = wr;
    else
        sim_trace(SIM_T_POST_RECV, ibv->qp_num, count, 0);
    if (qp->state == IBV_QPS_ERR && !sim.config.late_recvs_stay)
        sim_qp_flush(qp, true);
    return error;
}

/* ---- shared receive queues ---- */

static void srq_limit_check(struct sim_srq *srq)
{
    if (srq->limit == 0 || srq->rq.posted >= srq->limit)
        return;
    srq->limit = 0;
    struct ibv_async_event event = {.element.srq = &srq->srq,
                                    .event_type = IBV_EVENT_SRQ_LIMIT_REACHED};
    sim_async_raise(sim_context_of(srq->srq.context), &event);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *ibv, struct ibv_srq_init_attr *init)
{
    struct sim_pd *pd = SIM_OF(ibv, struct sim_pd, pd);
    errno = EINVAL;
    if (!sim_obj_check(&pd->obj, SIM_PD, "ibv_create_srq"))
        return NULL;
    const struct sim_node *node = sim_context_of(ibv->context)->node;
    if (node->attr.no_srq) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    uint32_t max_sge = node->attr.max_sge > 27 ? 27 : (uint32_t)node->attr.max_sge;
    if (init->attr.max_wr == 0 || init->attr.max_wr > (uint32_t)node->attr.max_srq_wr ||
        init->attr.max_sge > max_sge)
        return NULL;
    bool dead = sim_rank_is_dead(sim.current) || node->removed;
    if (dead || sim_fails(FABRIC_FAIL_VERBS, "ibv_create_srq")) {
        errno = dead ? EIO : ENOMEM;
        return NULL;
    }
    struct sim_srq *srq = sim_obj_new(SIM_SRQ, sizeof(*srq), 0);
    srq->rq.max_wr = init->attr.max_wr;
    srq->rq.max_sge = init->attr.max_sge ? init->attr.max_sge : 1;
    srq->srq.context = ibv->context;
    srq->srq.srq_context = init->srq_context;
    srq->srq.pd = ibv;
    srq->srq.handle = srq->obj.number;
    pd->users++;
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
    struct sim_srq *srq = SIM_OF(ibv, struct sim_srq, srq);
    if (!sim_obj_check(&srq->obj, SIM_SRQ, "ibv_modify_srq") || (mask & ~IBV_SRQ_LIMIT))
        return EINVAL;
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_modify_srq"))
        return ENOMEM;
    if (attr->srq_limit > srq->rq.max_wr)
        return EINVAL;
    srq->limit = attr->srq_limit;
    if (sim.config.srq_limit_at_arm)
        srq_limit_check(srq);
    return 0;
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
    struct sim_srq *srq = SIM_OF(ibv, struct sim_srq, srq);
    if (!sim_obj_check(&srq->obj, SIM_SRQ, "ibv_query_srq"))
        return EINVAL;
    *attr = (struct ibv_srq_attr){
        .max_wr = srq->rq.max_wr, .max_sge = srq->rq.max_sge, .srq_limit = srq->limit};
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
    struct sim_srq *srq = SIM_OF(ibv, struct sim_srq, srq);
    if (!sim_obj_check(&srq->obj, SIM_SRQ, "ibv_destroy_srq"))
        return EINVAL;
    if (srq->users > 0) {
        sim_violation("ibv_destroy_srq: %d QPs still use SRQ %u", srq->users, srq->obj.number);
        return EBUSY;
    }
    if (srq->async_reported != srq->async_acked)
        sim_violation("ibv_destroy_srq would hang: an async event of SRQ %u is not acknowledged",
                      srq->obj.number);
    sim_async_forget(sim_context_of(ibv->context), ibv);
    SIM_OF(ibv->pd, struct sim_pd, pd)->users--;
    sim_rq_drop(&srq->rq);
    sim_obj_kill(&srq->obj);
    return 0;
}

int sim_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct sim_srq *srq = SIM_OF(ibv, struct sim_srq, srq);
    int error = 0;
    uint64_t count = 0;
    if (!sim_obj_check(&srq->obj, SIM_SRQ, "ibv_post_srq_recv"))
        error = EINVAL;
    else if (sim_rank_is_dead(sim.current))
        error = EIO;
    else if (sim_fails_armed(FABRIC_FAIL_VERBS, "ibv_post_srq_recv"))
        error = ENOMEM;
    for (; wr && !error; wr = error ? wr : wr->next, count += !error)
        error = sim_rq_post(&srq->rq, wr, "ibv_post_srq_recv");
    if (error)
        *bad = wr;
    else
        sim_trace(SIM_T_POST_RECV, 0x1000000u + srq->obj.number, count, 0);
    return error;
}

struct sim_rwqe *sim_srq_take(struct sim_srq *srq)
{
    struct sim_rwqe *rwqe = sim_rq_take(&srq->rq);
    srq_limit_check(srq);
    return rwqe;
}
