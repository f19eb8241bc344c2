/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half the time of a message there and back between ranks 0 and 1, and the bandwidth, by size.
 *
 *     mpirun -n 2 ./pingpong [LARGEST_BYTES]
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <verbena_bootstrap.h>

#define LARGEST_DEFAULT (4ul << 20)
#define LARGEST_MOST    (1ul << 30)

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Polling: quicker than wait(), and takes a processor for it. */
static int finish(struct vbn_job *job, int started, struct vbn_op *op)
{
    if (started < 0)
        return started;
    while (op->status == VBN_PENDING)
        job->tr->progress(job->port);
    return op->status;
}

static int send(struct vbn_job *job, vbn_peer_t *peer, char *buf, size_t len)
{
    struct vbn_op op = {.done = NULL};

    return finish(job, job->tr->send(peer, buf, len, 1, &op), &op);
}

static int receive(struct vbn_job *job, vbn_peer_t *peer, char *buf, size_t len)
{
    struct vbn_op op = {.done = NULL};

    return finish(job, job->tr->recv(job->port, peer, buf, len, 1, VBN_TAG_MAX, &op), &op);
}

static int turn(struct vbn_job *job, char *buf, size_t len)
{
    vbn_peer_t *peer = job->peers[!job->rank];
    int status = job->rank ? receive(job, peer, buf, len) : send(job, peer, buf, len);

    if (status != VBN_OK)
        return status;
    return job->rank ? send(job, peer, buf, len) : receive(job, peer, buf, len);
}

static int measure(struct vbn_job *job, char *buf, size_t len)
{
    int turns = len < 65536 ? 1000 : 100, status = VBN_OK;
    double start = 0, half_us;

    for (int i = -turns / 10; i < turns && status == VBN_OK; i++) {
        if (i == 0) /* after some turns that warm up */
            start = now_us();
        status = turn(job, buf, len);
    }
    half_us = (now_us() - start) / (2.0 * turns);
    if (job->rank == 0 && status == VBN_OK)
        printf("%10zu %12.2f %12.1f\n", len, half_us, (double)len / half_us);
    return status;
}

/* False where TEXT is not a whole number, or too large a one. */
static bool read_largest(const char *text, unsigned long *largest)
{
    char *end;

    *largest = strtoul(text, &end, 0);
    return isdigit((unsigned char)*text) && !*end && *largest <= LARGEST_MOST;
}

static int run(struct vbn_job *job, unsigned long largest)
{
    char *buf = calloc(1, largest + 1);
    int status = buf ? VBN_OK : VBN_ERR_NO_MEMORY;

    if (job->rank == 0)
        printf("over %s\n%10s %12s %12s\n", job->tr->name, "bytes", "us", "MB/s");
    if (status == VBN_OK)
        status = measure(job, buf, 0);
    for (uint64_t len = 1; len <= largest && status == VBN_OK; len *= 4)
        status = measure(job, buf, (size_t)len);
    free(buf);
    return status;
}

int main(int argc, char **argv)
{
    unsigned long largest = LARGEST_DEFAULT;
    struct vbn_job *job;
    struct vbn_error err;
    int status = vbn_job_start(&argc, argv, &job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "pingpong: %s\n", err.text);
        return 1;
    }
    if (argc > 1 && !read_largest(argv[1], &largest)) {
        fprintf(stderr, "pingpong: %s: expected bytes, up to %lu\n", argv[1], LARGEST_MOST);
        status = VBN_ERR_INVALID;
    } else if (job->ranks < 2) {
        fprintf(stderr, "pingpong: takes two ranks: mpirun -n 2 %s\n", argv[0]);
    } else if (job->rank < 2) {
        status = run(job, largest);
        if (status != VBN_OK) { /* the partner may wait: it ends with the job */
            fprintf(stderr, "pingpong: %s\n", vbn_status_str(status));
            return 1;
        }
    }
    vbn_job_destroy(job);
    return status != VBN_OK;
}
