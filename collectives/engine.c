/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a request's schedule over the transport table.
 *
 * Operation. At the start every early receive is posted, then the first round begins. A round posts
 * its receives, then its sends; when all its messages but late sends are over it takes its local
 * steps, and the next begins. After the last the late sends are waited for. An operation's `done`
 * only marks it; everything else happens in the caller's start, test and wait. Where the transport
 * has no room now (VBN_ERR_AGAIN) the round goes on from there the next time.
 *
 * Buffer ownership. From posting until it is over an operation, and the memory it names, are the
 * transport's: a request is over only when the transport has none of its operations any more.
 *
 * Errors. A message of another length than expected: the schedule goes on, for the other ranks'
 * sake, and ends with VBN_ERR_MISMATCH. Any other error: nothing more is posted, receives are
 * cancelled, and the request ends with that error once the transport has let go of everything.
 */
#include "check.h"
#include "error.h"
#include "team.h"

#include <stdio.h>
#include <string.h>

static inline struct vbn_flight *flight_of(const vbn_coll_req_t *req, const struct vbn_step *step)
{
    return &req->flights[step->slot];
}

static inline uint8_t *memory_at(const vbn_coll_req_t *req, struct vbn_at at)
{
    uint8_t *base = req->base[at.place];

    return base ? base + at.off : NULL;
}

static void flight_done(struct vbn_op *op)
{
    struct vbn_flight *flight = op->arg;

    atomic_store_explicit(&flight->over, true, memory_order_release);
}

void vbn_engine_flights_init(vbn_coll_req_t *req)
{
    for (size_t i = 0; i < req->flight_room; i++) {
        req->flights[i].op.done = flight_done;
        req->flights[i].op.arg = &req->flights[i];
    }
}

static inline bool is_over(struct vbn_flight *flight)
{
    return atomic_load_explicit(&flight->over, memory_order_acquire);
}

/* Who STEP's message comes from, or goes to, after FROM or TO. */
static void __attribute__((cold))
name_peer(const struct vbn_step *step, const char *from, const char *to, char *text, size_t len)
{
    if (step->kind == VBN_STEP_CAST)
        snprintf(text, len, "%s all", to);
    else
        snprintf(text, len, "%s rank %u", step->kind == VBN_STEP_RECV ? from : to, step->peer);
}

static void __attribute__((cold, noinline))
fail(vbn_coll_req_t *req, const struct vbn_step *step, int status)
{
    char what[48];

    if (req->failed && req->status != VBN_ERR_MISMATCH)
        return;
    req->failed = true;
    req->status = status;
    name_peer(step, "receiving from", "sending to", what, sizeof(what));
    vbn_error_set(&req->error, status, "%s, team %u: %s: %s", vbn_coll_name(req->call.coll),
                  req->team->id, what, vbn_status_str(status));
}

static void __attribute__((cold, noinline))
wrong_length(vbn_coll_req_t *req, const struct vbn_step *step, size_t len)
{
    if (req->failed)
        return;
    req->failed = true;
    req->status = VBN_ERR_MISMATCH;
    vbn_error_set(&req->error, VBN_ERR_MISMATCH,
                  "%s, team %u: rank %u sent %zu bytes where %zu were expected: do all ranks give "
                  "the same counts and types? The team option `check` tells",
                  vbn_coll_name(req->call.coll), req->team->id, step->peer, len, step->len);
}

/* How a message ended. False: nothing more is to be posted. */
static bool take_result(vbn_coll_req_t *req, const struct vbn_step *step,
                        const struct vbn_flight *flight)
{
    int status = flight->op.status;

    if (status == VBN_OK && (vbn_step_sends(step) || flight->op.len == step->len))
        return true;
    if (step->kind == VBN_STEP_RECV && (status == VBN_OK || status == VBN_ERR_TRUNCATED)) {
        wrong_length(req, step, flight->op.len);
        return true;
    }
    fail(req, step, status);
    return false;
}

/* Both sides know what comes: where it shall be can be told before. What is small goes at once
 * anyway, and so does what is cast. */
static inline int post_recv(const vbn_coll_req_t *req, const struct vbn_step *step, uint64_t tag,
                            struct vbn_op *op)
{
    const vbn_team_t *team = req->team;
    vbn_peer_t *peer = team->peers[step->peer];
    void *to = memory_at(req, step->to);

    if (step->len > VBN_SCHED_SMALL && !step->by_cast && VBN_TRANSPORT_HAS(team->tr, recv_ready))
        return team->tr->recv_ready(team->port, peer, to, step->len, tag, op);
    return team->tr->recv(team->port, peer, to, step->len, tag, VBN_TAG_MAX, op);
}

static inline int post_send(const vbn_coll_req_t *req, const struct vbn_step *step, uint64_t tag,
                            struct vbn_op *op)
{
    const vbn_team_t *team = req->team;
    const void *from = memory_at(req, step->from);

    if (step->kind == VBN_STEP_CAST)
        return team->tr->group_send(team->group.group, from, step->len, tag, op);
    return team->tr->send(team->peers[step->peer], from, step->len, tag, op);
}

/* VBN_OK: the transport has it, or had. */
static int post(vbn_coll_req_t *req, const struct vbn_step *step)
{
    struct vbn_flight *flight = flight_of(req, step);
    uint64_t tag = req->tag | step->tag;
    int status;

    atomic_store_explicit(&flight->over, false, memory_order_relaxed);
    if (step->kind == VBN_STEP_RECV)
        status = post_recv(req, step, tag, &flight->op);
    else
        status = post_send(req, step, tag, &flight->op);
    if (status < 0)
        return status;
    flight->posted = true;
    if (status == VBN_OK)
        atomic_store_explicit(&flight->over, true, memory_order_relaxed);
    return VBN_OK;
}

/* Nothing more is posted; receives that wait are called back. */
static void __attribute__((cold, noinline)) begin_ending(vbn_coll_req_t *req)
{
    bool in_round = false; /* otherwise only early receives have operations of their own */

    req->phase = VBN_PHASE_ENDING;
    for (const struct vbn_step *step = req->sched.steps; step != req->steps_end; step++) {
        struct vbn_flight *flight;

        in_round = step == req->round || (in_round && step->kind != VBN_STEP_END);
        if (step->kind != VBN_STEP_RECV || !(step->when == VBN_EARLY || in_round))
            continue;
        flight = flight_of(req, step);
        if (flight->posted && !is_over(flight))
            req->team->tr->cancel(req->team->port, &flight->op);
    }
}

static bool all_over(const vbn_coll_req_t *req)
{
    for (size_t i = 0; i < req->flight_count; i++)
        if (req->flights[i].posted && !is_over(&req->flights[i]))
            return false;
    return true;
}

static inline bool has(const vbn_coll_req_t *req, uint8_t what)
{
    return req->round->round_has & what;
}

/* Whether STEP is posted with the SENDS of its round, or with the receives. */
static inline bool is_posted_with(const struct vbn_step *step, bool sends)
{
    return sends ? vbn_step_sends(step) : step->kind == VBN_STEP_RECV;
}

/* Posts the round's sends, or receives. False: it has to go on later, or the request is ending. */
static bool post_round(vbn_coll_req_t *req, bool sends)
{
    for (const struct vbn_step *step = req->at; step->kind != VBN_STEP_END; step++) {
        int status;

        if (!is_posted_with(step, sends) ||
            (step->when == VBN_EARLY && flight_of(req, step)->posted))
            continue;
        status = post(req, step);
        if (status == VBN_ERR_AGAIN) {
            req->at = step;
            return false;
        }
        if (status != VBN_OK) {
            fail(req, step, status);
            begin_ending(req);
            return false;
        }
    }
    return true;
}

/* False: STEP's message, which becomes the next to look at, is not over, or the request is ending.
 */
static inline bool take_message(vbn_coll_req_t *req, const struct vbn_step *step)
{
    struct vbn_flight *flight = flight_of(req, step);

    if (!is_over(flight)) {
        req->at = step;
        return false;
    }
    flight->posted = step->when == VBN_EARLY; /* not again */
    if (take_result(req, step, flight))
        return true;
    begin_ending(req);
    return false;
}

/* False: a message that the round waits for is not over yet, or the request is ending. */
static inline bool wait_round(vbn_coll_req_t *req)
{
    const struct vbn_step *step = req->at;

    for (; step->kind != VBN_STEP_END; step++)
        if (vbn_step_is_message(step) && step->when != VBN_LATE && !take_message(req, step))
            return false;
    req->at = step;
    return true;
}

/* After the last round. False: a late send is not over yet, or the request is ending. */
static bool __attribute__((noinline)) wait_late(vbn_coll_req_t *req)
{
    if (req->phase != VBN_PHASE_LATE)
        req->at = req->sched.steps;
    req->phase = VBN_PHASE_LATE;
    for (const struct vbn_step *step = req->at; step != req->steps_end; step++)
        if (step->when == VBN_LATE && !take_message(req, step))
            return false;
    return true;
}

static void local_step(vbn_coll_req_t *req, const struct vbn_step *step)
{
    uint8_t *to = memory_at(req, step->to), *from = memory_at(req, step->from);

    switch (step->kind) {
    case VBN_STEP_COPY:
        memcpy(to, from, step->len);
        break;
    case VBN_STEP_REDUCE:
        req->reduce(from, to, step->len / req->call.elem, req->reduce_arg);
        break;
    case VBN_STEP_MERGE:
        vbn_check_merge(to, from);
        break;
    case VBN_STEP_VERDICT:
        if (!vbn_check_verdict(req, to, &req->error)) {
            req->failed = true;
            req->status = VBN_ERR_MISMATCH;
            begin_ending(req);
        }
        break;
    default:
        break;
    }
}

/* Takes the round's local steps and goes to the next, unless the request is ending. */
static inline void finish_round(vbn_coll_req_t *req)
{
    if (has(req, VBN_ROUND_LOCAL))
        for (const struct vbn_step *step = req->round; step != req->at; step++)
            if (!vbn_step_is_message(step))
                local_step(req, step);
    if (req->phase == VBN_PHASE_ENDING)
        return;
    req->at = req->round = req->at + 1; /* from its end */
    req->phase = VBN_PHASE_RECVS;
    req->moved_ns = 0;
}

static void end(vbn_coll_req_t *req)
{
    if (!req->failed)
        req->status = VBN_OK;
    req->phase = VBN_PHASE_REST;
}

/*
 * Where the transport has no room now, the rest is posted later: but by and by all of them,
 * whatever round it is, for their senders may be what this round waits for.
 */
static void post_early(vbn_coll_req_t *req)
{
    for (; req->early_left; req->early_at++) {
        const struct vbn_step *step = req->early_at;
        int status;

        if (step->when != VBN_EARLY)
            continue;
        status = flight_of(req, step)->posted ? VBN_OK : post(req, step);
        if (status == VBN_ERR_AGAIN)
            return;
        req->early_left--;
        if (status != VBN_OK) {
            fail(req, step, status);
            begin_ending(req);
            return;
        }
    }
}

/* Takes the round as far as it goes. False: it is not over, or the request is ending. */
static inline bool advance_round(vbn_coll_req_t *req)
{
    if (req->phase == VBN_PHASE_RECVS) {
        if ((has(req, VBN_ROUND_RECVS) || req->early_left) && !post_round(req, false))
            return false;
        req->at = req->round;
        req->phase = VBN_PHASE_SENDS;
    }
    if (req->phase == VBN_PHASE_SENDS) {
        if (has(req, VBN_ROUND_SENDS) && !post_round(req, true))
            return false;
        req->at = req->round;
        req->phase = VBN_PHASE_WAIT;
    }
    if (!wait_round(req))
        return false;
    finish_round(req);
    return req->phase != VBN_PHASE_ENDING;
}

static bool __attribute__((noinline)) advance(vbn_coll_req_t *req)
{
    bool runs = req->phase > VBN_PHASE_ENDING;

    if (req->early_left && runs) {
        post_early(req);
        runs = req->phase != VBN_PHASE_ENDING;
    }
    while (runs && req->round != req->steps_end)
        runs = advance_round(req);
    if (runs && (!req->sched.messages[VBN_LATE] || wait_late(req)))
        end(req);
    if (req->phase == VBN_PHASE_ENDING && all_over(req))
        end(req);
    return req->phase == VBN_PHASE_REST;
}

/* Whether the message that was waited for last is still under way. */
static inline bool still_waits(const vbn_coll_req_t *req)
{
    return req->phase >= VBN_PHASE_WAIT && !req->early_left && vbn_step_is_message(req->at) &&
           !is_over(flight_of(req, req->at));
}

bool vbn_engine_advance(vbn_coll_req_t *req)
{
    return !still_waits(req) && advance(req);
}

void vbn_engine_start(vbn_coll_req_t *req)
{
    for (size_t i = 0; i < req->flight_count; i++)
        req->flights[i].posted = false;
    req->failed = req->stall_told = false;
    req->status = VBN_PENDING;
    req->error.text[0] = '\0';
    req->error.status = VBN_OK;
    req->round = req->at = req->early_at = req->sched.steps;
    req->steps_end = req->sched.steps + req->sched.count;
    req->moved_ns = 0;
    req->phase = VBN_PHASE_RECVS;
    if (req->team->opts.check)
        vbn_check_fill(req, memory_at(req, vbn_at(VBN_AT_TMP, 0)));
    req->tag = (uint64_t)req->team->id << 28 | (uint64_t)req->seq << 12;
    req->early_left = req->sched.messages[VBN_EARLY];
    vbn_engine_advance(req);
}

/* Their operations are the last. */
static bool late_under_way(const vbn_coll_req_t *req)
{
    for (size_t i = req->flight_count - req->sched.messages[VBN_LATE]; i < req->flight_count; i++)
        if (req->flights[i].posted && !is_over(&req->flights[i]))
            return true;
    return false;
}

size_t vbn_engine_awaited(const vbn_coll_req_t *req)
{
    size_t longest = 0;

    if (req->phase != VBN_PHASE_WAIT || late_under_way(req))
        return 0;
    for (const struct vbn_step *step = req->at; step->kind != VBN_STEP_END; step++) {
        if (!vbn_step_is_message(step) || is_over(flight_of(req, step)))
            continue;
        if (vbn_step_sends(step))
            return 0;
        if (!step->by_cast) /* its datagrams come one by one, and each would wake who sleeps */
            longest = step->len > longest ? step->len : longest;
    }
    return longest;
}

/* Whether REQ waits for STEP now. */
static bool awaits(const vbn_coll_req_t *req, const struct vbn_step *step)
{
    return vbn_step_is_message(step) &&
           (step->when == VBN_LATE) == (req->phase == VBN_PHASE_LATE) &&
           !is_over(flight_of(req, step));
}

/* The ranks that are waited for in the round, or after the last, as far as TEXT holds them. */
static void name_awaited(const vbn_coll_req_t *req, char *text, size_t len)
{
    const struct vbn_step *first = req->phase == VBN_PHASE_LATE ? req->sched.steps : req->round;
    char what[64];
    size_t used = 0;
    int n;

    text[0] = '\0';
    for (const struct vbn_step *step = first; step != req->steps_end; step++) {
        if (step->kind == VBN_STEP_END && req->phase != VBN_PHASE_LATE)
            return;
        if (!awaits(req, step))
            continue;
        name_peer(step, "a message from", "a message to be taken by", what, sizeof(what));
        n = snprintf(text + used, len - used, "%s%s", used ? ", " : "", what);
        if (n < 0 || (size_t)n >= len - used)
            return;
        used += (size_t)n;
    }
}

void vbn_engine_stall_report(vbn_coll_req_t *req)
{
    const vbn_team_t *team = req->team;
    unsigned rounds = 1;
    char awaited[240];

    req->stall_told = true;
    for (const struct vbn_step *step = req->sched.steps; step != req->round; step++)
        rounds += step->kind == VBN_STEP_END;
    name_awaited(req, awaited, sizeof(awaited));
    if (!awaited[0])
        snprintf(awaited, sizeof(awaited), "the transport to end its messages");
    vbn_team_log(
        team, VBN_LOG_WARN,
        "%s (%s) number %u of team %u, rank %u of %u, has not moved for %llu ms; in round "
        "%u it waits for %s. The team option `check` tells whether all ranks call the same",
        vbn_coll_name(req->call.coll), req->algorithm->name, req->seq, team->id, team->rank,
        team->size, (unsigned long long)team->opts.stall_report_ms, rounds, awaited);
}
