/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A storm of openings and closings: ranks connect, talk a little, close endpoints, close their
 * whole context and open a new one, while others are connecting to the old.
 *
 * A context's life is numbered. What must hold: a message arrives in the life it was sent to,
 * once, in the order of its sender's life; nothing is misused or leaked; every close ends, every
 * endpoint that cannot be reached says so, within bounded time.
 */
#include "loads.h"

#include <stdlib.h>
#include <string.h>

enum { AM_STORM = 3, LIVES_MOST = 24, STORM_MS = 300, CLOSE_LIMIT_MS = 20000, BODY_MOST = 600 };

struct header {
    uint32_t src, src_life, dst, dst_life, seq, len;
};

/* What a life knows of a peer slot. */
struct peer {
    vbn_endpoint_t *ep;
    uint32_t life;   /* of the peer that ep leads to */
    uint32_t closed; /* the life to which ep was closed, plus one; it is not opened again */
    uint32_t sent;
    uint32_t received[LIVES_MOST];
};

struct slot {
    struct world *world;
    struct world_rank *rank;
    uint32_t life;
    struct peer *peers;
    uint64_t shut_since_ns; /* closing; 0: not */
    uint64_t reopen_at_ns;
};

static struct slot *slots;
static bool is_over; /* no new lives */

static uint64_t body_key(const struct header *h)
{
    return (uint64_t)h->src << 40 ^ (uint64_t)h->src_life << 32 ^ (uint64_t)h->dst << 24 ^ h->seq;
}

static void on_message(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct slot *slot = arg;
    struct world *world = slot->world;
    struct header h = {0};
    (void)ep;
    (void)id;
    memcpy(&h, data, len < sizeof(h) ? len : sizeof(h));
    if (len < sizeof(h) || h.len != len || (int)h.src >= world->count || h.src_life >= LIVES_MOST) {
        world_fail(world, "rank %d: a message that nobody sent", slot->rank->number);
        return;
    }
    if ((int)h.dst != slot->rank->number || h.dst_life != slot->life)
        world_fail(world, "rank %d in its life %u got a message for rank %u in life %u",
                   slot->rank->number, slot->life, h.dst, h.dst_life);
    uint32_t *received = &slot->peers[h.src].received[h.src_life];
    if (h.seq != *received)
        world_fail(world, "rank %d: message %u of rank %u, life %u, arrived; %u was expected",
                   slot->rank->number, h.seq, h.src, h.src_life, *received);
    *received = h.seq + 1;
    if (!world_pattern_check((char *)data + sizeof(h), len - sizeof(h), body_key(&h)))
        world_fail(world, "rank %d: a message of rank %u arrived changed", slot->rank->number,
                   h.src);
    fabric_trace_mark("storm message", h.src, h.seq);
}

static void life_begin(struct slot *slot)
{
    memset(slot->peers, 0, (size_t)slot->world->count * sizeof(*slot->peers));
    fabric_enter(slot->rank->rank);
    vbn_am_handler(slot->rank->ctx, AM_STORM, on_message, slot);
}

/* ---- what a rank does in its turn ---- */

static void send_some(struct slot *slot, int number)
{
    struct peer *peer = &slot->peers[number];
    static unsigned char body[BODY_MOST];
    struct header h = {.src = (uint32_t)slot->rank->number,
                       .src_life = slot->life,
                       .dst = (uint32_t)number,
                       .dst_life = peer->life,
                       .seq = peer->sent};
    size_t len = fabric_random(BODY_MOST + 1);
    h.len = (uint32_t)(sizeof(h) + len);
    world_pattern_fill(body, len, body_key(&h));
    struct iovec iov[2] = {{&h, sizeof(h)}, {body, len}};
    if (vbn_am_send(peer->ep, AM_STORM, iov, 2) == VBN_OK)
        peer->sent++;
}

/* The address may be of a life that has ended: then the endpoint must say so in time. */
static void endpoint_take(struct slot *slot, int number)
{
    struct peer *peer = &slot->peers[number];
    const struct slot *other = &slots[number];
    if ((peer->ep && peer->life == other->life) || peer->closed == other->life + 1)
        return;
    if (peer->ep)
        vbn_endpoint_close(peer->ep);
    peer->ep = NULL;
    peer->life = other->life;
    peer->sent = 0;
    vbn_endpoint_t *ep = NULL;
    if (vbn_endpoint_create(slot->rank->ctx, other->rank->address, other->rank->address_len, NULL,
                            &ep, NULL) == VBN_OK)
        peer->ep = ep;
}

static void play(struct slot *slot)
{
    struct world *world = slot->world;
    int number = (int)fabric_random((uint64_t)world->count - 1);
    number += number >= slot->rank->number;
    struct peer *peer = &slot->peers[number];
    endpoint_take(slot, number);
    if (!peer->ep)
        return;
    switch (fabric_random(12)) {
    case 0:
        vbn_endpoint_connect(peer->ep);
        break;
    case 1:
        if (fabric_random(8) == 0) {
            vbn_endpoint_close(peer->ep);
            peer->ep = NULL;
            peer->closed = peer->life + 1;
        }
        break;
    default:
        send_some(slot, number);
        break;
    }
}

static void closing_goes_on(struct slot *slot)
{
    if (vbn_shutdown(slot->rank->ctx) > 0 &&
        fabric_now_ns() - slot->shut_since_ns < CLOSE_LIMIT_MS * 1000000ull)
        return;
    world_rank_close(slot->world, slot->rank);
    slot->shut_since_ns = 0;
    slot->reopen_at_ns = fabric_now_ns() + fabric_random(3000000);
}

static void work(struct world *world, struct world_rank *rank)
{
    struct slot *slot = rank->user;
    (void)world;
    if (slot->shut_since_ns) {
        closing_goes_on(slot);
    } else if (!is_over && fabric_random(300) == 0) {
        slot->shut_since_ns = fabric_now_ns() + 1;
    } else if (!is_over && fabric_random(3)) {
        play(slot);
    }
}

static void reopen_some(struct world *world)
{
    for (int i = 0; i < world->count && !is_over; i++) {
        struct slot *slot = &slots[i];
        if (slot->rank->ctx || slot->life + 1 >= LIVES_MOST ||
            fabric_now_ns() < slot->reopen_at_ns || !fabric_node_is_up(slot->rank->node))
            continue;
        if (!world_rank_open(world, slot->rank))
            return;
        slot->life++;
        life_begin(slot);
    }
}

void load_storm(struct world *world)
{
    slots = calloc((size_t)world->count, sizeof(*slots));
    is_over = false;
    world->reopens = true;
    for (int i = 0; i < world->count; i++) {
        struct slot *slot = &slots[i];
        slot->world = world;
        slot->rank = &world->ranks[i];
        slot->rank->user = slot;
        slot->peers = calloc((size_t)world->count, sizeof(*slot->peers));
        life_begin(slot);
    }
    uint64_t end_ns = fabric_now_ns() + (1 + fabric_random(STORM_MS)) * 1000000;
    for (uint64_t turns = 300 + fabric_random(1500);
         turns > 0 && fabric_now_ns() < end_ns && !world->failed; turns--) {
        reopen_some(world);
        world_turn(world, work);
    }
    is_over = true;
    world_calm(world);
}

void load_storm_end(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        free(slots[i].peers);
    free(slots);
    slots = NULL;
}
