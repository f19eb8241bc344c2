/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads rules: OPERATION=ALGORITHM[/PARAM][:FROM-TO][@RANKS-RANKS], as verbena_coll.h has them. */
#include "error.h"
#include "team.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULE_MAX      256u
#define RULE_FILE_MAX ((long)1 << 20)

struct reading {
    vbn_team_t *team;
    const char *where;
    char rule[RULE_MAX];
    struct vbn_error *err;
};

static int bad(struct reading *r, const char *what, const char *name, const char *allowed)
{
    return vbn_error_set(r->err, VBN_ERR_INVALID, "%s: rule \"%s\": %s \"%s\"%s%s", r->where,
                         r->rule, what, name, *allowed ? "; there are: " : "", allowed);
}

static void append(char *text, size_t len, const char *name)
{
    size_t used = strlen(text);

    snprintf(text + used, len - used, "%s%s", used ? " " : "", name);
}

static int find_coll(struct reading *r, const char *name, enum vbn_coll *coll)
{
    char all[240] = "";

    if (vbn_coll_find(name, coll) == VBN_OK)
        return VBN_OK;
    for (int i = 0; i < VBN_COLL_COUNT; i++)
        append(all, sizeof(all), vbn_coll_name((enum vbn_coll)i));
    return bad(r, "no operation", name, all);
}

static int find_algorithm(struct reading *r, enum vbn_coll coll, const char *name,
                          const struct vbn_algorithm **algorithm)
{
    char all[240] = "";

    for (unsigned i = 0; (*algorithm = vbn_algorithm_at(coll, i)); i++) {
        if (strcmp((*algorithm)->name, name) == 0)
            return VBN_OK;
        append(all, sizeof(all), (*algorithm)->name);
    }
    return bad(r, "no algorithm", name, all);
}

/* A number with an optional k, m or g; *END is what follows. False: none, or too large. */
static bool number(const char *text, const char **end, uint64_t *value)
{
    static const char units[] = "kmg";
    const char *unit;
    char *rest;
    unsigned shift;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &rest, 10);
    *end = rest;
    if (errno)
        return false;
    unit = *rest ? strchr(units, *rest | 0x20) : NULL;
    if (!unit)
        return true;
    *end = rest + 1;
    shift = 10 * (unsigned)(unit - units + 1);
    if (*value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return true;
}

/* FROM-TO, FROM-, -TO, or one number. */
static bool range(const char *text, uint64_t *from, uint64_t *to)
{
    const char *end = text;

    if (*text != '-' && !number(text, &end, from))
        return false;
    if (!*end) {
        *to = *from;
        return end != text;
    }
    if (*end != '-')
        return false;
    text = end + 1;
    if (*text && (!number(text, &end, to) || *end))
        return false;
    return *from <= *to;
}

/* Cuts TEXT at the first MARK; what follows it, or NULL. */
static char *cut(char *text, char mark)
{
    char *at = strchr(text, mark);

    if (at)
        *at++ = '\0';
    return at;
}

static int check_param(struct reading *r, const struct vbn_rule *rule, const char *text)
{
    unsigned limits = rule->algorithm->limits;

    if (!(limits & (VBN_ALGO_RADIX | VBN_ALGO_SEGMENT)))
        return bad(r, "this algorithm has no parameter, but there is", text, "");
    if ((limits & VBN_ALGO_RADIX) && rule->param < 2)
        return bad(r, "a radix is 2 or more, not", text, "");
    if (!rule->param)
        return bad(r, "a segment is 1 byte or more, not", text, "");
    return VBN_OK;
}

static int add_rule(struct reading *r, const struct vbn_rule *rule)
{
    vbn_team_t *team = r->team;
    struct vbn_rule *rules = realloc(team->rules, (team->rule_count + 1) * sizeof(*rules));

    if (!rules)
        return vbn_error_set(r->err, VBN_ERR_NO_MEMORY, "no memory for rules");
    rules[team->rule_count++] = *rule;
    team->rules = rules;
    return VBN_OK;
}

static int read_rule(struct reading *r)
{
    struct vbn_rule rule = {.bytes_to = UINT64_MAX, .ranks_to = UINT64_MAX};
    char text[RULE_MAX], *ranks, *bytes, *param, *algorithm;
    const char *end = "";
    enum vbn_coll coll = VBN_COLL_COUNT;
    uint64_t value = 0;
    int status;

    memcpy(text, r->rule, sizeof(text));
    ranks = cut(text, '@');
    bytes = cut(text, ':');
    param = cut(text, '/');
    algorithm = cut(text, '=');
    if (!algorithm)
        return bad(r, "no \"=\" in", text, "");
    status = find_coll(r, text, &coll);
    if (status == VBN_OK)
        status = find_algorithm(r, coll, algorithm, &rule.algorithm);
    if (status != VBN_OK)
        return status;
    if (param && (!number(param, &end, &value) || *end))
        return bad(r, "not a number:", param, "");
    rule.param = (size_t)value;
    if (param && check_param(r, &rule, param) != VBN_OK)
        return VBN_ERR_INVALID;
    if (bytes && !range(bytes, &rule.bytes_from, &rule.bytes_to))
        return bad(r, "not a range of bytes:", bytes, "");
    if (ranks && !range(ranks, &rule.ranks_from, &rule.ranks_to))
        return bad(r, "not a range of ranks:", ranks, "");
    return add_rule(r, &rule);
}

int vbn_rules_parse(vbn_team_t *team, const char *text, const char *where, struct vbn_error *err)
{
    static const char between[] = " \t\r\n,;";
    struct reading r = {.team = team, .where = where, .err = err};
    int status = VBN_OK;

    while (status == VBN_OK && *(text += strspn(text, between))) {
        size_t len = *text == '#' ? strcspn(text, "\n") : strcspn(text, between);

        if (*text != '#') {
            size_t kept = len < RULE_MAX ? len : RULE_MAX - 1;

            memset(r.rule, 0, sizeof(r.rule));
            memcpy(r.rule, text, kept);
            status = kept < len ? bad(&r, "longer than any rule:", "", "") : read_rule(&r);
        }
        text += len;
    }
    return status;
}

int vbn_rules_load(vbn_team_t *team, const char *path, struct vbn_error *err)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t got;
    int status;

    if (!file)
        return vbn_error_set(err, VBN_ERR_INVALID, "rules file %s: %s", path, strerror(errno));
    text = malloc(RULE_FILE_MAX + 1);
    if (!text) {
        status = vbn_error_set(err, VBN_ERR_NO_MEMORY, "no memory for the rules file %s", path);
        goto close_file;
    }
    got = fread(text, 1, RULE_FILE_MAX + 1, file);
    if (ferror(file) || got > RULE_FILE_MAX) {
        status = vbn_error_set(err, VBN_ERR_INVALID, "rules file %s: %s", path,
                               ferror(file) ? "cannot be read" : "larger than 1 MiB");
        goto close_file;
    }
    text[got] = '\0';
    status = vbn_rules_parse(team, text, path, err);
close_file:
    free(text);
    fclose(file);
    return status;
}
