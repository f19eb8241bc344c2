/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI in the place of a transport: the table and the job that verbena-perf works with, over MPI's
 * calls, so that the same measurements are taken of MPI over whatever it runs on. Only what they
 * need is here.
 *
 * Operation. A send or receive is a request, which progress() tests with all others. A receive may
 * leave the lowest bit of its tag open: that bit is the message's tag, and the others choose one of
 * several communicators. Puts and gets are passive-target ones of a window over the registered
 * memory of all ranks, which ask for its key together; progress() flushes them, so they are over
 * when their data are in place. One job a process, whose operations have no `done`.
 */
#include "perf.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum {
    COMMS = 32,
    OPS_PER_RANK = 4200, /* at once: the largest window, and some */
};

struct vbn_peer {
    int rank;
};

struct vbn_region {
    MPI_Win win; /* from the first key on */
    void *base;
    size_t len;
};

struct vbn_rkey {
    uint64_t base; /* of the peer's memory */
};

struct vbn_port {
    MPI_Comm comms[COMMS];
    MPI_Request *requests; /* of `ops`; `done` and `statuses` take what testing tells */
    struct vbn_op **ops;
    int *done;
    MPI_Status *statuses;
    int count, room;
    struct vbn_region region;
    struct vbn_op **moves; /* puts and gets that are not flushed; as much room */
    int move_count;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
};

/* --- requests -----------------------------------------------------------------------------------
 */

static MPI_Comm comm_of(const struct vbn_port *port, uint64_t tag)
{
    return port->comms[(tag >> 1) % COMMS];
}

static int begun(struct vbn_port *port, struct vbn_op *op)
{
    port->ops[port->count++] = op;
    op->status = VBN_PENDING;
    return VBN_PENDING;
}

/* The one job's port; peers have no other way to it. */
static struct vbn_port the_port;

static int mpi_send(vbn_peer_t *peer, const void *buf, size_t len, uint64_t tag, struct vbn_op *op)
{
    struct vbn_port *port = &the_port;

    if (port->count == port->room)
        return VBN_ERR_AGAIN;
    op->tag = tag;
    if (MPI_Isend(buf, (int)len, MPI_BYTE, peer->rank, (int)(tag & 1), comm_of(port, tag),
                  &port->requests[port->count]))
        return VBN_ERR_DEVICE;
    return begun(port, op);
}

static int mpi_recv(vbn_port_t *port, vbn_peer_t *peer, void *buf, size_t len, uint64_t tag,
                    uint64_t mask, struct vbn_op *op)
{
    if (port->count == port->room)
        return VBN_ERR_AGAIN;
    op->tag = tag;
    if (MPI_Irecv(buf, (int)len, MPI_BYTE, peer ? peer->rank : MPI_ANY_SOURCE,
                  mask & 1 ? (int)(tag & 1) : MPI_ANY_TAG, comm_of(port, tag),
                  &port->requests[port->count]))
        return VBN_ERR_DEVICE;
    return begun(port, op);
}

/* Those that are over leave the list, whose order means nothing. */
static int test_requests(struct vbn_port *port)
{
    int n = 0, kept = 0, count = port->count;
    int rc = MPI_Testsome(count, port->requests, &n, port->done, port->statuses);

    if (n == MPI_UNDEFINED || (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS))
        n = 0;
    for (int i = 0; i < n; i++) {
        struct vbn_op *op = port->ops[port->done[i]];
        bool failed = rc != MPI_SUCCESS && port->statuses[i].MPI_ERROR != MPI_SUCCESS;

        if (port->statuses[i].MPI_TAG >= 0)
            op->tag |= (uint64_t)(port->statuses[i].MPI_TAG & 1);
        port->ops[port->done[i]] = NULL;
        op->status = failed ? VBN_ERR_DEVICE : VBN_OK;
    }
    for (int i = 0; n && i < count; i++) {
        if (!port->ops[i])
            continue;
        port->requests[kept] = port->requests[i];
        port->ops[kept++] = port->ops[i];
    }
    if (n)
        port->count = kept;
    return n;
}

/* --- puts and gets ------------------------------------------------------------------------------
 */

/* Messages need no registration of their memory, and not every path of MPI has windows. */
static int mpi_mem_register(vbn_port_t *port, void *addr, size_t len, unsigned access,
                            vbn_region_t **region)
{
    (void)access;
    port->region = (struct vbn_region){.win = MPI_WIN_NULL, .base = addr, .len = len};
    *region = &port->region;
    return VBN_OK;
}

static void mpi_mem_deregister(vbn_region_t *region)
{
    if (region->win == MPI_WIN_NULL)
        return;
    MPI_Win_unlock_all(region->win);
    MPI_Win_free(&region->win);
}

/* All ranks together. */
static int open_window(struct vbn_region *region)
{
    if (MPI_Win_create(region->base, (MPI_Aint)region->len, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &region->win) ||
        MPI_Win_lock_all(MPI_MODE_NOCHECK, region->win))
        return VBN_ERR_DEVICE;
    return VBN_OK;
}

static int mpi_mem_key(vbn_region_t *region, void *buf, size_t *len)
{
    uint64_t base = (uintptr_t)region->base;
    bool fits = *len >= sizeof(base);

    *len = sizeof(base);
    if (!fits)
        return VBN_ERR_INVALID;
    memcpy(buf, &base, sizeof(base));
    return region->win == MPI_WIN_NULL ? open_window(region) : VBN_OK;
}

static int mpi_rkey_import(vbn_peer_t *peer, const void *buf, size_t len, vbn_rkey_t **rkey)
{
    (void)peer;
    if (len != sizeof((*rkey)->base))
        return VBN_ERR_INVALID;
    *rkey = malloc(sizeof(**rkey));
    if (!*rkey)
        return VBN_ERR_NO_MEMORY;
    memcpy(&(*rkey)->base, buf, len);
    return VBN_OK;
}

static void mpi_rkey_release(vbn_rkey_t *rkey)
{
    free(rkey);
}

/* OP is among those to be flushed. */
static int moving(struct vbn_port *port, struct vbn_op *op)
{
    port->moves[port->move_count++] = op;
    op->status = VBN_PENDING;
    return VBN_PENDING;
}

static int mpi_put(vbn_peer_t *peer, const void *local, vbn_region_t *region, uint64_t remote,
                   vbn_rkey_t *rkey, size_t len, struct vbn_op *op)
{
    if (the_port.move_count == the_port.room)
        return VBN_ERR_AGAIN;
    if (MPI_Put(local, (int)len, MPI_BYTE, peer->rank, (MPI_Aint)(remote - rkey->base), (int)len,
                MPI_BYTE, region->win))
        return VBN_ERR_DEVICE;
    return moving(&the_port, op);
}

static int mpi_get(vbn_peer_t *peer, void *local, vbn_region_t *region, uint64_t remote,
                   vbn_rkey_t *rkey, size_t len, struct vbn_op *op)
{
    if (the_port.move_count == the_port.room)
        return VBN_ERR_AGAIN;
    if (MPI_Get(local, (int)len, MPI_BYTE, peer->rank, (MPI_Aint)(remote - rkey->base), (int)len,
                MPI_BYTE, region->win))
        return VBN_ERR_DEVICE;
    return moving(&the_port, op);
}

static int flush(struct vbn_port *port)
{
    int n = port->move_count, rc = MPI_Win_flush_all(port->region.win);

    port->move_count = 0;
    for (int i = 0; i < n; i++)
        port->moves[i]->status = rc ? VBN_ERR_DEVICE : VBN_OK;
    return n;
}

/* --- the table ----------------------------------------------------------------------------------
 */

static int mpi_progress(vbn_port_t *port)
{
    int n = port->move_count ? flush(port) : 0, flag;

    if (port->count)
        n += test_requests(port);
    else
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, port->comms[0], &flag, MPI_STATUS_IGNORE);
    return n;
}

/* MPI has its own way to wait, in whatever it is told. */
static int mpi_wait(vbn_port_t *port, int timeout_ms)
{
    (void)timeout_ms;
    return mpi_progress(port);
}

static void mpi_attr(vbn_port_t *port, struct vbn_port_attr *attr)
{
    attr->device = port->library;
    attr->eager_limit = 0;
    attr->max_send = attr->max_rma = INT_MAX;
    attr->max_address = 0;
    attr->max_key = sizeof(uint64_t);
}

static const struct vbn_transport mpi_transport = {
    .abi = VBN_TRANSPORT_ABI,
    .size = sizeof(struct vbn_transport),
    .name = "mpi",
    .help = "MPI, over whatever it runs on",
    .attr = mpi_attr,
    .send = mpi_send,
    .recv = mpi_recv,
    .mem_register = mpi_mem_register,
    .mem_deregister = mpi_mem_deregister,
    .mem_key = mpi_mem_key,
    .rkey_import = mpi_rkey_import,
    .rkey_release = mpi_rkey_release,
    .put = mpi_put,
    .get = mpi_get,
    .progress = mpi_progress,
    .wait = mpi_wait,
};

/* --- the job ------------------------------------------------------------------------------------
 */

static void open_port(struct vbn_port *port)
{
    int len;

    MPI_Get_library_version(port->library, &len);
    port->library[strcspn(port->library, ",\n")] = '\0';
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &port->comms[i]);
}

static bool take_memory(struct vbn_port *port, struct vbn_job *job)
{
    struct vbn_peer *all = calloc(job->ranks, sizeof(*all));

    port->room = (int)job->ranks * OPS_PER_RANK;
    port->requests = calloc((size_t)port->room, sizeof(*port->requests));
    port->ops = calloc((size_t)port->room, sizeof(struct vbn_op *));
    port->done = calloc((size_t)port->room, sizeof(*port->done));
    port->statuses = calloc((size_t)port->room, sizeof(*port->statuses));
    port->moves = calloc((size_t)port->room, sizeof(struct vbn_op *));
    job->peers = calloc(job->ranks, sizeof(vbn_peer_t *));
    for (uint32_t i = 0; all && job->peers && i < job->ranks; i++) {
        all[i].rank = (int)i;
        job->peers[i] = &all[i];
    }
    return all && job->peers && port->requests && port->ops && port->done && port->statuses &&
           port->moves;
}

int vbn_job_start(int *argc, char **argv, struct vbn_job **job, struct vbn_error *err)
{
    static struct vbn_job the_job;
    int rank, ranks;

    MPI_Init(argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    open_port(&the_port);
    /* As if each had a processor: where they do not, MPI itself gives it away. */
    the_job = (struct vbn_job){.rank = (uint32_t)rank,
                               .ranks = (uint32_t)ranks,
                               .local_ranks = 1,
                               .tr = &mpi_transport,
                               .port = &the_port};
    *job = &the_job;
    if (take_memory(&the_port, &the_job))
        return VBN_OK;
    strcpy(err->text, "no memory for the operations of all ranks");
    return VBN_ERR_NO_MEMORY;
}

int vbn_job_destroy(struct vbn_job *job)
{
    struct vbn_port *port = job->port;

    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&port->comms[i]);
    free(port->requests);
    free(port->ops);
    free(port->done);
    free(port->statuses);
    free(port->moves);
    free(job->peers[0]); /* and with it all others */
    free(job->peers);
    return MPI_Finalize() ? VBN_ERR_DEVICE : VBN_OK;
}

int vbn_job_barrier(struct vbn_job *job)
{
    (void)job;
    return MPI_Barrier(MPI_COMM_WORLD) ? VBN_ERR_DEVICE : VBN_OK;
}

int vbn_job_allgather(struct vbn_job *job, const void *mine, size_t len, void *all)
{
    (void)job;
    return MPI_Allgather(mine, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, MPI_COMM_WORLD)
               ? VBN_ERR_DEVICE
               : VBN_OK;
}
