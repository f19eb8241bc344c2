/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted sends: what a post must satisfy, and the life of a work request in the send queue.
 *
 * Buffer ownership: from the post until a completion that covers the request is polled, the
 * bytes are the device's. They are summed at the post and compared when they leave and when the
 * request is retired, so a sender who touches them too early is found out. Inline bytes are
 * copied at the post, and the caller may do as it likes.
 */
#include "sim.h"

enum { LEAVING = 4 }; /* of a latency a datagram takes a part to leave, the rest is its way */

bool sim_wqe_is_read(const struct sim_wqe *wqe)
{
    return wqe->opcode == IBV_WR_RDMA_READ || wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* ---- the life of a request ---- */

static void copy_set(struct sim_wqe *wqe, const struct ibv_sge *from, int count)
{
    wqe->copy = sim_pool_get(wqe->length ? wqe->length : 1);
    struct ibv_sge to = {.addr = (uintptr_t)wqe->copy, .length = wqe->length};
    sim_sge_copy(&to, 1, from, count, wqe->length);
    wqe->sge[0] = to;
    wqe->num_sge = 1;
}

void sim_wqe_copy(struct sim_wqe *wqe)
{
    if (wqe->copy || !sim_sge_alive(wqe->sge, wqe->num_sge))
        return;
    sim_sge_hold(wqe->sge, wqe->num_sge, -1);
    copy_set(wqe, wqe->sge, wqe->num_sge);
}

void sim_wqe_free(struct sim_wqe *wqe)
{
    if (wqe->ah)
        wqe->ah->posted--;
    if (wqe->copy)
        sim_pool_put(wqe->copy, wqe->length ? wqe->length : 1);
    sim_pool_put(wqe, wqe->bytes);
}

void sim_wqe_verify(const struct sim_qp *qp, struct sim_wqe *wqe, const char *when)
{
    if (sim.config.no_buffer_checks || wqe->copy || sim_wqe_is_read(wqe) ||
        !sim_sge_alive(wqe->sge, wqe->num_sge))
        return;
    uint64_t sum = sim_sum(wqe->sge, wqe->num_sge);
    if (sum != wqe->sum)
        sim_violation("QP %u: the buffer of a posted send (opcode %d, %u bytes) was changed "
                      "before its completion was polled (seen %s)",
                      qp->qp.qp_num, wqe->opcode, wqe->length, when);
    wqe->sum = sum; /* told once */
}

static enum ibv_wc_opcode wc_opcode(const struct sim_wqe *wqe)
{
    switch (wqe->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

/* The device is done with the request; successes that nobody asked to see leave no completion. */
void sim_wqe_complete(struct sim_qp *qp, struct sim_wqe *wqe, enum ibv_wc_status status)
{
    wqe->status = (uint8_t)status;
    wqe->completed = true;
    if (sim.config.slots_at_complete) {
        wqe->slot_free = true;
        qp->sq_used--;
    }
    if (status == IBV_WC_SUCCESS && !wqe->signaled)
        return;
    wqe->told = true;
    struct sim_cqe cqe = {.qp = qp, .wqe = wqe};
    cqe.wc.wr_id = wqe->wr_id;
    cqe.wc.status = status;
    cqe.wc.opcode = wc_opcode(wqe);
    cqe.wc.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x51;
    cqe.wc.byte_len = wqe->length;
    cqe.wc.qp_num = qp->qp.qp_num;
    sim_cq_push(SIM_OF(qp->init.send_cq, struct sim_cq, cq), &cqe, false);
}

/* What is both polled and off the wire leaves the queue. */
void sim_sq_reap(struct sim_qp *qp)
{
    while (qp->sq_head && qp->sq_head->retired && qp->sq_head->state == SIM_WQE_DONE) {
        struct sim_wqe *wqe = qp->sq_head;
        qp->sq_head = wqe->next;
        if (!qp->sq_head)
            qp->sq_tail = NULL;
        sim_wqe_free(wqe);
    }
}

static void retire_one(struct sim_qp *qp, struct sim_wqe *wqe)
{
    wqe->retired = true;
    if (!wqe->slot_free)
        qp->sq_used--;
    wqe->slot_free = true;
    sim_wqe_verify(qp, wqe, "at its completion");
    if (!wqe->copy)
        sim_sge_hold(wqe->sge, wqe->num_sge, -1);
}

/* The completion of last was polled: it stands for those before it, too, that had none. */
void sim_wqe_retire(struct sim_qp *qp, struct sim_wqe *last)
{
    for (struct sim_wqe *wqe = qp->sq_head; wqe != last; wqe = wqe->next)
        if (!wqe->retired && wqe->completed && !wqe->told)
            retire_one(qp, wqe);
    retire_one(qp, last);
    sim_sq_reap(qp);
}

/* ---- the post ---- */

static bool opcode_is_known(const struct sim_node *node, enum ibv_wr_opcode opcode)
{
    bool iwarp = sim_node_is_iwarp(node);
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
        return true;
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return !iwarp || node->attr.iwarp_write_imm;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return !node->attr.no_atomics;
    default:
        return false;
    }
}

static uint64_t wr_length(const struct ibv_send_wr *wr)
{
    uint64_t length = 0;
    for (int i = 0; i < wr->num_sge; i++)
        length += wr->sg_list[i].length;
    return length;
}

static const char *wr_fault(const struct sim_qp *qp, const struct ibv_send_wr *wr)
{
    const struct sim_node *node = qp->node;
    if (!opcode_is_known(node, wr->opcode))
        return "the device does not have this opcode";
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_send_sge)
        return "more gather entries than the QP was made for";
    bool is_read = wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                   wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    uint64_t length = wr_length(wr);
    if (wr->send_flags & IBV_SEND_INLINE) {
        if (is_read)
            return "a read or atomic cannot be inline";
        if (length > qp->init.cap.max_inline_data)
            return "more inline bytes than the QP was made for";
    }
    if (length > node->attr.max_msg_bytes)
        return "longer than max_msg_sz";
    if (sim_qp_is_ud(qp))
        return sim_datagram_fault(qp, wr, length);
    bool is_atomic = is_read && wr->opcode != IBV_WR_RDMA_READ;
    if (is_atomic && (length != 8 || wr->wr.atomic.remote_addr % 8 != 0))
        return "an atomic takes eight aligned bytes";
    return NULL;
}

static struct sim_wqe *wqe_new(struct sim_qp *qp, const struct ibv_send_wr *wr)
{
    size_t entries = wr->num_sge > 0 ? (size_t)wr->num_sge : 1;
    size_t bytes = sizeof(struct sim_wqe) + entries * sizeof(struct ibv_sge);
    struct sim_wqe *wqe = sim_pool_get(bytes);
    memset(wqe, 0, sizeof(*wqe));
    wqe->bytes = (uint32_t)bytes;
    wqe->wr_id = wr->wr_id;
    wqe->opcode = (uint8_t)wr->opcode;
    wqe->imm = wr->imm_data;
    wqe->length = (uint32_t)wr_length(wr);
    wqe->signaled = qp->sq_sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
    wqe->fence = wr->send_flags & IBV_SEND_FENCE;
    wqe->solicited = wr->send_flags & IBV_SEND_SOLICITED;
    wqe->num_sge = (uint16_t)wr->num_sge;
    if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wqe->remote_addr = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->compare_add = wr->wr.atomic.compare_add;
        wqe->swap = wr->wr.atomic.swap;
    } else if (sim_qp_is_ud(qp)) {
        sim_datagram_address(qp, wqe, wr);
    } else {
        wqe->remote_addr = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
    if (wr->send_flags & IBV_SEND_INLINE) {
        copy_set(wqe, wr->sg_list, wr->num_sge);
        return wqe;
    }
    for (int i = 0; i < wr->num_sge; i++)
        wqe->sge[i] = wr->sg_list[i];
    sim_sge_hold(wqe->sge, wqe->num_sge, 1);
    if (!sim.config.no_buffer_checks && !sim_wqe_is_read(wqe) &&
        sim_sge_alive(wqe->sge, wqe->num_sge))
        wqe->sum = sim_sum(wqe->sge, wqe->num_sge);
    return wqe;
}

static void wqe_append(struct sim_qp *qp, struct sim_wqe *wqe)
{
    wqe->seq = qp->post_seq;
    qp->post_seq = (qp->post_seq + 1) & SIM_PSN_MASK;
    wqe->ready_ns = sim.now_ns + sim_latency() / (sim_qp_is_ud(qp) ? LEAVING : 1);
    if (qp->sq_tail)
        qp->sq_tail->next = wqe;
    else
        qp->sq_head = wqe;
    qp->sq_tail = wqe;
    if (!qp->ack_next)
        qp->ack_next = wqe;
    if (!qp->tx_next)
        qp->tx_next = wqe;
    if (!qp->early_next)
        qp->early_next = wqe;
    qp->sq_used++;
    sim_trace(SIM_T_POST_SEND, qp->qp.qp_num, wqe->opcode, wqe->length);
}

static int post_one(struct sim_qp *qp, const struct ibv_send_wr *wr)
{
    const char *fault = wr_fault(qp, wr);
    if (fault) {
        sim_violation("ibv_post_send on QP %u (opcode %d, %llu bytes): %s", qp->qp.qp_num,
                      wr->opcode, (unsigned long long)wr_length(wr), fault);
        return EINVAL;
    }
    if (qp->sq_used >= qp->init.cap.max_send_wr)
        return ENOMEM;
    if (qp->state == IBV_QPS_RTS && qp->iw_id && qp->iw_id->passive && !qp->rx_any)
        sim_violation("ibv_post_send on QP %u: iWARP's accepting side sends before it received",
                      qp->qp.qp_num);
    wqe_append(qp, wqe_new(qp, wr));
    return 0;
}

int sim_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    int error = 0;
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_post_send"))
        error = EINVAL;
    else if (sim_rank_is_dead(sim.current))
        error = EIO;
    else if (qp->state < IBV_QPS_RTS) {
        sim_violation("ibv_post_send on QP %u in state %d, before RTS", ibv->qp_num, qp->state);
        error = EINVAL;
    } else if (sim_fails_armed(FABRIC_FAIL_VERBS, "ibv_post_send"))
        error = ENOMEM;
    if (!error && qp->state == IBV_QPS_ERR && sim_node_is_soft_iwarp(qp->node))
        return 0; /* taken, and never heard of again */
    while (wr && !error) {
        error = post_one(qp, wr);
        if (!error)
            wr = wr->next;
    }
    if (error)
        *bad = wr;
    if (qp->state == IBV_QPS_ERR) {
        sim_qp_flush(qp, false);
    } else {
        sim_tx_kick(qp);
        if (sim_node_is_iwarp(qp->node))
            sim_early_kick(qp);
    }
    return error;
}
