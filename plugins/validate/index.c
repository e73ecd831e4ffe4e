/*
 * Indexes out of range. What operators do with them is defined and silent: an entry that is 0,
 * an update that is skipped, a loss that is NaN. They are read back before the call, in its
 * stream's order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "validate.h"

/* Where the indexes of an operator are, and what they count. */
typedef struct rule {
  uint32_t op;
  const char *index, *data; /* arguments; data NULL: the attribute says how many there are */
  const char *attr;         /* else which axis of data they count along; NULL: `axis` */
  int32_t axis;
  bool negative; /* -1 is the last, as it is where attribute from_end says so */
} rule;

static const rule rules[] = {
    {TN_OP_INDEX_SELECT, "index", "x", "axis", 0, true},
    {TN_OP_INDEX_ADD, "index", "y", "axis", 0, true},
    {TN_OP_GATHER, "index", "x", "axis", 0, true},
    {TN_OP_TAKE_ALONG_AXIS, "index", "x", "axis", 0, true},
    {TN_OP_SCATTER, "index", "y", "axis", 0, true},
    {TN_OP_SCATTER_ADD, "index", "y", "axis", 0, true},
    {TN_OP_SCATTER_MAX, "index", "y", "axis", 0, true},
    {TN_OP_ONE_HOT, "index", NULL, "classes", 0, true},
    {TN_OP_EMBEDDING, "index", "table", NULL, 0, false},
    {TN_OP_EMBEDDING_GRAD, "index", NULL, "rows", 0, false},
    {TN_OP_ROPE, "positions", "cos", NULL, 0, false},
    {TN_OP_NLL_LOSS, "target", "x", NULL, 1, false},
    {TN_OP_NLL_LOSS_GRAD, "target", "x", NULL, 1, false},
    {TN_OP_CROSS_ENTROPY, "target", "x", NULL, 1, false},
    {TN_OP_CROSS_ENTROPY_GRAD, "target", "x", NULL, 1, false},
};

static const rule *rule_of(uint32_t op) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i)
    if (rules[i].op == op) return &rules[i];
  return NULL;
}

/* --- arguments and attributes by name --- */

/* The tensor of an argument of an operator without lists; NULL if it is absent. */
static const DLTensor *tensor_of(const tn_layer_call *call, const char *name) {
  const tn_kernel_args *args = call->args;
  for (uint32_t i = 0; i < call->op->num_args; ++i)
    if (strcmp(arg_at(call->op, i)->name, name) == 0)
      return i < args->num_in ? args->in[i] : args->out[i - args->num_in];
  return NULL;
}

static int64_t attr_of(const tn_layer_call *call, const char *name, int64_t otherwise) {
  int64_t value = otherwise;
  for (uint32_t i = 0; i < call->op->num_attrs && call->args->attrs; ++i) {
    const tn_attr *a = attr_at(call->op, i);
    const char *at = (const char *)call->args->attrs + a->offset;
    int32_t flag;
    if (strcmp(a->name, name) != 0) continue;
    if (a->type == TN_ATTR_I64) memcpy(&value, at, sizeof value);
    if (a->type == TN_ATTR_FLAG) memcpy(&flag, at, sizeof flag), value = flag;
  }
  return value;
}

/* --- the search --- */

typedef struct search {
  int64_t low, high, ignored; /* low <= index < high, or ignored */
  int64_t position, value;    /* of the first that is outside, in row-major order; -1: none */
  uint64_t count;             /* of those outside */
} search;

static void look_at(search *s, const DLTensor *t, const unsigned char *at, int64_t position) {
  int64_t value;
  int32_t narrow;
  if (t->dtype.bits == 64) {
    memcpy(&value, at, sizeof value);
  } else {
    memcpy(&narrow, at, sizeof narrow);
    value = narrow;
  }
  if ((value >= s->low && value < s->high) || value == s->ignored) return;
  if (s->count++) return;
  s->position = position;
  s->value = value;
}

/* `first`: where the element of index 0 lies. */
static void look_through(search *s, const DLTensor *t, const unsigned char *first) {
  int64_t index[TN_MAX_RANK] = {0}, item = t->dtype.bits / 8;
  for (int64_t position = 0;; ++position) {
    int64_t offset = 0;
    for (int32_t i = 0; i < t->ndim; ++i) offset += index[i] * t->strides[i] * item;
    look_at(s, t, first + offset, position);
    int32_t axis = t->ndim - 1;
    while (axis >= 0 && ++index[axis] == t->shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

/* False where the tensor could not be read. */
static bool search_tensor(validate *v, const tn_layer_call *call, const DLTensor *t, search *s) {
  uint32_t flags = call->backend->flags;
  extent e = extent_of(t, flags & TN_BACKEND_OPAQUE_MEMORY);
  if (e.lo == e.hi) return true;
  if (flags & TN_BACKEND_HOST_MEMORY && flags & TN_BACKEND_SYNCHRONOUS) {
    look_through(s, t, (const unsigned char *)t->data + t->byte_offset);
    return true;
  }
  int64_t first = e.base ? (int64_t)t->byte_offset : (int64_t)((uintptr_t)t->data + t->byte_offset);
  unsigned char *copy = v->host->alloc(v->host, (size_t)(e.hi - e.lo), 64);
  bool read = copy && !fetch_bytes(call, t, e.lo - first, e.hi - e.lo, copy);
  if (read) look_through(s, t, copy + (first - e.lo));
  v->host->free(v->host, copy);
  return read;
}

/* --- the report --- */

/* "[2, 0]": where the element at a row-major position is. */
static const char *place_text(char *text, size_t size, const DLTensor *t, int64_t position) {
  int64_t index[TN_MAX_RANK];
  for (int32_t i = t->ndim; i-- > 0; position /= t->shape[i]) index[i] = position % t->shape[i];
  size_t used = (size_t)snprintf(text, size, "[");
  for (int32_t i = 0; i < t->ndim && used < size; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "", index[i]);
  if (used < size) snprintf(text + used, size - used, "]");
  return text;
}

static void report_index(validate *v, findings *f, const tn_layer_call *call, const rule *r,
                         const DLTensor *t, const search *s) {
  char here[SITE_BYTES + 8], place[200];
  pthread_mutex_lock(&v->mutex);
  const char *site = site_keep(v, call->site);
  find(v, f, REPORT_INDEX, call->op->name, site, NULL, NULL,
       "index: %s%s by %s on %s:%d: %s%s is %" PRId64 ", outside %" PRId64 "..%" PRId64 "; %" PRIu64
       " of them %s outside",
       call->op->name, at_site(here, sizeof here, site), call->args->kernel->name,
       call->device_type, call->device_index, r->index,
       place_text(place, sizeof place, t, s->position), s->value, s->low, s->high - 1, s->count,
       s->count == 1 ? "is" : "are");
  pthread_mutex_unlock(&v->mutex);
}

/* How many entries there are to count; -1 where that is not known. */
static int64_t count_entries(const tn_layer_call *call, const rule *r) {
  if (!r->data) return attr_of(call, r->attr, -1);
  const DLTensor *data = tensor_of(call, r->data);
  int64_t axis = r->attr ? attr_of(call, r->attr, 0) : r->axis;
  if (data && axis < 0) axis += data->ndim;
  return data && axis >= 0 && axis < data->ndim ? data->shape[axis] : -1;
}

void check_indexes(validate *v, findings *f, const tn_layer_call *call) {
  const rule *r = rule_of(call->op->id);
  const DLTensor *t = r ? tensor_of(call, r->index) : NULL;
  int64_t entries = t ? count_entries(call, r) : -1;
  if (entries < 0) return;
  bool negative = r->negative || attr_of(call, "from_end", 0);
  search s = {.high = entries, .low = negative ? -entries : 0};
  s.ignored = attr_of(call, "ignore_index", INT64_MIN);
  if (!search_tensor(v, call, t, &s)) {
    pthread_mutex_lock(&v->mutex);
    ++v->unread;
    pthread_mutex_unlock(&v->mutex);
  }
  if (s.count) report_index(v, f, call, r, t, &s);
}
