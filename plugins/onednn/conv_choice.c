/* Which convolutions are oneDNN's; see conv.h. */
#include "conv.h"

/* Windows, of all images, for which reordering weights takes longer than what is saved. */
enum { FEW_WINDOWS = 4 };
/* Channels of results with channels last from which on they fill half a vector. */
enum { LAST_CHANNELS = 8 };
/* Places of a row-major image from which on ours, which makes no copy of it, sums each channel
 * alone faster: of windows of up to 9 elements, and of larger ones. */
enum { OWN_WINDOW = 9, OWN_PLACES = 576, OWN_PLACES_LARGE = 2048 };

static int64_t least_places(const conv_shape *s) {
  return count_of(s->window, s->axes) <= OWN_WINDOW ? OWN_PLACES : OWN_PLACES_LARGE;
}

bool conv_is_faster(const conv_shape *s) {
  const int64_t windows = s->n * count_of(s->out, s->axes);
  const bool depthwise = s->g > 1 && s->g == s->c && s->g == s->k;
  const int64_t c = s->c / s->g, k = s->k / s->g, patch = c * count_of(s->window, s->axes);
  if (work_of(s) < 1e5 || !onednn_has_avx512()) return false;
  /* Weights that are read once would be reordered for that. */
  if (s->role == CONV_FORWARD && windows <= FEW_WINDOWS) return false;
  if (depthwise && s->role == CONV_FORWARD && s->type == dnnl_f32 && !is_last(s) &&
      count_of(s->out, s->axes) >= least_places(s))
    return false;
  if (depthwise || (s->g > 1 && c >= 8 && k >= 8)) return true;
  if (s->g > 1 || k < 4) return false;
  /* Ours would copy the images to and fro. */
  if (s->role == CONV_FORWARD && is_last(s) && k >= LAST_CHANNELS) return true;
  if (s->role == CONV_BACKWARD_WEIGHTS)
    return patch > (s->type == dnnl_f32 ? 48 : 128) && patch != c;
  if (s->type != dnnl_f32 && !onednn_doubles_bf16()) return false;
  const int64_t least = is_last(s) ? 8 : 16;
  return s->role == CONV_FORWARD ? patch >= (is_last(s) ? 32 : 128) : c >= least && k >= least;
}

/* Before 3.6 oneDNN's AMX kernel for gradients by 3x3 windows in bf16 cuts images of wide rows
 * down to one row, where it loses the place of the weight (uxlfoundation/oneDNN 65c2c756ac), or
 * never ends. It halves a block while that is over 48 KiB; three rows of 224 elements are not. */
static bool loses_rows(const conv_shape *s) {
  const dnnl_version_t *version = dnnl_version();
  if (s->type != dnnl_bf16 || s->axes != 2 || s->in[1] <= 224) return false;
  return (version->major < 3 || (version->major == 3 && version->minor < 6)) && onednn_has_amx();
}

/* Whether some place of the window lies in padding wherever the window is: its gradient is 0. */
static bool has_idle_place(const conv_shape *s) {
  for (int a = 0; a < s->axes; a++)
    for (int64_t k = 0; k < s->window[a]; k++) {
      const int64_t before = s->padding[a] - k * s->dilation[a];
      const int64_t first = before > 0 ? (before + s->stride[a] - 1) / s->stride[a] : 0;
      if (first >= s->out[a] || first * s->stride[a] - before >= s->in[a]) return true;
    }
  return false;
}

/* What oneDNN gets wrong, to be left to ours however fast it is. In 2.6, with stride and padding
 * along the depth, it may read the wrong slices of an image or write past its own memory. In bf16
 * it gives numbers for places of the window that see no element: x of 1 element, kernel 2, stride
 * 2, padding 1. */
bool conv_is_wrong(const conv_shape *s) {
  if (s->role != CONV_BACKWARD_WEIGHTS) return false;
  if (s->type == dnnl_bf16 && has_idle_place(s)) return true;
  return loses_rows(s) || (s->axes == 3 && s->stride[0] > 1 && s->padding[0] > 0);
}
