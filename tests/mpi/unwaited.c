/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends that nobody waits for, though they are received, after a window, of which registrations are
 * kept. Where MPI_Finalize() is next, what ends the sends may come when nobody is left to take it.
 */
#include "common.h"
#include "programs.h"

enum { TAG_UNWAITED = 1, UNWAITED_BYTES = 1 << 20 };

void run_unwaited(const struct job *job)
{
    static unsigned char bytes[UNWAITED_BYTES]; /* never known to be free */
    int next = (job->rank + 1) % job->size, previous = (job->rank + job->size - 1) % job->size;
    struct message out = {job->rank, next, TAG_UNWAITED, sizeof bytes, 0};
    struct transfer in;
    MPI_Request request;
    MPI_Status status;
    MPI_Win window;

    step("a window");
    MPI_Win_create(bytes, (MPI_Aint)sizeof bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_free(&window);
    step("a send whose request is freed");
    message_fill(&out, bytes);
    transfer_begin_recv(&in, &(struct message){previous, job->rank, TAG_UNWAITED, sizeof bytes, 0});
    MPI_Isend(bytes, (int)sizeof bytes, MPI_BYTE, next, TAG_UNWAITED, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(in.bytes, (int)sizeof bytes, MPI_BYTE, previous, TAG_UNWAITED, MPI_COMM_WORLD,
             &status);
    transfer_check(&in, &status);
    transfer_end(&in);
}
