/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A team, and its requests.
 *
 * Ownership. A team owns its requests: those under way and persistent ones in `alive`, oldest
 * first, and a few that are at rest in `spare`, with their schedule and memory, for the next call
 * like theirs. A request owns its schedule, the operations that carry its messages, and scratch.
 */
#ifndef VBN_TEAM_H
#define VBN_TEAM_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "algorithm.h"
#include "scratch.h"

#define VBN_SPARE_MAX      16u
#define VBN_SEQ_COUNT      0x8000u /* numbers of calls, for each kind of request */
#define VBN_SEQ_PERSISTENT 0x8000u /* added to the numbers of persistent ones */

/* Raised with each change of what is chosen for a call, or of the messages that an algorithm sends:
 * ranks of different builds know by it (vbn_team_accord()). test_team tells when it is due. */
#define VBN_CHOICES 4u

struct vbn_rule {
    const struct vbn_algorithm *algorithm;
    size_t param;
    uint64_t bytes_from, bytes_to, ranks_from, ranks_to; /* inclusive */
};

/* A message under way. */
struct vbn_flight {
    struct vbn_op op;
    bool posted;      /* the transport has had it, or may have it still */
    atomic_bool over; /* set in progress(), maybe on another thread */
};

enum vbn_req_kind { VBN_REQ_ONCE, VBN_REQ_PERSISTENT, VBN_REQ_KINDS };

/*
 * What a request does next. A round goes RECVS → SENDS → WAIT; after the last, LATE waits for late
 * sends. ENDING waits for what the transport still has after a failure. What goes on comes after
 * ENDING, what waits from WAIT on.
 */
enum vbn_req_phase {
    VBN_PHASE_REST,
    VBN_PHASE_ENDING,
    VBN_PHASE_RECVS,
    VBN_PHASE_SENDS,
    VBN_PHASE_WAIT,
    VBN_PHASE_LATE,
};

struct vbn_coll_req {
    TAILQ_ENTRY(vbn_coll_req) entry;
    vbn_team_t *team;
    enum vbn_req_kind kind;
    enum vbn_req_phase phase;
    bool released; /* the caller has freed it while it was under way */
    bool failed;   /* goes on to the end, then ends with `status` */
    bool stall_told;
    int status;
    uint16_t seq;
    uint64_t tag; /* of its messages, without the step's */

    /* the call */
    struct vbn_coll_args args; /* as the caller gave them; whether there was a user's operation */
    struct vbn_call call;
    vbn_reduce_fn reduce;
    void *reduce_arg;
    uint64_t op_kind; /* or VBN_OP_USER */
    const struct vbn_algorithm *algorithm;
    uint64_t signed_count; /* for the check mode */
    bool uniform;          /* without arrays: a call like it can have the same schedule */
    uint8_t *base[VBN_PLACES];

    struct vbn_sched sched;
    struct vbn_flight *flights;
    size_t flight_count, flight_room;
    size_t *packed; /* sums of counts, for the call */
    size_t packed_room;
    struct vbn_scratch *scratch; /* or NULL */

    const struct vbn_step *round, *at; /* the round's first step; the next to look at */
    const struct vbn_step *steps_end;
    const struct vbn_step *early_at; /* early receives: the next to look at, how many are to be
                                      * posted */
    uint32_t early_left;
    uint32_t tests; /* that found it not over */
    uint64_t moved_ns, sleep_at_ns;
    struct vbn_error error;
};

TAILQ_HEAD(vbn_req_list, vbn_coll_req);

/* Undecided before ON. */
enum vbn_group_state {
    VBN_GROUP_NONE,  /* nobody has opened one */
    VBN_GROUP_TRIED, /* this rank has opened it, or could not */
    VBN_GROUP_ON,    /* all ranks use it */
    VBN_GROUP_OFF,   /* nobody will */
};

struct vbn_team_group {
    enum vbn_group_state state;
    int32_t vote;                 /* this rank's, then what came of all */
    uint32_t vote_at, votes;      /* number of the call before which is the next; how many were */
    const vbn_coll_req_t *ballot; /* the vote that is under way */
    vbn_group_t *group;           /* or NULL */
    uint64_t key;
};

struct vbn_team {
    const struct vbn_transport *tr;
    vbn_port_t *port;
    vbn_peer_t **peers;
    uint32_t size, rank, id;
    struct vbn_team_options opts;
    struct vbn_rule *rules;
    size_t rule_count;
    size_t max_message;
    uint16_t next_seq[VBN_REQ_KINDS];
    uint32_t last_root;  /* of the last call that named one, the same on all ranks */
    size_t last_longest; /* message of the last call that has ended, bytes */
    struct vbn_req_list alive[VBN_REQ_KINDS], spare;
    unsigned spare_count;
    struct vbn_scratch_list scratch; /* at rest, the last used first */
    size_t scratch_bytes;
    struct vbn_team_group group;
    struct vbn_error error; /* of the last blocking operation that failed */
};

/* How many of SIZE ranks can be busy at a time; PROCESSORS 0: all. */
static inline uint32_t vbn_at_once(uint32_t processors, uint32_t size)
{
    return processors && processors < size ? processors : size;
}

static inline uint32_t vbn_team_at_once(const vbn_team_t *team)
{
    return vbn_at_once(team->opts.processors, team->size);
}

static inline bool vbn_group_undecided(const vbn_team_t *team)
{
    return team->group.state < VBN_GROUP_ON;
}

static inline bool vbn_group_is_on(const vbn_team_t *team)
{
    return team->group.state == VBN_GROUP_ON;
}

void vbn_team_log(const vbn_team_t *team, enum vbn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));
uint64_t vbn_team_clock_ns(const vbn_team_t *team);

/* group.c: TEAM has no group yet; its key is made of SEED. */
void vbn_group_init(vbn_team_t *team, uint64_t seed);
void vbn_group_fini(vbn_team_t *team);
/* The vote of TEAM's is over, with STATUS. */
void vbn_group_decide(vbn_team_t *team, int status);

/* request.c: frees everything of REQ; whether a call with ARGS can be, with its errors. */
void vbn_req_destroy(vbn_coll_req_t *req);
int vbn_req_check(vbn_team_t *team, const struct vbn_coll_args *args, struct vbn_error *err);

/*
 * call.c: checks ARGS and fills what REQ knows of the call but the algorithm; ROOT also where
 * the operation has none. Errors as vbn_coll_init().
 */
int vbn_call_take(vbn_coll_req_t *req, const struct vbn_coll_args *args, uint32_t root,
                  struct vbn_error *err);

/* Whether calls of COLL name a root. */
bool vbn_call_has_root(enum vbn_coll coll);

/* The bytes by which rules choose, the same on all ranks. */
uint64_t vbn_call_bytes(const struct vbn_call *call);

/* select.c: the algorithm for REQ's call, with its param. */
void vbn_select(vbn_coll_req_t *req);

/* rules.c: adds the rules in TEXT, which comes from WHERE, to TEAM's. */
int vbn_rules_parse(vbn_team_t *team, const char *text, const char *where, struct vbn_error *err);
int vbn_rules_load(vbn_team_t *team, const char *path, struct vbn_error *err);

/* engine.c: makes new flights of REQ ready; starts its schedule; carries it on; true when it is
 * over. */
void vbn_engine_flights_init(vbn_coll_req_t *req);
void vbn_engine_start(vbn_coll_req_t *req);
bool vbn_engine_advance(vbn_coll_req_t *req);
/* The longest message that REQ waits for now, in bytes; 0 while its own are under way, too. */
size_t vbn_engine_awaited(const vbn_coll_req_t *req);
void vbn_engine_stall_report(vbn_coll_req_t *req);

#endif
