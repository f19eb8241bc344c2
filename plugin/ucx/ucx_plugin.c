/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the transport over UCX, and its parameters. */
#include "ucx.h"

#include <string.h>

static const struct vbn_param params[] = {
    {"tls", VBN_PARAM_STRING, 0, 0, 0, 0, "",
     "UCX's own transports to use, as in UCX_TLS; empty: UCX chooses"},
    {"net_devices", VBN_PARAM_STRING, 0, 0, 0, 0, "",
     "network devices to use, as in UCX_NET_DEVICES; empty: UCX chooses"},
    {"eager_limit", VBN_PARAM_UINT, 0, 8192, 0, 1u << 30, "bytes",
     "longest tagged message that leaves without waiting for its receiver"},
    {"peer_errors", VBN_PARAM_UINT, 0, 1, 0, 1, "",
     "1: a peer that dies is reported, for which UCX leaves out its transports that cannot tell, "
     "such as shared memory; 0: any transport, and no report"},
    {"close_timeout_ms", VBN_PARAM_UINT, 0, 5000, 10, 600000, "ms", "time that closing may take"},
};
#define PARAM_COUNT (sizeof(params) / sizeof(params[0]))

const struct vbn_param *ucx_params(size_t *count)
{
    *count = PARAM_COUNT;
    return params;
}

static const struct vbn_param *find(const char *name)
{
    for (size_t i = 0; i < PARAM_COUNT; i++)
        if (!strcmp(params[i].name, name))
            return &params[i];
    return NULL;
}

int ucx_check_settings(const struct vbn_port_config *config, struct vbn_error *err)
{
    for (size_t i = 0; i < config->setting_count; i++)
        if (!find(config->settings[i].name))
            return vbn_fail(err, VBN_ERR_INVALID, "there is no parameter \"%s\"",
                            config->settings[i].name);
    return VBN_OK;
}

/* The last one counts. */
const char *ucx_string(const struct vbn_port_config *config, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < config->setting_count; i++)
        if (!strcmp(config->settings[i].name, name))
            value = config->settings[i].value;
    return value;
}

int ucx_number(const struct vbn_port_config *config, const char *name, uint64_t *value,
               struct vbn_error *err)
{
    const struct vbn_param *param = find(name);
    const char *text = ucx_string(config, name);

    *value = param->def;
    return text ? vbn_param_number(param, text, value, err) : VBN_OK;
}

/* Where there is a libucp there is some transport of UCX's: shared memory and TCP need nothing. */
static int ucx_query(struct vbn_error *err)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if (major == UCP_API_MAJOR && minor >= UCP_API_MINOR)
        return VBN_OK;
    return vbn_fail(err, VBN_ERR_VERSION, "UCX %u.%u is installed, but it was built with %u.%u",
                    major, minor, UCP_API_MAJOR, UCP_API_MINOR);
}

static const struct vbn_transport table = {
    .abi = VBN_TRANSPORT_ABI,
    .size = sizeof(table),
    .name = "ucx",
    .version = VBN_VERSION,
    .help = "Whatever UCX offers here: its network devices, TCP, shared memory.",
    .params = ucx_params,
    .query = ucx_query,
    .open = ucx_open,
    .close = ucx_close,
    .shutdown = ucx_shutdown,
    .attr = ucx_attr,
    .address = ucx_address,
    .connect = ucx_connect,
    .peer_user = ucx_peer_user,
    .disconnect = ucx_disconnect,
    .send = ucx_send,
    .recv = ucx_recv,
    .probe = ucx_probe,
    .cancel = ucx_cancel,
    .mem_register = ucx_mem_register,
    .mem_deregister = ucx_mem_deregister,
    .mem_key = ucx_mem_key,
    .rkey_import = ucx_rkey_import,
    .rkey_release = ucx_rkey_release,
    .put = ucx_put,
    .get = ucx_get,
    .progress = ucx_progress,
    .wait = ucx_wait,
    .event_fd = ucx_event_fd,
    .arm = ucx_arm,
    .counters = ucx_counters,
};

const struct vbn_transport *vbn_transport_plugin(void);

const struct vbn_transport *vbn_transport_plugin(void)
{
    return &table;
}
