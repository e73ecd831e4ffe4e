/* Shared by the tests of files of tensors: hand-made files in the scratch folder. */
#ifndef TENON_TESTS_FILES_SUPPORT_H
#define TENON_TESTS_FILES_SUPPORT_H

#include "tests/scratch.h"
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;

static inline void files_setup(void) {
  scratch_make();
  rt = open_host_runtime();
  dev = tn_runtime_device(rt);
}

static inline void files_teardown(void) {
  tn_runtime_close(rt);
  scratch_remove();
}

/* A file of this header, whose length is stated as `length`, and this many bytes 0, 1, 2... */
static inline const char *make_file(const char *header, uint64_t length, size_t data_bytes) {
  size_t size = strlen(header);
  unsigned char *bytes = malloc(8 + size + data_bytes);
  for (int i = 0; i < 8; ++i) bytes[i] = (unsigned char)(length >> 8 * i);
  memcpy(bytes + 8, header, size);
  for (size_t i = 0; i < data_bytes; ++i) bytes[8 + size + i] = (unsigned char)i;
  const char *path = write_file("made.safetensors", bytes, 8 + size + data_bytes);
  free(bytes);
  return path;
}

static inline tn_tensors *open_made(const char *header, size_t data_bytes) {
  tn_tensors *file = NULL;
  ok(tn_tensors_open(make_file(header, strlen(header), data_bytes), &file));
  return file;
}

static inline tn_tensor *load(const tn_tensors *file, const char *name, tn_device *device) {
  size_t index;
  tn_tensor *t = NULL;
  ok(tn_tensors_find(file, name, &index));
  ok(tn_tensors_load(file, index, device, &t));
  return t;
}

static inline tn_tensors_entry entry_of(const tn_tensors *file, size_t index) {
  tn_tensors_entry e = {.struct_size = sizeof e};
  ok(tn_tensors_at(file, index, &e));
  return e;
}

/* A tensor of a header, and a header of one tensor. */
#define ENTRY(name, type, shape, begin, end)                                                       \
  "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
#define ONE(type, shape, begin, end) "{" ENTRY("w", type, shape, begin, end) "}"

#endif
