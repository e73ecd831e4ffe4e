/* tenon run --draw: a picture of what an output says. */
#ifndef TENON_TOOLS_RUN_DRAW_H
#define TENON_TOOLS_RUN_DRAW_H

#include <stdbool.h>

#include "picture.h"
#include "tenon/onnx.h"

typedef enum draw_kind {
  DRAW_NOTHING,
  DRAW_BOXES,   /* rows of corners, or the places of a map that are over a threshold */
  DRAW_MASK,    /* those places, or the class of each place, in colour */
  DRAW_HEAT,    /* a map's numbers as colours */
  DRAW_PICTURE, /* the output is a picture */
} draw_kind;

typedef struct draw_wishes {
  draw_kind kind;
  const char *path, *output; /* output: its name, NULL for the first that fits */
  double threshold;
  bool has_threshold;
} draw_wishes;

/* KIND=FILE.png; false: it is not, which standard error says. */
bool draw_read(const char *text, draw_wishes *to);
/* Why these options do not go together, or NULL. */
const char *draw_misfit(const draw_wishes *wishes);

/* What a run took and gave. */
typedef struct draw_source {
  tn_onnx *model;
  tn_tensor *const *out;
  size_t num_out;
  const char *picture;    /* the file of the input that was one, NULL: none was */
  const tn_tensor *input; /* what it became */
  const picture_norm *norm;
  const char *labels;
} draw_source;

/* Draws and writes; says what is drawn, and on standard error what is wrong. */
bool run_draw(const draw_wishes *wishes, const draw_source *source);

#endif
