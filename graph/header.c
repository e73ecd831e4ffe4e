/* Headers of tensors that show values of a record in memory that is somebody else's. */
#include <string.h>

#include "dispatcher/tensor/tensor.h"
#include "dispatcher/tensor/tracked.h"
#include "graph/objects.h"

void header_place(tn_tensor *header, const tn_tensor *memory, uint64_t at) {
  header->dl.data = memory->dl.data;
  header->dl.byte_offset = memory->dl.byte_offset;
  if (header->device->opaque)
    header->dl.byte_offset += at;
  else
    header->dl.data = (char *)header->dl.data + at;
}

/* All of a header but what tensor_finish derives and checks. */
static tn_status begin(const record_value *v, const tn_tensor *memory, uint64_t at,
                       tn_tensor **header) {
  tn_tensor *t;
  tn_status status = tensor_view(memory, &t);
  if (status) return status;
  t->dtype = (uint8_t)v->dtype;
  t->dl.dtype = dtype_to_dl(v->dtype);
  t->dl.ndim = v->rank;
  memcpy(t->shape, v->shape, sizeof t->shape);
  memcpy(t->strides, v->strides, sizeof t->strides);
  t->read_only = false;
  header_place(t, memory, at + v->offset);
  *header = t;
  return TN_OK;
}

tn_status header_make(const record_value *v, const tn_tensor *memory, uint64_t at,
                      tn_tensor **header) {
  tn_status status = begin(v, memory, at, header);
  if (!status) tensor_finish(*header);
  return status;
}

tn_status header_stand_in(const record_value *v, const tn_tensor *memory, tn_tensor **header) {
  tn_status status = begin(v, memory, 0, header);
  if (status) return status;
  (*header)->elements = 1;
  for (int32_t i = 0; i < v->rank; ++i) (*header)->elements *= v->shape[i];
  (*header)->contiguous =
      (*header)->elements == 0 || strides_are_contiguous(v->rank, v->shape, v->strides);
  if ((*header)->spare < 0) tracked_made(*header, NULL);
  return TN_OK;
}
