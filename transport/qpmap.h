/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds a connection by the number of its queue pair, the one thing that a receive completion
 * tells of its origin. A three-level table over the 24 bits: three loads, no hash, no collision.
 */
#ifndef VBN_QPMAP_H
#define VBN_QPMAP_H

#include "base.h"

struct vbn_conn;

struct vbn_qpmap_leaf {
    struct vbn_conn *conn[256];
    uint32_t used;
};

struct vbn_qpmap_node {
    struct vbn_qpmap_leaf *leaf[256];
    uint32_t used;
};

struct vbn_qpmap {
    struct vbn_qpmap_node *node[256];
};

static inline struct vbn_conn *vbn_qpmap_find(const struct vbn_qpmap *map, uint32_t qp_num)
{
    const struct vbn_qpmap_node *node = map->node[(qp_num >> 16) & 255];
    const struct vbn_qpmap_leaf *leaf;

    if (vbn_unlikely(!node))
        return NULL;
    leaf = node->leaf[(qp_num >> 8) & 255];
    if (vbn_unlikely(!leaf))
        return NULL;
    return leaf->conn[qp_num & 255];
}

/* Puts CONN under QP_NUM, which must be free. 0 or VBN_ERR_NO_MEMORY. */
int vbn_qpmap_insert(struct vbn_qpmap *map, uint32_t qp_num, struct vbn_conn *conn);

/* Takes QP_NUM out; tables left empty are freed. */
void vbn_qpmap_remove(struct vbn_qpmap *map, uint32_t qp_num);

#endif
