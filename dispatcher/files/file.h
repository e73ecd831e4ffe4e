/* A file of tensors that is open, and its memory, which tensors may outlive it with. */
#ifndef TENON_DISPATCHER_FILE_H
#define TENON_DISPATCHER_FILE_H

#include <stdatomic.h>

#include "dispatcher/files/header.h"

/* The whole file, mapped to be read. Held by its tn_tensors and by each tensor that lies in it. */
typedef struct mapping {
  _Atomic uint32_t refs;
  char *base;
  size_t bytes;
} mapping;

void mapping_hold(mapping *m);
void mapping_drop(void *m);

struct tn_tensors {
  int fd;
  char *path;
  int64_t bytes;      /* of the file, when it was opened */
  int64_t data_begin; /* in the file */
  mapping *map;       /* NULL where it could not be had: the file is read then */
  header header;
};

/* Reads exactly these bytes; `what` is for the message. Errors: IO. */
tn_status file_read(const tn_tensors *file, const char *what, void *data, size_t bytes,
                    int64_t offset);
/* The file is still as long as when it was opened. Errors: IO. */
tn_status file_check(const tn_tensors *file, const char *function);

#endif
