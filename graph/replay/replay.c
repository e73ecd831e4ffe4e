/* Which device graph a run launches, which addresses are worth one, and what becomes of failures.
 */
#include "graph/replay/replay.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/base/invariant.h"
#include "graph/program.h"

/* --- an instance's part --- */

/* All or nothing: without it, runs go call by call. */
static replayer *replayer_make(const tn_program *p) {
  const host_memory *host = &p->record.memory;
  const size_t slots = p->replay.num_slots, rows = 3 + 2 * DEVICE_GRAPHS;
  const size_t room = rows * slots * sizeof(void *);
  replayer *a = host_alloc(host, sizeof *a + room + slots * sizeof *a->changed);
  if (!a) return NULL;
  const void **at = (const void **)(void *)(a + 1);
  const void ***row[3] = {&a->now, &a->before, &a->fixed};
  for (size_t i = 0; i < 3; ++i, at += slots) *row[i] = at;
  for (size_t i = 0; i < DEVICE_GRAPHS; ++i, at += slots) a->graphs[i].at = at;
  for (size_t i = 0; i < DEVICE_GRAPHS; ++i, at += slots) a->seen[i].at = at;
  a->changed = (bool *)(void *)at;
  return a;
}

static void drop(const tn_program *p, device_graph *g) {
  if (g->graph) p->device->type->backend.graph_destroy(p->device->handle, g->graph);
  g->graph = NULL;
}

void replayer_free(const tn_program *p, instance *i) {
  replayer *a = i->replay;
  if (!a) return;
  for (size_t k = 0; k < DEVICE_GRAPHS; ++k) drop(p, &a->graphs[k]);
  fixed_free(p, a);
  host_free(&p->record.memory, a);
  i->replay = NULL;
}

void replay_free(tn_program *p) {
  for (instance *i = p->instances; i; i = i->next) replayer_free(p, i);
  host_free(&p->record.memory, p->replay.slots);
  p->replay.slots = NULL;
  pthread_mutex_destroy(&p->replay.mutex);
}

/* --- addresses --- */

static bool same(const replay *a, const void *const *x, const void *const *y) {
  for (uint32_t i = 0; i < a->num_slots; ++i)
    if (x[i] != y[i]) return false;
  return true;
}

static void look(const program_run *r, replayer *a) {
  for (uint32_t i = 0; i < r->program->replay.num_slots; ++i)
    a->now[i] = slot_tensor(r, &r->program->replay.slots[i])->dl.data;
}

static void look_fixed(const program_run *r, replayer *a) {
  for (uint32_t i = 0; i < r->program->replay.num_slots; ++i)
    a->fixed[i] = a->fixes && a->fixes[i] ? a->fixes[i]->dl.data : a->now[i];
}

static device_graph *find(const program_run *r, replayer *a, const void *const *at) {
  for (size_t i = 0; i < DEVICE_GRAPHS; ++i)
    if (a->graphs[i].graph && same(&r->program->replay, a->graphs[i].at, at)) return &a->graphs[i];
  return NULL;
}

/* How often these have come without a device graph, this run included. */
static uint32_t sight(const program_run *r, replayer *a, const void *const *at, sighting **seen) {
  const replay *p = &r->program->replay;
  for (size_t i = 0; i < DEVICE_GRAPHS; ++i) {
    *seen = &a->seen[i];
    if ((*seen)->times && same(p, (*seen)->at, at)) return ++(*seen)->times;
  }
  *seen = &a->seen[a->next_seen++ % DEVICE_GRAPHS];
  memcpy((*seen)->at, at, p->num_slots * sizeof *at);
  return (*seen)->times = 1;
}

/* Notes a run that met no device graph; now and then it is time for fixed places. */
static void meet_stranger(const program_run *r, replayer *a) {
  const uint32_t slots = r->program->replay.num_slots;
  for (uint32_t i = 0; a->strangers && i < slots; ++i) a->changed[i] |= a->now[i] != a->before[i];
  memcpy(a->before, a->now, slots * sizeof *a->now);
  if (++a->strangers % STRANGERS == 0) fixed_take(r, a);
}

/* --- recording --- */

/* An empty one, or the one that was launched least lately. */
static device_graph *oldest(replayer *a) {
  device_graph *found = &a->graphs[0];
  for (size_t i = 0; i < DEVICE_GRAPHS && found->graph; ++i)
    if (!a->graphs[i].graph || a->graphs[i].used < found->used) found = &a->graphs[i];
  return found;
}

/* Addresses that come a second time are worth recording; where that drops others, which may come
 * again themselves, they have to come more and more often. */
static bool is_worth_it(const replayer *a, uint32_t times, const device_graph *place) {
  uint32_t doublings = a->dropped < 5 ? a->dropped : 5;
  return times >= (place->graph ? 4u << doublings : 2u);
}

static void keep(const program_run *r, replayer *a, device_graph *place, void *graph) {
  a->dropped += place->graph != NULL;
  drop(r->program, place);
  place->graph = graph;
  memcpy(place->at, a->fixed, r->program->replay.num_slots * sizeof *a->fixed);
  a->strangers = 0;
  memset(a->changed, 0, r->program->replay.num_slots * sizeof *a->changed);
}

/* The first failure is told and kept, and the program's runs go call by call from then on. */
static __attribute__((cold)) void give_up(const program_run *r, const char *what) {
  replay *a = &r->program->replay;
  pthread_mutex_lock(&a->mutex);
  bool first = atomic_load(&a->state) != TN_CAPTURE_FAILED;
  if (first) {
    snprintf(a->why, sizeof a->why, "%s: %.400s", what, tn_last_error());
    atomic_store(&a->state, TN_CAPTURE_FAILED);
  }
  pthread_mutex_unlock(&a->mutex);
  if (first)
    runtime_log(r->program->runtime, TN_LOG_WARN,
                "program %s goes on call by call, without a device graph: %s", r->program->name,
                a->why);
}

/* --- a run --- */

/* A failure is the run's where the device is lost or calls may have run, else the program's. */
static bool give_way(const program_run *r, tn_status *status, const char *what) {
  if (*status == TN_ERR_DEVICE_LOST) {
    fail_prefix("program %s, %s: ", r->program->name, what);
    return true;
  }
  give_up(r, what);
  *status = TN_OK;
  return false;
}

static bool launch(const program_run *r, replayer *a, device_graph *g, bool fixed,
                   tn_status *status) {
  tn_device *d = r->program->device;
  g->used = ++a->clock;
  *status = fixed ? fixed_copy(r, a, false) : TN_OK;
  if (*status) return give_way(r, status, "a copy to its device graph");
  fail_set_reason(false);
  *status = d->type->backend.graph_launch(d->handle, g->graph, r->stream->queue);
  if (*status == TN_ERR_UNSUPPORTED) return *status = TN_OK, false; /* not here, not now */
  *status = device_result(d, "graph_launch", *status);
  if (*status) return give_way(r, status, "launching its device graph");
  atomic_fetch_add_explicit(&r->program->replay.launched, 1, memory_order_relaxed);
  if (fixed) *status = fixed_copy(r, a, true);
  if (*status) fail_prefix("program %s, copying from its device graph: ", r->program->name);
  return true;
}

static bool record_and_launch(const program_run *r, replayer *a, device_graph *place,
                              tn_status *status) {
  void *graph;
  run_show(r, true);
  fixed_show(r, a);
  *status = recorder_record(r, &graph);
  run_show(r, false);
  if (*status) return give_way(r, status, "recording a device graph");
  keep(r, a, place, graph);
  uint32_t waits = TN_CAPTURE_WAITS; /* and not one that failed meanwhile */
  (void)atomic_compare_exchange_strong(&r->program->replay.state, &waits, TN_CAPTURE_ON);
  return launch(r, a, place, a->fixes != NULL, status);
}

bool replay_run(const program_run *r, tn_status *status) {
  uint32_t state = atomic_load_explicit(&r->program->replay.state, memory_order_relaxed);
  if (state != TN_CAPTURE_WAITS && state != TN_CAPTURE_ON) return false;
  if (!r->at->replay) r->at->replay = replayer_make(r->program);
  replayer *a = r->at->replay;
  if (!a) return false;
  look(r, a);
  device_graph *g = find(r, a, a->now);
  if (g) return launch(r, a, g, false, status);
  if (a->fixes) {
    look_fixed(r, a);
    if ((g = find(r, a, a->fixed))) return launch(r, a, g, true, status);
  }
  meet_stranger(r, a);
  look_fixed(r, a);
  sighting *seen;
  device_graph *place = oldest(a);
  if (!is_worth_it(a, sight(r, a, a->fixed, &seen), place)) return false;
  seen->times = 0;
  return record_and_launch(r, a, place, status);
}
