/* SPDX-License-Identifier: BSD-3-Clause */
/* The rig of rig.h. Asserts inside: a call that must succeed and does not ends the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rig.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static void nonblocking(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

void rig_open(struct rig *rig, const struct fabric_node_attr *attr, bool has_srq)
{
    memset(rig, 0, sizeof(*rig));
    rig->has_srq = has_srq;
    rig->node = fabric_node_add(attr);
    rig->rank = fabric_rank_add(rig->node);
    fabric_enter(rig->rank);
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    assert_int_equal(count, 1);
    rig->context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    assert_non_null(rig->context);
    nonblocking(rig->context->async_fd);
    rig->pd = ibv_alloc_pd(rig->context);
    rig->channel = ibv_create_comp_channel(rig->context);
    nonblocking(rig->channel->fd);
    rig->cq = ibv_create_cq(rig->context, 256, rig, rig->channel, 0);
    assert_non_null(rig->cq);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = RIG_RECVS, .max_sge = 2}};
    if (has_srq)
        assert_non_null(rig->srq = ibv_create_srq(rig->pd, &srq));
    rig->memory = calloc(1, RIG_BYTES);
    rig->mr = ibv_reg_mr(rig->pd, rig->memory, RIG_BYTES,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(rig->mr);
    rig->cm = rdma_create_event_channel();
    nonblocking(rig->cm->fd);
    fabric_node_addr(rig->node, &rig->addr);
    assert_int_equal(rdma_create_id(rig->cm, &rig->listener, rig, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(rig->listener, (struct sockaddr *)&rig->addr), 0);
    assert_int_equal(rdma_listen(rig->listener, 16), 0);
    ((struct sockaddr_in *)&rig->addr)->sin_port = rdma_get_src_port(rig->listener);
}

void rig_close(struct rig *rig)
{
    fabric_enter(rig->rank);
    assert_int_equal(rdma_destroy_id(rig->listener), 0);
    rdma_destroy_event_channel(rig->cm);
    if (rig->srq)
        assert_int_equal(ibv_destroy_srq(rig->srq), 0);
    assert_int_equal(ibv_dereg_mr(rig->mr), 0);
    free(rig->memory);
    assert_int_equal(ibv_destroy_cq(rig->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(rig->channel), 0);
    assert_int_equal(ibv_dealloc_pd(rig->pd), 0);
    assert_int_equal(ibv_close_device(rig->context), 0);
}

/* ---- CM ---- */

struct rdma_cm_event *rig_event_any(struct rig *rig)
{
    struct rdma_cm_event *event = NULL;
    do {
        fabric_enter(rig->rank);
        if (rdma_get_cm_event(rig->cm, &event) == 0)
            return event;
        assert_int_equal(errno, EAGAIN);
    } while (fabric_step() > 0);
    return NULL;
}

struct rdma_cm_event *rig_event(struct rig *rig, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = rig_event_any(rig);
    assert_non_null(event);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

void rig_expect(struct rig *rig, enum rdma_cm_event_type type)
{
    assert_int_equal(rdma_ack_cm_event(rig_event(rig, type)), 0);
}

void rig_qp(struct link *link)
{
    struct rig *rig = link->rig;
    fabric_enter(rig->rank);
    struct ibv_qp_init_attr init = {
        .send_cq = rig->cq,
        .recv_cq = rig->cq,
        .srq = rig->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = RIG_SENDS,
                .max_recv_wr = rig->srq ? 0 : RIG_RECVS,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = RIG_INLINE},
    };
    link->qp = ibv_create_qp(rig->pd, &init);
    assert_non_null(link->qp);
}

void rig_resolve(struct link *active, struct rig *from, const struct sockaddr_storage *to)
{
    struct sockaddr_storage target = *to;
    memset(active, 0, sizeof(*active));
    active->rig = from;
    fabric_enter(from->rank);
    assert_int_equal(rdma_create_id(from->cm, &active->id, active, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active->id, NULL, (struct sockaddr *)&target, 1000), 0);
    rig_expect(from, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_ptr_equal(active->id->verbs->device, from->context->device);
    assert_int_equal(rdma_resolve_route(active->id, 1000), 0);
    rig_expect(from, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

int rig_request(struct link *active, const void *data, int len)
{
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = (uint8_t)len,
                                    .responder_resources = 4,
                                    .initiator_depth = 4,
                                    .retry_count = 3,
                                    .rnr_retry_count = 2,
                                    .qp_num = active->qp->qp_num};
    fabric_enter(active->rig->rank);
    return rdma_connect(active->id, &param);
}

static void modify_to(struct link *link, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask = 0;
    assert_int_equal(rdma_init_qp_attr(link->id, &attr, &mask), 0);
    if (state == IBV_QPS_INIT)
        attr.qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (state == IBV_QPS_RTR)
        attr.min_rnr_timer = 1;
    if (state == IBV_QPS_RTS)
        attr.timeout = 10;
    assert_int_equal(ibv_modify_qp(link->qp, &attr, mask), 0);
}

void rig_to_rts(struct link *link)
{
    modify_to(link, IBV_QPS_INIT);
    modify_to(link, IBV_QPS_RTR);
    modify_to(link, IBV_QPS_RTS);
}

static bool is_iwarp(const struct rig *rig)
{
    return rig->context->device->transport_type == IBV_TRANSPORT_IWARP;
}

static void data_keep(struct link *link, const struct rdma_cm_event *event)
{
    link->data_len = event->param.conn.private_data_len;
    if (link->data_len)
        memcpy(link->data, event->param.conn.private_data, (size_t)link->data_len);
    link->status = event->status;
}

static void accept_one(struct link *passive, struct rig *to)
{
    struct rdma_cm_event *event = rig_event(to, RDMA_CM_EVENT_CONNECT_REQUEST);
    memset(passive, 0, sizeof(*passive));
    passive->rig = to;
    passive->id = event->id;
    passive->id->context = passive;
    assert_ptr_equal(event->listen_id, to->listener);
    data_keep(passive, event);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    rig_qp(passive);
    if (is_iwarp(to))
        modify_to(passive, IBV_QPS_INIT);
    else
        rig_to_rts(passive);
    struct rdma_conn_param param = {.private_data = "yes",
                                    .private_data_len = 3,
                                    .responder_resources = 4,
                                    .initiator_depth = 4,
                                    .rnr_retry_count = 2,
                                    .qp_num = passive->qp->qp_num};
    assert_int_equal(rdma_accept(passive->id, &param), 0);
}

void rig_connect(struct link *active, struct rig *from, struct link *passive, struct rig *to)
{
    rig_resolve(active, from, &to->addr);
    rig_qp(active);
    if (is_iwarp(from))
        modify_to(active, IBV_QPS_INIT);
    assert_int_equal(rig_request(active, "hello", 5), 0);
    accept_one(passive, to);
    if (is_iwarp(from)) {
        struct rdma_cm_event *event = rig_event(from, RDMA_CM_EVENT_ESTABLISHED);
        data_keep(active, event);
        rdma_ack_cm_event(event);
    } else {
        struct rdma_cm_event *event = rig_event(from, RDMA_CM_EVENT_CONNECT_RESPONSE);
        data_keep(active, event);
        assert_int_equal(event->param.conn.qp_num, passive->qp->qp_num);
        rdma_ack_cm_event(event);
        rig_to_rts(active);
        assert_int_equal(rdma_establish(active->id), 0);
    }
    rig_expect(to, RDMA_CM_EVENT_ESTABLISHED);
}

void rig_destroy(struct link *link)
{
    fabric_enter(link->rig->rank);
    if (link->qp)
        assert_int_equal(ibv_destroy_qp(link->qp), 0);
    assert_int_equal(rdma_destroy_id(link->id), 0);
}

void rig_hangup(struct link *active, struct link *passive)
{
    fabric_enter(active->rig->rank);
    assert_int_equal(rdma_disconnect(active->id), 0);
    rig_expect(passive->rig, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(rdma_disconnect(passive->id), 0);
    rig_expect(active->rig, RDMA_CM_EVENT_DISCONNECTED);
    rig_destroy(active);
    rig_destroy(passive);
}

void rig_end(struct link *one, struct link *other)
{
    rig_destroy(one);
    rig_destroy(other);
    rig_close(one->rig);
    rig_close(other->rig);
    assert_int_equal(fabric_destroy(), 0);
}

/* ---- data ---- */

int rig_send(struct link *link, uint32_t offset, uint32_t length, unsigned flags)
{
    struct rig *rig = link->rig;
    struct ibv_sge sge = {(uintptr_t)rig->memory + offset, length, rig->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = offset, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};
    struct ibv_send_wr *bad;
    fabric_enter(rig->rank);
    return ibv_post_send(link->qp, &wr, &bad);
}

static int rdma(struct link *by, enum ibv_wr_opcode opcode, uint32_t offset, struct link *of,
                uint32_t of_offset, uint32_t length)
{
    struct rig *rig = by->rig;
    struct ibv_sge sge = {(uintptr_t)rig->memory + offset, length, rig->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = offset,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = (uintptr_t)of->rig->memory + of_offset;
    wr.wr.rdma.rkey = of->rig->mr->rkey;
    struct ibv_send_wr *bad;
    fabric_enter(rig->rank);
    return ibv_post_send(by->qp, &wr, &bad);
}

int rig_write(struct link *from, uint32_t offset, struct link *to, uint32_t to_offset,
              uint32_t length)
{
    return rdma(from, IBV_WR_RDMA_WRITE, offset, to, to_offset, length);
}

int rig_read(struct link *by, uint32_t offset, struct link *of, uint32_t of_offset, uint32_t length)
{
    return rdma(by, IBV_WR_RDMA_READ, offset, of, of_offset, length);
}

int rig_recv(struct link *link, uint32_t offset, uint32_t length)
{
    struct rig *rig = link->rig;
    struct ibv_sge sge = {(uintptr_t)rig->memory + offset, length, rig->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = offset, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    fabric_enter(rig->rank);
    return rig->srq ? ibv_post_srq_recv(rig->srq, &wr, &bad) : ibv_post_recv(link->qp, &wr, &bad);
}

bool rig_poll(struct rig *rig, struct ibv_wc *wc)
{
    do {
        fabric_enter(rig->rank);
        int count = ibv_poll_cq(rig->cq, 1, wc);
        assert_true(count >= 0);
        if (count == 1)
            return true;
    } while (fabric_step() > 0);
    return false;
}

void rig_poll_status(struct rig *rig, enum ibv_wc_status status, uint64_t wr_id)
{
    struct ibv_wc wc;
    assert_true(rig_poll(rig, &wc));
    assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, wr_id);
}

void rig_settle(uint64_t duration_ns)
{
    fabric_advance(duration_ns);
}
