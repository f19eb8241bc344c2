/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport plugin whose faults depend on the name of its file: the test copies it to
 * verbena_<fault>.so. Names that stand for no fault are those of good transports.
 */
#include "fake.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct vbn_transport *vbn_transport_plugin(void);

static char name[64];

static bool is(const char *fault)
{
    return !strcmp(name, fault);
}

/* Programs can send and receive over these: with "deaf" a send goes on and a receive fails, with
 * "torn" rank 0 loses the peer that it has received from. */
static bool talks(void)
{
    return is("deaf") || is("torn");
}

static const struct vbn_param *fake_params(size_t *count)
{
    static const struct vbn_param params[] = {
        {"depth", VBN_PARAM_UINT, 0, 16, 1, 64, "requests", "how deep it is"},
        {"fast", VBN_PARAM_BOOL, 0, 1, 0, 1, "", "whether it is fast"},
        {"lane", VBN_PARAM_STRING, 0, 0, 0, 0, "", "which lane it takes"},
    };

    *count = 3;
    return params;
}

static int failure(struct vbn_error *err, const char *what)
{
    if (err) {
        err->status = VBN_ERR_DEVICE;
        snprintf(err->text, sizeof(err->text), "%s", what);
    }
    return VBN_ERR_DEVICE;
}

static int fake_query(struct vbn_error *err)
{
    return is("noquery") ? failure(err, "no such hardware") : VBN_OK;
}

/* The port of a program that sends: its peers do not know it. */
static struct fake_port *sender;

static int fake_open(const struct vbn_port_config *config, vbn_port_t **port, struct vbn_error *err)
{
    struct fake_port *made;

    if (is("noopen") || (is("noopen1") && config->rank == 1))
        return failure(err, "the door is locked");
    made = calloc(1, sizeof(*made));
    if (!made)
        return VBN_ERR_NO_MEMORY;
    made->rank = config->rank;
    made->job_key = config->job_key;
    made->peer_error = config->peer_error;
    made->callback_arg = config->callback_arg;
    for (size_t i = 0; i < config->setting_count; i++) {
        size_t len = strlen(made->settings);

        snprintf(made->settings + len, sizeof(made->settings) - len, "%s=%s;",
                 config->settings[i].name, config->settings[i].value);
    }
    if (talks())
        sender = made;
    *port = (vbn_port_t *)(void *)made;
    return VBN_OK;
}

/* Counted, for those that all ranks open or none. */
static int fake_close(vbn_port_t *port)
{
    struct fake_port *fake = (struct fake_port *)(void *)port;

    if (fake->closed)
        *fake->closed += 1;
    if (fake->sending)
        fprintf(stderr, "%s: a send was left under way\n", name);
    free(port);
    return VBN_OK;
}

static size_t fake_shutdown(vbn_port_t *port)
{
    struct fake_port *fake = (struct fake_port *)(void *)port;

    return fake->shutdowns++ < 3 ? 1 : 0;
}

/* As long as the rank says. */
static int fake_address(vbn_port_t *port, void *buf, size_t *len)
{
    const struct fake_port *fake = (struct fake_port *)(void *)port;
    size_t room = *len;

    *len = 10 + fake->rank;
    if (room < *len)
        return VBN_ERR_INVALID;
    if (is("noaddress") && fake->rank == 1)
        return VBN_ERR_DEVICE;
    memset(buf, 'a' + (int)fake->rank, *len);
    return VBN_OK;
}

static int fake_connect(vbn_port_t *port, const void *address, size_t len, void *user,
                        vbn_peer_t **peer, struct vbn_error *err)
{
    const char *letters = address;
    uintptr_t rank = (uintptr_t)user;

    (void)port;
    if (is("noconnect") && rank == 0)
        return failure(err, "no way there");
    if (len != 10 + rank || letters[0] != 'a' + (int)rank || letters[len - 1] != 'a' + (int)rank)
        return failure(err, "not its address");
    *peer = (vbn_peer_t *)(rank + 1000); /* only ever compared */
    return VBN_OK;
}

static int fake_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    (void)peer, (void)buf, (void)len, (void)tag;
    op->status = is("deaf") ? VBN_PENDING : VBN_OK;
    sender->sending = is("deaf") ? op : NULL;
    return op->status;
}

static int fake_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                     uint64_t mask, struct vbn_op *op)
{
    const struct fake_port *fake = (struct fake_port *)(void *)port;

    (void)tag, (void)mask;
    if (is("deaf"))
        return VBN_ERR_PEER_LOST;
    memset(buf, 0, len);
    if (fake->rank == 0)
        fake->peer_error(fake->callback_arg, peer, VBN_ERR_PEER_LOST, "it is gone");
    op->status = VBN_OK;
    return VBN_OK;
}

static int fake_wait(vbn_port_t *port, int timeout_ms)
{
    struct fake_port *fake = (struct fake_port *)(void *)port;

    if (fake->sending && timeout_ms < 0) {
        fake->sending->status = VBN_OK;
        fake->sending = NULL;
    }
    fake->waits++;
    sched_yield();
    return 0;
}

/* Fills the entries that nobody calls. */
static void unused(void)
{
    abort();
}

static void fill(struct vbn_transport *table)
{
    void (*entry)(void) = unused;

    for (size_t at = offsetof(struct vbn_transport, params); at < sizeof(*table);
         at += sizeof(entry))
        memcpy((char *)table + at, &entry, sizeof(entry));
    table->abi = is("older") ? 0x00000007u : is("newer") ? 0x00030002u : VBN_TRANSPORT_ABI;
    table->size = is("small")   ? VBN_TRANSPORT_SIZE_MIN - sizeof(void *)
                  : is("first") ? VBN_TRANSPORT_SIZE_MIN
                                : sizeof(*table);
    table->name = is("misnamed") ? "other" : name;
    table->version = "1.2.3";
    table->help = "A fake.";
    table->params = fake_params;
    table->query = fake_query;
    table->open = fake_open;
    table->close = fake_close;
    table->shutdown = fake_shutdown;
    table->address = fake_address;
    table->connect = fake_connect;
    table->wait = fake_wait;
    if (talks()) {
        table->send = fake_send;
        table->recv = fake_recv;
    }
    if (is("holes"))
        table->probe = NULL;
    if (is("plain"))
        table->half_join = NULL;
}

static struct vbn_transport tr;

static void make(void)
{
    Dl_info info;
    const char *file;

    if (!dladdr((const void *)name, &info))
        abort();
    file = strrchr(info.dli_fname, '/') + 1 + strlen("verbena_");
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(file, "."), file);
    fill(&tr);
}

const struct vbn_transport *vbn_transport_plugin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make);
    return is("nothing") ? NULL : &tr;
}
