/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VBN_DTYPE_H
#define VBN_DTYPE_H

#include "verbena_coll.h"

/* A number after those of enum vbn_op_kind. */
#define VBN_OP_USER VBN_OP_KIND_COUNT

/* NULL where the operation is not there for the type. */
vbn_reduce_fn vbn_op_function(enum vbn_op_kind kind, enum vbn_dtype dtype);

/* For messages; "?" for what is not one. */
const char *vbn_dtype_name(uint64_t dtype);
const char *vbn_op_name(uint64_t kind);

#endif
