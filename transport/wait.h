/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting: vbn_wait(), vbn_event_fd() and vbn_arm() of verbena.h. */
#ifndef VBN_WAIT_H
#define VBN_WAIT_H

#include "base.h"

/* Makes the completion channel, before the completion queues, and the descriptor that stands for it
 * and all others. vbn_wait_fini() also after a failure, and when the queues are gone. */
int vbn_wait_init(vbn_context_t *ctx, struct vbn_error *err);
void vbn_wait_fini(vbn_context_t *ctx);

/* Takes the events of the connection manager and of the device, and returns how many. One system
 * call where there are none. */
int vbn_events_poll(vbn_context_t *ctx);

#endif
