/*
 * Plans reductions and says how much scratch they want.
 */
#include "kernels/cuda/reduce/reduce.h"

static void walk_of(cuda_walk *walk, cuda_shape *shape, int operands) {
  cuda_shape_simplify(shape, operands, true);
  walk->count = cuda_shape_count(shape);
  walk->rank = shape->rank;
  walk->wide = walk->count > CUDA_MAX_INDEX;
  for (int d = 0; d < shape->rank; d++) {
    walk->size[d] = shape->size[d];
    walk->reciprocal[d] = shape->size[d] > 0 ? 1 / (double)shape->size[d] : 0;
    if (!walk->wide && shape->size[d] > 0) {
      walk->divisor[d] = cuda_divisor_of((uint32_t)shape->size[d]);
    }
    for (int k = 0; k < operands; k++) walk->stride[k][d] = shape->stride[k][d];
  }
}

/* Bit d is set where axis d is reduced. */
static unsigned reduced_axes(const tn_axes *axes, int rank) {
  if (axes->count == 0) return (1u << rank) - 1;
  unsigned set = 0;
  for (int i = 0; i < axes->count; i++) {
    set |= 1u << (axes->axis[i] < 0 ? axes->axis[i] + rank : axes->axis[i]);
  }
  return set;
}

static void split_axes(cuda_shape *kept, cuda_shape *reduced, const DLTensor *x, const DLTensor *y,
                       unsigned set, bool keepdims) {
  int from_y = 0;
  for (int d = 0; d < x->ndim; d++) {
    bool is_reduced = set >> d & 1;
    cuda_shape *side = is_reduced ? reduced : kept;
    side->size[side->rank] = x->shape[d];
    side->stride[0][side->rank] = x->strides[d];
    side->stride[1][side->rank++] = is_reduced ? 0 : y->strides[from_y];
    if (!is_reduced || keepdims) from_y++;
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Along rows where the reduced elements lie closer together than the outputs. */
static bool is_by_row(const cuda_walk *kept, const cuda_walk *reduced) {
  if (kept->count == 1 || reduced->count <= 1) return reduced->count > 1;
  int64_t k = kept->stride[0][kept->rank - 1], r = reduced->stride[0][reduced->rank - 1];
  return (r < 0 ? -r : r) <= (k < 0 ? -k : k);
}

/* Whether every step of x but along its last axis is a multiple of `bytes`. */
static bool steps_by(const cuda_walk *walk, int64_t element, int64_t bytes, bool last_too) {
  for (int d = 0; d < walk->rank - !last_too; d++)
    if (walk->size[d] > 1 && walk->stride[0][d] * element % bytes) return false;
  return true;
}

/* Whether packs lie in rows or across columns. A row of one axis may begin and end anywhere; other
 * packs are whole. Integers are read one by one, whatever their width. */
static bool has_packs(const cuda_reduce_plan *plan, const DLTensor *x) {
  const int64_t bytes = 16, element = x->dtype.bits / 8, pack = bytes / element;
  const cuda_walk *along = plan->by_row ? &plan->reduced : &plan->kept;
  const cuda_walk *across = plan->by_row ? &plan->kept : &plan->reduced;
  const uintptr_t data = (uintptr_t)x->data + x->byte_offset;
  const bool is_float = x->dtype.code == kDLFloat || x->dtype.code == kDLBfloat;
  const int last = along->rank - 1;
  if (!is_float || along->count < pack || along->stride[0][last] != 1) return false;
  if (plan->by_row && along->rank == 1) return data % (uintptr_t)element == 0;
  return data % (uintptr_t)bytes == 0 && along->size[last] % pack == 0 &&
         steps_by(along, element, bytes, false) && steps_by(across, element, bytes, true);
}

/* Threads of a row of some packs or elements: enough of them for 8 each, and more where rows are
 * too few for the device. */
static int lanes_of_row(int64_t units, int64_t rows, int multiprocessors) {
  int lanes = 32;
  while (lanes < cuda_reduce_threads && units > lanes &&
         (units > 8 * lanes || rows * lanes < (int64_t)4 * multiprocessors * cuda_reduce_threads))
    lanes *= 2;
  return lanes;
}

/* Threads of a column: the others of a block stand side by side, as wide as there are columns. */
static int lanes_of_column(int64_t elements, int64_t columns) {
  if (elements <= 16) return 1;
  int across = 32;
  while (across > 1 && across / 2 >= columns) across /= 2;
  return cuda_reduce_threads / across;
}

/* As many as fill the device once, or nearly so; where blocks are so many that whole numbers are
 * far from that, as many as fill it twice. `room`: for blocks. */
static int64_t splits_of(int64_t blocks, int64_t room) {
  return room / blocks >= 8 ? room / blocks : ceil_div(2 * room, blocks);
}

static void spread(cuda_reduce_plan *plan, const DLTensor *x, int multiprocessors) {
  const int64_t count = plan->reduced.count, room = 4 * (int64_t)multiprocessors;
  plan->by_row = is_by_row(&plan->kept, &plan->reduced);
  plan->packs = has_packs(plan, x);
  const int64_t pack = plan->packs ? 16 / (x->dtype.bits / 8) : 1;
  const int64_t width = plan->by_row ? 1 : pack; /* outputs of a thread */
  const int64_t step = plan->by_row ? pack : 1;  /* elements that it reads at a time */
  const int64_t columns = ceil_div(plan->kept.count, width);
  plan->lanes = plan->by_row
                    ? lanes_of_row(ceil_div(count, step), plan->kept.count, multiprocessors)
                    : lanes_of_column(count, columns);
  plan->blocks = ceil_div(columns, cuda_reduce_threads / plan->lanes);
  plan->splits = 1;
  const int64_t turns = count / (plan->lanes * step); /* of each thread */
  if (turns >= 32 && plan->blocks > 0 && plan->blocks < room)
    plan->splits = least(splits_of(plan->blocks, room), turns / 16);
  /* Packs of a row may begin in front of it. Threads of columns read so many elements together,
   * and would wait for each of a rest. */
  const int64_t whole = plan->by_row || plan->splits == 1 ? step : cuda_reduce_ahead * plan->lanes;
  const int64_t read = count > 0 ? count + step - 1 : 1;
  plan->share = ceil_div(ceil_div(read, plan->splits), whole) * whole;
  if (plan->by_row && plan->packs) plan->share = cuda_reduce_turn * plan->lanes * pack;
  plan->splits = least(plan->splits, ceil_div(read, plan->share));
}

void cuda_reduce_plan_of(cuda_reduce_plan *plan, const DLTensor *x, const DLTensor *y,
                         const tn_axes *axes, bool keepdims, const cuda_info *info) {
  cuda_shape kept = {.rank = 0}, reduced = {.rank = 0};
  split_axes(&kept, &reduced, x, y, reduced_axes(axes, x->ndim), keepdims);
  walk_of(&plan->kept, &kept, 2);
  walk_of(&plan->reduced, &reduced, 1);
  spread(plan, x, info->multiprocessors);
}

/* So few elements are never split: 32 turns of 8 threads or more to each of 16 columns or more, or
 * of as many more threads as there are fewer columns. */
enum { most_whole = 4096 };

tn_status cuda_reduce_workspace(const tn_kernel_args *args, size_t *bytes) {
  cuda_reduce_plan plan;
  tn_axes axes;
  bool keepdims;
  *bytes = 0;
  if (cuda_size(args->in[0], 0, args->in[0]->ndim) <= most_whole) return TN_OK;
  if (args->kernel->op == TN_OP_ARGMAX || args->kernel->op == TN_OP_ARGMIN) {
    const tn_argmax_attrs *attrs = args->attrs;
    axes = (tn_axes){1, {(int32_t)attrs->axis}};
    keepdims = attrs->keepdims;
  } else { /* the attributes of the others begin like this */
    const tn_sum_attrs *attrs = args->attrs;
    axes = attrs->axes;
    keepdims = attrs->keepdims;
  }
  cuda_reduce_plan_of(&plan, args->in[0], args->out[0], &axes, keepdims, args->device);
  int64_t partials = plan.splits > 1 ? plan.kept.count * plan.splits : 0;
  *bytes = (size_t)partials * cuda_reduce_partial_bytes;
  return TN_OK;
}
