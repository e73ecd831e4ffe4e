/*
 * Keeps a run in a file of named tensors (safetensors), with whole numbers that say where it
 * stands as the file's texts, and a CRC-32 of all elements among them.
 *
 * A file is taken as a whole or not at all: nothing is written to a tensor before checksum, names
 * and shapes are found right. Failures are told on standard error.
 */
#ifndef EXAMPLES_CHECKPOINT_H
#define EXAMPLES_CHECKPOINT_H

#include "tenon/tenon.h"

enum { CHECKPOINT_MAX_NUMBERS = 16 };

/* What a program's checkpoints have. */
typedef struct checkpoint_form {
  const char *program; /* "train" */
  const char *format;  /* the text by which they are known: "tenon train 2" */
  int count;           /* of numbers */
  const char *names[CHECKPOINT_MAX_NUMBERS];
} checkpoint_form;

/* A tensor of the run, float32, borrowed from it. */
typedef struct checkpoint_tensor {
  char name[64];
  tn_tensor *tensor;
} checkpoint_tensor;

bool checkpoint_save(const char *path, const checkpoint_form *form, const uint64_t *numbers,
                     size_t count, const checkpoint_tensor *tensors);

/* A file that is being read. */
typedef struct checkpoint {
  const char *path;
  tn_tensors *file;
  uint64_t crc;
} checkpoint;

/* Reads the numbers, for the program to judge. Close it where this succeeds. */
bool checkpoint_open(checkpoint *c, const char *path, const checkpoint_form *form,
                     uint64_t *numbers);
/* Writes to all of the run's tensors, if they are the file's. */
bool checkpoint_take(const checkpoint *c, size_t count, const checkpoint_tensor *tensors);
void checkpoint_close(checkpoint *c);

/* Tells what is wrong with a file; false. */
bool checkpoint_refuse(const char *path, const char *reason);

#endif
