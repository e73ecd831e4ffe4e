/* The loading half of tenon-scan: what happens in the process that may come to harm. */
#ifndef TENON_DISPATCHER_TRIAL_LOAD_H
#define TENON_DISPATCHER_TRIAL_LOAD_H

#include <stdatomic.h>

#include "dispatcher/scanner/report.h"

/* How far it has come; where it stands when the process dies is where the fault is. */
typedef enum scan_stage {
  SCAN_STARTING,
  SCAN_LOADING,
  SCAN_QUERYING,
  SCAN_CHECKING,
  SCAN_ENDING, /* the verdict stands; what runs at the end of a process is left */
  /* Of the second process, which goes on from there: */
  SCAN_OPENING,
  SCAN_COUNTING,
  SCAN_DESCRIBING,
  SCAN_OPENING_DEVICE,
  SCAN_CLOSING_DEVICE,
  SCAN_CLOSING,
  SCAN_OPENED,
} scan_stage;

/* Lies in memory that both processes share, so that the plugin has no descriptor to write
 * to or close. */
typedef struct scan_progress {
  _Atomic uint32_t stage;   /* scan_stage */
  _Atomic uint32_t verdict; /* scan_verdict, 0 while there is none */
  char reason[sizeof((scan_report *)0)->reason];
} scan_progress;

/* Loads the libraries, then the plugin if it is that very file, leaves what it found in *progress
 * and ends the process. */
_Noreturn void scan_load(const char *path, const file_identity *file, char *const *libraries,
                         scan_progress *progress);

/* trial_open.c: loads them in the same way, lets the plugin start its driver and look for devices,
 * and ends the process. */
_Noreturn void scan_open(const char *path, const file_identity *file, char *const *libraries,
                         scan_progress *progress);

/* What both begin with, and the host that the plugin gets. */
void scan_load_libraries(char *const *libraries);
tn_status scan_load_plugin(const char *path, const file_identity *file, scan_progress *progress,
                           const tn_plugin **plugin);
extern const tn_host scan_host;

#endif
