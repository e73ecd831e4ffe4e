/*
 * Sharpens a PNG: every pixel becomes five times itself less its four neighbours.
 *
 *     sharpen IN.png OUT.png
 *
 * Pixels lie in the file row by row with their channels together. The device gets
 * them that way and sees them as an image of planes through a permuted view; the
 * convolution runs on each channel by itself. Edges are repeated outwards, alpha
 * stays as it is. libpng turns palettes and 16-bit samples into 8-bit gray or RGB.
 */
#include <err.h>
#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "tenon/tenon.h"

typedef struct picture {
  int64_t height, width, channels;
  png_image png;
  uint8_t *pixels; /* [height, width, channels] */
} picture;

static bool picture_read(picture *p, const char *path) {
  p->png = (png_image){.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_file(&p->png, path)) {
    warnx("cannot read %s: %s", path, p->png.message);
    return false;
  }
  p->png.format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;
  p->height = p->png.height;
  p->width = p->png.width;
  p->channels = PNG_IMAGE_SAMPLE_CHANNELS(p->png.format);
  p->pixels = malloc((size_t)(p->height * p->width * p->channels));
  if (!p->pixels) {
    warnx("cannot read %s: not enough memory", path);
    png_image_free(&p->png);
    return false;
  }
  if (png_image_finish_read(&p->png, NULL, p->pixels, 0, NULL)) return true;
  warnx("cannot read %s: %s", path, p->png.message);
  free(p->pixels);
  return false;
}

static bool picture_write(picture *p, const char *path) {
  output o;
  if (!output_open(&o, path)) return false;
  if (png_image_write_to_stdio(&p->png, o.file, 0, p->pixels, 0, NULL)) return output_commit(&o);
  warnx("cannot write %s: %s", path, p->png.message);
  output_discard(&o);
  return false;
}

static int64_t clamp(int64_t i, int64_t size) { return i < 0 ? 0 : i < size ? i : size - 1; }

/* The pixels with a border of one, [height + 2, width + 2, channels]; to be freed. */
static uint8_t *with_border(const picture *p) {
  size_t pixel = (size_t)p->channels;
  uint8_t *all = malloc((size_t)((p->height + 2) * (p->width + 2)) * pixel), *to = all;
  if (!all) return NULL;
  for (int64_t y = -1; y <= p->height; y++)
    for (int64_t x = -1; x <= p->width; x++, to += pixel)
      memcpy(to, p->pixels + (clamp(y, p->height) * p->width + clamp(x, p->width)) * p->channels,
             pixel);
  return all;
}

/* One 3 x 3 kernel for each channel: alpha, the last of an even number, is kept. */
static tn_status make_kernels(tn_device *device, int64_t channels, tn_tensor **kernels) {
  static const float sharper[9] = {0, -1, 0, -1, 5, -1, 0, -1, 0};
  static const float same[9] = {0, 0, 0, 0, 1, 0, 0, 0, 0};
  float values[4][9];
  for (int64_t c = 0; c < channels; c++) {
    bool alpha = channels % 2 == 0 && c == channels - 1;
    memcpy(values[c], alpha ? same : sharper, sizeof same);
  }
  return tn_tensor_from_host(device, TN_F32, 4, (int64_t[]){channels, 1, 3, 3}, values, kernels);
}

/* Replaces p's pixels. Returns a status so that tn_last_error() can be told. */
static tn_status sharpen(tn_device *device, picture *p, const uint8_t *bordered) {
  const int64_t shape[] = {1, p->height + 2, p->width + 2, p->channels};
  tn_conv2d_attrs each_channel = TN_CONV2D_DEFAULTS;
  each_channel.groups = p->channels;
  tn_cast_attrs to_f32 = TN_CAST_DEFAULTS, to_u8 = TN_CAST_DEFAULTS;
  to_u8.dtype = TN_U8; /* saturates: sums below 0 and above 255 are cut off */
  tn_tensor *kernels = NULL, *bytes = NULL, *planes = NULL, *x = NULL, *y = NULL, *cut = NULL,
            *result = NULL;

  tn_status s = make_kernels(device, p->channels, &kernels);
  if (!s) s = tn_tensor_from_host(device, TN_U8, 4, shape, bordered, &bytes);
  if (!s) s = tn_tensor_permute(bytes, (int32_t[]){0, 3, 1, 2}, &planes);
  if (!s) s = tn_cast(NULL, planes, &to_f32, &x);
  if (!s) s = tn_conv2d(NULL, x, kernels, NULL, &each_channel, &y);
  if (!s) s = tn_cast(NULL, y, &to_u8, &cut);
  if (!s) s = tn_tensor_permute(cut, (int32_t[]){0, 2, 3, 1}, &result);
  if (!s) s = tn_tensor_to_host(result, p->pixels, tn_tensor_bytes(result));

  tn_tensor *all[] = {kernels, bytes, planes, x, y, cut, result};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) tn_tensor_release(all[i]);
  return s;
}

static tn_status sharpen_on_best_device(picture *p, const uint8_t *bordered) {
  tn_runtime *runtime;
  tn_status s = tn_runtime_open(NULL, &runtime);
  if (s) return s;
  s = sharpen(tn_runtime_device(runtime), p, bordered);
  tn_runtime_close(runtime);
  return s;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: sharpen IN.png OUT.png\n");
    return 2;
  }
  picture p;
  if (!output_possible(argv[2]) || !picture_read(&p, argv[1])) return EXIT_FAILURE;
  uint8_t *bordered = with_border(&p);
  bool done = false;
  if (!bordered)
    warnx("not enough memory");
  else if (sharpen_on_best_device(&p, bordered))
    warnx("%s", tn_last_error());
  else
    done = picture_write(&p, argv[2]);
  free(bordered);
  free(p.pixels);
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
