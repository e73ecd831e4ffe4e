/* Reads the operator table ops.def and the shape rules shapes.def. */
#include "opgen.h"

#define TN_SET_FLOAT "f16 bf16 f32 f64"
#define TN_SET_INT "u8 i8 i16 i32 i64"
#define TN_SET_BYTE "u8 i8"
#define TN_SET_INDEX "i32 i64"
#define TN_SET_NARROW "u8 i8 i16"
#define TN_SET_WORD "u8 i8 i16 i32"
#define TN_SET_NUMBER TN_SET_INT " " TN_SET_FLOAT
#define TN_SET_BITS "bool " TN_SET_INT
#define TN_SET_ALL "bool " TN_SET_NUMBER
#define TN_SET_F8 "f8_e4m3 f8_e5m2"
#define TN_SET_STORED TN_SET_ALL " " TN_SET_F8
#define TN_SET_QUANT TN_SET_NARROW " " TN_SET_F8
#define TN_SET_DEQUANT TN_SET_WORD " " TN_SET_F8

#define SET(name)                                                                                  \
  { #name, TN_SET_##name }
const type_set sets[] = {SET(FLOAT),  SET(INT),   SET(BYTE),   SET(INDEX), SET(NUMBER),
                         SET(BITS),   SET(ALL),   SET(NARROW), SET(WORD),  SET(F8),
                         SET(STORED), SET(QUANT), SET(DEQUANT)};
const int num_sets = sizeof sets / sizeof *sets;

enum {
#define SHAPE(number, name, NAME, ...) TN_SHAPE_##NAME = number,
#include "shapes.def"
};

const shape shapes[] = {
#define SHAPE(number, name, NAME, family, doc) {number, #name, #NAME, doc},
#include "shapes.def"
};
const int num_shapes = sizeof shapes / sizeof *shapes;

/* __FILE__ is the file in ops/ that the row stands in. */
#define OP(ID, n, N, ...)                                                                          \
  {.id = ID, .name = #n, .NAME = #N, .file = __FILE__, .fields = #__VA_ARGS__, __VA_ARGS__},
static const row written_rows[] = {
#include "ops.def"
};
enum { ROWS = sizeof written_rows / sizeof *written_rows };

#define ARG_IN(n, t, ...) {'i', #n, #t, __VA_ARGS__},
#define ARG_OPT(n, t, ...) {'p', #n, #t, __VA_ARGS__},
#define ARG_INOUT(n, t, ...) {'u', #n, #t, __VA_ARGS__},
#define ARG_OUT(n, t, ...) {'o', #n, #t, __VA_ARGS__},
#define ARG_OPTOUT(n, t, ...) {'q', #n, #t, __VA_ARGS__},
#define ATTR(k, n, v, ...) {#k, #n, #v, __VA_ARGS__},
#define OP(ID, n, N, ...)                                                                          \
  static const arg n##_args[] = {                                                                  \
      TN_ARGS_##n(ARG_IN, ARG_OPT, ARG_INOUT, ARG_OUT, ARG_OPTOUT){0, "", "", "", 0, 0, 0}};       \
  static const attr n##_attrs[] = {                                                                \
      TN_ATTRS_##n(ATTR){"", NULL, "", "", 0, 0, 0, 0, false, NULL, 0, NULL}};
#include "ops.def"

static const row_lists written_lists[] = {
#define OP(ID, n, N, ...) {n##_args, n##_attrs},
#include "ops.def"
};

row rows[ROWS];
row_lists lists[ROWS];
const int num_rows = ROWS;
_Static_assert((int)ROWS <= (int)TABLE_MAX, "opgen.h says at most");

bool table_sort(void) {
  for (int n = 0; n < ROWS; ++n) {
    int at = n;
    for (; at > 0 && rows[at - 1].id > written_rows[n].id; --at) {
      rows[at] = rows[at - 1];
      lists[at] = lists[at - 1];
    }
    rows[at] = written_rows[n];
    lists[at] = written_lists[n];
    if (at > 0 && rows[at - 1].id == rows[at].id)
      return fprintf(stderr, "ops.def: %s and %s have one number\n", rows[at - 1].name,
                     rows[at].name),
             false;
  }
  return true;
}
