/* SPDX-License-Identifier: BSD-3-Clause */
/* Recovery seen from both sides: links and queue pairs that fail under traffic, peers that die. */
#include "pair.h"

#define LIMIT_MS 4000

static void recovering(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = LIMIT_MS;
}

static void patient(struct vbn_options *opts)
{
    recovering(opts);
    opts->close_timeout_ms = LIMIT_MS;
}

static void open_sides(int count, uint64_t seed, const struct fabric_config *config)
{
    pair_open(count, seed, config, NULL, recovering);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b)
                assert_int_equal(pair_send(a, b, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
}

/* As many as there are buffers for. */
static void burst(int a, int b)
{
    int rc = VBN_OK;

    for (int i = 0; i < 20 && rc == VBN_OK; i++)
        rc = pair_send(a, b, i % 3 ? 30 : 900);
    assert_true(rc == VBN_OK || rc == VBN_ERR_AGAIN);
}

static void nobody_failed(void)
{
    for (int i = 0; i < SIDES_MAX; i++)
        if (side[i].failures)
            fail_msg("side %d: %s", i, side[i].reason);
}

static uint64_t recoveries(int n)
{
    return side[n].ctx->counters.recoveries;
}

static void queue_pairs_that_fail(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open_sides(2, seed, NULL);
        for (int i = 0; i < 10; i++) {
            burst(0, 1);
            burst(1, 0);
            for (uint64_t turns = seed; turns; turns--)
                pair_turn();
            if (side[i % 2].to[1 - i % 2]->conn)
                fabric_qp_fail(side[i % 2].to[1 - i % 2]->conn->q.qp_num);
        }
        pair_until(pair_quiet, 5000);
        nobody_failed();
        assert_true(recoveries(0) && recoveries(1));
        pair_close();
        pair_teardown(NULL);
    }
}

/* The link of one side goes down for MS; returns the time from its return until all is well. */
static uint64_t outage(uint64_t ms)
{
    uint64_t up_ns;

    burst(0, 1);
    burst(1, 0);
    pair_turn();
    fabric_link_set(side[0].node, false);
    pair_pass(ms);
    fabric_link_set(side[0].node, true);
    up_ns = fabric_now_ns();
    pair_until(pair_quiet, 60000);
    nobody_failed();
    return fabric_now_ns() - up_ns;
}

static void links_that_fail(void **state)
{
    const struct fabric_config config = {.flap_is_fast_fail = true, .cm_timeout_ns = 4000000000};

    (void)state;
    open_sides(2, 1, &config);
    for (uint64_t ms = 1; ms < 3000; ms = ms * 3 + 7) {
        uint64_t took_ns = outage(ms);

        if (took_ns > 200 * (uint64_t)UNIT_MS)
            fail_msg("%llu ms after an outage of %llu ms", (unsigned long long)(took_ns / UNIT_MS),
                     (unsigned long long)ms);
    }
    assert_true(recoveries(0) && recoveries(1));
    pair_close();
}

static bool side_0_failed(void)
{
    return side[0].failures > 0;
}

static void an_outage_beyond_the_deadline(void **state)
{
    (void)state;
    const struct fabric_config config = {.flap_is_fast_fail = true};

    open_sides(3, 1, &config);
    burst(0, 1);
    pair_turn();
    fabric_node_power_off(side[1].node);
    fabric_qp_fail(side[0].to[1]->conn->q.qp_num);
    pair_until(side_0_failed, 3 * LIMIT_MS);
    assert_ptr_equal(side[0].failed, side[0].to[1]);
    assert_int_equal(side[0].status, VBN_ERR_PEER_LOST);
    assert_contains(side[0].reason, "not made again");
    burst(0, 2); /* life goes on */
    pair_pass(100);
    assert_int_equal(side[2].got[0], 21);
    assert_int_equal(side[0].failures, 1);
}

static void a_killed_peer_is_known_soon(void **state)
{
    uint64_t start;

    (void)state;
    open_sides(3, 1, NULL);
    burst(0, 1);
    fabric_rank_kill(side[1].rank);
    start = fabric_now_ns();
    pair_until(side_0_failed, 2000);
    assert_in_range((fabric_now_ns() - start) / UNIT_MS, 0, 1000);
    assert_ptr_equal(side[0].failed, side[0].to[1]);
    assert_contains(side[0].reason, "its process has ended");
    pair_pass(1000);
    assert_int_equal(side[0].failures, 1);
    assert_int_equal(side[2].failures, 1);
}

static void closing_without_a_link(void **state)
{
    uint64_t ns;

    (void)state;
    const struct fabric_config config = {.flap_is_fast_fail = true};

    open_sides(2, 1, &config);
    fabric_link_set(side[0].node, false);
    burst(0, 1);
    assert_int_equal(pair_close_side(0, &ns), VBN_ERR_TIMEOUT);
    assert_in_range(ns / UNIT_MS, 100, 110);
}

/* The closing side has lost the connection with messages on their way: they are delivered first. */
static void closing_delivers_what_was_lost(void **state)
{
    uint64_t ns;

    (void)state;
    open_sides(2, 1, NULL);
    burst(0, 1);
    fabric_qp_fail(side[0].to[1]->conn->q.qp_num);
    assert_int_equal(pair_close_side(0, &ns), VBN_OK);
    pair_pass(50);
    assert_int_equal(side[1].got[0], 21);
    assert_int_equal(side[1].failures, 0);
    pair_close();
}

/* The queue pair of side FAILED fails, and at once side LEAVING closes, with nothing left to be
 * said but the farewell. Side 0 alone knows the way to the other. */
static void leave_after_a_failure(int failed, int leaving)
{
    uint64_t ns;

    pair_open(2, 1, NULL, NULL, patient);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    pair_pass(100);
    fabric_qp_fail(TAILQ_FIRST(&side[failed].ctx->conns)->q.qp_num);
    assert_int_equal(pair_close_side(leaving, &ns), VBN_OK);
    pair_pass(2 * LIMIT_MS);
    nobody_failed();
    assert_int_equal(recoveries(failed), 1);
    pair_close();
}

/* Who has lost it can only wait: it learns that this was no loss, although the farewell did not
 * arrive by the old one. */
static void a_farewell_to_who_has_lost_it(void **state)
{
    (void)state;
    leave_after_a_failure(1, 0);
}

/* The other way round: only the other one can ask again, and is waited for. */
static void a_farewell_that_is_asked_for(void **state)
{
    (void)state;
    leave_after_a_failure(0, 1);
}

/* What the peer's device has, with the farewell behind it, is found when the peer looks. */
static void closing_while_the_peer_is_busy(void **state)
{
    uint64_t ns;

    (void)state;
    pair_open(2, 1, NULL, NULL, patient);
    assert_int_equal(pair_send(0, 1, 20), VBN_OK);
    assert_int_equal(pair_send(1, 0, 20), VBN_OK);
    pair_until(pair_quiet, 1000);
    side[1].asleep = true;
    for (int i = 0; i < 5; i++)
        assert_int_equal(pair_send(0, 1, 30), VBN_OK);
    assert_int_equal(pair_close_side(0, &ns), VBN_OK);
    side[1].asleep = false;
    pair_pass(2 * LIMIT_MS);
    assert_int_equal(side[1].got[0], side[0].sent[1]);
    nobody_failed();
    pair_close();
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_pairs_that_fail),
        T(links_that_fail),
        T(an_outage_beyond_the_deadline),
        T(a_killed_peer_is_known_soon),
        T(closing_without_a_link),
        T(closing_delivers_what_was_lost),
        T(closing_while_the_peer_is_busy),
        T(a_farewell_to_who_has_lost_it),
        T(a_farewell_that_is_asked_for),
    };

    return cmocka_run_group_tests_name("flaps", tests, NULL, NULL);
}
