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

/* How the three numbers are read. %1, %2, %3: as a number, or by the letter behind: k object kind,
 * o send opcode, s completion status, q QP state, c CM event, m CM message, a async event. */
static const char *const formats[] = {
    [SIM_T_MARK] = "%1 %2",
    [SIM_T_CALL_FAILS] = "call is made to fail (class %1, count %2)",
    [SIM_T_POST_SEND] = "qp %1 posts %2o, %3 bytes",
    [SIM_T_POST_RECV] = "receive queue %1: %2 posted",
    [SIM_T_ARRIVE] = "qp %1 takes message %2, %3 bytes",
    [SIM_T_RNR] = "qp %1: the receiver is not ready for message %2 (try %3)",
    [SIM_T_LOST] = "qp %1: message %2 or its acknowledgement is lost (try %3)",
    [SIM_T_NAK] = "qp %1 refuses message %2: %3s",
    [SIM_T_CQE] = "cq %1: completion of qp %2: %3s",
    [SIM_T_POLL] = "cq %1: %2 completions polled, %3 left",
    [SIM_T_QP_STATE] = "qp %1: %2q -> %3q",
    [SIM_T_QP_ERROR] = "qp %1 fails in %2q",
    [SIM_T_ASYNC] = "context %1: async event: %2a",
    [SIM_T_CM_SEND] = "id %1 sends %2m to node %3",
    [SIM_T_CM_LOST] = "id %1: %2m is lost (try %3)",
    [SIM_T_CM_EVENT] = "id %1: %2c, status %3",
    [SIM_T_CREATE] = "%1k %2 created",
    [SIM_T_DESTROY] = "%1k %2 destroyed",
    [SIM_T_LINK] = "node %1: link state %2",
    [SIM_T_KILL] = "%1 dies (0 rank, 1 node powered off, 2 device removed): %2",
    [SIM_T_GHOST] = "qp %1, failed before: its message %2 arrives (taken: %3)",
    [SIM_T_PARTIAL] = "qp %1: %2 bytes, a part only, of message %3 land",
    [SIM_T_DATAGRAM] = "qp %1 takes a datagram of qp %2, %3 bytes",
    [SIM_T_DATAGRAM_LOST] = ("qp %1: a datagram of qp %2 is lost (0 by chance, 1 on the way, 2 "
                             "unheard, 3 no receive posted): %3"),
};

static void hash_in(uint64_t x)
{
    hash = (hash ^ x) * 0x9fb21c651e98df25u;
    hash ^= hash >> 32;
}

static void entry_print(FILE *out, const struct entry *entry);

static void entry_add(const struct entry *entry)
{
    ring[written++ % TRACE_SLOTS] = *entry;
    hash_in(entry->at_ns ^ ((uint64_t)entry->what << 56) ^ ((uint64_t)(uint32_t)entry->rank << 40));
    hash_in(entry->a ^ (entry->b << 24) ^ (entry->c << 44));
    if (sim.config.verbose)
        entry_print(stderr, entry);
}

void sim_trace(enum sim_trace what, uint64_t a, uint64_t b, uint64_t c)
{
    entry_add(&(struct entry){sim.now_ns, a, b, c, NULL, sim.current, what});
}

void fabric_trace_mark(const char *text, uint64_t a, uint64_t b)
{
    entry_add(&(struct entry){sim.now_ns, a, b, 0, text, sim.current, SIM_T_MARK});
}

uint64_t fabric_trace_hash(void)
{
    return hash;
}

static const char *opcode_name(uint64_t opcode)
{
    static const char *const names[] = {
        "write", "write with immediate", "send",         "send with immediate",
        "read",  "compare and swap",     "fetch and add"};
    return opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : "unknown opcode";
}

static const char *state_name(uint64_t state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown state";
}

static const char *message_name(uint64_t message)
{
    static const char *const names[] = {"REQ", "REP", "RTU", "REJ", "DREQ", "DREP"};
    return message < sizeof(names) / sizeof(names[0]) ? names[message] : "unknown message";
}

static void value_print(FILE *out, char how, uint64_t value)
{
    switch (how) {
    case 'k':
        fputs(value < SIM_KINDS ? sim_kind_name((enum sim_kind)value) : "unknown", out);
        break;
    case 'o':
        fputs(opcode_name(value), out);
        break;
    case 's':
        fputs(ibv_wc_status_str((enum ibv_wc_status)value), out);
        break;
    case 'q':
        fputs(state_name(value), out);
        break;
    case 'c':
        fputs(rdma_event_str((enum rdma_cm_event_type)value), out);
        break;
    case 'm':
        fputs(message_name(value), out);
        break;
    case 'a':
        fputs(ibv_event_type_str((enum ibv_event_type)value), out);
        break;
    default:
        fprintf(out, "%lld", (long long)value);
        break;
    }
}

static void entry_print(FILE *out, const struct entry *entry)
{
    const uint64_t values[] = {entry->a, entry->b, entry->c};
    fprintf(out, "%12.3f us ", (double)entry->at_ns / 1000.0);
    if (entry->rank >= 0)
        fprintf(out, "rank %-3d ", entry->rank);
    else
        fprintf(out, "fabric   ");
    if (entry->text)
        fprintf(out, "%s ", entry->text);
    for (const char *at = formats[entry->what]; *at; at++) {
        if (*at != '%') {
            fputc(*at, out);
            continue;
        }
        uint64_t value = values[*++at - '1'];
        bool is_named = at[1] != '\0' && strchr("kosqcma", at[1]);
        value_print(out, is_named ? at[1] : ' ', value);
        at += is_named;
    }
    fputc('\n', out);
}

void fabric_trace_print(FILE *out)
{
    uint64_t first = written > SHOWN ? written - SHOWN : 0;
    fprintf(out,
            "fabric: seed %llu, %d ranks on %d nodes, %.3f ms of virtual time, trace hash "
            "%016llx; the last %llu of %llu events:\n",
            (unsigned long long)sim.seed, sim.rank_count, sim.node_count, (double)sim.now_ns / 1e6,
            (unsigned long long)hash, (unsigned long long)(written - first),
            (unsigned long long)written);
    for (uint64_t i = first; i < written; i++)
        entry_print(out, &ring[i % TRACE_SLOTS]);
    for (int i = 0; i < violations && i < TEXTS; i++)
        fprintf(out, "fabric: VIOLATION %d: %s\n", i + 1, texts[i]);
}

void sim_violation(const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    if (sim_rank_is_dead(sim.current))
        return; /* nobody is there to misbehave */
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (violations < TEXTS)
        snprintf(texts[violations], TEXT_BYTES, "%s", text);
    violations++;
    if (sim.config.quiet || violations > TEXTS)
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
