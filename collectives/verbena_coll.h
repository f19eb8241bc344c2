/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbena's collectives: barrier, bcast, reduce and the rest, over any transport table
 * (verbena_transport.h).
 *
 *     vbn_team_create → vbn_bcast / vbn_allreduce / …                       blocking
 *                     → vbn_coll_istart → vbn_coll_test or vbn_coll_wait    nonblocking
 *                     → vbn_coll_init → vbn_coll_start → vbn_coll_wait … → vbn_coll_free
 *     → vbn_team_destroy
 *
 * A team is an ordered set of ranks. All its ranks call the same collectives in the same order
 * (persistent ones: vbn_coll_init() in the same order, vbn_coll_start() in any), with matching
 * arguments; the meanings are MPI's. What blocks on one rank blocks on all (vbn_team_vote()). Any
 * number may be under way at once, on one team and on many.
 *
 * Threads. A team and its requests are used by one thread at a time. Teams of one port may be used
 * by different threads where the port was opened with `multithreaded`.
 *
 * Blocking. Only vbn_coll_wait() and the blocking operations block; they call the port's progress()
 * or wait(), and so run callbacks of everything on that port.
 *
 * Errors. VBN_ERR_INVALID: an argument, before anything was sent; *err (may be NULL) says which.
 * VBN_ERR_NO_MEMORY. VBN_ERR_MISMATCH: the ranks' arguments differ: a message was not as long as
 * expected, or (team option `check`) the calls differ. Otherwise what the transport gave: a lost
 * peer ends the operation on the ranks that needed it, and only there.
 */
#ifndef VERBENA_COLL_H
#define VERBENA_COLL_H

#include "verbena_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vbn_team vbn_team_t;         /* an ordered set of ranks */
typedef struct vbn_coll_req vbn_coll_req_t; /* one collective operation */

/* --- types and operations ------------------------------------------------------------------- */

enum vbn_dtype {
    VBN_BYTES, /* opaque: for movement, and for user-defined operations; see `elem_size` */
    VBN_INT8,
    VBN_INT16,
    VBN_INT32,
    VBN_INT64,
    VBN_UINT8,
    VBN_UINT16,
    VBN_UINT32,
    VBN_UINT64,
    VBN_FLOAT,
    VBN_DOUBLE,
    VBN_LONG_DOUBLE,
    VBN_FLOAT_COMPLEX,
    VBN_DOUBLE_COMPLEX,
    VBN_BOOL,
    VBN_FLOAT_INT, /* these: struct { first value; int index; } as C lays it out */
    VBN_DOUBLE_INT,
    VBN_LONG_INT,
    VBN_INT_INT,
    VBN_SHORT_INT,
    VBN_LONG_DOUBLE_INT,
    VBN_DTYPE_COUNT
};

enum vbn_op_kind {
    VBN_SUM, /* numbers */
    VBN_PROD,
    VBN_MIN, /* integers and reals */
    VBN_MAX,
    VBN_LAND, /* integers and bool */
    VBN_LOR,
    VBN_LXOR,
    VBN_BAND, /* integers */
    VBN_BOR,
    VBN_BXOR,
    VBN_MINLOC, /* pairs; the lower index where values are equal */
    VBN_MAXLOC,
    VBN_OP_KIND_COUNT
};

/*
 * INOUT[i] = IN[i] ∘ INOUT[i] for COUNT elements. IN comes from lower ranks than INOUT. It is
 * called on the team's thread, and calls nothing here.
 */
typedef void (*vbn_reduce_fn)(const void *in, void *inout, size_t count, void *arg);

/* A user-defined operation. Associative; where not `commutative` operands stay in rank order. */
struct vbn_user_op {
    vbn_reduce_fn fn;
    void *arg;
    bool commutative;
};

/* Bytes of an element of DTYPE; 0 for no such type; 1 for VBN_BYTES. Any thread. */
size_t vbn_dtype_size(enum vbn_dtype dtype);

/* Whether the built-in operation KIND is there for DTYPE. Any thread. */
bool vbn_op_valid(enum vbn_op_kind kind, enum vbn_dtype dtype);

/* INOUT[i] = IN[i] ∘ INOUT[i]: 0, or VBN_ERR_INVALID where vbn_op_valid() says no. Any thread. */
int vbn_reduce_local(const void *in, void *inout, size_t count, enum vbn_dtype dtype,
                     enum vbn_op_kind kind);

/* --- teams ---------------------------------------------------------------------------------- */

#define VBN_TEAM_ID_MAX 4095u
#define VBN_TEAM_MAX    (1u << 24) /* ranks */

struct vbn_team_options {
    size_t size; /* sizeof(struct vbn_team_options) of the caller, set by _init() */

    /*
     * Rules that go before the built-in choice, the first that fits is taken. Separated by blanks,
     * commas or semicolons:
     *     OPERATION=ALGORITHM[/PARAM][:FROM-TO][@RANKS-RANKS]
     * PARAM is the algorithm's radix, or its segment in bytes. FROM-TO are bytes, inclusive: of the
     * whole vector, for all ranks' blocks together where there is a block a rank (for alltoallv,
     * gatherv and scatterv, where ranks know different things, 0). Numbers may end in k, m or g;
     * either end of a range may be missing. Where an algorithm named cannot do a call (an operation
     * that does not commute, an odd number of ranks, no group) the rule does not fit.
     *     allreduce=ring:1m-  bcast=two_tree/64k:64k-@4-
     */
    const char *rules;
    const char *rules_file; /* a file of such rules, taken after `rules`; # begins a comment */

    bool check; /* compare the calls of all ranks before each; the same on all ranks */
    bool sleep; /* vbn_coll_wait() may sleep in the port's wait() */
    uint64_t stall_report_ms; /* ms without a step after which what is waited for, or tested
                               * again and again, is logged; 0: never */

    /* The model behind the built-in choice; the same on all ranks. */
    uint64_t latency_ns; /* ns before who waits for a message has it */
    uint64_t alpha_ns;   /* ns that a rank is busy with a message */
    uint64_t beta_ps;    /* ps that it is busy with each byte of it more */
    uint64_t gamma_ps;   /* ps that it is busy with a byte that it reduces or copies */
    uint32_t processors; /* how many ranks can be busy at a time; 0: all */

    void *callback_arg;
    vbn_log_fn log;        /* NULL: errors and warnings go to stderr */
    vbn_clock_fn clock_ns; /* NULL: CLOCK_MONOTONIC */

    /* Also of the model: longer messages wait for their receiver, who is asked, and answers. */
    uint64_t eager_bytes;

    /* Where the transport has groups, teams of 3 ranks and more use one, once all ranks have heard
     * all others in it; see vbn_team_vote(). False by default: for networks that multicast by
     * themselves, soft-RoCE is slower by it. The same on all ranks. */
    bool group;
};

/* Fills *OPTS with defaults. SIZE is sizeof(*OPTS). Never fails. Any thread. */
void vbn_team_options_init(struct vbn_team_options *opts, size_t size);

/*
 * Creates a team of SIZE ranks, of which the caller is RANK. A local call: nothing is sent. TR and
 * PORT must outlive the team; PEERS[i] is rank i's peer (the own entry is ignored; the array is
 * copied). ID, at most VBN_TEAM_ID_MAX, is the same on all its ranks, and different from that of
 * every other team with which it shares two ranks or more. OPTS may be NULL. Tags of that port
 * whose upper 12 bits are ID belong to the team. The caller destroys the team.
 * VBN_ERR_INVALID, VBN_ERR_NO_MEMORY.
 */
int vbn_team_create(const struct vbn_transport *tr, vbn_port_t *port, vbn_peer_t *const *peers,
                    uint32_t size, uint32_t rank, uint32_t id, const struct vbn_team_options *opts,
                    vbn_team_t **team, struct vbn_error *err);

/*
 * What the ranks of a team with OPTS (NULL: the defaults) have to agree about before, in *NUMBER:
 * the library's own choice of algorithms, the rules, `check`, `group`, and the model but for
 * `processors`. Ranks with different numbers may choose different algorithms for one call, which
 * ends with VBN_ERR_MISMATCH at best: whoever exchanges addresses compares this, too. Not secret,
 * not 0. Any thread. VBN_ERR_INVALID, VBN_ERR_NO_MEMORY: as vbn_team_create() about OPTS.
 */
int vbn_team_accord(const struct vbn_team_options *opts, uint64_t *number, struct vbn_error *err);

/*
 * Creates the team of RANKS[COUNT], different ranks of PARENT that include the caller's; RANKS[i]
 * becomes rank i. A local call, with PARENT's options. PARENT may be destroyed before. Otherwise as
 * vbn_team_create().
 */
int vbn_team_split(vbn_team_t *parent, const uint32_t *ranks, uint32_t count, uint32_t id,
                   vbn_team_t **team, struct vbn_error *err);

/*
 * Frees TEAM. VBN_ERR_AGAIN, and nothing freed, while an operation is under way, one of
 * vbn_coll_istart() is over but was not asked for its end, or a persistent request has not been
 * freed.
 */
int vbn_team_destroy(vbn_team_t *team);

/*
 * For callers whose blocking calls are vbn_coll_istart() and vbn_coll_test(), as vbn_coll() does it
 * itself: before each of them, on all ranks. Opens the team's group when there have been some
 * calls, and has the ranks vote whether all are ready to use it, now and then until that is
 * decided. *REQ: NULL, mostly, or a request, as of vbn_coll_istart(); the caller waits for its end
 * before the call, and fails as it does. Without votes a team has no group. Errors as
 * vbn_coll_istart().
 */
int vbn_team_vote(vbn_team_t *team, vbn_coll_req_t **req, struct vbn_error *err);

uint32_t vbn_team_rank(const vbn_team_t *team);
uint32_t vbn_team_size(const vbn_team_t *team);

/* --- operations ----------------------------------------------------------------------------- */

enum vbn_coll {
    VBN_COLL_BARRIER,
    VBN_COLL_BCAST,
    VBN_COLL_REDUCE,
    VBN_COLL_ALLREDUCE,
    VBN_COLL_REDUCE_SCATTER,
    VBN_COLL_REDUCE_SCATTER_BLOCK,
    VBN_COLL_ALLGATHER,
    VBN_COLL_ALLGATHERV,
    VBN_COLL_GATHER,
    VBN_COLL_GATHERV,
    VBN_COLL_SCATTER,
    VBN_COLL_SCATTERV,
    VBN_COLL_ALLTOALL,
    VBN_COLL_ALLTOALLV,
    VBN_COLL_SCAN,
    VBN_COLL_EXSCAN,
    VBN_COLL_COUNT
};

/*
 * In the place of `sendbuf` (scatter, scatterv: of the root's `recvbuf`): the data are where they
 * are to go, as MPI_IN_PLACE. For gather and reduce at the root only.
 */
#define VBN_IN_PLACE ((void *)(intptr_t)-1)

/*
 * A call. What an operation or a rank does not need is ignored.
 *
 *     bcast                    recvbuf (at the root: what is sent), count
 *     reduce, allreduce, scan, exscan, reduce_scatter_block
 *                              sendbuf, recvbuf, count (reduce_scatter_block: of one rank's block)
 *     reduce_scatter           sendbuf, recvbuf, recvcounts
 *     allgather, gather, scatter, alltoall
 *                              sendbuf, recvbuf, count (of one block)
 *     allgatherv, gatherv      sendbuf, count, recvbuf, recvcounts, rdispls
 *     scatterv                 sendbuf, sendcounts, sdispls, recvbuf, count
 *     alltoallv                sendbuf, sendcounts, sdispls, recvbuf, recvcounts, rdispls
 *
 * Counts and displacements are in elements, one a rank of the team; displacements may be NULL: one
 * block after the other. These arrays are read by vbn_coll_init() only. The buffers belong to the
 * operation from start until it is over; they may be NULL where nothing is in them. sendbuf and
 * recvbuf do not overlap. With 1 rank, and for exscan at rank 0, MPI's rules hold too.
 */
struct vbn_coll_args {
    size_t size; /* sizeof(struct vbn_coll_args) of the caller */
    enum vbn_coll coll;
    uint32_t root;
    const void *sendbuf;
    void *recvbuf;
    size_t count;
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    enum vbn_dtype dtype;
    size_t elem_size; /* VBN_BYTES: bytes of an element; 0 is 1 */
    enum vbn_op_kind op;
    const struct vbn_user_op *user_op; /* NULL: `op`; copied */
};

/*
 * Makes a persistent request of a call: everything is decided and allocated here, nothing is sent.
 * *ARGS is not needed afterwards. The caller frees *REQ. VBN_ERR_INVALID, VBN_ERR_NO_MEMORY;
 * VBN_ERR_AGAIN: a request 16384 persistent ones back has not been freed yet.
 */
int vbn_coll_init(vbn_team_t *team, const struct vbn_coll_args *args, vbn_coll_req_t **req,
                  struct vbn_error *err);

/*
 * Starts a persistent request, which must not be under way. What can leave leaves. Returns 0 also
 * when it is over already: vbn_coll_test() tells. VBN_ERR_INVALID: it is under way.
 */
int vbn_coll_start(vbn_coll_req_t *req);

/*
 * The same in one, nonblocking: *REQ frees itself when vbn_coll_test() or vbn_coll_wait() says that
 * it is over. Errors as vbn_coll_init(); VBN_ERR_AGAIN: an operation 16384 back is still under way.
 */
int vbn_coll_istart(vbn_team_t *team, const struct vbn_coll_args *args, vbn_coll_req_t **req,
                    struct vbn_error *err);

/*
 * Carries REQ on, as far as its messages came, without the port's progress(). VBN_PENDING, or how
 * it ended. A persistent request that was never started is over with VBN_OK.
 */
int vbn_coll_test(vbn_coll_req_t *req);

/* Drives the port until REQ is over; returns how it ended. */
int vbn_coll_wait(vbn_coll_req_t *req);

enum vbn_coll_rest {
    VBN_REST_NONE,    /* each rank has a processor: nothing was done */
    VBN_REST_YIELDED, /* other threads of this processor had their turn */
    VBN_REST_SLEPT,   /* in the port's wait() */
};

/*
 * What vbn_coll_wait() does between its polls, for callers who poll by themselves, with
 * vbn_coll_test() and the port's progress(): where ranks share processors (team option
 * `processors`) it gives this one away, after long by a sleep of at most SLEEP_MS milliseconds, at
 * once if a long message is to come. IDLE counts the polls that have found nothing, the last one
 * included, since one that found something: 1 or more. On the thread that polls.
 */
enum vbn_coll_rest vbn_coll_rest(vbn_coll_req_t *req, unsigned idle, int sleep_ms);

/* What went wrong with REQ that is over, "" if nothing did. Valid until it is started or freed. */
const char *vbn_coll_error(const vbn_coll_req_t *req);

/* Frees REQ; one under way goes on and is freed when it is over. NULL is nothing. */
void vbn_coll_free(vbn_coll_req_t *req);

/* Carries every operation of TEAM on, without the port's progress(). Returns how many are under
 * way. */
size_t vbn_coll_progress(vbn_team_t *team);

/* What the last operation of TEAM that is gone with its end (blocking, or by vbn_coll_istart()) and
 * failed has to say; a blocking call empties it first. */
const char *vbn_team_error(const vbn_team_t *team);

/* Blocking calls: 0 or an error, see the head of this file and struct vbn_coll_args. */
int vbn_coll(vbn_team_t *team, const struct vbn_coll_args *args);
int vbn_barrier(vbn_team_t *team);
int vbn_bcast(vbn_team_t *team, void *buf, size_t count, enum vbn_dtype dtype, uint32_t root);
int vbn_reduce(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
               enum vbn_dtype dtype, enum vbn_op_kind op, uint32_t root);
int vbn_allreduce(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                  enum vbn_dtype dtype, enum vbn_op_kind op);
int vbn_reduce_scatter(vbn_team_t *team, const void *sendbuf, void *recvbuf,
                       const size_t *recvcounts, enum vbn_dtype dtype, enum vbn_op_kind op);
int vbn_reduce_scatter_block(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                             enum vbn_dtype dtype, enum vbn_op_kind op);
int vbn_allgather(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                  enum vbn_dtype dtype);
int vbn_allgatherv(vbn_team_t *team, const void *sendbuf, size_t count, void *recvbuf,
                   const size_t *recvcounts, const size_t *rdispls, enum vbn_dtype dtype);
int vbn_gather(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
               enum vbn_dtype dtype, uint32_t root);
int vbn_gatherv(vbn_team_t *team, const void *sendbuf, size_t count, void *recvbuf,
                const size_t *recvcounts, const size_t *rdispls, enum vbn_dtype dtype,
                uint32_t root);
int vbn_scatter(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                enum vbn_dtype dtype, uint32_t root);
int vbn_scatterv(vbn_team_t *team, const void *sendbuf, const size_t *sendcounts,
                 const size_t *sdispls, void *recvbuf, size_t count, enum vbn_dtype dtype,
                 uint32_t root);
int vbn_alltoall(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
                 enum vbn_dtype dtype);
int vbn_alltoallv(vbn_team_t *team, const void *sendbuf, const size_t *sendcounts,
                  const size_t *sdispls, void *recvbuf, const size_t *recvcounts,
                  const size_t *rdispls, enum vbn_dtype dtype);
int vbn_scan(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
             enum vbn_dtype dtype, enum vbn_op_kind op);
int vbn_exscan(vbn_team_t *team, const void *sendbuf, void *recvbuf, size_t count,
               enum vbn_dtype dtype, enum vbn_op_kind op);

/* --- algorithms ----------------------------------------------------------------------------- */

/* The name of COLL as in rules; NULL if there is none. Any thread. */
const char *vbn_coll_name(enum vbn_coll coll);

/* Sets *COLL to the operation that has that NAME; VBN_ERR_INVALID: none has. Any thread. */
int vbn_coll_find(const char *name, enum vbn_coll *coll);

/* The name of the I-th algorithm for COLL; NULL beyond the last. Any thread. */
const char *vbn_coll_algorithm(enum vbn_coll coll, unsigned i);

enum vbn_param_kind {
    VBN_PARAM_NONE,
    VBN_PARAM_RADIX,   /* 2 or more */
    VBN_PARAM_SEGMENT, /* bytes; by default as the model has it */
};

/* What PARAM in rules is for the I-th algorithm for COLL; none for no such algorithm. Any thread.
 */
enum vbn_param_kind vbn_coll_param_kind(enum vbn_coll coll, unsigned i);

/*
 * What an algorithm costs, by theory, where every message and byte costs the same everywhere.
 * `rounds` messages follow one another on the longest path and carry `path_bytes`; of these `depth`
 * had to arrive before the next could leave, the others left one after the other. The busiest rank
 * sends `messages` with `bytes` in all, reduces `reduced` bytes and, beside its own contribution,
 * copies `copied`. All ranks together send `all_messages` with `all_bytes`. Where ranks share
 * processors some algorithms make another rank the busiest in each call, or have it send without a
 * wait: `turn_messages` is what a rank sends in a call on average, and `turn_bytes` if it does not
 * wait; for the others, and where `root_stays`, the same in one call after the other, `messages`
 * and the larger one of `path_bytes` and `bytes`. `turns`: another rank is the busiest in each
 * call, although the operation has no root; `all_wait`: no rank ends before all have begun.
 */
struct vbn_coll_cost {
    double depth, rounds, path_bytes;
    double messages, turn_messages, bytes, turn_bytes;
    double reduced, copied;
    double all_messages, all_bytes;
    bool root_stays, turns, all_wait;
};

/* How often the model's latency_ns, alpha_ns, beta_ps and gamma_ps are paid. */
struct vbn_coll_terms {
    double latencies, messages, bytes, touched;
};

/*
 * COST, of SIZE ranks, of which PROCESSORS (0: all) can be busy at a time, in the model's terms.
 * The longest path, or the busiest rank: whichever takes longest. Messages that a rank sends at
 * once follow one another; one of more than EAGER_BYTES on average is three, the receiver's answer
 * among them. Where ranks share processors, those who wait take turns with the busiest, and take as
 * long as it does, unless another one is the busiest in the next call; bytes are moved without
 * them, by a processor and a half for each message, and what is not offered is copied, twice. What
 * is under way is waited for while others work on the calls before and after, and so is the path of
 * the bytes if the busiest rank waits for nobody. But what is offered needs its receiver, who is
 * found when all who share the processor have had their turns; half of them, for what is not, where
 * the root stays. Where all wait there are no other calls: on several processors any message needs
 * its receiver, half of the turns up and down a tree. Of a single one ranks take turns in an order
 * that brings all messages of a round (doc/trials.md). Any thread.
 */
struct vbn_coll_terms vbn_coll_terms_of(const struct vbn_coll_cost *cost, uint32_t size,
                                        uint32_t processors, uint64_t eager_bytes);

/*
 * The I-th algorithm's cost for SIZE ranks and COUNT elements of ELEM_SIZE bytes (a block's, as in
 * struct vbn_coll_args), with PARAM as in rules (0: its default). VBN_ERR_INVALID: no such
 * algorithm, not for so many ranks, or for teams that have a group only. Any thread.
 */
int vbn_coll_predict(enum vbn_coll coll, unsigned i, uint32_t size, size_t count, size_t elem_size,
                     size_t param, struct vbn_coll_cost *cost);

/* The name of the algorithm that REQ runs. */
const char *vbn_coll_chosen(const vbn_coll_req_t *req);

/* The radix, or the bytes of a segment, with which; 0: segments as the model has them, or neither.
 */
size_t vbn_coll_chosen_param(const vbn_coll_req_t *req);

#ifdef __cplusplus
}
#endif

#endif
