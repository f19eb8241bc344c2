/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device that tests/rxe/run names, for both sides, in real time. The link is changed only
 * where it is a dummy netdev, which nothing but a test uses.
 */
#include "world.h"

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_S   30 /* however loaded the machine */
#define SETTLE_MS 300
#define PAUSE_US  200

static time_t deadline;
static bool link_is_down; /* by us */

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void pause_us(long us)
{
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&pause, NULL);
}

static const char *told(const char *variable)
{
    const char *value = getenv(variable);

    if (!value)
        fail_msg("%s is not set: run this by tests/rxe/run", variable);
    return value;
}

void world_open(void)
{
}

bool world_close(void)
{
    return !link_is_down || world_link_set(true);
}

void world_enter(int side)
{
    (void)side;
}

const char *world_device(int side)
{
    (void)side;
    return told("RXE_DEVICE");
}

void world_address(int side, struct sockaddr_storage *addr)
{
    const char *netdev = told("RXE_NETDEV");
    struct ifaddrs *list;

    (void)side;
    memset(addr, 0, sizeof(*addr));
    assert_int_equal(getifaddrs(&list), 0);
    for (struct ifaddrs *item = list; item && !addr->ss_family; item = item->ifa_next)
        if (item->ifa_addr && item->ifa_addr->sa_family == AF_INET &&
            !strcmp(item->ifa_name, netdev))
            memcpy(addr, item->ifa_addr, sizeof(struct sockaddr_in));
    freeifaddrs(list);
    if (!addr->ss_family)
        fail_msg("%s has no IPv4 address", netdev);
}

void world_wait_begin(void)
{
    deadline = now_s() + LIMIT_S;
}

bool world_wait(void)
{
    pause_us(PAUSE_US);
    return now_s() < deadline;
}

void world_settle(void)
{
    pause_us(SETTLE_MS * 1000L);
}

void world_misuse(void)
{
}

/* Soft-RoCE's vendor is nobody: no adapter has this number. */
static bool is_soft_roce(void)
{
    enum { NOBODY = 0xffffff };
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_device_attr attr = {0};

    assert_non_null(list);
    for (int i = 0; list[i]; i++) {
        struct ibv_context *verbs;

        if (strcmp(ibv_get_device_name(list[i]), world_device(A)))
            continue;
        assert_non_null(verbs = ibv_open_device(list[i]));
        assert_int_equal(ibv_query_device(verbs, &attr), 0);
        ibv_close_device(verbs);
    }
    ibv_free_device_list(list);
    return attr.vendor_id == NOBODY;
}

bool world_may(enum quirk quirk)
{
    (void)quirk;
    return !getenv("VERBENA_STRICT") && is_soft_roce();
}

/* --- the link --------------------------------------------------------------------------------- */

static bool is_dummy(int fd, struct ifreq *request)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};

    request->ifr_data = (char *)&info;
    return ioctl(fd, SIOCETHTOOL, request) == 0 && !strcmp(info.driver, "dummy");
}

static bool set_up(int fd, struct ifreq *request, bool up)
{
    if (ioctl(fd, SIOCGIFFLAGS, request))
        return false;
    request->ifr_flags = (short)(up ? request->ifr_flags | IFF_UP : request->ifr_flags & ~IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, request) == 0;
}

bool world_link_set(bool up)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool done;

    assert_true(fd >= 0);
    strncpy(request.ifr_name, told("RXE_NETDEV"), sizeof(request.ifr_name) - 1);
    done = is_dummy(fd, &request) && set_up(fd, &request, up);
    close(fd);
    link_is_down = done && !up;
    return done;
}
