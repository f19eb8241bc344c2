/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers: what those who ask for a connection by themselves can hold, and what stays of them. */
#include "lone.h"

#include "stranger.h"

#include <errno.h>
#include <malloc.h>

static vbn_context_t *ctx;

static void patient(struct vbn_options *opts)
{
    opts->recovery_timeout_ms = 60000;
}

static int setup(void **state)
{
    lone_setup(state);
    ctx = lone_open(patient);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* UID asks; true: and is being accepted. */
static bool asks(uint64_t uid)
{
    struct vbn_wire_hello hello = lone_hello(ctx, uid);
    const vbn_endpoint_t *ep;

    lone_request(ctx, &hello);
    vbn_progress(ctx);
    lone_progress(ctx);
    ep = vbn_endpoint_find(ctx, uid);
    return ep && ep->attempt;
}

/* So many ask, from uid 1000 on; returns how many are being accepted. */
static unsigned crowd_asks(unsigned count)
{
    unsigned taken = 0;

    for (unsigned i = 0; i < count; i++)
        taken += asks(1000 + i);
    return taken;
}

static uint8_t last_reason(void)
{
    struct vbn_wire_refusal r = {0};

    assert_true(fake_rejected.rejected);
    assert_true(vbn_wire_refusal_read(fake_rejected.data, fake_rejected.data_len, &r));
    return r.reason;
}

/* --- how many ----------------------------------------------------------------------------------
 */

static void those_who_ask_are_bounded(void **state)
{
    uint64_t refused = ctx->counters.conns_refused;
    int live;

    (void)state;
    assert_int_equal(crowd_asks(VBN_STRANGERS_MAX), VBN_STRANGERS_MAX);
    live = fake_live();
    assert_false(asks(7));
    assert_int_equal(last_reason(), VBN_REASON_BUSY); /* a peer will ask again */
    assert_int_equal(ctx->counters.conns_refused, refused + 1);
    assert_int_equal(fake_live(), live);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_int_equal(HASH_COUNT(ctx->endpoints), VBN_STRANGERS_MAX);
}

static void known_peers_come_in_all_the_same(void **state)
{
    (void)state;
    crowd_asks(VBN_STRANGERS_MAX);
    lone_peer(ctx, 7);
    assert_true(asks(7));
    lone_peer(ctx, 1003); /* claimed later than it came: its place is free again */
    assert_true(asks(8));
    assert_false(asks(9));
}

static void who_has_spoken_is_none(void **state)
{
    struct vbn_conn *conn = lone_accept(ctx, 7);

    (void)state;
    assert_int_equal(crowd_asks(VBN_STRANGERS_MAX), VBN_STRANGERS_MAX - 1);
    lone_am(conn, 1, NULL, 0);
    assert_true(asks(8));
    assert_false(asks(9));
}

/* Who is there for long, silent, goes when others need the place, and only then. */
static void the_oldest_make_way(void **state)
{
    struct vbn_conn *silent = lone_accept(ctx, 7);

    (void)state;
    lone_pass(ctx, 60000);
    assert_int_equal(silent->state, VBN_CONN_ESTABLISHED);
    crowd_asks(VBN_STRANGERS_MAX - 1);
    assert_false(asks(8)); /* who makes way is not gone at once */
    lone_pass(ctx, 2000);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_true(asks(8));
    lone_pass(ctx, VBN_STRANGER_MS);
    assert_false(asks(9));
    lone_pass(ctx, 2000);
    assert_true(asks(9));
    assert_int_equal(HASH_COUNT(ctx->endpoints), 1);
    assert_int_equal(unit.failures, 0);
}

static void one_cannot_have_many_connections(void **state)
{
    unsigned most = 0;

    (void)state;
    fake_flush_by_itself(false); /* what is replaced takes its time to end */
    for (unsigned i = 0; i < 10; i++) {
        asks(7);
        most = vbn_endpoint_find(ctx, 7)->conn_count > most ? vbn_endpoint_find(ctx, 7)->conn_count
                                                            : most;
    }
    assert_int_equal(most, VBN_STRANGER_CONNS_MAX);
    assert_int_equal(last_reason(), VBN_REASON_BUSY);
}

/* --- what stays --------------------------------------------------------------------------------
 */

/* Nothing of the stranger 7 is left, and nobody was told. */
static void nothing_stays(int live)
{
    lone_pass(ctx, 3000);
    assert_null(vbn_endpoint_find(ctx, 7));
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(ctx->stranger_count, 0);
    assert_int_equal(unit.failures, 0);
    assert_int_equal(unit.log_count[VBN_LOG_ERROR], 0);
    assert_int_equal(unit.log_count[VBN_LOG_WARN], 0);
    assert_int_equal(fake_live(), live);
}

static void of_one_who_leaves_half_way(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    int live = fake_live();
    struct rdma_cm_id *id = lone_request(ctx, &hello);

    (void)state;
    lone_progress(ctx);
    fake_event(id, RDMA_CM_EVENT_REJECTED, 28, NULL, 0);
    lone_pass(ctx, 2 * VBN_STRANGER_MS);
    assert_true(TAILQ_EMPTY(&ctx->conns));
    assert_int_equal(fake_live(), live);
    assert_non_null(vbn_endpoint_find(ctx, 7)); /* it was answered, and may ask for more */
    crowd_asks(VBN_STRANGERS_MAX - 1);
    asks(8); /* that is, for its place */
    lone_pass(ctx, 10);
    assert_null(vbn_endpoint_find(ctx, 7));
}

/* It was connected, as it sees it, and has lost that before we knew. */
static void one_that_was_answered_may_come_again(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    struct rdma_cm_id *id = lone_request(ctx, &hello);

    (void)state;
    lone_progress(ctx);
    fake_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL, 0);
    lone_pass(ctx, 100);
    hello.session = 1;
    lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_non_null(vbn_endpoint_find(ctx, 7)->attempt);
}

static void of_one_whose_session_is_made_up(void **state)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);
    int live = fake_live();

    (void)state;
    hello.rx_next = 5;
    lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_int_equal(last_reason(), VBN_REASON_CLOSED);
    nothing_stays(live);
}

/* Then it leaves. */
static void rubbish_comes(struct vbn_conn *conn, const struct vbn_wire_hdr *hdr)
{
    struct rdma_cm_id *id = conn->id;

    lone_message(conn, hdr, NULL);
    assert_int_equal(ctx->counters.bad_messages, 1);
    fake_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}

static void of_one_who_sends_rubbish(void **state)
{
    int live = fake_live();
    struct vbn_conn *conn = lone_accept(ctx, 7);
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_ACK);

    (void)state;
    lone_message(conn, &hdr, NULL); /* right, but says nothing */
    hdr.ack += 5;
    rubbish_comes(conn, &hdr);
    nothing_stays(live);
}

/* Its number is right, so it counts as received; but nothing that it says has been. */
static void of_one_who_sends_a_tagged_message_of_no_kind(void **state)
{
    int live = fake_live();
    struct vbn_conn *conn = lone_accept(ctx, 7);
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_TAG);

    (void)state;
    hdr.id = VBN_TAG_AGAIN + 1;
    rubbish_comes(conn, &hdr);
    nothing_stays(live);
}

/* It may be a peer that has not spoken yet, whose link was down. */
static void one_that_was_lost_may_come_again(void **state)
{
    int live = fake_live();
    struct vbn_conn *conn = lone_accept(ctx, 7);
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    (void)state;
    hello.session = conn->session;
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_pass(ctx, 30000);
    lone_request(ctx, &hello);
    lone_progress(ctx);
    assert_non_null(vbn_endpoint_find(ctx, 7)->attempt);
    fake_event(vbn_endpoint_find(ctx, 7)->attempt->id, RDMA_CM_EVENT_REJECTED, 28, NULL, 0);
    lone_pass(ctx, 70000); /* but not for ever */
    nothing_stays(live);
}

/* Nor does closing wait for it. */
static void closing_does_not_wait_for_one_that_was_lost(void **state)
{
    struct vbn_conn *conn = lone_accept(ctx, 7);

    (void)state;
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    assert_true(vbn_endpoint_find(ctx, 7)->recovery.since_ns > 0);
    assert_int_equal(vbn_shutdown(ctx), 0);
}

/* One is refused, one is lost, one sends rubbish; all are over. */
static void come_and_go(void)
{
    struct vbn_wire_hello hello = lone_hello(ctx, 7);

    hello.job_key ^= 1;
    lone_request(ctx, &hello); /* refused */
    lone_progress(ctx);
    fake_event(lone_accept(ctx, 8)->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0); /* lost */
    vbn_rx_malformed(lone_accept(ctx, 9)->ep); /* without a message: the fakes keep each */
    lone_pass(ctx, 2000);
    vbn_endpoint_abandon(vbn_endpoint_find(ctx, 8));
    lone_progress(ctx);
}

static void many_cost_no_memory(void **state)
{
    size_t before;

    (void)state;
    for (int i = 0; i < 10; i++)
        come_and_go();
    before = mallinfo2().uordblks;
    for (int i = 0; i < 100; i++)
        come_and_go();
    assert_int_equal(HASH_COUNT(ctx->endpoints), 0);
    assert_in_range(mallinfo2().uordblks, 0, before + 1000); /* 10 bytes for each */
}

/* A peer that the caller knows, or has heard, is another matter. */
static void who_has_spoken_is_told_of(void **state)
{
    struct vbn_conn *conn = lone_accept(ctx, 7);
    struct vbn_wire_hdr hdr;

    (void)state;
    lone_am(conn, 1, NULL, 0);
    hdr = lone_hdr(conn, VBN_WIRE_AM);
    hdr.ack += 5;
    lone_message(conn, &hdr, NULL);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    assert_int_equal(unit.failed[0].status, VBN_ERR_PROTOCOL);
    assert_non_null(vbn_endpoint_find(ctx, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(those_who_ask_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(known_peers_come_in_all_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(who_has_spoken_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_make_way, setup, teardown),
        cmocka_unit_test_setup_teardown(one_cannot_have_many_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_who_leaves_half_way, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_answered_may_come_again, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_whose_session_is_made_up, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_who_sends_rubbish, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_who_sends_a_tagged_message_of_no_kind, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_was_lost_may_come_again, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_does_not_wait_for_one_that_was_lost, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(many_cost_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(who_has_spoken_is_told_of, setup, teardown),
    };

    return cmocka_run_group_tests_name("stranger", tests, NULL, NULL);
}
