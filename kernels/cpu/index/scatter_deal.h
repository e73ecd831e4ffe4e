/*
 * Scattering along the one axis of a vector by all threads: updates are dealt by the stretch of
 * places that they go to, in their order, and each stretch is then a vector of its own. What comes
 * out does not depend on how many stretches there are.
 */
#ifndef TENON_KERNELS_CPU_SCATTER_DEAL_H
#define TENON_KERNELS_CPU_SCATTER_DEAL_H

#include "kernels/cpu/base/along.h"

/* As along_run, for elements of `size` bytes that fn writes; of `copied` bytes where fn copies all
 * places to work on them, else 0. */
tn_status ISA(scatter_run)(along *a, tn_range_fn fn, int64_t size, int64_t copied);

#endif
