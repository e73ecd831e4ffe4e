/* Part of tenon/tenon.hpp: sequences of random numbers. */
#ifndef TENON_CPP_GENERATOR_HPP
#define TENON_CPP_GENERATOR_HPP

#include "tenon/cpp/arguments.hpp"

namespace tenon {
inline namespace TENON_CPP_VERSION {

/* Hands out seeds and offsets, so that no two calls draw the same numbers:
 *     tenon::generator random(rt, 42);
 *     tenon::uniform(x, random.next(x, tenon::uniform_attrs()));
 *     auto [y, mask] = tenon::dropout(x, random.next(x, tenon::dropout_attrs().with_p(0.1)));
 * Threads may share one. */
class generator {
public:
  struct state {
    std::uint64_t seed, offset;
  };

  generator(const runtime &rt, std::uint64_t seed) {
    tn_generator *made = nullptr;
    check(tn_generator_create(rt.get(), seed, &made));
    p_.reset(made);
  }

  tn_generator *get() const noexcept { return p_.get(); }
  /* The attributes with the place of the next call; x is the operator's first tensor. */
  template <class Attrs> Attrs next(const tensor &x, Attrs attrs) const {
    auto c_attrs = attrs.c_attrs();
    check(tn_generator_next(p_.get(), Attrs::c_op, x.get(), &c_attrs));
    attrs.seed = c_attrs.seed;
    attrs.offset = c_attrs.offset;
    return attrs;
  }
  /* The same of any number of counters. */
  state reserve(std::uint64_t counters) const {
    state s = {};
    check(tn_generator_reserve(p_.get(), counters, &s.seed, &s.offset));
    return s;
  }
  /* All there is to it, to be kept and gone on from. */
  state get_state() const {
    state s = {};
    check(tn_generator_get_state(p_.get(), &s.seed, &s.offset));
    return s;
  }
  void set_state(state s) const { check(tn_generator_set_state(p_.get(), s.seed, s.offset)); }

private:
  struct destroy {
    void operator()(tn_generator *g) const noexcept { tn_generator_destroy(g); }
  };
  std::unique_ptr<tn_generator, destroy> p_;
};

} // namespace TENON_CPP_VERSION
} // namespace tenon

#endif
