/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's module: who its members are, its teams, and what it stands upon. */
#include "coll_verbena.h"

#include "../btl/btl_verbena.h"

#include "ompi/proc/proc.h"
#include "opal/mca/btl/base/base.h"
#include "opal/util/output.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* The largest number of a communicator: its two teams have it and VBN_TEAM_ID_MAX less it. */
#define COMM_MAX (VBN_TEAM_ID_MAX / 2)

/* --- the BTL
 * ---------------------------------------------------------------------------------------- */

static mca_btl_base_selected_module_t *btl_named(const char *name)
{
    mca_btl_base_selected_module_t *selected;

    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (!strcmp(selected->btl_component->btl_version.mca_component_name, name))
            return selected;
    }
    return NULL;
}

/* What PROC's BTL has published. False: it has none that is like ours. */
static bool member_modex(mca_btl_base_selected_module_t *btl, ompi_proc_t *proc,
                         btl_verbena_modex_t *modex)
{
    const size_t head = offsetof(btl_verbena_modex_t, address);
    void *data = NULL;
    size_t size = 0;
    bool good;
    int rc;

    OPAL_MODEX_RECV(rc, &btl->btl_component->btl_version, &proc->super.proc_name, &data, &size);
    good = rc == OPAL_SUCCESS && data && size >= head && size <= sizeof(*modex);
    if (good) {
        memset(modex, 0, sizeof(*modex));
        memcpy(modex, data, size);
        good = ntohl(modex->magic) == BTL_VERBENA_MODEX_MAGIC &&
               ntohs(modex->version) == BTL_VERBENA_MODEX_VERSION &&
               size == head + ntohs(modex->address_len);
    }
    free(data);
    return good;
}

/* What PROC's component decides by; 0: it has none, or one that does not say. */
static uint64_t member_accord(ompi_proc_t *proc)
{
    uint64_t accord = 0;
    void *data = NULL;
    size_t size = 0;
    int rc;

    OPAL_MODEX_RECV(rc, &mca_coll_verbena_component.super.collm_version, &proc->super.proc_name,
                    &data, &size);
    if (rc == OPAL_SUCCESS && data && size == sizeof(accord))
        memcpy(&accord, data, size);
    free(data);
    return be64toh(accord);
}

static void tell_discord(ompi_communicator_t *comm, int member)
{
    static const char words[] =
        "coll verbena: ranks 0 and %d of communicator %u decide differently, by parameters "
        "(`ompi_info --param coll verbena --level 9` lists them) or as builds of Verbena; its "
        "collectives are left to other components: give all ranks the same";

    if (ompi_comm_rank(comm) == 0 && !mca_coll_verbena_component.discord_told)
        opal_output(0, words, member, coll_verbena_number(comm));
    mca_coll_verbena_component.discord_told = true;
}

/* Whether all members decide alike. */
static bool members_agree(ompi_communicator_t *comm)
{
    uint64_t first = member_accord(ompi_comm_peer_lookup(comm, 0)), other = first;
    int i = 1;

    while (other == first && i < ompi_comm_size(comm))
        other = member_accord(ompi_comm_peer_lookup(comm, i++));
    if (other != first)
        tell_discord(comm, i - 1);
    return first != 0 && other == first;
}

/* The part of a processor that a member of MODEX has: its host's are shared by the ranks there. */
static double share_of(const btl_verbena_modex_t *modex)
{
    double ranks = 1.0 + ntohl(modex->neighbors), processors = ntohl(modex->processors);

    return processors < ranks ? processors / ranks : 1.0;
}

/* Whose memory each member shares, and the processors that all have. False: a member has no BTL, or
 * one that does not connect to the first one's, as it is of another job, or has other limits. */
static bool members_learn(ompi_communicator_t *comm, mca_btl_base_selected_module_t *btl,
                          uint64_t *memories, uint32_t *processors)
{
    uint32_t max_message = 0;
    uint64_t job_key = 0;
    double sum = 0;

    for (int i = 0; i < ompi_comm_size(comm); i++) {
        ompi_proc_t *proc = ompi_comm_peer_lookup(comm, i);
        uint64_t key = btl_verbena_job_key(&proc->super.proc_name);
        btl_verbena_modex_t modex;

        if (!member_modex(btl, proc, &modex))
            return false;
        if (i > 0 && (key != job_key || modex.max_message != max_message))
            return false;
        job_key = key;
        max_message = modex.max_message;
        memories[i] = modex.memory;
        sum += share_of(&modex);
    }
    *processors = sum < 1 ? 1 : (uint32_t)(sum + 0.5);
    return true;
}

/*
 * Whether MODULE is to serve COMM, and how. Every member comes to the same answer: it depends on
 * what all have published. What a member sees itself would not do: one that is alone on its node
 * has no component for shared memory.
 */
static bool members_fit(coll_verbena_module_t *module, ompi_communicator_t *comm,
                        mca_btl_base_selected_module_t *btl)
{
    const coll_verbena_component_t *component = &mca_coll_verbena_component;
    int size = ompi_comm_size(comm);
    uint64_t *memories = calloc((size_t)size, sizeof(uint64_t));
    coll_verbena_split_t *split = NULL;
    bool flat;

    if (memories && members_agree(comm) && members_learn(comm, btl, memories, &module->processors))
        split = coll_verbena_split_new(memories, size);
    free(memories);
    flat = split && (component->share || split->nodes == size);
    if (split && !flat && split->nodes > 1 && component->node_aware)
        module->split = split;
    else
        coll_verbena_split_free(split);
    return flat || module->split;
}

/* --- the teams
 * ---------------------------------------------------------------------------------------- */

static int connect_member(coll_verbena_module_t *module, mca_btl_base_selected_module_t *btl,
                          ompi_proc_t *proc, vbn_peer_t **peer, struct vbn_error *err)
{
    btl_verbena_modex_t modex;

    if (!member_modex(btl, proc, &modex))
        return VBN_ERR_UNREACHABLE;
    return module->transport->connect(module->port, modex.address, ntohs(modex.address_len), NULL,
                                      peer, err);
}

static int connect_members(coll_verbena_module_t *module, ompi_communicator_t *comm,
                           vbn_peer_t **peers, struct vbn_error *err)
{
    mca_btl_base_selected_module_t *btl = btl_named("verbena");
    int rc = btl ? VBN_OK : VBN_ERR_NO_DEVICE;

    if (rc == VBN_OK)
        rc = vbn_rc_port(((btl_verbena_module_t *)btl->btl_module)->context, &module->port);
    for (int i = 0; i < ompi_comm_size(comm) && rc == VBN_OK; i++)
        if (i != ompi_comm_rank(comm))
            rc = connect_member(module, btl, ompi_comm_peer_lookup(comm, i), &peers[i], err);
    return rc;
}

static int team_make(const coll_verbena_module_t *module, ompi_communicator_t *comm,
                     vbn_peer_t **peers, uint32_t id, vbn_team_t **team, struct vbn_error *err)
{
    struct vbn_team_options options = coll_verbena_team_options();

    options.processors = module->processors;
    return vbn_team_create(module->transport, module->port, peers, (uint32_t)ompi_comm_size(comm),
                           (uint32_t)ompi_comm_rank(comm), id, &options, team, err);
}

static int teams_make(coll_verbena_module_t *module, ompi_communicator_t *comm,
                      struct vbn_error *err)
{
    size_t size = (size_t)ompi_comm_size(comm);
    vbn_peer_t **peers = calloc(size, sizeof(vbn_peer_t *));
    uint32_t id = coll_verbena_number(comm);
    int rc;

    module->counts = calloc(4 * size, sizeof(size_t));
    rc = peers && module->counts ? connect_members(module, comm, peers, err) : VBN_ERR_NO_MEMORY;
    if (rc == VBN_OK)
        rc = team_make(module, comm, peers, id, &module->blocking, err);
    if (rc == VBN_OK)
        rc = team_make(module, comm, peers, VBN_TEAM_ID_MAX - id, &module->nonblocking, err);
    free(peers);
    return rc;
}

static void teams_end(coll_verbena_module_t *module)
{
    if (module->nonblocking)
        vbn_team_destroy(module->nonblocking);
    if (module->blocking)
        vbn_team_destroy(module->blocking);
    if (module->port)
        module->transport->close(module->port);
    free(module->counts);
    module->nonblocking = module->blocking = NULL;
    module->port = NULL;
    module->counts = NULL;
}

/* Two threads may come at once: one with a call, and one that carries an MPI_Comm_idup() on. */
bool coll_verbena_teams_make(coll_verbena_module_t *module, ompi_communicator_t *comm)
{
    struct vbn_error err = {.text = ""};
    int rc = VBN_OK;

    OPAL_THREAD_LOCK(&module->lock);
    if (!module->has_teams)
        rc = teams_make(module, comm, &err);
    if (rc == VBN_OK)
        atomic_store_explicit(&module->has_teams, true, memory_order_release);
    else
        teams_end(module);
    OPAL_THREAD_UNLOCK(&module->lock);
    if (rc)
        opal_output(0, "coll verbena: communicator %u has no team: %s", coll_verbena_number(comm),
                    *err.text ? err.text : vbn_status_str(rc));
    return rc == VBN_OK;
}

/* --- life
 * ---------------------------------------------------------------------------------------------- */

static void module_construct(coll_verbena_module_t *module)
{
    memset((char *)module + sizeof(module->super), 0, sizeof(*module) - sizeof(module->super));
    OBJ_CONSTRUCT(&module->lock, opal_mutex_t);
}

static void module_destruct(coll_verbena_module_t *module)
{
    teams_end(module);
    coll_verbena_split_free(module->split);
    OBJ_DESTRUCT(&module->lock);
}

OBJ_CLASS_INSTANCE(coll_verbena_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);

/* Open MPI keeps the modules below alive as long as the communicator: it has them in its list. */
static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    ((coll_verbena_module_t *)base)->below = *comm->c_coll;
    return OMPI_SUCCESS;
}

mca_coll_base_module_t *coll_verbena_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_btl_base_selected_module_t *btl = btl_named("verbena");
    coll_verbena_module_t *module;

    *priority = mca_coll_verbena_component.priority;
    if (!btl || *priority <= 0 || OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2 ||
        coll_verbena_number(comm) > COMM_MAX)
        return NULL;
    module = OBJ_NEW(coll_verbena_module_t);
    if (!module)
        return NULL;
    if (!members_fit(module, comm, btl)) {
        OBJ_RELEASE(module);
        return NULL;
    }
    module->transport = vbn_rc_transport();
    module->btl = btl->btl_module;
    module->super.coll_module_enable = module_enable;
    if (module->split)
        coll_verbena_node_functions(&module->super);
    else
        coll_verbena_functions(&module->super);
    return &module->super;
}
