/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random tagged messages between all ranks: every size from nothing to several rendezvous, receives
 * that name source and tag (and may tell where the message shall be), one of them, or neither,
 * posted early, late and too small, cancelled and probed for.
 *
 * A message's tag tells who sent it and which it is of its pair; its low bits, its class, repeat,
 * and wildcards ask for those. What must hold: every operation ends once; every message of a pair
 * without a failure is taken once, by the oldest receive that fits it, and no later message of the
 * pair is taken by a receive that fits it instead; contents and lengths are right, and a buffer too
 * small has the message's start.
 */
#include "loads.h"

#include "context.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLASSES = 4,
    CLASS_BITS = 2,
    SRC_BITS = 10,
    SLOTS = 24,
    BUF_BYTES = 40000,
    GUARD_BYTES = 16,
    GUARD = 0xa5,
};

/* What was sent on one pair, in order. */
struct sent {
    uint64_t tag;
    size_t len;
    bool taken;
    uint64_t by_post, by_tag, by_mask; /* the receive that took it */
};

struct slot {
    struct vbn_op op;
    struct node *node;
    bool busy, is_send;
    int peer; /* receive: from whom, or -1 */
    uint64_t tag, mask, post;
    size_t cap;
    unsigned char *buf;
};

struct peer {
    vbn_endpoint_t *ep;
    bool ended;
    struct sent *log;
    uint32_t count;
};

struct node {
    struct world *world;
    struct world_rank *rank;
    struct peer *peers;
    struct slot slots[SLOTS];
    unsigned char *arena;
    vbn_mem_t *arena_mem; /* lent to the transport, in half of the ranks */
    uint32_t to_send, out;
    uint64_t posts;
    bool draining, saw_stranger_end;
};

static struct node *nodes;
static int hostile_node;

static bool is_hostile(const struct world_rank *rank)
{
    return rank->node == hostile_node;
}

static bool anybody_hostile(void)
{
    return hostile_node >= 0;
}

static uint64_t class_of(int src, int dst, uint32_t seq)
{
    return (seq * 7u + seq / 3u + (uint32_t)(src + dst)) % CLASSES;
}

static uint64_t tag_of(int src, int dst, uint32_t seq)
{
    return class_of(src, dst, seq) | (uint64_t)src << CLASS_BITS |
           (uint64_t)seq << (CLASS_BITS + SRC_BITS);
}

static uint64_t key_of(uint64_t tag, int dst)
{
    return tag * 1000003 + (uint64_t)dst;
}

static int number_of(const struct node *node)
{
    return node->rank->number;
}

/* ---- what ends ---- */

static void check_guard(const struct slot *slot)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        if (slot->buf[slot->cap + (size_t)i] != GUARD)
            world_fail(slot->node->world, "rank %d: a receive wrote beyond its buffer",
                       number_of(slot->node));
}

/* Receives for which nothing is left end when the contexts close. */
static bool tolerable(const struct node *node, const struct slot *slot, int status)
{
    if (!slot->is_send &&
        (status == VBN_ERR_CANCELED || (node->draining && status == VBN_ERR_CLOSED)))
        return true;
    return !world_is_sound(node->world);
}

static void message_taken(struct node *node, struct slot *slot)
{
    struct world *world = node->world;
    const struct vbn_op *op = &slot->op;
    int src = (int)(op->tag >> CLASS_BITS & ((1 << SRC_BITS) - 1));
    uint32_t seq = (uint32_t)(op->tag >> (CLASS_BITS + SRC_BITS));
    size_t have = op->len < slot->cap ? op->len : slot->cap;

    if (anybody_hostile() &&
        (src >= world->count || is_hostile(&world->ranks[src]) || is_hostile(node->rank) ||
         seq >= nodes[src].peers[number_of(node)].count))
        return; /* garbled on its way, or the sender was told that it had arrived */
    if (src >= world->count || seq >= nodes[src].peers[number_of(node)].count) {
        world_fail(world, "rank %d: a message %llx that nobody sent", number_of(node),
                   (unsigned long long)op->tag);
        return;
    }
    struct sent *sent = &nodes[src].peers[number_of(node)].log[seq];
    if (sent->taken)
        world_fail(world, "rank %d: message %u of rank %d is taken twice", number_of(node), seq,
                   src);
    if (sent->len != op->len || (op->status == VBN_OK) != (op->len <= slot->cap))
        world_fail(world, "rank %d: message %u of rank %d, %zu bytes, arrives with %zu, status %d",
                   number_of(node), seq, src, sent->len, op->len, op->status);
    if (((op->tag ^ slot->tag) & slot->mask) || (slot->peer >= 0 && slot->peer != src))
        world_fail(world, "rank %d: a receive took what it did not ask for", number_of(node));
    if (!world_pattern_check(slot->buf, have, key_of(sent->tag, number_of(node))))
        world_fail(world, "rank %d: message %u of rank %d arrived changed", number_of(node), seq,
                   src);
    sent->taken = true;
    sent->by_post = slot->post;
    sent->by_tag = slot->tag;
    sent->by_mask = slot->mask;
}

static void slot_over(struct slot *slot)
{
    struct node *node = slot->node;
    int status = slot->op.status;

    if (!slot->busy)
        world_fail(node->world, "rank %d: an operation ended twice", number_of(node));
    slot->busy = false;
    node->out--;
    fabric_trace_mark(slot->is_send ? "sent" : "received", (uint64_t)number_of(node),
                      (uint64_t)-status);
    if (!slot->is_send)
        check_guard(slot);
    if (!slot->is_send && (status == VBN_OK || status == VBN_ERR_TRUNCATED))
        message_taken(node, slot);
    else if (status != VBN_OK && !tolerable(node, slot, status))
        world_fail(node->world, "rank %d: a tagged %s ended without a fault: %s", number_of(node),
                   slot->is_send ? "send" : "receive", vbn_status_str(status));
}

static void on_done(struct vbn_op *op)
{
    slot_over(op->arg);
}

static void on_endpoint_error(struct world_rank *rank, vbn_endpoint_t *ep, int status)
{
    struct node *node = rank->user;
    struct peer *peer = vbn_endpoint_user(ep);

    if (world_is_sound(node->world))
        world_fail(node->world, "rank %d: an endpoint ended without a fault: %s", rank->number,
                   vbn_status_str(status));
    if (status == VBN_ERR_PEER_LOST && world_loses_nobody(node->world))
        world_fail(node->world, "rank %d: a peer that lives is said to be lost", number_of(node));
    if (status == VBN_ERR_PROTOCOL && !anybody_hostile())
        world_fail(node->world, "rank %d: a sound peer is said to break the protocol",
                   rank->number);
    if (peer)
        peer->ended = true;
    else
        node->saw_stranger_end = true;
}

/* ---- what begins ---- */

static struct slot *slot_get(struct node *node, bool is_send)
{
    /* A half each, so that neither kind starves the other. */
    int first = is_send ? 0 : SLOTS / 2;

    for (int i = first; i < first + SLOTS / 2; i++) {
        struct slot *slot = &node->slots[i];
        if (slot->busy)
            continue;
        slot->op = (struct vbn_op){.done = on_done, .arg = slot};
        slot->is_send = is_send;
        return slot;
    }
    return NULL;
}

static void started(struct slot *slot, int rc)
{
    struct node *node = slot->node;

    slot->busy = rc == VBN_PENDING || rc == VBN_OK;
    node->out += slot->busy;
    if (rc == VBN_OK)
        slot_over(slot);
    else if (rc != VBN_PENDING && world_is_sound(node->world))
        world_fail(node->world, "rank %d: a tagged operation is refused: %s", number_of(node),
                   vbn_status_str(rc));
}

static struct peer *peer_get(struct node *node, int number)
{
    struct peer *peer = &node->peers[number];

    if (!peer->ep && !peer->ended)
        peer->ep = world_endpoint(node->world, node->rank, &node->world->ranks[number], peer);
    return peer->ep && !peer->ended ? peer : NULL;
}

static int other_pick(const struct node *node)
{
    int other = (int)fabric_random((uint64_t)node->world->count - 1);
    return other + (other >= number_of(node));
}

static size_t size_pick(void)
{
    switch (fabric_random(10)) {
    case 0:
        return 0;
    case 9:
        return BUF_BYTES; /* as long as most receives: may go to where they are ready for it */
    case 8:
        return 1024 * (1 + fabric_random(2)); /* whole packets: some go bare */
    case 1:
        return fabric_random(BUF_BYTES + 1);
    case 2:
    case 3:
        return fabric_random(9000);
    default:
        return fabric_random(200);
    }
}

static void send_one(struct node *node)
{
    int other = other_pick(node);
    struct slot *slot = slot_get(node, true);
    struct peer *peer = slot ? peer_get(node, other) : NULL;

    if (!slot)
        return;
    node->to_send--;
    if (!peer)
        return;
    uint64_t tag = tag_of(number_of(node), other, peer->count);
    size_t len = size_pick();
    world_pattern_fill(slot->buf, len, key_of(tag, other));
    int rc = vbn_tag_send(peer->ep, slot->buf, len, tag, &slot->op);
    if (rc < 0) {
        started(slot, rc);
        return;
    }
    peer->log = realloc(peer->log, (peer->count + 1) * sizeof(*peer->log));
    peer->log[peer->count++] = (struct sent){.tag = tag, .len = len};
    slot->cap = len;
    started(slot, rc);
}

/* Draws what a receive asks for. Exact ones ask for a message of the near future or past. */
static void pattern_pick(struct node *node, struct slot *slot)
{
    uint64_t kind = node->draining ? 3 : fabric_random(4);
    int src = other_pick(node);

    slot->peer = kind == 2 || kind == 3 ? -1 : src;
    slot->mask = kind == 3 ? 0 : CLASSES - 1;
    slot->tag = fabric_random(CLASSES);
    if (kind == 0) {
        uint32_t near = nodes[src].peers[number_of(node)].count;
        uint32_t back = (uint32_t)fabric_random(6);
        slot->mask = VBN_TAG_MAX;
        slot->tag = tag_of(src, number_of(node), near + 2 > back ? near + 2 - back : 0);
    }
}

static void receive_one(struct node *node)
{
    struct slot *slot = slot_get(node, false);

    if (!slot)
        return;
    pattern_pick(node, slot);
    struct peer *peer = slot->peer >= 0 ? peer_get(node, slot->peer) : NULL;
    if (slot->peer >= 0 && !peer)
        return;
    slot->cap = fabric_random(4) ? BUF_BYTES : size_pick();
    memset(slot->buf, 0, slot->cap);
    memset(slot->buf + slot->cap, GUARD, GUARD_BYTES);
    slot->post = node->posts++;
    if (slot->mask == VBN_TAG_MAX && fabric_random(4))
        started(slot, vbn_tag_recv_ready(peer->ep, slot->buf, slot->cap, slot->tag, &slot->op));
    else
        started(slot, vbn_tag_recv(node->rank->ctx, peer ? peer->ep : NULL, slot->buf, slot->cap,
                                   slot->tag, slot->mask, &slot->op));
}

static void cancel(struct slot *slot)
{
    if (slot->busy)
        vbn_tag_cancel(slot->node->rank->ctx, &slot->op);
}

/* In the end every receive takes anything; then nothing is left to do but to wait. */
static void receive_the_rest(struct node *node)
{
    for (int i = SLOTS / 2; i < SLOTS; i++) {
        if (node->slots[i].mask)
            cancel(&node->slots[i]);
        receive_one(node);
    }
}

static void probe_one(struct node *node)
{
    struct vbn_op found = {0};
    uint64_t tag = fabric_random(CLASSES);

    if (vbn_tag_probe(node->rank->ctx, NULL, tag, CLASSES - 1, &found) == VBN_OK &&
        !anybody_hostile() && (found.tag & (CLASSES - 1)) != tag)
        world_fail(node->world, "rank %d: a probe found another tag", number_of(node));
}

static void work(struct world *world, struct world_rank *rank)
{
    struct node *node = rank->user;

    (void)world;
    for (uint64_t burst = fabric_random(6); burst > 0 && node->to_send > 0; burst--)
        send_one(node);
    if (node->draining) {
        receive_the_rest(node);
        return;
    }
    for (uint64_t burst = fabric_random(5); burst > 0; burst--)
        receive_one(node);
    if (fabric_random(4) == 0)
        cancel(&node->slots[fabric_random(SLOTS)]);
    if (fabric_random(20) == 0)
        probe_one(node);
    if (world->plan.kills && fabric_random(2000) == 0)
        rank->stopped_until_ns = fabric_now_ns() + fabric_random(200000000);
}

/* ---- set up, wind down ---- */

static bool node_open(struct world *world, struct node *node, struct world_rank *rank)
{
    size_t stride = BUF_BYTES + GUARD_BYTES;
    int rc = VBN_OK;

    node->world = world;
    node->rank = rank;
    rank->user = node;
    node->peers = calloc((size_t)world->count, sizeof(*node->peers));
    node->arena = calloc(SLOTS, stride);
    for (int i = 0; i < SLOTS; i++) {
        node->slots[i].node = node;
        node->slots[i].buf = node->arena + (size_t)i * stride;
    }
    node->to_send = (uint32_t)(20 + fabric_random(100));
    fabric_enter(rank->rank);
    if (fabric_random(2)) {
        rc = vbn_mem_register(rank->ctx, node->arena, SLOTS * stride,
                              VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ, &node->arena_mem);
        if (rc == VBN_OK)
            vbn_mem_lend(node->arena_mem);
    }
    if (rc != VBN_OK)
        world_fail(world, "rank %d cannot register: %s", rank->number, vbn_status_str(rc));
    return rc == VBN_OK;
}

/* Neither side has seen the other fail, so all between them must have arrived. */
static bool pair_is_whole(const struct node *from, const struct node *to)
{
    if (is_hostile(from->rank) || is_hostile(to->rank) || from->rank->is_dead || to->rank->is_dead)
        return false;
    return !from->peers[number_of(to)].ended && !to->peers[number_of(from)].ended &&
           !to->saw_stranger_end && !from->saw_stranger_end;
}

static const char *unsettled(const struct world *world, const struct world_rank *rank, int *peer)
{
    const struct node *node = rank->user;

    if (!node->draining)
        return "has not been told of the calm";
    if (node->to_send > 0)
        return "has messages that it could not send";
    for (int i = 0; i < SLOTS / 2 && !anybody_hostile(); i++)
        if (node->slots[i].busy)
            return "has sends that do not end";
    for (int i = SLOTS / 2; i < SLOTS && !anybody_hostile(); i++)
        if (node->slots[i].busy && node->slots[i].mask)
            return "has receives that do not end though cancelled";
    for (int i = 0; i < world->count; i++) {
        const struct peer *to = &node->peers[i];
        *peer = i;
        for (uint32_t s = 0; s < to->count && pair_is_whole(node, &nodes[i]); s++)
            if (!to->log[s].taken)
                return "has messages that are not received by";
    }
    return NULL;
}

static void calmed(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        nodes[i].draining = true;
}

/* No receive may have taken a message while an earlier one that it fits was still to be had. */
static void check_order(struct world *world, int src, int dst)
{
    const struct peer *pair = &nodes[src].peers[dst];

    for (uint32_t late = 0; late < pair->count; late++)
        for (uint32_t early = 0; early < late && pair->log[late].taken; early++) {
            const struct sent *e = &pair->log[early], *l = &pair->log[late];
            if (((e->tag ^ l->by_tag) & l->by_mask) == 0 && e->taken && e->by_post > l->by_post)
                world_fail(world, "rank %d: message %u of rank %d overtook message %u", dst, late,
                           src, early);
        }
}

static void check_all_order(struct world *world)
{
    for (int src = 0; src < world->count; src++)
        for (int dst = 0; dst < world->count && !anybody_hostile(); dst++)
            check_order(world, src, dst);
}

void load_tagged(struct world *world)
{
    bool ready = true;

    nodes = calloc((size_t)world->count, sizeof(*nodes));
    world->endpoint_error = on_endpoint_error;
    hostile_node = world_hostile_node(world);
    world_failures_pause();
    for (int i = 0; i < world->count && ready; i++)
        ready = node_open(world, &nodes[i], &world->ranks[i]);
    world_failures_resume();
    if (ready) {
        world_run(world, &(struct world_load){work, unsettled, calmed});
        check_all_order(world);
    }
}

/* After vbn_close(): what was not over has ended then. */
void load_tagged_end(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        struct node *node = &nodes[i];
        if (node->rank && node->out > 0 && !node->rank->is_dead)
            world_fail(world, "rank %d: %u tagged operations never ended", i, node->out);
        for (int k = 0; node->peers && k < world->count; k++)
            free(node->peers[k].log);
        free(node->peers);
        free(node->arena);
    }
    free(nodes);
    nodes = NULL;
}
