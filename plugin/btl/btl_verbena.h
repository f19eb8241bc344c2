/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Open MPI byte transfer layer (BTL) `verbena`: what its files share.
 *
 *     component   parameters, choice of the device, what is published to peers, progress
 *     module      peers, the list of work that waits for room, counters, the end
 *     frag        messages: alloc, prepare_src, send, sendi
 *     long        messages in parts
 *     coalesce    several short messages in one
 *     rma         put and get
 *     bounce      the same for osc/rdma where local memory cannot be registered
 *     served      what the peer's process does for this one: atomics, and gets on some devices
 *     reg         memory registration through Open MPI's registration cache
 *     unmap       memory that goes without Open MPI's noticing
 *     idle        sleeping where a rank waits
 *
 * Everything goes through the public header verbena.h; the component holds no verbs object.
 */
#ifndef BTL_VERBENA_H
#define BTL_VERBENA_H

#include "btl_verbena_compat.h"

#include "verbena.h"

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/rcache/base/base.h"
#include "opal/mca/rcache/rcache.h"
#include "opal/util/proc.h"

#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/* A table that cannot grow is an error like any other, not the end of the process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

typedef struct btl_verbena_module btl_verbena_module_t;

typedef struct btl_verbena_component {
    mca_btl_base_component_t super;
    mca_btl_base_module_t defaults; /* the host's own parameters, as the user set them */
    struct vbn_options options;     /* the transport's parameters, as the user set them */
    struct vbn_error bad_parameter; /* the first value that was refused; status 0: none */
    bool show_counters;
    size_t idle_wait_ms;  /* longest sleep of a rank that waits; 0: it polls */
    bool idle_wait_given; /* by the user, as the next */
    bool eager_limit_given;
    size_t burst; /* messages to a peer that leave at once; 0: all */
    bool burst_given;
    bool ring_peers_given;
    size_t registrations_max;     /* that are kept for reuse */
    btl_verbena_module_t *module; /* NULL before init and after finalize */
} btl_verbena_component_t;

/* What a rank that may sleep knows of its waiting. */
typedef struct btl_verbena_idle {
    atomic_size_t most_ms; /* the longest sleep; 0: it polls */
    bool unasked;          /* it sleeps although the user has not said so */
    uint64_t spin_ns;      /* how long it polls before; each rank of a processor has its turn */
    opal_mutex_t lock;     /* guards what follows */
    uint32_t calls;        /* of progress in a row that found nothing, as far as they matter */
    bool has_slept;        /* in the last call */
    uint64_t since_ns;     /* since when there is nothing but waiting; 0: unknown */
    uint64_t cpu_ns;       /* processor time of the thread at its last call */
    size_t slice_ms;       /* the next sleep */
} btl_verbena_idle_t;

/* A function of the C library that memory goes by. */
typedef struct btl_verbena_unmapper {
    const unsigned char *code;     /* NULL: there is none */
    atomic_uint_least64_t seen[2]; /* the first bytes of it */
} btl_verbena_unmapper_t;

enum { BTL_VERBENA_UNMAPPERS = 8 };

/* Who tells of memory that goes: see btl_verbena_unmap.c. */
typedef struct btl_verbena_unmap {
    btl_verbena_unmapper_t unmappers[BTL_VERBENA_UNMAPPERS];
    opal_mutex_t lock;      /* held while patches are looked into */
    atomic_uintptr_t probe; /* the page that UCX has yet to tell of; 0: none */
    atomic_bool deaf;       /* nobody may tell */
} btl_verbena_unmap_t;

/* What a peer needs to reach a region, as it travels in ob1's headers: in network byte order. */
struct mca_btl_base_registration_handle_t {
    uint32_t key;
    uint32_t usable; /* 1, or 0 when the registration had failed */
};
_Static_assert(sizeof(struct mca_btl_base_registration_handle_t) == 8, "travels between hosts");

/* A registration in the cache. */
typedef struct btl_verbena_registration {
    mca_rcache_base_registration_t base;
    vbn_mem_t *mem;
    mca_btl_base_registration_handle_t handle;
    UT_hash_handle hh; /* in the module's `regions`, by `handle.key` */
} btl_verbena_registration_t;

/* Memory that puts and gets go by whose own cannot be registered: see btl_verbena_bounce.c. */
typedef struct btl_verbena_bounce {
    opal_mutex_t making;               /* held while the memory is made */
    void *memory;                      /* NULL: none yet */
    btl_verbena_registration_t region; /* of it; in no cache */
    opal_list_t waiting;               /* the `work` of btl_verbena_rma_t, the first under way */
} btl_verbena_bounce_t;

/* One opened device. */
struct btl_verbena_module {
    mca_btl_base_module_t super;
    vbn_context_t *context;
    struct vbn_attr attr;
    mca_rcache_base_module_t *messages, *windows; /* caches of registrations */
    opal_mutex_t caching;     /* held while one gives a registration, or gives one up */
    atomic_int registrations; /* in both */
    btl_verbena_unmap_t unmap;
    btl_verbena_bounce_t bounce;
    btl_verbena_registration_t *regions; /* of them, those that peers may ask for, by key */
    mca_btl_base_module_error_cb_fn_t error_cb;
    bool closing; /* faults no longer matter to anyone */
    atomic_bool said_no_window;
    opal_free_list_t frags;       /* btl_verbena_frag_t in plain memory, for short messages */
    opal_free_list_t burst_frags; /* the same for longer ones behind a burst */
    opal_free_list_t kept_frags;  /* the same for those that their owners send again */
    opal_free_list_t long_frags;  /* the same for messages in parts */
    opal_free_list_t assemblies;  /* btl_verbena_long_t */
    opal_list_t assembling;       /* of them, those whose last part is to come; progress has them */
    btl_verbena_arrival_t arrival; /* what is being handed up; progress has it */
    opal_mutex_t parting;          /* held while the parts of a message are sent */
    opal_free_list_t rmas;         /* btl_verbena_rma_t */
    opal_free_list_t served;       /* btl_verbena_served_t */
    uint32_t ranks;                /* of the job */
    atomic_ulong served_count;     /* operations done for others */
    opal_mutex_t lock; /* guards `regions`, `bounce.waiting`, the lists below, the endpoints' */
    struct mca_btl_base_endpoint_t *endpoints; /* all, also those of departed peers */
    opal_list_t busy;                          /* endpoints with work that waits */
    atomic_size_t busy_count;                  /* of them, for those who have not the lock */
    opal_mutex_t resuming;                     /* held by the thread that works off `busy` */
    atomic_uint turn;                          /* counts calls of progress */
    uint32_t burst; /* messages to a peer that leave at once in each turn */
    btl_verbena_idle_t idle;
};

/* A peer, or this process itself, of which memory is asked for only. */
typedef struct mca_btl_base_endpoint_t {
    opal_list_item_t super; /* in `busy` */
    struct mca_btl_base_endpoint_t *next;
    btl_verbena_module_t *module;
    opal_proc_t *proc;    /* NULL: departed */
    vbn_endpoint_t *peer; /* NULL: this process */
    bool lost;            /* the transport has given it up */
    bool is_busy;         /* in `busy`, or taken from there by the thread that works it off */
    opal_list_t waiting;  /* btl_verbena_work_t in the order of arrival */
    opal_list_t given; /* the same, of messages that the transport has: who waits may need theirs */
    opal_list_t served; /* btl_verbena_served_t that were asked of it, until it answers */
    uint64_t last_token;
    atomic_uint turn, sent; /* how many messages it was sent in which turn */
} btl_verbena_endpoint_t;
OBJ_CLASS_DECLARATION(btl_verbena_endpoint_t);

/*
 * Something that cannot go on now and is tried again after each progress.
 * start   gives a vbn_status: VBN_ERR_AGAIN keeps it waiting; 0 means that it is on its way, or
 *         over, and looks after itself; anything else makes fail() be called.
 * fail    ends it with STATUS.
 */
typedef struct btl_verbena_work {
    opal_list_item_t super;
    btl_verbena_endpoint_t *endpoint;
    int (*start)(struct btl_verbena_work *work);
    void (*fail)(struct btl_verbena_work *work, int status);
} btl_verbena_work_t;
OBJ_CLASS_DECLARATION(btl_verbena_work_t);

/* A message that ob1 fills: in the private room of a transport message, or in plain memory. */
typedef struct btl_verbena_frag {
    mca_btl_base_descriptor_t base;
    mca_btl_base_segment_t segment;
    vbn_msg_t *msg;          /* that it lies in, or its last part; NULL: none */
    opal_free_list_t *home;  /* in plain memory: where that goes back to; else NULL */
    mca_btl_base_tag_t tag;  /* while it waits */
    btl_verbena_work_t work; /* its endpoint is always set */
} btl_verbena_frag_t;
OBJ_CLASS_DECLARATION(btl_verbena_frag_t);

/* Longest message that is kept in plain memory rather than refused when there is no room. */
#define BTL_VERBENA_PLAIN_MAX 512

/* Longest message, ob1's header included, that waits behind a burst to go with others; and of
 * those longer than that, how many may: the host keeps others back. */
#define BTL_VERBENA_BURST_MAX   2112
#define BTL_VERBENA_BURST_FRAGS 256

/* Most messages in one that is coalesced. */
#define BTL_VERBENA_COALESCED_MAX 64

/* A message has so many parts at most. */
#define BTL_VERBENA_PARTS_MAX 8
/* So many may wait for room in plain memory; the host keeps others back. */
#define BTL_VERBENA_LONG_FRAGS 64

/* What has come of a message in parts. */
typedef struct btl_verbena_long {
    opal_free_list_item_t super; /* in the module's `assembling`; room for the longest */
    const vbn_endpoint_t *peer;
    uint32_t total; /* bytes of the message */
    mca_btl_base_tag_t tag;
    size_t len; /* that have come */
} btl_verbena_long_t;
OBJ_CLASS_DECLARATION(btl_verbena_long_t);

/* One put or get. */
typedef struct btl_verbena_rma {
    opal_free_list_item_t super;
    btl_verbena_work_t work;
    bool is_get;
    bool has_asked; /* for the key, having been denied */
    void *local;
    const vbn_mem_t *mem; /* NULL: cannot be done, see btl_verbena_reg.c */
    uint64_t remote;
    uint32_t remote_key;
    size_t len;
    size_t bounced; /* of them, where it goes in pieces: those that have gone */
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *cbcontext;
    void *cbdata;
} btl_verbena_rma_t;
OBJ_CLASS_DECLARATION(btl_verbena_rma_t);

/* What the peer does for this process, or, for a get, what this one does for the peer. */
typedef struct btl_verbena_served {
    opal_free_list_item_t super; /* in the endpoint's `served` */
    btl_verbena_endpoint_t *endpoint;
    uint64_t token; /* names it in the answer */
    void *local;
    uint32_t width; /* bytes of the answer's value to write to `local` */
    mca_btl_base_registration_handle_t *local_handle;
    mca_btl_base_rdma_completion_fn_t cbfunc;
    void *cbcontext;
    void *cbdata;
} btl_verbena_served_t;
OBJ_CLASS_DECLARATION(btl_verbena_served_t);

extern btl_verbena_component_t mca_btl_verbena_component;

/* Where an embedded object's owner is. */
#define BTL_VERBENA_OWNER(type, member, pointer)                                                   \
    ((type *)((char *)(pointer)-offsetof(type, member)))

/* --- component ------------------------------------------------------------------------------ */

/* What a peer must know of this process. The address blob is the transport's own. */
#define BTL_VERBENA_MODEX_MAGIC   0x76626e31u
#define BTL_VERBENA_MODEX_VERSION 8

typedef struct btl_verbena_modex {
    uint32_t magic;
    uint16_t version;
    uint16_t address_len;
    uint32_t max_message; /* longest message this process sends and takes */
    uint32_t handle_len;  /* bytes of a registration handle */
    uint32_t neighbors;   /* other processes of the job on its host */
    uint32_t processors;  /* of its host */
    uint64_t memory;      /* alike in those who reach one another through memory; 0: in none */
    uint8_t address[VBN_ADDRESS_MAX];
} btl_verbena_modex_t;
_Static_assert(sizeof(btl_verbena_modex_t) == 32 + VBN_ADDRESS_MAX, "travels between hosts");

/*
 * Keeps processes apart that have nothing to say to each other, such as one left over from another
 * job that meets a port used anew. The upper half of a job id is common to all that one mpirun
 * starts, jobs spawned by MPI_Comm_spawn included, and differs between mpiruns; so
 * MPI_Comm_connect between two mpiruns finds no way over this component and takes another one. It
 * is no secret and guards against accidents only.
 */
static inline uint64_t btl_verbena_job_key(const opal_process_name_t *name)
{
    return name->jobid >> 16;
}

/* Tells the user, once a host, what the help file has under TOPIC, with its arguments. */
void btl_verbena_say(const char *topic, ...);

/* True when the user asked for this component by name, as in `--mca btl verbena,self`. */
bool btl_verbena_named(void);

/* Other processes of the job on this host. */
static inline uint32_t btl_verbena_neighbors(void)
{
    return (uint32_t)opal_process_info.num_local_peers;
}

/* Of this host. */
static inline uint32_t btl_verbena_processors(void)
{
    return (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

/* How many of them take turns on a processor; 1: each has its own. */
static inline uint32_t btl_verbena_sharing(void)
{
    return 1 + btl_verbena_neighbors() / btl_verbena_processors();
}

/* --- module --------------------------------------------------------------------------------- */

/* Gives a module without a device, with all functions in place, or NULL. */
btl_verbena_module_t *btl_verbena_module_create(const mca_btl_base_module_t *defaults);

/* Gives LIST, which is constructed, up to MOST items of CLASS, SIZE bytes long, -1: without a
 * limit; each has ROOM bytes besides. */
void btl_verbena_items_init(opal_free_list_t *list, size_t size, opal_class_t *class, size_t room,
                            int most);

/* The end: prints counters where wanted, drops registrations, closes the device, frees MODULE. */
int btl_verbena_finalize(mca_btl_base_module_t *btl);

/* The endpoint of PROC, made where there is none yet; NULL after a message why there can be none.
 */
btl_verbena_endpoint_t *btl_verbena_endpoint_of(btl_verbena_module_t *module, opal_proc_t *proc);

/* The same of the process called NAME; NULL also where that is not PEER. */
btl_verbena_endpoint_t *btl_verbena_endpoint_of_peer(btl_verbena_module_t *module,
                                                     const vbn_endpoint_t *peer,
                                                     opal_process_name_t name);

/* The transport's callback: a connection is lost. ARG is the module. */
void btl_verbena_endpoint_error(void *arg, vbn_endpoint_t *peer, int status, const char *reason);

/* Ends the job: OPERATION with ENDPOINT was not done for REASON, and who asked does not look at
 * that, as osc/rdma does not. (ob1 does; it gives a fragment as `cbdata`, with each.) */
void btl_verbena_operation_failed(const btl_verbena_endpoint_t *endpoint, const char *operation,
                                  const char *reason);

/* Makes WORK wait in LIST, `waiting` or `given` of its endpoint. */
void btl_verbena_work_add(btl_verbena_work_t *work, opal_list_t *list);

/* Tries what waits once more. Returns how much of it has gone on. */
int btl_verbena_work_resume(btl_verbena_module_t *module);

/* What Open MPI calls a vbn_status. */
int btl_verbena_opal_status(int status);

/* --- idle ----------------------------------------------------------------------------------- */

/* Decides whether ranks that wait sleep. MODULE's device is open. */
void btl_verbena_idle_init(btl_verbena_module_t *module);

/* All BTLs that the host has chosen are there, and PROCS are reached by MODULE or (ENDPOINTS has
 * NULL) not: who sleeps unasked does so only where nobody else carries messages. */
void btl_verbena_idle_peers(btl_verbena_module_t *module, size_t count, opal_proc_t **procs,
                            btl_verbena_endpoint_t **endpoints);

/* After a progress that found DONE things to do: sleeps a little where the rank has been waiting
 * for long enough. Returns what there was to do then. */
int btl_verbena_idle(btl_verbena_module_t *module, int done);

/* --- frag ----------------------------------------------------------------------------------- */

mca_btl_base_descriptor_t *btl_verbena_alloc(mca_btl_base_module_t *btl,
                                             btl_verbena_endpoint_t *endpoint, uint8_t order,
                                             size_t size, uint32_t flags);
/* The same for a short message that must not overtake what waits for ENDPOINT, as others may. */
mca_btl_base_descriptor_t *btl_verbena_alloc_behind(btl_verbena_endpoint_t *endpoint, size_t size,
                                                    uint32_t flags);
int btl_verbena_free(mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *descriptor);
mca_btl_base_descriptor_t *btl_verbena_prepare_src(mca_btl_base_module_t *btl,
                                                   btl_verbena_endpoint_t *endpoint,
                                                   opal_convertor_t *convertor, uint8_t order,
                                                   size_t reserve, size_t *size, uint32_t flags);
int btl_verbena_send(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                     mca_btl_base_descriptor_t *descriptor, mca_btl_base_tag_t tag);
int btl_verbena_sendi(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                      opal_convertor_t *convertor, void *header, size_t header_size,
                      size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                      mca_btl_base_descriptor_t **descriptor);

/* The transport's callback for every message; ARG is the module. */
void btl_verbena_receive(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len);

/* Says that a message is dropped. */
void btl_verbena_nobody_takes(mca_btl_base_tag_t tag, size_t len);

/* Hands up a message of PEER's for TAG, the LEN bytes at DATA. */
static inline void btl_verbena_hand_up(btl_verbena_module_t *module, const vbn_endpoint_t *peer,
                                       mca_btl_base_tag_t tag, void *data, size_t len)
{
    mca_btl_base_segment_t segment = {.seg_addr.pval = data, .seg_len = len};

    if (OPAL_UNLIKELY(!btl_verbena_deliver(&module->super, peer, tag, &module->arrival, &segment)))
        btl_verbena_nobody_takes(tag, len);
}

/* Packs at most *LEN bytes to TO and sets *LEN to what was packed. False when that failed. */
bool btl_verbena_pack(opal_convertor_t *convertor, void *to, size_t *len);

/* --- long ----------------------------------------------------------------------------------- */

/* The bytes of a message: those at HEADER, then those of CONVERTOR. */
struct btl_verbena_source {
    const void *header;
    size_t header_len;
    opal_convertor_t *convertor;
    size_t payload_len;
};

/* Makes MODULE, whose device is open, take messages in parts. */
void btl_verbena_long_init(btl_verbena_module_t *module);

/* How many of the transport's messages, at most, a message of LEN bytes takes. */
uint32_t btl_verbena_parts(const btl_verbena_module_t *module, size_t len);

/* Bytes, ob1's header included, of the longest message in parts over a device. */
size_t btl_verbena_long_max(const struct vbn_attr *attr);

/* Sends what FROM has in parts. VBN_ERR_AGAIN: no room, and nothing has happened. With LAST the
 * caller puts the last part, *LAST, which is NULL after an error. */
int btl_verbena_long_send(btl_verbena_endpoint_t *endpoint, struct btl_verbena_source *from,
                          mca_btl_base_tag_t tag, vbn_msg_t **last);

/* Nothing more comes of PEER. */
void btl_verbena_long_lost(btl_verbena_module_t *module, const vbn_endpoint_t *peer);

/* --- coalesce ------------------------------------------------------------------------------- */

/* Makes MODULE, whose device is open, take coalesced messages. */
void btl_verbena_coalesce_init(btl_verbena_module_t *module);

/* The end of a call of progress: what is sent to a peer is counted from 0 again. */
static inline void btl_verbena_turn_end(btl_verbena_module_t *module)
{
    unsigned turn = atomic_load_explicit(&module->turn, memory_order_relaxed);

    atomic_store_explicit(&module->turn, turn + 1, memory_order_relaxed);
}

/* Counts a message to ENDPOINT. True when so many have left in this turn that a short one waits for
 * the next. */
bool btl_verbena_burst_over(btl_verbena_endpoint_t *endpoint);

/* What a message of LEN bytes takes of a coalesced one. */
size_t btl_verbena_coalesced_len(size_t len);

/* Puts a message, the LEN bytes at BYTES for TAG, to TO. */
void btl_verbena_coalesce(void *to, mca_btl_base_tag_t tag, const void *bytes, size_t len);

/* Sends MSG, LEN bytes of messages that were put there. Returns a vbn_status. */
int btl_verbena_coalesced_send(vbn_msg_t *msg, size_t len);

/* --- rma ------------------------------------------------------------------------------------ */

int btl_verbena_put(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                    void *local_address, uint64_t remote_address,
                    mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                    void *cbdata);
int btl_verbena_get(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                    void *local_address, uint64_t remote_address,
                    mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                    void *cbdata);

/* Whether an operation is osc/rdma's, which does not look at how it ends. ob1, which does, always
 * has CBDATA, and never registers memory for everything. */
bool btl_verbena_is_osc(const mca_btl_base_registration_handle_t *local_handle, const void *cbdata);

/* The end of OP, with a vbn_status: the callback, as a rule. */
void btl_verbena_rma_end(btl_verbena_rma_t *op, int status);

/* --- bounce --------------------------------------------------------------------------------- */

/* Before memory of a window is registered: makes what is needed, once. False: there is no room. */
bool btl_verbena_bounce_ready(btl_verbena_module_t *module);
void btl_verbena_bounce_fini(btl_verbena_module_t *module);

/* Does OP, whose local memory is not registered, in pieces. It ends by btl_verbena_rma_end(). */
void btl_verbena_bounce(btl_verbena_rma_t *op);

/* --- served --------------------------------------------------------------------------------- */

/* What was put for a peer's get: the peer is answered. */
void btl_verbena_served_put_ended(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                                  void *local, mca_btl_base_registration_handle_t *local_handle,
                                  void *context, void *data, int status);

/* Makes MODULE, whose device is open, listen to what its peers ask for. */
void btl_verbena_served_init(btl_verbena_module_t *module);

int btl_verbena_atomic_op(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                          uint64_t remote_address,
                          mca_btl_base_registration_handle_t *remote_handle,
                          mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                          mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_verbena_atomic_fop(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                           void *local_address, uint64_t remote_address,
                           mca_btl_base_registration_handle_t *local_handle,
                           mca_btl_base_registration_handle_t *remote_handle,
                           mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                           mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);
int btl_verbena_atomic_cswap(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                             void *local_address, uint64_t remote_address,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                             uint64_t value, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                             void *cbdata);

/* Takes what came from PEER among other messages, if TAG says that it is for this file. */
bool btl_verbena_served_take(btl_verbena_module_t *module, vbn_endpoint_t *peer,
                             mca_btl_base_tag_t tag, void *data, size_t len);

/* As btl_verbena_get(), with two handles of registrations that did not fail. */
int btl_verbena_served_get(btl_verbena_endpoint_t *endpoint, void *local, uint64_t remote,
                           mca_btl_base_registration_handle_t *local_handle,
                           const mca_btl_base_registration_handle_t *remote_handle, size_t len,
                           mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata);

/* Asks ENDPOINT's process for the *KEY of its window's memory at REMOTE, LEN bytes, in host byte
 * order. CBFUNC is called with CBDATA; OPAL_ERROR: there is none. Returns as a get. */
int btl_verbena_served_key(btl_verbena_endpoint_t *endpoint, uint64_t remote, size_t len,
                           uint32_t *key, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbdata);

/* Ends with an error what was asked of ENDPOINT. */
void btl_verbena_served_fail(btl_verbena_endpoint_t *endpoint, int status);

/* --- reg ------------------------------------------------------------------------------------ */

/* Makes MODULE's registration caches. Returns an OPAL status. */
int btl_verbena_rcaches_create(btl_verbena_module_t *module);
void btl_verbena_rcaches_destroy(btl_verbena_module_t *module);

/* Registers SIZE bytes at BASE as REGISTRATION, which says for what. Returns an OPAL status. */
int btl_verbena_region_make(btl_verbena_module_t *module, void *base, size_t size,
                            btl_verbena_registration_t *registration);

/* Deregisters something that no operation uses; false: there is nothing. */
bool btl_verbena_rcaches_evict(btl_verbena_module_t *module);

/* SIZE bytes at BASE go. Neither allocates nor frees. */
void btl_verbena_rcaches_drop(btl_verbena_module_t *module, void *base, size_t size);

mca_btl_base_registration_handle_t *btl_verbena_register_mem(mca_btl_base_module_t *btl,
                                                             btl_verbena_endpoint_t *endpoint,
                                                             void *base, size_t size,
                                                             uint32_t flags);
int btl_verbena_deregister_mem(mca_btl_base_module_t *btl,
                               mca_btl_base_registration_handle_t *handle);

/* From here on it is known who tells of memory that goes, for MODULE's cache; and no more. */
void btl_verbena_unmap_listen(btl_verbena_module_t *module);
void btl_verbena_unmap_ignore(btl_verbena_module_t *module);

/* Before each use of the cache: whether it may keep registrations. What may be stale is dropped
 * from it. */
bool btl_verbena_unmap_heard(btl_verbena_module_t *module);

/* LEN bytes at ADDRESS of the region with KEY, in host byte order, or of a window's memory, for a
 * peer to read; NULL: it may not. Until btl_verbena_deregister_mem(). */
mca_btl_base_registration_handle_t *
btl_verbena_region_hold(btl_verbena_module_t *module, uint32_t key, uint64_t address, uint64_t len);

/* Whether peers may do atomic operations there. With MODULE's lock held, which keeps the region. */
bool btl_verbena_atomic_may(const btl_verbena_module_t *module, uint32_t key, uint64_t address,
                            uint64_t len);

/* Whether LEN bytes at ADDRESS are a window's memory, which peers may do anything with; its *KEY,
 * in host byte order. On one node osc/rdma looks for what a peer has attached in that peer's own
 * list while it grows, and may name the key of another entry. With MODULE's lock held. */
bool btl_verbena_window_has(const btl_verbena_module_t *module, uint64_t address, uint64_t len,
                            uint32_t *key);

/* Memory of this process that a peer, or ob1, names by its address. */
static inline void *btl_verbena_at(uint64_t address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

static inline bool btl_verbena_is_own(const btl_verbena_endpoint_t *endpoint)
{
    return !endpoint->peer && endpoint->proc == opal_proc_local_get();
}

/* The region behind HANDLE, one of this process; NULL: none, or the registration had failed. */
static inline vbn_mem_t *btl_verbena_handle_mem(mca_btl_base_registration_handle_t *handle)
{
    if (!handle || !handle->usable)
        return NULL;
    return BTL_VERBENA_OWNER(btl_verbena_registration_t, handle, handle)->mem;
}

#endif
