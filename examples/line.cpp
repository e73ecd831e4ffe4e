/* Fits a line to points by gradient descent, on the device that TENON_DEVICE names. C++17. */
#include <cstdio>
#include <vector>

#include "tenon/tenon.hpp"

int main() try {
  tenon::runtime runtime;
  tenon::device_scope on(runtime.device());

  std::vector<float> xs, ys; // y = 3 x - 2, and a little more or less
  for (int i = 0; i < 200; ++i) {
    xs.push_back(static_cast<float>(i) / 100 - 1);
    ys.push_back(3 * xs.back() - 2 + (i % 2 ? 0.1f : -0.1f));
  }
  const auto x = tenon::tensor::from<float>({200}, xs);
  const auto y = tenon::tensor::from<float>({200}, ys);

  auto slope = tenon::zeros({}, tenon::f32), offset = tenon::zeros({}, tenon::f32);
  for (int step = 0; step < 100; ++step) {
    const auto error = x * slope + offset - y;
    slope -= tenon::mean(error * x) * 0.5;
    offset -= tenon::mean(error) * 0.5;
  }
  std::printf("%s found y = %.2f x %+.2f\n", runtime.device().name(), slope.item<float>(),
              offset.item<float>());
  return std::fflush(stdout) == 0 ? 0 : 1;
} catch (const tenon::error &e) {
  std::fprintf(stderr, "line: %s\n", e.what());
  return 1;
}
