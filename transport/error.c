/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of status codes, and the writing of errors for people. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

const char *vbn_status_str(int status)
{
    switch (status) {
    case VBN_OK:
        return "success";
    case VBN_ERR_AGAIN:
        return "no buffer or queue slot now";
    case VBN_ERR_INVALID:
        return "invalid argument";
    case VBN_ERR_NO_MEMORY:
        return "out of memory";
    case VBN_ERR_NO_DEVICE:
        return "no RDMA device";
    case VBN_ERR_NO_ADDRESS:
        return "no IP address on the device";
    case VBN_ERR_MEMLOCK:
        return "locked-memory limit too small";
    case VBN_ERR_DEVICE:
        return "device call failed";
    case VBN_ERR_VERSION:
        return "no wire version in common";
    case VBN_ERR_REFUSED:
        return "connection refused";
    case VBN_ERR_UNREACHABLE:
        return "peer unreachable";
    case VBN_ERR_PEER_LOST:
        return "connection lost";
    case VBN_ERR_CLOSED:
        return "closed";
    case VBN_ERR_TIMEOUT:
        return "timed out";
    case VBN_ERR_PROTOCOL:
        return "protocol error";
    case VBN_PENDING:
        return "pending";
    case VBN_ERR_TRUNCATED:
        return "message truncated";
    case VBN_ERR_CANCELED:
        return "canceled";
    case VBN_ERR_MISMATCH:
        return "ranks do not agree on the call";
    default:
        return "unknown status";
    }
}

int vbn_error_set(struct vbn_error *err, int status, const char *fmt, ...)
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
