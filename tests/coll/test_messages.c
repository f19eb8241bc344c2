/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages and bytes that rc is given to send on the simulated fabric: as many as theory says, for
 * every algorithm. By cmocka for some numbers of ranks, and with segments that are asked for, too;
 *
 *     test_messages A..B
 *
 * prints a line for each algorithm, summed up over A to B ranks (64 at most).
 */
#include "coll_unit.h"
#include "fan.h"
#include "sim_job.h"

#include "algorithms.h"
#include "peers.h"

#include "../sim/fabric.h"

#define RANKS 64u
#define BLOCK 3u /* elements, of operations with a block a rank */

/* Bytes, of those that are cut: what count_of() says makes several, all of one length. */
#define SEGMENT(size) (8 * (size_t)(size))

/* What went out, of one call or of several. */
struct tally {
    uint64_t messages, bytes; /* of all ranks */
    uint64_t busiest;         /* messages of the busiest rank, added up over the calls */
};

static struct vbn_transport counted; /* rc, with sends that count; one to the group is one */
static struct tally tally;
static uint64_t by_rank[RANKS];
static uint32_t current; /* the rank that runs */

static int (*cast)(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                   struct vbn_op *op);

/* A message of LEN bytes that sending ended with STATUS. */
static int count(int status, size_t len)
{
    if (status < 0)
        return status;
    tally.messages++;
    tally.bytes += len;
    by_rank[current]++;
    return status;
}

static int count_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag,
                      struct vbn_op *op)
{
    return count(vbn_rc_transport()->send(peer, buf, len, tag, op), len);
}

static int count_cast(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                      struct vbn_op *op)
{
    return count(cast(group, buf, len, tag, op), len);
}

static void enter(struct sim_job *job, uint32_t rank)
{
    sim_job_enter(job, rank);
    current = rank;
}

/* One call on all ranks of a new team. */
struct call {
    struct sim_job *job;
    uint32_t size;
    size_t segment; /* bytes; 0: by the model */
    size_t counts[RANKS];
    vbn_team_t *teams[RANKS];
    vbn_coll_req_t *reqs[RANKS];
    char *in[RANKS], *out[RANKS];
};

static size_t count_of(enum vbn_coll coll, uint32_t size)
{
    if (coll == VBN_COLL_BARRIER)
        return 0;
    if (coll == VBN_COLL_BCAST || coll == VBN_COLL_REDUCE || coll == VBN_COLL_ALLREDUCE ||
        coll == VBN_COLL_SCAN || coll == VBN_COLL_EXSCAN)
        return (size_t)size * vbn_pow2_floor(size); /* cut evenly by all */
    return BLOCK;
}

static void start(struct call *c, const struct vbn_algorithm *algorithm, uint32_t rank)
{
    struct vbn_team_options options;
    struct vbn_error err = {.text = ""};
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = algorithm->coll,
                                 .sendbuf = c->in[rank],
                                 .recvbuf = c->out[rank],
                                 .count = count_of(algorithm->coll, c->size),
                                 .sendcounts = c->counts,
                                 .recvcounts = c->counts,
                                 .dtype = VBN_INT64,
                                 .op = VBN_SUM};
    char rule[80];
    int len =
        snprintf(rule, sizeof(rule), "%s=%s", vbn_coll_name(algorithm->coll), algorithm->name);

    if (c->segment)
        snprintf(rule + len, sizeof(rule) - (size_t)len, "/%zu", c->segment);
    vbn_team_options_init(&options, sizeof(options));
    options.rules = rule;
    enter(c->job, rank);
    if (vbn_team_create(&counted, c->job->ranks[rank].port, c->job->ranks[rank].peers, c->size,
                        rank, 1, &options, &c->teams[rank], &err) != VBN_OK)
        fail_msg("%s, %u ranks: %s", rule, c->size, err.text);
    if (algorithm->limits & VBN_ALGO_GROUP)
        fan_give(c->teams[rank]);
    if (vbn_coll_init(c->teams[rank], &args, &c->reqs[rank], &err) != VBN_OK)
        fail_msg("%s, %u ranks: %s", rule, c->size, err.text);
    assert_string_equal(vbn_coll_chosen(c->reqs[rank]), algorithm->name);
    assert_int_equal(vbn_coll_start(c->reqs[rank]), VBN_OK);
}

/* Turns until all ranks are through. */
static void finish(struct call *c)
{
    uint32_t pending = c->size;

    for (unsigned turn = 0; pending; turn++) {
        if (turn > 1000000)
            fail_msg("%u of %u ranks do not come to an end", pending, c->size);
        sim_job_turn(c->job);
        pending = 0;
        for (uint32_t r = 0; r < c->size; r++) {
            int status;

            enter(c->job, r);
            status = vbn_coll_test(c->reqs[r]);
            if (status < 0)
                fail_msg("rank %u of %u: %s", r, c->size, vbn_coll_error(c->reqs[r]));
            pending += status == VBN_PENDING;
        }
    }
}

static void clear(struct call *c)
{
    for (uint32_t r = 0; r < c->size; r++) {
        enter(c->job, r);
        vbn_coll_free(c->reqs[r]);
        assert_int_equal(vbn_team_destroy(c->teams[r]), VBN_OK);
        if (by_rank[r] > by_rank[0])
            by_rank[0] = by_rank[r];
    }
    tally.busiest += by_rank[0];
    memset(by_rank, 0, sizeof(by_rank));
}

static void expect(const struct vbn_algorithm *algorithm, uint32_t size, const char *what,
                   double found, double theory)
{
    if (found - theory > 1e-6 * (theory + 1) || theory - found > 1e-6 * (theory + 1))
        fail_msg("%s=%s, %u ranks: %.0f %s, by theory %.0f", vbn_coll_name(algorithm->coll),
                 algorithm->name, size, found, what, theory);
}

/* False: the algorithm is not for so many ranks. Adds what was counted to *SUM. */
static bool check(struct call *c, const struct vbn_algorithm *algorithm, struct tally *sum)
{
    struct vbn_call call = {.coll = algorithm->coll,
                            .size = c->size,
                            .group = true,
                            .elem = 8,
                            .count = count_of(algorithm->coll, c->size),
                            .commutative = true,
                            .alpha_ns = VBN_ALPHA_NS,
                            .beta_ns = VBN_BETA_PS / 1e3};
    struct vbn_coll_cost theory;

    if (!vbn_algorithm_fits(algorithm, &call))
        return false;
    call.param = vbn_algorithm_param(algorithm, c->size, c->segment);
    theory = vbn_algorithm_cost(algorithm, &call);
    memset(&tally, 0, sizeof(tally));
    for (uint32_t r = 0; r < c->size; r++)
        start(c, algorithm, r);
    finish(c);
    clear(c);
    expect(algorithm, c->size, "messages of all ranks", (double)tally.messages,
           theory.all_messages);
    expect(algorithm, c->size, "bytes of all ranks", (double)tally.bytes, theory.all_bytes);
    expect(algorithm, c->size, "messages of the busiest rank", (double)tally.busiest,
           theory.messages);
    sum->messages += tally.messages;
    sum->bytes += tally.bytes;
    sum->busiest += tally.busiest;
    return true;
}

static void open_call(struct call *c)
{
    const size_t room = (size_t)RANKS * RANKS * 8;

    counted = fan_table(vbn_rc_transport());
    cast = counted.group_send;
    counted.group_send = count_cast;
    counted.send = count_send;
    memset(c, 0, sizeof(*c));
    c->job = sim_job_open(RANKS, 1, SIM_CROWD);
    assert_non_null(c->job);
    for (uint32_t r = 0; r < RANKS; r++) {
        c->counts[r] = BLOCK;
        c->in[r] = calloc(1, room);
        c->out[r] = calloc(1, room);
    }
}

static void close_call(struct call *c)
{
    assert_int_equal(sim_job_close(c->job), 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        free(c->in[r]);
        free(c->out[r]);
    }
}

static void all_is_counted_as_theory_says(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33, 64};
    struct tally sum = {0};
    struct call c;

    (void)state;
    open_call(&c);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (const struct vbn_algorithm *const *a = vbn_algorithms; *a; a++) {
            c.size = sizes[i];
            c.segment = 0;
            check(&c, *a, &sum);
            c.segment = SEGMENT(c.size);
            if ((*a)->limits & VBN_ALGO_SEGMENT)
                check(&c, *a, &sum);
        }
    assert_true(sum.messages > 0);
    close_call(&c);
}

/* --- by arguments ----------------------------------------------------------------------------- */

static uint32_t first_size, last_size;

static void print_counts(void **state)
{
    struct call c;

    (void)state;
    open_call(&c);
    printf("# %u to %u ranks: messages and bytes of all ranks, messages of the busiest, counted; "
           "all equal to theory\n",
           first_size, last_size);
    for (const struct vbn_algorithm *const *a = vbn_algorithms; *a; a++) {
        struct tally sum = {0};
        unsigned sizes = 0;

        for (c.size = first_size; c.size <= last_size; c.size++)
            sizes += check(&c, *a, &sum);
        printf("# %-22s %-20s %3u sizes %9llu %12llu %7llu\n", vbn_coll_name((*a)->coll),
               (*a)->name, sizes, (unsigned long long)sum.messages, (unsigned long long)sum.bytes,
               (unsigned long long)sum.busiest);
    }
    c.size = RANKS;
    close_call(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_counted_as_theory_says)};
    const struct CMUnitTest counts[] = {cmocka_unit_test(print_counts)};

    if (argc == 1)
        return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
    if (argc == 2 && sscanf(argv[1], "%u..%u", &first_size, &last_size) == 2 && first_size >= 2 &&
        first_size <= last_size && last_size <= RANKS)
        return cmocka_run_group_tests_name("messages", counts, NULL, NULL);
    fprintf(stderr, "usage: test_messages [A..B], from 2 to %u ranks\n", RANKS);
    return 2;
}
