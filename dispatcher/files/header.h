/*
 * The header of a safetensors file: what tensors there are, of what type and shape, and which
 * bytes are theirs. A header that was taken describes its file exactly: every byte of the data
 * belongs to one tensor, and each tensor has as many as its type and shape say.
 */
#ifndef TENON_DISPATCHER_HEADER_H
#define TENON_DISPATCHER_HEADER_H

#include "tenon/tenon.h"

/* The longest header, as in the format's own library. */
#define HEADER_MAX 100000000u
/* Bytes before the header: its length, little-endian. */
#define HEADER_BEGIN 8u

typedef struct header_entry {
  const char *name, *type; /* in the header's text */
  tn_dtype dtype;          /* TN_DTYPE_NONE: one that Tenon lacks */
  int32_t rank;
  size_t first_dim;   /* in header.dims */
  int64_t begin, end; /* in the data */
} header_entry;

typedef struct header {
  char *text;
  header_entry *entries; /* by name */
  tn_tensors_metadata *metadata;
  int64_t *dims;
  size_t num_entries, max_entries, num_metadata, max_metadata, num_dims, max_dims;
} header;

/* Reads and checks. text: `bytes` bytes from malloc, which become the header's, on failure too;
 * pre: *h is zero, path short enough for a message or cut in it. data_bytes: what the file holds
 * behind the header. Errors: IO, OUT_OF_MEMORY. */
tn_status header_read(header *h, char *text, size_t bytes, int64_t data_bytes, const char *path);
void header_free(header *h);

/* The format's name of a type, NULL for TN_DTYPE_NONE. */
const char *header_type_name(tn_dtype dtype);

/* A text of somebody else's, fit to be printed: cut, control characters as '?'. Returns text. */
const char *printable(char *text, size_t size, const char *from);

#endif
