/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tagged messages: sends and receives that find each other by source and tag.
 *
 * Operation. A send hands its bytes to messages (tx.c) as it stands in its endpoint's `sends`:
 * whole if they fit one, in parts if they are few, else as an offer, upon which the receiver reads
 * them or lets them be put (tag_rdma.c), unless it has said before where they shall be
 * (tag_ready.c). A message that arrives takes the oldest receive that fits it (tag_match.c), or is
 * kept as an early one until a receive asks for it. Buffer ownership. A
 * struct vbn_op is ours from the call that returned VBN_PENDING until its `done` is called; its
 * `room` is a struct vbn_tag_op. Early messages are copied out of their receive buffers; beyond
 * `unexpected_limit` bytes they stay in them and the peer's credits run out, unless a receive is
 * posted that they may be for, or an answer of the peer's is waited for, which comes behind them:
 * both must be found however much lies before. Errors. An endpoint
 * that ends takes its sends, and the receives that name it, with it.
 *
 * All functions but the five entries are called with the context's lock held.
 */
#ifndef VBN_TAG_H
#define VBN_TAG_H

#include "pool.h"
#include "tx.h"
#include "verbena_transport.h"
#include "wire.h"

struct vbn_rxbuf;

enum vbn_tag_state {
    VBN_TAG_NONE,    /* not a message: a put, a get */
    VBN_TAG_SENDING, /* in ep->sends: not all of it is in messages */
    VBN_TAG_LEAVING, /* in ep->leaving: over, but the last message of it is not posted */
    VBN_TAG_OFFERED, /* in ep->offers: the receiver's answer is to come */
    VBN_TAG_POSTED,  /* a receive that waits for its message */
    VBN_TAG_FILLING, /* one that takes the parts of its message as they come */
    VBN_TAG_TO_MOVE, /* its next read or put has to be started; this and the next eight in ep->moves
                      */
    VBN_TAG_MOVING,  /* its read or put is under way */
    VBN_TAG_MOVED,   /* all has been read or put; the peer has to be told */
    VBN_TAG_TO_ASK,  /* a receive that shall be put its bytes; the sender has to be asked; from here
                        to WITHDRAWING the peer has to answer (vbn_tag_awaits()) */
    VBN_TAG_ASKED,   /* they come, and then the word that they have */
    VBN_TAG_TO_REFUSE,   /* a receive that can do neither; the sender has to be told */
    VBN_TAG_REFUSED,     /* it waits for the parts instead */
    VBN_TAG_TO_WITHDRAW, /* a receive, cancelled; the sender, which knows its place, has to be told
                          */
    VBN_TAG_WITHDRAWING, /* it waits for the sender to say that it has forgotten that */
    VBN_TAG_ENDED,       /* in ctx->tags.ended: `done` is to be called */
};

struct vbn_tag_op {
    TAILQ_ENTRY(vbn_tag_op) entry;
    vbn_endpoint_t *ep; /* receive: NULL for any */
    char *buf;
    size_t cap;      /* bytes at `buf` */
    uint64_t at;     /* bytes sent, or taken */
    uint64_t number; /* send: the offer's id; receive: its order among all, then the offer's id;
                        leaving and ended: the status */
    uint64_t mask;   /* receive */
    vbn_mem_t *mem;  /* the region that its memory is in, as long as it needs one; or NULL */
    union {
        uint64_t remote;      /* moving: where the bytes are, or shall be */
        struct vbn_msg *last; /* sending: the last message of it if that waits, or NULL; leaving */
        uint32_t place;       /* receive that is ready: the number of its place */
    };
    uint32_t rkey;
    uint8_t state;
    uint8_t bucket;   /* receive: where it is posted, unless wild */
    bool wild : 1;    /* receive: in tags->wild rather than in a bucket */
    bool ready : 1;   /* receive: the sender has been told where its message shall be */
    bool begun : 1;   /* send: its first part is in a message */
    bool refused : 1; /* send: the receiver takes it in parts only */
    bool puts : 1;    /* send: puts what it has offered */
    bool told : 1;    /* it has said so behind its last put */
};
_Static_assert(sizeof(struct vbn_tag_op) <= sizeof(((struct vbn_op *)0)->room), "room of an op");
TAILQ_HEAD(vbn_tag_list, vbn_tag_op);

static inline struct vbn_tag_op *vbn_tag_of(struct vbn_op *op)
{
    return (struct vbn_tag_op *)(void *)op->room;
}

/* An operation that begins. Field by field: compilers clear the whole with a string instruction,
 * which takes longer to begin than these to be written. */
static inline void vbn_tag_op_init(struct vbn_tag_op *t, vbn_endpoint_t *ep, void *buf, size_t cap,
                                   uint64_t mask)
{
    t->ep = ep;
    t->buf = buf;
    t->cap = cap;
    t->at = 0;
    t->mask = mask;
    t->mem = NULL;
    t->last = NULL;
    t->state = 0;
    t->ready = t->begun = t->refused = t->puts = t->told = false;
}

static inline struct vbn_op *vbn_tag_op(struct vbn_tag_op *t)
{
    return vbn_container_of((uint64_t *)(void *)t, struct vbn_op, room);
}

#define VBN_EARLY_INLINE 256u

/* A message, or an offer of one, that no receive has asked for yet. */
struct vbn_tag_early {
    struct vbn_pool_obj obj;
    TAILQ_ENTRY(vbn_tag_early) in_bucket, in_order;
    vbn_endpoint_t *ep;
    struct vbn_wire_offer head;    /* tag and length; of an offer all of it */
    struct vbn_tag_stream *stream; /* that its further parts come by; NULL: none do */
    bool is_offer;
    uint64_t have, room; /* bytes that are here; that fit at `data` */
    char *data;          /* `small`, or from malloc() */
    char small[VBN_EARLY_INLINE];
};
TAILQ_HEAD(vbn_tag_earlies, vbn_tag_early);

/* Where the peer wants the message of a tag. */
struct vbn_tag_place {
    struct vbn_pool_obj obj;
    TAILQ_ENTRY(vbn_tag_place) entry;
    struct vbn_wire_offer at;
    uint32_t number;
};

#define VBN_TAG_PLACES 16u /* of one peer at once */
#define VBN_TAG_RECENT 8u  /* messages whose tags are remembered */

#define VBN_TAG_BUCKETS 256u /* numbered by a byte */

struct vbn_tags {
    struct vbn_tag_list posted[VBN_TAG_BUCKETS], wild; /* receives, by source and tag; the others */
    struct vbn_tag_earlies early[VBN_TAG_BUCKETS], early_order;
    struct vbn_pool earlies, places;
    uint64_t early_bytes; /* in all of them */
    uint64_t eager_limit; /* bytes up to which any message is copied */
    uint64_t whole_max;   /* bytes up to which one goes as a whole */
    uint64_t posts;       /* receives so far: their order */
    uint32_t offers;      /* so far: their ids */
    uint32_t wild_any;    /* receives in `wild` that name no endpoint */
    struct vbn_tag_list ended;
    TAILQ_HEAD(vbn_tag_busy_list, vbn_endpoint)
    busy;            /* endpoints with sends to go on with, or messages held */
    bool casts_wait; /* groups have something to send by connections */
    bool over;       /* vbn_tags_abandon(): no receive is posted any more */
};

/* Messages that come one after the other, in parts: whoever takes those that come now, or NULL. */
struct vbn_tag_stream {
    struct vbn_tag_op *filling;
    struct vbn_tag_early *early;
};

/* What an endpoint has of it. */
struct vbn_tag_peer {
    struct vbn_tag_list sends, leaving, offers, moves;
    uint32_t posted; /* receives that name it */
    bool busy;       /* in tags->busy */
    struct vbn_tag_stream stream;
    STAILQ_HEAD(, vbn_rxbuf) held;   /* receive buffers that keep early messages */
    uint32_t sent, taken;            /* messages by connections that have begun: to it; from it */
    uint64_t recent[VBN_TAG_RECENT]; /* the tags of those to it, number N at N % VBN_TAG_RECENT */
    TAILQ_HEAD(, vbn_tag_place) places; /* that it has told */
    uint32_t place_count;
    uint32_t ready;                          /* receives whose places it has been told */
    struct vbn_tag_op *told[VBN_TAG_PLACES]; /* these, or NULL */
    uint32_t told_count, heard_count;        /* places so far: to it; from it */
    uint32_t last_offer;                     /* its id: of the last one from it */
    uint32_t withdrawals, withdrawn;         /* of them: asked for, and answered by it, so far */
    uint32_t heard, answered;                /* the same of its own */
    TAILQ_ENTRY(vbn_endpoint) busy_entry;
};

void vbn_tags_init(vbn_context_t *ctx);
void vbn_tags_fini(vbn_context_t *ctx);
void vbn_tag_peer_init(struct vbn_tag_peer *peer);
void vbn_tag_peer_fini(vbn_endpoint_t *ep);

/* EP has said farewell: what its peer has offered will not be fetched. */
void vbn_tag_said_bye(vbn_endpoint_t *ep);

/* --- the entries: contracts in verbena_transport.h; these take the lock ------------------------
 */

int vbn_tag_send(vbn_endpoint_t *ep, const void *buf, size_t len, uint64_t tag, struct vbn_op *op);
int vbn_tag_recv(vbn_context_t *ctx, vbn_endpoint_t *ep, void *buf, size_t len, uint64_t tag,
                 uint64_t mask, struct vbn_op *op);
int vbn_tag_recv_ready(vbn_endpoint_t *ep, void *buf, size_t len, uint64_t tag, struct vbn_op *op);
int vbn_tag_probe(vbn_context_t *ctx, vbn_endpoint_t *ep, uint64_t tag, uint64_t mask,
                  struct vbn_op *found);
int vbn_tag_cancel(vbn_context_t *ctx, struct vbn_op *op);

/* --- what the rest of the transport calls ------------------------------------------------------
 */

enum vbn_tag_verdict { VBN_TAG_TAKEN, VBN_TAG_HELD, VBN_TAG_MALFORMED };

/* A message of type TAG from EP with the header HDR, in BUF. HELD: BUF stays here until it is given
 * to vbn_rx_release(). */
enum vbn_tag_verdict vbn_tag_arrived(vbn_endpoint_t *ep, struct vbn_rxbuf *buf,
                                     const struct vbn_wire_hdr *hdr);

/* What EP has sent to a group, a message of KIND in STREAM. HELD: there is no room for it now, it
 * has to come once more. */
enum vbn_tag_verdict vbn_tag_cast(vbn_endpoint_t *ep, struct vbn_tag_stream *stream, uint8_t kind,
                                  const void *data, size_t len);

/* STREAM has ended with STATUS. */
void vbn_tag_stream_ended(vbn_context_t *ctx, struct vbn_tag_stream *stream, int status);

/* Goes on with what waited for messages or credits, and calls back what has ended; how much. */
int vbn_tags_advance(vbn_context_t *ctx);

/* EP has ended with STATUS: ends all that depends on it. */
void vbn_tag_peer_ended(vbn_endpoint_t *ep, int status);

/* Ends all receives that are left, when the context closes. */
void vbn_tags_abandon(vbn_context_t *ctx);

/* Something of EP is not yet with its receiver. */
static inline bool vbn_tag_has_work(const struct vbn_tag_peer *peer)
{
    return !TAILQ_EMPTY(&peer->sends) || !TAILQ_EMPTY(&peer->offers) || !TAILQ_EMPTY(&peer->moves);
}

static inline bool vbn_tags_idle(const struct vbn_tags *tags)
{
    return TAILQ_EMPTY(&tags->busy) && TAILQ_EMPTY(&tags->ended) && !tags->casts_wait;
}

/* --- between the files of it --------------------------------------------------------------------
 */

static inline bool vbn_tag_fits(uint64_t want, uint64_t mask, uint64_t tag)
{
    return ((want ^ tag) & mask) == 0;
}

/* The oldest receive for a message TAG of EP; NULL: none. The second takes it out of its list. */
struct vbn_tag_op *vbn_tag_find_posted(vbn_endpoint_t *ep, uint64_t tag);
struct vbn_tag_op *vbn_tag_take_posted(vbn_endpoint_t *ep, uint64_t tag);
void vbn_tag_post(vbn_context_t *ctx, struct vbn_tag_op *t);
void vbn_tag_unpost(vbn_context_t *ctx, struct vbn_tag_op *t);

/* True while a receive is posted that may be for a message of EP. */
bool vbn_tag_wanted(const vbn_endpoint_t *ep);

/* The same, or while an answer of EP's is waited for. It comes behind all that EP has sent before,
 * and needs a credit as that does. */
bool vbn_tag_awaits(const vbn_endpoint_t *ep);

/* The oldest early message that T asks for; NULL: none. */
struct vbn_tag_early *vbn_tag_find_early(vbn_context_t *ctx, const struct vbn_tag_op *t,
                                         uint64_t tag);
/* Adds one, without its bytes. NULL: no memory. */
struct vbn_tag_early *vbn_tag_add_early(vbn_endpoint_t *ep, const struct vbn_wire_offer *head,
                                        bool is_offer);
/* Adds bytes of the message. It takes memory for what has come, whatever length the peer has said.
 * False: no memory. */
bool vbn_tag_append_early(vbn_context_t *ctx, struct vbn_tag_early *early, const void *data,
                          size_t len);
void vbn_tag_drop_early(vbn_context_t *ctx, struct vbn_tag_early *early);

/* Ends T, which is in no list, with STATUS: `done` is called at the end of this progress, or in the
 * next one. */
void vbn_tag_end(vbn_context_t *ctx, struct vbn_tag_op *t, int status);

/* The same, as soon as MSG, the last one of T, is posted: what is over does not need this side any
 * more, which may wait for something else then. */
void vbn_tag_leave(vbn_endpoint_t *ep, struct vbn_tag_op *t, struct vbn_msg *msg, int status);

/* TX of EP, which had waited, is posted. */
void vbn_tag_posted(vbn_endpoint_t *ep, const struct vbn_tx *tx);

/* T needs its region no more. */
void vbn_tag_release_mem(struct vbn_tag_op *t);

/* Puts EP among those that vbn_tags_advance() looks at. */
void vbn_tag_busy(vbn_endpoint_t *ep);

/* Says KIND about the offer ID, or the withdrawals up to it; NULL: no message now. */
struct vbn_msg *vbn_tag_answer(vbn_endpoint_t *ep, uint8_t kind, uint32_t id);

/* Goes on with the sends, the moves, the messages held, as far as may be; how many got on. */
int vbn_tag_push_sends(vbn_endpoint_t *ep);
int vbn_tag_push_moves(vbn_endpoint_t *ep);
int vbn_tag_unhold(vbn_endpoint_t *ep, bool all);

/* Brings the message of OFFER into T, a receive that it has found. */
void vbn_tag_fetch(vbn_endpoint_t *ep, struct vbn_tag_op *t, const struct vbn_wire_offer *offer);

/* Puts what T, a send, has offered to where ASK wants it. */
void vbn_tag_put_there(vbn_endpoint_t *ep, struct vbn_tag_op *t, const struct vbn_wire_offer *ask);

/* Puts all of T, a send that nobody has heard of, THERE, and sends WORD. Else than VBN_OK: nothing
 * has begun. */
int vbn_tag_put_whole(vbn_endpoint_t *ep, struct vbn_tag_op *t, const struct vbn_wire_offer *there,
                      const struct vbn_rider *word);

/* T, which is in no list, waits in ep->moves in STATE, or ends where EP is over. */
void vbn_tag_park(vbn_endpoint_t *ep, struct vbn_tag_op *t, enum vbn_tag_state state);

/* The receive in STATE of ep->moves for the peer's offer ID, taken out; NULL: none. */
struct vbn_tag_op *vbn_tag_take_waiting(vbn_endpoint_t *ep, enum vbn_tag_state state, uint32_t id);

/* T, a receive, has found the message TAG of LEN bytes; what it ends with if all goes well. */
void vbn_tag_note_sender(vbn_endpoint_t *ep, struct vbn_tag_op *t, uint64_t tag, uint64_t len);

static inline int vbn_tag_outcome(const struct vbn_tag_op *t, uint64_t len)
{
    return len > t->cap ? VBN_ERR_TRUNCATED : VBN_OK;
}

/* The peer's answers to an offer of ours, and its word that it has put what it offered. False:
 * there is none. */
bool vbn_tag_fin(vbn_endpoint_t *ep, uint32_t id);
bool vbn_tag_refused(vbn_endpoint_t *ep, uint32_t id);
bool vbn_tag_asked(vbn_endpoint_t *ep, const struct vbn_wire_offer *ask);
bool vbn_tag_done(vbn_endpoint_t *ep, uint32_t id);

/* --- places told before, tag_ready.c ------------------------------------------------------------
 */

/* Tells the sender of T, which is posted, where its message shall be, if it can be told now. */
void vbn_tag_tell_ready(struct vbn_tag_op *t);

/* The receive whose place has NUMBER for its lower half; NULL: none. */
struct vbn_tag_op *vbn_tag_told(const vbn_endpoint_t *ep, uint16_t number);

/* T's place is not used any more; its region is T's until it ends. */
void vbn_tag_not_ready(struct vbn_tag_op *t);

/* T, cancelled and in no list, ends when its sender does not use its place any more. */
void vbn_tag_withdraw(vbn_endpoint_t *ep, struct vbn_tag_op *t);

/* The peer has forgotten the places that were withdrawn, up to NUMBER. False: it was not asked to.
 */
bool vbn_tag_forgotten(vbn_endpoint_t *ep, uint32_t number);

/* What else is said about places, a message of KIND. */
enum vbn_tag_verdict vbn_tag_place_word(vbn_endpoint_t *ep, uint8_t kind, const void *data,
                                        size_t len);

/* Puts T, a send, where its receiver is ready for it, and says so. False: nothing has begun. */
bool vbn_tag_place(vbn_endpoint_t *ep, struct vbn_tag_op *t);

/* Says that withdrawn places are forgotten, if that is not said yet: now, or when it can be. */
void vbn_tag_answer_withdrawals(vbn_endpoint_t *ep);

/* EP's place for TAG, if there is one, is not used any more; none is. */
void vbn_tag_forget_place(vbn_endpoint_t *ep, uint64_t tag);
void vbn_tag_forget_places(vbn_endpoint_t *ep);

#endif
