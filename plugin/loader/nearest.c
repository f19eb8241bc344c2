/* SPDX-License-Identifier: BSD-3-Clause */
/* What a mistyped name may have meant: the name with the smallest edit distance (Levenshtein). */
#include "loader.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX 95 /* longer names are compared by their start */

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

static size_t word_length(const char *word)
{
    return strnlen(word, WORD_MAX);
}

/* One row of the table is kept: row[k] is the distance of A's first i letters and B's first k. */
static size_t distance(const char *a, const char *b)
{
    size_t a_len = word_length(a), b_len = word_length(b);
    size_t row[WORD_MAX + 1];

    for (size_t k = 0; k <= b_len; k++)
        row[k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            size_t above = row[k];

            row[k] = smallest(above + 1, row[k - 1] + 1, diagonal + (a[i - 1] != b[k - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

void nearest_init(struct nearest *nearest, const char *word)
{
    nearest->word = word;
    nearest->distance = SIZE_MAX;
    nearest->name[0] = '\0';
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    size_t d = distance(nearest->word, name);

    if (d < nearest->distance) {
        nearest->distance = d;
        snprintf(nearest->name, sizeof(nearest->name), "%s", name);
    }
}

bool nearest_found(const struct nearest *nearest)
{
    size_t letters = word_length(nearest->word);

    /* A third of the letters wrong is a slip, more is another word. */
    return nearest->name[0] && nearest->distance <= (letters < 3 ? 1 : (letters + 2) / 3);
}
