/* SPDX-License-Identifier: BSD-3-Clause */
/* See common.h. Also owns the watchdog: a program that makes no step for too long is told by name,
 * rank and step. */
#include "common.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GUARD_BYTES = 64, GUARD_VALUE = 0xc3, EXIT_HANG = 124, HANG_GRACE_S = 3, TAG_RING = 1 };

/* In front of guarded memory; keeps the memory itself aligned to 64 bytes. */
struct guard_head {
    size_t len_bytes;
    unsigned char padding[64 - sizeof(size_t)];
    unsigned char guard[GUARD_BYTES];
};

static struct job current_job;
static unsigned watchdog_s;
static const char *current_program = "start";

/* Written whole before its length is set, because the signal handler reads them at any moment. */
static char current_step[200];
static char hang_report[400];
static volatile sig_atomic_t hang_report_len;
static volatile sig_atomic_t hang_told;

static void hang_report_write(void)
{
    hang_report_len = 0;
    int len = snprintf(hang_report, sizeof hang_report, "HANG %s rank %d of %d at: %s\n",
                       current_program, current_job.rank, current_job.size, current_step);
    hang_report_len = len < (int)sizeof hang_report ? len : (int)sizeof hang_report - 1;
}

/* First every rank tells where it stands; a little later those that are still there end the job. */
static void on_alarm(int signal_number)
{
    (void)signal_number;
    if (hang_told)
        _exit(EXIT_HANG);
    hang_told = 1;
    ssize_t ignored = write(STDERR_FILENO, hang_report, (size_t)hang_report_len);
    (void)ignored;
    alarm(HANG_GRACE_S);
}

void common_init(const struct job *job, unsigned timeout_s)
{
    current_job = *job;
    watchdog_s = timeout_s;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL);
}

void program_begin(const char *name)
{
    current_program = name;
    step("its beginning");
}

/* The last step of every program: all ranks are through, and no message came twice. */
void program_end(void)
{
    step("the barrier after it");
    MPI_Barrier(MPI_COMM_WORLD);
    int found = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
    expect(!found, "a message nobody waits for is left, from rank %d with tag %d",
           found ? status.MPI_SOURCE : -1, found ? status.MPI_TAG : -1);
    step("the second barrier after it");
    MPI_Barrier(MPI_COMM_WORLD);
}

void step(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(current_step, sizeof current_step, format, args);
    va_end(args);
    hang_report_write();
    if (!hang_told)
        alarm(watchdog_s);
}

static _Noreturn void vfail(const char *format, va_list args)
{
    char text[600];
    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "FAIL %s rank %d of %d (at: %s): %s\n", current_program, current_job.rank,
            current_job.size, current_step, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfail(format, args);
}

void expect(bool condition, const char *format, ...)
{
    if (condition)
        return;
    va_list args;
    va_start(args, format);
    vfail(format, args);
}

void *guarded_alloc(size_t len_bytes)
{
    size_t total = sizeof(struct guard_head) + len_bytes + GUARD_BYTES;
    struct guard_head *head = aligned_alloc(64, (total + 63) & ~(size_t)63);
    expect(head != NULL, "out of memory for %zu bytes", len_bytes);
    head->len_bytes = len_bytes;
    unsigned char *bytes = (unsigned char *)(head + 1);
    memset(head->guard, GUARD_VALUE, GUARD_BYTES);
    memset(bytes + len_bytes, GUARD_VALUE, GUARD_BYTES);
    return bytes;
}

void guarded_free(void *memory)
{
    unsigned char *bytes = memory;
    struct guard_head *head = (struct guard_head *)memory - 1;
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        expect(head->guard[i] == GUARD_VALUE,
               "byte %zu before a buffer of %zu bytes was overwritten", GUARD_BYTES - i,
               head->len_bytes);
        expect(bytes[head->len_bytes + i] == GUARD_VALUE,
               "byte %zu after the end of a buffer of %zu bytes was overwritten", i,
               head->len_bytes);
    }
    free(head);
}

/* splitmix64's finaliser: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t hash_of(uint64_t a, uint64_t b, uint64_t c)
{
    return mix(mix(mix(a + 0x9e3779b97f4a7c15u) + b) + c);
}

uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state);
}

void shuffle(int *items, int count, uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(random_next(state) % (uint64_t)(i + 1));
        int item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

size_t len_mixed(uint64_t random)
{
    uint64_t kind = random % 50;
    uint64_t part = random >> 32;
    if (kind == 0)
        return 66000 + part % (LEN_MIXED_MAX - 66000);
    if (kind < 6)
        return 1000 + part % 16000;
    return part % 600;
}

static uint64_t message_seed(const struct message *message)
{
    uint64_t ends = (uint64_t)(uint32_t)message->source << 32 | (uint32_t)message->dest;
    uint64_t kind = (uint64_t)(uint32_t)message->tag << 32 | (uint32_t)message->len_bytes;
    return hash_of(ends, kind, message->serial);
}

/* Eight bytes at a time: a byte at a time would cost more than the transfer in the slow VM. */
static uint64_t word_at(uint64_t seed, size_t index)
{
    uint64_t x = (seed + index) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

static void fill(uint64_t seed, uint64_t flip, unsigned char *bytes, size_t len_bytes)
{
    size_t words = len_bytes / 8;
    uint64_t word;
    for (size_t i = 0; i < words; i++) {
        word = word_at(seed, i) ^ flip;
        memcpy(bytes + i * 8, &word, 8);
    }
    word = word_at(seed, words) ^ flip;
    memcpy(bytes + words * 8, &word, len_bytes % 8);
}

void message_fill(const struct message *message, void *bytes)
{
    fill(message_seed(message), 0, bytes, message->len_bytes);
}

void message_poison(const struct message *message, void *bytes)
{
    fill(message_seed(message), ~(uint64_t)0, bytes, message->len_bytes);
}

static unsigned char byte_at(uint64_t seed, size_t offset)
{
    uint64_t word = word_at(seed, offset / 8);
    unsigned char bytes[8];
    memcpy(bytes, &word, 8);
    return bytes[offset % 8];
}

/* Slow and exact: names the first wrong byte, the last one and how many there are. */
static _Noreturn void message_report(const struct message *message, const unsigned char *bytes)
{
    uint64_t seed = message_seed(message);
    size_t first = message->len_bytes, last = 0, wrong = 0, missing = 0;
    for (size_t i = 0; i < message->len_bytes; i++) {
        unsigned char expected = byte_at(seed, i);
        if (bytes[i] == expected)
            continue;
        first = wrong == 0 ? i : first;
        last = i;
        wrong++;
        missing += bytes[i] == (unsigned char)~expected;
    }
    fail(
        "message from %d to %d tag %d serial %llu of %zu bytes: at offset %zu got 0x%02x, expected "
        "0x%02x; %zu wrong bytes up to offset %zu, %zu of them never written",
        message->source, message->dest, message->tag, (unsigned long long)message->serial,
        message->len_bytes, first, bytes[first], byte_at(seed, first), wrong, last, missing);
}

void message_check(const struct message *message, const void *memory)
{
    const unsigned char *bytes = memory;
    uint64_t seed = message_seed(message);
    size_t words = message->len_bytes / 8;
    uint64_t word, wrong = 0;
    for (size_t i = 0; i < words; i++) {
        memcpy(&word, bytes + i * 8, 8);
        wrong |= word ^ word_at(seed, i);
    }
    word = word_at(seed, words);
    if (wrong != 0 || memcmp(bytes + words * 8, &word, message->len_bytes % 8) != 0)
        message_report(message, bytes);
}

void message_check_status(const struct message *message, const MPI_Status *status)
{
    int count = 0;
    MPI_Get_count(status, MPI_BYTE, &count);
    expect(status->MPI_SOURCE == message->source && status->MPI_TAG == message->tag &&
               count == (int)message->len_bytes,
           "status says source %d tag %d length %d, expected source %d tag %d length %zu",
           status->MPI_SOURCE, status->MPI_TAG, count, message->source, message->tag,
           message->len_bytes);
}

void transfer_begin_send(struct transfer *transfer, const struct message *message)
{
    transfer->message = *message;
    transfer->is_send = true;
    transfer->bytes = guarded_alloc(message->len_bytes);
    message_fill(message, transfer->bytes);
}

void transfer_begin_recv(struct transfer *transfer, const struct message *message)
{
    transfer->message = *message;
    transfer->is_send = false;
    transfer->bytes = guarded_alloc(message->len_bytes);
    message_poison(message, transfer->bytes);
}

void transfer_isend(struct transfer *transfer, MPI_Comm comm, MPI_Request *request)
{
    MPI_Isend(transfer->bytes, (int)transfer->message.len_bytes, MPI_BYTE, transfer->message.dest,
              transfer->message.tag, comm, request);
}

void transfer_irecv(struct transfer *transfer, MPI_Comm comm, MPI_Request *request)
{
    MPI_Irecv(transfer->bytes, (int)transfer->message.len_bytes, MPI_BYTE, transfer->message.source,
              transfer->message.tag, comm, request);
}

void transfer_check(const struct transfer *transfer, const MPI_Status *status)
{
    message_check_status(&transfer->message, status);
    message_check(&transfer->message, transfer->bytes);
}

void transfer_end(struct transfer *transfer)
{
    if (transfer->is_send)
        message_check(&transfer->message, transfer->bytes);
    guarded_free(transfer->bytes);
}

static struct message ring_message(int source, const struct job *job, size_t len, uint64_t serial)
{
    return (struct message){source, (source + 1) % job->size, TAG_RING, len, serial};
}

void ring_fill(const struct job *job, void *out, size_t len, uint64_t serial)
{
    struct message sent = ring_message(job->rank, job, len, serial);
    message_fill(&sent, out);
}

void ring_shift(const struct job *job, void *in, const void *out, size_t len, uint64_t serial)
{
    int before = (job->rank + job->size - 1) % job->size;
    struct message received = ring_message(before, job, len, serial);
    MPI_Status status;
    message_poison(&received, in);
    MPI_Sendrecv(out, (int)len, MPI_BYTE, (job->rank + 1) % job->size, TAG_RING, in, (int)len,
                 MPI_BYTE, before, TAG_RING, MPI_COMM_WORLD, &status);
    message_check_status(&received, &status);
    message_check(&received, in);
}

void ints_check(const int *got, const int *expected, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        if (got[i] != expected[i])
            fail("%s: element %d of %d is %d, expected %d", what, i, count, got[i], expected[i]);
}

int share_of(int total, int size, int most)
{
    int share = total / size;
    return share < most ? share : most;
}

/* The circle method: the last rank of an even table stays, the others go round. */
int pair_rounds(int size)
{
    return size % 2 == 0 ? size - 1 : size;
}

int pair_peer(int rank, int size, int round)
{
    int circle = size % 2 == 0 ? size - 1 : size;
    /* It meets the one who would stand out: 2 * peer = round modulo circle, which is odd. */
    if (rank == circle)
        return (round % circle) * ((circle + 1) / 2) % circle;
    int peer = ((round - rank) % circle + circle) % circle;
    if (peer != rank)
        return peer;
    return size % 2 == 0 ? circle : MPI_PROC_NULL;
}
