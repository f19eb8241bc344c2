/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on the simulated fabric: ports of rc, all in this process, that know each other. What the
 * network and the ranks do to each other is of one of some manners; a seed decides the rest, the
 * ports' parameters too.
 */
#ifndef COLL_SIM_JOB_H
#define COLL_SIM_JOB_H

#include "verbena_transport.h"

enum sim_manner {
    SIM_CALM,   /* fixed times, the transport's own parameters */
    SIM_TIMING, /* times vary, ranks sleep through turns; parameters and devices are drawn */
    SIM_FAULTS, /* and what connections survive: lost packets, receivers not ready, lost and
                   repeated messages of the connection manager */
    SIM_CROWD,  /* as calm, with parameters for hundreds of ranks */
};

struct sim_rank {
    struct sim_job *job;
    vbn_port_t *port;
    vbn_peer_t **peers;
    int number; /* of the fabric */
    bool dead;
};

struct sim_job {
    uint32_t count;
    enum sim_manner manner;
    struct sim_rank *ranks;
    uint64_t quantum_ns, base_quantum_ns;
    uint32_t slowness_ppm; /* a rank's chance to sleep through a turn */
    unsigned lost;         /* peers that ports have given up */
    unsigned dropped;      /* ports whose close() could not end in good order */
    bool died;             /* somebody did */
    bool blocking;         /* inside close(): looking at the clock makes time pass */
};

/* NULL, with a line on stderr, where a port could not be opened. One job at a time. */
struct sim_job *sim_job_open(uint32_t count, uint64_t seed, enum sim_manner manner);

/* The calls that follow are RANK's. */
void sim_job_enter(struct sim_job *job, uint32_t rank);

/* A turn: every rank makes progress, then time passes. */
void sim_job_turn(struct sim_job *job);

/* RANK's process dies. */
void sim_job_kill(struct sim_job *job, uint32_t rank);

/* RANK's port is closed early, as by a process that ends. */
void sim_job_leave(struct sim_job *job, uint32_t rank);

/* Closes everything. Returns how many rules were broken and how much was left; told on stderr. */
int sim_job_close(struct sim_job *job);

#endif
