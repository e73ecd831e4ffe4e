/*
 * The contract of plugin.h held against a plugin's table. Structs may be longer than
 * ours (a later version) and never shorter than version 1's. Rows of an array stand as
 * far apart as the first one says, so every row must say the same.
 */
#include "dispatcher/load/plugin_check.h"

#include <string.h>

#include "dispatcher/base/attr_bytes.h"
#include "dispatcher/base/limits.h"
#include "dispatcher/load/loader.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The size of a struct in ABI version 1, by its last field then. */
#define SIZE_1(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Bounds on what is believed to be meant. */
enum { MAX_STRUCT = 64 * 1024, MAX_ROWS = 1 << 20, MAX_TYPE_NAME = 63 };

static bool is_word(const char *text) {
  return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* "swiglu", or "acme.swiglu" with a vendor's prefix. */
static bool is_operator_name(const char *text) {
  size_t prefix = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
  if (text[prefix] != '.') return is_word(text);
  return prefix > 0 && is_word(text + prefix + 1);
}

static tn_status check_size(const char *what, const void *table, size_t size_1) {
  if (!table || (uintptr_t)table % _Alignof(void *))
    return fail(REFUSED, "its %s table is at a bad address (%p)", what, table);
  uint32_t size = *(const uint32_t *)table;
  if (size < size_1)
    return fail(REFUSED, "its %s struct has %u bytes, ABI version 1 has %zu", what, size, size_1);
  if (size > MAX_STRUCT || size % _Alignof(void *))
    return fail(REFUSED, "its %s struct says it has %u bytes, which is absurd", what, size);
  return TN_OK;
}

/* An array of `count` structs. */
static tn_status check_rows(const char *what, const void *rows, uint32_t count, size_t size_1) {
  if (count == 0) return TN_OK;
  if (!rows || count > MAX_ROWS)
    return fail(REFUSED, "it counts %u rows of %s at %p", count, what, rows);
  tn_status status = check_size(what, rows, size_1);
  if (status) return status;
  uint32_t first = *(const uint32_t *)rows;
  for (uint32_t i = 1; i < count; i++) {
    uint32_t size = *(const uint32_t *)plugin_row(rows, i);
    if (size != first)
      return fail(REFUSED, "its %s row %u says it has %u bytes, row 0 says %u", what, i, size,
                  first);
  }
  return TN_OK;
}

/* The upper half of a word of flags says what the host must know; this one knows none. */
static tn_status check_demands(const char *what, const char *name, uint32_t flags) {
  if (!(flags & TN_FLAGS_DEMANDS)) return TN_OK;
  return fail(REFUSED,
              "its %s '%.80s' demands what this host does not know (flags %#x): it needs a "
              "newer Tenon",
              what, name, flags & TN_FLAGS_DEMANDS);
}

/* ----------------------------------------------------------------- backends --- */

typedef struct slot {
  const char *name;
  size_t offset;
} slot;
#define SLOT(field)                                                                                \
  { #field, offsetof(tn_backend, field) }

static const slot mandatory[] = {SLOT(count), SLOT(describe), SLOT(open), SLOT(close),
                                 SLOT(alloc), SLOT(free),     SLOT(copy)};
/* Wanted unless all work is done when a call returns. */
static const slot asynchronous[] = {
    SLOT(queue_create), SLOT(queue_destroy),    SLOT(queue_wait),   SLOT(queue_native),
    SLOT(event_create), SLOT(event_destroy),    SLOT(event_record), SLOT(event_query),
    SLOT(event_wait),   SLOT(queue_wait_event), SLOT(event_elapsed)};
/* All or none. */
static const slot capture[] = {SLOT(capture_begin), SLOT(capture_end), SLOT(graph_launch),
                               SLOT(graph_destroy)};

static bool is_filled(const tn_backend *backend, const slot *s) {
  void (*function)(void);
  memcpy(&function, (const char *)backend + s->offset, sizeof function);
  return function != NULL;
}

static tn_status check_slots(const tn_backend *b, const slot *slots, size_t count,
                             const char *why) {
  for (size_t i = 0; i < count; i++)
    if (!is_filled(b, &slots[i]))
      return fail(REFUSED, "its backend '%s' has no %s, which %s", b->device_type, slots[i].name,
                  why);
  return TN_OK;
}

static tn_status check_capture(const tn_backend *b) {
  for (size_t i = 0; i < COUNT(capture); i++)
    if (is_filled(b, &capture[i]))
      return check_slots(b, capture, COUNT(capture), "belongs to capture");
  return TN_OK;
}

static tn_status check_backend(const tn_backend *b) {
  tn_status status = check_size("backend", b, SIZE_1(tn_backend, graph_destroy));
  if (status) return status;
  if (!b->device_type || !is_word(b->device_type))
    return fail(REFUSED, "a backend's device type is '%.40s'; it takes a-z, 0-9 and _",
                b->device_type ? b->device_type : "(null)");
  if (strlen(b->device_type) > MAX_TYPE_NAME)
    return fail(REFUSED, "its device type '%.40s...' has %zu characters; %d are taken",
                b->device_type, strlen(b->device_type), MAX_TYPE_NAME);
  if ((b->flags & TN_BACKEND_HOST_MEMORY) && (b->flags & TN_BACKEND_OPAQUE_MEMORY))
    return fail(REFUSED, "its backend '%s' calls its memory both host memory and opaque",
                b->device_type);
  status = check_demands("backend", b->device_type, b->flags);
  if (!status) status = check_slots(b, mandatory, COUNT(mandatory), "is mandatory");
  if (!status && !(b->flags & TN_BACKEND_SYNCHRONOUS))
    status = check_slots(b, asynchronous, COUNT(asynchronous),
                         "is mandatory without TN_BACKEND_SYNCHRONOUS");
  if (!status) status = check_capture(b);
  return status;
}

static tn_status check_backends(const tn_plugin *p) {
  if (p->num_backends > MAX_ROWS || (p->num_backends && !p->backends))
    return fail(REFUSED, "it counts %u backends at %p", p->num_backends, (const void *)p->backends);
  for (uint32_t i = 0; i < p->num_backends; i++) {
    tn_status status = check_backend(p->backends[i]);
    if (status) return status;
    for (uint32_t j = 0; j < i; j++)
      if (strcmp(p->backends[j]->device_type, p->backends[i]->device_type) == 0)
        return fail(REFUSED, "it has two backends '%s'", p->backends[i]->device_type);
  }
  return TN_OK;
}

/* ------------------------------------------------------------------ kernels --- */

static tn_status check_kernel(const tn_kernel *k, uint32_t i) {
  const char *name = k->name ? k->name : "?";
  const char *lacks = !k->name                                 ? "name"
                      : !k->run                                ? "run function"
                      : !k->device_type                        ? "device type"
                      : !k->op && !(k->op_name && *k->op_name) ? "operator"
                                                               : NULL;
  if (lacks) return fail(REFUSED, "its kernel row %u (%.80s) has no %s", i, name, lacks);
  if (strcmp(k->device_type, TN_DEVICE_ANY_HOST) != 0 && !is_word(k->device_type))
    return fail(REFUSED,
                "its kernel row %u (%.80s) is for device type '%.40s'; it takes a-z, "
                "0-9 and _, or " TN_DEVICE_ANY_HOST,
                i, name, k->device_type);
  return check_demands("kernel", name, k->flags);
}

static tn_status check_kernels(const tn_plugin *p) {
  tn_status status = check_rows("kernel", p->kernels, p->num_kernels, SIZE_1(tn_kernel, note));
  for (uint32_t i = 0; i < p->num_kernels && !status; i++)
    status = check_kernel(plugin_kernel(p, i), i);
  return status;
}

/* ---------------------------------------------------------------- operators --- */

/* All that can be wrong with one argument or attribute, or with the operator as a whole. */
static tn_status bad(const tn_operator *op, const char *part, const char *fault) {
  return fail(REFUSED, "its operator '%.80s' has %s%s%.80s%s", op->name, fault, part ? " (" : "",
              part ? part : "", part ? ")" : "");
}

static tn_status check_distance(const tn_operator *op, const char *what, uint32_t distance,
                                size_t size_1) {
  if (distance == 0) return TN_OK;
  if (distance >= size_1 && distance <= MAX_STRUCT && distance % _Alignof(void *) == 0)
    return TN_OK;
  return fail(REFUSED, "its operator '%.80s' says a %s row has %u bytes, ABI version 1 has %zu",
              op->name, what, distance, size_1);
}

static bool is_type(const tn_operator *op, uint8_t type) {
  if (type < TN_MAX_TYPE_VARS) return op->types[type] != 0;
  if (type >= TN_TYPE_WIDE(0) && type < TN_TYPE_WIDE(TN_MAX_TYPE_VARS))
    return op->types[type - TN_TYPE_WIDE(0)] != 0;
  return type >= TN_TYPE_FIXED(0) && tn_dtype_size((tn_dtype)(type - TN_TYPE_FIXED(0))) != 0;
}

/* Types of a later version are as good as not there, but one type must be left. */
static tn_status check_types(const tn_operator *op) {
  if (!op->types[0]) return bad(op, NULL, "no element type");
  for (int v = 0; v < TN_MAX_TYPE_VARS; v++)
    if (op->types[v] && !(op->types[v] & TN_SET_STORED))
      return bad(op, NULL, "a type variable without an element type that this host knows");
  return TN_OK;
}

/* Inputs stand first, then in-out arguments, then outputs. */
static int arg_group(uint8_t kind) {
  return kind == TN_ARG_IN || kind == TN_ARG_OPTIONAL_IN ? 0 : kind == TN_ARG_INOUT ? 1 : 2;
}

/* Lists are read or updated, and always given. */
static bool is_list_fit(const tn_operator *op, const tn_arg *arg) {
  if (!(arg->flags & TN_ARG_LIST)) return true;
  return (arg->kind == TN_ARG_IN || arg->kind == TN_ARG_INOUT) &&
         !(op->flags & (TN_OPERATOR_ELEMENTWISE | TN_OPERATOR_DATA_DEPENDENT));
}

/* What stands in for it is made before lists are counted, of the type that others say. */
static bool is_one_fit(const tn_operator *op, const tn_arg *arg) {
  if (!(arg->flags & TN_ARG_OR_ONE)) return true;
  if (arg->kind != TN_ARG_IN) return false;
  for (uint32_t i = 0; i < op->num_args; i++)
    if (tn_operator_arg(op, i)->flags & TN_ARG_LIST) return false;
  return true;
}

static const char *arg_fault(const tn_operator *op, const tn_arg *arg) {
  if (arg->kind > TN_ARG_OPTIONAL_OUT) return "an argument of a kind that this host does not know";
  if (arg->flags & ~(TN_ARG_LIST | TN_ARG_OR_ONE))
    return "an argument with flags that this host does not know";
  if (!is_type(op, arg->type)) return "an argument of no type that this host knows";
  if (!is_one_fit(op, arg)) return "an argument that may be left out where none can be";
  return is_list_fit(op, arg) ? NULL : "a list where none can be";
}

static tn_status check_args(const tn_operator *op) {
  uint32_t inputs = 0;
  int group = 0;
  if (op->num_args == 0 || op->num_args > 2 * TN_MAX_ARGS || !op->args)
    return bad(op, NULL, "a number of arguments out of range");
  for (uint32_t i = 0; i < op->num_args; i++) {
    const tn_arg *arg = tn_operator_arg(op, i);
    if (!arg->name) return bad(op, NULL, "an argument without a name");
    const char *fault = arg_fault(op, arg);
    if (!fault && arg_group(arg->kind) < group) fault = "arguments out of order";
    if (fault) return bad(op, arg->name, fault);
    group = arg_group(arg->kind);
    inputs += group == 0;
  }
  if (inputs > TN_MAX_ARGS || op->num_args - inputs > TN_MAX_ARGS)
    return bad(op, NULL, "too many arguments");
  if (inputs == op->num_args) return bad(op, NULL, "no output");
  const tn_arg *last = tn_operator_arg(op, op->num_args - 1);
  if (op->flags & TN_OPERATOR_DATA_DEPENDENT &&
      (last->kind != TN_ARG_OUT || last->type != TN_TYPE_FIXED(TN_I64)))
    return bad(op, NULL, "a shape that depends on data, and no i64 count as its last output");
  return TN_OK;
}

/* Tensors are the last of the attributes, and say which one they are for. */
static const char *tensor_fault(const tn_operator *op, const tn_attr *attr) {
  if (attr->tensor.use > TN_USE_SKIPS || attr->tensor.of >= op->num_attrs)
    return "an attribute of kind tensor with a use that this host does not know";
  uint32_t of = tn_operator_attr(op, attr->tensor.of)->type;
  if (attr->tensor.use == TN_USE_SKIPS) {
    for (uint32_t i = 0; i < op->num_args; i++)
      if (tn_operator_arg(op, i)->kind >= TN_ARG_OUT)
        return "an attribute that skips calls, and outputs that are not updated in place";
  } else if (of != TN_ATTR_I64 && of != TN_ATTR_U64 &&
             (of != TN_ATTR_F64 || attr->tensor.use == TN_USE_ADDS)) {
    return "an attribute of kind tensor for one that is no such number";
  }
  for (uint32_t i = (uint32_t)op->num_attrs; i-- > 0 && tn_operator_attr(op, i) != attr;)
    if (tn_operator_attr(op, i)->type != TN_ATTR_TENSOR)
      return "an attribute of kind tensor before one of another kind";
  return NULL;
}

static const char *attr_fault(const tn_operator *op, const tn_attr *attr) {
  size_t size = attr_bytes(attr->type), align = size > 4 && attr->type != TN_ATTR_AXES ? 8 : 4;
  if (size == 0) return "an attribute of a type that this host does not know";
  /* The struct begins with its struct_size. */
  if (attr->offset < sizeof(uint32_t) || attr->offset % align || size > op->attrs_size ||
      attr->offset > op->attrs_size - size)
    return "an attribute outside its struct";
  if (attr->type == TN_ATTR_TENSOR && tensor_fault(op, attr)) return tensor_fault(op, attr);
  return attr->low_bound > TN_BOUND_OPEN || attr->high_bound > TN_BOUND_OPEN
             ? "an attribute with a bound of a kind that this host does not know"
             : NULL;
}

/* One attribute at most says an output's type: the first output's, which inputs say without it.
 * The dispatcher keeps the answer in the last type variable. */
static const char *result_fault(const tn_operator *op) {
  uint32_t results = 0, dtypes = 0, i = 0;
  for (uint32_t k = 0; k < op->num_attrs; k++) {
    results += tn_operator_attr(op, k)->type == TN_ATTR_RESULT;
    dtypes += tn_operator_attr(op, k)->type == TN_ATTR_DTYPE;
  }
  while (i < op->num_args && tn_operator_arg(op, i)->kind < TN_ARG_OUT) i++;
  bool fits = results == 1 && !dtypes && i < op->num_args &&
              tn_operator_arg(op, i)->kind == TN_ARG_OUT &&
              tn_operator_arg(op, i)->type < TN_TYPE_FIXED(0) && !op->types[TN_MAX_TYPE_VARS - 1];
  return results && !fits ? "a type of its first output where none can be" : NULL;
}

static tn_status check_attrs(const tn_operator *op) {
  if (op->num_attrs > ATTRS_MAX || op->attrs_size > ATTRS_MAX ||
      (op->attrs_size == 0) != (op->num_attrs == 0))
    return fail(REFUSED, "its operator '%.80s' has %u attributes in %u bytes; at most %d are taken",
                op->name, op->num_attrs, op->attrs_size, ATTRS_MAX);
  if (op->num_attrs && !op->attrs) return bad(op, NULL, "no list of its attributes");
  for (uint32_t i = 0; i < op->num_attrs; i++) {
    const tn_attr *attr = tn_operator_attr(op, i);
    if (!attr->name) return bad(op, NULL, "an attribute without a name");
    const char *fault = attr_fault(op, attr);
    if (fault) return bad(op, attr->name, fault);
  }
  if (result_fault(op)) return bad(op, NULL, result_fault(op));
  return TN_OK;
}

static tn_status check_operator(const tn_operator *op) {
  tn_status status = check_demands("operator", op->name, op->flags);
  if (status) return status;
  if (op->id != 0) return bad(op, NULL, "a number of its own (id must be 0)");
  if (!op->doc || !op->maths) return bad(op, NULL, "no doc or maths line");
  if (op->shape >= TN_SHAPE_RULES)
    return bad(op, NULL, "a shape rule that this host does not know");
  if (op->shape == TN_SHAPE_CUSTOM && !op->infer) return bad(op, NULL, "no infer function");
  status = check_distance(op, "tn_arg", op->arg_size, SIZE_1(tn_arg, reserved2));
  if (!status) status = check_distance(op, "tn_attr", op->attr_size, SIZE_1(tn_attr, reserved2));
  if (!status) status = check_types(op);
  if (!status) status = check_args(op);
  if (!status) status = check_attrs(op);
  return status;
}

static tn_status check_operators(const tn_plugin *p) {
  tn_status status =
      check_rows("operator", p->operators, p->num_operators, SIZE_1(tn_operator, attr_size));
  for (uint32_t i = 0; i < p->num_operators && !status; i++) {
    const tn_operator *op = plugin_operator(p, i);
    if (!op->name || !is_operator_name(op->name))
      return fail(REFUSED,
                  "its operator row %u has a malformed name, '%.40s'; it takes a-z, 0-9 and _, and "
                  "one dot behind the vendor's prefix",
                  i, op->name ? op->name : "(null)");
    status = check_operator(op);
  }
  return status;
}

/* ------------------------------------------------------- layers, the plugin --- */

static tn_status check_layers(const tn_plugin *p) {
  tn_status status = check_rows("layer", p->layers, p->num_layers, SIZE_1(tn_layer, description));
  for (uint32_t i = 0; i < p->num_layers && !status; i++) {
    const tn_layer *layer = plugin_layer(p, i);
    status = layer->name && *layer->name && layer->call
                 ? check_demands("layer", layer->name, layer->flags)
                 : fail(REFUSED, "its layer row %u has no name or no call function", i);
  }
  return status;
}

tn_status plugin_check_abi(uint32_t abi_min, uint32_t abi_max, uint32_t host_min,
                           uint32_t host_max) {
  if (abi_min <= abi_max && abi_min <= host_max && abi_max >= host_min) return TN_OK;
  return fail(REFUSED, "built for ABI %u..%u, this host serves %u..%u", abi_min, abi_max, host_min,
              host_max);
}

static tn_status check_identity(const tn_plugin *p, const tn_plugin_note *note,
                                const tn_host *host) {
  if (!p->name || strcmp(p->name, note->name) != 0)
    return fail(REFUSED, "it calls itself '%.47s', its note calls it '%s'",
                p->name ? p->name : "(null)", note->name);
  if (p->abi_min != note->abi_min || p->abi_max != note->abi_max)
    return fail(REFUSED, "its table says ABI %u..%u, its note %u..%u", p->abi_min, p->abi_max,
                note->abi_min, note->abi_max);
  if (!p->version || !p->description) return fail(REFUSED, "it has no version or no description");
  return plugin_check_abi(p->abi_min, p->abi_max, host->abi_min, host->abi_max);
}

tn_status plugin_check(const tn_plugin *plugin, const tn_plugin_note *note, const tn_host *host) {
  tn_status status = check_size("plugin", plugin, SIZE_1(tn_plugin, close));
  if (!status) status = check_identity(plugin, note, host);
  if (!status) status = check_demands("table", plugin->name, plugin->flags);
  if (!status) status = check_backends(plugin);
  if (!status) status = check_operators(plugin);
  if (!status) status = check_kernels(plugin);
  if (!status) status = check_layers(plugin);
  return status;
}

/* ------------------------------------------------- what is only followed later --- */

/* A text that is longer is taken for one without an end. */
enum { MAX_TEXT = 16 * 1024 };

/* pre: each of them may be NULL. */
static tn_status read_texts(const char *what, uint32_t row, const char *const *texts,
                            size_t count) {
  for (size_t i = 0; i < count; i++)
    if (texts[i] && strnlen(texts[i], MAX_TEXT) == MAX_TEXT)
      return fail(REFUSED, "its %s %u has a text without an end in %d bytes", what, row, MAX_TEXT);
  return TN_OK;
}
#define READ_TEXTS(what, row, ...)                                                                 \
  read_texts(what, row, (const char *const[]){__VA_ARGS__}, COUNT(((const char *[]){__VA_ARGS__})))

/* Reads a byte of each function; slots stand side by side and may be NULL. */
static void read_functions(const void *first, size_t bytes) {
  for (size_t i = 0; i + sizeof(void *) <= bytes; i += sizeof(void *)) {
    const volatile char *code;
    memcpy(&code, (const char *)first + i, sizeof code);
    if (code) (void)*code;
  }
}
#define READ_FUNCTIONS(row, first, last)                                                           \
  read_functions(&(row)->first, offsetof(__typeof__(*(row)), last) + sizeof(row)->last -           \
                                    offsetof(__typeof__(*(row)), first))

static tn_status read_operator(const tn_operator *op, uint32_t row) {
  tn_status status = READ_TEXTS("operator", row, op->name, op->doc, op->maths, op->source);
  for (uint32_t i = 0; i < op->num_args && !status; i++)
    status = READ_TEXTS("operator", row, tn_operator_arg(op, i)->name, tn_operator_arg(op, i)->doc);
  for (uint32_t i = 0; i < op->num_attrs && !status; i++)
    status =
        READ_TEXTS("operator", row, tn_operator_attr(op, i)->name, tn_operator_attr(op, i)->doc);
  READ_FUNCTIONS(op, infer, infer);
  return status;
}

static tn_status read_rows(const tn_plugin *p) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < p->num_operators && !status; i++)
    status = read_operator(plugin_operator(p, i), i);
  for (uint32_t i = 0; i < p->num_kernels && !status; i++) {
    const tn_kernel *k = plugin_kernel(p, i);
    status = READ_TEXTS("kernel", i, k->name, k->op_name, k->device_type, k->note);
    READ_FUNCTIONS(k, run, supports);
  }
  for (uint32_t i = 0; i < p->num_layers && !status; i++) {
    const tn_layer *layer = plugin_layer(p, i);
    status = READ_TEXTS("layer", i, layer->name, layer->description);
    READ_FUNCTIONS(layer, open, notify);
  }
  return status;
}

static void read_backend(const tn_backend *b) {
  READ_FUNCTIONS(b, count, graph_destroy);
  if (TN_HAS_FIELD(b, tn_backend, queue_wrap)) READ_FUNCTIONS(b, queue_wrap, queue_wrap);
  if (TN_HAS_FIELD(b, tn_backend, copy_between)) READ_FUNCTIONS(b, copy_between, copy_between);
}

tn_status plugin_read_all(const tn_plugin *plugin) {
  tn_status status = READ_TEXTS("plugin", 0, plugin->name, plugin->version, plugin->description);
  READ_FUNCTIONS(plugin, open, close);
  for (uint32_t i = 0; i < plugin->num_backends; i++) read_backend(plugin->backends[i]);
  if (!status) status = read_rows(plugin);
  return status;
}
