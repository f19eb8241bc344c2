/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport table over a context: a port is a context and its caller's callbacks, a peer is an
 * endpoint, a region is a registered region.
 */
#include "config.h"

#include "context.h"
#include "error.h"
#include "group.h"
#include "rma.h"
#include "verbena_transport.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

struct vbn_port {
    vbn_context_t *ctx;
    bool borrowed; /* the context is not the port's own */
    struct vbn_port_config config;
};

struct vbn_rkey {
    const vbn_peer_t *peer;
    uint32_t key;
};

static vbn_endpoint_t *ep_of(const vbn_peer_t *peer)
{
    return (vbn_endpoint_t *)(uintptr_t)peer;
}

static vbn_mem_t *mem_of(vbn_region_t *region)
{
    return (vbn_mem_t *)region;
}

/* Writes LEN bytes at DATA as a blob of the table. */
static int write_blob(const void *data, size_t have, void *buf, size_t *len)
{
    bool fits = buf && *len >= have;

    if (fits)
        memcpy(buf, data, have);
    *len = have;
    return fits ? VBN_OK : VBN_ERR_INVALID;
}

/* --- opening and closing ------------------------------------------------------------------------
 */

static void on_log(void *arg, enum vbn_log_level level, const char *text)
{
    const struct vbn_port *port = arg;

    port->config.log(port->config.callback_arg, level, text);
}

/* Of whom the host has not named, who may be anybody, it knows nothing, and need not. */
static void on_endpoint_error(void *arg, vbn_endpoint_t *ep, int status, const char *reason)
{
    const struct vbn_port *port = arg;

    if (ep->claimed)
        port->config.peer_error(port->config.callback_arg, (vbn_peer_t *)ep, status, reason);
}

static uint64_t on_clock(void *arg)
{
    const struct vbn_port *port = arg;

    return port->config.clock_ns(port->config.callback_arg);
}

static uint64_t on_random(void *arg)
{
    const struct vbn_port *port = arg;

    return port->config.random(port->config.callback_arg);
}

static int options_from(const struct vbn_port_config *config, struct vbn_port *port,
                        struct vbn_options *opts, struct vbn_error *err)
{
    int rc = VBN_OK;

    vbn_options_init(opts, sizeof(*opts));
    for (size_t i = 0; i < config->setting_count && rc == VBN_OK; i++)
        rc = vbn_options_set(opts, config->settings[i].name, config->settings[i].value, err);
    opts->multithreaded = config->multithreaded;
    opts->job_key = config->job_key;
    opts->callback_arg = port;
    opts->log = config->log ? on_log : NULL;
    opts->endpoint_error = config->peer_error ? on_endpoint_error : NULL;
    opts->clock_ns = config->clock_ns ? on_clock : NULL;
    opts->random = config->random ? on_random : NULL;
    return rc;
}

static int rc_query(struct vbn_error *err)
{
    return vbn_device_any(err);
}

static int rc_open(const struct vbn_port_config *config, vbn_port_t **out, struct vbn_error *err)
{
    struct vbn_options opts;
    struct vbn_port *port;
    int rc;

    if (!config || !out || config->size < offsetof(struct vbn_port_config, random))
        return vbn_error_set(err, VBN_ERR_INVALID, "open: the port's configuration is malformed");
    port = calloc(1, sizeof(*port));
    if (!port)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "out of memory");
    memcpy(&port->config, config, vbn_min(config->size, sizeof(port->config)));
    rc = options_from(&port->config, port, &opts, err);
    if (rc == VBN_OK)
        rc = vbn_open(&opts, &port->ctx, err);
    if (rc) {
        free(port);
        return rc;
    }
    *out = port;
    return VBN_OK;
}

static int rc_close(vbn_port_t *port)
{
    int rc;

    if (!port)
        return VBN_ERR_INVALID;
    rc = port->borrowed ? VBN_OK : vbn_close(port->ctx);
    free(port);
    return rc;
}

int vbn_rc_port(vbn_context_t *ctx, vbn_port_t **out)
{
    struct vbn_port *port = ctx && out ? calloc(1, sizeof(*port)) : NULL;

    if (!port)
        return ctx && out ? VBN_ERR_NO_MEMORY : VBN_ERR_INVALID;
    port->ctx = ctx;
    port->borrowed = true;
    *out = port;
    return VBN_OK;
}

static size_t rc_shutdown(vbn_port_t *port)
{
    return port && !port->borrowed ? vbn_shutdown(port->ctx) : 0;
}

static void rc_attr(vbn_port_t *port, struct vbn_port_attr *attr)
{
    struct vbn_port_attr full = {
        .max_send = VBN_WIRE_LEN_MAX,
        .max_address = VBN_ADDRESS_MAX,
        .max_key = sizeof(uint32_t),
    };

    if (!port || !attr)
        return;
    full.device = port->ctx->device.name;
    full.eager_limit = port->ctx->tags.eager_limit;
    full.max_rma = port->ctx->device.max_msg_size;
    full.size = vbn_min(attr->size, sizeof(full));
    memcpy(attr, &full, full.size);
}

/* --- peers
 * ---------------------------------------------------------------------------------------- */

static int rc_address(vbn_port_t *port, void *buf, size_t *len)
{
    char address[VBN_ADDRESS_MAX];
    size_t have = sizeof(address);
    int rc;

    if (!port || !len)
        return VBN_ERR_INVALID;
    rc = vbn_address(port->ctx, address, &have);
    return rc ? rc : write_blob(address, have, buf, len);
}

static int rc_connect(vbn_port_t *port, const void *address, size_t len, void *user,
                      vbn_peer_t **peer, struct vbn_error *err)
{
    vbn_endpoint_t *ep;
    int rc;

    if (!port || !address || !peer)
        return vbn_error_set(err, VBN_ERR_INVALID, "connect: an argument is NULL");
    rc = vbn_endpoint_create(port->ctx, address, len, user, &ep, err);
    if (rc == VBN_OK)
        *peer = (vbn_peer_t *)ep;
    return rc;
}

static void *rc_peer_user(const vbn_peer_t *peer)
{
    return peer ? vbn_endpoint_user(ep_of(peer)) : NULL;
}

static void rc_disconnect(vbn_peer_t *peer)
{
    if (peer)
        vbn_endpoint_close(ep_of(peer));
}

static int rc_half_create(vbn_port_t *port, void *buf, size_t *len, vbn_half_t **half,
                          struct vbn_error *err)
{
    if (!port || !buf || !len || !half)
        return vbn_error_set(err, VBN_ERR_INVALID, "half_create: an argument is NULL");
    return vbn_half_create(port->ctx, buf, len, half, err);
}

static int rc_half_join(vbn_half_t *half, const void *blob, size_t len, void *user,
                        vbn_peer_t **peer, struct vbn_error *err)
{
    vbn_endpoint_t *ep;
    int rc;

    if (!half || !blob || !peer)
        return vbn_error_set(err, VBN_ERR_INVALID, "half_join: an argument is NULL");
    rc = vbn_half_join(half, blob, len, user, &ep, err);
    if (rc == VBN_OK)
        *peer = (vbn_peer_t *)ep;
    return rc;
}

static void rc_half_destroy(vbn_half_t *half)
{
    if (half)
        vbn_half_destroy(half);
}

/* --- tagged messages
 * -------------------------------------------------------------------------------- */

static int rc_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    if (!peer || !op)
        return VBN_ERR_INVALID;
    return vbn_tag_send(ep_of(peer), buf, len, tag, op);
}

static bool belongs(const vbn_port_t *port, const vbn_peer_t *peer)
{
    return port && (!peer || ep_of(peer)->ctx == port->ctx);
}

static int rc_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                   uint64_t mask, struct vbn_op *op)
{
    if (!belongs(port, peer) || !op)
        return VBN_ERR_INVALID;
    return vbn_tag_recv(port->ctx, ep_of(peer), buf, len, tag, mask, op);
}

static int rc_recv_ready(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                         struct vbn_op *op)
{
    if (!peer || !belongs(port, peer) || !op)
        return VBN_ERR_INVALID;
    return vbn_tag_recv_ready(ep_of(peer), buf, len, tag, op);
}

static int rc_probe(vbn_port_t *port, vbn_peer_t *peer, uint64_t tag, uint64_t mask,
                    struct vbn_op *found)
{
    if (!belongs(port, peer) || !found)
        return VBN_ERR_INVALID;
    return vbn_tag_probe(port->ctx, ep_of(peer), tag, mask, found);
}

static int rc_cancel(vbn_port_t *port, struct vbn_op *op)
{
    return port && op ? vbn_tag_cancel(port->ctx, op) : VBN_ERR_INVALID;
}

/* --- groups
 * ------------------------------------------------------------------------------------------ */

static int rc_group_open(vbn_port_t *port, uint64_t key, vbn_peer_t *const *peers, uint32_t count,
                         uint32_t me, vbn_group_t **group, struct vbn_error *err)
{
    if (!port || !peers || !group)
        return vbn_error_set(err, VBN_ERR_INVALID, "group_open: an argument is NULL");
    return vbn_group_open(port->ctx, key, peers, count, me, group, err);
}

static int rc_group_ready(const vbn_group_t *group)
{
    return group ? vbn_group_ready(group) : VBN_ERR_INVALID;
}

static int rc_group_send(vbn_group_t *group, const void *buf, size_t len, uint64_t tag,
                         struct vbn_op *op)
{
    return group && op ? vbn_group_send(group, buf, len, tag, op) : VBN_ERR_INVALID;
}

static void rc_group_close(vbn_group_t *group)
{
    if (group)
        vbn_group_close(group);
}

/* --- memory
 * ------------------------------------------------------------------------------------------ */

static int rc_mem_register(vbn_port_t *port, void *addr, size_t len, unsigned access,
                           vbn_region_t **region)
{
    vbn_mem_t *mem;
    int rc;

    if (!port || !region)
        return VBN_ERR_INVALID;
    rc = vbn_mem_register(port->ctx, addr, len, access, &mem);
    if (rc != VBN_OK)
        return rc;
    vbn_mem_lend(mem);
    *region = (vbn_region_t *)mem;
    return VBN_OK;
}

static void rc_mem_deregister(vbn_region_t *region)
{
    if (region)
        vbn_mem_deregister(mem_of(region));
}

static int rc_mem_key(vbn_region_t *region, void *buf, size_t *len)
{
    uint32_t key;

    if (!region || !len)
        return VBN_ERR_INVALID;
    key = htole32(vbn_mem_rkey(mem_of(region)));
    return write_blob(&key, sizeof(key), buf, len);
}

static int rc_rkey_import(vbn_peer_t *peer, const void *buf, size_t len, vbn_rkey_t **rkey)
{
    uint32_t key;

    if (!peer || !buf || len != sizeof(key) || !rkey)
        return VBN_ERR_INVALID;
    *rkey = malloc(sizeof(**rkey));
    if (!*rkey)
        return VBN_ERR_NO_MEMORY;
    memcpy(&key, buf, sizeof(key));
    (*rkey)->peer = peer;
    (*rkey)->key = le32toh(key);
    return VBN_OK;
}

static void rc_rkey_release(vbn_rkey_t *rkey)
{
    free(rkey);
}

static void rma_done(void *arg, vbn_endpoint_t *ep, int status)
{
    vbn_op_done_fn done = vbn_op_end(arg, status);

    (void)ep;
    if (done)
        done(arg);
}

/* OP is a put or a get, whatever it was before. */
static void begin(struct vbn_op *op)
{
    op->status = VBN_PENDING;
    vbn_tag_of(op)->state = VBN_TAG_NONE;
}

static int started(int rc)
{
    return rc == VBN_OK ? VBN_PENDING : rc;
}

static int rc_put(vbn_peer_t *peer, const void *local, vbn_region_t *region, uint64_t remote,
                  vbn_rkey_t *rkey, size_t len, struct vbn_op *op)
{
    if (!peer || !region || !rkey || rkey->peer != peer || !op)
        return VBN_ERR_INVALID;
    begin(op);
    return started(
        vbn_put(ep_of(peer), local, mem_of(region), remote, rkey->key, len, rma_done, op));
}

static int rc_get(vbn_peer_t *peer, void *local, vbn_region_t *region, uint64_t remote,
                  vbn_rkey_t *rkey, size_t len, struct vbn_op *op)
{
    if (!peer || !region || !rkey || rkey->peer != peer || !op)
        return VBN_ERR_INVALID;
    begin(op);
    return started(
        vbn_get(ep_of(peer), local, mem_of(region), remote, rkey->key, len, rma_done, op));
}

/* --- progress
 * ---------------------------------------------------------------------------------------- */

static int rc_progress(vbn_port_t *port)
{
    return port ? vbn_progress(port->ctx) : VBN_ERR_INVALID;
}

static int rc_wait(vbn_port_t *port, int timeout_ms)
{
    return port ? vbn_wait(port->ctx, timeout_ms) : VBN_ERR_INVALID;
}

static int rc_event_fd(vbn_port_t *port)
{
    return port ? vbn_event_fd(port->ctx) : VBN_ERR_INVALID;
}

static int rc_arm(vbn_port_t *port, int *timeout_ms)
{
    return port && timeout_ms ? vbn_arm(port->ctx, timeout_ms) : VBN_ERR_INVALID;
}

static void rc_counters(vbn_port_t *port, struct vbn_counters *counters)
{
    if (port && counters)
        vbn_counters(port->ctx, counters);
}

static const struct vbn_transport table = {
    .abi = VBN_TRANSPORT_ABI,
    .size = sizeof(struct vbn_transport),
    .name = "rc",
    .version = PACKAGE_VERSION,
    .help = "reliable-connected queue pairs over any verbs device",
    .params = vbn_params,
    .query = rc_query,
    .open = rc_open,
    .close = rc_close,
    .shutdown = rc_shutdown,
    .attr = rc_attr,
    .address = rc_address,
    .connect = rc_connect,
    .peer_user = rc_peer_user,
    .disconnect = rc_disconnect,
    .send = rc_send,
    .recv = rc_recv,
    .probe = rc_probe,
    .cancel = rc_cancel,
    .mem_register = rc_mem_register,
    .mem_deregister = rc_mem_deregister,
    .mem_key = rc_mem_key,
    .rkey_import = rc_rkey_import,
    .rkey_release = rc_rkey_release,
    .put = rc_put,
    .get = rc_get,
    .progress = rc_progress,
    .wait = rc_wait,
    .event_fd = rc_event_fd,
    .arm = rc_arm,
    .counters = rc_counters,
    .half_create = rc_half_create,
    .half_join = rc_half_join,
    .half_destroy = rc_half_destroy,
    .recv_ready = rc_recv_ready,
    .group_open = rc_group_open,
    .group_ready = rc_group_ready,
    .group_send = rc_group_send,
    .group_close = rc_group_close,
};

const struct vbn_transport *vbn_rc_transport(void)
{
    return &table;
}
