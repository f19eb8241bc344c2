/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transport is taken: the order in which they are tried, and the trying. */
#include "loader.h"

#include <stdlib.h>
#include <string.h>

/* Tried first unless somebody says otherwise. */
static const char *const usual[] = {"rc", "ucx"};
#define USUAL_COUNT (sizeof(usual) / sizeof(usual[0]))

/* A list of names under construction, each of which lives as long as the loader. */
struct order {
    const char **names;
    size_t count, room;
};

static bool has(const struct order *order, const char *name)
{
    for (size_t i = 0; i < order->count; i++)
        if (!strcmp(order->names[i], name))
            return true;
    return false;
}

/* There is room for all by construction, see vbn_loader_order(). */
static void add(struct order *order, const char *name)
{
    if (order->count < order->room && !has(order, name))
        order->names[order->count++] = name;
}

static const char *is_usual(const char *name)
{
    for (size_t i = 0; i < USUAL_COUNT; i++)
        if (!strcmp(usual[i], name))
            return usual[i];
    return NULL;
}

static int no_such(vbn_loader_t *loader, const char *origin, const char *name,
                   struct vbn_error *err)
{
    struct nearest nearest;
    struct candidate *candidate;
    char there[160] = "";

    nearest_init(&nearest, name);
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    {
        size_t len = strlen(there);

        nearest_offer(&nearest, candidate->name);
        snprintf(there + len, sizeof(there) - len, "%s%s", len ? ", " : "", candidate->name);
    }
    return vbn_fail(err, VBN_ERR_INVALID,
                    "%s: parameter transport: there is no transport \"%s\"%s%s; installed: %s",
                    origin, name, nearest_found(&nearest) ? "; did you mean " : "",
                    nearest_found(&nearest) ? nearest.name : "", *there ? there : "none");
}

/* --- reading the parameter -------------------------------------------------------------------- */

/* A transport that was named must be there and sound. */
static int add_named(vbn_loader_t *loader, const char *origin, const char *name,
                     struct order *order, struct vbn_error *err)
{
    struct candidate *candidate = loader_candidate(loader, name);

    if (!candidate)
        return no_such(loader, origin, name, err);
    if (loader_load(loader, candidate) != VBN_OK)
        return vbn_fail(err, VBN_ERR_INVALID, "%s: parameter transport: %s cannot be used: %s",
                        origin, name, candidate->error.text);
    add(order, candidate->name);
    return VBN_OK;
}

static int add_excluded(vbn_loader_t *loader, const char *origin, const char *name,
                        struct order *order, struct vbn_error *err)
{
    const struct candidate *candidate = loader_candidate(loader, name);
    const char *lasting = candidate ? candidate->name : is_usual(name);

    if (!lasting)
        return no_such(loader, origin, name, err);
    add(order, lasting);
    return VBN_OK;
}

/* Takes each name of TEXT, separated by commas, into NAMED. */
static int read_list(vbn_loader_t *loader, const struct given *given, const char *text,
                     bool excluded, struct order *named, struct vbn_error *err)
{
    int status = VBN_OK;

    for (;;) {
        size_t len = strcspn(text, ",");
        char name[64];

        snprintf(name, sizeof(name), "%.*s", (int)len, text);
        if (!len || strchr(name, '^'))
            return vbn_fail(err, VBN_ERR_INVALID,
                            "%s: parameter transport: \"%s\" is neither a list (rc,ucx) nor an "
                            "exclusion (^ucx or ^rc,ucx)",
                            given->origin, given->value);
        status = (excluded ? add_excluded : add_named)(loader, given->origin, name, named, err);
        if (status != VBN_OK || !text[len])
            return status;
        text += len + 1;
    }
}

static int all_but(vbn_loader_t *loader, const struct order *excluded, struct order *order,
                   struct vbn_error *err)
{
    struct candidate *candidate;

    for (size_t i = 0; i < USUAL_COUNT; i++)
        if (!has(excluded, usual[i]))
            add(order, usual[i]);
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    {
        if (!has(excluded, candidate->name))
            add(order, candidate->name);
    }
    if (!order->count)
        return vbn_fail(err, VBN_ERR_INVALID, "parameter transport: every transport is excluded");
    return VBN_OK;
}

static int read_order(vbn_loader_t *loader, struct order *order, struct order *excluded,
                      struct vbn_error *err)
{
    const struct given *given = loader_given(loader, "transport");
    int status;

    if (!given || !*given->value)
        return all_but(loader, excluded, order, err);
    if (*given->value != '^')
        return read_list(loader, given, given->value, false, order, err);
    status = read_list(loader, given, given->value + 1, true, excluded, err);
    return status == VBN_OK ? all_but(loader, excluded, order, err) : status;
}

int vbn_loader_order(vbn_loader_t *loader, const char ***names, size_t *count,
                     struct vbn_error *err)
{
    struct order order = {.room = USUAL_COUNT}, excluded;
    struct candidate *candidate;
    int status = vbn_loader_check(loader, err);

    if (status != VBN_OK)
        return status;
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    order.room++;
    excluded = order;
    order.names = calloc(order.room, sizeof(*order.names));
    excluded.names = calloc(order.room, sizeof(*excluded.names));
    if (order.names && excluded.names)
        status = read_order(loader, &order, &excluded, err);
    else
        status = vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for transports");
    free(excluded.names);
    if (status != VBN_OK) {
        free(order.names);
        return status;
    }
    *names = order.names;
    *count = order.count;
    return VBN_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int open_table(const vbn_loader_t *loader, const struct vbn_transport *tr,
                      const struct vbn_port_config *base, vbn_port_t **port, struct vbn_error *err)
{
    struct vbn_port_config config = {.size = sizeof(config)};
    size_t base_size = base && base->size < sizeof(config) ? base->size : sizeof(config);
    struct vbn_setting *settings;
    char prefix[96];
    int status;

    if (base)
        memcpy(&config, base, base_size);
    config.size = sizeof(config);
    snprintf(prefix, sizeof(prefix), "transport_%s", tr->name);
    if (vbn_loader_settings(loader, prefix, &settings, &config.setting_count) != VBN_OK)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for parameters");
    config.settings = settings;
    status = tr->query(err);
    if (status == VBN_OK)
        status = tr->open(&config, port, err);
    free(settings);
    return status;
}

int vbn_loader_open_one(vbn_loader_t *loader, const char *name, const struct vbn_port_config *base,
                        const struct vbn_transport **tr, vbn_port_t **port, struct vbn_error *err)
{
    struct candidate *candidate;
    struct vbn_error why = {0};
    int status = loader_find(loader, err);

    if (status != VBN_OK)
        return status;
    candidate = loader_candidate(loader, name);
    if (!candidate)
        return vbn_fail(err, VBN_ERR_NO_DEVICE, "not installed");
    status = loader_load(loader, candidate);
    if (status != VBN_OK)
        return vbn_fail(err, status, "%s", candidate->error.text);
    status = open_table(loader, candidate->tr, base, port, &why);
    if (status != VBN_OK)
        return vbn_fail(err, status, "%s", *why.text ? why.text : vbn_status_str(status));
    *tr = candidate->tr;
    return VBN_OK;
}

static void note(char *reasons, size_t size, const char *name, const char *reason)
{
    size_t len = strlen(reasons);

    snprintf(reasons + len, size - len, "%s%s: %s", len ? "; " : "", name, reason);
}

void vbn_loader_announce(const vbn_loader_t *loader, const struct vbn_port_config *base,
                         const char *name, const char *reasons)
{
    uint64_t verbose = loader_own_number(loader, "transport_verbose");
    enum vbn_log_level level = *reasons ? VBN_LOG_WARN : VBN_LOG_INFO;
    char line[1200];

    if (verbose < (*reasons ? 1 : 2) && !(base && base->log && verbose))
        return;
    snprintf(line, sizeof(line), "transport: %s%s%s%s", name, *reasons ? " (" : "", reasons,
             *reasons ? ")" : "");
    if (base && base->log)
        base->log(base->callback_arg, level, line);
    else
        fprintf(stderr, "verbena: %s\n", line);
}

static int try_each(vbn_loader_t *loader, const char *const *names, size_t count,
                    const struct vbn_port_config *base, const struct vbn_transport **tr,
                    vbn_port_t **port, struct vbn_error *err)
{
    char reasons[1024] = "";
    int first = VBN_OK;

    for (size_t i = 0; i < count; i++) {
        struct vbn_error why;
        int status = vbn_loader_open_one(loader, names[i], base, tr, port, &why);

        if (status == VBN_OK) {
            vbn_loader_announce(loader, base, names[i], reasons);
            return VBN_OK;
        }
        first = first ? first : status;
        note(reasons, sizeof(reasons), names[i], why.text);
    }
    return vbn_fail(err, first, "no transport can be used: %s", reasons);
}

int vbn_loader_open(vbn_loader_t *loader, const struct vbn_port_config *base,
                    const struct vbn_transport **tr, vbn_port_t **port, struct vbn_error *err)
{
    const char **names;
    size_t count;
    int status = vbn_loader_order(loader, &names, &count, err);

    if (status != VBN_OK)
        return status;
    status = try_each(loader, names, count, base, tr, port, err);
    free(names);
    return status;
}
