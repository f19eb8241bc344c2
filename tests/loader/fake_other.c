/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object that is no plugin. */
int vbn_fake_other(void);

int vbn_fake_other(void)
{
    return 0;
}
