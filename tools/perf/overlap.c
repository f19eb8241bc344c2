/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank pays for communication while it computes.
 *
 * Overlap: both ranks send each other a message at once. The one that measures then computes,
 * without a look at the transport, for as long as an exchange takes without computing; its partner
 * waits. What the exchange takes less than both one after the other was hidden behind the
 * computing. (As the post-work-wait method of COMB does: Lawry et al., IEEE Cluster 2002.)
 *
 * Idle: a rank waits for a message that comes late; how much of a processor that took, and what one
 * look for something to do costs where there is nothing.
 */
#include "perf.h"

#include <time.h>

enum { TAG_EXCHANGE = 12, TAG_LATE = 14, LOOKS = 1000 };

static int exchange(struct perf_pair *p, size_t len, double work_us, bool last)
{
    struct vbn_op *in = &p->ops[0], *out = &p->ops[1];
    int received = perf_recv(p, p->in, len, TAG_EXCHANGE, in), sent = received;

    if (received >= 0)
        sent = perf_send(p, p->out, len, TAG_EXCHANGE | (last ? PERF_LAST : 0), out);
    perf_compute(work_us);
    sent = perf_finish(p, sent, out);
    return sent == VBN_OK ? perf_finish(p, received, in) : sent;
}

/* *US gets the time of one that has WORK_US to compute. */
static int time_exchanges(struct perf_pair *p, size_t len, double work_us, double *us)
{
    struct perf_span span = perf_span_begin(p->opts);
    double before, now = perf_now_us(), p99;
    size_t count = 0;
    int status = VBN_OK;

    while (status == VBN_OK && (count == 0 || (now < span.end_us && count < PERF_SAMPLES_MAX))) {
        before = now;
        status = exchange(p, len, work_us, false);
        now = perf_now_us();
        if (before >= span.start_us)
            p->samples[count++] = now - before;
    }
    if (status == VBN_OK)
        perf_summary(p->samples, count, us, &p99);
    return status;
}

static int answer_exchanges(struct perf_pair *p, size_t len)
{
    int status;

    do
        status = exchange(p, len, 0, false);
    while (status == VBN_OK && !(p->ops[0].tag & PERF_LAST));
    return status;
}

int perf_overlap(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    double alone_us = 0, both_us = 0, hidden;
    int status;

    if (!p->measures)
        return answer_exchanges(p, len);
    status = time_exchanges(p, len, 0, &alone_us);
    if (status == VBN_OK)
        status = time_exchanges(p, len, alone_us, &both_us);
    if (status == VBN_OK)
        status = exchange(p, len, 0, true);
    if (status != VBN_OK)
        return status;
    hidden = (2 * alone_us - both_us) / alone_us;
    figures->us = alone_us;
    figures->percent = 100 * (hidden < 0 ? 0 : hidden > 1 ? 1 : hidden);
    return VBN_OK;
}

/* --- idle ---------------------------------------------------------------------------------------
 */

static int speak_late(struct perf_pair *p)
{
    const double s = p->opts->seconds;
    struct timespec left = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};

    while (nanosleep(&left, &left) != 0)
        ;
    return perf_tell(p, TAG_LATE);
}

static double look_us(struct perf_pair *p)
{
    double start_us = perf_now_us();

    for (int i = 0; i < LOOKS; i++)
        p->job->tr->progress(p->job->port);
    return (perf_now_us() - start_us) / LOOKS;
}

int perf_idle(struct perf_pair *p, struct perf_figures *figures)
{
    double start_us, busy_us;
    int status;

    if (!p->measures)
        return speak_late(p);
    start_us = perf_now_us();
    busy_us = perf_processor_us();
    status = perf_hear(p, TAG_LATE);
    figures->percent = 100 * (perf_processor_us() - busy_us) / (perf_now_us() - start_us);
    figures->us = look_us(p);
    return status;
}
