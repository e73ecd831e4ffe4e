/*
 * A model that others trained, on the pictures that it was trained for: mnist_8 of ONNX's model zoo
 * scores 98.91 % on MNIST's 10,000 test pictures, fed as floats from 0 to 255.
 *
 *   mnist MODEL FOLDER [DEVICE]
 * FOLDER has t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz. Exit status 77: not there.
 * AddressSanitizer sees in the last pictures what it sees in the first: there the first 500 are
 * shown, unless TENON_TEST_ALL=1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tenon/onnx.h"

enum {
  PICTURES = 10000,
  RIGHT = 9891,
  SAMPLE = 500,
  SAMPLE_RIGHT = 493,
  SIDE = 28,
  PIXELS = SIDE * SIDE
};

static unsigned char images[PICTURES * PIXELS], labels[PICTURES];

/* The bytes behind the header of an IDX file. */
static int idx_read(const char *folder, const char *name, unsigned head, unsigned char *to,
                    unsigned bytes) {
  char path[1200];
  unsigned char header[16];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  gzFile file = gzopen(path, "rb");
  int whole =
      file && gzread(file, header, head) == (int)head && gzread(file, to, bytes) == (int)bytes;
  if (file) gzclose(file);
  return whole;
}

static int best_of(const float *scores) {
  int best = 0;
  for (int i = 1; i < 10; i++)
    if (scores[i] > scores[best]) best = i;
  return best;
}

static int pictures_shown(void) {
#ifdef __SANITIZE_ADDRESS__
  const char *all = getenv("TENON_TEST_ALL");
  if (!all || strcmp(all, "1")) return SAMPLE;
#endif
  return PICTURES;
}

/* How many of so many pictures the model names rightly; -1 with a message where it fails. */
static int count_right(tn_onnx *model, tn_device *device, int shown) {
  int right = 0;
  float pixels[PIXELS] = {0}, scores[10];
  tn_tensor *x = NULL, *y = NULL;
  if (tn_tensor_from_host(device, TN_F32, 4, (int64_t[]){1, 1, SIDE, SIDE}, pixels, &x)) return -1;
  for (int i = 0; i < shown && right >= 0; i++) {
    for (int k = 0; k < PIXELS; k++) pixels[k] = images[i * PIXELS + k];
    if (tn_tensor_write(NULL, x, pixels, sizeof pixels) ||
        tn_onnx_run(model, NULL, 1, (const tn_tensor *[]){x}, 1, &y) ||
        tn_tensor_to_host(y, scores, sizeof scores)) {
      fprintf(stderr, "%s; %s\n", tn_onnx_last_error(), tn_last_error());
      right = -1;
    } else {
      right += best_of(scores) == labels[i];
    }
  }
  tn_tensor_release(x);
  tn_tensor_release(y);
  return right;
}

int main(int argc, char **argv) {
  tn_runtime *runtime;
  tn_onnx *model;
  if (argc < 3) return fprintf(stderr, "usage: mnist MODEL FOLDER [DEVICE]\n"), 2;
  FILE *file = fopen(argv[1], "rb");
  if (!file || !idx_read(argv[2], "t10k-images-idx3-ubyte.gz", 16, images, sizeof images) ||
      !idx_read(argv[2], "t10k-labels-idx1-ubyte.gz", 8, labels, sizeof labels)) {
    if (file) fclose(file);
    return puts("skipped: mnist_8 or MNIST's test set is not here"), 77;
  }
  fclose(file);
  const tn_runtime_options options = {.struct_size = sizeof options,
                                      .device = argc > 3 ? argv[3] : NULL};
  if (tn_runtime_open(&options, &runtime)) return fprintf(stderr, "%s\n", tn_last_error()), 1;
  if (tn_onnx_load(runtime, NULL, argv[1], NULL, &model))
    return fprintf(stderr, "%s\n", tn_onnx_last_error()), 1;
  const int shown = pictures_shown();
  int right = count_right(model, tn_runtime_device(runtime), shown);
  printf("%d of %d pictures named rightly\n", right, shown);
  tn_onnx_close(model);
  tn_runtime_close(runtime);
  return abs(right - (shown == SAMPLE ? SAMPLE_RIGHT : RIGHT)) > 2;
}
