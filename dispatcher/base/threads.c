/*
 * The thread pool behind parallel_for.
 *
 * A loop is cut into shares, of which every thread is given some that follow each other: they
 * stand in its slot, with the loop's number, and a share is claimed by compare-and-swap there.
 * A thread works off its own slot, which is a cache line that nobody else wants as long as all
 * are in time, and then those of others. So a worker that is not scheduled costs nothing: the
 * caller does its shares. A claim can only succeed while its loop runs, since a slot is all
 * claimed before the next loop's description is written: what a late worker has read of the
 * new description is thrown away with its failed claim.
 *
 * Where other programs keep the processors busy, caller and worker are often put on one. There each
 * lets go of it for the other in place of spinning; both tell where they are.
 *
 * Invariant: `busy` is held from before a loop's description is written until its last
 * share is done.
 */
#include "dispatcher/base/threads.h"

#include "dispatcher/base/clock.h"
#include "dispatcher/base/invariant.h"
#include "dispatcher/base/placement.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum {
  SHARE_BITS = 16,
  MOST_SHARES = (1 << SHARE_BITS) - 1,
  SHARES_PER_THREAD = 4,
  PATIENCE = 24, /* rounds of waiting for the next loop before a worker does another's shares */
  SPINS = 32,    /* between looks at the clock, which take as long as a short loop */
  SPIN_NS = 50000,
  SPIN_NS_FEW_PROCESSORS = 20000,
  WAIT_NS = 50000,          /* that the caller spins for shares which workers have begun */
  LATE_NS = 400000,         /* after which it takes them to be held up */
  PLACED_NS = 4000000,      /* between changes of where workers may run, */
  PLACED_NS_EACH = 1000000, /* and for each worker: the kernel is asked once for every one */
};

typedef void share_body(void *ctx, int64_t begin, int64_t end);

/* One thread's part of a loop, on a line of its own; processors fetch the next along, which is
 * seldom used. */
typedef struct slot {
  /* The loop's number, cut off, << 32 | next share << 16 | end. */
  _Alignas(64) _Atomic(uint64_t) claims;
  _Atomic(uint64_t) done; /* loop number << 16 | shares that the thread has done of it */
  _Atomic(int) on;        /* the processor that the worker took part on; -1 while it does not */
  _Alignas(64) thread_pool *pool;
  uint32_t index;
  pthread_t worker; /* none of the caller's */
} slot;

struct thread_pool {
  host_memory memory;
  slot *slots;          /* the caller's, then the workers' */
  uint32_t num_workers; /* started; written by the holder of `busy` */
  bool started;         /* by the holder of `busy` */
  pid_t process;        /* that the workers belong to */
  int64_t spin_ns, wait_ns;
  placement placement; /* of the workers; with the next two by the holder of `busy` */
  int kept_off;        /* the processor that they are kept off, the caller's; -1 of none */
  uint64_t placed_ns;  /* when that was last changed */
  void (*tell)(void *ctx, uint32_t started, uint32_t wanted, const char *why);
  void *tell_ctx;
  _Atomic(uint32_t) size; /* threads, caller included */
  _Alignas(64) _Atomic(bool) busy;
  /* The loop's description. */
  _Alignas(64) _Atomic(uint64_t) loop; /* its number; the last one's between loops */
  _Atomic(share_body *) body;
  _Atomic(void *) ctx;
  _Atomic(int64_t) n;
  _Atomic(uint32_t) shares;
  _Atomic(int) caller_on; /* the caller's processor */
  _Alignas(64) _Atomic(uint32_t) caller_sleeps;
  _Atomic(uint32_t) news; /* changes when the caller sleeps and a share is done; its futex */
  _Atomic(bool) stop;
  _Alignas(64) _Atomic(uint32_t) epoch; /* changes with every loop; a futex of the workers */
  _Atomic(uint32_t) sleepers;
};

/* ---------------------------------------------------------- sleep and spin --- */

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

/* Sleeps until woken, or for `most` where that is given, if *word still is `value`; may return
 * early. */
static void sleep_on(_Atomic(uint32_t) *word, uint32_t value, const struct timespec *most) {
#ifdef __linux__
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, most, NULL, 0);
#else
  (void)most;
  if (atomic_load(word) == value) nanosleep(&(struct timespec){0, 100000}, NULL);
#endif
}

static void wake(_Atomic(uint32_t) *word, uint32_t count) {
#ifdef __linux__
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count < INT_MAX ? (int)count : INT_MAX, NULL, NULL,
          0);
#else
  (void)word, (void)count;
#endif
}

/* ------------------------------------------------------------------ shares --- */

static uint32_t loop_of(uint64_t claims) { return (uint32_t)(claims >> 32); }
static uint32_t next_of(uint64_t claims) { return (uint32_t)(claims >> SHARE_BITS) & MOST_SHARES; }
static uint32_t end_of(uint64_t claims) { return (uint32_t)claims & MOST_SHARES; }
static uint32_t left_of(uint64_t claims) { return end_of(claims) - next_of(claims); }

/* Where a share begins. What does not divide is spread over all: a thread's shares, which follow
 * each other, are as much as the next one's. */
static int64_t begin_of(int64_t n, uint32_t shares, uint32_t share) {
  const int64_t i = share;
  return i * (n / shares) + i * (n % shares) / shares;
}

static void run_share(share_body *body, void *ctx, int64_t n, uint32_t shares, uint32_t share) {
  const int64_t begin = begin_of(n, shares, share), end = begin_of(n, shares, share + 1);
  INVARIANT(begin >= 0 && begin < end && end <= n && share < shares);
  body(ctx, begin, end);
}

/* Written by its thread alone: a thread leaves one loop before it takes part in the next. Whoever
 * ends a share writes that and then looks for a caller who sleeps; who lies down writes that and
 * then looks for shares that ended. Both exchange, not store: x86 has the same instruction for
 * either, but QEMU 7 lets the loads of an emulated aarch64 pass its storing releases. */
static void finish_share(thread_pool *pool, slot *own, uint64_t loop) {
  uint64_t done = atomic_load_explicit(&own->done, memory_order_relaxed);
  atomic_exchange(&own->done, (done >> SHARE_BITS == loop ? done : loop << SHARE_BITS) + 1);
  if (!atomic_load(&pool->caller_sleeps)) return;
  atomic_fetch_add(&pool->news, 1);
  wake(&pool->news, 1);
}

/* Claims and runs one share out of a slot; false when it has none left. */
static bool work_once(thread_pool *pool, slot *from, slot *own) {
  uint64_t claims = atomic_load_explicit(&from->claims, memory_order_acquire);
  while (left_of(claims)) {
    uint64_t loop = atomic_load_explicit(&pool->loop, memory_order_acquire);
    share_body *body = atomic_load_explicit(&pool->body, memory_order_acquire);
    void *ctx = atomic_load_explicit(&pool->ctx, memory_order_acquire);
    int64_t n = atomic_load_explicit(&pool->n, memory_order_acquire);
    uint32_t shares = atomic_load_explicit(&pool->shares, memory_order_acquire);
    if (!atomic_compare_exchange_weak_explicit(&from->claims, &claims, claims + (1u << SHARE_BITS),
                                               memory_order_acq_rel, memory_order_acquire))
      continue;
    run_share(body, ctx, n, shares, next_of(claims));
    finish_share(pool, own, loop);
    return true;
  }
  return false;
}

/* Works off the slots of others, the neighbour's first. */
static void help(thread_pool *pool, uint32_t index) {
  uint32_t size = thread_pool_size(pool);
  for (uint32_t i = 1; i < size; i++)
    while (work_once(pool, &pool->slots[(index + i) % size], &pool->slots[index])) continue;
}

/* ----------------------------------------------------------------- workers --- */

static bool has_news(const thread_pool *pool, const slot *own, uint32_t seen) {
  return loop_of(atomic_load(&own->claims)) != seen || atomic_load(&pool->stop);
}

/* Wakes more workers: each woken one wakes two, so that the caller need not wake all. */
static void wake_workers(thread_pool *pool, uint32_t wanted) {
  if (wanted && atomic_load(&pool->sleepers)) wake(&pool->epoch, wanted < 2 ? wanted : 2);
}

static uint32_t shares_left(const thread_pool *pool) {
  uint32_t left = 0, size = thread_pool_size(pool);
  for (uint32_t i = 0; i < size; i++)
    left += left_of(atomic_load_explicit(&pool->slots[i].claims, memory_order_relaxed));
  return left;
}

/* On one processor with the caller, as happens where others keep the rest busy. */
static bool is_in_callers_way(const thread_pool *pool) {
  const int here = processor_here();
  return here >= 0 && here == atomic_load_explicit(&pool->caller_on, memory_order_relaxed);
}

/* For a while. In the caller's way it lets him go first, and stays ready to run, so that any
 * processor which becomes idle takes it: it would be woken here again if it slept at once. */
static void spin_for_news(const thread_pool *pool, const slot *own, uint32_t seen) {
  const int64_t begin = (int64_t)clock_ns();
  while (!has_news(pool, own, seen) && (int64_t)clock_ns() - begin < pool->spin_ns) {
    if (is_in_callers_way(pool)) sched_yield();
    for (int i = 0; i < SPINS && !has_news(pool, own, seen); i++) relax();
  }
}

static void sleep_for_news(thread_pool *pool, const slot *own, uint32_t seen) {
  atomic_fetch_add(&pool->sleepers, 1);
  /* The caller changes slots and then the epoch before it looks at sleepers, so either this
   * sees the loop or the caller sees the sleeper. */
  for (;;) {
    uint32_t epoch = atomic_load(&pool->epoch);
    if (has_news(pool, own, seen)) break;
    sleep_on(&pool->epoch, epoch, NULL);
  }
  atomic_fetch_sub(&pool->sleepers, 1);
  wake_workers(pool, shares_left(pool));
}

static void *worker_main(void *arg) {
  slot *own = arg;
  thread_pool *pool = own->pool;
  fesetenv(FE_DFL_ENV); /* a new thread inherits its maker's */
  uint32_t seen = 0;
  while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
    spin_for_news(pool, own, seen);
    if (!has_news(pool, own, seen)) sleep_for_news(pool, own, seen);
    seen = loop_of(atomic_load_explicit(&own->claims, memory_order_acquire));
    atomic_store_explicit(&own->on, processor_here(), memory_order_relaxed);
    while (work_once(pool, own, own)) continue;
    for (int i = 0; i < PATIENCE && !has_news(pool, own, seen); i++) relax();
    if (!has_news(pool, own, seen)) help(pool, own->index);
    atomic_store_explicit(&own->on, -1, memory_order_relaxed);
  }
  return NULL;
}

static void name_worker(pthread_t thread, uint32_t index) {
#ifdef __linux__
  char name[16];
  snprintf(name, sizeof name, "tenon-%u", (unsigned)(index % 1000000));
  pthread_setname_np(thread, name);
#else
  (void)thread, (void)index;
#endif
}

/* Workers inherit the mask: the program's signals go to its own threads. A worker's own
 * faults stay open to the program's handlers. */
static void block_signals(sigset_t *before) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  sigset_t blocked;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, before);
}

static void start_workers(thread_pool *pool) {
  uint32_t wanted = thread_pool_size(pool) - 1;
  int error = 0;
  sigset_t before;
  block_signals(&before);
  pool->process = getpid();
  placement_init(&pool->placement);
  while (pool->num_workers < wanted) {
    slot *own = &pool->slots[pool->num_workers + 1];
    own->pool = pool;
    own->index = pool->num_workers + 1;
    atomic_init(&own->on, -1);
    error = pthread_create(&own->worker, NULL, worker_main, own);
    if (error) break;
    name_worker(own->worker, own->index);
    pool->num_workers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pool->started = true;
  atomic_store_explicit(&pool->size, pool->num_workers + 1, memory_order_relaxed);
  if (error && pool->tell) pool->tell(pool->tell_ctx, pool->num_workers, wanted, strerror(error));
}

/* ------------------------------------------------------------------- loops --- */

static uint32_t count_shares(const thread_pool *pool, int64_t n, int64_t grain) {
  int64_t shares = grain > 1 ? n / grain : n;
  int64_t most = (int64_t)thread_pool_size(pool) * SHARES_PER_THREAD;
  if (shares > most) shares = most;
  return (uint32_t)(shares < MOST_SHARES ? shares : MOST_SHARES);
}

static bool all_done(const thread_pool *pool) {
  uint64_t loop = atomic_load_explicit(&pool->loop, memory_order_relaxed);
  uint32_t done = 0, size = thread_pool_size(pool);
  for (uint32_t i = 0; i < size; i++) {
    uint64_t word = atomic_load(&pool->slots[i].done);
    if (word >> SHARE_BITS == loop) done += (uint32_t)(word & MOST_SHARES);
  }
  return done == atomic_load_explicit(&pool->shares, memory_order_relaxed);
}

/* All shares of the last loop are done, and nobody sleeps for them. pre: `busy` is held. */
static bool loop_is_over(const thread_pool *pool) {
  return atomic_load(&pool->busy) && all_done(pool) && !shares_left(pool) &&
         !atomic_load(&pool->caller_sleeps) && !atomic_load(&pool->stop) &&
         thread_pool_size(pool) == pool->num_workers + 1;
}

static void keep_workers_off(thread_pool *pool, int processor) {
  for (uint32_t i = 1; i <= pool->num_workers; i++)
    placement_move(&pool->placement, pool->slots[i].worker, pool->kept_off, processor);
  pool->kept_off = processor;
}

/* Not where there are fewer processors than threads; nor each time where callers on several
 * processors take turns. */
static void make_way(thread_pool *pool, int here) {
  if (here == pool->kept_off || pool->spin_ns == 0) return;
  const uint64_t apart = (uint64_t)pool->num_workers * PLACED_NS_EACH, now = clock_ns();
  if (now < pool->placed_ns + (apart < PLACED_NS ? PLACED_NS : apart)) return;
  pool->placed_ns = now;
  keep_workers_off(pool, here);
}

/* To a worker that is late, which another program may keep from running where it is. */
static void give_way(thread_pool *pool) {
  pool->placed_ns = clock_ns();
  keep_workers_off(pool, -1);
}

/* Threads without a share are not disturbed, but where some sleep it is not known which: any that
 * is woken then helps. */
static void publish(thread_pool *pool, int64_t n, uint32_t shares, share_body *body, void *ctx) {
  INVARIANT(loop_is_over(pool));
  uint32_t size = thread_pool_size(pool);
  uint32_t told = atomic_load(&pool->sleepers) || shares > size ? size : shares;
  uint32_t each = shares / size, more = shares % size, next = 0;
  uint64_t loop = atomic_load_explicit(&pool->loop, memory_order_relaxed) + 1;
  const int here = processor_here();
  make_way(pool, here);
  atomic_store_explicit(&pool->caller_on, here, memory_order_relaxed);
  atomic_store_explicit(&pool->loop, loop, memory_order_release);
  atomic_store_explicit(&pool->body, body, memory_order_release);
  atomic_store_explicit(&pool->ctx, ctx, memory_order_release);
  atomic_store_explicit(&pool->n, n, memory_order_release);
  atomic_store_explicit(&pool->shares, shares, memory_order_release);
  for (uint32_t i = 0; i < told; i++) {
    uint32_t end = next + each + (i < more);
    uint64_t claims = loop << 32 | next << SHARE_BITS | end;
    atomic_store_explicit(&pool->slots[i].claims, claims, memory_order_release);
    next = end;
  }
  atomic_fetch_add(&pool->epoch, 1);
  wake_workers(pool, shares - 1);
}

/* Some worker took part on this processor, and may wait for it now. */
static bool is_in_workers_way(const thread_pool *pool) {
  const int here = processor_here();
  uint32_t size = thread_pool_size(pool);
  for (uint32_t i = 1; here >= 0 && i < size; i++)
    if (atomic_load_explicit(&pool->slots[i].on, memory_order_relaxed) == here) return true;
  return false;
}

/* Waits for shares that workers have claimed. */
static void wait_for_workers(thread_pool *pool) {
  if (all_done(pool)) return;
  const int64_t begin = (int64_t)clock_ns();
  while (!is_in_workers_way(pool) && !all_done(pool) && (int64_t)clock_ns() - begin < pool->wait_ns)
    for (int i = 0; i < SPINS && !all_done(pool); i++) relax();
  if (all_done(pool)) return;
  atomic_exchange(&pool->caller_sleeps, 1);
  for (;;) {
    uint32_t news = atomic_load(&pool->news);
    if (all_done(pool)) break;
    sleep_on(&pool->news, news, pool->kept_off < 0 ? NULL : &(struct timespec){0, LATE_NS});
    if (pool->kept_off >= 0 && (int64_t)clock_ns() - begin > LATE_NS) give_way(pool);
  }
  atomic_store_explicit(&pool->caller_sleeps, 0, memory_order_relaxed);
}

static bool become_busy(thread_pool *pool) {
  return !atomic_load_explicit(&pool->busy, memory_order_relaxed) &&
         !atomic_exchange_explicit(&pool->busy, true, memory_order_acquire);
}

void thread_pool_run(thread_pool *pool, int64_t n, int64_t grain,
                     void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx) {
  if (n <= 0) return;
  uint32_t shares = count_shares(pool, n, grain);
  if (shares < 2 || thread_pool_size(pool) < 2 || !become_busy(pool)) {
    body(ctx, 0, n);
    return;
  }
  if (!pool->started) start_workers(pool);
  publish(pool, n, shares, body, ctx);
  while (work_once(pool, pool->slots, pool->slots)) continue;
  help(pool, 0);
  wait_for_workers(pool);
  INVARIANT(loop_is_over(pool));
  atomic_store_explicit(&pool->busy, false, memory_order_release);
}

/* --------------------------------------------------------- create, destroy --- */

static void free_pool(thread_pool *pool) {
  host_memory memory = pool->memory;
  host_free(&memory, pool->slots);
  host_free(&memory, pool);
}

tn_status thread_pool_create(const host_memory *memory, uint32_t num_threads, thread_pool **out) {
  thread_pool *pool = host_alloc(memory, sizeof *pool);
  if (!pool) return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a thread pool");
  pool->memory = *memory;
  pool->slots = host_alloc(memory, num_threads * sizeof *pool->slots);
  if (!pool->slots) {
    free_pool(pool);
    return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a pool of %u threads", num_threads);
  }
  uint32_t processors = threads_available();
  pool->spin_ns = processors >= num_threads && processors > 2 ? SPIN_NS : SPIN_NS_FEW_PROCESSORS;
  if (processors < num_threads) pool->spin_ns = 0;
  pool->wait_ns = pool->spin_ns ? WAIT_NS : 0;
  pool->kept_off = -1;
  atomic_init(&pool->size, num_threads);
  *out = pool;
  return TN_OK;
}

void thread_pool_on_shortage(thread_pool *pool,
                             void (*tell)(void *ctx, uint32_t started, uint32_t wanted,
                                          const char *why),
                             void *ctx) {
  pool->tell = tell;
  pool->tell_ctx = ctx;
}

void thread_pool_stop(thread_pool *pool) {
  if (!pool) return;
  atomic_store_explicit(&pool->size, 1, memory_order_relaxed);
  atomic_store(&pool->stop, true);
  atomic_fetch_add(&pool->epoch, 1);
  wake(&pool->epoch, UINT32_MAX);
  bool forked = pool->started && pool->process != getpid(); /* a child has no workers to join */
  for (uint32_t i = 0; i < pool->num_workers && !forked; i++)
    pthread_join(pool->slots[i + 1].worker, NULL);
  pool->num_workers = 0;
}

void thread_pool_destroy(thread_pool *pool) {
  if (!pool) return;
  thread_pool_stop(pool);
  free_pool(pool);
}

uint32_t thread_pool_size(const thread_pool *pool) {
  return atomic_load_explicit(&pool->size, memory_order_relaxed);
}
