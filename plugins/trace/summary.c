/*
 * The table at the end of a trace: one line per kernel and device, the costliest first.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "place.h"
#include "text.h"
#include "trace.h"

typedef struct line {
  const row *row;
  uint64_t calls, failed, timed, bytes, host_ns, device_ns, longest_ns;
} line;

/* --- gathering --- */

static size_t count_rows(const trace *t) {
  size_t count = 0;
  for (size_t i = 0; i < TRACE_BUCKETS; ++i)
    for (const row *r = atomic_load(&t->rows[i]); r; r = r->next) ++count;
  return count;
}

static void gather(const trace *t, line *lines) {
  for (size_t i = 0; i < TRACE_BUCKETS; ++i)
    for (row *r = atomic_load(&t->rows[i]); r; r = r->next)
      *lines++ = (line){.row = r,
                        .calls = atomic_load(&r->calls),
                        .failed = atomic_load(&r->failed),
                        .timed = atomic_load(&r->timed),
                        .bytes = atomic_load(&r->bytes),
                        .host_ns = atomic_load(&r->host_ns),
                        .device_ns = atomic_load(&r->device_ns),
                        .longest_ns = atomic_load(&r->longest_ns)};
}

static int costlier_first(const void *a, const void *b) {
  const line *x = a, *y = b;
  if (x->device_ns != y->device_ns) return x->device_ns < y->device_ns ? 1 : -1;
  if (x->host_ns != y->host_ns) return x->host_ns < y->host_ns ? 1 : -1;
  return strcmp(x->row->kernel->name, y->row->kernel->name);
}

static line add_up(const line *lines, size_t count) {
  line sum = {0};
  for (size_t i = 0; i < count; ++i) {
    sum.calls += lines[i].calls;
    sum.failed += lines[i].failed;
    sum.timed += lines[i].timed;
    sum.bytes += lines[i].bytes;
    sum.host_ns += lines[i].host_ns;
    sum.device_ns += lines[i].device_ns;
    if (lines[i].longest_ns > sum.longest_ns) sum.longest_ns = lines[i].longest_ns;
  }
  return sum;
}

/* --- printing --- */

enum { NAME_BYTES = 192 };

typedef struct columns {
  int op, kernel, place;
} columns;

typedef struct names {
  char op[NAME_BYTES], kernel[NAME_BYTES], place[NAME_BYTES];
} names;

/* The name, and for whom: "copy for matmul", "cpu:0 for cuda:0". A plugin may call itself what a
 * terminal obeys. */
static text put_shown(char *to, const char *name) {
  text x = {to, to + NAME_BYTES - 1};
  text_escaped(&x, name);
  *x.at = 0;
  return x;
}

static void put_for(text x, const char *whom) {
  if (!whom) return;
  text_put(&x, " for ");
  text_escaped(&x, whom);
  *x.at = 0;
}

static names names_of(const row *r) {
  names n;
  text place = put_shown(n.place, r->device->type);
  text_put(&place, ":");
  text_signed(&place, r->device->index);
  *place.at = 0;
  put_for(place, r->fallback_from);
  put_for(put_shown(n.op, r->op->name), r->stand_in_for);
  (void)put_shown(n.kernel, r->kernel->name);
  return n;
}

static int wider(int width, const char *word) {
  int length = (int)strlen(word);
  return length > width ? length : width;
}

static columns measure(const line *lines, size_t count) {
  columns c = {(int)strlen("operator"), (int)strlen("kernel"), (int)strlen("device")};
  for (size_t i = 0; i < count; ++i) {
    names n = names_of(lines[i].row);
    c.op = wider(c.op, n.op);
    c.kernel = wider(c.kernel, n.kernel);
    c.place = wider(c.place, n.place);
  }
  return c;
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static void print_figures(FILE *out, const line *l, uint64_t all_ns) {
  fprintf(out, " %8" PRIu64 " %10.3f %10.3f %10.3f %10.3f %10.3f %8.2f %6.1f\n", l->calls,
          (double)l->host_ns / 1e6, (double)l->device_ns / 1e6,
          ratio((double)l->device_ns, (double)l->timed) / 1e3, (double)l->longest_ns / 1e3,
          (double)l->bytes / 1e6, ratio((double)l->bytes, (double)l->device_ns),
          100 * ratio((double)l->device_ns, (double)all_ns));
}

static void print_head(const trace *t, FILE *out, const line *sum) {
  uint64_t untimed = sum->calls - sum->failed - sum->timed, lost = atomic_load(&t->lost);
  fprintf(out, "tenon trace of process %ld: %" PRIu64 " calls in %.3f ms, %.3f ms on devices\n",
          (long)t->pid, sum->calls, (double)(now_ns() - t->opened_ns) / 1e6,
          (double)sum->device_ns / 1e6);
  if (sum->failed) fprintf(out, "%" PRIu64 " of them failed\n", sum->failed);
  if (untimed) fprintf(out, "%" PRIu64 " have no time of a device: it gave none\n", untimed);
  if (lost) fprintf(out, "%" PRIu64 " more are not in the trace: no host memory\n", lost);
  for (const device *d = atomic_load(&t->devices); d; d = d->next)
    fprintf(out, "%s:%" PRId32 ": at most %.3f MB in tensors\n", d->type, d->index,
            (double)d->most_in_use / 1e6);
}

static void print_table(const trace *t, FILE *out, line *lines, size_t count) {
  line sum = add_up(lines, count);
  columns c = measure(lines, count);
  print_head(t, out, &sum);
  fprintf(out, "%-*s %-*s %-*s %8s %10s %10s %10s %10s %10s %8s %6s\n", c.op, "operator", c.kernel,
          "kernel", c.place, "device", "calls", "host ms", "device ms", "mean us", "max us", "MB",
          "GB/s", "share%");
  for (size_t i = 0; i < count; ++i) {
    names n = names_of(lines[i].row);
    fprintf(out, "%-*s %-*s %-*s", c.op, n.op, c.kernel, n.kernel, c.place, n.place);
    print_figures(out, &lines[i], sum.device_ns);
  }
  fprintf(out, "%-*s %-*s %-*s", c.op, "all", c.kernel, "", c.place, "");
  print_figures(out, &sum, sum.device_ns);
}

/* Tables of several runtimes and processes go one behind the other. */
static FILE *open_table(const char *path) {
  int file =
      strcmp(path, "-") == 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0) : place_open_stream(path);
  FILE *out = file < 0 ? NULL : fdopen(file, "a");
  if (!out && file >= 0) close(file);
  return out;
}

void summary_print(const trace *t) {
  if (!t->summary[0]) return;
  size_t count = count_rows(t);
  line *lines = t->host->alloc(t->host, (count + 1) * sizeof *lines, 16);
  FILE *out = lines ? open_table(t->summary) : NULL;
  if (out) {
    gather(t, lines);
    qsort(lines, count, sizeof *lines, costlier_first);
    print_table(t, out, lines, count);
  }
  bool whole = out && !ferror(out);
  if (!out || fclose(out) != 0 || !whole)
    t->host->log(t->host, TN_LOG_ERROR, "layer trace: cannot write the summary to %s: %s",
                 t->summary, strerror(errno));
  t->host->free(t->host, lines);
}
