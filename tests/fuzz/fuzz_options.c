/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters as users give them. The input is lines NAME=VALUE, a number for NAME standing for one
 * of the table; what was accepted must be in its range, and a context opened with it must work.
 */
#include "fuzz.h"

#include "../unit/lone.h"

#include <ctype.h>
#include <stdlib.h>

static struct vbn_options chosen;

static uint64_t uint_at(const struct vbn_options *opts, const struct vbn_param *p)
{
    uint64_t value;

    memcpy(&value, (const char *)opts + p->offset, sizeof(value));
    return value;
}

static const struct vbn_param *param_of(const char *name)
{
    size_t count;
    const struct vbn_param *p = vbn_params(&count);

    for (size_t i = 0; i < count; i++)
        if (!strcmp(p[i].name, name))
            return &p[i];
    return NULL;
}

static void set(const char *name, const char *value)
{
    size_t count;
    const struct vbn_param *params = vbn_params(&count), *p;
    struct vbn_options before = chosen;
    struct vbn_error err = {0};
    int rc;

    if (name[0] >= 1 && (size_t)name[0] <= count)
        name = params[name[0] - 1].name;
    p = param_of(name);
    rc = vbn_options_set(&chosen, name, value, &err);
    if (rc) {
        fuzz_check(rc == VBN_ERR_INVALID && err.status == rc && err.text[0], "a refusal says why");
        fuzz_check(memcmp(&before, &chosen, sizeof(before)) == 0, "a refusal changes nothing");
        return;
    }
    fuzz_check(p != NULL, "only parameters of the table are taken");
    if (p->type == VBN_PARAM_UINT)
        fuzz_check(uint_at(&chosen, p) >= p->min && uint_at(&chosen, p) <= p->max,
                   "a number in its range");
}

/* What TEXT, which was accepted, says; more than 64 bits where it is too large for them. */
static unsigned __int128 meaning(const char *text)
{
    static const char units[] = "kmg";
    unsigned __int128 value = 0;
    unsigned base = 10;

    text += strspn(text, " \t\n\v\f\r");
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    for (; isxdigit((unsigned char)*text) && (base == 16 || isdigit((unsigned char)*text));
         text++) {
        int digit = isdigit((unsigned char)*text) ? *text - '0' : (*text | 0x20) - 'a' + 10;

        if (!(value >> 64)) /* else too large already; room for the unit must be left */
            value = value * base + (unsigned)digit;
    }
    for (unsigned i = 0; *text && i < 3; i++)
        if ((*text | 0x20) == units[i])
            value <<= 10 * (i + 1);
    return value;
}

/* A host's own parameter, of any range. */
static void number(const char *low, const char *text)
{
    struct vbn_param own = {.name = "own", .unit = "", .max = UINT64_MAX};
    uint64_t value = 77;

    own.min = strtoull(low, NULL, 16);
    if (vbn_param_number(&own, text, &value, NULL))
        fuzz_check(value == 77, "a refused number changes nothing");
    else
        fuzz_check(value >= own.min && value == meaning(text), "a number as it was written");
}

static void set_lines(char *text)
{
    char *save, *line;

    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, '=');

        if (!value)
            continue;
        *value++ = '\0';
        set(line, value);
        number(line, value);
    }
}

static void keep_callbacks(struct vbn_options *opts)
{
    chosen.clock_ns = opts->clock_ns;
    chosen.random = opts->random;
    chosen.log = opts->log;
    chosen.endpoint_error = opts->endpoint_error;
    *opts = chosen;
}

/* Whatever was accepted, a context works with it: a message comes, and one goes. */
static void try_out(void)
{
    char byte = 'x';
    struct iovec iov = {&byte, 1};
    struct vbn_conn *conn;
    vbn_context_t *ctx;

    ctx = lone_open(keep_callbacks);
    if (ctx->opts.wire_version == VBN_WIRE_VERSION) {
        conn = lone_connect(ctx, 7);
        lone_am(conn, 5, &byte, 1);
        fuzz_check(ctx->counters.rx_msgs == 1, "a message was received");
        fuzz_check(vbn_am_send(conn->ep, 5, &iov, 1) == VBN_OK, "a message was taken");
        fuzz_check(lone_sent(conn) > 0, "a message was sent");
    }
    unit.tick_ns = 100 * UNIT_MS; /* closing does not wait */
    vbn_shutdown(ctx);
    vbn_close(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    struct vbn_options taken;
    struct vbn_error err = {0};

    lone_setup(NULL);
    unit_memlock(UINT64_C(1) << 40);
    vbn_options_init(&chosen, sizeof(chosen));
    if (size)
        memcpy(text, data, size);
    set_lines(text);
    fuzz_check(vbn_options_take(&chosen, &taken, &err) == VBN_OK, "what was set can be taken");
    chosen.device = chosen.address = NULL;
    try_out();
    lone_teardown(NULL);
    free(text);
    return 0;
}
