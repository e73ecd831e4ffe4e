/*
 * Calls of operators with lists, for the printed bodies: lays the tensors of all
 * arguments one after the other, as tn_call has them.
 */
#include "dispatcher/call/ops_call.h"

#include <string.h>

#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"

enum { ROOM = 256 }; /* tensors that are laid out without asking for memory */

static tn_status check_lists(const char *name, const list_arg *args, uint32_t num_args,
                             size_t count) {
  if (count == 0)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: count is 0; a list has at least one tensor", name);
  if (count > TN_MAX_LIST)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: lists of %zu tensors given, the most are %d", name,
                count, TN_MAX_LIST);
  for (uint32_t i = 0; i < num_args; ++i)
    if (args[i].is_list && !args[i].list)
      return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: the list %s is NULL", name, args[i].name);
  return TN_OK;
}

static uint32_t lay_out(const list_arg *args, uint32_t num_args, size_t count,
                        const tn_tensor **to) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < num_args; ++i) {
    if (!args[i].is_list)
      to[used++] = args[i].one;
    else
      for (size_t k = 0; k < count; ++k) to[used++] = args[i].list[k];
  }
  return used;
}

static const tn_tensor *any_tensor(const list_arg *args, uint32_t num_args, size_t count) {
  for (uint32_t i = 0; i < num_args; ++i) {
    if (!args[i].is_list && args[i].one) return args[i].one;
    for (size_t k = 0; args[i].is_list && k < count; ++k)
      if (args[i].list[k]) return args[i].list[k];
  }
  return NULL;
}

/* pre: `room` has place for all tensors. call->num_in and num_out count arguments. */
static tn_status call_with_room(const tn_call *call, const list_arg *args, size_t count,
                                uint32_t num_inout, tn_tensor **const *results,
                                const tn_tensor **room) {
  uint32_t num_in = lay_out(args, call->num_in, count, room);
  tn_tensor **out = (tn_tensor **)(void *)(room + num_in);
  uint32_t num_out = lay_out(args + call->num_in, num_inout, count, room + num_in);
  uint32_t num_results = call->num_out - num_inout;
  tn_call whole = *call;
  for (uint32_t i = 0; i < num_results; ++i) {
    out[num_out + i] = results[i] ? *results[i] : NULL;
    if (!results[i]) whole.skip_out |= 1u << i;
  }
  whole.in = room;
  whole.out = out;
  whole.num_in = (uint16_t)num_in;
  whole.num_out = (uint16_t)(num_out + num_results);
  tn_status status = tn_invoke(&whole);
  for (uint32_t i = 0; !status && i < num_results; ++i)
    if (results[i]) *results[i] = out[num_out + i];
  return status;
}

tn_status call_operator_of_lists(const tn_call *call, const char *name, const list_arg *args,
                                 uint32_t num_inout, size_t count, tn_tensor **const *results) {
  uint32_t num_args = call->num_in + num_inout;
  const tn_tensor *space[ROOM], **room = space;
  tn_status status = check_lists(name, args, num_args, count);
  if (status) return status;
  size_t most = num_args * count + call->num_out;
  const tn_tensor *any = any_tensor(args, num_args, count);
  if (!any) return fail(TN_ERR_INVALID_ARGUMENT, "tn_%s: every tensor is NULL", name);
  const host_memory *memory = &any->device->runtime->memory;
  if (most > ROOM) room = host_alloc(memory, most * sizeof *room);
  if (!room) return fail(TN_ERR_OUT_OF_MEMORY, "tn_%s: no host memory", name);
  status = call_with_room(call, args, count, num_inout, results, room);
  if (room != space) host_free(memory, (void *)room);
  return status;
}
