/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing a device and a port, naming the obstacle, and probing what the device can do. */
#include "lone.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <unistd.h>

static struct vbn_options opts;
static struct vbn_error err;
static vbn_context_t *ctx;

/* A host of this test's own. */
static int setup(void **state)
{
    (void)state;
    unit_reset();
    fake_reset();
    unit_options(&opts);
    memset(&err, 0, sizeof(err));
    ctx = NULL;
    return 0;
}

static struct fake_device *device(const char *name, const char *ifname, const char *ip)
{
    struct fake_device *d = fake_device_add(name);

    if (ip)
        fake_address_add(ifname, ip, d, 1);
    return d;
}

static void opens(const char *name, unsigned port)
{
    if (vbn_open(&opts, &ctx, &err))
        fail_msg("vbn_open: %s", err.text);
    assert_string_equal(ctx->device.name, name);
    assert_int_equal(ctx->device.port, port);
}

/* The open fails with STATUS, a text with WHAT and REMEDY, and leaves nothing. */
static void refuses(int status, const char *what, const char *remedy)
{
    int live = fake_live();

    assert_int_equal(vbn_open(&opts, &ctx, &err), status);
    assert_int_equal(err.status, status);
    assert_contains(err.text, what);
    assert_contains(err.text, remedy);
    assert_int_equal(fake_live(), live);
}

/* --- choosing --------------------------------------------------------------------------------- */

static void first_usable_one(void **state)
{
    (void)state;
    device("down0", "eth0", "10.0.0.1")->port[0].state = IBV_PORT_DOWN;
    device("bare0", "eth1", NULL);
    device("good0", "eth2", "10.0.2.1");
    device("good1", "eth3", "10.0.3.1");
    opens("good0", 1);
    lone_close(ctx);
}

static void the_one_that_is_asked_for(void **state)
{
    (void)state;
    device("good0", "eth0", "10.0.0.1");
    device("good1", "eth1", "10.0.1.1");
    opts.device = "good1";
    opens("good1", 1);
    lone_close(ctx);
    opts.device = "good1:1";
    opens("good1", 1);
    lone_close(ctx);
    opts.device = "";
    opens("good0", 1);
    lone_close(ctx);
}

static void a_name_that_begins_alike_is_another(void **state)
{
    (void)state;
    device("mlx5_10", "eth0", "10.0.0.1");
    device("mlx5_1", "eth1", "10.0.1.1");
    opts.device = "mlx5_1";
    opens("mlx5_1", 1);
    lone_close(ctx);
}

static void the_port_that_is_asked_for(void **state)
{
    struct fake_device *d = device("dual0", "eth0", "10.0.0.1");

    (void)state;
    d->attr.phys_port_cnt = 2;
    fake_address_add("eth1", "10.0.1.1", d, 2);
    opens("dual0", 1);
    assert_int_equal(ctx->device.addr_count, 1); /* of this port only */
    lone_close(ctx);
    opts.device = "dual0:2";
    opens("dual0", 2);
    lone_close(ctx);
    d->port[0].state = IBV_PORT_DOWN;
    opts.device = "dual0";
    opens("dual0", 2);
    lone_close(ctx);
}

static void the_address_that_is_asked_for(void **state)
{
    struct fake_device *d = device("good0", "eth0", "10.0.0.1");

    (void)state;
    fake_address_add("eth0", "fd00::1", d, 1);
    device("good1", "eth1", "10.0.1.1");
    opts.address = "10.0.1.1";
    opens("good1", 1);
    lone_close(ctx);
    opts.address = "fd00::1";
    opens("good0", 1);
    assert_int_equal(ctx->device.addr_count, 1);
    lone_close(ctx);
    opts.address = "10.0.9.9";
    refuses(VBN_ERR_NO_ADDRESS, "10.0.9.9", "good0, good1");
    opts.address = "10.0.1.1";
    opts.device = "good0"; /* which does not have it */
    refuses(VBN_ERR_NO_ADDRESS, "10.0.1.1", "rdma link");
}

static void all_addresses_of_the_port_up_to_four(void **state)
{
    struct fake_device *d = device("good0", "eth0", "10.0.0.1");

    (void)state;
    fake_address_add("eth0", "fe80::1", d, 1);
    fake_address_add("eth0", "fd00::1", d, 1);
    fake_address_add("eth0", "10.0.0.2", d, 1);
    fake_address_add("eth0", "10.0.0.3", d, 1);
    opens("good0", 1);
    assert_int_equal(ctx->device.addr_count, 4);
    assert_int_equal(ctx->cm.listener_count, 4);
    lone_close(ctx);
}

/* --- obstacles: one message each, with the thing, the reason and the remedy ------------------- */

static void no_device_at_all(void **state)
{
    (void)state;
    fake_address_add("eth0", "10.0.0.1", NULL, 0);
    refuses(VBN_ERR_NO_DEVICE, "no RDMA device", "rdma link add");
    assert_int_equal(vbn_open(&opts, &ctx, NULL), VBN_ERR_NO_DEVICE); /* also without a text */
    fake_fail(FAKE_GET_DEVICE_LIST, 0, ENOSYS);
    refuses(VBN_ERR_NO_DEVICE, "no RDMA device", "modprobe");
}

static void no_connection_manager(void **state)
{
    (void)state;
    fake_fail(FAKE_CREATE_CHANNEL, 0, ENODEV);
    refuses(VBN_ERR_NO_DEVICE, "no RDMA device", "rdma link add");
    device("good0", "eth0", "10.0.0.1");
    refuses(VBN_ERR_DEVICE, "rdma_cm", "dmesg");
    unit_cm_file(ENOENT);
    refuses(VBN_ERR_DEVICE, "/dev/infiniband/rdma_cm", "modprobe rdma_ucm");
    unit_cm_file(EACCES);
    refuses(VBN_ERR_DEVICE, "no permission", "chmod");
}

static void named_device_is_not_here(void **state)
{
    (void)state;
    device("good0", "eth0", "10.0.0.1");
    device("good1", "eth1", "10.0.1.1");
    opts.device = "good7";
    refuses(VBN_ERR_NO_DEVICE, "good7", "good0, good1");
    opts.device = "good0:3";
    refuses(VBN_ERR_NO_DEVICE, "good0", "no port 3");
    assert_contains(err.text, "1"); /* its last */
}

static void port_is_no_number(void **state)
{
    static const char *const bad[] = {"good0:x",   "good0:",   "good0:0",
                                      "good0:256", "good0:1x", ":-1"};

    (void)state;
    device("good0", "eth0", "10.0.0.1");
    for (int i = 0; i < 6; i++) {
        opts.device = bad[i];
        refuses(VBN_ERR_INVALID, bad[i], "from 1 to 255");
    }
}

static void port_is_down(void **state)
{
    (void)state;
    device("fake0", "eth0", "10.0.0.1")->port[0].state = IBV_PORT_DOWN;
    refuses(VBN_ERR_NO_DEVICE, "port 1 is not active", "ip link set");
    assert_contains(err.text, "PORT_DOWN");
    assert_contains(err.text, "fake0");
}

static void netdev_has_no_address(void **state)
{
    (void)state;
    device("fake0", "eth0", NULL);
    refuses(VBN_ERR_NO_ADDRESS, "fake0", "ip addr add");
    opts.device = "fake0";
    refuses(VBN_ERR_NO_ADDRESS, "no IP address", "ip addr add");
}

/* The line to type is complete where the netdev is known. */
static void obstacles_name_the_netdev(void **state)
{
    struct fake_device *d = device("fake0", "ens7f0", NULL);

    (void)state;
    refuses(VBN_ERR_NO_ADDRESS, "its netdev (IPoIB or Ethernet interface)", "dev NETDEV`");
    d->port[0].state = IBV_PORT_DOWN;
    refuses(VBN_ERR_NO_DEVICE, "not active", "`ip link set dev NETDEV up`");
    unit_sysfs_ndev("fake0", 1, 0, "ens7f0");
    refuses(VBN_ERR_NO_DEVICE, "not active", "`ip link set dev ens7f0 up`");
    d->port[0].state = IBV_PORT_ACTIVE;
    refuses(VBN_ERR_NO_ADDRESS, "its netdev ens7f0", "`ip addr add ADDRESS/LENGTH dev ens7f0`");
    unit_sysfs_remove();
}

static void device_cannot_be_opened(void **state)
{
    (void)state;
    device("fake0", "eth0", "10.0.0.1");
    fake_fail(FAKE_OPEN_DEVICE, 0, EACCES);
    refuses(VBN_ERR_DEVICE, "fake0", "/dev/infiniband");
    fake_fail(FAKE_OPEN_DEVICE, 2, EACCES); /* the look at its port goes well */
    refuses(VBN_ERR_DEVICE, "fake0", "Permission denied");
}

/* --- what the device can do ------------------------------------------------------------------- */

static void inline_room_is_halved_until_it_fits(void **state)
{
    static const struct {
        uint32_t has, asked, got;
    } cases[] = {{512, 256, 256}, {255, 256, 128}, {100, 256, 64}, {20, 256, 16},
                 {15, 256, 0},    {0, 256, 0},     {60, 60, 60},   {300, 400, 200}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned qps;

        setup(NULL);
        device("fake0", "eth0", "10.0.0.1")->max_inline = cases[i].has;
        opts.inline_limit = cases[i].asked;
        qps = fake_count(FAKE_CREATE_QP);
        opens("fake0", 1);
        assert_int_equal(ctx->device.max_inline, cases[i].got);
        assert_in_range(fake_count(FAKE_CREATE_QP) - qps, 1, 8);
        lone_close(ctx);
    }
}

static void no_queue_pair_at_all(void **state)
{
    (void)state;
    device("fake0", "eth0", "10.0.0.1");
    fake_fail(FAKE_CREATE_QP, 0, ENOMEM);
    refuses(VBN_ERR_DEVICE, "queue pair", "sq_depth");
}

static void within_the_device_s_limits(void **state)
{
    struct fake_device *d = device("fake0", "eth0", "10.0.0.1");

    (void)state;
    d->attr.max_qp_wr = 33;
    d->attr.max_qp_init_rd_atom = 3;
    d->attr.max_qp_rd_atom = 5;
    d->attr.atomic_cap = IBV_ATOMIC_NONE;
    d->port[0].max_msg_sz = 700;
    opens("fake0", 1);
    assert_int_equal(ctx->device.sq_depth, 32); /* one is kept for draining */
    assert_int_equal(ctx->device.max_read_out, 3);
    assert_int_equal(ctx->device.max_read_in, 5);
    assert_false(ctx->device.has_atomics);
    assert_int_equal(ctx->device.max_msg_size, 700);
    assert_int_equal(ctx->max_am_len, 700 - 16);
    assert_int_equal(ctx->opts.signal_period, 16);
    lone_close(ctx);
    opts.sq_depth = 8;
    opts.read_depth = 2;
    opens("fake0", 1);
    assert_int_equal(ctx->device.sq_depth, 8);
    assert_int_equal(ctx->device.max_read_out, 2);
    assert_int_equal(ctx->device.max_read_in, 2);
    assert_int_equal(ctx->opts.signal_period, 4); /* half a queue at most without a completion */
    lone_close(ctx);
}

static void shared_receive_queue_or_not(void **state)
{
    struct fake_device *d = device("fake0", "eth0", "10.0.0.1");

    (void)state;
    opens("fake0", 1);
    assert_non_null(ctx->rx.shared.srq);
    lone_close(ctx);
    opts.use_srq = false;
    opens("fake0", 1);
    assert_null(ctx->rx.shared.srq);
    lone_close(ctx);
    opts.use_srq = true;
    d->attr.max_srq = 0;
    opens("fake0", 1);
    assert_null(ctx->rx.shared.srq);
    lone_close(ctx);
}

static void signalling_rate(void **state)
{
    static const struct {
        uint8_t speed, width;
        uint64_t mbps;
    } cases[] = {{1, 1, 2500}, {32, 2, 100000}, {4, 8, 120000}, {64, 2, 200000}, {0, 0, 0}};
    struct fake_device *d = device("fake0", "eth0", "10.0.0.1");

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vbn_attr attr = {.size = sizeof(attr)};

        d->port[0].active_speed = cases[i].speed;
        d->port[0].active_width = cases[i].width;
        opens("fake0", 1);
        vbn_query(ctx, &attr);
        assert_int_equal(attr.rate_mbps, cases[i].mbps);
        lone_close(ctx);
    }
}

/* Soft-RoCE's vendor and soft-iWARP's; nobody reads from them. */
static void devices_that_are_software(void **state)
{
    static const struct {
        uint32_t vendor;
        bool software, sound_reads, good_reads, signals_long_sends;
    } cases[] = {{0xffffff, true, false, false, false},
                 {0x626d74, true, true, false, true},
                 {0x2c9, false, true, true, false}};
    struct fake_device *d = device("fake0", "eth0", "10.0.0.1");

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vbn_attr attr = {.size = sizeof(attr)};

        d->attr.vendor_id = cases[i].vendor;
        opens("fake0", 1);
        vbn_query(ctx, &attr);
        assert_int_equal(attr.software, cases[i].software);
        assert_int_equal(attr.sound_reads, cases[i].sound_reads);
        assert_int_equal(attr.good_reads, cases[i].good_reads);
        assert_int_equal(ctx->device.signal_from == (uint32_t)sysconf(_SC_PAGESIZE),
                         cases[i].signals_long_sends);
        lone_close(ctx);
    }
}

static void transport_type(void **state)
{
    struct fake_device *d = device("fake0", "eth0", "10.0.0.1");

    (void)state;
    opens("fake0", 1);
    assert_false(ctx->device.iwarp);
    lone_close(ctx);
    d->device.transport_type = IBV_TRANSPORT_IWARP;
    opens("fake0", 1);
    assert_true(ctx->device.iwarp);
    lone_close(ctx);
}

/* Pretended to be a release that has dropped all before, too. */
static void wire_versions_offered(void **state)
{
    static const struct {
        enum ibv_transport_type transport;
        unsigned highest, lowest;
    } cases[] = {{IBV_TRANSPORT_IB, VBN_WIRE_VERSION, VBN_WIRE_VERSION_MIN},
                 {IBV_TRANSPORT_IB, 2, VBN_WIRE_VERSION_MIN},
                 {IBV_TRANSPORT_IB, 9, 9},
                 {IBV_TRANSPORT_IWARP, VBN_WIRE_VERSION, VBN_WIRE_MARKS},
                 {IBV_TRANSPORT_IWARP, 9, 9}};
    struct fake_device *d = device("fake0", "eth0", "10.0.0.1");

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char blob[VBN_ADDRESS_MAX];
        size_t len = sizeof(blob);

        d->device.transport_type = cases[i].transport;
        opts.wire_version = cases[i].highest;
        opens("fake0", 1);
        assert_int_equal(vbn_address(ctx, blob, &len), VBN_OK);
        assert_int_equal(blob[4], cases[i].highest);
        assert_int_equal(blob[5], cases[i].lowest);
        lone_close(ctx);
    }
    opts.wire_version = VBN_WIRE_MARKS - 1;
    refuses(VBN_ERR_INVALID, "device fake0 is iWARP", "leave it out");
}

/* --- addresses -------------------------------------------------------------------------------- */

static bool has(const char *ip)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(1)};

    assert_int_equal(inet_pton(AF_INET, ip, &in.sin_addr), 1);
    return vbn_device_has_address(ctx, (struct sockaddr *)&in);
}

/* The kernel is asked for all that the host has only where something has changed. */
static void addresses_are_looked_for_after_a_change(void **state)
{
    struct sockaddr unknown = {.sa_family = AF_UNSPEC};
    unsigned looks;

    (void)state;
    fake_netlink();
    fake_address_add("eth1", "10.0.1.1", device("fake0", "eth0", "10.0.0.1"), 1);
    opens("fake0", 1);
    looks = fake_count(FAKE_GETIFADDRS);
    for (int i = 0; i < 10; i++)
        assert_true(has("10.0.0.1") && has("10.0.1.1") && has("10.0.2.1"));
    assert_true(vbn_device_has_address(ctx, &unknown));
    assert_true(vbn_device_addresses_since(ctx) >= 0);
    assert_int_equal(fake_count(FAKE_GETIFADDRS), looks + 1);
    fake_address_flags("eth1", 0);
    fake_netlink_tells(6);
    assert_true(has("10.0.0.1"));
    assert_false(has("10.0.1.1"));
    assert_int_equal(fake_count(FAKE_GETIFADDRS), looks + 2);
    assert_true(vbn_device_addresses_since(ctx) < 0); /* though it was looked for before */
    assert_true(vbn_device_addresses_since(ctx) >= 0);
    fake_netlink_tells(6);
    fake_fail(FAKE_GETIFADDRS, 1, ENOMEM);
    assert_true(has("10.0.1.1"));  /* nobody knows, */
    assert_false(has("10.0.1.1")); /* and the next look asks again */
    assert_int_equal(fake_count(FAKE_GETIFADDRS), looks + 4);
    lone_close(ctx);
}

/* One that has gone is missed also where another has come. */
static void a_lost_address_is_told_once(void **state)
{
    (void)state;
    fake_address_add("eth1", "10.0.1.1", device("fake0", "eth0", "10.0.0.1"), 1);
    opens("fake0", 1);
    fake_address_flags("eth0", 0);
    assert_true(vbn_device_addresses_since(ctx) < 0);
    assert_true(vbn_device_addresses_since(ctx) >= 0);
    fake_address_flags("eth0", IFF_UP);
    fake_address_flags("eth1", 0);
    assert_true(vbn_device_addresses_since(ctx) < 0);
    fake_address_flags("eth1", IFF_UP);
    assert_true(vbn_device_addresses_since(ctx) >= 0);
    lone_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_usable_one, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(the_one_that_is_asked_for, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(a_name_that_begins_alike_is_another, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(the_port_that_is_asked_for, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(the_address_that_is_asked_for, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(all_addresses_of_the_port_up_to_four, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(no_device_at_all, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(no_connection_manager, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(named_device_is_not_here, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(port_is_no_number, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(port_is_down, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(netdev_has_no_address, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(obstacles_name_the_netdev, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(device_cannot_be_opened, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(inline_room_is_halved_until_it_fits, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(no_queue_pair_at_all, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(within_the_device_s_limits, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(shared_receive_queue_or_not, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(signalling_rate, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(devices_that_are_software, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(addresses_are_looked_for_after_a_change, setup,
                                        lone_teardown),
        cmocka_unit_test_setup_teardown(a_lost_address_is_told_once, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(transport_type, setup, lone_teardown),
        cmocka_unit_test_setup_teardown(wire_versions_offered, setup, lone_teardown),
    };

    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
