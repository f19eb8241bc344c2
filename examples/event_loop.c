/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbena in a program's own poll() loop: ranks 0 and 1 answer each other a few times; between
 * messages they sleep in poll(), together with whatever else the program polls (here a timer).
 *
 *     mpirun -n 2 ./event_loop
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <verbena_bootstrap.h>

#define QUESTIONS 10

struct program {
    struct vbn_job *job;
    int timer_fd; /* the program's own business */
    unsigned ticks, wakeups;
    uint32_t left; /* messages that are still to come */
    int status;
    int in;
    struct vbn_op recv;
    int out[QUESTIONS + 1]; /* what is sent stays until it is over, which nobody waits for here */
    struct vbn_op send[QUESTIONS + 1];
    unsigned sent;
};

static void say(struct program *program, vbn_peer_t *peer, int word)
{
    unsigned i = program->sent++;
    int status;

    program->out[i] = word;
    status = program->job->tr->send(peer, &program->out[i], sizeof(int), 1, &program->send[i]);
    if (status < 0)
        program->status = status;
}

static void post(struct program *program);

/* Called by progress() when a message is here: never blocks. */
static void received(struct vbn_op *op)
{
    struct program *program = op->arg;

    program->left--;
    program->status = op->status;
    if (op->status == VBN_OK && program->in < QUESTIONS * 2 - 1) /* else it was the last word */
        say(program, op->peer, program->in + 1);
    if (program->left && program->status == VBN_OK)
        post(program);
}

static void post(struct program *program)
{
    struct vbn_job *job = program->job;
    int status = job->tr->recv(job->port, NULL, &program->in, sizeof(program->in), 1, VBN_TAG_MAX,
                               &program->recv);

    if (status == VBN_OK) /* it was here already: `done` is not called */
        received(&program->recv);
    else if (status < 0)
        program->status = status;
}

static void tick(struct program *program)
{
    uint64_t count;

    if (read(program->timer_fd, &count, sizeof(count)) == sizeof(count))
        program->ticks += (unsigned)count;
}

/* arm() tells whether the descriptor may be slept on; then whatever woke us, progress() is cheap.
 */
static void loop(struct program *program)
{
    struct vbn_job *job = program->job;
    struct pollfd fds[] = {{.fd = job->tr->event_fd(job->port), .events = POLLIN},
                           {.fd = program->timer_fd, .events = POLLIN}};

    while (program->left && program->status == VBN_OK) {
        int timeout_ms;

        if (job->tr->arm(job->port, &timeout_ms) == VBN_OK) {
            poll(fds, 2, timeout_ms);
            program->wakeups++;
        }
        if (fds[1].revents & POLLIN)
            tick(program);
        while (job->tr->progress(job->port) > 0)
            continue;
    }
}

static int run(struct program *program)
{
    struct vbn_job *job = program->job;
    struct itimerspec every = {.it_interval = {.tv_nsec = 10000000}, .it_value = {.tv_nsec = 1}};

    program->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    timerfd_settime(program->timer_fd, 0, &every, NULL);
    program->left = QUESTIONS;
    program->recv.done = received;
    program->recv.arg = program;
    post(program);
    if (job->rank == 0)
        say(program, job->peers[1], 0);
    loop(program);
    close(program->timer_fd);
    return program->status;
}

int main(int argc, char **argv)
{
    struct program program = {.status = VBN_OK};
    struct vbn_error err;
    int status = vbn_job_start(&argc, argv, &program.job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "event_loop: %s\n", err.text);
        return 1;
    }
    if (program.job->ranks < 2)
        fprintf(stderr, "event_loop: takes two ranks: mpirun -n 2 %s\n", argv[0]);
    else if (program.job->rank < 2)
        status = run(&program);
    printf("rank %u over %s: %s, %u messages, %u wake-ups, %u ticks of my own\n", program.job->rank,
           program.job->tr->name, vbn_status_str(status),
           program.job->ranks > 1 && program.job->rank < 2 ? QUESTIONS - program.left : 0,
           program.wakeups, program.ticks);
    vbn_job_destroy(program.job);
    return status != VBN_OK;
}
