/* SPDX-License-Identifier: BSD-3-Clause */
/* What tagged sends and receives share: their ends, and the ends of their endpoints. */
#include "tag.h"
#include "context.h"
#include "group.h"

#include <stdlib.h>

void vbn_tags_init(vbn_context_t *ctx)
{
    struct vbn_tags *tags = &ctx->tags;

    for (unsigned i = 0; i < VBN_TAG_BUCKETS; i++) {
        TAILQ_INIT(&tags->posted[i]);
        TAILQ_INIT(&tags->early[i]);
    }
    TAILQ_INIT(&tags->wild);
    TAILQ_INIT(&tags->early_order);
    TAILQ_INIT(&tags->ended);
    TAILQ_INIT(&tags->busy);
    vbn_pool_init(&tags->earlies, ctx, sizeof(struct vbn_tag_early), 0, UINT32_MAX, NULL);
    vbn_pool_init(&tags->places, ctx, sizeof(struct vbn_tag_place), 0, UINT32_MAX, NULL);
    tags->eager_limit = ctx->opts.rndv_limit;
    if (ctx->device.good_reads) /* else the receiver must ask, which takes a message more */
        tags->eager_limit = vbn_min(tags->eager_limit, ctx->opts.rndv_registered);
    tags->whole_max = vbn_min(tags->eager_limit, ctx->max_am_len - sizeof(struct vbn_wire_tag));
}

void vbn_tags_fini(vbn_context_t *ctx)
{
    vbn_pool_fini(&ctx->tags.earlies);
    vbn_pool_fini(&ctx->tags.places);
}

void vbn_tag_peer_init(struct vbn_tag_peer *peer)
{
    TAILQ_INIT(&peer->sends);
    TAILQ_INIT(&peer->leaving);
    TAILQ_INIT(&peer->offers);
    TAILQ_INIT(&peer->moves);
    STAILQ_INIT(&peer->held);
    TAILQ_INIT(&peer->places);
}

void vbn_tag_release_mem(struct vbn_tag_op *t)
{
    if (t->mem)
        vbn_mem_done(t->mem);
    t->mem = NULL;
}

void vbn_tag_end(vbn_context_t *ctx, struct vbn_tag_op *t, int status)
{
    if (vbn_unlikely(t->mem))
        vbn_tag_release_mem(t);
    t->state = VBN_TAG_ENDED;
    t->number = (uint64_t)(int64_t)status;
    TAILQ_INSERT_TAIL(&ctx->tags.ended, t, entry);
}

void vbn_tag_leave(vbn_endpoint_t *ep, struct vbn_tag_op *t, struct vbn_msg *msg, int status)
{
    if (!msg->tx.waiting) {
        vbn_tag_end(ep->ctx, t, status);
        return;
    }
    vbn_tag_release_mem(t);
    t->state = VBN_TAG_LEAVING;
    t->last = msg;
    t->number = (uint64_t)(int64_t)status;
    TAILQ_INSERT_TAIL(&ep->tag.leaving, t, entry);
}

void vbn_tag_posted(vbn_endpoint_t *ep, const struct vbn_tx *tx)
{
    struct vbn_tag_op *t;

    while ((t = TAILQ_FIRST(&ep->tag.leaving)) && &t->last->tx == tx) {
        TAILQ_REMOVE(&ep->tag.leaving, t, entry);
        vbn_tag_end(ep->ctx, t, (int)t->number);
    }
}

void vbn_tag_busy(vbn_endpoint_t *ep)
{
    if (ep->tag.busy)
        return;
    ep->tag.busy = true;
    TAILQ_INSERT_TAIL(&ep->ctx->tags.busy, ep, tag.busy_entry);
}

struct vbn_msg *vbn_tag_answer(vbn_endpoint_t *ep, uint8_t kind, uint32_t id)
{
    struct vbn_wire_answer answer = {.id = id};
    struct vbn_msg *msg;

    if (vbn_tx_get(ep, sizeof(answer), &msg) != VBN_OK)
        return NULL;
    vbn_wire_answer_write(vbn_tx_payload(msg), &answer);
    vbn_tx_send(msg, VBN_WIRE_TAG, kind, sizeof(answer));
    return msg;
}

static int deliver_ended(vbn_context_t *ctx)
{
    struct vbn_tag_op *t;
    int n = 0;

    while ((t = TAILQ_FIRST(&ctx->tags.ended))) {
        TAILQ_REMOVE(&ctx->tags.ended, t, entry);
        n++;
        vbn_op_over(ctx, vbn_tag_op(t), (int)t->number);
    }
    return n;
}

/* Goes once through the endpoints with sends to go on with, or messages held. */
static int advance_busy(vbn_context_t *ctx)
{
    vbn_endpoint_t *ep, *last = TAILQ_LAST(&ctx->tags.busy, vbn_tag_busy_list);
    int n = 0;

    for (bool more = last != NULL; more; more = ep != last) {
        ep = TAILQ_FIRST(&ctx->tags.busy);
        TAILQ_REMOVE(&ctx->tags.busy, ep, tag.busy_entry);
        ep->tag.busy = false;
        n += vbn_tag_push_moves(ep) + vbn_tag_push_sends(ep) + vbn_tag_unhold(ep, false);
        vbn_tag_answer_withdrawals(ep);
        if (!TAILQ_EMPTY(&ep->tag.sends) || !STAILQ_EMPTY(&ep->tag.held))
            vbn_tag_busy(ep); /* at the end of the list, behind `last` */
        if (ep->state == VBN_EP_CLOSING)
            vbn_endpoint_advance_close(ep);
    }
    return n;
}

int vbn_tags_advance(vbn_context_t *ctx)
{
    int n = vbn_unlikely(!TAILQ_EMPTY(&ctx->tags.busy)) ? advance_busy(ctx) : 0;

    if (vbn_unlikely(ctx->tags.casts_wait))
        n += vbn_groups_advance(ctx);
    return n + deliver_ended(ctx);
}

/* --- ends
 * ----------------------------------------------------------------------------------------- */

static void end_list(vbn_context_t *ctx, struct vbn_tag_list *list, int status)
{
    struct vbn_tag_op *t;

    while ((t = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, t, entry);
        vbn_tag_end(ctx, t, status);
    }
}

/* Or a send; in no list. */
static void end_receive(vbn_context_t *ctx, struct vbn_tag_op *t, int status)
{
    if (t->ready)
        vbn_tag_not_ready(t);
    vbn_tag_end(ctx, t, status);
}

/* A read or put under way ends by itself: the device still uses its memory. */
static void end_moves(vbn_endpoint_t *ep, int status)
{
    struct vbn_tag_op *t, *next;

    for (t = TAILQ_FIRST(&ep->tag.moves); t; t = next) {
        next = TAILQ_NEXT(t, entry);
        if (t->state != VBN_TAG_MOVING) {
            TAILQ_REMOVE(&ep->tag.moves, t, entry);
            end_receive(ep->ctx, t, status);
        }
    }
}

/* Receives in LIST that name EP, or all where EP is NULL. */
static void end_posted(vbn_context_t *ctx, struct vbn_tag_list *list, const vbn_endpoint_t *ep,
                       int status)
{
    struct vbn_tag_op *t, *next;

    for (t = TAILQ_FIRST(list); t; t = next) {
        next = TAILQ_NEXT(t, entry);
        if (!ep || t->ep == ep) {
            vbn_tag_unpost(ctx, t);
            end_receive(ctx, t, status);
        }
    }
}

static void end_all_posted(vbn_context_t *ctx, const vbn_endpoint_t *ep, int status)
{
    for (unsigned i = 0; i < VBN_TAG_BUCKETS; i++)
        end_posted(ctx, &ctx->tags.posted[i], ep, status);
    end_posted(ctx, &ctx->tags.wild, ep, status);
}

static bool is_any(const struct vbn_tag_early *early)
{
    (void)early;
    return true;
}

static bool is_offer(const struct vbn_tag_early *early)
{
    return early->is_offer;
}

/* It will never be whole when its sender is gone. */
static bool is_unfinished(const struct vbn_tag_early *early)
{
    return early->is_offer || early->have < early->head.len;
}

/* Early messages of EP. */
static void drop_earlies(vbn_endpoint_t *ep, bool (*which)(const struct vbn_tag_early *early))
{
    vbn_context_t *ctx = ep->ctx;
    struct vbn_tag_early *early, *next;

    for (early = TAILQ_FIRST(&ctx->tags.early_order); early; early = next) {
        next = TAILQ_NEXT(early, in_order);
        if (early->ep == ep && which(early))
            vbn_tag_drop_early(ctx, early);
    }
}

void vbn_tag_stream_ended(vbn_context_t *ctx, struct vbn_tag_stream *stream, int status)
{
    if (stream->filling)
        vbn_tag_end(ctx, stream->filling, status);
    if (stream->early)
        vbn_tag_drop_early(ctx, stream->early);
    stream->filling = NULL;
}

void vbn_tag_peer_ended(vbn_endpoint_t *ep, int status)
{
    struct vbn_tag_peer *peer = &ep->tag;
    vbn_context_t *ctx = ep->ctx;

    vbn_tag_unhold(ep, true);
    while (!STAILQ_EMPTY(&peer->held)) { /* no memory for them */
        struct vbn_rxbuf *buf = STAILQ_FIRST(&peer->held);

        STAILQ_REMOVE_HEAD(&peer->held, held_entry);
        vbn_rx_release(ep, buf);
    }
    end_list(ctx, &peer->sends, status);
    end_list(ctx, &peer->leaving, status);
    end_list(ctx, &peer->offers, status);
    end_moves(ep, status);
    vbn_tag_stream_ended(ctx, &peer->stream, status);
    drop_earlies(ep, is_unfinished);
    vbn_tag_forget_places(ep);
    vbn_groups_peer_ended(ep, status);
    if (peer->posted)
        end_all_posted(ctx, ep, status);
}

void vbn_tag_said_bye(vbn_endpoint_t *ep)
{
    drop_earlies(ep, is_offer);
}

void vbn_tag_peer_fini(vbn_endpoint_t *ep)
{
    drop_earlies(ep, is_any);
    if (ep->tag.busy)
        TAILQ_REMOVE(&ep->ctx->tags.busy, ep, tag.busy_entry);
}

void vbn_tags_abandon(vbn_context_t *ctx)
{
    ctx->tags.over = true;
    end_all_posted(ctx, NULL, VBN_ERR_CLOSED);
}
