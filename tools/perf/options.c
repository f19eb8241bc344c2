/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of verbena-perf. */
#include "config.h"

#include "perf.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MAX  4096u
#define SIZE_MAX_MB 1024u

const char *const perf_test_names[PERF_TESTS] = {"latency", "bandwidth", "rate",    "put",
                                                 "get",     "incast",    "overlap", "idle"};

enum { OPT_CSV = 1000, OPT_REGISTERED, OPT_UNREGISTERED, OPT_WAIT };

static const struct argp_option option_list[] = {
    {"test", 't', "LIST", 0,
     "latency, bandwidth, rate, put, get, incast, overlap, idle, with commas between, or all (default: "
     "latency,bandwidth,rate)",
     0},
    {"sizes", 's', "A..B", 0,
     "bytes: 0 or powers of two, with k or m if you like; each doubles the one before (default: "
     "0..4m; only latency measures 0 bytes, rate has always 8, and idle none)",
     0},
    {"seconds", 'S', "S", 0, "for each figure (default: 0.5)", 0},
    {"window", 'w', "N", 0,
     "messages or operations at once, for bandwidth; messages of a burst, for incast (default: 64)",
     0},
    {"registered", OPT_REGISTERED, NULL, 0, "messages from and to registered memory (default)", 0},
    {"unregistered", OPT_UNREGISTERED, NULL, 0, "messages from and to memory as it comes", 0},
    {"wait", OPT_WAIT, NULL, 0,
     "wait for the transport, asleep if it so decides, instead of polling", 0},
    {"csv", OPT_CSV, "FILE", 0, "write the figures there, too", 0},
    {0}};

static const char doc[] =
    "Measures a transport between pairs of ranks: rank i and rank i + n/2."
    "\vLaunched by mpirun or any other PMIx runtime. The transport is chosen by --mca:\n\n"
    "  mpirun -n 2 verbena-perf --mca transport rc\n"
    "  verbena-perf --mca help transport\n";

static void read_tests(char *list, struct argp_state *state, struct perf_options *opts)
{
    char *rest = NULL;

    opts->tests = 0;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        unsigned test = 0;

        if (strcmp(name, "all") == 0) {
            opts->tests = (1u << PERF_TESTS) - 1;
            continue;
        }
        while (test < PERF_TESTS && strcmp(name, perf_test_names[test]) != 0)
            test++;
        if (test == PERF_TESTS)
            argp_error(state, "--test: unknown test '%s'", name);
        opts->tests |= 1u << test;
    }
    if (!opts->tests)
        argp_error(state, "--test: no test is named");
}

/* A size at TEXT, which ends where *END points. */
static bool read_size(const char *text, char **end, size_t *size)
{
    unsigned long long value;

    if (*text < '0' || *text > '9')
        return false;
    value = strtoull(text, end, 10);
    if (value > (unsigned long long)SIZE_MAX_MB << 20)
        return false;
    if (**end == 'k' || **end == 'm')
        value <<= *(*end)++ == 'k' ? 10 : 20;
    *size = (size_t)value;
    return value <= (unsigned long long)SIZE_MAX_MB << 20 && (value & (value - 1)) == 0;
}

static void read_sizes(const char *text, struct argp_state *state, struct perf_options *opts)
{
    char *end;
    bool good = read_size(text, &end, &opts->size_min);

    opts->size_max = opts->size_min;
    if (good && strncmp(end, "..", 2) == 0)
        good = read_size(end + 2, &end, &opts->size_max);
    if (!good || *end || opts->size_max < opts->size_min)
        argp_error(
            state,
            "--sizes '%s': expected A..B, each 0 or a power of two up to %um, such as 8..64k", text,
            SIZE_MAX_MB);
}

static double read_number(const char *name, const char *text, double least, double most,
                          struct argp_state *state)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= least && value <= most))
        argp_error(state, "--%s '%s': expected a number from %g to %g", name, text, least, most);
    return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct perf_options *opts = state->input;

    switch (key) {
    case 't':
        read_tests(arg, state, opts);
        return 0;
    case 's':
        read_sizes(arg, state, opts);
        return 0;
    case 'S':
        opts->seconds = read_number("seconds", arg, 0.001, 3600, state);
        return 0;
    case 'w':
        opts->window = (unsigned)read_number("window", arg, 1, WINDOW_MAX, state);
        return 0;
    case OPT_REGISTERED:
    case OPT_UNREGISTERED:
        opts->registered = key == OPT_REGISTERED;
        return 0;
    case OPT_WAIT:
        opts->wait = true;
        return 0;
    case OPT_CSV:
        opts->csv = arg;
        return 0;
    case ARGP_KEY_END:
        if (opts->size_max == 0 && (opts->tests & ~(1u << PERF_LATENCY | PERF_SIZELESS)))
            argp_error(state, "--sizes 0: only latency can be measured with 0 bytes");
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "what is '%s'?", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The command line without `--mca NAME VALUE`, which the loader reads. For free(). */
static char **without_mca(int argc, char **argv, int *kept)
{
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));
    bool ours = true;

    *kept = 0;
    for (int i = 0; copy && i < argc; i++) {
        ours = ours && strcmp(argv[i], "--") != 0;
        if (ours && (strcmp(argv[i], "--mca") == 0 || strcmp(argv[i], "-mca") == 0))
            i += 2;
        else
            copy[(*kept)++] = argv[i];
    }
    return copy;
}

void perf_options_read(int argc, char **argv, struct perf_options *opts)
{
    const struct argp argp = {.options = option_list, .parser = parse, .doc = doc};
    int kept;
    char **copy = without_mca(argc, argv, &kept);

    *opts = (struct perf_options){
        .tests = 1u << PERF_LATENCY | 1u << PERF_BANDWIDTH | 1u << PERF_RATE,
        .size_min = 0,
        .size_max = 4u << 20,
        .seconds = 0.5,
        .window = 64,
        .registered = true,
    };
    argp_program_version = "verbena-perf " PACKAGE_VERSION;
    if (!copy)
        exit(1);
    argp_parse(&argp, kept, copy, 0, NULL, opts);
    free(copy);
}

bool perf_first_size(const struct perf_options *opts, enum perf_test test, size_t *size)
{
    *size = opts->size_min;
    if (PERF_SIZELESS & 1u << test)
        *size = test == PERF_RATE ? PERF_RATE_BYTES : 0;
    else if (test != PERF_LATENCY && *size == 0)
        *size = 1;
    return (PERF_SIZELESS & 1u << test) || *size <= opts->size_max;
}

bool perf_next_size(const struct perf_options *opts, enum perf_test test, size_t *size)
{
    *size = *size ? 2 * *size : 1;
    return !(PERF_SIZELESS & 1u << test) && *size <= opts->size_max;
}
