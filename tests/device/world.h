/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the behaviour tests find around them, and the only thing they see of it: two sides with
 * an RDMA device each, and a clock. world_real.c is the machine's own device (twice the same one:
 * it talks to itself), world_sim.c the simulated fabric. No test asks which of the two it is in.
 */
#ifndef VBN_TESTS_DEVICE_WORLD_H
#define VBN_TESTS_DEVICE_WORLD_H

#include <stdbool.h>
#include <sys/socket.h>

enum { A, B, SIDES };

void world_open(void);
/* False: the world saw something wrong (the simulation: misuse not announced, or a leak). */
bool world_close(void);

void world_enter(int side); /* the calls from here on are this side's */
const char *world_device(int side);
void world_address(int side, struct sockaddr_storage *addr); /* port 0 */

/* do look(); while (world_wait()), after world_wait_begin(): until the time is up (false). */
void world_wait_begin(void);
bool world_wait(void);
/* Long enough for all that is under way to have happened. */
void world_settle(void);

/* From here on this test does on purpose what a correct program does not. */
void world_misuse(void);

/*
 * Where soft-RoCE is known not to be as specified (seen with Linux 6.1, see doc/behaviours.md).
 * There a test takes what is specified or what was seen; everywhere else only what is specified.
 */
enum quirk {
    QUIRK_KEY_STATUS,        /* an unknown lkey completes as LOC_QP_OP_ERR, not LOC_PROT_ERR */
    QUIRK_LENGTH_STATUS,     /* so does a receive too short for its message, not LOC_LEN_ERR */
    QUIRK_LATE_RECEIVES,     /* receives posted in the error state are not flushed */
    QUIRK_RNR_COSTS_RETRIES, /* waiting for the receiver's receive uses up the retries */
    QUIRK_NO_LAST_WQE,       /* IBV_EVENT_QP_LAST_WQE_REACHED is never raised */
    QUIRK_NO_ERROR_EVENT,    /* a responder that refused something gets no IBV_EVENT_QP_*_ERR */
    QUIRK_READS_UNCOUNTED,   /* a responder takes more reads than it was set up for */
    QUIRK_SEVEN_IS_ENDLESS,  /* retry_cnt 7 never comes to an end */
    QUIRK_FAULT_IS_FLUSHED,  /* a send whose memory is at fault completes as flushed */
    QUIRK_FLUSH_IS_QUIET,    /* who is armed for solicited ones hears of no flushed receive */
};
bool world_may(enum quirk quirk);

/* False: the link cannot be changed here (it is not a device made for the test). */
bool world_link_set(bool up);

#endif
