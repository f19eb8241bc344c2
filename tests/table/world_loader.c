/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport that the loader opens: `VERBENA_MCA_transport=NAME test_table` drives NAME. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sched.h>

#include "verbena_loader.h"

static vbn_loader_t *loader;

int world_begin(void)
{
    struct vbn_error err;

    if (vbn_loader_create(NULL, NULL, &loader, &err) == VBN_OK)
        return 0;
    print_error("%s\n", err.text);
    return -1;
}

int world_end(void)
{
    vbn_loader_destroy(loader);
    return 0;
}

void world_open(const struct vbn_port_config *config, const struct vbn_transport **tr,
                vbn_port_t **port)
{
    struct vbn_error err;

    if (vbn_loader_open(loader, config, tr, port, &err) != VBN_OK)
        fail_msg("%s", err.text);
}

void world_idle(void)
{
    sched_yield();
}

bool world_has_time(void)
{
    return true;
}
