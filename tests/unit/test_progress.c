/* SPDX-License-Identifier: BSD-3-Clause */
/* How often a call of the progress engine looks at the clock, and at what else is slow. */
#include "lone.h"

static vbn_context_t *ctx;
static unsigned looks;
static bool sleeps; /* the next time that the queues are armed */

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    looks++;
    if (sleeps && ctx->armed) {
        unit.now_ns += 10 * UNIT_MS;
        sleeps = false;
    }
    return unit.now_ns;
}

static void tweak(struct vbn_options *opts)
{
    opts->clock_ns = clock_ns;
    opts->wait_spin_us = 0;
}

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(tweak);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* In CALLS with nothing to do, that come CALL_NS after one another. */
static unsigned looks_in(unsigned calls, uint64_t call_ns)
{
    looks = 0;
    for (unsigned i = 0; i < calls; i++) {
        unit.now_ns += call_ns;
        assert_int_equal(vbn_progress(ctx), 0);
    }
    return looks;
}

static void one_of_64_calls_that_are_quick(void **state)
{
    (void)state;
    looks_in(100, 100);
    assert_int_equal(looks_in(6400, 100), 100);
}

/* A rank that yields its processor: an event does not wait for many turns of all others. */
static void within_a_tenth_of_a_millisecond(void **state)
{
    (void)state;
    looks_in(100, 10000);
    assert_in_range(looks_in(1000, 10000), 100, 115);
    looks_in(100, 1000000);
    assert_int_equal(looks_in(100, 1000000), 100);
}

/* Who computes in between is not taken for one who yields for longer than a call. */
static void after_a_pause_as_before(void **state)
{
    (void)state;
    looks_in(100, 100);
    unit.now_ns += 1000 * UNIT_MS;
    assert_in_range(looks_in(6400, 100), 100, 102);
}

/* To sleep is not to poll. */
static void after_a_sleep_as_before(void **state)
{
    (void)state;
    looks_in(100, 100);
    sleeps = true;
    assert_int_equal(vbn_wait(ctx, 1), 0);
    assert_false(sleeps);
    assert_int_equal(looks_in(63, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_of_64_calls_that_are_quick, setup, teardown),
        cmocka_unit_test_setup_teardown(within_a_tenth_of_a_millisecond, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_pause_as_before, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_sleep_as_before, setup, teardown),
    };

    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
