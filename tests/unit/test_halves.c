/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts that connect by halves over the simulated fabric: on each kind of network, with peers
 * that vanish or come late, beside connections by address, and with calls that fail. */
#include "pair.h"

#include "half.h"

struct blob {
    unsigned char bytes[VBN_HALF_MAX];
    size_t len;
};

static struct vbn_error err;
static struct blob of[2];
static vbn_half_t *half[2];

static int make(int n)
{
    of[n].len = sizeof(of[n].bytes);
    fabric_enter(side[n].rank);
    return vbn_half_create(side[n].ctx, of[n].bytes, &of[n].len, &half[n], &err);
}

static int join(int n)
{
    fabric_enter(side[n].rank);
    return vbn_half_join(half[n], of[1 - n].bytes, of[1 - n].len, NULL, &side[n].to[1 - n], &err);
}

static void make_both(void)
{
    for (int n = 0; n < 2; n++)
        if (make(n))
            fail_msg("half %d: %s", n, err.text);
}

static void join_both(void)
{
    make_both();
    for (int n = 0; n < 2; n++)
        if (join(n))
            fail_msg("joining %d: %s", n, err.text);
}

static void nobody_failed(void)
{
    for (int i = 0; i < 2; i++)
        if (side[i].failures)
            fail_msg("side %d: %s", i, side[i].reason);
}

static void exchange(unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        while (pair_send(n % 2, 1 - n % 2, n % 1025) == VBN_ERR_AGAIN)
            pair_turn();
    pair_until(pair_quiet, 3000);
    nobody_failed();
}

static void patient(struct vbn_options *opts)
{
    opts->close_timeout_ms = 20000;
}

/* A try lasts 2.1 s: two of them. */
static void impatient(struct vbn_options *opts)
{
    opts->retry_count = 1;
}

#define FAILS_WITHIN_MS 5500

/* --- networks --------------------------------------------------------------------------------- */

static void talk(const struct fabric_node_attr *attr, void (*tweak)(struct vbn_options *))
{
    pair_open(2, 1, NULL, attr, tweak);
    join_both();
    assert_true(vbn_endpoint_connected(side[0].to[1]));
    exchange(1000);
    pair_close();
    pair_teardown(NULL);
}

static void cramped(struct vbn_options *opts)
{
    opts->use_srq = false;
    opts->window = VBN_WINDOW_MIN;
    opts->sq_depth = 4;
    opts->tx_buffers = 64;
    opts->inline_limit = 0;
    opts->signal_period = 1024;
}

static void every_network(void **state)
{
    const struct fabric_node_attr attrs[] = {
        {0},
        {.gid_index_shift = 2},
        {.no_srq = true, .max_inline = -1},
        {.family = AF_INET6},
        {.family = AF_INET6, .link_local = true},
        {.transport = FABRIC_INFINIBAND},
        {.transport = FABRIC_INFINIBAND, .gid_index_shift = 1},
        {.max_rd_atom = 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        talk(&attrs[i], NULL);
        talk(&attrs[i], cramped);
    }
}

static void iwarp_has_none(void **state)
{
    struct fabric_node_attr iwarp = {.transport = FABRIC_IWARP};

    (void)state;
    pair_open(2, 1, NULL, &iwarp, NULL);
    assert_int_equal(make(0), VBN_ERR_DEVICE);
    assert_contains(err.text, "vbn_endpoint_create()");
    assert_int_equal(pair_send(0, 1, 100), VBN_OK);
    pair_until(pair_quiet, 1000);
    pair_close();
}

/* Side 1 moves to another kind of node. */
static void move_side_1(const struct fabric_node_attr *attr)
{
    assert_int_equal(pair_close_side(1, NULL), VBN_OK);
    side[1].node = fabric_node_add(attr);
    side[1].rank = fabric_rank_add(side[1].node);
    assert_int_equal(pair_open_side(1, NULL, &err), VBN_OK);
}

static void networks_that_do_not_meet(void **state)
{
    const struct fabric_node_attr v6 = {.family = AF_INET6}, ib = {.transport = FABRIC_INFINIBAND};

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    move_side_1(&v6);
    make_both();
    for (int n = 0; n < 2; n++) {
        assert_int_equal(join(n), VBN_ERR_UNREACHABLE);
        assert_contains(err.text, "`address`");
    }
    vbn_half_destroy(half[1]);
    move_side_1(&ib);
    assert_int_equal(make(1), VBN_OK);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(join(n), VBN_ERR_UNREACHABLE);
        assert_contains(err.text, "InfiniBand");
    }
    pair_close();
}

static void other_limits_are_refused(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    make_both();
    side[0].ctx->max_am_len--;
    assert_int_equal(join(0), VBN_ERR_REFUSED);
    assert_contains(err.text, "eager_limit");
    side[0].ctx->max_am_len++;
    for (int n = 0; n < 2; n++)
        assert_int_equal(join(n), VBN_OK);
    exchange(10);
    pair_close();
}

static void unknown_versions_are_refused(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    make_both();
    of[1].bytes[8 + 4] = of[1].bytes[8 + 5] = VBN_WIRE_VERSION + 1;
    assert_int_equal(join(0), VBN_ERR_VERSION);
    assert_contains(err.text, "same release");
    of[1].bytes[8 + 4] = of[1].bytes[8 + 5] = VBN_WIRE_VERSION;
    assert_int_equal(join(0), VBN_OK);
    assert_int_equal(join(1), VBN_OK);
    exchange(10);
    pair_close();
}

/* --- peers that vanish, or come late ---------------------------------------------------------- */

static bool is_lost(void)
{
    return side[0].failures > 0;
}

static void expect_lost(void)
{
    uint64_t ns;

    pair_until(is_lost, FAILS_WITHIN_MS);
    assert_int_equal(side[0].status, VBN_ERR_PEER_LOST);
    assert_int_equal(pair_send(0, 1, 10), VBN_ERR_PEER_LOST);
    pair_pass(1500);
    assert_int_equal(side[0].failures, 1);
    assert_true(TAILQ_EMPTY(&side[0].ctx->conns));
    assert_int_equal(pair_close_side(0, &ns), VBN_OK);
    assert_in_range(ns, 0, 10 * UNIT_MS);
}

static void kill_side_1(void)
{
    fabric_rank_kill(side[1].rank);
    fabric_enter(side[1].rank);
    vbn_close(side[1].ctx); /* only gives its memory back */
    side[1].ctx = NULL;
}

/* Nobody sends anything: the peer is asked. */
static void death_is_noticed_in_silence(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, impatient);
    join_both();
    exchange(20);
    pair_pass(3000); /* it answers */
    nobody_failed();
    kill_side_1();
    expect_lost();
}

static void dead_host_is_noticed_by_a_send(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, impatient);
    join_both();
    exchange(20);
    fabric_node_power_off(side[1].node);
    assert_int_equal(pair_send(0, 1, 500), VBN_OK);
    expect_lost();
}

/* Vanishes while this side closes: the close is bounded by its own time. */
static void close_towards_the_dead_is_bounded(void **state)
{
    uint64_t ns;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    join_both();
    exchange(20);
    fabric_node_power_off(side[1].node);
    assert_int_equal(pair_close_side(0, &ns), VBN_ERR_TIMEOUT);
    assert_in_range(ns, 100 * UNIT_MS, 110 * UNIT_MS);
}

static void nobody_ever_joins(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, impatient);
    make_both();
    assert_int_equal(join(0), VBN_OK);
    pair_pass(6000); /* nothing is sent: it may take its time */
    nobody_failed();
    assert_int_equal(pair_send(0, 1, 500), VBN_OK);
    expect_lost();
}

static void late_peers_get_everything(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, impatient);
    make_both();
    assert_int_equal(join(0), VBN_OK);
    for (int i = 0; i < 30; i++)
        assert_int_equal(pair_send(0, 1, 100), VBN_OK);
    pair_pass(1500); /* the second try is still to come */
    assert_int_equal(join(1), VBN_OK);
    exchange(100);
    pair_close();
}

static void link_flaps(void **state)
{
    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    join_both();
    for (int i = 0; i < 3; i++) {
        fabric_link_set(side[1].node, false);
        assert_int_equal(pair_send(0, 1, 100), VBN_OK);
        assert_int_equal(pair_send(1, 0, 100), VBN_OK);
        pair_pass(100);
        fabric_link_set(side[1].node, true);
        exchange(10);
    }
    pair_close();
}

/* --- connections by address meanwhile --------------------------------------------------------- */

/* Side 0 has joined, and side 1 asks by address: it is put off until it joins, too. */
static void address_waits_for_the_join(void **state)
{
    int rc;

    (void)state;
    pair_open(2, 1, NULL, NULL, NULL);
    make_both();
    assert_int_equal(join(0), VBN_OK);
    assert_int_equal(pair_send(1, 0, 100), VBN_OK); /* connects */
    assert_int_equal(pair_send(0, 1, 100), VBN_OK);
    pair_pass(100);
    assert_int_equal(side[0].got[1], 0);
    while ((rc = join(1)) == VBN_ERR_AGAIN)
        pair_turn();
    assert_int_equal(rc, VBN_OK);
    exchange(100);
    pair_close();
}

/* Both send by address as soon as they can, with the halves in between: one way is found. */
static void halves_beside_addresses(void **state)
{
    unsigned joined = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fabric_config config = {.latency_ns = 5000, .cm_jitter_ns = seed * 3000};
        int rc[2];

        pair_open(2, seed, &config, NULL, NULL);
        make_both();
        assert_int_equal(pair_send(seed % 2, 1 - seed % 2, 20), VBN_OK);
        for (uint64_t i = 0; i < seed % 7; i++)
            pair_turn();
        for (int n = 0; n < 2; n++) {
            while ((rc[n] = join(n)) == VBN_ERR_AGAIN)
                pair_turn();
            assert_true(rc[n] == VBN_OK || rc[n] == VBN_ERR_INVALID);
        }
        assert_int_equal(rc[0], rc[1]);
        joined += rc[0] == VBN_OK;
        exchange(10);
        pair_close();
        pair_teardown(NULL);
    }
    assert_in_range(joined, 5, 55); /* both happen */
}

/* --- ends ------------------------------------------------------------------------------------- */

static void ends_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct fabric_config config;

        fabric_config_random(seed, &config);
        config = (struct fabric_config){.latency_ns = config.latency_ns,
                                        .jitter_ns = config.jitter_ns,
                                        .ack_jitter_ns = config.ack_jitter_ns,
                                        .cq_hold_ns = config.cq_hold_ns,
                                        .ghost_ppm = config.ghost_ppm,
                                        .late_recvs_stay = config.late_recvs_stay,
                                        .purge_on_destroy = config.purge_on_destroy};
        pair_open(2, seed, &config, NULL, patient);
        join_both();
        exchange(20);
        for (int n = 0; n < 2; n++) {
            assert_int_equal(pair_send(n, 1 - n, 100), VBN_OK);
            for (uint64_t i = 0; i < seed % 5; i++)
                pair_turn();
        }
        pair_until(pair_quiet, 1000);
        assert_int_equal(pair_close_side(seed % 2, NULL), VBN_OK);
        pair_pass(seed % 3);
        pair_close();
        nobody_failed();
        pair_teardown(NULL);
    }
}

/* --- calls that fail -------------------------------------------------------------------------- */

/* Each allocation and call of verbs in its turn; what is left must do, or say that it cannot. */
static void each_call_fails_once(void **state)
{
    bool fired = true;

    (void)state;
    for (unsigned nth = 1; fired; nth++) {
        int rc;

        pair_open(2, 1, NULL, NULL, impatient);
        assert_int_equal(make(1), VBN_OK);
        fabric_enter(side[0].rank);
        fabric_fail_arm(FABRIC_FAIL_ALLOC | FABRIC_FAIL_VERBS, nth);
        rc = make(0);
        if (rc == VBN_OK) {
            rc = join(0);
            fired = fabric_fail_fired();
            fabric_fail_disarm();
            if (rc && rc != VBN_ERR_DEVICE) /* the half is as it was */
                rc = join(0);
        } else {
            fired = fabric_fail_fired();
            fabric_fail_disarm();
        }
        if (rc == VBN_OK) {
            assert_int_equal(join(1), VBN_OK);
            exchange(10);
        }
        pair_close();
        pair_teardown(NULL);
        assert_in_range(nth, 1, 100);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network),
        TEST(iwarp_has_none),
        TEST(networks_that_do_not_meet),
        TEST(other_limits_are_refused),
        TEST(unknown_versions_are_refused),
        TEST(death_is_noticed_in_silence),
        TEST(dead_host_is_noticed_by_a_send),
        TEST(close_towards_the_dead_is_bounded),
        TEST(nobody_ever_joins),
        TEST(late_peers_get_everything),
        TEST(link_flaps),
        TEST(address_waits_for_the_join),
        cmocka_unit_test(halves_beside_addresses),
        cmocka_unit_test(ends_in_any_order),
        cmocka_unit_test(each_call_fails_once),
    };

    return cmocka_run_group_tests_name("halves", tests, NULL, NULL);
}
