/*
 * Tensors out of a file: in place where the device computes in the caller on host memory, and by
 * pieces everywhere else.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/files/file.h"
#include "dispatcher/tensor/tensor.h"

/* Read and handed over at once. */
enum { PIECE_BYTES = 4 << 20 };

/* What is being loaded. */
typedef struct loading {
  const tn_tensors *file;
  const header_entry *entry;
  const int64_t *shape;
  tn_device *device;
} loading;

/* Puts the file and the tensor before the message. */
static tn_status blame(const loading *l, tn_status status) {
  char path[512], name[128];
  fail_prefix("tn_tensors_load: %s: tensor '%s': ", printable(path, sizeof path, l->file->path),
              printable(name, sizeof name, l->entry->name));
  return status;
}

/* Whether the tensor may be the file's own bytes: not where work on it could still be under way
 * when its last reference goes, nor where its values must be looked at (bool). */
static bool can_map(const loading *l) {
  const tn_device *d = l->device;
  const header_entry *e = l->entry;
  int64_t begin = l->file->data_begin + e->begin;
  return l->file->map && d->host_memory && d->synchronous && !d->opaque && e->dtype != TN_BOOL &&
         e->end > e->begin && begin % (int64_t)tn_dtype_size(e->dtype) == 0;
}

static tn_status map_tensor(const loading *l, tn_tensor **tensor) {
  tn_tensor *t;
  tn_status status = tensor_import(l->device, NULL, mapping_drop, l->file->map, &t);
  if (status) return blame(l, status);
  mapping_hold(l->file->map);
  t->dl.data = l->file->map->base + l->file->data_begin + l->entry->begin;
  t->dl.ndim = l->entry->rank;
  t->dl.dtype = dtype_to_dl(l->entry->dtype);
  t->dtype = (uint8_t)l->entry->dtype;
  t->read_only = true;
  if (l->entry->rank) memcpy(t->shape, l->shape, (size_t)l->entry->rank * sizeof *t->shape);
  strides_fill(t->dl.ndim, t->shape, t->strides);
  tensor_finish_import(t);
  *tensor = t;
  return TN_OK;
}

/* A kernel that is given a bool may count on 0 or 1. */
static tn_status check_values(const loading *l, const unsigned char *data, size_t bytes) {
  if (l->entry->dtype != TN_BOOL) return TN_OK;
  for (size_t i = 0; i < bytes; ++i)
    if (data[i] > 1) return fail(TN_ERR_IO, "a BOOL of value %u; they are 0 or 1", data[i]);
  return TN_OK;
}

/* Elements begin..end of a row-major tensor, seen as a list. pre: it has elements. */
static tn_status write_piece(tn_tensor *flat, int64_t begin, int64_t end, const void *data) {
  tn_tensor *piece = NULL;
  tn_status status = tn_tensor_slice(flat, 0, begin, end, 1, &piece);
  if (!status) status = tn_tensor_write(NULL, piece, data, tn_tensor_bytes(piece));
  tn_tensor_release(piece);
  return status;
}

static tn_status fill(const loading *l, tn_tensor *flat, unsigned char *buffer) {
  const int64_t size = (int64_t)tn_dtype_size(l->entry->dtype), count = tn_tensor_elements(flat);
  for (int64_t i = 0; i < count;) {
    int64_t n = count - i < PIECE_BYTES / size ? count - i : PIECE_BYTES / size;
    tn_status status = file_read(l->file, "reading", buffer, (size_t)(n * size),
                                 l->file->data_begin + l->entry->begin + i * size);
    if (!status) status = check_values(l, buffer, (size_t)(n * size));
    if (!status) status = write_piece(flat, i, i + n, buffer);
    if (status) return status;
    i += n;
  }
  return TN_OK;
}

static tn_status upload(const loading *l, tn_tensor *t) {
  const int64_t all = -1;
  size_t bytes = tn_tensor_bytes(t);
  tn_tensor *flat = NULL;
  if (bytes == 0) return TN_OK;
  unsigned char *buffer = malloc(bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
  if (!buffer) return fail(TN_ERR_OUT_OF_MEMORY, "no memory to read it into");
  tn_status status = tn_tensor_reshape(t, 1, &all, &flat);
  if (!status) status = fill(l, flat, buffer);
  if (!status) status = tn_stream_synchronize(tn_device_default_stream(l->device));
  tn_tensor_release(flat);
  free(buffer);
  return status;
}

static tn_status read_tensor(const loading *l, tn_tensor **tensor) {
  tn_tensor *t = NULL;
  tn_status status = tn_tensor_empty(l->device, l->entry->dtype, l->entry->rank, l->shape, &t);
  if (!status) status = upload(l, t);
  if (!status) return *tensor = t, TN_OK;
  tn_tensor_release(t);
  return blame(l, status);
}

static tn_status check_type(const loading *l) {
  char type[64];
  tn_status status = TN_OK;
  if (l->entry->dtype == TN_DTYPE_NONE)
    status = fail(TN_ERR_UNSUPPORTED, "Tenon has no element type %s",
                  printable(type, sizeof type, l->entry->type));
  else if (l->entry->rank > TN_MAX_RANK)
    status =
        fail(TN_ERR_UNSUPPORTED, "rank %d; at most %d is supported", l->entry->rank, TN_MAX_RANK);
  return status ? blame(l, status) : TN_OK;
}

tn_status tn_tensors_load(const tn_tensors *file, size_t index, tn_device *device,
                          tn_tensor **tensor) {
  if (!file || !device || !tensor)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensors_load: an argument is NULL");
  const header *h = &file->header;
  if (index >= h->num_entries)
    return fail(TN_ERR_NOT_FOUND, "tn_tensors_load: there are %zu tensors in the file",
                h->num_entries);
  const header_entry *e = &h->entries[index];
  const loading l = {file, e, e->rank ? h->dims + e->first_dim : NULL, device};
  tn_status status = check_type(&l);
  if (!status) status = device_ready(device);
  if (!status) status = file_check(file, "tn_tensors_load");
  if (status) return status;
  return can_map(&l) ? map_tensor(&l, tensor) : read_tensor(&l, tensor);
}
