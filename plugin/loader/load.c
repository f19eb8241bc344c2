/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading a transport's shared object, and judging the table in it before anything is called. */
#include "loader.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define ABI_MAJOR(abi) ((unsigned)(abi) >> 16)
#define ABI_MINOR(abi) ((unsigned)(abi)&0xffffu)

/* No entry that every transport has may be empty: hosts call them without asking. */
static bool is_complete(const struct vbn_transport *tr)
{
    const char *entries = (const char *)tr;
    void (*entry)(void);

    for (size_t at = offsetof(struct vbn_transport, params); at < VBN_TRANSPORT_SIZE_MIN;
         at += sizeof(entry)) {
        memcpy(&entry, entries + at, sizeof(entry));
        if (!entry)
            return false;
    }
    return true;
}

static int judge(const struct candidate *candidate, const struct vbn_transport *tr,
                 struct vbn_error *err)
{
    if (!tr)
        return vbn_fail(err, VBN_ERR_NO_DEVICE, "%s gives no table", candidate->path);
    if (ABI_MAJOR(tr->abi) != ABI_MAJOR(VBN_TRANSPORT_ABI))
        return vbn_fail(err, VBN_ERR_NO_DEVICE,
                        "%s was built for version %u.%u of the transport table, this program for "
                        "%u.%u; install the two from one release",
                        candidate->path, ABI_MAJOR(tr->abi), ABI_MINOR(tr->abi),
                        ABI_MAJOR(VBN_TRANSPORT_ABI), ABI_MINOR(VBN_TRANSPORT_ABI));
    if (tr->size < VBN_TRANSPORT_SIZE_MIN)
        return vbn_fail(
            err, VBN_ERR_NO_DEVICE,
            "%s has a table of %u bytes (version %u.%u), this program needs %zu (%u.%u); "
            "install a newer one",
            candidate->path, tr->size, ABI_MAJOR(tr->abi), ABI_MINOR(tr->abi),
            VBN_TRANSPORT_SIZE_MIN, ABI_MAJOR(VBN_TRANSPORT_ABI), ABI_MINOR(VBN_TRANSPORT_ABI));
    if (!tr->name || strcmp(tr->name, candidate->name) != 0)
        return vbn_fail(err, VBN_ERR_NO_DEVICE,
                        "%s calls its transport \"%s\"; its file must be named after it",
                        candidate->path, tr->name ? tr->name : "");
    if (!is_complete(tr))
        return vbn_fail(err, VBN_ERR_NO_DEVICE, "%s leaves entries of its table empty",
                        candidate->path);
    return VBN_OK;
}

static int load_object(struct candidate *candidate)
{
    struct vbn_error *err = &candidate->error;
    vbn_transport_plugin_fn plugin;
    const struct vbn_transport *tr;
    void *object = dlopen(candidate->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!object)
        return vbn_fail(err, VBN_ERR_NO_DEVICE, "it does not load: %s", dlerror());
    *(void **)&plugin = dlsym(object, VBN_TRANSPORT_SYMBOL);
    if (!plugin) {
        dlclose(object);
        return vbn_fail(err, VBN_ERR_NO_DEVICE, "%s does not export " VBN_TRANSPORT_SYMBOL "()",
                        candidate->path);
    }
    tr = plugin();
    dlclose(object); /* it stays loaded all the same; only our reference goes */
    if (judge(candidate, tr, err) != VBN_OK)
        return err->status;
    candidate->tr = tr;
    return VBN_OK;
}

int loader_load(vbn_loader_t *loader, struct candidate *candidate)
{
    char prefix[96];
    const struct vbn_param *params;
    const struct table *table;
    size_t count;

    if (candidate->error.status != VBN_OK)
        return candidate->error.status;
    if (!candidate->tr && load_object(candidate) != VBN_OK)
        return candidate->error.status;
    snprintf(prefix, sizeof(prefix), "transport_%s", candidate->name);
    STAILQ_FOREACH(table, &loader->tables, next)
    {
        if (!strcmp(table->prefix, prefix))
            return VBN_OK;
    }
    params = candidate->tr->params(&count);
    return loader_add_table(loader, prefix, params, count, &candidate->error);
}
