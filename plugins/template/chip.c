/* The simulated chip; see chip.h. */
#include "chip.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { CHIPS = 2, UNIT = 256 };
static const uint64_t MEMORY = (uint64_t)256 << 20;

/* No processor of today lets a process map this: x86-64 and AArch64 both want zeros in some
 * of the bits from 48 to 55. */
static const chip_address FIRST_ADDRESS = (chip_address)0x00a0 << 48;

/* A piece of memory in use, in order of address. */
typedef struct block {
  struct block *next;
  uint64_t offset, bytes;
} block;

typedef struct pinned {
  struct pinned *next;
  char *ptr;
  size_t bytes;
} pinned;

struct chip {
  chip_address base;
  char *memory; /* what the simulation keeps the chip's memory in; for programs alone */
  pthread_mutex_t lock;
  block *blocks;
  uint64_t used;
  pinned *pinned;
  atomic_bool lost;
};

const char *chip_result_text(chip_result result) {
  static const char *const text[] = {
      [CHIP_OK] = "all is well",
      [CHIP_NOT_READY] = "not done yet",
      [CHIP_NO_MEMORY] = "the chip has no memory left",
      [CHIP_NO_HOST_MEMORY] = "the host has no memory or threads left",
      [CHIP_FAULT] = "a program left the chip's memory",
      [CHIP_LOST] = "the chip is lost: a copy left its memory",
  };
  return text[result];
}

uint32_t chip_count(void) { return CHIPS; }
uint64_t chip_memory_bytes(void) { return MEMORY; }

chip_result chip_open(uint32_t index, chip **out) {
  chip *c = calloc(1, sizeof *c);
  if (!c) return CHIP_NO_HOST_MEMORY;
  c->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (c->memory == MAP_FAILED) {
    free(c);
    return CHIP_NO_HOST_MEMORY;
  }
  c->base = FIRST_ADDRESS + ((chip_address)index << 40);
  pthread_mutex_init(&c->lock, NULL);
  *out = c;
  return CHIP_OK;
}

void chip_close(chip *c) {
  for (block *b = c->blocks, *next; b; b = next) next = b->next, free(b);
  munmap(c->memory, MEMORY);
  pthread_mutex_destroy(&c->lock);
  free(c);
}

/* ------------------------------------------------------------------ memory --- */

/* The first gap that is large enough. */
static block **find_gap(chip *c, uint64_t bytes, uint64_t *offset) {
  block **at = &c->blocks;
  for (*offset = 0; *at && (*at)->offset - *offset < bytes; at = &(*at)->next)
    *offset = (*at)->offset + (*at)->bytes;
  return *at || MEMORY - *offset >= bytes ? at : NULL;
}

chip_result chip_alloc(chip *c, size_t bytes, chip_address *address) {
  if (atomic_load(&c->lost)) return CHIP_LOST;
  if (bytes > MEMORY) return CHIP_NO_MEMORY;
  block *b = malloc(sizeof *b);
  if (!b) return CHIP_NO_HOST_MEMORY;
  b->bytes = bytes ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT;
  pthread_mutex_lock(&c->lock);
  block **at = find_gap(c, b->bytes, &b->offset);
  if (at) {
    b->next = *at;
    *at = b;
    c->used += b->bytes;
    *address = c->base + b->offset;
  }
  pthread_mutex_unlock(&c->lock);
  if (!at) free(b);
  return at ? CHIP_OK : CHIP_NO_MEMORY;
}

void chip_free(chip *c, chip_address address) {
  block *found = NULL;
  pthread_mutex_lock(&c->lock);
  for (block **at = &c->blocks; *at && !found; at = found ? at : &(*at)->next)
    if (c->base + (*at)->offset == address) {
      found = *at;
      *at = found->next;
      c->used -= found->bytes;
    }
  pthread_mutex_unlock(&c->lock);
  free(found);
}

uint64_t chip_memory_free(chip *c) {
  pthread_mutex_lock(&c->lock);
  uint64_t bytes = MEMORY - c->used;
  pthread_mutex_unlock(&c->lock);
  return bytes;
}

void *chip_reach(chip *c, chip_address address, int64_t low, int64_t high) {
  uint64_t offset = address - c->base; /* wraps below the base, and is too large then */
  if (offset > MEMORY || low > (int64_t)offset || high > (int64_t)(MEMORY - offset)) return NULL;
  return c->memory + offset;
}

chip_result chip_host_alloc(chip *c, size_t bytes, void **ptr) {
  pinned *p = malloc(sizeof *p);
  void *memory = NULL;
  if (!p || posix_memalign(&memory, 64, bytes ? bytes : 1)) {
    free(p);
    return CHIP_NO_HOST_MEMORY;
  }
  pthread_mutex_lock(&c->lock);
  *p = (pinned){c->pinned, memory, bytes};
  c->pinned = p;
  pthread_mutex_unlock(&c->lock);
  *ptr = memory;
  return CHIP_OK;
}

void chip_host_free(chip *c, void *ptr) {
  pinned *found = NULL;
  pthread_mutex_lock(&c->lock);
  for (pinned **at = &c->pinned; *at && !found; at = found ? at : &(*at)->next)
    if ((*at)->ptr == ptr) {
      found = *at;
      *at = found->next;
    }
  pthread_mutex_unlock(&c->lock);
  free(found);
  if (found) free(ptr);
}

bool chip_host_owns(chip *c, const void *ptr) {
  bool owned = false;
  pthread_mutex_lock(&c->lock);
  for (const pinned *p = c->pinned; p && !owned; p = p->next)
    owned = (const char *)ptr >= p->ptr && (const char *)ptr < p->ptr + p->bytes;
  pthread_mutex_unlock(&c->lock);
  return owned;
}

/* ------------------------------------------------------------------- marks --- */

/* A point in a queue. Events, and queues that wait, share it: an event may be recorded anew,
 * or destroyed, while another queue still waits for where it was. */
typedef struct mark {
  atomic_int users;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool passed;
  chip_result result; /* of the work before it */
  uint64_t time_ns;
} mark;

static mark *mark_make(void) {
  mark *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  atomic_init(&m->users, 1);
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->changed, NULL);
  return m;
}

static mark *mark_share(mark *m) {
  if (m) atomic_fetch_add(&m->users, 1);
  return m;
}

static void mark_drop(mark *m) {
  if (!m || atomic_fetch_sub(&m->users, 1) > 1) return;
  pthread_cond_destroy(&m->changed);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

static void mark_pass(mark *m, chip_result result) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  pthread_mutex_lock(&m->lock);
  m->passed = true;
  m->result = result;
  m->time_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
}

static chip_result mark_result(mark *m, bool wait) {
  pthread_mutex_lock(&m->lock);
  while (wait && !m->passed) pthread_cond_wait(&m->changed, &m->lock);
  chip_result result = m->passed ? m->result : CHIP_NOT_READY;
  pthread_mutex_unlock(&m->lock);
  return result;
}

/* ------------------------------------------------------------------ queues --- */

typedef enum command_kind { PROGRAM, READ, WRITE, MOVE, RECORD, WAIT } command_kind;

typedef struct command {
  struct command *next;
  command_kind kind;
  chip_program program;
  void *host; /* of a read, or of a write that took nothing along */
  chip_address to, from;
  size_t bytes;
  mark *mark;                         /* to wait for, or to pass when the command is done */
  _Alignas(16) unsigned char along[]; /* parameters, or what a write took along */
} command;

struct chip_queue {
  chip *chip;
  atomic_uint holders;
  pthread_t engine;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  command *first, **last;
  uint64_t put, done; /* commands so far */
  chip_result poison; /* of the first program that failed */
  bool closing;
};

static command *command_make(command_kind kind, size_t along) {
  command *c = calloc(1, sizeof *c + along);
  if (c) c->kind = kind;
  return c;
}

static void command_free(command *c) {
  mark_drop(c->mark);
  free(c);
}

/* Takes the command over. Marks pass in every queue; other work wants a sound one. */
static chip_result put(chip_queue *q, command *c) {
  if (!c) return CHIP_NO_HOST_MEMORY;
  chip_result result = CHIP_OK;
  pthread_mutex_lock(&q->lock);
  if (c->kind != RECORD && c->kind != WAIT)
    result = atomic_load(&q->chip->lost) ? CHIP_LOST : q->poison;
  if (result == CHIP_OK) {
    *q->last = c;
    q->last = &c->next;
    q->put++;
    pthread_cond_broadcast(&q->changed);
  }
  pthread_mutex_unlock(&q->lock);
  if (result != CHIP_OK) command_free(c);
  return result;
}

static chip_result copy(chip *c, const command *x) {
  const void *from = x->kind == WRITE ? x->host ? x->host : x->along
                                      : chip_reach(c, x->from, 0, (int64_t)x->bytes);
  void *to = x->kind == READ ? x->host : chip_reach(c, x->to, 0, (int64_t)x->bytes);
  if (!from || !to) {
    atomic_store(&c->lost, true);
    return CHIP_LOST;
  }
  memmove(to, from, x->bytes);
  return CHIP_OK;
}

/* What became of the command; `before` is what became of the work before it. */
static chip_result execute(chip_queue *q, const command *c, chip_result before) {
  if (atomic_load(&q->chip->lost)) before = CHIP_LOST;
  if (before != CHIP_OK || c->kind == RECORD) return before;
  if (c->kind == WAIT) return mark_result(c->mark, true); /* what it waited for is its input */
  if (c->kind != PROGRAM) return copy(q->chip, c);
  return c->program(q->chip, c->along) ? CHIP_OK : CHIP_FAULT;
}

static command *next_command(chip_queue *q, chip_result *before) {
  pthread_mutex_lock(&q->lock);
  while (!q->first && !q->closing) pthread_cond_wait(&q->changed, &q->lock);
  command *c = q->first;
  if (c) q->first = c->next;
  if (!q->first) q->last = &q->first;
  *before = q->poison;
  pthread_mutex_unlock(&q->lock);
  return c;
}

/* The hardware's engine. */
static void *work(void *queue) {
  chip_queue *q = queue;
  chip_result before;
  for (command *c; (c = next_command(q, &before));) {
    chip_result result = execute(q, c, before);
    if (c->mark && c->kind != WAIT) mark_pass(c->mark, result);
    pthread_mutex_lock(&q->lock);
    if (before == CHIP_OK) q->poison = result;
    q->done++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    command_free(c);
  }
  return NULL;
}

/* The host's signals are for the host's threads. */
static int start_engine(chip_queue *q) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&q->engine, NULL, work, q);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

chip_result chip_queue_create(chip *c, chip_queue **out) {
  if (atomic_load(&c->lost)) return CHIP_LOST;
  chip_queue *q = calloc(1, sizeof *q);
  if (!q) return CHIP_NO_HOST_MEMORY;
  q->chip = c;
  atomic_init(&q->holders, 1);
  q->last = &q->first;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->changed, NULL);
  if (start_engine(q)) {
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
    return CHIP_NO_HOST_MEMORY;
  }
  *out = q;
  return CHIP_OK;
}

void chip_queue_share(chip_queue *q) { atomic_fetch_add(&q->holders, 1); }
chip *chip_queue_chip(const chip_queue *q) { return q->chip; }

void chip_queue_drop(chip_queue *q) {
  if (atomic_fetch_sub(&q->holders, 1) > 1) return;
  pthread_mutex_lock(&q->lock);
  q->closing = true; /* the engine ends when nothing is left */
  pthread_cond_broadcast(&q->changed);
  pthread_mutex_unlock(&q->lock);
  pthread_join(q->engine, NULL);
  pthread_cond_destroy(&q->changed);
  pthread_mutex_destroy(&q->lock);
  free(q);
}

chip_result chip_queue_wait(chip_queue *q) {
  pthread_mutex_lock(&q->lock);
  for (uint64_t until = q->put; q->done < until;) pthread_cond_wait(&q->changed, &q->lock);
  chip_result result = q->poison;
  q->poison = CHIP_OK;
  pthread_mutex_unlock(&q->lock);
  return atomic_load(&q->chip->lost) ? CHIP_LOST : result;
}

static chip_result put_and_wait(chip_queue *q, command *c) {
  mark *m = c ? mark_make() : NULL;
  if (!m) return free(c), CHIP_NO_HOST_MEMORY;
  c->mark = mark_share(m);
  chip_result result = put(q, c);
  if (result == CHIP_OK) result = mark_result(m, true);
  mark_drop(m);
  return result;
}

static command *make_copy(command_kind kind, const void *host, chip_address to, chip_address from,
                          size_t bytes) {
  command *c = command_make(kind, 0);
  if (c) c->host = (void *)(uintptr_t)host, c->to = to, c->from = from, c->bytes = bytes;
  return c;
}

chip_result chip_read(chip_queue *q, void *to, chip_address from, size_t bytes) {
  return put(q, make_copy(READ, to, 0, from, bytes));
}

chip_result chip_write(chip_queue *q, chip_address to, const void *from, size_t bytes) {
  return put(q, make_copy(WRITE, from, to, 0, bytes));
}

chip_result chip_move(chip_queue *q, chip_address to, chip_address from, size_t bytes) {
  return put(q, make_copy(MOVE, NULL, to, from, bytes));
}

chip_result chip_read_wait(chip_queue *q, void *to, chip_address from, size_t bytes) {
  return put_and_wait(q, make_copy(READ, to, 0, from, bytes));
}

chip_result chip_write_wait(chip_queue *q, chip_address to, const void *from, size_t bytes) {
  return put_and_wait(q, make_copy(WRITE, from, to, 0, bytes));
}

chip_result chip_write_along(chip_queue *q, chip_address to, const void *from, size_t bytes) {
  command *c = command_make(WRITE, bytes);
  if (c) c->to = to, c->bytes = bytes, memcpy(c->along, from, bytes);
  return put(q, c);
}

chip_result chip_launch(chip_queue *q, chip_program program, const void *params, size_t bytes) {
  command *c = command_make(PROGRAM, bytes);
  if (c) c->program = program, memcpy(c->along, params, bytes);
  return put(q, c);
}

/* ------------------------------------------------------------------ events --- */

struct chip_event {
  pthread_mutex_t lock;
  mark *latest; /* NULL: never recorded */
};

chip_result chip_event_create(chip *c, chip_event **out) {
  (void)c;
  chip_event *e = calloc(1, sizeof *e);
  if (!e) return CHIP_NO_HOST_MEMORY;
  pthread_mutex_init(&e->lock, NULL);
  *out = e;
  return CHIP_OK;
}

void chip_event_destroy(chip_event *e) {
  mark_drop(e->latest);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

/* The mark of the latest record, to be dropped. */
static mark *latest_mark(chip_event *e) {
  pthread_mutex_lock(&e->lock);
  mark *m = mark_share(e->latest);
  pthread_mutex_unlock(&e->lock);
  return m;
}

chip_result chip_event_record(chip_event *e, chip_queue *q) {
  mark *m = mark_make();
  command *c = m ? command_make(RECORD, 0) : NULL;
  if (!c) return mark_drop(m), CHIP_NO_HOST_MEMORY;
  c->mark = mark_share(m);
  chip_result result = put(q, c);
  pthread_mutex_lock(&e->lock);
  mark *before = e->latest;
  e->latest = m;
  pthread_mutex_unlock(&e->lock);
  mark_drop(before);
  return result;
}

static chip_result event_result(chip_event *e, bool wait) {
  mark *m = latest_mark(e);
  chip_result result = m ? mark_result(m, wait) : CHIP_OK;
  mark_drop(m);
  return result;
}

chip_result chip_event_query(chip_event *e) { return event_result(e, false); }
chip_result chip_event_wait(chip_event *e) { return event_result(e, true); }

chip_result chip_queue_wait_event(chip_queue *q, chip_event *e) {
  mark *m = latest_mark(e);
  if (!m) return CHIP_OK;
  command *c = command_make(WAIT, 0);
  if (!c) return mark_drop(m), CHIP_NO_HOST_MEMORY;
  c->mark = m;
  return put(q, c);
}

chip_result chip_event_elapsed(chip_event *begin, chip_event *end, uint64_t *ns) {
  mark *from = latest_mark(begin), *to = latest_mark(end);
  chip_result result = from && to ? mark_result(from, false) : CHIP_NOT_READY;
  if (result != CHIP_NOT_READY) result = mark_result(to, false);
  if (result != CHIP_NOT_READY) {
    *ns = to->time_ns > from->time_ns ? to->time_ns - from->time_ns : 0;
    result = CHIP_OK;
  }
  mark_drop(from);
  mark_drop(to);
  return result;
}
