/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks find each other. An out-of-band interface (struct vbn_oob) carries the addresses once;
 * a job opens the transport on all ranks and knows all peers:
 *
 *     struct vbn_job *job;
 *     int status = vbn_job_start(&argc, argv, &job, &err);
 *     if (status != VBN_OK) … err.text …
 *     job->tr->send(job->peers[1], "hello", 6, 1, &op); … job->tr->wait(job->port, -1);
 *     vbn_job_destroy(job);
 *
 * A job is used by one thread at a time; what it opened follows the transport table's own rules.
 */
#ifndef VERBENA_BOOTSTRAP_H
#define VERBENA_BOOTSTRAP_H

#include "verbena_loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The out-of-band interface. All ranks make the same calls in the same order, and each call returns
 * on all of them or fails. Functions return VBN_OK or a negative status; they may block. A caller
 * fills it itself, or takes one of the makers below.
 */
struct vbn_oob {
    size_t size;                      /* sizeof(struct vbn_oob) */
    uint32_t rank, ranks;             /* this one, below 2^24, and how many */
    uint32_t local_rank, local_ranks; /* the same among those of this node; 0 of 0: not known */
    uint64_t job_key; /* the same on all ranks of the job, another in every other job */
    void *arg;        /* the first argument of each function */

    /* Gathers LEN bytes, the same on all ranks, from each: ALL gets RANKS * LEN, in their order. */
    int (*allgather)(void *arg, const void *mine, size_t len, void *all);

    /* Waits for all ranks. Calls IDLE(IDLE_ARG) again and again meanwhile, at least every few
     * milliseconds: others may need this rank's transport to make progress. Where that does not
     * return VBN_OK, waits no longer and returns the same: to the others this rank was there all
     * the same, and it calls nothing but destroy any more. */
    int (*barrier)(void *arg, int (*idle)(void *idle_arg), void *idle_arg);

    /* Frees ARG. NULL: nothing to free. Not a collective call. */
    void (*destroy)(void *arg);
};

/* Rank 0 of 1, for a program that was started by hand. Never fails. */
int vbn_oob_single(struct vbn_oob *oob, struct vbn_error *err);

/*
 * Of a process that was launched by a PMIx runtime: mpirun, prterun, srun --mpi=pmix. Initialises
 * PMIx, which counts, so that MPI may do so as well. VBN_ERR_UNREACHABLE: no runtime answers, or
 * Verbena was built without PMIx; *ERR (may be NULL) says which. Blocks.
 */
int vbn_oob_pmix(struct vbn_oob *oob, struct vbn_error *err);

/* PMIx where a PMIx runtime launched this process, otherwise single. Errors as theirs. */
int vbn_oob_auto(struct vbn_oob *oob, struct vbn_error *err);

/* Frees what OOB holds; nothing, if its maker failed. */
void vbn_oob_destroy(struct vbn_oob *oob);

/* All ranks with an open transport. Made by the functions below only; to be read, not written. */
struct vbn_job {
    uint32_t rank, ranks, local_rank, local_ranks;
    const struct vbn_transport *tr;
    vbn_port_t *port;
    vbn_peer_t *
        *peers; /* by rank; NULL for this rank itself; their user is the rank as uintptr_t */
    vbn_loader_t *loader; /* for the values of other parameters */
    uint32_t processors;  /* how many ranks can run at a time, for vbn_team_options; 0: not known */
};

/*
 * Makes a job, on all ranks together: they agree on one transport, the first in the order of rank 0
 * that all can open; exchange addresses; and know each other as peers. Connections are made on
 * demand. BASE may be NULL; its rank and job_key are OOB's, its callbacks are called as the table
 * says (callback_arg goes to them). OOB is copied; what its `arg` points to stays the caller's and
 * must outlive the job, and so must LOADER.
 *
 * Where one rank fails all do. *ERR (may be NULL) names the ranks and their reasons; rank 0 says by
 * BASE->log (NULL: stderr) which transport was taken if it was not the first. VBN_LOADER_HELP: the
 * user asked for help, see vbn_loader_help(). Otherwise the errors of the loader, of the transports
 * and of OOB. Blocks for the other ranks.
 */
int vbn_job_create(vbn_loader_t *loader, const struct vbn_oob *oob,
                   const struct vbn_port_config *base, struct vbn_job **job, struct vbn_error *err);

/*
 * All of it: takes `--mca NAME VALUE` out of the command line, finds the other ranks by
 * vbn_oob_auto(), and makes the job, which owns the loader and the interface. Where the user asked
 * for help, rank 0 prints it to stdout, and VBN_LOADER_HELP is returned: the program then ends with
 * success. Otherwise as vbn_job_create().
 */
int vbn_job_start(int *argc, char **argv, struct vbn_job **job, struct vbn_error *err);

/*
 * Ends a job, on all ranks together and in order: waits for all ranks, making progress; lets what
 * was sent arrive; waits for all again; closes the port. What is not over then ends with
 * VBN_ERR_CLOSED. Once this rank has lost a peer it waits for the others 10 s, no longer, for they
 * may never come. JOB may be NULL. Returns VBN_OK, or VBN_ERR_TIMEOUT when something had to be
 * dropped. Blocks for the other ranks.
 */
int vbn_job_destroy(struct vbn_job *job);

/* Waits for all ranks out of band, making progress. Slow: for set-up and tear-down. */
int vbn_job_barrier(struct vbn_job *job);

/* Gathers LEN bytes, the same on all ranks, from each, out of band, as vbn_oob's allgather. */
int vbn_job_allgather(struct vbn_job *job, const void *mine, size_t len, void *all);

#ifdef __cplusplus
}
#endif

#endif
