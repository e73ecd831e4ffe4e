/*
 * What code of plugins, and of the libraries that they bring along, may change of the whole
 * process while it is loaded or opens a device: floating-point modes, signal handlers, the
 * thread's signal mask. Taken before and put back after.
 */
#ifndef TENON_DISPATCHER_PROCESS_STATE_H
#define TENON_DISPATCHER_PROCESS_STATE_H

#include <fenv.h>
#include <signal.h>

typedef struct process_state {
  fenv_t floating_point; /* of the thread; on x86 it includes MXCSR */
  sigset_t mask;         /* of the thread */
  struct sigaction actions[NSIG];
} process_state;

void process_state_save(process_state *s);
/* Puts back what has changed. A handler that another thread of the host installs in between
 * counts as changed by the plugin: there is no telling them apart. */
void process_state_restore(const process_state *s);

#endif
