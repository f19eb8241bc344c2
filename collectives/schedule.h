/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one rank does in one collective: rounds, each of receives and sends and, when those are
 * over, of local steps. An algorithm writes it knowing ranks and lengths only; the engine runs it
 * over a transport, tests run it in memory or count it. A cast is a send to all other ranks.
 *
 * Memory is named by place and offset: the caller's two buffers, and scratch that the schedule
 * reserves. Messages of nothing are left out on both sides; those longer than the transport takes
 * are cut on both sides alike.
 *
 * Every message has a tag of its step, which both sides compute; messages between two ranks with
 * one tag go in their order. A receive is EARLY when no earlier round touches its memory: the
 * engine posts it at the start. A send is LATE when nothing after it writes to its memory: the
 * rounds go on without it, only the end waits for it.
 */
#ifndef VBN_SCHEDULE_H
#define VBN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vbn_place { VBN_AT_SEND, VBN_AT_RECV, VBN_AT_TMP, VBN_PLACES };

struct vbn_at {
    enum vbn_place place;
    size_t off; /* bytes */
};

enum vbn_step_kind {
    VBN_STEP_RECV,    /* LEN bytes from PEER to `to` */
    VBN_STEP_SEND,    /* LEN bytes at `from` to PEER */
    VBN_STEP_CAST,    /* LEN bytes at `from` to all other ranks */
    VBN_STEP_COPY,    /* `to` = `from` */
    VBN_STEP_REDUCE,  /* `to` = `from` ∘ `to` */
    VBN_STEP_MERGE,   /* signatures, see check.h: `to` with `from` */
    VBN_STEP_VERDICT, /* the signature at `to` says whether to go on */
    VBN_STEP_END,     /* of the round */
};

/* Which round a message belongs to. */
enum vbn_step_when { VBN_IN_ROUND, VBN_EARLY /* receives */, VBN_LATE /* sends */, VBN_WHENS };

/* What a round has: its first step says. */
enum { VBN_ROUND_RECVS = 1 /* that are not early */, VBN_ROUND_SENDS = 2, VBN_ROUND_LOCAL = 4 };

struct vbn_step {
    uint8_t kind;
    uint8_t round_has;
    uint8_t when;
    bool by_cast; /* a receive: what comes was cast */
    uint16_t tag;
    uint32_t peer;
    uint32_t slot; /* messages: which of the request's operations carries it, after seal() */
    struct vbn_at to, from;
    size_t len;
};

struct vbn_sched {
    struct vbn_step *steps;
    size_t count, room;
    size_t round_at;              /* where the round begins that is being written */
    size_t tmp_len;               /* bytes of scratch */
    size_t max_message;           /* bytes; longer ones are cut */
    size_t longest;               /* bytes, of its messages */
    uint32_t messages[VBN_WHENS]; /* of the round that is being written, and of the others all */
    uint32_t max_round_messages;
    bool failed; /* no memory: what is there is not whole */
};

/* Tags of algorithms wrap below this; those above are check.c's. */
#define VBN_STEP_TAGS   3840u
#define VBN_STEP_LAST   (VBN_STEP_TAGS - 1u)
#define VBN_SCHED_SMALL 4096u /* bytes: a receive so small is worth memory of its own */
#define VBN_SCHED_ALIGN 64u

/* Makes *SCHED, zeroed or used before, empty; memory is kept. */
void vbn_sched_reset(struct vbn_sched *sched, size_t max_message);
void vbn_sched_fini(struct vbn_sched *sched);

/* Reserves LEN bytes of scratch. */
struct vbn_at vbn_sched_tmp(struct vbn_sched *sched, size_t len);

static inline struct vbn_at vbn_at(enum vbn_place place, size_t off)
{
    struct vbn_at at = {place, off};

    return at;
}

static inline struct vbn_at vbn_at_plus(struct vbn_at at, size_t off)
{
    at.off += off;
    return at;
}

static inline bool vbn_step_is_message(const struct vbn_step *step)
{
    return step->kind <= VBN_STEP_CAST;
}

static inline bool vbn_step_sends(const struct vbn_step *step)
{
    return step->kind == VBN_STEP_SEND || step->kind == VBN_STEP_CAST;
}

/* The steps of the round being written; vbn_sched_end() ends it. STEP is its tag before it wraps.
 */
void vbn_sched_recv(struct vbn_sched *sched, uint32_t peer, struct vbn_at to, size_t len,
                    size_t step, bool early);
void vbn_sched_send(struct vbn_sched *sched, uint32_t peer, struct vbn_at from, size_t len,
                    size_t step);
void vbn_sched_send_late(struct vbn_sched *sched, uint32_t peer, struct vbn_at from, size_t len,
                         size_t step);
/* To all other ranks, and what of PEER's comes so: in no order with what it sends otherwise. */
void vbn_sched_cast(struct vbn_sched *sched, struct vbn_at from, size_t len, size_t step);
void vbn_sched_recv_cast(struct vbn_sched *sched, uint32_t peer, struct vbn_at to, size_t len,
                         size_t step, bool early);
void vbn_sched_copy(struct vbn_sched *sched, struct vbn_at to, struct vbn_at from, size_t len);
void vbn_sched_reduce(struct vbn_sched *sched, struct vbn_at to, struct vbn_at from, size_t len);
void vbn_sched_end(struct vbn_sched *sched);

/* The schedule is written. */
void vbn_sched_seal(struct vbn_sched *sched);

/* Messages without data. */
void vbn_sched_signal(struct vbn_sched *sched, uint32_t peer, size_t step);
void vbn_sched_await(struct vbn_sched *sched, uint32_t peer, size_t step);
void vbn_sched_cast_signal(struct vbn_sched *sched, size_t step);
void vbn_sched_await_cast(struct vbn_sched *sched, uint32_t peer, size_t step);

/* Any other step, with no rule applied. */
void vbn_sched_add(struct vbn_sched *sched, const struct vbn_step *step);

#endif
