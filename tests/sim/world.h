/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world for a workload: the fabric, and ranks with one transport context each, all options
 * drawn from the seed; turns in which ranks make progress and time passes; and the end, with its
 * checks. What goes wrong is told by world_fail(), which keeps the first reason.
 */
#ifndef VBN_TESTS_SIM_WORLD_H
#define VBN_TESTS_SIM_WORLD_H

#include "fabric.h"
#include "verbena.h"

enum { WORLD_RANKS_MAX = 1024 };

/* What one run is made of. */
struct world_plan {
    uint64_t seed;
    int ranks;    /* 0: drawn, 2 to 16 */
    bool faults;  /* a configuration drawn by fabric_config_random(); else only timing varies */
    bool kills;   /* ranks may be killed or stop */
    bool hostile; /* a node garbles what it sends, if the workload knows how to take it */
    bool verbose;
    bool defaults; /* the transport's own options and an ordinary device, not drawn ones */
    bool no_srq;   /* with defaults: a device without shared receive queues */
    enum fabric_transport transport;
};

struct world_rank {
    int number, rank, node;
    bool has_srq; /* its node's device has shared receive queues */
    vbn_context_t *ctx;
    struct vbn_options options;
    unsigned char address[VBN_ADDRESS_MAX];
    size_t address_len;
    bool is_dead;
    bool sleeps;     /* asks to be woken, now and then */
    bool close_late; /* vbn_close() had to drop something */
    uint64_t stopped_until_ns;
    uint64_t shut_at_ns; /* closes then, at the end */
    void *user;          /* the workload's */
    uint64_t eager_limit;
};

struct world {
    struct world_plan plan;
    int count;
    struct world_rank *ranks;
    uint64_t quantum_ns, base_quantum_ns;
    uint32_t slowness_ppm;               /* a rank's chance to sleep through a turn */
    bool recovers;                       /* lost connections are made again */
    bool reopens;                        /* ranks close and open again while others run */
    bool calls_fail;                     /* verbs and others may fail */
    uint64_t lost, recoveries, replayed; /* connections lost, made again; requests sent again */
    uint64_t ringed, bare, ridden; /* messages written into rings, without head, told by puts */
    bool failed;
    char reason[256];
    /* The workload's error callback: RANK's endpoint EP ended. */
    void (*endpoint_error)(struct world_rank *rank, vbn_endpoint_t *ep, int status);
};

/* In some worlds one rank keeps nothing that it has not asked for, and asks for nothing before its
 * own sends are over: what others owe it comes behind what they have sent. */
bool world_is_patient(const struct world *world, const struct world_rank *rank);

/* Neither faults nor deaths nor a hostile node: everything must succeed. */
bool world_is_sound(const struct world *world);

/* Whatever becomes of connections, they are made again: no endpoint may lose its peer. */
bool world_loses_nobody(const struct world *world);

struct world_rank *world_rank_of(void *callback_arg);

/* False, with nothing left to free, if a context could not be opened. */
bool world_open(struct world *world, const struct world_plan *plan);
/* Opens the rank's context again after world_rank_close(), with a new address. */
bool world_rank_open(struct world *world, struct world_rank *rank);
/* vbn_close(), bounded or world_fail(). */
void world_rank_close(struct world *world, struct world_rank *rank);
/* One turn: each rank, in random order, makes some progress (and calls WORK first, if given),
 * then time passes. Returns whether anything happened. */
bool world_turn(struct world *world, void (*work)(struct world *, struct world_rank *));
/* Closes all contexts, in random order and at random times, and the fabric. Returns violations. */
int world_close(struct world *world);
void world_kill(struct world *world, struct world_rank *rank);
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All faults off, links up, nobody stopped: what is possible must now come to its end. */
void world_calm(struct world *world);
/* What a workload does, for world_run(). */
struct world_load {
    void (*work)(struct world *world, struct world_rank *rank); /* before a rank's progress */
    /* NULL if nothing of RANK, which lives, is open any more; else what is, and in PEER the rank
     * towards which, or -1. */
    const char *(*unsettled)(const struct world *world, const struct world_rank *rank, int *peer);
    void (*calmed)(struct world *world); /* NULL, or called when the calm has begun */
};
/* Turns until all ranks have settled: for a time drawn at random under the plan's faults, at the
 * end of which a rank may be killed, then in a calm, in which they must settle in bounded time. */
void world_run(struct world *world, const struct world_load *load);
/* The node of a rank drawn at random, which garbles from now on what it sends; -1 where the plan
 * has no hostile node. */
int world_hostile_node(const struct world *world);
/* Between these no call fails at random: for what a workload needs in order to begin. That it
 * fails in good order is the failure loop's subject (test_failing_calls.c). */
void world_failures_pause(void);
void world_failures_resume(void);
/* Endpoint of RANK to PEER. NULL and world_fail() when it is refused. */
vbn_endpoint_t *world_endpoint(struct world *world, struct world_rank *rank,
                               struct world_rank *peer, void *user);

/* Reproducible bytes for checks: LEN bytes that depend on KEY. */
void world_pattern_fill(void *data, size_t len, uint64_t key);
bool world_pattern_check(const void *data, size_t len, uint64_t key);

#endif
