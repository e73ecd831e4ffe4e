/* The peer process: reads a size from one pipe, answers with a time on another. */
#include "bare_blas.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef BENCH_CBLAS
#include <cblas.h>

#include "measure.h"

typedef struct request {
  int64_t m, n, k, calls;
} request;

static int to_peer[2], from_peer[2];
static pid_t peer;

static float *random_matrix(int64_t n) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; x && i < n; i++) x[i] = (float)drand48() * 2 - 1;
  return x;
}

static double serve(request r) {
  float *a = random_matrix(r.m * r.k), *b = random_matrix(r.k * r.n), *c = random_matrix(r.m * r.n);
  double begin = 0;
  for (int64_t i = -2; i < r.calls; i++) {
    if (i == 0) begin = now_ns();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)r.m, (int)r.n, (int)r.k, 1, a,
                (int)r.k, b, (int)r.n, 0, c, (int)r.n);
  }
  double ns = (now_ns() - begin) / (double)r.calls;
  free(a);
  free(b);
  free(c);
  return ns;
}

static void peer_main(void) {
  request r;
  while (read(to_peer[0], &r, sizeof r) == sizeof r) {
    double ns = serve(r);
    if (write(from_peer[1], &ns, sizeof ns) != sizeof ns) break;
  }
  _exit(0);
}

bool bare_blas_start(void) {
  if (pipe(to_peer) || pipe(from_peer)) return false;
  peer = fork();
  if (peer == 0) {
    close(to_peer[1]);
    peer_main();
  }
  return peer > 0;
}

double bare_blas_ns(int64_t m, int64_t n, int64_t k, int64_t calls) {
  request r = {m, n, k, calls};
  double ns;
  bool done = peer > 0 && write(to_peer[1], &r, sizeof r) == sizeof r &&
              read(from_peer[0], &ns, sizeof ns) == sizeof ns;
  return done ? ns : (double)NAN;
}

void bare_blas_stop(void) {
  close(to_peer[1]);
  if (peer > 0) waitpid(peer, NULL, 0);
}

#else

bool bare_blas_start(void) { return false; }

double bare_blas_ns(int64_t m, int64_t n, int64_t k, int64_t calls) {
  (void)m, (void)n, (void)k, (void)calls;
  return (double)NAN;
}

void bare_blas_stop(void) {}

#endif
