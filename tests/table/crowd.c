/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each process is a rank: it sends to every other and receives from it, in rounds of their own for
 * each pair, and checks every byte. They share a board, a file in memory, on which they find each
 * other's addresses and tell the test what they see. The test's own process opens no port.
 */
#include "crowd.h"
#include "ends.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS = 4,
    VICTIM = 2,
    ROUNDS = 20, /* of every pair, before and after the harm */
    LIMIT_S = 60,
    STOP_S = 3, /* unless VERBENA_TEST_STOP_S says otherwise */
    LARGE = 100000,
    LARGE_EVERY = 8,
    TAG = 1
};

struct board {
    atomic_uint present; /* ranks whose address is there */
    struct {
        size_t len;
        unsigned char bytes[BLOB_MAX];
    } address[RANKS];
    atomic_uint rounds[RANKS][RANKS]; /* that the first has finished with the second */
    atomic_uint errors[RANKS];        /* that the rank was told of, and the last of them */
    atomic_int told_rank[RANKS], told_status[RANKS];
    atomic_ullong told_ns[RANKS];
    atomic_bool stop; /* no further rounds */
    char fault[RANKS][200];
};

static struct board *board;

static unsigned long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
}

/* --- a rank ----------------------------------------------------------------------------------- */

/* What it has with one of the others. */
struct lane {
    vbn_peer_t *peer;
    int rank;
    unsigned round;
    bool lost, over;
    struct vbn_op out, in;
    unsigned char sent[LARGE], got[LARGE]; /* the first byte: no further rounds */
};

static struct lane lanes[RANKS];
static int self_rank;

static void fault(const char *what, int number)
{
    char *text = board->fault[self_rank];

    if (!text[0])
        snprintf(text, sizeof(board->fault[0]), "%s %d", what, number);
}

static void lose(void *arg, vbn_peer_t *peer, int status, const char *reason)
{
    (void)arg, (void)reason;
    for (int i = 0; i < RANKS; i++) {
        if (!lanes[i].peer || lanes[i].peer != peer)
            continue;
        lanes[i].lost = true;
        atomic_store(&board->told_rank[self_rank], i);
        atomic_store(&board->told_status[self_rank], status);
        atomic_store(&board->told_ns[self_rank], now_ns());
        atomic_fetch_add(&board->errors[self_rank], 1);
    }
}

static size_t round_len(unsigned round)
{
    return round % LARGE_EVERY == 0 ? LARGE : 1 + round * 37 % 2000;
}

/* Bytes of a message but the first. */
static unsigned seed_of(int from, int to, unsigned round)
{
    return (unsigned)(from * RANKS + to) + round * RANKS * RANKS;
}

static void start(struct vbn_op *op, int status)
{
    if (status != VBN_PENDING)
        op->status = status;
}

static void start_round(struct lane *l)
{
    size_t len = round_len(l->round);

    fill(l->sent, len, seed_of(self_rank, l->rank, l->round));
    l->sent[0] = board->stop;
    l->in = l->out = (struct vbn_op){.done = NULL, .status = VBN_PENDING};
    start(&l->in, tr->recv(a.port, l->peer, l->got, len, TAG, VBN_TAG_MAX, &l->in));
    start(&l->out, tr->send(l->peer, l->sent, len, TAG, &l->out));
}

static void check_round(struct lane *l)
{
    static unsigned char expected[LARGE];
    size_t len = round_len(l->round);

    fill(expected, len, seed_of(l->rank, self_rank, l->round));
    if (l->in.len != len || memcmp(l->got + 1, expected + 1, len - 1) != 0)
        fault("wrong bytes from rank", l->rank);
}

/* True when it did something. */
static bool look_at(struct lane *l)
{
    if (l->over || l->in.status == VBN_PENDING || l->out.status == VBN_PENDING)
        return false;
    if (l->in.status < 0 || l->out.status < 0) {
        l->over = l->lost; /* which it may be told of a little later */
        return l->over;
    }
    check_round(l);
    l->over = l->sent[0] || l->got[0];
    l->round++;
    atomic_store(&board->rounds[self_rank][l->rank], l->round);
    if (!l->over)
        start_round(l);
    return true;
}

static void meet(void)
{
    struct vbn_port_config config = {
        .size = sizeof(config), .rank = (uint32_t)self_rank, .job_key = 9, .peer_error = lose};
    size_t len = BLOB_MAX;

    world_open(&config, &tr, &a.port);
    assert_int_equal(tr->address(a.port, board->address[self_rank].bytes, &len), VBN_OK);
    board->address[self_rank].len = len;
    atomic_fetch_add(&board->present, 1);
    while (atomic_load(&board->present) < RANKS)
        usleep(1000);
    for (int i = 0; i < RANKS; i++) {
        struct lane *l = &lanes[i];

        l->rank = i;
        l->over = i == self_rank;
        if (!l->over)
            assert_int_equal(tr->connect(a.port, board->address[i].bytes, board->address[i].len, l,
                                         &l->peer, NULL),
                             VBN_OK);
    }
}

static void talk(void)
{
    bool busy = true;

    for (int i = 0; i < RANKS; i++)
        if (!lanes[i].over)
            start_round(&lanes[i]);
    while (busy) {
        bool did = false;

        busy = false;
        for (int i = 0; i < RANKS; i++) {
            did |= look_at(&lanes[i]);
            busy |= !lanes[i].over;
        }
        if (!did)
            tr->wait(a.port, 100);
    }
}

int crowd_child(char **words)
{
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(words[1]), 0);
    self_rank = atoi(words[0]);
    alarm(4 * LIMIT_S + 60);
    if (board == MAP_FAILED || world_begin() != 0)
        return 1;
    meet();
    talk();
    while (tr->shutdown(a.port))
        tr->wait(a.port, 100);
    tr->close(a.port);
    return world_end();
}

/* --- the test --------------------------------------------------------------------------------- */

static pid_t crowd[RANKS];

static void begin(void)
{
    char rank[16], descriptor[16];
    int fd = memfd_create("board", 0);

    assert_true(fd >= 0 && ftruncate(fd, sizeof(*board)) == 0);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(board != MAP_FAILED);
    snprintf(descriptor, sizeof(descriptor), "%d", fd);
    for (int i = 0; i < RANKS; i++) {
        snprintf(rank, sizeof(rank), "%d", i);
        crowd[i] = fork();
        if (crowd[i] == 0) {
            execl(program_invocation_name, "test_table", "--child", "crowd", rank, descriptor,
                  (char *)NULL);
            _exit(127);
        }
        assert_true(crowd[i] > 0);
    }
    close(fd);
}

/* Ends what is left of it, whatever became of the test. */
static void clear_away(void)
{
    for (int i = 0; i < RANKS; i++) {
        if (crowd[i] <= 0)
            continue;
        kill(crowd[i], SIGKILL);
        waitpid(crowd[i], NULL, 0);
        crowd[i] = 0;
    }
}

static void give_up(const char *what)
{
    clear_away();
    for (int i = 0; i < RANKS; i++)
        if (board->fault[i][0])
            print_error("rank %d: %s\n", i, board->fault[i]);
    fail_msg("%s", what);
}

/* Each pair finishes ROUNDS more; WITHOUT is left out, unless it is -1. */
static void expect_rounds(int without)
{
    unsigned goal[RANKS][RANKS];
    time_t limit = time(NULL) + LIMIT_S;

    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < RANKS; k++)
            goal[i][k] = atomic_load(&board->rounds[i][k]) + ROUNDS;
    for (int i = 0; i < RANKS; i++) {
        for (int k = 0; k < RANKS; k++) {
            if (i == k || i == without || k == without)
                continue;
            while (atomic_load(&board->rounds[i][k]) < goal[i][k]) {
                if (time(NULL) > limit)
                    give_up("two ranks do not go on with each other");
                usleep(1000);
            }
        }
    }
}

/* In good order, but for the one who has been killed. */
static void end(void)
{
    time_t limit = time(NULL) + LIMIT_S;
    int status;

    atomic_store(&board->stop, true);
    for (int i = 0; i < RANKS; i++) {
        while (crowd[i] > 0 && waitpid(crowd[i], &status, WNOHANG) == 0) {
            if (time(NULL) > limit)
                give_up("a rank does not end");
            usleep(1000);
        }
        if (crowd[i] > 0 && status != 0)
            give_up("a rank ended badly");
        crowd[i] = 0;
        assert_string_equal(board->fault[i], "");
    }
    munmap(board, sizeof(*board));
}

bool deaths_are_told(void)
{
    const char *off = getenv("VERBENA_MCA_transport_ucx_peer_errors");

    return !off || strcmp(off, "0") != 0;
}

static void await_told(int rank, unsigned long long since_ns)
{
    time_t limit = time(NULL) + LIMIT_S;

    while (!atomic_load(&board->errors[rank])) {
        if (time(NULL) > limit)
            give_up("a rank is not told");
        usleep(1000);
    }
    print_message("rank %d is told after %llu ms\n", rank,
                  (atomic_load(&board->told_ns[rank]) - since_ns) / 1000000);
}

void a_killed_rank_ends_alone(void **state)
{
    unsigned long long since_ns;

    (void)state;
    if (!deaths_are_told())
        return;
    begin();
    expect_rounds(-1);
    since_ns = now_ns();
    kill(crowd[VICTIM], SIGKILL);
    waitpid(crowd[VICTIM], NULL, 0);
    crowd[VICTIM] = 0;
    for (int i = 0; i < RANKS; i++)
        if (i != VICTIM)
            await_told(i, since_ns);
    expect_rounds(VICTIM);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(atomic_load(&board->errors[i]), i != VICTIM);
        assert_int_equal(atomic_load(&board->told_rank[i]), i != VICTIM ? VICTIM : 0);
        assert_int_equal(atomic_load(&board->told_status[i]), i != VICTIM ? VBN_ERR_PEER_LOST : 0);
    }
    end();
}

/* For a while that no deadline may mistake for a death. Not where UCX has shared memory, a queue of
 * which stops with the sender that is about to write to it. */
void a_stopped_rank_is_waited_for(void **state)
{
    const char *seconds = getenv("VERBENA_TEST_STOP_S");

    (void)state;
    if (!deaths_are_told())
        return;
    begin();
    expect_rounds(-1);
    kill(crowd[VICTIM], SIGSTOP);
    expect_rounds(VICTIM);
    sleep(seconds ? (unsigned)atoi(seconds) : STOP_S);
    expect_rounds(VICTIM);
    kill(crowd[VICTIM], SIGCONT);
    expect_rounds(-1);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(atomic_load(&board->errors[i]), 0);
    end();
}
