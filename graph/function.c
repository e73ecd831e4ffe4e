/*
 * Functions: a building function and the programs that were made by it, found by types and shapes
 * of the inputs. Nothing is built under the function's mutex: what is being built stands on its
 * list, where threads that want the same wait for it, and all others go on.
 */
#include "graph/function.h"

#include <stdio.h>
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/shape/shape.h"
#include "dispatcher/tensor/tensor.h"

enum { MAX_PROGRAMS = 16, LISTS_MOST = 4096 };

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a function");
}

/* --- making and destroying --- */

static tn_status set_up(tn_function *f, const char *name, const tn_function_options *o) {
  f->max_programs = o->max_programs ? o->max_programs : MAX_PROGRAMS;
  for (f->num_lists = 16; f->num_lists < f->max_programs && f->num_lists < LISTS_MOST;)
    f->num_lists *= 2;
  f->lists = host_alloc(&f->memory, f->num_lists * sizeof *f->lists);
  f->name = host_strdup(&f->memory, name ? name : "function");
  if (!f->lists || !f->name) return no_memory();
  if (o->compile) {
    tn_status status =
        struct_check("tn_function_create", "options->compile", "tn_compile_options", o->compile);
    if (status) return status;
    size_t given = o->compile->struct_size;
    memcpy(&f->compile, o->compile, given < sizeof f->compile ? given : sizeof f->compile);
    if (given > sizeof f->compile) f->compile.struct_size = sizeof f->compile;
  }
  return function_declare(f, o);
}

/* What of the caller's options he has; the rest is 0. */
static tn_status read_options(const tn_function_options *given, tn_function_options *o) {
  if (!given) return TN_OK;
  tn_status status = struct_check("tn_function_create", "options", "tn_function_options", given);
  if (status) return status;
  memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
  return TN_OK;
}

static tn_status check_device(const tn_runtime *runtime, tn_device *device) {
  if (!device) return fail(TN_ERR_UNSUPPORTED, "tn_function_create: the runtime has no device");
  if (device->runtime != runtime || device->recorder)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_create: %s is no device of the runtime",
                device->id);
  return device_ready(device);
}

tn_status tn_function_create(tn_runtime *runtime, tn_device *device, const char *name,
                             tn_function_build build, void *context,
                             const tn_function_options *options, tn_function **function) {
  tn_function_options o = {0};
  if (!runtime || !build || !function)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_function_create: runtime, build and function must not be NULL");
  tn_status status = runtime_check(runtime);
  if (!status) status = read_options(options, &o);
  if (status) return status;
  if (!device) device = tn_runtime_device(runtime);
  status = check_device(runtime, device);
  if (status) return status;
  tn_function *f = host_alloc(&runtime->memory, sizeof *f);
  if (!f) return no_memory();
  f->memory = runtime->memory;
  f->runtime = runtime;
  f->device = device;
  f->build = build;
  f->context = context;
  pthread_mutex_init(&f->mutex, NULL);
  pthread_cond_init(&f->done, NULL);
  runtime_retain_weak(runtime);
  status = set_up(f, name, &o);
  if (status)
    tn_function_destroy(f);
  else
    *function = f;
  return status;
}

/* What nobody finds or uses any more. */
static void free_program(const tn_function *f, function_program *e) {
  tn_program_destroy(e->program);
  host_free(&f->memory, e);
}

static void free_chain(const tn_function *f, function_program *first) {
  for (function_program *e = first, *next; e; e = next) {
    next = e->next;
    free_program(f, e);
  }
}

void tn_function_destroy(tn_function *function) {
  tn_function *f = function;
  if (!f || runtime_is_forked(f->runtime)) return;
  tn_runtime *runtime = f->runtime;
  host_memory memory = f->memory;
  for (size_t i = 0; f->lists && i < f->num_lists; ++i) free_chain(f, f->lists[i]);
  function_undeclare(f);
  host_free(&memory, f->lists);
  host_free(&memory, f->name);
  pthread_cond_destroy(&f->done);
  pthread_mutex_destroy(&f->mutex);
  host_free(&memory, f);
  runtime_release_weak(runtime);
}

/* --- finding --- */

static int64_t type_of(const tn_tensor *t) { return (int64_t)t->dtype << 8 | t->dl.ndim; }

static uint64_t mix(uint64_t hash, int64_t word) {
  hash = (hash ^ (uint64_t)word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

static uint64_t hash_of(size_t num_in, const tn_tensor *const *in) {
  uint64_t hash = num_in;
  for (size_t i = 0; i < num_in; ++i) {
    hash = mix(hash, type_of(in[i]));
    for (int32_t k = 0; k < in[i]->dl.ndim; ++k) hash = mix(hash, in[i]->shape[k]);
  }
  return hash;
}

static bool is_for(const function_program *e, size_t num_in, const tn_tensor *const *in) {
  const int64_t *key = e->key;
  if (e->num_in != num_in) return false;
  for (size_t i = 0; i < num_in; ++i) {
    if (*key++ != type_of(in[i])) return false;
    for (int32_t k = 0; k < in[i]->dl.ndim; ++k)
      if (*key++ != in[i]->shape[k]) return false;
  }
  return true;
}

/* pre: the mutex is held. */
static function_program *find(const tn_function *f, uint64_t hash, size_t num_in,
                              const tn_tensor *const *in) {
  function_program *e = f->lists[hash & (f->num_lists - 1)];
  while (e && (e->hash != hash || !is_for(e, num_in, in))) e = e->next;
  return e;
}

/* pre: the mutex is held, and it is on its list. */
static void unlist(tn_function *f, const function_program *e) {
  function_program **at = &f->lists[e->hash & (f->num_lists - 1)];
  while (*at != e) at = &(*at)->next;
  *at = e->next;
}

/* The program that was run least lately, of those that nobody runs. */
static function_program *find_oldest(const tn_function *f) {
  function_program *oldest = NULL;
  for (size_t i = 0; i < f->num_lists; ++i)
    for (function_program *e = f->lists[i]; e; e = e->next)
      if (e->program && !e->users && (!oldest || e->last_used < oldest->last_used)) oldest = e;
  return oldest;
}

/* Takes those beyond the limit off their lists, for free_chain. pre: the mutex is held. */
static function_program *drop_oldest(tn_function *f) {
  function_program *dropped = NULL, *e;
  while (f->num_programs > f->max_programs && (e = find_oldest(f)) != NULL) {
    unlist(f, e);
    e->next = dropped;
    dropped = e;
    --f->num_programs;
    ++f->dropped;
  }
  return dropped;
}

/* --- building --- */

/* This thread is in a building function. */
static _Thread_local bool building;

static tn_status add_inputs(const tn_function *f, tn_graph *graph, size_t num_in,
                            const tn_tensor *const *in, tn_tensor **symbolic) {
  tn_status status = TN_OK;
  char room[32];
  for (size_t i = 0; !status && i < num_in; ++i)
    status = tn_graph_input(graph, function_input_name(f, i, room), (tn_dtype)in[i]->dtype,
                            in[i]->dl.ndim, in[i]->shape, &symbolic[i]);
  return status;
}

/* The host's function; what it leaves behind in this thread is as it was. */
static tn_status call_build(const tn_function *f, tn_graph *graph, size_t num_in,
                            tn_tensor *const *symbolic) {
  const char *site = error_call_site();
  fail_clear();
  building = true;
  tn_status status = f->build(f->context, graph, num_in, symbolic);
  building = false;
  tn_call_site(site);
  if ((unsigned)status > TN_ERR_CLOSED)
    return fail(TN_ERR_INVALID_ARGUMENT, "the building function returned %d, which is no tn_status",
                (int)status);
  if (status && !*tn_last_error()) fail(status, "the building function says so and gave no reason");
  return status;
}

static tn_status build(const tn_function *f, size_t num_in, const tn_tensor *const *in,
                       tn_program **program) {
  tn_graph *graph = NULL;
  tn_tensor **symbolic = host_alloc(&f->memory, (num_in + 1) * sizeof *symbolic);
  if (!symbolic) return no_memory();
  tn_status status = tn_graph_create(f->runtime, f->name, &graph);
  if (!status) status = add_inputs(f, graph, num_in, in, symbolic);
  if (!status) status = call_build(f, graph, num_in, symbolic);
  if (!status)
    status =
        tn_graph_compile(graph, f->device, f->compile.struct_size ? &f->compile : NULL, program);
  for (size_t i = 0; i < num_in; ++i) tn_tensor_release(symbolic[i]);
  tn_graph_destroy(graph);
  host_free(&f->memory, symbolic);
  return status;
}

/* "x f32 [2, 3], mask bool [2]" before the message. */
static void say_what_for(const tn_function *f, size_t num_in, const tn_tensor *const *in) {
  char text[512] = "", shape[128], room[32];
  size_t used = 0;
  for (size_t i = 0; i < num_in && used < sizeof text; ++i)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s %s", i ? ", " : "",
                             function_input_name(f, i, room), tn_dtype_name((tn_dtype)in[i]->dtype),
                             shape_text(shape, sizeof shape, in[i]->dl.ndim, in[i]->shape));
  fail_prefix("tn_function_run: function %s for (%s): ", f->name, text);
}

/* What stands on the list while it is built; NULL without memory. */
static function_program *make_entry(const tn_function *f, uint64_t hash, size_t num_in,
                                    const tn_tensor *const *in) {
  size_t words = num_in;
  for (size_t i = 0; i < num_in; ++i) words += (size_t)in[i]->dl.ndim;
  function_program *e = host_alloc(&f->memory, sizeof *e + words * sizeof *e->key);
  if (!e) return NULL;
  e->hash = hash;
  e->num_in = num_in;
  e->users = 1;
  int64_t *key = e->key;
  for (size_t i = 0; i < num_in; ++i) {
    *key++ = type_of(in[i]);
    for (int32_t k = 0; k < in[i]->dl.ndim; ++k) *key++ = in[i]->shape[k];
  }
  return e;
}

/* All programs of a function draw from one sequence. pre: the mutex is held. */
static void join_draws(tn_function *f, tn_program *p) {
  if (!p->num_random) return;
  if (!f->draws) f->first_draw = p->random_first;
  f->draws = true;
  program_share_draws(p, f->first_draw, &f->drawn);
}

/* The building of an entry has ended. One that failed nobody finds from here on. */
static void finish(tn_function *f, function_program *e, tn_program *program, tn_status status) {
  pthread_mutex_lock(&f->mutex);
  if (status) {
    ++f->failed;
    e->status = status;
    snprintf(e->message, sizeof e->message, "%s", tn_last_error());
    unlist(f, e);
  } else {
    ++f->built;
    ++f->num_programs;
    join_draws(f, program);
    e->program = program;
  }
  e->done = true;
  pthread_cond_broadcast(&f->done);
  function_program *dropped = drop_oldest(f);
  pthread_mutex_unlock(&f->mutex);
  free_chain(f, dropped);
}

/* Waits until another thread has built it. pre: the mutex is held, and this thread uses it. */
static tn_status wait_for(tn_function *f, const function_program *e) {
  while (!e->done) pthread_cond_wait(&f->done, &f->mutex);
  return e->program ? TN_OK : fail(e->status, "%s", e->message);
}

/* --- running --- */

static void give(tn_function *f, function_program *e) {
  pthread_mutex_lock(&f->mutex);
  bool is_last = --e->users == 0 && !e->program; /* of one that failed */
  function_program *dropped = f->num_programs > f->max_programs ? drop_oldest(f) : NULL;
  pthread_mutex_unlock(&f->mutex);
  free_chain(f, dropped);
  if (is_last) free_program(f, e);
}

/* Where no program was found: another thread builds it, or this one does. */
static __attribute__((noinline)) tn_status take_slowly(tn_function *f, uint64_t hash, size_t num_in,
                                                       const tn_tensor *const *in,
                                                       function_program **taken) {
  tn_program *program = NULL;
  tn_status status = function_check_inputs(f, num_in, in);
  if (status) return status;
  if (building)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_function_run: function %s has no program for these inputs yet, and a building "
                "function cannot wait for one: run it before",
                f->name);
  function_program *made = make_entry(f, hash, num_in, in), *e;
  if (!made) return no_memory();
  pthread_mutex_lock(&f->mutex);
  e = find(f, hash, num_in, in);
  if (e) {
    ++e->users;
    e->last_used = ++f->clock;
    status = wait_for(f, e);
    pthread_mutex_unlock(&f->mutex);
    host_free(&f->memory, made);
  } else {
    e = made;
    e->next = f->lists[hash & (f->num_lists - 1)];
    f->lists[hash & (f->num_lists - 1)] = e;
    e->last_used = ++f->clock;
    pthread_mutex_unlock(&f->mutex);
    status = build(f, num_in, in, &program);
    if (runtime_is_forked(f->runtime)) return runtime_check(f->runtime); /* while building */
    if (status) say_what_for(f, num_in, in);
    finish(f, e, program, status);
  }
  if (status)
    give(f, e);
  else
    *taken = e;
  return status;
}

static tn_status take(tn_function *f, size_t num_in, const tn_tensor *const *in,
                      function_program **taken) {
  uint64_t hash = hash_of(num_in, in);
  pthread_mutex_lock(&f->mutex);
  function_program *e = find(f, hash, num_in, in);
  if (e && e->program) {
    ++e->users;
    e->last_used = ++f->clock;
  } else {
    e = NULL;
  }
  pthread_mutex_unlock(&f->mutex);
  *taken = e;
  return e ? TN_OK : take_slowly(f, hash, num_in, in, taken);
}

/* Tensors of the function's device. */
static tn_status check_given(const tn_function *f, size_t num_in, const tn_tensor *const *in) {
  char text[256], room[32];
  if (f->inputs && num_in != f->num_inputs)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_function_run: function %s: %zu inputs given, it has %zu", f->name, num_in,
                f->num_inputs);
  if (num_in && !in) return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_run: in is NULL");
  for (size_t i = 0; i < num_in; ++i) {
    if (!in[i])
      return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_run: function %s, input \"%s\": it is NULL",
                  f->name, function_input_name(f, i, room));
    tn_status status = tensor_check(in[i], "tn_function_run");
    if (status) return status;
    if (in[i]->device != f->device)
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_function_run: function %s, input \"%s\" (%s): the function is for device %s; "
                  "use tn_tensor_to_device",
                  f->name, function_input_name(f, i, room), tensor_text(text, sizeof text, in[i]),
                  f->device->id);
  }
  return TN_OK;
}

tn_status tn_function_run(tn_function *function, tn_stream *stream, size_t num_in,
                          const tn_tensor *const *in, size_t num_out, tn_tensor **out) {
  function_program *e;
  if (!function) return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_run: function is NULL");
  tn_status status = device_check(function->device);
  if (!status) status = check_given(function, num_in, in);
  if (!status) status = take(function, num_in, in, &e);
  if (status) return status;
  status = tn_program_run(e->program, stream, num_in, in, num_out, out);
  give(function, e);
  return status;
}

tn_status tn_function_report(tn_function *function, tn_function_info *info) {
  if (!function) return fail(TN_ERR_INVALID_ARGUMENT, "tn_function_report: function is NULL");
  tn_status status = struct_check("tn_function_report", "info", "tn_function_info", info);
  if (!status) status = runtime_check(function->runtime);
  if (status) return status;
  tn_function *f = function;
  pthread_mutex_lock(&f->mutex);
  tn_function_info full = {.struct_size = info->struct_size,
                           .programs = f->num_programs,
                           .built = f->built,
                           .failed = f->failed,
                           .dropped = f->dropped,
                           .runs = f->clock};
  for (size_t i = 0; i < f->num_lists; ++i)
    for (const function_program *e = f->lists[i]; e; e = e->next)
      if (e->program) full.planned_bytes += e->program->plan.bytes;
  pthread_mutex_unlock(&f->mutex);
  struct_fill(info, &full, sizeof full);
  return TN_OK;
}
