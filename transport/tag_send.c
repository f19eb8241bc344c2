/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tagged sends.
 *
 * Operation. Sends of an endpoint are handed over one after the other, so that they are matched in
 * their order. Up to one message's room: copied, and over at once. Up to `rndv_limit`, or where the
 * memory cannot be registered: copied part by part. Where its last message has to wait to be
 * posted, for a connection or for credits, a send is over after that. Beyond: put where the
 * receiver has said that it is ready for it (tag_ready.c), else an offer, which the receiver
 * answers (tag_rdma.c). Memory that is registered already costs less to read or put from: an offer
 * of it is made beyond `rndv_registered`.
 */
#include "context.h"

#include <string.h>

static size_t part_room(const vbn_context_t *ctx, size_t head_len)
{
    return ctx->max_am_len - head_len;
}

/* Bytes of LEFT that the next message takes behind its head: all, or whole packets. */
static size_t part_len(const vbn_context_t *ctx, size_t head_len, size_t left)
{
    size_t room = part_room(ctx, head_len);

    if (left <= room)
        return left;
    return room < VBN_PACKET_MAX ? room : room / VBN_PACKET_MAX * VBN_PACKET_MAX;
}

/* Hands over as many of T's bytes as are to go behind HEAD in one message. */
static int put_part(vbn_endpoint_t *ep, struct vbn_tag_op *t, uint8_t kind, const void *head,
                    size_t head_len)
{
    size_t part = part_len(ep->ctx, head_len, t->cap - t->at);
    struct vbn_msg *msg;
    char *at;
    int rc = vbn_tx_get(ep, head_len + part, &msg);

    if (rc)
        return rc;
    at = vbn_tx_payload(msg);
    if (head_len)
        memcpy(at, head, head_len);
    if (part)
        memcpy(at + head_len, t->buf + t->at, part);
    t->at += part;
    t->begun = true;
    vbn_tx_send(msg, VBN_WIRE_TAG, kind, head_len + part);
    t->last = msg->tx.waiting ? msg : NULL;
    return VBN_OK;
}

/* A message TAG to EP has begun. */
static inline void note_begun(vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_peer *peer = &ep->tag;

    peer->recent[peer->sent++ % VBN_TAG_RECENT] = tag;
    if (vbn_unlikely(!TAILQ_EMPTY(&peer->places)))
        vbn_tag_forget_place(ep, tag);
}

static int put_first(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    struct vbn_wire_tag head = {.tag = vbn_tag_op(t)->tag, .len = t->cap};
    struct vbn_wire_answer again = {.id = (uint32_t)t->number};
    char bytes[sizeof(head)];
    int rc;

    if (t->refused) {
        vbn_wire_answer_write(bytes, &again);
        return put_part(ep, t, VBN_TAG_AGAIN, bytes, sizeof(again));
    }
    vbn_wire_tag_write(bytes, &head);
    rc = put_part(ep, t, t->cap <= part_room(ep->ctx, sizeof(head)) ? VBN_TAG_EAGER : VBN_TAG_FIRST,
                  bytes, sizeof(head));
    if (rc == VBN_OK)
        note_begun(ep, head.tag);
    return rc;
}

/* All of T, as far as messages go. PENDING: the last one waits. */
static int put_parts(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    int rc = t->begun ? VBN_OK : put_first(ep, t);

    while (rc == VBN_OK && t->at < t->cap)
        rc = put_part(ep, t, VBN_TAG_NEXT, NULL, 0);
    if (vbn_likely(rc != VBN_OK || !t->last))
        return rc;
    vbn_tag_leave(ep, t, t->last, VBN_OK);
    return VBN_PENDING;
}

/* Registered memory that T can be offered in: the caller's own region where there is one. NULL: T
 * is better copied, or must be. */
static vbn_mem_t *offer_mem(vbn_context_t *ctx, const struct vbn_tag_op *t)
{
    if (t->cap <= ctx->tags.eager_limit)
        return NULL;
    return vbn_mem_for(ctx, t->buf, t->cap, VBN_ACCESS_REMOTE_READ, t->cap > ctx->opts.rndv_limit);
}

static int put_offer(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    struct vbn_wire_offer offer = {.tag = vbn_tag_op(t)->tag,
                                   .len = t->cap,
                                   .addr = (uintptr_t)t->buf,
                                   .rkey = t->mem->mr->rkey,
                                   .id = ep->ctx->tags.offers};
    struct vbn_msg *msg;
    int rc = vbn_tx_get(ep, sizeof(offer), &msg);

    if (rc)
        return rc;
    ep->ctx->tags.offers++;
    t->number = offer.id;
    t->state = VBN_TAG_OFFERED;
    note_begun(ep, offer.tag);
    TAILQ_INSERT_TAIL(&ep->tag.offers, t, entry); /* before: sending may end the endpoint */
    vbn_wire_offer_write(vbn_tx_payload(msg), &offer);
    vbn_tx_send(msg, VBN_WIRE_TAG, VBN_TAG_OFFER, sizeof(offer));
    return VBN_PENDING;
}

/* T, which is in no list, on its way. OK: handed over; PENDING: on its way; AGAIN: not now. */
static int push(vbn_endpoint_t *ep, struct vbn_tag_op *t)
{
    int rc;

    if (!t->refused && !t->begun && !t->mem)
        t->mem = offer_mem(ep->ctx, t);
    if (!t->mem)
        return put_parts(ep, t);
    if (vbn_tag_place(ep, t))
        return VBN_PENDING;
    rc = put_offer(ep, t);
    if (rc != VBN_PENDING && rc != VBN_ERR_AGAIN)
        vbn_tag_release_mem(t);
    return rc;
}

int vbn_tag_push_sends(vbn_endpoint_t *ep)
{
    struct vbn_tag_op *t;
    int rc, n = 0;

    while ((t = TAILQ_FIRST(&ep->tag.sends))) {
        TAILQ_REMOVE(&ep->tag.sends, t, entry);
        rc = push(ep, t);
        if (rc == VBN_ERR_AGAIN) {
            TAILQ_INSERT_HEAD(&ep->tag.sends, t, entry);
            break;
        }
        n++;
        if (rc != VBN_PENDING)
            vbn_tag_end(ep->ctx, t, rc);
    }
    return n;
}

/* OP by whatever way fits it, as soon as may be. */
static int start(vbn_endpoint_t *ep, const void *buf, struct vbn_op *op)
{
    struct vbn_tag_op *t = vbn_tag_of(op);
    int rc = VBN_ERR_AGAIN;

    vbn_tag_op_init(t, ep, (void *)(uintptr_t)buf, op->len, 0);
    if (TAILQ_EMPTY(&ep->tag.sends))
        rc = push(ep, t);
    if (rc != VBN_ERR_AGAIN)
        return rc;
    t->state = VBN_TAG_SENDING;
    TAILQ_INSERT_TAIL(&ep->tag.sends, t, entry);
    vbn_tag_busy(ep);
    return VBN_PENDING;
}

/* OP in one message that leaves at once. AGAIN: it does not fit, or not now. */
static int send_whole(vbn_endpoint_t *ep, const void *buf, struct vbn_op *op)
{
    struct vbn_wire_tag head = {.tag = op->tag, .len = op->len};
    int rc;

    if (op->len > ep->ctx->tags.whole_max || !TAILQ_EMPTY(&ep->tag.sends))
        return VBN_ERR_AGAIN;
    rc = vbn_tx_send_whole(ep, &head, buf);
    if (vbn_likely(rc == VBN_OK))
        note_begun(ep, head.tag);
    return rc;
}

int vbn_tag_send(vbn_endpoint_t *ep, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    int rc;

    if (tag > VBN_TAG_MAX || (len && !buf) || len > VBN_WIRE_LEN_MAX)
        return VBN_ERR_INVALID;
    vbn_lock(ep->ctx);
    if (ep->state == VBN_EP_OPEN) {
        op->status = VBN_PENDING;
        op->peer = (vbn_peer_t *)ep;
        op->tag = tag;
        op->len = len;
        rc = send_whole(ep, buf, op);
        if (rc == VBN_ERR_AGAIN)
            rc = start(ep, buf, op);
        if (rc == VBN_OK)
            op->status = VBN_OK;
    } else {
        rc = vbn_endpoint_over_status(ep);
    }
    vbn_unlock(ep->ctx);
    return rc;
}

/* --- the receiver's answers ---------------------------------------------------------------------
 */

static struct vbn_tag_op *take_offered(vbn_endpoint_t *ep, uint32_t id)
{
    struct vbn_tag_op *t;

    TAILQ_FOREACH(t, &ep->tag.offers, entry)
    {
        if (t->number == id) {
            TAILQ_REMOVE(&ep->tag.offers, t, entry);
            return t;
        }
    }
    return NULL;
}

bool vbn_tag_fin(vbn_endpoint_t *ep, uint32_t id)
{
    struct vbn_tag_op *t = take_offered(ep, id);

    if (t)
        vbn_tag_end(ep->ctx, t, VBN_OK);
    return t != NULL;
}

bool vbn_tag_refused(vbn_endpoint_t *ep, uint32_t id)
{
    struct vbn_tag_op *t = take_offered(ep, id), *first = TAILQ_FIRST(&ep->tag.sends);

    if (!t)
        return false;
    vbn_tag_release_mem(t);
    t->refused = true;
    t->state = VBN_TAG_SENDING;
    /* As soon as may be, but not between the parts of another. */
    if (first && first->begun)
        TAILQ_INSERT_AFTER(&ep->tag.sends, first, t, entry);
    else
        TAILQ_INSERT_HEAD(&ep->tag.sends, t, entry);
    vbn_tag_busy(ep);
    return true;
}

bool vbn_tag_asked(vbn_endpoint_t *ep, const struct vbn_wire_offer *ask)
{
    struct vbn_tag_op *t = take_offered(ep, ask->id);

    if (!t)
        return false;
    if (ask->len > t->cap) {
        TAILQ_INSERT_HEAD(&ep->tag.offers, t, entry); /* it ends with the endpoint */
        return false;
    }
    vbn_tag_put_there(ep, t, ask);
    return true;
}
