/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What scan and exscan share. An exclusive scan is the inclusive one of the value of the rank
 * before, over the ranks but the first; so the prefixes below are over FIRST … p-1.
 */
#ifndef VBN_SCAN_H
#define VBN_SCAN_H

#include "algorithm.h"

static inline uint32_t vbn_scan_first(const struct vbn_call *call)
{
    return call->coll == VBN_COLL_EXSCAN ? 1 : 0;
}

#endif
