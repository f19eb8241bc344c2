/* SPDX-License-Identifier: BSD-3-Clause */
/* Where values come from, which of them counts, what is refused, and what help says. */
#include "rig.h"

#include <sys/stat.h>
#include <unistd.h>

static const struct vbn_param host_params[] = {
    {"tree", VBN_PARAM_UINT, 0, 4, 2, 32, "children", "how wide the tree is"},
    {"safe", VBN_PARAM_BOOL, 0, 0, 0, 1, "", "whether to look twice"},
};

static void add_host_params(void)
{
    assert_int_equal(vbn_loader_add_params(loader, "coll", host_params, 2, &err), VBN_OK);
}

static void assert_refused(const char *line, const char *part1, const char *part2)
{
    created(line);
    add_host_params();
    assert_int_equal(vbn_loader_check(loader, &err), VBN_ERR_INVALID);
    assert_int_equal(err.status, VBN_ERR_INVALID);
    assert_contains(err.text, part1);
    assert_contains(err.text, part2);
}

/* --- command line ----------------------------------------------------------------------------- */

static void arguments_are_taken_out(void **state)
{
    (void)state;
    created("a --mca coll_tree 8 -b --mca transport_verbose 2 c");
    assert_int_equal(arg_count, 4);
    assert_string_equal(args[0], "program");
    assert_string_equal(args[1], "a");
    assert_string_equal(args[2], "-b");
    assert_string_equal(args[3], "c");
    assert_null(args[4]);
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "8");
    assert_string_equal(vbn_loader_value(loader, "transport_verbose"), "2");
    assert_null(vbn_loader_value(loader, "coll_safe"));
}

static void other_words_stay(void **state)
{
    (void)state;
    created("--mca=coll_tree -mca x --mcas -- --mca coll_tree 8");
    assert_int_equal(arg_count, 9);
    assert_null(vbn_loader_value(loader, "coll_tree"));
}

static void incomplete_arguments_are_refused(void **state)
{
    (void)state;
    assert_int_equal(create("a --mca"), VBN_ERR_INVALID);
    assert_null(loader);
    assert_contains(err.text, "command line");
    assert_int_equal(create("a --mca coll_tree"), VBN_ERR_INVALID);
    assert_contains(err.text, "--mca coll_tree needs a value");
}

static void no_arguments_at_all(void **state)
{
    (void)state;
    assert_int_equal(vbn_loader_create(NULL, NULL, &loader, NULL), VBN_OK);
    assert_int_equal(vbn_loader_check(loader, NULL), VBN_OK);
}

/* --- files ------------------------------------------------------------------------------------ */

static void file_is_read(void **state)
{
    (void)state;
    param_file("# the fleet's\n\n  coll_tree = 9   # nine\ncoll_safe=yes\ntransport = \n"
               "transport_path = /a#b");
    unsetenv("VERBENA_MCA_transport_path");
    assert_int_equal(vbn_loader_create(NULL, NULL, &loader, &err), VBN_OK);
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "9");
    assert_string_equal(vbn_loader_value(loader, "coll_safe"), "yes");
    assert_string_equal(vbn_loader_value(loader, "transport"), "");
    assert_string_equal(vbn_loader_value(loader, "transport_path"), "/a#b");
}

static void bad_lines_are_refused(void **state)
{
    static const char *const bad[] = {"coll_tree 9\n", "= 9\n", "coll tree = 9\n", "[verbena]\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[128];

        snprintf(text, sizeof(text), "coll_safe = 1\n%s", bad[i]);
        param_file(text);
        assert_int_equal(create(""), VBN_ERR_INVALID);
        assert_contains(err.text, "params.conf:2: ");
    }
}

static void named_file_must_be_there(void **state)
{
    (void)state;
    setenv("VERBENA_PARAM_FILE", "/nowhere/params.conf", 1);
    assert_int_equal(create(""), VBN_ERR_INVALID);
    assert_contains(err.text, "/nowhere/params.conf");
    assert_contains(err.text, "VERBENA_PARAM_FILE");
}

static void file_at_home(void **state)
{
    char path[128];

    (void)state;
    unsetenv("VERBENA_PARAM_FILE");
    setenv("HOME", folder, 1);
    created("");
    assert_null(vbn_loader_value(loader, "coll_tree"));
    snprintf(path, sizeof(path), "%s/.verbena", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put_text(".verbena/params.conf", "coll_tree = 11\n");
    created("");
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "11");
    snprintf(path, sizeof(path), "%s/.verbena/params.conf", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/.verbena", folder);
    assert_int_equal(rmdir(path), 0);
}

/* --- strength --------------------------------------------------------------------------------- */

static void the_stronger_wins(void **state)
{
    (void)state;
    created("");
    assert_int_equal(vbn_loader_set(loader, "coll_tree", "5", &err), VBN_OK);
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "5");

    param_file("coll_tree = 6\n");
    created("");
    assert_int_equal(vbn_loader_set(loader, "coll_tree", "5", &err), VBN_OK);
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "6");

    setenv("VERBENA_MCA_coll_tree", "7", 1);
    created("");
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "7");

    created("--mca coll_tree 8");
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "8");
}

static void the_later_of_equals_wins(void **state)
{
    (void)state;
    param_file("coll_safe = 0\ncoll_safe = 1\n");
    created("--mca coll_tree 8 --mca coll_tree 9");
    assert_string_equal(vbn_loader_value(loader, "coll_tree"), "9");
    assert_string_equal(vbn_loader_value(loader, "coll_safe"), "1");
}

static void settings_have_bare_names(void **state)
{
    struct vbn_setting *settings;
    size_t count;

    (void)state;
    param_file("coll_tree = 6\ncollect_x = 1\n");
    created("--mca coll_tree 8 --mca coll_safe on --mca transport rc");
    assert_int_equal(vbn_loader_settings(loader, "coll", &settings, &count), VBN_OK);
    assert_int_equal(count, 2);
    assert_string_equal(settings[0].name, "tree");
    assert_string_equal(settings[0].value, "8");
    assert_string_equal(settings[1].name, "safe");
    free(settings);
}

/* --- judging ---------------------------------------------------------------------------------- */

static void good_values_pass(void **state)
{
    (void)state;
    put_plugin("good");
    param_file("transport_good_lane = left\n");
    setenv("VERBENA_MCA_transport_good_fast", "off", 1);
    created("--mca coll_tree 2 --mca coll_safe TRUE --mca transport_good_depth 64");
    add_host_params();
    assert_int_equal(vbn_loader_check(loader, &err), VBN_OK);
}

static void unknown_names_get_a_proposal(void **state)
{
    (void)state;
    put_plugin("good");
    assert_refused("--mca coll_tre 3", "command line: ", "did you mean coll_tree");
    assert_refused("--mca transport_good_dept 3", "\"transport_good_dept\"",
                   "did you mean transport_good_depth");
    assert_refused("--mca transprot rc", "command line: ", "did you mean transport;");
    assert_refused("--mca btl self,tcp", "there is no parameter \"btl\"", "--mca help all");
    assert_lacks(err.text, "did you mean");
}

static void unknown_names_from_elsewhere(void **state)
{
    (void)state;
    setenv("VERBENA_MCA_coll_tee", "3", 1);
    assert_refused("", "environment variable VERBENA_MCA_coll_tee: ", "did you mean coll_tree");
    unsetenv("VERBENA_MCA_coll_tee");
    param_file("\ncoll_tee = 3\n");
    assert_refused("", "params.conf:2: ", "did you mean coll_tree");
    /* also where a stronger one of the same name is there */
    assert_refused("--mca coll_tee 3", "params.conf:2: ", "did you mean coll_tree");
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    put_plugin("good");
    assert_refused("--mca coll_tree 33", "command line: parameter coll_tree",
                   "from 2 to 32 children");
    assert_refused("--mca coll_tree x", "\"x\"", "default is 4");
    assert_refused("--mca coll_safe maybe", "parameter coll_safe", "not a boolean");
    assert_refused("--mca transport_good_depth 0", "transport_good_depth", "from 1 to 64 requests");
    assert_refused("--mca transport_verbose 3", "transport_verbose", "from 0 to 2");
    setenv("VERBENA_MCA_coll_tree", "1", 1);
    assert_refused("", "environment variable VERBENA_MCA_coll_tree: ", "from 2 to 32");
    /* a value that does not count hurts nobody */
    created("--mca coll_tree 8");
    add_host_params();
    assert_int_equal(vbn_loader_check(loader, &err), VBN_OK);
}

static void prefixes_are_taken_once(void **state)
{
    (void)state;
    created("");
    add_host_params();
    assert_int_equal(vbn_loader_add_params(loader, "coll", host_params, 2, &err), VBN_ERR_INVALID);
    assert_int_equal(vbn_loader_add_params(loader, "", host_params, 2, &err), VBN_ERR_INVALID);
    assert_int_equal(vbn_loader_add_params(loader, "x", NULL, 1, &err), VBN_ERR_INVALID);
}

/* --- help ------------------------------------------------------------------------------------- */

static void help_is_asked_for(void **state)
{
    const struct vbn_transport *tr;
    vbn_port_t *port;
    char *text;

    (void)state;
    put_plugin("good");
    put_plugin("older");
    created("--mca help all --mca transport_good_depth 5 a");
    assert_int_equal(arg_count, 2);
    add_host_params();
    assert_int_equal(vbn_loader_check(loader, &err), VBN_LOADER_HELP);
    assert_int_equal(vbn_loader_open(loader, NULL, &tr, &port, &err), VBN_LOADER_HELP);
    text = help_text();
    assert_contains(text,
                    "coll_tree = 4\n    how wide the tree is\n    2 to 32 children; default 4");
    assert_contains(text, "coll_safe = no\n");
    assert_contains(text, "transport_good_depth = 5 (command line)\n");
    assert_contains(text, "transport_good_fast = yes\n    whether it is fast\n    yes or no;");
    assert_contains(text, "good 1.2.3: A fake. (");
    assert_contains(text, "older cannot be used: ");
    assert_contains(text, "transport_path = ");
    assert_contains(text, "environment variable VERBENA_MCA_transport_path");
    free(text);
}

static void help_has_topics(void **state)
{
    char *text;

    (void)state;
    put_plugin("good");
    put_plugin("fine");
    created("--mca help good");
    add_host_params();
    text = help_text();
    assert_contains(text, "transport_good_depth = 16\n");
    assert_lacks(text, "transport_fine_depth");
    assert_lacks(text, "coll_tree");
    assert_lacks(text, "transport_verbose");
    free(text);
    created("--mca help transport");
    add_host_params();
    text = help_text();
    assert_contains(text, "transport_good_depth");
    assert_contains(text, "transport_fine_depth");
    assert_contains(text, "transport_verbose = 1\n");
    assert_lacks(text, "coll_tree");
    free(text);
    created("--mca help coll");
    add_host_params();
    text = help_text();
    assert_contains(text, "coll_tree");
    assert_lacks(text, "transport_");
    free(text);
}

static void help_knows_its_topics(void **state)
{
    (void)state;
    put_plugin("good");
    created("--mca help goood");
    assert_int_equal(vbn_loader_help(loader, stdout, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "did you mean good");
}

static void help_says_why_there_is_none(void **state)
{
    (void)state;
    put_plugin("older");
    created("--mca help older");
    assert_int_equal(vbn_loader_help(loader, stdout, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "older cannot be used: ");
    assert_contains(err.text, "was built for version 0.7");
    created("--mca help transport_older");
    assert_int_equal(vbn_loader_help(loader, stdout, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "was built for version 0.7");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(arguments_are_taken_out),
        TEST(other_words_stay),
        TEST(incomplete_arguments_are_refused),
        TEST(no_arguments_at_all),
        TEST(file_is_read),
        TEST(bad_lines_are_refused),
        TEST(named_file_must_be_there),
        TEST(file_at_home),
        TEST(the_stronger_wins),
        TEST(the_later_of_equals_wins),
        TEST(settings_have_bare_names),
        TEST(good_values_pass),
        TEST(unknown_names_get_a_proposal),
        TEST(unknown_names_from_elsewhere),
        TEST(bad_values_are_refused),
        TEST(prefixes_are_taken_once),
        TEST(help_is_asked_for),
        TEST(help_has_topics),
        TEST(help_knows_its_topics),
        TEST(help_says_why_there_is_none),
    };

    return cmocka_run_group_tests_name("parameters", tests, NULL, NULL);
}
