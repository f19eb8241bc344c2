/* SPDX-License-Identifier: BSD-3-Clause */
/* Every pair of ranks exchanges in both directions at once: pair after pair, then all pairs
 * together, where each rank has traffic to and from everybody, itself included. */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

static const size_t lens_bytes[] = {0, 8, 2000, 8192, 20000, 100000, 600001};
enum { LEN_COUNT = sizeof lens_bytes / sizeof lens_bytes[0] };
enum { TAG_PAIR = 1, TAG_ALL = 2 };

static void exchange(const struct job *job, int count, const int *peers, int tag, size_t len_bytes)
{
    struct transfer *ends = calloc(2 * (size_t)count, sizeof *ends);
    MPI_Request *requests = calloc(2 * (size_t)count, sizeof(MPI_Request));
    MPI_Status *statuses = calloc(2 * (size_t)count, sizeof *statuses);
    struct transfer *in = ends, *out = ends + count;
    for (int i = 0; i < count; i++) {
        transfer_begin_recv(&in[i], &(struct message){peers[i], job->rank, tag, len_bytes, 0});
        transfer_begin_send(&out[i], &(struct message){job->rank, peers[i], tag, len_bytes, 0});
        transfer_irecv(&in[i], MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < count; i++)
        transfer_isend(&out[i], MPI_COMM_WORLD, &requests[count + i]);
    MPI_Waitall(2 * count, requests, statuses);
    for (int i = 0; i < count; i++) {
        transfer_check(&in[i], &statuses[i]);
        transfer_end(&in[i]);
        transfer_end(&out[i]);
    }
    free(statuses);
    free(requests);
    free(ends);
}

void run_all_pairs(const struct job *job)
{
    int *everybody = calloc((size_t)job->size, sizeof *everybody);
    for (int i = 0; i < job->size; i++)
        everybody[i] = (job->rank + i) % job->size;
    for (int i = 0; i < LEN_COUNT; i++) {
        for (int round = 0; round < pair_rounds(job->size); round++) {
            int peer = pair_peer(job->rank, job->size, round);
            step("%zu bytes with rank %d", lens_bytes[i], peer);
            if (peer != MPI_PROC_NULL)
                exchange(job, 1, &peer, TAG_PAIR, lens_bytes[i]);
        }
        step("%zu bytes with everybody", lens_bytes[i]);
        exchange(job, job->size, everybody, TAG_ALL, lens_bytes[i]);
    }
    free(everybody);
}
