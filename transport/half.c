/* SPDX-License-Identifier: BSD-3-Clause */
#include "half.h"
#include "context.h"
#include "error.h"

#include <stdlib.h>
#include <string.h>

#define PSN_MASK 0xffffffu

/* --- life ------------------------------------------------------------------------------------- */

void vbn_half_over(struct vbn_half *half)
{
    half->conn->half = NULL;
    half->conn = NULL;
}

static void half_free(struct vbn_half *half)
{
    LIST_REMOVE(half, entry);
    free(half);
}

static struct vbn_half *half_new(vbn_context_t *ctx)
{
    struct vbn_half *half = calloc(1, sizeof(*half));

    if (!half)
        return NULL;
    half->ctx = ctx;
    half->psn = (uint32_t)ctx->opts.random(ctx->opts.callback_arg) & PSN_MASK;
    half->conn = vbn_conn_create(&ctx->nobody, NULL);
    if (!half->conn) {
        free(half);
        return NULL;
    }
    half->conn->half = half;
    LIST_INSERT_HEAD(&ctx->halves, half, entry);
    return half;
}

static int make(vbn_context_t *ctx, struct vbn_half **out, struct vbn_error *err)
{
    struct vbn_path path;
    struct vbn_half *half;
    struct vbn_conn *conn;
    int rc;

    if (ctx->closing)
        return vbn_error_set(err, VBN_ERR_CLOSED, "the context is closing");
    rc = vbn_path_query(ctx, &path, err);
    if (rc)
        return rc;
    half = half_new(ctx);
    if (!half)
        return vbn_error_set(err, VBN_ERR_NO_MEMORY, "out of memory");
    half->path = path;
    conn = half->conn;
    vbn_conn_event(conn, VBN_EV_PREPARE);
    if (!half->conn) { /* dead, but there until the next progress */
        half_free(half);
        return vbn_error_set(err, VBN_ERR_DEVICE, "device %s: %s", ctx->device.name, conn->cause);
    }
    *out = half;
    return VBN_OK;
}

void vbn_halves_shut(vbn_context_t *ctx)
{
    struct vbn_half *half;

    LIST_FOREACH(half, &ctx->halves, entry)
    {
        if (half->conn)
            vbn_conn_event(half->conn, VBN_EV_CLOSE);
    }
}

void vbn_halves_fini(vbn_context_t *ctx)
{
    struct vbn_half *half, *next;

    for (half = LIST_FIRST(&ctx->halves); half; half = next) {
        next = LIST_NEXT(half, entry);
        half_free(half);
    }
}

/* --- the blob --------------------------------------------------------------------------------- */

static void write_blob(const struct vbn_half *half, void *buf)
{
    const vbn_context_t *ctx = half->ctx;
    const struct vbn_conn *conn = half->conn;
    struct vbn_wire_half h = {
        .link = half->path.link,
        .mtu = half->path.mtu,
        .read_in = ctx->device.max_read_in,
        .read_out = ctx->device.max_read_out,
        .hello = vbn_cm_hello(conn, (uint8_t)ctx->opts.wire_version, vbn_context_version_min(ctx)),
        .qp_num = conn->q.qp_num,
        .psn = half->psn,
        .lid = half->path.lid,
    };

    memcpy(h.gid, half->path.gid, sizeof(h.gid));
    vbn_wire_half_write(buf, &h);
}

/* --- joining ---------------------------------------------------------------------------------- */

/* Whether EP can take PEER's connection: one that has or makes another keeps that. */
static int check_endpoint(const vbn_endpoint_t *ep, const struct vbn_wire_half *peer,
                          struct vbn_error *err)
{
    if (ep->state != VBN_EP_OPEN)
        return vbn_error_set(err, vbn_endpoint_over_status(ep),
                             "peer %s: its endpoint is over; close it first", ep->name);
    if (ep->conn)
        return vbn_error_set(err, VBN_ERR_INVALID, "peer %s: connected already", ep->name);
    if (ep->attempt)
        return vbn_error_set(err, VBN_ERR_AGAIN,
                             "peer %s: being connected by its address; call vbn_progress() and "
                             "try again",
                             ep->name);
    if (peer->hello.rx_next != ep->tx_next) /* a blob says 0, for its maker knew no peer */
        return vbn_error_set(err, VBN_ERR_REFUSED, "peer %s: its blob belongs to another session",
                             ep->name);
    return VBN_OK;
}

static int connect_qp(const struct vbn_half *half, const struct vbn_wire_half *peer,
                      struct vbn_error *err)
{
    char text[64];
    int error = vbn_qp_join(half->conn, &half->path, half->psn, peer);

    if (!error)
        return VBN_OK;
    return vbn_error_set(err, half->conn ? VBN_ERR_UNREACHABLE : VBN_ERR_DEVICE,
                         "device %s: the queue pair cannot be connected to %s (%s)",
                         half->ctx->device.name, vbn_path_text(peer, text, sizeof(text)),
                         strerror(error));
}

/* HALF's connection becomes EP's. */
static void hand_over(struct vbn_half *half, const struct vbn_wire_half *peer, vbn_endpoint_t *ep)
{
    struct vbn_conn *conn = half->conn;

    conn->ep->conn_count--;
    conn->ep = ep;
    ep->conn_count++;
    ep->attempt = conn;
    conn->hello = peer->hello;
    if (!ep->addr_known)
        vbn_path_text(peer, ep->name, sizeof(ep->name));
    vbn_conn_event(conn, VBN_EV_JOIN);
}

static int join(struct vbn_half *half, const struct vbn_wire_half *peer, void *user,
                vbn_endpoint_t **out, struct vbn_error *err)
{
    vbn_context_t *ctx = half->ctx;
    vbn_endpoint_t *ep;
    bool made;
    int rc;

    if (!half->conn)
        return vbn_error_set(err, ctx->closing ? VBN_ERR_CLOSED : VBN_ERR_DEVICE,
                             "this half's queue pair is no more; make another half");
    ep = vbn_endpoint_get(ctx, peer->hello.src_uid, &made, &rc, err);
    if (!ep)
        return rc;
    rc = check_endpoint(ep, peer, err);
    if (!rc)
        rc = connect_qp(half, peer, err);
    if (rc) {
        if (made)
            vbn_endpoint_free(ep);
        return rc;
    }
    vbn_endpoint_claim(ep, user);
    hand_over(half, peer, ep);
    half_free(half);
    *out = ep;
    return VBN_OK;
}

/* --- the public face -------------------------------------------------------------------------- */

int vbn_half_create(vbn_context_t *ctx, void *buf, size_t *len, vbn_half_t **half,
                    struct vbn_error *err)
{
    bool fits = *len >= sizeof(struct vbn_wire_half);
    int rc;

    *len = sizeof(struct vbn_wire_half);
    if (!fits)
        return vbn_error_set(err, VBN_ERR_INVALID, "the blob needs %zu bytes of room", *len);
    if (ctx->device.iwarp)
        return vbn_error_set(err, VBN_ERR_DEVICE,
                             "device %s is iWARP, which connects by its connection manager only: "
                             "exchange addresses and use vbn_endpoint_create()",
                             ctx->device.name);
    vbn_lock(ctx);
    rc = make(ctx, half, err);
    if (rc == VBN_OK)
        write_blob(*half, buf);
    vbn_unlock(ctx);
    return rc;
}

int vbn_half_join(vbn_half_t *half, const void *blob, size_t len, void *user, vbn_endpoint_t **ep,
                  struct vbn_error *err)
{
    vbn_context_t *ctx = half->ctx;
    struct vbn_wire_half peer;
    int rc;

    if (!vbn_wire_half_read(blob, len, &peer))
        return vbn_error_set(err, VBN_ERR_INVALID,
                             "this is not what vbn_half_create() wrote, or not all of it");
    rc = vbn_endpoint_suits(ctx, &peer.hello, err);
    if (rc == VBN_OK)
        rc = vbn_path_check(&half->path, &peer, err);
    if (rc)
        return rc;
    vbn_lock(ctx);
    rc = join(half, &peer, user, ep, err);
    vbn_unlock(ctx);
    return rc;
}

void vbn_half_destroy(vbn_half_t *half)
{
    vbn_context_t *ctx = half->ctx;

    vbn_lock(ctx);
    if (half->conn)
        vbn_conn_event(half->conn, VBN_EV_CLOSE);
    half_free(half);
    vbn_unlock(ctx);
}
