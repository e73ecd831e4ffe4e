/*
 * A kernel that reads where no memory is: the device is lost, every later call says so at once and
 * names what ran, the host's devices go on, everything can be given back, and once the program has
 * reset the GPU itself, a runtime opened anew computes. Skipped where no GPU is.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/gpu.h"

enum { N = 4096 };

static tn_runtime *rt;
static tn_device *gpu, *host;

static void setup(void) {
  ok(open_cuda("validate", &rt));
  gpu = tn_runtime_device(rt);
  ok(tn_device_find(rt, "reference", &host));
}

/* N floats at an address of the device where nothing is. */
static tn_tensor *nowhere(void) {
  static int64_t shape[] = {N}, strides[] = {1};
  static DLManagedTensorVersioned managed;
  managed = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                       .dl_tensor = {.data = (void *)(uintptr_t)0x7000000000,
                                                     .device = {kDLCUDA, 0},
                                                     .ndim = 1,
                                                     .dtype = {kDLFloat, 32, 1},
                                                     .shape = shape,
                                                     .strides = strides}};
  tn_tensor *t = NULL;
  ok(tn_tensor_from_dlpack(rt, &managed, &t));
  return t;
}

static tn_tensor *counted(tn_device *device) {
  float values[N];
  for (int i = 0; i < N; ++i) values[i] = (float)i;
  tn_tensor *t = NULL;
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(N), values, &t));
  return t;
}

static void computes(tn_device *device) {
  float values[N];
  tn_tensor *x = counted(device), *y = NULL;
  ok(tn_add(NULL, x, x, &y));
  ok(tn_tensor_to_host(y, values, sizeof values));
  for (int i = 0; i < N; ++i) ck_assert_float_eq(values[i], 2 * (float)i);
  tn_tensor_release(x);
  tn_tensor_release(y);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char told[] = "latest first: neg, add";

static void says_so(tn_tensor *x) {
  enum { CALLS = 1000 };
  char values[N * sizeof(float)];
  tn_tensor *y = NULL;
  tn_stream *stream = NULL;
  refused(tn_tensor_to_host(x, values, sizeof values), TN_ERR_DEVICE_LOST, told);
  refused(tn_tensor_write(NULL, x, values, sizeof values), TN_ERR_DEVICE_LOST, told);
  refused(tn_device_synchronize(gpu), TN_ERR_DEVICE_LOST, told);
  refused(tn_stream_create(gpu, &stream), TN_ERR_DEVICE_LOST, told);
  refused(tn_zeros(gpu, NULL, TN_F32, 1, SHAPE(N), &y), TN_ERR_DEVICE_LOST, told);
  double start = now();
  for (int i = 0; i < CALLS; ++i) refused(tn_add(NULL, x, x, &y), TN_ERR_DEVICE_LOST, told);
  double each = (now() - start) / CALLS;
  printf("a call on the lost device is refused in %.2f us\n", 1e6 * each);
  ck_assert_double_lt(each, 10e-6);
}

START_TEST(an_illegal_address) {
  setup();
  computes(gpu);
  tn_tensor *x = counted(gpu), *on_host = counted(host), *bad = nowhere(), *y = NULL, *z = NULL;
  float values[N];
  ok(tn_add(NULL, x, x, &z));
  ok(tn_neg(NULL, bad, &y));
  refused(tn_tensor_to_host(y, values, sizeof values), TN_ERR_DEVICE_LOST, "IllegalAddress");
  ck_assert(strstr(tn_last_error(), told));
  says_so(x);
  computes(host);
  tn_device_info info = {.struct_size = sizeof info};
  ok(tn_device_get_info(gpu, &info));
  ck_assert_uint_eq(info.lost, 1);
  for (int i = 0; i < 5; ++i) tn_tensor_release((tn_tensor *[]){x, bad, y, z, on_host}[i]);
  tn_runtime_close(rt);
  /* The program that has the GPU to itself may begin anew: the driver says whether. */
  (void)cudaDeviceReset();
  (void)cudaGetLastError();
  bool driver = cudaFree(NULL) == cudaSuccess;
  printf("after cudaDeviceReset the driver %s\n", driver ? "goes on" : "does not go on");
  if (!driver) return;
  setup();
  computes(gpu);
  tn_runtime_close(rt);
}
END_TEST

static void add_tests(TCase *t) { tcase_add_test(t, an_illegal_address); }

int main(void) { return run_suite_on_gpu("cuda-lost", add_tests); }
