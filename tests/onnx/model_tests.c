/*
 * Cases that the ONNX project publishes, as Debian's libonnx-testdata brings them, through the
 * library: each folder has a model, inputs and the outputs expected. Cases that are known to fail
 * stand in a list with their reasons; one that is listed and passes is a failure too, so that the
 * list never says more than is so.
 *
 *   model_tests DEVICE LIST [every=N] [by-node] [only=TEXT] FOLDER...
 * FOLDER has one folder per case. every=N takes every Nth case; by-node runs without a program;
 * only=TEXT takes those whose names have the text, and says more.
 */
#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/common/float8.h"
#include "tenon/onnx.h"
#include "tools/onnx/node.h"

enum { MOST = 64, ROOM = 1000 };

/* ONNX's own runner takes 1e-3; the outputs are float32 results of NumPy. */
static const double RELATIVE = 2e-5, ABSOLUTE = 2e-6, HALF_RELATIVE = 2e-3;

typedef struct session {
  tn_runtime *runtime;
  tn_device *device;
  tn_onnx_options options;
  const char *only;
  int every, at;
  char (*list)[2][200]; /* patterns and reasons */
  bool *met;
  int listed;
  int passed, failed, expected, by_node;
  double relative;
} session;

/* ---------------------------------------------------------------- the files --- */

static void *file_read(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void *data = malloc(*size + 1);
  if (fread(data, 1, *size, file) != *size) *size = 0;
  fclose(file);
  return data;
}

/* A tensor of a data set; one that is not there, or no tensor, is not present. */
static void tensor_load(const char *folder, const char *kind, size_t i, onnx_tensor *to) {
  char path[1200];
  size_t size = 0;
  snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, kind, i);
  void *data = file_read(path, &size);
  Onnx__Tensor *t = data ? onnx__tensor__unpack(NULL, size, data) : NULL;
  *to = (onnx_tensor){0};
  if (t) onnx_tensor_take(t, to);
  if (t) onnx__tensor__free_unpacked(t, NULL);
  free(data);
}

/* ------------------------------------------------------------------ judging --- */

static double half_value(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent == 0 ? ldexp(fraction, -24)
                             : ldexp(1024 + fraction, exponent - 25);
  return h >> 15 ? -v : v;
}

static double value_at(tn_dtype dtype, const void *data, int64_t i) {
  uint32_t wide;
  float single;
  switch (dtype) {
  case TN_F32:
    return (double)((const float *)data)[i];
  case TN_F64:
    return ((const double *)data)[i];
  case TN_F16:
    return half_value(((const uint16_t *)data)[i]);
  case TN_BF16:
    wide = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&single, &wide, sizeof single);
    return (double)single;
  case TN_F8_E4M3:
    return (double)f8_e4m3_to_f32(((const uint8_t *)data)[i]);
  case TN_F8_E5M2:
    return (double)f8_e5m2_to_f32(((const uint8_t *)data)[i]);
  case TN_I64:
    return (double)((const int64_t *)data)[i];
  case TN_I32:
    return ((const int32_t *)data)[i];
  case TN_I16:
    return ((const int16_t *)data)[i];
  case TN_I8:
    return ((const int8_t *)data)[i];
  default:
    return ((const uint8_t *)data)[i];
  }
}

static bool close_to(const session *s, tn_dtype dtype, double got, double want) {
  bool is_float = TN_SET(dtype) & TN_SET_FLOAT;
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (!is_float || isinf(got) || isinf(want)) return got == want;
  double relative = tn_dtype_size(dtype) == 2 ? HALF_RELATIVE : s->relative;
  return fabs(got - want) <= ABSOLUTE + relative * fabs(want);
}

/* Compares an output; writes why it differs. */
static bool output_matches(const session *s, const tn_tensor *y, const onnx_tensor *want, size_t i,
                           char *why, size_t size) {
  bool same = tn_tensor_rank(y) == want->rank && tn_tensor_dtype(y) == want->dtype;
  for (int32_t d = 0; same && d < want->rank; d++) same = tn_tensor_shape(y)[d] == want->shape[d];
  if (!same) {
    snprintf(why, size, "output %zu has another shape or type (rank %d, %s)", i, tn_tensor_rank(y),
             tn_dtype_name(tn_tensor_dtype(y)));
    return false;
  }
  void *got = malloc(tn_tensor_bytes(y) + 1);
  if (tn_tensor_to_host(y, got, tn_tensor_bytes(y)) != TN_OK)
    return snprintf(why, size, "%s", tn_last_error()), free(got), false;
  for (int64_t k = 0; same && k < want->elements; k++) {
    double a = value_at(want->dtype, got, k), b = value_at(want->dtype, want->data, k);
    same = close_to(s, want->dtype, a, b);
    if (!same)
      snprintf(why, size, "output %zu, element %lld is %.9g, not %.9g", i, (long long)k, a, b);
  }
  free(got);
  return same;
}

/* ------------------------------------------------------------------ running --- */

/* Runs one data set and compares. */
static bool set_passes(session *s, tn_onnx *model, const char *folder, char *why, size_t size) {
  size_t num_in = tn_onnx_num_inputs(model), num_out = tn_onnx_num_outputs(model);
  tn_tensor *in[MOST] = {0}, *out[MOST] = {0};
  bool ok = num_in <= MOST && num_out <= MOST;
  if (!ok) snprintf(why, size, "too many inputs or outputs");
  for (size_t i = 0; i < num_in && ok; i++) {
    onnx_tensor x;
    tensor_load(folder, "input", i, &x);
    ok = x.dtype && x.rank <= TN_MAX_RANK &&
         !tn_tensor_from_host(s->device, x.dtype, x.rank, x.shape, x.data, &in[i]);
    if (!ok) snprintf(why, size, "input %zu is of a type that Tenon does not have", i);
    free(x.data);
  }
  if (ok && tn_onnx_run(model, NULL, num_in, (const tn_tensor *const *)in, num_out, out)) {
    ok = false;
    snprintf(why, size, "%s", tn_onnx_last_error());
  }
  for (size_t i = 0; i < num_out && ok; i++) {
    onnx_tensor want;
    tensor_load(folder, "output", i, &want);
    ok = want.present && want.dtype;
    if (!ok) snprintf(why, size, "output %zu is not what Tenon could give", i);
    ok = ok && output_matches(s, out[i], &want, i, why, size);
    free(want.data);
  }
  for (size_t i = 0; i < MOST; i++) tn_tensor_release(in[i]), tn_tensor_release(out[i]);
  return ok;
}

static bool case_passes(session *s, const char *folder, char *why, size_t size) {
  char path[1100];
  tn_onnx *model = NULL;
  bool ok = true;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  if (tn_onnx_load(s->runtime, s->device, path, &s->options, &model))
    return snprintf(why, size, "%s", tn_onnx_last_error()), false;
  for (int set = 0; ok; set++) {
    snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
    if (access(path, R_OK)) break;
    ok = set_passes(s, model, path, why, size);
  }
  tn_onnx_info info = {.struct_size = sizeof info};
  if (ok && tn_onnx_report(model, &info) == TN_OK && info.by_node &&
      !(s->options.flags & TN_ONNX_BY_NODE)) {
    s->by_node++;
    if (s->only) printf("node by node: %s: %s\n", folder, info.by_node_reason);
  }
  tn_onnx_close(model);
  return ok;
}

/* The place of a case in the list, -1 if it is not there. */
static int listed(const session *s, const char *name) {
  for (int i = 0; i < s->listed; i++)
    if (!fnmatch(s->list[i][0], name, 0)) return i;
  return -1;
}

static void run_case(session *s, const char *root, const char *name) {
  char folder[1024], why[1200] = "";
  if (s->only ? !strstr(name, s->only) : s->at++ % s->every) return;
  snprintf(folder, sizeof folder, "%s/%s", root, name);
  int place = listed(s, name);
  double relative = s->relative;
  if (place >= 0 && sscanf(s->list[place][1], "within %lf", &s->relative) == 1) {
    s->met[place] = true;
    place = -1; /* it passes, with that for a tolerance */
  }
  bool ok = case_passes(s, folder, why, sizeof why);
  s->relative = relative;
  if (place >= 0 && !ok) s->met[place] = true;
  s->passed += ok;
  s->expected += !ok && place >= 0;
  if (ok && place >= 0 && strcmp(s->list[place][0], name) == 0) {
    printf("FAIL %s passes and is listed as: %s\n", name, s->list[place][1]);
    s->failed++;
  } else if (!ok && place < 0) {
    printf("FAIL %s: %s\n", name, why);
    s->failed++;
  } else if (s->only) {
    printf("%s %s: %s\n", ok ? "ok" : "expected", name, why);
  }
}

static int run_root(session *s, const char *root) {
  struct dirent **list;
  int count = scandir(root, &list, NULL, alphasort), cases = 0;
  for (int i = 0; i < count; i++) {
    if (list[i]->d_name[0] != '.') run_case(s, root, list[i]->d_name), cases++;
    free(list[i]);
  }
  if (count >= 0) free(list);
  return cases;
}

/* Lines of a pattern and a reason, "#" before comments. */
static bool list_read(session *s, const char *path) {
  char line[420];
  FILE *file = fopen(path, "r");
  s->list = calloc(ROOM, sizeof *s->list);
  s->met = calloc(ROOM, sizeof *s->met);
  while (file && s->listed < ROOM && fgets(line, sizeof line, file))
    if (*line != '#' &&
        sscanf(line, "%199s %199[^\n]", s->list[s->listed][0], s->list[s->listed][1]) == 2)
      s->listed++;
  if (file) fclose(file);
  return file;
}

int main(int argc, char **argv) {
  session s = {.every = 1, .relative = RELATIVE, .options = {.struct_size = sizeof s.options}};
  int cases = 0;
  if (argc < 4 || !list_read(&s, argv[2]))
    return fprintf(stderr, "usage: model_tests DEVICE LIST [every=N] [by-node] [only=TEXT] "
                           "FOLDER...\n"),
           2;
  if (tn_runtime_open(NULL, &s.runtime) != TN_OK ||
      tn_device_find(s.runtime, argv[1], &s.device) != TN_OK)
    return fprintf(stderr, "%s\n", tn_last_error()), 1;
  for (int i = 3; i < argc; i++)
    if (!strcmp(argv[i], "by-node"))
      s.options.flags = TN_ONNX_BY_NODE;
    else if (!strncmp(argv[i], "only=", 5))
      s.only = argv[i] + 5;
    else if (!strncmp(argv[i], "relative=", 9))
      s.relative = atof(argv[i] + 9);
    else if (sscanf(argv[i], "every=%d", &s.every) != 1)
      cases += run_root(&s, argv[i]);
  tn_runtime_close(s.runtime);
  for (int i = 0; i < s.listed; i++)
    if (!s.met[i] && s.every == 1 && !s.only && cases > 500) {
      printf("FAIL nothing fails as listed: %s %s\n", s.list[i][0], s.list[i][1]);
      s.failed++;
    }
  free(s.list), free(s.met);
  if (!cases) return printf("skipped: no cases of ONNX's here\n"), 77;
  printf("%s: %d passed (%d of them node by node), %d failed, %d fail as listed\n", argv[1],
         s.passed, s.by_node, s.failed, s.expected);
  return s.failed != 0;
}
