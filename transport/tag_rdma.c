/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offered messages, whose bytes go straight from one buffer to the other.
 *
 * Operation. Who receives one reads the bytes and says so (FIN). Where its device's reads are
 * unsound or slow it asks for them (ASK): the sender puts them there and says so (DONE) behind its
 * last put, which that message cannot overtake. Where it cannot register its memory it refuses, and
 * they come in parts. A receive that reads and a send that puts do the same: they move T's bytes
 * from `at` on, a piece at a time. Buffer ownership. Their regions stay registered until they are
 * over. Errors. A read or put that the device denies could be answered by nobody: it ends the
 * endpoint.
 */
#include "context.h"
#include "rma.h"

static void go_on_moving(vbn_endpoint_t *ep, struct vbn_tag_op *t);

/* Whatever is called below may end the endpoint, and with it all that is in its list: so T is taken
 * out of it first, and comes back by this. */
void vbn_tag_park(vbn_endpoint_t *ep, struct vbn_tag_op *t, enum vbn_tag_state state)
{
    if (ep->state >= VBN_EP_CLOSED) {
        vbn_tag_end(ep->ctx, t, vbn_endpoint_over_status(ep));
        return;
    }
    t->state = state;
    TAILQ_INSERT_HEAD(&ep->tag.moves, t, entry);
    if (state != VBN_TAG_ASKED && state != VBN_TAG_REFUSED && state != VBN_TAG_WITHDRAWING)
        vbn_tag_busy(ep);
}

/* --- reads and puts -----------------------------------------------------------------------------
 */

/* STATUS: the endpoint's, where it is over; else the device's, upon what the peer has told. */
static void move_failed(vbn_endpoint_t *ep, struct vbn_tag_op *t, int status)
{
    bool over = ep->state >= VBN_EP_CLOSED;
    const char *what = t->puts ? "put" : "read";

    TAILQ_REMOVE(&ep->tag.moves, t, entry);
    vbn_tag_end(ep->ctx, t, over ? status : VBN_ERR_PROTOCOL);
    if (!over)
        vbn_endpoint_fail(ep, VBN_ERR_PROTOCOL,
                          "peer %s by device %s: a tagged message cannot be %s", ep->name,
                          ep->ctx->device.name, what);
}

static void move_done(void *arg, vbn_endpoint_t *ep, int status)
{
    struct vbn_tag_op *t = arg;
    vbn_context_t *ctx = ep->ctx;

    vbn_lock(ctx);
    if (vbn_likely(status == VBN_OK))
        go_on_moving(ep, t);
    else
        move_failed(ep, t, status);
    vbn_unlock(ctx);
}

static uint64_t bytes_to_move(struct vbn_tag_op *t)
{
    return vbn_min(vbn_tag_op(t)->len, t->cap);
}

/* The last PIECE of T, a send: DONE is said with it, if that leaves at once. */
static int put_last(vbn_endpoint_t *ep, struct vbn_tag_op *t, size_t at, size_t piece)
{
    struct vbn_wire_answer answer = {.id = (uint32_t)t->number};
    struct vbn_rider done = {.number = answer.id, .last = ep->ctx->tags.offers};
    const struct vbn_rider *word = NULL;
    int rc;

    if (vbn_tx_may_put(ep) && vbn_tx_get(ep, sizeof(answer), &done.msg) == VBN_OK) {
        vbn_wire_answer_write(vbn_tx_payload(done.msg), &answer);
        vbn_tx_set(done.msg, VBN_WIRE_TAG, VBN_TAG_DONE, sizeof(answer));
        word = &done;
    }
    t->told = word != NULL;
    rc = vbn_rma_put_told(ep, t->buf + at, t->mem, t->remote + at, t->rkey, piece, move_done, t,
                          word);
    if (rc != VBN_OK && word) {
        t->told = false;
        vbn_tx_drop(done.msg);
    }
    return rc;
}

static void move_piece(vbn_endpoint_t *ep, struct vbn_tag_op *t, uint64_t left)
{
    size_t piece = vbn_min(left, ep->ctx->device.max_msg_size), at = t->at;
    int rc;

    t->state = VBN_TAG_MOVING;
    t->at += piece;
    if (t->puts && piece == left)
        rc = put_last(ep, t, at, piece);
    else
        rc = vbn_rma_start(ep, t->puts ? VBN_TX_PUT : VBN_TX_GET, t->buf + at, t->mem,
                           t->remote + at, t->rkey, piece, move_done, t);
    if (rc == VBN_OK)
        return;
    t->at = at; /* nothing has begun */
    TAILQ_REMOVE(&ep->tag.moves, t, entry);
    if (rc == VBN_ERR_AGAIN)
        vbn_tag_park(ep, t, VBN_TAG_TO_MOVE);
    else
        vbn_tag_end(ep->ctx, t, rc);
}

/* T, which is in ep->tag.moves, has all: the peer has to be told, unless it has been. */
static void moved(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    int status = t->puts ? VBN_OK : vbn_tag_outcome(t, vbn_tag_op(t)->len);
    struct vbn_msg *msg;

    TAILQ_REMOVE(&ep->tag.moves, t, entry);
    if (t->told) {
        vbn_tag_end(ep->ctx, t, status);
        return;
    }
    msg = vbn_tag_answer(ep, t->puts ? VBN_TAG_DONE : VBN_TAG_FIN, (uint32_t)t->number);
    if (msg)
        vbn_tag_leave(ep, t, msg, status);
    else
        vbn_tag_park(ep, t, VBN_TAG_MOVED);
}

static void go_on_moving(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    uint64_t left = bytes_to_move(t) - t->at;

    if (left)
        move_piece(ep, t, left);
    else
        moved(ep, t);
}

static void start_moving(vbn_endpoint_t *ep, struct vbn_tag_op *t,
                         const struct vbn_wire_offer *there)
{
    t->at = 0;
    t->remote = there->addr;
    t->rkey = there->rkey;
    t->state = VBN_TAG_TO_MOVE;
    TAILQ_INSERT_TAIL(&ep->tag.moves, t, entry);
    go_on_moving(ep, t);
}

void vbn_tag_put_there(vbn_endpoint_t *ep, struct vbn_tag_op *t, const struct vbn_wire_offer *ask)
{
    t->puts = true;
    t->cap = ask->len;
    start_moving(ep, t, ask);
}

int vbn_tag_put_whole(vbn_endpoint_t *ep, struct vbn_tag_op *t, const struct vbn_wire_offer *there,
                      const struct vbn_rider *word)
{
    int rc;

    t->puts = t->told = true;
    t->at = t->cap;
    t->state = VBN_TAG_MOVING;
    TAILQ_INSERT_TAIL(&ep->tag.moves, t, entry);
    rc = vbn_rma_put_told(ep, t->buf, t->mem, there->addr, there->rkey, t->cap, move_done, t, word);
    if (rc == VBN_OK)
        return rc;
    TAILQ_REMOVE(&ep->tag.moves, t, entry);
    t->puts = t->told = false;
    t->at = 0;
    return rc;
}

/* --- receives that let the sender act -----------------------------------------------------------
 */

static bool ask(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    struct vbn_wire_offer ask = {.tag = vbn_tag_op(t)->tag,
                                 .len = bytes_to_move(t),
                                 .addr = (uintptr_t)t->buf,
                                 .rkey = t->mem->mr->rkey,
                                 .id = (uint32_t)t->number};
    struct vbn_msg *msg;

    if (vbn_tx_get(ep, sizeof(ask), &msg) != VBN_OK)
        return false;
    vbn_wire_offer_write(vbn_tx_payload(msg), &ask);
    vbn_tx_send(msg, VBN_WIRE_TAG, VBN_TAG_ASK, sizeof(ask));
    return true;
}

/* T is in no list. */
static void ask_or_park(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    vbn_tag_park(ep, t, ask(ep, t) ? VBN_TAG_ASKED : VBN_TAG_TO_ASK);
}

static void refuse_or_park(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    bool told = vbn_tag_answer(ep, VBN_TAG_REFUSE, (uint32_t)t->number);

    vbn_tag_park(ep, t, told ? VBN_TAG_REFUSED : VBN_TAG_TO_REFUSE);
}

void vbn_tag_fetch(vbn_endpoint_t *ep, struct vbn_tag_op *t, const struct vbn_wire_offer *offer)
{
    bool reads = ep->ctx->device.good_reads;
    uint64_t want = vbn_min(offer->len, t->cap);

    vbn_tag_note_sender(ep, t, offer->tag, offer->len);
    t->ep = ep;
    t->number = offer->id;
    if (want && !t->mem) /* it has one if it has told its place */
        t->mem = vbn_mem_for(ep->ctx, t->buf, want, VBN_ACCESS_LOCAL_WRITE, true);
    if (!want || (t->mem && reads))
        start_moving(ep, t, offer);
    else if (t->mem)
        ask_or_park(ep, t);
    else
        refuse_or_park(ep, t);
}

struct vbn_tag_op *vbn_tag_take_waiting(vbn_endpoint_t *ep, enum vbn_tag_state state, uint32_t id)
{
    struct vbn_tag_op *t;

    TAILQ_FOREACH(t, &ep->tag.moves, entry)
    {
        if (t->state == state && t->number == id) {
            TAILQ_REMOVE(&ep->tag.moves, t, entry);
            return t;
        }
    }
    return NULL;
}

bool vbn_tag_done(vbn_endpoint_t *ep, uint32_t id)
{
    struct vbn_tag_op *t = vbn_tag_take_waiting(ep, VBN_TAG_ASKED, id);

    if (t)
        vbn_tag_end(ep->ctx, t, vbn_tag_outcome(t, vbn_tag_op(t)->len));
    return t != NULL;
}

/* --- both ---------------------------------------------------------------------------------------
 */

static bool go_on(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    switch (t->state) {
    case VBN_TAG_TO_MOVE:
    case VBN_TAG_MOVED:
        go_on_moving(ep, t);
        return true;
    case VBN_TAG_TO_ASK:
        TAILQ_REMOVE(&ep->tag.moves, t, entry);
        ask_or_park(ep, t);
        return true;
    case VBN_TAG_TO_REFUSE:
        TAILQ_REMOVE(&ep->tag.moves, t, entry);
        refuse_or_park(ep, t);
        return true;
    case VBN_TAG_TO_WITHDRAW:
        TAILQ_REMOVE(&ep->tag.moves, t, entry);
        vbn_tag_withdraw(ep, t);
        return true;
    default:
        return false;
    }
}

int vbn_tag_push_moves(vbn_endpoint_t *ep)
{
    struct vbn_tag_op *t, *next;
    int n = 0;

    for (t = TAILQ_FIRST(&ep->tag.moves); t && ep->state < VBN_EP_CLOSED; t = next) {
        next = TAILQ_NEXT(t, entry);
        n += go_on(ep, t);
    }
    return n;
}
