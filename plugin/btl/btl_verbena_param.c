/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component's parameters.
 *
 * The transport's table (vbn_params) is the only place where its parameters are defined. Each
 * becomes btl_verbena_NAME. Open MPI reads the number in a text as far as it goes and takes "abc"
 * for 0; its enumerators are given the text itself. So each number here has one, which lets the
 * transport read and check the text and shows the range in ompi_info.
 *
 * eager_limit belongs to both. Open MPI registers it for every BTL: the longest message that is
 * sent without asking the receiver. The transport's is the longest message at all, and follows from
 * it: it is eager_limit or max_send_size, whichever is larger.
 */
#include "btl_verbena_param.h"

#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/base/mca_base_var_enum.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parameter of both hosts, see above, */
#define EAGER_LIMIT "eager_limit"
/* and its default here: of longer messages the receiver is asked. */
#define EAGER_DEFAULT (8 * 1024 + 64)

/* --- numbers -------------------------------------------------------------------------------- */

/* Reads one number for Open MPI. */
typedef struct number_reader {
    mca_base_var_enum_t super;
    btl_verbena_component_t *component;
    const struct vbn_param *param;
    unsigned shown; /* the value as Open MPI keeps it */
} number_reader_t;

/* The present value of a number or, as 0 or 1, of a boolean. */
static unsigned current(const btl_verbena_component_t *component, const struct vbn_param *param)
{
    const char *field = (const char *)&component->options + param->offset;

    if (param->type == VBN_PARAM_BOOL)
        return *(const bool *)field;
    return (unsigned)*(const uint64_t *)field;
}

/* The first refusal is kept, for the message that ends the process. */
static void refuse(btl_verbena_component_t *component, const struct vbn_error *error)
{
    if (component->bad_parameter.status == VBN_OK)
        component->bad_parameter = *error;
}

/* Takes TEXT for NAME. */
static void take(btl_verbena_component_t *component, const char *name, const char *text)
{
    struct vbn_error error;

    if (vbn_options_set(&component->options, name, text, &error) != VBN_OK)
        refuse(component, &error);
}

static int reader_count(mca_base_var_enum_t *self, int *count)
{
    (void)self;
    *count = 0;
    return OPAL_SUCCESS;
}

static int reader_value(mca_base_var_enum_t *self, int index, int *value, const char **text)
{
    (void)self;
    (void)index;
    (void)value;
    (void)text;
    return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
}

static int reader_take(mca_base_var_enum_t *self, const char *text, int *value)
{
    number_reader_t *reader = (number_reader_t *)self;

    take(reader->component, reader->param->name, text);
    *value = (int)current(reader->component, reader->param);
    return OPAL_SUCCESS;
}

static int reader_text(mca_base_var_enum_t *self, const int value, char **text)
{
    (void)self;
    return !text || asprintf(text, "%d", value) >= 0 ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
}

static int reader_range(BTL_VERBENA_DUMP_PARAMS)
{
    const struct vbn_param *param = ((number_reader_t *)self)->param;

    if (param->type == VBN_PARAM_BOOL)
        return asprintf(text, "0 or 1") >= 0 ? OPAL_SUCCESS : OPAL_ERR_OUT_OF_RESOURCE;
    return asprintf(text, "%" PRIu64 " to %" PRIu64 "%s%s", param->min, param->max,
                    *param->unit ? " " : "", param->unit) >= 0
               ? OPAL_SUCCESS
               : OPAL_ERR_OUT_OF_RESOURCE;
}

static void reader_construct(number_reader_t *reader)
{
    reader->super.get_count = reader_count;
    reader->super.get_value = reader_value;
    reader->super.value_from_string = reader_take;
    reader->super.string_from_value = reader_text;
    reader->super.dump = reader_range;
}

static OBJ_CLASS_INSTANCE(number_reader_t, mca_base_var_enum_t, reader_construct, NULL);

/* --- registering ---------------------------------------------------------------------------- */

static int register_one(btl_verbena_component_t *component, const char *name, const char *help,
                        mca_base_var_type_t type, mca_base_var_enum_t *reader,
                        mca_base_var_info_lvl_t level, void *storage)
{
    return mca_base_component_var_register(&component->super.btl_version, name, help, type, reader,
                                           0, 0, level, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static bool is_given(int index)
{
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    mca_base_var_get_value(index, NULL, &source, NULL);
    return source != MCA_BASE_VAR_SOURCE_DEFAULT;
}

/* Returns whether the user has given it. */
static bool register_number(btl_verbena_component_t *component, const struct vbn_param *param)
{
    number_reader_t *reader = OBJ_NEW(number_reader_t);
    int index;

    if (!reader)
        return false;
    reader->component = component;
    reader->param = param;
    reader->shown = current(component, param);
    index = register_one(component, param->name, param->help, MCA_BASE_VAR_TYPE_UNSIGNED_INT,
                         &reader->super, OPAL_INFO_LVL_5, &reader->shown);
    /* An empty text is not shown to the reader; Open MPI takes it for 0. */
    if (reader->shown != current(component, param))
        take(component, param->name, "");
    OBJ_RELEASE(reader); /* the registered variable has its own reference */
    return is_given(index);
}

static void register_transport(btl_verbena_component_t *component)
{
    size_t count;
    const struct vbn_param *params = vbn_params(&count);
    char *options = (char *)&component->options;

    for (size_t i = 0; i < count; i++) {
        const struct vbn_param *param = &params[i];
        bool given;

        /* A library of later may have more of them than the options that we were built with. */
        if (param->offset >= component->options.size || strcmp(param->name, EAGER_LIMIT) == 0)
            continue;
        if (param->type != VBN_PARAM_STRING) {
            given = register_number(component, param);
            if (strcmp(param->name, "ring_peers") == 0)
                component->ring_peers_given = given;
        } else {
            register_one(component, param->name, param->help, MCA_BASE_VAR_TYPE_STRING, NULL,
                         OPAL_INFO_LVL_4, options + param->offset);
        }
    }
}

/* --- the host's own parameters -------------------------------------------------------------- */

static const struct vbn_param *transport_param(const char *name)
{
    size_t count;
    const struct vbn_param *params = vbn_params(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(params[i].name, name) == 0)
            return &params[i];
    return NULL;
}

static void host_defaults(mca_btl_base_module_t *btl, size_t longest)
{
    btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT; /* above tcp, below self and vader */
    btl->btl_latency = 4;
    btl->btl_bandwidth = 0; /* the port's rate */
    btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_HETEROGENEOUS_RDMA |
                     MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS |
                     BTL_VERBENA_FLAGS_REMOTE_COMPLETION;
    btl->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
                            MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
                            MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_32BIT |
                            MCA_BTL_ATOMIC_SUPPORTS_CSWAP | MCA_BTL_ATOMIC_SUPPORTS_GLOB;
    btl->btl_eager_limit = EAGER_DEFAULT;
    btl->btl_rndv_eager_limit = EAGER_DEFAULT;
    btl->btl_max_send_size = longest;
    /* Used only where Open MPI does not keep registrations (opal_leave_pinned 0). */
    btl->btl_rdma_pipeline_send_length = 64 * 1024;
    btl->btl_rdma_pipeline_frag_size = 1024 * 1024;
    btl->btl_min_rdma_pipeline_size = 256 * 1024;
    /* Open MPI registers parameters of put and get only where these are set. */
    btl->btl_put = btl_verbena_put;
    btl->btl_get = btl_verbena_get;
}

/* The text that VALUE was read from, as far as Open MPI tells, in TEXT of LEN bytes. */
static const char *text_of(int index, const char *env_name, size_t value, char *text, size_t len)
{
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
    const char *env = getenv(env_name);

    mca_base_var_get_value(index, NULL, &source, NULL);
    if (env && (source == MCA_BASE_VAR_SOURCE_ENV || source == MCA_BASE_VAR_SOURCE_COMMAND_LINE))
        return env;
    snprintf(text, len, "%zu", value);
    return text;
}

/* Registers a limit of Open MPI's with our help, and reads the text it was given as PARAM does. */
static int register_limit(btl_verbena_component_t *component, const struct vbn_param *param,
                          size_t *storage)
{
    char help[512];

    snprintf(help, sizeof(help), "%s. Valid values: %" PRIu64 " to %" PRIu64 " %s", param->help,
             param->min, param->max, param->unit);
    return register_one(component, param->name, help, MCA_BASE_VAR_TYPE_SIZE_T, NULL,
                        OPAL_INFO_LVL_4, storage);
}

static void read_limit(btl_verbena_component_t *component, const struct vbn_param *param, int index,
                       size_t *storage)
{
    char env_name[64], number[24];
    struct vbn_error error;
    uint64_t value = *storage;

    snprintf(env_name, sizeof(env_name), "OMPI_MCA_btl_verbena_%s", param->name);
    if (vbn_param_number(param, text_of(index, env_name, *storage, number, sizeof(number)), &value,
                         &error) != VBN_OK)
        refuse(component, &error);
    *storage = (size_t)value;
}

/* With more of them Open MPI would count on what is not done here: with "inplace" long messages
 * lost all but their head. */
static void read_flags(btl_verbena_component_t *component, uint32_t can)
{
    uint32_t more = component->defaults.btl_flags & ~can;
    struct vbn_error error = {.status = VBN_ERR_INVALID};

    if (!more)
        return;
    snprintf(
        error.text, sizeof(error.text),
        "parameter flags: %#x cannot be done here (of MCA_BTL_FLAGS_..., in Open MPI's btl.h); "
        "leave them out: ompi_info --param btl verbena --level 9",
        more);
    refuse(component, &error);
}

static void register_host(btl_verbena_component_t *component)
{
    struct vbn_param eager = *transport_param(EAGER_LIMIT), longest = eager;
    mca_btl_base_module_t *btl = &component->defaults;
    int eager_index, longest_index;
    uint32_t flags;

    eager.help = "Longest message, Open MPI's header included, that is sent without asking the "
                 "receiver. Where it is not given and the device is software: 49216, or 131136 on "
                 "soft-iWARP, in parts of max_send_size";
    longest.name = "max_send_size";
    longest.help = "Longest message at all, at least eager_limit; the same on all ranks";
    host_defaults(btl, (size_t)longest.def);
    flags = btl->btl_flags;
    /* First with our help; the base's call finds them registered and keeps the help. */
    eager_index = register_limit(component, &eager, &btl->btl_eager_limit);
    longest_index = register_limit(component, &longest, &btl->btl_max_send_size);
    mca_btl_base_param_register(&component->super.btl_version, btl);

    read_flags(component, flags);
    read_limit(component, &eager, eager_index, &btl->btl_eager_limit);
    read_limit(component, &longest, longest_index, &btl->btl_max_send_size);
    component->eager_limit_given = is_given(eager_index);
    if (btl->btl_max_send_size < btl->btl_eager_limit)
        btl->btl_max_send_size = btl->btl_eager_limit;
    component->options.eager_limit = btl->btl_max_send_size;
}

/* A number of the component's own. Returns whether the user has given it. */
static bool register_own_number(btl_verbena_component_t *component, const struct vbn_param *param,
                                size_t *storage)
{
    int index;

    *storage = (size_t)param->def;
    index = register_limit(component, param, storage);
    read_limit(component, param, index, storage);
    return is_given(index);
}

static void register_own(btl_verbena_component_t *component)
{
    static const struct vbn_param idle_wait = {
        .name = "idle_wait",
        .type = VBN_PARAM_UINT,
        .max = 1000,
        .unit = "ms",
        .help =
            "A rank that waits sleeps, up to so long at a time, instead of polling; what comes by "
            "other BTLs may wait as long. 0: it polls. Where it is not given: 4 where ranks share "
            "the processors of a host whose device is software, and no other BTL is in use; "
            "else 0",
    };
    static const struct vbn_param registrations = {
        .name = "registrations",
        .type = VBN_PARAM_UINT,
        .def = 512,
        .min = 1,
        .max = 1048576,
        .unit = "regions",
        .help = "Registered regions of memory beyond which the one longest unused is given up "
                "for each new one",
    };
    static const struct vbn_param burst = {
        .name = "burst",
        .type = VBN_PARAM_UINT,
        .max = 1048576,
        .unit = "messages",
        .help = "Messages to one peer that leave at once, until the sender looks after the network "
                "again; those of up to 2 KiB beyond leave together then. 0: all leave at once. "
                "Where it is not given: 8 where the device is software, else 0",
    };

    component->idle_wait_given =
        register_own_number(component, &idle_wait, &component->idle_wait_ms);
    register_own_number(component, &registrations, &component->registrations_max);
    component->burst_given = register_own_number(component, &burst, &component->burst);
}

void btl_verbena_params_register(btl_verbena_component_t *component)
{
    component->bad_parameter.status = VBN_OK;
    vbn_options_init(&component->options, sizeof(component->options));
    register_transport(component);
    register_host(component);
    register_own(component);
    component->show_counters = false;
    register_one(component, "show_counters",
                 "print on stderr, at the end of each rank, what went over which device",
                 MCA_BASE_VAR_TYPE_BOOL, NULL, OPAL_INFO_LVL_5, &component->show_counters);
}

/* Messages to a peer that leave at once on a software device, see doc/trials.md. */
#define BURST 8

/* --- what the device allows ----------------------------------------------------------------- */

static size_t at_most(size_t value, uint64_t limit)
{
    return value < limit ? value : (size_t)limit;
}

void btl_verbena_params_fit(mca_btl_base_module_t *btl, const struct vbn_attr *attr)
{
    btl_verbena_component_t *component = &mca_btl_verbena_component;

    btl->btl_max_send_size = at_most(btl->btl_max_send_size, attr->max_am_len);
    btl->btl_eager_limit = at_most(btl->btl_eager_limit, attr->max_am_len);
    btl->btl_rndv_eager_limit = at_most(btl->btl_rndv_eager_limit, btl->btl_eager_limit);
    if (attr->software && !component->eager_limit_given)
        component->defaults.btl_eager_limit = btl->btl_eager_limit = btl_verbena_long_max(attr);
    if (attr->software && !component->burst_given)
        component->burst = BURST;
    btl->btl_put_limit = at_most(btl->btl_put_limit, attr->max_rma_len);
    btl->btl_get_limit = at_most(btl->btl_get_limit, attr->max_rma_len);
    if (!attr->good_reads) /* a get is a put of the peer's then */
        btl->btl_get_limit = at_most(btl->btl_get_limit, btl->btl_put_limit);
    /* ob1 takes the pipeline's size for the put's, 0 for no limit. */
    if (!btl->btl_rdma_pipeline_frag_size)
        btl->btl_rdma_pipeline_frag_size = btl->btl_put_limit;
    btl->btl_rdma_pipeline_frag_size =
        at_most(btl->btl_rdma_pipeline_frag_size, btl->btl_put_limit);
    if (!btl->btl_bandwidth)
        btl->btl_bandwidth = (uint32_t)at_most(UINT32_MAX, attr->rate_mbps);
    if (btl_verbena_osc_rdma_fits(attr->sound_reads))
        return;
    btl->btl_flags &= ~(uint32_t)(MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS);
    if (!attr->good_reads) /* ob1 lets the receiver ask for puts instead */
        btl->btl_flags &= ~(uint32_t)MCA_BTL_FLAGS_GET;
}
