/*
 * Programs: built when first wanted, one per source and options, from the cache on disk where
 * it has them. A device's programs are kept until it is closed.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "sources.h"

enum { OPTIONS_MAX = 400, IDENTITY_MAX = 1024, LOG_MAX = 1500 };

static const char *const type_names[] = {"",    "bool", "u8",   "i8",  "i16", "i32",
                                         "i64", "f16",  "bf16", "f32", "f64"};

/* The options of a key's program. The longest there can be fit. */
static void options_of(const ocl_device *device, const ocl_key *key, char *text) {
  size_t used = (size_t)snprintf(
      text, OPTIONS_MAX, "-cl-std=CL1.2%s%s",
      device->exact_division ? " -cl-fp32-correctly-rounded-divide-sqrt -DEXACT_DIVISION" : "",
      device->fp64 ? " -DHAS_FP64" : "");
  if (key->op)
    used += (size_t)snprintf(text + used, OPTIONS_MAX - used, " -DOP=%s -DAPPLY=apply_%s", key->op,
                             key->op);
  for (int i = 0; i < 4; i++)
    if (key->types[i])
      used += (size_t)snprintf(text + used, OPTIONS_MAX - used, " -DT%d=%s", i,
                               type_names[key->types[i]]);
  for (int i = 0; i < 5; i++)
    used +=
        (size_t)snprintf(text + used, OPTIONS_MAX - used, " -DC%d=%d", i, (int)key->constants[i]);
}

/* FNV-1a, over two texts. */
static uint64_t text_hash(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return hash;
}

/* All that a binary depends on, as text. */
static void identity_of(const ocl_device *device, const ocl_key *key, const char *options,
                        char *text) {
  uint64_t hash = text_hash(UINT64_C(0xcbf29ce484222325), ocl_source_prelude.text);
  hash = text_hash(hash, key->source->text);
  (void)snprintf(text, IDENTITY_MAX, "%s\n%s\n%s %zu %016llx", device->identity, options,
                 key->source->name, strlen(key->source->text), (unsigned long long)hash);
}

/* What the compiler said, to be freed by the host; NULL if that cannot be had. */
static char *build_log(const ocl_device *device, cl_program program) {
  const tn_host *host = device->host;
  size_t bytes = 0;
  if (clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes))
    return NULL;
  char *log = host->alloc(host, bytes + 1, 1);
  if (!log) return NULL;
  log[bytes] = 0;
  if (clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL))
    log[0] = 0;
  return log;
}

static void tell_log(const ocl_device *device, const ocl_key *key, const char *options,
                     const char *log) {
  if (log && log[strspn(log, " \t\r\n")])
    device->host->log(device->host, TN_LOG_DEBUG, "opencl: building %s (%s): %s", key->source->name,
                      options, log);
}

/* The compiler's last words, which are at the end of its log where there is much. */
static tn_status build_failed(const ocl_device *device, const ocl_key *key, const char *options,
                              const char *log, cl_int error) {
  const tn_host *host = device->host;
  tn_status status = ocl_status(host, error, "clBuildProgram");
  return host->fail(status, "opencl: building %s with %s: %s: %.*s", key->source->name, options,
                    ocl_error_name(error), LOG_MAX, log ? log : "no log");
}

/* Nanoseconds of a clock that is never set back. */
static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tn_status compile(ocl_device *device, const ocl_key *key, const char *options,
                         cl_program *out) {
  const char *texts[] = {ocl_source_prelude.text, key->source->text};
  cl_int error;
  cl_program program = clCreateProgramWithSource(device->context, 2, texts, NULL, &error);
  if (error) return ocl_status(device->host, error, "clCreateProgramWithSource");
  error = clBuildProgram(program, 1, &device->id, options, NULL, NULL);
  char *log = build_log(device, program);
  tell_log(device, key, options, log);
  tn_status status = error ? build_failed(device, key, options, log, error) : TN_OK;
  device->host->free(device->host, log);
  if (status) return (void)clReleaseProgram(program), status;
  device->num_built++;
  *out = program;
  return TN_OK;
}

static tn_status obtain(ocl_device *device, const ocl_key *key, cl_program *out,
                        uint64_t *built_ns) {
  char options[OPTIONS_MAX], identity[IDENTITY_MAX];
  options_of(device, key, options);
  identity_of(device, key, options, identity);
  *out = ocl_cache_load(device, identity);
  if (*out) {
    device->num_loaded++;
    return TN_OK;
  }
  uint64_t began = now_ns();
  tn_status status = compile(device, key, options, out);
  *built_ns = now_ns() - began;
  if (!status) ocl_cache_store(device, identity, *out);
  return status;
}

/* built_ns: how long the compiler took, left alone where it was not asked.
 * pre: the device's lock is held. */
static tn_status get(ocl_device *device, const ocl_key *key, cl_program *out, uint64_t *built_ns) {
  const tn_host *host = device->host;
  ocl_key wanted = *key;
  wanted.function = NULL;
  for (const ocl_program *p = device->programs; p; p = p->next) {
    if (memcmp(&p->key, &wanted, sizeof wanted) != 0) continue;
    *out = p->program;
    return TN_OK;
  }
  ocl_program *made = host->alloc(host, sizeof *made, _Alignof(ocl_program));
  if (!made) return host->fail(TN_ERR_OUT_OF_MEMORY, "opencl: no memory for a program");
  *made = (ocl_program){wanted, NULL, device->programs};
  tn_status status = obtain(device, key, &made->program, built_ns);
  if (status) {
    host->free(host, made);
    return status;
  }
  device->programs = made;
  *out = made->program;
  return TN_OK;
}

tn_status ocl_program_get(ocl_device *device, const ocl_key *key, cl_program *program) {
  uint64_t built_ns = 0;
  pthread_mutex_lock(&device->lock);
  tn_status status = get(device, key, program, &built_ns);
  unsigned count = device->num_built;
  pthread_mutex_unlock(&device->lock);
  if (built_ns) /* a first run compiles for minutes on some platforms */
    device->host->log(
        device->host, TN_LOG_INFO, "opencl: compiled %s%s%s in %.1f s, program %u of this run%s",
        key->source->name, key->op ? " for " : "", key->op ? key->op : "", (double)built_ns / 1e9,
        count, device->cache_folder ? ", which is kept for later ones" : "");
  return status;
}

void ocl_programs_free(ocl_device *device) {
  for (ocl_program *p = device->programs, *next; p; p = next) {
    next = p->next;
    (void)clReleaseProgram(p->program);
    device->host->free(device->host, p);
  }
  device->programs = NULL;
}
