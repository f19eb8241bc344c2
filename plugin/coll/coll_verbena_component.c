/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The component: its parameters, and for which communicators it stands ready.
 *
 * A communicator is ours where every member runs the BTL `verbena`, and all connect by it. Members
 * who share a host have their messages carried through its memory by other components, and ours
 * would send them by the device. So where some share a host and some do not, blocking collectives
 * are put together of both (coll_verbena_node.c) and all else is left to the components below;
 * where all are on one host, ours stands back. If no component for shared memory is there, or
 * `coll_verbena_share` is set, hosts do not matter.
 */
#include "coll_verbena.h"

#include "../btl/btl_verbena.h"
#include "hash.h"

#include "ompi/proc/proc.h"
#include "opal/mca/btl/base/base.h"
#include "opal/util/output.h"

#include <endian.h>
#include <string.h>

/* Raised with each change of what ranks send each other for a call, or when: those of different
 * builds know by it. */
#define PROTOCOL 2u

static int register_params(void);
static int component_open(void);
static int component_close(void);

/* MPI's types are there now, as in Open MPI 5 they are not yet when components are opened. */
static int init_query(bool progress_threads, bool mpi_threads)
{
    (void)progress_threads;
    (void)mpi_threads;
    coll_verbena_types_init();
    return OMPI_SUCCESS;
}

/* The interface of the release built for. */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define COLL_INTERFACE MCA_COLL_BASE_VERSION_2_4_0
#else
#define COLL_INTERFACE MCA_COLL_BASE_VERSION_2_0_0
#endif

OMPI_DECLSPEC coll_verbena_component_t mca_coll_verbena_component = {
    .super =
        {
            .collm_version =
                {
                    COLL_INTERFACE,
                    .mca_component_name = "verbena",
                    .mca_component_major_version = OMPI_MAJOR_VERSION,
                    .mca_component_minor_version = OMPI_MINOR_VERSION,
                    .mca_component_release_version = OMPI_RELEASE_VERSION,
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = register_params,
                },
            .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .collm_init_query = init_query,
            .collm_comm_query = coll_verbena_comm_query,
        },
};

static void register_one(const char *name, const char *help, mca_base_var_type_t type,
                         void *storage)
{
    mca_base_component_var_register(&mca_coll_verbena_component.super.collm_version, name, help,
                                    type, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY,
                                    storage);
}

static int register_params(void)
{
    coll_verbena_component_t *c = &mca_coll_verbena_component;

    c->priority = 90;
    register_one("priority", "priority among the collectives components; 0 is never",
                 MCA_BASE_VAR_TYPE_INT, &c->priority);
    c->share = false;
    register_one("share", "serve communicators whose ranks share a host's memory too",
                 MCA_BASE_VAR_TYPE_BOOL, &c->share);
    c->node_aware = true;
    register_one("node_aware",
                 "serve communicators of several hosts whose ranks share them: through memory in "
                 "each, by the device between one rank of each",
                 MCA_BASE_VAR_TYPE_BOOL, &c->node_aware);
    c->check = false;
    register_one("check",
                 "compare the ranks' calls before each collective, and end those that differ with "
                 "an error that names them",
                 MCA_BASE_VAR_TYPE_BOOL, &c->check);
    c->stall_report_s = 0;
    register_one("stall_report",
                 "seconds without a step after which a collective that is waited for is reported, "
                 "with what it waits for; 0 is 30 with coll_verbena_check and never without",
                 MCA_BASE_VAR_TYPE_UNSIGNED_INT, &c->stall_report_s);
    c->group = false;
    register_one("group",
                 "send to all ranks of a communicator at once, by multicast, where all can",
                 MCA_BASE_VAR_TYPE_BOOL, &c->group);
    register_one("rules",
                 "algorithms to be used, as OPERATION=ALGORITHM[/PARAM][:FROM-TO][@RANKS-RANKS]",
                 MCA_BASE_VAR_TYPE_STRING, &c->rules);
    register_one("rules_file", "a file of such rules", MCA_BASE_VAR_TYPE_STRING, &c->rules_file);
    return OMPI_SUCCESS;
}

const char *coll_verbena_remedy(const char *text)
{
    return strstr(text, "option `check`") ? " (in Open MPI: --mca coll_verbena_check 1)" : "";
}

static void log_line(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg;
    if (level <= VBN_LOG_WARN)
        opal_output(0, "coll verbena: %s%s", text, coll_verbena_remedy(text));
    else
        opal_output_verbose(level == VBN_LOG_INFO ? 20 : 60,
                            ompi_coll_base_framework.framework_output, "coll verbena: %s", text);
}

struct vbn_team_options coll_verbena_team_options(void)
{
    const coll_verbena_component_t *c = &mca_coll_verbena_component;
    struct vbn_team_options options;

    vbn_team_options_init(&options, sizeof(options));
    options.rules = c->rules;
    options.rules_file = c->rules_file && *c->rules_file ? c->rules_file : NULL;
    options.check = c->check;
    if (c->stall_report_s || !c->check) /* who is late for long is no error in MPI */
        options.stall_report_ms = 1000 * (uint64_t)c->stall_report_s;
    options.log = log_line;
    options.group = c->group;
    return options;
}

/*
 * What this process decides by, beside what MPI wants to be the same everywhere: ranks for which it
 * differs would wait for one another in different algorithms. Rules that cannot be read are told of
 * when a team is made.
 */
static int publish_accord(void)
{
    const coll_verbena_component_t *c = &mca_coll_verbena_component;
    struct vbn_team_options options = coll_verbena_team_options();
    uint64_t accord = 0;
    int rc;

    vbn_team_accord(&options, &accord, NULL);
    accord = vbn_hash_word(accord, (uint64_t)c->priority);
    accord = htobe64(vbn_hash_word(accord, c->share + 2u * c->node_aware + 4u * PROTOCOL));
    OPAL_MODEX_SEND(rc, BTL_VERBENA_MODEX_SCOPE, &c->super.collm_version, &accord, sizeof(accord));
    return rc;
}

static bool host_fits(void)
{
    if (!btl_verbena_host_fits()) /* the BTL says so */
        return false;
    if (btl_verbena_coll_fits())
        return true;
    opal_output(0,
                "coll verbena: built for Open MPI %d.%d.%d, whose modules are not those of %s: its "
                "collectives are left out; build Verbena again",
                OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION, OPAL_RELEASE_VERSION, opal_version_string);
    return false;
}

static int component_open(void)
{
    if (!host_fits() || publish_accord() != OPAL_SUCCESS)
        return OMPI_ERR_NOT_AVAILABLE;
    OBJ_CONSTRUCT(&mca_coll_verbena_component.lock, opal_mutex_t);
    OBJ_CONSTRUCT(&mca_coll_verbena_component.pending, opal_list_t);
    return OMPI_SUCCESS;
}

static int component_close(void)
{
    coll_verbena_call_fini();
    return OMPI_SUCCESS;
}
