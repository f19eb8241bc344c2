/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers: peers that asked for a connection by themselves, whom the caller has not claimed and
 * who have said nothing yet. They are most often peers like any other, a moment before their first
 * message; but anybody who knows our port can be one. So the caller never hears of them, together
 * they hold a bounded part of what a context has, and nothing stays of one that is over.
 */
#ifndef VBN_STRANGER_H
#define VBN_STRANGER_H

#include "endpoint.h"

#define VBN_STRANGERS_MAX      256u   /* at a time, of a context */
#define VBN_STRANGER_CONNS_MAX 2u     /* connections of one, those that are ending included */
#define VBN_STRANGER_MS        10000u /* after which one makes way, where there is no room */

/* Neither has the caller asked for it, nor has it been heard. */
static inline bool vbn_stranger_is(const vbn_endpoint_t *ep)
{
    return !ep->claimed && ep->rx_next == 0;
}

/* A new endpoint for UID, who is a stranger. NULL: no room now, or no memory. */
vbn_endpoint_t *vbn_stranger_add(vbn_context_t *ctx, uint64_t uid);

/* EP is none of them any more, if it ever was. */
void vbn_stranger_remove(vbn_endpoint_t *ep);

/* True where EP, a peer like any other or a stranger, may have one connection more. */
bool vbn_stranger_may_connect(const vbn_endpoint_t *ep);

#endif
