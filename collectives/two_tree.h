/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two binary trees over the numbers 1 … n, such that no number has children in both: in the first
 * the odd ones are leaves; the second is its mirror image (n even) or the first moved on by one
 * (n odd).
 *
 * P. Sanders, J. Speck, J. L. Träff: Two-tree algorithms for full bandwidth broadcast, reduction
 * and scan, 2009.
 */
#ifndef VBN_TWO_TREE_H
#define VBN_TWO_TREE_H

#include <stdint.h>

struct vbn_two_tree {
    uint32_t parent[2];   /* in each tree; 0: this is its root */
    uint32_t child[2][2]; /* in each tree; 0: none */
};

/* The place of V, 1 … N. */
struct vbn_two_tree vbn_two_tree(uint32_t n, uint32_t v);

/* The root of tree T, and how many levels it has. */
uint32_t vbn_two_tree_root(uint32_t n, unsigned t);
unsigned vbn_two_tree_levels(uint32_t n);

#endif
