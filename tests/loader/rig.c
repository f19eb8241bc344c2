/* SPDX-License-Identifier: BSD-3-Clause */
#include "rig.h"

#include <dirent.h>
#include <limits.h>
#include <unistd.h>

vbn_loader_t *loader;
struct vbn_error err;
char folder[64];
int arg_count;
char *args[32];

static char line_words[1024];

/* What whoever runs the tests has set must not count; how cmocka is to report must stay. */
static void forget_settings(void)
{
    const char *report = getenv("CMOCKA_MESSAGE_OUTPUT");
    char kept[16];

    snprintf(kept, sizeof(kept), "%s", report ? report : "");
    clearenv();
    if (*kept)
        setenv("CMOCKA_MESSAGE_OUTPUT", kept, 1);
}

int rig_setup(void **state)
{
    (void)state;
    loader = NULL;
    memset(&err, 0, sizeof(err));
    forget_settings();
    snprintf(folder, sizeof(folder), "/tmp/verbena-loader-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    setenv("VERBENA_PARAM_FILE", "", 1);
    return 0;
}

int rig_teardown(void **state)
{
    DIR *dir = opendir(folder);
    char path[PATH_MAX];

    (void)state;
    vbn_loader_destroy(loader);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(dir);
    return rmdir(folder);
}

static void copy(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t len;

    assert_non_null(in);
    assert_non_null(out);
    while ((len = fread(bytes, 1, sizeof(bytes), in)))
        assert_int_equal(fwrite(bytes, 1, len, out), len);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

void put_plugin(const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/verbena_%s.so", folder, name);
    copy(FAKES "fake.so", path);
}

void put_other(const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/verbena_%s.so", folder, name);
    copy(FAKES "fake_other.so", path);
}

void put_text(const char *file, const char *text)
{
    char path[PATH_MAX];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    out = fopen(path, "wb");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

const char *param_file(const char *text)
{
    static char path[PATH_MAX];

    put_text("params.conf", text);
    snprintf(path, sizeof(path), "%s/params.conf", folder);
    setenv("VERBENA_PARAM_FILE", path, 1);
    return path;
}

int create(const char *line)
{
    char *save = NULL;

    vbn_loader_destroy(loader);
    snprintf(line_words, sizeof(line_words), "program %s", line);
    arg_count = 0;
    for (char *word = strtok_r(line_words, " ", &save); word; word = strtok_r(NULL, " ", &save))
        args[arg_count++] = word;
    args[arg_count] = NULL;
    setenv("VERBENA_MCA_transport_path", folder, 0);
    return vbn_loader_create(&arg_count, args, &loader, &err);
}

void created(const char *line)
{
    int status = create(line);

    if (status != VBN_OK)
        fail_msg("%s: %s", line, err.text);
}

char *help_text(void)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    assert_int_equal(vbn_loader_help(loader, out, &err), VBN_OK);
    fclose(out);
    return text;
}

void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("\"%s\" is in \"%s\"", part, text);
}
