/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"
#include "context.h"
#include "error.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what is asked for --------------------------------------------------------------------------
 */

struct wanted {
    char name[64]; /* "": any */
    unsigned port; /* 0: any */
};

static int parse_wanted(const char *text, struct wanted *w, struct vbn_error *err)
{
    const char *colon = text ? strrchr(text, ':') : NULL;
    char *end;

    *w = (struct wanted){0};
    if (!text)
        return VBN_OK;
    snprintf(w->name, sizeof(w->name), "%.*s", (int)(colon ? colon - text : (long)strlen(text)),
             text);
    if (!colon)
        return VBN_OK;
    w->port = (unsigned)strtoul(colon + 1, &end, 10);
    if (*end || w->port < 1 || w->port > UINT8_MAX)
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "parameter device: in \"%s\" the port is not a number from 1 to %d",
                             text, UINT8_MAX);
    return VBN_OK;
}

static bool matches(const struct wanted *w, const char *device, unsigned port)
{
    return (!w->name[0] || !strcmp(w->name, device)) && (!w->port || w->port == port);
}

/* --- naming the obstacle ------------------------------------------------------------------------
 */

static void list_names(struct ibv_device **list, char *names, size_t len)
{
    size_t used = 0;

    names[0] = '\0';
    for (int i = 0; list[i] && used < len; i++)
        used += (size_t)snprintf(names + used, len - used, "%s%s", i ? ", " : "",
                                 ibv_get_device_name(list[i]));
}

/* The first port of DEVICE that is asked for, and whether it is active. */
static int explain_port(struct ibv_device *device, const struct wanted *w, struct vbn_error *err)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_context *verbs = ibv_open_device(device);
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    char netdevs[128];
    unsigned n = w->port ? w->port : 1;

    if (!verbs)
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "device %s: cannot be opened (%s); check the permissions of "
                             "/dev/infiniband/uverbs*",
                             name, strerror(errno));
    if (ibv_query_device(verbs, &attr))
        attr.phys_port_cnt = 0;
    if (n > attr.phys_port_cnt || ibv_query_port(verbs, (uint8_t)n, &port)) {
        ibv_close_device(verbs);
        return vbn_error_set(err, VBN_ERR_NO_DEVICE,
                             "device %s: it has no port %u, its last port is %u", name, n,
                             attr.phys_port_cnt);
    }
    ibv_close_device(verbs);
    vbn_netif_of_port(name, n, netdevs, sizeof(netdevs));
    if (port.state != IBV_PORT_ACTIVE)
        return vbn_error_set(
            err, VBN_ERR_NO_DEVICE,
            "device %s: port %u is not active (state %s); `ip link set dev %s up`, "
            "and check the cable or the subnet manager",
            name, n, ibv_port_state_str(port.state), *netdevs ? netdevs : "NETDEV");
    return vbn_error_set(err, VBN_ERR_NO_ADDRESS,
                         "device %s: its netdev %s has no IP address; `ip addr add ADDRESS/LENGTH "
                         "dev %s`",
                         name, *netdevs ? netdevs : "(IPoIB or Ethernet interface)",
                         *netdevs ? netdevs : "NETDEV");
}

int vbn_device_any(struct vbn_error *err)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    bool any = list && list[0];

    if (list)
        ibv_free_device_list(list);
    if (any)
        return VBN_OK;
    return vbn_error_set(
        err, VBN_ERR_NO_DEVICE,
        "no RDMA device on this host; load the driver of the adapter (and ib_uverbs), or make a "
        "soft-RoCE device: `modprobe rdma_rxe; rdma link add rxe0 type rxe netdev NETDEV`");
}

/* No address leads to a wanted device. Says why, by looking at the devices themselves. */
static int explain(const vbn_context_t *ctx, const struct wanted *w, struct vbn_error *err)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    char names[256];
    int rc, i;

    if (!list || !list[0]) {
        if (list)
            ibv_free_device_list(list);
        return vbn_device_any(err);
    }
    for (i = 0; list[i] && w->name[0]; i++)
        if (!strcmp(ibv_get_device_name(list[i]), w->name))
            break;
    list_names(list, names, sizeof(names));
    if (!list[i])
        rc = vbn_error_set(err, VBN_ERR_NO_DEVICE,
                           "there is no device \"%s\" on this host; it has: %s", w->name, names);
    else
        rc = explain_port(list[i], w, err);
    if (rc == VBN_ERR_NO_ADDRESS && ctx->opts.address && *ctx->opts.address)
        rc = vbn_error_set(err, VBN_ERR_NO_ADDRESS,
                           "address %s belongs to no active RDMA device asked for; devices here: "
                           "%s; `rdma link` shows their netdevs",
                           ctx->opts.address, names);
    ibv_free_device_list(list);
    return rc;
}

/* --- choosing ------------------------------------------------------------------------------------
 */

static bool port_active(const char *name, unsigned port_num)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_port_attr port;
    bool active = false;

    for (int i = 0; list && list[i]; i++) {
        struct ibv_context *verbs;

        if (strcmp(ibv_get_device_name(list[i]), name))
            continue;
        verbs = ibv_open_device(list[i]);
        if (verbs) {
            active =
                !ibv_query_port(verbs, (uint8_t)port_num, &port) && port.state == IBV_PORT_ACTIVE;
            ibv_close_device(verbs);
        }
    }
    if (list)
        ibv_free_device_list(list);
    return active;
}

static bool address_wanted(const vbn_context_t *ctx, const struct vbn_netif *netif)
{
    char text[INET6_ADDRSTRLEN];

    if (!ctx->opts.address || !*ctx->opts.address)
        return true;
    return !strcmp(ctx->opts.address, vbn_netif_text(&netif->addr, text, sizeof(text)));
}

/* Takes the first address that leads to a wanted active port, and all others of that port. */
static int choose(vbn_context_t *ctx, struct vbn_error *err)
{
    struct vbn_device *dev = &ctx->device;
    struct vbn_netif *list;
    struct wanted w;
    int n = parse_wanted(ctx->opts.device, &w, err);

    if (n)
        return n;
    n = vbn_netif_list(ctx->cm.channel, &list);
    if (n < 0)
        return vbn_error_set(err, n, "out of memory");
    for (int i = 0; i < n && dev->addr_count < 4; i++) {
        const struct vbn_netif *netif = &list[i];

        if (!matches(&w, netif->device, netif->port) || !address_wanted(ctx, netif))
            continue;
        if (!dev->addr_count) {
            if (!port_active(netif->device, netif->port))
                continue;
            snprintf(dev->name, sizeof(dev->name), "%s", netif->device);
            dev->port = netif->port;
        }
        if (!strcmp(dev->name, netif->device) && dev->port == netif->port)
            dev->addrs[dev->addr_count++] = *netif;
    }
    free(list);
    return dev->addr_count ? VBN_OK : explain(ctx, &w, err);
}

/* --- opening and probing
 * -------------------------------------------------------------------------- */

static int open_by_name(struct vbn_device *dev, struct vbn_error *err)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    errno = ENODEV;
    for (int i = 0; list && list[i] && !dev->verbs; i++)
        if (!strcmp(ibv_get_device_name(list[i]), dev->name))
            dev->verbs = ibv_open_device(list[i]);
    if (list)
        ibv_free_device_list(list);
    if (!dev->verbs)
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "device %s: cannot be opened (%s); check the permissions of "
                             "/dev/infiniband/uverbs*",
                             dev->name, strerror(errno));
    return VBN_OK;
}

static uint64_t rate_of(const struct ibv_port_attr *port)
{
    static const struct {
        uint8_t code;
        uint32_t mbps;
    } lane[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static const uint8_t widths[][2] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint64_t mbps = 0, width = 1;

    for (size_t i = 0; i < sizeof(lane) / sizeof(lane[0]); i++)
        if (lane[i].code == port->active_speed)
            mbps = lane[i].mbps;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i][0] == port->active_width)
            width = widths[i][1];
    return mbps * width;
}

/*
 * What tells the kernel's own devices apart, which may have any name. Soft-RoCE's has no vendor;
 * its reads may complete without their data (doc/behaviours.md, k). Soft-iWARP's is "bmt" in ASCII;
 * it sends a page and more without copying, in pieces and its end by itself, unless completion is
 * asked for, and its reads wait for a thread of the kernel (doc/behaviours.md).
 */
#define VENDOR_SOFT_ROCE  0xffffffu
#define VENDOR_SOFT_IWARP 0x626d74u

static int query(vbn_context_t *ctx, struct vbn_error *err)
{
    struct vbn_device *dev = &ctx->device;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    if (ibv_query_device(dev->verbs, &attr) || ibv_query_port(dev->verbs, dev->port, &port))
        return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: cannot be queried (%s)", dev->name,
                             strerror(errno));
    dev->iwarp = dev->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
    dev->has_srq = attr.max_srq > 0 && attr.max_srq_wr > 0;
    dev->has_atomics = attr.atomic_cap != IBV_ATOMIC_NONE;
    dev->software = attr.vendor_id == VENDOR_SOFT_ROCE || attr.vendor_id == VENDOR_SOFT_IWARP;
    dev->sound_reads = attr.vendor_id != VENDOR_SOFT_ROCE || ctx->opts.trust_reads;
    dev->good_reads = !dev->software || ctx->opts.trust_reads;
    dev->cq_size = (uint32_t)vbn_min(ctx->opts.cq_size, (uint64_t)attr.max_cqe);
    dev->max_qp_wr = (uint32_t)attr.max_qp_wr;
    dev->max_srq_wr = (uint32_t)attr.max_srq_wr;
    dev->max_sge = (uint32_t)attr.max_sge;
    /* The other half of a completion queue is for receives. */
    dev->sq_depth = (uint32_t)vbn_min(vbn_min(ctx->opts.sq_depth, (uint64_t)dev->max_qp_wr - 1),
                                      vbn_max(dev->cq_size / 2, 2) - 1);
    dev->max_read_out = (uint8_t)vbn_min(ctx->opts.read_depth, (uint64_t)attr.max_qp_init_rd_atom);
    dev->max_read_in = (uint8_t)vbn_min(ctx->opts.read_depth, (uint64_t)attr.max_qp_rd_atom);
    dev->max_msg_size = port.max_msg_sz;
    dev->signal_from =
        attr.vendor_id == VENDOR_SOFT_IWARP ? (uint32_t)sysconf(_SC_PAGESIZE) : UINT32_MAX;
    dev->rate_mbps = rate_of(&port);
    return VBN_OK;
}

/* Makes a queue pair as the data path will, asking for less inline room until the device agrees. */
static int probe(vbn_context_t *ctx, struct vbn_error *err)
{
    struct vbn_device *dev = &ctx->device;
    struct ibv_cq *cq = ibv_create_cq(dev->verbs, 16, NULL, NULL, 0);
    uint32_t want = (uint32_t)ctx->opts.inline_limit;
    struct ibv_qp *qp = NULL;

    if (!cq)
        return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: cannot make a completion queue (%s)",
                             dev->name, strerror(errno));
    for (;;) {
        struct ibv_qp_init_attr init = {
            .send_cq = cq,
            .recv_cq = cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = dev->sq_depth + 1,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = want},
        };
        qp = ibv_create_qp(dev->pd, &init);
        if (qp || !want)
            break;
        want = want > 16 ? want / 2 : 0;
    }
    if (qp) {
        dev->max_inline = want;
        ibv_destroy_qp(qp);
    }
    ibv_destroy_cq(cq);
    if (!qp)
        return vbn_error_set(
            err, VBN_ERR_DEVICE,
            "device %s: cannot make an RC queue pair with %u send requests (%s); a "
            "smaller sq_depth or a larger locked-memory limit may help",
            dev->name, dev->sq_depth, strerror(errno));
    return VBN_OK;
}

int vbn_device_open(vbn_context_t *ctx, struct vbn_error *err)
{
    struct vbn_device *dev = &ctx->device;
    int rc = choose(ctx, err);

    if (!rc)
        rc = open_by_name(dev, err);
    if (!rc)
        rc = query(ctx, err);
    if (rc)
        return rc;
    dev->link_up = true;
    dev->watch = vbn_netif_watch();
    dev->addrs_told = UINT32_MAX >> (32 - dev->addr_count);
    dev->pd = ibv_alloc_pd(dev->verbs);
    if (!dev->pd)
        return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: cannot make a protection domain (%s)",
                             dev->name, strerror(errno));
    return probe(ctx, err);
}

const union vbn_sockaddr *vbn_device_addr_for(const struct vbn_device *dev,
                                              const union vbn_sockaddr *dst)
{
    for (unsigned i = 0; i < dev->addr_count; i++)
        if (vbn_sockaddr_kind(&dev->addrs[i].addr.sa) == vbn_sockaddr_kind(&dst->sa))
            return &dev->addrs[i].addr;
    return NULL;
}

void vbn_device_look_at_link(vbn_context_t *ctx)
{
    struct vbn_device *dev = &ctx->device;
    struct ibv_port_attr port;

    if (dev->iwarp || ctx->faulted || ibv_query_port(dev->verbs, dev->port, &port))
        return;
    dev->link_up = port.state == IBV_PORT_ACTIVE;
    ctx->slow_work |= dev->link_up; /* connections may have waited to be freed */
}

/* The watch first: what changes after that is seen at the next look. */
static void look_at_addresses(struct vbn_device *dev)
{
    if (vbn_netif_changed(dev->watch) || !dev->addrs_seen)
        dev->addrs_seen = vbn_netif_there(dev->addrs, dev->addr_count, &dev->addrs_there);
}

int vbn_device_addresses_since(vbn_context_t *ctx)
{
    struct vbn_device *dev = &ctx->device;
    uint32_t told = dev->addrs_told;

    look_at_addresses(dev);
    dev->addrs_told = dev->addrs_there;
    if (told & ~dev->addrs_there)
        return -1;
    return (dev->addrs_there & ~told) != 0;
}

bool vbn_device_has_address(vbn_context_t *ctx, const struct sockaddr *addr)
{
    struct vbn_device *dev = &ctx->device;
    union vbn_sockaddr wanted;

    vbn_sockaddr_set(&wanted, addr);
    look_at_addresses(dev);
    for (unsigned i = 0; i < dev->addr_count; i++)
        if (vbn_netif_same_ip(&wanted, &dev->addrs[i].addr))
            return dev->addrs_there & 1u << i;
    return true;
}

void vbn_device_fini(vbn_context_t *ctx)
{
    if (ctx->device.pd)
        ibv_dealloc_pd(ctx->device.pd);
    if (ctx->device.verbs)
        ibv_close_device(ctx->device.verbs);
    if (ctx->device.watch >= 0)
        close(ctx->device.watch);
}
