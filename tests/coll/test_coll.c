/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite over memory. VBN_COLL_FULL=1 in the environment: all of it; VBN_COLL=bcast: of one
 * operation; VBN_COLL_SEED=n: messages in another order.
 */
#include "coll_unit.h"
#include "fan.h"
#include "loop.h"
#include "suite.h"

#define RANKS 32u

struct here {
    struct loop *loop;
    struct vbn_transport table; /* the loop's, with groups */
};

static int team_create(void *arg, uint32_t rank, uint32_t size, uint32_t id,
                       const struct vbn_team_options *opts, vbn_team_t **team)
{
    struct here *here = arg;
    struct vbn_error err;
    int status = vbn_team_create(&here->table, loop_port(here->loop, rank),
                                 loop_peers(here->loop, rank), size, rank, id, opts, team, &err);

    return status;
}

static void progress(void *arg)
{
    struct here *here = arg;

    for (uint32_t i = 0; i < RANKS; i++)
        loop_table()->progress(loop_port(here->loop, i));
}

static void run(const struct loop_options *base)
{
    const char *seed = getenv("VBN_COLL_SEED");
    struct coll_filter filter = {.full = getenv("VBN_COLL_FULL"), .coll = getenv("VBN_COLL")};
    struct loop_options opts = *base;
    struct coll_outcome outcome;
    struct here here;
    struct coll_world world = {.size = RANKS,
                               .count = RANKS,
                               .groups = true,
                               .arg = &here,
                               .team_create = team_create,
                               .progress = progress};

    opts.ports = RANKS;
    opts.seed = seed ? strtoull(seed, NULL, 0) : 1;
    here.loop = loop_create(&opts);
    here.table = fan_table(loop_table());
    coll_suite(&world, &filter, &outcome);
    if (outcome.failed)
        fail_msg("%s (and %llu more)", outcome.first, (unsigned long long)outcome.failed - 1);
    assert_true(outcome.cases > 0);
    assert_true(filter.coll || fan_casts() > 1000);
    assert_int_equal(loop_destroy(here.loop), 0);
}

static void messages_come_at_once(void **state)
{
    struct loop_options opts = {.eager_limit = SIZE_MAX};

    (void)state;
    run(&opts);
}

/* Every send waits for its receive: nothing may rely on messages that leave by themselves. */
static void messages_wait_for_their_receive(void **state)
{
    struct loop_options opts = {.eager_limit = 0, .late = 3};

    (void)state;
    run(&opts);
}

static void without_room_and_in_pieces(void **state)
{
    struct loop_options opts = {.eager_limit = 512, .late = 2, .again = 5, .max_send = 1000};

    (void)state;
    run(&opts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_at_once),
        cmocka_unit_test(messages_wait_for_their_receive),
        cmocka_unit_test(without_room_and_in_pieces),
    };

    return cmocka_run_group_tests_name("coll", tests, NULL, NULL);
}
