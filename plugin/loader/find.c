/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which transports are installed: those built in, and files verbena_NAME.so in the search path. Of
 * two with one name the first counts. Nothing is loaded here.
 */
#include "loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FILE_PREFIX "verbena_"
#define FILE_SUFFIX ".so"

/* In libverbena; weak, as a libverbena of before it had this table can be underneath. */
#pragma weak vbn_rc_transport

struct candidate *loader_candidate(vbn_loader_t *loader, const char *name)
{
    struct candidate *candidate;

    STAILQ_FOREACH(candidate, &loader->candidates, next)
    {
        if (!strcmp(candidate->name, name))
            return candidate;
    }
    return NULL;
}

/* One name may begin like another: of those that fit the longest. */
struct candidate *loader_owner(const vbn_loader_t *loader, const char *name)
{
    const char *rest = loader_below(name, "transport");
    struct candidate *candidate, *owner = NULL;

    STAILQ_FOREACH(candidate, &loader->candidates, next)
    {
        if (loader_below(rest, candidate->name) &&
            (!owner || strlen(candidate->name) > strlen(owner->name)))
            owner = candidate;
    }
    return owner;
}

int loader_add_candidate(vbn_loader_t *loader, const char *name, const char *path,
                         const struct vbn_transport *tr, struct vbn_error *err)
{
    struct candidate *candidate;

    if (loader_candidate(loader, name))
        return VBN_OK;
    candidate = calloc(1, sizeof(*candidate));
    if (candidate) {
        candidate->name = strdup(name);
        candidate->path = path ? strdup(path) : NULL;
    }
    if (!candidate || !candidate->name || (path && !candidate->path)) {
        if (candidate)
            free(candidate->name);
        free(candidate);
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for transports");
    }
    candidate->tr = tr;
    STAILQ_INSERT_TAIL(&loader->candidates, candidate, next);
    return VBN_OK;
}

/* The transport's name in a file name, to be freed; NULL: it is no transport's. */
static char *name_of_file(const char *file)
{
    size_t len = strlen(file), around = strlen(FILE_PREFIX) + strlen(FILE_SUFFIX);

    if (len <= around || strncmp(file, FILE_PREFIX, strlen(FILE_PREFIX)) != 0 ||
        strcmp(file + len - strlen(FILE_SUFFIX), FILE_SUFFIX) != 0)
        return NULL;
    return strndup(file + strlen(FILE_PREFIX), len - around);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In the order of their names: that of the folder is chance. */
static int add_sorted(vbn_loader_t *loader, const char *folder, char **names, size_t count,
                      struct vbn_error *err)
{
    char path[PATH_MAX];
    int status = VBN_OK;

    if (count)
        qsort(names, count, sizeof(*names), by_name);
    for (size_t i = 0; i < count && status == VBN_OK; i++) {
        snprintf(path, sizeof(path), "%s/" FILE_PREFIX "%s" FILE_SUFFIX, folder, names[i]);
        status = loader_add_candidate(loader, names[i], path, NULL, err);
    }
    return status;
}

static int find_in(vbn_loader_t *loader, const char *folder, struct vbn_error *err)
{
    DIR *dir = opendir(folder);
    char **names = NULL;
    size_t count = 0;
    int status = VBN_OK;

    if (!dir)
        return VBN_OK; /* not each of the usual folders need be there */
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char *name = name_of_file(entry->d_name);
        char **more = name ? realloc(names, (count + 1) * sizeof(*names)) : NULL;

        if (name && !more) {
            free(name);
            status = vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for transports");
            break;
        }
        if (name) {
            names = more;
            names[count++] = name;
        }
    }
    closedir(dir);
    if (status == VBN_OK)
        status = add_sorted(loader, folder, names, count, err);
    while (count)
        free(names[--count]);
    free(names);
    return status;
}

/* Where this library lies, and where the build was told to install transports. */
static int find_in_usual(vbn_loader_t *loader, struct vbn_error *err)
{
    char folder[PATH_MAX];
    Dl_info info;
    int status = VBN_OK;

    if (dladdr((const void *)&loader_own_params, &info) && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');
        int len = slash ? (int)(slash - info.dli_fname) : 1;
        const char *beside = slash ? info.dli_fname : ".";

        snprintf(folder, sizeof(folder), "%.*s/verbena", len, beside);
        status = find_in(loader, folder, err);
        snprintf(folder, sizeof(folder), "%.*s", len, beside);
        if (status == VBN_OK)
            status = find_in(loader, folder, err);
    }
    return status == VBN_OK ? find_in(loader, VBN_PLUGIN_FOLDER, err) : status;
}

int loader_find(vbn_loader_t *loader, struct vbn_error *err)
{
    const char *path = vbn_loader_value(loader, "transport_path");
    int status = VBN_OK;

    if (loader->found)
        return VBN_OK;
    if (vbn_rc_transport)
        status = loader_add_candidate(loader, "rc", NULL, vbn_rc_transport(), err);
    if (!path)
        path = "";
    while (status == VBN_OK) {
        char folder[PATH_MAX];
        size_t len = strcspn(path, ":");

        snprintf(folder, sizeof(folder), "%.*s", (int)len, path);
        status = len ? find_in(loader, folder, err) : find_in_usual(loader, err);
        if (!path[len])
            break;
        path += len + 1;
    }
    loader->found = status == VBN_OK;
    return status;
}
