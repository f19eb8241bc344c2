/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: what one member sends reaches all others by multicast, and connections see to what is
 * lost.
 *
 * Operation. Each group has an unreliable queue pair of its own, attached to a multicast address
 * that the members compute alike (group.c). A member numbers its datagrams, keeps each until all
 * others have acknowledged it, and stops `window` beyond the first that is kept (cast.c). A
 * receiver takes them in their order only: on a gap it asks their sender, by its connection, for
 * all from there on, and these come by the connection. What nobody can miss, the last one, its
 * sender asks for, when it has not been acknowledged for a while. Buffer ownership. A datagram's
 * buffer is the group's, until it has left and all have acknowledged it. Receive buffers are the
 * device's but while their datagram is looked at. Errors. What comes by multicast may be anybody's:
 * what cannot be is passed over. A queue pair that fails is given up, and everything goes by
 * connections. A member that is lost ends the group's sends. Threads. As everything of a context; a
 * group is freed by progress alone, never under its callers.
 */
#ifndef VBN_GROUP_H
#define VBN_GROUP_H

#include "base.h"
#include "endpoint.h"
#include "netif.h"
#include "pool.h"
#include "tag.h"
#include "timer.h"
#include "wire.h"

struct rdma_cm_id;
struct rdma_ud_param;

#define VBN_GRH_LEN          40u   /* bytes before what a datagram brings */
#define VBN_CAST_MAX         4096u /* bytes of a datagram */
#define VBN_GROUP_LANDINGS   256u  /* receive buffers */
#define VBN_GROUP_WINDOW_MIN 16u
#define VBN_GROUP_WINDOW_MAX 64u

/* A datagram that has been sent, and is kept. */
struct vbn_cast {
    struct vbn_pool_obj obj;
    struct vbn_comp comp;
    vbn_group_t *group;
    uint32_t number;
    uint32_t len;
};

/* A receive buffer. */
struct vbn_landing {
    struct vbn_pool_obj obj;
    struct vbn_comp comp;
    vbn_group_t *group;
    struct ibv_sge sge;
    struct ibv_recv_wr wr;
};

/* What the members of a group have in common, and how many of them have been opened here. */
struct vbn_group_name {
    uint64_t hash, opened;
    UT_hash_handle hh; /* in ctx->group_names */
};

struct vbn_group_member {
    vbn_endpoint_t *ep;  /* NULL: this side, or one that has ended */
    uint32_t next, told; /* numbers of its datagrams: the next one; up to which it was told */
    uint32_t asked;      /* the one that it was asked for last, if `asks` */
    uint32_t acked;      /* of ours: before it all has come there */
    uint32_t repair;     /* the next that goes to it by its connection, if `repairs` */
    bool heard;          /* by multicast */
    bool aged;           /* it has not been told for a tick */
    bool asks, repairs;
    bool held; /* there was no room for the next one */
    struct vbn_tag_stream stream;
};

struct vbn_group {
    LIST_ENTRY(vbn_group) entry; /* in ctx->groups */
    vbn_context_t *ctx;
    uint64_t id;
    uint32_t count, me;
    uint32_t unheard; /* others that have not been heard yet */
    int status;       /* VBN_PENDING until all have been, VBN_OK, or why it is no use */
    bool closing;

    struct rdma_cm_id *cm_id;
    union vbn_sockaddr address;
    bool joined, attached; /* `cm_id` has the address; the queue pair its datagrams */
    struct ibv_qp *qp;     /* NULL: not yet, or not any more */
    struct ibv_ah *ah;
    struct vbn_cq *cq;
    union ibv_gid mgid;
    uint16_t mlid;
    uint32_t qkey;
    uint32_t mtu; /* bytes of a datagram */
    struct vbn_pool casts, landings;
    struct ibv_recv_wr *chain; /* receives to be posted */
    uint32_t chain_len;

    uint32_t window;
    uint32_t next;                               /* the next datagram's number */
    uint32_t acked;                              /* before it all has come everywhere */
    uint32_t left;                               /* before it the device is done with all */
    struct vbn_cast *kept[VBN_GROUP_WINDOW_MAX]; /* number N at N % window */
    struct vbn_tag_list sends;                   /* not all of them in datagrams yet */
    bool repairs;                                /* those of a member, or `sends` can go on */

    struct vbn_timer timer;
    uint32_t hello_in, hello_gap; /* ticks: to the next hello, 0: none; and between two */
    struct vbn_cast *hello;
    bool hello_out;              /* with the device */
    uint32_t quiet, quiet_acked; /* ticks since `acked` was that */
    uint32_t poke_after;         /* as many */
    struct vbn_group_member member[];
};

/* --- the entries: contracts in verbena_transport.h; these take the lock -------------------------
 */

int vbn_group_open(vbn_context_t *ctx, uint64_t key, vbn_peer_t *const *peers, uint32_t count,
                   uint32_t me, vbn_group_t **group, struct vbn_error *err);
int vbn_group_ready(const vbn_group_t *group);
int vbn_group_send(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                   struct vbn_op *op);
void vbn_group_close(vbn_group_t *group);

/* --- what the rest of the transport calls --------------------------------------------------------
 */

/* GROUP's address has been joined, as UD says; or, UD being NULL, has not, or is not any more, for
 * CAUSE. */
void vbn_group_joined(vbn_group_t *group, const struct rdma_ud_param *ud, int cause);

/* A message about a group from EP. False: it cannot be. */
bool vbn_group_word(vbn_endpoint_t *ep, const void *data, size_t len);

/* A word or a datagram is waited for that EP sends by its connection: for the end of a send, of a
 * group, or of a receive that has begun. */
bool vbn_groups_await(const vbn_endpoint_t *ep);

/* A receive has taken the beginning of a message of EP's: if there was no room for the rest, that
 * is asked for. */
void vbn_groups_want(vbn_endpoint_t *ep);

/* Sends by connections what waits for that; how many datagrams. */
int vbn_groups_advance(vbn_context_t *ctx);

/* EP has ended with STATUS. */
void vbn_groups_peer_ended(vbn_endpoint_t *ep, int status);

/* Closes all groups; returns how many still have something to deliver. */
size_t vbn_groups_shut(vbn_context_t *ctx);

/* Frees those that are closed and have delivered everything: in progress, from nobody's callback.
 */
void vbn_groups_reap(vbn_context_t *ctx);

/* Ends all sends that are left, when the context closes. */
void vbn_groups_abandon(vbn_context_t *ctx);
void vbn_groups_fini(vbn_context_t *ctx);

/* --- between group.c and cast.c
 * ------------------------------------------------------------------- */

/* Sees to it that GROUP is looked at in a tick. */
void vbn_group_wake(vbn_group_t *group);

/* The queue pair has failed: everything goes by connections. */
VBN_COLD void vbn_group_mute(vbn_group_t *group, const char *why);

/* M has been heard by multicast. */
VBN_COLD void vbn_group_heard(vbn_group_t *group, struct vbn_group_member *m);

/* A member has not heard all others yet, this side perhaps. */
VBN_COLD void vbn_group_waited_for(vbn_group_t *group);

/* What pools make. */
void vbn_cast_init(struct vbn_pool *pool, struct vbn_pool_obj *obj);
void vbn_landing_init(struct vbn_pool *pool, struct vbn_pool_obj *obj);

/* Gives the device all receive buffers that it can have. False: it failed. */
bool vbn_group_land(vbn_group_t *group);

void vbn_group_hello(vbn_group_t *group);

/* Says KIND with NUMBER to M by its connection. False: not now. */
bool vbn_group_tell(vbn_group_t *group, struct vbn_group_member *m, uint8_t kind, uint32_t number);

/* Tells M what of its datagrams has come. False: not now. */
bool vbn_group_ack(vbn_group_t *group, struct vbn_group_member *m);

/* What comes before `acked` is settled anew; sends that waited for it go on. */
void vbn_group_settle(vbn_group_t *group);

/* Without a queue pair: what is not acknowledged goes to all by their connections, and soon what
 * waits to be sent. */
void vbn_group_repair_all(vbn_group_t *group);

#endif
