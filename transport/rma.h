/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets. A request belongs to its endpoint from the call until the caller's function has
 * been called, which happens once, from vbn_progress() or vbn_close() only.
 *
 * On iWARP a write has completed when the stream has taken it, not when it is there (RFC 5040,
 * 5.4): a put has a mark behind it (VBN_WIRE_MARK), and ends when the peer has acknowledged that.
 */
#ifndef VBN_RMA_H
#define VBN_RMA_H

#include "rider.h"
#include "tx.h"

struct vbn_rma {
    struct vbn_tx tx; /* first */
    uint64_t local, remote;
    uint32_t lkey, rkey, len;
    uint32_t seq; /* of the next message when it was posted: that one came behind it */
    uint8_t failures;
    bool denied; /* once, by the peer's device */
    int status;
    vbn_done_fn done;
    void *arg;
};

void vbn_rma_init(vbn_context_t *ctx);
void vbn_rma_fini(vbn_context_t *ctx);

/* vbn_put() or vbn_get(), as KIND (VBN_TX_PUT, VBN_TX_GET) says, with the lock held, and also while
 * EP is closing. */
int vbn_rma_start(vbn_endpoint_t *ep, int kind, void *local, const vbn_mem_t *mem, uint64_t remote,
                  uint32_t rkey, size_t len, vbn_done_fn done, void *arg);

/* A put, as vbn_rma_start(), with RIDER's message behind it, or on it. An error: RIDER is the
 * caller's still. */
int vbn_rma_put_told(vbn_endpoint_t *ep, void *local, const vbn_mem_t *mem, uint64_t remote,
                     uint32_t rkey, size_t len, vbn_done_fn done, void *arg,
                     const struct vbn_rider *rider);

/* Posts the put or get TX on CONN, a put with IMM unless that is NULL. False: the connection
 * failed, TX is not taken. */
bool vbn_rma_post(struct vbn_conn *conn, struct vbn_tx *tx, const uint32_t *imm);

/* TX has left the send queue, and is a put that has arrived, whatever has become of its request:
 * the peer has acknowledged a message behind it. */
bool vbn_rma_has_arrived(const struct vbn_tx *tx);

/* More has been acknowledged: those at the head of ep->retired that have arrived end. */
void vbn_rma_acked(vbn_endpoint_t *ep);

/* EP has lost CONN, nothing is on its send queue: perhaps of a put or get of EP's. */
void vbn_rma_conn_lost(vbn_endpoint_t *ep, struct vbn_conn *conn);

/* Ends TX, which is on no send queue, with STATUS: its caller hears at the next progress. */
void vbn_rma_abort(struct vbn_tx *tx, int status);

/* The number of the first message that was posted behind the put or get TX. */
uint32_t vbn_rma_seq(const struct vbn_tx *tx);

/* Calls back for those. Returns how many. */
int vbn_rma_deliver_ended(vbn_context_t *ctx);

#endif
