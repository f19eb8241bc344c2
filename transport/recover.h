/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery: what an endpoint does between the end of one connection and the next.
 *
 * Operation. A connection that fails is drained to its last completion; until then it stays its
 * endpoint's. Then both sides try to connect again, with pauses that grow with the outage. Each
 * side's private data name the next message that it expects, which is final: a side asks, or
 * answers, only when its old queue pair is dead and drained. What the peer has got is over; the
 * rest goes back to the head of the queue, in the old order and with the old numbers. So nothing is
 * lost, and nothing comes twice.
 * On iWARP who has accepted may not speak before the peer has, and does not know till then whether
 * his answer has arrived: recovery goes on until that first word, and a connection that fails
 * before it was one more attempt.
 * Puts and gets are posted again as long as nobody has been called back for them. A put that went
 * before a message that has arrived is done, for queue pairs execute in order, and is not repeated:
 * the peer may use the memory for something else by now.
 * Errors. When the deadline passes, or nobody listens at the peer's address any more, the endpoint
 * fails. A put or get that the peer's device denies twice ends alone: a process that dies denies
 * once, too, for its memory goes before its queue pairs.
 */
#ifndef VBN_RECOVER_H
#define VBN_RECOVER_H

#include "verbena.h"

#include <stdbool.h>
#include <stdint.h>

struct vbn_conn;
struct vbn_timer;

/* Whether EP, should it lose CONN, will look for another connection, unless it has for too long. */
bool vbn_recover_may_begin(const vbn_endpoint_t *ep, const struct vbn_conn *conn);

/* EP has lost CONN, which is drained. False: that is the end, nothing was done. */
bool vbn_recover_begin(vbn_endpoint_t *ep, struct vbn_conn *conn);

/* An attempt of EP, which recovers, has failed: tries again in a while, or ends EP. */
void vbn_recover_attempt_failed(vbn_endpoint_t *ep, struct vbn_conn *conn);

/* EP has CONN now, which may be its first: what the peer has not got goes to the head of the queue.
 */
void vbn_recover_resume(vbn_endpoint_t *ep, struct vbn_conn *conn);

/* The port works again, or its addresses are others: who waits for that tries now. ADDRESSES are as
 * vbn_device_addresses_since() says: where one is gone others may follow, and he waits a moment. */
void vbn_recover_look_again(vbn_context_t *ctx, int addresses);

/* EP has no connection, and only the peer can ask: it ends if that does not happen in time. */
void vbn_recover_wait_for_peer(vbn_endpoint_t *ep);

/* The time to wait for the next attempt is over: for the endpoint's timer. */
void vbn_recover_wait_over(struct vbn_timer *timer);

/* ms that an attempt of EP may take until another one is more promising. 0: as long as rdma_cm has
 * patience. */
uint64_t vbn_recover_attempt_ms(const vbn_endpoint_t *ep);

/* ms that the peer may take to speak, on iWARP, on what will then be EP's next connection. 0: EP
 * has lost none. */
uint64_t vbn_recover_word_ms(const vbn_endpoint_t *ep);

#endif
