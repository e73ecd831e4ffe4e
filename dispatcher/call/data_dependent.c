/*
 * Operators whose output shape depends on data: their outputs are made as large as they
 * can become; after the kernel the count that it wrote says how much of them is used.
 */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/call/plan.h"
#include "dispatcher/device/stream.h"
#include "dispatcher/tensor/tensor.h"

/* Waits for the stream and reads the last output. */
static tn_status read_count(const plan *p, int64_t *count) {
  const tn_tensor *t = p->out[p->num_out - 1];
  if (t->dl.ndim != 0 || t->dtype != TN_I64)
    return plan_refuse(p, TN_ERR_INTERNAL, "its last output is no scalar i64 count");
  tn_status status = tn_tensor_read(p->stream, t, count, sizeof *count);
  if (!status) status = stream_wait(p->stream);
  return status;
}

/* Nobody else has seen a tensor that this call made: its header can still change. */
static tn_status shrink_output(const plan *p, uint32_t i, int64_t count) {
  tn_tensor *y = p->out[i];
  if (y->dl.ndim == 0 || count < 0 || count > y->shape[0])
    return plan_refuse(p, TN_ERR_INTERNAL, "the kernel counted %" PRId64 " entries of %s", count,
                       p->op->row.args[p->num_in + i].name);
  y->shape[0] = count;
  tensor_finish(y);
  return TN_OK;
}

tn_status plan_shrink_outputs(plan *p) {
  int64_t count;
  if (p->device->recorder) return TN_OK; /* nothing was counted: the largest shape stays */
  tn_status status = read_count(p, &count);
  for (uint32_t i = p->op->num_inout; !status && i + 1 < p->num_out; ++i)
    if (p->made >> i & 1) status = shrink_output(p, i, count);
  return status;
}
