/* Tensors and the host of the tests; see harness.h. */
#include "harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------- tensors --- */

enum { MOST_TENSORS = 4096 };
static tensor *all[MOST_TENSORS];
static int num_all;

static const DLDataType types[] = {{0},
                                   {kDLBool, 8, 1},
                                   {kDLUInt, 8, 1},
                                   {kDLInt, 8, 1},
                                   {kDLInt, 16, 1},
                                   {kDLInt, 32, 1},
                                   {kDLInt, 64, 1},
                                   {kDLFloat, 16, 1},
                                   {kDLBfloat, 16, 1},
                                   {kDLFloat, 32, 1},
                                   {kDLFloat, 64, 1}};

static tensor *new_tensor(tn_dtype dtype, int ndim, const int64_t *shape) {
  tensor *t = calloc(1, sizeof *t);
  EXPECT(t && num_all < MOST_TENSORS);
  all[num_all++] = t;
  t->dtype = dtype;
  t->count = 1;
  for (int a = 0; a < ndim; ++a) t->count *= t->shape[a] = shape[a];
  t->dl = (DLTensor){NULL, {kDLCPU, 0}, ndim, types[dtype], t->shape, t->strides, 0};
  return t;
}

tensor *make(tn_dtype dtype, layout how, int ndim, const int64_t *shape) {
  tensor *t = new_tensor(dtype, ndim, shape);
  int64_t step = how == DENSE ? 1 : 2;
  for (int i = 0; i < ndim; ++i) {
    int a = how == DENSE ? ndim - 1 - i : i;
    t->strides[a] = step;
    step *= shape[a];
  }
  if (t->count == 0) return t;
  t->memory = malloc((size_t)step * tn_dtype_size(dtype));
  EXPECT(t->memory);
  memset(t->memory, 0xa5, (size_t)step * tn_dtype_size(dtype));
  t->dl.data = t->memory;
  return t;
}

tensor *make_like(const tensor *t, tn_dtype dtype, layout how) {
  return make(dtype, how, t->dl.ndim, t->shape);
}

tensor *with(tn_dtype dtype, const double *values, int ndim, const int64_t *shape) {
  tensor *t = make(dtype, DENSE, ndim, shape);
  for (int64_t i = 0; i < t->count; ++i) set(t, i, values[i]);
  return t;
}

tensor *random_tensor(tn_dtype dtype, unsigned seed, double low, double high, int ndim,
                      const int64_t *shape) {
  tensor *t = make(dtype, DENSE, ndim, shape);
  uint64_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < t->count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    set(t, i, low + (high - low) * (double)(state >> 11) * 0x1p-53);
  }
  return t;
}

static char *address(const tensor *t, int64_t i) {
  int64_t offset = 0;
  for (int a = t->dl.ndim - 1; a >= 0; --a) {
    offset += i % t->shape[a] * t->strides[a];
    i /= t->shape[a];
  }
  return (char *)t->dl.data + offset * (int64_t)tn_dtype_size(t->dtype);
}

tensor *relaid(const tensor *t, layout how) {
  tensor *r = make_like(t, t->dtype, how);
  for (int64_t i = 0; i < t->count; ++i)
    memcpy(address(r, i), address(t, i), tn_dtype_size(t->dtype));
  return r;
}

tensor *repeated(const tensor *t, int ndim, const int64_t *shape, const int64_t *strides) {
  tensor *r = new_tensor(t->dtype, ndim, shape);
  memcpy(r->strides, strides, (size_t)ndim * sizeof *strides);
  r->dl.data = t->dl.data;
  return r;
}

void harness_end(void) {
  while (num_all > 0) {
    free(all[--num_all]->memory);
    free(all[num_all]);
  }
}

/* ------------------------------------------------------------------ elements --- */

static double naive_float(uint16_t bits, int mantissa_bits, int bias) {
  int exponent_bits = 15 - mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  double sign = bits >> 15 ? -1 : 1, value;
  if (exponent == (1 << exponent_bits) - 1)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexp(mantissa, 1 - bias - mantissa_bits);
  else
    value = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return sign * value;
}

double naive_f16(uint16_t bits) { return naive_float(bits, 10, 15); }
double naive_bf16(uint16_t bits) { return naive_float(bits, 7, 127); }

/* The 16-bit float nearest to value by search; ties to the even one. */
static uint16_t naive_round(double value, double (*widen)(uint16_t), uint16_t infinity) {
  uint16_t sign = signbit(value) ? 0x8000 : 0, low = 0, high = infinity;
  double x = fabs(value);
  if (x != x) return (uint16_t)(sign | infinity | infinity >> 1);
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (widen(middle) <= x)
      low = middle;
    else
      high = middle;
  }
  if (x >= widen(infinity)) return sign | infinity;
  double step = widen(low) - widen((uint16_t)(low - 1)); /* where the next one is infinite */
  double above = high == infinity ? widen(low) + step : widen(high),
         half = (above + widen(low)) / 2;
  return (uint16_t)(sign | (x > half || (x == half && (low & 1)) ? high : low));
}

double get(const tensor *t, int64_t i) {
  const void *p = address(t, i);
  switch (t->dtype) {
  case TN_F16:
    return naive_f16(*(const uint16_t *)p);
  case TN_BF16:
    return naive_bf16(*(const uint16_t *)p);
  case TN_F32:
    return (double)*(const float *)p;
  case TN_F64:
    return *(const double *)p;
  default:
    return (double)get_i64(t, i);
  }
}

int64_t get_i64(const tensor *t, int64_t i) {
  const void *p = address(t, i);
  switch (t->dtype) {
  case TN_BOOL:
  case TN_U8:
    return *(const uint8_t *)p;
  case TN_I8:
    return *(const int8_t *)p;
  case TN_I16:
    return *(const int16_t *)p;
  case TN_I32:
    return *(const int32_t *)p;
  case TN_I64:
    return *(const int64_t *)p;
  default:
    ck_abort_msg("no integer type");
  }
  return 0;
}

void set(tensor *t, int64_t i, double value) {
  void *p = address(t, i);
  switch (t->dtype) {
  case TN_F16:
    *(uint16_t *)p = naive_round(value, naive_f16, 0x7c00);
    break;
  case TN_BF16:
    *(uint16_t *)p = naive_round(value, naive_bf16, 0x7f80);
    break;
  case TN_F32:
    *(float *)p = (float)value;
    break;
  case TN_F64:
    *(double *)p = value;
    break;
  default:
    set_i64(t, i, (int64_t)floor(value));
  }
}

void set_i64(tensor *t, int64_t i, int64_t value) {
  void *p = address(t, i);
  switch (t->dtype) {
  case TN_BOOL:
    *(uint8_t *)p = value != 0;
    break;
  case TN_U8:
    *(uint8_t *)p = (uint8_t)value;
    break;
  case TN_I8:
    *(int8_t *)p = (int8_t)value;
    break;
  case TN_I16:
    *(int16_t *)p = (int16_t)value;
    break;
  case TN_I32:
    *(int32_t *)p = (int32_t)value;
    break;
  case TN_I64:
    *(int64_t *)p = value;
    break;
  default:
    ck_abort_msg("no integer type");
  }
}

/* ---------------------------------------------------------------------- host --- */

static int64_t share_size = 1000000007;
static int blocks_out, allocations, failing_allocation = -1;
static char message[512];

static tn_status host_fail(tn_status code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return code;
}

static void *host_alloc(const tn_host *host, size_t bytes, size_t align) {
  (void)host;
  if (allocations++ == failing_allocation) return NULL;
  ++blocks_out;
  return aligned_alloc(align < 64 ? 64 : align, bytes / 64 * 64 + 64);
}

static void host_free(const tn_host *host, void *ptr) {
  (void)host;
  blocks_out -= ptr != NULL;
  free(ptr);
}

static tn_status host_parallel_for(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                                   void *ctx) {
  (void)host;
  EXPECT(grain >= 1);
  for (int64_t begin = 0; begin < n; begin += share_size) {
    int64_t end = n - begin < share_size ? n : begin + share_size;
    tn_status status = fn(ctx, begin, end);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

const tn_host *test_host(void) {
  static const tn_host host = {.struct_size = sizeof host,
                               .abi_min = 1,
                               .abi_max = 1,
                               .num_threads = 1,
                               .fail = host_fail,
                               .alloc = host_alloc,
                               .free = host_free,
                               .parallel_for = host_parallel_for};
  return &host;
}

tn_status call_run(const call *c) {
  const DLTensor *in[4];
  DLTensor *out[4];
  const tn_kernel row = {.struct_size = sizeof row, .op = c->op, .name = "test"};
  tn_kernel_args args = {.struct_size = sizeof args, .in = in, .out = out, .host = test_host()};
  args.kernel = &row;
  args.num_in = (uint16_t)c->num_in;
  args.num_out = (uint16_t)c->num_out;
  args.attrs = c->attrs;
  for (int i = 0; i < c->num_in; ++i) in[i] = c->in[i] ? &c->in[i]->dl : NULL;
  for (int i = 0; i < c->num_out; ++i) out[i] = c->out[i] ? &c->out[i]->dl : NULL;
  tn_status status = c->fn(&args);
  EXPECT(blocks_out == 0);
  return status;
}

tn_status call_run_cut(const call *c) {
  share_size = 1;
  tn_status status = call_run(c);
  share_size = 1000000007;
  return status;
}

void must(const call *c) { EXPECT(call_run(c) == TN_OK); }

/* ------------------------------------------------------------------- checks --- */

void check_same(const tensor *got, const tensor *wanted) {
  size_t size = tn_dtype_size(got->dtype);
  ck_assert_int_eq(got->count, wanted->count);
  for (int64_t i = 0; i < got->count; ++i)
    if (memcmp(address(got, i), address(wanted, i), size) != 0)
      ck_abort_msg("element %lld: %.17g, wanted %.17g", (long long)i, get(got, i), get(wanted, i));
}

/* Every allocation fails once: the status says so and nothing leaks. */
static void check_failures(const call *c) {
  allocations = 0;
  must(c);
  int most = allocations;
  for (int i = 0; i < most; ++i) {
    allocations = 0;
    failing_allocation = i;
    message[0] = 0;
    ck_assert_int_eq(call_run(c), TN_ERR_OUT_OF_MEMORY);
    ck_assert_str_ne(message, "");
  }
  failing_allocation = -1;
}

void check_layouts(const call *c) {
  call spread = *c;
  tensor *before[4] = {NULL};
  for (int i = 0; i < c->num_in; ++i)
    if (c->in[i]) spread.in[i] = relaid(c->in[i], SPREAD);
  for (int i = 0; i < c->num_out; ++i)
    if (c->out[i]) {
      before[i] = relaid(c->out[i], DENSE);
      spread.out[i] = relaid(c->out[i], SPREAD);
    }
  must(c);
  ck_assert_int_eq(call_run_cut(&spread), TN_OK);
  for (int i = 0; i < c->num_out; ++i)
    if (c->out[i]) check_same(spread.out[i], c->out[i]);
  call again = *c;
  for (int i = 0; i < c->num_out; ++i) again.out[i] = before[i];
  check_failures(&again);
}

void check_near(double got, double wanted, double tolerance) {
  double distance = fabs(got - wanted);
  bool near = wanted != wanted ? got != got
                               : got == wanted || distance <= tolerance * fmax(1, fabs(wanted));
  if (isinf(wanted)) near = got == wanted;
  if (!near) ck_abort_msg("%.17g, wanted %.17g", got, wanted);
}

void check_values(const tensor *t, const double *wanted, double tolerance) {
  for (int64_t i = 0; i < t->count; ++i) check_near(get(t, i), wanted[i], tolerance);
}

static double weighted(const call *forward, const tensor *dy) {
  double sum = 0;
  must(forward);
  for (int64_t i = 0; i < dy->count; ++i) sum += get(dy, i) * get(forward->out[0], i);
  return sum;
}

void check_gradient(const call *forward, tensor *x, const tensor *dy, const tensor *dx) {
  const double h = 1e-5;
  for (int64_t i = 0; i < x->count; ++i) {
    double at = get(x, i);
    set(x, i, at + h);
    double above = weighted(forward, dy);
    set(x, i, at - h);
    double below = weighted(forward, dy);
    set(x, i, at);
    check_near(get(dx, i), (above - below) / (2 * h), 2e-8);
  }
}

TCase *add_case(Suite *suite, const char *name) {
  TCase *c = tcase_create(name);
  tcase_add_checked_fixture(c, NULL, harness_end);
  tcase_set_timeout(c, 60);
  suite_add_tcase(suite, c);
  return c;
}
