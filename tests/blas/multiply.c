/* A program that calls BLAS: one product of n x n matrices in double, checked. The scripts beside
 * it run it with variables set.   usage: multiply N */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc, size_t ta_length, size_t tb_length);

/* a[i,k] = i + 1 and b[k,j] = j - 1, so that c[i,j] = n (i + 1) (j - 1), plus what stood there. */
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 4;
  size_t count = (size_t)n * (size_t)n;
  double one = 1, *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b),
         *c = malloc(count * sizeof *c);
  if (!a || !b || !c) return 3;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) a[j * n + i] = i + 1, b[j * n + i] = j - 1, c[j * n + i] = 7;
  dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n, 1, 1);
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i)
      if (fabs(c[j * n + i] - 7 - (double)n * (i + 1) * (j - 1)) > 1e-6) {
        printf("wrong at %d, %d: %g\n", i, j, c[j * n + i]);
        return 1;
      }
  puts("right");
  free(a), free(b), free(c);
  return 0;
}
