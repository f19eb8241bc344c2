/* SPDX-License-Identifier: BSD-3-Clause */
/* A loader's life, and the judging of all that was given to it. */
#include "loader.h"

#include <stdlib.h>
#include <string.h>

static int take_all(vbn_loader_t *loader, int *argc, char **argv, struct vbn_error *err)
{
    int status = loader_add_table(loader, "", loader_own_params, loader_own_param_count, err);

    if (status == VBN_OK)
        status = loader_take_file(loader, err);
    if (status == VBN_OK)
        status = loader_take_environment(loader, err);
    if (status == VBN_OK && argc && argv)
        status = loader_take_arguments(loader, argc, argv, err);
    return status;
}

int vbn_loader_create(int *argc, char **argv, vbn_loader_t **loader, struct vbn_error *err)
{
    vbn_loader_t *made = calloc(1, sizeof(*made));
    int status;

    *loader = NULL;
    if (!made)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for the loader");
    STAILQ_INIT(&made->given);
    STAILQ_INIT(&made->tables);
    STAILQ_INIT(&made->candidates);
    status = take_all(made, argc, argv, err);
    if (status != VBN_OK) {
        vbn_loader_destroy(made);
        return status;
    }
    *loader = made;
    return VBN_OK;
}

static void free_given(vbn_loader_t *loader)
{
    struct given *given;

    while ((given = STAILQ_FIRST(&loader->given))) {
        STAILQ_REMOVE_HEAD(&loader->given, next);
        free(given->name);
        free(given->value);
        free(given->origin);
        free(given);
    }
}

void vbn_loader_destroy(vbn_loader_t *loader)
{
    struct table *table;
    struct candidate *candidate;

    if (!loader)
        return;
    free_given(loader);
    while ((table = STAILQ_FIRST(&loader->tables))) {
        STAILQ_REMOVE_HEAD(&loader->tables, next);
        free(table->prefix);
        free(table);
    }
    while ((candidate = STAILQ_FIRST(&loader->candidates))) {
        STAILQ_REMOVE_HEAD(&loader->candidates, next);
        free(candidate->name);
        free(candidate->path);
        free(candidate);
    }
    free(loader->help_topic);
    free(loader);
}

/* --- judging ---------------------------------------------------------------------------------- */

static void offer_table(struct nearest *nearest, const struct table *table)
{
    char name[160];

    for (size_t i = 0; i < table->count; i++) {
        snprintf(name, sizeof(name), "%s%s%s", table->prefix, *table->prefix ? "_" : "",
                 table->params[i].name);
        nearest_offer(nearest, name);
    }
}

static int unknown(vbn_loader_t *loader, const struct given *given, struct vbn_error *err)
{
    struct nearest nearest;
    struct candidate *candidate;
    const struct table *table;

    nearest_init(&nearest, given->name);
    STAILQ_FOREACH(candidate, &loader->candidates, next)
    loader_load(loader, candidate);
    STAILQ_FOREACH(table, &loader->tables, next)
    offer_table(&nearest, table);
    return vbn_fail(err, VBN_ERR_INVALID,
                    "%s: there is no parameter \"%s\"%s%s; --mca help all lists what there is",
                    given->origin, given->name, nearest_found(&nearest) ? "; did you mean " : "",
                    nearest_found(&nearest) ? nearest.name : "");
}

static int check_given(vbn_loader_t *loader, const struct given *given, struct vbn_error *err)
{
    struct candidate *owner = loader_owner(loader, given->name);
    const struct vbn_param *param;
    struct vbn_error why;

    /* What a transport that cannot be loaded would say to its parameters, nobody knows. */
    if (owner && loader_load(loader, owner) != VBN_OK)
        return VBN_OK;
    param = loader_param(loader, given->name);
    if (!param)
        return unknown(loader, given, err);
    if (loader_given(loader, given->name) == given &&
        loader_check_value(param, given->name, given->value, &why) != VBN_OK)
        return vbn_fail(err, VBN_ERR_INVALID, "%s: %s", given->origin, why.text);
    return VBN_OK;
}

int vbn_loader_check(vbn_loader_t *loader, struct vbn_error *err)
{
    const struct given *given;
    int status;

    if (loader->help_topic)
        return VBN_LOADER_HELP;
    status = loader_find(loader, err);
    STAILQ_FOREACH(given, &loader->given, next)
    {
        if (status == VBN_OK)
            status = check_given(loader, given, err);
    }
    return status;
}
