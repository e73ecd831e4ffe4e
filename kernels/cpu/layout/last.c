/* Which calls are those of kernels for images with channels last. */
#include "kernels/cpu/cpu.h"

/* Whether it lies dense with its axes in this order, those of one element anywhere. */
static bool lies_as(const DLTensor *t, const int order[4]) {
  int64_t stride = 1;
  for (int i = 3; i >= 0; i--) {
    const int d = order[i];
    if (t->shape[d] != 1 && t->strides[d] != stride) return false;
    stride *= t->shape[d];
  }
  return true;
}

bool ISA(last_supports)(const tn_kernel_args *args) {
  static const int last[] = {0, 2, 3, 1}, row_major[] = {0, 1, 2, 3};
  bool all_plain = true;
  for (int i = 0; i <= args->num_in; i++) {
    const DLTensor *t = i < args->num_in ? args->in[i] : args->out[0];
    if (!t || t->ndim != 4 || !lies_as(t, last)) return false;
    all_plain = all_plain && lies_as(t, row_major);
  }
  for (int i = 1; i < args->num_out; i++)
    if (args->out[i]) return false;
  return !all_plain;
}
