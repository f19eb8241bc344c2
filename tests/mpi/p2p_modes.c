/* SPDX-License-Identifier: BSD-3-Clause */
/* The modes of point-to-point messages: buffered, ready, synchronous and persistent sends, messages
 * to oneself and to MPI_PROC_NULL, and receives that are too short. Each rank works with both
 * neighbours on the ring, which alone is itself. */
#include "common.h"
#include "programs.h"

#include <stdlib.h>

enum {
    TAG_BUFFERED = 1,
    TAG_READY,
    TAG_GO,
    TAG_SYNC,
    TAG_PERSISTENT,
    TAG_SELF,
    TAG_EAGER,
    TAG_SHORT
};
enum { EAGER_BYTES = 1000, IN_PARTS_BYTES = 20000, MORE_PARTS_BYTES = 40000 };
enum { RENDEZVOUS_BYTES = 300000 };
static const size_t lens_bytes[] = {0, EAGER_BYTES, RENDEZVOUS_BYTES};
enum { LEN_COUNT = sizeof lens_bytes / sizeof lens_bytes[0] };

/* The two messages of a rank in one exchange: from its left, to its right. */
struct neighbours {
    int left, right;
    struct transfer in, out;
};

static void begin(struct neighbours *n, const struct job *job, int tag, size_t len, uint64_t serial)
{
    n->left = (job->rank + job->size - 1) % job->size;
    n->right = (job->rank + 1) % job->size;
    transfer_begin_recv(&n->in, &(struct message){n->left, job->rank, tag, len, serial});
    transfer_begin_send(&n->out, &(struct message){job->rank, n->right, tag, len, serial});
}

static void end(struct neighbours *n, const MPI_Status *status)
{
    transfer_check(&n->in, status);
    transfer_end(&n->in);
    transfer_end(&n->out);
}

/* The send must not depend on the receive, which is posted only after it. */
static void buffered(const struct job *job, size_t len_bytes)
{
    step("bsend of %zu bytes", len_bytes);
    int space = (int)len_bytes + MPI_BSEND_OVERHEAD;
    void *buffer = malloc((size_t)space);
    MPI_Status status;
    struct neighbours n;
    MPI_Buffer_attach(buffer, space);
    begin(&n, job, TAG_BUFFERED, len_bytes, 0);
    MPI_Bsend(n.out.bytes, (int)len_bytes, MPI_BYTE, n.right, TAG_BUFFERED, MPI_COMM_WORLD);
    MPI_Recv(n.in.bytes, (int)len_bytes, MPI_BYTE, n.left, TAG_BUFFERED, MPI_COMM_WORLD, &status);
    end(&n, &status);
    MPI_Buffer_detach(&buffer, &space);
    free(buffer);
}

/* A ready send is right only when the receive is posted, hence the go-ahead from the receiver. */
static void ready(const struct job *job, size_t len_bytes)
{
    step("rsend of %zu bytes", len_bytes);
    MPI_Request requests[2];
    MPI_Status status;
    struct neighbours n;
    begin(&n, job, TAG_READY, len_bytes, 0);
    transfer_irecv(&n.in, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(NULL, 0, MPI_BYTE, n.left, TAG_GO, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv(NULL, 0, MPI_BYTE, n.right, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Rsend(n.out.bytes, (int)len_bytes, MPI_BYTE, n.right, TAG_READY, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    end(&n, &status);
}

/* A synchronous send must not complete before the receiver has matched it: the receiver starts
 * its receive only after a go-ahead, which the sender gives after it found the send incomplete. */
static void synchronous(const struct job *job, size_t len_bytes)
{
    step("issend of %zu bytes", len_bytes);
    MPI_Request request;
    MPI_Status status;
    struct neighbours n;
    begin(&n, job, TAG_SYNC, len_bytes, 0);
    MPI_Issend(n.out.bytes, (int)len_bytes, MPI_BYTE, n.right, TAG_SYNC, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 20; i++) {
        int flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "a synchronous send of %zu bytes completed before its receive", len_bytes);
    }
    MPI_Request go;
    MPI_Isend(NULL, 0, MPI_BYTE, n.right, TAG_GO, MPI_COMM_WORLD, &go);
    MPI_Recv(NULL, 0, MPI_BYTE, n.left, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(n.in.bytes, (int)len_bytes, MPI_BYTE, n.left, TAG_SYNC, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&go, MPI_STATUS_IGNORE);
    end(&n, &status);
}

/* One persistent pair started many times over the same memory with new contents. */
static void persistent(const struct job *job, size_t len_bytes)
{
    step("persistent requests of %zu bytes", len_bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    struct neighbours n;
    begin(&n, job, TAG_PERSISTENT, len_bytes, 0);
    MPI_Recv_init(n.in.bytes, (int)len_bytes, MPI_BYTE, n.left, TAG_PERSISTENT, MPI_COMM_WORLD,
                  &requests[0]);
    MPI_Send_init(n.out.bytes, (int)len_bytes, MPI_BYTE, n.right, TAG_PERSISTENT, MPI_COMM_WORLD,
                  &requests[1]);
    for (uint64_t serial = 0; serial < 8; serial++) {
        n.in.message.serial = serial;
        n.out.message.serial = serial;
        message_poison(&n.in.message, n.in.bytes);
        message_fill(&n.out.message, n.out.bytes);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
        transfer_check(&n.in, &statuses[0]);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    end(&n, &statuses[0]);
}

static void to_self(const struct job *job, size_t len_bytes)
{
    step("%zu bytes to oneself", len_bytes);
    struct message message = {job->rank, job->rank, TAG_SELF, len_bytes, 0};
    struct transfer in, out;
    MPI_Status status;
    transfer_begin_recv(&in, &message);
    transfer_begin_send(&out, &message);
    MPI_Sendrecv(out.bytes, (int)len_bytes, MPI_BYTE, job->rank, TAG_SELF, in.bytes, (int)len_bytes,
                 MPI_BYTE, job->rank, TAG_SELF, MPI_COMM_WORLD, &status);
    transfer_check(&in, &status);
    transfer_end(&in);
    transfer_end(&out);
}

static void to_nobody(void)
{
    step("MPI_PROC_NULL");
    char byte = 'x';
    int count = -1;
    MPI_Status status;
    MPI_Send(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Recv(&byte, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    expect(byte == 'x' && status.MPI_SOURCE == MPI_PROC_NULL && count == 0,
           "a receive from MPI_PROC_NULL gave source %d and length %d", status.MPI_SOURCE, count);
}

/* Whether all ranks' sends of so many bytes are over before they are received. */
static bool is_eager(const struct job *job, size_t len_bytes)
{
    step("send of %zu bytes before its receive", len_bytes);
    struct neighbours n;
    MPI_Request request;
    MPI_Status status;
    int over = 0;
    begin(&n, job, TAG_EAGER, len_bytes, 0);
    transfer_isend(&n.out, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 20 && !over; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Request_get_status(request, &over, MPI_STATUS_IGNORE);
        MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Recv(n.in.bytes, (int)len_bytes, MPI_BYTE, n.left, TAG_EAGER, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    end(&n, &status);
    return over;
}

/* The receive, which waits, fails, the memory after it stays whole, and the connection serves on.
 * Eager messages to others only: ob1 of Open MPI 4.1 itself writes past the receive, or hangs, when
 * the message is a rendezvous or one's own, over its own tcp, vader and self. */
static void too_short(const struct job *job, size_t len_bytes, size_t room)
{
    if (!is_eager(job, len_bytes))
        return;
    step("receive of %zu bytes too short for %zu", room, len_bytes);
    struct neighbours n;
    MPI_Request request;
    begin(&n, job, TAG_SHORT, len_bytes, 0);
    unsigned char *area = guarded_alloc(room);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Irecv(area, (int)room, MPI_BYTE, n.left, TAG_SHORT, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(n.out.bytes, (int)len_bytes, MPI_BYTE, n.right, TAG_SHORT, MPI_COMM_WORLD);
    int error = MPI_Wait(&request, MPI_STATUS_IGNORE), class = MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Error_class(error, &class);
    expect(class == MPI_ERR_TRUNCATE, "a receive of %zu for %zu bytes gave error class %d", room,
           len_bytes, class);
    guarded_free(area);
    transfer_end(&n.in);
    transfer_end(&n.out);
}

void run_p2p_modes(const struct job *job)
{
    for (int i = 0; i < LEN_COUNT; i++) {
        size_t len_bytes = lens_bytes[i];
        to_self(job, len_bytes);
        buffered(job, len_bytes);
        ready(job, len_bytes);
        synchronous(job, len_bytes);
        persistent(job, len_bytes);
    }
    if (job->size > 1) {
        too_short(job, EAGER_BYTES, EAGER_BYTES / 2);
        too_short(job, IN_PARTS_BYTES, IN_PARTS_BYTES - 1);
        too_short(job, MORE_PARTS_BYTES, MORE_PARTS_BYTES - 1);
    }
    to_nobody();
}
