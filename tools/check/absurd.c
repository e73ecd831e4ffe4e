/*
 * absurd DEVICE ROUNDS SEED [GLOB]: calls of every operator whose attributes, and now and then
 * sizes, are the ends of what their types hold. Each must end in a status, soon and without much
 * memory; where it fails nothing is made. For sanitizers, which see what a wrong sum does.
 */
#include <float.h>
#include <fnmatch.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cases/op_case.h"
#include "tenon/tenon.h"

enum { CALL_SECONDS = 20, MEMORY = 256 << 20 };

/* AddressSanitizer shall say no, as the C library does, where memory asked for is absurd. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static uint64_t state;
static uint64_t draw(uint64_t below) {
  state = case_mix(state);
  return state % below;
}

/* --- the call under way, for when it does not end --- */

static char under_way[1200];

static void too_long(int number) {
  static const char words[] = "\nthis call did not end in time:\n";
  (void)number;
  (void)!write(2, words, sizeof words - 1);
  (void)!write(2, under_way, strlen(under_way));
  _exit(1);
}

static void begin_call(const op_case *c) {
  case_describe(c, under_way, sizeof under_way);
  (void)alarm(CALL_SECONDS);
}

/* --- absurd numbers --- */

static int64_t whole(void) {
  static const int64_t ends[] = {INT64_MIN,
                                 INT64_MIN + 1,
                                 -((int64_t)1 << 53),
                                 -((int64_t)1 << 32),
                                 INT32_MIN - (int64_t)1,
                                 INT32_MIN,
                                 -2,
                                 -1,
                                 0,
                                 1,
                                 2,
                                 3,
                                 INT32_MAX - 1,
                                 INT32_MAX,
                                 (int64_t)INT32_MAX + 1,
                                 (int64_t)INT32_MAX + 2,
                                 (int64_t)1 << 32,
                                 (int64_t)1 << 53,
                                 (int64_t)1 << 62,
                                 INT64_MAX / 2,
                                 INT64_MAX - 1,
                                 INT64_MAX};
  return ends[draw(sizeof ends / sizeof *ends)];
}

static double real(void) {
  static const double ends[] = {NAN,    -INFINITY, INFINITY, DBL_MAX, -DBL_MAX, DBL_MIN,
                                1e-320, -0.,       0,        1,       -1,       0x1p31,
                                0x1p53, 0x1p63,    -0x1p63,  0x1p64,  1e300};
  return ends[draw(sizeof ends / sizeof *ends)];
}

static void spoil_list(int32_t *count, int64_t *dim, int32_t *axis) {
  *count = draw(4) ? (int32_t)draw(TN_MAX_RANK + 1) : (int32_t)whole();
  for (int i = 0; i < TN_MAX_RANK; i++) {
    if (dim && draw(2)) dim[i] = whole();
    if (axis) axis[i] = draw(3) ? (int32_t)draw(2 * TN_MAX_RANK) - TN_MAX_RANK : (int32_t)whole();
  }
}

static void spoil_attribute(op_case *c, const tn_attr *a) {
  void *at = c->attrs + a->offset;
  tn_dims *dims = at;
  tn_axes *axes = at;
  switch (a->type) {
  case TN_ATTR_F64:
    *(double *)at = real();
    break;
  case TN_ATTR_FLAG:
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
    *(int32_t *)at = draw(2) ? (int32_t)draw(16) : (int32_t)whole();
    break;
  case TN_ATTR_AXES:
    spoil_list(&axes->count, NULL, axes->axis);
    break;
  case TN_ATTR_DIMS:
    spoil_list(&dims->count, dims->dim, NULL);
    break;
  case TN_ATTR_TENSOR:
    break; /* what it points to is the program's word */
  case TN_ATTR_PAIR:
  case TN_ATTR_TRIPLE:
    ((int64_t *)at)[draw(a->type == TN_ATTR_PAIR ? 2 : 3)] = whole();
    break;
  default:
    *(int64_t *)at = whole();
  }
}

/* One axis becomes empty or single, and another one absurd where nothing is left of it. */
static void spoil_shape(op_case *c) {
  case_arg *a = &c->arg[draw(c->op->num_args)];
  if (a->rank == 0) return;
  a->shape[draw((uint64_t)a->rank)] = (int64_t)draw(3);
  int64_t *size = &a->shape[draw((uint64_t)a->rank)], absurd = whole();
  const bool empty = case_elements(a) == 0 && *size != 0;
  if (empty && absurd > 0) *size = absurd;
}

static void spoil(op_case *c) {
  for (uint64_t n = 1 + draw(3); n > 0; n--) {
    if (c->op->num_attrs && draw(8))
      spoil_attribute(c, &c->op->attrs[draw(c->op->num_attrs)]);
    else
      spoil_shape(c);
  }
}

/* --- calls --- */

typedef struct fuzz {
  tn_device *device;
  const tn_operator *op;
  uint64_t rounds, calls, taken, wrong;
  uint64_t seen; /* cases so far; kept: one of them, each as likely as the next */
  op_case kept;
} fuzz;

static void complain(fuzz *f, const op_case *c, const char *what) {
  char text[900];
  case_describe(c, text, sizeof text);
  printf("%s: %s: %s\n", text, what, tn_last_error());
  f->wrong++;
}

/* Only what the case's own numbers can fill, so that nothing large is written. */
static tn_tensor *place(fuzz *f, const op_case *c, uint32_t i) {
  tn_tensor *t = NULL;
  const case_arg *a = &c->arg[i];
  if (a->absent || arg_is_output(&c->op->args[i])) return NULL;
  if (tn_tensor_empty(f->device, case_dtype(c, i), a->rank, a->shape, &t) != TN_OK) return NULL;
  const size_t bytes = tn_tensor_bytes(t);
  void *data = calloc(bytes + 1, 1);
  if (data && bytes) (void)tn_tensor_write(NULL, t, data, bytes);
  free(data);
  return t;
}

static tn_status call(const tn_call *call, bool prepare) {
  tn_prepared *prepared = NULL;
  if (!prepare) return tn_invoke(call);
  tn_status status = tn_prepare(call, &prepared);
  if (status == TN_OK) status = tn_run(prepared);
  tn_prepared_release(prepared);
  return status;
}

/* A prepared call that fails when it runs has made its outputs. */
static void judge(fuzz *f, const op_case *c, tn_status status, tn_tensor *const *made, uint32_t n,
                  bool prepared) {
  f->calls++;
  f->taken += status == TN_OK;
  if (status != TN_OK && !*tn_last_error()) complain(f, c, "fails without a word");
  for (uint32_t i = 0; i < n; i++)
    if (status != TN_OK && !prepared && made[i]) complain(f, c, "fails and leaves an output");
}

static void try_call(fuzz *f, const op_case *c) {
  tn_tensor *t[CASE_ARGS] = {0}, *out[CASE_ARGS] = {0};
  const uint32_t num_in = op_inputs(c->op), num_out = c->op->num_args - num_in;
  const bool prepare = draw(4) == 0;
  tn_call made = {.struct_size = sizeof made, .op = c->op->id, .num_in = (uint16_t)num_in};
  begin_call(c);
  for (uint32_t i = 0; i < c->op->num_args; i++) t[i] = place(f, c, i);
  memcpy(out, t + num_in, num_out * sizeof *out);
  made.in = tn_inputs(t);
  made.out = out;
  made.num_out = (uint16_t)num_out;
  made.attrs = c->op->num_attrs ? c->attrs : NULL;
  for (uint32_t i = num_in; i < c->op->num_args; i++)
    if (c->arg[i].absent) made.skip_out |= 1u << (i - num_in);
  const tn_status status = call(&made, prepare);
  for (uint32_t i = 0; i < num_out; i++)
    if (out[i] == t[num_in + i]) out[i] = NULL; /* given */
  judge(f, c, status, out, num_out, prepare);
  for (uint32_t i = 0; i < c->op->num_args; i++) tn_tensor_release(t[i]);
  for (uint32_t i = 0; i < num_out; i++) tn_tensor_release(out[i]);
  (void)alarm(0);
}

/* --- operators --- */

static void keep(void *ctx, const op_case *c) {
  fuzz *f = ctx;
  int64_t most = 0;
  for (uint32_t i = 0; i < c->op->num_args; i++)
    if (case_elements(&c->arg[i]) > most) most = case_elements(&c->arg[i]);
  if (most <= 1000 && draw(++f->seen) == 0) f->kept = *c;
}

/* Element types at random, of those that the operator's type variables allow. */
static void draw_types(const tn_operator *op, tn_dtype *types) {
  for (int v = 0; v < TN_MAX_TYPE_VARS && op->types[v]; v++) {
    do types[v] = (tn_dtype)(1 + draw(TN_DTYPE_SLOTS - 1));
    while (!(op->types[v] >> types[v] & 1));
  }
}

static void try_operator(fuzz *f) {
  for (uint64_t round = 0; round < f->rounds; round++) {
    tn_dtype types[TN_MAX_TYPE_VARS] = {TN_DTYPE_NONE};
    draw_types(f->op, types);
    f->seen = 0;
    cases_emit(f->op, types, (case_sink){keep, f});
    for (int n = 0; f->seen && n < 8; n++) {
      op_case c = f->kept;
      spoil(&c);
      try_call(f, &c);
    }
  }
}

int main(int argc, char **argv) {
  tn_runtime *runtime;
  fuzz f = {.rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 10};
  tn_runtime_options options = {.struct_size = sizeof options, .device = argc > 1 ? argv[1] : NULL};
  options.num_threads = 2;
  options.log_level = TN_LOG_NONE + 1;
  options.memory_limit = MEMORY;
  (void)signal(SIGALRM, too_long);
  if (tn_runtime_open(&options, &runtime) != TN_OK) return fputs(tn_last_error(), stderr), 1;
  f.device = tn_runtime_device(runtime);
  for (size_t i = 0; i < tn_op_count(runtime); i++) {
    f.op = tn_op_at(runtime, i);
    state = (argc > 3 ? strtoull(argv[3], NULL, 10) : 0) ^ case_mix(f.op->id);
    if (argc < 5 || !fnmatch(argv[4], f.op->name, 0)) try_operator(&f);
  }
  printf("%llu calls, of which %llu were taken\n", (unsigned long long)f.calls,
         (unsigned long long)f.taken);
  tn_runtime_close(runtime);
  return f.wrong || !f.calls;
}
