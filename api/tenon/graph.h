/*
 * Programs: operator calls that are written down once, planned as a whole and run many times.
 * Included beside tenon.h by programs that want it; may change until version 0.2.
 *
 *     tn_graph *graph;
 *     tn_tensor *x, *w, *y = NULL;
 *     tn_graph_create(rt, "layer", &graph);
 *     tn_graph_input(graph, "x", TN_F32, 2, (int64_t[]){64, 784}, &x);
 *     tn_graph_parameter(graph, "w", weights, &w);
 *     tn_matmul(NULL, x, w, NULL, &y);           // the ordinary functions: nothing is computed
 *     tn_graph_output(graph, "y", y);
 *     tn_graph_compile(graph, tn_runtime_device(rt), NULL, &program);
 *     tn_program_run(program, NULL, 1, &images, 1, &result);
 *
 *  Symbolic tensors belong to a graph. They have an element type and a shape and no memory.
 *      Operators validate and infer as always, with the same messages, and in place of a
 *      kernel's run the call becomes a node of the graph. Views are made by the same functions
 *      as ever. Tensors made on tn_graph_device are symbolic too: what is written to one from
 *      host memory (tn_tensor_from_host, tn_scalar) is a constant of the graph, and
 *      tn_zeros and the like are nodes. Reading one fails: it has no numbers.
 *  Ownership.  A graph keeps its tensors; symbolic tensors are released as others are, before or
 *      after their graph. A program keeps what it needs of its graph, which may go.
 *  Threads.    A graph belongs to one thread at a time. A program may be run by several threads
 *      at once, each with a stream of its own; so may a function.
 *  Order.      Nodes run in the order in which they were called, in the run's stream.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tn_graph tn_graph;
typedef struct tn_program tn_program;
typedef struct tn_function tn_function;

/* ------------------------------------------------------------- building --- */

/* An empty graph. name: for people, copied; NULL is "graph". */
tn_status tn_graph_create(tn_runtime *runtime, const char *name, tn_graph **graph);
/* Symbolic tensors that are left can only be released. */
void tn_graph_destroy(tn_graph *graph);
/* A graph of its own with the same nodes, values by the same numbers, inputs, constants and
 * outputs, and the same real tensors as parameters. Calls on tensors of either leave the other
 * alone: symbolic tensors of the copy are those of tn_graph_tensor_at. Autocast is off in it. The
 * caller's to destroy. */
tn_status tn_graph_copy(const tn_graph *graph, tn_graph **copy);
/* The device that the graph's symbolic tensors are on, for functions that take one; it goes with
 * the graph. A tensor that is made there is written from host memory whole, once and before calls
 * use it, if at all: it then is a constant, which no call may update. */
tn_device *tn_graph_device(const tn_graph *graph);
/* The graph that a symbolic tensor belongs to, NULL for a real one. */
tn_graph *tn_tensor_graph(const tn_tensor *tensor);

/* Names are copied, may not be empty, and are unique among the graph's inputs, parameters and
 * constants. The tensors returned are the caller's to release. */

/* What each run is given, row-major, in the order of these calls. */
tn_status tn_graph_input(tn_graph *graph, const char *name, tn_dtype dtype, int32_t rank,
                         const int64_t *shape, tn_tensor **tensor);
/* A real tensor that runs read and, where an operator updates it, write. The graph and its
 * programs keep it. It must be row-major; programs are compiled for its device. */
tn_status tn_graph_parameter(tn_graph *graph, const char *name, tn_tensor *value,
                             tn_tensor **tensor);
/* A real tensor, of any device and strides, that never changes: programs for another device copy
 * it when they are compiled, and so must the caller not change it. */
tn_status tn_graph_constant(tn_graph *graph, const char *name, tn_tensor *value,
                            tn_tensor **tensor);
/* What each run returns, in the order of these calls: a symbolic tensor as it is now. One whose
 * shape depends on data (nonzero) has the largest there can be, and what lies behind its count is
 * undefined. */
tn_status tn_graph_output(tn_graph *graph, const char *name, const tn_tensor *tensor);

/* ------------------------------------------------------ mixed precision --- */

/* From here on calls on the graph's tensors compute in a 16-bit float type, TN_BF16 or TN_F16,
 * where that gains speed and loses little: matrix products, convolutions and attention get their
 * float32 inputs cast to it, and what comes out stays so; losses, sums, powers and exponentials get
 * inputs of 16 bits cast to float32; operators that combine several tensors get them in the widest
 * of their types. Casts are nodes of the graph; each tensor is cast to a type once until it is
 * updated. float64, integers and operators of plugins that say nothing of their precision stay;
 * tensors that are updated in place and outputs that the caller gives keep their types, which the
 * inputs follow. What is refused is refused with the same message as without.
 * TN_DTYPE_NONE ends it; a call can change the type at any time; a copy of the graph begins
 * without. What tn_graph_gradient appends has the types of the calls that it differentiates.
 * INVALID_ARGUMENT for other types. */
tn_status tn_graph_autocast(tn_graph *graph, tn_dtype dtype);

/* ------------------------------------------------------------ gradients --- */

/* Appends what computes the gradients of `loss`, a symbolic tensor of one element, by each of the
 * symbolic tensors wrt: gradients[i], of the shape and type of wrt[i], is the caller's; NULL where
 * the loss does not depend on it. They are by the tensors as they are now: of one that is updated
 * in place, take the gradient before. What is appended can be differentiated again, as far as its
 * operators have rules (docs/gradients.md lists them). Where several elements decide together (max
 * of equal ones) or there is a kink (relu at 0) the list says what is taken. Optional outputs that
 * a rule reads (lse of attention, rstd of norms) need not have been asked for. Errors:
 * INVALID_ARGUMENT for a loss of several elements or an integer one, and where a tensor that a rule
 * reads was overwritten since; UNSUPPORTED, naming the node, for an operator without a rule. The
 * graph is as before then. */
tn_status tn_graph_gradient(tn_graph *graph, const tn_tensor *loss, size_t n, tn_tensor *const *wrt,
                            tn_tensor **gradients);
/* A copy of a tensor through which no gradient passes. */
tn_status tn_graph_stop_gradient(tn_graph *graph, const tn_tensor *tensor, tn_tensor **stopped);
/* Gradients that are asked for from here on compute the tensor again where they read it, so that
 * its memory is free between: less memory for more time. What it is computed from is kept, or is
 * such a tensor itself: mark all tensors inside a block, and its inputs are its checkpoint. Random
 * operators draw the same numbers again. INVALID_ARGUMENT for a tensor that no call, or more than
 * one, has written, and for one that a call has written into a part of other memory, or not
 * row-major. */
tn_status tn_graph_recompute(tn_graph *graph, const tn_tensor *tensor);

/* ---------------------------------------------------------------- tapes --- */

/*
 * Gradients without a graph: between tn_tape_begin and tn_tape_end the calling thread's calls run
 * as ever, and those that depend on watched tensors are recorded.
 *
 *     tn_tape_watch(tape, w);
 *     tn_tape_begin(tape);
 *     loss = model(x, w);                                      // ordinary calls
 *     tn_tape_gradient(tape, NULL, loss, NULL, 1, &w, &dw, 0); // and the record is gone
 *     tn_tape_end(tape);
 *
 * The tensors that gradient rules read are kept until a gradient has used them. One that this
 * thread has overwritten before that (by an operator that updates in place, by tn_tensor_write;
 * after tn_tape_end by a prepared call or a program too) is an error that names the call. What
 * other threads write is not seen. Copies to other devices, imports and what other threads do are
 * not recorded: no gradient passes through them. From tn_tape_end on until its record goes, a tape
 * costs the thread's calls some time: take the gradient, or tn_tape_forget.
 * Prepared calls and programs are refused while the thread records. A tape is one thread's at a
 * time, and a thread records on one at a time.
 */
typedef struct tn_tape tn_tape;
tn_status tn_tape_create(tn_runtime *runtime, tn_tape **tape);
/* Ends recording, if this thread is at it. */
void tn_tape_destroy(tn_tape *tape);
/* A tensor whose gradient may be asked for, from here on and until the tape is destroyed, which
 * keeps it. */
tn_status tn_tape_watch(tn_tape *tape, tn_tensor *tensor);
tn_status tn_tape_begin(tn_tape *tape);
tn_status tn_tape_end(tn_tape *tape);
/* As tn_graph_autocast, for the calls that follow while the tape records. Casts of watched tensors,
 * and of what is computed from them, are kept until the record goes or recording ends: a parameter
 * is cast once per step. */
tn_status tn_tape_autocast(tn_tape *tape, tn_dtype dtype);
/* Less memory for more time. With `on` other than 0 the calls that follow are a block, up to the
 * next tn_tape_recompute, which may begin another, or tn_tape_end: of what they make nothing is
 * kept for rules, but for what calls outside the block read. What the block reads from outside is
 * kept, and gradients make its calls again, all that rules need of it at once: the same numbers,
 * random ones too. Release what you have of them yourself. Calls that update in place, whose
 * outputs were given, or that take tensors as attributes are made once, and what rules and the
 * block's other calls read of what they wrote is kept. INVALID_ARGUMENT where the thread is not
 * recording on the tape. */
tn_status tn_tape_recompute(tn_tape *tape, int on);
/* Forgets what was recorded, but for what is watched. */
tn_status tn_tape_forget(tn_tape *tape);

enum {
  TN_TAPE_KEEP = 1,   /* the record stays, for more gradients */
  TN_TAPE_RECORD = 2, /* so does it, and what computes the gradients is recorded too: gradients of
                         gradients. Between tn_tape_begin and tn_tape_end */
  TN_TAPE_ADD = 4,    /* to the tensors that dx holds, which are released; NULL ones are made */
};

/* The gradients of a loss by each of x, watched tensors or ones computed from them, from dy, its
 * gradient by y; dy NULL: y is the loss, of one element. dx[i], of shape and type of x[i], is the
 * caller's; NULL where y does not depend on x[i]. The work is the stream's, NULL being the default
 * one. Errors: as tn_graph_gradient's; dx is as before then, and the record gone unless it was to
 * be kept. */
tn_status tn_tape_gradient(tn_tape *tape, tn_stream *stream, const tn_tensor *y,
                           const tn_tensor *dy, size_t n, tn_tensor *const *x, tn_tensor **dx,
                           uint32_t flags);
/* A copy of x through which no gradient passes. */
tn_status tn_tape_stop_gradient(tn_tape *tape, tn_stream *stream, const tn_tensor *x,
                                tn_tensor **stopped);

/* -------------------------------------------------------------- walking --- */

/* No value: an optional tensor that was left out. */
#define TN_GRAPH_NONE UINT32_MAX

typedef enum tn_graph_buffer_kind {
  TN_GRAPH_MADE = 0,      /* by nodes */
  TN_GRAPH_INPUT = 1,     /* given to each run */
  TN_GRAPH_PARAMETER = 2, /* a real tensor, kept between runs */
  TN_GRAPH_CONSTANT = 3,
} tn_graph_buffer_kind;

/* A tensor of the graph at one moment: a view of a buffer between two writes to it. */
typedef struct tn_graph_value {
  uint32_t struct_size;
  tn_dtype dtype;
  uint32_t buffer;  /* values of one buffer share memory */
  uint32_t version; /* how many nodes had written to the buffer */
  uint32_t kind;    /* tn_graph_buffer_kind, of the buffer */
  uint32_t node;    /* that wrote it last; TN_GRAPH_NONE before any has */
  int32_t rank;
  uint32_t reserved;
  const int64_t *shape, *strides; /* in elements */
  uint64_t offset;                /* of the first element, in bytes from the buffer's beginning */
  uint64_t buffer_bytes;
  const char *name; /* of the input, parameter or constant, else "" */
} tn_graph_value;

/* One operator call. */
typedef struct tn_graph_node {
  uint32_t struct_size;
  uint32_t num_in, num_out;
  uint32_t num_from;            /* attributes of kind TN_ATTR_TENSOR among in, 0 if the call gave
                                   none: else one for each that the operator has, in its order */
  const struct tn_operator *op; /* plugin.h */
  const void *attrs;            /* the attribute struct, complete, tensors in it being NULL; NULL if
                                   it has none */
  const uint32_t *in;           /* values read: inputs, attributes, then in-out tensors as they
                                   were; TN_GRAPH_NONE for what was left out */
  const uint32_t *out;          /* values written: in-out tensors, then outputs */
  const char *site;             /* what tn_call_site said, or "" */
} tn_graph_node;

/* Both in the order in which they came; TN_ERR_NOT_FOUND past the last. What the structs point to
 * is valid until the graph changes. */
size_t tn_graph_num_nodes(const tn_graph *graph);
tn_status tn_graph_node_at(const tn_graph *graph, size_t index, tn_graph_node *node);
size_t tn_graph_num_values(const tn_graph *graph);
tn_status tn_graph_value_at(const tn_graph *graph, size_t index, tn_graph_value *value);
/* Outputs: the value's number and, where it is not NULL, the name. */
size_t tn_graph_num_outputs(const tn_graph *graph);
tn_status tn_graph_output_at(const tn_graph *graph, size_t index, uint32_t *value,
                             const char **name);

/* A symbolic tensor that shows the value, the caller's to release: with it calls go on from what
 * was recorded, in a copy too. INVALID_ARGUMENT where a node has written to the buffer since: no
 * tensor shows what was there before; TN_ERR_NOT_FOUND past the last value. */
tn_status tn_graph_tensor_at(tn_graph *graph, size_t value, tn_tensor **tensor);

typedef enum tn_graph_format {
  TN_GRAPH_TEXT = 0,
  TN_GRAPH_DOT = 1, /* for Graphviz */
} tn_graph_format;
/* file: NULL is the standard output. TN_ERR_IO. */
tn_status tn_graph_print(const tn_graph *graph, tn_graph_format format, FILE *file);

/* ------------------------------------------------------------- programs --- */

/* What compiling is not to do to nodes, and by default does; the last is for it to do. */
typedef enum tn_compile_flag {
  /* Leaves out nodes that compute what an earlier one has, and copies of what stays as it is. */
  TN_COMPILE_NO_MERGING = 1,
  /* Computes what follows from constants alone once, now. Results of more than 1 MiB that are more
   * than four times the constants they come from are computed by each run. */
  TN_COMPILE_NO_FOLDING = 2,
  /* Makes one node of a matmul or convolution, the addition of a bias behind it and, of matmul,
   * relu or gelu, where the product's kernel takes them. What stands between is not rounded to the
   * element type then: results may differ from those of the calls within the operators' tolerances.
   * But for layouts, below, all else leaves every bit as it is. */
  TN_COMPILE_NO_FUSION = 4,
  /* Runs go call by call where the device could replay them as one launch. */
  TN_COMPILE_NO_CAPTURE = 8,
  /* Where that makes the planned memory smaller, runs updates of parameters as soon as they can,
   * and steps of many parameters at once (tn_multi_adam and its like) in parts, so that gradients
   * go. */
  TN_COMPILE_NO_REORDERING = 16,
  /* Where that makes the planned memory smaller, computes again what is cheap, rather than keep it
   * for the backward part: by the same kernels from the same numbers, masks of dropout too. */
  TN_COMPILE_NO_RECOMPUTING = 32,
  /* Lays images of floats between convolutions with channels last, [n, h, w, c] in memory, where
   * the device has kernels that are fastest so; constant weights of such convolutions then take
   * memory of the program's own. Other kernels may run: results may differ from those of the calls
   * within the operators' tolerances. Not in programs that have gradients of convolutions by their
   * weights. */
  TN_COMPILE_NO_LAYOUT = 64,
  /* All nodes that results need run as they were called. */
  TN_COMPILE_AS_CALLED = 119,
} tn_compile_flag;

typedef struct tn_compile_options {
  uint32_t struct_size;
  uint32_t flags; /* tn_compile_flag, or-ed */
  /* How much of a run's time, by a rough estimate, computing again may take: 1 to 100; 0: 3. */
  uint32_t recompute_percent;
  uint32_t reserved;
} tn_compile_options;

/* Plans the graph as it is now for a device: leaves out nodes whose results nothing uses and
 * simplifies the others, plans the memory of all values as one, chooses kernels and takes their
 * workspaces. Node numbers in messages stay those of the graph. options: NULL for the defaults.
 * Errors: INVALID_ARGUMENT where a node reads what nothing has written, or a
 * parameter is on another device; what tn_prepare says of a node otherwise, with the node in
 * front. */
tn_status tn_graph_compile(tn_graph *graph, tn_device *device, const tn_compile_options *options,
                           tn_program **program);
/* Waits for no run: the stream's work may be pending as with tensors. */
void tn_program_destroy(tn_program *program);

/* Runs the program in a stream of its device, NULL being the default one. in: as many tensors as
 * the graph has inputs, of their types and shapes; ones that are not row-major, or at an address
 * that is no multiple of 64 bytes, are copied first. out: as many as it has outputs; NULL ones are
 * made and are the caller's, others are written to and may share no memory with an input.
 * Random operators draw on from run to run: each run adds to their offsets what one run takes.
 * Errors: INVALID_ARGUMENT for a tensor that does not fit, before anything ran; a kernel's own,
 * with the node: parameters that were updated before it stay updated, and the message says how many
 * nodes had run. Updates may run earlier than they were recorded (TN_COMPILE_NO_REORDERING).
 * Where the device's backend has device graphs and all nodes can be recorded, runs on a stream
 * whose inputs and outputs lie where those of an earlier run there lay are one launch; four sets of
 * addresses are kept per stream. Inputs and outputs of 1 MiB together that come at ever new
 * addresses are copied to fixed places. All other runs go call by call, as do all after recording
 * or launching failed, which is logged once; tn_program_report says so. Results are the same. */
tn_status tn_program_run(tn_program *program, tn_stream *stream, size_t num_in,
                         const tn_tensor *const *in, size_t num_out, tn_tensor **out);

/* Whether runs are replayed as device graphs. */
typedef enum tn_capture_state {
  TN_CAPTURE_OFF = 0,    /* no: the device has none, an option forbids them, or a node cannot be
                            recorded */
  TN_CAPTURE_WAITS = 1,  /* they can be, and no run has been at addresses that came before */
  TN_CAPTURE_ON = 2,     /* those at addresses that came before are */
  TN_CAPTURE_FAILED = 3, /* no longer: recording or launching one failed */
} tn_capture_state;

typedef struct tn_program_info {
  uint32_t struct_size;
  uint32_t nodes;     /* that a run goes through; with left_out, merged, folded and fused all of the
                         graph's, and beside them recomputed and parts */
  uint32_t left_out;  /* nodes of the graph whose results nothing uses */
  uint32_t fallbacks; /* nodes without a kernel on the device */
  uint32_t instances; /* how often its memory exists: runs that were under way at once */
  uint32_t reserved;
  uint64_t planned_bytes;   /* of one instance, for what nodes make */
  uint64_t live_bytes;      /* the most that is in use at once: no plan needs less */
  uint64_t separate_bytes;  /* what it would be with memory of its own for each buffer */
  uint64_t workspace_bytes; /* of one instance, for kernels' scratch */
  uint64_t runs;
  uint32_t merged;   /* nodes whose results others have: common subexpressions and copies */
  uint32_t folded;   /* nodes that were computed when compiling */
  uint32_t fused;    /* nodes that became part of others */
  uint32_t capture;  /* tn_capture_state */
  uint64_t captures; /* device graphs that were recorded */
  uint64_t replays;  /* runs that were a launch of one */
  const char *capture_reason; /* of TN_CAPTURE_OFF and TN_CAPTURE_FAILED; "" else. Valid as long as
                                 the program */
  uint32_t recomputed;        /* nodes that compute again what others have, so that less is kept */
  uint32_t parts;             /* nodes more than the graph's, by steps that became several */
} tn_program_info;
tn_status tn_program_report(tn_program *program, tn_program_info *info);

/* ------------------------------------------------------------ functions --- */

/*
 * A function is programs of one model, one for each combination of its inputs' types and shapes,
 * built and compiled when it is first run with that and kept. Host code computes with sizes (what
 * a reshape is given, a scale of 1/sqrt(d)), so a graph has the sizes it was built with, and other
 * sizes are another graph.
 */

/* Builds the graph of one combination: in are its inputs, which stay the function's; the callback
 * makes the calls and adds parameters, constants and outputs. It is called in a thread that runs
 * the function, while other threads may be building other combinations, and may not run a function
 * that it would have to build. Whatever it returns but TN_OK, tn_function_run returns, with
 * tn_last_error() as it left it behind the function's name. */
typedef tn_status (*tn_function_build)(void *context, tn_graph *graph, size_t num_in,
                                       tn_tensor *const *in);

#define TN_SIZE_OPEN (-1) /* in tn_function_input: any number */
#define TN_RANK_OPEN (-1)

/* What one input of a function must be. */
typedef struct tn_function_input {
  const char *name;           /* in the graph and in messages; unique */
  tn_dtype dtype;             /* TN_DTYPE_NONE: any */
  int32_t rank;               /* TN_RANK_OPEN: any, shape and symbols are not read */
  const int64_t *shape;       /* [rank], TN_SIZE_OPEN where the size is open; NULL: all are */
  const char *const *symbols; /* [rank] names of sizes, or NULL: those of one name ("batch",
                                 "sequence") are equal in all inputs of a run; NULL: none has one */
} tn_function_input;

typedef struct tn_function_options {
  uint32_t struct_size;
  uint32_t max_programs; /* kept at a time: beyond that the one that was run least lately goes, but
                            for those that run at the moment. 0: 16 */
  const tn_function_input *inputs; /* copied. NULL: any number of any tensors, named "in0", "in1" */
  size_t num_inputs;
  uint32_t input_size; /* sizeof(tn_function_input), where there are inputs */
  uint32_t reserved;
  const tn_compile_options *compile; /* copied; NULL: the defaults */
} tn_function_options;

/* name: for people, copied; NULL is "function". device: NULL is the default one. options: NULL for
 * the defaults. build is not called yet; context is the caller's, and stays valid as long as the
 * function. */
tn_status tn_function_create(tn_runtime *runtime, tn_device *device, const char *name,
                             tn_function_build build, void *context,
                             const tn_function_options *options, tn_function **function);
/* As tn_program_destroy. pre: no thread runs it. */
void tn_function_destroy(tn_function *function);

/* Runs the program for these inputs, as tn_program_run does, which says how; where there is none,
 * it is built first. Threads that ask for a program which another thread is building wait for it,
 * and fail as it does; what failed is not kept, and the next run tries again. All programs of a
 * function draw from one sequence of random numbers.
 * Errors: INVALID_ARGUMENT for inputs that do not fit what was declared, with input, size and what
 * it must be; the callback's; those of tn_graph_compile and tn_program_run. */
tn_status tn_function_run(tn_function *function, tn_stream *stream, size_t num_in,
                          const tn_tensor *const *in, size_t num_out, tn_tensor **out);

typedef struct tn_function_info {
  uint32_t struct_size;
  uint32_t programs;      /* that are kept */
  uint64_t built;         /* programs, since the function was made */
  uint64_t failed;        /* tries to build one */
  uint64_t dropped;       /* programs beyond max_programs */
  uint64_t runs;          /* begun, of all programs */
  uint64_t planned_bytes; /* of one instance of each program that is kept */
} tn_function_info;
tn_status tn_function_report(tn_function *function, tn_function_info *info);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* TENON_GRAPH_H */
