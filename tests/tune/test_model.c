/* SPDX-License-Identifier: BSD-3-Clause */
/* The fit of verbena-tune finds the model that made its points, and rules are what was fastest. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tune.h"

enum { POINTS = 400, RANKS = 8, PROCESSORS = 2 };

static const enum vbn_coll colls[] = {VBN_COLL_BARRIER, VBN_COLL_BCAST, VBN_COLL_ALLREDUCE,
                                      VBN_COLL_ALLTOALL};

/* What MODEL predicts for all ways, as if it had been measured. */
static void make_points(const struct tune_model *model, struct tune_points *points)
{
    static const size_t sizes[] = {8, 4096, 65536, 1048576};
    struct tune_way way;

    *points = (struct tune_points){calloc(POINTS, sizeof(struct tune_point)), 0, POINTS};
    for (size_t c = 0; c < sizeof(colls) / sizeof(colls[0]); c++)
        for (size_t s = 0; s < (colls[c] == VBN_COLL_BARRIER ? 1 : 4); s++)
            for (unsigned i = 0; tune_way_at(colls[c], RANKS, sizes[s], i, &way); i++) {
                size_t bytes = colls[c] == VBN_COLL_BARRIER ? 0 : sizes[s];

                assert_true(points->count < POINTS);
                points->point[points->count++] =
                    (struct tune_point){.way = way,
                                        .bytes = bytes,
                                        .us = tune_predict(model, &way, bytes, RANKS, PROCESSORS)};
            }
}

static void check_fit(double latency, double message, double byte, double reduce)
{
    struct tune_model model = {latency, message, byte, reduce}, found;
    struct tune_points points;

    make_points(&model, &points);
    found = tune_fit(&points, RANKS, PROCESSORS);
    assert_true(fabs(found.latency_ns - latency) <= 1e-3 * latency + 1e-3);
    assert_true(fabs(found.message_ns - message) <= 1e-3 * message + 1e-3);
    assert_true(fabs(found.byte_ns - byte) <= 1e-3 * byte + 1e-6);
    assert_true(fabs(found.reduce_ns - reduce) <= 1e-3 * reduce + 1e-6);
    free(points.point);
}

static void the_model_is_found_again(void **state)
{
    (void)state;
    check_fit(11000, 10000, 1, 0.16);
    check_fit(1500, 300, 0.08, 0.1);
    check_fit(0, 300, 0.08, 0);
}

/* Times that a negative latency would fit best: no number is below 0. */
static void nothing_is_negative(void **state)
{
    struct tune_model model = {0, 1000, 1, 0.1}, found;
    struct tune_points points;

    (void)state;
    make_points(&model, &points);
    for (size_t i = 0; i < points.count; i++)
        points.point[i].us -=
            0.3 * tune_predict(&(struct tune_model){1000, 0, 0, 0}, &points.point[i].way,
                               points.point[i].bytes, RANKS, PROCESSORS);
    found = tune_fit(&points, RANKS, PROCESSORS);
    assert_true(found.latency_ns >= 0 && found.message_ns > 0 && found.byte_ns > 0 &&
                found.reduce_ns >= 0);
    free(points.point);
}

static char *rules_of(struct tune_point *point, size_t count)
{
    static char text[1000];
    char path[] = "/tmp/vbn-tune-XXXXXX";
    struct tune_points points = {point, count, count};
    int fd = mkstemp(path);
    ssize_t len;

    assert_true(fd >= 0);
    assert_int_equal(tune_write_rules(&points, RANKS, path), VBN_OK);
    len = read(fd, text, sizeof(text) - 1);
    assert_true(len > 0);
    text[len] = '\0';
    close(fd);
    remove(path);
    return text;
}

/* Borders are halfway on a scale of factors; blocks count for all ranks; 5 % are not enough to set
 * the built-in choice aside. */
static void rules_take_the_fastest(void **state)
{
    struct tune_way first = {VBN_COLL_ALLTOALL, 0, 0}, second = {VBN_COLL_ALLTOALL, 1, 0};
    struct tune_way barrier = {VBN_COLL_BARRIER, 0, 4};
    char expected[300];
    struct tune_point points[] = {
        {barrier, 0, false, 5},    {first, 8, true, 10},     {second, 8, false, 20},
        {first, 128, true, 100},   {second, 128, false, 96}, {first, 2048, true, 100},
        {second, 2048, false, 90},
    };

    (void)state;
    snprintf(expected, sizeof(expected),
             "# Measured by verbena-tune with 8 ranks.\nbarrier=%s/4:0-@8-8\n"
             "alltoall=%s:0-4096@8-8\nalltoall=%s:4097-@8-8\n",
             vbn_coll_algorithm(VBN_COLL_BARRIER, 0), vbn_coll_algorithm(VBN_COLL_ALLTOALL, 0),
             vbn_coll_algorithm(VBN_COLL_ALLTOALL, 1));
    assert_string_equal(rules_of(points, sizeof(points) / sizeof(points[0])), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_found_again),
        cmocka_unit_test(nothing_is_negative),
        cmocka_unit_test(rules_take_the_fastest),
    };

    return cmocka_run_group_tests_name("tune", tests, NULL, NULL);
}
