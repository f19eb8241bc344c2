/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameters that there are, by table, and the judging of values. */
#include "loader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct vbn_param loader_own_params[] = {
    {"transport", VBN_PARAM_STRING, 0, 0, 0, 0, "",
     "transports to try, in this order (rc,ucx), or all but some (^ucx); empty for rc, ucx and then "
     "any other that is installed"},
    {"transport_path", VBN_PARAM_STRING, 0, 0, 0, 0, "",
     "folders with transports, separated by colons; an empty one stands for the usual folders"},
    {"transport_verbose", VBN_PARAM_UINT, 0, 1, 0, 2, "",
     "what is told of the choice: 0 nothing, 1 if the first could not be taken, 2 always"},
};
const size_t loader_own_param_count = sizeof(loader_own_params) / sizeof(loader_own_params[0]);

const char *loader_below(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    if (!len || !name)
        return name;
    return !strncmp(name, prefix, len) && name[len] == '_' ? name + len + 1 : NULL;
}

int loader_add_table(vbn_loader_t *loader, const char *prefix, const struct vbn_param *params,
                     size_t count, struct vbn_error *err)
{
    struct table *table = calloc(1, sizeof(*table));

    if (!table || !(table->prefix = strdup(prefix))) {
        free(table);
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for parameters");
    }
    table->params = params;
    table->count = count;
    STAILQ_INSERT_TAIL(&loader->tables, table, next);
    return VBN_OK;
}

int vbn_loader_add_params(vbn_loader_t *loader, const char *prefix, const struct vbn_param *params,
                          size_t count, struct vbn_error *err)
{
    const struct table *table;

    if (!loader || !prefix || !*prefix || (!params && count))
        return vbn_fail(err, VBN_ERR_INVALID, "parameters need a prefix and a table");
    STAILQ_FOREACH(table, &loader->tables, next)
    {
        if (!strcmp(table->prefix, prefix))
            return vbn_fail(err, VBN_ERR_INVALID, "there are parameters %s_… already", prefix);
    }
    return loader_add_table(loader, prefix, params, count, err);
}

const struct vbn_param *loader_param(const vbn_loader_t *loader, const char *name)
{
    const struct table *table;

    STAILQ_FOREACH(table, &loader->tables, next)
    {
        const char *bare = loader_below(name, table->prefix);

        for (size_t i = 0; bare && i < table->count; i++)
            if (!strcmp(table->params[i].name, bare))
                return &table->params[i];
    }
    return NULL;
}

static bool is_boolean(const char *text)
{
    static const char *const words[] = {"1", "true", "yes", "on", "0", "false", "no", "off"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcasecmp(text, words[i]))
            return true;
    return false;
}

int loader_check_value(const struct vbn_param *param, const char *name, const char *text,
                       struct vbn_error *err)
{
    struct vbn_param in_full = *param;
    uint64_t number;

    in_full.name = name;
    if (param->type == VBN_PARAM_UINT)
        return vbn_param_number(&in_full, text, &number, err);
    if (param->type == VBN_PARAM_BOOL && !is_boolean(text))
        return vbn_fail(
            err, VBN_ERR_INVALID,
            "parameter %s: \"%s\" is not a boolean; give 1, 0, true, false, yes, no, on "
            "or off",
            name, text);
    return VBN_OK;
}

uint64_t loader_own_number(const vbn_loader_t *loader, const char *name)
{
    const struct vbn_param *param = loader_param(loader, name);
    const char *text = vbn_loader_value(loader, name);
    uint64_t number = param->def;

    if (text)
        vbn_param_number(param, text, &number, NULL); /* checked before */
    return number;
}
