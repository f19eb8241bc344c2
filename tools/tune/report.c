/* SPDX-License-Identifier: BSD-3-Clause */
/* What is printed, and the rules. */
#include "tune.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much faster another way must be before a rule sets the built-in choice aside. */
#define MARGIN 0.95

static bool same_group(const struct tune_point *a, const struct tune_point *b)
{
    return a->way.coll == b->way.coll && a->bytes == b->bytes;
}

/* One past the last of the group that begins at FIRST: one operation and size, all ways. */
static size_t group_end(const struct tune_points *points, size_t first)
{
    size_t end = first;

    while (end < points->count && same_group(&points->point[end], &points->point[first]))
        end++;
    return end;
}

static size_t fastest(const struct tune_points *points, size_t first, size_t end)
{
    size_t best = first;

    for (size_t i = first; i < end; i++)
        if (points->point[i].us < points->point[best].us)
            best = i;
    return best;
}

/* The median of how far predictions are off, in per cent. */
static double median_error(const struct tune_points *points, const struct tune_model *model,
                           uint32_t ranks, uint32_t processors)
{
    double *error = malloc((points->count + 1) * sizeof(double)), median = NAN;

    for (size_t i = 0; i < points->count && error; i++) {
        const struct tune_point *p = &points->point[i];

        error[i] =
            fabs(tune_predict(model, &p->way, p->bytes, ranks, processors) / p->us - 1) * 100;
    }
    if (error && points->count)
        median = tune_median(error, points->count);
    free(error);
    return median;
}

void tune_report(const struct tune_points *points, const struct tune_model *model, uint32_t ranks,
                 uint32_t processors)
{
    printf("%u ranks, of which %u run at a time; µs, medians\n\n", ranks,
           processors && processors < ranks ? processors : ranks);
    printf("%-22s %8s  %-24s %10s %10s %6s\n", "operation", "bytes", "algorithm", "measured",
           "predicted", "ratio");
    for (size_t first = 0, end; first < points->count; first = end) {
        size_t best;

        end = group_end(points, first);
        best = fastest(points, first, end);
        for (size_t i = first; i < end; i++) {
            const struct tune_point *p = &points->point[i];
            double predicted = tune_predict(model, &p->way, p->bytes, ranks, processors);
            char name[64];

            tune_way_name(&p->way, name, sizeof(name));
            printf("%-22s %8zu  %-24s %10.1f %10.1f %6.2f%s%s\n", vbn_coll_name(p->way.coll),
                   p->bytes, name, p->us, predicted, predicted / p->us, i == best ? " fastest" : "",
                   p->built_in ? " built-in" : "");
        }
    }
    printf("\nmodel: %.0f ns of latency, %.0f ns a message, %.3f ns a byte, %.3f ns a byte reduced "
           "or copied;\npredictions are off by %.0f %% (median of %zu)\n",
           model->latency_ns, model->message_ns, model->byte_ns, model->reduce_ns,
           median_error(points, model, ranks, processors), points->count);
}

void tune_report_predicted(const struct tune_options *opts)
{
    const struct tune_model *m = &opts->model;

    printf("%u ranks; %g ns of latency, %g ns a message, %g ns a byte, %g ns a byte reduced or "
           "copied\n\n%-22s %8s  %-24s %14s %12s %14s\n",
           opts->predict, m->latency_ns, m->message_ns, m->byte_ns, m->reduce_ns, "operation",
           "bytes", "fastest", "predicted, µs", "rounds", "messages, all");
    for (int coll = 0; coll < VBN_COLL_COUNT; coll++)
        for (unsigned s = 0; s < opts->size_count; s++) {
            size_t bytes = coll == VBN_COLL_BARRIER ? 0 : opts->sizes[s];
            struct vbn_coll_cost cost;
            struct tune_way way, best;
            double us, least = 0;
            char name[64];

            if (!(opts->colls & (1u << coll)) || (coll == VBN_COLL_BARRIER && s))
                continue;
            for (unsigned i = 0; tune_way_at((enum vbn_coll)coll, opts->predict, bytes, i, &way);
                 i++) {
                us = tune_predict(m, &way, bytes, opts->predict, opts->processors);
                if (!i || us < least) { /* the first also where it is beyond what can be counted */
                    least = us;
                    best = way;
                }
            }
            tune_way_name(&best, name, sizeof(name));
            vbn_coll_predict(best.coll, best.algorithm, opts->predict, bytes / 8, 8, best.param,
                             &cost);
            printf("%-22s %8zu  %-24s %14.1f %12.0f %14.0f\n", vbn_coll_name(best.coll), bytes,
                   name, least, cost.rounds, cost.all_messages);
        }
}

/* --- rules ------------------------------------------------------------------------------------ */

/* The built-in choice where nothing is clearly faster. */
static const struct tune_point *choice(const struct tune_points *points, size_t first, size_t end)
{
    const struct tune_point *best = &points->point[fastest(points, first, end)];

    for (size_t i = first; i < end; i++)
        if (points->point[i].built_in && best->us > MARGIN * points->point[i].us)
            return &points->point[i];
    return best;
}

/* Bytes as rules count them. */
static uint64_t rule_bytes(const struct tune_point *p, uint32_t ranks)
{
    return p->bytes * (uint64_t)(tune_has_blocks(p->way.coll) ? ranks : 1);
}

/* A choice holds from halfway (on a scale of factors) to the size below up to that above. */
static uint64_t border(const struct tune_point *below, const struct tune_point *above,
                       uint32_t ranks)
{
    return (uint64_t)sqrt((double)rule_bytes(below, ranks) * (double)rule_bytes(above, ranks));
}

static bool same_way(const struct tune_way *a, const struct tune_way *b)
{
    return a->coll == b->coll && a->algorithm == b->algorithm && a->param == b->param;
}

static void write_rule(FILE *out, const struct tune_point *p, uint64_t from, uint64_t to,
                       uint32_t ranks)
{
    char name[64];

    tune_way_name(&p->way, name, sizeof(name));
    fprintf(out, "%s=%s:%llu-", vbn_coll_name(p->way.coll), name, (unsigned long long)from);
    if (to != UINT64_MAX)
        fprintf(out, "%llu", (unsigned long long)to);
    fprintf(out, "@%u-%u\n", ranks, ranks);
}

int tune_write_rules(const struct tune_points *points, uint32_t ranks, const char *path)
{
    const struct tune_point *now = NULL;
    FILE *out = fopen(path, "w");
    uint64_t from = 0;

    if (!out)
        goto failed;
    fprintf(out, "# Measured by verbena-tune with %u ranks.\n", ranks);
    for (size_t first = 0, end; first < points->count; first = end) {
        const struct tune_point *next;

        end = group_end(points, first);
        next = choice(points, first, end);
        if (now && same_way(&now->way, &next->way))
            continue;
        if (now && now->way.coll == next->way.coll) {
            const struct tune_point *below = &points->point[first - 1];
            uint64_t at = border(below, next, ranks);

            write_rule(out, now, from, at, ranks);
            from = at + 1;
        } else {
            if (now)
                write_rule(out, now, from, UINT64_MAX, ranks);
            from = 0;
        }
        now = next;
    }
    if (now)
        write_rule(out, now, from, UINT64_MAX, ranks);
    if (!ferror(out) && fclose(out) == 0)
        return VBN_OK;
failed:
    fprintf(stderr, "verbena-tune: %s: %s\n", path, strerror(errno));
    return VBN_ERR_INVALID;
}
