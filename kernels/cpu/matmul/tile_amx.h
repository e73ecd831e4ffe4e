/*
 * Whether products may take AMX. Linux has a process ask for its registers, and from then on
 * refuses it stacks for signals (sigaltstack) that are smaller than a frame with them, about 11
 * KiB: hosts that cannot have that forbid it by TENON_CPU_ISA=avx512.
 */
#ifndef TENON_KERNELS_CPU_TILE_AMX_H
#define TENON_KERNELS_CPU_TILE_AMX_H

#include <stdbool.h>

/* Until it is called there is none. Any thread, at any time. */
void tile_amx_allow(void);
/* Whether it is allowed, the processor has it for bf16, and the system lets the process use it;
 * asks the system the first time. */
bool tile_amx_is_there(void);
/* The same for 8-bit integers. */
bool tile_amx_has_bytes(void);

#endif
