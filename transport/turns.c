/* SPDX-License-Identifier: BSD-3-Clause */
#include "turns.h"
#include "context.h"
#include "endpoint.h"

#define AT_ONCE_FIRST 2u
#define AT_ONCE_MOST  16u
#define TURN_NS       20000000u /* the next one's comes after it, too: peers may be long in answering */

void vbn_turns_init(vbn_context_t *ctx)
{
    TAILQ_INIT(&ctx->turns.waiting);
    ctx->turns.most = AT_ONCE_FIRST;
}

static void start_next(vbn_context_t *ctx)
{
    vbn_endpoint_t *ep = TAILQ_FIRST(&ctx->turns.waiting);

    vbn_turn_leave(ep);
    vbn_endpoint_start_attempt(ep);
}

static void turn_is_over(struct vbn_timer *timer)
{
    vbn_context_t *ctx = vbn_container_of(timer, struct vbn_context, turns.timer);

    if (TAILQ_EMPTY(&ctx->turns.waiting))
        return;
    start_next(ctx);
    vbn_timer_start(&ctx->timers, timer, vbn_now_ns(ctx) + TURN_NS, turn_is_over);
}

/* A connection that was lost has its own pace: recover.h. */
bool vbn_turn_has_come(vbn_endpoint_t *ep)
{
    vbn_context_t *ctx = ep->ctx;
    struct vbn_turns *turns = &ctx->turns;

    if (turns->asking < turns->most || ep->recovery.since_ns)
        return true;
    if (ep->awaits_turn)
        return false;
    if (TAILQ_EMPTY(&turns->waiting))
        vbn_timer_start(&ctx->timers, &turns->timer, vbn_now_ns(ctx) + TURN_NS, turn_is_over);
    ep->awaits_turn = true;
    TAILQ_INSERT_TAIL(&turns->waiting, ep, turn_entry);
    return false;
}

void vbn_turn_leave(vbn_endpoint_t *ep)
{
    if (ep->awaits_turn)
        TAILQ_REMOVE(&ep->ctx->turns.waiting, ep, turn_entry);
    ep->awaits_turn = false;
}

void vbn_turn_begins(vbn_context_t *ctx)
{
    ctx->turns.asking++;
}

void vbn_turn_ends(vbn_context_t *ctx, bool made)
{
    struct vbn_turns *turns = &ctx->turns;

    turns->asking--;
    if (made && turns->most < AT_ONCE_MOST)
        turns->most++;
    ctx->slow_work |= !TAILQ_EMPTY(&turns->waiting);
}

void vbn_turns_take(vbn_context_t *ctx)
{
    struct vbn_turns *turns = &ctx->turns;

    while (turns->asking < turns->most && !TAILQ_EMPTY(&turns->waiting))
        start_next(ctx);
}
