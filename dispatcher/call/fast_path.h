/* The fast path of the commonest calls; see fast_path.c. */
#ifndef TENON_DISPATCHER_FAST_PATH_H
#define TENON_DISPATCHER_FAST_PATH_H

#include "dispatcher/call/plan.h"

/* Serves the call if it is a plain one and puts its status into *status; false, with
 * nothing done, if it must go the general way. */
bool fast_path_invoke(const tn_call *call, tn_status *status);

#endif
