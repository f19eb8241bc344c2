/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <stdlib.h>

#define TURN_NS     20000u
#define TURN_MAX_NS 400000u
#define LOOK_NS     5000u
#define POLLS       70 /* the slow side is looked at, too */

struct side side[SIDES_MAX];
static int sides;
static int blocking = -1; /* side inside vbn_close() */

/* --- callbacks -------------------------------------------------------------------------------- */

static void others_progress(void)
{
    int self = blocking;

    blocking = -1;
    for (int i = 0; i < sides; i++) {
        if (i == self || !side[i].ctx || side[i].asleep)
            continue;
        fabric_enter(side[i].rank);
        vbn_progress(side[i].ctx);
    }
    blocking = self;
    fabric_enter(side[self].rank);
}

static uint64_t clock_ns(void *arg)
{
    (void)arg;
    if (blocking >= 0) {
        others_progress();
        fabric_advance(LOOK_NS);
    }
    return fabric_now_ns() + 1;
}

static uint64_t random_bits(void *arg)
{
    (void)arg;
    return fabric_random(UINT64_MAX);
}

static void log_line(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg;
    unit.log_count[level]++;
    snprintf(unit.log[level], sizeof(unit.log[level]), "%s", text);
}

static void endpoint_error(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    struct side *s = arg;

    s->failures++;
    s->status = status;
    s->failed = ep;
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
}

struct head {
    uint64_t from, number;
};

static unsigned char pattern(const struct head *h, size_t at)
{
    return (unsigned char)(h->from * 31 + h->number * 7 + at);
}

static void take(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    struct side *s = arg;
    struct head h;

    (void)ep;
    assert_int_equal(id, PAIR_ID);
    assert_true(len >= sizeof(h));
    memcpy(&h, data, sizeof(h));
    assert_true(h.from < (uint64_t)sides);
    assert_int_equal(h.number, s->got[h.from]); /* once, and in order */
    s->got[h.from]++;
    for (size_t i = sizeof(h); i < len; i++)
        if (((unsigned char *)data)[i] != pattern(&h, i))
            fail_msg("byte %zu of message %llu is wrong", i, (unsigned long long)h.number);
}

/* --- opening ---------------------------------------------------------------------------------- */

int pair_open_side(int n, void (*tweak)(struct vbn_options *opts), struct vbn_error *err)
{
    struct side *s = &side[n];
    struct vbn_options opts;
    int rc;

    unit_options(&opts);
    opts.clock_ns = clock_ns;
    opts.random = random_bits;
    opts.log = log_line;
    opts.endpoint_error = endpoint_error;
    opts.callback_arg = s;
    opts.close_timeout_ms = 100;
    if (tweak)
        tweak(&opts);
    fabric_enter(s->rank);
    rc = vbn_open(&opts, &s->ctx, err);
    if (rc) {
        s->ctx = NULL;
        return rc;
    }
    vbn_am_handler(s->ctx, PAIR_ID, take, s);
    s->addr_len = sizeof(s->addr);
    assert_int_equal(vbn_address(s->ctx, s->addr, &s->addr_len), VBN_OK);
    return VBN_OK;
}

void pair_open(int count, uint64_t seed, const struct fabric_config *config,
               const struct fabric_node_attr *attr, void (*tweak)(struct vbn_options *opts))
{
    struct vbn_error err;

    unit_reset();
    memset(side, 0, sizeof(side));
    fabric_create(seed, config);
    sides = count;
    for (int i = 0; i < count; i++) {
        side[i].node = fabric_node_add(attr);
        side[i].rank = fabric_rank_add(side[i].node);
        if (pair_open_side(i, tweak, &err))
            fail_msg("side %d: %s", i, err.text);
    }
}

vbn_endpoint_t *pair_endpoint(int a, int b)
{
    struct vbn_error err;

    fabric_enter(side[a].rank);
    if (!side[a].to[b] && vbn_endpoint_create(side[a].ctx, side[b].addr, side[b].addr_len, NULL,
                                              &side[a].to[b], &err))
        fail_msg("endpoint of %d to %d: %s", a, b, err.text);
    return side[a].to[b];
}

int pair_send(int a, int b, size_t len)
{
    struct head h = {.from = (uint64_t)a, .number = side[a].sent[b]};
    unsigned char bytes[1024];
    struct iovec iov = {bytes, len < sizeof(h) ? sizeof(h) : len};
    int rc;

    memcpy(bytes, &h, sizeof(h));
    for (size_t i = sizeof(h); i < iov.iov_len; i++)
        bytes[i] = pattern(&h, i);
    rc = vbn_am_send(pair_endpoint(a, b), PAIR_ID, &iov, 1);
    side[a].sent[b] += rc == VBN_OK;
    return rc;
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Where nothing happens, time passes in longer and longer steps. */
void pair_turn(void)
{
    static uint64_t step_ns = TURN_NS;
    int did = 0;

    for (int i = 0; i < sides; i++) {
        if (!side[i].ctx || side[i].asleep)
            continue;
        fabric_enter(side[i].rank);
        for (int k = 0; k < POLLS; k++)
            did += vbn_progress(side[i].ctx);
    }
    did += fabric_advance(step_ns);
    step_ns = did ? TURN_NS : vbn_min(2 * step_ns, (uint64_t)TURN_MAX_NS);
}

void pair_pass(uint64_t ms)
{
    uint64_t end = fabric_now_ns() + ms * UNIT_MS;

    while (fabric_now_ns() < end)
        pair_turn();
}

void pair_until(bool (*done)(void), uint64_t ms)
{
    uint64_t end = fabric_now_ns() + ms * UNIT_MS;

    while (!done()) {
        pair_turn();
        if (fabric_now_ns() >= end)
            fail_msg("not finished within %llu ms", (unsigned long long)ms);
    }
}

bool pair_quiet(void)
{
    for (int a = 0; a < sides; a++)
        for (int b = 0; b < sides; b++)
            if (side[b].ctx && side[a].sent[b] != side[b].got[a])
                return false;
    return true;
}

/* --- closing ---------------------------------------------------------------------------------- */

static bool all_shut(void)
{
    size_t left = 0;

    for (int i = 0; i < sides; i++) {
        if (!side[i].ctx)
            continue;
        fabric_enter(side[i].rank);
        left += vbn_shutdown(side[i].ctx);
    }
    return !left;
}

int pair_close_side(int n, uint64_t *ns)
{
    uint64_t start = fabric_now_ns();
    vbn_context_t *ctx = side[n].ctx;
    int rc;

    side[n].ctx = NULL;
    fabric_enter(side[n].rank);
    blocking = n;
    rc = vbn_close(ctx);
    blocking = -1;
    if (ns)
        *ns = fabric_now_ns() - start;
    return rc;
}

void pair_close(void)
{
    pair_until(all_shut, 5000);
    for (int i = 0; i < sides; i++)
        if (side[i].ctx)
            assert_int_equal(pair_close_side(i, NULL), VBN_OK);
}

int pair_teardown(void **state)
{
    (void)state;
    blocking = -1;
    for (int i = 0; i < sides; i++)
        if (side[i].ctx)
            pair_close_side(i, NULL);
    assert_int_equal(fabric_destroy(), 0);
    return 0;
}
