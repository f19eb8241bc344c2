/* SPDX-License-Identifier: BSD-3-Clause */
#include "recover.h"
#include "context.h"
#include "log.h"
#include "rma.h"

#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_MIN_MS   5u
#define PAUSE_MAX_MS   2000u
#define CROSSED_MS     100u /* how long the peer's own request may take to come */
#define ATTEMPT_MS     250u /* of an attempt, at least: another address may do where one does not */
#define GOING_MS       100u /* in which a netdev that loses an address loses all */
#define SETTLED_NS     1000000000u /* a connection that lasted so long was a good one */
#define FAREWELL_MS    1000u /* that who leaves waits for a peer who may have had the farewell */
#define NOBODY_CERTAIN 3u    /* answers in a row that nobody listens, */
#define NOBODY_NS      600000000u /* over so long: the process has ended */

static uint64_t outage_ms(const vbn_endpoint_t *ep)
{
    return (vbn_now_ns(ep->ctx) - ep->recovery.since_ns) / VBN_MS_NS;
}

/* What changes when anything has got through. */
static uint32_t progress_mark(const vbn_endpoint_t *ep)
{
    return ep->rx_next + ep->tx_acked + ep->rmas_done;
}

/* Somebody can ask the other: the peer knows our address where it has connected by it. */
static bool can_meet_again(const vbn_endpoint_t *ep, const struct vbn_conn *conn)
{
    return ep->addr_known || conn->id;
}

static void wait_ms(vbn_endpoint_t *ep, uint64_t ms)
{
    vbn_endpoint_wait(ep, ms, ep->recovery.by_ns, vbn_recover_wait_over);
}

void vbn_recover_wait_for_peer(vbn_endpoint_t *ep)
{
    wait_ms(ep, vbn_endpoint_leaves(ep) ? FAREWELL_MS : ep->ctx->opts.recovery_timeout_ms);
}

VBN_COLD static void fail(vbn_endpoint_t *ep, const char *why)
{
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST,
                      "connection to peer %s by device %s lost (%s), and not made again within "
                      "%llu ms: %s",
                      ep->name, ep->ctx->device.name, ep->recovery.cause,
                      (unsigned long long)outage_ms(ep), why);
}

VBN_COLD static void give_up(vbn_endpoint_t *ep, const char *why)
{
    if (!vbn_endpoint_leaves(ep)) {
        fail(ep, why);
        return;
    }
    vbn_log(ep->ctx, VBN_LOG_INFO, "peer %s may not have had the farewell: %s", ep->name, why);
    vbn_endpoint_abandon(ep);
}

void vbn_recover_wait_over(struct vbn_timer *timer)
{
    vbn_endpoint_t *ep = vbn_container_of(timer, struct vbn_endpoint, timer);

    if (ep->attempt)
        return; /* it has come meanwhile, and has the time of an attempt */
    if (ep->addr_known)
        vbn_endpoint_try_again(ep);
    else
        give_up(ep, "it has not asked for another one, and its address is not known");
}

bool vbn_recover_may_begin(const vbn_endpoint_t *ep, const struct vbn_conn *conn)
{
    const vbn_context_t *ctx = ep->ctx;

    return ctx->opts.recovery_timeout_ms && !ctx->faulted && can_meet_again(ep, conn);
}

bool vbn_recover_begin(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    struct vbn_recovery *r = &ep->recovery;
    vbn_context_t *ctx = ep->ctx;
    uint64_t now = vbn_now_ns(ctx), limit_ns = ctx->opts.recovery_timeout_ms * VBN_MS_NS;
    uint32_t mark = progress_mark(ep);

    if (!vbn_recover_may_begin(ep, conn))
        return false;
    if (!r->by_ns || mark != r->mark || now - conn->since_ns >= SETTLED_NS)
        r->by_ns = now + limit_ns - vbn_min(conn->silent_ns, limit_ns / 4 * 3);
    if (now >= r->by_ns)
        return false; /* again and again, and nothing gets through */
    r->mark = mark;
    r->since_ns = now;
    r->nobody = 0;
    snprintf(r->cause, sizeof(r->cause), "%s", conn->cause);
    vbn_log(ctx, VBN_LOG_INFO, "connection to %s by device %s lost: %s; connecting again", ep->name,
            ctx->device.name, r->cause);
    if (!ep->addr_known)
        vbn_recover_wait_for_peer(ep);
    else if (conn->id && ctx->device.link_up && !vbn_cm_may_speak(ctx, conn->id))
        wait_ms(ep, GOING_MS); /* its address is gone */
    else
        vbn_endpoint_want_conn(ep);
    return true;
}

/* Addresses that are not even tried cost no time: an outage may have taken one of several. */
static uint64_t pause_ms(vbn_endpoint_t *ep, const struct vbn_conn *conn)
{
    if (!conn->asked && ++ep->recovery.passed_over < ep->peer.count)
        return 0;
    ep->recovery.passed_over = 0;
    return vbn_min(vbn_max(outage_ms(ep) / 8, PAUSE_MIN_MS), PAUSE_MAX_MS);
}

/* Whether CONN was to be made at the address that the peer was last seen at. Another one of its may
 * belong to another host, too. */
static bool at_its_place(const struct vbn_recovery *r, const struct vbn_conn *conn)
{
    return r->place.sa.sa_family == AF_UNSPEC ||
           (conn->active && vbn_netif_same_ip(&r->place, &conn->dst));
}

static void remember_place(struct vbn_recovery *r, struct vbn_conn *conn)
{
    if (conn->active)
        r->place = conn->dst;
    else if (conn->id)
        vbn_sockaddr_set(&r->place, rdma_get_peer_addr(conn->id));
}

static void count_nobody(vbn_endpoint_t *ep, bool nobody_there)
{
    struct vbn_recovery *r = &ep->recovery;

    if (nobody_there && r->nobody++ == 0)
        r->nobody_since_ns = vbn_now_ns(ep->ctx);
    else if (!nobody_there)
        r->nobody = 0;
}

/* A host whose address comes back says so of each process for a moment, too. */
static bool is_certain_of_nobody(const vbn_endpoint_t *ep)
{
    const struct vbn_recovery *r = &ep->recovery;

    return r->nobody >= NOBODY_CERTAIN && vbn_now_ns(ep->ctx) - r->nobody_since_ns >= NOBODY_NS;
}

void vbn_recover_attempt_failed(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    struct vbn_recovery *r = &ep->recovery;
    uint64_t pause = pause_ms(ep, conn);

    if (!conn->active)
        count_nobody(ep, false); /* it has asked */
    else if (conn->asked && at_its_place(r, conn))
        count_nobody(ep, conn->nobody_there);
    vbn_log(ep->ctx, VBN_LOG_DEBUG, "connecting to %s again failed: %s", ep->name, conn->cause);
    if (conn->active && conn->reason == VBN_REASON_CLOSED)
        vbn_endpoint_peer_closed(ep);
    else if (conn->active && conn->reason == VBN_REASON_LOST)
        give_up(ep, "the peer has given it up");
    else if (conn->reason == VBN_REASON_STRANGER && at_its_place(r, conn))
        give_up(ep, "another process has its address");
    else if (is_certain_of_nobody(ep))
        give_up(ep, "its process has ended");
    else if (vbn_now_ns(ep->ctx) >= r->by_ns)
        give_up(ep, conn->cause);
    else if (!ep->addr_known)
        vbn_recover_wait_for_peer(ep);
    else
        wait_ms(ep, conn->reason == VBN_REASON_CROSSED ? vbn_max(pause, CROSSED_MS) : pause);
}

void vbn_recover_resume(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    struct vbn_recovery *r = &ep->recovery;
    vbn_context_t *ctx = ep->ctx;
    uint64_t before = ctx->counters.replayed;

    assert(vbn_endpoint_may_expect(ep, conn->hello.rx_next));
    vbn_endpoint_acked(ep, conn->hello.rx_next);
    vbn_tx_requeue(ep);
    remember_place(r, conn);
    if (!r->since_ns)
        return;
    ctx->counters.recoveries++;
    vbn_log(ctx, VBN_LOG_WARN,
            "connection to peer %s by device %s made again after %llu ms (it was lost: %s); %llu "
            "requests are sent once more",
            ep->name, ctx->device.name, (unsigned long long)outage_ms(ep), r->cause,
            (unsigned long long)(ctx->counters.replayed - before));
    r->since_ns = 0;
}

void vbn_recover_look_again(vbn_context_t *ctx, int addresses)
{
    vbn_endpoint_t *ep, *next;
    uint64_t now = vbn_now_ns(ctx);

    if (addresses)
        ctx->going_by_ns = addresses < 0 ? now + GOING_MS * VBN_MS_NS : now;
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        if (!ep->recovery.since_ns || !ep->addr_known)
            continue;
        ep->addr_next = 0; /* the first is the best, and there as soon as any */
        if (ep->attempt && ep->attempt->active && vbn_conn_in_progress(ep->attempt))
            vbn_conn_fail(ep->attempt, VBN_EV_TIMEOUT, "the link has changed");
        if (ep->timer.at_ns)
            wait_ms(ep, now < ctx->going_by_ns ? GOING_MS : 1);
    }
}

/* Rounded up: when they are over the deadline has passed. */
static uint64_t left_ms(const vbn_endpoint_t *ep)
{
    uint64_t now = vbn_now_ns(ep->ctx), by = ep->recovery.by_ns;

    return by > now ? (by - now) / VBN_MS_NS + 1 : 0;
}

uint64_t vbn_recover_attempt_ms(const vbn_endpoint_t *ep)
{
    if (!ep->recovery.since_ns)
        return 0;
    return vbn_max(vbn_min(outage_ms(ep) / 2, left_ms(ep)), ATTEMPT_MS);
}

uint64_t vbn_recover_word_ms(const vbn_endpoint_t *ep)
{
    return ep->recovery.since_ns ? vbn_max(left_ms(ep), ATTEMPT_MS) : 0;
}
