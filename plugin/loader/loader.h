/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the loader share. */
#ifndef VBN_LOADER_INTERNAL_H
#define VBN_LOADER_INTERNAL_H

#include "verbena_loader.h"
#include "../fail.h"

#include <sys/queue.h>

/* Who gave a value, the weakest first. */
enum giver { GIVEN_BY_PROGRAM, GIVEN_BY_FILE, GIVEN_BY_ENVIRONMENT, GIVEN_BY_COMMAND_LINE };

/* A value that somebody gave. */
struct given {
    STAILQ_ENTRY(given) next;
    enum giver giver;
    char *name, *value;
    char *origin; /* for people: "command line", "environment", "FILE:LINE", "program" */
};

/* Parameters below one prefix; the loader's own have the empty one. */
struct table {
    STAILQ_ENTRY(table) next;
    char *prefix;
    const struct vbn_param *params;
    size_t count;
};

/* A transport that is installed. It is loaded when somebody wants to know more than its name. */
struct candidate {
    STAILQ_ENTRY(candidate) next;
    char *name;
    char *path;                     /* NULL: built in */
    const struct vbn_transport *tr; /* NULL: not loaded yet, or it cannot be */
    struct vbn_error error;         /* why it cannot be */
};

struct vbn_loader {
    STAILQ_HEAD(, given) given;
    STAILQ_HEAD(, table) tables;
    STAILQ_HEAD(, candidate) candidates;
    bool found; /* candidates were looked for */
    char *help_topic;
};

/* --- given.c: who gave what ------------------------------------------------------------------- */

int loader_give(vbn_loader_t *loader, enum giver giver, const char *origin, const char *name,
                const char *value, struct vbn_error *err);
/* The value of NAME that counts, or NULL. */
const struct given *loader_given(const vbn_loader_t *loader, const char *name);
int loader_take_arguments(vbn_loader_t *loader, int *argc, char **argv, struct vbn_error *err);
int loader_take_environment(vbn_loader_t *loader, struct vbn_error *err);

/* --- file.c ----------------------------------------------------------------------------------- */

/* Reads the user's parameter file, if there is one. */
int loader_take_file(vbn_loader_t *loader, struct vbn_error *err);

/* --- params.c: which parameters there are ----------------------------------------------------- */

extern const struct vbn_param loader_own_params[];
extern const size_t loader_own_param_count;

int loader_add_table(vbn_loader_t *loader, const char *prefix, const struct vbn_param *params,
                     size_t count, struct vbn_error *err);
/* The parameter NAME (in full) in the tables there are, or NULL. */
const struct vbn_param *loader_param(const vbn_loader_t *loader, const char *name);
/* Whether TEXT is allowed for PARAM, which is called NAME. */
int loader_check_value(const struct vbn_param *param, const char *name, const char *text,
                       struct vbn_error *err);
/* The value of the loader's own number NAME. */
uint64_t loader_own_number(const vbn_loader_t *loader, const char *name);

/* Whether NAME is PREFIX_<something>; gives the something, or NULL. */
const char *loader_below(const char *name, const char *prefix);

/* --- find.c: which transports there are ------------------------------------------------------- */

/* Looks for transports, the first time. */
int loader_find(vbn_loader_t *loader, struct vbn_error *err);
/* Among those found; NULL: none of this name. */
struct candidate *loader_candidate(vbn_loader_t *loader, const char *name);
/* The one whose parameter NAME (in full) would be, by its prefix; NULL: none that was found. */
struct candidate *loader_owner(const vbn_loader_t *loader, const char *name);
int loader_add_candidate(vbn_loader_t *loader, const char *name, const char *path,
                         const struct vbn_transport *tr, struct vbn_error *err);

/* --- load.c ----------------------------------------------------------------------------------- */

/* Loads the transport and makes its parameters known. Returns its error's status. */
int loader_load(vbn_loader_t *loader, struct candidate *candidate);

/* --- nearest.c -------------------------------------------------------------------------------- */

/* Remembers of several names the one that is nearest to a word that was mistyped. */
struct nearest {
    const char *word;
    size_t distance;
    char name[96];
};
void nearest_init(struct nearest *nearest, const char *word);
void nearest_offer(struct nearest *nearest, const char *name);
/* Whether the nearest is near enough to be what was meant. */
bool nearest_found(const struct nearest *nearest);

#endif
