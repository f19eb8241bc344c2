/* SPDX-License-Identifier: BSD-3-Clause */
/* Tagged messages. */
#include "ucx.h"

#include <string.h>

static void send_over(void *request, ucs_status_t status, void *user)
{
    ucp_request_free(request);
    ucx_op_part_over(user, ucx_status(status));
}

static int start_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag,
                      struct vbn_op *op)
{
    vbn_port_t *port = peer->port;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = send_over,
    };
    ucs_status_ptr_t request;
    struct ucx_op *uop;
    ucp_ep_h ep;
    int status = ucx_endpoint(peer, &ep);

    if (status != VBN_OK)
        return status;
    uop = ucx_op_begin(op, port, peer, UCX_SEND);
    param.user_data = uop;
    tag |= (uint64_t)port->config.rank << VBN_TAG_BITS;
    request = ucp_tag_send_nbx(ep, buf, len, tag, &param);
    if (UCS_PTR_IS_ERR(request))
        return ucx_op_refuse(uop, ucx_status(UCS_PTR_STATUS(request)));
    port->counters.tx_msgs++;
    port->counters.tx_bytes += len;
    if (!request)
        return ucx_op_at_once(uop, VBN_OK);
    uop->requests[0] = request;
    op->status = VBN_PENDING;
    return VBN_PENDING;
}

int ucx_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    int status;

    if (!peer || !op || (!buf && len) || tag > VBN_TAG_MAX || len > UCX_MAX_LEN)
        return VBN_ERR_INVALID;
    ucx_lock(peer->port);
    status = start_send(peer, buf, len, tag, op);
    ucx_unlock(peer->port);
    return status;
}

/* --- receives --------------------------------------------------------------------------------- */

static void note_sender(struct ucx_op *uop, const ucp_tag_recv_info_t *info)
{
    struct vbn_op *op = ucx_op_owner(uop);

    uop->sender = (uint32_t)(info->sender_tag >> VBN_TAG_BITS);
    op->tag = info->sender_tag & VBN_TAG_MAX;
    op->len = info->length;
    uop->port->counters.rx_msgs++;
    uop->port->counters.rx_bytes += info->length;
}

static void recv_over(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                      void *user)
{
    struct ucx_op *uop = user;

    if (status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED)
        note_sender(uop, info);
    ucp_request_free(request);
    ucx_op_part_over(uop, ucx_status(status));
}

/* UCP does not always tell of a message that it has at once but to the callback, which it calls
 * from inside then. */
static int start_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, ucp_tag_t tag,
                      ucp_tag_t mask, struct vbn_op *op)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = recv_over,
    };
    struct ucx_op *uop = ucx_op_begin(op, port, peer, UCX_RECV);
    ucs_status_ptr_t request;

    param.user_data = uop;
    request = ucp_tag_recv_nbx(port->worker, buf, len, tag, mask, &param);
    if (uop->over)
        return ucx_op_at_once(uop, uop->status);
    if (!UCS_PTR_IS_PTR(request))
        return ucx_op_refuse(uop, ucx_status(UCS_PTR_STATUS(request)));
    uop->requests[0] = request;
    op->status = VBN_PENDING;
    return VBN_PENDING;
}

/* What the port or the peer has to say against a receive. A peer that is waited for has an endpoint
 * on this side too, which notices when it dies. */
static int may_receive(vbn_port_t *port, vbn_peer_t *peer)
{
    ucp_ep_h ep;

    if (port->closing)
        return VBN_ERR_CLOSED;
    return peer ? ucx_endpoint(peer, &ep) : VBN_OK;
}

static ucp_tag_t peer_mask(const vbn_peer_t *peer)
{
    return peer ? UCX_RANK_MASK : 0;
}

static ucp_tag_t peer_tag(const vbn_peer_t *peer)
{
    return peer ? (ucp_tag_t)peer->rank << VBN_TAG_BITS : 0;
}

int ucx_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag, uint64_t mask,
             struct vbn_op *op)
{
    int status;

    if (!port || !op || (!buf && len) || (peer && peer->port != port) || tag > VBN_TAG_MAX ||
        mask > VBN_TAG_MAX || len > UCX_MAX_LEN)
        return VBN_ERR_INVALID;
    ucx_lock(port);
    status = may_receive(port, peer);
    if (status == VBN_OK)
        status = start_recv(port, peer, buf, len, peer_tag(peer) | tag, peer_mask(peer) | mask, op);
    ucx_unlock(port);
    return status;
}

int ucx_probe(vbn_port_t *port, vbn_peer_t *peer, uint64_t tag, uint64_t mask, struct vbn_op *found)
{
    ucp_tag_recv_info_t info;
    int status = VBN_ERR_AGAIN;

    if (!port || !found || (peer && peer->port != port) || tag > VBN_TAG_MAX || mask > VBN_TAG_MAX)
        return VBN_ERR_INVALID;
    ucx_lock(port);
    if (ucp_tag_probe_nb(port->worker, peer_tag(peer) | tag, peer_mask(peer) | mask, 0, &info)) {
        found->peer = ucx_peer_of_rank(port, (uint32_t)(info.sender_tag >> VBN_TAG_BITS));
        found->tag = info.sender_tag & VBN_TAG_MAX;
        found->len = info.length;
        status = VBN_OK;
    }
    ucx_unlock(port);
    return status;
}

int ucx_cancel(vbn_port_t *port, struct vbn_op *op)
{
    struct ucx_op *uop;
    int status = VBN_ERR_AGAIN;

    if (!port || !op)
        return VBN_ERR_INVALID;
    ucx_lock(port);
    uop = ucx_op_of(op);
    if (op->status == VBN_PENDING && uop->port == port && uop->kind == UCX_RECV && !uop->over &&
        ucx_op_cancel(uop, VBN_ERR_CANCELED))
        status = VBN_OK;
    ucx_unlock(port);
    return status;
}
