/* SPDX-License-Identifier: BSD-3-Clause */
/* The programs of the suite, one a file. Each runs at any number of ranks and returns only if all
 * it checked was right. */
#ifndef VERBENA_TESTS_MPI_PROGRAMS_H
#define VERBENA_TESTS_MPI_PROGRAMS_H

#include <mpi.h>

struct job;

void run_connects(const struct job *job);
void run_ring(const struct job *job);
void run_all_pairs(const struct job *job);
void run_sizes(const struct job *job);
void run_unexpected(const struct job *job);
void run_outstanding(const struct job *job);
void run_flood(const struct job *job);
void run_bursts(const struct job *job);
void run_p2p_modes(const struct job *job);
void run_probe(const struct job *job);
void run_datatypes(const struct job *job);
void run_records(const struct job *job);
void run_collectives(const struct job *job);
void run_reductions(const struct job *job);
void run_again(const struct job *job);
void run_orders(const struct job *job);
void run_overlap(const struct job *job);
void run_communicators(const struct job *job);
void run_freed(const struct job *job);
void run_rma(const struct job *job);
void run_rma_ops(const struct job *job);
void run_passive(const struct job *job);
void run_attached(const struct job *job);
void run_threads(const struct job *job);
void run_spawn(const struct job *job);
void run_buffers(const struct job *job);
void run_large(const struct job *job);
void run_packed(const struct job *job);
void run_sparse(const struct job *job);
void run_waits(const struct job *job);
void run_unwaited(const struct job *job);

/* What a process does that run_spawn() has spawned. */
void run_as_child(MPI_Comm parents);

#endif
