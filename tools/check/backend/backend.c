/* The list of the checks of slots. */
#include "backend.h"

const slot_check slot_checks[] = {
    {NULL, false, NULL},
};
const uint32_t num_slot_checks = 0;
