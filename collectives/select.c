/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which algorithm a call gets: the first rule of the team's that fits; otherwise the one that the
 * model gives the shortest time. Every rank comes to the same: nothing that only one rank knows is
 * looked at.
 */
#include "team.h"

#include <float.h>

#define OFFERED 3 /* messages: an offer, the answer, and what was offered */
#define COPIED  2 /* times that what is not offered is: to be sent, and from where it came */

#define RADIX_MAX 8 /* that is chosen, not given */

/* Processors that are busy while a message's bytes are moved: its sender's, half its receiver's. */
#define MOVED_BY 1.5

static bool in_range(const struct vbn_rule *rule, const struct vbn_call *call, uint64_t bytes)
{
    return bytes >= rule->bytes_from && bytes <= rule->bytes_to && call->size >= rule->ranks_from &&
           call->size <= rule->ranks_to;
}

static const struct vbn_rule *rule_for(const vbn_team_t *team, const struct vbn_call *call)
{
    uint64_t bytes = team->rule_count ? vbn_call_bytes(call) : 0;

    for (size_t i = 0; i < team->rule_count; i++) {
        const struct vbn_rule *rule = &team->rules[i];

        if (rule->algorithm->coll == call->coll && in_range(rule, call, bytes) &&
            vbn_algorithm_fits(rule->algorithm, call))
            return rule;
    }
    return NULL;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* How many messages' bytes are moved at a time. */
static double moved_at_once(uint32_t processors, uint32_t size)
{
    uint32_t busy = vbn_at_once(processors, size);

    return busy < size ? larger(busy / MOVED_BY, 1) : size;
}

/* How long a message that another waits for is under way, in latencies. A rank has SHARE of a
 * processor, of several or of ONE. */
static double hop_of(const struct vbn_coll_cost *cost, double share, bool one, bool offered)
{
    bool all_wait = cost->all_wait && !one;

    if (share >= 1)
        return 1;
    if (offered || (all_wait && !cost->turns))
        return 1 / share;
    return all_wait || cost->root_stays ? (1 + 1 / share) / 2 : share;
}

/* The bytes that follow one another where those of AT_ONCE messages are moved at a time. */
static double bytes_of(const struct vbn_coll_cost *cost, double at_once, bool shared, bool copied)
{
    double own = copied ? cost->turn_bytes : larger(cost->path_bytes, cost->bytes);

    if (shared && !copied && cost->turns) /* towards a tree's top there are fewer messages */
        return cost->path_bytes + (cost->all_bytes - cost->path_bytes) / at_once;
    return larger(own, cost->all_bytes / at_once);
}

struct vbn_coll_terms vbn_coll_terms_of(const struct vbn_coll_cost *cost, uint32_t size,
                                        uint32_t processors, uint64_t eager_bytes)
{
    double share = vbn_at_once(processors, size) / (double)size;
    bool offered = cost->all_bytes > cost->all_messages * (double)eager_bytes;
    bool shared = share < 1, copied = shared && !offered;
    double each = offered ? OFFERED : 1;
    double hop = hop_of(cost, share, processors == 1, offered);
    double bytes = bytes_of(cost, moved_at_once(processors, size), shared, copied);

    return (struct vbn_coll_terms){
        .latencies = each * cost->depth * hop,
        .messages = each * larger(cost->rounds * share, cost->turn_messages / share),
        .bytes = bytes,
        .touched = (cost->reduced + cost->copied) / share + (copied ? COPIED * bytes : 0)};
}

static double time_of(const vbn_team_t *team, const struct vbn_algorithm *algorithm,
                      const struct vbn_call *call)
{
    struct vbn_coll_cost cost = vbn_algorithm_cost(algorithm, call);
    struct vbn_coll_terms terms =
        vbn_coll_terms_of(&cost, call->size, team->opts.processors, team->opts.eager_bytes);

    return terms.latencies * (double)team->opts.latency_ns + terms.messages * call->alpha_ns +
           terms.bytes * call->beta_ns + terms.touched * (double)team->opts.gamma_ps / 1e3;
}

/* Costs are for equal blocks: the average one stands for those of different lengths. */
static struct vbn_call model_call(const struct vbn_call *call)
{
    struct vbn_call model = *call;

    if (call->coll == VBN_COLL_REDUCE_SCATTER || call->coll == VBN_COLL_ALLGATHERV)
        model.count = call->packed[call->size] / call->size;
    if (call->coll == VBN_COLL_GATHERV || call->coll == VBN_COLL_SCATTERV ||
        call->coll == VBN_COLL_ALLTOALLV)
        model.count = 0;
    return model;
}

/* MODEL by ALGORITHM with PARAM, which is REQ's if it takes less than *BEST. */
static void consider(vbn_coll_req_t *req, struct vbn_call *model,
                     const struct vbn_algorithm *algorithm, size_t param, double *best)
{
    double time;

    model->param = vbn_algorithm_param(algorithm, model->size, param);
    time = time_of(req->team, algorithm, model);
    if (time >= *best)
        return;
    *best = time;
    req->algorithm = algorithm;
    req->call.param = model->param;
}

/* Whether fewer levels of a tree may be worth more messages of its root. Ranks of one processor
 * pass a binomial tree in nearly the order in which they run, and where two share one hops are
 * short; a bcast of what is not offered is `linear`'s anyhow (doc/trials.md). */
static bool wants_radices(const struct vbn_team_options *opts, uint32_t size,
                          const struct vbn_algorithm *algorithm, bool offered)
{
    bool tree =
        algorithm->limits & VBN_ALGO_TURNS || (offered && algorithm->limits & VBN_ALGO_AT_ONCE);

    return tree && algorithm->limits & VBN_ALGO_RADIX && opts->processors > 1 &&
           size / 2 > opts->processors;
}

/*
 * Segments as the model has them, or so long that their receivers need not be asked; and the
 * default radix, or a larger one. Each child is a connection.
 */
static void consider_all(vbn_coll_req_t *req, struct vbn_call *model,
                         const struct vbn_algorithm *algorithm, double *best)
{
    const struct vbn_team_options *opts = &req->team->opts;
    bool offered = model->count * model->elem > opts->eager_bytes;
    size_t radix = algorithm->param;

    consider(req, model, algorithm, 0, best);
    if (algorithm->limits & VBN_ALGO_SEGMENT && offered)
        consider(req, model, algorithm, opts->eager_bytes, best);
    if (!wants_radices(opts, model->size, algorithm, offered))
        return;
    while (radix < RADIX_MAX && radix < model->size)
        consider(req, model, algorithm, radix *= 2, best);
}

static void select_by_model(vbn_coll_req_t *req)
{
    struct vbn_call model = model_call(&req->call);
    const struct vbn_algorithm *algorithm;
    double best = DBL_MAX;

    for (unsigned i = 0; (algorithm = vbn_algorithm_at(model.coll, i)); i++)
        if (vbn_algorithm_fits(algorithm, &req->call))
            consider_all(req, &model, algorithm, &best);
}

void vbn_select(vbn_coll_req_t *req)
{
    const struct vbn_rule *rule = rule_for(req->team, &req->call);

    req->algorithm = rule ? rule->algorithm : NULL;
    if (rule)
        req->call.param = vbn_algorithm_param(rule->algorithm, req->call.size, rule->param);
    else
        select_by_model(req);
}
