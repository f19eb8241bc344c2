/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every unit test shares: cmocka in the order it wants, options with a clock and a source of
 * random numbers under the test's control, a log that can be asserted on, and failing allocations.
 *
 * The calls replaced at link time (unit.mk: UNIT_WRAP) behave as always until a test asks.
 */
#ifndef VBN_TESTS_UNIT_H
#define VBN_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "verbena.h"

#define UNIT_MS 1000000u

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" does not contain \"%s\"", (text), (part));                            \
    } while (0)

/* --- options ---------------------------------------------------------------------------------- */

struct unit_failure {
    vbn_endpoint_t *ep;
    int status;
    char reason[256];
};

/* What the callbacks of unit_options() saw, and what they answer. */
struct unit_world {
    uint64_t now_ns; /* moves by tick_ns at each look */
    uint64_t tick_ns;
    uint64_t random; /* the next number; counts up */
    unsigned log_count[VBN_LOG_DEBUG + 1];
    char log[VBN_LOG_DEBUG + 1][512]; /* the last line of each level */
    unsigned failures;
    struct unit_failure failed[16]; /* the first calls of the error handler */
};
extern struct unit_world unit;

/* Forgets all that was seen. */
void unit_reset(void);

/* Default options with the callbacks of the world; small pools, short deadlines. */
void unit_options(struct vbn_options *opts);

/* A small deterministic random number generator, for tests that throw bytes. */
uint64_t unit_random(uint64_t *state);

/* --- calls that fail (wraps.c) ---------------------------------------------------------------- */

/* Nothing fails any more. */
void unit_wrap_reset(void);

/* The NTH allocation from now (1: the next) fails once; 0: none. Or all of them. */
void unit_fail_alloc(unsigned nth);
void unit_fail_allocs(bool all);
bool unit_alloc_failed(void);

/* A process without privileges that may lock BYTES; UINT64_MAX: whatever the machine says. */
void unit_memlock(uint64_t bytes);

/*
 * What /sys/class/infiniband says from now on: the netdev NAME for the entry NUMBER of the table of
 * PORT of DEVICE. Until unit_sysfs_remove(), which gives the machine's own back.
 */
void unit_sysfs_ndev(const char *device, unsigned port, unsigned number, const char *name);
void unit_sysfs_remove(void);

/* Looking at /dev/infiniband/rdma_cm fails with ERROR; 0: it does not. */
void unit_cm_file(int error);

/* True if CALL ran into an assertion of the library (never so in a release build). */
bool unit_asserts(void (*call)(void *arg), void *arg);

#endif
