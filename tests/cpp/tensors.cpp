/* Tensors: references to them, views, copies, values of every type, DLPack. */
#include "support.hpp"

#include <sstream>

using tenon::tensor;

static void test_references() {
  tensor none, a = tensor::from<float>({3}, {1, 2, 3});
  CHECK(!none && !none.get() && a);
  tensor b = a;
  CHECK(b.get() == a.get());
  tensor &self = b;
  b = self;
  CHECK(has<float>(b, {1, 2, 3}));
  b = std::move(self);
  CHECK(has<float>(b, {1, 2, 3}));
  tensor c = std::move(b);
  CHECK(!b && c.get() == a.get());
  b = c;
  c = tensor();
  CHECK(!c && b.get() == a.get());
  swap(b, c);
  CHECK(!b && c);
  tensor shared = tensor::share(c.get());
  tn_tensor *raw = c.release();
  CHECK(!c);
  tensor adopted = tensor::adopt(raw);
  a = shared = tensor();
  CHECK(has<float>(adopted, {1, 2, 3})); /* the last reference */
  tensor::share(nullptr);
  std::vector<tensor> many(10, adopted);
  many.insert(many.begin(), many[3]);
  many.erase(many.begin() + 2, many.end());
  CHECK(many[1].get() == adopted.get());
}

template <class T> static void test_type(tn_dtype type) {
  const std::vector<T> values = {T(0), T(1), T(1), T(0)};
  tensor t = tensor::from<T>({2, 2}, values);
  CHECK(t.dtype() == type && tenon::dtype_of<T>() == type);
  CHECK(t.to_vector<T>() == values && t.slice(0, 0, 1).slice(1, 1, 2).template item<T>() == T(1));
  CHECK(t.template data<T>()[1] == T(1) && t.template data<const T>()[3] == T(0));
  T back[4];
  t.copy_to(back, 4);
  CHECK(back[2] == T(1));
  back[0] = T(1);
  t.write(back, 4);
  CHECK((t.template to_vector<T>() == std::vector<T>{T(1), T(1), T(1), T(0)}));
}

static void test_values() {
  test_type<bool>(tenon::boolean);
  test_type<std::uint8_t>(tenon::u8);
  test_type<std::int8_t>(tenon::i8);
  test_type<std::int16_t>(tenon::i16);
  test_type<std::int32_t>(tenon::i32);
  test_type<std::int64_t>(tenon::i64);
  test_type<long long>(tenon::i64);
  test_type<float>(tenon::f32);
  test_type<double>(tenon::f64);
  tensor half = tensor::from<tenon::float16>({1}, {{0x3c00}});
  CHECK(half.item<tenon::float16>().bits == 0x3c00 && half.to(tenon::f32).item<float>() == 1);
  CHECK(tensor::from<tenon::bfloat16>({}, {{0x4000}}).to(tenon::f64).item<double>() == 2);
  CHECK(tensor::from<float>({0, 3}, std::vector<float>{}).to_vector<float>().empty());
  const float *nothing = nullptr;
  THROWS(TN_ERR_INVALID_ARGUMENT, "", tensor::from<float>({2}, nothing));
  THROWS(TN_ERR_INVALID_ARGUMENT, "3 values given for a shape of 4",
         tensor::from<float>({2, 2}, {1, 2, 3}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "negative", tensor::from<float>({-2}, {1, 2}));
  tensor x = tensor::from<float>({2}, {1, 2});
  THROWS(TN_ERR_INVALID_ARGUMENT, "f32 taken for f64", x.to_vector<double>());
  THROWS(TN_ERR_INVALID_ARGUMENT, "f32 taken for i32", x.data<int>());
  THROWS(TN_ERR_INVALID_ARGUMENT, "2 elements", x.item<float>());
  THROWS(TN_ERR_INVALID_ARGUMENT, "", x.write(std::vector<float>{1}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "NULL", tensor().clone());
  x.write(std::vector<float>{3, 4});
  CHECK(has<float>(x, {3, 4}));
}

static void test_views() {
  const tensor x = tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.rank() == 2 && x.elements() == 6 && x.bytes() == 24 && x.is_contiguous());
  CHECK(x.shape() == tenon::extents({2, 3}) && x.strides() == tenon::extents({3, 1}));
  CHECK(x.shape() != tenon::extents({2}) && x.size(0) == 2 && x.size(-1) == 3);
  CHECK(x.shape().to_vector() == std::vector<std::int64_t>{2, 3});
  std::int64_t product = 1;
  for (std::int64_t size : x.shape()) product *= size;
  CHECK(product == 6 && x.shape()[1] == 3);
  CHECK(has<float>(x.transpose(), {1, 4, 2, 5, 3, 6}) && !x.transpose().is_contiguous());
  CHECK(has<float>(x.transpose(0, -1).contiguous(), {1, 4, 2, 5, 3, 6}));
  CHECK(has<float>(x.permute({1, 0}), {1, 4, 2, 5, 3, 6}));
  CHECK(has<float>(x.slice(1, 0, 3, 2), {1, 3, 4, 6}));
  CHECK(x.reshape({-1}).shape() == tenon::extents({6}));
  CHECK(x.reshape(std::vector<std::int64_t>{3, 2}).size(0) == 3);
  CHECK(x.reshape(std::array<std::int64_t, 3>{1, 2, 3}).rank() == 3);
  CHECK(has<float>(x.slice(0, 0, 1).expand({2, 3}), {1, 2, 3, 1, 2, 3}));
  const auto halves = x.split(0, 2);
  CHECK(halves.size() == 2 && has<float>(halves[1], {4, 5, 6}));
  CHECK(has<float>(x.split(1, {1, 2})[1], {2, 3, 5, 6}));
  CHECK(has<float>(x.split(1, std::vector<std::int64_t>{2, 1})[1], {3, 6}));
  CHECK(has<float>(x[1], {4, 5, 6}) && x[0][2].item<float>() == 3);
  CHECK(has<float>(x.select(-1, -1), {3, 6}));
  CHECK(x.unsqueeze(0).rank() == 3 && x.unsqueeze(-1).squeeze(2).shape() == x.shape());
  THROWS(TN_ERR_INVALID_ARGUMENT, "", x[2]);
  THROWS(TN_ERR_INVALID_ARGUMENT, "", x.squeeze(0));
  THROWS(TN_ERR_INVALID_ARGUMENT, "", x.split(0, 3));
  THROWS(TN_ERR_INVALID_ARGUMENT, "", x.reshape({4}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "axis 2", x.size(2));
  THROWS(TN_ERR_INVALID_ARGUMENT, "axis -3", x.transpose(-3, 0));
  THROWS(TN_ERR_INVALID_ARGUMENT, "3 axes", x.permute({0, 1, 2}));
  THROWS(TN_ERR_INVALID_ARGUMENT, "", x.permute({0, 0}));
  tensor copy = x.clone(), same = x;
  copy += 1;
  CHECK(has<float>(x, {1, 2, 3, 4, 5, 6}));
  same += 1;
  CHECK(has<float>(x, {2, 3, 4, 5, 6, 7}) && has<float>(copy, {2, 3, 4, 5, 6, 7}));
  CHECK(x.to(tenon::f32).get() == x.get() && x.to(tenon::i64).dtype() == tenon::i64);
  CHECK(x.contiguous().get() == x.get());
}

static void test_devices(const tenon::runtime &rt) {
  const tensor x = tensor::from<float>({2}, {1, 2});
  for (tenon::device d : rt.devices()) {
    tensor there = x.to(d);
    CHECK(there.device() == d && has<float>(there, {1, 2}));
  }
}

static void test_text() {
  const tensor x = tensor::from<float>({2}, {1, 2.5f});
  const std::string text = tenon::to_string(x);
  std::ostringstream out;
  out << x;
  CHECK(out.str() == text && text.find("f32 [2]") != std::string::npos);
  CHECK(text.find("2.5000") != std::string::npos && text.back() == ']');
  CHECK(tenon::to_string(x, {1}).find("2.5000") == std::string::npos);
  THROWS(TN_ERR_INVALID_ARGUMENT, "", tenon::to_string(tensor()));
}

static void test_dlpack(const tenon::runtime &rt) {
  const tensor x = tensor::from<float>({2, 2}, {1, 2, 3, 4});
  tenon::dlpack given = x.transpose().to_dlpack();
  CHECK(given->dl_tensor.ndim == 2 && given->dl_tensor.strides[0] == 1);
  tensor back = tensor::from_dlpack(rt, std::move(given));
  CHECK(!given && has<float>(back, {1, 3, 2, 4}) && back.data() == x.data());
  tensor old = tensor::from_dlpack(rt, x.to_dlpack_unversioned());
  CHECK(old.data() == x.data());
  tenon::dlpack ordered = x.to_dlpack(TN_DLPACK_STREAM_NONE);
  CHECK(tensor::from_dlpack(rt, std::move(ordered), TN_DLPACK_STREAM_NONE).data() == x.data());
  tenon::dlpack kept = x.to_dlpack();
  kept->version.major = 99;
  THROWS(TN_ERR_UNSUPPORTED, "99", tensor::from_dlpack(rt, std::move(kept)));
  CHECK(kept); /* whose deleter runs here */
  THROWS(TN_ERR_INVALID_ARGUMENT, "", tensor().to_dlpack());
}

void test_tensors(const tenon::runtime &rt) {
  test_references();
  test_values();
  test_views();
  test_devices(rt);
  test_text();
  test_dlpack(rt);
}
