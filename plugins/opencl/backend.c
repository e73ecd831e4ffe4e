/*
 * The backend's table: finding OpenCL devices, saying what they are, opening and closing them.
 * GPUs come first, then accelerators, then processors, each in the platforms' order, so that the
 * first device is the one that is meant by the type's name alone. Those that serve less than
 * OpenCL 1.2 or have no compiler are passed over.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

enum { PLATFORMS_MAX = 16, DEVICES_MAX = 64, TEXT_MAX = 160 };

/* ---------------------------------------------------------------- questions --- */

static bool device_text(cl_device_id id, cl_device_info what, char *text, size_t size) {
  text[0] = 0;
  cl_int error = clGetDeviceInfo(id, what, size, text, NULL);
  text[size - 1] = 0;
  return error == CL_SUCCESS;
}

static cl_ulong device_number(cl_device_id id, cl_device_info what, size_t bytes) {
  cl_ulong value = 0; /* little-endian */
  return clGetDeviceInfo(id, what, bytes, &value, NULL) == CL_SUCCESS ? value : 0;
}

static bool has_word(const char *words, const char *word) {
  size_t length = strlen(word);
  for (const char *at = words; (at = strstr(at, word)); at += length)
    if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) return true;
  return false;
}

static bool has_extension(cl_device_id id, const char *name) {
  char words[8192];
  return device_text(id, CL_DEVICE_EXTENSIONS, words, sizeof words) && has_word(words, name);
}

static bool has_fp64(cl_device_id id) {
  return device_number(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_device_fp_config)) != 0;
}

/* "OpenCL 1.2 ..." or later, with a compiler. */
static bool is_usable(cl_device_id id) {
  char text[TEXT_MAX];
  int major = 0, minor = 0;
  if (!device_number(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool))) return false;
  if (!device_number(id, CL_DEVICE_AVAILABLE, sizeof(cl_bool))) return false;
  (void)device_text(id, CL_DEVICE_VERSION, text, sizeof text);
  if (sscanf(text, "OpenCL %d.%d", &major, &minor) != 2) return false;
  return major > 1 || (major == 1 && minor >= 2);
}

/* -------------------------------------------------------------- enumeration --- */

typedef struct device_list {
  cl_device_id id[DEVICES_MAX];
  uint32_t count, passed_over;
  cl_platform_id platform[PLATFORMS_MAX];
  cl_uint platforms;
} device_list;

static void list_platform(device_list *list, cl_platform_id platform, cl_device_type type) {
  cl_device_id ids[DEVICES_MAX];
  cl_uint found = 0;
  if (clGetDeviceIDs(platform, type, DEVICES_MAX, ids, &found)) return;
  for (cl_uint i = 0; i < found && i < DEVICES_MAX; i++) {
    if (!is_usable(ids[i]) || list->count == DEVICES_MAX)
      list->passed_over++;
    else
      list->id[list->count++] = ids[i];
  }
}

static cl_int list_devices(device_list *list) {
  static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR,
                                         CL_DEVICE_TYPE_CPU};
  *list = (device_list){.count = 0};
  cl_int error = clGetPlatformIDs(PLATFORMS_MAX, list->platform, &list->platforms);
  if (error) list->platforms = 0;
  if (list->platforms > PLATFORMS_MAX) list->platforms = PLATFORMS_MAX;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (cl_uint i = 0; i < list->platforms; i++) list_platform(list, list->platform[i], types[t]);
  if (error) return error;
  return CL_SUCCESS;
}

static tn_status backend_count(const tn_host *host, void *context, uint32_t *count) {
  (void)context;
  device_list list;
  (void)list_devices(&list);
  *count = list.count;
  if (list.count == 0) ocl_say_why_none(host, list.platform, list.platforms, list.passed_over);
  return TN_OK;
}

static tn_status find_device(const tn_host *host, uint32_t index, cl_device_id *id) {
  device_list list;
  OCL_TRY(host, list_devices, &list);
  if (index >= list.count)
    return host->fail(TN_ERR_NOT_FOUND, "opencl: device %u is gone", (unsigned)index);
  *id = list.id[index];
  return TN_OK;
}

/* -------------------------------------------------------------- description --- */

/* Of cl_khr_pci_bus_info and cl_khr_device_uuid, in case the headers are older. */
enum { PCI_BUS_INFO = 0x410F, DEVICE_UUID = 0x106A };

static void describe_identity(cl_device_id id, uint32_t index, char *text, size_t size) {
  cl_uint pci[4];
  unsigned char uuid[16];
  if (has_extension(id, "cl_khr_pci_bus_info") &&
      clGetDeviceInfo(id, PCI_BUS_INFO, sizeof pci, pci, NULL) == CL_SUCCESS) {
    (void)snprintf(text, size, "%04x:%02x:%02x.%x", pci[0], pci[1], pci[2], pci[3]);
  } else if (has_extension(id, "cl_khr_device_uuid") &&
             clGetDeviceInfo(id, DEVICE_UUID, sizeof uuid, uuid, NULL) == CL_SUCCESS) {
    for (size_t i = 0; i < sizeof uuid; i++) (void)snprintf(text + 2 * i, 3, "%02x", uuid[i]);
  } else {
    char platform[48] = "";
    cl_platform_id p = NULL;
    if (clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof(p), &p, NULL) == CL_SUCCESS)
      (void)clGetPlatformInfo(p, CL_PLATFORM_NAME, sizeof platform - 1, platform, NULL);
    (void)snprintf(text, size, "%s#%u", platform, (unsigned)index);
  }
}

static void describe_features(cl_device_id id, cl_device_type type, char *text, size_t size) {
  char version[TEXT_MAX];
  (void)device_text(id, CL_DEVICE_VERSION, version, sizeof version);
  (void)snprintf(
      text, size, "%s%s%s%s units=%u %.60s",
      type & CL_DEVICE_TYPE_CPU   ? "cpu"
      : type & CL_DEVICE_TYPE_GPU ? "gpu"
                                  : "accelerator",
      has_fp64(id) ? " fp64" : "", has_extension(id, "cl_khr_fp16") ? " fp16" : "",
      device_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool)) ? " unified" : "",
      (unsigned)device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint)), version);
}

/* A processor's own backend serves it better, so it is only taken when it is named. */
static tn_status backend_describe(const tn_host *host, void *context, uint32_t index,
                                  tn_device_props *out) {
  (void)context;
  cl_device_id id;
  tn_status status = find_device(host, index, &id);
  if (status) return status;
  cl_device_type type = device_number(id, CL_DEVICE_TYPE, sizeof type);
  out->dl_device_type = kDLOpenCL;
  out->dl_device_id = (int32_t)index;
  out->score = type & CL_DEVICE_TYPE_CPU ? 0 : 50;
  out->memory_bytes = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
  out->alignment_bytes = 256;
  (void)device_text(id, CL_DEVICE_NAME, out->name, sizeof out->name);
  describe_features(id, type, out->features, sizeof out->features);
  describe_identity(id, index, out->unique_id, sizeof out->unique_id);
  return TN_OK;
}

/* ---------------------------------------------------------- open and close --- */

/* What built programs depend on besides their text and options. */
static void identify(ocl_device *dev) {
  char platform[TEXT_MAX] = "", name[TEXT_MAX], version[TEXT_MAX], driver[48];
  cl_platform_id p = NULL;
  if (clGetDeviceInfo(dev->id, CL_DEVICE_PLATFORM, sizeof(p), &p, NULL) == CL_SUCCESS)
    (void)clGetPlatformInfo(p, CL_PLATFORM_VERSION, sizeof platform - 1, platform, NULL);
  (void)device_text(dev->id, CL_DEVICE_NAME, name, sizeof name);
  (void)device_text(dev->id, CL_DEVICE_VERSION, version, sizeof version);
  (void)device_text(dev->id, CL_DRIVER_VERSION, driver, sizeof driver);
  (void)snprintf(dev->identity, sizeof dev->identity, "%.150s | %.150s | %.120s | %.47s", platform,
                 name, version, driver);
}

static void look_at(ocl_device *dev) {
  cl_device_id id = dev->id;
  cl_device_fp_config single = device_number(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof single);
  dev->fp64 = has_fp64(id);
  dev->cpu = device_number(id, CL_DEVICE_TYPE, sizeof(cl_device_type)) & CL_DEVICE_TYPE_CPU;
  dev->exact_division = single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  dev->compute_units = (uint32_t)device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
  dev->max_group = device_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
  dev->local_bytes = device_number(id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong));
  dev->max_buffer = device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
  identify(dev);
}

static void device_free(ocl_device *dev) {
  const tn_host *host = dev->host;
  if (dev->upkeep) (void)clReleaseCommandQueue(dev->upkeep);
  if (dev->context) (void)clReleaseContext(dev->context);
  (void)pthread_mutex_destroy(&dev->lock);
  host->free(host, dev->cache_folder);
  host->free(host, dev);
}

static tn_status device_start(ocl_device *dev) {
  cl_int error;
  dev->context = clCreateContext(NULL, 1, &dev->id, NULL, NULL, &error);
  if (error) return ocl_status(dev->host, error, "clCreateContext");
  dev->upkeep = clCreateCommandQueue(dev->context, dev->id, 0, &error);
  return ocl_status(dev->host, error, "clCreateCommandQueue");
}

static tn_status backend_open(const tn_host *host, void *context, uint32_t index, void **device) {
  (void)context;
  cl_device_id id;
  tn_status status = find_device(host, index, &id);
  if (status) return status;
  ocl_device *dev = host->alloc(host, sizeof *dev, _Alignof(ocl_device));
  if (!dev) return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no memory for a device handle");
  memset(dev, 0, sizeof *dev);
  dev->host = host;
  dev->id = id;
  (void)pthread_mutex_init(&dev->lock, NULL);
  look_at(dev);
  status = device_start(dev);
  if (status) {
    device_free(dev);
    return status;
  }
  ocl_cache_open(dev);
  *device = dev;
  return TN_OK;
}

static void backend_close(void *device) {
  ocl_device *dev = device;
  dev->host->log(dev->host, TN_LOG_INFO, "opencl: %u programs compiled, %u taken from the cache",
                 (unsigned)dev->num_built, (unsigned)dev->num_loaded);
  ocl_programs_free(dev);
  device_free(dev);
}

/* There is no portable way to ask for free memory, so memory_info is absent. */
const tn_backend ocl_backend = {
    .struct_size = sizeof(tn_backend),
    .flags = TN_BACKEND_OPAQUE_MEMORY,
    .device_type = "opencl",
    .count = backend_count,
    .describe = backend_describe,
    .open = backend_open,
    .close = backend_close,
    .alloc = ocl_alloc,
    .free = ocl_free,
    .copy = ocl_copy,
    .queue_create = ocl_queue_create,
    .queue_destroy = ocl_queue_destroy,
    .queue_wait = ocl_queue_wait,
    .queue_native = ocl_queue_native,
    .event_create = ocl_event_create,
    .event_destroy = ocl_event_destroy,
    .event_record = ocl_event_record,
    .event_query = ocl_event_query,
    .event_wait = ocl_event_wait,
    .queue_wait_event = ocl_queue_wait_event,
    .event_elapsed = ocl_event_elapsed,
    .queue_wrap = ocl_queue_wrap,
};
