#include "history.h"

#include <math.h>
#include <stdlib.h>

#include "../output.h"

/* Memory for at least `count` items of `size` bytes; NULL leaves the old as it was. */
static void *grow(void *items, size_t count, size_t size, size_t *capacity) {
  if (count <= *capacity) return items;
  size_t wanted = count > 2 * *capacity ? count : 2 * *capacity;
  void *more = reallocarray(items, wanted, size);
  if (more) *capacity = wanted;
  return more;
}

bool history_reserve(history *h, size_t count) {
  float *loss = grow(h->loss, h->steps + count, sizeof *loss, &h->loss_capacity);
  if (loss) h->loss = loss;
  return loss;
}

float *history_extend(history *h, size_t count) {
  float *fresh = h->loss + h->steps;
  h->steps += count;
  return fresh;
}

bool history_add_test(history *h, double accuracy) {
  history_test *test = grow(h->test, h->tests + 1, sizeof *test, &h->test_capacity);
  if (!test) return false;
  h->test = test;
  h->test[h->tests++] = (history_test){.step = h->steps, .accuracy = accuracy};
  return true;
}

double history_recent_loss(const history *h, size_t count) {
  double sum = 0;
  if (count > h->steps) count = h->steps;
  for (size_t i = h->steps - count; i < h->steps; i++) sum += (double)h->loss[i];
  return count ? sum / (double)count : NAN;
}

bool history_write_losses(const history *h, const char *path) {
  output o;
  if (!output_open(&o, path)) return false;
  for (size_t i = 0; i < h->steps; i++) fprintf(o.file, "%.9g\n", (double)h->loss[i]);
  return output_commit(&o);
}

void history_free(history *h) {
  free(h->loss);
  free(h->test);
  *h = (history){0};
}
