/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated fabric for several threads: one lock around each of its calls that the transport
 * makes between opening and closing a context (sim.mk: GUARD_WRAP).
 *
 * A lock orders what threads do before and after it, and so would hide from ThreadSanitizer the
 * very races between them that a test looks for. This one, and all that the fabric does under it,
 * is hidden from it instead: only the transport's own locking counts.
 */
#ifndef VBN_TESTS_SIM_GUARD_H
#define VBN_TESTS_SIM_GUARD_H

#include <stdint.h>

#include <infiniband/verbs.h>

/* The calling thread is one of the process RANK. */
void guard_enter_rank(int rank);

/* Guards the calls of the data path, which go through VERBS and not by name. */
void guard_verbs(struct ibv_context *verbs);

/* fabric_advance(), fabric_now_ns() and fabric_random() for any thread. */
int guard_advance(uint64_t duration_ns);
uint64_t guard_now_ns(void);
uint64_t guard_random(uint64_t bound);

#endif
