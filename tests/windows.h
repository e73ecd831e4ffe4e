/*
 * Shared by the tests of convolutions of one axis to three, as they are and transposed: what
 * windows they have, and a call of them on small whole numbers, whose output holds NaN before. Its
 * sums are exact in every type while they have few terms.
 */
#ifndef TENON_TESTS_WINDOWS_H
#define TENON_TESTS_WINDOWS_H

#include "numeric.h"

typedef struct windows {
  int axes;
  int64_t n, c, k, groups; /* c and k of a group: channels read and written */
  int64_t image[3], kernel[3], stride[3], padding[3], dilation[3];
  bool bias;
  int64_t more[3]; /* of a transposed one: elements added at the end */
} windows;

#define ONES                                                                                       \
  { 1, 1, 1 }
#define NONE                                                                                       \
  { 0 }

/* The attributes of convolutions and of what is derived from them: the numbers of all axes in rows.
 */
typedef struct window_attrs {
  uint32_t struct_size;
  int64_t number[13];
} window_attrs;

static inline window_attrs window_attrs_of(const windows *s, bool transposed) {
  window_attrs attrs = {.number = {0}};
  int at = 0;
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->stride[d];
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->padding[d];
  for (int d = 0; d < s->axes; ++d) attrs.number[at++] = s->dilation[d];
  attrs.number[at++] = s->groups;
  for (int d = 0; d < s->axes && transposed; ++d) attrs.number[at++] = s->more[d];
  attrs.struct_size = (uint32_t)(offsetof(window_attrs, number) + (size_t)at * sizeof(int64_t));
  return attrs;
}

/* Elements of the output along an axis. */
static inline int64_t windows_out(const windows *s, int d, bool transposed) {
  const int64_t reach = (s->kernel[d] - 1) * s->dilation[d] + 1;
  if (transposed) return (s->image[d] - 1) * s->stride[d] - 2 * s->padding[d] + reach + s->more[d];
  return (s->image[d] + 2 * s->padding[d] - reach) / s->stride[d] + 1;
}

static inline tn_tensor *windows_call(tn_device *device, tn_dtype dtype, const windows *s,
                                      bool transposed) {
  static const uint32_t ops[2][4] = {
      {0, TN_OP_CONV1D, TN_OP_CONV2D, TN_OP_CONV3D},
      {0, TN_OP_CONV_TRANSPOSE1D, TN_OP_CONV_TRANSPOSE2D, TN_OP_CONV_TRANSPOSE3D}};
  const int64_t c = s->c * s->groups, k = s->k * s->groups;
  int64_t x[5] = {s->n, c}, y[5] = {s->n, k};
  int64_t w[5] = {transposed ? c : k, transposed ? s->k : s->c};
  for (int d = 0; d < s->axes; ++d) {
    x[2 + d] = s->image[d], w[2 + d] = s->kernel[d];
    y[2 + d] = windows_out(s, d, transposed);
    ck_assert_int_gt(y[2 + d], 0);
  }
  const window_attrs attrs = window_attrs_of(s, transposed);
  tn_tensor *in[3] = {whole_numbers(device, dtype, 2 + s->axes, x, 2, 1),
                      whole_numbers(device, dtype, 2 + s->axes, w, 2, 2)};
  if (s->bias) in[2] = whole_numbers(device, dtype, 1, &y[1], 2, 3);
  tn_tensor *out = unwritten(device, dtype, 2 + s->axes, y);
  const tn_call call = {.struct_size = sizeof call,
                        .op = ops[transposed][s->axes],
                        .stream = tn_device_default_stream(device),
                        .in = (const tn_tensor *const *)in,
                        .out = &out,
                        .attrs = &attrs,
                        .num_in = 3,
                        .num_out = 1};
  ok(tn_invoke(&call));
  for (int i = 0; i < 3; ++i) tn_tensor_release(in[i]);
  return out;
}

/* Every type on every device of the bench has the reference's numbers to the bit. */
static inline void windows_agree(const bench *b, const char *what, const windows *s,
                                 bool transposed) {
  static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  for (int t = 0; t < 4; ++t) {
    tn_tensor *y = windows_call(b->devices[0], types[t], s, transposed);
    const int64_t count = tn_tensor_elements(y);
    double *want = values_of(y);
    tn_tensor_release(y);
    for (int d = 1; d < b->count; ++d)
      must_be(b, what, d, windows_call(b->devices[d], types[t], s, transposed), count, want, 0);
    free(want);
  }
}

#endif
