/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's life. */
#include "bootstrap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long what was sent may take to arrive at the end, once all ranks are there; and how long who
 * has lost a peer waits for the others. */
#define DRAIN_MS 10000

static int check_oob(const struct vbn_oob *oob, struct vbn_error *err)
{
    if (!oob || oob->size < sizeof(*oob) || !oob->allgather || !oob->barrier || !oob->ranks ||
        oob->rank >= oob->ranks)
        return vbn_fail(err, VBN_ERR_INVALID,
                        "the out-of-band interface needs its size, a rank below ranks, allgather "
                        "and barrier");
    if (oob->ranks > 1u << 24)
        return vbn_fail(err, VBN_ERR_INVALID, "%u ranks are more than %u", oob->ranks, 1u << 24);
    return VBN_OK;
}

static void take_base(struct job *job, const struct vbn_port_config *base)
{
    size_t size = base && base->size < sizeof(job->base) ? base->size : sizeof(job->base);

    if (base)
        memcpy(&job->base, base, size);
}

static void free_job(struct job *job)
{
    if (job->shown.port)
        job->shown.tr->close(job->shown.port);
    if (job->owns_loader_and_oob) {
        vbn_loader_destroy(job->shown.loader);
        vbn_oob_destroy(&job->oob);
    }
    free(job->shown.peers);
    free(job);
}

static struct job *make(vbn_loader_t *loader, const struct vbn_oob *oob,
                        const struct vbn_port_config *base)
{
    struct job *job = calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    job->oob = *oob;
    job->shown.rank = oob->rank;
    job->shown.ranks = oob->ranks;
    job->shown.local_rank = oob->local_rank;
    job->shown.local_ranks = oob->local_ranks;
    job->shown.loader = loader;
    take_base(job, base);
    return job;
}

/* Help is the same on all ranks: a command line or nothing. */
static int wants_help(vbn_loader_t *loader)
{
    return vbn_loader_check(loader, NULL) == VBN_LOADER_HELP;
}

int vbn_job_create(vbn_loader_t *loader, const struct vbn_oob *oob,
                   const struct vbn_port_config *base, struct vbn_job **job, struct vbn_error *err)
{
    struct job *made;
    int status = check_oob(oob, err);

    if (status != VBN_OK)
        return status;
    if (wants_help(loader))
        return VBN_LOADER_HELP;
    made = make(loader, oob, base);
    if (!made)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for a job");
    status = agree_transport(made, err);
    if (status == VBN_OK)
        status = agree_peers(made, err);
    if (status == VBN_OK)
        status = agree_processors(made, err);
    if (status != VBN_OK) {
        free_job(made);
        return status;
    }
    *job = &made->shown;
    return VBN_OK;
}

/* --- start ------------------------------------------------------------------------------------ */

static int print_help(vbn_loader_t *loader, const struct vbn_oob *oob, struct vbn_error *err)
{
    int status = oob->rank == 0 ? vbn_loader_help(loader, stdout, err) : VBN_OK;

    fflush(stdout);
    return status == VBN_OK ? VBN_LOADER_HELP : status;
}

/* A rank whose parameters are bad must not leave the others waiting. */
static int create_loader(int *argc, char **argv, const struct vbn_oob *oob, vbn_loader_t **loader,
                         struct vbn_error *err)
{
    struct vbn_error why = {0};
    int status = agree_on(oob, vbn_loader_create(argc, argv, loader, &why), &why);

    if (status == VBN_OK)
        return VBN_OK;
    vbn_loader_destroy(*loader);
    return vbn_fail(err, status, "%s", why.text);
}

int vbn_job_start(int *argc, char **argv, struct vbn_job **job, struct vbn_error *err)
{
    vbn_loader_t *loader = NULL;
    struct vbn_oob oob;
    int status = vbn_oob_auto(&oob, err);

    if (status != VBN_OK)
        return status;
    status = create_loader(argc, argv, &oob, &loader, err);
    if (status != VBN_OK)
        goto destroy_oob;
    status = wants_help(loader) ? print_help(loader, &oob, err)
                                : vbn_job_create(loader, &oob, NULL, job, err);
    if (status != VBN_OK)
        goto destroy_loader;
    job_of(*job)->owns_loader_and_oob = true;
    return VBN_OK;

destroy_loader:
    vbn_loader_destroy(loader);
destroy_oob:
    vbn_oob_destroy(&oob);
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

static int progress_a_while(void *arg)
{
    struct job *job = arg;

    job->shown.tr->wait(job->shown.port, 1);
    return VBN_OK;
}

int vbn_job_barrier(struct vbn_job *job)
{
    struct job *inner = job_of(job);

    return inner->oob.barrier(inner->oob.arg, progress_a_while, inner);
}

int vbn_job_allgather(struct vbn_job *job, const void *mine, size_t len, void *all)
{
    return job_of(job)->oob.allgather(job_of(job)->oob.arg, mine, len, all);
}

static uint64_t now_ms(const struct job *job)
{
    struct timespec ts;

    if (job->base.clock_ns)
        return job->base.clock_ns(job->base.callback_arg) / 1000000;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void drain(struct job *job)
{
    uint64_t start = now_ms(job);

    while (job->shown.tr->shutdown(job->shown.port) && now_ms(job) - start < DRAIN_MS)
        job->shown.tr->wait(job->shown.port, 1);
}

/* A wait for the others that need not come. */
struct patience {
    struct job *job;
    bool limited;
    uint64_t until_ms; /* if limited */
};

static int progress_in_time(void *arg)
{
    struct patience *patience = arg;
    uint64_t now = now_ms(patience->job);

    progress_a_while(patience->job);
    if (patience->job->lost && !patience->limited)
        *patience = (struct patience){patience->job, true, now + DRAIN_MS};
    return patience->limited && now >= patience->until_ms ? VBN_ERR_TIMEOUT : VBN_OK;
}

static int meet(struct job *job, struct patience *patience)
{
    return job->oob.barrier(job->oob.arg, progress_in_time, patience);
}

/*
 * Nobody closes while another one may still send to him; and nobody leaves while another one may
 * still need him to make progress. Others may have lost a peer and this rank may not, or the other
 * way round: all meet in any case, and who has lost one gives up after a while. Then he does not
 * meet them again, who would take him for one who had come late to the first meeting. All who have
 * met once drain and meet again, within the time that this takes unless one dies.
 */
static void end_together(struct job *job)
{
    struct patience patience = {.job = job};
    int status = meet(job, &patience);

    drain(job);
    if (status != VBN_OK)
        return;
    patience = (struct patience){job, true, now_ms(job) + 2 * (uint64_t)DRAIN_MS};
    meet(job, &patience);
}

int vbn_job_destroy(struct vbn_job *job)
{
    int status;

    if (!job)
        return VBN_OK;
    end_together(job_of(job));
    status = job->tr->close(job->port);
    job->port = NULL;
    free_job(job_of(job));
    return status;
}
