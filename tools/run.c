/*
 * tenon run: a model in the ONNX format, on inputs from files or on random ones: how long each part
 * takes, what memory, and what it gives. The library does the work; this is a host of it.
 */
#include "run.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "command.h"
#include "help.h"
#include "plain.h"
#include "progress.h"
#include "tenon/ops.h"

/* --- options --- */

enum {
  OPTION_COMPARE = 256,
  OPTION_TOLERANCE,
  OPTION_MATH,
  OPTION_REPEAT,
  OPTION_PROFILE,
  OPTION_TOP,
  OPTION_LABELS,
  OPTION_LIST,
  OPTION_OPERATORS,
  OPTION_BY_NODE,
  OPTION_ROW_MAJOR,
  OPTION_SHAPE,
  OPTION_MEAN,
  OPTION_STD,
  OPTION_SCALE,
  OPTION_RESIZE,
  OPTION_BGR,
  OPTION_DRAW,
  OPTION_DRAW_OUTPUT,
  OPTION_THRESHOLD,
};

static const struct option options[] = {
    {"input", required_argument, NULL, 'i'},
    {"output-dir", required_argument, NULL, 'o'},
    {"device", required_argument, NULL, 'd'},
    {"shape", required_argument, NULL, OPTION_SHAPE},
    {"compare", required_argument, NULL, OPTION_COMPARE},
    {"tolerance", required_argument, NULL, OPTION_TOLERANCE},
    {"math", required_argument, NULL, OPTION_MATH},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"profile", required_argument, NULL, OPTION_PROFILE},
    {"top", required_argument, NULL, OPTION_TOP},
    {"labels", required_argument, NULL, OPTION_LABELS},
    {"list", no_argument, NULL, OPTION_LIST},
    {"list-operators", no_argument, NULL, OPTION_OPERATORS},
    {"by-node", no_argument, NULL, OPTION_BY_NODE},
    {"row-major", no_argument, NULL, OPTION_ROW_MAJOR},
    {"mean", required_argument, NULL, OPTION_MEAN},
    {"std", required_argument, NULL, OPTION_STD},
    {"scale", required_argument, NULL, OPTION_SCALE},
    {"resize", required_argument, NULL, OPTION_RESIZE},
    {"bgr", no_argument, NULL, OPTION_BGR},
    {"draw", required_argument, NULL, OPTION_DRAW},
    {"draw-output", required_argument, NULL, OPTION_DRAW_OUTPUT},
    {"threshold", required_argument, NULL, OPTION_THRESHOLD},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

/* One number for all channels, or three. */
static bool read_three(const char *text, double *to) {
  int count = sscanf(text, "%lf,%lf,%lf", &to[0], &to[1], &to[2]);
  if (count == 1) to[1] = to[2] = to[0];
  return count == 1 || count == 3;
}

static bool read_count(const char *text, int *to) {
  char *end;
  long number = strtol(text, &end, 10);
  *to = (int)number;
  return end != text && !*end && number >= 1 && number <= 1000000000;
}

/* tn_math plus 1, as the runtime's option has it. */
static bool read_math(const char *text, int *math) {
  static const char *const names[] = {"ieee", "tf32", "fast"};
  static const int modes[] = {TN_MATH_IEEE, TN_MATH_TF32, TN_MATH_FAST};
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, names[i])) *math = modes[i] + 1;
  return *math;
}

static bool read_picture_option(int option, picture_options *p) {
  char end;
  picture_norm *n = &p->norm;
  if (option == OPTION_MEAN) return read_three(optarg, n->mean);
  if (option == OPTION_STD)
    return read_three(optarg, n->std) && n->std[0] != 0 && n->std[1] != 0 && n->std[2] != 0;
  if (option == OPTION_SCALE) return sscanf(optarg, "%lf%c", &n->scale, &end) == 1 && n->scale != 0;
  if (option == OPTION_RESIZE)
    return sscanf(optarg, "%dx%d%c", &p->width, &p->height, &end) == 2 && p->width > 0 &&
           p->height > 0 && p->width <= 1 << 15 && p->height <= 1 << 15;
  if (option == OPTION_BGR) return n->bgr = true;
  return false;
}

static bool read_draw_option(int option, draw_wishes *d) {
  char end;
  if (option == OPTION_DRAW) return draw_read(optarg, d);
  if (option == OPTION_DRAW_OUTPUT) return (d->output = optarg) != NULL;
  d->has_threshold = true;
  return sscanf(optarg, "%lf%c", &d->threshold, &end) == 1;
}

static bool read_option(int option, run_wishes *w) {
  char end;
  switch (option) {
  case 'i':
    if (w->num_inputs == RUN_INPUTS) return false;
    w->inputs[w->num_inputs++] = optarg;
    return true;
  case OPTION_SHAPE:
    if (w->num_shapes == RUN_INPUTS) return false;
    w->shapes[w->num_shapes++] = optarg;
    return true;
  case 'o':
    return (w->output_dir = optarg) != NULL;
  case 'd':
    return (w->device = optarg) != NULL;
  case OPTION_COMPARE:
    return (w->compare = optarg) != NULL;
  case OPTION_TOLERANCE:
    return sscanf(optarg, "%lf%c", &w->tolerance, &end) == 1 && w->tolerance >= 0;
  case OPTION_MATH:
    return read_math(optarg, &w->math);
  case OPTION_REPEAT:
    return read_count(optarg, &w->repeat);
  case OPTION_PROFILE:
    return (w->profile = optarg) != NULL;
  case OPTION_TOP:
    return read_count(optarg, &w->top);
  case OPTION_LABELS:
    return (w->labels = optarg) != NULL;
  case OPTION_LIST:
    return w->list = true;
  case OPTION_OPERATORS:
    return w->list_operators = true;
  case OPTION_BY_NODE:
    return w->by_node = true;
  case OPTION_ROW_MAJOR:
    return w->row_major = true;
  case OPTION_DRAW:
  case OPTION_DRAW_OUTPUT:
  case OPTION_THRESHOLD:
    return read_draw_option(option, &w->draw);
  default:
    return read_picture_option(option, &w->picture);
  }
}

/* false: the command is over, *status being its exit status. */
static bool read_wishes(int argc, char **argv, run_wishes *w, int *status) {
  *w = (run_wishes){
      .repeat = 1, .tolerance = 1e-3, .picture.norm = {.scale = 1.0 / 255, .std = {1, 1, 1}}};
  *status = EXIT_USAGE;
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, "i:o:d:h", options, NULL)) != -1;) {
    if (option == 'h') {
      fputs(help_run, stdout);
      *status = EXIT_OK;
      return false;
    }
    if (option == '?') return fputs(help_run, stderr), false;
    if (read_option(option, w)) continue;
    if (option == OPTION_DRAW) return false;
    fprintf(stderr, "tenon run: %s is not what the option before it takes; see tenon run --help\n",
            optarg ? plain(optarg) : "an option");
    return false;
  }
  if (w->labels && !w->top) w->top = 5;
  const char *misfit = w->draw.kind && w->list ? "--list runs nothing that --draw could draw"
                                               : draw_misfit(&w->draw);
  if (misfit) return fprintf(stderr, "tenon run: %s\n", misfit), false;
  if (w->list_operators) return true;
  if (argc - optind != 1) return fputs(help_run, stderr), false;
  w->model = argv[optind];
  return true;
}

/* --- inputs --- */

/* The text behind "NAME=", where NAME is this input; or, without a name, the next in order. */
static const char *text_for(const char *const *list, int count, const tn_onnx_value *input,
                            size_t place) {
  size_t length = strlen(input->name), nameless = 0;
  for (int i = 0; i < count; i++)
    if (!strncmp(list[i], input->name, length) && list[i][length] == '=')
      return list[i] + length + 1;
  for (int i = 0; i < count; i++)
    if (!strchr(list[i], '=') && nameless++ == place) return list[i];
  return NULL;
}

/* Open sizes are 1, unless --shape says otherwise. */
static bool input_shape(const run_wishes *w, const tn_onnx_value *input, size_t place,
                        int32_t *rank, int64_t *shape) {
  const char *text = text_for(w->shapes, w->num_shapes, input, place);
  *rank = input->rank == TN_RANK_OPEN ? 0 : input->rank;
  for (int32_t i = 0; i < *rank && i < TN_MAX_RANK; i++)
    shape[i] = input->shape[i] == TN_SIZE_OPEN ? 1 : input->shape[i];
  if (!text) return true;
  *rank = 0;
  for (char *end; *text; text = *end ? end + 1 : end) {
    if (*rank == TN_MAX_RANK) return false;
    shape[*rank] = strtoll(text, &end, 10);
    if (end == text || shape[(*rank)++] < 0 || (*end && *end != 'x' && *end != ',')) return false;
  }
  return true;
}

/* Uniform numbers: floats from 0 to 1, integers 0 and 1, which are indices that most tables have.
 */
static tn_tensor *random_input(tn_device *device, const run_wishes *w, const tn_onnx_value *input,
                               size_t place) {
  int64_t shape[TN_MAX_RANK] = {0};
  int32_t rank;
  tn_tensor *x = NULL, *low = NULL, *y = NULL;
  tn_cast_attrs to = {.struct_size = sizeof to, .dtype = input->dtype ? input->dtype : TN_F32};
  bool is_float = TN_SET(to.dtype) & (TN_SET_FLOAT | TN_SET_F8);
  if (!input_shape(w, input, place, &rank, shape)) {
    fprintf(stderr, "tenon run: --shape of input %s: sizes with x between, as 1x3x224x224\n",
            plain(input->name));
    return NULL;
  }
  tn_uniform_attrs uniform = {
      .struct_size = sizeof uniform, .low = 0, .high = is_float ? 1 : 2, .seed = 1 + place};
  if (tn_tensor_empty(device, TN_F32, rank, shape, &x) || tn_uniform(NULL, x, &uniform) ||
      (is_float ? TN_OK : tn_floor(NULL, x, &low)) || tn_cast(NULL, low ? low : x, &to, &y)) {
    fprintf(stderr, "tenon run: input %s: %s\n", plain(input->name), plain(tn_last_error()));
  }
  tn_tensor_release(x);
  tn_tensor_release(low);
  return y;
}

static bool is_picture(const char *path) {
  const char *dot = strrchr(path, '.');
  static const char *const kinds[] = {".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"};
  for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(dot, kinds[i])) return true;
  return false;
}

static tn_tensor *make_input(tn_device *device, const run_wishes *w, const tn_onnx_value *input,
                             size_t place) {
  const char *path = text_for(w->inputs, w->num_inputs, input, place);
  tn_cast_attrs to = {.struct_size = sizeof to, .dtype = input->dtype};
  if (!path) return random_input(device, w, input, place);
  bool drawn = is_picture(path);
  tn_tensor *y = NULL,
            *x = drawn ? run_picture(device, path, input, &w->picture) : run_load(device, path);
  if (!x || !input->dtype || tn_tensor_dtype(x) == input->dtype) return x;
  /* What NumPy has not goes to files and comes from them as float32. */
  const bool foreign = TN_SET(input->dtype) & (TN_SET(TN_BF16) | TN_SET_F8);
  if (!drawn && (!foreign || tn_tensor_dtype(x) != TN_F32)) return x;
  if (tn_cast(NULL, x, &to, &y)) fprintf(stderr, "tenon run: %s\n", plain(tn_last_error()));
  tn_tensor_release(x);
  return y;
}

/* --- timing --- */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct session {
  const run_wishes *wishes;
  tn_runtime *runtime;
  tn_device *device;
  tn_onnx *model;
  size_t num_in, num_out;
  tn_tensor *in[RUN_INPUTS], **out;
  const char *picture; /* the first input's that is one, and its place */
  size_t picture_at;
  double load_ms, first_ms;
} session;

/* One run, outputs being new; its milliseconds, or -1. */
static double run_once(session *s) {
  for (size_t i = 0; i < s->num_out; i++) {
    tn_tensor_release(s->out[i]);
    s->out[i] = NULL;
  }
  double begin = now_ms();
  if (tn_onnx_run(s->model, NULL, s->num_in, (const tn_tensor *const *)s->in, s->num_out, s->out)) {
    fprintf(stderr, "tenon run: %s\n", plain(tn_onnx_last_error()));
    return -1;
  }
  if (tn_device_synchronize(s->device)) {
    fprintf(stderr, "tenon run: %s\n", plain(tn_last_error()));
    return -1;
  }
  return now_ms() - begin;
}

static bool run_repeatedly(session *s) {
  int repeat = s->wishes->repeat;
  double *times = calloc((size_t)repeat, sizeof *times);
  bool ok = times;
  for (int i = 0; i < repeat && ok; i++) {
    ok = (times[i] = run_once(s)) >= 0;
    progress_show("%d of %d runs", i + 1, repeat);
  }
  progress_clear();
  if (ok) {
    qsort(times, (size_t)repeat, sizeof *times, by_size);
    printf("%d runs: median %.3f ms, p99 %.3f ms, fastest %.3f ms\n", repeat, times[repeat / 2],
           times[(int)ceil(0.99 * repeat) - 1], times[0]);
  }
  free(times);
  return ok;
}

static void print_costs(session *s) {
  tn_onnx_info info = {.struct_size = sizeof info};
  tn_program_info program = {.struct_size = sizeof program};
  tn_memory_stats memory = {.struct_size = sizeof memory};
  if (tn_onnx_report(s->model, &info)) return;
  printf("load %.1f ms, build %.1f ms, compile %.1f ms, first run with both %.1f ms\n", s->load_ms,
         (double)info.build_ns / 1e6, (double)info.compile_ns / 1e6, s->first_ms);
  if (info.by_node)
    printf("runs go node by node: %s\n", plain(info.by_node_reason));
  else if (!tn_onnx_program_report(s->model, &program))
    printf("%u calls for %u nodes: %llu computed while building, %u while compiling, %llu joined, "
           "%u fused, %u merged, %u fall back; %.1f MB planned\n",
           program.nodes, info.nodes, (unsigned long long)info.folded, program.folded,
           (unsigned long long)info.joined, program.fused, program.merged, program.fallbacks,
           (double)program.planned_bytes / 1e6);
  if (!tn_device_memory_stats(s->device, &memory))
    printf("memory of the device: %.1f MB at the most, weights %.1f MB\n",
           (double)memory.peak_reserved / 1e6, (double)info.weight_bytes / 1e6);
}

/* --- the command --- */

static void show_progress(void *user, uint64_t done, uint64_t all) {
  (void)user;
  progress_show("reading weights: %.0f of %.0f MB", (double)done / 1e6, (double)all / 1e6);
}

static bool session_open(session *s) {
  const run_wishes *w = s->wishes;
  tn_runtime_options runtime = {.struct_size = sizeof runtime,
                                .device = w->device,
                                .math = w->math,
                                .layers = w->profile ? "trace" : NULL};
  if (w->profile) setenv("TENON_TRACE_FILE", w->profile, 1), setenv("TENON_TRACE_SUMMARY", "-", 1);
  if (tn_runtime_open(&runtime, &s->runtime)) {
    fprintf(stderr, "tenon run: %s\n", plain(tn_last_error()));
    return false;
  }
  s->device = tn_runtime_device(s->runtime);
  const tn_compile_options compile = {.struct_size = sizeof compile,
                                      .flags = w->row_major ? TN_COMPILE_NO_LAYOUT : 0};
  tn_onnx_options onnx = {.struct_size = sizeof onnx,
                          .compile = &compile,
                          .progress = show_progress,
                          .flags = w->by_node ? TN_ONNX_BY_NODE : 0};
  double begin = now_ms();
  progress_begin(true);
  tn_status status = tn_onnx_load(s->runtime, s->device, w->model, &onnx, &s->model);
  progress_clear();
  if (status) fprintf(stderr, "tenon run: %s: %s\n", plain(w->model), plain(tn_onnx_last_error()));
  s->load_ms = now_ms() - begin;
  return !status;
}

static bool session_inputs(session *s) {
  tn_onnx_value v = {.struct_size = sizeof v};
  s->num_in = tn_onnx_num_inputs(s->model);
  s->num_out = tn_onnx_num_outputs(s->model);
  s->out = calloc(s->num_out + 1, sizeof(tn_tensor *));
  if (s->num_in > RUN_INPUTS || !s->out) {
    fprintf(stderr, "tenon run: a model of %zu inputs; %d are taken\n", s->num_in, RUN_INPUTS);
    return false;
  }
  for (size_t i = 0; i < s->num_in; i++) {
    if (tn_onnx_input_at(s->model, i, &v)) return false;
    if (v.unserved) {
      fprintf(stderr, "tenon run: input %s is %s\n", plain(v.name), v.unserved);
      return false;
    }
    s->in[i] = make_input(s->device, s->wishes, &v, i);
    if (!s->in[i]) return false;
    const char *path = text_for(s->wishes->inputs, s->wishes->num_inputs, &v, i);
    if (path && !s->picture && is_picture(path)) s->picture = path, s->picture_at = i;
    printf("input %s: ", plain(v.name));
    run_print_shape(s->in[i]);
    puts(path ? "" : ", random");
  }
  return true;
}

/* A name as a file's: no folders. */
static void file_name(const char *name, char *to, size_t room) {
  snprintf(to, room, "%s", name);
  for (char *c = to; *c; c++)
    if (*c == '/' || *c == ':' || (unsigned char)*c < ' ') *c = '_';
}

static bool write_outputs(session *s) {
  const char *folder = s->wishes->output_dir;
  tn_onnx_value v = {.struct_size = sizeof v};
  char path[4096], name[300];
  if (!folder) return true;
  mkdir(folder, 0777);
  for (size_t i = 0; i < s->num_out; i++) {
    if (tn_onnx_output_at(s->model, i, &v)) return false;
    file_name(v.name, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    if (!run_save_npy(s->out[i], path)) return false;
    snprintf(path, sizeof path, "%s/output_%zu.pb", folder, i);
    if (tn_onnx_tensor_save(s->out[i], v.name, path)) {
      fprintf(stderr, "tenon run: %s\n", plain(tn_onnx_last_error()));
      return false;
    }
  }
  return true;
}

static void print_outputs(session *s) {
  tn_onnx_value v = {.struct_size = sizeof v};
  for (size_t i = 0; i < s->num_out && !tn_onnx_output_at(s->model, i, &v); i++) {
    printf("output %s: ", plain(v.name));
    run_print_shape(s->out[i]);
    putchar('\n');
    if (s->wishes->top && !i) run_print_top(s->out[i], s->wishes->labels, s->wishes->top);
  }
}

static bool draw(session *s) {
  const draw_source source = {.model = s->model,
                              .out = s->out,
                              .num_out = s->num_out,
                              .picture = s->picture,
                              .input = s->in[s->picture_at],
                              .norm = &s->wishes->picture.norm,
                              .labels = s->wishes->labels};
  return run_draw(&s->wishes->draw, &source);
}

static int session_run(session *s) {
  if (s->wishes->list) return run_list(s->model);
  if (!session_inputs(s) || (s->first_ms = run_once(s)) < 0) return EXIT_FAILED;
  print_costs(s);
  if (s->wishes->repeat > 1 && !run_repeatedly(s)) return EXIT_FAILED;
  print_outputs(s);
  run_print_fallbacks(s->runtime, s->device);
  bool ok = write_outputs(s);
  if (s->wishes->draw.kind) ok = draw(s) && ok;
  if (s->wishes->compare)
    ok = run_compare(s->model, s->out, s->wishes->compare, s->wishes->tolerance) && ok;
  return ok ? EXIT_OK : EXIT_FAILED;
}

int command_run(int argc, char **argv) {
  run_wishes wishes;
  int status;
  if (!read_wishes(argc, argv, &wishes, &status)) return status;
  if (wishes.list_operators) return run_list_operators();
  session s = {.wishes = &wishes};
  status = session_open(&s) ? session_run(&s) : EXIT_FAILED;
  for (size_t i = 0; i < RUN_INPUTS; i++) tn_tensor_release(s.in[i]);
  for (size_t i = 0; i < s.num_out && s.out; i++) tn_tensor_release(s.out[i]);
  free(s.out);
  tn_onnx_close(s.model);
  tn_runtime_close(s.runtime);
  return status;
}
