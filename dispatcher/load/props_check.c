/*
 * What a device says of itself, before anybody goes by it: a DLPack export carries these numbers
 * out of the process's reach, where nobody can tell that they are false.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/load/plugin_check.h"

/* Bounds on what is believed to be meant: more memory than 57 bits of address reach is none. */
#define MAX_MEMORY (UINT64_C(1) << 57)
enum { MAX_ALIGNMENT = 1 << 24 };

#define REFUSED TN_ERR_BACKEND

/* The numbers that dlpack.h gives out, of which 5 and 6 are none, and the next ones, which a later
 * one may. */
static bool is_dlpack_type(int32_t type) {
  return type >= kDLCPU && type < 32 && type != 5 && type != 6;
}

/* Whoever is given such a tensor follows its pointer on the host: the CPU's own memory (1), what
 * is pinned for CUDA (3) or ROCm (11), and what CUDA manages (13). */
static bool is_read_by_hosts(int32_t type) {
  return ((1u << kDLCPU | 1u << 3 | 1u << 11 | 1u << 13) >> type & 1) != 0;
}

static tn_status check_dlpack(const tn_device_props *p, uint32_t flags) {
  if (!is_dlpack_type(p->dl_device_type))
    return fail(REFUSED,
                "its describe gives dl_device_type %d, which is no DLDeviceType; a device that "
                "DLPack has no number for is kDLExtDev (%d)",
                (int)p->dl_device_type, (int)kDLExtDev);
  if (p->dl_device_id < 0)
    return fail(REFUSED, "its describe gives dl_device_id %d, which is below 0",
                (int)p->dl_device_id);
  if ((flags & TN_BACKEND_OPAQUE_MEMORY) && is_read_by_hosts(p->dl_device_type))
    return fail(REFUSED,
                "its memory is opaque, and its describe gives dl_device_type %d, which hosts read "
                "by address: what it exports would carry a false one",
                (int)p->dl_device_type);
  return TN_OK;
}

static tn_status check_alignment(const tn_device_props *p) {
  uint64_t alignment = p->alignment_bytes;
  if (alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
    return fail(REFUSED,
                "its backend says that its memory has an alignment of %llu bytes; powers of two up "
                "to %d are taken, and 0 for 64",
                (unsigned long long)alignment, MAX_ALIGNMENT);
  return TN_OK;
}

tn_status plugin_check_props(const tn_device_props *props, uint32_t flags) {
  tn_status status = check_dlpack(props, flags);
  if (!status) status = check_alignment(props);
  return status;
}

/* --- what can be mended: plugins that did so were taken before anybody looked --- */

static void say(char said[PROPS_SAID_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(char said[PROPS_SAID_BYTES], const char *format, ...) {
  va_list args;
  size_t used = strlen(said);
  used += (size_t)snprintf(said + used, PROPS_SAID_BYTES - used, "%s",
                           used ? "; " : "its describe gives ");
  if (used >= PROPS_SAID_BYTES) return;
  va_start(args, format);
  vsnprintf(said + used, PROPS_SAID_BYTES - used, format, args);
  va_end(args);
}

static void end_text(const char *what, char *text, size_t size, char said[PROPS_SAID_BYTES]) {
  if (memchr(text, 0, size)) return;
  text[size - 1] = 0;
  say(said, "a %s without an end in its %zu bytes, cut off", what, size);
}

void plugin_mend_props(tn_device_props *props, char said[PROPS_SAID_BYTES]) {
  said[0] = 0;
  if (props->memory_bytes > MAX_MEMORY) {
    say(said, "memory_bytes %llu, more than there can be, taken as not known",
        (unsigned long long)props->memory_bytes);
    props->memory_bytes = 0;
  }
  end_text("name", props->name, sizeof props->name, said);
  end_text("features", props->features, sizeof props->features, said);
  end_text("unique_id", props->unique_id, sizeof props->unique_id, said);
}
