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
  /* What graph/ knows it by, 0 at first: a symbolic tensor's number in its graph, plus one; of
   * others what tapes call it. */
  _Atomic uint32_t mark;
  struct block *block; /* NULL for an import */
  tn_device *device;
  void (*destroy)(void *ctx); /* of an import */
  void *destroy_ctx;
  tn_tensor first; /* the tensor made together with the storage */
};

/* The storage of an import. Apart from storage, which is as large as a block's header may be. */
typedef struct imported {
  storage storage;         /* first */
  const char *begin;       /* its lowest element; on an opaque device nothing */
  struct pool_cache *home; /* of the stream that it was taken for; NULL where none was named */
} imported;

#endif
