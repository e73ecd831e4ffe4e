/*
 * Tenon for C++17: the functions of tenon.h behind classes. Headers alone; nothing but libtenon is
 * linked.
 *
 *     tenon::runtime rt;                                    // the device that TENON_DEVICE names
 *     tenon::device_scope on(rt.device());
 *     auto x = tenon::tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
 *     auto y = tenon::softmax(x * 2 + 1, {.axis = 0});      // C++20, and GNU's C++17
 *     auto z = tenon::softmax(x, tenon::softmax_attrs().with_axis(0));
 *     std::vector<float> values = y.to_vector<float>();
 *
 * The rules of tenon.h hold. What differs:
 *
 *  Errors.     What is not TN_OK is thrown as tenon::error, with the status and the message.
 *              Functions marked noexcept have nothing to say.
 *  Ownership.  runtime, stream, event, prepared, generator and tensor_file own their handle: they
 *              move and are not copied. A tensor is a reference to a tensor of tenon.h: copies are
 *              cheap and see the same elements, tensor::clone makes others. device and stream_ref
 *              own nothing. get() gives the handle to functions of tenon.h, tensor::adopt takes
 *              one. Objects may go in any order.
 *  Emptiness.  tensor(), and what was moved from, holds nothing: get() is NULL.
 *  Operators.  tenon::NAME(inputs..., attrs, on) returns what it computes: a tensor, or a struct of
 *              them that can be taken apart, auto [y, mask] = tenon::dropout(x). What is updated is
 *              written in place. Optional inputs are {} where they are absent. Optional outputs are
 *              left out; where there are some, NAME_all returns all.
 *                tenon::into::NAME(outputs..., inputs..., attrs, on)
 *              writes to tensors that are given, and makes those that are empty;
 *                tenon::prepare::NAME(outputs..., inputs..., attrs, on)
 *              makes a prepared call of it. Lists are a std::vector, std::array or braces.
 *  Attributes. NAME_attrs has the defaults of the table. Its fields may be set by name in braces
 *              where the language has that, and by with_FIELD everywhere.
 *  Streams.    `on` is a stream, a stream_ref, or what the innermost stream_scope of this thread
 *              says; without any, the default stream of the tensors' device.
 *  Numbers.    x + 2 and 2 < x: the number becomes a tensor of x's element type, which must hold it
 *              as tn_cast would have it: no fraction and no overflow in integers.
 *  Cost.       A function of an operator is the C function and one comparison of its status; no
 *              memory is asked for but what that asks for.
 *  Versions.   The binary interface is that of tenon.h alone. Everything here is inline, in a
 *              namespace of this version, so that parts of a program that were compiled with
 *              different Tenons live side by side; they hand each other handles of tenon.h.
 *  Threads.    As in tenon.h. A tensor object that one thread changes, as by assignment, is read by
 *              no other meanwhile; copies of it are.
 */
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include "tenon/cpp/arguments.hpp"
#include "tenon/cpp/arithmetic.hpp"
#include "tenon/cpp/device.hpp"
#include "tenon/cpp/element.hpp"
#include "tenon/cpp/error.hpp"
#include "tenon/cpp/generator.hpp"
#include "tenon/cpp/runtime.hpp"
#include "tenon/cpp/tensor.hpp"
#include "tenon/cpp/tensor_file.hpp"
#include "tenon/ops.hpp"
#include "tenon/tenon.h"

#endif /* TENON_TENON_HPP */
