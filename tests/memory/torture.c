/*
 * Every request for memory fails once: request 1, then 2, and so on until the scenario is
 * through, each alone and then with all after it. Every call must either succeed, and then
 * rightly, or say that memory ran out; and when there is memory again, the same process does
 * the same work. Nothing may be left of it in the runtime's allocator.
 *
 * usage: torture [SCENARIO]...
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

/* Points of one scenario and mode at the most; more are sampled evenly. */
static long points_max = 400;

/* What the parent learns of a child that dies. */
static struct progress {
  long point;
  char step[96];
  long points, refused, failures;
} * progress;

/* --- steps --- */

typedef struct run {
  bool own_allocator; /* requests go through tn_allocator */
  const char *wrong;  /* a result that is wrong */
  tn_status status;   /* of the first step that failed */
  char message[400];
} run;

static bool step_failed(run *r, tn_status status, const char *step) {
  if (!status) return false;
  if (r->status) return true;
  r->status = status;
  snprintf(r->message, sizeof r->message, "%s: %s", step, tn_last_error());
  return true;
}

/* Makes the call; where it fails, leaves the scenario by `out`. */
#define TRY(r, call)                                                                               \
  do {                                                                                             \
    snprintf(progress->step, sizeof progress->step, "%.90s", #call);                               \
    if (step_failed(r, call, #call)) goto out;                                                     \
  } while (0)
#define MUST(r, condition)                                                                         \
  do {                                                                                             \
    if (!(condition) && !(r)->wrong) (r)->wrong = #condition;                                      \
  } while (0)

static tn_status open_runtime(const run *r, const char *device, const char *plugins,
                              const char *layers, tn_runtime **runtime) {
  const tn_runtime_options options = {.struct_size = sizeof options,
                                      .device = device,
                                      .plugins = plugins,
                                      .layers = layers,
                                      .num_threads = 3,
                                      .log_level = 1 + TN_LOG_NONE,
                                      .scan = TN_SCAN_OFF,
                                      .allocator = r->own_allocator ? &fault_allocator : NULL};
  *runtime = NULL;
  return tn_runtime_open(&options, runtime);
}

static bool is_type(tn_runtime *runtime, const char *type) {
  tn_device_info info = {.struct_size = sizeof info};
  return tn_device_get_info(tn_runtime_device(runtime), &info) == TN_OK &&
         strcmp(info.type, type) == 0;
}

/* --- scenarios --- */

/* The best device: it must not be another one because memory ran out. */
static void open_best(run *r) {
  tn_runtime *runtime = NULL;
  TRY(r, open_runtime(r, NULL, "reference,cpu", NULL, &runtime));
  MUST(r, is_type(runtime, "cpu"));
  MUST(r, tn_device_count(runtime) == 2);
out:
  tn_runtime_close(runtime);
}

static void open_named(run *r) {
  tn_runtime *runtime = NULL;
  tn_device *device;
  TRY(r, open_runtime(r, "cpu", "reference,cpu,validate", NULL, &runtime));
  MUST(r, is_type(runtime, "cpu"));
  TRY(r, tn_device_find(runtime, "reference:0", &device));
out:
  tn_runtime_close(runtime);
}

static void load_and_unload(run *r) {
  tn_runtime *runtime = NULL;
  tn_device *device;
  TRY(r, open_runtime(r, "reference", "reference", NULL, &runtime));
  TRY(r, tn_runtime_load_plugin(runtime, SIM_PLUGIN));
  TRY(r, tn_device_find(runtime, "sim:0", &device));
  TRY(r, tn_device_synchronize(device));
  TRY(r, tn_runtime_unload_plugin(runtime, "sim"));
  TRY(r, tn_runtime_load_plugin(runtime, SIM_PLUGIN));
  TRY(r, tn_device_find(runtime, "sim", &device));
out:
  tn_runtime_close(runtime);
}

static void tensors(run *r, const char *device, const char *layers) {
  static const float values[6] = {1, 2, 3, 4, 5, 6};
  const int32_t turned[2] = {1, 0};
  const int64_t shape[2] = {2, 3}, flat = 6, big = 1 << 20;
  float back[6] = {0};
  tn_runtime *runtime = NULL;
  tn_tensor *x = NULL, *view = NULL, *dense = NULL, *copy = NULL, *large = NULL, *y = NULL;
  tn_stream *stream = NULL;
  tn_event *event = NULL;
  TRY(r, open_runtime(r, device, NULL, layers, &runtime));
  tn_device *d = tn_runtime_device(runtime);
  TRY(r, tn_stream_create(d, &stream));
  TRY(r, tn_event_create(d, &event));
  TRY(r, tn_tensor_from_host(d, TN_F32, 2, shape, values, &x));
  TRY(r, tn_tensor_permute(x, turned, &view));
  TRY(r, tn_tensor_contiguous(stream, view, &dense));
  TRY(r, tn_event_record(event, stream));
  TRY(r, tn_event_synchronize(event));
  TRY(r, tn_tensor_to_host(dense, back, sizeof back));
  MUST(r, back[1] == 4 && back[5] == 6);
  TRY(r, tn_tensor_to_device(view, d, &copy));
  TRY(r, tn_tensor_empty(d, TN_F32, 1, &big, &large));
  tn_tensor_release(view);
  view = NULL;
  TRY(r, tn_tensor_reshape(copy, 1, &flat, &view));
  TRY(r, tn_add(stream, view, view, &y));
  TRY(r, tn_stream_synchronize(stream));
  TRY(r, tn_tensor_to_host(y, back, sizeof back));
  MUST(r, back[1] == 8);
out:
  tn_tensor_release(x);
  tn_tensor_release(view);
  tn_tensor_release(dense);
  tn_tensor_release(copy);
  tn_tensor_release(large);
  tn_tensor_release(y);
  tn_event_destroy(event);
  tn_stream_destroy(stream);
  tn_runtime_close(runtime);
}

static void tensors_on_cpu(run *r) { tensors(r, "cpu", NULL); }
static void tensors_validated(run *r) { tensors(r, "cpu", "validate"); }
static void tensors_traced(run *r) { tensors(r, "cpu", "trace"); }

/* To a file and back, mapped and read. */
static void files(run *r) {
  static const float values[3] = {1, 2, 3};
  const int64_t size = 3;
  const tn_tensors_metadata said = {"by", "torture"};
  char path[64];
  float back[3] = {0};
  tn_runtime *runtime = NULL;
  tn_tensor *x = NULL, *again = NULL;
  tn_tensors *file = NULL;
  snprintf(path, sizeof path, "/tmp/tenon-torture-%ld", (long)getpid());
  TRY(r, open_runtime(r, "cpu", NULL, NULL, &runtime));
  TRY(r, tn_tensor_from_host(tn_runtime_device(runtime), TN_F32, 1, &size, values, &x));
  TRY(r,
      tn_tensors_save(path, 2, (const char *[]){"x", "y"}, (const tn_tensor *[]){x, x}, 1, &said));
  TRY(r, tn_tensors_open(path, &file));
  TRY(r, tn_tensors_load(file, 1, tn_runtime_device(runtime), &again));
  tn_tensors_close(file);
  file = NULL;
  TRY(r, tn_tensor_to_host(again, back, sizeof back));
  MUST(r, back[2] == 3);
out:
  (void)unlink(path);
  tn_tensors_close(file);
  tn_tensor_release(x);
  tn_tensor_release(again);
  tn_runtime_close(runtime);
}

/* To the other library and back; the exports outlive the runtime. */
static void dlpack(run *r) {
  static const float values[3] = {1, 2, 3};
  const int64_t size = 3;
  float back[3] = {0};
  tn_runtime *runtime = NULL;
  tn_tensor *x = NULL, *again = NULL;
  DLManagedTensorVersioned *managed = NULL;
  DLManagedTensor *old = NULL;
  TRY(r, open_runtime(r, "cpu", NULL, NULL, &runtime));
  TRY(r, tn_tensor_from_host(tn_runtime_device(runtime), TN_F32, 1, &size, values, &x));
  TRY(r, tn_tensor_to_dlpack_unversioned(x, &old));
  TRY(r, tn_tensor_to_dlpack(x, &managed));
  TRY(r, tn_tensor_from_dlpack(runtime, managed, &again));
  managed = NULL;
  TRY(r, tn_tensor_to_host(again, back, sizeof back));
  MUST(r, back[2] == 3);
out:
  tn_tensor_release(x);
  tn_tensor_release(again);
  tn_runtime_close(runtime);
  if (managed) managed->deleter(managed);
  if (old) old->deleter(old);
}

/* Constants, tensors of one value, text, and a generator. */
static void numbers(run *r, const char *device) {
  const int64_t shape[2] = {20, 60};
  const int32_t turned[2] = {1, 0};
  int64_t back[3] = {0};
  char text[600];
  tn_runtime *runtime = NULL;
  tn_tensor *big = NULL, *x = NULL, *view = NULL, *like = NULL, *one = NULL, *y = NULL;
  tn_generator *generator = NULL;
  tn_randint_attrs attrs = TN_RANDINT_DEFAULTS;
  const tn_print_options ends = {.struct_size = sizeof ends, .edge = 1};
  TRY(r, open_runtime(r, "reference", "reference,cpu", NULL, &runtime));
  if (strcmp(device, "sim") == 0) TRY(r, tn_runtime_load_plugin(runtime, SIM_PLUGIN));
  tn_device *d;
  TRY(r, tn_device_find(runtime, device, &d));
  TRY(r, tn_scalar(d, NULL, TN_I64, INT64_MAX, &big));
  TRY(r, tn_tensor_to_host(big, back, sizeof *back));
  MUST(r, back[0] == INT64_MAX);
  TRY(r, tn_full(d, NULL, TN_I64, 2, shape, INT64_MIN, &x));
  TRY(r, tn_tensor_permute(x, turned, &view));
  TRY(r, tn_ones_like(NULL, view, &like));
  TRY(r, tn_tensor_format(view, &ends, text, sizeof text, NULL));
  MUST(r, strstr(text, "-9223372036854775808, ..., -9223372036854775808"));
  TRY(r, tn_tensor_select(like, 0, -1, &one));
  TRY(r, tn_generator_create(runtime, 1, &generator));
  TRY(r, tn_generator_next(generator, TN_OP_RANDINT, one, &attrs));
  TRY(r, tn_randint(NULL, one, &attrs));
  TRY(r, tn_maximum(NULL, one, big, &y));
out:
  tn_generator_destroy(generator);
  tn_tensor_release(big);
  tn_tensor_release(x);
  tn_tensor_release(view);
  tn_tensor_release(like);
  tn_tensor_release(one);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}

static void numbers_on_cpu(run *r) { numbers(r, "cpu"); }
static void numbers_on_sim(run *r) { numbers(r, "sim"); }

/* Streams around handles, and tensors given to and taken from their work. */
static void foreign(run *r) {
  float back = 0;
  tn_runtime *runtime = NULL;
  tn_device *d;
  tn_stream *theirs = NULL, *ours = NULL;
  tn_tensor *x = NULL, *y = NULL;
  DLManagedTensorVersioned *managed = NULL;
  TRY(r, open_runtime(r, "reference", "reference,cpu", NULL, &runtime));
  TRY(r, tn_runtime_load_plugin(runtime, TEMPLATE_PLUGIN));
  TRY(r, tn_device_find(runtime, "sim", &d));
  TRY(r, tn_stream_create(d, &theirs));
  TRY(r, tn_stream_wrap(d, tn_stream_native(theirs), &ours));
  TRY(r, tn_full(d, ours, TN_F32, 0, NULL, 3, &x));
  TRY(r, tn_tensor_to_dlpack_stream(x, NULL, tn_stream_to_dlpack(tn_device_default_stream(d)),
                                    &managed));
  TRY(r, tn_tensor_from_dlpack_stream(runtime, managed, ours,
                                      tn_stream_to_dlpack(tn_device_default_stream(d)), &y));
  managed = NULL;
  TRY(r, tn_tensor_to_host(y, &back, sizeof back));
  MUST(r, back == 3);
out:
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_stream_destroy(ours);
  tn_stream_destroy(theirs);
  tn_runtime_close(runtime);
  if (managed) managed->deleter(managed);
}

/* The fallback, lists, outputs whose length depends on data, prepared calls. */
/* The fallback, lists, outputs whose length depends on data, inputs left out, prepared calls. */
static void calls(run *r, const char *device) {
  static const float values[4] = {0, 2, 0, 4};
  const int64_t size = 4;
  float back[8] = {0};
  tn_runtime *runtime = NULL;
  tn_tensor *x = NULL, *sums = NULL, *both = NULL, *found = NULL, *count = NULL, *y = NULL,
            *dx = NULL;
  tn_prepared *prepared = NULL;
  TRY(r, open_runtime(r, "reference", "reference,cpu", NULL, &runtime));
  if (strcmp(device, "sim") == 0) TRY(r, tn_runtime_load_plugin(runtime, SIM_PLUGIN));
  tn_device *d;
  TRY(r, tn_device_find(runtime, device, &d));
  TRY(r, tn_tensor_from_host(d, TN_F32, 1, &size, values, &x));
  TRY(r, tn_cumsum(NULL, x, NULL, &sums));
  TRY(r, tn_tensor_to_host(sums, back, 4 * sizeof *back));
  MUST(r, back[3] == 6);
  TRY(r, tn_concat(NULL, (const tn_tensor *[]){x, sums}, 2, NULL, &both));
  TRY(r, tn_tensor_to_host(both, back, 8 * sizeof *back));
  MUST(r, back[7] == 6);
  TRY(r, tn_nonzero(NULL, x, &found, &count));
  MUST(r, tn_tensor_shape(found)[0] == 2);
  TRY(r, tn_mse_loss_grad(NULL, NULL, x, sums, NULL, &dx));
  TRY(r, tn_tensor_to_host(dx, back, 4 * sizeof *back));
  MUST(r, back[3] == -1);
  const tn_tensor *in[2] = {x, sums};
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_ADD, .in = in, .out = &y, .num_in = 2, .num_out = 1};
  TRY(r, tn_prepare(&call, &prepared));
  TRY(r, tn_run(prepared));
  TRY(r, tn_tensor_to_host(y, back, 4 * sizeof *back));
  MUST(r, back[3] == 10);
out:
  tn_prepared_release(prepared);
  tn_tensor_release(x);
  tn_tensor_release(sums);
  tn_tensor_release(both);
  tn_tensor_release(found);
  tn_tensor_release(count);
  tn_tensor_release(y);
  tn_tensor_release(dx);
  tn_runtime_close(runtime);
}

static void calls_on_cpu(run *r) { calls(r, "cpu"); }
static void calls_on_sim(run *r) { calls(r, "sim"); }

/* Several threads, each of which meets failures of its own and those of the others. */
typedef struct worker {
  tn_device *device;
  pthread_t thread;
  const char *wrong;
} worker;

static void *work(void *ctx) {
  worker *w = ctx;
  static const float values[5] = {1, 2, 3, 4, 5};
  const int64_t size = 5;
  for (int i = 0; i < 300 && !w->wrong; ++i) {
    float back[5] = {0};
    tn_tensor *x = NULL, *y = NULL;
    tn_stream *stream = NULL;
    tn_status status = tn_stream_create(w->device, &stream);
    if (!status) status = tn_tensor_from_host(w->device, TN_F32, 1, &size, values, &x);
    if (!status) status = tn_add(stream, x, x, &y);
    if (!status) status = tn_tensor_to_host(y, back, sizeof back);
    if (status && status != TN_ERR_OUT_OF_MEMORY && status != TN_ERR_DEVICE_OUT_OF_MEMORY)
      w->wrong = "a thread's call failed otherwise";
    if (!status && back[4] != 10) w->wrong = "a thread's sum";
    tn_tensor_release(x);
    tn_tensor_release(y);
    tn_stream_destroy(stream);
  }
  return NULL;
}

static void threads(run *r) {
  enum { WORKERS = 4 };
  worker workers[WORKERS];
  int started = 0;
  tn_runtime *runtime = NULL;
  TRY(r, open_runtime(r, "cpu", "reference,cpu", NULL, &runtime));
  for (; started < WORKERS; ++started) {
    workers[started] = (worker){.device = tn_runtime_device(runtime)};
    if (pthread_create(&workers[started].thread, NULL, work, &workers[started])) break;
  }
out:
  for (int i = 0; i < started; ++i) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].wrong) r->wrong = workers[i].wrong;
  }
  tn_runtime_close(runtime);
}

/* --- the scenarios' table, and points --- */

static const struct scenario {
  const char *name;
  void (*body)(run *r);
  bool every; /* fails every n-th request instead of number n */
} scenarios[] = {
    {"open", open_best, false},
    {"open-named", open_named, false},
    {"load", load_and_unload, false},
    {"tensors", tensors_on_cpu, false},
    {"validate", tensors_validated, false},
    {"trace", tensors_traced, false},
    {"files", files, false},
    {"dlpack", dlpack, false},
    {"numbers", numbers_on_cpu, false},
    {"numbers-sim", numbers_on_sim, false},
    {"foreign", foreign, false},
    {"calls", calls_on_cpu, false},
    {"fallback", calls_on_sim, false},
    {"threads", threads, true},
};

static void complain(const struct scenario *s, fault_mode mode, const run *r, const char *what) {
  ++progress->failures;
  printf("%s, request %ld fails %s%s: %s (%s)\n", s->name, progress->point,
         mode == FAULT_ONCE ? "once" : "and all after it",
         r->own_allocator ? ", of the allocator" : "", what, r->message);
}

static void check_point(const struct scenario *s, fault_mode mode, bool own, long point) {
  run r = {.own_allocator = own}, again = {.own_allocator = own};
  progress->point = point;
  fault_set(mode, point);
  s->body(&r);
  fault_set(FAULT_OFF, 0);
  if (r.status && r.status != TN_ERR_OUT_OF_MEMORY && r.status != TN_ERR_DEVICE_OUT_OF_MEMORY)
    complain(s, mode, &r, tn_status_name(r.status));
  if (r.wrong) complain(s, mode, &r, r.wrong);
  s->body(&again);
  if (again.status || again.wrong) complain(s, mode, &again, "the same does not work afterwards");
  if (fault_live()) complain(s, mode, &r, "blocks of the allocator are left");
  ++progress->points;
  progress->refused += r.status != TN_OK;
}

/* In a child: every point from `first` on. */
static void check_points(const struct scenario *s, fault_mode mode, bool own, long first) {
  run r = {.own_allocator = own};
  s->body(&r); /* what is made once and for good is made */
  fault_set(FAULT_COUNT, 0);
  s->body(&r);
  const long count = fault_seen(), step = count / points_max + 1;
  fault_set(FAULT_OFF, 0);
  if (r.status || r.wrong) complain(s, mode, &r, "it does not work without failures either");
  for (long point = first; point <= count; point += step) check_point(s, mode, own, point);
}

/* A child that dies is a failure of its point; the next begins behind it. */
static void check_mode(const struct scenario *s, fault_mode mode, bool own) {
  long first = s->every ? 2 : 1;
  for (int deaths = 0; deaths < 5; ++deaths) {
    progress->point = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      alarm(300);
      check_points(s, mode, own, first);
      fflush(stdout);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) exit(2);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    ++progress->failures;
    printf("%s, request %ld, mode %d%s: died of %s %d at %s\n", s->name, progress->point, (int)mode,
           own ? ", of the allocator" : "", WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), progress->step);
    first = progress->point + 1;
  }
}

static void check_scenario(const struct scenario *s) {
  const struct progress before = *progress;
  for (int own = 0; own < 2; ++own) {
    if (s->every) {
      check_mode(s, FAULT_EVERY, own);
      continue;
    }
    check_mode(s, FAULT_ONCE, own);
    check_mode(s, FAULT_FOR_GOOD, own);
  }
  printf("%-12s %5ld points, %5ld times out of memory, %ld failures\n", s->name,
         progress->points - before.points, progress->refused - before.refused,
         progress->failures - before.failures);
}

static bool is_wanted(const char *name, int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (strcmp(argv[i], name) == 0) return true;
  return argc <= 1;
}

int main(int argc, char **argv) {
  const char *points = getenv("TORTURE_POINTS");
  progress =
      mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (progress == MAP_FAILED) return 2;
  if (points) points_max = atol(points) > 0 ? atol(points) : points_max;
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; ++i)
    if (is_wanted(scenarios[i].name, argc, argv)) check_scenario(&scenarios[i]);
  printf("%ld points, %ld failures\n", progress->points, progress->failures);
  return progress->failures || !progress->refused;
}
