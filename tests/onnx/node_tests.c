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

#include "tools/onnx/node.h"

/* One of ONNX's cases: a folder of a model with (mostly) one node, its inputs, and the outputs
 * expected. */
typedef struct node_case {
  onnx_node node;
  onnx_tensor want[NODE_TENSORS];
} node_case;

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

static void tensor_load(const char *folder, const char *kind, int i, onnx_tensor *to) {
  char path[1024];
  size_t size = 0;
  snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, kind, i);
  void *data = file_read(path, &size);
  Onnx__Tensor *t = data ? onnx__tensor__unpack(NULL, size, data) : NULL;
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
  const onnx_tensor *want = &c->want[i];
  const tn_tensor *y = c->node.y[i];
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
    char text[200];
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
  const Onnx__Node *node = c->node.node;
  for (int i = 0, file = 0; i < c->node.num_in; i++)
    if (*node->input[i]) tensor_load(folder, "input", file++, &c->node.in[i]);
  for (int i = 0, file = 0; i < c->node.num_out; i++)
    if (*node->output[i]) tensor_load(folder, "output", file++, &c->want[i]);
}

/* Whether outputs are tensors of types and ranks that Tenon has. */
static bool is_expressible(node_case *c) {
  for (int i = 0; i < NODE_TENSORS; i++)
    if (c->want[i].present && (!c->want[i].dtype || c->want[i].rank > TN_MAX_RANK))
      return node_cannot(&c->node, "a tensor of a type or rank that Tenon lacks"), false;
  if (!c->want[0].present) return node_cannot(&c->node, "outputs that are no tensors"), false;
  return true;
}

static bool fits_device(const onnx_tensor *t) {
  return t->present && t->dtype && t->rank <= TN_MAX_RANK;
}

static tn_status run_node(node_case *c) {
  onnx_node *n = &c->node;
  const char *op;
  tn_status status = TN_OK;
  if (n->node->op_type && onnx_adapter_find(NULL, n->node->op_type, 21, &op) && !is_expressible(c))
    return TN_OK;
  for (int i = 0; i < n->num_in && status == TN_OK; i++)
    if (fits_device(&n->in[i]))
      status = tn_tensor_from_host(n->device, n->in[i].dtype, n->in[i].rank, n->in[i].shape,
                                   n->in[i].data, &n->x[i]);
  return status == TN_OK ? node_run(n) : status;
}

static void free_tensors(node_case *c) {
  for (int i = 0; i < NODE_TENSORS; i++) {
    free(c->node.in[i].data);
    free(c->want[i].data);
    tn_tensor_release(c->node.x[i]);
    tn_tensor_release(c->node.y[i]);
  }
}

typedef struct totals {
  int passed, failed, skipped;
  reasons reasons;
} totals;

static void judge(const node_case *c, const char *name, tn_status status, totals *t) {
  char why[300];
  const char *cannot = c->node.cannot;
  bool ok = status == TN_OK;
  if (ok && *cannot) {
    t->skipped++;
    reason_add(&t->reasons, cannot);
    return;
  }
  if (!ok) snprintf(why, sizeof why, "%s", *cannot ? cannot : tn_last_error());
  for (int i = 0; ok && i < c->node.num_out; i++)
    if (c->want[i].present) ok = output_matches(c, i, why, sizeof why);
  if (!ok) printf("FAIL %s (%s): %s\n", name, c->node.node->op_type, why);
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
  node_case c = {0};
  tn_status status = TN_OK;
  if (!model || !model->graph || model->graph->n_node != 1) {
    node_cannot(&c.node, model ? "a graph of several nodes" : "no model that can be read");
  } else {
    node_begin(&c.node, model->graph->node[0], runtime, device);
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
