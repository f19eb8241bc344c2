/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that join later: children that are spawned, and a group that another one accepts. Ranks
 * that have met so talk like any others. They part in MPI_Finalize: Open MPI 4.1.4 over an external
 * PMIx waits for ever in MPI_Comm_disconnect, over every BTL; and in MPI_Comm_spawn after some
 * spawns by one job (after 2 to 11 rounds of this program, over btl/tcp), so a job spawns once.
 */
#include "common.h"
#include "programs.h"

#include <limits.h>
#include <unistd.h>

enum { CHILDREN = 2, TAG_MET = 1 };

/* Every rank of COMM sends to every other one at once, first small messages, then large ones. */
static void talk(MPI_Comm comm)
{
    static const size_t lens[] = {0, 100, 5000, 200000};
    struct transfer in, out;
    MPI_Request request;
    MPI_Status status;
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int round = 0; round < pair_rounds(size); round++) {
        int peer = pair_peer(rank, size, round);
        for (size_t i = 0; peer != MPI_PROC_NULL && i < sizeof lens / sizeof lens[0]; i++) {
            struct message from = {peer, rank, TAG_MET, lens[i], i};
            struct message to = {rank, peer, TAG_MET, lens[i], i};
            transfer_begin_recv(&in, &from);
            transfer_begin_send(&out, &to);
            transfer_isend(&out, comm, &request);
            MPI_Recv(in.bytes, (int)lens[i], MPI_BYTE, peer, TAG_MET, comm, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            transfer_check(&in, &status);
            transfer_end(&in);
            transfer_end(&out);
        }
    }
}

static void count_all(MPI_Comm comm, int expected)
{
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == expected, "%d ranks have met, expected %d", sum, expected);
}

/* INTER's two groups become one, which talks. */
static void meet(MPI_Comm inter, bool high)
{
    MPI_Comm all;
    int own, others;
    MPI_Comm_size(inter, &own);
    MPI_Comm_remote_size(inter, &others);
    MPI_Intercomm_merge(inter, high, &all);
    count_all(all, own + others);
    talk(all);
    MPI_Comm_free(&all);
    MPI_Comm_free(&inter);
}

void run_as_child(MPI_Comm parents)
{
    program_begin("spawn");
    step("a child meets its parents");
    meet(parents, true);
}

static void spawn(void)
{
    char program[PATH_MAX] = "";
    int failed[CHILDREN];
    MPI_Comm children;
    step("spawning %d children", CHILDREN);
    expect(readlink("/proc/self/exe", program, sizeof program - 1) > 0, "who am I?");
    MPI_Comm_spawn(program, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   failed);
    for (int i = 0; i < CHILDREN; i++)
        expect(failed[i] == MPI_SUCCESS, "child %d was not spawned", i);
    step("meeting the children");
    meet(children, false);
}

/* The even ranks accept the odd ones. */
static void accept_and_connect(const struct job *job)
{
    char port[MPI_MAX_PORT_NAME] = "";
    bool accepts = job->rank % 2 == 0;
    MPI_Comm group, inter;
    step("one half connects to the other");
    if (job->rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, accepts, job->rank, &group);
    if (accepts)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, group, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, group, &inter);
    meet(inter, !accepts);
    MPI_Comm_free(&group);
    if (job->rank == 0)
        MPI_Close_port(port);
}

void run_spawn(const struct job *job)
{
    spawn();
    if (job->size > 1)
        accept_and_connect(job);
}
