/* What the examples on pretrained models share. All of it says what failed and ends the program. */
#ifndef EXAMPLES_ONNX_MODELS_H
#define EXAMPLES_ONNX_MODELS_H

#include "tenon/onnx.h"

/* A runtime; TENON_DEVICE chooses the device. */
tn_runtime *runtime_open(void);
tn_onnx *model_open(tn_runtime *runtime, const char *folder, const char *name);

/* A tensor on the runtime's device of numbers that the caller has. */
tn_tensor *tensor_make(tn_runtime *runtime, tn_dtype dtype, int32_t rank, const int64_t *shape,
                       const void *numbers);
/* Runs a model; inputs are released. The outputs are in the host's memory then. */
typedef struct model_output {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
  float *numbers; /* to be freed */
} model_output;
void model_run(tn_onnx *model, size_t num_in, tn_tensor **in, size_t num_out, model_output *out);

/* Memory that is there. */
void *memory(size_t count, size_t size);
/* A file's text, to be freed. */
char *text_read(const char *path);

/* JSON, as far as these files need it: what stands behind a key, wherever it is; NULL: no such key.
 */
const char *json_value(const char *text, const char *key);
/* Reads a string, escapes and all, and returns what is behind it and behind a comma or colon; NULL:
 * there is none at this place, as at the end of a list. */
const char *json_string(const char *text, char *to, size_t room);

#endif
