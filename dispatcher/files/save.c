/*
 * Tensors into a file: written beside it under another name, made safe on the disk, and put in its
 * place in one step, so that there is the old file or the new one and never half of either.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatcher/base/error.h"
#include "dispatcher/files/header.h"
#include "dispatcher/files/json.h"

enum {
  PIECE_BYTES = 4 << 20, /* taken from a device and written at once */
  DATA_ALIGN = 64,       /* where the data begins */
};

typedef struct item {
  const char *name;
  const tn_tensor *tensor;
} item;

typedef struct saving {
  const char *path; /* as the caller gave it, for messages */
  item *items;      /* in the order of their data */
  size_t count;
  const tn_tensors_metadata *metadata;
  size_t num_metadata;
  char *header; /* the file's first bytes, its length included */
  size_t header_bytes, header_max;
  char *buffer; /* [PIECE_BYTES] */
  int fd;
  mode_t mode; /* of the file that is replaced; 0: there is none */
} saving;

static __attribute__((format(printf, 3, 4))) tn_status refuse(const saving *s, tn_status status,
                                                              const char *format, ...) {
  char path[512], what[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return fail(status, "tn_tensors_save: %s: %s", printable(path, sizeof path, s->path), what);
}

static tn_status refuse_errno(const saving *s, const char *what) {
  char text[128];
  tn_status status = errno == ENOMEM ? TN_ERR_OUT_OF_MEMORY : TN_ERR_IO;
  return refuse(s, status, "%s: %s", what, strerror_r(errno, text, sizeof text));
}

static tn_status out_of_memory(const saving *s) {
  return refuse(s, TN_ERR_OUT_OF_MEMORY, "no memory to write it");
}

/* --- what is asked for --- */

static bool is_utf8(const char *text) {
  for (size_t left = strlen(text), bytes; left; text += bytes, left -= bytes)
    if ((bytes = utf8_bytes(text, left)) == 0) return false;
  return true;
}

static tn_status check_item(const saving *s, const char *name, const tn_tensor *tensor, size_t i) {
  char text[128];
  if (!name || !tensor)
    return refuse(s, TN_ERR_INVALID_ARGUMENT, "%s %zu is NULL", name ? "tensor" : "name", i);
  if (!is_utf8(name) || strcmp(name, "__metadata__") == 0)
    return refuse(s, TN_ERR_INVALID_ARGUMENT, "the name '%s' %s",
                  printable(text, sizeof text, name),
                  is_utf8(name) ? "is kept for the metadata" : "is not UTF-8");
  return TN_OK;
}

/* The widest elements first, so that all begin where their type wants it, as the format's own
 * library does it; then by name. */
static int by_width(const void *a, const void *b) {
  const item *x = a, *y = b;
  size_t left = tn_dtype_size(tn_tensor_dtype(x->tensor));
  size_t right = tn_dtype_size(tn_tensor_dtype(y->tensor));
  return left != right ? (left > right ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static tn_status check_metadata(const saving *s) {
  for (size_t i = 0; i < s->num_metadata; ++i) {
    const tn_tensors_metadata *m = &s->metadata[i];
    if (!m->key || !m->value || !is_utf8(m->key) || !is_utf8(m->value))
      return refuse(s, TN_ERR_INVALID_ARGUMENT, "pair %zu of the metadata is NULL or not UTF-8", i);
    for (size_t k = 0; k < i; ++k)
      if (strcmp(s->metadata[k].key, m->key) == 0)
        return refuse(s, TN_ERR_INVALID_ARGUMENT, "pairs %zu and %zu of the metadata have one key",
                      k, i);
  }
  return TN_OK;
}

static tn_status take_items(saving *s, const char *const *names, const tn_tensor *const *tensors) {
  char text[128];
  s->items = calloc(s->count ? s->count : 1, sizeof *s->items);
  if (!s->items) return out_of_memory(s);
  for (size_t i = 0; i < s->count; ++i) {
    tn_status status = check_item(s, names[i], tensors[i], i);
    if (status) return status;
    s->items[i] = (item){names[i], tensors[i]};
  }
  if (s->count) qsort(s->items, s->count, sizeof *s->items, by_name);
  for (size_t i = 1; i < s->count; ++i)
    if (by_name(&s->items[i - 1], &s->items[i]) == 0)
      return refuse(s, TN_ERR_INVALID_ARGUMENT, "two tensors are called '%s'",
                    printable(text, sizeof text, s->items[i].name));
  if (s->count) qsort(s->items, s->count, sizeof *s->items, by_width);
  return check_metadata(s);
}

/* --- the header --- */

static bool put(saving *s, const char *bytes, size_t count) {
  if (s->header_max - s->header_bytes < count) {
    size_t wanted = 2 * (s->header_max + count);
    char *more = realloc(s->header, wanted);
    if (!more) return false;
    s->header = more;
    s->header_max = wanted;
  }
  memcpy(s->header + s->header_bytes, bytes, count);
  s->header_bytes += count;
  return true;
}

static __attribute__((format(printf, 2, 3))) bool put_words(saving *s, const char *format, ...) {
  char text[128];
  va_list args;
  va_start(args, format);
  int used = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return put(s, text, (size_t)used); /* what is put fits */
}

static bool put_string(saving *s, const char *text) {
  bool done = put(s, "\"", 1);
  for (; *text && done; ++text)
    if ((unsigned char)*text < 0x20)
      done = put_words(s, "\\u%04x", (unsigned)*text);
    else
      done = (*text != '"' && *text != '\\') || put(s, "\\", 1) ? put(s, text, 1) : false;
  return done && put(s, "\"", 1);
}

static bool put_metadata(saving *s) {
  if (s->num_metadata == 0) return true;
  bool done = put_words(s, "\"__metadata__\":{");
  for (size_t i = 0; i < s->num_metadata && done; ++i)
    done = (i == 0 || put(s, ",", 1)) && put_string(s, s->metadata[i].key) && put(s, ":", 1) &&
           put_string(s, s->metadata[i].value);
  return done && put(s, s->count ? "}," : "}", s->count ? 2 : 1);
}

static bool put_item(saving *s, const item *it, uint64_t *offset) {
  const int64_t *shape = tn_tensor_shape(it->tensor);
  int32_t rank = tn_tensor_rank(it->tensor);
  uint64_t end = *offset + tn_tensor_bytes(it->tensor);
  bool done = put_string(s, it->name) && put_words(s, ":{\"dtype\":\"%s\",\"shape\":[",
                                                   header_type_name(tn_tensor_dtype(it->tensor)));
  for (int32_t i = 0; i < rank && done; ++i)
    done = put_words(s, "%s%" PRId64, i ? "," : "", shape[i]);
  done = done && put_words(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *offset, end);
  *offset = end;
  return done;
}

/* The length, the text, and blanks up to where the data begins. */
static tn_status make_header(saving *s) {
  uint64_t offset = 0;
  bool done = put(s, "01234567", HEADER_BEGIN) && put(s, "{", 1) && put_metadata(s);
  for (size_t i = 0; i < s->count && done; ++i)
    done = (i == 0 || put(s, ",", 1)) && put_item(s, &s->items[i], &offset);
  done = done && put(s, "}", 1);
  while (done && s->header_bytes % DATA_ALIGN != 0) done = put(s, " ", 1);
  if (!done) return out_of_memory(s);
  uint64_t length = s->header_bytes - HEADER_BEGIN;
  for (unsigned i = 0; i < HEADER_BEGIN; ++i) s->header[i] = (char)(length >> 8 * i & 0xff);
  if (length > HEADER_MAX)
    return refuse(s, TN_ERR_INVALID_ARGUMENT,
                  "its header would have %" PRIu64 " bytes and may have %u: fewer or shorter names",
                  length, HEADER_MAX);
  return TN_OK;
}

/* --- the data --- */

static tn_status write_bytes(const saving *s, const char *bytes, size_t count) {
  while (count) {
    ssize_t done = write(s->fd, bytes, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return refuse_errno(s, "it cannot be written");
    bytes += done;
    count -= (size_t)done;
  }
  return TN_OK;
}

static tn_status write_small(const saving *s, const tn_tensor *t) {
  size_t bytes = tn_tensor_bytes(t);
  tn_status status = tn_tensor_to_host(t, s->buffer, bytes);
  return status ? status : write_bytes(s, s->buffer, bytes);
}

static tn_status write_rows(const saving *s, const tn_tensor *t);

/* pre: has elements. What is too large for the buffer goes in shares of its first axis, and where
 * one of those is too large still, of the next. */
static tn_status write_tensor(const saving *s, const tn_tensor *t) {
  const int64_t all = -1;
  tn_tensor *view = NULL;
  tn_status status;
  if (tn_tensor_bytes(t) <= PIECE_BYTES) return write_small(s, t);
  if (tn_tensor_is_contiguous(t) && tn_tensor_rank(t) > 1)
    status = tn_tensor_reshape(t, 1, &all, &view);
  else if (tn_tensor_shape(t)[0] == 1)
    status = tn_tensor_reshape(t, tn_tensor_rank(t) - 1, tn_tensor_shape(t) + 1, &view);
  else
    return write_rows(s, t);
  if (!status) status = write_tensor(s, view);
  tn_tensor_release(view);
  return status;
}

static tn_status write_rows(const saving *s, const tn_tensor *t) {
  int64_t rows = tn_tensor_shape(t)[0];
  int64_t share = PIECE_BYTES / (int64_t)(tn_tensor_bytes(t) / (size_t)rows);
  if (share == 0) share = 1;
  for (int64_t i = 0; i < rows; i += share) {
    tn_tensor *view = NULL;
    int64_t end = rows - i < share ? rows : i + share;
    tn_status status = tn_tensor_slice(t, 0, i, end, 1, &view);
    if (!status) status = write_tensor(s, view);
    tn_tensor_release(view);
    if (status) return status;
  }
  return TN_OK;
}

static tn_status write_all(const saving *s) {
  char name[128];
  tn_status status = write_bytes(s, s->header, s->header_bytes);
  for (size_t i = 0; i < s->count && !status; ++i) {
    if (tn_tensor_bytes(s->items[i].tensor) == 0) continue;
    status = write_tensor(s, s->items[i].tensor);
    if (status)
      fail_prefix("tn_tensors_save: tensor '%s': ", printable(name, sizeof name, s->items[i].name));
  }
  if (!status && fsync(s->fd)) status = refuse_errno(s, "it cannot be brought to the disk");
  return status;
}

/* --- the file --- */

/* What is to be replaced: behind symbolic links, and a file if it is there at all. */
static tn_status find_target(saving *s, char **target) {
  struct stat st;
  if (stat(s->path, &st) == 0) {
    if (!S_ISREG(st.st_mode))
      return refuse(s, TN_ERR_IO, "something else than a regular file is there");
    s->mode = st.st_mode & 0777;
  } else if (lstat(s->path, &st) == 0) {
    return refuse(s, TN_ERR_IO, "a symbolic link that leads nowhere is there");
  }
  *target = realpath(s->path, NULL);
  if (!*target && errno == ENOENT) *target = strdup(s->path);
  return *target ? TN_OK : refuse_errno(s, "it cannot be resolved");
}

/* The folder of a path, to be freed; NULL where there is no memory. */
static char *folder_of(const char *path) {
  char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
  if (folder && !slash) return free(folder), strdup(".");
  if (slash) slash[slash == folder] = 0;
  return folder;
}

/* A file without a name, which goes with its process however that ends; -1 where there are none
 * or where it could not be given a name later. */
static int open_nameless(const char *target) {
  char *folder = access("/proc/self/fd", X_OK) == 0 ? folder_of(target) : NULL;
  int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
  free(folder);
  return fd;
}

/* Gives the file a name beside the target that nothing has: makes one there, or names the
 * nameless one. Either has the mode of a new file. */
static tn_status name_file(saving *s, const char *target, char *beside, size_t room) {
  char place[64];
  snprintf(place, sizeof place, "/proc/self/fd/%d", s->fd);
  for (int i = 0; i < 100; ++i) {
    snprintf(beside, room, "%s.%ld-%d.tmp", target, (long)getpid(), i);
    if (s->fd < 0) {
      s->fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (s->fd >= 0) return TN_OK;
    } else if (linkat(AT_FDCWD, place, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0) {
      return TN_OK;
    }
    if (errno != EEXIST) break;
  }
  tn_status status = refuse_errno(s, "no file can be made in its folder");
  beside[0] = 0;
  return status;
}

/* So that the new name outlives a failing machine too. Not every file system can. */
static void settle_folder(const char *target) {
  char *folder = folder_of(target);
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    (void)fsync(fd);
    (void)close(fd);
  }
  free(folder);
}

/* beside: room for a name, empty while there is no such file. */
static tn_status write_beside(saving *s, const char *target, char *beside, size_t room) {
  s->fd = open_nameless(target);
  bool nameless = s->fd >= 0;
  tn_status status = nameless ? TN_OK : name_file(s, target, beside, room);
  if (status) return status;
  status = write_all(s);
  if (!status && s->mode && fchmod(s->fd, s->mode))
    status = refuse_errno(s, "it cannot be given the mode of the file that it replaces");
  if (!status && nameless) status = name_file(s, target, beside, room);
  if (close(s->fd) && !status) status = refuse_errno(s, "it cannot be written");
  return status;
}

static tn_status replace(saving *s, const char *target) {
  size_t room = strlen(target) + 64;
  char *beside = calloc(room, 1);
  if (!beside) return out_of_memory(s);
  tn_status status = write_beside(s, target, beside, room);
  if (!status && rename(beside, target)) status = refuse_errno(s, "it cannot be replaced");
  if (!status)
    settle_folder(target);
  else if (beside[0])
    (void)unlink(beside);
  free(beside);
  return status;
}

static tn_status save(saving *s) {
  char *target = NULL;
  tn_status status = make_header(s);
  if (!status && !(s->buffer = malloc(PIECE_BYTES))) status = out_of_memory(s);
  if (!status) status = find_target(s, &target);
  if (!status) status = replace(s, target);
  free(target);
  return status;
}

tn_status tn_tensors_save(const char *path, size_t count, const char *const *names,
                          const tn_tensor *const *tensors, size_t num_metadata,
                          const tn_tensors_metadata *metadata) {
  if (!path || (count && (!names || !tensors)) || (num_metadata && !metadata))
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_tensors_save: %s is NULL",
                !path                          ? "path"
                : !count || (names && tensors) ? "metadata"
                                               : "names or tensors");
  saving s = {
      .path = path, .count = count, .metadata = metadata, .num_metadata = num_metadata, .fd = -1};
  tn_status status = take_items(&s, names, tensors);
  if (!status) status = save(&s);
  free(s.items);
  free(s.header);
  free(s.buffer);
  return status;
}
