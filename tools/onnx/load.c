/* Models read from files and memory, and closed. */
#include "lib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A device whose memory is the host's and that has every operator: the oracle, where it is. */
static tn_device *host_device(tn_runtime *runtime, tn_device *otherwise) {
  static const char *const names[] = {"reference", "cpu"};
  tn_device *device;
  for (int i = 0; i < 2; i++)
    if (tn_device_find(runtime, names[i], &device) == TN_OK) return device;
  return otherwise;
}

static tn_status options_take(tn_onnx *m, const tn_onnx_options *options) {
  if (!options) return TN_OK;
  if (options->struct_size < sizeof(uint32_t) * 2 || options->struct_size > sizeof m->options)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_load: options->struct_size is %u",
                     options->struct_size);
  memcpy(&m->options, options, options->struct_size);
  if (m->options.flags & ~(uint32_t)TN_ONNX_BY_NODE)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_load: unknown flags %#x", m->options.flags);
  if (m->options.compile) m->compile = *m->options.compile;
  return TN_OK;
}

/* Graphs of all kinds whose tensors are summed for progress are the top one's. */
static tn_status model_unpack(tn_onnx *m, const uint8_t *data, size_t bytes) {
  tn_status status = wire_check(data, bytes);
  if (status) return status;
  m->proto = onnx__model__unpack(NULL, bytes, data);
  if (!m->proto)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "this is no ONNX model, or a damaged one: its parts cannot be unpacked");
  if (!m->proto->graph)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "this is no ONNX model: it has no graph");
  m->read_all = bytes;
  return TN_OK;
}

static tn_status model_make(tn_runtime *runtime, tn_device *device, const tn_onnx_options *options,
                            tn_onnx **model) {
  *model = NULL;
  if (!runtime) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_load: runtime is NULL");
  tn_onnx *m = calloc(1, sizeof *m);
  if (!m) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "tn_onnx_load: no memory");
  pthread_mutex_init(&m->lock, NULL);
  pthread_mutex_init(&m->build_lock, NULL);
  m->runtime = runtime;
  m->device = device ? device : tn_runtime_device(runtime);
  m->host = host_device(runtime, m->device);
  m->source.folder = -1;
  m->compile.struct_size = sizeof m->compile;
  *model = m;
  return options_take(m, options);
}

static tn_status finish(tn_onnx **model, tn_status status) {
  tn_onnx *m = *model;
  if (!status && !op_table_make(m->runtime, &m->ops))
    status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "tn_onnx_load: no memory");
  if (!status) status = plan_model(m);
  if (!status) status = describe_model(m);
  if (m && m->source.folder >= 0) close(m->source.folder);
  if (m) m->source.folder = -1;
  if (!status) return TN_OK;
  tn_onnx_close(m);
  *model = NULL;
  return status;
}

static int folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  int file = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  free(folder);
  return file;
}

tn_status tn_onnx_load(tn_runtime *runtime, tn_device *device, const char *path,
                       const tn_onnx_options *options, tn_onnx **model) {
  tn_status status = model_make(runtime, device, options, model);
  uint8_t *data = NULL;
  size_t bytes = 0;
  int file = -1;
  if (!status && !path) status = onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_load: path is NULL");
  if (!status) file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!status && file < 0) status = onnx_fail(TN_ERR_IO, "%s: %s", path, strerror(errno));
  if (!status) status = file_bytes(file, path, &data, &bytes);
  if (file >= 0) close(file);
  if (!status) status = model_unpack(*model, data, bytes);
  free(data);
  if (!status) (*model)->source.folder = folder_of(path);
  return *model ? finish(model, status) : status;
}

tn_status tn_onnx_load_memory(tn_runtime *runtime, tn_device *device, const void *data,
                              size_t bytes, const tn_onnx_options *options, tn_onnx **model) {
  tn_status status = model_make(runtime, device, options, model);
  if (!status && !data && bytes)
    status = onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_load_memory: data is NULL");
  if (!status) status = model_unpack(*model, data, bytes);
  if (!status && (*model)->options.folder) {
    (*model)->source.folder = open((*model)->options.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if ((*model)->source.folder < 0)
      status = onnx_fail(TN_ERR_IO, "%s: %s", (*model)->options.folder, strerror(errno));
  }
  return *model ? finish(model, status) : status;
}

void tn_onnx_close(tn_onnx *m) {
  if (!m) return;
  programs_free(m);
  description_free(m);
  weights_free(m->weights);
  plans_free(m->graphs);
  free(m->functions);
  free(m->ops.of);
  if (m->proto) onnx__model__free_unpacked(m->proto, NULL);
  pthread_mutex_destroy(&m->lock);
  pthread_mutex_destroy(&m->build_lock);
  free(m);
}
