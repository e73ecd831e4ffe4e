/* Part of tenon/tenon.hpp: opening a runtime, with callbacks. */
#ifndef TENON_CPP_RUNTIME_HPP
#define TENON_CPP_RUNTIME_HPP

#include <cstddef>
#include <functional>
#include <vector>

#include "tenon/cpp/device.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

/* The shares of a parallel loop: call it with a first index and one past the last. */
class loop_body {
public:
  loop_body(void (*body)(void *, std::int64_t, std::int64_t), void *ctx) noexcept
      : body_(body), ctx_(ctx) {}
  void operator()(std::int64_t begin, std::int64_t end) const { body_(ctx_, begin, end); }

private:
  void (*body_)(void *, std::int64_t, std::int64_t);
  void *ctx_;
};

namespace detail {
/* What a runtime calls; lives as long as its tn_runtime is open. */
struct callbacks {
  std::function<void(tn_log_level, const char *)> log;
  std::function<bool(device, std::size_t)> out_of_memory;
  std::function<void(std::int64_t, std::int64_t, loop_body)> parallel;

  /* No exception leaves into the library, which is C: a line is lost, memory was not found. One
   * from a parallel loop leaves work undone and ends the process. */
  static void call_log(void *user, tn_log_level level, const char *line) noexcept {
    try {
      static_cast<callbacks *>(user)->log(level, line);
    } catch (...) {
    }
  }
  static bool call_out_of_memory(void *user, tn_device *where, std::size_t bytes) noexcept {
    try {
      return static_cast<callbacks *>(user)->out_of_memory(where, bytes);
    } catch (...) {
      return false;
    }
  }
  static void call_parallel(void *user, std::int64_t n, std::int64_t grain,
                            void (*body)(void *, std::int64_t, std::int64_t), void *ctx) noexcept {
    static_cast<callbacks *>(user)->parallel(n, grain, loop_body(body, ctx));
  }
};
} // namespace detail

/* How to open a runtime; as tn_runtime_options, where the fields are explained.
 *     tenon::runtime rt(tenon::options().device("cuda,cpu").num_threads(4)); */
class options {
public:
  options &device(std::string value) { return device_ = std::move(value), *this; }
  options &plugin_path(std::string value) { return plugin_path_ = std::move(value), *this; }
  options &plugins(std::string value) { return plugins_ = std::move(value), *this; }
  options &layers(std::string value) { return layers_ = std::move(value), *this; }
  options &fallback(tn_fallback value) { return c_.fallback = value, *this; }
  options &num_threads(std::uint32_t value) { return c_.num_threads = value, *this; }
  options &log_level(tn_log_level value) {
    return c_.log_level = static_cast<std::uint32_t>(value) + 1, *this;
  }
  options &math(tn_math value) { return c_.math = static_cast<std::int32_t>(value) + 1, *this; }
  options &deterministic(bool value) { return c_.deterministic = value ? 1 : -1, *this; }
  options &memory_limit(std::uint64_t bytes) { return c_.memory_limit = bytes, *this; }
  options &scan(tn_scan value) { return c_.scan = value, *this; }
  options &scan_timeout_ms(std::uint32_t value) { return c_.scan_timeout_ms = value, *this; }
  /* What it points to outlives the runtime and all that came from it. */
  options &allocator(const tn_allocator *value) { return c_.allocator = value, *this; }

  /* Callbacks: what the runtime keeps until it is closed. The rules are tn_runtime_options's. */

  /* f(tn_log_level, const char *line). */
  template <class F> options &on_log(F f) { return calls_.log = std::move(f), *this; }
  /* f(tenon::device, std::size_t bytes): true to try again. */
  template <class F> options &on_out_of_memory(F f) {
    return calls_.out_of_memory = std::move(f), *this;
  }
  /* f(n, grain, body): body(begin, end) over 0 <= i < n in shares, on num_threads threads. */
  template <class F> options &parallel(std::uint32_t num_threads, F f) {
    return calls_.parallel = std::move(f), parallel_threads_ = num_threads, *this;
  }

private:
  friend class runtime;
  tn_runtime_options c_ = {};
  std::string device_, plugin_path_, plugins_, layers_;
  std::uint32_t parallel_threads_ = 0;
  detail::callbacks calls_;
};

/* A runtime: plugins, devices and what they share. */
class runtime {
public:
  /* The environment's variables, and where those are unset, the defaults. */
  runtime() : runtime(options()) {}

  explicit runtime(options o) : calls_(new detail::callbacks(std::move(o.calls_))) {
    tn_runtime_options c = o.c_;
    tn_parallel loops = {detail::callbacks::call_parallel, calls_.get(), o.parallel_threads_};
    tn_runtime *opened = nullptr;
    c.struct_size = sizeof c;
    c.device = text(o.device_);
    c.plugin_path = text(o.plugin_path_);
    c.plugins = text(o.plugins_);
    c.layers = text(o.layers_);
    if (calls_->log) c.log = detail::callbacks::call_log, c.log_user = calls_.get();
    if (calls_->out_of_memory)
      c.out_of_memory = detail::callbacks::call_out_of_memory, c.out_of_memory_user = calls_.get();
    if (calls_->parallel) c.parallel = &loops;
    check(tn_runtime_open(&c, &opened));
    p_.reset(opened);
  }

  runtime(runtime &&) noexcept = default;
  /* The runtime that was here is closed first, while its callbacks are still there. */
  runtime &operator=(runtime &&other) noexcept {
    p_ = std::move(other.p_);
    calls_ = std::move(other.calls_);
    return *this;
  }

  tn_runtime *get() const noexcept { return p_.get(); }
  /* The device that TENON_DEVICE or options chose. */
  tenon::device device() const noexcept { return tn_runtime_device(p_.get()); }
  /* "type" or "type:index". */
  tenon::device find(const char *id) const {
    tn_device *found = nullptr;
    check(tn_device_find(p_.get(), id, &found));
    return found;
  }
  /* All of them, best first. */
  std::vector<tenon::device> devices() const {
    std::vector<tenon::device> all(tn_device_count(p_.get()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = tn_device_at(p_.get(), i);
    return all;
  }
  /* An absolute path. */
  void load_plugin(const char *path) const { check(tn_runtime_load_plugin(p_.get(), path)); }
  void unload_plugin(const char *name) const { check(tn_runtime_unload_plugin(p_.get(), name)); }

private:
  struct close {
    void operator()(tn_runtime *runtime) const noexcept { tn_runtime_close(runtime); }
  };
  static const char *text(const std::string &s) { return s.empty() ? nullptr : s.c_str(); }

  std::unique_ptr<detail::callbacks> calls_; /* outlives the handle */
  std::unique_ptr<tn_runtime, close> p_;
};

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
