/*
 * Convolution, its gradients and transposed convolution over one to three axes as products of
 * matrices (cl/conv.cl), some images at a time so that scratch stays near the processor:
 *
 *   columns [c kd kh kw, windows]  the elements of x that each window reads, 0 outside x
 *   y  [k, windows]  = w [k, c kd kh kw] columns
 *   columns of dx    = w^T dy, added up where windows overlap
 *   dw^T             = columns dy^T, summed over images
 *
 * A transposed convolution is the gradient by the input, and the other way round. What is
 * multiplied and added up is float, or double of float64.
 */
#include <assert.h>
#include <string.h>

#include "rows.h"
#include "sources.h"
#include "window.h"

/* conv_t of cl/conv.cl. */
typedef struct conv_shape {
  cl_long channels, kernels, groups; /* channels and kernels of one group */
  cl_long size[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  cl_long terms, windows;
} conv_shape;

/* product_t of cl/conv.cl. */
typedef struct product_shape {
  cl_long m, n, k, groups;
  cl_long a_begin, a_slot, a_group, a_row, a_column, a_block, block;
  cl_long c_begin, c_item, c_row;
  cl_int add, has_bias;
  cl_int activation, nothing; /* a tn_activation, where nothing is added */
} product_shape;

static_assert(sizeof(conv_shape) == 23 * 8, "no padding");
static_assert(sizeof(product_shape) == 16 * 8, "no padding");

/* A call: tensors by their forward names, what is done at a time, and where scratch lies. */
typedef struct conv {
  const tn_kernel_args *args;
  const DLTensor *x, *w, *y, *bias;
  conv_shape shape;
  int64_t images, slots;            /* all, and at a time */
  int32_t lanes, rows;              /* of a work-item's tile: vectors are half a panel */
  int64_t window_panels, k_panels;  /* of the columns' windows and of the kernels */
  size_t real_bytes;                /* of what is computed in */
  size_t first_bytes, second_bytes; /* of two pieces of scratch, for all slots */
  int32_t activation;               /* a tn_activation, of the forward pass alone */
} conv;

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t volume(const cl_long size[3]) { return size[0] * size[1] * size[2]; }

static conv_shape shape_of(const tn_kernel_args *args, const conv *c) {
  const int axes = window_axes(c->x);
  const int64_t *numbers = window_numbers(args->attrs);
  conv_shape s = {.channels = c->w->shape[1], .groups = numbers[3 * axes]};
  s.kernels = c->w->shape[0] / s.groups;
  window_size(s.size, c->x);
  window_size(s.out, c->y);
  window_size(s.kernel, c->w);
  window_spread(s.stride, numbers, axes, 1);
  window_spread(s.padding, numbers + axes, axes, 0);
  window_spread(s.dilation, numbers + 2 * axes, axes, 1);
  s.terms = s.channels * volume(s.kernel);
  s.windows = volume(s.out);
  return s;
}

/* Processors like wide tiles that live in vector registers; graphics processors many small
 * ones. */
static conv conv_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *w,
                    const DLTensor *y) {
  const ocl_device *device = ocl_device_of(args);
  const bool wide = ocl_dtype(x) == TN_F64;
  conv c = {.args = args, .x = x, .w = w, .y = y};
  if (args->num_in > 2) c.bias = args->in[2];
  c.shape = shape_of(args, &c);
  c.images = x->shape[0];
  c.lanes = (device->cpu ? 16 : 4) / (wide ? 2 : 1);
  c.rows = device->cpu ? 8 : 4;
  c.window_panels = div_up(c.shape.windows, 2 * c.lanes);
  c.k_panels = div_up(c.shape.kernels, 2 * c.lanes);
  c.real_bytes = wide ? 8 : 4;
  return c;
}

/* How many images at a time: as many as fit near the processor, at least one. */
static void take_slots(conv *c, int64_t first, int64_t second) {
  const size_t near = ocl_device_of(c->args)->cpu ? (size_t)2 << 20 : (size_t)64 << 20;
  const size_t unit = (size_t)c->shape.groups * 2 * (size_t)c->lanes * c->real_bytes;
  const size_t one = (size_t)(first + second) * unit;
  c->slots = one && one < near ? (int64_t)(near / one) : 1;
  if (c->slots > c->images) c->slots = c->images;
  c->first_bytes = (size_t)(c->slots * first) * unit;
  c->second_bytes = (size_t)(c->slots * second) * unit;
}

static tn_status scratch_bytes(const conv *c, size_t *bytes) {
  *bytes = c->first_bytes + c->second_bytes;
  return TN_OK;
}

/* ------------------------------------------------------------------ launches --- */

/* Those that wide functions compute, which need not be compiled for the others. */
static bool is_wide(int32_t activation) {
  return activation != TN_ACTIVATION_NONE && activation != TN_ACTIVATION_RELU &&
         activation != TN_ACTIVATION_RELU6;
}

static tn_status begin(ocl_launch *launch, const conv *c, const char *function, tn_dtype t0,
                       tn_dtype t1) {
  const ocl_key key = {.source = is_wide(c->activation) ? &ocl_source_conv_wide : &ocl_source_conv,
                       .function = function,
                       .types = {(uint8_t)t0, (uint8_t)t1},
                       .constants = {c->lanes, c->rows, is_wide(c->activation)}};
  return ocl_begin(launch, c->args, &key);
}

/* The element types of the tensors and of scratch. */
static tn_dtype stored(const conv *c) { return ocl_dtype(c->x); }
static tn_dtype real(const conv *c) { return c->real_bytes == 8 ? TN_F64 : TN_F32; }

/* A pointer into the workspace, `offset` bytes from its beginning. */
static void arg_scratch(ocl_launch *launch, const conv *c, size_t offset) {
  ocl_arg_workspace(launch, c->args, offset, c->real_bytes);
}

/* Work-items `wide` along the first axis, a few of which make a group. */
static tn_status conv_run(ocl_launch *launch, int64_t wide, int64_t high, int64_t deep,
                          size_t most) {
  const size_t local[3] = {most, 1, 1};
  const size_t groups[3] = {(size_t)div_up(wide, (int64_t)most), (size_t)high, (size_t)deep};
  return ocl_run_grid(launch, 3, groups, local);
}

/* How many work-items make a group. Drivers for processors compile a kernel anew for every size
 * of its groups, so there it does not depend on the work. */
static size_t group_for(const conv *c, int64_t count) {
  const bool cpu = ocl_device_of(c->args)->cpu;
  size_t group = ocl_group(ocl_device_of(c->args), cpu ? 16 : 64);
  while (!cpu && group > 1 && (int64_t)group / 2 >= count) group /= 2;
  return group;
}

/* The columns of images first .. first + count, to the first piece of scratch. */
static tn_status pack_windows(const conv *c, int64_t first, int64_t count) {
  ocl_launch launch;
  const conv_shape *s = &c->shape;
  if (s->terms == 0) return TN_OK;
  tn_status status = begin(&launch, c, "pack_windows", stored(c), stored(c));
  if (status) return status;
  ocl_arg_tensor(&launch, c->x);
  arg_scratch(&launch, c, 0);
  ocl_arg_long(&launch, first);
  ocl_arg(&launch, s, sizeof *s);
  return conv_run(&launch, s->terms, c->window_panels, count * s->groups, group_for(c, s->terms));
}

/* y of these images, or what stands for it, as a right factor [k, windows] or, turned,
 * [windows, k], `offset` bytes into scratch. */
static tn_status pack_y(const conv *c, int64_t first, int64_t count, bool turned, size_t offset) {
  ocl_launch launch;
  const conv_shape *s = &c->shape;
  const int64_t item = s->kernels * s->windows, rows = turned ? s->windows : s->kernels;
  if (rows == 0) return TN_OK;
  tn_status status = begin(&launch, c, "pack_matrix", stored(c), stored(c));
  if (status) return status;
  ocl_arg_tensor(&launch, c->y);
  arg_scratch(&launch, c, offset);
  ocl_arg_long(&launch, first * s->groups * item);
  ocl_arg_long(&launch, item);
  ocl_arg_long(&launch, rows);
  ocl_arg_long(&launch, turned ? 1 : s->windows);
  ocl_arg_long(&launch, turned ? s->kernels : s->windows);
  ocl_arg_long(&launch, turned ? s->windows : 1);
  return conv_run(&launch, rows, turned ? c->k_panels : c->window_panels, count * s->groups,
                  group_for(c, rows));
}

/* A product whose factor a is a tensor, or the columns in scratch where it is NULL, whose b
 * lies b_offset bytes into scratch, and whose result is a tensor or lies c_offset into it. */
static tn_status multiply(const conv *c, const product_shape *p, int64_t count, const DLTensor *a,
                          size_t b_offset, const DLTensor *result, size_t c_offset) {
  ocl_launch launch;
  const int64_t tiles = div_up(p->m, c->rows), panels = div_up(p->n, 2 * c->lanes);
  const size_t group = ocl_device_of(c->args)->cpu ? 1 : group_for(c, tiles);
  if (p->m == 0 || p->n == 0) return TN_OK;
  tn_status status =
      begin(&launch, c, "multiply", a ? stored(c) : real(c), result ? stored(c) : real(c));
  if (status) return status;
  if (a)
    ocl_arg_tensor(&launch, a);
  else
    arg_scratch(&launch, c, 0);
  arg_scratch(&launch, c, b_offset);
  ocl_arg_tensor(&launch, p->has_bias ? c->bias : NULL);
  if (result)
    ocl_arg_tensor(&launch, result);
  else
    arg_scratch(&launch, c, c_offset);
  ocl_arg(&launch, p, sizeof *p);
  return conv_run(&launch, tiles, panels, count * p->groups, group);
}

/* ------------------------------------------------------------------ forward --- */

/* Of convolutions alone, behind what their kin have too; none where the host is older than that. */
static int32_t activation_of(const tn_kernel_args *args) {
  const uint32_t op = args->kernel->op;
  const int axes = window_axes(args->out[0]);
  uint32_t size;
  memcpy(&size, args->attrs, sizeof size);
  if (op != TN_OP_CONV1D && op != TN_OP_CONV2D && op != TN_OP_CONV3D) return TN_ACTIVATION_NONE;
  if (size < sizeof(int64_t) * (3 * (size_t)axes + 3)) return TN_ACTIVATION_NONE;
  return (int32_t)window_numbers(args->attrs)[3 * axes + 1];
}

bool ocl_conv_supports(const tn_kernel_args *args) {
  return ocl_takes_types(args) && (!is_wide(activation_of(args)) || ocl_has_double(args));
}

/* Inputs x, w and perhaps a bias. Scratch: the columns. */
static conv forward_of(const tn_kernel_args *args) {
  conv c = conv_of(args, args->in[0], args->in[1], args->out[0]);
  take_slots(&c, c.window_panels * c.shape.terms, 0);
  return c;
}

static product_shape forward_product(const conv *c, int64_t first) {
  const conv_shape *s = &c->shape;
  const int64_t item = s->kernels * s->windows;
  return (product_shape){.m = s->kernels,
                         .n = s->windows,
                         .k = s->terms,
                         .groups = s->groups,
                         .a_group = s->kernels * s->terms,
                         .a_row = s->terms,
                         .a_column = 1,
                         .block = s->terms,
                         .c_begin = first * s->groups * item,
                         .c_item = item,
                         .c_row = s->windows,
                         .has_bias = c->bias != NULL,
                         .activation = c->activation};
}

tn_status ocl_run_conv_forward(const tn_kernel_args *args) {
  const conv c = forward_of(args);
  conv activated = c;
  tn_status status = TN_OK;
  activated.activation = activation_of(args);
  if (ocl_count(c.y) == 0) return TN_OK;
  for (int64_t i = 0; i < c.images && !status; i += c.slots) {
    const int64_t count = c.images - i < c.slots ? c.images - i : c.slots;
    const product_shape p = forward_product(&activated, i);
    status = pack_windows(&c, i, count);
    if (!status) status = multiply(&activated, &p, count, c.w, 0, c.y, 0);
  }
  return status;
}

tn_status ocl_conv_forward_workspace(const tn_kernel_args *args, size_t *bytes) {
  const conv c = forward_of(args);
  return scratch_bytes(&c, bytes);
}

/* -------------------------------------------------------- gradient by input --- */

/* Inputs y, w and, transposed, perhaps a bias. Scratch: columns of dx, dense rows of whole
 * panels; y as a right factor. */
static conv grad_input_of(const tn_kernel_args *args) {
  conv c = conv_of(args, args->out[0], args->in[1], args->in[0]);
  take_slots(&c, c.window_panels * c.shape.terms, c.window_panels * c.shape.kernels);
  return c;
}

static product_shape grad_input_product(const conv *c) {
  const conv_shape *s = &c->shape;
  const int64_t row = c->window_panels * 2 * c->lanes;
  return (product_shape){.m = s->terms,
                         .n = s->windows,
                         .k = s->kernels,
                         .groups = s->groups,
                         .a_group = s->kernels * s->terms,
                         .a_row = 1,
                         .a_column = s->terms,
                         .block = s->kernels,
                         .c_item = s->terms * row,
                         .c_row = row};
}

static tn_status fold(const conv *c, int64_t first, int64_t count) {
  ocl_launch launch;
  const conv_shape *s = &c->shape;
  const int64_t wide = div_up(s->size[2], c->lanes), lines = s->channels * s->size[0] * s->size[1];
  tn_status status = begin(&launch, c, "fold", stored(c), stored(c));
  if (status) return status;
  arg_scratch(&launch, c, 0);
  ocl_arg_tensor(&launch, c->bias);
  ocl_arg_tensor(&launch, c->x);
  ocl_arg_long(&launch, first);
  ocl_arg_long(&launch, c->window_panels * 2 * c->lanes);
  ocl_arg_int(&launch, c->bias != NULL);
  ocl_arg(&launch, s, sizeof *s);
  return conv_run(&launch, wide * lines, count * s->groups, 1, group_for(c, wide * lines));
}

tn_status ocl_run_conv_grad_input(const tn_kernel_args *args) {
  const conv c = grad_input_of(args);
  const product_shape p = grad_input_product(&c);
  tn_status status = TN_OK;
  if (ocl_count(c.x) == 0) return TN_OK;
  for (int64_t i = 0; i < c.images && !status; i += c.slots) {
    const int64_t count = c.images - i < c.slots ? c.images - i : c.slots;
    status = pack_y(&c, i, count, false, c.first_bytes);
    if (!status) status = multiply(&c, &p, count, c.w, c.first_bytes, NULL, 0);
    if (!status) status = fold(&c, i, count);
  }
  return status;
}

tn_status ocl_conv_grad_input_workspace(const tn_kernel_args *args, size_t *bytes) {
  const conv c = grad_input_of(args);
  return scratch_bytes(&c, bytes);
}

/* ------------------------------------------------------- gradient by weight --- */

/* Scratch: the columns; y turned, as a right factor, and behind it the sums [terms, k] of each
 * slot. */
static conv grad_weight_of(const tn_kernel_args *args, const DLTensor *x, const DLTensor *y) {
  conv c = conv_of(args, x, args->out[0], y);
  take_slots(&c, c.window_panels * c.shape.terms, c.k_panels * (c.shape.windows + c.shape.terms));
  c.bias = NULL;
  return c;
}

static product_shape grad_weight_product(const conv *c, int64_t first) {
  const conv_shape *s = &c->shape;
  const int64_t panel = 2 * c->lanes;
  return (product_shape){.m = s->terms,
                         .n = s->kernels,
                         .k = s->windows,
                         .groups = s->groups,
                         .a_slot = s->groups * c->window_panels * s->terms * panel,
                         .a_group = c->window_panels * s->terms * panel,
                         .a_row = panel,
                         .a_column = 1,
                         .a_block = s->terms * panel,
                         .block = panel,
                         .c_item = s->terms * c->k_panels * panel,
                         .c_row = c->k_panels * panel,
                         .add = first > 0};
}

/* Where the sums lie in scratch. */
static size_t sums_offset(const conv *c) {
  const int64_t numbers =
      c->slots * c->shape.groups * c->k_panels * 2 * c->lanes * c->shape.windows;
  return c->first_bytes + (size_t)numbers * c->real_bytes;
}

static tn_status collect(const conv *c) {
  ocl_launch launch;
  const conv_shape *s = &c->shape;
  tn_status status = begin(&launch, c, "collect", stored(c), stored(c));
  if (status) return status;
  arg_scratch(&launch, c, sums_offset(c));
  ocl_arg_tensor(&launch, c->w);
  ocl_arg_long(&launch, c->slots);
  ocl_arg_long(&launch, c->k_panels * 2 * c->lanes);
  ocl_arg(&launch, s, sizeof *s);
  return ocl_run(&launch, ocl_count(c->w));
}

static tn_status grad_weight(const tn_kernel_args *args, const DLTensor *x, const DLTensor *y) {
  const conv c = grad_weight_of(args, x, y);
  tn_status status = TN_OK;
  if (ocl_count(c.w) == 0) return TN_OK;
  for (int64_t i = 0; i < c.images && !status; i += c.slots) {
    const int64_t count = c.images - i < c.slots ? c.images - i : c.slots;
    const product_shape p = grad_weight_product(&c, i);
    status = pack_windows(&c, i, count);
    if (!status) status = pack_y(&c, i, count, true, c.first_bytes);
    if (!status) status = multiply(&c, &p, count, NULL, c.first_bytes, NULL, sums_offset(&c));
  }
  return status ? status : collect(&c);
}

tn_status ocl_run_conv_grad_weight(const tn_kernel_args *args) {
  return grad_weight(args, args->in[1], args->in[0]);
}

tn_status ocl_conv_grad_weight_workspace(const tn_kernel_args *args, size_t *bytes) {
  const conv c = grad_weight_of(args, args->in[1], args->in[0]);
  return scratch_bytes(&c, bytes);
}

tn_status ocl_run_conv_transpose_grad_weight(const tn_kernel_args *args) {
  return grad_weight(args, args->in[0], args->in[1]);
}

tn_status ocl_conv_transpose_grad_weight_workspace(const tn_kernel_args *args, size_t *bytes) {
  const conv c = grad_weight_of(args, args->in[0], args->in[1]);
  return scratch_bytes(&c, bytes);
}
