/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the transport table promises, asked of the transport of the world that this is linked with.
 *
 *     test_table [--halves] [PATTERN]
 *
 * PATTERN: of the tests' names to run. With --halves the ends connect by exchanging halves.
 */
#include "ends.h"

static struct CMUnitTest all[128];
static size_t count;

static void add(const struct CMUnitTest *tests, size_t how_many)
{
    for (size_t i = 0; i < how_many && count < sizeof(all) / sizeof(all[0]); i++)
        all[count++] = tests[i];
}

int main(int argc, char **argv)
{
    size_t own_count;
    const struct CMUnitTest *own = world_tests(&own_count);

    if (argc > 2 && !strcmp(argv[1], "--child"))
        return world_child(argv + 2);
    ends_by_halves = argc > 1 && !strcmp(argv[1], "--halves");
    if (argc > 1 + ends_by_halves)
        cmocka_set_test_filter(argv[1 + ends_by_halves]);
    add(misuse_tests, misuse_test_count);
    add(tag_tests, tag_test_count);
    add(rma_tests, rma_test_count);
    add(event_tests, event_test_count);
    add(half_tests, half_test_count);
    add(group_tests, group_test_count);
    if (world_has_time())
        add(timed_tests, timed_test_count);
    add(own, own_count);
    return _cmocka_run_group_tests("table", all, count, NULL, NULL);
}
