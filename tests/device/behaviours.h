/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of behaviours_*.c, a table each; test_behaviours.c runs them all. */
#ifndef VBN_TESTS_DEVICE_BEHAVIOURS_H
#define VBN_TESTS_DEVICE_BEHAVIOURS_H

#include "ends.h"

struct behaviours {
    const struct CMUnitTest *tests;
    size_t count;
};

#define BEHAVIOUR(test) cmocka_unit_test_setup_teardown(test, ends_open, ends_close)
#define BEHAVIOURS(table)                                                                          \
    {                                                                                              \
        table, sizeof(table) / sizeof(table[0])                                                    \
    }

extern const struct behaviours behaviours_send, behaviours_post, behaviours_fault, behaviours_queue,
    behaviours_cm;

#endif
