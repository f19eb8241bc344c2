/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fakes' assertions are cmocka's, which would end the process quietly. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1);
}

void fuzz_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz: not so: %s\n", what);
    abort();
}

size_t fuzz_bytes(struct fuzz_in *in, void *out, size_t len)
{
    size_t n = len < in->left ? len : in->left;

    memset(out, 0, len);
    if (n)
        memcpy(out, in->at, n);
    in->at += n;
    in->left -= n;
    return n;
}

uint8_t fuzz_u8(struct fuzz_in *in)
{
    uint8_t byte;

    fuzz_bytes(in, &byte, 1);
    return byte;
}

uint16_t fuzz_u16(struct fuzz_in *in)
{
    uint8_t b[2];

    fuzz_bytes(in, b, sizeof(b));
    return (uint16_t)(b[0] | b[1] << 8);
}

uint32_t fuzz_u32(struct fuzz_in *in)
{
    uint32_t low = fuzz_u16(in);

    return low | (uint32_t)fuzz_u16(in) << 16;
}

size_t fuzz_patch(struct fuzz_in *in, uint8_t *bytes, size_t len, size_t room)
{
    uint8_t how = fuzz_u8(in);

    for (unsigned n = how & 3; n > 0 && len; n--) {
        uint8_t at = fuzz_u8(in);

        bytes[at % len] = fuzz_u8(in);
    }
    if (how & 4) {
        size_t to = fuzz_u8(in) % (room + 1);

        if (to > len)
            memset(bytes + len, 0, to - len);
        len = to;
    }
    return len;
}
