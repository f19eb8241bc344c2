/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport table: one struct of entry points that a transport plugin fills, and that a
 * message-passing runtime, or the collectives, call. `rc` (queue pairs over verbs) and `ucx` fill
 * it.
 *
 *     query → open → address → (peers exchange addresses) → connect
 *         → send / recv / put / get, progress or wait … → disconnect → close
 *
 * Operations. The caller owns a struct vbn_op for each operation until it is over. Entries that
 * start one return
 *     VBN_OK        it is over already; op->status is set, op->done is not called
 *     VBN_PENDING   it goes on; op->status is VBN_PENDING until it is over, then op->done is called
 *     an error      nothing was started; the op is the caller's
 * An op that is over may be freed or started again at once, also inside its own `done`.
 *
 * Threads. A port opened with `multithreaded` may be used by any thread at once, otherwise by one
 * at a time. Callbacks run inside progress(), wait(), arm() or close(), on the thread that called
 * it, with no lock held; they may call any entry but those.
 *
 * Blocking. Only open(), close() and wait() block, each within a bound.
 *
 * Arguments. A NULL handle where one is needed, a tag or mask above VBN_TAG_MAX, and lengths beyond
 * vbn_port_attr are VBN_ERR_INVALID. Handles of one port must not be given to another: where this
 * can be told it is VBN_ERR_INVALID too.
 */
#ifndef VERBENA_TRANSPORT_H
#define VERBENA_TRANSPORT_H

#include "verbena.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The table's version: the upper half changes when an old host and a new plugin cannot work
 * together, the lower half when entries are added at the end. A host takes a plugin with the same
 * upper half whose `size` reaches the last entry that the host needs.
 */
#define VBN_TRANSPORT_ABI 0x00010003u

/* Entries that every transport has reach to here; whether it has a later one is asked for. */
#define VBN_TRANSPORT_SIZE_MIN offsetof(struct vbn_transport, half_create)
#define VBN_TRANSPORT_HAS(tr, entry)                                                               \
    ((tr)->size >= offsetof(struct vbn_transport, entry) + sizeof((tr)->entry) &&                  \
     (tr)->entry != NULL)

/* A plugin's shared object exports one function of this name and type. Static storage. */
#define VBN_TRANSPORT_SYMBOL "vbn_transport_plugin"
typedef const struct vbn_transport *(*vbn_transport_plugin_fn)(void);

#define VBN_TAG_BITS 40
#define VBN_TAG_MAX  ((UINT64_C(1) << VBN_TAG_BITS) - 1)

typedef struct vbn_port vbn_port_t;     /* a transport, opened */
typedef struct vbn_peer vbn_peer_t;     /* a peer of a port */
typedef struct vbn_region vbn_region_t; /* registered memory of a port */
typedef struct vbn_rkey vbn_rkey_t;     /* a peer's region, as its owner's key names it */
typedef struct vbn_group vbn_group_t;   /* peers that one send reaches */

struct vbn_op {
    void (*done)(struct vbn_op *op); /* the caller's, may be NULL: called when it is over */
    void *arg;                       /* the caller's */
    int status; /* VBN_PENDING, then 0 or an error; VBN_ERR_TRUNCATED, VBN_ERR_CANCELED, … */
    vbn_peer_t *peer; /* receive: the sender; NULL if this side has not connected to it */
    uint64_t tag;     /* receive: the message's tag */
    size_t len;       /* receive: bytes that were sent, also where the buffer took fewer */
    union { /* the transport's while the operation goes on; the bytes tell compilers that it keeps
             * other types there */
        uint64_t room[12];
        char room_bytes[12 * sizeof(uint64_t)];
    };
};

/* A parameter and its value, as text; both outlive open(). */
struct vbn_setting {
    const char *name, *value;
};

struct vbn_port_config {
    size_t size;                        /* sizeof(struct vbn_port_config) of the caller */
    const struct vbn_setting *settings; /* of the transport's own parameters */
    size_t setting_count;
    uint32_t rank;    /* a number of the caller's own, below 2^24, different on every peer */
    uint64_t job_key; /* ports with different keys refuse each other */
    bool multithreaded;
    void *callback_arg;
    vbn_log_fn log; /* NULL: errors and warnings go to stderr */
    /* PEER, which this side has connected to, is lost with STATUS; its operations end with it.
     * Called once a peer. May be NULL. */
    void (*peer_error)(void *arg, vbn_peer_t *peer, int status, const char *reason);
    vbn_clock_fn clock_ns; /* NULL: CLOCK_MONOTONIC */
    vbn_random_fn random;  /* NULL: getrandom(2) */
};

struct vbn_port_attr {
    size_t size;        /* sizeof(struct vbn_port_attr) of the caller, set before the call */
    const char *device; /* valid as long as the port */
    size_t
        eager_limit; /* bytes: tagged messages up to this leave without waiting for the receiver */
    size_t max_send; /* bytes in one tagged message */
    size_t max_rma;  /* bytes in one put or get */
    size_t max_address; /* bytes that hold any address of this transport */
    size_t max_key;     /* bytes that hold any key of this transport */
};

struct vbn_transport {
    uint32_t abi;        /* VBN_TRANSPORT_ABI that the plugin was built with */
    uint32_t size;       /* sizeof(struct vbn_transport) that the plugin was built with */
    const char *name;    /* as in `--mca transport NAME` */
    const char *version; /* of the plugin's release */
    const char *help;    /* one sentence */

    /* The transport's parameters, in the user's words <name>_<parameter>. Their `offset` says
     * nothing to a host. Static storage. */
    const struct vbn_param *(*params)(size_t *count);

    /* Whether open() has a chance here: VBN_OK, or the reason. Cheap, and leaves nothing behind. */
    int (*query)(struct vbn_error *err);

    /* Opens a port. *ERR (may be NULL) names the thing, the reason and the remedy. */
    int (*open)(const struct vbn_port_config *config, vbn_port_t **port, struct vbn_error *err);

    /* Closes in good order and frees everything, PORT included; what is not over then ends with
     * VBN_ERR_CLOSED. Returns VBN_OK, or VBN_ERR_TIMEOUT when something had to be dropped. */
    int (*close)(vbn_port_t *port);

    /* The first half of close() without blocking: how much is not over yet. The caller goes on with
     * progress() until it is 0, then calls close(). A NULL port has nothing. */
    size_t (*shutdown)(vbn_port_t *port);

    void (*attr)(vbn_port_t *port, struct vbn_port_attr *attr);

    /* Writes the port's address to BUF of *LEN bytes and sets *LEN to its length, also when it is
     * too small (VBN_ERR_INVALID). */
    int (*address)(vbn_port_t *port, void *buf, size_t *len);

    /* Gives the peer with that address, one and the same for each address. Nothing need be
     * exchanged: the first operation connects. USER is the caller's. */
    int (*connect)(vbn_port_t *port, const void *address, size_t len, void *user, vbn_peer_t **peer,
                   struct vbn_error *err);
    void *(*peer_user)(const vbn_peer_t *peer);

    /* Ends it in good order: what was sent is delivered first. PEER must not be used afterwards;
     * receives that name it end. */
    void (*disconnect)(vbn_peer_t *peer);

    /* Sends LEN bytes at BUF, which must not change until it is over. Messages of one port to one
     * peer are matched in their order. BUF may be NULL if LEN is 0. Over means that BUF is free
     * and that the device has the message: it arrives whatever the sender does then, unless the
     * connection fails. */
    int (*send)(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op);

    /* Takes the first message from PEER (NULL: from anybody) whose tag equals TAG in the bits of
     * MASK into BUF. VBN_ERR_TRUNCATED: it was longer than LEN; op->len says how long, BUF has its
     * start. */
    int (*recv)(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                uint64_t mask, struct vbn_op *op);

    /* Whether such a message waits: VBN_OK with peer, tag and len in *FOUND, or VBN_ERR_AGAIN. */
    int (*probe)(vbn_port_t *port, vbn_peer_t *peer, uint64_t tag, uint64_t mask,
                 struct vbn_op *found);

    /* Asks for OP, a pending receive, to end with VBN_ERR_CANCELED. VBN_OK: it will, by its `done`
     * (one of recv_ready() perhaps by its message); VBN_ERR_AGAIN: too late or no receive, it ends
     * by itself. */
    int (*cancel)(vbn_port_t *port, struct vbn_op *op);

    /* Registers memory with a set of enum vbn_access bits; it stays the caller's. Tagged messages
     * in it need no registration of their own, and may outlast this one. */
    int (*mem_register)(vbn_port_t *port, void *addr, size_t len, unsigned access,
                        vbn_region_t **region);
    void (*mem_deregister)(vbn_region_t *region);

    /* Writes the key by which peers name REGION, as address() does; peers make it usable by
     * rkey_import(), and free it by rkey_release(). */
    int (*mem_key)(vbn_region_t *region, void *buf, size_t *len);
    int (*rkey_import)(vbn_peer_t *peer, const void *buf, size_t len, vbn_rkey_t **rkey);
    void (*rkey_release)(vbn_rkey_t *rkey);

    /* Writes to, or reads from, the virtual address REMOTE of PEER. LOCAL lies in REGION. When it
     * is over the data are at their place, on the peer's side too (a put with rc on iWARP waits
     * for the peer's progress()). VBN_ERR_AGAIN: too many at once; progress() and try again. */
    int (*put)(vbn_peer_t *peer, const void *local, vbn_region_t *region, uint64_t remote,
               vbn_rkey_t *rkey, size_t len, struct vbn_op *op);
    int (*get)(vbn_peer_t *peer, void *local, vbn_region_t *region, uint64_t remote,
               vbn_rkey_t *rkey, size_t len, struct vbn_op *op);

    /* Advances everything; returns how much was done (0: idle). Never blocks. */
    int (*progress)(vbn_port_t *port);

    /* Waits until there is something to do, or TIMEOUT_MS (-1: no limit) have passed, and does it.
     * What another thread has done, by its progress or a cancel, does not end it: where several use
     * the port they give a limit. Returns as progress(). */
    int (*wait)(vbn_port_t *port, int timeout_ms);

    /*
     * For a host's own event loop: a descriptor, the same for the port's life, that becomes
     * readable when there is something to do, once arm() has returned VBN_OK. VBN_ERR_AGAIN: there
     * is something to do now, call progress() first; VBN_ERR_DEVICE: it cannot be armed.
     * *TIMEOUT_MS: progress() is due after so many milliseconds even if the descriptor stays quiet;
     * -1: never.
     */
    int (*event_fd)(vbn_port_t *port);
    int (*arm)(vbn_port_t *port, int *timeout_ms);

    void (*counters)(vbn_port_t *port, struct vbn_counters *counters);

    /*
     * From 1.1 on, and only where VBN_TRANSPORT_HAS() them (all three or none): connections made of
     * two halves whose blobs the caller exchanges, without a connection manager. As
     * vbn_half_create(), vbn_half_join() and vbn_half_destroy(); blobs fit into max_address bytes.
     */
    int (*half_create)(vbn_port_t *port, void *buf, size_t *len, vbn_half_t **half,
                       struct vbn_error *err);
    int (*half_join)(vbn_half_t *half, const void *blob, size_t len, void *user, vbn_peer_t **peer,
                     struct vbn_error *err);
    void (*half_destroy)(vbn_half_t *half);

    /*
     * From 1.2 on, and only where VBN_TRANSPORT_HAS() it: recv() of the whole TAG from PEER, for a
     * message that is LEN bytes long and is likely to be sent later than this. A long one may then
     * go to BUF at once, where recv() makes its sender ask. All else is as for recv(), whatever is
     * sent, but that cancel() waits for PEER's progress: until it has forgotten BUF, or has sent
     * the message, with which OP ends then.
     */
    int (*recv_ready)(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                      struct vbn_op *op);

    /*
     * From 1.3 on, and only where VBN_TRANSPORT_HAS() them (all four or none): groups, in which one
     * send reaches all other members; by multicast, with what that loses sent again by send()'s
     * way.
     *
     * Each of COUNT members opens it with the same KEY and with all members in the same order in
     * PEERS, where its own place, ME, is not looked at; those that have the same key and members,
     * one after another, in the same order on all. Never blocks. VBN_ERR_DEVICE: this device
     * cannot do that.
     */
    int (*group_open)(vbn_port_t *port, uint64_t key, vbn_peer_t *const *peers, uint32_t count,
                      uint32_t me, vbn_group_t **group, struct vbn_error *err);

    /* VBN_PENDING until all other members have been heard by multicast, then VBN_OK. An error: that
     * will not be. */
    int (*group_ready)(const vbn_group_t *group);

    /* As send(), to all other members, who take it by recv(), not by recv_ready(). Only where
     * group_ready() has said VBN_OK on all members: the caller sees to that. Messages of one member
     * to the group are matched in their order, but in none with those of send(). Ends with an error
     * where a member is lost. */
    int (*group_send)(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                      struct vbn_op *op);

    /* Ends it in good order: what was sent is delivered first. GROUP must not be used afterwards.
     */
    void (*group_close)(vbn_group_t *group);
};

/*
 * A port of `rc` over a context that the caller has opened itself, and that outlives the port:
 * peers are the context's endpoints. With it connect() leaves the `user` of an endpoint that exists
 * alone where it is given NULL, and close() frees no more than the port. VBN_ERR_NO_MEMORY. Any
 * thread.
 */
int vbn_rc_port(vbn_context_t *ctx, vbn_port_t **port);

/*
 * Lends MEM, a region of the context's, to tagged messages of the ports over it: those in its bytes
 * need no registration of their own. Until as many calls of vbn_mem_reclaim(), or its end. A
 * message that is on its way then keeps what it needs of it until it is over. Any thread.
 */
void vbn_mem_lend(vbn_mem_t *mem);
void vbn_mem_reclaim(vbn_mem_t *mem);

/* The transport over reliable-connected queue pairs. Static storage. Any thread. */
const struct vbn_transport *vbn_rc_transport(void);

#ifdef __cplusplus
}
#endif

#endif
