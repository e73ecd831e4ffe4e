/*
 * Timing one call. Figures are medians over rounds, so that a disturbed round does not
 * count; a round is long enough for the clock and ends when the device has done its work.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "check.h"

enum { ROUNDS = 11 };
static const double BUDGET_NS = 6e7;

struct job {
  tn_device *device;
  tn_tensor *arg[CASE_ARGS]; /* inputs, in-out arguments, outputs */
  const tn_tensor *in[CASE_ARGS];
  bool updated[CASE_ARGS]; /* read and written in full */
  uint32_t num_args;
  tn_call call;
  _Alignas(16) unsigned char attrs[256];
};

static tn_status place(job *j, const op_case *c, uint32_t i) {
  if (c->arg[i].absent || arg_is_output(&c->op->args[i])) return TN_OK;
  return bench_input(j->device, c, i, &j->arg[i]);
}

/* Operators without inputs write what they are given. */
static tn_status place_given(job *j, const op_case *c, uint32_t i) {
  const case_arg *a = &c->arg[i];
  bool given = c->op->shape == TN_SHAPE_GIVEN && arg_is_output(&c->op->args[i]);
  if (!given || a->absent) return TN_OK;
  return tn_tensor_empty(j->device, case_dtype(c, i), a->rank, a->shape, &j->arg[i]);
}

static tn_status set_up(job *j, const op_case *c) {
  uint32_t num_in = op_inputs(c->op);
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < j->num_args && status == TN_OK; i++) status = place(j, c, i);
  for (uint32_t i = num_in; i < j->num_args && status == TN_OK; i++)
    if (!j->arg[i]) status = place_given(j, c, i);
  if (status != TN_OK) return status;
  memcpy(j->attrs, c->attrs, sizeof j->attrs);
  for (uint32_t i = 0; i < num_in; i++) j->in[i] = j->arg[i];
  j->call = (tn_call){.struct_size = sizeof j->call, .op = c->op->id, .in = j->in};
  j->call.out = j->arg + num_in;
  j->call.attrs = c->op->num_attrs ? j->attrs : NULL;
  j->call.num_in = (uint16_t)num_in;
  j->call.num_out = (uint16_t)(j->num_args - num_in);
  for (uint32_t i = num_in; i < j->num_args; i++)
    if (c->arg[i].absent) j->call.skip_out |= 1u << (i - num_in);
  if (!(c->op->flags & TN_OPERATOR_DATA_DEPENDENT)) return tn_invoke(&j->call);
  tn_prepared *prepared = NULL; /* makes outputs of the largest shape, which calls then take */
  status = tn_prepare(&j->call, &prepared);
  tn_prepared_release(prepared);
  return status == TN_OK ? tn_invoke(&j->call) : status;
}

/* Scatters leave most of what they write to as it is, and what is filled is not read. */
static bool is_updated(const tn_operator *op, const tn_arg *arg) {
  const bool fills = op->shape == TN_SHAPE_GIVEN || op->flags & TN_OPERATOR_RANDOM;
  const bool whole = op->flags & TN_OPERATOR_ELEMENTWISE || op->shape == TN_SHAPE_UPDATE_LISTS ||
                     op->shape == TN_SHAPE_SCALARS;
  return arg->kind == TN_ARG_INOUT && whole && !fills;
}

job *job_make(const bench *b, const op_case *c) {
  job *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->device = b->device;
  j->num_args = c->op->num_args;
  for (uint32_t i = 0; i < j->num_args; i++) j->updated[i] = is_updated(c->op, &c->op->args[i]);
  if (set_up(j, c) == TN_OK) return j;
  job_free(j);
  return NULL;
}

void job_free(job *j) {
  for (uint32_t i = 0; j && i < j->num_args; i++) tn_tensor_release(j->arg[i]);
  free(j);
}

const char *job_kernel(job *j) {
  tn_prepared *prepared = NULL;
  tn_kernel_info info = {.struct_size = sizeof info, .name = ""};
  if (tn_prepare(&j->call, &prepared) == TN_OK) (void)tn_prepared_kernel(prepared, &info);
  tn_prepared_release(prepared);
  return info.name;
}

double job_bytes(const job *j) {
  double bytes = 0;
  for (uint32_t i = 0; i < j->num_args; i++)
    bytes += j->arg[i] ? (j->updated[i] ? 2.0 : 1.0) * (double)tn_tensor_bytes(j->arg[i]) : 0;
  return bytes;
}

tn_status job_run(job *j) {
  const tn_status status = tn_invoke(&j->call);
  return status == TN_OK ? tn_device_synchronize(j->device) : status;
}

/* Nanoseconds of `calls` calls, device and all; -1 when one fails. */
static double round_ns(const job *j, int64_t calls) {
  uint64_t began = clock_ns();
  for (int64_t i = 0; i < calls; i++)
    if (tn_invoke(&j->call) != TN_OK) return -1;
  if (tn_device_synchronize(j->device) != TN_OK) return -1;
  return (double)(clock_ns() - began);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

timing job_time(job *j) {
  double rounds[ROUNDS];
  if (round_ns(j, 2) < 0) return (timing){0};
  double once = round_ns(j, 1);
  int64_t calls = (int64_t)(BUDGET_NS / ROUNDS / (once > 1 ? once : 1)) + 1;
  size_t count = once > BUDGET_NS ? 1 : once > BUDGET_NS / 5 ? 3 : ROUNDS;
  for (size_t i = 0; i < count; i++) rounds[i] = round_ns(j, calls) / (double)calls;
  qsort(rounds, count, sizeof *rounds, by_value);
  if (rounds[0] < 0) return (timing){0}; /* a round failed */
  return (timing){rounds[0], rounds[count / 2], rounds[count - 1]};
}
