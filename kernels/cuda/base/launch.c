/*
 * The launches of launch.h. Kernels stand in a table by address, whose places are taken once and
 * never given back, so that it is read without a lock. Whatever the driver refuses goes the way of
 * the runtime, which makes its context current in threads that have none and says what is wrong in
 * its own words.
 */
#include "kernels/cuda/base/launch.h"

#include <cuda.h>
#include <stdatomic.h>
#include <string.h>

enum { slot_bits = 11, slots = 1 << slot_bits, most_probes = 8 };

typedef CUresult (*start_fn)(const CUlaunchConfig *, CUfunction, void **, void **);

struct cuda_launcher {
  start_fn start;
  struct {
    _Atomic(const void *) kernel;
    _Atomic(CUfunction) function; /* NULL until it is known */
  } slot[slots];
};

cuda_launcher *cuda_launcher_make(const tn_host *host) {
  void *start = NULL;
  enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuLaunchKernelEx", &start, 12000,
                                                       cudaEnableDefault, &found);
#else
  cudaError_t error =
      cudaGetDriverEntryPoint("cuLaunchKernelEx", &start, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess) (void)cudaGetLastError();
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return NULL;
  cuda_launcher *l = host->alloc(host, sizeof *l, _Alignof(cuda_launcher));
  if (!l) return NULL;
  memset(l, 0, sizeof *l);
  memcpy(&l->start, &start, sizeof l->start);
  return l;
}

void cuda_launcher_free(const tn_host *host, cuda_launcher *launcher) {
  if (launcher) host->free(host, launcher);
}

/* Takes a free place for a kernel; NULL where another thread just has. */
static __attribute__((noinline, cold)) CUfunction learn(cuda_launcher *l, size_t at,
                                                        const void *kernel) {
  const void *free_place = NULL;
  cudaFunction_t function = NULL;
  if (!atomic_compare_exchange_strong(&l->slot[at].kernel, &free_place, kernel)) return NULL;
  if (cudaGetFuncBySymbol(&function, kernel) != cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  atomic_store_explicit(&l->slot[at].function, function, memory_order_release);
  return function;
}

static CUfunction function_of(cuda_launcher *l, const void *kernel) {
  const uint64_t mixed = ((uint64_t)(uintptr_t)kernel >> 4) * UINT64_C(0x9e3779b97f4a7c15);
  const size_t first = (size_t)(mixed >> (64 - slot_bits));
  for (size_t i = 0; i < most_probes; i++) {
    const size_t at = (first + i) % slots;
    const void *there = atomic_load_explicit(&l->slot[at].kernel, memory_order_relaxed);
    if (there == kernel) return atomic_load_explicit(&l->slot[at].function, memory_order_acquire);
    if (!there) return learn(l, at, kernel);
  }
  return NULL;
}

tn_status cuda_launch(const tn_kernel_args *args, const void *kernel, dim3 grid, dim3 block,
                      size_t shared_bytes, void **parameters) {
  const cuda_launching *device = args->device;
  const cudaStream_t stream = args->native_stream;
  tn_status status = cuda_make_current(args->host, &device->info);
  if (status != TN_OK) return status;
  const CUfunction function = device->launcher ? function_of(device->launcher, kernel) : NULL;
  if (function) {
    CUlaunchConfig config;
    config.gridDimX = grid.x, config.gridDimY = grid.y, config.gridDimZ = grid.z;
    config.blockDimX = block.x, config.blockDimY = block.y, config.blockDimZ = block.z;
    config.sharedMemBytes = (unsigned)shared_bytes;
    config.hStream = stream;
    config.attrs = NULL;
    config.numAttrs = 0;
    if (device->launcher->start(&config, function, parameters, NULL) == CUDA_SUCCESS) return TN_OK;
  }
  cudaError_t error = cudaLaunchKernel(kernel, grid, block, parameters, shared_bytes, stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, args->kernel->name);
}
