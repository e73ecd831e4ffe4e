/*
 * Memory that traps: a kernel that reads or writes one byte past its tensor's end dies of
 * SIGSEGV at that very access, which the parent process then reports. The pages come from
 * mmap and reach the runtime as another library's tensor.
 */
#include "trapped.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct region {
  DLManagedTensorVersioned managed;
  int64_t shape[TN_MAX_RANK];
  void *map;
  size_t bytes; /* of the map, both guards included */
} region;

static void region_free(DLManagedTensorVersioned *managed) {
  region *r = managed->manager_ctx;
  munmap(r->map, r->bytes);
  free(r);
}

/* Maps pages for `bytes` bytes; returns where they begin at one of the two ends. */
static void *region_map(region *r, size_t bytes, bool at_begin) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
  r->bytes = inner + 2 * page;
  r->map = mmap(NULL, r->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (r->map == MAP_FAILED) return NULL;
  char *begin = (char *)r->map + page;
  if (inner && mprotect(begin, inner, PROT_READ | PROT_WRITE))
    return munmap(r->map, r->bytes), NULL;
  return at_begin ? begin : begin + inner - bytes;
}

static DLDataType dl_type(tn_dtype dtype) {
  uint8_t bits = (uint8_t)(8 * tn_dtype_size(dtype)), code = kDLInt;
  if (dtype == TN_BOOL) code = kDLBool;
  if (dtype == TN_U8) code = kDLUInt;
  if (dtype == TN_BF16) code = kDLBfloat;
  if (dtype == TN_F16 || dtype == TN_F32 || dtype == TN_F64) code = kDLFloat;
  if (dtype == TN_F8_E4M3) code = kDLFloat8_e4m3fn;
  if (dtype == TN_F8_E5M2) code = kDLFloat8_e5m2;
  return (DLDataType){code, bits, 1};
}

static DLDevice dl_device(tn_device *device) {
  tn_tensor *any = NULL;
  DLManagedTensorVersioned *managed = NULL;
  DLDevice found = {kDLCPU, 0};
  if (tn_tensor_empty(device, TN_F32, 0, NULL, &any) == TN_OK &&
      tn_tensor_to_dlpack(any, &managed) == TN_OK) {
    found = managed->dl_tensor.device;
    managed->deleter(managed);
  }
  tn_tensor_release(any);
  return found;
}

tn_status trapped_make(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                       tn_tensor **tensor) {
  static unsigned made;
  region *r = calloc(1, sizeof *r);
  size_t bytes = tn_dtype_size(dtype);
  if (!r) return TN_ERR_OUT_OF_MEMORY;
  for (int32_t i = 0; i < rank; i++) {
    r->shape[i] = shape[i];
    bytes *= (size_t)shape[i];
  }
  void *data = region_map(r, bytes, made++ % 4 == 3);
  if (!data) return free(r), TN_ERR_OUT_OF_MEMORY;
  DLTensor *t = &r->managed.dl_tensor;
  r->managed.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  r->managed.manager_ctx = r;
  r->managed.deleter = region_free;
  *t = (DLTensor){.data = data, .device = dl_device(device), .ndim = rank, .dtype = dl_type(dtype)};
  t->shape = r->shape;
  tn_status status = tn_tensor_from_dlpack(tn_device_runtime(device), &r->managed, tensor);
  if (status != TN_OK) region_free(&r->managed);
  return status;
}
