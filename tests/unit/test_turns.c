/* SPDX-License-Identifier: BSD-3-Clause */
/* How many peers are asked for connections at a time, and when the next one's turn comes. */
#include "lone.h"

#define PEERS 40
#define FIRST 2  /* at once */
#define MOST  16 /* once that many have been made */

static vbn_context_t *ctx;
static vbn_endpoint_t *peers[PEERS];

static void recovering(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = 1000;
}

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(recovering);
    for (unsigned i = 0; i < PEERS; i++)
        peers[i] = lone_peer(ctx, 200 + i);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

static void ask_all(void)
{
    for (unsigned i = 0; i < PEERS; i++)
        assert_int_equal(vbn_endpoint_connect(peers[i]), VBN_OK);
}

static unsigned asked(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PEERS; i++)
        n += peers[i]->attempt && peers[i]->attempt->active;
    return n;
}

static unsigned connected(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PEERS; i++)
        n += vbn_endpoint_connected(peers[i]);
    return n;
}

/* The peer answers the attempt to connect to EP. */
static void answer(vbn_endpoint_t *ep)
{
    lone_establish(ep->attempt);
    assert_true(vbn_endpoint_connected(ep));
}

/* The peer of EP asks for the connection itself. */
static void request(vbn_endpoint_t *ep)
{
    lone_accept(ctx, ep->uid);
    assert_true(vbn_endpoint_connected(ep));
}

static void more_with_each_that_is_made(void **state)
{
    (void)state;
    ask_all();
    assert_int_equal(asked(), FIRST);
    for (unsigned i = 0; i < PEERS; i++) {
        answer(peers[i]);
        assert_int_equal(asked(), vbn_min(vbn_min(FIRST + i + 1, MOST), PEERS - i - 1));
    }
    assert_int_equal(connected(), PEERS);
}

static void who_asks_himself_is_not_asked(void **state)
{
    (void)state;
    ask_all();
    for (unsigned i = FIRST; i < PEERS; i++)
        request(peers[i]);
    assert_int_equal(asked(), FIRST);
    assert_true(TAILQ_EMPTY(&ctx->turns.waiting));
    answer(peers[0]);
    answer(peers[1]);
    assert_int_equal(connected(), PEERS);
    assert_int_equal(ctx->counters.conns_crossed, 0);
}

/* Those who compute, or are gone, hold nobody up for long. */
static void a_turn_comes_with_time(void **state)
{
    (void)state;
    ask_all();
    lone_pass(ctx, 10);
    assert_int_equal(asked(), FIRST);
    lone_pass(ctx, 20);
    assert_int_equal(asked(), FIRST + 1);
    lone_pass(ctx, 20 * PEERS);
    assert_int_equal(asked(), PEERS);
}

static void refused_is_ended(void **state)
{
    (void)state;
    ask_all();
    lone_refuse(lone_attempt(ctx, 200, VBN_CONN_ADDR), VBN_REASON_CLOSED);
    lone_progress(ctx);
    assert_int_equal(asked(), FIRST);
    assert_non_null(peers[FIRST]->attempt);
}

/* What was lost is made again at once. */
static void recovery_does_not_wait(void **state)
{
    struct vbn_conn *conn = lone_connect(ctx, 200 + PEERS - 1);

    (void)state;
    ctx->turns.most = FIRST;
    ask_all();
    assert_int_equal(asked(), FIRST);
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_pass(ctx, 5);
    assert_non_null(peers[PEERS - 1]->attempt);
}

static void closed_while_it_waits(void **state)
{
    (void)state;
    ask_all();
    for (unsigned i = FIRST; i + 1 < PEERS; i++)
        vbn_endpoint_close(peers[i]);
    lone_progress(ctx);
    answer(peers[0]);
    assert_non_null(peers[PEERS - 1]->attempt);
}

static void context_closed_while_they_wait(void **state)
{
    (void)state;
    ask_all();
    vbn_shutdown(ctx);
    lone_progress(ctx);
    assert_true(TAILQ_EMPTY(&ctx->turns.waiting));
}

/* What was to be sent before the close still goes out, in its turn. */
static void messages_of_those_who_wait(void **state)
{
    (void)state;
    ask_all();
    for (unsigned i = 0; i <= FIRST; i++)
        assert_int_equal(vbn_am_send(peers[i], 1, NULL, 0), VBN_OK);
    vbn_shutdown(ctx);
    for (unsigned i = 0; i <= FIRST; i++)
        answer(peers[i]);
    assert_in_range(lone_sent(peers[FIRST]->conn), 1, 2); /* the farewell may be there, too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_with_each_that_is_made, setup, teardown),
        cmocka_unit_test_setup_teardown(who_asks_himself_is_not_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(a_turn_comes_with_time, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_is_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(recovery_does_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_while_it_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(context_closed_while_they_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_of_those_who_wait, setup, teardown),
    };

    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
