/*
 * mutations COUNT SEED: loads images of a sound plugin with some bytes changed, or cut
 * short, into one process that must live to count them. Most are refused, some load; what
 * they do to the scan's process is not this one's concern.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/tenon.h"

typedef struct image {
  unsigned char *bytes;
  size_t size;
} image;

/* xorshift64* (Vigna 2016). */
static uint64_t state;
static uint64_t draw(uint64_t below) {
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return (state * 0x2545f4914f6cdd1du >> 11) % below;
}

static image read_image(const char *path) {
  image i = {0};
  struct stat s;
  FILE *file = fopen(path, "rb");
  if (!file || fstat(fileno(file), &s)) return i;
  i.bytes = malloc((size_t)s.st_size);
  if (i.bytes) i.size = fread(i.bytes, 1, (size_t)s.st_size, file);
  fclose(file);
  return i;
}

/* One to eight bytes: half of the time in the first 4 KiB, where the headers and the tables
 * of ld.so are, else anywhere; one image in ten is cut short. */
static size_t mutate(const image *from, unsigned char *to) {
  memcpy(to, from->bytes, from->size);
  size_t room = draw(2) && from->size > 4096 ? 4096 : from->size;
  for (uint64_t n = 1 + draw(8); n > 0; n--) to[draw(room)] = (unsigned char)draw(256);
  return draw(10) ? from->size : (size_t)draw(from->size);
}

static bool write_image(const char *path, const unsigned char *bytes, size_t size) {
  (void)remove(path); /* the last one may be mapped */
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  bool written = fwrite(bytes, 1, size, file) == size;
  return fclose(file) == 0 && chmod(path, 0644) == 0 && written;
}

typedef struct tally {
  unsigned loaded, scan, other;
} tally;

static bool try_image(const char *path, tally *t) {
  tn_runtime *runtime;
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = "reference",
                                .num_threads = 1,
                                .log_level = TN_LOG_NONE + 1,
                                .scan_timeout_ms = 1000};
  if (tn_runtime_open(&options, &runtime)) return false;
  if (tn_runtime_load_plugin(runtime, path) == TN_OK)
    t->loaded++;
  else if (strstr(tn_last_error(), "refused by the scan"))
    t->scan++;
  else
    t->other++;
  tn_runtime_close(runtime);
  return true;
}

/* The number of images that the process lived through. */
static int run(const char *plugin, unsigned count, const char *folder) {
  char path[256];
  image from = read_image(plugin);
  unsigned char *bytes = malloc(from.size ? from.size : 1);
  tally t = {0};
  snprintf(path, sizeof path, "%s/libtenon-mutant.so", folder);
  unsigned done = 0;
  for (; from.size && bytes && done < count; done++)
    if (!write_image(path, bytes, mutate(&from, bytes)) || !try_image(path, &t)) break;
  printf("%u images: %u refused by the loader, %u by the scan, %u loaded\n", done, t.other, t.scan,
         t.loaded);
  (void)remove(path);
  free(bytes);
  free(from.bytes);
  return done == count ? 0 : 1;
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/tenon-mutations-XXXXXX";
  unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000;
  state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2 + 1 : 1;
  if (!mkdtemp(folder)) return perror("mkdtemp"), 1;
  (void)setenv("XDG_CACHE_HOME", folder, 1);
  fflush(stdout);
  pid_t host = fork();
  if (host < 0) return perror("fork"), 1;
  if (host == 0) exit(run(argc > 3 ? argv[3] : PLUGIN, count, folder));
  int status = 0;
  if (waitpid(host, &status, 0) != host) return perror("waitpid"), 1;
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command)) return fprintf(stderr, "%s is left\n", folder), 1;
  if (WIFSIGNALED(status)) return printf("the host died of signal %d\n", WTERMSIG(status)), 1;
  return WEXITSTATUS(status);
}
