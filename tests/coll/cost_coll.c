/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective costs, to be counted in instructions by callgrind (tools/cost): so many calls
 * of 8 bytes on four ranks that share a processor, over rc on the simulated fabric. All work is
 * inside measured().
 *
 *     cost_coll barrier | bcast | allreduce   TIMES
 *
 * Or what it costs to add vectors of 1024 floats, so many times.
 *
 *     cost_coll sum   TIMES
 */
#include "sim_job.h"

#include "verbena_coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 4u

static struct sim_job *job;
static vbn_team_t *teams[RANKS];
static double in[RANKS], out[RANKS];

static int start(struct vbn_coll_args args, uint32_t rank, vbn_coll_req_t **req)
{
    struct vbn_error err;

    args.sendbuf = args.coll == VBN_COLL_ALLREDUCE ? &in[rank] : NULL;
    args.recvbuf = &out[rank];
    sim_job_enter(job, rank);
    return vbn_coll_istart(teams[rank], &args, req, &err);
}

/* One call on all ranks; false where one fails. */
static bool call(const struct vbn_coll_args *args)
{
    vbn_coll_req_t *reqs[RANKS] = {NULL};
    uint32_t pending = RANKS;

    for (uint32_t r = 0; r < RANKS; r++)
        if (start(*args, r, &reqs[r]) != VBN_OK)
            return false;
    while (pending) {
        sim_job_turn(job);
        for (uint32_t r = 0; r < RANKS; r++) {
            int status = VBN_PENDING;

            sim_job_enter(job, r);
            if (reqs[r])
                status = vbn_coll_test(reqs[r]);
            if (status < 0)
                return false;
            if (status == VBN_OK) {
                reqs[r] = NULL;
                pending--;
            }
        }
    }
    return true;
}

static bool add(void)
{
    static float x[1024], y[1024];

    return vbn_reduce_local(x, y, 1024, VBN_FLOAT, VBN_SUM) == VBN_OK;
}

static bool __attribute__((noinline)) measured(struct vbn_coll_args *args, int times)
{
    for (int i = 0; i < times; i++) {
        args->root = args->coll == VBN_COLL_BCAST ? (uint32_t)i % RANKS : 0;
        if (args->coll == VBN_COLL_COUNT ? !add() : !call(args))
            return false;
    }
    return true;
}

static bool make_teams(void)
{
    struct vbn_team_options options;
    struct vbn_error err;

    vbn_team_options_init(&options, sizeof(options));
    options.processors = 1;
    for (uint32_t r = 0; r < RANKS; r++) {
        sim_job_enter(job, r);
        if (vbn_team_create(vbn_rc_transport(), job->ranks[r].port, job->ranks[r].peers, RANKS, r,
                            1, &options, &teams[r], &err) != VBN_OK)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct vbn_coll_args args = {
        .size = sizeof(args), .count = 1, .dtype = VBN_DOUBLE, .op = VBN_SUM};
    bool good;

    if (argc == 3 && strcmp(argv[1], "sum") == 0) {
        args.coll = VBN_COLL_COUNT;
        return measured(&args, atoi(argv[2])) ? 0 : 1;
    }
    if (argc != 3 || vbn_coll_find(argv[1], &args.coll) != VBN_OK) {
        fprintf(stderr, "cost_coll OPERATION TIMES\n");
        return 2;
    }
    job = sim_job_open(RANKS, 1, SIM_CALM);
    good = job && make_teams() && measured(&args, atoi(argv[2]));
    for (uint32_t r = 0; good && r < RANKS; r++) {
        sim_job_enter(job, r);
        vbn_team_destroy(teams[r]);
    }
    return job && sim_job_close(job) == 0 && good ? 0 : 1;
}
