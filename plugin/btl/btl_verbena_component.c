/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: whether it takes part at all, its device, what it publishes, progress.
 *
 * Declining. A process without a usable device declines without a word, and other components carry
 * its messages. Where the user asked for verbena by name, or for a device, or gave a parameter a
 * value that it cannot have, declining would be to ignore an order: the process says why in one
 * message and ends. It ends here, with exit(), because every other way out of a BTL leads through
 * screenfuls about unreachable processes and a failed MPI_Init that hide the reason. With other
 * components named beside it (`--mca btl verbena,tcp,self`) there is a way to go on, and the
 * message is a warning.
 */
#include "btl_verbena.h"
#include "btl_verbena_param.h"

#include "hash.h"

#include "opal/mca/btl/base/btl_base_error.h"
#include "opal/util/argv.h"
#include "opal/util/basename.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELP_FILE "help-btl-verbena.txt"

/* --- messages for users --------------------------------------------------------------------- */

/*
 * Opens and locks a file which the ranks of a job on one host share for TOPIC, in the folder that
 * mpirun keeps until all of its jobs have ended: the job's own goes with the first rank that ends.
 * -1 where there is none.
 */
static int topic_lock(const char *family_folder, const char *topic)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%s/verbena.%" PRIu32, family_folder, OPAL_PROC_MY_NAME.jobid);
    mkdir(path, S_IRWXU);
    snprintf(path, sizeof(path), "%s/verbena.%" PRIu32 "/%s", family_folder,
             OPAL_PROC_MY_NAME.jobid, topic);
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0)
        flock(fd, LOCK_EX);
    return fd;
}

/* Writes TEXT unless another rank on this host has written about TOPIC. */
static void say_once(const char *topic, const char *text)
{
    const char *job_folder = opal_process_info.job_session_dir;
    char *folder = job_folder ? opal_dirname(job_folder) : NULL;
    int fd = folder ? topic_lock(folder, topic) : -1;
    struct stat file = {.st_size = 0};

    if (fd >= 0)
        fstat(fd, &file);
    /* Without its folder mpirun is ending the job, so the first to speak has spoken. */
    if (file.st_size == 0 && (fd >= 0 || !folder || access(folder, F_OK) == 0))
        fputs(text, stderr);
    if (fd >= 0) {
        dprintf(fd, "said by rank %" PRIu32 "\n", OPAL_PROC_MY_NAME.vpid);
        close(fd);
    }
    free(folder);
}

/*
 * opal_show_help() would send the text to mpirun, which shows one of many. But in 4.1 an mpirun
 * that has ranks on its own host passes such a text from one of its threads to another while it
 * frees it: one in some ten is lost, and these are messages to rely on. So one rank of each host
 * writes. The others wait for it: the first of them to exit makes mpirun end the rest.
 */
void btl_verbena_say(const char *topic, ...)
{
    va_list args;
    char *text;

    va_start(args, topic);
    text = opal_show_help_vstring(HELP_FILE, topic, true, args);
    va_end(args);
    if (text)
        say_once(topic, text);
    free(text);
}

/* --- asked for by name ---------------------------------------------------------------------- */

/* Sets *ALONE (may be NULL) to whether nothing but btl/self is named beside it. */
static bool named(bool *alone)
{
    const char *selection = opal_btl_base_framework.framework_selection;
    bool found = false, others = false;
    char **names;

    if (selection && *selection && *selection != '^') {
        names = opal_argv_split(selection, ',');
        for (char **name = names; name && *name; name++) {
            if (strcmp(*name, "verbena") == 0)
                found = true;
            else if (strcmp(*name, "self") != 0)
                others = true;
        }
        opal_argv_free(names);
    }
    if (alone)
        *alone = found && !others;
    return found;
}

bool btl_verbena_named(void)
{
    return named(NULL);
}

/* --- register, open, close ------------------------------------------------------------------ */

/* Open MPI looks for help files in its own folder; a build that is not installed has ours here. */
static void help_folder_add(void)
{
    char folder[4096];
    char *end;
    Dl_info us;

    if (!dladdr(&mca_btl_verbena_component, &us) || !us.dli_fname ||
        strlen(us.dli_fname) >= sizeof(folder))
        return;
    snprintf(folder, sizeof(folder), "%s", us.dli_fname);
    end = strrchr(folder, '/');
    if (end) {
        *end = '\0';
        opal_show_help_add_dir(folder);
    }
}

static int component_register(void)
{
    help_folder_add();
    if (!btl_verbena_host_fits()) {
        if (btl_verbena_named())
            btl_verbena_say("wrong release", BTL_VERBENA_BUILT_FOR, opal_version_string,
                            BTL_VERBENA_BUILT_FOR);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    btl_verbena_params_register(&mca_btl_verbena_component);
    return OPAL_SUCCESS;
}

/* --- the device ----------------------------------------------------------------------------- */

static void log_line(void *arg, enum vbn_log_level level, const char *text)
{
    const int verbosity = level == VBN_LOG_INFO ? 20 : 60; /* of btl_base_verbose */

    (void)arg;
    if (level <= VBN_LOG_WARN)
        opal_output(0, "verbena: %s", text);
    else
        opal_output_verbose(verbosity, opal_btl_base_framework.framework_output, "btl/verbena: %s",
                            text);
}

/* Gives the device to MODULE, and the limits that follow from it. */
static int device_open(btl_verbena_module_t *module, bool threads, struct vbn_error *error)
{
    struct vbn_options options = mca_btl_verbena_component.options;
    mca_btl_base_module_t *btl = &module->super;
    int status;

    /* Where ranks share a processor, to look into a ring takes from the one that is awaited. */
    if (!mca_btl_verbena_component.ring_peers_given && btl_verbena_sharing() > 1)
        options.ring_peers = 0;
    options.multithreaded = threads;
    options.job_key = btl_verbena_job_key(&OPAL_PROC_MY_NAME);
    options.msg_priv_size = sizeof(btl_verbena_frag_t);
    options.callback_arg = module;
    options.log = log_line;
    options.endpoint_error = btl_verbena_endpoint_error;
    status = vbn_open(&options, &module->context, error);
    if (status != VBN_OK)
        return status;

    module->attr.size = sizeof(module->attr);
    vbn_query(module->context, &module->attr);
    btl_verbena_params_fit(btl, &module->attr);
    module->burst =
        mca_btl_verbena_component.burst ? (uint32_t)mca_btl_verbena_component.burst : UINT32_MAX;
    btl_verbena_idle_init(module);
    for (unsigned tag = 0; tag < MCA_BTL_TAG_MAX; tag++)
        vbn_am_handler(module->context, (uint8_t)tag, btl_verbena_receive, module);
    btl_verbena_items_init(&module->kept_frags, sizeof(btl_verbena_frag_t),
                           OBJ_CLASS(btl_verbena_frag_t), module->attr.max_am_len, -1);
    btl_verbena_long_init(module);
    btl_verbena_coalesce_init(module);
    btl_verbena_served_init(module);
    return VBN_OK;
}

/*
 * The host's name, as a number, where the user lets a component carry messages through its memory.
 * Whether that component finds work is not asked: it depends on the order in which they begin.
 */
static uint64_t memory_id(void)
{
    mca_base_component_list_item_t *item;
    const char *host = opal_process_info.nodename;
    bool carried = false;

    OPAL_LIST_FOREACH(item, &opal_btl_base_framework.framework_components,
                      mca_base_component_list_item_t)
    {
        const char *name = item->cli_component->mca_component_name;

        carried = carried || strcmp(name, "vader") == 0 || strcmp(name, "sm") == 0;
    }
    return carried ? vbn_hash(host, host ? strlen(host) : 0) : 0;
}

static int modex_publish(const btl_verbena_module_t *module)
{
    btl_verbena_modex_t modex = {
        .magic = htonl(BTL_VERBENA_MODEX_MAGIC),
        .version = htons(BTL_VERBENA_MODEX_VERSION),
        .max_message = htonl((uint32_t)module->attr.max_am_len),
        .handle_len = htonl((uint32_t)module->super.btl_registration_handle_size),
        .neighbors = htonl(btl_verbena_neighbors()),
        .processors = htonl(btl_verbena_processors()),
        .memory = htobe64(memory_id()),
    };
    size_t address_len = sizeof(modex.address);
    int rc;

    if (vbn_address(module->context, modex.address, &address_len) != VBN_OK)
        return OPAL_ERROR;
    modex.address_len = htons((uint16_t)address_len);
    OPAL_MODEX_SEND(rc, BTL_VERBENA_MODEX_SCOPE, &mca_btl_verbena_component.super.btl_version,
                    &modex, offsetof(btl_verbena_modex_t, address) + address_len);
    return rc;
}

/* --- init and progress ---------------------------------------------------------------------- */

/* There is no usable device: see the head of this file. */
static void decline(const struct vbn_error *error)
{
    const struct vbn_options *options = &mca_btl_verbena_component.options;
    bool ordered = (options->device && *options->device) || (options->address && *options->address);
    bool alone, by_name = named(&alone);

    if (!by_name && !ordered && error->status != VBN_ERR_INVALID) {
        opal_output_verbose(10, opal_btl_base_framework.framework_output,
                            "btl/verbena: not used: %s", error->text);
        return;
    }
    btl_verbena_say("no device", opal_process_info.nodename, OPAL_PROC_MY_NAME.vpid, error->text);
    if (!by_name || alone || error->status == VBN_ERR_INVALID)
        exit(EXIT_FAILURE);
}

static void refuse_parameter(const struct vbn_error *error)
{
    /* Open MPI itself has already spoken about a value that is not a boolean. */
    if (*error->text)
        btl_verbena_say("bad parameter", opal_process_info.nodename, error->text);
    exit(EXIT_FAILURE);
}

static mca_btl_base_module_t **component_init(int *count, bool progress_threads, bool mpi_threads)
{
    btl_verbena_component_t *component = &mca_btl_verbena_component;
    struct vbn_error error = {.status = VBN_ERR_NO_MEMORY, .text = "out of memory"};
    mca_btl_base_module_t **modules = malloc(sizeof(*modules));
    btl_verbena_module_t *module = btl_verbena_module_create(&component->defaults);

    (void)progress_threads;
    *count = 0;
    if (component->bad_parameter.status != VBN_OK)
        refuse_parameter(&component->bad_parameter);
    if (!modules || !module || device_open(module, mpi_threads, &error) != VBN_OK)
        goto err_decline;
    if (btl_verbena_rcaches_create(module) != OPAL_SUCCESS ||
        modex_publish(module) != OPAL_SUCCESS) {
        error.status = VBN_ERR_DEVICE;
        snprintf(error.text, sizeof(error.text),
                 "Open MPI gave it no registration cache (component rcache/grdma), or did not "
                 "publish its address.");
        goto err_decline;
    }
    component->module = module;
    modules[0] = &module->super;
    *count = 1;
    return modules;

err_decline:
    decline(&error);
    if (module)
        btl_verbena_finalize(&module->super);
    free(modules);
    return NULL;
}

static int component_progress(void)
{
    btl_verbena_module_t *module = mca_btl_verbena_component.module;
    int done = vbn_progress(module->context);

    if (OPAL_UNLIKELY(atomic_load_explicit(&module->busy_count, memory_order_relaxed) > 0))
        done += btl_verbena_work_resume(module);
    btl_verbena_turn_end(module);
    if (OPAL_UNLIKELY(atomic_load_explicit(&module->idle.most_ms, memory_order_relaxed) > 0))
        done += btl_verbena_idle(module, done);
    return done;
}

OPAL_DECLSPEC btl_verbena_component_t mca_btl_verbena_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("verbena"),
                    .mca_register_component_params = component_register,
                },
            .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
            .btl_init = component_init,
            .btl_progress = component_progress,
        },
};
