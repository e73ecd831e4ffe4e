/*
 * CUDA errors as Tenon statuses, and the current device of a thread.
 */
#include <cuda_runtime_api.h>

#include "kernels/cuda/kernels.h"

/* Errors after which every later call on the context fails. */
static bool is_sticky(cudaError_t error) {
  switch (error) {
  case cudaErrorECCUncorrectable:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorLaunchFailure:
  case cudaErrorAssert:
  case cudaErrorExternalDevice:
  case cudaErrorContextIsDestroyed:
  case cudaErrorNvlinkUncorrectable:
    return true;
  default:
    return false;
  }
}

static tn_status status_of(cudaError_t error) {
  if (is_sticky(error)) return TN_ERR_DEVICE_LOST;
  if (error == cudaErrorMemoryAllocation) return TN_ERR_DEVICE_OUT_OF_MEMORY;
  return TN_ERR_BACKEND;
}

tn_status cuda_status(const tn_host *host, int error, const char *call) {
  cudaError_t e = (cudaError_t)error;
  if (e == cudaSuccess) return TN_OK;
  (void)cudaGetLastError(); /* so that nobody else finds this error and takes it for his own */
  return host->fail(status_of(e), "%s: %s (%s)", call, cudaGetErrorName(e), cudaGetErrorString(e));
}

tn_status cuda_make_current(const tn_host *host, const cuda_info *info) {
  if (info->only) return TN_OK;
  int current = -1;
  cudaError_t e = cudaGetDevice(&current);
  if (e == cudaSuccess && current != info->ordinal) e = cudaSetDevice(info->ordinal);
  return cuda_status(host, (int)e, "cudaSetDevice");
}
