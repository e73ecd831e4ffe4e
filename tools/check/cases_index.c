/* Cases of gathering and scattering by index. */
#include "number.h"
#include "op_case.h"

typedef struct tensor {
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
} tensor;

/* Half of the elements zero, nearly all, none, and what special values there are. */
void cases_nonzero(const tn_operator *op, const tn_dtype *types, case_sink sink) {
  static const tensor list[] = {
      {0, {0}},
      {1, {1}},
      {1, {0}},
      {1, {8}},
      {1, {1000}},
      {1, {4097}},
      {2, {3, 5}},
      {2, {33, 65}},
      {2, {4, 0}},
      {3, {5, 1, 7}},
      {3, {0, 2, 3}},
      {4, {2, 3, 4, 5}},
      {8, {2, 1, 3, 2, 1, 2, 2, 3}},
  };
  static const value_kind kinds[] = {VALUES_TIES, VALUES_SPECIAL, VALUES_PLAIN, VALUES_SPARSE};
  for (unsigned i = 0; i < sizeof list / sizeof *list; i++)
    for (unsigned k = 0; k < 4; k++) {
      op_case c = case_begin(op, types);
      case_shape(&c, 0, list[i].rank, list[i].shape);
      c.values = kinds[k];
      c.seed += i * 4 + k;
      c.typical = i == 6 && k == 0;
      if (k == 2 && list[i].rank > 1) c.arg[0].expanded = 1;
      if (list[i].rank == 4) c.variants |= VARIANT_CHANNELS_LAST;
      c.variants |= VARIANT_PREPARED;
      sink.take(sink.ctx, &c);
    }
}

void sizes_nonzero(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink) {
  op_case c = case_begin(op, types);
  case_shape(&c, 0, 1, &large);
  c.values = VALUES_TIES;
  sink.take(sink.ctx, &c);
}
