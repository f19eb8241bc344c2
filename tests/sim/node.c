/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric as a whole, its nodes (hosts), ranks (processes) and their addresses. A node's
 * number is part of each of its addresses, so an address leads to its node without a search.
 */
#include "sim.h"

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IPV4_BASE = 0x0a000001, FIRST_EPHEMERAL = 32768, SCOPE_ID = 2 };

struct sim_fabric sim;

struct sim_blocked {
    struct sim_blocked *next;
    int from, to;
};

/* ---- create, destroy ---- */

static void fd_limit_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void fabric_create(uint64_t seed, const struct fabric_config *config)
{
    if (sim.exists)
        fabric_destroy();
    memset(&sim, 0, sizeof(sim));
    sim.exists = true;
    sim.seed = seed;
    if (config)
        sim.config = *config;
    sim.current = -1;
    sim_rng_init(seed);
    sim_trace_reset();
    sim_fail_reset();
    fd_limit_raise();
}

struct fabric_config *fabric_config(void)
{
    return &sim.config;
}

static void nodes_free(void)
{
    while (sim.blocked) {
        struct sim_blocked *blocked = sim.blocked;
        sim.blocked = blocked->next;
        sim_release(blocked);
    }
    for (int i = 0; i < sim.node_count; i++)
        sim_release(sim.nodes[i]);
    sim_release(sim.nodes);
    for (int i = 0; i < sim.rank_count; i++)
        sim_release(sim.ranks[i].asked);
    sim_release(sim.ranks);
}

int fabric_destroy(void)
{
    if (!sim.exists)
        return 0;
    sim.current = -1;
    sim_leaks_report();
    int violations = fabric_violations();
    for (size_t i = 0; i < sim.qp_count; i++)
        if (sim.qps[i]->obj.magic == SIM_ALIVE)
            sim_qp_drop_work(sim.qps[i]);
    sim_objects_free();
    nodes_free();
    sim_sched_fini();
    sim_release(sim.qps);
    sim_release(sim.mrs);
    sim_pool_fini();
    memset(&sim, 0, sizeof(sim));
    sim.current = -1;
    return violations;
}

void fabric_counters(struct fabric_counters *out)
{
    *out = sim.counters;
    out->qps = sim.alive[SIM_QP];
    out->mrs = sim.alive[SIM_MR];
    out->ids = sim.alive[SIM_CM_ID];
    out->memory_bytes = sim_pool_bytes();
}

/* ---- addresses ---- */

static void node_address(struct sim_node *node)
{
    if (node->attr.family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&node->addr;
        in6->sin6_family = AF_INET6;
        in6->sin6_addr.s6_addr[0] = node->attr.link_local ? 0xfe : 0xfd;
        in6->sin6_addr.s6_addr[1] = node->attr.link_local ? 0x80 : 0x00;
        in6->sin6_scope_id = node->attr.link_local ? SCOPE_ID : 0;
        uint32_t low = htonl((uint32_t)node->number + 1);
        memcpy(&in6->sin6_addr.s6_addr[12], &low, sizeof(low));
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&node->addr;
        in->sin_family = AF_INET;
        in->sin_addr.s_addr = htonl(IPV4_BASE + (uint32_t)node->number);
    }
}

static struct sim_node *node_at(uint32_t number)
{
    return number < (uint32_t)sim.node_count ? sim.nodes[number] : NULL;
}

static struct sim_node *node_by_low(const uint8_t *low_bytes, uint32_t base)
{
    uint32_t low;
    memcpy(&low, low_bytes, sizeof(low));
    return node_at(ntohl(low) - base);
}

struct sim_node *sim_node_by_addr(const struct sockaddr *addr)
{
    struct sim_node *node = NULL;
    if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)addr;
        node = node_by_low((const uint8_t *)&in->sin_addr, IPV4_BASE);
    } else if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)addr;
        node = node_by_low(&in6->sin6_addr.s6_addr[12], 1);
        if (node && node->addr.ss_family == AF_INET6 &&
            memcmp(&((struct sockaddr_in6 *)&node->addr)->sin6_addr, &in6->sin6_addr, 16) != 0)
            return NULL;
    }
    return node && node->addr.ss_family == addr->sa_family && !node->attr.no_address ? node : NULL;
}

/* Index 0 is the link-local GID every RoCE port has, index 1 the address's (as on rxe). */
void sim_node_gid(const struct sim_node *node, int index, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    uint32_t low = htonl((uint32_t)node->number + 1);
    index -= node->attr.gid_index_shift;
    if (index == 0) {
        gid->raw[0] = 0xfe;
        gid->raw[1] = 0x80;
        memcpy(&gid->raw[12], &low, sizeof(low));
    } else if (index == 1 && !node->attr.no_address) {
        if (node->addr.ss_family == AF_INET6) {
            memcpy(gid->raw, &((const struct sockaddr_in6 *)&node->addr)->sin6_addr, 16);
        } else {
            gid->raw[10] = gid->raw[11] = 0xff;
            memcpy(&gid->raw[12], &((const struct sockaddr_in *)&node->addr)->sin_addr, 4);
        }
    }
}

int sim_node_gid_index(const struct sim_node *node)
{
    return node->attr.gid_index_shift + 1;
}

struct sim_node *sim_node_by_gid(const union ibv_gid *gid)
{
    bool is_ipv4 = gid->raw[10] == 0xff && gid->raw[11] == 0xff;
    return node_by_low(&gid->raw[12], is_ipv4 ? IPV4_BASE : 1);
}

bool sim_node_is_iwarp(const struct sim_node *node)
{
    return node->attr.transport == FABRIC_IWARP;
}

bool sim_node_is_soft_iwarp(const struct sim_node *node)
{
    return sim_node_is_iwarp(node) && node->attr.soft_iwarp;
}

/* ---- nodes and ranks ---- */

static void or_default(int *value, int fallback)
{
    if (*value == 0)
        *value = fallback;
}

static void attr_defaults(struct fabric_node_attr *attr)
{
    or_default(&attr->family, AF_INET);
    or_default(&attr->max_qp, 65536);
    or_default(&attr->max_qp_wr, 16384);
    or_default(&attr->max_sge, 32);
    or_default(&attr->max_cqe, 32767);
    or_default(&attr->max_srq_wr, 32767);
    or_default(&attr->max_inline, 400);
    or_default(&attr->max_rd_atom, 128);
    if (attr->max_inline < 0)
        attr->max_inline = 0;
    if (attr->max_msg_bytes == 0)
        attr->max_msg_bytes = 8u << 20;
    if (attr->transport == FABRIC_IWARP)
        attr->no_atomics = true;
}

int fabric_node_add(const struct fabric_node_attr *attr)
{
    if (sim.node_count == sim.node_cap) {
        sim.node_cap = sim.node_cap ? sim.node_cap * 2 : 16;
        sim.nodes = sim_regrow(sim.nodes, (size_t)sim.node_cap * sizeof(struct sim_node *));
    }
    struct sim_node *node = sim_zalloc(sizeof(*node));
    node->number = sim.node_count;
    if (attr)
        node->attr = *attr;
    attr_defaults(&node->attr);
    node_address(node);
    node->link_up = node->powered = true;
    node->next_port = FIRST_EPHEMERAL;
    struct ibv_device *device = &node->device;
    device->node_type = sim_node_is_iwarp(node) ? IBV_NODE_RNIC : IBV_NODE_CA;
    device->transport_type = sim_node_is_iwarp(node) ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    snprintf(device->name, sizeof(device->name), "sim%d", node->number);
    snprintf(device->dev_name, sizeof(device->dev_name), "uverbs%d", node->number);
    sim.nodes[sim.node_count++] = node;
    sim_faults_node(node);
    return node->number;
}

int fabric_rank_add(int node)
{
    if (sim.rank_count == sim.rank_cap) {
        sim.rank_cap = sim.rank_cap ? sim.rank_cap * 2 : 16;
        sim.ranks = sim_regrow(sim.ranks, (size_t)sim.rank_cap * sizeof(struct sim_rank));
    }
    sim.ranks[sim.rank_count] =
        (struct sim_rank){.number = sim.rank_count, .node = sim.nodes[node]};
    return sim.rank_count++;
}

void fabric_enter(int rank)
{
    if (rank >= sim.rank_count)
        sim_violation("fabric_enter: there is no rank %d", rank);
    else
        sim.current = rank;
}

int fabric_current_rank(void)
{
    return sim.current;
}

void fabric_node_addr(int node, struct sockaddr_storage *addr)
{
    *addr = sim.nodes[node]->addr;
}

struct sim_rank *sim_rank_current(void)
{
    return sim.current >= 0 ? &sim.ranks[sim.current] : NULL;
}

void sim_rank_asked(int asker, int asked)
{
    struct sim_rank *rank = &sim.ranks[asked];

    if (asker >= rank->asked_cap) {
        int cap = sim.rank_count;
        rank->asked = sim_regrow(rank->asked, (size_t)cap * sizeof(*rank->asked));
        memset(rank->asked + rank->asked_cap, 0,
               (size_t)(cap - rank->asked_cap) * sizeof(*rank->asked));
        rank->asked_cap = cap;
    }
    rank->asked[asker]++;
}

uint32_t fabric_connections_asked(int asker, int asked)
{
    const struct sim_rank *rank = &sim.ranks[asked];

    return asker < rank->asked_cap ? rank->asked[asker] : 0;
}

bool sim_rank_is_dead(int rank)
{
    return rank >= 0 && rank < sim.rank_count && sim.ranks[rank].dead;
}

/* ---- the way between two nodes ---- */

bool sim_path_up(const struct sim_node *from, const struct sim_node *to)
{
    if (!fabric_node_is_up(from->number) || !fabric_node_is_up(to->number) || !from->powered ||
        !to->powered || from->removed || to->removed)
        return false;
    for (struct sim_blocked *blocked = sim.blocked; blocked; blocked = blocked->next)
        if (blocked->from == from->number && blocked->to == to->number)
            return false;
    return true;
}

void fabric_path_set(int from_node, int to_node, bool up)
{
    struct sim_blocked **at = &sim.blocked;
    while (*at && ((*at)->from != from_node || (*at)->to != to_node))
        at = &(*at)->next;
    if (up && *at) {
        struct sim_blocked *gone = *at;
        *at = gone->next;
        sim_release(gone);
    } else if (!up && !*at) {
        *at = sim_zalloc(sizeof(**at));
        (*at)->from = from_node;
        (*at)->to = to_node;
    }
}

/* ---- getifaddrs: lo, and the node's netdev ---- */

struct listed {
    struct ifaddrs ifa;
    struct sockaddr_storage addr, mask;
    char name[16];
};

static void listed_fill(struct listed *item, const char *name, unsigned flags,
                        const struct sockaddr_storage *addr, int prefix_bits)
{
    snprintf(item->name, sizeof(item->name), "%s", name);
    item->ifa.ifa_name = item->name;
    item->ifa.ifa_flags = flags;
    if (!addr)
        return;
    item->addr = *addr;
    item->mask.ss_family = addr->ss_family;
    uint8_t *mask = addr->ss_family == AF_INET6
                        ? ((struct sockaddr_in6 *)&item->mask)->sin6_addr.s6_addr
                        : (uint8_t *)&((struct sockaddr_in *)&item->mask)->sin_addr;
    memset(mask, 0xff, (size_t)prefix_bits / 8);
    item->ifa.ifa_addr = (struct sockaddr *)&item->addr;
    item->ifa.ifa_netmask = (struct sockaddr *)&item->mask;
}

int getifaddrs(struct ifaddrs **list)
{
    struct sim_rank *rank = sim_rank_current();
    if (!rank || sim_fails(FABRIC_FAIL_VERBS, "getifaddrs"))
        return sim_err(rank ? ENOMEM : ENODEV);
    struct sim_node *node = rank->node;
    struct listed *items = sim_zalloc(2 * sizeof(*items));
    struct sockaddr_storage loopback = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&loopback;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listed_fill(&items[0], "lo", IFF_UP | IFF_LOOPBACK | IFF_RUNNING, &loopback, 8);
    unsigned running = node->link_up ? IFF_RUNNING : 0;
    listed_fill(&items[1], "simeth0", IFF_UP | IFF_BROADCAST | IFF_MULTICAST | running,
                node->attr.no_address || node->address_away ? NULL : &node->addr,
                node->addr.ss_family == AF_INET6 ? 64 : 8);
    items[0].ifa.ifa_next = &items[1].ifa;
    *list = &items[0].ifa;
    return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
    sim_release(list);
}

/* ---- rtnetlink: there is none, so who would be told of changes has to look ---- */

int socket(int domain, int type, int protocol)
{
    if (domain == AF_NETLINK)
        return sim_err(EAFNOSUPPORT);
    return (int)syscall(SYS_socket, domain, type, protocol);
}
