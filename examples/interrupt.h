/* Ctrl-C asks a program to stop where it can; a second one ends it at once. */
#ifndef EXAMPLES_INTERRUPT_H
#define EXAMPLES_INTERRUPT_H

#include <stdbool.h>

void interrupt_watch(void);
bool interrupted(void);

#endif
