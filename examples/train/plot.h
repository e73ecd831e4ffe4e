/* Draws a run of training as one self-contained SVG: loss of every step and smoothed,
 * on a logarithmic scale to the left, and test accuracy, to the right. */
#ifndef TRAIN_PLOT_H
#define TRAIN_PLOT_H

#include "history.h"

/* False after telling why not on standard error. */
bool plot_write(const history *h, const char *title, const char *subtitle, const char *path);

#endif
