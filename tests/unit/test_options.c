/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameter table, values as text, and the taking of a caller's options of any size. */
#include "unit.h"

#include "error.h"
#include "options.h"
#include "wire.h"

#include <stdlib.h>
#include <unistd.h>

static struct vbn_options opts;
static struct vbn_error err;

static int setup(void **state)
{
    (void)state;
    unit_reset();
    vbn_options_init(&opts, sizeof(opts));
    memset(&err, 0, sizeof(err));
    return 0;
}

static uint64_t uint_at(const struct vbn_options *o, const struct vbn_param *p)
{
    uint64_t value;

    memcpy(&value, (const char *)o + p->offset, sizeof(value));
    return value;
}

static const struct vbn_param *param(const char *name)
{
    const struct vbn_param *p;
    size_t count;

    for (p = vbn_params(&count); count; p++, count--)
        if (!strcmp(p->name, name))
            return p;
    fail_msg("no parameter %s", name);
    return NULL;
}

/* --- the table -------------------------------------------------------------------------------- */

static void table_is_sound(void **state)
{
    size_t count;
    const struct vbn_param *p = vbn_params(&count);

    (void)state;
    assert_true(count > 10);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(p[i].help) > 10);
        assert_true(p[i].offset + (p[i].type == VBN_PARAM_BOOL ? 1 : 8) <= sizeof(opts));
        if (p[i].type == VBN_PARAM_UINT) {
            assert_true(p[i].min <= p[i].def && p[i].def <= p[i].max);
            assert_int_equal(uint_at(&opts, &p[i]), p[i].def);
        }
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(p[i].name, p[k].name);
            assert_int_not_equal(p[i].offset, p[k].offset);
        }
    }
    assert_true(opts.use_srq);
    assert_null(opts.device);
    assert_int_equal(opts.size, sizeof(opts));
}

/* 16 KiB are a common length: with a tag, or another header, they still fit into one message. */
static void sixteen_kib_are_one_message(void **state)
{
    (void)state;
    assert_true(opts.eager_limit >= 16384 + sizeof(struct vbn_wire_tag));
    assert_true(opts.eager_limit >= 16384 + 32); /* Open MPI's headers are shorter */
}

/* A program compiled with a shorter struct: nothing beyond it is written. */
static void init_keeps_to_the_size(void **state)
{
    unsigned char memory[sizeof(opts) + 8];
    struct vbn_options *o = (struct vbn_options *)(void *)memory;
    size_t size = offsetof(struct vbn_options, multithreaded);

    (void)state;
    memset(memory, 0xa5, sizeof(memory));
    vbn_options_init(o, size);
    assert_int_equal(o->size, size);
    assert_int_equal(o->eager_limit, param("eager_limit")->def);
    for (size_t i = size; i < sizeof(memory); i++)
        assert_int_equal(memory[i], 0xa5);
    assert_int_equal(vbn_options_set(o, "ring_peers", "7", &err), VBN_ERR_INVALID);
    assert_non_null(strstr(err.text, "ring_peers: this program was built before"));
    for (size_t i = size; i < sizeof(memory); i++)
        assert_int_equal(memory[i], 0xa5);
    assert_int_equal(vbn_options_set(o, "eager_limit", "1k", &err), VBN_OK);
}

/* --- values as text --------------------------------------------------------------------------- */

static void numbers_are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"1024", 1024},   {"4k", 4096},     {"4K", 4096},
                {" 4096", 4096},  {"0x1000", 4096}, {"262144", 262144},
                {"256k", 262144}, {"01024", 1024},  {"0X400", 1024}};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        opts.eager_limit = 0;
        assert_int_equal(vbn_options_set(&opts, "eager_limit", good[i].text, &err), VBN_OK);
        assert_int_equal(opts.eager_limit, good[i].value);
    }
    assert_int_equal(vbn_options_set(&opts, "cq_size", "4m", NULL), VBN_OK);
    assert_int_equal(opts.cq_size, 4u << 20);
}

static void bad_numbers_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "-1",
                                      "1023",
                                      "262145",
                                      "4kk",
                                      "0x",
                                      "0777",
                                      "4k ",
                                      "4t",
                                      "1e4",
                                      "4096.0",
                                      "4096 bytes",
                                      "1g",
                                      "+4096",
                                      "99999999999999999999",
                                      "17179869184g",
                                      "18014398509481988k",
                                      "k"};

    char def[32];

    (void)state;
    snprintf(def, sizeof(def), "%llu", (unsigned long long)param("eager_limit")->def);
    opts.eager_limit = 4444;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.status = 0;
        assert_int_equal(vbn_options_set(&opts, "eager_limit", bad[i], &err), VBN_ERR_INVALID);
        assert_int_equal(err.status, VBN_ERR_INVALID);
        assert_contains(err.text, "eager_limit");
        assert_contains(err.text, bad[i]);
        assert_contains(err.text, "1024");
        assert_contains(err.text, "262144");
        assert_contains(err.text, def);
        assert_int_equal(opts.eager_limit, 4444);
        assert_int_equal(vbn_options_set(&opts, "eager_limit", bad[i], NULL), VBN_ERR_INVALID);
    }
}

static void both_ends_of_each_range_hold(void **state)
{
    size_t count;
    const struct vbn_param *p = vbn_params(&count);
    char text[32];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        if (p[i].type != VBN_PARAM_UINT)
            continue;
        snprintf(text, sizeof(text), "%llu", (unsigned long long)p[i].min);
        assert_int_equal(vbn_options_set(&opts, p[i].name, text, &err), VBN_OK);
        assert_int_equal(uint_at(&opts, &p[i]), p[i].min);
        snprintf(text, sizeof(text), "%llu", (unsigned long long)p[i].max);
        assert_int_equal(vbn_options_set(&opts, p[i].name, text, &err), VBN_OK);
        assert_int_equal(uint_at(&opts, &p[i]), p[i].max);
        snprintf(text, sizeof(text), "%llu", (unsigned long long)p[i].max + 1);
        assert_int_equal(vbn_options_set(&opts, p[i].name, text, &err), VBN_ERR_INVALID);
        snprintf(text, sizeof(text), "%lld", (long long)p[i].min - 1);
        assert_int_equal(vbn_options_set(&opts, p[i].name, text, &err), VBN_ERR_INVALID);
        assert_int_equal(uint_at(&opts, &p[i]), p[i].max);
    }
}

static void booleans_are_read(void **state)
{
    static const char *const yes[] = {"1", "true", "YES", "On"};
    static const char *const no[] = {"0", "FALSE", "no", "off"};
    static const char *const bad[] = {"", "2", "tru", "yess", " 1"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        opts.use_srq = false;
        assert_int_equal(vbn_options_set(&opts, "use_srq", yes[i], &err), VBN_OK);
        assert_true(opts.use_srq);
        assert_int_equal(vbn_options_set(&opts, "use_srq", no[i], &err), VBN_OK);
        assert_false(opts.use_srq);
    }
    opts.use_srq = true;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(vbn_options_set(&opts, "use_srq", bad[i], &err), VBN_ERR_INVALID);
        assert_contains(err.text, "use_srq");
        assert_contains(err.text, "boolean");
        assert_true(opts.use_srq);
    }
}

static void strings_and_unknown_names(void **state)
{
    static const char text[] = "mlx5_0:2";

    (void)state;
    assert_int_equal(vbn_options_set(&opts, "device", text, &err), VBN_OK);
    assert_ptr_equal(opts.device, text);
    assert_int_equal(vbn_options_set(&opts, "devise", text, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "devise");
    assert_int_equal(vbn_options_set(&opts, "", text, &err), VBN_ERR_INVALID);
}

/* A text longer than the error's own: cut, not overrun. */
static void long_values_are_cut(void **state)
{
    char text[2000];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(vbn_options_set(&opts, "window", text, &err), VBN_ERR_INVALID);
    assert_true(strlen(err.text) < sizeof(err.text));
    assert_contains(err.text, "window");
}

/* --- taking ----------------------------------------------------------------------------------- */

static void nothing_gives_the_defaults(void **state)
{
    struct vbn_options taken;

    (void)state;
    assert_int_equal(vbn_options_take(NULL, &taken, &err), VBN_OK);
    assert_int_equal(taken.eager_limit, param("eager_limit")->def);
    assert_non_null(taken.log);
    assert_non_null(taken.clock_ns);
    assert_non_null(taken.random);
}

static void own_values_and_callbacks_are_kept(void **state)
{
    struct vbn_options taken;

    (void)state;
    unit_options(&opts);
    opts.window = 99;
    opts.job_key = 0x123456789abcdefu;
    opts.callback_arg = &opts;
    assert_int_equal(vbn_options_take(&opts, &taken, &err), VBN_OK);
    assert_memory_equal(&taken, &opts, sizeof(opts));
}

static void default_clock_and_random_work(void **state)
{
    struct vbn_options taken;
    uint64_t before, a, b, c;

    (void)state;
    assert_int_equal(vbn_options_take(NULL, &taken, &err), VBN_OK);
    before = taken.clock_ns(NULL);
    assert_true(before > 0);
    assert_true(taken.clock_ns(NULL) >= before);
    a = taken.random(NULL), b = taken.random(NULL), c = taken.random(NULL);
    assert_false(a == b && b == c);
}

/* Where nobody asked for the log: errors and warnings on stderr, and nothing of the rest. */
static void default_log_is_stderr(void **state)
{
    struct vbn_options taken;
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    char text[200];
    size_t len;

    (void)state;
    assert_int_equal(vbn_options_take(NULL, &taken, &err), VBN_OK);
    assert_non_null(file);
    assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
    for (enum vbn_log_level level = VBN_LOG_ERROR; level <= VBN_LOG_DEBUG; level++)
        taken.log(NULL, level, level == VBN_LOG_ERROR ? "first" : "later");
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    rewind(file);
    len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[len] = '\0';
    assert_string_equal(text, "verbena: first\nverbena: later\n");
}

static void smaller_struct_is_taken(void **state)
{
    struct vbn_options taken;

    (void)state;
    opts.size = offsetof(struct vbn_options, multithreaded);
    opts.window = 77;
    opts.job_key = 5; /* beyond what this caller knows of */
    assert_int_equal(vbn_options_take(&opts, &taken, &err), VBN_OK);
    assert_int_equal(taken.window, 77);
    assert_int_equal(taken.job_key, 0);
    assert_int_equal(taken.size, sizeof(taken));
}

static void larger_struct_is_taken(void **state)
{
    struct {
        struct vbn_options o;
        char more[64]; /* of a later release */
    } later;
    struct vbn_options taken;

    (void)state;
    memset(&later, 0xa5, sizeof(later));
    vbn_options_init(&later.o, sizeof(later.o));
    later.o.size = sizeof(later);
    later.o.window = 33;
    assert_int_equal(vbn_options_take(&later.o, &taken, &err), VBN_OK);
    assert_int_equal(taken.window, 33);
    assert_int_equal(taken.size, sizeof(taken));
}

static void wrong_sizes_are_refused(void **state)
{
    struct vbn_options taken;

    (void)state;
    opts.size = 0;
    assert_int_equal(vbn_options_take(&opts, &taken, &err), VBN_ERR_INVALID);
    assert_contains(err.text, "vbn_options_init");
    opts.size = offsetof(struct vbn_options, multithreaded) - 1;
    assert_int_equal(vbn_options_take(&opts, &taken, &err), VBN_ERR_INVALID);
}

static void fields_out_of_range_are_refused(void **state)
{
    size_t count;
    const struct vbn_param *p = vbn_params(&count);
    struct vbn_options taken;

    (void)state;
    for (size_t i = 0; i < count; i++) {
        uint64_t below = p[i].min - 1, above = p[i].max + 1;

        if (p[i].type != VBN_PARAM_UINT)
            continue;
        vbn_options_init(&opts, sizeof(opts));
        memcpy((char *)&opts + p[i].offset, &above, sizeof(above));
        assert_int_equal(vbn_options_take(&opts, &taken, &err), VBN_ERR_INVALID);
        assert_contains(err.text, p[i].name);
        if (!p[i].min)
            continue;
        memcpy((char *)&opts + p[i].offset, &below, sizeof(below));
        assert_int_equal(vbn_options_take(&opts, &taken, &err), VBN_ERR_INVALID);
    }
}

/* --- status codes ----------------------------------------------------------------------------- */

static void every_status_has_its_name(void **state)
{
    (void)state;
    for (int s = VBN_ERR_MISMATCH; s <= VBN_OK; s++) {
        assert_string_not_equal(vbn_status_str(s), vbn_status_str(99));
        for (int t = VBN_ERR_MISMATCH; t < s; t++)
            assert_string_not_equal(vbn_status_str(s), vbn_status_str(t));
    }
    assert_non_null(vbn_status_str(-12345));
    assert_int_equal(vbn_error_set(NULL, VBN_ERR_AGAIN, "%s", "x"), VBN_ERR_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(table_is_sound, setup),
        cmocka_unit_test_setup(sixteen_kib_are_one_message, setup),
        cmocka_unit_test_setup(init_keeps_to_the_size, setup),
        cmocka_unit_test_setup(numbers_are_read, setup),
        cmocka_unit_test_setup(bad_numbers_are_refused, setup),
        cmocka_unit_test_setup(both_ends_of_each_range_hold, setup),
        cmocka_unit_test_setup(booleans_are_read, setup),
        cmocka_unit_test_setup(strings_and_unknown_names, setup),
        cmocka_unit_test_setup(long_values_are_cut, setup),
        cmocka_unit_test_setup(nothing_gives_the_defaults, setup),
        cmocka_unit_test_setup(own_values_and_callbacks_are_kept, setup),
        cmocka_unit_test_setup(default_clock_and_random_work, setup),
        cmocka_unit_test_setup(default_log_is_stderr, setup),
        cmocka_unit_test_setup(smaller_struct_is_taken, setup),
        cmocka_unit_test_setup(larger_struct_is_taken, setup),
        cmocka_unit_test_setup(wrong_sizes_are_refused, setup),
        cmocka_unit_test_setup(fields_out_of_range_are_refused, setup),
        cmocka_unit_test_setup(every_status_has_its_name, setup),
    };

    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
