#include "curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"

bool curve_reserve(curve *c, size_t count) {
  if (count <= c->capacity) return true;
  curve_point *more = reallocarray(c->points, count, sizeof *more);
  if (!more) return false;
  c->points = more;
  c->capacity = count;
  return true;
}

curve_point *curve_add(curve *c) { return &c->points[c->count++]; }

void curve_free(curve *c) {
  free(c->points);
  *c = (curve){0};
}

double curve_recent(const curve *c, size_t count) {
  double sum = 0;
  if (count > c->count) count = c->count;
  for (size_t i = c->count - count; i < c->count; i++) sum += (double)c->points[i].loss;
  return count ? sum / (double)count : NAN;
}

bool curve_write(const curve *c, const char *path) {
  output o;
  if (!output_open(&o, path)) return false;
  fputs("step,loss,held_out_loss,rate,gradient_norm\n", o.file);
  for (size_t i = 0; i < c->count; i++) {
    const curve_point *p = &c->points[i];
    fprintf(o.file, "%lld,%.9g,", (long long)c->first + (long long)i, (double)p->loss);
    if (!isnan(p->held_out)) fprintf(o.file, "%.9g", p->held_out);
    fprintf(o.file, ",%.9g,%.9g\n", p->rate, (double)p->norm);
  }
  return output_commit(&o);
}

/* -------------------------------------------------------------------- drawing --- */

enum { ROWS = 12, COLUMNS = 64 };

typedef struct drawing {
  double low, high;
  char cells[ROWS][COLUMNS + 1];
} drawing;

static void mark(drawing *d, size_t column, double loss, char sign) {
  if (!isfinite(loss)) return;
  double share = (loss - d->low) / (d->high - d->low);
  int row = (int)lround((1 - share) * (ROWS - 1));
  d->cells[row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row][column] = sign;
}

/* The mean of the losses that share a column. */
static double column_mean(const curve *c, size_t column, size_t columns) {
  size_t begin = column * c->count / columns, end = (column + 1) * c->count / columns;
  double sum = 0;
  for (size_t i = begin; i < end; i++) sum += (double)c->points[i].loss;
  return sum / (double)(end - begin);
}

static void find_range(const curve *c, drawing *d) {
  d->low = INFINITY;
  d->high = -INFINITY;
  for (size_t i = 0; i < c->count; i++) {
    const double both[] = {(double)c->points[i].loss, c->points[i].held_out};
    for (int j = 0; j < 2; j++)
      if (isfinite(both[j])) d->low = fmin(d->low, both[j]), d->high = fmax(d->high, both[j]);
  }
  if (d->high - d->low < 1e-3) d->high = d->low + 1e-3;
}

void curve_draw(const curve *c, FILE *out) {
  drawing d;
  size_t columns = c->count < COLUMNS ? c->count : COLUMNS;
  find_range(c, &d);
  if (c->count < 2 || !isfinite(d.low)) return;
  for (int row = 0; row < ROWS; row++) {
    memset(d.cells[row], ' ', columns);
    d.cells[row][columns] = 0;
  }
  for (size_t i = 0; i < columns; i++) mark(&d, i, column_mean(c, i, columns), '*');
  for (size_t i = 0; i < c->count; i++)
    mark(&d, i * columns / c->count, c->points[i].held_out, 'o');
  for (int row = 0; row < ROWS; row++)
    fprintf(out, "%7.3f |%s\n", d.high - (d.high - d.low) * row / (ROWS - 1), d.cells[row]);
  fprintf(out, "        +");
  for (size_t i = 0; i < columns; i++) fputc('-', out);
  fprintf(out, "\n         steps %lld to %lld, * loss, o loss of the text held out\n",
          (long long)c->first, (long long)c->first + (long long)c->count - 1);
}
