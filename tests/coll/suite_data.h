/* SPDX-License-Identifier: BSD-3-Clause */
/* The suite's calls: what each rank gives, and what it must have afterwards. */
#ifndef COLL_SUITE_DATA_H
#define COLL_SUITE_DATA_H

#include "verbena_coll.h"

/* Types and operations that the suite uses. */
enum flavour {
    FLAVOUR_INT32_SUM,
    FLAVOUR_AFFINE, /* x → ax + b after one another: does not commute */
    FLAVOUR_BYTES,  /* movement only, elements of 1 byte */
    FLAVOUR_BYTES3,
    FLAVOUR_DOUBLE_MAX,
    FLAVOUR_INT8_BXOR,
    FLAVOUR_MINLOC,
    FLAVOURS
};

struct coll_case {
    enum vbn_coll coll;
    enum flavour flavour;
    uint32_t size, root;
    size_t count;
    bool in_place;
};

/* A rank's part in a case. */
struct part {
    struct vbn_coll_args args;
    uint8_t *send, *recv; /* memory, with guards around */
    uint8_t *send_want, *recv_want;
    size_t send_len, recv_len;
    size_t *counts; /* the arrays, in one */
};

bool flavour_reduces(enum flavour flavour);
bool coll_reduces(enum vbn_coll coll);
bool coll_rooted(enum vbn_coll coll);
bool coll_has_blocks(enum vbn_coll coll); /* a count is that of a block, and each rank has one */

void part_make(const struct coll_case *c, uint32_t rank, struct part *part);
/* NULL, or what is wrong. */
const char *part_check(const struct part *part, const struct coll_case *c, uint32_t rank);
void part_free(struct part *part);

#endif
