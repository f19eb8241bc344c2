/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 reads a file, all get it, each writes it to NAME.RANK: the file is read once, whatever the
 * number of ranks.
 *
 *     mpirun -n 4 ./bcast_file INPUT NAME
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <verbena_bootstrap.h>
#include <verbena_coll.h>

#define PART (1u << 20) /* bytes that go at once */

/* The next part of the file at rank 0; a length of 0 ends it, a negative one is an error. */
static int64_t read_part(FILE *in, char *buf)
{
    size_t len = fread(buf, 1, PART, in);

    return ferror(in) ? -1 : (int64_t)len;
}

static int copy(vbn_team_t *team, FILE *in, FILE *out, char *buf, uint64_t *total)
{
    int64_t len = 1;
    int status = VBN_OK;

    while (status == VBN_OK && len > 0) {
        if (vbn_team_rank(team) == 0)
            len = in ? read_part(in, buf) : -1;
        status = vbn_bcast(team, &len, 1, VBN_INT64, 0);
        if (status != VBN_OK || len <= 0)
            break;
        status = vbn_bcast(team, buf, (size_t)len, VBN_BYTES, 0);
        if (status == VBN_OK && out && fwrite(buf, 1, (size_t)len, out) != (size_t)len)
            out = NULL; /* go on: others wait for this rank */
        *total += (uint64_t)len;
    }
    if (status != VBN_OK)
        fprintf(stderr, "bcast_file: %s\n", vbn_team_error(team));
    return status == VBN_OK && len == 0 && out ? 0 : 1;
}

static int run(struct vbn_job *job, vbn_team_t *team, const char *input, const char *name)
{
    FILE *in = job->rank == 0 ? fopen(input, "rb") : NULL;
    char path[4096], *buf = malloc(PART);
    uint64_t total = 0;
    FILE *out;
    int failed = 1;

    if (job->rank == 0 && !in)
        fprintf(stderr, "bcast_file: %s: %s\n", input, strerror(errno));
    snprintf(path, sizeof(path), "%s.%u", name, job->rank);
    out = fopen(path, "wb");
    if (!out)
        fprintf(stderr, "bcast_file: %s: %s\n", path, strerror(errno));
    if (buf)
        failed = copy(team, in, out, buf, &total);
    if (in)
        fclose(in);
    if (out && fclose(out) != 0)
        failed = 1;
    free(buf);
    if (!failed)
        printf("rank %u of %u over %s: %llu bytes in %s\n", job->rank, job->ranks, job->tr->name,
               (unsigned long long)total, path);
    return failed;
}

int main(int argc, char **argv)
{
    struct vbn_job *job;
    struct vbn_team_options opts;
    struct vbn_error err;
    vbn_team_t *team;
    int failed = 1, status = vbn_job_start(&argc, argv, &job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "bcast_file: %s\n", err.text);
        return 1;
    }
    vbn_team_options_init(&opts, sizeof(opts));
    opts.processors = job->processors;
    if (argc != 3)
        fprintf(stderr, "usage: mpirun -n N %s INPUT NAME\n", argv[0]);
    else if (vbn_team_create(job->tr, job->port, job->peers, job->ranks, job->rank, 0, &opts, &team,
                             &err) != VBN_OK)
        fprintf(stderr, "bcast_file: %s\n", err.text);
    else {
        failed = run(job, team, argv[1], argv[2]);
        vbn_team_destroy(team);
    }
    vbn_job_destroy(job);
    return failed;
}
