/* The processor's name and features, for the device's description. */
#ifndef TENON_BACKENDS_CPU_PROCESSOR_H
#define TENON_BACKENDS_CPU_PROCESSOR_H

#include <stddef.h>

/* Writes the model's name, some text in any case. */
void processor_name(char *name, size_t size);
/* Writes its architecture and the instruction sets beyond it, words with spaces between. */
void processor_features(char *words, size_t size);

#endif
