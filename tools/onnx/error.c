/* The calling thread's message. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib.h"

static _Thread_local char message[2048];

const char *tn_onnx_last_error(void) { return message; }

tn_status onnx_fail(tn_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return status;
}

tn_status onnx_fail_by(tn_status status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  size_t length = strlen(message);
  snprintf(message + length, sizeof message - length, ": %s", tn_last_error());
  return status;
}
