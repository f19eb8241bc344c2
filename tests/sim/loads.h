/* SPDX-License-Identifier: BSD-3-Clause */
/* The workloads over the transport: each drives a world that is open, and leaves it open. */
#ifndef VBN_TESTS_SIM_LOADS_H
#define VBN_TESTS_SIM_LOADS_H

#include "world.h"

struct load {
    const char *name;
    void (*run)(struct world *world);
    void (*end)(struct world *world); /* after all contexts are closed */
    bool by_name;                     /* run only where asked for */
    int most;                         /* ranks that are drawn; 0: as the world draws them */
};

void load_random(struct world *world);
void load_random_end(struct world *world);
void load_crowd(struct world *world);
void load_crowd_end(struct world *world);
void load_tagged(struct world *world);
void load_tagged_end(struct world *world);
void load_groups(struct world *world);
void load_groups_end(struct world *world);
void load_storm(struct world *world);
void load_storm_end(struct world *world);

#endif
