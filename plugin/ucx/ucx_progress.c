/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress, waiting, and the telling of what is over. */
#include "ucx.h"

#include <poll.h>

/* How often wait() looks before it sleeps: a reply of a peer that runs comes within that time. */
#define SPINS 200

/* Tells of one operation. Once its status is set, an operation without `done` may be gone. */
static void tell_over(vbn_port_t *port, struct ucx_op *uop)
{
    struct vbn_op *op = ucx_op_owner(uop);
    void (*done)(struct vbn_op *) = op->done;

    TAILQ_REMOVE(&port->over, uop, link);
    if (uop->kind == UCX_RECV)
        op->peer = ucx_peer_of_rank(port, uop->sender);
    __atomic_store_n(&op->status, uop->status, __ATOMIC_RELEASE);
    if (!done)
        return;
    ucx_unlock(port);
    done(op);
    ucx_lock(port);
}

static void tell_failed(vbn_port_t *port, vbn_peer_t *peer)
{
    char reason[256];
    int status = peer->status;

    TAILQ_REMOVE(&port->failed, peer, failed_link);
    port->counters.conns_lost++;
    ucx_bury(peer);
    snprintf(reason, sizeof(reason), "rank %u over %s: %s", peer->rank, port->device,
             vbn_status_str(status));
    if (!port->config.peer_error)
        return;
    ucx_unlock(port);
    port->config.peer_error(port->config.callback_arg, peer, status, reason);
    ucx_lock(port);
}

int ucx_deliver(vbn_port_t *port)
{
    int told = 0;

    port->delivering = true;
    for (;; told++) {
        if (!TAILQ_EMPTY(&port->failed))
            tell_failed(port, TAILQ_FIRST(&port->failed));
        else if (!TAILQ_EMPTY(&port->over))
            tell_over(port, TAILQ_FIRST(&port->over));
        else
            break;
    }
    port->delivering = false;
    return told;
}

/* A callback, or a second thread while callbacks run, gets 0 at once. */
int ucx_progress(vbn_port_t *port)
{
    int did = 0;

    if (!port)
        return VBN_ERR_INVALID;
    ucx_lock(port);
    if (!port->delivering) {
        did = (int)ucp_worker_progress(port->worker);
        did += ucx_deliver(port);
    }
    ucx_unlock(port);
    return did;
}

int ucx_event_fd(vbn_port_t *port)
{
    return port ? port->event_fd : VBN_ERR_INVALID;
}

int ucx_arm(vbn_port_t *port, int *timeout_ms)
{
    int status = VBN_ERR_AGAIN;

    if (!port || !timeout_ms)
        return VBN_ERR_INVALID;
    *timeout_ms = -1; /* what UCX has to do in time makes its descriptor readable */
    ucx_lock(port);
    if (TAILQ_EMPTY(&port->over) && TAILQ_EMPTY(&port->failed)) {
        ucs_status_t armed = ucp_worker_arm(port->worker);

        status = armed == UCS_ERR_BUSY ? VBN_ERR_AGAIN : ucx_status(armed);
    }
    ucx_unlock(port);
    return status;
}

static int spin(vbn_port_t *port)
{
    for (int i = 0; i < SPINS; i++) {
        int did = ucx_progress(port);

        if (did)
            return did;
    }
    return 0;
}

/* Milliseconds of TIMEOUT_MS that are left since START. */
static int left(const vbn_port_t *port, uint64_t start, int timeout_ms)
{
    uint64_t passed = ucx_now_ms(port) - start;

    if (timeout_ms < 0)
        return -1;
    return passed < (uint64_t)timeout_ms ? timeout_ms - (int)passed : 0;
}

int ucx_wait(vbn_port_t *port, int timeout_ms)
{
    uint64_t start;
    int did, unused, remaining = timeout_ms;

    if (!port)
        return VBN_ERR_INVALID;
    start = ucx_now_ms(port);
    while (!(did = spin(port)) && remaining) {
        struct pollfd fd = {.fd = port->event_fd, .events = POLLIN};

        if (ucx_arm(port, &unused) == VBN_OK && poll(&fd, 1, remaining) < 0)
            break; /* a signal: the caller may want to look at what it meant */
        remaining = left(port, start, timeout_ms);
    }
    return did;
}
