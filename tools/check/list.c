/* `tenon check --list`: operators, element types, how many cases, and the kernels that are tried
 * for them, of every device that would be checked. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "../command.h"
#include "../json.h"
#include "../plain.h"
#include "backend/backend.h"
#include "check.h"
#include "output.h"

/* Made in a process of its own, for it opens devices. */
typedef struct list {
  const check_options *options;
  const agenda *agenda;
  const checked_device *device;
  const workbench *bench;
  uint64_t operators, choices, cases; /* of the device */
  bool op_has_kernel;
} list;

/* The kernels for an operator and a type, best first. */
static size_t kernels_of(const list *l, const tn_operator *op, tn_dtype dtype, const char *names[],
                         size_t most) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  size_t count = 0;
  while (count < most &&
         tn_kernel_find(l->bench->device, op->id, dtype, (uint32_t)count, &kernel) == TN_OK)
    names[count++] = kernel.name;
  return count;
}

static void list_json(const list *l, const tn_operator *op, const tn_dtype *types, uint64_t cases,
                      const char *const *kernels, size_t count) {
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_string(&j, "device", l->device->id);
  json_string(&j, "op", op->name);
  json_open(&j, "types", '[');
  for (int v = 0; v < TN_MAX_TYPE_VARS && types[v]; v++)
    json_string(&j, NULL, tn_dtype_name(types[v]));
  json_close(&j, ']');
  json_number(&j, "cases", cases);
  json_open(&j, "kernels", '[');
  for (size_t i = 0; i < count; i++) json_string(&j, NULL, kernels[i]);
  json_close(&j, ']');
  json_close(&j, '}');
}

static void list_text(const tn_operator *op, const tn_dtype *types, uint64_t cases,
                      const char *const *kernels, size_t count) {
  char text[64];
  types_text(types, text, sizeof text);
  printf("%-28s %-12s %5" PRIu64 " cases ", plain(op->name), text, cases);
  for (size_t i = 0; i < count; i++) printf("%s%s", i ? ", " : " ", plain(kernels[i]));
  puts("");
}

static void take(void *ctx, const tn_operator *op, const tn_dtype *types, uint64_t cases) {
  enum { MOST = 16 };
  const char *kernels[MOST];
  list *l = ctx;
  size_t count = kernels_of(l, op, types[0], kernels, MOST);
  if (!count) return;
  l->op_has_kernel = true;
  l->choices++;
  l->cases += cases;
  if (l->options->json)
    list_json(l, op, types, cases, kernels, count);
  else
    list_text(op, types, cases, kernels, count);
}

/* Operators without a kernel, some of them by name. */
static void list_idle(const list *l, const uint32_t *idle, uint32_t count) {
  enum { NAMED = 5 };
  if (!count) return;
  printf("%u operators have no kernel here: ", count);
  for (uint32_t i = 0; i < count && (i < NAMED || l->options->all); i++)
    printf("%s%s", i ? ", " : "", plain(l->agenda->op[idle[i]].name));
  puts(count > NAMED && !l->options->all ? ", ... (--all names them)" : "");
}

static void list_totals(const list *l, const uint32_t *idle, uint32_t count) {
  if (!l->options->json) {
    list_idle(l, idle, count);
    printf("%s (%s): %" PRIu64 " cases of %" PRIu64 " operators in %" PRIu64
           " choices of types would run, each in several variants\n",
           plain(l->device->id), plain(l->device->name), l->cases, l->operators, l->choices);
    return;
  }
  json j = {.out = stdout, .compact = true};
  json_open(&j, NULL, '{');
  json_string(&j, "device", l->device->id);
  json_bool(&j, "totals", true);
  json_number(&j, "operators", l->operators);
  json_number(&j, "choices", l->choices);
  json_number(&j, "cases", l->cases);
  json_open(&j, "without_kernel", '[');
  for (uint32_t i = 0; i < count; i++) json_string(&j, NULL, l->agenda->op[idle[i]].name);
  json_close(&j, ']');
  json_close(&j, '}');
}

static void list_slots_json(const list *l) {
  for (uint32_t i = 0; *l->device->plugin && i < num_slot_checks; i++) {
    json j = {.out = stdout, .compact = true};
    json_open(&j, NULL, '{');
    json_string(&j, "device", l->device->id);
    json_string(&j, "slots", slot_checks[i].name);
    json_string(&j, "about", slot_checks[i].about);
    json_close(&j, '}');
  }
}

static void list_device(list *l, const workbench *w) {
  uint32_t idle[CHECK_OPS], count = 0;
  l->bench = w;
  if (l->options->json)
    list_slots_json(l);
  else
    backend_list(l->options, l->device);
  for (uint32_t i = 0; i < l->agenda->num_ops; i++) {
    if (!l->device->wanted[i]) continue;
    l->op_has_kernel = false;
    unit_list(w, l->agenda, i, take, l);
    l->operators += l->op_has_kernel;
    if (!l->op_has_kernel) idle[count++] = i;
  }
  list_totals(l, idle, count);
}

/* One process of its own for each: what a driver leaves behind is gone with it. */
typedef struct job {
  const check_options *options;
  const agenda *agenda;
  uint32_t device;
} job;

static void run_job(void *ctx) {
  const job *k = ctx;
  workbench w;
  const checked_device *d = &k->agenda->device[k->device];
  list l = {.options = k->options, .agenda = k->agenda, .device = d};
  int out = output_aside();
  const tn_status status = workbench_open(k->options, d, &w);
  output_back(out);
  if (status != TN_OK) {
    fprintf(stderr, "tenon check: %s: %s\n", plain(d->id), plain(tn_last_error()));
    _exit(EXIT_FAILED);
  }
  list_device(&l, &w);
  out = output_aside();
  workbench_close(&w);
  output_back(out);
}

int list_run(const check_options *o, const agenda *a) {
  bool ok = true;
  for (uint32_t d = 0; d < a->num_devices; d++) {
    job k = {o, a, d};
    if (a->device[d].failure[0]) {
      fprintf(stderr, "tenon check: %s\n", plain(a->device[d].failure));
      ok = false;
      continue;
    }
    const char *how = workers_apart(o, run_job, &k, 0);
    if (*how) fprintf(stderr, "tenon check: %s: %s\n", plain(a->device[d].id), plain(how));
    ok = ok && !*how;
  }
  return ok ? EXIT_OK : EXIT_FAILED;
}
