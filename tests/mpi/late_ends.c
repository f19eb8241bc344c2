/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a program, keeps the messages by which ob1 hears of the end of its transfers, and
 * brings them while the context is closed. Who waits for such a transfer waits for ever.
 *
 *     mpirun … -x LD_PRELOAD=build/tests/mpi/.libs/late_ends.so PROGRAM
 */
#include "verbena.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ID_FIN = 0x49, /* MCA_PML_OB1_HDR_TYPE_FIN */
    MOST = 64,
    LEN_MAX = 64
};

static struct {
    vbn_endpoint_t *peer;
    size_t len;
    char data[LEN_MAX];
} kept[MOST];
static unsigned count;
static vbn_am_fn take;
static void *taker;

static void *really(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (!function)
        abort();
    return function;
}

static void keep(void *arg, vbn_endpoint_t *peer, uint8_t id, void *data, size_t len)
{
    (void)arg;
    (void)id;
    if (count == MOST || len > LEN_MAX)
        abort();
    kept[count].peer = peer;
    kept[count].len = len;
    memcpy(kept[count++].data, data, len);
}

void vbn_am_handler(vbn_context_t *ctx, uint8_t id, vbn_am_fn handler, void *arg)
{
    void (*set)(vbn_context_t *, uint8_t, vbn_am_fn, void *);

    *(void **)&set = really("vbn_am_handler");
    if (id == ID_FIN) {
        take = handler;
        taker = arg;
        handler = keep;
    }
    set(ctx, id, handler, arg);
}

int vbn_close(vbn_context_t *ctx)
{
    int (*close)(vbn_context_t *);

    *(void **)&close = really("vbn_close");
    fprintf(stderr, "late ends: %u\n", count);
    for (unsigned i = 0; take && i < count; i++)
        take(taker, kept[i].peer, ID_FIN, kept[i].data, kept[i].len);
    return close(ctx);
}
