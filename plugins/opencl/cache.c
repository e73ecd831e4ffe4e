/*
 * Built programs on disk, so that the second run compiles nothing. A file is named by a hash of
 * what the binary depends on (device, driver, options, source) and begins with that text, so a
 * file of another build is never taken. Files are written whole and renamed into place; one
 * that is cut short, spoiled or someone else's is passed over and written anew. Nothing here
 * fails a call.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

enum { PATH_MAX_HERE = 1024, FORMAT = 1 };

/* What a file begins with; the identity follows, then the binary. */
typedef struct file_head {
  char magic[8];
  uint32_t format, identity_bytes;
  uint64_t binary_bytes, binary_hash;
} file_head;

static const char magic[8] = "TnOclPrg";

static uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* ------------------------------------------------------------------- folder --- */

/* A folder of this user's that nobody else can write into, made if it is not there. */
static bool folder_is_ours(const char *path) {
  struct stat st;
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
  return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
         !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Makes every folder on the way; those that exist may be anyone's. */
static bool make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    *slash = '/';
    if (!made) return false;
  }
  return folder_is_ours(path);
}

/* The folder's path, or false where there shall be none. */
static bool choose_folder(char *path) {
  const char *chosen = secure_getenv("TENON_OPENCL_CACHE");
  const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
  int length = 0;
  if (chosen && strcmp(chosen, "off") == 0) return false;
  if (chosen && *chosen)
    length = snprintf(path, PATH_MAX_HERE, "%s", chosen);
  else if (cache && *cache == '/')
    length = snprintf(path, PATH_MAX_HERE, "%s/tenon/opencl", cache);
  else if (home && *home == '/')
    length = snprintf(path, PATH_MAX_HERE, "%s/.cache/tenon/opencl", home);
  return length > 0 && length < PATH_MAX_HERE - 64 && *path == '/';
}

void ocl_cache_open(ocl_device *device) {
  const tn_host *host = device->host;
  char path[PATH_MAX_HERE];
  if (!choose_folder(path)) return;
  if (!make_folders(path)) {
    host->log(host, TN_LOG_INFO, "opencl: built programs are not kept: %s cannot be used", path);
    return;
  }
  device->cache_folder = host->alloc(host, strlen(path) + 1, 1);
  if (device->cache_folder) memcpy(device->cache_folder, path, strlen(path) + 1);
}

static void file_path(const ocl_device *device, const char *identity, char *path) {
  size_t bytes = strlen(identity);
  (void)snprintf(path, PATH_MAX_HERE, "%s/%016llx%016llx.bin", device->cache_folder,
                 (unsigned long long)hash_bytes(0, identity, bytes),
                 (unsigned long long)hash_bytes(UINT64_C(0x5bd1e995), identity, bytes));
}

/* ------------------------------------------------------------------ reading --- */

static bool read_all(int fd, void *data, size_t bytes) {
  char *p = data;
  while (bytes > 0) {
    ssize_t got = read(fd, p, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    bytes -= (size_t)got;
  }
  return true;
}

/* The file's bytes, if it is a plain file of this user's. */
static unsigned char *read_file(const tn_host *host, const char *path, size_t *bytes) {
  struct stat st;
  unsigned char *data = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return NULL;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
      !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size >= (off_t)sizeof(file_head)) {
    *bytes = (size_t)st.st_size;
    data = host->alloc(host, *bytes, 16);
    if (data && !read_all(fd, data, *bytes)) {
      host->free(host, data);
      data = NULL;
    }
  }
  (void)close(fd);
  return data;
}

/* Where the binary lies in the file, or NULL if the file is not whole or not this one. */
static const unsigned char *find_binary(const unsigned char *data, size_t bytes,
                                        const char *identity, size_t *binary_bytes) {
  file_head head;
  memcpy(&head, data, sizeof head);
  size_t length = strlen(identity), rest = bytes - sizeof head;
  if (memcmp(head.magic, magic, sizeof magic) != 0 || head.format != FORMAT) return NULL;
  if (head.identity_bytes != length || rest < length || head.binary_bytes != rest - length)
    return NULL;
  const unsigned char *binary = data + sizeof head + length;
  if (memcmp(data + sizeof head, identity, length) != 0) return NULL;
  if (hash_bytes(0, binary, head.binary_bytes) != head.binary_hash) return NULL;
  *binary_bytes = head.binary_bytes;
  return binary;
}

static cl_program program_of(const ocl_device *device, const unsigned char *binary, size_t bytes) {
  cl_int status = CL_SUCCESS, error;
  cl_program program =
      clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, &binary, &status, &error);
  if (error || status) {
    if (!error) (void)clReleaseProgram(program);
    return NULL;
  }
  if (clBuildProgram(program, 1, &device->id, "", NULL, NULL) == CL_SUCCESS) return program;
  (void)clReleaseProgram(program);
  return NULL;
}

cl_program ocl_cache_load(ocl_device *device, const char *identity) {
  char path[PATH_MAX_HERE];
  size_t bytes = 0, binary_bytes = 0;
  cl_program program = NULL;
  if (!device->cache_folder) return NULL;
  file_path(device, identity, path);
  unsigned char *data = read_file(device->host, path, &bytes);
  if (!data) return NULL;
  const unsigned char *binary = find_binary(data, bytes, identity, &binary_bytes);
  if (binary) program = program_of(device, binary, binary_bytes);
  if (!program)
    device->host->log(device->host, TN_LOG_INFO, "opencl: %s is spoiled or stale: built anew",
                      path);
  device->host->free(device->host, data);
  return program;
}

/* ------------------------------------------------------------------ writing --- */

static bool write_all(int fd, const void *data, size_t bytes) {
  const char *p = data;
  while (bytes > 0) {
    ssize_t put = write(fd, p, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    p += put;
    bytes -= (size_t)put;
  }
  return true;
}

static bool write_file(int fd, const char *identity, const unsigned char *binary, size_t bytes) {
  file_head head = {.format = FORMAT,
                    .identity_bytes = (uint32_t)strlen(identity),
                    .binary_bytes = bytes,
                    .binary_hash = hash_bytes(0, binary, bytes)};
  memcpy(head.magic, magic, sizeof magic);
  return write_all(fd, &head, sizeof head) && write_all(fd, identity, strlen(identity)) &&
         write_all(fd, binary, bytes);
}

/* Under a name of its own first, so that readers see a whole file or none. */
static void keep(const ocl_device *device, const char *identity, const unsigned char *binary,
                 size_t bytes) {
  char path[PATH_MAX_HERE], draft[PATH_MAX_HERE + 16];
  file_path(device, identity, path);
  (void)snprintf(draft, sizeof draft, "%s.XXXXXX", path);
  int fd = mkostemp(draft, O_CLOEXEC); /* 0600 */
  if (fd < 0) return;
  bool whole = write_file(fd, identity, binary, bytes);
  if (close(fd) != 0) whole = false;
  if (!whole || rename(draft, path) != 0) {
    (void)unlink(draft);
    device->host->log(device->host, TN_LOG_INFO, "opencl: %s could not be written", path);
  }
}

void ocl_cache_store(ocl_device *device, const char *identity, cl_program program) {
  const tn_host *host = device->host;
  size_t bytes = 0;
  if (!device->cache_folder) return;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) || bytes == 0)
    return;
  unsigned char *binary = host->alloc(host, bytes, 16);
  if (!binary) return;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
    keep(device, identity, binary, bytes);
  host->free(host, binary);
}
