/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving side.
 *
 * Operation. Buffers wait in the shared receive queue, or in a queue of the connection's own where
 * the device has no shared one. A message is checked, counted and handed to its handler.
 * Buffer ownership. The pool, then the queue, then (from its completion until the handler returned)
 * this file, then the queue's refill chain, which is posted as one list.
 * Errors. A message that breaks the wire format or the credits ends its connection.
 */
#ifndef VBN_RX_H
#define VBN_RX_H

#include "pool.h"

struct vbn_conn;

struct vbn_rxbuf {
    struct vbn_pool_obj obj;
    void *msg; /* the message that it holds: its header */
    bool own;  /* of no pool: for what comes out of a ring, or is held where buffers are scarce */
    struct vbn_comp comp;
    vbn_context_t *ctx;
    struct ibv_sge sge;
    struct ibv_recv_wr wr;
    STAILQ_ENTRY(vbn_rxbuf) held_entry; /* in an endpoint's tag.held */
    uint32_t session;                   /* of the connection that a held message came by, */
    bool stale;                         /* which is no more */
    struct vbn_rq *rq;                  /* that it is chained for or posted in; or NULL */
};

/* A receive queue: shared by all (srq) or of one queue pair (qp). */
struct vbn_rq {
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct vbn_rxbuf *chain;    /* to be posted */
    uint32_t chain_len, refill; /* so many are posted at once, at least */
    uint32_t posted;            /* with the device */
    uint32_t target; /* buffers that belong here, posted, chained or in a handler's hands */
};

struct vbn_rx {
    struct vbn_pool pool;
    struct vbn_rq shared; /* srq NULL: the device has none, or it is not wanted */
    uint32_t granted;     /* sum of the windows of all connections on the shared queue; the part of
                             it beyond `max` has no buffers */
    uint32_t stale;       /* buffers of it that hold messages of connections that are no more */
    uint32_t max;         /* buffers of the shared queue at most */
};

/* Buffers beyond the windows, so that refilling in lists never eats into what was granted. */
#define VBN_RX_SLACK 16u

int vbn_rx_init(vbn_context_t *ctx, struct vbn_error *err);
void vbn_rx_fini(vbn_context_t *ctx);

/*
 * Reserves receive buffers for a new connection: a window of at least VBN_WINDOW_MIN that the peer
 * can be granted, or 0 where memory is short. Give back by vbn_rx_ungrant().
 *
 * On the shared queue a window starts small, for most peers say little, and grows with its use by
 * vbn_rx_widen(). Once the queue is spoken for, newcomers get the smallest window all the same: a
 * message may then find no buffer and is sent again by the device (RNR). iWARP has no such thing,
 * and there a newcomer is refused.
 */
uint16_t vbn_rx_grant(vbn_context_t *ctx);
void vbn_rx_ungrant(struct vbn_conn *conn);

/* CONN's peer gets twice the window from now on, as far as `window` and a fair share allow. */
void vbn_rx_widen(struct vbn_conn *conn);

/* CONN's peer has used up half of its window, and is told more: less often, if that was quick. */
void vbn_rx_used_up(struct vbn_conn *conn);

/* Takes back BUF, which held a message of EP. */
void vbn_rx_release(vbn_endpoint_t *ep, struct vbn_rxbuf *buf);

/* CONN's peer is told of what has come, of its grant, and of rings, when nothing else has done so
 * soon. */
void vbn_rx_owe_ack(struct vbn_conn *conn);

/* Takes what lies in CONN's ring, which shows the next message (vbn_ring_shows()), and what
 * follows; returns how many messages. */
int vbn_rx_take_ring(struct vbn_conn *conn);

/* Frees BUF, which is of no pool; NULL: none. */
void vbn_rx_free_own(struct vbn_rxbuf *buf);

/* EP has sent what cannot be: it ends. */
VBN_COLD void vbn_rx_malformed(vbn_endpoint_t *ep);

/* Fills the own receive queue of CONN's new queue pair for its window; not for shared ones. */
int vbn_rx_attach(struct vbn_conn *conn);

/* Takes back what is left in the own receive queue of CONN; its queue pair is gone. */
void vbn_rx_detach(struct vbn_conn *conn);

#endif
