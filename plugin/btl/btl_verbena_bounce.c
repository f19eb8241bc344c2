/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets of osc/rdma whose local memory cannot be registered, as a rule for the limit on
 * locked memory. osc/rdma does not look at how an operation ends, so these are done all the same:
 * in pieces, by way of memory that was registered before the first window.
 *
 * Operation. One piece of one operation is under way at a time; others wait. That is slow, and
 * takes little of what there is too little of.
 *
 * Threads. `waiting` has the module's lock. Who adds to the empty list starts; after each piece the
 * thread that has its callback goes on.
 *
 * Errors. A piece is one of osc/rdma's, too: where one fails for anything but the loss of its peer
 * the job ends (btl_verbena_rma.c).
 */
#include "btl_verbena.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 65536u

static bool make(btl_verbena_module_t *module)
{
    btl_verbena_bounce_t *bounce = &module->bounce;
    int rc;

    bounce->memory = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), PIECE);
    if (!bounce->memory)
        return false;
    bounce->region.base.access_flags = MCA_RCACHE_ACCESS_ANY; /* as osc/rdma's own */
    do {
        rc = btl_verbena_region_make(module, bounce->memory, PIECE, &bounce->region);
    } while (rc == OPAL_ERR_OUT_OF_RESOURCE && btl_verbena_rcaches_evict(module));
    if (rc == OPAL_SUCCESS)
        return true;
    free(bounce->memory);
    bounce->memory = NULL;
    return false;
}

bool btl_verbena_bounce_ready(btl_verbena_module_t *module)
{
    bool ready;

    OPAL_THREAD_LOCK(&module->bounce.making);
    ready = module->bounce.memory || make(module);
    OPAL_THREAD_UNLOCK(&module->bounce.making);
    return ready;
}

void btl_verbena_bounce_fini(btl_verbena_module_t *module)
{
    btl_verbena_bounce_t *bounce = &module->bounce;

    while (opal_list_remove_first(&bounce->waiting))
        ;
    if (bounce->memory)
        vbn_mem_deregister(bounce->region.mem);
    free(bounce->memory);
}

/* Where the next piece of OP is in its local memory, and its length. */
static void *piece_at(const btl_verbena_rma_t *op)
{
    return (char *)op->local + op->bounced;
}

static size_t piece_len(const btl_verbena_rma_t *op)
{
    size_t left = op->len - op->bounced;

    return left < PIECE ? left : PIECE;
}

/* The end of OP, which is the first of the list. Returns the next; NULL: there is none, and who
 * adds one starts it. */
static btl_verbena_rma_t *leave(btl_verbena_module_t *module, btl_verbena_rma_t *op, int status)
{
    opal_list_item_t *next = NULL;

    OPAL_THREAD_LOCK(&module->lock);
    opal_list_remove_item(&module->bounce.waiting, &op->work.super);
    if (!opal_list_is_empty(&module->bounce.waiting))
        next = opal_list_get_first(&module->bounce.waiting);
    OPAL_THREAD_UNLOCK(&module->lock);
    btl_verbena_rma_end(op, status);
    return next ? BTL_VERBENA_OWNER(btl_verbena_rma_t, work.super, next) : NULL;
}

static void go_on(btl_verbena_module_t *module, btl_verbena_rma_t *op);

static void piece_ended(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint, void *local,
                        mca_btl_base_registration_handle_t *local_handle, void *context, void *data,
                        int opal_status)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    btl_verbena_rma_t *op = data;

    (void)endpoint;
    (void)local_handle;
    (void)context;
    if (op->is_get && opal_status == OPAL_SUCCESS)
        memcpy(piece_at(op), local, piece_len(op));
    op->bounced += piece_len(op);
    if (opal_status != OPAL_SUCCESS)
        op = leave(module, op, VBN_ERR_PEER_LOST);
    else if (op->bounced == op->len)
        op = leave(module, op, VBN_OK);
    go_on(module, op);
}

/* An OPAL status; OP may be over after OPAL_SUCCESS. */
static int start_piece(btl_verbena_module_t *module, btl_verbena_rma_t *op)
{
    mca_btl_base_registration_handle_t remote_handle = {.key = htonl(op->remote_key),
                                                        .usable = htonl(1)};
    void *memory = module->bounce.memory;

    if (!op->is_get)
        memcpy(memory, piece_at(op), piece_len(op));
    return (op->is_get ? btl_verbena_get : btl_verbena_put)(
        &module->super, op->work.endpoint, memory, op->remote + op->bounced,
        &module->bounce.region.handle, &remote_handle, piece_len(op), 0, MCA_BTL_NO_ORDER,
        piece_ended, NULL, op);
}

/* With OP, if there is one, until a piece is under way, or nothing is left to do. */
static void go_on(btl_verbena_module_t *module, btl_verbena_rma_t *op)
{
    while (op && start_piece(module, op) != OPAL_SUCCESS)
        op = leave(module, op, op->work.endpoint->lost ? VBN_ERR_PEER_LOST : VBN_ERR_NO_MEMORY);
}

void btl_verbena_bounce(btl_verbena_rma_t *op)
{
    btl_verbena_module_t *module = op->work.endpoint->module;
    bool begins;

    op->bounced = 0;
    OPAL_THREAD_LOCK(&module->lock);
    begins = opal_list_is_empty(&module->bounce.waiting);
    opal_list_append(&module->bounce.waiting, &op->work.super);
    OPAL_THREAD_UNLOCK(&module->lock);
    if (begins)
        go_on(module, op);
}
