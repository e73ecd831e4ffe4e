/*
 * The choices of choices.h: an array in memory, and a file of records of one size in
 * $XDG_CACHE_HOME/tenon/cuda or ~/.cache/tenon/cuda that is read once and appended to, a record in
 * one write. A record has a sum over itself; a file that has one that does not agree, that is too
 * long or somebody else's, is passed over, and put aside where it may be.
 */
#include "kernels/cuda/base/choices.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenon/plugin.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <cublasLt.h>
#pragma GCC diagnostic pop

enum { path_bytes = 1024, most_records = 65536, record_format = 1 };

typedef struct record {
  uint64_t environment, key[2];
  uint32_t value_bytes, format;
  unsigned char value[cuda_choice_bytes];
  uint64_t sum; /* over what stands before it */
} record;

static struct {
  pthread_mutex_t lock;
  record *list;
  size_t count, room;
  bool is_read;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* FNV-1a. */
static uint64_t hash_of(uint64_t seed, const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
  for (size_t i = 0; i < bytes; i++) {
    hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t cuda_choice_environment(int ordinal, const char *subject) {
  struct cudaDeviceProp props;
  char text[512];
  int driver = 0;
  memset(&props, 0, sizeof props);
  (void)cudaDriverGetVersion(&driver);
  if (cudaGetDeviceProperties(&props, ordinal) != cudaSuccess) (void)cudaGetLastError();
  int length = snprintf(text, sizeof text, "%s|%.200s|%d.%d|%d|%d|%zu|%zu|%s", subject, props.name,
                        props.major, props.minor, props.multiProcessorCount, driver,
                        cublasLtGetVersion(), cudnnGetVersion(), TN_VERSION_STRING);
  return hash_of(0, text, length > 0 ? (size_t)length : 0);
}

static const char *setting(void) {
  const char *word = secure_getenv("TENON_CUDA_TUNE");
  return word ? word : "";
}
bool cuda_choice_is_off(void) { return strcmp(setting(), "off") == 0; }
bool cuda_choice_takes_all(void) { return strcmp(setting(), "all") == 0; }

/* ------------------------------------------------------------------ the file --- */

static bool folder_path(char path[path_bytes]) {
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *below = "";
  if (strcmp(setting(), "memory") == 0) return false;
  if (!cache || *cache != '/') cache = secure_getenv("HOME"), below = "/.cache";
  if (!cache || *cache != '/') return false;
  int length = snprintf(path, path_bytes, "%s%s/tenon/cuda", cache, below);
  return length > 0 && length < path_bytes - 16;
}

/* Makes the folder and those above it that do not exist. */
static void make_folders(char *path) {
  for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
  }
  (void)mkdir(path, 0700);
}

static bool is_ours(int fd, mode_t kind, struct stat *s) {
  return fstat(fd, s) == 0 && (s->st_mode & S_IFMT) == kind && s->st_uid == geteuid() &&
         !(s->st_mode & (S_IWGRP | S_IWOTH));
}

/* The open folder; -1 where there is none that can be trusted. */
static int open_folder(void) {
  char path[path_bytes];
  struct stat s;
  if (!folder_path(path)) return -1;
  make_folders(path);
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder >= 0 && is_ours(folder, S_IFDIR, &s)) return folder;
  if (folder >= 0) (void)close(folder);
  return -1;
}

static const char file_name[] = "choices";

static uint64_t sum_of(const record *r) { return hash_of(1, r, offsetof(record, sum)); }

static bool is_whole(const record *r) {
  return r->format == record_format && r->value_bytes <= cuda_choice_bytes && r->sum == sum_of(r);
}

static bool remember(const record *r) {
  if (known.count == known.room) {
    size_t room = known.room ? 2 * known.room : 64;
    record *list = realloc(known.list, room * sizeof *list);
    if (!list) return false;
    known.list = list;
    known.room = room;
  }
  known.list[known.count++] = *r;
  return true;
}

/* False where the file should not be appended to any more. */
static bool read_records(int fd) {
  record r;
  struct stat s;
  if (!is_ours(fd, S_IFREG, &s)) return false;
  for (;;) {
    ssize_t got = read(fd, &r, sizeof r);
    if (got == 0) return known.count < most_records;
    if (got < 0 && errno == EINTR) continue;
    if (got != (ssize_t)sizeof r || !is_whole(&r) || known.count >= most_records) return false;
    if (!remember(&r)) return true;
  }
}

/* The lock is held. */
static void read_file(void) {
  if (known.is_read) return;
  known.is_read = true;
  int folder = open_folder();
  if (folder < 0) return;
  int fd = openat(folder, file_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && !read_records(fd)) (void)unlinkat(folder, file_name, 0);
  if (fd >= 0) (void)close(fd);
  (void)close(folder);
}

static void append(const record *r) {
  struct stat s;
  int folder = open_folder();
  if (folder < 0) return;
  int fd = openat(folder, file_name,
                  O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
  (void)close(folder);
  if (fd < 0) return;
  if (is_ours(fd, S_IFREG, &s)) {
    ssize_t written = write(fd, r, sizeof *r); /* one cut short is found out by its reader */
    (void)written;
  }
  (void)close(fd);
}

/* ---------------------------------------------------------------- the choices --- */

static record record_of(const cuda_choice_key *key, size_t bytes) {
  record r;
  memset(&r, 0, sizeof r);
  r.environment = key->environment;
  r.key[0] = hash_of(2, key->key, key->bytes);
  r.key[1] = hash_of(UINT64_C(0x9e3779b97f4a7c15), key->key, key->bytes);
  r.value_bytes = (uint32_t)bytes;
  r.format = record_format;
  return r;
}

/* The newest one counts. The lock is held. */
static const record *find(const record *like) {
  for (size_t i = known.count; i > 0; i--) {
    const record *r = &known.list[i - 1];
    if (r->environment == like->environment && memcmp(r->key, like->key, sizeof r->key) == 0 &&
        r->value_bytes == like->value_bytes)
      return r;
  }
  return NULL;
}

bool cuda_choice_find(const cuda_choice_key *key, void *value, size_t bytes) {
  const record like = record_of(key, bytes);
  (void)pthread_mutex_lock(&known.lock);
  read_file();
  const record *r = find(&like);
  if (r) memcpy(value, r->value, bytes);
  (void)pthread_mutex_unlock(&known.lock);
  return r != NULL;
}

void cuda_choice_add(const cuda_choice_key *key, const void *value, size_t bytes, bool lasts) {
  record r = record_of(key, bytes);
  memcpy(r.value, value, bytes);
  r.sum = sum_of(&r);
  (void)pthread_mutex_lock(&known.lock);
  if (remember(&r) && lasts) append(&r);
  (void)pthread_mutex_unlock(&known.lock);
}
