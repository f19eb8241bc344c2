/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half the time of a message there and back between ranks 0 and 1, and the bandwidth, by size.
 *
 *     mpirun -n 2 ./pingpong [LARGEST_BYTES]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <verbena_bootstrap.h>

#define DEFAULT_LARGEST (4u << 20)

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

static int run(struct vbn_job *job, size_t largest)
{
    char *buf = calloc(1, largest + 1);
    int status = buf ? measure(job, buf, 0) : VBN_ERR_NO_MEMORY;

    for (size_t len = 1; len <= largest && status == VBN_OK; len *= 4)
        status = measure(job, buf, len);
    free(buf);
    return status;
}

int main(int argc, char **argv)
{
    struct vbn_job *job;
    struct vbn_error err;
    int status = vbn_job_start(&argc, argv, &job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "pingpong: %s\n", err.text);
        return 1;
    }
    if (job->ranks < 2)
        fprintf(stderr, "pingpong: takes two ranks: mpirun -n 2 %s\n", argv[0]);
    if (job->rank == 0 && job->ranks > 1)
        printf("over %s\n%10s %12s %12s\n", job->tr->name, "bytes", "us", "MB/s");
    if (job->rank < 2 && job->ranks > 1)
        status = run(job, argc > 1 ? strtoul(argv[1], NULL, 0) : DEFAULT_LARGEST);
    if (status != VBN_OK)
        fprintf(stderr, "pingpong: %s\n", vbn_status_str(status));
    vbn_job_destroy(job);
    return status != VBN_OK;
}
