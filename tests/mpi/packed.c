/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective of data that have to be packed, to more than 2 GiB: the root needs that much memory.
 * All elements lie at one place, and the root keeps all but one. It takes some seconds, so once, on
 * two ranks.
 */
#include "common.h"
#include "programs.h"

enum { TAG = 1, MIB = 1 << 20, MIB_KEPT = 2049 };

static void scatter(const struct job *job, MPI_Datatype chunk, MPI_Datatype again)
{
    struct message message = {0, 1, TAG, MIB, 1};
    int counts[] = {MIB_KEPT, 1}, displs[] = {0, 0};
    void *bytes = guarded_alloc(MIB);
    step("scatter of %d MiB, of which one is sent", MIB_KEPT + 1);
    if (job->rank == 0) {
        message_fill(&message, bytes);
        MPI_Scatterv(bytes, counts, displs, again, MPI_IN_PLACE, 0, chunk, 0, MPI_COMM_WORLD);
        expect(counts[0] == MIB_KEPT && displs[0] == 0, "the caller's arrays have changed");
    } else {
        message_poison(&message, bytes);
        MPI_Scatterv(NULL, NULL, NULL, again, bytes, 1, chunk, 0, MPI_COMM_WORLD);
    }
    message_check(&message, bytes);
    guarded_free(bytes);
}

void run_packed(const struct job *job)
{
    MPI_Datatype chunk, again;
    if (job->size != 2)
        return;
    MPI_Type_contiguous(MIB, MPI_BYTE, &chunk);
    MPI_Type_commit(&chunk);
    MPI_Type_create_resized(chunk, 0, 0, &again);
    MPI_Type_commit(&again);
    scatter(job, chunk, again);
    MPI_Type_free(&again);
    MPI_Type_free(&chunk);
}
