/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: peers, what waits for room in the transport, and the end.
 *
 * Endpoints are made when ob1 first speaks of a peer; the transport connects with the first
 * message. They are freed with the module and not before: the transport's callbacks name them.
 */
#include "btl_verbena.h"

#include "opal/class/opal_bitmap.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

OBJ_CLASS_INSTANCE(btl_verbena_work_t, opal_list_item_t, NULL, NULL);

static void endpoint_construct(btl_verbena_endpoint_t *endpoint)
{
    endpoint->next = NULL;
    endpoint->module = NULL;
    endpoint->proc = NULL;
    endpoint->peer = NULL;
    endpoint->lost = false;
    endpoint->is_busy = false;
    OBJ_CONSTRUCT(&endpoint->waiting, opal_list_t);
    OBJ_CONSTRUCT(&endpoint->given, opal_list_t);
    OBJ_CONSTRUCT(&endpoint->served, opal_list_t);
    endpoint->last_token = 0;
    atomic_init(&endpoint->turn, 0);
    atomic_init(&endpoint->sent, 0);
}

static void endpoint_destruct(btl_verbena_endpoint_t *endpoint)
{
    while (opal_list_remove_first(&endpoint->served))
        ;
    OBJ_DESTRUCT(&endpoint->served);
    OBJ_DESTRUCT(&endpoint->waiting);
    OBJ_DESTRUCT(&endpoint->given);
}

OBJ_CLASS_INSTANCE(btl_verbena_endpoint_t, opal_list_item_t, endpoint_construct, endpoint_destruct);

int btl_verbena_opal_status(int status)
{
    switch (status) {
    case VBN_OK:
        return OPAL_SUCCESS;
    case VBN_ERR_AGAIN:
    case VBN_ERR_NO_MEMORY:
        return OPAL_ERR_OUT_OF_RESOURCE;
    case VBN_ERR_INVALID:
        return OPAL_ERR_BAD_PARAM;
    default:
        return OPAL_ERR_UNREACH;
    }
}

/* --- what waits ----------------------------------------------------------------------------- */

/* After a change of `busy`, with the lock. */
static void count_busy(btl_verbena_module_t *module)
{
    atomic_store_explicit(&module->busy_count, opal_list_get_size(&module->busy),
                          memory_order_relaxed);
}

void btl_verbena_work_add(btl_verbena_work_t *work, opal_list_t *list)
{
    btl_verbena_endpoint_t *endpoint = work->endpoint;
    btl_verbena_module_t *module = endpoint->module;

    OPAL_THREAD_LOCK(&module->lock);
    opal_list_append(list, &work->super);
    if (!endpoint->is_busy)
        opal_list_append(&module->busy, &endpoint->super);
    count_busy(module);
    endpoint->is_busy = true;
    OPAL_THREAD_UNLOCK(&module->lock);
}

static btl_verbena_work_t *work_take(btl_verbena_endpoint_t *endpoint, opal_list_t *list)
{
    opal_list_item_t *item;

    OPAL_THREAD_LOCK(&endpoint->module->lock);
    item = opal_list_remove_first(list);
    OPAL_THREAD_UNLOCK(&endpoint->module->lock);
    return (btl_verbena_work_t *)item;
}

static void work_put_back(btl_verbena_work_t *work, opal_list_t *list)
{
    OPAL_THREAD_LOCK(&work->endpoint->module->lock);
    opal_list_prepend(list, &work->super);
    OPAL_THREAD_UNLOCK(&work->endpoint->module->lock);
}

static btl_verbena_endpoint_t *busy_take(btl_verbena_module_t *module)
{
    opal_list_item_t *item;

    OPAL_THREAD_LOCK(&module->lock);
    item = opal_list_remove_first(&module->busy);
    count_busy(module);
    OPAL_THREAD_UNLOCK(&module->lock);
    return (btl_verbena_endpoint_t *)item;
}

static void busy_put_back(btl_verbena_endpoint_t *endpoint)
{
    btl_verbena_module_t *module = endpoint->module;

    OPAL_THREAD_LOCK(&module->lock);
    endpoint->is_busy =
        !opal_list_is_empty(&endpoint->waiting) || !opal_list_is_empty(&endpoint->given);
    if (endpoint->is_busy)
        opal_list_append(&module->busy, &endpoint->super);
    count_busy(module);
    OPAL_THREAD_UNLOCK(&module->lock);
}

/* Works off LIST of ENDPOINT up to the first that cannot go on. */
static int list_resume(btl_verbena_endpoint_t *endpoint, opal_list_t *list)
{
    btl_verbena_work_t *work;
    int done = 0;

    while ((work = work_take(endpoint, list))) {
        int status = endpoint->lost ? VBN_ERR_PEER_LOST : work->start(work);

        if (status == VBN_ERR_AGAIN) {
            work_put_back(work, list);
            break;
        }
        if (status != VBN_OK)
            work->fail(work, status);
        done++;
    }
    return done;
}

/* What the transport has goes first: it holds messages that the others need. */
static int endpoint_resume(btl_verbena_endpoint_t *endpoint)
{
    int done = list_resume(endpoint, &endpoint->given);

    return done + list_resume(endpoint, &endpoint->waiting);
}

int btl_verbena_work_resume(btl_verbena_module_t *module)
{
    size_t count = atomic_load_explicit(&module->busy_count, memory_order_relaxed);
    btl_verbena_endpoint_t *endpoint;
    int done = 0;

    /* Callbacks come back here through opal_progress(), other threads by themselves. */
    if (opal_mutex_trylock(&module->resuming))
        return 0;
    while (count-- && (endpoint = busy_take(module))) {
        done += endpoint_resume(endpoint);
        busy_put_back(endpoint);
    }
    opal_mutex_unlock(&module->resuming);
    return done;
}

/* Ends with an error whatever still waits for ENDPOINT. */
static void work_cancel(btl_verbena_endpoint_t *endpoint)
{
    btl_verbena_work_t *work;

    while ((work = work_take(endpoint, &endpoint->given)) ||
           (work = work_take(endpoint, &endpoint->waiting)))
        work->fail(work, VBN_ERR_CLOSED);
    btl_verbena_served_fail(endpoint, VBN_ERR_CLOSED);
}

/* --- peers ---------------------------------------------------------------------------------- */

/* Writes who PROC is, for messages, to TEXT of LEN bytes. */
static const char *proc_text(const opal_proc_t *proc, char *text, size_t len)
{
    const char *host = opal_get_proc_hostname(proc);
    bool ours = proc->proc_name.jobid == OPAL_PROC_MY_NAME.jobid;

    snprintf(text, len, "rank %" PRIu32 "%s on host %s", proc->proc_name.vpid,
             ours ? "" : " of another job", host ? host : "(unknown)");
    return text;
}

static void say_unreachable(const opal_proc_t *proc, const char *reason)
{
    char local[300], remote[300];

    btl_verbena_say("peer unreachable", proc_text(opal_proc_local_get(), local, sizeof(local)),
                    proc_text(proc, remote, sizeof(remote)), reason);
}

/* Copies what PROC published to *MODEX. Returns false, with REASON, when that is not usable. */
static bool modex_take(const btl_verbena_module_t *module, const void *data, size_t size,
                       btl_verbena_modex_t *modex, char *reason, size_t reason_len)
{
    const size_t head = offsetof(btl_verbena_modex_t, address);

    memset(modex, 0, sizeof(*modex));
    memcpy(modex, data, size < sizeof(*modex) ? size : sizeof(*modex));
    if (size < head || size > sizeof(*modex) || ntohl(modex->magic) != BTL_VERBENA_MODEX_MAGIC) {
        snprintf(reason, reason_len, "it published %zu bytes that are not verbena's.", size);
        return false;
    }
    if (ntohs(modex->version) != BTL_VERBENA_MODEX_VERSION) {
        snprintf(
            reason, reason_len,
            "its verbena component publishes version %u and this one reads version %u. Install "
            "the same release of Verbena on all hosts.",
            ntohs(modex->version), BTL_VERBENA_MODEX_VERSION);
        return false;
    }
    if (size != head + ntohs(modex->address_len) ||
        ntohl(modex->handle_len) != module->super.btl_registration_handle_size) {
        snprintf(reason, reason_len, "what it published (%zu bytes) is malformed.", size);
        return false;
    }
    if (ntohl(modex->max_message) != module->attr.max_am_len) {
        snprintf(
            reason, reason_len,
            "its longest message is %" PRIu32 " bytes and the one here %" PRIu64 ". Give "
            "btl_verbena_eager_limit and btl_verbena_max_send_size the same values everywhere.",
            ntohl(modex->max_message), module->attr.max_am_len);
        return false;
    }
    return true;
}

/* What PROC published, in *MODEX; false after a message about why that cannot be used. */
static bool modex_of(const btl_verbena_module_t *module, opal_proc_t *proc,
                     btl_verbena_modex_t *modex)
{
    char reason[sizeof(((struct vbn_error *)NULL)->text)];
    void *data = NULL;
    size_t size = 0;
    bool good;
    int rc;

    OPAL_MODEX_RECV(rc, &mca_btl_verbena_component.super.btl_version, &proc->proc_name, &data,
                    &size);
    if (rc != OPAL_SUCCESS || !data) {
        /* Nothing unusual where other components may reach it. */
        if (btl_verbena_named())
            say_unreachable(proc, "it has no verbena component in use. Install Verbena on its host "
                                  "and give all ranks the same --mca btl list; where it has no "
                                  "usable device, a message from that rank says why.");
        return false;
    }
    good = modex_take(module, data, size, modex, reason, sizeof(reason));
    if (!good)
        say_unreachable(proc, reason);
    free(data);
    return good;
}

/* Gives the transport's endpoint of PROC, or NULL after a message about why there is none.
 * ENDPOINT, if any, is what it knows of it from now on. */
static vbn_endpoint_t *peer_claim(btl_verbena_module_t *module, opal_proc_t *proc,
                                  const btl_verbena_modex_t *modex,
                                  btl_verbena_endpoint_t *endpoint)
{
    vbn_endpoint_t *peer = NULL;
    struct vbn_error error;

    if (vbn_endpoint_create(module->context, modex->address, ntohs(modex->address_len), endpoint,
                            &peer, &error) != VBN_OK)
        say_unreachable(proc, error.text);
    return peer;
}

/* With MODULE's lock held. */
static btl_verbena_endpoint_t *endpoint_listed(const btl_verbena_module_t *module,
                                               const opal_proc_t *proc)
{
    btl_verbena_endpoint_t *endpoint;

    for (endpoint = module->endpoints; endpoint; endpoint = endpoint->next)
        if (endpoint->proc == proc)
            break;
    return endpoint;
}

/* Makes ENDPOINT, which may be released for that, PROC's; returns the one that is. */
static btl_verbena_endpoint_t *endpoint_enlist(btl_verbena_endpoint_t *endpoint,
                                               btl_verbena_module_t *module, opal_proc_t *proc)
{
    btl_verbena_endpoint_t *first;

    OPAL_THREAD_LOCK(&module->lock);
    first = endpoint_listed(module, proc);
    if (!first) {
        endpoint->module = module;
        endpoint->proc = proc;
        endpoint->next = module->endpoints;
        module->endpoints = endpoint;
    }
    OPAL_THREAD_UNLOCK(&module->lock);
    if (!first)
        return endpoint;
    OBJ_RELEASE(endpoint); /* NOLINT(clang-analyzer-unix.Malloc): it is released here */
    return first;
}

/* The transport learns of the endpoint once it is known which of several threads' it will be. */
static btl_verbena_endpoint_t *endpoint_create(btl_verbena_module_t *module, opal_proc_t *proc)
{
    btl_verbena_endpoint_t *endpoint;
    btl_verbena_modex_t modex;

    if (!modex_of(module, proc, &modex))
        return NULL;
    endpoint = OBJ_NEW(btl_verbena_endpoint_t);
    if (!endpoint)
        return NULL;
    endpoint->peer = peer_claim(module, proc, &modex, NULL);
    if (!endpoint->peer) {
        OBJ_RELEASE(endpoint); /* NOLINT(clang-analyzer-unix.Malloc): it is released here */
        return NULL;
    }
    endpoint = endpoint_enlist(endpoint, module, proc);
    peer_claim(module, proc, &modex, endpoint);
    return endpoint;
}

btl_verbena_endpoint_t *btl_verbena_endpoint_of(btl_verbena_module_t *module, opal_proc_t *proc)
{
    btl_verbena_endpoint_t *endpoint;

    OPAL_THREAD_LOCK(&module->lock);
    endpoint = endpoint_listed(module, proc);
    OPAL_THREAD_UNLOCK(&module->lock);
    return endpoint ? endpoint : endpoint_create(module, proc);
}

btl_verbena_endpoint_t *btl_verbena_endpoint_of_peer(btl_verbena_module_t *module,
                                                     const vbn_endpoint_t *peer,
                                                     opal_process_name_t name)
{
    opal_proc_t *proc = opal_proc_for_name(name);
    btl_verbena_endpoint_t *endpoint = NULL;

    if (proc && proc != opal_proc_local_get())
        endpoint = btl_verbena_endpoint_of(module, proc);
    return endpoint && endpoint->peer == peer ? endpoint : NULL;
}

btl_verbena_endpoint_t *btl_verbena_sender(mca_btl_base_module_t *btl, const vbn_endpoint_t *peer)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    opal_process_name_t name = {.jobid = OPAL_PROC_MY_NAME.jobid};
    btl_verbena_endpoint_t *sender = vbn_endpoint_user(peer);

    for (name.vpid = 0; !sender && name.vpid < module->ranks; name.vpid++)
        sender = btl_verbena_endpoint_of_peer(module, peer, name);
    return sender;
}

/*
 * Messages to itself are the business of btl/self, which goes before. But one-sided communication
 * takes one BTL for all ranks of a window (osc/rdma's peers, 4.1), and asks this one, too. Where
 * there is no btl/self, we would have to carry messages: so there is none of ours.
 */
static btl_verbena_endpoint_t *own_endpoint(btl_verbena_module_t *module)
{
    mca_btl_base_selected_module_t *other;
    btl_verbena_endpoint_t *endpoint;
    bool others = false;

    OPAL_LIST_FOREACH(other, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    others = others || strcmp(other->btl_component->btl_version.mca_component_name, "self") == 0;
    if (!others || !(module->super.btl_flags & MCA_BTL_FLAGS_ATOMIC_FOPS))
        return NULL;
    endpoint = OBJ_NEW(btl_verbena_endpoint_t);
    if (!endpoint)
        return NULL;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it is listed, and freed with the module */
    return endpoint_enlist(endpoint, module, opal_proc_local_get());
}

static int add_procs(mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                     btl_verbena_endpoint_t **endpoints, opal_bitmap_t *reachable)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;

    for (size_t i = 0; i < count; i++) {
        if (procs[i] == opal_proc_local_get())
            endpoints[i] = own_endpoint(module);
        else
            endpoints[i] = btl_verbena_endpoint_of(module, procs[i]);
        if (endpoints[i] && reachable)
            opal_bitmap_set_bit(reachable, (int)i);
    }
    btl_verbena_idle_peers(module, count, procs, endpoints);
    return OPAL_SUCCESS;
}

/* Lets what waits for ENDPOINT go on, for as long as closing may take. */
static void endpoint_drain(btl_verbena_endpoint_t *endpoint)
{
    time_t end =
        time(NULL) + 1 + (time_t)(mca_btl_verbena_component.options.close_timeout_ms / 1000);

    while (endpoint->is_busy && time(NULL) < end)
        opal_progress();
    work_cancel(endpoint);
}

/* The transport's endpoints stay open until vbn_close(): teams of coll/verbena have the same ones.
 * Open MPI calls this at the end, and where another BTL carries the messages to a peer. */
static int del_procs(mca_btl_base_module_t *btl, size_t count, opal_proc_t **procs,
                     btl_verbena_endpoint_t **endpoints)
{
    (void)btl;
    (void)procs;
    for (size_t i = 0; i < count; i++) {
        if (!endpoints[i] || btl_verbena_is_own(endpoints[i]))
            continue;
        endpoint_drain(endpoints[i]);
        endpoints[i]->proc = NULL;
    }
    return OPAL_SUCCESS;
}

void btl_verbena_endpoint_error(void *arg, vbn_endpoint_t *peer, int status, const char *reason)
{
    btl_verbena_module_t *module = arg;
    btl_verbena_endpoint_t *endpoint = vbn_endpoint_user(peer);
    opal_proc_t *proc = endpoint ? endpoint->proc : NULL;
    char local[300], remote[300];

    if (endpoint) {
        OPAL_THREAD_LOCK(&module->lock);
        endpoint->lost = true;
        OPAL_THREAD_UNLOCK(&module->lock);
        btl_verbena_served_fail(endpoint, status);
    }
    btl_verbena_long_lost(module, peer);
    /* Who connected by himself need not be a rank; a rank has named us, and is told by its own. */
    if (module->closing || !proc) {
        opal_output_verbose(
            1, opal_btl_base_framework.framework_output, "btl/verbena: %s, %s: %s",
            vbn_status_str(status),
            module->closing || endpoint ? "while closing" : "of no process that was used", reason);
        return;
    }
    btl_verbena_say("peer lost", proc_text(opal_proc_local_get(), local, sizeof(local)),
                    proc_text(proc, remote, sizeof(remote)), vbn_status_str(status), reason);
    /* ob1 takes the text for a printf format; what there is to say has been said. */
    if (module->error_cb)
        module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, proc, NULL);
}

void btl_verbena_operation_failed(const btl_verbena_endpoint_t *endpoint, const char *operation,
                                  const char *reason)
{
    btl_verbena_module_t *module = endpoint->module;
    char local[300], remote[300];

    if (module->closing || endpoint->lost || !endpoint->proc)
        return;
    btl_verbena_say("operation failed", proc_text(opal_proc_local_get(), local, sizeof(local)),
                    proc_text(endpoint->proc, remote, sizeof(remote)), operation, reason);
    if (module->error_cb)
        module->error_cb(&module->super, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, NULL);
}

static int register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t cbfunc)
{
    ((btl_verbena_module_t *)btl)->error_cb = cbfunc;
    return OPAL_SUCCESS;
}

/* --- counters ------------------------------------------------------------------------------- */

/* One line, the same for users, tests and the dump. */
static void counters_text(const btl_verbena_module_t *module, char *text, size_t len)
{
    struct vbn_counters c = {.size = sizeof(c)};

    vbn_counters(module->context, &c);
    snprintf(text, len,
             "verbena: rank %" PRIu32 " device %s tx_msgs=%" PRIu64 " tx_bytes=%" PRIu64
             " rx_msgs=%" PRIu64 " rx_bytes=%" PRIu64 " puts=%" PRIu64 " put_bytes=%" PRIu64
             " gets=%" PRIu64 " get_bytes=%" PRIu64 " conns=%" PRIu64 " acks=%" PRIu64
             " crossed=%" PRIu64 " refused=%" PRIu64 " lost=%" PRIu64 " stalls=%" PRIu64
             " bad=%" PRIu64 " ring_msgs=%" PRIu64 " bare_msgs=%" PRIu64 " rider_msgs=%" PRIu64
             " casts=%" PRIu64 " cast_repairs=%" PRIu64 " served=%lu",
             OPAL_PROC_MY_NAME.vpid, module->attr.device, c.tx_msgs, c.tx_bytes, c.rx_msgs,
             c.rx_bytes, c.puts, c.put_bytes, c.gets, c.get_bytes, c.conns_made, c.acks_sent,
             c.conns_crossed, c.conns_refused, c.conns_lost, c.stalls, c.bad_messages, c.ring_msgs,
             c.bare_msgs, c.rider_msgs, c.casts, c.cast_repairs,
             atomic_load(&module->served_count));
}

static void dump(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint, int verbose)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    char text[640];

    counters_text(module, text, sizeof(text));
    opal_output(0, "%s", text);
    if (endpoint && endpoint->proc && endpoint->peer && verbose > 0)
        opal_output(0, "verbena: %s is %s, %zu wait for it",
                    proc_text(endpoint->proc, text, sizeof(text)),
                    vbn_endpoint_connected(endpoint->peer) ? "connected" : "not connected",
                    opal_list_get_size(&endpoint->waiting) + opal_list_get_size(&endpoint->given));
}

/* --- create and finalize -------------------------------------------------------------------- */

static void functions_set(mca_btl_base_module_t *btl)
{
    btl->btl_component = &mca_btl_verbena_component.super;
    btl->btl_add_procs = add_procs;
    btl->btl_del_procs = del_procs;
    btl->btl_finalize = btl_verbena_finalize;
    btl->btl_alloc = btl_verbena_alloc;
    btl->btl_free = btl_verbena_free;
    btl->btl_prepare_src = btl_verbena_prepare_src;
    btl->btl_send = btl_verbena_send;
    btl->btl_sendi = btl_verbena_sendi;
    btl->btl_put = btl_verbena_put;
    btl->btl_get = btl_verbena_get;
    btl->btl_atomic_op = btl_verbena_atomic_op;
    btl->btl_atomic_fop = btl_verbena_atomic_fop;
    btl->btl_atomic_cswap = btl_verbena_atomic_cswap;
    btl->btl_dump = dump;
    btl->btl_register_mem = btl_verbena_register_mem;
    btl->btl_deregister_mem = btl_verbena_deregister_mem;
    btl->btl_register_error = register_error;
    btl->btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t);
}

void btl_verbena_items_init(opal_free_list_t *list, size_t size, opal_class_t *class, size_t room,
                            int most)
{
    int at_once = room > BTL_VERBENA_PLAIN_MAX ? 4 : 64;

    opal_free_list_init(list, size, opal_cache_line_size, class, room, opal_cache_line_size, 0,
                        most, at_once, NULL, 0, NULL, NULL, NULL);
}

btl_verbena_module_t *btl_verbena_module_create(const mca_btl_base_module_t *defaults)
{
    btl_verbena_module_t *module = calloc(1, sizeof(*module));

    if (!module)
        return NULL;
    module->super = *defaults;
    functions_set(&module->super);
    OBJ_CONSTRUCT(&module->busy, opal_list_t);
    OBJ_CONSTRUCT(&module->assembling, opal_list_t);
    OBJ_CONSTRUCT(&module->bounce.making, opal_mutex_t);
    OBJ_CONSTRUCT(&module->bounce.waiting, opal_list_t);
    OBJ_CONSTRUCT(&module->parting, opal_mutex_t);
    OBJ_CONSTRUCT(&module->caching, opal_mutex_t);
    OBJ_CONSTRUCT(&module->lock, opal_mutex_t);
    OBJ_CONSTRUCT(&module->unmap.lock, opal_mutex_t);
    OBJ_CONSTRUCT(&module->resuming, opal_mutex_t);
    OBJ_CONSTRUCT(&module->idle.lock, opal_mutex_t);
    OBJ_CONSTRUCT(&module->frags, opal_free_list_t);
    OBJ_CONSTRUCT(&module->burst_frags, opal_free_list_t);
    OBJ_CONSTRUCT(&module->kept_frags, opal_free_list_t);
    OBJ_CONSTRUCT(&module->long_frags, opal_free_list_t);
    OBJ_CONSTRUCT(&module->assemblies, opal_free_list_t);
    OBJ_CONSTRUCT(&module->rmas, opal_free_list_t);
    OBJ_CONSTRUCT(&module->served, opal_free_list_t);
    btl_verbena_items_init(&module->frags, sizeof(btl_verbena_frag_t),
                           OBJ_CLASS(btl_verbena_frag_t), BTL_VERBENA_PLAIN_MAX, -1);
    btl_verbena_items_init(&module->burst_frags, sizeof(btl_verbena_frag_t),
                           OBJ_CLASS(btl_verbena_frag_t), BTL_VERBENA_BURST_MAX,
                           BTL_VERBENA_BURST_FRAGS);
    btl_verbena_items_init(&module->rmas, sizeof(btl_verbena_rma_t), OBJ_CLASS(btl_verbena_rma_t),
                           0, -1);
    btl_verbena_items_init(&module->served, sizeof(btl_verbena_served_t),
                           OBJ_CLASS(btl_verbena_served_t), 0, -1);
    return module;
}

static void endpoints_free(btl_verbena_module_t *module)
{
    btl_verbena_endpoint_t *endpoint;

    while ((endpoint = module->endpoints)) {
        module->endpoints = endpoint->next;
        OBJ_RELEASE(endpoint);
    }
}

int btl_verbena_finalize(mca_btl_base_module_t *btl)
{
    btl_verbena_module_t *module = (btl_verbena_module_t *)btl;
    char text[640];

    /* Whoever had asked for something is no longer there to be called back, nor who takes
     * messages, which come until the transport is closed. */
    module->closing = true;
    for (unsigned id = 0; module->context && id <= UINT8_MAX; id++)
        vbn_am_handler(module->context, (uint8_t)id, NULL, NULL);
    if (module->context && mca_btl_verbena_component.show_counters) {
        counters_text(module, text, sizeof(text));
        fprintf(stderr, "%s\n", text);
    }
    /* The caches deregister what they hold, so they go before the device. */
    btl_verbena_rcaches_destroy(module);
    btl_verbena_bounce_fini(module);
    if (module->context)
        vbn_close(module->context);
    mca_btl_verbena_component.module = NULL;

    while (opal_list_remove_first(&module->busy))
        ;
    OBJ_DESTRUCT(&module->busy);
    while (opal_list_remove_first(&module->assembling))
        ;
    OBJ_DESTRUCT(&module->assembling);
    OBJ_DESTRUCT(&module->bounce.making);
    OBJ_DESTRUCT(&module->bounce.waiting);
    OBJ_DESTRUCT(&module->parting);
    endpoints_free(module);
    OBJ_DESTRUCT(&module->frags);
    OBJ_DESTRUCT(&module->burst_frags);
    OBJ_DESTRUCT(&module->kept_frags);
    OBJ_DESTRUCT(&module->long_frags);
    OBJ_DESTRUCT(&module->assemblies);
    OBJ_DESTRUCT(&module->rmas);
    OBJ_DESTRUCT(&module->served);
    OBJ_DESTRUCT(&module->caching);
    OBJ_DESTRUCT(&module->lock);
    OBJ_DESTRUCT(&module->unmap.lock);
    OBJ_DESTRUCT(&module->idle.lock);
    OBJ_DESTRUCT(&module->resuming);
    free(module);
    return OPAL_SUCCESS;
}
