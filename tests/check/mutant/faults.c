/* The table of faults, for whoever opens a device. */
#include <strings.h>

#include "mutant.h"

bool mutant_fault_find(const char *name, mutant_fault *fault) {
  static const char *const names[] = {
      "none",
#define FAULT(name, what) #name,
#include "faults.def"
#undef FAULT
  };
  *fault = FAULT_NONE;
  if (!name || !*name) return true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcasecmp(names[i], name)) return *fault = (mutant_fault)i, true;
  return false;
}
