/*
 * Generators: a seed and the counter that the next call of a random operator begins at. A call
 * takes its counters by one atomic step, so that no two calls draw the same numbers, whatever
 * threads make them.
 *
 * How many counters a call takes is the schema's promise (TN_ATTRS_SEED, TN_ATTRS_PAIRED_SEED in
 * ops.def), which counts_of states once more in numbers; tests hold it against what kernels draw.
 */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/objects/runtime.h"
#include "dispatcher/tensor/tensor.h"

struct tn_generator {
  tn_runtime *runtime;
  _Atomic uint64_t seed;
  _Atomic uint64_t offset;
};

static tn_status generator_check(const tn_generator *g, const char *function) {
  if (!g) return fail(TN_ERR_INVALID_ARGUMENT, "%s: generator is NULL", function);
  return runtime_check(g->runtime);
}

tn_status tn_generator_create(tn_runtime *runtime, uint64_t seed, tn_generator **generator) {
  if (!runtime || !generator)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_generator_create: runtime and generator must not be NULL");
  tn_status status = runtime_check(runtime);
  if (status) return status;
  tn_generator *g = host_alloc(&runtime->memory, sizeof *g);
  if (!g) return fail(TN_ERR_OUT_OF_MEMORY, "tn_generator_create: no host memory");
  g->runtime = runtime;
  atomic_init(&g->seed, seed);
  atomic_init(&g->offset, 0);
  runtime_retain_weak(runtime);
  *generator = g;
  return TN_OK;
}

void tn_generator_destroy(tn_generator *generator) {
  if (!generator || runtime_is_forked(generator->runtime)) return;
  tn_runtime *runtime = generator->runtime;
  host_free(&runtime->memory, generator);
  runtime_release_weak(runtime);
}

tn_status tn_generator_get_state(const tn_generator *generator, uint64_t *seed, uint64_t *offset) {
  tn_status status = generator_check(generator, "tn_generator_get_state");
  if (status) return status;
  if (seed) *seed = atomic_load(&generator->seed);
  if (offset) *offset = atomic_load(&generator->offset);
  return TN_OK;
}

tn_status tn_generator_set_state(tn_generator *generator, uint64_t seed, uint64_t offset) {
  tn_status status = generator_check(generator, "tn_generator_set_state");
  if (status) return status;
  atomic_store(&generator->seed, seed);
  atomic_store(&generator->offset, offset);
  return TN_OK;
}

/* --- taking counters --- */

tn_status tn_generator_reserve(tn_generator *generator, uint64_t counters, uint64_t *seed,
                               uint64_t *offset) {
  tn_status status = generator_check(generator, "tn_generator_reserve");
  if (status) return status;
  if (!seed || !offset)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_generator_reserve: seed and offset must not be NULL");
  uint64_t first = atomic_load(&generator->offset), next;
  do {
    if (__builtin_add_overflow(first, counters, &next))
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "the generator's sequence is used up: %" PRIu64 " counters wanted at %" PRIu64
                  "; give it another seed",
                  counters, first);
  } while (!atomic_compare_exchange_weak(&generator->offset, &first, next));
  *seed = atomic_load(&generator->seed);
  *offset = first;
  return TN_OK;
}

/* The counters of `numbers` draws of one word each, of two in float64. */
static uint64_t counters_of_words(uint64_t numbers, tn_dtype dtype) {
  uint64_t fours = numbers / 4 + (numbers % 4 != 0);
  return dtype == TN_F64 ? 2 * fours : fours;
}

/* Of draws that take two words each, whatever the type. */
static uint64_t counters_of_pairs(uint64_t numbers) { return numbers / 2 + numbers % 2; }

static uint64_t counters_of_draws(const tn_tensor *weights, const tn_multinomial_attrs *attrs) {
  int64_t n = weights->dl.ndim ? weights->shape[weights->dl.ndim - 1] : 1;
  uint64_t rows = n ? (uint64_t)(weights->elements / n) : 0, numbers = 0;
  if (attrs->samples < 0 || __builtin_mul_overflow(rows, (uint64_t)attrs->samples, &numbers))
    return 0; /* the call will be refused */
  return counters_of_pairs(numbers);
}

/* What a call of the operator on this tensor takes. False where nobody knows. */
static bool counters_of(uint32_t op, const tn_tensor *t, const void *attrs, uint64_t *counters) {
  uint64_t elements = (uint64_t)t->elements;
  switch (op) {
  case TN_OP_DROPOUT:
  case TN_OP_UNIFORM:
  case TN_OP_NORMAL:
  case TN_OP_BERNOULLI:
  case TN_OP_TRUNCATED_NORMAL:
    *counters = counters_of_words(elements, (tn_dtype)t->dtype);
    return true;
  case TN_OP_RANDINT:
  case TN_OP_RANDPERM:
    *counters = counters_of_pairs(elements);
    return true;
  case TN_OP_MULTINOMIAL:
    *counters = counters_of_draws(t, attrs);
    return true;
  default:
    return false;
  }
}

/* The operator's attribute of that name, a U64 inside the caller's struct; NULL if it has none. */
static uint64_t *find_u64(const tn_operator *op, const char *name, void *attrs) {
  uint32_t size;
  memcpy(&size, attrs, sizeof size);
  for (uint32_t i = 0; i < op->num_attrs; ++i) {
    const tn_attr *a = tn_operator_attr(op, i);
    if (a->type == TN_ATTR_U64 && strcmp(a->name, name) == 0 && a->offset + 8 <= size)
      return (uint64_t *)(void *)((char *)attrs + a->offset);
  }
  return NULL;
}

tn_status tn_generator_next(tn_generator *generator, uint32_t op, const tn_tensor *tensor,
                            void *attrs) {
  tn_status status = generator_check(generator, "tn_generator_next");
  if (!status) status = tensor_check(tensor, "tn_generator_next");
  if (!status)
    status = struct_check("tn_generator_next", "attrs", "the operator's attributes", attrs);
  if (status) return status;
  const op_entry *entry = registry_op(&generator->runtime->registry, op);
  if (!entry) return fail(TN_ERR_NOT_FOUND, "tn_generator_next: no operator has number %u", op);
  uint64_t counters, *seed = find_u64(&entry->row, "seed", attrs),
                     *offset = find_u64(&entry->row, "offset", attrs);
  if (!seed || !offset)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_generator_next: tn_%s draws no random numbers, or struct_size of its "
                "attributes is too small",
                entry->row.name);
  if (!counters_of(op, tensor, attrs, &counters))
    return fail(TN_ERR_UNSUPPORTED,
                "tn_generator_next: how many counters tn_%s takes is its plugin's business; use "
                "tn_generator_reserve",
                entry->row.name);
  return tn_generator_reserve(generator, counters, seed, offset);
}
