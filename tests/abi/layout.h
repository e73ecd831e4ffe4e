/* What the lists of layouts are made of: each line stops the build where it is not so. */
#ifndef TENON_TESTS_ABI_LAYOUT_H
#define TENON_TESTS_ABI_LAYOUT_H

#include "tenon/plugin.h"
#include "tenon/tenon.h"

#define AT(type, field, offset, size)                                                              \
  _Static_assert(offsetof(type, field) == (offset) && sizeof(((type *)0)->field) == (size),        \
                 #type "." #field " was at byte " #offset " with " #size " bytes")
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " had " #size " bytes")
/* Structs that say their size may grow. */
#define GROWS(type, size) _Static_assert(sizeof(type) >= (size), #type " had " #size " bytes")
#define IS(constant, value) _Static_assert((constant) == (value), #constant " was " #value)
#define HOLDS(set, types) _Static_assert(((set) & (types)) == (types), #set " held " #types)
#define ATTR(op, field, offset, size) AT(tn_##op##_attrs, field, offset, size)
#define ATTRS(op, size)                                                                            \
  GROWS(tn_##op##_attrs, size);                                                                    \
  AT(tn_##op##_attrs, struct_size, 0, 4)

#endif
