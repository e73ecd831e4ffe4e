/* Running a chain: on the device with streams, prepared calls and outputs that are given; on the
 * reference line by line; and what both came to. */
#include "chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cases/number.h"

/* A chain at work on one device. */
typedef struct run {
  const chain *c;
  tn_device *device;
  bool plain; /* everything in its order, on the default stream, made by the calls */
  tn_stream *stream[STREAMS];
  tn_tensor *tensor[CHAIN_STEPS];
  tn_prepared *prepared[CHAIN_STEPS];
  known known[CHAIN_STEPS];
  tn_status status;
  uint32_t at;
} run;

/* Streams of a device that has none of its own are the default one. */
static void open_streams(run *r) {
  for (int s = 1; s < STREAMS && !r->plain; s++)
    if (tn_stream_create(r->device, &r->stream[s]) != TN_OK) r->stream[s] = NULL;
}

/* What a line reads or writes over may still be worked on in any other stream. */
static void order(run *r, uint32_t at) {
  tn_stream *mine = r->stream[r->c->line[at].stream];
  for (int s = 0; s < STREAMS && r->status == TN_OK && !r->plain; s++) {
    tn_stream *other = r->stream[s] ? r->stream[s] : tn_device_default_stream(r->device);
    tn_stream *me = mine ? mine : tn_device_default_stream(r->device);
    tn_event *event = NULL;
    if (other == me) continue;
    r->status = tn_event_create(r->device, &event);
    if (r->status == TN_OK) r->status = tn_event_record(event, other);
    if (r->status == TN_OK) r->status = tn_stream_wait_event(me, event);
    tn_event_destroy(event);
  }
}

static void make_new(run *r, uint32_t at) {
  const chain_line *l = &r->c->line[at];
  int64_t n = 1;
  for (int32_t k = 0; k < l->rank; k++) n *= l->shape[k];
  size_t size = tn_dtype_size(r->c->dtype);
  char *values = malloc((size_t)n * size + 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t number =
        (int64_t)(case_mix(r->c->seed ^ case_mix(at * 1000003u + (uint64_t)i)) % 7) - 3;
    if (number_is_float(r->c->dtype))
      number_encode(r->c->dtype, (double)number, values + (size_t)i * size);
    else
      number_encode_int(r->c->dtype, number, values + (size_t)i * size);
  }
  r->status =
      tn_tensor_from_host(r->device, r->c->dtype, l->rank, l->shape, values, &r->tensor[at]);
  free(values);
}

static void make_view(run *r, uint32_t at, line_kind kind) {
  const tn_tensor *x = r->tensor[r->c->line[at].in[0]];
  static const int32_t turned[] = {1, 0};
  int64_t n = tn_tensor_rank(x) ? tn_tensor_shape(x)[tn_tensor_rank(x) - 1] : 0;
  r->status = kind == KIND_TURN ? tn_tensor_permute(x, turned, &r->tensor[at])
                                : tn_tensor_slice(x, -1, 1, n / 2 * 2, 2, &r->tensor[at]);
}

/* A prepared call is run twice: it reads none of what it writes. */
static tn_status call_it(run *r, uint32_t at, const tn_call *call, uint8_t way) {
  if (way != WAY_PREPARED) return tn_invoke(call);
  tn_status status = tn_prepare(call, &r->prepared[at]);
  if (status == TN_OK) status = tn_run(r->prepared[at]);
  return status == TN_OK ? tn_run(r->prepared[at]) : status;
}

static void make_call(run *r, uint32_t at) {
  const chain_line *l = &r->c->line[at];
  uint8_t way = r->plain && l->way != WAY_IN_PLACE ? WAY_MADE : l->way;
  const known *y = &r->known[at];
  tn_sum_attrs sum = TN_SUM_DEFAULTS;
  const tn_tensor *in[3] = {NULL, NULL, NULL};
  uint16_t num_in = (uint16_t)chain_inputs(chain_calls[l->what].kind);
  for (uint16_t i = 0; i < num_in; i++) in[i] = r->tensor[l->in[i]];
  num_in += chain_calls[l->what].kind == KIND_MATMUL; /* its bias, which is left out */
  tn_call call = {.struct_size = sizeof call,
                  .op = chain_calls[l->what].op,
                  .in = in,
                  .out = &r->tensor[at],
                  .num_in = num_in,
                  .num_out = 1};
  call.stream = r->stream[l->stream];
  sum.axes.count = 1;
  sum.axes.axis[0] = -1;
  if (chain_calls[l->what].kind == KIND_SUM) call.attrs = &sum;
  if (way == WAY_IN_PLACE) {
    r->tensor[at] = r->tensor[l->in[0]];
    tn_tensor_retain(r->tensor[at]);
  } else if (way == WAY_GIVEN) {
    r->status =
        tn_tensor_empty_on(r->device, call.stream, r->c->dtype, y->rank, y->shape, &r->tensor[at]);
  }
  if (r->status == TN_OK) r->status = call_it(r, at, &call, way);
}

static void run_line(run *r, uint32_t at) {
  line_kind kind = chain_calls[r->c->line[at].what].kind;
  order(r, at);
  if (r->status != TN_OK) return;
  if (kind == KIND_NEW)
    make_new(r, at);
  else if (kind == KIND_SLICE || kind == KIND_TURN)
    make_view(r, at, kind);
  else if (kind == KIND_FREE)
    tn_tensor_release(r->tensor[r->c->line[at].in[0]]), r->tensor[r->c->line[at].in[0]] = NULL;
  else
    make_call(r, at);
}

/* Up to the first line that fails. */
static void run_lines(run *r) {
  const uint32_t count = r->c->count;
  for (uint32_t i = 0; i < count; i++) (void)chain_infer(r->c, i, r->known);
  open_streams(r);
  for (r->at = 0; r->at < count && r->status == TN_OK; r->at++) run_line(r, r->at);
  if (r->status == TN_OK) r->status = tn_device_synchronize(r->device);
}

static void close_run(run *r) {
  for (uint32_t i = 0; i < r->c->count; i++) {
    tn_prepared_release(r->prepared[i]);
    tn_tensor_release(r->tensor[i]);
  }
  for (int s = 1; s < STREAMS; s++) tn_stream_destroy(r->stream[s]);
}

static double *numbers_of(const tn_tensor *t) {
  int64_t n = tn_tensor_elements(t);
  void *bytes = malloc(tn_tensor_bytes(t) + 1);
  double *numbers = NULL;
  if (tn_tensor_to_host(t, bytes, tn_tensor_bytes(t)) == TN_OK) {
    numbers = malloc(((size_t)n + 1) * sizeof *numbers);
    for (int64_t i = 0; i < n; i++) {
      const char *at = (const char *)bytes + (size_t)i * tn_dtype_size(tn_tensor_dtype(t));
      numbers[i] = number_is_float(tn_tensor_dtype(t))
                       ? number_decode(tn_tensor_dtype(t), at)
                       : (double)number_decode_int(tn_tensor_dtype(t), at);
    }
  }
  free(bytes);
  return numbers;
}

static void say(fuzz_result *r, const run *on, const char *what) {
  char text[700];
  tn_device_info info = {.struct_size = sizeof info};
  if (r->why[0]) return;
  chain_write(on->c, text, sizeof text);
  tn_device_get_info(on->device, &info);
  snprintf(r->why, sizeof r->why, "%s: %s: %s", info.id, text, what);
  r->tally.failures++;
}

static void compare_line(const run *got, const run *want, uint32_t at, fuzz_result *r) {
  char what[200];
  if (!got->tensor[at] || !want->tensor[at]) return;
  double *a = numbers_of(got->tensor[at]), *b = numbers_of(want->tensor[at]);
  int64_t n = tn_tensor_elements(want->tensor[at]), i = 0;
  while (a && b && i < n && a[i] == b[i]) i++;
  if (!a || !b)
    say(r, got, tn_last_error());
  else if (i < n) {
    snprintf(what, sizeof what, "tensor %" PRIu32 ": element %" PRId64 " is %.17g, reference %.17g",
             at, i, a[i], b[i]);
    say(r, got, what);
  }
  free(a);
  free(b);
}

void chain_run(const workbench *w, const chain *c, fuzz_result *r) {
  run got = {.c = c, .device = w->device}, want = {.c = c, .device = w->reference, .plain = true};
  char what[300];
  run_lines(&want);
  if (want.status == TN_OK) run_lines(&got);
  const run *failed = want.status != TN_OK ? &want : got.status != TN_OK ? &got : NULL;
  bool lacks = failed == &got && got.status == TN_ERR_UNSUPPORTED;
  if (failed && !lacks) { /* a kernel that leaves out some calls may do so */
    snprintf(what, sizeof what, "line %" PRIu32 ": %s: %.200s", failed->at - 1,
             tn_status_name(failed->status), tn_last_error());
    say(r, failed, what);
  }
  for (uint32_t i = 0; !failed && i < c->count; i++) compare_line(&got, &want, i, r);
  close_run(&got);
  close_run(&want);
}
