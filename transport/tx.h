/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending side: the queue of requests that puts and gets (rma.c) share, messages, control
 * messages.
 *
 * Operation. A request (vbn_tx) joins its endpoint's queue; vbn_tx_pump() posts from the head as
 * long as the connection, its credits and its send queue allow, in the caller's order. Where
 * nothing is in the way it is posted at once. Buffer ownership. A message is kept by up to three
 * holders, counted in `refs`: the caller, until vbn_msg_put(); the endpoint, from vbn_msg_send()
 * until the peer acknowledged it; the send queue, from posting until its completion (not for what
 * was sent inline, which the device copied). It goes back to the pool when the last lets go.
 * Errors. A failed request means a failed queue pair: the connection is told, and its end ends the
 * requests.
 */
#ifndef VBN_TX_H
#define VBN_TX_H

#include "pool.h"
#include "wire.h"

struct vbn_conn;
struct vbn_rider;

/* One work request on a send queue. Every request that has a completion embeds one. */
struct vbn_wr {
    struct vbn_comp comp; /* first: wr_id points here */
    struct vbn_conn *conn;
    uint32_t slot;  /* position in the send queue's ring */
    uint32_t first; /* slot of the first unsignaled request that its completion ends too */
    void (*retired)(struct vbn_wr *wr, int status);
};

/* Sets what happens when WR's slot is freed. */
void vbn_wr_init(struct vbn_wr *wr, void (*retired)(struct vbn_wr *wr, int status));

/* What waits in an endpoint's queue. */
struct vbn_tx {
    struct vbn_pool_obj obj;
    STAILQ_ENTRY(vbn_tx) entry; /* in the endpoint's queue, then in its list of unacknowledged */
    struct vbn_wr wr;
    vbn_endpoint_t *ep;
    bool waiting; /* in the queue, not posted */
    enum { VBN_TX_AM, VBN_TX_PUT, VBN_TX_GET } kind;
};
STAILQ_HEAD(vbn_tx_list, vbn_tx);

struct vbn_msg {
    struct vbn_tx tx; /* first */
    uint32_t len;     /* bytes of payload */
    uint32_t seq;
    uint8_t type, id; /* of the wire header */
    uint8_t refs;
    bool lazy; /* posted unsignaled from the buffer: some later completion frees it */
    _Alignas(16) char priv[];
};

/* Control messages have no buffer of the pools: each connection has one, one in flight at a time.
 */
struct vbn_ctl {
    struct vbn_pool_obj obj;
    struct vbn_wr wr;
    bool busy;
};

int vbn_tx_init(vbn_context_t *ctx, struct vbn_error *err);
void vbn_tx_fini(vbn_context_t *ctx);

/*
 * A message of LEN bytes to EP, to be filled at vbn_tx_payload() and handed over by vbn_tx_send(),
 * as long as EP is not over. Errors as vbn_am_send().
 */
int vbn_tx_get(vbn_endpoint_t *ep, size_t len, struct vbn_msg **msg);
void vbn_tx_send(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len);

/* Posts a tagged message that fits one, HEAD and its DATA, at once, while EP takes new work;
 * VBN_ERR_AGAIN where it would have to wait. */
int vbn_tx_send_whole(vbn_endpoint_t *ep, const struct vbn_wire_tag *head, const void *data);

static inline void *vbn_tx_payload(const struct vbn_msg *msg)
{
    return (char *)msg->tx.obj.buf + sizeof(struct vbn_wire_hdr);
}

/* A message to EP would be posted at once. */
bool vbn_tx_may_send(const vbn_endpoint_t *ep);

/* A put to EP, and a message behind it, too. */
bool vbn_tx_may_put(const vbn_endpoint_t *ep);

/* Posts the put TX of LEN bytes with RIDER's message on it. False: it cannot ride. */
bool vbn_tx_ride(vbn_endpoint_t *ep, struct vbn_tx *tx, size_t len, const struct vbn_rider *rider);

/* MSG is a message of that type, id and length, to be sent later. */
void vbn_tx_set(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len);

/* Posts TX at once where nothing is in its way, else queues it and sees to a connection. */
void vbn_tx_submit(vbn_endpoint_t *ep, struct vbn_tx *tx);

/* Posts what can be posted of EP's queue. */
void vbn_tx_pump(vbn_endpoint_t *ep);

/* Sends an acknowledgement (or a farewell) on CONN; false: not now. The second does not by a last
 * credit that would bring the peer none (flow.h), for what is not a grant that is due. */
bool vbn_tx_control(struct vbn_conn *conn, uint8_t wire_type);
bool vbn_tx_ack(struct vbn_conn *conn);

/* The endpoint's hold on what the peer has got ends. */
void vbn_tx_forget_acked(vbn_endpoint_t *ep);

/* What EP has posted and the peer has not got goes to the head of the queue, in the order in which
 * it was posted. Nothing of EP is on a send queue. */
void vbn_tx_requeue(vbn_endpoint_t *ep);

/* As vbn_tx_send(), behind what has been put to its endpoint; drops MSG where that is over. */
void vbn_tx_send_behind(struct vbn_msg *msg, uint8_t wire_type, uint8_t id, size_t len);

/* MSG, which was got, is not sent. */
void vbn_tx_drop(struct vbn_msg *msg);

/* Ends every request of EP that is not on a send queue with STATUS. */
void vbn_tx_abort(vbn_endpoint_t *ep, int status);

#endif
