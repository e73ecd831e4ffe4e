/*
 * Tenon's side of bench/table: makes one call at a time and times it when told to, so that table.py
 * can take turns with other libraries, each in a process of its own. One command a line on standard
 * input, one answer a line: "ok ..." or "error MESSAGE".
 *
 *   open MATH        anew, with ieee or tf32, on the device of TENON_DEVICE
 *   make OP [NAME=N[,N...]]... [: ARG...] [=> ARG...]
 *                    a call; ARG is dtype:AxBxC[:layout], or `none`
 *   time MS          nanoseconds of one call, over calls for about so long, one wait at their end,
 *                    behind a quarter as many to warm up where they last less than a millisecond
 *   host             nanoseconds until a call is submitted, over some that are not waited for
 *   drop             the call and cached memory
 *   churn N          N random tensors made and released: reserved over live, each at its most
 *   between BYTES    makes the copy of so many from this device to the next in place of a call
 *
 * Layouts: `last` has the channels last, `swapped` the last two axes swapped in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../measure.h"
#include "tenon/plugin.h"

enum { ARGS = 12, TENSORS = 20000, SLOTS = 1000, TRIES = 4 };
static const double LONG_NS = 5e7; /* that is not tried again */

static struct {
  tn_runtime *runtime;
  tn_device *device, *next;
  const tn_operator *op;
  tn_tensor *in[ARGS], *out[ARGS], *moved;
  tn_call call;
  int64_t calls; /* in about a millisecond; 0 = not known yet */
  _Alignas(16) unsigned char attrs[512];
} s;

static void answer_error(void) { printf("error %s\n", tn_last_error()); }

static void drop(void) {
  for (int i = 0; i < ARGS; i++) {
    tn_tensor_release(s.in[i]);
    tn_tensor_release(s.out[i]);
    s.in[i] = s.out[i] = NULL;
  }
  tn_tensor_release(s.moved);
  s.moved = NULL;
  s.op = NULL;
  s.next = NULL;
  s.calls = 0;
  if (s.device) (void)tn_device_trim(s.device);
}

static bool open_device(const char *math) {
  drop();
  tn_runtime_close(s.runtime);
  s.runtime = NULL;
  s.device = NULL;
  tn_runtime_options options = {.struct_size = sizeof options};
  options.math = 1 + (!strcmp(math, "tf32") ? TN_MATH_TF32 : TN_MATH_IEEE);
  options.fallback = TN_FALLBACK_ERROR;
  if (tn_runtime_open(&options, &s.runtime) != TN_OK) return false;
  s.device = tn_runtime_device(s.runtime);
  return true;
}

/* --- arguments --- */

static tn_dtype dtype_of(const char *name) {
  for (int t = TN_BOOL; t < TN_DTYPE_SLOTS; t++)
    if (!strcmp(tn_dtype_name((tn_dtype)t), name)) return (tn_dtype)t;
  return TN_DTYPE_NONE;
}

static void swap(int64_t *a, int64_t *b) {
  const int64_t kept = *a;
  *a = *b;
  *b = kept;
}

/* Random numbers in -1..1, of integers in -100..100 (0..200 where they have no sign). */
static tn_status random_tensor(tn_dtype dtype, int32_t rank, const int64_t *shape, tn_tensor **t) {
  static uint64_t seed = 1;
  tn_uniform_attrs attrs = TN_UNIFORM_DEFAULTS;
  tn_cast_attrs cast = TN_CAST_DEFAULTS;
  const bool whole = !(TN_SET(dtype) & (TN_SET_FLOAT | TN_SET_F8));
  tn_tensor *single = NULL;
  attrs.low = dtype == TN_U8 ? 0 : whole ? -100 : -1;
  attrs.high = dtype == TN_U8 ? 200 : whole ? 100 : 1;
  attrs.seed = seed++;
  cast.dtype = dtype;
  tn_status status = tn_tensor_empty(s.device, TN_F32, rank, shape, &single);
  if (status == TN_OK) status = tn_uniform(NULL, single, &attrs);
  if (status == TN_OK && dtype != TN_F32) {
    status = tn_cast(NULL, single, &cast, t);
    tn_tensor_release(single);
  } else {
    *t = single;
  }
  return status;
}

static tn_status laid(tn_dtype dtype, int32_t rank, int64_t *shape, const char *layout,
                      tn_tensor **t) {
  static const int32_t first[] = {0, 3, 1, 2};
  int32_t axes[TN_MAX_RANK];
  const bool last = !strcmp(layout, "last") && rank == 4, turned = !strcmp(layout, "swapped");
  for (int32_t i = 0; i < rank; i++) axes[i] = last ? first[i] : i;
  if (last) swap(&shape[1], &shape[2]), swap(&shape[2], &shape[3]);
  if (turned) {
    swap(&shape[rank - 1], &shape[rank - 2]);
    axes[rank - 1] = rank - 2;
    axes[rank - 2] = rank - 1;
  }
  tn_tensor *made = NULL;
  tn_status status = random_tensor(dtype, rank, shape, &made);
  if (status != TN_OK || (!last && !turned)) {
    *t = made;
    return status;
  }
  status = tn_tensor_permute(made, axes, t);
  tn_tensor_release(made);
  return status;
}

/* dtype:AxBxC[:layout], or `none`. False where it is none of that or memory lacks; it was said. */
static bool argument(char *text, tn_tensor **t) {
  char *rest = NULL, *dtype = strtok_r(text, ":", &rest), *sizes = strtok_r(NULL, ":", &rest);
  const char *layout = strtok_r(NULL, ":", &rest);
  int64_t shape[TN_MAX_RANK];
  int32_t rank = 0;
  if (dtype && !strcmp(dtype, "none")) return true;
  if (!dtype || !dtype_of(dtype)) return puts("error no such element type"), false;
  for (char *at = sizes; at && *at && rank < TN_MAX_RANK; at += *at == 'x')
    shape[rank++] = strtoll(at, &at, 10);
  if (laid(dtype_of(dtype), rank, shape, layout ? layout : "", t) == TN_OK) return true;
  return answer_error(), false;
}

/* --- attributes --- */

static void put(uint32_t type, unsigned char *at, int i, double value) {
  const int64_t whole = (int64_t)value;
  const int32_t narrow = (int32_t)value, count = i + 1;
  if (type == TN_ATTR_F64) memcpy(at, &value, sizeof value);
  if (type == TN_ATTR_I64 || type == TN_ATTR_U64 || type == TN_ATTR_PAIR || type == TN_ATTR_TRIPLE)
    memcpy(at + 8 * (size_t)i, &whole, sizeof whole);
  if (type == TN_ATTR_FLAG || type == TN_ATTR_DTYPE || type == TN_ATTR_RESULT)
    memcpy(at, &narrow, sizeof narrow);
  if (type != TN_ATTR_AXES) return;
  memcpy(at + offsetof(tn_axes, count), &count, sizeof count);
  memcpy(at + offsetof(tn_axes, axis) + 4 * (size_t)i, &narrow, sizeof narrow);
}

static const tn_attr *attr_at(const tn_operator *op, uint32_t i) {
  const size_t size = op->attr_size ? op->attr_size : sizeof *op->attrs;
  return (const tn_attr *)(const void *)((const char *)op->attrs + i * size);
}

static const tn_arg *arg_at(const tn_operator *op, uint32_t i) {
  const size_t size = op->arg_size ? op->arg_size : sizeof *op->args;
  return (const tn_arg *)(const void *)((const char *)op->args + i * size);
}

static void set_defaults(const tn_operator *op) {
  memset(s.attrs, 0, sizeof s.attrs);
  memcpy(s.attrs, &op->attrs_size, sizeof op->attrs_size); /* the struct's first member */
  for (uint32_t i = 0; i < op->num_attrs; i++) {
    const tn_attr *a = attr_at(op, i);
    const int count = a->type == TN_ATTR_PAIR ? 2 : a->type == TN_ATTR_TRIPLE ? 3 : 1;
    if (a->type == TN_ATTR_AXES || a->type == TN_ATTR_DIMS || a->type == TN_ATTR_TENSOR) continue;
    for (int k = 0; k < count; k++) put(a->type, s.attrs + a->offset, k, a->default_value);
  }
}

/* NAME=N[,N...] */
static bool attribute(const tn_operator *op, char *text) {
  char *values = strchr(text, '=');
  if (!values) return printf("error %s is no NAME=NUMBER\n", text), false;
  *values++ = 0;
  for (uint32_t i = 0; i < op->num_attrs; i++) {
    const tn_attr *a = attr_at(op, i);
    if (strcmp(a->name, text) != 0) continue;
    for (int k = 0; *values; k++, values += *values == ',')
      put(a->type, s.attrs + a->offset, k, strtod(values, &values));
    return true;
  }
  return printf("error %s has no attribute %s\n", op->name, text), false;
}

/* --- calls --- */

static const tn_operator *operator_of(const char *name) {
  for (size_t i = 0; i < tn_op_count(s.runtime); i++)
    if (!strcmp(tn_op_at(s.runtime, i)->name, name)) return tn_op_at(s.runtime, i);
  return NULL;
}

static void count_arguments(const tn_operator *op) {
  s.call = (tn_call){.struct_size = sizeof s.call, .op = op->id, .out = s.out};
  s.call.in = (const tn_tensor *const *)s.in;
  s.call.attrs = op->num_attrs ? s.attrs : NULL;
  for (uint32_t i = 0; i < op->num_args; i++) {
    const uint32_t kind = arg_at(op, i)->kind;
    if (kind == TN_ARG_IN || kind == TN_ARG_OPTIONAL_IN) {
      s.call.num_in++;
      continue;
    }
    if (kind == TN_ARG_OPTIONAL_OUT) s.call.skip_out |= 1u << s.call.num_out;
    s.call.num_out++;
  }
}

static tn_status once(void) {
  if (!s.next) return tn_invoke(&s.call);
  tn_tensor_release(s.moved);
  s.moved = NULL;
  return tn_tensor_to_device(s.in[0], s.next, &s.moved);
}

static tn_status wait_for_device(void) {
  tn_status status = tn_device_synchronize(s.device);
  return s.next && status == TN_OK ? tn_device_synchronize(s.next) : status;
}

/* The first calls measure algorithms and load code. */
static void warm_up(void) {
  tn_kernel_info info = {.struct_size = sizeof info, .name = ""};
  tn_prepared *prepared = NULL;
  tn_status status = once();
  if (status == TN_OK) status = once();
  if (status == TN_OK) status = wait_for_device();
  if (status != TN_OK) {
    answer_error();
    drop();
    return;
  }
  if (s.op && tn_prepare(&s.call, &prepared) == TN_OK) (void)tn_prepared_kernel(prepared, &info);
  printf("ok %s\n", info.name);
  tn_prepared_release(prepared);
}

static void make(char *text) {
  char *rest = NULL, *word = strtok_r(text, " ", &rest);
  int in = 0, out = 0, part = 0; /* 0 attributes, 1 inputs, 2 outputs */
  drop();
  s.op = s.runtime && word ? operator_of(word) : NULL;
  if (!s.op || s.op->attrs_size > sizeof s.attrs) {
    puts("error no such operator, or no runtime is open");
    return;
  }
  set_defaults(s.op);
  while ((word = strtok_r(NULL, " ", &rest))) {
    if (!strcmp(word, ":") || !strcmp(word, "=>")) {
      part = word[0] == ':' ? 1 : 2;
      continue;
    }
    const bool full = (part == 1 && in == ARGS) || (part == 2 && out == ARGS);
    if (full) puts("error too many arguments");
    if (full || !(part == 0   ? attribute(s.op, word)
                  : part == 1 ? argument(word, &s.in[in++])
                              : argument(word, &s.out[out++]))) {
      drop();
      return;
    }
  }
  count_arguments(s.op);
  warm_up();
}

static void make_between(long long bytes) {
  const int64_t n = bytes / 4;
  drop();
  if (tn_device_find(s.runtime, "cuda:1", &s.next) != TN_OK ||
      random_tensor(TN_F32, 1, &n, &s.in[0]) != TN_OK) {
    answer_error();
    drop();
    return;
  }
  warm_up();
}

/* --- times --- */

static double round_ns(int64_t calls) {
  const double begin = now_ns();
  for (int64_t i = 0; i < calls; i++)
    if (once() != TN_OK) return -1;
  if (wait_for_device() != TN_OK) return -1;
  return (now_ns() - begin) / (double)calls;
}

/* The least of some tries: threads that went to sleep meanwhile make the first ones longer. */
static double about_ns(void) {
  double least = round_ns(1);
  for (int i = 0; i < TRIES && least > 0 && least < LONG_NS; i++) {
    const double some = round_ns(least < 1e6 ? 20 : 1);
    if (some < least) least = some;
  }
  return least;
}

static void time_calls(double ms) {
  if (!s.op && !s.next) {
    puts("error nothing was made");
    return;
  }
  if (!s.calls) {
    const double some = about_ns();
    if (some > 0) s.calls = (int64_t)(1e6 / some) + 1;
  }
  const int64_t calls = s.calls > 1 ? (int64_t)((double)s.calls * ms) + 1 : 1 + (ms > 10);
  if (s.calls > 1) (void)round_ns(calls / 4 + 1);
  const double ns = s.calls ? round_ns(calls) : -1;
  if (ns > 0)
    printf("ok %.6g\n", ns);
  else
    answer_error();
}

/* The median of some batches, each of so few calls that no queue is full. */
static void time_host(void) {
  enum { BATCHES = 15, CALLS = 60, FIRST = 10 };
  double ns[BATCHES];
  if (!s.op) {
    puts("error no call to submit");
    return;
  }
  for (int b = 0; b < BATCHES; b++) {
    if (round_ns(FIRST) < 0) {
      answer_error();
      return;
    }
    const double begin = now_ns();
    for (int i = 0; i < CALLS; i++) (void)once();
    ns[b] = (now_ns() - begin) / CALLS;
    (void)wait_for_device();
  }
  printf("ok %.6g\n", median(ns, BATCHES));
}

/* 2^8 to 2^24 bytes, log-uniform, a thousand at a time; torch_side.py draws the same. */
static void churn(int64_t count) {
  static tn_tensor *held[SLOTS];
  uint64_t x = 88172645463325252u;
  double live = 0, most_live = 0, reserved = 0;
  tn_memory_stats stats = {.struct_size = sizeof stats};
  drop();
  for (int64_t i = 0; i < count; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    tn_tensor **slot = &held[x % SLOTS];
    const int64_t bytes =
        (int64_t)(256 << (x >> 20) % 16) + (int64_t)((x >> 30) % (256u << (x >> 20) % 16));
    if (*slot) live -= (double)tn_tensor_bytes(*slot);
    tn_tensor_release(*slot);
    *slot = NULL;
    if (tn_tensor_empty(s.device, TN_U8, 1, &bytes, slot) != TN_OK) break;
    live += (double)bytes;
    if (live > most_live) most_live = live;
    (void)tn_device_memory_stats(s.device, &stats);
    if ((double)stats.reserved > reserved) reserved = (double)stats.reserved;
  }
  for (int i = 0; i < SLOTS; i++) tn_tensor_release(held[i]), held[i] = NULL;
  printf("ok %.6g\n", most_live > 0 ? reserved / most_live : 0);
}

static void obey(char *line) {
  line[strcspn(line, "\n")] = 0;
  char *rest = strchr(line, ' ');
  if (rest) *rest++ = 0;
  const char *number = rest ? rest : "0";
  if (!strcmp(line, "open")) {
    open_device(number) ? (void)puts("ok") : answer_error();
  } else if (!s.device) {
    puts("error no device is open");
  } else if (!strcmp(line, "make") && rest) {
    make(rest);
  } else if (!strcmp(line, "between")) {
    make_between(atoll(number));
  } else if (!strcmp(line, "time")) {
    time_calls(atof(number));
  } else if (!strcmp(line, "host")) {
    time_host();
  } else if (!strcmp(line, "churn")) {
    churn(atoll(number));
  } else if (!strcmp(line, "drop")) {
    drop();
    puts("ok");
  } else {
    puts("error no such command");
  }
}

int main(void) {
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    obey(line);
    fflush(stdout);
  }
  drop();
  tn_runtime_close(s.runtime);
  return 0;
}
