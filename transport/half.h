/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half of a connection that is made without rdma_cm: a queue pair with its receives, ready for one
 * peer, whom its blob reaches by whatever way the caller has. With the peer's blob it becomes a
 * connection like any other.
 *
 * Operation. vbn_half_create() makes a connection in the state HALF that belongs to no endpoint
 * (ctx->nobody); vbn_half_join() checks the peer's blob, moves the queue pair, and gives the
 * connection to the peer's endpoint. What rdma_cm would do otherwise is not done by anybody: see
 * act_disconnect() (nobody tells the end) and probe_peers() (so somebody asks).
 * Ownership. The half is the caller's until a join succeeds, or vbn_half_destroy(); the connection
 * is the context's, and may fail before: then the half has none.
 */
#ifndef VBN_HALF_H
#define VBN_HALF_H

#include "conn.h"
#include "path.h"

struct vbn_half {
    vbn_context_t *ctx;
    struct vbn_conn *conn; /* NULL: it has left the state HALF */
    struct vbn_path path;
    uint32_t psn; /* of its first packet */
    LIST_ENTRY(vbn_half) entry;
};

/* Its connection leaves the state HALF. */
void vbn_half_over(struct vbn_half *half);

/* The context closes: ends the connections of all halves; later frees the halves. */
void vbn_halves_shut(vbn_context_t *ctx);
void vbn_halves_fini(vbn_context_t *ctx);

#endif
