/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All ranks talk to all: every pair connects, from both sides at once, and exchanges messages of
 * every kind of size. Tells what a connected peer costs in memory.
 *
 *     simulate --load crowd --ranks 256 --calm --defaults
 */
#include "loads.h"

#include <stdlib.h>
#include <string.h>

enum { AM_CROWD = 4, MESSAGES = 4, LIMIT_MS = 120000, TURNS_PER_LOOK = 8 };

/* What is sent: a number of that pair, and as many bytes as go with it. */
struct crowd_msg {
    uint32_t src, number;
};

struct member {
    struct world *world;
    struct world_rank *rank;
    vbn_endpoint_t **eps;
    uint32_t *sent, *received; /* by peer */
};

static struct member *members;
static uint64_t missing; /* messages that are still to arrive */

static size_t length_of(uint32_t number)
{
    static const size_t lengths[MESSAGES] = {sizeof(struct crowd_msg), 200, 1000, 8000};
    return lengths[number % MESSAGES];
}

static void on_message(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct member *me = arg;
    struct crowd_msg msg;
    (void)ep;
    (void)id;
    memcpy(&msg, data, sizeof(msg));
    if ((int)msg.src >= me->world->count || msg.number != me->received[msg.src] ||
        len != length_of(msg.number) ||
        !world_pattern_check((char *)data + sizeof(msg), len - sizeof(msg), msg.src)) {
        world_fail(me->world, "rank %d: a wrong message", me->rank->number);
        return;
    }
    me->received[msg.src]++;
    missing--;
}

static void on_endpoint_error(struct world_rank *rank, vbn_endpoint_t *ep, int status)
{
    (void)ep;
    world_fail(members[rank->number].world, "rank %d: an endpoint ended: %s", rank->number,
               vbn_status_str(status));
}

static void send_next(struct member *me, int to)
{
    static unsigned char body[8192];
    struct crowd_msg msg = {(uint32_t)me->rank->number, me->sent[to]};
    size_t len = length_of(msg.number) - sizeof(msg);
    world_pattern_fill(body, len, msg.src);
    struct iovec iov[2] = {{&msg, sizeof(msg)}, {body, len}};
    if (vbn_am_send(me->eps[to], AM_CROWD, iov, 2) == VBN_OK)
        me->sent[to]++;
}

static void work(struct world *world, struct world_rank *rank)
{
    struct member *me = &members[rank->number];
    for (int i = 1; i < world->count; i++) {
        int to = (rank->number + i) % world->count;
        if (me->sent[to] < MESSAGES)
            send_next(me, to);
    }
}

static bool member_open(struct world *world, struct member *me, struct world_rank *rank)
{
    size_t count = (size_t)world->count;
    me->world = world;
    me->rank = rank;
    me->eps = calloc(count, sizeof(vbn_endpoint_t *));
    me->sent = calloc(count, sizeof(*me->sent));
    me->received = calloc(count, sizeof(*me->received));
    fabric_enter(rank->rank);
    vbn_am_handler(rank->ctx, AM_CROWD, on_message, me);
    return me->eps && me->sent && me->received;
}

static void endpoints_make(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        fabric_enter(world->ranks[i].rank);
        for (int j = 0; j < world->count && !world->failed; j++)
            if (i != j)
                members[i].eps[j] = world_endpoint(world, &world->ranks[i], &world->ranks[j], NULL);
    }
}

static void connect_all(struct world *world, struct world_rank *rank)
{
    struct member *me = &members[rank->number];
    for (int i = 0; i < world->count; i++)
        if (me->eps[i])
            vbn_endpoint_connect(me->eps[i]);
}

static bool all_connected(struct world *world)
{
    for (int i = 0; i < world->count; i++)
        for (int j = 0; j < world->count; j++)
            if (i != j && !vbn_endpoint_connected(members[i].eps[j]))
                return false;
    return true;
}

static bool all_arrived(struct world *world)
{
    (void)world;
    return missing == 0;
}

static void turns_until(struct world *world, bool (*over)(struct world *),
                        void (*act)(struct world *, struct world_rank *))
{
    uint64_t limit_ns = fabric_now_ns() + LIMIT_MS * 1000000ull;
    while (!world->failed && !over(world)) {
        for (int i = 0; i < TURNS_PER_LOOK && !world->failed; i++)
            world_turn(world, act);
        if (fabric_now_ns() > limit_ns)
            world_fail(world, "no end; %llu messages have not arrived",
                       (unsigned long long)missing);
    }
}

void load_crowd(struct world *world)
{
    uint64_t ranks = (uint64_t)world->count, peers = ranks * (ranks - 1);
    uint64_t alone, connected;
    members = calloc((size_t)world->count, sizeof(*members));
    world->endpoint_error = on_endpoint_error;
    missing = peers * MESSAGES;
    for (int i = 0; i < world->count; i++)
        if (!member_open(world, &members[i], &world->ranks[i]))
            world_fail(world, "no memory for the members");
    alone = fabric_alloc_bytes();
    endpoints_make(world);
    turns_until(world, all_connected, connect_all);
    connected = fabric_alloc_bytes();
    turns_until(world, all_arrived, work);
    if (!world->failed)
        printf("crowd: %llu ranks, %llu connected peers; bytes: %llu a context alone, %llu a peer "
               "when connected, %llu once it has talked\n",
               (unsigned long long)ranks, (unsigned long long)peers,
               (unsigned long long)(alone / ranks),
               (unsigned long long)((connected - alone) / peers),
               (unsigned long long)((fabric_alloc_bytes() - alone) / peers));
}

void load_crowd_end(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        free(members[i].eps);
        free(members[i].sent);
        free(members[i].received);
    }
    free(members);
    members = NULL;
}
