/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transports are found, which are refused, which one is opened, and what is told of it. */
#include "rig.h"

#include "fake.h"

static const struct vbn_transport *tr;
static vbn_port_t *port;
static char told[1024];
static enum vbn_log_level told_level;
static unsigned told_times;

static void take_log(void *arg, enum vbn_log_level level, const char *text)
{
    (void)arg;
    told_level = level;
    told_times++;
    snprintf(told, sizeof(told), "%s", text);
}

static const struct vbn_port_config base = {.size = sizeof(base), .rank = 77, .log = take_log};

static int setup(void **state)
{
    tr = NULL;
    port = NULL;
    told[0] = '\0';
    told_times = 0;
    return rig_setup(state);
}

/* Opens by LINE, which must give NAME, and closes again. */
static void assert_opens(const char *line, const char *name)
{
    created(line);
    told[0] = '\0';
    told_times = 0;
    if (vbn_loader_open(loader, &base, &tr, &port, &err) != VBN_OK)
        fail_msg("%s: %s", line, err.text);
    assert_string_equal(tr->name, name);
    assert_int_equal(((struct fake_port *)(void *)port)->rank, 77);
    tr->close(port);
}

static void assert_does_not_open(const char *line, int status, const char *part)
{
    created(line);
    told_times = 0;
    assert_int_equal(vbn_loader_open(loader, &base, &tr, &port, &err), status);
    assert_int_equal(err.status, status);
    assert_contains(err.text, part);
    assert_int_equal(told_times, 0);
}

/* The one line of `--mca help transport` about NAME. */
static void assert_unusable(const char *name, const char *part)
{
    char line[64], start[64], *text, *found;

    snprintf(start, sizeof(start), "    %s cannot be used: ", name);
    created("");
    text = help_text();
    found = strstr(text, start);
    assert_non_null(found);
    found[strcspn(found, "\n")] = '\0';
    assert_contains(found, part);
    free(text);
    /* skipped when nobody asked for it */
    put_plugin("good");
    assert_opens("--mca transport ^rc", "good");
    /* an error by name, also where another one would do */
    snprintf(line, sizeof(line), "--mca transport good,%s", name);
    assert_does_not_open(line, VBN_ERR_INVALID, part);
    assert_contains(err.text, "command line: parameter transport: ");
}

/* --- refused plugins -------------------------------------------------------------------------- */

static void older_table(void **state)
{
    (void)state;
    put_plugin("older");
    assert_unusable("older",
                    "was built for version 0.7 of the transport table, this program for 1.3");
}

static void newer_table(void **state)
{
    (void)state;
    put_plugin("newer");
    assert_unusable("newer",
                    "was built for version 3.2 of the transport table, this program for 1.3");
}

static void small_table(void **state)
{
    (void)state;
    put_plugin("small");
    assert_unusable("small", "has a table of ");
}

static void table_with_holes(void **state)
{
    (void)state;
    put_plugin("holes");
    assert_unusable("holes", "leaves entries of its table empty");
}

static void assert_without_halves(const char *name)
{
    char line[64];

    put_plugin(name);
    snprintf(line, sizeof(line), "--mca transport %s", name);
    created(line);
    assert_int_equal(vbn_loader_open(loader, &base, &tr, &port, &err), VBN_OK);
    assert_string_equal(tr->name, name);
    assert_false(VBN_TRANSPORT_HAS(tr, half_join));
    assert_true(VBN_TRANSPORT_HAS(tr, counters));
    tr->close(port);
}

/* What was built before the entries that may be missing, and what leaves them empty. */
static void tables_without_halves_are_taken(void **state)
{
    (void)state;
    assert_without_halves("first");
    rig_teardown(NULL);
    setup(NULL);
    assert_without_halves("plain");
}

static void table_of_another_name(void **state)
{
    (void)state;
    put_plugin("misnamed");
    assert_unusable("misnamed", "calls its transport \"other\"");
}

static void no_table(void **state)
{
    (void)state;
    put_plugin("nothing");
    assert_unusable("nothing", "gives no table");
}

static void no_symbol(void **state)
{
    (void)state;
    put_other("nosymbol");
    assert_unusable("nosymbol", "does not export vbn_transport_plugin()");
}

static void not_a_shared_object(void **state)
{
    (void)state;
    put_text("verbena_text.so", "not ELF\n");
    assert_unusable("text", "it does not load: ");
}

static void parameters_of_an_unusable_one_pass(void **state)
{
    (void)state;
    put_plugin("good");
    put_plugin("older");
    assert_opens("--mca transport ^rc --mca transport_older_depth 5000", "good");
}

/* --- where they are found --------------------------------------------------------------------- */

static void first_folder_wins(void **state)
{
    char path[160];

    (void)state;
    put_plugin("good");
    put_text("good.so", "not a transport's name");
    put_text("verbena_.so", "neither");
    put_text("libverbena_good.so", "neither");
    snprintf(path, sizeof(path), "/nowhere:%s:%s", folder, folder);
    setenv("VERBENA_MCA_transport_path", path, 1);
    assert_opens("--mca transport good", "good");
    setenv("VERBENA_MCA_transport_path", "/nowhere", 1);
    assert_does_not_open("--mca transport good", VBN_ERR_INVALID, "there is no transport \"good\"");
}

/* --- order ------------------------------------------------------------------------------------ */

static void assert_order(const char *line, const char *expected)
{
    const char **names;
    char joined[256] = "";
    size_t count;

    created(line);
    if (vbn_loader_order(loader, &names, &count, &err) != VBN_OK)
        fail_msg("%s: %s", line, err.text);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(joined);

        snprintf(joined + len, sizeof(joined) - len, "%s%s", i ? "," : "", names[i]);
    }
    free(names);
    assert_string_equal(joined, expected);
}

static void order_follows_the_parameter(void **state)
{
    (void)state;
    put_plugin("zeta");
    put_plugin("alpha");
    put_plugin("ucx");
    assert_order("", "rc,ucx,alpha,zeta");
    assert_order("--mca transport zeta,ucx", "zeta,ucx");
    assert_order("--mca transport zeta,ucx,zeta", "zeta,ucx");
    assert_order("--mca transport ^ucx", "rc,alpha,zeta");
    assert_order("--mca transport ^rc,alpha", "ucx,zeta");
}

static void bad_orders_are_refused(void **state)
{
    (void)state;
    put_plugin("good");
    assert_does_not_open("--mca transport goof", VBN_ERR_INVALID, "did you mean good");
    assert_does_not_open("--mca transport ^goof", VBN_ERR_INVALID, "\"goof\"");
    assert_does_not_open("--mca transport good,,good", VBN_ERR_INVALID, "neither a list");
    assert_does_not_open("--mca transport good,^rc", VBN_ERR_INVALID, "neither a list");
    assert_does_not_open("--mca transport ^", VBN_ERR_INVALID, "neither a list");
    assert_does_not_open("--mca transport ^rc,ucx,good", VBN_ERR_INVALID, "excluded");
}

static void falls_back_and_says_so(void **state)
{
    (void)state;
    put_plugin("noquery");
    put_plugin("noopen");
    put_plugin("good");
    assert_opens("--mca transport noquery,noopen,good", "good");
    assert_int_equal(told_times, 1);
    assert_int_equal(told_level, VBN_LOG_WARN);
    assert_string_equal(told,
                        "transport: good (noquery: no such hardware; noopen: the door is locked)");
    assert_opens("--mca transport good,noopen", "good");
    assert_int_equal(told_times, 1);
    assert_int_equal(told_level, VBN_LOG_INFO);
    assert_string_equal(told, "transport: good");
    assert_opens("--mca transport noopen,good --mca transport_verbose 0", "good");
    assert_int_equal(told_times, 0);
}

static void none_can_be_used(void **state)
{
    (void)state;
    put_plugin("noquery");
    put_plugin("noopen");
    assert_does_not_open("--mca transport noopen,noquery", VBN_ERR_DEVICE,
                         "noopen: the door is locked; noquery: no such hardware");
}

static void transports_get_their_settings(void **state)
{
    (void)state;
    put_plugin("good");
    put_plugin("fine");
    setenv("VERBENA_MCA_transport_good_lane", "left", 1);
    created("--mca transport good --mca transport_good_depth 5 --mca transport_fine_depth 6");
    assert_int_equal(vbn_loader_set(loader, "transport_good_depth", "7", &err), VBN_OK);
    assert_int_equal(vbn_loader_set(loader, "transport_good_fast", "no", &err), VBN_OK);
    assert_int_equal(vbn_loader_open(loader, &base, &tr, &port, &err), VBN_OK);
    assert_string_equal(((struct fake_port *)(void *)port)->settings, "lane=left;depth=5;fast=no;");
    tr->close(port);
}

static void assert_settings(const char *name, const char *settings)
{
    if (vbn_loader_open_one(loader, name, &base, &tr, &port, &err) != VBN_OK)
        fail_msg("%s: %s", name, err.text);
    assert_string_equal(((struct fake_port *)(void *)port)->settings, settings);
    tr->close(port);
}

/* Each has its own parameters, whichever is found first, and nobody else's. */
static void names_may_begin_alike(void **state)
{
    (void)state;
    put_plugin("good");
    put_plugin("good_two");
    created("--mca transport_good_two_depth 5 --mca transport_good_depth 6");
    if (vbn_loader_check(loader, &err) != VBN_OK)
        fail_msg("%s", err.text);
    assert_settings("good", "depth=6;");
    assert_settings("good_two", "depth=5;");
    assert_does_not_open("--mca transport_good_two_deep 5", VBN_ERR_INVALID,
                         "did you mean transport_good_two_depth");
    assert_does_not_open("--mca transport_good_two_depth 99", VBN_ERR_INVALID, "1 to 64");
    assert_does_not_open("--mca transport_good_three_depth 5", VBN_ERR_INVALID,
                         "there is no parameter");
}

static void smaller_configuration_is_taken(void **state)
{
    struct vbn_port_config small = {.size = offsetof(struct vbn_port_config, job_key), .rank = 9};

    (void)state;
    put_plugin("good");
    created("--mca transport good");
    assert_int_equal(vbn_loader_open(loader, &small, &tr, &port, &err), VBN_OK);
    assert_int_equal(((struct fake_port *)(void *)port)->rank, 9);
    tr->close(port);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(older_table),
        TEST(newer_table),
        TEST(small_table),
        TEST(table_with_holes),
        TEST(tables_without_halves_are_taken),
        TEST(table_of_another_name),
        TEST(no_table),
        TEST(no_symbol),
        TEST(not_a_shared_object),
        TEST(parameters_of_an_unusable_one_pass),
        TEST(first_folder_wins),
        TEST(order_follows_the_parameter),
        TEST(bad_orders_are_refused),
        TEST(falls_back_and_says_so),
        TEST(none_can_be_used),
        TEST(transports_get_their_settings),
        TEST(names_may_begin_alike),
        TEST(smaller_configuration_is_taken),
    };

    return cmocka_run_group_tests_name("plugins", tests, NULL, NULL);
}
