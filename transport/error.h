/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VBN_ERROR_H
#define VBN_ERROR_H

#include "verbena.h"

/* Fills *ERR, which may be NULL, and returns STATUS. */
int vbn_error_set(struct vbn_error *err, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

#endif
