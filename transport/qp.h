/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair: made, moved through its states, and drained. Posting is vbn_conn_post().
 *
 * The send queue is a ring of slots. A completion ends its request and the unsignaled ones between
 * it and the signaled one before: those are known to be over. It says nothing of earlier signaled
 * ones, for not every device completes in order (siw completes a send before an earlier RDMA read).
 * Slots are free for posting again from the oldest on.
 */
#ifndef VBN_QP_H
#define VBN_QP_H

#include "cq.h"
#include "path.h"
#include "rx.h"
#include "tx.h"

struct rdma_cm_id;

struct vbn_qp {
    struct ibv_qp *qp;
    uint32_t qp_num;
    uint32_t packet; /* bytes of data in a packet, once connected; 0 on iWARP */
    struct vbn_cq *cq;
    uint32_t cq_entries;
    struct vbn_wr **ring;    /* NULL where nobody waits for the slot */
    uint32_t head, tail;     /* slots posted, slots freed */
    uint32_t mask;           /* the ring has one slot more, a power of two */
    uint32_t depth;          /* requests at once; one slot more is kept for draining */
    uint32_t group;          /* slot after the last signaled request */
    uint32_t unsignaled;     /* posted since the last signaled one */
    struct vbn_comp orphan;  /* of unsignaled requests that nobody waits for */
    struct ibv_send_wr send; /* the request of a message, but for its flags and what is in SGE */
    struct ibv_sge sge;
    struct vbn_wr drain, probe;
    uint32_t quiet_head, quiet_tail; /* `head` and `tail` at the last look at silent peers, */
    uint64_t quiet_ns;               /* and when `tail` had moved last */
    uint64_t probed_ns;              /* when the probe was posted, 0: none is out */
    bool failed;                     /* in the error state, nothing more is posted */
};

/* Makes CONN's queue pair in the INIT state with its share of a completion queue; 0 or an error. */
int vbn_qp_create(struct vbn_conn *conn);

/* Moves to RTR and RTS by what rdma_cm knows; READ_IN and READ_OUT are the depths agreed on. */
int vbn_qp_connect(struct vbn_conn *conn, uint8_t read_in, uint8_t read_out);

/* The same without rdma_cm: connects to PEER's half from ours, on the path OWN with the first PSN.
 * Returns an error number; where CONN has not been told of a failure, it may be tried again. */
int vbn_qp_join(struct vbn_conn *conn, const struct vbn_path *own, uint32_t psn,
                const struct vbn_wire_half *peer);

/* Asks the peer's queue pair for a sign of life: it fails if there is none. With it completes what
 * was posted unsignaled before. Nothing while there is no room, or one is under way. */
void vbn_qp_probe(struct vbn_conn *conn);

/* Moves to the error state; everything outstanding is flushed, vbn_conn_drained() follows. */
void vbn_qp_fail(struct vbn_conn *conn);

/* Destroys the queue pair, and ends what is still in its ring. Safe without a queue pair. */
void vbn_qp_destroy(struct vbn_conn *conn);

static inline bool vbn_qp_has_room(const struct vbn_qp *q)
{
    return q->head - q->tail < q->depth;
}

/* Requests that it takes now. */
static inline uint32_t vbn_qp_room(const struct vbn_qp *q)
{
    return vbn_qp_has_room(q) ? q->depth - (q->head - q->tail) : 0;
}

static inline bool vbn_qp_drained(const struct vbn_qp *q)
{
    return q->head == q->tail;
}

/* The request that is to tell so has been posted, and has not completed. */
static inline bool vbn_qp_drains(const struct vbn_qp *q)
{
    return !vbn_qp_drained(q) && q->ring[(q->head - 1) & q->mask] == &q->drain;
}

#endif
