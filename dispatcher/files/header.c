/* Reading the header of a safetensors file: see header.h. Nothing that it says is believed before
 * it was checked, and no request for memory is larger than a few times the header itself. */
#include "dispatcher/files/header.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher/base/error.h"
#include "dispatcher/files/json.h"

/* The format's types. Those that it may get later are listed too, but nothing is known of them. */
static const struct type {
  const char *name;
  unsigned bits;
  tn_dtype dtype;
} types[] = {
    {"F64", 64, TN_F64},
    {"F32", 32, TN_F32},
    {"F16", 16, TN_F16},
    {"BF16", 16, TN_BF16},
    {"I64", 64, TN_I64},
    {"I32", 32, TN_I32},
    {"I16", 16, TN_I16},
    {"I8", 8, TN_I8},
    {"U8", 8, TN_U8},
    {"BOOL", 8, TN_BOOL},
    {"U16", 16, TN_DTYPE_NONE},
    {"U32", 32, TN_DTYPE_NONE},
    {"U64", 64, TN_DTYPE_NONE},
    {"C64", 64, TN_DTYPE_NONE},
    {"F8_E4M3", 8, TN_F8_E4M3},
    {"F8_E5M2", 8, TN_F8_E5M2},
    {"F8_E8M0", 8, TN_DTYPE_NONE},
    {"F8_E4M3FNUZ", 8, TN_DTYPE_NONE},
    {"F8_E5M2FNUZ", 8, TN_DTYPE_NONE},
    {"F4", 4, TN_DTYPE_NONE},
    {"F6_E2M3", 6, TN_DTYPE_NONE},
    {"F6_E3M2", 6, TN_DTYPE_NONE},
};

const char *header_type_name(tn_dtype dtype) {
  for (size_t i = 0; dtype && i < sizeof types / sizeof *types; ++i)
    if (types[i].dtype == dtype) return types[i].name;
  return NULL;
}

static const struct type *type_find(const char *name) {
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}

const char *printable(char *text, size_t size, const char *from) {
  size_t used = 0;
  for (; from[used] && used + 1 < size; ++used) {
    unsigned char c = (unsigned char)from[used];
    text[used] = c < 0x20 || c == 0x7f ? '?' : (char)c;
  }
  while (from[used] && used && ((unsigned char)from[used] & 0xc0) == 0x80)
    --used; /* no half ones */
  text[used] = 0;
  return text;
}

/* --- reading --- */

typedef struct reader {
  json json;
  header *h;
  const char *path;
  const char *tensor; /* being read, NULL outside */
  int64_t data_bytes;
  tn_status status;
} reader;

static __attribute__((format(printf, 2, 3))) bool refuse(reader *r, const char *format, ...) {
  char what[320], name[128] = "", path[512];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  if (r->tensor) printable(name, sizeof name, r->tensor);
  if (!r->status)
    r->status =
        fail(TN_ERR_IO, "tn_tensors_open: %s: %s%s%s%s", printable(path, sizeof path, r->path),
             r->tensor ? "tensor '" : "", name, r->tensor ? "': " : "", what);
  return false;
}

/* Passes on what the JSON is not. */
static bool refuse_json(reader *r) {
  return refuse(r, "the header is not as it should be at its byte %td: %s",
                r->json.at - r->json.begin, r->json.wrong ? r->json.wrong : "?");
}

/* Room for one more in *array, of as many as *max; at least a byte of the header stands for each.
 */
static bool grow(reader *r, void *array, size_t count, size_t *max, size_t element) {
  if (count < *max) return true;
  void *items;
  memcpy(&items, array, sizeof items);
  items = host_grow(&host_memory_default, items, count, element, max);
  if (!items) {
    r->status = fail(TN_ERR_OUT_OF_MEMORY, "tn_tensors_open: no memory for the header");
    return false;
  }
  memcpy(array, &items, sizeof items);
  return true;
}

static bool read_shape(reader *r, header_entry *e) {
  header *h = r->h;
  e->first_dim = h->num_dims;
  e->rank = 0;
  if (!json_expect(&r->json, '[')) return refuse_json(r);
  if (json_take(&r->json, ']')) return true;
  do {
    int64_t dim;
    if (!json_number(&r->json, &dim)) return refuse_json(r);
    if (!grow(r, &h->dims, h->num_dims, &h->max_dims, sizeof *h->dims)) return false;
    h->dims[h->num_dims++] = dim;
    ++e->rank; /* fits: two bytes of the header for each */
  } while (json_take(&r->json, ','));
  return json_expect(&r->json, ']') || refuse_json(r);
}

static bool read_offsets(reader *r, header_entry *e) {
  json *j = &r->json;
  if (!json_expect(j, '[') || !json_number(j, &e->begin)) return refuse_json(r);
  if (!json_take(j, ',')) return refuse(r, "data_offsets must be two numbers, begin and end");
  if (!json_number(j, &e->end)) return refuse_json(r);
  return json_take(j, ']') || refuse(r, "data_offsets must be two numbers, begin and end");
}

static bool read_type(reader *r, header_entry *e) {
  e->type = json_string(&r->json);
  return e->type || refuse_json(r);
}

/* The keys of a tensor's object, in any order. */
static const struct part {
  const char *key;
  bool (*read)(reader *r, header_entry *e);
} parts[] = {{"dtype", read_type}, {"shape", read_shape}, {"data_offsets", read_offsets}};
enum { PARTS = sizeof parts / sizeof *parts };

static bool read_part(reader *r, header_entry *e, unsigned *seen) {
  char text[64];
  const char *key = json_string(&r->json);
  if (!key) return refuse_json(r);
  if (!json_expect(&r->json, ':')) return refuse_json(r);
  for (unsigned i = 0; i < PARTS; ++i) {
    if (strcmp(key, parts[i].key) != 0) continue;
    if (*seen & 1u << i) return refuse(r, "%s stands twice", key);
    *seen |= 1u << i;
    return parts[i].read(r, e);
  }
  return refuse(r, "the key '%s' is none of dtype, shape and data_offsets",
                printable(text, sizeof text, key));
}

/* Its bytes: what shape and type say, and within the data. */
static bool check_entry(reader *r, header_entry *e) {
  char text[64];
  const struct type *type = type_find(e->type);
  const int64_t *dims = r->h->dims + e->first_dim;
  int64_t bits = type ? (int64_t)type->bits : 1;
  bool empty = false;
  for (int32_t i = 0; i < e->rank; ++i) {
    empty = empty || dims[i] == 0;
    if (__builtin_mul_overflow(bits, dims[i] ? dims[i] : 1, &bits))
      return refuse(r, "the product of its shape is too large");
  }
  e->dtype = type ? type->dtype : TN_DTYPE_NONE;
  if (e->begin > e->end || e->end > r->data_bytes)
    return refuse(r,
                  "data_offsets %" PRId64 " to %" PRId64 " are outside the %" PRId64
                  " bytes of data in the file",
                  e->begin, e->end, r->data_bytes);
  if (!type) return true;
  if (empty) bits = 0;
  if (bits % 8 != 0) return refuse(r, "its elements end inside a byte");
  if (e->end - e->begin != bits / 8)
    return refuse(r, "its shape in %s takes %" PRId64 " bytes, its data_offsets %" PRId64,
                  printable(text, sizeof text, e->type), bits / 8, e->end - e->begin);
  return true;
}

static bool read_tensor(reader *r, const char *name) {
  header *h = r->h;
  header_entry e = {.name = name};
  unsigned seen = 0;
  r->tensor = name;
  if (!json_expect(&r->json, '{')) return refuse_json(r);
  if (!json_take(&r->json, '}')) {
    do
      if (!read_part(r, &e, &seen)) return false;
    while (json_take(&r->json, ','));
    if (!json_expect(&r->json, '}')) return refuse_json(r);
  }
  for (unsigned i = 0; i < PARTS; ++i)
    if (!(seen & 1u << i)) return refuse(r, "it has no %s", parts[i].key);
  if (!check_entry(r, &e)) return false;
  if (!grow(r, &h->entries, h->num_entries, &h->max_entries, sizeof e)) return false;
  h->entries[h->num_entries++] = e;
  r->tensor = NULL;
  return true;
}

static bool read_metadata(reader *r) {
  header *h = r->h;
  if (h->metadata) return refuse(r, "__metadata__ stands twice");
  if (!grow(r, &h->metadata, 0, &h->max_metadata, sizeof *h->metadata)) return false;
  if (!json_expect(&r->json, '{')) return refuse_json(r);
  if (json_take(&r->json, '}')) return true;
  do {
    tn_tensors_metadata pair = {0};
    if (!(pair.key = json_string(&r->json)) || !json_expect(&r->json, ':') ||
        !(pair.value = json_string(&r->json)))
      return refuse_json(r);
    if (!grow(r, &h->metadata, h->num_metadata, &h->max_metadata, sizeof pair)) return false;
    h->metadata[h->num_metadata++] = pair;
  } while (json_take(&r->json, ','));
  return json_expect(&r->json, '}') || refuse_json(r);
}

static bool read_all(reader *r) {
  json *j = &r->json;
  if (j->at == j->end || *j->at != '{') return refuse(r, "the header does not begin with '{'");
  (void)json_take(j, '{');
  if (json_take(j, '}')) return json_ends(j) || refuse_json(r);
  do {
    const char *name = json_string(j);
    if (!name || !json_expect(j, ':')) return refuse_json(r);
    if (!(strcmp(name, "__metadata__") == 0 ? read_metadata(r) : read_tensor(r, name)))
      return false;
  } while (json_take(j, ','));
  return (json_expect(j, '}') && json_ends(j)) || refuse_json(r);
}

/* --- what only all of it together shows --- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const header_entry *)a)->name, ((const header_entry *)b)->name);
}

static int by_place(const void *a, const void *b) {
  const header_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end == y->end ? 0 : x->end < y->end ? -1 : 1;
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const tn_tensors_metadata *)a)->key, ((const tn_tensors_metadata *)b)->key);
}

static void sort(void *array, size_t count, size_t size, int (*order)(const void *, const void *)) {
  if (count) qsort(array, count, size, order);
}

/* pre: sorted by key and by name. */
static bool check_names(reader *r) {
  const header *h = r->h;
  char key[128];
  for (size_t i = 1; i < h->num_metadata; ++i)
    if (by_key(&h->metadata[i - 1], &h->metadata[i]) == 0)
      return refuse(r, "the key '%s' stands twice in __metadata__",
                    printable(key, sizeof key, h->metadata[i].key));
  for (size_t i = 1; i < h->num_entries; ++i) {
    if (by_name(&h->entries[i - 1], &h->entries[i]) != 0) continue;
    r->tensor = h->entries[i].name;
    return refuse(r, "the name stands twice");
  }
  return true;
}

/* Nobody's bytes are somebody else's too, and none are nobody's. pre: sorted by place. */
static bool check_places(reader *r) {
  const header *h = r->h;
  int64_t reached = 0;
  for (size_t i = 0; i < h->num_entries; ++i) {
    const header_entry *e = &h->entries[i];
    r->tensor = e->name;
    if (e->begin < reached)
      return refuse(r, "its bytes from %" PRId64 " on belong to another tensor too", e->begin);
    if (e->begin > reached)
      return refuse(r, "the bytes %" PRId64 " to %" PRId64 " before it belong to no tensor",
                    reached, e->begin);
    reached = e->end;
  }
  r->tensor = NULL;
  return reached == r->data_bytes ||
         refuse(r, "the last %" PRId64 " bytes of the file belong to no tensor",
                r->data_bytes - reached);
}

static bool check_all(reader *r) {
  header *h = r->h;
  sort(h->metadata, h->num_metadata, sizeof *h->metadata, by_key);
  sort(h->entries, h->num_entries, sizeof *h->entries, by_name);
  if (!check_names(r)) return false;
  sort(h->entries, h->num_entries, sizeof *h->entries, by_place);
  if (!check_places(r)) return false;
  sort(h->entries, h->num_entries, sizeof *h->entries, by_name);
  return true;
}

tn_status header_read(header *h, char *text, size_t bytes, int64_t data_bytes, const char *path) {
  reader r = {.json = {.begin = text, .at = text, .end = text + bytes},
              .h = h,
              .path = path,
              .data_bytes = data_bytes};
  h->text = text;
  if (!read_all(&r) || !check_all(&r)) header_free(h);
  return r.status;
}

void header_free(header *h) {
  free(h->text);
  free(h->entries);
  free(h->metadata);
  free(h->dims);
  *h = (header){0};
}
