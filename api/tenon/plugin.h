/*
 * The plugin ABI: everything a shared object needs to bring devices, kernels,
 * operators or layers to Tenon. Include this header alone; link nothing of Tenon.
 *
 * The rules, once:
 *
 *  Entry.      A plugin exports one symbol, tn_plugin_query, and carries one ELF
 *              note (TN_PLUGIN_DEFINE writes both). The query runs no device code,
 *              starts no thread and opens nothing: it looks at the CPU at most and
 *              returns a static const table, or NULL after host->fail said why.
 *  Versions.   The host offers a range of ABI versions in the tn_host it passes;
 *              the plugin states its own range in the note and in tn_plugin. The
 *              highest version both know is used. Structs begin with struct_size:
 *              a reader uses a field only if it lies inside that size, and an
 *              absent field means NULL or 0. Set struct_size with sizeof.
 *  Ownership.  Tables and strings a plugin returns stay valid, unchanged, until the
 *              process ends: libraries are never unmapped. Handles a plugin makes
 *              (devices, streams, events, memory) go back to the plugin that made
 *              them. Pointers in tn_kernel_args live until the kernel returns.
 *  State.      No mutable statics: several runtimes in one process may open the
 *              same plugin. Keep state in the device handle or the plugin context.
 *  Errors.     Return a tn_status. Set the message with host->fail where the
 *              knowledge is: return host->fail(TN_ERR_BACKEND, "cublasLtMatmul: %s", s).
 *              A failure without a message for its status is reported as one of the
 *              plugin that gave no reason, a status that does not exist as
 *              TN_ERR_BACKEND with its number, and so
 *              is TN_OK from open, alloc, queue_create or event_create with NULL.
 *              Never abort, exit, print, install signal handlers or throw across
 *              the boundary. A kernel that fails has written nothing it cannot
 *              leave behind.
 *  Threads.    Every function may be called from any thread. Calls that name the
 *              same stream come one at a time, with two exceptions: several threads
 *              may use a device's default stream at once, kernels included, and
 *              event_record may be called for any stream at any time. Make no
 *              threads of your own for kernels: use host->parallel_for.
 *  Calls back. A plugin calls the host through tn_host alone, from any function and any
 *              thread; nothing of tenon.h, which would come back to it and to its locks.
 *  Names.      Of a plugin 1 to 47 of a-z, 0-9, '_' and '-', which is not the first; of
 *              device types 1 to 63 of a-z, 0-9 and '_'; of operators as tn_operator.name
 *              says. Of kernels any text, by convention "cpu.add.f32", and of layers any
 *              without a comma, at which TENON_LAYERS is parted.
 *  Fork.       In a forked child nothing that the parent made is used, not even given
 *              back; a runtime that the child opens calls tn_plugin.open anew, and
 *              `count` where TN_BACKEND_FORK_SAFE says that it may. So the plugin's
 *              own open touches no driver.
 *  Trust.      The dispatcher has validated every call against the operator's
 *              schema before a kernel runs: devices, element types, shapes,
 *              aliasing. Kernels do not check again.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include "tenon/base.h"
#include "tenon/op_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI version that this header describes, and the oldest it can serve. */
#define TN_ABI_VERSION 1u
#define TN_ABI_VERSION_MIN 1u

/* True where `field` lies inside the size that a struct states of itself. */
#define TN_HAS_FIELD(ptr, type, field)                                                             \
  ((ptr)->struct_size >= offsetof(type, field) + sizeof((ptr)->field))

/* The field, or `otherwise` where the struct ends before it: how a kernel reads an attribute
 * that was appended to its operator, since a host of before knows nothing of it. */
#define TN_FIELD_OR(ptr, type, field, otherwise)                                                   \
  (TN_HAS_FIELD(ptr, type, field) ? (ptr)->field : (otherwise))

/* Words of flags have two halves. The lower bits are promises, which a reader that does not
 * know one passes over; the upper bits are demands: a plugin that sets one which the host
 * does not know is refused. Flags narrower than that are demands all of them. */
#define TN_FLAGS_DEMANDS 0xffff0000u

typedef struct tn_host tn_host;
typedef struct tn_kernel tn_kernel;
typedef struct tn_kernel_args tn_kernel_args;

/* ---------------------------------------------------------------- the host --- */

/* One share of a parallel loop: indexes begin <= i < end. */
typedef tn_status (*tn_range_fn)(void *ctx, int64_t begin, int64_t end);

/* Services of the runtime that opened the plugin, append-only. Valid until the
 * plugin's close returns; but tn_plugin_query's may be a scan's, and is gone when the
 * query returns. All functions are thread-safe. */
struct tn_host {
  uint32_t struct_size;
  uint32_t abi_min, abi_max; /* the range of ABI versions that the host serves */
  uint32_t math;             /* tn_math: how float32 products may be computed */
  uint32_t deterministic;    /* 1: the same call twice must give the same bits */
  uint32_t num_threads;      /* threads that parallel_for spreads over, caller included */
  const char *version;       /* of the host library, for people */
  void *impl;                /* the runtime's own */

  /* Sets the calling thread's error message (printf format) and returns `code`. */
  tn_status (*fail)(tn_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

  /* Writes to the host's log, if the level is on. */
  void (*log)(const tn_host *host, tn_log_level level, const char *format, ...)
      __attribute__((format(printf, 3, 4)));

  /* Host memory of at least `bytes` bytes at an `align`-byte boundary (a power of
   * two), NULL when there is none; `bytes` of 0 gives a pointer that can be freed.
   * free accepts NULL. */
  void *(*alloc)(const tn_host *host, size_t bytes, size_t align);
  void (*free)(const tn_host *host, void *ptr);

  /* Runs fn over 0 <= i < n in shares of at least `grain` indexes, in the caller
   * and in the host's pool; returns the first status that is not TN_OK. A loop
   * inside a loop runs in its caller. */
  tn_status (*parallel_for)(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                            void *ctx);

  /* The context that tn_plugin.open made for the plugin that brought `kernel`, a row as
   * args->kernel has it: where kernels for another plugin's device keep their state. */
  void *(*plugin_context)(const tn_host *host, const tn_kernel *kernel);
};

/* ------------------------------------------------------------ the operators --- */

/* Whether an argument is read, written, or both. */
typedef enum tn_arg_kind {
  TN_ARG_IN = 0,
  TN_ARG_OPTIONAL_IN = 1, /* may be NULL */
  TN_ARG_INOUT = 2,       /* given by the caller, updated in place; kernels find it among out */
  TN_ARG_OUT = 3,
  TN_ARG_OPTIONAL_OUT = 4, /* written only if the caller asks for it */
} tn_arg_kind;

/* The element type of an argument: type variable 0..3 of the row, tn_dtype_wide of one that
 * an earlier argument has, or a fixed type. */
#define TN_TYPE_VAR(index) (index)
#define TN_TYPE_WIDE(index) (0x20 | (index))
#define TN_TYPE_FIXED(dtype) (0x40 | (dtype))
/* Which of the three an argument's type is, and what it names: the variable of TN_TYPE_VAR and
 * TN_TYPE_WIDE, the tn_dtype of TN_TYPE_FIXED. */
#define TN_TYPE_IS_VAR(type) (((type)&0x60) == 0)
#define TN_TYPE_IS_WIDE(type) (((type)&0x20) != 0)
#define TN_TYPE_IS_FIXED(type) (((type)&0x40) != 0)
#define TN_TYPE_OPERAND(type) ((type)&0x1f)

/* One tensor or more (TN_MAX_LIST at the most), none of them NULL and all of one type, one
 * after the other among the tensors of a call. All lists of a call have one length, which
 * follows from the number of tensors given. Inputs and in-out arguments can be lists, unless
 * the operator is TN_OPERATOR_ELEMENTWISE or TN_OPERATOR_DATA_DEPENDENT. */
#define TN_ARG_LIST 1u

/* An input that the caller may leave out (NULL) where it is a scalar (rank 0): it then is 1. The
 * host puts a tensor there, of the type that other arguments give the type variable, so that
 * shape rules, layers and kernels always see one. A TN_ARG_IN, no list nor beside lists. */
#define TN_ARG_OR_ONE 2u

typedef struct tn_arg {
  const char *name;
  uint8_t kind;  /* tn_arg_kind */
  uint8_t type;  /* TN_TYPE_VAR, TN_TYPE_WIDE or TN_TYPE_FIXED */
  uint8_t flags; /* TN_ARG_*; a host refuses all that it does not know */
  uint8_t reserved[5];
  const char *doc;
  double low, high; /* where conformance cases draw from; equal: anywhere */
  uint64_t reserved2;
} tn_arg;

typedef enum tn_attr_type {
  TN_ATTR_I64 = 0,    /* int64_t */
  TN_ATTR_U64 = 1,    /* uint64_t */
  TN_ATTR_F64 = 2,    /* double */
  TN_ATTR_FLAG = 3,   /* int32_t, 0 or 1 */
  TN_ATTR_DTYPE = 4,  /* int32_t, a tn_dtype */
  TN_ATTR_PAIR = 5,   /* int64_t[2]: height, width */
  TN_ATTR_AXES = 6,   /* tn_axes */
  TN_ATTR_TRIPLE = 7, /* int64_t[3]: depth, height, width */
  TN_ATTR_DIMS = 8,   /* tn_dims */
  /* int32_t, a tn_dtype: the element type of the first output in place of its argument's, from
   * which tn_dtype_widens to it; TN_DTYPE_NONE: the argument's, unless that is TN_BOOL, which
   * must be widened. The operator has one such attribute at most, none of TN_ATTR_DTYPE, and
   * leaves its last type variable unused. */
  TN_ATTR_RESULT = 9,
  /* const struct tn_tensor *: NULL, or one number in the device's memory that says, when the kernel
   * runs, what an attribute or the whole call comes to; tn_attr.tensor says which. Programs that
   * are recorded once and run many times change it between runs. These stand behind all other
   * attributes. Kernels read it through tn_attr_view. */
  TN_ATTR_TENSOR = 10,
} tn_attr_type;

/* What the number of a TN_ATTR_TENSOR is for. `of` is the attribute that it belongs to: F64 takes
 * an element of F64 or F32, I64 and U64 take one of I64. */
typedef enum tn_attr_use {
  TN_USE_REPLACES = 0, /* it stands for the attribute `of`, whose bounds nobody holds it to */
  TN_USE_ADDS = 1,     /* it is added to the attribute `of`, modulo 2^64 */
  /* A BOOL: where it is true the call does nothing and in-out tensors stay as they are. For
   * operators that have no other outputs. */
  TN_USE_SKIPS = 2,
} tn_attr_use;

typedef struct tn_attr_tensor {
  uint8_t use; /* tn_attr_use */
  uint8_t of;  /* which attribute, counted from 0 */
} tn_attr_tensor;

/* Whether an attribute has a bound, and whether the bound itself is allowed. */
typedef enum tn_bound {
  TN_BOUND_NONE = 0,
  TN_BOUND_CLOSED = 1,
  TN_BOUND_OPEN = 2,
} tn_bound;

/* One field of an operator's attribute struct. */
typedef struct tn_attr {
  const char *name;
  uint32_t type; /* tn_attr_type */
  uint32_t offset;
  double default_value; /* every number of a pair or triple; axes and dims default to none */
  const char *doc;
  double low, high;              /* of every number of the attribute; NaN is inside no bounds */
  uint8_t low_bound, high_bound; /* tn_bound */
  union {
    uint8_t reserved[6];
    tn_attr_tensor tensor; /* of a TN_ATTR_TENSOR */
  };
  uint64_t reserved2;
} tn_attr;

/* The one element that a TN_ATTR_TENSOR stands for, as kernels see tensors; NULL for none. It lies
 * in the memory of the call's device, and no output shares it. */
static inline const DLTensor *tn_attr_view(const struct tn_tensor *given) {
  return (const DLTensor *)(const void *)given;
}

/* What an operator's row promises. */
enum {
  /* Computes each output element from the input elements at the same place.
   * Kernels get inputs expanded to the output's shape (stride 0 where broadcast),
   * and an output may be the very tensor that is an input. */
  TN_OPERATOR_ELEMENTWISE = 1u << 0,
  /* Draws random numbers from attributes seed and offset. */
  TN_OPERATOR_RANDOM = 1u << 1,
  /* Sums many terms: results are judged by relative norm, not in ULP. */
  TN_OPERATOR_ACCUMULATES = 1u << 2,
  /* The output's shape depends on data: the call waits for the device. The shape rule
   * gives the largest shape there can be; the last output is a scalar I64 in which the
   * kernel says how long axis 0 of the others came out. Outputs that the call made are
   * cut to that length; outputs given have the largest shape and keep it. */
  TN_OPERATOR_DATA_DEPENDENT = 1u << 3,
  /* The result depends on the element type beyond rounding (conversions, random
   * numbers): it is judged by the reference in the call's own types, not in float64. */
  TN_OPERATOR_TYPED = 1u << 4,
  /* The sign of a result that is zero is left open. */
  TN_OPERATOR_ZERO_SIGN_OPEN = 1u << 5,
  /* There is no value over no elements: reducing none is an error. */
  TN_OPERATOR_NEEDS_ELEMENTS = 1u << 6,
};

/* What automatic mixed precision (graph.h) does with the float32 and 16-bit inputs of an operator.
 * float64 and integers stay as they are, and so do operators that update in place. */
typedef enum tn_precision {
  TN_PRECISION_UNSAID = 0, /* nothing */
  TN_PRECISION_LOW = 1,    /* are cast to the 16-bit type: products of matrices and the like */
  TN_PRECISION_F32 = 2,    /* are cast to float32: losses, long sums */
  TN_PRECISION_WIDEST = 3, /* to the widest among them: additions and the like */
} tn_precision;

struct tn_gradient;

/* An operator's schema: what the dispatcher checks and what documentation says.
 * Tenon's own rows come from ops.def; a plugin's own operators use the same struct. */
typedef struct tn_operator {
  uint32_t struct_size;
  uint32_t id;    /* TN_OP_*; 0 in a plugin's own operator: the host numbers it */
  uint32_t since; /* the ABI version that brought it */
  uint32_t flags; /* TN_OPERATOR_* promises */
  /* Of a plugin's own: a prefix of its vendor's, a dot and a name, "acme.swiglu"; both are of a-z,
   * 0-9 and _. Tenon's own have no dot, so that such a name never meets one. A name without a dot
   * is taken with a warning; of a name that exists already the operator is left out, and the
   * plugin's kernels for it, with a warning in its report. */
  const char *name;
  tn_dtype_set types[TN_MAX_TYPE_VARS]; /* per type variable, 0 = variable unused */
  uint32_t shape;                       /* tn_shape_rule */
  uint32_t num_args;
  const tn_arg *args; /* inputs first, then in-out, then outputs */
  uint32_t num_attrs;
  uint32_t attrs_size; /* bytes of the attribute struct, 0 = none */
  const tn_attr *attrs;
  double tolerance;   /* bound on the error in float32: ULP, or relative norm if it accumulates */
  const char *doc;    /* one sentence */
  const char *maths;  /* one line */
  const char *source; /* where the maths comes from, or NULL */
  /* For TN_SHAPE_CUSTOM: fills out[i]->ndim and out[i]->shape[] (room for
   * TN_MAX_RANK) from the inputs, or fails with a message: TN_ERR_INVALID_ARGUMENT for what it
   * does not take. The in-out tensors follow the inputs in `in`, and NULL follows the last. */
  tn_status (*infer)(const tn_host *host, const DLTensor *const *in, DLTensor *const *out,
                     const void *attrs);
  uint32_t arg_size;  /* sizeof(tn_arg), the distance of the rows of args; 0 = as in version 1 */
  uint32_t attr_size; /* sizeof(tn_attr), likewise */
  /* How many bytes of the attribute struct a kernel knows whose row does not say (its attrs_size
   * is 0): the struct's size when the operator was new. 0: all of it, nothing was appended. */
  uint32_t attrs_known;
  uint32_t precision; /* tn_precision: what automatic mixed precision does with its inputs */
  /* The gradients of the loss by what a call read, from those by what it wrote: calls g->call for
   * what it computes and g->give for each input that g->wanted says. It computes nothing itself, on
   * no memory: the tensors may be those of a graph, which have none. NULL: the operator has no
   * gradient, and asking for one is an error. Any thread. */
  tn_status (*gradient)(struct tn_gradient *g);
} tn_operator;

/* What a gradient rule works with; valid until it returns. Append-only. */
typedef struct tn_gradient {
  uint32_t struct_size;
  uint16_t num_in, num_out; /* tensors, as in tn_kernel_args */
  /* Shapes and types, with data that the rule may not read: the inputs and then the in-out tensors
   * as before the call (their numbers are gone, only their shapes may be used); the in-out tensors
   * as after it and then the outputs; the gradients by those, NULL where none arrives, not all of
   * them. NULL is also an optional tensor that was left out. */
  const DLTensor *const *in, *const *out, *const *out_gradient;
  const bool *wanted; /* [num_in]: a gradient by this input is asked for */
  const void *attrs;  /* of the call, complete; NULL if the operator has none */
  const tn_host *host;
  void *impl; /* the host's own */
  /* Calls an operator by its name, "mul", on tensors from here: out[i] is NULL before, for each
   * output, and a tensor after, until the rule returns. attrs: NULL for the defaults. Operators
   * that update a tensor in place are refused. */
  tn_status (*call)(struct tn_gradient *g, const char *op, const void *attrs, uint32_t num_in,
                    const DLTensor *const *in, uint32_t num_out, const DLTensor **out);
  /* A constant of rank 0 of the type of `like`, which operators broadcast. */
  tn_status (*number)(struct tn_gradient *g, const DLTensor *like, double value,
                      const DLTensor **out);
  /* The gradient by input `in`, or a further part of it: of its shape, or of one that it was
   * broadcast to, over which it is summed; of another float type, it is cast. */
  tn_status (*give)(struct tn_gradient *g, uint32_t in, const DLTensor *gradient);
} tn_gradient;

/* Argument and attribute `index` of an operator that somebody else made, whose rows may be
 * longer or shorter than this header's: fields past `arg_size` and `attr_size` are not there. */
static inline const tn_arg *tn_operator_arg(const tn_operator *op, uint32_t index) {
  size_t size_1 = offsetof(tn_arg, reserved2) + sizeof op->args->reserved2;
  const char *rows = (const char *)op->args;
  return (const tn_arg *)(const void *)(rows + index * (op->arg_size ? op->arg_size : size_1));
}
static inline const tn_attr *tn_operator_attr(const tn_operator *op, uint32_t index) {
  size_t size_1 = offsetof(tn_attr, reserved2) + sizeof op->attrs->reserved2;
  const char *rows = (const char *)op->attrs;
  return (const tn_attr *)(const void *)(rows + index * (op->attr_size ? op->attr_size : size_1));
}

/* -------------------------------------------------------------- the kernels --- */

/* What a call that runs many times, as those of a program do, keeps for its kernel from run to run:
 * constant weights in the layout that the kernel wants, say. One run follows the other. */
typedef struct tn_kept {
  uint32_t struct_size;
  uint32_t constants; /* bit i: in[i] is the same tensor with the same numbers in every run */
  void *data;         /* the kernel's to set; NULL before */
  /* Set with data, and called with it when the call is given back or gets other attributes. */
  void (*release)(const tn_host *host, void *data);
} tn_kept;

/* One call as a kernel sees it. */
struct tn_kernel_args {
  uint32_t struct_size;
  uint16_t num_in, num_out;
  /* In schema order, lists laid out one tensor after the other; num_in and num_out count
   * tensors. An absent optional tensor is NULL. In-out arguments stand first in out. Strides are
   * never NULL, count elements, and may be 0 or, where the program imported such memory, negative.
   * On devices with addressable memory byte_offset is 0, so data points at the first element; with
   * TN_BACKEND_OPAQUE_MEMORY data is a handle of alloc's and the element at byte_offset in it.
   *
   * Element types are a tn_dtype: tn_dtype_of(t->dtype). Tensors that Tenon made begin at the
   * device's alignment_bytes; views and imports are aligned to their elements and no more.
   * Kernels are called for tensors without elements too, whose data may be anything, NULL too.
   * Only elementwise operators see their inputs in the output's shape: others broadcast
   * themselves, as matmul its batch axes, which may be absent or of size 1 in one of the two.
   * No output shares an element with an input or another output, nor holds one twice; of an
   * elementwise operator an output may be the very same view as an input. Inputs may be alike. */
  const DLTensor *const *in;
  DLTensor *const *out;
  /* The operator's attribute struct, complete; NULL if it has none. A host of before may have a
   * shorter one than this header: appended attributes are read with TN_FIELD_OR. Axes that the
   * operator's shape rule reads lie in 0 to rank - 1, whatever the program wrote; a host of
   * before, and an operator with a rule of its own, leaves them negative where they count from
   * the end. */
  const void *attrs;
  const tn_host *host;
  const tn_kernel *kernel; /* the row being run */
  void *device;            /* the handle that the device's backend made */
  void *queue;             /* the backend's stream handle, NULL with TN_BACKEND_SYNCHRONOUS */
  void *native_stream;     /* what the vendor's API calls a stream (cudaStream_t), or NULL */
  /* As many bytes as the row's workspace function asked for, aligned as allocations are and with
   * anything in them; NULL for 0. The kernel's until its work in the queue is done. */
  void *workspace;
  size_t workspace_bytes;
  uint64_t workspace_offset; /* of opaque memory: bytes from the handle that workspace then is */
  /* NULL of most calls, or behind struct_size: to be read with TN_FIELD_OR. Only on devices with
   * TN_BACKEND_SYNCHRONOUS, and not when `supports` is asked. */
  tn_kept *kept;
};

typedef tn_status (*tn_kernel_fn)(const tn_kernel_args *args);

/* What a kernel can take and what it promises. */
enum {
  TN_KERNEL_STRIDED = 1u << 0,       /* any strides; otherwise tensors come row-major contiguous */
  TN_KERNEL_DETERMINISTIC = 1u << 1, /* the same bits every time where tn_host asks for it */
  /* May be recorded into a device graph: run only puts work into the queue, the same for the same
   * arguments, and neither waits nor allocates. Programs of which all kernels are so are. */
  TN_KERNEL_CAPTURE_SAFE = 1u << 2,
  /* Fastest on images of four axes, [n, c, h, w], whose memory is [n, h, w, c]. Where the first
   * input lies so, `supports` is asked with outputs that the call makes lying so too, and they do
   * if it says yes. It comes with TN_KERNEL_STRIDED and a `supports`. */
  TN_KERNEL_CHANNELS_LAST = 1u << 3,
};

/* Device type that stands for every device whose memory is host memory. */
#define TN_DEVICE_ANY_HOST "*host"

/* One kernel. Of the rows that fit a call, the highest priority runs. Convention:
 * reference 0, portable 100, tuned 200 and up, vendor library 300 and up. */
struct tn_kernel {
  uint32_t struct_size;
  uint32_t op;             /* TN_OP_*, or 0 with op_name set */
  const char *op_name;     /* of an operator that plugins bring; while none has, the kernel waits */
  const char *device_type; /* of one that no plugin has, the kernel serves nobody: a warning */
  const char *name;        /* stable, for people and traces: "cpu.add.f32.avx512" */
  int32_t priority;
  uint32_t flags; /* TN_KERNEL_* */
  /* Element types taken, per type variable; 0 = all that the operator allows of TN_SET_ALL: who
   * takes others names them. */
  tn_dtype_set types[TN_MAX_TYPE_VARS];
  tn_kernel_fn run;
  /* Optional: bytes of device memory wanted for this call. args->workspace is
   * NULL while asking. Asked as `supports` is, of the row that was picked and once its
   * tensors are as it wants them. */
  tn_status (*workspace)(const tn_kernel_args *args, size_t *bytes);
  /* Optional: whether the row takes these shapes and attributes. Asked in the calling thread, at
   * every call (once for all runs of a prepared one), row by row until one says yes, so it
   * must be quick: it looks at what args says, follows no data, and answers the same for the same.
   * Tensors come as the call has them: strided ones too for a row that gets copies of them. */
  bool (*supports)(const tn_kernel_args *args);
  const void *user; /* the row's own constant */
  /* Optional, for people: why the row has its priority, which calls `supports` takes:
   * "faster than cpu.conv2d where channels >= 16". Shown by `tenon info -v`. */
  const char *note;
  /* Bytes of the operator's attribute struct that the row's functions heed: sizeof(tn_foo_attrs).
   * 0: as many as the operator had when it was new (tn_operator.attrs_known). The host passes the
   * row over in calls that set an attribute beyond them away from its default. Where no row heeds
   * a call's TN_ATTR_TENSORs, the host waits, reads them, and makes the call without them. */
  uint32_t attrs_size;
  uint32_t reserved;
};

/* -------------------------------------------------------------- the backend --- */

/* The memory kinds of a backend. alloc and free are asked with the same one. */
enum {
  TN_MEMORY_DEVICE = 0, /* what kernels work on */
  TN_MEMORY_PINNED = 1, /* host memory that the device can copy asynchronously */
};

/* The direction of a copy. */
enum {
  TN_COPY_TO_DEVICE = 0, /* src is host memory */
  TN_COPY_TO_HOST = 1,   /* dst is host memory */
  /* Both are memory of this device. For layers and the conformance kit: the dispatcher's own
   * copies on a device are made by the kernel `copy`. */
  TN_COPY_ON_DEVICE = 2,
};

enum {
  /* Device memory is host memory: any host-memory device's tensors can be read
   * in place, and *host kernels serve the device. Without TN_BACKEND_SYNCHRONOUS they, and
   * whoever reads in place, wait for the queue first. */
  TN_BACKEND_HOST_MEMORY = 1u << 0,
  /* Work is done when the call returns; streams and events need no slots. */
  TN_BACKEND_SYNCHRONOUS = 1u << 1,
  /* Memory handles are no addresses: elements are found by data + byte_offset
   * only inside the backend's own kernels. */
  TN_BACKEND_OPAQUE_MEMORY = 1u << 2,
  /* In a child that was forked after `count` or anything below ran in its parent, a runtime of
   * the child's own may use the backend: it, and the driver behind it, have no thread, lock or
   * handle left over that calls would wait for. Without it, the host finds no device there and
   * says why. Host memory with synchronous work needs no such word. */
  TN_BACKEND_FORK_SAFE = 1u << 3,
};

/* What a device says of itself. The host zeroes the struct and sets struct_size. A device that
 * says what cannot be is not used, and why is told; the others are. */
typedef struct tn_device_props {
  uint32_t struct_size;
  /* DLDeviceType of its tensors; kDLExtDev where DLPack has none. Opaque memory has none of those
   * whose addresses hosts read: kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged. */
  int32_t dl_device_type;
  int32_t dl_device_id;     /* not negative */
  int32_t score;            /* higher is preferred when nobody chose; 0 = only when named */
  uint64_t memory_bytes;    /* at most 2^57; 0 = not known */
  uint64_t alignment_bytes; /* of allocations: a power of two up to 2^24; 0 = 64 */
  char name[128];           /* "NVIDIA H200"; this and the next two end with NUL */
  char features[256];       /* words: "sm_90 tensor-cores" */
  char unique_id[64];       /* PCI address or the like, to tell the same device twice */
} tn_device_props;

/* A type of device. Slots marked + are mandatory; slots marked S may be NULL with
 * TN_BACKEND_SYNCHRONOUS. `context` is what tn_plugin.open made. */
typedef struct tn_backend {
  uint32_t struct_size;
  uint32_t flags;          /* TN_BACKEND_* */
  const char *device_type; /* + "cuda": lower case letters, digits, '_' */

  /* + How many devices there are, 64 at the most: of more none is taken. 0 with a host->fail
   * message says why none. May start the vendor's driver. (A process has room for 16 types.) */
  tn_status (*count)(const tn_host *host, void *context, uint32_t *count);
  /* + Describes device `index`; once more when it is open, for its features alone. */
  tn_status (*describe)(const tn_host *host, void *context, uint32_t index, tn_device_props *out);
  /* + Makes the handle through which everything below works. */
  tn_status (*open)(const tn_host *host, void *context, uint32_t index, void **device);
  /* + Frees it; streams, events and memory have been given back before. */
  void (*close)(void *device);

  /* + Raw memory; the host caches it, so this may be slow. bytes are never 0, and the memory
   * begins at alignment_bytes. A failed device allocation returns TN_ERR_DEVICE_OUT_OF_MEMORY. */
  tn_status (*alloc)(void *device, uint32_t kind, size_t bytes, void **ptr);
  /* + Gives it back: device memory when no work uses it any more, pinned memory when the program
   * says so. */
  void (*free)(void *device, uint32_t kind, void *ptr);
  /* Free and total bytes right now. */
  tn_status (*memory_info)(void *device, uint64_t *free_bytes, uint64_t *total_bytes);
  /* + Copies `bytes` bytes, never 0, in stream order; the ranges do not overlap. A host pointer in
   * pageable memory has been read or written when the call returns; pinned memory may be in use
   * until the stream gets there. The call does not say which it is, and may point into the middle
   * of either: ask the driver (cudaPointerGetAttributes), or remember what alloc gave; a backend
   * that takes all for pageable is right and slower. Offsets are in bytes from dst and src, a
   * device's from its handle or address, and any number of bytes: nothing is aligned. */
  tn_status (*copy)(void *device, void *queue, uint32_t direction, void *dst, uint64_t dst_offset,
                    const void *src, uint64_t src_offset, size_t bytes);

  /* S An in-order queue of work. The default stream is one more, made at the device's opening.
   * queue_native gives the vendor's handle. */
  tn_status (*queue_create)(void *device, void **queue);
  void (*queue_destroy)(void *device, void *queue);
  tn_status (*queue_wait)(void *device, void *queue); /* blocks until the queue is empty */
  void *(*queue_native)(void *device, void *queue);

  /* S A point in a queue. event_record may be called again; event_query returns
   * TN_ERR_NOT_READY while work is pending; queue_wait_event makes later work of
   * the queue wait; event_elapsed is in nanoseconds between two recorded events. */
  tn_status (*event_create)(void *device, void **event);
  void (*event_destroy)(void *device, void *event);
  tn_status (*event_record)(void *device, void *event, void *queue);
  tn_status (*event_query)(void *device, void *event);
  tn_status (*event_wait)(void *device, void *event); /* blocks the caller */
  tn_status (*queue_wait_event)(void *device, void *queue, void *event);
  tn_status (*event_elapsed)(void *device, void *begin, void *end, uint64_t *ns);

  /* Optional, all four or none: records the queue's work into a graph instead of running it, and
   * replays it. From begin to end nothing but kernels that are TN_KERNEL_CAPTURE_SAFE, and copies
   * with pinned memory, come for the queue, from one thread; the host has asked their `workspace`
   * for this queue before, and begins with an idle queue that no stream has. What they point to
   * stays until the last launch of the graph is done. Other queues go on as before, and other
   * threads' calls on the device.
   * capture_end ends the recording, and leaves the queue fit for another, whether it fails or not:
   * it comes after each capture_begin that did not, after failed kernels too. graph_launch puts the
   * work into any queue of the device, in its order, at once for each launch; one that fails has
   * put in nothing. TN_ERR_UNSUPPORTED from it is for this time alone: the host makes the calls
   * instead. graph_destroy may come while launches are pending, which go on, and when the queue
   * that recorded is gone. */
  tn_status (*capture_begin)(void *device, void *queue);
  tn_status (*capture_end)(void *device, void *queue, void **graph);
  tn_status (*graph_launch)(void *device, void *graph, void *queue);
  void (*graph_destroy)(void *device, void *graph);

  /* Optional: a queue around a handle of the vendor's that the host program made, NULL being the
   * vendor's default stream. Its work and what others put into the handle run in the order in
   * which they come. The handle stays the program's, which keeps it until queue_destroy; that gives
   * back what was made here alone and does not wait for the handle's work. Fails for a handle of
   * another device, and with TN_ERR_UNSUPPORTED for one whose work is not in order. */
  tn_status (*queue_wrap)(void *device, void *native, void **queue);

  /* Optional: copies `bytes` bytes, never 0, from memory of another device of this backend,
   * `from_device`, to this one's, without the host's waiting: behind the work that both queues
   * have by now, and before what is put into either from here on. Offsets are as in `copy`.
   * TN_ERR_UNSUPPORTED where it cannot for these two devices or queues, having put in nothing: the
   * host then goes through its own memory, as it does without the slot. */
  tn_status (*copy_between)(void *device, void *queue, void *dst, uint64_t dst_offset,
                            void *from_device, void *from_queue, const void *src,
                            uint64_t src_offset, size_t bytes);
} tn_backend;

/* --------------------------------------------------------------- the layers --- */

/* One operator call on its way to its kernel. Pointers live until the call returns; `stream`
 * and the like are identities, to be compared and never followed. */
typedef struct tn_layer_call {
  uint32_t struct_size;
  uint32_t reserved;
  const tn_operator *op;
  const char *device_type;
  int32_t device_index;
  int32_t reserved2;
  const tn_kernel_args *args; /* args->kernel is the row that will run */
  const char *plugin;         /* of that row */
  const void *stream;         /* which stream the call is on, the default one included */
  const char *site;           /* what the host's tn_call_site said of this place, or NULL */
  /* The device's backend, whose slots take args->device and args->queue: events to time
   * the call by, copies to look at its outputs. Slots it lacks are NULL. */
  const tn_backend *backend;
  /* "cuda:0": the device that has no kernel for the call, which runs here in its place with
   * copies there and back; NULL for a call on its own device. */
  const char *fallback_from;
  /* "matmul", "tn_tensor_read": the operator or function that this copy serves, which wants a
   * stand-in of one of its tensors, row-major or on another device; NULL for a call that the
   * program makes. */
  const char *stand_in_for;
} tn_layer_call;

/* What else a layer is told of. */
typedef enum tn_layer_event_kind {
  TN_LAYER_TENSOR_MADE = 0,     /* object, tensor, memory, bytes, stream; views and
                                    imports have no stream, and a view's memory is known */
  TN_LAYER_TENSOR_RELEASED = 1, /* object, tensor, memory, bytes */
  TN_LAYER_MEMORY_RELEASED = 2, /* memory: the last tensor that shared it is gone */
  TN_LAYER_TENSOR_WRITTEN = 3,  /* from host memory: object, tensor, memory, bytes, stream */
  TN_LAYER_TENSOR_READ = 4,     /* to host memory: likewise */
  TN_LAYER_TENSOR_MISUSED = 5,  /* used after its release: object */
  TN_LAYER_STREAM_MADE = 6,     /* stream; object: its handle, NULL for a default stream */
  TN_LAYER_STREAM_DESTROYED = 7,
  TN_LAYER_STREAM_WAITED = 8,  /* the host waited for the stream */
  TN_LAYER_STREAM_ORDERED = 9, /* work of `stream` from here on waits for event `object` */
  TN_LAYER_EVENT_MADE = 10,    /* object */
  TN_LAYER_EVENT_DESTROYED = 11,
  TN_LAYER_EVENT_RECORDED = 12,  /* object, stream */
  TN_LAYER_EVENT_PASSED = 13,    /* the host waited for it or saw it passed: object */
  TN_LAYER_RUNTIME_CLOSING = 14, /* devices still work, tensors may still be alive */
  TN_LAYER_PREPARED_MADE = 15,   /* a prepared call: object, op */
  TN_LAYER_PREPARED_RELEASED = 16,
  TN_LAYER_PINNED_MADE = 17, /* pinned host memory: object is its address, bytes */
  TN_LAYER_PINNED_FREED = 18,
  TN_LAYER_MEMORY_RETURNED = 19, /* idle memory went back to the device: object is its handle */
  TN_LAYER_TENSOR_EXPOSED = 20,  /* its address or a DLPack export was given out: what is written
                                    there from now on is not told: object, tensor, memory, bytes */
} tn_layer_event_kind;

typedef struct tn_layer_event {
  uint32_t struct_size;
  uint32_t kind; /* tn_layer_event_kind; pass over those you do not know */
  const char *device_type;
  int32_t device_index;
  int32_t reserved;
  const void *stream;     /* identities, as in tn_layer_call */
  const void *object;     /* of the tensor or the event */
  const void *memory;     /* of the memory that a tensor shares with its views */
  const DLTensor *tensor; /* what the tensor looks like */
  uint64_t bytes;
  const char *site;          /* as in tn_layer_call */
  const tn_backend *backend; /* likewise; NULL only with RUNTIME_CLOSING */
  const tn_operator *op;     /* of a prepared call, else NULL */
  /* When a copy to or from host memory or a wait began, in nanoseconds of CLOCK_MONOTONIC; the
   * notice comes at its end. 0 where nothing took time that is not told of elsewhere. */
  uint64_t began_ns;
  /* Of a copy that Tenon makes for a call that falls back: as in tn_layer_call. */
  const char *stand_in_for;
} tn_layer_event;

/* Stands between the dispatcher and the kernels when it is named in TENON_LAYERS; costs
 * nothing when it is not. */
typedef struct tn_layer {
  uint32_t struct_size;
  uint32_t flags; /* none yet */
  const char *name;
  /* Optional: the layer's state for one runtime. */
  tn_status (*open)(const tn_host *host, void **layer);
  void (*close)(void *layer);
  /* + Handles one call: does what it is for and calls next(call, next_ctx) at
   * most once, whose status it returns unless it has its own. Thread-safe. */
  tn_status (*call)(void *layer, const tn_layer_call *call,
                    tn_status (*next)(const tn_layer_call *call, void *next_ctx), void *next_ctx);
  /* Optional: told of what happens beside calls, in the thread where it happens and, but for
   * TENSOR_RELEASED and MEMORY_RELEASED, after it has. Thread-safe. May not call back into the
   * host but through tn_host. */
  void (*notify)(void *layer, const tn_layer_event *event);
  const char *description; /* one line, for people; may be NULL */
} tn_layer;

/* --------------------------------------------------------------- the plugin --- */

/* What a plugin brings. Pointers to tables may be NULL where the count is 0. */
typedef struct tn_plugin {
  uint32_t struct_size;
  uint32_t abi_min, abi_max; /* as in the note */
  uint32_t flags;            /* none yet */
  const char *name;          /* as in the note: "cuda" for libtenon-cuda.so */
  const char *version;
  const char *description; /* one line, for people */
  const tn_backend *const *backends;
  uint32_t num_backends;
  uint32_t num_operators;
  const tn_operator *operators;
  const tn_kernel *kernels;
  uint32_t num_kernels;
  uint32_t num_layers;
  const tn_layer *layers;
  /* Optional: state for one runtime, passed to backends as `context`. `host`
   * stays valid until close. Called once per runtime before anything else. */
  tn_status (*open)(const tn_host *host, void **context);
  void (*close)(void *context);
} tn_plugin;

typedef const tn_plugin *(*tn_plugin_query_fn)(const tn_host *host);
#define TN_PLUGIN_QUERY "tn_plugin_query"

/* ----------------------------------------------------------------- the note --- */

/* Read by the loader before a line of the plugin runs. */
typedef struct tn_plugin_note {
  uint32_t abi_min, abi_max;
  uint32_t flavour; /* TN_FLAVOUR_* the plugin was built with */
  uint32_t reserved;
  char name[48];
} tn_plugin_note;

#define TN_NOTE_OWNER "Tenon"
#define TN_NOTE_TYPE 1u
#define TN_NOTE_TYPE_BRINGS 2u
#define TN_NOTE_SECTION ".note.tenon"

/* Sanitizers that must be in the host too, that is in libtenon and in the program:
 * docs/writing-a-backend.md says how to get such a one. */
#define TN_FLAVOUR_ASAN 1u
#define TN_FLAVOUR_TSAN 2u
#define TN_FLAVOUR_MSAN 4u

#if defined(__has_feature)
#define TN_HAS_SANITIZER(feature) __has_feature(feature)
#else
#define TN_HAS_SANITIZER(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || TN_HAS_SANITIZER(address_sanitizer)
#define TN_FLAVOUR_IS_ASAN TN_FLAVOUR_ASAN
#else
#define TN_FLAVOUR_IS_ASAN 0u
#endif
#if defined(__SANITIZE_THREAD__) || TN_HAS_SANITIZER(thread_sanitizer)
#define TN_FLAVOUR_IS_TSAN TN_FLAVOUR_TSAN
#else
#define TN_FLAVOUR_IS_TSAN 0u
#endif
#if TN_HAS_SANITIZER(memory_sanitizer)
#define TN_FLAVOUR_IS_MSAN TN_FLAVOUR_MSAN
#else
#define TN_FLAVOUR_IS_MSAN 0u
#endif
#define TN_FLAVOUR (TN_FLAVOUR_IS_ASAN | TN_FLAVOUR_IS_TSAN | TN_FLAVOUR_IS_MSAN)

/* The note as it lies in the file: Elf64_Nhdr, owner padded to 8 bytes, descriptor. */
typedef struct tn_plugin_note_image {
  uint32_t owner_size, desc_size, type;
  char owner[8];
  tn_plugin_note desc;
} tn_plugin_note_image;

#ifdef __cplusplus
#define TN_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define TN_PLUGIN_EXPORT extern __attribute__((visibility("default")))
#endif

/* Notes lie side by side; clang's AddressSanitizer would put room between them, which gcc's does
 * not. */
#ifdef __clang__
#define TN_NOTE_ATTRIBUTES section(TN_NOTE_SECTION), used, aligned(4), no_sanitize("address")
#else
#define TN_NOTE_ATTRIBUTES section(TN_NOTE_SECTION), used, aligned(4)
#endif

/* Written once per plugin, at file scope, before the definition of
 * tn_plugin_query: TN_PLUGIN_DEFINE("mine") */
#define TN_PLUGIN_DEFINE(plugin_name)                                                              \
  __attribute__((TN_NOTE_ATTRIBUTES)) static const tn_plugin_note_image tn_plugin_note_ = {        \
      sizeof TN_NOTE_OWNER,                                                                        \
      sizeof(tn_plugin_note),                                                                      \
      TN_NOTE_TYPE,                                                                                \
      TN_NOTE_OWNER,                                                                               \
      {TN_ABI_VERSION_MIN, TN_ABI_VERSION, TN_FLAVOUR, 0, plugin_name}};                           \
  TN_PLUGIN_EXPORT const tn_plugin *tn_plugin_query(const tn_host *host);                          \
  TN_PLUGIN_EXPORT const tn_plugin *tn_plugin_query(const tn_host *host)

/* Written at most once per plugin, at file scope: what the plugin brings, so that it is loaded
 * only when somebody needs that: TN_PLUGIN_BRINGS("device:mine kernels:mine"). Words with single
 * spaces between, 1023 bytes at the most:
 *
 *   device:TYPE       a backend; host-device:TYPE one with TN_BACKEND_HOST_MEMORY
 *   kernels:TYPE      kernels whose device_type is TYPE, TN_DEVICE_ANY_HOST included
 *   layer:NAME        a layer
 *   operators         operators of its own
 *
 * A plugin without it is loaded whenever a runtime opens, and so is one with kernels for
 * TN_DEVICE_ANY_HOST. One that brings more than it says is refused. Hosts older than this macro
 * pass over it. */
#define TN_PLUGIN_BRINGS(text)                                                                     \
  __attribute__((TN_NOTE_ATTRIBUTES)) static const struct {                                        \
    uint32_t owner_size, desc_size, type;                                                          \
    char owner[8];                                                                                 \
    char words[(sizeof(text) + 3) / 4 * 4];                                                        \
  } tn_plugin_brings_ = {sizeof TN_NOTE_OWNER, (sizeof(text) + 3) / 4 * 4, TN_NOTE_TYPE_BRINGS,    \
                         TN_NOTE_OWNER, text}

#ifdef __cplusplus
}
#endif
#endif /* TENON_PLUGIN_H */
