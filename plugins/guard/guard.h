/* What the parts of the layer `guard` share. */
#ifndef TENON_GUARD_GUARD_H
#define TENON_GUARD_GUARD_H

#include <pthread.h>
#include <stdatomic.h>

#include "tenon/plugin.h"

/* What guards are filled with, and what workspaces are by turns: NaN in every float type and -1,
 * then great numbers. A kernel that trusts zeros gives nonsense, and not the same twice. */
enum { GUARD_BYTE = 0xa5, POISON_NAN = 0xff, POISON_GREAT = 0x7f };

typedef struct device_block device_block;

typedef struct guard {
  tn_host looped; /* the runtime's, but for parallel_for; lives as long as that one */
  const tn_host *host;
  atomic_uint calls; /* with workspace: what is done by turns goes by it */
  pthread_mutex_t mutex;
  device_block *blocks; /* of devices, for the next calls; under the mutex */
} guard;

/* Runs a call with a workspace that the guard made. */
typedef tn_status (*guard_run)(const tn_layer_call *call, const tn_kernel_args *args, void *ctx);

/* In host memory, of devices that compute in the caller: pages between two that trap. trap.c */
tn_status trap_run(guard *g, const tn_layer_call *call, guard_run run, void *ctx);
/* In any other memory: the device's own, with guards that are read back. device.c */
tn_status device_run(guard *g, const tn_layer_call *call, guard_run run, void *ctx);
void device_blocks_free(guard *g);

/* Fails for a byte that the kernel wrote `offset` bytes from where its workspace begins. */
tn_status guard_broken(const guard *g, const tn_layer_call *call, long long offset);
/* What the workspace of this call is filled with, and whether it begins where a page begins whose
 * neighbour traps: each meets each. */
int guard_poison(unsigned turn);
bool guard_at_begin(unsigned turn);

/* Makes g->looped, whose loops see that no share leaves its thread's floating-point mode
 * changed. loops.c */
void loops_open(guard *g);
/* Before a call and after it, in its thread: fails where a share of a loop of it did so. */
void loops_begin(void);
tn_status loops_end(const guard *g);

#endif
