/*
 * Names the types of files by what is in them, as Magika does.
 *
 *     file_type FOLDER FILE...
 *
 * FOLDER has model.onnx and config.min.json: magika/models/standard_v3_3 in the package magika. The
 * model reads the first and the last 1,024 bytes, white space at the ends left out and 256 where a
 * file has no more; all files go through it at once.
 */
#include <ctype.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"
#include "models.h"

enum { PART = 1024, BLOCK = 4096, PADDING = 256, LEAST = 8, MOST_LABELS = 1000 };

static size_t block_read(FILE *file, const char *path, long from, unsigned char *block) {
  if (fseek(file, from, SEEK_SET)) err(EXIT_FAILURE, "%s", path);
  size_t count = fread(block, 1, BLOCK, file);
  if (ferror(file)) err(EXIT_FAILURE, "%s", path);
  return count;
}

/* The 2,048 numbers of a file; false: it has too few bytes to judge. */
static bool features(const char *path, int32_t *numbers) {
  unsigned char block[BLOCK];
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) err(EXIT_FAILURE, "%s", path);
  long size = ftell(file);
  size_t count = block_read(file, path, 0, block), first = 0;
  while (first < count && isspace(block[first])) first++;
  for (size_t i = 0; i < PART; i++) numbers[i] = first + i < count ? block[first + i] : PADDING;
  count = block_read(file, path, size > BLOCK ? size - BLOCK : 0, block);
  while (count && isspace(block[count - 1])) count--;
  for (size_t i = 0; i < PART; i++)
    numbers[2 * PART - 1 - i] = i < count ? block[count - 1 - i] : PADDING;
  fclose(file);
  return numbers[LEAST - 1] != PADDING;
}

/* The names of the model's classes; how many there are. */
static int64_t labels_read(const char *folder, char (*labels)[64]) {
  char path[4096];
  int64_t count = 0;
  snprintf(path, sizeof path, "%s/config.min.json", folder);
  char *text = text_read(path);
  const char *at = json_value(text, "target_labels_space");
  while (at && *at != ']' && count < MOST_LABELS && (at = json_string(at, labels[count], 64)))
    count++;
  free(text);
  if (!count) errx(EXIT_FAILURE, "%s has no target_labels_space", path);
  return count;
}

int main(int argc, char **argv) {
  if (argc < 3) return fputs("usage: file_type FOLDER FILE...\n", stderr), 2;
  static char labels[MOST_LABELS][64];
  int64_t count = argc - 2, classes = labels_read(argv[1], labels);
  int32_t *numbers = memory((size_t)count * 2 * PART, sizeof *numbers);
  bool *enough = memory((size_t)count, sizeof *enough);
  for (int64_t i = 0; i < count; i++) enough[i] = features(argv[2 + i], numbers + i * 2 * PART);

  tn_runtime *runtime = runtime_open();
  tn_onnx *model = model_open(runtime, argv[1], "model.onnx");
  tn_tensor *in = tensor_make(runtime, TN_I32, 2, (int64_t[]){count, 2 * PART}, numbers);
  model_output out;
  model_run(model, 1, &in, 1, &out);
  if (out.rank != 2 || out.shape[1] != classes)
    errx(EXIT_FAILURE, "the model does not have the %lld classes of its list", (long long)classes);
  for (int64_t i = 0; i < count; i++) {
    const float *scores = out.numbers + i * classes;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++)
      if (scores[k] > scores[best]) best = k;
    if (enough[i])
      printf("%s: %s, %.3f\n", argv[2 + i], labels[best], (double)scores[best]);
    else
      printf("%s: too short to say\n", argv[2 + i]);
  }
  free(out.numbers), free(numbers), free(enough);
  tn_onnx_close(model);
  tn_runtime_close(runtime);
  return output_finish(EXIT_SUCCESS);
}
