/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 reads a file, all get it, each writes it to NAME.RANK: the file is read once, whatever the
 * number of ranks.
 *
 *     mpirun -n 4 ./bcast_file INPUT NAME
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <verbena_bootstrap.h>
#include <verbena_coll.h>

#define PART (1u << 20) /* bytes that go at once */

struct file {
    const char *path;
    FILE *stream; /* NULL: cannot be used, which was said */
};

struct copy {
    struct vbn_job *job;
    vbn_team_t *team;
    struct file in, out; /* in: at rank 0 */
    char out_path[4096];
    uint64_t total;
    bool whole; /* all was read */
};

static void give_up(struct file *file)
{
    fprintf(stderr, "bcast_file: %s: %s\n", file->path, strerror(errno));
    if (file->stream)
        fclose(file->stream);
    file->stream = NULL;
}

static void open_file(struct file *file, const char *path, const char *mode)
{
    *file = (struct file){path, fopen(path, mode)};
    if (!file->stream)
        give_up(file);
}

/* The next part of the file; a length of 0 ends it, a negative one is an error. */
static int64_t read_part(struct file *in, char *buf)
{
    size_t len = in->stream ? fread(buf, 1, PART, in->stream) : 0;

    if (in->stream && ferror(in->stream))
        give_up(in);
    return in->stream ? (int64_t)len : -1;
}

/* Where it fails the copying goes on: others wait for this rank. */
static void write_part(struct file *out, const char *buf, size_t len)
{
    if (out->stream && fwrite(buf, 1, len, out->stream) != len)
        give_up(out);
}

static int copy_parts(struct copy *c, char *buf)
{
    int64_t len = 1;
    int status = VBN_OK;

    while (status == VBN_OK && len > 0) {
        if (c->job->rank == 0)
            len = read_part(&c->in, buf);
        status = vbn_bcast(c->team, &len, 1, VBN_INT64, 0);
        if (status == VBN_OK && len > 0)
            status = vbn_bcast(c->team, buf, (size_t)len, VBN_BYTES, 0);
        if (status != VBN_OK || len <= 0)
            break;
        write_part(&c->out, buf, (size_t)len);
        c->total += (uint64_t)len;
    }
    c->whole = len == 0;
    return status;
}

/* False where this rank has no copy, or not of all. */
static bool close_files(struct copy *c)
{
    FILE *out = c->out.stream;

    if (c->in.stream)
        fclose(c->in.stream);
    c->out.stream = NULL;
    if (out && fclose(out) != 0) {
        give_up(&c->out);
        return false;
    }
    return out && c->whole;
}

/* Returns a status that is not VBN_OK where others may still wait for this rank. */
static int run(struct copy *c, const char *input, const char *name, bool *copied)
{
    char *buf = malloc(PART);
    int status = VBN_ERR_NO_MEMORY;

    if (c->job->rank == 0)
        open_file(&c->in, input, "rb");
    snprintf(c->out_path, sizeof(c->out_path), "%s.%u", name, c->job->rank);
    open_file(&c->out, c->out_path, "wb");
    if (buf)
        status = copy_parts(c, buf);
    if (status != VBN_OK)
        fprintf(stderr, "bcast_file: %s\n", buf ? vbn_team_error(c->team) : "no memory");
    *copied = close_files(c) && status == VBN_OK;
    free(buf);
    if (*copied)
        printf("rank %u of %u over %s: %llu bytes in %s\n", c->job->rank, c->job->ranks,
               c->job->tr->name, (unsigned long long)c->total, c->out_path);
    return status;
}

int main(int argc, char **argv)
{
    struct copy c = {.total = 0};
    struct vbn_team_options opts;
    struct vbn_error err;
    bool copied = false;
    int status = vbn_job_start(&argc, argv, &c.job, &err);

    if (status == VBN_LOADER_HELP)
        return 0;
    if (status != VBN_OK) {
        fprintf(stderr, "bcast_file: %s\n", err.text);
        return 1;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: mpirun -n N %s INPUT NAME\n", argv[0]);
        vbn_job_destroy(c.job);
        return 1;
    }
    vbn_team_options_init(&opts, sizeof(opts));
    opts.processors = c.job->processors;
    status = vbn_team_create(c.job->tr, c.job->port, c.job->peers, c.job->ranks, c.job->rank, 0,
                             &opts, &c.team, &err);
    if (status != VBN_OK)
        fprintf(stderr, "bcast_file: %s\n", err.text);
    else
        status = run(&c, argv[1], argv[2], &copied);
    if (status != VBN_OK)
        return 1; /* others may wait for this rank: they end with the job */
    vbn_team_destroy(c.team);
    vbn_job_destroy(c.job);
    return copied ? 0 : 1;
}
