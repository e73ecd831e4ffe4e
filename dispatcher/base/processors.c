/*
 * How many processors this process may use: the affinity mask, cut by the CPU quota of
 * its control groups (versions 1 and 2, as containers set them). Threads beyond that
 * number only get in each other's way.
 */
#include "dispatcher/base/threads.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#ifdef __linux__
/* Masks grow with the machine; the kernel says EINVAL for one that is too small. */
static uint32_t processors_in_affinity(void) {
  for (int size = 1024; size <= 1 << 18; size *= 2) {
    cpu_set_t *set = CPU_ALLOC(size);
    if (!set) return 1;
    size_t bytes = CPU_ALLOC_SIZE(size);
    int count = sched_getaffinity(0, bytes, set) ? 0 : CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (count > 0) return (uint32_t)count;
  }
  return 1;
}
#else
#include <unistd.h>
static uint32_t processors_in_affinity(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : (uint32_t)count;
}
#endif

static bool read_line(const char *folder, const char *file, char *line, int size) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return false;
  FILE *stream = fopen(path, "re");
  if (!stream) return false;
  bool read = fgets(line, size, stream) != NULL;
  fclose(stream);
  return read;
}

static uint32_t whole_processors(long long quota, long long period) {
  if (quota <= 0 || period <= 0 || quota / period >= UINT32_MAX) return UINT32_MAX;
  return quota < period ? 1 : (uint32_t)(quota / period);
}

/* The quota of one group: cpu.max in version 2 ("max 100000", "150000 100000"), two
 * files in version 1 (a quota of -1 is none). */
static uint32_t quota_of(const char *folder) {
  char line[64];
  long long quota = 0, period = 0;
  if (read_line(folder, "cpu.max", line, sizeof line))
    return sscanf(line, "%lld %lld", &quota, &period) == 2 ? whole_processors(quota, period)
                                                           : UINT32_MAX;
  if (!read_line(folder, "cpu.cfs_quota_us", line, sizeof line) ||
      sscanf(line, "%lld", &quota) != 1 ||
      !read_line(folder, "cpu.cfs_period_us", line, sizeof line) ||
      sscanf(line, "%lld", &period) != 1)
    return UINT32_MAX;
  return whole_processors(quota, period);
}

/* The least quota from the group up to the mount's top. */
static uint32_t quota_up(const char *mount, const char *group) {
  char folder[PATH_MAX];
  if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
    return UINT32_MAX;
  uint32_t least = UINT32_MAX;
  for (size_t top = strlen(mount);;) {
    uint32_t quota = quota_of(folder);
    if (quota < least) least = quota;
    char *slash = strrchr(folder + top, '/');
    if (!slash) return least;
    *slash = 0;
  }
}

static bool lists_controller(const char *controllers) {
  for (const char *c = controllers; *c;) {
    size_t length = strcspn(c, ",");
    if (length == 3 && !memcmp(c, "cpu", 3)) return true;
    c += length + (c[length] == ',');
  }
  return false;
}

/* One line of the membership file: "0::/group" or "4:cpu,cpuacct:/group". */
static uint32_t quota_of_line(char *line, const char *root) {
  line[strcspn(line, "\n")] = 0;
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return UINT32_MAX;
  *group++ = 0;
  controllers++;
  if (!*controllers) return quota_up(root, group);
  if (!lists_controller(controllers)) return UINT32_MAX;
  char mount[PATH_MAX];
  snprintf(mount, sizeof mount, "%s/cpu", root);
  return quota_up(mount, group);
}

uint32_t threads_quota(const char *membership, const char *root) {
  FILE *stream = fopen(membership, "re");
  if (!stream) return UINT32_MAX;
  uint32_t least = UINT32_MAX;
  for (char line[PATH_MAX]; fgets(line, sizeof line, stream);) {
    uint32_t quota = quota_of_line(line, root);
    if (quota < least) least = quota;
  }
  fclose(stream);
  return least;
}

uint32_t threads_available(void) {
  uint32_t processors = processors_in_affinity();
  uint32_t quota = threads_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  return processors < quota ? processors : quota;
}
