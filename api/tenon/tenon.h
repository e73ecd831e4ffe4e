/*
 * Tenon: one program, any compute device.
 *
 * A runtime finds compute backends (shared objects) at run time and sends each
 * operator call to the best kernel for its device and element type. A host program
 * names no device: the user chooses with TENON_DEVICE.
 *
 *     tn_runtime *rt;
 *     if (tn_runtime_open(NULL, &rt)) return puts(tn_last_error()), 1;
 *     tn_tensor *a, *b, *y = NULL;
 *     tn_tensor_from_host(tn_runtime_device(rt), TN_F32, 1, (int64_t[]){3}, values_a, &a);
 *     tn_tensor_from_host(tn_runtime_device(rt), TN_F32, 1, (int64_t[]){3}, values_b, &b);
 *     tn_add(NULL, a, b, &y);
 *     tn_tensor_to_host(y, result, sizeof result);
 *
 * The rules, once; functions state only what differs:
 *
 *  Errors.     Functions that can fail return a tn_status, TN_OK being 0. After
 *              anything else tn_last_error() has a message for the calling thread,
 *              and outputs, tensors and registries are as before the call. The
 *              library never aborts, exits or prints (TENON_LOG and
 *              TENON_FALLBACK=warn write to standard error).
 *  Ownership.  A function whose last parameter is a pointer to a handle pointer
 *              makes a new handle, owned by the caller: release it with the type's
 *              release or destroy function. Handles passed in are borrowed for the
 *              call. Release functions accept NULL. Strings returned belong to
 *              the library and live as long as the object they describe.
 *  Lifetimes.  Handles are given back in any order, the runtime's close among them, as
 *              garbage collectors do it. Once it is closed, functions with a status
 *              return TN_ERR_CLOSED for the runtime and for whatever came from it, those
 *              that give something back still do, and the others are harmless. The memory
 *              of tensors, DLPack exports and pinned memory stays valid until they are
 *              given back, and keeps its devices open so long; threads have ended and
 *              cached memory has gone back when the close returns. Devices and default
 *              streams, which nobody gives back, may be asked until 64 more runtimes are
 *              gone.
 *  Callbacks.  out_of_memory and the deleters of imported tensors run while Tenon holds no
 *              lock; deleters may release tensors. The allocator's functions may not call
 *              Tenon. log, out_of_memory and parallel are not called any more when
 *              tn_runtime_close has returned; the allocator is, until the last handle is
 *              given back.
 *  Threads.    Runtimes and devices may be used from any thread at once. A stream
 *              other than NULL belongs to one thread at a time. A tensor's
 *              reference count is atomic; its contents are the callers' business.
 *  Streams.    Work of one stream runs in order. A NULL stream is the default
 *              stream of the tensors' device. Tensors may be released while work on
 *              them is pending; one of another library's memory waits for it
 *              (tn_tensor_from_dlpack). Work of different streams is ordered by events.
 *  Tensors.    Strided views of device memory with at most TN_MAX_RANK axes; sizes
 *              and strides count elements. Images are n, c, h, w in that order
 *              whatever their strides.
 *  Operators.  tn_<name>(stream, inputs..., updated..., attrs, outputs...). Inputs and outputs
 *              that are given are on one device. An output pointer y with *y ==
 *              NULL gets a new tensor, row-major but for convolutions of images with
 *              channels last where the device is faster with results that are so
 *              too; otherwise *y is written to and must have the
 *              right element type, shape and no element twice. Outputs may not
 *              share an element with inputs or with each other, except that an
 *              elementwise operator may write to the very tensor it reads. Views that
 *              interleave without sharing any, as columns of one matrix do, are fine
 *              (strides so odd that this is not settled in 65,536 steps are refused).
 *              Optional tensors may be NULL. Lists of tensors
 *              come as arrays with one count for all of them, behind the last: at
 *              least 1, at most TN_MAX_LIST. A list of inputs (tn_tensor_list) is an array
 *              of tn_tensor * as well as of const tn_tensor *.
 *  Options.    Options passed in beat environment variables; variables are read
 *              once, by tn_runtime_open, and not at all in set-user-id programs.
 *  Rounding.   A call on a host device computes in its caller's floating-point mode
 *              (direction of rounding, subnormal numbers flushed to zero), in every thread
 *              that takes part, so that results do not depend on which or how many those
 *              are; with `deterministic` it computes in the default mode, to nearest and
 *              nothing flushed, so that they do not depend on the caller's either. Bounds on
 *              errors hold in the default mode. No thread's mode is changed.
 *  Fork.       A runtime does not survive fork(): in the child, every call on it or on
 *              what it made returns TN_ERR_FORKED, and release, destroy and close do
 *              nothing that could block or reach a device. A new runtime may be opened;
 *              types of devices that were looked at before the fork, by whichever
 *              runtime, have none there and say why, unless their plugin promises that
 *              its driver survives (those in host memory that work synchronously do).
 *  Plugins.    Where a device is named, by option or TENON_DEVICE, tn_runtime_open loads the
 *              plugins that serve it and those of the layers asked for. The others wait until
 *              somebody asks for what they bring: tn_device_count, tn_device_at and
 *              tn_device_find for devices, tn_plugin_report, tn_kernel_at and tn_layer_at for
 *              all of them, tn_op_count, tn_op_at and tn_op_find for plugins with operators,
 *              tn_tensor_from_dlpack, its relatives and tn_device_find_dlpack for a device that
 *              is not the default one, and a call that falls back for those whose devices are
 *              in host memory. Such a call takes as long as loading does. A plugin that does
 *              not say in its file what it brings (TN_PLUGIN_BRINGS) does not wait, nor does one
 *              with kernels for any host device.
 *  Process.    What plugins, and the libraries that come with them, change of signal
 *              handlers, of the thread's signal mask and floating-point modes while they are
 *              loaded or a device is opened is put back. A handler that another thread
 *              installs in the same moment is put back with them.
 *  Growth.     Structs that the caller fills begin with struct_size: set it with
 *              sizeof and zero the rest. Fields are only ever appended.
 */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include <stdio.h>

#include "tenon/base.h"
#include "tenon/op_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tn_runtime tn_runtime;
typedef struct tn_device tn_device;
typedef struct tn_stream tn_stream;
typedef struct tn_event tn_event;
typedef struct tn_tensor tn_tensor;
typedef struct tn_prepared tn_prepared;
typedef struct tn_generator tn_generator;
struct tn_operator;

/* --------------------------------------------------------- version, errors --- */

/* The library's version, "0.1.0"; compare with TN_VERSION_STRING. */
const char *tn_version(void);

/* The message of the calling thread's last failed call, "" if there was none. Valid
 * until the thread's next failing call. */
const char *tn_last_error(void);

/* Names the place in the program that the calling thread is at, for layers that trace and
 * validate: "decoder.c:91" or "layer 3". The string is not copied and must live until another
 * one, or NULL, replaces it. Returns the one before. Costs one store. */
const char *tn_call_site(const char *site);

/* "TN_ERR_INVALID_ARGUMENT" and so on; never NULL. */
const char *tn_status_name(tn_status status);

/* "f32" and so on; "?" for an unknown type. */
const char *tn_dtype_name(tn_dtype dtype);

/* ----------------------------------------------------------------- runtime --- */

/* What to do when a device has no kernel for a call. */
typedef enum tn_fallback {
  TN_FALLBACK_DEFAULT = 0, /* TENON_FALLBACK, else warn */
  TN_FALLBACK_WARN = 1,    /* copy to a host device, run there, copy back; warn once per operator */
  TN_FALLBACK_ALLOW = 2,   /* the same without a word */
  TN_FALLBACK_ERROR = 3,   /* fail with TN_ERR_UNSUPPORTED */
} tn_fallback;

/* Whether plugins are loaded in a child process first, which bears the consequences of one
 * that crashes, hangs or ends its process. The verdict is remembered until the file changes; a
 * refusal, under the same limits of the process and search path of libraries, and one that may be
 * a driver's fault for an hour. */
typedef enum tn_scan {
  TN_SCAN_DEFAULT = 0, /* TENON_SCAN, else those that were not installed with this library */
  TN_SCAN_CHILD = 1,   /* every plugin */
  TN_SCAN_OFF = 2,     /* none */
} tn_scan;

/* Host memory, for embedders who bring their own; tensors and workspaces of devices in host
 * memory come from it too, large ones at boundaries of 2 MiB. Thread-safe. What libraries
 * behind plugins take for themselves, and some kilobytes that outlive a runtime for handles
 * that were kept, is the C library's. */
typedef struct tn_allocator {
  void *(*alloc)(void *user, size_t bytes, size_t align); /* NULL when there is none */
  void (*free)(void *user, void *ptr);
  void *user;
} tn_allocator;

/* A parallel loop, for embedders who bring their own threads: runs body over
 * 0 <= i < n in shares, returns when all are done. Thread-safe. The body leaves the
 * floating-point mode of its thread as it was. Neither the runtime nor Tenon's own host
 * devices start a thread then. */
typedef struct tn_parallel {
  void (*run)(void *user, int64_t n, int64_t grain,
              void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx);
  void *user;
  uint32_t num_threads;
} tn_parallel;

/* How to open a runtime. All zero (or a NULL pointer) means the environment's
 * variables, and where those are unset, the defaults. */
typedef struct tn_runtime_options {
  uint32_t struct_size;
  uint32_t fallback;       /* tn_fallback */
  const char *device;      /* as TENON_DEVICE: "cuda:1", or a list "cuda,cpu": the first usable */
  const char *plugin_path; /* as TENON_PLUGIN_PATH: files and folders, ':' between, absolute */
  const char *plugins;     /* as TENON_PLUGINS: globs of plugin names, "-glob" disables */
  const char *layers;      /* as TENON_LAYERS: names, outermost first */
  uint32_t num_threads;    /* as TENON_NUM_THREADS; 0 = the processors this process may use */
  uint32_t log_level;      /* tn_log_level plus 1; 0 = TENON_LOG */
  int32_t math;            /* tn_math plus 1; 0 = TENON_MATH, else ieee */
  int32_t deterministic;   /* 1 on, -1 off, 0 = TENON_DETERMINISTIC, else off */
  const tn_allocator *allocator;
  const tn_parallel *parallel;
  /* Gets log lines instead of standard error. Thread-safe. No lock of the library is held, so
   * it may call every function but tn_runtime_close; what a thread has to say while it loads
   * plugins or opens a device comes once that is done. */
  void (*log)(void *user, tn_log_level level, const char *line);
  void *log_user;
  /* Called when device memory has run out, after Tenon gave back what it had
   * cached: frees tensors if it can and returns true to have the allocation tried
   * again. Runs in the thread that allocates, in several at once if they do. It may
   * call whatever Tenon has for tensors, streams and events; what it allocates itself
   * does not call it again but fails with TN_ERR_DEVICE_OUT_OF_MEMORY. Reading a
   * row-major tensor back takes no device memory, one with other strides does. */
  bool (*out_of_memory)(void *user, tn_device *device, size_t bytes);
  void *out_of_memory_user;
  uint64_t memory_limit;    /* bytes of device memory to take per device; 0 = no limit */
  uint32_t scan;            /* tn_scan */
  uint32_t scan_timeout_ms; /* for loading one plugin, six times that for its driver; 0 = 5000 */
} tn_runtime_options;

/* Opens a runtime: finds plugins, devices and the device to use by default.
 * options: NULL for all defaults. Errors: TN_ERR_NOT_FOUND when the device asked for
 * is unknown or unusable, with a message that lists what exists and why the rest
 * failed; TN_ERR_INVALID_ARGUMENT for a malformed option or variable. A plugin that
 * cannot be taken is no error: see tn_plugin_report. */
tn_status tn_runtime_open(const tn_runtime_options *options, tn_runtime **runtime);

/* Closes: waits for its devices and ends its threads. No other call on the runtime, or on
 * what it made, may be under way. What is still alive, tensors, streams, events, prepared
 * calls, pinned memory, DLPack exports, may be given back later, in any order and from any
 * thread, but not used (TN_ERR_CLOSED). Does nothing where it is closed already. */
void tn_runtime_close(tn_runtime *runtime);

/* Adds one plugin from an absolute path while others work. Errors:
 * TN_ERR_PLUGIN_REFUSED with the reason; nothing of the plugin is taken then.
 * TN_ERR_OUT_OF_MEMORY: it may be tried again. */
tn_status tn_runtime_load_plugin(tn_runtime *runtime, const char *path);

/* Takes a plugin back while others work: its kernels, operators and types of device are
 * found no more, and other plugins' kernels serve again. Waits for its devices. Their
 * tensors, streams and events may be given back later, but not used: calls on them fail with
 * TN_ERR_CLOSED. Calls under way finish, and prepared calls on other devices keep the kernel
 * that they resolved. The library stays mapped and its handles open until the runtime is
 * closed. tn_runtime_load_plugin with the same path gives everything back, tensors included;
 * what is mapped under a path stays, so a new build of a plugin needs a new path.
 * Errors: TN_ERR_NOT_FOUND when no plugin of that name is loaded; TN_ERR_INVALID_ARGUMENT
 * while one of its layers is on, or the runtime's default device is its. */
tn_status tn_runtime_unload_plugin(tn_runtime *runtime, const char *name);

/* The device that TENON_DEVICE or options chose; never NULL. */
tn_device *tn_runtime_device(const tn_runtime *runtime);

/* Whether a plugin was loaded in a child process first. */
typedef enum tn_scan_outcome {
  TN_SCAN_NONE = 0,       /* no need was seen */
  TN_SCAN_REMEMBERED = 1, /* the verdict of an earlier time was taken */
  TN_SCAN_MADE = 2,
} tn_scan_outcome;

/* What became of one plugin candidate. The host sets struct_size and zeroes. */
typedef struct tn_plugin_info {
  uint32_t struct_size;
  uint32_t taken;   /* 1 loaded, 0 refused or left out */
  const char *name; /* "" where it could not be read */
  const char *version;
  const char *description;
  const char *path;
  const char *origin; /* where the candidate came from: "TENON_PLUGIN_PATH", ... */
  const char *reason; /* why not taken; if taken, why it found no device; else "" */
  uint32_t num_backends, num_kernels, num_operators, num_layers;
  uint32_t scan;    /* tn_scan_outcome */
  uint32_t scan_us; /* microseconds that the scan took, or the look at its verdict */
  /* What is odd about a plugin that was taken, one sentence a line: operators and devices of its
   * that were not, kernels that serve nobody, whose place it takes. "" where nothing is. */
  const char *warnings;
  uint32_t abi_min, abi_max; /* of its note; 0 where it could not be read */
  const char *brings;        /* the words of its TN_PLUGIN_BRINGS; "" where it has none */
} tn_plugin_info;

/* Describes candidate `index` in order of discovery, loading what waits; TN_ERR_NOT_FOUND past
 * the last. Of files that tn_runtime_load_plugin refused the first 1,024 are kept. */
tn_status tn_plugin_report(tn_runtime *runtime, size_t index, tn_plugin_info *info);

/* A library that the process has twice, from two places or in two versions, through plugins
 * or otherwise. Each copy has a state of its own: a handle, a thread pool or memory of one
 * means nothing to the other, and two thread pools fight for the processors. */
typedef struct tn_duplicate_library {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name; /* without version: "libfoo" */
  const char *first, *second;
} tn_duplicate_library;

/* Describes pair `index` of those in the process by now; TN_ERR_NOT_FOUND past the last. */
tn_status tn_duplicate_library_at(tn_runtime *runtime, size_t index, tn_duplicate_library *info);

/* ----------------------------------------------------------------- devices --- */

typedef struct tn_device_info {
  uint32_t struct_size;
  int32_t index;    /* among devices of its type */
  const char *type; /* "cuda" */
  const char *id;   /* "cuda:1", what TENON_DEVICE takes */
  const char *name; /* "NVIDIA H200" */
  const char *features;
  const char *plugin;
  const char *unavailable; /* why it cannot be used; "" if it can */
  uint64_t memory_bytes;
  uint64_t memory_free_bytes; /* as of this call */
  uint32_t host_memory;       /* 1 if the host can read its tensors in place */
  uint32_t lost;              /* 1 once the device has faulted */
  DLDevice dl_device;         /* what DLPack calls it: the device of its tensors' exports */
} tn_device_info;

/* The devices of all plugins, best first, loading those that wait; those of an unloaded one
 * stay, unavailable. There is room for 16 types, and 64 devices of each. */
size_t tn_device_count(tn_runtime *runtime);
tn_device *tn_device_at(tn_runtime *runtime, size_t index);

/* Finds "type" (its first device) or "type:index". TN_ERR_NOT_FOUND lists what
 * exists. */
tn_status tn_device_find(tn_runtime *runtime, const char *id, tn_device **device);
tn_status tn_device_get_info(tn_device *device, tn_device_info *info);
tn_runtime *tn_device_runtime(const tn_device *device);

/* Waits for all work of all streams of the device. */
tn_status tn_device_synchronize(tn_device *device);

/* The caching allocator's figures, in bytes. */
typedef struct tn_memory_stats {
  uint32_t struct_size;
  uint32_t segments; /* raw allocations held */
  uint64_t reserved; /* taken from the device */
  uint64_t in_use;   /* in tensors and pending work, and in the constants that the device keeps
                        for inputs left out (256 bytes each) */
  uint64_t peak_reserved;
  uint64_t limit;         /* 0 = none */
  uint64_t raw_allocs;    /* calls to the backend's allocator so far */
  uint64_t out_of_memory; /* times that allocation failed at first */
} tn_memory_stats;
tn_status tn_device_memory_stats(tn_device *device, tn_memory_stats *stats);

/* Gives cached memory that is in no use back to the device. */
tn_status tn_device_trim(tn_device *device);

/* Host memory that the device copies from and to asynchronously. bytes > 0. */
tn_status tn_pinned_alloc(tn_device *device, size_t bytes, void **ptr);
/* Of a closed runtime too. ptr may be NULL. */
void tn_pinned_free(tn_device *device, void *ptr);

/* ------------------------------------------------------- streams and events --- */

tn_status tn_stream_create(tn_device *device, tn_stream **stream);
/* A stream around a handle of the vendor's that the program or another library made (cudaStream_t,
 * cl_command_queue); NULL is the vendor's default stream. Work put here and what others put into
 * the handle run in the order in which they come, and everything else is as with tn_stream_create:
 * memory is reused in that order. The handle stays its owner's, who keeps it until the tn_stream
 * is destroyed or the runtime closed; neither destroys it. Wrap a handle once and keep the stream:
 * each has a cache of memory, and to layers each is a stream of its own. A device that works in its
 * caller has no such handles, and takes NULL alone. Errors: UNSUPPORTED where the device's plugin
 * takes none, or not this one, for its work is not in order; INVALID_ARGUMENT for a handle of
 * another device. */
tn_status tn_stream_wrap(tn_device *device, void *native, tn_stream **stream);
/* Waits for the stream's work, and for threads that are reading back what was made on it. */
void tn_stream_destroy(tn_stream *stream);
tn_status tn_stream_synchronize(tn_stream *stream);
tn_device *tn_stream_device(const tn_stream *stream);
/* The device's default stream, what NULL stands for. Not to be destroyed. */
tn_stream *tn_device_default_stream(tn_device *device);
/* The vendor's handle (cudaStream_t), NULL where there is none and of a closed runtime. */
void *tn_stream_native(const tn_stream *stream);

tn_status tn_event_create(tn_device *device, tn_event **event);
void tn_event_destroy(tn_event *event);
/* Marks the point that the stream's work has reached. */
tn_status tn_event_record(tn_event *event, tn_stream *stream);
/* TN_OK if that point has passed, TN_ERR_NOT_READY if not. An event never recorded
 * has passed. */
tn_status tn_event_query(tn_event *event);
tn_status tn_event_synchronize(tn_event *event);
/* Later work of the stream waits for the event; the caller does not. */
tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event);
/* Nanoseconds between two recorded events; both must have passed. */
tn_status tn_event_elapsed(tn_event *begin, tn_event *end, uint64_t *ns);

/* ----------------------------------------------------------------- tensors --- */

/* A new tensor, row-major, contents undefined. shape: `rank` sizes >= 0, may be NULL
 * for rank 0. Errors: TN_ERR_DEVICE_OUT_OF_MEMORY with the allocator's figures. */
tn_status tn_tensor_empty(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                          tn_tensor **tensor);
/* The same in a stream's memory, for work on that stream; NULL = default stream. */
tn_status tn_tensor_empty_on(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                             const int64_t *shape, tn_tensor **tensor);
/* A new tensor from row-major host memory, which may be reused at once. */
tn_status tn_tensor_from_host(tn_device *device, tn_dtype dtype, int32_t rank, const int64_t *shape,
                              const void *data, tn_tensor **tensor);
/* Overwrites a tensor (any strides) from row-major host memory, in the stream's
 * order. Pageable memory may be reused at once; pinned memory when the stream has
 * got there. bytes: must be the tensor's. Where the device has no kernel for strided copies,
 * the bytes between a strided tensor's elements are read and written back: other streams' work
 * on those is ordered by events. */
tn_status tn_tensor_write(tn_stream *stream, tn_tensor *tensor, const void *data, size_t bytes);
/* Copies a tensor (any strides) to row-major host memory, behind the work of the stream
 * that the tensor was made on, or once that is destroyed of the default one, and waits for it. */
tn_status tn_tensor_to_host(const tn_tensor *tensor, void *data, size_t bytes);
/* The same in the stream's order without waiting, where data is pinned memory and the tensor
 * row-major or its device has a kernel that makes it so. */
tn_status tn_tensor_read(tn_stream *stream, const tn_tensor *tensor, void *data, size_t bytes);
/* A copy on another device; on the same device a contiguous copy. Ordered as in
 * tn_tensor_to_host. */
tn_status tn_tensor_to_device(const tn_tensor *tensor, tn_device *device, tn_tensor **copy);

/* Tensors with a value. `value` is any number of C: tn_scalar, tn_full and tn_full_like call the
 * function for its type, so that whole numbers are exact up to 64 bits. Floats are rounded once,
 * as tn_cast rounds; an integer type refuses a number with a fraction or out of its range
 * (INVALID_ARGUMENT); a bool is value != 0. The device fills in the stream's order, NULL being its
 * default stream, and the caller does not wait, unless no kernel of the device fills that type. */

/* tn_scalar: a constant of rank 0, which operators that broadcast take beside tensors of its type:
 *     tn_scalar(tn_tensor_device(x), stream, tn_tensor_dtype(x), 2, &two);
 *     tn_mul(stream, x, two, &y);
 * It may not be written to; tn_full with rank 0 makes one that may. On a device in host memory it
 * costs less than the call that uses it, elsewhere a kernel: keep one that is used often. */
tn_status tn_scalar_f64(tn_device *device, tn_stream *stream, tn_dtype dtype, double value,
                        tn_tensor **scalar);
tn_status tn_scalar_i64(tn_device *device, tn_stream *stream, tn_dtype dtype, int64_t value,
                        tn_tensor **scalar);
/* Row-major tensors of one value. Shapes, streams and errors as with tn_tensor_empty_on. */
tn_status tn_full_f64(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, double value, tn_tensor **tensor);
tn_status tn_full_i64(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, int64_t value, tn_tensor **tensor);
tn_status tn_zeros(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                   const int64_t *shape, tn_tensor **tensor);
tn_status tn_ones(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                  const int64_t *shape, tn_tensor **tensor);
/* Tensors of x's device, element type and shape, without gaps, their axes in the order that x's
 * have in memory: what is like a channels-last tensor is channels-last. Axes that x repeats
 * (stride 0) stay where they are among the others. */
tn_status tn_empty_like(tn_stream *stream, const tn_tensor *x, tn_tensor **tensor);
tn_status tn_zeros_like(tn_stream *stream, const tn_tensor *x, tn_tensor **tensor);
tn_status tn_ones_like(tn_stream *stream, const tn_tensor *x, tn_tensor **tensor);
tn_status tn_full_like_f64(tn_stream *stream, const tn_tensor *x, double value, tn_tensor **tensor);
tn_status tn_full_like_i64(tn_stream *stream, const tn_tensor *x, int64_t value,
                           tn_tensor **tensor);

#ifndef __cplusplus
#define tn_scalar(device, stream, dtype, value, scalar)                                            \
  TN_BY_NUMBER(tn_scalar, value)(device, stream, dtype, value, scalar)
#define tn_full(device, stream, dtype, rank, shape, value, tensor)                                 \
  TN_BY_NUMBER(tn_full, value)(device, stream, dtype, rank, shape, value, tensor)
#define tn_full_like(stream, x, value, tensor)                                                     \
  TN_BY_NUMBER(tn_full_like, value)(stream, x, value, tensor)
/* The function of a family for the type of a number. Of unsigned 64 bits, what int64_t does not
 * hold becomes a float64. */
/* clang-format off */
#define TN_BY_NUMBER(family, value)                                                                \
  _Generic((value),                                                                                \
    float: family##_f64, double: family##_f64, long double: family##_f64,                          \
    unsigned long: family##_u64, unsigned long long: family##_u64,                                 \
    bool: family##_i64, char: family##_i64, signed char: family##_i64, short: family##_i64,        \
    int: family##_i64, long: family##_i64, long long: family##_i64,                                \
    unsigned char: family##_i64, unsigned short: family##_i64, unsigned: family##_i64)
/* clang-format on */
#endif
static inline tn_status tn_scalar_u64(tn_device *device, tn_stream *stream, tn_dtype dtype,
                                      uint64_t value, tn_tensor **scalar) {
  return value > INT64_MAX ? tn_scalar_f64(device, stream, dtype, (double)value, scalar)
                           : tn_scalar_i64(device, stream, dtype, (int64_t)value, scalar);
}
static inline tn_status tn_full_u64(tn_device *device, tn_stream *stream, tn_dtype dtype,
                                    int32_t rank, const int64_t *shape, uint64_t value,
                                    tn_tensor **tensor) {
  return value > INT64_MAX
             ? tn_full_f64(device, stream, dtype, rank, shape, (double)value, tensor)
             : tn_full_i64(device, stream, dtype, rank, shape, (int64_t)value, tensor);
}
static inline tn_status tn_full_like_u64(tn_stream *stream, const tn_tensor *x, uint64_t value,
                                         tn_tensor **tensor) {
  return value > INT64_MAX ? tn_full_like_f64(stream, x, (double)value, tensor)
                           : tn_full_like_i64(stream, x, (int64_t)value, tensor);
}

void tn_tensor_retain(tn_tensor *tensor);
void tn_tensor_release(tn_tensor *tensor);

tn_device *tn_tensor_device(const tn_tensor *tensor);
tn_dtype tn_tensor_dtype(const tn_tensor *tensor);
int32_t tn_tensor_rank(const tn_tensor *tensor);
const int64_t *tn_tensor_shape(const tn_tensor *tensor);
const int64_t *tn_tensor_strides(const tn_tensor *tensor);
int64_t tn_tensor_elements(const tn_tensor *tensor);
size_t tn_tensor_bytes(const tn_tensor *tensor);
bool tn_tensor_is_contiguous(const tn_tensor *tensor);

/* How tensors are written as text; 0 of each field is the default, and so is NULL options. */
typedef struct tn_print_options {
  uint32_t struct_size;
  int32_t precision;  /* digits behind the point, 1 to 17; 4 */
  int64_t threshold;  /* the most elements that are shown whole; 1000 */
  int32_t edge;       /* of more, how many at both ends of each long axis, 1 to 1000; 3 */
  int32_t line_width; /* columns; 80 */
} tn_print_options;
/* Writes a tensor of any strides as text: a line as in messages, "cuda:0 f32 [2, 3]", and its
 * values in nested brackets. Only elements that are shown are read, behind the work of the
 * stream that the tensor was made on, which is waited for as by tn_tensor_to_host.
 * file: NULL is the standard output; a new line follows the text. TN_ERR_IO. */
tn_status tn_tensor_print(const tn_tensor *tensor, const tn_print_options *options, FILE *file);
/* The same into memory of `size` bytes: as much of the text as fits, and a 0 behind it. length,
 * which may be NULL, gets the bytes of the whole text without the 0; text may be NULL where size
 * is 0. */
tn_status tn_tensor_format(const tn_tensor *tensor, const tn_print_options *options, char *text,
                           size_t size, size_t *length);

/* The first element's address on its device; host code may follow it only where
 * tn_device_info.host_memory is 1. NULL for a tensor without elements. Where memory is known by
 * handles (OpenCL) it is no address: tn_tensor_to_dlpack has the handle and the offset.
 * A device that shares the host's memory but works beside it is waited for, as in
 * tn_tensor_to_host; NULL with a message if that fails. What a kept pointer shows of later work
 * is sure after tn_stream_synchronize. */
void *tn_tensor_data(const tn_tensor *tensor);

/* Views share memory with x and keep it alive; nothing is copied. */

/* The same elements in another shape; one size may be -1. TN_ERR_INVALID_ARGUMENT
 * if x's strides do not allow it: make x contiguous first. */
tn_status tn_tensor_reshape(const tn_tensor *x, int32_t rank, const int64_t *shape,
                            tn_tensor **view);
/* axes: a permutation of 0..rank-1; axis i of the view is axis axes[i] of x. */
tn_status tn_tensor_permute(const tn_tensor *x, const int32_t *axes, tn_tensor **view);
/* Elements begin, begin + step, ... < end of one axis; step >= 1. Negative axis,
 * begin and end count from the end. */
tn_status tn_tensor_slice(const tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                          int64_t step, tn_tensor **view);
/* Cuts one axis into `count` parts, one after the other: views[i] has sizes[i] elements of
 * it, which must add up to the axis, or equal parts of it where sizes is NULL. Negative
 * axis counts from the end. On failure no view is left. */
tn_status tn_tensor_split(const tn_tensor *x, int32_t axis, size_t count, const int64_t *sizes,
                          tn_tensor **views);
/* Element `index` of one axis, which the view does not have. Negative axis and index count from
 * the end. */
tn_status tn_tensor_select(const tn_tensor *x, int32_t axis, int64_t index, tn_tensor **view);
/* Without one axis of size 1. Negative axis counts from the end. */
tn_status tn_tensor_squeeze(const tn_tensor *x, int32_t axis, tn_tensor **view);
/* With an axis of size 1 more, number `axis` of the view; -1 is behind the last. */
tn_status tn_tensor_unsqueeze(const tn_tensor *x, int32_t axis, tn_tensor **view);
/* Repeats axes of size 1 (and adds leading axes) to reach shape, with stride 0. */
tn_status tn_tensor_expand(const tn_tensor *x, int32_t rank, const int64_t *shape,
                           tn_tensor **view);
/* x itself with one more reference if it is row-major, else a row-major copy. */
tn_status tn_tensor_contiguous(tn_stream *stream, tn_tensor *x, tn_tensor **copy);

/* Gives a tensor to another library. The caller owns the struct and calls its
 * deleter once; the memory lives until then. The consumer's work must be ordered
 * after the tensor's: wait for the stream first. Where the memory is the host's, that has
 * happened, for the stream that the tensor was made on. Errors, here and of the relatives below:
 * UNSUPPORTED for a symbolic tensor (graph.h), which has no memory to give. */
tn_status tn_tensor_to_dlpack(tn_tensor *tensor, DLManagedTensorVersioned **managed);
tn_status tn_tensor_to_dlpack_unversioned(tn_tensor *tensor, DLManagedTensor **managed);
/* Takes a tensor from another library, without a copy; its deleter is called when
 * the last reference goes, and work on it is done: on a device that works beside the host that
 * release waits for all streams of the device. On failure the caller keeps it. Errors: UNSUPPORTED
 * for a major version, element type or device that this runtime does not have. */
tn_status tn_tensor_from_dlpack(tn_runtime *runtime, DLManagedTensorVersioned *managed,
                                tn_tensor **tensor);
tn_status tn_tensor_from_dlpack_unversioned(tn_runtime *runtime, DLManagedTensor *managed,
                                            tn_tensor **tensor);

/* The same between streams, as Python's __dlpack__(stream=...) has it. Whoever consumes a tensor
 * names the stream of its work by a number, and the producer orders its own before it:
 *   TN_DLPACK_STREAM_NONE       None: the vendor's default stream, where there is one; otherwise
 *                               the caller waits
 *   TN_DLPACK_STREAM_UNORDERED  -1: the two are ordered by other means
 *   else the vendor's handle; of CUDA 1 is the legacy default stream and 2 the thread's
 * Nobody waits, but as said. The exchange ends with the deleter: work on the memory that the
 * consumer has put into streams must be done by then, or be ordered before the tensor's. */
#define TN_DLPACK_STREAM_NONE INT64_MIN
#define TN_DLPACK_STREAM_UNORDERED (-1)
/* Gives a tensor to a consumer whose later work on `consumer` comes after the work that `stream`
 * has been given; NULL is the stream that the tensor was made on. Errors: UNSUPPORTED for a
 * handle, where the device's plugin takes none (tn_stream_wrap) or has no streams. */
tn_status tn_tensor_to_dlpack_stream(tn_tensor *tensor, tn_stream *stream, int64_t consumer,
                                     DLManagedTensorVersioned **managed);
/* The same for consumers that know the struct from before DLPack 1.0 alone. */
tn_status tn_tensor_to_dlpack_stream_unversioned(tn_tensor *tensor, tn_stream *stream,
                                                 int64_t consumer, DLManagedTensor **managed);
/* Takes a tensor on which the producer works on `producer`: later work of `stream`, NULL being
 * the device's default one, comes after it. A producer that was told of our stream has seen to
 * that itself: then producer is TN_DLPACK_STREAM_NONE, and tn_tensor_from_dlpack does as well
 * where that was the default one. The tensor counts as made on `stream`: functions that are not
 * given a stream, as tn_tensor_to_host, work on that, or once it is destroyed on the default one.
 * tn_tensor_from_dlpack's is the default one. Its release waits as that one's does. */
tn_status tn_tensor_from_dlpack_stream(tn_runtime *runtime, DLManagedTensorVersioned *managed,
                                       tn_stream *stream, int64_t producer, tn_tensor **tensor);
/* The number by which a producer is told of our stream. */
int64_t tn_stream_to_dlpack(const tn_stream *stream);

/* What a table of DLPack's exchange functions (DLPackExchangeAPI) is made of, beside
 * tn_tensor_to_dlpack_stream with TN_DLPACK_STREAM_UNORDERED, tn_tensor_from_dlpack and, for its
 * current_work_stream, tn_stream_native: */
/* The device of tensors that say so of themselves; the best, of several. TN_ERR_NOT_FOUND. */
tn_status tn_device_find_dlpack(tn_runtime *runtime, DLDevice dl_device, tn_device **device);
/* What a tensor looks like to a consumer that keeps nothing: valid as long as the tensor. Not of
 * a symbolic one. */
tn_status tn_tensor_dlpack_view(const tn_tensor *tensor, DLTensor *view);
/* TN_DTYPE_NONE for what Tenon has no element type for; all zero for what is none. */
tn_dtype tn_dtype_from_dlpack(DLDataType type);
DLDataType tn_dtype_to_dlpack(tn_dtype dtype);

/* --------------------------------------------------------------- operators --- */

/* One operator call, as the functions in ops.h make it. */
typedef struct tn_call {
  uint32_t struct_size;
  uint32_t op;                /* TN_OP_*, or from tn_op_find */
  tn_stream *stream;          /* NULL: default stream */
  const tn_tensor *const *in; /* inputs in schema order, optional ones may be NULL */
  tn_tensor **out;            /* in-out tensors, then outputs; outputs that are NULL are made */
  const void *attrs;          /* the attribute struct; NULL = defaults */
  uint16_t num_in, num_out;   /* as many as the schema has; of a list all its tensors */
  uint32_t skip_out;          /* bit i: optional output i is not wanted */
} tn_call;

/* Validates the call, makes missing outputs, runs the best kernel on the stream. Of an
 * operator whose output shape depends on data (nonzero) it waits for the stream and cuts
 * the outputs that it made along axis 0; outputs given have the largest shape, and the
 * count that is the last output says how much of them was written.
 * Errors: INVALID_ARGUMENT (operator, tensors and remedy in the message),
 * UNSUPPORTED (no kernel, and the fallback policy is error). */
tn_status tn_invoke(const tn_call *call);

/* The same call with everything resolved, to be run many times: tensors, kernel and
 * workspace are kept by the handle. Outputs that are NULL are made and returned in
 * call->out, owned by the caller as with tn_invoke; where their shape depends on data
 * they have and keep the largest one. Attributes are copied: what the caller writes to the
 * struct later changes nothing. Operators whose attributes count (the step of Adam, the offset of
 * random numbers) repeat themselves unless tn_prepared_set_attrs says what comes next, or an
 * attribute that is a tensor (step_from, offset_from), which is kept and read by each run. */
tn_status tn_prepare(const tn_call *call, tn_prepared **prepared);
/* One thread at a time, as for the stream of the call. */
tn_status tn_run(tn_prepared *prepared);
/* Gives a prepared call other attributes (the attribute struct; NULL = defaults), which hold from
 * the next tn_run on. They are copied and validated as by tn_prepare, and the kernel and its
 * workspace chosen anew: about the cost of preparing, without its allocations. Errors, after
 * which the call is as before: INVALID_ARGUMENT where attributes are out of bounds or outputs would
 * have another shape or type; UNSUPPORTED where tn_prepare_candidate chose the kernel and it does
 * not take them. Not while another thread is inside tn_run of the same handle. */
tn_status tn_prepared_set_attrs(tn_prepared *prepared, const void *attrs);
void tn_prepared_release(tn_prepared *prepared);

/* The operators, built in and from plugins. */
size_t tn_op_count(tn_runtime *runtime);
/* The schema (struct tn_operator of plugin.h) of the operator at `index`. */
const struct tn_operator *tn_op_at(tn_runtime *runtime, size_t index);
/* The number that tn_call takes. */
tn_status tn_op_find(tn_runtime *runtime, const char *name, uint32_t *op);

/* Products and sums over axes by letters (Einstein's sums), as NumPy's einsum: each operand's axes
 * have a letter each, those that the result does not have are summed over, equal letters in one
 * operand take its diagonal:
 *     tn_einsum(stream, "bij,bkj->bik", (const tn_tensor *const[]){q, k}, 2, &scores);
 * "..." stands for axes without letters, which broadcast; so do axes of one element. Without "->"
 * the result has the axes of "..." and, in the alphabet's order, upper case first, the letters that
 * stand once. Blanks count for nothing. operands: 1 to 32 of one type, no bools; they stay the
 * caller's. The result is new and row-major. Made of views and calls (tn_sum, tn_mul, tn_matmul
 * and, of integers, which wrap, tn_matmul_int), two operands at a time and those first that cost
 * least, so that it works on symbolic tensors (graph.h), and gradients pass through it. Errors:
 * INVALID_ARGUMENT; UNSUPPORTED where the product of two operands would have more than TN_MAX_RANK
 * axes. */
tn_status tn_einsum(tn_stream *stream, const char *equation, const tn_tensor *const *operands,
                    size_t count, tn_tensor **result);

/* ----------------------------------------------------------- random numbers --- */

/* A sequence of random numbers: a seed, and the place in it that the next call begins at. Random
 * operators themselves know no state, only attributes seed and offset; a generator hands these out
 * so that no two calls draw the same numbers. It names no device: the numbers are the same on all.
 * Thread-safe, without a lock. */
tn_status tn_generator_create(tn_runtime *runtime, uint64_t seed, tn_generator **generator);
void tn_generator_destroy(tn_generator *generator);
/* Sets seed and offset of an attribute struct, which is filled otherwise, for one call of the
 * operator, and moves on by what that call takes:
 *     tn_dropout_attrs attrs = TN_DROPOUT_DEFAULTS;
 *     tn_generator_next(generator, TN_OP_DROPOUT, x, &attrs);
 *     tn_dropout(stream, x, &attrs, &y, &mask);
 * tensor: the operator's first, the one that it reads or else fills. attrs: of that operator, all
 * but seed and offset final. Errors, the generator being as before: INVALID_ARGUMENT for an
 * operator that draws nothing, and where the sequence of 2^64 places is used up; UNSUPPORTED for a
 * plugin's operator, which says itself what it takes. */
tn_status tn_generator_next(tn_generator *generator, uint32_t op, const tn_tensor *tensor,
                            void *attrs);
/* The same of any number of counters, as documentation of operators counts them; for kernels of
 * the caller's own. */
tn_status tn_generator_reserve(tn_generator *generator, uint64_t counters, uint64_t *seed,
                               uint64_t *offset);
/* All there is to a generator, to keep with a checkpoint and to go on from there. Either pointer
 * may be NULL. set_state beside another thread's next is no error, but that call may get either
 * one's seed. */
tn_status tn_generator_get_state(const tn_generator *generator, uint64_t *seed, uint64_t *offset);
tn_status tn_generator_set_state(tn_generator *generator, uint64_t seed, uint64_t offset);

/* ------------------------------------------------------------------ kernels --- */

/* A kernel that may run. */
typedef struct tn_kernel_info {
  uint32_t struct_size;
  int32_t priority;
  const char *name;
  const char *plugin;
  const char *note;    /* what its row says of when and why it is taken; "" if nothing */
  uint32_t some_calls; /* 1: it looks at each call and may leave it to the next kernel */
  uint32_t reserved;
} tn_kernel_info;
/* dtype: of type variable T. rank 0 is the best kernel, 1 the next.
 * TN_ERR_UNSUPPORTED past the last; if there is none at all, the message lists the
 * nearest rows. */
tn_status tn_kernel_find(tn_device *device, uint32_t op, tn_dtype dtype, uint32_t rank,
                         tn_kernel_info *info);
/* tn_prepare by the kernel that stands at `rank` among those that take the call, 0 being the
 * one that tn_prepare takes: to compare them. Tensors must lie as that kernel wants them,
 * which row-major ones do. TN_ERR_UNSUPPORTED past the last. */
tn_status tn_prepare_candidate(const tn_call *call, uint32_t rank, tn_prepared **prepared);
/* Which kernel a prepared call runs. TN_ERR_UNSUPPORTED where it falls back. */
tn_status tn_prepared_kernel(const tn_prepared *prepared, tn_kernel_info *info);

/* A kernel that some plugin brought, for whatever device, present or not. */
typedef struct tn_kernel_row {
  uint32_t struct_size;
  uint32_t op; /* 0: one that is not there; the kernel waits for the plugin that brings it */
  const char *name;
  const char *plugin;
  const char *device_type;              /* "*host": every device in host memory */
  tn_dtype_set types[TN_MAX_TYPE_VARS]; /* as in plugin.h: 0 = those of TN_SET_ALL */
  int32_t priority;
  uint32_t flags; /* TN_KERNEL_* of plugin.h */
} tn_kernel_row;
/* Describes kernel `index`, plugin by plugin; TN_ERR_NOT_FOUND past the last. */
tn_status tn_kernel_at(tn_runtime *runtime, size_t index, tn_kernel_row *row);

/* A layer that some plugin brought. */
typedef struct tn_layer_info {
  uint32_t struct_size;
  uint32_t place;   /* among those that are on: 1 is the outermost; 0: it is off */
  const char *name; /* what TENON_LAYERS takes */
  const char *plugin;
  const char *description; /* "" where it says nothing of itself */
} tn_layer_info;
/* Describes layer `index`, plugin by plugin; TN_ERR_NOT_FOUND past the last. */
tn_status tn_layer_at(tn_runtime *runtime, size_t index, tn_layer_info *info);

/* What fell back to a host device so far. */
typedef struct tn_fallback_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t calls;
  uint64_t bytes; /* copied there and back */
} tn_fallback_stats;
/* op: a number, or 0 for all operators together. */
tn_status tn_fallback_get_stats(tn_device *device, uint32_t op, tn_fallback_stats *stats);

/* -------------------------------------------------------- files of tensors --- */

/* Named tensors in the safetensors format: 8 bytes of length, a header in JSON, the data.
 * https://huggingface.co/docs/safetensors. The element types F64, F32, F16, BF16, I64, I32, I16,
 * I8, U8, BOOL, F8_E4M3 and F8_E5M2 are Tenon's.
 *
 *     tn_tensors *file;
 *     size_t i;
 *     if (tn_tensors_open("model.safetensors", &file)) ...
 *     tn_tensors_find(file, "fc1.weight", &i);
 *     tn_tensors_load(file, i, device, &weight);
 *     tn_tensors_close(file); // weight stays
 *
 * What is in a file may be anybody's: every number of the header is checked against the file and
 * against the others when it is opened, and a file that is not exactly as the format has it is
 * refused as a whole. Texts are UTF-8. */
typedef struct tn_tensors tn_tensors;

/* A pair of the texts that a file may say of itself. */
typedef struct tn_tensors_metadata {
  const char *key;
  const char *value;
} tn_tensors_metadata;

/* A tensor of a file. */
typedef struct tn_tensors_entry {
  uint32_t struct_size;
  tn_dtype dtype; /* TN_DTYPE_NONE: one that Tenon does not have; it cannot be loaded */
  int32_t rank;   /* may be more than TN_MAX_RANK; it cannot be loaded then */
  uint32_t reserved;
  const char *name;
  const char *type;     /* the type in the format's words: "F32", "F8_E4M3" */
  const int64_t *shape; /* `rank` sizes */
  uint64_t offset;      /* of its data, in the file */
  uint64_t bytes;
} tn_tensors_entry;

/* Writes tensors of any devices and strides, row-major, under their names, and texts, if any
 * (num_metadata may be 0). Waits for the streams that they were made on. The file is complete
 * under its name or not there: it is written beside it, brought to the disk and then put in its
 * place with the mode that the older file had, following symbolic links; on failure an older file
 * stays as it was. Takes some megabytes of memory beside the largest names, whatever the tensors'
 * size. Errors: INVALID_ARGUMENT for names or keys that are double, not UTF-8 or "__metadata__"; IO
 * with the system's reason. */
tn_status tn_tensors_save(const char *path, size_t count, const char *const *names,
                          const tn_tensor *const *tensors, size_t num_metadata,
                          const tn_tensors_metadata *metadata);

/* Opens a file and checks its header. Errors: NOT_FOUND; IO where it cannot be read or is not as
 * the format has it, with the file, the tensor and what is wrong with it. An open file may be used
 * by several threads at once. Its memory is the C library's. */
tn_status tn_tensors_open(const char *path, tn_tensors **file);
/* Tensors that were loaded stay. NULL is accepted. */
void tn_tensors_close(tn_tensors *file);

/* The tensors of a file, in the order of their names' bytes. */
size_t tn_tensors_count(const tn_tensors *file);
/* Describes tensor `index`; TN_ERR_NOT_FOUND past the last. */
tn_status tn_tensors_at(const tn_tensors *file, size_t index, tn_tensors_entry *entry);
/* The index of a name. TN_ERR_NOT_FOUND. */
tn_status tn_tensors_find(const tn_tensors *file, const char *name, size_t *index);
/* Text `index`, in the order of their keys' bytes; TN_ERR_NOT_FOUND past the last. */
tn_status tn_tensors_metadata_at(const tn_tensors *file, size_t index, tn_tensors_metadata *pair);

/* Tensor `index` on a device. On one that computes in the caller on host memory it is the file's
 * own bytes, mapped and not copied: read when they are first used, read-only (an operator that is
 * to write to it fails; tn_copy makes one that may be written), and the mapping lives as long as
 * the tensor. As with every mapping, what others write to the file meanwhile may be seen in the
 * tensor, and where they cut it the process is sent SIGBUS: replace such files by a rename, as
 * tn_tensors_save does. Everywhere else, and where the file does not align the tensor or its type
 * is bool, it is copied, and the copy is done when this returns. Errors: UNSUPPORTED for a type or
 * rank that Tenon does not have; IO where the file is no longer as long as it was or cannot be
 * read, or a bool is neither 0 nor 1. */
tn_status tn_tensors_load(const tn_tensors *file, size_t index, tn_device *device,
                          tn_tensor **tensor);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include "tenon/ops.h"

#endif /* TENON_TENON_H */
