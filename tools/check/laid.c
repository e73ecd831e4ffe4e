/* Calls laid out; see laid.h. */
#include "laid.h"

#include <stdlib.h>
#include <string.h>

static tn_status lay(laid *l, uint32_t i) {
  const case_arg *a = &l->c->arg[i];
  if (a->absent || arg_is_output(&l->c->op->args[i])) return TN_OK;
  l->updates |= i >= l->num_in;
  l->values[i] = malloc((size_t)case_elements(a) * tn_dtype_size(case_dtype(l->c, i)) + 1);
  if (!l->values[i]) return TN_ERR_OUT_OF_MEMORY;
  case_fill(l->c, i, l->values[i]);
  return tn_tensor_from_host(l->device, case_dtype(l->c, i), a->rank, a->shape, l->values[i],
                             &l->arg[i]);
}

tn_status laid_make(const op_case *c, tn_device *device, tn_stream *stream, laid *l) {
  tn_status status = TN_OK;
  *l = (laid){.c = c, .device = device, .stream = stream, .num_in = op_inputs(c->op)};
  l->num_args = c->op->num_args;
  for (uint32_t i = 0; i < l->num_args && status == TN_OK; i++) status = lay(l, i);
  for (uint32_t i = 0; i < l->num_in; i++) l->in[i] = l->arg[i];
  if (status != TN_OK) laid_free(l);
  return status;
}

tn_call laid_call(laid *l) {
  tn_call call = {.struct_size = sizeof call,
                  .op = l->c->op->id,
                  .stream = l->stream,
                  .in = l->in,
                  .out = l->arg + l->num_in,
                  .num_in = (uint16_t)l->num_in,
                  .num_out = (uint16_t)(l->num_args - l->num_in)};
  call.attrs = l->c->op->num_attrs ? l->c->attrs : NULL;
  for (uint32_t i = l->num_in; i < l->num_args; i++)
    if (l->c->arg[i].absent) call.skip_out |= 1u << (i - l->num_in);
  return call;
}

tn_status laid_refresh(laid *l) {
  tn_status status = TN_OK;
  for (uint32_t i = l->num_in; l->updates && i < l->num_args && status == TN_OK; i++)
    if (l->values[i])
      status = tn_tensor_write(l->stream, l->arg[i], l->values[i], tn_tensor_bytes(l->arg[i]));
  return status;
}

void laid_drop_outputs(laid *l) {
  for (uint32_t i = l->num_in; i < l->num_args; i++) {
    if (l->values[i]) continue;
    tn_tensor_release(l->arg[i]);
    l->arg[i] = NULL;
  }
}

void laid_free(laid *l) {
  for (uint32_t i = 0; i < l->num_args; i++) {
    tn_tensor_release(l->arg[i]);
    free(l->values[i]);
  }
  *l = (laid){0};
}

tn_status laid_read(const tn_tensor *t, output *o) {
  o->dtype = tn_tensor_dtype(t);
  o->rank = tn_tensor_rank(t);
  o->elements = tn_tensor_elements(t);
  for (int32_t i = 0; i < o->rank; i++) o->shape[i] = tn_tensor_shape(t)[i];
  o->data = malloc(tn_tensor_bytes(t) + 1);
  return o->data ? tn_tensor_to_host(t, o->data, tn_tensor_bytes(t)) : TN_ERR_OUT_OF_MEMORY;
}

tn_status laid_prepare(laid *l, uint32_t rank, const char *judge, tn_prepared **prepared) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  tn_call call = laid_call(l);
  tn_status status = tn_prepare_candidate(&call, rank, prepared);
  if (status == TN_OK) status = tn_prepared_kernel(*prepared, &kernel);
  if (status == TN_OK && rank && !strcmp(kernel.plugin, judge)) status = TN_ERR_UNSUPPORTED;
  if (status == TN_OK) return status;
  tn_prepared_release(*prepared);
  *prepared = NULL;
  return status;
}
