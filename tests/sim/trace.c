/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last events of the run, kept as numbers and put into words only when a run fails; their
 * hash over the whole run; and the violations. Nothing that depends on where memory lies may get
 * in here (no pointers, no wr_id): the hash must be the same in every run of a seed.
 */
#include "sim.h"

#include <stdarg.h>

enum { TRACE_SLOTS = 4096, TEXTS = 16, TEXT_BYTES = 240, SHOWN = 200 };

struct entry {
    uint64_t at_ns, a, b, c;
    const char *text; /* of a mark */
    int rank;
    enum sim_trace what;
};

static struct entry ring[TRACE_SLOTS];
static uint64_t written, hash;
static char texts[TEXTS][TEXT_BYTES];
static int violations;

/* How the three numbers are read. */
static const char *const formats[] = {
    [SIM_T_MARK] = "%llu %llu",
    [SIM_T_CALL_FAILS] = "call is made to fail (class %llu, count %llu)",
    [SIM_T_POST_SEND] = "qp %llu posts send opcode %llu, %llu bytes",
    [SIM_T_POST_RECV] = "queue %llu: %llu receives posted",
    [SIM_T_ARRIVE] = "qp %llu: message %llu arrives, %llu bytes",
    [SIM_T_RNR] = "qp %llu: receiver not ready for message %llu (try %llu)",
    [SIM_T_LOST] = "qp %llu: message %llu or its acknowledgement is lost (try %llu)",
    [SIM_T_NAK] = "qp %llu: message %llu refused, status %llu",
    [SIM_T_CQE] = "cq %llu: completion of qp %llu, status %llu",
    [SIM_T_POLL] = "cq %llu: polled, %llu completions, %llu left",
    [SIM_T_QP_STATE] = "qp %llu: state %llu -> %llu",
    [SIM_T_QP_ERROR] = "qp %llu fails in state %llu",
    [SIM_T_ASYNC] = "context %llu: async event %llu of %llu",
    [SIM_T_CM_SEND] = "id %llu sends CM message %llu to node %llu",
    [SIM_T_CM_LOST] = "id %llu: CM message %llu is lost (try %llu)",
    [SIM_T_CM_EVENT] = "id %llu: CM event %llu, status %lld",
    [SIM_T_CREATE] = "object of kind %llu created: %llu",
    [SIM_T_DESTROY] = "object of kind %llu destroyed: %llu",
    [SIM_T_LINK] = "node %llu: link %llu",
    [SIM_T_KILL] = "rank or node %llu dies (%llu)",
    [SIM_T_GHOST] = "qp %llu: message %llu arrives after its sender's QP failed (taken: %llu)",
    [SIM_T_PARTIAL] = "qp %llu: a prefix of %llu bytes of message %llu lands",
};

static void hash_in(uint64_t x)
{
    hash = (hash ^ x) * 0x9fb21c651e98df25u;
    hash ^= hash >> 32;
}

static struct entry *entry_new(enum sim_trace what, uint64_t a, uint64_t b, uint64_t c)
{
    struct entry *entry = &ring[written++ % TRACE_SLOTS];
    *entry = (struct entry){.at_ns = sim.now_ns, .a = a, .b = b, .c = c, .rank = sim.current,
                            .what = what};
    hash_in(sim.now_ns ^ ((uint64_t)what << 56) ^ ((uint64_t)(uint32_t)sim.current << 40));
    hash_in(a ^ (b << 24) ^ (c << 44));
    return entry;
}

void sim_trace(enum sim_trace what, uint64_t a, uint64_t b, uint64_t c)
{
    entry_new(what, a, b, c);
}

void fabric_trace_mark(const char *text, uint64_t a, uint64_t b)
{
    entry_new(SIM_T_MARK, a, b, 0)->text = text;
}

uint64_t fabric_trace_hash(void)
{
    return hash;
}

static void entry_print(FILE *out, const struct entry *entry)
{
    fprintf(out, "%12.3f us ", (double)entry->at_ns / 1000.0);
    if (entry->rank >= 0)
        fprintf(out, "rank %-3d ", entry->rank);
    else
        fprintf(out, "fabric   ");
    if (entry->text)
        fprintf(out, "%s ", entry->text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    fprintf(out, formats[entry->what], (unsigned long long)entry->a, (unsigned long long)entry->b,
            (unsigned long long)entry->c);
#pragma GCC diagnostic pop
    fputc('\n', out);
}

void fabric_trace_print(FILE *out)
{
    uint64_t first = written > SHOWN ? written - SHOWN : 0;
    fprintf(out, "fabric: seed %llu, %d ranks on %d nodes, %.3f ms of virtual time, trace hash "
                 "%016llx; the last %llu of %llu events:\n",
            (unsigned long long)sim.seed, sim.rank_count, sim.node_count,
            (double)sim.now_ns / 1e6, (unsigned long long)hash,
            (unsigned long long)(written - first), (unsigned long long)written);
    for (uint64_t i = first; i < written; i++)
        entry_print(out, &ring[i % TRACE_SLOTS]);
    for (int i = 0; i < violations && i < TEXTS; i++)
        fprintf(out, "fabric: VIOLATION %d: %s\n", i + 1, texts[i]);
}

void sim_violation(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (violations < TEXTS)
        snprintf(texts[violations], TEXT_BYTES, "%s", text);
    violations++;
    if (sim.config.quiet)
        return;
    fprintf(stderr, "fabric: VIOLATION (seed %llu, at %.3f us, rank %d): %s\n",
            (unsigned long long)sim.seed, (double)sim.now_ns / 1000.0, sim.current, text);
    if (violations == 1)
        fabric_trace_print(stderr);
}

int fabric_violations(void)
{
    return violations;
}

const char *fabric_violation_text(int index)
{
    return index >= 0 && index < violations && index < TEXTS ? texts[index] : NULL;
}

void fabric_violations_clear(void)
{
    violations = 0;
}

void sim_trace_reset(void)
{
    written = 0;
    hash = 0x5eed;
    violations = 0;
}
