/* SPDX-License-Identifier: BSD-3-Clause */
#include "stranger.h"
#include "context.h"

void vbn_stranger_remove(vbn_endpoint_t *ep)
{
    if (!ep->met_ns)
        return;
    ep->met_ns = 0;
    TAILQ_REMOVE(&ep->ctx->strangers, ep, stranger_entry);
    ep->ctx->stranger_count--;
}

/* Who has been claimed or heard leaves the list only here: messages cost nothing for it. */
static bool make_room(vbn_context_t *ctx)
{
    uint64_t now = vbn_now_ns(ctx);
    vbn_endpoint_t *ep, *next;

    for (ep = TAILQ_FIRST(&ctx->strangers); ep; ep = next) {
        next = TAILQ_NEXT(ep, stranger_entry);
        if (!vbn_stranger_is(ep))
            vbn_stranger_remove(ep);
        else if (ep->state < VBN_EP_CLOSED && now - ep->met_ns >= VBN_STRANGER_MS * VBN_MS_NS)
            vbn_endpoint_abandon(ep); /* its place is free when its connection has ended */
    }
    return ctx->stranger_count < VBN_STRANGERS_MAX;
}

vbn_endpoint_t *vbn_stranger_add(vbn_context_t *ctx, uint64_t uid)
{
    vbn_endpoint_t *ep;

    if (ctx->stranger_count >= VBN_STRANGERS_MAX && !make_room(ctx))
        return NULL;
    ep = vbn_endpoint_add(ctx, uid);
    if (!ep)
        return NULL;
    ep->met_ns = vbn_max(vbn_now_ns(ctx), 1);
    TAILQ_INSERT_TAIL(&ctx->strangers, ep, stranger_entry);
    ctx->stranger_count++;
    return ep;
}

bool vbn_stranger_may_connect(const vbn_endpoint_t *ep)
{
    return !vbn_stranger_is(ep) || ep->conn_count < VBN_STRANGER_CONNS_MAX;
}
