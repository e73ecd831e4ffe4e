/* What the parts of `tenon run` share. */
#ifndef TENON_TOOLS_RUN_H
#define TENON_TOOLS_RUN_H

#include <stdbool.h>

#include "picture.h"
#include "run_draw.h"
#include "tenon/onnx.h"

enum { RUN_INPUTS = 64 };

/* How pictures become tensors. */
typedef struct picture_options {
  picture_norm norm;
  int width, height; /* 0: as the model says, else the picture's own */
} picture_options;

typedef struct run_wishes {
  const char *model, *device, *output_dir, *compare, *labels, *profile;
  const char *inputs[RUN_INPUTS], *shapes[RUN_INPUTS];
  int num_inputs, num_shapes, repeat, top, math;
  double tolerance;
  bool list, list_operators, by_node, row_major;
  picture_options picture;
  draw_wishes draw;
} run_wishes;

/* ------------------------------------------------------- run_files.c --- */

/* All of these say on standard error what is wrong. A tensor from a file of NumPy's or ONNX's. */
tn_tensor *run_load(tn_device *device, const char *path);
/* Writes NAME.npy; bfloat16 and 8-bit floats as float32. */
bool run_save_npy(const tn_tensor *tensor, const char *path);
/* The numbers of a tensor as doubles, the caller's to free. */
double *run_numbers(const tn_tensor *tensor);

/* ----------------------------------------------------- run_picture.c --- */

/* A picture as the model's input wants it. */
tn_tensor *run_picture(tn_device *device, const char *path, const tn_onnx_value *input,
                       const picture_options *options);

/* ------------------------------------------------------ run_report.c --- */

int run_list(tn_onnx *model);
int run_list_operators(void);
/* The name that line `index` of a file of labels has; nothing without a file. */
void run_print_label(const char *path, int64_t index);
void run_print_top(const tn_tensor *output, const char *labels, int top);
/* Compares outputs with the files of a folder; false where they differ or are not there. */
bool run_compare(tn_onnx *model, tn_tensor *const *out, const char *folder, double tolerance);
void run_print_shape(const tn_tensor *tensor);
void run_print_fallbacks(tn_runtime *runtime, tn_device *device);

#endif
