/* Operators: every function compiles, and each kind of argument reaches the C function. */
#include "support.hpp"

using tenon::tensor;

/* Every operator of the table has its three functions, and every attribute its setter. */
template <class... F> static int count(F...) { return sizeof...(F); }
static int count_functions() {
  int functions = 0;
#define OP(id, name, ...)                                                                          \
  functions += count(&tenon::name, &tenon::into::name, &tenon::prepare::name);
#include "ops.def"
  return functions;
}

static bool near(const tensor &t, const std::vector<float> &values) {
  const auto got = t.to_vector<float>();
  if (got.size() != values.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(got[i] - values[i] < 1e-5f && values[i] - got[i] < 1e-5f)) return false;
  return true;
}

static void test_attributes() {
  const tensor x = tensor::from<float>({2, 2}, {1, 2, 3, 4});
  CHECK(has<float>(tenon::sum(x), {10}));
  CHECK(has<float>(tenon::sum(x, tenon::sum_attrs().with_axes({0})), {4, 6}));
  const auto kept = tenon::sum_attrs().with_axes({-1}).with_keepdims(true);
  CHECK(tenon::sum(x, kept).shape() == tenon::extents({2, 1}));
  CHECK(
      has<std::int32_t>(tenon::cast(x, tenon::cast_attrs().with_dtype(tenon::i32)), {1, 2, 3, 4}));
  CHECK(
      has<float>(tenon::tile(x, tenon::tile_attrs().with_reps({1, 2})), {1, 2, 1, 2, 3, 4, 3, 4}));
  CHECK(has<float>(tenon::clamp(x, {2, 3}), {2, 2, 3, 3}));
  const tensor image = x.reshape({1, 1, 2, 2}), filter = tenon::ones({1, 1, 1, 1}, tenon::f32);
  CHECK(tenon::conv2d(image, filter, {}, tenon::conv2d_attrs().with_stride(2)).elements() == 1);
  CHECK(tenon::conv2d(image, filter, {}, tenon::conv2d_attrs().with_stride({1, 2})).size(2) == 2);
  CHECK(tenon::conv2d(image, filter, {}, tenon::conv2d_attrs().with_padding({0, 1})).size(3) == 4);
  const std::vector<std::int32_t> nine(9, 0);
  THROWS(TN_ERR_INVALID_ARGUMENT, "more numbers", tenon::axis_list(nine));
  CHECK(tenon::axis_list(std::vector<std::int32_t>{1, 0}).c_list().axis[0] == 1);
  CHECK(tenon::softmax_attrs().c_attrs().struct_size == sizeof(tn_softmax_attrs));
  CHECK(tenon::avg_pool2d_attrs().count_padding);
  /* A result of another type, a gradient of a loss left out, an attribute of two names. */
  const tensor bytes = tensor::from<std::int8_t>({2}, {100, 100});
  CHECK(has<std::int64_t>(tenon::sum(bytes, tenon::sum_attrs().with_dtype(tenon::i64)), {200}));
  CHECK(
      has<float>(tenon::mse_loss_grad({}, x, tenon::zeros({2, 2}, tenon::f32)), {0.5, 1, 1.5, 2}));
  CHECK(tenon::bernoulli_attrs().with_p(0.25).c_attrs().probability == 0.25);
#if __cplusplus >= 202002L
  CHECK(has<float>(tenon::sum(x, {.axes = {1}, .keepdims = true}), {3, 7}));
  CHECK(tenon::conv2d(image, filter, {}, {.stride = {1, 2}, .padding = 1}).size(2) == 4);
  CHECK(near(tenon::softmax(x, {.axis = 0}), {0.119203f, 0.119203f, 0.880797f, 0.880797f}));
#endif
}

static void test_optional_inputs() {
  const tensor x = tensor::from<float>({1, 2}, {1, 3}), none;
  const tensor weight = tensor::from<float>({2}, {2, 2}), bias = tensor::from<float>({2}, {1, 1});
  const auto plain = tenon::layer_norm(x).to_vector<float>();
  CHECK(near(tenon::layer_norm(x, weight, bias), {2 * plain[0] + 1, 2 * plain[1] + 1}));
  CHECK(near(tenon::layer_norm(x, {}, bias), {plain[0] + 1, plain[1] + 1}));
  CHECK(near(tenon::layer_norm(x, nullptr, &bias), {plain[0] + 1, plain[1] + 1}));
  CHECK(near(tenon::layer_norm(x, none, none), plain));
}

static void test_outputs() {
  const tensor x = tensor::from<float>({4}, {0, 3, 0, 2});
  const auto [index, number] = tenon::nonzero(x);
  CHECK(index.size(0) == 2 && number.item<std::int64_t>() == 2);
  const tensor top = tenon::topk(x, tenon::topk_attrs().with_k(2));
  CHECK(has<float>(top, {3, 2}));
  const auto all = tenon::topk_all(x, tenon::topk_attrs().with_k(2));
  CHECK(has<float>(all.y, {3, 2}) && has<std::int64_t>(all.index, {1, 3}));
  tensor made, where;
  tenon::into::topk(made, {}, x, tenon::topk_attrs().with_k(1));
  tenon::into::topk(made, where, x, tenon::topk_attrs().with_k(1));
  CHECK(has<float>(made, {3}) && has<std::int64_t>(where, {1}));
  tensor given = tenon::zeros({2, 4}, tenon::f32);
  tn_tensor *handle = given.get();
  tenon::into::add(given.slice(0, 1, 2).reshape({4}), x, x);
  CHECK(has<float>(given, {0, 0, 0, 0, 0, 6, 0, 4}) && given.get() == handle);
  THROWS(TN_ERR_INVALID_ARGUMENT, "tn_add", tenon::into::add(given, x, x));
  CHECK(has<float>(given, {0, 0, 0, 0, 0, 6, 0, 4}) && given.get() == handle);
  THROWS(TN_ERR_INVALID_ARGUMENT, "tn_matmul", tenon::matmul(given, given));
  THROWS(TN_ERR_INVALID_ARGUMENT, "tn_neg", tenon::neg(tensor()));
}

static void test_updates() {
  tensor y = tensor::empty({3}, tenon::f32);
  tenon::fill(y, tenon::fill_attrs().with_value(5));
  tenon::into::fill(y.slice(0, 0, 1), {1});
  CHECK(has<float>(y, {1, 5, 5}));
  tenon::arange(y, tenon::arange_attrs().with_start(2));
  CHECK(has<float>(y, {2, 3, 4}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "NULL", tenon::fill(tensor()));
}

static void test_lists() {
  tensor a = tensor::from<float>({1}, {1}), b = tensor::from<float>({2}, {2, 3});
  CHECK(has<float>(tenon::concat({a, b, a}), {1, 2, 3, 1}));
  CHECK(has<float>(tenon::concat(std::vector<tensor>{b, a}), {2, 3, 1}));
  CHECK(has<float>(tenon::concat(std::array<tensor, 2>{a, a}), {1, 1}));
  CHECK(has<float>(tenon::stack({b, b}, tenon::stack_attrs().with_axis(1)), {2, 2, 3, 3}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "tn_concat", tenon::concat(std::vector<tensor>{}));
  std::vector<tensor> params = {a.clone(), b.clone()}, grads = {a, b};
  std::vector<tensor> m = {tenon::zeros({1}, tenon::f32), tenon::zeros({2}, tenon::f32)};
  tenon::multi_sgd(grads, params, m, tenon::multi_sgd_attrs().with_lr(0.5));
  CHECK(has<float>(params[1], {1, 1.5f}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "different lengths", tenon::multi_sgd({a}, params, m));
  tensor joined;
  auto call = tenon::prepare::concat(joined, {a, b});
  tenon::into::add(a, a, a);
  call.run();
  CHECK(has<float>(joined, {2, 2, 3}));
}

static void test_random(const tenon::runtime &rt) {
  tenon::generator random(rt, 7);
  tensor x = tensor::empty({4}, tenon::f32), y = tensor::empty({4}, tenon::f32);
  tenon::uniform(x, random.next(x, tenon::uniform_attrs().with_high(9)));
  const auto place = random.get_state();
  CHECK(place.seed == 7 && place.offset == 1);
  tenon::uniform(y, random.next(y, tenon::uniform_attrs().with_high(9)));
  CHECK(x.to_vector<float>() != y.to_vector<float>());
  random.set_state({7, 0});
  const auto attrs = random.next(y, tenon::uniform_attrs().with_high(9));
  CHECK(attrs.seed == 7 && attrs.offset == 0 && attrs.high == 9);
  tenon::uniform(y, attrs);
  CHECK(x.to_vector<float>() == y.to_vector<float>());
  CHECK(random.reserve(10).offset == 1 && random.get_state().offset == 11);
}

static void test_prepared() {
  tensor x = tensor::from<float>({2}, {1, 2}), y, z = tenon::zeros({2}, tenon::f32);
  tenon::prepared call = tenon::prepare::clamp(y, x, tenon::clamp_attrs().with_min(2));
  call();
  CHECK(has<float>(y, {2, 2}) && call && std::strlen(call.kernel().name) > 0);
  call.set_attrs(tenon::clamp_attrs().with_max(1));
  x = tensor(); /* kept by the call */
  call.run();
  CHECK(has<float>(y, {1, 1}));
  tenon::prepared moved = std::move(call);
  CHECK(!call && moved.get());
  moved.run();
  THROWS(TN_ERR_INVALID_ARGUMENT, "", call.run());
  auto filling = tenon::prepare::fill(z, {4});
  filling();
  CHECK(has<float>(z, {4, 4}));
  tensor top, index;
  tenon::prepare::topk(top, {}, y)();
  tenon::prepare::topk(top, index, y)();
  CHECK(has<std::int64_t>(index, {0}) && has<float>(top, {1}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "", tenon::prepare::add(y, tensor(), z));
}

void test_operators(const tenon::runtime &rt) {
  CHECK(count_functions() == 3 * static_cast<int>(tn_op_count(rt.get())));
  test_attributes();
  test_optional_inputs();
  test_outputs();
  test_updates();
  test_lists();
  test_prepared();
  test_random(rt);
}
