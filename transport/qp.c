/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp.h"
#include "context.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

/* 4.096 us * 2^19 is 2.1 s: so often a message is repeated for a peer that has not joined yet. */
#define JOIN_TIMEOUT 19
/* 7 means for ever to soft-RoCE (doc/behaviours.md, h): no end would be noticed. */
#define RETRIES_MAX 6
#define HOP_LIMIT   64
#define STOP_TRIES  8 /* to move a queue pair to the error state */

/* --- the send queue's ring
 * -------------------------------------------------------------------------- */

/* The connection hears of failures by wr_failed(). */
static void nobody_waits(struct vbn_wr *wr, int status)
{
    (void)wr;
    (void)status;
}

/* In a slot whose request is over, although an older one's is not. */
static struct vbn_wr over = {.retired = nobody_waits};

static inline void retire_slot(struct vbn_qp *q, uint32_t slot, int status)
{
    struct vbn_wr **at = &q->ring[slot & q->mask];
    struct vbn_wr *wr = *at;

    *at = &over;
    if (wr)
        wr->retired(wr, status);
}

static inline void free_slots(struct vbn_qp *q)
{
    while (q->tail != q->head && q->ring[q->tail & q->mask] == &over)
        q->tail++;
}

/* The requests from FIRST to before END are over, and well. Nearly always they are the oldest. */
static inline void retire_slots(struct vbn_qp *q, uint32_t first, uint32_t end)
{
    struct vbn_wr *wr;

    if (vbn_unlikely(first != q->tail)) {
        for (uint32_t slot = first; slot != end; slot++)
            retire_slot(q, slot, VBN_OK);
        return;
    }
    for (uint32_t slot = first; slot != end; slot++)
        if ((wr = q->ring[slot & q->mask]))
            wr->retired(wr, VBN_OK);
    q->tail = end;
    free_slots(q);
}

/* Whose fault it was: VBN_ERR_INVALID, the request's, for the peer's device has denied it;
 * VBN_ERR_DEVICE, perhaps the request's (soft-RoCE has one status for a bad key and a link that is
 * down, and may cut a request in two: doc/behaviours.md, l); VBN_ERR_PEER_LOST, the connection's.
 */
static int status_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_REM_ACCESS_ERR:
        return VBN_ERR_INVALID;
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return VBN_ERR_PEER_LOST;
    default:
        return VBN_ERR_DEVICE;
    }
}

VBN_COLD static void conn_failed(struct vbn_conn *conn, const struct ibv_wc *wc)
{
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "%s (vendor error 0x%x)", ibv_wc_status_str(wc->status),
                  wc->vendor_err);
}

static bool is_outstanding(const struct vbn_qp *q, const struct vbn_wr *wr)
{
    return wr->slot - q->tail < q->head - q->tail && q->ring[wr->slot & q->mask] == wr;
}

/* It is over already where the device has told of the end of a later one before. */
VBN_COLD static void wr_failed(struct vbn_wr *wr, const struct ibv_wc *wc)
{
    struct vbn_conn *conn = wr->conn;

    if (wc->status != IBV_WC_WR_FLUSH_ERR || !conn->q.failed)
        conn_failed(conn, wc);
    if (wr == &conn->q.drain) /* the last to be flushed: what has not reported by now never will */
        for (uint32_t slot = conn->q.tail; slot != wr->slot; slot++)
            retire_slot(&conn->q, slot, VBN_ERR_PEER_LOST);
    if (is_outstanding(&conn->q, wr))
        retire_slot(&conn->q, wr->slot, status_of(wc->status));
    free_slots(&conn->q);
    vbn_conn_check_drained(conn);
}

static void wr_done(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct vbn_wr *wr = vbn_container_of(comp, struct vbn_wr, comp);
    struct vbn_conn *conn = wr->conn;
    vbn_endpoint_t *ep = conn->ep;

    if (vbn_unlikely(wc->status != IBV_WC_SUCCESS)) {
        wr_failed(wr, wc);
        return;
    }
    retire_slots(&conn->q, wr->first, wr->slot + 1);
    if (!STAILQ_EMPTY(&ep->queue))
        vbn_tx_pump(ep);
    if (vbn_unlikely(ep->state == VBN_EP_CLOSING))
        vbn_endpoint_advance_close(ep);
}

void vbn_wr_init(struct vbn_wr *wr, void (*retired)(struct vbn_wr *, int))
{
    wr->comp.done = wr_done;
    wr->retired = retired;
}

/* An unsignaled request that nobody waits for, a message, has completed after all: it failed. */
static void orphan_done(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct vbn_conn *conn = vbn_container_of(comp, struct vbn_conn, q.orphan);

    if (wc->status == IBV_WC_REM_ACCESS_ERR)
        vbn_ring_denied(conn);
    if (wc->status != IBV_WC_SUCCESS && !conn->q.failed)
        conn_failed(conn, wc);
}

static void probe_retired(struct vbn_wr *wr, int status)
{
    (void)status;
    wr->conn->q.probed_ns = 0;
}

/* --- states
 * ------------------------------------------------------------------------------------------ */

static unsigned access_flags(const struct vbn_conn *conn)
{
    return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
           (conn->ctx->device.has_atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0u);
}

/* 0: there is no such MTU, and ibv_modify_qp() will say so. */
static uint32_t packet_of(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static int modify_by_cm(struct vbn_conn *conn, enum ibv_qp_state state, uint8_t read_in,
                        uint8_t read_out)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask, rc;

    if (rdma_init_qp_attr(conn->id, &attr, &mask))
        return errno;
    mask &= 0x1fffff; /* some kernels set bits that belong to no attribute */
    if (mask & IBV_QP_ACCESS_FLAGS)
        attr.qp_access_flags = access_flags(conn);
    if (mask & IBV_QP_PATH_MTU)
        conn->q.packet = packet_of(attr.path_mtu);
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        attr.max_dest_rd_atomic = read_in;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        attr.max_rd_atomic = read_out;
    if (mask & IBV_QP_TIMEOUT)
        attr.timeout = (uint8_t)conn->ctx->opts.ack_timeout;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        attr.min_rnr_timer = (uint8_t)conn->ctx->opts.rnr_timer;
    rc = ibv_modify_qp(conn->q.qp, &attr, mask);
    return rc;
}

static int modify_to_init(struct vbn_conn *conn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = conn->ctx->device.port,
        .qp_access_flags = access_flags(conn),
    };

    if (conn->id)
        return modify_by_cm(conn, IBV_QPS_INIT, 0, 0);
    return ibv_modify_qp(conn->q.qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static struct ibv_ah_attr route(const struct vbn_conn *conn, const struct vbn_path *own,
                                const struct vbn_wire_half *peer)
{
    struct ibv_ah_attr ah = {
        .is_global = own->link != VBN_LINK_INFINIBAND || !own->lid || !peer->lid,
        .dlid = own->link == VBN_LINK_INFINIBAND ? peer->lid : 0,
        .port_num = conn->ctx->device.port,
    };

    if (ah.is_global) {
        ah.grh.sgid_index = own->sgid_index;
        ah.grh.hop_limit = HOP_LIMIT;
        memcpy(ah.grh.dgid.raw, peer->gid, sizeof(peer->gid));
    }
    return ah;
}

int vbn_qp_join(struct vbn_conn *conn, const struct vbn_path *own, uint32_t psn,
                const struct vbn_wire_half *peer)
{
    const struct vbn_device *dev = &conn->ctx->device;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = route(conn, own, peer),
        .path_mtu = (enum ibv_mtu)vbn_min(own->mtu, peer->mtu),
        .dest_qp_num = peer->qp_num,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = (uint8_t)vbn_min(dev->max_read_in, peer->read_out),
        .min_rnr_timer = (uint8_t)conn->ctx->opts.rnr_timer,
        .sq_psn = psn,
        .timeout = JOIN_TIMEOUT,
        .retry_cnt = (uint8_t)vbn_min(conn->ctx->opts.retry_count, RETRIES_MAX),
        .rnr_retry = 7,
        .max_rd_atomic = (uint8_t)vbn_min(dev->max_read_out, peer->read_in),
    };
    int rc = ibv_modify_qp(conn->q.qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

    if (rc)
        return rc;
    conn->q.packet = packet_of(attr.path_mtu);
    attr.qp_state = IBV_QPS_RTS;
    rc = ibv_modify_qp(conn->q.qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    if (rc) /* no way leads back to INIT with its receives */
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "cannot ready the queue pair: %s", strerror(rc));
    return rc;
}

static struct ibv_qp *make_qp(struct vbn_conn *conn)
{
    const vbn_context_t *ctx = conn->ctx;
    struct ibv_qp_init_attr init = {
        .qp_context = conn,
        .send_cq = conn->q.cq->cq,
        .recv_cq = conn->q.cq->cq,
        .srq = ctx->rx.shared.srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = conn->q.depth + 1,
                .max_recv_wr = ctx->rx.shared.srq ? 0 : conn->window + VBN_RX_SLACK,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = ctx->device.max_inline},
    };

    return ibv_create_qp(ctx->device.pd, &init);
}

int vbn_qp_create(struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;
    struct vbn_qp *q = &conn->q;
    uint32_t size = 4;

    q->depth = ctx->device.sq_depth;
    while (size <= q->depth)
        size *= 2;
    q->mask = size - 1;
    q->orphan.done = orphan_done;
    q->send = (struct ibv_send_wr){.sg_list = &q->sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    vbn_wr_init(&q->drain, nobody_waits);
    vbn_wr_init(&q->probe, probe_retired);
    q->ring = calloc(size, sizeof(*q->ring));
    if (!q->ring)
        return VBN_ERR_NO_MEMORY;
    q->cq_entries = q->depth + 1 + (ctx->rx.shared.srq ? 0 : conn->window + VBN_RX_SLACK);
    q->cq = vbn_cq_reserve(ctx, q->cq_entries);
    if (!q->cq)
        return VBN_ERR_DEVICE;
    q->qp = make_qp(conn);
    if (!q->qp)
        return VBN_ERR_DEVICE;
    q->qp_num = q->qp->qp_num;
    if (vbn_qpmap_insert(&ctx->qpmap, q->qp_num, conn)) {
        ibv_destroy_qp(q->qp);
        q->qp = NULL;
        return VBN_ERR_NO_MEMORY;
    }
    if (modify_to_init(conn)) { /* from RESET no way leads to the error state */
        vbn_qpmap_remove(&ctx->qpmap, q->qp_num);
        ibv_destroy_qp(q->qp);
        q->qp = NULL;
        return VBN_ERR_DEVICE;
    }
    return vbn_rx_attach(conn);
}

int vbn_qp_connect(struct vbn_conn *conn, uint8_t read_in, uint8_t read_out)
{
    if (conn->ctx->device.iwarp)
        return VBN_OK; /* the kernel's connection manager does it */
    if (modify_by_cm(conn, IBV_QPS_RTR, read_in, read_out) ||
        modify_by_cm(conn, IBV_QPS_RTS, read_in, read_out))
        return VBN_ERR_DEVICE;
    return VBN_OK;
}

/* Writes nothing to nowhere (InfiniBand C9-88: no key is needed for it): needs no credit and no
 * buffer of the peer, only a queue pair that answers. */
void vbn_qp_probe(struct vbn_conn *conn)
{
    struct ibv_send_wr swr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

    if (!conn->q.probed_ns && vbn_qp_has_room(&conn->q) &&
        vbn_conn_post(conn, &swr, &conn->q.probe))
        conn->q.probed_ns = vbn_max(vbn_now_ns(conn->ctx), 1);
}

/* A queue pair that goes on serves the peer, whose endpoint may be over: its memory is no longer
 * there to be read. So a device that refuses, for want of memory perhaps, is asked again. */
static bool stop(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    for (unsigned i = 0; i < STOP_TRIES; i++)
        if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0)
            return true;
    return false;
}

void vbn_qp_fail(struct vbn_conn *conn)
{
    struct ibv_send_wr swr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    struct vbn_qp *q = &conn->q;

    if (!q->qp || q->failed)
        return;
    q->failed = true;
    q->depth = 0; /* there is no room any more */
    if (!stop(q->qp))
        return; /* nothing may be posted: it might still be sent */
    /* Completed but unsignaled requests report nothing, and what had arrived may not have reported
     * yet: one request more, behind all of them in the completion queue, tells that they are in. */
    q->drain.conn = conn;
    q->drain.slot = q->head;
    q->drain.first = q->group;
    swr.wr_id = (uintptr_t)&q->drain.comp;
    q->ring[q->head++ & q->mask] = &q->drain;
    if (ibv_post_send(q->qp, &swr, &bad))
        conn->ctx->device.keeps_drain = true; /* as good as kept: libcxgb4 takes none there */
}

void vbn_qp_destroy(struct vbn_conn *conn)
{
    struct vbn_qp *q = &conn->q;

    if (q->qp) {
        vbn_cqs_poll_all(conn->ctx); /* mlx5 and others take out what has not been polled */
        vbn_qpmap_remove(&conn->ctx->qpmap, q->qp_num); /* the next one may have it */
        ibv_destroy_qp(q->qp);
        vbn_cqs_poll_all(conn->ctx); /* what others leave still points to us */
        q->qp = NULL;
    }
    for (; q->tail != q->head; q->tail++)
        retire_slot(q, q->tail, VBN_ERR_PEER_LOST);
    if (q->cq)
        vbn_cq_release(q->cq, q->cq_entries);
    q->cq = NULL;
    free(q->ring);
    q->ring = NULL;
}
