/*
 * What the files of this plugin share: device and queue handles, programs built from the .cl
 * sources, and launches. A kernel's run function says which kernel it wants (ocl_key), sets its
 * arguments in order and runs it:
 *
 *   static tn_status run_relu(const tn_kernel_args *args) {
 *     ocl_launch launch;
 *     const ocl_key key = {.source = &ocl_source_relu, .function = "relu",
 *                          .types = {ocl_dtype(args->in[0])}};
 *     cl_ulong n = ocl_count(args->in[0]);
 *     if (n == 0) return TN_OK;
 *     tn_status status = ocl_begin(&launch, args, &key);
 *     if (status) return status;
 *     ocl_arg_tensor(&launch, args->out[0]);
 *     ocl_arg_tensor(&launch, args->in[0]);
 *     ocl_arg(&launch, &n, sizeof n);
 *     return ocl_run(&launch, n);
 *   }
 *
 * cl/prelude.cl stands before every source and says how the .cl side of it reads. The table of
 * rows is in rows.h.
 */
#ifndef OPENCL_OPENCL_H
#define OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>

#include "tenon/plugin.h"

/* ----------------------------------------------------------------- programs --- */

/* A file of cl/, printed into the library by embed.c as ocl_source_<name>. */
typedef struct ocl_source {
  const char *name;
  const char *text;
} ocl_source;

/* One kernel function of one program. Strings are literals: they are compared as pointers. A
 * program is built when it is first wanted, from the prelude and the source, with
 *   -DOP=<op> -DAPPLY=apply_<op>          if op is not NULL; drivers may have macros named <op>
 *   -DT0=f32 .. -DT3=..                  names of element types, as far as given
 *   -DC0=.. .. -DC4=..                   all of them
 *   -DHAS_FP64                           where the device computes in double
 *   -DEXACT_DIVISION                     where float / and sqrt round correctly
 */
typedef struct ocl_key {
  const ocl_source *source;
  const char *function;
  const char *op;
  uint8_t types[4]; /* tn_dtype; 0: none */
  int32_t constants[5];
} ocl_key;

typedef struct ocl_kernel {
  ocl_key key;
  cl_kernel kernel; /* NULL: a free place of the table */
  size_t group;     /* work-items of a group in ocl_run */
} ocl_kernel;

typedef struct ocl_program {
  ocl_key key; /* function is NULL */
  cl_program program;
  struct ocl_program *next;
} ocl_program;

/* ------------------------------------------------------- devices and queues --- */

/* A pinned allocation: a buffer in host memory and where it is mapped. */
typedef struct ocl_pinned {
  cl_mem buffer;
  unsigned char *begin;
  size_t bytes;
  struct ocl_pinned *next;
} ocl_pinned;

/* args->device */
typedef struct ocl_device {
  const tn_host *host;
  cl_device_id id;
  cl_context context;
  cl_command_queue upkeep; /* of its own: makes and maps memory */
  bool fp64;               /* computes in double */
  bool cpu;                /* work-groups are loops over vectors */
  bool exact_division;     /* -cl-fp32-correctly-rounded-divide-sqrt is known */
  uint32_t compute_units;
  size_t max_group;     /* most work-items in a group */
  uint64_t local_bytes; /* of local memory */
  uint64_t max_buffer;  /* most bytes of one buffer */
  char identity[512];   /* platform, device and driver with their versions */
  char *cache_folder;   /* of built programs; NULL: nothing is kept */

  pthread_mutex_t lock; /* of what follows */
  ocl_program *programs;
  ocl_pinned *pinned;
  uint32_t num_built, num_loaded; /* programs compiled, and taken from the cache */
} ocl_device;

/* args->queue. Kernel objects hold their arguments, so each queue has its own, and its lock is
 * held from the first argument to the launch: threads may share a default queue. */
typedef struct ocl_queue {
  ocl_device *device;
  cl_command_queue queue;
  bool foreign;         /* the program's, of which this holds a reference */
  pthread_mutex_t lock; /* of what follows */
  ocl_kernel *kernels;  /* open addressing */
  uint32_t num_kernels, num_slots;
} ocl_queue;

static inline ocl_device *ocl_device_of(const tn_kernel_args *args) { return args->device; }

/* ----------------------------------------------------------------- launches --- */

/* A launch being put together. The first argument that fails is what ocl_run returns. */
typedef struct ocl_launch {
  const tn_host *host;
  ocl_queue *queue;
  const ocl_kernel *kernel;
  cl_uint next; /* argument */
  cl_int error;
} ocl_launch;

/* Finds or builds the kernel and locks the queue: after TN_OK exactly one of ocl_run and
 * ocl_run_grid must follow. pre: no other launch of this thread is open. */
tn_status ocl_begin(ocl_launch *launch, const tn_kernel_args *args, const ocl_key *key);

/* The arguments, in the order of the kernel's parameters. A tensor or workspace is two of them,
 * TENSOR(T, name) of the prelude: the buffer, and how many elements into it the tensor begins;
 * NULL for a tensor that is absent. Of a workspace, offset counts bytes from its beginning and
 * element_bytes is the size that the kernel reads it in. */
void ocl_arg(ocl_launch *launch, const void *value, size_t bytes);
void ocl_arg_int(ocl_launch *launch, cl_int value);
void ocl_arg_long(ocl_launch *launch, cl_long value);
void ocl_arg_float(ocl_launch *launch, cl_float value);
/* A parameter of type WIDE. */
void ocl_arg_wide(ocl_launch *launch, const tn_kernel_args *args, double value);
void ocl_arg_tensor(ocl_launch *launch, const DLTensor *tensor);
void ocl_arg_workspace(ocl_launch *launch, const tn_kernel_args *args, size_t offset,
                       size_t element_bytes);
void ocl_arg_local(ocl_launch *launch, size_t bytes); /* local memory */
/* A number in the element type's computing type: double of f64, float of the other floats, the
 * type itself of integers, uchar of bool. Conversion as by tn_cast, but that a number for a
 * 16-bit float is rounded to it only when it is stored. Parameter WORK(T) name. */
void ocl_arg_number(ocl_launch *launch, tn_dtype dtype, double value);

/* Runs at least `count` > 0 work-items along one axis, in groups of the kernel's own choosing:
 * the kernel must pass over get_global_id(0) >= count. */
tn_status ocl_run(ocl_launch *launch, uint64_t count);
/* Runs groups[d] work-groups of local[d] items. Products of local above ocl_group(device, n)
 * fail. */
tn_status ocl_run_grid(ocl_launch *launch, cl_uint dims, const size_t *groups, const size_t *local);
/* The greatest power of two that is at most `wanted` and that the device takes as a group. */
size_t ocl_group(const ocl_device *device, size_t wanted);

/* ------------------------------------------------------------------ tensors --- */

enum { ocl_max_operands = 4 };

/* Tensors walked together, innermost axis last, axes merged where all operands allow. The
 * prelude has the same struct. */
typedef struct ocl_walk {
  cl_long count; /* elements */
  cl_int rank;   /* at least 1 */
  cl_int flat;   /* 1: every operand is one dense run, index i lies at i */
  cl_long size[TN_MAX_RANK];
  cl_long stride[ocl_max_operands][TN_MAX_RANK];
} ocl_walk;

/* pre: all have the first one's shape. */
void ocl_walk_of(ocl_walk *walk, int operands, const DLTensor *const *tensors);

/* One tensor's own shape and strides, nothing merged; the prelude has it too. */
typedef struct ocl_dims {
  cl_int rank, reserved;
  cl_long size[TN_MAX_RANK];
  cl_long stride[TN_MAX_RANK];
} ocl_dims;

void ocl_dims_of(ocl_dims *dims, const DLTensor *tensor);

tn_dtype ocl_dtype(const DLTensor *tensor);
uint64_t ocl_count(const DLTensor *tensor);                           /* elements */
int64_t ocl_size(const DLTensor *tensor, int32_t begin, int32_t end); /* of axes [begin, end) */

/* For tn_kernel.supports. Rows of operators that have float64 say one of the two. */
bool ocl_takes_types(const tn_kernel_args *args);        /* no float64, or the device has it */
bool ocl_has_double(const tn_kernel_args *args);         /* the kernel itself computes in double */
bool ocl_floats_have_double(const tn_kernel_args *args); /* likewise, of floats */

/* ------------------------------------------------------------------- errors --- */

/* An error code as a status, with the message "call: CL_NAME". */
tn_status ocl_status(const tn_host *host, cl_int error, const char *call);
const char *ocl_error_name(cl_int error);

#define OCL_TRY(host, function, ...)                                                               \
  do {                                                                                             \
    cl_int error_ = function(__VA_ARGS__);                                                         \
    if (error_ != CL_SUCCESS) return ocl_status(host, error_, #function);                          \
  } while (0)

#endif
