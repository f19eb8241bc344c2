/* SPDX-License-Identifier: BSD-3-Clause */
/* A group of three contexts on a fabric without faults, where time is exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "world.h"

#include "context.h"
#include "group.h"

#include <stdlib.h>

enum { RANKS = 3, TAG = 5, LIMIT = 65536, LONG = 8 << 20 };

#define MS_NS   UINT64_C(1000000)
#define MOST_NS (20000 * MS_NS)

static struct world world;
static vbn_group_t *groups[RANKS];
static struct vbn_op ops[RANKS];
static uint8_t *bytes[RANKS];

static void done(struct vbn_op *op)
{
    (void)op;
}

static void group_open(int number)
{
    struct world_rank *rank = &world.ranks[number];
    vbn_peer_t *peers[RANKS] = {NULL};

    fabric_enter(rank->rank);
    rank->ctx->opts.unexpected_limit = LIMIT;
    for (int i = 0; i < RANKS; i++)
        if (i != number)
            peers[i] = (vbn_peer_t *)world_endpoint(&world, rank, &world.ranks[i], NULL);
    assert_int_equal(
        vbn_group_open(rank->ctx, 1, peers, RANKS, (uint32_t)number, &groups[number], NULL),
        VBN_OK);
}

static bool all_ready(void)
{
    for (int i = 0; i < RANKS; i++)
        if (vbn_group_ready(groups[i]) != VBN_OK)
            return false;
    return true;
}

static int setup(void **state)
{
    const struct world_plan plan = {.seed = 1, .ranks = RANKS, .defaults = true};

    (void)state;
    assert_true(world_open(&world, &plan));
    for (int i = 0; i < RANKS; i++) {
        ops[i] = (struct vbn_op){.done = done};
        bytes[i] = calloc(1, LONG);
        group_open(i);
    }
    while (!all_ready() && fabric_now_ns() < MOST_NS)
        world_turn(&world, NULL);
    assert_true(all_ready());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        fabric_enter(world.ranks[i].rank);
        vbn_group_close(groups[i]);
    }
    assert_int_equal(world_close(&world), 0);
    assert_false(world.failed);
    for (int i = 0; i < RANKS; i++)
        free(bytes[i]);
    return 0;
}

static int receive(int number)
{
    vbn_context_t *ctx = world.ranks[number].ctx;

    fabric_enter(world.ranks[number].rank);
    return vbn_tag_recv(ctx, NULL, bytes[number], LONG, TAG, VBN_TAG_MAX, &ops[number]);
}

/* One of them comes to it a second later: until then it keeps no more of it than of others. */
static void long_one_that_a_member_is_late_for(void **state)
{
    const struct vbn_tags *late = &world.ranks[2].ctx->tags;
    uint64_t from_ns = fabric_now_ns();

    (void)state;
    world_pattern_fill(bytes[0], LONG, 7);
    assert_int_equal(receive(1), VBN_PENDING);
    fabric_enter(world.ranks[0].rank);
    assert_int_equal(vbn_group_send(groups[0], bytes[0], LONG, TAG, &ops[0]), VBN_PENDING);
    while (fabric_now_ns() < from_ns + 1000 * MS_NS) {
        world_turn(&world, NULL);
        assert_true(late->early_bytes <= 2 * LIMIT + VBN_CAST_MAX); /* its room doubles */
    }
    assert_true(late->early_bytes > LIMIT);
    assert_int_equal(ops[0].status, VBN_PENDING);
    from_ns = fabric_now_ns();
    assert_int_equal(receive(2), VBN_PENDING);
    while ((ops[1].status == VBN_PENDING || ops[2].status == VBN_PENDING) &&
           fabric_now_ns() < from_ns + MOST_NS)
        world_turn(&world, NULL);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ops[i].status, VBN_OK);
        assert_true(world_pattern_check(bytes[i], LONG, 7));
    }
    assert_int_equal(late->early_bytes, 0);
    assert_true(fabric_now_ns() < from_ns + 200 * MS_NS); /* the next poke is long after */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_one_that_a_member_is_late_for, setup, teardown),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
