/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of whole nodes and ranks: links that flap, devices that vanish, machines that fall
 * silent, processes that die; and the drawing of a configuration from a seed.
 */
#include "sim.h"

#define DYING_NS 2000000u /* in which a kernel gives back a process's objects, at most */

const char *const fabric_fault_names[FABRIC_FAULTS] = {
    [FABRIC_LOST] = "lost",
    [FABRIC_NOT_READY] = "not ready",
    [FABRIC_GAVE_UP] = "given up",
    [FABRIC_QP_FAILED] = "queue pair failed",
    [FABRIC_MESSAGE_AGAIN] = "message again",
    [FABRIC_DATA_EARLY] = "data early",
    [FABRIC_LINK_DOWN] = "link down",
    [FABRIC_ADDRESS_GONE] = "address gone",
    [FABRIC_CM_LOST] = "CM message lost",
    [FABRIC_CM_REPEATED] = "CM message again",
    [FABRIC_CM_REJECTED] = "CM rejects",
    [FABRIC_CM_UNRESOLVED] = "address unresolved",
    [FABRIC_CALL_FAILED] = "call failed",
    [FABRIC_GARBLED] = "garbled",
    [FABRIC_RANK_KILLED] = "rank killed",
    [FABRIC_DATAGRAM_LOST] = "datagram lost",
    [FABRIC_DATAGRAM_LATE] = "datagram late",
    [FABRIC_JOIN_FAILED] = "join failed",
};

void sim_fault(enum fabric_fault kind)
{
    sim.counters.faults++;
    sim.counters.kinds[kind]++;
}

/* ---- links ---- */

static void port_event(struct sim_node *node, enum ibv_event_type type)
{
    struct ibv_async_event event = {.element.port_num = SIM_PORT, .event_type = type};
    for (struct sim_context *context = node->contexts; context; context = context->node_next)
        if (!context->obj.hidden)
            sim_async_raise(context, &event);
}

void fabric_link_set(int number, bool up)
{
    struct sim_node *node = sim.nodes[number];
    if (node->link_up == up || node->removed)
        return;
    node->link_up = up;
    sim_trace(SIM_T_LINK, (uint64_t)number, up, 0);
    port_event(node, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void fabric_address_set(int number, bool there)
{
    struct sim_node *node = sim.nodes[number];
    if (node->address_away != there || node->removed)
        return;
    node->address_away = !there;
    sim_trace(SIM_T_LINK, (uint64_t)number, there, 1);
    port_event(node, IBV_EVENT_GID_CHANGE);
}

uint64_t fabric_said_without_address(int rank)
{
    return sim.ranks[rank].said_without_address;
}

bool fabric_node_is_up(int number)
{
    return sim.nodes[number]->link_up && !sim.nodes[number]->address_away;
}

static void flap_set(const struct sim_node *node, enum fabric_fault kind, bool up)
{
    if (kind == FABRIC_LINK_DOWN)
        fabric_link_set(node->number, up);
    else
        fabric_address_set(node->number, up);
}

static void flap_over(void *obj, uint64_t kind)
{
    struct sim_node *node = obj;
    flap_set(node, (enum fabric_fault)kind, true);
}

static void flap(struct sim_node *node)
{
    uint64_t away_ns = 1 + sim_below(sim.config.flap_down_ns);
    enum fabric_fault kind = sim_below(2) ? FABRIC_LINK_DOWN : FABRIC_ADDRESS_GONE;
    sim_fault(kind);
    flap_set(node, kind, false);
    sim_after(away_ns, flap_over, node, kind);
}

static void flap_tick(void *obj, uint64_t arg)
{
    struct sim_node *node = obj;
    (void)arg;
    if (fabric_node_is_up(node->number) && sim_chance(sim.config.flap_ppm))
        flap(node);
    if (sim.config.flap_interval_ns)
        sim_after(sim.config.flap_interval_ns, flap_tick, node, 0);
}

void sim_faults_node(struct sim_node *node)
{
    if (sim.config.flap_interval_ns)
        sim_after(sim_below(sim.config.flap_interval_ns), flap_tick, node, 0);
}

/* ---- nodes ---- */

void fabric_node_power_off(int number)
{
    sim.nodes[number]->powered = false;
    sim_trace(SIM_T_KILL, (uint64_t)number, 1, 0);
}

static void node_qps_fail(struct sim_node *node)
{
    for (size_t i = 0; i < sim.qp_count; i++)
        if (sim.qps[i]->obj.magic == SIM_ALIVE && sim.qps[i]->node == node)
            sim_qp_error(sim.qps[i], "device removed");
}

static void ids_removed(struct sim_node *node)
{
    for (struct sim_obj *obj = sim.objects; obj; obj = obj->next) {
        struct sim_id *id = SIM_OF(obj, struct sim_id, obj);
        if (obj->kind != SIM_CM_ID || obj->magic != SIM_ALIVE || id->node != node ||
            !id->id.verbs || id->bound_any)
            continue;
        id->cm = SIM_CM_OVER;
        id->state = SIM_ID_REMOVED;
        id->gen++;
        sim_cm_post(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
    }
}

void fabric_device_remove(int number)
{
    struct sim_node *node = sim.nodes[number];
    if (node->removed)
        return;
    node->removed = true;
    sim_trace(SIM_T_KILL, (uint64_t)number, 2, 0);
    struct ibv_async_event event = {.event_type = IBV_EVENT_DEVICE_FATAL};
    for (struct sim_context *context = node->contexts; context; context = context->node_next)
        if (!context->obj.hidden)
            sim_async_raise(context, &event);
    node_qps_fail(node);
    ids_removed(node);
}

void fabric_node_garble(int number, uint32_t ppm)
{
    sim.nodes[number]->garble_ppm = ppm;
}

void sim_garble(const struct sim_node *from, uint8_t *bytes, uint64_t len)
{
    if (len == 0 || !sim_chance(from->garble_ppm))
        return;
    sim_fault(FABRIC_GARBLED);
    bytes[sim_below(len)] ^= (uint8_t)(1 + sim_below(255));
}

/* ---- ranks ---- */

static void reclaim(void *unused, uint64_t number)
{
    (void)unused;
    for (struct sim_obj *obj = sim.objects; obj; obj = obj->next) {
        if (obj->magic != SIM_ALIVE || obj->rank != (int)number)
            continue;
        if (obj->kind == SIM_CM_ID)
            sim_id_reclaim(SIM_OF(obj, struct sim_id, obj));
        else if (obj->kind == SIM_QP)
            sim_qp_reclaim(SIM_OF(obj, struct sim_qp, obj));
        else if (obj->kind == SIM_SRQ)
            sim_rq_drop(&SIM_OF(obj, struct sim_srq, obj)->rq);
    }
}

/* A kernel gives back what was made last first: regions of a program's own memory before the queue
 * pairs that peers use them by. So the keys of the dead are stale at once (sim_key_check()). */
void fabric_rank_kill(int number)
{
    struct sim_rank *rank = &sim.ranks[number];
    if (rank->dead)
        return;
    sim_fault(FABRIC_RANK_KILLED);
    sim_trace(SIM_T_KILL, (uint64_t)number, 0, 0);
    rank->dead = true;
    sim_after(sim_below(DYING_NS), reclaim, NULL, (uint64_t)number);
}

/* ---- a configuration from a seed ---- */

static uint64_t draw(uint64_t *state, uint64_t bound)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
}

/* A rate is off half of the time, so that each fault is also seen alone. */
static uint32_t draw_rate(uint64_t *state, uint32_t most_ppm)
{
    return draw(state, 2) ? (uint32_t)draw(state, most_ppm) + 1 : 0;
}

void fabric_config_random(uint64_t seed, struct fabric_config *config)
{
    uint64_t state = seed ^ 0xfab51cfab51cu;
    memset(config, 0, sizeof(*config));
    config->latency_ns = 200 + draw(&state, 5000);
    config->jitter_ns = 1 + draw(&state, 20000);
    config->ack_jitter_ns = draw(&state, 20000);
    config->cq_hold_ns = draw(&state, 2) ? draw(&state, 30000) : 0;
    config->cm_jitter_ns = draw(&state, 200000);
    config->cm_timeout_ns = 2000000 + draw(&state, 100000000);
    config->cm_retries = 1 + (uint32_t)draw(&state, 15);
    config->timewait_ns = 1000000 + draw(&state, 2000000000);
    config->rnr_ppm = draw_rate(&state, 20000);
    config->drop_ppm = draw_rate(&state, 5000);
    config->retry_exc_ppm = draw_rate(&state, 3000);
    config->qp_fatal_ppm = draw_rate(&state, 2000);
    config->ghost_ppm = draw_rate(&state, 800000);
    config->ghost_delay_ns = 1 + draw(&state, 10000000);
    config->partial_write_ppm = draw_rate(&state, 500000);
    config->early_data_ppm = draw_rate(&state, 300000);
    config->flap_interval_ns = 1000000 + draw(&state, 50000000);
    config->flap_ppm = draw_rate(&state, 20000);
    config->flap_down_ns = 1 + draw(&state, 300000000);
    config->flap_is_fast_fail = draw(&state, 2);
    config->cm_lost_ppm = draw_rate(&state, 50000);
    config->cm_repeat_ppm = draw_rate(&state, 100000);
    config->cm_reject_ppm = draw_rate(&state, 50000);
    config->cm_addr_error_ppm = draw_rate(&state, 50000);
    config->verbs_fail_ppm = draw(&state, 4) ? 0 : draw_rate(&state, 20000);
    config->cm_fail_ppm = draw(&state, 4) ? 0 : draw_rate(&state, 10000);
    config->purge_on_destroy = draw(&state, 2);
    config->no_last_wqe_event = draw(&state, 2);
    config->srq_limit_at_arm = draw(&state, 2);
    config->no_comm_est = draw(&state, 2);
    config->slots_at_complete = draw(&state, 2);
    config->no_error_event = draw(&state, 2);
    config->late_recvs_stay = draw(&state, 2);
    config->unsound_ppm = draw_rate(&state, 1000);
    config->torn_ppm = draw_rate(&state, 500000);
    config->datagram_lost_ppm = draw_rate(&state, 50000);
    config->datagram_late_ppm = draw_rate(&state, 1000);
    config->join_error_ppm = draw_rate(&state, 100000);
}
