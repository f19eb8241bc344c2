/* SPDX-License-Identifier: BSD-3-Clause */
#include "rma.h"
#include "context.h"
#include "log.h"
#include "recover.h"

#define RMA_MAX      65536u     /* puts and gets of a context at once */
#define FAILURES_MAX 4u         /* so often in a row one may be what its queue pair failed of; */
#define SUSPECT_MAX  32u        /* so often on iWARP, which does not say what it failed of; */
#define AT_ONCE_NS   500000000u /* each time so soon after it was connected */

static inline struct vbn_rma *rma_of(struct vbn_tx *tx)
{
    return vbn_container_of(tx, struct vbn_rma, tx);
}

/* A KIND of operation that a mark follows, which says when it has arrived. */
static inline bool is_marked(const vbn_context_t *ctx, int kind)
{
    return ctx->device.iwarp && kind == VBN_TX_PUT;
}

bool vbn_rma_post(struct vbn_conn *conn, struct vbn_tx *tx, const uint32_t *imm)
{
    struct vbn_rma *rma = rma_of(tx);
    struct ibv_sge sge = {.addr = rma->local, .length = rma->len, .lkey = rma->lkey};
    struct ibv_send_wr swr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = rma->tx.kind == VBN_TX_PUT ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = rma->remote, .rkey = rma->rkey},
    };

    if (imm) {
        swr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        swr.imm_data = *imm;
    }
    rma->seq = conn->ep->tx_next;
    return vbn_conn_post(conn, &swr, &rma->tx.wr);
}

/* Called inside vbn_progress() only: the caller's function runs without the lock. */
static void rma_end(struct vbn_rma *rma, int status)
{
    vbn_endpoint_t *ep = rma->tx.ep;
    vbn_context_t *ctx = ep->ctx;
    vbn_done_fn done = rma->done;
    void *arg = rma->arg;

    ep->rmas_done += status == VBN_OK;
    if (status == VBN_OK && rma->tx.kind == VBN_TX_PUT) {
        ctx->counters.puts++;
        ctx->counters.put_bytes += rma->len;
    } else if (status == VBN_OK) {
        ctx->counters.gets++;
        ctx->counters.get_bytes += rma->len;
    }
    vbn_pool_put(&ctx->rmas, &rma->tx.obj);
    vbn_unlock(ctx);
    done(arg, ep, status);
    vbn_lock(ctx);
    ep->rmas_out--;
    if (vbn_unlikely(ep->state == VBN_EP_CLOSING))
        vbn_endpoint_advance_close(ep);
}

/* RMA waits for the next connection, the end of EP, or word that it has arrived: in the order of
 * posting, which not every device keeps when it completes. */
static void keep(vbn_endpoint_t *ep, struct vbn_rma *rma)
{
    struct vbn_tx_list *list = &ep->retired;
    struct vbn_tx *at, *before = NULL;

    STAILQ_FOREACH(at, list, entry)
    {
        if (vbn_seq_before(rma->tx.wr.slot, at->wr.slot))
            break;
        before = at;
    }
    if (before)
        STAILQ_INSERT_AFTER(list, before, &rma->tx, entry);
    else
        STAILQ_INSERT_HEAD(list, &rma->tx, entry);
}

/* Perhaps the link has failed, perhaps RMA is what the device does not like: then it fails again as
 * soon as there is another connection. */
static bool always_fails(struct vbn_rma *rma, const struct vbn_conn *conn, uint8_t most)
{
    bool at_once = vbn_now_ns(conn->ctx) - conn->since_ns < AT_ONCE_NS;

    rma->failures = at_once ? (uint8_t)(rma->failures + 1) : 1;
    return rma->failures == most;
}

VBN_COLD static void log_denied(const struct vbn_rma *rma, int status)
{
    const vbn_endpoint_t *ep = rma->tx.ep;

    vbn_log(ep->ctx, VBN_LOG_WARN,
            "peer %s by device %s: a %s of %u bytes at %#llx, key %#x, has been denied%s", ep->name,
            ep->ctx->device.name, rma->tx.kind == VBN_TX_PUT ? "put" : "get", rma->len,
            (unsigned long long)rma->remote, rma->rkey,
            status == VBN_ERR_DEVICE ? ", or always fails" : "; was the memory deregistered?");
}

/* A process that dies denies, too, until its queue pairs have ended: who has denied it twice lives.
 */
static bool denied_for_good(struct vbn_rma *rma)
{
    bool for_good = rma->denied || !vbn_recover_may_begin(rma->tx.ep, rma->tx.wr.conn);

    rma->denied = true;
    return for_good;
}

/* Counts it: to be asked once a failure. On iWARP no status tells: vbn_rma_conn_lost(). */
static bool has_no_hope(struct vbn_rma *rma, int status)
{
    const struct vbn_conn *conn = rma->tx.wr.conn;

    return (status == VBN_ERR_INVALID && denied_for_good(rma)) ||
           (status == VBN_ERR_DEVICE && !conn->ctx->device.iwarp &&
            always_fails(rma, conn, FAILURES_MAX));
}

bool vbn_rma_has_arrived(const struct vbn_tx *tx)
{
    return tx->kind == VBN_TX_PUT && vbn_seq_before(vbn_rma_seq(tx), tx->ep->tx_acked);
}

/* RMA's request has failed, or its completion does not say that it has arrived. */
VBN_COLD static void not_ended(struct vbn_rma *rma, int status)
{
    vbn_endpoint_t *ep = rma->tx.ep;

    if (vbn_rma_has_arrived(&rma->tx)) {
        rma_end(rma, VBN_OK);
    } else if (ep->state >= VBN_EP_CLOSED) {
        rma_end(rma, ep->status);
    } else if (has_no_hope(rma, status)) {
        log_denied(rma, status);
        rma_end(rma, status);
    } else {
        keep(ep, rma);
    }
}

static void rma_retired(struct vbn_wr *wr, int status)
{
    struct vbn_rma *rma = vbn_container_of(wr, struct vbn_rma, tx.wr);

    if (vbn_likely(status == VBN_OK && !is_marked(wr->conn->ctx, rma->tx.kind)))
        rma_end(rma, VBN_OK);
    else
        not_ended(rma, status);
}

void vbn_rma_acked(vbn_endpoint_t *ep)
{
    struct vbn_tx *tx;

    while ((tx = STAILQ_FIRST(&ep->retired)) && vbn_rma_has_arrived(tx)) {
        STAILQ_REMOVE_HEAD(&ep->retired, entry);
        vbn_rma_abort(tx, VBN_OK);
    }
}

/* The stream ends, whoever was denied what, or whatever else has befallen it: perhaps it was the
 * first of those that have not arrived. */
void vbn_rma_conn_lost(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    struct vbn_tx *tx = STAILQ_FIRST(&ep->retired);

    if (!tx || !ep->ctx->device.iwarp || !always_fails(rma_of(tx), conn, SUSPECT_MAX))
        return;
    STAILQ_REMOVE_HEAD(&ep->retired, entry);
    log_denied(rma_of(tx), VBN_ERR_DEVICE);
    vbn_rma_abort(tx, VBN_ERR_DEVICE);
}

uint32_t vbn_rma_seq(const struct vbn_tx *tx)
{
    return vbn_container_of(tx, struct vbn_rma, tx)->seq;
}

/* One for a KIND of EP's, and the mark for behind it where one is needed. NULL: none now. */
static struct vbn_rma *get(vbn_endpoint_t *ep, int kind, struct vbn_msg **mark)
{
    vbn_context_t *ctx = ep->ctx;
    struct vbn_pool_obj *obj = vbn_pool_get(&ctx->rmas);

    if (obj && is_marked(ctx, kind) && vbn_tx_get(ep, 0, mark)) {
        vbn_pool_put(&ctx->rmas, obj);
        return NULL;
    }
    return (struct vbn_rma *)obj;
}

/* LAST is the last state of the endpoint in which it may start. */
static int rma_start(vbn_endpoint_t *ep, enum vbn_ep_state last, int kind, uintptr_t local,
                     const vbn_mem_t *mem, uint64_t remote, uint32_t rkey, size_t len,
                     vbn_done_fn done, void *arg, const struct vbn_rider *rider)
{
    vbn_context_t *ctx = ep->ctx;
    struct vbn_msg *mark = NULL;
    struct vbn_rma *rma;

    if (ep->state > last)
        return vbn_endpoint_over_status(ep);
    if (!done || !len || len > ctx->device.max_msg_size || mem->ctx != ctx ||
        !vbn_mem_holds(mem, (const void *)local, len))
        return VBN_ERR_INVALID;
    if (ep->rmas_out >= 4 * ctx->opts.sq_depth)
        return VBN_ERR_AGAIN;
    rma = get(ep, kind, &mark);
    if (!rma)
        return VBN_ERR_AGAIN;
    rma->tx.ep = ep;
    rma->tx.kind = kind;
    rma->local = local;
    rma->remote = remote;
    rma->lkey = mem->mr->lkey;
    rma->rkey = rkey;
    rma->len = (uint32_t)len;
    rma->failures = 0;
    rma->denied = false;
    rma->done = done;
    rma->arg = arg;
    ep->rmas_out++;
    if (!rider || !vbn_tx_ride(ep, &rma->tx, len, rider)) {
        vbn_tx_submit(ep, &rma->tx);
        if (vbn_unlikely(mark != NULL))
            vbn_tx_send_behind(mark, VBN_WIRE_MARK, 0, 0);
        if (rider)
            vbn_tx_send_behind(rider->msg, rider->msg->type, rider->msg->id, rider->msg->len);
    }
    return VBN_OK;
}

int vbn_rma_start(vbn_endpoint_t *ep, int kind, void *local, const vbn_mem_t *mem, uint64_t remote,
                  uint32_t rkey, size_t len, vbn_done_fn done, void *arg)
{
    return rma_start(ep, VBN_EP_CLOSING, kind, (uintptr_t)local, mem, remote, rkey, len, done, arg,
                     NULL);
}

int vbn_rma_put_told(vbn_endpoint_t *ep, void *local, const vbn_mem_t *mem, uint64_t remote,
                     uint32_t rkey, size_t len, vbn_done_fn done, void *arg,
                     const struct vbn_rider *rider)
{
    return rma_start(ep, VBN_EP_CLOSING, VBN_TX_PUT, (uintptr_t)local, mem, remote, rkey, len, done,
                     arg, rider);
}

int vbn_put(vbn_endpoint_t *ep, const void *local, const vbn_mem_t *mem, uint64_t remote_addr,
            uint32_t remote_key, size_t len, vbn_done_fn done, void *arg)
{
    int rc;

    vbn_lock(ep->ctx);
    rc = rma_start(ep, VBN_EP_OPEN, VBN_TX_PUT, (uintptr_t)local, mem, remote_addr, remote_key, len,
                   done, arg, NULL);
    vbn_unlock(ep->ctx);
    return rc;
}

int vbn_get(vbn_endpoint_t *ep, void *local, const vbn_mem_t *mem, uint64_t remote_addr,
            uint32_t remote_key, size_t len, vbn_done_fn done, void *arg)
{
    int rc;

    vbn_lock(ep->ctx);
    rc = rma_start(ep, VBN_EP_OPEN, VBN_TX_GET, (uintptr_t)local, mem, remote_addr, remote_key, len,
                   done, arg, NULL);
    vbn_unlock(ep->ctx);
    return rc;
}

void vbn_rma_abort(struct vbn_tx *tx, int status)
{
    vbn_context_t *ctx = tx->ep->ctx;

    rma_of(tx)->status = status;
    STAILQ_INSERT_TAIL(&ctx->ended, tx, entry);
    ctx->slow_work = true;
}

int vbn_rma_deliver_ended(vbn_context_t *ctx)
{
    struct vbn_tx *tx;
    int n = 0;

    while ((tx = STAILQ_FIRST(&ctx->ended))) {
        STAILQ_REMOVE_HEAD(&ctx->ended, entry);
        rma_end(rma_of(tx), rma_of(tx)->status);
        n++;
    }
    return n;
}

static void rma_init(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    (void)pool;
    vbn_wr_init(&((struct vbn_rma *)obj)->tx.wr, rma_retired);
}

void vbn_rma_init(vbn_context_t *ctx)
{
    vbn_pool_init(&ctx->rmas, ctx, sizeof(struct vbn_rma), 0, RMA_MAX, rma_init);
}

void vbn_rma_fini(vbn_context_t *ctx)
{
    vbn_pool_fini(&ctx->rmas);
}
