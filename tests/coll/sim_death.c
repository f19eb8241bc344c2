/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_death.h"
#include "sim_job.h"
#include "verbena_coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/fabric.h"

enum { COUNT = 300, CALLS = 40, LIMIT_MS = 700000, TEAM = 5 };

struct member {
    vbn_team_t *team;
    vbn_coll_req_t *req;
    int32_t *in, *out;
    unsigned calls;
    bool over;
};

struct death {
    struct sim_job *job;
    struct member *members;
    struct death_outcome *outcome;
    uint32_t count, victim;
    uint64_t seed, start_ns, after_ns; /* virtual: when it died; how long it lived */
    bool cold, dead;
};

/* Calls that all ranks make in this order; where one has a root, it moves. */
static struct vbn_coll_args call_of(const struct death *d, const struct member *m)
{
    static const enum vbn_coll colls[] = {VBN_COLL_ALLREDUCE, VBN_COLL_BCAST,   VBN_COLL_BARRIER,
                                          VBN_COLL_ALLGATHER, VBN_COLL_REDUCE,  VBN_COLL_ALLTOALL,
                                          VBN_COLL_SCAN,      VBN_COLL_SCATTER, VBN_COLL_GATHER};
    uint64_t number = m->calls + d->seed;
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = colls[number % (sizeof(colls) / sizeof(colls[0]))],
                                 .root = (uint32_t)(number / 3 % d->count),
                                 .sendbuf = m->in,
                                 .recvbuf = m->out,
                                 .count = number % 2 ? COUNT : 1,
                                 .dtype = VBN_INT32,
                                 .op = VBN_SUM};

    if (m->calls == 0 && !d->cold)
        args.coll = VBN_COLL_ALLTOALL;
    return args;
}

/* rc; but what a dead process had registered is gone with its port, before its memory is freed. */
static struct vbn_transport tr;
static bool port_is_gone;

static void deregister(vbn_region_t *region)
{
    if (!port_is_gone)
        vbn_rc_transport()->mem_deregister(region);
}

static void member_begin(struct death *d, uint32_t i)
{
    struct member *m = &d->members[i];
    struct vbn_team_options opts;
    size_t bytes = sizeof(int32_t) * COUNT * d->count;
    struct vbn_error err;

    vbn_team_options_init(&opts, sizeof(opts));
    opts.stall_report_ms = 0;
    opts.rules = "alltoall=linear";
    m->in = calloc(1, bytes);
    m->out = calloc(1, bytes);
    tr = *vbn_rc_transport();
    tr.mem_deregister = deregister;
    if (vbn_team_create(&tr, d->job->ranks[i].port, d->job->ranks[i].peers, d->count, i, TEAM,
                        &opts, &m->team, &err) != VBN_OK)
        snprintf(d->outcome->wrong, sizeof(d->outcome->wrong), "no team: %s", err.text);
}

static void call_over(struct death *d, uint32_t i, int status)
{
    struct member *m = &d->members[i];

    m->req = NULL;
    d->outcome->ended++;
    if (status == VBN_OK && ++m->calls < CALLS)
        return;
    m->over = true;
    if (status == VBN_OK)
        return;
    d->outcome->failed++;
    if (!d->dead)
        snprintf(d->outcome->wrong, sizeof(d->outcome->wrong),
                 "rank %u: call %u failed with %s, %s", i, m->calls, vbn_status_str(status),
                 "and nobody was dead");
}

/* A rank calls the next, or looks at the one under way. */
static void member_turn(struct death *d, uint32_t i)
{
    struct member *m = &d->members[i];
    struct vbn_coll_args args;
    int status;

    if (m->over || d->job->ranks[i].dead)
        return;
    sim_job_enter(d->job, i);
    if (m->req) {
        status = vbn_coll_test(m->req);
        if (status != VBN_PENDING)
            call_over(d, i, status);
        return;
    }
    args = call_of(d, m);
    status = vbn_coll_istart(m->team, &args, &m->req, NULL);
    if (status != VBN_OK)
        call_over(d, i, status);
}

/* Lets go of what rank I had; of one that hangs the team is lost. */
static void member_end(struct death *d, uint32_t i)
{
    struct member *m = &d->members[i];

    sim_job_enter(d->job, i);
    if (m->team && !m->req && vbn_team_destroy(m->team) != VBN_OK)
        snprintf(d->outcome->wrong, sizeof(d->outcome->wrong),
                 "rank %u: something is left in the team", i);
    m->team = NULL;
}

/* A team goes before its port. */
static void member_leaves(struct death *d, uint32_t i)
{
    member_end(d, i);
    sim_job_leave(d->job, i);
}

/* The dead one's memory: a port that shuts takes no more, so that what it had under way fails. */
static void victim_end(struct death *d)
{
    struct member *m = &d->members[d->victim];

    sim_job_enter(d->job, d->victim);
    if (d->job->ranks[d->victim].port) {
        vbn_rc_transport()->shutdown(d->job->ranks[d->victim].port);
        if (m->req && vbn_coll_test(m->req) != VBN_PENDING)
            m->req = NULL;
        sim_job_leave(d->job, d->victim);
    }
    port_is_gone = true;
    if (m->req && vbn_coll_test(m->req) == VBN_PENDING)
        snprintf(d->outcome->wrong, sizeof(d->outcome->wrong),
                 "rank %u, dead: an operation outlives its port", d->victim);
    m->req = NULL;
    member_end(d, d->victim);
    port_is_gone = false;
}

static bool all_over(const struct death *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (!d->members[i].over && !d->job->ranks[i].dead)
            return false;
    return true;
}

/* The first call, of which everybody sends to everybody, is over. */
static bool all_connected(const struct death *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->members[i].calls == 0)
            return d->dead;
    return true;
}

static void turn(struct death *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        bool was_over = d->members[i].over;

        member_turn(d, i);
        if (d->members[i].over && !was_over && d->members[i].calls < CALLS)
            member_leaves(d, i);
    }
    sim_job_turn(d->job);
    if (!d->cold && !all_connected(d))
        d->start_ns = fabric_now_ns();
    else if (!d->dead && fabric_now_ns() >= d->start_ns + d->after_ns) {
        d->dead = true;
        sim_job_kill(d->job, d->victim);
        d->start_ns = fabric_now_ns();
    }
}

static void tell_who_hangs(struct death *d)
{
    char *wrong = d->outcome->wrong;
    size_t room = sizeof(d->outcome->wrong);
    int len = snprintf(wrong, room, "%u ranks, %u died, these hang:", d->count, d->victim);

    for (uint32_t i = 0; i < d->count && (size_t)len + 40 < room; i++)
        if (!d->members[i].over && !d->job->ranks[i].dead) {
            struct vbn_coll_args args = call_of(d, &d->members[i]);

            len += snprintf(wrong + len, room - (size_t)len, " %u (call %u, %s)", i,
                            d->members[i].calls, vbn_coll_name(args.coll));
        }
}

void death_run(uint64_t seed, bool cold, struct death_outcome *outcome)
{
    struct death d = {.outcome = outcome, .seed = seed, .cold = cold};
    uint64_t limit_ns = LIMIT_MS * UINT64_C(1000000);

    memset(outcome, 0, sizeof(*outcome));
    d.count = 2 + (uint32_t)(seed % 8);
    d.victim = (uint32_t)(seed / 8 % d.count);
    d.job = sim_job_open(d.count, seed, SIM_TIMING);
    if (!d.job) {
        snprintf(outcome->wrong, sizeof(outcome->wrong), "no job");
        return;
    }
    d.members = calloc(d.count, sizeof(*d.members));
    d.after_ns = 1 + fabric_random(3000000);
    for (uint32_t i = 0; i < d.count; i++)
        member_begin(&d, i);
    do
        turn(&d);
    while (!outcome->wrong[0] && !all_over(&d) && fabric_now_ns() - d.start_ns < limit_ns);
    outcome->took_ms = (fabric_now_ns() - d.start_ns) / 1000000;
    if (!all_over(&d) && !outcome->wrong[0])
        tell_who_hangs(&d);
    if (d.dead)
        victim_end(&d);
    for (uint32_t i = 0; i < d.count; i++)
        member_end(&d, i);
    if (sim_job_close(d.job) && !outcome->wrong[0])
        snprintf(outcome->wrong, sizeof(outcome->wrong), "the fabric found something");
    for (uint32_t i = 0; i < d.count; i++) {
        free(d.members[i].in);
        free(d.members[i].out);
    }
    free(d.members);
}
