/*
 * Numbers that are none: outputs are read back after each call, in its stream's order, and
 * inputs where an output holds NaN or infinity, to tell who made it from who passed it on.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate.h"

/* What a tensor holds, the worst first. */
typedef enum content { FINE, HAS_INF, HAS_NAN, UNREAD } content;

/* --- elements --- */

/* A float's bits: exponent all ones, and a fraction or none. */
static content judge_bits(uint64_t bits, uint64_t exponent, uint64_t fraction) {
  if ((bits & exponent) != exponent) return FINE;
  return bits & fraction ? HAS_NAN : HAS_INF;
}

static content judge_run(const DLTensor *t, const unsigned char *at, int64_t count) {
  content worst = FINE;
  bool half = t->dtype.code == kDLFloat;
  for (int64_t i = 0; i < count && worst != HAS_NAN; ++i) {
    uint64_t b64;
    uint32_t b32;
    uint16_t b16;
    content c;
    if (t->dtype.bits == 64) {
      memcpy(&b64, at + 8 * i, 8);
      c = judge_bits(b64, (uint64_t)0x7ff << 52, ((uint64_t)1 << 52) - 1);
    } else if (t->dtype.bits == 32) {
      memcpy(&b32, at + 4 * i, 4);
      c = judge_bits(b32, 0x7f800000u, 0x007fffffu);
    } else {
      memcpy(&b16, at + 2 * i, 2);
      c = judge_bits(b16, half ? 0x7c00u : 0x7f80u, half ? 0x03ffu : 0x007fu);
    }
    if (c > worst) worst = c;
  }
  return worst;
}

/* Walks a strided tensor whose first element lies at `first`. */
static content judge_strided(const DLTensor *t, const unsigned char *first) {
  int64_t index[TN_MAX_RANK] = {0}, item = t->dtype.bits / 8;
  content worst = FINE;
  for (;;) {
    int64_t offset = 0;
    for (int32_t i = 0; i < t->ndim; ++i) offset += index[i] * t->strides[i] * item;
    content c = judge_run(t, first + offset, 1);
    if (c > worst) worst = c;
    int32_t axis = t->ndim - 1;
    while (axis >= 0 && ++index[axis] == t->shape[axis]) index[axis--] = 0;
    if (axis < 0 || worst == HAS_NAN) return worst;
  }
}

/* --- tensors --- */

tn_status fetch_bytes(const tn_layer_call *call, const DLTensor *t, int64_t offset, int64_t bytes,
                      void *to) {
  const tn_backend *b = call->backend;
  return b->copy(call->args->device, call->args->queue, TN_COPY_TO_HOST, to, 0, t->data,
                 t->byte_offset + (uint64_t)offset, (size_t)bytes);
}

static content judge_dense(const tn_layer_call *call, const DLTensor *t, int64_t lo, int64_t bytes,
                           unsigned char *staging) {
  content worst = FINE;
  for (int64_t at = 0; at < bytes && worst != HAS_NAN; at += STAGING_BYTES) {
    int64_t part = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
    if (fetch_bytes(call, t, lo + at, part, staging)) return UNREAD;
    content c = judge_run(t, staging, part / (t->dtype.bits / 8));
    if (c > worst) worst = c;
  }
  return worst;
}

/* Through a copy on the host: whole pieces of dense tensors, all of small strided ones. */
static content judge_fetched(validate *v, const tn_layer_call *call, const DLTensor *t,
                             const extent *e) {
  int64_t first = (int64_t)((uintptr_t)t->data + t->byte_offset);
  if (e->base) first = (int64_t)t->byte_offset;
  int64_t bytes = e->hi - e->lo, lo = e->lo - first;
  if (!extent_is_dense(e) && bytes > STAGING_BYTES) return UNREAD;
  unsigned char *staging =
      v->host->alloc(v->host, (size_t)(bytes < STAGING_BYTES ? bytes : STAGING_BYTES), 64);
  if (!staging) return UNREAD;
  content c = UNREAD;
  if (extent_is_dense(e))
    c = judge_dense(call, t, lo, bytes, staging);
  else if (!fetch_bytes(call, t, lo, bytes, staging))
    c = judge_strided(t, staging - lo);
  v->host->free(v->host, staging);
  return c;
}

static content judge(validate *v, const tn_layer_call *call, const DLTensor *t) {
  if (!t || (t->dtype.code != kDLFloat && t->dtype.code != kDLBfloat)) return FINE;
  uint32_t flags = call->backend->flags;
  extent e = extent_of(t, flags & TN_BACKEND_OPAQUE_MEMORY);
  if (e.lo == e.hi) return FINE;
  if (flags & TN_BACKEND_HOST_MEMORY && flags & TN_BACKEND_SYNCHRONOUS)
    return extent_is_dense(&e) ? judge_run(t, (const unsigned char *)(uintptr_t)e.lo,
                                           (e.hi - e.lo) / (t->dtype.bits / 8))
                               : judge_strided(t, (const unsigned char *)t->data);
  content c = judge_fetched(v, call, t, &e);
  if (c == UNREAD) {
    pthread_mutex_lock(&v->mutex);
    ++v->unread;
    pthread_mutex_unlock(&v->mutex);
  }
  return c;
}

/* --- calls --- */

const tn_arg *arg_at(const tn_operator *op, uint32_t index) {
  uint32_t size = op->arg_size ? op->arg_size : (uint32_t)sizeof(tn_arg);
  return (const tn_arg *)(const void *)((const char *)op->args + (size_t)size * index);
}

const tn_attr *attr_at(const tn_operator *op, uint32_t index) {
  uint32_t size = op->attr_size ? op->attr_size : (uint32_t)sizeof(tn_attr);
  return (const tn_attr *)(const void *)((const char *)op->attrs + (size_t)size * index);
}

const DLTensor *attr_tensor_at(const tn_layer_call *call, uint32_t index) {
  const tn_attr *a = attr_at(call->op, index);
  const struct tn_tensor *given;
  if (a->type != TN_ATTR_TENSOR || !call->args->attrs) return NULL;
  memcpy(&given, (const char *)call->args->attrs + a->offset, sizeof given);
  return tn_attr_view(given);
}

static uint32_t count_args(const tn_operator *op, uint32_t from, uint32_t to) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < op->num_args; ++i) {
    uint8_t kind = arg_at(op, i)->kind;
    n += kind >= from && kind <= to;
  }
  return n;
}

const char *tensor_name(char *text, size_t size, const tn_layer_call *call, bool output,
                        uint32_t index) {
  const tn_operator *op = call->op;
  uint32_t num_in = count_args(op, TN_ARG_IN, TN_ARG_OPTIONAL_IN);
  if (call->args->num_in == num_in &&
      (uint32_t)call->args->num_in + call->args->num_out == op->num_args)
    snprintf(text, size, "%s", arg_at(op, output ? num_in + index : index)->name);
  else
    snprintf(text, size, "%s %u", output ? "output" : "input", index);
  return text;
}

/* An attribute that is no finite number asks for what comes out. */
static bool asked_for(const tn_layer_call *call) {
  for (uint32_t i = 0; i < call->op->num_attrs && call->args->attrs; ++i) {
    const tn_attr *a = attr_at(call->op, i);
    if (a->type != TN_ATTR_F64) continue;
    double value;
    memcpy(&value, (const char *)call->args->attrs + a->offset, sizeof value);
    if (!isfinite(value)) return true;
  }
  return false;
}

uint32_t count_inout(const tn_layer_call *call) {
  uint32_t results = count_args(call->op, TN_ARG_OUT, TN_ARG_OPTIONAL_OUT);
  return call->args->num_out > results ? call->args->num_out - results : 0;
}

static bool is_overwritten(const tn_layer_call *call, const DLTensor *x) {
  bool opaque = call->backend->flags & TN_BACKEND_OPAQUE_MEMORY;
  if (!x) return false;
  extent in = extent_of(x, opaque);
  for (uint32_t i = 0; i < call->args->num_out; ++i) {
    if (!call->args->out[i]) continue;
    extent out = extent_of(call->args->out[i], opaque);
    if (extents_overlap(&in, &out) != OVERLAP_NO) return true;
  }
  return false;
}

/* b->state holds a content per tensor read: the inputs, then the in-out tensors; UNREAD
 * stands for "still as it was: look later". */
tn_status finite_before(validate *v, const tn_layer_call *call, before *b) {
  const tn_kernel_args *args = call->args;
  uint32_t inout = count_inout(call);
  b->count = args->num_in + inout;
  b->state = b->few;
  if (b->count > sizeof b->few) b->state = v->host->alloc(v->host, b->count, 1);
  if (!b->state) return v->host->fail(TN_ERR_OUT_OF_MEMORY, "validate: no host memory");
  for (uint32_t i = 0; i < args->num_in; ++i)
    b->state[i] =
        (unsigned char)(is_overwritten(call, args->in[i]) ? judge(v, call, args->in[i]) : UNREAD);
  for (uint32_t i = 0; i < inout; ++i)
    b->state[args->num_in + i] = (unsigned char)judge(v, call, args->out[i]);
  return TN_OK;
}

/* What brought in what is not finite: a tensor by its number in b->state, an attribute's tensor by
 * b->count and the attribute's number; NOTHING: nothing did. */
enum { NOTHING = UINT16_MAX };
static uint32_t find_origin(validate *v, const tn_layer_call *call, const before *b) {
  uint32_t num_in = call->args->num_in;
  for (uint32_t i = 0; i < b->count + call->op->num_attrs; ++i) {
    content c =
        i < b->count ? (content)b->state[i] : judge(v, call, attr_tensor_at(call, i - b->count));
    if (c == UNREAD && i < num_in) c = judge(v, call, call->args->in[i]);
    if (c == HAS_INF || c == HAS_NAN) return i;
  }
  return NOTHING;
}

static const char *origin_name(char *text, size_t size, const tn_layer_call *call, uint32_t origin,
                               const before *b) {
  uint32_t num_in = call->args->num_in;
  if (origin >= b->count)
    snprintf(text, size, "attrs->%s", attr_at(call->op, origin - b->count)->name);
  else
    tensor_name(text, size, call, origin >= num_in, origin >= num_in ? origin - num_in : origin);
  return text;
}

static void report_content(validate *v, findings *f, const tn_layer_call *call, uint32_t index,
                           content c, uint32_t origin, const before *b) {
  char name[64], text[160], here[SITE_BYTES + 8], from[64];
  const DLTensor *t = call->args->out[index];
  bool made = origin == NOTHING;
  pthread_mutex_lock(&v->mutex);
  const char *site = site_keep(v, call->site);
  const char *what = c == HAS_NAN ? "NaN" : "infinity";
  at_site(here, sizeof here, site);
  tensor_name(name, sizeof name, call, true, index);
  tensor_text(text, sizeof text, t->dtype, t->ndim, t->shape);
  if (made)
    find(v, f, REPORT_NONFINITE, call->op->name, site, NULL, NULL,
         "non-finite: %s%s by %s made %s in %s (%s:%d %s) from finite inputs", call->op->name, here,
         call->args->kernel->name, what, name, call->device_type, call->device_index, text);
  else
    find(v, f, REPORT_PASSED_ON, call->op->name, site, NULL, NULL,
         "passed on: %s%s by %s has %s in %s (%s:%d %s); its input %s was not finite already",
         call->op->name, here, call->args->kernel->name, what, name, call->device_type,
         call->device_index, text, origin_name(from, sizeof from, call, origin, b));
  pthread_mutex_unlock(&v->mutex);
}

/* How much of an output was written: where that depends on data, as many entries of its
 * axis 0 as the last output says; -1: all of it. */
static int64_t count_entries(const tn_layer_call *call) {
  const tn_kernel_args *args = call->args;
  if (!(call->op->flags & TN_OPERATOR_DATA_DEPENDENT)) return -1;
  int64_t count = 0;
  return fetch_bytes(call, args->out[args->num_out - 1], 0, sizeof count, &count) ? 0 : count;
}

static content judge_output(validate *v, const tn_layer_call *call, uint32_t i, int64_t entries) {
  const DLTensor *t = call->args->out[i];
  int64_t shape[TN_MAX_RANK];
  if (!t || entries < 0 || t->ndim == 0) return judge(v, call, t);
  DLTensor part = *t;
  memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
  if (entries < shape[0]) shape[0] = entries;
  part.shape = shape;
  return judge(v, call, &part);
}

void finite_after(validate *v, findings *f, const tn_layer_call *call, const before *b) {
  int64_t entries = count_entries(call);
  for (uint32_t i = 0; i < call->args->num_out; ++i) {
    content c = judge_output(v, call, i, entries);
    if ((c != HAS_INF && c != HAS_NAN) || asked_for(call)) continue;
    report_content(v, f, call, i, c, find_origin(v, call, b), b);
  }
}

void finite_end(validate *v, before *b) {
  if (b->state != b->few) v->host->free(v->host, b->state);
}
