/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking before receiving: probe, iprobe, and the matched forms, for eager and rendezvous messages
 * on the ring of neighbours; and receives that are cancelled. */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum { TAG_FIRST = 10, TAG_LATE = 50, TAG_NEVER = 99 };
static const size_t lens_bytes[] = {0, 7, 3000, 70000, 400000};
enum { LEN_COUNT = sizeof lens_bytes / sizeof lens_bytes[0] };

enum manner { PROBE, IPROBE, MPROBE, IMPROBE, MANNER_COUNT };
static const char *const manner_names[] = {"probe", "iprobe", "mprobe", "improbe"};

/* Finds the next message of any tag from the left; matched is set by the matched forms. */
static void find(enum manner manner, int source, MPI_Message *matched, MPI_Status *status)
{
    int flag = 0;
    switch (manner) {
    case PROBE:
        MPI_Probe(source, MPI_ANY_TAG, MPI_COMM_WORLD, status);
        break;
    case IPROBE:
        while (!flag)
            MPI_Iprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, status);
        break;
    case MPROBE:
        MPI_Mprobe(source, MPI_ANY_TAG, MPI_COMM_WORLD, matched, status);
        break;
    case IMPROBE:
        while (!flag)
            MPI_Improbe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, matched, status);
        break;
    case MANNER_COUNT:
        break;
    }
}

static void receive(enum manner manner, struct transfer *in, MPI_Message *matched,
                    MPI_Status *status)
{
    int len = (int)in->message.len_bytes;
    MPI_Request request;
    if (manner == MPROBE) {
        MPI_Mrecv(in->bytes, len, MPI_BYTE, matched, status);
    } else if (manner == IMPROBE) {
        MPI_Imrecv(in->bytes, len, MPI_BYTE, matched, &request);
        MPI_Wait(&request, status);
    } else {
        MPI_Recv(in->bytes, len, MPI_BYTE, in->message.source, in->message.tag, MPI_COMM_WORLD,
                 status);
    }
}

/* The right neighbour gets one message of each length, each with its own tag. */
static void look_and_receive(const struct job *job, enum manner manner)
{
    int left = (job->rank + job->size - 1) % job->size, right = (job->rank + 1) % job->size;
    struct transfer out[LEN_COUNT];
    MPI_Request requests[LEN_COUNT];
    step("%s", manner_names[manner]);
    for (int i = 0; i < LEN_COUNT; i++) {
        struct message message = {job->rank, right, TAG_FIRST + i, lens_bytes[i], manner};
        transfer_begin_send(&out[i], &message);
        transfer_isend(&out[i], MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < LEN_COUNT; i++) {
        struct message message = {left, job->rank, TAG_FIRST + i, lens_bytes[i], manner};
        MPI_Message matched = MPI_MESSAGE_NULL;
        MPI_Status status;
        struct transfer in;
        find(manner, left, &matched, &status);
        message_check_status(&message, &status);
        transfer_begin_recv(&in, &message);
        receive(manner, &in, &matched, &status);
        transfer_check(&in, &status);
        transfer_end(&in);
    }
    MPI_Waitall(LEN_COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < LEN_COUNT; i++)
        transfer_end(&out[i]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Matched messages belong to their finder: a receive posted meanwhile gets the one after. */
static void matched_is_taken(const struct job *job)
{
    int left = (job->rank + job->size - 1) % job->size, right = (job->rank + 1) % job->size;
    struct transfer in[2], out[2];
    MPI_Request sends[2];
    MPI_Status status;
    MPI_Message matched;
    step("a receive after a matched probe");
    for (int i = 0; i < 2; i++) {
        transfer_begin_send(&out[i],
                            &(struct message){job->rank, right, TAG_LATE, 100000, (uint64_t)i});
        transfer_begin_recv(&in[i],
                            &(struct message){left, job->rank, TAG_LATE, 100000, (uint64_t)i});
        transfer_isend(&out[i], MPI_COMM_WORLD, &sends[i]);
    }
    MPI_Mprobe(left, TAG_LATE, MPI_COMM_WORLD, &matched, &status);
    receive(PROBE, &in[1], NULL, &status);
    transfer_check(&in[1], &status);
    receive(MPROBE, &in[0], &matched, &status);
    transfer_check(&in[0], &status);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        transfer_end(&in[i]);
        transfer_end(&out[i]);
    }
}

/* Receives that never match are cancelled; one between them that does match is not disturbed. */
static void cancel(const struct job *job)
{
    int left = (job->rank + job->size - 1) % job->size, right = (job->rank + 1) % job->size;
    struct transfer in, out;
    MPI_Request requests[3], send;
    MPI_Status status;
    int area[2], cancelled;
    step("cancelled receives");
    transfer_begin_recv(&in, &(struct message){left, job->rank, TAG_LATE, 5000, 2});
    transfer_begin_send(&out, &(struct message){job->rank, right, TAG_LATE, 5000, 2});
    MPI_Irecv(&area[0], 1, MPI_INT, left, TAG_NEVER, MPI_COMM_WORLD, &requests[0]);
    transfer_irecv(&in, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&area[1], 1, MPI_INT, MPI_ANY_SOURCE, TAG_NEVER, MPI_COMM_WORLD, &requests[2]);
    for (int i = 0; i < 3; i += 2) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        expect(cancelled, "a receive that nothing matches could not be cancelled");
    }
    transfer_isend(&out, MPI_COMM_WORLD, &send);
    MPI_Wait(&requests[1], &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    transfer_check(&in, &status);
    transfer_end(&in);
    transfer_end(&out);
}

void run_probe(const struct job *job)
{
    for (int manner = 0; manner < MANNER_COUNT; manner++)
        look_and_receive(job, (enum manner)manner);
    matched_is_taken(job);
    cancel(job);
}
