/*
 * What the reference kernels' tests share: hand-made tensors of any layout, a host that
 * cuts loops into small shares, counts memory and can run out of it, and naive access to
 * elements that uses nothing of the kernels.
 */
#ifndef TENON_TESTS_REFERENCE_HARNESS_H
#define TENON_TESTS_REFERENCE_HARNESS_H

#include <math.h>
#include <stdlib.h>

#include "kernels/reference/kernels.h"
#include "tests/suite.h"

typedef struct tensor {
  DLTensor dl;
  tn_dtype dtype;
  int64_t count, shape[TN_MAX_RANK], strides[TN_MAX_RANK];
  void *memory;
} tensor;

/* How a tensor lies: row-major, or with its axes reversed in memory and gaps between
 * elements. */
typedef enum layout { DENSE, SPREAD } layout;

#define SHAPE(...)                                                                                 \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define SCALAR 0, NULL

/* A new tensor whose bytes are all 0xa5, freed by the end of the test. */
tensor *make(tn_dtype dtype, layout how, int ndim, const int64_t *shape);
tensor *make_like(const tensor *t, tn_dtype dtype, layout how);

/* A dense tensor with the given numbers, in row-major order. */
tensor *with(tn_dtype dtype, const double *values, int ndim, const int64_t *shape);
#define VALUES(...)                                                                                \
  (const double[]) { __VA_ARGS__ }

/* A dense tensor of numbers in [low, high) that follow from the seed. */
tensor *random_tensor(tn_dtype dtype, unsigned seed, double low, double high, int ndim,
                      const int64_t *shape);

/* The same numbers in another layout. */
tensor *relaid(const tensor *t, layout how);

/* A view of t with stride 0 along the axes whose bit is set and size there as given. */
tensor *repeated(const tensor *t, int ndim, const int64_t *shape, const int64_t *strides);

/* Element i in row-major order; 16-bit floats go through ldexp, not half.h. */
double get(const tensor *t, int64_t i);
int64_t get_i64(const tensor *t, int64_t i);
void set(tensor *t, int64_t i, double value);
void set_i64(tensor *t, int64_t i, int64_t value);

/* Naive widening of the 16-bit floats. */
double naive_f16(uint16_t bits);
double naive_bf16(uint16_t bits);

typedef struct call {
  tn_kernel_fn fn;
  const void *attrs;
  int num_in, num_out;
  tensor *in[4], *out[4];
  uint32_t op; /* 0 where the kernel does not ask */
} call;

/* ck_assert without a note of every success, which would slow long loops down. */
#define EXPECT(condition)                                                                          \
  ((condition) ? (void)0 : ck_abort_msg("line %d: not so: %s", __LINE__, #condition))

/* Runs a kernel; the memory that it took must be back. */
tn_status call_run(const call *c);

/* The same with the loops cut into shares of one index. */
tn_status call_run_cut(const call *c);

/* Runs a kernel that must succeed. */
void must(const call *c);

/* Checks that the call gives the same bits with every tensor SPREAD and loops cut small,
 * and that it reports each allocation that fails. */
void check_layouts(const call *c);

void check_near(double got, double wanted, double tolerance);
void check_same(const tensor *got, const tensor *wanted);
/* Checks every element against the numbers given. */
void check_values(const tensor *t, const double *wanted, double tolerance);

/* Compares dx with central differences of sum(dy * forward), where forward is a float64
 * call that reads x and writes out[0]. */
void check_gradient(const call *forward, tensor *x, const tensor *dy, const tensor *dx);

const tn_host *test_host(void);

/* Frees the tensors; every test case has it as its fixture. */
void harness_end(void);

Suite *element_suite(void);
Suite *elementwise_suite(void);
Suite *reduce_suite(void);
Suite *product_suite(void);
Suite *window_suite(void);
Suite *pool_suite(void);
Suite *softmax_suite(void);
Suite *random_suite(void);
Suite *backend_suite(void);

/* A test case of a suite with the fixture. */
TCase *add_case(Suite *suite, const char *name);

#endif
