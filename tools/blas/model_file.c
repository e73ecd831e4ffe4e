/*
 * Models as files: tenon/blas/NAME in $XDG_CACHE_HOME or ~/.cache, NAME being a checksum of the
 * key. The file repeats the key, for checksums may meet, and ends in a checksum of itself; whatever
 * is not exactly as it was written is no file. Written beside its place and renamed into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model.h"
#include "settings.h"

enum { TEXT_BYTES = 8192 };

/* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint64_t checksum(const char *text, size_t length) {
  uint64_t sum = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; ++i)
    sum = (sum ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
  return sum;
}

static bool file_path(const char *key, char path[PATH_MAX]) {
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *below = "";
  if (!cache || *cache != '/') cache = secure_getenv("HOME"), below = "/.cache";
  if (!cache || *cache != '/') return false;
  return snprintf(path, PATH_MAX, "%s%s/tenon/blas/%016" PRIx64, cache, below,
                  checksum(key, strlen(key))) < PATH_MAX - 16;
}

static void make_folders(char *path) {
  for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
  }
}

/* The numbers in hexadecimal, so that they come back as they were. False where it does not fit. */
static bool write_text(const char *key, const model *m, char text[TEXT_BYTES]) {
  int length = snprintf(text, TEXT_BYTES,
                        "tenon-blas 1\n%s\nhost %a %a\ndevice %a %a\ncopies %a overhead %a\n", key,
                        m->host_rate[0], m->host_rate[1], m->device_rate[0], m->device_rate[1],
                        m->copy_rate, m->overhead);
  if (length < 0 || length > TEXT_BYTES - 32) return false;
  snprintf(text + length, (size_t)(TEXT_BYTES - length), "sum %016" PRIx64 "\n",
           checksum(text, (size_t)length));
  return true;
}

static bool read_text(const char *path, char text[TEXT_BYTES]) {
  int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  ssize_t length = read(file, text, TEXT_BYTES - 1);
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  return strlen(text) == (size_t)length;
}

/* What was read is what these numbers would be written as, and nothing else: no part of the text
 * has to be judged on its own. */
bool model_load(const char *key, model *m) {
  char path[PATH_MAX], text[TEXT_BYTES], again[TEXT_BYTES];
  if (!file_path(key, path) || !read_text(path, text)) return false;
  const char *numbers = strstr(text, "\nhost ");
  if (!numbers) return false;
  model found;
  if (sscanf(numbers, " host %la %la device %la %la copies %la overhead %la", &found.host_rate[0],
             &found.host_rate[1], &found.device_rate[0], &found.device_rate[1], &found.copy_rate,
             &found.overhead) != 6)
    return false;
  if (!model_is_sound(&found) || !write_text(key, &found, again) || strcmp(text, again) != 0)
    return false;
  *m = found;
  return true;
}

static bool write_all(int file, const char *text, size_t length) {
  while (length) {
    ssize_t written = write(file, text, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written, length -= (size_t)written;
  }
  return true;
}

void model_store(const char *key, const model *m) {
  char path[PATH_MAX], beside[PATH_MAX], text[TEXT_BYTES];
  if (!file_path(key, path) || !write_text(key, m, text)) return;
  make_folders(path);
  int length = snprintf(beside, sizeof beside, "%s.XXXXXX", path);
  int file = length < (int)sizeof beside ? mkostemp(beside, O_CLOEXEC) : -1;
  if (file < 0) {
    say(2, "%s cannot be written: %s", path, strerror(errno));
    return;
  }
  bool written = write_all(file, text, strlen(text));
  if (close(file) != 0 || !written || rename(beside, path) != 0) {
    say(2, "%s cannot be written: %s", path, strerror(errno));
    (void)unlink(beside);
  }
}
