/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets: what is posted, and that the caller's function is called once, whatever happens.
 */
#include "lone.h"

#include <errno.h>

#define COUNT 700
#define LEN   4096

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;
static vbn_mem_t *mem;
static char space[LEN + 128], *const memory = space + 64;

struct op {
    unsigned calls;
    int status;
};
static struct op op[COUNT];
static void (*act)(void);

static void done(void *arg, vbn_endpoint_t *e, int status)
{
    struct op *o = arg;

    assert_ptr_equal(e, ep);
    o->calls++;
    o->status = status;
    if (act)
        act();
}

static void small(struct vbn_options *opts)
{
    opts->sq_depth = 8;
}

static int setup(void **state)
{
    lone_setup(state);
    memset(op, 0, sizeof(op));
    act = NULL;
    ctx = lone_open(small);
    conn = lone_connect(ctx, 7);
    ep = conn->ep;
    assert_int_equal(vbn_mem_register(ctx, memory, LEN, VBN_ACCESS_LOCAL_WRITE, &mem), 0);
    return 0;
}

static int teardown(void **state)
{
    vbn_mem_deregister(mem);
    lone_close(ctx);
    return lone_teardown(state);
}

static int put(struct op *o)
{
    return vbn_put(ep, memory, mem, 0x1000, 0x22, 100, done, o);
}

static void all_ended(unsigned count, int status)
{
    for (unsigned i = 0; i < count; i++) {
        if (op[i].calls != 1)
            fail_msg("operation %u of %u ended %u times", i, count, op[i].calls);
        assert_int_equal(op[i].status, status);
    }
    assert_int_equal(ep->rmas_out, 0);
    assert_int_equal(ctx->rmas.free_count, ctx->rmas.count);
}

/* --- good ------------------------------------------------------------------------------------- */

static void what_is_posted(void **state)
{
    const struct fake_send *s;

    (void)state;
    assert_int_equal(vbn_put(ep, memory + 10, mem, 0x123456789abcdef0, 0x7777, 500, done, &op[0]),
                     VBN_OK);
    assert_int_equal(vbn_get(ep, memory + 20, mem, 0xfedcba9876543210, 0x8888, 4076, done, &op[1]),
                     VBN_OK);
    s = lone_send_at(conn, 0, NULL);
    assert_int_equal(s->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(s->wr.send_flags & IBV_SEND_SIGNALED, IBV_SEND_SIGNALED);
    assert_int_equal(s->wr.wr.rdma.remote_addr, 0x123456789abcdef0);
    assert_int_equal(s->wr.wr.rdma.rkey, 0x7777);
    assert_int_equal(s->sge.addr, (uintptr_t)memory + 10);
    assert_int_equal(s->sge.length, 500);
    assert_int_equal(s->sge.lkey, mem->mr->lkey);
    s = lone_send_at(conn, 1, NULL);
    assert_int_equal(s->wr.opcode, IBV_WR_RDMA_READ);
    assert_int_equal(s->wr.wr.rdma.remote_addr, 0xfedcba9876543210);
    assert_int_equal(s->wr.wr.rdma.rkey, 0x8888);
    assert_int_equal(s->sge.length, 4076);
    vbn_progress(ctx);
    assert_int_equal(op[0].calls, 0);
    lone_complete(conn);
    all_ended(2, VBN_OK);
    assert_int_equal(ctx->counters.puts, 1);
    assert_int_equal(ctx->counters.put_bytes, 500);
    assert_int_equal(ctx->counters.gets, 1);
    assert_int_equal(ctx->counters.get_bytes, 4076);
}

static void more_than_the_queue_holds(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    assert_int_equal(lone_sent(conn), 8);
    for (int i = 0; i < 10; i++)
        lone_complete(conn);
    assert_int_equal(lone_sent(conn), 20);
    all_ended(20, VBN_OK);
}

/* They take no receive buffer of the peer. */
static void no_credits_needed(void **state)
{
    (void)state;
    conn->flow.tx_count = conn->flow.tx_grant;
    for (int i = 0; i < 4; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    assert_int_equal(lone_sent(conn), 4);
    lone_complete(conn);
    all_ended(4, VBN_OK);
}

static void another(void)
{
    act = NULL;
    assert_int_equal(put(&op[1]), VBN_OK);
}

static void the_function_may_start_another(void **state)
{
    (void)state;
    act = another;
    assert_int_equal(put(&op[0]), VBN_OK);
    lone_complete(conn);
    assert_int_equal(op[0].calls, 1);
    assert_int_equal(lone_sent(conn), 2);
    lone_complete(conn);
    all_ended(2, VBN_OK);
}

/* --- on iWARP, where a write has completed before it has arrived ------------------------------ */

static void put_on_iwarp(unsigned count)
{
    ctx->device.iwarp = true;
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
}

static void nothing_ended(void)
{
    lone_progress(ctx);
    assert_int_equal(op[0].calls, 0);
}

static void a_mark_follows_and_its_answer_ends_the_put(void **state)
{
    struct vbn_wire_hdr mark;

    (void)state;
    put_on_iwarp(1);
    assert_int_equal(lone_sent(conn), 2);
    assert_int_equal(lone_send_at(conn, 0, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(lone_send_at(conn, 1, &mark)->wr.opcode, IBV_WR_SEND);
    assert_int_equal(mark.type, VBN_WIRE_MARK);
    assert_int_equal(mark.seq, 0);
    assert_int_equal(mark.len, 0);
    lone_complete(conn);
    nothing_ended();
    lone_ack(conn);
    lone_progress(ctx);
    all_ended(1, VBN_OK);
    assert_int_equal(ep->msgs_out, 0);
    assert_int_equal(vbn_get(ep, memory, mem, 1, 2, 3, done, &op[1]), VBN_OK);
    assert_int_equal(lone_sent(conn), 3); /* a get's bytes are here with it */
    lone_complete(conn);
    all_ended(2, VBN_OK);
}

static void answered_before_it_completes(void **state)
{
    (void)state;
    put_on_iwarp(3);
    lone_ack(conn);
    nothing_ended();
    fake_send_completes(conn->q.qp, 2, IBV_WC_SUCCESS);
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    fake_send_completes(conn->q.qp, 4, IBV_WC_SUCCESS);
    lone_progress(ctx);
    all_ended(3, VBN_OK);
}

static void those_that_are_answered_end(void **state)
{
    struct vbn_wire_hdr ack;

    (void)state;
    put_on_iwarp(3);
    lone_complete(conn);
    ack = lone_hdr(conn, VBN_WIRE_ACK);
    ack.ack = 2;
    lone_message(conn, &ack, NULL);
    lone_progress(ctx);
    assert_int_equal(op[0].calls + op[1].calls, 2);
    assert_int_equal(op[2].calls, 0);
    lone_ack(conn);
    lone_progress(ctx);
    all_ended(3, VBN_OK);
}

static void lost_before_it_is_answered(void **state)
{
    (void)state;
    put_on_iwarp(4);
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    nothing_ended();
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    all_ended(4, VBN_ERR_PEER_LOST);
}

/* The peer's farewell acknowledges the first mark, and leaves the second put in doubt. */
static void farewell_that_answers_the_first(void **state)
{
    struct vbn_wire_hdr bye;

    (void)state;
    put_on_iwarp(2);
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    nothing_ended();
    bye = lone_hdr(conn, VBN_WIRE_BYE);
    bye.ack = 1;
    lone_message(conn, &bye, NULL);
    lone_progress(ctx);
    assert_int_equal(op[0].calls, 1);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(op[1].calls, 1);
    assert_int_equal(op[1].status, VBN_ERR_CLOSED);
}

static void arrived_though_its_request_failed(void **state)
{
    (void)state;
    put_on_iwarp(1);
    ep->tx_acked = ep->tx_next;
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    lone_progress(ctx);
    all_ended(1, VBN_OK);
}

/* A get before it in the order keeps it where it waits until all is over. */
static void arrived_behind_a_get_that_did_not_end(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    ctx->device.iwarp = true;
    assert_int_equal(vbn_get(ep, memory, mem, 1, 2, 3, done, &op[0]), VBN_OK);
    assert_int_equal(put(&op[1]), VBN_OK);
    fake_send_completes(conn->q.qp, 1, IBV_WC_SUCCESS);
    fake_send_completes(conn->q.qp, 0, IBV_WC_WR_FLUSH_ERR);
    lone_progress(ctx);
    lone_ack(conn);
    fake_flush(conn->q.qp);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_ERR_PEER_LOST);
    op[0].status = VBN_OK;
    all_ended(2, VBN_OK);
}

static void no_mark_no_put(void **state)
{
    vbn_msg_t *msgs[COUNT];
    unsigned n = 0;

    (void)state;
    ctx->device.iwarp = true;
    while (n < COUNT && vbn_msg_get(ep, 0, &msgs[n]) == VBN_OK)
        n++;
    assert_true(n < COUNT);
    assert_int_equal(put(&op[0]), VBN_ERR_AGAIN);
    assert_int_equal(lone_sent(conn), 0);
    all_ended(0, VBN_OK);
    vbn_msg_put(msgs[0]);
    assert_int_equal(put(&op[0]), VBN_OK);
    lone_complete(conn);
    lone_ack(conn);
    lone_progress(ctx);
    all_ended(1, VBN_OK);
    while (--n)
        vbn_msg_put(msgs[n]);
}

/* Not even what would tell that the queue pair is drained is taken: it has its time. */
static void nothing_is_marked_where_the_post_ends_all(void **state)
{
    (void)state;
    fake_fail(FAKE_POST_SEND, 0, ENOMEM);
    put_on_iwarp(1);
    lone_pass(ctx, 60);
    assert_int_equal(ep->state, VBN_EP_LOST);
    all_ended(1, VBN_ERR_PEER_LOST);
    assert_int_equal(ep->msgs_out, 0);
    assert_true(STAILQ_EMPTY(&ep->queue));
}

/* --- refused ---------------------------------------------------------------------------------- */

static void bad_arguments(void **state)
{
    struct vbn_mem stranger = {.ctx = NULL, .mr = mem->mr};
    size_t len = LEN;

    (void)state;
    assert_int_equal(vbn_put(ep, memory, mem, 1, 2, 0, done, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_put(ep, memory, mem, 1, 2, len + 1, done, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_put(ep, memory + 1, mem, 1, 2, len, done, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_get(ep, memory - 1, mem, 1, 2, 1, done, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_get(ep, memory, mem, 1, 2, len, NULL, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_put(ep, memory, &stranger, 1, 2, 1, done, NULL), VBN_ERR_INVALID);
    ctx->device.max_msg_size = 1000;
    assert_int_equal(vbn_put(ep, memory, mem, 1, 2, 1001, done, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_put(ep, memory, mem, 1, 2, 1000, done, &op[0]), VBN_OK);
    assert_int_equal(lone_sent(conn), 1);
}

static void as_many_as_four_queues(void **state)
{
    unsigned n = 0;
    int rc;

    (void)state;
    while ((rc = put(&op[n])) == VBN_OK && n < COUNT - 1)
        n++;
    assert_int_equal(rc, VBN_ERR_AGAIN);
    assert_int_equal(n, 32);
    lone_complete(conn);
    assert_int_equal(put(&op[n]), VBN_OK);
    assert_int_equal(op[n].calls, 0);
}

static void no_memory_for_one_more(void **state)
{
    (void)state;
    unit_fail_allocs(true);
    assert_int_equal(put(&op[0]), VBN_ERR_AGAIN);
    unit_fail_allocs(false);
    assert_int_equal(ep->rmas_out, 0);
    lone_progress(ctx);
    assert_int_equal(op[0].calls, 0);
}

static void over(void **state)
{
    (void)state;
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "test");
    assert_int_equal(put(&op[0]), VBN_ERR_PEER_LOST);
    lone_progress(ctx);
    assert_int_equal(op[0].calls, 0);
}

/* --- the endpoint ends ------------------------------------------------------------------------ */

static void posted_and_queued_when_the_connection_fails(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    vbn_conn_fail(conn, VBN_EV_QP_ERROR, "test");
    assert_int_equal(op[19].calls, 0); /* only inside vbn_progress() */
    lone_progress(ctx);
    all_ended(20, VBN_ERR_PEER_LOST);
}

static void one_is_refused_by_the_peer(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    fake_send_completes(conn->q.qp, 2, IBV_WC_REM_ACCESS_ERR);
    lone_progress(ctx);
    for (int i = 0; i < 12; i++)
        assert_int_equal(op[i].calls, 1);
    assert_int_equal(op[2].status, VBN_ERR_INVALID);
    assert_int_equal(op[11].status, VBN_ERR_PEER_LOST);
    assert_int_equal(unit.failures, 1);
}

static void post_that_is_refused(void **state)
{
    (void)state;
    assert_int_equal(put(&op[0]), VBN_OK);
    fake_fail(FAKE_POST_SEND, 1, ENOMEM);
    assert_int_equal(put(&op[1]), VBN_OK);
    lone_progress(ctx);
    assert_int_equal(unit.failures, 1);
    all_ended(2, VBN_ERR_PEER_LOST);
}

static void post_from_the_queue_that_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    fake_fail(FAKE_POST_SEND, 1, ENOMEM);
    fake_send_completes(conn->q.qp, 0, IBV_WC_SUCCESS);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_OK);
    op[0].status = VBN_ERR_PEER_LOST;
    all_ended(12, VBN_ERR_PEER_LOST);
}

static void never_connected(void **state)
{
    (void)state;
    conn = lone_attempt(ctx, 8, VBN_CONN_CONNECTING);
    ep = conn->ep;
    for (int i = 0; i < 5; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    lone_refuse(conn, VBN_REASON_STRANGER);
    lone_progress(ctx);
    all_ended(5, VBN_ERR_REFUSED);
}

/* Closing waits for them; the peer's farewell does not. */
static void closing_waits(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    vbn_endpoint_shut(ep);
    assert_int_equal(put(&op[20]), VBN_ERR_CLOSED);
    for (int i = 0; i < 10; i++)
        lone_complete(conn);
    all_ended(20, VBN_OK);
    assert_true(ep->said_bye);
}

static void the_peer_says_farewell(void **state)
{
    struct vbn_wire_hdr bye = lone_hdr(conn, VBN_WIRE_BYE);

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    lone_message(conn, &bye, NULL);
    lone_progress(ctx);
    all_ended(20, VBN_ERR_CLOSED);
    assert_int_equal(unit.failures, 0);
    assert_contains(unit.log[VBN_LOG_WARN], "closed");
}

static void context_closes_by_force(void **state)
{
    (void)state;
    fake_flush_by_itself(false);
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(&op[i]), VBN_OK);
    vbn_mem_deregister(mem);
    unit.tick_ns = UNIT_MS;
    assert_int_equal(vbn_close(ctx), VBN_ERR_TIMEOUT);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(op[i].calls, 1);
        assert_int_equal(op[i].status, VBN_ERR_CLOSED);
    }
    setup(NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_is_posted),
        T(more_than_the_queue_holds),
        T(no_credits_needed),
        T(the_function_may_start_another),
        T(a_mark_follows_and_its_answer_ends_the_put),
        T(answered_before_it_completes),
        T(those_that_are_answered_end),
        T(lost_before_it_is_answered),
        T(farewell_that_answers_the_first),
        T(arrived_though_its_request_failed),
        T(arrived_behind_a_get_that_did_not_end),
        T(no_mark_no_put),
        T(nothing_is_marked_where_the_post_ends_all),
        T(bad_arguments),
        T(as_many_as_four_queues),
        T(no_memory_for_one_more),
        T(over),
        T(posted_and_queued_when_the_connection_fails),
        T(one_is_refused_by_the_peer),
        T(post_that_is_refused),
        T(post_from_the_queue_that_is_refused),
        T(never_connected),
        T(closing_waits),
        T(the_peer_says_farewell),
        T(context_closes_by_force),
    };

    return cmocka_run_group_tests_name("rma", tests, NULL, NULL);
}
