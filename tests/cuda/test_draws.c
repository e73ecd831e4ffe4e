/*
 * Random numbers of tensors so long that CUDA draws them in whole blocks, against the reference:
 * the counter's low word wraps amid a block, and the tensor ends amid one or begins beside an
 * aligned place. Words and what is made of them by whole numbers are the same bit for bit. Skipped
 * where no GPU is.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

enum { MANY = (1 << 22) + 16384 * 3 + 5 };

static tn_runtime *rt;
static tn_device *devices[2]; /* CUDA, and the reference */

static tn_status open_cuda(tn_runtime **runtime) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "cuda,reference", .device = "cuda"};
  return tn_runtime_open(&options, runtime);
}
static void setup(void) {
  ok(open_cuda(&rt));
  devices[0] = tn_runtime_device(rt);
  ok(tn_device_find(rt, "reference", &devices[1]));
}
static void teardown(void) { tn_runtime_close(rt); }

typedef struct drawn {
  const char *op;
  tn_dtype dtype;
  double bound; /* by which floats may differ where numbers are not small; 0: no bit */
} drawn;

static const drawn draws[] = {{"uniform", TN_F32, 0},
                              {"uniform", TN_BF16, 0},
                              {"uniform", TN_F16, 0},
                              {"bernoulli", TN_F32, 0},
                              {"bernoulli", TN_BF16, 0},
                              {"bernoulli", TN_U8, 0},
                              {"randint", TN_U8, 0},
                              {"randint", TN_I32, 0},
                              {"randint", TN_I64, 0},
                              {"normal", TN_F32, 4e-6},
                              {"normal", TN_BF16, 0x1p-7},
                              {"normal", TN_F16, 0x1p-10},
                              {"truncated_normal", TN_F32, 4e-6},
                              {"truncated_normal", TN_BF16, 0x1p-7}};
enum { NUM_DRAWS = sizeof draws / sizeof *draws };

static tn_status draw(const char *op, tn_tensor *y, uint64_t offset) {
  tn_uniform_attrs u = TN_UNIFORM_DEFAULTS;
  tn_bernoulli_attrs b = TN_BERNOULLI_DEFAULTS;
  tn_randint_attrs r = TN_RANDINT_DEFAULTS;
  tn_normal_attrs n = TN_NORMAL_DEFAULTS;
  tn_truncated_normal_attrs t = TN_TRUNCATED_NORMAL_DEFAULTS;
  const uint64_t seed = 0x0123456789abcdefu;
  u.seed = b.seed = r.seed = n.seed = t.seed = seed;
  u.offset = b.offset = r.offset = n.offset = t.offset = offset;
  r.low = 3, r.high = 100; /* which bytes hold, too */
  b.p = 0.3;
  if (!strcmp(op, "uniform")) return tn_uniform(NULL, y, &u);
  if (!strcmp(op, "bernoulli")) return tn_bernoulli(NULL, y, &b);
  if (!strcmp(op, "randint")) return tn_randint(NULL, y, &r);
  if (!strcmp(op, "normal")) return tn_normal(NULL, y, &n);
  return tn_truncated_normal(NULL, y, &t);
}

/* Elements from `skip` on of a tensor that is filled from there. */
static char *numbers_of(tn_device *device, const drawn *d, int64_t skip, uint64_t offset) {
  const size_t bytes = MANY * tn_dtype_size(d->dtype);
  char *read = malloc(bytes);
  tn_tensor *all = NULL, *y = NULL;
  ck_assert_ptr_nonnull(read);
  ok(tn_tensor_empty(device, d->dtype, 1, SHAPE(MANY + skip), &all));
  ok(tn_tensor_slice(all, 0, skip, MANY + skip, 1, &y));
  ok(draw(d->op, y, offset));
  ok(tn_tensor_to_host(y, read, bytes));
  tn_tensor_release(y), tn_tensor_release(all);
  return read;
}

static double value_of(tn_dtype dtype, const char *numbers, size_t i) {
  uint16_t bits;
  if (dtype == TN_F32) return ((const float *)numbers)[i];
  memcpy(&bits, numbers + 2 * i, sizeof bits);
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  if (dtype == TN_BF16) return value;
  const int exponent = bits >> 10 & 31, sign = bits >> 15 ? -1 : 1;
  return sign * ldexp((bits & 1023) + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
}

static void compare(const drawn *d, int64_t skip, uint64_t offset) {
  char *got = numbers_of(devices[0], d, skip, offset);
  char *wanted = numbers_of(devices[1], d, skip, offset);
  const size_t size = tn_dtype_size(d->dtype);
  for (size_t i = 0; i < MANY; i++) {
    if (!memcmp(got + i * size, wanted + i * size, size)) continue;
    const double a = d->bound > 0 ? value_of(d->dtype, got, i) : 0;
    const double b = d->bound > 0 ? value_of(d->dtype, wanted, i) : INFINITY;
    if (fabs(a - b) > d->bound * fmax(fabs(b), 0.25))
      ck_abort_msg("%s of type %d, offset %llx: element %zu is %.9g, not %.9g", d->op,
                   (int)d->dtype, (unsigned long long)offset, i, a, b);
  }
  free(got), free(wanted);
}

START_TEST(long_draws_are_the_same) {
  compare(&draws[_i], 0, 5);
  compare(&draws[_i], 0, (7ull << 32) - 300000);
  compare(&draws[_i], 1, 5);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, long_draws_are_the_same, 0, NUM_DRAWS);
}

/* Whether there is a device, asked in a child: the driver does not survive the fork that Check
 * runs each test in. */
static bool have_device(void) {
  pid_t child = fork();
  if (child == 0) {
    tn_runtime *runtime = NULL;
    _exit(open_cuda(&runtime) == TN_OK ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void) {
  if (!have_device()) {
    puts("no CUDA device here");
    return 77;
  }
  return run_suite("cuda-draws", add_tests);
}
