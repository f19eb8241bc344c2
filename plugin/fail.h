/* SPDX-License-Identifier: BSD-3-Clause */
/* The writing of errors for people, for what is not in libverbena. */
#ifndef VBN_FAIL_H
#define VBN_FAIL_H

#include "verbena.h"

#include <stdarg.h>
#include <stdio.h>

/* Fills *ERR, which may be NULL, and returns STATUS. */
__attribute__((format(printf, 3, 4), cold, unused)) static int
vbn_fail(struct vbn_error *err, int status, const char *fmt, ...)
{
    va_list ap;

    if (err) {
        err->status = status;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
    }
    return status;
}

#endif
