/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets between registered memory: one after the other for the time of one, and a window of
 * them at once for the bandwidth. The partner makes progress meanwhile, which some transports need.
 */
#include "perf.h"

enum { TAG_READY = 32, TAG_DONE = 34 };

static int start_once(struct perf_pair *p, enum perf_test test, size_t len, struct vbn_op *op)
{
    const struct vbn_transport *tr = p->job->tr;

    if (test == PERF_PUT)
        return tr->put(p->peer, p->out, p->region, p->remote_in, p->rkey, len, op);
    return tr->get(p->peer, p->in, p->region, p->remote_out, p->rkey, len, op);
}

static int start(struct perf_pair *p, enum perf_test test, size_t len, struct vbn_op *op)
{
    int status = start_once(p, test, len, op);

    while (status == VBN_ERR_AGAIN) {
        p->job->tr->progress(p->job->port);
        status = start_once(p, test, len, op);
    }
    return status;
}

static int do_one(struct perf_pair *p, enum perf_test test, size_t len)
{
    return perf_finish(p, start(p, test, len, &p->ops[0]), &p->ops[0]);
}

static int time_one(struct perf_pair *p, enum perf_test test, size_t len,
                    struct perf_figures *figures)
{
    struct perf_span span = perf_span_begin(p->opts);
    double before, now = perf_now_us();
    size_t count = 0;
    int status = VBN_OK;

    while (status == VBN_OK && (count == 0 || now < span.end_us) && count < PERF_SAMPLES_MAX) {
        before = now;
        status = do_one(p, test, len);
        now = perf_now_us();
        if (before >= span.start_us)
            p->samples[count++] = now - before;
    }
    if (status == VBN_OK)
        perf_summary(p->samples, count, &figures->us, &figures->us_p99);
    return status;
}

/* All of a window that is under way: each ends, and begins anew. FIRST_US: when the first had
 * ended. */
static int turn_over(struct perf_pair *p, enum perf_test test, size_t len, double *first_us)
{
    int status = perf_finish(p, VBN_OK, &p->ops[0]);

    *first_us = perf_now_us();
    if (status == VBN_OK)
        status = start(p, test, len, &p->ops[0]);
    for (unsigned i = 1; i < p->opts->window && status >= 0; i++) {
        status = perf_finish(p, VBN_OK, &p->ops[i]);
        if (status == VBN_OK)
            status = start(p, test, len, &p->ops[i]);
    }
    return status;
}

/*
 * As many at once as the window has: where one ends the next begins. The time is from the end of a
 * window's first one to the end of another's: to begin is much of the work where the device is
 * software, and those that have begun do not count yet.
 */
static int time_many(struct perf_pair *p, enum perf_test test, size_t len,
                     struct perf_figures *figures)
{
    struct perf_span span = perf_span_begin(p->opts);
    unsigned window = p->opts->window;
    double first = 0, now = 0, ops = 0;
    int status = VBN_OK;

    for (unsigned i = 0; i < window && status >= 0; i++)
        status = start(p, test, len, &p->ops[i]);
    while (status >= 0 && (now < span.end_us || !ops)) {
        status = turn_over(p, test, len, &now);
        ops += window;
        if (!first || now < span.start_us) { /* what follows counts */
            first = now;
            ops = 0;
        }
    }
    if (status >= 0)
        status = perf_finish_all(p, p->ops, window);
    if (status != VBN_OK)
        return status;
    figures->msgs_s = ops / (now - first) * 1e6;
    figures->mb_s = (double)len * figures->msgs_s / 1e6;
    return VBN_OK;
}

static int active(struct perf_pair *p, enum perf_test test, size_t len,
                  struct perf_figures *figures)
{
    int status;

    perf_fill(p, len);
    perf_poison(p, len);
    status = perf_hear(p, TAG_READY);
    if (status == VBN_OK)
        status = do_one(p, test, len);
    if (status == VBN_OK && test == PERF_GET)
        status = perf_check(p, len);
    if (status == VBN_OK)
        status = perf_tell(p, TAG_DONE);
    if (status == VBN_OK)
        status = perf_hear(p, TAG_READY); /* the partner has looked */
    if (status == VBN_OK)
        status = time_one(p, test, len, figures);
    if (status == VBN_OK)
        status = time_many(p, test, len, figures);
    return status == VBN_OK ? perf_tell(p, TAG_DONE) : status;
}

static int passive(struct perf_pair *p, enum perf_test test, size_t len)
{
    int status;

    perf_fill(p, len);
    perf_poison(p, len);
    status = perf_tell(p, TAG_READY);
    if (status == VBN_OK)
        status = perf_hear(p, TAG_DONE);
    if (status == VBN_OK && test == PERF_PUT)
        status = perf_check(p, len);
    if (status == VBN_OK)
        status = perf_tell(p, TAG_READY);
    return status == VBN_OK ? perf_hear(p, TAG_DONE) : status;
}

int perf_onesided(struct perf_pair *p, enum perf_test test, size_t len,
                  struct perf_figures *figures)
{
    int status = perf_pair_share(p);

    if (status != VBN_OK)
        return status;
    return p->measures ? active(p, test, len, figures) : passive(p, test, len);
}
