/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counted credits: pure arithmetic, no object but its own numbers.
 *
 * Operation. Each side grants the other so many receive buffers, more of them where they are used
 * up quickly. A grant is told as the sum of all buffers ever granted on the connection (16 bits,
 * wrapping), so it may be repeated. Every message, whatever its type, takes one. The last credit is
 * kept for messages that carry only an acknowledgement, and grant two at least: who gets two gives
 * one back, by what waits for credits or by an acknowledgement of its own. So of two sides each can
 * always still give credits, and say farewell, also where messages keep their buffers meanwhile.
 * Errors. A peer that sends beyond its grant, or takes a grant back, breaks the protocol.
 */
#ifndef VBN_FLOW_H
#define VBN_FLOW_H

#include "wire.h"

struct vbn_flow {
    uint16_t tx_count, tx_grant; /* messages sent; the peer's grant */
    uint16_t rx_count, rx_told;  /* messages received; our grant as last told */
    uint16_t window;             /* receive buffers that we keep for the peer */
    uint16_t held;               /* of them, those that messages still lie in */
};

/* Both sides start from the grant in their private data. */
static inline void vbn_flow_init(struct vbn_flow *f, uint16_t window, uint16_t peer_window)
{
    *f = (struct vbn_flow){.tx_grant = peer_window, .rx_told = window, .window = window};
}

static inline uint16_t vbn_flow_credits(const struct vbn_flow *f)
{
    return (uint16_t)(f->tx_grant - f->tx_count);
}

static inline bool vbn_flow_may_send(const struct vbn_flow *f)
{
    return vbn_flow_credits(f) > 1;
}

static inline bool vbn_flow_may_ack(const struct vbn_flow *f)
{
    return vbn_flow_credits(f) > 0;
}

/* What the peer has left of its own, unless it is under way. */
static inline uint16_t vbn_flow_peer_credits(const struct vbn_flow *f)
{
    return (uint16_t)(f->rx_told - f->rx_count);
}

/* A message leaves: the grant that it carries. */
static inline uint16_t vbn_flow_sent(struct vbn_flow *f)
{
    f->tx_count++;
    f->rx_told = (uint16_t)(f->rx_count + f->window - f->held);
    return f->rx_told;
}

/* A message came, carrying GRANT. False: the peer broke the rules. */
static inline bool vbn_flow_received(struct vbn_flow *f, uint16_t grant)
{
    if (f->rx_count == f->rx_told)
        return false; /* beyond what it was granted */
    if ((uint16_t)(grant - f->tx_count) > VBN_WINDOW_MAX ||
        (uint16_t)(grant - f->tx_count) < vbn_flow_credits(f))
        return false;
    f->rx_count++;
    f->tx_grant = grant;
    return true;
}

/* Messages received that the peer has not been told of. */
static inline uint16_t vbn_flow_untold(const struct vbn_flow *f)
{
    return (uint16_t)(f->rx_count + f->window - f->held - f->rx_told);
}

/* It has no credit left, and could have some. */
static inline bool vbn_flow_peer_is_dry(const struct vbn_flow *f)
{
    return !vbn_flow_peer_credits(f) && vbn_flow_untold(f);
}

/* So many that the peer may soon run dry. */
static inline bool vbn_flow_ack_due(const struct vbn_flow *f)
{
    return vbn_flow_untold(f) >= f->window / 2;
}

/* A message that carries only an acknowledgement may leave: by the last credit only with a grant
 * that lets the peer give one back. */
static inline bool vbn_flow_may_tell(const struct vbn_flow *f)
{
    return vbn_flow_may_send(f) || (vbn_flow_may_ack(f) && vbn_flow_untold(f) >= 2);
}

#endif
