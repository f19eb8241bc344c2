/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of connections and endpoints: few at a time, looked at on the slow path only, so an
 * unsorted list does.
 */
#ifndef VBN_TIMER_H
#define VBN_TIMER_H

#include "base.h"

struct vbn_timer {
    TAILQ_ENTRY(vbn_timer) entry;
    uint64_t at_ns; /* 0: not set */
    void (*expired)(struct vbn_timer *timer);
};

struct vbn_timers {
    TAILQ_HEAD(, vbn_timer) list;
};

static inline void vbn_timers_init(struct vbn_timers *timers)
{
    TAILQ_INIT(&timers->list);
}

static inline void vbn_timer_stop(struct vbn_timers *timers, struct vbn_timer *timer)
{
    if (timer->at_ns)
        TAILQ_REMOVE(&timers->list, timer, entry);
    timer->at_ns = 0;
}

/* Sets TIMER, also where it was set, to call EXPIRED at AT_NS (not 0). */
static inline void vbn_timer_start(struct vbn_timers *timers, struct vbn_timer *timer,
                                   uint64_t at_ns, void (*expired)(struct vbn_timer *))
{
    vbn_timer_stop(timers, timer);
    timer->at_ns = at_ns;
    timer->expired = expired;
    TAILQ_INSERT_TAIL(&timers->list, timer, entry);
}

/* Calls each handler that is due; handlers may set and stop timers. Returns how many were due. */
static inline int vbn_timers_run(struct vbn_timers *timers, uint64_t now_ns)
{
    struct vbn_timer *timer;
    int n = 0;

again:
    TAILQ_FOREACH(timer, &timers->list, entry)
    {
        if (timer->at_ns <= now_ns) {
            vbn_timer_stop(timers, timer);
            timer->expired(timer);
            n++;
            goto again; /* the handler may have changed the list */
        }
    }
    return n;
}

#endif
