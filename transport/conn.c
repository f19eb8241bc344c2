/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operation. vbn_conn_event() is the only writer of `state`. An action runs after the move and may
 * raise the next event itself: a failed call inside an action raises CM_ERROR or QP_ERROR in the
 * new state, so each state's row is complete.
 * Buffer ownership. A connection owns its id, its queue pair, its share of a completion queue and
 * its receive window; vbn_conn_reap() gives them back, once the state is DEAD.
 * Errors. The first cause is kept in `cause`; the endpoint decides what a failure means.
 */
#include "conn.h"
#include "context.h"
#include "half.h"
#include "log.h"
#include "recover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 2000u
#define LEAVE_NS   1000000000u /* how long a disconnect may take on each side */
#define PART_NS    50000000u   /* from a failure until the peer is told by a disconnect */
#define FLUSH_NS   50000000u   /* to drain in where the device does not tell that all is in */

static const char *const state_names[VBN_CONN_STATES] = {
    [VBN_CONN_NEW] = "NEW",
    [VBN_CONN_ADDR] = "ADDR",
    [VBN_CONN_ROUTE] = "ROUTE",
    [VBN_CONN_CONNECTING] = "CONNECTING",
    [VBN_CONN_ACCEPTING] = "ACCEPTING",
    [VBN_CONN_HALF] = "HALF",
    [VBN_CONN_ESTABLISHED] = "ESTABLISHED",
    [VBN_CONN_DISCONNECTING] = "DISCONNECTING",
    [VBN_CONN_DRAINING] = "DRAINING",
    [VBN_CONN_LEAVING] = "LEAVING",
    [VBN_CONN_DEAD] = "DEAD",
};

const char *vbn_conn_state_str(enum vbn_conn_state state)
{
    return state_names[state];
}

/* --- actions
 * ------------------------------------------------------------------------------------------- */

static void set_deadline(struct vbn_conn *conn, uint64_t ns);

/* An address that nobody answers for must not keep others from being tried. */
static int resolve_ms(const struct vbn_conn *conn)
{
    uint64_t ms = vbn_recover_attempt_ms(conn->ep);

    return (int)vbn_min(ms ? ms : RESOLVE_MS, RESOLVE_MS);
}

static void act_resolve_addr(struct vbn_conn *conn)
{
    union vbn_sockaddr src = *vbn_device_addr_for(&conn->ctx->device, &conn->dst);

    if (rdma_create_id(conn->ctx->cm.channel, &conn->id, conn, RDMA_PS_TCP))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "rdma_create_id: %s", strerror(errno));
    else if (rdma_resolve_addr(conn->id, &src.sa, &conn->dst.sa, resolve_ms(conn)))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "rdma_resolve_addr: %s", strerror(errno));
}

static void act_resolve_route(struct vbn_conn *conn)
{
    if (rdma_resolve_route(conn->id, resolve_ms(conn)))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "rdma_resolve_route: %s", strerror(errno));
}

/* What both sides need before they talk: a window, a control buffer, a queue pair. */
static bool prepare(struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;
    int rc;

    conn->window = vbn_rx_grant(ctx);
    conn->ctl = (struct vbn_ctl *)vbn_pool_get(&ctx->ctls);
    if (!conn->window || !conn->ctl) {
        conn->reason = VBN_REASON_BUSY;
        vbn_conn_fail(conn, VBN_EV_CM_ERROR,
                      "no receive buffers for another connection; raise srq_depth");
        return false;
    }
    conn->ctl->wr.conn = conn;
    rc = vbn_qp_create(conn);
    if (rc) {
        conn->reason = VBN_REASON_BUSY;
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "cannot make a queue pair: %s", strerror(errno));
    }
    return rc == VBN_OK;
}

/* What we ask of the connection, with HELLO, which gets our private data. */
static struct rdma_conn_param conn_param(const struct vbn_conn *conn, uint8_t version,
                                         uint8_t version_min,
                                         char hello[sizeof(struct vbn_wire_hello)])
{
    struct vbn_wire_hello h = vbn_cm_hello(conn, version, version_min);

    vbn_wire_hello_write(hello, &h);
    return (struct rdma_conn_param){
        .private_data = hello,
        .private_data_len = sizeof(h),
        .responder_resources = conn->ctx->device.max_read_in,
        .initiator_depth = conn->ctx->device.max_read_out,
        .retry_count = (uint8_t)conn->ctx->opts.retry_count,
        .rnr_retry_count = 7, /* for ever, but on soft-RoCE: doc/behaviours.md */
        .srq = conn->ctx->rx.shared.srq != NULL,
        .qp_num = conn->q.qp_num,
    };
}

/* A request or an answer may have been lost with the link; and the kernel of a peer that does not
 * answer may ask for patience again and again. */
static void limit_attempt(struct vbn_conn *conn)
{
    uint64_t ms = vbn_recover_attempt_ms(conn->ep), now = vbn_now_ns(conn->ctx);

    conn->asked = true;
    if (ms)
        set_deadline(conn, ms * VBN_MS_NS);
    else if (conn->active)
        set_deadline(conn, vbn_max(conn->ep->connect_by_ns, now + 1) - now);
}

static void act_connect(struct vbn_conn *conn)
{
    char hello[sizeof(struct vbn_wire_hello)];
    struct rdma_conn_param param;

    if (!prepare(conn))
        return;
    param = conn_param(conn, (uint8_t)conn->ctx->opts.wire_version,
                       vbn_context_version_min(conn->ctx), hello);
    limit_attempt(conn);
    if (!vbn_cm_may_speak(conn->ctx, conn->id)) {
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "this side's address is gone");
    } else if (rdma_connect(conn->id, &param)) {
        conn->nobody_there = errno == ECONNREFUSED; /* soft-iWARP makes its stream in the call */
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "rdma_connect: %s", strerror(errno));
    } else {
        conn->calls = conn->ctx->device.iwarp;
    }
}

static void act_accept(struct vbn_conn *conn)
{
    const vbn_context_t *ctx = conn->ctx;
    uint8_t version =
        vbn_wire_version_common((uint8_t)ctx->opts.wire_version, vbn_context_version_min(ctx),
                                conn->hello.version, conn->hello.version_min);
    char hello[sizeof(struct vbn_wire_hello)];
    struct rdma_conn_param param;

    if (!prepare(conn))
        return;
    param = conn_param(conn, version, version, hello);
    limit_attempt(conn);
    param.responder_resources = (uint8_t)vbn_min(param.responder_resources, conn->read_in);
    param.initiator_depth = (uint8_t)vbn_min(param.initiator_depth, conn->read_out);
    if (vbn_qp_connect(conn, param.responder_resources, param.initiator_depth))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "cannot ready the queue pair: %s", strerror(errno));
    else if (rdma_accept(conn->id, &param))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "rdma_accept: %s", strerror(errno));
    else
        conn->ep->answered = true;
}

/* On iWARP the accepting side may not speak before the peer has, and does not know till then
 * whether its answer has arrived: until that word CONN is no more than an attempt of its
 * endpoint's. */
static void await_word(struct vbn_conn *conn)
{
    uint64_t ms = vbn_recover_word_ms(conn->ep);

    set_deadline(conn, (ms ? ms : conn->ctx->opts.connect_timeout_ms) * VBN_MS_NS);
}

static void act_up(struct vbn_conn *conn)
{
    uint32_t last = (uint32_t)vbn_max(conn->ep->session, conn->hello.session);

    conn->session = last + 1; /* each side has told the other its last one */
    conn->since_ns = conn->used_ns = vbn_now_ns(conn->ctx);
    vbn_flow_init(&conn->flow, conn->window, conn->hello.credits);
    conn->version = vbn_wire_version_common((uint8_t)conn->ctx->opts.wire_version,
                                            vbn_context_version_min(conn->ctx), conn->hello.version,
                                            conn->hello.version_min);
    vbn_ring_init(conn);
    vbn_bare_init(conn);
    conn->told_next = conn->ep->rx_next;
    conn->cause[0] = '\0';
    vbn_timer_stop(&conn->ctx->timers, &conn->timer);
    if (conn->ctx->device.iwarp && !conn->active)
        await_word(conn);
    else
        vbn_endpoint_up(conn->ep, conn);
}

/* The peer may have sent already: that would be proof enough of our answer. */
static void act_linger(struct vbn_conn *conn)
{
    set_deadline(conn, LEAVE_NS);
}

/* The time is over in which the peer of an iWARP connection had to speak. */
static void act_unheard(struct vbn_conn *conn)
{
    if (conn->ep->attempt != conn)
        return;                      /* it has */
    if (conn->ep->recovery.since_ns) /* for which it is too late then */
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "it has connected and said nothing");
    else
        vbn_endpoint_fail(conn->ep, VBN_ERR_UNREACHABLE,
                          "peer %s connected to device %s and has said nothing within %llu ms",
                          conn->ep->name, conn->ctx->device.name,
                          (unsigned long long)conn->ctx->opts.connect_timeout_ms);
}

/* The peer expects what it has acknowledged, or what was never sent: that was another session. */
VBN_COLD static void forgotten(struct vbn_conn *conn)
{
    conn->reason = VBN_REASON_LOST;
    vbn_conn_fail(conn, VBN_EV_CM_ERROR, "the peer knows nothing of what was sent before");
}

/* The peer's answer: its version and sizes are final, the request's checks hold for them too. */
static void act_answered(struct vbn_conn *conn)
{
    const struct vbn_wire_hello *h = &conn->hello;
    vbn_context_t *ctx = conn->ctx;

    if (h->src_uid != conn->ep->uid || h->dst_uid != ctx->uid || h->job_key != ctx->opts.job_key ||
        h->version > ctx->opts.wire_version || h->version < vbn_context_version_min(ctx) ||
        h->buf_size != sizeof(struct vbn_wire_hdr) + ctx->max_am_len)
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "the answer is not from the peer that was asked");
    else if (!vbn_endpoint_may_expect(conn->ep, h->rx_next))
        forgotten(conn);
    else if (vbn_qp_connect(conn, conn->read_in, conn->read_out))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "cannot ready the queue pair: %s", strerror(errno));
    else if (!vbn_cm_may_speak(ctx, conn->id))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "this side's address is gone");
    else if (!ctx->device.iwarp && rdma_establish(conn->id))
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "rdma_establish: %s", strerror(errno));
    else
        act_up(conn);
}

static void act_drain(struct vbn_conn *conn)
{
    vbn_qp_fail(conn);
    set_deadline(conn, conn->ctx->device.keeps_drain ? FLUSH_NS : LEAVE_NS);
}

static void act_give_up(struct vbn_conn *conn)
{
    act_drain(conn);
    vbn_endpoint_attempt_failed(conn->ep, conn);
}

static void part(struct vbn_conn *conn)
{
    if (!conn->id || conn->parted || !vbn_cm_may_speak(conn->ctx, conn->id))
        return;
    conn->parted = true;
    rdma_disconnect(conn->id);
}

/* Without rdma_cm nobody will say that the peer is gone, and nobody has to be told. */
static void drain_alone(struct vbn_conn *conn)
{
    act_drain(conn);
    if (!conn->id)
        vbn_conn_event(conn, VBN_EV_GONE);
}

static void act_break(struct vbn_conn *conn)
{
    vbn_device_look_at_link(conn->ctx);
    drain_alone(conn);
}

static void act_disconnect(struct vbn_conn *conn)
{
    part(conn);
    drain_alone(conn);
}

static void act_prepare(struct vbn_conn *conn)
{
    prepare(conn);
}

static void act_half_over(struct vbn_conn *conn)
{
    vbn_half_over(conn->half);
    act_drain(conn);
}

static void act_half_failed(struct vbn_conn *conn)
{
    vbn_log(conn->ctx, VBN_LOG_WARN, "half of a connection has failed before it was joined: %s",
            conn->cause);
    act_half_over(conn);
}

static void act_join(struct vbn_conn *conn)
{
    vbn_half_over(conn->half);
    act_up(conn);
}

static void act_bury(struct vbn_conn *conn)
{
    vbn_timer_stop(&conn->ctx->timers, &conn->timer);
    conn->ctx->slow_work = true;
}

/* What had arrived has been taken, a farewell above all: only now is it known what the end means.
 */
static void act_lost(struct vbn_conn *conn)
{
    vbn_endpoint_conn_lost(conn->ep, conn);
}

/* What has failed may have failed with the link, whose end is told a little later. */
static void act_leave(struct vbn_conn *conn)
{
    if (!conn->parted)
        set_deadline(conn, PART_NS);
    act_lost(conn);
}

static void act_part_late(struct vbn_conn *conn)
{
    bool was_parted = conn->parted;

    if (conn->ctx->device.link_up) /* else an event will tell */
        vbn_device_look_at_link(conn->ctx);
    part(conn);
    if (was_parted)
        vbn_conn_event(conn, VBN_EV_GONE); /* the peer has had its time */
    else
        set_deadline(conn, conn->parted ? LEAVE_NS : PART_NS);
}

static void act_lost_bury(struct vbn_conn *conn)
{
    act_lost(conn);
    act_bury(conn);
}

/* Its completions did not come in time: without its queue pair none will, and what waits for them
 * is over before another connection begins. Only timers lead here, between completions. A request
 * that the kernel has not answered has carried nothing that anybody could wait for. */
static void act_cut_off(struct vbn_conn *conn)
{
    vbn_cqs_poll_all(conn->ctx); /* who has not called for long finds all in here */
    if (vbn_qp_drains(&conn->q))
        conn->ctx->device.keeps_drain = true; /* so the next one is not waited for as long */
    if (!conn->calls)
        vbn_qp_destroy(conn);
    act_lost_bury(conn);
}

static void act_attempt_over(struct vbn_conn *conn)
{
    act_bury(conn);
    vbn_endpoint_attempt_failed(conn->ep, conn);
}

/* --- the table
 * ------------------------------------------------------------------------------------------- */

struct step {
    enum vbn_conn_state next; /* NEW, which nothing leads to: an event that cannot come here */
    void (*action)(struct vbn_conn *conn);
};

/* clang-format off */
#define STAY(state) {VBN_CONN_##state, NULL}

/* An attempt without a queue pair: any bad news ends it at once. */
#define ATTEMPT_ENDS \
    [VBN_EV_REJECTED] = {VBN_CONN_DEAD, act_attempt_over}, \
    [VBN_EV_CM_ERROR] = {VBN_CONN_DEAD, act_attempt_over}, \
    [VBN_EV_QP_ERROR] = {VBN_CONN_DEAD, act_attempt_over}, \
    [VBN_EV_GONE] = {VBN_CONN_DEAD, act_attempt_over}, \
    [VBN_EV_TIMEOUT] = {VBN_CONN_DEAD, act_attempt_over}, \
    [VBN_EV_CLOSE] = {VBN_CONN_DEAD, act_bury}

/* One with a queue pair, which has to be drained. */
#define ATTEMPT_DRAINS \
    [VBN_EV_REJECTED] = {VBN_CONN_DRAINING, act_give_up}, \
    [VBN_EV_CM_ERROR] = {VBN_CONN_DRAINING, act_give_up}, \
    [VBN_EV_QP_ERROR] = {VBN_CONN_DRAINING, act_give_up}, \
    [VBN_EV_GONE] = {VBN_CONN_DRAINING, act_give_up}, \
    [VBN_EV_TIMEOUT] = {VBN_CONN_DRAINING, act_give_up}, \
    [VBN_EV_CLOSE] = {VBN_CONN_DRAINING, act_drain}

/* What may still arrive, late or twice, and changes nothing. */
#define LATE_CM(state) \
    [VBN_EV_ADDR_OK] = STAY(state), \
    [VBN_EV_ROUTE_OK] = STAY(state), \
    [VBN_EV_ANSWER] = STAY(state), \
    [VBN_EV_UNHEARD] = STAY(state), \
    [VBN_EV_ESTABLISHED] = STAY(state)

#define LATE_FAULTS(state) \
    [VBN_EV_REJECTED] = STAY(state), \
    [VBN_EV_CM_ERROR] = STAY(state), \
    [VBN_EV_QP_ERROR] = STAY(state), \
    [VBN_EV_CLOSE] = STAY(state)

static const struct step table[VBN_CONN_STATES][VBN_CONN_EVENTS] = {
    [VBN_CONN_NEW] = {
        [VBN_EV_CONNECT] = {VBN_CONN_ADDR, act_resolve_addr},
        [VBN_EV_ACCEPT] = {VBN_CONN_ACCEPTING, act_accept},
        [VBN_EV_PREPARE] = {VBN_CONN_HALF, act_prepare},
        [VBN_EV_CLOSE] = {VBN_CONN_DEAD, act_bury},
    },
    [VBN_CONN_ADDR] = {
        [VBN_EV_ADDR_OK] = {VBN_CONN_ROUTE, act_resolve_route},
        ATTEMPT_ENDS,
    },
    [VBN_CONN_ROUTE] = {
        [VBN_EV_ADDR_OK] = STAY(ROUTE),
        [VBN_EV_ROUTE_OK] = {VBN_CONN_CONNECTING, act_connect},
        ATTEMPT_ENDS,
    },
    [VBN_CONN_CONNECTING] = {
        [VBN_EV_ADDR_OK] = STAY(CONNECTING),
        [VBN_EV_ROUTE_OK] = STAY(CONNECTING),
        [VBN_EV_ANSWER] = {VBN_CONN_ESTABLISHED, act_answered},
        [VBN_EV_ESTABLISHED] = {VBN_CONN_ESTABLISHED, act_answered},
        ATTEMPT_DRAINS,
    },
    [VBN_CONN_ACCEPTING] = {
        [VBN_EV_ESTABLISHED] = {VBN_CONN_ESTABLISHED, act_up},
        [VBN_EV_UNHEARD] = {VBN_CONN_ACCEPTING, act_linger},
        ATTEMPT_DRAINS,
    },
    [VBN_CONN_HALF] = {
        [VBN_EV_JOIN] = {VBN_CONN_ESTABLISHED, act_join},
        [VBN_EV_CM_ERROR] = {VBN_CONN_DRAINING, act_half_over},
        [VBN_EV_QP_ERROR] = {VBN_CONN_DRAINING, act_half_failed},
        [VBN_EV_CLOSE] = {VBN_CONN_DRAINING, act_half_over},
    },
    [VBN_CONN_ESTABLISHED] = {
        LATE_CM(ESTABLISHED),
        [VBN_EV_REJECTED] = {VBN_CONN_DISCONNECTING, act_disconnect},
        [VBN_EV_CM_ERROR] = {VBN_CONN_DISCONNECTING, act_disconnect},
        [VBN_EV_QP_ERROR] = {VBN_CONN_DISCONNECTING, act_break},
        [VBN_EV_GONE] = {VBN_CONN_DRAINING, act_disconnect},
        [VBN_EV_CLOSE] = {VBN_CONN_DISCONNECTING, act_disconnect},
        [VBN_EV_TIMEOUT] = {VBN_CONN_ESTABLISHED, act_unheard},
    },
    [VBN_CONN_DISCONNECTING] = {
        LATE_CM(DISCONNECTING),
        LATE_FAULTS(DISCONNECTING),
        [VBN_EV_GONE] = {VBN_CONN_DRAINING, NULL},
        [VBN_EV_DRAINED] = {VBN_CONN_LEAVING, act_leave},
        [VBN_EV_TIMEOUT] = {VBN_CONN_DEAD, act_cut_off},
    },
    [VBN_CONN_DRAINING] = {
        LATE_CM(DRAINING),
        LATE_FAULTS(DRAINING),
        [VBN_EV_GONE] = STAY(DRAINING),
        [VBN_EV_DRAINED] = {VBN_CONN_DEAD, act_lost_bury},
        [VBN_EV_TIMEOUT] = {VBN_CONN_DEAD, act_cut_off},
    },
    [VBN_CONN_LEAVING] = {
        LATE_CM(LEAVING),
        LATE_FAULTS(LEAVING),
        [VBN_EV_GONE] = {VBN_CONN_DEAD, act_bury},
        [VBN_EV_TIMEOUT] = {VBN_CONN_LEAVING, act_part_late},
    },
    [VBN_CONN_DEAD] = {
        LATE_CM(DEAD),
        LATE_FAULTS(DEAD),
        [VBN_EV_GONE] = STAY(DEAD),
        [VBN_EV_TIMEOUT] = STAY(DEAD),
    },
};
/* clang-format on */

static bool asks(const struct vbn_conn *conn)
{
    return conn->state >= VBN_CONN_ADDR && conn->state <= VBN_CONN_CONNECTING;
}

static void set_state(struct vbn_conn *conn, enum vbn_conn_state next)
{
    bool was = vbn_conn_in_progress(conn), asked = asks(conn);

    vbn_log(conn->ctx, VBN_LOG_DEBUG, "connection %p to %s: %s -> %s", (void *)conn, conn->ep->name,
            state_names[conn->state], state_names[next]);
    conn->state = next;
    conn->ctx->connecting += (uint32_t)vbn_conn_in_progress(conn) - (uint32_t)was;
    if (!asked && asks(conn))
        vbn_turn_begins(conn->ctx);
    else if (asked && !asks(conn))
        vbn_turn_ends(conn->ctx, next == VBN_CONN_ESTABLISHED);
}

void vbn_conn_event(struct vbn_conn *conn, enum vbn_conn_event event)
{
    const struct step *step = &table[conn->state][event];

    if (step->next == VBN_CONN_NEW) {
        vbn_log(conn->ctx, VBN_LOG_ERROR, "connection to %s: event %d cannot come in state %s",
                conn->ep->name, (int)event, state_names[conn->state]);
        assert(!"impossible event");
        if (event != VBN_EV_CM_ERROR && table[conn->state][VBN_EV_CM_ERROR].next != VBN_CONN_NEW)
            vbn_conn_fail(conn, VBN_EV_CM_ERROR, "an event came that cannot come");
        return;
    }
    if (step->next != conn->state)
        set_state(conn, step->next);
    if (step->action)
        step->action(conn);
    vbn_conn_check_drained(conn);
}

void vbn_conn_fail(struct vbn_conn *conn, enum vbn_conn_event event, const char *fmt, ...)
{
    va_list ap;

    if (!conn->cause[0]) {
        va_start(ap, fmt);
        vsnprintf(conn->cause, sizeof(conn->cause), fmt, ap);
        va_end(ap);
    }
    vbn_conn_event(conn, event);
}

void vbn_conn_post_failed(struct vbn_conn *conn, int rc)
{
    /* libsiw's errors are negative. */
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "ibv_post_send: %s", strerror(abs(rc)));
}

void vbn_conn_check_drained(struct vbn_conn *conn)
{
    if ((conn->state == VBN_CONN_DISCONNECTING || conn->state == VBN_CONN_DRAINING) &&
        vbn_qp_drained(&conn->q) && conn->rq.posted == 0)
        vbn_conn_event(conn, VBN_EV_DRAINED);
}

/* --- life
 * --------------------------------------------------------------------------------------------------
 */

static void expired(struct vbn_timer *timer)
{
    struct vbn_conn *conn = vbn_container_of(timer, struct vbn_conn, timer);

    if (vbn_conn_in_progress(conn))
        vbn_conn_fail(conn, VBN_EV_TIMEOUT, "no answer in time");
    else
        vbn_conn_event(conn, VBN_EV_TIMEOUT);
}

static void set_deadline(struct vbn_conn *conn, uint64_t ns)
{
    vbn_timer_start(&conn->ctx->timers, &conn->timer, vbn_now_ns(conn->ctx) + ns, expired);
}

struct vbn_conn *vbn_conn_create(vbn_endpoint_t *ep, struct rdma_cm_id *id)
{
    struct vbn_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    conn->ctx = ep->ctx;
    conn->ep = ep;
    conn->id = id;
    conn->active = id == NULL;
    conn->asked = !conn->active;
    conn->since_ns = vbn_now_ns(ep->ctx);
    if (id)
        id->context = conn;
    ep->conn_count++;
    ep->ctx->connecting++;
    TAILQ_INSERT_TAIL(&ep->ctx->conns, conn, entry);
    return conn;
}

static void conn_free(struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;

    vbn_qp_destroy(conn);
    vbn_ring_fini(conn);
    if (conn->id)
        rdma_destroy_id(conn->id);
    vbn_rx_detach(conn);
    vbn_rx_ungrant(conn);
    if (conn->ctl)
        vbn_pool_put(&ctx->ctls, &conn->ctl->obj);
    if (conn->ack_listed)
        TAILQ_REMOVE(&ctx->acks, conn, ack_entry);
    vbn_timer_stop(&ctx->timers, &conn->timer);
    TAILQ_REMOVE(&ctx->conns, conn, entry);
    conn->ep->conn_count--;
    free(conn);
}

/* Destroying an id that has asked or answered may send a message, too, and after a disconnect where
 * the peer's has crossed it. On iWARP whoever destroys it or its queue pair while it asks sleeps in
 * the kernel until the peer answers or does not in time, 10 s on soft-iWARP. */
static bool may_free(const struct vbn_conn *conn)
{
    vbn_context_t *ctx = conn->ctx;

    if (conn->calls && !ctx->hurries && !ctx->faulted)
        return false;
    return !conn->id || !conn->asked || vbn_cm_may_speak(ctx, conn->id);
}

int vbn_conn_reap(vbn_context_t *ctx)
{
    struct vbn_conn *conn, *next;
    int n = 0;

    /* Callbacks may add connections, but only this function frees any. */
    for (conn = TAILQ_FIRST(&ctx->conns); conn; conn = next) {
        next = TAILQ_NEXT(conn, entry);
        if (conn->state == VBN_CONN_DEAD && may_free(conn)) {
            conn_free(conn);
            n++;
        }
    }
    return n;
}
