/* SPDX-License-Identifier: BSD-3-Clause */
/* A number for some bytes, the same on every host; against accidents, not against malice. */
#ifndef VBN_HASH_H
#define VBN_HASH_H

#include <stddef.h>
#include <stdint.h>

#define VBN_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t vbn_hash_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* FNV-1a of the LEN bytes at BYTES. */
static inline uint64_t vbn_hash(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t hash = VBN_HASH_START;

    for (size_t i = 0; i < len; i++)
        hash = vbn_hash_byte(hash, at[i]);
    return hash;
}

/* HASH of what came before, and WORD, its lowest byte first. */
static inline uint64_t vbn_hash_word(uint64_t hash, uint64_t word)
{
    for (unsigned shift = 0; shift < 64; shift += 8)
        hash = vbn_hash_byte(hash, (unsigned char)(word >> shift));
    return hash;
}

#endif
