/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbena-perf: measures any transport of the table between pairs of ranks.
 *
 *     mpirun -n 2 verbena-perf --mca transport rc
 */
#include "perf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int measure(struct perf_pair *p, enum perf_test test, size_t len,
                   struct perf_figures *figures)
{
    switch (test) {
    case PERF_LATENCY:
        return perf_latency(p, len, figures);
    case PERF_RATE:
        return perf_stream(p, len, PERF_RATE_WINDOW, figures);
    case PERF_BANDWIDTH:
        return perf_stream(p, len, p->opts->window, figures);
    case PERF_INCAST:
        return perf_incast(p, len, figures);
    case PERF_OVERLAP:
        return perf_overlap(p, len, figures);
    case PERF_IDLE:
        return perf_idle(p, figures);
    default:
        return perf_onesided(p, test, len, figures);
    }
}

static int run_test(struct perf_pair *p, struct perf_report *report, enum perf_test test)
{
    size_t len;
    int status = VBN_OK;

    for (bool go = perf_first_size(p->opts, test, &len); go && status == VBN_OK;
         go = perf_next_size(p->opts, test, &len)) {
        struct perf_figures figures = {0};

        p->err.text[0] = '\0';
        status = measure(p, test, len, &figures);
        if (status == VBN_OK)
            status = perf_report_line(report, test, len, &figures);
        if (status != VBN_OK)
            fprintf(stderr, "verbena-perf: rank %u: %s of %zu bytes with rank %u: %s\n",
                    p->job->rank, perf_test_names[test], len, p->partner,
                    p->err.text[0] ? p->err.text : vbn_status_str(status));
    }
    return status;
}

static int run(struct vbn_job *job, const struct perf_options *opts)
{
    struct perf_report *report = NULL;
    struct perf_pair pair;
    int status = perf_pair_init(&pair, job, opts);

    if (status != VBN_OK) {
        fprintf(stderr, "verbena-perf: rank %u: %s\n", job->rank,
                pair.err.text[0] ? pair.err.text : vbn_status_str(status));
        return status;
    }
    status = perf_report_open(job, opts, &report);
    if (status != VBN_OK)
        fprintf(stderr, "verbena-perf: %s: %s\n", opts->csv ? opts->csv : "report",
                strerror(errno));
    for (unsigned test = 0; test < PERF_TESTS && status == VBN_OK; test++)
        if (opts->tests & (1u << test))
            status = run_test(&pair, report, test);
    if (status != VBN_OK)
        return status; /* what is under way needs the memory */
    status = perf_report_close(report);
    if (status != VBN_OK)
        fprintf(stderr, "verbena-perf: %s: %s\n", opts->csv, strerror(errno));
    perf_pair_fini(&pair);
    return status;
}

/* What this job cannot do, or NULL. */
static const char *impossible(const struct vbn_job *job, const struct perf_options *opts)
{
    struct vbn_port_attr attr = {.size = sizeof(attr)};
    const unsigned onesided = 1u << PERF_PUT | 1u << PERF_GET;

    job->tr->attr(job->port, &attr);
    if (job->ranks % 2)
        return "takes an even number of ranks, which are measured in pairs: mpirun -n 2 …";
    if (opts->size_max > attr.max_send)
        return "--sizes: longer than a message of this transport may be";
    if ((opts->tests & onesided) && opts->size_max > attr.max_rma)
        return "--sizes: longer than a put or get of this transport may be";
    return NULL;
}

int main(int argc, char **argv)
{
    struct perf_options opts;
    struct vbn_job *job;
    struct vbn_error err;
    const char *why;
    int status;

    perf_options_read(argc, argv, &opts);
    status = vbn_job_start(&argc, argv, &job, &err);
    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "verbena-perf: %s\n", err.text);
        return 1;
    }
    why = impossible(job, &opts);
    if (why && job->rank == 0)
        fprintf(stderr, "verbena-perf: %s (this job has %u)\n", why, job->ranks);
    status = why ? VBN_ERR_INVALID : run(job, &opts);
    if (status != VBN_OK && !why)
        return 1; /* the partner may wait: it ends with the job */
    vbn_job_destroy(job);
    return status != VBN_OK;
}
