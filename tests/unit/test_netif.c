/* SPDX-License-Identifier: BSD-3-Clause */
/* Which address belongs to which device, in which order; and netdevs' names from sysfs. */
#include "lone.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

static struct rdma_event_channel *channel;
static struct vbn_netif *list;

static int setup(void **state)
{
    lone_setup(state);
    channel = rdma_create_event_channel();
    list = NULL;
    return 0;
}

static int teardown(void **state)
{
    free(list);
    rdma_destroy_event_channel(channel);
    return lone_teardown(state);
}

static void is(int at, const char *text, const char *ifname, const char *device, int port)
{
    char buf[INET6_ADDRSTRLEN];

    assert_string_equal(vbn_netif_text(&list[at].addr, buf, sizeof(buf)), text);
    assert_string_equal(list[at].ifname, ifname);
    assert_string_equal(list[at].device, device);
    assert_int_equal(list[at].port, port);
}

static void addresses_in_their_order(void **state)
{
    struct fake_device *second = fake_device_add("fake1");

    (void)state;
    fake_address_add("eth0", "fe80::1", lone_device, 1);
    fake_address_add("eth0", "fd00::1", lone_device, 1);
    fake_address_add("eth1", "fd00::2", second, 2);
    fake_address_add("eth1", "10.0.1.1", second, 2);
    fake_address_add("eth2", "10.0.2.1", NULL, 0); /* no RDMA there */
    assert_int_equal(vbn_netif_list(channel, &list), 5);
    is(0, "10.0.0.1", "eth0", "fake0", 1);
    is(1, "10.0.1.1", "eth1", "fake1", 2);
    is(2, "fd00::1", "eth0", "fake0", 1);
    is(3, "fd00::2", "eth1", "fake1", 2);
    is(4, "fe80::1", "eth0", "fake0", 1);
    assert_int_equal(list[4].addr.in6.sin6_scope_id, 3);
}

static void loopback_and_netdevs_that_are_down_do_not_count(void **state)
{
    (void)state;
    fake_address_add("lo", "127.0.0.1", lone_device, 1);
    fake_address_add("eth1", "10.0.1.1", lone_device, 1);
    fake_address_flags("lo", IFF_UP | IFF_LOOPBACK);
    fake_address_flags("eth1", 0);
    assert_int_equal(vbn_netif_list(channel, &list), 1);
    is(0, "10.0.0.1", "eth0", "fake0", 1);
}

static void addresses_that_are_still_there(void **state)
{
    uint32_t there;

    (void)state;
    fake_address_add("eth1", "fd00::1", lone_device, 1);
    assert_int_equal(vbn_netif_list(channel, &list), 2);
    assert_true(vbn_netif_there(list, 2, &there));
    assert_int_equal(there, 3);
    fake_address_flags("eth1", 0);
    assert_true(vbn_netif_there(list, 2, &there));
    assert_int_equal(there, 1);
    fake_address_flags("eth0", 0);
    fake_address_flags("eth1", IFF_UP);
    assert_true(vbn_netif_there(list, 2, &there));
    assert_int_equal(there, 2);
    fake_fail(FAKE_GETIFADDRS, 0, EMFILE);
    assert_false(vbn_netif_there(list, 2, &there));
    assert_int_equal(there & 3, 3);
}

static void a_vlan_has_the_address_of_its_netdev(void **state)
{
    uint32_t there;

    (void)state;
    fake_address_add("eth0", "fe80::1", lone_device, 1);
    fake_address_add("eth0.5", "fe80::1", lone_device, 1);
    assert_int_equal(vbn_netif_list(channel, &list), 3);
    assert_true(vbn_netif_there(list, 3, &there));
    assert_int_equal(there, 7);
}

/* --- changes ---------------------------------------------------------------------------------- */

static void changes_are_told_once(void **state)
{
    int watch;

    (void)state;
    fake_netlink();
    watch = vbn_netif_watch();
    assert_true(watch >= 0);
    assert_false(vbn_netif_changed(watch));
    for (int i = 0; i < 3; i++)
        fake_netlink_tells(6);
    assert_true(vbn_netif_changed(watch));
    assert_false(vbn_netif_changed(watch));
    fake_netlink_tells(0);
    assert_true(vbn_netif_changed(watch));
    close(watch);
    assert_true(vbn_netif_changed(watch)); /* any error: it cannot be told */
}

static void without_a_watch_all_may_have_changed(void **state)
{
    int free_fd;

    (void)state;
    assert_int_equal(vbn_netif_watch(), -1);
    assert_true(vbn_netif_changed(-1));
    fake_netlink();
    free_fd = dup(0);
    close(free_fd);
    fake_fail(FAKE_BIND_NETLINK, 1, EPERM);
    assert_int_equal(vbn_netif_watch(), -1);
    assert_int_equal(dup(0), free_fd); /* it was closed */
    close(free_fd);
}

static void calls_that_fail_leave_nothing(void **state)
{
    int live = fake_live();

    (void)state;
    fake_fail(FAKE_GETIFADDRS, 1, ENOMEM);
    assert_int_equal(vbn_netif_list(channel, &list), 0);
    assert_null(list);
    fake_fail(FAKE_CREATE_ID, 1, ENODEV);
    assert_int_equal(vbn_netif_list(channel, &list), 0);
    free(list);
    list = NULL;
    fake_fail(FAKE_BIND_ADDR, 1, EADDRNOTAVAIL);
    assert_int_equal(vbn_netif_list(channel, &list), 0);
    free(list);
    list = NULL;
    unit_fail_alloc(1);
    assert_int_equal(vbn_netif_list(channel, &list), VBN_ERR_NO_MEMORY);
    assert_null(list);
    assert_int_equal(fake_live(), live);
}

/* --- sysfs ------------------------------------------------------------------------------------ */

static void netdevs_of_a_port(void **state)
{
    static const char *const ends[] = {"1", "h1", "th1", "eth1"};
    char names[64];

    (void)state;
    unit_sysfs_ndev("fake0", 2, 0, "eth10");
    unit_sysfs_ndev("fake0", 2, 1, "eth10"); /* one line for each address */
    unit_sysfs_ndev("fake0", 2, 2, "eth1");  /* part of another's name, and not the same */
    unit_sysfs_ndev("fake0", 2, 3, "");
    vbn_netif_of_port("fake0", 2, names, sizeof(names));
    assert_true(!strcmp(names, "eth10 eth1") || !strcmp(names, "eth1 eth10"));
    for (unsigned i = 0; i < 4; i++) /* each ends in the next, in whatever order they are read */
        unit_sysfs_ndev("fake0", 2, i, ends[i]);
    vbn_netif_of_port("fake0", 2, names, sizeof(names));
    assert_int_equal(strlen(names), strlen("1 h1 th1 eth1"));
    vbn_netif_of_port("fake0", 1, names, sizeof(names));
    assert_string_equal(names, "");
    vbn_netif_of_port("fake1", 2, names, sizeof(names));
    assert_string_equal(names, "");
    unit_sysfs_remove();
}

static void more_netdevs_than_room(void **state)
{
    char names[24], name[32];

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "netdev%02u.123456", i);
        unit_sysfs_ndev("fake0", 2, i, name);
    }
    vbn_netif_of_port("fake0", 2, names, sizeof(names));
    assert_true(strlen(names) >= 10 && strlen(names) < sizeof(names));
    unit_sysfs_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(addresses_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(loopback_and_netdevs_that_are_down_do_not_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(addresses_that_are_still_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_vlan_has_the_address_of_its_netdev, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_are_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_watch_all_may_have_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_that_fail_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(netdevs_of_a_port, setup, teardown),
        cmocka_unit_test_setup_teardown(more_netdevs_than_room, setup, teardown),
    };

    return cmocka_run_group_tests_name("netif", tests, NULL, NULL);
}
