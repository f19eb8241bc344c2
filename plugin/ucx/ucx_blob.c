/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx.h"

void ucx_put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

void ucx_put_u64(unsigned char *at, uint64_t value)
{
    ucx_put_u32(at, (uint32_t)(value >> 32));
    ucx_put_u32(at + 4, (uint32_t)value);
}

uint32_t ucx_get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

uint64_t ucx_get_u64(const unsigned char *at)
{
    return (uint64_t)ucx_get_u32(at) << 32 | ucx_get_u32(at + 4);
}
