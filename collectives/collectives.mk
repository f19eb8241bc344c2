# SPDX-License-Identifier: BSD-3-Clause
# The collectives, a part of libverbena, over any transport table.

include_HEADERS += collectives/verbena_coll.h
libverbena_core_la_SOURCES += \
	collectives/algorithm.h \
	collectives/algorithms.h \
	collectives/allgather_bruck.c \
	collectives/allgather_linear.c \
	collectives/allgather_neighbor.c \
	collectives/allgather_recursive_doubling.c \
	collectives/allgather_ring.c \
	collectives/allreduce_circulant.c \
	collectives/allreduce_rabenseifner.c \
	collectives/allreduce_recursive_doubling.c \
	collectives/allreduce_ring.c \
	collectives/alltoall_bruck.c \
	collectives/alltoall_linear.c \
	collectives/alltoall_pairwise.c \
	collectives/barrier_dissemination.c \
	collectives/barrier_recursive_doubling.c \
	collectives/bcast_chain.c \
	collectives/bcast_circulant.c \
	collectives/bcast_knomial.c \
	collectives/bcast_scatter_allgather.c \
	collectives/bcast_two_tree.c \
	collectives/blocking.c \
	collectives/blocks.c \
	collectives/blocks.h \
	collectives/call.c \
	collectives/check.c \
	collectives/check.h \
	collectives/circulant.c \
	collectives/circulant.h \
	collectives/combine.h \
	collectives/dtype.c \
	collectives/dtype.h \
	collectives/engine.c \
	collectives/exchanged.h \
	collectives/gather_knomial.c \
	collectives/gather_linear.c \
	collectives/gathered.h \
	collectives/halving.c \
	collectives/halving.h \
	collectives/peers.h \
	collectives/reduce_chain.c \
	collectives/reduce_knomial.c \
	collectives/reduce_rabenseifner.c \
	collectives/reduce_scatter_circulant.c \
	collectives/reduce_scatter_ordered.c \
	collectives/reduce_scatter_pairwise.c \
	collectives/registry.c \
	collectives/request.c \
	collectives/rules.c \
	collectives/scan.h \
	collectives/scan_linear.c \
	collectives/scan_recursive_doubling.c \
	collectives/scatter_knomial.c \
	collectives/scatter_linear.c \
	collectives/schedule.c \
	collectives/schedule.h \
	collectives/select.c \
	collectives/team.c \
	collectives/team.h \
	collectives/tree.h \
	collectives/two_tree.c \
	collectives/two_tree.h
