/*
 * Files of tensors, opened and looked at. The header is read into memory of our own before it is
 * checked, so that who writes to the file meanwhile changes nothing that was checked; everything
 * after it is checked by length alone.
 */
#include "dispatcher/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatcher/base/error.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

/* --- the mapping --- */

static mapping *mapping_make(int fd, int64_t bytes) {
  if ((uint64_t)bytes > SIZE_MAX) return NULL;
  mapping *m = malloc(sizeof *m);
  if (!m) return NULL;
  void *base = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (base == MAP_FAILED) return free(m), NULL;
  *m = (mapping){.base = base, .bytes = (size_t)bytes};
  atomic_init(&m->refs, 1);
  return m;
}

void mapping_hold(mapping *m) { atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed); }

void mapping_drop(void *ctx) {
  mapping *m = ctx;
  if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
  (void)munmap(m->base, m->bytes);
  free(m);
}

/* --- reading --- */

static tn_status io_error(const char *function, const char *path, const char *what) {
  char name[512], text[128];
  tn_status status = errno == ENOENT ? TN_ERR_NOT_FOUND : TN_ERR_IO;
  if (errno == ENOMEM) status = TN_ERR_OUT_OF_MEMORY;
  return fail(status, "%s: %s: %s: %s", function, printable(name, sizeof name, path), what,
              strerror_r(errno, text, sizeof text));
}

tn_status file_read(const tn_tensors *file, const char *what, void *data, size_t bytes,
                    int64_t offset) {
  char path[512], text[128], *to = data;
  while (bytes) {
    ssize_t got = pread(file->fd, to, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(TN_ERR_IO, "%s: %s: it cannot be read: %s", what,
                  printable(path, sizeof path, file->path), strerror_r(errno, text, sizeof text));
    if (got == 0)
      return fail(TN_ERR_IO, "%s: %s: the file has been cut since it was opened", what,
                  printable(path, sizeof path, file->path));
    to += got;
    offset += got;
    bytes -= (size_t)got;
  }
  return TN_OK;
}

tn_status file_check(const tn_tensors *file, const char *function) {
  struct stat s;
  if (fstat(file->fd, &s)) return io_error(function, file->path, "it cannot be looked at");
  if (s.st_size == file->bytes) return TN_OK;
  char path[512];
  return fail(TN_ERR_IO,
              "%s: %s: the file had %" PRId64 " bytes when it was opened and has %" PRId64 " now",
              function, printable(path, sizeof path, file->path), file->bytes, (int64_t)s.st_size);
}

/* --- opening --- */

static tn_status find_size(tn_tensors *file) {
  struct stat s;
  char path[512];
  if (fstat(file->fd, &s)) return io_error("tn_tensors_open", file->path, "it cannot be looked at");
  if (!S_ISREG(s.st_mode))
    return fail(TN_ERR_IO, "tn_tensors_open: %s: it is not a regular file",
                printable(path, sizeof path, file->path));
  file->bytes = s.st_size;
  if (file->bytes >= (int64_t)HEADER_BEGIN) return TN_OK;
  return fail(TN_ERR_IO,
              "tn_tensors_open: %s: a safetensors file has at least 8 bytes, this one %" PRId64,
              printable(path, sizeof path, file->path), file->bytes);
}

/* Its length, held against the file before anything is asked for. */
static tn_status find_header(tn_tensors *file, size_t *bytes) {
  unsigned char coded[HEADER_BEGIN];
  char path[512];
  uint64_t length = 0;
  tn_status status = file_read(file, "tn_tensors_open", coded, sizeof coded, 0);
  if (status) return status;
  for (unsigned i = 0; i < HEADER_BEGIN; ++i) length |= (uint64_t)coded[i] << 8 * i;
  printable(path, sizeof path, file->path);
  if (length > (uint64_t)file->bytes - HEADER_BEGIN)
    return fail(TN_ERR_IO,
                "tn_tensors_open: %s: it states a header of %" PRIu64 " bytes and has %" PRId64
                " after the first 8: it was cut, or is no safetensors",
                path, length, file->bytes - (int64_t)HEADER_BEGIN);
  if (length > HEADER_MAX)
    return fail(TN_ERR_IO,
                "tn_tensors_open: %s: a header of %" PRIu64 " bytes; at most %u are taken", path,
                length, HEADER_MAX);
  *bytes = (size_t)length;
  file->data_begin = (int64_t)(HEADER_BEGIN + length);
  return TN_OK;
}

static tn_status read_header(tn_tensors *file) {
  size_t bytes;
  tn_status status = find_header(file, &bytes);
  if (status) return status;
  char *text = malloc(bytes ? bytes : 1);
  if (!text)
    return fail(TN_ERR_OUT_OF_MEMORY, "tn_tensors_open: no memory for a header of %zu bytes",
                bytes);
  status = file_read(file, "tn_tensors_open", text, bytes, HEADER_BEGIN);
  if (status) return free(text), status;
  return header_read(&file->header, text, bytes, file->bytes - file->data_begin, file->path);
}

/* Not blocked by a FIFO, nor made anybody's terminal. */
static tn_status open_file(tn_tensors *file) {
  file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file->fd < 0) return io_error("tn_tensors_open", file->path, "it cannot be opened");
  tn_status status = find_size(file);
  if (!status) status = read_header(file);
  if (!status) file->map = mapping_make(file->fd, file->bytes);
  return status;
}

tn_status tn_tensors_open(const char *path, tn_tensors **file) {
  if (!path || !file)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensors_open: path and file must not be NULL");
  tn_tensors *f = calloc(1, sizeof *f);
  if (f) f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return fail(TN_ERR_OUT_OF_MEMORY, "tn_tensors_open: no memory");
  }
  tn_status status = open_file(f);
  if (status)
    tn_tensors_close(f);
  else
    *file = f;
  return status;
}

void tn_tensors_close(tn_tensors *file) {
  if (!file) return;
  if (file->fd >= 0) (void)close(file->fd);
  mapping_drop(file->map);
  header_free(&file->header);
  free(file->path);
  free(file);
}

/* --- what is in it --- */

size_t tn_tensors_count(const tn_tensors *file) { return file ? file->header.num_entries : 0; }

tn_status tn_tensors_at(const tn_tensors *file, size_t index, tn_tensors_entry *entry) {
  if (!file) return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensors_at: file is NULL");
  tn_status status = struct_check("tn_tensors_at", "entry", "tn_tensors_entry", entry);
  if (status) return status;
  const header *h = &file->header;
  if (index >= h->num_entries)
    return fail(TN_ERR_NOT_FOUND, "tn_tensors_at: there are %zu tensors in the file",
                h->num_entries);
  const header_entry *e = &h->entries[index];
  const tn_tensors_entry full = {.struct_size = entry->struct_size,
                                 .dtype = e->dtype,
                                 .rank = e->rank,
                                 .name = e->name,
                                 .type = e->type,
                                 .shape = e->rank ? h->dims + e->first_dim : NULL,
                                 .offset = (uint64_t)(file->data_begin + e->begin),
                                 .bytes = (uint64_t)(e->end - e->begin)};
  memcpy(entry, &full, entry->struct_size < sizeof full ? entry->struct_size : sizeof full);
  return TN_OK;
}

static int name_against(const void *name, const void *entry) {
  return strcmp(name, ((const header_entry *)entry)->name);
}

tn_status tn_tensors_find(const tn_tensors *file, const char *name, size_t *index) {
  if (!file || !name || !index)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensors_find: an argument is NULL");
  const header *h = &file->header;
  const header_entry *found =
      h->num_entries ? bsearch(name, h->entries, h->num_entries, sizeof *h->entries, name_against)
                     : NULL;
  if (found) return *index = (size_t)(found - h->entries), TN_OK;
  char path[512], text[128];
  return fail(TN_ERR_NOT_FOUND, "tn_tensors_find: %s: it has no tensor '%s'",
              printable(path, sizeof path, file->path), printable(text, sizeof text, name));
}

tn_status tn_tensors_metadata_at(const tn_tensors *file, size_t index, tn_tensors_metadata *pair) {
  if (!file || !pair)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensors_metadata_at: an argument is NULL");
  if (index >= file->header.num_metadata)
    return fail(TN_ERR_NOT_FOUND, "tn_tensors_metadata_at: there are %zu pairs in the file",
                file->header.num_metadata);
  *pair = file->header.metadata[index];
  return TN_OK;
}
