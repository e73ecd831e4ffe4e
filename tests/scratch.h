/*
 * Files for the loader's tests: a folder that goes away with the test, and copies of
 * fixture plugins to be damaged.
 */
#ifndef TENON_TESTS_SCRATCH_H
#define TENON_TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/suite.h"

/* A fixture plugin as built, by its short name. */
#define FIXTURE(name) FIXTURE_DIR "/libtenon-" name ".so"

static char scratch[64];

static inline void scratch_make(void) {
  strcpy(scratch, "/tmp/tenon-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(scratch));
}

static inline void scratch_remove(void) {
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", scratch);
  ck_assert_int_eq(system(command), 0);
}

/* The path of a file in the scratch folder; valid until the next eight calls. */
static inline const char *scratch_path(const char *name) {
  static char paths[8][256];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
  return path;
}

/* A file's bytes; the caller frees them. */
static inline unsigned char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "%s is missing", path);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size);
  ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

/* Makes the file anew, so that an old one of the name stays as it is where it is mapped. */
static inline const char *write_file(const char *name, const void *bytes, size_t size) {
  const char *path = scratch_path(name);
  remove(path);
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
  ck_assert_int_eq(fclose(file), 0);
  ck_assert_int_eq(chmod(path, 0644), 0);
  return path;
}

/* Copies a fixture into the scratch folder. */
static inline const char *copy_fixture(const char *from, const char *name) {
  size_t size;
  unsigned char *bytes = read_file(from, &size);
  const char *path = write_file(name, bytes, size);
  free(bytes);
  return path;
}

#endif
