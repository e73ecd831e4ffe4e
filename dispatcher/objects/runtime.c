/*
 * Why a runtime or a device refuses a call, and the runtime's log. After fork() the child's
 * copy of a runtime refuses every call; the only trace of that in the hot path is one
 * comparison with a counter that the child's fork handler raises.
 */
#include "dispatcher/objects/runtime.h"

#include <stdio.h>

tn_status runtime_check_slow(const tn_runtime *runtime) {
  if (runtime->is_quarantine)
    return fail(TN_ERR_INVALID_ARGUMENT, "a tensor is used after its release");
  if (atomic_load(&fork_generation) != runtime->fork_generation)
    return fail(TN_ERR_FORKED, "this runtime was opened before fork(); open a new one in the "
                               "child, or fork before opening");
  if (atomic_load(&runtime->closed)) return fail(TN_ERR_CLOSED, "the runtime was closed");
  return TN_OK;
}

void runtime_log_args(const tn_runtime *runtime, tn_log_level level, const char *format,
                      va_list args) {
  char line[1024];
  if (level > runtime->config.log_level || level == TN_LOG_NONE) return;
  vsnprintf(line, sizeof line, format, args);
  log_write(&runtime->log, &runtime->memory, level, line);
}

void runtime_log(const tn_runtime *runtime, tn_log_level level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  runtime_log_args(runtime, level, format, args);
  va_end(args);
}
