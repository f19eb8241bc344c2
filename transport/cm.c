/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm.h"
#include "context.h"
#include "error.h"
#include "group.h"
#include "log.h"
#include "recover.h"
#include "stranger.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG               1024
#define CM_REJECT_NOBODY      8  /* InfiniBand 12.6.7.2: no such service */
#define CM_REJECT_BY_CONSUMER 28 /* the same */
#define GIVE_WAY_NS           100000000u
#define DOUBT_NS              20000000u
#define EVENTS_A_LOOK         32 /* messages come first, whoever asks for connections */

/* What an event says, copied so that it can be acknowledged first. */
struct cm_event {
    enum rdma_cm_event_type type;
    int status;
    struct rdma_cm_id *id;
    uint8_t data[196]; /* private data: the most that InfiniBand carries */
    size_t data_len;
    uint8_t read_in, read_out;
    struct rdma_ud_param ud; /* of a multicast address that has been joined */
};

/* A request of a peer that came when it could not be answered. */
struct vbn_unanswered {
    SLIST_ENTRY(vbn_unanswered) entry;
    struct rdma_cm_id *id;
};

/* --- private data
 * ------------------------------------------------------------------------------------ */

struct vbn_wire_hello vbn_cm_hello(const struct vbn_conn *conn, uint8_t version,
                                   uint8_t version_min)
{
    const vbn_context_t *ctx = conn->ctx;

    return (struct vbn_wire_hello){
        .version = version,
        .version_min = version_min,
        .src_uid = ctx->uid,
        .dst_uid = conn->ep->uid,
        .job_key = ctx->opts.job_key,
        .session = conn->ep->session,
        .rx_next = conn->ep->rx_next,
        .buf_size = (uint32_t)sizeof(struct vbn_wire_hdr) + ctx->max_am_len,
        .credits = conn->window,
        .incarnation = conn->ep->incarnation,
        .peer_incarnation = conn->ep->peer_incarnation,
    };
}

/* Only who has NAMED this side may learn its identity: with it, one can pretend to be it. */
static void refuse(vbn_context_t *ctx, struct rdma_cm_id *id, uint8_t reason, bool named)
{
    struct vbn_wire_refusal refusal = {
        .version = (uint8_t)ctx->opts.wire_version,
        .version_min = vbn_context_version_min(ctx),
        .reason = reason,
        .uid = named ? ctx->uid : 0,
    };
    char data[sizeof(refusal)];

    if (reason == VBN_REASON_CROSSED)
        ctx->counters.conns_crossed++;
    else
        ctx->counters.conns_refused++;
    vbn_wire_refusal_write(data, &refusal);
    rdma_reject(id, data, sizeof(data));
    rdma_destroy_id(id);
}

/* --- what cannot be said now
 * ---------------------------------------------------------------------------- */

bool vbn_cm_may_speak(vbn_context_t *ctx, struct rdma_cm_id *id)
{
    if (ctx->faulted)
        return true; /* nothing is sent any more */
    return ctx->device.link_up &&
           (ctx->device.iwarp || vbn_device_has_address(ctx, rdma_get_local_addr(id)));
}

/* Its sender will ask again, or by another address; to destroy ID is to answer it. */
static void leave_unanswered(vbn_context_t *ctx, struct rdma_cm_id *id)
{
    struct vbn_unanswered *u = malloc(sizeof(*u));

    vbn_log(ctx, VBN_LOG_INFO, "a connection request came to an address that is gone");
    if (!u) {
        rdma_destroy_id(id);
        return;
    }
    u->id = id;
    SLIST_INSERT_HEAD(&ctx->cm.unanswered, u, entry);
}

static void let_go(struct vbn_cm *cm, struct vbn_unanswered *u)
{
    SLIST_REMOVE(&cm->unanswered, u, vbn_unanswered, entry);
    rdma_destroy_id(u->id);
    free(u);
}

size_t vbn_cm_reap(vbn_context_t *ctx)
{
    struct vbn_unanswered *u, *next;
    size_t left = 0;

    for (u = SLIST_FIRST(&ctx->cm.unanswered); u; u = next) {
        next = SLIST_NEXT(u, entry);
        if (vbn_cm_may_speak(ctx, u->id))
            let_go(&ctx->cm, u);
        else
            left++;
    }
    return left;
}

/* --- a peer's request
 * ---------------------------------------------------------------------------------- */

static uint8_t check_request(const vbn_context_t *ctx, const struct vbn_wire_hello *h, bool read_ok)
{
    if (!read_ok)
        return VBN_REASON_MALFORMED;
    if (!vbn_wire_version_common(h->version, h->version_min, (uint8_t)ctx->opts.wire_version,
                                 vbn_context_version_min(ctx)))
        return VBN_REASON_VERSION;
    if (h->dst_uid != ctx->uid || h->job_key != ctx->opts.job_key || h->src_uid == ctx->uid)
        return VBN_REASON_STRANGER;
    if (h->buf_size != sizeof(struct vbn_wire_hdr) + ctx->max_am_len)
        return VBN_REASON_SIZES;
    return 0;
}

/*
 * The peer of CONN asks for another connection. If CONN is among those that it knows, it has lost
 * it: we drain our side too, and it asks again. If not, the request may be an old one, or the peer
 * may never have learnt that CONN was established: its device tells, or that it asks once more
 * while its device is silent. A half that it has not joined yet is silent for as long as it likes.
 */
static void doubt(struct vbn_conn *conn, const struct vbn_wire_hello *hello)
{
    if (!vbn_seq_before(hello->session, conn->session))
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "the peer has lost it");
    else if (conn->id && conn->q.probed_ns && vbn_now_ns(conn->ctx) - conn->q.probed_ns >= DOUBT_NS)
        vbn_conn_fail(conn, VBN_EV_QP_ERROR, "the peer asks for another, and this one is silent");
    else if (!conn->ctx->device.iwarp)
        vbn_qp_probe(conn);
}

/* ATTEMPT's request may have been lost with the link, which the peer's proves to work again. */
static bool is_stale(const struct vbn_conn *attempt)
{
    return attempt->ep->recovery.since_ns &&
           vbn_now_ns(attempt->ctx) - attempt->since_ns >= GIVE_WAY_NS;
}

/*
 * Endpoints to a peer may follow each other on either side, and a session is that of two of them.
 * 0, or why HELLO, which came while EP has no connection, is not of EP's; EP ends where HELLO shows
 * that the peer has closed the endpoint that EP knew.
 */
static uint8_t other_incarnation(vbn_endpoint_t *ep, const struct vbn_wire_hello *hello)
{
    if (hello->peer_incarnation && hello->peer_incarnation != ep->incarnation)
        return VBN_REASON_CLOSED;
    if (!hello->incarnation || !ep->peer_incarnation || hello->incarnation == ep->peer_incarnation)
        return 0;
    if (vbn_seq_before(hello->incarnation, ep->peer_incarnation))
        return VBN_REASON_BUSY;   /* a request that its sender has given up long ago */
    vbn_endpoint_peer_closed(ep); /* the farewell of the one before was lost */
    return VBN_REASON_CLOSED;
}

/*
 * Both may connect at once. Who has not asked yet takes the peer's request; of two the one of the
 * context with the larger uid goes on, and each side can tell alone which that is. An answer
 * already on its way, or on iWARP one that the peer has not spoken after, is dropped for a newer
 * request: the peer has given the older one up.
 */
static uint8_t make_way(vbn_endpoint_t *ep, const struct vbn_wire_hello *hello)
{
    struct vbn_conn *attempt = ep->attempt;
    uint8_t reason;

    if (ep->state >= VBN_EP_CLOSED)
        return ep->state == VBN_EP_LOST ? VBN_REASON_LOST : VBN_REASON_CLOSED;
    if (ep->conn) {
        doubt(ep->conn, hello);
        return VBN_REASON_BUSY;
    }
    if (vbn_endpoint_leaves(ep) && !ep->recovery.since_ns)
        return VBN_REASON_CLOSED; /* takes nobody new, but goes on with one that it has lost */
    reason = other_incarnation(ep, hello);
    if (reason)
        return reason;
    if (vbn_seq_before(ep->tx_next, hello->rx_next))
        return VBN_REASON_CLOSED; /* it means a session that is over */
    if (!vbn_endpoint_may_expect(ep, hello->rx_next))
        return VBN_REASON_BUSY; /* a request that its sender has given up long ago */
    if (!attempt)
        return 0;
    if (attempt->active && attempt->asked && ep->ctx->uid > ep->uid && !is_stale(attempt))
        return VBN_REASON_CROSSED;
    ep->attempt = NULL;
    vbn_conn_event(attempt, VBN_EV_CLOSE);
    return 0;
}

/* The endpoint that HELLO's sender asks for, ready for another connection; else *REASON. */
static vbn_endpoint_t *asked_for(vbn_context_t *ctx, const struct vbn_wire_hello *hello,
                                 uint8_t *reason)
{
    vbn_endpoint_t *ep = vbn_endpoint_find(ctx, hello->src_uid);

    /* With a session behind it, the peer has missed our farewell. */
    if (!ep && (ctx->closing || hello->session)) {
        *reason = VBN_REASON_CLOSED;
        return NULL;
    }
    if (!ep)
        ep = vbn_stranger_add(ctx, hello->src_uid);
    *reason = ep && vbn_stranger_may_connect(ep) ? make_way(ep, hello) : VBN_REASON_BUSY;
    return ep;
}

/* A release that does not fit is for the user to mend; but he need not read it a thousand times. */
static void log_refusal(vbn_context_t *ctx, const struct vbn_wire_hello *hello, uint8_t reason)
{
    if (reason == VBN_REASON_VERSION) {
        vbn_log(ctx, ctx->version_told ? VBN_LOG_INFO : VBN_LOG_ERROR,
                "refused a peer: it speaks wire versions %u to %u, this side %u to %u; run the "
                "same release of Verbena on all hosts",
                hello->version_min, hello->version, vbn_context_version_min(ctx),
                (unsigned)ctx->opts.wire_version);
        ctx->version_told = true;
    } else if (reason != VBN_REASON_CROSSED) {
        vbn_log(ctx, VBN_LOG_INFO, "refused a connection request: %s", vbn_wire_reason_str(reason));
    }
}

static void take_request(vbn_context_t *ctx, const struct cm_event *ev)
{
    struct vbn_wire_hello hello;
    bool read_ok = vbn_wire_hello_read(ev->data, ev->data_len, &hello);
    uint8_t reason = check_request(ctx, &hello, read_ok);
    vbn_endpoint_t *ep = NULL;
    struct vbn_conn *conn = NULL;

    if (!ctx->device.link_up) /* it may be here before the word that the link is back */
        vbn_device_look_at_link(ctx);
    if (!vbn_cm_may_speak(ctx, ev->id)) {
        leave_unanswered(ctx, ev->id);
        return;
    }
    if (!reason) {
        ep = asked_for(ctx, &hello, &reason);
        ctx->slow_work = true; /* nothing stays of a stranger who is refused */
    }
    if (!reason && !(conn = vbn_conn_create(ep, ev->id))) {
        vbn_endpoint_retry(ep); /* an attempt of ours may have made way */
        reason = VBN_REASON_BUSY;
    }
    if (reason) {
        log_refusal(ctx, &hello, reason);
        refuse(ctx, ev->id, reason,
               read_ok && reason != VBN_REASON_VERSION && hello.dst_uid == ctx->uid);
        return;
    }
    conn->hello = hello;
    conn->read_in = ev->read_in;
    conn->read_out = ev->read_out;
    ep->attempt = conn;
    vbn_conn_event(conn, VBN_EV_ACCEPT);
}

/* --- events
 * -----------------------------------------------------------------------------------------------
 */

static void answered(struct vbn_conn *conn, const struct cm_event *ev, enum vbn_conn_event event)
{
    if (!vbn_conn_in_progress(conn)) {
        vbn_conn_event(conn, event); /* late, or twice */
        return;
    }
    if (!conn->active) {
        vbn_conn_event(conn, VBN_EV_ESTABLISHED);
        return;
    }
    if (!vbn_wire_hello_read(ev->data, ev->data_len, &conn->hello)) {
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "the answer is malformed");
        return;
    }
    conn->read_in = (uint8_t)vbn_min(ev->read_in, conn->ctx->device.max_read_in);
    conn->read_out = (uint8_t)vbn_min(ev->read_out, conn->ctx->device.max_read_out);
    vbn_conn_event(conn, event);
}

static void rejected(struct vbn_conn *conn, const struct cm_event *ev)
{
    struct vbn_wire_refusal refusal;

    /* iWARP has one status for all rejections. */
    if ((ev->status == CM_REJECT_BY_CONSUMER || conn->ctx->device.iwarp) &&
        vbn_wire_refusal_read(ev->data, ev->data_len, &refusal)) {
        conn->reason = refusal.reason;
        vbn_conn_fail(conn, VBN_EV_REJECTED, "%s (it speaks wire versions %u to %u)",
                      vbn_wire_reason_str(refusal.reason), refusal.version_min, refusal.version);
        return;
    }
    conn->nobody_there =
        conn->ctx->device.iwarp ? ev->status == -ECONNREFUSED : ev->status == CM_REJECT_NOBODY;
    vbn_conn_fail(conn, VBN_EV_REJECTED, "rejected by its connection manager, code %d", ev->status);
}

static void dispatch(vbn_context_t *ctx, const struct cm_event *ev)
{
    struct vbn_conn *conn = ev->id->context;

    if (!conn && ev->type != RDMA_CM_EVENT_CONNECT_REQUEST &&
        ev->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
        return; /* of a request that is left unanswered */
    if (ctx->device.iwarp && conn) {
        conn->calls = false;
        ctx->slow_work = true;
    }
    switch (ev->type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        take_request(ctx, ev);
        break;
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        vbn_conn_event(conn, VBN_EV_ADDR_OK);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        vbn_conn_event(conn, VBN_EV_ROUTE_OK);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        answered(conn, ev, VBN_EV_ANSWER);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        answered(conn, ev, VBN_EV_ESTABLISHED);
        break;
    case RDMA_CM_EVENT_REJECTED:
        rejected(conn, ev);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        vbn_conn_fail(conn, VBN_EV_GONE, "the peer disconnected");
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        vbn_context_fault(ctx, "the device was removed");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
        vbn_conn_fail(conn, VBN_EV_CM_ERROR, "%s (%d)", rdma_event_str(ev->type), ev->status);
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
        vbn_conn_fail(conn, conn->active ? VBN_EV_CM_ERROR : VBN_EV_UNHEARD, "%s (%d)",
                      rdma_event_str(ev->type), ev->status);
        break;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
        vbn_group_joined(ev->id->context, &ev->ud, 0);
        break;
    case RDMA_CM_EVENT_MULTICAST_ERROR:
        vbn_group_joined(ev->id->context, NULL, -ev->status);
        break;
    default:
        break; /* TIMEWAIT_EXIT and ADDR_CHANGE say nothing that we act upon */
    }
}

int vbn_cm_poll(vbn_context_t *ctx)
{
    struct rdma_cm_event *event;
    int n = 0;

    while (n < EVENTS_A_LOOK && rdma_get_cm_event(ctx->cm.channel, &event) == 0) {
        struct cm_event ev = {.type = event->event, .status = event->status, .id = event->id};

        if (ev.type == RDMA_CM_EVENT_MULTICAST_JOIN) {
            ev.ud = event->param.ud;
        } else if (event->param.conn.private_data) {
            ev.data_len = vbn_min(event->param.conn.private_data_len, sizeof(ev.data));
            memcpy(ev.data, event->param.conn.private_data, ev.data_len);
        }
        ev.read_in = event->param.conn.responder_resources;
        ev.read_out = event->param.conn.initiator_depth;
        rdma_ack_cm_event(event);
        dispatch(ctx, &ev);
        n++;
    }
    return n;
}

/* --- set-up
 * ---------------------------------------------------------------------------------------------------
 */

/* librdmacm says little about why it has no channel: the device list and the file tell more. */
VBN_COLD static int explain_no_channel(struct vbn_error *err, int cause)
{
    static const char path[] = "/dev/infiniband/rdma_cm";
    int rc = vbn_device_any(err);

    if (rc)
        return rc;
    if (access(path, R_OK | W_OK) == 0)
        return vbn_error_set(err, VBN_ERR_DEVICE, "rdma_cm cannot be used (%s); see dmesg",
                             strerror(cause));
    if (errno == EACCES)
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "%s: no permission to open it; join the group that owns it, or "
                             "`chmod 666 %s /dev/infiniband/uverbs*`",
                             path, path);
    return vbn_error_set(err, VBN_ERR_DEVICE, "%s: %s; `modprobe rdma_ucm`", path, strerror(errno));
}

int vbn_cm_open(vbn_context_t *ctx, struct vbn_error *err)
{
    ctx->cm.channel = rdma_create_event_channel();
    if (!ctx->cm.channel)
        return explain_no_channel(err, errno);
    if (fcntl(ctx->cm.channel->fd, F_SETFL, fcntl(ctx->cm.channel->fd, F_GETFL) | O_NONBLOCK))
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "rdma_cm's channel cannot be made nonblocking (%s)", strerror(errno));
    return VBN_OK;
}

static int listen_on(vbn_context_t *ctx, const struct vbn_netif *netif)
{
    struct vbn_cm *cm = &ctx->cm;
    union vbn_sockaddr addr = netif->addr;
    struct rdma_cm_id *id;

    if (rdma_create_id(cm->channel, &id, NULL, RDMA_PS_TCP))
        return errno;
    if (rdma_bind_addr(id, &addr.sa) || rdma_listen(id, BACKLOG)) {
        int rc = errno;

        rdma_destroy_id(id);
        return rc;
    }
    cm->port[cm->listener_count] = ntohs(rdma_get_src_port(id));
    cm->listener[cm->listener_count++] = id;
    return 0;
}

int vbn_cm_listen(vbn_context_t *ctx, struct vbn_error *err)
{
    const struct vbn_device *dev = &ctx->device;
    char text[INET6_ADDRSTRLEN];

    for (unsigned i = 0; i < dev->addr_count; i++) {
        int rc = listen_on(ctx, &dev->addrs[i]);

        if (rc)
            return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: cannot listen on %s (%s)",
                                 dev->name, vbn_netif_text(&dev->addrs[i].addr, text, sizeof(text)),
                                 strerror(rc));
    }
    return VBN_OK;
}

void vbn_cm_unlisten(vbn_context_t *ctx)
{
    while (ctx->cm.listener_count)
        rdma_destroy_id(ctx->cm.listener[--ctx->cm.listener_count]);
}

void vbn_cm_fini(vbn_context_t *ctx)
{
    vbn_cm_unlisten(ctx);
    while (!SLIST_EMPTY(&ctx->cm.unanswered))
        let_go(&ctx->cm, SLIST_FIRST(&ctx->cm.unanswered));
    if (ctx->cm.channel)
        rdma_destroy_event_channel(ctx->cm.channel);
}
