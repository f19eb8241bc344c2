/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two rings. In the first a token travels, so one message is under way at a time; in the second
 * every rank passes a block on at once, in place, until each is back where it came from.
 */
#include "common.h"
#include "programs.h"

enum { LAPS = 4 };
static const size_t lens_bytes[] = {0, 1, 1000, 4096, 8191, 12288, 65536, 300000, 1048579};
enum { LEN_COUNT = sizeof lens_bytes / sizeof lens_bytes[0] };

static void token_receive(const struct transfer *in, MPI_Request *request)
{
    MPI_Status status;
    MPI_Wait(request, &status);
    transfer_check(in, &status);
}

/* Rank 0 starts the token and is the last to receive it. */
static void token_lap(const struct job *job, size_t len_bytes, int lap)
{
    int right = (job->rank + 1) % job->size;
    int left = (job->rank + job->size - 1) % job->size;
    struct transfer in, out;
    MPI_Request receive, send;
    transfer_begin_recv(&in, &(struct message){left, job->rank, lap, len_bytes, 0});
    transfer_begin_send(&out, &(struct message){job->rank, right, lap, len_bytes, 0});
    transfer_irecv(&in, MPI_COMM_WORLD, &receive);
    if (job->rank != 0)
        token_receive(&in, &receive);
    transfer_isend(&out, MPI_COMM_WORLD, &send);
    if (job->rank == 0)
        token_receive(&in, &receive);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    transfer_end(&in);
    transfer_end(&out);
}

/* A block is named by its origin; after k turns a rank holds that of the rank k to its left. */
static void turn_round(const struct job *job, size_t len_bytes)
{
    int right = (job->rank + 1) % job->size;
    int left = (job->rank + job->size - 1) % job->size;
    struct message block = {job->rank, 0, LAPS, len_bytes, 0};
    void *bytes = guarded_alloc(len_bytes);
    message_fill(&block, bytes);
    for (int turn = 1; turn <= job->size; turn++) {
        MPI_Sendrecv_replace(bytes, (int)len_bytes, MPI_BYTE, right, LAPS, left, LAPS,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        block.source = (job->rank - turn + job->size) % job->size;
        message_check(&block, bytes);
    }
    guarded_free(bytes);
}

void run_ring(const struct job *job)
{
    for (int i = 0; i < LEN_COUNT; i++) {
        for (int lap = 0; lap < LAPS; lap++) {
            step("lap %d with %zu bytes", lap, lens_bytes[i]);
            token_lap(job, lens_bytes[i], lap);
        }
        step("all turn with %zu bytes", lens_bytes[i]);
        turn_round(job, lens_bytes[i]);
    }
}
