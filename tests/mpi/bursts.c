/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many short messages at once from each rank to each, as a stencil of many fields has them: what
 * may be sent together must come apart again, complete and in order, on each communicator and tag.
 * In half of the rounds most are short, in the others longer, more than may be held back of such at
 * once; lengths about the longest that is held back are among them, and some that go by themselves
 * and may overtake. In half of the rounds nobody has asked for them yet.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

static const int counts[] = {1, 7, 8, 9, 10, 63, 64, 65, 66, 200, 600};
enum { ROUNDS = 4 * sizeof counts / sizeof counts[0], COMMS = 2, TAGS = 2 };
enum { SHORT_MAX = 512, HELD_BACK_MAX = 2112, LONG_MAX_BYTES = 20000 };

static size_t len_of(uint64_t random, size_t longest)
{
    unsigned kind = random % 32;

    random /= 32;
    if (kind < 24)
        return random % (longest == SHORT_MAX ? 40 : longest);
    if (kind < 29)
        return random % 200;
    if (kind < 31)
        return longest - 60 + random % 80;
    return random % LONG_MAX_BYTES;
}

static struct message message_of(const struct job *job, int source, int dest, int round, int serial)
{
    uint64_t random = hash_of(job->seed + (uint64_t)round, (uint64_t)source << 32 | (uint64_t)dest,
                              (uint64_t)serial);

    return (struct message){source, dest, serial % TAGS,
                            len_of(random, round / 2 % 2 ? HELD_BACK_MAX : SHORT_MAX),
                            (uint64_t)serial};
}

/* One rank's part of a burst: count messages to one peer and as many from another, in the order of
 * their serials. */
struct burst {
    const MPI_Comm *comms;
    int round, count;
    int from, to;
    struct transfer *in, *out;
    MPI_Request *requests; /* those of receives first */
};

static MPI_Comm comm_of(const struct burst *burst, int serial)
{
    return burst->comms[serial / TAGS % COMMS];
}

static void post_receives(const struct job *job, const struct burst *burst)
{
    for (int i = 0; i < burst->count; i++) {
        struct message message = message_of(job, burst->from, job->rank, burst->round, i);

        transfer_begin_recv(&burst->in[i], &message);
        transfer_irecv(&burst->in[i], comm_of(burst, i), &burst->requests[i]);
    }
}

static void post_sends(const struct job *job, const struct burst *burst)
{
    for (int i = 0; i < burst->count; i++) {
        struct message message = message_of(job, job->rank, burst->to, burst->round, i);

        transfer_begin_send(&burst->out[i], &message);
        transfer_isend(&burst->out[i], comm_of(burst, i), &burst->requests[burst->count + i]);
    }
}

static void complete(const struct burst *burst)
{
    MPI_Status *statuses = calloc(2 * (size_t)burst->count, sizeof *statuses);

    MPI_Waitall(2 * burst->count, burst->requests, statuses);
    for (int i = 0; i < burst->count; i++) {
        transfer_check(&burst->in[i], &statuses[i]);
        transfer_end(&burst->in[i]);
        transfer_end(&burst->out[i]);
    }
    free(statuses);
}

static void burst_once(const struct job *job, const MPI_Comm *comms, int shift, int round)
{
    int size = job->size, count = counts[round / 4];
    struct burst burst = {.comms = comms,
                          .round = round,
                          .count = count,
                          .from = (job->rank + size - shift) % size,
                          .to = (job->rank + shift) % size,
                          .in = calloc((size_t)count, sizeof(struct transfer)),
                          .out = calloc((size_t)count, sizeof(struct transfer)),
                          .requests = calloc(2 * (size_t)count, sizeof(MPI_Request))};
    bool asked_first = round % 2 == 0;

    if (asked_first)
        post_receives(job, &burst);
    else
        post_sends(job, &burst);
    MPI_Barrier(comms[0]);
    if (asked_first)
        post_sends(job, &burst);
    else
        post_receives(job, &burst);
    complete(&burst);
    free(burst.requests);
    free(burst.out);
    free(burst.in);
}

void run_bursts(const struct job *job)
{
    MPI_Comm comms[COMMS] = {MPI_COMM_WORLD};

    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    for (int round = 0; round < ROUNDS; round++)
        for (int shift = 0; shift < job->size; shift++) {
            step("%d messages to the rank %d further on", counts[round / 4], shift);
            burst_once(job, comms, shift, round);
        }
    MPI_Comm_free(&comms[1]);
}
