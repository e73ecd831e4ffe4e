/*
 * The operator tests that the ONNX project publishes, as Debian's libonnx-testdata brings
 * them: every folder whose node Tenon can express runs on one device, and its outputs
 * are held against those expected. What cannot be expressed is counted by reason, so
 * that a case never vanishes unseen.
 *
 *   node_tests FOLDER DEVICE LEAST
 * FOLDER holds the node tests; fewer than LEAST cases passed is a failure too.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_case.h"

/* ONNX's own runner takes 1e-3; the outputs are float32 results of NumPy. */
static const double RELATIVE = 2e-5, ABSOLUTE = 2e-6, HALF_RELATIVE = 2e-3;

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

static tn_dtype dtype_of(int32_t onnx) {
  switch (onnx) {
  case 1:
    return TN_F32;
  case 2:
    return TN_U8;
  case 3:
    return TN_I8;
  case 5:
    return TN_I16;
  case 6:
    return TN_I32;
  case 7:
    return TN_I64;
  case 9:
    return TN_BOOL;
  case 10:
    return TN_F16;
  case 11:
    return TN_F64;
  case 16:
    return TN_BF16;
  default:
    return TN_DTYPE_NONE;
  }
}

/* Element i of a tensor whose numbers lie in a typed list. */
static void put_listed(const Onnx__Tensor *t, host_tensor *to, int64_t i) {
  char *at = (char *)to->data + (size_t)i * tn_dtype_size(to->dtype);
  if (t->n_float_data) memcpy(at, &t->float_data[i], 4);
  if (t->n_double_data) memcpy(at, &t->double_data[i], 8);
  if (t->n_int64_data) memcpy(at, &t->int64_data[i], 8);
  if (t->n_int32_data) memcpy(at, &t->int32_data[i], tn_dtype_size(to->dtype)); /* low bytes */
}

/* Whether the message is a tensor with all its numbers: sequences are read as one too. */
static bool is_whole(const Onnx__Tensor *t, const host_tensor *to) {
  size_t listed = t->n_float_data + t->n_double_data + t->n_int64_data + t->n_int32_data;
  size_t bytes = (size_t)to->elements * tn_dtype_size(to->dtype);
  return to->rank <= 16 && to->dtype &&
         (t->has_raw_data ? t->raw_data.len == bytes : listed == (size_t)to->elements);
}

static void tensor_take(const Onnx__Tensor *t, host_tensor *to) {
  *to = (host_tensor){.present = true, .dtype = dtype_of(t->data_type), .elements = 1};
  to->rank = (int32_t)t->n_dims;
  bool sane = true; /* another message read as a tensor may have any sizes */
  for (int32_t i = 0; i < to->rank && i < 16; i++) {
    to->shape[i] = t->dims[i];
    sane = sane && t->dims[i] >= 0 && t->dims[i] < 1 << 24 && to->elements < 1 << 24;
    to->elements = sane ? to->elements * t->dims[i] : 0;
  }
  size_t bytes = (size_t)to->elements * tn_dtype_size(to->dtype);
  if (!sane || !is_whole(t, to)) {
    to->dtype = TN_DTYPE_NONE;
    return;
  }
  to->data = calloc(bytes + 1, 1);
  if (t->has_raw_data && bytes)
    memcpy(to->data, t->raw_data.data, bytes);
  else
    for (int64_t i = 0; i < to->elements; i++) put_listed(t, to, i);
}

static void tensor_load(const char *folder, const char *kind, int i, host_tensor *to) {
  char path[1024];
  size_t size = 0;
  snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, kind, i);
  void *data = file_read(path, &size);
  Onnx__Tensor *t = data ? onnx__tensor__unpack(NULL, size, data) : NULL;
  if (t) tensor_take(t, to);
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

static bool close_to(tn_dtype dtype, double got, double want) {
  bool is_float = TN_SET(dtype) & TN_SET_FLOAT;
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (!is_float || isinf(got) || isinf(want)) return got == want;
  double relative = tn_dtype_size(dtype) == 2 ? HALF_RELATIVE : RELATIVE;
  return fabs(got - want) <= ABSOLUTE + relative * fabs(want);
}

/* Compares output i; writes why it differs. */
static bool output_matches(const node_case *c, int i, char *why, size_t size) {
  const host_tensor *want = &c->want[i];
  const tn_tensor *y = c->y[i];
  if (!y) return snprintf(why, size, "output %d is missing", i), false;
  bool same = tn_tensor_rank(y) == want->rank && tn_tensor_dtype(y) == want->dtype;
  for (int32_t d = 0; same && d < want->rank; d++) same = tn_tensor_shape(y)[d] == want->shape[d];
  if (!same) {
    snprintf(why, size, "output %d has another shape or type (rank %d, %s)", i, tn_tensor_rank(y),
             tn_dtype_name(tn_tensor_dtype(y)));
    return false;
  }
  void *got = malloc(tn_tensor_bytes(y) + 1);
  if (tn_tensor_to_host(y, got, tn_tensor_bytes(y)) != TN_OK)
    return snprintf(why, size, "%s", tn_last_error()), free(got), false;
  for (int64_t k = 0; same && k < want->elements; k++) {
    double a = value_at(want->dtype, got, k), b = value_at(want->dtype, want->data, k);
    same = close_to(want->dtype, a, b);
    if (!same)
      snprintf(why, size, "output %d, element %lld is %.9g, not %.9g", i, (long long)k, a, b);
  }
  free(got);
  return same;
}

/* ------------------------------------------------------------------ running --- */

/* How often each reason to skip came up. */
typedef struct reasons {
  struct {
    char text[160];
    int count;
  } list[400];
  int count;
} reasons;

static void reason_add(reasons *r, const char *text) {
  int i = 0;
  while (i < r->count && strcmp(r->list[i].text, text)) i++;
  if (i == 400) return;
  if (i == r->count) snprintf(r->list[r->count++].text, sizeof r->list[i].text, "%s", text);
  r->list[i].count++;
}

static void load_tensors(node_case *c, const char *folder) {
  c->num_in = (int)c->node->n_input;
  c->num_out = (int)c->node->n_output;
  for (int i = 0, file = 0; i < c->num_in && i < NODE_TENSORS; i++)
    if (*c->node->input[i]) tensor_load(folder, "input", file++, &c->in[i]);
  for (int i = 0, file = 0; i < c->num_out && i < NODE_TENSORS; i++)
    if (*c->node->output[i]) tensor_load(folder, "output", file++, &c->want[i]);
}

/* Whether all tensors are of types and ranks that Tenon has. */
static bool is_expressible(node_case *c) {
  for (int i = 0; i < NODE_TENSORS; i++) {
    const host_tensor *t[2] = {&c->in[i], &c->want[i]};
    for (int k = 0; k < 2; k++)
      if (t[k]->present && (!t[k]->dtype || t[k]->rank > TN_MAX_RANK))
        return node_skip(c, "a tensor of a type or rank that Tenon lacks"), false;
  }
  if (!c->want[0].present) return node_skip(c, "outputs that are no tensors"), false;
  return true;
}

static tn_status run_node(node_case *c) {
  const char *op = NULL;
  node_adapter adapter = node_adapter_find(c->node->op_type, &op);
  tn_status status = TN_OK;
  if (!adapter) return node_skip(c, "ONNX operator %s has no adapter", c->node->op_type);
  if (!is_expressible(c)) return TN_OK;
  for (int i = 0; i < c->num_in && status == TN_OK; i++)
    if (c->in[i].present)
      status = tn_tensor_from_host(c->device, c->in[i].dtype, c->in[i].rank, c->in[i].shape,
                                   c->in[i].data, &c->x[i]);
  return status == TN_OK ? adapter(c, op) : status;
}

static void free_tensors(node_case *c) {
  for (int i = 0; i < NODE_TENSORS; i++) {
    free(c->in[i].data);
    free(c->want[i].data);
    tn_tensor_release(c->x[i]);
    tn_tensor_release(c->y[i]);
  }
}

typedef struct totals {
  int passed, failed, skipped;
  reasons reasons;
} totals;

static void judge(node_case *c, const char *name, tn_status status, totals *t) {
  char why[300];
  if (*c->skip) {
    t->skipped++;
    reason_add(&t->reasons, c->skip);
    return;
  }
  bool ok = status == TN_OK;
  if (!ok) snprintf(why, sizeof why, "%s", tn_last_error());
  for (int i = 0; ok && i < c->num_out; i++)
    if (c->want[i].present) ok = output_matches(c, i, why, sizeof why);
  if (!ok) printf("FAIL %s (%s): %s\n", name, c->node->op_type, why);
  t->passed += ok;
  t->failed += !ok;
}

static void run_folder(const char *root, const char *name, tn_runtime *runtime, tn_device *device,
                       totals *t) {
  char folder[800], path[900];
  size_t size = 0;
  snprintf(folder, sizeof folder, "%s/%s", root, name);
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  void *data = file_read(path, &size);
  Onnx__Model *model = data ? onnx__model__unpack(NULL, size, data) : NULL;
  node_case c = {.runtime = runtime, .device = device};
  tn_status status = TN_OK;
  if (!model || !model->graph || model->graph->n_node != 1) {
    node_skip(&c, model ? "a graph of several nodes" : "no model that can be read");
  } else {
    c.node = model->graph->node[0];
    load_tensors(&c, folder);
    status = run_node(&c);
  }
  judge(&c, name, status, t);
  free_tensors(&c);
  if (model) onnx__model__free_unpacked(model, NULL);
  free(data);
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: node_tests FOLDER DEVICE LEAST\n"), 2;
  struct dirent **list;
  int count = scandir(argv[1], &list, NULL, alphasort);
  if (count < 3) return printf("skipped: no ONNX operator tests in %s\n", argv[1]), 77;
  tn_runtime *runtime = NULL;
  tn_device *device = NULL;
  static totals t;
  if (tn_runtime_open(NULL, &runtime) != TN_OK ||
      tn_device_find(runtime, argv[2], &device) != TN_OK)
    return fprintf(stderr, "%s\n", tn_last_error()), 1;
  for (int i = 0; i < count; i++) {
    if (list[i]->d_name[0] != '.') run_folder(argv[1], list[i]->d_name, runtime, device, &t);
    free(list[i]);
  }
  free(list);
  for (int i = 0; i < t.reasons.count; i++)
    printf("skipped %3d: %s\n", t.reasons.list[i].count, t.reasons.list[i].text);
  printf("%s: %d passed, %d failed, %d skipped\n", argv[2], t.passed, t.failed, t.skipped);
  tn_runtime_close(runtime);
  if (t.passed < atoi(argv[3])) return printf("fewer than %s passed\n", argv[3]), 1;
  return t.failed != 0;
}
