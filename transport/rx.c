/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx.h"
#include "context.h"
#include "error.h"
#include "log.h"
#include "rider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REFILL       8u /* buffers posted at once, at least */
#define WINDOW_START 8u /* of a new connection on the shared queue */
/* A peer that takes longer for half of its window is widened for only if it says that it waits: to
 * widen means to register memory. */
#define WIDEN_WITHIN_NS 1000000u

static void rx_done(struct vbn_comp *comp, const struct ibv_wc *wc);
static void rx_done_own(struct vbn_comp *comp, const struct ibv_wc *wc);

/* --- refilling
 * -------------------------------------------------------------------------------------- */

static int rq_post(struct vbn_rq *rq)
{
    struct ibv_recv_wr *bad;
    int rc;

    if (!rq->chain)
        return 0;
    rc = rq->srq ? ibv_post_srq_recv(rq->srq, &rq->chain->wr, &bad)
                 : ibv_post_recv(rq->qp, &rq->chain->wr, &bad);
    if (rc) /* from `bad` on they were not taken: they stay chained for the next try */
        for (; rq->chain && &rq->chain->wr != bad; rq->posted++, rq->chain_len--)
            rq->chain = rq->chain->wr.next
                            ? vbn_container_of(rq->chain->wr.next, struct vbn_rxbuf, wr)
                            : NULL;
    else {
        rq->posted += rq->chain_len;
        rq->chain_len = 0;
        rq->chain = NULL;
    }
    return rc;
}

static inline void rq_chain(struct vbn_rq *rq, struct vbn_rxbuf *buf)
{
    buf->rq = rq;
    buf->wr.next = rq->chain ? &rq->chain->wr : NULL;
    rq->chain = buf;
    rq->chain_len++;
}

/* BUF, in none of its lists, belongs to no queue any more. */
static void rq_leave(vbn_context_t *ctx, struct vbn_rxbuf *buf)
{
    buf->rq = NULL;
    vbn_pool_put(&ctx->rx.pool, &buf->obj);
}

/* RQ has more buffers, or fewer: while messages that are held have nearly all, no other may come
 * that would post the rest. */
static void rq_choose_refill(struct vbn_rq *rq)
{
    rq->refill = rq->posted + rq->chain_len < 2 * REFILL ? 1 : REFILL;
}

/* BUF goes back to RQ; several at once are posted. */
static inline void rq_return(struct vbn_conn *conn, struct vbn_rq *rq, struct vbn_rxbuf *buf)
{
    rq_chain(rq, buf);
    if (rq->chain_len >= rq->refill && !conn->q.failed && rq_post(rq))
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "posting receives failed");
}

/* BUF goes back to where every connection can use it, whatever has become of its own. */
static void rq_return_shared(struct vbn_rq *shared, struct vbn_rxbuf *buf)
{
    rq_chain(shared, buf);
    rq_choose_refill(shared);
    if (shared->chain_len >= shared->refill)
        rq_post(shared); /* or with the next one */
}

/* Takes buffers from the pool until the queue has its target, and posts them. */
static int rq_fill(vbn_context_t *ctx, struct vbn_rq *rq, uint32_t target)
{
    while (rq->target < target) {
        struct vbn_rxbuf *buf = (struct vbn_rxbuf *)vbn_pool_get(&ctx->rx.pool);

        if (!buf)
            break;
        buf->comp.done = rq->srq ? rx_done : rx_done_own;
        rq_chain(rq, buf);
        rq->target++;
    }
    rq_choose_refill(rq);
    return rq_post(rq) ? VBN_ERR_DEVICE : VBN_OK;
}

/* --- one message
 * -------------------------------------------------------------------------------------- */

VBN_COLD static void bad_message(vbn_endpoint_t *ep, const char *what)
{
    ep->ctx->counters.bad_messages++;
    vbn_endpoint_fail(ep, VBN_ERR_PROTOCOL, "peer %s by device %s: %s", ep->name,
                      ep->ctx->device.name, what);
}

void vbn_rx_malformed(vbn_endpoint_t *ep)
{
    bad_message(ep, "malformed message");
}

/*
 * A reliable connection brings each message once, in order and whole. Soft-RoCE has brought one
 * twice, and can bring one without its bytes (doc/behaviours.md, l): another connection goes on
 * with the right one. Who does not even begin a connection rightly is no peer of ours.
 */
VBN_COLD static void not_as_sent(struct vbn_conn *conn, const char *what, uint32_t number)
{
    uint32_t expected = conn->ep->rx_next;

    if (conn->flow.rx_count == 0) {
        bad_message(conn->ep, what);
        return;
    }
    conn->ctx->counters.bad_messages++;
    conn->gapped |= !vbn_seq_before(number, expected);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "%s: %u came where %u was expected", what, number,
                  expected);
}

static inline void deliver(vbn_context_t *ctx, vbn_endpoint_t *ep, const struct vbn_wire_hdr *hdr,
                           void *data)
{
    struct vbn_am am = ctx->am[hdr->id];

    ctx->counters.rx_msgs++;
    ctx->counters.rx_bytes += hdr->len;
    if (vbn_unlikely(!am.fn)) {
        ctx->counters.bad_messages++;
        return;
    }
    if (vbn_unlikely(ep->released))
        return;
    vbn_unlock(ctx);
    am.fn(am.arg, ep, hdr->id, data, hdr->len);
    vbn_lock(ctx);
}

void vbn_rx_owe_ack(struct vbn_conn *conn)
{
    if (conn->ack_listed || conn->state != VBN_CONN_ESTABLISHED)
        return;
    conn->ack_listed = true;
    conn->ack_aged = false;
    TAILQ_INSERT_TAIL(&conn->ctx->acks, conn, ack_entry);
}

/* Now, or when there is room: the peer may have no credit left to ask for more by. */
static inline void tell_grant(struct vbn_conn *conn)
{
    if (vbn_unlikely(!vbn_tx_control(conn, VBN_WIRE_ACK)))
        vbn_rx_owe_ack(conn);
}

/* Messages that are held keep a peer from a grant that would be due. Where it has nothing left it
 * could not even say farewell, and any grant is better than none. */
static inline void tell_the_dry(struct vbn_conn *conn)
{
    if (vbn_unlikely(vbn_flow_peer_is_dry(&conn->flow)) && !vbn_tx_ack(conn))
        vbn_rx_owe_ack(conn);
}

/* After a message: what it allows us to send, and what the peer should be told. */
static inline void after_message(struct vbn_conn *conn)
{
    vbn_endpoint_t *ep = conn->ep;

    if (!STAILQ_EMPTY(&ep->queue))
        vbn_tx_pump(ep);
    if (vbn_flow_ack_due(&conn->flow)) {
        if (conn->window < conn->ctx->opts.window)
            vbn_rx_used_up(conn);
        tell_grant(conn);
    }
    if (!conn->ack_listed && conn->told_next != ep->rx_next)
        vbn_rx_owe_ack(conn);
    if (vbn_unlikely(ep->state == VBN_EP_CLOSING))
        vbn_endpoint_advance_close(ep);
}

/* Messages that are held have nearly all buffers, which all peers share: even what is waited for
 * might find none. */
static bool is_scarce(const struct vbn_rx *rx)
{
    return rx->shared.srq && rx->shared.posted < rx->shared.target / 4;
}

/* A buffer of no pool for a message of LEN bytes, which lies behind it, aligned as in the pools. */
VBN_COLD static struct vbn_rxbuf *make_own(vbn_context_t *ctx, size_t len)
{
    const size_t head = (sizeof(struct vbn_rxbuf) + 15) / 16 * 16;
    struct vbn_rxbuf *buf = calloc(1, head + len);

    if (!buf)
        return NULL;
    buf->ctx = ctx;
    buf->own = true;
    buf->obj.buf = buf->msg = (char *)buf + head;
    return buf;
}

/* A copy of what BUF has, LEN bytes behind a header, is held instead. False: no memory. */
VBN_COLD static bool hold_copy(struct vbn_conn *conn, struct vbn_rxbuf *buf, uint32_t len)
{
    struct vbn_rxbuf *copy =
        buf->own ? NULL : make_own(conn->ctx, sizeof(struct vbn_wire_hdr) + len);

    if (!copy)
        return false;
    memcpy(copy->msg, buf->msg, sizeof(struct vbn_wire_hdr) + len);
    copy->session = conn->session;
    STAILQ_REMOVE(&conn->ep->tag.held, buf, vbn_rxbuf, held_entry);
    STAILQ_INSERT_TAIL(&conn->ep->tag.held, copy, held_entry);
    return true;
}

/* A tagged message; true if BUF is still needed for it. */
static VBN_INLINE bool take_tagged(struct vbn_conn *conn, struct vbn_rxbuf *buf,
                                   const struct vbn_wire_hdr *hdr)
{
    enum vbn_tag_verdict verdict;

    conn->ctx->counters.rx_msgs++;
    conn->ctx->counters.rx_bytes += hdr->len;
    verdict = vbn_tag_arrived(conn->ep, buf, hdr);
    if (vbn_unlikely(verdict == VBN_TAG_MALFORMED)) {
        conn->ep->rx_next--; /* nobody has heard it: stranger.h */
        vbn_rx_malformed(conn->ep);
    }
    if (vbn_likely(verdict != VBN_TAG_HELD))
        return false;
    conn->flow.held++;
    if (is_scarce(&conn->ctx->rx) && hold_copy(conn, buf, hdr->len))
        return false;
    if (buf->rq && buf->rq->srq)
        rq_choose_refill(buf->rq);
    buf->session = conn->session;
    buf->rq = NULL;
    return true;
}

/* A word about rings. False: it cannot be. */
static bool take_ring_word(struct vbn_conn *conn, const struct vbn_rxbuf *buf)
{
    struct vbn_wire_ring word;

    return vbn_wire_ring_read((char *)buf->msg + sizeof(struct vbn_wire_hdr), &word) &&
           vbn_ring_told(conn, &word);
}

/* What the peer has put before it is here. */
static void take_mark(struct vbn_conn *conn)
{
    conn->ep->rx_next++;
    conn->ctx->counters.rx_msgs++;
    conn->ack_asked = true;
    vbn_tx_ack(conn); /* else as soon as the last one is out */
}

static bool its_version_has(const struct vbn_conn *conn, uint8_t type)
{
    return (type != VBN_WIRE_DRY || conn->version >= VBN_WIRE_DRIES) &&
           (type != VBN_WIRE_MARK || conn->version >= VBN_WIRE_MARKS);
}

/* What is no message of the sender's. False: nothing more comes by this connection. */
VBN_COLD static bool take_control(struct vbn_conn *conn, const struct vbn_rxbuf *buf, uint8_t type)
{
    if (!its_version_has(conn, type)) {
        bad_message(conn->ep, "type of message that its version of the wire has not");
        return false;
    }
    if (type == VBN_WIRE_BYE) {
        vbn_endpoint_peer_closed(conn->ep);
        return false;
    }
    if (type == VBN_WIRE_RING && !take_ring_word(conn, buf)) {
        bad_message(conn->ep, "impossible word about rings");
        return false;
    }
    if (type == VBN_WIRE_DRY)
        vbn_rx_widen(conn);
    if (type == VBN_WIRE_MARK)
        take_mark(conn);
    tell_the_dry(conn); /* only such a message goes by the last credit */
    return true;
}

/* A message of CONN's, HDR, is the next one by its number. True if BUF is still needed for it. */
static VBN_INLINE bool take_next(struct vbn_conn *conn, struct vbn_rxbuf *buf,
                                 const struct vbn_wire_hdr *hdr)
{
    vbn_endpoint_t *ep = conn->ep;
    bool held = false;

    if (vbn_unlikely(!vbn_flow_received(&conn->flow, hdr->credits))) {
        not_as_sent(conn, "credits out of range", hdr->seq);
        return false;
    }
    if (vbn_unlikely(!vbn_endpoint_acked(ep, hdr->ack))) {
        bad_message(ep, "acknowledgement out of range");
        return false;
    }
    if (vbn_likely(hdr->type == VBN_WIRE_AM)) {
        ep->rx_next++;
        deliver(conn->ctx, ep, hdr, (char *)buf->msg + sizeof(*hdr));
    } else if (vbn_likely(hdr->type == VBN_WIRE_TAG)) {
        ep->rx_next++;
        held = take_tagged(conn, buf, hdr);
    } else if (!take_control(conn, buf, hdr->type)) {
        return false;
    }
    after_message(conn);
    return held;
}

/* --- rings
 * --------------------------------------------------------------------------------------------- */

void vbn_rx_free_own(struct vbn_rxbuf *buf)
{
    free(buf);
}

static inline struct vbn_rxbuf *spare(vbn_context_t *ctx)
{
    struct vbn_rxbuf *buf = ctx->rings.spare;

    return vbn_likely(buf != NULL) ? buf : (ctx->rings.spare = make_own(ctx, VBN_RING_SLOT));
}

/* The next message of CONN's, if it has been written into the ring. False: not yet. */
static inline bool take_from_ring(struct vbn_conn *conn)
{
    struct vbn_ring_in *in = &conn->ring.in;
    struct vbn_rxbuf *buf = spare(conn->ctx);
    struct vbn_wire_hdr hdr;

    if (vbn_unlikely(!buf)) /* it stays there until there is memory */
        return false;
    if (!vbn_wire_sealed_read(in->next, (uint16_t)(conn->flow.rx_count + 1), buf->obj.buf, &hdr))
        return false;
    vbn_ring_advance(in);
    if (vbn_unlikely(hdr.type != VBN_WIRE_AM && hdr.type != VBN_WIRE_TAG))
        vbn_rx_malformed(conn->ep);
    else if (vbn_unlikely(take_next(conn, buf, &hdr)))
        conn->ctx->rings.spare = NULL;
    return true;
}

int vbn_rx_take_ring(struct vbn_conn *conn)
{
    int n = 0;

    while (conn->ep->conn == conn && take_from_ring(conn) && ++n < (int)VBN_RING_SLOTS &&
           conn->ring.in.slots && vbn_ring_shows(&conn->ring.in, conn->ep->rx_next))
        ;
    return n;
}

/* What was written into the ring before the message that has come: only if it has the next number,
 * for a device that has given an acknowledgement twice puts the orders of seals out of step. */
static void take_ring_first(struct vbn_conn *conn)
{
    if (conn->ring.in.slots && conn->ep->conn == conn &&
        vbn_ring_shows(&conn->ring.in, conn->ep->rx_next))
        vbn_rx_take_ring(conn);
}

/* HDR is not of the next message: whether what was written into the ring before has been missing.
 */
VBN_COLD static bool catch_up(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr)
{
    take_ring_first(conn);
    if (conn->ep->conn != conn)
        return false;
    if (hdr->seq == conn->ep->rx_next)
        return true;
    not_as_sent(conn, "sequence number out of order", hdr->seq);
    return false;
}

/* --- completions
 * --------------------------------------------------------------------------------------- */

/* On iWARP: accepted, and nothing has come by it yet. */
static bool awaits_word(const struct vbn_conn *conn)
{
    return conn->ep->attempt == conn && !conn->active && conn->state >= VBN_CONN_ESTABLISHED;
}

/* Something has come by CONN, which is not its endpoint's: it is now, where it was on its way to
 * be. False: the endpoint is over, or has another connection. */
VBN_COLD static bool first_word(struct vbn_conn *conn)
{
    vbn_endpoint_t *ep = conn->ep;

    if (conn->state == VBN_CONN_ACCEPTING)
        vbn_conn_event(conn, VBN_EV_ESTABLISHED);
    if (awaits_word(conn))
        vbn_endpoint_up(ep, conn);
    return ep->conn == conn;
}

/* What came of a message is bare: puts its head before it, and returns the length of all. 0: that
 * cannot be done. */
static uint32_t restore(struct vbn_conn *conn, struct vbn_rxbuf *buf, const struct ibv_wc *wc)
{
    uint32_t head;

    if (conn->ep->conn != conn && conn->state != VBN_CONN_ACCEPTING && !awaits_word(conn))
        return 0; /* the endpoint is over, or has another connection */
    head = vbn_bare_restore(conn, wc->imm_data, buf->msg, wc->byte_len);
    buf->msg = (char *)buf->msg - head;
    if (!head)
        not_as_sent(conn, "bare message without a head", conn->ep->rx_next);
    return head ? head + wc->byte_len : 0;
}

/* A put has come, and a word with it: its length, which BUF has now. 0: as above. It may be the
 * first message that comes by CONN. */
static uint32_t restore_rider(struct vbn_conn *conn, struct vbn_rxbuf *buf, const struct ibv_wc *wc)
{
    uint32_t len;

    if (conn->ep->conn != conn && !first_word(conn))
        return 0;
    len = vbn_rider_restore(conn, wc->imm_data, buf->msg);
    if (!len)
        not_as_sent(conn, "word on a put that nobody waits for", conn->ep->rx_next);
    return len;
}

/*
 * What BUF has received may be bare, or its head may be wanted later: if it is the next message,
 * for the sender has kept it once. What was written into the ring before is taken first. The length
 * of all of it; 0: it is nothing.
 */
static __attribute__((noinline)) uint32_t take_head(struct vbn_conn *conn, struct vbn_rxbuf *buf,
                                                    const struct ibv_wc *wc)
{
    struct vbn_wire_hdr hdr;

    take_ring_first(conn);
    if (vbn_unlikely(conn->gapped) && wc->wc_flags & IBV_WC_WITH_IMM)
        return 0;
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        return restore_rider(conn, buf, wc);
    if (wc->wc_flags & IBV_WC_WITH_IMM)
        return restore(conn, buf, wc);
    if (vbn_wire_hdr_read(buf->msg, wc->byte_len, &hdr) && hdr.len >= VBN_BARE_MIN &&
        hdr.seq == conn->ep->rx_next)
        vbn_bare_keep(&conn->bare.in, &hdr, (char *)buf->msg + sizeof(hdr));
    return wc->byte_len;
}

/* What BUF has received. True if it is still needed for it. */
static inline bool take_message(struct vbn_conn *conn, struct vbn_rxbuf *buf,
                                const struct ibv_wc *wc)
{
    const vbn_context_t *ctx = conn->ctx;
    vbn_endpoint_t *ep = conn->ep;
    uint32_t byte_len = wc->byte_len;
    struct vbn_wire_hdr hdr;
    bool held;

    buf->msg = (char *)buf->obj.buf + VBN_BARE_ROOM;
    if (vbn_unlikely(byte_len >= VBN_BARE_MIN - VBN_BARE_HEAD ||
                     wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)) {
        byte_len = take_head(conn, buf, wc);
        if (!byte_len)
            return false;
    }
    if (vbn_unlikely(!vbn_wire_hdr_read(buf->msg, byte_len, &hdr))) {
        if (byte_len)
            vbn_rx_malformed(ep);
        else if (ep->conn == conn || awaits_word(conn))
            not_as_sent(conn, "malformed message, without bytes", ep->rx_next);
        return false;
    }
    if (vbn_unlikely(ep->conn != conn) && !first_word(conn))
        return false;
    if (vbn_unlikely(hdr.seq != ep->rx_next) && !catch_up(conn, &hdr))
        return false;
    held = take_next(conn, buf, &hdr);
    if (hdr.len - 1 < VBN_RING_ROOM && /* those without bytes are mostly acknowledgements */
        vbn_unlikely(++conn->ring.in.came == ctx->opts.ring_after))
        vbn_ring_consider(conn);
    return held;
}

VBN_COLD static void rx_failed(vbn_context_t *ctx, struct vbn_conn *conn, struct vbn_rxbuf *buf,
                               const struct ibv_wc *wc)
{
    struct vbn_rq *rq = buf->rq;

    if (!rq)
        return; /* its queue was taken down without it */
    rq->posted--;
    if (rq->srq) {
        rq_return_shared(rq, buf);
    } else {
        rq->target--;
        rq_leave(ctx, buf);
    }
    if (!conn || wc->status == IBV_WC_SUCCESS)
        return;
    if (wc->status != IBV_WC_WR_FLUSH_ERR || !conn->q.failed)
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "receive: %s (vendor error 0x%x)",
                      ibv_wc_status_str(wc->status), wc->vendor_err);
    vbn_conn_check_drained(conn);
}

static void rx_done(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct vbn_rxbuf *buf = vbn_container_of(comp, struct vbn_rxbuf, comp);
    vbn_context_t *ctx = buf->ctx;
    struct vbn_conn *conn = vbn_qpmap_find(&ctx->qpmap, wc->qp_num);
    struct vbn_rq *rq = buf->rq;

    if (vbn_unlikely(!conn || wc->status != IBV_WC_SUCCESS)) {
        rx_failed(ctx, conn, buf, wc);
        return;
    }
    rq->posted--;
    if (vbn_unlikely(take_message(conn, buf, wc)))
        return;
    rq_return(conn, rq, buf);
}

/* The same of buffers in queues of the connections' own: by the number of its queue pair a new one
 * may be found that has the number of an old one. */
static void rx_done_own(struct vbn_comp *comp, const struct ibv_wc *wc)
{
    struct vbn_rxbuf *buf = vbn_container_of(comp, struct vbn_rxbuf, comp);
    const struct vbn_conn *conn = vbn_qpmap_find(&buf->ctx->qpmap, wc->qp_num);

    if (conn && buf->rq != &conn->rq)
        rx_failed(buf->ctx, NULL, buf, wc);
    else
        rx_done(comp, wc);
}

void vbn_rx_release(vbn_endpoint_t *ep, struct vbn_rxbuf *buf)
{
    struct vbn_rx *rx = &ep->ctx->rx;
    struct vbn_conn *conn = ep->conn;

    bool over = !conn || buf->session != conn->session; /* the connection that it came by */

    rx->stale -= buf->stale;
    buf->stale = false;
    if (buf->own)
        vbn_rx_free_own(buf);
    else if (rx->shared.srq)
        rq_return_shared(&rx->shared, buf);
    else if (over)
        vbn_pool_put(&rx->pool, &buf->obj);
    else
        rq_return(conn, &conn->rq, buf);
    if (over)
        return;
    conn->flow.held--;
    if (vbn_flow_ack_due(&conn->flow))
        tell_grant(conn);
    else
        tell_the_dry(conn);
}

/* --- windows
 * --------------------------------------------------------------------------------------------- */

/* Buffers that the shared queue ought to have. */
static uint32_t wanted(const struct vbn_rx *rx)
{
    return rx->granted + rx->stale + VBN_RX_SLACK;
}

/* Buffers of the shared queue that are not spoken for. */
static uint32_t unspoken(const struct vbn_rx *rx)
{
    uint64_t reach = vbn_min(rx->max, (uint64_t)rx->shared.target + vbn_pool_left(&rx->pool));

    return wanted(rx) < reach ? (uint32_t)reach - wanted(rx) : 0;
}

/* Buffers for all that was granted, as far as the queue reaches, and memory. */
static bool fill_shared(vbn_context_t *ctx)
{
    struct vbn_rx *rx = &ctx->rx;
    uint32_t want = (uint32_t)vbn_min(wanted(rx), rx->max);

    if (rq_fill(ctx, &rx->shared, want))
        return false;
    return rx->shared.target >= want || !ctx->device.iwarp;
}

static uint16_t grant_own(const vbn_context_t *ctx)
{
    const struct vbn_pool *pool = &ctx->rx.pool;
    uint32_t free = vbn_pool_left(pool);
    uint32_t window = free > VBN_RX_SLACK ? (free - VBN_RX_SLACK) / 4 : 0;
    uint32_t most = ctx->device.max_qp_wr;

    window = (uint32_t)vbn_min(window, ctx->opts.window);
    window = vbn_min(window, most > VBN_RX_SLACK ? most - VBN_RX_SLACK : 0);
    return window < VBN_WINDOW_MIN ? 0 : (uint16_t)window;
}

uint16_t vbn_rx_grant(vbn_context_t *ctx)
{
    struct vbn_rx *rx = &ctx->rx;
    uint32_t window;

    vbn_pool_look_again(&rx->pool);
    if (!rx->shared.srq)
        return grant_own(ctx);
    window = (uint32_t)vbn_min(vbn_min(ctx->opts.window, WINDOW_START), unspoken(rx) / 4);
    window = (uint32_t)vbn_max(window, VBN_WINDOW_MIN);
    if (window > unspoken(rx) && ctx->device.iwarp)
        return 0;
    rx->granted += window;
    if (!fill_shared(ctx)) {
        rx->granted -= window;
        return 0;
    }
    return (uint16_t)window;
}

VBN_COLD void vbn_rx_used_up(struct vbn_conn *conn)
{
    uint64_t now = vbn_now_ns(conn->ctx), last = conn->used_ns;

    conn->used_ns = now;
    if (now - last < WIDEN_WITHIN_NS)
        vbn_rx_widen(conn);
}

VBN_COLD void vbn_rx_widen(struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;
    struct vbn_rx *rx = &ctx->rx;
    uint32_t more = (uint32_t)vbn_min(conn->window, ctx->opts.window - conn->window);

    more = (uint32_t)vbn_min(more, unspoken(rx) / 4);
    if (!rx->shared.srq || !more)
        return;
    rx->granted += more;
    if (!fill_shared(ctx) || rx->shared.target < wanted(rx)) {
        rx->granted -= more;
        return;
    }
    conn->window = (uint16_t)(conn->window + more);
    conn->flow.window = conn->window;
}

/* Held messages are no reason to grant CONN's window to another: they keep their buffers. */
void vbn_rx_ungrant(struct vbn_conn *conn)
{
    struct vbn_rx *rx = &conn->ctx->rx;
    struct vbn_rxbuf *buf;

    if (!rx->shared.srq)
        return;
    rx->granted -= conn->window;
    if (!conn->flow.held) /* what is held is of another of its session: it was dropped unheard */
        return;
    STAILQ_FOREACH(buf, &conn->ep->tag.held, held_entry)
    {
        if (buf->own || buf->stale || buf->session != conn->session)
            continue;
        buf->stale = true;
        rx->stale++;
    }
}

int vbn_rx_attach(struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;
    uint32_t want = conn->window + VBN_RX_SLACK;

    if (ctx->rx.shared.srq)
        return VBN_OK;
    conn->rq.qp = conn->q.qp;
    if (rq_fill(ctx, &conn->rq, want))
        return VBN_ERR_DEVICE;
    return conn->rq.target == want ? VBN_OK : VBN_ERR_NO_MEMORY;
}

static void leave_if_of(void *arg, struct vbn_pool_obj *obj)
{
    struct vbn_conn *conn = arg;
    struct vbn_rxbuf *buf = (struct vbn_rxbuf *)obj;

    if (buf->rq == &conn->rq)
        rq_leave(conn->ctx, buf);
}

void vbn_rx_detach(struct vbn_conn *conn)
{
    struct vbn_rq *rq = &conn->rq;

    while (rq->chain) {
        struct vbn_rxbuf *buf = rq->chain;

        rq->chain = buf->wr.next ? vbn_container_of(buf->wr.next, struct vbn_rxbuf, wr) : NULL;
        rq_leave(conn->ctx, buf);
    }
    rq->chain_len = 0;
    if (rq->posted) /* and never reported by the device */
        vbn_pool_each(&conn->ctx->rx.pool, leave_if_of, conn);
    rq->posted = 0;
}

/* --- set-up
 * ------------------------------------------------------------------------------------------------
 */

static void rxbuf_init(struct vbn_pool *pool, struct vbn_pool_obj *obj)
{
    struct vbn_rxbuf *buf = (struct vbn_rxbuf *)obj;
    uint32_t len = (uint32_t)sizeof(struct vbn_wire_hdr) + pool->ctx->max_am_len;

    buf->ctx = pool->ctx;
    /* What the pool has rounded up is not the peer's: the device refuses more. */
    buf->sge = (struct ibv_sge){
        .addr = (uintptr_t)obj->buf + VBN_BARE_ROOM, .length = len, .lkey = obj->lkey};
    buf->wr =
        (struct ibv_recv_wr){.wr_id = (uintptr_t)&buf->comp, .sg_list = &buf->sge, .num_sge = 1};
}

/* The device's word on its limit may be too good: a smaller queue is tried. */
static void make_srq(vbn_context_t *ctx)
{
    uint32_t depth = (uint32_t)vbn_min(ctx->rx.max, ctx->device.max_srq_wr);

    for (; depth >= 2 * VBN_RX_SLACK && !ctx->rx.shared.srq; depth /= 2) {
        struct ibv_srq_init_attr init = {.attr = {.max_wr = depth, .max_sge = 1}};

        ctx->rx.shared.srq = ibv_create_srq(ctx->device.pd, &init);
        if (ctx->rx.shared.srq)
            ctx->rx.max = depth;
    }
}

int vbn_rx_init(vbn_context_t *ctx, struct vbn_error *err)
{
    struct vbn_rx *rx = &ctx->rx;
    size_t buf_size = VBN_BARE_ROOM + sizeof(struct vbn_wire_hdr) + ctx->max_am_len;
    uint64_t half =
        vbn_mem_lock_limit() / 8 * 3 / buf_size; /* the other half of what pools may pin */

    rx->max = (uint32_t)vbn_min(vbn_min(ctx->opts.srq_depth, half), ctx->device.cq_size / 2);
    vbn_pool_init(&rx->pool, ctx, sizeof(struct vbn_rxbuf), buf_size, rx->max, rxbuf_init);
    if (rx->max < 2 * VBN_RX_SLACK || vbn_pool_reserve(&rx->pool, 2 * VBN_RX_SLACK))
        return vbn_error_set(
            err, VBN_ERR_MEMLOCK,
            "the locked-memory limit (RLIMIT_MEMLOCK) is %llu KiB, the smallest pools need %zu KiB; "
            "raise it: `ulimit -l unlimited`, or memlock in /etc/security/limits.conf and in the "
            "job launcher's service, or set a smaller eager_limit",
            (unsigned long long)vbn_mem_lock_limit() / 1024,
            (2 * VBN_RX_SLACK + 1) * buf_size / 3 * 8 / 1024);
    if (ctx->device.has_srq && ctx->opts.use_srq)
        make_srq(ctx);
    return VBN_OK;
}

void vbn_rx_fini(vbn_context_t *ctx)
{
    if (ctx->rx.shared.srq)
        ibv_destroy_srq(ctx->rx.shared.srq);
    vbn_pool_fini(&ctx->rx.pool);
}
