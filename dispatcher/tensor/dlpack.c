/*
 * DLPack exchange: tensors given to other libraries keep their storage alive through a
 * retained reference; tensors taken from them call the producer's deleter when the
 * last reference goes.
 */
#include "dispatcher/tensor/dlpack.h"

#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/plugins/plugins.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/tracked.h"
#include "dispatcher/tensor/transfer.h"

/* An export: the struct that the consumer sees, and what it keeps alive. */
typedef struct export_versioned {
  DLManagedTensorVersioned managed;
  tn_tensor *tensor;
  host_memory memory;
} export_versioned;

typedef struct export_unversioned {
  DLManagedTensor managed;
  tn_tensor *tensor;
  host_memory memory;
} export_unversioned;

static void delete_versioned(DLManagedTensorVersioned *managed) {
  export_versioned *e = managed->manager_ctx;
  host_memory memory = e->memory;
  tn_tensor_release(e->tensor);
  host_free(&memory, e);
}

static void delete_unversioned(DLManagedTensor *managed) {
  export_unversioned *e = managed->manager_ctx;
  host_memory memory = e->memory;
  tn_tensor_release(e->tensor);
  host_free(&memory, e);
}

tn_status dlpack_check(const char *function, const tn_tensor *tensor, const char *what,
                       const void *result) {
  tn_status status = tensor_check(tensor, function);
  if (status) return status;
  if (!result) return fail(TN_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
  if (!tensor->device->recorder) return TN_OK;
  return fail(TN_ERR_UNSUPPORTED,
              "%s: a symbolic tensor has no memory to give: compile its graph and run the program",
              function);
}

tn_status dlpack_export(tn_tensor *tensor, DLManagedTensorVersioned **managed) {
  const host_memory *memory = &tensor->device->runtime->memory;
  export_versioned *e = host_alloc(memory, sizeof *e);
  if (!e) return fail(TN_ERR_OUT_OF_MEMORY, "tn_tensor_to_dlpack: no host memory");
  tn_tensor_retain(tensor);
  tracked_exposed(tensor);
  e->tensor = tensor;
  e->memory = *memory;
  e->managed.version.major = DLPACK_MAJOR_VERSION;
  e->managed.version.minor = DLPACK_MINOR_VERSION;
  e->managed.manager_ctx = e;
  e->managed.deleter = delete_versioned;
  e->managed.flags = tensor->read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  e->managed.dl_tensor = tensor->dl;
  *managed = &e->managed;
  return TN_OK;
}

tn_status tn_tensor_to_dlpack(tn_tensor *tensor, DLManagedTensorVersioned **managed) {
  tn_status status = dlpack_check("tn_tensor_to_dlpack", tensor, "managed", managed);
  if (!status) status = tensor_settle(tensor);
  return status ? status : dlpack_export(tensor, managed);
}

tn_status dlpack_check_unversioned(const char *function, const tn_tensor *tensor,
                                   DLManagedTensor **managed) {
  tn_status status = dlpack_check(function, tensor, "managed", managed);
  if (status) return status;
  if (tensor->read_only)
    return fail(TN_ERR_UNSUPPORTED,
                "%s: the tensor is read-only, which this struct cannot say; use the versioned one",
                function);
  return TN_OK;
}

tn_status dlpack_export_unversioned(tn_tensor *tensor, DLManagedTensor **managed) {
  const host_memory *memory = &tensor->device->runtime->memory;
  export_unversioned *e = host_alloc(memory, sizeof *e);
  if (!e) return fail(TN_ERR_OUT_OF_MEMORY, "tn_tensor_to_dlpack_unversioned: no host memory");
  tn_tensor_retain(tensor);
  tracked_exposed(tensor);
  e->tensor = tensor;
  e->memory = *memory;
  e->managed.manager_ctx = e;
  e->managed.deleter = delete_unversioned;
  e->managed.dl_tensor = tensor->dl;
  *managed = &e->managed;
  return TN_OK;
}

tn_status tn_tensor_to_dlpack_unversioned(tn_tensor *tensor, DLManagedTensor **managed) {
  tn_status status = dlpack_check_unversioned("tn_tensor_to_dlpack_unversioned", tensor, managed);
  if (!status) status = tensor_settle(tensor);
  return status ? status : dlpack_export_unversioned(tensor, managed);
}

static bool carries(const tn_device *d, DLDevice wanted) {
  return d->props.dl_device_type == (int32_t)wanted.device_type &&
         d->props.dl_device_id == wanted.device_id &&
         !(atomic_load(&d->attention) & DEVICE_UNLOADED);
}

tn_status dlpack_find_device(tn_runtime *runtime, DLDevice wanted, tn_device **found) {
  *found = runtime->chosen && carries(runtime->chosen, wanted) ? runtime->chosen : NULL;
  if (*found) return TN_OK;
  tn_status status =
      wanted.device_type == kDLCPU ? plugins_need_hosts(runtime) : plugins_need_all(runtime);
  uint32_t count = atomic_load_explicit(&runtime->num_devices, memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    tn_device *d = atomic_load(&runtime->devices[i]);
    if (carries(d, wanted) && (!*found || d->props.score > (*found)->props.score)) *found = d;
  }
  return status;
}

/* Strides lead nowhere that cannot be said in bytes. Where an axis has one element, or the tensor
 * none, they mean nothing and may be anything. */
static bool reach_fits(const DLTensor *dl, int64_t elements, size_t element_bytes) {
  int64_t total = 0;
  for (int32_t i = 0; dl->strides && elements && i < dl->ndim; i++) {
    int64_t reach;
    if (dl->shape[i] == 1) continue;
    if (dl->strides[i] == INT64_MIN ||
        __builtin_mul_overflow(dl->shape[i] - 1,
                               dl->strides[i] < 0 ? -dl->strides[i] : dl->strides[i], &reach) ||
        __builtin_add_overflow(total, reach, &total))
      return false;
  }
  return !__builtin_mul_overflow(total, (int64_t)element_bytes, &total);
}

/* The strides of an import, but for those that mean nothing. */
static void import_strides(tn_tensor *t, const DLTensor *dl) {
  int64_t elements;
  strides_fill(dl->ndim, t->shape, t->strides);
  (void)shape_elements(dl->ndim, t->shape, 1, &elements);
  for (int32_t i = 0; dl->strides && elements && i < dl->ndim; i++)
    if (t->shape[i] > 1) t->strides[i] = dl->strides[i];
}

static tn_status check_import(tn_runtime *runtime, const DLTensor *dl, tn_device **device,
                              tn_dtype *dtype) {
  tn_status status = runtime_check(runtime);
  if (status) return status;
  *dtype = tn_dtype_of(dl->dtype);
  if (!*dtype)
    return fail(TN_ERR_UNSUPPORTED,
                "tn_tensor_from_dlpack: element type code %u, %u bits, %u lanes is not supported",
                dl->dtype.code, dl->dtype.bits, dl->dtype.lanes);
  if (dl->ndim < 0 || dl->ndim > TN_MAX_RANK || (dl->ndim && !dl->shape))
    return fail(TN_ERR_UNSUPPORTED, "tn_tensor_from_dlpack: rank %d; at most %d is supported",
                dl->ndim, TN_MAX_RANK);
  int64_t elements;
  for (int32_t i = 0; i < dl->ndim; ++i)
    if (dl->shape[i] < 0)
      return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_dlpack: negative size");
  if (!shape_elements(dl->ndim, dl->shape, tn_dtype_size(*dtype), &elements))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_dlpack: the size overflows");
  if (!reach_fits(dl, elements, tn_dtype_size(*dtype)))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_dlpack: the strides overflow");
  if (elements && !dl->data)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_dlpack: data is NULL");
  status = dlpack_find_device(runtime, dl->device, device);
  if (status) return status;
  if (!*device)
    return fail(TN_ERR_UNSUPPORTED,
                "tn_tensor_from_dlpack: this runtime has no device of DLPack type %d, id %d",
                (int)dl->device.device_type, (int)dl->device.device_id);
  size_t align = tn_dtype_size(*dtype);
  /* A handle is no address: what counts there is the offset alone. */
  uintptr_t address = (*device)->opaque ? 0 : (uintptr_t)dl->data;
  if ((address + dl->byte_offset) % align != 0)
    return fail(TN_ERR_UNSUPPORTED, "tn_tensor_from_dlpack: data is not aligned to its elements");
  return device_ready(*device);
}

static tn_status import(tn_runtime *runtime, const DLTensor *dl, const tn_stream *stream,
                        void (*destroy)(void *), void *ctx, bool read_only, tn_tensor **tensor) {
  tn_device *device = NULL;
  tn_dtype dtype = TN_DTYPE_NONE;
  tn_tensor *t;
  tn_status status = check_import(runtime, dl, &device, &dtype);
  if (!status && stream && stream->device != device)
    status = fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_tensor_from_dlpack_stream: the stream is of another device");
  if (!status) status = tensor_import(device, stream, destroy, ctx, &t);
  if (status) return status;
  t->dl.ndim = dl->ndim;
  t->dl.dtype = dl->dtype;
  t->dtype = (uint8_t)dtype;
  t->read_only = read_only;
  t->dl.data = dl->data;
  t->dl.byte_offset = dl->byte_offset;
  if (!device->opaque) {
    t->dl.data = (char *)dl->data + dl->byte_offset;
    t->dl.byte_offset = 0;
  }
  if (dl->ndim) memcpy(t->shape, dl->shape, (size_t)dl->ndim * sizeof *t->shape);
  import_strides(t, dl);
  tensor_finish_import(t);
  *tensor = t;
  return TN_OK;
}

static void call_deleter_versioned(void *ctx) {
  DLManagedTensorVersioned *managed = ctx;
  if (managed->deleter) managed->deleter(managed);
}

static void call_deleter_unversioned(void *ctx) {
  DLManagedTensor *managed = ctx;
  if (managed->deleter) managed->deleter(managed);
}

tn_status dlpack_import(tn_runtime *runtime, DLManagedTensorVersioned *managed,
                        const tn_stream *stream, tn_tensor **tensor) {
  if (!runtime || !managed || !tensor)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_dlpack: an argument is NULL");
  if (managed->version.major != DLPACK_MAJOR_VERSION)
    return fail(TN_ERR_UNSUPPORTED, "tn_tensor_from_dlpack: DLPack %u.%u; this library takes %d.x",
                managed->version.major, managed->version.minor, DLPACK_MAJOR_VERSION);
  return import(runtime, &managed->dl_tensor, stream, call_deleter_versioned, managed,
                managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY, tensor);
}

tn_status tn_tensor_from_dlpack(tn_runtime *runtime, DLManagedTensorVersioned *managed,
                                tn_tensor **tensor) {
  return dlpack_import(runtime, managed, NULL, tensor);
}

tn_status tn_tensor_from_dlpack_unversioned(tn_runtime *runtime, DLManagedTensor *managed,
                                            tn_tensor **tensor) {
  if (!runtime || !managed || !tensor)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_from_dlpack_unversioned: an argument is NULL");
  return import(runtime, &managed->dl_tensor, NULL, call_deleter_unversioned, managed, false,
                tensor);
}
