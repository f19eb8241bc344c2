/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scratch: the memory that a call needs while it runs. What is long is registered, once, and goes
 * from call to call: a team keeps some of it at rest. What is short stays with its request.
 */
#ifndef VBN_SCRATCH_H
#define VBN_SCRATCH_H

#include "verbena_coll.h"

#include <sys/queue.h>

struct vbn_scratch {
    TAILQ_ENTRY(vbn_scratch) entry; /* in team->scratch, at rest */
    uint8_t *bytes;
    size_t room;
    vbn_region_t *region; /* NULL: short, or it cannot be registered: messages are, one by one */
};

TAILQ_HEAD(vbn_scratch_list, vbn_scratch);

#define VBN_SCRATCH_LONG ((size_t)8 << 10) /* bytes from which it is registered */

/* At least LEN bytes (a multiple of VBN_SCHED_ALIGN), one that is at rest if it can be. NULL: no
 * memory. */
struct vbn_scratch *vbn_scratch_get(vbn_team_t *team, size_t len);

/* S (may be NULL) is not needed any more. */
void vbn_scratch_put(vbn_team_t *team, struct vbn_scratch *s);

/* Frees all that TEAM has at rest. */
void vbn_scratch_fini(vbn_team_t *team);

#endif
