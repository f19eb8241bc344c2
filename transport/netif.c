/* SPDX-License-Identifier: BSD-3-Clause */
#include "netif.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool usable(const struct ifaddrs *ifa)
{
    if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) || (ifa->ifa_flags & IFF_LOOPBACK))
        return false;
    return ifa->ifa_addr->sa_family == AF_INET || ifa->ifa_addr->sa_family == AF_INET6;
}

int vbn_sockaddr_kind(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return 0;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)addr)->sin6_addr) ? 2 : 1;
}

/* Binding tells the device; an address without one cannot be bound. */
static bool find_device(struct rdma_event_channel *channel, struct vbn_netif *netif)
{
    struct rdma_cm_id *id;
    bool found = false;

    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
        return false;
    if (rdma_bind_addr(id, &netif->addr.sa) == 0 && id->verbs) {
        snprintf(netif->device, sizeof(netif->device), "%s",
                 ibv_get_device_name(id->verbs->device));
        netif->port = id->port_num;
        found = true;
    }
    rdma_destroy_id(id);
    return found;
}

static bool take(struct rdma_event_channel *channel, const struct ifaddrs *ifa,
                 struct vbn_netif *netif)
{
    memset(netif, 0, sizeof(*netif));
    vbn_sockaddr_set(&netif->addr, ifa->ifa_addr);
    snprintf(netif->ifname, sizeof(netif->ifname), "%s", ifa->ifa_name);
    return find_device(channel, netif);
}

int vbn_netif_list(struct rdma_event_channel *channel, struct vbn_netif **list)
{
    struct ifaddrs *all, *ifa;
    struct vbn_netif *out;
    int n = 0, room = 0;

    *list = NULL;
    if (getifaddrs(&all))
        return 0;
    for (ifa = all; ifa; ifa = ifa->ifa_next)
        room += usable(ifa);
    out = calloc((size_t)room + 1, sizeof(*out));
    if (!out) {
        freeifaddrs(all);
        return VBN_ERR_NO_MEMORY;
    }
    for (int kind = 0; kind < 3; kind++)
        for (ifa = all; ifa; ifa = ifa->ifa_next)
            if (usable(ifa) && vbn_sockaddr_kind(ifa->ifa_addr) == kind)
                n += take(channel, ifa, &out[n]);
    freeifaddrs(all);
    *list = out;
    return n;
}

int vbn_netif_watch(void)
{
    struct sockaddr_nl groups = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
    };
    int watch = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (watch >= 0 && bind(watch, (struct sockaddr *)&groups, sizeof(groups))) {
        close(watch);
        watch = -1;
    }
    return watch;
}

/* What the messages say does not matter. One that had no room (ENOBUFS) is a change, too. */
bool vbn_netif_changed(int watch)
{
    char message[4096];
    bool changed = false;
    ssize_t len;

    if (watch < 0)
        return true;
    while ((len = recv(watch, message, sizeof(message), 0)) > 0)
        changed = true;
    return changed || len == 0 || errno != EAGAIN;
}

/* More than one: a netdev and its VLANs have the same link-local address. */
static uint32_t bits_of(const struct vbn_netif *addrs, unsigned count, const struct ifaddrs *ifa)
{
    union vbn_sockaddr its;
    uint32_t bits = 0;

    vbn_sockaddr_set(&its, ifa->ifa_addr);
    for (unsigned i = 0; i < count; i++)
        bits |= (uint32_t)vbn_netif_same_ip(&its, &addrs[i].addr) << i;
    return bits;
}

bool vbn_netif_there(const struct vbn_netif *addrs, unsigned count, uint32_t *there)
{
    struct ifaddrs *all, *ifa;

    *there = UINT32_MAX;
    if (getifaddrs(&all))
        return false;
    *there = 0;
    for (ifa = all; ifa; ifa = ifa->ifa_next)
        if (usable(ifa))
            *there |= bits_of(addrs, count, ifa);
    freeifaddrs(all);
    return true;
}

const char *vbn_netif_text(const union vbn_sockaddr *addr, char *buf, size_t len)
{
    const void *ip = addr->sa.sa_family == AF_INET6 ? (const void *)&addr->in6.sin6_addr
                                                    : (const void *)&addr->in.sin_addr;

    if (!inet_ntop(addr->sa.sa_family, ip, buf, (socklen_t)len))
        snprintf(buf, len, "?");
    return buf;
}

static bool listed(const char *names, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = names; (p = strstr(p, name)); p += len)
        if ((p == names || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

void vbn_netif_of_port(const char *device, unsigned port, char *names, size_t len)
{
    char path[512], name[IF_NAMESIZE + 1];
    struct dirent *entry;
    size_t used = 0;
    DIR *dir;

    names[0] = '\0';
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs", device, port);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        FILE *f;

        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%s", device,
                 port, entry->d_name);
        f = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!f)
            continue;
        if (fscanf(f, "%16s", name) == 1 && !listed(names, name) && used + strlen(name) + 2 < len)
            used += (size_t)snprintf(names + used, len - used, "%s%s", used ? " " : "", name);
        fclose(f);
    }
    if (dir)
        closedir(dir);
}

void vbn_sockaddr_set(union vbn_sockaddr *to, const struct sockaddr *from)
{
    memset(to, 0, sizeof(*to));
    if (from->sa_family == AF_INET)
        memcpy(&to->in, from, sizeof(to->in));
    else if (from->sa_family == AF_INET6)
        memcpy(&to->in6, from, sizeof(to->in6));
}

bool vbn_netif_same_ip(const union vbn_sockaddr *a, const union vbn_sockaddr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    if (a->sa.sa_family == AF_INET)
        return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
    return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}
