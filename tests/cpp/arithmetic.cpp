/* C++'s operators on tensors and numbers, and tensors of a value. */
#include "support.hpp"

#include <limits>

using tenon::scalar;
using tenon::tensor;

static void test_floats() {
  const tensor a = tensor::from<float>({2}, {1, 2}), b = tensor::from<float>({2}, {4, 2});
  CHECK(has<float>(a + b, {5, 4}) && has<float>(a - b, {-3, 0}) && has<float>(a * b, {4, 4}) &&
        has<float>(a / b, {0.25f, 1}) && has<float>(-a, {-1, -2}));
  CHECK(has<float>(a + 1, {2, 3}) && has<float>(1 - a, {0, -1}) && has<float>(a * 2.5, {2.5f, 5}) &&
        has<float>(2 / a, {2, 1}) && has<float>(a / 2u, {0.5f, 1}));
  CHECK(has<bool>(a == b, {false, true}) && has<bool>(a != b, {true, false}) &&
        has<bool>(a < b, {true, false}) && has<bool>(a <= 1, {true, false}) &&
        has<bool>(1 < a, {false, true}) && has<bool>(a > 1, {false, true}) &&
        has<bool>(a >= b, {false, true}) && has<bool>(2 == a, {false, true}) &&
        has<bool>(1 != a, {false, true}));
  tensor c = a.clone();
  (c += b) *= 2;
  CHECK(has<float>(c, {10, 8}));
  (c -= 2) /= a;
  CHECK(has<float>(c, {8, 3}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "tn_add", a + tensor::from<float>({3}, {1, 2, 3}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "tn_add", c += tensor::from<double>({2}, {1, 2}));
  CHECK(has<float>(c, {8, 3}));
}

static void test_types() {
  CHECK(has<std::int64_t>(tensor::from<std::int64_t>({1}, {5}) * ((1ll << 62) + 1),
                          {static_cast<std::int64_t>(5 * ((1ull << 62) + 1))}));
  CHECK(has<std::uint8_t>(tensor::from<std::uint8_t>({1}, {5}) + 250.0, {255}));
  CHECK(scalar(0.1, tenon::f16).item<tenon::float16>().bits == 0x2e66);
  CHECK(scalar(0.1, tenon::bf16).item<tenon::bfloat16>().bits == 0x3dcd);
  CHECK(scalar(0.1, tenon::f64).item<double>() == 0.1);
  CHECK(scalar(3, tenon::boolean).item<bool>() && !scalar(0.0, tenon::boolean).item<bool>());
  CHECK(scalar(std::numeric_limits<std::int64_t>::min(), tenon::i64).item<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(scalar(-128.0, tenon::i8).item<std::int8_t>() == -128);
}

static void test_refusals() {
  const char *words = "tn_scalar";
  THROWS(TN_ERR_INVALID_ARGUMENT, words, tensor::from<std::int32_t>({1}, {1}) + 2.5);
  THROWS(TN_ERR_INVALID_ARGUMENT, words, scalar(256, tenon::u8));
  THROWS(TN_ERR_INVALID_ARGUMENT, words, scalar(-1, tenon::u8));
  THROWS(TN_ERR_INVALID_ARGUMENT, words, scalar(128.0, tenon::i8));
  THROWS(TN_ERR_INVALID_ARGUMENT, words, scalar(9223372036854775808.0, tenon::i64));
  THROWS(TN_ERR_INVALID_ARGUMENT, words, scalar(9223372036854775808u, tenon::i64));
  THROWS(TN_ERR_INVALID_ARGUMENT, words,
         scalar(std::numeric_limits<float>::quiet_NaN(), tenon::i32));
  THROWS(TN_ERR_INVALID_ARGUMENT, words,
         scalar(std::numeric_limits<double>::infinity(), tenon::u8));
}

static void test_filled() {
  CHECK(has<float>(tenon::full({2}, 1.5, tenon::f32), {1.5f, 1.5f}));
  CHECK(has<std::int64_t>(tenon::ones({1, 2}, tenon::i64), {1, 1}));
  CHECK(has<bool>(tenon::zeros({2}, tenon::boolean), {false, false}));
  CHECK(tenon::zeros({0, 4}, tenon::f32).elements() == 0);
  CHECK(tenon::full({}, 7, tenon::i32).item<std::int32_t>() == 7);
  CHECK(tenon::full({3}, 7, tenon::i32).is_contiguous());
  const tensor x = tensor::from<std::int32_t>({1, 2}, {1, 2});
  CHECK(has<std::int32_t>(tenon::zeros_like(x), {0, 0}) &&
        has<std::int32_t>(tenon::ones_like(x), {1, 1}) &&
        has<std::int32_t>(tenon::full_like(x, 4.0), {4, 4}) &&
        tenon::empty_like(x).shape() == x.shape());
  THROWS(TN_ERR_INVALID_ARGUMENT, "", tenon::full_like(x, 0.5));
  THROWS(TN_ERR_INVALID_ARGUMENT, "read-only", tenon::fill(scalar(1, tenon::f32)));
}

void test_arithmetic(const tenon::runtime &) {
  test_floats();
  test_types();
  test_refusals();
  test_filled();
}
