/*
 * Streams that a program made with CUDA itself: wrapped, and as the other side of a DLPack
 * exchange. Work that takes a while stands before each step whose order matters, so that a step
 * out of order reads what was there before. Skipped where no GPU is.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "tests/cuda/gpu.h"

enum { N = 1024, BYTES = N * (int)sizeof(float) };

static tn_runtime *rt;
static tn_device *dev;
static float *pinned;     /* N numbers that copies use in stream order */
static char *slow_memory; /* what is cleared to take time */
static const size_t slow_bytes = (size_t)1 << 30;

#define cu(call) ck_assert_msg((call) == cudaSuccess, "%s", #call)

static void setup(void) {
  ok(open_cuda(NULL, &rt));
  dev = tn_runtime_device(rt);
  cu(cudaSetDevice(0));
  cu(cudaHostAlloc((void **)&pinned, BYTES, cudaHostAllocDefault));
  cu(cudaMalloc((void **)&slow_memory, slow_bytes));
}
static void teardown(void) {
  cu(cudaFree(slow_memory));
  cu(cudaFreeHost(pinned));
  tn_runtime_close(rt);
}

static cudaStream_t new_stream(void) {
  cudaStream_t stream = NULL;
  cu(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

/* Some milliseconds of work. */
static void keep_busy(cudaStream_t stream) {
  for (int i = 0; i < 20; ++i) cu(cudaMemsetAsync(slow_memory, i, slow_bytes, stream));
}

static tn_tensor *zeros(tn_stream *stream) {
  tn_tensor *t = NULL;
  ok(tn_zeros(dev, stream, TN_F32, 1, SHAPE(N), &t));
  return t;
}

static void expect_pinned(float value) {
  for (int i = 0; i < N; ++i) ck_assert_msg(pinned[i] == value, "%d is %g", i, (double)pinned[i]);
}

/* The program writes 3, Tenon doubles, the program reads, in one stream. */
static void work_together(cudaStream_t theirs, tn_stream *ours) {
  tn_tensor *x = zeros(ours), *y = NULL;
  for (int i = 0; i < N; ++i) pinned[i] = 3;
  keep_busy(theirs);
  cu(cudaMemcpyAsync(tn_tensor_data(x), pinned, BYTES, cudaMemcpyHostToDevice, theirs));
  ok(tn_add(ours, x, x, &y));
  cu(cudaMemcpyAsync(pinned, tn_tensor_data(y), BYTES, cudaMemcpyDeviceToHost, theirs));
  cu(cudaStreamSynchronize(theirs));
  expect_pinned(6);
  tn_tensor_release(x), tn_tensor_release(y);
}

START_TEST(a_stream_of_the_program) {
  cudaStream_t theirs = new_stream();
  tn_stream *ours = NULL;
  ok(tn_stream_wrap(dev, theirs, &ours));
  ck_assert_ptr_eq(tn_stream_native(ours), theirs);
  work_together(theirs, ours);
  tn_tensor *x = NULL, *y = NULL; /* what binds a library's handle to the stream */
  ok(tn_ones(dev, ours, TN_F32, 2, SHAPE(64, 64), &x));
  ok(tn_matmul(ours, x, x, NULL, NULL, &y));
  float got[64 * 64];
  ok(tn_tensor_read(ours, y, got, sizeof got));
  ok(tn_stream_synchronize(ours));
  ck_assert(got[0] == 64 && got[4095] == 64);
  tn_tensor_release(x), tn_tensor_release(y);
  tn_stream_destroy(ours);
  cu(cudaStreamQuery(theirs)); /* it is the program's still */
  keep_busy(theirs);
  cu(cudaStreamSynchronize(theirs));
  cu(cudaStreamDestroy(theirs));
}
END_TEST

/* While the program records its stream, what would run now and not in replays is refused. */
START_TEST(a_stream_that_is_recorded) {
  cudaStream_t theirs = new_stream();
  cudaGraph_t graph = NULL;
  tn_stream *ours = NULL;
  float pageable[N];
  for (int i = 0; i < N; ++i) pageable[i] = 5, pinned[i] = 5;
  ok(tn_stream_wrap(dev, theirs, &ours));
  tn_tensor *x = zeros(ours);
  cu(cudaStreamSynchronize(theirs));
  cu(cudaStreamBeginCapture(theirs, cudaStreamCaptureModeRelaxed));
  refused(tn_tensor_write(ours, x, pageable, sizeof pageable), TN_ERR_UNSUPPORTED, "pinned");
  ok(tn_add(ours, x, x, &x));
  cu(cudaStreamEndCapture(theirs, &graph));
  size_t nodes = 0;
  cu(cudaGraphGetNodes(graph, NULL, &nodes));
  ck_assert_uint_eq(nodes, 1);
  cu(cudaGraphDestroy(graph));
  ok(tn_tensor_write(ours, x, pageable, sizeof pageable));
  cu(cudaMemcpyAsync(pinned, tn_tensor_data(x), BYTES, cudaMemcpyDeviceToHost, theirs));
  cu(cudaStreamSynchronize(theirs));
  expect_pinned(5);
  tn_tensor_release(x);
  tn_stream_destroy(ours);
  cu(cudaStreamDestroy(theirs));
}
END_TEST

START_TEST(default_streams) {
  static cudaStream_t handles[3];
  handles[1] = cudaStreamLegacy, handles[2] = cudaStreamPerThread;
  for (int i = 0; i < 3; ++i) {
    tn_stream *ours = NULL;
    ok(tn_stream_wrap(dev, handles[i], &ours));
    work_together(handles[i], ours);
    tn_stream_destroy(ours);
  }
}
END_TEST

START_TEST(a_closed_runtime_leaves_it_alone) {
  cudaStream_t theirs = new_stream();
  tn_runtime *other = NULL;
  tn_stream *ours = NULL;
  tn_tensor *x = NULL;
  ok(open_cuda(NULL, &other));
  ok(tn_stream_wrap(tn_runtime_device(other), theirs, &ours));
  ok(tn_ones(tn_runtime_device(other), ours, TN_F32, 1, SHAPE(N), &x));
  tn_runtime_close(other);
  cu(cudaStreamQuery(theirs));
  cu(cudaStreamDestroy(theirs));
  tn_stream_destroy(ours);
  tn_tensor_release(x);
}
END_TEST

START_TEST(a_stream_of_another_device) {
  int count = 0;
  cu(cudaGetDeviceCount(&count));
  if (count < 2 || CUDART_VERSION < 12080) return;
  cu(cudaSetDevice(1));
  cudaStream_t theirs = new_stream();
  tn_stream *ours = NULL;
  refused(tn_stream_wrap(dev, theirs, &ours), TN_ERR_INVALID_ARGUMENT, "of device 1");
  cu(cudaStreamDestroy(theirs));
}
END_TEST

/* Sevens, behind work that takes a while. */
static tn_tensor *late_sevens(tn_stream *stream) {
  tn_tensor *x = zeros(stream);
  tn_fill_attrs seven = TN_FILL_DEFAULTS;
  seven.value = 7;
  keep_busy(tn_stream_native(stream));
  ok(tn_fill(stream, x, &seven));
  return x;
}

static void export_to(int64_t number, cudaStream_t consumer) {
  tn_stream *ours = NULL;
  DLManagedTensorVersioned *given = NULL;
  ok(tn_stream_create(dev, &ours));
  tn_tensor *x = late_sevens(ours);
  memset(pinned, 0, BYTES);
  ok(tn_tensor_to_dlpack_stream(x, NULL, number, &given));
  cu(cudaMemcpyAsync(pinned, given->dl_tensor.data, BYTES, cudaMemcpyDeviceToHost, consumer));
  cu(cudaStreamSynchronize(consumer));
  expect_pinned(7);
  given->deleter(given);
  tn_tensor_release(x);
  tn_stream_destroy(ours);
}

START_TEST(export_by_number) {
  cudaStream_t consumer = new_stream();
  export_to((int64_t)(intptr_t)consumer, consumer);
  export_to(1, cudaStreamLegacy);
  export_to(2, cudaStreamPerThread);
  export_to(TN_DLPACK_STREAM_NONE, NULL);
  cu(cudaStreamDestroy(consumer));
}
END_TEST

/* -1 orders nothing and waits for nothing: the consumer's stream goes on beside ours. */
START_TEST(export_without_order) {
  tn_stream *ours = NULL;
  DLManagedTensorVersioned *given = NULL;
  cudaStream_t consumer = new_stream();
  ok(tn_stream_create(dev, &ours));
  tn_tensor *x = late_sevens(ours);
  ok(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_UNORDERED, &given));
  ck_assert_int_eq(cudaStreamQuery(tn_stream_native(ours)), cudaErrorNotReady);
  cu(cudaStreamQuery(consumer));
  given->deleter(given);
  ok(tn_stream_synchronize(ours));
  tn_tensor_release(x);
  tn_stream_destroy(ours);
  cu(cudaStreamDestroy(consumer));
}
END_TEST

START_TEST(import_by_number) {
  cudaStream_t producer = new_stream();
  tn_stream *ours = NULL;
  float *data = NULL;
  int64_t size = N;
  cu(cudaMalloc((void **)&data, BYTES));
  cu(cudaMemset(data, 0, BYTES));
  ok(tn_stream_create(dev, &ours));
  DLManagedTensorVersioned managed = {.version = {1, 0},
                                      .dl_tensor = {.data = data,
                                                    .device = {kDLCUDA, 0},
                                                    .ndim = 1,
                                                    .dtype = {kDLFloat, 32, 1},
                                                    .shape = &size}};
  tn_tensor *x = NULL, *y = NULL;
  for (int i = 0; i < N; ++i) pinned[i] = 4;
  keep_busy(producer);
  cu(cudaMemcpyAsync(data, pinned, BYTES, cudaMemcpyHostToDevice, producer));
  ok(tn_tensor_from_dlpack_stream(rt, &managed, ours, (int64_t)(intptr_t)producer, &x));
  ok(tn_add(ours, x, x, &y));
  ok(tn_tensor_read(ours, y, pinned, BYTES));
  ok(tn_stream_synchronize(ours));
  expect_pinned(8);
  tn_tensor_release(x), tn_tensor_release(y);
  tn_stream_destroy(ours);
  cu(cudaStreamDestroy(producer));
  cu(cudaFree(data));
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, a_stream_of_the_program);
  tcase_add_test(t, a_stream_that_is_recorded);
  tcase_add_test(t, default_streams);
  tcase_add_test(t, a_closed_runtime_leaves_it_alone);
  tcase_add_test(t, a_stream_of_another_device);
  tcase_add_test(t, export_by_number);
  tcase_add_test(t, export_without_order);
  tcase_add_test(t, import_by_number);
}

int main(void) { return run_suite_on_gpu("cuda-streams", add_tests); }
