/* SPDX-License-Identifier: BSD-3-Clause */
/* Tagged messages: matching, order, lengths, probing, cancelling. */
#include "ends.h"

static void one_message(struct end *from, struct end *to, size_t len, bool recv_first)
{
    unsigned char *out = allocate(len), *in = allocate(len);
    struct vbn_op send, recv;

    fill(out, len, (unsigned)len);
    memset(in, 0, len);
    if (recv_first) {
        post_recv(to, to->peer, in, len, 7, VBN_TAG_MAX, &recv);
        linger();
    }
    post_send(from, out, len, 7, &send);
    if (!recv_first) {
        linger();
        post_recv(to, to->peer, in, len, 7, VBN_TAG_MAX, &recv);
    }
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_int_equal(recv.len, len);
    assert_int_equal(recv.tag, 7);
    assert_ptr_equal(recv.peer, to->peer);
    assert_filled(in, len, (unsigned)len);
    free(out);
    free(in);
}

static void all_lengths(void **state)
{
    static const size_t fixed[] = {0, 1, 7, 8, 64, 1000, 4096, 65536, 65537, 1 << 20, 5000001};
    size_t eager = a.attr.eager_limit;

    (void)state;
    assert_true(a.attr.max_send >= 5000001);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        one_message(&a, &b, fixed[i], true);
        one_message(&a, &b, fixed[i], false);
        one_message(&b, &a, fixed[i], true);
    }
    for (size_t len = eager - 1; len <= eager + 1; len++) {
        one_message(&a, &b, len, true);
        one_message(&a, &b, len, false);
    }
}

static void no_buffer_for_no_bytes(void **state)
{
    struct vbn_op send, recv;

    (void)state;
    post_send(&a, NULL, 0, 1, &send);
    post_recv(&b, b.peer, NULL, 0, 1, VBN_TAG_MAX, &recv);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(recv.len, 0);
    assert_int_equal(finish(&send), VBN_OK);
}

/* Up to eager_limit a send is over although nobody receives. */
static void eager_needs_no_receiver(void **state)
{
    size_t len = a.attr.eager_limit;
    unsigned char *out = allocate(len), *in = allocate(len);
    struct vbn_op send, recv;

    (void)state;
    fill(out, len, 3);
    post_send(&a, out, len, 1, &send);
    assert_int_equal(finish(&send), VBN_OK);
    memset(out, 0, len);
    post_recv(&b, b.peer, in, len, 1, VBN_TAG_MAX, &recv);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_filled(in, len, 3);
    free(out);
    free(in);
}

static void step_alone(struct end *end)
{
    tr->progress(end->port);
    world_idle();
}

/* Steps of END alone until OP is over. */
static int finish_alone(struct end *end, struct vbn_op *op)
{
    for (int i = 0; i < 200000 && op->status == VBN_PENDING; i++)
        step_alone(end);
    return op->status;
}

/* A rank whose send is over may wait for something else, and make no progress. */
static void what_is_over_needs_no_sender(void **state)
{
    struct vbn_op send, recv;
    int out = 17, in = 0;

    (void)state;
    post_recv(&b, b.peer, &in, sizeof(in), 1, VBN_TAG_MAX, &recv);
    post_send(&a, &out, sizeof(out), 1, &send);
    assert_int_equal(finish(&send), VBN_OK);
    assert_int_equal(finish_alone(&b, &recv), VBN_OK);
    assert_int_equal(in, 17);
}

/* The same of one who has received: the sender must learn of it, although more is on its way back
 * than the sender can take. (By UCX a receive may be over before that.) */
static void what_is_over_needs_no_receiver(void **state)
{
    enum { BACK = 2000 };
    static struct vbn_op back[BACK], took[BACK];
    size_t len = a.attr.eager_limit + 100000;
    unsigned char *out = allocate(len), *in = allocate(len);
    static int words[BACK], got[BACK];
    struct vbn_op send, recv;

    (void)state;
    one_message(&a, &b, 8, true);
    fill(out, len, 5);
    post_send(&a, out, len, 1, &send);
    linger();
    for (int i = 0; i < BACK; i++)
        post_send(&b, &words[i], sizeof(words[i]), 2, &back[i]);
    post_recv(&b, b.peer, in, len, 1, VBN_TAG_MAX, &recv);
    for (int i = 0; i < 1000; i++)
        step_alone(&b);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_filled(in, len, 5);
    assert_int_equal(strcmp(tr->name, "rc") ? finish(&send) : finish_alone(&a, &send), VBN_OK);
    for (int i = 0; i < BACK; i++)
        post_recv(&a, a.peer, &got[i], sizeof(got[i]), 2, VBN_TAG_MAX, &took[i]);
    for (int i = 0; i < BACK; i++) {
        assert_int_equal(finish(&took[i]), VBN_OK);
        assert_int_equal(finish(&back[i]), VBN_OK);
    }
    free(out);
    free(in);
}

enum { MANY = 500 };

/* Short and long ones mixed: they are matched in the order in which they were sent. */
static void same_tag_keeps_order(void **state)
{
    size_t long_len = a.attr.eager_limit + 1000;
    unsigned char *out = allocate(MANY * long_len), *in = allocate(MANY * long_len);
    static struct vbn_op send[MANY], recv[MANY];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        size_t len = i % 7 == 3 ? long_len : 1 + i % 100;

        fill(out + i * long_len, len, i);
        post_send(&a, out + i * long_len, len, 9, &send[i]);
        if (i % 3 == 0)
            step();
    }
    for (unsigned i = 0; i < MANY; i++)
        post_recv(&b, b.peer, in + i * long_len, long_len, 9, VBN_TAG_MAX, &recv[i]);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(finish(&recv[i]), VBN_OK);
        assert_int_equal(finish(&send[i]), VBN_OK);
        assert_int_equal(recv[i].len, i % 7 == 3 ? long_len : 1 + i % 100);
        assert_filled(in + i * long_len, recv[i].len, i);
    }
    free(out);
    free(in);
}

/* Receives were posted first, in another order of their tags. */
static void tags_find_their_receives(void **state)
{
    static struct vbn_op send[MANY], recv[MANY];
    static unsigned out[MANY], in[MANY];

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        post_recv(&b, b.peer, &in[i], sizeof(in[i]), VBN_TAG_MAX - i, VBN_TAG_MAX, &recv[i]);
    for (unsigned i = 0; i < MANY; i++) {
        unsigned tag = (i * 7 + 3) % MANY;

        out[i] = tag;
        post_send(&a, &out[i], sizeof(out[i]), VBN_TAG_MAX - tag, &send[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(finish(&recv[i]), VBN_OK);
        assert_int_equal(finish(&send[i]), VBN_OK);
        assert_int_equal(in[i], i);
        assert_true(recv[i].tag == VBN_TAG_MAX - i);
    }
}

/* Both sides flood each other with long and short ones at once. */
static void both_ways_at_once(void **state)
{
    enum { COUNT = 64, LEN = 100000 };
    static struct vbn_op ops[4][COUNT];
    unsigned char *mem = allocate((size_t)4 * COUNT * LEN);

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        size_t len = i % 2 ? LEN : 200;
        unsigned char *at = mem + (size_t)4 * i * LEN;

        fill(at, len, i);
        fill(at + LEN, len, i + 1);
        post_recv(&a, a.peer, at + 2 * LEN, LEN, i, VBN_TAG_MAX, &ops[2][i]);
        post_recv(&b, b.peer, at + 3 * LEN, LEN, i, VBN_TAG_MAX, &ops[3][i]);
        post_send(&a, at, len, i, &ops[0][i]);
        post_send(&b, at + LEN, len, i, &ops[1][i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned char *at = mem + (size_t)4 * i * LEN;

        for (int k = 0; k < 4; k++)
            assert_int_equal(finish(&ops[k][i]), VBN_OK);
        assert_filled(at + 2 * LEN, i % 2 ? LEN : 200, i + 1);
        assert_filled(at + 3 * LEN, i % 2 ? LEN : 200, i);
    }
    free(mem);
}

/* --- wildcards -------------------------------------------------------------------------------- */

static void anybody_may_send(void **state)
{
    struct vbn_op send, recv;
    int in = 0, out = 11;

    (void)state;
    post_recv(&b, NULL, &in, sizeof(in), 5, VBN_TAG_MAX, &recv);
    post_send(&a, &out, sizeof(out), 5, &send);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_ptr_equal(recv.peer, b.peer);
    assert_int_equal(in, 11);
    assert_int_equal(finish(&send), VBN_OK);
}

static void masks_leave_bits_out(void **state)
{
    struct vbn_op send[3], recv[3];
    int in[3] = {0}, out[3] = {1, 2, 3};

    (void)state;
    post_recv(&b, b.peer, &in[0], sizeof(int), UINT64_C(0x8000000011), UINT64_C(0x80000000f0),
              &recv[0]);
    post_recv(&b, NULL, &in[1], sizeof(int), 0, 0, &recv[1]);
    post_send(&a, &out[0], sizeof(int), 0x12, &send[0]);                   /* only the second */
    post_send(&a, &out[1], sizeof(int), UINT64_C(0x8765432119), &send[1]); /* only the first */
    post_send(&a, &out[2], sizeof(int), 0x33, &send[2]);
    assert_int_equal(finish(&recv[0]), VBN_OK);
    assert_int_equal(finish(&recv[1]), VBN_OK);
    assert_int_equal(in[0], 2);
    assert_true(recv[0].tag == UINT64_C(0x8765432119));
    assert_int_equal(in[1], 1);
    assert_int_equal(recv[1].tag, 0x12);
    post_recv(&b, b.peer, &in[2], sizeof(int), VBN_TAG_MAX, 1, &recv[2]);
    assert_int_equal(finish(&recv[2]), VBN_OK);
    assert_int_equal(in[2], 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(finish(&send[i]), VBN_OK);
}

/* The first receive that fits takes it, also where a later one names it more closely. */
static void first_receive_wins(void **state)
{
    struct vbn_op send[2], recv[2];
    int in[2] = {0}, out[2] = {1, 2};

    (void)state;
    post_recv(&b, NULL, &in[0], sizeof(int), 0, 0, &recv[0]);
    post_recv(&b, b.peer, &in[1], sizeof(int), 4, VBN_TAG_MAX, &recv[1]);
    post_send(&a, &out[0], sizeof(int), 4, &send[0]);
    post_send(&a, &out[1], sizeof(int), 4, &send[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(finish(&recv[i]), VBN_OK);
        assert_int_equal(finish(&send[i]), VBN_OK);
        assert_int_equal(in[i], i + 1);
    }
}

/* --- truncation ------------------------------------------------------------------------------- */

static void too_long(size_t len, size_t room, bool recv_first)
{
    unsigned char *out = allocate(len), *in = allocate(room + 64);
    struct vbn_op send, recv;

    fill(out, len, 1);
    memset(in, 0x5a, room + 64);
    if (recv_first)
        post_recv(&b, b.peer, in, room, 2, VBN_TAG_MAX, &recv);
    post_send(&a, out, len, 2, &send);
    if (!recv_first) {
        linger();
        post_recv(&b, b.peer, in, room, 2, VBN_TAG_MAX, &recv);
    }
    assert_int_equal(finish(&recv), VBN_ERR_TRUNCATED);
    assert_int_equal(recv.len, len);
    assert_int_equal(recv.tag, 2);
    assert_ptr_equal(recv.peer, b.peer);
    assert_int_equal(finish(&send), VBN_OK);
    for (size_t i = room; i < room + 64; i++)
        assert_int_equal(in[i], 0x5a);
    free(out);
    free(in);
    /* and the connection goes on */
    one_message(&a, &b, 100, true);
}

static void longer_than_the_buffer(void **state)
{
    size_t eager = a.attr.eager_limit;

    (void)state;
    too_long(10, 9, true);
    too_long(10, 0, false);
    too_long(eager, eager - 1, true);
    too_long(eager, 1, false);
    too_long(eager * 8, eager, true);
    too_long(eager * 8, eager, false);
    too_long(3000000, 2999999, true);
    too_long(3000000, 100, false);
}

/* --- probe and cancel ------------------------------------------------------------------------- */

static int probe_until_there(vbn_peer_t *peer, uint64_t tag, uint64_t mask, struct vbn_op *found)
{
    int status = VBN_ERR_AGAIN;

    for (int i = 0; i < 1000000 && status == VBN_ERR_AGAIN; i++) {
        step();
        status = tr->probe(b.port, peer, tag, mask, found);
    }
    return status;
}

static void probe_sees_what_waits(void **state)
{
    size_t len = a.attr.eager_limit * 4;
    unsigned char *out = allocate(len), *in = allocate(len);
    struct vbn_op send, recv, found;

    (void)state;
    assert_int_equal(tr->probe(b.port, NULL, 0, 0, &found), VBN_ERR_AGAIN);
    fill(out, len, 1);
    post_send(&a, out, len, 6, &send);
    assert_int_equal(probe_until_there(NULL, 0, 0, &found), VBN_OK);
    assert_ptr_equal(found.peer, b.peer);
    assert_int_equal(found.tag, 6);
    assert_int_equal(found.len, len);
    assert_int_equal(tr->probe(b.port, b.peer, 7, VBN_TAG_MAX, &found), VBN_ERR_AGAIN);
    assert_int_equal(tr->probe(b.port, b.peer, 6, VBN_TAG_MAX, &found), VBN_OK);
    post_recv(&b, found.peer, in, found.len, found.tag, VBN_TAG_MAX, &recv);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_int_equal(tr->probe(b.port, NULL, 0, 0, &found), VBN_ERR_AGAIN);
    free(out);
    free(in);
}

static unsigned done_calls;

static void count_done(struct vbn_op *op)
{
    (void)op;
    done_calls++;
}

static void canceled_receives_end(void **state)
{
    struct vbn_op recv[2], send;
    int in[2] = {0}, out = 8;

    (void)state;
    for (int i = 0; i < 2; i++)
        post_recv(&b, i ? NULL : b.peer, &in[i], sizeof(int), 3, VBN_TAG_MAX, &recv[i]);
    recv[0].done = count_done;
    done_calls = 0;
    assert_int_equal(tr->cancel(b.port, &recv[0]), VBN_OK);
    assert_int_equal(finish(&recv[0]), VBN_ERR_CANCELED);
    assert_int_equal(done_calls, 1);
    assert_int_equal(tr->cancel(b.port, &recv[0]), VBN_ERR_AGAIN);
    /* the message goes to the one that is left */
    post_send(&a, &out, sizeof(out), 3, &send);
    assert_int_equal(finish(&recv[1]), VBN_OK);
    assert_int_equal(in[0], 0);
    assert_int_equal(in[1], 8);
    assert_int_equal(tr->cancel(b.port, &recv[1]), VBN_ERR_AGAIN);
    assert_int_equal(finish(&send), VBN_OK);
    assert_int_equal(tr->cancel(a.port, &send), VBN_ERR_AGAIN);
    assert_int_equal(done_calls, 1);
}

/* --- receives that tell where their message shall be ----------------------------------------- */

static void post_ready(void *buf, size_t len, uint64_t tag, struct vbn_op *recv)
{
    int status;

    *recv = (struct vbn_op){0};
    status = tr->recv_ready(b.port, b.peer, buf, len, tag, recv);
    assert_true(status == VBN_OK || status == VBN_PENDING);
}

/* A message of LEN bytes for a receive that has told of ROOM; FIRST: so long before it is sent. */
static void one_ready(size_t len, size_t room, bool first)
{
    unsigned char *out = allocate(len), *in = allocate(room);
    struct vbn_op send, recv;

    fill(out, len, (unsigned)len);
    memset(in, 0, room);
    if (!first)
        post_send(&a, out, len, 7, &send);
    post_ready(in, room, 7, &recv);
    if (first) {
        linger();
        post_send(&a, out, len, 7, &send);
    }
    assert_int_equal(finish(&recv), len > room ? VBN_ERR_TRUNCATED : VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_int_equal(recv.len, len);
    assert_int_equal(recv.tag, 7);
    assert_ptr_equal(recv.peer, b.peer);
    assert_filled(in, len < room ? len : room, (unsigned)len);
    free(out);
    free(in);
}

static void ready_for_any_length(void **state)
{
    static const size_t len[] = {0, 8, 4096, 65536, 1 << 20, 5000001};

    (void)state;
    if (!VBN_TRANSPORT_HAS(tr, recv_ready))
        return; /* a host goes by that, too */
    one_message(&a, &b, 8, true);
    for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
        for (int first = 0; first < 2; first++) {
            one_ready(len[i], len[i] + 1, first);
            one_ready(len[i], len[i], first);
            one_ready(len[i] + 1, len[i], first);
        }
}

/* Many of them at once, of two tags: each gets the message that it would have got. */
static void ready_in_their_order(void **state)
{
    enum { COUNT = 40 };
    size_t len = a.attr.eager_limit + 1;
    unsigned char *out, *in;
    struct vbn_op send[COUNT], recv[COUNT];

    (void)state;
    if (!VBN_TRANSPORT_HAS(tr, recv_ready))
        return;
    out = allocate(len * COUNT), in = allocate(len * COUNT);
    one_message(&a, &b, 8, true);
    for (unsigned i = 0; i < COUNT; i++) {
        fill(out + i * len, len, i);
        post_ready(in + i * len, len, i % 2, &recv[i]);
        if (i % 4 == 3)
            step();
    }
    for (unsigned i = 0; i < COUNT; i++)
        post_send(&a, out + i * len, len, i % 2, &send[i]);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(finish(&recv[i]), VBN_OK);
        assert_int_equal(finish(&send[i]), VBN_OK);
        assert_filled(in + i * len, len, i);
    }
    free(out);
    free(in);
}

static void ready_and_cancelled(void **state)
{
    size_t len = a.attr.eager_limit + 1;
    unsigned char *out, *in;
    struct vbn_op send, recv;

    (void)state;
    if (!VBN_TRANSPORT_HAS(tr, recv_ready))
        return;
    out = allocate(len), in = allocate(len);
    one_message(&a, &b, 8, true);
    memset(in, 0, len);
    post_ready(in, len, 7, &recv);
    linger();
    assert_int_equal(tr->cancel(b.port, &recv), VBN_OK);
    assert_int_equal(finish(&recv), VBN_ERR_CANCELED);
    fill(out, len, 1);
    post_send(&a, out, len, 7, &send);
    linger();
    assert_int_equal(in[0] | in[len - 1], 0);
    post_ready(in, len, 7, &recv);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_filled(in, len, 1);
    free(out);
    free(in);
}

/* --- done ------------------------------------------------------------------------------------- */

struct chain {
    struct vbn_op op;
    int left, value, seen;
};

/* Starts its own op again. An end at once means: go on here. */
static void receive_again(struct vbn_op *op)
{
    struct chain *chain = op->arg;

    assert_int_equal(op->status, VBN_OK);
    for (;;) {
        int status;

        assert_int_equal(chain->value, chain->seen);
        chain->seen++;
        if (--chain->left == 0)
            return;
        status = tr->recv(b.port, b.peer, &chain->value, sizeof(chain->value), 1, VBN_TAG_MAX, op);
        if (status == VBN_PENDING)
            return;
        assert_int_equal(status, VBN_OK);
    }
}

static void ops_start_again_in_done(void **state)
{
    struct chain chain = {.left = MANY, .value = -1};
    static struct vbn_op send[MANY];
    static int out[MANY];

    (void)state;
    chain.op.done = receive_again;
    chain.op.arg = &chain;
    assert_int_equal(
        tr->recv(b.port, b.peer, &chain.value, sizeof(chain.value), 1, VBN_TAG_MAX, &chain.op),
        VBN_PENDING);
    for (int i = 0; i < MANY; i++) {
        out[i] = i;
        post_send(&a, &out[i], sizeof(out[i]), 1, &send[i]);
        if (i % 5 == 0)
            linger();
    }
    for (int i = 0; i < 1000000 && chain.left; i++)
        step();
    assert_int_equal(chain.left, 0);
    assert_int_equal(chain.seen, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(finish(&send[i]), VBN_OK);
}

static void free_it(struct vbn_op *op)
{
    done_calls++;
    free(op);
}

static void ops_may_be_freed_in_done(void **state)
{
    struct vbn_op *recv = allocate(sizeof(*recv)), send;
    int in, out = 1;

    (void)state;
    done_calls = 0;
    post_recv(&b, b.peer, &in, sizeof(in), 1, VBN_TAG_MAX, recv);
    recv->done = free_it;
    post_send(&a, &out, sizeof(out), 1, &send);
    for (int i = 0; i < 1000000 && !done_calls; i++)
        step();
    assert_int_equal(done_calls, 1);
    assert_int_equal(finish(&send), VBN_OK);
}

static void send_in_done(struct vbn_op *op)
{
    struct vbn_op *second = op->arg;

    post_send(&b, "x", 1, 2, second);
}

static void done_may_send(void **state)
{
    struct vbn_op first, answer, send, recv;
    char in[2];

    (void)state;
    post_recv(&b, b.peer, &in[0], 1, 1, VBN_TAG_MAX, &first);
    first.done = send_in_done;
    first.arg = &answer;
    post_recv(&a, a.peer, &in[1], 1, 2, VBN_TAG_MAX, &recv);
    post_send(&a, "y", 1, 1, &send);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(in[0], 'y');
    assert_int_equal(in[1], 'x');
    assert_int_equal(finish(&first), VBN_OK);
    assert_int_equal(finish(&answer), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
}

static void disconnect_in_done(struct vbn_op *op)
{
    (void)op;
    tr->disconnect(b.peer);
    b.peer = NULL;
}

/* The last message of a peer; what was sent to it before is delivered, and other receives end. */
static void done_may_disconnect(void **state)
{
    struct vbn_op last, other, back, send, recv;
    int in = 0, out = 3, lost = 0;

    (void)state;
    post_recv(&b, b.peer, &in, sizeof(in), 1, VBN_TAG_MAX, &last);
    last.done = disconnect_in_done;
    post_recv(&b, b.peer, &lost, sizeof(lost), 2, VBN_TAG_MAX, &other);
    post_recv(&a, a.peer, &lost, sizeof(lost), 3, VBN_TAG_MAX, &recv);
    post_send(&b, &out, sizeof(out), 3, &back);
    post_send(&a, &out, sizeof(out), 1, &send);
    assert_int_equal(finish(&last), VBN_OK);
    assert_int_equal(in, 3);
    assert_true(finish(&other) < 0);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(lost, 3);
    assert_int_equal(finish(&back), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
}

static void messages_are_counted(void **state)
{
    struct vbn_counters sent = {.size = sizeof(sent)}, got = {.size = sizeof(got)};

    (void)state;
    one_message(&a, &b, 100, true);
    one_message(&a, &b, 50, true);
    tr->counters(a.port, &sent);
    tr->counters(b.port, &got);
    assert_true(sent.tx_msgs >= 2);
    assert_true(sent.tx_bytes >= 150);
    assert_true(got.rx_msgs >= 2);
    assert_true(got.rx_bytes >= 150);
}

const struct CMUnitTest tag_tests[] = {
    TABLE_TEST(all_lengths),
    TABLE_TEST(no_buffer_for_no_bytes),
    TABLE_TEST(eager_needs_no_receiver),
    TABLE_TEST(what_is_over_needs_no_sender),
    TABLE_TEST(what_is_over_needs_no_receiver),
    TABLE_TEST(same_tag_keeps_order),
    TABLE_TEST(tags_find_their_receives),
    TABLE_TEST(both_ways_at_once),
    TABLE_TEST(anybody_may_send),
    TABLE_TEST(masks_leave_bits_out),
    TABLE_TEST(first_receive_wins),
    TABLE_TEST(longer_than_the_buffer),
    TABLE_TEST(probe_sees_what_waits),
    TABLE_TEST(canceled_receives_end),
    TABLE_TEST(ready_for_any_length),
    TABLE_TEST(ready_in_their_order),
    TABLE_TEST(ready_and_cancelled),
    TABLE_TEST(ops_start_again_in_done),
    TABLE_TEST(ops_may_be_freed_in_done),
    TABLE_TEST(done_may_send),
    TABLE_TEST(done_may_disconnect),
    TABLE_TEST(messages_are_counted),
};
const size_t tag_test_count = sizeof(tag_tests) / sizeof(tag_tests[0]);
