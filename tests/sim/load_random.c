/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random active messages, puts and gets between all ranks, every byte checked.
 *
 * Each message carries who sent it, to whom, which it is of that pair, and a pattern that depends
 * on all three. A put goes into a slot of the target's memory that belongs to the sender; a message
 * right behind it, or once it is done, asks the target to check the slot, which is the target's own
 * from then on: nothing may be written there any more. A get reads a part of the peer's memory that
 * never changes.
 *
 * In some runs one node is hostile: what it says is garbled, by a byte here and there. Its pairs
 * may then end, but nobody may take what was not sent.
 *
 * What must hold: per pair, messages arrive once, in order, whole; without an error on either
 * side all of them do; every put and get ends exactly once, in bounded time.
 */
#include "loads.h"

#include <stdlib.h>
#include <string.h>

enum {
    AM_DATA = 1,
    AM_CHECK = 2,
    SLOT_BYTES = 2048,
    CONST_BYTES = 8192,
    RMA_SLOTS = 4,
    TAKEN_BACK = 0x5a, /* what a target fills a slot with that it has checked */
};

struct header {
    uint32_t src, dst, seq, len;
    uint64_t key; /* AM_CHECK: of the pattern in the slot */
    uint32_t slot_len, pad;
};

/* What a rank knows of one peer. */
struct peer {
    struct node *node;
    int number;
    vbn_endpoint_t *ep;
    uint32_t sent, received;
    bool ended;
    bool put_busy;     /* the slot is being written or waits to be checked */
    bool put_to_say;   /* written: the target has to be told */
    bool put_said;     /* the target was told right behind the put */
    bool slot_checked; /* this peer's slot here is ours again */
    uint64_t put_key;
    uint32_t put_len;
};

struct rma {
    struct peer *peer;
    bool busy, is_put;
    uint32_t len, offset;
};

/* A rank of the workload. */
struct node {
    struct world *world;
    struct world_rank *rank;
    struct peer *peers;
    unsigned char *slots;    /* count × SLOT_BYTES: written by peers */
    unsigned char *constant; /* CONST_BYTES: read by peers */
    unsigned char *scratch;  /* RMA_SLOTS × SLOT_BYTES: own ends of puts and gets */
    vbn_mem_t *slots_mem, *constant_mem, *scratch_mem;
    struct rma rmas[RMA_SLOTS];
    uint32_t rmas_out;
    uint32_t to_do;
    bool saw_stranger_end;
};

static struct node *nodes;
static int hostile_node; /* whose messages are garbled on their way; -1: none */

static struct node *node_of(const struct world_rank *rank)
{
    return rank->user;
}

static bool is_hostile(const struct world_rank *rank)
{
    return rank->node == hostile_node;
}

static uint64_t message_key(const struct header *h)
{
    return (uint64_t)h->src << 48 ^ (uint64_t)h->dst << 32 ^ h->seq;
}

/* ---- receiving ---- */

static unsigned char *slot_of(const struct node *node, int number)
{
    return node->slots + (size_t)number * SLOT_BYTES;
}

static void take_slot(struct node *node, struct peer *peer, const struct header *h)
{
    unsigned char *slot = slot_of(node, peer->number);

    if (!world_pattern_check(slot, h->slot_len, h->key))
        world_fail(node->world, "rank %d: rank %u's put is not there", node->rank->number, h->src);
    memset(slot, TAKEN_BACK, SLOT_BYTES);
    peer->slot_checked = true;
}

static void on_message(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct node *node = arg;
    struct world *world = node->world;
    struct header h;
    if (len < sizeof(h)) {
        world_fail(world, "rank %d: a message of %zu bytes that nobody sent", node->rank->number,
                   len);
        return;
    }
    memcpy(&h, data, sizeof(h));
    int me = node->rank->number;
    if ((int)h.dst != me || (int)h.src >= world->count || h.len != len) {
        world_fail(world, "rank %d: a message for %u from %u, %u bytes, arrived with %zu", me,
                   h.dst, h.src, h.len, len);
        return;
    }
    struct peer *peer = &node->peers[h.src];
    struct peer *claimed = vbn_endpoint_user(ep);
    if (claimed && claimed != peer)
        world_fail(world, "rank %d: rank %u's message came from the endpoint of %d", me, h.src,
                   claimed->number);
    bool garbled = is_hostile(&world->ranks[h.src]); /* its handler's number may have been */
    if (h.seq != peer->received && !(garbled && h.seq > peer->received))
        world_fail(world, "rank %d: message %u of rank %u arrived, %u was expected", me, h.seq,
                   h.src, peer->received);
    peer->received = h.seq + 1;
    if (!world_pattern_check((char *)data + sizeof(h), len - sizeof(h), message_key(&h)))
        world_fail(world, "rank %d: message %u of rank %u arrived changed", me, h.seq, h.src);
    if (id == AM_CHECK && !garbled)
        take_slot(node, peer, &h);
    fabric_trace_mark("message", h.src, h.seq);
}

static void on_endpoint_error(struct world_rank *rank, vbn_endpoint_t *ep, int status)
{
    struct node *node = node_of(rank);
    struct peer *peer = vbn_endpoint_user(ep);
    if (world_is_sound(node->world))
        world_fail(node->world, "rank %d: an endpoint ended without a fault: %s", rank->number,
                   vbn_status_str(status));
    if (status == VBN_ERR_PEER_LOST && world_loses_nobody(node->world))
        world_fail(node->world, "rank %d: a peer that lives is said to be lost", rank->number);
    if (status == VBN_ERR_PROTOCOL && hostile_node < 0)
        world_fail(node->world, "rank %d: a sound peer is said to break the protocol",
                   rank->number);
    if (peer && peer->ended)
        world_fail(node->world, "rank %d: the end of endpoint %d is told twice", rank->number,
                   peer->number);
    if (peer)
        peer->ended = true;
    else
        node->saw_stranger_end = true;
    fabric_trace_mark("endpoint error", peer ? (uint64_t)peer->number : 999, (uint64_t)-status);
}

/* ---- sending ---- */

static struct peer *peer_pick(struct node *node)
{
    int other = (int)fabric_random((uint64_t)node->world->count - 1);
    other += other >= node->rank->number;
    struct peer *peer = &node->peers[other];
    if (!peer->ep && !peer->ended)
        peer->ep = world_endpoint(node->world, node->rank, &node->world->ranks[other], peer);
    return peer->ep && !peer->ended ? peer : NULL;
}

/* False: not now, or never. */
static bool accepted(struct node *node, struct peer *peer, int rc)
{
    if (rc == VBN_OK)
        return true;
    if (rc == VBN_ERR_AGAIN)
        return false;
    if (world_is_sound(node->world))
        world_fail(node->world, "rank %d: an operation to %d failed: %s", node->rank->number,
                   peer->number, vbn_status_str(rc));
    peer->ended = true;
    return false;
}

static bool send_message(struct node *node, struct peer *peer, uint8_t id)
{
    struct vbn_attr attr = {.size = sizeof(attr)};
    vbn_query(node->rank->ctx, &attr);
    static unsigned char text[1 << 18];
    uint64_t most = fabric_random(4) ? 200 : attr.max_am_len - sizeof(struct header);
    uint32_t body = (uint32_t)fabric_random(most + 1);
    if (body > 1024) /* many fill whole packets: some of them go bare */
        body = fabric_random(2) ? body : body / 1024 * 1024 - (uint32_t)sizeof(struct header);
    struct header h = {.src = (uint32_t)node->rank->number,
                       .dst = (uint32_t)peer->number,
                       .seq = peer->sent,
                       .len = (uint32_t)sizeof(h) + body,
                       .key = peer->put_key,
                       .slot_len = peer->put_len};
    world_pattern_fill(text, body, message_key(&h));
    struct iovec iov[2] = {{&h, sizeof(h)}, {text, body}};
    if (!accepted(node, peer, vbn_am_send(peer->ep, id, iov, 2)))
        return false;
    peer->sent++;
    return true;
}

static bool on_iwarp(const struct node *node)
{
    return node->world->plan.transport == FABRIC_IWARP;
}

/* STATUS of an operation where nobody dies. On iWARP who closes does not wait for the peer to have
 * all: what a break has left for the next connection then finds none. */
static bool may_end_with(const struct node *node, int status)
{
    return status == VBN_ERR_UNREACHABLE || (on_iwarp(node) && status == VBN_ERR_CLOSED);
}

/* InfiniBand and RoCE may acknowledge short writes before their bytes are seen: `torn`. */
static bool is_missing(const struct node *node, const struct rma *rma)
{
    const struct node *of = &nodes[rma->peer->number];
    return on_iwarp(node) && !is_hostile(node->rank) &&
           !of->peers[node->rank->number].slot_checked &&
           !world_pattern_check(slot_of(of, node->rank->number), rma->len, rma->peer->put_key);
}

static void on_rma_done(void *arg, vbn_endpoint_t *ep, int status)
{
    struct rma *rma = arg;
    struct node *node = rma->peer->node;
    (void)ep;
    if (!rma->busy)
        world_fail(node->world, "rank %d: a put or get ended twice", node->rank->number);
    rma->busy = false;
    node->rmas_out--;
    if (status != VBN_OK) {
        if (world_is_sound(node->world) ||
            (world_loses_nobody(node->world) && !may_end_with(node, status)))
            world_fail(node->world, "rank %d: a %s failed: %s", node->rank->number,
                       rma->is_put ? "put" : "get", vbn_status_str(status));
        return;
    }
    if (rma->is_put) {
        rma->peer->put_to_say = !rma->peer->put_said;
        if (is_missing(node, rma))
            world_fail(node->world, "rank %d: a put to rank %d has ended and is not there",
                       node->rank->number, rma->peer->number);
        return;
    }
    const struct node *of = &nodes[rma->peer->number];
    size_t index = (size_t)(rma - node->rmas);
    if (memcmp(node->scratch + index * SLOT_BYTES, of->constant + rma->offset, rma->len) != 0)
        world_fail(node->world, "rank %d: a get brought other bytes", node->rank->number);
}

static bool start_rma(struct node *node, struct peer *peer)
{
    size_t index = 0;
    while (index < RMA_SLOTS && node->rmas[index].busy)
        index++;
    if (index == RMA_SLOTS)
        return false;
    struct rma *rma = &node->rmas[index];
    struct node *target = &nodes[peer->number];
    unsigned char *local = node->scratch + index * SLOT_BYTES;
    *rma = (struct rma){.peer = peer, .is_put = fabric_random(2)};
    rma->len = 1 + (uint32_t)fabric_random(SLOT_BYTES);
    int rc;
    if (rma->is_put) {
        if (peer->put_busy)
            return false;
        uint64_t key = fabric_random(UINT64_MAX);
        world_pattern_fill(local, rma->len, key);
        unsigned char *slot = slot_of(target, node->rank->number);
        rc = vbn_put(peer->ep, local, node->scratch_mem, (uintptr_t)slot,
                     vbn_mem_rkey(target->slots_mem), rma->len, on_rma_done, rma);
        peer->put_busy = rc == VBN_OK;
        peer->put_key = key;
        peer->put_len = rma->len;
    } else {
        rma->offset = (uint32_t)fabric_random(CONST_BYTES - rma->len + 1);
        rc = vbn_get(peer->ep, local, node->scratch_mem, (uintptr_t)target->constant + rma->offset,
                     vbn_mem_rkey(target->constant_mem), rma->len, on_rma_done, rma);
    }
    if (!accepted(node, peer, rc))
        return false;
    rma->busy = true;
    node->rmas_out++;
    if (rma->is_put && fabric_random(2))
        peer->put_said = send_message(node, peer, AM_CHECK);
    return true;
}

static void tell_of_puts(struct node *node)
{
    for (int i = 0; i < node->world->count; i++) {
        struct peer *peer = &node->peers[i];
        if (!peer->put_to_say || peer->ended || !send_message(node, peer, AM_CHECK))
            continue;
        peer->put_to_say = false;
        /* The slot may be written again only once the target has looked; waiting for its answer
         * is more than this load needs: one put a pair, then no more. */
    }
}

static void work(struct world *world, struct world_rank *rank)
{
    struct node *node = node_of(rank);
    tell_of_puts(node);
    for (uint64_t burst = fabric_random(8); burst > 0 && node->to_do > 0; burst--) {
        struct peer *peer = peer_pick(node);
        bool done =
            peer && (fabric_random(4) ? send_message(node, peer, AM_DATA) : start_rma(node, peer));
        node->to_do -= done || !peer;
    }
    if (world->plan.kills && fabric_random(2000) == 0)
        rank->stopped_until_ns = fabric_now_ns() + fabric_random(200000000);
}

/* ---- set up, wind down ---- */

static bool node_open(struct world *world, struct node *node, struct world_rank *rank)
{
    size_t slots_bytes = (size_t)world->count * SLOT_BYTES;
    node->world = world;
    node->rank = rank;
    rank->user = node;
    node->peers = calloc((size_t)world->count, sizeof(*node->peers));
    node->slots = calloc(1, slots_bytes);
    node->constant = malloc(CONST_BYTES);
    node->scratch = calloc(RMA_SLOTS, SLOT_BYTES);
    world_pattern_fill(node->constant, CONST_BYTES, (uint64_t)rank->number + 77);
    for (int i = 0; i < world->count; i++) {
        node->peers[i].node = node;
        node->peers[i].number = i;
    }
    node->to_do = (uint32_t)(20 + fabric_random(200));
    fabric_enter(rank->rank);
    vbn_am_handler(rank->ctx, AM_DATA, on_message, node);
    vbn_am_handler(rank->ctx, AM_CHECK, on_message, node);
    int rc = vbn_mem_register(rank->ctx, node->slots, slots_bytes,
                              VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_WRITE, &node->slots_mem);
    if (rc == VBN_OK)
        rc = vbn_mem_register(rank->ctx, node->constant, CONST_BYTES, VBN_ACCESS_REMOTE_READ,
                              &node->constant_mem);
    if (rc == VBN_OK)
        rc = vbn_mem_register(rank->ctx, node->scratch, RMA_SLOTS * SLOT_BYTES,
                              VBN_ACCESS_LOCAL_WRITE, &node->scratch_mem);
    if (rc != VBN_OK)
        world_fail(world, "rank %d cannot register: %s", rank->number, vbn_status_str(rc));
    return rc == VBN_OK;
}

static void node_deregister(struct node *node)
{
    if (!node->rank)
        return;
    fabric_enter(node->rank->rank);
    vbn_mem_t *mems[] = {node->slots_mem, node->constant_mem, node->scratch_mem};
    for (int i = 0; i < 3; i++)
        if (mems[i])
            vbn_mem_deregister(mems[i]);
}

/* Whether the pair may have lost its last messages: an end on either side, or a death. */
static bool pair_is_whole(const struct node *from, const struct node *to)
{
    const struct world_rank *a = from->rank, *b = to->rank;
    if (is_hostile(a) || is_hostile(b))
        return false;
    return !a->is_dead && !b->is_dead && !from->peers[b->number].ended &&
           !to->peers[a->number].ended && !to->saw_stranger_end;
}

static const char *unsettled(const struct world *world, const struct world_rank *rank,
                             int *peer_number)
{
    const struct node *node = node_of(rank);

    if (node->to_do > 0)
        return "has work that it could not start";
    if (node->rmas_out > 0)
        return "has puts or gets that do not end";
    for (int i = 0; i < world->count; i++) {
        const struct peer *peer = &node->peers[i];
        *peer_number = i;
        if (peer->put_to_say && !peer->ended)
            return "cannot send to";
        if (pair_is_whole(node, &nodes[i]) &&
            nodes[i].peers[node->rank->number].received != peer->sent)
            return "has messages that do not arrive at";
    }
    return NULL;
}

static void check_counts(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        for (int j = 0; j < world->count; j++)
            if (nodes[j].peers[i].received > nodes[i].peers[j].sent)
                world_fail(world, "rank %d got more messages of %d than it sent", j, i);
}

static void check_slots(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        for (int j = 0; j < world->count; j++)
            for (int at = 0; nodes[i].peers[j].slot_checked && at < SLOT_BYTES; at++)
                if (slot_of(&nodes[i], j)[at] != TAKEN_BACK) {
                    world_fail(world, "rank %d: rank %d's put came twice", i, j);
                    return;
                }
}

static void nodes_close(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        struct node *node = &nodes[i];
        if (node->rank && node->rmas_out > 0 && !node->rank->is_dead)
            world_fail(world, "rank %d: %u puts or gets never ended", i, node->rmas_out);
        free(node->peers);
        free(node->slots);
        free(node->constant);
        free(node->scratch);
    }
    free(nodes);
    nodes = NULL;
}

void load_random(struct world *world)
{
    nodes = calloc((size_t)world->count, sizeof(*nodes));
    world->endpoint_error = on_endpoint_error;
    bool ready = true;
    hostile_node = world_hostile_node(world);
    world_failures_pause();
    for (int i = 0; i < world->count && ready; i++)
        ready = node_open(world, &nodes[i], &world->ranks[i]);
    world_failures_resume();
    if (ready) {
        world_run(world, &(struct world_load){work, unsettled, NULL});
        check_counts(world);
        check_slots(world);
    }
    /* Beside a hostile node nobody knows which puts are still on their way: vbn_close() does it. */
    for (int i = 0; i < world->count && !world->plan.hostile; i++)
        node_deregister(&nodes[i]);
}

void load_random_end(struct world *world)
{
    nodes_close(world);
}
