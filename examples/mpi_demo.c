/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary MPI program: ring, ping-pong, barrier, broadcast and allreduce, each timed and then
 * run again with its results checked. It knows nothing of Verbena; ./demo runs it over Verbena and
 * over TCP.
 *
 *     mpicc -O2 -o mpi_demo mpi_demo.c && mpirun -np 4 ./mpi_demo
 *
 * Rank 0 prints one line an operation, `operation | microseconds | ok`; the exit status is 1 when
 * any rank found a wrong result. The last line says how much the ranks sent in ring and ping-pong.
 */
#include <mpi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHECKED_ROUNDS = 5, WARM_UP_ROUNDS = 5, LATE_MS = 5, LARGEST_BYTES = 1 << 20 };

struct job {
    int rank, ranks;
    uint64_t sent_bytes; /* by this rank from rank to rank, collectives left out */
    size_t words;        /* of the current operation's message */
    uint64_t *data;
    uint64_t *result;
};

/* One operation: `prepare` writes what is sent in ROUND, `step` communicates, and `verify` says
 * whether this rank got what it must have got. */
struct operation {
    const char *name;
    size_t bytes;
    int rounds; /* timed ones */
    int trips;  /* one-way trips a round: the time printed is that of one trip */
    bool pair;  /* ranks 0 and 1 only */
    void (*prepare)(struct job *job, int round);
    void (*step)(struct job *job, int round);
    bool (*verify)(const struct job *job, int round);
};

/* What the word at INDEX of the message that RANK sends in ROUND holds: small enough that sums over
 * all ranks are exact. */
static uint64_t pattern(int rank, int round, size_t index)
{
    return (uint64_t)(rank + 1) * 1000003 + (uint64_t)round * 7919 + index;
}

static bool holds_pattern(const uint64_t *words, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i] != pattern(rank, round, i))
            return false;
    }
    return true;
}

static void fill_pattern(struct job *job, int round)
{
    for (size_t i = 0; i < job->words; i++)
        job->data[i] = pattern(job->rank, round, i);
    memset(job->result, 0xff, job->words * sizeof(*job->result));
}

static void send_words(struct job *job, const uint64_t *words, int peer, int tag)
{
    MPI_Send(words, (int)job->words, MPI_UINT64_T, peer, tag, MPI_COMM_WORLD);
    job->sent_bytes += job->words * sizeof(*words);
}

static void receive_words(struct job *job, int peer, int tag)
{
    MPI_Recv(job->result, (int)job->words, MPI_UINT64_T, peer, tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

/* Ring: a token goes once round; each rank adds its own words to it. */
static void ring_step(struct job *job, int round)
{
    int next = (job->rank + 1) % job->ranks;
    int previous = (job->rank + job->ranks - 1) % job->ranks;

    if (job->rank == 0) {
        send_words(job, job->data, next, round);
        receive_words(job, previous, round);
        return;
    }
    receive_words(job, previous, round);
    for (size_t i = 0; i < job->words; i++)
        job->result[i] += job->data[i];
    send_words(job, job->result, next, round);
}

static bool ring_verify(const struct job *job, int round)
{
    int last = job->rank == 0 ? job->ranks - 1 : job->rank;

    for (size_t i = 0; i < job->words; i++) {
        uint64_t sum = 0;
        for (int rank = 0; rank <= last; rank++)
            sum += pattern(rank, round, i);
        if (job->result[i] != sum)
            return false;
    }
    return true;
}

/* Ping-pong between ranks 0 and 1: rank 1 sends words of its own back. */
static void ping_pong_step(struct job *job, int round)
{
    int peer = 1 - job->rank;

    if (job->rank == 0)
        send_words(job, job->data, peer, round);
    receive_words(job, peer, round);
    if (job->rank == 1)
        send_words(job, job->data, peer, round);
}

static bool ping_pong_verify(const struct job *job, int round)
{
    return holds_pattern(job->result, job->words, 1 - job->rank, round);
}

static void barrier_step(struct job *job, int round)
{
    (void)job;
    (void)round;
    MPI_Barrier(MPI_COMM_WORLD);
}

/*
 * Nobody may leave a barrier before all have entered. Between two barriers one rank sleeps: it left
 * the first after everyone had entered that, and everyone leaves the second after it woke up. So on
 * each rank's own clock at least the sleep lies between entering the first and leaving the second.
 */
static bool barrier_verify(const struct job *job, int round)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000L};
    double entered_s = MPI_Wtime();

    MPI_Barrier(MPI_COMM_WORLD);
    if (round % job->ranks == job->rank)
        nanosleep(&late, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - entered_s >= LATE_MS * 1e-3 - MPI_Wtick();
}

/* Broadcast: the root changes with the round. */
static void bcast_prepare(struct job *job, int round)
{
    fill_pattern(job, round);
    if (job->rank == round % job->ranks)
        memcpy(job->result, job->data, job->words * sizeof(*job->result));
}

static void bcast_step(struct job *job, int round)
{
    MPI_Bcast(job->result, (int)job->words, MPI_UINT64_T, round % job->ranks, MPI_COMM_WORLD);
}

static bool bcast_verify(const struct job *job, int round)
{
    return holds_pattern(job->result, job->words, round % job->ranks, round);
}

static void allreduce_step(struct job *job, int round)
{
    (void)round;
    MPI_Allreduce(job->data, job->result, (int)job->words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static bool allreduce_verify(const struct job *job, int round)
{
    for (size_t i = 0; i < job->words; i++) {
        uint64_t sum = 0;
        for (int rank = 0; rank < job->ranks; rank++)
            sum += pattern(rank, round, i);
        if (job->result[i] != sum)
            return false;
    }
    return true;
}

static const struct operation operations[] = {
    {"ring 8 B", 8, 100, 1, false, fill_pattern, ring_step, ring_verify},
    {"ring 64 KiB", 65536, 20, 1, false, fill_pattern, ring_step, ring_verify},
    {"ping-pong 8 B", 8, 500, 2, true, fill_pattern, ping_pong_step, ping_pong_verify},
    {"ping-pong 4 KiB", 4096, 300, 2, true, fill_pattern, ping_pong_step, ping_pong_verify},
    {"ping-pong 64 KiB", 65536, 100, 2, true, fill_pattern, ping_pong_step, ping_pong_verify},
    {"ping-pong 1 MiB", LARGEST_BYTES, 10, 2, true, fill_pattern, ping_pong_step, ping_pong_verify},
    {"barrier", 0, 100, 1, false, fill_pattern, barrier_step, barrier_verify},
    {"bcast 8 B", 8, 100, 1, false, bcast_prepare, bcast_step, bcast_verify},
    {"bcast 64 KiB", 65536, 20, 1, false, bcast_prepare, bcast_step, bcast_verify},
    {"allreduce 8 B", 8, 100, 1, false, fill_pattern, allreduce_step, allreduce_verify},
    {"allreduce 64 KiB", 65536, 20, 1, false, fill_pattern, allreduce_step, allreduce_verify},
};

/* All ranks meet here; they wait asleep, so that those that have nothing to do meanwhile do not
 * take the processor from those that have. */
static void wait_for_all(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    MPI_Request request;
    int done = 0;

    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        nanosleep(&pause, NULL);
    }
}

/* Returns the seconds of one trip. */
static double time_operation(const struct operation *operation, struct job *job)
{
    double started_s;

    operation->prepare(job, 0);
    for (int round = 0; round < WARM_UP_ROUNDS; round++)
        operation->step(job, round);
    started_s = MPI_Wtime();
    for (int round = 0; round < operation->rounds; round++)
        operation->step(job, round);
    return (MPI_Wtime() - started_s) / (operation->rounds * operation->trips);
}

/* Returns whether every result on this rank was right. */
static bool check_operation(const struct operation *operation, struct job *job)
{
    bool right = true;

    for (int round = 0; round < CHECKED_ROUNDS; round++) {
        operation->prepare(job, round);
        operation->step(job, round);
        right &= operation->verify(job, round);
    }
    return right;
}

static bool run_operation(const struct operation *operation, struct job *job)
{
    bool takes_part = !operation->pair || job->rank < 2;
    double trip_s = 0;
    int right = true, all_right;

    job->words = operation->bytes / sizeof(*job->data);
    MPI_Barrier(MPI_COMM_WORLD);
    if (takes_part) {
        trip_s = time_operation(operation, job);
        right = check_operation(operation, job);
    }
    wait_for_all();
    MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (job->rank == 0) {
        printf("%s | %.1f | %s\n", operation->name, trip_s * 1e6, all_right ? "ok" : "WRONG");
        fflush(stdout);
    }
    return all_right;
}

static void report_sent(const struct job *job)
{
    uint64_t sent_bytes = 0;

    MPI_Reduce(&job->sent_bytes, &sent_bytes, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (job->rank == 0)
        printf("sent from rank to rank, collectives not counted | %llu bytes\n",
               (unsigned long long)sent_bytes);
}

int main(int argc, char **argv)
{
    struct job job = {0};
    bool right = true;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    if (job.ranks < 2) {
        fprintf(stderr, "mpi_demo: needs at least two ranks: mpirun -np 2 ...\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    job.data = malloc(LARGEST_BYTES);
    job.result = malloc(LARGEST_BYTES);
    if (!job.data || !job.result) {
        fprintf(stderr, "mpi_demo: no memory for two buffers of %d bytes\n", LARGEST_BYTES);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        right &= run_operation(&operations[i], &job);
    report_sent(&job);
    free(job.result);
    free(job.data);
    MPI_Finalize();
    return right ? 0 : 1;
}
