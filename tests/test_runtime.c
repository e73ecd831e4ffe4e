/*
 * The life of a runtime: options and variables, fork, closing with live tensors, many at
 * once, many in turn, and every failing allocation on the way.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

START_TEST(options_are_checked) {
  tn_runtime *rt = NULL;
  refused(tn_runtime_open(NULL, NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  tn_runtime_options options = {0};
  refused(tn_runtime_open(&options, &rt), TN_ERR_INVALID_ARGUMENT, "struct_size");
  options.struct_size = 4;
  refused(tn_runtime_open(&options, &rt), TN_ERR_INVALID_ARGUMENT, "struct_size is 4");
  tn_allocator broken = {0};
  options = (tn_runtime_options){.struct_size = sizeof options, .allocator = &broken};
  refused(tn_runtime_open(&options, &rt), TN_ERR_INVALID_ARGUMENT, "allocator");
  tn_runtime_close(NULL);
  ck_assert_ptr_null(tn_runtime_device(NULL));
}
END_TEST

START_TEST(variables_are_read_and_options_win) {
  tn_runtime *rt = NULL;
  setenv("TENON_DEVICE", "nosuch", 1);
  refused(tn_runtime_open(NULL, &rt), TN_ERR_NOT_FOUND, "TENON_DEVICE=nosuch");
  ck_assert(strstr(tn_last_error(), "reference:0"));
  tn_runtime_options options = {.struct_size = sizeof options, .device = "reference"};
  ok(tn_runtime_open(&options, &rt));
  ck_assert_str_eq(tn_last_error(), ""); /* what was refused on the way is no failure */
  tn_runtime_close(rt);
  unsetenv("TENON_DEVICE");
  setenv("TENON_FALLBACK", "perhaps", 1);
  refused(tn_runtime_open(NULL, &rt), TN_ERR_INVALID_ARGUMENT, "TENON_FALLBACK");
  unsetenv("TENON_FALLBACK");
  setenv("TENON_PLUGINS", "-*", 1);
  refused(tn_runtime_open(NULL, &rt), TN_ERR_NOT_FOUND, "no device can be used");
  unsetenv("TENON_PLUGINS");
}
END_TEST

START_TEST(the_report_lists_every_candidate) {
  tn_runtime_options options = {.struct_size = sizeof options, .plugins = "reference"};
  tn_runtime *rt = open_runtime(&options);
  tn_plugin_info info = {.struct_size = sizeof info};
  bool seen = false;
  for (size_t i = 0; !tn_plugin_report(rt, i, &info); ++i) {
    ck_assert(info.path[0] == '/' && info.origin[0]);
    ck_assert(info.taken ? !info.reason[0] : info.reason[0]);
    seen |= info.taken && strcmp(info.name, "reference") == 0 && info.num_kernels >= 50;
    ck_assert(!info.taken || strcmp(info.name, "reference") == 0);
  }
  ck_assert(seen);
  refused(tn_plugin_report(rt, 99, &info), TN_ERR_NOT_FOUND, "candidates");
  tn_runtime_close(rt);
}
END_TEST

START_TEST(tensors_outlive_their_runtime) {
  tn_runtime *rt = open_host_runtime();
  tn_tensor *x = counting(tn_runtime_device(rt), 4), *v = NULL, *y = NULL;
  DLManagedTensorVersioned *given = NULL;
  ok(tn_tensor_slice(x, 0, 1, 3, 1, &v));
  ok(tn_tensor_to_dlpack(x, &given));
  tn_runtime_close(rt);
  refused(tn_add(NULL, x, x, &y), TN_ERR_CLOSED, "closed");
  refused(tn_tensor_slice(x, 0, 0, 1, 1, &y), TN_ERR_CLOSED, "closed");
  ck_assert(((float *)given->dl_tensor.data)[3] == 4);
  tn_tensor_release(x);
  tn_tensor_release(v);
  given->deleter(given); /* the last reference takes the runtime along */
}
END_TEST

START_TEST(a_fork_is_noticed) {
  tn_runtime *rt = open_host_runtime();
  tn_device *dev = tn_runtime_device(rt);
  tn_tensor *x = counting(dev, 4), *y = NULL;
  pid_t child = fork();
  if (child == 0) {
    bool told = tn_add(NULL, x, x, &y) == TN_ERR_FORKED && strstr(tn_last_error(), "fork");
    told = told && tn_tensor_empty(dev, TN_F32, 0, NULL, &y) == TN_ERR_FORKED;
    told = told && tn_device_synchronize(dev) == TN_ERR_FORKED;
    tn_runtime_close(rt);                    /* does nothing */
    tn_runtime *fresh = open_host_runtime(); /* a new one works */
    tn_tensor *z = counting(tn_runtime_device(fresh), 2);
    told = told && tn_add(NULL, z, z, &y) == TN_OK;
    _exit(told ? 0 : 1);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ok(tn_add(NULL, x, x, &y)); /* the parent is untouched */
  tn_tensor_release(y);
  tn_tensor_release(x);
  tn_runtime_close(rt);
}
END_TEST

START_TEST(several_runtimes_at_once) {
  tn_runtime *rt[4];
  tn_tensor *x[4], *y = NULL;
  for (int i = 0; i < 4; ++i) {
    rt[i] = open_runtime(NULL);
    x[i] = counting(tn_runtime_device(rt[i]), 3);
  }
  refused(tn_add(NULL, x[0], x[1], &y), TN_ERR_INVALID_ARGUMENT, "device");
  for (int i = 0; i < 4; ++i) {
    ok(tn_add(NULL, x[i], x[i], &y));
    tn_tensor_release(y), y = NULL;
    tn_tensor_release(x[i]);
    tn_runtime_close(rt[i]);
  }
}
END_TEST

START_TEST(opening_and_closing_many_times) {
  for (int i = 0; i < 50; ++i) {
    tn_runtime *rt = open_runtime(NULL);
    tn_tensor *x = counting(tn_runtime_device(rt), 100), *y = NULL;
    ok(tn_add(NULL, x, x, &y));
    tn_tensor_release(x);
    tn_tensor_release(y);
    tn_runtime_close(rt);
  }
}
END_TEST

/* --- failing allocations --- */

typedef struct faulty {
  long left; /* allocations until the failure; < 0: never */
  bool forever;
  _Atomic long alive;
} faulty;

static void *faulty_alloc(void *user, size_t bytes, size_t align) {
  faulty *f = user;
  if (f->left == 0) {
    if (!f->forever) f->left = -1;
    return NULL;
  }
  if (f->left > 0) --f->left;
  void *ptr = aligned_alloc(align, (bytes + align - 1) / align * align);
  if (ptr) ++f->alive;
  return ptr;
}

static void faulty_free(void *user, void *ptr) {
  --((faulty *)user)->alive;
  free(ptr);
}

/* Opens, computes, views, exports and closes; any step may run out of memory. */
static tn_status exercise(faulty *f) {
  tn_allocator allocator = {faulty_alloc, faulty_free, f};
  tn_runtime_options options = {.struct_size = sizeof options,
                                .allocator = &allocator,
                                .num_threads = 1,
                                .plugins = "reference"};
  tn_runtime *rt = NULL;
  tn_tensor *x = NULL, *y = NULL, *v = NULL, *m = NULL;
  DLManagedTensorVersioned *given = NULL;
  tn_stream *stream = NULL;
  tn_event *event = NULL;
  float values[6] = {1, 2, 3, 4, 5, 6};
  tn_status status = tn_runtime_open(&options, &rt);
  if (!status) status = tn_stream_create(tn_runtime_device(rt), &stream);
  if (!status) status = tn_event_create(tn_runtime_device(rt), &event);
  if (!status)
    status = tn_tensor_from_host(tn_runtime_device(rt), TN_F32, 2, SHAPE(2, 3), values, &x);
  if (!status) status = tn_tensor_permute(x, (int32_t[]){1, 0}, &v);
  if (!status) status = tn_add(NULL, v, v, &y);
  if (!status) status = tn_matmul(NULL, x, v, NULL, NULL, &m);
  if (!status) status = tn_tensor_to_dlpack(m, &given);
  if (given) given->deleter(given);
  tn_tensor_release(m);
  tn_tensor_release(y);
  tn_tensor_release(v);
  tn_tensor_release(x);
  tn_event_destroy(event);
  tn_stream_destroy(stream);
  tn_runtime_close(rt);
  return status;
}

START_TEST(every_allocation_may_fail) {
  for (int forever = 0; forever < 2; ++forever) {
    tn_status status = TN_ERR_OUT_OF_MEMORY;
    int failures = 0;
    for (long n = 0; status != TN_OK; ++n) {
      ck_assert_msg(n < 2000, "still failing at allocation %ld: %s", n, tn_last_error());
      faulty f = {.left = n, .forever = forever};
      status = exercise(&f);
      failures += status != TN_OK;
      /* A plugin refused for lack of memory leaves no device to choose. */
      ck_assert_msg(status == TN_OK || status == TN_ERR_OUT_OF_MEMORY ||
                        status == TN_ERR_DEVICE_OUT_OF_MEMORY || status == TN_ERR_NOT_FOUND,
                    "allocation %ld: %s: %s", n, tn_status_name(status), tn_last_error());
      ck_assert_msg(f.alive == 0, "allocation %ld failed and %ld leaked", n, (long)f.alive);
    }
    ck_assert_int_gt(failures, 10);
  }
}
END_TEST

/* --- threads --- */

static void *hammer(void *arg) {
  tn_device *dev = arg;
  for (int i = 0; i < 300; ++i) {
    tn_tensor *x = counting(dev, 1 + i % 40), *y = NULL, *v = NULL, *z = NULL;
    if (tn_add(NULL, x, x, &y) || tn_tensor_slice(y, 0, 0, 1, 1, &v) || tn_neg(NULL, v, &z))
      return (void *)tn_last_error();
    float value = 0;
    if (tn_tensor_to_host(z, &value, 4) || value != -2) return "wrong";
    tn_tensor_release(v);
    tn_tensor_release(z);
    tn_tensor_release(y);
    tn_tensor_release(x);
  }
  return NULL;
}

START_TEST(threads_share_a_device) {
  tn_runtime *rt = open_runtime(NULL);
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer, tn_runtime_device(rt)), 0);
  for (int i = 0; i < 8; ++i) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    ck_assert_msg(!wrong, "%s", (char *)wrong);
  }
  tn_runtime_close(rt);
}
END_TEST

static void *release_one(void *tensor) {
  tn_tensor_release(tensor);
  return NULL;
}

START_TEST(threads_release_the_last_tensors) {
  for (int round = 0; round < 20; ++round) {
    tn_runtime *rt = open_runtime(NULL);
    tn_tensor *tensors[8];
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) tensors[i] = counting(tn_runtime_device(rt), 3);
    tn_runtime_close(rt);
    for (int i = 0; i < 8; ++i)
      ck_assert_int_eq(pthread_create(&threads[i], NULL, release_one, tensors[i]), 0);
    for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  }
}
END_TEST

static void loop_here(void *user, int64_t n, int64_t grain, void (*body)(void *, int64_t, int64_t),
                      void *ctx) {
  (void)grain;
  ++*(int *)user;
  body(ctx, 0, n / 2);
  body(ctx, n / 2, n);
}

START_TEST(the_embedder_may_bring_threads) {
  int used = 0;
  tn_parallel parallel = {loop_here, &used, 2};
  tn_runtime_options options = {
      .struct_size = sizeof options, .parallel = &parallel, .plugins = "cpu,reference"};
  tn_runtime *rt = open_runtime(&options);
  tn_tensor *x = shaped(tn_runtime_device(rt), TN_F32, 1, SHAPE(1 << 20)), *y = NULL;
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = 0.5;
  ok(tn_fill(NULL, x, &fill));
  ok(tn_exp(NULL, x, &y));
  ck_assert_int_gt(used, 0);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(rt);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_test(t, options_are_checked);
  tcase_add_test(t, variables_are_read_and_options_win);
  tcase_add_test(t, the_report_lists_every_candidate);
  tcase_add_test(t, tensors_outlive_their_runtime);
  tcase_add_test(t, a_fork_is_noticed);
  tcase_add_test(t, several_runtimes_at_once);
  tcase_add_test(t, opening_and_closing_many_times);
  tcase_add_test(t, every_allocation_may_fail);
  tcase_add_test(t, threads_share_a_device);
  tcase_add_test(t, threads_release_the_last_tensors);
  tcase_add_test(t, the_embedder_may_bring_threads);
}

int main(void) { return run_suite("runtime", add_tests); }
