/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A team's group, by which one send reaches all other ranks, and how the ranks come to use it all
 * from the same call on.
 *
 * Operation. All ranks number the team's calls alike. Before the first call that blocks from number
 * OPEN_AT on, a rank opens the group, which sends nothing that others wait for. From number VOTE_AT
 * on, before later calls that block, all vote by an allreduce that is a call like any other: where
 * all are ready, the team has a group; where one never will be, it has none; otherwise they vote
 * again when there have been twice as many calls, and give up after VOTES.
 *
 * Errors. Who could not open the group says so in the vote. A vote that fails is the caller's call
 * that fails.
 */
#include "error.h"
#include "hash.h"
#include "team.h"

#define OPEN_AT  8u
#define VOTE_AT  16u
#define VOTES    9u /* the last at 4096 */
#define SIZE_MIN 3u /* ranks: to one other a send is enough */

enum { NEVER, NOT_YET, READY }; /* the least counts */

/* By what all ranks know alike: who has no group in its transport says so in the vote. */
void vbn_group_init(vbn_team_t *team, uint64_t seed)
{
    bool may = team->opts.group && team->size >= SIZE_MIN;

    team->group =
        (struct vbn_team_group){.state = may ? VBN_GROUP_NONE : VBN_GROUP_OFF,
                                .key = vbn_hash_word(vbn_hash_word(seed, team->id), team->size),
                                .vote_at = VOTE_AT};
}

void vbn_group_fini(vbn_team_t *team)
{
    if (team->group.group)
        team->tr->group_close(team->group.group);
    team->group.group = NULL;
}

static void cannot(const vbn_team_t *team, const char *why)
{
    vbn_team_log(team, VBN_LOG_INFO, "team %u: rank %u cannot be in a group: %s", team->id,
                 team->rank, why);
}

/* The next vote is when there have been twice as many calls as before the last, or more. */
static void put_off(vbn_team_t *team)
{
    while (team->group.vote_at <= team->next_seq[VBN_REQ_ONCE])
        team->group.vote_at *= 2;
}

static int try_to_open(vbn_team_t *team, struct vbn_error *err)
{
    if (!VBN_TRANSPORT_HAS(team->tr, group_open))
        return vbn_error_set(err, VBN_ERR_DEVICE, "its transport has none");
    return team->tr->group_open(team->port, team->group.key, team->peers, team->size, team->rank,
                                &team->group.group, err);
}

static void open_group(vbn_team_t *team)
{
    struct vbn_team_group *g = &team->group;
    struct vbn_error err = {.text = ""};
    int status = try_to_open(team, &err);

    g->state = VBN_GROUP_TRIED;
    put_off(team);
    if (status == VBN_OK)
        return;
    g->group = NULL;
    cannot(team, *err.text ? err.text : vbn_status_str(status));
}

static int32_t opinion(const vbn_team_t *team)
{
    int status;

    if (!team->group.group)
        return NEVER;
    status = team->tr->group_ready(team->group.group);
    if (status == VBN_OK || status == VBN_PENDING)
        return status == VBN_OK ? READY : NOT_YET;
    cannot(team, vbn_status_str(status));
    return NEVER;
}

static int start_vote(vbn_team_t *team, vbn_coll_req_t **req, struct vbn_error *err)
{
    struct vbn_team_group *g = &team->group;
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_ALLREDUCE,
                                 .sendbuf = VBN_IN_PLACE,
                                 .recvbuf = &g->vote,
                                 .count = 1,
                                 .dtype = VBN_INT32,
                                 .op = VBN_MIN};
    int status;

    g->vote = opinion(team);
    status = vbn_coll_istart(team, &args, req, err);
    if (status != VBN_OK)
        return status;
    g->ballot = *req;
    g->votes++;
    put_off(team);
    return VBN_OK;
}

int vbn_team_vote(vbn_team_t *team, vbn_coll_req_t **req, struct vbn_error *err)
{
    struct vbn_team_group *g;
    uint32_t number;

    if (!team || !req)
        return vbn_error_set(err, VBN_ERR_INVALID, "a vote needs a team and a request");
    *req = NULL;
    g = &team->group;
    number = team->next_seq[VBN_REQ_ONCE] + 1u;
    if (!vbn_group_undecided(team) || number < OPEN_AT)
        return VBN_OK;
    if (g->state == VBN_GROUP_NONE)
        open_group(team);
    return number < g->vote_at ? VBN_OK : start_vote(team, req, err);
}

static void settle(vbn_team_t *team, enum vbn_group_state state, const char *why)
{
    team->group.state = state;
    if (state == VBN_GROUP_OFF)
        vbn_group_fini(team);
    vbn_team_log(team, VBN_LOG_INFO, "team %u of %u ranks has %s: %s", team->id, team->size,
                 state == VBN_GROUP_ON ? "a group" : "no group", why);
}

void vbn_group_decide(vbn_team_t *team, int status)
{
    struct vbn_team_group *g = &team->group;

    g->ballot = NULL;
    if (status != VBN_OK)
        settle(team, VBN_GROUP_OFF, "the vote failed");
    else if (g->vote == READY)
        settle(team, VBN_GROUP_ON, "all ranks have heard all others");
    else if (g->vote == NEVER)
        settle(team, VBN_GROUP_OFF, "not all ranks can be in one");
    else if (g->votes == VOTES)
        settle(team, VBN_GROUP_OFF, "not all ranks have heard all others");
}
