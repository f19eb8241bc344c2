/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues. One serves all queue pairs until its entries are spoken for; then the next is
 * made. Every queue pair reserves an entry for each request it can have outstanding, and each queue
 * one for each shared receive buffer: so no queue can overrun.
 */
#ifndef VBN_CQ_H
#define VBN_CQ_H

#include "base.h"

struct vbn_cq {
    struct ibv_cq *cq;
    uint32_t size, reserved; /* entries */
};

struct vbn_cqs {
    struct vbn_cq **cq;
    uint32_t count;
    uint32_t size;   /* entries of each queue */
    uint32_t shared; /* entries that each queue keeps for shared receives */
};

/* SIZE entries a queue, SHARED of which are for the shared receive queue. Makes the first queue. */
int vbn_cqs_init(vbn_context_t *ctx, uint32_t size, uint32_t shared);
void vbn_cqs_fini(vbn_context_t *ctx);

/* A queue with ENTRIES, at most size - shared, reserved in it, or NULL with errno set. Give back by
 * vbn_cq_release(). */
struct vbn_cq *vbn_cq_reserve(vbn_context_t *ctx, uint32_t entries);
void vbn_cq_release(struct vbn_cq *cq, uint32_t entries);

/* Takes up to one batch from each queue and calls the handlers. Returns how many it took. */
int vbn_cqs_poll(vbn_context_t *ctx);

/* The same for all that the queues hold when it is called; what comes meanwhile may be left. */
void vbn_cqs_poll_all(vbn_context_t *ctx);

#endif
