/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get.
 *
 * Operation. Each becomes one operation of the transport, but for gets on devices whose reads are
 * not to be relied on, see btl_verbena_served.c. Where the transport has no room the operation
 * waits here and starts from progress: ob1 retries a refused one only when something else of its
 * own completes (see btl_verbena_frag.c), and after a few refusals it gives up RDMA for that
 * message.
 *
 * An operation that cannot be done because a registration had failed (see btl_verbena_reg.c) is
 * accepted and ends with an error from progress. That, unlike an error from here, makes ob1 send
 * the same bytes by messages at once. osc/rdma would take it for done: so its own goes by way of
 * memory that is registered (btl_verbena_bounce.c), and one that fails ends the job.
 * One of osc/rdma's that the peer's memory protection denies is tried again with the key that the
 * owner says its memory has (btl_verbena_window_has() tells why it may have had another).
 *
 * Buffer ownership. Local memory and handle belong to the operation until the callback, which comes
 * exactly once if OPAL_SUCCESS was returned.
 *
 * Errors. The remote address and key come from the peer that they name memory of; they are
 * meaningless here and are checked by the peer's device.
 */
#include "btl_verbena.h"

#include <arpa/inet.h>
#include <string.h>

/* By the peer's memory protection. */
static bool is_denial(int status)
{
    return status == VBN_ERR_INVALID || status == VBN_ERR_DEVICE;
}

/* Why an operation that ended with STATUS was not done; NULL: of a lost peer everybody hears in
 * another way. */
static const char *reason_of(int status)
{
    if (is_denial(status))
        return "the other process has no such memory.";
    return status == VBN_ERR_NO_MEMORY ? "there is no memory for it." : NULL;
}

/* Of what was put for its get a peer hears by the answer. */
static void rma_failed(const btl_verbena_rma_t *op, int status)
{
    const char *reason = reason_of(status);

    if (reason && op->cbfunc != btl_verbena_served_put_ended)
        btl_verbena_operation_failed(op->work.endpoint, op->is_get ? "get" : "put", reason);
}

static int rma_start(btl_verbena_work_t *work);

static void key_came(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint, void *local,
                     mca_btl_base_registration_handle_t *local_handle, void *context, void *data,
                     int opal_status)
{
    btl_verbena_rma_t *op = data;
    int status = opal_status == OPAL_ERROR ? VBN_ERR_DEVICE : VBN_ERR_PEER_LOST;

    (void)btl;
    (void)local;
    (void)local_handle;
    (void)context;
    if (opal_status == OPAL_SUCCESS)
        status = rma_start(&op->work);
    if (status == VBN_ERR_AGAIN)
        btl_verbena_work_add(&op->work, &endpoint->waiting);
    else if (status != VBN_OK)
        btl_verbena_rma_end(op, status);
}

/* One of osc/rdma's that was denied, perhaps because its key is that of other memory: the owner is
 * asked, once, and OP goes on when it has answered. */
static bool asks_for_key(btl_verbena_rma_t *op, int status)
{
    if (op->has_asked || !op->mem || !is_denial(status) || op->work.endpoint->module->closing)
        return false;
    op->has_asked = true;
    return btl_verbena_served_key(op->work.endpoint, op->remote, op->len, &op->remote_key, key_came,
                                  op) == OPAL_SUCCESS;
}

void btl_verbena_rma_end(btl_verbena_rma_t *op, int status)
{
    btl_verbena_endpoint_t *endpoint = op->work.endpoint;
    btl_verbena_module_t *module = endpoint->module;

    /* At the end registrations are gone before what is under way (btl_verbena_finalize()). */
    if (OPAL_UNLIKELY(status != VBN_OK && !module->closing &&
                      btl_verbena_is_osc(op->local_handle, op->cbdata))) {
        if (asks_for_key(op, status))
            return;
        rma_failed(op, status);
    }
    if (OPAL_LIKELY(!module->closing))
        op->cbfunc(&module->super, endpoint, op->local, op->local_handle, op->cbcontext, op->cbdata,
                   btl_verbena_opal_status(status));
    opal_free_list_return(&module->rmas, &op->super);
}

static void rma_done(void *arg, vbn_endpoint_t *peer, int status)
{
    (void)peer;
    btl_verbena_rma_end(arg, status);
}

static int rma_start(btl_verbena_work_t *work)
{
    btl_verbena_rma_t *op = BTL_VERBENA_OWNER(btl_verbena_rma_t, work, work);
    vbn_endpoint_t *peer = work->endpoint->peer;

    if (OPAL_UNLIKELY(!op->mem))
        return VBN_ERR_INVALID;
    if (op->is_get)
        return vbn_get(peer, op->local, op->mem, op->remote, op->remote_key, op->len, rma_done, op);
    return vbn_put(peer, op->local, op->mem, op->remote, op->remote_key, op->len, rma_done, op);
}

static void rma_fail(btl_verbena_work_t *work, int status)
{
    btl_verbena_rma_end(BTL_VERBENA_OWNER(btl_verbena_rma_t, work, work), status);
}

static void rma_construct(btl_verbena_rma_t *op)
{
    OBJ_CONSTRUCT(&op->work, btl_verbena_work_t);
    op->work.start = rma_start;
    op->work.fail = rma_fail;
}

static void rma_destruct(btl_verbena_rma_t *op)
{
    OBJ_DESTRUCT(&op->work);
}

OBJ_CLASS_INSTANCE(btl_verbena_rma_t, opal_free_list_item_t, rma_construct, rma_destruct);

/* Starts what WANTED describes; its work and list item are set here. */
static int rma_submit(btl_verbena_module_t *module, btl_verbena_endpoint_t *endpoint,
                      const mca_btl_base_registration_handle_t *remote_handle,
                      btl_verbena_rma_t *op)
{
    bool theirs = ntohl(remote_handle->usable) == 1;
    int status = VBN_ERR_AGAIN;

    op->work.endpoint = endpoint;
    op->remote_key = ntohl(remote_handle->key);
    op->mem = theirs ? btl_verbena_handle_mem(op->local_handle) : NULL;

    if (OPAL_LIKELY(op->mem)) {
        status = rma_start(&op->work);
    } else if (theirs && btl_verbena_is_osc(op->local_handle, op->cbdata)) {
        btl_verbena_bounce(op);
        return OPAL_SUCCESS;
    }
    if (OPAL_LIKELY(status == VBN_OK))
        return OPAL_SUCCESS;
    if (status == VBN_ERR_AGAIN) {
        btl_verbena_work_add(&op->work, &op->work.endpoint->waiting);
        return OPAL_SUCCESS;
    }
    opal_free_list_return(&module->rmas, &op->super);
    return btl_verbena_opal_status(status);
}

/* Gives an operation with what put and get have in common, or NULL when memory is exhausted. */
static btl_verbena_rma_t *rma_get(btl_verbena_module_t *module, bool is_get, void *local,
                                  mca_btl_base_registration_handle_t *local_handle, uint64_t remote,
                                  size_t len)
{
    btl_verbena_rma_t *op = (btl_verbena_rma_t *)opal_free_list_get(&module->rmas);

    if (OPAL_LIKELY(op)) {
        op->is_get = is_get;
        op->has_asked = false;
        op->local = local;
        op->local_handle = local_handle;
        op->remote = remote;
        op->len = len;
    }
    return op;
}

/* Between two places of this process. */
static int copy(btl_verbena_endpoint_t *endpoint, void *to, const void *from, size_t len,
                void *local, mca_btl_base_registration_handle_t *local_handle,
                mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    memmove(to, from, len);
    cbfunc(&endpoint->module->super, endpoint, local, local_handle, cbcontext, cbdata,
           OPAL_SUCCESS);
    return OPAL_SUCCESS;
}

int btl_verbena_put(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                    void *local_address, uint64_t remote_address,
                    mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                    void *cbdata)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    btl_verbena_rma_t *op;

    (void)flags;
    (void)order;
    if (OPAL_UNLIKELY(btl_verbena_is_own(endpoint)))
        return copy(endpoint, btl_verbena_at(remote_address), local_address, size, local_address,
                    local_handle, cbfunc, cbcontext, cbdata);
    op = rma_get(module, false, local_address, local_handle, remote_address, size);
    if (OPAL_UNLIKELY(!op))
        return OPAL_ERR_OUT_OF_RESOURCE;
    op->cbfunc = cbfunc;
    op->cbcontext = cbcontext;
    op->cbdata = cbdata;
    return rma_submit(module, endpoint, remote_handle, op);
}

int btl_verbena_get(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                    void *local_address, uint64_t remote_address,
                    mca_btl_base_registration_handle_t *local_handle,
                    mca_btl_base_registration_handle_t *remote_handle, size_t size, int flags,
                    int order, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                    void *cbdata)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    btl_verbena_rma_t *op;

    (void)flags;
    (void)order;
    if (OPAL_UNLIKELY(btl_verbena_is_own(endpoint)))
        return copy(endpoint, local_address, btl_verbena_at(remote_address), size, local_address,
                    local_handle, cbfunc, cbcontext, cbdata);
    if (!module->attr.good_reads && btl_verbena_handle_mem(local_handle) &&
        ntohl(remote_handle->usable) == 1)
        return btl_verbena_served_get(endpoint, local_address, remote_address, local_handle,
                                      remote_handle, size, cbfunc, cbcontext, cbdata);
    op = rma_get(module, true, local_address, local_handle, remote_address, size);
    if (OPAL_UNLIKELY(!op))
        return OPAL_ERR_OUT_OF_RESOURCE;
    op->cbfunc = cbfunc;
    op->cbcontext = cbcontext;
    op->cbdata = cbdata;
    return rma_submit(module, endpoint, remote_handle, op);
}
