/* SPDX-License-Identifier: BSD-3-Clause */
#include "team.h"
#include "error.h"
#include "hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void vbn_team_log(const vbn_team_t *team, enum vbn_log_level level, const char *fmt, ...)
{
    char line[640];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (team->opts.log)
        team->opts.log(team->opts.callback_arg, level, line);
    else if (level <= VBN_LOG_WARN)
        fprintf(stderr, "verbena: %s\n", line);
}

uint64_t vbn_team_clock_ns(const vbn_team_t *team)
{
    struct timespec now;

    if (team->opts.clock_ns)
        return team->opts.clock_ns(team->opts.callback_arg);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void vbn_team_options_init(struct vbn_team_options *opts, size_t size)
{
    struct vbn_team_options def = {
        .size = size,
        .sleep = true,
        .stall_report_ms = 30000,
        .latency_ns = VBN_LATENCY_NS,
        .alpha_ns = VBN_ALPHA_NS,
        .beta_ps = VBN_BETA_PS,
        .gamma_ps = VBN_GAMMA_PS,
        .eager_bytes = VBN_EAGER,
    };

    memcpy(opts, &def, size < sizeof(def) ? size : sizeof(def));
}

/* The caller's options up to its size, the defaults beyond. */
static int take_options(vbn_team_t *team, const struct vbn_team_options *opts,
                        struct vbn_error *err)
{
    vbn_team_options_init(&team->opts, sizeof(team->opts));
    if (!opts)
        return VBN_OK;
    if (opts->size < sizeof(opts->size) || opts->size > 65536)
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "team options of %zu bytes: vbn_team_options_init() sets `size`",
                             opts->size);
    memcpy(&team->opts, opts, opts->size < sizeof(*opts) ? opts->size : sizeof(*opts));
    if (!team->opts.alpha_ns)
        return vbn_error_set(err, VBN_ERR_INVALID, "team option alpha_ns is 0: no message is free");
    return VBN_OK;
}

/* The strings are read once, and not kept. */
static int take_rules(vbn_team_t *team, struct vbn_error *err)
{
    int status = VBN_OK;

    if (team->opts.rules)
        status = vbn_rules_parse(team, team->opts.rules, "team option rules", err);
    if (status == VBN_OK && team->opts.rules_file && *team->opts.rules_file)
        status = vbn_rules_load(team, team->opts.rules_file, err);
    team->opts.rules = team->opts.rules_file = NULL;
    return status;
}

/* Everything but the peers. */
static int new_team(const struct vbn_transport *tr, vbn_port_t *port, uint32_t size, uint32_t rank,
                    uint32_t id, vbn_team_t **team, struct vbn_error *err)
{
    vbn_team_t *t;

    if (!size || size > VBN_TEAM_MAX || rank >= size)
        return vbn_error_set(err, VBN_ERR_INVALID, "a team: rank %u of %u", rank, size);
    if (id > VBN_TEAM_ID_MAX)
        return vbn_error_set(err, VBN_ERR_INVALID, "team id %u: the largest is %u", id,
                             VBN_TEAM_ID_MAX);
    t = calloc(1, sizeof(*t));
    if (!t)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for a team");
    t->peers = calloc(size, sizeof(vbn_peer_t *));
    if (!t->peers) {
        free(t);
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for a team of %u", size);
    }
    t->tr = tr;
    t->port = port;
    t->size = size;
    t->rank = rank;
    t->id = id;
    for (int i = 0; i < VBN_REQ_KINDS; i++)
        TAILQ_INIT(&t->alive[i]);
    TAILQ_INIT(&t->spare);
    TAILQ_INIT(&t->scratch);
    *team = t;
    return VBN_OK;
}

static void free_team(vbn_team_t *team)
{
    while (!TAILQ_EMPTY(&team->spare)) {
        vbn_coll_req_t *req = TAILQ_FIRST(&team->spare);

        TAILQ_REMOVE(&team->spare, req, entry);
        vbn_req_destroy(req);
    }
    vbn_group_fini(team);
    vbn_scratch_fini(team);
    free(team->rules);
    free(team->peers);
    free(team);
}

static int check_table(const struct vbn_transport *tr, const vbn_port_t *port,
                       vbn_peer_t *const *peers, struct vbn_error *err)
{
    if (!tr || !port || !peers)
        return vbn_error_set(err, VBN_ERR_INVALID, "a team needs a transport, a port and peers");
    if (tr->abi >> 16 != VBN_TRANSPORT_ABI >> 16)
        return vbn_error_set(err, VBN_ERR_INVALID, "transport %s was built for another version",
                             tr->name);
    if (!tr->attr || !tr->send || !tr->recv || !tr->cancel || !tr->progress)
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "transport %s lacks attr, send, recv, cancel or progress", tr->name);
    return VBN_OK;
}

static size_t max_message(const struct vbn_transport *tr, vbn_port_t *port)
{
    struct vbn_port_attr attr = {.size = sizeof(attr)};

    tr->attr(port, &attr);
    return attr.max_send;
}

int vbn_team_create(const struct vbn_transport *tr, vbn_port_t *port, vbn_peer_t *const *peers,
                    uint32_t size, uint32_t rank, uint32_t id, const struct vbn_team_options *opts,
                    vbn_team_t **team, struct vbn_error *err)
{
    vbn_team_t *t = NULL;
    int status;

    if (!team)
        return vbn_error_set(err, VBN_ERR_INVALID, "nowhere to put the team");
    status = check_table(tr, port, peers, err);
    if (status == VBN_OK)
        status = new_team(tr, port, size, rank, id, &t, err);
    if (!t)
        return status;
    for (uint32_t i = 0; i < size && status == VBN_OK; i++) {
        t->peers[i] = i == rank ? NULL : peers[i];
        if (i != rank && !peers[i])
            status = vbn_error_set(err, VBN_ERR_INVALID, "a team: rank %u has no peer", i);
    }
    t->max_message = max_message(tr, port);
    if (status == VBN_OK && !t->max_message)
        status = vbn_error_set(err, VBN_ERR_INVALID, "transport %s sends no messages", tr->name);
    if (status == VBN_OK)
        status = take_options(t, opts, err);
    if (status == VBN_OK)
        status = take_rules(t, err);
    if (status != VBN_OK) {
        free_team(t);
        return status;
    }
    vbn_group_init(t, VBN_HASH_START);
    *team = t;
    return VBN_OK;
}

static uint64_t hash_words(uint64_t hash, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = vbn_hash_word(hash, words[i]);
    return hash;
}

static uint64_t hash_rule(uint64_t hash, const struct vbn_rule *rule)
{
    const char *name = rule->algorithm->name;
    const uint64_t words[] = {rule->algorithm->coll, vbn_hash(name, strlen(name)),
                              rule->param,           rule->bytes_from,
                              rule->bytes_to,        rule->ranks_from,
                              rule->ranks_to};

    return hash_words(hash, words, sizeof(words) / sizeof(words[0]));
}

static uint64_t accord(const vbn_team_t *team)
{
    const struct vbn_team_options *o = &team->opts;
    const uint64_t words[] = {VBN_CHOICES,   o->check,       o->group,
                              o->latency_ns, o->alpha_ns,    o->beta_ps,
                              o->gamma_ps,   o->eager_bytes, team->rule_count};
    uint64_t hash = hash_words(VBN_HASH_START, words, sizeof(words) / sizeof(words[0]));

    for (size_t i = 0; i < team->rule_count; i++)
        hash = hash_rule(hash, &team->rules[i]);
    return hash ? hash : 1;
}

int vbn_team_accord(const struct vbn_team_options *opts, uint64_t *number, struct vbn_error *err)
{
    vbn_team_t team = {.size = 0};
    int status;

    if (!number)
        return vbn_error_set(err, VBN_ERR_INVALID, "nowhere to put the number");
    status = take_options(&team, opts, err);
    if (status == VBN_OK)
        status = take_rules(&team, err);
    if (status == VBN_OK)
        *number = accord(&team);
    free(team.rules);
    return status;
}

/* The caller's place in RANKS; COUNT if they are not different ranks of PARENT with it. */
static uint32_t place_in(const vbn_team_t *parent, const uint32_t *ranks, uint32_t count,
                         uint8_t *seen)
{
    uint32_t place = count;

    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] >= parent->size || seen[ranks[i]])
            return count;
        seen[ranks[i]] = 1;
        if (ranks[i] == parent->rank)
            place = i;
    }
    return place;
}

/* The same for all of RANKS, and most likely another than that of others who split PARENT. */
static uint64_t split_seed(const vbn_team_t *parent, const uint32_t *ranks, uint32_t count)
{
    uint64_t seed = parent->group.key;

    for (uint32_t i = 0; i < count; i++)
        seed = vbn_hash_word(seed, ranks[i]);
    return seed;
}

static int copy_rules(vbn_team_t *team, const vbn_team_t *parent, struct vbn_error *err)
{
    if (!parent->rule_count)
        return VBN_OK;
    team->rules = malloc(parent->rule_count * sizeof(*team->rules));
    if (!team->rules)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for rules");
    memcpy(team->rules, parent->rules, parent->rule_count * sizeof(*team->rules));
    team->rule_count = parent->rule_count;
    return VBN_OK;
}

int vbn_team_split(vbn_team_t *parent, const uint32_t *ranks, uint32_t count, uint32_t id,
                   vbn_team_t **team, struct vbn_error *err)
{
    vbn_team_t *t = NULL;
    uint32_t place;
    uint8_t *seen;
    int status;

    if (!parent || !ranks || !team || !count)
        return vbn_error_set(err, VBN_ERR_INVALID, "a team needs a parent and ranks of it");
    seen = calloc(parent->size, 1);
    if (!seen)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for a team");
    place = place_in(parent, ranks, count, seen);
    free(seen);
    if (place == count)
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "ranks of a team are different ranks of its parent (team %u of %u), "
                             "one of them rank %u, which calls",
                             parent->id, parent->size, parent->rank);
    status = new_team(parent->tr, parent->port, count, place, id, &t, err);
    if (!t)
        return status;
    for (uint32_t i = 0; i < count; i++)
        t->peers[i] = parent->peers[ranks[i]];
    t->max_message = parent->max_message;
    t->opts = parent->opts;
    status = copy_rules(t, parent, err);
    if (status != VBN_OK) {
        free_team(t);
        return status;
    }
    vbn_group_init(t, split_seed(parent, ranks, count));
    *team = t;
    return VBN_OK;
}

int vbn_team_destroy(vbn_team_t *team)
{
    if (!team)
        return VBN_ERR_INVALID;
    vbn_coll_progress(team); /* what is over, and was freed by the caller, goes */
    for (int i = 0; i < VBN_REQ_KINDS; i++)
        if (!TAILQ_EMPTY(&team->alive[i]))
            return VBN_ERR_AGAIN;
    free_team(team);
    return VBN_OK;
}

uint32_t vbn_team_rank(const vbn_team_t *team)
{
    return team->rank;
}

uint32_t vbn_team_size(const vbn_team_t *team)
{
    return team->size;
}

const char *vbn_team_error(const vbn_team_t *team)
{
    return team->error.text;
}
