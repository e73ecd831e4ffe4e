/*
 * Running a case: its inputs are drawn once, the reference computes what is expected
 * (in float64 where the operator allows), then each variant places the same numbers on
 * the device, calls the operator and compares outputs, guards and inputs.
 */
#include "run_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases/number.h"
#include "told.h"
#include "work.h"

bool tally_begin(tally *t, const op_case *c, const char *how) {
  return t->watch.before(t->watch.ctx, c, how);
}

void tally_fail(tally *t, const char *format, ...) {
  char text[1400];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  t->failures++;
  t->watch.failed(t->watch.ctx, text);
}

/* Keeps the error that came nearest to its bound. */
static void note_error(tally *t, const judgement *j) {
  double was = t->bound > 0 ? t->error / t->bound : 0;
  if (j->bound > 0 && j->error / j->bound >= was) t->error = j->error, t->bound = j->bound;
}

/* The type that the reference computes argument `arg` in. */
static tn_dtype want_dtype(const op_case *c, uint32_t arg) {
  tn_dtype dtype = case_dtype(c, arg);
  bool fixed = TN_TYPE_IS_FIXED(c->op->args[arg].type);
  bool is_wide = TN_SET(dtype) & TN_SET_FLOAT; /* 8-bit floats are what they are, as integers */
  return is_wide && !fixed && !compare_in_own_types(c->op) ? TN_F64 : dtype;
}

/* To the same type, or to float64. */
static void widen(tn_dtype from, const void *values, tn_dtype to, int64_t n, void *out) {
  if (from == to)
    memcpy(out, values, tn_dtype_size(from) * (size_t)n);
  else
    number_decode_all(from, values, n, out);
}

static void draw_values(work *w) {
  for (uint32_t i = 0; i < w->c->op->num_args; i++) {
    const case_arg *a = &w->c->arg[i];
    if (a->absent || arg_is_output(&w->c->op->args[i])) continue;
    w->values[i] = malloc((size_t)case_elements(a) * tn_dtype_size(case_dtype(w->c, i)) + 1);
    case_fill(w->c, i, w->values[i]);
  }
}

tn_call work_call(const work *w, const tn_tensor *const *in, tn_tensor **out) {
  tn_call call = {.struct_size = sizeof call,
                  .op = w->c->op->id,
                  .in = in,
                  .out = out,
                  .num_in = (uint16_t)w->num_in,
                  .num_out = (uint16_t)w->num_out};
  call.attrs = w->c->op->num_attrs ? w->c->attrs : NULL;
  for (uint32_t i = 0; i < w->num_out; i++)
    if (w->c->arg[w->num_in + i].absent) call.skip_out |= 1u << i;
  return call;
}

static tn_status to_reference(work *w, tn_device *reference, uint32_t arg, tn_tensor **t) {
  const case_arg *a = &w->c->arg[arg];
  tn_dtype dtype = want_dtype(w->c, arg);
  int64_t n = case_elements(a);
  void *wide = malloc((size_t)n * tn_dtype_size(dtype) + 1);
  widen(case_dtype(w->c, arg), w->values[arg], dtype, n, wide);
  tn_status status = tn_tensor_from_host(reference, dtype, a->rank, a->shape, wide, t);
  free(wide);
  return status;
}

static tn_status output_read(const tn_tensor *t, output *o) {
  o->dtype = tn_tensor_dtype(t);
  o->rank = tn_tensor_rank(t);
  o->elements = tn_tensor_elements(t);
  for (int32_t i = 0; i < o->rank; i++) o->shape[i] = tn_tensor_shape(t)[i];
  o->data = malloc(tn_tensor_bytes(t) + 1);
  return tn_tensor_to_host(t, o->data, tn_tensor_bytes(t));
}

static bool depends_on_data(const op_case *c) { return c->op->flags & TN_OPERATOR_DATA_DEPENDENT; }

/* Prepared calls leave outputs whose shape depends on data as large as they can be. */
static tn_status call_prepared(const tn_call *call, bool twice) {
  tn_prepared *prepared = NULL;
  tn_status status = tn_prepare(call, &prepared);
  if (status == TN_OK) status = tn_run(prepared);
  if (status == TN_OK && twice) status = tn_run(prepared);
  tn_prepared_release(prepared);
  return status;
}

tn_status work_call_ranked(work *w, const tn_call *call, const char *how, tally *t) {
  tn_prepared *prepared = NULL;
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  tn_status status = tn_prepare_candidate(call, w->rank, &prepared);
  w->ran = false;
  if (status == TN_OK) status = tn_prepared_kernel(prepared, &kernel);
  if (status == TN_OK && rows_find(t->rows, &kernel)) {
    rows_ran(t->rows, &kernel);
    w->ran = w->rank > 0;
  }
  /* Fewer kernels take the call, or that one wants its tensors row-major. */
  if (status == TN_ERR_UNSUPPORTED) status = TN_OK;
  if (w->ran) {
    snprintf(w->how, sizeof w->how, "%s, by %s", how, kernel.name);
    if (t->watch.now) t->watch.now(t->watch.ctx, w->how);
    status = tn_run(prepared);
  }
  tn_prepared_release(prepared);
  return status;
}

/* The type that an attribute asks for is no wider than the reference's, which it then keeps. */
static const void *reference_attrs(const work *w, unsigned char *attrs) {
  memcpy(attrs, w->c->attrs, sizeof w->c->attrs);
  const tn_attr *result = w->num_out ? case_result(w->c, w->num_in) : NULL;
  if (result && want_dtype(w->c, w->num_in) != case_dtype(w->c, w->num_in))
    memset(attrs + result->offset, 0, sizeof(int32_t));
  return w->c->op->num_attrs ? attrs : NULL;
}

/* Asks the reference; its own types where float64 would change the question. */
static tn_status ask_reference(work *w, tn_device *reference) {
  tn_tensor *t[CASE_ARGS] = {0};
  const tn_tensor *in[CASE_ARGS] = {0};
  _Alignas(16) unsigned char attrs[sizeof w->c->attrs];
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < w->c->op->num_args && status == TN_OK; i++)
    if (w->values[i]) status = to_reference(w, reference, i, &t[i]);
  for (uint32_t i = 0; i < w->num_in; i++) in[i] = t[i];
  if (status == TN_OK) {
    tn_call call = work_call(w, in, t + w->num_in);
    call.attrs = reference_attrs(w, attrs);
    status = depends_on_data(w->c) ? call_prepared(&call, false) : tn_invoke(&call);
  }
  for (uint32_t i = w->num_in; i < w->c->op->num_args && status == TN_OK; i++)
    if (t[i]) status = output_read(t[i], &w->want[i]);
  for (uint32_t i = 0; i < w->c->op->num_args; i++) tn_tensor_release(t[i]);
  return status;
}

static layout layout_of(uint32_t variant, bool is_output) {
  switch (variant) {
  case VARIANT_GIVEN:
    return LAYOUT_OFF_BY_ONE;
  case VARIANT_PERMUTED:
    return is_output ? LAYOUT_ROW_MAJOR : LAYOUT_REVERSED;
  case VARIANT_SLICED:
  case VARIANT_IN_PLACE_SLICED:
    return LAYOUT_SLICED;
  case VARIANT_CHANNELS_LAST:
    return LAYOUT_CHANNELS_LAST;
  case VARIANT_TRAPPED:
    return LAYOUT_TRAPPED;
  default:
    return LAYOUT_ROW_MAJOR;
  }
}

/* The input that output `arg` can be written over: same type, same shape, no stride 0. */
static int32_t input_to_share(const work *w, uint32_t arg) {
  const output *o = &w->want[arg];
  for (uint32_t i = 0; i < w->num_in; i++) {
    const case_arg *a = &w->c->arg[i];
    bool fits = w->values[i] && case_dtype(w->c, i) == case_dtype(w->c, arg) &&
                a->rank == o->rank &&
                !memcmp(a->shape, o->shape, sizeof *o->shape * (size_t)o->rank);
    if (fits) return (int32_t)i;
  }
  return -1;
}

static bool makes_outputs(uint32_t variant) { return variant == VARIANT_MADE; }
static bool in_place(uint32_t variant) { return (variant & VARIANTS_IN_PLACE) != 0; }

static tn_status place_input(work *w, uint32_t i, uint32_t variant) {
  const case_arg *a = &w->c->arg[i];
  bool expand = !makes_outputs(variant) && !in_place(variant);
  return placed_make(w->device, case_dtype(w->c, i), a->rank, a->shape,
                     layout_of(variant, i >= w->num_in), expand && i < w->num_in ? a->expanded : 0,
                     w->values[i], &w->at[i]);
}

static tn_status place_output(work *w, uint32_t i, uint32_t variant) {
  w->shares[i] = in_place(variant) && i == w->num_in ? input_to_share(w, i) : -1;
  if (w->c->arg[i].absent || w->shares[i] >= 0 || makes_outputs(variant)) return TN_OK;
  const output *o = &w->want[i];
  return placed_make(w->device, case_dtype(w->c, i), o->rank, o->shape, layout_of(variant, true), 0,
                     NULL, &w->at[i]);
}

static tn_status place_all(work *w, uint32_t variant) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < w->c->op->num_args && status == TN_OK; i++) {
    w->shares[i] = -1;
    if (w->values[i])
      status = place_input(w, i, variant);
    else if (i >= w->num_in)
      status = place_output(w, i, variant);
  }
  return status;
}

static bool updates(const tn_operator *op) {
  for (uint32_t i = 0; i < op->num_args; i++)
    if (op->args[i].kind == TN_ARG_INOUT && op->num_args > 1) return true;
  return false;
}

static tn_status call_as(work *w, const tn_call *call, uint32_t variant, bool ranked, tally *t) {
  if (ranked) return work_call_ranked(w, call, variant_name(variant), t);
  return variant == VARIANT_PREPARED ? call_prepared(call, !updates(w->c->op)) : tn_invoke(call);
}

/* Where the operator can be told to do nothing it is, first: what it does all the same shows in
 * what the call after it gives. */
static tn_status call_told(work *w, tn_call *call, uint32_t variant, bool ranked, tally *t) {
  told say;
  tn_status status = told_make(w->c, w->device, &say);
  if (status != TN_OK) return status;
  call->attrs = say.attrs;
  if (say.skip) {
    status = told_skip(&say, true);
    if (status == TN_OK) status = call_as(w, call, variant, ranked, t);
    if (status == TN_OK) status = told_skip(&say, false);
  }
  if (status == TN_OK) status = call_as(w, call, variant, ranked, t);
  told_free(&say);
  return status;
}

static tn_status call_device(work *w, uint32_t variant, bool ranked, tally *t) {
  const tn_tensor *in[CASE_ARGS] = {0};
  tn_tensor *out[CASE_ARGS] = {0};
  for (uint32_t i = 0; i < w->num_in; i++) in[i] = w->at[i].view;
  for (uint32_t i = w->num_in; i < w->c->op->num_args; i++)
    out[i - w->num_in] = w->shares[i] >= 0 ? w->at[w->shares[i]].view : w->at[i].view;
  tn_call call = work_call(w, in, out);
  tn_status status = variant == VARIANT_TOLD ? call_told(w, &call, variant, ranked, t)
                                             : call_as(w, &call, variant, ranked, t);
  for (uint32_t i = w->num_in; i < w->c->op->num_args; i++) {
    if (w->at[i].view || w->shares[i] >= 0 || !out[i - w->num_in]) continue;
    w->at[i].view = w->at[i].base = out[i - w->num_in];
    tn_tensor_retain(w->at[i].base);
  }
  return status;
}

void work_complain(const work *w, tally *t, const char *arg, const char *why) {
  char text[900];
  case_describe(w->c, text, sizeof text);
  tn_device_info info = {.struct_size = sizeof info};
  tn_device_get_info(w->device, &info);
  tally_fail(t, "%s (%s): %s: %s: %s", info.id, w->how, text, arg, why);
}

/* Reads argument `i` back; what the call made is row-major and has no guards. */
static tn_status read_back(const work *w, uint32_t i, output *o, bool *guarded) {
  const placed *p = &w->at[i];
  o->dtype = tn_tensor_dtype(p->view);
  o->rank = tn_tensor_rank(p->view);
  o->elements = tn_tensor_elements(p->view);
  for (int32_t k = 0; k < o->rank; k++) o->shape[k] = tn_tensor_shape(p->view)[k];
  o->data = malloc(tn_tensor_bytes(p->view) + 1);
  return placed_read(p, o->data, guarded);
}

/* The output's first rows, as many as the reference counted; the rest is anything. */
static void cut_output(const work *w, output *o) {
  int64_t count = *(const int64_t *)w->want[w->c->op->num_args - 1].data;
  o->elements = o->shape[0] ? o->elements / o->shape[0] * count : 0;
  o->shape[0] = count;
}

static bool same_type(const work *w, uint32_t i, const output *got, judgement *j) {
  const tn_dtype promised = case_dtype(w->c, i);
  if (got->dtype == promised) return true;
  snprintf(j->why, sizeof j->why, "its elements are %s, not %s", tn_dtype_name(got->dtype),
           tn_dtype_name(promised));
  return false;
}

static void check_output(work *w, uint32_t i, uint32_t variant, tally *t) {
  output got = {0};
  bool guarded = true;
  judgement j = {.why = "missing"};
  uint32_t at = w->shares[i] >= 0 ? (uint32_t)w->shares[i] : i;
  bool ok = w->at[at].view && read_back(w, at, &got, &guarded) == TN_OK;
  if (w->at[at].view && !ok) snprintf(j.why, sizeof j.why, "%s", tn_last_error());
  output want = w->want[i];
  if (depends_on_data(w->c) && i + 1 < w->c->op->num_args) {
    cut_output(w, &want);
    /* Prepared calls cut nothing. */
    if (ok && (variant != VARIANT_MADE || w->rank)) cut_output(w, &got);
  }
  ok = ok && same_type(w, i, &got, &j) && compare_outputs(w->c, &got, &want, &j);
  note_error(t, &j);
  if (!ok)
    work_complain(w, t, w->c->op->args[i].name, j.why);
  else if (!guarded)
    work_complain(w, t, w->c->op->args[i].name, "wrote outside the output");
  free(got.data);
}

/* Inputs must come back as they went, unless an output was put over them. */
static void check_input(const work *w, uint32_t i, tally *t) {
  output got = {0};
  bool guarded = true;
  for (uint32_t k = w->num_in; k < w->c->op->num_args; k++)
    if (w->shares[k] == (int32_t)i) return;
  if (read_back(w, i, &got, &guarded) != TN_OK)
    work_complain(w, t, w->c->op->args[i].name, tn_last_error());
  else if (!guarded || memcmp(got.data, w->values[i], tn_tensor_bytes(w->at[i].view)))
    work_complain(w, t, w->c->op->args[i].name, "the call changed its input");
  free(got.data);
}

static void check_arguments(work *w, uint32_t variant, tally *t) {
  for (uint32_t i = 0; i < w->c->op->num_args; i++) {
    if (i < w->num_in && w->at[i].view) check_input(w, i, t);
    if (i >= w->num_in && !w->c->arg[i].absent) check_output(w, i, variant, t);
  }
}

/* A kernel that takes a call has no right to refuse it afterwards. */
static bool was_taken(const work *w) {
  const tn_tensor *in[CASE_ARGS] = {0};
  tn_tensor *out[CASE_ARGS] = {0};
  for (uint32_t i = 0; i < w->num_in; i++) in[i] = w->at[i].view;
  for (uint32_t i = w->num_in; i < w->c->op->num_args; i++) out[i - w->num_in] = w->at[i].view;
  tn_call call = work_call(w, in, out);
  tn_prepared *prepared = NULL;
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  const bool made = tn_prepare(&call, &prepared) == TN_OK;
  const bool taken = made && tn_prepared_kernel(prepared, &kernel) == TN_OK;
  tn_prepared_release(prepared);
  for (uint32_t i = w->num_in; made && i < w->c->op->num_args; i++)
    if (!w->at[i].view) tn_tensor_release(out[i - w->num_in]);
  return taken;
}

static void run_variant(work *w, uint32_t variant, tally *t) {
  char why[300];
  if (!tally_begin(t, w->c, variant_name(variant))) return;
  snprintf(w->how, sizeof w->how, "%s", variant_name(variant));
  tn_status status = place_all(w, variant);
  if (status == TN_OK) status = call_device(w, variant, false, t);
  t->runs++;
  snprintf(why, sizeof why, "%s", status != TN_OK ? tn_last_error() : "");
  if (status == TN_ERR_UNSUPPORTED && !w->host && !(variant == VARIANT_MADE && was_taken(w)))
    t->unsupported++;
  else if (status != TN_OK)
    work_complain(w, t, tn_status_name(status), why);
  if (status == TN_OK) check_arguments(w, variant, t);
  for (uint32_t i = 0; i < w->c->op->num_args; i++) placed_free(&w->at[i]);
}

static void run_ranked(work *w, uint32_t variant, tally *t) {
  snprintf(w->how, sizeof w->how, "%s", variant_name(variant));
  tn_status status = place_all(w, variant);
  if (status == TN_OK) status = call_device(w, variant, true, t);
  t->runs += w->ran;
  if (status != TN_OK)
    work_complain(w, t, tn_status_name(status), tn_last_error());
  else if (w->ran)
    check_arguments(w, variant, t);
  for (uint32_t i = 0; i < w->c->op->num_args; i++) placed_free(&w->at[i]);
}

/* Whether some output can stand in an input's place in this case. */
static bool can_share(work *w) {
  return w->num_in && w->c->op->flags & TN_OPERATOR_ELEMENTWISE && w->num_in < w->c->op->num_args &&
         w->c->op->args[w->num_in].kind == TN_ARG_OUT && input_to_share(w, w->num_in) >= 0;
}

/* Whether tensors can be wrapped around memory that ends at a page that traps: the device
 * is the one that imports go to, and its memory the host's. */
static bool can_trap(const work *w) {
  int64_t most = 0;
  if (!w->host || tn_runtime_device(tn_device_runtime(w->device)) != w->device) return false;
  for (uint32_t i = 0; i < w->c->op->num_args; i++) {
    int64_t n = w->values[i] ? case_elements(&w->c->arg[i]) : w->want[i].elements;
    if (n > most) most = n;
  }
  return most <= 1 << 20;
}

static bool is_host(tn_device *device) {
  tn_device_info info = {.struct_size = sizeof info};
  return tn_device_get_info(device, &info) == TN_OK && info.host_memory;
}

static bool variant_fits(work *w, uint32_t v) {
  if (v == VARIANT_TRAPPED) return can_trap(w);
  return w->c->variants & v && (!in_place(v) || can_share(w));
}

/* The ways but `made` by turns; 0 where the case has no other. */
static uint32_t variant_in_turn(work *w, uint64_t number) {
  uint32_t fits[VARIANTS], count = 0;
  for (uint32_t v = VARIANT_GIVEN; v < 1u << VARIANTS; v <<= 1)
    if (v != VARIANT_PREPARED && variant_fits(w, v)) fits[count++] = v;
  return count ? fits[number % count] : 0;
}

/* The kernels that a call gets when its tensors lie in this way. The first has run already, but
 * only preparing the call tells which it was. */
static void run_ranks(work *w, uint32_t variant, uint32_t ranks, tally *t) {
  for (w->rank = 0; w->rank < ranks; w->rank++) run_ranked(w, variant, t);
}

/* The case by every kernel that takes it, best or not: as its outputs are made, and in one more
 * way; in all ways as long as there are kernels that no case ran, for which the layout may matter.
 * All of it counts as one run, since how much there is to do depends on what was done before. */
static void run_rows(work *w, tally *t) {
  const row_list *rows = t->rows;
  if (!rows || !rows->wanted || rows->plain) return;
  if (!tally_begin(t, w->c, "by each kernel in turn")) return;
  if (rows->ranks == 1 && rows_all_ran(rows)) return;
  run_ranks(w, VARIANT_MADE, rows->ranks, t);
  const uint32_t other = variant_in_turn(w, t->number);
  if (other) run_ranks(w, other, rows->ranks, t);
  for (uint32_t v = VARIANT_GIVEN; v < 1u << VARIANTS && !rows_all_ran(rows); v <<= 1)
    if (v != other && v != VARIANT_PREPARED && variant_fits(w, v)) run_ranks(w, v, 1, t);
}

bool case_declined(const op_case *c, tn_status status) {
  return (c->invented || c->op->shape == TN_SHAPE_CUSTOM) && status == TN_ERR_INVALID_ARGUMENT;
}

static case_again begin_reference(tally *t, const op_case *c) {
  if (t->watch.again) return t->watch.again(t->watch.ctx, c, "reference");
  return tally_begin(t, c, "reference") ? RUN_FIRST : RUN_NOT;
}

void run_case(const op_case *c, tn_device *device, tn_device *reference, tally *t) {
  work w = {.c = c, .device = device, .num_in = op_inputs(c->op)};
  w.num_out = c->op->num_args - w.num_in;
  w.host = is_host(device);
  snprintf(w.how, sizeof w.how, "reference");
  const case_again run = begin_reference(t, c);
  if (run == RUN_NOT) return;
  draw_values(&w);
  tn_status status = ask_reference(&w, reference);
  if (case_declined(c, status)) {
    if (!t->declined++) snprintf(t->reason, sizeof t->reason, "%s", tn_last_error());
  } else if (status != TN_OK && run == RUN_FIRST)
    work_complain(&w, t, "reference", tn_last_error());
  t->cases += !case_declined(c, status);
  for (uint32_t v = 1; status == TN_OK && v < 1u << VARIANTS; v <<= 1)
    if (variant_fits(&w, v)) run_variant(&w, v, t);
  if (status == TN_OK) run_rows(&w, t);
  if (status == TN_OK) long_calls(&w, t);
  for (uint32_t i = 0; i < c->op->num_args; i++) {
    free(w.values[i]);
    free(w.want[i].data);
  }
}
