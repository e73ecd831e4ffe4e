/* Programs of a model: what one is built for, built and kept. */
#ifndef TENON_TOOLS_ONNX_BUILD_H
#define TENON_TOOLS_ONNX_BUILD_H

#include "lib.h"

/* Types, shapes and, of small integer inputs where they matter, numbers. */
typedef struct program_key {
  size_t count, room;
  int64_t *of;
} program_key;

struct built_program {
  built_program *next;
  program_key key;
  tn_program *program; /* NULL: runs go node by node */
  uint32_t running;
  bool dropped; /* goes with the last run */
  uint64_t build_ns, compile_ns, folded;
  char reason[300]; /* of going node by node */
};

/* What a run's inputs are: of tensors, or of shapes alone. */
typedef struct given_input {
  tn_dtype dtype;
  int32_t rank;
  const int64_t *shape;
  const tn_tensor *tensor; /* NULL where there is none yet */
} given_input;

/* Whether programs may be made for an input's numbers. */
bool may_be_special(const given_input *in);

/* Builds the program for these inputs. m->special may become true, and the key is then another:
 * *again says so. */
tn_status program_build(tn_onnx *m, size_t num_in, const given_input *in, built_program *p,
                        bool *again);
/* A run without a program. */
tn_status run_by_node(tn_onnx *m, tn_stream *stream, const tn_tensor *const *in, tn_tensor **out);

#endif
