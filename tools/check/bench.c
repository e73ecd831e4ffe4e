/*
 * tenon bench: how fast a device's operators are, over the same table as tenon check, at
 * the sizes that their families give. Beside the time stand GB/s of what a call must read
 * and write and GFLOP/s where it multiplies, and what part that is of the device's own
 * copy and of its own large product, measured first.
 */
#include "bench.h"

#include <fnmatch.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../command.h"
#include "../help.h"
#include "../json.h"
#include "../plain.h"
#include "../progress.h"
#include "bench_compare.h"
#include "bench_memory.h"
#include "check.h"

typedef struct bench_options {
  const char *device, *op, *dtype, *only; /* only: a glob of whole calls as they are printed */
  const char *was, *is; /* files to compare with and to compare; NULL: none, and this run */
  double threshold;     /* a part: 0.1 */
  bool as_json, once;
  memory_options memory; /* of `tenon bench memory` */
} bench_options;

/* --- what others are compared with --- */

static double speed_of(bench *b, const op_case *c, bool bytes) {
  job *j = job_make(b, c);
  double ns = j ? job_time(j).median : 0;
  if (j && bytes) b->copy_bytes = job_bytes(j);
  double speed = ns > 0 ? (bytes ? job_bytes(j) : c->flops) / ns : 0;
  job_free(j);
  return speed;
}

static void measure_copy(bench *b) {
  const tn_operator *op = session_operator(b->runtime, TN_OP_COPY);
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_F32};
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 1, &b->large);
  b->copy_gbs = speed_of(b, &c, true);
}

typedef struct largest {
  op_case best;
} largest;

static void keep_largest(void *ctx, const op_case *c) {
  largest *l = ctx;
  if (c->flops > l->best.flops) l->best = *c;
}

static void measure_peak(bench *b, tn_dtype dtype) {
  const tn_operator *op = session_operator(b->runtime, TN_OP_MATMUL);
  tn_dtype types[TN_MAX_TYPE_VARS] = {dtype};
  largest l = {.best = {.flops = 0}};
  if (b->peak[dtype] != 0 || !(op->types[0] >> dtype & 1)) return;
  sizes_emit(op, types, b->large, (case_sink){keep_largest, &l});
  double peak = l.best.flops > 0 ? speed_of(b, &l.best, false) : 0;
  b->peak[dtype] = peak > 0 ? peak : -1;
}

/* --- rows --- */

typedef struct row {
  char what[300];
  const char *kernel;
  timing ns;
  double gbs, gflops, of_copy, of_peak;
  bool cached; /* so little data that it is faster than memory can be */
} row;

/* Shapes and what is not at its default: "sum f32 8192x8192 axes=(1)". */
static void describe(const op_case *c, row *r) {
  char types[64];
  size_t used = 0;
  types_text(c->types, types, sizeof types);
  used = (size_t)snprintf(r->what, sizeof r->what, "%s %s", c->op->name, types);
  for (uint32_t i = 0; i < c->op->num_args && used < sizeof r->what - 80; i++) {
    const case_arg *a = &c->arg[i];
    bool given = c->op->shape == TN_SHAPE_GIVEN && arg_is_output(&c->op->args[i]);
    if (a->absent || (arg_is_output(&c->op->args[i]) && !given)) continue;
    r->what[used++] = ' ';
    for (int32_t k = 0; k < a->rank && used < sizeof r->what - 40; k++)
      used += (size_t)snprintf(r->what + used, sizeof r->what - used, "%s%lld", k ? "x" : "",
                               (long long)a->shape[k]);
    if (a->rank == 0) r->what[used++] = '.';
    r->what[used] = 0;
  }
  if (used < sizeof r->what) case_describe_given(c, r->what + used, sizeof r->what - used);
}

/* A part of the speed that a copy, or a product, has; nothing above it is a part. */
static const char *part_text(char *text, size_t size, double part, const char *above) {
  if (part > 1.005)
    snprintf(text, size, "%s", above);
  else
    snprintf(text, size, "%.0f%%", 100 * part);
  return text;
}

static void print_head(void) {
  printf("%-52s %10s %10s %10s %9s %6s %10s %6s  %s\n", "call", "least us", "median us", "most us",
         "GB/s", "copy", "GFLOP/s", "peak", "kernel");
}

static void print_columns(const bench *b, const row *r) {
  char of_copy[16], of_peak[16], gflops[32] = "";
  if (b->rows == 0) print_head();
  part_text(of_copy, sizeof of_copy, r->of_copy, r->cached ? "cache" : ">copy");
  part_text(of_peak, sizeof of_peak, r->of_peak, ">peak");
  if (r->gflops > 0) snprintf(gflops, sizeof gflops, "%.1f", r->gflops);
  printf("%-52s %10.2f %10.2f %10.2f %9.2f %6s %10s %6s  %s\n", plain(r->what), r->ns.least / 1e3,
         r->ns.median / 1e3, r->ns.most / 1e3, r->gbs, of_copy, gflops,
         r->gflops > 0 ? of_peak : "", plain(r->kernel));
}

static void print_json(const bench *b, const op_case *c, const row *r) {
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_string(&j, "bench", "ops");
  json_string(&j, "device", b->info.id);
  json_string(&j, "op", c->op->name);
  json_string(&j, "dtype", c->types[0] ? tn_dtype_name(c->types[0]) : "-");
  json_string(&j, "case", r->what);
  json_string(&j, "kernel", r->kernel);
  json_real(&j, "time_us", r->ns.median / 1e3);
  json_real(&j, "least_us", r->ns.least / 1e3);
  json_real(&j, "most_us", r->ns.most / 1e3);
  json_real(&j, "gbytes_s", r->gbs);
  json_bool(&j, "cached", r->cached);
  json_real(&j, "of_copy", r->cached ? NAN : r->of_copy);
  if (r->gflops > 0) json_real(&j, "gflops", r->gflops);
  if (r->gflops > 0) json_real(&j, "of_peak", r->of_peak);
  json_close(&j, '}');
}

static void compare(bench *b, const op_case *c, const job *j, row *r) {
  r->gbs = job_bytes(j) / r->ns.median;
  r->gflops = c->flops / r->ns.median;
  r->of_copy = b->copy_gbs > 0 ? r->gbs / b->copy_gbs : 0;
  r->cached = r->of_copy > 1 && 4 * job_bytes(j) < b->copy_bytes;
  if (c->flops > 0 && c->types[0]) measure_peak(b, c->types[0]);
  if (c->types[0] && b->peak[c->types[0]] > 0) r->of_peak = r->gflops / b->peak[c->types[0]];
}

/* For a comparison; without memory for that the run counts as failed. */
static void keep(bench *b, const op_case *c, row *r) {
  const timing us = {r->ns.least / 1e3, r->ns.median / 1e3, r->ns.most / 1e3};
  const char *dtype = c->types[0] ? tn_dtype_name(c->types[0]) : "-";
  const figure f = {.device = b->info.id,
                    .op = c->op->name,
                    .dtype = dtype,
                    .what = r->what,
                    .kernel = r->kernel,
                    .us = us};
  if (b->kept && !figures_add(b->kept, &f)) ++b->failures;
}

/* One call between two lines, after all that came before: what a profiler sees meanwhile is the
 * call's. */
static void run_once(bench *b, const row *r, job *j) {
  (void)tn_device_synchronize(b->device);
  printf("begin %s\n", plain(r->what));
  fflush(stdout);
  if (job_run(j) != TN_OK) {
    fprintf(stderr, "%s: %s\n", plain(r->what), plain(tn_last_error()));
    ++b->failures;
  }
  puts("end");
  fflush(stdout);
  ++b->rows;
}

static void take_size(void *ctx, const op_case *c) {
  bench *b = ctx;
  row r = {.kernel = ""};
  describe(c, &r);
  if (b->only && fnmatch(b->only, r.what, 0)) return;
  progress_show("%s: %s", b->info.id, plain(r.what));
  job *j = job_make(b, c);
  if (j && b->once) {
    progress_clear();
    run_once(b, &r, j);
    job_free(j);
    return;
  }
  if (j) r.kernel = job_kernel(j);
  if (j) r.ns = job_time(j);
  if (r.ns.median > 0) compare(b, c, j, &r);
  progress_clear();
  if (r.ns.median > 0) {
    b->as_json ? print_json(b, c, &r) : print_columns(b, &r);
    keep(b, c, &r);
    ++b->rows;
  } else {
    fprintf(stderr, "%s: %s\n", plain(r.what), plain(tn_last_error()));
    ++b->failures;
  }
  job_free(j);
  fflush(stdout);
}

/* --- which --- */

static tn_dtype first_of(tn_dtype_set set) {
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; t++)
    if (set >> t & 1) return (tn_dtype)t;
  return TN_DTYPE_NONE;
}

/* What further type variables are: int64 for indexes, float16 to convert to; the state of
 * optimisers is no narrower than their parameters. */
static tn_dtype usual(const tn_operator *op, int variable, tn_dtype first) {
  static const tn_dtype list[] = {TN_I64, TN_F16, TN_F32};
  const tn_dtype_set set = op->types[variable];
  if (op->shape == TN_SHAPE_UPDATE_LISTS) return tn_dtype_wide(first);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (set >> list[i] & 1 && list[i] != first) return list[i];
  return first_of(set);
}

static bool has_kernel(const bench *b, const tn_operator *op, tn_dtype dtype) {
  tn_kernel_info info = {.struct_size = sizeof info};
  return tn_kernel_find(b->device, op->id, dtype, 0, &info) == TN_OK;
}

static void run_types(bench *b, const tn_operator *op, tn_dtype first) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {first};
  if (!has_kernel(b, op, first)) return;
  for (int i = 1; i < TN_MAX_TYPE_VARS && op->types[i]; i++) types[i] = usual(op, i, first);
  sizes_emit(op, types, b->large, (case_sink){take_size, b});
}

static void run_operator(bench *b, const bench_options *o, const tn_operator *op) {
  tn_dtype_set set = op->types[0];
  if (!set) {
    run_types(b, op, TN_DTYPE_NONE);
    return;
  }
  if (!o->dtype) set = set & TN_SET(TN_F32) ? TN_SET(TN_F32) : TN_SET(first_of(set));
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; t++) {
    if (!(set >> t & 1)) continue;
    if (!o->dtype || !fnmatch(o->dtype, tn_dtype_name((tn_dtype)t), 0))
      run_types(b, op, (tn_dtype)t);
  }
}

/* --- the command --- */

static int failed(void) {
  fprintf(stderr, "tenon bench: %s\n", plain(tn_last_error()));
  return EXIT_FAILED;
}

static bool is_dtype(const char *glob) {
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; t++)
    if (!fnmatch(glob, tn_dtype_name((tn_dtype)t), 0)) return true;
  fprintf(stderr,
          "tenon bench: --dtype %s: no element type is called that; there are:", plain(glob));
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; t++)
    if (tn_dtype_size((tn_dtype)t)) fprintf(stderr, " %s", tn_dtype_name((tn_dtype)t));
  fputc('\n', stderr);
  return false;
}

static int verdict(const bench *b, const bench_options *o, bool known) {
  if (!known)
    fprintf(stderr, "tenon bench: no operator is called %s\n", plain(o->op ? o->op : "anything"));
  else if (b->rows + b->failures == 0)
    fprintf(stderr, "tenon bench: nothing to time: %s has no kernel for that%s\n", b->info.id,
            o->only ? ", or no such case" : "");
  if (b->failures) return EXIT_FAILED;
  return b->rows ? EXIT_OK : EXIT_NOTHING;
}

static void run_operators(bench *b, const bench_options *o) {
  for (size_t i = 0; i < tn_op_count(b->runtime); i++) {
    const tn_operator *op = tn_op_at(b->runtime, i);
    if (!o->op || !fnmatch(o->op, op->name, 0)) run_operator(b, o, op);
  }
}

static bool has_operator(const bench *b, const char *glob) {
  bool found = false;
  for (size_t i = 0; i < tn_op_count(b->runtime) && !found; i++)
    found = !glob || !fnmatch(glob, tn_op_at(b->runtime, i)->name, 0);
  return found;
}

/* kept: takes the figures; NULL where nobody wants them. */
static int run(const bench_options *o, figures *kept) {
  bench b = {.as_json = o->as_json, .once = o->once, .only = o->only, .kept = kept};
  b.info.struct_size = sizeof b.info;
  tn_runtime_options options = {.struct_size = sizeof options, .device = o->device};
  options.fallback = TN_FALLBACK_ERROR;
  if (tn_runtime_open(&options, &b.runtime) != TN_OK) return failed();
  b.device = tn_runtime_device(b.runtime);
  tn_device_get_info(b.device, &b.info);
  b.large = b.info.host_memory ? 10000000 : 1 << 26;
  progress_begin(!o->as_json);
  bool known = has_operator(&b, o->op);
  if (known && !o->once) {
    progress_show("%s: a large copy", b.info.id);
    measure_copy(&b);
    progress_clear();
    fprintf(stderr, "%s (%s): copies %.1f GB/s\n", plain(b.info.id), plain(b.info.name),
            b.copy_gbs);
  }
  if (known) run_operators(&b, o);
  int status = verdict(&b, o, known);
  tn_runtime_close(b.runtime);
  return status;
}

/* A file with another, or with a run that is made now; both are read before anything is timed. */
static int run_compared(const bench_options *o) {
  const comparison c = {o->op, o->dtype, o->only, o->threshold};
  figures was = {0}, is = {0};
  int status =
      figures_read(o->was, &was) && (!o->is || figures_read(o->is, &is)) ? EXIT_OK : EXIT_FAILED;
  if (status == EXIT_OK && !o->is) status = run(o, &is);
  if (is.count) {
    FILE *out = o->as_json && !o->is ? stderr : stdout; /* rows alone go to the JSON */
    if (!o->is) fputc('\n', out);
    const int compared = figures_compare(&was, &is, &c, out);
    if (status == EXIT_OK) status = compared;
  }
  figures_free(&was);
  figures_free(&is);
  return status;
}

static bool read_threshold(const char *text, double *part) {
  char *end;
  *part = strtod(text, &end) / 100;
  if (end != text && (!*end || !strcmp(end, "%")) && *part >= 0 && isfinite(*part)) return true;
  fprintf(stderr, "tenon bench: --threshold %s: not a number of percent\n", plain(text));
  return false;
}

static bool read_count(const char *name, const char *text, uint64_t *count) {
  char *end;
  const unsigned long long n = strtoull(text, &end, 10);
  *count = n;
  if (*text >= '0' && *text <= '9' && !*end && n && n <= 100000000) return true;
  fprintf(stderr, "tenon bench: --%s %s: not a number from 1 to 100000000\n", name, plain(text));
  return false;
}

static int run_memory(const bench_options *o) {
  memory_options m = o->memory;
  if (o->op || o->dtype || o->was || o->only || o->once) {
    fputs("tenon bench: memory goes with --device, --json, --tensors, --seed and --svg\n", stderr);
    return EXIT_USAGE;
  }
  m.device = o->device;
  m.as_json = o->as_json;
  return bench_memory(&m);
}

int command_bench(int argc, char **argv) {
  static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                          {"op", required_argument, NULL, 'o'},
                                          {"dtype", required_argument, NULL, 't'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"compare", required_argument, NULL, 'c'},
                                          {"threshold", required_argument, NULL, 'p'},
                                          {"tensors", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"svg", required_argument, NULL, 'g'},
                                          {"case", required_argument, NULL, 'a'},
                                          {"once", no_argument, NULL, '1'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  bench_options o = {.threshold = 0.1, .memory = {.tensors = 20000, .seed = 1}};
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h') return fputs(help_bench, stdout), EXIT_OK;
    if (option == '?') return fputs(help_bench, stderr), EXIT_USAGE;
    if (option == 'd') o.device = optarg;
    if (option == 'o') o.op = optarg;
    if (option == 't') o.dtype = optarg;
    if (option == 'j') o.as_json = true;
    if (option == 'c') o.was = optarg;
    if (option == 'n' && !read_count("tensors", optarg, &o.memory.tensors)) return EXIT_USAGE;
    if (option == 's' && !read_count("seed", optarg, &o.memory.seed)) return EXIT_USAGE;
    if (option == 'g') o.memory.svg = optarg;
    if (option == 'a') o.only = optarg;
    if (option == '1') o.once = true;
    if (option == 'p' && !read_threshold(optarg, &o.threshold)) return EXIT_USAGE;
  }
  if (optind + 1 == argc && !strcmp(argv[optind], "memory") && !o.was) return run_memory(&o);
  if (o.once && (o.was || o.as_json)) return fputs(help_bench, stderr), EXIT_USAGE;
  if (o.was && optind < argc) o.is = argv[optind++];
  if (optind < argc) return fputs(help_bench, stderr), EXIT_USAGE;
  if (o.dtype && !is_dtype(o.dtype)) return EXIT_USAGE;
  return o.was ? run_compared(&o) : run(&o, NULL);
}
