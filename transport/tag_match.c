/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which message goes to which receive: the oldest receive that fits, the oldest message that fits.
 *
 * A receive that names its source and the whole tag is found by a hash of both; the others are in
 * one list, and of the two candidates the older one wins. Early messages are in buckets by the same
 * hash, and all of them in the order in which they came.
 */
#include "context.h"
#include "group.h"

#include <stdlib.h>
#include <string.h>

static uint8_t bucket_of(const vbn_endpoint_t *ep, uint64_t tag)
{
    uint64_t h = ep->uid ^ (tag * UINT64_C(0x9e3779b97f4a7c15));

    return (uint8_t)((h ^ h >> 32 ^ h >> 16) % VBN_TAG_BUCKETS);
}

static bool is_exact(const struct vbn_tag_op *t)
{
    return t->ep && t->mask == VBN_TAG_MAX;
}

/* --- receives --------------------------------------------------------------------------------- */

void vbn_tag_post(vbn_context_t *ctx, struct vbn_tag_op *t)
{
    struct vbn_tags *tags = &ctx->tags;

    t->state = VBN_TAG_POSTED;
    t->number = tags->posts++;
    t->wild = !is_exact(t);
    if (t->wild) {
        TAILQ_INSERT_TAIL(&tags->wild, t, entry);
    } else {
        t->bucket = bucket_of(t->ep, vbn_tag_op(t)->tag);
        TAILQ_INSERT_TAIL(&tags->posted[t->bucket], t, entry);
    }
    if (t->ep)
        t->ep->tag.posted++;
    else
        tags->wild_any++;
}

void vbn_tag_unpost(vbn_context_t *ctx, struct vbn_tag_op *t)
{
    struct vbn_tags *tags = &ctx->tags;

    if (t->wild)
        TAILQ_REMOVE(&tags->wild, t, entry);
    else
        TAILQ_REMOVE(&tags->posted[t->bucket], t, entry);
    if (t->ep)
        t->ep->tag.posted--;
    else
        tags->wild_any--;
}

static inline struct vbn_tag_op *first_exact(const vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_op *t;

    TAILQ_FOREACH(t, &ep->ctx->tags.posted[bucket_of(ep, tag)], entry)
    {
        if (vbn_likely(t->ep == ep && vbn_tag_op(t)->tag == tag))
            break;
    }
    return t;
}

static __attribute__((noinline)) struct vbn_tag_op *first_wild(const vbn_endpoint_t *ep,
                                                               uint64_t tag)
{
    struct vbn_tag_op *t;

    TAILQ_FOREACH(t, &ep->ctx->tags.wild, entry)
    {
        if ((!t->ep || t->ep == ep) && vbn_tag_fits(vbn_tag_op(t)->tag, t->mask, tag))
            break;
    }
    return t;
}

static inline struct vbn_tag_op *first_posted(const vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_op *t = ep->tag.posted ? first_exact(ep, tag) : NULL, *wild;

    if (!TAILQ_EMPTY(&ep->ctx->tags.wild)) {
        wild = first_wild(ep, tag);
        if (!t || (wild && wild->number < t->number))
            t = wild;
    }
    return t;
}

struct vbn_tag_op *vbn_tag_find_posted(vbn_endpoint_t *ep, uint64_t tag)
{
    return first_posted(ep, tag);
}

struct vbn_tag_op *vbn_tag_take_posted(vbn_endpoint_t *ep, uint64_t tag)
{
    struct vbn_tag_op *t = first_posted(ep, tag);

    if (vbn_unlikely(!t))
        return NULL;
    vbn_tag_unpost(ep->ctx, t);
    if (vbn_unlikely(t->ready))
        vbn_tag_not_ready(t);
    return t;
}

bool vbn_tag_wanted(const vbn_endpoint_t *ep)
{
    return ep->tag.posted || ep->ctx->tags.wild_any;
}

/* Something ends by the peer's acknowledgement, for which it may have no credit: a put on iWARP,
 * and the endpoint. */
static bool awaits_ack(const vbn_endpoint_t *ep)
{
    return (ep->ctx->device.iwarp && !STAILQ_EMPTY(&ep->retired)) ||
           (ep->state == VBN_EP_CLOSING && !STAILQ_EMPTY(&ep->unacked));
}

/* A receive that has found its offer, or is cancelled, is posted no more, and waits all the same.
 */
bool vbn_tag_awaits(const vbn_endpoint_t *ep)
{
    const struct vbn_tag_op *t;

    if (vbn_tag_wanted(ep) || !TAILQ_EMPTY(&ep->tag.offers) || awaits_ack(ep))
        return true;
    TAILQ_FOREACH(t, &ep->tag.moves, entry)
    {
        if (t->state >= VBN_TAG_TO_ASK)
            return true;
    }
    return vbn_groups_await(ep);
}

/* --- early messages ----------------------------------------------------------------------------
 */

struct vbn_tag_early *vbn_tag_find_early(vbn_context_t *ctx, const struct vbn_tag_op *t,
                                         uint64_t tag)
{
    struct vbn_tags *tags = &ctx->tags;
    struct vbn_tag_early *early;

    if (vbn_likely(TAILQ_EMPTY(&tags->early_order)))
        return NULL;
    if (is_exact(t)) {
        TAILQ_FOREACH(early, &tags->early[bucket_of(t->ep, tag)], in_bucket)
        {
            if (early->ep == t->ep && early->head.tag == tag)
                return early;
        }
        return NULL;
    }
    TAILQ_FOREACH(early, &tags->early_order, in_order)
    {
        if ((!t->ep || early->ep == t->ep) && vbn_tag_fits(tag, t->mask, early->head.tag))
            return early;
    }
    return NULL;
}

struct vbn_tag_early *vbn_tag_add_early(vbn_endpoint_t *ep, const struct vbn_wire_offer *head,
                                        bool is_offer)
{
    struct vbn_tags *tags = &ep->ctx->tags;
    struct vbn_tag_early *early = (struct vbn_tag_early *)vbn_pool_get(&tags->earlies);

    if (!early)
        return NULL;
    early->data = early->small;
    early->room = sizeof(early->small);
    early->ep = ep;
    early->head = *head;
    early->stream = NULL;
    early->is_offer = is_offer;
    early->have = 0;
    tags->early_bytes += sizeof(*early);
    TAILQ_INSERT_TAIL(&tags->early[bucket_of(ep, head->tag)], early, in_bucket);
    TAILQ_INSERT_TAIL(&tags->early_order, early, in_order);
    return early;
}

static bool grow_early(vbn_context_t *ctx, struct vbn_tag_early *early, uint64_t want)
{
    bool small = early->data == early->small;
    uint64_t room = vbn_min(vbn_max(want, 2 * early->room), early->head.len);
    char *data = realloc(small ? NULL : early->data, room);

    if (!data)
        return false;
    if (small)
        memcpy(data, early->small, early->have);
    ctx->tags.early_bytes += room - (small ? 0 : early->room);
    early->data = data;
    early->room = room;
    return true;
}

bool vbn_tag_append_early(vbn_context_t *ctx, struct vbn_tag_early *early, const void *data,
                          size_t len)
{
    if (early->have + len > early->room && !grow_early(ctx, early, early->have + len))
        return false;
    memcpy(early->data + early->have, data, len);
    early->have += len;
    return true;
}

void vbn_tag_drop_early(vbn_context_t *ctx, struct vbn_tag_early *early)
{
    struct vbn_tags *tags = &ctx->tags;

    TAILQ_REMOVE(&tags->early[bucket_of(early->ep, early->head.tag)], early, in_bucket);
    TAILQ_REMOVE(&tags->early_order, early, in_order);
    tags->early_bytes -= sizeof(*early);
    if (early->stream)
        early->stream->early = NULL;
    if (early->data != early->small) {
        tags->early_bytes -= early->room;
        free(early->data);
    }
    vbn_pool_put(&tags->earlies, &early->obj);
}
