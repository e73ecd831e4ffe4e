#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  asked = 1;
}

void interrupt_watch(void) {
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
}

bool interrupted(void) { return asked; }
