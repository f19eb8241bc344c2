/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The check mode: before a call all ranks compare what they call. By dissemination every rank hears
 * of every other's signature: of the first it knows, and of one that differs if there is one.
 *
 * What a peer says is compared and printed, nothing else.
 */
#ifndef VBN_CHECK_H
#define VBN_CHECK_H

#include "team.h"

/* Adds the exchange to an empty schedule; returns where its memory is. */
struct vbn_at vbn_check_build(struct vbn_sched *sched, const struct vbn_call *call);

/* What of a call's counts all ranks agree on, in one number. */
uint64_t vbn_check_count(const struct vbn_call *call);

/* Writes REQ's own signature. */
void vbn_check_fill(const vbn_coll_req_t *req, void *mine);

void vbn_check_merge(void *mine, const void *theirs);

/* True where all agree; otherwise *ERR names two that do not. */
bool vbn_check_verdict(const vbn_coll_req_t *req, const void *mine, struct vbn_error *err);

#endif
