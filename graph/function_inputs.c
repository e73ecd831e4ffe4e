/* What a function's inputs must be: declarations that leave sizes open, and sizes of one name that
 * are equal. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/tensor/tensor.h"
#include "graph/function.h"

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "tn_function_create: no host memory for a function");
}

const char *function_input_name(const tn_function *f, size_t index, char room[32]) {
  if (index < f->num_inputs) return f->inputs[index].name;
  snprintf(room, 32, "in%zu", index);
  return room;
}

/* --- declaring --- */

static tn_status refuse(size_t index, const char *name, const char *why) {
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_create: input %zu, \"%s\": %s", index,
              name ? name : "", why);
}

static tn_status check_declared(const tn_function *f, size_t index, const tn_function_input *x) {
  if (!x->name || !*x->name) return refuse(index, x->name, "it needs a name");
  for (size_t i = 0; i < index; ++i)
    if (!strcmp(f->inputs[i].name, x->name)) return refuse(index, x->name, "so is another called");
  if (x->dtype != TN_DTYPE_NONE && !tn_dtype_size(x->dtype))
    return refuse(index, x->name, "its dtype is no element type; TN_DTYPE_NONE leaves it open");
  if (x->rank != TN_RANK_OPEN && (x->rank < 0 || x->rank > TN_MAX_RANK))
    return refuse(index, x->name, "the rank must be 0 to 8, or TN_RANK_OPEN");
  for (int32_t i = 0; x->shape && i < x->rank; ++i)
    if (x->shape[i] < 0 && x->shape[i] != TN_SIZE_OPEN)
      return refuse(index, x->name, "a size is negative; TN_SIZE_OPEN leaves one open");
  return TN_OK;
}

/* The caller's, complete with what a later or earlier struct of his has less or more. */
static tn_function_input given_at(const tn_function_options *o, size_t index) {
  tn_function_input x = {0};
  size_t bytes = o->input_size < sizeof x ? o->input_size : sizeof x;
  memcpy(&x, (const char *)(const void *)o->inputs + index * o->input_size, bytes);
  return x;
}

/* Fills inputs[index] with copies: what it has got is freed by function_undeclare. */
static tn_status keep(tn_function *f, size_t index, const tn_function_input *x) {
  tn_function_input *kept = &f->inputs[index];
  size_t rank = x->rank > 0 ? (size_t)x->rank : 0;
  *kept = (tn_function_input){.dtype = x->dtype, .rank = x->rank};
  kept->name = host_strdup(&f->memory, x->name);
  if (!kept->name) return no_memory();
  if (x->shape && rank) {
    int64_t *shape = host_alloc(&f->memory, rank * sizeof *shape);
    if (!shape) return no_memory();
    kept->shape = memcpy(shape, x->shape, rank * sizeof *shape);
  }
  if (!x->symbols || !rank) return TN_OK;
  char **symbols = host_alloc(&f->memory, rank * sizeof *symbols);
  if (!symbols) return no_memory();
  kept->symbols = (const char *const *)symbols;
  for (size_t i = 0; i < rank; ++i) {
    if (!x->symbols[i]) continue;
    symbols[i] = host_strdup(&f->memory, x->symbols[i]);
    if (!symbols[i]) return no_memory();
  }
  return TN_OK;
}

tn_status function_declare(tn_function *f, const tn_function_options *o) {
  const char *const whole = "tn_function_create: options->input_size is %u: set it to "
                            "sizeof(tn_function_input)";
  if (!o->inputs) return TN_OK;
  if (o->input_size < offsetof(tn_function_input, symbols) + sizeof(void *))
    return fail(TN_ERR_INVALID_ARGUMENT, whole, o->input_size);
  f->inputs = host_alloc(&f->memory, (o->num_inputs + 1) * sizeof *f->inputs);
  if (!f->inputs) return no_memory();
  tn_status status = TN_OK;
  for (size_t i = 0; !status && i < o->num_inputs; ++i) {
    const tn_function_input x = given_at(o, i);
    status = check_declared(f, i, &x);
    if (status) break;
    f->num_inputs = i + 1;
    status = keep(f, i, &x);
  }
  return status;
}

void function_undeclare(tn_function *f) {
  for (size_t i = 0; i < f->num_inputs; ++i) {
    const tn_function_input *x = &f->inputs[i];
    for (int32_t k = 0; x->symbols && k < x->rank; ++k)
      host_free(&f->memory, (void *)(uintptr_t)x->symbols[k]);
    host_free(&f->memory, (void *)(uintptr_t)x->symbols);
    host_free(&f->memory, (void *)(uintptr_t)x->shape);
    host_free(&f->memory, (void *)(uintptr_t)x->name);
  }
  host_free(&f->memory, f->inputs);
}

/* --- checking a run's --- */

static tn_status misfit(const tn_function *f, size_t index, const tn_tensor *t, const char *why) {
  char text[256];
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_run: function %s, input \"%s\" (%s): %s",
              f->name, f->inputs[index].name, tensor_text(text, sizeof text, t), why);
}

static const char *symbol_of(const tn_function_input *x, int32_t axis) {
  const char *symbol = x->symbols && axis < x->rank ? x->symbols[axis] : NULL;
  return symbol ? symbol : "";
}

static tn_status check_own(const tn_function *f, size_t index, const tn_tensor *t) {
  const tn_function_input *x = &f->inputs[index];
  char why[256];
  if (x->dtype != TN_DTYPE_NONE && x->dtype != (tn_dtype)t->dtype) {
    snprintf(why, sizeof why, "it must be %s; use tn_cast", tn_dtype_name(x->dtype));
    return misfit(f, index, t, why);
  }
  if (x->rank == TN_RANK_OPEN) return TN_OK;
  if (x->rank != t->dl.ndim) {
    snprintf(why, sizeof why, "it must have %d sizes, and has %d; use tn_tensor_reshape", x->rank,
             t->dl.ndim);
    return misfit(f, index, t, why);
  }
  for (int32_t i = 0; x->shape && i < x->rank; ++i) {
    if (x->shape[i] == TN_SIZE_OPEN || x->shape[i] == t->shape[i]) continue;
    snprintf(why, sizeof why,
             "size %d is %" PRId64 " and must be %" PRId64 ": the function does not leave it open",
             i, t->shape[i], x->shape[i]);
    return misfit(f, index, t, why);
  }
  return TN_OK;
}

/* A size of another name, or one that has none, fits any. */
static tn_status check_pair(const tn_function *f, const tn_tensor *const *in, size_t a, int32_t i,
                            size_t b) {
  const char *symbol = symbol_of(&f->inputs[a], i);
  char why[384];
  for (int32_t k = 0; k < f->inputs[b].rank; ++k) {
    if (a == b && k >= i) break;
    if (strcmp(symbol_of(&f->inputs[b], k), symbol) != 0 || in[b]->shape[k] == in[a]->shape[i])
      continue;
    snprintf(why, sizeof why,
             "size %d, \"%.64s\", is %" PRId64 ", and size %d of input \"%.64s\", the same, is "
             "%" PRId64 ": give tensors in which they are equal",
             i, symbol, in[a]->shape[i], k, f->inputs[b].name, in[b]->shape[k]);
    return misfit(f, a, in[a], why);
  }
  return TN_OK;
}

static tn_status check_symbols(const tn_function *f, const tn_tensor *const *in, size_t index) {
  tn_status status = TN_OK;
  for (int32_t i = 0; !status && i < f->inputs[index].rank; ++i)
    for (size_t k = 0; !status && *symbol_of(&f->inputs[index], i) && k <= index; ++k)
      status = check_pair(f, in, index, i, k);
  return status;
}

tn_status function_check_inputs(const tn_function *f, size_t num_in, const tn_tensor *const *in) {
  tn_status status = TN_OK;
  if (!f->inputs) return TN_OK;
  for (size_t i = 0; !status && i < num_in; ++i) status = check_own(f, i, in[i]);
  for (size_t i = 0; !status && i < num_in; ++i) status = check_symbols(f, in, i);
  return status;
}
