/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives' suite, over any transport: every operation by every algorithm, on many numbers
 * of ranks, sizes, types, operations and roots, in place and not; what every rank ends with is
 * compared, byte by byte, with what it should, and so is memory around the buffers.
 */
#ifndef COLL_SUITE_H
#define COLL_SUITE_H

#include "verbena_coll.h"

/* Where the suite runs: all ranks of a job in this process, or one. */
struct coll_world {
    uint32_t size;         /* ranks of the job */
    uint32_t first, count; /* those that are here */
    bool blocking;         /* one is here: use the blocking calls */
    bool watched;          /* who hangs is stopped from outside, by time */
    bool groups;           /* the transport has groups */
    void *arg;
    /* Makes the team ID of the job's first SIZE ranks, for RANK, which is here and one of them. */
    int (*team_create)(void *arg, uint32_t rank, uint32_t size, uint32_t id,
                       const struct vbn_team_options *opts, vbn_team_t **team);
    void (*progress)(void *arg); /* of all ports that are here */
    /* The calls that follow are RANK's. NULL: nobody needs to know. */
    void (*enter)(void *arg, uint32_t rank);
};

struct coll_filter {
    bool full;             /* the whole matrix rather than a part of it */
    bool brief;            /* less than that part: few sizes, one root */
    const char *coll;      /* NULL: all operations */
    const uint32_t *sizes; /* NULL: those of the matrix; 0 at the end */
    bool chosen;           /* algorithms are not named, only what is chosen without is run */
    size_t most;           /* elements; 0: any number */
};

struct coll_outcome {
    uint64_t cases, failed;
    char first[512]; /* what failed first */
};

/* Runs it; every process of the job with the same filter. */
void coll_suite(const struct coll_world *world, const struct coll_filter *filter,
                struct coll_outcome *outcome);

#endif
