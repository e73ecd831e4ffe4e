#include "idx.h"

#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAGIC_IMAGES = 0x0803, MAGIC_LABELS = 0x0801 };

/* Far above any published set; a damaged header shall not ask for terabytes. */
enum { MOST_ITEMS = 1 << 20 };

typedef struct reader {
  char path[PATH_MAX];
  gzFile gz;
} reader;

__attribute__((format(printf, 2, 3))) static bool refuse(const reader *r, const char *format, ...) {
  char reason[256];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  warnx("%s: %s", r->path, reason);
  fprintf(stderr, "  Install the package dataset-fashion-mnist, or name a folder with the four\n"
                  "  MNIST files (train-images-idx3-ubyte.gz, ...) with --data DIR.\n");
  return false;
}

static bool reader_open(reader *r, const char *folder, const char *split, const char *kind) {
  r->gz = NULL;
  int length = snprintf(r->path, sizeof r->path, "%s/%s-%s-ubyte.gz", folder, split, kind);
  if (length < 0 || (size_t)length >= sizeof r->path) return refuse(r, "the path is too long");
  errno = 0;
  r->gz = gzopen(r->path, "rb");
  return r->gz ? true : refuse(r, "cannot open: %s", strerror(errno ? errno : ENOMEM));
}

static void reader_close(reader *r) {
  if (r->gz) gzclose_r(r->gz);
}

/* As many bytes as there are, at most `bytes`. */
static size_t read_some(reader *r, void *data, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    unsigned chunk = bytes - got < 1u << 20 ? (unsigned)(bytes - got) : 1u << 20;
    int n = gzread(r->gz, (uint8_t *)data + got, chunk);
    if (n <= 0) break;
    got += (size_t)n;
  }
  return got;
}

/* What to say when `got` of `bytes` could be read. */
static bool refuse_short(reader *r, size_t got, size_t bytes, const char *what) {
  int error = Z_OK;
  const char *message = gzerror(r->gz, &error);
  if (error == Z_ERRNO) message = strerror(errno);
  if (error != Z_OK && error != Z_BUF_ERROR)
    return refuse(r, "damaged after %zu bytes of %s: %s", got, what, message);
  if (got < bytes)
    return refuse(r, "truncated: expected %zu bytes of %s, found %zu", bytes, what, got);
  return refuse(r, "truncated: the end of the gzip file is missing");
}

static bool read_header_bytes(reader *r, uint8_t *data, size_t bytes) {
  size_t got = read_some(r, data, bytes);
  return got == bytes || refuse_short(r, got, bytes, "header");
}

/* The bytes after the header, which must be that many; NULL after telling why not. To
 * be freed. One more is asked for, so that zlib reads on to the checksum that ends the
 * file and compares it. */
static uint8_t *read_rest(reader *r, size_t bytes, const char *what) {
  uint8_t *data = malloc(bytes + 1);
  if (!data) return refuse(r, "not enough memory for %zu bytes", bytes), NULL;
  size_t got = read_some(r, data, bytes + 1);
  int error = Z_OK;
  gzerror(r->gz, &error);
  if (got == bytes && error == Z_OK) return data;
  if (got > bytes)
    refuse(r, "longer than its header says");
  else
    refuse_short(r, got, bytes, what);
  free(data);
  return NULL;
}

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads magic and number of items. */
static bool read_header(reader *r, uint32_t magic, const char *what, int64_t *count) {
  uint8_t head[8];
  if (!read_header_bytes(r, head, sizeof head)) return false;
  if (big_endian(head) != magic)
    return refuse(r, "expected an IDX file of %s (magic 0x%08x), found magic 0x%08x", what, magic,
                  big_endian(head));
  *count = big_endian(head + 4);
  if (*count < 1 || *count > MOST_ITEMS)
    return refuse(r, "expected 1 to %d %s, the header says %lld", MOST_ITEMS, what,
                  (long long)*count);
  return true;
}

static bool read_images(reader *r, idx_set *set) {
  uint8_t size[8];
  if (!read_header(r, MAGIC_IMAGES, "images", &set->count)) return false;
  if (!read_header_bytes(r, size, sizeof size)) return false;
  if (big_endian(size) != IDX_SIDE || big_endian(size + 4) != IDX_SIDE)
    return refuse(r, "expected images of %d x %d, the header says %u x %u", IDX_SIDE, IDX_SIDE,
                  big_endian(size), big_endian(size + 4));
  set->images = read_rest(r, (size_t)set->count * IDX_PIXELS, "images");
  return set->images;
}

static bool read_labels(reader *r, idx_set *set) {
  int64_t count;
  if (!read_header(r, MAGIC_LABELS, "labels", &count)) return false;
  if (count != set->count)
    return refuse(r, "expected %lld labels, one for each image, the header says %lld",
                  (long long)set->count, (long long)count);
  set->labels = read_rest(r, (size_t)count, "labels");
  if (!set->labels) return false;
  for (int64_t i = 0; i < count; i++)
    if (set->labels[i] >= IDX_CLASSES)
      return refuse(r, "expected labels from 0 to %d, label %lld is %d", IDX_CLASSES - 1,
                    (long long)i, set->labels[i]);
  return true;
}

bool idx_load(const char *folder, const char *split, idx_set *set) {
  reader images = {.gz = NULL}, labels = {.gz = NULL};
  *set = (idx_set){0};
  bool ok = reader_open(&images, folder, split, "images-idx3") &&
            reader_open(&labels, folder, split, "labels-idx1") && read_images(&images, set) &&
            read_labels(&labels, set);
  reader_close(&images);
  reader_close(&labels);
  if (!ok) idx_free(set);
  return ok;
}

void idx_free(idx_set *set) {
  free(set->images);
  free(set->labels);
  *set = (idx_set){0};
}
