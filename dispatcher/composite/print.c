/*
 * Tensors as text: a line with device, element type and shape, and the values, as people know
 * them from array libraries: nested brackets, columns, the middle of long axes left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/base/error.h"
#include "dispatcher/composite/corners.h"
#include "dispatcher/composite/number.h"
#include "dispatcher/tensor/tensor.h"

enum { ROOM = 64 }; /* bytes of one value */

/* Where the text goes: a file, or memory as far as there is room. */
typedef struct sink {
  FILE *file;
  char *text;
  size_t size, length;
  bool failed;
} sink;

static void put(sink *s, const char *text, size_t bytes) {
  if (s->file) {
    s->failed |= fwrite(text, 1, bytes, s->file) != bytes;
  } else {
    size_t room = s->length < s->size ? s->size - s->length : 0;
    memcpy(s->text + (room ? s->length : 0), text, bytes < room ? bytes : room);
  }
  s->length += bytes;
}

static void put_text(sink *s, const char *text) { put(s, text, strlen(text)); }

static void put_many(sink *s, char c, int64_t count) {
  for (; count > 0; --count) put(s, &c, 1);
}

/* --- values --- */

typedef enum form { FORM_BOOL, FORM_WHOLE, FORM_POINT, FORM_FIXED, FORM_EXPONENT } form;

typedef struct style {
  tn_dtype dtype;
  form form;
  int precision;
  int width; /* of the longest value */
} style;

/* Texts of printf with another locale's decimal point, which may have several bytes. */
static void mend_point(char *text) {
  char *from = text + strspn(text, "+-0123456789.e"), *to = from;
  if (!*from) return;
  *to++ = '.';
  from += strcspn(from, "0123456789e");
  memmove(to, from, strlen(from) + 1);
}

static int write_real(const style *s, double x, char *text) {
  if (x != x) return snprintf(text, ROOM, "nan");
  if (x - x != 0) return snprintf(text, ROOM, x > 0 ? "inf" : "-inf");
  if (s->form == FORM_POINT) return snprintf(text, ROOM, "%.0f.", x);
  (void)snprintf(text, ROOM, s->form == FORM_EXPONENT ? "%.*e" : "%.*f", s->precision, x);
  mend_point(text);
  return (int)strlen(text);
}

static int write_value(const style *s, number n, char *text) {
  if (s->form == FORM_BOOL) return snprintf(text, ROOM, n.i ? "true" : "false");
  if (n.whole) return snprintf(text, ROOM, "%" PRId64, n.i);
  return write_real(s, n.f, text);
}

static number value_at(const corners *c, int64_t i, tn_dtype dtype) {
  return number_load(dtype, c->elements + (size_t)i * tn_dtype_size(dtype));
}

/* Numbers without a fraction as such; others with `precision` digits behind the point, unless
 * that would hide the small ones or take long for the large ones. */
static form form_of_reals(const corners *c, tn_dtype dtype) {
  double most = 0, least = 0;
  bool whole = true;
  for (int64_t i = 0; i < c->count; ++i) {
    double x = value_at(c, i, dtype).f;
    if (x - x != 0) continue; /* not finite */
    double size = x < 0 ? -x : x;
    if (size > most) most = size;
    if (size > 0 && (least == 0 || size < least)) least = size;
    whole &= size >= 0x1p53 || (double)(int64_t)size == size;
  }
  if (whole) return most < 1e8 ? FORM_POINT : FORM_EXPONENT;
  return most >= 1e8 || least < 1e-4 || most / least > 1000 ? FORM_EXPONENT : FORM_FIXED;
}

static style style_of(const corners *c, int precision) {
  style s = {.dtype = (tn_dtype)c->tensor->dtype, .precision = precision};
  s.form = s.dtype == TN_BOOL             ? FORM_BOOL
           : TN_SET(s.dtype) & TN_SET_INT ? FORM_WHOLE
                                          : form_of_reals(c, s.dtype);
  for (int64_t i = 0; i < c->count; ++i) {
    char text[ROOM];
    int width = write_value(&s, value_at(c, i, s.dtype), text);
    if (width > s.width) s.width = width;
  }
  return s;
}

/* --- layout --- */

typedef struct layout {
  sink *sink;
  const corners *corners;
  style style;
  int64_t line; /* columns */
  int64_t next; /* the element that comes next */
} layout;

static void put_value(layout *l) {
  char text[ROOM];
  int width = write_value(&l->style, value_at(l->corners, l->next++, l->style.dtype), text);
  put_many(l->sink, ' ', l->style.width - width);
  put(l->sink, text, (size_t)width);
}

static void new_line(layout *l, int32_t indent) {
  put_many(l->sink, '\n', 1);
  put_many(l->sink, ' ', indent);
}

/* The last axis: values side by side, as many as a line takes. */
static void put_row(layout *l, int32_t axis) {
  const corners *c = l->corners;
  int64_t column = axis + 1;
  for (int64_t i = 0; i < c->kept[axis]; ++i) {
    bool gap = c->cut[axis] && i == c->edge;
    int64_t wide = l->style.width + 1 + (gap ? 5 : 0); /* with the comma or bracket behind it */
    if (i > 0) put_text(l->sink, ",");
    if (i > 0 && column + 1 + wide > l->line) {
      new_line(l, axis + 1);
      column = axis + 1;
    } else if (i > 0) {
      put_text(l->sink, " ");
      ++column;
    }
    if (gap) put_text(l->sink, "..., ");
    put_value(l);
    column += wide;
  }
}

static void put_axis(layout *l, int32_t axis) {
  const corners *c = l->corners;
  int32_t rank = c->tensor->dl.ndim;
  put_text(l->sink, "[");
  if (axis == rank - 1) put_row(l, axis);
  for (int64_t i = 0; axis < rank - 1 && i < c->kept[axis]; ++i) {
    if (i > 0) put_text(l->sink, ",");
    if (i > 0) put_many(l->sink, '\n', rank - axis - 2);
    if (i > 0) new_line(l, axis + 1);
    if (c->cut[axis] && i == c->edge) {
      put_text(l->sink, "...,");
      put_many(l->sink, '\n', rank - axis - 2);
      new_line(l, axis + 1);
    }
    put_axis(l, axis + 1);
  }
  put_text(l->sink, "]");
}

static void put_tensor(sink *s, const corners *c, const tn_print_options *o) {
  char text[512];
  layout l = {.sink = s, .corners = c, .style = style_of(c, o->precision), .line = o->line_width};
  put_text(s, tensor_text(text, sizeof text, c->tensor));
  put_text(s, "\n");
  if (c->count == 0)
    put_text(s, "[]");
  else if (c->tensor->dl.ndim == 0)
    put_value(&l);
  else
    put_axis(&l, 0);
}

/* --- public --- */

static tn_status take_options(const char *function, const tn_print_options *given,
                              tn_print_options *o) {
  *o = (tn_print_options){.struct_size = sizeof *o};
  if (given) {
    tn_status status = struct_check(function, "options", "tn_print_options", given);
    if (status) return status;
    memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
  }
  if (!o->precision) o->precision = 4;
  if (!o->edge) o->edge = 3;
  if (!o->threshold) o->threshold = 1000;
  if (!o->line_width) o->line_width = 80;
  if (o->precision < 1 || o->precision > 17 || o->edge < 1 || o->edge > 1000 || o->threshold < 0 ||
      o->line_width < 1)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "%s: options take a precision of 1 to 17, an edge of 1 to 1000, a threshold and a "
                "line_width of 1 or more; 0 is the default",
                function);
  return TN_OK;
}

/* All that can fail, before anything is written. */
static tn_status read_for(const char *function, const tn_tensor *tensor,
                          const tn_print_options *options, corners *c, tn_print_options *o) {
  tn_status status = tensor_check(tensor, function);
  if (!status) status = take_options(function, options, o);
  return status ? status : corners_read(c, tensor, o->threshold, o->edge);
}

tn_status tn_tensor_format(const tn_tensor *tensor, const tn_print_options *options, char *text,
                           size_t size, size_t *length) {
  corners c;
  tn_print_options o;
  if (!text && size) return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensor_format: text is NULL");
  tn_status status = read_for("tn_tensor_format", tensor, options, &c, &o);
  if (status) return status;
  char none;
  sink s = {.text = text ? text : &none, .size = size ? size - 1 : 0};
  put_tensor(&s, &c, &o);
  corners_free(&c);
  if (size) text[s.length < size ? s.length : size - 1] = 0;
  if (length) *length = s.length;
  return TN_OK;
}

tn_status tn_tensor_print(const tn_tensor *tensor, const tn_print_options *options, FILE *file) {
  corners c;
  tn_print_options o;
  tn_status status = read_for("tn_tensor_print", tensor, options, &c, &o);
  if (status) return status;
  sink s = {.file = file ? file : stdout};
  flockfile(s.file);
  put_tensor(&s, &c, &o);
  put_text(&s, "\n");
  funlockfile(s.file);
  corners_free(&c);
  return s.failed ? fail(TN_ERR_IO, "tn_tensor_print: the file could not be written") : TN_OK;
}
