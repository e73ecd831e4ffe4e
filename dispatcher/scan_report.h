/*
 * What tenon-scan tells the library that started it: one record of fixed size through a
 * pipe that the scanned plugin never holds. Both sides are built together.
 */
#ifndef TENON_DISPATCHER_SCAN_REPORT_H
#define TENON_DISPATCHER_SCAN_REPORT_H

#include <stdint.h>

#define SCAN_MAGIC 0x5ca27e01u
/* The descriptor that the report is written to. */
#define SCAN_FD 3
/* Grows when the scan judges otherwise, so that verdicts of before are not believed. */
#define SCAN_VERSION 1u

typedef enum scan_verdict {
  SCAN_SOUND = 1,   /* loaded, queried, checked, and the process ended as it should */
  SCAN_HARMFUL = 2, /* loading it hurts a process; holds until the file changes */
  SCAN_DECLINED = 3 /* the loader refuses it in good order; may be otherwise tomorrow */
} scan_verdict;

typedef struct scan_report {
  uint32_t magic;
  uint32_t verdict; /* scan_verdict; 0 = the scan itself failed */
  char reason[504]; /* ends with NUL; "" for SCAN_SOUND */
} scan_report;

#endif
