/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of ends.h. */
#include "ends.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

struct end a, b;
struct link ab, ba;

enum { TIMEOUT_1S = 18, RNR_TIMER_640US = 12 };

const struct setting usual = {.retry = 2,
                              .rnr_retry = 7,
                              .reads_out = 4,
                              .reads_in = 4,
                              .reads_taken = 4,
                              .access = ALL_ACCESS,
                              .sends = 16,
                              .recvs = 16,
                              .inlines = 64,
                              .timeout = TIMEOUT_1S};

/* --- life ------------------------------------------------------------------------------------- */

static void nonblocking(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static struct ibv_context *open_by_name(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *verbs = NULL;

    assert_non_null(list);
    for (int i = 0; list[i] && !verbs; i++)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            verbs = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(verbs);
    return verbs;
}

static void listen_at(struct end *end)
{
    world_address(end->side, &end->addr);
    assert_non_null(end->cm = rdma_create_event_channel());
    nonblocking(end->cm->fd);
    assert_int_equal(rdma_create_id(end->cm, &end->listener, end, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(end->listener, (struct sockaddr *)&end->addr), 0);
    assert_int_equal(rdma_listen(end->listener, 8), 0);
    ((struct sockaddr_in *)&end->addr)->sin_port = rdma_get_src_port(end->listener);
}

static void end_open(struct end *end, int side)
{
    memset(end, 0, sizeof(*end));
    end->side = side;
    world_enter(side);
    end->verbs = open_by_name(world_device(side));
    nonblocking(end->verbs->async_fd);
    assert_non_null(end->pd = ibv_alloc_pd(end->verbs));
    assert_non_null(end->channel = ibv_create_comp_channel(end->verbs));
    nonblocking(end->channel->fd);
    end->send_cq = ibv_create_cq(end->verbs, CQ_ENTRIES, end, end->channel, 0);
    end->recv_cq = ibv_create_cq(end->verbs, CQ_ENTRIES, end, end->channel, 0);
    assert_non_null(end->send_cq);
    assert_non_null(end->recv_cq);
    assert_non_null(end->memory = calloc(1, MEMORY));
    assert_non_null(end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, ALL_ACCESS));
    listen_at(end);
}

void end_add_srq(struct end *end, uint32_t max_wr)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = 1}};

    world_enter(end->side);
    assert_non_null(end->srq = ibv_create_srq(end->pd, &init));
}

int ends_open(void **state)
{
    (void)state;
    memset(&ab, 0, sizeof(ab));
    memset(&ba, 0, sizeof(ba));
    world_open();
    end_open(&a, A);
    end_open(&b, B);
    return 0;
}

/* Destroying waits for the acknowledgement of what was read, and forgets what was not. */
static void read_asyncs(struct end *end)
{
    struct ibv_async_event event;

    world_enter(end->side);
    while (ibv_get_async_event(end->verbs, &event) == 0)
        ibv_ack_async_event(&event);
}

static void end_close(struct end *end)
{
    read_asyncs(end);
    assert_int_equal(rdma_destroy_id(end->listener), 0);
    rdma_destroy_event_channel(end->cm);
    if (end->srq)
        assert_int_equal(ibv_destroy_srq(end->srq), 0);
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
    free(end->memory);
    assert_int_equal(ibv_destroy_cq(end->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(end->recv_cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(end->channel), 0);
    assert_int_equal(ibv_dealloc_pd(end->pd), 0);
    assert_int_equal(ibv_close_device(end->verbs), 0);
}

int ends_close(void **state)
{
    (void)state;
    link_destroy(&ab);
    link_destroy(&ba);
    end_close(&a);
    end_close(&b);
    return world_close() ? 0 : -1;
}

/* --- connections ------------------------------------------------------------------------------ */

void link_resolve(struct link *link, struct end *from, const struct sockaddr_storage *to)
{
    struct sockaddr_storage source, target = *to;

    link->end = from;
    world_enter(from->side);
    world_address(from->side, &source);
    assert_int_equal(rdma_create_id(from->cm, &link->id, link, RDMA_PS_TCP), 0);
    assert_int_equal(
        rdma_resolve_addr(link->id, (struct sockaddr *)&source, (struct sockaddr *)&target, 2000),
        0);
    expect_cm(from, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(link->id, 2000), 0);
    expect_cm(from, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

void link_make_qp(struct link *link, struct end *end, const struct setting *setting)
{
    struct ibv_qp_init_attr init = {
        .qp_context = link,
        .send_cq = end->send_cq,
        .recv_cq = end->recv_cq,
        .srq = end->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = setting->sends,
                .max_recv_wr = end->srq ? 0 : setting->recvs,
                .max_send_sge = 2,
                .max_recv_sge = end->srq ? 1 : 2,
                .max_inline_data = setting->inlines},
    };

    link->end = end;
    world_enter(end->side);
    assert_non_null(link->qp = ibv_create_qp(end->pd, &init));
    link->cap = init.cap;
}

static void move(struct link *link, enum ibv_qp_state state, const struct setting *setting,
                 uint8_t reads_in, uint8_t reads_out)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;

    world_enter(link->end->side);
    assert_int_equal(rdma_init_qp_attr(link->id, &attr, &mask), 0);
    mask &= 0x1fffff; /* some kernels set bits that belong to no attribute */
    if (mask & IBV_QP_ACCESS_FLAGS)
        attr.qp_access_flags = setting->access;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        attr.max_dest_rd_atomic = reads_in;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        attr.max_rd_atomic = reads_out;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        attr.min_rnr_timer = RNR_TIMER_640US;
    if (mask & IBV_QP_TIMEOUT)
        attr.timeout = setting->timeout;
    assert_int_equal(ibv_modify_qp(link->qp, &attr, mask), 0);
}

void link_to_init(struct link *link, const struct setting *setting)
{
    move(link, IBV_QPS_INIT, setting, 0, 0);
}

int link_request(struct link *active, const struct setting *setting, const void *data, size_t len)
{
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = (uint8_t)len,
                                    .responder_resources = setting->reads_in,
                                    .initiator_depth = setting->reads_out,
                                    .retry_count = setting->retry,
                                    .rnr_retry_count = setting->rnr_retry,
                                    .srq = active->end->srq != NULL,
                                    .qp_num = active->qp->qp_num};

    world_enter(active->end->side);
    return rdma_connect(active->id, &param);
}

static void keep(struct link *link, const struct rdma_cm_event *event)
{
    link->told = event->param.conn;
    if (link->told.private_data_len)
        memcpy(link->data, link->told.private_data, link->told.private_data_len);
    link->told.private_data = link->data;
}

/* The request that comes is accepted, with "yes". */
void link_answer(struct link *passive, struct end *end, const struct setting *setting)
{
    struct rdma_cm_event *event = cm_event(end, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_conn_param param = {.private_data = "yes",
                                    .private_data_len = 3,
                                    .responder_resources = setting->reads_out,
                                    .initiator_depth = setting->reads_in,
                                    .rnr_retry_count = setting->rnr_retry,
                                    .srq = end->srq != NULL};

    passive->id = event->id;
    passive->id->context = passive;
    keep(passive, event);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    link_make_qp(passive, end, setting);
    link_to_init(passive, setting);
    move(passive, IBV_QPS_RTR, setting, setting->reads_taken, 0);
    move(passive, IBV_QPS_RTS, setting, 0, setting->reads_in);
    param.qp_num = passive->qp->qp_num;
    assert_int_equal(rdma_accept(passive->id, &param), 0);
}

void link_establish(struct link *active, const struct setting *setting)
{
    struct rdma_cm_event *event = cm_event(active->end, RDMA_CM_EVENT_CONNECT_RESPONSE);

    keep(active, event);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    move(active, IBV_QPS_RTR, setting, setting->reads_in, 0);
    move(active, IBV_QPS_RTS, setting, 0, setting->reads_out);
    assert_int_equal(rdma_establish(active->id), 0);
}

void connect_links(struct link *active, struct link *passive, const struct setting *setting)
{
    link_resolve(active, &a, &b.addr);
    link_make_qp(active, &a, setting);
    link_to_init(active, setting);
    assert_int_equal(link_request(active, setting, "hello", 5), 0);
    link_answer(passive, &b, setting);
    link_establish(active, setting);
    expect_cm(&b, RDMA_CM_EVENT_ESTABLISHED, 0);
}

void connect_usual(void)
{
    connect_links(&ab, &ba, &usual);
}

void link_destroy(struct link *link)
{
    if (!link->end)
        return;
    read_asyncs(link->end);
    if (link->qp)
        assert_int_equal(ibv_destroy_qp(link->qp), 0);
    if (link->id)
        assert_int_equal(rdma_destroy_id(link->id), 0);
    memset(link, 0, sizeof(*link));
}

void link_fail(struct link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    world_enter(link->end->side);
    assert_int_equal(ibv_modify_qp(link->qp, &attr, IBV_QP_STATE), 0);
}

enum ibv_qp_state link_state(const struct link *link)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    world_enter(link->end->side);
    assert_int_equal(ibv_query_qp(link->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

void expect_state(const struct link *link, enum ibv_qp_state state)
{
    world_wait_begin();
    while (link_state(link) != state)
        if (!world_wait())
            break;
    assert_int_equal(link_state(link), state);
}

/* --- events ----------------------------------------------------------------------------------- */

static struct rdma_cm_event *any_cm_event(struct end *end)
{
    struct rdma_cm_event *event;

    world_wait_begin();
    do {
        world_enter(end->side);
        if (rdma_get_cm_event(end->cm, &event) == 0)
            return event;
        assert_int_equal(errno, EAGAIN);
    } while (world_wait());
    return NULL;
}

struct rdma_cm_event *cm_event(struct end *end, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = any_cm_event(end);

    enum rdma_cm_event_type came;

    if (!event)
        fail_msg("side %d: no %s came", end->side, rdma_event_str(type));
    came = event->event;
    if (came != type)
        rdma_ack_cm_event(event); /* the id can then be destroyed */
    assert_string_equal(rdma_event_str(came), rdma_event_str(type));
    return event;
}

void expect_cm(struct end *end, enum rdma_cm_event_type type, int status)
{
    struct rdma_cm_event *event = cm_event(end, type);
    int came = event->status;

    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(came, status);
}

void expect_no_cm(struct end *end)
{
    struct rdma_cm_event *event;

    world_settle();
    world_enter(end->side);
    if (rdma_get_cm_event(end->cm, &event) == 0)
        fail_msg("side %d: %s came", end->side, rdma_event_str(event->event));
}

bool async_event(struct end *end, enum ibv_event_type type)
{
    struct ibv_async_event event;

    world_wait_begin();
    do {
        world_enter(end->side);
        while (ibv_get_async_event(end->verbs, &event) == 0) {
            ibv_ack_async_event(&event);
            if (event.event_type == type)
                return true;
        }
    } while (world_wait());
    return false;
}

void expect_no_async(struct end *end)
{
    struct ibv_async_event event;

    world_settle();
    world_enter(end->side);
    if (ibv_get_async_event(end->verbs, &event))
        return;
    ibv_ack_async_event(&event);
    fail_msg("side %d: %s came", end->side, ibv_event_type_str(event.event_type));
}

/* --- work ------------------------------------------------------------------------------------- */

struct ibv_sge sge_of(const struct end *end, uint32_t offset, uint32_t length)
{
    return (struct ibv_sge){(uintptr_t)end->memory + offset, length, end->mr->lkey};
}

struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge, unsigned flags)
{
    return (struct ibv_send_wr){
        .sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = flags};
}

int post(struct link *link, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    world_enter(link->end->side);
    return ibv_post_send(link->qp, wr, &bad);
}

int post_send(struct link *link, uint32_t offset, uint32_t length, unsigned flags)
{
    struct ibv_sge sge = sge_of(link->end, offset, length);
    struct ibv_send_wr wr = request(IBV_WR_SEND, &sge, flags);

    wr.wr_id = offset;
    return post(link, &wr);
}

int post_rdma(struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge local, uint64_t remote,
              uint32_t rkey)
{
    struct ibv_send_wr wr = request(opcode, &local, IBV_SEND_SIGNALED);

    wr.wr_id = local.addr - (uintptr_t)link->end->memory;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return post(link, &wr);
}

int post_recv(struct link *link, uint32_t offset, uint32_t length)
{
    struct ibv_sge sge = sge_of(link->end, offset, length);
    struct ibv_recv_wr wr = {.wr_id = offset, .sg_list = &sge, .num_sge = 1}, *bad;

    world_enter(link->end->side);
    return link->end->srq ? ibv_post_srq_recv(link->end->srq, &wr, &bad)
                          : ibv_post_recv(link->qp, &wr, &bad);
}

void fill(struct end *end, uint32_t offset, uint32_t length, uint8_t first)
{
    for (uint32_t i = 0; i < length; i++)
        end->memory[offset + i] = (uint8_t)(first + i);
}

void expect_bytes(const struct end *end, uint32_t offset, uint32_t length, uint8_t first)
{
    for (uint32_t i = 0; i < length; i++)
        if (end->memory[offset + i] != (uint8_t)(first + i))
            fail_msg("byte %u at offset %u is %u", i, offset, end->memory[offset + i]);
}

/* --- completions ------------------------------------------------------------------------------ */

bool poll_one(struct end *end, struct ibv_cq *cq, struct ibv_wc *wc)
{
    world_wait_begin();
    do {
        world_enter(end->side);
        int count = ibv_poll_cq(cq, 1, wc);

        assert_in_range(count, 0, 1);
        if (count)
            return true;
    } while (world_wait());
    return false;
}

static struct ibv_wc next_wc(struct link *link, struct ibv_cq *cq, uint64_t wr_id,
                             enum ibv_wc_status status)
{
    struct ibv_wc wc;

    if (!poll_one(link->end, cq, &wc))
        fail_msg("side %d: no completion of %u came (%s)", link->end->side, (unsigned)wr_id,
                 ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.qp_num, link->qp->qp_num);
    return wc;
}

static struct ibv_wc expect_wc(struct link *link, struct ibv_cq *cq, uint64_t wr_id,
                               enum ibv_wc_status status)
{
    struct ibv_wc wc = next_wc(link, cq, wr_id, status);

    assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    return wc;
}

void expect_local_fault(struct link *link, struct ibv_cq *cq, uint64_t wr_id,
                        enum ibv_wc_status specified, enum quirk quirk)
{
    struct ibv_wc wc = next_wc(link, cq, wr_id, specified);
    bool flushed = wc.status == IBV_WC_WR_FLUSH_ERR && cq == link->end->send_cq;

    if (!(wc.status == IBV_WC_LOC_QP_OP_ERR && world_may(quirk)) &&
        !(flushed && world_may(QUIRK_FAULT_IS_FLUSHED)))
        assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(specified));
}

struct ibv_wc expect_sent(struct link *link, uint64_t wr_id, enum ibv_wc_status status)
{
    return expect_wc(link, link->end->send_cq, wr_id, status);
}

struct ibv_wc expect_received(struct link *link, uint64_t wr_id, enum ibv_wc_status status)
{
    return expect_wc(link, link->end->recv_cq, wr_id, status);
}

void expect_silence(struct end *end, struct ibv_cq *cq)
{
    struct ibv_wc wc;

    world_settle();
    world_enter(end->side);
    if (ibv_poll_cq(cq, 1, &wc) != 0)
        fail_msg("side %d: %u completed (%s)", end->side, (unsigned)wc.wr_id,
                 ibv_wc_status_str(wc.status));
}
