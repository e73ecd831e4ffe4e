/*
 * cycles COUNT: opens a runtime, computes, and closes it, COUNT times, and sees that the
 * process is afterwards what it was after the first tenth: memory, descriptors, threads and
 * keys of thread-specific data. TENON_PLUGINS and the like choose what is opened.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tenon/tenon.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* freed memory is kept, and shadows grow */
#else
#define SANITIZED 0
#endif

enum { MIB = 1 << 20 };

typedef struct figures {
  long resident_bytes;
  int descriptors, threads, keys;
} figures;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int count_entries(const char *path) {
  int count = 0;
  DIR *folder = opendir(path);
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

/* Keys that can be made no more: those in use. */
static int count_keys(void) {
  enum { MOST = 1024 };
  pthread_key_t keys[MOST];
  int free_keys = 0;
  while (free_keys < MOST && pthread_key_create(&keys[free_keys], NULL) == 0) free_keys++;
  for (int i = 0; i < free_keys; i++) (void)pthread_key_delete(keys[i]);
  return (int)sysconf(_SC_THREAD_KEYS_MAX) - free_keys;
}

static figures measure(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return (figures){pages * sysconf(_SC_PAGESIZE), count_entries("/proc/self/fd"),
                   count_entries("/proc/self/task"), count_keys()};
}

/* A small call and one that the threads share, on a tensor each. */
static tn_status use(tn_device *device) {
  tn_status status = TN_OK;
  for (int64_t size = 16; !status && size <= 1 << 16; size <<= 12) {
    tn_tensor *x = NULL, *y = NULL, *view = NULL;
    status = tn_tensor_empty(device, TN_F32, 1, &size, &x);
    if (!status) status = tn_fill(NULL, x, NULL);
    if (!status) status = tn_tensor_slice(x, 0, 0, size / 2, 1, &view);
    if (!status) status = tn_add(NULL, view, view, &y);
    tn_tensor_release(x);
    tn_tensor_release(y);
    tn_tensor_release(view);
  }
  return status;
}

static tn_status cycle(void) {
  tn_runtime *runtime;
  tn_stream *stream = NULL;
  tn_status status = tn_runtime_open(NULL, &runtime);
  if (status) return status;
  tn_device *device = tn_runtime_device(runtime);
  status = tn_stream_create(device, &stream);
  if (!status) status = use(device);
  tn_stream_destroy(stream);
  tn_runtime_close(runtime);
  return status;
}

static bool run(long count) {
  for (long i = 0; i < count; i++)
    if (cycle()) return fprintf(stderr, "cycle %ld: %s\n", i, tn_last_error()), false;
  return true;
}

static bool report(const figures *before, const figures *after) {
  long growth = after->resident_bytes - before->resident_bytes;
  printf("memory %+.2f MiB to %.1f MiB, descriptors %+d to %d, threads %+d to %d, keys %+d to %d\n",
         (double)growth / MIB, (double)after->resident_bytes / MIB,
         after->descriptors - before->descriptors, after->descriptors,
         after->threads - before->threads, after->threads, after->keys - before->keys, after->keys);
  return (SANITIZED || labs(growth) <= MIB) && after->descriptors == before->descriptors &&
         after->threads == before->threads && after->keys == before->keys;
}

int main(int argc, char **argv) {
  long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
  if (!run(count / 10)) return EXIT_FAILURE;
  figures before = measure();
  double begin = now();
  if (!run(count - count / 10)) return EXIT_FAILURE;
  double seconds = now() - begin;
  figures after = measure();
  printf("%ld cycles after %ld to warm up, %.3f ms each\n", count - count / 10, count / 10,
         seconds * 1e3 / (double)(count - count / 10));
  return report(&before, &after) ? EXIT_SUCCESS : EXIT_FAILURE;
}
