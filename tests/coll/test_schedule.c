/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules without a network, for 2 to 64 ranks: every send has its receive, memory is not used
 * twice at a time, messages and bytes are as many as theory says, and so is the time that the
 * model's clock shows.
 */
#include "coll_unit.h"

#include "algorithms.h"
#include "peers.h"

#define RANKS 64u

struct job {
    struct vbn_call call;
    const struct vbn_algorithm *algorithm;
    struct vbn_sched sched[RANKS];
    size_t *arrays; /* for the v operations */
    char name[120];
};

static bool reads(const struct vbn_step *s)
{
    return s->kind != VBN_STEP_RECV && s->kind != VBN_STEP_END;
}

static bool overlap(struct vbn_at a, size_t a_len, struct vbn_at b, size_t b_len)
{
    return a.place == b.place && a.off < b.off + b_len && b.off < a.off + a_len;
}

static bool writes_to(const struct vbn_step *s, struct vbn_at at, size_t len)
{
    return !vbn_step_sends(s) && s->kind != VBN_STEP_END && overlap(s->to, s->len, at, len);
}

static bool touches(const struct vbn_step *s, struct vbn_at at, size_t len)
{
    return writes_to(s, at, len) || (reads(s) && overlap(s->from, s->len, at, len));
}

/* Equal blocks as arrays, for the operations that want them. */
static void set_arrays(struct job *job)
{
    struct vbn_call *call = &job->call;
    size_t *counts = job->arrays, *sums = counts + call->size;
    bool v = call->coll == VBN_COLL_REDUCE_SCATTER || call->coll == VBN_COLL_ALLGATHERV ||
             call->coll == VBN_COLL_GATHERV || call->coll == VBN_COLL_SCATTERV ||
             call->coll == VBN_COLL_ALLTOALLV;

    if (!v)
        return;
    for (uint32_t i = 0; i <= call->size; i++) {
        if (i < call->size)
            counts[i] = call->count;
        sums[i] = call->count * i;
    }
    call->recv_counts = call->send_counts = counts;
    call->recv_displs = call->send_displs = call->packed = sums;
}

static bool cut_by_blocks(enum vbn_coll coll)
{
    return coll == VBN_COLL_BCAST || coll == VBN_COLL_REDUCE || coll == VBN_COLL_ALLREDUCE ||
           coll == VBN_COLL_SCAN || coll == VBN_COLL_EXSCAN;
}

static bool only_at_root(enum vbn_coll coll)
{
    return coll == VBN_COLL_REDUCE || coll == VBN_COLL_GATHER || coll == VBN_COLL_GATHERV ||
           coll == VBN_COLL_SCATTER || coll == VBN_COLL_SCATTERV;
}

static size_t radix; /* 0: the algorithm's own */

enum { ORDERED = 1, IN_PLACE = 2, KINDS = 4 };

static bool job_make(struct job *job, const struct vbn_algorithm *algorithm, uint32_t size,
                     uint32_t root, unsigned kind, size_t count)
{
    struct vbn_call *call = &job->call;

    memset(job, 0, sizeof(*job));
    job->algorithm = algorithm;
    *call = (struct vbn_call){.coll = algorithm->coll,
                              .size = size,
                              .root = root,
                              .group = true,
                              .commutative = !(kind & ORDERED),
                              .elem = 8,
                              .alpha_ns = 1000,
                              .beta_ns = 1};
    call->count = cut_by_blocks(call->coll) ? (size_t)4 * size * vbn_pow2_floor(size) : 3;
    if (count)
        call->count = count;
    if (call->coll == VBN_COLL_BARRIER)
        call->count = 0;
    call->param =
        vbn_algorithm_param(algorithm, size, algorithm->limits & VBN_ALGO_RADIX ? radix : 0);
    if (algorithm->limits & VBN_ALGO_SEGMENT)
        call->param = (call->count * call->elem + 3) / 4;
    if (!vbn_algorithm_fits(algorithm, call))
        return false;
    job->arrays = calloc(2 * size + 1, sizeof(size_t));
    set_arrays(job);
    snprintf(job->name, sizeof(job->name), "%s=%s, %u ranks, root %u%s%s",
             vbn_coll_name(call->coll), algorithm->name, size, root,
             kind & IN_PLACE ? ", in place" : "", kind & ORDERED ? ", not commutative" : "");
    for (uint32_t r = 0; r < size; r++) {
        call->rank = r;
        call->in_place = (kind & IN_PLACE) && (r == root || !only_at_root(call->coll));
        vbn_sched_reset(&job->sched[r], SIZE_MAX);
        algorithm->build(&job->sched[r], call);
        assert_false(job->sched[r].failed);
    }
    return true;
}

static void job_free(struct job *job)
{
    for (uint32_t r = 0; r < job->call.size; r++)
        vbn_sched_fini(&job->sched[r]);
    free(job->arrays);
}

/* Whether OTHER may be the other side of rank R's message S: those are matched in their order. */
static bool answers(const struct vbn_step *other, const struct vbn_step *s, uint32_t r)
{
    if (other->tag != s->tag || !vbn_step_is_message(other))
        return false;
    if (s->kind == VBN_STEP_RECV && s->by_cast)
        return other->kind == VBN_STEP_CAST;
    if (other->peer != r || vbn_step_sends(other) == vbn_step_sends(s))
        return false;
    return s->kind == VBN_STEP_RECV ? other->kind == VBN_STEP_SEND
                                    : other->by_cast == (s->kind == VBN_STEP_CAST);
}

/* Whether A and B are matched in their order. */
static bool are_alike(const struct vbn_step *a, const struct vbn_step *b)
{
    return a->kind == b->kind && a->tag == b->tag && a->peer == b->peer && a->by_cast == b->by_cast;
}

/* Which step of PEER's is the other side of step I of rank R; the count of its steps: none. */
static size_t other_at(const struct job *job, uint32_t r, size_t i, uint32_t peer)
{
    const struct vbn_step *mine = job->sched[r].steps;
    const struct vbn_sched *theirs = &job->sched[peer];
    size_t before = 0, at;

    for (size_t k = 0; k < i; k++)
        before += are_alike(&mine[k], &mine[i]);
    for (at = 0; at < theirs->count; at++)
        if (answers(&theirs->steps[at], &mine[i], r) && before-- == 0)
            break;
    return at;
}

/* The N-th send from R to PEER with a tag has the N-th receive there, of its length. */
static void check_partner(const struct job *job, uint32_t r, size_t i, uint32_t peer)
{
    const struct vbn_step *s = &job->sched[r].steps[i];
    size_t at = other_at(job, r, i, peer);

    if (at == job->sched[peer].count || job->sched[peer].steps[at].len != s->len)
        fail_msg("%s: step %zu of rank %u, tag %u with rank %u of %zu bytes, has no partner",
                 job->name, i, r, s->tag, peer, s->len);
}

static void check_partners(const struct job *job, uint32_t r, size_t i)
{
    const struct vbn_step *s = &job->sched[r].steps[i];

    if (s->kind != VBN_STEP_CAST)
        check_partner(job, r, i, s->peer);
    for (uint32_t peer = 0; peer < job->call.size && s->kind == VBN_STEP_CAST; peer++)
        if (peer != r)
            check_partner(job, r, i, peer);
}

/* What is cast and what is sent are in no order: their tags differ. */
static void check_tags(const struct job *job, uint32_t r, size_t i)
{
    const struct vbn_step *steps = job->sched[r].steps, *s = &steps[i];

    for (size_t k = 0; k < i && s->kind == VBN_STEP_RECV; k++)
        if (steps[k].kind == VBN_STEP_RECV && steps[k].peer == s->peer && steps[k].tag == s->tag &&
            steps[k].by_cast != s->by_cast)
            fail_msg("%s: steps %zu and %zu of rank %u may each take the other's message",
                     job->name, k, i, r);
}

/*
 * Memory of a receive is touched by no other message of its round, and where it is early by nothing
 * before. Memory of a send is written by no receive of its round, and where it is late by nothing
 * that follows.
 */
static void check_memory(const struct job *job, uint32_t r, size_t i)
{
    const struct vbn_step *steps = job->sched[r].steps, *s = &steps[i];
    bool same_round = true;

    if (s->len && ((s->to.place == VBN_AT_TMP && s->to.off + s->len > job->sched[r].tmp_len) ||
                   (s->from.place == VBN_AT_TMP && s->from.off + s->len > job->sched[r].tmp_len)))
        fail_msg("%s: step %zu of rank %u goes beyond its scratch", job->name, i, r);

    for (size_t k = i + 1; s->when == VBN_LATE && k < job->sched[r].count; k++)
        if (writes_to(&steps[k], s->from, s->len))
            fail_msg("%s: rank %u writes in step %zu to what step %zu sends", job->name, r, k, i);
    if (s->kind != VBN_STEP_RECV)
        return;
    for (size_t k = i; k-- > 0;) {
        same_round = same_round && steps[k].kind != VBN_STEP_END;
        if (same_round ? vbn_step_is_message(&steps[k]) && touches(&steps[k], s->to, s->len)
                       : s->when == VBN_EARLY && touches(&steps[k], s->to, s->len))
            fail_msg("%s: rank %u receives in step %zu to memory of step %zu", job->name, r, i, k);
    }
    for (size_t k = i + 1; steps[k].kind != VBN_STEP_END; k++)
        if (vbn_step_is_message(&steps[k]) && touches(&steps[k], s->to, s->len))
            fail_msg("%s: rank %u receives in step %zu to memory of step %zu", job->name, r, i, k);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* What rank R does. */
static struct vbn_coll_cost count_rank(const struct job *job, uint32_t r)
{
    struct vbn_coll_cost mine = {0};

    for (size_t i = 0; i < job->sched[r].count; i++) {
        const struct vbn_step *s = &job->sched[r].steps[i];

        mine.messages += vbn_step_sends(s);
        mine.bytes += vbn_step_sends(s) ? (double)s->len : 0;
        mine.reduced += s->kind == VBN_STEP_REDUCE ? (double)s->len : 0;
        mine.copied += s->kind == VBN_STEP_COPY ? (double)s->len : 0;
    }
    return mine;
}

/* What the busiest ranks do, and all together. */
static struct vbn_coll_cost count_steps(const struct job *job)
{
    struct vbn_coll_cost cost = {0};

    for (uint32_t r = 0; r < job->call.size; r++) {
        struct vbn_coll_cost mine = count_rank(job, r);

        cost.messages = larger(cost.messages, mine.messages);
        cost.bytes = larger(cost.bytes, mine.bytes);
        cost.reduced = larger(cost.reduced, mine.reduced);
        cost.copied = larger(cost.copied, mine.copied);
        cost.all_messages += mine.messages;
        cost.all_bytes += mine.bytes;
    }
    return cost;
}

static bool near(double a, double b)
{
    return a - b < 1e-6 * (a + 1) && b - a < 1e-6 * (b + 1);
}

static void check_theory(const struct job *job)
{
    struct vbn_coll_cost theory = vbn_algorithm_cost(job->algorithm, &job->call);
    struct vbn_coll_cost found = count_steps(job);
    double own = (double)job->call.count * (double)job->call.elem;
    bool blocks = job->call.coll == VBN_COLL_REDUCE_SCATTER ||
                  job->call.coll == VBN_COLL_REDUCE_SCATTER_BLOCK;

    own *= blocks ? job->call.size : 1;

    if (found.copied > theory.copied + own || found.copied < theory.copied - own)
        fail_msg("%s: %g bytes copied; theory has %g", job->name, found.copied, theory.copied);
    if (!near(theory.all_messages, found.all_messages) || !near(theory.all_bytes, found.all_bytes))
        fail_msg("%s: %g messages of all, %g bytes; theory has %g, %g", job->name,
                 found.all_messages, found.all_bytes, theory.all_messages, theory.all_bytes);
    if (!near(theory.messages, found.messages) || !near(theory.bytes, found.bytes) ||
        !near(theory.reduced, found.reduced))
        fail_msg("%s: %g messages, %g bytes, %g reduced; theory has %g, %g, %g", job->name,
                 found.messages, found.bytes, found.reduced, theory.messages, theory.bytes,
                 theory.reduced);
}

typedef void (*check_fn)(const struct job *job);

/*
 * Every algorithm, for numbers of ranks up to LAST, from every kind of root. COUNT 0: elements that
 * can be cut evenly.
 */
static void for_all(uint32_t last, check_fn check, bool roots, size_t count)
{
    static struct job job;

    for (const struct vbn_algorithm *const *a = vbn_algorithms; *a; a++)
        for (uint32_t size = 2; size <= last; size++)
            for (uint32_t root = 0; root < (roots ? size : 1); root += size / 2 + 1)
                for (unsigned kind = 0; kind < (roots ? KINDS : 1); kind++) {
                    if (!job_make(&job, *a, size, root, kind, count))
                        continue;
                    check(&job);
                    job_free(&job);
                }
}

static void check_steps(const struct job *job)
{
    for (uint32_t r = 0; r < job->call.size; r++)
        for (size_t i = 0; i < job->sched[r].count; i++) {
            if (vbn_step_is_message(&job->sched[r].steps[i]))
                check_partners(job, r, i);
            check_tags(job, r, i);
            check_memory(job, r, i);
        }
}

static void messages_have_partners_and_memory(void **state)
{
    (void)state;
    for_all(33, check_steps, true, 0);
    for (size_t count = 1; count < 6; count++) /* fewer than ranks */
        for_all(17, check_steps, true, count);
}

static void messages_and_bytes_are_theory_s(void **state)
{
    (void)state;
    for_all(RANKS, check_theory, false, 0);
}

/* --- the model's clock: a rank sends one message after another, and receives one after another -
 */

struct clock {
    const struct job *job;
    double latency, alpha, beta;
    double time[RANKS];
    size_t at[RANKS];    /* the round each rank is in */
    double *sent[RANKS]; /* when each step's message had left; -1: it has not */
};

/* When the partner of receive I of rank R had left; -1: not yet. */
static double left_at(const struct clock *c, uint32_t r, size_t i)
{
    uint32_t peer = c->job->sched[r].steps[i].peer;

    return c->sent[peer][other_at(c->job, r, i, peer)];
}

static void send_round(struct clock *c, uint32_t r)
{
    const struct vbn_sched *sched = &c->job->sched[r];
    double now = c->time[r];

    for (size_t i = c->at[r]; sched->steps[i].kind != VBN_STEP_END; i++)
        if (vbn_step_sends(&sched->steps[i])) {
            now += c->alpha + c->beta * (double)sched->steps[i].len;
            c->sent[r][i] = now;
        }
}

/* True when rank R's round is over, and the next begun. */
static bool end_round(struct clock *c, uint32_t r)
{
    const struct vbn_sched *sched = &c->job->sched[r];
    double now = c->time[r], taken = c->time[r]; /* it sends and receives at a time */
    size_t i;

    for (i = c->at[r]; sched->steps[i].kind != VBN_STEP_END; i++) {
        const struct vbn_step *s = &sched->steps[i];
        double left = s->kind == VBN_STEP_RECV ? left_at(c, r, i) : c->sent[r][i];

        if (!vbn_step_is_message(s))
            continue;
        if (left < 0)
            return false;
        if (s->kind == VBN_STEP_RECV)
            left = taken = larger(left + c->latency, taken + c->alpha + c->beta * (double)s->len);
        now = larger(now, left);
    }
    c->time[r] = now;
    c->at[r] = i + 1;
    return true;
}

static double run_clock(const struct job *job, double latency, double alpha, double beta)
{
    struct clock c = {.job = job, .latency = latency, .alpha = alpha, .beta = beta};
    double last = 0;
    bool moved = true;

    for (uint32_t r = 0; r < job->call.size; r++) {
        c.sent[r] = malloc((job->sched[r].count + 1) * sizeof(double));
        for (size_t i = 0; i < job->sched[r].count; i++)
            c.sent[r][i] = -1;
        if (job->sched[r].count)
            send_round(&c, r);
    }
    while (moved) {
        moved = false;
        for (uint32_t r = 0; r < job->call.size; r++)
            while (c.at[r] < job->sched[r].count && end_round(&c, r)) {
                moved = true;
                if (c.at[r] < job->sched[r].count)
                    send_round(&c, r);
            }
    }
    for (uint32_t r = 0; r < job->call.size; r++) {
        assert_int_equal(c.at[r], job->sched[r].count); /* no rank waits for ever */
        last = larger(last, c.time[r]);
        free(c.sent[r]);
    }
    return last;
}

/* Latency alone, messages alone, bytes alone: no more than theory has, and not much less. */
static void check_clock(const struct job *job)
{
    struct vbn_coll_cost theory = vbn_algorithm_cost(job->algorithm, &job->call);
    double depth = run_clock(job, 1, 0, 0), rounds = run_clock(job, 0, 1, 0),
           bytes = run_clock(job, 0, 0, 1);

    if (getenv("VBN_COLL_RATIOS"))
        printf("# %s: depth %g of %g, rounds %g of %g, bytes %g of %g\n", job->name, depth,
               theory.depth, rounds, theory.rounds, bytes, theory.path_bytes);
    if (depth > theory.depth || depth < 0.6 * theory.depth - 1)
        fail_msg("%s: a chain of %g messages; theory has %g", job->name, depth, theory.depth);
    if (rounds > theory.rounds + 1e-6 || rounds < 0.6 * theory.rounds - 1 ||
        bytes > theory.path_bytes * (1 + 1e-6) || bytes < 0.45 * theory.path_bytes)
        fail_msg("%s: %g rounds and %g bytes on the longest path; theory has %g and %g", job->name,
                 rounds, bytes, theory.rounds, theory.path_bytes);
}

static void longest_paths_are_theory_s(void **state)
{
    (void)state;
    for_all(33, check_clock, false, 0);
}

static void check_tree(const struct job *job)
{
    struct vbn_coll_cost theory = vbn_algorithm_cost(job->algorithm, &job->call);
    double rounds = run_clock(job, 0, 1, 0);

    if (strcmp(job->algorithm->name, "knomial") == 0 && !near(rounds, theory.rounds))
        fail_msg("%s, radix %zu: %g rounds; theory has %g", job->name, job->call.param, rounds,
                 theory.rounds);
}

/* Exactly, also where the tree is not full. */
static void rounds_of_trees_of_all_radices_are_theory_s(void **state)
{
    (void)state;
    for (radix = 2; radix <= 9; radix++)
        for_all(33, check_tree, false, 0);
    radix = 0;
}

/* Costs are to be had for more ranks than there are. */
static void costs_reach_to_many_ranks(void **state)
{
    struct vbn_coll_cost cost;

    (void)state;
    for (int coll = 0; coll < VBN_COLL_COUNT; coll++)
        for (unsigned i = 0; vbn_coll_algorithm((enum vbn_coll)coll, i); i++) {
            bool casts = vbn_algorithm_at((enum vbn_coll)coll, i)->limits & VBN_ALGO_GROUP;
            int status = vbn_coll_predict((enum vbn_coll)coll, i, 100000, 1000, 8, 0, &cost);

            assert_int_equal(status, casts ? VBN_ERR_INVALID : VBN_OK);
            assert_true(casts || (cost.rounds >= 16 && cost.messages >= 1));
        }
    assert_int_equal(vbn_coll_predict(VBN_COLL_ALLREDUCE, 0, 100000, 1, 8, 0, &cost), VBN_OK);
    assert_true(near(cost.rounds, 16 + 2)); /* recursive doubling of 65536, and the fold */
    assert_int_equal(vbn_coll_predict(VBN_COLL_ALLREDUCE, 99, 8, 1, 8, 0, &cost), VBN_ERR_INVALID);
    assert_int_equal(vbn_coll_predict(VBN_COLL_ALLREDUCE, 0, 0, 1, 8, 0, &cost), VBN_ERR_INVALID);
}

static void a_schedule_without_memory_says_so(void **state)
{
    struct vbn_sched sched = {0};

    (void)state;
    vbn_sched_reset(&sched, 10);
    vbn_sched_tmp(&sched, SIZE_MAX);
    assert_true(sched.failed);
    vbn_sched_reset(&sched, 10);
    assert_false(sched.failed);
    vbn_sched_send(&sched, 1, vbn_at(VBN_AT_SEND, 5), 25, VBN_STEP_TAGS + 2);
    vbn_sched_end(&sched);
    vbn_sched_end(&sched);
    assert_int_equal(sched.count, 4); /* three pieces and one end */
    assert_int_equal(sched.steps[2].from.off, 25);
    assert_int_equal(sched.steps[2].len, 5);
    assert_int_equal(sched.steps[2].tag, 2);
    assert_int_equal(sched.max_round_messages, 3);
    vbn_sched_fini(&sched);
}

/* As sends and receives are. */
static void casts_are_cut_and_left_out(void **state)
{
    struct vbn_sched sched = {0};

    (void)state;
    vbn_sched_reset(&sched, 10);
    vbn_sched_cast(&sched, vbn_at(VBN_AT_SEND, 5), 0, 1);
    vbn_sched_cast(&sched, vbn_at(VBN_AT_SEND, 5), 25, VBN_STEP_TAGS + 2);
    vbn_sched_recv_cast(&sched, 3, vbn_at(VBN_AT_RECV, 7), 11, 4, false);
    vbn_sched_await_cast(&sched, 3, 5);
    vbn_sched_cast_signal(&sched, 6);
    vbn_sched_end(&sched);
    vbn_sched_seal(&sched);
    assert_int_equal(sched.count, 3 + 2 + 1 + 1 + 1);
    assert_int_equal(sched.steps[2].kind, VBN_STEP_CAST);
    assert_int_equal(sched.steps[2].from.off, 25);
    assert_int_equal(sched.steps[2].len, 5);
    assert_int_equal(sched.steps[2].tag, 2);
    assert_int_equal(sched.steps[4].to.off, 17);
    assert_int_equal(sched.steps[4].len, 1);
    assert_true(sched.steps[4].by_cast && sched.steps[5].by_cast);
    assert_int_equal(sched.steps[5].when, VBN_EARLY);
    assert_int_equal(sched.steps[6].kind, VBN_STEP_CAST);
    assert_int_equal(sched.max_round_messages, 3 + 2 + 1);
    assert_int_equal(sched.steps[0].round_has, VBN_ROUND_SENDS | VBN_ROUND_RECVS);
    vbn_sched_fini(&sched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_have_partners_and_memory),
        cmocka_unit_test(messages_and_bytes_are_theory_s),
        cmocka_unit_test(longest_paths_are_theory_s),
        cmocka_unit_test(rounds_of_trees_of_all_radices_are_theory_s),
        cmocka_unit_test(costs_reach_to_many_ranks),
        cmocka_unit_test(a_schedule_without_memory_says_so),
        cmocka_unit_test(casts_are_cut_and_left_out),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
