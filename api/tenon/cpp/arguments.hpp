/* Part of tenon/tenon.hpp: what operators' functions take, and prepared calls. */
#ifndef TENON_CPP_ARGUMENTS_HPP
#define TENON_CPP_ARGUMENTS_HPP

#include "tenon/cpp/tensor.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

/* A tensor borrowed for a call, or none: optional inputs, elements of lists. */
class tensor_ref {
public:
  constexpr tensor_ref() noexcept = default;
  constexpr tensor_ref(std::nullptr_t) noexcept {}
  tensor_ref(const tensor &t) noexcept : p_(t.get()) {}
  tensor_ref(const tensor *t) noexcept : p_(t ? t->get() : nullptr) {}
  tn_tensor *get() const noexcept { return p_; }

private:
  tn_tensor *p_ = nullptr;
};

/* A tensor that a call updates: any but a const one. */
class tensor_inout {
public:
  tensor_inout(tensor &t) noexcept : p_(t.get()) {}
  tensor_inout(tensor &&t) noexcept : p_(t.get()) {} /* a view */
  tn_tensor *get() const noexcept { return p_; }

private:
  tn_tensor *p_;
};

/* A tensor that a call writes to, or makes if it is empty; {} for an optional one that is not
 * wanted. */
class tensor_out {
public:
  constexpr tensor_out() noexcept = default;
  tensor_out(tensor &t) noexcept : p_(t.c_out()) {}
  tensor_out(tensor &&t) noexcept : p_(t.c_out()) {} /* a view */
  tn_tensor **c_out() const noexcept { return p_; }

private:
  tn_tensor **p_ = nullptr;
};

static_assert(sizeof(tensor) == sizeof(tn_tensor *) && std::is_standard_layout_v<tensor> &&
                  sizeof(tensor_ref) == sizeof(tn_tensor *) &&
                  std::is_standard_layout_v<tensor_ref>,
              "an array of tensors is an array of handles");

/* Tensors borrowed for a call: of a std::vector, a std::array, or braces. */
class tensor_list {
public:
  tensor_list(std::initializer_list<tensor_ref> list) noexcept
      : tensor_list(list.begin(), list.size()) {}
  tensor_list(const std::vector<tensor> &list) noexcept : tensor_list(list.data(), list.size()) {}
  template <std::size_t N>
  tensor_list(const std::array<tensor, N> &list) noexcept : tensor_list(list.data(), N) {}
  tensor_list(const tensor *list, std::size_t count) noexcept
      : data_(reinterpret_cast<tn_tensor *const *>(list)), count_(count) {}
  tensor_list(const tensor_ref *list, std::size_t count) noexcept
      : data_(reinterpret_cast<tn_tensor *const *>(list)), count_(count) {}

  tn_tensor *const *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }

private:
  tn_tensor *const *data_;
  std::size_t count_;
};

/* A call with everything resolved, to be run many times; it keeps its tensors. One thread at a
 * time. */
class prepared {
public:
  static prepared adopt(tn_prepared *owned) noexcept {
    prepared made;
    made.p_.reset(owned);
    return made;
  }
  prepared() noexcept = default;

  tn_prepared *get() const noexcept { return p_.get(); }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  void run() const { check(tn_run(p_.get())); }
  void operator()() const { run(); }
  /* Other attributes, from the next run on: those of its operator. */
  template <class Attrs> void set_attrs(const Attrs &attrs) const {
    const auto c_attrs = attrs.c_attrs();
    check(tn_prepared_set_attrs(p_.get(), &c_attrs));
  }
  /* Which kernel it runs. */
  tn_kernel_info kernel() const {
    tn_kernel_info info = {};
    info.struct_size = sizeof info;
    check(tn_prepared_kernel(p_.get(), &info));
    return info;
  }

private:
  struct release {
    void operator()(tn_prepared *p) const noexcept { tn_prepared_release(p); }
  };
  std::unique_ptr<tn_prepared, release> p_;
};

namespace detail {

[[noreturn, gnu::noinline, gnu::cold]] inline void throw_counts(const char *op) {
  throw_invalid(std::string("tenon::") + op + ": its lists have different lengths");
}
inline void check_counts(const char *op, const tensor_list &a, const tensor_list &b) {
  if (a.size() != b.size()) throw_counts(op);
}

/* A tn_call in the making, for prepared calls. */
class call {
public:
  call(std::uint32_t op, stream_ref on, const void *attrs) : op_(op), on_(on), attrs_(attrs) {}

  void input(tensor_ref t) { in_.push_back(t.get()); }
  void input(tensor_list list) { in_.insert(in_.end(), list.data(), list.data() + list.size()); }
  void inout(tensor_inout t) { out_.push_back(t.get()), ++inouts_; }
  void inout(tensor_list list) {
    out_.insert(out_.end(), list.data(), list.data() + list.size());
    inouts_ += list.size();
  }
  void result(tensor_out t) { results_.push_back(t.c_out()); }

  prepared prepare() {
    tn_call c = {};
    tn_prepared *made = nullptr;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      out_.push_back(results_[i] ? *results_[i] : nullptr);
      if (!results_[i]) c.skip_out |= 1u << i;
    }
    c.struct_size = sizeof c;
    c.op = op_;
    c.stream = on_.get();
    c.in = in_.data();
    c.out = out_.data();
    c.attrs = attrs_;
    c.num_in = static_cast<std::uint16_t>(in_.size());
    c.num_out = static_cast<std::uint16_t>(out_.size());
    check(tn_prepare(&c, &made));
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (results_[i]) *results_[i] = out_[inouts_ + i];
    return prepared::adopt(made);
  }

private:
  std::uint32_t op_;
  stream_ref on_;
  const void *attrs_;
  std::vector<const tn_tensor *> in_;
  std::vector<tn_tensor *> out_;
  std::vector<tn_tensor **> results_;
  std::size_t inouts_ = 0;
};

} // namespace detail
} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
