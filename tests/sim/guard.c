/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the fabric from several threads; see guard.h. */
#include "guard.h"
#include "fabric.h"

#include <errno.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

/* --- the lock --------------------------------------------------------------------------------- */

/* Offered by ThreadSanitizer's run time, where there is one. */
void AnnotateIgnoreSyncBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreSyncEnd(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreReadsBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreReadsEnd(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreWritesBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreWritesEnd(const char *file, int line) __attribute__((weak));

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int my_rank = -1;

static void enter(void)
{
    if (AnnotateIgnoreSyncBegin) {
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    pthread_mutex_lock(&mutex);
    fabric_enter(my_rank);
}

static void leave(void)
{
    int error = errno;

    pthread_mutex_unlock(&mutex);
    if (AnnotateIgnoreSyncEnd) {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    }
    errno = error;
}

/* What a call returned, once the lock is given back. */
static int left(int rc)
{
    leave();
    return rc;
}

static void *left_with(void *object)
{
    leave();
    return object;
}

void guard_enter_rank(int rank)
{
    my_rank = rank;
    enter();
    leave();
}

int guard_advance(uint64_t duration_ns)
{
    enter();
    return left(fabric_advance(duration_ns));
}

uint64_t guard_now_ns(void)
{
    uint64_t now;

    enter();
    now = fabric_now_ns();
    leave();
    return now;
}

uint64_t guard_random(uint64_t bound)
{
    uint64_t number;

    enter();
    number = fabric_random(bound);
    leave();
    return number;
}

/* --- the data path ---------------------------------------------------------------------------- */

static struct ibv_context_ops fabric_ops;

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    enter();
    return left(fabric_ops.poll_cq(cq, most, wc));
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    enter();
    return left(fabric_ops.post_send(qp, wr, bad));
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    enter();
    return left(fabric_ops.post_recv(qp, wr, bad));
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    enter();
    return left(fabric_ops.post_srq_recv(srq, wr, bad));
}

static int (*fabric_query_port)(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr,
                                size_t len);

static int query_port(struct ibv_context *verbs, uint8_t port, struct ibv_port_attr *attr,
                      size_t len)
{
    enter();
    return left(fabric_query_port(verbs, port, attr, len));
}

void guard_verbs(struct ibv_context *verbs)
{
    fabric_query_port = verbs_get_ctx(verbs)->query_port;
    verbs_get_ctx(verbs)->query_port = query_port;
    fabric_ops = verbs->ops; /* the same of every device */
    verbs->ops.poll_cq = poll_cq;
    verbs->ops.post_send = post_send;
    verbs->ops.post_recv = post_recv;
    verbs->ops.post_srq_recv = post_srq_recv;
}

/* --- libibverbs ------------------------------------------------------------------------------- */

struct ibv_cq *__real_ibv_create_cq(struct ibv_context *verbs, int entries, void *arg,
                                    struct ibv_comp_channel *channel, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *verbs, int entries, void *arg,
                                    struct ibv_comp_channel *channel, int vector);
struct ibv_qp *__real_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int __real_ibv_destroy_qp(struct ibv_qp *qp);
int __wrap_ibv_destroy_qp(struct ibv_qp *qp);
int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                       unsigned access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                       unsigned access);
int __real_ibv_dereg_mr(struct ibv_mr *mr);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr);
int __real_ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event);
int __wrap_ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event);
int __real__ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
int __wrap__ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
struct ibv_ah *__real_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int __real_ibv_destroy_ah(struct ibv_ah *ah);
int __wrap_ibv_destroy_ah(struct ibv_ah *ah);
int __real_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *mgid, uint16_t lid);
int __wrap_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *mgid, uint16_t lid);
int __real_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *mgid, uint16_t lid);
int __wrap_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *mgid, uint16_t lid);
void __real_ibv_ack_async_event(struct ibv_async_event *event);
void __wrap_ibv_ack_async_event(struct ibv_async_event *event);

int __wrap__ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    enter();
    return left(__real__ibv_query_gid_ex(verbs, port, index, entry, flags, entry_size));
}

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *verbs, int entries, void *arg,
                                    struct ibv_comp_channel *channel, int vector)
{
    enter();
    return left_with(__real_ibv_create_cq(verbs, entries, arg, channel, vector));
}

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    enter();
    return left_with(__real_ibv_create_qp(pd, init));
}

int __wrap_ibv_destroy_qp(struct ibv_qp *qp)
{
    enter();
    return left(__real_ibv_destroy_qp(qp));
}

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    enter();
    return left(__real_ibv_modify_qp(qp, attr, mask));
}

struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    enter();
    return left_with(__real_ibv_create_ah(pd, attr));
}

int __wrap_ibv_destroy_ah(struct ibv_ah *ah)
{
    enter();
    return left(__real_ibv_destroy_ah(ah));
}

int __wrap_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *mgid, uint16_t lid)
{
    enter();
    return left(__real_ibv_attach_mcast(qp, mgid, lid));
}

int __wrap_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *mgid, uint16_t lid)
{
    enter();
    return left(__real_ibv_detach_mcast(qp, mgid, lid));
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                       unsigned access)
{
    enter();
    return left_with(__real_ibv_reg_mr_iova2(pd, addr, len, iova, access));
}

int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
    enter();
    return left(__real_ibv_dereg_mr(mr));
}

int __wrap_ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
    enter();
    return left(__real_ibv_get_async_event(verbs, event));
}

void __wrap_ibv_ack_async_event(struct ibv_async_event *event)
{
    enter();
    __real_ibv_ack_async_event(event);
    leave();
}

/* --- librdmacm -------------------------------------------------------------------------------- */

int __real_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps);
int __wrap_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps);
int __real_rdma_destroy_id(struct rdma_cm_id *id);
int __wrap_rdma_destroy_id(struct rdma_cm_id *id);
int __real_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                             int timeout_ms);
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                             int timeout_ms);
int __real_rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int __wrap_rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int __real_rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int __wrap_rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int __real_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __real_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __real_rdma_establish(struct rdma_cm_id *id);
int __wrap_rdma_establish(struct rdma_cm_id *id);
int __real_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int __wrap_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int __real_rdma_disconnect(struct rdma_cm_id *id);
int __wrap_rdma_disconnect(struct rdma_cm_id *id);
int __real_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int __wrap_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int __real_rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
int __wrap_rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
int __real_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __real_rdma_ack_cm_event(struct rdma_cm_event *event);
int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event);

int __wrap_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    enter();
    return left(__real_rdma_create_id(channel, id, context, ps));
}

int __wrap_rdma_destroy_id(struct rdma_cm_id *id)
{
    enter();
    return left(__real_rdma_destroy_id(id));
}

int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                             int timeout_ms)
{
    enter();
    return left(__real_rdma_resolve_addr(id, src, dst, timeout_ms));
}

int __wrap_rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    enter();
    return left(__real_rdma_resolve_route(id, timeout_ms));
}

int __wrap_rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    enter();
    return left(__real_rdma_init_qp_attr(id, attr, mask));
}

int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    enter();
    return left(__real_rdma_connect(id, param));
}

int __wrap_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    enter();
    return left(__real_rdma_accept(id, param));
}

int __wrap_rdma_establish(struct rdma_cm_id *id)
{
    enter();
    return left(__real_rdma_establish(id));
}

int __wrap_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    enter();
    return left(__real_rdma_reject(id, data, len));
}

int __wrap_rdma_disconnect(struct rdma_cm_id *id)
{
    enter();
    return left(__real_rdma_disconnect(id));
}

int __wrap_rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    enter();
    return left(__real_rdma_join_multicast(id, addr, context));
}

int __wrap_rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    enter();
    return left(__real_rdma_leave_multicast(id, addr));
}

int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    enter();
    return left(__real_rdma_get_cm_event(channel, event));
}

int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event)
{
    enter();
    return left(__real_rdma_ack_cm_event(event));
}

/* --- the host ----------------------------------------------------------------------------------
 */

int __real_getifaddrs(struct ifaddrs **list);
int __wrap_getifaddrs(struct ifaddrs **list);
void __real_freeifaddrs(struct ifaddrs *list);
void __wrap_freeifaddrs(struct ifaddrs *list);

int __wrap_getifaddrs(struct ifaddrs **list)
{
    enter();
    return left(__real_getifaddrs(list));
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
    enter();
    __real_freeifaddrs(list);
    leave();
}
