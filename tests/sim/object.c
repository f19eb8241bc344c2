/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all objects share: birth, death, being told apart from the dead and from other ranks',
 * the list that finds leaks; and the file descriptors that programs may poll.
 */
#include "sim.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const char *const kind_names[SIM_KINDS] = {
    [SIM_CONTEXT] = "device context",
    [SIM_PD] = "PD",
    [SIM_MR] = "MR",
    [SIM_CHANNEL] = "completion channel",
    [SIM_CQ] = "CQ",
    [SIM_SRQ] = "SRQ",
    [SIM_QP] = "QP",
    [SIM_CM_CHANNEL] = "CM event channel",
    [SIM_CM_ID] = "CM id",
    [SIM_CM_EVENT] = "CM event",
    [SIM_AH] = "address handle",
    [SIM_ATTACHMENT] = "attachment to a group",
    [SIM_MEMBER] = "group membership",
};

const char *sim_kind_name(enum sim_kind kind)
{
    return kind_names[kind];
}

void *sim_obj_new(enum sim_kind kind, size_t bytes, size_t obj_offset)
{
    char *memory = sim_zalloc(bytes);
    struct sim_obj *obj = (struct sim_obj *)(memory + obj_offset);
    obj->magic = SIM_ALIVE;
    obj->kind = (uint8_t)kind;
    obj->rank = sim.current;
    obj->number = ++sim.numbers[kind];
    obj->next = sim.objects;
    sim.objects = obj;
    sim.alive[kind]++;
    if (kind != SIM_CM_EVENT)
        sim_trace(SIM_T_CREATE, kind, obj->number, 0);
    return memory;
}

void sim_obj_kill(struct sim_obj *obj)
{
    obj->magic = SIM_DEAD;
    sim.alive[obj->kind]--;
    if (obj->kind != SIM_CM_EVENT)
        sim_trace(SIM_T_DESTROY, obj->kind, obj->number, 0);
}

bool sim_obj_check(const struct sim_obj *obj, enum sim_kind kind, const char *call)
{
    if (obj->magic == SIM_DEAD && obj->kind == kind) {
        sim_violation("%s: %s %u was destroyed before", call, kind_names[kind], obj->number);
        return false;
    }
    if (obj->magic != SIM_ALIVE || obj->kind != kind) {
        sim_violation("%s: not a %s", call, kind_names[kind]);
        return false;
    }
    if (sim.current >= 0 && obj->rank != sim.current) {
        sim_violation("%s: %s %u belongs to rank %d, called by rank %d", call, kind_names[kind],
                      obj->number, obj->rank, sim.current);
        return false;
    }
    return true;
}

static bool is_leak(const struct sim_obj *obj)
{
    return obj->magic == SIM_ALIVE && !obj->hidden && !sim_rank_is_dead(obj->rank);
}

int sim_leaks_report(void)
{
    int leaks = 0;
    for (struct sim_obj *obj = sim.objects; obj; obj = obj->next) {
        if (!is_leak(obj))
            continue;
        leaks++;
        if (obj->kind == SIM_CM_EVENT)
            sim_violation("leak: rank %d never acknowledged CM event %u", obj->rank, obj->number);
        else
            sim_violation("leak: rank %d never destroyed %s %u", obj->rank, kind_names[obj->kind],
                          obj->number);
    }
    return leaks;
}

static void fds_close(struct sim_obj *obj)
{
    if (obj->kind == SIM_CONTEXT)
        sim_fd_close(&SIM_OF(obj, struct sim_context, obj)->async);
    else if (obj->kind == SIM_CHANNEL)
        sim_fd_close(&SIM_OF(obj, struct sim_channel, obj)->event);
    else if (obj->kind == SIM_CM_CHANNEL)
        sim_fd_close(&SIM_OF(obj, struct sim_cm_channel, obj)->event);
}

static void rings_free(struct sim_obj *obj)
{
    if (obj->kind == SIM_CQ)
        sim_release(SIM_OF(obj, struct sim_cq, obj)->ring);
    else if (obj->kind == SIM_CHANNEL)
        sim_release(SIM_OF(obj, struct sim_channel, obj)->queue);
    else if (obj->kind == SIM_CM_ID)
        sim_release(SIM_OF(obj, struct sim_id, obj)->id.route.path_rec);
    else if (obj->kind == SIM_ATTACHMENT)
        sim_release(SIM_OF(obj, struct sim_attachment, obj)->last_ns);
}

/* Every object begins with its struct sim_obj, so that is what was allocated. */
void sim_objects_free(void)
{
    while (sim.objects) {
        struct sim_obj *obj = sim.objects;
        sim.objects = obj->next;
        if (obj->magic == SIM_ALIVE)
            fds_close(obj);
        rings_free(obj);
        sim_release(obj);
    }
}

/* ---- descriptors: readable exactly while their queue holds something ---- */

void sim_fd_open(struct sim_fd *fd)
{
    fd->fd = eventfd(0, EFD_CLOEXEC);
    fd->raised = fd->nonblocking = false;
    if (fd->fd < 0)
        sim_violation("out of file descriptors: raise the hard limit (ulimit -Hn)");
}

void sim_fd_close(struct sim_fd *fd)
{
    if (fd->fd >= 0)
        close(fd->fd);
    fd->fd = -1;
}

void sim_fd_raise(struct sim_fd *fd)
{
    if (fd->raised)
        return;
    fd->raised = eventfd_write(fd->fd, 1) == 0;
}

void sim_fd_lower(struct sim_fd *fd)
{
    eventfd_t value;
    if (!fd->raised)
        return;
    fd->raised = eventfd_read(fd->fd, &value) != 0;
}

int sim_fd_empty(struct sim_fd *fd, const char *call)
{
    if (!fd->nonblocking)
        fd->nonblocking = (fcntl(fd->fd, F_GETFL) & O_NONBLOCK) != 0;
    if (!fd->nonblocking)
        sim_violation("%s would block: nothing to read and the descriptor is blocking", call);
    return sim_err(EAGAIN);
}
