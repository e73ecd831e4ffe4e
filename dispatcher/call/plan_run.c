/*
 * From a plan to the kernel's call: row-major copies where the kernel wants them, workspace, the
 * run, and what is given back after it.
 */
#include "dispatcher/call/plan.h"
#include "dispatcher/memory/pool.h"
#include "dispatcher/objects/device.h"
#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/transfer.h"

bool view_is_contiguous(const DLTensor *t) {
  for (int32_t i = 0; i < t->ndim; ++i)
    if (t->shape[i] == 0) return true;
  return strides_are_contiguous(t->ndim, t->shape, t->strides);
}

/* A kernel `copy` that wants contiguous tensors cannot be what makes them so: the call goes to
 * the fallback, which needs no kernel. */
static bool is_circular(plan *p) {
  if (p->op->row.id != TN_OP_COPY) return false;
  p->cell = NULL;
  return true;
}

/* Copies input i, as the kernel would see it, to contiguous memory. */
static tn_status make_input_contiguous(plan *p, uint32_t i) {
  tn_tensor *view, *dense = NULL;
  if (is_circular(p)) return TN_ERR_UNSUPPORTED;
  const DLTensor *seen = p->in_view[i];
  tn_status status = tn_tensor_expand(p->in[i], seen->ndim, seen->shape, &view);
  if (status) return status;
  status = transfer_stand_in(p->op->row.name, p->stream, view, &dense);
  tn_tensor_release(view);
  if (status) return status;
  p->temps[p->num_temps++] = dense;
  p->in_view[i] = &dense->dl;
  return TN_OK;
}

/* Lets the kernel write out[i] through contiguous memory. */
static tn_status make_output_contiguous(plan *p, uint32_t i) {
  tn_tensor *y = p->out[i], *dense = NULL;
  tn_status status;
  if (is_circular(p)) return TN_ERR_UNSUPPORTED;
  if (i < p->op->num_inout)
    status = transfer_stand_in(p->op->row.name, p->stream, y, &dense);
  else
    status = tensor_make(p->device, p->stream, (tn_dtype)y->dtype, y->dl.ndim, y->shape,
                         y->elements, &dense);
  if (status) return status;
  p->temps[p->num_temps++] = dense;
  p->written_via[i] = dense;
  p->via |= 1u << i;
  p->out_view[i] = &dense->dl;
  return TN_OK;
}

tn_status plan_take_workspace(plan *p) {
  size_t bytes = 0;
  void *queue = p->args.queue;
  p->args.queue = stream_queue(p->stream); /* as where it is picked */
  tn_status status = p->args.kernel->workspace(&p->args, &bytes);
  p->args.queue = queue;
  if (status)
    return device_failed(p->device, status, p->cell->kernel->plugin->name, "workspace function");
  if (bytes == 0) return TN_OK;
  status = pool_alloc(p->stream->cache, bytes, &p->workspace);
  if (status && status != (tn_status)POOL_TRACKED) return status;
  p->args.workspace = p->workspace->handle;
  p->args.workspace_offset = p->workspace->offset;
  if (!p->device->opaque) {
    p->args.workspace = (char *)p->workspace->handle + p->workspace->offset;
    p->args.workspace_offset = 0;
  }
  p->args.workspace_bytes = bytes;
  return TN_OK;
}

tn_status plan_equip(plan *p) {
  tn_status status = TN_OK;
  if (!p->cell->strided) {
    for (uint32_t i = 0; !status && i < p->num_in; ++i)
      if (p->in[i] && !view_is_contiguous(p->in_view[i])) status = make_input_contiguous(p, i);
    for (uint32_t i = 0; !status && i < p->num_out; ++i)
      if (p->out[i] && !p->out[i]->contiguous) status = make_output_contiguous(p, i);
  }
  if (!status && p->cell->kernel->row.workspace) status = plan_take_workspace(p);
  return status;
}

tn_status plan_run(plan *p) {
  tn_status status = p->cell->run(&p->args);
  if (__builtin_expect(status, 0)) return kernel_status(p->device, p->cell, status);
  for (uint32_t i = 0; __builtin_expect(p->via != 0, 0) && !status && i < p->num_out; ++i)
    if (p->via >> i & 1)
      status = transfer_stand_in(p->op->row.name, p->stream, p->written_via[i], &p->out[i]);
  return status;
}

void plan_finish(plan *p) {
  for (uint32_t i = 0; i < p->num_temps; ++i) tn_tensor_release(p->temps[i]);
  if (__builtin_expect(p->workspace != NULL, 0)) pool_free(p->workspace);
  p->num_temps = 0;
  p->workspace = NULL;
}
