/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loader: reads a user's parameters and opens one of the transports that are installed.
 *
 *     vbn_loader_create → vbn_loader_add_params … → vbn_loader_check → vbn_loader_open
 *         → the transport's table … → its close() → vbn_loader_destroy
 *
 * A parameter NAME gets its value from the strongest of
 *     --mca NAME VALUE        on the command line, anywhere before an argument `--`
 *     VERBENA_MCA_NAME        in the environment
 *     NAME = VALUE            in $VERBENA_PARAM_FILE, or else ~/.verbena/params.conf
 *     vbn_loader_set()        the program's own wish
 * where the later of two equals wins. A name that nobody knows is an error, wherever it is from.
 *
 * Everything hangs off a loader; several may be there. A loader is used by one thread at a time.
 * Nothing blocks but vbn_loader_open() and vbn_loader_open_one(), as the transports' open() does.
 * Shared objects that were loaded stay loaded when the loader goes: libraries under them may have
 * hooked themselves into the process.
 */
#ifndef VERBENA_LOADER_H
#define VERBENA_LOADER_H

#include "verbena_transport.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vbn_loader vbn_loader_t;

/* Not an error, but nothing was opened: the user asked for help, see vbn_loader_help(). */
#define VBN_LOADER_HELP 2

/*
 * Makes a loader with the user's values. ARGC and ARGV are main()'s (or both NULL): `--mca NAME
 * VALUE` is taken out of them, up to an argument `--`. The texts of ARGV must live as long as it.
 * VBN_ERR_INVALID: an incomplete --mca, a bad line in a parameter file, or a file that cannot be
 * read; VBN_ERR_NO_MEMORY. *ERR (may be NULL) says what and where. *LOADER is the caller's.
 */
int vbn_loader_create(int *argc, char **argv, vbn_loader_t **loader, struct vbn_error *err);

/* Frees LOADER (may be NULL) and its texts. Ports that it opened must have been closed. */
void vbn_loader_destroy(vbn_loader_t *loader);

/*
 * Makes COUNT parameters known as PREFIX_<name>, for instance a host's own or the collectives'.
 * PREFIX is copied, PARAMS is not and must outlive LOADER; their `offset` says nothing here.
 * VBN_ERR_INVALID: the prefix is empty or taken; VBN_ERR_NO_MEMORY.
 */
int vbn_loader_add_params(vbn_loader_t *loader, const char *prefix, const struct vbn_param *params,
                          size_t count, struct vbn_error *err);

/* Sets NAME (in full, as in --mca) to VALUE, weaker than the user's word. Both are copied. Judged
 * by vbn_loader_check(). VBN_ERR_NO_MEMORY. */
int vbn_loader_set(vbn_loader_t *loader, const char *name, const char *value,
                   struct vbn_error *err);

/*
 * Judges all values. To be called when every table was added; vbn_loader_open() does so too.
 * VBN_LOADER_HELP: the user asked for help. VBN_ERR_INVALID: an unknown name, for which the nearest
 * known one is proposed, or a value that is not allowed; *ERR (may be NULL) names its origin.
 */
int vbn_loader_check(vbn_loader_t *loader, struct vbn_error *err);

/*
 * Prints what the user asked for by `--mca help TOPIC` (a transport, a prefix, `transport` or
 * `all`); without such a wish, all. The caller then ends the program as it sees fit. Returns
 * VBN_OK, or VBN_ERR_INVALID with *ERR (may be NULL) where there is no such topic.
 */
int vbn_loader_help(vbn_loader_t *loader, FILE *out, struct vbn_error *err);

/* The value of NAME (in full) that somebody gave; NULL: nobody did, so it has its default. Lives as
 * long as LOADER. */
const char *vbn_loader_value(const vbn_loader_t *loader, const char *name);

/*
 * The values that somebody gave for the parameters below PREFIX, under their bare names, as
 * vbn_port_config takes them. *SETTINGS is the caller's to free(); its texts live as long as
 * LOADER. VBN_ERR_NO_MEMORY.
 */
int vbn_loader_settings(const vbn_loader_t *loader, const char *prefix,
                        struct vbn_setting **settings, size_t *count);

/*
 * The names of the transports to be tried, in their order, as the parameter `transport` says.
 * *NAMES is the caller's to free(), its texts live as long as LOADER. Errors as vbn_loader_check(),
 * and VBN_ERR_INVALID where a transport that was asked for by name is not there or cannot be used.
 */
int vbn_loader_order(vbn_loader_t *loader, const char ***names, size_t *count,
                     struct vbn_error *err);

/*
 * Opens the transport NAME with BASE and the user's values; BASE->settings are not looked at, see
 * vbn_loader_set(). *TR and *PORT are set on success; the caller closes the port by TR->close().
 * Errors as the transport's query() and open(), and VBN_ERR_NO_DEVICE: there is no such transport,
 * or it cannot be used. *ERR (may be NULL) says why.
 */
int vbn_loader_open_one(vbn_loader_t *loader, const char *name, const struct vbn_port_config *base,
                        const struct vbn_transport **tr, vbn_port_t **port, struct vbn_error *err);

/*
 * Opens the first transport of vbn_loader_order() that can be, and says so in one line, with the
 * reasons why earlier ones could not: to BASE->log (NULL: stderr), as a warning if there were such,
 * otherwise as information. Errors as vbn_loader_check() (VBN_LOADER_HELP too) and, where none
 * could be opened, the first one's, with all reasons in *ERR (may be NULL).
 */
int vbn_loader_open(vbn_loader_t *loader, const struct vbn_port_config *base,
                    const struct vbn_transport **tr, vbn_port_t **port, struct vbn_error *err);

/* Says in one line that the transport NAME was taken, and REASONS ("": none) why not others. For a
 * caller of vbn_loader_open_one(); the parameter transport_verbose applies. */
void vbn_loader_announce(const vbn_loader_t *loader, const struct vbn_port_config *base,
                         const char *name, const char *reasons);

#ifdef __cplusplus
}
#endif

#endif
