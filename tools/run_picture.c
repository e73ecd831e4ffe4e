/* tenon run: pictures as inputs, in PNG and JPEG where the libraries were there at build time. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"
#include "run.h"
#ifdef TENON_HAVE_PNG
#include <png.h>
#endif
#ifdef TENON_HAVE_JPEG
#include <jpeglib.h>
#endif

/* Rows of red, green, blue. */
typedef struct picture {
  int width, height;
  unsigned char *pixels;
} picture;

enum { WIDEST = 1 << 15 };

static bool picture_room(picture *p, size_t width, size_t height) {
  if (!width || !height || width > WIDEST || height > WIDEST) return false;
  p->width = (int)width;
  p->height = (int)height;
  p->pixels = malloc(width * height * 3);
  return p->pixels;
}

static bool read_png(const char *path, picture *p) {
#ifdef TENON_HAVE_PNG
  png_image image = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_file(&image, path)) return false;
  image.format = PNG_FORMAT_RGB;
  const png_color white = {255, 255, 255};
  bool ok = picture_room(p, image.width, image.height) &&
            png_image_finish_read(&image, &white, p->pixels, 0, NULL);
  png_image_free(&image);
  return ok;
#else
  (void)path, (void)p;
  return false;
#endif
}

#ifdef TENON_HAVE_JPEG
typedef struct jpeg_failure {
  struct jpeg_error_mgr base;
  jmp_buf back;
} jpeg_failure;

static void jpeg_fail(j_common_ptr info) {
  jpeg_failure *failure = (jpeg_failure *)(void *)info->err;
  longjmp(failure->back, 1);
}

static void jpeg_quiet(j_common_ptr info, int level) { (void)info, (void)level; }

static bool read_jpeg_file(FILE *file, picture *p) {
  struct jpeg_decompress_struct info;
  jpeg_failure failure;
  info.err = jpeg_std_error(&failure.base);
  failure.base.error_exit = jpeg_fail;
  failure.base.emit_message = jpeg_quiet;
  if (setjmp(failure.back)) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  if (!picture_room(p, info.output_width, info.output_height)) jpeg_fail((j_common_ptr)&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = p->pixels + (size_t)info.output_scanline * (size_t)p->width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}
#endif

static bool read_jpeg(const char *path, picture *p) {
#ifdef TENON_HAVE_JPEG
  FILE *file = fopen(path, "rb");
  bool ok = file && read_jpeg_file(file, p);
  if (file) fclose(file);
  return ok;
#else
  (void)path, (void)p;
  return false;
#endif
}

/* The pixel at a place between pixels, as half-pixel centres have it. */
static double pixel_at(const picture *p, double x, double y, int channel) {
  x = x < 0 ? 0 : x > p->width - 1 ? p->width - 1 : x;
  y = y < 0 ? 0 : y > p->height - 1 ? p->height - 1 : y;
  int x0 = (int)x, y0 = (int)y, x1 = x0 + (x0 < p->width - 1), y1 = y0 + (y0 < p->height - 1);
  const unsigned char *at = p->pixels + channel;
  double fx = x - x0, fy = y - y0;
  size_t w = (size_t)p->width;
  double up =
      at[3 * ((size_t)y0 * w + (size_t)x0)] * (1 - fx) + at[3 * ((size_t)y0 * w + (size_t)x1)] * fx;
  double low =
      at[3 * ((size_t)y1 * w + (size_t)x0)] * (1 - fx) + at[3 * ((size_t)y1 * w + (size_t)x1)] * fx;
  return up * (1 - fy) + low * fy;
}

/* Brightness of a picture for models of one channel. */
static double grey_at(const picture *p, double x, double y) {
  return 0.299 * pixel_at(p, x, y, 0) + 0.587 * pixel_at(p, x, y, 1) + 0.114 * pixel_at(p, x, y, 2);
}

/* [1, c, h, w] or, where the model's last axis is of channels, [1, h, w, c]. */
static tn_tensor *picture_tensor(tn_device *device, const picture *p, const tn_onnx_value *input,
                                 const picture_options *o) {
  const int64_t *is = input->shape;
  bool last = is && (is[3] == 3 || is[3] == 1) && is[1] != 3 && is[1] != 1;
  int channels = is && is[last ? 3 : 1] == 1 ? 1 : 3, at = last ? 1 : 2;
  int64_t h = o->height ? o->height : is && is[at] > 0 ? is[at] : p->height;
  int64_t w = o->width ? o->width : is && is[at + 1] > 0 ? is[at + 1] : p->width;
  int64_t shape[] = {1, last ? h : channels, last ? w : h, last ? channels : w};
  bool bytes = input->dtype == TN_U8;
  float *f = malloc((size_t)(h * w * channels) * sizeof *f);
  unsigned char *b = malloc((size_t)(h * w * channels));
  for (int64_t y = 0; f && b && y < h; y++)
    for (int64_t x = 0; x < w; x++)
      for (int c = 0; c < channels; c++) {
        double px = ((double)x + 0.5) * p->width / (double)w - 0.5;
        double py = ((double)y + 0.5) * p->height / (double)h - 0.5;
        double v = channels == 1 ? grey_at(p, px, py) : pixel_at(p, px, py, o->bgr ? 2 - c : c);
        int64_t to = last ? (y * w + x) * channels + c : (c * h + y) * w + x;
        f[to] = (float)((v * o->scale - o->mean[c]) / o->std[c]);
        b[to] = (unsigned char)(v + 0.5);
      }
  tn_tensor *tensor = NULL;
  if (!f || !b ||
      tn_tensor_from_host(device, bytes ? TN_U8 : TN_F32, 4, shape, bytes ? (void *)b : f, &tensor))
    fprintf(stderr, "tenon run: %s\n", plain(tn_last_error()));
  free(f), free(b);
  return tensor;
}

tn_tensor *run_picture(tn_device *device, const char *path, const tn_onnx_value *input,
                       const picture_options *options) {
  picture p = {0};
  if (input->rank != 4 && input->rank != TN_RANK_OPEN) {
    fprintf(stderr, "tenon run: input %s has %d axes: it takes no picture\n", plain(input->name),
            input->rank);
    return NULL;
  }
  if (!read_png(path, &p) && (free(p.pixels), p.pixels = NULL, !read_jpeg(path, &p))) {
    fprintf(stderr,
            "tenon run: %s is no PNG or JPEG that can be read (or this tenon was built "
            "without libpng or libjpeg)\n",
            plain(path));
    free(p.pixels);
    return NULL;
  }
  tn_tensor *tensor = picture_tensor(device, &p, input, options);
  free(p.pixels);
  return tensor;
}
