/* Text of bounded length, put together without the C library's formats, which would cost
 * more than the calls that are traced. What does not fit is left out. */
#ifndef TRACE_TEXT_H
#define TRACE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tenon/plugin.h"

typedef struct text {
  char *at, *end;
} text;

/* Writes into at most `room` bytes of `t`; text_join takes them over. */
text text_part(const text *t, size_t room);
void text_join(text *t, const text *part);

/* All of the bytes or none of them. */
static inline void text_copy(text *t, const char *bytes, size_t length) {
  if (length > (size_t)(t->end - t->at)) return;
  memcpy(t->at, bytes, length);
  t->at += length;
}
static inline void text_put(text *t, const char *words) { text_copy(t, words, strlen(words)); }
void text_number(text *t, uint64_t value);
void text_signed(text *t, int64_t value);
void text_real(text *t, double value);
/* Nanoseconds as microseconds, which is what traces count in. */
void text_us(text *t, uint64_t ns);
/* The inside of a JSON string: escapes, and U+FFFD for bytes that are not UTF-8. */
void text_escaped(text *t, const char *words);

/* "f32[128,10]", and "f32[128,10](1,128)" with its strides where they are not row-major. */
void text_tensor(text *t, const DLTensor *tensor);
/* Several of those with blanks between, "-" for an absent one. */
void text_tensors(text *t, const DLTensor *const *tensors, uint32_t count);
/* "axis=1 keep=1": the attributes that are not what they are by default, as JSON wants it. */
void text_attrs(text *t, const tn_operator *op, const tn_kernel_args *args);

#endif
