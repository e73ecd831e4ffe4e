/* The table of api/precision.def by operator number. */
#include "graph/autocast/autocast.h"
#include "tenon/ops.h"

/* One name for each row, which the table below asks for: a missing one does not compile. */
enum {
#define PRECISION(name, class) class_of_##name = PRECISION_##class,
#include "precision.def"
};

static const uint8_t classes[] = {
#define OP(id, name, NAME, ...) [id] = class_of_##name,
#include "ops.def"
};

/* As many rows as operators: none is left over from one that went, or was misspelt. */
enum {
#define PRECISION(name, class) row_of_##name,
#include "precision.def"
  NUM_ROWS
};
enum {
#define OP(id, name, NAME, ...) operator_##name,
#include "ops.def"
  NUM_OPERATORS
};
_Static_assert((int)NUM_ROWS == (int)NUM_OPERATORS, "precision.def has a row without an operator");

precision precision_of(const tn_operator *op) {
  if (op->id < sizeof classes && classes[op->id]) return (precision)classes[op->id];
  /* A plugin's own may say what only a later version knows. */
  return op->precision < PRECISION_AS_GIVEN ? (precision)op->precision : PRECISION_UNSAID;
}
