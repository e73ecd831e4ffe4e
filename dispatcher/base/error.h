/* Errors: the calling thread's message, and host memory with its failures. */
#ifndef TENON_DISPATCHER_ERROR_H
#define TENON_DISPATCHER_ERROR_H

#include "tenon/tenon.h"

/* Sets the calling thread's message (printf format, cut at 2 KiB) and returns
 * `status`. Needs no memory. */
tn_status fail(tn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts words before the calling thread's present message. */
void fail_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* tn_host.fail: the same as fail, for plugins. Such a message is the reason for a failure of the
 * plugin's function that is under way, which any other message is not. */
tn_status fail_by_plugin(tn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says whether the present message is the reason for what is about to fail: no, before a plugin's
 * function is called; yes, where the dispatcher itself has failed in its place. */
void fail_set_reason(bool given);
bool fail_has_reason(void);

/* A plugin's function, `what`, returned `status`, which is not TN_OK. Gives a status that exists
 * and sees to a message: the plugin's own if it came with that status, or one that names it
 * (`plugin` may be NULL). */
tn_status fail_of_plugin(tn_status status, const char *plugin, const char *what);

/* TN_OK where a caller's struct states a size; else fails, saying what to do about it. `name` is
 * the parameter's, `type` the struct's. */
tn_status struct_check(const char *function, const char *name, const char *type, const void *given);

/* Fills as much of a caller's struct as it states to have room for. `full` has `size` bytes and
 * begins with the caller's struct_size. pre: struct_check. */
void struct_fill(void *given, const void *full, size_t size);

/* Forgets the message: what failed on the way to a success is no failure. */
void fail_clear(void);

/* What the calling thread's tn_call_site said last. */
const char *error_call_site(void);

/* Host memory of one runtime: the embedder's allocator or the C library's. */
typedef tn_allocator host_memory;

/* The C library's memory. */
extern const host_memory host_memory_default;

/* Zeroed memory at a 64-byte boundary, NULL when there is none. */
void *host_alloc(const host_memory *memory, size_t bytes);
void host_free(const host_memory *memory, void *ptr);
/* The same for a large table of which little will be written to: where the memory is the C
 * library's, pages that are never touched are never made. Freed with its size. */
void *host_alloc_sparse(const host_memory *memory, size_t bytes);
void host_free_sparse(const host_memory *memory, void *ptr, size_t bytes);
/* Room for more than `count` items where an array has room for *capacity: twice as much, at first
 * 16. The array's items move along; NULL, with the array as it was, when there is none. */
void *host_grow(const host_memory *memory, void *items, size_t count, size_t item_bytes,
                size_t *capacity);
char *host_strdup(const host_memory *memory, const char *text);

/* a + b; false on overflow. */
static inline bool size_add(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

#endif
