/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: addresses, endpoints and their failures.
 *
 * An address is  magic (4) rank (4) job key (8) checksum of all the rest (8) UCP's worker address.
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAGIC  UINT32_C(0x56425541) /* "VBUA" */
#define ADDRESS_HEADER 24
#define AT_CHECKSUM    16

static uint64_t address_checksum(const unsigned char *address, size_t len)
{
    return vbn_hash(address, AT_CHECKSUM) ^
           vbn_hash(address + ADDRESS_HEADER, len - ADDRESS_HEADER);
}

int ucx_address(vbn_port_t *port, void *buf, size_t *len)
{
    unsigned char *bytes = buf;
    size_t room, need;

    if (!port || !len || (!buf && *len))
        return VBN_ERR_INVALID;
    room = *len;
    need = ADDRESS_HEADER + port->worker_address_len;
    *len = need;
    if (!buf || room < need)
        return VBN_ERR_INVALID;
    ucx_put_u32(bytes, ADDRESS_MAGIC);
    ucx_put_u32(bytes + 4, port->config.rank);
    ucx_put_u64(bytes + 8, port->config.job_key);
    memcpy(bytes + ADDRESS_HEADER, port->worker_address, port->worker_address_len);
    ucx_put_u64(bytes + AT_CHECKSUM, address_checksum(bytes, need));
    return VBN_OK;
}

static int check_address(const vbn_port_t *port, const unsigned char *address, size_t len,
                         struct vbn_error *err)
{
    uint64_t key;

    if (len <= ADDRESS_HEADER || ucx_get_u32(address) != ADDRESS_MAGIC ||
        ucx_get_u64(address + AT_CHECKSUM) != address_checksum(address, len) ||
        ucx_get_u32(address + 4) > UCX_RANK_MAX)
        return vbn_fail(err, VBN_ERR_INVALID,
                        "these %zu bytes are not an address of the transport ucx", len);
    key = ucx_get_u64(address + 8);
    if (key != port->config.job_key)
        return vbn_fail(err, VBN_ERR_REFUSED,
                        "the peer of rank %u belongs to another job (its key is %llx, ours %llx)",
                        ucx_get_u32(address + 4), (unsigned long long)key,
                        (unsigned long long)port->config.job_key);
    return VBN_OK;
}

vbn_peer_t *ucx_peer_of_rank(vbn_port_t *port, uint32_t rank)
{
    vbn_peer_t *peer;

    HASH_FIND(hh, port->peers, &rank, sizeof(rank), peer);
    return peer;
}

static int make_peer(vbn_port_t *port, const unsigned char *address, size_t len, void *user,
                     vbn_peer_t **peer, struct vbn_error *err)
{
    vbn_peer_t *made = calloc(1, sizeof(*made) + len);

    if (!made)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for a peer");
    made->port = port;
    made->user = user;
    made->rank = ucx_get_u32(address + 4);
    made->address_len = len;
    memcpy(made->address, address, len);
    HASH_ADD(hh, port->peers, rank, sizeof(made->rank), made);
    if (ucx_peer_of_rank(port, made->rank) != made) { /* uthash found no memory */
        free(made);
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for a peer");
    }
    *peer = made;
    return VBN_OK;
}

static int find_or_make(vbn_port_t *port, const unsigned char *address, size_t len, void *user,
                        vbn_peer_t **peer, struct vbn_error *err)
{
    vbn_peer_t *there;
    int status = check_address(port, address, len, err);

    if (status != VBN_OK)
        return status;
    if (port->closing)
        return vbn_fail(err, VBN_ERR_CLOSED, "the port is closing");
    there = ucx_peer_of_rank(port, ucx_get_u32(address + 4));
    if (!there)
        return make_peer(port, address, len, user, peer, err);
    if (there->address_len != len || memcmp(there->address, address, len) != 0)
        return vbn_fail(err, VBN_ERR_INVALID, "rank %u is another peer's already", there->rank);
    if (user)
        there->user = user;
    *peer = there;
    return VBN_OK;
}

int ucx_connect(vbn_port_t *port, const void *address, size_t len, void *user, vbn_peer_t **peer,
                struct vbn_error *err)
{
    int status;

    if (!port || !address || !peer)
        return vbn_fail(err, VBN_ERR_INVALID, "connect needs a port, an address and a peer");
    ucx_lock(port);
    status = find_or_make(port, address, len, user, peer, err);
    ucx_unlock(port);
    return status;
}

void *ucx_peer_user(const vbn_peer_t *peer)
{
    return peer ? peer->user : NULL;
}

/* --- endpoints -------------------------------------------------------------------------------- */

/* Inside of UCP: only noted, ucx_deliver() does the rest. */
static void endpoint_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    vbn_peer_t *peer = arg;

    (void)ep;
    if (peer->status != VBN_OK)
        return;
    peer->status = ucx_status(status);
    if (peer->status == VBN_ERR_DEVICE || peer->status == VBN_ERR_TIMEOUT)
        peer->status = VBN_ERR_PEER_LOST;
    TAILQ_INSERT_TAIL(&peer->port->failed, peer, failed_link);
}

int ucx_endpoint(vbn_peer_t *peer, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(const void *)(peer->address + ADDRESS_HEADER),
        .err_mode =
            peer->port->peer_errors ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = {.cb = endpoint_failed, .arg = peer},
    };
    ucs_status_t status;

    if (peer->status != VBN_OK)
        return peer->status;
    if (peer->port->closing)
        return VBN_ERR_CLOSED;
    if (!peer->ep) {
        status = ucp_ep_create(peer->port->worker, &params, &peer->ep);
        if (status != UCS_OK) {
            peer->ep = NULL;
            return ucx_status(status);
        }
        peer->port->counters.conns_made++;
    }
    *ep = peer->ep;
    return VBN_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void closed(void *request, ucs_status_t status, void *user)
{
    struct ucx_closing *closing = user;

    (void)status;
    ucp_request_free(request);
    LIST_REMOVE(closing, link);
    free(closing);
}

/* Without memory to remember it by, UCP is left to close it as it goes. */
void ucx_close_endpoint(vbn_peer_t *peer, unsigned flags)
{
    struct ucx_closing *closing = peer->ep ? calloc(1, sizeof(*closing)) : NULL;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = closed,
        .user_data = closing,
        .flags = flags,
    };
    ucs_status_ptr_t request;

    if (!closing)
        return;
    request = ucp_ep_close_nbx(peer->ep, &param);
    peer->ep = NULL;
    if (!UCS_PTR_IS_PTR(request)) {
        free(closing);
        return;
    }
    closing->request = request;
    LIST_INSERT_HEAD(&peer->port->closings, closing, link);
}

static void end_receives(vbn_peer_t *peer, int status)
{
    struct ucx_op *uop = TAILQ_FIRST(&peer->port->going);

    while (uop) {
        struct ucx_op *next = TAILQ_NEXT(uop, link);

        if (uop->peer == peer && uop->kind == UCX_RECV)
            ucx_op_cancel(uop, status);
        uop = next;
    }
}

void ucx_bury(vbn_peer_t *peer)
{
    end_receives(peer, peer->status);
    ucx_close_endpoint(peer, UCP_EP_CLOSE_FLAG_FORCE);
}

/* No operation names it any more; those that go on still end by themselves. */
static void forget(vbn_peer_t *peer)
{
    struct ucx_op *uop;
    struct vbn_rkey *rkey;

    TAILQ_FOREACH(uop, &peer->port->going, link)
    {
        if (uop->peer == peer)
            uop->peer = NULL;
    }
    TAILQ_FOREACH(uop, &peer->port->over, link)
    {
        if (uop->peer == peer)
            uop->peer = NULL;
    }
    LIST_FOREACH(rkey, &peer->port->rkeys, link)
    {
        if (rkey->peer == peer)
            rkey->peer = NULL;
    }
}

void ucx_free_peer(vbn_peer_t *peer)
{
    vbn_port_t *port = peer->port;
    struct vbn_peer *failed;

    TAILQ_FOREACH(failed, &port->failed, failed_link)
    {
        if (failed == peer) {
            TAILQ_REMOVE(&port->failed, peer, failed_link);
            break;
        }
    }
    if (peer->flush) {
        ucp_request_free(peer->flush);
        port->flushes--;
    }
    forget(peer);
    HASH_DEL(port->peers, peer);
    free(peer);
}

/* UCP's error callback has the peer as its argument, but is not called after a close. */
void ucx_disconnect(vbn_peer_t *peer)
{
    vbn_port_t *port = peer ? peer->port : NULL;

    if (!peer)
        return;
    ucx_lock(port);
    end_receives(peer, VBN_ERR_CLOSED);
    ucx_close_endpoint(peer, 0);
    ucx_free_peer(peer);
    ucx_unlock(port);
}
