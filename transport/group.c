/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of groups: joining, hearing each other, deadlines, closing. */
#include "group.h"
#include "context.h"
#include "error.h"
#include "hash.h"
#include "log.h"
#include "path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS        (10 * VBN_MS_NS)
#define HELLO_GAP_MAX  64u /* ticks */
#define POKE_AFTER     3u  /* ticks without an acknowledgement, at first */
#define POKE_AFTER_MAX 96u
#define COUNT_MAX      65535u
#define INFINIBAND_MTU 2048u /* bytes that groups of IPoIB have, which rdma_cm joins */

/* --- its address
 * --------------------------------------------------------------------------------------- */

static struct vbn_group_name *name_of(vbn_context_t *ctx, uint64_t hash)
{
    struct vbn_group_name *name;

    HASH_FIND(hh, ctx->group_names, &hash, sizeof(hash), name);
    if (name)
        return name;
    name = calloc(1, sizeof(*name));
    if (!name)
        return NULL;
    name->hash = hash;
    HASH_ADD(hh, ctx->group_names, hash, sizeof(name->hash), name);
    if (name->hh.tbl)
        return name;
    free(name);
    return NULL;
}

/* The same for all members, and for nobody else. */
static uint64_t hash_of(const vbn_context_t *ctx, uint64_t key, vbn_peer_t *const *peers,
                        uint32_t count, uint32_t me)
{
    uint64_t hash = vbn_hash_word(vbn_hash_word(VBN_HASH_START, ctx->opts.job_key), key);

    for (uint32_t i = 0; i < count; i++)
        hash = vbn_hash_word(hash, i == me ? ctx->uid : ((vbn_endpoint_t *)peers[i])->uid);
    return hash;
}

/*
 * The group's number on the wire. Who has closed one and opens it again may hear of the older from
 * members that have not, so it is another one each time. All open the same as often: who could not
 * count that will not be heard by the others.
 */
static int identify(vbn_group_t *g, uint64_t hash)
{
    struct vbn_group_name *name = name_of(g->ctx, hash);

    if (!name)
        return VBN_ERR_NO_MEMORY;
    g->id = vbn_hash_word(hash, name->opened++);
    return VBN_OK;
}

/* Of the range for private use: 239.x.y.z (RFC 2365), or ff15:: (RFC 4291). Groups that get the
 * same one hear each other's datagrams, and pass over them. */
static union vbn_sockaddr address_of(const union vbn_sockaddr *own, uint64_t id)
{
    union vbn_sockaddr addr = *own;

    if (own->sa.sa_family == AF_INET) {
        addr.in.sin_addr.s_addr = htonl(0xef000000u | (uint32_t)(id & 0xffffff));
    } else {
        memset(&addr.in6.sin6_addr, 0, sizeof(addr.in6.sin6_addr));
        addr.in6.sin6_addr.s6_addr[0] = 0xff;
        addr.in6.sin6_addr.s6_addr[1] = IN6_IS_ADDR_LINKLOCAL(&own->in6.sin6_addr) ? 0x12 : 0x15;
        id = htobe64(id);
        memcpy(&addr.in6.sin6_addr.s6_addr[8], &id, sizeof(id));
    }
    return addr;
}

/* --- joining
 * ------------------------------------------------------------------------------------------- */

VBN_COLD static void give_up(vbn_group_t *g, int status, const char *what, int cause)
{
    g->status = status;
    vbn_log(g->ctx, VBN_LOG_INFO, "device %s: no multicast: %s (%s)", g->ctx->device.name, what,
            strerror(cause));
}

static int join(vbn_group_t *g)
{
    union vbn_sockaddr own = g->ctx->device.addrs[0].addr;

    if (rdma_create_id(g->ctx->cm.channel, &g->cm_id, g, RDMA_PS_UDP))
        return errno;
    if (own.sa.sa_family == AF_INET)
        own.in.sin_port = 0;
    else
        own.in6.sin6_port = 0;
    if (rdma_bind_addr(g->cm_id, &own.sa) || rdma_join_multicast(g->cm_id, &g->address.sa, g))
        return errno;
    g->joined = true;
    return 0;
}

/* To the state in which it sends and receives. */
static int make_ready(vbn_group_t *g, const struct rdma_ud_param *ud)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = g->ctx->device.port, .qkey = ud->qkey};

    if (ibv_modify_qp(g->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return errno;
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(g->qp, &attr, IBV_QP_STATE))
        return errno;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(g->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? errno : 0;
}

/* Completions that its queue pair may have at once. */
static uint32_t completions(const vbn_group_t *g)
{
    return g->window + 1 + VBN_GROUP_LANDINGS;
}

static int make_qp(vbn_group_t *g, const struct rdma_ud_param *ud)
{
    const struct vbn_cqs *cqs = &g->ctx->cqs;
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
                                    .cap = {.max_send_wr = g->window + 1,
                                            .max_recv_wr = VBN_GROUP_LANDINGS,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    struct ibv_ah_attr ah = ud->ah_attr;
    int rc;

    if (cqs->size - cqs->shared < completions(g))
        return ENOBUFS;
    g->cq = vbn_cq_reserve(g->ctx, completions(g));
    if (!g->cq)
        return errno;
    init.send_cq = init.recv_cq = g->cq->cq;
    g->qp = ibv_create_qp(g->ctx->device.pd, &init);
    if (!g->qp)
        return errno;
    rc = make_ready(g, ud);
    if (rc)
        return rc;
    g->qkey = ud->qkey;
    g->mgid = ah.grh.dgid;
    g->mlid = ah.dlid;
    ah.port_num = g->ctx->device.port;
    g->ah = ibv_create_ah(g->ctx->device.pd, &ah);
    return g->ah ? 0 : errno;
}

static void land_one(void *arg, struct vbn_pool_obj *obj)
{
    vbn_group_t *g = arg;
    struct vbn_landing *l = (struct vbn_landing *)obj;

    if (g->chain_len++ >= VBN_GROUP_LANDINGS)
        return; /* more than were asked for */
    l->wr.next = g->chain;
    g->chain = &l->wr;
}

static int make_buffers(vbn_group_t *g)
{
    if (vbn_pool_reserve(&g->casts, g->window + 1) ||
        vbn_pool_reserve(&g->landings, VBN_GROUP_LANDINGS))
        return ENOMEM;
    for (uint32_t i = 0; i < g->window; i++)
        g->kept[i] = (struct vbn_cast *)vbn_pool_get(&g->casts);
    g->hello = (struct vbn_cast *)vbn_pool_get(&g->casts);
    vbn_pool_each(&g->landings, land_one, g);
    return 0;
}

/* Its queue pair, attached, with all receives. */
static int set_up(vbn_group_t *g, const struct rdma_ud_param *ud)
{
    struct vbn_error err;
    struct vbn_path path;
    uint32_t mtu;
    int rc;

    if (vbn_path_query(g->ctx, &path, &err))
        return ENETDOWN;
    mtu = 128u << path.mtu;
    if (path.link == VBN_LINK_INFINIBAND)
        mtu = (uint32_t)vbn_min(mtu, INFINIBAND_MTU);
    g->mtu = (uint32_t)vbn_min(vbn_min(mtu, VBN_CAST_MAX), g->ctx->max_am_len);
    rc = make_qp(g, ud);
    if (!rc)
        rc = make_buffers(g);
    if (!rc && !vbn_group_land(g))
        rc = EIO;
    if (!rc && ibv_attach_mcast(g->qp, &g->mgid, g->mlid))
        rc = errno;
    g->attached = rc == 0;
    return rc;
}

static void drop_qp(vbn_group_t *g)
{
    if (g->attached)
        ibv_detach_mcast(g->qp, &g->mgid, g->mlid);
    g->attached = false;
    if (g->qp)
        ibv_destroy_qp(g->qp);
    g->qp = NULL;
    g->chain = NULL;
}

void vbn_group_joined(vbn_group_t *g, const struct rdma_ud_param *ud, int cause)
{
    int rc;

    if (!ud && (g->qp || g->status != VBN_PENDING)) { /* it had been joined, or is no use */
        vbn_group_mute(g, strerror(cause));
        return;
    }
    rc = ud ? set_up(g, ud) : cause;
    if (rc) {
        drop_qp(g);
        give_up(g, VBN_ERR_DEVICE, ud ? "the group cannot be used" : "its address was not joined",
                rc);
        return;
    }
    g->hello_in = g->hello_gap = 1;
    vbn_group_hello(g);
    vbn_group_wake(g);
}

void vbn_group_heard(vbn_group_t *g, struct vbn_group_member *m)
{
    m->heard = true;
    g->hello_in = g->hello_gap = 1; /* it may not have heard this side */
    vbn_group_wake(g);
    if (--g->unheard == 0 && g->status == VBN_PENDING)
        g->status = VBN_OK;
}

void vbn_group_waited_for(vbn_group_t *g)
{
    if (g->hello_in)
        return; /* it will hear this side */
    g->hello_in = 1;
    vbn_group_wake(g);
}

void vbn_group_mute(vbn_group_t *g, const char *why)
{
    if (!g->qp)
        return;
    vbn_log(g->ctx, VBN_LOG_INFO, "device %s: multicast is given up for connections: %s",
            g->ctx->device.name, why);
    drop_qp(g);
    if (g->status == VBN_PENDING)
        g->status = VBN_ERR_DEVICE; /* whom it has not heard, it will not */
    vbn_group_repair_all(g);
}

/* --- deadlines
 * ----------------------------------------------------------------------------------------- */

/* Says hello, less and less often. False: no more. */
static bool greet(vbn_group_t *g)
{
    if (!g->qp || !g->hello_in)
        return false;
    if (--g->hello_in == 0) {
        vbn_group_hello(g);
        g->hello_gap = (uint32_t)vbn_min(2 * g->hello_gap, HELLO_GAP_MAX);
        if (g->unheard || g->hello_gap < HELLO_GAP_MAX)
            g->hello_in = g->hello_gap;
    }
    return g->hello_in != 0;
}

/* Tells those who have not been told for a whole tick. False: there was nothing to be told. */
static bool tell_aged(vbn_group_t *g)
{
    bool any = false;

    for (uint32_t i = 0; i < g->count; i++) {
        struct vbn_group_member *m = &g->member[i];

        if (!m->ep || m->told == m->next)
            continue;
        any = true;
        if (m->aged)
            vbn_group_ack(g, m);
        else
            m->aged = true;
    }
    return any;
}

/* Asks those who lag, when nobody has acknowledged anything for long. False: nobody does. */
static bool poke(vbn_group_t *g)
{
    if (g->acked == g->next)
        return false;
    if (g->acked != g->quiet_acked) {
        g->quiet_acked = g->acked;
        g->quiet = 0;
        g->poke_after = POKE_AFTER;
    }
    if (++g->quiet < g->poke_after)
        return true;
    g->quiet = 0;
    g->poke_after = (uint32_t)vbn_min(2 * g->poke_after, POKE_AFTER_MAX);
    for (uint32_t i = 0; i < g->count; i++)
        if (g->member[i].ep && g->member[i].acked != g->next && !g->member[i].repairs)
            vbn_group_tell(g, &g->member[i], VBN_CAST_POKE, g->next);
    return true;
}

static bool is_over(const vbn_group_t *g)
{
    return g->closing && (g->ctx->faulted || (g->acked == g->next && TAILQ_EMPTY(&g->sends)));
}

static void tick(struct vbn_timer *timer)
{
    vbn_group_t *g = vbn_container_of(timer, vbn_group_t, timer);
    bool more = greet(g);

    more |= tell_aged(g);
    more |= poke(g);
    if (is_over(g))
        g->ctx->slow_work = true;
    if (more || g->closing)
        vbn_group_wake(g);
}

void vbn_group_wake(vbn_group_t *g)
{
    if (!g->timer.at_ns)
        vbn_timer_start(&g->ctx->timers, &g->timer, vbn_now_ns(g->ctx) + TICK_NS, tick);
}

/* --- members that end
 * ---------------------------------------------------------------------------------- */

static bool nobody_left(const vbn_group_t *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->member[i].ep)
            return false;
    return true;
}

/* ALL, or but the one that has begun: that goes on, to those who are left and have its beginning.
 */
static void end_sends(vbn_group_t *g, int status, bool all)
{
    struct vbn_tag_op *t, *next;

    for (t = TAILQ_FIRST(&g->sends); t; t = next) {
        next = TAILQ_NEXT(t, entry);
        if (t->begun && !all)
            continue;
        TAILQ_REMOVE(&g->sends, t, entry);
        vbn_tag_end(g->ctx, t, status);
    }
}

static void member_ended(vbn_group_t *g, struct vbn_group_member *m, int status)
{
    m->ep = NULL;
    m->repairs = false;
    vbn_tag_stream_ended(g->ctx, &m->stream, status);
    g->status = status;
    end_sends(g, status, nobody_left(g));
    vbn_group_settle(g);
}

void vbn_groups_peer_ended(vbn_endpoint_t *ep, int status)
{
    vbn_group_t *g;

    LIST_FOREACH(g, &ep->ctx->groups, entry)
    {
        for (uint32_t i = 0; i < g->count; i++)
            if (g->member[i].ep == ep)
                member_ended(g, &g->member[i], status);
    }
}

/* --- opening and closing
 * ------------------------------------------------------------------------------- */

/* A power of two, so that a number keeps its place where numbers begin anew. */
static uint32_t window_for(uint32_t count)
{
    uint32_t window = VBN_GROUP_WINDOW_MAX;

    while (window > VBN_GROUP_WINDOW_MIN && window > VBN_GROUP_LANDINGS / count)
        window /= 2;
    return window;
}

static vbn_group_t *make(vbn_context_t *ctx, vbn_peer_t *const *peers, uint32_t count, uint32_t me)
{
    vbn_group_t *g = calloc(1, sizeof(*g) + count * sizeof(g->member[0]));

    if (!g)
        return NULL;
    g->ctx = ctx;
    g->count = count;
    g->me = me;
    g->unheard = count - 1;
    g->status = VBN_PENDING;
    g->poke_after = POKE_AFTER;
    g->window = window_for(count);
    TAILQ_INIT(&g->sends);
    vbn_pool_init(&g->casts, ctx, sizeof(struct vbn_cast), VBN_CAST_MAX, UINT32_MAX, vbn_cast_init);
    vbn_pool_init(&g->landings, ctx, sizeof(struct vbn_landing), VBN_GRH_LEN + VBN_CAST_MAX,
                  UINT32_MAX, vbn_landing_init);
    for (uint32_t i = 0; i < count; i++)
        g->member[i].ep = i == me ? NULL : (vbn_endpoint_t *)peers[i];
    return g;
}

/* Those whose endpoints are over already, and may be gone soon. */
static void part_with_ended(vbn_group_t *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const vbn_endpoint_t *ep = g->member[i].ep;

        if (ep && ep->state >= VBN_EP_CLOSED)
            member_ended(g, &g->member[i], vbn_endpoint_over_status(ep));
    }
}

static int open_locked(vbn_context_t *ctx, uint64_t key, vbn_peer_t *const *peers, uint32_t count,
                       uint32_t me, vbn_group_t **group, struct vbn_error *err)
{
    vbn_group_t *g;
    int rc;

    if (ctx->closing)
        return vbn_error_set(err, VBN_ERR_CLOSED, "the context is closing");
    if (ctx->device.iwarp || !ctx->device.addr_count)
        return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: %s has no multicast",
                             ctx->device.name, ctx->device.iwarp ? "iWARP" : "it");
    g = make(ctx, peers, count, me);
    if (!g || identify(g, hash_of(ctx, key, peers, count, me))) {
        free(g);
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for a group of %u", count);
    }
    part_with_ended(g);
    g->address = address_of(&ctx->device.addrs[0].addr, g->id);
    LIST_INSERT_HEAD(&ctx->groups, g, entry);
    rc = join(g);
    if (rc)
        give_up(g, VBN_ERR_DEVICE, "its address cannot be joined", rc);
    *group = g;
    return VBN_OK;
}

int vbn_group_open(vbn_context_t *ctx, uint64_t key, vbn_peer_t *const *peers, uint32_t count,
                   uint32_t me, vbn_group_t **group, struct vbn_error *err)
{
    int rc;

    if (count < 2 || count > COUNT_MAX || me >= count)
        return vbn_error_set(err, VBN_ERR_INVALID, "a group: member %u of %u", me, count);
    for (uint32_t i = 0; i < count; i++)
        if (i != me && (!peers[i] || ((vbn_endpoint_t *)peers[i])->ctx != ctx))
            return vbn_error_set(err, VBN_ERR_INVALID, "a group: member %u is no peer", i);
    vbn_lock(ctx);
    rc = open_locked(ctx, key, peers, count, me, group, err);
    vbn_unlock(ctx);
    return rc;
}

int vbn_group_ready(const vbn_group_t *g)
{
    int status;

    vbn_lock(g->ctx);
    status = g->status;
    vbn_unlock(g->ctx);
    return status;
}

static void close_locked(vbn_group_t *g)
{
    g->closing = true;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->member[i].ep && g->member[i].told != g->member[i].next)
            vbn_group_ack(g, &g->member[i]);
    g->ctx->slow_work = true;
    vbn_group_wake(g);
}

void vbn_group_close(vbn_group_t *g)
{
    vbn_context_t *ctx = g->ctx;

    vbn_lock(ctx);
    close_locked(g);
    vbn_unlock(ctx);
}

/* G is in no list any more, and no completion of its will come. */
static void destroy(vbn_group_t *g)
{
    end_sends(g, VBN_ERR_CLOSED, true);
    vbn_timer_stop(&g->ctx->timers, &g->timer);
    for (uint32_t i = 0; i < g->count; i++)
        vbn_tag_stream_ended(g->ctx, &g->member[i].stream, VBN_ERR_CLOSED);
    if (g->ah)
        ibv_destroy_ah(g->ah);
    if (g->cq)
        vbn_cq_release(g->cq, completions(g));
    if (g->joined)
        rdma_leave_multicast(g->cm_id, &g->address.sa);
    if (g->cm_id)
        rdma_destroy_id(g->cm_id);
    vbn_pool_fini(&g->casts);
    vbn_pool_fini(&g->landings);
    free(g);
}

void vbn_groups_reap(vbn_context_t *ctx)
{
    vbn_group_t *g, *next;

    for (g = LIST_FIRST(&ctx->groups); g; g = next) {
        next = LIST_NEXT(g, entry);
        if (!is_over(g))
            continue;
        LIST_REMOVE(g, entry); /* from here on no callback finds it */
        drop_qp(g);
        vbn_cqs_poll_all(ctx); /* what had completed before */
        destroy(g);
        next = LIST_FIRST(&ctx->groups); /* callbacks may have changed the list */
    }
}

size_t vbn_groups_shut(vbn_context_t *ctx)
{
    vbn_group_t *g;
    size_t n = 0;

    LIST_FOREACH(g, &ctx->groups, entry)
    {
        if (!g->closing)
            close_locked(g);
        n++;
    }
    return n;
}

void vbn_groups_abandon(vbn_context_t *ctx)
{
    vbn_group_t *g;

    LIST_FOREACH(g, &ctx->groups, entry)
    {
        end_sends(g, VBN_ERR_CLOSED, true);
    }
}

void vbn_groups_fini(vbn_context_t *ctx)
{
    struct vbn_group_name *name, *next;
    vbn_group_t *g;

    while ((g = LIST_FIRST(&ctx->groups))) {
        LIST_REMOVE(g, entry);
        drop_qp(g);
        destroy(g);
    }
    HASH_ITER(hh, ctx->group_names, name, next)
    {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the table goes with the last one */
        HASH_DELETE(hh, ctx->group_names, name);
        free(name);
    }
}
