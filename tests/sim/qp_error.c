/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A QP in the error state: its work is flushed, each queue in its own order, the two of them
 * interleaved as chance has it; an SRQ user gets "last WQE reached". What had left before the
 * failure may still arrive: such a ghost carries its own copy of the bytes, because the sender
 * gets its buffers back with the flush and may be gone altogether by the time it lands.
 */
#include "sim.h"

enum { FLUSH_NS = 500, GHOST_DELAY_NS = 100000 };

struct ghost {
    uint32_t from_qpn, to_qpn;
    struct sim_node *from_node;
    struct sim_wqe *wqe;
};

/* ---- flush ---- */

/* A well-behaved device flushes at once, a busy one in pieces. */
static uint64_t flush_share(void)
{
    return sim.config.jitter_ns ? 1 + sim_below(8) : UINT64_MAX;
}

static void flush_sends(struct sim_qp *qp, uint64_t share)
{
    while (qp->ack_next && share-- > 0) {
        struct sim_wqe *wqe = qp->ack_next;
        qp->ack_next = wqe->next;
        wqe->state = SIM_WQE_DONE;
        if (!wqe->completed)
            sim_wqe_complete(qp, wqe, IBV_WC_WR_FLUSH_ERR);
    }
    qp->tx_next = qp->early_next = qp->ack_next;
    sim_sq_reap(qp);
}

static void flush_receives(struct sim_qp *qp, uint64_t share)
{
    while (qp->rq.posted > 0 && share-- > 0)
        sim_push_recv(qp, sim_rq_take(&qp->rq), NULL, IBV_WC_WR_FLUSH_ERR);
}

static void flush_run(void *obj, uint64_t gen)
{
    struct sim_qp *qp = obj;
    if (qp->obj.magic != SIM_ALIVE || gen != qp->tx_gen || !qp->flushing)
        return;
    qp->flushing = false;
    flush_sends(qp, flush_share());
    if (qp->flush_recvs)
        flush_receives(qp, flush_share());
    if (qp->ack_next || (qp->flush_recvs && qp->rq.posted > 0)) {
        sim_qp_flush(qp, qp->flush_recvs);
        return;
    }
    qp->flush_recvs = false;
    if (qp->init.srq && !qp->last_wqe_raised && !sim.config.no_last_wqe_event) {
        qp->last_wqe_raised = true;
        sim_async_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
}

void sim_qp_flush(struct sim_qp *qp, bool and_receives)
{
    qp->flush_recvs |= and_receives;
    if (qp->flushing)
        return;
    qp->flushing = true;
    sim_after(FLUSH_NS + sim_below(sim.config.jitter_ns), flush_run, qp, qp->tx_gen);
}

/* ---- what had left already ---- */

static void ghost_run(void *obj, uint64_t arg)
{
    struct ghost *ghost = obj;
    (void)arg;
    struct sim_qp *qp = sim_qp_by_number(ghost->to_qpn);
    bool taken = false;
    if (qp && qp->attr.dest_qp_num == ghost->from_qpn && sim_path_up(ghost->from_node, qp->node)) {
        enum ibv_wc_status status;
        taken = sim_respond(qp, NULL, ghost->wqe, &status) == SIM_ANSWER_ACK;
    }
    sim.counters.ghosts += taken;
    sim_trace(SIM_T_GHOST, ghost->from_qpn, ghost->wqe->seq, taken);
    sim_wqe_free(ghost->wqe);
    sim_pool_put(ghost, sizeof(*ghost));
}

static void ghost_spawn(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    struct ghost *ghost = sim_pool_get(sizeof(*ghost));
    *ghost = (struct ghost){qp->qp.qp_num, qp->attr.dest_qp_num, qp->node, NULL};
    ghost->wqe = sim_pool_get(wqe->bytes);
    memcpy(ghost->wqe, wqe, wqe->bytes);
    ghost->wqe->copy = NULL;
    if (wqe->copy) { /* sim_wqe_copy() lets go of keys; these are not held */
        ghost->wqe->copy = sim_pool_get(wqe->length ? wqe->length : 1);
        memcpy(ghost->wqe->copy, wqe->copy, wqe->length);
        ghost->wqe->sge[0].addr = (uintptr_t)ghost->wqe->copy;
    } else {
        sim_sge_hold(wqe->sge, wqe->num_sge, 1);
        sim_wqe_copy(ghost->wqe);
    }
    uint64_t most = sim.config.ghost_delay_ns ? sim.config.ghost_delay_ns : GHOST_DELAY_NS;
    sim_after(1 + sim_below(most), ghost_run, ghost, 0);
}

static bool has_left(const struct sim_wqe *wqe)
{
    return wqe->state == SIM_WQE_QUEUED && !wqe->executed && !sim_wqe_is_read(wqe) &&
           (wqe->copy || sim_sge_alive(wqe->sge, wqe->num_sge));
}

static void partial_write(struct sim_qp *qp)
{
    struct sim_wqe *wqe = qp->tx_next;
    struct sim_qp *peer = sim_qp_peer(qp);
    if (!wqe || wqe->opcode != IBV_WR_RDMA_WRITE || !has_left(wqe) || wqe->length < 2 || !peer ||
        peer->state < IBV_QPS_RTR || peer->state == IBV_QPS_ERR || wqe->seq != peer->rx_seq ||
        !sim_path_up(qp->node, peer->node) || !sim_chance(sim.config.partial_write_ppm))
        return;
    if (sim_key_check(wqe->rkey, true, peer->qp.pd, wqe->remote_addr, wqe->length,
                      IBV_ACCESS_REMOTE_WRITE) != SIM_KEY_OK)
        return;
    uint64_t bytes = 1 + sim_below(wqe->length - 1);
    struct ibv_sge to = {.addr = wqe->remote_addr, .length = (uint32_t)bytes};
    sim_sge_copy(&to, 1, wqe->sge, wqe->num_sge, bytes);
    sim_trace(SIM_T_PARTIAL, qp->qp.qp_num, bytes, wqe->seq);
}

/* Each ghost is of use only if the one before it arrived: the first that is lost ends the row. */
void sim_ghosts_spawn(struct sim_qp *qp)
{
    if (sim_qp_is_ud(qp) || (sim.config.ghost_ppm == 0 && sim.config.partial_write_ppm == 0))
        return;
    partial_write(qp);
    for (struct sim_wqe *wqe = qp->tx_next; wqe && has_left(wqe); wqe = wqe->next) {
        if (wqe->ready_ns > sim.now_ns + sim.config.jitter_ns + 1000 ||
            !sim_chance(sim.config.ghost_ppm))
            break;
        ghost_spawn(qp, wqe);
    }
}

/* ---- the step into the error state ---- */

void sim_qp_error(struct sim_qp *qp, const char *why)
{
    if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
        return;
    if (why)
        sim_trace(SIM_T_QP_ERROR, qp->qp.qp_num, qp->state, 0);
    if (qp->state == IBV_QPS_RTS)
        sim_ghosts_spawn(qp);
    qp->tx_gen++;
    qp->ack_gen++;
    qp->tx_armed = qp->ack_armed = qp->early_armed = false;
    qp->flushing = false;
    qp->reads_out = 0;
    sim_qp_set_state(qp, IBV_QPS_ERR);
    sim_qp_flush(qp, true);
    if (qp->iw_id)
        sim_iw_closed(qp->iw_id);
}

void fabric_qp_fail(uint32_t qp_num)
{
    struct sim_qp *qp = sim_qp_by_number(qp_num);
    if (!qp || qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
        return;
    sim_async_qp(qp, IBV_EVENT_QP_FATAL);
    sim_qp_error(qp, "fatal");
}
