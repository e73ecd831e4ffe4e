/* What the parts of `tenon check` share: options, what there is to check, and how far the
 * checking of one operator on one device has come. */
#ifndef TENON_CHECK_CHECK_H
#define TENON_CHECK_CHECK_H

#include <stdatomic.h>

#include "effects.h"
#include "last_words.h"
#include "run_case.h"

typedef struct check_options {
  const char *plugin; /* absolute path, or NULL */
  const char *device, *op, *dtype, *expect, *junit;
  const char *slots; /* which checks of a backend's slots, or NULL */
  uint64_t seed, only_case;
  uint64_t every; /* which cases of a sample: each Nth; 0: all */
  bool has_case, has_seed;
  bool json, list, complete, large, no_fork, no_thresholds;
  bool all;       /* names every operator without a kernel */
  double minutes; /* of fuzzing; 0: none */
  uint64_t step;  /* of fuzzing: this one alone, where has_step */
  bool has_step;
  const char *sequence; /* of fuzzing: what to run in place of random calls, or NULL */
  uint32_t jobs;        /* 0: as many as there are processors */
  bool jobs_given;
  uint32_t timeout_s; /* of one run */
  bool timeout_given;
  bool guarded; /* workspaces lie between guards, by the layer of that name */
  const struct expectations *expected; /* failures that a list names, or NULL */
} check_options;

/* CHECK_ITSELF stands in an operator's place where what failed is the device or its plugin. */
enum {
  CHECK_DEVICES = 16,
  CHECK_OPS = 1024,
  CHECK_ITSELF = CHECK_OPS - 1,
  CHECK_KEPT = 4,
  CHECK_CRASHES = 3,
};

typedef struct checked_device {
  char id[48], type[32], name[128];
  char features[256];
  char expect[512]; /* the list of expected failures that its plugin ships, or "" */
  char plugin[512]; /* the file of the plugin whose device it is, where its slots are checked */
  uint32_t index;   /* among devices of its type */
  bool host;
  uint8_t wanted[CHECK_OPS]; /* by place in agenda.ops */
  char failure[1200];        /* why nothing can be checked on it, which is a failure, or "" */
} checked_device;

/* What there is to check. Lies in memory that forked children share. */
typedef struct agenda {
  bool complete;      /* what is to be checked is known; closing the runtime may still fail */
  bool usage;         /* the options make no sense */
  char failure[1400]; /* of finding out, of the plugin itself: counts as one; or "" */
  char nothing[1400]; /* why there is nothing to check, which is none; or "" */
  uint32_t num_devices, num_ops;
  uint32_t num_checks; /* of slots, whose names stand behind those of the operators */
  checked_device device[CHECK_DEVICES + 1]; /* the last for what failed before there was one */
  struct {
    uint32_t id;
    char name[64];
  } op[CHECK_OPS];
  char plugin[64];  /* the one that is to be checked, "" for all */
  uint64_t lacking; /* by --complete */
  char notes[4096]; /* lines for people: devices that are left out, and why */
} agenda;

typedef struct check_failure {
  tn_dtype dtype; /* of type variable T */
  bool expected;
  char text[1400];
  char again[400]; /* the command that runs this case */
} check_failure;

enum { UNIT_IDLE, UNIT_TODO, UNIT_TAKEN, UNIT_DONE };

/* One operator on one device. Lies in shared memory: what a process that dies had
 * reached can be read here, and another goes on behind it. */
typedef struct unit {
  uint32_t device, op; /* places in the agenda */
  bool is_slots;       /* no operator: a check of the backend's slots, `what` says of what */
  _Atomic int state;
  tally tally;
  uint64_t begun;  /* runs begun so far; the order of runs is always the same */
  uint64_t resume; /* runs up to here have been made by processes that died */
  uint32_t crashes;
  uint64_t died[CHECK_CRASHES]; /* the runs at which they did */
  uint32_t combos, native;      /* choices of types: all, and those with kernels */
  tn_dtype_set seen, natives;   /* the same of type variable T */
  uint64_t failed[TN_DTYPE_SLOTS];
  uint64_t expected; /* failures that a list names: see expect_match */
  uint32_t kept;
  check_failure failure[CHECK_KEPT]; /* the first; what no list names displaces what one does */
  _Atomic uint64_t run_began_ns;     /* 0 while nothing runs */
  double seconds;
  tn_dtype worst; /* of type variable T where tally.error came nearest to its bound */
  row_table rows;
  /* The run under way. */
  tn_dtype types[TN_MAX_TYPE_VARS];
  uint64_t number; /* of the case */
  char how[100], what[900];
  char note[1400]; /* why nothing was checked */
} unit;

/* ------------------------------------------------------------- agenda.c --- */

/* Fills *a; opens and closes a runtime. */
void agenda_make(const check_options *o, agenda *a);

/* Opens a runtime as the options say; `device`: what it uses by default, or NULL. */
tn_status session_open(const check_options *o, const char *device, bool deterministic,
                       tn_runtime **runtime);
/* The device's identifier is one that the runtime has, else NULL. */
tn_device *session_device(tn_runtime *runtime, const char *id);
const tn_operator *session_operator(tn_runtime *runtime, uint32_t id);

/* --------------------------------------------------------------- unit.c --- */

/* The runtimes of one process that checks. */
typedef struct workbench {
  const check_options *options;
  tn_runtime *runtime, *deterministic;
  tn_device *device, *repeating, *reference, *other;
  effects_watch *effects; /* of the process and this thread */
} workbench;

tn_status workbench_open(const check_options *o, const checked_device *d, workbench *w);
void workbench_close(workbench *w);

/* Whether --dtype lets these through. */
bool unit_takes_types(const check_options *o, const tn_dtype *types);
/* Checks one operator; returns when it is done. */
void unit_run(const workbench *w, const agenda *a, unit *u);
/* Records a failure at the run under way; counts it in u->failed, not in the tally. */
void unit_fail(const check_options *o, const agenda *a, unit *u, const char *text);
/* A place to keep another failure in, empty; NULL where as many are kept that no list names, or as
 * many at all where the new one is `expected`. */
check_failure *unit_keep(unit *u, bool expected);
/* Whether something failed that no list names. */
bool unit_fails(const unit *u);
/* The first such failure that was kept, or NULL. */
const check_failure *unit_failure(const unit *u);
/* Counts the cases that there would be of each choice of types that the options let through. */
typedef void unit_listed_fn(void *ctx, const tn_operator *op, const tn_dtype *types,
                            uint64_t cases);
void unit_list(const workbench *w, const agenda *a, uint32_t op, unit_listed_fn *listed, void *ctx);

/* Prints what an operator lacks before it can be checked; returns how much. complete.c */
uint64_t complete_operator(const workbench *w, const tn_operator *op);

/* Whether nothing ran of it and nothing failed: the device has no kernel of the operator. */
bool unit_is_idle(const unit *u);

uint64_t clock_ns(void);

/* Shape rules' own cases may be followed by these: more than 2^31 elements. */
void cases_large(const tn_operator *op, const tn_dtype *types, case_sink sink);

/* ------------------------------------------------------------ workers.c --- */

/* Runs all units of a device in forked processes, or in this one; `done` hears of each
 * in order. What fails beside operators, opening the device and closing it, becomes a failure of
 * `itself`, of which `done` hears last. */
void workers_run(const check_options *o, const agenda *a, uint32_t device, unit *units,
                 unit *itself, void (*done)(void *ctx, unit *u), void *ctx);
/* Runs fn(ctx) in a forked process, or in this one, for limit_s seconds at the most (0: any
 * time). "" when it ended well, else how it ended: "killed by signal 11 (Segmentation fault) in
 * plugin mine, count". Valid until the next call. */
const char *workers_apart(const check_options *o, void (*fn)(void *ctx), void *ctx,
                          uint32_t limit_s);
/* How a process ended, from what waitpid said; `stuck`: it was made to. */
void workers_obituary(const check_options *o, const last_words *w, int status, bool stuck,
                      char *text, size_t size);
/* Zeroed memory that forked processes share; ends the program when there is none. */
void *shared_memory(size_t bytes);

/* --------------------------------------------------------------- list.c --- */

/* Prints what would run, and runs nothing of it; what the command exits with. */
int list_run(const check_options *o, const agenda *a);

/* ------------------------------------------------------------- fuzz/fuzz.c --- */

bool fuzz_is_wanted(const check_options *o);
/* Runs random calls on a device until its share of the time is over, in place of the cases of
 * workers_run, and otherwise as that. */
void fuzz_run(const check_options *o, const agenda *a, uint32_t device, unit *units, unit *itself,
              void (*done)(void *ctx, unit *u), void *ctx);

/* ------------------------------------------------------------- expect.c --- */

typedef struct expectation {
  char op[128], dtype[32], reason[200], from[512];
  char unless[64]; /* of row:, features with any of which a device is to run the kernel */
  uint32_t line;
  uint64_t used;
  bool idle; /* some device had such a feature: that nothing used the entry is as it should be */
} expectation;

typedef struct expectations {
  expectation *list;
  size_t count;
} expectations;

/* Adds the lines of a file: "op-glob dtype-glob reason", or for kernels that no case runs
 * "row:name-glob dtype-glob [unless:feature,...] reason". False, with a message printed, when the
 * file cannot be read or a line is malformed. */
bool expect_read(expectations *e, const char *path);
void expect_free(expectations *e);
/* Whether a failure of the operator in the type is on the list. */
bool expect_names(const expectations *e, const char *op, tn_dtype dtype);
/* Marks what was expected among a unit's failures; returns how many were, as u->expected then says.
 */
uint64_t expect_match(expectations *e, const agenda *a, unit *u);
/* Whether the list says that no case runs a kernel of this name for the type. */
bool expect_row(expectations *e, const checked_device *d, const char *name, tn_dtype dtype);
/* Before a device's units are matched. */
void expect_device(expectations *e, const checked_device *d);
/* Whether nothing used the entry where something should have. */
bool expect_is_stale(const expectation *e);

/* ------------------------------------------------------------- report.c --- */

typedef struct totals {
  uint64_t operators, cases, runs, bad_calls, repeats, thresholds, failures, expected, stale;
  uint64_t combos, native, idle;    /* idle: operators that nothing ran of */
  uint64_t slots, slot_calls;       /* checks of backends' slots */
  uint64_t kernels, kernels_listed; /* that ran; that did not, as a list says */
  double seconds;
} totals;

/* unchecked.c: makes a failure of each kernel that no case ran and no list explains. */
void unchecked_rows(const check_options *o, const agenda *a, expectations *e, unit *u, totals *t);

void report_unit_text(const agenda *a, const unit *u, uint64_t expected);
void report_unit_json(const agenda *a, const unit *u, uint64_t expected);
/* `units` are the device's, count of them. */
void report_device_text(const check_options *o, const agenda *a, const checked_device *d,
                        const unit *units, size_t count, const totals *t);
/* What failed, once more, where that has scrolled away. */
void report_summary(const agenda *a, const unit *units, size_t count);
void report_totals(const check_options *o, const totals *t);
bool report_junit(const char *path, const agenda *a, const unit *units, size_t count,
                  const expectations *e, const totals *t);

/* "f32" or "f32,i64"; "-" for an operator without type variables. */
void types_text(const tn_dtype *types, char *text, size_t size);
void dtypes_text(tn_dtype_set set, char *text, size_t size);

#endif
