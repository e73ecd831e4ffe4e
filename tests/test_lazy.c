/*
 * Devices that do their work as late as they may (fixtures/lazy.c). Without a kernel, and so
 * without a kernel `copy`, everything is computed by the fallback and moved by transfers, strided
 * tensors too. With memory that is the host's, whoever reads it in place waits first.
 */
#include <stdio.h>

#include "tests/fixtures/lazy.h"
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *host; /* what results are compared with */

static const char *const kernel_less[] = {"bare", "still", "handle", "flat"};
enum { KERNEL_LESS = sizeof kernel_less / sizeof *kernel_less };

static void open_with(const char *plugins, const char *layers) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugin_path = LAZY_PLUGIN ":" SIM_PLUGIN,
                                .plugins = plugins,
                                .device = "bare",
                                .layers = layers,
                                .fallback = TN_FALLBACK_ALLOW};
  tn_runtime_close(rt);
  rt = open_runtime(&options);
}

static void setup(void) {
  open_with("lazy,reference,sim", NULL);
  ok(tn_device_find(rt, "reference", &host));
}

static void teardown(void) { tn_runtime_close(rt), rt = NULL; }

static tn_device *device_of(const char *type) {
  tn_device *d = NULL;
  ok(tn_device_find(rt, type, &d));
  return d;
}

static tn_tensor *sliced(tn_tensor *x, int32_t axis, int64_t begin, int64_t end, int64_t step) {
  tn_tensor *view = NULL;
  ok(tn_tensor_slice(x, axis, begin, end, step, &view));
  return view;
}

static tn_tensor *swapped(const tn_tensor *x) {
  tn_tensor *view = NULL;
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &view));
  return view;
}

static tn_tensor *matrix(tn_device *device, int64_t rows, int64_t columns) {
  tn_tensor *x = counting(device, rows * columns), *y = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(rows, columns), &y));
  tn_tensor_release(x);
  return y;
}

/* Both have the same contents, bit for bit. */
static void same(const tn_tensor *got, const tn_tensor *want) {
  size_t bytes = tn_tensor_bytes(want);
  unsigned char *a = malloc(bytes), *b = malloc(bytes);
  ck_assert_uint_eq(tn_tensor_bytes(got), bytes);
  ok(tn_tensor_to_host(got, a, bytes));
  ok(tn_tensor_to_host(want, b, bytes));
  ck_assert(memcmp(a, b, bytes) == 0);
  free(b);
  free(a);
}

/* --- transfers of strided tensors --- */

/* Some part of a matrix: of parts that are dense in another order, that have small gaps, large
 * ones, and rows that are longer than the transfers' buffer. */
typedef struct part {
  int64_t rows, columns;
  int64_t begin[2], end[2], step[2];
  bool swap;
} part;

static const part parts[] = {
    {6, 5, {0, 0}, {6, 5}, {1, 1}, true},
    {6, 5, {1, 1}, {6, 4}, {2, 1}, false},
    {7, 9, {0, 2}, {7, 9}, {3, 3}, true},
    {700, 1000, {0, 3}, {700, 9}, {1, 2}, false},
    {700, 1000, {5, 0}, {699, 1000}, {1, 7}, true},
    {5, 70000, {0, 11}, {5, 70000}, {2, 69}, false},
    {3, 600000, {0, 1}, {3, 600000}, {1, 1}, false},
    {3, 600000, {0, 1}, {3, 600000}, {2, 2}, true},
};
enum { PARTS = sizeof parts / sizeof *parts };

static tn_tensor *part_of(tn_tensor *whole, const part *p) {
  tn_tensor *rows = sliced(whole, 0, p->begin[0], p->end[0], p->step[0]);
  tn_tensor *y = sliced(rows, 1, p->begin[1], p->end[1], p->step[1]);
  tn_tensor_release(rows);
  if (!p->swap) return y;
  tn_tensor *z = swapped(y);
  tn_tensor_release(y);
  return z;
}

static void move_part(tn_device *device, const part *p) {
  tn_tensor *here = matrix(host, p->rows, p->columns), *there = matrix(device, p->rows, p->columns);
  tn_tensor *a = part_of(here, p), *b = part_of(there, p), *copy = NULL;
  same(b, a); /* read */
  ok(tn_tensor_to_device(b, host, &copy));
  same(copy, a);
  size_t bytes = tn_tensor_bytes(a);
  float *values = malloc(bytes);
  for (size_t i = 0; i < bytes / 4; ++i) values[i] = -(float)i;
  ok(tn_tensor_write(NULL, a, values, bytes));
  ok(tn_tensor_write(NULL, b, values, bytes));
  same(there, here); /* and what lies between is as before */
  free(values);
  tn_tensor_release(copy);
  tn_tensor_release(b);
  tn_tensor_release(a);
  tn_tensor_release(there);
  tn_tensor_release(here);
}

START_TEST(strided_tensors_are_transferred) {
  tn_device *device = device_of(kernel_less[_i / PARTS]);
  move_part(device, &parts[_i % PARTS]);
}
END_TEST

START_TEST(repeated_elements_are_read_not_written) {
  for (int i = 0; i < KERNEL_LESS; ++i) {
    tn_tensor *x = counting(device_of(kernel_less[i]), 3), *wide = NULL, *dense = NULL;
    float got[6];
    ok(tn_tensor_expand(x, 2, SHAPE(2, 3), &wide));
    ok(tn_tensor_to_host(wide, got, sizeof got));
    for (int k = 0; k < 6; ++k) ck_assert(got[k] == (float)(k % 3 + 1));
    refused(tn_tensor_write(NULL, wide, got, sizeof got), TN_ERR_INVALID_ARGUMENT,
            "same element in several places");
    ok(tn_tensor_contiguous(NULL, wide, &dense));
    ok(tn_tensor_to_host(dense, got, sizeof got));
    for (int k = 0; k < 6; ++k) ck_assert(got[k] == (float)(k % 3 + 1));
    tn_tensor_release(dense);
    tn_tensor_release(wide);
    tn_tensor_release(x);
  }
}
END_TEST

/* --- operators --- */

/* Every second column of what `whole` becomes is written by calls on strided tensors. */
static void compute(tn_device *device, tn_tensor **whole) {
  tn_tensor *x = matrix(device, 4, 6), *t = swapped(x), *y = NULL, *joined = NULL, *count = NULL;
  *whole = matrix(device, 6, 8);
  tn_tensor *out = sliced(*whole, 1, 0, 8, 2), *wide = NULL;
  ok(tn_add(NULL, t, t, &out));
  ok(tn_copy(NULL, t, &y));
  ok(tn_mul(NULL, y, out, &out));
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 3;
  tn_tensor *line = sliced(out, 0, 1, 6, 4);
  ok(tn_fill(NULL, line, &fill)); /* updated in place */
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  cast.dtype = TN_F64;
  ok(tn_cast(NULL, out, &cast, &wide));
  tn_concat_attrs concat = TN_CONCAT_DEFAULTS;
  const tn_tensor *list[2] = {t, out};
  ok(tn_concat(NULL, list, 2, &concat, &joined));
  tn_tensor *found = NULL;
  ok(tn_nonzero(NULL, line, &found, &count));
  ck_assert_int_eq(tn_tensor_shape(found)[0], 8);
  tn_tensor *back = swapped(joined), *twice = sliced(*whole, 1, 1, 8, 2);
  tn_tensor *low = sliced(back, 1, 2, 8, 1), *turned = swapped(low);
  ok(tn_sub(NULL, turned, t, &twice));
  tn_tensor *all[] = {turned, low, twice, back, count, found, joined, wide, line, out, y, t, x};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) tn_tensor_release(all[i]);
}

START_TEST(operators_fall_back_with_strided_tensors) {
  tn_tensor *want, *got;
  compute(host, &want);
  compute(device_of(kernel_less[_i]), &got);
  same(got, want);
  tn_tensor_release(got);
  tn_tensor_release(want);
}
END_TEST

/* Every second element of a row. */
static tn_tensor *row_part(tn_tensor *x, int64_t row) {
  return part_of(x, &(part){.begin = {row, 0}, .end = {row + 1, 6}, .step = {1, 2}});
}

/* Lists that are updated in place, through strides, by an ordinary and a prepared call. */
static void update_lists(tn_device *device, tn_tensor **whole, bool prepare) {
  tn_tensor *grads = matrix(device, 4, 6), *sum = matrix(device, 4, 6);
  *whole = matrix(device, 4, 6);
  tn_tensor *out[8];
  const tn_tensor *in[4];
  for (int i = 0; i < 4; ++i) {
    in[i] = row_part(grads, i);
    out[i] = row_part(*whole, i);
    out[4 + i] = row_part(sum, i);
  }
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_MULTI_SGD,
                  .in = in,
                  .out = out,
                  .num_in = 4,
                  .num_out = 8};
  tn_prepared *p = NULL;
  if (prepare) {
    ok(tn_prepare(&call, &p));
    ok(tn_run(p));
    tn_prepared_release(p);
  } else {
    ok(tn_invoke(&call));
  }
  for (int i = 0; i < 8; ++i) tn_tensor_release(out[i]);
  for (int i = 0; i < 4; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)in[i]);
  tn_tensor_release(sum);
  tn_tensor_release(grads);
}

START_TEST(lists_fall_back_with_strided_tensors) {
  tn_tensor *want, *got;
  update_lists(host, &want, false);
  update_lists(device_of(kernel_less[_i / 2]), &got, _i % 2);
  same(got, want);
  tn_tensor_release(got);
  tn_tensor_release(want);
}
END_TEST

START_TEST(outputs_of_the_fallback_are_moved_once) {
  tn_device *bare = device_of("bare");
  const lazy_counts *counts = tn_stream_native(tn_device_default_stream(bare));
  tn_tensor *x = counting(bare, 100), *y = NULL;
  lazy_counts before = *counts;
  ok(tn_neg(NULL, x, &y));
  ck_assert_uint_eq(counts->to_host - before.to_host, 1);
  ck_assert_uint_eq(counts->to_device - before.to_device, 1);
  ck_assert_uint_eq(counts->bytes - before.bytes, 800);
  ck_assert_uint_le(counts->waits - before.waits, 2); /* before the input is read, and behind it */
  tn_memory_stats stats = {.struct_size = sizeof stats};
  ok(tn_device_memory_stats(bare, &stats));
  uint64_t used = stats.in_use;
  ok(tn_neg(NULL, x, &y)); /* an output that is given takes no memory */
  ok(tn_device_memory_stats(bare, &stats));
  ck_assert_uint_eq(stats.in_use, used);
  tn_tensor_release(y);
  tn_tensor_release(x);
}
END_TEST

START_TEST(a_call_that_nobody_takes_is_refused) {
  const char *const types[] = {"bare", "reference", "unified"};
  uint32_t op;
  ok(tn_op_find(rt, "lazy_never", &op));
  for (int i = 0; i < 3; ++i) {
    tn_tensor *out[1] = {NULL};
    const tn_tensor *in[1] = {counting(device_of(types[i]), 3)};
    tn_call call = {
        .struct_size = sizeof call, .op = op, .in = in, .out = out, .num_in = 1, .num_out = 1};
    refused(tn_invoke(&call), TN_ERR_UNSUPPORTED, "no kernel for f32");
    ck_assert_ptr_null(out[0]);
    tn_tensor_release((tn_tensor *)(uintptr_t)in[0]);
  }
}
END_TEST

/* --- memory that is the host's --- */

static void is_counting_doubled(const float *values, int n, float sign) {
  ck_assert_ptr_nonnull(values);
  for (int i = 0; i < n; ++i)
    ck_assert_msg(values[i] == sign * 2 * (float)(i + 1), "%d: %g", i, values[i]);
}

/* x + x, still in the queue. */
static tn_tensor *pending_sum(tn_device *device) {
  tn_tensor *x = counting(device, 50), *y = NULL;
  ok(tn_add(NULL, x, x, &y));
  tn_tensor_release(x);
  return y;
}

static void check_host_rows(tn_device *unified) {
  tn_tensor *y = pending_sum(unified), *z = NULL, *w = NULL;
  ok(tn_neg(NULL, y, &z)); /* a row for any host device, behind work that is in the queue */
  ok(tn_add(NULL, z, z, &w));
  ok(tn_mul(NULL, w, w, &w)); /* in place */
  float got[50];
  ok(tn_tensor_to_host(z, got, sizeof got));
  is_counting_doubled(got, 50, -1);
  ok(tn_tensor_to_host(w, got, sizeof got));
  for (int i = 0; i < 50; ++i) ck_assert(got[i] == 16 * (float)(i + 1) * (float)(i + 1));
  tn_tensor_release(w);
  tn_tensor_release(z);
  tn_tensor_release(y);
}

START_TEST(host_rows_wait_for_the_stream) { check_host_rows(device_of("unified")); }
END_TEST

START_TEST(host_rows_wait_under_layers) {
  open_with("lazy,reference,sim", "tally");
  check_host_rows(device_of("unified"));
}
END_TEST

START_TEST(prepared_host_rows_wait) {
  tn_device *unified = device_of("unified");
  tn_tensor *x = counting(unified, 50), *y = NULL, *out[1] = {NULL};
  ok(tn_tensor_empty(unified, TN_F32, 1, SHAPE(50), &y));
  const tn_tensor *in[1] = {y};
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_NEG, .in = in, .out = out, .num_in = 1, .num_out = 1};
  tn_prepared *p = NULL;
  ok(tn_prepare(&call, &p));
  ok(tn_add(NULL, x, x, &y));
  ok(tn_run(p));
  is_counting_doubled(tn_tensor_data(out[0]), 50, -1);
  tn_prepared_release(p);
  tn_tensor_release(out[0]);
  tn_tensor_release(y);
  tn_tensor_release(x);
}
END_TEST

START_TEST(streams_in_order_of_events_too) {
  tn_device *unified = device_of("unified");
  tn_stream *a = NULL, *b = NULL;
  tn_event *e = NULL;
  ok(tn_stream_create(unified, &a));
  ok(tn_stream_create(unified, &b));
  ok(tn_event_create(unified, &e));
  tn_tensor *x = counting(unified, 50), *y = NULL, *z = NULL;
  ok(tn_device_synchronize(unified));
  ok(tn_add(a, x, x, &y));
  ok(tn_event_record(e, a));
  ok(tn_stream_wait_event(b, e));
  ok(tn_neg(b, y, &z));
  is_counting_doubled(tn_tensor_data(z), 50, -1);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_event_destroy(e);
  tn_stream_destroy(b);
  tn_stream_destroy(a);
}
END_TEST

START_TEST(readers_in_place_wait) {
  tn_device *unified = device_of("unified");
  tn_tensor *y = pending_sum(unified);
  is_counting_doubled(tn_tensor_data(y), 50, 1);
  tn_tensor_release(y);
  DLManagedTensorVersioned *managed = NULL;
  y = pending_sum(unified);
  ok(tn_tensor_to_dlpack(y, &managed));
  is_counting_doubled(managed->dl_tensor.data, 50, 1);
  managed->deleter(managed);
  tn_tensor_release(y);
  DLManagedTensor *old = NULL;
  y = pending_sum(unified);
  ok(tn_tensor_to_dlpack_unversioned(y, &old));
  is_counting_doubled(old->dl_tensor.data, 50, 1);
  old->deleter(old);
  tn_tensor_release(y);
}
END_TEST

START_TEST(copies_between_devices_wait) {
  const char *const types[] = {"reference", "bare", "handle", "still"};
  tn_device *unified = device_of("unified");
  float got[50];
  for (int i = 0; i < 4; ++i) {
    tn_tensor *y = pending_sum(unified), *there = NULL, *back = NULL;
    ok(tn_tensor_to_device(y, device_of(types[i]), &there));
    tn_tensor_release(y);
    ok(tn_tensor_to_host(there, got, sizeof got));
    is_counting_doubled(got, 50, 1);
    /* Into memory that a sum still in the queue writes to. */
    tn_tensor_release(pending_sum(unified));
    ok(tn_tensor_to_device(there, unified, &back));
    ok(tn_device_synchronize(unified));
    ok(tn_tensor_to_host(back, got, sizeof got));
    is_counting_doubled(got, 50, 1);
    tn_tensor_release(back);
    tn_tensor_release(there);
  }
}
END_TEST

/* The device that calls fall back to may itself work beside the host. */
START_TEST(the_fallback_waits_for_its_host) {
  open_with("lazy", NULL);
  tn_tensor *y = pending_sum(device_of("bare"));
  float got[50];
  ok(tn_tensor_to_host(y, got, sizeof got));
  is_counting_doubled(got, 50, 1);
  tn_tensor_release(y);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, strided_tensors_are_transferred, 0, KERNEL_LESS * PARTS);
  tcase_add_test(t, repeated_elements_are_read_not_written);
  tcase_add_loop_test(t, operators_fall_back_with_strided_tensors, 0, KERNEL_LESS);
  tcase_add_loop_test(t, lists_fall_back_with_strided_tensors, 0, 2 * KERNEL_LESS);
  tcase_add_test(t, outputs_of_the_fallback_are_moved_once);
  tcase_add_test(t, a_call_that_nobody_takes_is_refused);
  tcase_add_test(t, host_rows_wait_for_the_stream);
  tcase_add_test(t, host_rows_wait_under_layers);
  tcase_add_test(t, prepared_host_rows_wait);
  tcase_add_test(t, streams_in_order_of_events_too);
  tcase_add_test(t, readers_in_place_wait);
  tcase_add_test(t, copies_between_devices_wait);
  tcase_add_test(t, the_fallback_waits_for_its_host);
}

int main(void) { return run_suite("lazy", add_tests); }
