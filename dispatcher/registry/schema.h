/* The operators built in, as the operator table declares them (printed by opgen). */
#ifndef TENON_DISPATCHER_SCHEMA_H
#define TENON_DISPATCHER_SCHEMA_H

#include "tenon/plugin.h"

/* In order of their numbers. */
extern const tn_operator builtin_operators[];
extern const size_t builtin_operator_count;

#endif
