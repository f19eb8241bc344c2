/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all the MPI test programs share: messages whose every byte follows from who sent what to
 * whom, memory with guards on both sides, and reports that name rank, peer, size and offset.
 * Whatever is wrong ends the whole job at once through MPI_Abort, so no function here returns an
 * error.
 */
#ifndef VERBENA_TESTS_MPI_COMMON_H
#define VERBENA_TESTS_MPI_COMMON_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The job as a program sees it. The seed is the same on every rank (VERBENA_TEST_SEED). */
struct job {
    int rank;
    int size;
    uint64_t seed;
};

/* One message. Its bytes follow from these fields; serial tells messages of one tag apart. */
struct message {
    int source;
    int dest;
    int tag;
    size_t len_bytes;
    uint64_t serial;
};

/* One end of a message: its memory, filled for sending or poisoned for receiving. */
struct transfer {
    struct message message;
    bool is_send;
    void *bytes;
};

/* Called by the suite: once, and around each program. timeout_s is how long a step may take. */
void common_init(const struct job *job, unsigned timeout_s);
void program_begin(const char *name);
void program_end(void);

/* Says what the program is at; a failure or a hang is reported with it. Each step sets the watchdog
 * anew, so that a slow machine is not taken for a hang. Cheap, but not free. */
void step(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports and ends the job. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void expect(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory with guard bytes around it; guarded_free fails the job if one of them was overwritten. */
void *guarded_alloc(size_t len_bytes);
void guarded_free(void *bytes);

/* The bytes of a message, and the bytes that differ from them in every bit. */
void message_fill(const struct message *message, void *bytes);
void message_poison(const struct message *message, void *bytes);
void message_check(const struct message *message, const void *bytes);
void message_check_status(const struct message *message, const MPI_Status *status);

/* A transfer's memory lives until transfer_end, which checks the guards and that a sent message
 * was left as it was. transfer_check is for the receiving end, after completion. */
void transfer_begin_send(struct transfer *transfer, const struct message *message);
void transfer_begin_recv(struct transfer *transfer, const struct message *message);
void transfer_isend(struct transfer *transfer, MPI_Comm comm, MPI_Request *request);
void transfer_irecv(struct transfer *transfer, MPI_Comm comm, MPI_Request *request);
void transfer_check(const struct transfer *transfer, const MPI_Status *status);
void transfer_end(struct transfer *transfer);

/* What this rank sends to the next one: LEN bytes, filled at OUT, and sent from there while those
 * of the rank before come to IN, which are checked. */
void ring_fill(const struct job *job, void *out, size_t len, uint64_t serial);
void ring_shift(const struct job *job, void *in, const void *out, size_t len, uint64_t serial);

/* Fails unless the two arrays are the same; what names the operation. */
void ints_check(const int *got, const int *expected, int count, const char *what);

/* Random numbers that repeat: hash_of is stateless, the others advance the state. */
uint64_t hash_of(uint64_t a, uint64_t b, uint64_t c);
uint64_t random_next(uint64_t *state);
void shuffle(int *items, int count, uint64_t *state);

/* The ints of a stream that the seed names; never negative. Cheap: the slow VM does many. */
static inline int int_at(uint64_t seed, int index)
{
    return (int)(((seed + (uint64_t)index) * 0x9e3779b97f4a7c15u) >> 33);
}

/* A length from a random number: mostly small, some thousands of bytes in one of ten, and one of
 * fifty large enough for a rendezvous under any usual eager limit. */
size_t len_mixed(uint64_t random);
enum { LEN_MIXED_MAX = 160 * 1024 };

/* How many messages each of size ranks sends where total bounds those of all ranks together: more
 * ranks must not mean more work on a machine of two processors. */
int share_of(int total, int size, int most);

/* Rounds in which every rank meets every other rank once; MPI_PROC_NULL where one stands out. */
int pair_rounds(int size);
int pair_peer(int rank, int size, int round);

#endif
