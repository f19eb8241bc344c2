/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, and what many times amount to. */
#include "perf.h"

#include <stdlib.h>
#include <time.h>

#define WARM_UP 0.1 /* of the time that counts */

static double clock_us(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

double perf_now_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

double perf_processor_us(void)
{
    return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

void perf_compute(double us)
{
    double end_us = perf_now_us() + us;

    while (perf_now_us() < end_us)
        ;
}

struct perf_span perf_span_begin(const struct perf_options *opts)
{
    double now = perf_now_us(), counts = opts->seconds * 1e6;

    return (struct perf_span){.start_us = now + counts * WARM_UP,
                              .end_us = now + counts * (1 + WARM_UP)};
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of single samples, as perftest's typical latency is: a mean would have the disturbances in it. */
void perf_summary(double *samples, size_t count, double *median, double *p99)
{
    qsort(samples, count, sizeof(*samples), by_value);
    *median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    *p99 = samples[(count * 99 + 99) / 100 - 1];
}
