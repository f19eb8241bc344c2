/* SPDX-License-Identifier: BSD-3-Clause */
/* A port's life: configuration, UCP's context and worker, and what a host may ask of it. */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t ucx_now_ms(const vbn_port_t *port)
{
    struct timespec ts;

    if (port->config.clock_ns)
        return port->config.clock_ns(port->config.callback_arg) / 1000000;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- configuration ---------------------------------------------------------------------------- */

static int set_option(ucp_config_t *config, const char *name, const char *value,
                      struct vbn_error *err)
{
    ucs_status_t status = ucp_config_modify(config, name, value);

    if (status == UCS_OK)
        return VBN_OK;
    return vbn_fail(err, VBN_ERR_INVALID, "UCX does not take \"%s\" for %s: %s", value, name,
                    ucs_status_string(status));
}

static int set_options(const vbn_port_t *port, ucp_config_t *config, struct vbn_error *err)
{
    const char *tls = ucx_string(&port->config, "tls");
    const char *devices = ucx_string(&port->config, "net_devices");
    char limit[24];
    int status;

    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)port->eager_limit + 1);
    status = set_option(config, "RNDV_THRESH", limit, err);
    if (status == VBN_OK && tls && *tls)
        status = set_option(config, "TLS", tls, err);
    if (status == VBN_OK && devices && *devices)
        status = set_option(config, "NET_DEVICES", devices, err);
    return status;
}

static int make_context(vbn_port_t *port, struct vbn_error *err)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 0,
    };
    ucp_config_t *config;
    ucs_status_t made = ucp_config_read(NULL, NULL, &config);
    int status;

    if (made != UCS_OK)
        return vbn_fail(err, ucx_status(made), "UCX cannot read its configuration: %s",
                        ucs_status_string(made));
    status = set_options(port, config, err);
    if (status == VBN_OK) {
        made = ucp_init(&params, config, &port->context);
        if (made != UCS_OK)
            status = vbn_fail(err, ucx_status(made),
                              "UCX cannot begin: %s; see what it says itself, and the parameters "
                              "transport_ucx_tls and transport_ucx_net_devices",
                              ucs_status_string(made));
    }
    ucp_config_release(config);
    return status;
}

static int make_worker(vbn_port_t *port, struct vbn_error *err)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode =
            port->config.multithreaded ? UCS_THREAD_MODE_SERIALIZED : UCS_THREAD_MODE_SINGLE,
    };
    ucs_status_t status = ucp_worker_create(port->context, &params, &port->worker);

    if (status == UCS_OK)
        status =
            ucp_worker_get_address(port->worker, &port->worker_address, &port->worker_address_len);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(port->worker, &port->event_fd);
    if (status == UCS_OK)
        return VBN_OK;
    return vbn_fail(err, ucx_status(status), "UCX cannot make a worker: %s",
                    ucs_status_string(status));
}

/* How long keys are depends on the devices: asked of a piece of memory. */
static int measure_key(vbn_port_t *port, struct vbn_error *err)
{
    vbn_region_t *region;
    char byte[64];
    int status = ucx_mem_register(port, byte, sizeof(byte),
                                  VBN_ACCESS_REMOTE_READ | VBN_ACCESS_REMOTE_WRITE, &region);

    if (status != VBN_OK)
        return vbn_fail(err, status, "UCX cannot register memory: %s", vbn_status_str(status));
    port->max_key = 0;
    ucx_mem_key(region, NULL, &port->max_key); /* too small: says how long */
    ucx_mem_deregister(region);
    port->max_key += 256; /* other memory may be reached by more of the devices */
    return VBN_OK;
}

/* --- open ------------------------------------------------------------------------------------- */

static int take_config(vbn_port_t *port, const struct vbn_port_config *config,
                       struct vbn_error *err)
{
    size_t size = config->size < sizeof(port->config) ? config->size : sizeof(port->config);
    int status;

    if (size < offsetof(struct vbn_port_config, job_key))
        return vbn_fail(err, VBN_ERR_INVALID, "size %zu is not that of struct vbn_port_config",
                        config->size);
    memcpy(&port->config, config, size);
    if (port->config.rank > UCX_RANK_MAX)
        return vbn_fail(err, VBN_ERR_INVALID, "rank %u is above %u", port->config.rank,
                        UCX_RANK_MAX);
    status = ucx_check_settings(&port->config, err);
    if (status == VBN_OK)
        status = ucx_number(&port->config, "eager_limit", &port->eager_limit, err);
    if (status == VBN_OK)
        status = ucx_number(&port->config, "peer_errors", &port->peer_errors, err);
    if (status == VBN_OK)
        status = ucx_number(&port->config, "close_timeout_ms", &port->close_timeout_ms, err);
    return status;
}

static void name_device(vbn_port_t *port)
{
    const char *tls = ucx_string(&port->config, "tls");

    snprintf(port->device, sizeof(port->device), "UCX %s%s%s", ucp_get_version_string(),
             tls && *tls ? " " : "", tls ? tls : "");
}

static int make_all(vbn_port_t *port, struct vbn_error *err)
{
    int status = make_context(port, err);

    if (status == VBN_OK)
        status = make_worker(port, err);
    return status == VBN_OK ? measure_key(port, err) : status;
}

int ucx_open(const struct vbn_port_config *config, vbn_port_t **port, struct vbn_error *err)
{
    vbn_port_t *made;
    int status;

    if (!config || !port)
        return vbn_fail(err, VBN_ERR_INVALID, "open needs a configuration and a port");
    made = calloc(1, sizeof(*made));
    if (!made)
        return vbn_fail(err, VBN_ERR_NO_MEMORY, "out of memory for a port");
    TAILQ_INIT(&made->failed);
    TAILQ_INIT(&made->going);
    TAILQ_INIT(&made->over);
    LIST_INIT(&made->regions);
    LIST_INIT(&made->rkeys);
    LIST_INIT(&made->closings);
    pthread_mutex_init(&made->lock, NULL);
    status = take_config(made, config, err);
    if (status == VBN_OK)
        status = make_all(made, err);
    if (status != VBN_OK) {
        ucx_free_port(made);
        return status;
    }
    name_device(made);
    made->config.settings = NULL; /* the caller's, and they end here */
    *port = made;
    return VBN_OK;
}

/* Frees what there is, of a port that was opened or half so. */
void ucx_free_port(vbn_port_t *port)
{
    while (!LIST_EMPTY(&port->rkeys))
        ucx_rkey_release(LIST_FIRST(&port->rkeys));
    while (!LIST_EMPTY(&port->regions))
        ucx_mem_deregister(LIST_FIRST(&port->regions));
    if (port->worker_address)
        ucp_worker_release_address(port->worker, port->worker_address);
    if (port->worker)
        ucp_worker_destroy(port->worker);
    if (port->context)
        ucp_cleanup(port->context);
    while (port->peers)
        ucx_free_peer(port->peers);
    pthread_mutex_destroy(&port->lock);
    free(port);
}

/* --- what it is ------------------------------------------------------------------------------- */

void ucx_attr(vbn_port_t *port, struct vbn_port_attr *attr)
{
    struct vbn_port_attr full = {.size = sizeof(full)};
    size_t size;

    if (!port || !attr)
        return;
    size = attr->size < sizeof(full) ? attr->size : sizeof(full);
    full.size = attr->size;
    full.device = port->device;
    full.eager_limit = port->eager_limit;
    full.max_send = UCX_MAX_LEN;
    full.max_rma = UCX_MAX_LEN;
    full.max_address = 4 * port->worker_address_len + 4096; /* a peer may have more devices */
    full.max_key = port->max_key;
    memcpy(attr, &full, size);
}

void ucx_counters(vbn_port_t *port, struct vbn_counters *counters)
{
    size_t size;

    if (!port || !counters)
        return;
    size = counters->size < sizeof(*counters) ? counters->size : sizeof(*counters);
    ucx_lock(port);
    port->counters.size = counters->size;
    memcpy(counters, &port->counters, size);
    ucx_unlock(port);
}
