/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where this port is and how packets leave it, for a queue pair that is connected without rdma_cm,
 * which otherwise finds all of this: LID, GID and its place in the table, MTU.
 */
#ifndef VBN_PATH_H
#define VBN_PATH_H

#include "base.h"
#include "wire.h"

struct vbn_path {
    uint8_t link; /* enum vbn_wire_link */
    uint8_t mtu;  /* as enum ibv_mtu */
    uint8_t sgid_index;
    uint16_t lid;
    uint8_t gid[16]; /* zeros: none */
};

/*
 * Asks the port. On Ethernet the GID is that of the context's first address, RoCE v2 where there is
 * one; on InfiniBand the first of the table. VBN_ERR_DEVICE, VBN_ERR_NO_ADDRESS with the text.
 */
int vbn_path_query(const vbn_context_t *ctx, struct vbn_path *path, struct vbn_error *err);

/* Whether packets can go between OWN and PEER's port: 0, or VBN_ERR_UNREACHABLE with the text. */
int vbn_path_check(const struct vbn_path *own, const struct vbn_wire_half *peer,
                   struct vbn_error *err);

/* Writes PEER's port and queue pair as a person reads it; gives TEXT. */
const char *vbn_path_text(const struct vbn_wire_half *peer, char *text, size_t len);

#endif
