/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verbena: active messages and remote memory access over reliable-connected queue pairs.
 *
 * The life of a program:
 *
 *     vbn_options_init → vbn_open → vbn_address → (peers exchange addresses)
 *         → vbn_endpoint_create → vbn_am_send / vbn_put / vbn_get, vbn_progress … → vbn_close
 *
 * Everything hangs off a context; there is no global state, and one process may hold many contexts.
 * Nothing happens unless vbn_progress() is called: no hidden thread exists.
 *
 * Threads. A context opened with `multithreaded` may be used from any thread at once; otherwise by
 * one thread at a time. Callbacks run inside vbn_progress(), vbn_wait(), vbn_arm() or vbn_close()
 * on the calling thread, with no lock held; they may call any function here but the last three.
 * While one thread is inside vbn_progress(), a second caller (or a callback) gets 0 from it at
 * once: so a callback that is told VBN_ERR_AGAIN must put its work off, waiting would be for ever.
 * The log callback alone runs with the lock held, and calls nothing here.
 *
 * Blocking. Only vbn_open(), vbn_close(), vbn_half_join() and vbn_wait() block, each within a
 * bound.
 *
 * Errors. Functions return 0 or a negative enum vbn_status. A fault of the fabric never ends the
 * process. A connection that fails is made again for up to recovery_timeout_ms; meanwhile messages,
 * puts and gets wait, and afterwards each of them has been done exactly once. Where that is not
 * possible the endpoint ends, and the error handler in the options says so once.
 */
#ifndef VERBENA_H
#define VERBENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vbn_context vbn_context_t;   /* one port of one device, opened */
typedef struct vbn_endpoint vbn_endpoint_t; /* a peer */
typedef struct vbn_half vbn_half_t;         /* half of a connection, see vbn_half_create() */
typedef struct vbn_msg vbn_msg_t;           /* a message in registered memory */
typedef struct vbn_mem vbn_mem_t;           /* a registered region */

enum vbn_status {
    VBN_PENDING = 1, /* started, and not over yet */
    VBN_OK = 0,
    VBN_ERR_AGAIN = -1,        /* no buffer or queue slot now: call vbn_progress() and try again */
    VBN_ERR_INVALID = -2,      /* an argument is out of its range */
    VBN_ERR_NO_MEMORY = -3,    /* the process's memory is exhausted */
    VBN_ERR_NO_DEVICE = -4,    /* no RDMA device, or none of the name asked for */
    VBN_ERR_NO_ADDRESS = -5,   /* a device is there, but no netdev of its has an IP address */
    VBN_ERR_MEMLOCK = -6,      /* RLIMIT_MEMLOCK is too small for the smallest pools */
    VBN_ERR_DEVICE = -7,       /* a verbs or rdma_cm call failed */
    VBN_ERR_VERSION = -8,      /* the peer speaks no wire version in common */
    VBN_ERR_REFUSED = -9,      /* the peer refused the connection; the log says why */
    VBN_ERR_UNREACHABLE = -10, /* no connection within connect_timeout_ms */
    VBN_ERR_PEER_LOST = -11, /* the peer's process has ended, or its connection is lost for good */
    VBN_ERR_CLOSED = -12,    /* this side, or the peer in good order, has closed */
    VBN_ERR_TIMEOUT = -13,   /* not finished within the time allowed */
    VBN_ERR_PROTOCOL = -14,  /* the peer sent something that the wire format forbids */
    VBN_ERR_TRUNCATED = -15, /* a message was longer than the buffer of its receive */
    VBN_ERR_CANCELED = -16,  /* a receive was cancelled before a message came */
    VBN_ERR_MISMATCH = -17,  /* ranks do not agree on a collective call or its sizes */
};

/* A short English name of STATUS, for messages; never NULL. Any thread. */
const char *vbn_status_str(int status);

/* --- options -------------------------------------------------------------------------------- */

enum vbn_log_level { VBN_LOG_ERROR = 0, VBN_LOG_WARN = 1, VBN_LOG_INFO = 2, VBN_LOG_DEBUG = 3 };

/*
 * Callbacks. ARG is the `callback_arg` of the options.
 *
 * log             one line of text without a newline. NULL: errors and warnings go to stderr.
 * endpoint_error  EP ended with STATUS (VBN_ERR_PEER_LOST, _UNREACHABLE, _REFUSED, _VERSION,
 *                 _PROTOCOL, _NO_MEMORY, or _CLOSED: the peer was closing when it was asked to
 *                 connect); REASON names peer, device and cause. Called once an endpoint; every
 *                 put and get on it ends with STATUS, queued messages are dropped. Not called for
 *                 who connected by himself, was not claimed and has said nothing. May be NULL.
 * clock_ns        a monotonic clock in nanoseconds. NULL: CLOCK_MONOTONIC.
 * random          64 random bits. NULL: getrandom(2).
 */
typedef void (*vbn_log_fn)(void *arg, enum vbn_log_level level, const char *text);
typedef void (*vbn_endpoint_error_fn)(void *arg, vbn_endpoint_t *ep, int status,
                                      const char *reason);
typedef uint64_t (*vbn_clock_fn)(void *arg);
typedef uint64_t (*vbn_random_fn)(void *arg);

/*
 * What vbn_open() takes. Fill with vbn_options_init(), then change what you need. The numbers and
 * strings but the job key and the room are parameters: vbn_params() lists them with ranges and
 * help.
 */
struct vbn_options {
    size_t size; /* sizeof(struct vbn_options) of the caller, set by vbn_options_init() */

    const char *device;   /* name of the device, optionally ":port"; NULL or "": the first usable */
    const char *address;  /* local IP address to bind; NULL or "": the first usable of the device */
    uint64_t eager_limit; /* bytes: largest active message */
    uint64_t window;      /* messages a peer may have in flight to us */
    uint64_t srq_depth;   /* receive buffers that all peers share, at most */
    uint64_t sq_depth;    /* work requests in flight on one queue pair */
    uint64_t tx_buffers;  /* send buffers of a context, at most */
    uint64_t cq_size;     /* entries of one completion queue */
    uint64_t inline_limit;     /* bytes sent inline, at most; the device may offer less */
    uint64_t signal_period;    /* one send in so many asks for a completion */
    uint64_t poll_batch;       /* completions taken in one poll */
    uint64_t read_depth;       /* RDMA reads in flight on one queue pair */
    uint64_t retry_count;      /* transport retries before a queue pair fails */
    uint64_t ack_timeout;      /* code of the time until a packet is repeated, 1…31 */
    uint64_t rnr_timer;        /* code of the RNR NAK timer (InfiniBand 9.7.5.2.8), 1…31 */
    uint64_t ack_delay_us;     /* µs before a receiver acknowledges without being asked */
    uint64_t rndv_limit;       /* bytes: longer tagged messages go from buffer to buffer */
    uint64_t rndv_registered;  /* the same from registered memory, if reads are sound */
    uint64_t wait_spin_us;     /* µs that vbn_wait() polls at most before it sleeps */
    uint64_t unexpected_limit; /* bytes of tagged messages kept for receives to come; beyond it all
                                  that their sender sends waits, but not while a receive is posted
                                  that may be for one of them, or something here ends by an answer
                                  of its, which comes behind: until then there is no limit */
    uint64_t connect_timeout_ms;  /* ms until a connect attempt series is given up */
    uint64_t recovery_timeout_ms; /* ms to make a lost connection again; 0: not tried */
    uint64_t close_timeout_ms;    /* ms that vbn_close() may take */
    uint64_t wire_version;        /* highest wire version offered; for tests */
    bool trust_reads; /* use reads that may complete without their data, or are slow, too */
    bool use_srq;     /* shared receive queue where the device has one */

    bool multithreaded;     /* several threads will call at once */
    uint64_t job_key;       /* contexts with different keys refuse each other */
    uint64_t msg_priv_size; /* bytes of private room for the caller in each message */
    void *callback_arg;
    vbn_log_fn log;
    vbn_endpoint_error_fn endpoint_error;
    vbn_clock_fn clock_ns;
    vbn_random_fn random;

    uint64_t ring_peers; /* peers that may write short messages into our memory, at most */
    uint64_t ring_after; /* short messages of a peer before it may */
};

/* Fills *OPTS with defaults. SIZE is sizeof(*OPTS). Never fails. Any thread. */
void vbn_options_init(struct vbn_options *opts, size_t size);

enum vbn_param_type { VBN_PARAM_UINT, VBN_PARAM_BOOL, VBN_PARAM_STRING };

/* One parameter: the single place where its name, default, range and help are written. */
struct vbn_param {
    const char *name;
    enum vbn_param_type type;
    size_t offset;     /* of the field in struct vbn_options */
    uint64_t def;      /* default (UINT, BOOL) */
    uint64_t min, max; /* inclusive range (UINT) */
    const char *unit;  /* "bytes", "ms", …; "" for a count */
    const char *help;  /* one sentence */
};

/* The table of all parameters; *COUNT gets its length. Static storage. Any thread. */
const struct vbn_param *vbn_params(size_t *count);

/* What went wrong, for a person: the thing, the reason and the remedy. */
struct vbn_error {
    int status;
    char text[480];
};

/*
 * Sets the parameter NAME from TEXT (a number with optional k/m/g, a boolean word, or a string,
 * which is not copied and must outlive OPTS). Returns 0, or VBN_ERR_INVALID with *ERR (may be
 * NULL) naming the parameter, the value and what is allowed, or that OPTS, by its size, has no such
 * field yet. Any thread.
 */
int vbn_options_set(struct vbn_options *opts, const char *name, const char *text,
                    struct vbn_error *err);

/*
 * Reads TEXT (decimal, or hexadecimal after 0x, with optional k/m/g) as a value of PARAM, which may
 * be a host's own, of type VBN_PARAM_UINT. Returns 0 with *VALUE set, or VBN_ERR_INVALID as above.
 */
int vbn_param_number(const struct vbn_param *param, const char *text, uint64_t *value,
                     struct vbn_error *err);

/* --- context -------------------------------------------------------------------------------- */

/*
 * Opens a context: chooses a device with an active port and an IP address, probes what it can do,
 * registers pools within RLIMIT_MEMLOCK, and listens for peers on an address of its own.
 * Blocks for system calls only. On success *CTX is the caller's until vbn_close(). On error *ERR
 * (may be NULL) says why: VBN_ERR_INVALID, _NO_DEVICE, _NO_ADDRESS, _MEMLOCK, _NO_MEMORY, _DEVICE.
 */
int vbn_open(const struct vbn_options *opts, vbn_context_t **ctx, struct vbn_error *err);

/*
 * Closes every endpoint in good order (queued messages are delivered, peers are told), then frees
 * everything, CTX included. Blocks at most close_timeout_ms; what a peer did not take by then is
 * dropped. Puts and gets not finished end with VBN_ERR_CLOSED. All regions (those left are
 * deregistered), messages and endpoints of CTX become invalid. Returns 0, or VBN_ERR_TIMEOUT when
 * something had to be dropped.
 */
int vbn_close(vbn_context_t *ctx);

/*
 * The first half of vbn_close(), without blocking: starts closing every endpoint at the first call,
 * and returns how many endpoints and connections are not over yet. Call vbn_progress() and ask
 * again, then vbn_close(). For callers with an event loop of their own.
 */
size_t vbn_shutdown(vbn_context_t *ctx);

/* What a context can do. */
struct vbn_attr {
    size_t size;          /* sizeof(struct vbn_attr) of the caller, set before the call */
    const char *device;   /* name, valid as long as the context */
    uint32_t port;        /* port number, from 1 */
    bool iwarp;           /* iWARP rather than InfiniBand or RoCE */
    bool atomics;         /* the device executes 64-bit fetch-add and compare-swap */
    bool srq;             /* receives are shared between peers */
    bool sound_reads;     /* a get that has ended well has brought its data; not on soft-RoCE, where
                           * one that the network disturbs may have brought nothing */
    uint64_t max_am_len;  /* bytes in one active message */
    uint64_t max_rma_len; /* bytes in one put or get */
    uint64_t rate_mbps;   /* signalling rate of the port, Mbit/s */
    bool software;        /* its work is done by this host's processors: soft-RoCE, soft-iWARP */
    bool good_reads; /* gets are sound, and as quick as the peer's put; not on soft-RoCE, nor on
                      * soft-iWARP, where they wait for a thread of the kernel */
};

/* Bytes of data in the longest packet of any device: the largest MTU of InfiniBand. Who cuts a
 * message into several does well to put a multiple of it behind a head of at most 32 bytes: where
 * the peer knows the head from an earlier message, it takes no packet of its own (doc/wire.md). */
#define VBN_PACKET_MAX 4096u

/* Fills *ATTR up to its `size`. Any thread. */
void vbn_query(const vbn_context_t *ctx, struct vbn_attr *attr);

/* Bytes that hold any address blob. */
#define VBN_ADDRESS_MAX 256

/*
 * Writes the context's address, an opaque byte string without pointers, the same on every host, to
 * BUF of *LEN bytes, and sets *LEN to its length. VBN_ERR_INVALID when *LEN is too small.
 */
int vbn_address(const vbn_context_t *ctx, void *buf, size_t *len);

/*
 * Advances everything: takes completions, runs callbacks, sends what waited, looks now and then at
 * connection and device events. Returns how many completions and events it handled (0: idle). Never
 * blocks.
 */
int vbn_progress(vbn_context_t *ctx);

/*
 * Waits until there is something to do, or TIMEOUT_MS (-1: no limit) have passed, and does it.
 * Polls for up to wait_spin_us, less where the waits before were longer than that, then sleeps on
 * the device's and the connection manager's events. Returns as vbn_progress(). Any thread, where
 * several may call: what another one has done does not end it, so they give a limit. Callbacks as
 * in vbn_progress().
 */
int vbn_wait(vbn_context_t *ctx, int timeout_ms);

/*
 * For an event loop of the caller's: a descriptor, the same for the context's life, that becomes
 * readable when there is something to do, once vbn_arm() has returned VBN_OK. VBN_ERR_AGAIN: there
 * is something to do now, call vbn_progress() first; VBN_ERR_DEVICE: the queues cannot be armed.
 * *TIMEOUT_MS: vbn_progress() is due after so many milliseconds even if the descriptor stays
 * quiet; -1: never. Callbacks as in vbn_progress(). The descriptor is the context's: do not close
 * it.
 */
int vbn_event_fd(const vbn_context_t *ctx);
int vbn_arm(vbn_context_t *ctx, int *timeout_ms);

struct vbn_counters {
    size_t size; /* sizeof(struct vbn_counters) of the caller, set before the call */
    uint64_t tx_msgs, tx_bytes, rx_msgs, rx_bytes; /* active messages and their payload */
    uint64_t puts, put_bytes, gets, get_bytes;     /* as initiator, completed */
    uint64_t acks_sent; /* messages that carried only an acknowledgement */
    uint64_t conns_made, conns_refused, conns_crossed, conns_lost;
    uint64_t
        stalls; /* messages, puts and gets that waited for credits, queue room or its connection */
    uint64_t bad_messages; /* refused: malformed or from a stranger */
    uint64_t recoveries;   /* lost connections that were made again */
    uint64_t replayed;     /* messages, puts and gets posted once more for that */
    uint64_t ring_msgs;    /* of tx_msgs, those written into memory of the peer's, */
    uint64_t bare_msgs;    /* and those that the peer knows the head of, */
    uint64_t rider_msgs;   /* and those that a put has told */
    uint64_t casts;        /* datagrams to groups, */
    uint64_t cast_repairs; /* and copies of them by connections */
};

/* Copies the counters up to their `size`. Any thread. */
void vbn_counters(vbn_context_t *ctx, struct vbn_counters *counters);

/* --- endpoints ------------------------------------------------------------------------------ */

/*
 * Gives the endpoint of the peer whose address blob is ADDR. It exists once a peer: where the peer
 * connected first, or a call was made before, the same one is returned. Nothing is sent; the first
 * message, put or get connects. USER is the caller's, see vbn_endpoint_user(); NULL leaves what an
 * earlier call gave. Owned by CTX.
 * VBN_ERR_INVALID: not an address, or this context's own. VBN_ERR_VERSION: no wire version in
 * common. VBN_ERR_REFUSED: another job's key, another eager_limit. VBN_ERR_UNREACHABLE: no address
 * family in common. *ERR (may be NULL) tells. VBN_ERR_AGAIN: an endpoint of this peer was closed
 * and is not over yet; progress and try again. VBN_ERR_NO_MEMORY. VBN_ERR_CLOSED: after
 * vbn_shutdown().
 */
int vbn_endpoint_create(vbn_context_t *ctx, const void *addr, size_t addr_len, void *user,
                        vbn_endpoint_t **ep, struct vbn_error *err);

/* The USER pointer; NULL for a peer that connected by itself and has not been claimed yet. */
void *vbn_endpoint_user(const vbn_endpoint_t *ep);

/*
 * Starts connecting now rather than at the first message, and goes on as for a message: where it
 * fails it is tried again, after pauses, until EP ends, with VBN_ERR_UNREACHABLE after
 * connect_timeout_ms. 0 also when connected already; otherwise the status that EP ended with.
 */
int vbn_endpoint_connect(vbn_endpoint_t *ep);

/* True while a connection is established. */
bool vbn_endpoint_connected(vbn_endpoint_t *ep);

/* How many messages would leave at once: with credits for them, and room in the send queue; 0 where
 * it is not connected, or others wait. */
uint32_t vbn_endpoint_ready(vbn_endpoint_t *ep);

/*
 * Closes in good order: takes no new work, delivers what is queued, tells the peer. Returns at
 * once; vbn_progress() does the work. EP must not be used by the caller afterwards, and no callback
 * names it any more but those of its puts and gets.
 */
void vbn_endpoint_close(vbn_endpoint_t *ep);

/* --- connections without the connection manager --------------------------------------------- */

/*
 * Where rdma_cm is not there, not wanted, or too slow, a caller with a way of his own to exchange
 * bytes makes connections of two halves:
 *
 *     vbn_half_create → (the two blobs are exchanged) → vbn_half_join, on both sides
 *
 * A half serves exactly one peer: who wants n peers makes n halves, and gives each peer the blob of
 * another. Giving one blob to two peers cannot be noticed here: one of them will be lost to its
 * side. What joins is an endpoint like any other, also for a vbn_endpoint_create() with that peer's
 * address.
 *
 * Both sides must join. A message may be sent at once; the device repeats it until the peer has
 * joined too, every 2.1 s (or up to four times that, as devices have it) and retry_count times, at
 * most six: for 13 s by default. If that was not enough the connection has failed. So where joining
 * may take longer on one side, join on all sides before one sends, and let all know (a barrier).
 * A connection that fails is made again by rdma_cm where a peer's address is known, else it is
 * lost.
 *
 * Without rdma_cm no kernel tells of a peer's death: as soon as the peer has said anything it is
 * asked once a second whether its queue pair lives, and is lost (VBN_ERR_PEER_LOST) when all tries
 * have gone unanswered, 15 s by default or more. Before its first word it is only missed by who
 * sends to it. The P_Key is the table's first, the service level and the traffic class are 0.
 */

/* Bytes that hold any half's blob. */
#define VBN_HALF_MAX 256

/*
 * Makes half of a connection, ready to receive, and writes what exactly one peer needs for the
 * other half to BUF of *LEN bytes: an opaque byte string without pointers, the same on every host.
 * Sets *LEN to its length, also when it was too small (VBN_ERR_INVALID). On success *HALF is the
 * caller's until vbn_half_join() succeeds, vbn_half_destroy() or vbn_close(). It holds a queue pair
 * and receive buffers, as a connection does. VBN_ERR_DEVICE: an iWARP device, which cannot; a verbs
 * call failed, or the receive buffers do not suffice. VBN_ERR_NO_ADDRESS: the port's GID table
 * lacks the context's address. VBN_ERR_NO_MEMORY. VBN_ERR_CLOSED: after vbn_shutdown(). *ERR (may
 * be NULL) tells. Any thread.
 */
int vbn_half_create(vbn_context_t *ctx, void *buf, size_t *len, vbn_half_t **half,
                    struct vbn_error *err);

/*
 * Connects HALF to the peer's half whose blob is BLOB. On success HALF is gone and *EP is the
 * peer's endpoint, connected, with USER as for vbn_endpoint_create(); what waited on it is sent. On
 * an error HALF is as it was, and neither it nor an endpoint of that peer has changed (but see
 * VBN_ERR_DEVICE): join with the right blob, or destroy it.
 * VBN_ERR_INVALID: not a half's blob, or not all of it; this context's own; or the peer is
 * connected already. VBN_ERR_VERSION: no wire version in common. VBN_ERR_REFUSED: another job's
 * key, another eager_limit, or a blob of another session. VBN_ERR_AGAIN: the peer is being
 * connected by its address, or an endpoint of it was closed and is not over yet; progress and try
 * again. VBN_ERR_UNREACHABLE: the ports speak different protocols, or the device finds no way
 * there. VBN_ERR_DEVICE: HALF's queue pair has failed, which only vbn_half_destroy() can mend.
 * VBN_ERR_NO_MEMORY. VBN_ERR_CLOSED: after vbn_shutdown(). Otherwise what the peer's endpoint ended
 * with: close it first. *ERR (may be NULL) tells. May block while the kernel asks for the peer's
 * Ethernet address, about a second. Any thread.
 */
int vbn_half_join(vbn_half_t *half, const void *blob, size_t len, void *user, vbn_endpoint_t **ep,
                  struct vbn_error *err);

/* Ends a half that was not joined; a peer that has its blob finds nobody. Any thread. */
void vbn_half_destroy(vbn_half_t *half);

/* --- active messages ------------------------------------------------------------------------ */

/*
 * Called for a message with the handler's ID. DATA (LEN bytes, writable) belongs to the handler
 * until it returns. It is 16-byte aligned; of messages of 1,024 bytes and more only 2-byte aligned
 * on processors that read words from anywhere. EP is the sender. Messages of one peer come in their
 * order.
 */
typedef void (*vbn_am_fn)(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len);

/* Sets the handler of ID (NULL: none; such messages are counted as bad and dropped). */
void vbn_am_handler(vbn_context_t *ctx, uint8_t id, vbn_am_fn fn, void *arg);

/*
 * Copies the IOVCNT pieces into one message and queues it: the caller's memory is free at once.
 * It is delivered once and in order, or the endpoint ends with an error.
 * VBN_ERR_AGAIN: no send buffer now. VBN_ERR_INVALID: longer than max_am_len. Otherwise the
 * status that the endpoint ended with.
 */
int vbn_am_send(vbn_endpoint_t *ep, uint8_t id, const struct iovec *iov, int iovcnt);

/*
 * The same, but only what leaves at once: VBN_ERR_AGAIN also where it would have to wait, for a
 * connection (none is begun), for credits or behind others.
 */
int vbn_am_send_now(vbn_endpoint_t *ep, uint8_t id, const struct iovec *iov, int iovcnt);

/*
 * The same in three steps, to fill the registered buffer in place: get, fill, send. The caller
 * holds a reference from vbn_msg_get() until vbn_msg_put(), before or after sending. After
 * vbn_msg_send() the payload must not be changed: it may be sent again.
 * vbn_msg_get() reserves room for LEN bytes; errors as vbn_am_send(). A message is sent once, to
 * the endpoint it was got for, with LEN at most what was asked for.
 */
int vbn_msg_get(vbn_endpoint_t *ep, size_t len, vbn_msg_t **msg);
void *vbn_msg_data(vbn_msg_t *msg);
void *
vbn_msg_priv(vbn_msg_t *msg); /* msg_priv_size bytes, 16-byte aligned; contents undefined at get */
int vbn_msg_send(vbn_msg_t *msg, uint8_t id, size_t len); /* never VBN_ERR_AGAIN */
bool vbn_msg_waiting(const vbn_msg_t *msg); /* sent, but not yet handed to the device */
void vbn_msg_put(vbn_msg_t *msg);

/* --- remote memory access ------------------------------------------------------------------- */

enum vbn_access {
    VBN_ACCESS_LOCAL = 0,        /* source of puts */
    VBN_ACCESS_LOCAL_WRITE = 1,  /* target of own gets */
    VBN_ACCESS_REMOTE_READ = 2,  /* peers may get from it */
    VBN_ACCESS_REMOTE_WRITE = 4, /* peers may put to it */
    VBN_ACCESS_REMOTE_ATOMIC = 8,
};

/*
 * Registers [ADDR, ADDR + LEN) with ACCESS, a set of enum vbn_access bits. The memory stays the
 * caller's and must stay mapped until vbn_mem_deregister(). VBN_ERR_MEMLOCK: the locked-memory
 * limit is reached. VBN_ERR_INVALID: LEN is 0, or the memory cannot be registered so.
 * VBN_ERR_NO_MEMORY.
 */
int vbn_mem_register(vbn_context_t *ctx, void *addr, size_t len, unsigned access, vbn_mem_t **mem);

/* Ends a registration. No put or get may be using it, here or at a peer. */
void vbn_mem_deregister(vbn_mem_t *mem);

/* The key with which peers name the region, next to a virtual address in it. */
uint32_t vbn_mem_rkey(const vbn_mem_t *mem);

/*
 * A put or get ended with STATUS (0: the data are at their place, and a message sent to the peer
 * afterwards is delivered after them; the local memory is free again).
 */
typedef void (*vbn_done_fn)(void *arg, vbn_endpoint_t *ep, int status);

/*
 * Writes LEN bytes at LOCAL (inside MEM) to REMOTE_ADDR of the peer, whose region has REMOTE_KEY;
 * or reads the other way. The local memory belongs to the operation until DONE is called, which
 * happens exactly once if 0 was returned and never otherwise. LEN from 1 to max_rma_len.
 * A refusal by the peer's memory protection ends the connection (RC has no milder way); refused on
 * the next one, too, the operation ends with VBN_ERR_INVALID. Without another one it does at once.
 * On iWARP nobody is told who was refused: one with which 32 connections in a row have ended, each
 * soon after it was made, ends with VBN_ERR_DEVICE; elsewhere one does whose own request has failed
 * so four times in a row. And a put ends there when the peer's vbn_progress() has seen that it has
 * come. VBN_ERR_AGAIN: no slot, or no message, now. VBN_ERR_INVALID: lengths or bounds. Otherwise
 * as vbn_am_send().
 */
int vbn_put(vbn_endpoint_t *ep, const void *local, const vbn_mem_t *mem, uint64_t remote_addr,
            uint32_t remote_key, size_t len, vbn_done_fn done, void *arg);
int vbn_get(vbn_endpoint_t *ep, void *local, const vbn_mem_t *mem, uint64_t remote_addr,
            uint32_t remote_key, size_t len, vbn_done_fn done, void *arg);

#ifdef __cplusplus
}
#endif

#endif
