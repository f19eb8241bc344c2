/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several threads of every rank at once, where MPI allows it (mpi_suite --threads): each with a
 * communicator of its own for messages and collectives, some of which yet another thread waits for,
 * and all of them on one, told apart by tags, where messages are also received by matched probes.
 * One after the other where it does not.
 */
#include "common.h"
#include "programs.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    THREADS = 4,
    ROUNDS = 6,
    MESSAGES_MOST = 8,
    MESSAGES_TOTAL = 24,
    TAG_SHARED = 100,
    SUMS = 16
};

struct worker {
    const struct job *job;
    int index;
    bool threads; /* this is one of several */
    MPI_Comm own, shared;
    pthread_t thread;
};

/* The messages of one rank to another in one round, on the communicator that TAG tells. */
static struct message message_of(const struct worker *worker, int source, int dest, int tag,
                                 int round, int number)
{
    uint64_t serial = (uint64_t)worker->index << 40 | (uint64_t)round << 20 | (uint64_t)number;
    uint64_t ends = (uint64_t)source << 32 | (uint64_t)dest;

    return (struct message){source, dest, tag, len_mixed(hash_of(worker->job->seed, ends, serial)),
                            serial};
}

static void exchange(const struct worker *worker, int round)
{
    const struct job *job = worker->job;
    int each = share_of(MESSAGES_TOTAL, job->size, MESSAGES_MOST), count = each * job->size;
    struct transfer *in = calloc((size_t)count, sizeof *in);
    struct transfer *out = calloc((size_t)count, sizeof *out);
    MPI_Request *requests = calloc(2 * (size_t)count, sizeof *requests);
    MPI_Status *statuses = calloc(2 * (size_t)count, sizeof *statuses);
    for (int i = 0; i < count; i++) {
        int peer = i % job->size;
        struct message from = message_of(worker, peer, job->rank, 0, round, i / job->size);
        struct message to = message_of(worker, job->rank, peer, 0, round, i / job->size);
        transfer_begin_recv(&in[i], &from);
        transfer_begin_send(&out[i], &to);
        transfer_irecv(&in[i], worker->own, &requests[i]);
        transfer_isend(&out[i], worker->own, &requests[count + i]);
    }
    MPI_Waitall(2 * count, requests, statuses);
    for (int i = 0; i < count; i++) {
        transfer_check(&in[i], &statuses[i]);
        transfer_end(&in[i]);
        transfer_end(&out[i]);
    }
    free(in);
    free(out);
    free(requests);
    free(statuses);
}

/* To the next rank and from the one before, on the communicator of all threads. */
static void pass_on(const struct worker *worker, int round)
{
    const struct job *job = worker->job;
    int next = (job->rank + 1) % job->size, previous = (job->rank + job->size - 1) % job->size;
    int tag = TAG_SHARED + worker->index;
    struct message from = message_of(worker, previous, job->rank, tag, round, 0);
    struct message to = message_of(worker, job->rank, next, tag, round, 0);
    struct transfer in, out;
    MPI_Request request;
    MPI_Message matched;
    MPI_Status status;
    transfer_begin_recv(&in, &from);
    transfer_begin_send(&out, &to);
    transfer_isend(&out, worker->shared, &request);
    MPI_Mprobe(MPI_ANY_SOURCE, tag, worker->shared, &matched, &status);
    message_check_status(&from, &status);
    MPI_Mrecv(in.bytes, (int)from.len_bytes, MPI_BYTE, &matched, &status);
    transfer_check(&in, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    transfer_end(&in);
    transfer_end(&out);
}

/* From a few bytes to what is registered, and cut in parts. */
static void gather_all(const struct worker *worker, int round)
{
    const struct job *job = worker->job;
    size_t each = (size_t)1 << 3 * round, count = each * (size_t)job->size;
    int *mine = calloc(each, sizeof *mine), *all = calloc(count, sizeof *all);
    for (size_t i = 0; i < each; i++)
        mine[i] = job->rank * THREADS + worker->index + (int)i;
    MPI_Allgather(mine, (int)each, MPI_INT, all, (int)each, MPI_INT, worker->own);
    for (size_t i = 0; i < count; i++)
        expect(all[i] == (int)(i / each) * THREADS + worker->index + (int)(i % each),
               "thread %d, round %d: element %zu is %d", worker->index, round, i, all[i]);
    free(mine);
    free(all);
}

/* Collectives under way for which another thread waits, on the communicator that WORKER uses. */
struct sums {
    const struct worker *worker;
    int round, values[SUMS], results[SUMS];
    MPI_Request requests[SUMS];
    pthread_t waiter;
};

static void *wait_for_sums(void *arg)
{
    struct sums *sums = arg;
    const struct worker *worker = sums->worker;
    int size = worker->job->size, of_ranks = size * (size - 1) * 5;
    for (int i = SUMS - 1; i >= 0; i--) {
        MPI_Wait(&sums->requests[i], MPI_STATUS_IGNORE);
        expect(sums->results[i] == of_ranks + size * (worker->index + sums->round + i),
               "thread %d, round %d: sum %d is %d", worker->index, sums->round, i,
               sums->results[i]);
    }
    return NULL;
}

static void begin_sums(struct sums *sums)
{
    const struct worker *worker = sums->worker;
    for (int i = 0; i < SUMS; i++) {
        sums->values[i] = worker->job->rank * 10 + worker->index + sums->round + i;
        MPI_Iallreduce(&sums->values[i], &sums->results[i], 1, MPI_INT, MPI_SUM, worker->own,
                       &sums->requests[i]);
    }
    if (worker->threads)
        expect(pthread_create(&sums->waiter, NULL, wait_for_sums, sums) == 0, "no thread");
}

static void end_sums(struct sums *sums)
{
    if (sums->worker->threads)
        pthread_join(sums->waiter, NULL);
    else
        wait_for_sums(sums);
}

static void tell_all(const struct worker *worker, int round)
{
    const struct job *job = worker->job;
    int root = (round + worker->index) % job->size, told = job->rank == root ? round * 7 : -1;
    MPI_Bcast(&told, 1, MPI_INT, root, worker->own);
    expect(told == round * 7, "thread %d, round %d: rank %d told %d", worker->index, round, root,
           told);
}

static void collect(const struct worker *worker, int round)
{
    struct sums sums = {.worker = worker, .round = round};
    begin_sums(&sums);
    for (int i = 0; i < SUMS; i++)
        tell_all(worker, round + i);
    gather_all(worker, round);
    end_sums(&sums);
}

static void *work(void *arg)
{
    const struct worker *worker = arg;
    for (int round = 0; round < ROUNDS; round++) {
        exchange(worker, round);
        pass_on(worker, round);
        collect(worker, round);
    }
    MPI_Barrier(worker->own);
    return NULL;
}

static void *enter(void *arg)
{
    MPI_Barrier(((const struct worker *)arg)->own);
    return NULL;
}

/* The first collective of each communicator: of all at once on rank 0, elsewhere of one after the
 * other. */
static void enter_all(struct worker *workers)
{
    bool at_once = workers[0].threads && workers[0].job->rank == 0;
    for (int i = 0; i < THREADS; i++) {
        if (!at_once)
            enter(&workers[i]);
        else
            expect(pthread_create(&workers[i].thread, NULL, enter, &workers[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS && at_once; i++)
        pthread_join(workers[i].thread, NULL);
}

static void start(struct worker *worker)
{
    if (worker->threads)
        expect(pthread_create(&worker->thread, NULL, work, worker) == 0, "no thread");
    else
        work(worker);
}

void run_threads(const struct job *job)
{
    struct worker workers[THREADS];
    MPI_Comm shared;
    int provided;
    MPI_Query_thread(&provided);
    bool threads = provided == MPI_THREAD_MULTIPLE;
    step("the first barrier of each thread");
    MPI_Comm_dup(MPI_COMM_WORLD, &shared);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.job = job, .index = i, .threads = threads, .shared = shared};
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].own);
    }
    enter_all(workers);
    step("%s", threads ? "threads at once" : "one after the other");
    for (int i = 0; i < THREADS; i++)
        start(&workers[i]);
    for (int i = 0; i < THREADS; i++) {
        if (threads)
            pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].own);
    }
    MPI_Comm_free(&shared);
}
