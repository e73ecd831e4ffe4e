/*
 * libtenon-onnx: models in the ONNX format (opsets 7 to 21) as programs of Tenon. A host library
 * on tenon.h and graph.h alone; may change until version 0.2.
 *
 *     tn_onnx *model;
 *     tn_tensor *y = NULL;
 *     if (tn_onnx_load(rt, NULL, "mnist.onnx", NULL, &model)) return puts(tn_onnx_last_error()), 1;
 *     tn_onnx_run(model, NULL, 1, (const tn_tensor *[]){x}, 1, &y);
 *     tn_onnx_close(model);
 *
 *  Errors.     Functions that can fail return a tn_status; after anything but TN_OK
 *              tn_onnx_last_error() has the calling thread's message, which names node, operator
 *              and opset where there is one. (tn_last_error has Tenon's own part of it, if any.)
 *  Shapes.     A model is built for the shapes that a run's inputs have, whichever the file
 *              declares; the program is compiled once and kept, as those of other shapes are, up
 *              to max_programs.
 *  Graphs.     What follows from constants and shapes is computed while building, and loops whose
 *              number of turns is known are written out, so that most models become one program of
 *              graph.h. Models that ask numbers of a run what to do (a condition, a shape that
 *              depends on data) run node by node; tn_onnx_report says so and why. Where the numbers
 *              are those of a small integer input, programs are kept for each of its values.
 *  Threads.    A model may be run by several threads at once, each with a stream of its own.
 *  Untrusted   files are checked before anything is believed: lengths against the bytes that are
 *              left, depth, names, order. External data is read from inside the model's folder
 *              alone, and never through a symbolic link.
 */
#ifndef TENON_ONNX_H
#define TENON_ONNX_H

#include "tenon/graph.h"
#include "tenon/tenon.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tn_onnx tn_onnx;

/* The message of the calling thread's last failed tn_onnx_ call, "" if there was none. Valid until
 * its next failing call. */
const char *tn_onnx_last_error(void);

typedef enum tn_onnx_flag {
  TN_ONNX_BY_NODE = 1, /* runs go node by node: to look at what a program does as a whole */
} tn_onnx_flag;

typedef struct tn_onnx_options {
  uint32_t struct_size;
  uint32_t flags;        /* tn_onnx_flag, or-ed */
  uint32_t max_programs; /* kept at a time; 0: 16 */
  uint32_t reserved;
  const tn_compile_options *compile; /* copied; NULL: the defaults */
  const char *folder;                /* of external data for a model in memory; NULL: it has none */
  /* Told while weights are read, in bytes; NULL: nobody is. */
  void (*progress)(void *user, uint64_t done, uint64_t all);
  void *progress_user;
} tn_onnx_options;

/* Reads a model, and its weights to the device; NULL is the runtime's default one. options: NULL
 * for the defaults. What the model's nodes are is not judged yet: tn_onnx_unserved_at does.
 * Errors: IO; INVALID_ARGUMENT for what is no model, or not a sound one; UNSUPPORTED for opsets and
 * types beyond those served. */
tn_status tn_onnx_load(tn_runtime *runtime, tn_device *device, const char *path,
                       const tn_onnx_options *options, tn_onnx **model);
/* The same of a file's bytes, which are the caller's again when it returns. */
tn_status tn_onnx_load_memory(tn_runtime *runtime, tn_device *device, const void *data,
                              size_t bytes, const tn_onnx_options *options, tn_onnx **model);
/* Before its runtime is closed. pre: no thread runs it. */
void tn_onnx_close(tn_onnx *model);

/* What the file declares of an input or output. Strings and arrays live as long as the model. */
typedef struct tn_onnx_value {
  uint32_t struct_size;
  tn_dtype dtype; /* TN_DTYPE_NONE where Tenon has no such type */
  const char *name;
  int32_t rank; /* TN_RANK_OPEN where the file does not say */
  uint32_t reserved;
  const int64_t *shape;       /* [rank], TN_SIZE_OPEN where it is open */
  const char *const *symbols; /* [rank], names of open sizes, or NULL */
  const char *unserved;       /* why a run refuses it (a sequence, strings); NULL: it does not */
} tn_onnx_value;

/* Inputs that runs give; weights that the file lists among them are none. */
size_t tn_onnx_num_inputs(const tn_onnx *model);
size_t tn_onnx_num_outputs(const tn_onnx *model);
/* TN_ERR_NOT_FOUND past the last. */
tn_status tn_onnx_input_at(const tn_onnx *model, size_t index, tn_onnx_value *value);
tn_status tn_onnx_output_at(const tn_onnx *model, size_t index, tn_onnx_value *value);

/* What the file's writer says of it in words: a dictionary of labels, names of classes. The value
 * of a key, as long as the model lives; NULL where the file has no such key. */
const char *tn_onnx_metadata(const tn_onnx *model, const char *key);
/* All of it, in the file's order; TN_ERR_NOT_FOUND past the last. */
tn_status tn_onnx_metadata_at(const tn_onnx *model, size_t index, const char **key,
                              const char **value);

/* A node that cannot run: what it is, and why. */
typedef struct tn_onnx_node {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name, *op, *domain; /* "" where the file has none */
  int64_t opset;                  /* of the domain; 0 where the file names none */
  const char *reason;
} tn_onnx_node;
/* Nodes whose operators are not served, those inside branches, loops and functions included;
 * TN_ERR_NOT_FOUND past the last. Others may still be refused for their attributes, when they are
 * built. */
tn_status tn_onnx_unserved_at(const tn_onnx *model, size_t index, tn_onnx_node *node);

/* Builds and compiles the program for these shapes, if it is not there: shapes[i] and ranks[i] of
 * input i. Errors: as tn_onnx_run's. */
tn_status tn_onnx_compile(tn_onnx *model, size_t num_in, const int32_t *ranks,
                          const int64_t *const *shapes);
/* Runs the model in a stream of its device, NULL being the default one. in: tensors of the types
 * that the inputs declare and of any shape; of another device they are copied. out: NULL ones are
 * made and are the caller's, others are written to. Errors: INVALID_ARGUMENT for inputs that do
 * not fit, and where a node refuses its tensors; UNSUPPORTED for a node that is not served;
 * otherwise those of tn_program_run. */
tn_status tn_onnx_run(tn_onnx *model, tn_stream *stream, size_t num_in, const tn_tensor *const *in,
                      size_t num_out, tn_tensor **out);

typedef struct tn_onnx_info {
  uint32_t struct_size;
  uint32_t nodes;       /* of the file, those in bodies and functions included */
  int64_t opset;        /* of ONNX's own operators */
  const char *producer; /* "" where the file does not say */
  uint64_t weights;     /* how many */
  uint64_t weight_bytes;
  uint32_t programs;          /* that are kept */
  uint32_t by_node;           /* 1: the latest run went node by node */
  const char *by_node_reason; /* of the latest such run's build; "" */
  uint64_t built;             /* programs, since the model was read */
  uint64_t build_ns;          /* that the latest took to be built, without compiling */
  uint64_t compile_ns;        /* and to be compiled */
  uint64_t folded;            /* nodes of the file that were computed while building it */
  uint64_t joined;            /* nodes that became part of one before them when the file was read */
} tn_onnx_info;
tn_status tn_onnx_report(tn_onnx *model, tn_onnx_info *info);
/* Of the program that was run last. TN_ERR_NOT_FOUND where none was. What the struct points to
 * lives as long as that program is kept. */
tn_status tn_onnx_program_report(tn_onnx *model, tn_program_info *info);

/* Tensors in files as ONNX's test data has them (a TensorProto, *.pb). dtype of Tenon's alone.
 * tensor: the caller's. Errors: IO, INVALID_ARGUMENT for what is none, UNSUPPORTED for its type. */
tn_status tn_onnx_tensor_load(tn_device *device, const char *path, tn_tensor **tensor);
/* Replaces what is there. name: NULL for none. Waits for the tensor's work. */
tn_status tn_onnx_tensor_save(const tn_tensor *tensor, const char *name, const char *path);

/* An operator of ONNX that is served. */
typedef struct tn_onnx_operator {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name, *domain; /* domain "": ONNX's own */
  int64_t since, until;      /* opsets it is served in */
} tn_onnx_operator;
/* In the order of their names; TN_ERR_NOT_FOUND past the last. */
tn_status tn_onnx_operator_at(size_t index, tn_onnx_operator *op);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* TENON_ONNX_H */
