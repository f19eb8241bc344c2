/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare messages: what fills whole packets leaves without its head.
 *
 * The header, and what the caller has put before its data (MPI's envelope, a tag), are a few bytes;
 * but behind data that fill whole packets they take one more, on soft-RoCE for as long as a full
 * one. Mostly they are those of an earlier message, but for one word that counts.
 *
 * Operation. Each side of a connection keeps the first bytes of the last long messages that went
 * whole, the sender as posted, the receiver as taken, so that both have the same. A message that is
 * like one of them but for one word is sent from where its last whole packets begin; the rest is
 * told in its immediate data (struct vbn_wire_bare). The receiver puts the head back in front of
 * what came, in room that every receive buffer has, and goes on as with any other. Its number, the
 * acknowledgement and the credits are what they would have been; where the immediate data cannot
 * say so, it goes whole. Repeated over another connection it goes whole, too.
 * Ownership. A connection's, and gone with it. iWARP has no sends with immediate data.
 * Errors. What no head is known for, or has another number, ends the connection (rx.c).
 * Source. Header caching, as MVAPICH's RDMA fast path has it; which messages gain, packets decide.
 */
#ifndef VBN_BARE_H
#define VBN_BARE_H

#include "base.h"
#include "wire.h"

struct vbn_conn;
struct vbn_msg;

/* The head of a long message that went whole. */
struct vbn_bare_head {
    uint32_t len; /* 0: none is kept here */
    uint8_t type, id;
    unsigned char bytes[VBN_BARE_HEAD]; /* of payload */
};

struct vbn_bare_heads {
    struct vbn_bare_head kept[VBN_BARE_HEADS];
    uint32_t next; /* that is replaced next */
};

struct vbn_bare {
    struct vbn_bare_heads out, in;
    struct ibv_send_wr send; /* the request, but for its flags, its bytes and whom it tells */
    uint32_t packet;         /* bytes of data in a packet; 0: nothing leaves bare */
};

/* CONN is established, and its wire version known. */
void vbn_bare_init(struct vbn_conn *conn);

/* How many bytes MSG, a long one that CONN is to post next, leaves out at its front,
 * conn->bare.send telling the rest. 0: it goes whole, and its head is kept. */
uint32_t vbn_bare_cut(struct vbn_conn *conn, const struct vbn_msg *msg);

/* What immediate data tell of a header: by how much its acknowledgement and its grant are above
 * those last told, where that is one number that fits. False: it is not. */
bool vbn_bare_news(const struct vbn_conn *conn, uint8_t *news);

/* The header of which SEQ and NEWS were told: its credits, number and acknowledgement. */
struct vbn_wire_hdr vbn_bare_hdr(const struct vbn_conn *conn, uint8_t seq, uint8_t news);

/* The message HDR with PAYLOAD, a long one, has come whole, or goes so. */
void vbn_bare_keep(struct vbn_bare_heads *heads, const struct vbn_wire_hdr *hdr,
                   const void *payload);

/* A bare message of LEN bytes has come to DATA, and IMM with it: puts its head before it, up to
 * VBN_BARE_ROOM bytes. Returns how many, or 0: nothing can be made of it. */
uint32_t vbn_bare_restore(const struct vbn_conn *conn, uint32_t imm, void *data, uint32_t len);

#endif
