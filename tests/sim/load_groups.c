/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to groups, of all ranks and of some, among tagged ones from one to one; the receives are
 * as those of load_tagged.c, and may be for either.
 *
 * Each member opens its groups when it likes. Once all of them have said that they are ready, which
 * the load sees, being one process, they send to it; a group of which one says that it never will
 * be is closed by all. A member closes a group when it has sent all, which need not have left, and
 * has got all of the others'; or leaves that to vbn_close().
 *
 * What goes from one rank to another is a stream, one for each group and one from one to one: a
 * message's tag tells who sent it, by which stream, and which it is of that. What must hold: every
 * operation ends once; where no member has lost another, what was sent to a group is taken once by
 * each of them, whole, and within a stream none by a receive that fits an earlier one as well.
 */
#include "loads.h"

#include "context.h"
#include "group.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLASSES = 4,
    CLASS_BITS = 2,
    STREAM_BITS = 2,
    SRC_BITS = 10,
    SRC_AT = CLASS_BITS + STREAM_BITS,
    SEQ_AT = SRC_AT + SRC_BITS,
    GROUPS = 2,
    STREAMS = 1 + GROUPS, /* 0: from one to one */
    SLOTS = 24,
    BUF_BYTES = 70000,  /* more than a window of datagrams */
    PART_BYTES = 1008,  /* of a message in a datagram */
    ENOUGH_CQES = 1024, /* in a completion queue, for any group here */
    GUARD_BYTES = 16,
    GUARD = 0xa5,
};

#define MEET_NS  UINT64_C(2000000000)  /* in which groups get ready, before all else goes on */
#define READY_NS UINT64_C(10000000000) /* of calm, after which they must have been */

/* What was sent by one stream to one rank, in order. */
struct sent {
    uint64_t tag;
    size_t len;
    bool taken;
    uint64_t by_post, by_tag, by_mask; /* the receive that took it */
};

struct stream {
    struct sent *log;
    uint32_t count;
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
    struct stream streams[STREAMS];
};

/* A member's view of a group. */
struct seat {
    vbn_group_t *group; /* NULL: not yet, not any more, or never */
    bool opened, closed;
    bool
        stays; /* vbn_close() closes it, or the loss of a member, whose messages may be half here */
    int status;
    uint32_t to_send;
};

struct node {
    struct world *world;
    struct world_rank *rank;
    struct peer *peers;
    struct seat seats[GROUPS];
    struct slot slots[SLOTS];
    unsigned char *arena;
    uint32_t to_send, out;
    uint32_t to_keep; /* of to_send, until it is known what becomes of the groups */
    uint64_t posts;
    bool draining, saw_stranger_end;
};

struct group {
    int *members, count;
    enum { OPENING, USABLE, GIVEN_UP } state;
    bool hostile; /* a member is */
};

static struct node *nodes;
static struct group groups[GROUPS];
static int hostile_node;
static uint64_t calm_ns;

static bool is_hostile(const struct world_rank *rank)
{
    return rank->node == hostile_node;
}

static bool anybody_hostile(void)
{
    return hostile_node >= 0;
}

static int number_of(const struct node *node)
{
    return node->rank->number;
}

static uint64_t tag_of(int stream, int src, uint32_t seq)
{
    uint64_t class = (seq * 7u + seq / 3u + (uint32_t)(src + stream)) % CLASSES;

    return class | (uint64_t)stream << CLASS_BITS | (uint64_t)src << SRC_AT |
           (uint64_t)seq << SEQ_AT;
}

static int stream_of(uint64_t tag)
{
    return (int)(tag >> CLASS_BITS) & ((1 << STREAM_BITS) - 1);
}

/* DST: -1 to a group. */
static uint64_t key_of(uint64_t tag, int dst)
{
    return tag * 1000003 + (uint64_t)(dst + 1);
}

/* Nothing has ended between the two. */
static bool pair_is_whole(const struct node *from, const struct node *to)
{
    if (is_hostile(from->rank) || is_hostile(to->rank) || from->rank->is_dead || to->rank->is_dead)
        return false;
    return !from->peers[number_of(to)].ended && !to->peers[number_of(from)].ended &&
           !to->saw_stranger_end && !from->saw_stranger_end;
}

/* Nor between any two members. */
static bool group_is_whole(const struct group *group)
{
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < i; k++)
            if (!pair_is_whole(&nodes[group->members[i]], &nodes[group->members[k]]))
                return false;
    return true;
}

/* NODE's place; -1: it has none. */
static int place_in(const struct group *group, const struct node *node)
{
    for (int i = 0; i < group->count; i++)
        if (group->members[i] == number_of(node))
            return i;
    return -1;
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
static bool is_garbled(const struct node *node, int src, int stream)
{
    return anybody_hostile() &&
           (src >= node->world->count || stream >= STREAMS || is_hostile(node->rank) ||
            is_hostile(&node->world->ranks[src]) || (stream && groups[stream - 1].hostile));
}

static void check_taken(struct node *node, const struct slot *slot, struct sent *sent, int src)
{
    struct world *world = node->world;
    const struct vbn_op *op = &slot->op;
    int stream = stream_of(op->tag);
    uint32_t seq = (uint32_t)(op->tag >> SEQ_AT);
    size_t have = op->len < slot->cap ? op->len : slot->cap;

    if (sent->taken)
        world_fail(world, "rank %d: message %u of rank %d, stream %d, is taken twice",
                   number_of(node), seq, src, stream);
    if (sent->len != op->len || (op->status == VBN_OK) != (op->len <= slot->cap))
        world_fail(world,
                   "rank %d: message %u of rank %d, stream %d, %zu bytes, arrives with %zu, "
                   "status %d",
                   number_of(node), seq, src, stream, sent->len, op->len, op->status);
    if (((op->tag ^ slot->tag) & slot->mask) || (slot->peer >= 0 && slot->peer != src))
        world_fail(world, "rank %d: a receive took what it did not ask for", number_of(node));
    if (op->peer != (vbn_peer_t *)node->peers[src].ep)
        world_fail(world, "rank %d: message %u of rank %d is said to be another's", number_of(node),
                   seq, src);
    if (!world_pattern_check(slot->buf, have, key_of(op->tag, stream ? -1 : number_of(node))))
        world_fail(world, "rank %d: message %u of rank %d, stream %d, arrived changed",
                   number_of(node), seq, src, stream);
}

static void message_taken(struct node *node, struct slot *slot)
{
    struct world *world = node->world;
    const struct vbn_op *op = &slot->op;
    int src = (int)(op->tag >> SRC_AT) & ((1 << SRC_BITS) - 1);
    int stream = stream_of(op->tag);
    uint32_t seq = (uint32_t)(op->tag >> SEQ_AT);

    if (is_garbled(node, src, stream))
        return;
    if (src >= world->count || stream >= STREAMS ||
        seq >= nodes[src].peers[number_of(node)].streams[stream].count) {
        if (!anybody_hostile()) /* its sender was told that it had arrived */
            world_fail(world, "rank %d: a message %llx that nobody sent", number_of(node),
                       (unsigned long long)op->tag);
        return;
    }
    struct sent *sent = &nodes[src].peers[number_of(node)].streams[stream].log[seq];
    check_taken(node, slot, sent, src);
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
    if (status == VBN_ERR_PROTOCOL && !anybody_hostile())
        world_fail(node->world, "rank %d: a sound peer is said to break the protocol",
                   rank->number);
    if (peer)
        peer->ended = true;
    else
        node->saw_stranger_end = true;
}

/* ---- groups ---- */

static void seat_open(struct node *node, struct seat *seat, const struct group *group, int index)
{
    vbn_peer_t *peers[WORLD_RANKS_MAX];
    struct vbn_error error;

    for (int i = 0; i < group->count; i++)
        peers[i] = (vbn_peer_t *)node->peers[group->members[i]].ep;
    seat->opened = true;
    seat->status = vbn_group_open(node->rank->ctx, (uint64_t)index, peers, (uint32_t)group->count,
                                  (uint32_t)place_in(group, node), &seat->group, &error);
    if (seat->status == VBN_OK)
        seat->status = VBN_PENDING;
}

static void seat_close(struct seat *seat)
{
    if (seat->group)
        vbn_group_close(seat->group);
    seat->group = NULL;
    seat->closed = true;
}

/* That a group cannot be used needs a reason; a completion queue that is too short is one. */
static bool may_fail(const struct world *world, const struct group *group)
{
    bool is_short = false;

    for (int i = 0; i < group->count; i++)
        is_short |= world->ranks[group->members[i]].options.cq_size < ENOUGH_CQES;
    return is_short || !world_is_sound(world) || world->plan.transport == FABRIC_IWARP;
}

/* A member has lost its queue pair: who has not heard it before, never will. */
static bool is_mute(const struct group *group, int index)
{
    for (int i = 0; i < group->count; i++) {
        const struct seat *seat = &nodes[group->members[i]].seats[index];
        if (seat->group && seat->status == VBN_OK && !seat->group->qp)
            return true;
    }
    return false;
}

/* Sees what becomes of a group. */
static void group_look(struct world *world, struct group *group, int index)
{
    int ready = 0, failed = group_is_whole(group) ? 0 : VBN_ERR_PEER_LOST;

    for (int i = 0; i < group->count; i++) {
        const struct seat *seat = &nodes[group->members[i]].seats[index];
        ready += seat->status == VBN_OK;
        if (seat->opened && seat->status < 0)
            failed = seat->status;
    }
    if (ready == group->count) {
        group->state = USABLE;
        return;
    }
    if (calm_ns && !failed && fabric_now_ns() > calm_ns + READY_NS) {
        failed = VBN_ERR_TIMEOUT;
        if (!is_mute(group, index))
            world_fail(world, "group %d is not ready", index);
    }
    if (failed && !may_fail(world, group))
        world_fail(world, "group %d cannot be used, without a fault: %s", index,
                   vbn_status_str(failed));
    if (failed)
        group->state = GIVEN_UP;
}

/* All of the others' has come. */
static bool has_all(const struct node *node, const struct group *group, int index)
{
    for (int i = 0; i < group->count; i++) {
        const struct node *from = &nodes[group->members[i]];
        const struct stream *stream = &from->peers[number_of(node)].streams[1 + index];
        if (from == node)
            continue;
        if (from->seats[index].to_send > 0)
            return false;
        for (uint32_t s = 0; s < stream->count; s++)
            if (!stream->log[s].taken)
                return false;
    }
    return true;
}

/* NODE has nothing to do with it any more. */
static bool seat_is_over(const struct node *node, int index)
{
    const struct group *group = &groups[index];

    if (group->state == GIVEN_UP || !group_is_whole(group))
        return true;
    return group->state == USABLE && node->seats[index].to_send == 0 && has_all(node, group, index);
}

static void seat_look(struct node *node, int index)
{
    struct seat *seat = &node->seats[index];
    struct group *group = &groups[index];

    if (place_in(group, node) < 0 || seat->closed)
        return;
    if (!seat->opened && (node->draining || fabric_random(8) == 0))
        seat_open(node, seat, group, index);
    if (seat->group && group->state == OPENING)
        seat->status = vbn_group_ready(seat->group);
    if (group->state == OPENING)
        group_look(node->world, group, index);
    if (!seat_is_over(node, index))
        return;
    seat->to_send = 0;
    if (fabric_random(4) == 0 && (!seat->stays || !group_is_whole(group)))
        seat_close(seat);
}

static bool anything_opening(void)
{
    for (int i = 0; i < GROUPS; i++)
        if (groups[i].count && groups[i].state == OPENING)
            return true;
    return false;
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
        world_fail(node->world, "rank %d: an operation is refused: %s", number_of(node),
                   vbn_status_str(rc));
}

static int other_pick(const struct node *node)
{
    int other = (int)fabric_random((uint64_t)node->world->count - 1);
    return other + (other >= number_of(node));
}

static size_t size_pick(void)
{
    switch (fabric_random(24)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return fabric_random(BUF_BYTES + 1);
    case 3:
        return BUF_BYTES; /* as long as most receives */
    case 4:
    case 5: /* whole datagrams, or nearly */
        return PART_BYTES * (1 + fabric_random(8)) - 17 + fabric_random(3);
    case 6:
    case 7:
    case 8:
    case 9:
        return fabric_random(9000);
    default:
        return fabric_random(200);
    }
}

static void note_sent(struct peer *peer, int stream, uint64_t tag, size_t len)
{
    struct stream *to = &peer->streams[stream];

    to->log = realloc(to->log, (to->count + 1) * sizeof(*to->log));
    to->log[to->count++] = (struct sent){.tag = tag, .len = len};
}

static void send_to_one(struct node *node, struct slot *slot)
{
    int other = other_pick(node);
    struct peer *peer = &node->peers[other];
    uint64_t tag = tag_of(0, number_of(node), peer->streams[0].count);

    node->to_send--;
    if (peer->ended)
        return;
    slot->cap = size_pick();
    world_pattern_fill(slot->buf, slot->cap, key_of(tag, other));
    int rc = vbn_tag_send(peer->ep, slot->buf, slot->cap, tag, &slot->op);
    if (rc >= 0)
        note_sent(peer, 0, tag, slot->cap);
    started(slot, rc);
}

static void send_to_group(struct node *node, struct slot *slot, int index)
{
    const struct group *group = &groups[index];
    struct seat *seat = &node->seats[index];
    int one = group->members[place_in(group, node) ? 0 : 1];
    uint64_t tag = tag_of(1 + index, number_of(node), node->peers[one].streams[1 + index].count);

    seat->to_send--;
    slot->cap = size_pick();
    world_pattern_fill(slot->buf, slot->cap, key_of(tag, -1));
    int rc = vbn_group_send(seat->group, slot->buf, slot->cap, tag, &slot->op);
    for (int i = 0; i < group->count && rc >= 0; i++)
        if (group->members[i] != number_of(node))
            note_sent(&node->peers[group->members[i]], 1 + index, tag, slot->cap);
    started(slot, rc);
}

static void send_one(struct node *node)
{
    int stream = (int)fabric_random(STREAMS);
    struct slot *slot = slot_get(node, true);

    if (!slot)
        return;
    if (stream == 0 && node->to_send > (anything_opening() ? node->to_keep : 0))
        send_to_one(node, slot);
    else if (stream && groups[stream - 1].state == USABLE && node->seats[stream - 1].to_send > 0)
        send_to_group(node, slot, stream - 1);
}

/* Draws what a receive asks for. Exact ones ask for a message of the near future or past. */
static void pattern_pick(struct node *node, struct slot *slot)
{
    uint64_t kind = node->draining ? 3 : fabric_random(4);
    int src = other_pick(node), stream = (int)fabric_random(STREAMS);

    slot->peer = kind == 2 || kind == 3 ? -1 : src;
    slot->mask = kind == 3 ? 0 : CLASSES - 1;
    slot->tag = fabric_random(CLASSES);
    if (kind == 0) {
        uint32_t near = nodes[src].peers[number_of(node)].streams[stream].count;
        uint32_t back = (uint32_t)fabric_random(6);
        slot->mask = VBN_TAG_MAX;
        slot->tag = tag_of(stream, src, near + 2 > back ? near + 2 - back : 0);
    }
}

/* What is sent to groups is not put. */
static bool may_tell_place(const struct slot *slot)
{
    return slot->mask == VBN_TAG_MAX && stream_of(slot->tag) == 0;
}

static void receive_one(struct node *node)
{
    struct slot *slot = slot_get(node, false);

    if (!slot)
        return;
    pattern_pick(node, slot);
    const struct peer *peer = slot->peer >= 0 ? &node->peers[slot->peer] : NULL;
    if (peer && peer->ended)
        return;
    slot->cap = fabric_random(4) ? BUF_BYTES : size_pick();
    memset(slot->buf + slot->cap, GUARD, GUARD_BYTES);
    slot->post = node->posts++;
    if (may_tell_place(slot) && fabric_random(4))
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

static void work(struct world *world, struct world_rank *rank)
{
    struct node *node = rank->user;

    for (int i = 0; i < GROUPS; i++)
        seat_look(node, i);
    for (uint64_t burst = fabric_random(9); burst > 0; burst--)
        send_one(node);
    if (node->draining) {
        receive_the_rest(node);
        return;
    }
    for (uint64_t burst = fabric_random(5); burst > 0; burst--)
        receive_one(node);
    if (fabric_random(4) == 0)
        cancel(&node->slots[fabric_random(SLOTS)]);
    if (world->plan.faults && fabric_random(2000) == 0)
        rank->stopped_until_ns = fabric_now_ns() + fabric_random(200000000);
}

/* ---- set up, wind down ---- */

static bool node_open(struct world *world, struct node *node, struct world_rank *rank)
{
    size_t stride = BUF_BYTES + GUARD_BYTES;

    node->world = world;
    node->rank = rank;
    rank->user = node;
    node->peers = calloc((size_t)world->count, sizeof(*node->peers));
    node->arena = calloc(SLOTS, stride);
    for (int i = 0; i < SLOTS; i++) {
        node->slots[i].node = node;
        node->slots[i].buf = node->arena + (size_t)i * stride;
    }
    node->to_send = (uint32_t)(20 + fabric_random(80));
    node->to_keep = node->to_send / 2;
    fabric_enter(rank->rank);
    for (int i = 0; i < world->count; i++) {
        struct peer *peer = &node->peers[i];
        if (i == rank->number)
            continue;
        peer->ep = world_endpoint(world, rank, &world->ranks[i], peer);
        if (!peer->ep)
            return false;
    }
    return true;
}

static void seat_init(struct node *node, int index)
{
    node->seats[index].status = VBN_PENDING;
    node->seats[index].stays = fabric_random(4) == 0;
    node->seats[index].to_send = (uint32_t)(5 + fabric_random(60));
    groups[index].hostile |= is_hostile(node->rank);
}

/* All ranks; or some, in another order, or none. */
static void group_init(struct world *world, struct group *group, int index)
{
    *group = (struct group){.members = calloc((size_t)world->count, sizeof(int))};
    for (int i = 0; i < world->count; i++)
        if (index == 0 || fabric_random(3))
            group->members[group->count++] = index ? world->count - 1 - i : i;
    if (group->count < 2)
        group->count = 0;
    for (int i = 0; i < group->count; i++)
        seat_init(&nodes[group->members[i]], index);
}

static const char *unsettled_group(const struct node *node, int index)
{
    const struct seat *seat = &node->seats[index];

    if (place_in(&groups[index], node) < 0)
        return NULL;
    if (groups[index].state == OPENING)
        return "has a group that is not ready";
    if (groups[index].state == USABLE && seat->to_send > 0)
        return "has messages that it could not send to a group";
    if (!seat->closed && (!seat->stays || !group_is_whole(&groups[index])))
        return "has a group that it could not close";
    return NULL;
}

static bool stream_is_whole(const struct node *from, const struct node *to, int stream)
{
    return stream ? group_is_whole(&groups[stream - 1]) : pair_is_whole(from, to);
}

/* A stream of NODE's to PEER of which something has not been taken; -1: none. */
static int stream_open(const struct world *world, const struct node *node, int *peer)
{
    for (*peer = 0; *peer < world->count; ++*peer)
        for (int s = 0; s < STREAMS; s++) {
            const struct stream *stream = &node->peers[*peer].streams[s];
            for (uint32_t i = 0; i < stream->count; i++)
                if (!stream->log[i].taken && stream_is_whole(node, &nodes[*peer], s))
                    return s;
        }
    return -1;
}

static const char *unsettled(const struct world *world, const struct world_rank *rank, int *peer)
{
    const struct node *node = rank->user;
    const char *what = NULL;

    if (!node->draining)
        return "has not been told of the calm";
    if (node->to_send > 0)
        return "has messages that it could not send";
    for (int i = 0; i < GROUPS && !what; i++)
        what = unsettled_group(node, i);
    if (what)
        return what;
    for (int i = 0; i < SLOTS / 2 && !anybody_hostile(); i++)
        if (node->slots[i].busy)
            return "has sends that do not end";
    for (int i = SLOTS / 2; i < SLOTS && !anybody_hostile(); i++)
        if (node->slots[i].busy && node->slots[i].mask)
            return "has receives that do not end though cancelled";
    switch (stream_open(world, node, peer)) {
    case -1:
        return NULL;
    case 0:
        return "has messages that are not received by";
    default:
        return "has messages to a group that are not received by";
    }
}

static void calmed(struct world *world)
{
    calm_ns = fabric_now_ns();
    for (int i = 0; i < world->count; i++)
        nodes[i].draining = true;
}

/* No receive may have taken a message while an earlier one that it fits was still to be had. */
static void check_order(struct world *world, int src, int dst, int stream)
{
    const struct stream *of = &nodes[src].peers[dst].streams[stream];

    for (uint32_t late = 0; late < of->count; late++)
        for (uint32_t early = 0; early < late && of->log[late].taken; early++) {
            const struct sent *e = &of->log[early], *l = &of->log[late];
            if (((e->tag ^ l->by_tag) & l->by_mask) == 0 && e->taken && e->by_post > l->by_post)
                world_fail(world, "rank %d: message %u of rank %d, stream %d, overtook message %u",
                           dst, late, src, stream, early);
        }
}

static void check_all_order(struct world *world)
{
    for (int src = 0; src < world->count; src++)
        for (int dst = 0; dst < world->count && !anybody_hostile(); dst++)
            for (int stream = 0; stream < STREAMS; stream++)
                check_order(world, src, dst, stream);
}

/* Under the plan's faults, for a while. */
static void meet(struct world *world)
{
    uint64_t limit_ns = fabric_now_ns() + MEET_NS;

    while (!world->failed && anything_opening() && fabric_now_ns() < limit_ns)
        world_turn(world, work);
}

void load_groups(struct world *world)
{
    bool ready = true;

    calm_ns = 0;
    nodes = calloc((size_t)world->count, sizeof(*nodes));
    world->endpoint_error = on_endpoint_error;
    hostile_node = world_hostile_node(world);
    world_failures_pause();
    for (int i = 0; i < world->count && ready; i++)
        ready = node_open(world, &nodes[i], &world->ranks[i]);
    world_failures_resume();
    for (int i = 0; i < GROUPS && ready; i++)
        group_init(world, &groups[i], i);
    if (ready) {
        meet(world);
        world_run(world, &(struct world_load){work, unsettled, calmed});
        check_all_order(world);
    }
}

/* After vbn_close(): what was not over has ended then. */
void load_groups_end(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        struct node *node = &nodes[i];
        if (node->rank && node->out > 0 && !node->rank->is_dead)
            world_fail(world, "rank %d: %u operations never ended", i, node->out);
        for (int k = 0; node->peers && k < world->count; k++)
            for (int s = 0; s < STREAMS; s++)
                free(node->peers[k].streams[s].log);
        free(node->peers);
        free(node->arena);
    }
    for (int i = 0; i < GROUPS; i++)
        free(groups[i].members);
    memset(groups, 0, sizeof(groups));
    free(nodes);
    nodes = NULL;
}
