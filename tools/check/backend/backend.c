/* The list of the checks of slots, in the order in which they run. */
#include "backend.h"

const slot_check slot_checks[] = {
    {"device", false, NULL, "count, describe, open, close"},
};
const uint32_t num_slot_checks = sizeof slot_checks / sizeof *slot_checks;
