/*
 * Chains: several calls on the same tensors, in several streams, in place, prepared, through
 * views, with tensors released while work on them is pending. The numbers are small whole ones
 * and stay so small that every type holds them: whatever the order of sums, device and reference
 * must agree in every bit.
 *
 *   chain f32 seed=7; 0 = new [3,4]; 1 = neg 0 @1 prepared; 2 = add 0 1; 3 = free 1
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cases/number.h"
#include "fuzz.h"

enum { STREAMS = 3 };
enum { WAY_MADE, WAY_GIVEN, WAY_PREPARED, WAY_IN_PLACE, WAYS };
static const char *const way_names[WAYS] = {"", "given", "prepared", "in-place"};

/* What a line does. */
typedef enum line_kind {
  KIND_NEW,
  KIND_UNARY,
  KIND_BINARY,
  KIND_SUM,
  KIND_MATMUL,
  KIND_SLICE,
  KIND_TURN,
  KIND_FREE
} line_kind;

static const struct {
  const char *name;
  line_kind kind;
  uint32_t op;
} table[] = {
    {"new", KIND_NEW, 0},
    {"neg", KIND_UNARY, TN_OP_NEG},
    {"abs", KIND_UNARY, TN_OP_ABS},
    {"relu", KIND_UNARY, TN_OP_RELU},
    {"copy", KIND_UNARY, TN_OP_COPY},
    {"add", KIND_BINARY, TN_OP_ADD},
    {"sub", KIND_BINARY, TN_OP_SUB},
    {"mul", KIND_BINARY, TN_OP_MUL},
    {"maximum", KIND_BINARY, TN_OP_MAXIMUM},
    {"minimum", KIND_BINARY, TN_OP_MINIMUM},
    {"sum", KIND_SUM, TN_OP_SUM},
    {"matmul", KIND_MATMUL, TN_OP_MATMUL},
    {"slice", KIND_SLICE, 0},
    {"turn", KIND_TURN, 0},
    {"free", KIND_FREE, 0},
};
enum { TABLE = sizeof table / sizeof *table };

/* What is known of a line's tensor before anything runs. */
typedef struct known {
  bool there; /* a tensor, not freed yet */
  int32_t rank;
  int64_t shape[2];
  double most;   /* no element is larger */
  uint32_t root; /* the line whose memory it is */
  bool is_view;
} known;

/* Whole numbers up to this are exact, and so are their sums. */
static double exact_to(tn_dtype dtype) {
  if (dtype == TN_F16) return 1024;
  if (dtype == TN_BF16) return 128;
  if (dtype == TN_F32 || dtype == TN_F64) return 4194304;
  return number_is_signed(dtype) ? (double)number_max_int(dtype) / 2 : 0;
}

static double max_of(double a, double b) { return a > b ? a : b; }

/* The shape that both broadcast to. */
static bool broadcast(const known *a, const known *b, known *y) {
  y->rank = a->rank > b->rank ? a->rank : b->rank;
  for (int32_t k = 1; k <= y->rank; k++) {
    int64_t of_a = k <= a->rank ? a->shape[a->rank - k] : 1;
    int64_t of_b = k <= b->rank ? b->shape[b->rank - k] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    y->shape[y->rank - k] = of_a == 1 ? of_b : of_a;
  }
  return true;
}

static bool infer_binary(const chain_line *l, const known *a, const known *b, known *y) {
  bool product = table[l->what].op == TN_OP_MUL;
  y->most = product ? a->most * b->most : a->most + b->most;
  return broadcast(a, b, y);
}

static bool infer_matmul(const known *a, const known *b, known *y) {
  if (a->rank != 2 || b->rank != 2 || a->shape[1] != b->shape[0]) return false;
  *y = (known){.rank = 2, .shape = {a->shape[0], b->shape[1]}};
  y->most = max_of(a->most, 1) * max_of(b->most, 1) * (double)max_of((double)a->shape[1], 1);
  return true;
}

/* Along the last axis, which goes. */
static bool infer_sum(const known *a, known *y) {
  if (a->rank == 0) return false;
  *y = (known){.rank = a->rank - 1, .shape = {a->shape[0]}};
  y->most = max_of(a->most, 1) * max_of((double)a->shape[a->rank - 1], 1);
  return true;
}

/* Every second element of the last axis, but for the first; and the axes the other way round. */
static bool infer_view(line_kind kind, const known *a, known *y) {
  if (kind == KIND_TURN && a->rank != 2) return false;
  if (kind == KIND_SLICE && (a->rank == 0 || a->shape[a->rank - 1] < 2)) return false;
  *y = *a;
  y->is_view = true;
  if (kind == KIND_SLICE) y->shape[y->rank - 1] /= 2;
  if (kind == KIND_TURN) y->shape[0] = a->shape[1], y->shape[1] = a->shape[0];
  return true;
}

static bool same_shape(const known *a, const known *b) {
  return a->rank == b->rank && !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank);
}

static bool shares_memory(const known *all, uint32_t root, uint32_t upto, uint32_t but) {
  for (uint32_t i = 0; i < upto; i++)
    if (i != but && all[i].there && all[i].root == root) return true;
  return false;
}

/* In place a call writes over its first input, whose line it takes over; no view of that may be
 * alive, whose numbers would change. */
static bool infer_in_place(const chain *c, uint32_t at, known *all) {
  uint32_t over = (uint32_t)c->line[at].in[0];
  const int8_t second = c->line[at].in[1];
  line_kind what = table[c->line[at].what].kind;
  if (what != KIND_UNARY && what != KIND_BINARY) return false;
  if (!same_shape(&all[at], &all[over])) return false;
  if (shares_memory(all, all[over].root, at, over)) return false;
  if (second >= 0 && (uint32_t)second == over && what == KIND_BINARY) return false;
  all[at].root = all[over].root;
  all[at].is_view = all[over].is_view;
  all[over].there = false;
  return true;
}

static uint32_t inputs_of(line_kind kind) {
  return kind == KIND_NEW ? 0 : kind == KIND_BINARY || kind == KIND_MATMUL ? 2 : 1;
}

/* Whether line `at` makes sense behind those before it; says what comes of it. */
static bool infer(const chain *c, uint32_t at, known *all) {
  const chain_line *l = &c->line[at];
  line_kind kind = table[l->what].kind;
  known *y = &all[at];
  const known *in[2] = {NULL, NULL};
  *y = (known){0};
  for (uint32_t i = 0; i < inputs_of(kind); i++) {
    if (l->in[i] < 0 || (uint32_t)l->in[i] >= at || !all[l->in[i]].there) return false;
    in[i] = &all[l->in[i]];
  }
  bool ok = true;
  if (kind == KIND_FREE) return all[l->in[0]].there = false, true;
  if (kind == KIND_NEW)
    *y = (known){.rank = l->rank, .shape = {l->shape[0], l->shape[1]}, .most = 3};
  if (kind == KIND_UNARY) *y = *in[0], y->is_view = false;
  if (kind == KIND_BINARY) ok = infer_binary(l, in[0], in[1], y);
  if (kind == KIND_MATMUL) ok = infer_matmul(in[0], in[1], y);
  if (kind == KIND_SUM) ok = infer_sum(in[0], y);
  if (kind == KIND_SLICE || kind == KIND_TURN) ok = infer_view(kind, in[0], y);
  y->there = ok;
  y->root = ok && y->is_view ? in[0]->root : at;
  if (!ok || y->most > exact_to(c->dtype)) return false;
  return l->way != WAY_IN_PLACE || infer_in_place(c, at, all);
}

static bool is_sound(const chain *c) {
  known all[CHAIN_STEPS];
  for (uint32_t i = 0; i < c->count; i++)
    if (!infer(c, i, all)) return false;
  return c->count > 0;
}

/* --- making one up --- */

static bool has_kernel(tn_device *device, uint32_t op, tn_dtype dtype) {
  tn_kernel_info info = {.struct_size = sizeof info};
  return op == 0 || tn_kernel_find(device, op, dtype, 0, &info) == TN_OK;
}

static bool is_wanted(const workbench *w, tn_dtype dtype) {
  const tn_dtype types[TN_MAX_TYPE_VARS] = {dtype};
  return unit_takes_types(w->options, types);
}

static void draw_new(chain_line *l, uint64_t *state) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 17, 33, 64, 129, 1000};
  static const uint32_t usual[2] = {2, 4}; /* of each chain few sizes, so that tensors fit */
  l->rank = 1 + (int32_t)fuzz_below(state, 2);
  for (int k = 0; k < l->rank; k++)
    l->shape[k] = sizes[fuzz_below(state, 4) ? usual[fuzz_below(state, 2)] : fuzz_below(state, 11)];
}

static void draw_line(chain *c, const workbench *w, uint64_t *state) {
  chain_line *l = &c->line[c->count];
  known all[CHAIN_STEPS];
  for (int tries = 0; tries < 30; tries++) {
    *l = (chain_line){.in = {-1, -1}};
    l->what = c->count < 2 ? 0 : (uint8_t)fuzz_below(state, TABLE);
    if (!has_kernel(w->device, table[l->what].op, c->dtype)) continue;
    l->stream = (uint8_t)fuzz_below(state, STREAMS);
    if (table[l->what].op && fuzz_below(state, 2)) l->way = (uint8_t)fuzz_below(state, WAYS);
    if (table[l->what].kind == KIND_NEW) draw_new(l, state);
    for (uint32_t i = 0; i < inputs_of(table[l->what].kind); i++)
      l->in[i] = (int8_t)fuzz_below(state, c->count);
    bool ok = true;
    for (uint32_t i = 0; ok && i <= c->count; i++) ok = infer(c, i, all);
    if (!ok) continue;
    c->count++;
    return;
  }
}

bool chain_invent(const workbench *w, const check_options *o, uint64_t *state, chain *c) {
  static const tn_dtype types[] = {TN_F32, TN_F32, TN_I32, TN_I64, TN_F16, TN_BF16, TN_F64};
  *c = (chain){.dtype = types[fuzz_below(state, 7)]};
  c->seed = fuzz_random(state) % 1000000;
  uint32_t kernels = 0, wanted = 4 + fuzz_below(state, CHAIN_STEPS - 4);
  for (int i = 0; i < TABLE; i++)
    kernels += table[i].op && has_kernel(w->device, table[i].op, c->dtype);
  if (o->op || !is_wanted(w, c->dtype) || !kernels) return false;
  for (uint32_t i = 0; i < wanted; i++) draw_line(c, w, state);
  return c->count > 2;
}

/* --- as text --- */

bool chain_is_text(const char *text) { return !strncmp(text, "chain ", 6); }

void chain_write(const chain *c, char *text, size_t size) {
  size_t used =
      (size_t)snprintf(text, size, "chain %s seed=%" PRIu64, tn_dtype_name(c->dtype), c->seed);
  for (uint32_t i = 0; i < c->count && used < size; i++) {
    const chain_line *l = &c->line[i];
    char on[40] = "";
    if (table[l->what].kind == KIND_NEW)
      snprintf(on, sizeof on, l->rank == 2 ? " [%" PRId64 ",%" PRId64 "]" : " [%" PRId64 "]",
               l->shape[0], l->shape[1]);
    else if (inputs_of(table[l->what].kind) == 2)
      snprintf(on, sizeof on, " %d %d", l->in[0], l->in[1]);
    else
      snprintf(on, sizeof on, " %d", l->in[0]);
    used += (size_t)snprintf(text + used, size - used, "; %" PRIu32 " = %s%s", i,
                             table[l->what].name, on);
    if (l->stream && used < size)
      used += (size_t)snprintf(text + used, size - used, " @%u", l->stream);
    if (l->way && used < size)
      used += (size_t)snprintf(text + used, size - used, " %s", way_names[l->way]);
  }
}

/* A word behind the name: an input, a shape, a stream, a way. */
static bool read_word(const char *word, chain_line *l, uint32_t *inputs) {
  char *end;
  if (*word == '@') {
    l->stream = (uint8_t)strtoul(word + 1, &end, 10);
    return !*end && l->stream < STREAMS;
  }
  if (*word == '[') {
    for (word++; l->rank < 2; word = end + 1) {
      l->shape[l->rank++] = strtoll(word, &end, 10);
      if (end == word || l->shape[l->rank - 1] < 0 || l->shape[l->rank - 1] > 1 << 20) return false;
      if (*end != ',') break;
    }
    return !strcmp(end, "]");
  }
  for (uint8_t way = 1; way < WAYS; way++)
    if (!strcmp(word, way_names[way])) return l->way = way, true;
  long input = strtol(word, &end, 10);
  if (*inputs == 2 || end == word || *end || input < 0 || input >= CHAIN_STEPS) return false;
  l->in[(*inputs)++] = (int8_t)input;
  return true;
}

static bool read_line(char *text, chain_line *l) {
  char *rest, *word = strtok_r(text, " ", &rest); /* its number, which is its place */
  uint32_t inputs = 0;
  *l = (chain_line){.what = TABLE, .in = {-1, -1}};
  if (!word || !(word = strtok_r(NULL, " ", &rest)) || strcmp(word, "=") != 0) return false;
  if (!(word = strtok_r(NULL, " ", &rest))) return false;
  for (uint8_t i = 0; i < TABLE; i++)
    if (!strcmp(table[i].name, word)) l->what = i;
  while (l->what < TABLE && (word = strtok_r(NULL, " ", &rest)))
    if (!read_word(word, l, &inputs)) return false;
  return l->what < TABLE && inputs == inputs_of(table[l->what].kind);
}

bool chain_read(const char *text, chain *c, char *why, size_t size) {
  char copy[FUZZ_TEXT], type[20] = "", *rest;
  snprintf(copy, sizeof copy, "%s", text);
  *c = (chain){0};
  char *line = strtok_r(copy, ";", &rest);
  if (line) sscanf(line, "chain %19s seed=%" SCNu64, type, &c->seed);
  for (int t = 1; t < TN_DTYPE_SLOTS; t++)
    if (!strcmp(tn_dtype_name((tn_dtype)t), type)) c->dtype = (tn_dtype)t;
  bool ok = c->dtype != TN_DTYPE_NONE;
  while (ok && (line = strtok_r(NULL, ";", &rest)))
    ok = c->count < CHAIN_STEPS && read_line(line, &c->line[c->count++]);
  ok = ok && is_sound(c);
  if (!ok) snprintf(why, size, "no chain that makes sense: line %" PRIu32, c->count);
  return ok;
}

bool chain_without(const chain *c, uint32_t line, chain *less) {
  int8_t now[CHAIN_STEPS];
  *less = *c;
  less->count = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    chain_line l = c->line[i];
    bool gone = i == line;
    for (uint32_t k = 0; k < inputs_of(table[l.what].kind); k++) {
      gone |= now[l.in[k]] < 0;
      if (!gone) l.in[k] = now[l.in[k]];
    }
    now[i] = gone ? -1 : (int8_t)less->count;
    if (!gone) less->line[less->count++] = l;
  }
  return is_sound(less);
}

/* --- running one --- */

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
  uint16_t num_in = (uint16_t)inputs_of(table[l->what].kind);
  for (uint16_t i = 0; i < num_in; i++) in[i] = r->tensor[l->in[i]];
  num_in += table[l->what].kind == KIND_MATMUL; /* its bias, which is left out */
  tn_call call = {.struct_size = sizeof call,
                  .op = table[l->what].op,
                  .in = in,
                  .out = &r->tensor[at],
                  .num_in = num_in,
                  .num_out = 1};
  call.stream = r->stream[l->stream];
  sum.axes.count = 1;
  sum.axes.axis[0] = -1;
  if (table[l->what].kind == KIND_SUM) call.attrs = &sum;
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
  line_kind kind = table[r->c->line[at].what].kind;
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
  for (uint32_t i = 0; i < count; i++) (void)infer(r->c, i, r->known);
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
