/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs: each rank is a thread, the out-of-band interface is shared memory, transports are fakes. */
#include "rig.h"

#include <pthread.h>
#include <sched.h>

#include "fake.h"
#include "verbena_bootstrap.h"

enum { RANKS = 4 };

/* --- the interface ---------------------------------------------------------------------------- */

static struct {
    pthread_barrier_t barrier;
    unsigned char board[RANKS * 8192];
    unsigned arrived;   /* at the barrier with idle */
    unsigned ended;     /* ranks whose job has ended */
    unsigned waits_for; /* so many, who ends last */
    bool broken;        /* allgather fails */
    bool lossy[RANKS];  /* loses a peer before the end */
    bool quick;         /* each look at the clock is a second later */
} shared;

static int shared_allgather(void *arg, const void *mine, size_t len, void *all)
{
    uintptr_t rank = (uintptr_t)arg;

    if (shared.broken || len * RANKS > sizeof(shared.board))
        return VBN_ERR_UNREACHABLE;
    memcpy(shared.board + rank * len, mine, len);
    pthread_barrier_wait(&shared.barrier);
    memcpy(all, shared.board, RANKS * len);
    pthread_barrier_wait(&shared.barrier);
    return VBN_OK;
}

static int shared_barrier(void *arg, int (*idle)(void *idle_arg), void *idle_arg)
{
    unsigned turn = __atomic_fetch_add(&shared.arrived, 1, __ATOMIC_ACQ_REL) / RANKS;
    int status;

    (void)arg;
    do
        status = idle(idle_arg);
    while (status == VBN_OK &&
           __atomic_load_n(&shared.arrived, __ATOMIC_ACQUIRE) < (turn + 1) * RANKS);
    return status;
}

static struct vbn_oob oob_of(uintptr_t rank)
{
    return (struct vbn_oob){
        .size = sizeof(struct vbn_oob),
        .rank = (uint32_t)rank,
        .ranks = RANKS,
        .local_rank = (uint32_t)rank,
        .local_ranks = RANKS,
        .job_key = 4711,
        .arg = (void *)rank,
        .allgather = shared_allgather,
        .barrier = shared_barrier,
    };
}

/* --- ranks ------------------------------------------------------------------------------------ */

static struct rank {
    const char *line; /* its command line */
    int status;
    struct vbn_error err;
    char transport[32];
    char told[1024];
    unsigned problems, closed;
    uint64_t now_ns;
} ranks[RANKS];

static void take_log(void *arg, enum vbn_log_level level, const char *text)
{
    struct rank *rank = arg;

    if (level <= VBN_LOG_WARN)
        snprintf(rank->told, sizeof(rank->told), "%s", text);
}

static uint64_t quick_clock(void *arg)
{
    struct rank *rank = arg;

    return rank->now_ns += 1000000000;
}

static void look_at(struct rank *rank, uintptr_t number, struct vbn_job *job)
{
    struct fake_port *port = (struct fake_port *)(void *)job->port;

    snprintf(rank->transport, sizeof(rank->transport), "%s", job->tr->name);
    rank->problems += job->rank != number || job->ranks != RANKS || job->local_ranks != RANKS;
    rank->problems += port->rank != number || port->job_key != 4711;
    for (uintptr_t i = 0; i < RANKS; i++)
        rank->problems += job->peers[i] != (i == number ? NULL : (vbn_peer_t *)(i + 1000));
    port->closed = &rank->closed;
}

static void end(uintptr_t number, struct vbn_job *job)
{
    struct fake_port *port = (struct fake_port *)(void *)job->port;

    if (shared.lossy[number])
        port->peer_error(port->callback_arg, job->peers[!number], VBN_ERR_PEER_LOST, "it is gone");
    while (number == RANKS - 1 &&
           __atomic_load_n(&shared.ended, __ATOMIC_ACQUIRE) < shared.waits_for)
        sched_yield();
    ranks[number].status = vbn_job_destroy(job);
    __atomic_fetch_add(&shared.ended, 1, __ATOMIC_RELEASE);
}

static void *run_rank(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    struct rank *rank = &ranks[number];
    struct vbn_oob oob = oob_of(number);
    struct vbn_port_config base = {.size = sizeof(base),
                                   .callback_arg = rank,
                                   .log = take_log,
                                   .clock_ns = shared.quick ? quick_clock : NULL};
    vbn_loader_t *own = NULL;
    struct vbn_job *job;
    char words[256], *argv[32], *save = NULL;
    int argc = 0;

    snprintf(words, sizeof(words), "program %s", rank->line);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    argv[argc] = NULL;
    rank->status = vbn_loader_create(&argc, argv, &own, &rank->err);
    if (rank->status == VBN_OK)
        rank->status = vbn_job_create(own, &oob, &base, &job, &rank->err);
    if (rank->status == VBN_OK) {
        look_at(rank, number, job);
        end(number, job);
    }
    vbn_loader_destroy(own);
    return NULL;
}

static void run_ranks(const char *line, const char *line_of_2)
{
    pthread_t threads[RANKS];

    memset(ranks, 0, sizeof(ranks));
    setenv("VERBENA_MCA_transport_path", folder, 1);
    for (uintptr_t i = 0; i < RANKS; i++)
        ranks[i].line = i == 2 && line_of_2 ? line_of_2 : line;
    for (uintptr_t i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, (void *)i), 0);
    for (uintptr_t i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

static void assert_all_took(const char *transport)
{
    for (int i = 0; i < RANKS; i++) {
        if (ranks[i].status != VBN_OK)
            fail_msg("rank %d: %s", i, ranks[i].err.text);
        assert_string_equal(ranks[i].transport, transport);
        assert_int_equal(ranks[i].problems, 0);
        assert_int_equal(ranks[i].closed, 1);
    }
}

static void assert_all_failed(int status, const char *part)
{
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, status);
        assert_contains(ranks[i].err.text, part);
    }
}

static int setup(void **state)
{
    memset(&shared, 0, sizeof(shared));
    pthread_barrier_init(&shared.barrier, NULL, RANKS);
    return rig_setup(state);
}

static int teardown(void **state)
{
    pthread_barrier_destroy(&shared.barrier);
    return rig_teardown(state);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void ranks_know_each_other(void **state)
{
    (void)state;
    put_plugin("good");
    run_ranks("--mca transport good", NULL);
    assert_all_took("good");
    assert_int_equal(shared.arrived, 2 * RANKS); /* before the draining and after it */
    for (int i = 0; i < RANKS; i++)
        assert_string_equal(ranks[i].told, "");
}

static void one_rank_that_cannot_decides_for_all(void **state)
{
    (void)state;
    put_plugin("noopen1");
    put_plugin("good");
    run_ranks("--mca transport noopen1,good", NULL);
    assert_all_took("good");
    assert_string_equal(ranks[0].told, "transport: good (noopen1: rank 1: the door is locked)");
    for (int i = 1; i < RANKS; i++)
        assert_string_equal(ranks[i].told, "");
}

static void order_is_rank_0s(void **state)
{
    (void)state;
    put_plugin("good");
    put_plugin("fine");
    run_ranks("--mca transport good,fine", "--mca transport fine,good");
    assert_all_took("good");
    run_ranks("--mca transport good,fine", "--mca transport fine");
    assert_all_took("fine");
    assert_contains(ranks[0].told, "good: rank 2: excluded by this rank's parameter transport");
}

static void no_transport_for_all(void **state)
{
    (void)state;
    put_plugin("noopen1");
    put_plugin("noopen");
    run_ranks("--mca transport noopen1,noopen", NULL);
    assert_all_failed(VBN_ERR_DEVICE, "no transport can be used on all ranks: noopen1: rank 1: the "
                                      "door is locked; noopen: the door is locked");
}

static void bad_parameters_of_one_rank_end_all(void **state)
{
    (void)state;
    put_plugin("good");
    run_ranks("--mca transport good", "--mca transport good --mca transport_good_depth 99");
    assert_all_failed(VBN_ERR_INVALID, "rank 2: command line: parameter transport_good_depth");
    run_ranks("--mca transport good", "--mca transport bad");
    assert_all_failed(VBN_ERR_INVALID, "rank 2: command line: parameter transport");
}

static void one_without_an_address_ends_all(void **state)
{
    (void)state;
    put_plugin("noaddress");
    run_ranks("--mca transport noaddress", NULL);
    assert_all_failed(VBN_ERR_DEVICE, "rank 1: the port has no address: ");
}

static void one_that_cannot_connect_ends_all(void **state)
{
    (void)state;
    put_plugin("noconnect");
    run_ranks("--mca transport noconnect", NULL);
    assert_all_failed(VBN_ERR_DEVICE, "ranks 1 to 3: no way there");
}

/* A link between two, say: the others know nothing of it, and wait for all. */
static void who_has_lost_a_peer_ends_with_the_others(void **state)
{
    (void)state;
    put_plugin("good");
    shared.lossy[0] = shared.lossy[1] = true;
    run_ranks("--mca transport good", NULL);
    assert_all_took("good");
    assert_int_equal(shared.arrived, 2 * RANKS);
}

/* The last one comes when the others have given him up. He meets them, but not again. */
static void who_has_lost_a_peer_does_not_wait_for_ever(void **state)
{
    (void)state;
    put_plugin("good");
    shared.lossy[0] = shared.lossy[1] = shared.lossy[2] = true;
    shared.waits_for = RANKS - 1;
    shared.quick = true;
    run_ranks("--mca transport good", NULL);
    assert_all_took("good");
    assert_int_equal(shared.arrived, RANKS + 1);
}

static void broken_interface_is_told(void **state)
{
    (void)state;
    put_plugin("good");
    shared.broken = true;
    run_ranks("--mca transport good", NULL);
    assert_all_failed(VBN_ERR_UNREACHABLE, "out of band");
}

static void interfaces_are_checked(void **state)
{
    struct vbn_oob oob = oob_of(0);
    struct vbn_job *job;

    (void)state;
    created("--mca transport good");
    oob.rank = RANKS;
    assert_int_equal(vbn_job_create(loader, &oob, NULL, &job, &err), VBN_ERR_INVALID);
    oob = oob_of(0);
    oob.barrier = NULL;
    assert_int_equal(vbn_job_create(loader, &oob, NULL, &job, &err), VBN_ERR_INVALID);
    oob = oob_of(0);
    oob.size = 8;
    assert_int_equal(vbn_job_create(loader, &oob, NULL, &job, &err), VBN_ERR_INVALID);
    assert_int_equal(vbn_job_create(loader, NULL, NULL, &job, &err), VBN_ERR_INVALID);
    assert_int_equal(vbn_job_destroy(NULL), VBN_OK);
}

/* What PMIx loses when no runtime answers it is not ours. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libpmix";
}

/* --- started by hand -------------------------------------------------------------------------- */

static void a_process_alone_is_a_job(void **state)
{
    char *argv[] = {(char *)"program", (char *)"--mca", (char *)"transport",
                    (char *)"good",    (char *)"x",     NULL};
    int argc = 5, seen = 0;
    struct vbn_job *job;

    (void)state;
    put_plugin("good");
    setenv("VERBENA_MCA_transport_path", folder, 1);
    if (vbn_job_start(&argc, argv, &job, &err) != VBN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(argc, 2);
    assert_string_equal(argv[1], "x");
    assert_int_equal(job->rank, 0);
    assert_int_equal(job->ranks, 1);
    assert_null(job->peers[0]);
    assert_string_equal(vbn_loader_value(job->loader, "transport"), "good");
    assert_int_equal(vbn_job_barrier(job), VBN_OK);
    assert_int_equal(vbn_job_allgather(job, &argc, sizeof(argc), &seen), VBN_OK);
    assert_int_equal(seen, 2);
    assert_int_equal(vbn_job_destroy(job), VBN_OK);
}

static void start_tells_what_is_wrong(void **state)
{
    char *bad[] = {(char *)"program", (char *)"--mca", (char *)"transport", NULL};
    char *unknown[] = {(char *)"program", (char *)"--mca", (char *)"transprot", (char *)"x", NULL};
    int argc = 3;
    struct vbn_job *job;

    (void)state;
    assert_int_equal(vbn_job_start(&argc, bad, &job, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "needs a value");
    argc = 4;
    assert_int_equal(vbn_job_start(&argc, unknown, &job, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "did you mean transport;");
}

static void start_without_its_runtime(void **state)
{
    int argc = 0;
    struct vbn_job *job;

    (void)state;
    setenv("PMIX_NAMESPACE", "gone", 1);
    assert_int_equal(vbn_job_start(&argc, NULL, &job, &err), VBN_ERR_UNREACHABLE);
    assert_contains(err.text, "PMIx");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(ranks_know_each_other),
        TEST(one_rank_that_cannot_decides_for_all),
        TEST(order_is_rank_0s),
        TEST(no_transport_for_all),
        TEST(bad_parameters_of_one_rank_end_all),
        TEST(one_without_an_address_ends_all),
        TEST(one_that_cannot_connect_ends_all),
        TEST(who_has_lost_a_peer_ends_with_the_others),
        TEST(who_has_lost_a_peer_does_not_wait_for_ever),
        TEST(broken_interface_is_told),
        TEST(interfaces_are_checked),
        TEST(a_process_alone_is_a_job),
        TEST(start_tells_what_is_wrong),
        TEST(start_without_its_runtime),
    };

    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
