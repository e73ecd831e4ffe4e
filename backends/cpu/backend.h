/* The CPU as a device: between plugin.c and backend.c. */
#ifndef TENON_BACKENDS_CPU_BACKEND_H
#define TENON_BACKENDS_CPU_BACKEND_H

#include "tenon/plugin.h"

extern const tn_backend cpu_backend;

#endif
