/* Models made in memory, for tests: structs of the format in lists that grow, freed all at once. */
#ifndef TENON_TESTS_ONNX_BUILDER_H
#define TENON_TESTS_ONNX_BUILDER_H

#include "tenon/onnx.h"
#include "tools/onnx/model.pb-c.h"

/* All memory that models of a test take, until builder_end. */
void builder_end(void);
/* A copy of a text, the builder's. */
char *builder_text(const char *s);

Onnx__Graph *graph_new(const char *name);
/* A model of ONNX's opset 13 around a graph. */
Onnx__Model *model_new(Onnx__Graph *graph);
void model_opset(Onnx__Model *m, const char *domain, int64_t version);
/* Names in one text, commas between: "a,b" or "". */
Onnx__Node *node_add(Onnx__Graph *g, const char *op, const char *inputs, const char *outputs);
Onnx__Attribute *attribute_add(Onnx__Node *n, const char *name);
void attribute_int(Onnx__Node *n, const char *name, int64_t number);
void attribute_ints(Onnx__Node *n, const char *name, int count, const int64_t *numbers);
void attribute_graph(Onnx__Node *n, const char *name, Onnx__Graph *graph);
/* rank < 0: the file does not say; sizes of 0 are open. */
void input_add(Onnx__Graph *g, const char *name, int32_t type, int rank, const int64_t *shape);
void output_add(Onnx__Graph *g, const char *name, int32_t type, int rank, const int64_t *shape);
/* A weight with raw data. */
Onnx__Tensor *weight_add(Onnx__Graph *g, const char *name, int32_t type, int rank,
                         const int64_t *shape, const void *data, size_t bytes);
void external_add(Onnx__Tensor *t, const char *key, const char *value);
Onnx__Function *function_add(Onnx__Model *m, const char *name, const char *inputs,
                             const char *outputs);
Onnx__Node *function_node(Onnx__Function *f, const char *op, const char *inputs,
                          const char *outputs);
/* The file's bytes, the builder's. */
uint8_t *model_bytes(const Onnx__Model *m, size_t *bytes);

enum { F32 = 1, U8 = 2, I32 = 6, I64 = 7, STRING = 8, BOOL = 9 };

#endif
