/*
 * What a node of a program costs beyond its kernel: a chain of float32 adds of one element, by
 * ordinary calls with outputs given, by prepared calls, and as one program. On a device that
 * computes in the caller each figure is the time of one add; on others the time per add of a
 * chain with one wait at its end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "tenon/graph.h"

enum { NODES = 256, ROUNDS = 41 };

typedef struct chain {
  bench *b;
  tn_tensor *x, *at[NODES], *result;
  tn_prepared *calls[NODES];
  tn_program *program;
} chain;

static void by_calls(chain *c) {
  for (int i = 0; i < NODES; ++i)
    must(tn_add(NULL, i ? c->at[i - 1] : c->x, c->x, &c->at[i]), "add");
}

static void by_prepared(chain *c) {
  for (int i = 0; i < NODES; ++i) must(tn_run(c->calls[i]), "run");
}

static void by_program(chain *c) {
  const tn_tensor *in[1] = {c->x};
  must(tn_program_run(c->program, NULL, 1, in, 1, &c->result), "run");
}

static void prepare(chain *c) {
  for (int i = 0; i < NODES; ++i) {
    const tn_tensor *in[2] = {i ? c->at[i - 1] : c->x, c->x};
    tn_call call = {.struct_size = sizeof call,
                    .op = TN_OP_ADD,
                    .in = in,
                    .out = &c->at[i],
                    .num_in = 2,
                    .num_out = 1};
    must(tn_prepare(&call, &c->calls[i]), "prepare");
  }
}

/* Building and compiling; returns how long each took in *build_ns and *compile_ns. */
static void make_program(chain *c, double *build_ns, double *compile_ns) {
  tn_graph *g;
  tn_tensor *x, *last;
  double began = now_ns();
  must(tn_graph_create(c->b->runtime, "chain", &g), "graph");
  must(tn_graph_input(g, "x", TN_F32, 1, tn_tensor_shape(c->x), &x), "input");
  last = x;
  for (int i = 0; i < NODES; ++i) {
    tn_tensor *next = NULL;
    must(tn_add(NULL, last, x, &next), "add");
    if (last != x) tn_tensor_release(last);
    last = next;
  }
  must(tn_graph_output(g, "y", last), "output");
  *build_ns = now_ns() - began;
  began = now_ns();
  must(tn_graph_compile(g, c->b->device, NULL, &c->program), "compile");
  *compile_ns = now_ns() - began;
  tn_tensor_release(last);
  tn_tensor_release(x);
  tn_graph_destroy(g);
}

/* The median over rounds of one way, in nanoseconds a node; `ways` take turns. */
static void time_ways(chain *c, void (*const *ways)(chain *), size_t count, double *ns) {
  double rounds[3][ROUNDS];
  int repeats = c->b->host ? 100 : 10;
  for (int round = -2; round < ROUNDS; ++round)
    for (size_t w = 0; w < count; ++w) {
      double began = now_ns();
      for (int i = 0; i < repeats; ++i) ways[w](c);
      must(tn_device_synchronize(c->b->device), "wait");
      if (round >= 0) rounds[w][round] = (now_ns() - began) / repeats / NODES;
    }
  for (size_t w = 0; w < count; ++w) ns[w] = median(rounds[w], ROUNDS);
}

int main(int argc, char **argv) {
  bench b = bench_begin("program", argc, argv, NULL);
  int64_t one = 1;
  chain c = {.b = &b};
  void (*const ways[])(chain *) = {by_calls, by_prepared, by_program};
  double ns[3], build_ns, compile_ns;
  c.x = bench_tensor(&b, TN_F32, 1, &one);
  for (int i = 0; i < NODES; ++i)
    must(tn_tensor_empty(b.device, TN_F32, 1, &one, &c.at[i]), "empty");
  prepare(&c);
  make_program(&c, &build_ns, &compile_ns);
  time_ways(&c, ways, 3, ns);
  const figure figures[] = {{"call_ns", ns[0]},
                            {"prepared_ns", ns[1]},
                            {"program_ns", ns[2]},
                            {"build_us", build_ns / 1e3},
                            {"compile_us", compile_ns / 1e3}};
  bench_row(&b, "a node of 256", 5, figures);
  for (int i = 0; i < NODES; ++i) {
    tn_prepared_release(c.calls[i]);
    tn_tensor_release(c.at[i]);
  }
  tn_program_destroy(c.program);
  tn_tensor_release(c.result);
  tn_tensor_release(c.x);
  bench_end(&b);
  return EXIT_SUCCESS;
}
