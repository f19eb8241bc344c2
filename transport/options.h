/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VBN_OPTIONS_H
#define VBN_OPTIONS_H

#include "verbena.h"
#include "wire.h"

/*
 * Copies the caller's options, of whatever size its header had, over the defaults into *OPTS, fills
 * in the default callbacks, and checks every parameter against its range.
 */
int vbn_options_take(const struct vbn_options *from, struct vbn_options *opts,
                     struct vbn_error *err);

/* The lowest version offered: ours, unless a test pretends to be a release that has dropped it. */
static inline uint8_t vbn_options_version_min(const struct vbn_options *opts)
{
    return opts->wire_version > VBN_WIRE_VERSION ? (uint8_t)opts->wire_version
                                                 : VBN_WIRE_VERSION_MIN;
}

#endif
