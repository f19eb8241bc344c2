/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The responder: executes one arrived message against the receiving QP's memory and receive
 * queue. Every key, bound and right is checked on every transfer. A refusal that only a faulty
 * program can cause is reported as a violation as well as answered the way a device would.
 */
#include "sim.h"

#include <arpa/inet.h>

enum { GARBLE_SHIFT = 20 };

static bool needs_receive(const struct sim_wqe *wqe)
{
    return wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM ||
           wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static unsigned remote_access(const struct sim_wqe *wqe)
{
    switch (wqe->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_ACCESS_REMOTE_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_ACCESS_REMOTE_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_ACCESS_REMOTE_ATOMIC;
    default:
        return 0;
    }
}

void sim_push_recv(struct sim_qp *qp, struct sim_rwqe *rwqe, const struct sim_wqe *from,
                   enum ibv_wc_status status)
{
    struct sim_cqe cqe = {.qp = qp, .rwqe = rwqe};
    cqe.wc.wr_id = rwqe->wr_id;
    cqe.wc.status = status;
    cqe.wc.opcode = IBV_WC_RECV;
    cqe.wc.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x51;
    cqe.wc.qp_num = qp->qp.qp_num;
    cqe.wc.src_qp = qp->attr.dest_qp_num;
    if (from) {
        cqe.wc.byte_len = from->length;
        if (from->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
            cqe.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        if (from->opcode != IBV_WR_SEND) {
            cqe.wc.wc_flags = IBV_WC_WITH_IMM;
            cqe.wc.imm_data = from->imm;
        }
    }
    sim_cq_push(SIM_OF(qp->init.recv_cq, struct sim_cq, cq), &cqe, from && from->solicited);
}

static bool has_receive(const struct sim_qp *qp)
{
    if (qp->init.srq)
        return SIM_OF(qp->init.srq, struct sim_srq, srq)->rq.posted > 0;
    return qp->rq.posted > 0;
}

static struct sim_rwqe *take_receive(struct sim_qp *qp)
{
    if (qp->init.srq)
        return sim_srq_take(SIM_OF(qp->init.srq, struct sim_srq, srq));
    return sim_rq_take(&qp->rq);
}

/* The responder's side of a refusal: its QP is in error, its program gets an event. */
static enum sim_answer refuse(struct sim_qp *qp, const struct sim_wqe *wqe,
                              enum ibv_event_type event, enum ibv_wc_status to_requester,
                              enum ibv_wc_status *status)
{
    sim_trace(SIM_T_NAK, qp->qp.qp_num, wqe->seq, to_requester);
    if (!sim.config.no_error_event)
        sim_async_qp(qp, event);
    sim_qp_error(qp, "it refused a request");
    *status = to_requester;
    return SIM_ANSWER_NAK;
}

static const char *remote_fault(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    if (wqe->length == 0)
        return NULL;
    enum sim_key_fault fault = sim_key_check(wqe->rkey, true, qp->qp.pd, wqe->remote_addr,
                                             wqe->length, remote_access(wqe));
    return fault == SIM_KEY_OK ? NULL : sim_key_fault_text(fault);
}

static bool qp_allows(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    unsigned access = remote_access(wqe);
    return (qp->attr.qp_access_flags & access) == access;
}

/* Nobody is to blame: QP's rank may have asked for it, or its regions died with it. */
static bool is_excused(const struct sim_qp *qp)
{
    return qp->node->garble_ppm || sim_rank_is_dead(qp->obj.rank);
}

static void report_remote(const struct sim_qp *qp, const struct sim_wqe *wqe, const char *fault)
{
    sim_violation("remote access to QP %u (opcode %d, key %#x, %u bytes) refused: %s",
                  qp->qp.qp_num, wqe->opcode, wqe->rkey, wqe->length, fault);
}

/* What a receiver's own checks are for: see fabric_node_garble(). FROM is NULL where it is no more.
 */
static void garble_head(const struct sim_qp *from, uint8_t *bytes, uint64_t len)
{
    if (from)
        sim_garble(from->node, bytes, len < SIM_GARBLE_BYTES ? len : SIM_GARBLE_BYTES);
}

/* Where the head is told by immediate data, of those 8 of the bits that a receiver can check. */
static void garble_imm(const struct sim_qp *from, struct sim_wqe *wqe)
{
    uint32_t imm = ntohl(wqe->imm);
    uint8_t checked = (uint8_t)(imm >> GARBLE_SHIFT);

    sim_garble(from->node, &checked, 1);
    imm = (imm & ~(0xffu << GARBLE_SHIFT)) | (uint32_t)checked << GARBLE_SHIFT;
    wqe->imm = htonl(imm);
}

static void garble(const struct sim_qp *from, const struct sim_rwqe *rwqe, struct sim_wqe *wqe)
{
    const struct ibv_sge *head = &rwqe->sge[0];
    uint64_t len = wqe->length;

    if (wqe->opcode == IBV_WR_SEND_WITH_IMM && from)
        garble_imm(from, wqe);
    else if (rwqe->num_sge)
        garble_head(from, (uint8_t *)(uintptr_t)head->addr,
                    len < head->length ? len : head->length);
}

/* Against the specification, as soft-RoCE can: the message comes once more, perhaps without its
 * bytes.
 */
static void receive_again(struct sim_qp *qp, struct sim_wqe *wqe)
{
    struct sim_rwqe *rwqe = take_receive(qp);
    uint32_t length = wqe->length;

    sim_fault(FABRIC_MESSAGE_AGAIN);
    if (sim_below(2))
        wqe->length = 0;
    sim_sge_copy(rwqe->sge, rwqe->num_sge, wqe->sge, wqe->num_sge, wqe->length);
    sim_push_recv(qp, rwqe, wqe, IBV_WC_SUCCESS);
    wqe->length = length;
}

uint64_t sim_receive_room(const struct sim_rwqe *rwqe)
{
    uint64_t room = 0;

    for (int i = 0; i < rwqe->num_sge; i++)
        room += rwqe->sge[i].length;
    return room;
}

/* The regions of the dead are gone before their queue pairs. */
enum sim_key_fault sim_receive_fault(const struct sim_qp *qp, const struct sim_rwqe *rwqe)
{
    const struct ibv_pd *pd = qp->init.srq ? qp->init.srq->pd : qp->qp.pd;
    enum sim_key_fault fault = sim_rank_is_dead(qp->obj.rank) ? SIM_KEY_STALE : SIM_KEY_OK;

    for (int i = 0; i < rwqe->num_sge && fault == SIM_KEY_OK; i++) {
        const struct ibv_sge *sge = &rwqe->sge[i];

        if (sge->length)
            fault =
                sim_key_check(sge->lkey, false, pd, sge->addr, sge->length, IBV_ACCESS_LOCAL_WRITE);
    }
    return fault;
}

static enum sim_answer receive(struct sim_qp *qp, const struct sim_qp *requester,
                               struct sim_wqe *wqe, enum ibv_wc_status *status)
{
    struct sim_rwqe *rwqe = take_receive(qp);
    if (wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        sim_push_recv(qp, rwqe, wqe, IBV_WC_SUCCESS);
        return SIM_ANSWER_ACK;
    }
    uint64_t room = sim_receive_room(rwqe);
    enum sim_key_fault fault = sim_receive_fault(qp, rwqe);

    if (wqe->length > room) {
        sim_violation("QP %u: a message of %u bytes meets a receive of %llu", qp->qp.qp_num,
                      wqe->length, (unsigned long long)room);
        sim_push_recv(qp, rwqe, wqe, IBV_WC_LOC_LEN_ERR);
        return refuse(qp, wqe, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, status);
    }
    if (fault != SIM_KEY_OK) {
        if (!sim_rank_is_dead(qp->obj.rank))
            sim_violation("QP %u: the key of a receive buffer is bad: %s", qp->qp.qp_num,
                          sim_key_fault_text(fault));
        sim_push_recv(qp, rwqe, wqe, IBV_WC_LOC_PROT_ERR);
        return refuse(qp, wqe, IBV_EVENT_QP_FATAL, IBV_WC_REM_OP_ERR, status);
    }
    sim_sge_copy(rwqe->sge, rwqe->num_sge, wqe->sge, wqe->num_sge, wqe->length);
    garble(requester, rwqe, wqe);
    sim_push_recv(qp, rwqe, wqe, IBV_WC_SUCCESS);
    if (has_receive(qp) && !sim_node_is_iwarp(qp->node) && sim_chance(sim.config.unsound_ppm))
        receive_again(qp, wqe);
    return SIM_ANSWER_ACK;
}

static void execute_atomic(struct sim_wqe *wqe)
{
    uint64_t *word = (uint64_t *)(uintptr_t)wqe->remote_addr; /* aligned: checked at the post */
    wqe->result = *word;
    if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        *word += wqe->compare_add;
    else if (*word == wqe->compare_add)
        *word = wqe->swap;
}

/* The rest of a write shows, if its memory is still registered. */
static void mend_torn(struct sim_qp *qp)
{
    struct sim_torn *torn = &qp->torn;
    uint32_t length = torn->length;

    torn->length = 0;
    if (length && sim_key_check(torn->rkey, true, qp->qp.pd, torn->addr, length,
                                IBV_ACCESS_REMOTE_WRITE) == SIM_KEY_OK)
        memcpy((void *)(uintptr_t)torn->addr, torn->bytes, length);
}

static void mend_late(void *obj, uint64_t gen)
{
    struct sim_qp *qp = obj;

    if (qp->obj.magic == SIM_ALIVE && qp->torn.gen == gen)
        mend_torn(qp);
}

/* Of a short write each byte may show at once or a little later, but before what comes next. */
static void tear(struct sim_qp *qp, const struct sim_qp *from, const struct sim_wqe *wqe)
{
    struct sim_torn *torn = &qp->torn;
    struct ibv_sge to = {.addr = (uintptr_t)torn->bytes, .length = wqe->length};
    uint8_t *memory = (uint8_t *)(uintptr_t)wqe->remote_addr;
    uint64_t grain = 1 + sim_below(16), some = sim_below(UINT64_MAX);

    sim_sge_copy(&to, 1, wqe->sge, wqe->num_sge, wqe->length);
    garble_head(from, torn->bytes, wqe->length);
    torn->addr = wqe->remote_addr;
    torn->rkey = wqe->rkey;
    torn->length = wqe->length;
    torn->gen++;
    for (uint32_t i = 0; i < wqe->length; i++)
        if (some >> (i / grain % 64) & 1)
            memory[i] = torn->bytes[i];
    sim_after(sim_latency(), mend_late, qp, torn->gen);
}

static void execute_write(struct sim_qp *qp, const struct sim_qp *from, const struct sim_wqe *wqe)
{
    struct ibv_sge to = {.addr = wqe->remote_addr, .length = wqe->length};

    if (wqe->length <= SIM_TORN_MAX && sim_chance(sim.config.torn_ppm)) {
        tear(qp, from, wqe);
    } else {
        sim_sge_copy(&to, 1, wqe->sge, wqe->num_sge, wqe->length);
        garble_head(from, (uint8_t *)(uintptr_t)wqe->remote_addr, wqe->length);
    }
}

static bool is_ready(const struct sim_qp *qp)
{
    return qp->obj.magic == SIM_ALIVE &&
           (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD);
}

static void first_arrival(struct sim_qp *qp)
{
    if (!qp->rx_any && qp->state == IBV_QPS_RTR && !sim.config.no_comm_est &&
        !sim_node_is_iwarp(qp->node))
        sim_async_qp(qp, IBV_EVENT_COMM_EST);
    qp->rx_any = true;
}

enum sim_answer sim_respond(struct sim_qp *qp, const struct sim_qp *requester, struct sim_wqe *wqe,
                            enum ibv_wc_status *status)
{
    if (!is_ready(qp) || wqe->seq != qp->rx_seq)
        return SIM_ANSWER_SILENCE;
    first_arrival(qp);
    mend_torn(qp);
    if (needs_receive(wqe) && !has_receive(qp))
        return SIM_ANSWER_RNR;
    if (requester && sim_wqe_is_read(wqe) && requester->reads_out >= qp->attr.max_dest_rd_atomic) {
        sim_violation("QP %u has %u reads outstanding at a responder that takes %u",
                      requester->qp.qp_num, requester->reads_out + 1, qp->attr.max_dest_rd_atomic);
        return refuse(qp, wqe, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, status);
    }
    if (!qp_allows(qp, wqe)) { /* an operation this QP does not have, whatever the key says */
        if (requester)
            report_remote(qp, wqe, "the QP's access flags do not allow it");
        return refuse(qp, wqe, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR, status);
    }
    const char *fault = remote_access(wqe) ? remote_fault(qp, wqe) : NULL;
    if (fault) {
        if (requester && !is_excused(qp))
            report_remote(qp, wqe, fault);
        return refuse(qp, wqe, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, status);
    }
    if (remote_access(wqe) == IBV_ACCESS_REMOTE_WRITE)
        execute_write(qp, requester, wqe);
    else if (remote_access(wqe) == IBV_ACCESS_REMOTE_ATOMIC)
        execute_atomic(wqe);
    enum sim_answer answer = SIM_ANSWER_ACK;
    if (needs_receive(wqe))
        answer = receive(qp, requester, wqe, status);
    if (answer == SIM_ANSWER_ACK) {
        qp->rx_seq = (qp->rx_seq + 1) & SIM_PSN_MASK;
        sim.counters.messages++;
        sim.counters.bytes += wqe->length;
        sim_trace(SIM_T_ARRIVE, qp->qp.qp_num, wqe->seq, wqe->length);
    }
    return answer;
}

/* A responder that its owner has put into the error state answers no more, and its memory is its
 * owner's again. */
static bool answers(const struct sim_qp *requester)
{
    const struct sim_qp *responder = sim_qp_peer(requester);

    return responder && !responder->closed;
}

/* The answer of a read or an atomic reaches the requester: only now its bytes are fetched, so
 * whoever changes or deregisters the source too early is noticed. */
enum ibv_wc_status sim_respond_finish(struct sim_qp *requester, struct sim_wqe *wqe)
{
    if (!sim_wqe_is_read(wqe))
        return IBV_WC_SUCCESS;
    if (wqe->opcode != IBV_WR_RDMA_READ) {
        struct ibv_sge from = {.addr = (uintptr_t)&wqe->result, .length = 8};
        sim_sge_copy(wqe->sge, wqe->num_sge, &from, 1, 8);
        return IBV_WC_SUCCESS;
    }
    if (!answers(requester))
        return IBV_WC_RETRY_EXC_ERR;
    struct sim_mr *mr = sim_mr_find(wqe->rkey, true);
    if (wqe->length && mr && sim_rank_is_dead(mr->obj.rank))
        return IBV_WC_REM_ACCESS_ERR;
    if (wqe->length && (!mr || mr->obj.magic != SIM_ALIVE)) {
        if (!requester->node->garble_ppm) /* else it may have said itself that it has all */
            sim_violation("QP %u: the source of a read was deregistered while it was read",
                          requester->qp.qp_num);
        return IBV_WC_REM_ACCESS_ERR;
    }
    struct ibv_sge from = {.addr = wqe->remote_addr, .length = wqe->length};
    sim_sge_copy(wqe->sge, wqe->num_sge, &from, 1, wqe->length);
    return IBV_WC_SUCCESS;
}
