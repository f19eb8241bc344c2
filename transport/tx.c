/* SPDX-License-Identifier: BSD-3-Clause */
#include "tx.h"
#include "context.h"
#include "error.h"
#include "rma.h"

#include <string.h>

/* Buffers made at the start: what one peer keeps busy, and a handful of them. */
#define LEAST_BUFFERS 16u
#define START_BUFFERS 48u

/* --- messages: references ------------------------------------------------------------------------
 */

static inline struct vbn_msg *msg_of(struct vbn_tx *tx)
{
    return vbn_container_of(tx, struct vbn_msg, tx);
}

static inline void msg_unref(struct vbn_msg *msg)
{
    vbn_endpoint_t *ep = msg->tx.ep;

    assert(msg->refs > 0);
    if (--msg->refs == 0) {
        ep->msgs_out--;
        if (vbn_unlikely(ep->released))
            ep->ctx->slow_work = true; /* it may have waited for this one */
        vbn_pool_put(&ep->ctx->msgs, &msg->tx.obj);
    }
}

static void msg_retired(struct vbn_wr *wr, int status)
{
    struct vbn_msg *msg = vbn_container_of(wr, struct vbn_msg, tx.wr);

    /* Of a failure the connection has heard already. */
    if (vbn_unlikely(status == VBN_ERR_INVALID))
        vbn_ring_denied(wr->conn);
    if (msg->lazy) {
        msg->lazy = false;
        msg->tx.ep->ctx->lazy--;
        msg->tx.ep->lazy--;
    }
    msg_unref(msg);
}

/* --- posting
 * -------------------------------------------------------------------------------------- */

static inline bool can_post(const vbn_endpoint_t *ep, int kind)
{
    const struct vbn_conn *conn = ep->conn;

    if (vbn_unlikely(!conn || !vbn_qp_has_room(&conn->q)))
        return false;
    return kind != VBN_TX_AM || vbn_flow_may_send(&conn->flow);
}

/* Posts SWR with BYTES of OBJ's buffer, from FROM on. WR as for vbn_conn_post(). */
static inline bool post_buffer(struct vbn_conn *conn, struct ibv_send_wr *swr,
                               const struct vbn_pool_obj *obj, uint32_t from, uint32_t bytes,
                               unsigned flags, struct vbn_wr *wr)
{
    conn->q.sge =
        (struct ibv_sge){.addr = (uintptr_t)obj->buf + from, .length = bytes, .lkey = obj->lkey};
    swr->send_flags = flags;
    return vbn_conn_post(conn, swr, wr);
}

/*
 * Whether too many buffers wait for a later completion: more than a quarter of those allowed, or
 * half of those made. Peers that get a message now and then would make the pool grow by a period
 * each.
 */
static inline bool too_lazy(const vbn_context_t *ctx)
{
    return ctx->lazy >= vbn_min(ctx->msgs.count / 2, ctx->msgs.limit / 4);
}

/*
 * MSG does not go inline, or a completion is due: the send queue has its BYTES until its
 * completion, or a later one's. One is asked for each period, and earlier where too many buffers of
 * the pool would wait, or the device is slower without. Sets *FLAGS of the request, and returns who
 * waits for its slot.
 */
static __attribute__((noinline)) struct vbn_wr *hold(struct vbn_conn *conn, struct vbn_msg *msg,
                                                     uint32_t bytes, bool inlined, unsigned *flags)
{
    vbn_context_t *ctx = conn->ctx;
    bool signaled = conn->q.unsignaled + 1 >= ctx->opts.signal_period ||
                    (!inlined && too_lazy(ctx)) || bytes >= ctx->device.signal_from;

    *flags = (inlined ? IBV_SEND_INLINE : 0u) | (signaled ? IBV_SEND_SIGNALED : 0u);
    msg->refs++;
    msg->lazy = !signaled;
    ctx->lazy += !signaled;
    conn->ep->lazy += !signaled;
    return &msg->tx.wr;
}

/* Posts MSG: RINGED, into the peer's ring; else but for CUT bytes at its front, which
 * conn->bare.send tells. What is sent inline waits only for the peer's acknowledgement. */
static VBN_INLINE void post_as(struct vbn_conn *conn, struct vbn_msg *msg, bool ringed,
                               uint32_t cut)
{
    vbn_context_t *ctx = conn->ctx;
    vbn_endpoint_t *ep = conn->ep;
    void *buf = msg->tx.obj.buf;
    struct ibv_send_wr *swr = &conn->q.send;
    uint32_t bytes =
        ringed ? vbn_wire_sealed_len(msg->len) : (uint32_t)sizeof(struct vbn_wire_hdr) + msg->len;
    bool inlined = bytes <= ctx->device.max_inline;
    unsigned flags = IBV_SEND_INLINE;
    struct vbn_wr *wr = NULL;
    struct vbn_wire_hdr hdr = {
        .type = msg->type,
        .id = msg->id,
        .credits = vbn_flow_sent(&conn->flow),
        .len = msg->len,
        .seq = ep->tx_next++,
        .ack = ep->rx_next,
    };

    msg->seq = hdr.seq;
    STAILQ_INSERT_TAIL(&ep->unacked, &msg->tx, entry);
    ctx->counters.tx_msgs++;
    ctx->counters.tx_bytes += msg->len;
    conn->told_next = hdr.ack;
    if (ringed) {
        vbn_wire_sealed_write(buf, &hdr, bytes, conn->flow.tx_count);
        swr = vbn_ring_put(&conn->ring.out, hdr.seq);
        ctx->counters.ring_msgs++;
    } else {
        vbn_wire_hdr_write(buf, &hdr);
        if (vbn_unlikely(cut)) {
            swr = &conn->bare.send;
            ctx->counters.bare_msgs++;
        }
    }
    if (vbn_unlikely(!inlined || conn->q.unsignaled + 1 >= ctx->opts.signal_period))
        wr = hold(conn, msg, bytes - cut, inlined, &flags);
    if (vbn_unlikely(!post_buffer(conn, swr, &msg->tx.obj, cut, bytes - cut, flags, wr)) && wr)
        msg_retired(wr, VBN_ERR_PEER_LOST);
}

static __attribute__((noinline)) void post_long(struct vbn_conn *conn, struct vbn_msg *msg)
{
    post_as(conn, msg, false, vbn_bare_cut(conn, msg));
}

static VBN_INLINE void post_msg(struct vbn_conn *conn, struct vbn_msg *msg)
{
    if (vbn_ring_takes(&conn->ring.out, msg->len, conn->ep->tx_acked))
        post_as(conn, msg, true, 0);
    else if (vbn_unlikely(msg->len >= VBN_BARE_MIN))
        post_long(conn, msg);
    else
        post_as(conn, msg, false, 0);
}

VBN_COLD static void rma_not_posted(vbn_endpoint_t *ep, struct vbn_tx *tx)
{
    if (ep->state >= VBN_EP_CLOSED)
        vbn_rma_abort(tx, ep->status); /* the endpoint has ended, and its queue with it */
    else
        STAILQ_INSERT_HEAD(&ep->queue, tx, entry); /* it ends when the connection is drained */
}

static inline void post(vbn_endpoint_t *ep, struct vbn_tx *tx)
{
    if (vbn_likely(tx->kind == VBN_TX_AM))
        post_msg(ep->conn, msg_of(tx));
    else if (vbn_unlikely(!vbn_rma_post(ep->conn, tx, NULL)))
        rma_not_posted(ep, tx);
}

/* Not by the last credit, which is for what gives the peer some, nor by that of what waits. */
VBN_COLD static void say_dry(struct vbn_conn *conn)
{
    if (vbn_flow_credits(&conn->flow) > 2)
        vbn_tx_control(conn, VBN_WIRE_ACK);
}

void vbn_tx_pump(vbn_endpoint_t *ep)
{
    struct vbn_tx *tx;

    if (vbn_unlikely(ep->conn && ep->conn->dry))
        say_dry(ep->conn);
    while ((tx = STAILQ_FIRST(&ep->queue)) && can_post(ep, tx->kind)) {
        STAILQ_REMOVE_HEAD(&ep->queue, entry);
        tx->waiting = false;
        post(ep, tx);
        vbn_tag_posted(ep, tx);
    }
}

/* So often is the peer told, at most: he has answered by then, or cannot. */
#define DRY_SAYS 8

static bool is_dry(const struct vbn_conn *conn, const struct vbn_tx *tx)
{
    return tx->kind == VBN_TX_AM && conn->version >= VBN_WIRE_DRIES && conn->dry_said < DRY_SAYS &&
           conn->state == VBN_CONN_ESTABLISHED && !vbn_flow_may_send(&conn->flow);
}

VBN_COLD static void wait_in_queue(vbn_endpoint_t *ep, struct vbn_tx *tx)
{
    ep->ctx->counters.stalls++;
    tx->waiting = true;
    STAILQ_INSERT_TAIL(&ep->queue, tx, entry);
    if (!ep->conn)
        vbn_endpoint_want_conn(ep);
    else if (is_dry(ep->conn, tx))
        ep->conn->dry = true;
}

static inline bool may_post(const vbn_endpoint_t *ep, int kind)
{
    return vbn_likely(STAILQ_EMPTY(&ep->queue)) && can_post(ep, kind);
}

bool vbn_tx_may_send(const vbn_endpoint_t *ep)
{
    return may_post(ep, VBN_TX_AM);
}

bool vbn_tx_may_put(const vbn_endpoint_t *ep)
{
    uint32_t messages = ep->ctx->device.iwarp ? 2 : 1; /* a mark is one, too */

    return may_post(ep, VBN_TX_AM) && vbn_qp_room(&ep->conn->q) > messages &&
           vbn_flow_credits(&ep->conn->flow) > messages;
}

/* MSG, which has gone with a put, is under way. */
static void note_ridden(struct vbn_conn *conn, struct vbn_msg *msg)
{
    vbn_context_t *ctx = conn->ctx;
    vbn_endpoint_t *ep = conn->ep;

    vbn_flow_sent(&conn->flow);
    conn->told_next = ep->rx_next;
    msg->seq = ep->tx_next++;
    STAILQ_INSERT_TAIL(&ep->unacked, &msg->tx, entry);
    ctx->counters.tx_msgs++;
    ctx->counters.tx_bytes += msg->len;
    ctx->counters.rider_msgs++;
}

bool vbn_tx_ride(vbn_endpoint_t *ep, struct vbn_tx *tx, size_t len, const struct vbn_rider *rider)
{
    struct vbn_msg *msg = rider->msg;
    uint32_t imm;

    if (!may_post(ep, VBN_TX_AM) || !vbn_rider_fits(ep->conn, rider, len, &imm))
        return false;
    if (vbn_likely(vbn_rma_post(ep->conn, tx, &imm))) {
        note_ridden(ep->conn, msg);
    } else {
        rma_not_posted(ep, tx);
        vbn_tx_send_behind(msg, msg->type, msg->id, msg->len);
    }
    return true;
}

void vbn_tx_submit(vbn_endpoint_t *ep, struct vbn_tx *tx)
{
    if (vbn_likely(may_post(ep, tx->kind)))
        post(ep, tx);
    else
        wait_in_queue(ep, tx);
}

/* --- active messages: the caller's side
 * ------------------------------------------------------------- */

/*
 * One endpoint that cannot send must not take every buffer from the others; and while they are
 * scarce each still gets two, so that every pair of processes can always get on. Messages that wait
 * for no more than a later completion do not count: only sending on brings it.
 */
static inline bool may_take(const vbn_endpoint_t *ep)
{
    const vbn_context_t *ctx = ep->ctx;
    uint32_t out = ep->msgs_out - ep->lazy;

    return out < 2 || (vbn_pool_left(&ctx->msgs) > ctx->msgs.max / 8 && out < ctx->msgs_each);
}

static inline int msg_get(vbn_endpoint_t *ep, enum vbn_ep_state last, size_t len,
                          struct vbn_msg **out)
{
    vbn_context_t *ctx = ep->ctx;
    struct vbn_msg *msg;

    if (vbn_unlikely(ep->state > last))
        return vbn_endpoint_over_status(ep);
    if (vbn_unlikely(len > ctx->max_am_len))
        return VBN_ERR_INVALID;
    if (vbn_unlikely(!may_take(ep)))
        return VBN_ERR_AGAIN;
    msg = (struct vbn_msg *)vbn_pool_get(&ctx->msgs);
    if (vbn_unlikely(!msg))
        return VBN_ERR_AGAIN;
    msg->tx.ep = ep;
    msg->refs = 1;
    ep->msgs_out++;
    *out = msg;
    return VBN_OK;
}

int vbn_tx_get(vbn_endpoint_t *ep, size_t len, struct vbn_msg **msg)
{
    return msg_get(ep, VBN_EP_CLOSING, len, msg);
}

/* The same for one that is to be posted at once, while EP takes new work; AGAIN: it would wait. */
static inline int msg_get_now(vbn_endpoint_t *ep, size_t len, struct vbn_msg **msg)
{
    if (vbn_unlikely(!may_post(ep, VBN_TX_AM)))
        return ep->state > VBN_EP_OPEN ? vbn_endpoint_over_status(ep) : VBN_ERR_AGAIN;
    return msg_get(ep, VBN_EP_OPEN, len, msg);
}

static inline void msg_set(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len)
{
    msg->type = wire_type;
    msg->id = id;
    msg->len = (uint32_t)len;
}

/* The caller's reference becomes the endpoint's. */
static VBN_INLINE void msg_send(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len)
{
    vbn_endpoint_t *ep = msg->tx.ep;

    msg_set(msg, wire_type, id, len);
    if (vbn_likely(may_post(ep, VBN_TX_AM)))
        post_msg(ep->conn, msg);
    else
        wait_in_queue(ep, &msg->tx);
}

void vbn_tx_set(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len)
{
    msg_set(msg, wire_type, id, len);
}

void vbn_tx_send(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len)
{
    msg_send(msg, wire_type, id, len);
}

void vbn_tx_send_behind(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len)
{
    if (msg->tx.ep->state >= VBN_EP_CLOSED)
        msg_unref(msg);
    else
        msg_send(msg, wire_type, id, len);
}

void vbn_tx_drop(struct vbn_msg *msg)
{
    msg_unref(msg);
}

int vbn_msg_get(vbn_endpoint_t *ep, size_t len, vbn_msg_t **msg)
{
    int rc;

    vbn_lock(ep->ctx);
    rc = msg_get(ep, VBN_EP_OPEN, len, msg);
    vbn_unlock(ep->ctx);
    return rc;
}

void *vbn_msg_data(vbn_msg_t *msg)
{
    return vbn_tx_payload(msg);
}

void *vbn_msg_priv(vbn_msg_t *msg)
{
    return msg->priv;
}

int vbn_msg_send(vbn_msg_t *msg, uint8_t id, size_t len)
{
    vbn_endpoint_t *ep = msg->tx.ep;
    vbn_context_t *ctx = ep->ctx;
    int rc = VBN_OK;

    if (len > ctx->max_am_len)
        return VBN_ERR_INVALID;
    vbn_lock(ctx);
    if (vbn_unlikely(ep->state != VBN_EP_OPEN)) {
        rc = vbn_endpoint_over_status(ep);
    } else {
        msg->refs++;
        msg_send(msg, VBN_WIRE_AM, id, len);
    }
    vbn_unlock(ctx);
    return rc;
}

bool vbn_msg_waiting(const vbn_msg_t *msg)
{
    vbn_context_t *ctx = msg->tx.ep->ctx;
    bool waiting;

    vbn_lock(ctx);
    waiting = msg->tx.waiting;
    vbn_unlock(ctx);
    return waiting;
}

uint32_t vbn_endpoint_ready(vbn_endpoint_t *ep)
{
    uint32_t ready = 0;

    vbn_lock(ep->ctx);
    if (vbn_likely(may_post(ep, VBN_TX_AM)))
        ready = vbn_min(vbn_qp_room(&ep->conn->q), vbn_flow_credits(&ep->conn->flow) - 1u);
    vbn_unlock(ep->ctx);
    return ready;
}

void vbn_msg_put(vbn_msg_t *msg)
{
    vbn_context_t *ctx = msg->tx.ep->ctx;

    vbn_lock(ctx);
    msg_unref(msg);
    vbn_unlock(ctx);
}

static inline size_t gathered_len(const struct iovec *iov, int iovcnt)
{
    size_t len = 0;

    if (vbn_likely(iovcnt == 1))
        return iov->iov_len;
    for (int i = 0; i < iovcnt; i++)
        len += iov[i].iov_len;
    return len;
}

static inline void gather(char *to, const struct iovec *iov, int iovcnt)
{
    for (;; to += iov->iov_len, iov++) {
        vbn_copy(to, iov->iov_base, iov->iov_len);
        if (vbn_likely(--iovcnt <= 0))
            return;
    }
}

int vbn_am_send(vbn_endpoint_t *ep, uint8_t id, const struct iovec *iov, int iovcnt)
{
    vbn_context_t *ctx = ep->ctx;
    size_t len = gathered_len(iov, iovcnt);
    struct vbn_msg *msg;
    int rc;

    vbn_lock(ctx);
    rc = msg_get(ep, VBN_EP_OPEN, len, &msg);
    if (vbn_likely(rc == VBN_OK)) {
        if (len)
            gather(vbn_tx_payload(msg), iov, iovcnt);
        msg_send(msg, VBN_WIRE_AM, id, len);
    }
    vbn_unlock(ctx);
    return rc;
}

int vbn_am_send_now(vbn_endpoint_t *ep, uint8_t id, const struct iovec *iov, int iovcnt)
{
    vbn_context_t *ctx = ep->ctx;
    size_t len = gathered_len(iov, iovcnt);
    struct vbn_msg *msg;
    int rc;

    vbn_lock(ctx);
    rc = msg_get_now(ep, len, &msg);
    if (vbn_likely(rc == VBN_OK)) {
        if (len)
            gather(vbn_tx_payload(msg), iov, iovcnt);
        msg_set(msg, VBN_WIRE_AM, id, len);
        post_msg(ep->conn, msg);
    }
    vbn_unlock(ctx);
    return rc;
}

int vbn_tx_send_whole(vbn_endpoint_t *ep, const struct vbn_wire_tag *head, const void *data)
{
    size_t len = sizeof(*head) + head->len;
    struct vbn_msg *msg;
    int rc = msg_get_now(ep, len, &msg);

    if (vbn_unlikely(rc))
        return rc;
    vbn_wire_tag_write(vbn_tx_payload(msg), head);
    vbn_copy((char *)vbn_tx_payload(msg) + sizeof(*head), data, head->len);
    msg_set(msg, VBN_WIRE_TAG, VBN_TAG_EAGER, len);
    post_msg(ep->conn, msg);
    return VBN_OK;
}

/* --- control messages, acknowledgements, the end
 * ------------------------------------------------------- */

/* Something is to be told that does not wait for the next look. */
static bool is_due(const struct vbn_conn *conn)
{
    return conn->ring.say || vbn_flow_ack_due(&conn->flow) ||
           (conn->ack_asked && conn->told_next != conn->ep->rx_next);
}

static void ctl_retired(struct vbn_wr *wr, int status)
{
    struct vbn_ctl *ctl = vbn_container_of(wr, struct vbn_ctl, wr);
    struct vbn_conn *conn = wr->conn;

    ctl->busy = false;
    if (vbn_unlikely(status != VBN_OK) && conn->ep->conn == conn)
        conn->ep->said_bye = false; /* if it was the farewell, it has to be said again */
    if (status == VBN_OK && conn->state == VBN_CONN_ESTABLISHED && is_due(conn))
        vbn_tx_ack(conn);
}

/* Instead of an acknowledgement by itself, which a word about rings is, too. */
VBN_COLD static void put_ring_word(struct vbn_conn *conn, struct vbn_wire_hdr *hdr)
{
    struct vbn_wire_ring word = vbn_ring_word(conn);

    hdr->type = VBN_WIRE_RING;
    hdr->len = sizeof(word);
    vbn_wire_ring_write((char *)conn->ctl->obj.buf + sizeof(*hdr), &word);
}

/* An acknowledgement can say one thing more. */
static void say_more(struct vbn_conn *conn, struct vbn_wire_hdr *hdr)
{
    if (vbn_unlikely(conn->ring.say)) {
        put_ring_word(conn, hdr);
    } else if (vbn_unlikely(conn->dry)) {
        hdr->type = VBN_WIRE_DRY;
        conn->dry = false;
        conn->dry_said++;
    }
}

bool vbn_tx_control(struct vbn_conn *conn, uint8_t wire_type)
{
    struct vbn_ctl *ctl = conn->ctl;
    struct vbn_wire_hdr hdr = {
        .type = wire_type, .seq = conn->ep->tx_next, .ack = conn->ep->rx_next};
    uint32_t bytes;
    bool inlined;

    if (ctl->busy || conn->ep->said_bye || conn->state != VBN_CONN_ESTABLISHED ||
        !vbn_flow_may_ack(&conn->flow) || !vbn_qp_has_room(&conn->q))
        return false;
    hdr.credits = vbn_flow_sent(&conn->flow);
    if (wire_type == VBN_WIRE_ACK)
        say_more(conn, &hdr);
    conn->told_next = hdr.ack;
    conn->ack_asked = false;
    vbn_wire_hdr_write(ctl->obj.buf, &hdr);
    bytes = (uint32_t)sizeof(hdr) + hdr.len;
    inlined = bytes <= conn->ctx->device.max_inline;
    ctl->busy = post_buffer(conn, &conn->q.send, &ctl->obj, 0, bytes,
                            IBV_SEND_SIGNALED | (inlined ? IBV_SEND_INLINE : 0u), &ctl->wr);
    conn->ctx->counters.acks_sent += ctl->busy;
    return ctl->busy;
}

bool vbn_tx_ack(struct vbn_conn *conn)
{
    return vbn_flow_may_tell(&conn->flow) && vbn_tx_control(conn, VBN_WIRE_ACK);
}

void vbn_tx_forget_acked(vbn_endpoint_t *ep)
{
    struct vbn_tx *tx;

    while ((tx = STAILQ_FIRST(&ep->unacked)) && vbn_seq_before(msg_of(tx)->seq, ep->tx_acked)) {
        STAILQ_REMOVE_HEAD(&ep->unacked, entry);
        msg_unref(msg_of(tx));
    }
}

/* TX goes to the end of LIST, to be posted once more. */
static void replay(vbn_endpoint_t *ep, struct vbn_tx *tx, struct vbn_tx_list *list)
{
    struct vbn_counters *counters = &ep->ctx->counters;

    tx->waiting = true;
    counters->replayed++;
    if (tx->kind == VBN_TX_AM) { /* counted again when it is posted */
        counters->tx_msgs--;
        counters->tx_bytes -= msg_of(tx)->len;
    }
    STAILQ_INSERT_TAIL(list, tx, entry);
}

void vbn_tx_requeue(vbn_endpoint_t *ep)
{
    struct vbn_tx_list *rmas = &ep->retired, again = STAILQ_HEAD_INITIALIZER(again);
    struct vbn_tx *rma, *msg;

    while ((rma = STAILQ_FIRST(rmas)) || !STAILQ_EMPTY(&ep->unacked)) {
        msg = STAILQ_FIRST(&ep->unacked);
        if (!rma || (msg && vbn_seq_before(msg_of(msg)->seq, vbn_rma_seq(rma)))) {
            STAILQ_REMOVE_HEAD(&ep->unacked, entry);
            replay(ep, msg, &again);
            continue;
        }
        STAILQ_REMOVE_HEAD(rmas, entry);
        if (vbn_rma_has_arrived(rma))
            vbn_rma_abort(rma, VBN_OK);
        else
            replay(ep, rma, &again);
    }
    STAILQ_CONCAT(&again, &ep->queue);
    STAILQ_CONCAT(&ep->queue, &again);
    ep->tx_next = ep->tx_acked; /* the same numbers again, for the same messages */
}

void vbn_tx_abort(vbn_endpoint_t *ep, int status)
{
    struct vbn_tx *tx;

    while ((tx = STAILQ_FIRST(&ep->retired))) {
        STAILQ_REMOVE_HEAD(&ep->retired, entry);
        vbn_rma_abort(tx, vbn_rma_has_arrived(tx) ? VBN_OK : status);
    }
    STAILQ_CONCAT(&ep->unacked, &ep->queue);
    while ((tx = STAILQ_FIRST(&ep->unacked))) {
        STAILQ_REMOVE_HEAD(&ep->unacked, entry);
        tx->waiting = false;
        if (tx->kind == VBN_TX_AM) {
            msg_unref(msg_of(tx));
        } else {
            vbn_rma_abort(tx, status);
        }
    }
}

/* --- pools
 * ---------------------------------------------------------------------------------------------- */

static void msg_init(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    struct vbn_msg *msg = (struct vbn_msg *)obj;

    (void)pool;
    msg->tx.kind = VBN_TX_AM;
    vbn_wr_init(&msg->tx.wr, msg_retired);
}

static void ctl_init(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    (void)pool;
    vbn_wr_init(&((struct vbn_ctl *)obj)->wr, ctl_retired);
}

/* As many as a handful of peers keep busy, so that none waits for a registration in the first
 * exchanges; where memory may not be pinned for so many, those that one peer needs. */
static bool have_buffers(struct vbn_pool *msgs)
{
    return msgs->max >= LEAST_BUFFERS &&
           (vbn_pool_reserve(msgs, vbn_min(msgs->max, START_BUFFERS)) == VBN_OK ||
            vbn_pool_reserve(msgs, LEAST_BUFFERS) == VBN_OK);
}

int vbn_tx_init(vbn_context_t *ctx, struct vbn_error *err)
{
    const struct vbn_options *o = &ctx->opts;
    size_t buf_size = sizeof(struct vbn_wire_hdr) + ctx->max_am_len;
    uint64_t half = vbn_mem_lock_limit() / 8 * 3 / buf_size; /* half of what pools may pin */
    uint32_t max = (uint32_t)vbn_min(o->tx_buffers, half);

    vbn_pool_init(&ctx->msgs, ctx, sizeof(struct vbn_msg) + o->msg_priv_size, buf_size, max,
                  msg_init);
    vbn_pool_init(&ctx->ctls, ctx, sizeof(struct vbn_ctl),
                  sizeof(struct vbn_wire_hdr) + sizeof(struct vbn_wire_ring), UINT32_MAX, ctl_init);
    ctx->msgs_each = (uint32_t)vbn_min(4 * o->window, UINT32_MAX);
    if (!have_buffers(&ctx->msgs) || vbn_pool_reserve(&ctx->ctls, LEAST_BUFFERS))
        return vbn_error_set(
            err, VBN_ERR_MEMLOCK,
            "the locked-memory limit (RLIMIT_MEMLOCK) is %llu KiB, too small for "
            "the smallest pools; raise it: `ulimit -l unlimited`, or memlock in "
            "/etc/security/limits.conf and in the job launcher's service, or set a "
            "smaller eager_limit",
            (unsigned long long)vbn_mem_lock_limit() / 1024);
    return VBN_OK;
}

void vbn_tx_fini(vbn_context_t *ctx)
{
    vbn_pool_fini(&ctx->msgs);
    vbn_pool_fini(&ctx->ctls);
}
