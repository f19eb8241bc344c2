/* SPDX-License-Identifier: BSD-3-Clause */
/* What was measured: gathered from all ranks, printed by rank 0 as a table and as CSV. */
#include "perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct perf_report {
    struct vbn_job *job;
    FILE *csv; /* rank 0, where it was asked for */
    struct perf_figures *all;
};

static void print_head(const struct vbn_job *job, const struct perf_options *opts)
{
    struct vbn_port_attr attr = {.size = sizeof(attr)};

    job->tr->attr(job->port, &attr);
    printf("transport %s, device %s, %u ranks, %s memory, window %u, %s, %g s a figure\n",
           job->tr->name, attr.device, job->ranks, opts->registered ? "registered" : "unregistered",
           opts->window, opts->wait ? "waiting" : "polling", opts->seconds);
    printf("%-10s %9s %11s %11s %11s %12s %7s\n", "test", "bytes", "us", "us p99", "MB/s", "msgs/s",
           "%");
    fflush(stdout);
}

int perf_report_open(struct vbn_job *job, const struct perf_options *opts,
                     struct perf_report **report)
{
    struct perf_report *r = calloc(1, sizeof(*r));

    *report = r;
    if (!r)
        return VBN_ERR_NO_MEMORY;
    r->job = job;
    r->all = calloc(job->ranks, sizeof(*r->all));
    if (!r->all)
        return VBN_ERR_NO_MEMORY;
    if (job->rank == 0 && opts->csv) {
        r->csv = fopen(opts->csv, "w");
        if (!r->csv)
            return VBN_ERR_INVALID;
        fprintf(r->csv, "transport,test,bytes,us,us_p99,mb_s,msgs_s,percent\n");
    }
    if (job->rank == 0)
        print_head(job, opts);
    return VBN_OK;
}

/* Of all pairs: the mean time, the worst percentile, and all that went through together. */
static struct perf_figures sum_up(const struct perf_report *r, enum perf_test test)
{
    uint32_t pairs = test == PERF_INCAST ? 1 : r->job->ranks / 2;
    struct perf_figures sum = {0};

    for (uint32_t i = 0; i < pairs; i++) {
        sum.us += r->all[i].us / pairs;
        sum.us_p99 = r->all[i].us_p99 > sum.us_p99 ? r->all[i].us_p99 : sum.us_p99;
        sum.mb_s += r->all[i].mb_s;
        sum.msgs_s += r->all[i].msgs_s;
        sum.percent += r->all[i].percent / pairs;
    }
    return sum;
}

static void print_cell(int width, int digits, double value)
{
    if (value > 0)
        printf(" %*.*f", width, digits, value);
    else
        printf(" %*s", width, "-");
}

static void csv_cell(FILE *csv, double value, char after)
{
    if (value > 0)
        fprintf(csv, "%.3f", value);
    fputc(after, csv);
}

static void print_line(struct perf_report *r, enum perf_test test, size_t len,
                       const struct perf_figures *f)
{
    printf("%-10s %9zu", perf_test_names[test], len);
    print_cell(11, 2, f->us);
    print_cell(11, 2, f->us_p99);
    print_cell(11, 2, f->mb_s);
    print_cell(12, 0, f->msgs_s);
    if (PERF_IN_PERCENT & 1u << test)
        printf(" %7.2f", f->percent);
    printf("\n");
    fflush(stdout);
    if (!r->csv)
        return;
    fprintf(r->csv, "%s,%s,%zu,", r->job->tr->name, perf_test_names[test], len);
    csv_cell(r->csv, f->us, ',');
    csv_cell(r->csv, f->us_p99, ',');
    csv_cell(r->csv, f->mb_s, ',');
    csv_cell(r->csv, f->msgs_s, ',');
    if (PERF_IN_PERCENT & 1u << test)
        fprintf(r->csv, "%.3f", f->percent);
    fputc('\n', r->csv);
}

int perf_report_line(struct perf_report *r, enum perf_test test, size_t len,
                     const struct perf_figures *figures)
{
    struct perf_figures sum;
    int status;

    /* Others may still need this rank's progress, which gathering does not make. */
    status = vbn_job_barrier(r->job);
    if (status == VBN_OK)
        status = vbn_job_allgather(r->job, figures, sizeof(*figures), r->all);
    if (status == VBN_OK && r->job->rank == 0) {
        sum = sum_up(r, test);
        print_line(r, test, len, &sum);
    }
    return status;
}

int perf_report_close(struct perf_report *r)
{
    int status = VBN_OK;

    if (!r)
        return VBN_OK;
    if (r->csv) {
        bool bad = ferror(r->csv);

        if (fclose(r->csv) != 0 || bad)
            status = VBN_ERR_INVALID;
    }
    free(r->all);
    free(r);
    return status;
}
