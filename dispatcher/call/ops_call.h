/* What the printed bodies of the operator functions share. */
#ifndef TENON_DISPATCHER_OPS_CALL_H
#define TENON_DISPATCHER_OPS_CALL_H

#include "tenon/tenon.h"

/* Reads outputs through their pointers, calls, and stores them back. `out` begins with
 * the in-out tensors. */
static inline tn_status call_operator(uint32_t op, tn_stream *stream, const tn_tensor *const *in,
                                      uint16_t num_in, tn_tensor **out, uint16_t num_inout,
                                      tn_tensor **const *results, uint16_t num_results,
                                      const void *attrs) {
  uint32_t skip = 0;
  for (uint16_t i = 0; i < num_results; ++i) {
    if (results[i])
      out[num_inout + i] = *results[i];
    else
      skip |= 1u << i;
  }
  const tn_call call = {
      sizeof call, op, stream, in, out, attrs, num_in, (uint16_t)(num_inout + num_results), skip};
  tn_status status = tn_invoke(&call);
  if (__builtin_expect(status, 0)) return status;
  for (uint16_t i = 0; i < num_results; ++i)
    if (results[i]) *results[i] = out[num_inout + i];
  return TN_OK;
}

/* An argument of an operator with lists: `one` tensor, or a list of them. */
typedef struct list_arg {
  const char *name;
  const tn_tensor *one;
  const tn_tensor *const *list;
  bool is_list;
} list_arg;

/* The same for operators with lists, all of them `count` tensors long; ops_call.c. `args`
 * are the inputs and then the in-out arguments; call->num_in and num_out count arguments,
 * call->in and out are not read. */
tn_status call_operator_of_lists(const tn_call *call, const char *name, const list_arg *args,
                                 uint32_t num_inout, size_t count, tn_tensor **const *results);

#endif
