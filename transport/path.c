/* SPDX-License-Identifier: BSD-3-Clause */
#include "path.h"
#include "context.h"
#include "error.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const char *link_name(uint8_t link)
{
    switch (link) {
    case VBN_LINK_INFINIBAND:
        return "InfiniBand";
    case VBN_LINK_ROCE_V1:
        return "RoCE v1";
    default:
        return "RoCE v2";
    }
}

#define V4_PREFIX_LEN 12
static const union ibv_gid v4_prefix = {.raw = {[10] = 0xff, [11] = 0xff}};

static bool is_ipv4(const uint8_t gid[16])
{
    return memcmp(gid, v4_prefix.raw, V4_PREFIX_LEN) == 0;
}

/* The GID that an address has on Ethernet. */
static union ibv_gid gid_of(const union vbn_sockaddr *addr)
{
    union ibv_gid gid = v4_prefix;

    if (addr->sa.sa_family == AF_INET)
        memcpy(&gid.raw[V4_PREFIX_LEN], &addr->in.sin_addr, 4);
    else
        memcpy(gid.raw, &addr->in6.sin6_addr, 16);
    return gid;
}

/* True once nothing better can come: of the entries of one address the newest protocol counts. */
static bool take_gid(const struct ibv_gid_entry *entry, bool ethernet, struct vbn_path *path)
{
    path->link = !ethernet                                 ? VBN_LINK_INFINIBAND
                 : entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? VBN_LINK_ROCE_V2
                                                           : VBN_LINK_ROCE_V1;
    path->sgid_index = (uint8_t)entry->gid_index;
    memcpy(path->gid, entry->gid.raw, sizeof(path->gid));
    return path->link != VBN_LINK_ROCE_V1;
}

static void find_gid(const vbn_context_t *ctx, int entries, bool ethernet, struct vbn_path *path)
{
    union ibv_gid wanted = gid_of(&ctx->device.addrs[0].addr);
    struct ibv_gid_entry entry;

    for (int i = 0; i < entries && i <= UINT8_MAX; i++) {
        if (ibv_query_gid_ex(ctx->device.verbs, ctx->device.port, (uint32_t)i, &entry, 0))
            continue; /* empty */
        if (ethernet && memcmp(entry.gid.raw, wanted.raw, sizeof(wanted.raw)) != 0)
            continue;
        if (take_gid(&entry, ethernet, path))
            return;
    }
}

int vbn_path_query(const vbn_context_t *ctx, struct vbn_path *path, struct vbn_error *err)
{
    const struct vbn_device *dev = &ctx->device;
    struct ibv_port_attr port;
    bool ethernet;
    int rc = ibv_query_port(dev->verbs, dev->port, &port);

    if (rc)
        return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: port %u cannot be queried (%s)",
                             dev->name, dev->port, strerror(rc));
    ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    *path = (struct vbn_path){
        .link = VBN_LINK_INFINIBAND, .mtu = (uint8_t)port.active_mtu, .lid = port.lid};
    find_gid(ctx, port.gid_tbl_len, ethernet, path);
    if (ethernet && path->link == VBN_LINK_INFINIBAND)
        return vbn_error_set(err, VBN_ERR_NO_ADDRESS,
                             "device %s: the GID table of port %u lacks its IP address; "
                             "`rdma link`, and is the netdev's address still there?",
                             dev->name, dev->port);
    return VBN_OK;
}

int vbn_path_check(const struct vbn_path *own, const struct vbn_wire_half *peer,
                   struct vbn_error *err)
{
    if (own->link != peer->link)
        return vbn_error_set(err, VBN_ERR_UNREACHABLE,
                             "the peer's port speaks %s, this side's %s; choose others by `device`",
                             link_name(peer->link), link_name(own->link));
    if (own->link != VBN_LINK_INFINIBAND && is_ipv4(own->gid) != is_ipv4(peer->gid))
        return vbn_error_set(err, VBN_ERR_UNREACHABLE,
                             "the peer's port has an %s address, this side's an %s one; choose "
                             "alike by `address`",
                             is_ipv4(peer->gid) ? "IPv4" : "IPv6",
                             is_ipv4(own->gid) ? "IPv4" : "IPv6");
    return VBN_OK;
}

const char *vbn_path_text(const struct vbn_wire_half *peer, char *text, size_t len)
{
    bool v4 = is_ipv4(peer->gid);
    char ip[INET6_ADDRSTRLEN];

    if (peer->link == VBN_LINK_INFINIBAND && peer->lid)
        snprintf(text, len, "LID %u QP %u", peer->lid, peer->qp_num);
    else if (inet_ntop(v4 ? AF_INET : AF_INET6, &peer->gid[v4 ? V4_PREFIX_LEN : 0], ip, sizeof(ip)))
        snprintf(text, len, "%s QP %u", ip, peer->qp_num);
    return text;
}
