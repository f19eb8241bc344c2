/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More than a receiver can take: one rank bursts to all others, all others burst to one that
 * computes between its receives, and a stream goes one way with nothing coming back for a reply to
 * ride on. What a pair sends must arrive complete and in order.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum {
    BURSTS = 1200,
    BURST = 300,
    STREAMS = 4000,
    STREAM = 3000,
    WORK_EVERY = 50,
    WORK_EVERY_STREAMED = 500,
    WORK_ROUNDS = 1000000
};
enum { TAG_BURST = 1, TAG_INCAST, TAG_STREAM };

static struct message message_of(const struct job *job, int source, int dest, int tag, int serial)
{
    uint64_t random = hash_of(job->seed + (uint64_t)tag, (uint64_t)source << 32 | (uint64_t)dest,
                              (uint64_t)serial);
    size_t len = tag == TAG_STREAM ? random % 256 : len_mixed(random);
    return (struct message){source, dest, tag, len, (uint64_t)serial};
}

/* Time in which this rank makes no progress on messages; volatile, or the loop would vanish. */
static void work(void)
{
    for (volatile int left = WORK_ROUNDS; left > 0; left--)
        continue;
}

static void send_next(const struct job *job, int dest, int tag, int serial)
{
    struct message message = message_of(job, job->rank, dest, tag, serial);
    struct transfer out;
    transfer_begin_send(&out, &message);
    MPI_Send(out.bytes, (int)message.len_bytes, MPI_BYTE, dest, tag, MPI_COMM_WORLD);
    transfer_end(&out);
}

/* From source or from anybody; next_serial counts what each source has sent. */
static void receive_next(const struct job *job, int source, int tag, int *next_serial)
{
    MPI_Status status;
    MPI_Probe(source, tag, MPI_COMM_WORLD, &status);
    int from = status.MPI_SOURCE;
    struct message message = message_of(job, from, job->rank, tag, next_serial[from]++);
    struct transfer in;
    transfer_begin_recv(&in, &message);
    MPI_Recv(in.bytes, (int)message.len_bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
    transfer_check(&in, &status);
    transfer_end(&in);
}

static void burst_from(const struct job *job, int root, int *next_serial)
{
    int burst = share_of(BURSTS, job->size, BURST);
    step("burst from rank %d", root);
    for (int i = 0; i < burst; i++) {
        if (job->rank != root)
            receive_next(job, root, TAG_BURST, next_serial);
        for (int peer = 0; job->rank == root && peer < job->size; peer++)
            if (peer != root)
                send_next(job, peer, TAG_BURST, i);
    }
}

static void incast_to(const struct job *job, int root, int *next_serial)
{
    int burst = share_of(BURSTS, job->size, BURST);
    step("incast to rank %d", root);
    for (int i = 0; job->rank != root && i < burst; i++)
        send_next(job, root, TAG_INCAST, i);
    for (int i = 0; job->rank == root && i < burst * (job->size - 1); i++) {
        if (i % WORK_EVERY == 0)
            work();
        receive_next(job, MPI_ANY_SOURCE, TAG_INCAST, next_serial);
    }
}

/* Each rank of the lower half sends to one of the upper half, which never answers. */
static void stream(const struct job *job, int *next_serial)
{
    int half = job->size / 2;
    int messages = half == 0 ? 0 : share_of(STREAMS, half, STREAM);
    step("one-way stream");
    for (int i = 0; i < messages; i++) {
        if (job->rank < half)
            send_next(job, job->rank + half, TAG_STREAM, i);
        else if (job->rank < 2 * half)
            receive_next(job, job->rank - half, TAG_STREAM, next_serial);
        if (job->rank >= half && i % WORK_EVERY_STREAMED == 0)
            work();
    }
}

void run_flood(const struct job *job)
{
    int last = job->size - 1;
    for (int turn = 0; turn < 2; turn++) {
        int *next_serial = calloc((size_t)job->size, sizeof *next_serial);
        burst_from(job, turn == 0 ? 0 : last, next_serial);
        free(next_serial);
        next_serial = calloc((size_t)job->size, sizeof *next_serial);
        incast_to(job, turn == 0 ? 0 : last, next_serial);
        free(next_serial);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    int *next_serial = calloc((size_t)job->size, sizeof *next_serial);
    stream(job, next_serial);
    free(next_serial);
}
