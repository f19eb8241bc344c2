/* SPDX-License-Identifier: BSD-3-Clause */
/* A number for some bytes, the same on every host; against accidents, not against malice. */
#ifndef VBN_HASH_H
#define VBN_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a of the LEN bytes at BYTES. */
static inline uint64_t vbn_hash(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
