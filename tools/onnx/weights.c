/*
 * The file's constants. Large ones go to the device when the model is read and leave the host;
 * small ones stay known to it, since shapes are computed from them, and reach the device when a
 * node wants them there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib.h"

enum { EXTERNAL = 1 }; /* TensorProto.DataLocation */

/* --- external data --- */

static const char *entry(const Onnx__Tensor *t, const char *key) {
  for (size_t i = 0; i < t->n_external_data; i++)
    if (t->external_data[i]->key && !strcmp(t->external_data[i]->key, key))
      return t->external_data[i]->value;
  return NULL;
}

static bool parse_size(const char *text, uint64_t *size) {
  char *end;
  if (!text || *text < '0' || *text > '9') return false;
  errno = 0;
  *size = strtoull(text, &end, 10);
  return !*end && !errno && *size <= INT64_MAX;
}

/* Opens a file inside a folder, one name after the other, so that none can be a link. */
static int open_inside(int folder, const char *path) {
  int at = dup(folder);
  char name[256];
  while (at >= 0) {
    size_t length = strcspn(path, "/");
    bool last = !path[length];
    if (!length || length >= sizeof name) break;
    memcpy(name, path, length);
    name[length] = 0;
    if (!strcmp(name, "..")) break;
    int next =
        openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? O_NONBLOCK : O_DIRECTORY));
    int why = errno;
    close(at);
    errno = why;
    if (last || next < 0) return next;
    at = next;
    path += length + 1;
  }
  if (at >= 0) close(at);
  errno = EACCES;
  return -1;
}

static tn_status read_all(int file, uint8_t *to, uint64_t bytes, uint64_t offset) {
  while (bytes) {
    ssize_t got = pread(file, to, bytes < 1 << 30 ? bytes : 1 << 30, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return TN_ERR_IO;
    to += got, offset += (uint64_t)got, bytes -= (uint64_t)got;
  }
  return TN_OK;
}

/* The bytes of a tensor that lie in another file, the caller's to free. */
static tn_status read_external(tn_onnx *m, const char *name, const Onnx__Tensor *t, uint64_t bytes,
                               uint8_t **data) {
  const char *location = entry(t, "location"), *length = entry(t, "length"),
             *from = entry(t, "offset");
  uint64_t offset = 0, said = bytes;
  struct stat s;
  if (!location || (from && !parse_size(from, &offset)) || (length && !parse_size(length, &said)))
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "weight %s: its external data is nowhere", name);
  if (said != bytes)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "weight %s: %llu bytes of external data for a tensor of %llu", name,
                     (unsigned long long)said, (unsigned long long)bytes);
  if (m->source.folder < 0)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "weight %s is in another file, %s, and the model has no folder", name,
                     location);
  int file = open_inside(m->source.folder, location);
  if (file < 0 && (errno == EACCES || errno == ELOOP))
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "weight %s: %s is not a file inside the model's folder; put it there, not "
                     "behind a link",
                     name, location);
  if (file < 0 || fstat(file, &s)) {
    tn_status status = onnx_fail(TN_ERR_IO, "weight %s: %s: %s", name, location, strerror(errno));
    if (file >= 0) close(file);
    return status;
  }
  tn_status status = TN_OK;
  if (!S_ISREG(s.st_mode) || offset > (uint64_t)s.st_size || bytes > (uint64_t)s.st_size - offset)
    status = onnx_fail(TN_ERR_INVALID_ARGUMENT,
                       "weight %s: %s has fewer than %llu bytes behind byte %llu", name, location,
                       (unsigned long long)bytes, (unsigned long long)offset);
  if (!status) *data = malloc(bytes + 1);
  if (!status && !*data) status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "weight %s: no memory", name);
  if (!status && read_all(file, *data, bytes, offset))
    status = onnx_fail(TN_ERR_IO, "weight %s: %s cannot be read", name, location);
  close(file);
  return status;
}

/* --- taking --- */

size_t host_bytes(const onnx_tensor *t) { return (size_t)t->elements * tn_dtype_size(t->dtype); }

/* Type and shape, without numbers. */
static tn_status take_shape(const char *name, const Onnx__Tensor *t, onnx_tensor *to) {
  *to = (onnx_tensor){.present = true, .dtype = onnx_dtype(t->data_type), .elements = 1};
  if (t->data_type == 8)
    return onnx_fail(TN_ERR_UNSUPPORTED, "weight %s is of strings, which Tenon does not have",
                     name);
  if (!to->dtype || t->has_data_type == false)
    return onnx_fail(TN_ERR_UNSUPPORTED, "weight %s: Tenon has no element type for ONNX's %d", name,
                     t->data_type);
  if (t->n_dims > TN_MAX_RANK)
    return onnx_fail(TN_ERR_UNSUPPORTED, "weight %s has %zu axes; Tenon's tensors have up to %d",
                     name, t->n_dims, TN_MAX_RANK);
  to->rank = (int32_t)t->n_dims;
  for (int32_t i = 0; i < to->rank; i++) {
    to->shape[i] = t->dims[i];
    if (t->dims[i] < 0 || __builtin_mul_overflow(to->elements, t->dims[i], &to->elements) ||
        to->elements > INT64_C(1) << 48)
      return onnx_fail(TN_ERR_INVALID_ARGUMENT, "weight %s: a size of %lld on axis %d", name,
                       (long long)t->dims[i], i);
  }
  return TN_OK;
}

/* Raw bytes change hands; numbers of a list are few, or the file is of a kind that pays for it. */
static tn_status take_numbers(tn_onnx *m, const char *name, Onnx__Tensor *t, onnx_tensor *to) {
  size_t bytes = host_bytes(to);
  if (t->has_data_location && t->data_location == EXTERNAL) {
    uint8_t *data = NULL;
    tn_status status = read_external(m, name, t, bytes, &data);
    to->data = data;
    return status;
  }
  size_t listed = t->n_float_data + t->n_double_data + t->n_int64_data + t->n_int32_data +
                  t->n_uint64_data + t->n_string_data;
  if (t->has_raw_data && t->raw_data.data && t->raw_data.len == bytes && bytes && !listed) {
    to->data = t->raw_data.data;
    t->raw_data = (ProtobufCBinaryData){0};
    t->has_raw_data = false;
    return TN_OK;
  }
  onnx_tensor taken;
  onnx_tensor_take(t, &taken);
  if (!taken.data)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "weight %s: its numbers are not the %lld that its shape says, in %s", name,
                     (long long)to->elements, taken.lacks ? taken.lacks : "any field");
  to->data = taken.data;
  return TN_OK;
}

/* Kernels trust bools to be 0 or 1. */
void bools_make(onnx_tensor *t) {
  uint8_t *byte = t->data;
  for (int64_t i = 0; t->dtype == TN_BOOL && i < t->elements; i++) byte[i] = byte[i] != 0;
}

/* Large ones leave the host. */
static tn_status weight_settle(tn_onnx *m, onnx_weight *w) {
  if (w->host.elements <= MAX_FOLDED) return TN_OK;
  tn_tensor *device;
  tn_status status = weight_tensor(m, w, &device);
  free(w->host.data);
  w->host.data = NULL;
  return status;
}

tn_status weight_make(tn_onnx *m, const char *name, onnx_tensor *host, onnx_weight **weight) {
  onnx_weight *w = calloc(1, sizeof *w);
  char *copy = strdup(name);
  if (!w || !copy) {
    free(w), free(copy), free(host->data);
    return onnx_fail(TN_ERR_OUT_OF_MEMORY, "weight %s: no memory", name);
  }
  w->name = copy;
  w->host = *host;
  w->index = m->num_weights;
  w->next = m->weights;
  m->weights = *weight = w;
  m->num_weights++;
  m->weight_bytes += host_bytes(host);
  if (m->options.progress)
    m->options.progress(m->options.progress_user, m->weight_bytes,
                        m->read_all > m->weight_bytes ? m->read_all : m->weight_bytes);
  return weight_settle(m, w);
}

tn_status weight_replace(tn_onnx *m, onnx_weight *w, void *data) {
  tn_tensor_release(w->device);
  free(w->host.data);
  w->device = NULL;
  w->host.data = data;
  return weight_settle(m, w);
}

tn_status weight_copy(tn_onnx *m, onnx_weight *w, onnx_tensor *copy) {
  size_t bytes = host_bytes(&w->host);
  tn_tensor *device = NULL;
  *copy = w->host;
  copy->data = malloc(bytes + 1);
  if (!copy->data) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "weight %s: no memory", w->name);
  if (w->host.data) {
    memcpy(copy->data, w->host.data, bytes);
    return TN_OK;
  }
  tn_status status = weight_tensor(m, w, &device);
  if (!status) status = tn_tensor_to_host(device, copy->data, bytes);
  if (!status) return TN_OK;
  free(copy->data);
  copy->data = NULL;
  return onnx_fail_by(status, "weight %s", w->name);
}

tn_status weight_take(tn_onnx *m, const char *name, Onnx__Tensor *t, onnx_weight **weight) {
  onnx_tensor host;
  tn_status status = take_shape(name, t, &host);
  if (!status) status = take_numbers(m, name, t, &host);
  if (status) return status;
  bools_make(&host);
  return weight_make(m, name, &host, weight);
}

/* A list of numbers, or one, as a Constant node may have it. */
static tn_status take_list(tn_onnx *m, const char *name, tn_dtype dtype, int32_t rank, size_t count,
                           const void *numbers, onnx_weight **weight) {
  onnx_tensor host = {.present = true,
                      .dtype = dtype,
                      .rank = rank,
                      .shape = {(int64_t)count},
                      .elements = (int64_t)count};
  size_t bytes = host_bytes(&host);
  host.data = malloc(bytes + 1);
  if (!host.data) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "constant %s: no memory", name);
  if (bytes) memcpy(host.data, numbers, bytes);
  return weight_make(m, name, &host, weight);
}

tn_status weight_of_constant(tn_onnx *m, const Onnx__Node *node, onnx_weight **weight) {
  const char *name = node->n_output ? node->output[0] : "";
  for (size_t i = 0; i < node->n_attribute; i++) {
    Onnx__Attribute *a = node->attribute[i];
    if (!a->name || (a->ref_attr_name && *a->ref_attr_name)) continue;
    if (!strcmp(a->name, "value") && a->t) return weight_take(m, name, a->t, weight);
    if (!strcmp(a->name, "value_int")) return take_list(m, name, TN_I64, 0, 1, &a->i, weight);
    if (!strcmp(a->name, "value_float")) return take_list(m, name, TN_F32, 0, 1, &a->f, weight);
    if (!strcmp(a->name, "value_ints"))
      return take_list(m, name, TN_I64, 1, a->n_ints, a->ints, weight);
    if (!strcmp(a->name, "value_floats"))
      return take_list(m, name, TN_F32, 1, a->n_floats, a->floats, weight);
  }
  return onnx_fail(TN_ERR_UNSUPPORTED, "constant %s is neither a tensor nor numbers", name);
}

tn_status weight_tensor(tn_onnx *m, onnx_weight *w, tn_tensor **tensor) {
  tn_status status = TN_OK;
  pthread_mutex_lock(&m->lock);
  if (!w->device)
    status = tn_tensor_from_host(m->device, w->host.dtype, w->host.rank, w->host.shape,
                                 w->host.data, &w->device);
  *tensor = w->device;
  pthread_mutex_unlock(&m->lock);
  return status ? onnx_fail_by(status, "weight %s", w->name) : TN_OK;
}

void weights_free(onnx_weight *list) {
  while (list) {
    onnx_weight *next = list->next;
    tn_tensor_release(list->device);
    free(list->host.data);
    free(list->name);
    free(list);
    list = next;
  }
}
