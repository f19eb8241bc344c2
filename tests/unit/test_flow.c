/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits: pure arithmetic, so a model of two sides and the way between them can be played through.
 */
#include "unit.h"

#include "flow.h"
#include "wire.h"

static void starts_from_both_grants(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 16, 8);
    assert_int_equal(vbn_flow_credits(&f), 8);
    assert_int_equal(vbn_flow_untold(&f), 0);
    assert_false(vbn_flow_ack_due(&f));
}

static void last_credit_is_for_acknowledgements(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 16, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(vbn_flow_may_send(&f));
        vbn_flow_sent(&f);
    }
    assert_int_equal(vbn_flow_credits(&f), 1);
    assert_false(vbn_flow_may_send(&f));
    assert_true(vbn_flow_may_ack(&f));
    vbn_flow_sent(&f);
    assert_false(vbn_flow_may_ack(&f));
    assert_true(vbn_flow_received(&f, 5));
    assert_true(vbn_flow_may_ack(&f));
    assert_false(vbn_flow_may_send(&f));
    assert_true(vbn_flow_received(&f, 6));
    assert_true(vbn_flow_may_send(&f));
}

static void grant_counts_what_was_received(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 8, 8);
    assert_true(vbn_flow_received(&f, 8));
    assert_true(vbn_flow_received(&f, 8));
    assert_int_equal(vbn_flow_untold(&f), 2);
    assert_int_equal(vbn_flow_sent(&f), 10);
    assert_int_equal(vbn_flow_untold(&f), 0);
}

static void acknowledgement_due_at_half_the_window(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 8, 8);
    for (int i = 0; i < 3; i++)
        assert_true(vbn_flow_received(&f, 8));
    assert_false(vbn_flow_ack_due(&f));
    assert_true(vbn_flow_received(&f, 8));
    assert_true(vbn_flow_ack_due(&f));
    vbn_flow_sent(&f);
    assert_false(vbn_flow_ack_due(&f));
}

/* --- violations: each is refused and changes nothing ------------------------------------------ */

static void refused(struct vbn_flow *f, uint16_t grant)
{
    struct vbn_flow before = *f;

    assert_false(vbn_flow_received(f, grant));
    assert_memory_equal(f, &before, sizeof(before));
}

static void more_messages_than_granted(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 4, 8);
    for (int i = 0; i < 4; i++)
        assert_true(vbn_flow_received(&f, 8));
    refused(&f, 8);
    vbn_flow_sent(&f); /* tells of four more */
    for (int i = 0; i < 4; i++)
        assert_true(vbn_flow_received(&f, 9));
    refused(&f, 9);
}

static void grant_beyond_any_window(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 8, 8);
    refused(&f, VBN_WINDOW_MAX + 1);
    refused(&f, 0x8000);
    vbn_flow_sent(&f);
    assert_true(vbn_flow_received(&f, VBN_WINDOW_MAX + 1)); /* a window may grow so far */
    refused(&f, VBN_WINDOW_MAX + 2);
}

static void grant_taken_back(void **state)
{
    struct vbn_flow f;

    (void)state;
    vbn_flow_init(&f, 8, 8);
    refused(&f, 7);
    refused(&f, 0);
    for (int i = 0; i < 3; i++)
        vbn_flow_sent(&f);
    assert_true(vbn_flow_received(&f, 10));
    refused(&f, 9);
    refused(&f, 2);                         /* below what was sent */
    assert_true(vbn_flow_received(&f, 10)); /* repeated: does no harm */
}

static void every_grant_at_every_offset(void **state)
{
    (void)state;
    for (unsigned sent = 0; sent <= 0x10100; sent += 0x55) {
        struct vbn_flow f;

        vbn_flow_init(&f, VBN_WINDOW_MAX, VBN_WINDOW_MAX);
        f.tx_count = (uint16_t)sent;
        f.tx_grant = (uint16_t)(sent + 100);
        for (unsigned grant = 0; grant < 0x10000; grant += 7) {
            struct vbn_flow g = f;
            unsigned beyond = (uint16_t)(grant - sent);

            assert_int_equal(vbn_flow_received(&g, (uint16_t)grant),
                             beyond >= 100 && beyond <= VBN_WINDOW_MAX);
        }
    }
}

/* --- two sides and a way that keeps the order ------------------------------------------------- */

#define WAY 32768

struct way {
    uint16_t grant[WAY];
    bool ack[WAY];
    unsigned head, count;
    const struct vbn_flow *to;
};

struct side {
    struct vbn_flow f;
    uint16_t window_max;
    uint64_t to_send, got; /* messages with a payload */
};

static void put(struct side *from, struct way *way, bool ack)
{
    unsigned at = (way->head + way->count++) % WAY;

    way->grant[at] = vbn_flow_sent(&from->f);
    way->ack[at] = ack;
    assert_true(way->count <= way->to->window); /* a buffer waits for each message under way */
}

static void take(struct side *to, struct way *way)
{
    unsigned at = way->head;

    way->head = (way->head + 1) % WAY;
    way->count--;
    to->got += !way->ack[at];
    assert_true(vbn_flow_received(&to->f, way->grant[at]));
}

/* One step of a side, as rx.c and tx.c take it: takes or sends, at random. False: it did neither.
 */
static bool step(struct side *s, struct way *in, struct way *out, uint64_t *rng)
{
    bool did = false;

    if (in->count && unit_random(rng) % 2) {
        take(s, in);
        if (vbn_flow_ack_due(&s->f) && s->f.window < s->window_max)
            s->f.window++;
        if (vbn_flow_ack_due(&s->f) && vbn_flow_may_ack(&s->f))
            put(s, out, true);
        did = true;
    }
    if (s->to_send && vbn_flow_may_send(&s->f) && unit_random(rng) % 2) {
        s->to_send--;
        put(s, out, false);
        did = true;
    }
    return did;
}

static void play(uint16_t window_a, uint16_t window_b, uint64_t messages, uint64_t seed)
{
    static struct way ab, ba;
    uint16_t wider = seed % 2 ? 0 : 30;
    struct side a = {.to_send = messages, .window_max = (uint16_t)(window_a + wider)};
    struct side b = {.to_send = seed % 3 ? messages : 0,
                     .window_max = (uint16_t)(window_b + wider)};
    uint64_t want_a = b.to_send;
    unsigned idle = 0;

    memset(&ab, 0, sizeof(ab));
    memset(&ba, 0, sizeof(ba));
    ab.to = &b.f;
    ba.to = &a.f;
    vbn_flow_init(&a.f, window_a, window_b);
    vbn_flow_init(&b.f, window_b, window_a);
    /* Whoever waits for credits gets them, although acknowledgements are sent only when due. */
    while (a.to_send || b.to_send || ab.count || ba.count) {
        bool did = unit_random(&seed) % 2 ? step(&a, &ba, &ab, &seed) : step(&b, &ab, &ba, &seed);

        idle = did ? 0 : idle + 1;
        if (idle > 1000)
            fail_msg("deadlock: windows %u and %u; credits %u and %u, left %llu and %llu", window_a,
                     window_b, vbn_flow_credits(&a.f), vbn_flow_credits(&b.f),
                     (unsigned long long)a.to_send, (unsigned long long)b.to_send);
    }
    assert_int_equal(b.got, messages);
    assert_int_equal(a.got, want_a);
}

static void no_deadlock_at_any_window(void **state)
{
    uint64_t rng = 11;

    (void)state;
    for (uint16_t wa = VBN_WINDOW_MIN; wa < 20; wa++)
        for (uint16_t wb = VBN_WINDOW_MIN; wb < 20; wb += 3)
            for (int i = 0; i < 4; i++)
                play(wa, wb, 500, unit_random(&rng));
}

/* More messages than 16 bits count. */
static void counters_wrap(void **state)
{
    (void)state;
    play(VBN_WINDOW_MIN, VBN_WINDOW_MIN, 140000, 1);
    play(64, 64, 140000, 2);
    play(VBN_WINDOW_MAX, VBN_WINDOW_MAX, 140000, 4);
    play(VBN_WINDOW_MIN, VBN_WINDOW_MAX, 140000, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_from_both_grants),
        cmocka_unit_test(last_credit_is_for_acknowledgements),
        cmocka_unit_test(grant_counts_what_was_received),
        cmocka_unit_test(acknowledgement_due_at_half_the_window),
        cmocka_unit_test(more_messages_than_granted),
        cmocka_unit_test(grant_beyond_any_window),
        cmocka_unit_test(grant_taken_back),
        cmocka_unit_test(every_grant_at_every_offset),
        cmocka_unit_test(no_deadlock_at_any_window),
        cmocka_unit_test(counters_wrap),
    };

    return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
