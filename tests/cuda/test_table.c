/*
 * Elementwise results of 16 bits that CUDA looks up in a table (kernels/cuda/base/table.h) against
 * those that the operator's own kernel computes, bit for bit, for every pattern of 16 bits; in
 * place and of a length that no access divides. Skipped where no GPU is.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support.h"

enum { PATTERNS = 65536, MANY = (1 << 24) + 5 };

static tn_runtime *rt;
static tn_device *gpu;

static tn_status open_cuda(tn_runtime **runtime) {
  tn_runtime_options options = {
      .struct_size = sizeof options, .plugins = "cuda,reference", .device = "cuda"};
  return tn_runtime_open(&options, runtime);
}
static void setup(void) {
  ok(open_cuda(&rt));
  gpu = tn_runtime_device(rt);
}
static void teardown(void) { tn_runtime_close(rt); }

static const uint32_t operators[] = {TN_OP_GELU, TN_OP_SOFTPLUS, TN_OP_TANH,
                                     TN_OP_CELU, TN_OP_ASINH,    TN_OP_SIN};

/* y = operator(x), in place where `over`. */
static void apply(uint32_t op, tn_tensor *x, bool over, tn_tensor **y) {
  const tn_tensor *in[] = {x};
  tn_call call = {
      .struct_size = sizeof call, .op = op, .in = in, .num_in = 1, .out = y, .num_out = 1};
  *y = over ? x : NULL;
  ok(tn_invoke(&call));
}

static uint16_t *numbers_of(tn_tensor *t, size_t count) {
  uint16_t *read = malloc(count * sizeof *read);
  ck_assert_ptr_nonnull(read);
  ok(tn_tensor_to_host(t, read, count * sizeof *read));
  return read;
}

/* Patterns in no order, all of them among any 65,536 that follow each other. */
static uint16_t pattern(size_t i) { return (uint16_t)(i * 40503 + 77); }

static void compare(uint32_t op, tn_dtype dtype, bool over) {
  tn_tensor *few = NULL, *many = NULL, *few_y = NULL, *many_y = NULL;
  uint16_t *bits = malloc(MANY * sizeof *bits);
  ck_assert_ptr_nonnull(bits);
  for (size_t i = 0; i < MANY; i++) bits[i] = i < PATTERNS ? (uint16_t)i : 0;
  ok(tn_tensor_from_host(gpu, dtype, 1, SHAPE(PATTERNS), bits, &few));
  for (size_t i = 0; i < MANY; i++) bits[i] = pattern(i);
  ok(tn_tensor_from_host(gpu, dtype, 1, SHAPE(MANY), bits, &many));
  apply(op, few, false, &few_y);
  apply(op, many, over, &many_y);
  uint16_t *wanted = numbers_of(few_y, PATTERNS), *got = numbers_of(many_y, MANY);
  for (size_t i = 0; i < MANY; i++)
    if (got[i] != wanted[bits[i]])
      ck_abort_msg("operator %u, element %zu: of %04x %04x and not %04x", (unsigned)op, i, bits[i],
                   got[i], wanted[bits[i]]);
  tn_tensor_release(few), tn_tensor_release(few_y), tn_tensor_release(many);
  if (!over) tn_tensor_release(many_y);
  free(bits), free(wanted), free(got);
}

START_TEST(looked_up_is_computed) {
  compare(operators[_i / 2], _i % 2 ? TN_BF16 : TN_F16, _i % 3 == 0);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, looked_up_is_computed, 0, 2 * (int)(sizeof operators / sizeof *operators));
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
  return run_suite("cuda-table", add_tests);
}
