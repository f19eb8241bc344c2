/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model, and its fit. A time is a sum of four costs, of which each way has its amount: so the
 * numbers come from least squares, with relative errors. None may be negative: of all subsets of
 * the four the best one is taken that gives none (there are 15).
 */
#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS = 4 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double tune_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

/* How much WAY has of latency, messages, bytes and bytes reduced, as the library's choice counts.
 */
static void amounts(const struct tune_way *way, size_t bytes, uint32_t ranks, uint32_t processors,
                    double amount[TERMS])
{
    struct vbn_coll_cost cost = {0};
    struct vbn_coll_terms terms;

    vbn_coll_predict(way->coll, way->algorithm, ranks, bytes / 8, 8, way->param, &cost);
    terms = vbn_coll_terms_of(&cost, ranks, processors, tune_eager());
    amount[0] = terms.latencies;
    amount[1] = terms.messages;
    amount[2] = terms.bytes;
    amount[3] = terms.touched;
}

double tune_predict(const struct tune_model *model, const struct tune_way *way, size_t bytes,
                    uint32_t ranks, uint32_t processors)
{
    double amount[TERMS];

    amounts(way, bytes, ranks, processors, amount);
    return (amount[0] * model->latency_ns + amount[1] * model->message_ns +
            amount[2] * model->byte_ns + amount[3] * model->reduce_ns) /
           1e3;
}

/* Solves the N equations SQUARE x = RIGHT by elimination; false where they are not independent. */
static bool solve(unsigned n, double square[TERMS][TERMS], double right[TERMS], double x[TERMS])
{
    for (unsigned i = 0; i < n; i++) {
        unsigned best = i;

        for (unsigned r = i + 1; r < n; r++)
            if (fabs(square[r][i]) > fabs(square[best][i]))
                best = r;
        if (fabs(square[best][i]) < 1e-12)
            return false;
        for (unsigned c = 0; c < n; c++) {
            double swap = square[i][c];

            square[i][c] = square[best][c];
            square[best][c] = swap;
        }
        x[i] = right[best];
        right[best] = right[i];
        right[i] = x[i];
        for (unsigned r = i + 1; r < n; r++) {
            double factor = square[r][i] / square[i][i];

            for (unsigned c = i; c < n; c++)
                square[r][c] -= factor * square[i][c];
            right[r] -= factor * right[i];
        }
    }
    for (unsigned i = n; i-- > 0;) {
        x[i] = right[i];
        for (unsigned c = i + 1; c < n; c++)
            x[i] -= square[i][c] * x[c];
        x[i] /= square[i][i];
    }
    return true;
}

/* The terms of SUBSET, all others 0. NAN: there is no such solution without a negative term. */
static double fit_subset(unsigned subset, double square[TERMS][TERMS], const double right[TERMS],
                         double count, double x[TERMS])
{
    double part[TERMS][TERMS], r[TERMS], found[TERMS], error = count;
    unsigned n = 0, term[TERMS];

    for (unsigned i = 0; i < TERMS; i++)
        if (subset & (1u << i))
            term[n++] = i;
    for (unsigned i = 0; i < n; i++) {
        r[i] = right[term[i]];
        for (unsigned c = 0; c < n; c++)
            part[i][c] = square[term[i]][term[c]];
    }
    if (!solve(n, part, r, found))
        return NAN;
    memset(x, 0, TERMS * sizeof(*x));
    for (unsigned i = 0; i < n; i++) {
        if (found[i] < 0)
            return NAN;
        x[term[i]] = found[i];
        error -= found[i] * right[term[i]]; /* what least squares leave of Σ 1² */
    }
    return error;
}

struct tune_model tune_fit(const struct tune_points *points, uint32_t ranks, uint32_t processors)
{
    /* Each column by its own length: a message and a byte differ by orders of magnitude. */
    double square[TERMS][TERMS] = {{0}}, right[TERMS] = {0}, scale[TERMS] = {0}, best = NAN;
    double x[TERMS], model[TERMS] = {0};

    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < points->count; i++) {
            const struct tune_point *p = &points->point[i];
            double a[TERMS];

            amounts(&p->way, p->bytes, ranks, processors, a);
            for (unsigned t = 0; t < TERMS; t++) {
                a[t] /= p->us * 1e3;
                if (pass == 0)
                    scale[t] = fmax(scale[t], a[t]);
                else
                    a[t] /= scale[t] > 0 ? scale[t] : 1;
            }
            for (unsigned t = 0; t < TERMS && pass == 1; t++) {
                right[t] += a[t];
                for (unsigned c = 0; c < TERMS; c++)
                    square[t][c] += a[t] * a[c];
            }
        }
    for (unsigned subset = 1; subset < 1u << TERMS; subset++) {
        double error = fit_subset(subset, square, right, (double)points->count, x);

        if (isnan(error) || (!isnan(best) && error >= best))
            continue;
        best = error;
        for (unsigned t = 0; t < TERMS; t++)
            model[t] = scale[t] > 0 ? x[t] / scale[t] : 0;
    }
    return (struct tune_model){model[0], model[1], model[2], model[3]};
}
