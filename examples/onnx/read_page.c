/*
 * Reads the text of a picture, as RapidOCR does, by three models of PaddleOCR's.
 *
 *     read_page FOLDER PAGE.png [DRAWN.png]
 *
 * FOLDER is rapidocr_onnxruntime/models of the package rapidocr-onnxruntime. One model says of each
 * pixel how likely it is text, whose regions become lines; one whether a line stands on its head;
 * one reads it: for each few columns the likeliest of 6,625 signs, of which those that follow each
 * other unchanged are one, and those that are none go (CTC). Lines are taken to be level.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"
#include "models.h"
#include "tools/picture.h"

enum { LEAST_SIDE = 736, LINE_HEIGHT = 48, TURN_WIDTH = 192, MOST_WIDTH = 4096 };
static const double LEAST_TEXT = 0.3, LEAST_LINE = 0.5, LEAST_TURNED = 0.5, LEAST_READ = 0.5;
static const double GROWTH = 1.6; /* text's middle is found, its height is to be had */

static const picture_norm norm = {
    .scale = 1.0 / 255, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}, .bgr = true};

typedef struct reader {
  tn_runtime *runtime;
  tn_onnx *detect, *turn, *read;
  char *dictionary, **signs; /* what the numbers of the reading model mean; 0: nothing */
  int64_t num_signs;
} reader;

/* The dictionary is in the model itself: a sign in each line. The space comes behind them. */
static void signs_take(reader *r) {
  const char *dictionary = tn_onnx_metadata(r->read, "character");
  if (!dictionary) errx(EXIT_FAILURE, "the model that reads has no dictionary");
  r->dictionary = memory(1, strlen(dictionary));
  strcpy(r->dictionary, dictionary);
  r->signs = memory(strlen(dictionary) + 3, sizeof *r->signs);
  static char nothing[] = "", space[] = " ";
  r->signs[r->num_signs++] = nothing;
  for (char *at = r->dictionary, *end; *at; at = end) {
    r->signs[r->num_signs++] = at;
    end = at + strcspn(at, "\n");
    if (*end) *end++ = 0;
  }
  r->signs[r->num_signs++] = space;
}

static reader reader_open(const char *folder) {
  reader r = {.runtime = runtime_open()};
  r.detect = model_open(r.runtime, folder, "ch_PP-OCRv4_det_infer.onnx");
  r.turn = model_open(r.runtime, folder, "ch_ppocr_mobile_v2.0_cls_infer.onnx");
  r.read = model_open(r.runtime, folder, "ch_PP-OCRv4_rec_infer.onnx");
  signs_take(&r);
  return r;
}

static void reader_close(reader *r) {
  tn_onnx_close(r->detect), tn_onnx_close(r->turn), tn_onnx_close(r->read);
  tn_runtime_close(r->runtime);
  free(r->signs), free(r->dictionary);
}

/* A box of the picture through a model that gives floats: width pixels of it, and nothing up to
 * `room`. A box from right to left and from bottom to top stands on its head. */
static model_output look(reader *r, tn_onnx *model, const picture *p, picture_box box, int width,
                         int room, int height) {
  float *planes = memory(3 * (size_t)room * (size_t)height, sizeof *planes);
  picture_planes(p, box, &norm, width, height, room, planes);
  tn_tensor *in = tensor_make(r->runtime, TN_F32, 4, (int64_t[]){1, 3, height, room}, planes);
  model_output out;
  model_run(model, 1, &in, 1, &out);
  free(planes);
  return out;
}

/* Above before below; on one line, left before right. */
static int by_place(const void *a, const void *b) {
  const picture_box *x = a, *y = b;
  double middle = (x->y0 + x->y1) / 2;
  if (middle > y->y0 && middle < y->y1) return (x->x0 > y->x0) - (x->x0 < y->x0);
  return (x->y0 > y->y0) - (x->y0 < y->y0);
}

/* The boxes of lines in pixels, to be freed. */
static picture_box *find_lines(reader *r, const picture *p, size_t *count) {
  double shorter = fmin(p->width, p->height), scale = fmax(1, LEAST_SIDE / shorter);
  int width = (int)fmax(1, round(p->width * scale / 32)) * 32;
  int height = (int)fmax(1, round(p->height * scale / 32)) * 32;
  model_output text = look(r, r->detect, p, picture_all(p), width, width, height);
  double *map = memory((size_t)width * (size_t)height, sizeof *map);
  for (size_t i = 0; i < (size_t)width * (size_t)height; i++) map[i] = (double)text.numbers[i];
  size_t found = 0;
  picture_region *regions = picture_regions(map, width, height, LEAST_TEXT, &found);
  if (!regions) errx(EXIT_FAILURE, "not enough memory");
  picture_box *lines = memory(found, sizeof *lines);
  *count = 0;
  for (size_t i = 0; i < found; i++) {
    picture_box b = regions[i].box;
    double w = b.x1 - b.x0, h = b.y1 - b.y0, more = w * h * GROWTH / (2 * (w + h));
    if (w < 3 || h < 3 || regions[i].mean < LEAST_LINE) continue;
    lines[(*count)++] = (picture_box){fmax(0, (b.x0 - more) * p->width / width),
                                      fmax(0, (b.y0 - more) * p->height / height),
                                      fmin(p->width, (b.x1 + more) * p->width / width),
                                      fmin(p->height, (b.y1 + more) * p->height / height)};
  }
  qsort(lines, *count, sizeof *lines, by_place);
  free(regions), free(map), free(text.numbers);
  return lines;
}

/* Whether a line seems to stand on its head. */
static bool is_turned(reader *r, const picture *p, picture_box b) {
  int width = (int)fmin(TURN_WIDTH, ceil(LINE_HEIGHT * (b.x1 - b.x0) / (b.y1 - b.y0)));
  model_output turned = look(r, r->turn, p, b, width, TURN_WIDTH, LINE_HEIGHT);
  bool is = (double)turned.numbers[1] > LEAST_TURNED;
  free(turned.numbers);
  return is;
}

/* The text of a line, and how sure its signs are in the mean. */
static double read_line(reader *r, const picture *p, picture_box b, char *text, size_t room) {
  int width = (int)fmin(MOST_WIDTH, ceil(LINE_HEIGHT * fabs(b.x1 - b.x0) / fabs(b.y1 - b.y0)));
  /* Lines of about one length share a program. */
  int rounded = width < 320 ? 320 : (width + 159) / 160 * 160;
  model_output out = look(r, r->read, p, b, width, rounded, LINE_HEIGHT);
  if (out.rank != 3 || out.shape[2] != r->num_signs)
    errx(EXIT_FAILURE, "the dictionary has %lld signs", (long long)r->num_signs);
  int64_t before = 0, count = 0;
  double sure = 0;
  *text = 0;
  for (int64_t t = 0; t < out.shape[1]; t++) {
    const float *likely = out.numbers + t * r->num_signs;
    int64_t best = 0;
    for (int64_t k = 1; k < r->num_signs; k++)
      if (likely[k] > likely[best]) best = k;
    if (best && best != before) {
      if (strlen(text) + strlen(r->signs[best]) < room) strcat(text, r->signs[best]);
      sure += (double)likely[best];
      count++;
    }
    before = best;
  }
  free(out.numbers);
  return count ? sure / (double)count : 0;
}

static void print_line(reader *r, const picture *p, picture_box line) {
  char text[4096], turned[4096];
  double sure = read_line(r, p, line, text, sizeof text);
  /* Or seems to be: the surer reading is right. */
  if (sure < LEAST_READ || is_turned(r, p, line)) {
    picture_box other = {line.x1, line.y1, line.x0, line.y0};
    double sure_turned = read_line(r, p, other, turned, sizeof turned);
    if (sure_turned > sure) sure = sure_turned, strcpy(text, turned);
  }
  if (sure >= LEAST_READ) printf("%.2f  %s\n", sure, text);
}

int main(int argc, char **argv) {
  picture page;
  size_t count;
  const char *why = "";
  if (argc != 3 && argc != 4)
    return fputs("usage: read_page FOLDER PAGE.png [DRAWN.png]\n", stderr), 2;
  if (!picture_read(argv[2], &page)) errx(EXIT_FAILURE, "%s is no PNG or JPEG", argv[2]);
  reader r = reader_open(argv[1]);
  picture_box *lines = find_lines(&r, &page, &count);
  for (size_t i = 0; i < count; i++) print_line(&r, &page, lines[i]);
  for (size_t i = 0; i < count; i++) picture_frame(&page, lines[i], (picture_colour){200, 0, 60});
  if (argc == 4 && !picture_write(&page, argv[3], &why)) errx(EXIT_FAILURE, "%s: %s", argv[3], why);
  free(lines), free(page.pixels);
  reader_close(&r);
  return output_finish(EXIT_SUCCESS);
}
