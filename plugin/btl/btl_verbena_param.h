/* SPDX-License-Identifier: BSD-3-Clause */
/* The component's parameters as Open MPI's users see them. */
#ifndef BTL_VERBENA_PARAM_H
#define BTL_VERBENA_PARAM_H

#include "btl_verbena.h"

/*
 * Registers every parameter and takes what the user set: into `defaults`, `options` and
 * `show_counters` of COMPONENT, and into `bad_parameter` when a value is refused.
 */
void btl_verbena_params_register(btl_verbena_component_t *component);

/* Fits the limits of BTL to what the device ATTR describes can do. */
void btl_verbena_params_fit(mca_btl_base_module_t *btl, const struct vbn_attr *attr);

#endif
