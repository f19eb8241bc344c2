/* SPDX-License-Identifier: BSD-3-Clause */
/* What `--mca help TOPIC` prints: each parameter with its value, where that is from, and its range.
 */
#include "loader.h"

#include <string.h>

static const char *full_name(const struct table *table, const struct vbn_param *param, char *room,
                             size_t size)
{
    snprintf(room, size, "%s%s%s", table->prefix, *table->prefix ? "_" : "", param->name);
    return room;
}

static void print_default(const struct vbn_param *param, FILE *out)
{
    if (param->type == VBN_PARAM_UINT)
        fprintf(out, "%llu", (unsigned long long)param->def);
    else if (param->type == VBN_PARAM_BOOL)
        fprintf(out, "%s", param->def ? "yes" : "no");
    else
        fprintf(out, "\"\"");
}

static void print_range(const struct vbn_param *param, FILE *out)
{
    if (param->type == VBN_PARAM_UINT)
        fprintf(out, "%llu to %llu%s%s", (unsigned long long)param->min,
                (unsigned long long)param->max, *param->unit ? " " : "", param->unit);
    else
        fprintf(out, "%s", param->type == VBN_PARAM_BOOL ? "yes or no" : "text");
}

static void print_param(const vbn_loader_t *loader, const struct table *table,
                        const struct vbn_param *param, FILE *out)
{
    char name[160];
    const struct given *given = loader_given(loader, full_name(table, param, name, sizeof(name)));

    fprintf(out, "%s = ", name);
    if (given)
        fprintf(out, "%s (%s)", *given->value ? given->value : "\"\"", given->origin);
    else
        print_default(param, out);
    fprintf(out, "\n    %s\n    ", param->help);
    print_range(param, out);
    fprintf(out, "; default ");
    print_default(param, out);
    fprintf(out, "\n");
}

static bool is_about(const struct table *table, const char *topic)
{
    const char *transport = loader_below(table->prefix, "transport");

    if (!topic || !strcmp(topic, "all") || !strcmp(topic, table->prefix))
        return true;
    if (!strcmp(topic, "transport"))
        return transport || !*table->prefix;
    return transport && !strcmp(topic, transport);
}

static void print_transports(vbn_loader_t *loader, FILE *out)
{
    struct candidate *candidate;

    fprintf(out, "Transports:\n");
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    {
        if (candidate->tr)
            fprintf(out, "    %s %s: %s (%s)\n", candidate->name, candidate->tr->version,
                    candidate->tr->help, candidate->path ? candidate->path : "built in");
        else
            fprintf(out, "    %s cannot be used: %s\n", candidate->name, candidate->error.text);
    }
    if (STAILQ_EMPTY(&loader->candidates))
        fprintf(out, "    none\n");
    fprintf(out, "\n");
}

/* The transport that TOPIC is, with or without the prefix of its parameters; NULL: none. */
static const struct candidate *transport_of(vbn_loader_t *loader, const char *topic)
{
    const char *bare = loader_below(topic, "transport");

    return loader_candidate(loader, bare ? bare : topic);
}

static int no_topic(vbn_loader_t *loader, const char *topic, struct vbn_error *err)
{
    struct nearest nearest;
    const struct table *table;
    const struct candidate *candidate = transport_of(loader, topic);

    if (candidate)
        return vbn_fail(err, VBN_ERR_INVALID, "command line: --mca help: %s cannot be used: %s",
                        candidate->name, candidate->error.text);
    nearest_init(&nearest, topic);
    nearest_offer(&nearest, "all");
    nearest_offer(&nearest, "transport");
    STAILQ_FOREACH(table, &loader->tables, next)
    nearest_offer(&nearest, table->prefix);
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    nearest_offer(&nearest, candidate->name);
    return vbn_fail(err, VBN_ERR_INVALID,
                    "command line: --mca help knows nothing of \"%s\"%s%s; --mca help all prints "
                    "everything",
                    topic, nearest_found(&nearest) ? "; did you mean " : "",
                    nearest_found(&nearest) ? nearest.name : "");
}

int vbn_loader_help(vbn_loader_t *loader, FILE *out, struct vbn_error *err)
{
    const char *topic = loader->help_topic;
    const struct table *table;
    struct candidate *candidate;
    bool any = false;
    int status = loader_find(loader, err);

    if (status != VBN_OK)
        return status;
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    loader_load(loader, candidate);
    if (!topic || !strcmp(topic, "all") || !strcmp(topic, "transport"))
        print_transports(loader, out);
    STAILQ_FOREACH(table, &loader->tables, next)
    {
        if (!is_about(table, topic))
            continue;
        any = true;
        for (size_t i = 0; i < table->count; i++)
            print_param(loader, table, &table->params[i], out);
    }
    return any ? VBN_OK : no_topic(loader, topic, err);
}
