/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a queue pair takes of a device, its library and the kernel, where it is made as the
 * transport makes them: with a shared receive queue, and the send queue and inline room of the
 * usual options.
 *
 *     tests/rxe/run -- build/tests/device/qp_memory [QUEUE_PAIRS [SEND_QUEUE_DEPTH]]
 *
 * Prints the memory of this process and that of the whole host, for each queue pair.
 */
#include "verbena.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct device {
    struct ibv_context *verbs;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
};

static void need(int good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(EXIT_FAILURE);
}

static struct device device_open(void)
{
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4096, .max_sge = 1}};
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct device d = {0};

    need(list && list[0], "no device");
    d.verbs = ibv_open_device(list[0]);
    need(d.verbs != NULL, "open");
    d.pd = ibv_alloc_pd(d.verbs);
    need(d.pd != NULL, "protection domain");
    d.cq = ibv_create_cq(d.verbs, 16384, NULL, NULL, 0);
    need(d.cq != NULL, "completion queue");
    d.srq = ibv_create_srq(d.pd, &srq);
    need(d.srq != NULL, "shared receive queue");
    printf("%s: ", ibv_get_device_name(list[0]));
    ibv_free_device_list(list);
    return d;
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    need(file && fscanf(file, "%ld %ld", &pages, &resident) == 2, "/proc/self/statm");
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static long available_kib(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    long kib = -1;

    need(file != NULL, "/proc/meminfo");
    while (kib < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "MemAvailable:", 13) == 0)
            kib = strtol(line + 13, NULL, 10);
    fclose(file);
    need(kib >= 0, "MemAvailable");
    return kib;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 512;
    struct vbn_options options;
    struct device d = device_open();
    long resident, available;

    vbn_options_init(&options, sizeof(options));
    if (argc > 2)
        options.sq_depth = strtoull(argv[2], NULL, 10);
    resident = resident_kib();
    available = available_kib();
    for (int i = 0; i < count; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = d.cq,
            .recv_cq = d.cq,
            .srq = d.srq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = (uint32_t)options.sq_depth + 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = (uint32_t)options.inline_limit},
        };

        need(ibv_create_qp(d.pd, &init) != NULL, "queue pair"); /* gone with this process */
    }
    printf(
        "%d queue pairs of %u requests: %.1f KiB each in this process, %.1f KiB each on the host\n",
        count, (unsigned)options.sq_depth, (double)(resident_kib() - resident) / count,
        (double)(available - available_kib()) / count);
    return EXIT_SUCCESS;
}
