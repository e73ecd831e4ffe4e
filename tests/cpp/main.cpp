/* The C++ wrapper, on every device that is in host memory. Its files are so many translation units
 * of the wrapper in one program. */
#include "support.hpp"

#include <cstdlib>
#include <new>

/* What the program asks for, so that a call can be seen to ask for nothing. */
static unsigned long requests = 0;
void *operator new(std::size_t bytes) {
  ++requests;
  if (void *p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

static void test_cost() {
  const auto x = tenon::tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  tenon::tensor y = tenon::add(x, x);
  auto call = tenon::prepare::add(y, x, x);
  const unsigned long before = requests;
  for (int i = 0; i < 100; ++i) {
    tenon::tensor z = tenon::softmax(x + x, tenon::softmax_attrs().with_axis(0));
    z = tenon::concat({x, z}, tenon::concat_attrs().with_axis(1));
    const auto [top, index] = tenon::topk_all(z);
    tenon::into::add(y, x, x);
    y = tenon::sum(y.transpose().reshape({3, 2}).slice(0, 0, 2));
    y = x.clone();
    call();
    CHECK(top && index);
  }
  CHECK(requests == before);
}

int main() try {
  tenon::runtime rt(tenon::options().plugins("reference,cpu"));
  for (tenon::device d : rt.devices()) {
    std::printf("on %s\n", d.id());
    tenon::device_scope on(d);
    test_handles(rt);
    test_tensors(rt);
    test_operators(rt);
    test_arithmetic(rt);
    test_cost();
  }
  CHECK(rt.devices().size() >= 1);
  std::printf("%d failures\n", failures);
  return failures != 0;
} catch (const tenon::error &e) {
  std::printf("thrown: %s\n", e.what());
  return 1;
}
