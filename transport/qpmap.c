/* SPDX-License-Identifier: BSD-3-Clause */
#include "qpmap.h"

#include <stdlib.h>

static void prune(struct vbn_qpmap *map, uint32_t qp_num)
{
    struct vbn_qpmap_node **node = &map->node[(qp_num >> 16) & 255];
    struct vbn_qpmap_leaf **leaf = &(*node)->leaf[(qp_num >> 8) & 255];

    if (*leaf && (*leaf)->used == 0) {
        free(*leaf);
        *leaf = NULL;
        (*node)->used--;
    }
    if ((*node)->used == 0) {
        free(*node);
        *node = NULL;
    }
}

int vbn_qpmap_insert(struct vbn_qpmap *map, uint32_t qp_num, struct vbn_conn *conn)
{
    struct vbn_qpmap_node **node = &map->node[(qp_num >> 16) & 255];
    struct vbn_qpmap_leaf **leaf;

    if (!*node && !(*node = calloc(1, sizeof(**node))))
        return VBN_ERR_NO_MEMORY;
    leaf = &(*node)->leaf[(qp_num >> 8) & 255];
    if (!*leaf) {
        *leaf = calloc(1, sizeof(**leaf));
        if (!*leaf) {
            prune(map, qp_num);
            return VBN_ERR_NO_MEMORY;
        }
        (*node)->used++;
    }
    assert(!(*leaf)->conn[qp_num & 255]);
    (*leaf)->conn[qp_num & 255] = conn;
    (*leaf)->used++;
    return VBN_OK;
}

void vbn_qpmap_remove(struct vbn_qpmap *map, uint32_t qp_num)
{
    struct vbn_qpmap_leaf *leaf = map->node[(qp_num >> 16) & 255]->leaf[(qp_num >> 8) & 255];

    leaf->conn[qp_num & 255] = NULL;
    leaf->used--;
    prune(map, qp_num);
}
