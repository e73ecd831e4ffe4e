/* The fast path of the commonest calls; see fast_path.c. */
#ifndef TENON_DISPATCHER_FAST_PATH_H
#define TENON_DISPATCHER_FAST_PATH_H

#include "dispatcher/call/plan.h"

/* Serves the call if it is a plain one and puts its status into *status; false, with
 * nothing done, if it must go the general way. */
bool fast_path_invoke(const tn_call *call, tn_status *status);

/* The same of a call that has an input and one output: see fast_product.c. */
bool fast_product_invoke(const tn_call *call, const op_entry *op, tn_status *status);

/* tn_invoke for whoever watches the call (notify/watch.h) and lets it run. */
tn_status invoke_recorded(const tn_call *call);

#endif
