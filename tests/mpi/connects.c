/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First traffic to every other rank. Each rank opens its peers in a random order of its own, so
 * some pairs connect from both sides at once and others from one side while the other is busy; the
 * first message is now a small one and now a rendezvous. Then a second message on each connection.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

static struct message message_between(const struct job *job, int source, int dest, int tag)
{
    uint64_t random = hash_of(job->seed, (uint64_t)source << 32 | (uint64_t)dest, (uint64_t)tag);
    size_t len = random % 4 == 0 ? 100000 + random % 50000 : random % 2000;
    return (struct message){.source = source, .dest = dest, .tag = tag, .len_bytes = len};
}

static void receive_from(const struct job *job, int peer, int tag)
{
    struct message message = message_between(job, peer, job->rank, tag);
    struct transfer in;
    MPI_Status status;
    transfer_begin_recv(&in, &message);
    MPI_Recv(in.bytes, (int)message.len_bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status);
    transfer_check(&in, &status);
    transfer_end(&in);
}

/* Starts the sends in this rank's own order; only then looks at what the others sent. */
static void exchange(const struct job *job, const int *order, int tag)
{
    struct transfer *out = calloc((size_t)job->size, sizeof *out);
    MPI_Request *requests = calloc((size_t)job->size, sizeof(MPI_Request));
    for (int i = 0; i < job->size; i++) {
        struct message message = message_between(job, job->rank, order[i], tag);
        step("message %d to rank %d", tag, order[i]);
        transfer_begin_send(&out[i], &message);
        transfer_isend(&out[i], MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = job->size - 1; i >= 0; i--) {
        step("message %d from rank %d", tag, order[i]);
        receive_from(job, order[i], tag);
    }
    step("the end of the sends of message %d", tag);
    MPI_Waitall(job->size, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < job->size; i++)
        transfer_end(&out[i]);
    free(requests);
    free(out);
}

void run_connects(const struct job *job)
{
    int *order = calloc((size_t)job->size, sizeof *order);
    uint64_t random = hash_of(job->seed, (uint64_t)job->rank, 0);
    for (int i = 0; i < job->size; i++)
        order[i] = i;
    for (int tag = 0; tag < 2; tag++) {
        shuffle(order, job->size, &random);
        exchange(job, order, tag);
    }
    free(order);
}
