/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators made, used and freed again and again: split with ranks reversed, groups,
 * duplicates with the same tags under way on all of them at once, freed while messages are still
 * under way, made while collectives of the same communicator are called, and intercommunicators
 * between the two halves of the job.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum { REPEATS = 3, DUPS = 8, MESSAGES = 4, TAG = 3, IDUPS = 10 };

/* Ring traffic on comm; the serial tells apart what goes over different communicators. */
struct ring {
    struct transfer in[MESSAGES], out[MESSAGES];
    MPI_Request requests[2 * MESSAGES];
};

static void ring_post_receives(struct ring *ring, MPI_Comm comm, uint64_t serial)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < MESSAGES; i++) {
        size_t len_bytes = len_mixed(hash_of(serial, (uint64_t)i, 1));
        struct message message = {(rank + size - 1) % size, rank, TAG, len_bytes,
                                  serial + (uint64_t)i};
        transfer_begin_recv(&ring->in[i], &message);
        transfer_irecv(&ring->in[i], comm, &ring->requests[i]);
    }
}

static void ring_post_sends(struct ring *ring, MPI_Comm comm, uint64_t serial)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < MESSAGES; i++) {
        size_t len_bytes = len_mixed(hash_of(serial, (uint64_t)i, 1));
        struct message message = {rank, (rank + 1) % size, TAG, len_bytes, serial + (uint64_t)i};
        transfer_begin_send(&ring->out[i], &message);
        transfer_isend(&ring->out[i], comm, &ring->requests[MESSAGES + i]);
    }
}

static void ring_finish(struct ring *ring)
{
    MPI_Status statuses[2 * MESSAGES];
    MPI_Waitall(2 * MESSAGES, ring->requests, statuses);
    for (int i = 0; i < MESSAGES; i++) {
        transfer_check(&ring->in[i], &statuses[i]);
        transfer_end(&ring->in[i]);
        transfer_end(&ring->out[i]);
    }
}

/* The sum of the world ranks of the members tells whether the right ones are in. */
static void members_check(const struct job *job, MPI_Comm comm, int expected_size, int expected_sum)
{
    int size = 0, sum = 0;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&job->rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(size == expected_size && sum == expected_sum,
           "a communicator has %d members of sum %d, expected %d of sum %d", size, sum,
           expected_size, expected_sum);
}

/* Even and odd ranks apart, ranks in reverse. */
static void split(const struct job *job, int repeat)
{
    struct ring ring;
    MPI_Comm comm;
    int color = job->rank % 2, size = 0, sum = 0, rank = -1;
    for (int i = color; i < job->size; i += 2) {
        size++;
        sum += i;
    }
    step("split, time %d", repeat);
    MPI_Comm_split(MPI_COMM_WORLD, color, job->size - job->rank, &comm);
    members_check(job, comm, size, sum);
    MPI_Comm_rank(comm, &rank);
    expect(rank == size - 1 - job->rank / 2, "rank %d after a split, expected %d", rank,
           size - 1 - job->rank / 2);
    ring_post_receives(&ring, comm, (uint64_t)repeat);
    ring_post_sends(&ring, comm, (uint64_t)repeat);
    ring_finish(&ring);
    MPI_Comm_free(&comm);
}

/* All but one, by a group; that one gets no communicator. */
static void group(const struct job *job, int repeat)
{
    int without = repeat % job->size;
    MPI_Group world, members;
    MPI_Comm comm;
    step("a group without rank %d", without);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &without, &members);
    MPI_Comm_create(MPI_COMM_WORLD, members, &comm);
    expect((comm == MPI_COMM_NULL) == (job->rank == without),
           "a communicator without rank %d was given to the wrong ranks", without);
    if (comm != MPI_COMM_NULL) {
        members_check(job, comm, job->size - 1, job->size * (job->size - 1) / 2 - without);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&members);
    MPI_Group_free(&world);
}

/* Sends go in one order of communicators, receives wait in the opposite one; all are freed while
 * the messages are still under way. */
static void duplicates(int repeat)
{
    struct ring *rings = calloc(DUPS, sizeof *rings);
    MPI_Comm comms[DUPS];
    step("%d duplicates at once, time %d", DUPS, repeat);
    for (int i = 0; i < DUPS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < DUPS; i++)
        ring_post_sends(&rings[i], comms[i], (uint64_t)(1000 * (i + 1)));
    for (int i = DUPS - 1; i >= 0; i--)
        ring_post_receives(&rings[i], comms[i], (uint64_t)(1000 * (i + 1)));
    for (int i = 0; i < DUPS; i++)
        MPI_Comm_free(&comms[i]);
    for (int i = 0; i < DUPS; i++)
        ring_finish(&rings[i]);
    free(rings);
}

/* Each rank exchanges with the one of the same number on the other side, where there is one. */
static void across(MPI_Comm inter, int rank)
{
    int others = 0;
    struct transfer in, out;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm_remote_size(inter, &others);
    if (rank >= others)
        return;
    transfer_begin_recv(&in, &(struct message){rank, rank, TAG, 50000, 0});
    transfer_begin_send(&out, &(struct message){rank, rank, TAG, 50000, 0});
    transfer_irecv(&in, inter, &requests[0]);
    transfer_isend(&out, inter, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    transfer_check(&in, &statuses[0]);
    transfer_end(&in);
    transfer_end(&out);
}

/* Each side learns the sum of the other's world ranks. */
static void across_together(const struct job *job, MPI_Comm inter, bool upper, int half)
{
    int sum = -1, expected = 0;
    for (int i = upper ? 0 : half; i < (upper ? half : job->size); i++)
        expected += i;
    MPI_Allreduce(&job->rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    expect(sum == expected, "allreduce over an intercommunicator gave %d, expected %d", sum,
           expected);
}

static void intercommunicator(const struct job *job, int repeat)
{
    int half = job->size / 2, rank = -1;
    bool upper = job->rank >= half;
    MPI_Comm local, inter, merged;
    step("intercommunicator, time %d", repeat);
    MPI_Comm_split(MPI_COMM_WORLD, upper, job->rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, upper ? 0 : half, TAG, &inter);
    MPI_Comm_rank(local, &rank);
    across(inter, rank);
    across_together(job, inter, upper, half);
    MPI_Intercomm_merge(inter, !upper, &merged);
    members_check(job, merged, job->size, job->size * (job->size - 1) / 2);
    MPI_Comm_rank(merged, &rank);
    expect(rank == (upper ? job->rank - half : job->rank + job->size - half),
           "rank %d after a merge of halves", rank);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

/* On a closed line of ranks each gets a block from both of its neighbours. */
static void cartesian(const struct job *job)
{
    int low = -1, high = -1, out[2] = {job->rank * 2, job->rank * 2 + 1}, in[2] = {-1, -1};
    MPI_Comm comm;
    step("cartesian neighbours");
    MPI_Cart_create(MPI_COMM_WORLD, 1, &job->size, &(int){0}, 0, &comm);
    MPI_Cart_shift(comm, 0, 1, &low, &high);
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm);
    int expected_low = low == MPI_PROC_NULL ? -1 : low * 2 + 1;
    int expected_high = high == MPI_PROC_NULL ? -1 : high * 2;
    expect(in[0] == expected_low && in[1] == expected_high,
           "neighbours sent %d and %d, expected %d and %d", in[0], in[1], expected_low,
           expected_high);
    MPI_Comm_free(&comm);
}

static void progress_for(double seconds)
{
    double end = MPI_Wtime() + seconds;
    int any;
    while (MPI_Wtime() < end)
        MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
}

static void idup_end(const struct job *job, MPI_Request *request, MPI_Comm *made)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
    members_check(job, *made, job->size, job->size * (job->size - 1) / 2);
    MPI_Comm_free(made);
}

/* MPI_Comm_idup() takes several steps, and a rank takes each of them when it makes progress: one
 * that is late for the barrier has taken some before it, the others in it. */
static void idup_by_a_late_rank(const struct job *job, int late, double seconds)
{
    MPI_Request request;
    MPI_Comm comm, made;
    step("rank %d is %.2f s late behind an idup", late, seconds);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_idup(comm, &made, &request);
    if (job->rank == late)
        progress_for(seconds);
    MPI_Barrier(comm);
    idup_end(job, &request, &made);
    MPI_Comm_free(&comm);
}

/* One rank begins it before the first collective of another communicator, the others behind that.
 */
static void idup_before_another(const struct job *job, int of)
{
    MPI_Request request;
    MPI_Comm comms[2], made;
    step("an idup of communicator %d, and a barrier of %d", of, 1 - of);
    for (int i = 0; i < 2; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (job->rank == 0)
        MPI_Comm_idup(comms[of], &made, &request);
    MPI_Barrier(comms[1 - of]);
    if (job->rank != 0)
        MPI_Comm_idup(comms[of], &made, &request);
    idup_end(job, &request, &made);
    for (int i = 0; i < 2; i++)
        MPI_Comm_free(&comms[i]);
}

static void idups_among_collectives(const struct job *job)
{
    MPI_Request request;
    MPI_Comm made;
    for (int i = 0; i < IDUPS; i++) {
        step("collectives behind idup %d", i);
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        members_check(job, MPI_COMM_WORLD, job->size, job->size * (job->size - 1) / 2);
        idup_end(job, &request, &made);
    }
}

/* Left to MPI_Finalize. What a library makes for it at its first collective may have lower numbers
 * than it: those of communicators that were freed. */
static void left_behind(const struct job *job)
{
    MPI_Comm comms[3];
    step("a communicator that nobody frees");
    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    members_check(job, comms[2], job->size, job->size * (job->size - 1) / 2);
}

void run_communicators(const struct job *job)
{
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        split(job, repeat);
        duplicates(repeat);
        if (job->size > 1) {
            group(job, repeat);
            intercommunicator(job, repeat);
        }
    }
    idup_before_another(job, 0);
    idup_before_another(job, 1);
    for (int late = 0; late < job->size; late++) {
        idup_by_a_late_rank(job, late, 0.1);
        idup_by_a_late_rank(job, late, 0);
    }
    idups_among_collectives(job);
    cartesian(job);
    left_behind(job);
}
