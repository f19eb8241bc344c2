/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device does, and what completes with which status after which fault. Linked twice, with
 * the machine's libibverbs and librdmacm and with the simulated fabric: the expectations are the
 * same, so the simulation is as the device is. doc/behaviours.md is the table.
 */
#include "behaviours.h"

#include <stdlib.h>
#include <string.h>

static const struct behaviours *const groups[] = {
    &behaviours_send, &behaviours_post, &behaviours_fault, &behaviours_queue, &behaviours_cm,
};

enum { GROUPS = sizeof(groups) / sizeof(groups[0]) };

int main(void)
{
    struct CMUnitTest *tests;
    size_t count = 0;
    int failed;

    for (size_t i = 0; i < GROUPS; i++)
        count += groups[i]->count;
    tests = calloc(count, sizeof(*tests));
    if (!tests)
        return 1;
    count = 0;
    for (size_t i = 0; i < GROUPS; i++) {
        memcpy(tests + count, groups[i]->tests, groups[i]->count * sizeof(*tests));
        count += groups[i]->count;
    }
    failed = _cmocka_run_group_tests("behaviours", tests, count, NULL, NULL);
    free(tests);
    return failed;
}
