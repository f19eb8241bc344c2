/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester: takes a QP's work requests to the other side, in order, and completes them.
 *
 * Operation: each request has a time of arrival. One event a QP carries its oldest request over
 * (and those due with it), another returns acknowledgements; both follow the QP's order, while
 * different QPs interleave as their random delays have it. A message that is lost, or meets a
 * receiver that is not ready, holds up the requests behind it until the QP's timer tries again.
 *
 * Errors: the failing request completes with its status once all before it have completed; then
 * the QP is in the error state and qp_error.c flushes the rest.
 */
#include "sim.h"

enum { ENDLESS_RETRY_NS = 1000000 };

static void tx_run(void *obj, uint64_t gen);
static void ack_run(void *obj, uint64_t gen);

/* ---- timers of the QP's attributes ---- */

static uint64_t ack_timeout_ns(const struct sim_qp *qp)
{
    return (uint64_t)4096 << (qp->attr.timeout & 31);
}

/* The 32 values of the RNR timer (IBTA vol. 1, table 45), in units of 10 us. */
static uint64_t rnr_timer_ns(uint8_t code)
{
    static const uint16_t units[32] = {0,    1,    2,    3,     4,     6,     8,     12,
                                       16,   24,   32,   48,    64,    96,    128,   192,
                                       256,  384,  512,  768,   1024,  1536,  2048,  3072,
                                       4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    uint64_t count = code ? units[code & 31] : 65536;
    return count * 10000;
}

/* ---- carrying over ---- */

static bool tx_may_go(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    if (qp->state != IBV_QPS_RTS || qp->tx_halted)
        return false;
    if (wqe->fence && qp->reads_out > 0)
        return false;
    return !sim_wqe_is_read(wqe) || qp->reads_out < qp->attr.max_rd_atomic;
}

static uint64_t arrival_ns(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    uint64_t start = wqe->ready_ns > qp->tx_last_ns ? wqe->ready_ns : qp->tx_last_ns;
    uint64_t byte_ps = sim.config.byte_ps ? sim.config.byte_ps : 80;
    return start + wqe->length * byte_ps / 1000;
}

static void tx_arm(struct sim_qp *qp, uint64_t at_ns)
{
    qp->tx_armed = true;
    sim_at(at_ns, tx_run, qp, qp->tx_gen);
}

void sim_tx_kick(struct sim_qp *qp)
{
    if (!qp->tx_armed && qp->tx_next && tx_may_go(qp, qp->tx_next))
        tx_arm(qp, arrival_ns(qp, qp->tx_next));
}

/* The request is off the queue; its acknowledgement, good or bad, is under way. */
static void tx_pass(struct sim_qp *qp, struct sim_wqe *wqe, enum ibv_wc_status status)
{
    uint64_t back = sim_qp_is_ud(qp) ? 0 : sim_latency();
    if (sim.config.ack_jitter_ns)
        back += sim_below(sim.config.ack_jitter_ns);
    wqe->state = SIM_WQE_SENT;
    wqe->status = (uint8_t)status;
    wqe->ack_ns = sim.now_ns + back;
    if (wqe->ack_ns < qp->ack_last_ns)
        wqe->ack_ns = qp->ack_last_ns;
    qp->ack_last_ns = wqe->ack_ns;
    qp->tx_last_ns = sim.now_ns;
    qp->tx_next = wqe->next;
    qp->retries = qp->rnr_tries = 0;
    if (status != IBV_WC_SUCCESS)
        qp->tx_halted = true;
    else if (sim_wqe_is_read(wqe))
        qp->reads_out++;
    if (!qp->ack_armed) {
        qp->ack_armed = true;
        sim_at(qp->ack_next->ack_ns, ack_run, qp, qp->ack_gen);
    }
}

static void tx_lost(struct sim_qp *qp, struct sim_wqe *wqe)
{
    if (sim.config.flap_is_fast_fail && !fabric_node_is_up(qp->node->number)) {
        tx_pass(qp, wqe, IBV_WC_LOC_QP_OP_ERR);
        return;
    }
    sim_trace(SIM_T_LOST, qp->qp.qp_num, wqe->seq, qp->retries);
    sim.counters.retries++;
    if (qp->attr.timeout == 0)
        tx_arm(qp, sim.now_ns + ENDLESS_RETRY_NS);
    else if (qp->retries++ < qp->attr.retry_cnt)
        tx_arm(qp, sim.now_ns + ack_timeout_ns(qp));
    else
        tx_pass(qp, wqe, IBV_WC_RETRY_EXC_ERR);
}

static void tx_not_ready(struct sim_qp *qp, struct sim_wqe *wqe, const struct sim_qp *peer)
{
    sim_trace(SIM_T_RNR, qp->qp.qp_num, wqe->seq, qp->rnr_tries);
    sim.counters.rnr_naks++;
    qp->retries = 0; /* the peer lives */
    if (qp->attr.rnr_retry != 7 && qp->rnr_tries++ >= qp->attr.rnr_retry)
        tx_pass(qp, wqe, IBV_WC_RNR_RETRY_EXC_ERR);
    else
        tx_arm(qp, sim.now_ns + rnr_timer_ns(peer->attr.min_rnr_timer));
}

static enum ibv_wc_status local_check(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    if (wqe->copy)
        return IBV_WC_SUCCESS;
    unsigned access = 0;
    if (sim_wqe_is_read(wqe))
        access = IBV_ACCESS_LOCAL_WRITE;
    if (wqe->opcode == IBV_WR_RDMA_READ && sim_node_is_iwarp(qp->node))
        access |= IBV_ACCESS_REMOTE_WRITE;
    for (int i = 0; i < wqe->num_sge; i++) {
        const struct ibv_sge *sge = &wqe->sge[i];
        if (sge->length == 0)
            continue;
        enum sim_key_fault fault =
            sim_key_check(sge->lkey, false, qp->qp.pd, sge->addr, sge->length, access);
        if (fault == SIM_KEY_OK)
            continue;
        sim_violation("QP %u: lkey %#x of a send (opcode %d) is bad: %s", qp->qp.qp_num, sge->lkey,
                      wqe->opcode, sim_key_fault_text(fault));
        return IBV_WC_LOC_PROT_ERR;
    }
    return IBV_WC_SUCCESS;
}

/* An iWARP stream has no retries: what cannot be taken ends it, on both sides. */
static void stream_break(struct sim_qp *qp, struct sim_qp *peer)
{
    if (peer)
        sim_qp_error(peer, "the stream broke");
    sim_qp_error(qp, "the stream broke");
}

static bool wants_receive_fault(const struct sim_wqe *wqe)
{
    return sim.config.rnr_ppm &&
           (wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM) &&
           sim_chance(sim.config.rnr_ppm);
}

/* Faults of one message. True: one struck, and the message's fate is sealed. */
static bool tx_fault(struct sim_qp *qp, struct sim_qp *peer, struct sim_wqe *wqe)
{
    const struct fabric_config *config = &sim.config;
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    bool iwarp = sim_node_is_iwarp(qp->node);
    if (!iwarp && wants_receive_fault(wqe)) {
        sim_fault(FABRIC_NOT_READY);
        tx_not_ready(qp, wqe, peer);
        return true;
    }
    if (!iwarp && !wqe->executed && sim_chance(config->drop_ppm)) {
        sim_fault(FABRIC_LOST);
        if (sim_below(2)) /* it arrives, its acknowledgement does not */
            wqe->executed = sim_respond(peer, qp, wqe, &status) == SIM_ANSWER_ACK;
        if (qp->state == IBV_QPS_RTS)
            tx_lost(qp, wqe);
        return true;
    }
    if (sim_chance(config->retry_exc_ppm)) {
        sim_fault(FABRIC_GAVE_UP);
        if (!wqe->executed && sim_below(2))
            sim_respond(peer, qp, wqe, &status);
        if (iwarp)
            stream_break(qp, peer);
        else if (qp->state == IBV_QPS_RTS)
            tx_pass(qp, wqe, IBV_WC_RETRY_EXC_ERR);
        return true;
    }
    if (sim_chance(config->qp_fatal_ppm)) {
        sim_fault(FABRIC_QP_FAILED);
        fabric_qp_fail(sim_below(2) ? qp->qp.qp_num : peer->qp.qp_num);
        return true;
    }
    return false;
}

/* Nobody answers: it is done when it has left. */
static void tx_datagram(struct sim_qp *qp, struct sim_wqe *wqe)
{
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    if (sim_chance(sim.config.qp_fatal_ppm)) {
        sim_fault(FABRIC_QP_FAILED);
        fabric_qp_fail(qp->qp.qp_num);
        return;
    }
    if (sim.config.flap_is_fast_fail && !fabric_node_is_up(qp->node->number))
        status = IBV_WC_LOC_QP_OP_ERR;
    else
        sim_datagram_send(qp, wqe);
    tx_pass(qp, wqe, status);
}

/* One attempt. The caller goes on with the next request if this one passed. */
static void tx_try(struct sim_qp *qp, struct sim_wqe *wqe)
{
    enum ibv_wc_status status = local_check(qp, wqe);
    if (status != IBV_WC_SUCCESS) {
        tx_pass(qp, wqe, status);
        return;
    }
    sim_wqe_verify(qp, wqe, "on the wire");
    if (sim_qp_is_ud(qp)) {
        tx_datagram(qp, wqe);
        return;
    }
    bool iwarp = sim_node_is_iwarp(qp->node);
    struct sim_qp *peer = sim_qp_peer(qp);
    if (!peer || !sim_path_up(qp->node, peer->node)) {
        if (iwarp && !peer)
            stream_break(qp, NULL);
        else
            tx_lost(qp, wqe);
        return;
    }
    if (tx_fault(qp, peer, wqe))
        return;
    enum sim_answer answer = SIM_ANSWER_ACK;
    if (!wqe->executed)
        answer = sim_respond(peer, qp, wqe, &status);
    if (qp->state != IBV_QPS_RTS)
        return; /* it was its own peer, or shared its fate */
    if (iwarp && answer != SIM_ANSWER_ACK) {
        stream_break(qp, peer);
    } else if (answer == SIM_ANSWER_RNR) {
        tx_not_ready(qp, wqe, peer);
    } else if (answer == SIM_ANSWER_SILENCE) {
        tx_lost(qp, wqe);
    } else if (!sim_path_up(peer->node, qp->node)) {
        wqe->executed = answer == SIM_ANSWER_ACK;
        tx_lost(qp, wqe);
    } else {
        tx_pass(qp, wqe, status);
    }
}

static void tx_run(void *obj, uint64_t gen)
{
    struct sim_qp *qp = obj;
    if (qp->obj.magic != SIM_ALIVE || gen != qp->tx_gen)
        return;
    qp->tx_armed = false;
    while (!qp->tx_armed && qp->tx_next && tx_may_go(qp, qp->tx_next) &&
           (qp->retries || qp->rnr_tries || arrival_ns(qp, qp->tx_next) <= sim.now_ns))
        tx_try(qp, qp->tx_next);
    sim_tx_kick(qp);
}

/* ---- acknowledgements ---- */

/* False: the QP failed. */
static bool ack_one(struct sim_qp *qp, struct sim_wqe *wqe)
{
    enum ibv_wc_status status = wqe->status;
    if (status == IBV_WC_SUCCESS)
        status = sim_respond_finish(qp, wqe);
    if (sim_wqe_is_read(wqe) && wqe->status == IBV_WC_SUCCESS)
        qp->reads_out--;
    wqe->state = SIM_WQE_DONE;
    qp->ack_next = wqe->next;
    if (qp->early_next == wqe)
        qp->early_next = wqe->next;
    if (!wqe->completed)
        sim_wqe_complete(qp, wqe, status);
    sim_sq_reap(qp);
    if (status != IBV_WC_SUCCESS)
        sim_qp_error(qp, ibv_wc_status_str(status));
    return status == IBV_WC_SUCCESS;
}

static void ack_run(void *obj, uint64_t gen)
{
    struct sim_qp *qp = obj;
    if (qp->obj.magic != SIM_ALIVE || gen != qp->ack_gen)
        return;
    qp->ack_armed = false;
    while (qp->ack_next && qp->ack_next->state == SIM_WQE_SENT &&
           qp->ack_next->ack_ns <= sim.now_ns)
        if (!ack_one(qp, qp->ack_next))
            return;
    if (qp->ack_next && qp->ack_next->state == SIM_WQE_SENT) {
        qp->ack_armed = true;
        sim_at(qp->ack_next->ack_ns, ack_run, qp, qp->ack_gen);
    }
    sim_tx_kick(qp);
    if (sim_node_is_iwarp(qp->node))
        sim_early_kick(qp);
}

/* ---- iWARP: a send is complete when the stream has it, wherever the bytes then are ---- */

static void early_complete(struct sim_qp *qp, struct sim_wqe *wqe)
{
    if (sim_wqe_is_read(wqe) || wqe->completed || local_check(qp, wqe) != IBV_WC_SUCCESS)
        return;
    sim_wqe_verify(qp, wqe, "on the wire");
    sim_wqe_copy(wqe);
    sim_wqe_complete(qp, wqe, IBV_WC_SUCCESS);
}

static void early_run(void *obj, uint64_t gen)
{
    struct sim_qp *qp = obj;
    if (qp->obj.magic != SIM_ALIVE || gen != qp->ack_gen || qp->state != IBV_QPS_RTS)
        return;
    qp->early_armed = false;
    while (qp->early_next) {
        struct sim_wqe *wqe = qp->early_next;
        if (wqe->status != IBV_WC_SUCCESS) /* the stream is about to end, and takes no more */
            break;
        if (sim_wqe_is_read(wqe) && wqe->state != SIM_WQE_DONE && !sim_node_is_soft_iwarp(qp->node))
            break;
        qp->early_next = wqe->next;
        early_complete(qp, wqe);
    }
}

void sim_early_kick(struct sim_qp *qp)
{
    if (qp->early_armed || !qp->early_next)
        return;
    qp->early_armed = true;
    sim_after(sim_latency() / 4, early_run, qp, qp->ack_gen);
}

/* A stream that is closed in good order first delivers what it has taken. */
void sim_stream_drain(struct sim_qp *qp)
{
    struct sim_qp *peer = sim_qp_peer(qp);
    enum ibv_wc_status status;
    if (!sim_node_is_iwarp(qp->node) || qp->state != IBV_QPS_RTS || !peer ||
        !sim_path_up(qp->node, peer->node))
        return;
    while (qp->tx_next && qp->tx_next->completed) {
        struct sim_wqe *wqe = qp->tx_next;
        if (sim_respond(peer, qp, wqe, &status) != SIM_ANSWER_ACK)
            return;
        qp->tx_next = wqe->next;
        wqe->state = SIM_WQE_SENT;
    }
}
