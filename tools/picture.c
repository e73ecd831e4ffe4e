/* Pictures, in PNG and JPEG where the libraries were there at build time. */
#include "picture.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TENON_HAVE_PNG
#include <png.h>
#endif
#ifdef TENON_HAVE_JPEG
#include <jpeglib.h>
#endif

bool picture_make(picture *p, long long width, long long height) {
  *p = (picture){0};
  if (width < 1 || height < 1 || width > PICTURE_WIDEST || height > PICTURE_WIDEST) return false;
  p->width = (int)width;
  p->height = (int)height;
  p->pixels = calloc((size_t)width * (size_t)height, 3);
  return p->pixels;
}

/* ------------------------------------------------------------------- files --- */

#ifdef TENON_HAVE_PNG
static bool read_png(const char *path, picture *p) {
  png_image image = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_file(&image, path)) return false;
  image.format = PNG_FORMAT_RGB;
  const png_color white = {255, 255, 255};
  bool ok = picture_make(p, image.width, image.height) &&
            png_image_finish_read(&image, &white, p->pixels, 0, NULL);
  png_image_free(&image);
  return ok;
}

bool picture_write(const picture *p, const char *path, const char **why) {
  static _Thread_local char message[64];
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)p->width,
                     .height = (png_uint_32)p->height,
                     .format = PNG_FORMAT_RGB};
  FILE *file = fopen(path, "wb");
  struct stat is;
  if (!file) {
    snprintf(message, sizeof message, "%s", strerror(errno));
  } else {
    bool written = png_image_write_to_stdio(&image, file, 0, p->pixels, 0, NULL);
    bool regular = !fstat(fileno(file), &is) && S_ISREG(is.st_mode);
    snprintf(message, sizeof message, "%s", written ? strerror(errno) : image.message);
    if (!fclose(file) && written) return true;
    if (regular) unlink(path);
  }
  *why = message;
  return false;
}
#else
static bool read_png(const char *path, picture *p) { return (void)path, (void)p, false; }

bool picture_write(const picture *p, const char *path, const char **why) {
  (void)p, (void)path;
  *why = "built without libpng";
  return false;
}
#endif

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
  if (!picture_make(p, info.output_width, info.output_height)) jpeg_fail((j_common_ptr)&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = p->pixels + (size_t)info.output_scanline * (size_t)p->width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

static bool read_jpeg(const char *path, picture *p) {
  FILE *file = fopen(path, "rb");
  bool ok = file && read_jpeg_file(file, p);
  if (file) fclose(file);
  return ok;
}
#else
static bool read_jpeg(const char *path, picture *p) { return (void)path, (void)p, false; }
#endif

bool picture_read(const char *path, picture *p) {
  *p = (picture){0};
  if (read_png(path, p)) return true;
  free(p->pixels);
  *p = (picture){0};
  if (read_jpeg(path, p)) return true;
  free(p->pixels);
  *p = (picture){0};
  return false;
}

/* ---------------------------------------------------------------- sampling --- */

picture_box picture_all(const picture *p) { return (picture_box){.x1 = p->width, .y1 = p->height}; }

static double clamp(double v, double high) { return v < 0 ? 0 : v > high ? high : v; }

double picture_at(const picture *p, double x, double y, int channel) {
  x = clamp(x, p->width - 1);
  y = clamp(y, p->height - 1);
  size_t x0 = (size_t)x, y0 = (size_t)y, w = (size_t)p->width;
  size_t x1 = x0 + (x0 + 1 < w), y1 = y0 + (y0 + 1 < (size_t)p->height);
  const unsigned char *at = p->pixels + channel;
  double fx = x - (double)x0, fy = y - (double)y0;
  double up = at[3 * (y0 * w + x0)] * (1 - fx) + at[3 * (y0 * w + x1)] * fx;
  double low = at[3 * (y1 * w + x0)] * (1 - fx) + at[3 * (y1 * w + x1)] * fx;
  return up * (1 - fy) + low * fy;
}

void picture_planes(const picture *p, picture_box box, const picture_norm *norm, int width,
                    int height, int stride, float *planes) {
  double by_x = (box.x1 - box.x0) / width, by_y = (box.y1 - box.y0) / height;
  for (int c = 0; c < 3; c++) {
    int colour = norm->bgr ? 2 - c : c;
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        double v =
            picture_at(p, box.x0 + (x + 0.5) * by_x - 0.5, box.y0 + (y + 0.5) * by_y - 0.5, colour);
        size_t to = ((size_t)c * (size_t)height + (size_t)y) * (size_t)stride + (size_t)x;
        planes[to] = (float)((v * norm->scale - norm->mean[colour]) / norm->std[colour]);
      }
  }
}

/* ----------------------------------------------------------------- regions --- */

typedef struct search {
  const double *map;
  int width, height;
  double threshold;
  bool *seen;
  size_t *stack, depth;
} search;

static void visit(search *s, int x, int y) {
  if (x < 0 || y < 0 || x >= s->width || y >= s->height) return;
  size_t at = (size_t)y * (size_t)s->width + (size_t)x;
  if (s->seen[at] || !(s->map[at] > s->threshold)) return;
  s->seen[at] = true;
  s->stack[s->depth++] = at;
}

/* The region of a place that is over the threshold and not seen yet. */
static picture_region region_take(search *s, int x, int y) {
  picture_region r = {{s->width, s->height, 0, 0}, 0};
  size_t count = 0;
  for (visit(s, x, y); s->depth; count++) {
    size_t at = s->stack[--s->depth];
    x = (int)(at % (size_t)s->width);
    y = (int)(at / (size_t)s->width);
    r.mean += s->map[at];
    r.box = (picture_box){fmin(r.box.x0, x), fmin(r.box.y0, y), fmax(r.box.x1, x + 1),
                          fmax(r.box.y1, y + 1)};
    visit(s, x - 1, y), visit(s, x + 1, y), visit(s, x, y - 1), visit(s, x, y + 1);
  }
  r.mean /= (double)count;
  return r;
}

picture_region *picture_regions(const double *map, int width, int height, double threshold,
                                size_t *count) {
  size_t places = (size_t)width * (size_t)height, room = 16;
  search s = {map, width, height, threshold, calloc(places, 1), calloc(places, sizeof(size_t)), 0};
  picture_region *list = malloc(room * sizeof *list);
  *count = 0;
  for (size_t i = 0; s.seen && s.stack && list && i < places; i++) {
    if (s.seen[i] || !(map[i] > threshold)) continue;
    if (*count == room) {
      picture_region *more = realloc(list, (room *= 2) * sizeof *list);
      if (!more) free(list);
      list = more;
    }
    if (list)
      list[(*count)++] = region_take(&s, (int)(i % (size_t)width), (int)(i / (size_t)width));
  }
  if (!s.seen || !s.stack) free(list), list = NULL;
  free(s.seen), free(s.stack);
  return list;
}

/* ----------------------------------------------------------------- drawing --- */

void picture_mix(picture *p, int x, int y, picture_colour colour, double part) {
  if (x < 0 || y < 0 || x >= p->width || y >= p->height) return;
  unsigned char *at = p->pixels + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
  const unsigned char to[3] = {colour.red, colour.green, colour.blue};
  for (int c = 0; c < 3; c++) at[c] = (unsigned char)(at[c] + part * (to[c] - at[c]) + 0.5);
}

void picture_frame(picture *p, picture_box box, picture_colour colour) {
  int thick = 1 + (p->width < p->height ? p->width : p->height) / 300;
  int x0 = (int)clamp(floor(box.x0), p->width - 1), x1 = (int)clamp(ceil(box.x1), p->width) - 1;
  int y0 = (int)clamp(floor(box.y0), p->height - 1), y1 = (int)clamp(ceil(box.y1), p->height) - 1;
  for (int y = y0; y <= y1; y++)
    for (int x = x0; x <= x1; x++)
      if (x < x0 + thick || x > x1 - thick || y < y0 + thick || y > y1 - thick)
        picture_mix(p, x, y, colour, 1);
}
