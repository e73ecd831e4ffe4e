/*
 * The layer `validate`: what its files share. One state per runtime, guarded by one mutex;
 * nothing is logged while it is held, since a host's log function may call Tenon.
 */
#ifndef VALIDATE_H
#define VALIDATE_H

#include <pthread.h>

#include "extent.h"
#include "map.h"

/* What TENON_VALIDATE turns on. */
enum {
  CHECK_FINITE = 1u << 0,
  CHECK_ALIAS = 1u << 1,
  CHECK_LIFETIME = 1u << 2,
  CHECK_RACES = 1u << 3,
  CHECK_LEAKS = 1u << 4,
  CHECK_UNWRITTEN = 1u << 5,
  CHECK_INDEX = 1u << 6,
  CHECK_ALL = (1u << 7) - 1,
};

/* The bounds of what is kept. */
enum {
  DEVICES_MAX = 64,
  ACTORS_MAX = 64,         /* the host, and streams; more streams share the last */
  ACCESSES_MAX = 64,       /* pending ones per piece of memory; the oldest are forgotten */
  GHOSTS_MAX = 256,        /* pieces of released memory with work pending; likewise */
  REPORTS_MAX = 1024,      /* different reports; more are only counted */
  SITES_MAX = 16384,       /* different call sites; more are called "elsewhere" */
  SITE_BYTES = 96,         /* of each site's text */
  RUNS_MAX = 8,            /* runs of bytes that were written, per piece of memory */
  LEAKS_SHOWN = 32,        /* of each kind, one by one */
  TEXT_BYTES = 768,        /* of one report */
  FINDINGS_MAX = 4,        /* of one call, one by one */
  STAGING_BYTES = 1 << 22, /* of device memory looked at in one go */
};

typedef enum report_kind {
  REPORT_NONFINITE,
  REPORT_PASSED_ON,
  REPORT_ALIAS,
  REPORT_LIFETIME,
  REPORT_RACE,
  REPORT_LEAK,
  REPORT_UNWRITTEN,
  REPORT_INDEX,
  REPORT_KINDS,
} report_kind;

typedef struct report {
  report_kind kind;
  const char *op, *site, *other_op, *other_site;
  uint64_t count;
} report;

/* What the checks of one call or notice found, to be said once the mutex is free. */
typedef struct findings {
  uint32_t count;
  struct {
    bool fresh; /* nothing like it was reported before */
    char text[TEXT_BYTES];
  } item[FINDINGS_MAX];
} findings;

/* What happened before a point of an actor's time: tick[i] steps of actor i. Actor 0 is the
 * host, all of its threads. The others are streams, also of devices that compute in the caller:
 * a program's order must hold on any device. */
typedef struct vclock {
  uint64_t tick[ACTORS_MAX];
} vclock;

typedef struct device {
  const char *type;
  int32_t index;
  bool opaque;
} device;

typedef struct access {
  extent where;
  uint32_t actor;
  bool write;
  bool earlier; /* of a tensor that had the memory before */
  uint64_t tick;
  const char *op, *site;
} access;

typedef struct run {
  int64_t lo, hi;
} run;

/* One piece of memory, which a tensor shares with its views. */
typedef struct memory {
  struct memory *next; /* by chance of hashing; or among ghosts or imports */
  const device *device;
  const void *base; /* as in extent */
  int64_t lo, hi;
  uint32_t home; /* the actor whose memory it is; 0 too for imports */
  bool imported;
  bool exposed; /* the program may write it without a word */
  uint32_t num_written;
  run written[RUNS_MAX]; /* apart from one another */
  access *accesses;      /* pending: the host does not know them done */
  uint32_t num_accesses, room;
} memory;

/* A tensor, stream, event, prepared call or piece of pinned memory that is alive. */
typedef enum thing_kind { TENSOR, STREAM, EVENT, PREPARED, PINNED, THING_KINDS } thing_kind;
typedef struct thing {
  struct thing *next, *previous;
  const device *device;
  const char *site, *op;
  uint64_t bytes;
  int32_t rank;
  DLDataType dtype;
  int64_t shape[TN_MAX_RANK];
  const void *object;
} thing;

typedef struct validate {
  const tn_host *host;
  pthread_mutex_t mutex;
  uint32_t checks;
  bool fail; /* TENON_VALIDATE=error */
  /* report.c */
  report reports[REPORTS_MAX];
  uint32_t num_reports;
  uint32_t num_leak_sorts; /* kinds of things that leaked */
  uint64_t more_reports, totals[REPORT_KINDS];
  map sites;
  /* life.c */
  map things[THING_KINDS];
  thing *first[THING_KINDS];
  uint64_t num_things[THING_KINDS];
  /* races.c */
  device devices[DEVICES_MAX];
  uint32_t num_devices;
  map actors; /* stream -> clock, by device */
  vclock clocks[ACTORS_MAX];
  bool actor_used[ACTORS_MAX];
  map events; /* event -> vclock */
  /* memory.c */
  map memories;    /* identity -> memory */
  memory **sorted; /* of pools, by place: they do not meet while they live */
  size_t num_sorted, room_sorted;
  memory *imports, *ghosts;
  uint32_t num_ghosts;
  uint64_t undecided, forgotten, unread;
} validate;

/* --- report.c --- */

/* A copy of a call site's text that lives as long as the layer. */
const char *site_keep(validate *v, const char *site);
/* Counts a report and, if it is the first of its kind, operators and sites, keeps the text
 * to be said. */
void find(validate *v, findings *f, report_kind kind, const char *op, const char *site,
          const char *other_op, const char *other_site, const char *format, ...)
    __attribute__((format(printf, 8, 9)));
/* Says what is fresh; with TENON_VALIDATE=error fails with the first. pre: mutex free. */
tn_status settle(validate *v, const findings *f);
void report_summary(validate *v);
/* "f32 [2, 3]" */
const char *tensor_text(char *text, size_t size, DLDataType dtype, int32_t rank,
                        const int64_t *shape);
/* " at model.c:12", or nothing. */
const char *at_site(char *text, size_t size, const char *site);

/* --- life.c --- */

void thing_made(validate *v, thing_kind kind, const tn_layer_event *event);
void thing_gone(validate *v, thing_kind kind, const void *object);
void tensor_misused(validate *v, findings *f, const tn_layer_event *event);
/* What is alive when the runtime closes. pre: mutex free, no other call under way. */
void report_leaks(validate *v);
void things_free(validate *v);

/* --- races.c --- */

const device *device_of(validate *v, const char *type, int32_t index, const tn_backend *backend);
uint32_t actor_of(validate *v, const device *d, const void *stream);
/* One more step of the actor, behind what the host knows; returns its number. */
uint64_t actor_step(validate *v, uint32_t actor);
/* The host knows that the access is done. */
static inline bool host_knows(const validate *v, const access *a) {
  return a->tick <= v->clocks[0].tick[a->actor];
}
static inline bool is_ordered(const validate *v, const access *a, uint32_t actor) {
  return a->actor == actor || a->tick <= v->clocks[actor].tick[a->actor];
}
void order_notice(validate *v, const tn_layer_event *event);
/* The call's reads and writes: races, memory that nothing owns, outputs over inputs. */
void check_call(validate *v, findings *f, const tn_layer_call *call);
void check_copy(validate *v, findings *f, const tn_layer_event *event);
void races_free(validate *v);

/* --- memory.c --- */

void memory_made(validate *v, const tn_layer_event *event);
void memory_released(validate *v, const void *identity);
void ghosts_forget(validate *v, const device *d);
/* Calls visit for each piece of living memory of the device that the extent meets. */
void memory_visit(validate *v, const device *d, const extent *e,
                  void (*visit)(memory *m, void *ctx), void *ctx);
/* Keeps an access for as long as the host does not know it done. */
void memory_note(validate *v, memory *m, const access *a);
void memories_free(validate *v);

/* --- written.c --- */

/* Something wrote into these bytes. */
void written_add(memory *m, int64_t lo, int64_t hi);
/* The extent lies in this memory, and nothing of it was ever written. */
bool written_lacks(const memory *m, const extent *e);
/* Whether the operator reads what it updates in place. */
bool written_is_read(const tn_operator *op);
void written_exposed(validate *v, const void *identity);

/* --- index.c --- */

/* Reports indexes of the call that lie outside what they count. pre: mutex free. */
void check_indexes(validate *v, findings *f, const tn_layer_call *call);

/* --- finite.c --- */

/* The call's tensors that are overwritten, looked at before it. */
typedef struct before {
  unsigned char few[64], *state;
  uint32_t count;
} before;
tn_status finite_before(validate *v, const tn_layer_call *call, before *b);
void finite_after(validate *v, findings *f, const tn_layer_call *call, const before *b);
void finite_end(validate *v, before *b);

/* Copies bytes of a tensor's memory to the host, in the stream's order; offset: from the first
 * element's. */
tn_status fetch_bytes(const tn_layer_call *call, const DLTensor *t, int64_t offset, int64_t bytes,
                      void *to);
const tn_arg *arg_at(const tn_operator *op, uint32_t index);
const tn_attr *attr_at(const tn_operator *op, uint32_t index);
/* The tensor given for a TN_ATTR_TENSOR; NULL for other attributes, and where none is given. */
const DLTensor *attr_tensor_at(const tn_layer_call *call, uint32_t index);
/* In-out tensors come first among the outputs; results are no lists. */
uint32_t count_inout(const tn_layer_call *call);

/* The argument's name: "x", or "input 3" of an operator with lists. */
const char *tensor_name(char *text, size_t size, const tn_layer_call *call, bool output,
                        uint32_t index);

#endif
