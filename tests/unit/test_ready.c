/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that tell where their message shall be: what is said, what is put, and who is over when.
 */
#include "lone.h"

#include <errno.h>

#define LEN   5000u /* longer than what is copied */
#define SHORT 1000u

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;
static char memory[2][LEN + 1];
static struct vbn_op op[VBN_TAG_PLACES + 1];

static void copy_little(struct vbn_options *opts)
{
    opts->rndv_limit = SHORT;
}

static int setup(void **state)
{
    lone_setup(state);
    memset(op, 0, sizeof(op));
    ctx = lone_open(copy_little);
    conn = lone_connect(ctx, 7);
    ep = conn->ep;
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- what the peer sees ----------------------------------------------------------------------- */

/* The Nth of what has been posted is a tagged message of KIND; its payload. */
static const void *sent_at(unsigned n, uint8_t kind)
{
    struct vbn_wire_hdr hdr;
    const struct fake_send *send = lone_send_at(conn, n, &hdr);

    assert_int_equal(hdr.type, VBN_WIRE_TAG);
    assert_int_equal(hdr.id, kind);
    return send->bytes + sizeof(hdr);
}

static struct vbn_wire_offer ready_at(unsigned n)
{
    struct vbn_wire_offer ready;

    assert_true(vbn_wire_offer_read(sent_at(n, VBN_TAG_READY), sizeof(ready), &ready));
    return ready;
}

static void assert_word(unsigned n, uint8_t kind, uint64_t tag, uint64_t len)
{
    struct vbn_wire_tag word;

    assert_true(vbn_wire_tag_read(sent_at(n, kind), sizeof(word), &word));
    assert_int_equal(word.tag, tag);
    assert_int_equal(word.len, len);
}

static void peer_words(uint8_t kind, uint64_t tag, uint64_t len)
{
    char bytes[sizeof(struct vbn_wire_tag)];

    vbn_wire_tag_write(bytes, &(struct vbn_wire_tag){.tag = tag, .len = len});
    lone_tagged(conn, kind, bytes, sizeof(bytes));
}

static void peer_answers(uint32_t withdrawal)
{
    char bytes[sizeof(struct vbn_wire_answer)];

    vbn_wire_answer_write(bytes, &(struct vbn_wire_answer){.id = withdrawal});
    lone_tagged(conn, VBN_TAG_WITHDRAWN, bytes, sizeof(bytes));
}

/* The peer is ready for LEN bytes of TAG, and has had COUNT of our messages. */
static void peer_ready(uint64_t tag, uint64_t len, uint32_t count)
{
    struct vbn_wire_offer ready = {.tag = tag, .len = len, .addr = 0x7000, .rkey = 77, .id = count};
    char bytes[sizeof(ready)];

    vbn_wire_offer_write(bytes, &ready);
    lone_tagged(conn, VBN_TAG_READY, bytes, sizeof(bytes));
}

/* The last message ended the endpoint with a protocol error. */
static void assert_broken(void)
{
    lone_progress(ctx);
    assert_int_equal(ctx->counters.bad_messages, 1);
    assert_int_equal(ep->state, VBN_EP_LOST);
}

/* --- the receiver ----------------------------------------------------------------------------- */

static void receive(struct vbn_op *o, char *buf, size_t len, uint64_t tag)
{
    assert_int_equal(vbn_tag_recv_ready(ep, buf, len, tag, o), VBN_PENDING);
}

static bool tells(struct vbn_op *o, size_t len, uint64_t tag)
{
    unsigned before = lone_sent(conn);

    receive(o, memory[0], len, tag);
    return lone_sent(conn) > before;
}

static void tells_where(void **state)
{
    struct vbn_wire_offer ready;

    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    ready = ready_at(0);
    assert_int_equal(ready.tag, 5);
    assert_int_equal(ready.len, LEN);
    assert_int_equal(ready.addr, (uintptr_t)memory[0]);
    assert_int_equal(ready.rkey, vbn_tag_of(&op[0])->mem->mr->rkey);
    assert_int_equal(ready.id, 0);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_PENDING);
    peer_words(VBN_TAG_PLACED, 5, LEN);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(op[0].len, LEN);
    assert_int_equal(op[0].tag, 5);
    assert_null(vbn_tag_of(&op[0])->mem);
}

/* What has come is told with each, so that the peer knows which of its messages a place is for. */
static void tells_how_many_have_come(void **state)
{
    (void)state;
    peer_words(VBN_TAG_EAGER, 9, 0); /* an early one */
    assert_int_equal(vbn_tag_recv(ctx, ep, NULL, 0, 8, VBN_TAG_MAX, &op[1]), VBN_PENDING);
    peer_words(VBN_TAG_EAGER, 8, 0);
    assert_int_equal(op[1].status, VBN_OK);
    receive(&op[0], memory[0], LEN, 5);
    assert_int_equal(ready_at(0).id, 2);
}

static void tells_nothing_of_short_ones(void **state)
{
    (void)state;
    assert_false(tells(&op[0], SHORT, 5));
    assert_true(tells(&op[1], SHORT + 1, 6));
}

/* The next message of the tag is for the older one. */
static void tells_nothing_behind_an_older_one(void **state)
{
    (void)state;
    assert_true(tells(&op[0], LEN, 5));
    assert_false(tells(&op[1], LEN, 5));
    assert_int_equal(vbn_tag_recv(ctx, NULL, memory[1], LEN, 1, 1, &op[2]), VBN_PENDING);
    assert_false(tells(&op[3], LEN, 7)); /* odd */
    assert_true(tells(&op[4], LEN, 8));
}

static void tells_of_so_many(void **state)
{
    (void)state;
    lone_close(ctx);
    lone_credits = 64;
    ctx = lone_open(copy_little);
    conn = lone_connect(ctx, 7);
    ep = conn->ep;
    for (unsigned i = 0; i < VBN_TAG_PLACES; i++)
        assert_true(tells(&op[i], LEN, 100 + i));
    assert_false(tells(&op[VBN_TAG_PLACES], LEN, 5));
    peer_words(VBN_TAG_PLACED, 100, LEN); /* makes room for one */
    assert_int_equal(op[0].status, VBN_OK);
    assert_true(tells(&op[0], LEN, 6));
}

static void tells_no_peer_of_before(void **state)
{
    (void)state;
    conn = lone_connect_by(ctx, 8, VBN_WIRE_READIES - 1);
    ep = conn->ep;
    assert_false(tells(&op[0], LEN, 5));
    peer_words(VBN_TAG_EAGER, 5, 0);
    assert_int_equal(op[0].status, VBN_OK);
}

static void tells_nobody_before_it_is_connected(void **state)
{
    vbn_endpoint_t *other = lone_peer(ctx, 9);

    (void)state;
    assert_int_equal(vbn_tag_recv_ready(other, memory[0], LEN, 5, &op[0]), VBN_PENDING);
    assert_null(vbn_tag_of(&op[0])->mem);
    assert_null(other->attempt);
}

static void tells_nothing_without_memory(void **state)
{
    (void)state;
    fake_fail(FAKE_REG_MR, 1, ENOMEM);
    assert_false(tells(&op[0], LEN, 5));
    assert_true(tells(&op[1], LEN, 6));
}

/* Another message of the tag takes it as if nothing had been told, and then the next may tell. */
/* What is lent is not registered again, and is told only if peers may write to it. */
static void tells_of_lent_memory(void **state)
{
    const unsigned both = VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_WRITE;
    vbn_mem_t *mem;

    (void)state;
    assert_int_equal(vbn_mem_register(ctx, memory[0], LEN, VBN_ACCESS_LOCAL_WRITE, &mem), 0);
    vbn_mem_lend(mem);
    assert_false(tells(&op[0], LEN, 5));
    vbn_mem_deregister(mem);
    assert_int_equal(vbn_mem_register(ctx, memory[0], LEN, both, &mem), 0);
    vbn_mem_lend(mem);
    assert_true(tells(&op[1], LEN, 6));
    assert_ptr_equal(vbn_tag_of(&op[1])->mem, mem);
    vbn_mem_deregister(mem);
}

static void takes_what_comes(void **state)
{
    char bytes[sizeof(struct vbn_wire_tag) + 3];

    (void)state;
    assert_true(tells(&op[0], LEN, 5));
    vbn_wire_tag_write(bytes, &(struct vbn_wire_tag){.tag = 5, .len = 3});
    memcpy(bytes + sizeof(struct vbn_wire_tag), "abc", 3);
    lone_tagged(conn, VBN_TAG_EAGER, bytes, sizeof(bytes));
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(op[0].len, 3);
    assert_memory_equal(memory[0], "abc", 3);
    assert_null(vbn_tag_of(&op[0])->mem);
    assert_int_equal(ep->tag.ready, 0);
    assert_true(tells(&op[1], LEN, 5));
}

/* An offer that was under way is answered without a second registration. */
static void takes_an_offer(void **state)
{
    struct vbn_wire_offer offer = {.tag = 5, .len = LEN, .addr = 0x7000, .rkey = 77, .id = 3};
    char bytes[sizeof(offer)];
    unsigned registered;

    (void)state;
    assert_true(tells(&op[0], LEN, 5));
    registered = fake_count(FAKE_REG_MR);
    ctx->device.good_reads = false;
    vbn_wire_offer_write(bytes, &offer);
    lone_tagged(conn, VBN_TAG_OFFER, bytes, sizeof(bytes));
    assert_int_equal(vbn_tag_of(&op[0])->state, VBN_TAG_ASKED);
    assert_int_equal(fake_count(FAKE_REG_MR), registered);
    assert_int_equal(ep->tag.ready, 0);
    vbn_wire_answer_write(bytes, &(struct vbn_wire_answer){.id = 3});
    lone_tagged(conn, VBN_TAG_DONE, bytes, sizeof(struct vbn_wire_answer));
    assert_int_equal(op[0].status, VBN_OK);
    assert_null(vbn_tag_of(&op[0])->mem);
}

static void cancelled_when_the_peer_has_forgotten_it(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    assert_word(1, VBN_TAG_WITHDRAW, 5, 1);
    lone_pass(ctx, 5);
    assert_int_equal(op[0].status, VBN_PENDING);
    assert_non_null(vbn_tag_of(&op[0])->mem);
    assert_false(tells(&op[1], LEN, 5)); /* one place a tag */
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_ERR_AGAIN);
    peer_answers(1);
    assert_int_equal(op[0].status, VBN_ERR_CANCELED);
    assert_int_equal(op[1].status, VBN_PENDING);
    assert_int_equal(ep->tag.ready, 0);
}

static void cancelled_too_late(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    peer_words(VBN_TAG_PLACED, 5, LEN); /* it was under way */
    assert_int_equal(op[0].status, VBN_OK);
    receive(&op[0], memory[0], LEN, 5);
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    peer_answers(1);
    assert_int_equal(op[0].status, VBN_PENDING); /* that was for the former */
    assert_non_null(vbn_tag_of(&op[0])->mem);
    peer_answers(2);
    assert_int_equal(op[0].status, VBN_ERR_CANCELED);
    assert_int_equal(ep->tag.ready, 0);
}

/* One answer for all that it has heard of. */
static void cancelled_together(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    receive(&op[1], memory[1], LEN, 6);
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    assert_int_equal(vbn_tag_cancel(ctx, &op[1]), VBN_OK);
    peer_answers(2);
    assert_int_equal(op[0].status, VBN_ERR_CANCELED);
    assert_int_equal(op[1].status, VBN_ERR_CANCELED);
}

static void answer_to_no_withdrawal(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    peer_answers(1);
    assert_int_equal(op[0].status, VBN_ERR_CANCELED);
    peer_answers(1);
    assert_broken();
}

static void answer_to_a_later_withdrawal(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    peer_answers(2);
    assert_broken();
}

/* Takes all buffers for messages to the peer; it has not acknowledged any. */
static void take_all_buffers(void)
{
    int rc = VBN_OK;

    for (int i = 0; i < 100000 && rc == VBN_OK; i++)
        rc = vbn_am_send(ep, 1, NULL, 0);
    assert_int_equal(rc, VBN_ERR_AGAIN);
}

static void cancelled_without_a_buffer(void **state)
{
    unsigned before;

    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    take_all_buffers();
    assert_int_equal(vbn_tag_cancel(ctx, &op[0]), VBN_OK);
    assert_int_equal(vbn_tag_of(&op[0])->state, VBN_TAG_TO_WITHDRAW);
    before = lone_sent(conn);
    for (int i = 0; i < 1000 && vbn_tag_of(&op[0])->state != VBN_TAG_WITHDRAWING; i++) {
        lone_complete(conn);
        lone_ack(conn); /* grants as much as it takes */
    }
    assert_int_equal(vbn_tag_of(&op[0])->state, VBN_TAG_WITHDRAWING);
    assert_true(lone_sent(conn) > before);
    peer_answers(1);
    assert_int_equal(op[0].status, VBN_ERR_CANCELED);
}

static void ends_with_its_endpoint(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    receive(&op[1], memory[1], LEN, 6);
    assert_int_equal(vbn_tag_cancel(ctx, &op[1]), VBN_OK);
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "a test");
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_ERR_PEER_LOST);
    assert_int_equal(op[1].status, VBN_ERR_PEER_LOST);
    assert_null(vbn_tag_of(&op[0])->mem);
    assert_null(vbn_tag_of(&op[1])->mem);
}

static unsigned disconnected;

static void note_disconnects(struct vbn_op *o)
{
    (void)o;
    disconnected = fake_count(FAKE_DISCONNECT);
}

/* Until the connection is over, a peer that says nothing may still put. */
static void ends_behind_its_connection(void **state)
{
    unsigned before = fake_count(FAKE_DISCONNECT);

    (void)state;
    op[0].done = note_disconnects;
    receive(&op[0], memory[0], LEN, 5);
    lone_close(ctx);
    assert_int_equal(op[0].status, VBN_ERR_CLOSED);
    assert_int_equal(disconnected, before + 1);
    ctx = lone_open(copy_little);
}

static void placed_for_nobody(void **state)
{
    (void)state;
    peer_words(VBN_TAG_PLACED, 5, LEN);
    assert_broken();
}

static void placed_for_who_told_nothing(void **state)
{
    (void)state;
    assert_false(tells(&op[0], SHORT, 5));
    peer_words(VBN_TAG_PLACED, 5, SHORT);
    assert_broken();
    assert_int_equal(op[0].status, VBN_ERR_PROTOCOL);
}

static void placed_of_another_length(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    peer_words(VBN_TAG_PLACED, 5, LEN - 1);
    assert_broken();
    assert_int_equal(op[0].status, VBN_ERR_PROTOCOL);
}

static void word_of_another_length(void **state)
{
    (void)state;
    receive(&op[0], memory[0], LEN, 5);
    lone_tagged(conn, VBN_TAG_PLACED, memory[0], sizeof(struct vbn_wire_tag) + 8);
    assert_broken();
}

/* --- the sender ------------------------------------------------------------------------------- */

static void send_one(struct vbn_op *o, size_t len, uint64_t tag)
{
    int rc = vbn_tag_send(ep, memory[1], len, tag, o);

    assert_true(rc == VBN_OK || rc == VBN_PENDING);
}

/* A send of LEN bytes of TAG is put where the peer is ready for it, rather than offered. */
static bool is_put(struct vbn_op *o, size_t len, uint64_t tag)
{
    unsigned n = lone_sent(conn);
    const struct fake_send *write;

    send_one(o, len, tag);
    assert_int_equal(lone_sent(conn), n + 1);
    write = lone_send_at(conn, n, NULL);
    if (write->wr.opcode == IBV_WR_SEND) {
        sent_at(n, VBN_TAG_OFFER);
        return false;
    }
    assert_int_equal(write->wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM); /* test_rider */
    assert_int_equal(write->wr.wr.rdma.remote_addr, 0x7000);
    assert_int_equal(write->wr.wr.rdma.rkey, 77);
    assert_int_equal(write->sge.addr, (uintptr_t)memory[1]);
    assert_int_equal(write->sge.length, len);
    return true;
}

static void puts_where_it_shall_be(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    assert_true(is_put(&op[0], LEN, 5));
    assert_int_equal(op[0].status, VBN_PENDING);
    lone_complete(conn);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_OK);
    assert_null(vbn_tag_of(&op[0])->mem);
    assert_false(is_put(&op[1], LEN, 5)); /* once */
}

static void offers_what_is_of_another_length(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    assert_false(is_put(&op[0], LEN + 1, 5));
    assert_false(is_put(&op[1], LEN, 5)); /* the place has gone to the first */
    peer_ready(6, LEN, 2);
    send_one(&op[2], 1, 6);
    assert_false(is_put(&op[3], LEN, 6));
}

/* The receive that has told is for what is under way. */
static void offers_behind_what_was_sent_before(void **state)
{
    (void)state;
    send_one(&op[0], 1, 5);
    peer_ready(5, LEN, 0);
    peer_ready(6, LEN, 0);
    assert_false(is_put(&op[1], LEN, 5));
    assert_true(is_put(&op[2], LEN, 6));
    peer_ready(5, LEN, 2); /* has had both */
    assert_true(is_put(&op[3], LEN, 5));
}

/* More than is remembered may have been of that tag. */
static void offers_behind_many(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VBN_TAG_RECENT + 1; i++)
        send_one(&op[i], 1, 100);
    peer_ready(5, LEN, 1);
    peer_ready(6, LEN, 0);
    assert_true(is_put(&op[0], LEN, 5));
    assert_false(is_put(&op[1], LEN, 6));
}

/* What goes in parts, for want of registered memory, is one message of its tag, too. */
static void forgets_what_goes_in_parts(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    fake_fail(FAKE_REG_MR, 1, ENOMEM);
    send_one(&op[0], LEN, 5);
    sent_at(0, VBN_TAG_FIRST);
    assert_false(is_put(&op[1], LEN, 5));
    peer_ready(6, LEN, 2); /* has had both */
    assert_true(is_put(&op[2], LEN, 6));
}

static void offers_what_cannot_be_put_now(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    ctx->device.max_msg_size = LEN - 1;
    assert_false(is_put(&op[0], LEN, 5));
}

static uint32_t answer_at(unsigned n)
{
    struct vbn_wire_answer answer;

    assert_true(vbn_wire_answer_read(sent_at(n, VBN_TAG_WITHDRAWN), sizeof(answer), &answer));
    return answer.id;
}

static void forgets_what_is_withdrawn(void **state)
{
    unsigned n;

    (void)state;
    peer_ready(5, LEN, 0);
    n = lone_sent(conn);
    peer_words(VBN_TAG_WITHDRAW, 5, 1);
    assert_int_equal(answer_at(n), 1);
    assert_false(is_put(&op[0], LEN, 5));
    n = lone_sent(conn);
    peer_words(VBN_TAG_WITHDRAW, 6, 2); /* of which it knows nothing, any more */
    assert_int_equal(answer_at(n), 2);
}

static void withdrawn_out_of_turn(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    peer_words(VBN_TAG_WITHDRAW, 5, 2);
    assert_broken();
}

/* What comes behind is not held up by an answer that cannot be sent, and one is enough. */
static void withdrawn_without_a_buffer(void **state)
{
    struct vbn_wire_hdr hdr = {0};

    (void)state;
    peer_ready(5, LEN, 0);
    peer_ready(6, LEN, 0);
    take_all_buffers();
    peer_words(VBN_TAG_WITHDRAW, 5, 1);
    peer_words(VBN_TAG_WITHDRAW, 6, 2);
    assert_true(TAILQ_EMPTY(&ep->tag.places));
    assert_int_equal(vbn_tag_recv(ctx, ep, NULL, 0, 8, VBN_TAG_MAX, &op[0]), VBN_PENDING);
    peer_words(VBN_TAG_EAGER, 8, 0);
    assert_int_equal(op[0].status, VBN_OK);
    for (int i = 0; i < 1000 && hdr.id != VBN_TAG_WITHDRAWN; i++) {
        lone_complete(conn);
        lone_ack(conn);
        lone_send_at(conn, lone_sent(conn) - 1, &hdr);
    }
    assert_int_equal(answer_at(lone_sent(conn) - 1), 2);
    assert_int_equal(ep->tag.answered, 2);
}

/* A send is over when the peer needs nothing of this side any more. */
static void offers_what_could_not_be_told_of_at_once(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    while (vbn_flow_credits(&conn->flow) > 1)
        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    assert_int_equal(vbn_tag_send(ep, memory[1], LEN, 5, &op[0]), VBN_PENDING);
    assert_int_equal(vbn_tag_of(&op[0])->state, VBN_TAG_OFFERED);
}

static void offers_where_the_queue_is_full(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    conn->q.depth = conn->q.head - conn->q.tail + 1;
    assert_false(is_put(&op[0], LEN, 5));
}

static void ready_for_what_was_not_sent(void **state)
{
    (void)state;
    peer_ready(5, LEN, 1);
    assert_broken();
}

static void ready_twice_for_a_tag(void **state)
{
    (void)state;
    peer_ready(5, LEN, 0);
    peer_ready(5, LEN, 0);
    assert_broken();
}

static void ready_for_too_many(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VBN_TAG_PLACES; i++)
        peer_ready(100 + i, LEN, 0);
    assert_int_equal(ep->state, VBN_EP_OPEN);
    peer_ready(5, LEN, 0);
    assert_broken();
}

static void ready_for_nothing(void **state)
{
    (void)state;
    peer_ready(5, 0, 0);
    assert_broken();
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(tells_where),
        T(tells_how_many_have_come),
        T(tells_nothing_of_short_ones),
        T(tells_nothing_behind_an_older_one),
        T(tells_of_so_many),
        T(tells_no_peer_of_before),
        T(tells_nobody_before_it_is_connected),
        T(tells_nothing_without_memory),
        T(tells_of_lent_memory),
        T(takes_what_comes),
        T(takes_an_offer),
        T(cancelled_when_the_peer_has_forgotten_it),
        T(cancelled_too_late),
        T(cancelled_together),
        T(answer_to_no_withdrawal),
        T(answer_to_a_later_withdrawal),
        T(cancelled_without_a_buffer),
        T(ends_with_its_endpoint),
        T(ends_behind_its_connection),
        T(placed_for_nobody),
        T(placed_for_who_told_nothing),
        T(placed_of_another_length),
        T(word_of_another_length),
        T(puts_where_it_shall_be),
        T(offers_what_is_of_another_length),
        T(offers_behind_what_was_sent_before),
        T(offers_behind_many),
        T(forgets_what_goes_in_parts),
        T(offers_what_cannot_be_put_now),
        T(forgets_what_is_withdrawn),
        T(withdrawn_out_of_turn),
        T(withdrawn_without_a_buffer),
        T(offers_what_could_not_be_told_of_at_once),
        T(offers_where_the_queue_is_full),
        T(ready_for_what_was_not_sent),
        T(ready_twice_for_a_tag),
        T(ready_for_too_many),
        T(ready_for_nothing),
    };

    return cmocka_run_group_tests_name("ready", tests, NULL, NULL);
}
