/* Copies between tensors and host memory. */
#ifndef TENON_DISPATCHER_TRANSFER_H
#define TENON_DISPATCHER_TRANSFER_H

#include "dispatcher/objects/tensor.h"

/* Raw copies between a contiguous tensor's memory and the host's. */
tn_status transfer_to_device(tn_stream *stream, tn_tensor *dst, const void *src, size_t bytes);
tn_status transfer_to_host(tn_stream *stream, const tn_tensor *src, void *dst, size_t bytes);
/* Writes a tensor of any strides from row-major host memory, with no kernel where the device has
 * none. pre: no element of it appears twice. */
tn_status transfer_push(tn_stream *stream, tn_tensor *dst, const void *src);
/* Waits, if the stream's device shares the host's memory: before the host uses it in place. */
tn_status transfer_settle(tn_stream *stream);
/* Where a tensor's first element lies, on a device of host memory. */
void *transfer_address(const tn_tensor *t);
/* The operator copy, to or from a stand-in that `call` needs: an operator or a function, for
 * layers to be told. The string must live as long as the runtime. */
tn_status transfer_stand_in(const char *call, tn_stream *stream, const tn_tensor *x, tn_tensor **y);

#endif
