/*
 * The end of a loss: adds up what the work-items of class_loss.cl or pair_loss.cl found, two
 * sums each, losses and targets that count. One work-item. See loss.c.
 */

/* divisor: what the sum is divided by, or 0 for the targets that count. */
__kernel void finish(__global const WIDE *partial_buffer, ulong partial_first, const int parts,
                     const WIDE divisor, TENSOR(T0, y)) {
  __global const WIDE *partial = partial_buffer + partial_first;
  WIDE loss = 0, counted = 0;
  if (get_global_id(0)) return;
  for (int i = 0; i < parts; ++i) {
    loss += partial[2 * i];
    counted += partial[2 * i + 1];
  }
  SAVE(T0, AT(T0, y), 0, (WORK(T0))(loss / (divisor > 0 ? divisor : counted)));
}

/* partial[0] = the targets that count. */
__kernel void total(__global WIDE *partial_buffer, ulong partial_first, const int parts) {
  __global WIDE *partial = partial_buffer + partial_first;
  WIDE counted = 0;
  if (get_global_id(0)) return;
  for (int i = 0; i < parts; ++i) counted += partial[2 * i + 1];
  partial[0] = counted;
}
