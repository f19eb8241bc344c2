/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a shot: an id of rdma_cm, and where it comes so far a queue pair, from resolving the
 * address to its end. What came of it is counted by kind. A shot never receives anything: no buffer
 * is posted.
 */
#include "hostile.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define MS_NS           UINT64_C(1000000)
#define ANSWER_MS       30000 /* a rank may compute for long before it looks at its connections */
#define HOLD_MS         3000
#define RESOLVE_MS      2000
#define REJECT_BY_PEER  28 /* InfiniBand 12.6.7.2 */
#define CREDITS_GRANTED 16

/* --- the end of a shot ------------------------------------------------------------------------ */

static void shot_end(struct hostile *h, struct shot *s)
{
    if (s->id->qp) {
        if (s->state == SHOT_OPEN)
            rdma_disconnect(s->id);
        rdma_destroy_qp(s->id);
    }
    if (s->state == SHOT_OPEN && s->kind->then == THEN_HALF)
        h->half_open--;
    rdma_destroy_id(s->id);
    s->state = SHOT_FREE;
    h->flying--;
}

static void wrong(struct hostile *h, struct shot *s, const char *what, int number)
{
    s->kind->wrong++;
    snprintf(s->kind->note, sizeof(s->kind->note), "%s %d", what, number);
    shot_end(h, s);
}

static void refused(struct hostile *h, struct shot *s)
{
    s->kind->refused++;
    shot_end(h, s);
}

static void held(struct hostile *h, struct shot *s)
{
    s->kind->held++;
    shot_end(h, s);
}

static bool is_held(const struct shot *s)
{
    return s->state == SHOT_OPEN && s->kind->then != THEN_SPEAKS;
}

/* Its time is over. */
static void shot_expires(struct hostile *h, struct shot *s)
{
    if (is_held(s)) {
        if (!h->bursting)
            held(h, s); /* as long as it was to last */
        return;
    }
    s->kind->unanswered++;
    shot_end(h, s);
}

/* --- the request ------------------------------------------------------------------------------ */

static struct vbn_wire_hello right_hello(struct hostile *h, const struct target *t)
{
    return (struct vbn_wire_hello){
        .magic = htole32(VBN_WIRE_MAGIC),
        .version = VBN_WIRE_VERSION,
        .version_min = VBN_WIRE_VERSION_MIN,
        .src_uid = rnd(h) | 1,
        .dst_uid = htole64(t->uid),
        .job_key = htole64(h->job_key),
        .buf_size = htole32(h->buf_size),
        .credits = htole16(CREDITS_GRANTED),
    };
}

/* Only who is to be connected needs a queue pair. */
static bool make_qp(struct hostile *h, struct shot *s)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };

    if (s->kind->then < THEN_SILENT)
        return true;
    if (!h->pd)
        h->pd = ibv_alloc_pd(s->id->verbs);
    return h->pd && rdma_create_qp(s->id, h->pd, &init) == 0;
}

/* A queue pair's number that is made up, out of reach of real ones, and not soon again: the kernel
 * refuses a request that names the queue pair of another one. */
static uint32_t made_up_qp_num(struct hostile *h)
{
    return 0x800000 | (++h->qp_nums & 0x7fffff);
}

static void ask(struct hostile *h, struct shot *s)
{
    struct vbn_wire_hello hello = right_hello(h, s->target);
    size_t len = s->kind->request ? s->kind->request(h, s->target, &hello) : sizeof(hello);
    struct rdma_conn_param param = {
        .private_data = len ? &hello : NULL,
        .private_data_len = (uint8_t)len,
        .responder_resources = 1,
        .initiator_depth = 1,
        .retry_count = 3,
        .rnr_retry_count = 3,
        .qp_num = made_up_qp_num(h),
    };

    if (!make_qp(h, s) || rdma_connect(s->id, &param)) {
        wrong(h, s, "could not ask: errno", errno);
        return;
    }
    s->kind->thrown++;
    s->state = SHOT_ASKED;
    s->until_ns = now_ns() + ANSWER_MS * MS_NS;
    if (s->kind->then == THEN_DROPPED)
        held(h, s);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void speak(struct hostile *h, struct shot *s)
{
    struct ibv_send_wr wr = {.sg_list = &h->sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    if (!h->mr)
        h->mr = ibv_reg_mr(h->pd, h->memory, SHOTS_MAX * MESSAGE_MAX, IBV_ACCESS_LOCAL_WRITE);
    if (!h->mr)
        die("ibv_reg_mr");
    h->message = h->memory + (s - h->shots) * MESSAGE_MAX;
    h->sge = (struct ibv_sge){.addr = (uintptr_t)h->message, .lkey = h->mr->lkey};
    s->kind->speak(h, &wr);
    if (ibv_post_send(s->id->qp, &wr, &bad))
        wrong(h, s, "could not send: errno", errno);
}

/* Accepted: established where it has a queue pair, waiting for our last word where not. */
static void accepted(struct hostile *h, struct shot *s)
{
    s->state = SHOT_OPEN;
    if (s->kind->then == THEN_REFUSED) {
        wrong(h, s, "was accepted, number", (int)s->kind->thrown);
        return;
    }
    if (s->kind->then == THEN_HALF && ++h->half_open > h->half_open_most)
        h->half_open_most = h->half_open;
    if (s->kind->then != THEN_SPEAKS)
        s->until_ns = now_ns() + HOLD_MS * MS_NS;
    if (s->kind->speak)
        speak(h, s);
}

static void rejected(struct hostile *h, struct shot *s, int status, const uint8_t *data, size_t len)
{
    struct vbn_wire_refusal r = {0};

    if (status != REJECT_BY_PEER || len < sizeof(r)) {
        wrong(h, s, "rejected by its kernel, code", status);
        return;
    }
    memcpy(&r, data, sizeof(r));
    if (le32toh(r.magic) != VBN_WIRE_MAGIC || r.reason > 31 ||
        !(s->kind->reasons & 1u << r.reason)) {
        wrong(h, s, "refused with reason", r.reason);
        return;
    }
    if (s->kind->then == THEN_REFUSED)
        s->kind->refused++;
    else
        s->kind->busy++;
    shot_end(h, s);
}

/* The job has closed the connection. */
static void cut(struct hostile *h, struct shot *s)
{
    if (s->kind->then == THEN_SPEAKS)
        refused(h, s);
    else if (s->kind->then == THEN_REFUSED)
        wrong(h, s, "was accepted, and closed, number", (int)s->kind->thrown);
    else {
        s->kind->cut++; /* it had to make way */
        held(h, s);
    }
}

static void take_event(struct hostile *h, struct shot *s, enum rdma_cm_event_type type, int status,
                       const uint8_t *data, size_t len)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(s->id, RESOLVE_MS))
            wrong(h, s, "no route: errno", errno);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        ask(h, s);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
        accepted(h, s);
        break;
    case RDMA_CM_EVENT_REJECTED:
        if (s->state == SHOT_OPEN)
            cut(h, s);
        else
            rejected(h, s, status, data, len);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        cut(h, s);
        break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
    default:
        wrong(h, s, rdma_event_str(type), status);
    }
}

static bool next_event(struct hostile *h)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type type;
    struct shot *s;
    uint8_t data[256];
    size_t len = 0;
    int status;

    if (rdma_get_cm_event(h->channel, &event))
        return false;
    type = event->event;
    status = event->status;
    s = event->id->context;
    if (event->param.conn.private_data) {
        len = event->param.conn.private_data_len;
        memcpy(data, event->param.conn.private_data, len);
    }
    rdma_ack_cm_event(event);
    take_event(h, s, type, status, data, len);
    return true;
}

/* What was sent has only arrived; the job's answer is that it disconnects. But a write or a read
 * that its device has let through is the worst that there is. */
static void look_at_completion(struct hostile *h, struct shot *s)
{
    struct ibv_wc wc;

    if (s->state != SHOT_OPEN || !s->id->send_cq || ibv_poll_cq(s->id->send_cq, 1, &wc) <= 0)
        return;
    if (wc.status == IBV_WC_SUCCESS && wc.opcode != IBV_WC_SEND)
        wrong(h, s, "got at memory of the job: opcode", (int)wc.opcode);
    else if (wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR ||
             wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_RETRY_EXC_ERR)
        refused(h, s); /* by the device, or it has gone before it could answer */
    else if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
        wrong(h, s, ibv_wc_status_str(wc.status), (int)wc.vendor_err);
}

/* --- all shots -------------------------------------------------------------------------------- */

bool shot_start(struct hostile *h, struct kind *kind)
{
    struct shot *s = h->shots;
    struct sockaddr_in to = h->address;

    while (s < h->shots + SHOTS_MAX && s->state != SHOT_FREE)
        s++;
    if (s == h->shots + SHOTS_MAX)
        return false;
    s->kind = kind;
    s->target = &h->targets[rnd(h) % h->target_count];
    to.sin_port = htons(s->target->port);
    if (rdma_create_id(h->channel, &s->id, s, RDMA_PS_TCP) ||
        rdma_resolve_addr(s->id, (struct sockaddr *)&h->address, (struct sockaddr *)&to,
                          RESOLVE_MS))
        die("rdma_resolve_addr");
    s->state = SHOT_RESOLVING;
    s->until_ns = now_ns() + ANSWER_MS * MS_NS;
    h->flying++;
    return true;
}

void shots_advance(struct hostile *h, int wait_ms)
{
    struct pollfd fd = {.fd = h->channel->fd, .events = POLLIN};
    uint64_t now;

    poll(&fd, 1, wait_ms);
    while (next_event(h))
        ;
    now = now_ns();
    for (struct shot *s = h->shots; s < h->shots + SHOTS_MAX; s++) {
        if (s->state != SHOT_FREE)
            look_at_completion(h, s);
        if (s->state != SHOT_FREE && now >= s->until_ns)
            shot_expires(h, s);
    }
}

void shots_let_go(struct hostile *h)
{
    for (struct shot *s = h->shots; s < h->shots + SHOTS_MAX; s++)
        if (is_held(s))
            held(h, s);
}

void shots_end(struct hostile *h)
{
    uint64_t until = now_ns() + ANSWER_MS * MS_NS;

    while (h->flying && now_ns() < until)
        shots_advance(h, 20);
    for (struct shot *s = h->shots; s < h->shots + SHOTS_MAX; s++)
        if (s->state != SHOT_FREE)
            shot_expires(h, s);
}
