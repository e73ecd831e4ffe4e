/* Counting what went where. */
#include "report.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device.h"
#include "host.h"
#include "routines.h"
#include "settings.h"

static _Atomic uint64_t device_calls, device_products, device_bytes, device_flops, host_flops;
static pid_t owner; /* children report their own calls */

void report_device(double flops, uint64_t bytes) {
  if (!settings.report) return;
  atomic_fetch_add(&device_products, 1);
  atomic_fetch_add(&device_flops, (uint64_t)flops);
  atomic_fetch_add(&device_bytes, bytes);
}

void report_host(double flops) {
  if (settings.report) atomic_fetch_add(&host_flops, (uint64_t)flops);
}

void report_call(unsigned products) {
  if (settings.report && products) atomic_fetch_add(&device_calls, 1);
}

static void forget(void) {
  for (int i = 0; i < NUM_ROUTINES; ++i) atomic_store(&routine_calls[i], 0);
  atomic_store(&device_calls, 0);
  atomic_store(&device_products, 0);
  atomic_store(&device_bytes, 0);
  atomic_store(&device_flops, 0);
  atomic_store(&host_flops, 0);
  owner = getpid();
}

/* With settings.verbose at any value: the report was asked for. */
static void report(void) {
  uint64_t calls = 0, products = 0;
  if (getpid() != owner) return;
  for (int i = 0; i < NUM_ROUTINES; ++i) {
    uint64_t made = atomic_load(&routine_calls[i]);
    calls += made;
    if (i >= ROUTINE_sgemm) products += made;
  }
  uint64_t on_device = atomic_load(&device_calls);
  fprintf(stderr,
          "tenon-blas: %" PRIu64 " calls, %" PRIu64 " of level 3: %" PRIu64 " on %s (%" PRIu64
          " products, %.3g Gflop, %.3g MB copied), %" PRIu64
          " on the host BLAS (%.3g Gflop in level 3), %s\n",
          calls, products, on_device, device_id(), atomic_load(&device_products),
          1e-9 * (double)atomic_load(&device_flops), 1e-6 * (double)atomic_load(&device_bytes),
          calls - on_device, 1e-9 * (double)atomic_load(&host_flops), host_path());
}

void report_at_exit(void) {
  owner = getpid();
  (void)pthread_atfork(NULL, NULL, forget);
  (void)atexit(report);
}
