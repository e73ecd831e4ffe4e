/* CBLAS level 2, over the four types. */
#include <stdio.h>
#include <stdlib.h>

#include "cblas_frame.h"

#define CBLAS_BODY "cblas_level2.inc"
#include "cblas_each.inc"
