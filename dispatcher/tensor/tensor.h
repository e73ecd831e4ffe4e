/* Making, viewing and releasing tensors. */
#ifndef TENON_DISPATCHER_TENSOR_H
#define TENON_DISPATCHER_TENSOR_H

#include "dispatcher/objects/tensor.h"

enum { IMAGE_RANK = 4 }; /* [n, c, h, w] */

/* Gives memory back to its pool or its producer. */
void storage_free(storage *s);
/* The same where the runtime is closed: frees that too with the last of its storages. No lock is
 * held: an import's deleter may release tensors of the same runtime. */
void storage_free_closed(tn_runtime *runtime, storage *s);

/* A tensor of memory on the stream; dims are valid and fit. */
tn_status tensor_make(tn_device *device, tn_stream *stream, tn_dtype dtype, int32_t rank,
                      const int64_t *shape, int64_t elements, tn_tensor **out);
/* A view header sharing x's storage; shape and strides are the caller's to fill, then
 * tensor_finish. */
tn_status tensor_view(const tn_tensor *x, tn_tensor **out);
/* Derives elements and contiguity from shape and strides. */
void tensor_finish(tn_tensor *t);
bool strides_are_contiguous(int32_t rank, const int64_t *shape, const int64_t *strides);
void strides_fill(int32_t rank, const int64_t *shape, int64_t *strides);
/* Strides of an image [n, c, h, w] whose memory is [n, h, w, c]. */
void strides_fill_channels_last(const int64_t *shape, int64_t *strides);
DLDataType dtype_to_dl(tn_dtype dtype);
/* A header and storage for foreign memory, which holds the runtime; `stream` may be NULL. */
tn_status tensor_import(tn_device *device, const tn_stream *stream, void (*destroy)(void *),
                        void *ctx, tn_tensor **out);
/* tensor_finish, of the tensor that tensor_import gave. */
void tensor_finish_import(tn_tensor *t);
/* "cuda:0 f32 [2, 3]", with strides if they are not row-major. Returns text. */
const char *tensor_text(char *text, size_t size, const tn_tensor *t);
/* Refuses NULL and tensors of dead runtimes. */
tn_status tensor_check(const tn_tensor *t, const char *function);
/* The stream whose work made the tensor, as far as that is known: the one that its memory was
 * taken for, of an import the one that was ordered behind its producer; once that is destroyed the
 * device's default one. Nobody destroys it before tensor_leave_home. */
tn_stream *tensor_home(const tn_tensor *t);
void tensor_leave_home(const tn_tensor *t, tn_stream *home);
/* Waits for that stream where the host may read the tensor's memory in place. */
tn_status tensor_settle(const tn_tensor *t);

#endif
