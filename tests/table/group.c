/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: here of the two ends, each of which sends to the other by the group. */
#include "ends.h"

enum { KEY = 77, TAG = 9, PATIENCE = 200000 };

static vbn_group_t *of_a, *of_b;

/* As the kernel says. */
static bool is_iwarp(const char *device)
{
    char path[300], type[32];
    bool is_rnic;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/node_type", device);
    file = fopen(path, "r");
    if (!file)
        return false;
    is_rnic = fgets(type, sizeof(type), file) && strstr(type, "RNIC");
    fclose(file);
    return is_rnic;
}

/* iWARP alone may refuse. */
static vbn_group_t *open_at(struct end *end, uint64_t key, uint32_t me)
{
    vbn_peer_t *peers[2] = {end->peer, end->peer};
    vbn_group_t *group = NULL;
    struct vbn_error err;
    int rc = tr->group_open(end->port, key, peers, 2, me, &group, &err);

    if (rc == VBN_ERR_DEVICE && is_iwarp(end->attr.device))
        return NULL;
    if (rc != VBN_OK)
        fail_msg("%s", err.text);
    return group;
}

static void await_both(void)
{
    for (int i = 0; i < PATIENCE; i++) {
        int at_a = tr->group_ready(of_a), at_b = tr->group_ready(of_b);

        if (at_a != VBN_PENDING && at_b != VBN_PENDING) {
            assert_int_equal(at_a, VBN_OK);
            assert_int_equal(at_b, VBN_OK);
            return;
        }
        step();
    }
    fail_msg("the members of the group have not heard each other");
}

/* False: there are no groups here. */
static bool open_both_ends(void)
{
    if (!VBN_TRANSPORT_HAS(tr, group_open))
        return false;
    of_a = open_at(&a, KEY, 0);
    if (!of_a)
        return false;
    of_b = open_at(&b, KEY, 1);
    assert_non_null(of_b);
    await_both();
    return true;
}

static void close_both_ends(void)
{
    tr->group_close(of_a);
    tr->group_close(of_b);
}

static void group_send(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                       struct vbn_op *op)
{
    int status;

    *op = (struct vbn_op){0};
    status = tr->group_send(group, buf, len, tag, op);
    assert_true(status == VBN_OK || status == VBN_PENDING);
}

/* LEN bytes from A to B and back, by the group; EARLY: before there is a receive. */
static void there_and_back(size_t len, bool early)
{
    unsigned char *out = allocate(len), *in = allocate(len);
    struct vbn_op send, recv;

    for (int back = 0; back < 2; back++) {
        struct end *to = back ? &a : &b;

        fill(out, len, (unsigned)(len + back));
        memset(in, 0, len);
        if (!early)
            post_recv(to, to->peer, in, len, TAG, VBN_TAG_MAX, &recv);
        group_send(back ? of_b : of_a, out, len, TAG, &send);
        if (early) {
            linger();
            post_recv(to, to->peer, in, len, TAG, VBN_TAG_MAX, &recv);
        }
        assert_int_equal(finish(&recv), VBN_OK);
        assert_int_equal(finish(&send), VBN_OK);
        assert_int_equal(recv.len, len);
        assert_ptr_equal(recv.peer, to->peer);
        assert_filled(in, len, (unsigned)(len + back));
    }
    free(out);
    free(in);
}

static void group_of_any_length(void **state)
{
    static const size_t len[] = {0, 1, 8, 4063, 4064, 4065, 8144, 65537, 1 << 20};

    (void)state;
    if (!open_both_ends())
        return;
    for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
        there_and_back(len[i], false);
        there_and_back(len[i], true);
    }
    close_both_ends();
}

/* Many at once, more than are on their way at a time, from both sides, beside those of send(). */
static void group_keeps_order(void **state)
{
    enum { COUNT = 300 };
    static int out[2][COUNT], in[2][COUNT], other_in, other_out = 5;
    static struct vbn_op send[2][COUNT], recv[2][COUNT], other[2];

    (void)state;
    if (!open_both_ends())
        return;
    for (int i = 0; i < COUNT; i++) {
        out[0][i] = i;
        out[1][i] = -i;
        group_send(of_a, &out[0][i], sizeof(int), TAG, &send[0][i]);
        group_send(of_b, &out[1][i], sizeof(int), TAG, &send[1][i]);
        if (i == COUNT / 2)
            post_send(&a, &other_out, sizeof(int), TAG + 1, &other[0]);
    }
    for (int i = 0; i < COUNT; i++) {
        post_recv(&b, b.peer, &in[0][i], sizeof(int), TAG, VBN_TAG_MAX, &recv[0][i]);
        post_recv(&a, a.peer, &in[1][i], sizeof(int), TAG, VBN_TAG_MAX, &recv[1][i]);
    }
    post_recv(&b, b.peer, &other_in, sizeof(int), TAG + 1, VBN_TAG_MAX, &other[1]);
    for (int i = 0; i < COUNT; i++)
        for (int side = 0; side < 2; side++) {
            assert_int_equal(finish(&recv[side][i]), VBN_OK);
            assert_int_equal(finish(&send[side][i]), VBN_OK);
            assert_int_equal(in[side][i], side ? -i : i);
        }
    assert_int_equal(finish(&other[0]), VBN_OK);
    assert_int_equal(finish(&other[1]), VBN_OK);
    assert_int_equal(other_in, 5);
    close_both_ends();
}

/* What was sent arrives although its sender's group, and port, are closed at once. */
static void group_closed_while_busy(void **state)
{
    size_t len = 1 << 20;
    unsigned char *out = allocate(len), *in = allocate(len);
    struct vbn_op send, recv;

    (void)state;
    if (open_both_ends()) {
        fill(out, len, 3);
        post_recv(&b, b.peer, in, len, TAG, VBN_TAG_MAX, &recv);
        group_send(of_a, out, len, TAG, &send);
        tr->group_close(of_a);
        while (recv.status == VBN_PENDING) {
            tr->shutdown(a.port);
            step();
        }
        assert_int_equal(recv.status, VBN_OK);
        assert_filled(in, len, 3);
        tr->group_close(of_b);
    }
    free(out);
    free(in);
}

/* Two groups of the same members, one after the other closed, and one that never hears anybody. */
static void groups_apart(void **state)
{
    vbn_group_t *lonely;
    struct vbn_op send;
    int value = 1;

    (void)state;
    if (!open_both_ends())
        return;
    lonely = open_at(&a, KEY + 1, 0);
    linger();
    assert_int_equal(tr->group_ready(lonely), VBN_PENDING);
    assert_int_equal(tr->group_send(lonely, &value, sizeof(value), TAG, &send), VBN_ERR_AGAIN);
    there_and_back(100, false);
    tr->group_close(lonely);
    linger();
    there_and_back(100, true);
    close_both_ends();
}

static void group_arguments(void **state)
{
    vbn_peer_t *peers[2] = {a.peer, a.peer}, *nobody[2] = {a.peer, NULL};
    vbn_group_t *group;
    struct vbn_op op;
    int value = 0;

    (void)state;
    if (!VBN_TRANSPORT_HAS(tr, group_open))
        return;
    assert_int_equal(tr->group_open(NULL, 1, peers, 2, 0, &group, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_open(a.port, 1, NULL, 2, 0, &group, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_open(a.port, 1, peers, 1, 0, &group, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_open(a.port, 1, peers, 2, 2, &group, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_open(a.port, 1, nobody, 2, 0, &group, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_open(b.port, 1, peers, 2, 0, &group, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_open(a.port, 1, peers, 2, 0, NULL, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_ready(NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_send(NULL, &value, 4, 1, &op), VBN_ERR_INVALID);
    tr->group_close(NULL);
    if (!open_both_ends())
        return;
    assert_int_equal(tr->group_send(of_a, &value, 4, 1, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->group_send(of_a, NULL, 4, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->group_send(of_a, &value, 4, VBN_TAG_MAX + 1, &op), VBN_ERR_INVALID);
    close_both_ends();
}

const struct CMUnitTest group_tests[] = {
    TABLE_TEST(group_arguments),   TABLE_TEST(group_of_any_length),
    TABLE_TEST(group_keeps_order), TABLE_TEST(group_closed_while_busy),
    TABLE_TEST(groups_apart),
};
const size_t group_test_count = sizeof(group_tests) / sizeof(group_tests[0]);
