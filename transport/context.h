/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context: owns every other object. There is no state outside of it.
 *
 * doc/threads.md has the locking rule: everything here is under `mutex` (taken only where several
 * threads may call), callbacks run without it, and completions are taken by one thread at a time,
 * the one that has `progressing`.
 */
#ifndef VBN_CONTEXT_H
#define VBN_CONTEXT_H

#include "cm.h"
#include "device.h"
#include "endpoint.h"
#include "mem.h"
#include "options.h"
#include "qpmap.h"
#include "ring.h"
#include "turns.h"

#include <pthread.h>
#include <stdatomic.h>

struct vbn_am {
    vbn_am_fn fn;
    void *arg;
};

struct vbn_context {
    struct vbn_options opts;
    struct vbn_cqs cqs;
    struct vbn_qpmap qpmap;
    struct vbn_rx rx;
    struct vbn_rings rings;
    struct vbn_pool msgs, rmas, ctls;
    uint32_t lazy;      /* messages that wait for a later completion */
    uint32_t msgs_each; /* of them, of one endpoint at most */
    uint32_t max_am_len;
    LIST_HEAD(, vbn_mem) mems, lent_mems; /* registered regions; those lent to tagged messages */
    struct vbn_counters counters;
    struct vbn_tags tags;
    struct ibv_comp_channel *comp_channel;
    int wait_fd;                  /* readable when one of the channels is */
    _Atomic uint32_t waits_slept; /* waits in a row that polling alone did not end */
    bool armed; /* the completion queues: their events are asked for, and none was taken since */
    bool event_waits; /* a completion queue's event lies in the channel */
    bool slow_work;   /* something waits for the slow side: look now */
    atomic_bool progressing;
    uint32_t polls_left; /* until the next look at the slow side */
    uint32_t polls;      /* from the last to the next */
    uint32_t connecting; /* connections on their way */

    pthread_mutex_t mutex;
    uint64_t looked_ns; /* when the slow side was looked at last, or a sleep was over */
    uint64_t next_events_ns, next_acks_ns, next_probe_ns;
    uint64_t going_by_ns;     /* addresses that went are followed by others until then */
    uint64_t port_changed_ns; /* when its link came, or its addresses changed, last; 0: never */
    uint64_t groups_by_ns;    /* closing waits for groups until then; 0: it has not begun */
    uint64_t hurry_ns;        /* from when on closing hurries */

    uint64_t uid;
    vbn_endpoint_t *endpoints; /* hash by uid */
    uint32_t endpoints_made;   /* so far */
    vbn_endpoint_t nobody;     /* in no hash: of connections whose peer is not known yet */
    LIST_HEAD(, vbn_half) halves;
    LIST_HEAD(, vbn_group) groups;
    struct vbn_group_name *group_names; /* hash by hash */
    TAILQ_HEAD(, vbn_conn) conns;
    TAILQ_HEAD(, vbn_conn) acks; /* have received what the peer was not told */
    TAILQ_HEAD(, vbn_endpoint) failed;
    TAILQ_HEAD(, vbn_endpoint) strangers; /* the oldest first; claimed and heard ones among them */
    uint32_t stranger_count;              /* of that list */
    struct vbn_tx_list ended;             /* puts and gets to be called back */
    struct vbn_timers timers;
    struct vbn_turns turns;

    struct vbn_cm cm;
    struct vbn_device device;
    bool closing;
    bool hurries;      /* closing has taken long: messages that the device has are left to it */
    bool version_told; /* an error in the log: a peer of another release */
    bool faulted;      /* the device or a queue has failed, or time is up: all ends as it is */
    struct vbn_am am[256];
};

static inline void vbn_lock(vbn_context_t *ctx)
{
    if (ctx->opts.multithreaded)
        pthread_mutex_lock(&ctx->mutex);
}

static inline void vbn_unlock(vbn_context_t *ctx)
{
    if (ctx->opts.multithreaded)
        pthread_mutex_unlock(&ctx->mutex);
}

typedef void (*vbn_op_done_fn)(struct vbn_op *op);

/* OP has ended with STATUS. Returns its `done`, to be called; NULL: OP is its caller's again, of
 * another thread, perhaps, which looks at the status, and may be gone. */
static inline vbn_op_done_fn vbn_op_end(struct vbn_op *op, int status)
{
    vbn_op_done_fn done = op->done;

    __atomic_store_n(&op->status, status, __ATOMIC_RELEASE);
    return done;
}

/* OP has ended with STATUS, and is its caller's again. */
static inline void vbn_op_over(vbn_context_t *ctx, struct vbn_op *op, int status)
{
    vbn_op_done_fn done = vbn_op_end(op, status);

    if (!done)
        return;
    vbn_unlock(ctx);
    done(op);
    vbn_lock(ctx);
}

static inline uint64_t vbn_now_ns(const vbn_context_t *ctx)
{
    return ctx->opts.clock_ns(ctx->opts.callback_arg);
}

/* The lowest version of the wire that is offered: ours, unless a test pretends to be a release that
 * has dropped it. On iWARP only marks tell when a put has arrived. */
static inline uint8_t vbn_context_version_min(const vbn_context_t *ctx)
{
    if (ctx->opts.wire_version > VBN_WIRE_VERSION)
        return (uint8_t)ctx->opts.wire_version;
    return ctx->device.iwarp ? VBN_WIRE_MARKS : VBN_WIRE_VERSION_MIN;
}

/* A number from 0 to BELOW - 1. */
static inline uint64_t vbn_random_below(const vbn_context_t *ctx, uint64_t below)
{
    return ctx->opts.random(ctx->opts.callback_arg) % below;
}

/* The device or a completion queue failed: all connections end. */
VBN_COLD void vbn_context_fault(vbn_context_t *ctx, const char *what);

/* Takes `progressing`; false where a caller further up, or another thread, has it. */
static inline bool vbn_progress_enter(vbn_context_t *ctx)
{
    if (ctx->opts.multithreaded)
        return !atomic_exchange_explicit(&ctx->progressing, true, memory_order_acquire);
    if (atomic_load_explicit(&ctx->progressing, memory_order_relaxed))
        return false;
    atomic_store_explicit(&ctx->progressing, true, memory_order_relaxed);
    return true;
}

static inline void vbn_progress_leave(vbn_context_t *ctx)
{
    atomic_store_explicit(&ctx->progressing, false, memory_order_release);
}

/* As vbn_progress(); -1 where it is not entered. */
int vbn_progress_try(vbn_context_t *ctx);

/* Asynchronous events of the device; returns how many. */
int vbn_async_poll(vbn_context_t *ctx);

#endif
