/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over UCX: what its files share.
 *
 * Operation. A port is a UCP worker. A message's 64-bit tag has the sender's rank in its upper 24
 * bits and the table's tag below. UCP's callbacks run inside UCP calls; they only move the
 * operation from the port's list of those that go on to that of those that are over. The `done`
 * of the caller is called from progress(), outside of UCP and of the lock.
 *
 * Locking. A multithreaded port has one lock around everything; UCP is told that calls are
 * serialized. Functions whose name begins with ucx_ and that take a port, a peer or an operation
 * expect it to be held, unless they are entries of the table.
 *
 * Errors. A UCP endpoint that fails ends its peer: its operations end with the peer's status, and
 * peer_error is called once, from progress().
 */
#ifndef VBN_UCX_H
#define VBN_UCX_H

#include "verbena_transport.h"
#include "../fail.h"
#include "hash.h"

#include <pthread.h>
#include <sys/queue.h>

#include <ucp/api/ucp.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define UCX_MAX_LEN   (UINT64_C(1) << 48) /* bytes in one operation; UCP itself names no limit */
#define UCX_RANK_MAX  ((UINT32_C(1) << 24) - 1)
#define UCX_RANK_MASK (~VBN_TAG_MAX)

enum ucx_kind { UCX_SEND, UCX_RECV, UCX_PUT, UCX_GET };

/* What is in the room of a struct vbn_op while it goes on. */
struct ucx_op {
    TAILQ_ENTRY(ucx_op) link; /* port->going or port->over */
    vbn_port_t *port;
    vbn_peer_t *peer;  /* that it names */
    void *requests[2]; /* UCP's, that are not over */
    uint32_t sender;   /* rank */
    int8_t status;     /* how it ended; or, while it goes on, why it is to end */
    uint8_t kind;
    uint8_t parts; /* UCP requests that are not over */
    bool over;
};
_Static_assert(sizeof(struct ucx_op) <= sizeof(((struct vbn_op *)0)->room), "room of an operation");

TAILQ_HEAD(ucx_ops, ucx_op);

/* An endpoint that closes; its peer may be gone before. */
struct ucx_closing {
    LIST_ENTRY(ucx_closing) link; /* port->closings */
    void *request;
};

struct vbn_peer {
    UT_hash_handle hh; /* port->peers, by rank */
    TAILQ_ENTRY(vbn_peer) failed_link;
    vbn_port_t *port;
    void *user;
    uint32_t rank;
    ucp_ep_h ep; /* NULL: nothing was sent yet, or it failed */
    int status;  /* VBN_OK until it failed */
    bool flushing;
    void *flush; /* UCP's request of shutdown() */
    size_t address_len;
    unsigned char address[]; /* the whole blob */
};

struct vbn_region {
    LIST_ENTRY(vbn_region) link;
    vbn_port_t *port;
    ucp_mem_h mem;
    char *addr;
    size_t len;
    unsigned access;
};

struct vbn_rkey {
    LIST_ENTRY(vbn_rkey) link;
    vbn_peer_t *peer;
    vbn_port_t *port;
    ucp_rkey_h key;
    uint64_t addr, len;
    uint32_t access;
};

struct vbn_port {
    struct vbn_port_config config;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *worker_address;
    size_t worker_address_len;
    int event_fd;
    pthread_mutex_t lock; /* where config.multithreaded */

    uint64_t eager_limit, close_timeout_ms, peer_errors;
    size_t max_key;
    char device[128];

    vbn_peer_t *peers;
    TAILQ_HEAD(, vbn_peer) failed; /* whose failure is yet to be told */
    LIST_HEAD(, vbn_region) regions;
    LIST_HEAD(, vbn_rkey) rkeys;
    struct ucx_ops going, over;
    size_t active;  /* sends, puts and gets that go on */
    size_t flushes; /* of shutdown(), that go on */
    LIST_HEAD(, ucx_closing) closings;
    bool closing, delivering;
    struct vbn_counters counters;
};

/* --- ucx_plugin.c ----------------------------------------------------------------------------- */

const struct vbn_param *ucx_params(size_t *count);
/* The value of the parameter NAME in CONFIG. */
int ucx_number(const struct vbn_port_config *config, const char *name, uint64_t *value,
               struct vbn_error *err);
const char *ucx_string(const struct vbn_port_config *config, const char *name);
/* No setting has a name that the table lacks. */
int ucx_check_settings(const struct vbn_port_config *config, struct vbn_error *err);

/* --- ucx_port.c ------------------------------------------------------------------------------- */

int ucx_open(const struct vbn_port_config *config, vbn_port_t **port, struct vbn_error *err);
void ucx_attr(vbn_port_t *port, struct vbn_port_attr *attr);
void ucx_counters(vbn_port_t *port, struct vbn_counters *counters);
uint64_t ucx_now_ms(const vbn_port_t *port);
void ucx_free_port(vbn_port_t *port);

/* --- ucx_close.c ------------------------------------------------------------------------------ */

int ucx_close(vbn_port_t *port);
size_t ucx_shutdown(vbn_port_t *port);

/* --- ucx_progress.c --------------------------------------------------------------------------- */

int ucx_progress(vbn_port_t *port);
int ucx_wait(vbn_port_t *port, int timeout_ms);
int ucx_event_fd(vbn_port_t *port);
int ucx_arm(vbn_port_t *port, int *timeout_ms);
/* Tells of what is over; unlocks and locks again around each callback. */
int ucx_deliver(vbn_port_t *port);

/* --- ucx_peer.c ------------------------------------------------------------------------------- */

int ucx_address(vbn_port_t *port, void *buf, size_t *len);
int ucx_connect(vbn_port_t *port, const void *address, size_t len, void *user, vbn_peer_t **peer,
                struct vbn_error *err);
void *ucx_peer_user(const vbn_peer_t *peer);
void ucx_disconnect(vbn_peer_t *peer);
/* The peer's endpoint, made at the first call. */
int ucx_endpoint(vbn_peer_t *peer, ucp_ep_h *ep);
vbn_peer_t *ucx_peer_of_rank(vbn_port_t *port, uint32_t rank);
/* Ends what a failed peer has left: its endpoint, and receives that name it. */
void ucx_bury(vbn_peer_t *peer);
/* FLAGS are those of ucp_ep_close_nbx(). */
void ucx_close_endpoint(vbn_peer_t *peer, unsigned flags);
void ucx_free_peer(vbn_peer_t *peer);

/* --- ucx_op.c --------------------------------------------------------------------------------- */

static inline struct ucx_op *ucx_op_of(struct vbn_op *op)
{
    return (struct ucx_op *)(void *)op->room;
}

static inline struct vbn_op *ucx_op_owner(struct ucx_op *uop)
{
    return (struct vbn_op *)(void *)((char *)uop - offsetof(struct vbn_op, room));
}

static inline void ucx_lock(vbn_port_t *port)
{
    if (port->config.multithreaded)
        pthread_mutex_lock(&port->lock);
}

static inline void ucx_unlock(vbn_port_t *port)
{
    if (port->config.multithreaded)
        pthread_mutex_unlock(&port->lock);
}

/* Prepares OP, which begins with PARTS requests, as one that goes on. */
struct ucx_op *ucx_op_begin(struct vbn_op *op, vbn_port_t *port, vbn_peer_t *peer,
                            enum ucx_kind kind);
/* It never began: STATUS is what the entry returns. */
int ucx_op_refuse(struct ucx_op *uop, int status);
/* It was over at once, with STATUS: the entry returns VBN_OK. */
int ucx_op_at_once(struct ucx_op *uop, int status);
/* One of its requests ended with STATUS. Where it was the last one, the operation is over. */
void ucx_op_part_over(struct ucx_op *uop, int status);
void ucx_op_over(struct ucx_op *uop, int status);
/* UCP does not end it any more: its requests are given back. */
void ucx_op_abandon(struct ucx_op *uop);
/* Asks for a receive to end, with STATUS; says whether it did. */
bool ucx_op_cancel(struct ucx_op *uop, int status);
int ucx_status(ucs_status_t status);

/* --- ucx_tag.c -------------------------------------------------------------------------------- */

int ucx_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op);
int ucx_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag, uint64_t mask,
             struct vbn_op *op);
int ucx_probe(vbn_port_t *port, vbn_peer_t *peer, uint64_t tag, uint64_t mask,
              struct vbn_op *found);
int ucx_cancel(vbn_port_t *port, struct vbn_op *op);

/* --- ucx_rma.c -------------------------------------------------------------------------------- */

int ucx_mem_register(vbn_port_t *port, void *addr, size_t len, unsigned access,
                     vbn_region_t **region);
void ucx_mem_deregister(vbn_region_t *region);
int ucx_mem_key(vbn_region_t *region, void *buf, size_t *len);
int ucx_rkey_import(vbn_peer_t *peer, const void *buf, size_t len, vbn_rkey_t **rkey);
void ucx_rkey_release(vbn_rkey_t *rkey);
int ucx_put(vbn_peer_t *peer, const void *local, vbn_region_t *region, uint64_t remote,
            vbn_rkey_t *rkey, size_t len, struct vbn_op *op);
int ucx_get(vbn_peer_t *peer, void *local, vbn_region_t *region, uint64_t remote, vbn_rkey_t *rkey,
            size_t len, struct vbn_op *op);

/* --- ucx_blob.c ------------------------------------------------------------------------------- */

/* Opaque bytes that peers exchange: big-endian numbers, and a checksum (vbn_hash()), as UCP does
 * not look twice at what it unpacks. */
void ucx_put_u32(unsigned char *at, uint32_t value);
void ucx_put_u64(unsigned char *at, uint64_t value);
uint32_t ucx_get_u32(const unsigned char *at);
uint64_t ucx_get_u64(const unsigned char *at);

#endif
