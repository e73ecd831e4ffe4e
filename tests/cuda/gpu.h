/* For tests of the CUDA backend, which are skipped where no GPU is. */
#ifndef TENON_TESTS_CUDA_GPU_H
#define TENON_TESTS_CUDA_GPU_H

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

/* The backend, the reference beside it, and those layers, NULL for none. */
static inline tn_status open_cuda(const char *layers, tn_runtime **runtime) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "cuda,reference,validate",
                                .layers = layers,
                                .device = "cuda"};
  return tn_runtime_open(&options, runtime);
}

/* Whether a device has compute capability 9.0, for which some kernels are. */
static inline bool is_hopper(tn_device *device) {
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(device, &info));
  return strstr(info.features, "sm_90 ") != NULL;
}

/* Makes the outputs of a call that are NULL; whether the kernel of that name did. */
static inline bool runs_by(const tn_call *call, const char *name) {
  tn_kernel_info info = {.struct_size = sizeof info};
  tn_prepared *prepared = NULL;
  ok(tn_prepare(call, &prepared));
  ok(tn_prepared_kernel(prepared, &info));
  const bool is_it = strcmp(info.name, name) == 0;
  ok(tn_run(prepared));
  tn_prepared_release(prepared);
  return is_it;
}

/* Whether there is a device, asked in a child: the driver does not survive the fork that Check
 * runs each test in. */
static inline bool have_device(void) {
  pid_t child = fork();
  if (child == 0) {
    tn_runtime *runtime = NULL;
    _exit(open_cuda(NULL, &runtime) == TN_OK ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* run_suite for main; 77, by which meson knows tests that were skipped, without a device. */
static inline int run_suite_on_gpu(const char *name, void (*add)(TCase *)) {
  if (have_device()) return run_suite(name, add);
  puts("no CUDA device here");
  return 77;
}

#endif
