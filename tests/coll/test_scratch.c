/* SPDX-License-Identifier: BSD-3-Clause */
/* Scratch: registered once, given from call to call, kept within a bound. */
#include "coll_unit.h"
#include "team.h"

#include <stdlib.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static unsigned registered, live;
static bool refuses;
static struct vbn_transport table;
static vbn_team_t team;

static int reg(vbn_port_t *port, void *addr, size_t len, unsigned access, vbn_region_t **region)
{
    (void)port;
    assert_true(len > 0 && (access & VBN_ACCESS_LOCAL_WRITE) && (access & VBN_ACCESS_REMOTE_READ));
    if (refuses)
        return VBN_ERR_MEMLOCK;
    registered++;
    live++;
    *region = addr;
    return VBN_OK;
}

static void dereg(vbn_region_t *region)
{
    assert_non_null(region);
    live--;
}

static int setup(void **state)
{
    (void)state;
    registered = live = 0;
    refuses = false;
    table = (struct vbn_transport){.mem_register = reg, .mem_deregister = dereg};
    memset(&team, 0, sizeof(team));
    team.tr = &table;
    TAILQ_INIT(&team.scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vbn_scratch_fini(&team);
    return live || !TAILQ_EMPTY(&team.scratch) || team.scratch_bytes;
}

static struct vbn_scratch *get(size_t len)
{
    struct vbn_scratch *s = vbn_scratch_get(&team, len);

    assert_non_null(s);
    assert_true(s->room >= len);
    memset(s->bytes, 0xa5, len);
    return s;
}

static void from_call_to_call(void **state)
{
    (void)state;
    for (size_t len = MIB; len >= VBN_SCRATCH_LONG; len /= 2)
        vbn_scratch_put(&team, get(len));
    assert_int_equal(registered, 1);
}

static void each_of_those_at_once_has_its_own(void **state)
{
    struct vbn_scratch *a = get(MIB), *b = get(MIB);

    (void)state;
    assert_ptr_not_equal(a->bytes, b->bytes);
    vbn_scratch_put(&team, a);
    vbn_scratch_put(&team, b);
    assert_int_equal(registered, 2);
}

static void the_shortest_that_is_long_enough(void **state)
{
    struct vbn_scratch *a = get(MIB), *b = get(64 * KIB), *c = get(256 * KIB);

    (void)state;
    vbn_scratch_put(&team, b);
    vbn_scratch_put(&team, a);
    vbn_scratch_put(&team, c);
    assert_ptr_equal(get(60 * KIB), b);
    assert_ptr_equal(get(60 * KIB), c);
    assert_ptr_equal(get(60 * KIB), a);
    vbn_scratch_put(&team, a);
    vbn_scratch_put(&team, b);
    vbn_scratch_put(&team, c);
}

/* The oldest goes. */
static void at_rest_within_a_bound(void **state)
{
    struct vbn_scratch *s[6];

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        s[i] = get(MIB);
    for (unsigned i = 0; i < 6; i++)
        vbn_scratch_put(&team, s[i]);
    assert_int_equal(team.scratch_bytes, 4 * MIB);
    assert_int_equal(live, 4);
    assert_ptr_equal(TAILQ_FIRST(&team.scratch), s[5]);
    vbn_scratch_put(&team, get(5 * MIB)); /* longer than that */
    assert_int_equal(live, 4);
    vbn_scratch_put(&team, get(3 * MIB));
    assert_int_equal(team.scratch_bytes, 4 * MIB);
    assert_int_equal(live, 2);
}

static void short_ones_are_not_registered(void **state)
{
    (void)state;
    vbn_scratch_put(&team, get(VBN_SCRATCH_LONG - VBN_SCHED_ALIGN));
    assert_int_equal(registered, 0);
    assert_true(TAILQ_EMPTY(&team.scratch));
}

static void where_it_cannot_be_registered(void **state)
{
    (void)state;
    refuses = true;
    vbn_scratch_put(&team, get(MIB));
    table.mem_register = NULL;
    vbn_scratch_put(&team, get(2 * MIB));
    assert_int_equal(registered, 0);
    assert_int_equal(team.scratch_bytes, 3 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(from_call_to_call, setup, teardown),
        cmocka_unit_test_setup_teardown(each_of_those_at_once_has_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(the_shortest_that_is_long_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(at_rest_within_a_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(short_ones_are_not_registered, setup, teardown),
        cmocka_unit_test_setup_teardown(where_it_cannot_be_registered, setup, teardown),
    };

    return cmocka_run_group_tests_name("scratch", tests, NULL, NULL);
}
