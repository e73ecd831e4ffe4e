/* Part of tenon/tenon.hpp: devices, streams and events. */
#ifndef TENON_CPP_DEVICE_HPP
#define TENON_CPP_DEVICE_HPP

#include <cstdint>
#include <memory>
#include <utility>

#include "tenon/cpp/error.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

class device;

/* A stream that somebody else owns, or a device's default stream where it is empty. */
class stream_ref {
public:
  constexpr stream_ref(tn_stream *handle = nullptr) noexcept : p_(handle) {}

  /* What the innermost stream_scope of this thread says. */
  static stream_ref current() noexcept;

  tn_stream *get() const noexcept { return p_; }
  /* pre: not empty, of these. */
  inline tenon::device device() const;
  void synchronize() const { check(tn_stream_synchronize(p_)); }
  /* Later work waits until the event's point has passed; the caller does not wait. */
  void wait(tn_event *event) const { check(tn_stream_wait_event(p_, event)); }
  void *native() const noexcept { return tn_stream_native(p_); }
  /* The number by which a producer of DLPack's structs is told of it. */
  std::int64_t to_dlpack() const noexcept { return tn_stream_to_dlpack(p_); }

  friend bool operator==(stream_ref a, stream_ref b) noexcept { return a.p_ == b.p_; }
  friend bool operator!=(stream_ref a, stream_ref b) noexcept { return a.p_ != b.p_; }

private:
  tn_stream *p_;
};

/* A device of a runtime. It belongs to the runtime; copies are the same device. */
class device {
public:
  constexpr device(tn_device *handle = nullptr) noexcept : p_(handle) {}

  /* What the innermost device_scope of this thread says. Throws where there is none. */
  static device current();

  tn_device *get() const noexcept { return p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }

  /* The texts in it belong to the device. */
  tn_device_info info() const {
    tn_device_info filled = {};
    filled.struct_size = sizeof filled;
    check(tn_device_get_info(p_, &filled));
    return filled;
  }
  const char *id() const { return info().id; }     /* "cuda:1", what TENON_DEVICE takes */
  const char *type() const { return info().type; } /* "cuda" */
  const char *name() const { return info().name; }
  /* Whether the host may read its tensors in place. */
  bool has_host_memory() const { return info().host_memory != 0; }

  void synchronize() const { check(tn_device_synchronize(p_)); }
  stream_ref default_stream() const noexcept { return tn_device_default_stream(p_); }
  tn_memory_stats memory_stats() const {
    tn_memory_stats filled = {};
    filled.struct_size = sizeof filled;
    check(tn_device_memory_stats(p_, &filled));
    return filled;
  }
  /* Gives cached memory that is in no use back to the device. */
  void trim() const { check(tn_device_trim(p_)); }

  friend bool operator==(device a, device b) noexcept { return a.p_ == b.p_; }
  friend bool operator!=(device a, device b) noexcept { return a.p_ != b.p_; }

private:
  tn_device *p_;
};

inline device stream_ref::device() const { return tn_stream_device(p_); }

namespace detail {
struct stream_destroy {
  void operator()(tn_stream *stream) const noexcept { tn_stream_destroy(stream); }
};
struct event_destroy {
  void operator()(tn_event *event) const noexcept { tn_event_destroy(event); }
};
} // namespace detail

/* A queue of a device's work. Its end waits for that work. */
class stream {
public:
  explicit stream(tenon::device where) {
    tn_stream *made = nullptr;
    check(tn_stream_create(where.get(), &made));
    p_.reset(made);
  }

  /* A stream around a handle of the vendor's, which stays its owner's; see tn_stream_wrap. */
  static stream wrap(tenon::device where, void *handle) {
    stream made;
    tn_stream *wrapped = nullptr;
    check(tn_stream_wrap(where.get(), handle, &wrapped));
    made.p_.reset(wrapped);
    return made;
  }

  tn_stream *get() const noexcept { return p_.get(); }
  operator stream_ref() const noexcept { return p_.get(); }
  tenon::device device() const { return tn_stream_device(p_.get()); }
  void synchronize() const { check(tn_stream_synchronize(p_.get())); }
  void wait(tn_event *event) const { check(tn_stream_wait_event(p_.get(), event)); }
  void *native() const noexcept { return tn_stream_native(p_.get()); }

private:
  stream() = default;
  std::unique_ptr<tn_stream, detail::stream_destroy> p_;
};

/* A point in a stream's work. */
class event {
public:
  explicit event(device where) {
    tn_event *made = nullptr;
    check(tn_event_create(where.get(), &made));
    p_.reset(made);
  }

  tn_event *get() const noexcept { return p_.get(); }
  operator tn_event *() const noexcept { return p_.get(); }
  void record(stream_ref on = stream_ref::current()) { check(tn_event_record(p_.get(), on.get())); }
  /* Whether the point has passed. An event never recorded has. */
  bool query() const {
    tn_status status = tn_event_query(p_.get());
    if (status == TN_ERR_NOT_READY) return false;
    check(status);
    return true;
  }
  void synchronize() const { check(tn_event_synchronize(p_.get())); }
  /* Nanoseconds from an earlier one to this one; both have passed. */
  std::uint64_t elapsed_ns_since(const event &begin) const {
    std::uint64_t ns = 0;
    check(tn_event_elapsed(begin.get(), p_.get(), &ns));
    return ns;
  }

private:
  std::unique_ptr<tn_event, detail::event_destroy> p_;
};

namespace detail {
inline thread_local tn_stream *current_stream = nullptr;
inline thread_local tn_device *current_device = nullptr;
} // namespace detail

inline stream_ref stream_ref::current() noexcept { return detail::current_stream; }

inline device device::current() {
  if (!detail::current_device)
    detail::throw_invalid("tenon: no device is given: pass one, or make a tenon::device_scope");
  return detail::current_device;
}

/* While it lives, calls of its thread that name no device mean this one. They nest. */
class device_scope {
public:
  explicit device_scope(device where) noexcept
      : before_(std::exchange(detail::current_device, where.get())) {}
  ~device_scope() { detail::current_device = before_; }
  device_scope(const device_scope &) = delete;
  device_scope &operator=(const device_scope &) = delete;

private:
  tn_device *before_;
};

/* While it lives, calls of its thread that name no stream go on this one, and those that name no
 * device mean its device. Calls on tensors of other devices must name theirs. */
class stream_scope {
public:
  explicit stream_scope(stream_ref on) noexcept
      : device_(on.get() ? tn_stream_device(on.get()) : detail::current_device),
        before_(std::exchange(detail::current_stream, on.get())) {}
  ~stream_scope() { detail::current_stream = before_; }
  stream_scope(const stream_scope &) = delete;
  stream_scope &operator=(const stream_scope &) = delete;

private:
  device_scope device_;
  tn_stream *before_;
};

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
