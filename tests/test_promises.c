/*
 * What plugin.h and docs/writing-a-backend.md promise to plugins of arguments, attributes, memory
 * and slots, seen through the fixture ledger.c: a device that writes down what it is asked.
 */
#include <dlfcn.h>

#include "tests/fixtures/ledger.h"
#include "tests/support.h"

static tn_device *device;
static ledger *book;

static void open_device(const char *type) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .device = type,
                                .plugin_path = LEDGER_PLUGIN,
                                .fallback = TN_FALLBACK_ALLOW};
  device = tn_runtime_device(open_runtime(&options));
  void *library = dlopen(LEDGER_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
  ck_assert_msg(library != NULL, "%s", dlerror());
  book = dlsym(library, LEDGER_SYMBOL);
  ck_assert_ptr_nonnull(book);
}

static void open_ledger(void) { open_device("ledger"); }

static void close_ledger(void) {
  tn_runtime_close(tn_device_runtime(device));
  ck_assert_int_eq(book->captures, 0); /* no program runs here */
}

#define EMPTY(dtype, ...)                                                                          \
  shaped(device, dtype, (int32_t)(sizeof SHAPE(__VA_ARGS__) / 8), SHAPE(__VA_ARGS__))

static void sees(const ledger_tensor *t, int32_t rank, const int64_t *shape,
                 const int64_t *strides) {
  ck_assert_int_eq(t->rank, rank);
  for (int32_t i = 0; i < rank; ++i) {
    ck_assert_int_eq(t->shape[i], shape[i]);
    ck_assert_int_eq(t->strides[i], strides[i]);
  }
}

static void release(tn_tensor **t) {
  tn_tensor_release(*t);
  *t = NULL;
}

/* -------------------------------------------------------------- a device --- */

/* Of ledger and ledger_opaque once each, and once more of the one that is open. */
START_TEST(a_device_is_described_again_when_it_is_open) {
  tn_device_info info = {.struct_size = sizeof info};
  for (int i = 0; i < 2; i++) {
    ok(tn_device_get_info(device, &info));
    ck_assert_str_eq(info.features, "described-3 open");
    ck_assert_int_eq(book->describes, 3);
  }
}
END_TEST

/* ------------------------------------------------------------------- axes --- */

static int64_t seen_axis(size_t offset) {
  int64_t axis;
  memcpy(&axis, book->run.attrs + offset, sizeof axis);
  return axis;
}
#define AXIS(type) seen_axis(offsetof(type, axis))

START_TEST(axes_are_counted_from_the_front) {
  tn_tensor *x = EMPTY(TN_F32, 2, 3, 4), *y = NULL;
  const tn_softmax_attrs middle = {sizeof middle, -2};
  ok(tn_softmax(NULL, x, &middle, &y));
  ck_assert_int_eq(AXIS(tn_softmax_attrs), 1);
  ck_assert_int_eq(middle.axis, -2);
  ok(tn_softmax(NULL, x, NULL, &y)); /* by default the last */
  ck_assert_int_eq(AXIS(tn_softmax_attrs), 2);
  release(&y);
  /* A struct of a program that knows less of it. */
  const uint32_t bare = sizeof bare;
  ok(tn_argmax(NULL, x, (const tn_argmax_attrs *)(const void *)&bare, &y));
  ck_assert_int_eq(AXIS(tn_argmax_attrs), 2);
  release(&y);
  ok(tn_layer_norm(NULL, x, NULL, NULL, NULL, &y, NULL, NULL));
  ck_assert_int_eq(AXIS(tn_layer_norm_attrs), 2);
  const double eps = ((const tn_layer_norm_attrs *)(const void *)book->run.attrs)->eps;
  ck_assert_msg(eps > 0.9e-5 && eps < 1.1e-5, "the rest of the attributes is %g", eps);
  release(&y);
  release(&x);
}
END_TEST

START_TEST(listed_axes_are_counted_from_the_front) {
  tn_tensor *x = EMPTY(TN_F32, 2, 3, 4, 5), *y = NULL;
  const tn_sum_attrs sum = {.struct_size = sizeof sum, .axes = {3, {-1, 1, -4}}};
  ok(tn_sum(NULL, x, &sum, &y));
  const tn_sum_attrs *seen = (const void *)book->run.attrs;
  ck_assert_int_eq(seen->axes.count, 3);
  ck_assert_int_eq(seen->axes.axis[0], 3);
  ck_assert_int_eq(seen->axes.axis[1], 1);
  ck_assert_int_eq(seen->axes.axis[2], 0);
  ck_assert_int_eq(sum.axes.axis[0], -1);
  release(&y);
  ok(tn_sum(NULL, x, NULL, &y)); /* none stays none */
  ck_assert_int_eq(((const tn_sum_attrs *)(const void *)book->run.attrs)->axes.count, 0);
  release(&y);
  const tn_roll_attrs roll = {
      .struct_size = sizeof roll, .shifts = {.count = 2, .dim = {7, -8}}, .axes = {2, {-2, 0}}};
  ok(tn_roll(NULL, x, &roll, &y));
  const tn_roll_attrs *rolled = (const void *)book->run.attrs;
  ck_assert_int_eq(rolled->axes.axis[0], 2);
  ck_assert_int_eq(rolled->shifts.dim[1], -8); /* what is no axis stays */
  release(&y);
  release(&x);
}
END_TEST

/* Axes of the output, of the tensor that is updated, and of operators with lists. */
START_TEST(axes_are_those_of_the_right_tensor) {
  tn_tensor *x = EMPTY(TN_F32, 2, 3), *index = EMPTY(TN_I64, 3), *y = NULL;
  const tn_one_hot_attrs hot = {sizeof hot, 5, -1, TN_F32, 1, 0};
  ok(tn_one_hot(NULL, index, &hot, &y));
  ck_assert_int_eq(AXIS(tn_one_hot_attrs), 1);
  release(&y);
  ok(tn_gather(NULL, x, index, &(tn_gather_attrs){sizeof(tn_gather_attrs), -2}, &y));
  ck_assert_int_eq(AXIS(tn_gather_attrs), 0);
  release(&y);
  tn_tensor *updated = EMPTY(TN_F32, 2, 9);
  ok(tn_index_add(NULL, x, index, updated, &(tn_index_add_attrs){sizeof(tn_index_add_attrs), -1}));
  ck_assert_int_eq(AXIS(tn_index_add_attrs), 1);
  const tn_tensor *both[] = {x, x};
  ok(tn_concat(NULL, both, 2, &(tn_concat_attrs){sizeof(tn_concat_attrs), -1}, &y));
  ck_assert_int_eq(AXIS(tn_concat_attrs), 1);
  release(&y);
  ok(tn_stack(NULL, both, 2, &(tn_stack_attrs){sizeof(tn_stack_attrs), -1}, &y));
  ck_assert_int_eq(AXIS(tn_stack_attrs), 2);
  release(&y), release(&x), release(&index), release(&updated);
}
END_TEST

static tn_call call_of(uint32_t op, const tn_tensor *const *in, tn_tensor **out,
                       const void *attrs) {
  return (tn_call){.struct_size = sizeof(tn_call),
                   .op = op,
                   .in = in,
                   .out = out,
                   .attrs = attrs,
                   .num_in = 1,
                   .num_out = 1};
}

START_TEST(prepared_calls_count_axes_once) {
  tn_tensor *x = EMPTY(TN_F32, 2, 3, 4), *y = NULL;
  tn_softmax_attrs attrs = {sizeof attrs, -3};
  tn_prepared *prepared;
  const tn_tensor *in[] = {x};
  tn_call call = call_of(TN_OP_SOFTMAX, in, &y, &attrs);
  ok(tn_prepare(&call, &prepared));
  attrs.axis = 1; /* a copy was taken */
  ok(tn_run(prepared));
  ck_assert_int_eq(AXIS(tn_softmax_attrs), 0);
  attrs.axis = -1;
  ok(tn_prepared_set_attrs(prepared, &attrs));
  ok(tn_run(prepared));
  ck_assert_int_eq(AXIS(tn_softmax_attrs), 2);
  refused(tn_prepared_set_attrs(prepared, &(tn_softmax_attrs){sizeof attrs, -4}),
          TN_ERR_INVALID_ARGUMENT, "axis");
  ok(tn_run(prepared));
  ck_assert_int_eq(AXIS(tn_softmax_attrs), 2);
  tn_prepared_release(prepared);
  release(&y), release(&x);
}
END_TEST

/* ---------------------------------------------------------------- tensors --- */

/* Who broadcasts: the dispatcher for elementwise operators, kernels for batch axes. */
START_TEST(batch_axes_are_the_kernels) {
  tn_tensor *a = EMPTY(TN_F32, 6, 1, 2, 3), *b = EMPTY(TN_F32, 5, 3, 4), *y = NULL;
  ok(tn_matmul(NULL, a, b, NULL, NULL, &y));
  sees(&book->run.in[0], 4, SHAPE(6, 1, 2, 3), SHAPE(6, 6, 3, 1));
  sees(&book->run.in[1], 3, SHAPE(5, 3, 4), SHAPE(12, 4, 1));
  ck_assert_int_eq(book->run.in[2].rank, -1); /* no bias: absent */
  sees(&book->run.out[0], 4, SHAPE(6, 5, 2, 4), SHAPE(40, 8, 4, 1));
  release(&y), release(&b), release(&a);
  a = EMPTY(TN_F32, 3, 1), b = EMPTY(TN_F32, 4);
  ok(tn_add(NULL, a, b, &y));
  sees(&book->run.in[0], 2, SHAPE(3, 4), SHAPE(1, 0));
  sees(&book->run.in[1], 2, SHAPE(3, 4), SHAPE(0, 1));
  release(&y), release(&b), release(&a);
}
END_TEST

/* Kernels are called for them too, with data that may not be followed; memory slots never hear of
 * 0 bytes. */
START_TEST(tensors_without_elements) {
  tn_tensor *x = EMPTY(TN_F32, 3, 0), *y = NULL;
  ok(tn_tensor_write(NULL, x, NULL, 0));
  ok(tn_neg(NULL, x, &y));
  ck_assert_int_eq(book->run.times, 1);
  sees(&book->run.in[0], 2, SHAPE(3, 0), SHAPE(1, 1));
  ck_assert_ptr_nonnull(book->run.in[0].data);
  ck_assert_uint_eq((uintptr_t)book->run.in[0].data % LEDGER_ALIGNMENT, 0);
  ok(tn_tensor_to_host(y, NULL, 0));
  void *pinned;
  refused(tn_pinned_alloc(device, 0, &pinned), TN_ERR_INVALID_ARGUMENT, "bytes 0");
  release(&y), release(&x);
  /* An import may have none at all. */
  DLManagedTensorVersioned managed = {
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .dl_tensor = {
          .device = {kDLExtDev, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = SHAPE(0)}};
  ok(tn_tensor_from_dlpack(tn_device_runtime(device), &managed, &x));
  ok(tn_neg(NULL, x, &y));
  ck_assert_int_eq(book->run.times, 2);
  ck_assert_ptr_null(book->run.in[0].data);
  release(&y), release(&x);
  ck_assert_uint_gt(book->least_alloc, 0);
  ck_assert_int_eq(book->copies, 0);
}
END_TEST

START_TEST(alignment) {
  tn_tensor *x = EMPTY(TN_F32, 5), *view, *y = NULL;
  for (int i = 0; i < 3; ++i) { /* odd sizes, one behind the other in a segment */
    ok(tn_neg(NULL, x, &y));
    ck_assert_uint_eq((uintptr_t)book->run.out[0].data % LEDGER_ALIGNMENT, 0);
    release(&x);
    x = y, y = NULL;
  }
  ok(tn_tensor_slice(x, 0, 1, 5, 1, &view)); /* a view is aligned to its elements alone */
  ok(tn_neg(NULL, view, &y));
  ck_assert_uint_eq((uintptr_t)book->run.in[0].data % LEDGER_ALIGNMENT, sizeof(float));
  ck_assert_uint_eq(book->run.in[0].byte_offset, 0); /* addresses need none */
  release(&y), release(&view);
  book->workspace_bytes = 77;
  ok(tn_exp(NULL, x, &y));
  ck_assert_ptr_nonnull(book->run.workspace);
  ck_assert_uint_eq((uintptr_t)book->run.workspace % LEDGER_ALIGNMENT, 0);
  ck_assert_uint_eq(book->run.workspace_bytes, 77);
  release(&y), release(&x);
}
END_TEST

/* Handles stay what alloc gave; where something lies in them is said beside. */
START_TEST(opaque_memory_is_found_by_offsets) {
  close_ledger();
  open_device("ledger_opaque");
  tn_tensor *x = counting(device, 5), *view, *y = NULL;
  float values[4];
  ok(tn_neg(NULL, x, &y));
  const ledger_tensor whole = book->run.in[0];
  ck_assert_uint_eq(whole.byte_offset % LEDGER_ALIGNMENT, 0);
  ck_assert_ptr_eq(book->run.out[0].data, whole.data); /* of one piece of raw memory */
  ck_assert_uint_ne(book->run.out[0].byte_offset, whole.byte_offset);
  ck_assert(((const float *)(const void *)(whole.data + whole.byte_offset))[4] == 5);
  release(&y);
  ok(tn_tensor_slice(x, 0, 1, 5, 1, &view));
  ok(tn_neg(NULL, view, &y));
  ck_assert_ptr_eq(book->run.in[0].data, whole.data);
  ck_assert_uint_eq(book->run.in[0].byte_offset, whole.byte_offset + sizeof(float));
  release(&y);
  ok(tn_tensor_to_host(view, values, sizeof values)); /* copies begin anywhere */
  ck_assert(values[0] == 2);
  book->workspace_bytes = 77;
  ok(tn_exp(NULL, x, &y));
  ck_assert_ptr_eq(book->run.workspace, whole.data);
  ck_assert_uint_ne(book->run.workspace_offset, 0);
  ck_assert_uint_eq(book->run.workspace_offset % LEDGER_ALIGNMENT, 0);
  release(&y), release(&view), release(&x);
}
END_TEST

static void leave_alone(DLManagedTensorVersioned *managed) { (void)managed; }

/* No view of Tenon's has them; imports may. Row-major copies are made for rows that want such. */
START_TEST(negative_strides) {
  float values[4] = {1, 2, 3, 4};
  tn_tensor *x, *y = NULL;
  DLManagedTensorVersioned managed = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                      .deleter = leave_alone,
                                      .dl_tensor = {.data = values + 3,
                                                    .device = {kDLExtDev, 0},
                                                    .ndim = 1,
                                                    .dtype = {kDLFloat, 32, 1},
                                                    .shape = SHAPE(4),
                                                    .strides = SHAPE(-1)}};
  ok(tn_tensor_from_dlpack(tn_device_runtime(device), &managed, &x));
  ok(tn_neg(NULL, x, &y));
  sees(&book->run.in[0], 1, SHAPE(4), SHAPE(-1));
  ck_assert_ptr_eq(book->run.in[0].data, (const char *)(values + 3));
  ok(tn_abs(NULL, x, &y));
  sees(&book->supports.in[0], 1, SHAPE(4), SHAPE(-1)); /* asked before the copy is made */
  sees(&book->run.in[0], 1, SHAPE(4), SHAPE(1));
  ck_assert(((const float *)(const void *)book->run.in[0].data)[0] == 4);
  release(&y);
  refused(tn_tensor_slice(x, 0, 0, 4, -1, &y), TN_ERR_INVALID_ARGUMENT, "by -1");
  release(&x);
}
END_TEST

/* ---------------------------------------------------- supports, workspace --- */

START_TEST(when_rows_are_asked) {
  tn_tensor *x = EMPTY(TN_F32, 4), *y = NULL, *z = NULL;
  tn_prepared *prepared;
  const tn_tensor *in[] = {x};
  for (int i = 1; i <= 3; ++i) { /* at every call, in its thread; nothing is remembered */
    ok(tn_neg(NULL, x, &y));
    ck_assert_int_eq(book->supports.times, i);
  }
  ck_assert(pthread_equal(book->supports.thread, pthread_self()));
  ck_assert_int_eq(book->supports.out[0].rank, 1);
  ck_assert_ptr_null(book->supports.workspace);
  tn_call call = call_of(TN_OP_NEG, in, &z, NULL);
  ok(tn_prepare(&call, &prepared)); /* once for all its runs */
  for (int i = 0; i < 3; ++i) ok(tn_run(prepared));
  ck_assert_int_eq(book->supports.times, 4);
  tn_prepared_release(prepared);
  release(&z);
  book->workspace_bytes = 0;
  ok(tn_exp(NULL, x, &y));
  ck_assert_int_eq(book->workspace.times, 1);
  ck_assert_ptr_null(book->workspace.workspace);
  ck_assert_ptr_null(book->run.workspace); /* 0 bytes: none */
  book->workspace_bytes = 64;
  call = call_of(TN_OP_EXP, in, &z, NULL);
  ok(tn_prepare(&call, &prepared));
  for (int i = 0; i < 3; ++i) ok(tn_run(prepared));
  ck_assert_int_eq(book->workspace.times, 2);
  ck_assert_ptr_nonnull(book->run.workspace);
  tn_prepared_release(prepared);
  release(&z), release(&y), release(&x);
}
END_TEST

/* ------------------------------------------------------------------ slots --- */

/* Between the device and the host alone: on the device the kernel `copy` does it. */
START_TEST(directions_of_copies) {
  tn_tensor *x = counting(device, 6), *strided, *y = NULL;
  float values[6];
  ok(tn_copy(NULL, x, &y));
  ok(tn_tensor_slice(x, 0, 0, 6, 2, &strided));
  ok(tn_tensor_to_host(strided, values, tn_tensor_bytes(strided)));
  ck_assert(values[2] == 5);
  ok(tn_tensor_write(NULL, strided, values, tn_tensor_bytes(strided)));
  ck_assert_uint_eq(book->directions, 1u << TN_COPY_TO_DEVICE | 1u << TN_COPY_TO_HOST);
  release(&y), release(&strided), release(&x);
}
END_TEST

START_TEST(services_of_the_host) {
  tn_tensor *x = EMPTY(TN_F32, 4);
  ck_assert_ptr_nonnull(book->open);
  tn_host *open = (tn_host *)(uintptr_t)book->open;
  ck_assert_uint_ge(open->num_threads, 1);
  void *memory = open->alloc(open, 0, 64); /* 0 bytes give something to free */
  ck_assert_ptr_nonnull(memory);
  ck_assert_uint_eq((uintptr_t)memory % 64, 0);
  open->free(open, memory);
  open->free(open, NULL);
  release(&x);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, open_ledger, close_ledger);
  tcase_add_test(t, a_device_is_described_again_when_it_is_open);
  tcase_add_test(t, axes_are_counted_from_the_front);
  tcase_add_test(t, listed_axes_are_counted_from_the_front);
  tcase_add_test(t, axes_are_those_of_the_right_tensor);
  tcase_add_test(t, prepared_calls_count_axes_once);
  tcase_add_test(t, batch_axes_are_the_kernels);
  tcase_add_test(t, tensors_without_elements);
  tcase_add_test(t, alignment);
  tcase_add_test(t, opaque_memory_is_found_by_offsets);
  tcase_add_test(t, negative_strides);
  tcase_add_test(t, when_rows_are_asked);
  tcase_add_test(t, directions_of_copies);
  tcase_add_test(t, services_of_the_host);
}

int main(void) { return run_suite("promises", add_tests); }
