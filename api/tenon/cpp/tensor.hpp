/* Part of tenon/tenon.hpp: tensors. */
#ifndef TENON_CPP_TENSOR_HPP
#define TENON_CPP_TENSOR_HPP

#include <cstdio>
#include <iosfwd>
#include <memory>

#include "tenon/cpp/element.hpp"
#include "tenon/cpp/runtime.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

namespace detail {
struct dlpack_delete {
  template <class Managed> void operator()(Managed *managed) const noexcept {
    if (managed->deleter) managed->deleter(managed);
  }
};
} // namespace detail

/* A tensor for or from another library: its deleter is called unless release() takes it on. */
using dlpack = std::unique_ptr<DLManagedTensorVersioned, detail::dlpack_delete>;
using dlpack_unversioned = std::unique_ptr<DLManagedTensor, detail::dlpack_delete>;

/* A reference to a tensor; nothing but a pointer. Copies see the same elements. */
class tensor {
public:
  /* --- the reference --- */

  constexpr tensor() noexcept = default;
  tensor(const tensor &other) noexcept : p_(other.p_) { tn_tensor_retain(p_); }
  tensor(tensor &&other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  tensor &operator=(const tensor &other) noexcept { return tensor(other).swap(*this), *this; }
  tensor &operator=(tensor &&other) noexcept { return tensor(std::move(other)).swap(*this), *this; }
  ~tensor() {
    if (p_) tn_tensor_release(p_);
  }
  void swap(tensor &other) noexcept { std::swap(p_, other.p_); }
  friend void swap(tensor &a, tensor &b) noexcept { a.swap(b); }

  /* Takes over a reference that the caller owned. */
  static tensor adopt(tn_tensor *owned) noexcept {
    tensor t;
    t.p_ = owned;
    return t;
  }
  /* A reference more to a tensor that somebody else owns. */
  static tensor share(tn_tensor *borrowed) noexcept {
    tn_tensor_retain(borrowed);
    return adopt(borrowed);
  }
  tn_tensor *get() const noexcept { return p_; }
  /* Gives the reference to the caller. */
  [[nodiscard]] tn_tensor *release() noexcept { return std::exchange(p_, nullptr); }
  /* Where functions of tenon.h put a tensor that they make, or find the one to write to. */
  tn_tensor **c_out() noexcept { return &p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }

  /* --- made anew --- */

  /* Contents undefined. */
  static tensor empty(extents shape, tn_dtype type, tenon::device where = tenon::device::current(),
                      stream_ref on = stream_ref::current()) {
    tensor t;
    check(tn_tensor_empty_on(where.get(), on.get(), type, shape.rank(), shape.data(), &t.p_));
    return t;
  }
  /* From row-major host memory, which may be reused at once. */
  template <class T>
  static tensor from(extents shape, const T *data, tenon::device where = tenon::device::current()) {
    tensor t;
    check(tn_tensor_from_host(where.get(), dtype_of<T>(), shape.rank(), shape.data(), data, &t.p_));
    return t;
  }
  template <class T>
  static tensor from(extents shape, std::initializer_list<T> data,
                     tenon::device where = tenon::device::current()) {
    check_count(shape, data.size());
    return from<T>(shape, data.begin(), where);
  }
  template <class T>
  static tensor from(extents shape, const std::vector<T> &data,
                     tenon::device where = tenon::device::current()) {
    check_count(shape, data.size());
    if constexpr (std::is_same_v<T, bool>) { /* whose elements are bits */
      std::unique_ptr<bool[]> bytes(new bool[data.size()]);
      for (std::size_t i = 0; i < data.size(); ++i) bytes[i] = data[i];
      return from<T>(shape, bytes.get(), where);
    } else {
      return from<T>(shape, data.data(), where);
    }
  }

  /* --- what it is --- */

  tenon::device device() const noexcept { return tn_tensor_device(p_); }
  tn_dtype dtype() const noexcept { return tn_tensor_dtype(p_); }
  std::int32_t rank() const noexcept { return tn_tensor_rank(p_); }
  extents shape() const noexcept {
    return {tn_tensor_shape(p_), static_cast<std::size_t>(tn_tensor_rank(p_))};
  }
  extents strides() const noexcept {
    return {tn_tensor_strides(p_), static_cast<std::size_t>(tn_tensor_rank(p_))};
  }
  /* Of one axis; a negative one counts from the end. */
  std::int64_t size(std::int32_t axis) const {
    std::int32_t at = axis < 0 ? axis + rank() : axis;
    if (at < 0 || at >= rank())
      detail::throw_invalid("tenon: axis " + std::to_string(axis) + " of a tensor of rank " +
                            std::to_string(rank()));
    return tn_tensor_shape(p_)[at];
  }
  std::int64_t elements() const noexcept { return tn_tensor_elements(p_); }
  std::size_t bytes() const noexcept { return tn_tensor_bytes(p_); }
  bool is_contiguous() const noexcept { return tn_tensor_is_contiguous(p_); }
  /* The first element's address on its device; see tn_tensor_data. */
  void *data() const noexcept { return tn_tensor_data(p_); }
  /* The same for the host to follow. Throws where its device has other memory, or for another
   * element type. */
  template <class T> T *data() const {
    check_type<std::remove_const_t<T>>();
    if (!device().has_host_memory())
      detail::throw_invalid(std::string("tenon: the host cannot read in place on ") +
                            device().id() + ": use to_vector or to");
    return static_cast<T *>(tn_tensor_data(p_));
  }

  /* --- views: they share memory with this one and keep it alive --- */

  /* The same elements in another shape; one size may be -1. */
  tensor reshape(extents shape) const {
    tensor t;
    check(tn_tensor_reshape(p_, shape.rank(), shape.data(), &t.p_));
    return t;
  }
  tensor permute(std::initializer_list<std::int32_t> axes) const {
    check_rank(axes.size());
    tensor t;
    check(tn_tensor_permute(p_, axes.begin(), &t.p_));
    return t;
  }
  /* With two axes exchanged; negative ones count from the end. */
  tensor transpose(std::int32_t a = -2, std::int32_t b = -1) const {
    std::int32_t axes[TN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    (void)size(a), (void)size(b); /* which throw where there is no such axis */
    std::swap(axes[a < 0 ? a + rank() : a], axes[b < 0 ? b + rank() : b]);
    tensor t;
    check(tn_tensor_permute(p_, axes, &t.p_));
    return t;
  }
  /* Elements begin, begin + step, ... < end of one axis. Negative ones count from the end. */
  tensor slice(std::int32_t axis, std::int64_t begin, std::int64_t end,
               std::int64_t step = 1) const {
    tensor t;
    check(tn_tensor_slice(p_, axis, begin, end, step, &t.p_));
    return t;
  }
  /* One axis in `count` equal parts, or in parts of these sizes. */
  std::vector<tensor> split(std::int32_t axis, std::size_t count) const {
    return split_by(axis, count, nullptr);
  }
  std::vector<tensor> split(std::int32_t axis, std::initializer_list<std::int64_t> sizes) const {
    return split_by(axis, sizes.size(), sizes.begin());
  }
  std::vector<tensor> split(std::int32_t axis, const std::vector<std::int64_t> &sizes) const {
    return split_by(axis, sizes.size(), sizes.data());
  }
  /* Element `index` of one axis, which the view does not have. */
  tensor select(std::int32_t axis, std::int64_t index) const {
    tensor t;
    check(tn_tensor_select(p_, axis, index, &t.p_));
    return t;
  }
  /* The same of the first axis. */
  tensor operator[](std::int64_t index) const { return select(0, index); }
  /* Without one axis of size 1, and with one more. */
  tensor squeeze(std::int32_t axis) const {
    tensor t;
    check(tn_tensor_squeeze(p_, axis, &t.p_));
    return t;
  }
  tensor unsqueeze(std::int32_t axis) const {
    tensor t;
    check(tn_tensor_unsqueeze(p_, axis, &t.p_));
    return t;
  }
  /* Repeats axes of size 1, and adds leading ones, to reach the shape. */
  tensor expand(extents shape) const {
    tensor t;
    check(tn_tensor_expand(p_, shape.rank(), shape.data(), &t.p_));
    return t;
  }

  /* --- copies --- */

  /* This one if it is row-major, else a row-major copy. */
  tensor contiguous(stream_ref on = stream_ref::current()) const {
    tensor t;
    check(tn_tensor_contiguous(on.get(), p_, &t.p_));
    return t;
  }
  /* On another device; on its own, a copy as well. */
  tensor to(tenon::device where) const {
    tensor t;
    check(tn_tensor_to_device(p_, where.get(), &t.p_));
    return t;
  }
  /* In another element type, or this one if it has it already. */
  tensor to(tn_dtype type, stream_ref on = stream_ref::current()) const {
    if (type == dtype()) return *this;
    tn_cast_attrs attrs = TN_CAST_DEFAULTS;
    attrs.dtype = static_cast<std::int32_t>(type);
    tensor t;
    check(tn_cast(on.get(), p_, &attrs, &t.p_));
    return t;
  }
  /* Elements of its own. */
  tensor clone(stream_ref on = stream_ref::current()) const {
    tensor t;
    check(tn_copy(on.get(), p_, &t.p_));
    return t;
  }

  /* --- to and from host memory: waits for the tensor's stream. T is its element type. --- */

  template <class T> void copy_to(T *data, std::size_t count) const {
    check_type<T>();
    check(tn_tensor_to_host(p_, data, count * sizeof(T)));
  }
  template <class T> std::vector<T> to_vector() const {
    std::size_t count = static_cast<std::size_t>(elements());
    if constexpr (std::is_same_v<T, bool>) {
      std::unique_ptr<bool[]> values(new bool[count]);
      copy_to(values.get(), count);
      return std::vector<T>(values.get(), values.get() + count);
    } else {
      std::vector<T> values(count);
      copy_to(values.data(), count);
      return values;
    }
  }
  /* The one element. */
  template <class T> T item() const {
    T value{};
    if (elements() != 1)
      detail::throw_invalid("tenon: item() of a tensor of " + std::to_string(elements()) +
                            " elements");
    copy_to(&value, 1);
    return value;
  }
  /* Overwrites it, in the stream's order; see tn_tensor_write. */
  template <class T>
  void write(const T *data, std::size_t count, stream_ref on = stream_ref::current()) const {
    check_type<T>();
    check(tn_tensor_write(on.get(), p_, data, count * sizeof(T)));
  }
  template <class T>
  void write(const std::vector<T> &data, stream_ref on = stream_ref::current()) const {
    static_assert(!std::is_same_v<T, bool>, "whose elements are bits: write an array of bool");
    write(data.data(), data.size(), on);
  }

  /* --- other libraries --- */

  dlpack to_dlpack() const {
    DLManagedTensorVersioned *managed = nullptr;
    check(tn_tensor_to_dlpack(p_, &managed));
    return dlpack(managed);
  }
  dlpack_unversioned to_dlpack_unversioned() const {
    DLManagedTensor *managed = nullptr;
    check(tn_tensor_to_dlpack_unversioned(p_, &managed));
    return dlpack_unversioned(managed);
  }
  /* Between streams: see tn_tensor_to_dlpack_stream. */
  dlpack to_dlpack(std::int64_t consumer, stream_ref on = stream_ref::current()) const {
    DLManagedTensorVersioned *managed = nullptr;
    check(tn_tensor_to_dlpack_stream(p_, on.get(), consumer, &managed));
    return dlpack(managed);
  }
  static tensor from_dlpack(const runtime &rt, dlpack &&managed, std::int64_t producer,
                            stream_ref on = stream_ref::current()) {
    tensor t;
    check(tn_tensor_from_dlpack_stream(rt.get(), managed.get(), on.get(), producer, &t.p_));
    (void)managed.release();
    return t;
  }
  /* Without a copy. On failure `managed` keeps it. */
  static tensor from_dlpack(const runtime &rt, dlpack &&managed) {
    tensor t;
    check(tn_tensor_from_dlpack(rt.get(), managed.get(), &t.p_));
    (void)managed.release();
    return t;
  }
  static tensor from_dlpack(const runtime &rt, dlpack_unversioned &&managed) {
    tensor t;
    check(tn_tensor_from_dlpack_unversioned(rt.get(), managed.get(), &t.p_));
    (void)managed.release();
    return t;
  }

private:
  template <class T> void check_type() const {
    if (dtype_of<T>() != dtype())
      detail::throw_invalid(std::string("tenon: elements of type ") + tn_dtype_name(dtype()) +
                            " taken for " + tn_dtype_name(dtype_of<T>()) +
                            ": to(type) converts them");
  }
  void check_rank(std::size_t given) const {
    if (given != static_cast<std::size_t>(rank()))
      detail::throw_invalid("tenon: " + std::to_string(given) +
                            " axes given for a tensor of rank " + std::to_string(rank()));
  }
  /* Sizes that are wrong in themselves are told by the C function. */
  static void check_count(extents shape, std::size_t given) {
    std::int64_t count = 1;
    for (std::int64_t size : shape)
      if (size < 0 || __builtin_mul_overflow(count, size, &count)) return;
    if (static_cast<std::uint64_t>(count) != given)
      detail::throw_invalid("tenon: " + std::to_string(given) + " values given for a shape of " +
                            std::to_string(count) + " elements");
  }
  std::vector<tensor> split_by(std::int32_t axis, std::size_t count,
                               const std::int64_t *sizes) const {
    std::vector<tn_tensor *> made(count);
    std::vector<tensor> parts(count);
    check(tn_tensor_split(p_, axis, count, sizes, made.data()));
    for (std::size_t i = 0; i < count; ++i) parts[i] = adopt(made[i]);
    return parts;
  }

  tn_tensor *p_ = nullptr;
};

/* --- as text: "cpu:0 f32 [2]" and the values; waits for the tensor's stream --- */

/* How; what is not set is as tn_print_options has it. */
struct print_options {
  std::int32_t precision = 0;
  std::int64_t threshold = 0;
  std::int32_t edge = 0;
  std::int32_t line_width = 0;
  constexpr tn_print_options c_options() const {
    return {sizeof(tn_print_options), precision, threshold, edge, line_width};
  }
};

inline std::string to_string(const tensor &t, const print_options &how = {}) {
  const tn_print_options c = how.c_options();
  std::size_t length = 0;
  check(tn_tensor_format(t.get(), &c, nullptr, 0, &length));
  std::string text(length + 1, 0);
  check(tn_tensor_format(t.get(), &c, &text[0], text.size(), &length));
  text.resize(length < text.size() ? length : text.size() - 1);
  return text;
}
/* With a new line behind it. */
inline void print(const tensor &t, const print_options &how = {}, std::FILE *file = stdout) {
  const tn_print_options c = how.c_options();
  check(tn_tensor_print(t.get(), &c, file));
}
template <class Traits>
std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out,
                                             const tensor &t) {
  return out << to_string(t).c_str();
}

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
