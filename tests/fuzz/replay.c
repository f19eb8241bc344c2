/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main program of a fuzz target without libFuzzer: runs the files named, or each of its corpus,
 * the folder of its name in $FUZZ_CORPUS. A line of TAP each.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_MAX = 65536 };

static unsigned count;
static bool failed;

/* The input alone in memory of its size: a sanitizer sees every byte read beyond it. */
static void run_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    size_t len = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
    uint8_t *input = malloc(len ? len : 1);

    if (file && input) {
        memcpy(input, bytes, len);
        LLVMFuzzerTestOneInput(input, len);
    } else {
        failed = true;
    }
    printf("%s %u - %s\n", file && input ? "ok" : "not ok", ++count, path);
    fflush(stdout);
    free(input);
    if (file)
        fclose(file);
}

static void run_folder(const char *path)
{
    struct dirent **entry;
    int n = scandir(path, &entry, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        char file[4096];

        if (entry[i]->d_name[0] != '.' &&
            snprintf(file, sizeof(file), "%s/%s", path, entry[i]->d_name) < (int)sizeof(file))
            run_file(file);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    if (!count) {
        printf("not ok %u - %s: no corpus (%s)\n", ++count, path, strerror(errno));
        failed = true;
    }
}

int main(int argc, char **argv)
{
    const char *corpus = getenv("FUZZ_CORPUS");
    char folder[2048];

    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    if (argc == 1) {
        snprintf(folder, sizeof(folder), "%s/%s", corpus ? corpus : ".",
                 program_invocation_short_name);
        run_folder(folder);
    }
    printf("1..%u\n", count);
    return failed;
}
