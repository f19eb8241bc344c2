/* SPDX-License-Identifier: BSD-3-Clause */
/* What an algorithm is: a name, limits, a function that writes schedules, and its theory. */
#ifndef VBN_ALGORITHM_H
#define VBN_ALGORITHM_H

#include "schedule.h"
#include "verbena_coll.h"

/*
 * A call as algorithms see it. Blocks of different lengths have all four arrays' halves that the
 * operation needs, counts and displacements both; blocks of one length have none.
 */
struct vbn_call {
    enum vbn_coll coll;
    uint32_t rank, size;
    uint32_t root;   /* operations without one: where trees begin; other ranks take their turn */
    bool root_stays; /* of the call before; only where ranks share processors */
    bool in_place, commutative;
    bool group;   /* the team has one: ranks can cast */
    size_t elem;  /* bytes of an element */
    size_t count; /* elements, as in struct vbn_coll_args */
    size_t param; /* radix or segment in bytes, as the algorithm has it; 0: its default */
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* elements */
    const size_t *packed;     /* with recv_counts: their sums, p + 1 of them */
    double alpha_ns, beta_ns; /* what a message takes, and each byte of it more */
};

enum {
    VBN_ALGO_COMMUTATIVE = 1, /* changes the operands' order */
    VBN_ALGO_EVEN = 2,        /* needs an even number of ranks */
    VBN_ALGO_RADIX = 4,       /* `param` is a radix, 2 or more */
    VBN_ALGO_SEGMENT = 8,     /* `param` is a segment in bytes; 0: by the model */
    VBN_ALGO_TURNS = 16,      /* begins at the call's `root` although the operation has none */
    VBN_ALGO_AT_ONCE = 32,    /* its busiest rank sends without a wait: nobody holds it up */
    VBN_ALGO_GROUP = 64,      /* casts */
};

struct vbn_algorithm {
    enum vbn_coll coll;
    const char *name;
    unsigned limits;
    size_t param; /* the default of the call's `param` */
    void (*build)(struct vbn_sched *sched, const struct vbn_call *call);
    /*
     * Writes the cost for two ranks or more to *COST, which is zero. What stays zero of `depth`,
     * `all_messages` and `all_bytes` is as where all ranks do the same: `rounds`, and size times
     * `messages` and `bytes`. Reads size, elem, count, param and the model only.
     */
    void (*cost)(const struct vbn_call *call, struct vbn_coll_cost *cost);
};

/* All algorithms, NULL at the end: those of one operation together, the first without limits. */
extern const struct vbn_algorithm *const vbn_algorithms[];

/* The I-th algorithm for COLL; NULL beyond the last. */
const struct vbn_algorithm *vbn_algorithm_at(enum vbn_coll coll, unsigned i);

/* Whether ALGORITHM can do CALL. */
bool vbn_algorithm_fits(const struct vbn_algorithm *algorithm, const struct vbn_call *call);

/* What ALGORITHM costs for CALL; all 0 for one rank. */
struct vbn_coll_cost vbn_algorithm_cost(const struct vbn_algorithm *algorithm,
                                        const struct vbn_call *call);

/* The `param` of a call: PARAM, or the default for 0, brought to what makes sense for SIZE ranks.
 */
size_t vbn_algorithm_param(const struct vbn_algorithm *algorithm, uint32_t size, size_t param);

/* The model's defaults, see struct vbn_team_options: their proportions are those of soft-RoCE. */
#define VBN_LATENCY_NS 11000u
#define VBN_ALPHA_NS   10000u
#define VBN_BETA_PS    4000u
#define VBN_GAMMA_PS   160u
#define VBN_EAGER      32768u

/* Where block I starts in the buffer of sends or receives, and its length, in bytes. */
static inline size_t vbn_send_off(const struct vbn_call *call, uint32_t i)
{
    return (call->send_displs ? call->send_displs[i] : call->count * i) * call->elem;
}

static inline size_t vbn_send_len(const struct vbn_call *call, uint32_t i)
{
    return (call->send_counts ? call->send_counts[i] : call->count) * call->elem;
}

static inline size_t vbn_recv_off(const struct vbn_call *call, uint32_t i)
{
    return (call->recv_displs ? call->recv_displs[i] : call->count * i) * call->elem;
}

static inline size_t vbn_recv_len(const struct vbn_call *call, uint32_t i)
{
    return (call->recv_counts ? call->recv_counts[i] : call->count) * call->elem;
}

/* Where the own contribution is. */
static inline struct vbn_at vbn_input(const struct vbn_call *call)
{
    return vbn_at(call->in_place ? VBN_AT_RECV : VBN_AT_SEND, 0);
}

/* The rank at which all operands of CALL meet: rank 0 where their order matters. */
static inline uint32_t vbn_top(const struct vbn_call *call)
{
    return call->commutative ? call->root : 0;
}

/* That half of CALL, an allreduce by way of one rank (which changes from call to call), which is a
 * COLL. */
static inline struct vbn_call vbn_call_half(const struct vbn_call *call, enum vbn_coll coll)
{
    struct vbn_call half = *call;

    half.coll = coll;
    half.root = vbn_top(call);
    return half;
}

static inline bool vbn_is_early(size_t len)
{
    return len <= VBN_SCHED_SMALL;
}

#endif
