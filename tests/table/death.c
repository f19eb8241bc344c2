/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that are other processes, and die. */
#include "crowd.h"
#include "ends.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_LIFE_S   120
#define NOTICE_LIMIT_S 60

static unsigned errors;
static int error_status;

static void take_error(void *arg, vbn_peer_t *peer, int status, const char *reason)
{
    (void)arg;
    assert_ptr_equal(peer, a.peer);
    assert_true(strlen(reason) > 0);
    errors++;
    error_status = status;
}

static void write_all(int fd, const void *bytes, size_t len)
{
    if (write(fd, bytes, len) != (ssize_t)len)
        fail_msg("the other process does not listen");
}

/* Pipes keep the pieces together only when asked again. */
static void read_all(int fd, void *bytes, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t now = read(fd, (char *)bytes + got, len - got);

        if (now <= 0)
            fail_msg("the other process says nothing");
        got += (size_t)now;
    }
}

/* Gives the other process BYTES, and takes its own instead. */
static void swap_with_other(int in, int out, unsigned char *bytes, size_t *len, size_t room)
{
    write_all(out, len, sizeof(*len));
    write_all(out, bytes, *len);
    read_all(in, len, sizeof(*len));
    assert_true(*len <= room);
    read_all(in, bytes, *len);
}

/* Opens a port as A, and makes the process behind the descriptors its peer. False: the transport
 * has no halves. */
static bool open_to(uint32_t rank, int in, int out, bool by_halves)
{
    struct vbn_port_config config = {
        .size = sizeof(config), .rank = rank, .job_key = 7, .peer_error = take_error};
    unsigned char bytes[65536];
    size_t len = sizeof(bytes);
    vbn_half_t *half = NULL;

    world_open(&config, &tr, &a.port);
    if (by_halves && (!VBN_TRANSPORT_HAS(tr, half_create) ||
                      tr->half_create(a.port, bytes, &len, &half, NULL) != VBN_OK))
        return false;
    if (!by_halves)
        assert_int_equal(tr->address(a.port, bytes, &len), VBN_OK);
    swap_with_other(in, out, bytes, &len, sizeof(bytes));
    if (by_halves)
        assert_int_equal(tr->half_join(half, bytes, len, NULL, &a.peer, NULL), VBN_OK);
    else
        assert_int_equal(tr->connect(a.port, bytes, len, NULL, &a.peer, NULL), VBN_OK);
    return true;
}

/* --- the process that dies -------------------------------------------------------------------- */

int world_child(char **words)
{
    struct vbn_op send = {.done = NULL};
    time_t end = time(NULL) + CHILD_LIFE_S;

    if (!strcmp(words[0], "crowd"))
        return crowd_child(words + 1);
    if (world_begin() != 0)
        return 1;
    if (!open_to(RANK_B, atoi(words[0]), atoi(words[1]), words[2] != NULL))
        return 1;
    post_send(&a, "x", 1, 1, &send);
    while (time(NULL) < end)
        tr->wait(a.port, 1000);
    return 1;
}

/* --- the one that notices --------------------------------------------------------------------- */

static pid_t start_child(int *in, int *out, bool by_halves)
{
    int to[2], from[2];
    char word[2][16];
    pid_t child;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    snprintf(word[0], sizeof(word[0]), "%d", to[0]);
    snprintf(word[1], sizeof(word[1]), "%d", from[1]);
    child = fork();
    if (child == 0) {
        execl(program_invocation_name, "test_table", "--child", word[0], word[1],
              by_halves ? "halves" : NULL, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    close(to[0]);
    close(from[1]);
    *in = from[0];
    *out = to[1];
    return child;
}

static void await_the_end(struct vbn_op *op, size_t count)
{
    time_t limit = time(NULL) + NOTICE_LIMIT_S;

    for (size_t i = 0; i < count;) {
        tr->wait(a.port, 100);
        if (errors && op[i].status != VBN_PENDING)
            i++;
        else if (time(NULL) > limit)
            fail_msg("not noticed within %d s", NOTICE_LIMIT_S);
    }
}

/* All that names it ends, what names nobody goes on, and it is told once. */
static void expect_told(struct vbn_op *op, size_t count, const struct vbn_op *any)
{
    struct vbn_op late;

    await_the_end(op, count);
    assert_int_equal(errors, 1);
    assert_int_equal(error_status, VBN_ERR_PEER_LOST);
    for (size_t i = 0; i < count; i++)
        assert_true(op[i].status < 0);
    assert_int_equal(any->status, VBN_PENDING);
    assert_true(tr->send(a.peer, "x", 1, 1, &late) < 0);
}

static void die(bool by_halves, bool in_silence)
{
    static unsigned char large[4000000], in[3];
    static struct vbn_op first, op[2], any;
    size_t count = in_silence ? 1 : 2;
    int from, to, status;
    pid_t child = start_child(&from, &to, by_halves);

    errors = 0;
    signal(SIGPIPE, SIG_IGN); /* a child that does not come up is a failed test */
    if (!open_to(RANK_A, from, to, by_halves)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        tr->close(a.port);
        a.port = NULL;
        close(from);
        close(to);
        return; /* nothing to be told */
    }
    post_recv(&a, a.peer, &in[0], 1, 1, VBN_TAG_MAX, &first);
    while (first.status == VBN_PENDING)
        tr->wait(a.port, 1000);
    post_recv(&a, a.peer, &in[1], 1, 2, VBN_TAG_MAX, &op[0]);
    post_recv(&a, NULL, &in[2], 1, 3, VBN_TAG_MAX, &any);
    if (!in_silence)
        post_send(&a, large, sizeof(large), 4, &op[1]); /* nobody receives it */
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (deaths_are_told())
        expect_told(op, count, &any);
    tr->close(a.port); /* within its bound; the test's driver ends what hangs */
    a.port = NULL;
    assert_int_equal(any.status, VBN_ERR_CLOSED);
    assert_int_not_equal(op[count - 1].status, VBN_PENDING);
    assert_int_equal(errors, deaths_are_told());
    close(from);
    close(to);
}

static void death_is_told(void **state)
{
    (void)state;
    die(false, false);
}

/* No kernel tells of it there. */
static void death_is_told_to_halves(void **state)
{
    (void)state;
    die(true, false);
}

static void death_is_told_to_silent_halves(void **state)
{
    (void)state;
    die(true, true);
}

static int setup(void **state)
{
    (void)state;
    return world_begin();
}

static int teardown(void **state)
{
    (void)state;
    return world_end();
}

const struct CMUnitTest *world_tests(size_t *count)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(death_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(death_is_told_to_halves, setup, teardown),
        cmocka_unit_test_setup_teardown(death_is_told_to_silent_halves, setup, teardown),
        cmocka_unit_test(a_killed_rank_ends_alone),
        cmocka_unit_test(a_stopped_rank_is_waited_for),
    };

    *count = sizeof(tests) / sizeof(tests[0]);
    return tests;
}
