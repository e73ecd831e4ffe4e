/*
 * tenon bench --compare: two runs side by side. Rows pair by device, operator, element type and
 * case; calls that differ in attributes alone have one name, and pair in the order in which they
 * come.
 *
 * A call became slower if its median did by more than the threshold and even its fastest round now
 * takes longer than the median before: a row that only spreads is no verdict. The same the other
 * way round.
 */
#include "bench_compare.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../command.h"
#include "../json_line.h"
#include "../plain.h"

/* --- lists of figures --- */

static void figure_free(const figure *f) {
  const char *const texts[] = {f->device, f->op, f->dtype, f->what, f->kernel};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free((char *)texts[i]);
}

static char *copy_of(const char *text) { return strdup(text ? text : ""); }

bool figures_add(figures *f, const figure *added) {
  if (f->count == f->capacity) {
    const size_t capacity = f->capacity ? 2 * f->capacity : 256;
    figure *list = realloc(f->list, capacity * sizeof *list);
    if (!list) return false;
    f->list = list;
    f->capacity = capacity;
  }
  figure new = *added;
  new.device = copy_of(added->device);
  new.op = copy_of(added->op);
  new.dtype = copy_of(added->dtype);
  new.what = copy_of(added->what);
  new.kernel = copy_of(added->kernel);
  new.place = f->count;
  if (!new.device || !new.op || !new.dtype || !new.what || !new.kernel) {
    figure_free(&new);
    return false;
  }
  f->list[f->count++] = new;
  return true;
}

void figures_free(figures *f) {
  for (size_t i = 0; i < f->count; i++) figure_free(&f->list[i]);
  free(f->list);
  *f = (figures){0};
}

static int by_call(const figure *a, const figure *b) {
  int order = strcmp(a->device, b->device);
  if (order == 0) order = strcmp(a->op, b->op);
  if (order == 0) order = strcmp(a->dtype, b->dtype);
  return order ? order : strcmp(a->what, b->what);
}

static int by_place(const void *a, const void *b) {
  const figure *x = a, *y = b;
  const int order = by_call(x, y);
  return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* Sorted, and numbered among those of the same call. */
static void figures_sort(figures *f) {
  if (f->count) qsort(f->list, f->count, sizeof *f->list, by_place);
  for (size_t i = 0; i < f->count; i++)
    f->list[i].place =
        i && by_call(&f->list[i - 1], &f->list[i]) == 0 ? f->list[i - 1].place + 1 : 0;
}

/* --- files --- */

typedef struct line {
  figure f;
  bool ops; /* of tenon bench */
} line;

static void take_member(void *ctx, const char *name, const char *text, double number) {
  line *l = ctx;
  const struct {
    const char *name;
    const char **text;
    double *number;
  } known[] = {{"device", &l->f.device, NULL},     {"op", &l->f.op, NULL},
               {"dtype", &l->f.dtype, NULL},       {"case", &l->f.what, NULL},
               {"kernel", &l->f.kernel, NULL},     {"time_us", NULL, &l->f.us.median},
               {"least_us", NULL, &l->f.us.least}, {"most_us", NULL, &l->f.us.most}};
  if (!strcmp(name, "bench")) l->ops = text && !strcmp(text, "ops");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(name, known[i].name) != 0) continue;
    if (known[i].text && text) *known[i].text = text;
    if (known[i].number && !text) *known[i].number = number;
  }
}

static bool is_blank(const char *text) { return !text[strspn(text, " \t\r\n")]; }

/* A line of the file; NULL if it is well, else what is wrong with it. */
static const char *read_line(char *text, figures *f) {
  line l = {.f = {.us = {NAN, NAN, NAN}}};
  if (is_blank(text)) return NULL;
  if (!json_line_read(text, take_member, &l)) return "is no JSON object of plain members";
  if (!l.ops) return NULL; /* other benches' */
  if (!l.f.op || !l.f.what || !l.f.device || !l.f.dtype || !(l.f.us.median > 0))
    return "lacks device, op, dtype, case or time_us";
  if (!(l.f.us.least > 0)) l.f.us.least = l.f.us.median;
  if (!(l.f.us.most > 0)) l.f.us.most = l.f.us.median;
  return figures_add(f, &l.f) ? NULL : "has no room in memory";
}

bool figures_read(const char *path, figures *f) {
  FILE *in = fopen(path, "r");
  char *text = NULL;
  const char *fault = NULL;
  size_t capacity = 0, number = 0;
  while (in && !fault && getline(&text, &capacity, in) >= 0) {
    ++number;
    fault = read_line(text, f);
  }
  const int error = !in || (!fault && ferror(in)) ? errno : 0;
  if (error)
    fprintf(stderr, "tenon bench: %s: %s\n", plain(path), strerror(error));
  else if (fault)
    fprintf(stderr, "tenon bench: %s: line %zu %s\n", plain(path), number, fault);
  else if (!f->count)
    fprintf(stderr, "tenon bench: %s has no figures of tenon bench --json\n", plain(path));
  free(text);
  if (in) (void)fclose(in);
  return !error && !fault && f->count;
}

/* --- the comparison --- */

typedef struct pair {
  const figure *was, *is;
  double ratio; /* above 1: slower */
} pair;

typedef struct pairs {
  pair *list;
  size_t count;
  const figure **missing;
  size_t num_missing, num_new;
} pairs;

static bool looked_at(const comparison *c, const figure *f) {
  return (!c->op || !fnmatch(c->op, f->op, 0)) && (!c->dtype || !fnmatch(c->dtype, f->dtype, 0)) &&
         (!c->only || !fnmatch(c->only, f->what, 0));
}

/* pre: both sorted; the lists have room for all of `was`. */
static void pair_up(const figures *was, const figures *is, const comparison *c, pairs *p) {
  size_t i = 0, k = 0;
  while (i < was->count || k < is->count) {
    const figure *a = i < was->count ? &was->list[i] : NULL;
    const figure *b = k < is->count ? &is->list[k] : NULL;
    const int order = !a ? 1 : !b ? -1 : by_place(a, b);
    if (order == 0 && looked_at(c, a))
      p->list[p->count++] = (pair){a, b, b->us.median / a->us.median};
    if (order < 0 && looked_at(c, a)) p->missing[p->num_missing++] = a;
    if (order > 0 && looked_at(c, b)) p->num_new++;
    i += order <= 0;
    k += order >= 0;
  }
}

static bool became_slower(const pair *p, double threshold) {
  return p->ratio > 1 + threshold && p->is->us.least > p->was->us.median;
}

static bool became_faster(const pair *p, double threshold) {
  return p->ratio * (1 + threshold) < 1 && p->is->us.most < p->was->us.median;
}

static int by_ratio(const void *a, const void *b) {
  const double x = ((const pair *)a)->ratio, y = ((const pair *)b)->ratio;
  return (x < y) - (x > y);
}

static void print_pair(FILE *out, const pair *p) {
  fprintf(out, "%-6.2f %12.2f %12.2f  %s  ", p->ratio, p->was->us.median, p->is->us.median,
          plain(p->is->device));
  fprintf(out, "%s  ", plain(p->is->what));
  fprintf(out, "%s", plain(p->is->kernel));
  if (strcmp(p->was->kernel, p->is->kernel) != 0) fprintf(out, ", was %s", plain(p->was->kernel));
  fputc('\n', out);
}

static size_t print_changed(FILE *out, const pairs *p, double threshold, const char *word,
                            bool (*changed)(const pair *p, double threshold)) {
  size_t count = 0;
  for (size_t i = 0; i < p->count; i++) {
    if (!changed(&p->list[i], threshold)) continue;
    if (!count++)
      fprintf(out, "%s by more than %.3g%%\n%-6s %12s %12s\n", word, 100 * threshold, "ratio",
              "was us", "is us");
    print_pair(out, &p->list[i]);
  }
  return count;
}

static size_t print_all(FILE *out, const pairs *p, double threshold) {
  double logs = 0;
  for (size_t i = 0; i < p->count; i++) logs += log(p->list[i].ratio);
  const size_t slower = print_changed(out, p, threshold, "slower", became_slower);
  const size_t faster = print_changed(out, p, threshold, "faster", became_faster);
  if (p->num_missing) fputs("missing now\n", out);
  for (size_t i = 0; i < p->num_missing; i++) {
    fprintf(out, "%s  ", plain(p->missing[i]->device));
    fprintf(out, "%s\n", plain(p->missing[i]->what));
  }
  fprintf(out, "%zu calls compared: %zu slower, %zu faster, %zu alike; %zu missing, %zu new\n",
          p->count, slower, faster, p->count - slower - faster, p->num_missing, p->num_new);
  if (p->count)
    fprintf(out, "their times are %.3f of what they were (geometric mean)\n",
            exp(logs / (double)p->count));
  return slower;
}

int figures_compare(figures *was, figures *is, const comparison *c, FILE *out) {
  pairs p = {.list = calloc(was->count + 1, sizeof *p.list),
             .missing = calloc(was->count + 1, sizeof *p.missing)};
  int status = EXIT_FAILED;
  if (!p.list || !p.missing) {
    fputs("tenon bench: no memory for the comparison\n", stderr);
  } else {
    figures_sort(was);
    figures_sort(is);
    pair_up(was, is, c, &p);
    if (p.count) qsort(p.list, p.count, sizeof *p.list, by_ratio);
    const size_t slower = print_all(out, &p, c->threshold);
    status = slower ? EXIT_FAILED : p.count ? EXIT_OK : EXIT_NOTHING;
  }
  free(p.list);
  free(p.missing);
  return status;
}
