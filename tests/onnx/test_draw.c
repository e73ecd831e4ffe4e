/*
 * `tenon run --draw`: pixels and lines of a model whose outputs are known, on a picture of 8 x 4.
 * Its map has places of 2 x 2 pixels. The command is the test's argument TENON in the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "builder.h"
#include "tests/support.h"
#include "tools/picture.h"

static char folder[] = "/tmp/tenon-draw-XXXXXX";
static char said[8192];

static const char *path_of(const char *name) {
  static char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* Runs the model, in the test's folder, with these options; what it says is in `said`. */
static int draw(const char *options) {
  char command[1000];
  snprintf(command, sizeof command, "cd %s && TENON_DEVICE=reference '%s' run model.onnx %s 2>&1",
           folder, getenv("TENON"), options);
  FILE *pipe = popen(command, "r");
  ck_assert_ptr_nonnull(pipe);
  said[fread(said, 1, sizeof said - 1, pipe)] = 0;
  return pclose(pipe) >> 8;
}

static void says(const char *words) {
  ck_assert_msg(strstr(said, words), "'%s' lacks '%s'", said, words);
}

static picture drawn(void) {
  picture p;
  ck_assert_msg(picture_read(path_of("y.png"), &p), "%s", said);
  ck_assert_int_eq(unlink(path_of("y.png")), 0);
  return p;
}

static void pixel_is(const picture *p, int x, int y, int red, int green, int blue) {
  const unsigned char *at = p->pixels + 3 * (y * p->width + x);
  ck_assert_msg(at[0] == red && at[1] == green && at[2] == blue, "pixel %d, %d is %d %d %d", x, y,
                at[0], at[1], at[2]);
}

/* An output that is this whatever goes in. */
static void known(Onnx__Graph *g, const char *name, int rank, const int64_t *shape,
                  const float *numbers) {
  char weight[40];
  size_t count = 1;
  for (int i = 0; i < rank; i++) count *= (size_t)shape[i];
  snprintf(weight, sizeof weight, "%s_numbers", name);
  weight_add(g, builder_text(weight), F32, rank, shape, numbers, count * sizeof *numbers);
  node_add(g, "Identity", builder_text(weight), name);
  output_add(g, name, F32, rank, shape);
}

static void model_write(Onnx__Graph *g) {
  size_t bytes;
  uint8_t *data = model_bytes(model_new(g), &bytes);
  FILE *file = fopen(path_of("model.onnx"), "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
  fclose(file);
}

static void set_up(void) {
  static const float rows[] = {1, 1, 7, 3, 0.9F, 2, 0, 0, 4,          2, 0.4F, 0,
                               3, 3, 1, 1, 0.9F, 0, 0, 0, (float)NAN, 2, 0.9F, 0};
  static const float map[] = {0, 0.9F, 0, 0, 0, 0.7F, 0, 1};
  static const float classes[] = {9, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0,
                                  0, 9, 0, 0, 0, 0, 9, 9, 0, 0, 9, 9};
  static const unsigned char grey[3] = {100, 100, 100};
  strcpy(folder, "/tmp/tenon-draw-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  Onnx__Graph *g = graph_new("draws");
  input_add(g, "x", F32, 4, (int64_t[]){1, 3, 0, 0});
  node_add(g, "Identity", "x", "echo");
  known(g, "rows", 2, (int64_t[]){4, 6}, rows);
  known(g, "map", 4, (int64_t[]){1, 1, 2, 4}, map);
  known(g, "classes", 4, (int64_t[]){1, 3, 2, 4}, classes);
  output_add(g, "echo", F32, 4, (int64_t[]){1, 3, 0, 0});
  model_write(g);
  picture p;
  const char *why = "";
  ck_assert(picture_make(&p, 8, 4));
  for (int i = 0; i < 32; i++) memcpy(p.pixels + 3 * i, grey, 3);
  p.pixels[0] = 250;
  ck_assert_msg(picture_write(&p, path_of("x.png"), &why), "%s", why);
  free(p.pixels);
}

static void tear_down(void) {
  unlink(path_of("model.onnx")), unlink(path_of("x.png")), unlink(path_of("y.png"));
  rmdir(folder);
  builder_end();
}

START_TEST(boxes_of_rows) {
  ck_assert_msg(draw("-i x.png --draw boxes=y.png") == 0, "%s", said);
  says("drawn of output rows into y.png");
  says("box 1: x 1 to 7, y 1 to 3, 0.900, class 2\n1 boxes\n"); /* low, empty, NaN: left out */
  picture p = drawn();
  pixel_is(&p, 0, 0, 250, 100, 100);
  pixel_is(&p, 1, 1, 0, 130, 200);
  pixel_is(&p, 6, 2, 0, 130, 200);
  pixel_is(&p, 7, 2, 100, 100, 100);
  free(p.pixels);
  /* Corners are of the model's input, which is twice as large here. */
  ck_assert_int_eq(draw("-i x.png --resize 16x8 --draw boxes=y.png --threshold 0.3"), 0);
  says("box 1: x 0 to 4, y 0 to 2, 0.900");
  says("\n2 boxes\n");
}
END_TEST

START_TEST(boxes_of_a_map) {
  ck_assert_int_eq(draw("-i x.png --draw boxes=y.png --draw-output map"), 0);
  says("box 1: x 2 to 4, y 0 to 4, 0.800\nbox 2: x 6 to 8, y 2 to 4, 1.000\n2 boxes\n");
  ck_assert_int_eq(draw("-i x.png --draw boxes=y.png --draw-output map --threshold 5"), 0);
  says("\n0 boxes\n");
}
END_TEST

START_TEST(masks) {
  ck_assert_int_eq(draw("-i x.png --draw mask=y.png --draw-output map --threshold 0.95"), 0);
  picture p = drawn();
  pixel_is(&p, 7, 3, 165, 63, 88); /* half of the picture, half of the colour */
  pixel_is(&p, 2, 0, 100, 100, 100);
  free(p.pixels);
  ck_assert_int_eq(draw("-i x.png --draw mask=y.png --draw-output classes"), 0);
  says("mask: 75.0 % of the picture");
  p = drawn();
  pixel_is(&p, 1, 1, 100, 100, 100); /* class 0, the background */
  pixel_is(&p, 2, 1, 165, 63, 88);   /* 1 */
  pixel_is(&p, 5, 1, 80, 140, 88);   /* 2 */
  free(p.pixels);
  /* Without a picture: black, of the map's size. */
  ck_assert_int_eq(draw("--draw mask=y.png --draw-output map"), 0);
  p = drawn();
  ck_assert(p.width == 4 && p.height == 2);
  pixel_is(&p, 0, 0, 0, 0, 0);
  pixel_is(&p, 1, 0, 115, 13, 38);
  free(p.pixels);
}
END_TEST

START_TEST(heat) {
  ck_assert_int_eq(draw("-i x.png --draw heat=y.png"), 0);
  says("drawn of output map");
  says("heat: from 0, dark, to 1, bright, at place 3, 1 of 4 x 2");
  picture p = drawn();
  pixel_is(&p, 7, 3, 201, 201, 126);
  free(p.pixels);
}
END_TEST

START_TEST(pictures) {
  ck_assert_int_eq(draw("-i x.png --draw picture=y.png --draw-output echo --mean 0.5,0.4,0.3 "
                        "--std 0.2,0.3,0.4 --bgr"),
                   0);
  picture p = drawn();
  ck_assert(p.width == 8 && p.height == 4);
  pixel_is(&p, 0, 0, 250, 100, 100);
  pixel_is(&p, 5, 2, 100, 100, 100);
  free(p.pixels);
}
END_TEST

START_TEST(bfloat16_goes_by_float32) {
  enum { BFLOAT16 = 16 };
  Onnx__Graph *g = graph_new("bfloat16");
  input_add(g, "x", BFLOAT16, 2, (int64_t[]){3, 5});
  node_add(g, "Identity", "x", "y");
  output_add(g, "y", BFLOAT16, 2, (int64_t[]){3, 5});
  model_write(g);
  ck_assert_msg(draw("-o .") == 0, "%s", said);
  ck_assert_msg(draw("-i y.npy --compare . --tolerance 0") == 0, "%s", said);
  says("input x: bf16 [3, 5]");
  says("agrees: output y");
  unlink(path_of("y.npy")), unlink(path_of("output_0.pb"));
}
END_TEST

START_TEST(refusals) {
  static const struct {
    const char *options;
    int status;
    const char *words;
  } list[] = {
      {"--draw boxes", 2, "takes boxes, mask, heat or picture"},
      {"--draw nonsense=y.png", 2, "not nonsense=y.png"},
      {"--draw heat=y.jpg", 2, "ends in .png"},
      {"--draw heat=.png", 2, "ends in .png"},
      {"--threshold 1", 2, "--threshold is for --draw boxes"},
      {"--draw heat=y.png --threshold 1", 2, "--threshold is for --draw boxes"},
      {"--draw mask=y.png --threshold 1x", 2, "1x is not what the option before it takes"},
      {"--draw-output map", 2, "which is not there"},
      {"--draw heat=y.png --list", 2, "--list runs nothing"},
      {"--draw boxes=y.png", 1, "no --input is one"},
      {"--draw heat=y.png --draw-output rows", 0, "drawn of output rows"}, /* a plane of numbers */
      {"--draw heat=y.png --draw-output classes", 1, "classes [1, 3, 2, 4]"},
      {"--draw boxes=y.png --draw-output none -i x.png", 1, "output none is not that"},
      {"--draw heat=none/y.png", 1, "none/y.png cannot be written"},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    int status = draw(list[i].options);
    ck_assert_msg(status == list[i].status, "%s: %d, %s", list[i].options, status, said);
    says(list[i].words);
    if (status) ck_assert_int_ne(access(path_of("y.png"), F_OK), 0);
    unlink(path_of("y.png"));
  }
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, boxes_of_rows);
  tcase_add_test(t, boxes_of_a_map);
  tcase_add_test(t, masks);
  tcase_add_test(t, heat);
  tcase_add_test(t, pictures);
  tcase_add_test(t, bfloat16_goes_by_float32);
  tcase_add_test(t, refusals);
}

int main(void) { return run_suite("onnx draw", add_tests); }
