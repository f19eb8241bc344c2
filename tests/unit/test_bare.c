/* SPDX-License-Identifier: BSD-3-Clause */
/* Bare messages: which leave their head out, what tells it, and what the receiver makes of it. */
#include "lone.h"

#include <arpa/inet.h>

#define ID     5
#define PEER   7
#define PACKET 1024u /* what the fakes connect by */
#define HEAD   14u   /* as long as ob1's */
#define DATA   (2 * PACKET)
#define LEN    (HEAD + DATA)

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_endpoint_t *ep;
static unsigned got;
static unsigned char came[5 * PACKET];
static size_t came_len;
static bool write_when_called; /* the next message, by the ring */

static void take(void *arg, vbn_endpoint_t *from, uint8_t id, void *data, size_t len)
{
    (void)arg;
    (void)from;
    assert_int_equal(id, ID);
    assert_true(len <= sizeof(came));
    memcpy(came, data, len);
    came_len = len;
    got++;
    if (write_when_called) {
        struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);

        write_when_called = false;
        hdr.id = ID, hdr.len = 1;
        lone_ring_write(conn, &hdr, "r", (uint16_t)(conn->flow.rx_count + 1));
    }
}

static void tweak(struct vbn_options *opts)
{
    opts->eager_limit = sizeof(came);
    opts->window = 256;
}

static void with_rings(struct vbn_options *opts)
{
    tweak(opts);
    opts->ring_peers = 1;
    opts->ring_after = 1;
}

/* A connection to a peer whose answer is of wire VERSION. */
static void start_with(uint8_t version, bool iwarp, void (*change)(struct vbn_options *))
{
    ctx = lone_open(change);
    ctx->device.iwarp = iwarp;
    vbn_am_handler(ctx, ID, take, NULL);
    conn = lone_connect_by(ctx, PEER, version);
    ep = conn->ep;
}

static void start(void (*change)(struct vbn_options *))
{
    start_with(VBN_WIRE_VERSION, false, change);
}

static int setup(void **state)
{
    lone_setup(state);
    lone_credits = 200;
    got = 0;
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    lone_credits = 16;
    return lone_teardown(state);
}

/* A payload as ob1's: a head that says the same in each, but for the 16 bits COUNT at its end. */
static const unsigned char *payload(uint16_t count)
{
    static unsigned char bytes[sizeof(came)];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i < HEAD ? i : i * 7 + count);
    bytes[HEAD - 2] = (unsigned char)count;
    bytes[HEAD - 1] = (unsigned char)(count >> 8);
    return bytes;
}

/* Sends LEN bytes; the request that was posted for it, and where it is bare what it tells. */
static const struct fake_send *sent(uint8_t id, const void *bytes, size_t len, bool *bare,
                                    struct vbn_wire_bare *told)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    const struct fake_send *s;

    assert_int_equal(vbn_am_send(ep, id, &piece, 1), VBN_OK);
    s = lone_send_at(conn, lone_sent(conn) - 1, NULL);
    *bare = s->wr.opcode == IBV_WR_SEND_WITH_IMM;
    if (*bare)
        *told = vbn_wire_bare_unpack(ntohl(s->wr.imm_data));
    else
        assert_int_equal(s->sge.length, sizeof(struct vbn_wire_hdr) + len);
    return s;
}

static bool goes_bare(uint8_t id, const void *bytes, size_t len)
{
    struct vbn_wire_bare told;
    bool bare;

    sent(id, bytes, len, &bare, &told);
    return bare;
}

/* --- sending -------------------------------------------------------------------------------------
 */

static void like_the_one_before(void **state)
{
    struct vbn_wire_bare told = {0};
    const struct fake_send *s;
    bool bare;

    (void)state;
    start(tweak);
    assert_false(goes_bare(ID, payload(0x0102), LEN));
    for (uint16_t count = 0x0103; count < 0x0103 + 40; count++) {
        s = sent(ID, payload(count), LEN, &bare, &told);
        assert_true(bare);
        assert_int_equal(s->sge.length, DATA);
        assert_memory_equal(s->bytes, payload(count) + HEAD, sizeof(s->bytes));
        assert_int_equal(told.head, 0);
        assert_int_equal(told.seq, (ep->tx_next - 1) % 16);
        assert_int_equal(told.news, 0);
        assert_int_equal(told.word, HEAD / 2 - 1);
        assert_int_equal(told.value, count);
    }
}

/* The header alone is too much for the packets of the data. */
static void nothing_but_the_header(void **state)
{
    struct vbn_wire_bare told;
    bool bare;

    (void)state;
    start(tweak);
    assert_false(goes_bare(ID, payload(1), DATA));
    assert_int_equal(sent(ID, payload(2), DATA, &bare, &told)->sge.length, DATA);
    assert_true(bare);
    assert_int_equal(told.word, 0);
    assert_false(goes_bare(ID, payload(1), DATA - 8));
    assert_int_equal(sent(ID, payload(2), DATA - 8, &bare, &told)->sge.length, DATA - 8);
    assert_true(bare); /* 8 bytes of the header would have had room */
}

static void where_nothing_is_gained(void **state)
{
    static const size_t lens[] = {DATA - 16, DATA + 33,  DATA + 34,
                                  DATA + 13, DATA + 512, PACKET - 8};

    (void)state;
    start(tweak);
    for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++)
        for (unsigned times = 0; times < 3; times++)
            assert_false(goes_bare(ID, payload(1), lens[i]));
}

static void unlike_those_before(void **state)
{
    unsigned char other[LEN];

    (void)state;
    start(tweak);
    assert_false(goes_bare(ID, payload(1), LEN));
    assert_false(goes_bare(ID + 1, payload(1), LEN));
    assert_false(goes_bare(ID, payload(1), LEN - 2));
    memcpy(other, payload(1), LEN);
    other[0]++, other[1]++; /* one word */
    assert_true(goes_bare(ID, other, LEN));
    other[HEAD - 1]++; /* and another */
    assert_false(goes_bare(ID, other, LEN));
    assert_true(goes_bare(ID, payload(2), LEN)); /* the first one is still kept */
}

static void the_oldest_is_forgotten(void **state)
{
    struct vbn_wire_bare told;
    bool bare;

    (void)state;
    start(tweak);
    for (size_t i = 0; i < VBN_BARE_HEADS; i++)
        assert_false(goes_bare(ID, payload(1), LEN + i * PACKET / 2 + i));
    assert_true(goes_bare(ID, payload(2), LEN));
    assert_false(goes_bare(ID + 1, payload(1), LEN)); /* in the place of the first */
    sent(ID + 1, payload(2), LEN, &bare, &told);
    assert_true(bare);
    assert_int_equal(told.head, 0);
    assert_false(goes_bare(ID, payload(3), LEN));
}

/* What has come since the last message is acknowledged, and granted again, by one number. */
static void with_news(void **state)
{
    struct vbn_wire_bare told;
    bool bare;

    (void)state;
    start(tweak);
    assert_false(goes_bare(ID, payload(1), LEN));
    for (unsigned i = 0; i < 3; i++)
        lone_am(conn, ID, "x", 1);
    sent(ID, payload(2), LEN, &bare, &told);
    assert_true(bare);
    assert_int_equal(told.news, 3);
    assert_int_equal(conn->told_next, ep->rx_next);
    sent(ID, payload(3), LEN, &bare, &told);
    assert_true(bare);
    assert_int_equal(told.news, 0);
    lone_ack(conn); /* is granted again, but has no number */
    assert_false(goes_bare(ID, payload(4), LEN));
    assert_true(goes_bare(ID, payload(5), LEN));
}

static void not_to_all(void **state)
{
    (void)state;
    start_with(VBN_WIRE_BARES - 1, false, tweak);
    for (unsigned times = 0; times < 3; times++)
        assert_false(goes_bare(ID, payload(1), LEN));
    lone_close(ctx);
    start_with(VBN_WIRE_VERSION, true, tweak);
    lone_am(conn, ID, "x", 1);
    for (unsigned times = 0; times < 3; times++)
        assert_false(goes_bare(ID, payload(1), LEN));
}

/* Packets are as long as the path's MTU; one that there is none of says nothing. */
static void packets_of_the_path(void **state)
{
    static const struct {
        enum ibv_mtu mtu;
        uint32_t packet;
    } cases[] = {{IBV_MTU_256, 256},   {IBV_MTU_2048, 2048}, {IBV_MTU_4096, 4096},
                 {(enum ibv_mtu)0, 0}, {(enum ibv_mtu)6, 0}, {(enum ibv_mtu)40, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        fake_path_mtu = cases[i].mtu;
        start(tweak);
        assert_int_equal(conn->bare.packet, cases[i].packet);
        assert_false(goes_bare(ID, payload(1), HEAD + 4096));
        assert_int_equal(goes_bare(ID, payload(2), HEAD + 4096), cases[i].packet != 0);
        if (i + 1 < sizeof(cases) / sizeof(*cases))
            lone_close(ctx);
    }
}

/* --- receiving -----------------------------------------------------------------------------------
 */

static void bare_comes(struct vbn_wire_bare told, const void *bytes, size_t len)
{
    told.seq = (uint8_t)((told.seq + ep->rx_next) % 16);
    assert_true(fake_message_imm(conn->q.qp, bytes, len, htonl(vbn_wire_bare_pack(&told))));
    vbn_progress(ctx);
}

static void gets_its_head_back(void **state)
{
    struct vbn_wire_bare told = {.word = HEAD / 2 - 1};
    uint16_t grant;

    (void)state;
    start(tweak);
    lone_am(conn, ID, payload(1), LEN);
    assert_int_equal(got, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_false(goes_bare(ID, "abc", 3));
    grant = conn->flow.tx_grant;
    for (uint16_t count = 2; count < 20; count++) {
        told.value = count;
        told.news = count == 2 ? 3 : 0;
        bare_comes(told, payload(count) + HEAD, DATA);
        assert_int_equal(got, count);
        assert_int_equal(came_len, LEN);
        assert_memory_equal(came, payload(count), LEN);
    }
    assert_int_equal(ep->tx_acked, ep->tx_next);
    assert_int_equal(conn->flow.tx_grant, grant + 3);
    assert_int_equal(ctx->counters.bad_messages, 0);
}

static void whole_comes(uint32_t seq, uint32_t len, const void *bytes)
{
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_AM);

    hdr.id = ID, hdr.len = len, hdr.seq = seq;
    lone_queued(conn, &hdr, bytes);
}

/* What a device brings twice ends the connection, but what is there already is still taken. */
static void brought_twice_is_kept_once(void **state)
{
    const uint32_t len = LEN - 2;
    const unsigned char *bytes = payload(7);
    struct vbn_wire_bare told = {
        .head = 1, .seq = 2, .value = (uint16_t)(bytes[0] | bytes[1] << 8)};

    (void)state;
    start(tweak);
    whole_comes(0, LEN, bytes);
    whole_comes(0, LEN, bytes);
    whole_comes(1, len, bytes);
    bare_comes(told, bytes + len - DATA, DATA);
    assert_int_equal(got, 3);
    assert_int_equal(came_len, len);
    assert_memory_equal(came, bytes, len);
    assert_int_equal(ctx->counters.bad_messages, 1);
}

/* Number 17 says no more of itself than 1, which is missing, would have. */
static void not_for_a_missing_one(void **state)
{
    const unsigned char *bytes = payload(7);

    (void)state;
    start(tweak);
    whole_comes(0, LEN, bytes);
    whole_comes(2, LEN, bytes);
    bare_comes((struct vbn_wire_bare){.seq = 1}, bytes + LEN - DATA, DATA);
    assert_int_equal(got, 1);
    assert_int_equal(conn->ep->rx_next, 1);
}

/* Each ends the connection, and brings nothing. */
static void not_as_told(void **state)
{
    static const struct {
        struct vbn_wire_bare told;
        size_t len;
    } bad[] = {
        {{.head = 1}, DATA},        /* none is kept there */
        {{.word = HEAD / 2}, DATA}, /* beyond what was left out */
        {{.word = 15}, DATA},       /* the same */
        {{.seq = 1}, DATA},         /* another number */
        {{.seq = 15}, DATA},        /* the last one once more */
        {{.news = 1}, DATA},        /* nothing was sent that could have come */
        {{.word = 0}, DATA - 19},   /* more left out than is kept */
        {{.word = 0}, DATA + 1},    /* an odd number left out */
        {{.word = 0}, LEN + 2},     /* longer than the whole */
        {{.word = 0}, 0},           /* nothing came */
        {{.word = 1}, LEN},         /* a word of nothing */
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        start(tweak);
        got = 0;
        lone_am(conn, ID, payload(1), LEN);
        bare_comes(bad[i].told, payload(2), bad[i].len);
        assert_int_equal(got, 1);
        assert_int_equal(ctx->counters.bad_messages, 1);
        lone_progress(ctx);
        assert_int_equal(unit.failures, i + 1);
        lone_close(ctx);
    }
    start(tweak);
}

static void from_who_cannot(void **state)
{
    struct vbn_wire_bare told = {0};

    (void)state;
    start_with(VBN_WIRE_BARES - 1, false, tweak);
    lone_am(conn, ID, payload(1), LEN);
    bare_comes(told, payload(1) + HEAD, DATA);
    assert_int_equal(got, 1);
    assert_int_equal(ctx->counters.bad_messages, 1);
}

/* A first message that is bare is none of a peer's: the endpoint ends. */
static void as_the_first(void **state)
{
    struct vbn_wire_bare told = {0};

    (void)state;
    start(tweak);
    bare_comes(told, payload(1) + HEAD, DATA);
    assert_int_equal(got, 0);
    assert_int_equal(unit.failures, 1);
}

/* The same from who has asked and has not heard our answer. */
static void before_the_answer(void **state)
{
    struct vbn_wire_bare told = {0};
    struct vbn_wire_hello hello;
    struct rdma_cm_id *id;

    (void)state;
    ctx = lone_open(tweak);
    hello = lone_hello(ctx, PEER);
    id = lone_request(ctx, &hello);
    lone_progress(ctx);
    conn = id->context;
    ep = conn->ep;
    assert_int_equal(conn->state, VBN_CONN_ACCEPTING);
    bare_comes(told, payload(1) + HEAD, DATA);
    assert_int_equal(ctx->counters.bad_messages, 1);
}

/* What was written into the ring before it counts before it, although it is seen later: not until
 * the queue is being read. */
static void behind_the_ring(void **state)
{
    struct vbn_wire_bare told = {.word = HEAD / 2 - 1, .value = 9};
    struct vbn_wire_hdr hdr;

    (void)state;
    start(with_rings);
    lone_am(conn, ID, "x", 1);
    lone_complete(conn);
    lone_ring_heard(conn);
    lone_complete(conn);
    assert_non_null(conn->ring.in.slots);
    lone_am(conn, ID, payload(1), LEN);
    hdr = lone_hdr(conn, VBN_WIRE_AM);
    hdr.id = ID, hdr.len = 1;
    lone_queued(conn, &hdr, "q");
    told.seq = (uint8_t)(hdr.seq + 2) % 16;
    assert_true(
        fake_message_imm(conn->q.qp, payload(9) + HEAD, DATA, htonl(vbn_wire_bare_pack(&told))));
    got = 0;
    write_when_called = true;
    vbn_progress(ctx);
    assert_int_equal(got, 3);
    assert_int_equal(came_len, LEN);
    assert_memory_equal(came, payload(9), LEN);
    assert_int_equal(ctx->counters.bad_messages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(like_the_one_before, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_but_the_header, setup, teardown),
        cmocka_unit_test_setup_teardown(where_nothing_is_gained, setup, teardown),
        cmocka_unit_test_setup_teardown(unlike_those_before, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(with_news, setup, teardown),
        cmocka_unit_test_setup_teardown(not_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(packets_of_the_path, setup, teardown),
        cmocka_unit_test_setup_teardown(gets_its_head_back, setup, teardown),
        cmocka_unit_test_setup_teardown(brought_twice_is_kept_once, setup, teardown),
        cmocka_unit_test_setup_teardown(not_for_a_missing_one, setup, teardown),
        cmocka_unit_test_setup_teardown(not_as_told, setup, teardown),
        cmocka_unit_test_setup_teardown(from_who_cannot, setup, teardown),
        cmocka_unit_test_setup_teardown(as_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(before_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(behind_the_ring, setup, teardown),
    };

    return cmocka_run_group_tests_name("bare", tests, NULL, NULL);
}
