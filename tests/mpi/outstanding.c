/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many requests open at once on every rank, to and from all ranks, posted in different orders
 * against the sender's and completed by each of MPI's calls. What completes is checked at once and
 * must complete exactly once.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum { MESSAGES = 2400, MESSAGES_A_RANK = 800, TAG_REVERSED_BIT = 1 };

enum manner { WAITALL, WAITANY, WAITSOME, TESTALL, TESTANY, TESTSOME, MANNER_COUNT };
static const char *const manner_names[] = {"waitall", "waitany", "waitsome",
                                           "testall", "testany", "testsome"};

/* Requests and transfers lie side by side: first all receives, then all sends. */
struct window {
    int count; /* of each direction */
    struct transfer *transfers;
    MPI_Request *requests;
    MPI_Status *statuses;
    int *indices;
    bool *done;
};

static void window_init(struct window *window, int count)
{
    size_t both = 2 * (size_t)count;
    window->count = count;
    window->transfers = calloc(both, sizeof *window->transfers);
    window->requests = calloc(both, sizeof(MPI_Request));
    window->statuses = calloc(both, sizeof *window->statuses);
    window->indices = calloc(both, sizeof *window->indices);
    window->done = calloc(both, sizeof *window->done);
}

static void window_fini(struct window *window)
{
    free(window->done);
    free(window->indices);
    free(window->statuses);
    free(window->requests);
    free(window->transfers);
}

static struct message message_of(const struct job *job, int source, int dest, int tag, int manner)
{
    uint64_t ends = (uint64_t)source << 32 | (uint64_t)dest;
    uint64_t random = hash_of(job->seed + (uint64_t)manner, ends, (uint64_t)tag + 1000000);
    return (struct message){source, dest, tag, len_mixed(random), (uint64_t)manner};
}

static void post_receive(struct window *window, const struct job *job, int slot, int manner)
{
    struct message message = message_of(job, slot % job->size, job->rank, slot / job->size, manner);
    transfer_begin_recv(&window->transfers[slot], &message);
    transfer_irecv(&window->transfers[slot], MPI_COMM_WORLD, &window->requests[slot]);
}

static void post_send(struct window *window, const struct job *job, int slot, int manner)
{
    struct message message =
        message_of(job, job->rank, (slot + job->rank) % job->size, slot / job->size, manner);
    int index = window->count + slot;
    transfer_begin_send(&window->transfers[index], &message);
    transfer_isend(&window->transfers[index], MPI_COMM_WORLD, &window->requests[index]);
}

/* Receives first, sends first, or in turns; and in half of the manners receives are posted last
 * tag first, so that nothing matches at the head of a queue. */
static void post_all(struct window *window, const struct job *job, int manner)
{
    int count = window->count;
    bool reversed = (manner & TAG_REVERSED_BIT) != 0;
    for (int phase = 0; phase < 2; phase++) {
        for (int i = 0; i < count; i++) {
            int slot = reversed ? count - 1 - i : i;
            bool in_turns = manner % 3 == 2;
            bool receives_now = (manner % 3 == 0) == (phase == 0);
            if (in_turns ? phase == 0 : receives_now)
                post_receive(window, job, slot, manner);
            if (in_turns ? phase == 0 : !receives_now)
                post_send(window, job, i, manner);
        }
    }
}

static void complete(struct window *window, int index, const MPI_Status *status)
{
    expect(index >= 0 && index < 2 * window->count && !window->done[index],
           "request %d completed twice or was never posted", index);
    window->done[index] = true;
    if (!window->transfers[index].is_send)
        transfer_check(&window->transfers[index], status);
}

/* One call of the manner's completion function; returns how many requests it completed. */
static int complete_some(struct window *window, int manner)
{
    int total = 2 * window->count, count = 0, flag = 0;
    MPI_Request *requests = window->requests;
    MPI_Status *statuses = window->statuses;
    switch ((enum manner)manner) {
    case WAITALL:
        MPI_Waitall(total, requests, statuses);
        flag = 1;
        break;
    case TESTALL:
        MPI_Testall(total, requests, &flag, statuses);
        break;
    case WAITANY:
        MPI_Waitany(total, requests, window->indices, statuses);
        count = 1;
        break;
    case TESTANY:
        MPI_Testany(total, requests, window->indices, &flag, statuses);
        count = flag;
        break;
    case WAITSOME:
        MPI_Waitsome(total, requests, &count, window->indices, statuses);
        break;
    case TESTSOME:
        MPI_Testsome(total, requests, &count, window->indices, statuses);
        break;
    case MANNER_COUNT:
        break;
    }
    if (manner == WAITALL || manner == TESTALL) {
        count = flag ? total : 0;
        for (int i = 0; i < count; i++)
            window->indices[i] = i;
    }
    for (int i = 0; i < count; i++)
        complete(window, window->indices[i], &statuses[i]);
    return count;
}

void run_outstanding(const struct job *job)
{
    int count = share_of(MESSAGES, job->size, MESSAGES_A_RANK) / job->size * job->size;
    for (int manner = 0; manner < MANNER_COUNT; manner++) {
        struct window window;
        window_init(&window, count);
        step("posting %d requests for %s", 2 * count, manner_names[manner]);
        post_all(&window, job, manner);
        for (int done = 0; done < 2 * count;) {
            step("%s after %d of %d requests", manner_names[manner], done, 2 * count);
            done += complete_some(&window, manner);
        }
        for (int i = 0; i < 2 * count; i++)
            transfer_end(&window.transfers[i]);
        window_fini(&window);
    }
}
