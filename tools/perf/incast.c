/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many to one: every rank but the first sends bursts to the first, each as soon as its last one has
 * been answered. The first works on each burst, in which it looks at nothing, before it answers:
 * the others' bursts fill what it has to receive with.
 */
#include "perf.h"

#include <stdlib.h>

#define WORK_US      100.0 /* on each burst */
#define BURSTS_LEAST 4u    /* of each sender count, however long they take */

enum { TAG_BURST = 10 };

/* Bursts come as wholes: how fast is told from the end of one to that of another. */
struct pace {
    double first_us, last_us;
    unsigned bursts; /* after the first */
};

/* What the first rank has of one sender. */
struct sender {
    struct perf_pair pair;
    unsigned have; /* messages of a burst */
    bool over;
};

static int send_bursts(const struct perf_pair *p, size_t len)
{
    struct perf_pair first = perf_pair_with(p, 0, p->ops);
    int status = VBN_OK;
    bool last = false;

    while (status >= 0 && !last)
        status = perf_send_window(&first, len, p->opts->window, TAG_BURST, &last);
    return status;
}

/* --- the receiver -------------------------------------------------------------------------------
 */

static int post_burst(struct sender *s, size_t len)
{
    s->have = 0;
    return perf_post_window(&s->pair, len, s->pair.opts->window, TAG_BURST);
}

static int answer(struct sender *s, bool last)
{
    s->over = last;
    return perf_tell(&s->pair, PERF_ANSWER | (last ? PERF_LAST : 0));
}

/* *WHOLE: the burst of S has come. */
static int look_at(struct sender *s, bool *whole)
{
    const struct vbn_op *ops = s->pair.ops;
    unsigned window = s->pair.opts->window;
    int status = VBN_OK;

    while (s->have < window && status == VBN_OK && ops[s->have].status != VBN_PENDING)
        status = ops[s->have++].status;
    *whole = status == VBN_OK && s->have == window;
    return status;
}

/* One look at each sender; *BURSTS counts what came, *LEFT the senders that go on. */
static int serve(const struct perf_pair *p, struct sender *senders, size_t len, bool last,
                 unsigned *bursts, unsigned *left)
{
    int status = VBN_OK;

    for (uint32_t i = 0; i + 1 < p->job->ranks && status == VBN_OK; i++) {
        struct sender *s = &senders[i];
        bool whole = false;

        status = s->over ? VBN_OK : look_at(s, &whole);
        if (!whole)
            continue;
        perf_compute(WORK_US);
        ++*bursts;
        *left -= last;
        if (!last)
            status = post_burst(s, len);
        if (status == VBN_OK)
            status = answer(s, last);
    }
    return status;
}

/* COUNT bursts have come, at NOW; the first only begin what is measured. */
static void count_bursts(struct pace *pace, unsigned count, double now)
{
    if (pace->first_us > 0)
        pace->bursts += count;
    else
        pace->first_us = now;
    pace->last_us = now;
}

static int take_bursts(struct perf_pair *p, struct sender *senders, size_t len, struct pace *pace)
{
    struct perf_span span = perf_span_begin(p->opts);
    unsigned left = p->job->ranks - 1, least = BURSTS_LEAST * left;
    double now = 0;
    int status = VBN_OK;

    while (status == VBN_OK && left) {
        bool last = now >= span.end_us && pace->bursts >= least;
        unsigned bursts = 0;

        perf_poll(p);
        status = serve(p, senders, len, last, &bursts, &left);
        now = perf_now_us();
        if (bursts && now >= span.start_us && !last)
            count_bursts(pace, bursts, now);
    }
    return status;
}

static int receive(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    uint32_t count = p->job->ranks - 1;
    struct sender *senders = calloc(count, sizeof(*senders));
    struct pace pace = {0};
    int status = senders ? VBN_OK : VBN_ERR_NO_MEMORY;

    for (uint32_t i = 0; i < count && status == VBN_OK; i++) {
        senders[i].pair = perf_pair_with(p, i + 1, p->ops + (size_t)i * p->opts->window);
        status = post_burst(&senders[i], len);
    }
    if (status == VBN_OK)
        status = take_bursts(p, senders, len, &pace);
    free(senders);
    if (status != VBN_OK)
        return status;
    figures->us = (pace.last_us - pace.first_us) / pace.bursts / p->opts->window;
    figures->msgs_s = 1e6 / figures->us;
    figures->mb_s = (double)len / figures->us;
    return VBN_OK;
}

int perf_incast(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    return p->job->rank == 0 ? receive(p, len, figures) : send_bursts(p, len);
}
