/* SPDX-License-Identifier: BSD-3-Clause */
/* The values that somebody gave, and the taking of them from the command line and environment. */
#include "loader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_PREFIX "VERBENA_MCA_"

static void free_given(struct given *given)
{
    free(given->name);
    free(given->value);
    free(given->origin);
    free(given);
}

int loader_give(vbn_loader_t *loader, enum giver giver, const char *origin, const char *name,
                const char *value, struct vbn_error *err)
{
    struct given *given = calloc(1, sizeof(*given));

    if (!given)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for parameters");
    given->giver = giver;
    given->name = strdup(name);
    given->value = strdup(value);
    given->origin = strdup(origin);
    if (!given->name || !given->value || !given->origin) {
        free_given(given);
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for parameters");
    }
    STAILQ_INSERT_TAIL(&loader->given, given, next);
    return VBN_OK;
}

const struct given *loader_given(const vbn_loader_t *loader, const char *name)
{
    const struct given *given, *best = NULL;

    STAILQ_FOREACH(given, &loader->given, next)
    {
        if (!strcmp(given->name, name) && (!best || given->giver >= best->giver))
            best = given;
    }
    return best;
}

const char *vbn_loader_value(const vbn_loader_t *loader, const char *name)
{
    const struct given *given = loader_given(loader, name);

    return given ? given->value : NULL;
}

int vbn_loader_set(vbn_loader_t *loader, const char *name, const char *value, struct vbn_error *err)
{
    return loader_give(loader, GIVEN_BY_PROGRAM, "program", name, value, err);
}

/* The bare name of NAME below PREFIX; NULL: it is not there, or that of a transport whose longer
 * name begins with this one's. */
static const char *bare_name(const vbn_loader_t *loader, const char *name, const char *prefix)
{
    const char *transport = loader_below(prefix, "transport");
    const struct candidate *owner = transport ? loader_owner(loader, name) : NULL;

    return owner && strcmp(owner->name, transport) != 0 ? NULL : loader_below(name, prefix);
}

int vbn_loader_settings(const vbn_loader_t *loader, const char *prefix,
                        struct vbn_setting **settings, size_t *count)
{
    const struct given *given;
    size_t room = 1;

    *count = 0;
    STAILQ_FOREACH(given, &loader->given, next)
    room++;
    *settings = calloc(room, sizeof(**settings));
    if (!*settings)
        return VBN_ERR_NO_MEMORY;
    STAILQ_FOREACH(given, &loader->given, next)
    {
        const char *bare = bare_name(loader, given->name, prefix);

        if (bare && loader_given(loader, given->name) == given)
            (*settings)[(*count)++] = (struct vbn_setting){bare, given->value};
    }
    return VBN_OK;
}

/* --- command line ----------------------------------------------------------------------------- */

static int take_argument(vbn_loader_t *loader, const char *name, const char *value,
                         struct vbn_error *err)
{
    if (strcmp(name, "help") != 0)
        return loader_give(loader, GIVEN_BY_COMMAND_LINE, "command line", name, value, err);
    free(loader->help_topic);
    loader->help_topic = strdup(value);
    if (!loader->help_topic)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for parameters");
    return VBN_OK;
}

static int incomplete(int left, char **argv, struct vbn_error *err)
{
    if (left == 1)
        return vbn_fail(err, VBN_ERR_INVALID,
                        "command line: --mca needs a name and a value; --mca help all lists them");
    return vbn_fail(err, VBN_ERR_INVALID, "command line: --mca %s needs a value", argv[1]);
}

int loader_take_arguments(vbn_loader_t *loader, int *argc, char **argv, struct vbn_error *err)
{
    int kept = 0, i = 0;

    while (i < *argc && strcmp(argv[i], "--") != 0) {
        int status;

        if (i == 0 || strcmp(argv[i], "--mca") != 0) {
            argv[kept++] = argv[i++];
            continue;
        }
        if (*argc - i < 3)
            return incomplete(*argc - i, argv + i, err);
        status = take_argument(loader, argv[i + 1], argv[i + 2], err);
        if (status != VBN_OK)
            return status;
        i += 3;
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    argv[kept] = NULL;
    *argc = kept;
    return VBN_OK;
}

/* --- environment ------------------------------------------------------------------------------ */

int loader_take_environment(vbn_loader_t *loader, struct vbn_error *err)
{
    for (char **variable = environ; variable && *variable; variable++) {
        const char *name = *variable + strlen(ENVIRONMENT_PREFIX);
        const char *equals = strchr(*variable, '=');
        char *bare, origin[160];
        int status;

        if (strncmp(*variable, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0 || !equals)
            continue;
        bare = strndup(name, (size_t)(equals - name));
        if (!bare)
            return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for parameters");
        snprintf(origin, sizeof(origin), "environment variable " ENVIRONMENT_PREFIX "%s", bare);
        status = loader_give(loader, GIVEN_BY_ENVIRONMENT, origin, bare, equals + 1, err);
        free(bare);
        if (status != VBN_OK)
            return status;
    }
    return VBN_OK;
}
