/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport rc on the simulated fabric: two ports of one process on one node. Time is virtual.
 * VBN_TEST_SEED=N is another order of events.
 */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../sim/fabric.h"

#define TURN_NS 20000u
#define LOOK_NS 1000u

int world_begin(void)
{
    const char *seed = getenv("VBN_TEST_SEED");
    struct fabric_config config = {.quiet = true};

    fabric_create(seed ? strtoull(seed, NULL, 0) : 1, &config);
    fabric_enter(fabric_rank_add(fabric_node_add(NULL)));
    return 0;
}

int world_end(void)
{
    fabric_config()->quiet = false;
    for (int i = 0; fabric_violation_text(i); i++)
        print_error("%s\n", fabric_violation_text(i));
    return fabric_destroy() == 0 ? 0 : -1;
}

/* Whoever looks at the clock waits: time goes on for him. */
static uint64_t clock_ns(void *arg)
{
    (void)arg;
    fabric_advance(LOOK_NS);
    return fabric_now_ns();
}

static uint64_t random_bits(void *arg)
{
    (void)arg;
    return fabric_random(UINT64_MAX);
}

void world_open(const struct vbn_port_config *config, const struct vbn_transport **tr,
                vbn_port_t **port)
{
    struct vbn_port_config simulated = *config;
    struct vbn_error err;

    simulated.clock_ns = clock_ns;
    simulated.random = random_bits;
    *tr = vbn_rc_transport();
    if ((*tr)->open(&simulated, port, &err) != VBN_OK)
        fail_msg("%s", err.text);
}

void world_idle(void)
{
    fabric_advance(TURN_NS);
}

bool world_has_time(void)
{
    return false;
}

const struct CMUnitTest *world_tests(size_t *count)
{
    *count = 0;
    return NULL;
}

int world_child(char **words)
{
    (void)words;
    return 1;
}
