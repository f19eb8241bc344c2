/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated fabric: libibverbs and librdmacm, as far as the transport uses them, for many
 * ranks inside one process and one thread.
 *
 * A test program is linked with libfabric_sim.la in place of -libverbs -lrdmacm. It creates the
 * fabric from one seed, adds nodes (a host: one RDMA device, one netdev) and ranks (a process on
 * a node), and then calls the transport on behalf of one rank after the other:
 *
 *     fabric_create(seed, NULL);
 *     int node = fabric_node_add(NULL), rank = fabric_rank_add(node);
 *     fabric_enter(rank);          // from here getifaddrs, ibv_get_device_list ... are this rank's
 *     ... vbn_context_open(), vbn_progress() ...
 *     fabric_step();               // the network and the devices work; virtual time advances
 *     if (fabric_destroy() != 0) fail();   // violations and leaks; already reported on stderr
 *
 * Nothing happens behind a rank's back while it runs: bytes move, completions and events appear
 * only inside fabric_step() and fabric_advance(). There is one fabric at a time, because the
 * calls it replaces carry no handle that could name another.
 *
 * Same seed, same configuration, same calls: the same run. fabric_trace_hash() is the proof.
 */
#ifndef VBN_TESTS_SIM_FABRIC_H
#define VBN_TESTS_SIM_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

enum fabric_transport { FABRIC_ROCE, FABRIC_INFINIBAND, FABRIC_IWARP };

/* What a node's device offers. Zero in a field means the default in brackets. */
struct fabric_node_attr {
    enum fabric_transport transport; /* RoCE */
    int family;                      /* AF_INET [default], AF_INET6, or AF_UNSPEC + no_address */
    bool link_local;                 /* with AF_INET6: fe80:: with a scope id */
    bool no_address;                 /* the netdev has no IP address */
    bool no_device;                  /* a host with a netdev and no RDMA device */
    bool no_srq;                     /* ibv_create_srq fails with EOPNOTSUPP, max_srq is 0 */
    bool no_atomics;                 /* IBV_ATOMIC_NONE, posts are refused; iWARP: always */
    bool iwarp_write_imm;            /* iWARP device that has WRITE_WITH_IMM all the same */
    bool soft_iwarp; /* iWARP's own kind: sends complete before reads posted earlier, rdma_connect()
                        itself is refused where nobody listens, requests that are posted in the
                        error state never complete */
    bool soft_roce;  /* says that it is soft-RoCE; its reads are sound all the same */
    int max_qp;      /* [65536] */
    int max_qp_wr;   /* [16384] */
    int max_sge;     /* [32] */
    int max_cqe;     /* [32767] */
    int max_srq_wr;  /* [32767] */
    int max_inline;  /* [400]; -1: none */
    int max_rd_atom; /* [128] read/atomic depth, either direction */
    uint32_t max_msg_bytes; /* [8 MiB] */
    int gid_index_shift;    /* empty GID entries put before the real ones */
};

/*
 * How the fabric behaves. All zero: well behaved, fixed latency, nothing fails.
 * Rates are in parts per million of the occasions named. Times are virtual nanoseconds.
 */
struct fabric_config {
    /* timing */
    uint64_t latency_ns;    /* one way, least [1000] */
    uint64_t jitter_ns;     /* more, drawn for each message: reorders between connections */
    uint64_t ack_jitter_ns; /* the same for the acknowledgement: spreads completions */
    uint64_t cq_hold_ns;    /* completions gather up to this long, then show together */
    uint64_t cm_jitter_ns;  /* CM messages and events */
    uint64_t byte_ps;       /* picoseconds a byte [80] */
    uint32_t torn_ppm;      /* of a short RDMA write some bytes show later than the others */

    /* the CM protocol's own clock (kernel defaults: 6.4 s a try, 15 retries, 2 s timewait) */
    uint64_t cm_timeout_ns;
    uint32_t cm_retries;
    uint64_t timewait_ns;

    /* faults of the data path, a message */
    uint32_t rnr_ppm;       /* receiver not ready although a receive is posted */
    uint32_t drop_ppm;      /* packet lost: the transport retries after its timeout */
    uint32_t retry_exc_ppm; /* requester gives up: IBV_WC_RETRY_EXC_ERR, message delivered or not */
    uint32_t qp_fatal_ppm;  /* QP to the error state, IBV_EVENT_QP_FATAL */
    uint32_t unsound_ppm;   /* a message comes a second time, or an empty one behind it (rxe) */
    uint32_t ghost_ppm;     /* when a QP fails: its queued packets still arrive later */
    uint64_t ghost_delay_ns;    /* how much later, at most [100 us] */
    uint32_t partial_write_ppm; /* when a QP fails: a prefix of the next RDMA write lands */
    uint32_t early_data_ppm;    /* passive side: data arrives before ESTABLISHED (RTU late) */

    /* faults of datagrams, each for each receiver */
    uint32_t datagram_lost_ppm;
    uint32_t datagram_late_ppm; /* by up to 100 us, and overtaken */

    /* faults of a node's port, drawn once a node and interval */
    uint64_t flap_interval_ns; /* 0: never */
    uint32_t flap_ppm;
    uint64_t flap_down_ns;  /* longest time down, or without its address */
    bool flap_is_fast_fail; /* while down, sends fail at once with IBV_WC_LOC_QP_OP_ERR (rxe) */

    /* faults of the connection manager, a message or event */
    uint32_t cm_lost_ppm;       /* retransmitted by the CM after cm_timeout_ns, or given up */
    uint32_t cm_repeat_ppm;     /* an event is reported twice */
    uint32_t cm_reject_ppm;     /* a REQ is answered by the network with a reject */
    uint32_t cm_addr_error_ppm; /* ADDR_ERROR, ROUTE_ERROR */
    uint32_t join_error_ppm;    /* MULTICAST_ERROR */

    /* failing calls, a call */
    uint32_t verbs_fail_ppm; /* creation, registration, queries, ibv_modify_qp; not posts */
    uint32_t cm_fail_ppm;    /* rdma_* calls that can fail */
    uint32_t alloc_fail_ppm; /* malloc & co., if the program is linked with the wrappers */

    /* device habits that differ between vendors */
    bool purge_on_destroy;  /* completions of a destroyed QP vanish from the CQ */
    bool no_last_wqe_event; /* IBV_EVENT_QP_LAST_WQE_REACHED is never raised */
    bool srq_limit_at_arm;  /* limit event at once if the SRQ is already below the limit */
    bool no_comm_est;       /* IBV_EVENT_COMM_EST is never raised */
    bool no_error_event;    /* a responder that refused something tells nobody (soft-RoCE) */
    bool late_recvs_stay;   /* receives posted in the error state wait for another ibv_modify_qp()
                               to it before they are flushed (soft-RoCE) */
    bool slots_at_complete; /* a queue slot is free at completion, not only once polled */

    /* the checks that cost */
    bool no_buffer_checks; /* do not checksum send buffers */

    /* reports */
    bool quiet;   /* a violation is recorded, nothing is printed */
    bool verbose; /* each event is printed on stderr as it happens */
};

/* A configuration with every fault at a moderate rate, drawn from the seed. */
void fabric_config_random(uint64_t seed, struct fabric_config *config);

/* config NULL: all zero. Raises RLIMIT_NOFILE's soft limit to the hard one. */
void fabric_create(uint64_t seed, const struct fabric_config *config);

/*
 * Looks for leaked objects, frees everything and returns the number of violations of the run,
 * leaks included. With violations the seed and the trace have been printed, unless quiet.
 */
int fabric_destroy(void);

int fabric_node_add(const struct fabric_node_attr *attr); /* returns the node's number, from 0 */
int fabric_rank_add(int node);                            /* returns the rank's number, from 0 */
void fabric_enter(int rank);                              /* the calls from here on are its calls */
int fabric_current_rank(void);
void fabric_node_addr(int node, struct sockaddr_storage *addr); /* its netdev's address, port 0 */

/* Configuration may be changed during the run, for example to stop all faults before the end. */
struct fabric_config *fabric_config(void);

/* ---- time ---- */
uint64_t fabric_now_ns(void);
/* Runs what is due at the earliest instant there is, which becomes now. Returns how many
 * events that were; 0: nothing is due, ever, and time stands still. */
int fabric_step(void);
/* Runs everything due in the next duration_ns; now is then that much later. */
int fabric_advance(uint64_t duration_ns);
/* When the next event is due; UINT64_MAX if none. */
uint64_t fabric_next_ns(void);
/* A random number of the fabric's stream, for workloads: below bound (> 0). */
uint64_t fabric_random(uint64_t bound);

/* ---- faults on command ---- */
void fabric_link_set(int node, bool up);       /* port events, netdev not running, packets lost */
bool fabric_node_is_up(int node);              /* its link is, and its address there */
void fabric_address_set(int node, bool there); /* GID events, getifaddrs; packets lost without it */
/* Messages of the connection manager that RANK sent for while its node had no address: after one
 * soft-RoCE makes no connection any more (doc/behaviours.md, i). */
uint64_t fabric_said_without_address(int rank);
void fabric_device_remove(int node);  /* DEVICE_FATAL, DEVICE_REMOVAL; every call fails */
void fabric_node_power_off(int node); /* silence: no packet in or out, no CM message */
/* The process dies, its kernel cleans up (peers are told by the CM). The rank's memory is still
 * there: its later calls do nothing and succeed if they destroy, fail with EIO if not. */
void fabric_rank_kill(int rank);
void fabric_qp_fail(uint32_t qp_num); /* to the error state, as by a fatal local error */
void fabric_path_set(int from_node, int to_node, bool up); /* one direction; data and CM */

/* From now on some of what the node sends, at this rate, has one byte changed: of the first 16 of a
 * SEND, or of private data. So speaks a peer that is broken or means harm; the fabric itself, as
 * any RC transport, never does this. */
void fabric_node_garble(int node, uint32_t ppm);

/* ---- failing the Nth call ---- */
enum fabric_fail_class { FABRIC_FAIL_ALLOC = 1, FABRIC_FAIL_VERBS = 2, FABRIC_FAIL_CM = 4 };
/* From now on count calls of these classes by the entered rank; the nth (from 1) fails once.
 * nth 0: only count. */
void fabric_fail_arm(unsigned classes, unsigned nth);
/* Stops; returns how many calls were counted. */
unsigned fabric_fail_disarm(void);
bool fabric_fail_fired(void);
const char *fabric_fail_what(void); /* the call that was made to fail, or NULL */

/* What the program holds now, the fabric's own memory not counted: allocations and mappings, where
 * it is linked with the wrappers. */
uint64_t fabric_alloc_bytes(void);

/* ---- verdict ---- */
int fabric_violations(void);
const char *fabric_violation_text(int index); /* the first 16 are kept; NULL beyond */
void fabric_violations_clear(void);           /* for tests of the fabric itself */
/* How often ASKER has asked ASKED for a connection, repetitions of a request not counted. */
uint32_t fabric_connections_asked(int asker, int asked);
uint64_t fabric_trace_hash(void);
void fabric_trace_print(FILE *out); /* seed, configuration, the last events */
/* A line in the trace from the workload; also hashed. text must be a literal. */
void fabric_trace_mark(const char *text, uint64_t a, uint64_t b);

/* What a fault was. */
enum fabric_fault {
    FABRIC_LOST,          /* a message, or its acknowledgement */
    FABRIC_NOT_READY,     /* the receiver said so */
    FABRIC_GAVE_UP,       /* the requester, or an iWARP stream broke */
    FABRIC_QP_FAILED,     /* one of the two queue pairs */
    FABRIC_MESSAGE_AGAIN, /* twice, or without its bytes */
    FABRIC_DATA_EARLY,    /* before the connection was established */
    FABRIC_LINK_DOWN,     /* and up again */
    FABRIC_ADDRESS_GONE,  /* and back again */
    FABRIC_CM_LOST,       /* a message of the connection manager */
    FABRIC_CM_REPEATED,   /* one of its requests or events */
    FABRIC_CM_REJECTED,   /* a request, by the peer's connection manager */
    FABRIC_CM_UNRESOLVED, /* an address, or a route */
    FABRIC_CALL_FAILED,   /* a verb, one of rdma_cm, or an allocation */
    FABRIC_GARBLED,       /* what a hostile node sends */
    FABRIC_RANK_KILLED,
    FABRIC_DATAGRAM_LOST, /* on its way to one receiver */
    FABRIC_DATAGRAM_LATE,
    FABRIC_JOIN_FAILED, /* of a group */
    FABRIC_FAULTS
};

extern const char *const fabric_fault_names[FABRIC_FAULTS];

struct fabric_counters {
    uint64_t messages, bytes, completions, events, cm_events;
    uint64_t rnr_naks, retries, ghosts, faults;
    uint64_t datagrams, datagrams_lost; /* by receivers; lost for whatever reason */
    uint64_t kinds[FABRIC_FAULTS];      /* `faults`, one by one */
    uint32_t qps, qps_peak, mrs, ids;
    uint64_t memory_bytes; /* what the fabric itself holds */
};
void fabric_counters(struct fabric_counters *out);

#endif
