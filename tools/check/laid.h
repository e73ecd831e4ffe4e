/* A case's call laid out on a device, row-major, to be made many times. */
#ifndef TENON_CHECK_LAID_H
#define TENON_CHECK_LAID_H

#include "compare.h"
#include "tenon/tenon.h"

typedef struct laid {
  const op_case *c;
  tn_device *device;
  tn_stream *stream;
  uint32_t num_in, num_args;
  bool updates;                   /* has in-out arguments */
  void *values[CASE_ARGS];        /* of inputs and in-out arguments */
  const tn_tensor *in[CASE_ARGS]; /* the first num_in of arg */
  tn_tensor *arg[CASE_ARGS];      /* outputs once a call made them */
} laid;

/* Inputs hold the case's numbers and are there for every stream once the device has been waited
 * for. On failure nothing is left. */
tn_status laid_make(const op_case *c, tn_device *device, tn_stream *stream, laid *l);
/* The call, which points into *l: outputs that are there are written again. */
tn_call laid_call(laid *l);
/* In-out arguments get the case's numbers again, in the stream's order. */
tn_status laid_refresh(laid *l);
/* Releases the outputs, so that the next call makes others. */
void laid_drop_outputs(laid *l);
void laid_free(laid *l);

/* Reads an output back; what it holds is for free(). */
tn_status laid_read(const tn_tensor *t, output *o);

/* The kernel at `rank` prepared, unless it is one that another plugin, the reference's, has there
 * for all host devices: TN_ERR_UNSUPPORTED past the last and for that one. */
tn_status laid_prepare(laid *l, uint32_t rank, const char *judge, tn_prepared **prepared);

#endif
