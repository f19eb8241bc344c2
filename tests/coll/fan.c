/* SPDX-License-Identifier: BSD-3-Clause */
#include "fan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* One that is not over, or of which some members have no message yet. */
struct cast {
    TAILQ_ENTRY(cast) entry;
    vbn_group_t *group;
    struct vbn_op *op;
    uint32_t next, left; /* the member to send to next; messages under way */
    int status;
    struct vbn_op part[FAN_RANKS];
};
TAILQ_HEAD(casts, cast);

struct vbn_group {
    uint32_t count, me;
    struct casts casts;
    vbn_peer_t *peers[FAN_RANKS];
};

struct fan_rank fan_ranks[FAN_RANKS];
static const struct vbn_transport *fan_under;

static void drop(struct cast *c)
{
    TAILQ_REMOVE(&c->group->casts, c, entry);
    free(c);
}

static void part_done(struct vbn_op *part)
{
    struct cast *c = part->arg;
    struct vbn_op *op = c->op;

    c->status = part->status == VBN_OK ? c->status : part->status;
    if (--c->left || c->next < c->group->count)
        return;
    op->status = c->status;
    drop(c);
    op->done(op);
}

/* That of OP, of which some has gone out already, or a new one. */
static struct cast *cast_of(vbn_group_t *group, struct vbn_op *op)
{
    struct cast *c;

    TAILQ_FOREACH(c, &group->casts, entry)
    if (c->op == op)
        return c;
    c = calloc(1, sizeof(*c));
    c->group = group;
    c->op = op;
    TAILQ_INSERT_TAIL(&group->casts, c, entry);
    for (uint32_t i = 0; i < group->count; i++) {
        c->part[i].done = part_done;
        c->part[i].arg = c;
    }
    return c;
}

static int fan_send(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                    struct vbn_op *op)
{
    struct cast *c = cast_of(group, op);
    int status = VBN_OK;

    for (; c->next < group->count; c->next++) {
        if (c->next == group->me)
            continue;
        c->left++; /* it may be over before send() returns */
        status = fan_under->send(group->peers[c->next], buf, len, tag, &c->part[c->next]);
        c->left -= status != VBN_PENDING;
        if (status == VBN_ERR_AGAIN)
            return status;
        if (status < 0)
            c->status = status;
    }
    fan_ranks[group->me].casts++;
    op->status = VBN_PENDING;
    if (c->left)
        return VBN_PENDING;
    op->status = status = c->status;
    drop(c);
    return status;
}

static int fan_open(vbn_port_t *port, uint64_t key, vbn_peer_t *const *peers, uint32_t count,
                    uint32_t me, vbn_group_t **group, struct vbn_error *err)
{
    (void)port;
    (void)err;
    assert(count > 1 && count <= FAN_RANKS && me < count);
    fan_ranks[me].opened++;
    fan_ranks[me].key = key;
    if (fan_ranks[me].open != VBN_OK)
        return fan_ranks[me].open;
    *group = calloc(1, sizeof(**group));
    (*group)->count = count;
    (*group)->me = me;
    memcpy((*group)->peers, peers, count * sizeof(vbn_peer_t *));
    TAILQ_INIT(&(*group)->casts);
    return VBN_OK;
}

static int fan_ready(const vbn_group_t *group)
{
    fan_ranks[group->me].asked++;
    return fan_ranks[group->me].ready;
}

/* What is not over belongs to requests that are: it was to go to those who are dead. */
static void fan_close(vbn_group_t *group)
{
    fan_ranks[group->me].closed++;
    while (!TAILQ_EMPTY(&group->casts))
        drop(TAILQ_FIRST(&group->casts));
    free(group);
}

struct vbn_transport fan_table(const struct vbn_transport *under)
{
    struct vbn_transport table = *under;

    fan_under = under;
    memset(fan_ranks, 0, sizeof(fan_ranks));
    table.group_open = fan_open;
    table.group_ready = fan_ready;
    table.group_send = fan_send;
    table.group_close = fan_close;
    return table;
}

void fan_give(vbn_team_t *team)
{
    int status = team->tr->group_open(team->port, 0, team->peers, team->size, team->rank,
                                      &team->group.group, NULL);

    assert(status == VBN_OK);
    (void)status;
    team->group.state = VBN_GROUP_ON;
}

unsigned fan_casts(void)
{
    unsigned casts = 0;

    for (uint32_t i = 0; i < FAN_RANKS; i++)
        casts += fan_ranks[i].casts;
    return casts;
}
