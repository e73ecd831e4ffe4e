/*
 * The OpenCL plugin's slots through the public door: opaque memory with views at offsets, DLPack,
 * pinned copies, streams and events, shortage of memory, threads on one default stream. Operators
 * are `tenon check`'s business. Skipped where no OpenCL driver is.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;

static tn_status open_opencl(tn_runtime **runtime) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "opencl,reference", .device = "opencl"};
  return tn_runtime_open(&options, runtime);
}

static void setup(void) {
  ok(open_opencl(&rt));
  dev = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

START_TEST(views_read_and_write_at_their_offset) {
  tn_tensor *x = counting(dev, 12), *t = NULL, *v = NULL, *y = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(3, 4), &t));
  ok(tn_tensor_slice(t, 1, 1, 4, 2, &v)); /* columns 1 and 3 */
  ok(tn_neg(NULL, v, &y));
  float got[6];
  ok(tn_tensor_to_host(y, got, sizeof got));
  const float want[6] = {-2, -4, -6, -8, -10, -12};
  ck_assert_mem_eq(got, want, sizeof want);
  ok(tn_mul(NULL, v, v, &v)); /* in place */
  float all[12];
  ok(tn_tensor_to_host(x, all, sizeof all));
  ck_assert(all[0] == 1 && all[1] == 4 && all[2] == 3 && all[3] == 16 && all[11] == 144);
  tn_tensor_release(y);
  tn_tensor_release(v);
  tn_tensor_release(t);
  tn_tensor_release(x);
}
END_TEST

START_TEST(dlpack_has_the_handle_and_the_offset) {
  tn_tensor *x = counting(dev, 8), *v = NULL, *y = NULL, *z = NULL;
  DLManagedTensorVersioned *whole = NULL, *part = NULL;
  ok(tn_tensor_slice(x, 0, 3, 8, 1, &v));
  ok(tn_tensor_to_dlpack(x, &whole));
  ok(tn_tensor_to_dlpack(v, &part));
  ck_assert_int_eq(part->dl_tensor.device.device_type, kDLOpenCL);
  ck_assert_ptr_eq(part->dl_tensor.data, whole->dl_tensor.data);
  ck_assert_uint_eq(part->dl_tensor.byte_offset, whole->dl_tensor.byte_offset + 12);
  ok(tn_tensor_from_dlpack(rt, part, &y));
  ok(tn_neg(NULL, y, &z));
  float got[5];
  ok(tn_tensor_to_host(z, got, sizeof got));
  ck_assert(got[0] == -4 && got[4] == -8);
  tn_tensor_release(z);
  tn_tensor_release(y);
  whole->deleter(whole);
  tn_tensor_release(v);
  tn_tensor_release(x);
}
END_TEST

START_TEST(an_offset_between_elements_is_refused) {
  tn_tensor *x = counting(dev, 8), *y = NULL;
  DLManagedTensorVersioned *given = NULL;
  ok(tn_tensor_to_dlpack(x, &given));
  given->dl_tensor.byte_offset += 2;
  refused(tn_tensor_from_dlpack(rt, given, &y), TN_ERR_UNSUPPORTED, "aligned");
  given->dl_tensor.byte_offset -= 2;
  given->deleter(given);
  tn_tensor_release(x);
}
END_TEST

START_TEST(pinned_memory_copies_in_stream_order) {
  enum { N = 100000 };
  float *pinned = NULL;
  void *memory = NULL;
  tn_stream *stream = NULL;
  tn_tensor *x = shaped(dev, TN_F32, 1, SHAPE(N)), *y = NULL;
  ok(tn_stream_create(dev, &stream));
  ok(tn_pinned_alloc(dev, N * sizeof(float), &memory));
  pinned = memory;
  for (int i = 0; i < N; ++i) pinned[i] = (float)i;
  ok(tn_tensor_write(stream, x, pinned, N * sizeof(float)));
  ok(tn_neg(stream, x, &y));
  ok(tn_tensor_read(stream, y, pinned, N * sizeof(float)));
  ok(tn_stream_synchronize(stream));
  for (int i = 0; i < N; ++i) ck_assert(pinned[i] == -(float)i);
  tn_pinned_free(dev, memory);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_stream_destroy(stream);
}
END_TEST

START_TEST(events_order_streams_and_tell_time) {
  tn_stream *first = NULL, *second = NULL;
  tn_event *begin = NULL, *end = NULL;
  tn_tensor *x = counting(dev, 1 << 20), *y = NULL, *z = NULL;
  ok(tn_stream_create(dev, &first));
  ok(tn_stream_create(dev, &second));
  ok(tn_event_create(dev, &begin));
  ok(tn_event_create(dev, &end));
  ok(tn_event_query(begin)); /* never recorded: passed */
  ok(tn_device_synchronize(dev));
  ok(tn_event_record(begin, first));
  ok(tn_exp(first, x, &y));
  ok(tn_event_record(end, first));
  ok(tn_stream_wait_event(second, end));
  ok(tn_neg(second, y, &z));
  ok(tn_stream_synchronize(second));
  ok(tn_event_query(end));
  ok(tn_event_synchronize(end));
  uint64_t ns = 0;
  ok(tn_event_elapsed(begin, end, &ns));
  ck_assert_uint_gt(ns, 0);
  float *got = malloc((1 << 20) * sizeof *got);
  ok(tn_tensor_read(second, z, got, (1 << 20) * sizeof *got));
  ok(tn_stream_synchronize(second));
  ck_assert(got[0] > -2.72F && got[0] < -2.71F);
  free(got);
  tn_tensor_release(z);
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_event_destroy(end);
  tn_event_destroy(begin);
  tn_stream_destroy(second);
  tn_stream_destroy(first);
}
END_TEST

START_TEST(too_much_memory_is_a_shortage_and_no_harm) {
  tn_tensor *x = NULL, *y = NULL;
  refused(tn_tensor_empty(dev, TN_F64, 1, SHAPE((int64_t)1 << 44), &x), TN_ERR_DEVICE_OUT_OF_MEMORY,
          "opencl");
  x = counting(dev, 4);
  ok(tn_neg(NULL, x, &y));
  ok(tn_device_synchronize(dev));
  tn_tensor_release(y);
  tn_tensor_release(x);
}
END_TEST

/* Kernels of one program, with arguments of each thread's own. */
static void *negate_often(void *ctx) {
  int64_t size = *(const int64_t *)ctx;
  tn_tensor *x = counting(dev, size), *y = NULL;
  float got[64];
  for (int i = 0; i < 50; ++i) {
    ok(tn_neg(NULL, x, &y));
    ok(tn_tensor_to_host(y, got, (size_t)size * sizeof *got));
    for (int64_t k = 0; k < size; ++k) ck_assert(got[k] == -(float)(k + 1));
    tn_tensor_release(y);
    y = NULL;
  }
  tn_tensor_release(x);
  return NULL;
}

START_TEST(threads_share_the_default_stream) {
  int64_t sizes[4] = {7, 16, 33, 64};
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, negate_often, &sizes[i]), 0);
  for (int i = 0; i < 4; ++i) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

/* What the program makes with OpenCL itself. */
typedef struct theirs {
  cl_context context;
  cl_device_id id;
} theirs;

static theirs theirs_of(tn_device *device) {
  theirs t;
  cl_command_queue queue = tn_stream_native(tn_device_default_stream(device));
  ck_assert(!clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof t.context, &t.context, NULL));
  ck_assert(!clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof t.id, &t.id, NULL));
  return t;
}

static cl_command_queue new_queue(theirs t, cl_command_queue_properties properties) {
  cl_int error;
  cl_command_queue queue = clCreateCommandQueue(t.context, t.id, properties, &error);
  ck_assert_int_eq(error, CL_SUCCESS);
  return queue;
}

static tn_tensor *import_buffer(cl_mem buffer, DLManagedTensorVersioned *m, int64_t *size) {
  tn_device_info info = {.struct_size = sizeof info};
  tn_tensor *x = NULL;
  ok(tn_device_get_info(dev, &info));
  *m = (DLManagedTensorVersioned){.version = {1, 0},
                                  .dl_tensor = {.data = buffer,
                                                .device = info.dl_device,
                                                .ndim = 1,
                                                .dtype = {kDLFloat, 32, 1},
                                                .shape = size}};
  ok(tn_tensor_from_dlpack(rt, m, &x));
  return x;
}

/* The program fills a buffer, Tenon doubles it, the program reads the result, all in its queue. */
START_TEST(a_command_queue_of_the_program) {
  theirs t = theirs_of(dev);
  cl_command_queue queue = new_queue(t, 0);
  cl_int error;
  cl_mem buffer = clCreateBuffer(t.context, CL_MEM_READ_WRITE, 4000, NULL, &error);
  ck_assert_int_eq(error, CL_SUCCESS);
  tn_stream *ours = NULL;
  ok(tn_stream_wrap(dev, queue, &ours));
  DLManagedTensorVersioned m, *given = NULL;
  tn_tensor *x = import_buffer(buffer, &m, SHAPE(1000)), *y = NULL;
  const float two = 2;
  float got[1000];
  ck_assert(!clEnqueueFillBuffer(queue, buffer, &two, sizeof two, 0, 4000, 0, NULL, NULL));
  ok(tn_add(ours, x, x, &y));
  ok(tn_tensor_to_dlpack_stream(y, NULL, tn_stream_to_dlpack(ours), &given));
  ck_assert(!clEnqueueReadBuffer(queue, given->dl_tensor.data, CL_TRUE,
                                 given->dl_tensor.byte_offset, sizeof got, got, 0, NULL, NULL));
  ck_assert(got[0] == 4 && got[999] == 4);
  given->deleter(given);
  tn_tensor_release(x), tn_tensor_release(y);
  tn_stream_destroy(ours);
  ck_assert(!clEnqueueFillBuffer(queue, buffer, &two, sizeof two, 0, 4000, 0, NULL, NULL));
  ck_assert(!clFinish(queue) && !clReleaseCommandQueue(queue) && !clReleaseMemObject(buffer));
}
END_TEST

START_TEST(command_queues_that_cannot_be_taken) {
  theirs t = theirs_of(dev), foreign = t;
  cl_int error;
  tn_stream *ours = NULL;
  refused(tn_stream_wrap(dev, NULL, &ours), TN_ERR_UNSUPPORTED, "no default command queue");
  foreign.context = clCreateContext(NULL, 1, &t.id, NULL, NULL, &error);
  ck_assert_int_eq(error, CL_SUCCESS);
  cl_command_queue queue = new_queue(foreign, 0);
  refused(tn_stream_wrap(dev, queue, &ours), TN_ERR_UNSUPPORTED, "another context");
  (void)clReleaseCommandQueue(queue);
  (void)clReleaseContext(foreign.context);
  queue = clCreateCommandQueue(t.context, t.id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
  if (!error) refused(tn_stream_wrap(dev, queue, &ours), TN_ERR_UNSUPPORTED, "in order");
  if (!error) (void)clReleaseCommandQueue(queue);
  ck_assert_ptr_null(ours);
}
END_TEST

static void open_in_child(void) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "opencl,reference", .device = "reference"};
  tn_runtime *runtime = NULL;
  alarm(120); /* where it hangs */
  if (open_opencl(&runtime) != TN_ERR_NOT_FOUND || !strstr(tn_last_error(), "forked")) _exit(1);
  if (tn_runtime_open(&options, &runtime)) _exit(2);
  tn_tensor_release(counting(tn_runtime_device(runtime), 4));
  tn_runtime_close(runtime);
  _exit(0);
}

/* Drivers leave their threads to the parent, and their callers waiting. */
START_TEST(a_forked_child_is_told) {
  tn_tensor *x = counting(dev, 4);
  int status = 0;
  pid_t child = fork();
  if (child == 0) open_in_child();
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  tn_tensor_release(x);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, views_read_and_write_at_their_offset);
  tcase_add_test(tcase, dlpack_has_the_handle_and_the_offset);
  tcase_add_test(tcase, an_offset_between_elements_is_refused);
  tcase_add_test(tcase, pinned_memory_copies_in_stream_order);
  tcase_add_test(tcase, events_order_streams_and_tell_time);
  tcase_add_test(tcase, too_much_memory_is_a_shortage_and_no_harm);
  tcase_add_test(tcase, threads_share_the_default_stream);
  tcase_add_test(tcase, a_command_queue_of_the_program);
  tcase_add_test(tcase, command_queues_that_cannot_be_taken);
  tcase_add_test(tcase, a_forked_child_is_told);
}

/* Whether there is a device, asked in a child: a driver's threads would not survive the fork
 * that Check runs each test in. */
static bool have_device(void) {
  pid_t child = fork();
  if (child == 0) {
    tn_runtime *runtime = NULL;
    _exit(open_opencl(&runtime) == TN_OK ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void) {
  if (!have_device()) {
    puts("no OpenCL device here");
    return 77;
  }
  return run_suite("opencl", add_tests);
}
