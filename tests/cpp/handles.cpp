/* Runtimes with callbacks, devices, streams, events, scopes. */
#include "support.hpp"

#include <cstring>
#include <thread>

static void test_options() {
  THROWS(TN_ERR_NOT_FOUND, "nosuch", tenon::runtime(tenon::options().device("nosuch:3")));
  THROWS(TN_ERR_NOT_FOUND, "nosuch", tenon::runtime(tenon::options().layers("nosuch")));
  int lines = 0, loops = 0;
  {
    tenon::runtime rt(tenon::options()
                          .plugins("reference")
                          .device("reference")
                          .log_level(TN_LOG_DEBUG)
                          .on_log([&](tn_log_level level, const char *line) {
                            lines += level <= TN_LOG_DEBUG && line[0] != 0;
                            throw 1; /* goes no further */
                          })
                          .on_out_of_memory([](auto, std::size_t) { return false; })
                          .parallel(2, [&](auto n, auto, auto body) {
                            ++loops, body(0, n / 2), body(n / 2, n);
                          }));
    tenon::runtime moved = std::move(rt);
    CHECK(!rt.get() && moved.device().type() == std::string("reference"));
    auto x = tenon::full({300, 300}, 2, tenon::f32, moved.device());
    CHECK(tenon::matmul(x, x).to_vector<float>()[7] == 1200);
    rt = std::move(moved);
    CHECK(rt.get());
  }
  CHECK(lines > 0);
  bool closed = false; /* the layer reports to the log as its runtime closes */
  tenon::runtime replaced(tenon::options()
                              .plugins("reference,validate")
                              .layers("validate")
                              .log_level(TN_LOG_INFO)
                              .on_log([&](auto, const char *line) {
                                closed = closed || std::strstr(line, "nothing to report");
                              }));
  CHECK(!closed);
  replaced = tenon::runtime(tenon::options().plugins("reference"));
  CHECK(closed && replaced.get());
  tenon::runtime limited(tenon::options().plugins("cpu,reference").memory_limit(1 << 20));
  bool asked = false;
  tenon::runtime asking(tenon::options()
                            .plugins("cpu,reference")
                            .memory_limit(1 << 20)
                            .on_out_of_memory([&](tenon::device d, std::size_t bytes) {
                              asked = bytes >= 1 << 24 && d;
                              return false;
                            }));
  THROWS(TN_ERR_DEVICE_OUT_OF_MEMORY, "",
         tenon::tensor::empty({1 << 22}, tenon::f32, asking.device()));
  CHECK(asked);
  THROWS(TN_ERR_DEVICE_OUT_OF_MEMORY, "",
         tenon::tensor::empty({1 << 22}, tenon::f32, limited.device()));
}

static void test_devices(const tenon::runtime &rt) {
  tenon::device d = tenon::device::current();
  CHECK(rt.find(d.id()) == d && d != tenon::device());
  CHECK(d.has_host_memory() && std::strlen(d.name()) > 0);
  CHECK(d.memory_stats().limit == 0);
  d.synchronize();
  d.trim();
  THROWS(TN_ERR_NOT_FOUND, "nosuch", rt.find("nosuch"));
  THROWS(TN_ERR_PLUGIN_REFUSED, "/nosuch.so", rt.load_plugin("/nosuch.so"));
  THROWS(TN_ERR_NOT_FOUND, "nosuch", rt.unload_plugin("nosuch"));
  std::thread([] {
    THROWS(TN_ERR_INVALID_ARGUMENT, "device_scope", tenon::device::current());
  }).join();
}

static void test_streams() {
  tenon::device d = tenon::device::current();
  tenon::stream s(d), other(d);
  CHECK(s.device() == d && tenon::stream_ref(s) == s.get() && tenon::stream_ref(s) != other);
  tenon::event begin(d), end(d);
  CHECK(begin.query());
  begin.record(s);
  {
    tenon::stream_scope on(s);
    CHECK(tenon::stream_ref::current() == s);
    auto x = tenon::ones({4}, tenon::f32);
    {
      tenon::stream_scope inner(other);
      CHECK(tenon::stream_ref::current() == other);
    }
    CHECK(tenon::stream_ref::current() == s);
    CHECK(has<float>(x + 1, {2, 2, 2, 2}));
    end.record();
  }
  CHECK(!tenon::stream_ref::current().get());
  other.wait(end);
  end.synchronize();
  CHECK(end.query() && end.elapsed_ns_since(begin) < 60000000000u);
  s.synchronize();
  d.default_stream().synchronize();
  CHECK(d.default_stream().device() == d);
  tenon::stream wrapped = tenon::stream::wrap(d, nullptr);
  CHECK(wrapped.get() && wrapped.device() == d);
  THROWS(TN_ERR_UNSUPPORTED, "", tenon::stream::wrap(d, &wrapped));
  CHECK(tenon::stream_ref(wrapped).to_dlpack() == TN_DLPACK_STREAM_NONE);
  tenon::stream moved = std::move(s);
  CHECK(!s.get() && moved.get());
  moved = std::move(other);
  moved.synchronize();
  tenon::event again = std::move(end);
  CHECK(again.query());
  THROWS(TN_ERR_INVALID_ARGUMENT, "", tenon::stream(tenon::device()));
}

static void test_files(const tenon::runtime &rt) {
  char path[] = "/tmp/tenon-cpp-XXXXXX";
  std::fclose(fdopen(mkstemp(path), "w"));
  const auto x = tenon::tensor::from<float>({2}, {1, 2});
  tenon::save(path, {{"w", x}, {"count", tenon::scalar(7, tenon::i64)}}, {{"by", "test"}});
  {
    tenon::tensor_file file(path);
    CHECK(file.size() == 2 && file.contains("w") && !file.contains("x"));
    CHECK(std::string(file.at(0).name) == "count" && file.at(1).dtype == tenon::f32);
    CHECK(file.metadata() == tenon::texts{{"by", "test"}});
    auto all = file.load_all();
    tenon::tensor w = file.load("w", rt.device());
    file = tenon::tensor_file(path);
    CHECK(has<float>(w, {1, 2}) && all.at("count").item<std::int64_t>() == 7);
    THROWS(TN_ERR_NOT_FOUND, "no tensor 'x'", file.load("x"));
    THROWS(TN_ERR_NOT_FOUND, "", file.at(2));
  }
  THROWS(TN_ERR_INVALID_ARGUMENT, "NULL", tenon::save(path, {{"w", tenon::tensor()}}));
  std::remove(path);
  THROWS(TN_ERR_NOT_FOUND, path, tenon::tensor_file(path));
}

void test_handles(const tenon::runtime &rt) {
  test_options();
  test_devices(rt);
  test_streams();
  test_files(rt);
}
