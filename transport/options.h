/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VBN_OPTIONS_H
#define VBN_OPTIONS_H

#include "verbena.h"

/*
 * Copies the caller's options, of whatever size its header had, over the defaults into *OPTS, fills
 * in the default callbacks, and checks every parameter against its range.
 */
int vbn_options_take(const struct vbn_options *from, struct vbn_options *opts,
                     struct vbn_error *err);

#endif
