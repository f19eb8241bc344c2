/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory, puts and gets.
 *
 * A key is  magic (4) access (4) address (8) length (8) checksum of all the rest (8) UCP's own key.
 * It names the bounds, so that what lies beyond them is refused here: not every transport of UCX
 * would.
 *
 * A put has two requests: UCP's put is over when the local memory is free, the flush of the
 * endpoint behind it when the data are at their place.
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

#define KEY_MAGIC   UINT32_C(0x5642554b) /* "VBUK" */
#define KEY_HEADER  32
#define AT_CHECKSUM 24

static unsigned protection(unsigned access)
{
    unsigned prot = UCP_MEM_MAP_PROT_LOCAL_READ;

    if (access & (VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_WRITE))
        prot |= UCP_MEM_MAP_PROT_LOCAL_WRITE;
    if (access & VBN_ACCESS_REMOTE_READ)
        prot |= UCP_MEM_MAP_PROT_REMOTE_READ;
    if (access & VBN_ACCESS_REMOTE_WRITE)
        prot |= UCP_MEM_MAP_PROT_REMOTE_WRITE;
    return prot;
}

static int map(vbn_region_t *region)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_PROT,
        .address = region->addr,
        .length = region->len,
        .prot = protection(region->access),
    };

    return ucx_status(ucp_mem_map(region->port->context, &params, &region->mem));
}

int ucx_mem_register(vbn_port_t *port, void *addr, size_t len, unsigned access,
                     vbn_region_t **region)
{
    vbn_region_t *made;
    int status;

    if (!port || !addr || !len || len > UCX_MAX_LEN || !region || access > 15)
        return VBN_ERR_INVALID;
    made = calloc(1, sizeof(*made));
    if (!made)
        return VBN_ERR_NO_MEMORY;
    *made = (vbn_region_t){.port = port, .addr = addr, .len = len, .access = access};
    ucx_lock(port);
    status = map(made);
    if (status == VBN_OK)
        LIST_INSERT_HEAD(&port->regions, made, link);
    ucx_unlock(port);
    if (status != VBN_OK) {
        free(made);
        return status;
    }
    *region = made;
    return VBN_OK;
}

void ucx_mem_deregister(vbn_region_t *region)
{
    vbn_port_t *port = region ? region->port : NULL;

    if (!region)
        return;
    ucx_lock(port);
    LIST_REMOVE(region, link);
    ucp_mem_unmap(port->context, region->mem);
    ucx_unlock(port);
    free(region);
}

/* --- keys ------------------------------------------------------------------------------------- */

static uint64_t key_checksum(const unsigned char *key, size_t len)
{
    return vbn_hash(key, AT_CHECKSUM) ^ vbn_hash(key + KEY_HEADER, len - KEY_HEADER);
}

static void write_key(const vbn_region_t *region, const void *packed, size_t packed_len,
                      unsigned char *key)
{
    ucx_put_u32(key, KEY_MAGIC);
    ucx_put_u32(key + 4, region->access);
    ucx_put_u64(key + 8, (uint64_t)(uintptr_t)region->addr);
    ucx_put_u64(key + 16, region->len);
    memcpy(key + KEY_HEADER, packed, packed_len);
    ucx_put_u64(key + AT_CHECKSUM, key_checksum(key, KEY_HEADER + packed_len));
}

int ucx_mem_key(vbn_region_t *region, void *buf, size_t *len)
{
    size_t room, packed_len;
    void *packed;
    int status;

    if (!region || !len || (!buf && *len))
        return VBN_ERR_INVALID;
    ucx_lock(region->port);
    status = ucx_status(ucp_rkey_pack(region->port->context, region->mem, &packed, &packed_len));
    if (status == VBN_OK) {
        room = *len;
        *len = KEY_HEADER + packed_len;
        if (!buf || room < *len)
            status = VBN_ERR_INVALID;
        else
            write_key(region, packed, packed_len, buf);
        ucp_rkey_buffer_release(packed);
    }
    ucx_unlock(region->port);
    return status;
}

static int unpack(vbn_peer_t *peer, const unsigned char *key, vbn_rkey_t *rkey)
{
    ucp_ep_h ep;
    int status = ucx_endpoint(peer, &ep);

    if (status == VBN_OK)
        status = ucx_status(ucp_ep_rkey_unpack(ep, key + KEY_HEADER, &rkey->key));
    if (status != VBN_OK)
        return status;
    rkey->port = peer->port;
    rkey->peer = peer;
    rkey->access = ucx_get_u32(key + 4);
    rkey->addr = ucx_get_u64(key + 8);
    rkey->len = ucx_get_u64(key + 16);
    LIST_INSERT_HEAD(&peer->port->rkeys, rkey, link);
    return VBN_OK;
}

int ucx_rkey_import(vbn_peer_t *peer, const void *buf, size_t len, vbn_rkey_t **rkey)
{
    const unsigned char *key = buf;
    vbn_rkey_t *made;
    int status;

    if (!peer || !buf || !rkey || len <= KEY_HEADER || ucx_get_u32(key) != KEY_MAGIC ||
        ucx_get_u64(key + AT_CHECKSUM) != key_checksum(key, len))
        return VBN_ERR_INVALID;
    made = calloc(1, sizeof(*made));
    if (!made)
        return VBN_ERR_NO_MEMORY;
    ucx_lock(peer->port);
    status = unpack(peer, key, made);
    ucx_unlock(peer->port);
    if (status != VBN_OK) {
        free(made);
        return status;
    }
    *rkey = made;
    return VBN_OK;
}

void ucx_rkey_release(vbn_rkey_t *rkey)
{
    vbn_port_t *port = rkey ? rkey->port : NULL;

    if (!rkey)
        return;
    ucx_lock(port);
    LIST_REMOVE(rkey, link);
    ucp_rkey_destroy(rkey->key);
    ucx_unlock(port);
    free(rkey);
}

/* --- puts and gets ---------------------------------------------------------------------------- */

static void part_over(void *request, ucs_status_t status, void *user)
{
    struct ucx_op *uop = user;

    for (int i = 0; i < 2; i++)
        if (uop->requests[i] == request)
            uop->requests[i] = NULL;
    ucp_request_free(request);
    ucx_op_part_over(user, ucx_status(status));
}

/* Whether [AT, AT + LEN) lies in [BASE, BASE + SIZE). */
static bool within(uint64_t at, size_t len, uint64_t base, uint64_t size)
{
    return at >= base && at - base <= size && len <= size - (at - base);
}

static bool allowed(const vbn_peer_t *peer, const void *local, const vbn_region_t *region,
                    uint64_t remote, const vbn_rkey_t *rkey, size_t len, const struct vbn_op *op)
{
    return peer && region && rkey && op && region->port == peer->port && rkey->peer == peer &&
           within((uintptr_t)local, len, (uintptr_t)region->addr, region->len) &&
           within(remote, len, rkey->addr, rkey->len);
}

/* Takes a request that goes on; says whether it was one. */
static bool take(struct ucx_op *uop, int which, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request))
        uop->status = (int8_t)ucx_status(UCS_PTR_STATUS(request));
    if (!UCS_PTR_IS_PTR(request))
        return false;
    uop->requests[which] = request;
    return true;
}

/* One part is the start itself, so that no callback ends the operation before all of it began. */
static int started(struct ucx_op *uop)
{
    if (--uop->parts) {
        ucx_op_owner(uop)->status = VBN_PENDING;
        return VBN_PENDING;
    }
    return uop->status == VBN_OK ? ucx_op_at_once(uop, VBN_OK) : ucx_op_refuse(uop, uop->status);
}

static ucp_request_param_t request_param(struct ucx_op *uop)
{
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = part_over,
        .user_data = uop,
    };
}

/* The put's own request may end inside the flush: it is taken before. */
static int start_put(vbn_peer_t *peer, const void *local, uint64_t remote, vbn_rkey_t *rkey,
                     size_t len, struct vbn_op *op)
{
    ucp_request_param_t param;
    ucs_status_ptr_t put;
    struct ucx_op *uop;
    ucp_ep_h ep;
    int status = ucx_endpoint(peer, &ep);

    if (status != VBN_OK)
        return status;
    uop = ucx_op_begin(op, peer->port, peer, UCX_PUT);
    param = request_param(uop);
    uop->parts = 3; /* put, flush, start */
    put = ucp_put_nbx(ep, local, len, remote, rkey->key, &param);
    if (UCS_PTR_IS_ERR(put))
        return ucx_op_refuse(uop, ucx_status(UCS_PTR_STATUS(put)));
    peer->port->counters.put_bytes += len;
    uop->parts -= !take(uop, 0, put);
    uop->parts -= !take(uop, 1, ucp_ep_flush_nbx(ep, &param));
    return started(uop);
}

static int start_get(vbn_peer_t *peer, void *local, uint64_t remote, vbn_rkey_t *rkey, size_t len,
                     struct vbn_op *op)
{
    ucp_request_param_t param;
    struct ucx_op *uop;
    ucp_ep_h ep;
    int status = ucx_endpoint(peer, &ep);

    if (status != VBN_OK)
        return status;
    uop = ucx_op_begin(op, peer->port, peer, UCX_GET);
    param = request_param(uop);
    uop->parts = 2; /* get, start */
    uop->parts -= !take(uop, 0, ucp_get_nbx(ep, local, len, remote, rkey->key, &param));
    if (uop->status == VBN_OK)
        peer->port->counters.get_bytes += len;
    return started(uop);
}

int ucx_put(vbn_peer_t *peer, const void *local, vbn_region_t *region, uint64_t remote,
            vbn_rkey_t *rkey, size_t len, struct vbn_op *op)
{
    int status;

    if (!allowed(peer, local, region, remote, rkey, len, op) ||
        !(rkey->access & VBN_ACCESS_REMOTE_WRITE))
        return VBN_ERR_INVALID;
    ucx_lock(peer->port);
    status = start_put(peer, local, remote, rkey, len, op);
    ucx_unlock(peer->port);
    return status;
}

int ucx_get(vbn_peer_t *peer, void *local, vbn_region_t *region, uint64_t remote, vbn_rkey_t *rkey,
            size_t len, struct vbn_op *op)
{
    int status;

    if (!allowed(peer, local, region, remote, rkey, len, op) ||
        !(rkey->access & VBN_ACCESS_REMOTE_READ) || !(region->access & VBN_ACCESS_LOCAL_WRITE))
        return VBN_ERR_INVALID;
    ucx_lock(peer->port);
    status = start_get(peer, local, remote, rkey, len, op);
    ucx_unlock(peer->port);
    return status;
}
