/* SPDX-License-Identifier: BSD-3-Clause */
#include "log.h"
#include "context.h"

#include <stdarg.h>
#include <stdio.h>

void vbn_log(vbn_context_t *ctx, enum vbn_log_level level, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    ctx->opts.log(ctx->opts.callback_arg, level, line);
}
