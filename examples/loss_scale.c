#include "loss_scale.h"

#include "pass.h"

enum { FIRST_SCALE = 65536 };

tn_status loss_scale_create(tn_device *device, loss_scale *l) {
  tn_status s = tn_full(device, NULL, TN_F32, 0, NULL, FIRST_SCALE, &l->scale);
  return s ? s : tn_zeros(device, NULL, TN_I64, 0, NULL, &l->good);
}

void loss_scale_drop(loss_scale *l) {
  tn_tensor_release(l->scale);
  tn_tensor_release(l->good);
  *l = (loss_scale){NULL, NULL};
}

tn_status loss_scale_parameters(tn_graph *graph, const loss_scale *own, loss_scale *l) {
  if (!own->scale) return TN_OK;
  tn_status s = tn_graph_parameter(graph, "scale", own->scale, &l->scale);
  return s ? s : tn_graph_parameter(graph, "good steps", own->good, &l->good);
}

tn_status loss_scale_apply(const loss_scale *l, tn_tensor *loss, tn_tensor **scaled) {
  if (l->scale) return tn_mul(NULL, loss, l->scale, scaled);
  tn_tensor_retain(*scaled = loss);
  return TN_OK;
}

static tn_status unscale(const loss_scale *l, tn_tensor **gradients, size_t n, tn_tensor **skip) {
  tn_tensor *found = NULL;
  tn_status s = tn_zeros(tn_tensor_device(l->scale), NULL, TN_BOOL, 0, NULL, &found);
  if (!s) s = tn_unscale_grads(NULL, l->scale, gradients, n, found);
  if (!s) s = tn_update_loss_scale(NULL, found, l->scale, l->good, NULL);
  if (s) return tn_tensor_release(found), s;
  *skip = found;
  return TN_OK;
}

static tn_status count_step(tn_tensor *count, const tn_tensor *skip) {
  const tn_cast_attrs number = {.struct_size = sizeof number, .dtype = TN_I64};
  pass p = {.made = 0};
  tn_tensor **one = pass_result(&p), **skipped = pass_result(&p), **step = pass_result(&p);
  p.status = tn_scalar(tn_tensor_device(count), NULL, TN_I64, 1, one);
  if (!p.status && skip) p.status = tn_cast(NULL, skip, &number, skipped);
  if (!p.status && skip) p.status = tn_sub(NULL, *one, *skipped, step);
  if (!p.status) p.status = tn_add(NULL, count, skip ? *step : *one, &count);
  return pass_end(&p);
}

tn_status loss_scale_step(const loss_scale *l, tn_tensor **gradients, size_t n, tn_tensor *count,
                          tn_tensor **skip) {
  *skip = NULL;
  tn_status s = l->scale ? unscale(l, gradients, n, skip) : TN_OK;
  if (!s) s = count_step(count, *skip);
  if (s) tn_tensor_release(*skip), *skip = NULL;
  return s;
}
