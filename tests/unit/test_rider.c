/* SPDX-License-Identifier: BSD-3-Clause */
/* Words that ride on puts: what is posted, when they go by themselves, what the receiver makes of
 * them. */
#include "lone.h"

#include "rma.h"

#include <arpa/inet.h>

#define LEN   5000u /* longer than what is copied */
#define SHORT 500u
#define TAG   5u

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;
static char memory[LEN];
static struct vbn_op op[2];

static void copy_little(struct vbn_options *opts)
{
    opts->rndv_limit = SHORT;
}

static void start(uint8_t wire_version)
{
    memset(op, 0, sizeof(op));
    ctx = lone_open(copy_little);
    conn = lone_connect_by(ctx, 7, wire_version);
    ep = conn->ep;
}

static int setup(void **state)
{
    lone_setup(state);
    lone_device->attr.vendor_id = 0xffffff; /* its reads are unsound: who receives asks for puts */
    start(VBN_WIRE_VERSION);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- the peer --------------------------------------------------------------------------------- */

static void peer_offers(uint8_t kind, uint64_t len, uint32_t id)
{
    struct vbn_wire_offer offer = {.tag = TAG, .len = len, .addr = 0x7000, .rkey = 77, .id = id};
    char bytes[sizeof(offer)];

    vbn_wire_offer_write(bytes, &offer);
    lone_tagged(conn, kind, bytes, sizeof(bytes));
}

/* What the peer puts comes with WORD. */
static void peer_rides(const struct vbn_wire_rider *word)
{
    assert_true(fake_put_imm(conn->q.qp, LEN, htonl(vbn_wire_rider_pack(word))));
    lone_progress(ctx);
}

static struct vbn_wire_rider next_word(bool placed, uint16_t number)
{
    return (struct vbn_wire_rider){
        .number = number, .seq = ep->rx_next % VBN_BARE_SEQS, .placed = placed};
}

/* --- who puts --------------------------------------------------------------------------------- */

/* The last of what has been posted is a put with a word. */
static struct vbn_wire_rider ridden(void)
{
    const struct fake_send *send = lone_send_at(conn, lone_sent(conn) - 1, NULL);
    struct vbn_wire_rider word;

    assert_int_equal(send->wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(send->sge.addr, (uintptr_t)memory);
    assert_int_equal(send->sge.length, LEN);
    assert_int_equal(send->wr.wr.rdma.remote_addr, 0x7000);
    assert_int_equal(send->wr.wr.rdma.rkey, 77);
    assert_true(vbn_wire_rider_unpack(ntohl(send->wr.imm_data), &word));
    return word;
}

/* The last two are a put, and a message of KIND. */
static void went_by_itself(uint8_t kind)
{
    unsigned n = lone_sent(conn);
    struct vbn_wire_hdr hdr;

    assert_int_equal(lone_send_at(conn, n - 2, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    lone_send_at(conn, n - 1, &hdr);
    assert_int_equal(hdr.id, kind);
}

static void send_one(size_t len)
{
    assert_int_equal(vbn_tag_send(ep, memory, len, TAG, &op[0]), VBN_PENDING);
}

/* A message of LEN bytes is put where the peer is ready for it. */
static void place(size_t len)
{
    peer_offers(VBN_TAG_READY, len, ep->tag.sent);
    send_one(len);
}

/* One is put where the peer asks for it. */
static void put_what_is_asked_for(void)
{
    send_one(LEN);
    peer_offers(VBN_TAG_ASK, LEN, (uint32_t)vbn_tag_of(&op[0])->number);
}

static void placed_rides(void **state)
{
    uint16_t count = conn->flow.tx_count;
    struct vbn_wire_rider word;
    uint32_t next;

    (void)state;
    next = ep->tx_next;
    place(LEN);
    assert_int_equal(lone_sent(conn), 1);
    word = ridden();
    assert_true(word.placed);
    assert_int_equal(word.number, 0);
    assert_int_equal(word.seq, next % VBN_BARE_SEQS);
    assert_int_equal(word.news, 1);
    assert_int_equal(conn->told_next, ep->rx_next);
    assert_int_equal(ep->tx_next, next + 1);
    assert_int_equal(conn->flow.tx_count, count + 1); /* it takes a receive buffer */
    assert_int_equal(ctx->counters.rider_msgs, 1);
    lone_complete(conn);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(ep->msgs_out, 1); /* until it is acknowledged */
    lone_ack(conn);
    assert_int_equal(ep->msgs_out, 0);
}

static void places_are_numbered(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < 3; i++) {
        place(LEN);
        assert_int_equal(ridden().number, i);
        lone_complete(conn);
        lone_progress(ctx);
    }
}

static void done_rides(void **state)
{
    struct vbn_wire_rider word;

    (void)state;
    ctx->tags.offers = 0x1fffe;
    put_what_is_asked_for();
    word = ridden();
    assert_false(word.placed);
    assert_int_equal(word.number, 0xfffe);
    lone_complete(conn);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_OK);
    lone_ack(conn);
    assert_int_equal(ep->msgs_out, 0);
}

/* The receiver could not tell which is meant. */
static void not_of_a_number_long_ago(void **state)
{
    (void)state;
    send_one(LEN);
    ctx->tags.offers += VBN_RIDER_NUMBERS - 1;
    peer_offers(VBN_TAG_ASK, LEN, (uint32_t)vbn_tag_of(&op[0])->number);
    went_by_itself(VBN_TAG_DONE);
    peer_offers(VBN_TAG_READY, LEN, ep->tag.sent);
    ep->tag.heard_count += VBN_RIDER_NUMBERS;
    assert_int_equal(vbn_tag_send(ep, memory, LEN, TAG, &op[1]), VBN_PENDING);
    went_by_itself(VBN_TAG_PLACED);
}

static void not_on_a_short_put(void **state)
{
    (void)state;
    place(VBN_RIDER_MIN - 1);
    went_by_itself(VBN_TAG_PLACED);
}

/* Immediate data have no room for them. */
static void not_with_so_much_news(void **state)
{
    (void)state;
    peer_offers(VBN_TAG_READY, LEN, 0);
    conn->told_next = ep->rx_next - VBN_BARE_NEWS_MAX - 1;
    send_one(LEN);
    went_by_itself(VBN_TAG_PLACED);
}

static void not_to_older_ones(void **state)
{
    (void)state;
    lone_close(ctx);
    start(VBN_WIRE_RIDERS - 1);
    place(LEN);
    went_by_itself(VBN_TAG_PLACED);
    assert_int_equal(ctx->counters.rider_msgs, 0);
}

/* What cannot be said at once is said when the put is over. */
static void not_without_a_credit(void **state)
{
    (void)state;
    send_one(LEN);
    while (vbn_flow_credits(&conn->flow) > 1)
        assert_int_equal(vbn_am_send(ep, 1, NULL, 0), VBN_OK);
    lone_credits = 1;
    peer_offers(VBN_TAG_ASK, LEN, (uint32_t)vbn_tag_of(&op[0])->number);
    assert_int_equal(lone_send_at(conn, lone_sent(conn) - 1, NULL)->wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(ctx->counters.rider_msgs, 0);
    lone_complete(conn);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_PENDING); /* the peer still needs this side */
    lone_credits = 16;
    lone_ack(conn);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_OK);
}

/* --- who receives ------------------------------------------------------------------------------
 */

static void be_ready(void)
{
    assert_int_equal(vbn_tag_recv_ready(ep, memory, LEN, TAG, &op[0]), VBN_PENDING);
    assert_true(vbn_tag_of(&op[0])->ready);
}

/* The peer's offer with ID is asked for. */
static void ask_for(uint32_t id)
{
    assert_int_equal(vbn_tag_recv(ctx, ep, memory, LEN, TAG, VBN_TAG_MAX, &op[0]), VBN_PENDING);
    peer_offers(VBN_TAG_OFFER, LEN, id);
    assert_int_equal(vbn_tag_of(&op[0])->state, VBN_TAG_ASKED);
}

/* The connection is. */
static void lost(void)
{
    lone_progress(ctx);
    assert_ptr_not_equal(ep->conn, conn);
    assert_int_not_equal(op[0].status, VBN_OK);
}

static void takes_placed(void **state)
{
    struct vbn_wire_rider word = next_word(true, 0);

    (void)state;
    be_ready();
    peer_rides(&word);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(op[0].len, LEN);
    assert_int_equal(ep->tag.ready, 0);
    be_ready();
    word = next_word(true, 1);
    peer_rides(&word);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(ep->state, VBN_EP_OPEN);
}

static void takes_done(void **state)
{
    struct vbn_wire_rider word;

    (void)state;
    ask_for(0x1ffff);
    peer_offers(VBN_TAG_OFFER, LEN, 0x20003); /* a later one */
    word = next_word(false, 0xffff);
    peer_rides(&word);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(ep->state, VBN_EP_OPEN);
}

static void takes_its_news(void **state)
{
    struct vbn_wire_rider word;
    uint32_t next;

    (void)state;
    be_ready(); /* a message that is not acknowledged */
    next = ep->tx_acked;
    word = next_word(true, 0);
    word.news = 1;
    peer_rides(&word);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(ep->tx_acked, next + 1);
}

static void recover(struct vbn_options *opts)
{
    copy_little(opts);
    opts->recovery_timeout_ms = 1000;
}

/* The peer, whose request goes on where both ask, has asked for another connection, and puts at
 * once. */
static void takes_it_as_the_first_message(void **state)
{
    struct vbn_wire_rider word = {.placed = true};
    struct vbn_wire_hello hello;
    struct rdma_cm_id *id;

    (void)state;
    lone_close(ctx);
    ctx = lone_open(recover);
    conn = lone_connect(ctx, LONE_UID + 1);
    ep = conn->ep;
    be_ready();
    fake_event(conn->id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    lone_progress(ctx);
    lone_progress(ctx);
    assert_null(ep->conn);
    hello = lone_hello(ctx, LONE_UID + 1);
    hello.session = ep->session;
    hello.rx_next = ep->tx_next;
    id = lone_request(ctx, &hello);
    lone_progress(ctx);
    conn = id->context;
    assert_int_equal(conn->state, VBN_CONN_ACCEPTING);
    peer_rides(&word);
    assert_int_equal(conn->state, VBN_CONN_ESTABLISHED);
    assert_int_equal(op[0].status, VBN_OK);
}

static void no_such_place(void **state)
{
    struct vbn_wire_rider word = next_word(true, 1);

    (void)state;
    be_ready();
    peer_rides(&word);
    lost();
}

static void no_such_offer(void **state)
{
    struct vbn_wire_rider word;

    (void)state;
    ask_for(3);
    word = next_word(false, 2);
    peer_rides(&word);
    assert_int_equal(ctx->counters.bad_messages, 1);
    assert_int_not_equal(op[0].status, VBN_OK);
}

static void out_of_turn(void **state)
{
    struct vbn_wire_rider word = next_word(true, 0);

    (void)state;
    be_ready();
    word.seq = (uint8_t)((word.seq + 1) % VBN_BARE_SEQS);
    peer_rides(&word);
    lost();
}

/* Number 17 says no more of itself than 1, which is missing, would have. */
static void not_for_a_missing_one(void **state)
{
    struct vbn_wire_rider word = next_word(true, 0);
    struct vbn_wire_hdr late;

    (void)state;
    be_ready();
    peer_rides(&word);
    be_ready();
    word = next_word(true, 1);
    late = lone_hdr(conn, VBN_WIRE_ACK);
    late.seq = ep->rx_next + 1;
    lone_queued(conn, &late, NULL);
    peer_rides(&word);
    lost();
}

/* A put leaves alone what its buffer has, be it ever so short and without a word. */
static void not_what_its_buffer_had(void **state)
{
    struct vbn_wire_hdr old = lone_hdr(conn, VBN_WIRE_AM);
    char bytes[sizeof(old)];

    (void)state;
    be_ready();
    vbn_wire_hdr_write(bytes, &old);
    fake_recv_had(conn->q.qp, bytes, sizeof(bytes));
    assert_true(fake_put_imm(conn->q.qp, sizeof(bytes), UINT32_MAX));
    lost();
    assert_int_equal(ep->rx_next, old.seq);
}

static void with_bits_that_mean_nothing(void **state)
{
    struct vbn_wire_rider word = next_word(true, 0);

    (void)state;
    be_ready();
    assert_true(
        fake_put_imm(conn->q.qp, LEN, htonl(vbn_wire_rider_pack(&word) | UINT32_C(1) << 27)));
    lost();
}

static void of_an_older_peer(void **state)
{
    struct vbn_wire_rider word;

    (void)state;
    lone_close(ctx);
    start(VBN_WIRE_RIDERS - 1);
    be_ready();
    word = next_word(true, 0);
    peer_rides(&word);
    lost();
}

/* Who has ended it waits for none. */
static void a_place_is_of_one_receive(void **state)
{
    (void)state;
    be_ready();
    assert_ptr_equal(vbn_tag_told(ep, 0), vbn_tag_of(&op[0]));
    vbn_endpoint_fail(ep, VBN_ERR_PEER_LOST, "%s", "test");
    lone_progress(ctx);
    assert_null(vbn_tag_told(ep, 0));
    assert_int_equal(ep->tag.ready, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(placed_rides),
        T(places_are_numbered),
        T(done_rides),
        T(not_of_a_number_long_ago),
        T(not_on_a_short_put),
        T(not_with_so_much_news),
        T(not_to_older_ones),
        T(not_without_a_credit),
        T(takes_placed),
        T(takes_done),
        T(takes_its_news),
        T(takes_it_as_the_first_message),
        T(no_such_place),
        T(no_such_offer),
        T(out_of_turn),
        T(not_for_a_missing_one),
        T(not_what_its_buffer_had),
        T(with_bits_that_mean_nothing),
        T(of_an_older_peer),
        T(a_place_is_of_one_receive),
    };

    return cmocka_run_group_tests_name("rider", tests, NULL, NULL);
}
