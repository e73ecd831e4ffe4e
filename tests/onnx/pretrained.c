/*
 * What is known of pretrained models' results, where a command line cannot ask for it:
 *
 *     pretrained orientation MODEL PAGE.png   which way up a page is, turned in four ways
 *     pretrained sentences MODEL OUTPUT       how near sentences are, by a model's hidden states
 *
 * It prints; wheels.sh judges.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/onnx/models.h"
#include "tools/picture.h"

/* The page turned by a quarter, to the left. */
static picture turned(const picture *p) {
  picture to;
  if (!picture_make(&to, p->height, p->width)) errx(EXIT_FAILURE, "not enough memory");
  for (int y = 0; y < to.height; y++)
    for (int x = 0; x < to.width; x++)
      memcpy(to.pixels + 3 * ((size_t)y * (size_t)to.width + (size_t)x),
             p->pixels + 3 * ((size_t)x * (size_t)p->width + (size_t)(p->width - 1 - y)), 3);
  return to;
}

/* The middle 224 of a picture whose shorter side becomes 256. */
static void orientation(const char *path, const char *page) {
  static const picture_norm norm = {
      .scale = 1.0 / 255, .mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}, .bgr = true};
  static float planes[3 * 224 * 224];
  tn_runtime *runtime = runtime_open();
  tn_onnx *model = model_open(runtime, path, "");
  picture p;
  if (!picture_read(page, &p)) errx(EXIT_FAILURE, "%s cannot be read", page);
  for (int turn = 0; turn < 4; turn++) {
    double half = fmin(p.width, p.height) * 224 / 256 / 2, x = p.width / 2.0, y = p.height / 2.0;
    picture_planes(&p, (picture_box){x - half, y - half, x + half, y + half}, &norm, 224, 224, 224,
                   planes);
    tn_tensor *in = tensor_make(runtime, TN_F32, 4, (int64_t[]){1, 3, 224, 224}, planes);
    model_output out;
    model_run(model, 1, &in, 1, &out);
    int best = 0;
    for (int k = 1; k < 4; k++)
      if (out.numbers[k] > out.numbers[best]) best = k;
    printf("turned %d: class %d, %.2f\n", 90 * turn, best, (double)out.numbers[best]);
    free(out.numbers);
    picture next = turned(&p);
    free(p.pixels);
    p = next;
  }
  free(p.pixels);
  tn_onnx_close(model);
  tn_runtime_close(runtime);
}

enum { SENTENCES = 3, WORDS = 10 };

/* The mean of the hidden states of a sentence's words, of length 1. */
static void embed(const float *hidden, const int64_t *mask, int64_t width, double *to) {
  double square = 0;
  for (int64_t k = 0; k < width; k++) {
    to[k] = 0;
    for (int64_t t = 0; t < WORDS; t++)
      if (mask[t]) to[k] += (double)hidden[t * width + k];
    square += to[k] * to[k];
  }
  for (int64_t k = 0; k < width; k++) to[k] /= sqrt(square);
}

/* "A man is playing a guitar.", "Someone plays an instrument.", "The stock market fell yesterday.":
 * as BERT's tokenizer without capitals has them, padded and masked. */
static void sentences(const char *path, const char *output) {
  static const int64_t ids[SENTENCES][WORDS] = {
      {101, 1037, 2158, 2003, 2652, 1037, 2858, 1012, 102},
      {101, 2619, 3248, 2019, 6602, 1012, 102},
      {101, 1996, 4518, 3006, 3062, 7483, 1012, 102}};
  static const int64_t none[SENTENCES][WORDS], shape[] = {SENTENCES, WORDS};
  int64_t mask[SENTENCES][WORDS];
  static double to[SENTENCES][4096];
  tn_tensor *in[3], *out[8] = {0}, *hidden = NULL;
  tn_onnx_value v = {.struct_size = sizeof v};
  tn_runtime *runtime = runtime_open();
  tn_onnx *model = model_open(runtime, path, "");
  for (int i = 0; i < SENTENCES; i++)
    for (int t = 0; t < WORDS; t++) mask[i][t] = ids[i][t] != 0;
  size_t num_in = tn_onnx_num_inputs(model), num_out = tn_onnx_num_outputs(model);
  const void *const numbers[] = {ids, mask, none};
  for (size_t i = 0; i < num_in; i++) in[i] = tensor_make(runtime, TN_I64, 2, shape, numbers[i]);
  if (tn_onnx_run(model, NULL, num_in, (const tn_tensor *const *)in, num_out, out))
    errx(EXIT_FAILURE, "%s", tn_onnx_last_error());
  for (size_t i = 0; i < num_out && !tn_onnx_output_at(model, i, &v); i++)
    if (!strcmp(v.name, output)) hidden = out[i];
  if (!hidden || tn_tensor_rank(hidden) != 3) errx(EXIT_FAILURE, "no hidden states %s", output);
  int64_t width = tn_tensor_shape(hidden)[2];
  float *states = memory(1, tn_tensor_bytes(hidden));
  if (tn_tensor_to_host(hidden, states, tn_tensor_bytes(hidden)))
    errx(EXIT_FAILURE, "%s", tn_last_error());
  for (int i = 0; i < SENTENCES; i++) embed(states + i * WORDS * width, mask[i], width, to[i]);
  for (int i = 1; i < SENTENCES; i++) {
    double cosine = 0;
    for (int64_t k = 0; k < width; k++) cosine += to[0][k] * to[i][k];
    printf("sentences 0 and %d: %.3f\n", i, cosine);
  }
  free(states);
  for (size_t i = 0; i < num_in; i++) tn_tensor_release(in[i]);
  for (size_t i = 0; i < num_out; i++) tn_tensor_release(out[i]);
  tn_onnx_close(model);
  tn_runtime_close(runtime);
}

int main(int argc, char **argv) {
  if (argc != 4) return fputs("usage: pretrained WHAT MODEL FILE_OR_OUTPUT\n", stderr), 2;
  if (!strcmp(argv[1], "orientation"))
    orientation(argv[2], argv[3]);
  else
    sentences(argv[2], argv[3]);
}
