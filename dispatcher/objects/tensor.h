/* Tensors and the memory that they show, as structs. */
#ifndef TENON_DISPATCHER_OBJECTS_TENSOR_H
#define TENON_DISPATCHER_OBJECTS_TENSOR_H

#include <stdatomic.h>

#include "tenon/tenon.h"

typedef struct storage storage;

/* Where a tensor's header lies. */
enum {
  SPARE_TRACKED = -1, /* in memory of its own, to be kept after the release: tracked.h */
  SPARE_NONE = 0,     /* in its storage */
  SPARE_VIEW = 1,     /* in memory of its own, to be recycled */
};

/* A view of a storage. `dl` is first: kernels get its address. */
struct tn_tensor {
  DLTensor dl; /* shape and strides point to the arrays below */
  _Atomic uint32_t refs;
  uint8_t dtype;
  bool contiguous;
  int8_t spare; /* where the header came from */
  bool read_only;
  storage *storage;
  tn_device *device;
  int64_t elements;
  int64_t shape[TN_MAX_RANK];
  int64_t strides[TN_MAX_RANK];
  tn_tensor *next_spare;
};

/* Memory with its owner: a pool block, in whose header this lies, or an import. */
struct storage {
  _Atomic uint32_t refs;
  _Atomic uint32_t tag; /* its mark, and STORAGE_HOMELESS; 0 at first */
  struct block *block;  /* NULL for an import */
  tn_device *device;
  void (*destroy)(void *ctx); /* of an import */
  void *destroy_ctx;
  tn_tensor first; /* the tensor made together with the storage */
};

/* Of a storage's tag: the stream that its block was taken for is gone. Beside the mark since that
 * is set anew wherever a block is handed out, so that this costs making a tensor nothing. */
#define STORAGE_HOMELESS UINT32_C(0x80000000)

static inline bool storage_is_homeless(const storage *s) {
  return atomic_load_explicit(&s->tag, memory_order_relaxed) & STORAGE_HOMELESS;
}

/* What graph/ knows the storage by, 0 if by nothing: a symbolic tensor's number in its graph, plus
 * one; of others what tapes call it. */
static inline uint32_t storage_mark(const storage *s) {
  return atomic_load_explicit(&s->tag, memory_order_relaxed) & ~STORAGE_HOMELESS;
}

/* Gives it the mark if it has none, and returns which it has. pre: mark < STORAGE_HOMELESS. */
static inline uint32_t storage_mark_once(storage *s, uint32_t mark) {
  uint32_t tag = atomic_load_explicit(&s->tag, memory_order_relaxed);
  while (!(tag & ~STORAGE_HOMELESS) && !atomic_compare_exchange_weak(&s->tag, &tag, tag | mark))
    continue;
  return tag & ~STORAGE_HOMELESS ? tag & ~STORAGE_HOMELESS : mark;
}

/* Gives it the mark, 0 for none, whatever it had. */
static inline void storage_set_mark(storage *s, uint32_t mark) {
  uint32_t tag = atomic_load_explicit(&s->tag, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&s->tag, &tag, (tag & STORAGE_HOMELESS) | mark)) continue;
}

/* The storage of an import. Apart from storage, which is as large as a block's header may be. */
typedef struct imported {
  storage storage;         /* first */
  const char *begin;       /* its lowest element; on an opaque device nothing */
  struct pool_cache *home; /* of the stream that it was taken for; NULL where none was named */
  uint64_t opened;         /* which of the streams that the cache has served */
} imported;

#endif
