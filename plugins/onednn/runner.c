/* Runners: a plan at work in one thread; see plan.h. */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plan.h"

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

/* Whether what is reordered of a slot has room of the runner's. */
static bool has_room(const runner *r, int i) {
  return r->plan->slots[i].reorder.primitive && !(r->lent >> i & 1);
}

/* Room for what is reordered, and scratch behind it. */
static tn_status take_room(runner *r) {
  const plan *p = r->plan;
  size_t bytes = scratch_bytes(p);
  for (int i = 0; i < SLOTS; i++) bytes += has_room(r, i) ? p->slots[i].bytes : 0;
  r->room = bytes ? r->host->alloc(r->host, bytes, 64) : NULL;
  if (bytes && !r->room)
    return r->host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for %zu bytes of oneDNN workspace",
                         bytes);
  return TN_OK;
}

static dnnl_status_t make_slot(runner *r, dnnl_engine_t engine, int i, char **at) {
  const slot *s = &r->plan->slots[i];
  void *none = DNNL_MEMORY_NONE;
  dnnl_status_t status = dnnl_memory_create(&r->user[i], layout_of(&s->user), engine, none);
  if (status != dnnl_success || !s->reorder.primitive) return status;
  if (!has_room(r, i)) return dnnl_memory_create(&r->own[i], s->own, engine, none);
  status = dnnl_memory_create(&r->own[i], s->own, engine, *at);
  *at += s->bytes;
  return status;
}

static dnnl_status_t make_zero(runner *r, dnnl_engine_t engine, int i) {
  layout one = {0};
  const int64_t size[] = {1};
  const int64_t stride[] = {1};
  dnnl_status_t status = layout_make(&one, 1, size, dnnl_s32, stride);
  if (status == dnnl_success)
    status = dnnl_memory_create(&r->zero[i], layout_of(&one), engine, &r->zeros[i]);
  layout_free(&one);
  return status;
}

static dnnl_status_t make_memories(runner *r, dnnl_engine_t engine) {
  const plan *p = r->plan;
  char *at = r->room;
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < SLOTS && status == dnnl_success; i++)
    if (p->slots[i].present) status = make_slot(r, engine, i, &at);
  for (int i = 0; i < 2 && status == dnnl_success; i++)
    if (p->zero_points[i]) status = make_zero(r, engine, i);
  if (status != dnnl_success || !scratch_bytes(p)) return status;
  layout bytes = {0};
  const int64_t size[] = {(int64_t)scratch_bytes(p)};
  const int64_t stride[] = {1};
  status = layout_make(&bytes, 1, size, dnnl_u8, stride);
  if (status == dnnl_success)
    status = dnnl_memory_create(&r->scratch, layout_of(&bytes), engine, at);
  layout_free(&bytes);
  return status;
}

tn_status runner_open(runner *r, const tn_kernel_args *args, const plan *p, unsigned lent) {
  *r = (runner){.host = args->host, .plan = p, .lent = lent, .threads_before = threads_hold()};
  const dnnl_engine_t engine = plans_engine(args->host->plugin_context(args->host, args->kernel));
  tn_status status = take_room(r);
  if (status == TN_OK)
    status =
        failed(r, dnnl_stream_create(&r->stream, engine, dnnl_stream_default_flags), "a stream");
  if (status == TN_OK) status = failed(r, make_memories(r, engine), "a memory object");
  if (status != TN_OK) runner_close(r);
  return status;
}

static void memory_free(dnnl_memory_t memory) {
  if (memory) (void)dnnl_memory_destroy(memory);
}

void runner_close(runner *r) {
  for (int i = 0; i < SLOTS; i++) memory_free(r->user[i]), memory_free(r->own[i]);
  for (int i = 0; i < 2; i++) memory_free(r->zero[i]);
  memory_free(r->scratch);
  if (r->stream) (void)dnnl_stream_destroy(r->stream);
  r->host->free(r->host, r->room);
  threads_release(r->threads_before);
}

/* Memory objects want pointers that may be written through. */
static tn_status point(runner *r, dnnl_memory_t memory, const void *data) {
  return failed(r, dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data), "a data pointer");
}

static tn_status reorder(runner *r, const slot *s, dnnl_memory_t from, dnnl_memory_t to) {
  const dnnl_exec_arg_t list[] = {
      {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, r->scratch}};
  return failed(r,
                dnnl_primitive_execute(s->reorder.primitive, r->stream, r->scratch ? 3 : 2, list),
                "a reorder");
}

tn_status runner_use(runner *r, int i, const void *data) {
  return point(r, r->own[i] ? r->own[i] : r->user[i], data);
}

tn_status runner_load(runner *r, int i, const void *data) {
  const slot *s = &r->plan->slots[i];
  tn_status status = point(r, r->user[i], data);
  if (status == TN_OK && s->reorder.primitive) status = reorder(r, s, r->user[i], r->own[i]);
  return status;
}

tn_status runner_convert(runner *r, int i, const void *data, void *to) {
  tn_status status = runner_use(r, i, to);
  return status == TN_OK ? runner_load(r, i, data) : status;
}

tn_status runner_store(runner *r, const void *from, void *data) {
  const slot *s = &r->plan->slots[SLOT_Y];
  tn_status status = point(r, r->user[SLOT_Y], data);
  if (status == TN_OK && from) status = point(r, r->own[SLOT_Y], from);
  return status == TN_OK ? reorder(r, s, r->own[SLOT_Y], r->user[SLOT_Y]) : status;
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
  tn_status status = direct ? point(r, r->user[SLOT_Y], data) : TN_OK;
  if (status != TN_OK) return status;
  for (int i = 0; i < SLOTS; i++)
    if (p->slots[i].present)
      list[count++] = (dnnl_exec_arg_t){p->slots[i].arg, r->own[i] ? r->own[i] : r->user[i]};
  for (int i = 0; i < 2; i++)
    if (r->zero[i])
      list[count++] = (dnnl_exec_arg_t){
          DNNL_ARG_ATTR_ZERO_POINTS | (i ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC), r->zero[i]};
  if (r->scratch) list[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, r->scratch};
  status = failed(r, execute(&p->main, r->stream, count, list), "a primitive");
  if (status == TN_OK && data && !direct) status = runner_store(r, NULL, data);
  return status;
}
