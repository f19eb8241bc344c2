/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VBN_LOG_H
#define VBN_LOG_H

#include "base.h"

/* Gives one line to the options' log callback. Never on the data path. */
void vbn_log(vbn_context_t *ctx, enum vbn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

#endif
