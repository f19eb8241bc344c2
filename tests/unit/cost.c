/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the data path costs, to be counted in instructions by callgrind (tools/cost): each action of
 * a connected endpoint so often, over verbs that do nothing but keep books. All work of one kind is
 * inside measured().
 *
 *     cost send | receive | ring-send | ring-receive | tag-send | tag-receive | put | idle   TIMES
 */
#include "lone.h"

#include <stdlib.h>

#define PAYLOAD 8

static vbn_context_t *ctx;
static struct vbn_conn *conn;
static vbn_mem_t *mem;
static char memory[4096];
static unsigned delivered, done;

static void on_message(void *arg, vbn_endpoint_t *ep, uint8_t id, void *data, size_t len)
{
    (void)arg;
    (void)ep;
    (void)id;
    (void)data;
    delivered += len == PAYLOAD;
}

static void on_done(void *arg, vbn_endpoint_t *ep, int status)
{
    (void)arg;
    (void)ep;
    done += status == VBN_OK;
}

/* From the call to the buffer's return to the pool: acknowledged and completed in batches. */
static void act_send(int i)
{
    struct iovec iov = {memory, PAYLOAD};

    assert_int_equal(vbn_am_send(conn->ep, 1, &iov, 1), VBN_OK);
    if (i % 8 == 7) {
        lone_complete(conn);
        lone_ack(conn);
    }
}

static void act_receive(int i)
{
    lone_am(conn, 5, memory, PAYLOAD);
    if (i % 8 == 7)
        lone_complete(conn);
}

static void act_ring_receive(int i)
{
    lone_ring_am(conn, 5, memory, PAYLOAD);
    if (i % 8 == 7)
        lone_complete(conn);
}

/* A tagged send that fits a message: over at once. */
static void act_tag_send(int i)
{
    static struct vbn_op op;

    assert_int_equal(vbn_tag_send(conn->ep, memory, PAYLOAD, 3, &op), VBN_OK);
    if (i % 8 == 7) {
        lone_complete(conn);
        lone_ack(conn);
    }
}

static void on_op(struct vbn_op *op)
{
    delivered += op->status == VBN_OK && op->len == PAYLOAD;
}

/* A receive that its message finds. */
static void act_tag_receive(int i)
{
    static struct vbn_op op = {.done = on_op};
    struct vbn_wire_hdr hdr = lone_hdr(conn, VBN_WIRE_TAG);
    struct vbn_wire_tag head = {.tag = 3, .len = PAYLOAD};
    char bytes[sizeof(head) + PAYLOAD] = {0};

    assert_int_equal(vbn_tag_recv(ctx, conn->ep, memory, PAYLOAD, 3, VBN_TAG_MAX, &op),
                     VBN_PENDING);
    vbn_wire_tag_write(bytes, &head);
    hdr.id = VBN_TAG_EAGER;
    hdr.len = sizeof(bytes);
    lone_message(conn, &hdr, bytes);
    if (i % 8 == 7)
        lone_complete(conn);
}

static void act_put(int i)
{
    (void)i;
    assert_int_equal(vbn_put(conn->ep, memory, mem, 4096, 1, PAYLOAD, on_done, NULL), VBN_OK);
    lone_complete(conn);
}

static void act_idle(int i)
{
    (void)i;
    assert_int_equal(vbn_progress(ctx), 0);
}

/* Both sides have rings. */
static void open_rings(void)
{
    lone_am(conn, 5, memory, PAYLOAD);
    lone_complete(conn);
    lone_ring_word(conn, 1, 4096, 1);
    lone_complete(conn);
    assert_true(conn->ring.out.room && conn->ring.in.slots);
}

static const struct action {
    const char *name;
    void (*act)(int i);
    unsigned *count; /* what must have happened each time; NULL: act() has looked itself */
    void (*prepare)(void);
} actions[] = {{"send", act_send, NULL, NULL},
               {"receive", act_receive, &delivered, NULL},
               {"ring-send", act_send, NULL, open_rings},
               {"ring-receive", act_ring_receive, &delivered, open_rings},
               {"tag-send", act_tag_send, NULL, NULL},
               {"tag-receive", act_tag_receive, &delivered, NULL},
               {"put", act_put, &done, NULL},
               {"idle", act_idle, NULL, NULL}};

/* callgrind collects inside of it. */
__attribute__((noinline)) void measured(const struct action *action, int times);
void measured(const struct action *action, int times)
{
    for (int i = 0; i < times; i++)
        action->act(i);
}

static const struct action *chosen;
static int times;

static void ringed_or_not(struct vbn_options *opts)
{
    opts->ring_peers = chosen->prepare != NULL;
    if (opts->ring_peers)
        opts->ring_after = 1;
}

static void run(void **state)
{
    lone_setup(state);
    ctx = lone_open(ringed_or_not);
    vbn_am_handler(ctx, 5, on_message, NULL);
    conn = lone_connect(ctx, 7);
    assert_int_equal(vbn_mem_register(ctx, memory, sizeof(memory), VBN_ACCESS_LOCAL_WRITE, &mem),
                     VBN_OK);
    if (chosen->prepare)
        chosen->prepare();
    measured(chosen, 64); /* what happens the first times only */
    delivered = done = 0;
    measured(chosen, times);
    if (chosen->count)
        assert_int_equal(*chosen->count, times);
    lone_close(ctx);
    lone_teardown(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(run)};

    for (size_t i = 0; argc == 3 && i < sizeof(actions) / sizeof(actions[0]); i++)
        if (!strcmp(argv[1], actions[i].name))
            chosen = &actions[i];
    times = chosen ? atoi(argv[2]) : 0;
    if (times < 1) {
        fprintf(
            stderr,
            "usage: cost send|receive|ring-send|ring-receive|tag-send|tag-receive|put|idle TIMES\n");
        return 2;
    }
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
