/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory, puts and gets. */
#include "ends.h"

enum { SIZE = 3000000 };

/* Memory of b that a may reach, and memory of a. */
static unsigned char *far_memory, *near_memory;
static vbn_region_t *far_region, *near_region;
static vbn_rkey_t *rkey;

static void import(vbn_region_t *region, vbn_peer_t *peer, vbn_rkey_t **key)
{
    unsigned char bytes[4096];
    size_t len = sizeof(bytes), too_small = 1;

    assert_int_equal(tr->mem_key(region, bytes, &too_small), VBN_ERR_INVALID);
    assert_int_equal(tr->mem_key(region, bytes, &len), VBN_OK);
    assert_int_equal(len, too_small);
    assert_true(len <= b.attr.max_key);
    assert_int_equal(tr->rkey_import(peer, bytes, len, key), VBN_OK);
}

static int setup(void **state)
{
    if (ends_open(state) != 0)
        return -1;
    far_memory = allocate(SIZE);
    near_memory = allocate(SIZE);
    memset(far_memory, 0, SIZE);
    memset(near_memory, 0, SIZE);
    assert_int_equal(
        tr->mem_register(b.port, far_memory, SIZE,
                         VBN_ACCESS_LOCAL_WRITE | VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE,
                         &far_region),
        VBN_OK);
    assert_int_equal(
        tr->mem_register(a.port, near_memory, SIZE, VBN_ACCESS_LOCAL_WRITE, &near_region), VBN_OK);
    import(far_region, a.peer, &rkey);
    return 0;
}

static int teardown(void **state)
{
    int status;

    tr->rkey_release(rkey);
    tr->mem_deregister(near_region);
    tr->mem_deregister(far_region);
    status = ends_close(state);
    free(far_memory);
    free(near_memory);
    return status;
}

static uint64_t far_at(size_t offset)
{
    return (uint64_t)(uintptr_t)(far_memory + offset);
}

static int put(size_t from, size_t to, size_t len)
{
    struct vbn_op op = {.done = NULL};
    int status = tr->put(a.peer, near_memory + from, near_region, far_at(to), rkey, len, &op);

    return status == VBN_OK || status == VBN_PENDING ? finish(&op) : status;
}

static int get(size_t to, size_t from, size_t len)
{
    struct vbn_op op = {.done = NULL};
    int status = tr->get(a.peer, near_memory + to, near_region, far_at(from), rkey, len, &op);

    return status == VBN_OK || status == VBN_PENDING ? finish(&op) : status;
}

/* Nor by what is left in it of the receive that it was before. */
static void cannot_be_cancelled(void **state)
{
    struct vbn_op op = {.done = NULL}, send = {.done = NULL};
    char in;

    (void)state;
    post_recv(&a, NULL, &in, 1, 1, VBN_TAG_MAX, &op);
    post_send(&b, "x", 1, 1, &send);
    assert_int_equal(finish(&op), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    for (int puts = 0; puts < 2; puts++) {
        int status = (puts ? tr->put(a.peer, near_memory, near_region, far_at(0), rkey, SIZE, &op)
                           : tr->get(a.peer, near_memory, near_region, far_at(0), rkey, SIZE, &op));

        assert_true(status == VBN_OK || status == VBN_PENDING);
        assert_int_equal(tr->cancel(a.port, &op), VBN_ERR_AGAIN);
        if (status == VBN_PENDING)
            assert_int_equal(finish(&op), VBN_OK);
    }
}

/* When it is over the data are there, without a word from the other side. */
static void puts_arrive(void **state)
{
    static const size_t lengths[] = {1, 8, 100, 4096, 65537, 2000000};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t len = lengths[i];

        fill(near_memory + 3, len, (unsigned)i);
        memset(far_memory, 0x11, SIZE);
        assert_int_equal(put(3, 17, len), VBN_OK);
        assert_filled(far_memory + 17, len, (unsigned)i);
        assert_int_equal(far_memory[16], 0x11);
        assert_int_equal(far_memory[17 + len], 0x11);
    }
}

static void gets_fetch(void **state)
{
    static const size_t lengths[] = {1, 8, 100, 4096, 65537, 2000000};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t len = lengths[i];

        fill(far_memory + 5, len, (unsigned)i);
        memset(near_memory, 0x11, SIZE);
        assert_int_equal(get(9, 5, len), VBN_OK);
        assert_filled(near_memory + 9, len, (unsigned)i);
        assert_int_equal(near_memory[8], 0x11);
        assert_int_equal(near_memory[9 + len], 0x11);
    }
}

static void many_at_once(void **state)
{
    enum { COUNT = 300, LEN = 5000 };
    static struct vbn_op op[COUNT];

    (void)state;
    fill(near_memory, COUNT * LEN, 1);
    for (size_t i = 0; i < COUNT; i++) {
        int status;

        op[i].done = NULL;
        do {
            status = tr->put(a.peer, near_memory + i * LEN, near_region, far_at(i * LEN), rkey, LEN,
                             &op[i]);
            if (status == VBN_ERR_AGAIN)
                step();
        } while (status == VBN_ERR_AGAIN);
        assert_true(status == VBN_OK || status == VBN_PENDING);
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(finish(&op[i]), VBN_OK);
    assert_filled(far_memory, COUNT * LEN, 1);
}

static void local_bounds_are_kept(void **state)
{
    (void)state;
    assert_int_equal(put(SIZE - 10, 0, 10), VBN_OK);
    assert_int_equal(put(SIZE - 10, 0, 11), VBN_ERR_INVALID);
    assert_int_equal(get(SIZE - 10, 0, 11), VBN_ERR_INVALID);
    assert_int_equal(get((size_t)0 - 1, 0, 1), VBN_ERR_INVALID);
    assert_int_equal(get(0, 0, SIZE), VBN_OK);
}

/* Where the other side's device decides, its refusal costs the connection: not asked of it. */
static bool device_decides(void)
{
    return !strcmp(tr->name, "rc");
}

static void remote_bounds_are_kept(void **state)
{
    (void)state;
    assert_int_equal(put(0, SIZE - 10, 10), VBN_OK);
    if (device_decides())
        return;
    assert_int_equal(put(0, SIZE - 10, 11), VBN_ERR_INVALID);
    assert_int_equal(put(0, (size_t)0 - 1, 1), VBN_ERR_INVALID);
    assert_int_equal(get(0, SIZE - 10, 11), VBN_ERR_INVALID);
}

static void access_is_kept(void **state)
{
    vbn_region_t *region;
    vbn_rkey_t *key;
    struct vbn_op op = {.done = NULL};
    int status;

    (void)state;
    assert_int_equal(tr->mem_register(b.port, far_memory, 1000, VBN_ACCESS_REMOTE_READ, &region),
                     VBN_OK);
    import(region, a.peer, &key);
    if (!device_decides())
        assert_int_equal(tr->put(a.peer, near_memory, near_region, far_at(0), key, 8, &op),
                         VBN_ERR_INVALID);
    status = tr->get(a.peer, near_memory, near_region, far_at(0), key, 8, &op);
    assert_true(status == VBN_OK || status == VBN_PENDING);
    assert_int_equal(finish(&op), VBN_OK);
    tr->rkey_release(key);
    tr->mem_deregister(region);
}

/* Both ends let go of their regions when the message has been offered, and before it is read. */
static void a_message_outlasts_its_regions(void **state)
{
    char *from = allocate(SIZE), *to = allocate(SIZE);
    vbn_region_t *from_region, *to_region;
    struct vbn_op send = {.done = NULL}, recv = {.done = NULL};

    (void)state;
    fill(from, SIZE, 3);
    assert_int_equal(tr->mem_register(a.port, from, SIZE, VBN_ACCESS_REMOTE_READ, &from_region),
                     VBN_OK);
    assert_int_equal(tr->mem_register(b.port, to, SIZE, VBN_ACCESS_LOCAL_WRITE, &to_region),
                     VBN_OK);
    post_send(&a, from, SIZE, 7, &send);
    linger();
    tr->mem_deregister(from_region);
    post_recv(&b, NULL, to, SIZE, 7, VBN_TAG_MAX, &recv);
    tr->mem_deregister(to_region);
    assert_int_equal(finish(&recv), VBN_OK);
    assert_int_equal(finish(&send), VBN_OK);
    assert_filled(to, SIZE, 3);
    free(from);
    free(to);
}

static void bad_handles_are_refused(void **state)
{
    struct vbn_op op = {.done = NULL};
    vbn_region_t *region;
    vbn_rkey_t *key;
    unsigned char bytes[4096];
    size_t len = sizeof(bytes);

    (void)state;
    assert_int_equal(tr->mem_register(a.port, near_memory, 0, 0, &region), VBN_ERR_INVALID);
    assert_int_equal(tr->mem_register(NULL, near_memory, 8, 0, &region), VBN_ERR_INVALID);
    assert_int_equal(tr->put(NULL, near_memory, near_region, far_at(0), rkey, 1, &op),
                     VBN_ERR_INVALID);
    assert_int_equal(tr->put(a.peer, near_memory, NULL, far_at(0), rkey, 1, &op), VBN_ERR_INVALID);
    assert_int_equal(tr->put(a.peer, near_memory, near_region, far_at(0), NULL, 1, &op),
                     VBN_ERR_INVALID);
    assert_int_equal(tr->get(a.peer, near_memory, near_region, far_at(0), rkey, 1, NULL),
                     VBN_ERR_INVALID);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(tr->rkey_import(a.peer, bytes, 100, &key), VBN_ERR_INVALID);
    assert_int_equal(tr->rkey_import(a.peer, bytes, 0, &key), VBN_ERR_INVALID);
    assert_int_equal(tr->mem_key(far_region, bytes, &len), VBN_OK);
    assert_int_equal(tr->rkey_import(a.peer, bytes, len - 1, &key), VBN_ERR_INVALID);
    assert_int_equal(tr->rkey_import(NULL, bytes, len, &key), VBN_ERR_INVALID);
}

static void handles_of_another_port_are_refused(void **state)
{
    static struct vbn_op op[2];

    (void)state;
    assert_int_equal(tr->put(a.peer, far_memory, far_region, far_at(0), rkey, 1, &op[0]),
                     VBN_ERR_INVALID);
    assert_int_equal(tr->put(b.peer, far_memory, far_region, far_at(0), rkey, 1, &op[1]),
                     VBN_ERR_INVALID);
}

#define RMA_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

const struct CMUnitTest rma_tests[] = {
    RMA_TEST(puts_arrive),
    RMA_TEST(cannot_be_cancelled),
    RMA_TEST(gets_fetch),
    RMA_TEST(many_at_once),
    RMA_TEST(local_bounds_are_kept),
    RMA_TEST(remote_bounds_are_kept),
    RMA_TEST(access_is_kept),
    RMA_TEST(a_message_outlasts_its_regions),
    RMA_TEST(bad_handles_are_refused),
    RMA_TEST(handles_of_another_port_are_refused),
};
const size_t rma_test_count = sizeof(rma_tests) / sizeof(rma_tests[0]);
