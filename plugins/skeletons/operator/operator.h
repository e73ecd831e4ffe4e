/* What programs need to call the operator: its name and its attributes. */
#ifndef TEMPLATE_OPERATOR_H
#define TEMPLATE_OPERATOR_H

#include <stdint.h>

/* The part before the dot is yours alone, so that no later operator of Tenon's has the name. */
#define TEMPLATE_SCALE_SHIFT "template.scale_shift"

/* y = scale x + shift. Grows at its end, beyond its present size, and never otherwise. */
typedef struct template_scale_shift_attrs {
  uint32_t struct_size; /* sizeof(template_scale_shift_attrs) */
  double scale;
  double shift;
} template_scale_shift_attrs;

#endif
