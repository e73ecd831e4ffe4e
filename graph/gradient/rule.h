/*
 * Gradient rules: for one call, from the gradients of the loss by what the call wrote to those by
 * what it read. A rule calls ordinary operators, on real tensors or symbolic ones, so it serves the
 * tape and the graph, and what it computes can be differentiated again.
 *
 * Rules stand in api/gradients/, a file per family, as expressions; those that are no expression
 * are functions in graph/gradient/. What a rule makes lives until the rule has returned.
 */
#ifndef TENON_GRAPH_GRADIENT_RULE_H
#define TENON_GRAPH_GRADIENT_RULE_H

#include "dispatcher/base/config.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

typedef struct rule_shape {
  tn_dtype dtype;
  int32_t rank;
  int64_t size[TN_MAX_RANK];
} rule_shape;

typedef struct rule {
  const tn_operator *op;
  const void *attrs; /* complete; NULL if the operator has none */
  tn_stream *stream; /* NULL: the device's default stream */
  tn_device *device;
  uint32_t num_in, num_inout, num_out;  /* num_in with the in-out tensors, num_out too */
  const rule_shape *in_shape;           /* [num_in] */
  const rule_shape *out_shape;          /* [num_out] */
  const tn_tensor *const *in;           /* [num_in]: inputs, then in-out ones as before the
                                           call; NULL where left out, or not needed */
  const tn_tensor *const *out;          /* [num_out]: in-out ones as after it, outputs; those that
                                           are needed are there though the call left them out */
  const tn_tensor *const *out_gradient; /* [num_out], NULL: none arrives */
  const bool *wanted;                   /* [num_in] */
  const tn_tensor **in_gradient;        /* [num_in], what the rule gives; NULL: nothing */
  tn_status status;                     /* of the first call that failed */
  host_memory memory;
  tn_tensor **temps; /* to be released */
  size_t num_temps, max_temps;
} rule;

/* What the gradient by one input reads. */
typedef struct gradient_part {
  uint32_t input, needs_in, needs_out;
} gradient_part;

/* What opgen prints of each operator's rule. */
typedef struct gradient_rule {
  void (*run)(rule *r);
  uint32_t needs_in, needs_out; /* tensors that it reads, by argument */
  const char *stops;            /* why no gradient passes: there is none, or it is 0 */
  const char *refuses;          /* why there is no rule though there is a gradient */
  uint32_t num_parts;           /* 0: it reads the same whatever gradient is asked for */
  const gradient_part *parts;
  /* Where in its attributes the activation is, 0 for nowhere, and what it reads besides where that
   * is not TN_ACTIVATION_NONE. */
  uint32_t activation, activated_in, activated_out;
} gradient_rule;

extern const gradient_rule gradient_rules[];
extern const uint32_t num_gradient_rules;

/* --- for rules --- */

/* A gradient by input `i` is asked for. */
static inline bool rule_wants(const rule *r, uint32_t i) { return r->wanted[i]; }
/* The gradient by input `i`, or one more part of it: of its shape, or of one that its broadcasting
 * gave, over which it is summed; of another float type, it is cast. NULL after a failure. */
void rule_give(rule *r, uint32_t i, const tn_tensor *gradient);

/* Calls an operator; skip: as in tn_call. After a failure does nothing. attrs: NULL for the
 * defaults, or SAME. */
void rule_call(rule *r, uint32_t op, const void *attrs, uint32_t num_in, const tn_tensor *const *in,
               uint32_t num_out, const tn_tensor **out, uint32_t skip);
/* Attributes for rule_call: those of the call that is differentiated, by their names. */
extern const char rule_same_attrs;
#define SAME ((const void *)&rule_same_attrs)
/* An operator of one output with SAME attributes but for `name`, sizes along spatial axes. */
void rule_call_sized(rule *r, uint32_t op, const char *name, const int64_t *sizes, uint32_t num_in,
                     const tn_tensor *const *in, const tn_tensor **out);

/* A tensor that the rule makes by other functions is its own from then on; NULL stays so. */
const tn_tensor *rule_keep(rule *r, tn_status status, tn_tensor *made);
/* A failure with a message. Returns NULL. */
const tn_tensor *rule_fail(rule *r, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A constant of rank 0 of x's type. */
const tn_tensor *rule_number(rule *r, const tn_tensor *x, double value);
/* Views, and copies where there can be no view. */
const tn_tensor *rule_reshape(rule *r, const tn_tensor *x, int32_t rank, const int64_t *size);
const tn_tensor *rule_expand(rule *r, const tn_tensor *x, int32_t rank, const int64_t *size);
const tn_tensor *rule_permute(rule *r, const tn_tensor *x, const int32_t *axes);
/* An axis of size 1 more: number `axis` of the result, -1 being its last. */
const tn_tensor *rule_unsqueeze(rule *r, const tn_tensor *x, int32_t axis);
/* x in the type of `like`. */
const tn_tensor *rule_cast_like(rule *r, const tn_tensor *x, const tn_tensor *like);
/* Zeros, for the rule to write to. */
tn_tensor *rule_zeros(rule *r, tn_dtype dtype, int32_t rank, const int64_t *size);
/* Calls an operator that updates `y` in place, its only in-out tensor. */
void rule_update(rule *r, uint32_t op, const void *attrs, uint32_t num_in,
                 const tn_tensor *const *in, tn_tensor *y);
/* (1 - x) (1 + x), which cancels nothing near 1. */
const tn_tensor *rule_one_less_square(rule *r, const tn_tensor *x);
/* The last two axes changed about. */
const tn_tensor *rule_transpose(rule *r, const tn_tensor *x);
const tn_tensor *rule_slice(rule *r, const tn_tensor *x, int32_t axis, int64_t begin, int64_t end,
                            int64_t step);
/* `reduced`, what a reduction of a tensor of `shape` over `axes` gave (none: all), with the axes
 * again, of size 1. */
const tn_tensor *rule_keepdims(rule *r, const tn_tensor *reduced, const rule_shape *shape,
                               const tn_axes *axes);
/* The same, repeated along them. */
const tn_tensor *rule_spread(rule *r, const tn_tensor *reduced, const rule_shape *shape,
                             const tn_axes *axes);
/* x summed over what broadcasting a tensor of `shape` to x's shape repeated, of its type. */
const tn_tensor *rule_fit(rule *r, const tn_tensor *x, const rule_shape *shape);
/* Elements, over all axes or those given. */
double rule_count(const rule_shape *shape, const tn_axes *axes);

/* Short names in expressions. */
#define num(x, value) rule_number(r, x, value)
#define reshaped(x, shape) rule_reshape(r, x, (shape)->rank, (shape)->size)
#define expanded(x, shape) rule_expand(r, x, (shape)->rank, (shape)->size)
#define transposed(x) rule_transpose(r, x)
#define unsqueezed(x, axis) rule_unsqueeze(r, x, axis)
#define one_less_square(x) rule_one_less_square(r, x)
#define LN_2 0.69314718055994530942
#define LN_10 2.30258509299404568402
#define TWO_BY_ROOT_PI 1.12837916709551257390
#define spread(x, shape, axes) rule_spread(r, x, shape, axes)

/* --- for those who run rules --- */

/* plugin_rule.c: runs the rule that a plugin brought with its operator. */
void plugin_rule_run(rule *r);
/* The rule of an operator; a plugin's own may have none: NULL. */
const gradient_rule *gradient_rule_of(const tn_operator *op);
/* Releases what the rule made, but for the gradients, which get references of their own first. */
void rule_end(rule *r);

#endif
