/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that does nothing but tell the test what it was opened with. */
#ifndef VBN_TEST_FAKE_H
#define VBN_TEST_FAKE_H

#include "verbena_transport.h"

/* What its open() gives for a port. */
struct fake_port {
    uint32_t rank;
    uint64_t job_key;
    unsigned shutdowns, waits;
    struct vbn_op *sending; /* until a wait without a limit */
    unsigned *closed;       /* the test's, or NULL */
    void (*peer_error)(void *arg, vbn_peer_t *peer, int status, const char *reason);
    void *callback_arg; /* peer_error's */
    char settings[512]; /* "name=value;" of each */
};

#endif
