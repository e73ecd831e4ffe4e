/* Files as a whole, and tensors in files of their own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib.h"

tn_status file_bytes(int file, const char *path, uint8_t **data, size_t *bytes) {
  struct stat s;
  *data = NULL;
  if (fstat(file, &s)) return onnx_fail(TN_ERR_IO, "%s: %s", path, strerror(errno));
  if (!S_ISREG(s.st_mode)) return onnx_fail(TN_ERR_IO, "%s: this is no file", path);
  if (s.st_size > (off_t)1 << 40) return onnx_fail(TN_ERR_IO, "%s: too large", path);
  *bytes = (size_t)s.st_size;
  *data = malloc(*bytes + 1);
  if (!*data) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "%s: no memory for %zu bytes", path, *bytes);
  for (size_t done = 0; done < *bytes;) {
    ssize_t got = pread(file, *data + done, *bytes - done, (off_t)done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return onnx_fail(TN_ERR_IO, "%s: %s", path, got ? strerror(errno) : "it became shorter");
    done += (size_t)got;
  }
  return TN_OK;
}

static tn_status path_bytes(const char *path, uint8_t **data, size_t *bytes) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return onnx_fail(TN_ERR_IO, "%s: %s", path, strerror(errno));
  tn_status status = file_bytes(file, path, data, bytes);
  close(file);
  return status;
}

tn_status tn_onnx_tensor_load(tn_device *device, const char *path, tn_tensor **tensor) {
  uint8_t *data = NULL;
  size_t bytes = 0;
  onnx_tensor host = {0};
  if (!device || !path || !tensor)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_tensor_load: NULL");
  tn_status status = path_bytes(path, &data, &bytes);
  Onnx__Tensor *t = status ? NULL : onnx__tensor__unpack(NULL, bytes, data);
  free(data);
  if (status) return status;
  if (!t) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "%s: this is no tensor", path);
  onnx_tensor_take(t, &host);
  if (!host.data || host.rank > TN_MAX_RANK)
    status = onnx_fail(onnx_dtype(t->data_type) ? TN_ERR_INVALID_ARGUMENT : TN_ERR_UNSUPPORTED,
                       "%s: no tensor of a type and shape that Tenon has", path);
  onnx__tensor__free_unpacked(t, NULL);
  if (!status) bools_make(&host);
  if (!status)
    status = tn_tensor_from_host(device, host.dtype, host.rank, host.shape, host.data, tensor);
  if (status && host.data && host.rank <= TN_MAX_RANK) onnx_fail_by(status, "%s", path);
  free(host.data);
  return status;
}

static tn_status write_bytes(const char *path, const uint8_t *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  bool whole = file && fwrite(data, 1, bytes, file) == bytes;
  if (file && fclose(file)) whole = false;
  return whole ? TN_OK : onnx_fail(TN_ERR_IO, "%s: %s", path, strerror(errno));
}

tn_status tn_onnx_tensor_save(const tn_tensor *tensor, const char *name, const char *path) {
  Onnx__Tensor t = ONNX__TENSOR__INIT;
  if (!tensor || !path) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_tensor_save: NULL");
  size_t bytes = tn_tensor_bytes(tensor);
  uint8_t *numbers = malloc(bytes + 1);
  if (!numbers) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "%s: no memory", path);
  tn_status status = tn_tensor_to_host(tensor, numbers, bytes);
  if (status) {
    free(numbers);
    return onnx_fail_by(status, "%s", path);
  }
  t.name = (char *)(uintptr_t)name;
  t.n_dims = (size_t)tn_tensor_rank(tensor);
  t.dims = (int64_t *)(uintptr_t)tn_tensor_shape(tensor);
  t.has_data_type = t.has_raw_data = true;
  t.data_type = onnx_dtype_number(tn_tensor_dtype(tensor));
  t.raw_data = (ProtobufCBinaryData){bytes, numbers};
  size_t size = onnx__tensor__get_packed_size(&t);
  uint8_t *packed = malloc(size + 1);
  if (packed) {
    onnx__tensor__pack(&t, packed);
    status = write_bytes(path, packed, size);
  } else {
    status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "%s: no memory", path);
  }
  free(packed);
  free(numbers);
  return status;
}
