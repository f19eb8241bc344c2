/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbena-tune: measures the collectives' algorithms over any transport.
 *
 *     mpirun -n 8 verbena-tune --mca transport rc --output rules.conf
 */
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>

static int measure_all(const struct vbn_job *job, const struct tune_options *opts,
                       struct tune_points *points)
{
    int status = VBN_OK;

    for (int coll = 0; coll < VBN_COLL_COUNT && status == VBN_OK; coll++) {
        if (!(opts->colls & (1u << coll)))
            continue;
        if (coll == VBN_COLL_BARRIER) {
            status = tune_measure(job, opts, VBN_COLL_BARRIER, 0, points);
            continue;
        }
        for (unsigned s = 0; s < opts->size_count && status == VBN_OK; s++)
            status = tune_measure(job, opts, (enum vbn_coll)coll, opts->sizes[s], points);
    }
    return status;
}

static int run(const struct vbn_job *job, struct tune_options *opts)
{
    struct tune_points points = {0};
    struct tune_model model;
    int status;

    if (job->ranks < 2) {
        fprintf(stderr, "verbena-tune: one rank has nobody to talk to; start more, as in `mpirun "
                        "-n 4 verbena-tune`, or ask for --predict\n");
        return VBN_ERR_INVALID;
    }
    if (!opts->processors)
        opts->processors = job->processors;
    status = measure_all(job, opts, &points);
    if (status == VBN_OK && job->rank == 0) {
        model = tune_fit(&points, job->ranks, opts->processors);
        tune_report(&points, &model, job->ranks, opts->processors);
        if (opts->output)
            status = tune_write_rules(&points, job->ranks, opts->output);
    }
    free(points.point);
    return status;
}

/* Options are judged before any rank waits for another: all have the same. */
int main(int argc, char **argv)
{
    struct tune_options opts;
    struct vbn_job *job = NULL;
    vbn_loader_t *loader = NULL;
    struct vbn_error err = {.text = ""};
    struct vbn_oob oob;
    int status = vbn_loader_create(&argc, argv, &loader, &err);

    if (status == VBN_OK) {
        tune_parse(argc, argv, &opts);
        if (opts.predict) {
            tune_report_predicted(&opts);
            vbn_loader_destroy(loader);
            return 0;
        }
        status = vbn_oob_auto(&oob, &err);
    }
    if (status != VBN_OK)
        goto failed;
    status = vbn_job_create(loader, &oob, NULL, &job, &err);
    if (status == VBN_LOADER_HELP)
        status = oob.rank == 0 ? vbn_loader_help(loader, stdout, &err) : VBN_OK;
    else if (status == VBN_OK && run(job, &opts) != VBN_OK)
        return 1; /* others may wait for this rank: they end with the job */
    vbn_job_destroy(job);
    vbn_oob_destroy(&oob);
failed:
    if (*err.text)
        fprintf(stderr, "verbena-tune: %s\n", err.text);
    vbn_loader_destroy(loader);
    return status == VBN_OK ? 0 : 1;
}
