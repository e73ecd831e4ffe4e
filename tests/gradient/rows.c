/* Rows of api/gradients/ by operator; see rows.h. */
#include "rows.h"

#include <stddef.h>
#include <string.h>

typedef struct part {
  row_kind kind;
  const char *why;
} part;

#define GRAD(arg, ...) {ROW_RULE, ""},
#define FUNCTION(name, ...) {ROW_RULE, ""},
#define ACTIVATED(...) {ROW_NONE, ""},
#define STOPS(why) {ROW_STOPS, why},
#define REFUSES(why) {ROW_REFUSES, why},
#define NOTE(text) {ROW_NONE, text},
#include "gradients.def"

#define OP(id, name, NAME, ...) static const part name##_parts[] = {TN_GRAD_##name{ROW_NONE, ""}};
#include "ops.def"

static const struct {
  uint32_t id;
  const part *parts;
} rows[] = {
#define OP(id, name, NAME, ...) {id, name##_parts},
#include "ops.def"
};

static const part *find(uint32_t op) {
  static const part none = {ROW_NONE, ""};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (rows[i].id == op) return rows[i].parts;
  return &none;
}

row_kind row_of(uint32_t op) {
  const part *p = find(op);
  return p->kind == ROW_REFUSES && !strcmp(p->why, "no rule was written yet") ? ROW_UNWRITTEN
                                                                              : p->kind;
}
