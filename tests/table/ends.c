/* SPDX-License-Identifier: BSD-3-Clause */
#include "ends.h"

#include <time.h>

#define FINISH_S 60
#define HOUR_NS  UINT64_C(3600000000000)

const struct vbn_transport *tr;
struct end a, b;
bool ends_by_halves;
static uint64_t ahead_ns = HOUR_NS;

static uint64_t clock_ns(void *arg)
{
    struct timespec ts;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ahead_ns + (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void ends_set_back(void)
{
    ahead_ns = 0;
}

static void take_error(void *arg, vbn_peer_t *peer, int status, const char *reason)
{
    (void)reason;
    /* both ports have the same arg: told apart by the peer */
    (void)arg;
    if (peer == a.peer) {
        a.peer_errors++;
        a.peer_status = status;
    } else if (peer == b.peer) {
        b.peer_errors++;
        b.peer_status = status;
    }
}

static void open_end(struct end *end, uint32_t rank, bool multithreaded, vbn_clock_fn clock)
{
    struct vbn_port_config config = {
        .size = sizeof(config),
        .rank = rank,
        .job_key = 42,
        .multithreaded = multithreaded,
        .peer_error = take_error,
        .clock_ns = clock,
    };

    memset(end, 0, sizeof(*end));
    world_open(&config, &tr, &end->port);
    end->attr.size = sizeof(end->attr);
    tr->attr(end->port, &end->attr);
}

void introduce(struct end *from, struct end *to)
{
    unsigned char address[65536];
    size_t len = sizeof(address);
    struct vbn_error err;

    assert_int_equal(tr->address(to->port, address, &len), VBN_OK);
    assert_true(len <= to->attr.max_address);
    if (tr->connect(from->port, address, len, from, &from->peer, &err) != VBN_OK)
        fail_msg("%s", err.text);
}

vbn_half_t *half_of(const struct end *end, void *blob, size_t *len)
{
    vbn_half_t *half = NULL;
    struct vbn_error err;

    *len = end->attr.max_address;
    assert_true(*len <= BLOB_MAX && VBN_TRANSPORT_HAS(tr, half_create));
    if (tr->half_create(end->port, blob, len, &half, &err) != VBN_OK)
        fail_msg("%s", err.text);
    assert_non_null(half);
    return half;
}

/* The peer that the same two were to each other before may not be over yet. */
static void join_half(vbn_half_t *half, const void *blob, size_t len, struct end *end)
{
    const time_t start = time(NULL);
    struct vbn_error err;
    int rc;

    while ((rc = tr->half_join(half, blob, len, end, &end->peer, &err)) == VBN_ERR_AGAIN &&
           time(NULL) - start <= FINISH_S)
        step();
    if (rc != VBN_OK)
        fail_msg("%s", err.text);
}

void ends_join(void)
{
    unsigned char of_a[BLOB_MAX], of_b[BLOB_MAX];
    size_t len_a, len_b;
    vbn_half_t *half_a = half_of(&a, of_a, &len_a), *half_b = half_of(&b, of_b, &len_b);

    join_half(half_a, of_b, len_b, &a);
    join_half(half_b, of_a, len_a, &b);
}

static int open_both(bool multithreaded, vbn_clock_fn clock)
{
    if (world_begin() != 0)
        return -1;
    open_end(&a, RANK_A, multithreaded, clock);
    open_end(&b, RANK_B, multithreaded, clock);
    return 0;
}

static void acquaint(void)
{
    if (ends_by_halves) {
        ends_join();
        return;
    }
    introduce(&a, &b);
    introduce(&b, &a);
}

int ends_open(void **state)
{
    (void)state;
    if (open_both(false, NULL) != 0)
        return -1;
    acquaint();
    return 0;
}

int ends_open_multithreaded(void **state)
{
    (void)state;
    if (open_both(true, NULL) != 0)
        return -1;
    acquaint();
    return 0;
}

int ends_open_clocked(void **state)
{
    (void)state;
    if (open_both(false, clock_ns) != 0)
        return -1;
    acquaint();
    return 0;
}

int ends_open_strangers(void **state)
{
    (void)state;
    return open_both(false, NULL);
}

void end_close(struct end *end)
{
    if (end->port)
        tr->close(end->port);
    end->port = NULL;
}

int ends_open_one_way(void **state)
{
    (void)state;
    if (open_both(false, NULL) != 0)
        return -1;
    introduce(&a, &b);
    return 0;
}

/* In good order: each side goes on until both have nothing left. */
int ends_close(void **state)
{
    size_t more = 1;

    (void)state;
    ahead_ns = HOUR_NS;
    for (int i = 0; more && i < 100000; i++) {
        more = a.port ? tr->shutdown(a.port) : 0;
        more += b.port ? tr->shutdown(b.port) : 0;
        step();
    }
    end_close(&a);
    end_close(&b);
    return world_end();
}

int step(void)
{
    int did = 0;

    did += a.port ? tr->progress(a.port) : 0;
    did += b.port ? tr->progress(b.port) : 0;
    if (!did)
        world_idle();
    return did;
}

int finish(struct vbn_op *op)
{
    time_t start = time(NULL);

    while (op->status == VBN_PENDING) {
        step();
        if (time(NULL) - start > FINISH_S)
            fail_msg("an operation is not over after %d s", FINISH_S);
    }
    return op->status;
}

void linger(void)
{
    for (int i = 0; i < 200; i++)
        step();
}

static void assert_started(int status, const struct vbn_op *op)
{
    if (status != VBN_OK && status != VBN_PENDING)
        fail_msg("refused: %s", vbn_status_str(status));
    if (status == VBN_OK)
        assert_int_not_equal(op->status, VBN_PENDING);
}

void post_send(struct end *from, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    memset(op, 0xee, sizeof(*op));
    op->done = NULL;
    assert_started(tr->send(from->peer, buf, len, tag, op), op);
}

void post_recv(struct end *at, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag, uint64_t mask,
               struct vbn_op *op)
{
    memset(op, 0xee, sizeof(*op));
    op->done = NULL;
    assert_started(tr->recv(at->port, peer, buf, len, tag, mask, op), op);
}

static unsigned char pattern(size_t at, unsigned seed)
{
    return (unsigned char)((at * 2654435761u >> 8) + at + seed * 37u);
}

void fill(void *buf, size_t len, unsigned seed)
{
    unsigned char *bytes = buf;

    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
}

void assert_filled(const void *buf, size_t len, unsigned seed)
{
    const unsigned char *bytes = buf;

    for (size_t i = 0; i < len; i++)
        if (bytes[i] != pattern(i, seed))
            fail_msg("byte %zu of %zu is wrong", i, len);
}

void *allocate(size_t len)
{
    void *memory = malloc(len ? len : 1);

    assert_non_null(memory);
    return memory;
}
