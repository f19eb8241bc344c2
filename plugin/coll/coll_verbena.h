/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Open MPI collectives component `verbena`: what its files share.
 *
 *     component   parameters, and for which communicators it stands ready
 *     module      a communicator's teams, made at its first collective; the functions below it
 *     mpi         the collectives as Open MPI calls them, blocking and nonblocking
 *     call        one call: started, waited for, or completed as a request
 *     data        MPI's types, operations and buffers as the collectives layer wants them
 *     split       a communicator's members by node, and its parts: each node, and the leaders
 *     node        blocking collectives where members share nodes: in each node, between leaders
 *
 * It runs over the context, and so over the connections, of the BTL component `verbena`.
 *
 * All ranks must decide alike whether a call is ours. They do, for it depends only on what MPI
 * wants to be the same everywhere: the communicator, and for reductions the type and the operation.
 * Data that do not lie in one piece are packed, for another rank's may.
 *
 * Threads. MPI has the collectives of a communicator called by one thread at a time; but those that
 * are under way are completed by any, so a module's lock is held where its teams are called. The
 * component's, with which a module's may be taken, guards what is under way.
 */
#ifndef COLL_VERBENA_H
#define COLL_VERBENA_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/request/request.h"

#include "../btl/btl_verbena_compat.h"
#include "verbena_coll.h"

#include <stdbool.h>
#include <stdatomic.h>
#include <stddef.h>

typedef struct coll_verbena_component {
    mca_coll_base_component_t super;
    int priority;
    bool share; /* also where ranks share a host and its memory */
    bool node_aware;
    bool group; /* use one where all ranks can */
    bool check;
    unsigned stall_report_s; /* 0: the default, which is never where calls are not compared */
    char *rules, *rules_file;
    atomic_bool discord_told;    /* that not all members of some communicator decide alike */
    opal_mutex_t lock;           /* guards what follows */
    opal_list_t pending;         /* coll_verbena_request_t under way */
    atomic_size_t pending_count; /* of them, for those who have not the lock */
    bool progressing;            /* our function is among opal_progress()'s */
} coll_verbena_component_t;

extern coll_verbena_component_t mca_coll_verbena_component;

/* The number of COMM, which is the same on all its members; UINT32_MAX: it has none, as those of
 * sessions in Open MPI 5. */
static inline uint32_t coll_verbena_number(const ompi_communicator_t *comm)
{
#ifdef OMPI_COMM_IS_GLOBAL_INDEX
    return OMPI_COMM_IS_GLOBAL_INDEX(comm) ? comm->c_index : UINT32_MAX;
#else
    return comm->c_contextid;
#endif
}

/*
 * The members of a communicator by node. Nodes are numbered by their leaders, which are the lowest
 * ranks on them; so in `up` each leader has its node's number, and in `low` a member its place.
 */
typedef struct coll_verbena_split {
    int nodes;
    int *node;     /* of each member */
    int *place;    /* of each member among those of its node; the leader's is 0 */
    bool in_order; /* node by node, the members are in the order of ranks */
    enum { COLL_VERBENA_WHOLE, COLL_VERBENA_SPLIT, COLL_VERBENA_NEVER } state;
    ompi_communicator_t *low; /* my node's members */
    ompi_communicator_t *up;  /* the leaders; MPI_COMM_NULL in other members */
    int *counts, *displs;     /* `nodes` entries each, of one call */
    void *room;               /* of one call */
    size_t room_bytes;
} coll_verbena_split_t;

/* A communicator's. */
typedef struct coll_verbena_module {
    mca_coll_base_module_t super;
    mca_coll_base_comm_coll_t below; /* what would serve the communicator without us */
    const struct vbn_transport *transport;
    mca_btl_base_module_t *btl;
    vbn_port_t *port;
    opal_mutex_t lock;     /* guards the teams */
    atomic_bool has_teams; /* false: they are not made yet */
    /* Two, for a team counts its calls, and Open MPI makes nonblocking ones by itself
     * (MPI_Comm_idup()) when it makes progress: on each rank elsewhere among the blocking ones. */
    vbn_team_t *blocking, *nonblocking;
    uint32_t processors;         /* that the members have together; no more than members */
    size_t *counts;              /* 4 × ranks: counts and displacements of one call, in bytes */
    coll_verbena_split_t *split; /* NULL: no two members share a node, or it does not matter */
} coll_verbena_module_t;
OBJ_CLASS_DECLARATION(coll_verbena_module_t);

/* Of every team, but for its processors. */
struct vbn_team_options coll_verbena_team_options(void);

/* What a text of the library's leaves out for users of MPI: by which parameter calls are compared.
 * "" where it does not speak of that. */
const char *coll_verbena_remedy(const char *text);

/* Gives a module for COMM, or NULL where it is not for us. */
mca_coll_base_module_t *coll_verbena_comm_query(struct ompi_communicator_t *comm, int *priority);

/* Makes the teams of COMM, as below. */
bool coll_verbena_teams_make(coll_verbena_module_t *module, struct ompi_communicator_t *comm);

/* True when COMM has its teams. False: they cannot be made, the user has been told. */
static inline bool coll_verbena_teams(coll_verbena_module_t *module,
                                      struct ompi_communicator_t *comm)
{
    return OPAL_LIKELY(atomic_load_explicit(&module->has_teams, memory_order_acquire)) ||
           coll_verbena_teams_make(module, comm);
}

/* --- data ------------------------------------------------------------------------------------- */

/* A user's buffer in as many blocks as there are ranks, or one. */
typedef struct coll_verbena_view {
    void *user;
    void *bytes; /* what the collective works on: the user's memory, or `packed` */
    void *packed;
    ompi_datatype_t *type;
    bool unpack;                                /* when the call is over */
    size_t span;                                /* bytes from `bytes` on that can be lent, or 0 */
    mca_btl_base_module_t *btl;                 /* of `handle` */
    mca_btl_base_registration_handle_t *handle; /* while it is lent; or NULL */
    int blocks;
    int count;   /* of each block, where `counts` is NULL */
    int *counts; /* copies of the caller's, where the view is packed */
    int *displs;
} coll_verbena_view_t;

/* No buffer. */
static inline void coll_verbena_view_none(coll_verbena_view_t *view)
{
    view->bytes = view->packed = NULL;
    view->span = 0;
    view->handle = NULL;
}

/* One call, as long as it is under way. */
typedef struct coll_verbena_call {
    struct vbn_coll_args args;
    coll_verbena_view_t in, out;
    struct vbn_user_op user_op;
    struct ompi_op_t *op; /* of `user_op` */
    ompi_datatype_t *op_type;
} coll_verbena_call_t;

/*
 * Prepares VIEW of BLOCKS blocks at USER: COUNT elements each, or COUNTS[i] at DISPLS[i] (in
 * extents). READ: their contents count. WRITTEN: they are filled. SIZES and OFFSETS (blocks
 * entries, may be NULL where COUNTS is) get the blocks' bytes and where they begin at VIEW->bytes.
 * False: no memory.
 */
bool coll_verbena_view(coll_verbena_view_t *view, const void *user, int blocks, int count,
                       const int *counts, const int *displs, ompi_datatype_t *type, bool read,
                       bool written, size_t *sizes, size_t *offsets);

/*
 * Where VIEW is large, registers it from BTL's cache for ACCESS (of MCA_BTL_REG_FLAG_*), and lends
 * it to messages until VIEW ends: that would register it for each.
 */
void coll_verbena_view_lend(coll_verbena_view_t *view, mca_btl_base_module_t *btl, uint32_t access);

/* Puts what was received where the user wants it, and frees what VIEW has allocated. */
void coll_verbena_view_end(coll_verbena_view_t *view, bool good);

/* Whether elements of TYPE are bytes that follow one another without gaps. */
bool coll_verbena_is_dense(ompi_datatype_t *type);

/* COUNT elements of TYPE at USER to their bytes at PACKED, and back. */
void coll_verbena_pack(const void *user, size_t count, ompi_datatype_t *type, void *packed);
void coll_verbena_unpack(void *user, size_t count, ompi_datatype_t *type, const void *packed);

/* Sets the type and operation of CALL's reduction. False: not one for us. */
bool coll_verbena_reduction(coll_verbena_call_t *call, ompi_datatype_t *type, struct ompi_op_t *op);

/* Learns MPI's predefined types. */
void coll_verbena_types_init(void);

/* --- call ---------------------------------------------------------------------------------------
 */

/* Runs CALL to its end. */
int coll_verbena_run(coll_verbena_module_t *module, ompi_communicator_t *comm,
                     coll_verbena_call_t *call);

/* Starts it as a request; *CALL is copied, and its views belong to the request. */
int coll_verbena_start(coll_verbena_module_t *module, ompi_communicator_t *comm,
                       coll_verbena_call_t *call, ompi_request_t **request);

/* The end: opal_progress() calls us no more. */
void coll_verbena_call_fini(void);

/* --- mpi
 * ------------------------------------------------------------------------------------------ */

/* Puts our functions into MODULE. */
void coll_verbena_functions(mca_coll_base_module_t *module);

/* --- split ------------------------------------------------------------------------------------ */

/*
 * The members of a communicator of SIZE ranks by node, of which each has an id in IDS; 0 is that of
 * a node which nobody shares. NULL: no memory.
 */
coll_verbena_split_t *coll_verbena_split_new(const uint64_t *ids, int size);

/* Frees SPLIT (may be NULL) and its communicators. */
void coll_verbena_split_free(coll_verbena_split_t *split);

/*
 * True when MODULE's communicator COMM has its parts; they are made at the first call, which takes
 * all members. False, on all of them: the components below have to serve COMM, for they could not
 * be made.
 */
bool coll_verbena_split_ready(coll_verbena_module_t *module, ompi_communicator_t *comm);

/* Room for COUNT elements of TYPE, until it is left; NULL: no memory. */
void *coll_verbena_split_room(coll_verbena_split_t *split, size_t count, ompi_datatype_t *type);

/* Keeps the room for the next call, or frees it where it is large. */
void coll_verbena_split_leave_room(coll_verbena_split_t *split);

/* --- node ------------------------------------------------------------------------------------- */

/* Puts the functions into MODULE that serve members who share nodes. */
void coll_verbena_node_functions(mca_coll_base_module_t *module);

#endif
