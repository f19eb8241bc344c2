/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank greets the next one.
 *
 *     cc hello.c $(pkg-config --cflags --libs verbena_bootstrap) -o hello
 *     mpirun -n 4 ./hello            ./hello --mca help transport
 */
#include <stdio.h>
#include <unistd.h>

#include <verbena_bootstrap.h>

/* Starting may fail, may be over at once (VBN_OK), or may go on. */
static int finish(struct vbn_job *job, int started, struct vbn_op *op)
{
    if (started < 0)
        return started;
    while (op->status == VBN_PENDING)
        job->tr->wait(job->port, -1);
    return op->status;
}

static int greet(struct vbn_job *job)
{
    vbn_peer_t *next = job->peers[(job->rank + 1) % job->ranks];
    vbn_peer_t *previous = job->peers[(job->rank + job->ranks - 1) % job->ranks];
    struct vbn_op send = {.done = NULL}, recv = {.done = NULL};
    char out[64], in[64];
    int started, received, status;

    snprintf(out, sizeof(out), "rank %u, process %d", job->rank, (int)getpid());
    started = job->tr->send(next, out, sizeof(out), 1, &send);
    received = finish(
        job, job->tr->recv(job->port, previous, in, sizeof(in), 1, VBN_TAG_MAX, &recv), &recv);
    status = finish(job, started, &send); /* in any case: till then it may look at this stack */
    if (status == VBN_OK)
        status = received;
    if (status == VBN_OK)
        printf("rank %u of %u over %s: hello from %s\n", job->rank, job->ranks, job->tr->name, in);
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
        fprintf(stderr, "hello: %s\n", err.text);
        return 1;
    }
    if (job->ranks == 1)
        printf("rank 0 of 1 over %s: nobody to greet\n", job->tr->name);
    else
        status = greet(job);
    if (status != VBN_OK)
        fprintf(stderr, "hello: %s\n", vbn_status_str(status));
    vbn_job_destroy(job);
    return status != VBN_OK;
}
