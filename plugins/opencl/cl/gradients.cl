/*
 * What is done to gradients as a whole: their norm, scaling, and the scale of the loss. T0 is
 * the type of the gradients. See optimise.c.
 */

#if IS_FLOAT(T0)

/* partial[me] = the squares of elements me each <= i < (me + 1) each. */
__kernel void squares(CONST_TENSOR(T0, x), __global WIDE *partial_buffer, ulong partial_first,
                      const long count, const long each, const int parts) {
  const long me = get_global_id(0), begin = me * each, end = min(begin + each, count);
  WIDE sum = 0;
  if (me >= parts) return;
  for (long i = begin; i < end; ++i) {
    const WIDE value = LOAD(T0, AT(T0, x), i);
    sum += value * value;
  }
  (partial_buffer + partial_first)[me] = sum;
}

/* The norm, and as partial[0] what gradients are multiplied by. One work-item. */
__kernel void clip(__global WIDE *partial_buffer, ulong partial_first, const long parts,
                   const WIDE most, TENSOR(T1, norm)) {
  __global WIDE *partial = partial_buffer + partial_first;
  WIDE sum = 0;
  if (get_global_id(0)) return;
  for (long i = 0; i < parts; ++i) sum += partial[i];
  const WIDE norm = sqrt(sum), factor = most / (norm + (WIDE)1e-6);
  SAVE(T1, AT(T1, norm), 0, (WORK(T1))norm);
  partial[0] = factor > 1 ? 1 : factor;
}

__kernel void scale(TENSOR(T0, x), __global const WIDE *partial_buffer, ulong partial_first,
                    const long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const WIDE factor = (partial_buffer + partial_first)[0];
  SAVE(T0, AT(T0, x), i, (WORK(T0))(LOAD(T0, AT(T0, x), i) * factor));
}

__kernel void unscale(TENSOR(T0, x), CONST_TENSOR(f32, scale), TENSOR(bool, found),
                      const long count) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const WORK(T0) value = LOAD(T0, AT(T0, x), i);
  if (!isfinite(value)) AT(bool, found)[0] = 1;
  SAVE(T0, AT(T0, x), i, value / LOAD(f32, AT(f32, scale), 0));
}

#endif

/* T0 is the type of the count of good steps. One work-item; needs double. */
#if IS_INT(T0) && defined(HAS_FP64)
__kernel void update_scale(CONST_TENSOR(bool, found), TENSOR(f32, scale), TENSOR(T0, steps),
                           const double growth, const double backoff, const long interval) {
  __global float *scale = AT(f32, scale);
  if (get_global_id(0)) return;
  const bool bad = LOAD(bool, AT(bool, found), 0);
  long steps = bad ? 0 : (long)LOAD(T0, AT(T0, steps), 0) + 1;
  if (bad) *scale = (float)(*scale * backoff);
  if (steps == interval) {
    const float grown = (float)(*scale * growth);
    if (isfinite(grown)) *scale = grown;
    steps = 0;
  }
  SAVE(T0, AT(T0, steps), 0, (WORK(T0))steps);
}
#endif
