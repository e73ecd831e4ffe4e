/* tenon run: pictures as inputs. */
#include <stdio.h>
#include <stdlib.h>

#include "plain.h"
#include "run.h"

/* Brightness of a picture for models of one channel. */
static double grey_at(const picture *p, double x, double y) {
  return 0.299 * picture_at(p, x, y, 0) + 0.587 * picture_at(p, x, y, 1) +
         0.114 * picture_at(p, x, y, 2);
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
  const picture_norm *norm = &o->norm;
  bool bytes = input->dtype == TN_U8;
  float *f = malloc((size_t)(h * w * channels) * sizeof *f);
  unsigned char *b = malloc((size_t)(h * w * channels));
  for (int64_t y = 0; f && b && y < h; y++)
    for (int64_t x = 0; x < w; x++)
      for (int c = 0; c < channels; c++) {
        double px = ((double)x + 0.5) * p->width / (double)w - 0.5;
        double py = ((double)y + 0.5) * p->height / (double)h - 0.5;
        int colour = norm->bgr && channels == 3 ? 2 - c : c;
        double v = channels == 1 ? grey_at(p, px, py) : picture_at(p, px, py, colour);
        int64_t to = last ? (y * w + x) * channels + c : (c * h + y) * w + x;
        f[to] = (float)((v * norm->scale - norm->mean[colour]) / norm->std[colour]);
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
  if (!picture_read(path, &p)) {
    fprintf(stderr,
            "tenon run: %s is no PNG or JPEG that can be read (or this tenon was built "
            "without libpng or libjpeg)\n",
            plain(path));
    return NULL;
  }
  tn_tensor *tensor = picture_tensor(device, &p, input, options);
  free(p.pixels);
  return tensor;
}
