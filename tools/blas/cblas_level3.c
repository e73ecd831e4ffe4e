/* CBLAS level 3, over the four types. */
#include "cblas_frame.h"

#define CBLAS_BODY "cblas_level3.inc"
#include "cblas_each.inc"
