/*
 * libtenon-blas on a device, linked as a program links BLAS: products of every type against their
 * definition, and what the distribution's testers do not look at: what stands in C where beta is 0,
 * the gaps between columns, halves of matrices that BLAS does not read, operands that are one
 * matrix, threads, forks, devices that fail. Which device is TENON_DEVICE's; all products go there.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"
#include "tests/suite.h"

static const char *const letters[] = {"s", "d", "c", "z"};

/* The shim's routines are found by name, as the host's are for comparison. */
typedef void gemm(const char *, const char *, const int *, const int *, const int *, const void *,
                  const void *, const int *, const void *, const int *, const void *, void *,
                  const int *, size_t, size_t);
typedef void symm(const char *, const char *, const int *, const int *, const void *, const void *,
                  const int *, const void *, const int *, const void *, void *, const int *, size_t,
                  size_t);
typedef void syrk(const char *, const char *, const int *, const int *, const void *, const void *,
                  const int *, const void *, void *, const int *, size_t, size_t);
typedef void syr2k(const char *, const char *, const int *, const int *, const void *, const void *,
                   const int *, const void *, const int *, const void *, void *, const int *,
                   size_t, size_t);
typedef void trmm(const char *, const char *, const char *, const char *, const int *, const int *,
                  const void *, const void *, const int *, void *, const int *, size_t, size_t,
                  size_t, size_t);

typedef void any(void);
static any *routine(void *library, kind k, const char *family) {
  char name[16];
  snprintf(name, sizeof name, "%s%s_", letters[k], family);
  void *found = dlsym(library, name);
  any *function;
  ck_assert_msg(found, "%s", name);
  memcpy(&function, &found, sizeof function); /* C casts no data to functions */
  return function;
}

extern const char tenon_blas_version[]; /* the library's: the linker is to keep it */

/* The first in this process is the shim, which the program is linked with. */
static any *shim(kind k, const char *family) {
  ck_assert(*tenon_blas_version);
  return routine(RTLD_DEFAULT, k, family);
}
/* Another one. */
static any *host(kind k, const char *family) {
  static void *library;
  if (!library) library = dlopen(HOST_BLAS, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library, "%s", dlerror());
  ck_assert(!dlsym(library, "tenon_blas_version"));
  return routine(library, k, family);
}

/* --- mistakes, as the program's own handlers hear of them --- */

static char wrong_routine[32];
static int wrong_argument;

__attribute__((visibility("default"))) void xerbla_(const char *name, const int *argument,
                                                    size_t length);
void xerbla_(const char *name, const int *argument, size_t length) {
  snprintf(wrong_routine, sizeof wrong_routine, "%.*s", (int)(length < 31 ? length : 6), name);
  wrong_argument = *argument;
}

/* --- gemm --- */

static void run_gemm(char ta, char tb, number alpha, const matrix *a, const matrix *b, number beta,
                     matrix *c) {
  int k = matrix_columns(a, ta);
  ((gemm *)shim(c->kind, "gemm"))(&ta, &tb, &c->rows, &c->columns, &k, as_kind(c->kind, alpha),
                                  a->data, &a->ld, b->data, &b->ld, as_kind(c->kind, beta), c->data,
                                  &c->ld, 1, 1);
}

static matrix operand(kind kd, char letter, int rows, int columns, int gap, uint32_t seed) {
  return letter == 'N' ? matrix_make(kd, rows, columns, gap, seed)
                       : matrix_make(kd, columns, rows, gap, seed);
}

static void check_gemm(kind kd, char ta, char tb, int m, int n, int k, number alpha, number beta) {
  matrix a = operand(kd, ta, m, k, 3, 1), b = operand(kd, tb, k, n, 1, 2);
  matrix c = matrix_make(kd, m, n, 2, 3);
  if (beta == 0)
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) matrix_set(&c, i, j, CMPLXL(NAN, NAN));
  matrix expected = matrix_copy(&c), a_before = matrix_copy(&a), b_before = matrix_copy(&b);
  oracle_gemm(ta, tb, alpha, &a, &b, beta, &expected);
  run_gemm(ta, tb, alpha, &a, &b, beta, &c);
  ck_assert_msg(matrix_distance(&c, &expected, 4 * (k + 2)) < 2,
                "%sgemm %c%c %dx%dx%d: %g units away", letters[kd], ta, tb, m, n, k,
                matrix_distance(&c, &expected, 4 * (k + 2)));
  ck_assert(matrix_gaps_are_whole(&c));
  ck_assert(matrix_distance(&a, &a_before, 1) == 0 && matrix_gaps_are_whole(&a));
  ck_assert(matrix_distance(&b, &b_before, 1) == 0 && matrix_gaps_are_whole(&b));
  matrix *all[] = {&a, &b, &c, &expected, &a_before, &b_before};
  for (int i = 0; i < 6; ++i) matrix_free(all[i]);
}

START_TEST(products_of_all_types) {
  static const int sizes[][3] = {{1, 1, 1}, {7, 5, 3}, {1, 33, 17}, {33, 1, 17}, {16, 16, 1},
                                 {0, 3, 3}, {3, 0, 3}, {3, 3, 0},   {19, 31, 43}};
  static const number scales[][2] = {{1, 0}, {1, 1}, {-2.5L, 0.5L},
                                     {0, 0}, {0, 2}, {1 + 2 * I, 3 - I}};
  const char trans[] = "NTC";
  for (kind kd = KIND_S; kd < NUM_KINDS; ++kd)
    for (int t = 0; t < 9; ++t)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
        for (size_t x = 0; x < sizeof scales / sizeof *scales; ++x)
          check_gemm(kd, trans[t / 3], trans[t % 3], sizes[s][0], sizes[s][1], sizes[s][2],
                     scales[x][0], scales[x][1]);
}
END_TEST

/* Rows longer than a chunk of the copies, and more of them than lanes hold. */
START_TEST(products_of_many_pieces) {
  check_gemm(KIND_S, 'N', 'N', 1050000, 1, 1, 1, 0);
  check_gemm(KIND_Z, 'N', 'C', 270000, 1, 1, 1 + I, 1);
}
END_TEST

/* NaN and infinity come out where they went in, and nowhere else. */
START_TEST(nan_stays_in_its_row) {
  for (kind kd = KIND_S; kd < NUM_KINDS; ++kd) {
    matrix a = matrix_make(kd, 6, 5, 0, 1), b = matrix_make(kd, 5, 4, 0, 2);
    matrix c = matrix_make(kd, 6, 4, 0, 3);
    matrix_set(&a, 2, 1, NAN);
    matrix_set(&b, 3, 3, INFINITY);
    matrix expected = matrix_copy(&c);
    oracle_gemm('N', 'N', 1, &a, &b, 0, &expected);
    run_gemm('N', 'N', 1, &a, &b, 0, &c);
    ck_assert(matrix_distance(&c, &expected, 40) < 2);
    matrix_free(&a), matrix_free(&b), matrix_free(&c), matrix_free(&expected);
  }
}
END_TEST

/* A A' with the same memory on both sides, which BLAS allows for what is only read. */
START_TEST(operands_may_be_one_matrix) {
  for (kind kd = KIND_S; kd < NUM_KINDS; ++kd) {
    matrix a = matrix_make(kd, 9, 9, 1, 5), c = matrix_make(kd, 9, 9, 0, 6);
    matrix expected = matrix_copy(&c);
    oracle_gemm('N', 'C', 1, &a, &a, 1, &expected);
    run_gemm('N', 'C', 1, &a, &a, 1, &c);
    ck_assert(matrix_distance(&c, &expected, 60) < 2);
    matrix_free(&a), matrix_free(&c), matrix_free(&expected);
  }
}
END_TEST

START_TEST(mistakes_reach_the_programs_handler) {
  matrix a = matrix_make(KIND_D, 4, 4, 0, 1), c = matrix_make(KIND_D, 4, 4, 0, 2);
  matrix before = matrix_copy(&c);
  int four = 4, three = 3, minus = -1;
  void *one = as_kind(KIND_D, 1);
  gemm *dgemm = (gemm *)shim(KIND_D, "gemm");
  dgemm("N", "N", &four, &four, &four, one, a.data, &three, a.data, &four, one, c.data, &four, 1,
        1);
  ck_assert_msg(!strncmp(wrong_routine, "DGEMM", 5) && wrong_argument == 8, "%s %d", wrong_routine,
                wrong_argument);
  dgemm("X", "N", &four, &minus, &four, one, a.data, &four, a.data, &four, one, c.data, &four, 1,
        1);
  ck_assert_int_eq(wrong_argument, 1);
  dgemm("t", "c", &minus, &minus, &four, one, a.data, &four, a.data, &four, one, c.data, &four, 1,
        1);
  ck_assert_int_eq(wrong_argument, 3);
  ((trmm *)shim(KIND_D, "trsm"))("L", "U", "N", "Q", &four, &four, one, a.data, &four, c.data,
                                 &four, 1, 1, 1, 1);
  ck_assert_msg(!strncmp(wrong_routine, "DTRSM", 5) && wrong_argument == 4, "%s %d", wrong_routine,
                wrong_argument);
  ck_assert(matrix_distance(&c, &before, 1) == 0);
  matrix_free(&a), matrix_free(&c), matrix_free(&before);
}
END_TEST

/* --- the other products, against the host BLAS --- */

/* NaN on the side of the diagonal that is not to be read, or on the diagonal itself. */
static void poison(matrix *m, char uplo, bool diagonal) {
  for (int j = 0; j < m->columns; ++j)
    for (int i = 0; i < m->rows; ++i)
      if ((uplo == 'U' ? i > j : i < j) || (diagonal && i == j))
        matrix_set(m, i, j, CMPLXL(NAN, NAN));
}

static void compare(const char *what, kind kd, matrix *got, matrix *expected, int terms) {
  double away = matrix_distance(got, expected, 8 * (terms + 2));
  ck_assert_msg(away < 4, "%s%s: %g units away", letters[kd], what, away);
  ck_assert_msg(matrix_gaps_are_whole(got), "%s%s writes between columns", letters[kd], what);
  matrix_free(got);
  matrix_free(expected);
}

static void check_symm(const char *family, kind kd, char side, char uplo) {
  int m = 13, n = 11, size = side == 'L' ? m : n;
  matrix a = matrix_make(kd, size, size, 2, 1), b = matrix_make(kd, m, n, 1, 2);
  matrix c = matrix_make(kd, m, n, 1, 3), expected = matrix_copy(&c);
  poison(&a, uplo, false);
  symm *routines[] = {(symm *)shim(kd, family), (symm *)host(kd, family)};
  for (int i = 0; i < 2; ++i)
    routines[i](&side, &uplo, &m, &n, as_kind(kd, 2 - I), a.data, &a.ld, b.data, &b.ld,
                as_kind(kd, 0.5L), i ? expected.data : c.data, &c.ld, 1, 1);
  compare(family, kd, &c, &expected, size);
  matrix_free(&a), matrix_free(&b);
}

/* The other triangle of C holds what no result is, and keeps it. */
static void check_syrk(const char *family, kind kd, char uplo, char trans, bool two) {
  int n = 14, k = 9;
  bool hermitian = family[0] == 'h';
  matrix a = operand(kd, trans, n, k, 2, 1), b = operand(kd, trans, n, k, 1, 2);
  matrix c = matrix_make(kd, n, n, 1, 3);
  poison(&c, uplo, false);
  matrix expected = matrix_copy(&c);
  kind real = hermitian ? kd - 2 : kd;
  any *routines[] = {shim(kd, family), host(kd, family)};
  for (int i = 0; i < 2; ++i) {
    void *into = i ? expected.data : c.data;
    void *alpha = two ? as_kind(kd, 2 - I) : as_kind(real, 1.5L), *beta = as_kind(real, 0.5L);
    if (two)
      ((syr2k *)routines[i])(&uplo, &trans, &n, &k, alpha, a.data, &a.ld, b.data, &b.ld, beta, into,
                             &c.ld, 1, 1);
    else
      ((syrk *)routines[i])(&uplo, &trans, &n, &k, alpha, a.data, &a.ld, beta, into, &c.ld, 1, 1);
  }
  compare(family, kd, &c, &expected, 2 * k);
  matrix_free(&a), matrix_free(&b);
}

/* alpha op(A) B, or B op(A), of what the triangle has and no more: one place in B is not a number,
 * and what does not depend on it must not be NaN either. Hosts' own kernels are less exact there.
 */
static void oracle_trmm(kind kd, const char *how, number alpha, const matrix *a, matrix *b) {
  matrix before = matrix_copy(b);
  bool left = how[0] == 'L', upper = (how[1] == 'U') == (how[2] == 'N');
  int size = left ? b->rows : b->columns;
  char letter = kd <= KIND_D && how[2] == 'C' ? 'T' : how[2];
  for (int j = 0; j < b->columns; ++j)
    for (int i = 0; i < b->rows; ++i) {
      number sum = 0;
      for (int k = 0; k < size; ++k) {
        int row = left ? i : k, column = left ? k : j;
        if (upper ? row > column : row < column) continue;
        number x = row == column && how[3] == 'U' ? 1 : matrix_op(a, letter, row, column);
        sum += x * (left ? matrix_get(&before, k, j) : matrix_get(&before, i, k));
      }
      matrix_set(b, i, j, kd <= KIND_D ? creall(alpha) * sum : alpha * sum);
    }
  matrix_free(&before);
}

static void check_triangle(const char *family, kind kd, const char *how) {
  int m = 13, n = 10, size = how[0] == 'L' ? m : n;
  bool solves = family[2] == 's';
  matrix a = matrix_make(kd, size, size, 2, 1), b = matrix_make(kd, m, n, 1, 2);
  for (int j = 0; j < size; ++j)
    for (int i = 0; i < size; ++i) matrix_set(&a, i, j, i == j ? 4 : matrix_get(&a, i, j) / 8);
  poison(&a, how[1], how[3] == 'U');
  if (!solves) matrix_set(&b, 6, 5, NAN);
  matrix expected = matrix_copy(&b);
  number alpha = 1 - I;
  trmm *ours = (trmm *)shim(kd, family), *theirs = (trmm *)host(kd, family);
  ours(&how[0], &how[1], &how[2], &how[3], &m, &n, as_kind(kd, alpha), a.data, &a.ld, b.data, &b.ld,
       1, 1, 1, 1);
  if (solves)
    theirs(&how[0], &how[1], &how[2], &how[3], &m, &n, as_kind(kd, alpha), a.data, &a.ld,
           expected.data, &b.ld, 1, 1, 1, 1);
  else
    oracle_trmm(kd, how, alpha, &a, &expected);
  compare(family, kd, &b, &expected, size);
  matrix_free(&a);
}

START_TEST(the_rest_of_level_3) {
  for (kind kd = KIND_S; kd < NUM_KINDS; ++kd) {
    bool is_complex = kd > KIND_D;
    for (int i = 0; i < 4; ++i) {
      char side = "LR"[i & 1], uplo = "UL"[i >> 1], trans = "NT"[i & 1], turned = "NC"[i & 1];
      check_symm("symm", kd, side, uplo);
      check_syrk("syrk", kd, uplo, trans, false);
      check_syrk("syr2k", kd, uplo, trans, true);
      if (!is_complex) continue;
      check_symm("hemm", kd, side, uplo);
      check_syrk("herk", kd, uplo, turned, false);
      check_syrk("her2k", kd, uplo, turned, true);
    }
    for (int i = 0; i < 24; ++i) {
      char how[] = {"LR"[i & 1], "UL"[i >> 1 & 1], "NTC"[i / 8], "NU"[i >> 2 & 1], 0};
      check_triangle("trmm", kd, how);
      check_triangle("trsm", kd, how);
    }
  }
}
END_TEST

/* --- the process --- */

static void *multiply_often(void *seed) {
  uint32_t s = (uint32_t)(uintptr_t)seed;
  for (int i = 0; i < 20; ++i) {
    kind kd = (kind)((s + (uint32_t)i) % NUM_KINDS);
    matrix a = matrix_make(kd, 24, 17, 1, s), b = matrix_make(kd, 17, 21, 0, s + 1);
    matrix c = matrix_make(kd, 24, 21, 2, s + 2), expected = matrix_copy(&c);
    oracle_gemm('N', 'N', 1, &a, &b, 1, &expected);
    run_gemm('N', 'N', 1, &a, &b, 1, &c);
    if (!(matrix_distance(&c, &expected, 80) < 2)) return "wrong";
    matrix_free(&a), matrix_free(&b), matrix_free(&c), matrix_free(&expected);
  }
  return NULL;
}

START_TEST(threads_at_once) {
  pthread_t threads[6];
  for (uintptr_t i = 0; i < 6; ++i)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, multiply_often, (void *)i), 0);
  for (int i = 0; i < 6; ++i) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    ck_assert_ptr_eq(wrong, NULL);
  }
}
END_TEST

START_TEST(a_child_computes_too) {
  ck_assert_ptr_eq(multiply_often((void *)1), NULL);
  pid_t child = fork();
  if (child == 0) _exit(multiply_often((void *)2) ? 1 : 0);
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", (unsigned)status);
  ck_assert_ptr_eq(multiply_often((void *)3), NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("blas");
  TCase *tests = tcase_create("blas");
  tcase_add_test(tests, products_of_all_types);
  tcase_add_test(tests, products_of_many_pieces);
  tcase_add_test(tests, nan_stays_in_its_row);
  tcase_add_test(tests, operands_may_be_one_matrix);
  tcase_add_test(tests, mistakes_reach_the_programs_handler);
  tcase_add_test(tests, the_rest_of_level_3);
  tcase_add_test(tests, threads_at_once);
  tcase_add_test(tests, a_child_computes_too);
  suite_add_tcase(suite, tests);
  return run_runner(srunner_create(suite));
}
