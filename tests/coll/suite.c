/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"
#include "suite_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS_MAX 2000000u /* of progress, until a case counts as hung where nobody watches */
#define WARM_UP   64u      /* calls until a team has a group, if it can have one */
#define FEW       13u      /* elements: so many are cut into the smallest segments in every way */

/* A large vector, bytes; where there is a block a rank, of all blocks together. */
enum { LARGE_FULL = 1 << 20, LARGE = 1 << 18, LARGE_BRIEF = 1 << 17 };
#define TINY 3u /* bytes, of a segment */

struct run {
    const struct coll_world *world;
    const struct coll_filter *filter;
    struct coll_outcome *outcome;
    const char *rule;    /* what the teams were told */
    bool group;          /* they are to have a group */
    unsigned segment;    /* bytes, that it cuts messages into; 0: by the model, or not */
    uint32_t size, here; /* ranks of the teams; how many of them are in this process */
    uint32_t next_id;
    vbn_team_t **teams;
};

static void failed(struct run *run, const struct coll_case *c, uint32_t rank, const char *what)
{
    if (run->outcome->failed++)
        return;
    snprintf(run->outcome->first, sizeof(run->outcome->first),
             "%s (%s), %u ranks, root %u, count %zu, flavour %d%s: rank %u: %s",
             vbn_coll_name(c->coll), run->rule, c->size, c->root, c->count, (int)c->flavour,
             c->in_place ? ", in place" : "", rank, what);
}

/* The I-th rank that is here calls next. */
static void enter(const struct run *run, uint32_t i)
{
    if (run->world->enter)
        run->world->enter(run->world->arg, run->world->first + i);
}

static bool goes_on(const struct run *run, uint32_t turn)
{
    return run->world->watched || turn < TURNS_MAX;
}

/* Goes on until all that are there of REQS, one a rank, are over, with *STATUS; false if it hung.
 */
static bool await(struct run *run, vbn_coll_req_t **reqs, int *status)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < run->here; i++)
        left += reqs[i] != NULL;
    for (uint32_t turn = 0; left && goes_on(run, turn); turn++) {
        run->world->progress(run->world->arg);
        for (uint32_t i = 0; i < run->here; i++) {
            if (!reqs[i])
                continue;
            enter(run, i);
            status[i] = vbn_coll_test(reqs[i]);
            if (status[i] != VBN_PENDING) {
                reqs[i] = NULL;
                left--;
            }
        }
    }
    return left == 0;
}

/* As before calls that block, but by all ranks that are here at once. */
static bool run_vote(struct run *run, const struct coll_case *c, vbn_coll_req_t **reqs, int *status)
{
    struct vbn_error err;

    for (uint32_t i = 0; i < run->here; i++) {
        enter(run, i);
        status[i] = vbn_team_vote(run->teams[i], &reqs[i], &err);
    }
    if (!await(run, reqs, status))
        return false;
    for (uint32_t i = 0; i < run->here; i++)
        if (status[i] != VBN_OK)
            failed(run, c, run->world->first + i, "the vote failed");
    return true;
}

/* All ranks that are here at once; false if it hung. */
static bool run_nonblocking(struct run *run, const struct coll_case *c, struct part *parts,
                            int *status)
{
    vbn_coll_req_t **reqs = calloc(run->here, sizeof(vbn_coll_req_t *));
    struct vbn_error err;
    bool over = run_vote(run, c, reqs, status);

    for (uint32_t i = 0; over && i < run->here; i++) {
        if ((i + run->outcome->cases) % 3 == 0) /* some begin when messages are there already */
            run->world->progress(run->world->arg);
        enter(run, i);
        status[i] = vbn_coll_istart(run->teams[i], &parts[i].args, &reqs[i], &err);
        if (status[i] == VBN_OK)
            continue;
        reqs[i] = NULL;
        failed(run, c, run->world->first + i, err.text);
    }
    over = over && await(run, reqs, status);
    free(reqs);
    return over;
}

/* What is wrong with how the I-th rank's call ended, with STATUS; OVER: it has. */
static const char *bad_end(const struct run *run, uint32_t i, bool over, int status)
{
    if (!over)
        return "hangs";
    return status == VBN_OK ? NULL : vbn_team_error(run->teams[i]);
}

/* False: nothing more can be run. */
static bool run_case(struct run *run, const struct coll_case *c)
{
    struct part *parts = calloc(run->here, sizeof(*parts));
    int *status = calloc(run->here, sizeof(*status));
    bool over = true;

    for (uint32_t i = 0; i < run->here; i++)
        part_make(c, run->world->first + i, &parts[i]);
    run->outcome->cases++;
    if (run->world->blocking)
        status[0] = vbn_coll(run->teams[0], &parts[0].args);
    else
        over = run_nonblocking(run, c, parts, status);
    for (uint32_t i = 0; i < run->here; i++) {
        const char *wrong = bad_end(run, i, over, status[i]);

        if (!wrong)
            wrong = part_check(&parts[i], c, run->world->first + i);
        if (wrong)
            failed(run, c, run->world->first + i, wrong);
        if (over)
            part_free(&parts[i]);
    }
    free(status);
    if (over)
        free(parts);
    return over;
}

static bool start_barrier(struct run *run, const struct coll_case *c, uint32_t i,
                          vbn_coll_req_t **req)
{
    struct vbn_coll_args args = {
        .size = sizeof(args), .coll = VBN_COLL_BARRIER, .dtype = VBN_BYTES};
    struct vbn_error err;

    enter(run, i);
    if (vbn_coll_istart(run->teams[i], &args, req, &err) == VBN_OK)
        return true;
    failed(run, c, i, err.text);
    return false;
}

/* All but LATE come, and stay for many turns of everything. */
static bool all_wait(struct run *run, const struct coll_case *c, vbn_coll_req_t **reqs,
                     uint32_t late)
{
    for (uint32_t i = 0; i < run->here; i++)
        if (i != late && !start_barrier(run, c, i, &reqs[i]))
            return false;
    for (int turn = 0; turn < 200; turn++) {
        run->world->progress(run->world->arg);
        for (uint32_t i = 0; i < run->here; i++) {
            int status;

            if (i == late)
                continue;
            enter(run, i);
            status = vbn_coll_test(reqs[i]);
            if (status == VBN_PENDING)
                continue;
            failed(run, c, i, status == VBN_OK ? "did not wait" : vbn_team_error(run->teams[i]));
            return false;
        }
    }
    return true;
}

/* Nobody leaves a barrier before LATE has come to it, and then all do. False: nothing more can be
 * run. */
static bool run_held_barrier(struct run *run, const struct coll_case *c, uint32_t late)
{
    vbn_coll_req_t **reqs = calloc(run->here, sizeof(vbn_coll_req_t *));
    int *status = calloc(run->here, sizeof(*status));
    bool over = false;

    run->outcome->cases++;
    if (all_wait(run, c, reqs, late) && start_barrier(run, c, late, &reqs[late])) {
        over = await(run, reqs, status);
        for (uint32_t i = 0; i < run->here; i++) {
            const char *wrong = bad_end(run, i, over, status[i]);

            if (wrong)
                failed(run, c, i, wrong);
        }
    }
    free(status);
    free(reqs);
    return over;
}

static bool run_held_barriers(struct run *run)
{
    struct coll_case c = {.coll = VBN_COLL_BARRIER, .size = run->size};

    if (run->world->blocking || run->here != run->size || run->size == 1)
        return true;
    for (uint32_t late = 0; late<run->size; late += run->size> 32 ? run->size / 3 : 1)
        if (!run_held_barrier(run, &c, late))
            return false;
    return true;
}

static bool may_be_in_place(enum vbn_coll coll)
{
    return coll != VBN_COLL_BARRIER && coll != VBN_COLL_BCAST;
}

/* Of one operation, algorithm, number of ranks, type and count. */
static bool run_roots(struct run *run, struct coll_case c)
{
    uint32_t roots[] = {0, run->size - 1, run->size / 2};
    unsigned root_count = run->filter->full ? 3 : run->filter->brief ? 1 : 2;

    root_count = coll_rooted(c.coll) ? root_count : 1;
    if (run->filter->brief) /* another one for each algorithm */
        roots[0] = run->next_id % run->size;

    for (unsigned r = 0; r < root_count; r++) {
        if (r && roots[r] == roots[r - 1])
            continue;
        c.root = roots[r];
        for (int in_place = 0; in_place <= (may_be_in_place(c.coll) ? 1 : 0); in_place++) {
            c.in_place = in_place;
            if (!run_case(run, &c))
                return false;
        }
    }
    return true;
}

/*
 * Thousands of segments are the same again for every type and size: in the smallest segments go few
 * elements of each, and the largest of the sizes as the first type.
 */
static bool is_repetition(const struct run *run, enum flavour flavour, size_t count, size_t most)
{
    bool first = flavour == FLAVOUR_INT32_SUM || flavour == FLAVOUR_BYTES;

    return run->segment == TINY && count > FEW && (!first || count != most);
}

static bool run_counts(struct run *run, struct coll_case c)
{
    static const size_t all[] = {0, 1, FEW, 4095, 4096, 4097}, some[] = {0, 1, FEW, 1025};
    const size_t *counts = run->filter->full ? all : some;
    size_t n = run->filter->full ? 6 : run->filter->brief ? 3 : 4;

    for (size_t i = 0; i < (c.coll == VBN_COLL_BARRIER ? 1 : n); i++) {
        c.count = counts[i];
        if (run->filter->most && c.count > run->filter->most)
            continue;
        if (is_repetition(run, c.flavour, c.count, counts[n - 1]))
            continue;
        if (!run_roots(run, c))
            return false;
    }
    return true;
}

/* On 5 to 7 ranks, where not all is run. In longer segments it has as many as there can be
 * (schedule.h) already. */
static bool run_large(struct run *run, enum vbn_coll coll)
{
    const struct coll_filter *filter = run->filter;
    size_t elem = coll_reduces(coll) ? sizeof(int32_t) : 1;
    size_t bytes = filter->full ? LARGE_FULL : filter->brief ? LARGE_BRIEF : LARGE;
    struct coll_case c = {.coll = coll,
                          .flavour = coll_reduces(coll) ? FLAVOUR_INT32_SUM : FLAVOUR_BYTES,
                          .size = run->size,
                          .count = bytes / elem / (coll_has_blocks(coll) ? run->size : 1)};

    if (filter->most || run->segment == TINY || (run->segment && filter->brief))
        return true;
    if (!filter->full && !filter->brief && (run->size < 5 || run->size > 7))
        return true;
    return run_roots(run, c);
}

static bool run_flavours(struct run *run, enum vbn_coll coll)
{
    for (int f = 0; f < FLAVOURS; f++) {
        struct coll_case c = {.coll = coll, .flavour = (enum flavour)f, .size = run->size};

        if (coll_reduces(coll) ? !flavour_reduces(c.flavour)
                               : f != FLAVOUR_BYTES && f != FLAVOUR_BYTES3)
            continue;
        if (!run->filter->full && f > FLAVOUR_BYTES)
            continue;
        if (!run_counts(run, c))
            return false;
    }
    return coll == VBN_COLL_BARRIER ? run_held_barriers(run) : run_large(run, coll);
}

/* Teams of all ranks that are here, told to use one algorithm, and that processors are shared: then
 * trees begin at another rank each time. */
static bool make_teams(struct run *run)
{
    struct vbn_team_options opts;
    uint32_t id = run->next_id++ % (VBN_TEAM_ID_MAX + 1);

    vbn_team_options_init(&opts, sizeof(opts));
    opts.rules = run->rule;
    opts.processors = run->size / 2;
    opts.group = run->group;
    run->here = 0;
    for (uint32_t i = 0; i < run->world->count && run->world->first + i < run->size; i++) {
        if (run->world->team_create(run->world->arg, run->world->first + i, run->size, id, &opts,
                                    &run->teams[i]) != VBN_OK)
            return false;
        run->here++;
    }
    return true;
}

/* So many that the team has a group afterwards. */
static bool run_warm_up(struct run *run)
{
    struct coll_case barrier = {.coll = VBN_COLL_BARRIER, .size = run->size};

    for (unsigned i = 0; run->group && i < WARM_UP; i++)
        if (!run_case(run, &barrier))
            return false;
    return true;
}

static void run_rule(struct run *run, enum vbn_coll coll, const char *rule)
{
    struct coll_case none = {.coll = coll, .size = run->size};

    run->rule = rule;
    if (!make_teams(run)) {
        failed(run, &none, run->world->first, "no team");
        return;
    }
    if (run->here && !(run_warm_up(run) && run_flavours(run, coll)))
        return; /* hung: the teams are lost */
    for (uint32_t i = 0; i < run->here; i++) {
        enter(run, i);
        if (vbn_team_destroy(run->teams[i]) != VBN_OK)
            failed(run, &none, run->world->first + i, "something is left in the team");
    }
}

/* The rule for the I-th algorithm; PARAM 0: without. */
static void name_rule(enum vbn_coll coll, unsigned i, unsigned param, char rule[80])
{
    int len = snprintf(rule, 80, "%s=%s", vbn_coll_name(coll), vbn_coll_algorithm(coll, i));

    if (param)
        snprintf(rule + len, 80 - (size_t)len, "/%u", param);
}

/* Refused is a parameter where the algorithm has none. */
static bool may_use(const struct run *run, const char *rule)
{
    struct vbn_team_options opts;
    vbn_team_t *team;

    vbn_team_options_init(&opts, sizeof(opts));
    opts.rules = rule;
    if (run->world->team_create(run->world->arg, run->world->first, run->world->size, 0, &opts,
                                &team) != VBN_OK)
        return false;
    vbn_team_destroy(team);
    return true;
}

static bool has_segments(const struct run *run, enum vbn_coll coll, unsigned i)
{
    char rule[80];

    name_rule(coll, i, 1, rule); /* no radix is 1 */
    return may_use(run, rule);
}

/* What is chosen without a name. */
static void run_chosen(struct run *run, enum vbn_coll coll)
{
    run->segment = 0;
    run->group = false;
    run_rule(run, coll, "");
    run->group = run->world->groups;
    if (run->group && !run->outcome->failed)
        run_rule(run, coll, "");
}

/* Each algorithm by its name, with a parameter where it has one, and what is chosen without. */
static void run_coll(struct run *run, enum vbn_coll coll)
{
    static const unsigned params[] = {0, TINY, 257};
    char rule[80];

    for (unsigned i = 0; !run->filter->chosen && vbn_coll_algorithm(coll, i); i++)
        for (unsigned k = 0; k < 3; k++) {
            name_rule(coll, i, params[k], rule);
            if (k && !may_use(run, rule))
                break;
            run->segment = k && has_segments(run, coll, i) ? params[k] : 0;
            run->group = run->world->groups && strstr(rule, "multicast");
            run_rule(run, coll, rule);
            if (run->outcome->failed)
                return;
        }
    run_chosen(run, coll);
}

void coll_suite(const struct coll_world *world, const struct coll_filter *filter,
                struct coll_outcome *outcome)
{
    static const uint32_t all[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 0};
    static const uint32_t some[] = {1, 2, 3, 4, 5, 7, 8, 12, 17, 0};
    const uint32_t *sizes = filter->sizes ? filter->sizes : filter->full ? all : some;
    struct run run = {.world = world, .filter = filter, .outcome = outcome};

    memset(outcome, 0, sizeof(*outcome));
    run.teams = calloc(world->count, sizeof(vbn_team_t *));
    for (; *sizes; sizes++) {
        run.size = *sizes;
        if (run.size > world->size)
            continue;
        for (int coll = 0; coll < VBN_COLL_COUNT && !outcome->failed; coll++)
            if (!filter->coll || strcmp(filter->coll, vbn_coll_name((enum vbn_coll)coll)) == 0)
                run_coll(&run, (enum vbn_coll)coll);
    }
    free(run.teams);
}
