/*
 * What was chosen by measuring: remembered for the process and, in a file, for those to come, by
 * the bytes of a key and by what the choice depends on beside it: the device's name, the driver,
 * the libraries and Tenon's version. Thread-safe. Nothing here fails a call.
 */
#ifndef KERNELS_CUDA_CHOICES_H
#define KERNELS_CUDA_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { cuda_choice_bytes = 96 };

typedef struct cuda_choice_key {
  uint64_t environment; /* cuda_choice_environment */
  const void *key;
  size_t bytes;
} cuda_choice_key;

/* What choices on device `ordinal` depend on beside their keys. `subject` tells kinds of keys
 * apart. */
uint64_t cuda_choice_environment(int ordinal, const char *subject);

/* Fills `value`, of at most cuda_choice_bytes; false where nothing of that size is known. */
bool cuda_choice_find(const cuda_choice_key *key, void *value, size_t bytes);
/* Remembers a value for the process; `lasts`: and for those to come. */
void cuda_choice_add(const cuda_choice_key *key, const void *value, size_t bytes, bool lasts);

/* Whether TENON_CUDA_TUNE says not to measure, or to measure small shapes, too. */
bool cuda_choice_is_off(void);
bool cuda_choice_takes_all(void);

#endif /* KERNELS_CUDA_CHOICES_H */
