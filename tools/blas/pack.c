/* Packing operands and merging results, over the two types of parts. */
#include "pack.h"

#include <string.h>

#define REAL float
#define PACKED(name) name##_f32
#include "pack.inc"
#undef REAL
#undef PACKED
#define REAL double
#define PACKED(name) name##_f64
#include "pack.inc"

static size_t part_bytes(tn_dtype dtype) {
  return dtype == TN_F64 ? sizeof(double) : sizeof(float);
}

static operand real_operand(const product *p, const void *data, int64_t ld, bool transposed,
                            int64_t inner, int64_t outer) {
  return (operand){.packing = PACK_AS_IT_IS,
                   .dtype = element_dtype(p->type),
                   .rows = transposed ? inner : outer,
                   .columns = transposed ? outer : inner,
                   .data = data,
                   .stride = ld};
}

static operand complex_operand(const product *p, const void *data, int64_t ld, char letter,
                               bool sum_first) {
  /* Whether the sum runs down the columns as they lie in memory. */
  bool down = sum_first == (letter == 'N');
  return (operand){.dtype = element_dtype(p->type),
                   .data = data,
                   .sum_stride = down ? 1 : ld,
                   .other_stride = down ? ld : 1,
                   .conjugated = letter == 'C'};
}

void operands_of(const product *p, operand operands[2]) {
  if (!element_is_complex(p->type)) {
    operands[0] = real_operand(p, p->b, p->ldb, p->tb != 'N', p->k, p->n);
    operands[1] = real_operand(p, p->a, p->lda, p->ta != 'N', p->m, p->k);
    return;
  }
  operands[0] = complex_operand(p, p->b, p->ldb, p->tb, true);
  operands[0].packing = PACK_PARTS;
  operands[0].rows = p->n, operands[0].columns = 2 * p->k;
  operands[1] = complex_operand(p, p->a, p->lda, p->ta, false);
  operands[1].packing = PACK_EXPANDED;
  operands[1].rows = 2 * p->k, operands[1].columns = 2 * p->m;
}

static void pack_as_it_is(const operand *o, piece part, char *out) {
  size_t bytes = part_bytes(o->dtype), row_bytes = (size_t)part.columns * bytes;
  const char *from = (const char *)o->data + (part.row * o->stride + part.column) * (int64_t)bytes;
  if (part.columns == o->stride) {
    memcpy(out, from, (size_t)part.rows * row_bytes);
    return;
  }
  for (int64_t i = 0; i < part.rows; ++i)
    memcpy(out + (size_t)i * row_bytes, from + i * o->stride * (int64_t)bytes, row_bytes);
}

void operand_pack(const operand *o, piece part, void *out) {
  if (o->packing == PACK_AS_IT_IS)
    pack_as_it_is(o, part, out);
  else if (o->dtype == TN_F64)
    pack_complex_f64(o, part, out);
  else
    pack_complex_f32(o, part, out);
}

void product_merge(const product *p, piece part, const void *y) {
  static void (*const merge[NUM_ELEMENTS])(const product *, piece, const void *) = {
      merge_real_f32, merge_real_f64, merge_complex_f32, merge_complex_f64};
  merge[p->type](p, part, y);
}
