/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thousands of messages that arrive before anyone asked for them, some of them too large to be
 * sent eagerly, received later in every order that MPI allows. A marker, sent last and received
 * first, makes sure that all before it have arrived and were kept.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>

enum order {
    AS_SENT,
    REVERSED,
    SHUFFLED,
    ANY_SOURCE_BY_TAG,
    ANY_TAG_BY_SOURCE,
    ANY_SOURCE_ANY_TAG,
    ORDER_COUNT
};
static const char *const order_names[] = {"the order sent", "reverse", "a shuffled order",
                                          "any source",     "any tag", "any source and tag"};

enum { MESSAGES = 3200, MESSAGES_A_RANK = 1000, TAIL_BYTES = 64, TAIL_VALUE = 0x3c };

/* One rank's part in one order. The marker's tag follows those of the messages, which count up. */
struct burst {
    const struct job *job;
    enum order order;
    int per_peer;
    unsigned char *area; /* for receives of unknown length */
    int *next_tag;       /* by source: what must come next where order is guaranteed */
    struct transfer *out;
    MPI_Request *requests;
};

static struct message message_of(const struct burst *burst, int source, int dest, int tag)
{
    uint64_t ends = (uint64_t)source << 32 | (uint64_t)dest;
    uint64_t random = hash_of(burst->job->seed + burst->order, ends, (uint64_t)tag);
    size_t len = tag < burst->per_peer ? len_mixed(random) : 0;
    return (struct message){source, dest, tag, len, burst->order};
}

static void send_all(struct burst *burst)
{
    const struct job *job = burst->job;
    int sent = 0;
    for (int tag = 0; tag <= burst->per_peer; tag++) {
        for (int i = 1; i <= job->size; i++) {
            int peer = (job->rank + i) % job->size;
            struct message message = message_of(burst, job->rank, peer, tag);
            transfer_begin_send(&burst->out[sent], &message);
            transfer_isend(&burst->out[sent], MPI_COMM_WORLD, &burst->requests[sent]);
            sent++;
        }
    }
    for (int peer = 0; peer < job->size; peer++)
        MPI_Recv(NULL, 0, MPI_BYTE, peer, burst->per_peer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_finish(struct burst *burst)
{
    int count = (burst->per_peer + 1) * burst->job->size;
    MPI_Waitall(count, burst->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++)
        transfer_end(&burst->out[i]);
}

static void receive_exact(struct burst *burst, int source, int tag)
{
    struct message message = message_of(burst, source, burst->job->rank, tag);
    struct transfer in;
    MPI_Status status;
    transfer_begin_recv(&in, &message);
    MPI_Recv(in.bytes, (int)message.len_bytes, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
    transfer_check(&in, &status);
    transfer_end(&in);
}

/* Receives whatever matches, then works out which message it must have been. */
static void receive_any(struct burst *burst, int source, int tag)
{
    MPI_Status status;
    MPI_Recv(burst->area, LEN_MIXED_MAX, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
    struct message message = message_of(burst, status.MPI_SOURCE, burst->job->rank, status.MPI_TAG);
    message_check_status(&message, &status);
    message_check(&message, burst->area);
    for (int i = 0; i < TAIL_BYTES; i++)
        expect(burst->area[message.len_bytes + (size_t)i] == TAIL_VALUE,
               "byte %d after a message of %zu bytes from rank %d was overwritten", i,
               message.len_bytes, message.source);
    memset(burst->area, TAIL_VALUE, message.len_bytes);
    int *next_tag = &burst->next_tag[status.MPI_SOURCE];
    expect(tag != MPI_ANY_TAG || status.MPI_TAG == *next_tag,
           "message %d of rank %d overtook message %d", status.MPI_TAG, status.MPI_SOURCE,
           *next_tag);
    (*next_tag)++;
}

static void receive_by_order(struct burst *burst, const int *slots, int count)
{
    const struct job *job = burst->job;
    for (int i = 0; i < count; i++) {
        int slot = burst->order == REVERSED ? count - 1 - i : i;
        if (burst->order == SHUFFLED || burst->order == ANY_SOURCE_BY_TAG)
            slot = slots[i];
        int source = slot % job->size, tag = slot / job->size;
        if (burst->order == ANY_SOURCE_BY_TAG)
            receive_any(burst, MPI_ANY_SOURCE, tag);
        else if (burst->order == ANY_TAG_BY_SOURCE)
            receive_any(burst, source, MPI_ANY_TAG);
        else if (burst->order == ANY_SOURCE_ANY_TAG)
            receive_any(burst, MPI_ANY_SOURCE, MPI_ANY_TAG);
        else
            receive_exact(burst, source, tag);
    }
}

static void receive_all(struct burst *burst)
{
    int count = burst->per_peer * burst->job->size;
    int *slots = calloc((size_t)count, sizeof *slots);
    uint64_t random = hash_of(burst->job->seed, (uint64_t)burst->job->rank, burst->order);
    for (int i = 0; i < count; i++)
        slots[i] = i;
    shuffle(slots, count, &random);
    receive_by_order(burst, slots, count);
    free(slots);
}

void run_unexpected(const struct job *job)
{
    struct burst burst = {.job = job,
                          .per_peer = share_of(MESSAGES, job->size, MESSAGES_A_RANK) / job->size};
    size_t count = (size_t)(burst.per_peer + 1) * (size_t)job->size;
    burst.area = guarded_alloc(LEN_MIXED_MAX + TAIL_BYTES);
    memset(burst.area, TAIL_VALUE, LEN_MIXED_MAX + TAIL_BYTES);
    burst.next_tag = calloc((size_t)job->size, sizeof *burst.next_tag);
    burst.out = calloc(count, sizeof *burst.out);
    burst.requests = calloc(count, sizeof(MPI_Request));
    for (int order = 0; order < ORDER_COUNT; order++) {
        burst.order = (enum order)order;
        memset(burst.next_tag, 0, (size_t)job->size * sizeof *burst.next_tag);
        step("sending what is received in %s", order_names[order]);
        send_all(&burst);
        step("receiving in %s", order_names[order]);
        receive_all(&burst);
        send_finish(&burst);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(burst.requests);
    free(burst.out);
    free(burst.next_tag);
    guarded_free(burst.area);
}
