/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets of osc/rdma whose local memory cannot be registered, as a rule for the limit on
 * locked memory. osc/rdma does not look at how an operation ends, so these are done all the same:
 * in pieces, by way of memory that was registered when the device was opened.
 *
 * Operation. One piece of one operation is under way at a time; others wait. That is slow, and
 * takes little of what there is too little of.
 *
 * Threads. `waiting` and `busy` have the module's lock. Who sets `busy` works the list off; after
 * each piece the thread that has its callback goes on.
 *
 * Errors. A piece is one of osc/rdma's, too: where one fails for anything but the loss of its peer
 * the job ends (btl_verbena_rma.c).
 */
#include "btl_verbena.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 65536u

int btl_verbena_bounce_init(btl_verbena_module_t *module)
{
    const unsigned access = VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ |
                            VBN_ACCESS_REMOTE_WRITE | VBN_ACCESS_REMOTE_ATOMIC;
    btl_verbena_bounce_t *bounce = &module->bounce;
    btl_verbena_registration_t *region = &bounce->region;
    int status;

    bounce->memory = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), PIECE);
    if (!bounce->memory)
        return VBN_ERR_NO_MEMORY;
    status = vbn_mem_register(module->context, bounce->memory, PIECE, access, &region->mem);
    if (status != VBN_OK)
        return status;
    region->base.access_flags = MCA_RCACHE_ACCESS_ANY; /* as osc/rdma's own */
    region->handle.key = htonl(vbn_mem_rkey(region->mem));
    region->handle.usable = htonl(1);
    return VBN_OK;
}

void btl_verbena_bounce_fini(btl_verbena_module_t *module)
{
    btl_verbena_bounce_t *bounce = &module->bounce;

    while (opal_list_remove_first(&bounce->waiting))
        ;
    if (bounce->region.mem)
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

/* The operation whose turn it is; NULL: there is none, and nobody works the list off any more. */
static btl_verbena_rma_t *first(btl_verbena_module_t *module)
{
    opal_list_item_t *item = NULL;

    OPAL_THREAD_LOCK(&module->lock);
    module->bounce.busy = !opal_list_is_empty(&module->bounce.waiting);
    if (module->bounce.busy)
        item = opal_list_get_first(&module->bounce.waiting);
    OPAL_THREAD_UNLOCK(&module->lock);
    return item ? BTL_VERBENA_OWNER(btl_verbena_rma_t, work.super, item) : NULL;
}

/* The end of OP, which is the first of the list. */
static void leave(btl_verbena_module_t *module, btl_verbena_rma_t *op, int status)
{
    OPAL_THREAD_LOCK(&module->lock);
    opal_list_remove_item(&module->bounce.waiting, &op->work.super);
    OPAL_THREAD_UNLOCK(&module->lock);
    btl_verbena_rma_end(op, status);
}

static void go_on(btl_verbena_module_t *module);

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
        leave(module, op, VBN_ERR_PEER_LOST);
    else if (op->bounced == op->len)
        leave(module, op, VBN_OK);
    go_on(module);
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

/* Until a piece is under way, or nothing is left to do. */
static void go_on(btl_verbena_module_t *module)
{
    btl_verbena_rma_t *op;

    while ((op = first(module)) && start_piece(module, op) != OPAL_SUCCESS)
        leave(module, op, op->work.endpoint->lost ? VBN_ERR_PEER_LOST : VBN_ERR_NO_MEMORY);
}

void btl_verbena_bounce(btl_verbena_rma_t *op)
{
    btl_verbena_module_t *module = op->work.endpoint->module;
    bool begins;

    op->bounced = 0;
    OPAL_THREAD_LOCK(&module->lock);
    begins = !module->bounce.busy;
    module->bounce.busy = true;
    opal_list_append(&module->bounce.waiting, &op->work.super);
    OPAL_THREAD_UNLOCK(&module->lock);
    if (begins)
        go_on(module);
}
