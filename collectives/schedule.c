/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

void vbn_sched_reset(struct vbn_sched *sched, size_t max_message)
{
    sched->count = sched->round_at = 0;
    sched->tmp_len = sched->longest = 0;
    sched->max_message = max_message;
    memset(sched->messages, 0, sizeof(sched->messages));
    sched->max_round_messages = 0;
    sched->failed = false;
}

void vbn_sched_fini(struct vbn_sched *sched)
{
    free(sched->steps);
    sched->steps = NULL;
    sched->room = sched->count = 0;
}

struct vbn_at vbn_sched_tmp(struct vbn_sched *sched, size_t len)
{
    struct vbn_at at = vbn_at(VBN_AT_TMP, sched->tmp_len);
    size_t whole = (len + VBN_SCHED_ALIGN - 1) / VBN_SCHED_ALIGN * VBN_SCHED_ALIGN;

    if (whole < len || sched->tmp_len + whole < whole)
        sched->failed = true; /* more than there is address space for */
    else
        sched->tmp_len += whole;
    return at;
}

static bool grow(struct vbn_sched *sched)
{
    size_t room = sched->room ? 2 * sched->room : 32;
    struct vbn_step *steps = realloc(sched->steps, room * sizeof(*steps));

    if (!steps) {
        sched->failed = true;
        return false;
    }
    sched->steps = steps;
    sched->room = room;
    return true;
}

void vbn_sched_add(struct vbn_sched *sched, const struct vbn_step *step)
{
    if (sched->count == sched->room && !grow(sched))
        return;
    sched->steps[sched->count++] = *step;
}

/*
 * Early receives and late sends have operations of their own; the rest of a round's messages take
 * those that the round before has left. In the end these come first, then the early ones.
 */
void vbn_sched_seal(struct vbn_sched *sched)
{
    uint32_t first[VBN_WHENS] = {
        [VBN_EARLY] = sched->max_round_messages,
        [VBN_LATE] = sched->max_round_messages + sched->messages[VBN_EARLY],
    };

    for (size_t i = 0; i < sched->count; i++)
        sched->steps[i].slot += first[sched->steps[i].when];
}

static void add_message(struct vbn_sched *sched, const struct vbn_step *message)
{
    struct vbn_step step = *message;

    step.slot = sched->messages[step.when]++;
    if (step.len > sched->longest)
        sched->longest = step.len;
    vbn_sched_add(sched, &step);
}

static struct vbn_step message(enum vbn_step_kind kind, uint32_t peer, size_t step,
                               enum vbn_step_when when)
{
    return (struct vbn_step){.kind = (uint8_t)kind,
                             .when = (uint8_t)when,
                             .tag = (uint16_t)(step % VBN_STEP_TAGS),
                             .peer = peer};
}

/* S, of LEN bytes, in pieces that the transport takes. */
static void add_pieces(struct vbn_sched *sched, struct vbn_step s, size_t len)
{
    struct vbn_at *at = vbn_step_sends(&s) ? &s.from : &s.to;

    while (len) {
        s.len = len < sched->max_message ? len : sched->max_message;
        add_message(sched, &s);
        at->off += s.len;
        len -= s.len;
    }
}

static void add_recv(struct vbn_sched *sched, struct vbn_step s, struct vbn_at to, size_t len)
{
    s.to = to;
    add_pieces(sched, s, len);
}

static void add_send(struct vbn_sched *sched, struct vbn_step s, struct vbn_at from, size_t len)
{
    s.from = from;
    add_pieces(sched, s, len);
}

static struct vbn_step receive(uint32_t peer, size_t step, bool early, bool by_cast)
{
    struct vbn_step s = message(VBN_STEP_RECV, peer, step, early ? VBN_EARLY : VBN_IN_ROUND);

    s.by_cast = by_cast;
    return s;
}

void vbn_sched_recv(struct vbn_sched *sched, uint32_t peer, struct vbn_at to, size_t len,
                    size_t step, bool early)
{
    add_recv(sched, receive(peer, step, early, false), to, len);
}

void vbn_sched_recv_cast(struct vbn_sched *sched, uint32_t peer, struct vbn_at to, size_t len,
                         size_t step, bool early)
{
    add_recv(sched, receive(peer, step, early, true), to, len);
}

void vbn_sched_send(struct vbn_sched *sched, uint32_t peer, struct vbn_at from, size_t len,
                    size_t step)
{
    add_send(sched, message(VBN_STEP_SEND, peer, step, VBN_IN_ROUND), from, len);
}

void vbn_sched_send_late(struct vbn_sched *sched, uint32_t peer, struct vbn_at from, size_t len,
                         size_t step)
{
    add_send(sched, message(VBN_STEP_SEND, peer, step, VBN_LATE), from, len);
}

void vbn_sched_cast(struct vbn_sched *sched, struct vbn_at from, size_t len, size_t step)
{
    add_send(sched, message(VBN_STEP_CAST, 0, step, VBN_IN_ROUND), from, len);
}

/* A message of nothing is nowhere. */
static void add_empty(struct vbn_sched *sched, struct vbn_step s)
{
    s.to.place = s.from.place = VBN_AT_TMP;
    add_message(sched, &s);
}

void vbn_sched_signal(struct vbn_sched *sched, uint32_t peer, size_t step)
{
    add_empty(sched, message(VBN_STEP_SEND, peer, step, VBN_IN_ROUND));
}

void vbn_sched_await(struct vbn_sched *sched, uint32_t peer, size_t step)
{
    add_empty(sched, receive(peer, step, true, false));
}

void vbn_sched_cast_signal(struct vbn_sched *sched, size_t step)
{
    add_empty(sched, message(VBN_STEP_CAST, 0, step, VBN_IN_ROUND));
}

void vbn_sched_await_cast(struct vbn_sched *sched, uint32_t peer, size_t step)
{
    add_empty(sched, receive(peer, step, true, true));
}

/* Joins a copy to the one before where both sides go on from it. */
static bool joined(struct vbn_sched *sched, struct vbn_at to, struct vbn_at from, size_t len)
{
    struct vbn_step *last = sched->count ? &sched->steps[sched->count - 1] : NULL;

    if (!last || last->kind != VBN_STEP_COPY || last->to.place != to.place ||
        last->from.place != from.place || last->to.off + last->len != to.off ||
        last->from.off + last->len != from.off)
        return false;
    last->len += len;
    return true;
}

void vbn_sched_copy(struct vbn_sched *sched, struct vbn_at to, struct vbn_at from, size_t len)
{
    struct vbn_step s = {.kind = VBN_STEP_COPY, .to = to, .from = from, .len = len};

    if (len && !joined(sched, to, from, len) && !(to.place == from.place && to.off == from.off))
        vbn_sched_add(sched, &s);
}

void vbn_sched_reduce(struct vbn_sched *sched, struct vbn_at to, struct vbn_at from, size_t len)
{
    struct vbn_step s = {.kind = VBN_STEP_REDUCE, .to = to, .from = from, .len = len};

    if (len)
        vbn_sched_add(sched, &s);
}

static uint8_t part_of_round(const struct vbn_step *step)
{
    if (step->kind == VBN_STEP_RECV)
        return step->when == VBN_EARLY ? 0 : VBN_ROUND_RECVS;
    return vbn_step_sends(step) ? VBN_ROUND_SENDS : VBN_ROUND_LOCAL;
}

void vbn_sched_end(struct vbn_sched *sched)
{
    struct vbn_step s = {.kind = VBN_STEP_END};

    if (!sched->count || sched->steps[sched->count - 1].kind == VBN_STEP_END)
        return; /* an empty round is none */
    for (size_t i = sched->round_at; i < sched->count; i++)
        sched->steps[sched->round_at].round_has |= part_of_round(&sched->steps[i]);
    vbn_sched_add(sched, &s);
    sched->round_at = sched->count;
    if (sched->messages[VBN_IN_ROUND] > sched->max_round_messages)
        sched->max_round_messages = sched->messages[VBN_IN_ROUND];
    sched->messages[VBN_IN_ROUND] = 0;
}
