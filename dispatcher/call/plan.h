/*
 * A call resolved: operator, device, tensors as kernels see them, kernel. A plan is
 * built on the caller's stack by plan_make, run, and finished; a prepared call keeps
 * one on the heap. It points into itself, so it is never copied.
 */
#ifndef TENON_DISPATCHER_PLAN_H
#define TENON_DISPATCHER_PLAN_H

#include "dispatcher/objects/device.h"
#include "dispatcher/objects/tensor.h"
#include "dispatcher/shape/shape.h"

/* The size of a tn_call in version 1: programs built then pass no more. */
#define CALL_SIZE_1 (offsetof(tn_call, skip_out) + sizeof((tn_call *)0)->skip_out)

/* What plan_make returns, having done nothing, for an operator with lists among its
 * arguments: list_make is for those. No tn_status. */
enum { PLAN_OF_LISTS = 1 << 20 };
/* The same for a call that goes to whom is_watched asks. */
enum { PLAN_WATCHED = 1 << 21 };

/* The size of a tn_kernel_args that keeps nothing: one run of a call, or of one whose inputs may be
 * others each time. What lies behind is not set then. */
#define ARGS_SIZE_UNKEPT offsetof(tn_kernel_args, kept)

typedef struct plan {
  const op_entry *op;
  tn_device *device;
  tn_stream *stream;
  const cell *cell;         /* NULL: no kernel takes the call */
  uint32_t num_in, num_out; /* num_out counts in-out tensors first */
  uint32_t made;            /* bit i: out[i] was made by this plan */
  uint32_t skipped;         /* bit i: optional output i is not wanted */
  uint32_t num_temps;
  bool expanded;                   /* some input is seen through expansion[] */
  uint8_t types[TN_MAX_TYPE_VARS]; /* bound type variables */
  struct block *workspace;
  tn_kernel_args args;
  const tn_tensor *in[TN_MAX_ARGS];
  tn_tensor *out[TN_MAX_ARGS];
  const DLTensor *in_view[TN_MAX_ARGS]; /* what args.in points to */
  DLTensor *out_view[TN_MAX_ARGS];
  /* Used only where needed, never cleared: */
  extents shape[TN_MAX_ARGS]; /* of outputs, in-out excluded */
  struct expansion {
    DLTensor dl;
    int64_t strides[TN_MAX_RANK];
  } expansion[TN_MAX_ARGS];
  tn_tensor *temps[2 * TN_MAX_ARGS];   /* to be released */
  tn_tensor *written_via[TN_MAX_ARGS]; /* contiguous stand-in of out[i]; set where via bit is */
  uint32_t via;
  struct list_plan *list; /* set where op->lists; num_in, num_out and their arrays are not */
  _Alignas(8) unsigned char attrs[ATTRS_MAX];
} plan;

/* Whether the struct can be read at all: sizes, counts, pointers to arrays. */
bool call_is_whole(const tn_call *call);
/* Any tensor of a whole call, NULL if it has none. */
const tn_tensor *call_first_tensor(const tn_call *call);

/* Validates, infers, makes outputs and picks the kernel. On failure nothing is left. On
 * success plan->cell may be NULL: only the fallback can serve the call. */
tn_status plan_make(plan *p, const tn_call *call);

/* Gives a kernel that wants contiguous tensors contiguous ones, and its workspace. Where it fails
 * and leaves no cell, the kernel cannot take these tensors and the fallback serves the call. */
tn_status plan_equip(plan *p);

/* Runs the kernel and writes outputs that went through a stand-in. */
tn_status plan_run(plan *p);

/* data_dependent.c: after the run of an operator whose output shape depends on data: waits, and
 * shrinks the outputs that the plan made to the length that the kernel counted. */
tn_status plan_shrink_outputs(plan *p);

/* Releases temporaries and workspace. */
void plan_finish(plan *p);

/* Releases the outputs that were made. */
void plan_abandon(plan *p);

/* refuse.c: fail() with "tn_<op>(a = cpu:0 f32 [2], ...): " before the message. */
tn_status plan_refuse(const plan *p, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An attribute's number is outside its bounds. */
__attribute__((cold)) tn_status plan_refuse_bounds(const plan *p, const tn_attr *a, double value);
/* Of a call that is not whole. */
__attribute__((cold)) tn_status call_refuse(const tn_call *call);
/* Of one in which every tensor is NULL: without a runtime to ask, only operators of our own have a
 * name. */
__attribute__((cold)) tn_status call_refuse_empty(uint32_t op);
/* `status`, unless the reason for it is that the tensor was released. */
__attribute__((cold)) tn_status call_refuse_released(const tn_tensor *t, uint32_t op,
                                                     tn_status status);
/* Of a tensor whose device is not ordinary: why the call cannot be made, or PLAN_WATCHED, or
 * TN_OK. */
__attribute__((cold)) tn_status call_attend(const tn_tensor *t, uint32_t op);

/* What an argument's type comes to; TN_DTYPE_NONE while nothing has bound its variable. */
static inline tn_dtype plan_type(const plan *p, uint8_t type) {
  if (TN_TYPE_IS_FIXED(type)) return (tn_dtype)TN_TYPE_OPERAND(type);
  tn_dtype bound = (tn_dtype)p->types[type & (TN_MAX_TYPE_VARS - 1)];
  return __builtin_expect(TN_TYPE_IS_WIDE(type), 0) ? tn_dtype_wide(bound) : bound;
}

/* plan_bind.c: what most calls need not. Input `i` was left out and is not optional: refused,
 * but for those that are 1 then. */
tn_status plan_bind_absent(plan *p, uint32_t i);
/* Attribute `a`, a TN_ATTR_RESULT, says that the first output is of type `dtype`, or of its own. */
tn_status plan_bind_result(plan *p, const tn_attr *a, int32_t dtype);

/* attr_tensors.c: attributes of kind tensor. One of a plan's, checked; the call's tensors that are
 * given are in the plan. */
__attribute__((cold)) tn_status plan_bind_attr_tensor(plan *p, const tn_attr *a);
/* The tensor that the attribute is, NULL if none. */
const tn_tensor *attr_tensor(const void *attrs, const tn_attr *a);
/* Whether a complete attribute struct has any. */
bool attr_tensors_given(const op_entry *op, const void *attrs);
void attr_tensors_retain(const op_entry *op, const void *attrs);
void attr_tensors_release(const op_entry *op, const void *attrs);
/* Waits, reads them, and makes the call with plain attributes. */
tn_status attr_tensors_run(plan *p);

/* plan_layout.c: lays the images that the plan makes as its first input lies, where that is with
 * channels last; false, with nothing done, where it is not. And back to row-major. */
bool plan_turn_outputs(plan *p);
void plan_turn_outputs_back(plan *p);

/* Kernels find every axis that the shape rule reads counted from the front: where the program
 * counts one from the end, they get attributes of the plan's own. pre: the rule has taken them;
 * in and out are what the kernel will see. */
void plan_count_axes(plan *p, const DLTensor *const *in, DLTensor *const *out);

/* Parts of plan_make, for plan_list.c. `arg` counts arguments in schema order. */
tn_status plan_bind(plan *p, uint32_t arg, const tn_tensor *t);
tn_dtype plan_type_of(const plan *p, uint32_t arg);
tn_status plan_take_attrs(plan *p, const void *given);
void plan_set_args(plan *p);
/* Shows the kernel the call's own tensors. */
void plan_set_views(plan *p);
void plan_pick_kernel(plan *p);
/* Goes on to the kernel at `rank` among those that take the call; cell is NULL past the last. */
void plan_pick_candidate(plan *p, uint32_t rank);
tn_status plan_take_workspace(plan *p);
bool view_is_contiguous(const DLTensor *t);

/* invoke.c: the copy of its attributes that a prepared call runs with, which may be changed between
 * runs where neither shapes nor the choice of the kernel follow from what changes. NULL: none. */
void *prepared_attrs(tn_prepared *prepared);

/* invoke.c: the headers of a prepared call's tensors may be pointed to other memory between runs,
 * of the same alignment; calls that see some of their inputs expanded have copies of these, which
 * this brings up to date. False where there are none. */
bool prepared_refresh(tn_prepared *prepared);

/* invoke.c: takes a prepared call's workspace, and returns its bytes, 0 where it has none; one that
 * had some must be lent as much before it runs again. Calls of one stream may share what is lent.
 */
size_t prepared_drop_workspace(tn_prepared *prepared);
void prepared_lend_workspace(tn_prepared *prepared, const tn_tensor *memory);

/* invoke.c: what a prepared call's kernel may keep from run to run, input i being constant where
 * bit i of `constants` says so. Does nothing where the kernel's work may go on behind a run. */
void prepared_keep(tn_prepared *prepared, uint32_t constants);

/* invoke.c: whether its kernel gets row-major copies of some tensors, made anew by each run. */
bool prepared_copies(const tn_prepared *prepared);

/* invoke.c: why a prepared call's runs cannot be recorded into a device graph; NULL where they only
 * put the same work into the queue, time after time. */
const char *prepared_unrecordable(const tn_prepared *prepared);
/* invoke.c: runs a call that can be recorded in the queue of another stream of its device. */
tn_status prepared_run_in(const tn_prepared *prepared, const tn_stream *stream);
/* invoke.c: lets the call's kernel make what it keeps by queue before it runs there. UNSUPPORTED
 * where it wants more workspace there than the call has. */
tn_status prepared_settle_in(const tn_prepared *prepared, const tn_stream *stream);

/* fallback.c: serves a call that no kernel of its device takes. */
tn_status fallback_run(plan *p);

/* "<name> (types f32 f64; plugin cpu), ...": kernels of the operator, for messages. */
void plan_describe_kernels(const plan *p, char *text, size_t size);

/* plan_list.c: operators with lists among their arguments. The tensors of a list stand
 * one after the other, so that argument numbers and places of tensors differ. */
typedef struct list_plan {
  uint32_t length;                     /* tensors in each list */
  uint32_t num_in, num_inout, num_out; /* tensors; num_out counts the in-out ones first */
  uint32_t made;                       /* bit k: the k-th tensor behind the in-out ones was made */
  uint32_t num_temps;
  const tn_tensor **in;
  tn_tensor **out;
  const DLTensor **in_view; /* what args.in points to */
  DLTensor **out_view;
  tn_tensor **temps; /* to be released */
  tn_tensor **via;   /* contiguous stand-ins of out, NULL where there is none */
} list_plan;

/* The lists' common length, 0 if the numbers of tensors in the call allow none. */
uint32_t call_list_length(const op_entry *op, const tn_call *call);

/* As the functions of the same names above. list_free comes after list_finish. */
tn_status list_make(plan *p, const tn_call *call);
tn_status list_equip(plan *p);
tn_status list_run(plan *p);
void list_finish(plan *p);
void list_set_views(plan *p);
void list_abandon(plan *p);
void list_free(plan *p);
/* The tensors of the call, for messages; none of a plan whose list is NULL. */
void list_text(const plan *p, char *text, size_t size);

#endif
