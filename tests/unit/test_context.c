/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: what they tell; every call that opening, talking and closing make, failing once. */
#include "pair.h"

#include <errno.h>
#include <pthread.h>

#define NTH_MAX 2000

/* --- what a context tells --------------------------------------------------------------------- */

static void answers_fit_the_caller_s_size(void **state)
{
    struct {
        struct vbn_attr attr;
        unsigned char beyond[8];
    } a;
    struct {
        struct vbn_counters c;
        unsigned char beyond[8];
    } c;

    (void)state;
    pair_open(1, 1, NULL, NULL, NULL);
    memset(&a, 0xa5, sizeof(a));
    a.attr.size = sizeof(a); /* of a later release: the rest is not ours to write */
    vbn_query(side[0].ctx, &a.attr);
    assert_int_equal(a.attr.size, sizeof(a.attr));
    assert_int_equal(a.beyond[0], 0xa5);
    assert_non_null(a.attr.device);
    assert_int_equal(a.attr.port, 1);
    assert_int_equal(a.attr.max_am_len, 1024);
    assert_true(a.attr.srq);
    assert_true(a.attr.atomics);
    assert_true(a.attr.rate_mbps > 0);
    memset(&a, 0xa5, sizeof(a));
    a.attr.size = offsetof(struct vbn_attr, rate_mbps); /* of an earlier one */
    vbn_query(side[0].ctx, &a.attr);
    assert_int_equal(a.attr.rate_mbps, 0xa5a5a5a5a5a5a5a5);
    assert_int_equal(a.attr.max_am_len, 1024);
    memset(&c, 0xa5, sizeof(c));
    c.c.size = sizeof(c);
    vbn_counters(side[0].ctx, &c.c);
    assert_int_equal(c.c.size, sizeof(c.c));
    assert_int_equal(c.c.tx_msgs, 0);
    assert_int_equal(c.beyond[0], 0xa5);
    pair_close();
}

static void address_needs_room(void **state)
{
    unsigned char blob[VBN_ADDRESS_MAX];
    struct vbn_wire_address a;
    size_t len = 51;

    (void)state;
    pair_open(1, 1, NULL, NULL, NULL);
    assert_int_equal(vbn_address(side[0].ctx, blob, &len), VBN_ERR_INVALID);
    len = 52;
    assert_int_equal(vbn_address(side[0].ctx, blob, &len), VBN_OK);
    assert_int_equal(len, 52);
    assert_true(vbn_wire_address_read(blob, len, &a));
    assert_int_equal(a.uid, side[0].ctx->uid);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.addrs[0].family, 4);
    assert_int_equal(a.addrs[0].port, side[0].ctx->cm.port[0]);
    pair_close();
}

static void other_job(struct vbn_options *opts)
{
    opts->job_key = 99;
}

static void jobs_do_not_mix(void **state)
{
    struct vbn_error err;
    vbn_endpoint_t *ep;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_close_side(1, NULL), VBN_OK);
    assert_int_equal(pair_open_side(1, other_job, &err), VBN_OK);
    fabric_enter(side[0].rank);
    assert_int_equal(
        vbn_endpoint_create(side[0].ctx, side[1].addr, side[1].addr_len, NULL, &ep, &err),
        VBN_ERR_REFUSED);
    pair_close();
}

/* --- opening fails at each step --------------------------------------------------------------- */

static void open_with_a_failing_call(unsigned classes)
{
    struct vbn_error err;
    unsigned failed = 0, nth;

    for (nth = 1; nth < NTH_MAX; nth++) {
        int rc;

        unit_reset();
        memset(side, 0, sizeof(side));
        fabric_create(nth, NULL);
        side[0].node = fabric_node_add(NULL);
        side[0].rank = fabric_rank_add(side[0].node);
        fabric_enter(side[0].rank);
        err = (struct vbn_error){0};
        fabric_fail_arm(classes, nth);
        rc = pair_open_side(0, NULL, &err);
        fabric_fail_disarm();
        if (rc) {
            failed++;
            assert_int_equal(err.status, rc);
            assert_true(strlen(err.text) > 0);
        } else {
            pair_close_side(0, NULL); /* it could do without */
        }
        if (fabric_destroy())
            fail_msg("violations or leaks after %s failed", fabric_fail_what());
        if (!fabric_fail_fired())
            break;
    }
    assert_true(nth < NTH_MAX && failed > 1);
}

static void open_fails_at_each_call(void **state)
{
    (void)state;
    open_with_a_failing_call(FABRIC_FAIL_VERBS);
    open_with_a_failing_call(FABRIC_FAIL_CM);
    open_with_a_failing_call(FABRIC_FAIL_ALLOC);
}

static void bad_options(void **state)
{
    vbn_context_t *ctx = NULL;
    struct vbn_options opts;
    struct vbn_error err;

    (void)state;
    unit_reset();
    fabric_create(1, NULL);
    side[0].rank = fabric_rank_add(fabric_node_add(NULL));
    fabric_enter(side[0].rank);
    unit_options(&opts);
    opts.window = 1;
    assert_int_equal(vbn_open(&opts, &ctx, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "window");
    assert_null(ctx);
}

/* --- talking while calls fail ----------------------------------------------------------------- */

/*
 * One of side 0's calls fails somewhere between connecting and closing. Either it does not show, or
 * the endpoint ends with an error; nothing hangs, nothing is lost silently, nothing is left.
 */
static void talk_with_a_failing_call(unsigned classes)
{
    unsigned nth;

    for (nth = 1; nth < NTH_MAX; nth++) {
        uint64_t end, sent = 0;

        pair_open(2, nth, NULL, NULL, NULL);
        pair_endpoint(0, 1);
        pair_endpoint(1, 0);
        fabric_enter(side[0].rank);
        fabric_fail_arm(classes, nth);
        for (int i = 0; i < 60; i++) {
            fabric_enter(side[0].rank);
            sent += pair_send(0, 1, (size_t)i * 17) == VBN_OK;
            fabric_enter(side[1].rank);
            pair_send(1, 0, 1024 - (size_t)i * 17);
            if (i % 7 == 0)
                pair_turn();
        }
        end = fabric_now_ns() + 6000ull * UNIT_MS;
        while (!pair_quiet() && !(side[0].failures && side[1].failures) && fabric_now_ns() < end &&
               !(side[0].to[1]->state >= VBN_EP_CLOSED && side[1].to[0]->state >= VBN_EP_CLOSED))
            pair_turn();
        if (!pair_quiet() && !side[0].failures)
            fail_msg("call %u (%s) failed: %llu of %llu messages came, and nobody says why", nth,
                     fabric_fail_what(), (unsigned long long)side[1].got[0],
                     (unsigned long long)sent);
        fabric_fail_disarm();
        for (int i = 0; i < 2; i++) {
            assert_true(side[i].failures <= 1);
            pair_close_side(i, NULL);
        }
        if (fabric_destroy())
            fail_msg("violations or leaks after call %u, %s, failed", nth, fabric_fail_what());
        if (!fabric_fail_fired())
            break;
    }
    assert_in_range(nth, 3, NTH_MAX - 1);
}

static void talk_while_verbs_fail(void **state)
{
    (void)state;
    talk_with_a_failing_call(FABRIC_FAIL_VERBS);
}

static void talk_while_the_connection_manager_fails(void **state)
{
    (void)state;
    talk_with_a_failing_call(FABRIC_FAIL_CM);
}

static void talk_while_memory_fails(void **state)
{
    (void)state;
    talk_with_a_failing_call(FABRIC_FAIL_ALLOC);
}

/* --- closing ---------------------------------------------------------------------------------- */

static void close_without_peers(void **state)
{
    uint64_t ns;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    pair_endpoint(0, 1); /* never used */
    assert_int_equal(pair_close_side(0, &ns), VBN_OK);
    assert_true(ns < UNIT_MS);
    pair_close();
}

static void shutdown_counts_down(void **state)
{
    (void)state;
    pair_open(3, 1, NULL, NULL, NULL);
    for (int b = 1; b < 3; b++)
        assert_int_equal(pair_send(0, b, 100), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_enter(side[0].rank);
    assert_int_equal(vbn_shutdown(side[0].ctx), 4); /* two endpoints, two connections */
    assert_int_equal(pair_send(0, 1, 20), VBN_ERR_CLOSED);
    assert_int_equal(vbn_endpoint_create(side[0].ctx, side[1].addr, side[1].addr_len, NULL,
                                         &(vbn_endpoint_t *){NULL}, NULL),
                     VBN_ERR_CLOSED);
    pair_pass(50);
    fabric_enter(side[0].rank);
    assert_int_equal(vbn_shutdown(side[0].ctx), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(side[i].failures, 0);
    pair_close();
}

static void messages_before_the_close_are_delivered(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    for (int i = 0; i < 50; i++)
        assert_int_equal(pair_send(0, 1, 900), VBN_OK); /* not even connected yet */
    assert_int_equal(pair_close_side(0, NULL), VBN_OK);
    assert_int_equal(side[1].got[0], 50);
    pair_close();
}

static void close_is_bounded_while_connecting(void **state)
{
    uint64_t ns;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    fabric_node_power_off(side[1].node);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_pass(5);
    assert_int_equal(pair_close_side(0, &ns), VBN_ERR_TIMEOUT);
    assert_in_range(ns / UNIT_MS, 100, 110);
}

static unsigned depth, deepest, over;

static void done_and_on(void *arg, vbn_endpoint_t *ep, int status)
{
    (void)ep;
    assert_int_equal(status, VBN_ERR_CLOSED);
    deepest = ++depth > deepest ? depth : deepest;
    over++;
    assert_int_equal(vbn_progress(arg), 0);
    depth--;
}

/* A close that runs out of time ends the gets; one end's callback is not called inside another's.
 */
static void ends_by_force_are_not_nested(void **state)
{
    static char here[64];
    vbn_mem_t *mem;

    (void)state;
    depth = deepest = over = 0;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_node_power_off(side[1].node);
    fabric_enter(side[0].rank);
    assert_int_equal(
        vbn_mem_register(side[0].ctx, here, sizeof(here), VBN_ACCESS_LOCAL_WRITE, &mem), VBN_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(vbn_get(side[0].to[1], here, mem, 4096, 1, 8, done_and_on, side[0].ctx),
                         VBN_OK);
    assert_int_equal(pair_close_side(0, NULL), VBN_ERR_TIMEOUT);
    assert_int_equal(over, 3);
    assert_int_equal(deepest, 1);
}

static void close_with_the_device_gone(void **state)
{
    uint64_t ns;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    fabric_device_remove(side[0].node);
    for (int i = 0; i < 2; i++) { /* the peer has not even been told */
        pair_close_side(i, &ns);
        assert_true(ns / UNIT_MS <= 110);
    }
}

/* --- threads ---------------------------------------------------------------------------------- */

static void multithreaded(struct vbn_options *opts)
{
    opts->multithreaded = true;
}

static void same_with_locks(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, multithreaded);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pair_send(0, 1, 500), VBN_OK);
        assert_int_equal(pair_send(1, 0, 500), VBN_OK);
    }
    pair_until(pair_quiet, 1000);
    for (int i = 0; i < 2; i++) /* no path leaves the lock taken */
        assert_int_equal(pthread_mutex_trylock(&side[i].ctx->mutex), 0);
    for (int i = 0; i < 2; i++)
        pthread_mutex_unlock(&side[i].ctx->mutex);
    pair_close();
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, pair_teardown)
    const struct CMUnitTest tests[] = {
        T(answers_fit_the_caller_s_size),
        T(address_needs_room),
        T(jobs_do_not_mix),
        cmocka_unit_test(open_fails_at_each_call),
        T(bad_options),
        T(talk_while_verbs_fail),
        T(talk_while_the_connection_manager_fails),
        T(talk_while_memory_fails),
        T(close_without_peers),
        T(shutdown_counts_down),
        T(messages_before_the_close_are_delivered),
        T(close_is_bounded_while_connecting),
        T(ends_by_force_are_not_nested),
        T(close_with_the_device_gone),
        T(same_with_locks),
    };

    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
