/*
 * tenon run --draw: boxes, masks and maps over the picture that went in, or the picture that came
 * out. Outputs are looked at as they usually are: a map is one plane, [1, 1, h, w] or [1, h, w, 1];
 * boxes are rows of x0, y0, x1, y1 in pixels of the model's input, a score and a class behind them.
 */
#include "run_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"
#include "run.h"

static const char *const kind_names[] = {"", "boxes", "mask", "heat", "picture"};

bool draw_read(const char *text, draw_wishes *to) {
  size_t length = strcspn(text, "=");
  const char *dot = strrchr(text, '.');
  to->kind = DRAW_NOTHING;
  for (int k = DRAW_BOXES; k <= DRAW_PICTURE; k++)
    if (strlen(kind_names[k]) == length && !strncmp(text, kind_names[k], length))
      to->kind = (draw_kind)k;
  if (to->kind && text[length] && dot > text + length + 1 &&
      (!strcmp(dot, ".png") || !strcmp(dot, ".PNG"))) {
    to->path = text + length + 1;
    return true;
  }
  fprintf(stderr,
          "tenon run: --draw takes boxes, mask, heat or picture, '=' and a file that ends in .png, "
          "not %s\n",
          plain(text));
  return false;
}

const char *draw_misfit(const draw_wishes *w) {
  if (w->has_threshold && w->kind != DRAW_BOXES && w->kind != DRAW_MASK)
    return "--threshold is for --draw boxes=FILE.png and --draw mask=FILE.png";
  if (w->output && !w->kind) return "--draw-output names the output of --draw, which is not there";
#ifndef TENON_HAVE_PNG
  if (w->kind) return "--draw writes PNG, and this tenon was built without libpng";
#endif
  return NULL;
}

/* ------------------------------------------------------ what an output is --- */

/* Planes of an output: number (c, y, x) is at c by_c + y by_y + x by_x. */
typedef struct planes {
  const double *numbers;
  int64_t channels, height, width, by_c, by_y, by_x;
} planes;

/* [.., c, h, w] or [.., h, w, c] of one picture. pre: wanted channels, 0 for any. */
static bool planes_of(const tn_tensor *t, bool any_channels, planes *p) {
  int32_t rank = tn_tensor_rank(t);
  const int64_t *shape = tn_tensor_shape(t);
  int64_t axes[3] = {1, 1, 1}; /* c, h, w */
  if (rank < 2 || (rank == 4 && shape[0] != 1) || rank > 4) return false;
  for (int32_t i = 0; i < 3 && i < rank; i++) axes[2 - i] = shape[rank - 1 - i];
  bool last = rank > 2 && (axes[2] == 1 || axes[2] == 3) && axes[0] != 1 && axes[0] != 3;
  if (last)
    *p = (planes){NULL, axes[2], axes[0], axes[1], 1, axes[1] * axes[2], axes[2]};
  else
    *p = (planes){NULL, axes[0], axes[1], axes[2], axes[1] * axes[2], axes[2], 1};
  return (any_channels || p->channels == 1) && p->height > 0 && p->width > 0 && p->channels > 0 &&
         p->height <= PICTURE_WIDEST && p->width <= PICTURE_WIDEST;
}

static bool is_rows(const tn_tensor *t) {
  int32_t rank = tn_tensor_rank(t);
  int64_t last = rank ? tn_tensor_shape(t)[rank - 1] : 0;
  return (rank == 2 || (rank == 3 && tn_tensor_shape(t)[0] == 1)) && last >= 4 && last <= 7;
}

static bool fits(draw_kind kind, const tn_tensor *t) {
  planes p;
  if (!t || !(TN_SET(tn_tensor_dtype(t)) & (TN_SET_FLOAT | TN_SET_INT | TN_SET(TN_BOOL))))
    return false;
  if (kind == DRAW_BOXES) return is_rows(t) || planes_of(t, false, &p);
  if (kind == DRAW_PICTURE) return planes_of(t, true, &p) && (p.channels == 1 || p.channels == 3);
  return planes_of(t, kind == DRAW_MASK, &p);
}

static bool say(const char *what, const char *why) {
  fprintf(stderr, "tenon run: %s%s\n", plain(what), why);
  return false;
}

static bool no_output(const draw_wishes *w, const draw_source *s) {
  static const char *const wanted[] = {
      "", "rows of x0, y0, x1, y1, or one plane of numbers", "planes of numbers, [1, c, h, w]",
      "one plane of numbers, [1, 1, h, w]", "a picture of one or three channels"};
  tn_onnx_value v = {.struct_size = sizeof v};
  fprintf(stderr, "tenon run: --draw %s draws %s; ", kind_names[w->kind], wanted[w->kind]);
  if (w->output)
    fprintf(stderr, "output %s is not that, or not there. Outputs:", plain(w->output));
  else
    fputs("no output is that. Outputs:", stderr);
  for (size_t i = 0; i < s->num_out && !tn_onnx_output_at(s->model, i, &v); i++) {
    fprintf(stderr, "%s %s [", i ? "," : "", plain(v.name));
    for (int32_t d = 0; s->out[i] && d < tn_tensor_rank(s->out[i]); d++)
      fprintf(stderr, d ? ", %lld" : "%lld", (long long)tn_tensor_shape(s->out[i])[d]);
    fputc(']', stderr);
  }
  fputc('\n', stderr);
  return false;
}

static const tn_tensor *find_output(const draw_wishes *w, const draw_source *s, const char **name) {
  tn_onnx_value v = {.struct_size = sizeof v};
  for (size_t i = 0; i < s->num_out && !tn_onnx_output_at(s->model, i, &v); i++) {
    *name = v.name;
    /* What looks like boxes is a map only for those who say so. */
    bool asked = w->output ? !strcmp(w->output, v.name)
                           : w->kind == DRAW_BOXES || !s->out[i] || !is_rows(s->out[i]);
    if (asked && fits(w->kind, s->out[i])) return s->out[i];
  }
  return no_output(w, s), NULL;
}

/* -------------------------------------------------------------- colours --- */

/* Far apart, one after the other. */
static picture_colour colour_of_class(int64_t k) {
  static const picture_colour list[] = {{230, 25, 75},  {60, 180, 75},  {0, 130, 200},
                                        {245, 130, 48}, {145, 30, 180}, {70, 240, 240},
                                        {240, 50, 230}, {255, 225, 25}};
  return list[(size_t)k % (sizeof list / sizeof *list)];
}

/* Dark blue, violet, red, orange, yellow for 0 to 1. */
static picture_colour colour_of_heat(double v) {
  static const double stops[][3] = {
      {0, 0, 60}, {90, 0, 140}, {220, 40, 70}, {250, 150, 20}, {255, 255, 140}};
  double at = (v < 0 ? 0 : v > 1 ? 1 : v) * 4;
  int low = at < 3 ? (int)at : 3;
  unsigned char rgb[3];
  for (int c = 0; c < 3; c++)
    rgb[c] =
        (unsigned char)(stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]) + 0.5);
  return (picture_colour){rgb[0], rgb[1], rgb[2]};
}

/* --------------------------------------------------------------- drawing --- */

static double plane_at(const planes *m, int64_t c, int64_t y, int64_t x) {
  y = y < 0 ? 0 : y >= m->height ? m->height - 1 : y;
  x = x < 0 ? 0 : x >= m->width ? m->width - 1 : x;
  return m->numbers[c * m->by_c + y * m->by_y + x * m->by_x];
}

/* The first plane's number for a pixel of the picture, between those of the places around it. */
static double plane_for(const planes *m, const picture *p, int x, int y) {
  double mx = (x + 0.5) * (double)m->width / p->width - 0.5;
  double my = (y + 0.5) * (double)m->height / p->height - 0.5;
  int64_t x0 = (int64_t)floor(mx), y0 = (int64_t)floor(my);
  double fx = mx - (double)x0, fy = my - (double)y0;
  return (plane_at(m, 0, y0, x0) * (1 - fx) + plane_at(m, 0, y0, x0 + 1) * fx) * (1 - fy) +
         (plane_at(m, 0, y0 + 1, x0) * (1 - fx) + plane_at(m, 0, y0 + 1, x0 + 1) * fx) * fy;
}

static int64_t class_for(const planes *m, const picture *p, int x, int y) {
  int64_t at_x = x * m->width / p->width, at_y = y * m->height / p->height, best = 0;
  for (int64_t c = 1; c < m->channels; c++)
    if (plane_at(m, c, at_y, at_x) > plane_at(m, best, at_y, at_x)) best = c;
  return best;
}

/* Class 0 of several is the background. */
static void draw_mask(picture *p, const planes *m, double threshold) {
  int64_t covered = 0;
  for (int y = 0; y < p->height; y++)
    for (int x = 0; x < p->width; x++) {
      int64_t k = m->channels > 1 ? class_for(m, p, x, y) : plane_for(m, p, x, y) > threshold;
      if (k) picture_mix(p, x, y, colour_of_class(k - 1), 0.5), covered++;
    }
  printf("mask: %.1f %% of the picture\n", 100.0 * (double)covered / p->width / p->height);
}

static void draw_heat(picture *p, const planes *m) {
  double low = (double)INFINITY, high = -(double)INFINITY;
  int64_t place = -1;
  for (int64_t i = 0; i < m->height * m->width; i++) {
    if (!isfinite(m->numbers[i])) continue;
    if (m->numbers[i] < low) low = m->numbers[i];
    if (m->numbers[i] > high) high = m->numbers[i], place = i;
  }
  for (int y = 0; y < p->height; y++)
    for (int x = 0; x < p->width; x++) {
      double v = plane_for(m, p, x, y);
      if (isfinite(v))
        picture_mix(p, x, y, colour_of_heat(high > low ? (v - low) / (high - low) : 0), 0.65);
    }
  if (place < 0)
    puts("heat: no finite number");
  else
    printf("heat: from %.4g, dark, to %.4g, bright, at place %lld, %lld of %lld x %lld\n", low,
           high, (long long)(place % m->width), (long long)(place / m->width), (long long)m->width,
           (long long)m->height);
}

static void draw_box(picture *p, picture_box box, int64_t number, double score, int64_t kind,
                     const char *labels) {
  picture_frame(p, box, colour_of_class(kind < 0 ? 0 : kind));
  printf("box %lld: x %.0f to %.0f, y %.0f to %.0f", (long long)number, box.x0, box.x1, box.y0,
         box.y1);
  if (!isnan(score)) printf(", %.3f", score);
  if (kind >= 0) {
    printf(", class %lld", (long long)kind);
    run_print_label(labels, kind);
  }
  putchar('\n');
}

/* Rows of corners: parts of the input's sides where no corner is over 1.5, else its pixels. */
static void draw_rows(picture *p, const double *rows, int64_t count, int64_t columns,
                      const draw_source *s, double threshold) {
  const int64_t *shape = tn_tensor_shape(s->input);
  bool last = shape[3] <= 4 && shape[1] > 4;
  double wide = (double)shape[last ? 2 : 3], high = (double)shape[last ? 1 : 2], most = 0;
  int64_t number = 0;
  for (int64_t i = 0; i < count; i++)
    for (int64_t k = 0; k < 4; k++)
      if (rows[i * columns + k] > most) most = rows[i * columns + k];
  if (most <= 1.5) wide = high = 1;
  for (int64_t i = 0; i < count; i++) {
    const double *r = rows + i * columns;
    double score = columns > 4 ? r[4] : (double)NAN;
    bool sound = isfinite(r[0]) && isfinite(r[1]) && isfinite(r[2]) && isfinite(r[3]);
    if (!sound || r[2] <= r[0] || r[3] <= r[1] || score <= threshold) continue;
    picture_box box = {r[0] * p->width / wide, r[1] * p->height / high, r[2] * p->width / wide,
                       r[3] * p->height / high};
    bool has_class = columns > 5 && r[5] >= 0 && r[5] < 1e9;
    draw_box(p, box, ++number, score, has_class ? (int64_t)r[5] : -1, s->labels);
  }
  printf("%lld boxes\n", (long long)number);
}

static bool draw_regions(picture *p, const planes *m, double threshold, const draw_source *s) {
  double by_x = (double)p->width / (double)m->width, by_y = (double)p->height / (double)m->height;
  size_t count = 0;
  picture_region *regions =
      picture_regions(m->numbers, (int)m->width, (int)m->height, threshold, &count);
  if (!regions) return say("--draw boxes", ": no memory to look for boxes");
  for (size_t i = 0; i < count; i++) {
    picture_box b = regions[i].box;
    b = (picture_box){b.x0 * by_x, b.y0 * by_y, b.x1 * by_x, b.y1 * by_y};
    draw_box(p, b, (int64_t)i + 1, regions[i].mean, -1, s->labels);
  }
  printf("%zu boxes\n", count);
  free(regions);
  return true;
}

/* Back from what pictures become in models. */
static void draw_picture(picture *p, const planes *m, const picture_norm *n) {
  for (int64_t y = 0; y < m->height; y++)
    for (int64_t x = 0; x < m->width; x++)
      for (int c = 0; c < 3; c++) {
        int64_t channel = m->channels == 1 ? 0 : n->bgr ? 2 - c : c;
        double v = (plane_at(m, channel, y, x) * n->std[c] + n->mean[c]) / n->scale;
        p->pixels[3 * (y * m->width + x) + c] =
            (unsigned char)(v > 0 ? v < 255 ? v + 0.5 : 255 : 0);
      }
  printf("picture: %d x %d\n", p->width, p->height);
}

/* --------------------------------------------------------------- the whole --- */

/* What is drawn on: the picture that went in; without one, black of the map's size. */
static bool take_ground(const draw_wishes *w, const draw_source *s, const planes *m, picture *p) {
  if (w->kind != DRAW_PICTURE && s->picture)
    return picture_read(s->picture, p) || say(s->picture, ": cannot be read any more");
  if (w->kind == DRAW_BOXES)
    return say("--draw boxes", " draws on the picture that goes in: no --input is one");
  return picture_make(p, m->width, m->height) || say("--draw", ": no memory for a picture");
}

bool run_draw(const draw_wishes *w, const draw_source *s) {
  picture p = {0};
  planes m = {0};
  const char *name = "", *why = "";
  const tn_tensor *t = find_output(w, s, &name);
  if (!t) return false;
  bool rows = w->kind == DRAW_BOXES && is_rows(t);
  double *numbers = run_numbers(t), threshold = w->has_threshold ? w->threshold : 0.5;
  bool ok = numbers && (rows || planes_of(t, true, &m)) && take_ground(w, s, &m, &p);
  m.numbers = numbers;
  int64_t columns = ok && rows ? tn_tensor_shape(t)[tn_tensor_rank(t) - 1] : 1;
  if (ok)
    printf("drawn of output %s into %s: %s\n", plain(name), plain(w->path), kind_names[w->kind]);
  if (ok && rows)
    draw_rows(&p, numbers, tn_tensor_elements(t) / columns, columns, s, threshold);
  else if (ok && w->kind == DRAW_BOXES)
    ok = draw_regions(&p, &m, threshold, s);
  else if (ok && w->kind == DRAW_MASK)
    draw_mask(&p, &m, threshold);
  else if (ok && w->kind == DRAW_HEAT)
    draw_heat(&p, &m);
  else if (ok)
    draw_picture(&p, &m, s->norm);
  if (ok && !picture_write(&p, w->path, &why)) {
    fprintf(stderr, "tenon run: %s cannot be written: %s\n", plain(w->path), plain(why));
    ok = false;
  }
  free(numbers), free(p.pixels);
  return ok;
}
