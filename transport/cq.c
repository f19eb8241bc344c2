/* SPDX-License-Identifier: BSD-3-Clause */
#include "cq.h"
#include "context.h"
#include "log.h"

#include <errno.h>
#include <stdlib.h>

#define POLL_BATCH_MAX 256 /* the range of the parameter poll_batch */

static struct vbn_cq *add_queue(vbn_context_t *ctx)
{
    struct vbn_cqs *cqs = &ctx->cqs;
    struct vbn_cq **list = realloc(cqs->cq, (cqs->count + 1) * sizeof(*list));
    struct vbn_cq *cq;

    if (!list)
        return NULL;
    cqs->cq = list;
    cq = calloc(1, sizeof(*cq));
    if (!cq)
        return NULL;
    cq->cq = ibv_create_cq(ctx->device.verbs, (int)cqs->size, NULL, ctx->comp_channel, 0);
    if (!cq->cq) {
        free(cq);
        return NULL;
    }
    cq->size = cqs->size;
    cq->reserved = cqs->shared;
    list[cqs->count++] = cq;
    if (ctx->armed && ibv_req_notify_cq(cq->cq, 0)) /* somebody may be asleep */
        ctx->armed = false;
    return cq;
}

int vbn_cqs_init(vbn_context_t *ctx, uint32_t size, uint32_t shared)
{
    ctx->cqs.size = size;
    ctx->cqs.shared = shared;
    return add_queue(ctx) ? VBN_OK : VBN_ERR_DEVICE;
}

void vbn_cqs_fini(vbn_context_t *ctx)
{
    for (uint32_t i = 0; i < ctx->cqs.count; i++) {
        ibv_destroy_cq(ctx->cqs.cq[i]->cq);
        free(ctx->cqs.cq[i]);
    }
    free(ctx->cqs.cq);
    ctx->cqs.cq = NULL;
    ctx->cqs.count = 0;
}

struct vbn_cq *vbn_cq_reserve(vbn_context_t *ctx, uint32_t entries)
{
    struct vbn_cqs *cqs = &ctx->cqs;
    struct vbn_cq *cq = NULL;

    for (uint32_t i = 0; i < cqs->count && !cq; i++)
        if (cqs->cq[i]->size - cqs->cq[i]->reserved >= entries)
            cq = cqs->cq[i];
    if (!cq)
        cq = add_queue(ctx);
    if (cq)
        cq->reserved += entries;
    assert(!cq || cq->reserved <= cq->size);
    return cq;
}

void vbn_cq_release(struct vbn_cq *cq, uint32_t entries)
{
    assert(cq->reserved >= entries);
    cq->reserved -= entries;
}

/* Hands N completions to whoever waits for them. Out of line: mostly there are none. */
static __attribute__((noinline)) void dispatch(struct ibv_wc *wc, int n)
{
    for (struct ibv_wc *end = wc + n; wc < end; wc++) {
        struct vbn_comp *comp = (struct vbn_comp *)(uintptr_t)wc->wr_id;

        comp->done(comp, wc);
    }
}

int vbn_cqs_poll(vbn_context_t *ctx)
{
    struct ibv_wc wc[POLL_BATCH_MAX];
    int total = 0;
    uint32_t i = 0;

    do {
        int n = ibv_poll_cq(ctx->cqs.cq[i]->cq, (int)ctx->opts.poll_batch, wc);

        if (n > 0) {
            dispatch(wc, n);
            total += n;
        } else if (vbn_unlikely(n < 0)) {
            vbn_context_fault(ctx, "polling the completion queue failed");
            return total;
        }
    } while (vbn_unlikely(++i < ctx->cqs.count));
    return total;
}

void vbn_cqs_poll_all(vbn_context_t *ctx)
{
    for (uint64_t polled = 0; polled < ctx->cqs.size; polled += ctx->opts.poll_batch)
        if (vbn_cqs_poll(ctx) == 0)
            return;
}
