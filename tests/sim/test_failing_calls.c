/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The failure loop: each step of the transport's life is run again and again, and each time the
 * next one of the allocations, verbs and CM calls it makes fails, until it makes none more. Every
 * time it must end with success or a clean error, no misuse, no leak; what it left must be able
 * to go on, and to close.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "world.h"

#include <stdio.h>
#include <string.h>

enum { A, B, NTH_MOST = 3000, AM = 9, SETTLE_MS = 20000, REGION_BYTES = 4096 };

static struct world world;
static int received, ended, done_count, done_status, complaints;

/* Says what went wrong and with which call failing, and lets the loop go on. */
static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (failing: %s)\n", fabric_fail_what() ? fabric_fail_what() : "nothing");
    complaints++;
}

/* One step, run by rank A with the Nth call failing. Returns what the transport said. */
struct step {
    const char *name;
    bool connected; /* rank A and B are connected before */
    int victim;     /* whose calls fail */
    int (*run)(struct world_rank *a);
};

static void on_message(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    (void)arg;
    (void)ep;
    (void)id;
    assert_int_equal(len, 4);
    assert_memory_equal(data, "ping", 4);
    received++;
}

static void on_endpoint_error(struct world_rank *rank, vbn_endpoint_t *ep, int status)
{
    (void)rank;
    (void)ep;
    assert_true(status < 0);
    ended++;
}

static void on_done(void *arg, vbn_endpoint_t *ep, int status)
{
    (void)arg;
    (void)ep;
    done_count++;
    done_status = status;
}

static vbn_endpoint_t *endpoint(struct world_rank *from, struct world_rank *to)
{
    vbn_endpoint_t *ep = NULL;
    fabric_enter(from->rank);
    int rc = vbn_endpoint_create(from->ctx, to->address, to->address_len, NULL, &ep, NULL);
    assert_true(rc == VBN_OK || rc == VBN_ERR_NO_MEMORY);
    return ep;
}

static int send_ping(vbn_endpoint_t *ep)
{
    struct iovec iov = {"ping", 4};
    return vbn_am_send(ep, AM, &iov, 1);
}

static void turns_until(bool (*over)(void))
{
    uint64_t limit_ns = fabric_now_ns() + SETTLE_MS * 1000000ull;
    while (!over() && fabric_now_ns() < limit_ns)
        world_turn(&world, NULL);
}

static bool message_is_settled(void)
{
    return received > 0 || ended > 0;
}

static bool done_is_settled(void)
{
    return done_count > 0;
}

/* ---- the steps ---- */

static int step_endpoint(struct world_rank *a)
{
    vbn_endpoint_t *ep = NULL;
    return vbn_endpoint_create(a->ctx, world.ranks[B].address, world.ranks[B].address_len, NULL,
                               &ep, NULL);
}

static int step_message(struct world_rank *a)
{
    vbn_endpoint_t *ep = endpoint(a, &world.ranks[B]);
    if (!ep)
        return VBN_ERR_NO_MEMORY;
    int rc = send_ping(ep);
    if (rc == VBN_OK)
        turns_until(message_is_settled);
    if (rc == VBN_OK && !message_is_settled())
        complain("the message neither arrived nor failed");
    return rc;
}

static int step_register(struct world_rank *a)
{
    static unsigned char region[REGION_BYTES];
    vbn_mem_t *mem = NULL;
    int rc = vbn_mem_register(a->ctx, region, sizeof(region), VBN_ACCESS_REMOTE_WRITE, &mem);
    if (rc == VBN_OK)
        vbn_mem_deregister(mem);
    return rc;
}

static int step_rma(struct world_rank *a, bool is_put)
{
    static unsigned char near[REGION_BYTES], far[REGION_BYTES];
    vbn_mem_t *near_mem = NULL, *far_mem = NULL;
    struct world_rank *b = &world.ranks[B];
    fabric_enter(b->rank);
    assert_int_equal(
        vbn_mem_register(b->ctx, far, sizeof(far),
                         VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_WRITE | VBN_ACCESS_REMOTE_READ,
                         &far_mem),
        VBN_OK);
    vbn_endpoint_t *ep = endpoint(a, b);
    int rc = vbn_mem_register(a->ctx, near, sizeof(near), VBN_ACCESS_LOCAL_WRITE, &near_mem);
    if (rc == VBN_OK && ep) {
        uint32_t key = vbn_mem_rkey(far_mem);
        if (is_put)
            rc = vbn_put(ep, near, near_mem, (uintptr_t)far, key, sizeof(near), on_done, NULL);
        else
            rc = vbn_get(ep, near, near_mem, (uintptr_t)far, key, sizeof(near), on_done, NULL);
        if (rc == VBN_OK)
            turns_until(done_is_settled);
        if (done_count != (rc == VBN_OK))
            complain("the put or get ended %d times", done_count);
        if (rc == VBN_OK)
            rc = done_status;
    }
    fabric_enter(a->rank);
    if (near_mem)
        vbn_mem_deregister(near_mem);
    fabric_enter(b->rank);
    vbn_mem_deregister(far_mem);
    return rc;
}

static int step_put(struct world_rank *a)
{
    return step_rma(a, true);
}

static int step_get(struct world_rank *a)
{
    return step_rma(a, false);
}

static int step_close(struct world_rank *a)
{
    uint64_t limit_ns = fabric_now_ns() + SETTLE_MS * 1000000ull;
    fabric_enter(a->rank);
    while (vbn_shutdown(a->ctx) > 0 && fabric_now_ns() < limit_ns) {
        world_turn(&world, NULL);
        fabric_enter(a->rank);
    }
    return VBN_OK;
}

/* ---- the loop ---- */

static void open_two(uint64_t seed)
{
    const struct world_plan plan = {.seed = seed, .ranks = 2, .faults = false};
    received = ended = done_count = done_status = 0;
    assert_true(world_open(&world, &plan));
    world.endpoint_error = on_endpoint_error;
    world.calls_fail = true;
    for (int i = A; i <= B; i++) {
        fabric_enter(world.ranks[i].rank);
        vbn_am_handler(world.ranks[i].ctx, AM, on_message, NULL);
    }
}

static void connect_two(void)
{
    assert_int_equal(send_ping(endpoint(&world.ranks[A], &world.ranks[B])), VBN_OK);
    turns_until(message_is_settled);
    assert_int_equal(received, 1);
    received = 0;
}

/* A context that met a failure still talks to a third that did not. */
static void still_usable(struct world_rank *rank)
{
    struct world_rank *other = &world.ranks[rank->number == A ? B : A];
    int before = received, ends = ended;
    vbn_endpoint_t *ep = endpoint(rank, other);
    int rc = ep ? send_ping(ep) : VBN_ERR_NO_MEMORY;
    uint64_t limit_ns = fabric_now_ns() + SETTLE_MS * 1000000ull;
    while (rc == VBN_OK && received == before && ended == ends && fabric_now_ns() < limit_ns)
        world_turn(&world, NULL);
    if (rc == VBN_OK && received == before && ended == ends)
        complain("afterwards a message neither arrived nor failed");
}

/* False: this many calls are not made. */
static bool run_nth(const struct step *step, unsigned nth, unsigned classes)
{
    open_two(nth % 7 + 1);
    if (step->connected)
        connect_two();
    struct world_rank *a = &world.ranks[A];
    fabric_enter(world.ranks[step->victim].rank);
    fabric_fail_arm(classes, nth);
    fabric_enter(a->rank);
    int rc = step->run(a);
    fabric_fail_disarm();
    bool fired = fabric_fail_fired();
    if (!fired && rc != VBN_OK)
        complain("%s: %s although nothing failed", step->name, vbn_status_str(rc));
    if (step->run != step_close)
        still_usable(a);
    if (world_close(&world) != 0 || world.failed)
        complain("%s, call %u: %s", step->name, nth, world.failed ? world.reason : "violations");
    return fired;
}

static void run_step(const struct step *step)
{
    const unsigned classes = FABRIC_FAIL_ALLOC | FABRIC_FAIL_VERBS | FABRIC_FAIL_CM;
    unsigned nth = 1;
    complaints = 0;
    while (nth < NTH_MOST && run_nth(step, nth, classes))
        nth++;
    assert_true(nth < NTH_MOST);
    assert_int_equal(complaints, 0);
    print_message("%s: %u calls, each made to fail once\n", step->name, nth - 1);
}

#define STEP(test, call, is_connected, whose)                                                      \
    static void test(void **state)                                                                 \
    {                                                                                              \
        const struct step step = {#test, is_connected, whose, call};                               \
        (void)state;                                                                               \
        run_step(&step);                                                                           \
    }

STEP(endpoint_create, step_endpoint, false, A)
STEP(first_message_as_the_connecting_side, step_message, false, A)
STEP(first_message_as_the_accepting_side, step_message, false, B)
STEP(message_when_connected, step_message, true, A)
STEP(message_to_a_failing_receiver, step_message, true, B)
STEP(mem_register, step_register, false, A)
STEP(put, step_put, true, A)
STEP(get, step_get, true, A)
STEP(get_as_the_first_operation, step_get, false, A)
STEP(close_as_the_closing_side, step_close, true, A)
STEP(close_as_the_other_side, step_close, true, B)

/* vbn_open() itself: a rank more, opened by hand. */
static void open_a_context(void **state)
{
    (void)state;
    unsigned nth = 1;
    complaints = 0;
    for (bool fired = true; fired && nth < NTH_MOST; nth += fired) {
        open_two(nth % 7 + 1);
        vbn_context_t *ctx = NULL;
        struct vbn_error error = {0};
        int rank = fabric_rank_add(world.ranks[A].node);
        fabric_enter(rank);
        fabric_fail_arm(FABRIC_FAIL_ALLOC | FABRIC_FAIL_VERBS | FABRIC_FAIL_CM, nth);
        int rc = vbn_open(&world.ranks[A].options, &ctx, &error);
        fabric_fail_disarm();
        fired = fabric_fail_fired();
        if (rc == VBN_OK)
            assert_int_equal(vbn_close(ctx), VBN_OK);
        else if (!fired || !error.text[0])
            complain("open, call %u: %s, \"%s\"", nth, vbn_status_str(rc), error.text);
        if (world_close(&world) != 0)
            complain("open, call %u: violations", nth);
    }
    assert_int_equal(complaints, 0);
    print_message("open: %u calls, each made to fail once\n", nth - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_a_context),
        cmocka_unit_test(endpoint_create),
        cmocka_unit_test(first_message_as_the_connecting_side),
        cmocka_unit_test(first_message_as_the_accepting_side),
        cmocka_unit_test(message_when_connected),
        cmocka_unit_test(message_to_a_failing_receiver),
        cmocka_unit_test(mem_register),
        cmocka_unit_test(put),
        cmocka_unit_test(get),
        cmocka_unit_test(get_as_the_first_operation),
        cmocka_unit_test(close_as_the_closing_side),
        cmocka_unit_test(close_as_the_other_side),
    };
    return cmocka_run_group_tests_name("failing calls", tests, NULL, NULL);
}
