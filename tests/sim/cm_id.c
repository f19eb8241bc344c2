/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CM ids: their life, binding, listening, address and route resolution. The states are the
 * kernel's (drivers/infiniband/core/cma.c), so are the calls each allows and the errno else.
 */
#include "sim.h"

#include <stdio.h>

enum { RESOLVE_NS = 2000, EPHEMERAL_FIRST = 32768, MAX_BACKLOG = 1024 };

int sim_err(int error)
{
    errno = error;
    return -1;
}

/* ---- addresses ---- */

size_t sim_addr_len(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return sizeof(struct sockaddr_in);
    return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

uint16_t sim_addr_port(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port);
    return ntohs(((const struct sockaddr_in6 *)(const void *)addr)->sin6_port);
}

void sim_id_port_set(struct sockaddr_storage *addr, uint16_t port)
{
    if (addr->ss_family == AF_INET)
        ((struct sockaddr_in *)addr)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
}

/* To the kernel's CM the loopback address is another word for any (cma_any_addr). */
bool sim_addr_is_any(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET) {
        uint32_t in = ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr);
        return in == INADDR_ANY || in >> 24 == 127;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;
    return IN6_IS_ADDR_UNSPECIFIED(in6) || IN6_IS_ADDR_LOOPBACK(in6);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return htons(sim_addr_port(&id->route.addr.src_addr));
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return htons(sim_addr_port(&id->route.addr.dst_addr));
}

/* ---- life ---- */

struct sim_id *sim_id_new(struct sim_cm_channel *channel, void *context, enum rdma_port_space ps)
{
    struct sim_id *id = sim_obj_new(SIM_CM_ID, sizeof(*id), 0);
    id->obj.rank = channel->obj.rank;
    id->node = sim.ranks[channel->obj.rank].node;
    id->has_user = true;
    id->local_psn = (uint32_t)sim_rand() & SIM_PSN_MASK;
    id->id.channel = &channel->ch;
    id->id.context = context;
    id->id.ps = ps;
    id->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    channel->ids++;
    return id;
}

struct sim_id *sim_id_of(struct rdma_cm_id *ibv, const char *call)
{
    struct sim_id *id = SIM_OF(ibv, struct sim_id, id);
    return sim_obj_check(&id->obj, SIM_CM_ID, call) ? id : NULL;
}

int rdma_create_id(struct rdma_event_channel *ibv, struct rdma_cm_id **out, void *context,
                   enum rdma_port_space ps)
{
    struct sim_cm_channel *channel = SIM_OF(ibv, struct sim_cm_channel, ch);
    if (!sim_obj_check(&channel->obj, SIM_CM_CHANNEL, "rdma_create_id") ||
        (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP))
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_create_id"))
        return sim_err(ENOMEM);
    *out = &sim_id_new(channel, context, ps)->id;
    return 0;
}

void sim_id_unbind(struct sim_id *id)
{
    struct sim_id **at = &id->node->bound;
    while (*at && *at != id)
        at = &(*at)->node_next;
    if (*at)
        *at = id->node_next;
}

int rdma_destroy_id(struct rdma_cm_id *ibv)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_destroy_id");
    if (!id)
        return sim_err(EINVAL);
    sim_id_unbind(id);
    sim_cm_hangup(id);
    sim_cm_forget(id, NULL);
    if (id->reported != id->acked)
        sim_violation("rdma_destroy_id would hang: %u events of id %u are not acknowledged",
                      id->reported - id->acked, id->obj.number);
    SIM_OF(ibv->channel, struct sim_cm_channel, ch)->ids--;
    sim_obj_kill(&id->obj);
    return 0;
}

void sim_id_reclaim(struct sim_id *id)
{
    sim_id_unbind(id);
    sim_cm_hangup(id);
    id->cm = SIM_CM_OVER;
    id->state = SIM_ID_REMOVED;
    id->has_user = false;
}

/* librdmacm opens each device once a process and keeps it; ids get that context. */
int sim_id_attach(struct sim_id *id, struct sim_node *node)
{
    struct sim_rank *rank = &sim.ranks[id->obj.rank];
    if (node->attr.no_device || node->removed)
        return ENODEV;
    if (!rank->cm_context) {
        rank->cm_context = sim_context_open(node, true);
        rank->cm_pd = sim_pd_new(rank->cm_context, true);
    }
    id->context = rank->cm_context;
    id->id.verbs = &rank->cm_context->vctx.context;
    id->id.pd = &rank->cm_pd->pd;
    id->id.port_num = SIM_PORT;
    id->id.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
    sim_node_gid(node, sim_node_gid_index(node), &id->id.route.addr.addr.ibaddr.sgid);
    return 0;
}

/* librdmacm looks up the device's transport and limits without asking whether there is one. */
bool sim_id_has_device(const struct sim_id *id, const char *call)
{
    if (!id->id.verbs)
        sim_violation("%s would crash: id %u has no device yet", call, id->obj.number);
    return id->id.verbs != NULL;
}

/* ---- bind, listen ---- */

static struct sim_id *bound_to(struct sim_node *node, enum rdma_port_space ps, uint16_t port)
{
    struct sim_id *id = node->bound;
    while (id && (id->port != port || id->id.ps != ps))
        id = id->node_next;
    return id;
}

struct sim_id *sim_id_listener(struct sim_node *node, uint16_t port)
{
    struct sim_id *id = node->bound;
    while (id && (id->port != port || id->state != SIM_ID_LISTEN))
        id = id->node_next;
    return id;
}

static int port_take(struct sim_id *id, uint16_t port)
{
    struct sim_node *node = id->node;
    if (port != 0 && bound_to(node, id->id.ps, port))
        return EADDRINUSE;
    while (port == 0) {
        uint16_t next = node->next_port++;
        if (node->next_port < EPHEMERAL_FIRST)
            node->next_port = EPHEMERAL_FIRST;
        if (!bound_to(node, id->id.ps, next))
            port = next;
    }
    id->port = port;
    id->node_next = node->bound;
    node->bound = id;
    return 0;
}

static int bind_addr(struct sim_id *id, const struct sockaddr *addr)
{
    bool is_any = sim_addr_is_any(addr);
    if (!is_any) {
        struct sim_node *node = sim_node_by_addr(addr);
        if (node != id->node)
            return EADDRNOTAVAIL;
        if (node->attr.no_device || node->removed)
            return ENODEV;
    }
    int error = port_take(id, sim_addr_port(addr));
    if (error)
        return error;
    memset(&id->id.route.addr.src_storage, 0, sizeof(id->id.route.addr.src_storage));
    memcpy(&id->id.route.addr.src_storage, addr, sim_addr_len(addr));
    sim_id_port_set(&id->id.route.addr.src_storage, id->port);
    id->bound_any = is_any;
    id->state = SIM_ID_BOUND;
    return is_any ? 0 : sim_id_attach(id, id->node);
}

int rdma_bind_addr(struct rdma_cm_id *ibv, struct sockaddr *addr)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_bind_addr");
    if (!id || !addr || sim_addr_len(addr) == 0 || id->state != SIM_ID_IDLE)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_bind_addr"))
        return sim_err(ENOMEM);
    int error = bind_addr(id, addr);
    return error ? sim_err(error) : 0;
}

int rdma_listen(struct rdma_cm_id *ibv, int backlog)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_listen");
    if (!id)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_listen"))
        return sim_err(ENOMEM);
    if (id->state == SIM_ID_IDLE) {
        struct sockaddr_in any = {.sin_family = AF_INET};
        int error = bind_addr(id, (struct sockaddr *)&any);
        if (error)
            return sim_err(error);
    }
    if (id->state != SIM_ID_BOUND)
        return sim_err(EINVAL);
    id->backlog = backlog > 0 && backlog < MAX_BACKLOG ? backlog : MAX_BACKLOG;
    id->state = SIM_ID_LISTEN;
    return 0;
}

/* ---- resolution ---- */

static void addr_resolved(void *obj, uint64_t gen)
{
    struct sim_id *id = obj;
    if (id->obj.magic != SIM_ALIVE || id->gen != gen || id->state != SIM_ID_ADDR_QUERY)
        return;
    struct sim_node *node = sim_node_by_addr(&id->id.route.addr.dst_addr);
    bool reachable =
        node && sim_path_up(id->node, node) && sim_path_up(node, id->node) && !node->attr.no_device;
    if (!reachable || sim_chance(sim.config.cm_addr_error_ppm)) {
        if (reachable)
            sim_fault(FABRIC_CM_UNRESOLVED);
        id->state = SIM_ID_BOUND;
        sim_cm_post(id, RDMA_CM_EVENT_ADDR_ERROR, reachable ? -EHOSTUNREACH : -ETIMEDOUT, NULL, 0);
        return;
    }
    id->remote_node = node;
    id->state = SIM_ID_ADDR_RESOLVED;
    sim_cm_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
}

static int resolve_source(struct sim_id *id, struct sockaddr *src)
{
    if (id->state != SIM_ID_IDLE)
        return 0;
    struct sockaddr_storage own = id->node->addr;
    bool chosen = src && sim_addr_len(src) && !sim_addr_is_any(src);
    return bind_addr(id, chosen ? src : (struct sockaddr *)&own);
}

int rdma_resolve_addr(struct rdma_cm_id *ibv, struct sockaddr *src, struct sockaddr *dst,
                      int timeout_ms)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_resolve_addr");
    if (!id || !dst || sim_addr_len(dst) == 0 ||
        (id->state != SIM_ID_IDLE && id->state != SIM_ID_BOUND))
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_resolve_addr"))
        return sim_err(ENOMEM);
    if (id->node->attr.no_address)
        return sim_err(ENETUNREACH);
    if (id->node->address_away)
        return sim_err(EADDRNOTAVAIL);
    if (!id->node->link_up && id->node != sim_node_by_addr(dst))
        return sim_err(ENETUNREACH);
    struct sockaddr_storage target = {0};
    memcpy(&target, dst, sim_addr_len(dst));
    int error = resolve_source(id, src);
    if (error)
        return sim_err(error);
    id->id.route.addr.dst_storage = target;
    id->state = SIM_ID_ADDR_QUERY;
    id->gen++;
    struct sim_node *node = sim_node_by_addr(dst);
    bool answers = node && sim_path_up(id->node, node) && sim_path_up(node, id->node);
    uint64_t wait_ns =
        answers ? RESOLVE_NS + sim_below(sim.config.cm_jitter_ns) : (uint64_t)timeout_ms * 1000000;
    sim_after(wait_ns, addr_resolved, id, id->gen);
    return 0;
}

static void route_resolved(void *obj, uint64_t gen)
{
    struct sim_id *id = obj;
    if (id->obj.magic != SIM_ALIVE || id->gen != gen || id->state != SIM_ID_ROUTE_QUERY)
        return;
    if (sim_chance(sim.config.cm_addr_error_ppm)) {
        sim_fault(FABRIC_CM_UNRESOLVED);
        id->state = SIM_ID_ADDR_RESOLVED;
        sim_cm_post(id, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, NULL, 0);
        return;
    }
    id->state = SIM_ID_ROUTE_RESOLVED;
    sim_cm_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
}

int rdma_resolve_route(struct rdma_cm_id *ibv, int timeout_ms)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_resolve_route");
    (void)timeout_ms;
    if (!id || !sim_id_has_device(id, "rdma_resolve_route") || id->state != SIM_ID_ADDR_RESOLVED)
        return sim_err(EINVAL);
    if (sim_rank_is_dead(sim.current) || sim_fails(FABRIC_FAIL_CM, "rdma_resolve_route"))
        return sim_err(ENOMEM);
    id->state = SIM_ID_ROUTE_QUERY;
    id->gen++;
    sim_after(RESOLVE_NS + sim_below(sim.config.cm_jitter_ns), route_resolved, id, id->gen);
    return 0;
}

/* ---- options ---- */

int rdma_set_option(struct rdma_cm_id *ibv, int level, int optname, void *optval, size_t optlen)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_set_option");
    if (!id)
        return sim_err(EINVAL);
    if (sim_fails(FABRIC_FAIL_CM, "rdma_set_option"))
        return sim_err(ENOMEM);
    if (level != RDMA_OPTION_ID)
        return sim_err(ENOSYS);
    switch (optname) {
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (optlen != sizeof(uint8_t))
            return sim_err(EINVAL);
        id->ack_timeout = *(const uint8_t *)optval & 31;
        return 0;
    case RDMA_OPTION_ID_TOS:
        return optlen == sizeof(uint8_t) ? 0 : sim_err(EINVAL);
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY:
        return optlen == sizeof(int) ? 0 : sim_err(EINVAL);
    default:
        return sim_err(ENOSYS);
    }
}
