/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many to one: every rank but the first sends bursts to the first, each as soon as its last one has
 * been answered. The first works on each burst, in which it looks at nothing, before it answers:
 * the others' bursts fill what it has to receive with.
 */
#include "perf.h"

#include <sched.h>
#include <stdlib.h>

#define WORK_US 100.0 /* on each burst */

enum { LAST = 1, TAG_BURST = 10, TAG_ANSWER = 12 };

/* What the first rank has of one sender. */
struct sender {
    vbn_peer_t *peer;
    struct vbn_op *ops; /* a burst */
    unsigned have;      /* messages of it */
    bool over;
};

/* --- the senders --------------------------------------------------------------------------------
 */

static int send_bursts(struct perf_pair *p, size_t len)
{
    const struct vbn_transport *tr = p->job->tr;
    vbn_peer_t *first = p->job->peers[0];
    unsigned burst = p->opts->window;
    int status = VBN_OK;
    bool last = false;

    while (status >= 0 && !last) {
        struct vbn_op answer = {.done = NULL};

        status = tr->recv(p->job->port, first, NULL, 0, TAG_ANSWER, VBN_TAG_MAX - LAST, &answer);
        for (unsigned i = 0; i < burst && status >= 0; i++)
            status = tr->send(first, p->out, len, TAG_BURST, &p->ops[i]);
        if (status >= 0)
            status = perf_finish_all(p, p->ops, burst);
        status = perf_finish(p, status, &answer);
        last = answer.tag & LAST;
    }
    return status;
}

/* --- the receiver -------------------------------------------------------------------------------
 */

static int post_burst(struct perf_pair *p, struct sender *s, size_t len)
{
    int status = VBN_OK;

    s->have = 0;
    for (unsigned i = 0; i < p->opts->window && status >= 0; i++)
        status =
            p->job->tr->recv(p->job->port, s->peer, p->in, len, TAG_BURST, VBN_TAG_MAX, &s->ops[i]);
    return status < 0 ? status : VBN_OK;
}

static int answer(struct perf_pair *p, struct sender *s, bool last)
{
    struct vbn_op op = {.done = NULL};
    int status = p->job->tr->send(s->peer, NULL, 0, TAG_ANSWER | (last ? LAST : 0), &op);

    s->over = last;
    return perf_finish(p, status, &op);
}

/* *WHOLE: the burst of S has come. */
static int look_at(struct perf_pair *p, struct sender *s, bool *whole)
{
    int status = VBN_OK;

    while (s->have < p->opts->window && status == VBN_OK && s->ops[s->have].status != VBN_PENDING)
        status = s->ops[s->have++].status;
    *whole = status == VBN_OK && s->have == p->opts->window;
    return status;
}

static void work(void)
{
    double end_us = perf_now_us() + WORK_US;

    while (perf_now_us() < end_us)
        ;
}

/* One look at each sender; *BURSTS counts what came, *LEFT the senders that go on. */
static int serve(struct perf_pair *p, struct sender *senders, size_t len, bool last,
                 unsigned *bursts, unsigned *left)
{
    int status = VBN_OK;

    for (uint32_t i = 0; i + 1 < p->job->ranks && status == VBN_OK; i++) {
        struct sender *s = &senders[i];
        bool whole = false;

        status = s->over ? VBN_OK : look_at(p, s, &whole);
        if (!whole)
            continue;
        work();
        ++*bursts;
        *left -= last;
        if (!last)
            status = post_burst(p, s, len);
        if (status == VBN_OK)
            status = answer(p, s, last);
    }
    return status;
}

static int take_bursts(struct perf_pair *p, struct sender *senders, size_t len,
                       struct perf_figures *figures)
{
    struct perf_span span = perf_span_begin(p->opts);
    unsigned left = p->job->ranks - 1, fruitless = 0, msgs = 0;
    double first = 0, now = 0;
    int status = VBN_OK;

    while (status == VBN_OK && left) {
        unsigned bursts = 0;

        if (p->job->tr->progress(p->job->port) > 0)
            fruitless = 0;
        else if (++fruitless >= p->patience)
            sched_yield();
        status = serve(p, senders, len, now >= span.end_us, &bursts, &left);
        now = perf_now_us();
        if (now < span.start_us || now >= span.end_us)
            continue;
        if (first > 0)
            msgs += bursts * p->opts->window;
        else
            first = now;
        figures->us = msgs ? (now - first) / msgs : 0;
    }
    if (figures->us > 0) {
        figures->msgs_s = 1e6 / figures->us;
        figures->mb_s = (double)len / figures->us;
    }
    return status;
}

static int receive(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    uint32_t count = p->job->ranks - 1;
    struct sender *senders = calloc(count, sizeof(*senders));
    int status = senders ? VBN_OK : VBN_ERR_NO_MEMORY;

    for (uint32_t i = 0; i < count && status == VBN_OK; i++) {
        senders[i] = (struct sender){.peer = p->job->peers[i + 1],
                                     .ops = p->ops + (size_t)i * p->opts->window};
        status = post_burst(p, &senders[i], len);
    }
    if (status == VBN_OK)
        status = take_bursts(p, senders, len, figures);
    free(senders);
    return status;
}

int perf_incast(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    return p->job->rank == 0 ? receive(p, len, figures) : send_bursts(p, len);
}
