/*
 * Launches: a queue's kernel objects, their arguments, and the enqueueing. The queue's lock is
 * taken in ocl_begin and given back when the launch is run.
 */
#include <math.h>
#include <string.h>

#include "internal.h"

/* ------------------------------------------------------------ kernel objects --- */

static uint32_t key_hash(const ocl_key *key) {
  uint64_t words[sizeof *key / 8], hash = 0;
  memcpy(words, key, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
  return (uint32_t)(hash >> 16);
}

_Static_assert(sizeof(ocl_key) == 48, "keys are hashed and compared as bytes: no padding");

/* The key's place, or the free one where it would go. pre: the table is not full. */
static ocl_kernel *find_slot(ocl_kernel *table, uint32_t slots, const ocl_key *key) {
  uint32_t i = key_hash(key) & (slots - 1);
  while (table[i].kernel && memcmp(&table[i].key, key, sizeof *key) != 0) i = (i + 1) & (slots - 1);
  return &table[i];
}

static tn_status table_grow(ocl_queue *queue) {
  const tn_host *host = queue->device->host;
  uint32_t slots = queue->num_slots ? queue->num_slots * 2 : 64;
  ocl_kernel *table = host->alloc(host, slots * sizeof *table, _Alignof(ocl_kernel));
  if (!table) return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no memory for kernel objects");
  memset(table, 0, slots * sizeof *table);
  for (uint32_t i = 0; i < queue->num_slots; i++) {
    const ocl_kernel *k = &queue->kernels[i];
    if (k->kernel) *find_slot(table, slots, &k->key) = *k;
  }
  host->free(host, queue->kernels);
  queue->kernels = table;
  queue->num_slots = slots;
  return TN_OK;
}

/* How many work-items of this kernel a group of ocl_run has. */
static size_t group_of(const ocl_device *device, cl_kernel kernel) {
  size_t most = 1;
  if (clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most,
                               NULL) != CL_SUCCESS)
    return 1;
  size_t group = ocl_group(device, 256);
  while (group > most && group > 1) group /= 2;
  return group;
}

static tn_status kernel_make(ocl_queue *queue, const ocl_key *key, const ocl_kernel **out) {
  const tn_host *host = queue->device->host;
  cl_program program = NULL;
  cl_int error;
  tn_status status = ocl_program_get(queue->device, key, &program);
  if (!status && queue->num_kernels * 2 >= queue->num_slots) status = table_grow(queue);
  if (status) return status;
  cl_kernel kernel = clCreateKernel(program, key->function, &error);
  if (error) return ocl_status(host, error, "clCreateKernel");
  ocl_kernel *slot = find_slot(queue->kernels, queue->num_slots, key);
  *slot = (ocl_kernel){*key, kernel, group_of(queue->device, kernel)};
  queue->num_kernels++;
  *out = slot;
  return TN_OK;
}

void ocl_kernels_free(ocl_queue *queue) {
  const tn_host *host = queue->device->host;
  for (uint32_t i = 0; i < queue->num_slots; i++)
    if (queue->kernels[i].kernel) (void)clReleaseKernel(queue->kernels[i].kernel);
  host->free(host, queue->kernels);
}

/* ------------------------------------------------------------------ launches --- */

tn_status ocl_begin(ocl_launch *launch, const tn_kernel_args *args, const ocl_key *key) {
  ocl_queue *queue = args->queue;
  tn_status status = TN_OK;
  *launch = (ocl_launch){.host = args->host, .queue = queue};
  pthread_mutex_lock(&queue->lock);
  if (queue->num_slots) {
    const ocl_kernel *slot = find_slot(queue->kernels, queue->num_slots, key);
    if (slot->kernel) launch->kernel = slot;
  }
  if (!launch->kernel) status = kernel_make(queue, key, &launch->kernel);
  if (status) pthread_mutex_unlock(&queue->lock);
  return status;
}

void ocl_arg(ocl_launch *launch, const void *value, size_t bytes) {
  if (launch->error) return;
  launch->error = clSetKernelArg(launch->kernel->kernel, launch->next++, bytes, value);
}

void ocl_arg_int(ocl_launch *launch, cl_int value) { ocl_arg(launch, &value, sizeof value); }
void ocl_arg_long(ocl_launch *launch, cl_long value) { ocl_arg(launch, &value, sizeof value); }
void ocl_arg_float(ocl_launch *launch, cl_float value) { ocl_arg(launch, &value, sizeof value); }
void ocl_arg_local(ocl_launch *launch, size_t bytes) { ocl_arg(launch, NULL, bytes); }

void ocl_arg_wide(ocl_launch *launch, const tn_kernel_args *args, double value) {
  if (ocl_has_double(args))
    ocl_arg(launch, &value, sizeof value);
  else
    ocl_arg_float(launch, (cl_float)value);
}

static void arg_buffer(ocl_launch *launch, const void *handle, uint64_t first) {
  cl_mem buffer = (cl_mem)(uintptr_t)handle;
  cl_ulong offset = first;
  ocl_arg(launch, &buffer, sizeof buffer);
  ocl_arg(launch, &offset, sizeof offset);
}

void ocl_arg_tensor(ocl_launch *launch, const DLTensor *tensor) {
  if (tensor)
    arg_buffer(launch, tensor->data, tensor->byte_offset / (tensor->dtype.bits / 8u));
  else
    arg_buffer(launch, NULL, 0);
}

void ocl_arg_workspace(ocl_launch *launch, const tn_kernel_args *args, size_t offset,
                       size_t element_bytes) {
  arg_buffer(launch, args->workspace, (args->workspace_offset + offset) / element_bytes);
}

/* Such that the store's rounding to 16 bits is the only one: inexact floats get an odd last
 * bit, which no tie has. */
static cl_float odd_float(double value) {
  cl_float near = (cl_float)value;
  uint32_t bits;
  memcpy(&bits, &near, sizeof bits);
  if (isnan(value) || (double)near == value || (bits & 1)) return near;
  bits = fabs((double)near) > fabs(value) ? bits - 1 : bits + 1;
  memcpy(&near, &bits, sizeof near);
  return near;
}

static int64_t saturated(double value, int64_t least, int64_t most) {
  if (isnan(value)) return 0;
  if (value <= (double)least) return least;
  if (value >= (double)most) return most;
  return (int64_t)value;
}

void ocl_arg_number(ocl_launch *launch, tn_dtype dtype, double value) {
  const int bits = 8 * (int)tn_dtype_size(dtype);
  switch (dtype) {
  case TN_F64:
    ocl_arg(launch, &value, sizeof value);
    return;
  case TN_F32:
    ocl_arg_float(launch, (cl_float)value);
    return;
  case TN_F16:
  case TN_BF16:
    ocl_arg_float(launch, odd_float(value));
    return;
  case TN_BOOL:
  case TN_U8: {
    cl_uchar byte = dtype == TN_BOOL ? value != 0 : (cl_uchar)saturated(value, 0, UINT8_MAX);
    ocl_arg(launch, &byte, sizeof byte);
    return;
  }
  default: {
    int64_t most = INT64_MAX >> (64 - bits), whole = saturated(value, -most - 1, most);
    ocl_arg(launch, &whole, tn_dtype_size(dtype)); /* little-endian, as every OpenCL host here */
  }
  }
}

/* Enqueues, and ends the launch whatever came of it. */
static tn_status enqueue(ocl_launch *launch, cl_uint dims, const size_t *global,
                         const size_t *local) {
  const char *call = "clSetKernelArg";
  cl_int error = launch->error;
  if (!error) {
    call = "clEnqueueNDRangeKernel";
    error = clEnqueueNDRangeKernel(launch->queue->queue, launch->kernel->kernel, dims, NULL, global,
                                   local, 0, NULL, NULL);
  }
  tn_status status = TN_OK;
  if (error) {
    status = ocl_status(launch->host, error, call);
    status =
        launch->host->fail(status, "opencl kernel %s: %s: %s (%d)", launch->kernel->key.function,
                           call, ocl_error_name(error), (int)error);
  }
  pthread_mutex_unlock(&launch->queue->lock);
  return status;
}

tn_status ocl_run(ocl_launch *launch, uint64_t count) {
  size_t local = launch->kernel->group;
  size_t global = (count + local - 1) / local * local;
  return enqueue(launch, 1, &global, &local);
}

tn_status ocl_run_grid(ocl_launch *launch, cl_uint dims, const size_t *groups,
                       const size_t *local) {
  size_t global[3] = {1, 1, 1};
  for (cl_uint d = 0; d < dims; d++) global[d] = groups[d] * local[d];
  return enqueue(launch, dims, global, local);
}

size_t ocl_group(const ocl_device *device, size_t wanted) {
  size_t group = 1;
  while (group * 2 <= wanted && group * 2 <= device->max_group) group *= 2;
  return group;
}
