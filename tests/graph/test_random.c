/*
 * Random graphs: the same steps, drawn from a seed, are made on symbolic tensors and on real ones,
 * and every run of the programs gives what the calls give, updated parameters included. They are
 * compiled as they are called, simplified without a bit's difference, and fused.
 */
#include "tests/graph/graphs.h"

enum { TENSORS = 64, INPUTS = 3, PARAMETERS = 2, OUTPUTS = 3, STEPS = 24, RUNS = 3, WAYS = 3 };

static const uint32_t ways[WAYS] = {0, TN_COMPILE_NO_FUSION, TN_COMPILE_AS_CALLED};

typedef struct draws {
  uint64_t state;
} draws;

static uint32_t draw(draws *d, uint32_t below) {
  d->state = d->state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(d->state >> 33) % below;
}

/* The tensors so far: of the steps on one device. */
typedef struct tensors {
  tn_tensor *at[TENSORS];
  bool constant[TENSORS]; /* an input or a view of one: may not be written */
  uint32_t count;
} tensors;

static void keep(tensors *t, tn_status status, tn_tensor *made, bool constant) {
  if (status || !made) return;
  if (t->count == TENSORS) {
    tn_tensor_release(made);
    return;
  }
  t->constant[t->count] = constant;
  t->at[t->count++] = made;
}

static bool alike(const tn_tensor *a, const tn_tensor *b) {
  return tn_tensor_rank(a) == tn_tensor_rank(b) &&
         !memcmp(tn_tensor_shape(a), tn_tensor_shape(b),
                 (size_t)tn_tensor_rank(a) * sizeof(int64_t));
}

/* One of x's shape, x itself where there is no other. */
static uint32_t draw_alike(draws *d, const tensors *t, uint32_t x) {
  for (int tries = 0; tries < 20; ++tries) {
    uint32_t y = draw(d, t->count);
    if (alike(t->at[x], t->at[y])) return y;
  }
  return x;
}

static void view(draws *d, tensors *t, uint32_t i) {
  const tn_tensor *x = t->at[i];
  int32_t rank = tn_tensor_rank(x), axis = rank ? (int32_t)draw(d, (uint32_t)rank) : 0;
  int64_t size = rank ? tn_tensor_shape(x)[axis] : 1, begin = draw(d, (uint32_t)size + 1);
  int32_t axes[TN_MAX_RANK];
  tn_tensor *y = NULL;
  tn_status status = TN_OK;
  for (int32_t k = 0; k < rank; ++k) axes[k] = (k + 1) % rank;
  switch (draw(d, 5)) {
  case 0:
    status = tn_tensor_permute(x, axes, &y);
    break;
  case 1:
    if (rank) status = tn_tensor_slice(x, axis, begin, size, 1 + draw(d, 2), &y);
    break;
  case 2:
    status = tn_tensor_reshape(x, 1, SHAPE(-1), &y);
    break;
  case 3:
    if (rank && size) status = tn_tensor_select(x, axis, draw(d, (uint32_t)size), &y);
    break;
  default:
    if (rank < 4) status = tn_tensor_unsqueeze(x, axis, &y);
  }
  keep(t, status, y, t->constant[i]);
}

/* Into a tensor that is there: a given output, the input itself, or an update. */
static void write(draws *d, tensors *t, uint32_t i) {
  uint32_t k = draw_alike(d, t, i), way = draw(d, 4);
  tn_tensor *y = t->at[k];
  tn_fill_attrs fill = TN_FILL_DEFAULTS;
  fill.value = (double)draw(d, 7) - 3;
  if (t->constant[k]) return;
  if (way == 0) (void)tn_tanh(NULL, t->at[i], &y);
  if (way == 1) (void)tn_add(NULL, t->at[i], y, &y);
  if (way == 2) (void)tn_fill(NULL, y, &fill);
  if (way == 3) (void)tn_copy(NULL, t->at[i], &y);
}

static void reduce(draws *d, tensors *t, uint32_t i) {
  int32_t rank = tn_tensor_rank(t->at[i]);
  tn_sum_attrs sum = TN_SUM_DEFAULTS;
  tn_softmax_attrs softmax = TN_SOFTMAX_DEFAULTS;
  tn_tensor *y = NULL;
  if (rank) {
    sum.axes.count = 1;
    sum.axes.axis[0] = (int32_t)draw(d, (uint32_t)rank);
    sum.keepdims = (int32_t)draw(d, 2);
  }
  uint32_t way = draw(d, 3);
  tn_status status = TN_ERR_UNSUPPORTED;
  if (way == 0) status = tn_sum(NULL, t->at[i], &sum, &y);
  if (way == 1) status = tn_max(NULL, t->at[i], NULL, &y);
  if (way == 2 && rank) status = tn_softmax(NULL, t->at[i], &softmax, &y);
  keep(t, status, y, false);
}

/* A part of a new tensor is written, then the whole is read. */
static void fill_parts(tensors *t, uint32_t i, tn_device *on) {
  const tn_tensor *x = t->at[i];
  tn_tensor *whole = NULL, *part = NULL;
  if (!tn_tensor_rank(x) || tn_tensor_rank(x) > 3) return;
  int64_t shape[TN_MAX_RANK];
  memcpy(shape, tn_tensor_shape(x), (size_t)tn_tensor_rank(x) * sizeof *shape);
  shape[0] += 2;
  ok(tn_zeros(on, NULL, TN_F32, tn_tensor_rank(x), shape, &whole));
  ok(tn_tensor_slice(whole, 0, 1, shape[0] - 1, 1, &part));
  ok(tn_neg(NULL, x, &part));
  tn_tensor_release(part);
  keep(t, TN_OK, whole, false);
}

/* The rows of x, whatever its rank, times their transpose, and perhaps a bias, made before or
 * behind it, and an activation: in place or not. */
static tn_status product(draws *d, const tn_tensor *of, tn_tensor **y) {
  const int32_t rank = tn_tensor_rank(of);
  const int64_t last_size = rank ? tn_tensor_shape(of)[rank - 1] : 1;
  tn_tensor *x = NULL, *turned = NULL, *bias = NULL, *sum = NULL, *act = NULL;
  const uint32_t way = draw(d, 4), place = draw(d, 2), last = draw(d, 3);
  tn_sum_attrs rows = TN_SUM_DEFAULTS;
  rows.axes.count = 1;
  rows.axes.axis[0] = 1;
  if (!last_size) return TN_ERR_UNSUPPORTED;
  if (tn_tensor_reshape(of, 2, SHAPE(-1, last_size), &x)) return TN_ERR_UNSUPPORTED;
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &turned));
  if (way == 1) ok(tn_sum(NULL, x, &rows, &bias));
  tn_status status = tn_matmul(NULL, x, turned, NULL, NULL, y);
  if (way == 2) ok(tn_sum(NULL, x, &rows, &bias));
  if (way == 3) ok(tn_copy(NULL, *y, &bias));
  if (place) sum = act = *y;
  if (!status && bias) status = tn_add(NULL, *y, bias, &sum);
  if (!status && last < 2) status = (last ? tn_relu : tn_tanh)(NULL, sum ? sum : *y, &act);
  tn_tensor *result = act ? act : sum ? sum : *y;
  tn_tensor *const steps[] = {*y, sum, act};
  *y = result;
  for (int i = 0; i < 3 && !place; ++i)
    if (steps[i] != result) tn_tensor_release(steps[i]);
  RELEASE(x, turned, bias);
  return status;
}

/* What follows from constants, in part or whole. */
static tn_status from_constants(draws *d, const tn_tensor *x, tn_device *on, tn_tensor **y) {
  tn_tensor *a = NULL, *b = NULL, *c = NULL, *fill = NULL;
  ok(tn_scalar(on, NULL, TN_F32, 0.25 * draw(d, 3), &a));
  ok(tn_scalar(on, NULL, TN_F32, 0.5, &b));
  ok(tn_add(NULL, a, b, &c));
  ok(tn_ones(on, NULL, TN_F32, tn_tensor_rank(x), tn_tensor_shape(x), &fill));
  if (draw(d, 2)) ok(tn_sub(NULL, fill, c, &fill));
  if (draw(d, 2)) ok(tn_mul(NULL, c, fill, &fill));
  tn_status status = draw(d, 4) ? tn_mul(NULL, x, fill, y) : tn_copy(NULL, fill, y);
  RELEASE(a, b, c, fill);
  return status;
}

/* One that makes a tensor of its own. */
static tn_status make(draws *d, const tensors *t, uint32_t i, tn_device *on, tn_tensor **y) {
  const tn_tensor *x = t->at[i], *other = t->at[draw_alike(d, t, i)];
  const tn_tensor *any = t->at[draw(d, t->count)], *list[2] = {x, other};
  tn_tensor *beside = NULL;
  tn_status status = TN_ERR_UNSUPPORTED;
  switch (draw(d, 10)) {
  case 0:
    return tn_relu(NULL, x, y);
  case 1:
    return tn_mul(NULL, x, other, y);
  case 2: /* broadcast, where they fit */
    return tn_maximum(NULL, x, any, y);
  case 3:
    return tn_tensor_rank(x) ? tn_concat(NULL, list, 2, NULL, y) : status;
  case 4:
    if (tn_tensor_rank(x) != 2) return status;
    ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &beside));
    status = tn_matmul(NULL, x, beside, NULL, NULL, y);
    if (!status) status = tn_tanh(NULL, *y, y);
    break;
  case 5:
    return tn_copy(NULL, x, y);
  case 6:
    return from_constants(d, x, on, y);
  case 7:
  case 8:
    return product(d, x, y);
  default:
    ok(tn_scalar(on, NULL, TN_F32, 0.5, &beside));
    status = tn_mul(NULL, x, beside, y);
  }
  tn_tensor_release(beside);
  return status;
}

static void step(draws *d, tensors *t, tn_device *on) {
  uint32_t i = draw(d, t->count), way = draw(d, 12);
  tn_tensor *y = NULL;
  if (way < 6) {
    tn_tensor *again = NULL;
    draws before = *d;
    tn_status status = make(d, t, i, on, &y);
    if (draw(d, 3) == 0) keep(t, make(&before, t, i, on, &again), again, false);
    keep(t, status, y, false);
  } else if (way == 6) {
    reduce(d, t, i);
  } else if (way == 7) {
    fill_parts(t, i, on);
  } else if (way < 10) {
    view(d, t, i);
  } else {
    write(d, t, i);
  }
}

/* Numbers of small size, some tensors off alignment. */
static tn_tensor *real(draws d, int32_t rank, const int64_t *shape) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; ++i) n *= shape[i];
  float *values = malloc(((size_t)n + 1) * sizeof *values);
  for (int64_t i = 0; i <= n; ++i) values[i] = ((float)draw(&d, 17) - 8) / 8;
  tn_tensor *all = NULL, *tail = NULL, *t = NULL;
  int64_t first = draw(&d, 2);
  ok(tn_tensor_from_host(device, TN_F32, 1, SHAPE(n + 1), values, &all));
  ok(tn_tensor_slice(all, 0, first, n + first, 1, &tail));
  ok(tn_tensor_reshape(tail, rank, shape, &t));
  RELEASE(all, tail);
  free(values);
  return t;
}

typedef struct random_graph {
  draws steps; /* as they were before the first */
  int32_t rank[INPUTS + PARAMETERS];
  int64_t shape[INPUTS + PARAMETERS][4];
  uint32_t num_steps, output[OUTPUTS];
  tn_tensor *kept[WAYS][PARAMETERS], *mine[PARAMETERS]; /* the programs', and the calls' */
  tn_program *program[WAYS];
} random_graph;

static uint32_t merged, folded, fused; /* in all programs */

static void draw_shapes(draws *d, random_graph *g) {
  int64_t common[4];
  int32_t rank = (int32_t)draw(d, 4);
  for (int i = 0; i < 4; ++i) common[i] = draw(d, 12) ? 1 + draw(d, 5) : 0;
  for (int k = 0; k < INPUTS + PARAMETERS; ++k) {
    bool own = draw(d, 3) == 0;
    g->rank[k] = own ? (int32_t)draw(d, 4) : rank;
    for (int i = 0; i < 4; ++i) g->shape[k][i] = own ? 1 + draw(d, 4) : common[i];
  }
}

static void build(draws *d, random_graph *g, int way) {
  static const char *const names[] = {"a", "b", "c", "p", "q"};
  tn_graph *graph = make_graph();
  tensors t = {.count = 0};
  tn_tensor *made;
  for (int k = 0; k < INPUTS; ++k) {
    ok(tn_graph_input(graph, names[k], TN_F32, g->rank[k], g->shape[k], &made));
    keep(&t, TN_OK, made, true);
  }
  for (int k = 0; k < PARAMETERS; ++k) {
    g->kept[way][k] = real(*d, g->rank[INPUTS + k], g->shape[INPUTS + k]);
    if (!way) g->mine[k] = real(*d, g->rank[INPUTS + k], g->shape[INPUTS + k]);
    ok(tn_graph_parameter(graph, names[INPUTS + k], g->kept[way][k], &made));
    keep(&t, TN_OK, made, false);
  }
  g->steps = *d;
  for (uint32_t i = 0; i < g->num_steps; ++i) step(d, &t, tn_graph_device(graph));
  for (int k = 0; k < OUTPUTS; ++k) {
    g->output[k] = draw(d, t.count);
    ok(tn_graph_output(graph, names[k], t.at[g->output[k]]));
  }
  g->program[way] = compiled_with(graph, ways[way]);
  tn_program_info info = report(g->program[way]);
  ck_assert_uint_eq(info.nodes + info.left_out + info.merged + info.folded + info.fused,
                    tn_graph_num_nodes(graph));
  merged += info.merged, folded += info.folded, fused += info.fused;
  for (uint32_t i = 0; i < t.count; ++i) tn_tensor_release(t.at[i]);
  tn_graph_destroy(graph);
}

static void near(const tn_tensor *a, const tn_tensor *b) {
  size_t bytes = tn_tensor_bytes(a);
  ck_assert(alike(a, b));
  float *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  ok(tn_tensor_to_host(a, x, bytes));
  ok(tn_tensor_to_host(b, y, bytes));
  for (size_t i = 0; i < bytes / sizeof *x; ++i)
    ck_assert_msg(
        x[i] == y[i] || (x[i] != x[i] && y[i] != y[i]) ||
            (x[i] - y[i] < 1e-5f * (1 + y[i] * y[i]) && y[i] - x[i] < 1e-5f * (1 + y[i] * y[i])),
        "element %zu is %g, by calls %g", i, (double)x[i], (double)y[i]);
  free(x);
  free(y);
}

static void run_once(const random_graph *g, draws numbers_of, bool give) {
  tensors t = {.count = 0};
  draws d = g->steps;
  tn_tensor *out[WAYS][OUTPUTS] = {{NULL}};
  for (int k = 0; k < INPUTS; ++k, numbers_of.state += 77)
    keep(&t, TN_OK, real(numbers_of, g->rank[k], g->shape[k]), true);
  const tn_tensor *in[INPUTS] = {t.at[0], t.at[1], t.at[2]};
  for (int k = 0; k < PARAMETERS; ++k) {
    tn_tensor_retain(g->mine[k]);
    keep(&t, TN_OK, g->mine[k], false);
  }
  for (uint32_t i = 0; i < g->num_steps; ++i) step(&d, &t, device);
  for (int way = 0; way < WAYS; ++way) {
    for (int k = 0; give && k < OUTPUTS; ++k)
      ok(tn_empty_like(NULL, t.at[g->output[k]], &out[way][k]));
    ok(tn_program_run(g->program[way], NULL, INPUTS, in, OUTPUTS, out[way]));
    for (int k = 0; k < OUTPUTS; ++k) near(out[way][k], t.at[g->output[k]]);
    for (int k = 0; k < PARAMETERS; ++k) near(g->kept[way][k], g->mine[k]);
  }
  for (int k = 0; k < OUTPUTS; ++k) same(out[1][k], out[2][k]);
  for (int k = 0; k < PARAMETERS; ++k) same(g->kept[1][k], g->kept[2][k]);
  for (int way = 0; way < WAYS; ++way) RELEASE(out[way][0], out[way][1], out[way][2]);
  for (uint32_t i = 0; i < t.count; ++i) tn_tensor_release(t.at[i]);
}

START_TEST(random_graphs) {
  for (uint64_t seed = (uint64_t)_i * 100; seed < (uint64_t)_i * 100 + 100; ++seed) {
    draws d = {seed * 77777 + 5};
    random_graph g = {.num_steps = 1 + draw(&d, STEPS)};
    draw_shapes(&d, &g);
    for (int way = 0; way < WAYS; ++way) {
      draws again = d;
      build(&again, &g, way);
    }
    for (int run = 0; run < RUNS; ++run) run_once(&g, (draws){seed * 31 + (uint64_t)run}, run == 2);
    for (int way = 0; way < WAYS; ++way) {
      tn_program_destroy(g.program[way]);
      RELEASE(g.kept[way][0], g.kept[way][1]);
    }
    RELEASE(g.mine[0], g.mine[1]);
  }
  ck_assert_uint_gt(merged, 10);
  ck_assert_uint_gt(folded, 10);
  ck_assert_uint_gt(fused, 5);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, random_graphs, 0, 8);
}

int main(void) { return run_suite("random_graphs", add_tests); }
