/*
 * Convolutions that take up an image which is added to their result, as blocks with a residual end:
 * where the result is the calls', and where they must not.
 */
#include "tests/graph/fused.h"

/* A convolution with other numbers, which is no equal of windows'. */
static tn_tensor *other_windows(const operands *o) {
  operands other = *o;
  other.s = NULL;
  tn_tensor *h;
  ok(tn_tanh(NULL, o->s, &other.s));
  h = windows(&other, false);
  tn_tensor_release(other.s);
  return h;
}
/* An image of the convolutions' shape that no convolution makes. */
static tn_tensor *plain_image(const operands *o) {
  tn_tensor *h = other_windows(o), *z = NULL;
  ok(tn_tanh(NULL, h, &z));
  tn_tensor_release(h);
  return z;
}

static void sum_and_relu(const operands *o, tn_tensor *out[2]) {
  tn_tensor *z = plain_image(o), *h = windows(o, false), *t = NULL;
  ok(tn_add(NULL, h, z, &t));
  ok(tn_relu(NULL, t, &out[0]));
  RELEASE(z, h, t);
}
static void image_first(const operands *o, tn_tensor *out[2]) {
  tn_tensor *z = plain_image(o), *h = windows(o, false);
  ok(tn_add(NULL, z, h, &out[0]));
  RELEASE(z, h);
}
/* The image is there only behind the convolution. */
static void image_behind(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *z = plain_image(o), *t = NULL;
  ok(tn_add(NULL, h, z, &t));
  ok(tn_silu(NULL, t, &out[0]));
  RELEASE(z, h, t);
}
/* Either convolution could take the other's result up: one does, once. */
static void two_convolutions(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *z = other_windows(o), *t = NULL;
  ok(tn_add(NULL, h, z, &t));
  ok(tn_relu(NULL, t, &out[0]));
  RELEASE(z, h, t);
}
/* A block behind a block: what the first gives is both read and added. */
static void two_blocks(const operands *o, tn_tensor *out[2]) {
  tn_tensor *w = NULL, *z = windows(o, false), *h = other_windows(o), *t = NULL, *first = NULL,
            *second = NULL;
  ok(tn_add(NULL, h, z, &t));
  ok(tn_relu(NULL, t, &first));
  tn_tensor_release(t);
  t = NULL;
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, N, 1, 1), &w));
  ok(tn_conv2d(NULL, first, w, NULL, NULL, &second));
  ok(tn_add(NULL, second, first, &t));
  ok(tn_relu(NULL, t, &out[0]));
  RELEASE(w, z, h, t, first, second);
}
static void bias_then_image(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *b = NULL, *h = NULL, *t = NULL, *z = plain_image(o);
  ok(tn_tensor_reshape(o->x, 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, 1, 2, 2), &w));
  ok(tn_tensor_reshape(o->b, 3, SHAPE(N, 1, 1), &b));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &h));
  ok(tn_add(NULL, h, b, &t));
  ok(tn_add(NULL, t, z, &out[0]));
  RELEASE(x, w, b, h, t, z);
}
static void image_then_bias(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *b = NULL, *h = NULL, *t = NULL, *z = plain_image(o);
  ok(tn_tensor_reshape(o->x, 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, 1, 2, 2), &w));
  ok(tn_tensor_reshape(o->b, 3, SHAPE(N, 1, 1), &b));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &h));
  ok(tn_add(NULL, h, z, &t));
  ok(tn_add(NULL, t, b, &out[0]));
  RELEASE(x, w, b, h, t, z);
}
static void in_place(const operands *o, tn_tensor *out[2]) {
  tn_tensor *z = plain_image(o);
  out[0] = windows(o, false);
  ok(tn_add(NULL, out[0], z, &out[0]));
  ok(tn_relu(NULL, out[0], &out[0]));
  tn_tensor_release(z);
}
static void called_itself(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *h = NULL, *z = plain_image(o);
  ok(tn_tensor_reshape(o->x, 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, 1, 2, 2), &w));
  ok(tn_conv2d_add(NULL, x, w, NULL, z, NULL, &h));
  ok(tn_relu(NULL, h, &out[0]));
  RELEASE(x, w, h, z);
}
/* --- that stay --- */
static void onto_the_image(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false);
  out[0] = plain_image(o);
  ok(tn_add(NULL, h, out[0], &out[0]));
  tn_tensor_release(h);
}
static void twice_itself(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false);
  ok(tn_add(NULL, h, h, &out[0]));
  tn_tensor_release(h);
}
static void read_besides(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *z = plain_image(o);
  ok(tn_add(NULL, h, z, &out[0]));
  ok(tn_tanh(NULL, h, &out[1]));
  RELEASE(h, z);
}
static void activated_before(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *z = plain_image(o), *t = NULL;
  ok(tn_relu(NULL, h, &t));
  ok(tn_add(NULL, t, z, &out[0]));
  RELEASE(h, z, t);
}
static void plane_of_all(const operands *o, tn_tensor *out[2]) {
  tn_tensor *h = windows(o, false), *z = plain_image(o), *plane = NULL;
  ok(tn_tensor_slice(z, 1, 0, 1, 1, &plane));
  ok(tn_add(NULL, h, plane, &out[0]));
  RELEASE(h, z, plane);
}
/* The image changes between convolution and sum, and an operand too: neither place will do. */
static void nowhere_to_go(const operands *o, tn_tensor *out[2]) {
  tn_tensor *x = NULL, *w = NULL, *h = NULL, *z = plain_image(o);
  ok(tn_neg(NULL, o->x, &out[1]));
  ok(tn_tensor_reshape(out[1], 4, SHAPE(1, 1, M, K), &x));
  ok(tn_tensor_reshape(o->s, 4, SHAPE(N, 1, 2, 2), &w));
  ok(tn_conv2d(NULL, x, w, NULL, NULL, &h));
  ok(tn_neg(NULL, out[1], &out[1]));
  ok(tn_neg(NULL, z, &z));
  ok(tn_add(NULL, h, z, &out[0]));
  RELEASE(x, w, h, z);
}

static const struct {
  model make;
  uint32_t fused;
} cases[] = {
    {sum_and_relu, 2},     {image_first, 1},     {image_behind, 2},    {two_convolutions, 2},
    {two_blocks, 4},       {bias_then_image, 2}, {image_then_bias, 2}, {in_place, 2},
    {called_itself, 1},    {onto_the_image, 0},  {twice_itself, 0},    {read_besides, 0},
    {activated_before, 1}, {plane_of_all, 0},    {nowhere_to_go, 0},
};

START_TEST(what_is_taken_up) { takes_up(cases[_i].make, cases[_i].fused); }
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_loop_test(tcase, what_is_taken_up, 0, (int)(sizeof cases / sizeof *cases));
}

int main(void) { return run_suite("graph_fused_sums", add_tests); }
