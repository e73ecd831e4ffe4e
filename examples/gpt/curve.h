/* What a run of training measured, on the host, step by step; as a drawing in text and as CSV. */
#ifndef GPT_CURVE_H
#define GPT_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct curve_point {
  float loss, norm;      /* of the gradients, before it was clipped */
  double rate, held_out; /* loss of the text held out after this step; NaN where not tested */
} curve_point;

typedef struct curve {
  int64_t first; /* number of the first step here */
  curve_point *points;
  size_t count, capacity;
} curve;

/* Makes room for `count` points in all; false: no memory. */
bool curve_reserve(curve *c, size_t count);
/* pre: reserved. */
curve_point *curve_add(curve *c);
void curve_free(curve *c);

/* Mean of the last `count` losses, or of as many as there are; NaN without any. */
double curve_recent(const curve *c, size_t count);

/* step,loss,held_out_loss,rate,gradient_norm; numbers read back as the same. */
bool curve_write(const curve *c, const char *path);

/* Draws the losses with letters, o being those of the text held out. */
void curve_draw(const curve *c, FILE *out);

#endif
