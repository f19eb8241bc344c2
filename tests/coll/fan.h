/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups for a transport that has none: what is sent to the group is sent to each member. One
 * transport at a time.
 */
#ifndef FAN_H
#define FAN_H

#include "team.h"

#define FAN_RANKS 64u

/* By rank: what group_open() and group_ready() say, and how often which was called. */
struct fan_rank {
    int open, ready;
    unsigned opened, asked, closed, casts;
    uint64_t key; /* that it was opened with last */
};

extern struct fan_rank fan_ranks[FAN_RANKS];

/* UNDER with groups; all ranks can, and nothing has been called. */
struct vbn_transport fan_table(const struct vbn_transport *under);

/* TEAM, of a transport with groups, has one, without a vote. */
void fan_give(vbn_team_t *team);

/* Casts of all ranks. */
unsigned fan_casts(void);

#endif
