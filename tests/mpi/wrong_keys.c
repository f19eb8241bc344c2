/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, names a wrong key in some puts, and in some requests for what the
 * peer's process does, as osc/rdma may where a peer's list of attached memory moves under it.
 *
 *     mpirun … -x LD_PRELOAD=build/tests/mpi/.libs/wrong_keys.so PROGRAM
 */
#include "verbena.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    ONE_IN = 40,
    ID_REQUEST = 0x2e, /* of btl_verbena_served.c; */
    KEY_OFFSET = 32,   /* of its requests */
};
#define WRONG UINT32_C(0x00ffff00) /* bits */

static vbn_am_fn answer_request;
static unsigned put_count, request_count;

static void *really(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (!function)
        abort();
    return function;
}

int vbn_put(vbn_endpoint_t *ep, const void *local, const vbn_mem_t *mem, uint64_t remote_addr,
            uint32_t remote_key, size_t len, vbn_done_fn done, void *arg)
{
    int (*put)(vbn_endpoint_t *, const void *, const vbn_mem_t *, uint64_t, uint32_t, size_t,
               vbn_done_fn, void *);

    *(void **)&put = really("vbn_put");
    if (++put_count % ONE_IN == 0)
        remote_key ^= WRONG;
    return put(ep, local, mem, remote_addr, remote_key, len, done, arg);
}

static void request_came(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    uint32_t key;

    if (++request_count % ONE_IN == 0 && len >= KEY_OFFSET + sizeof(key)) {
        memcpy(&key, (char *)data + KEY_OFFSET, sizeof(key));
        key ^= WRONG;
        memcpy((char *)data + KEY_OFFSET, &key, sizeof(key));
    }
    answer_request(arg, peer, id, data, len);
}

void vbn_am_handler(vbn_context_t *ctx, uint8_t id, vbn_am_fn handler, void *arg)
{
    void (*set)(vbn_context_t *, uint8_t, vbn_am_fn, void *);

    *(void **)&set = really("vbn_am_handler");
    if (id == ID_REQUEST) {
        answer_request = handler;
        handler = request_came;
    }
    set(ctx, id, handler, arg);
}
