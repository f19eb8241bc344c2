/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the transport table promises, asked of the transport of the world that this is linked with.
 * An argument, if there is one, is a pattern of the tests' names to run.
 */
#include "ends.h"

static struct CMUnitTest all[128];
static size_t count;

static void add(const struct CMUnitTest *tests, size_t how_many)
{
    assert_true(count + how_many <= sizeof(all) / sizeof(all[0]));
    memcpy(all + count, tests, how_many * sizeof(*tests));
    count += how_many;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    add(misuse_tests, misuse_test_count);
    add(tag_tests, tag_test_count);
    add(rma_tests, rma_test_count);
    add(event_tests, event_test_count);
    return _cmocka_run_group_tests("table", all, count, NULL, NULL);
}
