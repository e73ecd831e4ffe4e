/*
 * Random numbers: element i of a dense tensor draws from a counter that follows from i alone,
 * by Philox4x32-10 (Salmon et al. 2011), the same bits as on every device. T0 is the output's
 * type.
 */
static inline uint4 philox_at(ulong seed, ulong counter) {
  uint4 c = (uint4)((uint)counter, (uint)(counter >> 32), 0, 0);
  uint key0 = (uint)seed, key1 = (uint)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint high0 = mul_hi(0xD2511F53u, c.s0), low0 = 0xD2511F53u * c.s0;
    const uint high1 = mul_hi(0xCD9E8D57u, c.s2), low1 = 0xCD9E8D57u * c.s2;
    c = (uint4)(high1 ^ c.s1 ^ key0, low1, high0 ^ c.s3 ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

static inline uint word_of(uint4 words, uint i) {
  return i == 0 ? words.s0 : i == 1 ? words.s1 : i == 2 ? words.s2 : words.s3;
}

/* The word of element i where each takes one, and the pair where each takes two. */
static inline uint word_at(ulong seed, ulong offset, ulong i) {
  return word_of(philox_at(seed, offset + i / 4), (uint)(i % 4));
}
static inline ulong pair_at(ulong seed, ulong offset, ulong i) {
  const uint4 words = philox_at(seed, offset + i / 2);
  return i % 2 ? (ulong)words.s3 << 32 | words.s2 : (ulong)words.s1 << 32 | words.s0;
}

static inline float uniform24(uint word) { return (float)(word >> 8) * 0x1p-24f; }
static inline float uniform24_positive(uint word) { return (float)((word >> 8) + 1) * 0x1p-24f; }

/* Where the numbers begin. What the program keeps in the device's memory has bits in `told`: 1 for
 * the seed, 2 for what is added to the offset. */
#define ORIGIN                                                                                     \
  ulong seed, ulong offset, CONST_TENSOR(i64, seed_from), CONST_TENSOR(i64, offset_from),          \
      const int told
#define BEGIN_ORIGIN                                                                               \
  if (told & 1) seed = (ulong)*AT(i64, seed_from);                                                 \
  if (told & 2) offset += (ulong)*AT(i64, offset_from);

#define IS_WIDE PASTE(is_wide_, T0)
#define is_wide_f64 1
#define is_wide_f32 0
#define is_wide_f16 0
#define is_wide_bf16 0

#define BEGIN                                                                                      \
  const ulong i = get_global_id(0);                                                                \
  if (i >= count) return;

/* Each item has the four elements of one counter. Kept where the word's 24 bits reach the
 * threshold. */
__kernel void dropout(TENSOR(T0, y), TENSOR(bool, mask), CONST_TENSOR(T0, x), ulong count,
                      ORIGIN, uint threshold, WORK(T0) scale) {
  const ulong four = get_global_id(0);
  if (four >= count / 4 + (count % 4 != 0)) return;
  BEGIN_ORIGIN
  const uint4 words = philox_at(seed, offset + four);
  for (uint k = 0; k < 4; k++) {
    const ulong i = four * 4 + k;
    if (i >= count) return;
    const bool kept = word_of(words, k) >> 8 >= threshold;
    SAVE(T0, AT(T0, y), i, kept ? LOAD(T0, AT(T0, x), i) * scale : (WORK(T0))0);
    SAVE(bool, AT(bool, mask), i, kept);
  }
}

__kernel void dropout_grad(TENSOR(T0, dx), CONST_TENSOR(T0, dy), CONST_TENSOR(bool, mask),
                           ulong count, WORK(T0) scale) {
  BEGIN
  const bool kept = LOAD(bool, AT(bool, mask), i);
  SAVE(T0, AT(T0, dx), i, kept ? LOAD(T0, AT(T0, dy), i) * scale : (WORK(T0))0);
}

__kernel void bernoulli(TENSOR(T0, y), ulong count, ORIGIN, ulong threshold) {
  BEGIN
  BEGIN_ORIGIN
  SAVE(T0, AT(T0, y), i, (WORK(T0))(word_at(seed, offset, i) < threshold));
}

__kernel void randint(TENSOR(T0, y), ulong count, ORIGIN, ulong low, ulong span) {
  BEGIN
  BEGIN_ORIGIN
  SAVE(T0, AT(T0, y), i, (WORK(T0))(low + mul_hi(pair_at(seed, offset, i), span)));
}

#if IS_FLOAT(T0)
__kernel void uniform(TENSOR(T0, y), ulong count, ORIGIN, WORK(T0) low, WORK(T0) width,
                      WORK(T0) back, WORK(T0) least, WORK(T0) most) {
  BEGIN
  BEGIN_ORIGIN
#if IS_WIDE
  const double u = (double)(pair_at(seed, offset, i) >> 11) * 0x1p-53;
  const double v = back * (low + width * u);
#else
  const float v = back * fma(width, uniform24(word_at(seed, offset, i)), low);
#endif
  SAVE(T0, AT(T0, y), i, clamp(v, least, most));
}

/* Box and Muller 1958: a pair of elements from two uniform numbers. */
__kernel void normal(TENSOR(T0, y), ulong count, ORIGIN, WIDE mean, WIDE std) {
  BEGIN
  BEGIN_ORIGIN
#if IS_WIDE
  const uint4 words = philox_at(seed, offset + i / 2);
  const double u1 =
      (double)((((ulong)words.s1 << 32 | words.s0) >> 11) + 1) * 0x1p-53;
  const double u2 = (double)(((ulong)words.s3 << 32 | words.s2) >> 11) * 0x1p-53;
#else
  const uint4 words = philox_at(seed, offset + i / 4);
  const uint first = 2 * (uint)(i % 4 / 2);
  const WIDE u1 = (WIDE)uniform24_positive(word_of(words, first));
  const WIDE u2 = (WIDE)uniform24(word_of(words, first + 1));
#endif
  const WIDE radius = sqrt(-2 * log(u1)), angle = (WIDE)6.28318530717958647693 * u2;
  SAVE_WIDE(T0, AT(T0, y), i, mean + std * (radius * (i % 2 ? sin(angle) : cos(angle))));
}
#endif
