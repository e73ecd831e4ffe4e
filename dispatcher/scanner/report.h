/*
 * What the library tells tenon-scan, and what that tells the library: one record of fixed size
 * through a pipe that the scanned plugin never holds. Both sides are built together.
 */
#ifndef TENON_DISPATCHER_REPORT_H
#define TENON_DISPATCHER_REPORT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "dispatcher/load/loader.h"

#define SCAN_MAGIC 0x5ca27e01u
/* The descriptor that the report is written to. */
#define SCAN_FD 3
/* Grows when the scan judges otherwise, so that verdicts of before are not believed. */
#define SCAN_VERSION 3u

/* How many times longer than loading a plugin may take to start its driver and look for devices:
 * 30 seconds where nobody said otherwise. */
#define SCAN_DRIVER_TIMES 6u

/* For how long harm with a driver is remembered, in seconds: a driver may be mended while the
 * plugin's file stays as it is, but not at each start of a program. */
enum { SCAN_FELLED_S = 3600 };

typedef enum scan_verdict {
  SCAN_SOUND = 1,    /* loaded, queried, checked, and the process ended as it should */
  SCAN_HARMFUL = 2,  /* loading it hurts a process like this one */
  SCAN_DECLINED = 3, /* the loader refuses it in good order; may be otherwise tomorrow */
  SCAN_HINDERED = 4, /* it came to harm, perhaps through no fault of the file's */
  SCAN_FELLED = 5,   /* by the driver that it started, or as that: holds for SCAN_FELLED_S */
} scan_verdict;

typedef struct scan_report {
  uint32_t magic;
  uint32_t verdict; /* scan_verdict; 0 = the scan itself failed */
  int64_t found_s;  /* of SCAN_FELLED, filled in by scan_remember: when, by CLOCK_BOOTTIME */
  char reason[504]; /* ends with NUL; of SCAN_SOUND: "", or what is odd about it */
} scan_report;

/* Which file is meant, as the scanner's argument. */
static inline void scan_write_file(const file_identity *f, char text[128]) {
  snprintf(text, 128, "%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRId64 ":%" PRId64, f->device,
           f->inode, f->size, f->mtime_ns, f->ctime_ns);
}
static inline bool scan_read_file(const char *text, file_identity *f) {
  return sscanf(text, "%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNd64 ":%" SCNd64, &f->device,
                &f->inode, &f->size, &f->mtime_ns, &f->ctime_ns) == 5;
}

#endif
