/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One real context over the fakes, and its peers, which are played by the test: it makes what they
 * would send, and looks at what they would get.
 */
#ifndef VBN_TESTS_LONE_H
#define VBN_TESTS_LONE_H

#include "unit.h"
#include "fake.h"

#include "context.h"

#define LONE_UID 100 /* of the context; peers may be smaller or larger */

/* cmocka's fixture: a host with the device "fake0" and the address 10.0.0.1 on "eth0". */
int lone_setup(void **state);
int lone_teardown(void **state);
extern struct fake_device *lone_device;

/* Opens the context; TWEAK may be NULL. The window is 16, the queue 128 deep, one in 16 signaled.
 */
vbn_context_t *lone_open(void (*tweak)(struct vbn_options *opts));

/* Closes, by force where peers do not play along. */
void lone_close(vbn_context_t *ctx);

/* Progress until the slow side has looked, too. */
void lone_progress(vbn_context_t *ctx);

/* The same, time by time, until MS more have passed. */
void lone_pass(vbn_context_t *ctx, uint64_t ms);

/* The address blob of a peer at 10.0.0.2, parsed and to be changed, or written. */
struct vbn_wire_address lone_address(const vbn_context_t *ctx, uint64_t uid);
vbn_endpoint_t *lone_peer(vbn_context_t *ctx, uint64_t uid);

/* What the peer UID would put into its request or answer, granting lone_credits (16). */
extern uint16_t lone_credits;
struct vbn_wire_hello lone_hello(const vbn_context_t *ctx, uint64_t uid);

/* The peer's messages of the connection manager. */
struct rdma_cm_id *lone_request(vbn_context_t *ctx, const struct vbn_wire_hello *hello);
void lone_answer(struct vbn_conn *conn, const struct vbn_wire_hello *hello);
void lone_refuse(struct vbn_conn *conn, uint8_t reason);

/* ID is at the context's address, and no longer at none, as the fakes' are. */
void lone_at_home(struct rdma_cm_id *id);

/* An attempt of ours on its way up to STATE; connections established from either side. */
struct vbn_conn *lone_attempt(vbn_context_t *ctx, uint64_t uid, enum vbn_conn_state state);
struct vbn_conn *lone_connect(vbn_context_t *ctx, uint64_t uid);
struct vbn_conn *lone_connect_by(vbn_context_t *ctx, uint64_t uid, uint8_t wire_version);
struct vbn_conn *lone_accept(vbn_context_t *ctx, uint64_t uid);
struct vbn_conn *lone_accept_by(vbn_context_t *ctx, const struct vbn_wire_hello *hello);

/* Takes an attempt of ours that has just begun up to the end. */
void lone_establish(struct vbn_conn *conn);

/* The header that the peer of CONN would send next: everything received acknowledged. */
struct vbn_wire_hdr lone_hdr(const struct vbn_conn *conn, uint8_t type);

/* A message of the peer, HDR->len bytes of PAYLOAD (NULL: zeros), lies in the queue. */
void lone_queued(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr, const void *payload);

/* The same, taken before it returns. */
void lone_message(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr, const void *payload);
void lone_tagged(struct vbn_conn *conn, uint8_t kind, const void *payload, size_t len);
void lone_am(struct vbn_conn *conn, uint8_t id, const void *payload, size_t len);
void lone_ack(struct vbn_conn *conn);

/* The peer's word about rings: its own is at ADDR (0: withdrawn, or none), by its COUNTth change;
 * it goes by our last. */
void lone_ring_word(struct vbn_conn *conn, uint16_t count, uint64_t addr, uint32_t rkey);

/* The peer takes up the ring that CONN has offered. */
void lone_ring_heard(struct vbn_conn *conn);

/* The peer writes HDR and PAYLOAD (NULL: zeros) into our ring, sealed as the ORDERth message. */
void lone_ring_write(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr, const void *payload,
                     uint16_t order);

/* The next message of the peer, by the ring; taken before it returns. */
void lone_ring_am(struct vbn_conn *conn, uint8_t id, const void *payload, size_t len);

/* What CONN has posted: how much, and the Nth with its header read. */
unsigned lone_sent(const struct vbn_conn *conn);
const struct fake_send *lone_send_at(const struct vbn_conn *conn, unsigned n,
                                     struct vbn_wire_hdr *hdr);

/* CONN has posted COUNT; the last is an acknowledgement of all before ACK. */
void lone_acknowledged(const struct vbn_conn *conn, unsigned count, uint32_t ack);

/* The last that CONN has posted is a farewell. */
bool lone_said_bye(const struct vbn_conn *conn);

/* All signaled sends of CONN that are outstanding complete well. */
void lone_complete(struct vbn_conn *conn);

#endif
