/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter file: lines `name = value`. A `#` at the start of a line or after a blank begins a
 * comment.
 */
#include "loader.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_FILE ".verbena/params.conf" /* below $HOME */

static char *trim(char *text)
{
    size_t len;

    while (isspace((unsigned char)*text))
        text++;
    for (len = strlen(text); len && isspace((unsigned char)text[len - 1]); len--)
        text[len - 1] = '\0';
    return text;
}

static void cut_comment(char *line)
{
    for (char *hash = strchr(line, '#'); hash; hash = strchr(hash + 1, '#')) {
        if (hash == line || isspace((unsigned char)hash[-1])) {
            *hash = '\0';
            return;
        }
    }
}

static bool good_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    return *name != '\0';
}

static int take_line(vbn_loader_t *loader, const char *origin, char *line, size_t len,
                     struct vbn_error *err)
{
    bool binary = strlen(line) != len;
    char *equals;

    cut_comment(line);
    line = trim(line);
    if (!*line && !binary)
        return VBN_OK;
    equals = strchr(line, '=');
    if (equals)
        *equals = '\0';
    if (binary || !equals || !good_name(trim(line)))
        return vbn_fail(err, VBN_ERR_INVALID, "%s: not a line of the form \"name = value\"",
                        origin);
    return loader_give(loader, GIVEN_BY_FILE, origin, trim(line), trim(equals + 1), err);
}

static int take_lines(vbn_loader_t *loader, const char *path, FILE *file, struct vbn_error *err)
{
    char *line = NULL, origin[PATH_MAX + 16];
    size_t room = 0;
    ssize_t len;
    int status = VBN_OK;

    for (unsigned number = 1; status == VBN_OK; number++) {
        errno = 0;
        len = getline(&line, &room, file);
        if (len < 0)
            break;
        snprintf(origin, sizeof(origin), "%s:%u", path, number);
        status = take_line(loader, origin, line, (size_t)len, err);
    }
    if (status == VBN_OK && ferror(file))
        status = vbn_fail(err, VBN_ERR_INVALID, "parameter file %s cannot be read: %s", path,
                          strerror(errno));
    free(line);
    return status;
}

int loader_take_file(vbn_loader_t *loader, struct vbn_error *err)
{
    const char *named = getenv("VERBENA_PARAM_FILE"), *home = getenv("HOME");
    char path[PATH_MAX];
    FILE *file;
    int status;

    if (named)
        snprintf(path, sizeof(path), "%s", named);
    else
        snprintf(path, sizeof(path), "%s/" USUAL_FILE, home ? home : "");
    if (named ? !*named : !home)
        return VBN_OK;
    file = fopen(path, "re");
    if (!file) {
        if (!named && (errno == ENOENT || errno == ENOTDIR))
            return VBN_OK;
        return vbn_fail(err, VBN_ERR_INVALID, "parameter file %s%s cannot be read: %s", path,
                        named ? " (of VERBENA_PARAM_FILE)" : "", strerror(errno));
    }
    status = take_lines(loader, path, file, err);
    fclose(file);
    return status;
}
