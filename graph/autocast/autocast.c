/* From a call to one of other types: its tensors by argument, the types, the casts; autocast.h. */
#include "graph/autocast/autocast.h"

#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/tensor/tensor.h"

enum { ROOM = 16 }; /* inputs for which no memory is asked */

/* A call, with what is decided of it. */
typedef struct request {
  const tn_call *call;
  const op_entry *op;
  const host_memory *memory;
  uint32_t length;                  /* tensors in each list */
  uint8_t target[TN_MAX_TYPE_VARS]; /* tn_dtype of inputs; TN_DTYPE_NONE: they stay */
  uint8_t usual[TN_MAX_TYPE_VARS];  /* what it would be without autocast, for messages */
} request;

/* --- the call's tensors --- */

/* Goes through the tensors that are there, in schema order, from a zeroed cursor. */
typedef struct cursor {
  uint32_t arg, of_arg; /* argument, and place in it */
  uint32_t next;        /* place among inputs, or among outputs */
  uint32_t index;       /* of the tensor that was given, likewise */
} cursor;

static const tn_tensor *next_tensor(const request *r, cursor *c, uint32_t *arg) {
  const op_entry *op = r->op;
  while (c->arg < op->row.num_args) {
    if (c->of_arg == (op->arg[c->arg].flags & TN_ARG_LIST ? r->length : 1)) {
      c->of_arg = 0;
      if (++c->arg == op->num_in) c->next = 0;
      continue;
    }
    *arg = c->arg;
    c->index = c->next++;
    ++c->of_arg;
    const tn_tensor *t = *arg < op->num_in ? r->call->in[c->index] : r->call->out[c->index];
    if (t) return t;
  }
  return NULL;
}

/* False for a call that is refused whatever the types. */
static bool outline(const tn_call *call, request *r) {
  const tn_device *device = call_first_tensor(call)->device;
  *r = (request){.call = call,
                 .op = registry_op(&device->runtime->registry, call->op),
                 .memory = &device->runtime->memory,
                 .length = 1};
  if (!r->op) return false;
  if (r->op->lists)
    r->length = call_list_length(r->op, call);
  else if (call->num_in != r->op->call_in || call->num_out != r->op->call_out)
    return false;
  if (!r->length || r->length > TN_MAX_LIST) return false;
  uint32_t arg;
  for (cursor c = {0};;) {
    const tn_tensor *t = next_tensor(r, &c, &arg);
    if (!t) return true;
    if (t->device != device) return false;
  }
}

/* --- the types --- */

#define IN_SET(type) (1u << (type))
enum { CASTABLE = IN_SET(TN_F16) | IN_SET(TN_BF16) | IN_SET(TN_F32) };

/* The type of a set of one; TN_DTYPE_NONE for others. */
static tn_dtype only_type(uint32_t types) {
  for (tn_dtype t = TN_DTYPE_NONE; t < TN_DTYPE_SLOTS; ++t)
    if (types == IN_SET(t)) return t;
  return TN_DTYPE_NONE;
}

/* given: types of a variable's inputs, set: of tensors to be written, which they follow; but what
 * is to be computed in float32 is not computed in fewer bits because of where it goes. */
static tn_dtype choose(precision class, tn_dtype low, uint32_t given, uint32_t set) {
  if (!given || ((given | set) & ~(uint32_t)CASTABLE)) return TN_DTYPE_NONE;
  if (set) {
    tn_dtype only = only_type(set);
    bool narrows = class == PRECISION_F32 && (given & IN_SET(TN_F32)) && only != TN_F32;
    return narrows ? TN_DTYPE_NONE : only;
  }
  if (class == PRECISION_LOW) return low;
  bool alike = (given & (given - 1)) == 0;
  return class == PRECISION_F32 || (class == PRECISION_WIDEST && !alike) ? TN_F32 : TN_DTYPE_NONE;
}

/* Without autocast they would be of one type: the widest that came. */
static tn_dtype usual_type(uint32_t given, uint32_t set) {
  tn_dtype only = only_type(set ? set : given);
  return only ? only : TN_F32;
}

/* The caller says what type the result has: that goes by his inputs' types. */
static bool says_result(const request *r) {
  const char *attrs = r->call->attrs;
  uint32_t size = 0;
  if (attrs) memcpy(&size, attrs, sizeof size);
  for (uint32_t i = 0; i < r->op->row.num_attrs; ++i) {
    const tn_attr *a = tn_operator_attr(&r->op->row, i);
    int32_t type = TN_DTYPE_NONE;
    if (a->type != TN_ATTR_RESULT || a->offset + sizeof type > size) continue;
    memcpy(&type, attrs + a->offset, sizeof type);
    return type != TN_DTYPE_NONE;
  }
  return false;
}

/* Whether some input is to be cast. */
static bool decide(request *r, tn_dtype low) {
  precision class = precision_of(&r->op->row);
  uint32_t given[TN_MAX_TYPE_VARS] = {0}, set[TN_MAX_TYPE_VARS] = {0}, arg;
  const tn_tensor *t;
  if (class == PRECISION_UNSAID || says_result(r)) return false;
  for (cursor c = {0}; (t = next_tensor(r, &c, &arg));) {
    uint8_t type = r->op->arg[arg].type;
    if (TN_TYPE_IS_VAR(type)) (arg < r->op->num_in ? given : set)[type] |= IN_SET(t->dtype);
  }
  bool any = false;
  for (uint32_t v = 0; v < TN_MAX_TYPE_VARS; ++v) {
    tn_dtype target = choose(class, low, given[v], set[v]);
    if (!target || !(r->op->row.types[v] >> target & 1)) continue;
    r->target[v] = (uint8_t)target;
    r->usual[v] = (uint8_t)usual_type(given[v], set[v]);
    any |= given[v] != IN_SET(target);
  }
  return any;
}

/* What input `arg` becomes of `types`; its own type where it stays. */
static tn_dtype type_in(const request *r, const uint8_t *types, uint32_t arg, const tn_tensor *t) {
  uint8_t type = r->op->arg[arg].type;
  tn_dtype wanted = TN_TYPE_IS_VAR(type) ? (tn_dtype)types[type] : TN_DTYPE_NONE;
  return wanted ? wanted : (tn_dtype)t->dtype;
}

/* --- validating --- */

static tn_status validate(const autocast *a, const tn_call *call) {
  plan p;
  tn_status status = plan_make(&p, call);
  if (status == (tn_status)PLAN_OF_LISTS) status = list_make(&p, call);
  if (status) return status;
  if (a->check) status = a->check(&p);
  p.op->lists ? list_abandon(&p) : plan_abandon(&p);
  if (p.op->lists) list_free(&p);
  return status;
}

/* The call with inputs of a program's making. */
static tn_call call_with(const request *r, const tn_tensor *const *in) {
  tn_call call = {0};
  uint32_t size = r->call->struct_size < sizeof call ? r->call->struct_size : sizeof call;
  memcpy(&call, r->call, size);
  call.struct_size = size;
  call.in = in;
  return call;
}

/* Makes the outputs of a call whose inputs are of these types, to see whether it can be made, and
 * gives them back. The inputs are headers alone. */
static tn_status validate_as(const autocast *a, const request *r, const uint8_t *types) {
  uint32_t n = r->call->num_in, arg;
  const tn_tensor *t;
  tn_tensor *headers = host_alloc(r->memory, (n + 1) * (sizeof *headers + sizeof t));
  if (!headers) return fail(TN_ERR_OUT_OF_MEMORY, "tn_%s: no host memory", r->op->row.name);
  const tn_tensor **in = (const tn_tensor **)(void *)(headers + n);
  for (cursor c = {0}; (t = next_tensor(r, &c, &arg)) && arg < r->op->num_in;) {
    tn_dtype dtype = type_in(r, types, arg, t);
    in[c.index] = t;
    if (dtype == (tn_dtype)t->dtype) continue;
    tn_tensor *header = &headers[c.index];
    memcpy(header, t, sizeof *header);
    header->dtype = (uint8_t)dtype;
    header->dl.dtype = dtype_to_dl(dtype);
    header->spare = SPARE_NONE; /* tracked ones have more memory than this */
    in[c.index] = header;
  }
  tn_call call = call_with(r, in);
  tn_status status = validate(a, &call);
  host_free(r->memory, headers);
  return status;
}

/* The message of a call that is refused, as it would be without autocast; where the types that
 * autocast chose are the reason, the one that there is. */
static tn_status refuse(const autocast *a, const request *r, tn_status status) {
  tn_status usual = validate_as(a, r, r->usual);
  if (usual) return usual;
  fail_prefix("under autocast: ");
  return status;
}

/* --- casting --- */

static tn_status cast_inputs(autocast *a, const request *r, const tn_tensor **in,
                             tn_tensor **casts) {
  uint32_t arg;
  const tn_tensor *t;
  tn_status status = TN_OK;
  for (cursor c = {0}; !status && (t = next_tensor(r, &c, &arg)) && arg < r->op->num_in;) {
    tn_dtype dtype = type_in(r, r->target, arg, t);
    in[c.index] = t;
    if (dtype == (tn_dtype)t->dtype) continue;
    status = a->cast(a, r->call->stream, t, dtype, &casts[c.index]);
    in[c.index] = casts[c.index];
    if (status) fail_prefix("tn_%s: autocast: ", r->op->row.name);
  }
  return status;
}

static tn_status invoke_cast(autocast *a, const request *r) {
  const tn_tensor *space[2 * ROOM] = {NULL}, **in = space;
  uint32_t n = r->call->num_in;
  tn_status status = a->check ? validate_as(a, r, r->target) : TN_OK;
  if (status) return refuse(a, r, status);
  if (n > ROOM) in = host_alloc(r->memory, 2 * (size_t)n * sizeof *in);
  if (!in) return fail(TN_ERR_OUT_OF_MEMORY, "tn_%s: no host memory", r->op->row.name);
  tn_tensor **casts = (tn_tensor **)(void *)(in + n);
  status = cast_inputs(a, r, in, casts);
  if (!status) {
    tn_call call = call_with(r, in);
    status = a->invoke(a, &call);
    if (status == TN_ERR_INVALID_ARGUMENT) status = refuse(a, r, status);
  }
  for (uint32_t i = 0; i < n; ++i) tn_tensor_release(casts[i]);
  if (in != space) host_free(r->memory, (void *)in);
  return status;
}

tn_status autocast_check(const char *function, tn_dtype dtype) {
  if (dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_DTYPE_NONE) return TN_OK;
  return fail(TN_ERR_INVALID_ARGUMENT,
              "%s: dtype is %s; it is TN_BF16 or TN_F16, or TN_DTYPE_NONE to end", function,
              tn_dtype_name(dtype));
}

tn_status autocast_invoke(autocast *a, const tn_call *call) {
  request r;
  bool casts = outline(call, &r) && decide(&r, a->dtype);
  return casts ? invoke_cast(a, &r) : a->invoke(a, call);
}
