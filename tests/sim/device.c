/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices and contexts: the list, open and close, queries, protection domains, and the
 * asynchronous events with their rule of acknowledgement.
 */
#include "sim.h"

#undef ibv_query_port
#undef ibv_get_device_list

enum { GID_TABLE_LEN = 1024 };

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                      size_t attr_len);

/* ---- the list ---- */

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct sim_rank *rank = sim_rank_current();
    if (!rank || sim_fails(FABRIC_FAIL_VERBS, "ibv_get_device_list")) {
        errno = rank ? ENOMEM : ENOSYS;
        return NULL;
    }
    bool has = !rank->node->attr.no_device && !rank->node->removed && !rank->dead;
    struct ibv_device **list = sim_zalloc(2 * sizeof(struct ibv_device *));
    if (has)
        list[0] = &rank->node->device;
    if (num_devices)
        *num_devices = has;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    sim_release(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(0x5100000000000000u + (uint64_t)SIM_OF(device, struct sim_node, device)->number);
}

/* ---- contexts ---- */

struct sim_context *sim_context_of(struct ibv_context *context)
{
    return SIM_OF(context, struct sim_context, vctx.context);
}

struct sim_context *sim_context_open(struct sim_node *node, bool hidden)
{
    struct sim_context *context = sim_obj_new(SIM_CONTEXT, sizeof(*context), 0);
    context->obj.hidden = hidden;
    context->node = node;
    sim_fd_open(&context->async);
    context->vctx.sz = sizeof(context->vctx);
    context->vctx.query_port = query_port;
    struct ibv_context *ibv = &context->vctx.context;
    ibv->device = &node->device;
    ibv->cmd_fd = -1;
    ibv->async_fd = context->async.fd;
    ibv->num_comp_vectors = 1;
    ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
    ibv->ops.poll_cq = sim_poll_cq;
    ibv->ops.req_notify_cq = sim_req_notify_cq;
    ibv->ops.post_send = sim_post_send;
    ibv->ops.post_recv = sim_post_recv;
    ibv->ops.post_srq_recv = sim_post_srq_recv;
    context->node_next = node->contexts;
    node->contexts = context;
    return context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct sim_node *node = SIM_OF(device, struct sim_node, device);
    struct sim_rank *rank = sim_rank_current();
    if (!rank || rank->dead || rank->node != node || node->removed) {
        errno = ENODEV;
        return NULL;
    }
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_open_device")) {
        errno = ENOMEM;
        return NULL;
    }
    return &sim_context_open(node, false)->vctx.context;
}

static void context_asyncs_drop(struct sim_context *context)
{
    while (context->async_head) {
        struct sim_async *async = context->async_head;
        context->async_head = async->next;
        sim_pool_put(async, sizeof(*async));
    }
    context->async_tail = NULL;
    sim_fd_lower(&context->async);
}

int ibv_close_device(struct ibv_context *ibv)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_close_device"))
        return -1;
    if (context->users > 0)
        sim_violation("ibv_close_device: %d objects of the context are not destroyed",
                      context->users);
    struct sim_context **at = &context->node->contexts;
    while (*at != context)
        at = &(*at)->node_next;
    *at = context->node_next;
    context_asyncs_drop(context);
    sim_fd_close(&context->async);
    sim_obj_kill(&context->obj);
    return 0;
}

/* ---- queries ---- */

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *out)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_query_device"))
        return EINVAL;
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_query_device"))
        return ENOMEM;
    const struct fabric_node_attr *attr = &context->node->attr;
    memset(out, 0, sizeof(*out));
    snprintf(out->fw_ver, sizeof(out->fw_ver), "sim");
    out->node_guid = out->sys_image_guid = ibv_get_device_guid(&context->node->device);
    out->max_mr_size = UINT64_MAX >> 1;
    out->page_size_cap = 0xfffff000;
    out->vendor_id = attr->soft_roce ? 0xffffff : attr->soft_iwarp ? 0x626d74 : 0x51;
    out->max_qp = attr->max_qp;
    out->max_qp_wr = attr->max_qp_wr;
    out->device_cap_flags = attr->no_srq ? 0 : IBV_DEVICE_SRQ_RESIZE;
    out->max_sge = out->max_sge_rd = attr->max_sge;
    out->max_cq = 1 << 20;
    out->max_cqe = attr->max_cqe;
    out->max_mr = 1 << 23;
    out->max_pd = 1 << 20;
    out->max_qp_rd_atom = out->max_qp_init_rd_atom = attr->max_rd_atom;
    out->max_res_rd_atom = attr->max_rd_atom * attr->max_qp;
    out->atomic_cap = attr->no_atomics ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
    out->max_ah = 1 << 15;
    bool iwarp = sim_node_is_iwarp(context->node);
    out->max_mcast_grp = iwarp ? 0 : 1 << 13;
    out->max_mcast_qp_attach = iwarp ? 0 : 1 << 10;
    out->max_total_mcast_qp_attach = iwarp ? 0 : 1 << 23;
    out->max_srq = attr->no_srq ? 0 : 1 << 15;
    out->max_srq_wr = attr->no_srq ? 0 : attr->max_srq_wr;
    out->max_srq_sge = attr->no_srq ? 0 : (attr->max_sge > 27 ? 27 : attr->max_sge);
    out->max_pkeys = 1;
    out->local_ca_ack_delay = 15;
    out->phys_port_cnt = 1;
    return 0;
}

static int query_port(struct ibv_context *ibv, uint8_t port_num, struct ibv_port_attr *out,
                      size_t out_len)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_query_port") || port_num != SIM_PORT)
        return EINVAL;
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_query_port"))
        return ENOMEM;
    const struct sim_node *node = context->node;
    bool is_ib = node->attr.transport == FABRIC_INFINIBAND;
    struct ibv_port_attr attr = {
        .state = node->link_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = SIM_MTU,
        .gid_tbl_len = GID_TABLE_LEN,
        .port_cap_flags = 0x10000,
        .max_msg_sz = node->attr.max_msg_bytes,
        .pkey_tbl_len = 1,
        .lid = is_ib ? (uint16_t)(node->number + 1) : 0,
        .sm_lid = is_ib ? 1 : 0,
        .max_vl_num = 1,
        .active_width = 1,
        .active_speed = 1,
        .phys_state = node->link_up ? 5 : 3,
        .link_layer = is_ib ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET,
    };
    memcpy(out, &attr, out_len < sizeof(attr) ? out_len : sizeof(attr));
    return 0;
}

/* What a program built against headers older than query_port() calls: the struct's first part. */
int ibv_query_port(struct ibv_context *ibv, uint8_t port_num, struct _compat_ibv_port_attr *out)
{
    return query_port(ibv, port_num, (struct ibv_port_attr *)out,
                      offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct ibv_context *ibv, uint8_t port_num, int index, union ibv_gid *gid)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_query_gid") || port_num != SIM_PORT ||
        index < 0 || index >= GID_TABLE_LEN || sim_fails(FABRIC_FAIL_VERBS, "ibv_query_gid"))
        return sim_err(EINVAL);
    sim_node_gid(context->node, index, gid);
    return 0;
}

/* What ibv_query_gid_ex() calls. */
int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port_num, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    static const union ibv_gid none;
    struct sim_context *context = sim_context_of(ibv);
    bool is_ib = context->node->attr.transport == FABRIC_INFINIBAND;
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_query_gid_ex") || port_num != SIM_PORT ||
        index >= GID_TABLE_LEN || flags || entry_size != sizeof(*entry))
        return EINVAL;
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_query_gid_ex"))
        return EIO;
    *entry = (struct ibv_gid_entry){
        .gid_index = index,
        .port_num = port_num,
        .gid_type = is_ib ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
    };
    sim_node_gid(context->node, (int)index, &entry->gid);
    return memcmp(&entry->gid, &none, sizeof(none)) ? 0 : ENODATA;
}

int ibv_query_pkey(struct ibv_context *ibv, uint8_t port_num, int index, __be16 *pkey)
{
    (void)ibv;
    if (port_num != SIM_PORT || index != 0)
        return sim_err(EINVAL);
    *pkey = htobe16(0xffff);
    return 0;
}

int ibv_fork_init(void)
{
    return 0;
}

/* ---- protection domains ---- */

struct sim_pd *sim_pd_new(struct sim_context *context, bool hidden)
{
    struct sim_pd *pd = sim_obj_new(SIM_PD, sizeof(*pd), 0);
    pd->obj.hidden = hidden;
    pd->pd.context = &context->vctx.context;
    pd->pd.handle = pd->obj.number;
    context->users++;
    return pd;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_alloc_pd") || context->node->removed ||
        sim_rank_is_dead(sim.current)) {
        errno = EIO;
        return NULL;
    }
    if (sim_fails(FABRIC_FAIL_VERBS, "ibv_alloc_pd")) {
        errno = ENOMEM;
        return NULL;
    }
    return &sim_pd_new(context, false)->pd;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
    struct sim_pd *pd = SIM_OF(ibv, struct sim_pd, pd);
    if (!sim_obj_check(&pd->obj, SIM_PD, "ibv_dealloc_pd"))
        return EINVAL;
    if (pd->users > 0) {
        sim_violation("ibv_dealloc_pd: %d objects still use PD %u", pd->users, pd->obj.number);
        return EBUSY;
    }
    sim_context_of(ibv->context)->users--;
    sim_obj_kill(&pd->obj);
    return 0;
}

/* ---- asynchronous events ---- */

void sim_async_raise(struct sim_context *context, const struct ibv_async_event *event)
{
    if (context->obj.magic != SIM_ALIVE)
        return;
    struct sim_async *async = sim_pool_get(sizeof(*async));
    async->next = NULL;
    async->event = *event;
    if (context->async_tail)
        context->async_tail->next = async;
    else
        context->async_head = async;
    context->async_tail = async;
    sim_trace(SIM_T_ASYNC, context->obj.number, event->event_type, 0);
    sim_fd_raise(&context->async);
}

void sim_async_qp(struct sim_qp *qp, enum ibv_event_type type)
{
    struct ibv_async_event event = {.element.qp = &qp->qp, .event_type = type};
    sim_async_raise(sim_context_of(qp->qp.context), &event);
}

void sim_async_forget(struct sim_context *context, const void *element)
{
    struct sim_async **at = &context->async_head, *last = NULL;
    while (*at) {
        struct sim_async *async = *at;
        if (async->event.element.qp == element) {
            *at = async->next;
            sim_pool_put(async, sizeof(*async));
        } else {
            last = async;
            at = &async->next;
        }
    }
    context->async_tail = last;
    if (!context->async_head)
        sim_fd_lower(&context->async);
}

/* The object an event is about, for its count of events; NULL: the port or the device. */
static struct sim_obj *element_of(const struct ibv_async_event *event, uint32_t **reported,
                                  uint32_t **acked)
{
    struct sim_qp *qp;
    struct sim_cq *cq;
    struct sim_srq *srq;
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        cq = SIM_OF(event->element.cq, struct sim_cq, cq);
        *reported = &cq->async_reported;
        *acked = &cq->async_acked;
        return &cq->obj;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        qp = SIM_OF(event->element.qp, struct sim_qp, qp);
        *reported = &qp->async_reported;
        *acked = &qp->async_acked;
        return &qp->obj;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        srq = SIM_OF(event->element.srq, struct sim_srq, srq);
        *reported = &srq->async_reported;
        *acked = &srq->async_acked;
        return &srq->obj;
    default:
        return NULL;
    }
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
    struct sim_context *context = sim_context_of(ibv);
    if (!sim_obj_check(&context->obj, SIM_CONTEXT, "ibv_get_async_event"))
        return sim_err(EINVAL);
    struct sim_async *async = context->async_head;
    if (!async)
        return sim_fd_empty(&context->async, "ibv_get_async_event");
    *event = async->event;
    context->async_head = async->next;
    sim_pool_put(async, sizeof(*async));
    if (!context->async_head) {
        context->async_tail = NULL;
        sim_fd_lower(&context->async);
    }
    uint32_t *reported, *acked;
    if (element_of(event, &reported, &acked))
        (*reported)++;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    uint32_t *reported, *acked;
    struct sim_obj *obj = element_of(event, &reported, &acked);
    if (!obj || !sim_obj_check(obj, (enum sim_kind)obj->kind, "ibv_ack_async_event"))
        return;
    if (*acked == *reported)
        sim_violation("ibv_ack_async_event: an event of %s %u is acknowledged twice",
                      sim_kind_name((enum sim_kind)obj->kind), obj->number);
    else
        (*acked)++;
}
