/*
 * Copies from one GPU to another: in the order of both streams, with work that takes a while before
 * each step whose order matters. Skipped where fewer than two GPUs are.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

enum { N = 1 << 22, BYTES = N * (int)sizeof(float) };

static tn_runtime *rt;
static tn_device *devices[2];
static char *slow_memory; /* of the first device: what is cleared to take time */
static const size_t slow_bytes = (size_t)1 << 30;
static float *values;

#define cu(call) ck_assert_msg((call) == cudaSuccess, "%s", #call)

static void setup(void) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "cuda,reference", .device = "cuda"};
  ok(tn_runtime_open(&options, &rt));
  ok(tn_device_find(rt, "cuda:0", &devices[0]));
  ok(tn_device_find(rt, "cuda:1", &devices[1]));
  cu(cudaSetDevice(0));
  cu(cudaMalloc((void **)&slow_memory, slow_bytes));
  values = malloc(BYTES);
  ck_assert_ptr_nonnull(values);
  for (int i = 0; i < N; i++) values[i] = (float)i;
}
static void teardown(void) {
  free(values);
  cu(cudaFree(slow_memory));
  tn_runtime_close(rt);
}

static void keep_busy(cudaStream_t stream) {
  cu(cudaSetDevice(0));
  for (int i = 0; i < 20; ++i) cu(cudaMemsetAsync(slow_memory, i, slow_bytes, stream));
}

static tn_tensor *numbers(tn_device *d) {
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(d, TN_F32, 1, SHAPE(N), values, &t));
  return t;
}

static void expect(const tn_tensor *t, float first, float step) {
  float *read = malloc(BYTES);
  ck_assert_ptr_nonnull(read);
  ok(tn_tensor_to_host(t, read, BYTES));
  for (int i = 0; i < N; i++)
    ck_assert_msg(read[i] == first + step * (float)i, "%d is %g", i, (double)read[i]);
  free(read);
}

START_TEST(copies_arrive) {
  tn_tensor *x = numbers(devices[_i]), *y = NULL, *back = NULL;
  ok(tn_tensor_to_device(x, devices[1 - _i], &y));
  expect(y, 0, 1);
  ok(tn_tensor_to_device(y, devices[_i], &back));
  expect(back, 0, 1);
  tn_tensor_release(back), tn_tensor_release(y), tn_tensor_release(x);
}
END_TEST

/* The source is late, and overwritten right behind the copy. */
START_TEST(both_streams_are_in_order) {
  tn_tensor *x = numbers(devices[0]), *z = NULL, *y = NULL;
  keep_busy(tn_stream_native(tn_device_default_stream(devices[0])));
  ok(tn_add(NULL, x, x, &z));
  ok(tn_tensor_to_device(z, devices[1], &y));
  ok(tn_sub(NULL, z, z, &z));
  expect(y, 0, 2);
  expect(z, 0, 0);
  tn_tensor_release(y), tn_tensor_release(z), tn_tensor_release(x);
}
END_TEST

/* Memory that is given back behind the copy goes to others only when it is done. */
START_TEST(memory_is_not_used_again_too_early) {
  tn_tensor *x = numbers(devices[0]), *y[8];
  for (int i = 0; i < 8; i++) {
    tn_tensor *z = NULL;
    keep_busy(tn_stream_native(tn_device_default_stream(devices[0])));
    ok(tn_add(NULL, x, x, &z));
    ok(tn_tensor_to_device(z, devices[1], &y[i]));
    tn_tensor_release(z);
    z = NULL;
    ok(tn_sub(NULL, x, x, &z));
    tn_tensor_release(z);
  }
  for (int i = 0; i < 8; i++) expect(y[i], 0, 2), tn_tensor_release(y[i]);
  tn_tensor_release(x);
}
END_TEST

START_TEST(strided_sources_arrive) {
  tn_tensor *x = numbers(devices[0]), *rows = NULL, *turned = NULL, *y = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(N / 2, 2), &rows));
  ok(tn_tensor_slice(rows, 1, 1, 2, 1, &turned));
  ok(tn_tensor_to_device(turned, devices[1], &y));
  float *read = malloc(BYTES / 2);
  ck_assert_ptr_nonnull(read);
  ok(tn_tensor_to_host(y, read, BYTES / 2));
  for (int i = 0; i < N / 2; i++) ck_assert(read[i] == (float)(2 * i + 1));
  free(read);
  tn_tensor_release(y), tn_tensor_release(turned), tn_tensor_release(rows), tn_tensor_release(x);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, copies_arrive, 0, 2);
  tcase_add_test(t, both_streams_are_in_order);
  tcase_add_test(t, memory_is_not_used_again_too_early);
  tcase_add_test(t, strided_sources_arrive);
}

/* Whether there are two GPUs, asked in a child: the driver does not survive the fork that Check
 * runs each test in. */
static bool have_two(void) {
  pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(cudaGetDeviceCount(&count) == cudaSuccess && count > 1 ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void) {
  if (!have_two()) {
    puts("no two CUDA devices here");
    return 77;
  }
  return run_suite("cuda-peers", add_tests);
}
