/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm and getifaddrs() that obey the test. */
#include "unit.h"
#include "fake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRS_MAX  16
#define EVENTS_MAX 64

struct fake_address {
    char ifname[IF_NAMESIZE];
    struct sockaddr_storage addr;
    struct fake_device *device;
    uint8_t port;
    unsigned flags;
};

struct fake_event {
    struct rdma_cm_event ev; /* first */
    unsigned char data[256];
};

struct fake_id fake_rejected;
enum ibv_mtu fake_path_mtu = IBV_MTU_1024;

static struct {
    struct fake_address addr[ADDRS_MAX];
    unsigned addr_count;
    int netlink[2]; /* the sockets are copies of the first end; 0: there are none */
    struct fake_event *event[EVENTS_MAX];
    unsigned event_count;
    int event_fd; /* counts them; 0: not yet made */
    int unacked;
    uint16_t next_port;
    bool no_disconnect_event;
} cm = {.next_port = 40000};

void fake_cm_reset(void)
{
    while (cm.event_count)
        free(cm.event[--cm.event_count]);
    fake_counter_close(cm.event_fd);
    if (cm.netlink[0]) {
        close(cm.netlink[0]);
        close(cm.netlink[1]);
    }
    memset(&cm, 0, sizeof(cm));
    memset(&fake_rejected, 0, sizeof(fake_rejected));
    cm.next_port = 40000;
    fake_path_mtu = IBV_MTU_1024;
}

/* --- addresses -------------------------------------------------------------------------------- */

static void parse(const char *ip, struct sockaddr_storage *out)
{
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

    if (inet_pton(AF_INET, ip, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        return;
    }
    assert_int_equal(inet_pton(AF_INET6, ip, &in6->sin6_addr), 1);
    in6->sin6_family = AF_INET6;
    if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
        in6->sin6_scope_id = 3;
}

void fake_address_add(const char *ifname, const char *ip, struct fake_device *device, uint8_t port)
{
    struct fake_address *a = &cm.addr[cm.addr_count++];

    assert_true(cm.addr_count <= ADDRS_MAX);
    snprintf(a->ifname, sizeof(a->ifname), "%s", ifname);
    parse(ip, &a->addr);
    a->device = device;
    a->port = port;
    a->flags = IFF_UP;
}

void fake_address_flags(const char *ifname, unsigned flags)
{
    for (unsigned i = 0; i < cm.addr_count; i++)
        if (!strcmp(cm.addr[i].ifname, ifname))
            cm.addr[i].flags = flags;
}

static const struct fake_address *find(const struct sockaddr *addr)
{
    for (unsigned i = 0; i < cm.addr_count; i++) {
        const struct sockaddr *a = (const struct sockaddr *)&cm.addr[i].addr;

        if (a->sa_family != addr->sa_family)
            continue;
        if (a->sa_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
                                          ((const struct sockaddr_in *)addr)->sin_addr.s_addr
                                    : !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                              &((const struct sockaddr_in6 *)addr)->sin6_addr, 16))
            return &cm.addr[i];
    }
    return NULL;
}

/* A netdev without any address has an entry without one, as the real call gives. */
int getifaddrs(struct ifaddrs **out)
{
    struct ifaddrs *list;

    if (fake_fails(FAKE_GETIFADDRS))
        return -1;
    list = fake_alloc(cm.addr_count + 1, sizeof(*list));
    list[0].ifa_name = (char *)"bare0";
    list[0].ifa_flags = IFF_UP;
    for (unsigned i = 0; i < cm.addr_count; i++) {
        list[i].ifa_next = &list[i + 1];
        list[i + 1].ifa_name = cm.addr[i].ifname;
        list[i + 1].ifa_flags = cm.addr[i].flags;
        list[i + 1].ifa_addr = (struct sockaddr *)&cm.addr[i].addr;
    }
    *out = list;
    fake_born(1);
    return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
    free(list);
    fake_born(-1);
}

/* --- rtnetlink -------------------------------------------------------------------------------- */

void fake_netlink(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, cm.netlink), 0);
}

void fake_netlink_tells(size_t len)
{
    char message[64] = "";

    assert_int_equal(send(cm.netlink[1], message, len, 0), len);
}

int socket(int domain, int type, int protocol)
{
    (void)type;
    (void)protocol;
    assert_int_equal(domain, AF_NETLINK);
    errno = EAFNOSUPPORT;
    return cm.netlink[0] ? dup(cm.netlink[0]) : -1;
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    (void)fd;
    (void)len;
    assert_int_equal(addr->sa_family, AF_NETLINK);
    return fake_fails(FAKE_BIND_NETLINK) ? -1 : 0;
}

/* --- channel and events ----------------------------------------------------------------------- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct rdma_event_channel *channel;

    if (fake_fails(FAKE_CREATE_CHANNEL))
        return NULL;
    channel = fake_alloc(1, sizeof(*channel));
    channel->fd = fake_counter(&cm.event_fd);
    fake_born(1);
    return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    close(channel->fd);
    free(channel);
    fake_born(-1);
}

static struct fake_event *event_new(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status,
                                    const void *data, size_t len)
{
    struct fake_event *e = fake_alloc(1, sizeof(*e));

    assert_true(cm.event_count < EVENTS_MAX && len <= sizeof(e->data));
    e->ev.id = id;
    e->ev.event = type;
    e->ev.status = status;
    e->ev.param.conn.responder_resources = 16;
    e->ev.param.conn.initiator_depth = 16;
    if (data) {
        memcpy(e->data, data, len);
        e->ev.param.conn.private_data = e->data;
        e->ev.param.conn.private_data_len = (uint8_t)len;
    }
    cm.event[cm.event_count++] = e;
    fake_count_up(cm.event_fd);
    return e;
}

void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status, const void *data,
                size_t len)
{
    event_new(id, type, status, data, len);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    (void)channel;
    if (!cm.event_count) {
        errno = EAGAIN;
        return -1;
    }
    fake_count_down(cm.event_fd);
    *event = &cm.event[0]->ev;
    memmove(cm.event, cm.event + 1, --cm.event_count * sizeof(cm.event[0]));
    cm.unacked++;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    memset(event, 0xdb, sizeof(struct fake_event)); /* nobody may still look */
    free(event);
    cm.unacked--;
    return 0;
}

int fake_events_unacked(void)
{
    return cm.unacked;
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_UNREACHABLE ? "unreachable" : "event";
}

/* --- ids -------------------------------------------------------------------------------------- */

struct fake_id *fake_id(struct rdma_cm_id *id)
{
    return (struct fake_id *)id;
}

static struct rdma_cm_id *id_new(struct rdma_event_channel *channel, void *context)
{
    struct fake_id *f = fake_alloc(1, sizeof(*f));

    f->id.channel = channel;
    f->id.context = context;
    fake_born(1);
    return &f->id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    if (fake_fails(FAKE_CREATE_ID))
        return -1;
    assert_true(ps == RDMA_PS_TCP || ps == RDMA_PS_UDP);
    *id = id_new(channel, context);
    return 0;
}

/* Its events go with it. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < cm.event_count; i++) {
        if (cm.event[i]->ev.id != id) {
            cm.event[kept++] = cm.event[i];
            continue;
        }
        free(cm.event[i]);
        fake_count_down(cm.event_fd);
    }
    cm.event_count = kept;
    free(id);
    fake_born(-1);
    return 0;
}

static int attach(struct rdma_cm_id *id, const struct sockaddr *addr)
{
    const struct fake_address *a = find(addr);

    if (!a) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    if (a->device) {
        id->verbs = fake_cm_verbs(a->device);
        id->port_num = a->port;
    }
    fake_id(id)->bound = a->addr;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    if (fake_fails(FAKE_BIND_ADDR))
        return -1;
    fake_id(id)->port = cm.next_port++;
    return attach(id, addr);
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    if (fake_fails(FAKE_LISTEN))
        return -1;
    assert_true(backlog > 0);
    fake_id(id)->listening = true;
    return 0;
}

/* The event that it has been is there at once. */
int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    struct rdma_ud_param ud = {.qp_num = 0xffffff, .qkey = 0x1234567};
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

    if (fake_fails(FAKE_JOIN))
        return -1;
    assert_non_null(fake_id(id)->id.verbs);
    ud.private_data = context;
    ud.ah_attr.is_global = 1;
    memset(&ud.ah_attr.grh.dgid.raw[10], 0xff, 2);
    memcpy(&ud.ah_attr.grh.dgid.raw[12], &in->sin_addr, 4);
    event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, NULL, 0)->ev.param.ud = ud;
    fake_born(1);
    return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    (void)id, (void)addr;
    fake_born(-1);
    return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return htons(fake_id(id)->port);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                      int timeout_ms)
{
    if (fake_fails(FAKE_RESOLVE_ADDR))
        return -1;
    assert_true(timeout_ms > 0);
    memcpy(&fake_id(id)->dst, dst,
           dst->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return attach(id, src);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    (void)id, (void)timeout_ms;
    return fake_fails(FAKE_RESOLVE_ROUTE) ? -1 : 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    (void)id;
    *mask = IBV_QP_STATE;
    attr->path_mtu = fake_path_mtu;
    if (attr->qp_state == IBV_QPS_INIT)
        *mask |= IBV_QP_ACCESS_FLAGS;
    else if (attr->qp_state == IBV_QPS_RTR)
        *mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MTU;
    else
        *mask |= IBV_QP_MAX_QP_RD_ATOMIC;
    return fake_fails(FAKE_INIT_QP_ATTR) ? -1 : 0;
}

static void keep(struct fake_id *f, const void *data, size_t len)
{
    assert_true(len <= sizeof(f->data));
    memcpy(f->data, data, len);
    f->data_len = len;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (fake_fails(FAKE_CONNECT))
        return -1;
    assert_true(param->private_data_len <= 56); /* all that InfiniBand's request leaves */
    fake_id(id)->connected = true;
    fake_id(id)->param = *param;
    keep(fake_id(id), param->private_data, param->private_data_len);
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (fake_fails(FAKE_ACCEPT))
        return -1;
    fake_id(id)->accepted = true;
    fake_id(id)->param = *param;
    keep(fake_id(id), param->private_data, param->private_data_len);
    return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
    if (fake_fails(FAKE_ESTABLISH))
        return -1;
    fake_id(id)->established = true;
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    if (fake_fails(FAKE_REJECT))
        return -1;
    fake_id(id)->rejected = true;
    keep(fake_id(id), data, len);
    fake_rejected = *fake_id(id);
    return 0;
}

void fake_disconnect_by_itself(bool yes)
{
    cm.no_disconnect_event = !yes;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    if (fake_fails(FAKE_DISCONNECT))
        return -1;
    if (!fake_id(id)->disconnected && !cm.no_disconnect_event)
        event_new(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    fake_id(id)->disconnected = true;
    return 0;
}

struct rdma_cm_id *fake_request(struct rdma_cm_id *listener, const void *data, size_t len)
{
    struct rdma_cm_id *id = id_new(listener->channel, listener->context);

    id->verbs = listener->verbs;
    id->port_num = listener->port_num;
    event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data, len)->ev.listen_id = listener;
    return id;
}
