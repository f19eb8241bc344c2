/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring. All ways take turns, call by call, so that what disturbs the machine disturbs all; a
 * call's time is that of its slowest rank, after a barrier; a way's time is the median.
 */
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAYS_MAX   32u
#define ROUNDS_MIN 5.0
#define ROUNDS_MAX 1000.0

/* One operation of one size. */
struct bench {
    const struct vbn_job *job;
    const struct tune_options *opts;
    enum vbn_coll coll;
    size_t bytes;
    size_t *counts; /* one a rank, for operations that want them */
    void *in, *out;
    vbn_team_t *team; /* for barriers, and for the built-in choice */
    unsigned ways;
    struct tune_way way[WAYS_MAX];
    bool built_in[WAYS_MAX];
    vbn_team_t *way_team[WAYS_MAX];
    vbn_coll_req_t *req[WAYS_MAX];
    double *us; /* [way][round] */
};

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int said(const struct bench *b, int status, const char *text)
{
    if (status != VBN_OK)
        fprintf(stderr, "verbena-tune: rank %u: %s of %zu bytes: %s\n", b->job->rank,
                vbn_coll_name(b->coll), b->bytes, text && *text ? text : vbn_status_str(status));
    return status;
}

static int make_team(const struct bench *b, uint32_t id, const char *rules, vbn_team_t **team)
{
    struct vbn_team_options options;
    struct vbn_error err = {.text = ""};

    vbn_team_options_init(&options, sizeof(options));
    options.rules = rules;
    options.processors = b->opts->processors;
    return said(b,
                vbn_team_create(b->job->tr, b->job->port, b->job->peers, b->job->ranks,
                                b->job->rank, id, &options, team, &err),
                err.text);
}

static struct vbn_coll_args args_of(const struct bench *b)
{
    return (struct vbn_coll_args){.size = sizeof(struct vbn_coll_args),
                                  .coll = b->coll,
                                  .sendbuf = b->in,
                                  .recvbuf = b->out,
                                  .count = b->bytes / 8,
                                  .recvcounts = b->counts,
                                  .dtype = VBN_DOUBLE,
                                  .op = VBN_SUM};
}

static int make_request(const struct bench *b, vbn_team_t *team, vbn_coll_req_t **req)
{
    struct vbn_coll_args args = args_of(b);
    struct vbn_error err = {.text = ""};

    return said(b, vbn_coll_init(team, &args, req, &err), err.text);
}

/* What the library chooses by itself, for the mark. */
static int note_built_in(struct bench *b)
{
    vbn_coll_req_t *req;
    int status = make_request(b, b->team, &req);

    if (status != VBN_OK)
        return status;
    for (unsigned i = 0; i < b->ways; i++)
        b->built_in[i] = strcmp(vbn_coll_chosen(b->req[i]), vbn_coll_chosen(req)) == 0 &&
                         vbn_coll_chosen_param(b->req[i]) == vbn_coll_chosen_param(req);
    vbn_coll_free(req);
    return VBN_OK;
}

static int make_ways(struct bench *b)
{
    int status = make_team(b, 0, NULL, &b->team);

    for (unsigned i = 0; i < WAYS_MAX && status == VBN_OK; i++) {
        char name[64], rule[128];

        if (!tune_way_at(b->coll, b->job->ranks, b->bytes, i, &b->way[i]))
            break;
        tune_way_name(&b->way[i], name, sizeof(name));
        snprintf(rule, sizeof(rule), "%s=%s", vbn_coll_name(b->coll), name);
        status = make_team(b, i + 1, rule, &b->way_team[i]);
        if (status == VBN_OK)
            status = make_request(b, b->way_team[i], &b->req[i]);
        b->ways = i + 1;
    }
    return status == VBN_OK ? note_built_in(b) : status;
}

/* One call of each way; AT is where its times go. */
static int run_round(struct bench *b, size_t rounds, size_t at)
{
    for (unsigned i = 0; i < b->ways; i++) {
        int status = vbn_barrier(b->team);
        double start = now_us();

        if (status == VBN_OK)
            status = vbn_coll_start(b->req[i]);
        if (status == VBN_OK)
            status = vbn_coll_wait(b->req[i]);
        if (status != VBN_OK)
            return said(b, status, vbn_coll_error(b->req[i]));
        if (at < rounds)
            b->us[i * rounds + at] = now_us() - start;
    }
    return VBN_OK;
}

static int all_max(const struct bench *b, double *value, size_t count)
{
    return said(b, vbn_allreduce(b->team, VBN_IN_PLACE, value, count, VBN_DOUBLE, VBN_MAX),
                vbn_team_error(b->team));
}

/* How many rounds there is time for, the same on all ranks; after two that make connections. */
static int plan_rounds(struct bench *b, size_t *rounds)
{
    double us = 0;
    int status = run_round(b, 0, 0);

    if (status == VBN_OK) {
        us = now_us();
        status = run_round(b, 0, 0);
        us = now_us() - us;
    }
    if (status == VBN_OK)
        status = all_max(b, &us, 1);
    *rounds = (size_t)fmin(fmax(b->opts->seconds * 1e6 / (us + 1), ROUNDS_MIN), ROUNDS_MAX);
    return status;
}

static int add_point(const struct bench *b, unsigned i, double us, struct tune_points *points)
{
    if (points->count == points->room) {
        size_t room = points->room ? 2 * points->room : 64;
        struct tune_point *more = realloc(points->point, room * sizeof(*more));

        if (!more)
            return said(b, VBN_ERR_NO_MEMORY, NULL);
        points->point = more;
        points->room = room;
    }
    points->point[points->count++] = (struct tune_point){
        .way = b->way[i], .bytes = b->bytes, .built_in = b->built_in[i], .us = us};
    return VBN_OK;
}

static int run(struct bench *b, struct tune_points *points)
{
    size_t rounds = 0;
    int status = plan_rounds(b, &rounds);

    if (status != VBN_OK)
        return status;
    b->us = calloc(b->ways * rounds, sizeof(double));
    if (!b->us)
        return said(b, VBN_ERR_NO_MEMORY, NULL);
    for (size_t at = 0; at < rounds && status == VBN_OK; at++)
        status = run_round(b, rounds, at);
    if (status == VBN_OK)
        status = all_max(b, b->us, b->ways * rounds);
    for (unsigned i = 0; i < b->ways && status == VBN_OK; i++) {
        status = add_point(b, i, tune_median(b->us + i * rounds, rounds), points);
    }
    return status;
}

static int make_buffers(struct bench *b)
{
    uint32_t ranks = b->job->ranks;
    size_t len = (tune_has_blocks(b->coll) ? ranks : 1) * b->bytes + 8;

    b->in = calloc(1, len);
    b->out = calloc(1, len);
    b->counts = calloc(ranks, sizeof(size_t));
    for (uint32_t i = 0; i < ranks && b->counts; i++)
        b->counts[i] = b->bytes / 8;
    return said(b, b->in && b->out && b->counts ? VBN_OK : VBN_ERR_NO_MEMORY, NULL);
}

int tune_measure(const struct vbn_job *job, const struct tune_options *opts, enum vbn_coll coll,
                 size_t bytes, struct tune_points *points)
{
    struct bench b = {.job = job, .opts = opts, .coll = coll, .bytes = bytes};
    int status = make_buffers(&b);

    if (status == VBN_OK)
        status = make_ways(&b);
    if (status == VBN_OK)
        status = run(&b, points);
    if (status == VBN_OK)
        status = said(&b, vbn_barrier(b.team), vbn_team_error(b.team));
    for (unsigned i = 0; i < b.ways; i++) {
        vbn_coll_free(b.req[i]);
        if (b.way_team[i])
            vbn_team_destroy(b.way_team[i]);
    }
    if (b.team)
        vbn_team_destroy(b.team);
    free(b.us);
    if (status != VBN_OK)
        return status; /* what is under way may need the buffers */
    free(b.counts);
    free(b.in);
    free(b.out);
    return VBN_OK;
}
