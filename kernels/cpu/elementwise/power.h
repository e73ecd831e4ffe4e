/* What the bodies of power.c have in common. */
#ifndef TENON_KERNELS_CPU_POWER_H
#define TENON_KERNELS_CPU_POWER_H

#include "kernels/cpu/base/half.h"
#include "kernels/cpu/base/stencil.h"
#include "kernels/cpu/cpu.h"

/* Elements that are widened, computed and narrowed at a time. */
enum { POWER_BLOCK = 256 };

#endif
