/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams and requests: what is refused, rules, many at once, what goes wrong and how it is told. */
#include "coll_unit.h"
#include "fan.h"
#include "hash.h"
#include "loop.h"
#include "team.h"
#include "verbena_coll.h"

#include <math.h>

#define RANKS 6u

struct fixture {
    struct loop *loop;
    vbn_team_t *team[RANKS];
    struct vbn_error err;
    uint64_t now_ns;
    unsigned lines; /* logged */
    char line[700];
};

static void keep_line(void *arg, enum vbn_log_level level, const char *text)
{
    struct fixture *f = arg;

    (void)level;
    f->lines++;
    snprintf(f->line, sizeof(f->line), "%s", text);
}

static uint64_t fixture_clock(void *arg)
{
    struct fixture *f = arg;

    return f->now_ns += 1000000000; /* a second a look */
}

static struct vbn_team_options options(struct fixture *f)
{
    struct vbn_team_options opts;

    vbn_team_options_init(&opts, sizeof(opts));
    opts.callback_arg = f;
    opts.log = keep_line;
    opts.clock_ns = fixture_clock;
    return opts;
}

static void open_loop(struct fixture *f, const struct loop_options *opts)
{
    struct loop_options all = *opts;

    memset(f, 0, sizeof(*f));
    all.ports = RANKS;
    all.seed = all.seed ? all.seed : 7;
    f->loop = loop_create(&all);
}

static void open_teams(struct fixture *f, uint32_t size, uint32_t id,
                       const struct vbn_team_options *opts)
{
    for (uint32_t r = 0; r < size; r++)
        if (vbn_team_create(loop_table(), loop_port(f->loop, r), loop_peers(f->loop, r), size, r,
                            id, opts, &f->team[r], &f->err) != VBN_OK)
            fail_msg("%s", f->err.text);
}

static void open_all(struct fixture *f, const struct loop_options *loop, uint32_t size,
                     const char *rules)
{
    struct vbn_team_options opts;

    open_loop(f, loop);
    opts = options(f);
    opts.rules = rules;
    open_teams(f, size, 3, &opts);
}

static void close_teams(struct fixture *f)
{
    for (uint32_t r = 0; r < RANKS; r++)
        if (f->team[r])
            assert_int_equal(vbn_team_destroy(f->team[r]), VBN_OK);
    memset(f->team, 0, sizeof(f->team));
}

static void close_all(struct fixture *f)
{
    close_teams(f);
    assert_int_equal(loop_destroy(f->loop), 0);
}

static void poll_all(struct fixture *f)
{
    for (uint32_t r = 0; r < RANKS; r++)
        loop_table()->progress(loop_port(f->loop, r));
}

/* Until all are over; what each ended with in STATUS. NULL requests are left out. */
static void finish(struct fixture *f, vbn_coll_req_t **reqs, size_t n, int *status)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        left += reqs[i] != NULL;
    for (unsigned turn = 0; left; turn++) {
        assert_true(turn < 1000000);
        poll_all(f);
        for (size_t i = 0; i < n; i++) {
            if (!reqs[i])
                continue;
            status[i] = vbn_coll_test(reqs[i]);
            if (status[i] != VBN_PENDING) {
                reqs[i] = NULL;
                left--;
            }
        }
    }
}

static struct vbn_coll_args sum_args(const int32_t *in, int32_t *out, size_t count)
{
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_ALLREDUCE,
                                 .sendbuf = in,
                                 .recvbuf = out,
                                 .count = count,
                                 .dtype = VBN_INT32,
                                 .op = VBN_SUM};

    return args;
}

/* --- what is refused ------------------------------------------------------------------------- */

static void refused(struct fixture *f, const struct vbn_coll_args *args, const char *word)
{
    vbn_coll_req_t *req = NULL;

    f->err.text[0] = '\0';
    assert_int_equal(vbn_coll_init(f->team[0], args, &req, &f->err), VBN_ERR_INVALID);
    assert_null(req);
    if (!strstr(f->err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", f->err.text, word);
}

static void bad_calls_are_refused(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct vbn_user_op no_function = {0};
    int32_t in[8] = {0}, out[8] = {0};
    size_t counts[RANKS + 1] = {1, 2, 1, 1, 1, 1, 1}, huge[RANKS] = {1, SIZE_MAX / 2, 1, 1, 1, 1};
    struct vbn_coll_args good = sum_args(in, out, 1), bad;
    struct fixture f;

    (void)state;
    open_all(&f, &loop, RANKS, NULL);
    assert_int_equal(vbn_coll_init(f.team[0], NULL, NULL, NULL), VBN_ERR_INVALID);
    assert_int_equal(vbn_coll_init(NULL, &good, NULL, NULL), VBN_ERR_INVALID);
    bad = good, bad.size = 1, refused(&f, &bad, "size");
    bad = good, bad.coll = (enum vbn_coll)99, refused(&f, &bad, "no collective number 99");
    bad = good, bad.coll = VBN_COLL_BCAST, bad.root = RANKS, refused(&f, &bad, "root 6 of 6");
    bad = good, bad.dtype = (enum vbn_dtype)99, refused(&f, &bad, "type");
    bad = good, bad.dtype = VBN_FLOAT, bad.op = VBN_BAND,
    refused(&f, &bad, "band for elements of float");
    bad = good, bad.op = (enum vbn_op_kind)99, refused(&f, &bad, "operation");
    bad = good, bad.user_op = &no_function, refused(&f, &bad, "function");
    bad = good, bad.count = (size_t)-1, refused(&f, &bad, "negative");
    bad = good, bad.sendbuf = NULL, refused(&f, &bad, "sendbuf is NULL");
    bad = good, bad.recvbuf = NULL, refused(&f, &bad, "recvbuf is NULL");
    bad = good, bad.recvbuf = VBN_IN_PLACE, refused(&f, &bad, "in place");
    bad = good, bad.recvbuf = in, refused(&f, &bad, "VBN_IN_PLACE");
    bad = good, bad.coll = VBN_COLL_ALLGATHER, bad.count = SIZE_MAX / 16;
    refused(&f, &bad, "negative");
    bad = good, bad.coll = VBN_COLL_GATHER, bad.root = 1, bad.sendbuf = VBN_IN_PLACE;
    refused(&f, &bad, "in place");
    bad = good, bad.coll = VBN_COLL_ALLGATHERV, refused(&f, &bad, "counts is NULL");
    bad.recvcounts = huge, refused(&f, &bad, "larger than memory");
    bad.recvcounts = counts, bad.count = 2, refused(&f, &bad, "own entry");
    bad = good, bad.coll = VBN_COLL_REDUCE_SCATTER, bad.recvcounts = counts, bad.recvbuf = in;
    refused(&f, &bad, "VBN_IN_PLACE");
    bad.sendbuf = VBN_IN_PLACE, bad.recvbuf = NULL, refused(&f, &bad, "recvbuf is NULL");
    bad = good, bad.coll = VBN_COLL_ALLTOALLV, bad.recvcounts = counts, bad.sendcounts = counts + 1;
    refused(&f, &bad, "sends itself");
    assert_int_equal(vbn_allreduce(f.team[0], in, out, 1, VBN_DOUBLE_COMPLEX, VBN_MAX),
                     VBN_ERR_INVALID);
    assert_non_null(strstr(vbn_team_error(f.team[0]), "max"));
    assert_int_equal(loop_messages(f.loop), 0);
    close_all(&f);
}

/* --- what is not looked at ------------------------------------------------------------------- */

enum { THREE = 3 };

/* ARGS[i] is rank i's, of THREE. */
static void all_succeed(struct fixture *f, const struct vbn_coll_args *args)
{
    vbn_coll_req_t *req[THREE];
    int status[THREE];

    for (uint32_t r = 0; r < THREE; r++)
        if (vbn_coll_istart(f->team[r], &args[r], &req[r], &f->err) != VBN_OK)
            fail_msg("rank %u: %s", r, f->err.text);
    finish(f, req, THREE, status);
    for (uint32_t r = 0; r < THREE; r++)
        assert_int_equal(status[r], VBN_OK);
}

/* Of reduce_scatter a rank has its own block only in `recvbuf`, which may be none. */
static void nothing_of_reduce_scatter_may_go_nowhere(void **state)
{
    static const char *const rules[] = {"reduce_scatter=pairwise", "reduce_scatter=circulant",
                                        "reduce_scatter=ordered"};
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    const size_t counts[THREE] = {2, 0, 1};
    const int32_t in[3] = {3, 4, 5};
    struct fixture f;

    (void)state;
    for (size_t rule = 0; rule < sizeof(rules) / sizeof(rules[0]); rule++) {
        int32_t out[THREE][2] = {{0}};
        struct vbn_coll_args args[THREE];

        open_all(&f, &loop, THREE, rules[rule]);
        for (uint32_t r = 0; r < THREE; r++) {
            args[r] = sum_args(in, counts[r] ? out[r] : NULL, 0);
            args[r].coll = VBN_COLL_REDUCE_SCATTER;
            args[r].recvcounts = counts;
        }
        all_succeed(&f, args);
        assert_int_equal(out[0][0], 9);
        assert_int_equal(out[0][1], 12);
        assert_int_equal(out[2][0], 15);
        close_all(&f);
    }
}

/* Rank 0 has nothing comparable, the others zeros of either sign. */
static void least_of_what_hardly_compares(struct fixture *f, uint32_t size, size_t count)
{
    double *out = calloc(size * count, sizeof(*out));
    vbn_coll_req_t *req[RANKS];
    int status[RANKS];

    for (uint32_t r = 0; r < size; r++) {
        struct vbn_coll_args args = {.size = sizeof(args),
                                     .coll = VBN_COLL_ALLREDUCE,
                                     .sendbuf = VBN_IN_PLACE,
                                     .recvbuf = out + r * count,
                                     .count = count,
                                     .dtype = VBN_DOUBLE,
                                     .op = VBN_MIN};

        for (size_t i = 0; i < count; i++)
            out[r * count + i] = r == 0 && i % 2 ? NAN : r % 2 ? -0.0 : 0.0;
        assert_int_equal(vbn_coll_istart(f->team[r], &args, &req[r], &f->err), VBN_OK);
    }
    finish(f, req, size, status);
    for (uint32_t r = 0; r < size; r++) {
        assert_int_equal(status[r], VBN_OK);
        assert_memory_equal(out + r * count, out, count * sizeof(*out));
    }
    free(out);
}

/* Whatever it is, all have the same (MPI 3.1, 5.9.6), to the bit: they may branch by it. */
static void all_ranks_find_the_same_bits(void **state)
{
    static const char *const rules[] = {"allreduce=recursive_doubling", "allreduce=knomial",
                                        "allreduce=rabenseifner", "allreduce=ring",
                                        "allreduce=circulant"};
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;

    (void)state;
    for (size_t rule = 0; rule < sizeof(rules) / sizeof(rules[0]); rule++)
        for (uint32_t size = 2; size <= RANKS; size++) {
            open_all(&f, &loop, size, rules[rule]);
            least_of_what_hardly_compares(&f, size, 2);
            least_of_what_hardly_compares(&f, size, 4097);
            close_all(&f);
        }
}

/* Where a block of nothing would be. */
#define NOWHERE ((size_t)-77)

static void a_block_of_nothing_is_nowhere(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    const size_t counts[THREE] = {2, 0, 1}, displs[THREE] = {1, NOWHERE, 0};
    int32_t in[THREE][2] = {{1, 2}, {0}, {3}}, out[THREE][3] = {{0}};
    struct vbn_coll_args args[THREE];
    struct fixture f;

    (void)state;
    open_all(&f, &loop, THREE, NULL);
    for (uint32_t r = 0; r < THREE; r++) {
        args[r] = sum_args(in[r], out[r], counts[r]);
        args[r].coll = VBN_COLL_ALLGATHERV;
        args[r].recvcounts = counts;
        args[r].rdispls = displs;
    }
    all_succeed(&f, args);
    for (uint32_t r = 0; r < THREE; r++) {
        assert_int_equal(out[r][0], 3);
        assert_int_equal(out[r][1], 1);
        assert_int_equal(out[r][2], 2);
    }
    close_all(&f);
}

/* An exchange in place goes through a copy of all blocks, which is no longer than they are. */
static void an_exchange_of_nothing_is_nowhere(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    const size_t counts[THREE][THREE] = {{0, 1, 1}, {1, 0, 0}, {1, 0, 1}};
    const size_t displs[THREE][THREE] = {{NOWHERE, 1, 0}, {0, NOWHERE, NOWHERE}, {0, NOWHERE, 1}};
    int32_t data[THREE][2] = {{12, 11}, {21, 0}, {31, 33}};
    struct vbn_coll_args args[THREE];
    struct fixture f;

    (void)state;
    open_all(&f, &loop, THREE, NULL);
    for (uint32_t r = 0; r < THREE; r++) {
        args[r] = sum_args(VBN_IN_PLACE, data[r], 0);
        args[r].coll = VBN_COLL_ALLTOALLV;
        args[r].recvcounts = counts[r];
        args[r].rdispls = displs[r];
    }
    all_succeed(&f, args);
    assert_int_equal(data[0][0], 31);
    assert_int_equal(data[0][1], 21);
    assert_int_equal(data[1][0], 11);
    assert_int_equal(data[2][0], 12);
    assert_int_equal(data[2][1], 33);
    close_all(&f);
}

/* As MPI has it: in place, what says how much is sent means nothing. Root is rank 1. */
static void in_place_no_count_is_looked_at(void **state)
{
    static const enum vbn_coll colls[] = {VBN_COLL_ALLGATHERV, VBN_COLL_GATHERV, VBN_COLL_SCATTERV};
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    const size_t counts[THREE] = {1, 1, 1};
    struct fixture f;

    (void)state;
    open_all(&f, &loop, THREE, NULL);
    for (size_t c = 0; c < sizeof(colls) / sizeof(colls[0]); c++) {
        bool scatter = colls[c] == VBN_COLL_SCATTERV;
        int32_t own[THREE] = {0, 8, 0}, all[THREE][THREE] = {{0}, {0, 8, 0}, {0}};
        int32_t *given = scatter ? all[1] : own;
        struct vbn_coll_args args[THREE];

        given[0] = 7, given[2] = 9;
        for (uint32_t r = 0; r < THREE; r++) {
            args[r] = sum_args(scatter ? all[r] : &own[r], scatter ? &own[r] : all[r], 1);
            args[r].coll = colls[c];
            args[r].root = 1;
            args[r].recvcounts = args[r].sendcounts = counts;
        }
        args[1].count = NOWHERE;
        if (scatter)
            args[1].recvbuf = VBN_IN_PLACE;
        else
            args[1].sendbuf = VBN_IN_PLACE;
        all_succeed(&f, args);
        for (uint32_t r = 0; r < THREE; r++) {
            assert_int_equal(own[r], 7 + r);
            assert_int_equal(all[1][r], 7 + r);
        }
    }
    close_all(&f);
}

static void bad_teams_are_refused(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    const struct vbn_transport *tr = loop_table();
    struct vbn_transport old = *tr;
    const uint32_t twice[] = {0, 1, 1}, others[] = {1, 2}, beyond[] = {0, 6};
    vbn_team_t *team = NULL;
    struct fixture f;
    vbn_port_t *port;
    vbn_peer_t *const *peers;

    (void)state;
    open_all(&f, &loop, RANKS, NULL);
    port = loop_port(f.loop, 0);
    peers = loop_peers(f.loop, 0);
    old.abi = 0x00020000;
#define REFUSED(call) assert_int_equal(call, VBN_ERR_INVALID)
    REFUSED(vbn_team_create(NULL, port, peers, 2, 0, 0, NULL, &team, NULL));
    REFUSED(vbn_team_create(&old, port, peers, 2, 0, 0, NULL, &team, NULL));
    REFUSED(vbn_team_create(tr, NULL, peers, 2, 0, 0, NULL, &team, NULL));
    REFUSED(vbn_team_create(tr, port, NULL, 2, 0, 0, NULL, &team, NULL));
    REFUSED(vbn_team_create(tr, port, peers, 0, 0, 0, NULL, &team, NULL));
    REFUSED(vbn_team_create(tr, port, peers, 2, 2, 0, NULL, &team, NULL));
    REFUSED(vbn_team_create(tr, port, peers, 2, 0, 4096, NULL, &team, NULL));
    REFUSED(vbn_team_create(tr, port, peers, 2, 0, 0, NULL, NULL, NULL));
    REFUSED(vbn_team_create(tr, port, peers, 2, 1, 0, NULL, &team, &f.err)); /* peer 0 is NULL */
    assert_non_null(strstr(f.err.text, "rank 0 has no peer"));
    REFUSED(vbn_team_split(f.team[0], twice, 3, 9, &team, &f.err));
    REFUSED(vbn_team_split(f.team[0], others, 2, 9, &team, &f.err));
    REFUSED(vbn_team_split(f.team[0], beyond, 2, 9, &team, &f.err));
    REFUSED(vbn_team_split(f.team[0], twice, 0, 9, &team, &f.err));
    REFUSED(vbn_team_destroy(NULL));
    assert_null(team);
    close_all(&f);
}

/* --- rules ----------------------------------------------------------------------------------- */

static void rule_refused(struct fixture *f, const char *rule, const char *word)
{
    struct vbn_team_options opts = options(f);
    vbn_team_t *team;

    opts.rules = rule;
    assert_int_equal(vbn_team_create(loop_table(), loop_port(f->loop, 0), loop_peers(f->loop, 0), 2,
                                     0, 1, &opts, &team, &f->err),
                     VBN_ERR_INVALID);
    if (!strstr(f->err.text, word))
        fail_msg("\"%s\" does not say \"%s\"", f->err.text, word);
}

static void wrong_rules_name_the_right_ones(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;

    (void)state;
    open_loop(&f, &loop);
    rule_refused(&f, "allreduce", "no \"=\"");
    rule_refused(&f, "bcats=chain", "reduce_scatter_block allgather");
    rule_refused(&f, "allreduce=rign",
                 "recursive_doubling circulant knomial multicast rabenseifner ring");
    rule_refused(&f, "allreduce=ring/5", "no parameter");
    rule_refused(&f, "bcast=knomial/1", "radix");
    rule_refused(&f, "bcast=chain/0", "segment");
    rule_refused(&f, "bcast=chain/x", "not a number");
    rule_refused(&f, "bcast=chain:5-x", "range of bytes");
    rule_refused(&f, "bcast=chain:9-5", "range of bytes");
    rule_refused(&f, "bcast=chain:", "range of bytes");
    rule_refused(&f, "bcast=chain:99999999999999999999", "range of bytes");
    rule_refused(&f, "bcast=chain:99999999999g-", "range of bytes");
    rule_refused(&f, "bcast=chain@2-4-8", "range of ranks");
    assert_int_equal(loop_destroy(f.loop), 0);
}

static size_t chosen_param;

/* What ARGS would be done by, or "refused"; sets `chosen_param`. */
static const char *chosen_for(struct fixture *f, const struct vbn_coll_args *args)
{
    const char *name;
    vbn_coll_req_t *req;

    if (vbn_coll_init(f->team[0], args, &req, NULL) != VBN_OK)
        return "refused";
    name = vbn_coll_chosen(req);
    chosen_param = vbn_coll_chosen_param(req);
    vbn_coll_free(req);
    return name;
}

static const char *chosen(struct fixture *f, size_t count)
{
    int32_t in[1] = {0}, out[1] = {0};
    struct vbn_coll_args args = sum_args(in, out, count);
    const char *name = chosen_for(f, &args);

    assert_string_not_equal(name, "refused");
    return name;
}

static void the_first_rule_that_fits_is_taken(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;

    (void)state;
    open_all(&f, &loop, RANKS,
             "bcast=chain, allreduce=circulant@7-;allreduce=ring:4-8 allreduce=rabenseifner:-1k"
             " # the rest\n allreduce=ring:1m-");
    assert_string_equal(chosen(&f, 0), "rabenseifner");
    assert_string_equal(chosen(&f, 1), "ring");
    assert_string_equal(chosen(&f, 2), "ring");
    assert_string_equal(chosen(&f, 3), "rabenseifner");
    assert_string_equal(chosen(&f, 256), "rabenseifner");
    assert_string_equal(chosen(&f, 1 << 18), "ring");
    close_teams(&f);
    open_teams(&f, RANKS, 3, NULL); /* by the model */
    assert_string_equal(chosen(&f, 2), "recursive_doubling");
    assert_string_equal(chosen(&f, 1 << 18), "ring");
    close_all(&f);
}

enum { DEFAULT_EAGER = 32768 };

/* A team of SIZE that has PROCESSORS; CHECK: in the check mode. */
static void open_on(struct fixture *f, uint32_t size, uint32_t processors, uint64_t eager_bytes,
                    bool check)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct vbn_team_options opts;

    open_loop(f, &loop);
    opts = options(f);
    opts.processors = processors;
    opts.eager_bytes = eager_bytes;
    opts.check = check;
    open_teams(f, size, 1, &opts);
}

/* Of an allreduce of COUNT elements there. */
static const char *chosen_by_model(uint32_t processors, uint64_t eager_bytes, size_t count)
{
    struct fixture f;
    const char *name;

    open_on(&f, RANKS, processors, eager_bytes, false);
    name = chosen(&f, count);
    close_all(&f);
    return name;
}

/* Of several processors few levels are what counts, and where two ranks share one few rounds; of a
 * single one the order of a binomial tree. */
static void radices_that_processors_choose(void **state)
{
    (void)state;
    for (uint32_t processors = 1; processors <= 3; processors++) {
        struct vbn_coll_args args = {
            .size = sizeof(args), .coll = VBN_COLL_BARRIER, .dtype = VBN_BYTES};
        struct fixture f;

        open_on(&f, RANKS, processors, DEFAULT_EAGER, false);
        assert_string_equal(chosen_for(&f, &args), processors == 3 ? "dissemination" : "knomial");
        assert_int_equal(chosen_param, processors == 2 ? RANKS : 2);
        close_all(&f);
    }
}

/* What eight bytes for each of SIZE ranks are exchanged by, which have PROCESSORS. */
static const char *exchange_by_model(uint32_t size, uint32_t processors)
{
    static char out[8 * RANKS], in[8 * RANKS];
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_ALLTOALL,
                                 .sendbuf = out,
                                 .recvbuf = in,
                                 .count = 8,
                                 .dtype = VBN_BYTES};
    const char *name;
    struct fixture f;

    open_on(&f, size, processors, DEFAULT_EAGER, false);
    name = chosen_for(&f, &args);
    close_all(&f);
    return name;
}

/* Of several processors each round waits for the turns of all who share one; a single one's go
 * round with the messages. */
static void rounds_that_processors_choose(void **state)
{
    (void)state;
    assert_string_equal(exchange_by_model(4, 1), "bruck");
    assert_string_equal(exchange_by_model(4, 2), "linear");
    assert_string_equal(exchange_by_model(RANKS, 1), "bruck");
    assert_string_equal(exchange_by_model(RANKS, 2), "linear");
}

/* Few bytes in all are what counts where ranks share processors. */
static void shared_processors_choose_otherwise(void **state)
{
    (void)state;
    assert_string_equal(chosen_by_model(1, DEFAULT_EAGER, 1 << 8), "knomial");
    assert_string_equal(chosen_by_model(RANKS, DEFAULT_EAGER, 1 << 8), "recursive_doubling");
}

enum { FEW = 8, MANY = 1 << 20 };

/* What a bcast of LEN bytes from ROOT is done by, and with which `chosen_param`. */
static const char *chosen_from(struct fixture *f, uint32_t root, size_t len)
{
    static char buf[MANY];
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_BCAST,
                                 .recvbuf = buf,
                                 .count = len,
                                 .dtype = VBN_BYTES,
                                 .root = root};

    return chosen_for(f, &args);
}

/* Where ranks share processors a root that sends to all holds them up, unless it is another one in
 * the next call. A refused call does not count, for the other ranks may not have made it. */
static void a_root_that_stays_chooses_otherwise(void **state)
{
    struct fixture f;
    const char *stays;

    (void)state;
    open_on(&f, RANKS, 2, DEFAULT_EAGER, false);
    stays = chosen_from(&f, 0, FEW);
    assert_string_not_equal(stays, "linear");
    assert_string_equal(chosen_from(&f, 0, FEW), stays);
    for (uint32_t root = 1; root < RANKS; root++)
        assert_string_equal(chosen_from(&f, root, FEW), "linear");
    assert_string_equal(chosen_from(&f, RANKS, FEW), "refused");
    chosen(&f, 1); /* has no root */
    assert_string_equal(chosen_from(&f, RANKS - 1, FEW), stays);
    assert_string_equal(chosen_from(&f, 0, FEW), "linear");
    close_all(&f);
    open_on(&f, RANKS, RANKS, DEFAULT_EAGER, false);
    assert_string_equal(chosen_from(&f, 0, FEW), chosen_from(&f, 1, FEW));
    close_all(&f);
}

/* Two processors move less than twice what one does: segments gain less than their turns cost. */
static void long_messages_stay_whole_on_shared_processors(void **state)
{
    struct fixture f;

    (void)state;
    open_on(&f, 4, 2, DEFAULT_EAGER, false);
    for (uint32_t root = 1; root < 4; root++)
        assert_string_equal(chosen_from(&f, root, MANY), "knomial");
    close_all(&f);
}

/* What is longer than the eager limit, but not by much, goes in segments that are not. */
static void segments_need_not_be_asked_for(void **state)
{
    (void)state;
    for (uint32_t size = 4; size <= RANKS; size++) {
        struct fixture f;

        open_on(&f, size, 2, DEFAULT_EAGER, false);
        for (uint32_t root = 1; root < size; root++)
            assert_string_equal(chosen_from(&f, root, 2 * DEFAULT_EAGER), "linear");
        assert_int_equal(chosen_param, DEFAULT_EAGER);
        assert_string_equal(chosen_from(&f, 1, DEFAULT_EAGER), "linear");
        assert_int_equal(chosen_param, 0);
        /* the root is the same, and would be alone with the work */
        assert_string_not_equal(chosen_from(&f, 1, 2 * DEFAULT_EAGER), "linear");
        assert_int_equal(chosen_param, DEFAULT_EAGER);
        close_all(&f);
    }
}

/* Where ranks may have named different roots, and go on, the last one decides nothing. */
static void checked_roots_choose_alike(void **state)
{
    struct fixture f;

    (void)state;
    open_on(&f, RANKS, 2, DEFAULT_EAGER, true);
    assert_string_equal(chosen_from(&f, 0, FEW), chosen_from(&f, 1, FEW));
    assert_string_equal(chosen_from(&f, 1, FEW), chosen_from(&f, 0, FEW));
    close_all(&f);
}

/* A message beyond the eager limit is three. */
static void offers_choose_otherwise(void **state)
{
    (void)state;
    assert_string_equal(chosen_by_model(1, DEFAULT_EAGER, 1 << 14), "rabenseifner");
    assert_string_equal(chosen_by_model(1, UINT64_MAX, 1 << 14), "knomial");
    assert_string_equal(chosen_by_model(2, DEFAULT_EAGER, 1 << 16), "rabenseifner");
}

static void terms_count_offers_and_turns(void **state)
{
    struct vbn_coll_cost cost = {.depth = 2,
                                 .rounds = 3,
                                 .path_bytes = 100,
                                 .turn_messages = 4,
                                 .bytes = 200,
                                 .turn_bytes = 180,
                                 .reduced = 50,
                                 .copied = 30,
                                 .all_messages = 10,
                                 .all_bytes = 1000};
    struct vbn_coll_terms terms = vbn_coll_terms_of(&cost, 4, 0, 100);

    (void)state;
    assert_true(terms.latencies == 2 && terms.messages == 4 && terms.bytes == 250 &&
                terms.touched == 80);
    terms = vbn_coll_terms_of(&cost, 4, 2, 99); /* half a processor each */
    assert_true(terms.latencies == 12 && terms.messages == 24 && terms.bytes == 750 &&
                terms.touched == 160);
    assert_true(vbn_coll_terms_of(&cost, 4, 1, 99).bytes == 1000); /* one message's at a time */
    terms = vbn_coll_terms_of(&cost, 4, 2, 100); /* none is asked for, all are copied */
    assert_true(terms.latencies == 1 && terms.messages == 8 && terms.touched == 160 + 2 * 750);
    cost.root_stays = true;
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 99).latencies == 12);
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 100).latencies == 3);
    cost.rounds = 18; /* others send their own meanwhile */
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 99).messages == 27);
}

/* Where no rank goes on before all have begun there is nothing else to do for several processors.
 */
static void terms_count_waits_for_all(void **state)
{
    struct vbn_coll_cost cost = {.depth = 2, .all_wait = true};

    (void)state;
    assert_true(vbn_coll_terms_of(&cost, 4, 4, 100).latencies == 2);
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 100).latencies == 4);
    assert_true(vbn_coll_terms_of(&cost, 4, 1, 100).latencies == 0.5);
    cost.turns = true;
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 100).latencies == 3);
    assert_true(vbn_coll_terms_of(&cost, 4, 1, 100).latencies == 0.5);
}

/* Towards a tree's top there are fewer messages than processors could move. */
static void terms_count_bytes_of_trees(void **state)
{
    struct vbn_coll_cost cost = {.path_bytes = 600,
                                 .bytes = 300,
                                 .turn_bytes = 600,
                                 .all_messages = 14,
                                 .all_bytes = 1400,
                                 .all_wait = true};

    (void)state;
    assert_true(vbn_coll_terms_of(&cost, 8, 3, 99).bytes == 1400 / 2);
    cost.turns = true;
    assert_true(vbn_coll_terms_of(&cost, 8, 3, 99).bytes == 600 + (1400 - 600) / 2);
    assert_true(vbn_coll_terms_of(&cost, 8, 3, 100).bytes == 1400 / 2);
    assert_true(vbn_coll_terms_of(&cost, 8, 8, 99).bytes == 600);
}

/* Where the next root need not wait for the last one, no rank's own bytes hold the others up; those
 * that are offered do. */
static void terms_count_bytes_of_turns(void **state)
{
    struct vbn_coll_cost cost = {.depth = 1,
                                 .path_bytes = 900,
                                 .bytes = 900,
                                 .turn_bytes = 225,
                                 .all_messages = 9,
                                 .all_bytes = 900};

    (void)state;
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 100).bytes == 900 * 1.5 / 2);
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 99).bytes == 900);
    assert_true(vbn_coll_terms_of(&cost, 4, 4, 100).bytes == 900);
    cost.turn_bytes = 900; /* the root stays */
    assert_true(vbn_coll_terms_of(&cost, 4, 2, 100).bytes == 900);
}

static void rules_come_from_a_file(void **state)
{
    char path[] = "/tmp/vbn-rules-XXXXXX";
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct vbn_team_options opts;
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    struct fixture f;

    (void)state;
    fputs("# measured\nallreduce=ring:0-100 # small\nallreduce=circulant\n", file);
    fclose(file);
    open_loop(&f, &loop);
    opts = options(&f);
    opts.rules_file = path;
    open_teams(&f, RANKS, 1, &opts);
    assert_string_equal(chosen(&f, 25), "ring");
    assert_string_equal(chosen(&f, 26), "circulant");
    remove(path);
    close_teams(&f);
    assert_int_equal(vbn_team_create(loop_table(), loop_port(f.loop, 0), loop_peers(f.loop, 0), 2,
                                     0, 1, &opts, &f.team[0], &f.err),
                     VBN_ERR_INVALID);
    assert_non_null(strstr(f.err.text, path));
    close_all(&f);
}

/* --- what ranks agree about ------------------------------------------------------------------- */

static uint64_t accord_of(const struct vbn_team_options *opts)
{
    uint64_t number = 0;

    assert_int_equal(vbn_team_accord(opts, &number, NULL), VBN_OK);
    assert_true(number != 0);
    return number;
}

static uint64_t accord_of_rules(const char *rules)
{
    struct vbn_team_options opts;

    vbn_team_options_init(&opts, sizeof(opts));
    opts.rules = rules;
    return accord_of(&opts);
}

/* Each of these decides what is sent for a call. */
static void what_decides_is_agreed_about(void **state)
{
    struct vbn_team_options opts[9];
    uint64_t number[9];

    (void)state;
    for (int i = 0; i < 9; i++)
        vbn_team_options_init(&opts[i], sizeof(opts[i]));
    opts[1].check = true;
    opts[2].latency_ns++;
    opts[3].alpha_ns++;
    opts[4].beta_ps++;
    opts[5].gamma_ps++;
    opts[6].eager_bytes++;
    opts[7].rules = "bcast=chain";
    opts[8].group = !opts[8].group;
    for (int i = 0; i < 9; i++) {
        number[i] = accord_of(&opts[i]);
        for (int before = 0; before < i; before++)
            assert_true(number[i] != number[before]);
    }
    assert_true(accord_of(NULL) == number[0]);
}

static void rules_are_agreed_about(void **state)
{
    static const char *const others[] = {
        "bcast=chain allreduce=ring",    "allreduce=ring bcast=chain:1-",
        "allreduce=ring bcast=chain:-1", "allreduce=ring bcast=chain@3-",
        "allreduce=ring bcast=chain@-3", "allreduce=ring bcast=chain/1k",
        "allreduce=ring bcast=linear",   "allreduce=ring",
        "allreduce=ring reduce=chain"};
    uint64_t number = accord_of_rules("allreduce=ring bcast=chain");

    (void)state;
    assert_true(accord_of_rules("allreduce=ring;\n bcast=chain # the rest") == number);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_true(accord_of_rules(others[i]) != number);
}

/* What ranks may have each their own way, or learn from one another. */
static void what_does_not_decide_may_differ(void **state)
{
    struct vbn_team_options opts;

    (void)state;
    vbn_team_options_init(&opts, sizeof(opts));
    opts.sleep = !opts.sleep;
    opts.stall_report_ms++;
    opts.processors = 3;
    opts.callback_arg = &opts;
    assert_true(accord_of(&opts) == accord_of(NULL));
}

static void nothing_is_agreed_about_bad_options(void **state)
{
    struct vbn_team_options opts;
    uint64_t number = 0;
    struct vbn_error err;

    (void)state;
    vbn_team_options_init(&opts, sizeof(opts));
    assert_int_equal(vbn_team_accord(&opts, NULL, NULL), VBN_ERR_INVALID);
    opts.rules = "bcast=chian";
    assert_int_equal(vbn_team_accord(&opts, &number, &err), VBN_ERR_INVALID);
    assert_non_null(strstr(err.text, "chian"));
    opts.rules = NULL;
    opts.alpha_ns = 0;
    assert_int_equal(vbn_team_accord(&opts, &number, &err), VBN_ERR_INVALID);
    assert_true(number == 0);
}

#define MORE_RANKS 33u

/* Rank 0 of a team of SIZE that has PROCESSORS; it can start nothing. */
static void open_one(struct fixture *f, uint32_t size, uint32_t processors, uint64_t eager_bytes)
{
    struct vbn_team_options opts = options(f);
    vbn_peer_t *peers[MORE_RANKS];

    for (uint32_t i = 0; i < MORE_RANKS; i++)
        peers[i] = loop_peers(f->loop, 0)[1];
    opts.processors = processors;
    opts.eager_bytes = eager_bytes;
    assert_int_equal(vbn_team_create(loop_table(), loop_port(f->loop, 0), peers, size, 0, 1, &opts,
                                     &f->team[0], NULL),
                     VBN_OK);
}

/* What is offered costs its turns at each level of the tree; its bytes need fewer of these. */
static void more_ranks_have_trees_of_fewer_levels(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;

    (void)state;
    open_loop(&f, &loop);
    for (uint32_t size = 4; size <= 8; size += 4) {
        open_one(&f, size, 2, DEFAULT_EAGER);
        assert_string_equal(chosen_from(&f, 1, MANY), "knomial");
        assert_string_equal(chosen_from(&f, 2, MANY), "knomial");
        assert_int_equal(chosen_param, size / 2);
        vbn_team_destroy(f.team[0]);
    }
    assert_int_equal(loop_destroy(f.loop), 0);
}

/* HASH, and what rank 0 of a team of SIZE with PROCESSORS does for COLL with COUNT bytes. */
static uint64_t add_choice(uint64_t hash, struct fixture *f, enum vbn_coll coll, size_t count)
{
    static int32_t in[1], out[1]; /* of requests that do not start */
    struct vbn_coll_args args = sum_args(in, out, count / sizeof(in[0]));
    const char *name;

    args.coll = coll;
    name = chosen_for(f, &args);
    assert_string_not_equal(name, "refused");
    hash = vbn_hash_word(hash, vbn_hash(name, strlen(name)));
    return vbn_hash_word(hash, chosen_param);
}

static uint64_t add_choices(uint64_t hash, struct fixture *f, uint32_t size, uint32_t processors,
                            enum vbn_group_state group)
{
    static const enum vbn_coll colls[] = {
        VBN_COLL_BARRIER,   VBN_COLL_BCAST,  VBN_COLL_REDUCE,  VBN_COLL_ALLREDUCE,
        VBN_COLL_ALLGATHER, VBN_COLL_GATHER, VBN_COLL_SCATTER, VBN_COLL_REDUCE_SCATTER_BLOCK,
        VBN_COLL_ALLTOALL,  VBN_COLL_SCAN,   VBN_COLL_EXSCAN};

    open_one(f, size, processors, options(f).eager_bytes);
    f->team[0]->group.state = group;
    for (size_t c = 0; c < sizeof(colls) / sizeof(colls[0]); c++)
        for (size_t count = 4; count <= 1 << 20; count *= 4)
            hash = add_choice(hash, f, colls[c], count);
    close_teams(f);
    return hash;
}

/* The same sum with the same VBN_CHOICES, so that builds that choose differently know it. */
static void choices_are_numbered(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 7, 8, 16, MORE_RANKS};
    const uint64_t sum_of_choices = UINT64_C(0x14a9e95b978e6702);
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;
    uint64_t hash = VBN_CHOICES;

    (void)state;
    open_loop(&f, &loop);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (uint32_t processors = 0; processors < 3; processors++) {
            hash = add_choices(hash, &f, sizes[i], processors, VBN_GROUP_OFF);
            if (sizes[i] > 2)
                hash = add_choices(hash, &f, sizes[i], processors, VBN_GROUP_ON);
        }
    assert_int_equal(loop_destroy(f.loop), 0);
    if (hash != sum_of_choices)
        fail_msg("other algorithms are chosen than before (0x%016llx): raise VBN_CHOICES, then "
                 "note the sum that this says",
                 (unsigned long long)hash);
}

/* --- many, again and again -------------------------------------------------------------------- */

static void persistent_requests_start_in_any_order(void **state)
{
    struct loop_options loop = {.eager_limit = 16, .late = 2};
    int32_t in[RANKS][3][100], out[RANKS][3][100];
    vbn_coll_req_t *reqs[3][RANKS], *going[3 * RANKS];
    int status[3 * RANKS];
    struct fixture f;

    (void)state;
    open_all(&f, &loop, RANKS, NULL);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t r = 0; r < RANKS; r++) {
            struct vbn_coll_args args = sum_args(in[r][k], out[r][k], 1 + 49 * k);

            assert_int_equal(vbn_coll_init(f.team[r], &args, &reqs[k][r], NULL), VBN_OK);
            assert_int_equal(vbn_coll_test(reqs[k][r]), VBN_OK);
        }
    for (int32_t turn = 0; turn < 20; turn++) {
        for (uint32_t i = 0; i < 3 * RANKS; i++) {
            uint32_t r = i % RANKS, k = (i / RANKS + r) % 3;

            for (uint32_t e = 0; e < 100; e++)
                in[r][k][e] = (int32_t)(r * 1000 + k * 100 + e) + turn;
            assert_int_equal(vbn_coll_start(reqs[k][r]), VBN_OK);
            going[i] = reqs[k][r];
        }
        finish(&f, going, 3 * RANKS, status);
        for (uint32_t r = 0; r < RANKS; r++)
            for (uint32_t k = 0; k < 3; k++)
                for (uint32_t e = 0; e < 1 + 49 * k; e++)
                    assert_int_equal(out[r][k][e], 15000 + 6 * ((int32_t)(k * 100 + e) + turn));
    }
    assert_int_equal(vbn_team_destroy(f.team[0]), VBN_ERR_AGAIN);
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t r = 0; r < RANKS; r++)
            vbn_coll_free(reqs[k][r]);
    close_all(&f);
}

static void a_request_freed_under_way_goes_on(void **state)
{
    struct loop_options loop = {.eager_limit = 0};
    vbn_coll_req_t *reqs[RANKS], *rest[RANKS];
    int32_t in[RANKS], out[RANKS];
    struct fixture f;
    int status[RANKS];

    (void)state;
    open_all(&f, &loop, RANKS, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct vbn_coll_args args = sum_args(&in[r], &out[r], 1);

        in[r] = 1;
        assert_int_equal(vbn_coll_init(f.team[r], &args, &reqs[r], NULL), VBN_OK);
        assert_int_equal(vbn_coll_start(reqs[r]), VBN_OK);
        assert_int_equal(vbn_coll_start(reqs[r]), VBN_ERR_INVALID);
    }
    vbn_coll_free(reqs[2]);
    vbn_coll_free(NULL);
    reqs[2] = NULL;
    assert_int_equal(vbn_team_destroy(f.team[2]), VBN_ERR_AGAIN);
    for (unsigned turn = 0; vbn_coll_progress(f.team[2]) && turn < 10000; turn++) {
        poll_all(&f);
        for (uint32_t r = 0; r < RANKS; r++)
            vbn_coll_progress(f.team[r]);
    }
    assert_int_equal(out[2], RANKS);
    memcpy(rest, reqs, sizeof(rest));
    finish(&f, reqs, RANKS, status);
    for (uint32_t r = 0; r < RANKS; r++)
        vbn_coll_free(rest[r]);
    close_all(&f);
}

/* Two teams and two sub-teams, eight operations on each at a time. */
static void many_teams_and_operations_at_once(void **state)
{
    static const uint32_t odd[] = {5, 1, 3}, even[] = {0, 2, 4};
    struct loop_options loop = {.eager_limit = 32, .late = 3, .again = 4};
    vbn_team_t *sub[RANKS], *other[RANKS];
    vbn_coll_req_t *reqs[RANKS * 24];
    int32_t in[RANKS * 24][20], out[RANKS * 24][20];
    int status[RANKS * 24];
    struct fixture f;

    (void)state;
    open_loop(&f, &loop);
    open_teams(&f, RANKS, 1, NULL);
    memcpy(other, f.team, sizeof(other));
    open_teams(&f, RANKS, 2, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(vbn_team_split(f.team[r], r % 2 ? odd : even, 3, 4 + r % 2, &sub[r], NULL),
                         VBN_OK);
        assert_int_equal(vbn_team_size(sub[r]), 3);
        assert_int_equal((r % 2 ? odd : even)[vbn_team_rank(sub[r])], r);
    }
    for (uint32_t i = 0; i < RANKS * 24; i++) {
        uint32_t r = i % RANKS, k = i / RANKS;
        vbn_team_t *team = k % 3 == 0 ? other[r] : k % 3 == 1 ? f.team[r] : sub[r];
        struct vbn_coll_args args = sum_args(in[i], out[i], 20);

        if (k % 2) {
            args.coll = VBN_COLL_ALLGATHER;
            args.count = 3;
        }
        for (int e = 0; e < 20; e++)
            in[i][e] = (int32_t)(r * 100 + k * 10) + e;
        assert_int_equal(vbn_coll_istart(team, &args, &reqs[i], NULL), VBN_OK);
    }
    finish(&f, reqs, RANKS * 24, status);
    for (uint32_t i = 0; i < RANKS * 24; i++) {
        int32_t r = (int32_t)(i % RANKS), k = (int32_t)(i / RANKS), n = k % 3 == 2 ? 3 : 6;
        int32_t ranks = n == 6 ? 1500 : r % 2 ? 900 : 600; /* their sum, times 100 */
        int32_t first = n == 6 ? 0 : r % 2 ? 5 : 0;

        assert_int_equal(status[i], VBN_OK);
        if (k % 2)
            assert_int_equal(out[i][1], first * 100 + k * 10 + 1);
        else
            assert_int_equal(out[i][19], ranks + n * (k * 10 + 19));
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(vbn_team_destroy(sub[r]), VBN_OK);
        assert_int_equal(vbn_team_destroy(other[r]), VBN_OK);
    }
    close_all(&f);
}

/* A chain's root has sent all its blocks before anyone takes the first, and ends with the last. */
static void late_sends_hold_up_no_round(void **state)
{
    enum { CHAIN = 3, BLOCKS = 4 };
    struct loop_options loop = {.eager_limit = 0};
    int32_t data[CHAIN][4 * BLOCKS] = {{0}};
    vbn_coll_req_t *reqs[CHAIN];
    int status[CHAIN];
    struct fixture f;

    (void)state;
    open_all(&f, &loop, CHAIN, "bcast=chain/16");
    for (uint32_t r = 0; r < CHAIN; r++) {
        struct vbn_coll_args args = sum_args(NULL, data[r], 4 * BLOCKS);

        args.coll = VBN_COLL_BCAST;
        for (int32_t i = 0; !r && i < 4 * BLOCKS; i++)
            data[r][i] = i;
        assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], NULL), VBN_OK);
        if (r)
            continue;
        for (unsigned polls = 0; polls < 100; polls++)
            assert_int_equal(vbn_coll_test(reqs[0]), VBN_PENDING);
        assert_int_equal(loop_messages(f.loop), BLOCKS);
    }
    finish(&f, reqs, CHAIN, status);
    for (uint32_t r = 0; r < CHAIN; r++) {
        assert_int_equal(status[r], VBN_OK);
        assert_memory_equal(data[r], data[0], sizeof(data[r]));
    }
    close_all(&f);
}

/* More operations than there are numbers for. */
static void numbers_wrap(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;

    (void)state;
    open_all(&f, &loop, 2, NULL);
    for (int32_t i = 0; i < 70000; i++) {
        int32_t in[2] = {i, 1}, out[2];
        vbn_coll_req_t *reqs[2];
        int status[2];

        for (int r = 0; r < 2; r++) {
            struct vbn_coll_args args = sum_args(&in[r], &out[r], 1);

            assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], NULL), VBN_OK);
        }
        finish(&f, reqs, 2, status);
        assert_int_equal(out[0], i + 1);
        assert_int_equal(out[1], i + 1);
    }
    close_all(&f);
}

/* One that is alive keeps its number: others do not come near it again. */
static void a_number_is_not_given_twice(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct vbn_coll_args args = {
        .size = sizeof(args), .coll = VBN_COLL_BARRIER, .dtype = VBN_BYTES};
    vbn_coll_req_t *first, *req;
    struct fixture f;

    (void)state;
    open_all(&f, &loop, 1, NULL);
    assert_int_equal(vbn_coll_init(f.team[0], &args, &first, NULL), VBN_OK);
    for (int i = 1; i < 16384; i++) {
        assert_int_equal(vbn_coll_init(f.team[0], &args, &req, NULL), VBN_OK);
        vbn_coll_free(req);
    }
    assert_int_equal(vbn_coll_init(f.team[0], &args, &req, &f.err), VBN_ERR_AGAIN);
    vbn_coll_free(first);
    assert_int_equal(vbn_coll_init(f.team[0], &args, &req, NULL), VBN_OK);
    vbn_coll_free(req);
    close_all(&f);
}

/* Of two ranks the other has started everything before: each call finds its message. */
static void blocking_calls(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    static const size_t counts[] = {1, 1}, displs[] = {0, 1};
    int32_t mine[2] = {1, 2}, theirs[2] = {10, 20}, got[2], other[2];
    vbn_coll_req_t *reqs[VBN_COLL_COUNT];
    int status[VBN_COLL_COUNT];
    struct fixture f;

    (void)state;
    open_all(&f, &loop, 2, NULL);
    for (int coll = 0; coll < VBN_COLL_COUNT; coll++) {
        struct vbn_coll_args args = {.size = sizeof(args),
                                     .coll = (enum vbn_coll)coll,
                                     .root = 1,
                                     .sendbuf = theirs,
                                     .recvbuf = coll == VBN_COLL_BCAST ? theirs : other,
                                     .count = 1,
                                     .sendcounts = counts,
                                     .recvcounts = counts,
                                     .dtype = VBN_INT32,
                                     .op = VBN_SUM};

        assert_int_equal(vbn_coll_istart(f.team[1], &args, &reqs[coll], &f.err), VBN_OK);
        for (int turn = 0; turn < 3; turn++) /* a rank after this one sends without it */
            vbn_coll_progress(f.team[1]);
    }
#define GIVES(call, a)                                                                             \
    do {                                                                                           \
        got[0] = 0;                                                                                \
        assert_int_equal(call, VBN_OK);                                                            \
        assert_int_equal(got[0], a);                                                               \
    } while (0)
    GIVES(vbn_barrier(f.team[0]), 0);
    GIVES(vbn_bcast(f.team[0], got, 1, VBN_INT32, 1), 10);
    GIVES(vbn_reduce(f.team[0], mine, NULL, 1, VBN_INT32, VBN_SUM, 1), 0);
    GIVES(vbn_allreduce(f.team[0], mine, got, 1, VBN_INT32, VBN_SUM), 11);
    GIVES(vbn_reduce_scatter(f.team[0], mine, got, counts, VBN_INT32, VBN_SUM), 11);
    GIVES(vbn_reduce_scatter_block(f.team[0], mine, got, 1, VBN_INT32, VBN_SUM), 11);
    GIVES(vbn_allgather(f.team[0], mine, got, 1, VBN_INT32), 1);
    GIVES(vbn_allgatherv(f.team[0], mine, 1, got, counts, displs, VBN_INT32), 1);
    GIVES(vbn_gather(f.team[0], mine, NULL, 1, VBN_INT32, 1), 0);
    GIVES(vbn_gatherv(f.team[0], mine, 1, NULL, NULL, NULL, VBN_INT32, 1), 0);
    GIVES(vbn_scatter(f.team[0], NULL, got, 1, VBN_INT32, 1), 10);
    GIVES(vbn_scatterv(f.team[0], NULL, NULL, NULL, got, 1, VBN_INT32, 1), 10);
    GIVES(vbn_alltoall(f.team[0], mine, got, 1, VBN_INT32), 1);
    GIVES(vbn_alltoallv(f.team[0], mine, counts, displs, got, counts, displs, VBN_INT32), 1);
    GIVES(vbn_scan(f.team[0], mine, got, 1, VBN_INT32, VBN_SUM), 1);
    GIVES(vbn_exscan(f.team[0], mine, NULL, 1, VBN_INT32, VBN_SUM), 0);
    finish(&f, reqs, VBN_COLL_COUNT, status);
    close_all(&f);
}

/* --- what goes wrong -------------------------------------------------------------------------- */

/* A message of a wrong length: that rank says so, no rank hangs. */
static void a_wrong_length_is_told(void **state)
{
    unsigned told = 0;

    (void)state;
    for (uint64_t nth = 1; nth <= 12; nth++) {
        struct loop_options loop = {.eager_limit = nth % 2 ? 0 : SIZE_MAX, .wrong_length = nth};
        int32_t in[RANKS][50] = {{0}}, out[RANKS][50];
        vbn_coll_req_t *reqs[RANKS];
        int status[RANKS], mismatches = 0;
        struct fixture f;

        open_all(&f, &loop, RANKS, "allreduce=ring");
        for (uint32_t r = 0; r < RANKS; r++) {
            struct vbn_coll_args args = sum_args(in[r], out[r], 50);

            assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], NULL), VBN_OK);
        }
        finish(&f, reqs, RANKS, status);
        for (uint32_t r = 0; r < RANKS; r++) {
            if (status[r] == VBN_OK)
                continue;
            assert_int_equal(status[r], VBN_ERR_MISMATCH);
            assert_non_null(strstr(vbn_team_error(f.team[r]), "bytes where"));
            mismatches++;
        }
        assert_int_equal(mismatches, 1);
        told += (unsigned)mismatches;
        close_all(&f);
    }
    assert_int_equal(told, 12);
}

static void counts_that_differ_are_told(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    int32_t data[RANKS][10] = {{0}};
    vbn_coll_req_t *reqs[RANKS];
    int status[RANKS];
    struct fixture f;

    (void)state;
    open_all(&f, &loop, RANKS, "bcast=knomial");
    for (uint32_t r = 0; r < RANKS; r++) {
        struct vbn_coll_args args = sum_args(NULL, data[r], r == 0 ? 10 : 5);

        args.coll = VBN_COLL_BCAST;
        assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], NULL), VBN_OK);
    }
    finish(&f, reqs, RANKS, status);
    assert_int_equal(status[0], VBN_OK);
    assert_int_equal(status[1], VBN_ERR_MISMATCH);
    assert_int_equal(data[1][5], 0);
    close_all(&f);
}

/* A peer is lost while all wait for it: what needs it ends, and nothing stays with the transport.
 */
static void a_lost_peer_ends_what_needs_it(void **state)
{
    (void)state;
    for (int eager = 0; eager < 2; eager++) {
        struct loop_options loop = {.eager_limit = eager ? SIZE_MAX : 0};
        int32_t in[RANKS][9] = {{0}}, out[RANKS][54];
        vbn_coll_req_t *reqs[RANKS] = {NULL};
        int status[RANKS];
        struct fixture f;

        open_all(&f, &loop, RANKS, "allgather=linear");
        for (uint32_t r = 0; r < RANKS - 1; r++) {
            struct vbn_coll_args args = sum_args(in[r], out[r], 9);

            args.coll = VBN_COLL_ALLGATHER;
            assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], NULL), VBN_OK);
        }
        for (int i = 0; i < 100; i++)
            poll_all(&f);
        assert_int_equal(vbn_coll_test(reqs[0]), VBN_PENDING);
        loop_kill(f.loop, RANKS - 1);
        finish(&f, reqs, RANKS, status);
        for (uint32_t r = 0; r < RANKS - 1; r++) {
            assert_int_equal(status[r], VBN_ERR_PEER_LOST);
            assert_non_null(strstr(vbn_team_error(f.team[r]), "rank 5"));
        }
        close_all(&f);
    }
}

/* Starts calls that differ on all ranks; each must end with a text that has both WORDS. */
static void disagree(const struct vbn_coll_args *most, const struct vbn_coll_args *one,
                     uint32_t odd_one, const char *first, const char *second)
{
    struct loop_options loop = {.eager_limit = 64, .late = 2};
    vbn_coll_req_t *reqs[RANKS];
    int32_t in[RANKS][10] = {{0}}, out[RANKS][60];
    int status[RANKS];
    struct vbn_team_options opts;
    struct fixture f;

    open_loop(&f, &loop);
    opts = options(&f);
    opts.check = true;
    open_teams(&f, RANKS, 3, &opts);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct vbn_coll_args args = r == odd_one ? *one : *most;

        args.sendbuf = in[r];
        args.recvbuf = out[r];
        assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], &f.err), VBN_OK);
    }
    finish(&f, reqs, RANKS, status);
    for (uint32_t r = 0; r < RANKS; r++) {
        const char *text = vbn_team_error(f.team[r]);

        assert_int_equal(status[r], VBN_ERR_MISMATCH);
        if (!strstr(text, first) || !strstr(text, second))
            fail_msg("rank %u: \"%s\" does not say \"%s\" and \"%s\"", r, text, first, second);
    }
    close_all(&f);
}

static void the_check_names_both_calls(void **state)
{
    struct vbn_coll_args sum = sum_args(NULL, NULL, 10), other;

    (void)state;
    for (uint32_t odd_one = 0; odd_one < RANKS; odd_one++) {
        char who[40];

        snprintf(who, sizeof(who), "rank %u calls bcast", odd_one);
        other = sum, other.coll = VBN_COLL_BCAST;
        disagree(&sum, &other, odd_one, who, "calls allreduce");
    }
    other = sum, other.count = 9;
    disagree(&sum, &other, 3, "count 10,", "rank 3 calls allreduce (number 0, root 0, count 9,");
    other = sum, other.op = VBN_MAX;
    disagree(&sum, &other, 5, "operation sum", "operation max");
    other = sum, other.op = VBN_MIN;
    disagree(&sum, &other, 5, "operation sum, algorithm recursive_doubling/",
             "operation min, algorithm recursive_doubling/");
    other = sum, other.dtype = VBN_FLOAT;
    disagree(&sum, &other, 0, "type int32 of 4", "type float of 4");
    sum.coll = other.coll = VBN_COLL_BCAST;
    other.dtype = VBN_INT32, other.root = 2;
    disagree(&sum, &other, 2, "root 0", "rank 2 calls bcast (number 0, root 2");
}

/* With the check on, what agrees goes on as without. */
static void the_check_lets_pass_what_agrees(void **state)
{
    struct loop_options loop = {.eager_limit = 64, .late = 2};
    vbn_coll_req_t *reqs[RANKS];
    int32_t in[RANKS][10], out[RANKS][10];
    int status[RANKS];
    struct vbn_team_options opts;
    struct fixture f;

    (void)state;
    open_loop(&f, &loop);
    opts = options(&f);
    opts.check = true;
    open_teams(&f, RANKS, 3, &opts);
    for (int32_t turn = 0; turn < 10; turn++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            struct vbn_coll_args args = sum_args(in[r], out[r], 10);

            for (int e = 0; e < 10; e++)
                in[r][e] = (int32_t)r + turn + e;
            assert_int_equal(vbn_coll_istart(f.team[r], &args, &reqs[r], NULL), VBN_OK);
        }
        finish(&f, reqs, RANKS, status);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(status[r], VBN_OK);
            assert_int_equal(out[r][9], 15 + 6 * (turn + 9));
        }
    }
    close_all(&f);
}

/* Rank 0 waits for the others, whom a hook of the loop's lets begin late. */
static vbn_team_t *late_team;
static vbn_coll_req_t *late_req;
static const struct vbn_coll_args *late_args;
static unsigned late_after;
static vbn_port_t *late_port;

static int late_progress(vbn_port_t *port)
{
    loop_table()->progress(late_port);
    if (late_after && --late_after == 0)
        assert_int_equal(vbn_coll_istart(late_team, late_args, &late_req, NULL), VBN_OK);
    return loop_table()->progress(port);
}

/* Polls, for callers who do it themselves, until REQ is over. */
static int poll_until_over(vbn_port_t *port, vbn_coll_req_t *req)
{
    int status;

    while ((status = vbn_coll_test(req)) == VBN_PENDING)
        late_progress(port);
    return status;
}

/* Rank 0 calls, rank 1 30 s later, what ARGS say; it is told that the first CALLED and WAITED,
 * where it TESTS as where it waits. */
static void stall(const struct vbn_coll_args *args, size_t eager_limit, bool tests,
                  const char *called, const char *waited)
{
    struct loop_options loop = {.eager_limit = eager_limit};
    struct vbn_transport slow = *loop_table();
    struct vbn_team_options opts;
    struct fixture f;
    vbn_coll_req_t *req;
    int status;

    open_loop(&f, &loop);
    opts = options(&f);
    opts.rules = "bcast=chain";
    slow.progress = late_progress;
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(vbn_team_create(&slow, loop_port(f.loop, r), loop_peers(f.loop, r), 2, r,
                                         77, &opts, &f.team[r], NULL),
                         VBN_OK);
    late_team = f.team[1];
    late_args = args;
    late_after = 100000;
    late_port = loop_port(f.loop, 1);
    assert_int_equal(vbn_coll_istart(f.team[0], args, &req, NULL), VBN_OK);
    status = tests ? poll_until_over(loop_port(f.loop, 0), req) : vbn_coll_wait(req);
    assert_int_equal(status, VBN_OK);
    finish(&f, &late_req, 1, &status);
    assert_int_equal(status, VBN_OK);
    assert_int_equal(f.lines, 1);
    assert_non_null(strstr(f.line, called));
    assert_non_null(strstr(f.line, waited));
    assert_non_null(strstr(f.line, "`check`"));
    close_all(&f);
}

static void a_stall_is_told_once(void **state)
{
    struct vbn_coll_args barrier = {.size = sizeof(barrier), .coll = VBN_COLL_BARRIER};
    char data[100] = "";
    struct vbn_coll_args bcast = {.size = sizeof(bcast),
                                  .coll = VBN_COLL_BCAST,
                                  .recvbuf = data,
                                  .count = sizeof(data),
                                  .dtype = VBN_BYTES};

    (void)state;
    stall(&barrier, SIZE_MAX, false,
          "barrier (recursive_doubling) number 0 of team 77, rank 0 of 2",
          "30000 ms; in round 1 it waits for a message from rank 1.");
    stall(&bcast, 0, false, "bcast (chain) number 0 of team 77, rank 0 of 2",
          "30000 ms; in round 2 it waits for a message to be taken by rank 1.");
    stall(&bcast, 0, true, "bcast (chain) number 0 of team 77, rank 0 of 2",
          "30000 ms; in round 2 it waits for a message to be taken by rank 1.");
}

/* --- rests between polls ---------------------------------------------------------------------- */

static int slept_ms;

static int note_sleep(vbn_port_t *port, int timeout_ms)
{
    (void)port;
    slept_ms += timeout_ms;
    return 0;
}

static uint64_t still_clock(void *arg)
{
    return ((struct fixture *)arg)->now_ns;
}

enum { EAGER = 16384 };

/* Makes RANK's team 9, which has PROCESSORS. */
static void join(struct fixture *f, uint32_t rank, uint32_t processors, bool sleep)
{
    static struct vbn_transport sleepy;
    struct vbn_team_options opts = options(f);

    opts.clock_ns = still_clock;
    opts.processors = processors;
    opts.sleep = sleep;
    opts.eager_bytes = EAGER;
    opts.rules = "bcast=knomial alltoall=pairwise";
    sleepy = *loop_table();
    sleepy.wait = note_sleep;
    assert_int_equal(vbn_team_create(&sleepy, loop_port(f->loop, rank), loop_peers(f->loop, rank),
                                     RANKS, rank, 9, &opts, &f->team[rank], NULL),
                     VBN_OK);
}

/* RANK's call in that team, which waits for others. */
static vbn_coll_req_t *call_of(struct fixture *f, uint32_t rank, enum vbn_coll coll, size_t count)
{
    static char out[RANKS * (EAGER + 1)], in[RANKS][RANKS * (EAGER + 1)];
    struct vbn_coll_args args = {
        .size = sizeof(args), .coll = coll, .sendbuf = out, .recvbuf = in[rank], .count = count};
    vbn_coll_req_t *req;

    assert_int_equal(vbn_coll_istart(f->team[rank], &args, &req, NULL), VBN_OK);
    assert_int_equal(vbn_coll_test(req), VBN_PENDING);
    return req;
}

/* A call of rank 1's that waits for others, on a team that has PROCESSORS. */
static vbn_coll_req_t *waiting(struct fixture *f, enum vbn_coll coll, size_t count,
                               uint32_t processors, bool sleep)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};

    open_loop(f, &loop);
    slept_ms = 0;
    join(f, 1, processors, sleep);
    return call_of(f, 1, coll, count);
}

/* The other ranks never come. */
static void forget(struct fixture *f, vbn_coll_req_t *req)
{
    loop_kill(f->loop, 0);
    for (uint32_t r = 2; r < RANKS; r++)
        loop_kill(f->loop, r);
    while (vbn_coll_test(req) == VBN_PENDING)
        loop_table()->progress(loop_port(f->loop, 1));
    close_teams(f);
    loop_destroy(f->loop);
}

static void who_shares_a_processor_yields_then_sleeps(void **state)
{
    struct fixture f;
    vbn_coll_req_t *req = waiting(&f, VBN_COLL_BARRIER, 0, 2, true);

    (void)state;
    assert_int_equal(vbn_coll_rest(req, 1, 5), VBN_REST_YIELDED);
    assert_int_equal(vbn_coll_rest(req, 2, 5), VBN_REST_YIELDED);
    f.now_ns += 1499999; /* three ranks a processor, 500 µs each */
    assert_int_equal(vbn_coll_rest(req, 3, 5), VBN_REST_YIELDED);
    f.now_ns += 1;
    assert_int_equal(vbn_coll_rest(req, 4, 5), VBN_REST_SLEPT);
    assert_int_equal(slept_ms, 5);
    assert_int_equal(vbn_coll_rest(req, 1, 5), VBN_REST_YIELDED);
    assert_int_equal(vbn_coll_rest(req, 2, 5), VBN_REST_YIELDED);
    assert_int_equal(vbn_coll_rest(req, 3, 5), VBN_REST_YIELDED);
    assert_int_equal(slept_ms, 5);
    forget(&f, req);
}

/* Rank 1 sends COUNT bytes to all, which the loop takes at once. */
static void send_to_all(struct fixture *f, size_t count)
{
    static char buf[1 << 16];
    struct vbn_coll_args args = {
        .size = sizeof(args), .coll = VBN_COLL_BCAST, .recvbuf = buf, .count = count, .root = 1};
    vbn_coll_req_t *req;
    int status;

    assert_int_equal(vbn_coll_istart(f->team[1], &args, &req, NULL), VBN_OK);
    while ((status = vbn_coll_test(req)) == VBN_PENDING)
        loop_table()->progress(loop_port(f->loop, 1));
    assert_int_equal(status, VBN_OK);
}

/* Those who still move much are not to be held up by those who look whether they are done. */
static void who_has_moved_much_sleeps_soon(void **state)
{
    struct fixture f;
    vbn_coll_req_t *req = waiting(&f, VBN_COLL_BARRIER, 0, 2, true);

    (void)state;
    send_to_all(&f, EAGER + 1);
    assert_int_equal(vbn_coll_rest(req, 2, 5), VBN_REST_YIELDED);
    f.now_ns += 149999; /* 50 µs each */
    assert_int_equal(vbn_coll_rest(req, 3, 5), VBN_REST_YIELDED);
    f.now_ns += 1;
    assert_int_equal(vbn_coll_rest(req, 4, 5), VBN_REST_SLEPT);
    send_to_all(&f, EAGER);
    assert_int_equal(vbn_coll_rest(req, 2, 5), VBN_REST_YIELDED);
    f.now_ns += 150000;
    assert_int_equal(vbn_coll_rest(req, 3, 5), VBN_REST_YIELDED);
    forget(&f, req);
}

static void who_waits_for_much_sleeps_at_once(void **state)
{
    struct fixture f;
    vbn_coll_req_t *req = waiting(&f, VBN_COLL_BCAST, EAGER + 1, 1, true);

    (void)state;
    for (unsigned idle = 1; idle < 5; idle++) {
        slept_ms = 0;
        assert_int_equal(vbn_coll_rest(req, idle, 7), VBN_REST_SLEPT);
        assert_int_equal(slept_ms, 7);
    }
    forget(&f, req);
    req = waiting(&f, VBN_COLL_BCAST, EAGER, 1, true);
    assert_int_equal(vbn_coll_rest(req, 1, 7), VBN_REST_YIELDED);
    forget(&f, req);
}

/* To take what is sent the receiver needs the sender's turns. */
static void who_sends_much_yields(void **state)
{
    struct loop_options loop = {0};
    struct fixture f;
    vbn_coll_req_t *reqs[3], *req;
    int status[3];

    (void)state;
    open_loop(&f, &loop);
    for (uint32_t r = 0; r < 3; r++)
        join(&f, r, 2, true);
    req = reqs[1] = call_of(&f, 1, VBN_COLL_ALLTOALL, EAGER + 1);
    assert_int_equal(vbn_coll_rest(req, 1, 5), VBN_REST_YIELDED);
    reqs[2] = call_of(&f, 2, VBN_COLL_ALLTOALL, EAGER + 1);
    poll_all(&f); /* rank 2 takes it, */
    poll_all(&f); /* and rank 1 hears it */
    assert_int_equal(vbn_coll_test(req), VBN_PENDING);
    assert_int_equal(vbn_coll_rest(req, 1, 5), VBN_REST_SLEPT);
    assert_int_equal(vbn_coll_rest(req, 2, 5), VBN_REST_SLEPT);
    reqs[0] = call_of(&f, 0, VBN_COLL_ALLTOALL, EAGER + 1);
    poll_all(&f); /* rank 0's comes, and the next round begins */
    assert_int_equal(vbn_coll_test(req), VBN_PENDING);
    f.now_ns += 149999; /* three ranks a processor, 50 µs each, also where one was awaited before */
    assert_int_equal(vbn_coll_rest(req, 3, 5), VBN_REST_YIELDED);
    f.now_ns += 1;
    assert_int_equal(vbn_coll_rest(req, 4, 5), VBN_REST_SLEPT);
    for (uint32_t r = 0; r < RANKS; r++)
        loop_kill(f.loop, r);
    finish(&f, reqs, 3, status);
    close_teams(&f);
    loop_destroy(f.loop);
}

static void who_has_a_processor_or_may_not_sleep_does_not(void **state)
{
    struct fixture f;
    vbn_coll_req_t *req = waiting(&f, VBN_COLL_BCAST, 16384, RANKS, true);

    (void)state;
    assert_int_equal(vbn_coll_rest(req, 1, 7), VBN_REST_NONE);
    forget(&f, req);
    req = waiting(&f, VBN_COLL_BCAST, 16384, 1, false);
    for (unsigned idle = 1; idle < 10; idle++, f.now_ns += 1000000)
        assert_int_equal(vbn_coll_rest(req, idle, 7), VBN_REST_YIELDED);
    assert_int_equal(slept_ms, 0);
    forget(&f, req);
}

/* --- groups ----------------------------------------------------------------------------------- */

static struct vbn_transport fan; /* the loop's table, with groups */

static void open_over(const struct vbn_transport *table, struct fixture *f, uint32_t size,
                      uint32_t r, const struct vbn_team_options *opts)
{
    assert_int_equal(vbn_team_create(table, loop_port(f->loop, r), loop_peers(f->loop, r), size, r,
                                     3, opts, &f->team[r], NULL),
                     VBN_OK);
}

static void open_grouped(struct fixture *f, uint32_t size, const struct vbn_team_options *opts)
{
    for (uint32_t r = 0; r < size; r++)
        open_over(&fan, f, size, r, opts);
}

static struct vbn_team_options open_fan_loop(struct fixture *f, const char *rules)
{
    struct loop_options loop = {.eager_limit = 16, .late = 2};
    struct vbn_team_options opts;

    open_loop(f, &loop);
    fan = fan_table(loop_table());
    opts = options(f);
    opts.group = true;
    opts.rules = rules;
    return opts;
}

/* Teams over a transport with groups; RULES may be NULL. */
static void open_fan(struct fixture *f, uint32_t size, const char *rules)
{
    struct vbn_team_options opts = open_fan_loop(f, rules);

    open_grouped(f, size, &opts);
}

/* The vote before a call of all ranks; STATUS: how it ended, VBN_OK where there was none. */
static void vote_all(struct fixture *f, uint32_t size, int *status)
{
    vbn_coll_req_t *req[RANKS];

    memset(status, 0, size * sizeof(*status));
    for (uint32_t r = 0; r < size; r++)
        assert_int_equal(vbn_team_vote(f->team[r], &req[r], &f->err), VBN_OK);
    finish(f, req, size, status);
}

static void sum(struct fixture *f, uint32_t size)
{
    int32_t in[RANKS] = {1, 2, 3, 4, 5, 6}, out[RANKS];
    vbn_coll_req_t *req[RANKS];
    int status[RANKS];

    for (uint32_t r = 0; r < size; r++) {
        struct vbn_coll_args args = sum_args(&in[r], &out[r], 1);

        assert_int_equal(vbn_coll_istart(f->team[r], &args, &req[r], &f->err), VBN_OK);
    }
    finish(f, req, size, status);
    for (uint32_t r = 0; r < size; r++) {
        assert_int_equal(status[r], VBN_OK);
        assert_int_equal(out[r], size * (size + 1) / 2);
    }
}

/* N of them, as by blocking calls. */
static void sums(struct fixture *f, uint32_t size, unsigned n)
{
    int status[RANKS];

    for (; n; n--) {
        vote_all(f, size, status);
        for (uint32_t r = 0; r < size; r++)
            assert_int_equal(status[r], VBN_OK);
        sum(f, size);
    }
}

/* Whether all of SIZE ranks have a group, and use it; they agree. */
static bool all_cast(struct fixture *f, uint32_t size)
{
    static char buf[FEW];
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_BCAST,
                                 .recvbuf = buf,
                                 .count = FEW,
                                 .dtype = VBN_BYTES};
    unsigned casting = 0;

    for (uint32_t r = 0; r < size; r++) {
        vbn_coll_req_t *req;

        assert_int_equal(vbn_coll_init(f->team[r], &args, &req, NULL), VBN_OK);
        casting += strcmp(vbn_coll_chosen(req), "multicast") == 0;
        vbn_coll_free(req);
    }
    assert_true(casting == 0 || casting == size);
    return casting;
}

static unsigned asked(uint32_t size)
{
    unsigned asked = 0;

    for (uint32_t r = 0; r < size; r++)
        asked += fan_ranks[r].asked;
    return asked;
}

static void a_group_is_opened_then_voted_for(void **state)
{
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    sums(&f, RANKS, 7);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(fan_ranks[r].opened, 0);
    sums(&f, RANKS, 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(fan_ranks[r].opened, 1);
        assert_int_equal(fan_ranks[r].key, fan_ranks[0].key);
    }
    sums(&f, RANKS, 7);
    assert_int_equal(asked(RANKS), 0);
    assert_false(all_cast(&f, RANKS));
    sums(&f, RANKS, 1);
    assert_int_equal(asked(RANKS), RANKS);
    assert_true(all_cast(&f, RANKS));
    assert_int_equal(f.lines, RANKS);
    assert_non_null(strstr(f.line, "team 3 of 6 ranks has a group"));
    sums(&f, RANKS, 100);
    assert_int_equal(asked(RANKS), RANKS);
    close_teams(&f);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(fan_ranks[r].opened, 1);
        assert_int_equal(fan_ranks[r].closed, 1);
    }
    close_all(&f);
}

/* A vote is a call, too. */
static void who_is_not_ready_is_asked_again(void **state)
{
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    fan_ranks[2].ready = VBN_PENDING;
    sums(&f, RANKS, 16);
    assert_int_equal(asked(RANKS), RANKS);
    fan_ranks[2].ready = VBN_OK;
    sums(&f, RANKS, 14);
    assert_false(all_cast(&f, RANKS));
    assert_int_equal(f.lines, 0);
    sums(&f, RANKS, 1);
    assert_true(all_cast(&f, RANKS));
    assert_int_equal(asked(RANKS), 2 * RANKS);
    close_all(&f);
}

/* They have their numbers; but a group is not voted for in the call that opens it. */
static void calls_that_do_not_block_are_counted(void **state)
{
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    for (int i = 0; i < 40; i++)
        sum(&f, RANKS);
    assert_int_equal(fan_ranks[0].opened, 0);
    sums(&f, RANKS, 1);
    assert_int_equal(fan_ranks[0].opened, 1);
    sums(&f, RANKS, 22);
    assert_int_equal(asked(RANKS), 0);
    sums(&f, RANKS, 1);
    assert_true(all_cast(&f, RANKS));
    close_all(&f);
}

/* No group on any of RANKS, and never will be: each that had opened one has closed it. */
static void check_no_group(struct fixture *f)
{
    unsigned votes = asked(RANKS);

    assert_false(all_cast(f, RANKS));
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(fan_ranks[r].opened, 1);
        assert_int_equal(fan_ranks[r].closed, fan_ranks[r].open == VBN_OK);
    }
    sums(f, RANKS, 20);
    assert_int_equal(asked(RANKS), votes);
    close_all(f);
}

static void who_cannot_ends_it_for_all(void **state)
{
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    fan_ranks[1].open = VBN_ERR_DEVICE;
    fan_ranks[2].ready = VBN_PENDING;
    sums(&f, RANKS, 15);
    assert_int_equal(f.lines, 1);
    assert_non_null(strstr(f.line, "rank 1 cannot be in a group"));
    sums(&f, RANKS, 1);
    assert_int_equal(f.lines, 1 + RANKS);
    assert_non_null(strstr(f.line, "has no group: not all ranks can be in one"));
    check_no_group(&f);
    open_fan(&f, RANKS, NULL);
    fan_ranks[5].ready = VBN_ERR_UNREACHABLE;
    sums(&f, RANKS, 16);
    assert_int_equal(f.lines, 1 + RANKS);
    check_no_group(&f);
}

/* As of an older release: it takes part in the vote all the same. */
static void whose_transport_has_none_ends_it_for_all(void **state)
{
    struct vbn_team_options opts;
    struct fixture f;

    (void)state;
    opts = open_fan_loop(&f, NULL);
    for (uint32_t r = 0; r < RANKS; r++)
        open_over(r == 2 ? loop_table() : &fan, &f, RANKS, r, &opts);
    sums(&f, RANKS, 15);
    assert_int_equal(f.lines, 1);
    assert_non_null(strstr(f.line, "rank 2 cannot be in a group: its transport has none"));
    sums(&f, RANKS, 5);
    assert_int_equal(f.lines, 1 + RANKS);
    assert_non_null(strstr(f.line, "has no group: not all ranks can be in one"));
    assert_false(all_cast(&f, RANKS));
    assert_int_equal(asked(RANKS), RANKS - 1);
    close_all(&f);
}

static void ranks_that_hear_nothing_give_up(void **state)
{
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    fan_ranks[0].ready = VBN_PENDING;
    sums(&f, RANKS, 4080);
    assert_int_equal(asked(RANKS), 8 * RANKS); /* from 16 to 2048 */
    assert_int_equal(f.lines, 0);
    sums(&f, RANKS, 16);
    assert_int_equal(asked(RANKS), 9 * RANKS);
    assert_non_null(strstr(f.line, "has no group: not all ranks have heard all others"));
    check_no_group(&f);
}

/* SIZE ranks with OPTS, NULL: the defaults: nothing is opened. */
static void check_not_opened(uint32_t size, const struct vbn_team_options *opts)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct fixture f;

    open_loop(&f, &loop);
    fan = fan_table(loop_table());
    open_grouped(&f, size, opts);
    sums(&f, size, 40);
    for (uint32_t r = 0; r < size; r++)
        assert_int_equal(fan_ranks[r].opened, 0);
    close_all(&f);
}

static void few_ranks_and_those_who_do_not_want_have_none(void **state)
{
    struct vbn_team_options with, without;

    (void)state;
    vbn_team_options_init(&with, sizeof(with));
    with.group = true;
    check_not_opened(1, &with);
    check_not_opened(2, &with);
    check_not_opened(3, NULL);
    vbn_team_options_init(&without, sizeof(without));
    without.size = offsetof(struct vbn_team_options, group); /* a caller that knows no groups */
    assert_true(accord_of(&without) == accord_of(NULL));
}

/* Also where two of them, which share no rank, have one number. */
static void parts_have_groups_of_their_own(void **state)
{
    static const uint32_t odd[] = {1, 3, 5}, even[] = {0, 2, 4};
    vbn_team_t *whole[RANKS], *part[2][THREE];
    uint64_t key[2];
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    memcpy(whole, f.team, sizeof(whole));
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(
            vbn_team_split(whole[r], r % 2 ? odd : even, THREE, 4, &part[r % 2][r / 2], NULL),
            VBN_OK);
    for (int i = 0; i < 2; i++) {
        memset(f.team, 0, sizeof(f.team));
        memcpy(f.team, part[i], sizeof(part[i]));
        sums(&f, THREE, 16);
        assert_true(all_cast(&f, THREE));
        key[i] = fan_ranks[0].key;
        assert_true(fan_ranks[1].key == key[i] && fan_ranks[2].key == key[i]);
        close_teams(&f);
    }
    assert_true(key[0] != key[1]);
    memcpy(f.team, whole, sizeof(whole));
    close_all(&f);
}

static void groups_with_the_check(void **state)
{
    struct loop_options loop = {.eager_limit = 64, .late = 2};
    struct vbn_team_options opts;
    struct fixture f;

    (void)state;
    open_loop(&f, &loop);
    fan = fan_table(loop_table());
    opts = options(&f);
    opts.group = opts.check = true;
    opts.rules = "allreduce=multicast";
    open_grouped(&f, RANKS, &opts);
    sums(&f, RANKS, 50);
    assert_true(all_cast(&f, RANKS));
    assert_true(fan_casts() >= 30);
    close_all(&f);
}

/* What was prepared before goes on as it was. */
static void requests_from_before_do_not_cast(void **state)
{
    int32_t in[RANKS] = {0}, out[RANKS];
    vbn_coll_req_t *req[RANKS], *going[RANKS];
    int status[RANKS];
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, "allreduce=multicast");
    for (uint32_t r = 0; r < RANKS; r++) {
        struct vbn_coll_args args = sum_args(&in[r], &out[r], 1);

        in[r] = 7;
        assert_int_equal(vbn_coll_init(f.team[r], &args, &req[r], NULL), VBN_OK);
    }
    sums(&f, RANKS, 16);
    assert_int_equal(fan_casts(), 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(vbn_coll_start(req[r]), VBN_OK);
        going[r] = req[r];
    }
    finish(&f, going, RANKS, status);
    assert_int_equal(fan_casts(), 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(out[r], 7 * RANKS);
        vbn_coll_free(req[r]);
    }
    close_all(&f);
}

/* After the vote rank 0's call is refused, and made again. */
static void a_refused_call_is_not_counted(void **state)
{
    struct vbn_coll_args bad = sum_args(NULL, NULL, 1);
    int status[RANKS];
    vbn_coll_req_t *req;
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, NULL);
    fan_ranks[2].ready = VBN_PENDING;
    sums(&f, RANKS, 15);
    vote_all(&f, RANKS, status);
    assert_int_equal(vbn_coll_istart(f.team[0], &bad, &req, NULL), VBN_ERR_INVALID);
    sums(&f, RANKS, 1);
    assert_int_equal(asked(RANKS), RANKS);
    fan_ranks[2].ready = VBN_OK;
    sums(&f, RANKS, 15);
    assert_true(all_cast(&f, RANKS));
    close_all(&f);
}

/* Before the vote, which the others might never come to. */
static void a_call_that_blocks_is_refused_at_once(void **state)
{
    struct vbn_coll_args old = sum_args(NULL, NULL, 0);
    struct fixture f;
    uint64_t messages;

    (void)state;
    old.size--;
    open_fan(&f, RANKS, NULL);
    sums(&f, RANKS, 15);
    messages = loop_messages(f.loop);
    assert_int_equal(vbn_allreduce(f.team[0], NULL, NULL, 1, VBN_INT32, VBN_SUM), VBN_ERR_INVALID);
    assert_non_null(strstr(vbn_team_error(f.team[0]), "sendbuf is NULL"));
    assert_int_equal(vbn_allgatherv(f.team[0], VBN_IN_PLACE, 0, &f, NULL, NULL, VBN_INT32),
                     VBN_ERR_INVALID);
    assert_int_equal(vbn_bcast(f.team[0], &f, 1, VBN_INT32, RANKS), VBN_ERR_INVALID);
    assert_int_equal(vbn_coll(f.team[0], &old), VBN_ERR_INVALID);
    assert_int_equal(vbn_coll(f.team[0], NULL), VBN_ERR_INVALID);
    assert_int_equal(loop_messages(f.loop), messages);
    sums(&f, RANKS, 1);
    assert_true(all_cast(&f, RANKS));
    close_all(&f);
}

/* The vote fails as a call would. */
static void a_vote_that_fails_is_told(void **state)
{
    vbn_coll_req_t *req[RANKS] = {NULL};
    int status[RANKS];
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, "allreduce=ring");
    sums(&f, RANKS, 15);
    for (uint32_t r = 0; r < RANKS - 1; r++)
        assert_int_equal(vbn_team_vote(f.team[r], &req[r], NULL), VBN_OK);
    for (uint32_t r = 1; r < RANKS; r++)
        loop_kill(f.loop, r);
    finish(&f, req, RANKS, status);
    assert_int_equal(status[0], VBN_ERR_PEER_LOST);
    assert_non_null(strstr(vbn_team_error(f.team[0]), "rank"));
    assert_non_null(strstr(f.line, "has no group: the vote failed"));
    assert_int_equal(fan_ranks[0].closed, 1);
    close_all(&f);
}

/* Ranks 1 and 2 of three, who go on while rank 0 is in a call that blocks. */
static struct fixture *blocking;
static vbn_coll_req_t *others_req[THREE];
static unsigned others_left[THREE]; /* calls */
static int32_t others_in[THREE], others_out[THREE];

static void other_goes_on(uint32_t r)
{
    struct vbn_coll_args args = sum_args(&others_in[r], &others_out[r], 1);
    bool voted = others_req[r] && others_req[r]->args.op == VBN_MIN;

    if (others_req[r] && vbn_coll_test(others_req[r]) == VBN_PENDING)
        return;
    others_req[r] = NULL;
    if (!others_left[r])
        return;
    if (!voted)
        assert_int_equal(vbn_team_vote(blocking->team[r], &others_req[r], NULL), VBN_OK);
    if (others_req[r])
        return;
    assert_int_equal(vbn_coll_istart(blocking->team[r], &args, &others_req[r], NULL), VBN_OK);
    others_left[r]--;
}

static int others_progress(vbn_port_t *port)
{
    int done = 0;

    (void)port;
    for (uint32_t r = 0; r < THREE; r++) {
        done += loop_table()->progress(loop_port(blocking->loop, r));
        if (r)
            other_goes_on(r);
    }
    return done;
}

static void calls_that_block_vote(void **state)
{
    enum { CALLS = 20 };
    int32_t in = 5, out = 0;
    struct fixture f;

    (void)state;
    open_fan(&f, THREE, NULL);
    fan.progress = others_progress;
    blocking = &f;
    for (uint32_t r = 1; r < THREE; r++) {
        others_left[r] = CALLS;
        others_in[r] = (int32_t)r;
    }
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(vbn_allreduce(f.team[0], &in, &out, 1, VBN_INT32, VBN_SUM), VBN_OK);
        assert_int_equal(out, 8);
    }
    while (others_req[1] || others_req[2])
        others_progress(NULL);
    assert_int_equal(asked(THREE), THREE);
    assert_true(all_cast(&f, THREE));
    close_all(&f);
}

/* How a cast fails, and what it waits for. */
static void a_cast_names_all(void **state)
{
    static char data[100];
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_BCAST,
                                 .recvbuf = data,
                                 .count = sizeof(data),
                                 .dtype = VBN_BYTES};
    vbn_coll_req_t *req[1];
    int status[1];
    struct fixture f;

    (void)state;
    open_fan(&f, RANKS, "bcast=multicast");
    sums(&f, RANKS, 16);
    assert_int_equal(vbn_coll_istart(f.team[0], &args, &req[0], NULL), VBN_OK);
    poll_all(&f);
    vbn_engine_stall_report(req[0]);
    assert_non_null(strstr(f.line, "waits for a message to be taken by all."));
    for (uint32_t r = 1; r < RANKS; r++)
        loop_kill(f.loop, r);
    finish(&f, req, 1, status);
    assert_int_equal(status[0], VBN_ERR_PEER_LOST);
    assert_non_null(strstr(vbn_team_error(f.team[0]), "sending to all: "));
    close_all(&f);
}

/* --- calls that repeat ------------------------------------------------------------------------ */

static void add_one(const void *in, void *inout, size_t count, void *arg)
{
    for (size_t i = 0; i < count; i++)
        ((int32_t *)inout)[i] += ((const int32_t *)in)[i] + *(const int32_t *)arg;
}

/* ARGS on two ranks, whose values are 5 and 3; the result of rank 1. */
static int32_t result_of(struct fixture *f, struct vbn_coll_args args)
{
    static int32_t in[2], out[2];
    vbn_coll_req_t *req[2];
    int status[2];

    for (uint32_t r = 0; r < 2; r++) {
        in[r] = r ? 3 : 5;
        out[r] = 0;
        args.sendbuf = &in[r];
        args.recvbuf = &out[r];
        assert_int_equal(vbn_coll_istart(f->team[r], &args, &req[r], &f->err), VBN_OK);
    }
    finish(f, req, 2, status);
    assert_int_equal(status[0], VBN_OK);
    assert_int_equal(status[1], VBN_OK);
    assert_int_equal(out[0], out[1]);
    return out[1];
}

/* What is taken over from the last call like it is only what is the same. */
static void calls_that_repeat(void **state)
{
    struct vbn_coll_args args = {.size = sizeof(args),
                                 .coll = VBN_COLL_ALLREDUCE,
                                 .count = 1,
                                 .dtype = VBN_INT32,
                                 .op = VBN_SUM};
    int32_t ten = 10, twenty = 20, value = 0;
    struct vbn_user_op plus_ten = {add_one, &ten, true}, plus_twenty = {add_one, &twenty, true};
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct vbn_coll_args bad = args;
    struct fixture f;
    vbn_coll_req_t *req;

    (void)state;
    open_all(&f, &loop, 2, NULL);
    for (int i = 0; i < 3; i++) {
        args.user_op = NULL;
        args.op = VBN_SUM;
        assert_int_equal(result_of(&f, args), 8);
        args.op = VBN_MAX;
        assert_int_equal(result_of(&f, args), 5);
        args.user_op = &plus_ten;
        assert_int_equal(result_of(&f, args), 18);
        args.user_op = &plus_twenty;
        assert_int_equal(result_of(&f, args), 28);
    }
    bad.recvbuf = &value;
    assert_int_equal(vbn_coll_istart(f.team[0], &bad, &req, NULL), VBN_ERR_INVALID);
    bad.sendbuf = &value; /* the same */
    assert_int_equal(vbn_coll_istart(f.team[0], &bad, &req, NULL), VBN_ERR_INVALID);
    plus_ten.fn = NULL;
    args.user_op = &plus_ten;
    args.sendbuf = &value;
    args.recvbuf = &ten;
    assert_int_equal(vbn_coll_istart(f.team[0], &args, &req, NULL), VBN_ERR_INVALID);
    close_all(&f);
}

/* --- without memory --------------------------------------------------------------------------- */

static unsigned fail_in; /* the allocation of this number from now fails; 0: none */

static bool fails(void)
{
    return fail_in && --fail_in == 0;
}

void *__real_malloc(size_t len);
void *__real_calloc(size_t count, size_t len);
void *__real_realloc(void *old, size_t len);
void *__real_aligned_alloc(size_t align, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t count, size_t len);
void *__wrap_realloc(void *old, size_t len);
void *__wrap_aligned_alloc(size_t align, size_t len);

void *__wrap_malloc(size_t len)
{
    return fails() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t count, size_t len)
{
    return fails() ? NULL : __real_calloc(count, len);
}

void *__wrap_realloc(void *old, size_t len)
{
    return fails() ? NULL : __real_realloc(old, len);
}

void *__wrap_aligned_alloc(size_t align, size_t len)
{
    return fails() ? NULL : __real_aligned_alloc(align, len);
}

/* Two teams and a call with all that a request can have; how the first failure is told. */
static int use_memory(struct fixture *f, struct vbn_team_options *opts)
{
    static const uint32_t ranks[] = {1, 0, 3};
    size_t counts[RANKS] = {40, 40, 40, 40, 40, 40};
    int32_t in[240] = {0}, out[240];
    struct vbn_coll_args args = sum_args(in, out, 40);
    vbn_team_t *team = NULL, *sub = NULL;
    vbn_coll_req_t *req = NULL;
    int status;

    args.coll = VBN_COLL_REDUCE_SCATTER;
    args.recvcounts = counts;
    status = vbn_team_create(loop_table(), loop_port(f->loop, 0), loop_peers(f->loop, 0), RANKS, 0,
                             1, opts, &team, &f->err);
    if (status != VBN_OK)
        return status;
    status = vbn_team_split(team, ranks, 3, 2, &sub, &f->err);
    if (status == VBN_OK)
        status = vbn_coll_init(sub, &args, &req, &f->err);
    if (status == VBN_OK) {
        vbn_coll_free(req);
        args.coll = VBN_COLL_ALLGATHERV; /* with the memory of the last */
        status = vbn_coll_init(sub, &args, &req, &f->err);
        vbn_coll_free(req);
    }
    if (sub)
        assert_int_equal(vbn_team_destroy(sub), VBN_OK);
    assert_int_equal(vbn_team_destroy(team), VBN_OK);
    return status;
}

static void without_memory_nothing_is_left(void **state)
{
    struct loop_options loop = {.eager_limit = SIZE_MAX};
    struct vbn_team_options opts;
    struct fixture f;
    unsigned nth;
    int status;

    (void)state;
    open_loop(&f, &loop);
    opts = options(&f);
    opts.rules = "bcast=chain bcast=knomial";
    for (nth = 1;; nth++) {
        fail_in = nth;
        status = use_memory(&f, &opts);
        if (fail_in)
            break; /* there are not so many */
        assert_int_equal(status, VBN_ERR_NO_MEMORY);
        assert_non_null(strstr(f.err.text, "no memory"));
    }
    fail_in = 0;
    assert_int_equal(status, VBN_OK);
    assert_true(nth > 10);
    assert_int_equal(loop_destroy(f.loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(nothing_of_reduce_scatter_may_go_nowhere),
        cmocka_unit_test(all_ranks_find_the_same_bits),
        cmocka_unit_test(a_block_of_nothing_is_nowhere),
        cmocka_unit_test(an_exchange_of_nothing_is_nowhere),
        cmocka_unit_test(in_place_no_count_is_looked_at),
        cmocka_unit_test(bad_teams_are_refused),
        cmocka_unit_test(wrong_rules_name_the_right_ones),
        cmocka_unit_test(the_first_rule_that_fits_is_taken),
        cmocka_unit_test(radices_that_processors_choose),
        cmocka_unit_test(rounds_that_processors_choose),
        cmocka_unit_test(shared_processors_choose_otherwise),
        cmocka_unit_test(a_root_that_stays_chooses_otherwise),
        cmocka_unit_test(long_messages_stay_whole_on_shared_processors),
        cmocka_unit_test(segments_need_not_be_asked_for),
        cmocka_unit_test(checked_roots_choose_alike),
        cmocka_unit_test(offers_choose_otherwise),
        cmocka_unit_test(terms_count_offers_and_turns),
        cmocka_unit_test(terms_count_waits_for_all),
        cmocka_unit_test(terms_count_bytes_of_trees),
        cmocka_unit_test(terms_count_bytes_of_turns),
        cmocka_unit_test(rules_come_from_a_file),
        cmocka_unit_test(what_decides_is_agreed_about),
        cmocka_unit_test(rules_are_agreed_about),
        cmocka_unit_test(what_does_not_decide_may_differ),
        cmocka_unit_test(nothing_is_agreed_about_bad_options),
        cmocka_unit_test(more_ranks_have_trees_of_fewer_levels),
        cmocka_unit_test(choices_are_numbered),
        cmocka_unit_test(persistent_requests_start_in_any_order),
        cmocka_unit_test(a_request_freed_under_way_goes_on),
        cmocka_unit_test(many_teams_and_operations_at_once),
        cmocka_unit_test(late_sends_hold_up_no_round),
        cmocka_unit_test(numbers_wrap),
        cmocka_unit_test(a_number_is_not_given_twice),
        cmocka_unit_test(blocking_calls),
        cmocka_unit_test(a_wrong_length_is_told),
        cmocka_unit_test(counts_that_differ_are_told),
        cmocka_unit_test(a_lost_peer_ends_what_needs_it),
        cmocka_unit_test(the_check_names_both_calls),
        cmocka_unit_test(the_check_lets_pass_what_agrees),
        cmocka_unit_test(a_stall_is_told_once),
        cmocka_unit_test(who_shares_a_processor_yields_then_sleeps),
        cmocka_unit_test(who_has_moved_much_sleeps_soon),
        cmocka_unit_test(who_waits_for_much_sleeps_at_once),
        cmocka_unit_test(who_sends_much_yields),
        cmocka_unit_test(who_has_a_processor_or_may_not_sleep_does_not),
        cmocka_unit_test(a_group_is_opened_then_voted_for),
        cmocka_unit_test(who_is_not_ready_is_asked_again),
        cmocka_unit_test(calls_that_do_not_block_are_counted),
        cmocka_unit_test(who_cannot_ends_it_for_all),
        cmocka_unit_test(whose_transport_has_none_ends_it_for_all),
        cmocka_unit_test(ranks_that_hear_nothing_give_up),
        cmocka_unit_test(few_ranks_and_those_who_do_not_want_have_none),
        cmocka_unit_test(parts_have_groups_of_their_own),
        cmocka_unit_test(groups_with_the_check),
        cmocka_unit_test(requests_from_before_do_not_cast),
        cmocka_unit_test(a_refused_call_is_not_counted),
        cmocka_unit_test(a_call_that_blocks_is_refused_at_once),
        cmocka_unit_test(a_vote_that_fails_is_told),
        cmocka_unit_test(calls_that_block_vote),
        cmocka_unit_test(a_cast_names_all),
        cmocka_unit_test(calls_that_repeat),
        cmocka_unit_test(without_memory_nothing_is_left),
    };

    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
