/* Panels of 8-bit integers and the products of them; integer.h says how. */
#include "kernels/cpu/matmul/integer.h"

#include "kernels/cpu/matmul/tile_amx.h"

static bool has_zeros(const DLTensor *zero) {
  for (int64_t i = 0; zero && i < cpu_count(zero); i++)
    if (integer_zero(zero, i)) return true;
  return false;
}

integer_words ISA(integer_words_of)(int64_t length, const integer_vectors *a,
                                    const integer_vectors *b) {
#if TN_ISA_LEVEL == 2
  const bool bytes = __builtin_cpu_supports("avx512vnni");
#else
  const bool bytes = false;
#endif
  integer_words w = {.bytes = bytes, .a_signed = a->is_signed, .length = length};
  w.steps = cpu_ceil_div(length, bytes ? 4 : 2);
  if (!bytes) return w;
  if (a->is_signed == b->is_signed) w.moved = b->is_signed ? 128 : -128;
  w.zeros_a = has_zeros(a->zero);
  w.zeros_b = w.moved || has_zeros(b->zero);
  return w;
}

void ISA(integer_take_units)(integer_words *w, int64_t rows, const integer_vectors *b) {
#if TN_ISA_LEVEL == 2
  /* Few rows leave most of a unit's tile empty. */
  if (!w->bytes || w->length == 0 || rows < TILE_UNIT / 2 || !tile_amx_has_bytes()) return;
  w->units = true;
  w->steps = cpu_ceil_div(w->steps, TILE_UNIT) * TILE_UNIT;
  w->b_signed = b->is_signed;
  w->moved = 0;
  w->zeros_b = has_zeros(b->zero);
#else
  (void)w, (void)rows, (void)b;
#endif
}

/* Words of a vector that are read one after the other: a cache line of bytes. */
enum { PACK_STEPS = 16 };

/* How a byte becomes a number: (byte ^ flip) - zero. */
typedef struct pack_job {
  const integer_vectors *x;
  int64_t first, count, length, room;
  uint8_t flip;
  int32_t zero[TILE_WIDTH];
} pack_job;
_Static_assert((int)INTEGER_UNIT_ROWS <= (int)TILE_WIDTH, "zero points of a panel of rows");

#define ALWAYS_INLINE __attribute__((always_inline)) static inline

ALWAYS_INLINE uint32_t term(bool bytes, uint8_t byte, uint8_t flip, int32_t zero, int place) {
  const uint8_t value = byte ^ flip;
  if (bytes) return (uint32_t)value << 8 * place;
  return (uint32_t)(uint16_t)(value - zero) << 16 * place;
}

/* The word of terms t... of a vector, of which those behind its end are 0. */
ALWAYS_INLINE uint32_t word_at(const pack_job *p, bool bytes, const uint8_t *x, int64_t along,
                               int64_t t, int32_t zero) {
  uint32_t word = 0;
  for (int i = 0; i < (bytes ? 4 : 2) && t + i < p->length; i++)
    word |= term(bytes, x[(t + i) * along], p->flip, zero, i);
  return word;
}

/* Vectors side by side: a word is of as many rows. */
ALWAYS_INLINE void pack_beside(const pack_job *p, bool bytes, uint32_t *restrict to) {
  const int terms = bytes ? 4 : 2;
  const int64_t along = p->x->along, n = p->count;
  const uint8_t flip = p->flip, *x = p->x->data + p->first;
  int64_t t = 0;
  for (; t + terms <= p->length; t += terms, to += p->room) {
    const uint8_t *r0 = x + t * along, *r1 = r0 + along;
    const uint8_t *r2 = bytes ? r1 + along : r0, *r3 = bytes ? r2 + along : r0;
    for (int64_t j = 0; j < n; j++) {
      uint32_t word = term(bytes, r0[j], flip, p->zero[j], 0);
      word |= term(bytes, r1[j], flip, p->zero[j], 1);
      if (bytes) word |= term(true, r2[j], flip, 0, 2) | term(true, r3[j], flip, 0, 3);
      to[j] = word;
    }
  }
  if (t < p->length)
    for (int64_t j = 0; j < n; j++) to[j] = word_at(p, bytes, x + j, along, t, p->zero[j]);
}

/* Some words of vector j of dense terms. */
ALWAYS_INLINE void pack_words(const pack_job *p, bool bytes, int64_t j, int64_t begin, int64_t end,
                              uint32_t *restrict to) {
  const uint8_t *from = p->x->data + (p->first + j) * p->x->step;
  for (int64_t s = begin; s < end; s++) {
    uint32_t word;
    memcpy(&word, from + s * 4, bytes ? sizeof word : 0);
    to[s * p->room + j] =
        bytes ? word ^ 0x01010101u * p->flip : word_at(p, false, from, 1, s * 2, p->zero[j]);
  }
}

/* The same of four vectors, whose bytes stay what they are. */
static void pack_four(const pack_job *p, int64_t j, int64_t begin, int64_t end, uint32_t *to) {
  const uint8_t *from = p->x->data + (p->first + j) * p->x->step;
  int64_t s = begin;
  for (; s + 4 <= end; s += 4) tile_turn(from + s * 4, p->x->step, to + s * p->room + j, p->room);
  for (int i = 0; i < 4; i++) pack_words(p, true, j + i, s, end, to);
}

/* Vectors of dense terms, some words of each by turns. */
ALWAYS_INLINE void pack_dense(const pack_job *p, bool bytes, uint32_t *restrict to) {
  const int terms = bytes ? 4 : 2;
  const int64_t whole = p->length / terms;
  for (int64_t t = 0; t < whole; t += PACK_STEPS) {
    const int64_t end = cpu_min(whole, t + PACK_STEPS);
    int64_t j = 0;
    for (; bytes && !p->flip && j + 4 <= p->count; j += 4) pack_four(p, j, t, end, to);
    for (; j < p->count; j++) pack_words(p, bytes, j, t, end, to);
  }
  const uint8_t *x = p->x->data + p->first * p->x->step;
  if (whole * terms < p->length)
    for (int64_t j = 0; j < p->count; j++)
      to[whole * p->room + j] = word_at(p, bytes, x + j * p->x->step, 1, whole * terms, p->zero[j]);
}

ALWAYS_INLINE void pack_any(const pack_job *p, bool bytes, uint32_t *restrict to) {
  const int terms = bytes ? 4 : 2;
  const uint8_t *x = p->x->data + p->first * p->x->step;
  for (int64_t t = 0; t < p->length; t += terms, to += p->room)
    for (int64_t j = 0; j < p->count; j++)
      to[j] = word_at(p, bytes, x + j * p->x->step, p->x->along, t, p->zero[j]);
}

ALWAYS_INLINE void pack(const pack_job *p, bool bytes, uint32_t *to) {
  if (p->x->step == 1)
    pack_beside(p, bytes, to);
  else if (p->x->along == 1)
    pack_dense(p, bytes, to);
  else
    pack_any(p, bytes, to);
}

/* Zero points of the vectors, as they are of the numbers in the words. */
static void read_zeros(const integer_words *w, pack_job *p) {
  const int32_t moved = p->x->is_b ? w->moved : 0;
  /* As int16 a signed byte is that with its highest bit turned, less 128. */
  const int32_t turned = w->bytes ? moved : p->x->is_signed ? 128 : 0;
  p->flip = turned ? 0x80 : 0;
  for (int64_t j = 0; j < p->count; j++)
    p->zero[j] = integer_zero(p->x->zero, p->x->zero_first + p->first + j) + turned;
}

#if TN_ISA_LEVEL == 2
/* Row i of a for matrix units: words of a tile follow each other, bytes behind the last term are 0.
 */
static void pack_row(const integer_words *w, const pack_job *p, int64_t i, uint32_t *to) {
  enum { BYTES = TILE_UNIT * sizeof *to };
  const uint8_t *from = p->x->data + (p->first + i) * p->x->step;
  const int64_t along = p->x->along, terms = i < p->count ? w->length : 0;
  for (int64_t t = 0; t < w->steps * 4; t += BYTES, to += TILE_UNIT * TILE_UNIT) {
    uint8_t *line = (uint8_t *)to;
    const int64_t count = cpu_max(0, cpu_min(BYTES, terms - t));
    if (along == 1 && count == BYTES) {
      memcpy(line, from + t, BYTES);
      continue;
    }
    for (int64_t b = 0; b < count; b++) line[b] = from[(t + b) * along];
    memset(line + count, 0, (size_t)(BYTES - count));
  }
}

static int32_t sum_of_row(const integer_words *w, const uint32_t *row) {
  int32_t sum = 0;
  for (int64_t t = 0; t < w->steps; t += TILE_UNIT, row += TILE_UNIT * TILE_UNIT)
    sum += tile_byte_sum_vnni(TILE_UNIT, w->a_signed, row);
  return sum;
}

static void pack_rows(const integer_words *w, const pack_job *p, const integer_panel *to) {
  for (int64_t i = 0; i < to->room; i++) {
    uint32_t *row = to->words + i / TILE_UNIT * TILE_UNIT * w->steps + i % TILE_UNIT * TILE_UNIT;
    pack_row(w, p, i, row);
    to->zeros[i] = i < p->count ? p->zero[i] : 0;
    if (w->zeros_b) to->sums[i] = sum_of_row(w, row);
  }
}

/* Whether bytes of a panel are signed. */
static bool bytes_are_signed(const integer_words *w, bool is_b) {
  if (!is_b) return w->a_signed;
  return w->units ? w->b_signed : !w->a_signed;
}
#endif

static void pack_panel(const integer_words *w, const integer_vectors *x, int64_t first,
                       int64_t count, const integer_panel *to) {
  pack_job p = {.x = x, .first = first, .count = count, .length = w->length, .room = to->room};
  const int64_t laid = cpu_ceil_div(w->length, w->bytes ? 4 : 2);
  read_zeros(w, &p);
#if TN_ISA_LEVEL == 2
  if (w->units && !x->is_b) {
    pack_rows(w, &p, to);
    return;
  }
#endif
  for (int64_t t = 0; count < to->room && t < laid; t++)
    for (int64_t j = count; j < to->room; j++) to->words[t * to->room + j] = 0;
  memset(to->words + laid * to->room, 0,
         (size_t)((w->steps - laid) * to->room) * sizeof *to->words);
  if (w->bytes)
    pack(&p, true, to->words);
  else
    pack(&p, false, to->words);
#if TN_ISA_LEVEL == 2
  for (int64_t j = 0; w->bytes && j < to->room; j++) to->zeros[j] = j < count ? p.zero[j] : 0;
  if (x->is_b ? w->zeros_a : w->zeros_b)
    tile_byte_sums_vnni(w->steps, to->room, bytes_are_signed(w, x->is_b), to->words, to->sums);
#endif
}

/* Matrix units want panels of b that are as wide as a tile. */
void ISA(integer_pack)(const integer_words *w, const integer_vectors *x, int64_t first,
                       int64_t count, const integer_panel *to) {
  const int64_t most = w->units && x->is_b ? TILE_UNIT : to->room;
  for (int64_t j = 0; j < to->room; j += most) {
    const integer_panel part = {most, to->words + j * w->steps, to->zeros + j, to->sums + j};
    pack_panel(w, x, first + j, cpu_max(0, cpu_min(most, count - j)), &part);
  }
}

/* What zero points take from the sums of a row of a, which has `zero`. */
static void correct(const integer_words *w, const integer_panel *a, int64_t row,
                    const integer_panel *b, int32_t *y) {
  const uint32_t zero = (uint32_t)a->zeros[row], length = (uint32_t)w->length;
  const uint32_t sum = w->zeros_b ? (uint32_t)a->sums[row] - zero * length : 0;
  for (int64_t j = 0; w->zeros_b && j < b->room; j++)
    y[j] = (int32_t)((uint32_t)y[j] - (uint32_t)b->zeros[j] * sum);
  for (int64_t j = 0; w->zeros_a && j < b->room; j++)
    y[j] = (int32_t)((uint32_t)y[j] - zero * (uint32_t)b->sums[j]);
}

#if TN_ISA_LEVEL == 2
static void multiply_by_units(const integer_words *w, const tile_shape *s, const integer_panel *a,
                              const integer_panel *b, int32_t *sums) {
  const int64_t group = w->steps * TILE_UNIT;
  if (w->a_signed)
    (w->b_signed ? tile_bytes_ss_amx : tile_bytes_su_amx)(s, group, a->words, b->words, sums);
  else
    (w->b_signed ? tile_bytes_us_amx : tile_bytes_uu_amx)(s, group, a->words, b->words, sums);
}
#endif

static void tile_of(const integer_words *w, const integer_panel *a, const integer_panel *b,
                    int32_t *sums) {
  const tile_shape shape = {.steps = w->steps, .rows = a->room, .width = b->room, .ldy = b->room};
#if TN_ISA_LEVEL == 2
  if (w->units) {
    multiply_by_units(w, &shape, a, b, sums);
  } else if (w->bytes) {
    (w->a_signed ? tile_signed_a_vnni : tile_signed_b_vnni)(&shape, a->words, b->words, sums);
  } else {
    ISA(tile_pairs)(&shape, a->words, b->words, sums);
  }
  for (int64_t i = 0; w->bytes && i < a->room; i++) correct(w, a, i, b, sums + i * b->room);
#else
  (void)correct;
  ISA(tile_pairs)(&shape, a->words, b->words, sums);
#endif
}

void ISA(integer_products)(const integer_words *w, const integer_sink *sink, void *panels,
                           int64_t all, int64_t index, int64_t rows, const integer_panel *b,
                           int64_t columns, const integer_block *y) {
  int32_t sums[INTEGER_UNIT_ROWS * TILE_WIDTH];
  const int64_t most = integer_panel_rows(w);
  for (int64_t i = 0; i < rows; i += most, index++) {
    const integer_panel a = integer_rows_at(w, all, index, panels);
    tile_of(w, &a, b, sums);
    for (int64_t r = 0; r < cpu_min(most, rows - i); r++)
      integer_store(sink, y->first_row + i + r, y->first_column, columns, sums + r * b->room,
                    y->data + (i + r) * y->row * sink->size, y->column);
  }
}
