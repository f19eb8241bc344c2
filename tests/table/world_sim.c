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

/* --- who asked by himself --------------------------------------------------------------------- */

static unsigned errors;

static void count_error(void *arg, vbn_peer_t *peer, int status, const char *reason)
{
    (void)arg;
    (void)peer;
    (void)status;
    (void)reason;
    errors++;
}

static vbn_port_t *open_port(int rank, uint32_t number)
{
    const struct vbn_port_config config = {
        .size = sizeof(config), .rank = number, .job_key = 42, .peer_error = count_error};
    const struct vbn_transport *unused;
    vbn_port_t *port;

    fabric_enter(rank);
    world_open(&config, &unused, &port);
    return port;
}

static vbn_peer_t *connect_to(vbn_port_t *port, int to_rank, vbn_port_t *to)
{
    const struct vbn_transport *tr = vbn_rc_transport();
    int rank = fabric_current_rank();
    unsigned char address[4096];
    size_t len = sizeof(address);
    struct vbn_error err;
    vbn_peer_t *peer;

    fabric_enter(to_rank);
    assert_int_equal(tr->address(to, address, &len), VBN_OK);
    fabric_enter(rank);
    assert_int_equal(tr->connect(port, address, len, NULL, &peer, &err), VBN_OK);
    return peer;
}

/* He has spoken, and dies: the host, who knows no such peer, need not know. */
static void nobody_misses_who_was_not_named(void **state)
{
    const struct vbn_transport *tr = vbn_rc_transport();
    int home = fabric_current_rank(), away = fabric_rank_add(0);
    vbn_port_t *ours = open_port(home, 1), *theirs = open_port(away, 2);
    vbn_peer_t *peer = connect_to(theirs, home, ours);
    struct vbn_op send = {.done = NULL}, recv = {.done = NULL};
    int word = 7, got = 0;

    (void)state;
    errors = 0;
    assert_true(tr->send(peer, &word, sizeof(word), 1, &send) >= 0);
    fabric_enter(home);
    assert_int_equal(tr->recv(ours, NULL, &got, sizeof(got), 1, VBN_TAG_MAX, &recv), VBN_PENDING);
    for (int i = 0; i < 10000 && recv.status == VBN_PENDING; i++) {
        fabric_enter(i % 2 ? home : away);
        tr->progress(i % 2 ? ours : theirs);
        world_idle();
    }
    assert_int_equal(got, word);
    assert_null(recv.peer);
    fabric_rank_kill(away);
    fabric_enter(home);
    for (int ms = 0; ms < 70000; ms += 10) {
        tr->progress(ours);
        fabric_advance(10000000);
    }
    assert_int_equal(errors, 0);
    assert_int_equal(tr->close(ours), VBN_OK);
    fabric_enter(away); /* nothing is done any more, but the memory is given back */
    tr->close(theirs);
    fabric_enter(home);
}

static int begin_test(void **state)
{
    (void)state;
    return world_begin();
}

static int end_test(void **state)
{
    (void)state;
    return world_end();
}

const struct CMUnitTest *world_tests(size_t *count)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_misses_who_was_not_named, begin_test, end_test),
    };

    *count = sizeof(tests) / sizeof(tests[0]);
    return tests;
}

int world_child(char **words)
{
    (void)words;
    return 1;
}
