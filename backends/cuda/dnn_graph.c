/*
 * Graphs of cuDNN's backend API; see dnn_graph.h.
 */
#include "backends/cuda/dnn_graph.h"

#include <math.h>
#include <stdio.h>

enum { address_alignment = 16, most_configs = 64 };

/* --------------------------------------------------------------- descriptors --- */

/* Notes the first failure. */
static bool check(dnn_graph *g, cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  if (g->status != CUDNN_STATUS_SUCCESS) return false;
  char words[320] = "";
  cudnnGetLastErrorString(words, sizeof words);
  g->status = status;
  (void)snprintf(g->failed, sizeof g->failed, "operation %d: %s: %s (%s)", g->num_operations, what,
                 cudnnGetErrorString(status), words);
  return false;
}

/* NULL where there is none, or something failed before. */
static cudnnBackendDescriptor_t make(dnn_graph *g, cudnnBackendDescriptorType_t type,
                                     const char *what) {
  cudnnBackendDescriptor_t made = NULL;
  if (g->status != CUDNN_STATUS_SUCCESS) return NULL;
  if (g->num_made == dnn_most_descriptors) {
    (void)check(g, CUDNN_STATUS_INTERNAL_ERROR, "too many descriptors");
    return NULL;
  }
  if (!check(g, cudnnBackendCreateDescriptor(type, &made), what)) return NULL;
  return g->made[g->num_made++] = made;
}

static void set(dnn_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values,
                const char *what) {
  if (g->status == CUDNN_STATUS_SUCCESS)
    (void)check(g, cudnnBackendSetAttribute(d, name, type, count, values), what);
}

static void set_descriptor(dnn_graph *g, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value,
                           const char *what) {
  if (value) set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

static void finalize(dnn_graph *g, cudnnBackendDescriptor_t d, const char *what) {
  if (g->status == CUDNN_STATUS_SUCCESS) (void)check(g, cudnnBackendFinalize(d), what);
}

static void add_operation(dnn_graph *g, cudnnBackendDescriptor_t operation, const char *what) {
  finalize(g, operation, what);
  if (g->status != CUDNN_STATUS_SUCCESS) return;
  if (g->num_operations == dnn_most_operations)
    (void)check(g, CUDNN_STATUS_INTERNAL_ERROR, "too many operations");
  else
    g->operation[g->num_operations++] = operation;
}

void dnn_graph_free(dnn_graph *g) {
  while (g->num_made > 0) (void)cudnnBackendDestroyDescriptor(g->made[--g->num_made]);
  g->num_operations = 0;
}

/* ------------------------------------------------------------------- tensors --- */

/* What a tensor is, besides memory's. */
typedef enum tensor_kind { IN_MEMORY, BETWEEN, NUMBER } tensor_kind;

static dnn_tensor make_tensor(dnn_graph *g, int64_t id, cudnnDataType_t type, tensor_kind kind,
                              int axes, const int64_t *size, const int64_t *stride) {
  static const int64_t alignment = address_alignment;
  static const bool yes = true;
  const char *what = "tensor";
  dnn_tensor t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
  set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, "tensor's type");
  set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, axes, size, "tensor's sizes");
  set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, axes, stride, "tensor's strides");
  set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, "tensor's id");
  set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "alignment");
  if (kind == BETWEEN)
    set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes, "virtual tensor");
  if (kind == NUMBER)
    set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes, "tensor by value");
  finalize(g, t, what);
  return t;
}

dnn_tensor dnn_graph_memory(dnn_graph *g, int64_t id, cudnnDataType_t type, int axes,
                            const int64_t *size, const int64_t *stride) {
  return make_tensor(g, id, type, IN_MEMORY, axes, size, stride);
}

dnn_tensor dnn_graph_between(dnn_graph *g, cudnnDataType_t type, int axes, const int64_t *size,
                             const int64_t *stride) {
  /* Ids are all different: these count from where those of memory never reach. */
  return make_tensor(g, 1000 + g->num_made, type, BETWEEN, axes, size, stride);
}

dnn_tensor dnn_graph_number(dnn_graph *g, int64_t id, cudnnDataType_t type) {
  static const int64_t ones[] = {1, 1, 1, 1};
  return make_tensor(g, id, type, NUMBER, 4, ones, ones);
}

/* ---------------------------------------------------------------- operations --- */

/* What pointwise operations and indexes share. `axis` is an index's, or NULL, `most` the bound of a
 * relu that has one, or NULL. */
static void add_pointwise(dnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                          const int64_t *axis, const double *most, const dnn_tensor in[3],
                          dnn_tensor y) {
  static const float one = 1;
  char what[48];
  (void)snprintf(what, sizeof what, "pointwise mode %d", (int)mode);
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
  set(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, what);
  set(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
  if (axis) set(g, d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, axis, what);
  if (most) set(g, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, most, what);
  finalize(g, d, what);
  cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in[0], what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, in[1], what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, in[2], what);
  set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one, what);
  set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one, what);
  add_operation(g, op, what);
}

void dnn_graph_pointwise(dnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                         dnn_tensor x, dnn_tensor b, dnn_tensor t, dnn_tensor y) {
  add_pointwise(g, mode, compute, NULL, NULL, (const dnn_tensor[]){x, b, t}, y);
}

void dnn_graph_relu(dnn_graph *g, cudnnDataType_t compute, double most, dnn_tensor x,
                    dnn_tensor y) {
  add_pointwise(g, CUDNN_POINTWISE_RELU_FWD, compute, NULL, isinf(most) ? NULL : &most,
                (const dnn_tensor[]){x, NULL, NULL}, y);
}

void dnn_graph_index(dnn_graph *g, int64_t axis, cudnnDataType_t compute, dnn_tensor x,
                     dnn_tensor y) {
  add_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, compute, &axis, NULL,
                (const dnn_tensor[]){x, NULL, NULL}, y);
}

/* The operation and the names of its attributes. */
typedef struct conv_names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, conv, x, w, y;
} conv_names;

static conv_names names_of(dnn_conv_result result) {
  static const conv_names names[] = {
      [DNN_CONV_Y] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      [DNN_CONV_X] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      [DNN_CONV_W] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
  };
  return names[result];
}

void dnn_graph_conv(dnn_graph *g, const dnn_conv *conv, dnn_tensor x, dnn_tensor w, dnn_tensor y) {
  static const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  static const float one = 1, zero = 0;
  const int64_t axes = conv->axes;
  const char *what = "convolution";
  const conv_names n = names_of(conv->result);
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &conv->compute, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, conv->stride, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, conv->padding, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, conv->padding, what);
  set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, conv->dilation, what);
  finalize(g, d, what);
  cudnnBackendDescriptor_t op = make(g, n.type, what);
  set(g, op, n.alpha, CUDNN_TYPE_FLOAT, 1, &one, what);
  set(g, op, n.beta, CUDNN_TYPE_FLOAT, 1, &zero, what);
  set_descriptor(g, op, n.conv, d, what);
  set_descriptor(g, op, n.x, x, what);
  set_descriptor(g, op, n.w, w, what);
  set_descriptor(g, op, n.y, y, what);
  add_operation(g, op, what);
}

void dnn_graph_matmul(dnn_graph *g, dnn_tensor a, dnn_tensor b, dnn_tensor c, dnn_tensor rows,
                      dnn_tensor columns, dnn_tensor inner) {
  static const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const char *what = "matmul";
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
  set(g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
  finalize(g, d, what);
  cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, d, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, rows, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, columns, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, inner, what);
  add_operation(g, op, what);
}

void dnn_graph_reduce(dnn_graph *g, cudnnReduceTensorOp_t mode, dnn_tensor x, dnn_tensor y) {
  static const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const char *what = "reduction";
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
  set(g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
  set(g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode, what);
  finalize(g, d, what);
  cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, what);
  add_operation(g, op, what);
}

void dnn_graph_reshape(dnn_graph *g, dnn_tensor x, dnn_tensor y) {
  const char *what = "reshape";
  cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, what);
  set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, what);
  add_operation(g, op, what);
}

/* --------------------------------------------------------------------- plans --- */

static cudnnBackendDescriptor_t make_graph(dnn_graph *g, cudnnHandle_t handle) {
  const char *what = "graph of operations";
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
  set(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->num_operations,
      g->operation, what);
  set(g, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, what);
  finalize(g, d, what);
  return d;
}

/* What a configuration's engine says of itself: its number, -1 where cuDNN does not say, and its
 * notes, all of them where it does not. */
static void ask_engine(cudnnBackendDescriptor_t config, dnn_plan *plan) {
  cudnnBackendDescriptor_t engine = NULL;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t got = 0;
  plan->engine = -1;
  plan->notes = UINT32_MAX;
  if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
      CUDNN_STATUS_SUCCESS)
    return;
  bool has =
      cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               1, &got, &engine) == CUDNN_STATUS_SUCCESS;
  if (!has || cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                       &got, &plan->engine) != CUDNN_STATUS_SUCCESS)
    plan->engine = -1;
  if (has && cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                      CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                      &got, notes) == CUDNN_STATUS_SUCCESS) {
    plan->notes = 0;
    for (int64_t i = 0; i < got && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
      plan->notes |= UINT32_C(1) << notes[i];
  }
  (void)cudnnBackendDestroyDescriptor(engine);
}

/* Takes the configuration over where a plan of it can be built. */
static bool build(dnn_graph *g, cudnnBackendDescriptor_t config, dnn_plan *out) {
  const char *what = "plan";
  cudnnBackendDescriptor_t plan = NULL;
  int64_t bytes = 0;
  bool built =
      check(g, cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan), what);
  built = built && check(g,
                         cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config),
                         "plan's configuration");
  built = built && check(g, cudnnBackendFinalize(plan), "plan's making");
  built = built && check(g,
                         cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                  CUDNN_TYPE_INT64, 1, NULL, &bytes),
                         "plan's workspace");
  if (built) {
    *out = (dnn_plan){.config = config, .plan = plan, .workspace_bytes = (size_t)bytes};
    ask_engine(config, out);
  } else if (plan) {
    (void)cudnnBackendDestroyDescriptor(plan);
  }
  return built;
}

/* The configurations that the heuristic names, best first: at most most_configs, as many as it
 * returns. They are the caller's. */
static int ask(dnn_graph *g, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
               cudnnBackendDescriptor_t *config) {
  const char *what = mode == CUDNN_HEUR_MODE_FALLBACK ? "fallback's heuristic" : "heuristic";
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
  int64_t made = 0, got = 0;
  set_descriptor(g, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, what);
  set(g, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, what);
  finalize(g, d, what);
  if (g->status != CUDNN_STATUS_SUCCESS) return 0;
  for (; made < most_configs; made++) {
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[made]);
    if (!check(g, status, what)) break;
  }
  cudnnStatus_t status = cudnnBackendGetAttribute(
      d, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &got, config);
  if (!check(g, status, what)) got = 0;
  if (got > made) got = made;
  for (; made > got; made--) (void)cudnnBackendDestroyDescriptor(config[made - 1]);
  return (int)got;
}

/* A failure here is of this heuristic only: the next may have better. */
static bool plan_by(dnn_graph *g, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                    dnn_plan *plan) {
  cudnnBackendDescriptor_t config[most_configs];
  int count = ask(g, graph, mode, config);
  bool built = false;
  for (int i = 0; i < count; i++) {
    if (!built && build(g, config[i], plan))
      built = true;
    else
      (void)cudnnBackendDestroyDescriptor(config[i]);
  }
  return built;
}

/* Whether one of the plans is by that engine. */
static bool has_engine(const dnn_plan *plans, int count, int64_t engine) {
  for (int i = 0; i < count; i++)
    if (plans[i].engine == engine) return true;
  return false;
}

/* Appends to `built` plans; `known` leaves out engines that are among them. */
static int append_plans(dnn_graph *g, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                        const dnn_limits *limits, bool known, dnn_plan *plans, int built,
                        int most) {
  cudnnBackendDescriptor_t config[most_configs];
  const int count = ask(g, graph, mode, config);
  for (int i = 0; i < count; i++) {
    dnn_plan asked;
    g->status = CUDNN_STATUS_SUCCESS; /* what one engine refuses is no matter to the next */
    ask_engine(config[i], &asked);
    const bool wanted = built < most && !(asked.notes & limits->notes) &&
                        (limits->engine < 0 || asked.engine != limits->engine) &&
                        !(known && has_engine(plans, built, asked.engine));
    if (!wanted || !build(g, config[i], &plans[built]))
      (void)cudnnBackendDestroyDescriptor(config[i]);
    else if (plans[built].workspace_bytes > limits->workspace_bytes)
      dnn_plan_destroy(&plans[built]);
    else
      built++;
  }
  g->status = CUDNN_STATUS_SUCCESS;
  return built;
}

int dnn_graph_plans(dnn_graph *g, cudnnHandle_t handle, const dnn_limits *limits, dnn_plan *plans,
                    int most) {
  cudnnBackendDescriptor_t graph = make_graph(g, handle);
  if (g->status != CUDNN_STATUS_SUCCESS) return 0;
  int built = append_plans(g, graph, CUDNN_HEUR_MODE_A, limits, false, plans, 0, most);
  if (built < most)
    built = append_plans(g, graph, CUDNN_HEUR_MODE_FALLBACK, limits, true, plans, built, most);
  return built;
}

bool dnn_graph_plan(dnn_graph *g, cudnnHandle_t handle, dnn_plan *plan) {
  cudnnBackendDescriptor_t graph = make_graph(g, handle);
  if (g->status != CUDNN_STATUS_SUCCESS) return false;
  if (plan_by(g, graph, CUDNN_HEUR_MODE_A, plan)) return true;
  const cudnnStatus_t first = g->status;
  g->status = CUDNN_STATUS_SUCCESS;
  char failed[sizeof g->failed];
  (void)snprintf(failed, sizeof failed, "%s", g->failed);
  if (plan_by(g, graph, CUDNN_HEUR_MODE_FALLBACK, plan)) return true;
  /* The better engines' reasons tell more. */
  if (first == CUDNN_STATUS_SUCCESS && g->status == CUDNN_STATUS_SUCCESS)
    (void)check(g, CUDNN_STATUS_NOT_SUPPORTED, "no engine takes the graph");
  if (first != CUDNN_STATUS_SUCCESS) (void)snprintf(g->failed, sizeof g->failed, "%s", failed);
  return false;
}

cudnnStatus_t dnn_plan_execute(const dnn_plan *plan, cudnnHandle_t handle, int count,
                               const int64_t *id, void *const *address, void *workspace) {
  cudnnBackendDescriptor_t pack = NULL;
  cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                    CUDNN_TYPE_VOID_PTR, count, address);
  if (status == CUDNN_STATUS_SUCCESS)
    status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                      count, id);
  if (status == CUDNN_STATUS_SUCCESS)
    status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                      1, &workspace);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnBackendFinalize(pack);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnBackendExecute(handle, plan->plan, pack);
  (void)cudnnBackendDestroyDescriptor(pack);
  return status;
}

void dnn_plan_destroy(dnn_plan *plan) {
  if (plan->plan) (void)cudnnBackendDestroyDescriptor(plan->plan);
  if (plan->config) (void)cudnnBackendDestroyDescriptor(plan->config);
  plan->plan = plan->config = NULL;
}
