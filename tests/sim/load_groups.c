/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to groups, of all ranks and of some, among tagged ones from one to one (messages.h): a
 * group is a stream, and the receives may be for any.
 *
 * Each member opens its groups when it likes. Once all of them have said that they are ready, which
 * the load sees, being one process, they send to it; a group of which one says that it never will
 * be is closed by all. A member closes a group when it has sent all, which need not have left, and
 * has got all of the others'; or leaves that to vbn_close().
 *
 * What must hold too: where no member has lost another, what was sent to a group is taken by each
 * of them.
 */
#include "loads.h"
#include "messages.h"

#include "group.h"

#include <stdlib.h>
#include <string.h>

enum {
    GROUPS = 2,
    STREAMS = 1 + GROUPS,
    BUF_BYTES = 70000,  /* more than a window of datagrams */
    PART_BYTES = 1008,  /* of a message in a datagram */
    ENOUGH_CQES = 1024, /* in a completion queue, for any group here */
};

#define MEET_NS  UINT64_C(2000000000)  /* in which groups get ready, before all else goes on */
#define READY_NS UINT64_C(10000000000) /* of calm, after which they must have been */

/* A member's view of a group. */
struct seat {
    int number;         /* the member's */
    vbn_group_t *group; /* NULL: not yet, not any more, or never */
    bool opened, closed;
    /* vbn_close() closes it, or the loss of a member, whose messages may be half here. */
    bool stays;
    int status;
    uint32_t to_send;
};

struct group {
    struct seat *seats;
    int count;
    enum { OPENING, USABLE, GIVEN_UP } state;
    bool hostile; /* a member is */
};

static struct group groups[GROUPS];
static uint64_t calm_ns;

/* Nothing has ended between any two members. */
static bool group_is_whole(const struct group *group)
{
    for (int i = 0; i < group->count; i++)
        for (int k = 0; k < i; k++)
            if (!messages_pair_is_whole(messages_node(group->seats[i].number),
                                        messages_node(group->seats[k].number)))
                return false;
    return true;
}

/* NODE's; NULL: it has none. */
static struct seat *seat_of(const struct group *group, const struct node *node)
{
    for (int i = 0; i < group->count; i++)
        if (group->seats[i].number == node->rank->number)
            return &group->seats[i];
    return NULL;
}

/* ---- groups ---- */

static void seat_open(struct node *node, struct seat *seat, const struct group *group, int index)
{
    vbn_peer_t *peers[WORLD_RANKS_MAX];
    struct vbn_error error;

    for (int i = 0; i < group->count; i++)
        peers[i] = (vbn_peer_t *)node->peers[group->seats[i].number].ep;
    seat->opened = true;
    seat->status = vbn_group_open(node->rank->ctx, (uint64_t)index, peers, (uint32_t)group->count,
                                  (uint32_t)(seat - group->seats), &seat->group, &error);
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
        is_short |= world->ranks[group->seats[i].number].options.cq_size < ENOUGH_CQES;
    return is_short || !world_is_sound(world) || world->plan.transport == FABRIC_IWARP;
}

/* A member has lost its queue pair: who has not heard it before, never will. */
static bool is_mute(const struct group *group)
{
    for (int i = 0; i < group->count; i++) {
        const struct seat *seat = &group->seats[i];
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
        const struct seat *seat = &group->seats[i];
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
        if (!is_mute(group))
            world_fail(world, "group %d is not ready", index);
    }
    if (failed && !may_fail(world, group))
        world_fail(world, "group %d cannot be used, without a fault: %s", index,
                   vbn_status_str(failed));
    if (failed)
        group->state = GIVEN_UP;
}

/* All of the others' has come. */
static bool has_all(const struct node *node, const struct group *group)
{
    int stream = 1 + (int)(group - groups);

    for (int i = 0; i < group->count; i++) {
        const struct seat *seat = &group->seats[i];
        const struct node *from = messages_node(seat->number);
        if (from == node)
            continue;
        if (seat->to_send > 0 || messages_untaken(from, node, stream))
            return false;
    }
    return true;
}

/* NODE has nothing to do with it any more. */
static bool seat_is_over(const struct node *node, const struct seat *seat,
                         const struct group *group)
{
    if (group->state == GIVEN_UP || !group_is_whole(group))
        return true;
    return group->state == USABLE && seat->to_send == 0 && has_all(node, group);
}

static void seat_look(struct node *node, int index)
{
    struct group *group = &groups[index];
    struct seat *seat = seat_of(group, node);

    if (!seat || seat->closed)
        return;
    if (!seat->opened && (node->draining || fabric_random(8) == 0))
        seat_open(node, seat, group, index);
    if (seat->group && group->state == OPENING)
        seat->status = vbn_group_ready(seat->group);
    if (group->state == OPENING)
        group_look(node->world, group, index);
    if (!seat_is_over(node, seat, group))
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

/* ---- messages ---- */

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

static void send_to_group(struct node *node, struct slot *slot, int index)
{
    const struct group *group = &groups[index];
    struct seat *seat = seat_of(group, node);
    int one = group->seats[seat == group->seats ? 1 : 0].number, stream = 1 + index;
    uint64_t tag =
        messages_tag(stream, node->rank->number, -1, node->peers[one].streams[stream].count);

    seat->to_send--;
    messages_fill(slot, tag, -1);
    int rc = vbn_group_send(seat->group, slot->buf, slot->cap, tag, &slot->op);
    for (int i = 0; i < group->count && rc >= 0; i++)
        if (&group->seats[i] != seat)
            messages_sent(&node->peers[group->seats[i].number], stream, tag, slot);
    messages_begun(slot, rc);
}

static bool may_send_to_group(const struct node *node, int index)
{
    const struct seat *seat = seat_of(&groups[index], node);

    return groups[index].state == USABLE && seat && seat->to_send > 0;
}

/* Half is kept until it is known what becomes of the groups. */
static void send_one(struct node *node)
{
    int stream = (int)fabric_random(STREAMS);
    struct slot *slot = messages_slot(node, true);

    if (!slot)
        return;
    if (stream == 0 && node->to_send > (anything_opening() ? node->planned / 2 : 0))
        messages_send(node, slot, messages_other_pick(node));
    else if (stream && may_send_to_group(node, stream - 1))
        send_to_group(node, slot, stream - 1);
}

static void work(struct world *world, struct world_rank *rank)
{
    struct node *node = rank->user;

    for (int i = 0; i < GROUPS; i++)
        seat_look(node, i);
    for (uint64_t burst = fabric_random(9); burst > 0; burst--)
        send_one(node);
    messages_receive(node);
    if (node->draining)
        return;
    if (world->plan.faults && fabric_random(2000) == 0)
        rank->stopped_until_ns = fabric_now_ns() + fabric_random(200000000);
}

/* ---- set up, wind down ---- */

static bool prepare(struct node *node)
{
    for (int i = 0; i < node->world->count; i++)
        if (i != node->rank->number && !messages_peer(node, i))
            return false;
    return true;
}

static bool is_whole(int stream)
{
    return group_is_whole(&groups[stream - 1]);
}

static bool is_garbled(int stream)
{
    return groups[stream - 1].hostile;
}

static const struct messages_kind kind = {
    .buf_bytes = BUF_BYTES,
    .spread = 80,
    .streams = STREAMS,
    .stream_bits = 2,
    .key = 1,
    .size_pick = size_pick,
    .prepare = prepare,
    .is_whole = is_whole,
    .is_garbled = is_garbled,
};

static void seat_init(struct group *group, struct seat *seat)
{
    seat->status = VBN_PENDING;
    seat->stays = fabric_random(4) == 0;
    seat->to_send = (uint32_t)(5 + fabric_random(60));
    group->hostile |= messages_is_hostile(messages_node(seat->number));
}

/* All ranks; or some, in another order, or none. */
static void group_init(struct world *world, struct group *group, int index)
{
    *group = (struct group){.seats = calloc((size_t)world->count, sizeof(*group->seats))};
    for (int i = 0; i < world->count; i++)
        if (index == 0 || fabric_random(3))
            group->seats[group->count++].number = index ? world->count - 1 - i : i;
    if (group->count < 2)
        group->count = 0;
    for (int i = 0; i < group->count; i++)
        seat_init(group, &group->seats[i]);
}

static const char *unsettled_group(const struct node *node, const struct group *group)
{
    const struct seat *seat = seat_of(group, node);

    if (!seat)
        return NULL;
    if (group->state == OPENING)
        return "has a group that is not ready";
    if (group->state == USABLE && seat->to_send > 0)
        return "has messages that it could not send to a group";
    if (!seat->closed && (!seat->stays || !group_is_whole(group)))
        return "has a group that it could not close";
    return NULL;
}

static const char *unsettled(const struct world *world, const struct world_rank *rank, int *peer)
{
    const char *what = NULL;

    for (int i = 0; i < GROUPS && !what; i++)
        what = unsettled_group(rank->user, &groups[i]);
    return what ? what : messages_unsettled(world, rank, peer);
}

static void calmed(struct world *world)
{
    calm_ns = fabric_now_ns();
    messages_calmed(world);
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
    calm_ns = 0;
    if (!messages_open(world, &kind))
        return;
    for (int i = 0; i < GROUPS; i++)
        group_init(world, &groups[i], i);
    meet(world);
    world_run(world, &(struct world_load){work, unsettled, calmed});
    messages_check_order(world);
}

void load_groups_end(struct world *world)
{
    messages_close(world);
    for (int i = 0; i < GROUPS; i++)
        free(groups[i].seats);
    memset(groups, 0, sizeof(groups));
}
