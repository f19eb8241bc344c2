/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting without burning the CPU: all that can wake a context is behind one descriptor. Asking for
 * the next completion's event comes first, and then the last look: so no wake-up is lost.
 */
#include "wait.h"
#include "context.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DESCRIPTORS 3 /* that of completions and the two of events */

/* Until an endpoint that cannot go on tries again: mostly an event is first. */
#define BUSY_NS 100000000u

static int watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int vbn_wait_init(vbn_context_t *ctx, struct vbn_error *err)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx->device.verbs);

    ctx->comp_channel = channel;
    ctx->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!channel || ctx->wait_fd < 0 ||
        fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) ||
        watch(ctx->wait_fd, channel->fd) || watch(ctx->wait_fd, ctx->cm.channel->fd) ||
        watch(ctx->wait_fd, ctx->device.verbs->async_fd))
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "device %s: cannot watch its event descriptors (%s); see `ulimit -n`",
                             ctx->device.name, strerror(errno));
    return VBN_OK;
}

void vbn_wait_fini(vbn_context_t *ctx)
{
    if (ctx->wait_fd >= 0)
        close(ctx->wait_fd);
    if (ctx->comp_channel)
        ibv_destroy_comp_channel(ctx->comp_channel);
}

int vbn_events_poll(vbn_context_t *ctx)
{
    struct epoll_event ready[DESCRIPTORS];
    int waiting = epoll_wait(ctx->wait_fd, ready, DESCRIPTORS, 0);
    int n = 0;

    for (int i = 0; i < waiting; i++) {
        if (ready[i].data.fd == ctx->cm.channel->fd)
            n += vbn_cm_poll(ctx);
        else if (ready[i].data.fd == ctx->device.verbs->async_fd)
            n += vbn_async_poll(ctx);
    }
    return n;
}

int vbn_event_fd(const vbn_context_t *ctx)
{
    return ctx->wait_fd;
}

/* Takes up to MOST events of the completion queues, which then have to be armed again. */
static void take_cq_events(vbn_context_t *ctx, uint32_t most)
{
    struct ibv_cq *cq;
    void *cq_context;

    ctx->armed = ctx->event_waits = false;
    while (most-- && ibv_get_cq_event(ctx->comp_channel, &cq, &cq_context) == 0)
        ibv_ack_cq_events(cq, 1);
}

static int arm_cqs(vbn_context_t *ctx)
{
    if (ctx->event_waits)
        take_cq_events(ctx, ctx->cqs.count);
    for (uint32_t i = 0; i < ctx->cqs.count && !ctx->armed; i++)
        if (ibv_req_notify_cq(ctx->cqs.cq[i]->cq, 0))
            return VBN_ERR_DEVICE;
    ctx->armed = true;
    return VBN_OK;
}

/* When something has to be done although no event tells; UINT64_MAX: never. */
static uint64_t next_due_ns(const vbn_context_t *ctx)
{
    uint64_t due = TAILQ_EMPTY(&ctx->acks) ? UINT64_MAX : ctx->next_acks_ns;
    const struct vbn_timer *timer;

    if (!TAILQ_EMPTY(&ctx->conns) && !ctx->device.iwarp)
        due = vbn_min(due, ctx->next_probe_ns);
    TAILQ_FOREACH(timer, &ctx->timers.list, entry)
    {
        due = vbn_min(due, timer->at_ns);
    }
    return due;
}

/* The next progress looks at everything, events too. */
static void look_at_all(vbn_context_t *ctx)
{
    ctx->polls_left = 0;
    ctx->next_events_ns = 0;
}

/* Whole milliseconds, rounded up, for poll(2). */
static int poll_ms(uint64_t ns)
{
    return ns == UINT64_MAX ? -1 : (int)vbn_min(ns / VBN_MS_NS + 1, INT32_MAX);
}

/* As vbn_arm(); *DONE is what the last look found to do. The look of another thread, who is in it,
 * may have been before the queues were armed. What an endpoint cannot go on with comes with an
 * event, unless it is memory. */
static int arm(vbn_context_t *ctx, uint64_t *sleep_ns, int *done)
{
    uint64_t due, now;
    int looked, rc;

    vbn_lock(ctx);
    vbn_rings_rest(ctx);
    rc = arm_cqs(ctx);
    vbn_unlock(ctx);
    looked = vbn_progress_try(ctx);
    *done = looked < 0 ? 0 : looked;
    if (rc || looked)
        return rc ? rc : VBN_ERR_AGAIN;
    vbn_lock(ctx);
    now = vbn_now_ns(ctx);
    due = vbn_min(next_due_ns(ctx), vbn_rings_look_ns(ctx, now));
    if (due <= now)
        ctx->polls_left = 0;
    if (!TAILQ_EMPTY(&ctx->tags.busy) || ctx->tags.casts_wait)
        due = vbn_min(due, now + BUSY_NS);
    if (ctx->slow_work || !TAILQ_EMPTY(&ctx->tags.ended) || due <= now || !ctx->armed)
        rc = VBN_ERR_AGAIN;
    vbn_unlock(ctx);
    *sleep_ns = due == UINT64_MAX ? due : due - now;
    return rc;
}

/* Nobody says which descriptor the caller finds readable, so everything is looked at: now, and when
 * it comes back. */
int vbn_arm(vbn_context_t *ctx, int *timeout_ms)
{
    uint64_t sleep_ns = 0;
    int done, rc;

    vbn_lock(ctx);
    take_cq_events(ctx, UINT32_MAX);
    look_at_all(ctx);
    vbn_unlock(ctx);
    rc = arm(ctx, &sleep_ns, &done);
    vbn_lock(ctx);
    look_at_all(ctx);
    vbn_unlock(ctx);
    *timeout_ms = rc ? 0 : poll_ms(sleep_ns);
    return rc;
}

/*
 * A completion's event is left in the channel until the queues are armed again, for what has
 * arrived is in a hurry. But another thread may be asleep on the same descriptor, and must find
 * them armed.
 */
static void woken_by(vbn_context_t *ctx, int fd)
{
    if (fd != ctx->comp_channel->fd) {
        look_at_all(ctx);
        return;
    }
    ctx->event_waits = true;
    ctx->armed = false;
    if (ctx->opts.multithreaded)
        arm_cqs(ctx);
}

/* Sleeps for SLEEP_NS at most; returns what was done before it could. */
static int doze(vbn_context_t *ctx, uint64_t sleep_ns)
{
    struct epoll_event ready[DESCRIPTORS];
    uint64_t due_ns;
    int n, done;

    if (arm(ctx, &due_ns, &done) != VBN_OK)
        return done;
    n = epoll_wait(ctx->wait_fd, ready, DESCRIPTORS, poll_ms(vbn_min(due_ns, sleep_ns)));
    vbn_lock(ctx);
    ctx->looked_ns = vbn_now_ns(ctx); /* calls take no longer for it */
    for (int i = 0; i < n; i++)
        woken_by(ctx, ready[i].data.fd);
    if (n <= 0)
        ctx->polls_left = 0; /* timers */
    vbn_unlock(ctx);
    return done;
}

/*
 * How long to poll, where the last SLEPT waits in a row were not over by then: as long as it may,
 * and then less and less. Each sixteenth takes the whole time, to learn whether waits are short
 * again.
 */
static uint64_t spin_ns(const vbn_context_t *ctx, uint32_t slept)
{
    return (ctx->opts.wait_spin_us * 1000u) >> (slept % 16 ? vbn_min(slept, 4) : 0);
}

int vbn_wait(vbn_context_t *ctx, int timeout_ms)
{
    uint64_t limit = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * VBN_MS_NS;
    uint32_t slept = atomic_load_explicit(&ctx->waits_slept, memory_order_relaxed);
    uint64_t start, spin, waited = 0;
    int n = vbn_progress(ctx);

    if (n || !limit)
        return n;
    start = vbn_now_ns(ctx);
    spin = spin_ns(ctx, slept);
    while (waited < limit) {
        if (waited >= spin)
            n = doze(ctx, limit == UINT64_MAX ? limit : limit - waited);
        n += vbn_progress(ctx);
        if (n)
            break;
        waited = vbn_now_ns(ctx) - start;
    }
    atomic_store_explicit(&ctx->waits_slept, waited >= spin ? slept + 1 : 0, memory_order_relaxed);
    return n;
}
