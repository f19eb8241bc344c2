/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tagged receives: what arrives, and what waits for it.
 */
#include "context.h"
#include "group.h"

#include <string.h>

/* --- giving a receive its message ------------------------------------------------------------- */

/* The caller knows no endpoint that it has not asked for, and none that it has closed. */
static vbn_peer_t *peer_of(vbn_endpoint_t *ep)
{
    return ep->claimed && !ep->released ? (vbn_peer_t *)ep : NULL;
}

void vbn_tag_note_sender(vbn_endpoint_t *ep, struct vbn_tag_op *t, uint64_t tag, uint64_t len)
{
    struct vbn_op *op = vbn_tag_op(t);

    op->peer = peer_of(ep);
    op->tag = tag;
    op->len = len;
}

/* T's next bytes; beyond its buffer they are dropped. */
static void fill(struct vbn_tag_op *t, const void *data, size_t len)
{
    if (t->at < t->cap && len)
        memcpy(t->buf + t->at, data, vbn_min(len, t->cap - t->at));
    t->at += len;
}

/* Gives T, a receive that its message has found, the first HAVE bytes of it, at DATA; the others
 * come by STREAM. */
static void take(vbn_endpoint_t *ep, struct vbn_tag_stream *stream, struct vbn_tag_op *t,
                 const struct vbn_wire_tag *head, const void *data, size_t have)
{
    vbn_tag_note_sender(ep, t, head->tag, head->len);
    t->at = 0;
    fill(t, data, have);
    if (have == head->len) {
        vbn_tag_end(ep->ctx, t, vbn_tag_outcome(t, head->len));
        return;
    }
    t->ep = ep;
    t->state = VBN_TAG_FILLING;
    stream->filling = t;
}

/* T has found the whole of its message, DATA, and is called back at once. */
static inline void take_whole(vbn_endpoint_t *ep, struct vbn_tag_op *t,
                              const struct vbn_wire_tag *head, const void *data)
{
    size_t len = vbn_min(head->len, t->cap);

    vbn_tag_note_sender(ep, t, head->tag, head->len);
    if (vbn_unlikely(t->mem))
        vbn_tag_release_mem(t);
    vbn_copy(t->buf, data, len);
    vbn_op_over(ep->ctx, vbn_tag_op(t), vbn_tag_outcome(t, head->len));
}

/* --- what arrives -------------------------------------------------------------------------------
 */

/* A message has been taken; those of groups are not counted. */
static inline void note_taken(vbn_endpoint_t *ep, const struct vbn_tag_stream *stream)
{
    ep->tag.taken += stream == &ep->tag.stream;
}

/* AT_ONCE: nobody that has called counts on anything that a callback may change. */
static VBN_INLINE enum vbn_tag_verdict whole_or_first(vbn_endpoint_t *ep,
                                                      struct vbn_tag_stream *stream, uint8_t kind,
                                                      const char *data, size_t len, bool at_once)
{
    struct vbn_wire_tag head;
    struct vbn_wire_offer early_head;
    struct vbn_tag_early *early;
    struct vbn_tag_op *t;
    size_t have = len - sizeof(head);

    if (!vbn_wire_tag_read(data, len, &head) || (kind == VBN_TAG_EAGER && head.len != have) ||
        stream->filling || stream->early)
        return VBN_TAG_MALFORMED;
    data += sizeof(head);
    t = vbn_tag_take_posted(ep, head.tag);
    if (vbn_likely(t != NULL)) {
        note_taken(ep, stream); /* first: a callback may go by it */
        if (at_once)
            take_whole(ep, t, &head, data);
        else
            take(ep, stream, t, &head, data, have);
        return VBN_TAG_TAKEN;
    }
    early_head = (struct vbn_wire_offer){.tag = head.tag, .len = head.len};
    early = vbn_tag_add_early(ep, &early_head, false);
    if (!early)
        return VBN_TAG_HELD;
    if (!vbn_tag_append_early(ep->ctx, early, data, have)) {
        vbn_tag_drop_early(ep->ctx, early);
        return VBN_TAG_HELD;
    }
    note_taken(ep, stream);
    if (have < head.len) {
        stream->early = early;
        early->stream = stream;
    }
    return VBN_TAG_TAKEN;
}

/* No more of it comes. */
static void detach(struct vbn_tag_early *early)
{
    early->stream->early = NULL;
    early->stream = NULL;
}

static enum vbn_tag_verdict further(vbn_context_t *ctx, struct vbn_tag_stream *stream,
                                    const void *data, size_t len)
{
    struct vbn_tag_early *early = stream->early;
    struct vbn_tag_op *t = stream->filling;

    if (t && len <= vbn_tag_op(t)->len - t->at) {
        fill(t, data, len);
        if (t->at == vbn_tag_op(t)->len) {
            stream->filling = NULL;
            vbn_tag_end(ctx, t, vbn_tag_outcome(t, t->at));
        }
        return VBN_TAG_TAKEN;
    }
    if (!t && early && len <= early->head.len - early->have) {
        if (!vbn_tag_append_early(ctx, early, data, len))
            return VBN_TAG_HELD;
        if (early->have == early->head.len)
            detach(early);
        return VBN_TAG_TAKEN;
    }
    return VBN_TAG_MALFORMED;
}

static enum vbn_tag_verdict offered(vbn_endpoint_t *ep, const void *data, size_t len)
{
    struct vbn_wire_offer offer;
    struct vbn_tag_op *t;

    if (!vbn_wire_offer_read(data, len, &offer))
        return VBN_TAG_MALFORMED;
    t = vbn_tag_take_posted(ep, offer.tag);
    if (!t && !vbn_tag_add_early(ep, &offer, true))
        return VBN_TAG_HELD;
    ep->tag.taken++;
    ep->tag.last_offer = offer.id;
    if (t)
        vbn_tag_fetch(ep, t, &offer);
    return VBN_TAG_TAKEN;
}

/* The parts of a message that could not be read begin. */
static enum vbn_tag_verdict again(vbn_endpoint_t *ep, const char *data, size_t len)
{
    struct vbn_tag_stream *stream = &ep->tag.stream;
    struct vbn_wire_answer head;
    struct vbn_tag_op *t;

    if (!vbn_wire_answer_read(data, len, &head) || stream->filling || stream->early)
        return VBN_TAG_MALFORMED;
    t = vbn_tag_take_waiting(ep, VBN_TAG_REFUSED, head.id);
    if (!t)
        return VBN_TAG_MALFORMED;
    t->state = VBN_TAG_FILLING;
    t->at = 0;
    stream->filling = t;
    return further(ep->ctx, stream, data + sizeof(head), len - sizeof(head));
}

static enum vbn_tag_verdict asked(vbn_endpoint_t *ep, const void *data, size_t len)
{
    struct vbn_wire_offer ask;

    return vbn_wire_offer_read(data, len, &ask) && vbn_tag_asked(ep, &ask) ? VBN_TAG_TAKEN
                                                                           : VBN_TAG_MALFORMED;
}

static enum vbn_tag_verdict answered(vbn_endpoint_t *ep, uint8_t kind, const void *data, size_t len)
{
    struct vbn_wire_answer answer;
    bool known;

    if (len != sizeof(answer) || !vbn_wire_answer_read(data, len, &answer))
        return VBN_TAG_MALFORMED;
    if (kind == VBN_TAG_DONE)
        known = vbn_tag_done(ep, answer.id);
    else if (kind == VBN_TAG_WITHDRAWN)
        known = vbn_tag_forgotten(ep, answer.id);
    else
        known = kind == VBN_TAG_FIN ? vbn_tag_fin(ep, answer.id) : vbn_tag_refused(ep, answer.id);
    return known ? VBN_TAG_TAKEN : VBN_TAG_MALFORMED;
}

static enum vbn_tag_verdict sort(vbn_endpoint_t *ep, uint8_t kind, const void *data, size_t len)
{
    /* Nothing may follow our farewell, which ends them on the peer's side. */
    if (vbn_unlikely(ep->said_bye) && (kind == VBN_TAG_OFFER || kind == VBN_TAG_WITHDRAW))
        return VBN_TAG_TAKEN;
    switch (kind) {
    case VBN_TAG_EAGER:
    case VBN_TAG_FIRST:
        return whole_or_first(ep, &ep->tag.stream, kind, data, len, false);
    case VBN_TAG_NEXT:
        return further(ep->ctx, &ep->tag.stream, data, len);
    case VBN_TAG_OFFER:
        return offered(ep, data, len);
    case VBN_TAG_AGAIN:
        return again(ep, data, len);
    case VBN_TAG_ASK:
        return asked(ep, data, len);
    case VBN_TAG_FIN:
    case VBN_TAG_REFUSE:
    case VBN_TAG_DONE:
    case VBN_TAG_WITHDRAWN:
        return answered(ep, kind, data, len);
    case VBN_TAG_READY:
    case VBN_TAG_PLACED:
    case VBN_TAG_WITHDRAW:
        return vbn_tag_place_word(ep, kind, data, len);
    case VBN_TAG_CAST:
        return vbn_group_word(ep, data, len) ? VBN_TAG_TAKEN : VBN_TAG_MALFORMED;
    default:
        return VBN_TAG_MALFORMED;
    }
}

/* --- holding ------------------------------------------------------------------------------------
 */

/* A message of KIND may be early; the others are about one that has been taken, or is to be sent.
 */
static bool may_be_early(uint8_t kind)
{
    return kind <= VBN_TAG_OFFER || kind == VBN_TAG_AGAIN;
}

/* A message of STREAM's has begun, and not all of it is here. */
static bool is_open(const struct vbn_tag_stream *stream)
{
    return stream->filling || stream->early;
}

/* Messages of a peer that come too early take memory up to a limit, then their receive buffers. */
static bool must_hold(const vbn_endpoint_t *ep, uint8_t kind)
{
    const struct vbn_tags *tags = &ep->ctx->tags;

    if (vbn_likely(STAILQ_EMPTY(&ep->tag.held) &&
                   tags->early_bytes <= ep->ctx->opts.unexpected_limit))
        return false;
    if (!may_be_early(kind))
        return false;
    return !STAILQ_EMPTY(&ep->tag.held) || (!vbn_tag_awaits(ep) && !is_open(&ep->tag.stream));
}

static enum vbn_tag_verdict hold(vbn_endpoint_t *ep, struct vbn_rxbuf *buf)
{
    STAILQ_INSERT_TAIL(&ep->tag.held, buf, held_entry);
    vbn_tag_busy(ep);
    return VBN_TAG_HELD;
}

enum vbn_tag_verdict vbn_tag_arrived(vbn_endpoint_t *ep, struct vbn_rxbuf *buf,
                                     const struct vbn_wire_hdr *hdr)
{
    const char *data = (const char *)buf->msg + sizeof(*hdr);
    enum vbn_tag_verdict verdict;

    if (vbn_unlikely(must_hold(ep, hdr->id)))
        return hold(ep, buf);
    /* Who was over before is called back before. */
    if (vbn_likely(hdr->id == VBN_TAG_EAGER && TAILQ_EMPTY(&ep->ctx->tags.ended)))
        verdict = whole_or_first(ep, &ep->tag.stream, VBN_TAG_EAGER, data, hdr->len, true);
    else
        verdict = sort(ep, hdr->id, data, hdr->len);
    return vbn_likely(verdict != VBN_TAG_HELD) ? verdict : hold(ep, buf);
}

enum vbn_tag_verdict vbn_tag_cast(vbn_endpoint_t *ep, struct vbn_tag_stream *stream, uint8_t kind,
                                  const void *data, size_t len)
{
    const struct vbn_tags *tags = &ep->ctx->tags;

    /* Also in the middle of a message: nothing but what the sender casts lies behind it. */
    if (vbn_unlikely(tags->early_bytes > ep->ctx->opts.unexpected_limit) && !stream->filling &&
        !vbn_tag_wanted(ep))
        return VBN_TAG_HELD;
    if (kind == VBN_TAG_NEXT)
        return further(ep->ctx, stream, data, len);
    return whole_or_first(ep, stream, kind, data, len,
                          kind == VBN_TAG_EAGER && TAILQ_EMPTY(&tags->ended));
}

static bool may_unhold(const vbn_endpoint_t *ep)
{
    return ep->ctx->tags.early_bytes <= ep->ctx->opts.unexpected_limit || vbn_tag_awaits(ep) ||
           is_open(&ep->tag.stream);
}

int vbn_tag_unhold(vbn_endpoint_t *ep, bool all)
{
    struct vbn_rxbuf *buf;
    int n = 0;

    while ((buf = STAILQ_FIRST(&ep->tag.held)) && (all || may_unhold(ep))) {
        const char *msg = buf->msg;
        struct vbn_wire_hdr hdr;
        enum vbn_tag_verdict verdict;

        memcpy(&hdr, msg, sizeof(hdr));
        STAILQ_REMOVE_HEAD(&ep->tag.held, held_entry); /* first: this may end the endpoint */
        verdict = sort(ep, hdr.id, msg + sizeof(hdr), le32toh(hdr.len));
        if (verdict == VBN_TAG_HELD) { /* no memory */
            STAILQ_INSERT_HEAD(&ep->tag.held, buf, held_entry);
            break;
        }
        vbn_rx_release(ep, buf);
        n++;
        if (verdict == VBN_TAG_MALFORMED) {
            vbn_rx_malformed(ep);
            break;
        }
    }
    return n;
}

/* --- receives ------------------------------------------------------------------------------------
 */

/* T gets EARLY, as far as it is here. */
static int take_early(vbn_context_t *ctx, struct vbn_tag_op *t, struct vbn_tag_early *early)
{
    vbn_endpoint_t *ep = early->ep;
    struct vbn_wire_tag head = {.tag = early->head.tag, .len = early->head.len};
    struct vbn_wire_offer offer = early->head;
    int rc = VBN_PENDING;

    if (early->is_offer) {
        vbn_tag_drop_early(ctx, early); /* first: this may end the endpoint */
        vbn_tag_fetch(ep, t, &offer);
        return rc;
    }
    if (early->have < head.len) {
        take(ep, early->stream, t, &head, early->data, early->have);
    } else {
        vbn_tag_note_sender(ep, t, head.tag, head.len);
        fill(t, early->data, early->have);
        vbn_tag_op(t)->status = vbn_tag_outcome(t, head.len);
        rc = VBN_OK;
    }
    vbn_tag_drop_early(ctx, early);
    if (rc == VBN_PENDING)
        vbn_groups_want(ep);
    return rc;
}

/* READY: T's sender is told where its message shall be, if it can be. */
static VBN_INLINE int recv_locked(vbn_context_t *ctx, struct vbn_tag_op *t, bool ready)
{
    struct vbn_op *op = vbn_tag_op(t);
    struct vbn_tag_early *early = vbn_tag_find_early(ctx, t, op->tag);

    if (early)
        return take_early(ctx, t, early);
    if (vbn_unlikely(t->ep ? t->ep->state >= VBN_EP_CLOSED : ctx->tags.over))
        return t->ep ? vbn_endpoint_over_status(t->ep) : VBN_ERR_CLOSED;
    vbn_tag_post(ctx, t);
    if (ready)
        vbn_tag_tell_ready(t);
    return VBN_PENDING;
}

static VBN_INLINE int receive(vbn_context_t *ctx, vbn_endpoint_t *ep, void *buf, size_t len,
                              uint64_t tag, uint64_t mask, struct vbn_op *op, bool ready)
{
    struct vbn_tag_op *t = vbn_tag_of(op);
    int rc;

    if (tag > VBN_TAG_MAX || mask > VBN_TAG_MAX || (len && !buf))
        return VBN_ERR_INVALID;
    vbn_tag_op_init(t, ep, buf, len, mask);
    op->status = VBN_PENDING;
    op->tag = tag;
    vbn_lock(ctx);
    rc = recv_locked(ctx, t, ready);
    vbn_unlock(ctx);
    return rc;
}

int vbn_tag_recv(vbn_context_t *ctx, vbn_endpoint_t *ep, void *buf, size_t len, uint64_t tag,
                 uint64_t mask, struct vbn_op *op)
{
    return receive(ctx, ep, buf, len, tag, mask, op, false);
}

int vbn_tag_recv_ready(vbn_endpoint_t *ep, void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    return receive(ep->ctx, ep, buf, len, tag, VBN_TAG_MAX, op, true);
}

int vbn_tag_probe(vbn_context_t *ctx, vbn_endpoint_t *ep, uint64_t tag, uint64_t mask,
                  struct vbn_op *found)
{
    struct vbn_tag_op want = {.ep = ep, .mask = mask};
    struct vbn_tag_early *early;
    vbn_endpoint_t *holder;

    if (tag > VBN_TAG_MAX || mask > VBN_TAG_MAX)
        return VBN_ERR_INVALID;
    vbn_lock(ctx);
    TAILQ_FOREACH(holder, &ctx->tags.busy, tag.busy_entry)
    {
        if (!ep || ep == holder)
            vbn_tag_unhold(holder, true);
    }
    early = vbn_tag_find_early(ctx, &want, tag);
    if (early) {
        found->peer = peer_of(early->ep);
        found->tag = early->head.tag;
        found->len = early->head.len;
    }
    vbn_unlock(ctx);
    return early ? VBN_OK : VBN_ERR_AGAIN;
}

int vbn_tag_cancel(vbn_context_t *ctx, struct vbn_op *op)
{
    struct vbn_tag_op *t = vbn_tag_of(op);
    int rc = VBN_ERR_AGAIN;

    vbn_lock(ctx);
    if (op->status == VBN_PENDING && t->state == VBN_TAG_POSTED) {
        vbn_tag_unpost(ctx, t);
        if (t->ready)
            vbn_tag_withdraw(t->ep, t);
        else
            vbn_tag_end(ctx, t, VBN_ERR_CANCELED);
        rc = VBN_OK;
    }
    vbn_unlock(ctx);
    return rc;
}
