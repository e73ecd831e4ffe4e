/*
 * The launches of launch.h. Kernels stand in a table by address, whose places are taken once and
 * never given back, so that it is read without a lock. Whatever the driver refuses goes the way of
 * the runtime, which makes its context current in threads that have none and says what is wrong in
 * its own words.
 */
#include "kernels/cuda/base/launch.h"

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { slot_bits = 11, slots = 1 << slot_bits, most_probes = 8 };
enum { unasked_bytes = 47 << 10 }; /* of shared memory, that every kernel may have */

typedef CUresult (*start_fn)(const CUlaunchConfig *, CUfunction, void **, void **);

typedef struct place {
  _Atomic(const void *) kernel;
  _Atomic(CUfunction) function; /* NULL until it is known */
  _Atomic(bool) allowed;        /* as much shared memory as it ever takes */
} place;

struct cuda_launcher {
  start_fn start;
  place slot[slots];
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
static __attribute__((noinline, cold)) CUfunction learn(place *at, const void *kernel) {
  const void *free_place = NULL;
  cudaFunction_t function = NULL;
  if (!atomic_compare_exchange_strong(&at->kernel, &free_place, kernel)) return NULL;
  if (cudaGetFuncBySymbol(&function, kernel) != cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  atomic_store_explicit(&at->function, function, memory_order_release);
  return function;
}

/* NULL where it is not known; else `at` is the kernel's place. */
static inline __attribute__((always_inline)) CUfunction
function_of(cuda_launcher *l, const void *kernel, place **at) {
  const uint64_t mixed = ((uint64_t)(uintptr_t)kernel >> 4) * UINT64_C(0x9e3779b97f4a7c15);
  const size_t first = (size_t)(mixed >> (64 - slot_bits));
  for (size_t i = 0; i < most_probes; i++) {
    *at = &l->slot[(first + i) % slots];
    const void *there = atomic_load_explicit(&(*at)->kernel, memory_order_relaxed);
    if (there == kernel) return atomic_load_explicit(&(*at)->function, memory_order_acquire);
    if (!there) return learn(*at, kernel);
  }
  return NULL;
}

static CUlaunchConfig config_of(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  CUlaunchConfig config;
  config.gridDimX = grid.x, config.gridDimY = grid.y, config.gridDimZ = grid.z;
  config.blockDimX = block.x, config.blockDimY = block.y, config.blockDimZ = block.z;
  config.sharedMemBytes = (unsigned)shared_bytes;
  config.hStream = stream;
  config.attrs = NULL;
  config.numAttrs = 0;
  return config;
}

tn_status cuda_launch(const tn_kernel_args *args, const void *kernel, dim3 grid, dim3 block,
                      size_t shared_bytes, void **parameters) {
  const cuda_launching *device = args->device;
  const cudaStream_t stream = args->native_stream;
  tn_status status = cuda_make_current(args->host, &device->info);
  if (status != TN_OK) return status;
  place *at;
  const CUfunction function = device->launcher ? function_of(device->launcher, kernel, &at) : NULL;
  if (function) {
    const CUlaunchConfig config = config_of(grid, block, shared_bytes, stream);
    if (device->launcher->start(&config, function, parameters, NULL) == CUDA_SUCCESS) return TN_OK;
  }
  cudaError_t error = cudaLaunchKernel(kernel, grid, block, parameters, shared_bytes, stream);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, args->kernel->name);
}

/* Lets a kernel have shared memory, the same amount whoever asks: another runtime of the process
 * may, too, and the last one counts. `at` remembers it, or is NULL. */
static cudaError_t allow(place *at, const void *kernel, size_t bytes) {
  if (bytes <= unasked_bytes) return cudaSuccess;
  if (at && atomic_load_explicit(&at->allowed, memory_order_relaxed)) return cudaSuccess;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (at && error == cudaSuccess) atomic_store_explicit(&at->allowed, true, memory_order_relaxed);
  return error;
}

static cudaError_t start_by_runtime(const void *kernel, const cuda_start *start,
                                    cudaStream_t stream, void **parameters) {
  cudaLaunchAttribute list[2] = {0};
  cudaLaunchConfig_t config = {.gridDim = start->grid,
                               .blockDim = start->block,
                               .dynamicSmemBytes = start->shared_bytes,
                               .stream = stream,
                               .attrs = list};
  if (start->cluster > 1) {
    list[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    list[config.numAttrs].val.clusterDim.x = start->cluster;
    list[config.numAttrs].val.clusterDim.y = list[config.numAttrs].val.clusterDim.z = 1;
    config.numAttrs++;
  }
  if (start->early) {
    list[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    list[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

static CUresult start_by_driver(const cuda_launcher *l, CUfunction function,
                                const cuda_start *start, cudaStream_t stream, void **parameters) {
  CUlaunchAttribute list[2];
  CUlaunchConfig config = config_of(start->grid, start->block, start->shared_bytes, stream);
  config.attrs = list;
  if (start->cluster > 1) {
    list[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    list[config.numAttrs].value.clusterDim.x = start->cluster;
    list[config.numAttrs].value.clusterDim.y = list[config.numAttrs].value.clusterDim.z = 1;
    config.numAttrs++;
  }
  if (start->early) {
    list[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    list[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
  }
  return l->start(&config, function, parameters, NULL);
}

tn_status cuda_launch_as(const tn_kernel_args *args, const void *kernel, const cuda_start *start,
                         void **parameters) {
  const cuda_launching *device = args->device;
  const cudaStream_t stream = args->native_stream;
  tn_status status = cuda_make_current(args->host, &device->info);
  if (status != TN_OK) return status;
  place *at = NULL;
  const CUfunction function = device->launcher ? function_of(device->launcher, kernel, &at) : NULL;
  cudaError_t error = allow(function ? at : NULL, kernel, start->most_shared_bytes);
  if (error != cudaSuccess) return cuda_status(args->host, (int)error, args->kernel->name);
  if (function &&
      start_by_driver(device->launcher, function, start, stream, parameters) == CUDA_SUCCESS)
    return TN_OK;
  error = start_by_runtime(kernel, start, stream, parameters);
  return error == cudaSuccess ? TN_OK : cuda_status(args->host, (int)error, args->kernel->name);
}
