/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a port: what was sent is flushed, within a bound; then endpoints are closed, and what
 * is left of the operations ends.
 */
#include "ucx.h"

#include <poll.h>
#include <stdlib.h>

/* What is given, at the end, to endpoints that are flushed and only have to say good-bye. */
#define GOODBYE_MS 1000

static void flushed(void *request, ucs_status_t status, void *user)
{
    vbn_peer_t *peer = user;

    (void)status; /* an endpoint that failed says so by its error handler */
    ucp_request_free(request);
    peer->flush = NULL;
    peer->port->flushes--;
}

static void flush_peer(vbn_peer_t *peer)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = flushed,
        .user_data = peer,
    };
    ucs_status_ptr_t request;

    if (!peer->ep || peer->flushing || peer->status != VBN_OK)
        return;
    peer->flushing = true;
    request = ucp_ep_flush_nbx(peer->ep, &param);
    if (!UCS_PTR_IS_PTR(request))
        return;
    peer->flush = request;
    peer->port->flushes++;
}

static bool something_left(const vbn_port_t *port)
{
    return port->active || port->flushes || !LIST_EMPTY(&port->closings);
}

static size_t left(const vbn_port_t *port)
{
    const struct ucx_closing *closing;
    size_t count = port->active + port->flushes;

    LIST_FOREACH(closing, &port->closings, link)
    count++;
    return count;
}

size_t ucx_shutdown(vbn_port_t *port)
{
    size_t count;

    if (!port)
        return 0;
    ucx_lock(port);
    port->closing = true;
    for (vbn_peer_t *peer = port->peers; peer; peer = peer->hh.next)
        flush_peer(peer);
    count = left(port);
    ucx_unlock(port);
    return count;
}

/* Progress until nothing is left or TIMEOUT_MS have passed. */
static void settle(vbn_port_t *port, uint64_t timeout_ms)
{
    uint64_t start = ucx_now_ms(port);

    while (something_left(port) && ucx_now_ms(port) - start < timeout_ms)
        if (!ucp_worker_progress(port->worker) && !ucx_deliver(port))
            poll(NULL, 0, 1);
}

static void close_endpoints(vbn_port_t *port, unsigned flags)
{
    for (vbn_peer_t *peer = port->peers; peer; peer = peer->hh.next)
        ucx_close_endpoint(peer, flags);
}

static void cancel_receives(vbn_port_t *port)
{
    struct ucx_op *uop = TAILQ_FIRST(&port->going);

    while (uop) {
        struct ucx_op *next = TAILQ_NEXT(uop, link);

        if (uop->kind == UCX_RECV)
            ucx_op_cancel(uop, VBN_ERR_CLOSED);
        uop = next;
    }
}

/* UCP has not given these back in time, and never will: the worker goes. */
static void abandon(vbn_port_t *port)
{
    struct ucx_closing *closing;

    while (!TAILQ_EMPTY(&port->going))
        ucx_op_abandon(TAILQ_FIRST(&port->going));
    while ((closing = LIST_FIRST(&port->closings))) {
        LIST_REMOVE(closing, link);
        ucp_request_free(closing->request);
        free(closing);
    }
    for (vbn_peer_t *peer = port->peers; peer; peer = peer->hh.next) {
        if (!peer->flush)
            continue;
        ucp_request_free(peer->flush);
        peer->flush = NULL;
        port->flushes--;
    }
}

int ucx_close(vbn_port_t *port)
{
    bool late;

    if (!port)
        return VBN_ERR_INVALID;
    ucx_shutdown(port);
    ucx_lock(port);
    settle(port, port->close_timeout_ms);
    late = something_left(port);
    cancel_receives(port);
    close_endpoints(port, late ? UCP_EP_CLOSE_FLAG_FORCE : 0);
    settle(port, GOODBYE_MS);
    ucx_deliver(port);
    abandon(port);
    ucx_deliver(port);
    ucx_unlock(port);
    ucx_free_port(port);
    return late ? VBN_ERR_TIMEOUT : VBN_OK;
}
