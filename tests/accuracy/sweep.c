/*
 * sweep: float32 results of every function of one tensor against the float64 reference,
 * over float32 itself rather than over drawn numbers.
 *
 *   sweep [--all | --step N] [--device D] [--op GLOB] [-j N]
 *
 * takes every Nth bit pattern (default 1021), or all 2^32, NaN and infinities included, in
 * N processes. Prints a JSON line per operator: the largest error in units in the last
 * place, where it stands, and the bound of the operator's row. Fails if one is exceeded.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/plugin.h"
#include "tenon/tenon.h"

enum { BLOCK = 1 << 16, MAX_JOBS = 64, MAX_OPS = 1024 };

typedef struct options {
  const char *device, *op;
  uint32_t step;
  int jobs;
} options;

typedef struct worst {
  double error, want;
  float at, got;
  uint64_t values;
} worst;

/* What the processes share: a result per process and operator. */
typedef struct board {
  worst of[MAX_JOBS][MAX_OPS];
} board;

static void must(tn_status status, const char *what) {
  if (status == TN_OK) return;
  fprintf(stderr, "sweep: %s: %s\n", what, tn_last_error());
  exit(2);
}

/* One input and one output of the same float type, judged element by element. */
static bool is_swept(const options *o, const tn_operator *op) {
  return op->num_args == 2 && op->args[0].kind == TN_ARG_IN && op->args[1].kind == TN_ARG_OUT &&
         op->args[0].type == TN_TYPE_VAR(0) && op->args[1].type == TN_TYPE_VAR(0) &&
         op->shape == TN_SHAPE_SAME && op->types[0] >> TN_F32 & 1 &&
         op->flags & TN_OPERATOR_ELEMENTWISE &&
         !(op->flags & (TN_OPERATOR_ACCUMULATES | TN_OPERATOR_RANDOM)) &&
         (!o->op || fnmatch(o->op, op->name, 0) == 0);
}

static void evaluate(tn_device *device, const tn_operator *op, tn_dtype dtype, int64_t n,
                     const void *x, void *y) {
  tn_tensor *in = NULL, *out = NULL;
  must(tn_tensor_from_host(device, dtype, 1, &n, x, &in), "tn_tensor_from_host");
  const tn_tensor *ins[] = {in};
  tn_tensor *outs[] = {out};
  tn_call call = {
      .struct_size = sizeof call, .op = op->id, .num_in = 1, .num_out = 1, .in = ins, .out = outs};
  must(tn_invoke(&call), op->name);
  must(tn_tensor_to_host(outs[0], y, (size_t)n * tn_dtype_size(dtype)), "tn_tensor_to_host");
  tn_tensor_release(outs[0]);
  tn_tensor_release(in);
}

/* The distance of neighbouring floats at x. */
static double unit(double x) {
  int exponent;
  frexp(x, &exponent);
  return x == 0 || exponent < -125 ? 0x1p-149 : ldexp(1, exponent - 24);
}

/* An infinity stands one step above the greatest number, so that an overflow by rounding
 * counts as such. */
static double error_ulp(double got, double want) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
  double a = fmin(fmax(got, -0x1p128), 0x1p128), b = fmin(fmax(want, -0x1p128), 0x1p128);
  double greatest = 0x1.fffffep127;
  return a == b ? 0 : fabs(a - b) / unit(fabs(b) > greatest ? greatest : b);
}

static void judge(int64_t n, const float *x, const float *got, const double *want, worst *w) {
  w->values += (uint64_t)n;
  for (int64_t i = 0; i < n; i++) {
    double error = error_ulp((double)got[i], want[i]);
    if (error <= w->error) continue;
    w->error = error;
    w->at = x[i];
    w->got = got[i];
    w->want = want[i];
  }
}

/* Every jobs-th block from the job's own on. */
static void sweep(const options *o, int job, tn_device *device, tn_device *reference,
                  const tn_operator *op, worst *w) {
  static float x[BLOCK], got[BLOCK];
  static double wide[BLOCK], want[BLOCK];
  const uint64_t end = UINT64_C(1) << 32, stride = (uint64_t)BLOCK * o->step;
  for (uint64_t from = (uint64_t)job * stride; from < end; from += (uint64_t)o->jobs * stride) {
    int64_t n = 0;
    for (uint64_t u = from; n < BLOCK && u < end; u += o->step, n++) {
      uint32_t bits = (uint32_t)u;
      memcpy(&x[n], &bits, sizeof bits);
      wide[n] = (double)x[n];
    }
    evaluate(device, op, TN_F32, n, x, got);
    evaluate(reference, op, TN_F64, n, wide, want);
    judge(n, x, got, want, w);
  }
}

/* Opens a runtime of its own: one does not survive a fork. */
static void work(const options *o, int job, board *b) {
  tn_runtime *runtime;
  tn_device *device, *reference;
  must(tn_runtime_open(NULL, &runtime), "tn_runtime_open");
  must(tn_device_find(runtime, o->device, &device), "tn_device_find");
  must(tn_device_find(runtime, "reference", &reference), "tn_device_find");
  for (size_t i = 0; i < tn_op_count(runtime) && i < MAX_OPS; i++) {
    const tn_operator *op = tn_op_at(runtime, i);
    if (is_swept(o, op)) sweep(o, job, device, reference, op, &b->of[job][i]);
  }
  tn_runtime_close(runtime);
}

static bool in_processes(const options *o, board *b) {
  bool good = true;
  for (int job = 0; job < o->jobs; job++) {
    pid_t child = fork();
    if (child < 0) return perror("fork"), false;
    if (child == 0) {
      work(o, job, b);
      _exit(0);
    }
  }
  for (int job = 0, status; job < o->jobs; job++)
    good = wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && good;
  return good;
}

static worst gather(const options *o, const board *b, size_t op) {
  worst w = b->of[0][op];
  for (int job = 1; job < o->jobs; job++) {
    uint64_t values = w.values + b->of[job][op].values;
    if (b->of[job][op].error > w.error) w = b->of[job][op];
    w.values = values;
  }
  return w;
}

static bool report(const options *o, const tn_operator *op, const worst *w) {
  /* A bound of 0 is correct rounding. */
  double bound = op->tolerance > 0 ? op->tolerance : 0.5;
  bool holds = w->error <= bound;
  printf("{\"op\": \"%s\", \"device\": \"%s\", \"values\": %llu, \"worst_ulp\": %.4f, "
         "\"bound_ulp\": %g, \"x\": \"%a\", \"got\": \"%a\", \"want\": \"%a\", \"holds\": %s}\n",
         op->name, o->device, (unsigned long long)w->values, w->error, bound, (double)w->at,
         (double)w->got, w->want, holds ? "true" : "false");
  fflush(stdout);
  return holds;
}

static options options_of(int argc, char **argv) {
  options o = {.device = "cpu", .step = 1021, .jobs = 1};
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--all"))
      o.step = 1;
    else if (!strcmp(argv[i], "--step"))
      o.step = (uint32_t)strtoul(value, NULL, 10), i++;
    else if (!strcmp(argv[i], "--device"))
      o.device = value, i++;
    else if (!strcmp(argv[i], "--op"))
      o.op = value, i++;
    else if (!strcmp(argv[i], "-j"))
      o.jobs = (int)strtol(value, NULL, 10), i++;
    else
      o.step = 0;
  }
  if (o.step == 0 || o.jobs < 1 || o.jobs > MAX_JOBS) {
    fprintf(stderr, "usage: %s [--all | --step N] [--device D] [--op GLOB] [-j N]\n", argv[0]);
    exit(2);
  }
  return o;
}

int main(int argc, char **argv) {
  options o = options_of(argc, argv);
  board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED) return perror("mmap"), 2;
  bool good = in_processes(&o, b);
  tn_runtime *runtime;
  must(tn_runtime_open(NULL, &runtime), "tn_runtime_open");
  int swept = 0;
  for (size_t i = 0; i < tn_op_count(runtime) && i < MAX_OPS; i++) {
    if (!is_swept(&o, tn_op_at(runtime, i))) continue;
    worst w = gather(&o, b, i);
    good = report(&o, tn_op_at(runtime, i), &w) && good;
    swept++;
  }
  tn_runtime_close(runtime);
  munmap(b, sizeof *b);
  return good && swept ? EXIT_SUCCESS : EXIT_FAILURE;
}
