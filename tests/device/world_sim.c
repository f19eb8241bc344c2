/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated fabric, with the habits of soft-RoCE where devices differ. Time is virtual. */
#include "world.h"

#include "../sim/fabric.h"

#include <stdio.h>

#define LIMIT_NS  20000000000u
#define SETTLE_NS 300000000u

static int nodes[SIDES], ranks[SIDES];
static uint64_t deadline_ns;
static bool misuse;

void world_open(void)
{
    struct fabric_config config = {.quiet = true};

    fabric_create(1, &config);
    for (int side = A; side < SIDES; side++) {
        nodes[side] = fabric_node_add(NULL);
        ranks[side] = fabric_rank_add(nodes[side]);
    }
    misuse = false;
}

bool world_close(void)
{
    if (misuse)
        fabric_violations_clear();
    fabric_config()->quiet = false;
    for (int i = 0; fabric_violation_text(i); i++)
        fprintf(stderr, "%s\n", fabric_violation_text(i));
    return fabric_destroy() == 0;
}

void world_enter(int side)
{
    fabric_enter(ranks[side]);
}

const char *world_device(int side)
{
    static char name[SIDES][16];

    snprintf(name[side], sizeof(name[side]), "sim%d", nodes[side]);
    return name[side];
}

void world_address(int side, struct sockaddr_storage *addr)
{
    fabric_node_addr(nodes[side], addr);
}

void world_wait_begin(void)
{
    deadline_ns = fabric_now_ns() + LIMIT_NS;
}

bool world_wait(void)
{
    return fabric_now_ns() < deadline_ns && fabric_step() > 0;
}

void world_settle(void)
{
    fabric_advance(SETTLE_NS);
}

void world_misuse(void)
{
    misuse = true;
}

bool world_may(enum quirk quirk)
{
    (void)quirk;
    return false;
}

bool world_link_set(bool up)
{
    for (int side = A; side < SIDES; side++)
        fabric_link_set(nodes[side], up);
    return true;
}
