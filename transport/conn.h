/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: one rdma_cm id and one queue pair, from the first look at an address until the last
 * completion is in. One made without rdma_cm (half.h) has no id. An endpoint has at most one
 * established connection, but attempts in both directions and the remains of older ones may exist
 * beside it.
 *
 * All changes of state go through vbn_conn_event() and the table in conn.c; doc/states.md draws it.
 */
#ifndef VBN_CONN_H
#define VBN_CONN_H

#include "bare.h"
#include "flow.h"
#include "netif.h"
#include "qp.h"
#include "ring.h"
#include "timer.h"
#include "wire.h"

enum vbn_conn_state {
    VBN_CONN_NEW,           /* made; nothing asked of rdma_cm yet */
    VBN_CONN_ADDR,          /* resolving the address */
    VBN_CONN_ROUTE,         /* resolving the route */
    VBN_CONN_CONNECTING,    /* our request is with the peer */
    VBN_CONN_ACCEPTING,     /* our answer to the peer's request is on its way; may receive */
    VBN_CONN_HALF,          /* made without rdma_cm: ready, the peer's blob has not come */
    VBN_CONN_ESTABLISHED,   /* may send and receive */
    VBN_CONN_DISCONNECTING, /* closed here: waits for its completions and for the peer */
    VBN_CONN_DRAINING,      /* waits for its completions */
    VBN_CONN_LEAVING,       /* waits for the peer */
    VBN_CONN_DEAD,          /* to be freed at the end of this progress */
    VBN_CONN_STATES
};

enum vbn_conn_event {
    VBN_EV_CONNECT,     /* start as the active side */
    VBN_EV_ACCEPT,      /* start as the passive side */
    VBN_EV_PREPARE,     /* start without rdma_cm */
    VBN_EV_JOIN,        /* the peer's blob has come, the queue pair is connected by it */
    VBN_EV_ADDR_OK,     /* address resolved */
    VBN_EV_ROUTE_OK,    /* route resolved */
    VBN_EV_ANSWER,      /* the peer accepted; its private data are in `hello` */
    VBN_EV_ESTABLISHED, /* the peer is ready to receive */
    VBN_EV_REJECTED,    /* the peer refused */
    VBN_EV_UNHEARD,     /* nothing says that our answer has reached the peer */
    VBN_EV_CM_ERROR,    /* resolving or connecting failed */
    VBN_EV_GONE,        /* the peer disconnected, or the id has no connection any more */
    VBN_EV_QP_ERROR,    /* a completion with an error, or the device says so */
    VBN_EV_CLOSE,       /* this side wants no more of it */
    VBN_EV_DRAINED,     /* the last completion is in */
    VBN_EV_TIMEOUT,     /* the state's deadline has passed */
    VBN_CONN_EVENTS
};

struct vbn_conn {
    vbn_context_t *ctx;
    vbn_endpoint_t *ep; /* always set: endpoints outlive their connections; HALF: ctx->nobody */
    enum vbn_conn_state state;
    TAILQ_ENTRY(vbn_conn) entry; /* in ctx->conns */
    struct rdma_cm_id *id; /* NULL: made without rdma_cm, which says nothing of its end either */
    struct vbn_qp q;
    struct vbn_rq rq; /* its own receive queue, where none is shared */
    struct vbn_flow flow;
    struct vbn_ring ring;
    struct vbn_bare bare;
    uint16_t window;    /* granted by vbn_rx_grant(), or 0 */
    uint8_t version;    /* of the wire, once established */
    bool active;        /* we asked */
    bool asked;         /* one side has asked the other: the end of its id may be told */
    bool calls;         /* iWARP: the kernel has yet to say what became of our request */
    bool parted;        /* the peer was told by a disconnect */
    bool nobody_there;  /* refused: nobody listens at the peer's address */
    uint32_t told_next; /* acknowledgement that the peer was last told */
    bool ack_listed;    /* in ctx->acks */
    bool ack_aged;      /* was listed at the last look */
    bool ack_asked;     /* the peer waits for one, and could not be told at once */
    uint64_t used_ns;   /* when half of the window was last used up */
    bool dry;           /* messages have waited for credits, which the peer has not heard */
    uint8_t dry_said;   /* how often it has */
    bool gapped;        /* a message is missing: none is taken that does not say its whole number */
    TAILQ_ENTRY(vbn_conn) ack_entry;
    struct vbn_ctl *ctl;
    struct vbn_timer timer;
    struct vbn_wire_hello hello; /* the peer's */
    uint8_t read_in, read_out;   /* depths offered by the peer's request */
    uint8_t reason;              /* of a rejection, or 0 */
    union vbn_sockaddr dst;
    struct vbn_half *half; /* in the state HALF */
    uint32_t session;      /* its number between these peers, from 1 */
    uint64_t since_ns;     /* when it was made, and then when it was established */
    uint64_t silent_ns;    /* how long the peer's device had not answered when it was given up */
    char cause[96];        /* why it failed, for the log */
};

/* Makes a connection in the state NEW for EP. ID is NULL but for the passive side. NULL: no memory.
 */
struct vbn_conn *vbn_conn_create(vbn_endpoint_t *ep, struct rdma_cm_id *id);

/* The one gate: looks up what EVENT does in the present state, moves, acts. */
void vbn_conn_event(struct vbn_conn *conn, enum vbn_conn_event event);

/* Notes why, then raises EVENT; the first cause is kept. */
void vbn_conn_fail(struct vbn_conn *conn, enum vbn_conn_event event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Raises DRAINED once no completion is outstanding on a failed queue pair. */
void vbn_conn_check_drained(struct vbn_conn *conn);

/* Frees the dead. Only between completions: nothing polled may still point to them. */
int vbn_conn_reap(vbn_context_t *ctx);

const char *vbn_conn_state_str(enum vbn_conn_state state);

/* The device refused a request, which RC tells. */
void vbn_conn_post_failed(struct vbn_conn *conn, int rc) __attribute__((cold));

/*
 * Posts SWR; WR (may be NULL for an unsignaled request that nobody waits for) is retired when its
 * slot is freed. False: the device refused, the connection has been told, WR is not taken.
 */
static inline bool vbn_conn_post(struct vbn_conn *conn, struct ibv_send_wr *swr, struct vbn_wr *wr)
{
    struct vbn_qp *q = &conn->q;
    struct ibv_send_wr *bad;
    int rc;

    if (wr) {
        wr->conn = conn;
        wr->slot = q->head;
        wr->first = q->group;
        swr->wr_id = (uintptr_t)&wr->comp;
    } else {
        swr->wr_id = (uintptr_t)&q->orphan;
    }
    rc = ibv_post_send(q->qp, swr, &bad);
    if (vbn_unlikely(rc)) {
        vbn_conn_post_failed(conn, rc);
        return false;
    }
    q->ring[q->head++ & q->mask] = wr;
    q->unsignaled++;
    if (swr->send_flags & IBV_SEND_SIGNALED) {
        q->group = q->head;
        q->unsignaled = 0;
    }
    return true;
}

/* True while rdma_cm is at work on it: before it is established or has failed. */
static inline bool vbn_conn_in_progress(const struct vbn_conn *conn)
{
    return conn->state < VBN_CONN_HALF;
}

#endif
