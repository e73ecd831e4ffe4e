/*
 * What a node of a program costs beyond its kernel: a chain of float32 adds of one element, by
 * ordinary calls with outputs given, by prepared calls, and as one program. On a device that
 * computes in the caller each figure is the time of one add; on others the time per add of a
 * chain with one wait at its end. Beside that, what recording a call costs, in a graph and on a
 * tape, and a run of a program of one node.
 *
 * `program --loop WAY COUNT` does one of these things COUNT times, for counting instructions:
 * record, a call recorded, in graphs of 1000; tape, a call run and recorded on a tape, 1000 at a
 * time; plain, the same call with no tape; run, the chain run; single, a program of one node run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "tenon/graph.h"

enum { NODES = 256, ROUNDS = 41, RECORDED = 1000 };

typedef struct chain {
  bench *b;
  tn_tensor *x, *at[NODES], *result;
  tn_prepared *calls[NODES];
  tn_program *program, *single;
  tn_function *function; /* of the same node */
  tn_tensor *single_result;
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

static void by_single(chain *c) {
  const tn_tensor *in[1] = {c->x};
  must(tn_program_run(c->single, NULL, 1, in, 1, &c->single_result), "run");
}

static void by_function(chain *c) {
  const tn_tensor *in[1] = {c->x};
  must(tn_function_run(c->function, NULL, 1, in, 1, &c->single_result), "run");
}

static void by_singles(chain *c) {
  for (int i = 0; i < NODES; ++i) by_single(c);
}

static void by_functions(chain *c) {
  for (int i = 0; i < NODES; ++i) by_function(c);
}

static tn_status build_single(void *context, tn_graph *g, size_t num_in, tn_tensor *const *in) {
  tn_tensor *y = NULL;
  (void)context, (void)num_in;
  must(tn_add(NULL, in[0], in[0], &y), "add");
  tn_status status = tn_graph_output(g, "y", y);
  tn_tensor_release(y);
  return status;
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

static tn_graph *begin_graph(const chain *c, tn_tensor **x) {
  tn_graph *g;
  must(tn_graph_create(c->b->runtime, "chain", &g), "graph");
  must(tn_graph_input(g, "x", TN_F32, 1, tn_tensor_shape(c->x), x), "input");
  return g;
}

/* A chain of `count` adds, of which the last is returned. */
static tn_tensor *record_chain(tn_tensor *x, long count) {
  tn_tensor *last = x;
  for (long i = 0; i < count; ++i) {
    tn_tensor *next = NULL;
    must(tn_add(NULL, last, x, &next), "add");
    if (last != x) tn_tensor_release(last);
    last = next;
  }
  return last;
}

static void record(const chain *c, long count) {
  tn_tensor *x;
  tn_graph *g = begin_graph(c, &x);
  tn_tensor *last = record_chain(x, count);
  if (last != x) tn_tensor_release(last);
  tn_tensor_release(x);
  tn_graph_destroy(g);
}

/* Building and compiling; returns how long each took in *build_ns and *compile_ns. */
static tn_program *make_program(const chain *c, int nodes, double *build_ns, double *compile_ns) {
  tn_program *program;
  tn_tensor *x;
  double began = now_ns();
  tn_graph *g = begin_graph(c, &x);
  tn_tensor *last = record_chain(x, nodes);
  must(tn_graph_output(g, "y", last), "output");
  *build_ns = now_ns() - began;
  began = now_ns();
  must(tn_graph_compile(g, c->b->device, NULL, &program), "compile");
  *compile_ns = now_ns() - began;
  tn_tensor_release(last);
  tn_tensor_release(x);
  tn_graph_destroy(g);
  return program;
}

/* Building, recording and giving all of it back, in nanoseconds a call. */
static double time_record(const chain *c) {
  const int rounds = (int)bench_times(ROUNDS);
  double times[ROUNDS];
  for (int round = -2; round < rounds; ++round) {
    double began = now_ns();
    record(c, RECORDED);
    if (round >= 0) times[round] = (now_ns() - began) / RECORDED;
  }
  return median(times, (size_t)rounds);
}

/* --- tapes --- */

enum { PLAIN, TAPED, UNWATCHED, TAPE_WAYS };

/* RECORDED adds, as they are, or while a tape records: from a tensor that it watches, or one that
 * it does not know. Nanoseconds a call, without what forgetting takes. */
static double tape_round(const chain *c, tn_tape *tape, tn_tensor *watched, int way) {
  tn_tensor *from = way == TAPED ? watched : c->x, *last = from;
  if (way != PLAIN) must(tn_tape_begin(tape), "begin");
  double began = now_ns();
  for (int i = 0; i < RECORDED; ++i) {
    tn_tensor *next = NULL;
    must(tn_add(NULL, last, c->x, &next), "add");
    if (last != from) tn_tensor_release(last);
    last = next;
  }
  double ns = (now_ns() - began) / RECORDED;
  must(tn_device_synchronize(c->b->device), "wait");
  if (way != PLAIN) must(tn_tape_end(tape), "end");
  must(tn_tape_forget(tape), "forget");
  tn_tensor_release(last);
  return ns;
}

static tn_tape *make_tape(const chain *c, tn_tensor **watched) {
  int64_t one = 1;
  tn_tape *tape;
  *watched = bench_tensor(c->b, TN_F32, 1, &one);
  must(tn_tape_create(c->b->runtime, &tape), "tape");
  must(tn_tape_watch(tape, *watched), "watch");
  return tape;
}

static void time_tape(const chain *c, double *ns) {
  const int rounds = (int)bench_times(ROUNDS);
  double times[TAPE_WAYS][ROUNDS];
  tn_tensor *watched;
  tn_tape *tape = make_tape(c, &watched);
  for (int round = -2; round < rounds; ++round)
    for (int way = 0; way < TAPE_WAYS; ++way) {
      double took = tape_round(c, tape, watched, way);
      if (round >= 0) times[way][round] = took;
    }
  for (int way = 0; way < TAPE_WAYS; ++way) ns[way] = median(times[way], (size_t)rounds);
  tn_tape_destroy(tape);
  tn_tensor_release(watched);
}

static void loop_tape(const chain *c, int way, long count) {
  tn_tensor *watched;
  tn_tape *tape = make_tape(c, &watched);
  for (; count > 0; count -= RECORDED) tape_round(c, tape, watched, way);
  tn_tape_destroy(tape);
  tn_tensor_release(watched);
}

/* The median over rounds of one way, in nanoseconds a node; `ways` take turns. */
static void time_ways(chain *c, void (*const *ways)(chain *), size_t count, double *ns) {
  const int rounds = (int)bench_times(ROUNDS);
  double times[5][ROUNDS];
  const int repeats = (int)bench_times(c->b->host ? 100 : 10);
  for (int round = -2; round < rounds; ++round)
    for (size_t w = 0; w < count; ++w) {
      double began = now_ns();
      for (int i = 0; i < repeats; ++i) ways[w](c);
      must(tn_device_synchronize(c->b->device), "wait");
      if (round >= 0) times[w][round] = (now_ns() - began) / repeats / NODES;
    }
  for (size_t w = 0; w < count; ++w) ns[w] = median(times[w], (size_t)rounds);
}

static void measure(chain *c, double build_ns, double compile_ns) {
  void (*const ways[])(chain *) = {by_calls, by_prepared, by_program, by_singles, by_functions};
  double ns[5];
  time_ways(c, ways, 5, ns);
  const figure figures[] = {
      {"call_ns", ns[0]},           {"prepared_ns", ns[1]},           {"program_ns", ns[2]},
      {"build_us", build_ns / 1e3}, {"compile_us", compile_ns / 1e3}, {"record_ns", time_record(c)},
  };
  bench_row(c->b, "a node of 256", 6, figures);
  double tape[TAPE_WAYS];
  time_tape(c, tape);
  bench_row(c->b, "a call on a tape", 3,
            (figure[]){{"plain_ns", tape[PLAIN]},
                       {"taped_ns", tape[TAPED]},
                       {"unwatched_ns", tape[UNWATCHED]}});
  bench_row(c->b, "a program of one node", 1, (figure[]){{"run_ns", ns[3]}});
  bench_row(c->b, "a function of one node", 1, (figure[]){{"run_ns", ns[4]}});
}

static int loop(chain *c, const char *way, long count) {
  if (!strcmp(way, "record")) {
    for (; count > 0; count -= RECORDED) record(c, RECORDED);
    return 0;
  }
  if (!strcmp(way, "tape")) return loop_tape(c, TAPED, count), 0;
  if (!strcmp(way, "plain")) return loop_tape(c, PLAIN, count), 0;
  void (*call)(chain *) = !strcmp(way, "run")        ? by_program
                          : !strcmp(way, "single")   ? by_single
                          : !strcmp(way, "function") ? by_function
                                                     : NULL;
  for (long i = 0; call && i < count; ++i) call(c);
  if (!call) fprintf(stderr, "program: there is no way '%s'\n", way);
  return call ? 0 : 2;
}

static chain chain_make(bench *b, double *build_ns, double *compile_ns) {
  int64_t one = 1;
  double ignored;
  chain c = {.b = b, .x = bench_tensor(b, TN_F32, 1, &one)};
  for (int i = 0; i < NODES; ++i)
    must(tn_tensor_empty(b->device, TN_F32, 1, &one, &c.at[i]), "empty");
  prepare(&c);
  c.program = make_program(&c, NODES, build_ns, compile_ns);
  c.single = make_program(&c, 1, &ignored, &ignored);
  must(tn_function_create(b->runtime, b->device, "one", build_single, NULL, NULL, &c.function),
       "function");
  return c;
}

static void chain_free(chain *c) {
  for (int i = 0; i < NODES; ++i) {
    tn_prepared_release(c->calls[i]);
    tn_tensor_release(c->at[i]);
  }
  tn_program_destroy(c->program);
  tn_program_destroy(c->single);
  tn_function_destroy(c->function);
  tn_tensor_release(c->result);
  tn_tensor_release(c->single_result);
  tn_tensor_release(c->x);
}

int main(int argc, char **argv) {
  bool looping = argc == 4 && !strcmp(argv[1], "--loop");
  bench b = bench_begin("program", argc, argv, "--loop");
  double build_ns, compile_ns;
  chain c = chain_make(&b, &build_ns, &compile_ns);
  int result = 0;
  if (looping)
    result = loop(&c, argv[2], strtol(argv[3], NULL, 10));
  else
    measure(&c, build_ns, compile_ns);
  chain_free(&c);
  bench_end(&b);
  return result;
}
