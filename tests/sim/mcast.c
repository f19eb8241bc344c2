/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable datagrams to groups: who joins, address handles, which queue pairs are attached, and
 * the way of a datagram to all of them, its sender among them.
 *
 * Operation: a datagram leaves its queue pair as any request does (engine.c), and is complete then.
 * Its bytes are copied once; every queue pair attached has an arrival of its own, which comes or is
 * lost on its own, but not before what came from the same sender earlier.
 *
 * Errors: where nobody listens, or no receive is posted, or the way is blocked, nothing is said.
 * Who was attached or joined has to end it: what is left over is a leak.
 */
#include "sim.h"

enum {
    JOIN_NS = 2000,
    HOP_LIMIT = 64,
    GROUP_QPN = 0xffffff,
    GROUP_LID_FIRST = 0xc000,
    GROUP_LID_MASK = 0x1fff,
    GRH_BYTES = 40,
    LATE_NS = 100000
};

/* ---- groups and their names ---- */

static bool same_gid(const union ibv_gid *one, const union ibv_gid *other)
{
    return memcmp(one, other, sizeof(*one)) == 0;
}

static bool is_group(const union ibv_gid *gid)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};

    return gid->raw[0] == 0xff || (memcmp(gid->raw, ipv4, 12) == 0 && gid->raw[12] >> 4 == 0xe);
}

static bool is_group_addr(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return IN_MULTICAST(
            ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr));
    return addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

/* RoCE's is the address itself, InfiniBand's made of it as IPoIB does (ip_ib_mc_map()). */
static void group_gid(const struct sim_node *node, const struct sockaddr *addr, union ibv_gid *mgid)
{
    bool is_ib = node->attr.transport == FABRIC_INFINIBAND, is_ipv6 = addr->sa_family == AF_INET6;

    memset(mgid, 0, sizeof(*mgid));
    if (is_ipv6) {
        memcpy(mgid, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, sizeof(*mgid));
    } else {
        memcpy(&mgid->raw[12], &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
        mgid->raw[10] = mgid->raw[11] = 0xff;
    }
    if (!is_ib)
        return;
    const uint8_t head[6] = {0xff, 0x12, is_ipv6 ? 0x60 : 0x40, 0x01, 0xff, 0xff};
    memcpy(mgid->raw, head, sizeof(head));
    if (!is_ipv6) {
        mgid->raw[10] = mgid->raw[11] = 0;
        mgid->raw[12] &= 0xf;
    }
}

static uint16_t group_lid(const struct sim_node *node, const union ibv_gid *mgid)
{
    if (node->attr.transport != FABRIC_INFINIBAND)
        return 0;
    return GROUP_LID_FIRST | ((mgid->raw[14] << 8 | mgid->raw[15]) & GROUP_LID_MASK);
}

/* ---- joining and leaving ---- */

void sim_member_param(const struct sim_member *member, bool joined, struct rdma_ud_param *param)
{
    const struct sim_node *node = member->id->node;
    struct ibv_ah_attr *ah = &param->ah_attr;

    param->private_data = member->context;
    if (!joined)
        return;
    group_gid(node, (const struct sockaddr *)&member->addr, &ah->grh.dgid);
    ah->grh.sgid_index = (uint8_t)sim_node_gid_index(node);
    ah->grh.hop_limit = HOP_LIMIT;
    ah->dlid = group_lid(node, &ah->grh.dgid);
    ah->is_global = 1;
    ah->port_num = SIM_PORT;
    param->qp_num = GROUP_QPN;
    param->qkey = RDMA_UDP_QKEY;
}

static void join_done(void *obj, uint64_t arg)
{
    struct sim_member *member = obj;
    (void)arg;
    if (member->obj.magic != SIM_ALIVE || member->id->obj.magic != SIM_ALIVE ||
        member->id->state != SIM_ID_BOUND)
        return;
    bool failed = sim_chance(sim.config.join_error_ppm);
    if (failed)
        sim_fault(FABRIC_JOIN_FAILED);
    member->obj.hidden = failed; /* nothing was joined that could leak */
    sim_cm_post_join(member, failed ? -ETIMEDOUT : 0);
}

static int join_check(const struct sim_id *id, const struct sockaddr *addr)
{
    if (id->id.qp_type != IBV_QPT_UD || id->state != SIM_ID_BOUND || !id->id.verbs || !addr ||
        !is_group_addr(addr))
        return EINVAL;
    if (sim_node_is_iwarp(id->node))
        return ENOSYS;
    bool dead = sim_rank_is_dead(sim.current);
    return dead || sim_fails(FABRIC_FAIL_CM, "rdma_join_multicast") ? ENOMEM : 0;
}

int rdma_join_multicast(struct rdma_cm_id *ibv, struct sockaddr *addr, void *context)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_join_multicast");
    int error = id ? join_check(id, addr) : EINVAL;
    if (error)
        return sim_err(error);
    struct sim_member *member = sim_obj_new(SIM_MEMBER, sizeof(*member), 0);
    member->id = id;
    member->context = context;
    memcpy(&member->addr, addr, sim_addr_len(addr));
    member->next = id->members;
    id->members = member;
    sim_after(JOIN_NS + sim_below(sim.config.cm_jitter_ns), join_done, member, 0);
    return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *ibv, struct sockaddr *addr)
{
    struct sim_id *id = sim_id_of(ibv, "rdma_leave_multicast");
    if (!id || !addr || sim_addr_len(addr) == 0)
        return sim_err(EINVAL);
    struct sim_member **at = &id->members;
    while (*at && memcmp(&(*at)->addr, addr, sim_addr_len(addr)) != 0)
        at = &(*at)->next;
    struct sim_member *member = *at;
    if (!member)
        return sim_err(EADDRNOTAVAIL);
    *at = member->next;
    sim_cm_forget(id, member);
    if (member->reported != member->acked)
        sim_violation("rdma_leave_multicast would hang: an event of group membership %u is not "
                      "acknowledged",
                      member->obj.number);
    sim_obj_kill(&member->obj);
    return 0;
}

/* ---- address handles ---- */

static struct ibv_ah *ah_refuse(int error)
{
    errno = error;
    return NULL;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv, struct ibv_ah_attr *attr)
{
    struct sim_pd *pd = SIM_OF(ibv, struct sim_pd, pd);
    if (!sim_obj_check(&pd->obj, SIM_PD, "ibv_create_ah"))
        return ah_refuse(EINVAL);
    const struct sim_node *node = sim_context_of(ibv->context)->node;
    if (sim_rank_is_dead(sim.current) || node->removed)
        return ah_refuse(EIO);
    if (sim_node_is_iwarp(node))
        return ah_refuse(EOPNOTSUPP);
    const char *fault = sim_route_fault(node, attr);
    if (attr->port_num != SIM_PORT)
        fault = "there is no such port";
    if (fault) {
        sim_violation("ibv_create_ah: %s", fault);
        return ah_refuse(EINVAL);
    }
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_create_ah"))
        return ah_refuse(ENOMEM);
    struct sim_ah *ah = sim_obj_new(SIM_AH, sizeof(*ah), 0);
    ah->attr = *attr;
    ah->ah.context = ibv->context;
    ah->ah.pd = ibv;
    ah->ah.handle = ah->obj.number;
    pd->users++;
    return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
    struct sim_ah *ah = SIM_OF(ibv, struct sim_ah, ah);
    if (!sim_obj_check(&ah->obj, SIM_AH, "ibv_destroy_ah"))
        return EINVAL;
    if (ah->posted > 0)
        sim_violation("ibv_destroy_ah: %d posted sends still go by address handle %u", ah->posted,
                      ah->obj.number);
    SIM_OF(ibv->pd, struct sim_pd, pd)->users--;
    sim_obj_kill(&ah->obj);
    return 0;
}

/* ---- attachments ---- */

static struct sim_attachment **attachment_find(const struct sim_qp *qp, const union ibv_gid *mgid)
{
    struct sim_attachment **at = &sim.attachments;

    while (*at && ((*at)->qp != qp || !same_gid(&(*at)->mgid, mgid)))
        at = &(*at)->next;
    return at;
}

static const char *attach_fault(const struct sim_qp *qp, const union ibv_gid *mgid, uint16_t lid)
{
    if (qp->init.qp_type != IBV_QPT_UD)
        return "it is not for datagrams";
    if (!is_group(mgid))
        return "the GID is not a group's";
    if (qp->node->attr.transport == FABRIC_INFINIBAND && lid < GROUP_LID_FIRST)
        return "the LID is not a group's";
    return NULL;
}

int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *mgid, uint16_t lid)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_attach_mcast"))
        return EINVAL;
    if (sim_rank_is_dead(sim.current) || qp->node->removed)
        return EIO;
    const char *fault = attach_fault(qp, mgid, lid);
    if (fault) {
        sim_violation("ibv_attach_mcast: QP %u: %s", ibv->qp_num, fault);
        return EINVAL;
    }
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_attach_mcast"))
        return ENOMEM;
    if (*attachment_find(qp, mgid))
        return 0; /* as the kernel has it */
    struct sim_attachment *attachment = sim_obj_new(SIM_ATTACHMENT, sizeof(*attachment), 0);
    attachment->qp = qp;
    attachment->mgid = *mgid;
    attachment->next = sim.attachments;
    sim.attachments = attachment;
    qp->attachments++;
    return 0;
}

int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *mgid, uint16_t lid)
{
    struct sim_qp *qp = SIM_OF(ibv, struct sim_qp, qp);
    (void)lid;
    if (!sim_obj_check(&qp->obj, SIM_QP, "ibv_detach_mcast"))
        return EINVAL;
    struct sim_attachment **at = attachment_find(qp, mgid), *attachment = *at;
    if (!attachment) {
        sim_violation("ibv_detach_mcast: QP %u is not attached to this group", ibv->qp_num);
        return EINVAL;
    }
    *at = attachment->next;
    qp->attachments--;
    sim_obj_kill(&attachment->obj);
    return 0;
}

/* ---- posting ---- */

const char *sim_datagram_fault(const struct sim_qp *qp, const struct ibv_send_wr *wr,
                               uint64_t length)
{
    if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
        return "a datagram can only be sent";
    if (length > SIM_MTU_BYTES)
        return "longer than the port's active MTU";
    if (!wr->wr.ud.ah)
        return "there is no address handle";
    const struct sim_ah *ah = SIM_OF(wr->wr.ud.ah, struct sim_ah, ah);
    if (ah->obj.magic != SIM_ALIVE)
        return "the address handle was destroyed before";
    if (ah->ah.pd != qp->qp.pd)
        return "the address handle is of another PD";
    if (!is_group(&ah->attr.grh.dgid) || wr->wr.ud.remote_qpn != GROUP_QPN)
        return "the fabric carries datagrams to groups only";
    return NULL;
}

void sim_datagram_address(const struct sim_qp *qp, struct sim_wqe *wqe,
                          const struct ibv_send_wr *wr)
{
    uint32_t qkey = wr->wr.ud.remote_qkey;

    wqe->ah = SIM_OF(wr->wr.ud.ah, struct sim_ah, ah);
    wqe->ah->posted++;
    wqe->qkey = qkey >> 31 ? qp->attr.qkey : qkey; /* the highest bit: by the queue pair's own */
}

/* ---- on the way ---- */

/* What was sent, until the last of its arrivals. */
struct datagram {
    int arrivals;
    uint32_t src_qpn, qkey, length;
    struct sim_node *from;
    bool solicited, has_imm;
    __be32 imm;
    uint8_t bytes[]; /* as they come: the GRH before the payload */
};

/* Of IPv4 the header is in the second half, and what is before it undefined. */
static void grh_fill(const struct sim_node *from, const struct ibv_global_route *route,
                     uint32_t length, uint8_t *bytes)
{
    struct ibv_grh grh = {.version_tclass_flow = htonl(6u << 28),
                          .paylen = htons((uint16_t)length),
                          .next_hdr = 0x1b,
                          .hop_limit = route->hop_limit,
                          .dgid = route->dgid};
    const uint8_t ipv4_head[12] = {0x45, [8] = route->hop_limit, [9] = IPPROTO_UDP};

    sim_node_gid(from, route->sgid_index, &grh.sgid);
    memcpy(bytes, &grh, GRH_BYTES);
    if (route->dgid.raw[0] == 0xff)
        return;
    memset(bytes, (int)sim_below(256), 20);
    memcpy(bytes + 20, ipv4_head, sizeof(ipv4_head));
    memcpy(bytes + 32, &grh.sgid.raw[12], 4);
}

static struct datagram *datagram_new(const struct sim_qp *qp, const struct sim_wqe *wqe)
{
    struct datagram *datagram = sim_pool_get(sizeof(*datagram) + GRH_BYTES + wqe->length);
    uint8_t *payload = datagram->bytes + GRH_BYTES;
    struct ibv_sge to = {.addr = (uintptr_t)payload, .length = wqe->length};

    *datagram = (struct datagram){.arrivals = 1,
                                  .src_qpn = qp->qp.qp_num,
                                  .qkey = wqe->qkey,
                                  .length = wqe->length,
                                  .from = qp->node,
                                  .solicited = wqe->solicited,
                                  .has_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM,
                                  .imm = wqe->imm};
    grh_fill(qp->node, &wqe->ah->attr.grh, wqe->length, datagram->bytes);
    sim_sge_copy(&to, 1, wqe->sge, wqe->num_sge, wqe->length);
    sim_garble(qp->node, payload, wqe->length < SIM_GARBLE_BYTES ? wqe->length : SIM_GARBLE_BYTES);
    return datagram;
}

static void datagram_put(struct datagram *datagram)
{
    if (--datagram->arrivals == 0)
        sim_pool_put(datagram, sizeof(*datagram) + GRH_BYTES + datagram->length);
}

enum lost_why { LOST_BY_CHANCE, LOST_ON_THE_WAY, LOST_UNHEARD, LOST_UNREADY };

static void datagram_lost(const struct datagram *datagram, const struct sim_qp *to,
                          enum lost_why why)
{
    if (why == LOST_BY_CHANCE)
        sim_fault(FABRIC_DATAGRAM_LOST);
    sim.counters.datagrams_lost++;
    sim_trace(SIM_T_DATAGRAM_LOST, to->qp.qp_num, datagram->src_qpn, why);
}

static bool is_listening(const struct sim_qp *qp, const struct datagram *datagram)
{
    return (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS) &&
           qp->attr.qkey == datagram->qkey && !sim_rank_is_dead(qp->obj.rank);
}

static void push_recv(struct sim_qp *qp, struct sim_rwqe *rwqe, const struct datagram *datagram,
                      enum ibv_wc_status status)
{
    struct sim_cqe cqe = {.qp = qp, .rwqe = rwqe};

    cqe.wc.wr_id = rwqe->wr_id;
    cqe.wc.status = status;
    cqe.wc.opcode = IBV_WC_RECV;
    cqe.wc.byte_len = GRH_BYTES + datagram->length;
    cqe.wc.qp_num = qp->qp.qp_num;
    cqe.wc.src_qp = datagram->src_qpn;
    cqe.wc.wc_flags = IBV_WC_GRH;
    if (datagram->has_imm) {
        cqe.wc.wc_flags |= IBV_WC_WITH_IMM;
        cqe.wc.imm_data = datagram->imm;
    }
    sim_cq_push(SIM_OF(qp->init.recv_cq, struct sim_cq, cq), &cqe, datagram->solicited);
}

static enum ibv_wc_status receive(const struct sim_qp *qp, const struct sim_rwqe *rwqe,
                                  const struct datagram *datagram)
{
    struct ibv_sge from = {.addr = (uintptr_t)datagram->bytes,
                           .length = GRH_BYTES + datagram->length};
    enum sim_key_fault fault = sim_receive_fault(qp, rwqe);

    if (from.length > sim_receive_room(rwqe)) {
        sim_violation("QP %u: a datagram of %u bytes and its header meet a receive of %llu",
                      qp->qp.qp_num, datagram->length, (unsigned long long)sim_receive_room(rwqe));
        return IBV_WC_LOC_LEN_ERR;
    }
    if (fault != SIM_KEY_OK) {
        sim_violation("QP %u: the key of a receive buffer is bad: %s", qp->qp.qp_num,
                      sim_key_fault_text(fault));
        return IBV_WC_LOC_PROT_ERR;
    }
    sim_sge_copy(rwqe->sge, rwqe->num_sge, &from, 1, from.length);
    return IBV_WC_SUCCESS;
}

static void deliver(struct sim_qp *qp, const struct datagram *datagram)
{
    struct sim_rwqe *rwqe = sim_rq_take(&qp->rq);
    enum ibv_wc_status status = receive(qp, rwqe, datagram);

    sim.counters.datagrams++;
    sim_trace(SIM_T_DATAGRAM, qp->qp.qp_num, datagram->src_qpn, datagram->length);
    push_recv(qp, rwqe, datagram, status);
    if (status != IBV_WC_SUCCESS)
        sim_qp_error(qp, ibv_wc_status_str(status));
}

static void arrive(void *obj, uint64_t arg)
{
    const struct sim_attachment *attachment = obj;
    struct datagram *datagram = (struct datagram *)(uintptr_t)arg;
    struct sim_qp *qp = attachment->qp;

    if (attachment->obj.magic != SIM_ALIVE || !is_listening(qp, datagram))
        datagram_lost(datagram, qp, LOST_UNHEARD);
    else if (!sim_path_up(datagram->from, qp->node))
        datagram_lost(datagram, qp, LOST_ON_THE_WAY);
    else if (qp->rq.posted == 0)
        datagram_lost(datagram, qp, LOST_UNREADY);
    else
        deliver(qp, datagram);
    datagram_put(datagram);
}

/* When the last datagram of this sender came, or will come. */
static uint64_t *last_of(struct sim_attachment *attachment, const struct sim_qp *sender)
{
    if (sender->ud_number >= attachment->senders) {
        uint32_t count = sim.ud_count;
        attachment->last_ns = sim_regrow(attachment->last_ns, count * sizeof(uint64_t));
        memset(attachment->last_ns + attachment->senders, 0,
               (count - attachment->senders) * sizeof(uint64_t));
        attachment->senders = count;
    }
    return &attachment->last_ns[sender->ud_number];
}

static uint64_t arrival_ns(struct sim_attachment *attachment, const struct sim_qp *sender)
{
    uint64_t at_ns = sim.now_ns + sim_latency(), *last_ns = last_of(attachment, sender);

    if (at_ns < *last_ns)
        at_ns = *last_ns;
    if (sim_chance(sim.config.datagram_late_ppm)) { /* those behind it do not wait */
        sim_fault(FABRIC_DATAGRAM_LATE);
        return at_ns + sim_below(LATE_NS);
    }
    *last_ns = at_ns;
    return at_ns;
}

void sim_datagram_send(struct sim_qp *qp, const struct sim_wqe *wqe)
{
    struct datagram *datagram = datagram_new(qp, wqe);
    struct sim_attachment *to = sim.attachments;

    for (; to; to = to->next) {
        if (!same_gid(&to->mgid, &wqe->ah->attr.grh.dgid))
            continue;
        if (!sim_path_up(qp->node, to->qp->node)) {
            datagram_lost(datagram, to->qp, LOST_ON_THE_WAY);
        } else if (sim_chance(sim.config.datagram_lost_ppm)) {
            datagram_lost(datagram, to->qp, LOST_BY_CHANCE);
        } else {
            datagram->arrivals++;
            sim_at(arrival_ns(to, qp), arrive, to, (uintptr_t)datagram);
        }
    }
    datagram_put(datagram);
}
