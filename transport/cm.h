/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one owner of the rdma_cm event channel: listens, takes events, acknowledges each before it is
 * acted upon, and turns it into an event of the connection it is for.
 */
#ifndef VBN_CM_H
#define VBN_CM_H

#include "conn.h"

struct rdma_event_channel;
struct vbn_unanswered;

struct vbn_cm {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener[VBN_WIRE_ADDRS_MAX];
    unsigned listener_count;
    uint16_t port[VBN_WIRE_ADDRS_MAX]; /* that each listener got, host order */
    SLIST_HEAD(, vbn_unanswered) unanswered;
};

/* The channel first: choosing a device needs it. */
int vbn_cm_open(vbn_context_t *ctx, struct vbn_error *err);

/* Listens on every address of the device. */
int vbn_cm_listen(vbn_context_t *ctx, struct vbn_error *err);

/* Takes events that wait, no more than some; returns how many. */
int vbn_cm_poll(vbn_context_t *ctx);

/*
 * Whether the connection manager can send anything for ID. What cannot leave may be the last that a
 * device takes of it (doc/behaviours.md, i): so it waits for the link and its address.
 */
bool vbn_cm_may_speak(vbn_context_t *ctx, struct rdma_cm_id *id);

/* Requests that came when nothing could be said to them: lets those go that can be answered now,
 * and returns how many are left. */
size_t vbn_cm_reap(vbn_context_t *ctx);

/* Stops listening: peers that come now are told that nobody is there. */
void vbn_cm_unlisten(vbn_context_t *ctx);
void vbn_cm_fini(vbn_context_t *ctx);

/* What we say of ourselves in a request or an answer on CONN. */
struct vbn_wire_hello vbn_cm_hello(const struct vbn_conn *conn, uint8_t version,
                                   uint8_t version_min);

#endif
