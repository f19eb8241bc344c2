/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tagged messages from one to one (messages.h), of every size from nothing to several rendezvous,
 * out of memory that half of the ranks have lent to the transport; among probes, and ranks that
 * stop or are killed.
 */
#include "loads.h"
#include "messages.h"

enum { BUF_BYTES = 40000 };

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

/* Half of the ranks lend their buffers. */
static bool prepare(struct node *node)
{
    vbn_mem_t *mem = NULL;
    int rc;

    if (!fabric_random(2))
        return true;
    rc = vbn_mem_register(node->rank->ctx, node->arena, node->arena_bytes,
                          VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ, &mem);
    if (rc == VBN_OK)
        vbn_mem_lend(mem);
    else
        world_fail(node->world, "rank %d cannot register: %s", node->rank->number,
                   vbn_status_str(rc));
    return rc == VBN_OK;
}

static const struct messages_kind kind = {
    .buf_bytes = BUF_BYTES,
    .spread = 100,
    .streams = 1,
    .size_pick = size_pick,
    .prepare = prepare,
};

static void send_one(struct node *node)
{
    int other = messages_other_pick(node);
    struct slot *slot = messages_slot(node, true);

    if (slot)
        messages_send(node, slot, other);
}

static void probe_one(struct node *node)
{
    struct vbn_op found = {0};
    uint64_t tag = fabric_random(MESSAGES_CLASSES), mask = MESSAGES_CLASSES - 1;

    if (vbn_tag_probe(node->rank->ctx, NULL, tag, mask, &found) == VBN_OK &&
        !messages_anybody_hostile() && (found.tag & mask) != tag)
        world_fail(node->world, "rank %d: a probe found another tag", node->rank->number);
}

static void work(struct world *world, struct world_rank *rank)
{
    struct node *node = rank->user;

    for (uint64_t burst = fabric_random(6); burst > 0 && node->to_send > 0; burst--)
        send_one(node);
    messages_receive(node);
    if (node->draining)
        return;
    if (fabric_random(20) == 0)
        probe_one(node);
    if (world->plan.kills && fabric_random(2000) == 0)
        rank->stopped_until_ns = fabric_now_ns() + fabric_random(200000000);
}

void load_tagged(struct world *world)
{
    if (!messages_open(world, &kind))
        return;
    world_run(world, &(struct world_load){work, messages_unsettled, messages_calmed});
    messages_check_order(world);
}

void load_tagged_end(struct world *world)
{
    messages_close(world);
}
