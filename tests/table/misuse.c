/* SPDX-License-Identifier: BSD-3-Clause */
/* What is refused, and the ends of peers and ports. */
#include "ends.h"

static void table_is_complete(void **state)
{
    size_t count;
    const struct vbn_param *params = tr->params(&count);

    (void)state;
    assert_int_equal(tr->abi, VBN_TRANSPORT_ABI);
    assert_true(tr->size >= sizeof(*tr));
    assert_true(strlen(tr->name) > 0 && strlen(tr->version) > 0 && strlen(tr->help) > 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(params[i].name) > 0 && strlen(params[i].help) > 0);
        if (params[i].type == VBN_PARAM_UINT)
            assert_true(params[i].min <= params[i].def && params[i].def <= params[i].max);
    }
    assert_true(strlen(a.attr.device) > 0);
    assert_true(a.attr.max_send > 0 && a.attr.max_rma > 0 && a.attr.eager_limit > 0);
}

static void bad_arguments_are_refused(void **state)
{
    struct vbn_op op = {.done = NULL};
    struct vbn_port_attr attr = {.size = sizeof(attr)};
    struct vbn_counters counters = {.size = sizeof(counters)};
    int value = 0;

    (void)state;
    assert_int_equal(tr->send(NULL, &value, 4, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->send(a.peer, NULL, 4, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->send(a.peer, &value, 4, 1, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->send(a.peer, &value, 4, VBN_TAG_MAX + 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->recv(NULL, a.peer, &value, 4, 1, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->recv(a.port, a.peer, NULL, 4, 1, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->recv(a.port, a.peer, &value, 4, 1, 1, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->recv(a.port, a.peer, &value, 4, VBN_TAG_MAX + 1, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->recv(a.port, a.peer, &value, 4, 1, VBN_TAG_MAX + 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->recv(a.port, b.peer, &value, 4, 1, 1, &op), VBN_ERR_INVALID);
    if (VBN_TRANSPORT_HAS(tr, recv_ready)) {
        assert_int_equal(tr->recv_ready(NULL, a.peer, &value, 4, 1, &op), VBN_ERR_INVALID);
        assert_int_equal(tr->recv_ready(a.port, NULL, &value, 4, 1, &op), VBN_ERR_INVALID);
        assert_int_equal(tr->recv_ready(a.port, b.peer, &value, 4, 1, &op), VBN_ERR_INVALID);
        assert_int_equal(tr->recv_ready(a.port, a.peer, NULL, 4, 1, &op), VBN_ERR_INVALID);
        assert_int_equal(tr->recv_ready(a.port, a.peer, &value, 4, 1, NULL), VBN_ERR_INVALID);
        assert_int_equal(tr->recv_ready(a.port, a.peer, &value, 4, VBN_TAG_MAX + 1, &op),
                         VBN_ERR_INVALID);
    }
    assert_int_equal(tr->probe(NULL, NULL, 0, 0, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->probe(a.port, NULL, 0, VBN_TAG_MAX + 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->probe(a.port, b.peer, 0, 0, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->cancel(NULL, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->cancel(a.port, NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->progress(NULL), VBN_ERR_INVALID);
    assert_int_equal(tr->shutdown(NULL), 0);
    tr->attr(NULL, &attr);
    tr->counters(NULL, &counters);
    assert_int_equal(attr.max_send, 0);
    if (a.attr.max_send < SIZE_MAX)
        assert_int_equal(tr->send(a.peer, &value, a.attr.max_send + 1, 1, &op), VBN_ERR_INVALID);
}

static void addresses_are_checked(void **state)
{
    unsigned char address[65536];
    size_t len = 1, full;
    struct vbn_error err;
    vbn_peer_t *peer;

    (void)state;
    assert_int_equal(tr->address(b.port, address, &len), VBN_ERR_INVALID);
    full = len;
    assert_true(full > 1 && full <= sizeof(address));
    assert_int_equal(tr->address(b.port, address, &len), VBN_OK);
    assert_int_equal(len, full);
    assert_int_equal(tr->connect(a.port, address, full, &a, &peer, &err), VBN_OK);
    assert_ptr_equal(peer, a.peer); /* one and the same */
    assert_ptr_equal(tr->peer_user(peer), &a);
    assert_int_equal(tr->connect(a.port, address, full, &b, &peer, &err), VBN_OK);
    assert_ptr_equal(tr->peer_user(peer), &b);
    assert_int_equal(tr->connect(a.port, address, full, NULL, &peer, &err), VBN_OK);
    assert_ptr_equal(tr->peer_user(peer), &b); /* nobody else's */
    assert_int_equal(tr->connect(a.port, address, full, &a, &peer, &err), VBN_OK);
    assert_int_equal(tr->connect(NULL, address, full, NULL, &peer, &err), VBN_ERR_INVALID);
    assert_int_equal(tr->connect(a.port, address, 0, NULL, &peer, &err), VBN_ERR_INVALID);
    assert_int_equal(tr->connect(a.port, address, full / 2, NULL, &peer, &err), VBN_ERR_INVALID);
    assert_true(strlen(err.text) > 0);
    memset(address, 0xff, full);
    assert_int_equal(tr->connect(a.port, address, full, NULL, &peer, NULL), VBN_ERR_INVALID);
}

static void other_jobs_are_refused(void **state)
{
    struct vbn_port_config config = {.size = sizeof(config), .rank = 3, .job_key = 43};
    unsigned char address[65536];
    size_t len = sizeof(address);
    struct vbn_error err;
    vbn_port_t *stranger;
    vbn_peer_t *peer;

    (void)state;
    world_open(&config, &tr, &stranger);
    assert_int_equal(tr->address(stranger, address, &len), VBN_OK);
    assert_int_equal(tr->connect(a.port, address, len, NULL, &peer, &err), VBN_ERR_REFUSED);
    tr->close(stranger);
}

static void pending_receives_end_at_close(void **state)
{
    struct vbn_op recv[2];
    char in[2];

    (void)state;
    post_recv(&b, b.peer, &in[0], 1, 1, VBN_TAG_MAX, &recv[0]);
    post_recv(&b, NULL, &in[1], 1, 1, VBN_TAG_MAX, &recv[1]);
    linger();
    end_close(&b);
    assert_int_equal(recv[0].status, VBN_ERR_CLOSED);
    assert_int_equal(recv[1].status, VBN_ERR_CLOSED);
}

static int posted_again;
static struct vbn_op again;

static void post_again(struct vbn_op *op)
{
    assert_int_equal(op->status, VBN_ERR_CLOSED);
    posted_again = tr->recv(b.port, NULL, NULL, 0, 1, VBN_TAG_MAX, &again);
}

/* A server's usual loop. */
static void receives_are_not_posted_while_it_closes(void **state)
{
    struct vbn_op recv = {.done = post_again};

    (void)state;
    posted_again = again.status = VBN_OK;
    assert_int_equal(tr->recv(b.port, NULL, NULL, 0, 1, VBN_TAG_MAX, &recv), VBN_PENDING);
    end_close(&b);
    assert_int_equal(posted_again, VBN_ERR_CLOSED);
}

/* Nothing starts after shutdown(). */
static void shutdown_takes_no_more(void **state)
{
    struct vbn_op op = {.done = NULL};

    (void)state;
    for (int i = 0; i < 100000 && tr->shutdown(a.port); i++)
        step();
    assert_int_equal(tr->shutdown(a.port), 0);
    assert_int_equal(tr->send(a.peer, "x", 1, 1, &op), VBN_ERR_CLOSED);
}

/* What was sent before disconnect() is delivered. */
static void disconnect_delivers(void **state)
{
    struct vbn_op send[20], recv[20];
    int out[20], in[20];

    (void)state;
    for (int i = 0; i < 20; i++) {
        out[i] = i;
        post_send(&a, &out[i], sizeof(int), 1, &send[i]);
    }
    tr->disconnect(a.peer);
    a.peer = NULL;
    for (int i = 0; i < 20; i++) {
        post_recv(&b, b.peer, &in[i], sizeof(int), 1, VBN_TAG_MAX, &recv[i]);
        assert_int_equal(finish(&recv[i]), VBN_OK);
        assert_int_equal(in[i], i);
        assert_int_equal(finish(&send[i]), VBN_OK);
    }
}

static void disconnect_ends_its_receives(void **state)
{
    struct vbn_op named, any;
    char in[2];

    (void)state;
    post_recv(&b, b.peer, &in[0], 1, 1, VBN_TAG_MAX, &named);
    post_recv(&b, NULL, &in[1], 1, 2, VBN_TAG_MAX, &any);
    tr->disconnect(b.peer);
    b.peer = NULL;
    assert_true(finish(&named) < 0);
    linger();
    assert_int_equal(any.status, VBN_PENDING);
    assert_int_equal(tr->cancel(b.port, &any), VBN_OK);
    assert_int_equal(finish(&any), VBN_ERR_CANCELED);
}

/* A receiver that never connected does not know the peer, but the message comes. */
static void sender_may_be_unknown(void **state)
{
    struct vbn_op send, recv;
    char in;

    (void)state;
    post_recv(&b, NULL, &in, 1, 1, VBN_TAG_MAX, &recv);
    post_send(&a, "x", 1, 1, &send);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_null(recv.peer);
    assert_int_equal(in, 'x');
    assert_int_equal(finish(&send), VBN_OK);
}

static void unknown_settings_are_refused(void **state)
{
    struct vbn_setting setting = {"no_such_parameter", "1"};
    struct vbn_port_config config = {
        .size = sizeof(config), .settings = &setting, .setting_count = 1};
    struct vbn_error err;
    vbn_port_t *port;

    (void)state;
    assert_int_equal(tr->open(&config, &port, &err), VBN_ERR_INVALID);
    assert_non_null(strstr(err.text, "no_such_parameter"));
    assert_int_equal(tr->open(&config, &port, NULL), VBN_ERR_INVALID);
    config.size = 3;
    assert_int_equal(tr->open(&config, &port, &err), VBN_ERR_INVALID);
}

const struct CMUnitTest misuse_tests[] = {
    TABLE_TEST(table_is_complete),
    TABLE_TEST(bad_arguments_are_refused),
    TABLE_TEST(addresses_are_checked),
    TABLE_TEST(other_jobs_are_refused),
    TABLE_TEST(pending_receives_end_at_close),
    TABLE_TEST(receives_are_not_posted_while_it_closes),
    TABLE_TEST(shutdown_takes_no_more),
    TABLE_TEST(disconnect_delivers),
    TABLE_TEST(disconnect_ends_its_receives),
    cmocka_unit_test_setup_teardown(sender_may_be_unknown, ends_open_one_way, ends_close),
    TABLE_TEST(unknown_settings_are_refused),
};
const size_t misuse_test_count = sizeof(misuse_tests) / sizeof(misuse_tests[0]);
