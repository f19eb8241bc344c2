/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies in the middle of collectives, one after another by all ranks: those of everybody else
 * must end.
 */
#ifndef COLL_SIM_DEATH_H
#define COLL_SIM_DEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct death_outcome {
    uint64_t ended, failed; /* operations of those who live: all, and those with an error */
    uint64_t took_ms;       /* virtual, from the death until the last of them was over */
    char wrong[600];        /* "" if nothing is */
};

/* COLD: it may die before all pairs are connected. Whose operation failed closes its port. */
void death_run(uint64_t seed, bool cold, struct death_outcome *outcome);

#endif
