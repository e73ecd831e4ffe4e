/*
 * The scan: a plugin that is new, or has changed, is loaded in a process of its own first
 * (tenon-scan), so that one whose constructors crash, hang or end the process does so
 * there. The verdict is remembered in the user's cache folder and holds for the file: its
 * path, device, inode, size, time of change and build id, and this library's version.
 *
 * It keeps broken plugins out, not malicious ones, which may behave while they are watched.
 */
#ifndef TENON_DISPATCHER_SCANNER_H
#define TENON_DISPATCHER_SCANNER_H

#include <limits.h>

#include "dispatcher/base/config.h"
#include "dispatcher/load/loader.h"
#include "dispatcher/scanner/report.h"

enum { SCAN_LIBRARIES = 24 };

/* Paths of libraries that the plugin needs and this process has loaded already, from
 * wherever: ld.so takes those by name, so the scan's process gets them first. */
typedef struct scan_libraries {
  char paths[4096];
  uint32_t count, used;
} scan_libraries;

/* What a verdict is about. */
typedef struct scan_subject {
  char path[PATH_MAX]; /* without symbolic links */
  file_identity file;
  char build_id[129]; /* hexadecimal, "" if it has none */
  uint32_t timeout_ms;
} scan_subject;

typedef struct scan_result {
  uint32_t outcome;  /* tn_scan_outcome */
  uint32_t us;       /* microseconds that it took */
  char note[256];    /* why the verdict could not be remembered; "" if it was */
  char warning[512]; /* what a scan just made found odd; "" if nothing */
} scan_result;

/* Whether a plugin was installed with this library, or built beside it: then it is its own. */
bool scan_is_own(const char *path);

/* Judges the file that loader_inspect found at an absolute path as the settings ask. TN_OK: it
 * may be loaded. TN_ERR_PLUGIN_REFUSED with the reason, also where no scan could be made. */
tn_status scan_plugin(const config *settings, const char *path, const file_identity *file,
                      scan_result *result);

/* verdict_cache.c: fills report from the cache; false where nothing is known of the subject. */
bool scan_recall(const scan_subject *subject, scan_report *report);
/* Replaces what is known; false, with why, where that cannot be. */
bool scan_remember(const scan_subject *subject, scan_report *report, char why[256]);

/* spawn.c: runs the scanner on the subject and waits for it. TN_ERR_PLUGIN_REFUSED
 * where it cannot be started or gives no report. */
tn_status scan_spawn(const scan_subject *subject, const scan_libraries *libraries,
                     scan_report *report);

#endif
