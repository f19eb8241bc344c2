/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call: run to its end, or turned into a request that opal_progress() completes.
 *
 * Waiting. The port is polled by itself as long as there is something in it. Then, where ranks
 * share processors, this one is given away (vbn_coll_rest()), with sleeps that are short because of
 * Open MPI's other components; for their sake opal_progress() is called now and then, and always
 * where each rank has a processor.
 */
#include "coll_verbena.h"

#include "ompi/mca/coll/base/coll_base_util.h"

#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include <stdlib.h>

#define SLEEP_MS 2
/* Polls that found nothing between two for other components, where ranks share processors. */
#define OPAL_POLLS 64

/* A nonblocking collective. Open MPI's bindings write into the base class: which objects to keep.
 */
typedef struct coll_verbena_request {
    ompi_coll_base_nbc_request_t super; /* an item of `pending` */
    coll_verbena_module_t *module;
    vbn_coll_req_t *req;
    coll_verbena_call_t call;
} coll_verbena_request_t;

static OBJ_CLASS_INSTANCE(coll_verbena_request_t, ompi_coll_base_nbc_request_t, NULL, NULL);

static int mpi_status(int status)
{
    switch (status) {
    case VBN_OK:
        return OMPI_SUCCESS;
    case VBN_ERR_NO_MEMORY:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case VBN_ERR_MISMATCH:
        return MPI_ERR_TRUNCATE;
    default:
        return OMPI_ERROR;
    }
}

static int over(coll_verbena_call_t *call, const char *text, int status)
{
    const char *why = text && *text ? text : vbn_status_str(status);

    coll_verbena_view_end(&call->in, status == VBN_OK);
    coll_verbena_view_end(&call->out, status == VBN_OK);
    if (status)
        opal_output(0, "coll verbena: %s: %s%s", vbn_coll_name(call->args.coll), why,
                    coll_verbena_remedy(why));
    return mpi_status(status);
}

static int start(coll_verbena_module_t *module, vbn_team_t *team, const struct vbn_coll_args *args,
                 vbn_coll_req_t **req, struct vbn_error *err)
{
    int rc;

    OPAL_THREAD_LOCK(&module->lock);
    rc = vbn_coll_istart(team, args, req, err);
    OPAL_THREAD_UNLOCK(&module->lock);
    return rc;
}

/* REQ of TEAM's. ERR: where it has failed. */
static int test(coll_verbena_module_t *module, const vbn_team_t *team, vbn_coll_req_t *req,
                struct vbn_error *err)
{
    int rc;

    OPAL_THREAD_LOCK(&module->lock);
    rc = vbn_coll_test(req);
    if (rc != VBN_OK && rc != VBN_PENDING)
        snprintf(err->text, sizeof(err->text), "%s", vbn_team_error(team));
    OPAL_THREAD_UNLOCK(&module->lock);
    return rc;
}

/* After IDLE polls of REQ's that found nothing. */
static void wait_a_moment(vbn_coll_req_t *req, unsigned idle)
{
    if (vbn_coll_rest(req, idle, SLEEP_MS) != VBN_REST_YIELDED || idle % OPAL_POLLS == 0)
        opal_progress();
}

static void lend(coll_verbena_module_t *module, coll_verbena_call_t *call)
{
    coll_verbena_view_lend(&call->in, module->btl, MCA_BTL_REG_FLAG_REMOTE_READ);
    coll_verbena_view_lend(&call->out, module->btl,
                           MCA_BTL_REG_FLAG_REMOTE_WRITE | MCA_BTL_REG_FLAG_REMOTE_READ);
}

static int wait_for(coll_verbena_module_t *module, vbn_coll_req_t *req, struct vbn_error *err)
{
    unsigned idle = 0;
    int rc;

    while ((rc = test(module, module->blocking, req, err)) == VBN_PENDING) {
        if (module->transport->progress(module->port) > 0)
            idle = 0;
        else
            wait_a_moment(req, ++idle);
    }
    return rc;
}

/* Whether the members use a group from this call on. */
static int vote(coll_verbena_module_t *module, struct vbn_error *err)
{
    vbn_coll_req_t *req;
    int rc;

    OPAL_THREAD_LOCK(&module->lock);
    rc = vbn_team_vote(module->blocking, &req, err);
    OPAL_THREAD_UNLOCK(&module->lock);
    return rc == VBN_OK && req ? wait_for(module, req, err) : rc;
}

int coll_verbena_run(coll_verbena_module_t *module, ompi_communicator_t *comm,
                     coll_verbena_call_t *call)
{
    struct vbn_error err;
    vbn_coll_req_t *req;
    int rc;

    if (!coll_verbena_teams(module, comm))
        return over(call, "", VBN_ERR_DEVICE);
    lend(module, call);
    err.text[0] = '\0';
    rc = vote(module, &err);
    if (rc == VBN_OK)
        rc = start(module, module->blocking, &call->args, &req, &err);
    if (rc == VBN_OK)
        rc = wait_for(module, req, &err);
    return over(call, err.text, rc);
}

/* --- requests
 * --------------------------------------------------------------------------------------- */

/* With its communicator, and so its module, which may have been freed meanwhile (MPI 3.1, 6.4.3).
 */
static void request_release(ompi_request_t *request)
{
    ompi_communicator_t *comm = request->req_mpi_object.comm;

    OBJ_RELEASE(request);
    OBJ_RELEASE(comm);
}

static int request_free(ompi_request_t **request)
{
    if (!REQUEST_COMPLETE(*request))
        return MPI_ERR_REQUEST; /* nor can they be freed under way (MPI 3.1, 5.12) */
    OMPI_REQUEST_FINI(*request);
    request_release(*request);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int complete)
{
    (void)request;
    (void)complete;
    return MPI_ERR_REQUEST; /* collectives cannot be cancelled (MPI 3.1, 5.12) */
}

/* True when it is over, and its status is there. */
static bool advance(coll_verbena_request_t *request)
{
    coll_verbena_module_t *module = request->module;
    struct vbn_error err;
    int rc;

    module->transport->progress(module->port);
    err.text[0] = '\0';
    rc = test(module, module->nonblocking, request->req, &err);
    if (rc == VBN_PENDING)
        return false;
    request->super.super.req_status.MPI_ERROR = over(&request->call, err.text, rc);
    return true;
}

/* After a change of `pending`, with the lock. */
static void count_pending(coll_verbena_component_t *component)
{
    atomic_store_explicit(&component->pending_count, opal_list_get_size(&component->pending),
                          memory_order_relaxed);
}

/* Requests are completed without the lock: who hears of it may start others. */
static int progress(void)
{
    coll_verbena_component_t *component = &mca_coll_verbena_component;
    coll_verbena_request_t *request, *next;
    opal_list_t done;
    int n = 0;

    /* Mostly; the next call sees what is new. */
    if (!atomic_load_explicit(&component->pending_count, memory_order_relaxed))
        return 0;
    if (OPAL_THREAD_TRYLOCK(&component->lock))
        return 0; /* another thread is at it */
    OBJ_CONSTRUCT(&done, opal_list_t);
    OPAL_LIST_FOREACH_SAFE(request, next, &component->pending, coll_verbena_request_t)
    {
        if (advance(request)) {
            opal_list_remove_item(&component->pending, &request->super.super.super.super);
            opal_list_append(&done, &request->super.super.super.super);
        }
    }
    count_pending(component);
    OPAL_THREAD_UNLOCK(&component->lock);
    for (; (request = (coll_verbena_request_t *)opal_list_remove_first(&done)); n++)
        ompi_request_complete(&request->super.super, true);
    OBJ_DESTRUCT(&done);
    return n;
}

/* From now on opal_progress() carries REQUEST on. */
static void hand_over(coll_verbena_request_t *request)
{
    coll_verbena_component_t *component = &mca_coll_verbena_component;

    OPAL_THREAD_LOCK(&component->lock);
    opal_list_append(&component->pending, &request->super.super.super.super);
    count_pending(component);
    if (!component->progressing)
        opal_progress_register(progress);
    component->progressing = true;
    OPAL_THREAD_UNLOCK(&component->lock);
}

void coll_verbena_call_fini(void)
{
    if (mca_coll_verbena_component.progressing)
        opal_progress_unregister(progress);
    mca_coll_verbena_component.progressing = false;
}

static coll_verbena_request_t *request_new(coll_verbena_module_t *module, ompi_communicator_t *comm,
                                           coll_verbena_call_t *call)
{
    coll_verbena_request_t *request = OBJ_NEW(coll_verbena_request_t);

    if (!request)
        return NULL;
    OMPI_REQUEST_INIT(&request->super.super, false);
    request->super.super.req_type = OMPI_REQUEST_COLL;
    request->super.super.req_state = OMPI_REQUEST_ACTIVE;
    request->super.super.req_status.MPI_SOURCE = MPI_ANY_SOURCE;
    request->super.super.req_status.MPI_TAG = MPI_ANY_TAG;
    request->super.super.req_status.MPI_ERROR = MPI_SUCCESS;
    request->super.super.req_status._cancelled = 0;
    request->super.super.req_status._ucount = 0;
    request->super.super.req_free = request_free;
    request->super.super.req_cancel = request_cancel;
    OBJ_RETAIN(comm);
    request->super.super.req_mpi_object.comm = comm;
    request->module = module;
    request->call = *call;
    if (call->args.user_op) {
        request->call.user_op.arg = &request->call;
        request->call.args.user_op = &request->call.user_op;
    }
    return request;
}

int coll_verbena_start(coll_verbena_module_t *module, ompi_communicator_t *comm,
                       coll_verbena_call_t *call, ompi_request_t **out)
{
    coll_verbena_request_t *request =
        coll_verbena_teams(module, comm) ? request_new(module, comm, call) : NULL;
    struct vbn_error err = {.text = ""};
    int rc = request ? VBN_OK : VBN_ERR_NO_MEMORY;

    if (request) {
        lend(module, &request->call);
        call = &request->call;
        rc = start(module, module->nonblocking, &call->args, &request->req, &err);
    }
    if (rc) {
        rc = over(call, err.text, rc);
        if (request)
            request_release(&request->super.super);
        return rc;
    }
    *out = &request->super.super;
    hand_over(request);
    return OMPI_SUCCESS;
}
