/*
 * Handles may be given back in any order, as garbage collectors do: the runtime first, last or
 * in between. Every function that takes one of a closed runtime says so, nothing is left, and
 * neither a thread nor a callback outlives the close.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support.h"

enum { SIZE = 64, PARALLEL_SIZE = 1 << 18, PINNED_BYTES = 4096 };

/* What can be given back, in whatever order. */
typedef enum handle {
  RUNTIME,
  X,
  VIEW,
  SUM,
  STREAM,
  SECOND_STREAM,
  EVENT,
  PREPARED,
  PREPARED_LIST,
  GIVEN,      /* to another library */
  ROUND_TRIP, /* given, and taken back */
  FOREIGN,    /* taken; its deleter releases a tensor of ours */
  PINNED,
  HANDLES
} handle;

typedef struct world {
  tn_runtime *runtime;
  tn_device *device;
  tn_stream *default_stream;
  tn_tensor *x, *view, *sum, *concat, *round_trip, *foreign, *hostage;
  tn_stream *stream, *second;
  tn_event *event;
  tn_prepared *prepared, *list;
  DLManagedTensorVersioned *given, lent;
  int64_t lent_shape[1];
  void *pinned;
  bool alive[HANDLES], closed;
  _Atomic long blocks, lines_after;
} world;

/* ------------------------------------------------------------------------- making --- */

static void *count_alloc(void *user, size_t bytes, size_t align) {
  void *ptr = aligned_alloc(align, (bytes + align - 1) / align * align);
  if (ptr) atomic_fetch_add(&((world *)user)->blocks, 1);
  return ptr;
}

static void count_free(void *user, void *ptr) {
  atomic_fetch_sub(&((world *)user)->blocks, 1);
  free(ptr);
}

static void hear(void *user, tn_log_level level, const char *line) {
  world *w = user;
  (void)level, (void)line;
  if (w->closed) atomic_fetch_add(&w->lines_after, 1);
}

/* A kind of device, and whether a layer watches. */
typedef struct place {
  const char *plugins, *path, *device, *layers;
} place;

static const place places[] = {
    {"reference", NULL, "reference", NULL},
    {"cpu,reference", NULL, "cpu", NULL},
    {"reference,sim", SIM_PLUGIN, "sim", NULL},
    {"reference,template", TEMPLATE_PLUGIN, "sim", NULL},
    {"reference,sim,validate", SIM_PLUGIN ":" VALIDATE_PLUGIN, "sim", "validate"},
    {"reference,template,notes", TEMPLATE_PLUGIN ":" NOTES_PLUGIN, "sim", "notes"},
};
enum { PLACES = sizeof places / sizeof *places };

static void open_world(world *w, const place *p) {
  tn_allocator allocator = {count_alloc, count_free, w};
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = p->plugins,
                                .plugin_path = p->path,
                                .device = p->device,
                                .layers = p->layers,
                                .num_threads = 3,
                                .allocator = &allocator,
                                .log = hear,
                                .log_user = w,
                                .log_level = TN_LOG_DEBUG + 1,
                                .fallback = TN_FALLBACK_ALLOW,
                                .scan = TN_SCAN_OFF};
  w->runtime = open_runtime(&options);
  w->device = tn_runtime_device(w->runtime);
  w->default_stream = tn_device_default_stream(w->device);
  ck_assert_ptr_nonnull(w->default_stream);
}

static void release_hostage(DLManagedTensorVersioned *lent) {
  world *w = lent->manager_ctx;
  tn_tensor_release(w->hostage);
}

/* Memory of the device that another library is said to have lent. */
static void borrow(world *w) {
  w->hostage = counting(w->device, SIZE);
  DLManagedTensorVersioned *own = NULL;
  ok(tn_tensor_to_dlpack(w->hostage, &own));
  w->lent_shape[0] = SIZE;
  w->lent = *own;
  w->lent.dl_tensor.shape = w->lent_shape;
  w->lent.dl_tensor.strides = NULL;
  w->lent.manager_ctx = w;
  w->lent.deleter = release_hostage;
  own->deleter(own);
  ok(tn_tensor_from_dlpack(w->runtime, &w->lent, &w->foreign));
}

static void prepare(world *w) {
  /* Of the fixture's device, a kernel with a workspace of its own. */
  tn_tensor *y = NULL;
  tn_call call = {.struct_size = sizeof call,
                  .op = TN_OP_MUL,
                  .stream = w->stream,
                  .in = (const tn_tensor *const[]){w->x, w->x},
                  .out = &y,
                  .num_in = 2,
                  .num_out = 1};
  ok(tn_prepare(&call, &w->prepared));
  tn_tensor_release(y); /* the prepared call keeps it */
  tn_tensor *joined = NULL;
  call.op = TN_OP_CONCAT;
  call.out = &joined;
  ok(tn_prepare(&call, &w->list));
  tn_tensor_release(joined);
}

static void use_threads(tn_device *device) {
  tn_tensor *x = shaped(device, TN_F32, 1, SHAPE(PARALLEL_SIZE)), *y = NULL;
  ok(tn_fill(NULL, x, NULL));
  ok(tn_exp(NULL, x, &y));
  tn_tensor_release(x);
  tn_tensor_release(y);
}

static void fill_world(world *w) {
  use_threads(w->device);
  ok(tn_stream_create(w->device, &w->stream));
  ok(tn_stream_create(w->device, &w->second));
  ok(tn_event_create(w->device, &w->event));
  w->x = counting(w->device, SIZE);
  ok(tn_device_synchronize(w->device)); /* its values come on the default stream */
  ok(tn_tensor_slice(w->x, 0, 0, SIZE / 2, 2, &w->view));
  ok(tn_add(w->stream, w->x, w->x, &w->sum));
  ok(tn_event_record(w->event, w->stream));
  ok(tn_stream_wait_event(w->second, w->event));
  prepare(w);
  ok(tn_run(w->prepared));
  ok(tn_tensor_to_dlpack(w->x, &w->given));
  DLManagedTensorVersioned *passed = NULL;
  ok(tn_tensor_to_dlpack(w->sum, &passed));
  ok(tn_tensor_from_dlpack(w->runtime, passed, &w->round_trip));
  borrow(w);
  ok(tn_pinned_alloc(w->device, PINNED_BYTES, &w->pinned));
  for (int i = 0; i < HANDLES; i++) w->alive[i] = true;
}

/* -------------------------------------------------------------------- giving back --- */

static void give_back(world *w, handle h) {
  w->alive[h] = false;
  switch (h) {
  case RUNTIME:
    tn_runtime_close(w->runtime);
    w->closed = true;
    break;
  case X:
    tn_tensor_release(w->x);
    break;
  case VIEW:
    tn_tensor_release(w->view);
    break;
  case SUM:
    tn_tensor_release(w->sum);
    break;
  case STREAM:
    tn_stream_destroy(w->stream);
    break;
  case SECOND_STREAM:
    tn_stream_destroy(w->second);
    break;
  case EVENT:
    tn_event_destroy(w->event);
    break;
  case PREPARED:
    tn_prepared_release(w->prepared);
    break;
  case PREPARED_LIST:
    tn_prepared_release(w->list);
    break;
  case GIVEN:
    w->given->deleter(w->given);
    break;
  case ROUND_TRIP:
    tn_tensor_release(w->round_trip);
    break;
  case FOREIGN:
    tn_tensor_release(w->foreign);
    break;
  case PINNED:
    tn_pinned_free(w->device, w->pinned);
    break;
  case HANDLES:
    break;
  }
}

/* ------------------------------------------------------ using what is closed --- */

#define closed(call) refused(call, TN_ERR_CLOSED, "closed")

static void use_tensor(tn_tensor *t, tn_stream *stream) {
  float values[SIZE];
  tn_tensor *made = NULL;
  DLManagedTensorVersioned *managed = NULL;
  closed(tn_tensor_to_host(t, values, tn_tensor_bytes(t)));
  closed(tn_tensor_write(stream, t, values, tn_tensor_bytes(t)));
  closed(tn_tensor_reshape(t, 1, SHAPE(-1), &made));
  closed(tn_tensor_contiguous(stream, t, &made));
  closed(tn_tensor_to_device(t, tn_tensor_device(t), &made));
  closed(tn_add(stream, t, t, &made));
  closed(tn_tensor_to_dlpack(t, &managed));
  tn_tensor_retain(t);
  tn_tensor_release(t);
  ck_assert_ptr_null(made);
}

static void use_event(tn_event *e, tn_stream *stream) {
  uint64_t ns;
  closed(tn_event_record(e, stream));
  closed(tn_event_query(e));
  closed(tn_event_synchronize(e));
  closed(tn_stream_wait_event(stream, e));
  closed(tn_event_elapsed(e, e, &ns));
}

static void use_stream(const world *w, tn_stream *s) {
  tn_tensor *t = NULL;
  closed(tn_stream_synchronize(s));
  closed(tn_tensor_empty_on(w->device, s, TN_F32, 0, NULL, &t));
  ck_assert_ptr_eq(tn_stream_device(s), w->device);
  ck_assert_ptr_null(tn_stream_native(s));
}

/* Devices and default streams are nobody's to give back, so anybody may have kept them. */
static void use_device(const world *w) {
  tn_device_info info = {.struct_size = sizeof info};
  tn_memory_stats stats = {.struct_size = sizeof stats};
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  tn_fallback_stats fallbacks = {.struct_size = sizeof fallbacks};
  tn_tensor *t = NULL;
  tn_stream *s = NULL;
  tn_event *e = NULL;
  void *pinned = NULL;
  closed(tn_device_get_info(w->device, &info));
  closed(tn_device_synchronize(w->device));
  closed(tn_device_memory_stats(w->device, &stats));
  closed(tn_device_trim(w->device));
  closed(tn_kernel_find(w->device, TN_OP_ADD, TN_F32, 0, &kernel));
  closed(tn_fallback_get_stats(w->device, 0, &fallbacks));
  closed(tn_tensor_empty(w->device, TN_F32, 0, NULL, &t));
  closed(tn_tensor_from_host(w->device, TN_F32, 1, SHAPE(1), (float[]){1}, &t));
  closed(tn_stream_create(w->device, &s));
  closed(tn_event_create(w->device, &e));
  closed(tn_pinned_alloc(w->device, 1, &pinned));
  closed(tn_stream_synchronize(w->default_stream));
  ck_assert_ptr_null(tn_device_default_stream(w->device));
  ck_assert_ptr_eq(tn_device_runtime(w->device), w->runtime);
  tn_stream_destroy(w->default_stream);
}

static void use_runtime(const world *w) {
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  tn_kernel_row row = {.struct_size = sizeof row};
  tn_layer_info layer = {.struct_size = sizeof layer};
  tn_duplicate_library pair = {.struct_size = sizeof pair};
  tn_device *device = NULL;
  tn_tensor *t = NULL;
  uint32_t op;
  DLManagedTensorVersioned lent = w->lent;
  closed(tn_plugin_report(w->runtime, 0, &plugin));
  closed(tn_kernel_at(w->runtime, 0, &row));
  closed(tn_layer_at(w->runtime, 0, &layer));
  closed(tn_duplicate_library_at(w->runtime, 0, &pair));
  closed(tn_device_find(w->runtime, "reference", &device));
  closed(tn_op_find(w->runtime, "add", &op));
  closed(tn_runtime_load_plugin(w->runtime, SIM_PLUGIN));
  closed(tn_runtime_unload_plugin(w->runtime, "reference"));
  closed(tn_tensor_from_dlpack(w->runtime, &lent, &t));
  for (size_t i = 0; i < tn_device_count(w->runtime); i++)
    ck_assert_ptr_nonnull(tn_device_at(w->runtime, i));
  for (size_t i = 0; i < tn_op_count(w->runtime); i++)
    ck_assert_ptr_nonnull(tn_op_at(w->runtime, i));
  (void)tn_runtime_device(w->runtime);
  tn_runtime_close(w->runtime);
}

static void use_all(const world *w) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  tn_stream *stream = w->alive[STREAM] ? w->stream : NULL;
  if (w->alive[X]) use_tensor(w->x, stream);
  if (w->alive[VIEW]) use_tensor(w->view, stream);
  if (w->alive[SUM]) use_tensor(w->sum, stream);
  if (w->alive[ROUND_TRIP]) use_tensor(w->round_trip, NULL);
  if (w->alive[FOREIGN]) use_tensor(w->foreign, NULL);
  if (w->alive[EVENT]) use_event(w->event, stream);
  if (w->alive[STREAM]) use_stream(w, w->stream);
  if (w->alive[SECOND_STREAM]) use_stream(w, w->second);
  if (w->alive[PREPARED]) {
    closed(tn_run(w->prepared));
    closed(tn_prepared_kernel(w->prepared, &kernel));
  }
  if (w->alive[PREPARED_LIST]) closed(tn_run(w->list));
  if (w->alive[PINNED]) memset(w->pinned, 1, PINNED_BYTES);
  use_device(w);
  use_runtime(w);
}

/* ------------------------------------------------------------------------- orders --- */

static uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static void shuffle(handle order[HANDLES], uint32_t *seed) {
  for (handle i = 0; i < HANDLES; i++) order[i] = i;
  for (uint32_t i = HANDLES - 1; i > 0; i--) {
    uint32_t j = next_random(seed) % (i + 1);
    handle moved = order[i];
    order[i] = order[j];
    order[j] = moved;
  }
}

/* The last of the handles takes along what is left, whichever it is. */
static void try_order(const place *p, const handle order[HANDLES]) {
  world w = {.closed = false};
  open_world(&w, p);
  fill_world(&w);
  for (int i = 0; i < HANDLES; i++) {
    give_back(&w, order[i]);
    if (w.closed) use_all(&w);
  }
  ck_assert_int_eq(atomic_load(&w.blocks), 0);
  ck_assert_int_eq(atomic_load(&w.lines_after), 0);
}

/* Sanitizers take ten to twenty times as long: a quarter of them there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ORDERS = 10 };
#else
enum { ORDERS = 40 };
#endif

START_TEST(any_order_will_do) {
  uint32_t seed = 12345;
  handle order[HANDLES];
  for (int i = 0; i < ORDERS; i++) {
    shuffle(order, &seed);
    try_order(&places[_i], order);
  }
}
END_TEST

/* The close comes first, and each kind of handle is once the last. */
START_TEST(any_handle_may_be_the_last) {
  for (handle last = RUNTIME; last < HANDLES; last++) {
    handle order[HANDLES];
    int count = 0;
    if (last != RUNTIME) order[count++] = RUNTIME;
    for (handle h = RUNTIME + 1; h < HANDLES; h++)
      if (h != last) order[count++] = h;
    order[count] = last;
    try_order(&places[_i], order);
  }
}
END_TEST

/* ------------------------------------------------------------- what the close ends --- */

static int count_threads(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  ck_assert_ptr_nonnull(folder);
  for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void *do_nothing(void *ctx) { return ctx; }

/* Sanitizers start a thread of their own along with a program's first. */
static void start_first_thread(void) {
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, do_nothing, NULL), 0);
  pthread_join(thread, NULL);
}

START_TEST(a_live_tensor_keeps_no_threads) {
  start_first_thread();
  tn_runtime_close(open_host_runtime()); /* libraries may start threads as they are loaded */
  int before = count_threads();
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "cpu,reference", .num_threads = 4};
  tn_runtime *runtime = open_runtime(&options);
  tn_tensor *x = counting(tn_runtime_device(runtime), 100);
  use_threads(tn_runtime_device(runtime));
  ck_assert_int_ge(count_threads(), before + 3);
  tn_runtime_close(runtime);
  ck_assert_int_eq(count_threads(), before);
  tn_tensor_release(x);
}
END_TEST

static _Atomic int loops;

static void run_loop(void *user, int64_t n, int64_t grain,
                     void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx) {
  (void)user, (void)grain;
  atomic_fetch_add(&loops, 1);
  body(ctx, 0, n);
}

START_TEST(an_embedders_threads_are_left_alone_after_the_close) {
  tn_parallel parallel = {run_loop, NULL, 2};
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "cpu,reference", .parallel = &parallel};
  tn_runtime *runtime = open_runtime(&options);
  tn_tensor *x = counting(tn_runtime_device(runtime), 100);
  use_threads(tn_runtime_device(runtime));
  ck_assert_int_gt(atomic_load(&loops), 0);
  tn_runtime_close(runtime);
  atomic_store(&loops, 0);
  tn_tensor_release(x);
  ck_assert_int_eq(atomic_load(&loops), 0);
}
END_TEST

/* What was cached for later goes back at the close, whatever is still alive. */
START_TEST(a_live_tensor_keeps_no_cache) {
  world w = {.closed = false};
  open_world(&w, &places[0]);
  tn_tensor *small = counting(w.device, 100), *large = NULL;
  ok(tn_tensor_empty(w.device, TN_U8, 1, SHAPE(24 << 20), &large));
  tn_tensor_release(large);
  long before = atomic_load(&w.blocks);
  tn_runtime_close(w.runtime);
  ck_assert_int_lt(atomic_load(&w.blocks), before);
  tn_tensor_release(small);
  ck_assert_int_eq(atomic_load(&w.blocks), 0);
}
END_TEST

/* Many runtimes later a device that somebody kept is asked. */
START_TEST(a_device_is_asked_long_after) {
  enum { LATER = 40 };
  tn_runtime *runtime = open_host_runtime();
  tn_device *device = tn_runtime_device(runtime);
  tn_device_info info = {.struct_size = sizeof info};
  tn_runtime_close(runtime);
  for (int i = 0; i < LATER; i++) tn_runtime_close(open_host_runtime());
  closed(tn_device_get_info(device, &info));
}
END_TEST

static void add_tests(TCase *t) {
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, any_order_will_do, 0, PLACES);
  tcase_add_loop_test(t, any_handle_may_be_the_last, 0, PLACES);
  tcase_add_test(t, a_live_tensor_keeps_no_threads);
  tcase_add_test(t, an_embedders_threads_are_left_alone_after_the_close);
  tcase_add_test(t, a_live_tensor_keeps_no_cache);
  tcase_add_test(t, a_device_is_asked_long_after);
}

int main(void) { return run_suite("orders", add_tests); }
