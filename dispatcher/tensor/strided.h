/* Copies between strided tensors and row-major host memory that need no kernel. */
#ifndef TENON_DISPATCHER_STRIDED_H
#define TENON_DISPATCHER_STRIDED_H

#include "dispatcher/objects/tensor.h"

/* Reads a tensor of any strides, behind the stream's work. Where all of it did not move at
 * once it has waited for the stream; else as the backend's copy. */
tn_status strided_to_host(tn_stream *stream, const tn_tensor *src, void *dst);

/* Writes one, likewise. What lies between its elements is read and written back: work of other
 * streams on that memory is the caller's to order. pre: no element of it appears twice. */
tn_status strided_to_device(tn_stream *stream, tn_tensor *dst, const void *src);

#endif
