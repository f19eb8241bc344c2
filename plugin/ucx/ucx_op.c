/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation's way from its entry to the list of those that are over. */
#include "ucx.h"

int ucx_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return VBN_OK;
    case UCS_INPROGRESS:
        return VBN_PENDING;
    case UCS_ERR_NO_MEMORY:
        return VBN_ERR_NO_MEMORY;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_EXCEEDS_LIMIT:
        return VBN_ERR_INVALID;
    case UCS_ERR_MESSAGE_TRUNCATED:
        return VBN_ERR_TRUNCATED;
    case UCS_ERR_CANCELED:
        return VBN_ERR_CANCELED;
    case UCS_ERR_TIMED_OUT:
        return VBN_ERR_TIMEOUT;
    case UCS_ERR_NO_DEVICE:
        return VBN_ERR_NO_DEVICE;
    case UCS_ERR_UNREACHABLE:
        return VBN_ERR_UNREACHABLE;
    case UCS_ERR_REJECTED:
        return VBN_ERR_REFUSED;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
        return VBN_ERR_PEER_LOST;
    default:
        return VBN_ERR_DEVICE;
    }
}

struct ucx_op *ucx_op_begin(struct vbn_op *op, vbn_port_t *port, vbn_peer_t *peer,
                            enum ucx_kind kind)
{
    struct ucx_op *uop = ucx_op_of(op);

    uop->port = port;
    uop->peer = peer;
    uop->requests[0] = uop->requests[1] = NULL;
    uop->sender = UINT32_MAX; /* nobody */
    uop->status = VBN_OK;
    uop->kind = (uint8_t)kind;
    uop->parts = 1;
    uop->over = false;
    TAILQ_INSERT_TAIL(&port->going, uop, link);
    if (kind != UCX_RECV)
        port->active++;
    return uop;
}

static void leave(struct ucx_op *uop)
{
    if (uop->over) {
        TAILQ_REMOVE(&uop->port->over, uop, link);
        return;
    }
    TAILQ_REMOVE(&uop->port->going, uop, link);
    if (uop->kind != UCX_RECV)
        uop->port->active--;
}

int ucx_op_refuse(struct ucx_op *uop, int status)
{
    leave(uop);
    return status;
}

static void count(struct vbn_counters *counters, enum ucx_kind kind)
{
    if (kind == UCX_PUT)
        counters->puts++;
    else if (kind == UCX_GET)
        counters->gets++;
}

int ucx_op_at_once(struct ucx_op *uop, int status)
{
    struct vbn_op *op = ucx_op_owner(uop);

    leave(uop);
    if (uop->kind == UCX_RECV)
        op->peer = ucx_peer_of_rank(uop->port, uop->sender);
    if (status == VBN_OK)
        count(&uop->port->counters, (enum ucx_kind)uop->kind);
    op->status = status;
    return VBN_OK;
}

void ucx_op_over(struct ucx_op *uop, int status)
{
    vbn_port_t *port = uop->port;

    leave(uop);
    uop->status = (int8_t)status;
    uop->over = true;
    if (status == VBN_OK)
        count(&port->counters, (enum ucx_kind)uop->kind);
    TAILQ_INSERT_TAIL(&port->over, uop, link);
}

/* A cancelled request says so; why it was cancelled was written down before. */
static int why(const struct ucx_op *uop, int status)
{
    if (status != VBN_ERR_CANCELED)
        return status;
    if (uop->status != VBN_OK)
        return uop->status;
    if (uop->peer && uop->peer->status != VBN_OK)
        return uop->peer->status;
    return uop->port->closing ? VBN_ERR_CLOSED : status;
}

void ucx_op_part_over(struct ucx_op *uop, int status)
{
    status = why(uop, status);
    if (--uop->parts) {
        uop->status = (int8_t)(uop->status ? uop->status : status);
        return;
    }
    ucx_op_over(uop, uop->status && status == VBN_OK ? uop->status : status);
}

void ucx_op_abandon(struct ucx_op *uop)
{
    for (int i = 0; i < 2; i++)
        if (uop->requests[i])
            ucp_request_free(uop->requests[i]);
    ucx_op_over(uop, VBN_ERR_CLOSED);
}

/* UCP calls the receive's callback from inside, or lets it go on where a message has matched. */
bool ucx_op_cancel(struct ucx_op *uop, int status)
{
    uop->status = (int8_t)status;
    ucp_request_cancel(uop->port->worker, uop->requests[0]);
    if (!uop->over)
        uop->status = VBN_OK;
    return uop->over;
}
