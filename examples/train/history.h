/* What a run of training measured, on the host: the loss of every step and the
 * accuracy of every test. */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct history_test {
  size_t step;     /* losses recorded before it */
  double accuracy; /* 0..1 */
} history_test;

typedef struct history {
  float *loss;
  size_t steps, loss_capacity;
  history_test *test;
  size_t tests, test_capacity;
} history;

/* Makes room for `count` losses more; false: no memory. */
bool history_reserve(history *h, size_t count);

/* `count` losses more, to be filled. pre: reserved. */
float *history_extend(history *h, size_t count);

bool history_add_test(history *h, double accuracy);

/* Mean of the last `count` losses, or of as many as there are; NaN without any. */
double history_recent_loss(const history *h, size_t count);

/* Writes the losses, one a line, in a form that reads back as the same float. */
bool history_write_losses(const history *h, const char *path);

void history_free(history *h);

#endif
