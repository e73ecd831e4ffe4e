/* Runners: a plan at work in one thread; see plan.h. */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plan.h"

/* Made once and used again with other addresses: making them takes as long as a small primitive. */
struct handles {
  dnnl_stream_t stream;
  dnnl_memory_t user[SLOTS], own[SLOTS], scratch, zero[2];
  int32_t zeros[2];
};

static tn_status failed(const runner *r, dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return TN_OK;
  return r->host->fail(status == dnnl_out_of_memory ? TN_ERR_OUT_OF_MEMORY : TN_ERR_BACKEND,
                       "oneDNN: %s failed with status %d", what, (int)status);
}

/* The most scratch memory of any step. */
static size_t scratch_bytes(const plan *p) {
  size_t most = p->main.scratch;
  for (int i = 0; i < SLOTS; i++)
    if (p->slots[i].reorder.scratch > most) most = p->slots[i].reorder.scratch;
  return (most + 63) / 64 * 64;
}

/* --- handles --- */

static dnnl_status_t make_slot(handles *h, dnnl_engine_t engine, const slot *s, int i) {
  void *none = DNNL_MEMORY_NONE;
  dnnl_status_t status = dnnl_memory_create(&h->user[i], layout_of(&s->user), engine, none);
  if (status != dnnl_success || !s->reorder.primitive) return status;
  return dnnl_memory_create(&h->own[i], s->own, engine, none);
}

/* A row of `size` elements at `at`. */
static dnnl_status_t make_row(dnnl_memory_t *memory, dnnl_engine_t engine, int64_t size,
                              dnnl_data_type_t type, void *at) {
  layout row = {0};
  const int64_t stride[] = {1};
  dnnl_status_t status = layout_make(&row, 1, &size, type, stride);
  if (status == dnnl_success) status = dnnl_memory_create(memory, layout_of(&row), engine, at);
  layout_free(&row);
  return status;
}

static dnnl_status_t make_memories(handles *h, dnnl_engine_t engine, const plan *p) {
  const int64_t scratch = (int64_t)scratch_bytes(p);
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < SLOTS && status == dnnl_success; i++)
    if (p->slots[i].present) status = make_slot(h, engine, &p->slots[i], i);
  for (int i = 0; i < 2 && status == dnnl_success; i++)
    if (p->zero_points[i]) status = make_row(&h->zero[i], engine, 1, dnnl_s32, &h->zeros[i]);
  if (status == dnnl_success && scratch)
    status = make_row(&h->scratch, engine, scratch, dnnl_u8, DNNL_MEMORY_NONE);
  return status;
}

static void memory_free(dnnl_memory_t memory) {
  if (memory) (void)dnnl_memory_destroy(memory);
}

/* Accepts NULL. */
static void handles_free(const tn_host *host, handles *h) {
  if (!h) return;
  for (int i = 0; i < SLOTS; i++) memory_free(h->user[i]), memory_free(h->own[i]);
  for (int i = 0; i < 2; i++) memory_free(h->zero[i]);
  memory_free(h->scratch);
  if (h->stream) (void)dnnl_stream_destroy(h->stream);
  host->free(host, h);
}

void handles_free_spare(const tn_host *host, plan *p) {
  for (int i = 0; i < SPARE_HANDLES; i++)
    handles_free(host, atomic_load_explicit(&p->spare[i], memory_order_acquire));
}

static tn_status make_handles(runner *r, dnnl_engine_t engine) {
  handles *h = r->at = r->host->alloc(r->host, sizeof *h, _Alignof(handles));
  if (!h) return r->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory to use oneDNN");
  memset(h, 0, sizeof *h);
  tn_status status =
      failed(r, dnnl_stream_create(&h->stream, engine, dnnl_stream_default_flags), "a stream");
  return status == TN_OK ? failed(r, make_memories(h, engine, r->plan), "a memory object") : status;
}

/* NULL where all are in use. */
static handles *take_spare(plan *p) {
  for (int i = 0; i < SPARE_HANDLES; i++) {
    if (!atomic_load_explicit(&p->spare[i], memory_order_relaxed)) continue;
    handles *h = atomic_exchange_explicit(&p->spare[i], NULL, memory_order_acquire);
    if (h) return h;
  }
  return NULL;
}

static void give_back(const tn_host *host, plan *p, handles *h) {
  for (int i = 0; i < SPARE_HANDLES; i++) {
    handles *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&p->spare[i], &none, h, memory_order_release,
                                                memory_order_relaxed))
      return;
  }
  handles_free(host, h);
}

/* --- runners --- */

/* Memory objects want pointers that may be written through. */
static tn_status point(runner *r, dnnl_memory_t memory, const void *data) {
  return failed(r, dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data), "a data pointer");
}

/* Whether what is reordered of a slot has room of the runner's. */
static bool has_room(const runner *r, int i) {
  return r->plan->slots[i].reorder.primitive && !(r->lent >> i & 1);
}

/* Room for what is reordered, and scratch behind it. */
static tn_status take_room(runner *r) {
  const plan *p = r->plan;
  size_t bytes = scratch_bytes(p);
  tn_status status = TN_OK;
  for (int i = 0; i < SLOTS; i++) bytes += has_room(r, i) ? p->slots[i].bytes : 0;
  if (!bytes) return TN_OK;
  char *at = r->room = r->host->alloc(r->host, bytes, 64);
  if (!at)
    return r->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %zu bytes of oneDNN workspace",
                         bytes);
  for (int i = 0; i < SLOTS && status == TN_OK; i++) {
    if (!has_room(r, i)) continue;
    status = point(r, r->at->own[i], at);
    at += p->slots[i].bytes;
  }
  return status == TN_OK && r->at->scratch ? point(r, r->at->scratch, at) : status;
}

tn_status runner_open(runner *r, const tn_kernel_args *args, plan *p, unsigned lent) {
  *r = (runner){.host = args->host, .plan = p, .lent = lent, .threads_before = threads_hold()};
  r->at = take_spare(p);
  tn_status status = TN_OK;
  if (!r->at)
    status = make_handles(r, plans_engine(args->host->plugin_context(args->host, args->kernel)));
  if (status == TN_OK) status = take_room(r);
  if (status == TN_OK) return r->zeros = r->at->zeros, TN_OK;
  handles_free(r->host, r->at);
  r->at = NULL;
  runner_close(r);
  return status;
}

void runner_close(runner *r) {
  if (r->at) give_back(r->host, r->plan, r->at);
  r->host->free(r->host, r->room);
  threads_release(r->threads_before);
}

static tn_status reorder(runner *r, const slot *s, dnnl_memory_t from, dnnl_memory_t to) {
  const dnnl_exec_arg_t list[] = {
      {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, r->at->scratch}};
  return failed(
      r, dnnl_primitive_execute(s->reorder.primitive, r->at->stream, r->at->scratch ? 3 : 2, list),
      "a reorder");
}

tn_status runner_use(runner *r, int i, const void *data) {
  return point(r, r->at->own[i] ? r->at->own[i] : r->at->user[i], data);
}

tn_status runner_load(runner *r, int i, const void *data) {
  const slot *s = &r->plan->slots[i];
  tn_status status = point(r, r->at->user[i], data);
  if (status == TN_OK && s->reorder.primitive)
    status = reorder(r, s, r->at->user[i], r->at->own[i]);
  return status;
}

tn_status runner_convert(runner *r, int i, const void *data, void *to) {
  tn_status status = runner_use(r, i, to);
  return status == TN_OK ? runner_load(r, i, data) : status;
}

tn_status runner_store(runner *r, const void *from, void *data) {
  const slot *s = &r->plan->slots[SLOT_Y];
  tn_status status = point(r, r->at->user[SLOT_Y], data);
  if (status == TN_OK && from) status = point(r, r->at->own[SLOT_Y], from);
  return status == TN_OK ? reorder(r, s, r->at->own[SLOT_Y], r->at->user[SLOT_Y]) : status;
}

/* The kernel's set of signals, with those that the C library keeps for itself: to cancel threads,
 * and to change every thread's user. pthread_sigmask leaves them open. */
typedef uint64_t signal_set;

static void signals_set(const signal_set *now, signal_set *before) {
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, now, before, sizeof *now);
}

/* All wait but those that a fault raises in the thread itself: they end the program as ever. */
static void signals_hold(signal_set *before) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  signal_set all = ~(signal_set)0;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    all &= ~((signal_set)1 << (faults[i] - 1));
  signals_set(&all, before);
}

static dnnl_status_t execute(const step *s, dnnl_stream_t stream, int count,
                             const dnnl_exec_arg_t *list) {
  signal_set before;
  if (!s->leaves_stack) return dnnl_primitive_execute(s->primitive, stream, count, list);
  signals_hold(&before);
  const dnnl_status_t status = dnnl_primitive_execute(s->primitive, stream, count, list);
  signals_set(&before, NULL);
  return status;
}

tn_status runner_run(runner *r, void *data) {
  const plan *p = r->plan;
  dnnl_exec_arg_t list[SLOTS + 3];
  int count = 0;
  const bool direct = data && !p->slots[SLOT_Y].reorder.primitive;
  tn_status status = direct ? point(r, r->at->user[SLOT_Y], data) : TN_OK;
  if (status != TN_OK) return status;
  for (int i = 0; i < SLOTS; i++)
    if (p->slots[i].present)
      list[count++] =
          (dnnl_exec_arg_t){p->slots[i].arg, r->at->own[i] ? r->at->own[i] : r->at->user[i]};
  for (int i = 0; i < 2; i++)
    if (r->at->zero[i])
      list[count++] = (dnnl_exec_arg_t){
          DNNL_ARG_ATTR_ZERO_POINTS | (i ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC), r->at->zero[i]};
  if (r->at->scratch) list[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, r->at->scratch};
  status = failed(r, execute(&p->main, r->at->stream, count, list), "a primitive");
  if (status == TN_OK && data && !direct) status = runner_store(r, NULL, data);
  return status;
}
