/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns: who talks to all peers at once asks few of them for connections at a time, and the others
 * as those are made. Each rank begins with another peer, mostly, and each connection serves both:
 * so most of those who wait are connected by their peer's request, and the two of a pair seldom ask
 * one another for the same one.
 */
#ifndef VBN_TURNS_H
#define VBN_TURNS_H

#include "timer.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct vbn_context;
struct vbn_endpoint;

struct vbn_turns {
    TAILQ_HEAD(, vbn_endpoint) waiting;
    uint32_t asking; /* attempts of this side under way */
    uint32_t most;   /* as many may be: more with each that is made */
    struct vbn_timer timer;
};

void vbn_turns_init(struct vbn_context *ctx);

/* Whether EP may be asked now. If not, its attempt starts when its turn has come. */
bool vbn_turn_has_come(struct vbn_endpoint *ep);

/* EP waits no longer, if it did. */
void vbn_turn_leave(struct vbn_endpoint *ep);

/* An attempt of this side begins; it has ended, and a connection was MADE or not. */
void vbn_turn_begins(struct vbn_context *ctx);
void vbn_turn_ends(struct vbn_context *ctx, bool made);

/* Starts the attempts whose turn has come. */
void vbn_turns_take(struct vbn_context *ctx);

#endif
