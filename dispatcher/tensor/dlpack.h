/* What the files of the DLPack exchange share. */
#ifndef TENON_DISPATCHER_DLPACK_H
#define TENON_DISPATCHER_DLPACK_H

#include "dispatcher/objects/tensor.h"

/* The device whose tensors carry this DLPack device: the default one, or else the best of all, for
 * which those that wait are loaded; NULL where there is none. */
tn_status dlpack_find_device(tn_runtime *runtime, DLDevice wanted, tn_device **found);
/* What all exports ask for first: a tensor of this library's, a place for the result, which is
 * named `what`, and memory. A symbolic tensor's is nothing that anybody computes in. */
tn_status dlpack_check(const char *function, const tn_tensor *tensor, const char *what,
                       const void *result);
/* tn_tensor_to_dlpack without waiting for anything. pre: dlpack_check. */
tn_status dlpack_export(tn_tensor *tensor, DLManagedTensorVersioned **managed);
/* The same two of the struct from before DLPack 1.0, which cannot say that a tensor is read-only.
 */
tn_status dlpack_check_unversioned(const char *function, const tn_tensor *tensor,
                                   DLManagedTensor **managed);
tn_status dlpack_export_unversioned(tn_tensor *tensor, DLManagedTensor **managed);
/* tn_tensor_from_dlpack of a tensor that the stream, if it is not NULL, is ordered behind. */
tn_status dlpack_import(tn_runtime *runtime, DLManagedTensorVersioned *managed,
                        const tn_stream *stream, tn_tensor **tensor);

#endif
