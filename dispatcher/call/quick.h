/* The short way of the commonest calls; see quick.c. */
#ifndef TENON_DISPATCHER_QUICK_H
#define TENON_DISPATCHER_QUICK_H

#include "dispatcher/call/plan.h"

/* Whether calls of the operator may take the short way at all. */
bool quick_suits(const op_entry *op);

/* Serves the call if it is a plain one and puts its status into *status; false, with
 * nothing done, if it must go the long way. */
bool quick_invoke(const tn_call *call, tn_status *status);

#endif
