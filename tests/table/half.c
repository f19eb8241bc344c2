/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of two halves, which need no connection manager: on a transport that has them. They
 * carry the same as others (the whole suite runs so with --halves); here is how they begin and end.
 */
#include "ends.h"

#define RANK_C 77
#define STRAY  1000 /* a tag that nothing else has */

/* --- making them ------------------------------------------------------------------------------ */

static bool has_halves(void)
{
    bool all = VBN_TRANSPORT_HAS(tr, half_create) && VBN_TRANSPORT_HAS(tr, half_join) &&
               VBN_TRANSPORT_HAS(tr, half_destroy);

    assert_true(all || (!VBN_TRANSPORT_HAS(tr, half_create) && !VBN_TRANSPORT_HAS(tr, half_join) &&
                        !VBN_TRANSPORT_HAS(tr, half_destroy)));
    return all;
}

/* On iWARP there are none: said in words, and there is nothing to test then. */
static bool can_join(void)
{
    unsigned char blob[BLOB_MAX];
    size_t len = sizeof(blob);
    struct vbn_error err;
    vbn_half_t *half;

    if (!has_halves())
        return false;
    if (tr->half_create(a.port, blob, &len, &half, &err) != VBN_OK) {
        assert_int_equal(err.status, VBN_ERR_DEVICE);
        assert_non_null(strstr(err.text, "iWARP"));
        return false;
    }
    tr->half_destroy(half);
    return true;
}

static int join(vbn_half_t *half, const void *blob, size_t len, struct end *end)
{
    struct vbn_error err = {0};
    int status = tr->half_join(half, blob, len, end, &end->peer, &err);

    if (status) {
        assert_int_equal(err.status, status);
        assert_true(strlen(err.text) > 0);
    }
    return status;
}

/* One message of LEN bytes. */
static void say(struct end *from, struct end *to, size_t len, unsigned seed)
{
    unsigned char *out = allocate(len), *in = allocate(len);
    struct vbn_op send, recv;

    fill(out, len, seed);
    post_recv(to, to->peer, in, len, seed, VBN_TAG_MAX, &recv);
    post_send(from, out, len, seed, &send);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_ptr_equal(recv.peer, to->peer);
    assert_int_equal(recv.len, len);
    assert_filled(in, len, seed);
    free(out);
    free(in);
}

static void talk(void)
{
    static const size_t lengths[] = {0, 1, 100, 4000, 70000, 3000000};

    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        say(&a, &b, lengths[i], 2 * i);
        say(&b, &a, lengths[i], 2 * i + 1);
    }
    assert_int_equal(a.peer_errors + b.peer_errors, 0);
}

/* --- beginning -------------------------------------------------------------------------------- */

static void halves_talk(void **state)
{
    (void)state;
    if (!can_join())
        return;
    ends_join();
    assert_ptr_equal(tr->peer_user(a.peer), &a);
    talk();
}

/* What is sent before the other side has joined arrives when it has. */
static void first_words_wait_for_the_other_half(void **state)
{
    unsigned char of_a[BLOB_MAX], of_b[BLOB_MAX], in = 0;
    size_t len_a, len_b;
    vbn_half_t *half_a, *half_b;
    struct vbn_op send, recv;

    (void)state;
    if (!can_join())
        return;
    half_a = half_of(&a, of_a, &len_a);
    half_b = half_of(&b, of_b, &len_b);
    assert_int_equal(join(half_a, of_b, len_b, &a), VBN_OK);
    post_send(&a, "x", 1, 5, &send);
    linger();
    assert_int_equal(join(half_b, of_a, len_a, &b), VBN_OK);
    post_recv(&b, b.peer, &in, 1, 5, VBN_TAG_MAX, &recv);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(in, 'x');
    assert_int_equal(finish(&send), VBN_OK);
    talk();
}

/* Who joins is the one whom its address names. */
static void address_finds_the_joined_peer(void **state)
{
    vbn_peer_t *joined;

    (void)state;
    if (!can_join())
        return;
    ends_join();
    joined = a.peer;
    introduce(&a, &b);
    assert_ptr_equal(a.peer, joined);
    talk();
}

/* A peer known by its address, not connected yet: what waits is sent by the halves. */
static void half_joins_a_known_peer(void **state)
{
    vbn_peer_t *known;

    (void)state;
    if (!can_join())
        return;
    introduce(&a, &b);
    known = a.peer;
    ends_join();
    assert_ptr_equal(a.peer, known);
    talk();
}

/* --- what is refused -------------------------------------------------------------------------- */

/* The blob with another VALUE at a place is refused with STATUS, and nothing comes of it. */
static void refuse_changed(vbn_half_t *half, const unsigned char *blob, size_t len, size_t at,
                           unsigned char value, int status)
{
    unsigned char bad[BLOB_MAX];

    memcpy(bad, blob, len);
    bad[at] = value;
    assert_int_equal(join(half, bad, len, &a), status);
    assert_null(a.peer);
}

/* Each in its turn; after all of them the right blob still joins. Places are those of doc/wire.md.
 */
static void bad_blobs_are_refused(void **state)
{
    unsigned char of_a[BLOB_MAX], of_b[BLOB_MAX], address[BLOB_MAX];
    size_t len_a, len_b, len = sizeof(address);
    vbn_half_t *half_a, *half_b;

    (void)state;
    if (!can_join())
        return;
    half_a = half_of(&a, of_a, &len_a);
    half_b = half_of(&b, of_b, &len_b);
    assert_int_equal(tr->address(b.port, address, &len), VBN_OK);
    assert_int_equal(join(half_a, address, len, &a), VBN_ERR_INVALID);
    assert_int_equal(join(half_a, of_b, len_b - 1, &a), VBN_ERR_INVALID);
    assert_int_equal(join(half_a, of_b, 0, &a), VBN_ERR_INVALID);
    assert_int_equal(join(half_a, of_a, len_a, &a), VBN_ERR_INVALID); /* its own */
    if (strcmp(tr->name, "rc") == 0) {
        refuse_changed(half_a, of_b, len_b, 0, 'X', VBN_ERR_INVALID);       /* magic */
        refuse_changed(half_a, of_b, len_b, 4, 9, VBN_ERR_INVALID);         /* link: unknown */
        refuse_changed(half_a, of_b, len_b, 5, 6, VBN_ERR_INVALID);         /* MTU */
        refuse_changed(half_a, of_b, len_b, 8, 'X', VBN_ERR_INVALID);       /* hello's magic */
        refuse_changed(half_a, of_b, len_b, 8 + 5, 0, VBN_ERR_INVALID);     /* no version */
        refuse_changed(half_a, of_b, len_b, 8 + 24, 0xee, VBN_ERR_REFUSED); /* job's key */
        refuse_changed(half_a, of_b, len_b, 8 + 36, 0xee, VBN_ERR_REFUSED); /* rx_next */
        refuse_changed(half_a, of_b, len_b, 8 + 41, 0x55, VBN_ERR_REFUSED); /* buffer size */
        refuse_changed(half_a, of_b, len_b, 8 + 45, 0xff, VBN_ERR_INVALID); /* credits */
        refuse_changed(half_a, of_b, len_b, 67, 1, VBN_ERR_INVALID);        /* QP: 24 bits */
        refuse_changed(half_a, of_b, len_b, 71, 1, VBN_ERR_INVALID);        /* PSN: 24 bits */
    }
    assert_int_equal(join(half_a, of_b, len_b, &a), VBN_OK);
    assert_int_equal(join(half_b, of_a, len_a, &b), VBN_OK);
    talk();
}

static void bad_arguments_of_halves(void **state)
{
    unsigned char blob[BLOB_MAX];
    size_t len = 1;
    vbn_half_t *half = NULL;
    struct vbn_error err;
    vbn_peer_t *peer;

    (void)state;
    if (!can_join())
        return;
    assert_int_equal(tr->half_create(a.port, blob, &len, &half, &err), VBN_ERR_INVALID);
    assert_null(half);
    assert_in_range(len, 2, a.attr.max_address);
    assert_int_equal(tr->half_create(NULL, blob, &len, &half, &err), VBN_ERR_INVALID);
    assert_int_equal(tr->half_create(a.port, NULL, &len, &half, &err), VBN_ERR_INVALID);
    assert_int_equal(tr->half_create(a.port, blob, &len, NULL, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->half_create(a.port, blob, &len, &half, &err), VBN_OK);
    assert_int_equal(tr->half_join(NULL, blob, len, NULL, &peer, &err), VBN_ERR_INVALID);
    assert_int_equal(tr->half_join(half, NULL, len, NULL, &peer, &err), VBN_ERR_INVALID);
    assert_int_equal(tr->half_join(half, blob, len, NULL, NULL, NULL), VBN_ERR_INVALID);
    tr->half_destroy(half);
    tr->half_destroy(NULL);
}

static void halves_of_other_jobs_are_refused(void **state)
{
    struct vbn_port_config config = {.size = sizeof(config), .rank = RANK_C, .job_key = 43};
    unsigned char of_a[BLOB_MAX], of_c[BLOB_MAX];
    size_t len_a, len_c;
    struct end c = {.port = NULL};
    vbn_half_t *half_a, *half_c;

    (void)state;
    if (!can_join())
        return;
    world_open(&config, &tr, &c.port);
    c.attr = a.attr;
    half_a = half_of(&a, of_a, &len_a);
    half_c = half_of(&c, of_c, &len_c);
    assert_int_equal(join(half_a, of_c, len_c, &a), VBN_ERR_REFUSED);
    assert_int_equal(join(half_c, of_a, len_a, &c), VBN_ERR_REFUSED);
    tr->half_destroy(half_a);
    tr->half_destroy(half_c);
    tr->close(c.port);
}

/* Two halves with one peer: one connection is enough, and the second changes nothing. */
static void connected_peers_do_not_join_again(void **state)
{
    unsigned char of_a[2][BLOB_MAX], of_b[2][BLOB_MAX];
    size_t len_a[2], len_b[2];
    vbn_half_t *half_a[2], *half_b[2];
    vbn_peer_t *peer;

    (void)state;
    if (!can_join())
        return;
    for (int i = 0; i < 2; i++) {
        half_a[i] = half_of(&a, of_a[i], &len_a[i]);
        half_b[i] = half_of(&b, of_b[i], &len_b[i]);
    }
    assert_int_equal(join(half_a[0], of_b[0], len_b[0], &a), VBN_OK);
    assert_int_equal(join(half_b[0], of_a[0], len_a[0], &b), VBN_OK);
    peer = a.peer;
    assert_int_equal(join(half_a[1], of_b[0], len_b[0], &a), VBN_ERR_INVALID); /* used twice */
    assert_int_equal(join(half_a[1], of_b[1], len_b[1], &a), VBN_ERR_INVALID);
    assert_int_equal(join(half_b[1], of_a[1], len_a[1], &b), VBN_ERR_INVALID);
    assert_ptr_equal(a.peer, peer);
    talk();
    tr->half_destroy(half_a[1]);
    tr->half_destroy(half_b[1]);
    talk();
}

static void drop_log(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg, (void)level, (void)text;
}

/* Of two that have the same blob one finds the other side taken; those that agree are not hurt. */
static void blob_serves_one_peer(void **state)
{
    struct vbn_port_config config = {
        .size = sizeof(config), .rank = RANK_C, .job_key = 42, .log = drop_log};
    unsigned char of_a[BLOB_MAX], of_b[BLOB_MAX], of_c[BLOB_MAX], in;
    size_t len_a, len_b, len_c;
    struct end c = {.port = NULL};
    vbn_half_t *half_a, *half_b, *half_c;
    struct vbn_op stray, any;

    (void)state;
    if (!can_join())
        return;
    world_open(&config, &tr, &c.port);
    c.attr = a.attr;
    half_a = half_of(&a, of_a, &len_a);
    half_b = half_of(&b, of_b, &len_b);
    half_c = half_of(&c, of_c, &len_c);
    assert_int_equal(join(half_a, of_b, len_b, &a), VBN_OK);
    assert_int_equal(join(half_b, of_a, len_a, &b), VBN_OK);
    assert_int_equal(join(half_c, of_a, len_a, &c), VBN_OK);
    post_recv(&a, NULL, &in, 1, STRAY, VBN_TAG_MAX, &any);
    post_send(&c, "x", 1, STRAY, &stray);
    talk();
    assert_int_equal(any.status, VBN_PENDING);
    assert_int_equal(tr->cancel(a.port, &any), VBN_OK);
    assert_int_equal(finish(&any), VBN_ERR_CANCELED);
    tr->close(c.port); /* it cannot deliver what it has: bounded all the same */
}

/* --- connecting by address meanwhile -----------------------------------------------------------
 */

/* A connection by address comes first: halves are refused, on both sides, and it goes on. */
static void address_comes_first(void **state)
{
    unsigned char of_a[BLOB_MAX], of_b[BLOB_MAX], in;
    size_t len_a, len_b;
    vbn_half_t *half_a, *half_b;
    struct vbn_op send, recv;
    int status;

    (void)state;
    if (!can_join())
        return;
    half_a = half_of(&a, of_a, &len_a);
    half_b = half_of(&b, of_b, &len_b);
    introduce(&a, &b);
    post_recv(&b, NULL, &in, 1, 5, VBN_TAG_MAX, &recv);
    post_send(&a, "x", 1, 5, &send);
    status = join(half_a, of_b, len_b, &a); /* the attempt is under way */
    assert_int_equal(status, VBN_ERR_AGAIN);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_int_equal(join(half_a, of_b, len_b, &a), VBN_ERR_INVALID);
    assert_int_equal(join(half_b, of_a, len_a, &b), VBN_ERR_INVALID);
    tr->half_destroy(half_a);
    tr->half_destroy(half_b);
    introduce(&b, &a);
    talk();
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Halves that nobody joins end by themselves, or with their port. */
static void unjoined_halves_end(void **state)
{
    enum { COUNT = 20 };
    unsigned char blob[BLOB_MAX], of_a[BLOB_MAX];
    size_t len, len_a;
    vbn_half_t *half[COUNT];

    (void)state;
    if (!can_join())
        return;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            half[i] = half_of(&a, blob, &len);
        for (int i = 0; i < COUNT; i++)
            tr->half_destroy(half[i]);
        linger();
    }
    half[0] = half_of(&a, of_a, &len_a);
    half[1] = half_of(&b, blob, &len);
    while (tr->shutdown(a.port))
        step();
    assert_int_equal(join(half[0], blob, len, &a), VBN_ERR_CLOSED); /* it went with the port */
    tr->half_destroy(half[0]);
    len = sizeof(blob);
    assert_int_equal(tr->half_create(a.port, blob, &len, &half[0], NULL), VBN_ERR_CLOSED);
    tr->half_destroy(half[1]);
    half_of(&b, blob, &len); /* is freed with its port */
}

/* What was sent before disconnect() is delivered, and the peer hears of the end; from SELF. */
static void close_first(struct end *self, struct end *other)
{
    struct vbn_op send[20], recv[20], late;
    int out[20], in[20];

    ends_join();
    for (int i = 0; i < 20; i++) {
        out[i] = i;
        post_send(self, &out[i], sizeof(int), 1, &send[i]);
    }
    tr->disconnect(self->peer);
    self->peer = NULL;
    for (int i = 0; i < 20; i++) {
        post_recv(other, other->peer, &in[i], sizeof(int), 1, VBN_TAG_MAX, &recv[i]);
        assert_int_equal(finish(&recv[i]), VBN_OK);
        assert_int_equal(in[i], i);
        assert_int_equal(finish(&send[i]), VBN_OK);
    }
    post_recv(other, other->peer, &in[0], sizeof(int), 1, VBN_TAG_MAX, &late);
    assert_int_equal(finish(&late), VBN_ERR_CLOSED);
    tr->disconnect(other->peer);
    other->peer = NULL;
    assert_int_equal(a.peer_errors + b.peer_errors, 0);
}

static void either_side_may_close(void **state)
{
    (void)state;
    if (!can_join())
        return;
    close_first(&a, &b);
    linger();
    close_first(&b, &a); /* the same two again */
}

static void both_close_at_once(void **state)
{
    (void)state;
    if (!can_join())
        return;
    for (int round = 0; round < 20; round++) {
        ends_join();
        if (round % 2)
            say(&a, &b, 100, 1);
        tr->disconnect(a.peer);
        tr->disconnect(b.peer);
        a.peer = b.peer = NULL;
        linger();
    }
    assert_int_equal(a.peer_errors + b.peer_errors, 0);
}

/* It is told at once, although only one side has ever joined. */
static void close_before_the_peer_joins(void **state)
{
    unsigned char of_a[BLOB_MAX], of_b[BLOB_MAX], in;
    size_t len_a, len_b;
    vbn_half_t *half_a, *half_b;
    struct vbn_op send, recv, late;

    (void)state;
    if (!can_join())
        return;
    half_a = half_of(&a, of_a, &len_a);
    half_b = half_of(&b, of_b, &len_b);
    assert_int_equal(join(half_a, of_b, len_b, &a), VBN_OK);
    post_send(&a, "x", 1, 5, &send);
    tr->disconnect(a.peer);
    a.peer = NULL;
    linger();
    assert_int_equal(join(half_b, of_a, len_a, &b), VBN_OK);
    post_recv(&b, b.peer, &in, 1, 5, VBN_TAG_MAX, &recv);
    assert_int_equal(finish(&recv), VBN_OK);
    post_recv(&b, b.peer, &in, 1, 5, VBN_TAG_MAX, &late);
    assert_int_equal(finish(&late), VBN_ERR_CLOSED);
    assert_int_equal(a.peer_errors + b.peer_errors, 0);
}

#define HALF_TEST(name) cmocka_unit_test_setup_teardown(name, ends_open_strangers, ends_close)

const struct CMUnitTest half_tests[] = {
    HALF_TEST(halves_talk),
    HALF_TEST(first_words_wait_for_the_other_half),
    HALF_TEST(address_finds_the_joined_peer),
    HALF_TEST(half_joins_a_known_peer),
    HALF_TEST(bad_blobs_are_refused),
    HALF_TEST(bad_arguments_of_halves),
    HALF_TEST(halves_of_other_jobs_are_refused),
    HALF_TEST(connected_peers_do_not_join_again),
    HALF_TEST(blob_serves_one_peer),
    HALF_TEST(address_comes_first),
    HALF_TEST(unjoined_halves_end),
    HALF_TEST(either_side_may_close),
    HALF_TEST(both_close_at_once),
    HALF_TEST(close_before_the_peer_joins),
};
const size_t half_test_count = sizeof(half_tests) / sizeof(half_tests[0]);
