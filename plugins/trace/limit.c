/*
 * The bound on a trace's size. TENON_TRACE_KEEP says which part is kept: the first, and the file
 * then ends with a note, or the last. For that the file is a ring. Every event but the first
 * begins with a comma and a new line, so events can be written over older ones in place, with
 * blanks up to where the next older one begins, and the file stays a whole array throughout. What
 * names threads, streams and processes is kept in memory and written again on every turn.
 */
#include "limit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- options --- */

static tn_status wrong(const tn_host *host, const char *variable, const char *value,
                       const char *valid) {
  return host->fail(TN_ERR_INVALID_ARGUMENT, "%s: '%s' is none of %s", variable, value, valid);
}

/* "300M": bytes, with K, M or G for powers of 1024. */
static bool read_bytes(const char *text, uint64_t *bytes) {
  static const char units[] = "KMG";
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  const char *unit = *end ? strchr(units, *end) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if (errno || *text < '0' || *text > '9' || (*end && (!unit || end[1]))) return false;
  *bytes = number << shift;
  return *bytes >> shift == number && *bytes <= INT64_MAX;
}

tn_status limit_read(limit *l, const tn_host *host) {
  const char *bytes = secure_getenv("TENON_TRACE_LIMIT"), *keep = secure_getenv("TENON_TRACE_KEEP");
  *l = (limit){.bytes = LIMIT_DEFAULT};
  l->given = bytes && *bytes;
  if (l->given && (!read_bytes(bytes, &l->bytes) || (l->bytes && l->bytes < LIMIT_LEAST)))
    return wrong(host, "TENON_TRACE_LIMIT", bytes, "0 for no limit, 1M or more, 2G");
  if (!keep || !*keep || strcmp(keep, "first") == 0) return TN_OK;
  if (strcmp(keep, "last") != 0) return wrong(host, "TENON_TRACE_KEEP", keep, "first, last");
  l->last = l->bytes != 0;
  return TN_OK;
}

tn_status limit_open(limit *l, const tn_host *host, bool seekable) {
  if (!seekable && !l->given) l->bytes = 0; /* whoever reads it has a bound or none */
  if (!l->last) return TN_OK;
  if (!seekable)
    return host->fail(TN_ERR_INVALID_ARGUMENT,
                      "TENON_TRACE_KEEP: the last part can only be kept in a file");
  l->names = host->alloc(host, NAMES_BYTES, 64);
  l->older = host->alloc(host, OLDER_BYTES, 64);
  if (l->names && l->older) return TN_OK;
  limit_free(l, host);
  return host->fail(TN_ERR_OUT_OF_MEMORY, "layer trace: no host memory");
}

void limit_free(limit *l, const tn_host *host) {
  host->free(host, l->names);
  host->free(host, l->older);
  l->names = l->older = NULL;
}

/* --- what is dropped, and what stays --- */

void limit_name(limit *l, const char *event, size_t length) {
  if (!l->names || l->names_used + length + 2 > NAMES_BYTES) return;
  memcpy(l->names + l->names_used, ",\n", 2);
  memcpy(l->names + l->names_used + 2, event, length);
  l->names_used += length + 2;
}

size_t limit_note(const limit *l, char *note, uint64_t now_ns) {
  int length = snprintf(
      note, NOTE_BYTES,
      ",\n{\"ph\":\"i\",\"s\":\"g\",\"cat\":\"limit\",\"name\":\"%s\",\"pid\":%ld,\"tid\":0,"
      "\"ts\":%" PRIu64 ".%03" PRIu64 ",\"args\":{\"limit_bytes\":%" PRIu64
      ",\"dropped_events\":%" PRIu64 ",\"dropped_bytes\":%" PRIu64 "}}",
      l->last ? "older events were dropped" : "the trace ends here", (long)getpid(), now_ns / 1000,
      now_ns % 1000, l->bytes, l->dropped_events, l->dropped_bytes);
  return (size_t)length;
}

const char *limit_next(const char *at, const char *end) {
  while (at < end && (at = memchr(at, ',', (size_t)(end - at))) && at + 1 < end && at[1] != '\n')
    ++at;
  return at && at + 1 < end ? at : end;
}

void limit_count(limit *l, const char *events, size_t bytes) {
  static const char head[] = ",\n{\"ph\":\"";
  const char *end = events + bytes;
  for (const char *at = limit_next(events, end); at < end;) {
    const char *next = limit_next(at + 2, end);
    char kind = (size_t)(next - at) >= sizeof head ? at[sizeof head - 1] : 0;
    if (kind != 'M' && kind != 'i') { /* names are written again, notes add nothing */
      ++l->dropped_events;
      l->dropped_bytes += (uint64_t)(next - at);
    }
    at = next;
  }
}

void limit_drop(limit *l, size_t length) {
  ++l->dropped_events;
  l->dropped_bytes += length + 2;
}

size_t limit_forget(limit *l, int file, off_t at, size_t bytes) {
  size_t there = (size_t)(l->ring_end - at), wanted = bytes + BLANKS_BYTES;
  if (wanted > there) wanted = there;
  if (pread(file, l->older, wanted, at) != (ssize_t)wanted) return 0;
  /* Where no event begins within the length of the longest, blanks follow. */
  const char *end = l->older + wanted, *next = limit_next(l->older + bytes, end);
  limit_count(l, l->older, (size_t)(next - l->older));
  return (size_t)(next - l->older);
}
