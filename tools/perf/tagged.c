/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tagged messages: there and back, and in windows.
 *
 * The rank that measures decides by the clock when it has enough, and says so by the tag of its
 * last round; so both need not know how many there will be. There and back, each sends and then
 * posts its receive, while the message is on its way, as programs do that call MPI_Send and
 * MPI_Recv; in windows receives are posted before they are needed.
 */
#include "perf.h"

enum { TAG_PING = 2, TAG_STREAM = 4, TAG_CHECK = 8 };

/* Each sends the other LEN bytes, which are looked at. */
static int check_contents(struct perf_pair *p, size_t len)
{
    struct vbn_op *ops = p->ops;
    int status;

    perf_fill(p, len);
    perf_poison(p, len);
    status = perf_recv(p, p->in, len, TAG_CHECK, &ops[0]);
    if (status >= 0)
        status = perf_finish(p, perf_send(p, p->out, len, TAG_CHECK, &ops[1]), &ops[1]);
    status = perf_finish(p, status, &ops[0]);
    return status == VBN_OK ? perf_check(p, len) : status;
}

/* --- latency ------------------------------------------------------------------------------------
 */

static int ping(struct perf_pair *p, size_t len, uint64_t tag)
{
    struct vbn_op *ops = p->ops;
    int sent = perf_send(p, p->out, len, tag, &ops[1]), status = sent;

    if (sent >= 0)
        status = perf_recv(p, p->in, len, TAG_PING, &ops[0]);
    if (status >= 0)
        sent = perf_finish(p, sent, &ops[1]);
    return sent < 0 ? sent : perf_finish(p, status, &ops[0]);
}

static int time_pings(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    struct perf_span span = perf_span_begin(p->opts);
    double before, now = perf_now_us();
    size_t count = 0;
    bool last = false;
    int status = VBN_OK;

    while (status == VBN_OK && !last) {
        before = now;
        last = before >= span.end_us || count + 1 == PERF_SAMPLES_MAX;
        status = ping(p, len, TAG_PING | (last ? PERF_LAST : 0));
        now = perf_now_us();
        if (before >= span.start_us)
            p->samples[count++] = (now - before) / 2;
    }
    if (status == VBN_OK)
        perf_summary(p->samples, count, &figures->us, &figures->us_p99);
    return status;
}

static int answer_pings(struct perf_pair *p, size_t len)
{
    struct vbn_op *in = &p->ops[0], *out = &p->ops[1];
    int status = perf_recv(p, p->in, len, TAG_PING, in), sent;
    bool last = false;

    while (status >= 0 && !last) {
        status = perf_finish(p, status, in);
        if (status != VBN_OK)
            break;
        last = in->tag & PERF_LAST;
        sent = perf_send(p, p->out, len, TAG_PING, out);
        if (!last)
            status = perf_recv(p, p->in, len, TAG_PING, in);
        sent = perf_finish(p, sent, out);
        if (sent < 0)
            status = sent;
    }
    return status;
}

int perf_latency(struct perf_pair *p, size_t len, struct perf_figures *figures)
{
    int status = check_contents(p, len);

    if (status != VBN_OK)
        return status;
    return p->measures ? time_pings(p, len, figures) : answer_pings(p, len);
}

/* --- windows ------------------------------------------------------------------------------------
 */

static int time_windows(struct perf_pair *p, size_t len, unsigned window,
                        struct perf_figures *figures)
{
    struct perf_span span = perf_span_begin(p->opts);
    double before, now = perf_now_us(), first = 0, msgs = 0;
    bool last = false, told;
    int status = VBN_OK;

    while (status == VBN_OK && !last) {
        before = now;
        last = before >= span.end_us;
        status = perf_send_window(p, len, window, TAG_STREAM | (last ? PERF_LAST : 0), &told);
        now = perf_now_us();
        if (before < span.start_us)
            continue;
        first = msgs > 0 ? first : before;
        msgs += window;
    }
    if (status != VBN_OK)
        return status;
    figures->us = (now - first) / msgs;
    figures->msgs_s = 1e6 / figures->us;
    figures->mb_s = (double)len / figures->us;
    return VBN_OK;
}

static int answer_windows(struct perf_pair *p, size_t len, unsigned window)
{
    int status = perf_post_window(p, len, window, TAG_STREAM);
    bool last = false;

    while (status == VBN_OK && !last) {
        status = perf_finish_all(p, p->ops, window);
        if (status != VBN_OK)
            break;
        last = p->ops[0].tag & PERF_LAST;
        if (!last)
            status = perf_post_window(p, len, window, TAG_STREAM);
        if (status == VBN_OK)
            status = perf_tell(p, PERF_ANSWER);
    }
    return status;
}

int perf_stream(struct perf_pair *p, size_t len, unsigned window, struct perf_figures *figures)
{
    int status = check_contents(p, len);

    if (status != VBN_OK)
        return status;
    return p->measures ? time_windows(p, len, window, figures) : answer_windows(p, len, window);
}
