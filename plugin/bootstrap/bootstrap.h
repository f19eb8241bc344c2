/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the bootstrap library share. */
#ifndef VBN_BOOTSTRAP_INTERNAL_H
#define VBN_BOOTSTRAP_INTERNAL_H

#include "verbena_bootstrap.h"
#include "../fail.h"

/* What one rank tells the others in a round. */
struct verdict {
    int32_t status;
    char text[sizeof(((struct vbn_error *)0)->text)];
};

/* A job, from the inside. */
struct job {
    struct vbn_job shown; /* the caller's view */
    struct vbn_oob oob;
    struct vbn_port_config base; /* the caller's callbacks */
    bool owns_loader_and_oob;
    unsigned lost; /* peers */
};

static inline struct job *job_of(struct vbn_job *shown)
{
    return (struct job *)(void *)shown; /* its first member */
}

/* --- agree.c ---------------------------------------------------------------------------------- */

/* Tells all ranks this one's STATUS and *ERR. Returns VBN_OK where all have that, otherwise the
 * first rank's status that is not, with all that differ named in *ERR. */
int agree_on(const struct vbn_oob *oob, int status, struct vbn_error *err);
/* Opens on all ranks the first transport that all can. */
int agree_transport(struct job *job, struct vbn_error *err);
/* Tells the addresses, and makes peers. */
int agree_peers(struct job *job, struct vbn_error *err);
/* Tells the nodes' processors. */
int agree_processors(struct job *job, struct vbn_error *err);

#endif
