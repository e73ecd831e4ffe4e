/*
 * Mixed precision: which inputs of a call are cast to which type, by the operator's class
 * (api/precision.def), and the call made of them. Whose calls they are, those of a graph or of a
 * tape, and how a tensor is cast, with which casts kept for the next call, its owner says.
 */
#ifndef TENON_GRAPH_AUTOCAST_H
#define TENON_GRAPH_AUTOCAST_H

#include "tenon/plugin.h"
#include "tenon/tenon.h"

struct plan;

/* As tn_precision, with one that plugins need not say: inputs stay, but where tensors that are
 * written to decide. */
typedef enum precision {
  PRECISION_UNSAID = TN_PRECISION_UNSAID,
  PRECISION_LOW = TN_PRECISION_LOW,
  PRECISION_F32 = TN_PRECISION_F32,
  PRECISION_WIDEST = TN_PRECISION_WIDEST,
  PRECISION_AS_GIVEN,
} precision;
/* precision.c: of an operator built in, or a plugin's. */
precision precision_of(const tn_operator *op);

typedef struct autocast autocast;
struct autocast {
  tn_dtype dtype; /* TN_F16 or TN_BF16 */
  /* Gives x in another type, a reference to be released: one that is kept, or by tn_cast. */
  tn_status (*cast)(autocast *a, tn_stream *stream, const tn_tensor *x, tn_dtype dtype,
                    tn_tensor **y);
  /* Makes the call. */
  tn_status (*invoke)(autocast *a, const tn_call *call);
  /* Refuses what `invoke` would refuse of a call that is valid otherwise. Where it is not NULL,
   * calls are validated before anything is cast: casts of one that is refused would show. */
  tn_status (*check)(const struct plan *p);
};

/* Refuses other types than TN_F16, TN_BF16, and TN_DTYPE_NONE for no autocast. */
tn_status autocast_check(const char *function, tn_dtype dtype);

/* tn_invoke with autocast: a call that fails does so with the message that it would have had
 * without. pre: as call_watcher.call (dispatcher/notify/watch.h); the calls inside are not watched.
 */
tn_status autocast_invoke(autocast *a, const tn_call *call);

#endif
