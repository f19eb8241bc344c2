/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include "timer.h"

#define COUNT 4

static struct vbn_timers timers;
static struct vbn_timer timer[COUNT];
static char fired[64]; /* one letter for each call */

static void expired(struct vbn_timer *t)
{
    size_t n = strlen(fired);

    assert_int_equal(t->at_ns, 0); /* no longer set: may be set anew */
    fired[n] = (char)('a' + (t - timer));
    fired[n + 1] = '\0';
}

static int setup(void **state)
{
    (void)state;
    memset(timer, 0, sizeof(timer));
    fired[0] = '\0';
    vbn_timers_init(&timers);
    return 0;
}

static void fires_once_when_due(void **state)
{
    (void)state;
    vbn_timer_start(&timers, &timer[0], 100, expired);
    assert_int_equal(vbn_timers_run(&timers, 99), 0);
    assert_int_equal(vbn_timers_run(&timers, 100), 1);
    assert_string_equal(fired, "a");
    assert_int_equal(vbn_timers_run(&timers, 1000), 0);
    assert_string_equal(fired, "a");
}

static void only_those_that_are_due(void **state)
{
    (void)state;
    vbn_timer_start(&timers, &timer[0], 300, expired);
    vbn_timer_start(&timers, &timer[1], 100, expired);
    vbn_timer_start(&timers, &timer[2], 200, expired);
    assert_int_equal(vbn_timers_run(&timers, 200), 2);
    assert_int_equal(strlen(fired), 2);
    assert_non_null(strchr(fired, 'b'));
    assert_non_null(strchr(fired, 'c'));
    assert_int_equal(vbn_timers_run(&timers, 300), 1);
    assert_int_equal(fired[2], 'a');
}

static void stopped_never_fires(void **state)
{
    (void)state;
    vbn_timer_start(&timers, &timer[0], 100, expired);
    vbn_timer_stop(&timers, &timer[0]);
    vbn_timer_stop(&timers, &timer[0]); /* again: nothing */
    vbn_timer_stop(&timers, &timer[1]); /* never set */
    assert_int_equal(vbn_timers_run(&timers, 1000), 0);
    assert_string_equal(fired, "");
}

static void set_again_moves(void **state)
{
    (void)state;
    vbn_timer_start(&timers, &timer[0], 100, expired);
    vbn_timer_start(&timers, &timer[0], 500, expired);
    assert_int_equal(vbn_timers_run(&timers, 499), 0);
    vbn_timer_start(&timers, &timer[0], 50, expired);
    assert_int_equal(vbn_timers_run(&timers, 499), 1);
    assert_string_equal(fired, "a");
}

static void sets_itself_and_stops_others(struct vbn_timer *t)
{
    expired(t);
    vbn_timer_start(&timers, t, 150, expired); /* due in the same run */
    for (int i = 1; i < 3; i++)
        vbn_timer_stop(&timers, &timer[i]);
    vbn_timer_start(&timers, &timer[3], 900, expired);
}

static void handlers_may_change_the_list(void **state)
{
    (void)state;
    vbn_timer_start(&timers, &timer[0], 100, sets_itself_and_stops_others);
    vbn_timer_start(&timers, &timer[1], 100, expired);
    vbn_timer_start(&timers, &timer[2], 100, expired);
    assert_int_equal(vbn_timers_run(&timers, 200), 2);
    assert_string_equal(fired, "aa");
    assert_int_equal(vbn_timers_run(&timers, 900), 1);
    assert_string_equal(fired, "aad");
    assert_true(TAILQ_EMPTY(&timers.list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fires_once_when_due, setup),
        cmocka_unit_test_setup(only_those_that_are_due, setup),
        cmocka_unit_test_setup(stopped_never_fires, setup),
        cmocka_unit_test_setup(set_again_moves, setup),
        cmocka_unit_test_setup(handlers_may_change_the_list, setup),
    };

    return cmocka_run_group_tests_name("timer", tests, NULL, NULL);
}
