/*
 * The front door of operator calls: tn_invoke, and the prepared calls that do its work
 * once.
 */
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "dispatcher/call/fast_path.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/notify/notify.h"
#include "dispatcher/notify/watch.h"
#include "dispatcher/tensor/tracked.h"

/* A kernel failed: its message gets the call in front. */
static tn_status kernel_failed(const plan *p, tn_status status) {
  char reason[512];
  strncpy(reason, tn_last_error(), sizeof reason - 1);
  reason[sizeof reason - 1] = 0;
  return plan_refuse(p, status, "kernel %s: %s", p->cell ? p->cell->kernel->row.name : "none",
                     reason);
}

/* Validated: every tensor is of the plan's device, and what kernels see has the plan's
 * numbers. */
static bool plan_is_valid(const plan *p) {
  if (!p->op || p->stream->device != p->device || p->args.num_in != p->num_in ||
      p->args.num_out != p->num_out || p->args.device != p->device->handle)
    return false;
  for (uint32_t i = 0; i < p->num_in; ++i)
    if (!p->in[i] != !p->in_view[i] || (p->in[i] && p->in[i]->device != p->device)) return false;
  for (uint32_t i = 0; i < p->num_out; ++i)
    if (!p->out[i] != !p->out_view[i] || (p->out[i] && p->out[i]->device != p->device))
      return false;
  return !p->cell || p->cell->kernel->op == p->op;
}

static tn_status run_once(plan *p) {
  INVARIANT(plan_is_valid(p));
  if (__builtin_expect(!p->cell, 0)) return fallback_run(p);
  tn_status status = TN_OK;
  if (__builtin_expect(!p->cell->strided || p->cell->kernel->row.workspace, 0))
    status = plan_equip(p);
  if (__builtin_expect(!status, 1)) status = plan_run(p);
  if (__builtin_expect(status, 0)) status = p->cell ? kernel_failed(p, status) : fallback_run(p);
  plan_finish(p);
  return status;
}

static tn_status run_list_once(plan *p) {
  if (!p->cell) return fallback_run(p);
  tn_status status = list_equip(p);
  if (!status) status = list_run(p);
  if (status) status = kernel_failed(p, status);
  list_finish(p);
  return status;
}

static __attribute__((noinline)) tn_status invoke_list(plan *p, const tn_call *call) {
  tn_status status = list_make(p, call);
  if (status) return status;
  status = run_list_once(p);
  if (status) list_abandon(p);
  for (uint32_t i = p->list->num_inout; !status && i < p->list->num_out; ++i)
    call->out[i] = p->list->out[i];
  list_free(p);
  return status;
}

static inline bool depends_on_data(const plan *p) {
  return p->op->row.flags & TN_OPERATOR_DATA_DEPENDENT;
}

/* For a watcher, or for guards to be told of. */
static __attribute__((noinline, cold)) tn_status invoke_watched(const tn_device *device,
                                                                const tn_call *call) {
  tn_status status;
  if (__builtin_expect(!atomic_load(&num_guards), 1) && watcher_call(device, call, &status))
    return status;
  bool listens = guard_listens(device), hushed = guard_hush(true);
  if (!watcher_call(device, call, &status)) status = invoke_recorded(call);
  (void)guard_hush(hushed);
  for (uint32_t i = 0; listens && !status && i < call->num_out; ++i)
    if (call->out[i])
      guard_tell(device, &registry_op(&device->runtime->registry, call->op)->row, call->out[i]);
  return status;
}

/* plan_make did nothing: for whom the call is then, if it is not refused. */
static __attribute__((cold)) tn_status invoke_otherwise(plan *p, const tn_call *call,
                                                        tn_status status) {
  if (status == (tn_status)PLAN_OF_LISTS) return invoke_list(p, call);
  if (status == (tn_status)PLAN_WATCHED) return invoke_watched(p->device, call);
  return status;
}

/* Apart from tn_invoke so that the fast path does not pay for the plan's stack. */
static __attribute__((noinline)) tn_status invoke_planned(const tn_call *call) {
  plan p;
  tn_status status = plan_make(&p, call);
  if (__builtin_expect(status, 0)) return invoke_otherwise(&p, call, status);
  status = run_once(&p);
  if (__builtin_expect(depends_on_data(&p), 0) && !status) status = plan_shrink_outputs(&p);
  if (__builtin_expect(status, 0)) {
    plan_abandon(&p);
    return status;
  }
  for (uint32_t i = 0; i < p.num_out; ++i) call->out[i] = p.out[i];
  return TN_OK;
}

tn_status tn_invoke(const tn_call *call) {
  tn_status status;
  return fast_path_invoke(call, &status) ? status : invoke_planned(call);
}

/* A prepared call owns references to its tensors. Where the plan needs nothing made
 * anew per run (no stand-ins, no fallback), running it is one kernel call. */
struct tn_prepared {
  plan plan;
  bool direct;
  bool chosen;  /* runs a kernel that the caller chose, not the best */
  tn_kept kept; /* the kernel's, where args has it */
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
};

typedef struct tensors {
  const tn_tensor *const *in;
  tn_tensor **out;
  uint32_t num_in, num_out;
} tensors;

static tensors tensors_of(plan *p) {
  const list_plan *l = p->list;
  if (p->op->lists) return (tensors){l->in, l->out, l->num_in, l->num_out};
  return (tensors){p->in, p->out, p->num_in, p->num_out};
}

static void keep_tensors(const tensors *t) {
  for (uint32_t i = 0; i < t->num_in; ++i)
    if (t->in[i]) tn_tensor_retain((tn_tensor *)(uintptr_t)t->in[i]);
  for (uint32_t i = 0; i < t->num_out; ++i)
    if (t->out[i]) tn_tensor_retain(t->out[i]);
}

/* The caller's attribute struct may go: keep a copy. */
static void keep_attrs(tn_prepared *prepared, const void *attrs) {
  plan *p = &prepared->plan;
  p->args.attrs = attrs;
  if (!p->op->row.attrs_size || attrs == p->op->defaults) return;
  memmove(prepared->attrs, attrs, p->op->row.attrs_size);
  p->args.attrs = prepared->attrs;
}

/* Makes a plan's temporaries; `direct` says whether they serve every run. */
static tn_status equip(plan *p, bool *direct) {
  *direct = p->cell != NULL;
  if (!*direct) return TN_OK;
  tn_status status = p->op->lists ? list_equip(p) : plan_equip(p);
  /* Stand-ins are made for each run, since inputs change between runs. */
  if (p->op->lists ? p->list->num_temps : p->num_temps) *direct = false;
  if (status && !p->cell) *direct = false, status = TN_OK;
  if (status || !*direct) p->op->lists ? list_finish(p) : plan_finish(p);
  return status;
}

/* A candidate that is not the first choice runs as it is or not at all. */
static tn_status equip_candidate(tn_prepared *made, uint32_t rank) {
  plan *p = &made->plan;
  plan_pick_candidate(p, rank);
  made->chosen = rank > 0;
  if (rank && !p->cell)
    return plan_refuse(p, TN_ERR_UNSUPPORTED, "fewer than %u kernels take it", rank + 1);
  const char *name = p->cell ? p->cell->kernel->row.name : "";
  tn_status status = equip(p, &made->direct);
  if (!status && rank && !made->direct)
    return plan_refuse(p, TN_ERR_UNSUPPORTED, "kernel %s wants the tensors row-major", name);
  return status;
}

/* On a device that is not ordinary. */
static __attribute__((cold)) tn_status check_prepared(const tn_device *device,
                                                      const char *function) {
  tn_status status = device_check(device);
  return status ? status : watch_refuse(device, function);
}

/* The same of a run, of which guards are told. */
static __attribute__((noinline, cold)) tn_status check_run(plan *p) {
  tn_status status = check_prepared(p->device, "tn_run");
  tensors t = tensors_of(p);
  for (uint32_t i = 0; !status && i < t.num_out; ++i)
    if (t.out[i]) guard_tell(p->device, &p->op->row, t.out[i]);
  return status;
}

static __attribute__((cold)) tn_status refuse_symbolic(const tn_device *device) {
  return fail(TN_ERR_UNSUPPORTED,
              "tn_prepare: a call on symbolic tensors of %s is recorded and "
              "never run; compile the graph",
              device->id);
}

static tn_status prepare(const tn_call *call, uint32_t rank, tn_prepared **prepared) {
  const tn_tensor *any = call_is_whole(call) ? call_first_tensor(call) : NULL;
  tn_status status = TN_OK;
  plan refused;
  if (!any) return plan_make(&refused, call); /* fails, with the message */
  if (any->device->recorder && device_is_fine(any->device)) return refuse_symbolic(any->device);
  if (!device_is_ordinary(any->device)) status = check_prepared(any->device, "tn_prepare");
  if (status) return tracked_explain(any, "tn_prepare", status);
  const host_memory *memory = &any->device->runtime->memory;
  tn_prepared *made = host_alloc(memory, sizeof *made);
  if (!made) return fail(TN_ERR_OUT_OF_MEMORY, "tn_prepare: no host memory");
  plan *p = &made->plan;
  status = plan_make(p, call);
  if (status == (tn_status)PLAN_OF_LISTS) status = list_make(p, call);
  if (status) goto fail;
  keep_attrs(made, p->args.attrs);
  status = equip_candidate(made, rank);
  if (status) {
    if (p->op->lists)
      list_abandon(p), list_free(p);
    else
      plan_abandon(p);
    goto fail;
  }
  tensors t = tensors_of(p);
  keep_tensors(&t);
  attr_tensors_retain(p->op, p->args.attrs);
  for (uint32_t i = 0; i < t.num_out; ++i) call->out[i] = t.out[i];
  *prepared = made;
  if (p->device->runtime->notified)
    notify_prepared(TN_LAYER_PREPARED_MADE, p->device, made, &p->op->row);
  return TN_OK;
fail:
  host_free(memory, made);
  return status;
}

tn_status tn_prepare(const tn_call *call, tn_prepared **prepared) {
  if (!prepared) return fail(TN_ERR_INVALID_ARGUMENT, "tn_prepare: prepared is NULL");
  return prepare(call, 0, prepared);
}

tn_status tn_prepare_candidate(const tn_call *call, uint32_t rank, tn_prepared **prepared) {
  if (!prepared) return fail(TN_ERR_INVALID_ARGUMENT, "tn_prepare_candidate: prepared is NULL");
  return prepare(call, rank, prepared);
}

tn_status tn_prepared_kernel(const tn_prepared *prepared, tn_kernel_info *info) {
  if (!prepared) return fail(TN_ERR_INVALID_ARGUMENT, "tn_prepared_kernel: prepared is NULL");
  const plan *p = &prepared->plan;
  tn_status status = struct_check("tn_prepared_kernel", "info", "tn_kernel_info", info);
  if (!status) status = device_check(p->device);
  if (status) return status;
  if (!p->cell) return plan_refuse(p, TN_ERR_UNSUPPORTED, "it falls back to a host device");
  cell_describe(p->cell, info);
  return TN_OK;
}

/* The call again, with the outputs given. */
static tn_call call_of(plan *p, const void *attrs) {
  tensors t = tensors_of(p);
  return (tn_call){.struct_size = sizeof(tn_call),
                   .op = p->op->row.id,
                   .stream = p->stream,
                   .in = t.in,
                   .out = t.out,
                   .attrs = attrs,
                   .num_in = (uint16_t)t.num_in,
                   .num_out = (uint16_t)t.num_out,
                   .skip_out = p->skipped};
}

static tn_status run_anew(tn_prepared *prepared) {
  const tn_device *device = prepared->plan.device;
  tn_status status = device_is_ordinary(device) ? TN_OK : check_prepared(device, "tn_run");
  if (status) return status;
  tn_call call = call_of(&prepared->plan, prepared->plan.args.attrs);
  return tn_invoke(&call);
}

/* Goes on to the kernel of the prepared call; one that the caller chose is not replaced. */
static tn_status find_chosen(const plan *p, plan *anew) {
  while (anew->cell && anew->cell != p->cell) plan_pick_candidate(anew, 1);
  if (anew->cell) return TN_OK;
  return plan_refuse(p, TN_ERR_UNSUPPORTED, "kernel %s does not take these attributes",
                     p->cell->kernel->row.name);
}

/* The kernel begins anew. */
static void forget_kept(tn_prepared *prepared) {
  tn_kept *kept = &prepared->kept;
  if (kept->data && kept->release) kept->release(prepared->plan.args.host, kept->data);
  kept->data = NULL;
  kept->release = NULL;
}

void prepared_keep(tn_prepared *prepared, uint32_t constants) {
  plan *p = &prepared->plan;
  if (!constants || !prepared->direct || !p->device->synchronous) return;
  prepared->kept = (tn_kept){.struct_size = sizeof prepared->kept, .constants = constants};
  p->args.struct_size = sizeof p->args;
  p->args.kept = &prepared->kept;
}

/* Takes attributes and kernel of a plan for the same tensors; as before if that fails. */
static tn_status adopt(tn_prepared *prepared, const plan *anew) {
  plan *p = &prepared->plan;
  const cell *old = p->cell;
  tn_kernel_args args = p->args;
  block *workspace = p->workspace;
  bool direct = prepared->direct;
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
  forget_kept(prepared);
  memcpy(attrs, prepared->attrs, sizeof attrs);
  keep_attrs(prepared, anew->args.attrs);
  p->cell = anew->cell;
  p->args.kernel = anew->args.kernel;
  p->workspace = p->args.workspace = NULL;
  p->args.workspace_bytes = p->args.workspace_offset = 0;
  plan_set_views(p);
  attr_tensors_retain(p->op, p->args.attrs);
  tn_status status = equip(p, &prepared->direct);
  const void *before = args.attrs == prepared->attrs ? attrs : args.attrs;
  attr_tensors_release(p->op, status ? p->args.attrs : before);
  if (status) {
    memcpy(prepared->attrs, attrs, sizeof attrs);
    p->cell = old;
    p->args = args;
    prepared->direct = direct;
    plan_set_views(p);
  }
  block *unused = status ? p->workspace : workspace;
  p->workspace = status ? workspace : p->workspace;
  if (unused) pool_free(unused);
  return status;
}

tn_status tn_prepared_set_attrs(tn_prepared *prepared, const void *attrs) {
  if (!prepared) return fail(TN_ERR_INVALID_ARGUMENT, "tn_prepared_set_attrs: prepared is NULL");
  plan *p = &prepared->plan, anew;
  tn_status status = TN_OK;
  if (!device_is_ordinary(p->device)) status = check_prepared(p->device, "tn_prepared_set_attrs");
  if (status) return status;
  tn_call call = call_of(p, attrs);
  status = plan_make(&anew, &call);
  if (status == (tn_status)PLAN_OF_LISTS) status = list_make(&anew, &call);
  if (status) return status;
  if (prepared->chosen) status = find_chosen(p, &anew);
  if (!status) status = adopt(prepared, &anew);
  if (p->op->lists) list_free(&anew);
  return status;
}

static __attribute__((noinline, cold)) tn_status prepared_failed(const plan *p, tn_status status) {
  return kernel_failed(p, kernel_status(p->device, p->cell, status));
}

tn_status tn_run(tn_prepared *prepared) {
  if (__builtin_expect(!prepared, 0))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_run: prepared is NULL");
  plan *p = &prepared->plan;
  if (!prepared->direct) return run_anew(prepared);
  tn_status status;
  if (__builtin_expect(!device_is_ordinary(p->device), 0) && (status = check_run(p))) return status;
  status = p->cell->run(&p->args);
  return __builtin_expect(status, 0) ? prepared_failed(p, status) : TN_OK;
}

size_t prepared_drop_workspace(tn_prepared *prepared) {
  plan *p = &prepared->plan;
  size_t bytes = p->workspace ? p->args.workspace_bytes : 0;
  if (bytes) pool_free(p->workspace);
  p->workspace = NULL;
  return bytes;
}

void prepared_lend_workspace(tn_prepared *prepared, const tn_tensor *memory) {
  plan *p = &prepared->plan;
  p->args.workspace = memory->dl.data;
  p->args.workspace_offset = memory->dl.byte_offset;
}

bool prepared_copies(const tn_prepared *prepared) {
  const plan *p = &prepared->plan;
  return p->cell && !prepared->direct && !p->op->lists && !depends_on_data(p);
}

const char *prepared_unrecordable(const tn_prepared *prepared) {
  const plan *p = &prepared->plan;
  if (!p->cell) return "no kernel of the device takes it";
  if (depends_on_data(p)) return "the shape of what it returns depends on data";
  if (!prepared->direct) return "its kernel gets row-major copies of its tensors";
  const tn_kernel *row = &p->cell->kernel->row;
  if (!strcmp(row->device_type, TN_DEVICE_ANY_HOST)) return "its kernel computes in the caller";
  return row->flags & TN_KERNEL_CAPTURE_SAFE ? NULL : "its kernel is not TN_KERNEL_CAPTURE_SAFE";
}

static tn_kernel_args args_in(const plan *p, const tn_stream *stream) {
  tn_kernel_args args = p->args;
  args.queue = stream->queue;
  args.native_stream = stream->native;
  return args;
}

tn_status prepared_run_in(const tn_prepared *prepared, const tn_stream *stream) {
  const plan *p = &prepared->plan;
  const tn_kernel_args args = args_in(p, stream);
  tn_status status = p->cell->run(&args);
  return status ? prepared_failed(p, status) : TN_OK;
}

tn_status prepared_settle_in(const tn_prepared *prepared, const tn_stream *stream) {
  const plan *p = &prepared->plan;
  const tn_kernel *row = &p->cell->kernel->row;
  tn_kernel_args args = args_in(p, stream);
  size_t bytes = 0;
  if (!row->workspace) return TN_OK;
  args.workspace = NULL;
  args.workspace_bytes = args.workspace_offset = 0;
  tn_status status = row->workspace(&args, &bytes);
  if (status)
    return device_failed(p->device, status, p->cell->kernel->plugin->name, "workspace function");
  if (bytes <= p->args.workspace_bytes) return TN_OK;
  return plan_refuse(p, TN_ERR_UNSUPPORTED, "kernel %s wants %zu bytes of workspace, and had %zu",
                     row->name, bytes, p->args.workspace_bytes);
}

bool prepared_refresh(tn_prepared *prepared) {
  plan *p = &prepared->plan;
  if (p->op->lists || !prepared->direct || !p->expanded) return false;
  for (uint32_t i = 0; i < p->num_in; ++i) {
    if (!p->in[i] || p->in_view[i] != &p->expansion[i].dl) continue;
    p->expansion[i].dl.data = p->in[i]->dl.data;
    p->expansion[i].dl.byte_offset = p->in[i]->dl.byte_offset;
  }
  return true;
}

void *prepared_attrs(tn_prepared *prepared) {
  return prepared->plan.args.attrs == prepared->attrs ? prepared->attrs : NULL;
}

void tn_prepared_release(tn_prepared *prepared) {
  if (!prepared || runtime_is_forked(prepared->plan.device->runtime)) return;
  plan *p = &prepared->plan;
  tn_runtime *runtime = p->device->runtime;
  host_memory memory = runtime->memory;
  list_plan *list = p->op->lists ? p->list : NULL;
  tensors t = tensors_of(p);
  if (runtime->notified)
    notify_prepared(TN_LAYER_PREPARED_RELEASED, p->device, prepared, &p->op->row);
  /* A closed runtime is held by each block in use; the tensors hold it through this. */
  bool holds = p->workspace && atomic_load(&runtime->closed);
  forget_kept(prepared);
  if (prepared->direct) list ? list_finish(p) : plan_finish(p);
  attr_tensors_release(p->op, p->args.attrs);
  if (holds) runtime_release(runtime);
  for (uint32_t i = 0; i < t.num_in; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)t.in[i]);
  for (uint32_t i = 0; i < t.num_out; ++i) tn_tensor_release(t.out[i]);
  host_free(&memory, list);
  host_free(&memory, prepared);
}
