/*
 * Growth: a call is made in windows of as many calls each, and what the process has is counted
 * between them. Drivers rightly make threads, descriptors and caches when something is first used;
 * a kernel that leaves something behind with each call grows in every window.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "laid.h"
#include "load.h"

enum { WARM = 8, ROUNDS = 3, KINDS = 4 };

/* More and more calls tell what a driver's threads are late in giving back, or keep up to some
 * number of, from what each call leaves. */
static const struct { int windows, calls; } rounds[ROUNDS] = {{3, 16}, {5, 64}, {6, 512}};

static const struct {
  const char *name;
  double least;   /* of it per call, to count as left behind */
  double at_once; /* so much that a few calls tell */
} kinds[KINDS] = {
    {"threads", 0.5, 0.9}, /* first: their stacks and descriptors are memory too */
    {"descriptors", 0.5, 0.9},
    {"bytes of the C library's memory", 16, 256 * 1024.0},
    {"bytes of address space", 4096, 256 * 1024.0},
};

static double entries(const char *folder) {
  DIR *d = opendir(folder);
  double count = 0;
  if (!d) return 0;
  while (readdir(d)) count++;
  closedir(d);
  return count;
}

static double address_space(void) {
  char text[64] = "";
  FILE *f = fopen("/proc/self/statm", "re");
  unsigned long pages = 0;
  if (f && fgets(text, sizeof text, f)) sscanf(text, "%lu", &pages);
  if (f) fclose(f);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Not in one line: where the second is not defined, the line does not parse. */
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 33)
#define HAS_MALLINFO2 1
#endif
#endif
#ifndef HAS_MALLINFO2
#define HAS_MALLINFO2 0
#endif

static double allocated(void) {
#if HAS_MALLINFO2
  struct mallinfo2 m = mallinfo2();
  return (double)m.uordblks + (double)m.hblkhd;
#else
  return 0;
#endif
}

/* Sanitizers keep what is freed for a while, and map as they like; layers that the environment
 * names keep notes of calls. */
static void count_all(double *has) {
  const char *layers = getenv("TENON_LAYERS");
  const bool memory = !TN_FLAVOUR && !(layers && *layers);
  has[0] = entries("/proc/self/task");
  has[1] = entries("/proc/self/fd");
  has[2] = memory ? allocated() : 0;
  has[3] = memory ? address_space() : 0;
}

static tn_status call_once(laid *l, tn_prepared *prepared) {
  if (prepared) return tn_run(prepared);
  tn_call call = laid_call(l);
  tn_status status = tn_invoke(&call);
  laid_drop_outputs(l);
  return status;
}

static tn_status call_often(laid *l, tn_prepared *prepared, int calls) {
  tn_status status = TN_OK;
  for (int i = 0; i < calls && status == TN_OK; i++) status = call_once(l, prepared);
  return status == TN_OK ? tn_device_synchronize(l->device) : status;
}

/* Per call, the least of what the windows came to. */
static tn_status measure(laid *l, tn_prepared *prepared, int windows, int calls, double *grown) {
  double before[KINDS], after[KINDS];
  tn_status status = call_often(l, prepared, WARM);
  count_all(before);
  for (int w = 0; w < windows && status == TN_OK; w++) {
    status = call_often(l, prepared, calls);
    count_all(after);
    for (int k = 0; k < KINDS; k++) {
      double each = (after[k] - before[k]) / calls;
      grown[k] = w == 0 || each < grown[k] ? each : grown[k];
    }
    memcpy(before, after, sizeof before);
  }
  return status;
}

/* Finds the kind of which there is more with every call, or KINDS. */
static tn_status find_growth(laid *l, tn_prepared *prepared, double *grown, int *kind) {
  tn_status status = TN_OK;
  *kind = KINDS;
  for (int round = 0; round < ROUNDS; round++) {
    int k = 0;
    status = measure(l, prepared, rounds[round].windows, rounds[round].calls, grown);
    while (k < KINDS && grown[k] < kinds[k].least) k++;
    if (status != TN_OK || k == KINDS) break;
    if (round + 1 < ROUNDS && grown[k] < kinds[k].at_once) continue;
    *kind = k;
    break;
  }
  return status;
}

static void complain_of(tn_status status, const char *what, const op_case *c, const load_site *s,
                        tally *t) {
  char why[600];
  snprintf(why, sizeof why, "%s: %s: %s", what, tn_status_name(status), tn_last_error());
  load_complain(s, c, t, "many calls", why);
}

static bool look_at(laid *l, uint32_t rank, const char *judge, const load_site *s, tally *t) {
  double grown[KINDS] = {0};
  char why[300];
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  tn_prepared *prepared = NULL;
  int kind = KINDS;
  tn_status status = laid_prepare(l, rank, judge, &prepared);
  if (status != TN_OK) {
    /* No kernel of that rank, or none of the device's, is for others to say. */
    if (status != TN_ERR_UNSUPPORTED && !case_declined(l->c, status))
      complain_of(status, "it cannot be prepared", l->c, s, t);
    return false;
  }
  tn_prepared_kernel(prepared, &kernel);
  if (rank == 0) laid_drop_outputs(l);
  status = find_growth(l, rank ? prepared : NULL, grown, &kind);
  if (status != TN_OK) {
    snprintf(why, sizeof why, "%s fails when it is called again and again", kernel.name);
    complain_of(status, why, l->c, s, t);
  } else if (kind < KINDS) {
    snprintf(why, sizeof why, "%s leaves %.3g %s behind with every call", kernel.name, grown[kind],
             kinds[kind].name);
    load_complain(s, l->c, t, "many calls", why);
  }
  tn_prepared_release(prepared);
  laid_drop_outputs(l);
  return status == TN_OK && kind == KINDS;
}

void growth_case(const op_case *c, const load_site *s, tally *t) {
  laid l;
  char judge[64];
  if (!tally_begin(t, c, "many calls")) return;
  tn_status status = laid_make(c, s->device, NULL, &l);
  if (status != TN_OK) {
    complain_of(status, "its tensors cannot be made", c, s, t);
    return;
  }
  load_judge(s, judge, sizeof judge);
  for (uint32_t rank = 0; rank < 3 && look_at(&l, rank, judge, s, t);) rank++;
  laid_free(&l);
}
