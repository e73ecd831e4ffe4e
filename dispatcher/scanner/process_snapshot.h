/*
 * What belongs to a process as a whole and not to a library in it: taken down before and after
 * a plugin was loaded, so that tenon-scan can tell what the plugin changed.
 */
#ifndef TENON_DISPATCHER_PROCESS_SNAPSHOT_H
#define TENON_DISPATCHER_PROCESS_SNAPSHOT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

enum {
  STATE_SIGNALS = 65,
  STATE_NUMBERS = 24,      /* rows of the table in process_snapshot.c, at most */
  STATE_DESCRIPTORS = 128, /* looked at */
  STATE_LEAKS = 16         /* descriptors that a plugin may keep, with a warning */
};

typedef struct descriptor {
  int fd, flags;
  uint64_t device, inode;
} descriptor;

typedef struct scan_state {
  uint64_t numbers[STATE_NUMBERS];
  uint64_t processors;
  struct rlimit limits[RLIM_NLIMITS];
  struct sigaction actions[STATE_SIGNALS];
  sigset_t blocked;
  stack_t stack;
  char locale[256];
  char **environment; /* copies, up to a NULL; never freed: the process is about to end */
  descriptor descriptors[STATE_DESCRIPTORS];
  size_t num_descriptors, num_threads;
} scan_state;

void scan_state_take(scan_state *state);

/* Writes what a plugin may not do and did, in words; false if that is nothing. */
bool scan_state_find_harm(const scan_state *before, const scan_state *after, char *text,
                          size_t size);

/* The same for what it had better not do. */
bool scan_state_find_oddity(const scan_state *before, const scan_state *after, char *text,
                            size_t size);

#endif
