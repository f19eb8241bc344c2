/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that tell their sender where their message shall be, before it is sent.
 *
 * Operation. A receive that knows its source and its length says so (READY), with its buffer's
 * address and key. If the message of its tag is not sent yet, the sender keeps that place; when it
 * sends so many bytes, it puts them there and says so right behind (PLACED): one way, where an
 * offer takes two or three. Any other message of the tag takes the receive as if nothing had been
 * said, and the sender forgets the place. Rashti, Afsahi 2009, call it receiver-initiated.
 *
 * Which message it is. Tagged messages between two peers are counted, and READY tells how many have
 * come. The sender takes it only if it has sent none of the tag since: then its next one is what
 * the receive waits for, for there is no older receive that fits, and no early message. So a place
 * is a matter of one tag, and a peer has no two of the same.
 *
 * Buffer ownership. The peer may write to the place until PLACED, until another message has taken
 * the receive, or until the peer says that it has forgotten it: a receive that is cancelled asks
 * for that (WITHDRAW). Those are numbered, and the answer (WITHDRAWN) says up to which: so it is
 * sent when there is a buffer for it, and a late one, behind a PLACED, is for no later receive.
 */
#include "context.h"
#include "rma.h"

/* --- the receiver -------------------------------------------------------------------------------
 */

/* The receive for TAG whose place has been told, and is withdrawn; NULL: none. */
static struct vbn_tag_op *being_withdrawn(const vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_op *t;

    TAILQ_FOREACH(t, &ep->tag.moves, entry)
    {
        if ((t->state == VBN_TAG_TO_WITHDRAW || t->state == VBN_TAG_WITHDRAWING) &&
            vbn_tag_op(t)->tag == tag)
            break;
    }
    return t;
}

/* Whether T, which is posted, can be put to, and its sender be told now. */
static bool may_tell(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    const vbn_context_t *ctx = ep->ctx;
    uint64_t tag = vbn_tag_op(t)->tag;

    return t->cap > ctx->tags.eager_limit && t->cap <= ctx->device.max_msg_size &&
           ep->state == VBN_EP_OPEN && ep->tag.ready < VBN_TAG_PLACES && vbn_tx_may_send(ep) &&
           ep->conn->version >= VBN_WIRE_READIES && vbn_tag_find_posted(ep, tag) == t &&
           !being_withdrawn(ep, tag);
}

/* A region in which T can be put to: one that is lent, or its own where its sender would not copy
 * either. NULL: none. */
static vbn_mem_t *place_mem(vbn_context_t *ctx, const struct vbn_tag_op *t)
{
    const unsigned access = VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_WRITE;
    vbn_mem_t *lent = vbn_mem_for(ctx, t->buf, t->cap, VBN_ACCESS_LOCAL_WRITE, false);

    if (!lent)
        return vbn_mem_for(ctx, t->buf, t->cap, access, t->cap > ctx->opts.rndv_limit);
    if (vbn_mem_takes_puts(lent))
        return lent;
    vbn_mem_done(lent);
    return NULL;
}

struct vbn_tag_op *vbn_tag_told(const vbn_endpoint_t *ep, uint16_t number)
{
    for (uint32_t i = 0; i < VBN_TAG_PLACES; i++)
        if (ep->tag.told[i] && (uint16_t)ep->tag.told[i]->place == number)
            return ep->tag.told[i];
    return NULL;
}

/* Puts T where WAS is. */
static void replace_told(struct vbn_tag_peer *peer, const struct vbn_tag_op *was,
                         struct vbn_tag_op *t)
{
    uint32_t i = 0;

    while (peer->told[i] != was)
        i++;
    peer->told[i] = t;
}

void vbn_tag_tell_ready(struct vbn_tag_op *t)
{
    vbn_endpoint_t *ep = t->ep;
    struct vbn_wire_offer ready = {
        .tag = vbn_tag_op(t)->tag, .len = t->cap, .addr = (uintptr_t)t->buf, .id = ep->tag.taken};
    struct vbn_msg *msg;

    if (!may_tell(ep, t))
        return;
    t->mem = place_mem(ep->ctx, t);
    if (!t->mem)
        return;
    if (vbn_tx_get(ep, sizeof(ready), &msg) != VBN_OK) {
        vbn_tag_release_mem(t);
        return;
    }
    t->ready = true;
    t->place = ep->tag.told_count++;
    ep->tag.ready++;
    replace_told(&ep->tag, NULL, t);
    ready.rkey = t->mem->mr->rkey;
    vbn_wire_offer_write(vbn_tx_payload(msg), &ready);
    vbn_tx_send(msg, VBN_WIRE_TAG, VBN_TAG_READY, sizeof(ready));
}

void vbn_tag_not_ready(struct vbn_tag_op *t)
{
    t->ready = false;
    t->ep->tag.ready--;
    replace_told(&t->ep->tag, t, NULL);
}

void vbn_tag_withdraw(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    struct vbn_wire_tag word = {.tag = vbn_tag_op(t)->tag,
                                .len = (uint32_t)(ep->tag.withdrawals + 1)};
    struct vbn_msg *msg;

    if (vbn_tx_get(ep, sizeof(word), &msg) != VBN_OK) {
        vbn_tag_park(ep, t, VBN_TAG_TO_WITHDRAW);
        return;
    }
    t->number = ++ep->tag.withdrawals;
    vbn_wire_tag_write(vbn_tx_payload(msg), &word);
    vbn_tx_send(msg, VBN_WIRE_TAG, VBN_TAG_WITHDRAW, sizeof(word));
    vbn_tag_park(ep, t, VBN_TAG_WITHDRAWING);
}

/* The message HEAD has been put to the place that was told for it. */
static enum vbn_tag_verdict placed(vbn_endpoint_t *ep, const struct vbn_wire_tag *head)
{
    struct vbn_tag_op *t = being_withdrawn(ep, head->tag);

    if (!t)
        t = vbn_tag_find_posted(ep, head->tag);
    if (!t || !t->ready || head->len != t->cap)
        return VBN_TAG_MALFORMED;
    if (t->state == VBN_TAG_POSTED)
        vbn_tag_unpost(ep->ctx, t);
    else
        TAILQ_REMOVE(&ep->tag.moves, t, entry);
    vbn_tag_note_sender(ep, t, head->tag, head->len);
    vbn_tag_not_ready(t);
    vbn_tag_end(ep->ctx, t, VBN_OK);
    return VBN_TAG_TAKEN;
}

/* Those that the peer had used before have ended by that. */
bool vbn_tag_forgotten(vbn_endpoint_t *ep, uint32_t number)
{
    struct vbn_tag_op *t, *next;

    if (number - ep->tag.withdrawn - 1 >= ep->tag.withdrawals - ep->tag.withdrawn)
        return false;
    ep->tag.withdrawn = number;
    for (t = TAILQ_FIRST(&ep->tag.moves); t; t = next) {
        next = TAILQ_NEXT(t, entry);
        if (t->state != VBN_TAG_WITHDRAWING || vbn_seq_before(number, (uint32_t)t->number))
            continue;
        TAILQ_REMOVE(&ep->tag.moves, t, entry);
        vbn_tag_not_ready(t);
        vbn_tag_end(ep->ctx, t, VBN_ERR_CANCELED);
    }
    return true;
}

/* --- the sender ---------------------------------------------------------------------------------
 */

static struct vbn_tag_place *place_for(const vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_place *place;

    TAILQ_FOREACH(place, &ep->tag.places, entry)
    {
        if (place->at.tag == tag)
            break;
    }
    return place;
}

static void forget(vbn_endpoint_t *ep, struct vbn_tag_place *place)
{
    TAILQ_REMOVE(&ep->tag.places, place, entry);
    ep->tag.place_count--;
    vbn_pool_put(&ep->ctx->tags.places, &place->obj);
}

void vbn_tag_forget_place(vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_place *place = place_for(ep, tag);

    if (place)
        forget(ep, place);
}

void vbn_tag_forget_places(vbn_endpoint_t *ep)
{
    while (!TAILQ_EMPTY(&ep->tag.places))
        forget(ep, TAILQ_FIRST(&ep->tag.places));
}

/* One of the last COUNT messages to EP was of TAG, or may have been. */
static bool has_sent(const struct vbn_tag_peer *peer, uint64_t tag, uint32_t count)
{
    if (count > VBN_TAG_RECENT)
        return true;
    for (uint32_t i = 1; i <= count; i++)
        if (peer->recent[(peer->sent - i) % VBN_TAG_RECENT] == tag)
            return true;
    return false;
}

static enum vbn_tag_verdict keep_place(vbn_endpoint_t *ep, const struct vbn_wire_offer *ready)
{
    struct vbn_tag_peer *peer = &ep->tag;
    uint32_t under_way = peer->sent - ready->id, number;
    struct vbn_tag_place *place;

    if (under_way > INT32_MAX || peer->place_count == VBN_TAG_PLACES || place_for(ep, ready->tag))
        return VBN_TAG_MALFORMED;
    number = peer->heard_count++;
    if (has_sent(peer, ready->tag, under_way))
        return VBN_TAG_TAKEN; /* the receive is for that one */
    place = (struct vbn_tag_place *)vbn_pool_get(&ep->ctx->tags.places);
    if (!place)
        return VBN_TAG_TAKEN; /* as if it had not been told */
    place->at = *ready;
    place->number = number;
    TAILQ_INSERT_TAIL(&peer->places, place, entry);
    peer->place_count++;
    return VBN_TAG_TAKEN;
}

void vbn_tag_answer_withdrawals(vbn_endpoint_t *ep)
{
    struct vbn_tag_peer *peer = &ep->tag;

    if (peer->heard == peer->answered)
        return;
    if (vbn_tag_answer(ep, VBN_TAG_WITHDRAWN, peer->heard))
        peer->answered = peer->heard;
    else if (ep->state < VBN_EP_CLOSED)
        vbn_tag_busy(ep);
}

/* The answer comes behind what has been put there. */
static enum vbn_tag_verdict withdraw(vbn_endpoint_t *ep, const struct vbn_wire_tag *word)
{
    if (word->len != (uint32_t)(ep->tag.heard + 1))
        return VBN_TAG_MALFORMED;
    ep->tag.heard++;
    vbn_tag_forget_place(ep, word->tag);
    vbn_tag_answer_withdrawals(ep);
    return VBN_TAG_TAKEN;
}

bool vbn_tag_place(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    struct vbn_wire_tag word = {.tag = vbn_tag_op(t)->tag, .len = t->cap};
    struct vbn_tag_place *place = place_for(ep, word.tag);
    struct vbn_rider rider = {.placed = true, .last = ep->tag.heard_count};
    struct vbn_wire_offer there;

    if (!place || place->at.len != t->cap || t->cap > ep->ctx->device.max_msg_size ||
        !vbn_tx_may_put(ep) || vbn_tx_get(ep, sizeof(word), &rider.msg) != VBN_OK)
        return false;
    there = place->at;
    rider.number = place->number;
    forget(ep, place); /* used, or it goes to that receive by an offer */
    vbn_wire_tag_write(vbn_tx_payload(rider.msg), &word);
    vbn_tx_set(rider.msg, VBN_WIRE_TAG, VBN_TAG_PLACED, sizeof(word));
    if (vbn_tag_put_whole(ep, t, &there, &rider) == VBN_OK)
        return true;
    vbn_tx_drop(rider.msg);
    return false;
}

/* --- both ---------------------------------------------------------------------------------------
 */

enum vbn_tag_verdict vbn_tag_place_word(vbn_endpoint_t *ep, uint8_t kind, const void *data,
                                        size_t len)
{
    struct vbn_wire_offer ready;
    struct vbn_wire_tag word;

    if (kind == VBN_TAG_READY)
        return vbn_wire_offer_read(data, len, &ready) ? keep_place(ep, &ready) : VBN_TAG_MALFORMED;
    if (len != sizeof(word) || !vbn_wire_tag_read(data, len, &word))
        return VBN_TAG_MALFORMED;
    return kind == VBN_TAG_PLACED ? placed(ep, &word) : withdraw(ep, &word);
}
