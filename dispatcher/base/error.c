/*
 * The calling thread's error message and host memory with its failures. The message
 * lives in thread-local storage of fixed size so that reporting "out of memory" needs
 * none.
 */
#include "dispatcher/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local char message[2048];
static _Thread_local bool reason_given;     /* message is a plugin's, and not yet passed on */
static _Thread_local tn_status reason_code; /* which it was given for */

static void set_message(const char *format, va_list args) {
  /* Arguments may point into the old message, so format beside it. */
  char text[sizeof message];
  vsnprintf(text, sizeof text, format, args);
  memcpy(message, text, sizeof message);
}

tn_status fail(tn_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_message(format, args);
  va_end(args);
  reason_given = false;
  return status;
}

tn_status fail_by_plugin(tn_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_message(format, args);
  va_end(args);
  reason_given = true;
  reason_code = status;
  return status;
}

void fail_set_reason(bool given) { reason_given = given; }
bool fail_has_reason(void) { return reason_given; }

tn_status fail_of_plugin(tn_status status, const char *plugin, const char *what) {
  const char *head = plugin ? "plugin " : "", *name = plugin ? plugin : "";
  const char *colon = plugin ? ": " : "";
  if ((unsigned)status > TN_ERR_CLOSED)
    return fail_by_plugin(TN_ERR_BACKEND, "%s%s%sits %s returned %d, which is no tn_status%s%s",
                          head, name, colon, what, (int)status, reason_given ? ": " : "",
                          reason_given ? message : "");
  if (!reason_given)
    return fail_by_plugin(status, "%s%s%sits %s failed with %s and gave no reason", head, name,
                          colon, what, tn_status_name(status));
  if (status == reason_code) return status;
  /* Left by a call before, which went on after it; or its maker changed his mind. */
  return fail_by_plugin(
      status, "%s%s%sits %s failed with %s and gave no reason for that; said last, with %s: %s",
      head, name, colon, what, tn_status_name(status), tn_status_name(reason_code), message);
}

void fail_prefix(const char *format, ...) {
  char text[sizeof message];
  va_list args;
  va_start(args, format);
  int used = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (used >= 0 && (size_t)used < sizeof text)
    snprintf(text + used, sizeof text - (size_t)used, "%s", message);
  memcpy(message, text, sizeof message);
}

tn_status struct_check(const char *function, const char *name, const char *type,
                       const void *given) {
  uint32_t size;
  if (!given) return fail(TN_ERR_INVALID_ARGUMENT, "%s: %s is NULL", function, name);
  memcpy(&size, given, sizeof size);
  if (size >= sizeof size) return TN_OK;
  return fail(TN_ERR_INVALID_ARGUMENT, "%s: %s->struct_size is %u: set it to sizeof(%s)", function,
              name, size, type);
}

void struct_fill(void *given, const void *full, size_t size) {
  uint32_t stated;
  memcpy(&stated, full, sizeof stated);
  memcpy(given, full, stated < size ? stated : size);
}

void fail_clear(void) { message[0] = 0; }

const char *tn_last_error(void) { return message; }

static _Thread_local const char *call_site;

const char *tn_call_site(const char *site) {
  const char *before = call_site;
  call_site = site;
  return before;
}

const char *error_call_site(void) { return call_site; }

const char *tn_status_name(tn_status status) {
  static const char *const names[] = {
      [TN_OK] = "TN_OK",
      [TN_ERR_INVALID_ARGUMENT] = "TN_ERR_INVALID_ARGUMENT",
      [TN_ERR_UNSUPPORTED] = "TN_ERR_UNSUPPORTED",
      [TN_ERR_OUT_OF_MEMORY] = "TN_ERR_OUT_OF_MEMORY",
      [TN_ERR_DEVICE_OUT_OF_MEMORY] = "TN_ERR_DEVICE_OUT_OF_MEMORY",
      [TN_ERR_PLUGIN_REFUSED] = "TN_ERR_PLUGIN_REFUSED",
      [TN_ERR_NOT_FOUND] = "TN_ERR_NOT_FOUND",
      [TN_ERR_DEVICE_LOST] = "TN_ERR_DEVICE_LOST",
      [TN_ERR_FORKED] = "TN_ERR_FORKED",
      [TN_ERR_IO] = "TN_ERR_IO",
      [TN_ERR_BACKEND] = "TN_ERR_BACKEND",
      [TN_ERR_INTERNAL] = "TN_ERR_INTERNAL",
      [TN_ERR_NOT_READY] = "TN_ERR_NOT_READY",
      [TN_ERR_CLOSED] = "TN_ERR_CLOSED",
  };
  return (unsigned)status < sizeof names / sizeof *names ? names[status] : "TN_ERR_?";
}

const char *tn_dtype_name(tn_dtype dtype) {
  static const char *const names[] = {
      [TN_DTYPE_NONE] = "none", [TN_BOOL] = "bool", [TN_U8] = "u8",   [TN_I8] = "i8",
      [TN_I16] = "i16",         [TN_I32] = "i32",   [TN_I64] = "i64", [TN_F16] = "f16",
      [TN_BF16] = "bf16",       [TN_F32] = "f32",   [TN_F64] = "f64", [TN_F8_E4M3] = "f8_e4m3",
      [TN_F8_E5M2] = "f8_e5m2",
  };
  return (unsigned)dtype < sizeof names / sizeof *names ? names[dtype] : "?";
}

const char *tn_version(void) { return TN_VERSION_STRING; }

static void *default_alloc(void *user, size_t bytes, size_t align) {
  (void)user;
  size_t rounded;
  if (!size_add(bytes, align - 1, &rounded)) return NULL;
  return aligned_alloc(align, rounded & ~(align - 1));
}

static void default_free(void *user, void *ptr) {
  (void)user;
  free(ptr);
}

const host_memory host_memory_default = {default_alloc, default_free, NULL};

void *host_alloc(const host_memory *memory, size_t bytes) {
  void *ptr = memory->alloc(memory->user, bytes ? bytes : 1, 64);
  return ptr ? memset(ptr, 0, bytes) : NULL;
}

void host_free(const host_memory *memory, void *ptr) {
  if (ptr) memory->free(memory->user, ptr);
}

void *host_alloc_sparse(const host_memory *memory, size_t bytes) {
  if (memory->alloc != default_alloc) return host_alloc(memory, bytes);
  void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return ptr == MAP_FAILED ? NULL : ptr;
}

void host_free_sparse(const host_memory *memory, void *ptr, size_t bytes) {
  if (memory->alloc != default_alloc)
    host_free(memory, ptr);
  else if (ptr)
    (void)munmap(ptr, bytes);
}

void *host_grow(const host_memory *memory, void *items, size_t count, size_t item_bytes,
                size_t *capacity) {
  size_t wanted = *capacity ? 2 * *capacity : 16;
  void *grown = host_alloc(memory, wanted * item_bytes);
  if (!grown) return NULL;
  if (count) memcpy(grown, items, count * item_bytes);
  host_free(memory, items);
  *capacity = wanted;
  return grown;
}

char *host_strdup(const host_memory *memory, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = memory->alloc(memory->user, bytes, 1);
  return copy ? memcpy(copy, text, bytes) : NULL;
}
