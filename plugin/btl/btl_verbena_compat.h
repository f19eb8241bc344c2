/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All that depends on the release of Open MPI, 4.1 or 5.0, that this component is built for: where
 * its headers are, how a received message is handed up, and the guard that keeps the component out
 * of a runtime whose structures it does not know. Nothing else in this folder asks for a version.
 */
#ifndef BTL_VERBENA_COMPAT_H
#define BTL_VERBENA_COMPAT_H

#include "opal_config.h"
#include "opal/version.h"

#include "opal/mca/btl/btl.h"
#include "opal/runtime/opal.h"

#include "verbena.h"

#include <stdlib.h>
#include <string.h>

#if OPAL_MAJOR_VERSION == 4 && OPAL_MINOR_VERSION == 1

#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"

/* Who may read what a process publishes; the type of a number in it. */
#define BTL_VERBENA_MODEX_SCOPE OPAL_PMIX_GLOBAL
#define BTL_VERBENA_MODEX_U32   OPAL_UINT32

/* What the runtime knows of a job. */
#define BTL_VERBENA_JOB_NODES OPAL_PMIX_NUM_NODES
#define BTL_VERBENA_JOB_RANKS OPAL_PMIX_JOB_SIZE

/* A get, a put or an atomic operation that is said to be over has been done in the peer's memory;
 * this release has no flag for that. */
#define BTL_VERBENA_FLAGS_REMOTE_COMPLETION 0

/* What is handed up of a message. */
typedef mca_btl_base_descriptor_t btl_verbena_arrival_t;

/* Of a function that tells, as *TEXT, which values a parameter can have. */
#define BTL_VERBENA_DUMP_PARAMS mca_base_var_enum_t *self, char **text

#elif OPAL_MAJOR_VERSION == 5 && OPAL_MINOR_VERSION == 0

#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"

#define BTL_VERBENA_MODEX_SCOPE             PMIX_GLOBAL
#define BTL_VERBENA_MODEX_U32               PMIX_UINT32
#define BTL_VERBENA_JOB_NODES               PMIX_NUM_NODES
#define BTL_VERBENA_JOB_RANKS               PMIX_JOB_SIZE
#define BTL_VERBENA_FLAGS_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

#define BTL_VERBENA_DUMP_PARAMS                                                                    \
    mca_base_var_enum_t *self, char **text,                                                        \
        __attribute__((unused)) mca_base_var_enum_dump_type_t kind

typedef mca_btl_base_receive_descriptor_t btl_verbena_arrival_t;

#else
#error "this component is written for Open MPI 4.1 and 5.0"
#endif

#define BTL_VERBENA_STRING_OF(x) #x
#define BTL_VERBENA_SERIES(major, minor)                                                           \
    BTL_VERBENA_STRING_OF(major) "." BTL_VERBENA_STRING_OF(minor)

/* The series of Open MPI that this component was built for, as text. */
#define BTL_VERBENA_BUILT_FOR BTL_VERBENA_SERIES(OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION)

/*
 * True when the running Open MPI is of the series built for. The loader itself does not look: it
 * would hand our structures to a runtime that lays them out otherwise.
 */
static inline bool btl_verbena_host_fits(void)
{
    char *end;
    long major = strtol(opal_version_string, &end, 10), minor = -1;

    if (*end == '.')
        minor = strtol(end + 1, NULL, 10);
    return major == OPAL_MAJOR_VERSION && minor == OPAL_MINOR_VERSION;
}

/* The last number of the running Open MPI's version. */
static inline long btl_verbena_release(void)
{
    const char *release = strrchr(opal_version_string, '.');

    return release ? strtol(release + 1, NULL, 10) : 0;
}

/* True when modules of collectives are in the running Open MPI, of the series built for, what they
 * were there: 5.0.10 made them longer, and left the version of their interface as it was. */
static inline bool btl_verbena_coll_fits(void)
{
    return OPAL_MAJOR_VERSION == 4 || (btl_verbena_release() >= 10) == (OPAL_RELEASE_VERSION >= 10);
}

/* What the runtime knows of this process's job by one of BTL_VERBENA_JOB_…; 0: nothing. */
static inline uint32_t btl_verbena_job_has(const char *what)
{
    opal_process_name_t job = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = OPAL_VPID_WILDCARD};
    uint32_t count = 0, *at = &count;
    int rc;

    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, what, &job, (void **)&at, BTL_VERBENA_MODEX_U32);
    return rc == OPAL_SUCCESS ? count : 0;
}

/* Whether the user has named osc/rdma, as in `mpirun --mca osc rdma`. The framework of osc is
 * opened after BTLs are, so its parameter is not known yet but by what mpirun makes of it. */
static inline bool btl_verbena_osc_rdma_named(void)
{
    const char *names = getenv("OMPI_MCA_osc");

    return names && *names != '^' && strstr(names, "rdma");
}

/*
 * Whether osc/rdma is to find here what it needs. Before 4.1.5 it hung in windows with memory
 * attached later, and looked for what a peer had told of itself on a wrong node where ranks are not
 * evenly many on three nodes or more (Open MPI's pull request 6413); both only with ranks on
 * several nodes. And where the device's reads are not sound, ob1 would use the gets made of
 * messages, too, which cost it one message more than puts. In both cases it must be asked for; but
 * not of Open MPI 5, which has nothing else that carries one-sided communication by BTLs.
 */
static inline bool btl_verbena_osc_rdma_fits(bool sound_reads)
{
    bool mended = btl_verbena_release() >= 5;

    return OPAL_MAJOR_VERSION > 4 || btl_verbena_osc_rdma_named() ||
           (sound_reads && (mended || btl_verbena_job_has(BTL_VERBENA_JOB_NODES) == 1));
}

/* Gives PEER's endpoint here, which is made where Open MPI has not asked for it; NULL where it is
 * of another job. Takes long then: it makes those of others, too. Open MPI 5 needs it. */
struct mca_btl_base_endpoint_t *btl_verbena_sender(mca_btl_base_module_t *btl,
                                                   const vbn_endpoint_t *peer);

/*
 * Hands one received message of PEER's, which may be changed in place, to whoever registered TAG.
 * In one piece: before ob1 decides whether a message fits its receive it counts the bytes of the
 * first only. Open MPI's own one-sided operations by messages, of release 5, answer it by the
 * endpoint that they find in it, and abort where they find none. ARRIVAL is all zero but for what
 * was written here before: to clear one for each message would cost more than all else here. False
 * when nobody takes it.
 */
static inline bool btl_verbena_deliver(mca_btl_base_module_t *btl, const vbn_endpoint_t *peer,
                                       mca_btl_base_tag_t tag, btl_verbena_arrival_t *arrival,
                                       mca_btl_base_segment_t *segment)
{
    const mca_btl_active_message_callback_t *upper = &mca_btl_base_active_message_trigger[tag];

    if (!upper->cbfunc)
        return false;
    arrival->des_segments = segment;
    arrival->des_segment_count = 1;
#if OPAL_MAJOR_VERSION == 4
    (void)peer;
    upper->cbfunc(btl, tag, arrival, upper->cbdata);
#else
    if ((tag & MCA_BTL_AM_FRAMEWORK_MASK) == MCA_BTL_TAG_BTL_BASE) {
        arrival->endpoint = btl_verbena_sender(btl, peer);
        if (!arrival->endpoint)
            return false;
    }
    arrival->tag = tag;
    arrival->cbdata = upper->cbdata;
    upper->cbfunc(btl, arrival);
#endif
    return true;
}

#endif
