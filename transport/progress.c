/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress engine: one entry, two speeds. Completions at every call; connection events, device
 * events, deadlines and aged acknowledgements now and then, since each look costs a system call.
 */
#include "context.h"
#include "group.h"
#include "rma.h"
#include "wait.h"

#define POLLS_PER_LOOK  64u      /* calls between two looks at the clock, at most */
#define LOOK_WITHIN_NS  100000u  /* what those calls should take, at most */
#define RING_TURNS      8u       /* calls that rings had something for, to one look at the queue */
#define EVENTS_EVERY_NS 1000000u /* between two looks at the event channels, when all is quiet */
#define PROBE_EVERY_NS  1000000000u /* between two questions whether a peer that is silent lives */
#define LINK_GRACE_NS   150000000u  /* after the link's return, for what was under way */

/* An acknowledgement alone is not worth another: only active messages count, and a grant or a word
 * about rings that could not be told when it was due. */
static bool untold(const struct vbn_conn *conn)
{
    return conn->told_next != conn->ep->rx_next || conn->ring.say ||
           vbn_flow_ack_due(&conn->flow) || vbn_flow_peer_is_dry(&conn->flow);
}

/* A connection that has not been told anything for a whole interval is told now. */
static int send_aged_acks(vbn_context_t *ctx)
{
    struct vbn_conn *conn, *next;
    int n = 0;

    for (conn = TAILQ_FIRST(&ctx->acks); conn; conn = next) {
        next = TAILQ_NEXT(conn, ack_entry);
        if (conn->ack_aged && untold(conn) && conn->state == VBN_CONN_ESTABLISHED &&
            !vbn_tx_ack(conn))
            continue; /* no credit or room now */
        if (conn->ack_aged || !untold(conn)) {
            TAILQ_REMOVE(&ctx->acks, conn, ack_entry);
            conn->ack_listed = false;
            n++;
        }
        conn->ack_aged = true;
    }
    return n;
}

/* A connection without a connection manager: nobody says that the peer's process has ended. Its
 * peer has joined, for it has spoken. */
static bool nobody_tells(const struct vbn_conn *conn)
{
    return !conn->id && conn->flow.rx_count;
}

/* Whether what was quiet when the port changed, or at the first look after that, has had its time.
 */
static bool stuck_since_change(const struct vbn_qp *q, uint64_t changed_ns, uint64_t now)
{
    return q->quiet_ns < changed_ns + LINK_GRACE_NS &&
           now - vbn_max(q->quiet_ns, changed_ns) >= LINK_GRACE_NS;
}

/*
 * Notes whether the device has completed anything since the last look, of what was under way then.
 * Some repeat a request for ever to a peer that has vanished, and some never again once the link
 * or an address was away (doc/behaviours.md, h and j).
 */
static void look_for_silence(struct vbn_conn *conn, uint64_t now)
{
    struct vbn_qp *q = &conn->q;
    uint64_t limit_ns = conn->ctx->opts.recovery_timeout_ms * VBN_MS_NS;
    uint64_t changed_ns = conn->ctx->port_changed_ns;

    if (q->tail != q->quiet_tail || q->quiet_head == q->tail) {
        q->quiet_tail = q->tail;
        q->quiet_head = q->head;
        q->quiet_ns = now;
    } else if (limit_ns && conn->id && /* two halves cannot be joined again: they may wait */
               (now - q->quiet_ns >= limit_ns ||
                (changed_ns && stuck_since_change(q, changed_ns, now)))) {
        conn->silent_ns = now - q->quiet_ns;
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "the peer's device has not answered for %llu ms",
                      (unsigned long long)conn->silent_ns / VBN_MS_NS);
    }
}

/* What was written into the peer's ring and has not been acknowledged may have been lost: a message
 * that comes the other way shows it to the peer. Once for each acknowledgement; by the last credit
 * only where the peer has some, for one that has none may just not give any now (flow.h). */
static void doubt_ring(struct vbn_conn *conn)
{
    struct vbn_ring_out *out = &conn->ring.out;
    const vbn_endpoint_t *ep = conn->ep;

    if (out->room && out->asked != ep->tx_acked && !STAILQ_EMPTY(&ep->unacked) &&
        (vbn_flow_may_tell(&conn->flow) || vbn_flow_peer_credits(&conn->flow) > 1) &&
        vbn_tx_control(conn, VBN_WIRE_ACK))
        out->asked = ep->tx_acked;
}

/*
 * Who waits for a peer, for credits or acknowledgements, and has nothing under way that would fail,
 * would not notice that the peer's end is gone where the connection manager did not say so. And who
 * has sent the last of a burst unsignaled would keep its buffers. On iWARP the stream notices, and
 * a write needs a key.
 */
static void probe_peers(vbn_context_t *ctx, uint64_t now)
{
    struct vbn_conn *conn;

    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        const vbn_endpoint_t *ep = conn->ep;

        if (conn->state == VBN_CONN_ESTABLISHED && ep->conn == conn &&
            (!STAILQ_EMPTY(&ep->queue) || !STAILQ_EMPTY(&ep->unacked) ||
             !TAILQ_EMPTY(&ep->tag.offers) || ep->rmas_out || ep->lazy || nobody_tells(conn))) {
            vbn_qp_probe(conn);
            doubt_ring(conn);
            look_for_silence(conn, now);
        }
    }
}

/*
 * Calls until the next look, of NOW. A caller that yields its processor between them makes few of
 * them, and an event that waits for the 64th would wait for the turns of all others 64 times.
 */
static uint32_t polls_per_look(vbn_context_t *ctx, uint64_t now)
{
    uint64_t took_ns = now - ctx->looked_ns + 1;

    ctx->looked_ns = now;
    ctx->polls = (uint32_t)vbn_min(ctx->polls * (uint64_t)LOOK_WITHIN_NS / took_ns, POLLS_PER_LOOK);
    ctx->polls = vbn_max(ctx->polls, 1);
    return ctx->polls;
}

VBN_COLD static int look_around(vbn_context_t *ctx)
{
    uint64_t now = vbn_now_ns(ctx);
    int n = 0;

    ctx->polls_left = polls_per_look(ctx, now) - 1;
    if (ctx->connecting || now >= ctx->next_events_ns) {
        ctx->next_events_ns = now + EVENTS_EVERY_NS;
        n += vbn_events_poll(ctx);
    }
    if (now >= ctx->next_acks_ns && !TAILQ_EMPTY(&ctx->acks)) {
        ctx->next_acks_ns = now + ctx->opts.ack_delay_us * 1000u;
        send_aged_acks(ctx);
    }
    if (now >= ctx->next_probe_ns && !ctx->device.iwarp) {
        ctx->next_probe_ns =
            now + (now - ctx->port_changed_ns < LINK_GRACE_NS ? LINK_GRACE_NS : PROBE_EVERY_NS);
        probe_peers(ctx, now);
    }
    n += vbn_timers_run(&ctx->timers, now);
    while (ctx->slow_work) {
        ctx->slow_work = false;
        n += vbn_rma_deliver_ended(ctx);
        n += vbn_conn_reap(ctx);
        vbn_groups_reap(ctx);
        vbn_cm_reap(ctx);
        n += vbn_endpoint_deliver_failed(ctx);
        vbn_turns_take(ctx);
    }
    return n;
}

static inline int poll_rings(const struct vbn_rings *rings)
{
    int n = 0;

    for (uint32_t i = 0; i < rings->count; i++) { /* callbacks may change it */
        struct vbn_conn *conn = rings->conns[i];

        if (vbn_ring_shows(&conn->ring.in, conn->ep->rx_next))
            n += vbn_rx_take_ring(conn);
    }
    return n;
}

/*
 * Rings before the queue, and once more where it is empty: to look at them costs much less. What
 * one had is returned with at once, but the queue's turn comes all the same.
 */
static inline int poll_arrivals(vbn_context_t *ctx)
{
    int n = poll_rings(&ctx->rings);

    if (n && ++ctx->rings.turns % RING_TURNS)
        return n;
    n += vbn_cqs_poll(ctx);
    return n ? n : poll_rings(&ctx->rings);
}

/* How much was done; -1: not entered. */
static VBN_INLINE int progress(vbn_context_t *ctx)
{
    int n;

    if (!vbn_progress_enter(ctx))
        return -1;
    vbn_lock(ctx);
    n = poll_arrivals(ctx);
    if (vbn_unlikely(ctx->slow_work || ctx->polls_left-- == 0))
        n += look_around(ctx);
    if (vbn_unlikely(!vbn_tags_idle(&ctx->tags)))
        n += vbn_tags_advance(ctx);
    vbn_unlock(ctx);
    vbn_progress_leave(ctx);
    return n;
}

int vbn_progress(vbn_context_t *ctx)
{
    int n = progress(ctx);

    return n < 0 ? 0 : n;
}

int vbn_progress_try(vbn_context_t *ctx)
{
    return progress(ctx);
}
