/* SPDX-License-Identifier: BSD-3-Clause */
/* Which IP address belongs to which port of which RDMA device: asked of rdma_cm, never guessed. */
#ifndef VBN_NETIF_H
#define VBN_NETIF_H

#include "base.h"

#include <net/if.h>
#include <netinet/in.h>

struct rdma_event_channel;

union vbn_sockaddr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct vbn_netif {
    char device[64]; /* RDMA device */
    uint8_t port;    /* of the device */
    char ifname[IF_NAMESIZE];
    union vbn_sockaddr addr; /* port number 0 */
};

/*
 * Lists the addresses of this host that rdma_cm can bind to a device: IPv4 first, then IPv6, then
 * link-local IPv6. *LIST is malloc'ed, the caller's to free. Returns how many, or
 * VBN_ERR_NO_MEMORY.
 */
int vbn_netif_list(struct rdma_event_channel *channel, struct vbn_netif **list);

/* ADDR as text without its port, in BUF; returns BUF. */
const char *vbn_netif_text(const union vbn_sockaddr *addr, char *buf, size_t len);

/* Names of the netdevs under PORT of DEVICE, from sysfs, separated by spaces; "" where unknown. */
void vbn_netif_of_port(const char *device, unsigned port, char *names, size_t len);

static inline socklen_t vbn_sockaddr_len(const union vbn_sockaddr *addr)
{
    return addr->sa.sa_family == AF_INET6 ? sizeof(addr->in6) : sizeof(addr->in);
}

/*
 * A socket that learns of every change of this host's netdevs and addresses before the change is
 * over (rtnetlink(7)), the caller's to close; -1 where none can be had.
 */
int vbn_netif_watch(void);

/* Whether anything has changed since the last call on WATCH; true where that cannot be told. */
bool vbn_netif_changed(int watch);

/*
 * Which of the COUNT addresses ADDRS this host has, on a netdev that is up: *THERE has a bit for
 * each, the lowest for the first. False where that cannot be told, and *THERE has all bits. Asks
 * the kernel for all netdevs and addresses, which takes a lock of the whole host.
 */
bool vbn_netif_there(const struct vbn_netif *addrs, unsigned count, uint32_t *there);

/* The IP address FROM; of another family than these it is without one. */
void vbn_sockaddr_set(union vbn_sockaddr *to, const struct sockaddr *from);

/* 0: IPv4, 1: IPv6, 2: link-local IPv6, which leads to hosts on the same link alone. */
int vbn_sockaddr_kind(const struct sockaddr *addr);

/* Whether A and B are the same IP address, whatever their ports. */
bool vbn_netif_same_ip(const union vbn_sockaddr *a, const union vbn_sockaddr *b);

#endif
