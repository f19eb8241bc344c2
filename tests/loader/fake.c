/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport plugin whose faults depend on the name of its file: the test copies it to
 * verbena_<fault>.so. Names that stand for no fault are those of good transports.
 */
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct vbn_transport *vbn_transport_plugin(void);

static char name[64];

static bool is(const char *fault)
{
    return !strcmp(name, fault);
}

static const struct vbn_param *fake_params(size_t *count)
{
    static const struct vbn_param params[] = {
        {"depth", VBN_PARAM_UINT, 0, 16, 1, 64, "requests", "how deep it is"},
        {"fast", VBN_PARAM_BOOL, 0, 1, 0, 1, "", "whether it is fast"},
        {"lane", VBN_PARAM_STRING, 0, 0, 0, 0, "", "which lane it takes"},
    };

    *count = 3;
    return params;
}

static int failure(struct vbn_error *err, const char *what)
{
    if (err) {
        err->status = VBN_ERR_DEVICE;
        snprintf(err->text, sizeof(err->text), "%s", what);
    }
    return VBN_ERR_DEVICE;
}

static int fake_query(struct vbn_error *err)
{
    return is("noquery") ? failure(err, "no such hardware") : VBN_OK;
}

static int fake_open(const struct vbn_port_config *config, vbn_port_t **port, struct vbn_error *err)
{
    struct fake_port *made;

    if (is("noopen"))
        return failure(err, "the door is locked");
    made = calloc(1, sizeof(*made));
    if (!made)
        return VBN_ERR_NO_MEMORY;
    made->rank = config->rank;
    for (size_t i = 0; i < config->setting_count; i++) {
        size_t len = strlen(made->settings);

        snprintf(made->settings + len, sizeof(made->settings) - len, "%s=%s;",
                 config->settings[i].name, config->settings[i].value);
    }
    *port = (vbn_port_t *)(void *)made;
    return VBN_OK;
}

static int fake_close(vbn_port_t *port)
{
    free(port);
    return VBN_OK;
}

/* Fills the entries that nobody calls. */
static void unused(void)
{
    abort();
}

static void fill(struct vbn_transport *tr)
{
    void (*entry)(void) = unused;

    for (size_t at = offsetof(struct vbn_transport, params); at < sizeof(*tr); at += sizeof(entry))
        memcpy((char *)tr + at, &entry, sizeof(entry));
    tr->abi = is("older") ? 0x00000007u : is("newer") ? 0x00030002u : VBN_TRANSPORT_ABI;
    tr->size = is("small") ? sizeof(*tr) - sizeof(void *) : sizeof(*tr);
    tr->name = is("misnamed") ? "other" : name;
    tr->version = "1.2.3";
    tr->help = "A fake.";
    tr->params = fake_params;
    tr->query = fake_query;
    tr->open = fake_open;
    tr->close = fake_close;
    if (is("holes"))
        tr->probe = NULL;
}

const struct vbn_transport *vbn_transport_plugin(void)
{
    static struct vbn_transport tr;
    Dl_info info;
    const char *file;

    if (!dladdr((const void *)name, &info))
        abort();
    file = strrchr(info.dli_fname, '/') + 1 + strlen("verbena_");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(file, "."), file);
    if (is("nothing"))
        return NULL;
    fill(&tr);
    return &tr;
}
