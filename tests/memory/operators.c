/*
 * operators DEVICE [GLOB]: every operator, in one of the conformance kit's cases, while request 1
 * for memory fails, then 2, and so on until the call is through; each alone, and with all after
 * it. The call must succeed or say that memory ran out, leave no output behind where it fails,
 * and work again afterwards.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "tenon/tenon.h"
#include "tools/check/cases/op_case.h"

/* Requests of one call at the most: more would mean that it never comes to an end. Operators of
 * the fixture have no part in this. */
enum { REQUESTS_MAX = 500, FIRST_OF_PLUGINS = 512 };

typedef struct search {
  op_case kept;
  bool found;
} search;

typedef struct trial {
  tn_device *device;
  const op_case *c;
  tn_tensor *given[CASE_ARGS];
  tn_tensor *out[CASE_ARGS];
  uint32_t num_in, num_out;
  tn_call call;
} trial;

static uint64_t points, refused, failures, operators;

/* The first plain case whose tensors are small. */
static void keep_first(void *ctx, const op_case *c) {
  search *s = ctx;
  bool small = true;
  for (uint32_t i = 0; i < c->op->num_args; i++) small &= case_elements(&c->arg[i]) <= 4096;
  if (s->found || !small || !case_elements(&c->arg[0])) return;
  s->kept = *c;
  s->found = true;
}

static tn_tensor *place(const trial *t, uint32_t i) {
  tn_tensor *made = NULL;
  const case_arg *a = &t->c->arg[i];
  if (a->absent || arg_is_output(&t->c->op->args[i])) return NULL;
  if (tn_tensor_empty(t->device, case_dtype(t->c, i), a->rank, a->shape, &made)) return NULL;
  const size_t bytes = tn_tensor_bytes(made);
  void *data = calloc(bytes + 1, 1);
  if (data && bytes) case_fill(t->c, i, data);
  if (data && bytes) (void)tn_tensor_write(NULL, made, data, bytes);
  free(data);
  return made;
}

static void prepare_trial(trial *t) {
  const tn_operator *op = t->c->op;
  t->num_in = op_inputs(op);
  t->num_out = op->num_args - t->num_in;
  for (uint32_t i = 0; i < op->num_args; i++) t->given[i] = place(t, i);
  t->call = (tn_call){.struct_size = sizeof t->call,
                      .op = op->id,
                      .in = (const tn_tensor *const *)(const void *)t->given,
                      .out = t->out,
                      .attrs = op->num_attrs ? t->c->attrs : NULL,
                      .num_in = (uint16_t)t->num_in,
                      .num_out = (uint16_t)t->num_out};
  for (uint32_t i = 0; i < t->num_out; i++)
    if (t->c->arg[t->num_in + i].absent) t->call.skip_out |= 1u << i;
}

/* Gives back what the last call made. */
static void clear_outputs(trial *t) {
  for (uint32_t i = 0; i < t->num_out; i++) {
    tn_tensor *given = t->given[t->num_in + i];
    if (t->out[i] != given) tn_tensor_release(t->out[i]);
    t->out[i] = given;
  }
}

static bool made_any(const trial *t) {
  for (uint32_t i = 0; i < t->num_out; i++)
    if (t->out[i] != t->given[t->num_in + i]) return true;
  return false;
}

static void complain(const trial *t, fault_mode mode, long point, const char *what) {
  char text[600];
  case_describe(t->c, text, sizeof text);
  printf("%s: request %ld fails %s: %s (%s)\n", text, point,
         mode == FAULT_ONCE ? "once" : "and all after it", what, tn_last_error());
  ++failures;
}

/* Whether the request failed at all: false once the call needs fewer. */
static bool try_point(trial *t, fault_mode mode, long point) {
  clear_outputs(t);
  (void)tn_device_trim(t->device); /* so that the pool has to ask */
  fault_set(mode, point);
  const tn_status status = tn_invoke(&t->call);
  const bool failed = fault_failed() > 0;
  fault_set(FAULT_OFF, 0);
  ++points;
  refused += status != TN_OK;
  if (status && status != TN_ERR_OUT_OF_MEMORY && status != TN_ERR_DEVICE_OUT_OF_MEMORY)
    complain(t, mode, point, tn_status_name(status));
  if (status && made_any(t)) complain(t, mode, point, "an output is left");
  return failed;
}

static void try_mode(trial *t, fault_mode mode) {
  long point = 1;
  while (point < REQUESTS_MAX && try_point(t, mode, point)) ++point;
  if (point == REQUESTS_MAX) complain(t, mode, point, "the call asks without end");
  clear_outputs(t);
  if (tn_invoke(&t->call)) complain(t, mode, 0, "it does not work afterwards");
  clear_outputs(t);
}

static void try_operator(tn_device *device, const tn_operator *op) {
  tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
  search s = {.found = false};
  for (int v = 0; v < TN_MAX_TYPE_VARS && op->types[v]; v++)
    types[v] = op->types[v] >> TN_F32 & 1 ? TN_F32 : (tn_dtype)__builtin_ctz(op->types[v]);
  cases_emit(op, types, (case_sink){keep_first, &s});
  if (!s.found) return;
  trial t = {.device = device, .c = &s.kept};
  prepare_trial(&t);
  clear_outputs(&t);
  if (tn_invoke(&t.call) == TN_OK) {
    ++operators;
    try_mode(&t, FAULT_ONCE);
    try_mode(&t, FAULT_FOR_GOOD);
  } else {
    complain(&t, FAULT_OFF, 0, "the case itself");
  }
  clear_outputs(&t);
  for (uint32_t i = 0; i < t.num_in + t.num_out; i++) tn_tensor_release(t.given[i]);
}

int main(int argc, char **argv) {
  tn_runtime *runtime;
  const tn_runtime_options options = {.struct_size = sizeof options,
                                      .device = argc > 1 ? argv[1] : NULL,
                                      .plugin_path =
                                          LAZY_PLUGIN, /* devices without kernels: all falls back */
                                      .fallback = TN_FALLBACK_ALLOW,
                                      .num_threads = 2,
                                      .log_level = 1 + TN_LOG_NONE,
                                      .scan = TN_SCAN_OFF,
                                      .allocator = &fault_allocator};
  if (tn_runtime_open(&options, &runtime)) return fputs(tn_last_error(), stderr), 2;
  const size_t count = tn_op_count(runtime);
  for (size_t i = 0; i < count; i++) {
    const tn_operator *op = tn_op_at(runtime, i);
    if (op->id < FIRST_OF_PLUGINS && (argc < 3 || !fnmatch(argv[2], op->name, 0)))
      try_operator(tn_runtime_device(runtime), op);
  }
  tn_runtime_close(runtime);
  printf("%llu operators, %llu points, %llu times out of memory, %llu failures\n",
         (unsigned long long)operators, (unsigned long long)points, (unsigned long long)refused,
         (unsigned long long)failures);
  if (fault_live()) printf("%ld blocks of the allocator are left\n", fault_live());
  return failures || fault_live() || !refused;
}
