/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a request: made of a call, or taken from those at rest; started, waited for, freed.
 */
#include "check.h"
#include "error.h"
#include "team.h"

#include <sched.h>
#include <stdlib.h>

/* In a wait: polls that found nothing before a sleep; where ranks share processors they give theirs
 * away after each such poll, and sleep when that has taken so long for each of them, sooner in and
 * after a call with messages beyond the eager limit, or at once where nothing but such a message
 * has to come. */
#define IDLE_POLLS 256u
#define YIELD_NS   500000u
#define LONG_NS    50000u
/* One sleep is short: another thread may have taken what this one waits for. */
#define SLEEP_MS      10
#define LOOK_TESTS    256u /* of a request that is not over, between looks at the clock */
#define SEQ_ALIVE_MAX (VBN_SEQ_COUNT / 2)

static void drop_scratch(vbn_coll_req_t *req)
{
    vbn_scratch_put(req->team, req->scratch);
    req->scratch = NULL;
    req->base[VBN_AT_TMP] = NULL;
}

static bool __attribute__((noinline)) change_scratch(vbn_coll_req_t *req)
{
    drop_scratch(req);
    req->scratch = vbn_scratch_get(req->team, req->sched.tmp_len);
    req->base[VBN_AT_TMP] = req->scratch ? req->scratch->bytes : NULL;
    return req->scratch != NULL;
}

/* What REQ's schedule needs. False: no memory. */
static inline bool take_scratch(vbn_coll_req_t *req)
{
    size_t len = req->sched.tmp_len;

    return !len || (req->scratch && req->scratch->room >= len) || change_scratch(req);
}

void vbn_req_destroy(vbn_coll_req_t *req)
{
    vbn_sched_fini(&req->sched);
    free(req->flights);
    free(req->packed);
    drop_scratch(req);
    free(req);
}

/* No longer among those at rest. */
static void wake(vbn_coll_req_t *req)
{
    TAILQ_REMOVE(&req->team->spare, req, entry);
    req->team->spare_count--;
}

/* To those at rest, or away. */
static void put_req(vbn_coll_req_t *req)
{
    vbn_team_t *team = req->team;

    if (team->spare_count == VBN_SPARE_MAX) {
        vbn_coll_req_t *oldest = TAILQ_LAST(&team->spare, vbn_req_list);

        wake(oldest);
        vbn_req_destroy(oldest);
    }
    if (req->scratch && req->scratch->room >= VBN_SCRATCH_LONG)
        drop_scratch(req);
    TAILQ_INSERT_HEAD(&team->spare, req, entry);
    team->spare_count++;
}

static void drop_req(vbn_coll_req_t *req)
{
    TAILQ_REMOVE(&req->team->alive[req->kind], req, entry);
    put_req(req);
}

/* How many ranks take turns. More would need more schedules at rest, and connections. */
#define TURNS 8u

/*
 * Where trees of the next call begin if it has no root. Where ranks share processors the busiest
 * rank of a tree holds all others up, so it is another one each time.
 */
static uint32_t next_top(const vbn_team_t *team, enum vbn_req_kind kind)
{
    uint32_t turns = team->size < TURNS ? team->size : TURNS;

    if (vbn_team_at_once(team) == team->size)
        return 0;
    return team->next_seq[kind] % turns * team->size / turns;
}

/* Whether ROOT is that of the last call that named one: where ranks share processors it has more to
 * do than others, unless each has its turn. In the check mode ranks go on after calls with
 * different roots. */
static bool root_stays(const vbn_team_t *team, uint32_t root)
{
    return team->last_root == root && vbn_team_at_once(team) < team->size && !team->opts.check;
}

/* Whether BUF is what LAST was: nothing, in place, or some memory. */
static bool same_kind(const void *buf, const void *last)
{
    return buf == last || (buf && last && buf != VBN_IN_PLACE && last != VBN_IN_PLACE);
}

static bool same_op(const vbn_coll_req_t *req, const struct vbn_coll_args *args)
{
    if (!args->user_op)
        return !req->args.user_op && req->args.op == args->op;
    return req->args.user_op && args->user_op->fn &&
           args->user_op->commutative == req->call.commutative;
}

/* Whether ARGS with ROOT are REQ's last call again, in other memory: then nothing has to be checked
 * or built. */
static bool repeats(const vbn_coll_req_t *req, const struct vbn_coll_args *args, uint32_t root,
                    bool stays)
{
    const struct vbn_coll_args *last = &req->args;

    return last->coll == args->coll && last->count == args->count && req->call.root == root &&
           req->call.root_stays == stays && req->call.group == vbn_group_is_on(req->team) &&
           last->dtype == args->dtype && last->elem_size == args->elem_size && req->algorithm &&
           req->uniform && same_kind(args->sendbuf, last->sendbuf) &&
           same_kind(args->recvbuf, last->recvbuf) &&
           (args->sendbuf != args->recvbuf || last->sendbuf == last->recvbuf) && same_op(req, args);
}

/* One at rest that repeats its call, or NULL: none, or no memory. */
static vbn_coll_req_t *get_again(vbn_team_t *team, const struct vbn_coll_args *args, uint32_t root,
                                 bool stays)
{
    vbn_coll_req_t *req;

    TAILQ_FOREACH(req, &team->spare, entry)
    if (repeats(req, args, root, stays))
        break;
    if (!req)
        return NULL;
    wake(req);
    if (!take_scratch(req)) {
        put_req(req);
        return NULL;
    }
    req->base[VBN_AT_SEND] = (uint8_t *)(uintptr_t)args->sendbuf;
    req->base[VBN_AT_RECV] = args->recvbuf;
    if (args->user_op) {
        req->reduce = args->user_op->fn;
        req->reduce_arg = args->user_op->arg;
    }
    return req;
}

/* The one longest at rest where there are many, or a new one. */
static vbn_coll_req_t *get_other(vbn_team_t *team)
{
    vbn_coll_req_t *req = NULL;

    if (team->spare_count == VBN_SPARE_MAX) {
        req = TAILQ_LAST(&team->spare, vbn_req_list);
        wake(req);
    } else {
        req = calloc(1, sizeof(*req));
        if (req)
            req->team = team;
    }
    return req;
}

static int take_memory(vbn_coll_req_t *req)
{
    const struct vbn_sched *sched = &req->sched;
    size_t flights =
        (size_t)sched->max_round_messages + sched->messages[VBN_EARLY] + sched->messages[VBN_LATE];

    if (sched->failed)
        return VBN_ERR_NO_MEMORY;
    if (flights > req->flight_room) {
        free(req->flights);
        req->flights = calloc(flights, sizeof(*req->flights));
        req->flight_room = req->flights ? flights : 0;
        vbn_engine_flights_init(req);
    }
    req->flight_count = flights;
    return take_scratch(req) && req->flight_room >= flights ? VBN_OK : VBN_ERR_NO_MEMORY;
}

static int build(vbn_coll_req_t *req, struct vbn_error *err)
{
    int status;

    vbn_select(req);
    vbn_sched_reset(&req->sched, req->team->max_message);
    if (req->team->opts.check)
        vbn_check_build(&req->sched, &req->call);
    req->algorithm->build(&req->sched, &req->call);
    vbn_sched_seal(&req->sched);
    status = take_memory(req);
    if (status != VBN_OK)
        return vbn_error_set(err, status, "no memory for %s of %u ranks (%s): %zu bytes of scratch",
                             vbn_coll_name(req->call.coll), req->call.size, req->algorithm->name,
                             req->sched.tmp_len);
    return VBN_OK;
}

/* Makes REQ's call and schedule of ARGS. */
static int prepare(vbn_coll_req_t *req, const struct vbn_coll_args *args, uint32_t root, bool stays,
                   struct vbn_error *err)
{
    int status;

    req->algorithm = NULL; /* until there is a schedule */
    req->args = *args;
    status = vbn_call_take(req, args, root, err);
    req->call.root_stays = stays;
    if (status == VBN_OK)
        status = build(req, err);
    if (status != VBN_OK)
        req->algorithm = NULL;
    return status;
}

/* Numbers are given in the order of calls, which is the same on all ranks. */
static int number(vbn_coll_req_t *req, enum vbn_req_kind kind, struct vbn_error *err)
{
    vbn_team_t *team = req->team;
    const vbn_coll_req_t *oldest = TAILQ_FIRST(&team->alive[kind]);
    uint16_t seq = team->next_seq[kind];

    if (oldest && (uint16_t)(seq - oldest->seq) % VBN_SEQ_COUNT >= SEQ_ALIVE_MAX)
        return vbn_error_set(err, VBN_ERR_AGAIN, "team %u: %s %u calls back is not over yet",
                             team->id, vbn_coll_name(oldest->call.coll), SEQ_ALIVE_MAX);
    team->next_seq[kind] = (uint16_t)((seq + 1) % VBN_SEQ_COUNT);
    req->seq = (uint16_t)(seq + (kind == VBN_REQ_PERSISTENT ? VBN_SEQ_PERSISTENT : 0));
    req->kind = kind;
    return VBN_OK;
}

static int incomplete(struct vbn_error *err)
{
    return vbn_error_set(err, VBN_ERR_INVALID,
                         "a collective needs a team, arguments with their size, and a request");
}

int vbn_req_check(vbn_team_t *team, const struct vbn_coll_args *args, struct vbn_error *err)
{
    vbn_coll_req_t req = {.team = team};
    int status;

    if (!args || args->size < sizeof(*args))
        return incomplete(err);
    status = vbn_call_take(&req, args, vbn_call_has_root(args->coll) ? args->root : 0, err);
    free(req.packed);
    return status;
}

static int new_req(vbn_team_t *team, const struct vbn_coll_args *args, enum vbn_req_kind kind,
                   vbn_coll_req_t **made, struct vbn_error *err)
{
    vbn_coll_req_t *req;
    uint32_t root;
    bool rooted, stays;
    int status = VBN_OK;

    if (!team || !args || !made || args->size < sizeof(*args))
        return incomplete(err);
    rooted = vbn_call_has_root(args->coll);
    root = rooted ? args->root : next_top(team, kind);
    stays = rooted && root_stays(team, root);
    req = get_again(team, args, root, stays);
    if (!req) {
        req = get_other(team);
        if (!req)
            return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for a request");
        status = prepare(req, args, root, stays, err);
    }
    if (status == VBN_OK)
        status = number(req, kind, err);
    if (status != VBN_OK) {
        put_req(req);
        return status;
    }
    if (rooted)
        team->last_root = root;
    req->phase = VBN_PHASE_REST;
    req->status = VBN_OK;
    req->released = false;
    req->error.text[0] = '\0';
    TAILQ_INSERT_TAIL(&team->alive[kind], req, entry);
    *made = req;
    return VBN_OK;
}

int vbn_coll_init(vbn_team_t *team, const struct vbn_coll_args *args, vbn_coll_req_t **req,
                  struct vbn_error *err)
{
    return new_req(team, args, VBN_REQ_PERSISTENT, req, err);
}

int vbn_coll_start(vbn_coll_req_t *req)
{
    if (!req || req->kind != VBN_REQ_PERSISTENT || req->phase != VBN_PHASE_REST)
        return VBN_ERR_INVALID;
    vbn_engine_start(req);
    return VBN_OK;
}

int vbn_coll_istart(vbn_team_t *team, const struct vbn_coll_args *args, vbn_coll_req_t **req,
                    struct vbn_error *err)
{
    int status = new_req(team, args, VBN_REQ_ONCE, req, err);

    if (status == VBN_OK)
        vbn_engine_start(*req);
    return status;
}

/* What the caller is told of a request that is over; one that was for once is gone with it. */
static int result_of(vbn_coll_req_t *req)
{
    int status = req->status;

    req->team->last_longest = req->sched.longest;
    if (req == req->team->group.ballot)
        vbn_group_decide(req->team, status);
    if (req->kind == VBN_REQ_ONCE) {
        if (status != VBN_OK)
            req->team->error = req->error;
        drop_req(req);
    }
    return status;
}

/* The time since the last step, and a report. */
static void look_at_clock(vbn_coll_req_t *req)
{
    const vbn_team_t *team = req->team;
    uint64_t now;

    if (!team->opts.stall_report_ms || req->stall_told)
        return;
    now = vbn_team_clock_ns(team);
    if (!req->moved_ns)
        req->moved_ns = now;
    else if (now - req->moved_ns >= team->opts.stall_report_ms * 1000000u)
        vbn_engine_stall_report(req);
}

/* Whether REQ is over. */
static inline bool advance(vbn_coll_req_t *req)
{
    if (vbn_engine_advance(req))
        return true;
    if (++req->tests % LOOK_TESTS == 0)
        look_at_clock(req);
    return false;
}

int vbn_coll_test(vbn_coll_req_t *req)
{
    if (!req)
        return VBN_ERR_INVALID;
    return advance(req) ? result_of(req) : VBN_PENDING;
}

static bool may_sleep(const vbn_team_t *team)
{
    return team->opts.sleep && team->tr->wait;
}

/* How long it yields: those that it waits for may be at much, or behind at the call before. */
static uint64_t yield_ns(const vbn_coll_req_t *req)
{
    const vbn_team_t *team = req->team;
    size_t eager = team->opts.eager_bytes;
    bool much = req->sched.longest > eager || team->last_longest > eager;

    return (uint64_t)(much ? LONG_NS : YIELD_NS) * (team->size / vbn_team_at_once(team));
}

/*
 * After IDLE polls that found nothing: whether to sleep. Most waits are over when the processor
 * comes back for the first time: only then is it worth it to look at the clock. But what is longer
 * than an eager message needs the sender's turn, and more than one; that of who sends, too.
 */
static bool is_long(vbn_coll_req_t *req, unsigned idle)
{
    const vbn_team_t *team = req->team;

    if (idle == 2)
        req->sleep_at_ns = vbn_team_clock_ns(team) + yield_ns(req);
    if (req->sched.longest > team->opts.eager_bytes &&
        vbn_engine_awaited(req) > team->opts.eager_bytes)
        return true;
    return idle > 2 && vbn_team_clock_ns(team) >= req->sleep_at_ns;
}

enum vbn_coll_rest vbn_coll_rest(vbn_coll_req_t *req, unsigned idle, int sleep_ms)
{
    const vbn_team_t *team = req->team;

    if (vbn_team_at_once(team) == team->size)
        return VBN_REST_NONE;
    if (may_sleep(team) && is_long(req, idle)) {
        team->tr->wait(team->port, sleep_ms);
        return VBN_REST_SLEPT;
    }
    sched_yield();
    return VBN_REST_YIELDED;
}

int vbn_coll_wait(vbn_coll_req_t *req)
{
    const vbn_team_t *team;
    unsigned idle = 0;

    if (!req)
        return VBN_ERR_INVALID;
    team = req->team;
    while (!advance(req)) {
        idle = team->tr->progress(team->port) > 0 ? 0 : idle + 1;
        if (idle && vbn_coll_rest(req, idle, SLEEP_MS) == VBN_REST_NONE && idle % IDLE_POLLS == 0 &&
            may_sleep(team))
            team->tr->wait(team->port, SLEEP_MS);
        /* other ranks may need those before they come to this one */
        vbn_coll_progress(req->team);
    }
    return result_of(req);
}

const char *vbn_coll_error(const vbn_coll_req_t *req)
{
    return req ? req->error.text : "";
}

const char *vbn_coll_chosen(const vbn_coll_req_t *req)
{
    return req->algorithm->name;
}

size_t vbn_coll_chosen_param(const vbn_coll_req_t *req)
{
    return req->call.param;
}

void vbn_coll_free(vbn_coll_req_t *req)
{
    if (!req)
        return;
    if (vbn_engine_advance(req))
        drop_req(req);
    else
        req->released = true;
}

size_t vbn_coll_progress(vbn_team_t *team)
{
    vbn_coll_req_t *req, *next;
    size_t under_way = 0;

    for (int kind = 0; kind < VBN_REQ_KINDS; kind++)
        for (req = TAILQ_FIRST(&team->alive[kind]); req; req = next) {
            next = TAILQ_NEXT(req, entry);
            if (!vbn_engine_advance(req))
                under_way++;
            else if (req->released)
                drop_req(req);
        }
    return under_way;
}
