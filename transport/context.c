/* SPDX-License-Identifier: BSD-3-Clause */
#include "context.h"
#include "error.h"
#include "group.h"
#include "half.h"
#include "log.h"
#include "recover.h"
#include "rma.h"
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* --- opening
 * -------------------------------------------------------------------------------------------- */

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Limits that depend on both the options and the device. */
static void settle_limits(vbn_context_t *ctx)
{
    ctx->max_am_len = (uint32_t)vbn_min(ctx->opts.eager_limit,
                                        ctx->device.max_msg_size - sizeof(struct vbn_wire_hdr));
    ctx->opts.signal_period =
        vbn_max(1, vbn_min(ctx->opts.signal_period, ctx->device.sq_depth / 2));
}

static int open_queues(vbn_context_t *ctx, struct vbn_error *err)
{
    int rc = vbn_rx_init(ctx, err);

    if (!rc)
        rc = vbn_tx_init(ctx, err);
    if (rc)
        return rc;
    vbn_rma_init(ctx);
    vbn_tags_init(ctx);
    rc = vbn_rings_init(ctx, err);
    if (rc)
        return rc;
    if (vbn_cqs_init(ctx, ctx->device.cq_size, ctx->rx.shared.srq ? ctx->rx.max : 0))
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "device %s: cannot make a completion queue of %u entries (%s)",
                             ctx->device.name, ctx->device.cq_size, strerror(errno));
    return VBN_OK;
}

static int open_all(vbn_context_t *ctx, struct vbn_error *err)
{
    int rc = vbn_cm_open(ctx, err);

    if (!rc)
        rc = vbn_device_open(ctx, err);
    if (rc)
        return rc;
    if (set_nonblocking(ctx->device.verbs->async_fd))
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "device %s: its event descriptor is unusable (%s)", ctx->device.name,
                             strerror(errno));
    if (ctx->opts.wire_version < vbn_context_version_min(ctx))
        return vbn_error_set(
            err, VBN_ERR_INVALID,
            "device %s is iWARP, which needs wire_version %u, not %u; leave it out",
            ctx->device.name, vbn_context_version_min(ctx), (unsigned)ctx->opts.wire_version);
    settle_limits(ctx);
    rc = vbn_wait_init(ctx, err);
    if (!rc)
        rc = open_queues(ctx, err);
    return rc ? rc : vbn_cm_listen(ctx, err);
}

static void free_all(vbn_context_t *ctx)
{
    vbn_cm_unlisten(ctx);
    vbn_groups_fini(ctx);
    vbn_cqs_fini(ctx);
    vbn_wait_fini(ctx);
    vbn_rings_fini(ctx);
    vbn_rx_fini(ctx);
    vbn_tx_fini(ctx);
    vbn_rma_fini(ctx);
    vbn_tags_fini(ctx);
    vbn_mem_fini(ctx);
    vbn_device_fini(ctx);
    vbn_cm_fini(ctx);
    pthread_mutex_destroy(&ctx->mutex);
    free(ctx);
}

int vbn_open(const struct vbn_options *opts, vbn_context_t **out, struct vbn_error *err)
{
    vbn_context_t *ctx = calloc(1, sizeof(*ctx));
    int rc;

    if (!ctx)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "out of memory");
    rc = vbn_options_take(opts, &ctx->opts, err);
    if (rc) {
        free(ctx);
        return rc;
    }
    ctx->wait_fd = -1;
    ctx->device.watch = -1;
    pthread_mutex_init(&ctx->mutex, NULL);
    LIST_INIT(&ctx->mems);
    LIST_INIT(&ctx->lent_mems);
    LIST_INIT(&ctx->halves);
    LIST_INIT(&ctx->groups);
    vbn_endpoint_init(&ctx->nobody, ctx, 0);
    TAILQ_INIT(&ctx->conns);
    TAILQ_INIT(&ctx->acks);
    TAILQ_INIT(&ctx->failed);
    TAILQ_INIT(&ctx->strangers);
    vbn_turns_init(ctx);
    STAILQ_INIT(&ctx->ended);
    vbn_timers_init(&ctx->timers);
    while (!ctx->uid)
        ctx->uid = ctx->opts.random(ctx->opts.callback_arg);
    rc = open_all(ctx, err);
    if (rc) {
        free_all(ctx);
        return rc;
    }
    vbn_log(ctx, VBN_LOG_INFO,
            "device %s port %u open: %s, %s, inline %u, eager %u, identity %016llx, job %llx",
            ctx->device.name, ctx->device.port, ctx->device.iwarp ? "iWARP" : "InfiniBand/RoCE",
            ctx->rx.shared.srq ? "shared receive queue" : "receive queues per connection",
            ctx->device.max_inline, ctx->max_am_len, (unsigned long long)ctx->uid,
            (unsigned long long)ctx->opts.job_key);
    *out = ctx;
    return VBN_OK;
}

/* --- what a context tells
 * ---------------------------------------------------------------------------------- */

void vbn_query(const vbn_context_t *ctx, struct vbn_attr *attr)
{
    struct vbn_attr full = {
        .device = ctx->device.name,
        .port = ctx->device.port,
        .iwarp = ctx->device.iwarp,
        .atomics = ctx->device.has_atomics,
        .sound_reads = ctx->device.sound_reads,
        .srq = ctx->rx.shared.srq != NULL,
        .max_am_len = ctx->max_am_len,
        .max_rma_len = ctx->device.max_msg_size,
        .rate_mbps = ctx->device.rate_mbps,
        .software = ctx->device.software,
        .good_reads = ctx->device.good_reads,
    };

    full.size = vbn_min(attr->size, sizeof(full));
    memcpy(attr, &full, full.size);
}

void vbn_counters(vbn_context_t *ctx, struct vbn_counters *counters)
{
    struct vbn_counters full;

    vbn_lock(ctx);
    full = ctx->counters;
    vbn_unlock(ctx);
    full.size = vbn_min(counters->size, sizeof(full));
    memcpy(counters, &full, full.size);
}

static void address_entry(const vbn_context_t *ctx, unsigned i, struct vbn_wire_sockaddr *out)
{
    const union vbn_sockaddr *addr = &ctx->device.addrs[i].addr;

    out->port = ctx->cm.port[i];
    if (addr->sa.sa_family == AF_INET) {
        out->family = 4;
        memcpy(out->ip, &addr->in.sin_addr, 4);
    } else {
        out->family = 6;
        memcpy(out->ip, &addr->in6.sin6_addr, 16);
    }
}

int vbn_address(const vbn_context_t *ctx, void *buf, size_t *len)
{
    struct vbn_wire_address a = {
        .version = (uint8_t)ctx->opts.wire_version,
        .version_min = vbn_context_version_min(ctx),
        .count = (uint8_t)ctx->device.addr_count,
        .uid = ctx->uid,
        .job_key = ctx->opts.job_key,
        .buf_size = (uint32_t)sizeof(struct vbn_wire_hdr) + ctx->max_am_len,
    };

    if (*len < vbn_wire_address_len(&a))
        return VBN_ERR_INVALID;
    for (unsigned i = 0; i < a.count; i++)
        address_entry(ctx, i, &a.addrs[i]);
    vbn_wire_address_write(buf, &a);
    *len = vbn_wire_address_len(&a);
    return VBN_OK;
}

void vbn_am_handler(vbn_context_t *ctx, uint8_t id, vbn_am_fn fn, void *arg)
{
    vbn_lock(ctx);
    ctx->am[id] = (struct vbn_am){fn, arg};
    vbn_unlock(ctx);
}

/* --- faults
 * ----------------------------------------------------------------------------------------------------
 */

void vbn_context_fault(vbn_context_t *ctx, const char *what)
{
    struct vbn_conn *conn;
    vbn_endpoint_t *ep, *next;

    if (!ctx->faulted)
        vbn_log(ctx, VBN_LOG_ERROR, "device %s: %s; all its connections end", ctx->device.name,
                what);
    ctx->faulted = true;
    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        if (conn->state != VBN_CONN_NEW)
            vbn_conn_fail(conn, VBN_EV_QP_ERROR, "%s", what);
    }
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        if (ep->recovery.since_ns)
            vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "peer %s: device %s: %s", ep->name,
                              ctx->device.name, what);
    }
}

/* The link is gone, or what was missing without it, or without an address, may work again. */
static void port_may_differ(vbn_context_t *ctx, enum ibv_event_type type)
{
    bool back = type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_GID_CHANGE ||
                type == IBV_EVENT_LID_CHANGE;

    if (back || type == IBV_EVENT_PORT_ERR)
        vbn_device_look_at_link(ctx);
    if (!back)
        return;
    ctx->port_changed_ns = ctx->next_probe_ns = vbn_now_ns(ctx);
    vbn_recover_look_again(ctx, vbn_device_addresses_since(ctx));
}

/* Events of queue pairs and the like name no port. */
static bool is_of_another_port(const vbn_context_t *ctx, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_GID_CHANGE:
        return event->element.port_num != ctx->device.port;
    default:
        return false;
    }
}

static void take_async_event(vbn_context_t *ctx, const struct ibv_async_event *event)
{
    struct vbn_conn *conn;

    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        conn = event->element.qp->qp_context;
        if (conn) /* those of groups have none, and say it in their completions */
            vbn_conn_fail(conn, VBN_EV_QP_ERROR, "%s", ibv_event_type_str(event->event_type));
        break;
    case IBV_EVENT_COMM_EST:
        conn = event->element.qp->qp_context;
        if (conn->state == VBN_CONN_ACCEPTING)
            vbn_conn_event(conn, VBN_EV_ESTABLISHED);
        break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
        vbn_context_fault(ctx, ibv_event_type_str(event->event_type));
        break;
    default:
        if (is_of_another_port(ctx, event))
            break;
        vbn_log(ctx, VBN_LOG_INFO, "device %s: %s", ctx->device.name,
                ibv_event_type_str(event->event_type));
        port_may_differ(ctx, event->event_type);
        break;
    }
}

int vbn_async_poll(vbn_context_t *ctx)
{
    struct ibv_async_event event;
    int n = 0;

    while (ibv_get_async_event(ctx->device.verbs, &event) == 0) {
        /* Only this thread destroys what the event names, so it may be acknowledged first. */
        ibv_ack_async_event(&event);
        take_async_event(ctx, &event);
        n++;
    }
    return n;
}

/* --- closing
 * ------------------------------------------------------------------------------------------------------
 */

static size_t still_open(vbn_context_t *ctx)
{
    const vbn_endpoint_t *ep;
    const struct vbn_conn *conn;
    size_t n = vbn_cm_reap(ctx);

    for (ep = ctx->endpoints; ep; ep = ep->hh.next)
        n += ep->state < VBN_EP_CLOSED;
    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        n++;
    }
    return n;
}

static void begin_close(vbn_context_t *ctx)
{
    vbn_endpoint_t *ep, *next;

    ctx->closing = true;
    ctx->hurry_ns = vbn_now_ns(ctx) + ctx->opts.close_timeout_ms / 5 * VBN_MS_NS;
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        vbn_endpoint_shut(ep);
    }
    vbn_halves_shut(ctx);
}

static void hurry_close(vbn_context_t *ctx)
{
    vbn_endpoint_t *ep, *next;

    ctx->hurries = true;
    ctx->slow_work = true;
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        vbn_endpoint_advance_close(ep);
    }
}

/* What groups have still to deliver needs the endpoints, but not for ever. */
static size_t shut_groups(vbn_context_t *ctx)
{
    size_t n = vbn_groups_shut(ctx);

    if (!ctx->groups_by_ns)
        ctx->groups_by_ns = vbn_now_ns(ctx) + ctx->opts.close_timeout_ms / 5 * VBN_MS_NS;
    return vbn_now_ns(ctx) < ctx->groups_by_ns ? n : 0;
}

size_t vbn_shutdown(vbn_context_t *ctx)
{
    size_t n;

    vbn_lock(ctx);
    n = ctx->closing ? 0 : shut_groups(ctx);
    if (n) {
        vbn_unlock(ctx);
        return n;
    }
    if (!ctx->closing)
        begin_close(ctx);
    else if (!ctx->hurries && vbn_now_ns(ctx) >= ctx->hurry_ns)
        hurry_close(ctx);
    n = still_open(ctx);
    vbn_unlock(ctx);
    return n;
}

/* Time is up: what is left ends now, by force. The callbacks of it cannot progress. */
static void abandon(vbn_context_t *ctx)
{
    struct vbn_conn *conn;
    vbn_endpoint_t *ep, *next;

    vbn_progress_enter(ctx);
    vbn_lock(ctx);
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        if (ep->state < VBN_EP_CLOSED)
            vbn_endpoint_abandon(ep);
    }
    ctx->faulted = true; /* there is no time to wait for anything */
    TAILQ_FOREACH(conn, &ctx->conns, entry)
    {
        vbn_conn_event(conn, VBN_EV_TIMEOUT);
        if (conn->state == VBN_CONN_LEAVING)
            vbn_conn_event(conn, VBN_EV_GONE);
    }
    vbn_conn_reap(ctx);
    vbn_rma_deliver_ended(ctx);
    vbn_tags_advance(ctx);
    vbn_unlock(ctx);
    vbn_progress_leave(ctx);
}

int vbn_close(vbn_context_t *ctx)
{
    uint64_t deadline = vbn_now_ns(ctx) + ctx->opts.close_timeout_ms * VBN_MS_NS;
    vbn_endpoint_t *ep, *next;
    size_t left;

    while ((left = vbn_shutdown(ctx)) && vbn_now_ns(ctx) < deadline)
        if (vbn_progress(ctx) == 0)
            sched_yield();
    if (left) {
        vbn_log(ctx, VBN_LOG_WARN,
                "closing took longer than %llu ms; %zu connections or endpoints "
                "are dropped",
                (unsigned long long)ctx->opts.close_timeout_ms, left);
        abandon(ctx);
    }
    vbn_lock(ctx);
    vbn_tags_abandon(ctx);
    vbn_groups_abandon(ctx);
    vbn_unlock(ctx);
    vbn_progress(ctx); /* the last callbacks */
    HASH_ITER(hh, ctx->endpoints, ep, next)
    {
        vbn_endpoint_free(ep);
    }
    vbn_halves_fini(ctx);
    free_all(ctx);
    return left ? VBN_ERR_TIMEOUT : VBN_OK;
}
