/*
 * What a call costs beyond its arithmetic: a float32 add of one element, with the output
 * given, with the output made, and prepared; and a pair of tensor allocation and release.
 * On a device that computes in the caller each figure is the time of one call; on others
 * it is the time per call of a loop of 1000 with one wait at its end.
 *
 * `dispatch --loop WAY N` only goes one way N times, so that an instruction counter can
 * count it: bench/instructions.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum { ROUNDS = 41, CALLS_HOST = 20000, CALLS_DEVICE = 1000 };

typedef struct operands {
  bench *b;
  tn_tensor *x, *y, *out, *scalar;
  tn_prepared *prepared;
} operands;

static void add_given(operands *o) { must(tn_add(NULL, o->x, o->y, &o->out), "add"); }

static void add_made(operands *o) {
  tn_tensor *made = NULL;
  must(tn_add(NULL, o->x, o->y, &made), "add");
  tn_tensor_release(made);
}

static void add_prepared(operands *o) { must(tn_run(o->prepared), "run"); }

static void allocate(operands *o) {
  tn_tensor *made = NULL;
  int64_t one = 1;
  must(tn_tensor_empty(o->b->device, TN_F32, 1, &one, &made), "empty");
  tn_tensor_release(made);
}

/* Inputs of two shapes: the long way, through a plan. */
static void add_planned(operands *o) { must(tn_add(NULL, o->x, o->scalar, &o->out), "add"); }

/* The smallest product: a short way of its own. Made when asked for, so that others count alike. */
static tn_tensor *matrix, *square;
static void multiply(operands *o) {
  if (!matrix) matrix = bench_tensor(o->b, TN_F32, 2, (int64_t[]){1, 1});
  must(tn_matmul(NULL, matrix, matrix, NULL, NULL, &square), "matmul");
}

static void view(operands *o) {
  tn_tensor *made = NULL;
  must(tn_tensor_slice(o->x, 0, 0, 1, 1, &made), "slice");
  tn_tensor_release(made);
}

static void retain(operands *o) {
  tn_tensor_retain(o->x);
  tn_tensor_release(o->x);
}

/* A constant, as x * 2 needs one. */
static void constant(operands *o) {
  tn_tensor *two = NULL;
  must(tn_scalar(o->b->device, NULL, TN_F32, 2, &two), "scalar");
  tn_tensor_release(two);
}

typedef struct way {
  const char *name;
  void (*call)(operands *o);
  double ns[ROUNDS];
} way;

static double round_ns(way *w, operands *o, size_t calls) {
  double begin = now_ns();
  for (size_t i = 0; i < calls; i++) w->call(o);
  must(tn_device_synchronize(o->b->device), "synchronize");
  return (now_ns() - begin) / (double)calls;
}

static void measure(operands *o) {
  static way ways[] = {{"add, output given", add_given, {0}},
                       {"add, output made", add_made, {0}},
                       {"add, prepared", add_prepared, {0}},
                       {"tensor empty and release", allocate, {0}}};
  enum { WAYS = sizeof ways / sizeof *ways };
  const size_t calls = bench_times(o->b->host ? CALLS_HOST : CALLS_DEVICE);
  const size_t rounds = bench_times(ROUNDS);
  for (int w = 0; w < WAYS; w++) round_ns(&ways[w], o, calls);
  for (size_t r = 0; r < rounds; r++)
    for (int w = 0; w < WAYS; w++) ways[w].ns[r] = round_ns(&ways[w], o, calls);
  for (int w = 0; w < WAYS; w++) {
    double middle = median(ways[w].ns, rounds);
    bench_row(o->b, ways[w].name, 3,
              (figure[]){{"time_ns", middle},
                         {"best_ns", ways[w].ns[0]},
                         {"worst_ns", ways[w].ns[rounds - 1]}});
  }
}

static operands operands_make(bench *b) {
  operands o = {.b = b};
  int64_t one = 1;
  o.x = bench_tensor(b, TN_F32, 1, &one);
  o.y = bench_tensor(b, TN_F32, 1, &one);
  o.out = bench_tensor(b, TN_F32, 1, &one);
  o.scalar = bench_tensor(b, TN_F32, 0, NULL);
  tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_ADD, .out = &o.out, .num_in = 2, .num_out = 1};
  call.in = (const tn_tensor *[]){o.x, o.y};
  must(tn_prepare(&call, &o.prepared), "prepare");
  return o;
}

static void operands_free(operands *o) {
  tn_prepared_release(o->prepared);
  tn_tensor_release(o->x);
  tn_tensor_release(o->y);
  tn_tensor_release(o->out);
  tn_tensor_release(o->scalar);
  tn_tensor_release(matrix);
  tn_tensor_release(square);
}

static int loop(operands *o, const char *name, long count) {
  static const struct {
    const char *name;
    void (*call)(operands *o);
  } ways[] = {{"given", add_given},       {"made", add_made},   {"planned", add_planned},
              {"prepared", add_prepared}, {"empty", allocate},  {"view", view},
              {"retain", retain},         {"scalar", constant}, {"product", multiply}};
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    if (strcmp(ways[w].name, name) != 0) continue;
    for (long i = 0; i < count; i++) ways[w].call(o);
    return 0;
  }
  fprintf(stderr, "dispatch: there is no way '%s'\n", name);
  return 2;
}

int main(int argc, char **argv) {
  bool looping = argc == 4 && !strcmp(argv[1], "--loop");
  bench b = bench_begin("dispatch", argc, argv, "--loop");
  operands o = operands_make(&b);
  int result = 0;
  if (looping)
    result = loop(&o, argv[2], strtol(argv[3], NULL, 10));
  else
    measure(&o);
  operands_free(&o);
  bench_end(&b);
  return result;
}
