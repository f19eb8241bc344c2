/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of verbena-tune. */
#include "config.h"

#include "tune.h"

#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT ((size_t)64 << 20)

enum { OPT_PREDICT = 1000, OPT_PROCESSORS, OPT_MODEL };

static const struct argp_option option_list[] = {
    {"coll", 'c', "LIST", 0, "operations, with commas between (default: all that have a choice)",
     0},
    {"sizes", 's', "LIST", 0,
     "bytes, of the vector or of a rank's block, with commas between; k and m are known (default: "
     "8,512,4k,32k,256k,1m)",
     0},
    {"seconds", 'S', "S", 0, "for one operation of one size, all algorithms (default: 1)", 0},
    {"output", 'o', "FILE", 0, "write rules that take the fastest there", 0},
    {"processors", OPT_PROCESSORS, "N", 0,
     "how many ranks can run at a time (default: found out; with --predict: all)", 0},
    {"model", OPT_MODEL, "L,A,B,G", 0,
     "the model for --predict: ns of latency, ns a message, ns a byte, ns a byte reduced "
     "(default: those of the library)",
     0},
    {"predict", OPT_PREDICT, "RANKS", 0,
     "measure nothing: say what the model predicts for so many ranks", 0},
    {0}};

static const char doc[] =
    "Measures every algorithm of every collective operation over a transport, fits the model behind "
    "the built-in choice, and writes the rules that choose the fastest."
    "\vLaunched by mpirun or any other PMIx runtime. The transport is chosen by --mca:\n\n"
    "  mpirun -n 8 verbena-tune --mca transport rc --output rules.conf\n"
    "  mpirun --mca coll_verbena_rules_file rules.conf …\n"
    "  verbena-tune --predict 100000 --model 1500,300,0.08,0.1\n";

static uint64_t number(struct argp_state *state, const char *what, const char *text, uint64_t most)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);

    if (end != text && (*end == 'k' || *end == 'm'))
        n <<= *end++ == 'k' ? 10 : 20;
    if (end == text || *end || *text == '-' || n > most)
        argp_error(state, "%s: '%s' is not a number up to %llu", what, text,
                   (unsigned long long)most);
    return n;
}

static void read_colls(struct argp_state *state, char *list, struct tune_options *opts)
{
    char *rest = NULL;

    opts->colls = 0;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        enum vbn_coll coll = VBN_COLL_COUNT;

        if (vbn_coll_find(name, &coll) != VBN_OK || !tune_can(coll))
            argp_error(state, "--coll: '%s' is no operation with a choice of algorithms", name);
        opts->colls |= 1u << coll;
    }
}

static void read_sizes(struct argp_state *state, char *list, struct tune_options *opts)
{
    char *rest = NULL;

    opts->size_count = 0;
    for (char *text = strtok_r(list, ",", &rest); text; text = strtok_r(NULL, ",", &rest)) {
        size_t n = number(state, "--sizes", text, SIZE_LIMIT);

        if (opts->size_count == TUNE_SIZES_MAX)
            argp_error(state, "--sizes: more than %u", TUNE_SIZES_MAX);
        if (n < 8 || (opts->size_count && n <= opts->sizes[opts->size_count - 1]))
            argp_error(state, "--sizes: '%s': sizes are 8 bytes or more, and rise", text);
        opts->sizes[opts->size_count++] = n;
    }
}

static void read_model(struct argp_state *state, const char *text, struct tune_model *model)
{
    double *const to[] = {&model->latency_ns, &model->message_ns, &model->byte_ns,
                          &model->reduce_ns};

    for (unsigned i = 0; i < 4; i++) {
        char *end;

        *to[i] = strtod(text, &end);
        if (end == text || *end != (i < 3 ? ',' : '\0') || !(*to[i] >= 0 && isfinite(*to[i])))
            argp_error(state, "--model: expected four numbers with commas between");
        text = end + 1;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct tune_options *opts = state->input;
    char *end;

    switch (key) {
    case 'c':
        read_colls(state, arg, opts);
        return 0;
    case 's':
        read_sizes(state, arg, opts);
        return 0;
    case 'S':
        opts->seconds = strtod(arg, &end);
        if (end == arg || *end || !(opts->seconds > 0 && opts->seconds <= 3600))
            argp_error(state, "--seconds: '%s' is not more than 0 and up to 3600", arg);
        return 0;
    case 'o':
        opts->output = arg;
        return 0;
    case OPT_PREDICT:
        opts->predict = (uint32_t)number(state, "--predict", arg, VBN_TEAM_MAX);
        if (opts->predict < 2)
            argp_error(state, "--predict: 2 ranks or more");
        return 0;
    case OPT_PROCESSORS:
        opts->processors = (uint32_t)number(state, "--processors", arg, UINT32_MAX);
        return 0;
    case OPT_MODEL:
        read_model(state, arg, &opts->model);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void tune_parse(int argc, char **argv, struct tune_options *opts)
{
    static const struct argp argp = {option_list, parse_option, NULL, doc, NULL, NULL, NULL};
    static const size_t sizes[] = {8, 512, 4096, 32768, 262144, 1048576};
    struct vbn_team_options team;

    vbn_team_options_init(&team, sizeof(team));
    *opts = (struct tune_options){
        .seconds = 1,
        .size_count = sizeof(sizes) / sizeof(sizes[0]),
        .model = {(double)team.latency_ns, (double)team.alpha_ns, (double)team.beta_ps / 1e3,
                  (double)team.gamma_ps / 1e3},
    };
    memcpy(opts->sizes, sizes, sizeof(sizes));
    for (unsigned coll = 0; coll < VBN_COLL_COUNT; coll++)
        opts->colls |= tune_can((enum vbn_coll)coll) ? 1u << coll : 0;
    argp_parse(&argp, argc, argv, 0, NULL, opts);
}
