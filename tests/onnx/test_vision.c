/*
 * Resizing, grids, boxes and blocks of ONNX as its specification writes them, in more combinations
 * than its cases have: antialiased, by sizes that keep the shape, of some axes, cropped.
 */
#include <math.h>

#include "tests/onnx/trial.h"

/* --- Resize, from the formulas of ONNX's reference implementation (onnx/reference/ops) --- */

typedef struct resized {
  const char *mode, *places, *nearest;
  int64_t size, out;
  double scale, cubic, roi[2];
  bool antialias, exclude;
} resized;

/* Where output x lies; NAN outside a crop. */
static double place_of(const resized *r, double x) {
  const double size = (double)r->size, length = r->scale * size;
  if (!strcmp(r->places, "align_corners")) return length == 1 ? 0 : x * (size - 1) / (length - 1);
  if (!strcmp(r->places, "asymmetric")) return x / r->scale;
  if (!strcmp(r->places, "pytorch_half_pixel")) return length <= 1 ? 0 : (x + 0.5) / r->scale - 0.5;
  if (!strcmp(r->places, "half_pixel_symmetric"))
    return size / 2 * (1 - (double)r->out / length) + (x + 0.5) / r->scale - 0.5;
  if (!strcmp(r->places, "tf_crop_and_resize")) {
    double at = length == 1 ? (r->roi[1] - r->roi[0]) * (size - 1) / 2
                            : x * (r->roi[1] - r->roi[0]) * (size - 1) / (length - 1);
    at += r->roi[0] * (size - 1);
    return at < 0 || at > size - 1 ? NAN : at;
  }
  return (x + 0.5) / r->scale - 0.5;
}

static double keys(double x, double a) {
  x = fabs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/* Coefficients of the elements from floor(place) - lead on, of which ratio is the rest; their
 * count. */
static int coefficients(const resized *r, double ratio, double *w, int *lead) {
  const double s = r->antialias && r->scale < 1 ? r->scale : 1;
  const bool cubic = !strcmp(r->mode, "cubic");
  const int reach = (int)ceil((cubic ? 2 : 1) / s) + 1, count = 2 * reach;
  double sum = 0;
  *lead = reach - 1;
  for (int k = 0; k < count; k++) {
    const double at = (k - *lead - ratio) * s;
    sum += w[k] = cubic ? keys(at, r->cubic) : fmax(0, 1 - fabs(at));
  }
  for (int k = 0; k < count; k++) w[k] /= sum;
  return count;
}

static int64_t clamped(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

static double nearest_to(const resized *r, const float *x, double place) {
  double at = !strcmp(r->nearest, "floor")               ? floor(place)
              : !strcmp(r->nearest, "ceil")              ? ceil(place)
              : !strcmp(r->nearest, "round_prefer_ceil") ? floor(place + 0.5)
                                                         : ceil(place - 0.5);
  return (double)x[clamped((int64_t)at, r->size)];
}

static double resized_at(const resized *r, const float *x, int64_t i) {
  double w[256], sum = 0, all = 0;
  int lead;
  const double place = place_of(r, (double)i);
  if (isnan(place)) return 10; /* what the tests extrapolate */
  if (!strcmp(r->mode, "nearest")) return nearest_to(r, x, place);
  const int count = coefficients(r, place - floor(place), w, &lead);
  for (int k = 0; k < count; k++) {
    const int64_t at = (int64_t)floor(place) - lead + k;
    if (r->exclude && (at < 0 || at >= r->size)) continue;
    all += w[k];
    sum += w[k] * (double)x[clamped(at, r->size)];
  }
  return r->exclude ? sum / all : sum;
}

static const float signal[] = {0.3F, -1.2F, 2.5F, 0.9F, -0.4F, 1.7F, 3.1F, -2.2F, 0.1F, 1.1F};

static void resize_is(const resized *r, bool by_size) {
  float roi[2] = {(float)r->roi[0], (float)r->roi[1]}, scale = (float)r->scale, y[64], x[10];
  int64_t out = r->out, none = 0;
  trial t;
  memcpy(x, signal, sizeof x);
  trial_begin(&t, "Resize", by_size ? 4 : 3, 1);
  input(&t, 0, TN_F32, 1, &r->size, x);
  input(&t, 1, TN_F32, 1, (int64_t[]){2}, roi);
  if (by_size) {
    input(&t, 2, TN_F32, 1, &none, &scale);
    input(&t, 3, TN_I64, 1, (int64_t[]){1}, &out);
  } else {
    input(&t, 2, TN_F32, 1, (int64_t[]){1}, &scale);
  }
  word(&t, "mode", r->mode);
  word(&t, "coordinate_transformation_mode", r->places);
  word(&t, "nearest_mode", r->nearest);
  whole(&t, "antialias", r->antialias);
  whole(&t, "exclude_outside", r->exclude);
  real(&t, "cubic_coeff_a", (float)r->cubic);
  real(&t, "extrapolation_value", 10);
  gives(&t, (int)out, y);
  ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[0], out);
  for (int64_t i = 0; i < out; i++) {
    const double want = resized_at(r, x, i);
    ck_assert_msg(fabs((double)y[i] - want) <= 1e-5 * (1 + fabs(want)),
                  "%s %s %s of %d to %d by %g, antialias %d, exclude %d, element %d: %g, not %g",
                  r->mode, r->places, r->nearest, (int)r->size, (int)out, r->scale, r->antialias,
                  r->exclude, (int)i, (double)y[i], want);
  }
  trial_end(&t);
}

START_TEST(resize_follows_the_formulas) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const places[] = {"half_pixel",    "half_pixel_symmetric",
                                       "align_corners", "pytorch_half_pixel",
                                       "asymmetric",    "tf_crop_and_resize"};
  static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  static const double scales[] = {0.375, 0.6F, 1, 1.25, 2, 2.5, 4};
  static const int64_t sizes[] = {1, 2, 4, 7, 10};
  int count = 0;
  for (int m = 0; m < 3; m++)
    for (int p = 0; p < 6; p++)
      for (int s = 0; s < 7; s++)
        for (int n = 0; n < 5; n++, count++) {
          resized r = {modes[m], places[p], rounds[count % 4], sizes[n], 0, scales[s]};
          r.cubic = count % 2 ? -0.75 : -0.5;
          r.roi[0] = p == 5 ? -0.25 : 0;
          r.roi[1] = p == 5 ? 0.75 : 1;
          r.antialias = count % 3 == 0 && p != 5;
          r.exclude = count % 5 == 0 && p != 4;
          r.out = (int64_t)floorf((float)r.size * (float)r.scale);
          if (r.out < 1) continue;
          resize_is(&r, false);
          r.scale = (double)r.out / (double)r.size;
          resize_is(&r, true);
        }
}
END_TEST

/* Sizes of [1, 2, 6, 9] along axes 3 and 2 that are asked for, and that come. */
static void keeps(const char *policy, int64_t wide, int64_t high, int64_t to_wide,
                  int64_t to_high) {
  static float x[108], y[4096];
  int64_t wanted[] = {wide, high}, axes[] = {3, -2};
  trial t;
  trial_begin(&t, "Resize", 4, 1);
  input(&t, 0, TN_F32, 4, (int64_t[]){1, 2, 6, 9}, x);
  t.at.in[1] = t.at.in[2] = (onnx_tensor){0};
  input(&t, 3, TN_I64, 1, (int64_t[]){2}, wanted);
  ints(&t, "axes", 2, axes);
  word(&t, "mode", "linear");
  word(&t, "keep_aspect_ratio_policy", policy);
  gives(&t, (int)(2 * to_wide * to_high), y);
  ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[1], 2);
  ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[2], to_high);
  ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[3], to_wide);
  trial_end(&t);
}

START_TEST(sizes_may_keep_the_shape) {
  keeps("stretch", 18, 5, 18, 5);
  keeps("not_larger", 18, 6, 9, 6);
  keeps("not_smaller", 18, 6, 18, 12);
  keeps("not_larger", 7, 100, 7, 5); /* 4.67 is rounded */
}
END_TEST

START_TEST(resize_serves_bytes_and_refuses_nonsense) {
  uint8_t x[] = {10, 20, 30, 40}, y[8];
  float scale[] = {1, 1, 1, 2, 3};
  static const uint8_t want[] = {10, 12, 17, 22, 27, 32, 37, 40};
  trial t;
  trial_begin(&t, "Resize", 3, 1);
  input(&t, 0, TN_U8, 4, (int64_t[]){1, 1, 1, 4}, x);
  t.at.in[1] = (onnx_tensor){0};
  input(&t, 2, TN_F32, 1, (int64_t[]){4}, scale);
  word(&t, "mode", "linear");
  ck_assert_int_eq(node_run(&t.at), TN_OK);
  ck_assert_str_eq(t.at.cannot, "");
  ok(tn_tensor_to_host(t.at.y[0], y, sizeof y));
  ck_assert_mem_eq(y, want, sizeof y);
  trial_end(&t);

  trial_begin(&t, "Resize", 3, 1);
  input(&t, 0, TN_U8, 4, (int64_t[]){1, 1, 1, 4}, x);
  t.at.in[1] = (onnx_tensor){0};
  input(&t, 2, TN_F32, 1, (int64_t[]){5}, scale);
  refuses(&t, "scales or sizes of other than 4 axes");

  for (int bad = 0; bad < 3; bad++) {
    scale[3] = bad == 0 ? -1 : bad == 1 ? NAN : 1e30F;
    trial_begin(&t, "Resize", 3, 1);
    input(&t, 0, TN_U8, 4, (int64_t[]){1, 1, 1, 4}, x);
    t.at.in[1] = (onnx_tensor){0};
    input(&t, 2, TN_F32, 1, (int64_t[]){4}, scale);
    refuses(&t, "resize by");
  }
}
END_TEST

START_TEST(upsample_has_its_scales_in_two_places) {
  float x[] = {1, 2}, scale[] = {1, 1, 1, 2}, y[4];
  for (int attributes = 0; attributes < 2; attributes++) {
    trial t;
    trial_begin(&t, "Upsample", attributes ? 1 : 2, 1);
    t.at.opset = attributes ? 7 : 9;
    input(&t, 0, TN_F32, 4, (int64_t[]){1, 1, 1, 2}, x);
    if (attributes) {
      Onnx__Attribute *a = attribute(&t, "scales");
      a->floats = scale;
      a->n_floats = 4;
    } else {
      input(&t, 1, TN_F32, 1, (int64_t[]){4}, scale);
    }
    gives(&t, 4, y);
    ck_assert(y[0] == 1 && y[1] == 1 && y[2] == 2 && y[3] == 2);
    trial_end(&t);
  }
}
END_TEST

/* --- grids and boxes --- */

/* An image read by the grid of no transformation is itself. */
static void reads_itself(int axes, const int64_t *shape, int64_t corners) {
  float x[120], y[120], theta[24] = {0};
  int64_t size[5], elements = 1;
  trial g, t;
  for (int i = 0; i < 2 + axes; i++) elements *= size[i] = shape[i];
  for (int64_t i = 0; i < elements; i++) x[i] = sinf((float)i);
  for (int n = 0; n < 2; n++)
    for (int i = 0; i < axes; i++) theta[n * axes * (axes + 1) + i * (axes + 2)] = 1;
  trial_begin(&g, "AffineGrid", 2, 1);
  input(&g, 0, TN_F32, 3, (int64_t[]){shape[0], axes, axes + 1}, theta);
  input(&g, 1, TN_I64, 1, (int64_t[]){2 + axes}, size);
  whole(&g, "align_corners", corners);
  ck_assert_int_eq(node_run(&g.at), TN_OK);
  ck_assert_str_eq(g.at.cannot, "");
  ck_assert_int_eq(tn_tensor_rank(g.at.y[0]), 2 + axes);
  trial_begin(&t, "GridSample", 2, 1);
  input(&t, 0, TN_F32, 2 + axes, shape, x);
  tn_tensor_retain(t.at.x[1] = g.at.y[0]);
  t.at.in[1] = (onnx_tensor){.present = true, .dtype = TN_F32, .rank = 2 + axes};
  whole(&t, "align_corners", corners);
  gives(&t, (int)elements, y);
  for (int64_t i = 0; i < elements; i++) ck_assert(fabsf(y[i] - x[i]) < 1e-5F);
  trial_end(&g);
  trial_end(&t);
}

START_TEST(images_read_by_an_upright_grid_are_themselves) {
  for (int64_t corners = 0; corners < 2; corners++) {
    reads_itself(2, (int64_t[]){2, 3, 4, 5}, corners);
    reads_itself(3, (int64_t[]){2, 1, 3, 4, 5}, corners);
    reads_itself(2, (int64_t[]){1, 2, 1, 7}, corners);
  }
}
END_TEST

START_TEST(boxes_of_no_number_are_none) {
  float boxes[] = {0, 0, 1, 1}, scores[] = {1};
  int64_t most = 0;
  for (int given = 0; given < 2; given++) {
    trial t;
    trial_begin(&t, "NonMaxSuppression", given ? 3 : 2, 1);
    input(&t, 0, TN_F32, 3, (int64_t[]){1, 1, 4}, boxes);
    input(&t, 1, TN_F32, 3, (int64_t[]){1, 1, 1}, scores);
    if (given) input(&t, 2, TN_I64, 1, (int64_t[]){1}, &most);
    ck_assert_int_eq(node_run(&t.at), TN_OK);
    ck_assert_str_eq(t.at.cannot, "");
    ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[0], 0);
    ck_assert_int_eq(tn_tensor_shape(t.at.y[0])[1], 3);
    trial_end(&t);
  }
}
END_TEST

/* --- pooling --- */

typedef struct pooled {
  int64_t kernel[2], stride[2], pads[4], dilation[2];
  bool up, counts;
} pooled;

enum { HIGH = 5, WIDE = 7 };

/* How many windows: a last one that begins in the image or before it. */
static int64_t windows_of(const pooled *p, int d) {
  const int64_t size = d ? WIDE : HIGH, reach = (p->kernel[d] - 1) * p->dilation[d] + 1;
  const int64_t room = size + p->pads[d] + p->pads[2 + d] - reach;
  int64_t n = room / p->stride[d] + 1;
  if (p->up && room % p->stride[d] && n * p->stride[d] < size + p->pads[d]) ++n;
  return n;
}

/* Window i, j of a plane: its maximum, where that is, and its mean. */
static void window_at(const pooled *p, const float *x, int64_t i, int64_t j, float *most,
                      int64_t *place, double *mean) {
  double sum = 0, count = 0;
  *most = -INFINITY;
  *place = -1;
  for (int64_t a = 0; a < p->kernel[0]; a++)
    for (int64_t b = 0; b < p->kernel[1]; b++) {
      const int64_t row = i * p->stride[0] - p->pads[0] + a * p->dilation[0];
      const int64_t column = j * p->stride[1] - p->pads[1] + b * p->dilation[1];
      const bool inside = row >= 0 && row < HIGH && column >= 0 && column < WIDE;
      count += p->counts ? row < HIGH + p->pads[2] && column < WIDE + p->pads[3] : inside;
      if (!inside) continue;
      sum += (double)x[row * WIDE + column];
      if (x[row * WIDE + column] > *most) {
        *most = x[row * WIDE + column];
        *place = row * WIDE + column;
      }
    }
  *mean = sum / count;
}

static void pool_begin(trial *t, const char *type, size_t outputs, const pooled *p, int64_t *lists,
                       float *x) {
  trial_begin(t, type, 1, outputs);
  memcpy(lists, p, 10 * sizeof *lists);
  input(t, 0, TN_F32, 4, (int64_t[]){2, 1, HIGH, WIDE}, x);
  ints(t, "kernel_shape", 2, lists);
  ints(t, "strides", 2, lists + 2);
  ints(t, "pads", 4, lists + 4);
  ints(t, "dilations", 2, lists + 8);
  whole(t, "ceil_mode", p->up);
}

static void pools(const pooled *p, bool places) {
  const int64_t high = windows_of(p, 0), wide = windows_of(p, 1), n = high * wide;
  float x[2 * HIGH * WIDE], most[128], mean[128];
  int64_t lists[10], index[128];
  trial m, a;
  for (int i = 0; i < 2 * HIGH * WIDE; i++) x[i] = sinf((float)(i * i)) - 2;
  pool_begin(&m, "MaxPool", places ? 2 : 1, p, lists, x);
  gives(&m, (int)(2 * n), most);
  ck_assert_int_eq(tn_tensor_shape(m.at.y[0])[2], high);
  ck_assert_int_eq(tn_tensor_shape(m.at.y[0])[3], wide);
  if (places) ok(tn_tensor_to_host(m.at.y[1], index, (size_t)(2 * n) * sizeof *index));
  pool_begin(&a, "AveragePool", 1, p, lists, x);
  whole(&a, "count_include_pad", p->counts);
  gives(&a, (int)(2 * n), mean);
  for (int64_t i = 0; i < 2 * n; i++) {
    float largest;
    int64_t place;
    double middle;
    window_at(p, x + i / n * HIGH * WIDE, i % n / wide, i % wide, &largest, &place, &middle);
    ck_assert(most[i] == largest);
    ck_assert(fabs((double)mean[i] - middle) < 1e-5);
    if (places) ck_assert_int_eq(index[i], i / n * HIGH * WIDE + place);
  }
  trial_end(&m);
  trial_end(&a);
}

START_TEST(windows_may_be_padded_and_spread_at_will) {
  for (int round = 0; round < 4; round++) {
    const bool up = round % 2, counts = round / 2;
    pools(&(pooled){{3, 2}, {2, 3}, {1, 1, 1, 1}, {1, 1}, up, counts}, true);
    pools(&(pooled){{3, 3}, {2, 2}, {0, 0, 1, 1}, {1, 1}, up, counts}, true);
    pools(&(pooled){{2, 4}, {3, 2}, {1, 0, 0, 3}, {1, 1}, up, counts}, true);
    pools(&(pooled){{2, 3}, {1, 2}, {1, 2, 0, 1}, {3, 2}, up, counts}, true);
    pools(&(pooled){{3, 2}, {2, 1}, {0, 1, 2, 0}, {1, 3}, up, counts}, true);
    pools(&(pooled){{2, 2}, {2, 4}, {0, 0, 0, 0}, {1, 1}, up, counts}, true);
  }
}
END_TEST

/* --- crops and blocks --- */

START_TEST(crops_and_pads_are_centred) {
  float x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, y[8];
  static const float want[] = {1, 2, 3, 0, 6, 7, 8, 0};
  int64_t shape[] = {4, 3}, axes[] = {-1, 1};
  trial t;
  trial_begin(&t, "CenterCropPad", 2, 1);
  input(&t, 0, TN_F32, 3, (int64_t[]){2, 1, 5}, x);
  input(&t, 1, TN_I64, 1, (int64_t[]){1}, shape + 1);
  ints(&t, "axes", 1, axes);
  gives(&t, 6, y);
  ck_assert(y[0] == 1 && y[2] == 3 && y[3] == 6 && y[5] == 8);
  trial_end(&t);

  trial_begin(&t, "CenterCropPad", 2, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){2, 5}, x);
  input(&t, 1, TN_I64, 1, (int64_t[]){1}, shape);
  ints(&t, "axes", 1, axes + 1);
  gives(&t, 8, y);
  ck_assert(y[0] == 0 && y[3] == 3 && y[4] == 5 && y[7] == 8); /* one of five goes, at the end */
  trial_end(&t);

  trial_begin(&t, "CenterCropPad", 2, 1);
  input(&t, 0, TN_F32, 2, (int64_t[]){2, 3}, (float[]){1, 2, 3, 6, 7, 8});
  input(&t, 1, TN_I64, 1, (int64_t[]){1}, shape);
  ints(&t, "axes", 1, axes + 1);
  gives(&t, 8, y);
  ck_assert_mem_eq(y, want, sizeof want);
  trial_end(&t);
}
END_TEST

/* Blocks of 2 by 3 of an image of 4 by 7, some steps apart and around a border. */
static void adds_blocks(const int64_t *step, const int64_t *apart, const int64_t *pads) {
  const int64_t image[2] = {4, 7}, kernel[2] = {2, 3};
  int64_t places[2], lists[8];
  float x[2 * 6 * 64], y[56], want[56] = {0};
  for (int d = 0; d < 2; d++)
    places[d] = (image[d] + pads[d] + pads[2 + d] - apart[d] * (kernel[d] - 1) - 1) / step[d] + 1;
  const int64_t count = places[0] * places[1];
  for (int64_t i = 0; i < 12 * count; i++) x[i] = cosf((float)i);
  for (int64_t c = 0; c < 2; c++)
    for (int64_t k = 0; k < 6; k++)
      for (int64_t p = 0; p < count; p++) {
        const int64_t row = p / places[1] * step[0] + k / 3 * apart[0] - pads[0];
        const int64_t column = p % places[1] * step[1] + k % 3 * apart[1] - pads[1];
        if (row >= 0 && row < 4 && column >= 0 && column < 7)
          want[c * 28 + row * 7 + column] += x[(c * 6 + k) * count + p];
      }
  memcpy(lists, step, 16), memcpy(lists + 2, apart, 16), memcpy(lists + 4, pads, 32);
  trial t;
  trial_begin(&t, "Col2Im", 3, 1);
  input(&t, 0, TN_F32, 3, (int64_t[]){1, 12, count}, x);
  input(&t, 1, TN_I64, 1, (int64_t[]){2}, (int64_t[]){4, 7});
  input(&t, 2, TN_I64, 1, (int64_t[]){2}, (int64_t[]){2, 3});
  ints(&t, "strides", 2, lists);
  ints(&t, "dilations", 2, lists + 2);
  ints(&t, "pads", 4, lists + 4);
  gives(&t, 56, y);
  for (int i = 0; i < 56; i++) ck_assert(fabsf(y[i] - want[i]) < 1e-5F);
  trial_end(&t);
}

START_TEST(blocks_are_added_where_they_were) {
  adds_blocks((int64_t[]){1, 1}, (int64_t[]){1, 1}, (int64_t[]){0, 0, 0, 0});
  adds_blocks((int64_t[]){2, 3}, (int64_t[]){1, 1}, (int64_t[]){1, 0, 0, 1});
  adds_blocks((int64_t[]){1, 2}, (int64_t[]){3, 2}, (int64_t[]){0, 2, 1, 1});
  adds_blocks((int64_t[]){4, 5}, (int64_t[]){2, 1}, (int64_t[]){0, 0, 0, 0});
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, resize_follows_the_formulas);
  tcase_add_test(t, sizes_may_keep_the_shape);
  tcase_add_test(t, resize_serves_bytes_and_refuses_nonsense);
  tcase_add_test(t, upsample_has_its_scales_in_two_places);
  tcase_add_test(t, images_read_by_an_upright_grid_are_themselves);
  tcase_add_test(t, boxes_of_no_number_are_none);
  tcase_add_test(t, windows_may_be_padded_and_spread_at_will);
  tcase_add_test(t, crops_and_pads_are_centred);
  tcase_add_test(t, blocks_are_added_where_they_were);
}

int main(void) { return run_suite("onnx vision", add_tests); }
