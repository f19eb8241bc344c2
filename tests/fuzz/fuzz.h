/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share. A target is a function of bytes that must neither crash nor break
 * what it checks, whatever they are. With clang's libFuzzer it is a fuzzer (`make fuzz`), with
 * replay.c an ordinary program that runs its corpus once (`make check`).
 */
#ifndef VBN_TESTS_FUZZ_H
#define VBN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libFuzzer's names. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program, with a word on what was not so. */
void fuzz_check(bool ok, const char *what);

/* The input, taken from the front; zeros where it has ended. */
struct fuzz_in {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_u8(struct fuzz_in *in);
uint16_t fuzz_u16(struct fuzz_in *in);
uint32_t fuzz_u32(struct fuzz_in *in);

/* Takes up to LEN bytes into OUT; returns how many there were. */
size_t fuzz_bytes(struct fuzz_in *in, void *out, size_t len);

/*
 * Changes up to three of the LEN bytes at BYTES, which has ROOM, and sometimes their number: so a
 * fuzzer gets past a format's first fields. Returns the number. Nothing changes where the input
 * says so, or has ended.
 */
size_t fuzz_patch(struct fuzz_in *in, uint8_t *bytes, size_t len, size_t room);

#endif
