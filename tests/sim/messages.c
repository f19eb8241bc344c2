/* SPDX-License-Identifier: BSD-3-Clause */
/* Random tagged messages: what the loads that send such have in common (messages.h). */
#include "messages.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLASS_BITS = 2,
    SRC_BITS = 10,
    HALF = MESSAGES_SLOTS / 2, /* of the slots, so that neither sends nor receives starve */
    LEAST = 20,                /* messages that a rank sends */
    GUARD_BYTES = 16,
    GUARD = 0xa5,
};

static const struct messages_kind *kind;
static struct node *nodes;
static int hostile_node;

struct node *messages_node(int number)
{
    return &nodes[number];
}

static int number_of(const struct node *node)
{
    return node->rank->number;
}

bool messages_is_hostile(const struct node *node)
{
    return node->rank->node == hostile_node;
}

bool messages_anybody_hostile(void)
{
    return hostile_node >= 0;
}

bool messages_pair_is_whole(const struct node *from, const struct node *to)
{
    if (messages_is_hostile(from) || messages_is_hostile(to) || from->rank->is_dead ||
        to->rank->is_dead)
        return false;
    return !from->peers[number_of(to)].ended && !to->peers[number_of(from)].ended &&
           !to->saw_stranger_end && !from->saw_stranger_end;
}

static bool stream_is_whole(const struct node *from, const struct node *to, int stream)
{
    return stream ? kind->is_whole(stream) : messages_pair_is_whole(from, to);
}

/* ---- tags: class, stream, source, number ---- */

struct origin {
    int stream, src;
    uint32_t seq;
};

uint64_t messages_tag(int stream, int src, int dst, uint32_t seq)
{
    /* With groups the same to all: what goes to a group has one tag. */
    uint32_t class = seq * 7u + seq / 3u + (uint32_t)(src + (kind->streams > 1 ? stream : dst));
    uint64_t from = (uint64_t)src | (uint64_t)seq << SRC_BITS;

    return class % MESSAGES_CLASSES | ((uint64_t)stream | from << kind->stream_bits) << CLASS_BITS;
}

/* What its bytes depend on. */
static uint64_t key_of(uint64_t tag, int dst)
{
    return tag * 1000003 + kind->key + (uint64_t)dst;
}

static struct origin origin_of(uint64_t tag)
{
    uint64_t stream = tag >> CLASS_BITS, from = stream >> kind->stream_bits;

    return (struct origin){.stream = (int)(stream & ((1u << kind->stream_bits) - 1)),
                           .src = (int)(from & ((1u << SRC_BITS) - 1)),
                           .seq = (uint32_t)(from >> SRC_BITS)};
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

/* What a hostile rank had to do with, which may be anything; but not where it was sound. */
static bool is_garbled(const struct node *node, struct origin from)
{
    return messages_anybody_hostile() &&
           (from.src >= node->world->count || from.stream >= kind->streams ||
            messages_is_hostile(node) || messages_is_hostile(&nodes[from.src]) ||
            (from.stream && kind->is_garbled(from.stream)));
}

/* NULL: nobody sent it. */
static struct sent *sent_find(const struct node *node, struct origin from)
{
    const struct stream *stream;

    if (from.src >= node->world->count || from.stream >= kind->streams)
        return NULL;
    stream = &nodes[from.src].peers[number_of(node)].streams[from.stream];
    return from.seq < stream->count ? &stream->log[from.seq] : NULL;
}

/* A receive that was posted before there was an endpoint may not know it. */
static bool sender_is_right(const struct slot *slot, const struct peer *peer)
{
    const vbn_peer_t *said = slot->op.peer;

    return said == (vbn_peer_t *)peer->ep || (!said && slot->wish.number < peer->known_from);
}

/* What is wrong with the message that SLOT took; NULL: nothing. */
static const char *fault_of(const struct slot *slot, const struct sent *sent, struct origin from)
{
    const struct node *node = slot->node;
    const struct vbn_op *op = &slot->op;
    const struct wish *wish = &slot->wish;

    if (sent->taken)
        return "is taken twice";
    if (sent->len != op->len || (op->status == VBN_OK) != (op->len <= slot->cap))
        return "has another length or status";
    if (((op->tag ^ wish->tag) & wish->mask) || (wish->peer >= 0 && wish->peer != from.src))
        return "is not what the receive asked for";
    if (!sender_is_right(slot, &node->peers[from.src]))
        return "is said to be another's";
    if (!world_pattern_check(slot->buf, vbn_min(op->len, slot->cap),
                             key_of(op->tag, from.stream ? -1 : number_of(node))))
        return "arrived changed";
    return NULL;
}

static void message_taken(const struct slot *slot)
{
    const struct node *node = slot->node;
    const struct vbn_op *op = &slot->op;
    struct origin from = origin_of(op->tag);
    struct sent *sent = is_garbled(node, from) ? NULL : sent_find(node, from);
    const char *fault = sent ? fault_of(slot, sent, from) : NULL;

    if (fault)
        world_fail(node->world,
                   "rank %d: message %u of rank %d, stream %d, %zu bytes, %s: %zu bytes, status %d",
                   number_of(node), from.seq, from.src, from.stream, sent->len, fault, op->len,
                   op->status);
    if (!sent && !messages_anybody_hostile()) /* else its sender was told that it had arrived */
        world_fail(node->world, "rank %d: a message %llx that nobody sent", number_of(node),
                   (unsigned long long)op->tag);
    if (!sent)
        return;
    sent->taken = true;
    sent->by = slot->wish;
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
        message_taken(slot);
    else if (status != VBN_OK && !tolerable(node, slot, status))
        world_fail(node->world, "rank %d: a %s ended without a fault: %s", number_of(node),
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
    if (status == VBN_ERR_PROTOCOL && !messages_anybody_hostile())
        world_fail(node->world, "rank %d: a sound peer is said to break the protocol",
                   rank->number);
    if (peer)
        peer->ended = true;
    else
        node->saw_stranger_end = true;
}

/* ---- what begins ---- */

struct slot *messages_slot(struct node *node, bool is_send)
{
    struct slot *half = &node->slots[is_send ? 0 : HALF];

    for (int i = 0; i < HALF; i++) {
        struct slot *slot = &half[i];
        if (slot->busy)
            continue;
        slot->op = (struct vbn_op){.done = on_done, .arg = slot};
        slot->is_send = is_send;
        return slot;
    }
    return NULL;
}

void messages_begun(struct slot *slot, int rc)
{
    struct node *node = slot->node;

    slot->busy = rc == VBN_PENDING || rc == VBN_OK;
    node->out += slot->busy;
    if (rc == VBN_OK)
        slot_over(slot);
    else if (rc != VBN_PENDING && world_is_sound(node->world))
        world_fail(node->world, "rank %d: an operation is refused: %s", number_of(node),
                   vbn_status_str(rc));
}

struct peer *messages_peer(struct node *node, int number)
{
    struct peer *peer = &node->peers[number];

    if (!peer->ep && !peer->ended) {
        peer->ep = world_endpoint(node->world, node->rank, &node->world->ranks[number], peer);
        peer->known_from = node->receives;
    }
    return peer->ep && !peer->ended ? peer : NULL;
}

int messages_other_pick(const struct node *node)
{
    int other = (int)fabric_random((uint64_t)node->world->count - 1);
    return other + (other >= number_of(node));
}

void messages_fill(struct slot *slot, uint64_t tag, int dst)
{
    slot->cap = kind->size_pick();
    world_pattern_fill(slot->buf, slot->cap, key_of(tag, dst));
}

void messages_sent(struct peer *peer, int stream, uint64_t tag, const struct slot *slot)
{
    struct stream *to = &peer->streams[stream];

    to->log = realloc(to->log, (to->count + 1) * sizeof(*to->log));
    to->log[to->count++] = (struct sent){.tag = tag, .len = slot->cap};
}

void messages_send(struct node *node, struct slot *slot, int other)
{
    struct peer *peer = messages_peer(node, other);

    node->to_send--;
    if (!peer)
        return;
    uint64_t tag = messages_tag(0, number_of(node), other, peer->streams[0].count);
    messages_fill(slot, tag, other);
    int rc = vbn_tag_send(peer->ep, slot->buf, slot->cap, tag, &slot->op);
    if (rc >= 0)
        messages_sent(peer, 0, tag, slot);
    messages_begun(slot, rc);
}

/* Exact receives ask for a message of the near future or past. */
static struct wish wish_pick(const struct node *node)
{
    uint64_t how = node->draining ? 3 : fabric_random(4);
    int src = messages_other_pick(node);
    int stream = kind->streams > 1 ? (int)fabric_random((uint64_t)kind->streams) : 0;
    struct wish wish = {.tag = fabric_random(MESSAGES_CLASSES),
                        .mask = how == 3 ? 0 : MESSAGES_CLASSES - 1,
                        .peer = how == 2 || how == 3 ? -1 : src};

    if (how == 0) {
        uint32_t near = nodes[src].peers[number_of(node)].streams[stream].count;
        uint32_t back = (uint32_t)fabric_random(6);
        wish.mask = VBN_TAG_MAX;
        wish.tag =
            messages_tag(stream, src, number_of(node), near + 2 > back ? near + 2 - back : 0);
    }
    return wish;
}

/* What is sent to groups is not put. */
static bool may_tell_place(const struct wish *wish)
{
    return wish->mask == VBN_TAG_MAX && origin_of(wish->tag).stream == 0;
}

static void receive_one(struct node *node)
{
    struct slot *slot = messages_slot(node, false);

    if (!slot)
        return;
    struct wish *wish = &slot->wish;
    *wish = wish_pick(node);
    const struct peer *peer = wish->peer >= 0 ? messages_peer(node, wish->peer) : NULL;
    if (wish->peer >= 0 && !peer)
        return;
    slot->cap = fabric_random(4) ? kind->buf_bytes : kind->size_pick();
    memset(slot->buf, 0, slot->cap);
    memset(slot->buf + slot->cap, GUARD, GUARD_BYTES);
    wish->number = node->receives++;
    if (may_tell_place(wish) && fabric_random(4))
        messages_begun(slot,
                       vbn_tag_recv_ready(peer->ep, slot->buf, slot->cap, wish->tag, &slot->op));
    else
        messages_begun(slot, vbn_tag_recv(node->rank->ctx, peer ? peer->ep : NULL, slot->buf,
                                          slot->cap, wish->tag, wish->mask, &slot->op));
}

static void cancel(struct slot *slot)
{
    if (slot->busy)
        vbn_tag_cancel(slot->node->rank->ctx, &slot->op);
}

/* A patient rank asks for nothing before its own sends are over. */
static bool still_waits(const struct node *node)
{
    bool sends = node->to_send > 0;

    for (int i = 0; i < HALF; i++)
        sends |= node->slots[i].busy;
    return sends && world_is_patient(node->world, node->rank) && !messages_anybody_hostile();
}

/* In the end every receive takes anything; then nothing is left to do but to wait. */
static void receive_the_rest(struct node *node)
{
    bool waits = still_waits(node);

    for (int i = HALF; i < MESSAGES_SLOTS; i++) {
        if (node->slots[i].wish.mask || waits)
            cancel(&node->slots[i]);
        if (!waits)
            receive_one(node);
    }
}

void messages_receive(struct node *node)
{
    if (node->draining) {
        receive_the_rest(node);
        return;
    }
    for (uint64_t burst = fabric_random(5); burst > 0; burst--)
        receive_one(node);
    if (fabric_random(4) == 0)
        cancel(&node->slots[fabric_random(MESSAGES_SLOTS)]);
}

/* ---- what is left ---- */

void messages_calmed(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        nodes[i].draining = true;
}

static const char *slots_unsettled(const struct node *node)
{
    for (int i = 0; i < HALF; i++)
        if (node->slots[i].busy)
            return "has sends that do not end";
    for (int i = HALF; i < MESSAGES_SLOTS; i++)
        if (node->slots[i].busy && node->slots[i].wish.mask)
            return "has receives that do not end though cancelled";
    return NULL;
}

bool messages_untaken(const struct node *from, const struct node *to, int stream)
{
    const struct stream *of = &from->peers[number_of(to)].streams[stream];

    for (uint32_t i = 0; i < of->count; i++)
        if (!of->log[i].taken)
            return true;
    return false;
}

const char *messages_unsettled(const struct world *world, const struct world_rank *rank, int *peer)
{
    const struct node *node = rank->user;
    const char *what = messages_anybody_hostile() ? NULL : slots_unsettled(node);

    if (!node->draining)
        return "has not been told of the calm";
    if (node->to_send > 0)
        return "has messages that it could not send";
    if (what)
        return what;
    for (*peer = 0; *peer < world->count; ++*peer)
        for (int s = 0; s < kind->streams; s++)
            if (messages_untaken(node, &nodes[*peer], s) && stream_is_whole(node, &nodes[*peer], s))
                return s ? "has messages to a group that are not received by"
                         : "has messages that are not received by";
    return NULL;
}

/* No receive may have taken a message while an earlier one that it fits was still to be had. */
static void check_order(struct world *world, int src, int dst, int stream)
{
    const struct stream *of = &nodes[src].peers[dst].streams[stream];

    for (uint32_t late = 0; late < of->count; late++)
        for (uint32_t early = 0; early < late && of->log[late].taken; early++) {
            const struct sent *e = &of->log[early], *l = &of->log[late];
            if (((e->tag ^ l->by.tag) & l->by.mask) == 0 && e->taken && e->by.number > l->by.number)
                world_fail(world, "rank %d: message %u of rank %d, stream %d, overtook message %u",
                           dst, late, src, stream, early);
        }
}

void messages_check_order(struct world *world)
{
    for (int src = 0; src < world->count; src++)
        for (int dst = 0; dst < world->count && !messages_anybody_hostile(); dst++)
            for (int stream = 0; stream < kind->streams; stream++)
                check_order(world, src, dst, stream);
}

/* ---- set up, wind down ---- */

static bool node_open(struct world *world, struct node *node, struct world_rank *rank)
{
    size_t stride = kind->buf_bytes + GUARD_BYTES;

    node->world = world;
    node->rank = rank;
    rank->user = node;
    node->peers = calloc((size_t)world->count, sizeof(*node->peers));
    node->arena = calloc(MESSAGES_SLOTS, stride);
    node->arena_bytes = MESSAGES_SLOTS * stride;
    for (int i = 0; i < MESSAGES_SLOTS; i++) {
        node->slots[i].node = node;
        node->slots[i].buf = node->arena + (size_t)i * stride;
    }
    node->planned = node->to_send = (uint32_t)(LEAST + fabric_random(kind->spread));
    fabric_enter(rank->rank);
    return kind->prepare(node);
}

bool messages_open(struct world *world, const struct messages_kind *of_kind)
{
    bool ready = true;

    kind = of_kind;
    nodes = calloc((size_t)world->count, sizeof(*nodes));
    world->endpoint_error = on_endpoint_error;
    hostile_node = world_hostile_node(world);
    world_failures_pause();
    for (int i = 0; i < world->count && ready; i++)
        ready = node_open(world, &nodes[i], &world->ranks[i]);
    world_failures_resume();
    return ready;
}

static void node_close(struct world *world, struct node *node, int number)
{
    if (node->rank && node->out > 0 && !node->rank->is_dead)
        world_fail(world, "rank %d: %u operations never ended", number, node->out);
    for (int i = 0; node->peers && i < world->count; i++)
        for (int s = 0; s < kind->streams; s++)
            free(node->peers[i].streams[s].log);
    free(node->peers);
    free(node->arena);
}

void messages_close(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        node_close(world, &nodes[i], i);
    free(nodes);
    nodes = NULL;
}
