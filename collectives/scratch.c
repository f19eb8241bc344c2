/* SPDX-License-Identifier: BSD-3-Clause */
#include "scratch.h"
#include "team.h"

#include <stdlib.h>

#define REST_MAX ((size_t)4 << 20) /* bytes of a team's at rest */

static void drop(vbn_team_t *team, struct vbn_scratch *s)
{
    if (s->region)
        team->tr->mem_deregister(s->region);
    free(s->bytes);
    free(s);
}

/* All of LIST, which is of no use afterwards. */
static void drop_all(vbn_team_t *team, struct vbn_scratch_list *list)
{
    struct vbn_scratch *s, *next;

    for (s = TAILQ_FIRST(list); s; s = next) {
        next = TAILQ_NEXT(s, entry);
        drop(team, s);
    }
}

static void wake(vbn_team_t *team, struct vbn_scratch *s)
{
    TAILQ_REMOVE(&team->scratch, s, entry);
    team->scratch_bytes -= s->room;
}

static struct vbn_scratch *make(vbn_team_t *team, size_t len)
{
    struct vbn_scratch *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->bytes = aligned_alloc(VBN_SCHED_ALIGN, len);
    s->room = len;
    if (!s->bytes) {
        free(s);
        return NULL;
    }
    if (len >= VBN_SCRATCH_LONG && team->tr->mem_register &&
        team->tr->mem_register(team->port, s->bytes, len,
                               VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ |
                                   VBN_ACCESS_REMOTE_WRITE,
                               &s->region) != VBN_OK)
        s->region = NULL;
    return s;
}

struct vbn_scratch *vbn_scratch_get(vbn_team_t *team, size_t len)
{
    struct vbn_scratch *s, *best = NULL;

    TAILQ_FOREACH(s, &team->scratch, entry)
    {
        if (s->room >= len && (!best || s->room < best->room))
            best = s;
    }
    if (!best)
        return make(team, len);
    wake(team, best);
    return best;
}

void vbn_scratch_put(vbn_team_t *team, struct vbn_scratch *s)
{
    struct vbn_scratch_list old = TAILQ_HEAD_INITIALIZER(old);
    struct vbn_scratch *oldest;

    if (!s)
        return;
    if (s->room < VBN_SCRATCH_LONG || s->room > REST_MAX) {
        drop(team, s);
        return;
    }
    while (s->room > REST_MAX - team->scratch_bytes) {
        oldest = TAILQ_LAST(&team->scratch, vbn_scratch_list);
        wake(team, oldest);
        TAILQ_INSERT_HEAD(&old, oldest, entry);
    }
    drop_all(team, &old);
    TAILQ_INSERT_HEAD(&team->scratch, s, entry);
    team->scratch_bytes += s->room;
}

void vbn_scratch_fini(vbn_team_t *team)
{
    drop_all(team, &team->scratch);
    TAILQ_INIT(&team->scratch);
    team->scratch_bytes = 0;
}
