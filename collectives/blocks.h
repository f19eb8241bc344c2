/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting a vector in blocks for algorithms that pipeline. */
#ifndef VBN_BLOCKS_H
#define VBN_BLOCKS_H

#include "algorithm.h"

#define VBN_BLOCKS_MAX 1024u

/*
 * How many blocks: those of `param` bytes, or as many as make (n + DELAY) (α + mβ/n) least, which
 * is n = √(DELAY·mβ/α).
 */
uint32_t vbn_blocks(const struct vbn_call *call, double delay);

/* Where block I of N is in the vector, and its length, in bytes. */
size_t vbn_block_off(const struct vbn_call *call, uint32_t n, uint32_t i);
size_t vbn_block_len(const struct vbn_call *call, uint32_t n, uint32_t i);

#endif
