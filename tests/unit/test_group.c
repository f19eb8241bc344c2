/* SPDX-License-Identifier: BSD-3-Clause */
/* A group of three, two of whom are played: what is multicast, what goes by connections, and when.
 */
#include "lone.h"

#include "group.h"

#include <errno.h>

enum { ME, ONE, TWO, COUNT };

static vbn_context_t *ctx;
static struct vbn_conn *conn[COUNT];
static vbn_endpoint_t *ep[COUNT];
static vbn_group_t *group;
static struct vbn_op op[2 * VBN_GROUP_WINDOW_MAX];
static char memory[20000];
static const uint64_t one = 1; /* sends that wait read it later */

static vbn_group_t *open_group(void)
{
    vbn_peer_t *peers[COUNT] = {NULL, (vbn_peer_t *)ep[ONE], (vbn_peer_t *)ep[TWO]};
    vbn_group_t *g = NULL;
    struct vbn_error err;

    assert_int_equal(vbn_group_open(ctx, 5, peers, COUNT, ME, &g, &err), VBN_OK);
    return g;
}

static void open_context(void (*tweak)(struct vbn_options *opts))
{
    ctx = lone_open(tweak);
    conn[ONE] = lone_connect(ctx, 7);
    conn[TWO] = lone_connect(ctx, 8);
    ep[ONE] = conn[ONE]->ep;
    ep[TWO] = conn[TWO]->ep;
}

static int setup(void **state)
{
    lone_setup(state);
    memset(op, 0, sizeof(op));
    open_context(NULL);
    return 0;
}

static int teardown(void **state)
{
    lone_close(ctx);
    return lone_teardown(state);
}

/* --- what the others say ------------------------------------------------------------------------
 */

/* A datagram of FROM's with LEN bytes of DATA behind its head lies with the device. */
static void datagram_of(uint64_t id, int from, uint8_t kind, uint32_t number, const void *data,
                        size_t len)
{
    char bytes[VBN_GRH_LEN + VBN_CAST_MAX] = {0};
    struct vbn_wire_cast head = {
        .group = id, .number = number, .sender = (uint16_t)from, .kind = kind};

    vbn_wire_cast_write(bytes + VBN_GRH_LEN, &head);
    if (len)
        memcpy(bytes + VBN_GRH_LEN + sizeof(head), data, len);
    assert_true(fake_message(group->qp, bytes, VBN_GRH_LEN + sizeof(head) + len));
    vbn_progress(ctx); /* no time passes */
}

static void hello_of(int from)
{
    datagram_of(group->id, from, VBN_CAST_HELLO, 0, NULL, 0);
}

/* A whole message TAG of 8 bytes, VALUE. */
static size_t eager(char *bytes, uint64_t tag, uint64_t value)
{
    vbn_wire_tag_write(bytes, &(struct vbn_wire_tag){.tag = tag, .len = sizeof(value)});
    memcpy(bytes + sizeof(struct vbn_wire_tag), &value, sizeof(value));
    return sizeof(struct vbn_wire_tag) + sizeof(value);
}

static void cast_of(int from, uint32_t number, uint64_t tag, uint64_t value)
{
    char bytes[64];

    datagram_of(group->id, from, VBN_TAG_EAGER, number, bytes, eager(bytes, tag, value));
}

/* The same by its connection. */
static void again_of(int from, uint32_t number, uint64_t tag, uint64_t value)
{
    char bytes[64];
    struct vbn_wire_cast head = {
        .group = group->id, .number = number, .sender = (uint16_t)from, .kind = VBN_TAG_EAGER};

    vbn_wire_cast_write(bytes, &head);
    lone_tagged(conn[from], VBN_TAG_CAST, bytes,
                sizeof(head) + eager(bytes + sizeof(head), tag, value));
}

static void word_of(int from, uint8_t kind, uint32_t number)
{
    char bytes[sizeof(struct vbn_wire_cast)];
    struct vbn_wire_cast word = {
        .group = group->id, .number = number, .sender = (uint16_t)from, .kind = kind};

    vbn_wire_cast_write(bytes, &word);
    lone_tagged(conn[from], VBN_TAG_CAST, bytes, sizeof(bytes));
}

/* --- what they get ------------------------------------------------------------------------------
 */

static unsigned cast_count(void)
{
    return fake_qp(group->qp)->send_count;
}

/* The Nth datagram that was posted. */
static struct vbn_wire_cast cast_at(unsigned n)
{
    const struct fake_send *send = &fake_qp(group->qp)->sends[n];
    struct vbn_wire_cast head;

    assert_in_range(n, 0, cast_count() - 1);
    assert_true(vbn_wire_cast_read(send->bytes, send->sge.length, &head));
    assert_int_equal(head.group, group->id);
    assert_int_equal(head.sender, ME);
    return head;
}

/* The last that TO was sent by its connection is about the group: KIND with NUMBER. */
static void assert_told(int to, uint8_t kind, uint32_t number)
{
    struct vbn_wire_hdr hdr;
    struct vbn_wire_cast word = {0};
    const struct fake_send *send = lone_send_at(conn[to], lone_sent(conn[to]) - 1, &hdr);

    assert_int_equal(hdr.type, VBN_WIRE_TAG);
    assert_int_equal(hdr.id, VBN_TAG_CAST);
    assert_true(vbn_wire_cast_read(send->bytes + sizeof(hdr), hdr.len, &word));
    assert_int_equal(word.group, group->id);
    assert_int_equal(word.sender, ME);
    assert_int_equal(word.kind, kind);
    assert_int_equal(word.number, number);
}

/* How often TO has been told anything about groups. */
static unsigned words_to(int to)
{
    unsigned n = 0;

    for (unsigned i = 0; i < lone_sent(conn[to]); i++) {
        struct vbn_wire_hdr hdr;

        lone_send_at(conn[to], i, &hdr);
        n += hdr.type == VBN_WIRE_TAG && hdr.id == VBN_TAG_CAST;
    }
    return n;
}

/* All datagrams that were posted have left. */
static void all_left(void)
{
    struct fake_qp *qp = fake_qp(group->qp);

    for (unsigned i = qp->send_done; i < qp->send_count; i++)
        if (qp->sends[i].wr.send_flags & IBV_SEND_SIGNALED)
            fake_send_completes(group->qp, i, IBV_WC_SUCCESS);
    lone_progress(ctx);
}

static void make_ready(void)
{
    group = open_group();
    lone_progress(ctx);
    hello_of(ONE);
    hello_of(TWO);
    all_left();
    assert_int_equal(vbn_group_ready(group), VBN_OK);
}

/* Datagrams with data so far. */
static unsigned casts_before;

static void make_ready_and_quiet(void)
{
    make_ready();
    for (int i = 0; i < 200; i++) { /* hellos become rare, and end */
        lone_pass(ctx, 10);
        all_left();
    }
    casts_before = cast_count();
}

static int send_value(struct vbn_op *o, const uint64_t *value)
{
    return vbn_group_send(group, value, sizeof(*value), 3, o);
}

/* --- joining ------------------------------------------------------------------------------------
 */

static void ready_when_all_are_heard(void **state)
{
    (void)state;
    group = open_group();
    assert_int_equal(vbn_group_ready(group), VBN_PENDING);
    assert_null(group->qp);
    lone_progress(ctx);
    assert_non_null(group->qp);
    assert_int_equal(cast_at(0).kind, VBN_CAST_HELLO);
    assert_int_equal(fake_qp_posted(group->qp), VBN_GROUP_LANDINGS);
    hello_of(ONE);
    hello_of(ONE);
    hello_of(ME); /* its own comes back */
    assert_int_equal(vbn_group_ready(group), VBN_PENDING);
    assert_int_equal(send_value(&op[0], &one), VBN_ERR_AGAIN);
    hello_of(TWO);
    assert_int_equal(vbn_group_ready(group), VBN_OK);
}

static void says_hello_until_heard(void **state)
{
    unsigned said;

    (void)state;
    make_ready();
    for (int i = 0; i < 400; i++) {
        lone_pass(ctx, 10);
        all_left();
    }
    said = cast_count();
    assert_in_range(said, 4, 12);
    lone_pass(ctx, 3000);
    assert_int_equal(cast_count(), said);
}

static void says_hello_to_who_waits(void **state)
{
    unsigned said;

    (void)state;
    make_ready_and_quiet();
    said = cast_count();
    datagram_of(group->id, ONE, VBN_CAST_HELLO, 1, NULL, 0);
    datagram_of(group->id, TWO, VBN_CAST_HELLO, 1, NULL, 0);
    for (int i = 0; i < 200; i++) {
        lone_pass(ctx, 10);
        all_left();
    }
    assert_int_equal(cast_count(), said + 1);
    assert_int_equal(cast_at(said).kind, VBN_CAST_HELLO);
    assert_int_equal(cast_at(said).number, 0);
    hello_of(ONE);
    lone_pass(ctx, 100);
    assert_int_equal(cast_count(), said + 1);
}

static void others_are_passed_over(void **state)
{
    (void)state;
    make_ready_and_quiet();
    datagram_of(group->id + 1, ONE, VBN_TAG_EAGER, 0, memory, 30);
    datagram_of(group->id, COUNT, VBN_TAG_EAGER, 0, memory, 30);
    datagram_of(group->id, ONE, VBN_TAG_NEXT + 1, 0, memory, 30);
    assert_true(fake_message(group->qp, memory, 7));
    assert_true(fake_message(group->qp, memory, VBN_GRH_LEN + 3));
    lone_progress(ctx);
    assert_int_equal(ctx->counters.bad_messages, 0);
    assert_int_equal(group->member[ONE].next, 0);
    memset(memory, 0xff, 30); /* a tag that cannot be */
    datagram_of(group->id, ONE, VBN_TAG_EAGER, 0, memory, 30);
    assert_int_equal(ctx->counters.bad_messages, 1);
    assert_int_equal(group->member[ONE].next, 0);
    assert_int_equal(ep[ONE]->state, VBN_EP_OPEN);
}

static void cannot_join(void **state)
{
    static const enum fake_call calls[] = {FAKE_JOIN,      FAKE_CREATE_AH, FAKE_ATTACH,
                                           FAKE_CREATE_QP, FAKE_REG_MR,    FAKE_QUERY_PORT};

    (void)state;
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fake_fail(calls[i], 1, EPERM);
        group = open_group();
        lone_progress(ctx);
        assert_int_equal(vbn_group_ready(group), VBN_ERR_DEVICE);
        assert_int_equal(send_value(&op[0], &one), VBN_ERR_DEVICE);
        fake_fail(calls[i], 1, 0);
        vbn_group_close(group);
        lone_pass(ctx, 20);
        assert_true(LIST_EMPTY(&ctx->groups));
    }
}

static void fails_before_all_are_heard(void **state)
{
    (void)state;
    group = open_group();
    lone_progress(ctx);
    hello_of(ONE);
    fake_send_completes(group->qp, 0, IBV_WC_WR_FLUSH_ERR);
    lone_progress(ctx);
    assert_int_equal(vbn_group_ready(group), VBN_ERR_DEVICE);
}

static void address_not_joined(void **state)
{
    (void)state;
    fake_fail(FAKE_JOIN, 1, EAGAIN);
    group = open_group();
    assert_int_equal(vbn_group_ready(group), VBN_ERR_DEVICE);
}

/* As one that is lost afterwards; when its endpoint is gone, nobody looks at it. */
static void opened_with_one_who_is_lost(void **state)
{
    (void)state;
    vbn_endpoint_fail(ep[ONE], VBN_ERR_PEER_LOST, "test");
    group = open_group();
    assert_int_equal(vbn_group_ready(group), VBN_ERR_PEER_LOST);
    vbn_endpoint_close(ep[ONE]);
    lone_pass(ctx, 20);
    assert_null(vbn_endpoint_find(ctx, 7));
    hello_of(TWO);
    hello_of(ONE);
    cast_of(ONE, 0, 3, 1);
    assert_int_equal(vbn_group_ready(group), VBN_ERR_PEER_LOST);
    assert_int_equal(send_value(&op[0], &one), VBN_ERR_PEER_LOST);
    vbn_group_close(group);
    lone_pass(ctx, 20);
    assert_true(LIST_EMPTY(&ctx->groups));
}

static void short_completion_queues(struct vbn_options *opts)
{
    opts->cq_size = 256;
}

static void more_completions_than_a_queue_has(void **state)
{
    (void)state;
    lone_close(ctx);
    open_context(short_completion_queues);
    group = open_group();
    lone_progress(ctx);
    assert_int_equal(vbn_group_ready(group), VBN_ERR_DEVICE);
    assert_null(group->qp);
}

/* --- sending ------------------------------------------------------------------------------------
 */

static void over_at_once_and_kept(void **state)
{
    uint64_t value = 77;
    struct vbn_wire_cast head;

    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &value), VBN_OK);
    head = cast_at(casts_before);
    assert_int_equal(head.kind, VBN_TAG_EAGER);
    assert_int_equal(head.number, 0);
    assert_int_equal(group->acked, 0);
    word_of(ONE, VBN_CAST_ACK, 1);
    assert_int_equal(group->acked, 0);
    word_of(TWO, VBN_CAST_ACK, 1);
    assert_int_equal(group->acked, 1);
}

static void long_ones_in_parts(void **state)
{
    size_t len;
    unsigned n;

    (void)state;
    make_ready_and_quiet();
    len = 3u * group->mtu;
    assert_int_equal(vbn_group_send(group, memory, len, 3, &op[0]), VBN_OK);
    n = cast_count() - casts_before;
    assert_true(n > 3);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(cast_at(casts_before + i).kind, i ? VBN_TAG_NEXT : VBN_TAG_FIRST);
        assert_int_equal(cast_at(casts_before + i).number, i);
    }
}

/* As many as are kept are sent; how many. */
static uint32_t fill_window(void)
{
    for (uint32_t i = 0; i < group->window; i++)
        assert_int_equal(send_value(&op[i], &one), VBN_OK);
    return group->window;
}

static void no_more_than_the_window(void **state)
{
    uint32_t w;

    (void)state;
    make_ready_and_quiet();
    w = fill_window();
    assert_int_equal(send_value(&op[w], &one), VBN_PENDING);
    all_left();
    word_of(ONE, VBN_CAST_ACK, w);
    lone_progress(ctx);
    assert_int_equal(op[w].status, VBN_PENDING);
    word_of(TWO, VBN_CAST_ACK, 1);
    lone_progress(ctx);
    assert_int_equal(op[w].status, VBN_OK);
    assert_int_equal(cast_at(cast_count() - 1).number, w);
}

static void numbers_begin_anew(void **state)
{
    vbn_peer_t *peers[20];
    struct vbn_error err;

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        peers[i] = (vbn_peer_t *)ep[ONE];
    for (uint32_t count = 2; count <= 20; count++) {
        assert_int_equal(vbn_group_open(ctx, 5, peers, count, ME, &group, &err), VBN_OK);
        assert_int_equal(UINT32_MAX % group->window, group->window - 1);
        vbn_group_close(group);
        lone_pass(ctx, 20);
        assert_true(LIST_EMPTY(&ctx->groups));
    }
}

/* A window that all have acknowledged, and that has not left yet; returns its length. */
static uint32_t acknowledge_before_it_leaves(void)
{
    uint32_t w;

    make_ready_and_quiet();
    w = fill_window();
    word_of(ONE, VBN_CAST_ACK, w);
    word_of(TWO, VBN_CAST_ACK, w);
    return w;
}

static void not_before_it_has_left(void **state)
{
    uint32_t w = acknowledge_before_it_leaves();

    (void)state;
    assert_int_equal(send_value(&op[w], &one), VBN_PENDING);
    all_left();
    lone_progress(ctx);
    assert_int_equal(op[w].status, VBN_OK);
}

/* --- receiving ----------------------------------------------------------------------------------
 */

static void receive(int from, struct vbn_op *o, uint64_t *value)
{
    assert_int_equal(vbn_tag_recv(ctx, ep[from], value, sizeof(*value), 3, VBN_TAG_MAX, o),
                     VBN_PENDING);
}

static void taken_in_their_order(void **state)
{
    uint64_t got[3] = {0};

    (void)state;
    make_ready_and_quiet();
    for (int i = 0; i < 3; i++)
        receive(ONE, &op[i], &got[i]);
    cast_of(ONE, 0, 3, 10);
    cast_of(ONE, 2, 3, 12); /* the one before is missing */
    assert_int_equal(got[1], 0);
    assert_told(ONE, VBN_CAST_ASK, 1);
    cast_of(ONE, 0, 3, 99); /* once more */
    again_of(ONE, 1, 3, 11);
    again_of(ONE, 2, 3, 12);
    cast_of(ONE, 2, 3, 99);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(op[i].status, VBN_OK);
        assert_int_equal(got[i], 10 + i);
    }
}

static void asks_once(void **state)
{
    unsigned said;

    (void)state;
    make_ready_and_quiet();
    cast_of(ONE, 1, 3, 11);
    said = words_to(ONE);
    cast_of(ONE, 2, 3, 12);
    cast_of(ONE, 3, 3, 13);
    assert_int_equal(words_to(ONE), said);
    again_of(ONE, 0, 3, 10);
    cast_of(ONE, 2, 3, 12); /* another one is missing */
    assert_int_equal(words_to(ONE), said + 1);
    assert_told(ONE, VBN_CAST_ASK, 1);
}

static void acknowledges_half_a_window(void **state)
{
    unsigned said;

    (void)state;
    make_ready_and_quiet();
    said = words_to(ONE);
    for (uint32_t i = 0; i < group->window / 2 - 1; i++)
        cast_of(ONE, i, 3, i);
    assert_int_equal(words_to(ONE), said);
    cast_of(ONE, group->window / 2 - 1, 3, 0);
    assert_told(ONE, VBN_CAST_ACK, group->window / 2);
}

static void acknowledges_what_is_old(void **state)
{
    (void)state;
    make_ready_and_quiet();
    cast_of(TWO, 0, 3, 1);
    lone_pass(ctx, 50);
    assert_told(TWO, VBN_CAST_ACK, 1);
}

static void too_early_comes_again(void **state)
{
    uint64_t got = 0;

    (void)state;
    make_ready_and_quiet();
    ctx->tags.early_bytes += ctx->opts.unexpected_limit + 1;
    cast_of(ONE, 0, 3, 10);
    assert_int_equal(group->member[ONE].next, 0);
    ctx->tags.early_bytes -= ctx->opts.unexpected_limit + 1;
    word_of(ONE, VBN_CAST_POKE, 1);
    assert_told(ONE, VBN_CAST_ASK, 0);
    again_of(ONE, 0, 3, 10);
    assert_int_equal(vbn_tag_recv(ctx, ep[ONE], &got, sizeof(got), 3, VBN_TAG_MAX, &op[0]), VBN_OK);
    assert_int_equal(got, 10);
}

/* PART of one of three datagrams, each of 16 bytes; TAG is 4. */
static void part_of_long(int from, uint32_t part)
{
    char bytes[32];
    size_t head = part ? 0 : sizeof(struct vbn_wire_tag);

    vbn_wire_tag_write(bytes, &(struct vbn_wire_tag){.tag = 4, .len = 48});
    memset(bytes + head, (int)(1 + part), 16);
    datagram_of(group->id, from, part ? VBN_TAG_NEXT : VBN_TAG_FIRST, part, bytes, head + 16);
}

static void receive_long(char *got)
{
    assert_int_equal(vbn_tag_recv(ctx, ep[ONE], got, 48, 4, VBN_TAG_MAX, &op[0]), VBN_PENDING);
}

/* What is kept for nobody is bounded within a message, too; the rest is asked for with it. */
static void too_long_and_early_comes_when_it_is_wanted(void **state)
{
    unsigned said;
    char got[48];

    (void)state;
    make_ready_and_quiet();
    part_of_long(ONE, 0);
    ctx->tags.early_bytes += ctx->opts.unexpected_limit;
    part_of_long(ONE, 1);
    part_of_long(ONE, 2);
    assert_int_equal(group->member[ONE].next, 1);
    said = words_to(ONE);
    receive_long(got);
    assert_told(ONE, VBN_CAST_ASK, 1);
    assert_int_equal(words_to(ONE), said + 1);
    part_of_long(ONE, 1); /* it has a place */
    part_of_long(ONE, 2);
    ctx->tags.early_bytes -= ctx->opts.unexpected_limit;
    assert_int_equal(op[0].status, VBN_OK);
    for (int i = 0; i < 48; i++)
        assert_int_equal(got[i], 1 + i / 16);
}

/* It is under way. */
static void early_and_not_too_long_is_not_asked_for(void **state)
{
    unsigned said;
    char got[48];

    (void)state;
    make_ready_and_quiet();
    part_of_long(ONE, 0);
    part_of_long(ONE, 1);
    said = words_to(ONE);
    receive_long(got);
    assert_int_equal(words_to(ONE), said);
    part_of_long(ONE, 2);
    assert_int_equal(op[0].status, VBN_OK);
}

/* What is wanted may come behind it. */
static void too_long_is_kept_where_another_is_wanted(void **state)
{
    uint64_t got;

    (void)state;
    make_ready_and_quiet();
    receive(ONE, &op[1], &got);
    ctx->tags.early_bytes += ctx->opts.unexpected_limit + 1;
    for (uint32_t i = 0; i < 3; i++)
        part_of_long(ONE, i);
    cast_of(ONE, 3, 3, 33);
    ctx->tags.early_bytes -= ctx->opts.unexpected_limit + 1;
    assert_int_equal(op[1].status, VBN_OK);
    assert_int_equal(got, 33);
}

/* --- what a member owes by its connection lies behind what it has sent there --------------------
 */

/* ONE sends what nobody has asked for. True: it is held, and so are its credits. */
static bool early_is_held(void)
{
    char bytes[64];

    ctx->tags.early_bytes += ctx->opts.unexpected_limit + 1;
    lone_tagged(conn[ONE], VBN_TAG_EAGER, bytes, eager(bytes, 9, 1));
    vbn_progress(ctx);
    ctx->tags.early_bytes -= ctx->opts.unexpected_limit + 1;
    return !STAILQ_EMPTY(&ep[ONE]->tag.held);
}

static void send_that_awaits_acknowledgements_takes_what_lies_before(void **state)
{
    (void)state;
    make_ready_and_quiet();
    for (uint32_t i = 0; i < group->window; i++)
        assert_int_equal(send_value(&op[i], &one), VBN_OK);
    all_left();
    assert_true(early_is_held());
    assert_int_equal(send_value(&op[group->window], &one), VBN_PENDING);
    assert_false(early_is_held());
    ctx->tags.early_bytes += ctx->opts.unexpected_limit + 1;
    cast_of(ONE, 0, 3, 10); /* nothing of that lies before */
    ctx->tags.early_bytes -= ctx->opts.unexpected_limit + 1;
    assert_int_equal(group->member[ONE].next, 0);
    word_of(ONE, VBN_CAST_ACK, group->window);
    assert_true(early_is_held()); /* TWO has to acknowledge now */
}

static void closing_awaits_acknowledgements(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    all_left();
    assert_true(early_is_held());
    vbn_group_close(group);
    assert_false(early_is_held());
}

static void receive_that_has_begun_awaits_repairs(void **state)
{
    char bytes[64];
    uint64_t got[4] = {0};

    (void)state;
    make_ready_and_quiet();
    assert_int_equal(vbn_tag_recv(ctx, ep[ONE], got, sizeof(got), 4, VBN_TAG_MAX, &op[0]),
                     VBN_PENDING);
    vbn_wire_tag_write(bytes, &(struct vbn_wire_tag){.tag = 4, .len = sizeof(got)});
    memset(bytes + 16, 1, 16);
    datagram_of(group->id, ONE, VBN_TAG_FIRST, 0, bytes, 32);
    assert_false(early_is_held());
    datagram_of(group->id, ONE, VBN_TAG_NEXT, 1, bytes + 16, 16);
    assert_int_equal(op[0].status, VBN_OK);
    assert_true(early_is_held());
}

/* A long one by the group, and one of the same sender by its connection between its parts. */
static void streams_do_not_mix(void **state)
{
    char bytes[64];
    uint64_t got[4] = {0}, other = 0;

    (void)state;
    make_ready_and_quiet();
    assert_int_equal(vbn_tag_recv(ctx, ep[ONE], got, sizeof(got), 4, VBN_TAG_MAX, &op[0]),
                     VBN_PENDING);
    receive(ONE, &op[1], &other);
    vbn_wire_tag_write(bytes, &(struct vbn_wire_tag){.tag = 4, .len = sizeof(got)});
    memset(bytes + 16, 1, 16);
    datagram_of(group->id, ONE, VBN_TAG_FIRST, 0, bytes, 32);
    lone_tagged(conn[ONE], VBN_TAG_EAGER, bytes, eager(bytes, 3, 55));
    assert_int_equal(op[1].status, VBN_OK);
    assert_int_equal(other, 55);
    memset(bytes, 2, 16);
    datagram_of(group->id, ONE, VBN_TAG_NEXT, 1, bytes, 16);
    assert_int_equal(op[0].status, VBN_OK);
    assert_int_equal(got[0], UINT64_C(0x0101010101010101));
    assert_int_equal(got[3], UINT64_C(0x0202020202020202));
    assert_int_equal(ep[ONE]->tag.taken, 1);
}

/* --- repairing ----------------------------------------------------------------------------------
 */

static void sends_again_who_asks(void **state)
{
    (void)state;
    make_ready_and_quiet();
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(send_value(&op[i], &(uint64_t){i}), VBN_OK);
    word_of(TWO, VBN_CAST_ASK, 1);
    lone_progress(ctx);
    assert_told(TWO, VBN_TAG_EAGER, 2);
    assert_int_equal(ctx->counters.cast_repairs, 2);
    assert_int_equal(group->member[TWO].acked, 1);
}

static void pokes_who_is_silent(void **state)
{
    unsigned said;

    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    all_left();
    word_of(ONE, VBN_CAST_ACK, 1);
    said = words_to(ONE);
    for (int i = 0; i < 5; i++)
        lone_pass(ctx, 11);
    assert_told(TWO, VBN_CAST_POKE, 1);
    assert_int_equal(words_to(ONE), said);
    word_of(TWO, VBN_CAST_ACK, 1);
    said = words_to(TWO);
    for (int i = 0; i < 50; i++)
        lone_pass(ctx, 11);
    assert_int_equal(words_to(TWO), said);
}

static void answers_pokes(void **state)
{
    (void)state;
    make_ready_and_quiet();
    word_of(ONE, VBN_CAST_POKE, 0);
    assert_told(ONE, VBN_CAST_ACK, 0);
    word_of(ONE, VBN_CAST_POKE, 2);
    assert_told(ONE, VBN_CAST_ASK, 0);
}

static void by_connections_when_it_fails(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    fake_recv_fails(group->qp, IBV_WC_LOC_QP_OP_ERR);
    lone_progress(ctx);
    assert_null(group->qp);
    assert_told(ONE, VBN_TAG_EAGER, 0);
    assert_told(TWO, VBN_TAG_EAGER, 0);
    assert_int_equal(send_value(&op[1], &(uint64_t){2}), VBN_OK);
    lone_progress(ctx);
    assert_told(ONE, VBN_TAG_EAGER, 1);
    assert_told(TWO, VBN_TAG_EAGER, 1);
    assert_int_equal(ctx->counters.cast_repairs, 4);
}

/* As when a subnet has got another manager. */
static void by_connections_when_it_is_joined_no_more(void **state)
{
    (void)state;
    make_ready_and_quiet();
    for (uint32_t i = 0; i <= group->window; i++)
        send_value(&op[i], &one);
    vbn_group_joined(group, NULL, ENETRESET);
    lone_progress(ctx);
    assert_null(group->qp);
    assert_true(ctx->counters.cast_repairs > 0);
    word_of(ONE, VBN_CAST_ACK, group->window);
    word_of(TWO, VBN_CAST_ACK, group->window);
    lone_progress(ctx);
    assert_int_equal(op[group->window].status, VBN_OK);
    vbn_group_joined(group, NULL, ENETRESET); /* nor is it with the next one */
    assert_int_equal(vbn_group_ready(group), VBN_OK);
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
}

static void goes_on_without_a_device_to_wait_for(void **state)
{
    uint32_t w = acknowledge_before_it_leaves();

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(send_value(&op[w + i], &one), VBN_PENDING);
    fake_recv_fails(group->qp, IBV_WC_LOC_QP_OP_ERR);
    lone_pass(ctx, 200);
    assert_null(group->qp);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(op[w + i].status, VBN_OK);
    word_of(ONE, VBN_CAST_ACK, w + 2);
    word_of(TWO, VBN_CAST_ACK, w + 2);
    assert_int_equal(ctx->counters.cast_repairs, 4);
    assert_int_equal(group->acked, w + 2);
}

static void by_connections_when_posting_fails(void **state)
{
    (void)state;
    make_ready_and_quiet();
    fake_fail(FAKE_POST_SEND, 1, ENOMEM);
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    lone_progress(ctx);
    assert_null(group->qp);
    assert_told(ONE, VBN_TAG_EAGER, 0);
    assert_told(TWO, VBN_TAG_EAGER, 0);
}

/* --- words that cannot be
 * ------------------------------------------------------------------------- */

static void assert_word_breaks(int from, uint8_t kind, uint32_t number)
{
    word_of(from, kind, number);
    lone_progress(ctx);
    assert_int_equal(ep[from]->state, VBN_EP_LOST);
}

static void acknowledged_what_was_not_sent(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_word_breaks(ONE, VBN_CAST_ACK, 1);
}

static void asked_for_what_was_acknowledged(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    word_of(ONE, VBN_CAST_ACK, 1);
    assert_word_breaks(ONE, VBN_CAST_ASK, 0);
}

static void hello_by_connection(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_word_breaks(ONE, VBN_CAST_HELLO, 0);
}

static void word_in_anothers_name(void **state)
{
    char bytes[sizeof(struct vbn_wire_cast)];
    struct vbn_wire_cast word = {.sender = TWO, .kind = VBN_CAST_POKE};

    (void)state;
    make_ready_and_quiet();
    word.group = group->id;
    vbn_wire_cast_write(bytes, &word);
    lone_tagged(conn[ONE], VBN_TAG_CAST, bytes, sizeof(bytes));
    lone_progress(ctx);
    assert_int_equal(ep[ONE]->state, VBN_EP_LOST);
}

/* --- ends ---------------------------------------------------------------------------------------
 */

static void lost_member_ends_sends(void **state)
{
    uint32_t w;

    (void)state;
    make_ready_and_quiet();
    w = group->window;
    for (uint32_t i = 0; i <= w; i++)
        send_value(&op[i], &one);
    assert_int_equal(op[w].status, VBN_PENDING);
    assert_word_breaks(ONE, VBN_CAST_HELLO, 0);
    assert_int_equal(op[w].status, VBN_ERR_PROTOCOL);
    assert_int_equal(send_value(&op[0], &one), VBN_ERR_PROTOCOL);
    word_of(TWO, VBN_CAST_ACK, w);
    assert_int_equal(group->acked, w);
}

/* op[0] is of so many bytes more than WINDOWS of them; its bytes. */
static char *begin_long(size_t windows)
{
    size_t len = (windows * group->window + 2) * (size_t)group->mtu;
    char *bytes = calloc(1, len);

    assert_int_equal(vbn_group_send(group, bytes, len, 3, &op[0]), VBN_PENDING);
    return bytes;
}

/* Who is left has its beginning. */
static void begun_goes_on_without_the_lost(void **state)
{
    char *bytes;

    (void)state;
    make_ready_and_quiet();
    bytes = begin_long(1);
    assert_int_equal(vbn_group_send(group, bytes, 8, 3, &op[1]), VBN_PENDING);
    all_left();
    assert_word_breaks(ONE, VBN_CAST_HELLO, 0);
    assert_int_equal(op[1].status, VBN_ERR_PROTOCOL);
    assert_int_equal(op[0].status, VBN_PENDING);
    word_of(TWO, VBN_CAST_ACK, group->window);
    lone_progress(ctx);
    assert_int_equal(op[0].status, VBN_ERR_PROTOCOL);
    assert_int_equal(cast_at(cast_count() - 1).kind, VBN_TAG_NEXT);
    free(bytes);
}

/* Nobody is left who has its beginning. */
static void begun_ends_with_the_last_of_them(void **state)
{
    char *bytes;

    (void)state;
    make_ready_and_quiet();
    bytes = begin_long(3);
    all_left();
    assert_word_breaks(ONE, VBN_CAST_HELLO, 0);
    assert_int_equal(op[0].status, VBN_PENDING);
    assert_word_breaks(TWO, VBN_CAST_HELLO, 0);
    assert_int_equal(op[0].status, VBN_ERR_PROTOCOL);
    vbn_group_close(group);
    lone_pass(ctx, 20);
    assert_true(LIST_EMPTY(&ctx->groups));
    free(bytes);
}

/* Nothing leaves, and nobody acknowledges anything: what has begun ends with its context, too. */
static void ends_with_the_context(void **state)
{
    char *bytes;

    (void)state;
    make_ready_and_quiet();
    bytes = begin_long(1);
    assert_int_equal(send_value(&op[1], &one), VBN_PENDING);
    vbn_close(ctx);
    assert_int_equal(op[0].status, VBN_ERR_CLOSED);
    assert_int_equal(op[1].status, VBN_ERR_CLOSED);
    free(bytes);
    ctx = lone_open(NULL);
}

static void closes_when_all_has_come(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    all_left();
    vbn_group_close(group);
    lone_pass(ctx, 20);
    assert_false(LIST_EMPTY(&ctx->groups));
    word_of(ONE, VBN_CAST_ACK, 1);
    word_of(TWO, VBN_CAST_ACK, 1);
    lone_pass(ctx, 20);
    assert_true(LIST_EMPTY(&ctx->groups));
}

/* ONE asks about a group that is closed here. */
static void poked_for_closed(uint64_t id)
{
    struct vbn_wire_cast word = {.group = id, .number = 6, .sender = ONE, .kind = VBN_CAST_POKE};
    char bytes[sizeof(word)];

    assert_true(LIST_EMPTY(&ctx->groups));
    vbn_wire_cast_write(bytes, &word);
    lone_tagged(conn[ONE], VBN_TAG_CAST, bytes, sizeof(bytes));
}

static void answers_for_a_closed_one(void **state)
{
    struct vbn_wire_hdr hdr;
    struct vbn_wire_cast word = {0};
    const struct fake_send *send;
    uint64_t id;

    (void)state;
    make_ready_and_quiet();
    id = group->id;
    vbn_group_close(group);
    lone_pass(ctx, 20);
    poked_for_closed(id);
    send = lone_send_at(conn[ONE], lone_sent(conn[ONE]) - 1, &hdr);
    assert_true(vbn_wire_cast_read(send->bytes + sizeof(hdr), hdr.len, &word));
    assert_int_equal(word.kind, VBN_CAST_ACK);
    assert_int_equal(word.number, 6);
    assert_int_equal(word.sender, ONE);
}

static void answers_no_more_after_the_farewell(void **state)
{
    unsigned said;
    uint64_t id;

    (void)state;
    make_ready_and_quiet();
    id = group->id;
    vbn_group_close(group);
    lone_pass(ctx, 20);
    vbn_endpoint_close(ep[ONE]);
    assert_true(lone_said_bye(conn[ONE]));
    said = lone_sent(conn[ONE]);
    poked_for_closed(id);
    lone_progress(ctx);
    assert_int_equal(lone_sent(conn[ONE]), said);
}

/* ONE has closed its group, and answers a poke. */
static void answered_for_closed(uint32_t number)
{
    char bytes[sizeof(struct vbn_wire_cast)];
    struct vbn_wire_cast word = {
        .group = group->id, .number = number, .sender = ME, .kind = VBN_CAST_ACK};

    vbn_wire_cast_write(bytes, &word);
    lone_tagged(conn[ONE], VBN_TAG_CAST, bytes, sizeof(bytes));
}

static void acknowledged_for_closed(void **state)
{
    (void)state;
    make_ready_and_quiet();
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    answered_for_closed(1);
    assert_int_equal(group->member[ONE].acked, 1);
    assert_int_equal(group->member[TWO].acked, 0);
}

/* It had told more before it closed, and the poke had been under way for long. */
static void acknowledged_for_closed_late(void **state)
{
    (void)state;
    make_ready_and_quiet();
    for (int i = 0; i < 2; i++)
        assert_int_equal(send_value(&op[i], &one), VBN_OK);
    word_of(ONE, VBN_CAST_ACK, 2);
    answered_for_closed(1);
    assert_int_equal(group->member[ONE].acked, 2);
    assert_int_equal(ep[ONE]->state, VBN_EP_OPEN);
}

/* ONE has not closed the older yet, nor heard that it is closed here. */
static void opened_again_it_is_another(void **state)
{
    uint64_t older;

    (void)state;
    make_ready_and_quiet();
    older = group->id;
    assert_int_equal(send_value(&op[0], &one), VBN_OK);
    vbn_group_close(group);
    group = open_group();
    assert_int_not_equal(group->id, older);
    LIST_FOREACH(group, &ctx->groups, entry)
    {
        if (group->id == older)
            break;
    }
    assert_non_null(group); /* it is acknowledged, not the new one */
    word_of(ONE, VBN_CAST_ACK, 1);
    assert_int_equal(group->member[ONE].acked, 1);
    assert_int_equal(ep[ONE]->state, VBN_EP_OPEN);
    for (unsigned failures = 0; failures < 2; failures++) { /* the group's memory, its name's */
        vbn_peer_t *peers[2] = {NULL, (vbn_peer_t *)ep[ONE]};
        struct vbn_error err;

        unit_fail_alloc(failures + 1);
        assert_int_equal(vbn_group_open(ctx, 6, peers, 2, ME, &group, &err), VBN_ERR_NO_MEMORY);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ready_when_all_are_heard),
        TEST(says_hello_until_heard),
        TEST(says_hello_to_who_waits),
        TEST(others_are_passed_over),
        TEST(cannot_join),
        TEST(fails_before_all_are_heard),
        TEST(address_not_joined),
        TEST(opened_with_one_who_is_lost),
        TEST(more_completions_than_a_queue_has),
        TEST(over_at_once_and_kept),
        TEST(long_ones_in_parts),
        TEST(no_more_than_the_window),
        TEST(numbers_begin_anew),
        TEST(not_before_it_has_left),
        TEST(taken_in_their_order),
        TEST(asks_once),
        TEST(acknowledges_half_a_window),
        TEST(acknowledges_what_is_old),
        TEST(too_early_comes_again),
        TEST(too_long_and_early_comes_when_it_is_wanted),
        TEST(early_and_not_too_long_is_not_asked_for),
        TEST(too_long_is_kept_where_another_is_wanted),
        TEST(send_that_awaits_acknowledgements_takes_what_lies_before),
        TEST(closing_awaits_acknowledgements),
        TEST(receive_that_has_begun_awaits_repairs),
        TEST(streams_do_not_mix),
        TEST(sends_again_who_asks),
        TEST(pokes_who_is_silent),
        TEST(answers_pokes),
        TEST(by_connections_when_it_fails),
        TEST(by_connections_when_it_is_joined_no_more),
        TEST(goes_on_without_a_device_to_wait_for),
        TEST(by_connections_when_posting_fails),
        TEST(acknowledged_what_was_not_sent),
        TEST(asked_for_what_was_acknowledged),
        TEST(hello_by_connection),
        TEST(word_in_anothers_name),
        TEST(lost_member_ends_sends),
        TEST(begun_goes_on_without_the_lost),
        TEST(begun_ends_with_the_last_of_them),
        TEST(ends_with_the_context),
        TEST(closes_when_all_has_come),
        TEST(answers_for_a_closed_one),
        TEST(answers_no_more_after_the_farewell),
        TEST(acknowledged_for_closed),
        TEST(acknowledged_for_closed_late),
        TEST(opened_again_it_is_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
