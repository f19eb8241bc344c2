/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator's members by node, and its parts: `low`, the members of each node, and `up`, one
 * leader of each. Owns the two communicators of them.
 *
 * The parts are made by all members together at the first blocking collective. If a member fails,
 * all of them hear of it by an allreduce of the components below, which keep the communicator then.
 *
 * Numbers. The members of a part agree about its number by messages of their own, and wait for no
 * other communicator that is being made: a rank may have begun an MPI_Comm_idup(), of this
 * communicator or another, that the others begin later, or may be making other parts in another
 * thread.
 */
#include "coll_verbena.h"

#include "ompi/mca/coll/base/coll_tags.h"

#include "opal/datatype/opal_datatype.h"
#include "opal/util/output.h"

#include <mpi.h>
#include <stdlib.h>

#define ROOM_KEPT_BYTES (1 << 20)

/* Of the messages by which a part's members agree about its number. Of those who want one Open MPI
 * serves the smallest first, by their communicators and tags; a negative one waits for nobody. */
#define TAG OMPI_COMM_BARRIER_TAG

/* --- who is where
 * --------------------------------------------------------------------------------------------- */

typedef struct member {
    uint64_t id; /* of its node */
    int rank;
} member_t;

static int by_id_and_rank(const void *left, const void *right)
{
    const member_t *a = left, *b = right;

    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* LEADER gets each member's: the first of those with its id. */
static void leaders_find(member_t *members, int size, int *leader)
{
    int first = 0;

    qsort(members, (size_t)size, sizeof(*members), by_id_and_rank);
    for (int i = 0; i < size; i++) {
        if (members[i].id == 0 || members[i].id != members[first].id)
            first = i;
        leader[members[i].rank] = members[first].rank;
    }
}

/* `counts` is free for counting the members of each node. */
static void nodes_number(coll_verbena_split_t *split, const int *leader, int size)
{
    split->in_order = true;
    for (int i = 0; i < size; i++) {
        int node = leader[i] == i ? split->nodes++ : split->node[leader[i]];

        split->node[i] = node;
        split->place[i] = split->counts[node]++;
        if (i > 0 && node < split->node[i - 1])
            split->in_order = false;
    }
}

coll_verbena_split_t *coll_verbena_split_new(const uint64_t *ids, int size)
{
    coll_verbena_split_t *split = calloc(1, sizeof(*split));
    member_t *members = calloc((size_t)size, sizeof(*members));
    int *arrays = calloc(4 * (size_t)size, sizeof(int));

    if (!split || !members || !arrays) {
        free(arrays);
        free(members);
        free(split);
        return NULL;
    }
    split->low = split->up = MPI_COMM_NULL;
    split->node = arrays;
    split->place = arrays + size;
    split->counts = arrays + 2 * size;
    split->displs = arrays + 3 * size;
    for (int i = 0; i < size; i++)
        members[i] = (member_t){ids[i], i};
    leaders_find(members, size, split->displs);
    nodes_number(split, split->displs, size);
    free(members);
    return split;
}

/* --- the parts
 * --------------------------------------------------------------------------------------------- */

static int part_set(ompi_communicator_t *comm, int *members, int count, ompi_communicator_t **made)
{
#ifdef OMPI_COMM_SET_FLAG_COPY_TOPOLOGY
    return ompi_comm_set(made, comm, count, members, 0, NULL, NULL, comm->error_handler, NULL, NULL,
                         0);
#else
    return ompi_comm_set(made, comm, count, members, 0, NULL, NULL, comm->error_handler, false,
                         NULL, NULL);
#endif
}

/* As MPI_Comm_create_group() makes it of COUNT MEMBERS of COMM, but without COMM's attributes. */
static bool part_make(ompi_communicator_t *comm, int *members, int count,
                      ompi_communicator_t **part)
{
    ompi_communicator_t *made = MPI_COMM_NULL;
    int tag = TAG;

    if (part_set(comm, members, count, &made) != OMPI_SUCCESS)
        return false;
    if (ompi_comm_nextcid(made, comm, NULL, &tag, NULL, false, OMPI_COMM_CID_GROUP) !=
        OMPI_SUCCESS) {
        OBJ_RELEASE(made);
        return false;
    }
    if (ompi_comm_activate(&made, comm, NULL, &tag, NULL, false, OMPI_COMM_CID_GROUP) !=
        OMPI_SUCCESS)
        return false;
    *part = made;
    /* MPI_Finalize() releases communicators by number, and would release it before COMM. */
    if (OMPI_COMM_CID_IS_LOWER(made, comm)) {
        OMPI_COMM_SET_EXTRA_RETAIN(made);
        OBJ_RETAIN(made);
    }
    return true;
}

/* The members of node NODE, or the leaders of all nodes for -1; returns how many they are. */
static int members_list(const coll_verbena_split_t *split, int size, int node, int *members)
{
    int count = 0;

    for (int i = 0; i < size; i++)
        if (node < 0 ? split->place[i] == 0 : split->node[i] == node)
            members[count++] = i;
    return count;
}

/* `displs` is free for lists of members. */
static bool own_parts_make(coll_verbena_split_t *split, ompi_communicator_t *comm)
{
    int rank = ompi_comm_rank(comm), size = ompi_comm_size(comm), count;

    count = members_list(split, size, split->node[rank], split->displs);
    if (!part_make(comm, split->displs, count, &split->low))
        return false;
    if (split->place[rank] != 0)
        return true;
    count = members_list(split, size, -1, split->displs);
    return part_make(comm, split->displs, count, &split->up);
}

static void parts_make(coll_verbena_module_t *module, ompi_communicator_t *comm)
{
    const mca_coll_base_comm_coll_t *below = &module->below;
    coll_verbena_split_t *split = module->split;
    int good = own_parts_make(split, comm), all_good = 0;

    if (below->coll_allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm,
                              below->coll_allreduce_module) != OMPI_SUCCESS)
        all_good = 0;
    split->state = all_good ? COLL_VERBENA_SPLIT : COLL_VERBENA_NEVER;
    if (ompi_comm_rank(comm) == 0)
        opal_output_verbose(1, ompi_coll_base_framework.framework_output,
                            "coll verbena: communicator %u: %d ranks on %d nodes%s",
                            coll_verbena_number(comm), ompi_comm_size(comm), split->nodes,
                            all_good ? "" : ", which have no communicators");
}

bool coll_verbena_split_ready(coll_verbena_module_t *module, ompi_communicator_t *comm)
{
    if (module->split->state == COLL_VERBENA_WHOLE)
        parts_make(module, comm);
    return module->split->state == COLL_VERBENA_SPLIT;
}

void coll_verbena_split_free(coll_verbena_split_t *split)
{
    if (!split)
        return;
    if (split->low != MPI_COMM_NULL)
        ompi_comm_free(&split->low);
    if (split->up != MPI_COMM_NULL)
        ompi_comm_free(&split->up);
    free(split->room);
    free(split->node);
    free(split);
}

/* --- room
 * --------------------------------------------------------------------------------------------- */

void *coll_verbena_split_room(coll_verbena_split_t *split, size_t count, ompi_datatype_t *type)
{
    ptrdiff_t gap;
    size_t bytes = (size_t)opal_datatype_span(&type->super, count, &gap);

    if (bytes > split->room_bytes || !split->room) {
        free(split->room);
        split->room = malloc(bytes ? bytes : 1);
        split->room_bytes = split->room ? bytes : 0;
    }
    return split->room ? (char *)split->room - gap : NULL;
}

void coll_verbena_split_leave_room(coll_verbena_split_t *split)
{
    if (split->room_bytes <= ROOM_KEPT_BYTES)
        return;
    free(split->room);
    split->room = NULL;
    split->room_bytes = 0;
}
