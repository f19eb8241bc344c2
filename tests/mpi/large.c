/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message larger than a device takes at once, there and back; VERBENA_TEST_LARGE_MIB says how
 * many MiB it has (40), beyond 2 GiB too: each of its ends then needs that much memory.
 */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum { TAG = 1, MIB = 1 << 20, MIB_USUAL = 40 };

static int mib_wanted(void)
{
    const char *text = getenv("VERBENA_TEST_LARGE_MIB");

    return text ? atoi(text) : MIB_USUAL;
}

/* Both ends are in one memory, so that twice the message is never needed. */
static void one_way(const struct job *job, int source, int dest, void *bytes, int mib,
                    MPI_Datatype chunk)
{
    struct message message = {source, dest, TAG, (size_t)mib * MIB, 1};
    MPI_Status status;
    int count;
    if (job->rank == source) {
        message_fill(&message, bytes);
        MPI_Send(bytes, mib, chunk, dest, TAG, MPI_COMM_WORLD);
        message_check(&message, bytes);
    } else {
        message_poison(&message, bytes);
        MPI_Recv(bytes, mib, chunk, source, TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, chunk, &count);
        expect(count == mib, "%d MiB have come, expected %d", count, mib);
        message_check(&message, bytes);
    }
}

void run_large(const struct job *job)
{
    int mib = mib_wanted(), last = job->size - 1;
    MPI_Datatype chunk;
    if (job->size == 1 || (job->rank != 0 && job->rank != last))
        return;
    MPI_Type_contiguous(MIB, MPI_BYTE, &chunk);
    MPI_Type_commit(&chunk);
    void *bytes = guarded_alloc((size_t)mib * MIB);
    step("%d MiB there", mib);
    one_way(job, 0, last, bytes, mib, chunk);
    step("%d MiB back", mib);
    one_way(job, last, 0, bytes, mib, chunk);
    guarded_free(bytes);
    MPI_Type_free(&chunk);
}
