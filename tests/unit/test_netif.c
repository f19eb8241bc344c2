/* SPDX-License-Identifier: BSD-3-Clause */
/* Which address belongs to which device, in which order; and netdevs' names from sysfs. */
#include "lone.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/stat.h>
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

static char root[] = "/tmp/verbena-netif.XXXXXX";

static void write_ndev(const char *folder, const char *file, const char *text)
{
    char path[300];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_folder(char *folder, size_t len)
{
    static const char *const steps[] = {"fake0", "ports", "2", "gid_attrs", "ndevs"};

    strcpy(root + sizeof(root) - 7, "XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, len, "%s", root);
    for (int i = 0; i < 5; i++) {
        size_t used = strlen(folder);

        snprintf(folder + used, len - used, "/%s", steps[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
    }
}

static void remove_folder(void)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -r '%s'", root);
    assert_int_equal(system(command), 0);
}

static void netdevs_of_a_port(void **state)
{
    char folder[200], names[64];

    (void)state;
    make_folder(folder, sizeof(folder));
    write_ndev(folder, "0", "eth10\n");
    write_ndev(folder, "1", "eth10\n"); /* one line for each address */
    write_ndev(folder, "2", "eth1\n");  /* part of another's name, and not the same */
    write_ndev(folder, "3", "\n");
    unit_sysfs(root);
    vbn_netif_of_port("fake0", 2, names, sizeof(names));
    assert_true(!strcmp(names, "eth10 eth1") || !strcmp(names, "eth1 eth10"));
    for (int i = 0; i < 4;
         i++) { /* each ends in those before it, in whatever order they are read */
        static const char *const ends[] = {"1", "h1", "th1", "eth1"};
        char file[2] = {(char)('0' + i), '\0'};

        write_ndev(folder, file, ends[i]);
    }
    vbn_netif_of_port("fake0", 2, names, sizeof(names));
    assert_int_equal(strlen(names), strlen("1 h1 th1 eth1"));
    vbn_netif_of_port("fake0", 1, names, sizeof(names));
    assert_string_equal(names, "");
    vbn_netif_of_port("fake1", 2, names, sizeof(names));
    assert_string_equal(names, "");
    remove_folder();
}

static void more_netdevs_than_room(void **state)
{
    char folder[200], names[24], name[32];

    (void)state;
    make_folder(folder, sizeof(folder));
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "netdev%02d.123456", i % 100);
        write_ndev(folder, name, name);
    }
    unit_sysfs(root);
    vbn_netif_of_port("fake0", 2, names, sizeof(names));
    assert_true(strlen(names) >= 10 && strlen(names) < sizeof(names));
    remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(addresses_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(loopback_and_netdevs_that_are_down_do_not_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(calls_that_fail_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(netdevs_of_a_port, setup, teardown),
        cmocka_unit_test_setup_teardown(more_netdevs_than_room, setup, teardown),
    };

    return cmocka_run_group_tests_name("netif", tests, NULL, NULL);
}
