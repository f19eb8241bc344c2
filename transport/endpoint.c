/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint.h"
#include "context.h"
#include "error.h"
#include "log.h"
#include "recover.h"
#include "stranger.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_MS     20u /* before the second attempt; doubles */
#define BACKOFF_MAX_MS 2000u
#define CROSSED_MS     2000u /* how long the peer's own request may take to come */

/* --- life
 * ------------------------------------------------------------------------------------------------
 */

vbn_endpoint_t *vbn_endpoint_find(vbn_context_t *ctx, uint64_t uid)
{
    vbn_endpoint_t *ep;

    HASH_FIND(hh, ctx->endpoints, &uid, sizeof(uid), ep);
    return ep;
}

void vbn_endpoint_init(vbn_endpoint_t *ep, vbn_context_t *ctx, uint64_t uid)
{
    ep->ctx = ctx;
    ep->uid = uid;
    snprintf(ep->name, sizeof(ep->name), "%016llx", (unsigned long long)uid);
    STAILQ_INIT(&ep->queue);
    STAILQ_INIT(&ep->unacked);
    STAILQ_INIT(&ep->retired);
    vbn_tag_peer_init(&ep->tag);
}

vbn_endpoint_t *vbn_endpoint_add(vbn_context_t *ctx, uint64_t uid)
{
    vbn_endpoint_t *ep = calloc(1, sizeof(*ep));

    if (!ep)
        return NULL;
    vbn_endpoint_init(ep, ctx, uid);
    ep->incarnation = ++ctx->endpoints_made;
    HASH_ADD(hh, ctx->endpoints, uid, sizeof(ep->uid), ep);
    if (!ep->hh.tbl) {
        free(ep);
        return NULL;
    }
    return ep;
}

void vbn_endpoint_free(vbn_endpoint_t *ep)
{
    vbn_timer_stop(&ep->ctx->timers, &ep->timer);
    vbn_stranger_remove(ep);
    vbn_tag_peer_fini(ep);
    HASH_DELETE(hh, ep->ctx->endpoints, ep);
    free(ep);
}

/* Something that its device has not, or whose end the device or the peer has to tell. */
static bool is_unsettled(const vbn_endpoint_t *ep)
{
    return !STAILQ_EMPTY(&ep->queue) || ep->rmas_out || vbn_tag_has_work(&ep->tag);
}

static bool has_work(const vbn_endpoint_t *ep)
{
    return is_unsettled(ep) || !STAILQ_EMPTY(&ep->unacked);
}

/* Without work of its own, too, where the caller has asked for it, whose work may wait for that;
 * and it learns whether a peer that it lost is still there. */
static bool wants_conn(const vbn_endpoint_t *ep)
{
    return has_work(ep) || ep->wanted || (ep->recovery.since_ns && !vbn_stranger_is(ep));
}

bool vbn_endpoint_leaves(const vbn_endpoint_t *ep)
{
    return ep->state == VBN_EP_CLOSING && !has_work(ep);
}

/* Nobody will ask for it again: the caller has closed it, or has never heard of it. */
static bool nobodys(const vbn_endpoint_t *ep)
{
    bool over = ep->state >= VBN_EP_CLOSED;

    return vbn_stranger_is(ep) ? over || !ep->answered : over && ep->released;
}

static bool unused(const vbn_endpoint_t *ep)
{
    return nobodys(ep) && !ep->conn_count && !ep->msgs_out && !ep->rmas_out;
}

/* The caller is told when it fails. */
static bool is_told_of(const vbn_endpoint_t *ep)
{
    return ep->ctx->opts.endpoint_error && !ep->released && !vbn_stranger_is(ep);
}

/* --- connecting
 * --------------------------------------------------------------------------------------------- */

/* Writes the next of the peer's addresses that we have a local address for. */
static bool next_address(vbn_endpoint_t *ep, union vbn_sockaddr *dst)
{
    const struct vbn_device *dev = &ep->ctx->device;
    const union vbn_sockaddr *own;

    for (unsigned tries = 0; tries < ep->peer.count; tries++) {
        const struct vbn_wire_sockaddr *a = &ep->peer.addrs[ep->addr_next++ % ep->peer.count];

        memset(dst, 0, sizeof(*dst));
        if (a->family == 4) {
            dst->in.sin_family = AF_INET;
            dst->in.sin_port = htons(a->port);
            memcpy(&dst->in.sin_addr, a->ip, 4);
        } else {
            dst->in6.sin6_family = AF_INET6;
            dst->in6.sin6_port = htons(a->port);
            memcpy(&dst->in6.sin6_addr, a->ip, 16);
        }
        own = vbn_device_addr_for(dev, dst);
        if (own && a->family == 6) /* a link-local address means nothing without our interface */
            dst->in6.sin6_scope_id = own->in6.sin6_scope_id;
        if (own)
            return true;
    }
    return false;
}

static bool may_attempt(const vbn_endpoint_t *ep)
{
    return !ep->conn && !ep->attempt && !ep->timer.at_ns && ep->state < VBN_EP_CLOSED;
}

void vbn_endpoint_start_attempt(vbn_endpoint_t *ep)
{
    vbn_context_t *ctx = ep->ctx;
    union vbn_sockaddr dst;
    struct vbn_conn *conn;

    if (!may_attempt(ep))
        return;
    if (ctx->faulted) {
        vbn_endpoint_fail(ep, VBN_ERR_DEVICE, "peer %s cannot be connected: device %s has failed",
                          ep->name, ctx->device.name);
        return;
    }
    if (!ep->addr_known || !next_address(ep, &dst)) {
        vbn_endpoint_fail(ep, VBN_ERR_UNREACHABLE,
                          "peer %s: no address of it can be reached from "
                          "device %s",
                          ep->name, ctx->device.name);
        return;
    }
    conn = vbn_conn_create(ep, NULL);
    if (!conn) {
        vbn_endpoint_fail(ep, VBN_ERR_NO_MEMORY, "peer %s: out of memory", ep->name);
        return;
    }
    if (!ep->connect_by_ns)
        ep->connect_by_ns = vbn_now_ns(ctx) + ctx->opts.connect_timeout_ms * VBN_MS_NS;
    conn->dst = dst;
    ep->attempt = conn;
    vbn_conn_event(conn, VBN_EV_CONNECT);
}

void vbn_endpoint_want_conn(vbn_endpoint_t *ep)
{
    if (may_attempt(ep) && vbn_turn_has_come(ep))
        vbn_endpoint_start_attempt(ep);
}

void vbn_endpoint_try_again(vbn_endpoint_t *ep)
{
    if (wants_conn(ep))
        vbn_endpoint_want_conn(ep);
}

static void try_again(struct vbn_timer *timer)
{
    vbn_endpoint_t *ep = vbn_container_of(timer, struct vbn_endpoint, timer);

    ep->backoff_ms = (uint32_t)vbn_min(2 * vbn_max(ep->backoff_ms, BACKOFF_MS), BACKOFF_MAX_MS);
    vbn_endpoint_try_again(ep);
}

void vbn_endpoint_wait(vbn_endpoint_t *ep, uint64_t ms, uint64_t latest_ns,
                       void (*over)(struct vbn_timer *))
{
    vbn_context_t *ctx = ep->ctx;
    uint64_t jitter = vbn_random_below(ctx, ms * VBN_MS_NS / 2 + 1);
    uint64_t at_ns = vbn_now_ns(ctx) + ms * VBN_MS_NS + jitter;

    vbn_timer_start(&ctx->timers, &ep->timer, vbn_min(at_ns, latest_ns), over);
}

static void retry_in(vbn_endpoint_t *ep, uint64_t ms)
{
    vbn_endpoint_wait(ep, ms, UINT64_MAX, try_again);
}

void vbn_endpoint_retry(vbn_endpoint_t *ep)
{
    if (!may_attempt(ep))
        return;
    if (ep->addr_known)
        retry_in(ep, BACKOFF_MS);
    else if (ep->recovery.since_ns)
        vbn_recover_wait_for_peer(ep);
}

void vbn_endpoint_up(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    vbn_context_t *ctx = ep->ctx;

    if (ep->attempt != conn || ep->state >= VBN_EP_CLOSED) {
        vbn_conn_event(conn, VBN_EV_CLOSE);
        return;
    }
    ep->attempt = NULL;
    ep->conn = conn;
    ep->session = conn->session;
    ep->connect_by_ns = 0;
    ep->backoff_ms = 0;
    vbn_timer_stop(&ctx->timers, &ep->timer);
    vbn_turn_leave(ep);
    ctx->counters.conns_made++;
    vbn_log(ctx, VBN_LOG_INFO, "connected to %s by device %s (%s)", ep->name, ctx->device.name,
            !conn->id      ? "joined"
            : conn->active ? "active"
                           : "passive");
    vbn_recover_resume(ep, conn);
    if (ep->conn != conn)
        return;
    /* On iWARP the accepting side may not speak before the connecting side has (RFC 5044, 7). */
    if (ctx->device.iwarp && conn->active &&
        (STAILQ_EMPTY(&ep->queue) || STAILQ_FIRST(&ep->queue)->kind != VBN_TX_AM))
        vbn_tx_control(conn, VBN_WIRE_ACK);
    vbn_tx_pump(ep);
    vbn_endpoint_advance_close(ep);
}

static int status_of_reason(uint8_t reason)
{
    switch (reason) {
    case VBN_REASON_VERSION:
        return VBN_ERR_VERSION;
    case VBN_REASON_CLOSED:
        return VBN_ERR_CLOSED;
    case VBN_REASON_LOST: /* it has tried in vain to connect to us, and given up */
    case VBN_REASON_STRANGER:
    case VBN_REASON_SIZES:
    case VBN_REASON_MALFORMED:
        return VBN_ERR_REFUSED;
    default:
        return VBN_OK; /* may be tried again */
    }
}

void vbn_endpoint_attempt_failed(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    vbn_context_t *ctx = ep->ctx;
    int final = conn->active ? status_of_reason(conn->reason) : VBN_OK;

    if (ep->attempt != conn)
        return;
    ep->attempt = NULL;
    if (ep->state >= VBN_EP_CLOSED)
        return;
    if (!conn->active)
        ep->connect_by_ns = 0; /* the peer was there: the next attempt has its own time */
    if (ep->recovery.since_ns) {
        vbn_recover_attempt_failed(ep, conn);
    } else if (final) {
        vbn_endpoint_fail(ep, final, "peer %s refused the connection by device %s: %s", ep->name,
                          ctx->device.name, conn->cause);
    } else if (!wants_conn(ep)) {
        ep->connect_by_ns = 0; /* the next attempt has its own time */
        vbn_endpoint_advance_close(ep);
    } else if (conn->reason == VBN_REASON_CROSSED) {
        retry_in(ep, CROSSED_MS);
    } else if (ep->connect_by_ns && vbn_now_ns(ctx) >= ep->connect_by_ns) {
        vbn_endpoint_fail(
            ep, VBN_ERR_UNREACHABLE,
            "peer %s cannot be reached by device %s within %llu ms: %s; check that the "
            "peer's host answers on that address",
            ep->name, ctx->device.name, (unsigned long long)ctx->opts.connect_timeout_ms,
            conn->cause);
    } else {
        vbn_log(ctx, VBN_LOG_INFO, "connecting to %s failed, trying again: %s", ep->name,
                conn->cause);
        retry_in(ep, vbn_max(ep->backoff_ms, BACKOFF_MS));
    }
}

/* --- the end
 * ---------------------------------------------------------------------------------------------------
 */

/* Leaves both connections to end by themselves; nothing will come of them here any more. */
static void let_go(vbn_endpoint_t *ep)
{
    struct vbn_conn *conn = ep->conn, *attempt = ep->attempt;

    ep->conn = ep->attempt = NULL;
    vbn_timer_stop(&ep->ctx->timers, &ep->timer);
    if (conn)
        vbn_conn_event(conn, VBN_EV_CLOSE);
    if (attempt)
        vbn_conn_event(attempt, VBN_EV_CLOSE);
}

static void end(vbn_endpoint_t *ep, enum vbn_ep_state state, int status)
{
    ep->state = state;
    ep->status = status;
    ep->recovery.since_ns = 0;
    vbn_turn_leave(ep);
    let_go(ep);
    vbn_tag_peer_ended(ep, status);
    vbn_tx_abort(ep, status);
    ep->ctx->slow_work = true;
}

void vbn_endpoint_fail(vbn_endpoint_t *ep, int status, const char *fmt, ...)
{
    bool quiet = is_told_of(ep) || vbn_stranger_is(ep);
    va_list ap;

    if (ep->state >= VBN_EP_CLOSED)
        return;
    va_start(ap, fmt);
    vsnprintf(ep->reason, sizeof(ep->reason), fmt, ap);
    va_end(ap);
    vbn_log(ep->ctx, quiet ? VBN_LOG_INFO : VBN_LOG_ERROR, "%s", ep->reason);
    TAILQ_INSERT_TAIL(&ep->ctx->failed, ep, failed_entry);
    end(ep, VBN_EP_LOST, status);
}

void vbn_endpoint_conn_lost(vbn_endpoint_t *ep, struct vbn_conn *conn)
{
    vbn_context_t *ctx = ep->ctx;
    bool recovers;

    if (ep->attempt == conn) {
        vbn_endpoint_attempt_failed(ep, conn);
        return;
    }
    if (ep->conn != conn)
        return;
    ep->conn = NULL;
    if (ep->state >= VBN_EP_CLOSED)
        return;
    if (conn->hello.incarnation)
        ep->peer_incarnation = conn->hello.incarnation;
    vbn_rma_conn_lost(ep, conn);
    recovers = vbn_recover_begin(ep, conn);
    if (vbn_endpoint_leaves(ep)) {
        if (!recovers)
            vbn_endpoint_abandon(ep); /* the peer may have had our farewell */
        return;
    }
    ctx->counters.conns_lost++;
    if (!recovers)
        vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "connection to peer %s by device %s lost: %s",
                          ep->name, ctx->device.name, conn->cause);
}

void vbn_endpoint_peer_closed(vbn_endpoint_t *ep)
{
    if (has_work(ep))
        vbn_log(ep->ctx, VBN_LOG_WARN, "peer %s closed; messages that it has not taken are dropped",
                ep->name);
    end(ep, VBN_EP_CLOSED, VBN_ERR_CLOSED);
}

void vbn_endpoint_shut(vbn_endpoint_t *ep)
{
    if (ep->state != VBN_EP_OPEN)
        return;
    ep->state = VBN_EP_CLOSING;
    ep->status = VBN_ERR_CLOSED;
    ep->wanted = false;
    vbn_endpoint_advance_close(ep);
}

/* When time is short, what the peer has not acknowledged may be on its device, for it to find when
 * it looks, and the farewell goes behind it. On iWARP nothing would say that it has arrived. */
static bool may_leave(const vbn_endpoint_t *ep)
{
    if (!ep->ctx->hurries || !ep->conn || ep->ctx->device.iwarp)
        return !wants_conn(ep);
    return !is_unsettled(ep);
}

void vbn_endpoint_advance_close(vbn_endpoint_t *ep)
{
    if (ep->state != VBN_EP_CLOSING || !may_leave(ep))
        return;
    if (!ep->conn) {
        end(ep, VBN_EP_CLOSED, VBN_ERR_CLOSED); /* never connected, or nothing to say */
        return;
    }
    if (ep->said_bye && !ep->conn->ctl->busy)
        end(ep, VBN_EP_CLOSED, VBN_ERR_CLOSED);
    else if (!ep->said_bye && vbn_tx_control(ep->conn, VBN_WIRE_BYE)) {
        ep->said_bye = true;
        vbn_tag_said_bye(ep);
    }
}

void vbn_endpoint_abandon(vbn_endpoint_t *ep)
{
    end(ep, VBN_EP_CLOSED, VBN_ERR_CLOSED);
}

int vbn_endpoint_deliver_failed(vbn_context_t *ctx)
{
    vbn_endpoint_t *ep, *next;
    int n = 0;

    while ((ep = TAILQ_FIRST(&ctx->failed))) {
        TAILQ_REMOVE(&ctx->failed, ep, failed_entry);
        n++;
        if (is_told_of(ep)) {
            vbn_unlock(ctx);
            ctx->opts.endpoint_error(ctx->opts.callback_arg, ep, ep->status, ep->reason);
            vbn_lock(ctx);
        }
    }
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        if (unused(ep))
            vbn_endpoint_free(ep);
    }
    return n;
}

/* --- the public face
 * ------------------------------------------------------------------------------------------------
 */

int vbn_endpoint_suits(const vbn_context_t *ctx, const struct vbn_wire_hello *hello,
                       struct vbn_error *err)
{
    if (!vbn_wire_version_common(hello->version, hello->version_min,
                                 (uint8_t)ctx->opts.wire_version, vbn_context_version_min(ctx)))
        return vbn_error_set(err, VBN_ERR_VERSION,
                             "the peer speaks wire versions %u to %u, this side %u to %u; run the "
                             "same release of Verbena on all hosts",
                             hello->version_min, hello->version, vbn_context_version_min(ctx),
                             (unsigned)ctx->opts.wire_version);
    if (hello->job_key != ctx->opts.job_key)
        return vbn_error_set(err, VBN_ERR_REFUSED, "the peer belongs to another job");
    if (hello->buf_size != sizeof(struct vbn_wire_hdr) + ctx->max_am_len)
        return vbn_error_set(err, VBN_ERR_REFUSED,
                             "the peer's eager_limit is %zu, this side's %u; set the same on all "
                             "ranks",
                             hello->buf_size - sizeof(struct vbn_wire_hdr), ctx->max_am_len);
    if (hello->src_uid == ctx->uid)
        return vbn_error_set(err, VBN_ERR_INVALID, "a context has no endpoint to itself");
    return VBN_OK;
}

static void name_by_address(vbn_endpoint_t *ep)
{
    const struct vbn_wire_sockaddr *a = &ep->peer.addrs[0];
    char ip[INET6_ADDRSTRLEN];

    if (inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->ip, ip, sizeof(ip)))
        snprintf(ep->name, sizeof(ep->name), "%s port %u", ip, a->port);
}

static bool reachable(vbn_endpoint_t *ep)
{
    union vbn_sockaddr dst;
    bool found = next_address(ep, &dst);

    ep->addr_next = 0;
    return found;
}

vbn_endpoint_t *vbn_endpoint_get(vbn_context_t *ctx, uint64_t uid, bool *made, int *status,
                                 struct vbn_error *err)
{
    vbn_endpoint_t *ep = vbn_endpoint_find(ctx, uid);

    *made = !ep;
    *status = VBN_OK;
    if (ctx->closing)
        *status = vbn_error_set(err, VBN_ERR_CLOSED, "the context is closing");
    else if (!ep && !(ep = vbn_endpoint_add(ctx, uid)))
        *status = vbn_error_set(err, VBN_ERR_NO_MEMORY, "out of memory");
    else if (ep->released)
        *status = vbn_error_set(err, VBN_ERR_AGAIN,
                                "peer %s: the endpoint closed before is not over yet; call "
                                "vbn_progress() and try again",
                                ep->name);
    return *status == VBN_OK ? ep : NULL;
}

void vbn_endpoint_claim(vbn_endpoint_t *ep, void *user)
{
    if (user || !ep->claimed)
        atomic_store_explicit(&ep->user, user, memory_order_release);
    ep->claimed = true;
}

static int claim(vbn_context_t *ctx, const struct vbn_wire_address *a, void *user,
                 vbn_endpoint_t **out, struct vbn_error *err)
{
    bool made;
    int rc;
    vbn_endpoint_t *ep = vbn_endpoint_get(ctx, a->uid, &made, &rc, err);

    if (!ep)
        return rc;
    if (!ep->addr_known) {
        ep->peer = *a;
        name_by_address(ep);
    }
    if (!ep->addr_known && !ep->conn && !ep->attempt && !reachable(ep)) {
        rc = vbn_error_set(err, VBN_ERR_UNREACHABLE,
                           "peer %s: device %s has no address of that family; give its netdev an "
                           "%s address",
                           ep->name, ctx->device.name, a->addrs[0].family == 4 ? "IPv4" : "IPv6");
        if (made)
            vbn_endpoint_free(ep);
        return rc;
    }
    if (!ep->addr_known && ep->recovery.since_ns) /* now it need not wait for the peer */
        vbn_timer_start(&ctx->timers, &ep->timer, vbn_now_ns(ctx), vbn_recover_wait_over);
    ep->addr_known = true;
    vbn_endpoint_claim(ep, user);
    *out = ep;
    return VBN_OK;
}

int vbn_endpoint_create(vbn_context_t *ctx, const void *addr, size_t addr_len, void *user,
                        vbn_endpoint_t **ep, struct vbn_error *err)
{
    struct vbn_wire_address a;
    struct vbn_wire_hello hello;
    int rc;

    if (!vbn_wire_address_read(addr, addr_len, &a))
        return vbn_error_set(err, VBN_ERR_INVALID, "this is not the address of a Verbena context");
    hello = (struct vbn_wire_hello){.version = a.version,
                                    .version_min = a.version_min,
                                    .src_uid = a.uid,
                                    .job_key = a.job_key,
                                    .buf_size = a.buf_size};
    rc = vbn_endpoint_suits(ctx, &hello, err);
    if (rc)
        return rc;
    vbn_lock(ctx);
    rc = claim(ctx, &a, user, ep, err);
    vbn_unlock(ctx);
    return rc;
}

void *vbn_endpoint_user(const vbn_endpoint_t *ep)
{
    return atomic_load_explicit(&ep->user, memory_order_acquire);
}

int vbn_endpoint_connect(vbn_endpoint_t *ep)
{
    int rc = VBN_OK;

    vbn_lock(ep->ctx);
    if (ep->state == VBN_EP_OPEN) {
        ep->wanted = true;
        vbn_endpoint_want_conn(ep);
    } else {
        rc = ep->status;
    }
    vbn_unlock(ep->ctx);
    return rc;
}

bool vbn_endpoint_connected(vbn_endpoint_t *ep)
{
    bool connected;

    vbn_lock(ep->ctx);
    connected = ep->conn != NULL;
    vbn_unlock(ep->ctx);
    return connected;
}

void vbn_endpoint_close(vbn_endpoint_t *ep)
{
    vbn_lock(ep->ctx);
    ep->released = true;
    ep->ctx->slow_work = true;
    vbn_endpoint_shut(ep);
    vbn_unlock(ep->ctx);
}
