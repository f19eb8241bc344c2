/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings: memory of the receiver's that a peer who sends often writes its short messages into, which
 * costs a device less than to find a receive buffer and to complete it.
 *
 * Operation. After `ring_after` short messages of a peer its receiver offers it a ring, if it has
 * not slept meanwhile. From then on a short message is written into the next slot, sealed, where
 * the peer has acknowledged the one that lay there; else it is sent as any other. Each takes a
 * credit, a number, and its place in the order of all, by whichever way it comes. The receiver
 * looks into its rings at each progress. Who wants to sleep withdraws them, for nothing wakes him
 * when one is written into. Until the peers have heard that he looks now and then; and a peer that
 * hears it after it has written wakes him by saying so.
 * Buffer ownership. A ring is its connection's, and the peer may write into it until it has said
 * that it has heard of its withdrawal, or until the queue pair is no more. What is taken out is
 * copied to `spare` first: the peer cannot change it any more when it is looked at.
 * Errors. A slot whose message does not become whole holds up what is behind it, until a message
 * comes the other way, which a sender without acknowledgements sees to: then the connection has
 * lost something, and another one takes over. A peer whose device denies writing gets no more.
 */
#ifndef VBN_RING_H
#define VBN_RING_H

#include "base.h"
#include "wire.h"

struct vbn_conn;
struct vbn_rxbuf;

#define VBN_RING_BYTES ((size_t)VBN_RING_SLOTS * VBN_RING_SLOT)

/* The peer's ring, for messages to it. */
struct vbn_ring_out {
    uint32_t room;                /* bytes of a message at most, and one more; 0: it is not open */
    uint16_t heard;               /* the peer's count that we go by */
    uint32_t next;                /* slots written */
    uint32_t asked;               /* the acknowledgement that was asked for last */
    uint64_t addr;                /* in the peer's memory */
    struct ibv_send_wr put;       /* the request of a message, but for its flags and its slot */
    uint32_t seq[VBN_RING_SLOTS]; /* numbers of the messages that lie there */
};

/* Our own, for the peer's messages. */
struct vbn_ring_in {
    char *slots;      /* NULL: there is none */
    const char *next; /* the slot to be read next */
    struct ibv_mr *mr;
    uint16_t count, heard; /* struct vbn_wire_ring: ours, and the peer's word on it */
    uint16_t told;         /* our count that the peer can have heard of */
    uint32_t came;         /* messages that came by receive buffers */
    uint32_t sleeps;       /* the context's, when a ring was thought of last */
    bool used;             /* since another peer wanted one */
};

struct vbn_ring {
    struct vbn_ring_out out;
    struct vbn_ring_in in;
    bool say; /* the peer is to be told of a change */
};

/* Of a context. */
struct vbn_rings {
    struct vbn_conn **conns; /* those that have one */
    uint32_t count, max;
    uint32_t turns;          /* calls of progress that found something in them */
    uint32_t sleeps;         /* how often it was about to sleep */
    uint64_t quiet_ns;       /* since when it would sleep, but for a ring, */
    uint64_t quiet_msgs;     /* and how many messages had come then */
    struct vbn_rxbuf *spare; /* for the next message out of a ring; NULL: to be made */
};

int vbn_rings_init(vbn_context_t *ctx, struct vbn_error *err);
void vbn_rings_fini(vbn_context_t *ctx);

/* CONN is established, and its wire version known. */
void vbn_ring_init(struct vbn_conn *conn);

/* CONN's queue pair is no more. */
void vbn_ring_fini(struct vbn_conn *conn);

/* So many short messages of CONN's peer have come that a ring may be worth it. */
VBN_COLD void vbn_ring_consider(struct vbn_conn *conn);

/* What CONN says of rings, now. */
struct vbn_wire_ring vbn_ring_word(struct vbn_conn *conn);

/* The peer's word. False: it cannot be. */
VBN_COLD bool vbn_ring_told(struct vbn_conn *conn, const struct vbn_wire_ring *word);

/* The peer's device has denied a message of CONN's: only one that goes into a ring can be. It goes
 * another way next time. */
VBN_COLD void vbn_ring_denied(struct vbn_conn *conn);

/* The context would sleep: its peers are to write no more. */
void vbn_rings_rest(vbn_context_t *ctx);

/* When it has to look into its rings all the same; UINT64_MAX: no peer can write any more. */
uint64_t vbn_rings_look_ns(vbn_context_t *ctx, uint64_t now);

/* Whether the next message, of LEN bytes, goes into the ring, where all before ACKED have arrived.
 */
static inline bool vbn_ring_takes(const struct vbn_ring_out *out, uint32_t len, uint32_t acked)
{
    return len < out->room && vbn_seq_before(out->seq[out->next % VBN_RING_SLOTS], acked);
}

/* The request that writes message SEQ into the next slot. */
static inline struct ibv_send_wr *vbn_ring_put(struct vbn_ring_out *out, uint32_t seq)
{
    uint32_t slot = out->next++ % VBN_RING_SLOTS;

    out->seq[slot] = seq;
    out->put.wr.rdma.remote_addr = out->addr + (uint64_t)slot * VBN_RING_SLOT;
    return &out->put;
}

/* The next slot has been read. */
static inline void vbn_ring_advance(struct vbn_ring_in *in)
{
    in->used = true;
    in->next += VBN_RING_SLOT;
    if (vbn_unlikely(in->next == in->slots + VBN_RING_BYTES))
        in->next = in->slots;
}

/* Whether message SEQ lies in the next slot, or begins to. */
static inline bool vbn_ring_shows(const struct vbn_ring_in *in, uint32_t seq)
{
    const volatile uint32_t *at =
        (const volatile uint32_t *)(in->next + offsetof(struct vbn_wire_hdr, seq));

    return *at == htole32(seq);
}

#endif
