/* What this process holds, as /proc tells; see usage.h. */
#include "usage.h"

#include <dirent.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tenon/plugin.h"

static int64_t entries(const char *path) {
  int64_t count = 0;
  DIR *folder = opendir(path);
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

/* AddressSanitizer keeps what was freed for a while, so resident memory tells nothing there. */
static int64_t resident(void) {
  long long all = 0, resident = 0;
  FILE *file = TN_FLAVOUR == 0 ? fopen("/proc/self/statm", "re") : NULL;
  if (!file) return 0;
  if (fscanf(file, "%lld %lld", &all, &resident) != 2) resident = 0;
  fclose(file);
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* What the heap keeps for later would hide what is lost. */
usage usage_now(void) {
#ifdef __GLIBC__
  (void)malloc_trim(0);
#endif
  return (usage){resident(), entries("/proc/self/fd"), entries("/proc/self/task")};
}

usage usage_settled(void) {
  struct timespec t = {0, 50000000};
  nanosleep(&t, NULL);
  return usage_now();
}

const char *usage_growth(const usage *from, const usage *to, uint32_t times, char *text,
                         size_t size) {
  int64_t half_mib = 1 << 19, bytes = to->resident_bytes - from->resident_bytes;
  int64_t descriptors = to->descriptors - from->descriptors, threads = to->threads - from->threads;
  text[0] = 0;
  if (descriptors * 2 >= times)
    snprintf(text, size, "%lld descriptors more", (long long)descriptors);
  else if (threads * 2 >= times)
    snprintf(text, size, "%lld threads more", (long long)threads);
  else if (bytes >= times * half_mib)
    snprintf(text, size, "%lld MiB more resident in the process", (long long)(bytes >> 20));
  return text;
}
