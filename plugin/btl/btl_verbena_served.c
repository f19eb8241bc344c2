/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that the peer's process carries out for this one: atomics, and gets where the device's
 * own reads are unsound or slow (vbn_attr's good_reads). And the key of memory that was asked for
 * with another one.
 *
 * Operation. The initiator sends a request and keeps the operation in the endpoint's list until the
 * answer with its token comes. The server changes its memory by the processor's own atomic
 * instructions, which is why these mix with what else its processes do there. For a get it puts
 * into the initiator's memory, and answers when the data are there. Requests and answers are
 * messages: each is delivered once, whatever happens to the connection, so each operation is done
 * once; what a device does itself could not be told from what it had done before a connection
 * broke.
 *
 * Order. Requests to one peer are carried out in the order in which they were made: MPI orders the
 * accumulates of an origin to a target (MPI 3.1, 11.7.2), and osc/rdma leaves that to the network.
 *
 * Progress. The server has to call MPI for that, as for messages.
 *
 * Trust. A request names memory of the server by a key and an address. Both are looked up among the
 * regions that are registered for it; anything else is answered by an error. An answer that nobody
 * waits for is dropped.
 *
 * Buffer ownership. The initiator's memory belongs to the operation until the callback, which comes
 * exactly once if OPAL_SUCCESS was returned. What a get reads from is held registered until its
 * put is over.
 */
#include "btl_verbena.h"

#include "opal/util/output.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

/* Open MPI keeps some tags for BTLs; these are numbers of messages between ours only. */
enum { ID_REQUEST = MCA_BTL_TAG_BTL + 14, ID_ANSWER = MCA_BTL_TAG_BTL + 15 };

/* As they travel. */
enum what { ADD = 1, AND, OR, XOR, SWAP, COMPARE_AND_SWAP, GET, KEY };

/* In network byte order. */
struct request {
    uint64_t token;
    uint64_t address; /* at the server */
    uint64_t value;   /* for a get: the initiator's address */
    uint64_t compare; /* for a get and a key: bytes */
    uint32_t key;     /* of the server's region */
    uint32_t put_key; /* for a get: of the initiator's region */
    uint32_t what;
    uint32_t width;       /* of an atomic's operand, bytes */
    uint32_t jobid, vpid; /* the initiator */
};
_Static_assert(sizeof(struct request) == 56, "travels between hosts");

struct answer {
    uint64_t token;
    uint64_t value; /* what was there before; the key */
    uint32_t good;  /* 1, or 0 where the request was refused */
    uint32_t zero;
};
_Static_assert(sizeof(struct answer) == 24, "travels between hosts");

/* Where that is asked for. */
static const mca_btl_base_registration_handle_t no_key;

OBJ_CLASS_INSTANCE(btl_verbena_served_t, opal_free_list_item_t, NULL, NULL);

/* Sends what TEXT has, LEN bytes, as soon as that is possible. OPAL_ERR_OUT_OF_RESOURCE: memory is
 * exhausted. */
static int send_text(btl_verbena_endpoint_t *endpoint, int id, const void *text, size_t len)
{
    mca_btl_base_module_t *btl = &endpoint->module->super;
    mca_btl_base_descriptor_t *descriptor =
        btl_verbena_alloc_behind(endpoint, len, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    int rc;

    if (OPAL_UNLIKELY(!descriptor))
        return vbn_endpoint_connect(endpoint->peer) == VBN_OK ? OPAL_ERR_OUT_OF_RESOURCE
                                                              : OPAL_ERR_UNREACH;
    memcpy(descriptor->des_segments->seg_addr.pval, text, len);
    rc = btl_verbena_send(btl, endpoint, descriptor, (mca_btl_base_tag_t)id);
    if (OPAL_UNLIKELY(rc < 0))
        btl_verbena_free(btl, descriptor);
    return rc < 0 ? rc : OPAL_SUCCESS;
}

/* --- what is done -------------------------------------------------------------------------- */

/* WIDTH is 4 or 8. */
static uint64_t narrowed(uint64_t value, uint32_t width)
{
    return width == 4 ? (uint32_t)value : value;
}

static uint64_t combined(const struct request *r, uint64_t old, uint32_t width)
{
    uint64_t value = be64toh(r->value);

    switch (ntohl(r->what)) {
    case ADD:
        return old + value;
    case AND:
        return old & value;
    case OR:
        return old | value;
    case XOR:
        return old ^ value;
    case SWAP:
        return value;
    default:
        return old == narrowed(be64toh(r->compare), width) ? value : old;
    }
}

/* Returns what was there before. */
static uint64_t apply64(const struct request *r, uint64_t *at)
{
    uint64_t old = __atomic_load_n(at, __ATOMIC_SEQ_CST);

    while (!__atomic_compare_exchange_n(at, &old, combined(r, old, sizeof(old)), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return old;
}

static uint64_t apply32(const struct request *r, uint32_t *at)
{
    uint32_t old = __atomic_load_n(at, __ATOMIC_SEQ_CST);

    while (!__atomic_compare_exchange_n(at, &old, (uint32_t)combined(r, old, sizeof(old)), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return old;
}

/* ADDRESS is aligned to WIDTH, 4 or 8 bytes. */
static uint64_t apply(const struct request *r, uint64_t address, uint32_t width)
{
    void *at = btl_verbena_at(address);

    return width == 8 ? apply64(r, at) : apply32(r, at);
}

/* --- the initiator -------------------------------------------------------------------------- */

/* An operation to be asked of ENDPOINT, or NULL when memory is exhausted. */
static btl_verbena_served_t *served_new(btl_verbena_endpoint_t *endpoint, void *local,
                                        uint32_t width,
                                        mca_btl_base_registration_handle_t *local_handle,
                                        mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                                        void *cbdata)
{
    btl_verbena_served_t *op =
        (btl_verbena_served_t *)opal_free_list_get(&endpoint->module->served);

    if (OPAL_UNLIKELY(!op))
        return NULL;
    op->endpoint = endpoint;
    op->local = local;
    op->width = width;
    op->local_handle = local_handle;
    op->cbfunc = cbfunc;
    op->cbcontext = cbcontext;
    op->cbdata = cbdata;
    return op;
}

/* Puts OP among those that wait for an answer; false: none will come. */
static bool await(btl_verbena_endpoint_t *endpoint, btl_verbena_served_t *op)
{
    bool open;

    OPAL_THREAD_LOCK(&endpoint->module->lock);
    open = !endpoint->lost;
    if (open) {
        op->token = ++endpoint->last_token;
        opal_list_append(&endpoint->served, &op->super.super);
    }
    OPAL_THREAD_UNLOCK(&endpoint->module->lock);
    return open;
}

/* The operation of TOKEN, which waits no more; NULL: there is none. */
static btl_verbena_served_t *take(btl_verbena_endpoint_t *endpoint, uint64_t token)
{
    btl_verbena_served_t *op, *found = NULL;

    OPAL_THREAD_LOCK(&endpoint->module->lock);
    OPAL_LIST_FOREACH(op, &endpoint->served, btl_verbena_served_t)
    {
        if (op->token == token) {
            found = op;
            break;
        }
    }
    if (found)
        opal_list_remove_item(&endpoint->served, &found->super.super);
    OPAL_THREAD_UNLOCK(&endpoint->module->lock);
    return found;
}

static btl_verbena_served_t *take_first(btl_verbena_endpoint_t *endpoint)
{
    opal_list_item_t *op;

    OPAL_THREAD_LOCK(&endpoint->module->lock);
    op = opal_list_remove_first(&endpoint->served);
    OPAL_THREAD_UNLOCK(&endpoint->module->lock);
    return (btl_verbena_served_t *)op;
}

static void served_end(btl_verbena_served_t *op, int opal_status)
{
    btl_verbena_module_t *module = op->endpoint->module;

    if (OPAL_LIKELY(!module->closing && op->cbfunc))
        op->cbfunc(&module->super, op->endpoint, op->local, op->local_handle, op->cbcontext,
                   op->cbdata, opal_status);
    opal_free_list_return(&module->served, &op->super);
}

void btl_verbena_served_fail(btl_verbena_endpoint_t *endpoint, int status)
{
    btl_verbena_served_t *op;

    while ((op = take_first(endpoint)))
        served_end(op, btl_verbena_opal_status(status));
}

/* Sends what R has, but for what is the same in all requests, for OP, which is given up where an
 * error is returned. */
static int submit(btl_verbena_served_t *op, struct request *r,
                  const mca_btl_base_registration_handle_t *remote_handle)
{
    btl_verbena_endpoint_t *endpoint = op->endpoint;
    int rc;

    if (OPAL_UNLIKELY(!await(endpoint, op))) {
        opal_free_list_return(&endpoint->module->served, &op->super);
        return OPAL_ERR_UNREACH;
    }
    r->token = htobe64(op->token);
    r->key = remote_handle->key;
    r->jobid = htonl(OPAL_PROC_MY_NAME.jobid);
    r->vpid = htonl(OPAL_PROC_MY_NAME.vpid);
    rc = send_text(endpoint, ID_REQUEST, r, sizeof(*r));
    if (OPAL_LIKELY(rc == OPAL_SUCCESS))
        return OPAL_SUCCESS;
    /* Unless its endpoint has been given up meanwhile, and with it this. */
    op = take(endpoint, be64toh(r->token));
    if (!op)
        return OPAL_SUCCESS;
    opal_free_list_return(&endpoint->module->served, &op->super);
    return rc;
}

/* What was there before, for who wants to know (WIDTH 0: nobody does). */
static void fetched(void *local, uint32_t width, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;

    if (width == sizeof(value))
        memcpy(local, &value, sizeof(value));
    else if (width == sizeof(narrow))
        memcpy(local, &narrow, sizeof(narrow));
}

/* 0: none of ours. Minima and maxima are none, for osc/rdma does not say whether what it compares
 * is signed; it does them by itself then. */
static enum what what_of(mca_btl_base_atomic_op_t op)
{
    switch (op) {
    case MCA_BTL_ATOMIC_ADD:
        return ADD;
    case MCA_BTL_ATOMIC_AND:
        return AND;
    case MCA_BTL_ATOMIC_OR:
        return OR;
    case MCA_BTL_ATOMIC_XOR:
        return XOR;
    case MCA_BTL_ATOMIC_SWAP:
        return SWAP;
    default:
        return 0;
    }
}

/* What all atomics have in common; LOCAL may be NULL. */
static int atomic(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint, void *local,
                  mca_btl_base_registration_handle_t *local_handle, struct request *r, int flags,
                  const mca_btl_base_registration_handle_t *remote_handle,
                  mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    uint32_t width = flags & MCA_BTL_ATOMIC_FLAG_32BIT ? 4 : 8;
    btl_verbena_served_t *op;

    /* Not OPAL_ERR_NOT_AVAILABLE, as btl.h says: osc/rdma asks for that again for ever, and for
     * what is not among our flags, too. */
    if (!r->what || (flags & MCA_BTL_ATOMIC_FLAG_FLOAT) || be64toh(r->address) % width)
        return OPAL_ERR_NOT_SUPPORTED;
    /* osc/rdma of 4.1.4 has no handle of memory that is shared with the peer, and mapped here. */
    if (OPAL_UNLIKELY(btl_verbena_is_own(endpoint) || !remote_handle)) {
        fetched(local, local ? width : 0, apply(r, be64toh(r->address), width));
        cbfunc(btl, endpoint, local, local_handle, cbcontext, cbdata, OPAL_SUCCESS);
        return OPAL_SUCCESS;
    }
    op = served_new(endpoint, local, local ? width : 0, local_handle, cbfunc, cbcontext, cbdata);
    r->width = htonl(width);
    return op ? submit(op, r, remote_handle) : OPAL_ERR_OUT_OF_RESOURCE;
}

int btl_verbena_atomic_op(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                          uint64_t remote_address,
                          mca_btl_base_registration_handle_t *remote_handle,
                          mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                          mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    return btl_verbena_atomic_fop(btl, endpoint, NULL, remote_address, NULL, remote_handle, op,
                                  operand, flags, order, cbfunc, cbcontext, cbdata);
}

int btl_verbena_atomic_fop(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                           void *local_address, uint64_t remote_address,
                           mca_btl_base_registration_handle_t *local_handle,
                           mca_btl_base_registration_handle_t *remote_handle,
                           mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
                           mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    struct request r = {
        .address = htobe64(remote_address), .value = htobe64(operand), .what = htonl(what_of(op))};

    (void)order;
    return atomic(btl, endpoint, local_address, local_handle, &r, flags, remote_handle, cbfunc,
                  cbcontext, cbdata);
}

int btl_verbena_atomic_cswap(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                             void *local_address, uint64_t remote_address,
                             mca_btl_base_registration_handle_t *local_handle,
                             mca_btl_base_registration_handle_t *remote_handle, uint64_t compare,
                             uint64_t value, int flags, int order,
                             mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext,
                             void *cbdata)
{
    struct request r = {.address = htobe64(remote_address),
                        .value = htobe64(value),
                        .compare = htobe64(compare),
                        .what = htonl(COMPARE_AND_SWAP)};

    (void)order;
    return atomic(btl, endpoint, local_address, local_handle, &r, flags, remote_handle, cbfunc,
                  cbcontext, cbdata);
}

int btl_verbena_served_get(btl_verbena_endpoint_t *endpoint, void *local, uint64_t remote,
                           mca_btl_base_registration_handle_t *local_handle,
                           const mca_btl_base_registration_handle_t *remote_handle, size_t len,
                           mca_btl_base_rdma_completion_fn_t cbfunc, void *cbcontext, void *cbdata)
{
    struct request r = {.address = htobe64(remote),
                        .value = htobe64((uintptr_t)local),
                        .compare = htobe64(len),
                        .put_key = local_handle->key,
                        .what = htonl(GET)};
    btl_verbena_served_t *op =
        served_new(endpoint, local, 0, local_handle, cbfunc, cbcontext, cbdata);

    return op ? submit(op, &r, remote_handle) : OPAL_ERR_OUT_OF_RESOURCE;
}

int btl_verbena_served_key(btl_verbena_endpoint_t *endpoint, uint64_t remote, size_t len,
                           uint32_t *key, mca_btl_base_rdma_completion_fn_t cbfunc, void *cbdata)
{
    struct request r = {.address = htobe64(remote), .compare = htobe64(len), .what = htonl(KEY)};
    btl_verbena_served_t *op = served_new(endpoint, key, sizeof(*key), NULL, cbfunc, NULL, cbdata);

    return op ? submit(op, &r, &no_key) : OPAL_ERR_OUT_OF_RESOURCE;
}

static void answer_came(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    btl_verbena_endpoint_t *endpoint = vbn_endpoint_user(peer);
    const struct answer *a = data;
    btl_verbena_served_t *op = NULL;

    (void)arg;
    (void)id;
    if (endpoint && len == sizeof(*a))
        op = take(endpoint, be64toh(a->token));
    if (OPAL_UNLIKELY(!op)) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl/verbena: dropped an answer of %zu bytes to nothing", len);
        return;
    }
    if (OPAL_UNLIKELY(!a->good && btl_verbena_is_osc(op->local_handle, op->cbdata)))
        btl_verbena_operation_failed(endpoint, "get or atomic operation",
                                     "the other process refused it.");
    if (OPAL_LIKELY(a->good))
        fetched(op->local, op->width, be64toh(a->value));
    served_end(op, a->good ? OPAL_SUCCESS : OPAL_ERROR);
}

/* --- the server ----------------------------------------------------------------------------- */

static void answer(btl_verbena_endpoint_t *endpoint, uint64_t token, bool good, uint64_t value)
{
    struct answer a = {.token = htobe64(token), .value = htobe64(value), .good = htonl(good)};
    int rc = send_text(endpoint, ID_ANSWER, &a, sizeof(a));

    if (good)
        atomic_fetch_add(&endpoint->module->served_count, 1);
    /* Who asked would wait for ever. */
    if (OPAL_UNLIKELY(rc == OPAL_ERR_OUT_OF_RESOURCE))
        btl_verbena_endpoint_error(endpoint->module, endpoint->peer, VBN_ERR_NO_MEMORY,
                                   "there is no memory for an answer to it");
}

static bool serve_atomic(btl_verbena_module_t *module, const struct request *r, uint64_t *old)
{
    uint64_t address = be64toh(r->address);
    uint32_t width = ntohl(r->width);
    bool good;

    if ((width != 4 && width != 8) || address % width)
        return false;
    /* The lock keeps the region. */
    OPAL_THREAD_LOCK(&module->lock);
    good = btl_verbena_atomic_may(module, ntohl(r->key), address, width);
    if (good)
        *old = apply(r, address, width);
    OPAL_THREAD_UNLOCK(&module->lock);
    return good;
}

static bool serve_key(btl_verbena_module_t *module, const struct request *r, uint64_t *found)
{
    uint32_t key = 0;
    bool good;

    OPAL_THREAD_LOCK(&module->lock);
    good = btl_verbena_window_has(module, be64toh(r->address), be64toh(r->compare), &key);
    OPAL_THREAD_UNLOCK(&module->lock);
    *found = key;
    return good;
}

void btl_verbena_served_put_ended(mca_btl_base_module_t *btl, btl_verbena_endpoint_t *endpoint,
                                  void *local, mca_btl_base_registration_handle_t *local_handle,
                                  void *context, void *data, int status)
{
    btl_verbena_served_t *get = data;

    (void)local;
    (void)context;
    btl_verbena_deregister_mem(btl, local_handle);
    answer(endpoint, get->token, status == OPAL_SUCCESS, 0);
    opal_free_list_return(&endpoint->module->served, &get->super);
}

/* Puts what R asks for from OURS, which goes with it; false: that cannot be done. */
static bool put_for_get(btl_verbena_endpoint_t *endpoint, const struct request *r,
                        mca_btl_base_registration_handle_t *ours)
{
    btl_verbena_module_t *module = endpoint->module;
    mca_btl_base_registration_handle_t theirs = {.key = r->put_key, .usable = htonl(1)};
    btl_verbena_served_t *get = (btl_verbena_served_t *)opal_free_list_get(&module->served);

    if (OPAL_UNLIKELY(!get))
        return false;
    get->token = be64toh(r->token);
    if (OPAL_LIKELY(btl_verbena_put(&module->super, endpoint, btl_verbena_at(be64toh(r->address)),
                                    be64toh(r->value), ours, &theirs, be64toh(r->compare), 0,
                                    MCA_BTL_NO_ORDER, btl_verbena_served_put_ended, NULL,
                                    get) == OPAL_SUCCESS))
        return true;
    opal_free_list_return(&module->served, &get->super);
    return false;
}

/* True where the answer comes when the put is over. */
static bool serve_get(btl_verbena_endpoint_t *endpoint, const struct request *r)
{
    btl_verbena_module_t *module = endpoint->module;
    uint64_t len = be64toh(r->compare);
    mca_btl_base_registration_handle_t *ours = NULL;

    if (len <= module->attr.max_rma_len)
        ours = btl_verbena_region_hold(module, ntohl(r->key), be64toh(r->address), len);
    if (OPAL_LIKELY(ours && put_for_get(endpoint, r, ours)))
        return true;
    if (ours)
        btl_verbena_deregister_mem(&module->super, ours);
    opal_output_verbose(1, opal_btl_base_framework.framework_output,
                        "btl/verbena: refused a get of %zu bytes", (size_t)len);
    return false;
}

/*
 * The endpoint of PEER, who asked. Where this process has not yet had to do with it the request
 * says who that is; NULL where that is not true. Open MPI makes a process of each name that it is
 * asked for: so only for those of this job. (Those of other jobs it knows since they were
 * connected.)
 */
static btl_verbena_endpoint_t *asking(btl_verbena_module_t *module, vbn_endpoint_t *peer,
                                      const struct request *r)
{
    opal_process_name_t name = {.jobid = ntohl(r->jobid), .vpid = ntohl(r->vpid)};
    btl_verbena_endpoint_t *endpoint = vbn_endpoint_user(peer);

    if (OPAL_LIKELY(endpoint != NULL))
        return endpoint;
    if (name.jobid != OPAL_PROC_MY_NAME.jobid || name.vpid >= module->ranks)
        return NULL;
    return btl_verbena_endpoint_of_peer(module, peer, name);
}

static void request_came(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    btl_verbena_module_t *module = arg;
    const struct request *r = data;
    btl_verbena_endpoint_t *endpoint =
        len == sizeof(*r) && !module->closing ? asking(module, peer, r) : NULL;
    uint64_t old = 0;
    bool good;

    (void)id;
    if (OPAL_UNLIKELY(!endpoint)) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output,
                            "btl/verbena: dropped a request of %zu bytes by nobody known", len);
        return;
    }
    if (ntohl(r->what) == GET) {
        if (!serve_get(endpoint, r))
            answer(endpoint, be64toh(r->token), false, 0);
        return;
    }
    if (ntohl(r->what) == KEY)
        good = serve_key(module, r, &old);
    else
        good = ntohl(r->what) >= ADD && ntohl(r->what) <= COMPARE_AND_SWAP &&
               serve_atomic(module, r, &old);
    answer(endpoint, be64toh(r->token), good, old);
}

bool btl_verbena_served_take(btl_verbena_module_t *module, vbn_endpoint_t *peer,
                             mca_btl_base_tag_t tag, void *data, size_t len)
{
    if (tag == ID_REQUEST)
        request_came(module, peer, tag, data, len);
    else if (tag == ID_ANSWER)
        answer_came(module, peer, tag, data, len);
    return tag == ID_REQUEST || tag == ID_ANSWER;
}

void btl_verbena_served_init(btl_verbena_module_t *module)
{
    module->ranks = btl_verbena_job_has(BTL_VERBENA_JOB_RANKS);
    vbn_am_handler(module->context, ID_REQUEST, request_came, module);
    vbn_am_handler(module->context, ID_ANSWER, answer_came, module);
}
