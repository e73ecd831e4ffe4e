/*
 * Makes what tests/examples.sh feeds to the examples, and checks what they made of it.
 *
 *     example_data idx DIR TRAIN TEST     an MNIST-like set with so many images
 *     example_data png FILE KIND W H      a picture: gray, ga, rgb, rgba, gray16, palette
 *     example_data sharpened IN OUT       whether OUT is IN sharpened, byte for byte
 */
#include <err.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint32_t random_state = 12345;

/* Numerical Recipes' linear congruence: any numbers will do here. */
static uint8_t random_byte(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (uint8_t)(random_state >> 24);
}

/* ---------------------------------------------------------------------- idx --- */

static gzFile open_idx(const char *folder, const char *name, int dims, uint32_t count) {
  char path[4096];
  uint32_t head[4] = {0x0800u + (uint32_t)dims, count, 28, 28};
  snprintf(path, sizeof path, "%s/%s.gz", folder, name);
  gzFile gz = gzopen(path, "wb1");
  if (!gz) errx(1, "cannot write %s", path);
  for (int i = 0; i < dims + 1; i++) {
    uint8_t big[4] = {(uint8_t)(head[i] >> 24), (uint8_t)(head[i] >> 16), (uint8_t)(head[i] >> 8),
                      (uint8_t)head[i]};
    gzwrite(gz, big, 4);
  }
  return gz;
}

/* Class c is a bright band of rows from 2 c on, in noise. */
static void write_split(const char *folder, const char *split, uint32_t count) {
  char name[64];
  snprintf(name, sizeof name, "%s-images-idx3-ubyte", split);
  gzFile images = open_idx(folder, name, 3, count);
  snprintf(name, sizeof name, "%s-labels-idx1-ubyte", split);
  gzFile labels = open_idx(folder, name, 1, count);
  for (uint32_t i = 0; i < count; i++) {
    uint8_t label = random_byte() % 10, image[28][28];
    for (int y = 0; y < 28; y++)
      for (int x = 0; x < 28; x++)
        image[y][x] = (uint8_t)(random_byte() / 2 + (y / 2 - 2 == label ? 127 : 0));
    gzwrite(images, image, sizeof image);
    gzwrite(labels, &label, 1);
  }
  if (gzclose(images) != Z_OK || gzclose(labels) != Z_OK) errx(1, "cannot write to %s", folder);
}

/* ---------------------------------------------------------------------- png --- */

static png_uint_32 format_of(const char *kind) {
  static const struct {
    const char *kind;
    png_uint_32 format;
  } all[] = {{"gray", PNG_FORMAT_GRAY},       {"ga", PNG_FORMAT_GA},
             {"rgb", PNG_FORMAT_RGB},         {"rgba", PNG_FORMAT_RGBA},
             {"gray16", PNG_FORMAT_LINEAR_Y}, {"palette", PNG_FORMAT_RGB_COLORMAP}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(kind, all[i].kind)) return all[i].format;
  errx(2, "unknown kind %s", kind);
}

static void make_png(const char *path, const char *kind, int width, int height) {
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = format_of(kind)};
  uint8_t map[256][3];
  for (int i = 0; i < 256; i++)
    for (int c = 0; c < 3; c++) map[i][c] = random_byte();
  image.colormap_entries = 256;
  size_t bytes = PNG_IMAGE_SIZE(image);
  uint8_t *pixels = malloc(bytes);
  if (!pixels) errx(1, "memory");
  for (size_t i = 0; i < bytes; i++) pixels[i] = random_byte();
  if (!png_image_write_to_file(&image, path, 0, pixels, 0, map)) errx(1, "%s", image.message);
  free(pixels);
}

/* As 8-bit gray or RGB with or without alpha; to be freed. */
static uint8_t *read_png(const char *path, png_image *image) {
  *image = (png_image){.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_file(image, path)) errx(1, "%s: %s", path, image->message);
  image->format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;
  uint8_t *pixels = malloc(PNG_IMAGE_SIZE(*image));
  if (!pixels || !png_image_finish_read(image, NULL, pixels, 0, NULL))
    errx(1, "%s: %s", path, image->message);
  return pixels;
}

/* The pixel at x, y, the nearest one of the image where there is none. */
static int sample(const png_image *image, const uint8_t *pixels, int x, int y, int channel) {
  int width = (int)image->width, height = (int)image->height;
  x = x < 0 ? 0 : x < width ? x : width - 1;
  y = y < 0 ? 0 : y < height ? y : height - 1;
  return pixels[(y * width + x) * (int)PNG_IMAGE_SAMPLE_CHANNELS(image->format) + channel];
}

static int sharpened(const png_image *image, const uint8_t *pixels, int x, int y, int channel) {
  int centre = sample(image, pixels, x, y, channel);
  int channels = (int)PNG_IMAGE_SAMPLE_CHANNELS(image->format);
  if (channels % 2 == 0 && channel == channels - 1) return centre;
  int sum = 5 * centre - sample(image, pixels, x - 1, y, channel) -
            sample(image, pixels, x + 1, y, channel) - sample(image, pixels, x, y - 1, channel) -
            sample(image, pixels, x, y + 1, channel);
  return sum < 0 ? 0 : sum > 255 ? 255 : sum;
}

static void check_sharpened(const char *in_path, const char *out_path) {
  png_image in, out;
  uint8_t *before = read_png(in_path, &in), *after = read_png(out_path, &out);
  if (in.width != out.width || in.height != out.height || in.format != out.format)
    errx(1, "%s has another size or format than %s", out_path, in_path);
  for (int y = 0; y < (int)in.height; y++)
    for (int x = 0; x < (int)in.width; x++)
      for (int c = 0; c < (int)PNG_IMAGE_SAMPLE_CHANNELS(in.format); c++) {
        int want = sharpened(&in, before, x, y, c), got = sample(&out, after, x, y, c);
        if (want != got)
          errx(1, "%s: x %d y %d channel %d: %d, not %d", out_path, x, y, c, got, want);
      }
  free(before);
  free(after);
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "idx")) {
    write_split(argv[2], "train", (uint32_t)atoi(argv[3]));
    write_split(argv[2], "t10k", (uint32_t)atoi(argv[4]));
  } else if (argc == 6 && !strcmp(argv[1], "png")) {
    make_png(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
  } else if (argc == 4 && !strcmp(argv[1], "sharpened")) {
    check_sharpened(argv[2], argv[3]);
  } else {
    errx(2, "see the head of example_data.c");
  }
  return 0;
}
