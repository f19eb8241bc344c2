/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a square plate whose upper edge is hot: Jacobi's iteration until nothing changes much.
 * The plate's rows are shared out; neighbours exchange their border rows by tagged messages, and an
 * allreduce tells all ranks how much has changed.
 *
 *     mpirun -n 4 ./heat2d [CELLS_A_SIDE]
 */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <verbena_bootstrap.h>
#include <verbena_coll.h>

#define SIDE_MOST  65536ul
#define HOT        100.0
#define TOLERANCE  1e-4
#define STEPS_MAX  100000
#define LOOK_EVERY 10 /* steps between two looks at the change */

enum { TAG_UP = 1, TAG_DOWN = 2 };

struct plate {
    struct vbn_job *job;
    vbn_team_t *team;
    size_t side, rows;  /* of all; of this rank, between two rows of the neighbours' */
    double *now, *next; /* (rows + 2) × side */
};

static double *row(const struct plate *p, double *cells, size_t i)
{
    return cells + i * p->side;
}

/* Starts to exchange row MINE for row THEIRS of the neighbour; there may be none. */
static int begin(struct plate *p, uint32_t neighbour, size_t mine, size_t theirs, uint64_t out,
                 uint64_t in, struct vbn_op ops[2])
{
    const struct vbn_transport *tr = p->job->tr;
    size_t bytes = p->side * sizeof(double);
    vbn_peer_t *peer;
    int status;

    ops[0] = ops[1] = (struct vbn_op){.status = VBN_OK};
    if (neighbour >= p->job->ranks) /* also below rank 0 */
        return VBN_OK;
    peer = p->job->peers[neighbour];
    status = tr->recv(p->job->port, peer, row(p, p->now, theirs), bytes, in, VBN_TAG_MAX, &ops[0]);
    if (status == VBN_OK || status == VBN_PENDING)
        status = tr->send(peer, row(p, p->now, mine), bytes, out, &ops[1]);
    return status == VBN_PENDING ? VBN_OK : status;
}

static int exchange(struct plate *p)
{
    struct vbn_op ops[4];
    int status = begin(p, p->job->rank - 1, 1, 0, TAG_UP, TAG_DOWN, ops);

    if (status == VBN_OK)
        status = begin(p, p->job->rank + 1, p->rows, p->rows + 1, TAG_DOWN, TAG_UP, ops + 2);
    for (int i = 0; i < 4 && status == VBN_OK; i++) {
        while (ops[i].status == VBN_PENDING)
            p->job->tr->wait(p->job->port, -1);
        status = ops[i].status;
    }
    return status;
}

/* Each cell becomes the mean of its neighbours; the edges stay. Returns the largest change. */
static double step(struct plate *p)
{
    double change = 0, *swap;

    for (size_t i = 1; i <= p->rows; i++) {
        const double *up = row(p, p->now, i - 1), *down = row(p, p->now, i + 1);
        const double *here = row(p, p->now, i);
        double *next = row(p, p->next, i);

        for (size_t k = 1; k + 1 < p->side; k++) {
            next[k] = (up[k] + down[k] + here[k - 1] + here[k + 1]) / 4;
            change = fmax(change, fabs(next[k] - here[k]));
        }
    }
    swap = p->now;
    p->now = p->next;
    p->next = swap;
    return change;
}

static int solve(struct plate *p)
{
    double change = 1, largest = 1, heat = 0, sum = 0;
    int status = VBN_OK, steps = 0;

    for (; status == VBN_OK && largest > TOLERANCE && steps < STEPS_MAX; steps++) {
        status = exchange(p);
        if (status != VBN_OK)
            break;
        change = step(p);
        if (steps % LOOK_EVERY == 0)
            status = vbn_allreduce(p->team, &change, &largest, 1, VBN_DOUBLE, VBN_MAX);
    }
    for (size_t i = p->side; i < (p->rows + 1) * p->side; i++)
        heat += p->now[i];
    if (status == VBN_OK)
        status = vbn_allreduce(p->team, &heat, &sum, 1, VBN_DOUBLE, VBN_SUM);
    if (status == VBN_OK && p->job->rank == 0)
        printf("%u ranks over %s: %d steps, mean temperature %.6f\n", p->job->ranks,
               p->job->tr->name, steps, sum / (double)(p->side * p->side));
    return status;
}

static int run(struct plate *p)
{
    size_t ranks = p->job->ranks, rank = p->job->rank, cells;
    int status = VBN_ERR_NO_MEMORY;

    p->rows = p->side / ranks + (rank < p->side % ranks ? 1 : 0);
    cells = (p->rows + 2) * p->side;
    p->now = calloc(cells, sizeof(double));
    p->next = calloc(cells, sizeof(double));
    if (p->now && p->next) {
        for (size_t k = 0; rank == 0 && k < p->side; k++)
            p->now[k] = p->next[k] = HOT;
        status = solve(p);
    }
    free(p->now);
    free(p->next);
    return status;
}

/* False where TEXT is not a whole number, or one that cannot be. */
static bool read_side(const char *text, struct plate *p)
{
    char *end;

    p->side = strtoul(text, &end, 0);
    return isdigit((unsigned char)*text) && !*end && p->side <= SIDE_MOST;
}

int main(int argc, char **argv)
{
    struct plate p = {.side = 64};
    struct vbn_team_options opts;
    struct vbn_error err;
    int status = vbn_job_start(&argc, argv, &p.job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "heat2d: %s\n", err.text);
        return 1;
    }
    if ((argc > 1 && !read_side(argv[1], &p)) || p.side < p.job->ranks) {
        fprintf(stderr,
                "heat2d: %s: expected cells a side, one for each rank at least, up to %lu\n",
                argc > 1 ? argv[1] : "64", SIDE_MOST);
        vbn_job_destroy(p.job);
        return 1;
    }
    vbn_team_options_init(&opts, sizeof(opts));
    opts.processors = p.job->processors;
    status = vbn_team_create(p.job->tr, p.job->port, p.job->peers, p.job->ranks, p.job->rank, 0,
                             &opts, &p.team, &err);
    if (status == VBN_OK)
        status = run(&p);
    if (status != VBN_OK) { /* what may still be under way ends with the process */
        fprintf(stderr, "heat2d: %s\n", vbn_status_str(status));
        return 1;
    }
    vbn_team_destroy(p.team);
    vbn_job_destroy(p.job);
    return 0;
}
