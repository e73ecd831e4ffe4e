/* What the tests of schedules share. */
#ifndef TENON_TESTS_STEPS_H
#define TENON_TESTS_STEPS_H

#include <stdio.h>

#include "graphs.h"

/* Names that no other tensor of the graph has. */
static inline const char *name(char kind, int number) {
  static char text[16];
  snprintf(text, sizeof text, "%c%d", kind, number);
  return text;
}

/* Compiles with a share of the time for computing again, 0 being the default. */
static inline tn_program *compiled_for(tn_graph *g, tn_device *on, uint32_t flags,
                                       uint32_t percent) {
  tn_compile_options options = {
      .struct_size = sizeof options, .flags = flags, .recompute_percent = percent};
  tn_program *p = NULL;
  ok(tn_graph_compile(g, on, &options, &p));
  return p;
}

#endif
