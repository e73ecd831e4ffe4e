/*
 * The lanes: threads of a product's own, started for its copies and gone after them, so that none
 * lives beside the program's (a fork finds none). Each takes the next piece, packs it while the
 * device still takes the one before, and goes on. Small matrices are copied by the caller alone.
 */
#include "copy.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ------------------------------------------------------------------ the lanes --- */

static tn_status make_lane(lane *l, tn_device *handle) {
  tn_status status = l->stream ? TN_OK : tn_stream_create(handle, &l->stream);
  for (int i = 0; !status && i < 2; ++i) {
    if (!l->done[i]) status = tn_event_create(handle, &l->done[i]);
    if (!status && !l->chunk[i]) status = tn_pinned_alloc(handle, CHUNK_BYTES, &l->chunk[i]);
  }
  return status;
}

tn_status crew_make(crew *c, tn_device *handle) {
  if (c->num_lanes) return TN_OK;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  int wanted = processors < 2 ? 1 : processors / 2 > MAX_LANES ? MAX_LANES : (int)processors / 2;
  for (int i = 0; i < wanted; ++i) {
    tn_status status = make_lane(&c->lanes[i], handle);
    if (status) return status;
  }
  c->num_lanes = wanted;
  return TN_OK;
}

/* ------------------------------------------------------------------ the pieces --- */

/* How a tensor of [rows, columns] is cut: whole rows as many as a chunk holds, or parts of one. */
typedef struct cut {
  int64_t rows, columns, rows_each, columns_each, across, count;
} cut;

static cut cut_tensor(int64_t rows, int64_t columns, size_t part_bytes) {
  int64_t fits = (int64_t)(CHUNK_BYTES / part_bytes); /* even, so that complex numbers stay whole */
  cut c = {rows, columns, .rows_each = 1, .columns_each = columns < fits ? columns : fits};
  if (columns < fits) c.rows_each = fits / columns;
  c.across = (columns + c.columns_each - 1) / c.columns_each;
  c.count = c.across * ((rows + c.rows_each - 1) / c.rows_each);
  return c;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static piece piece_at(const cut *c, int64_t i) {
  piece p = {.row = i / c->across * c->rows_each, .column = i % c->across * c->columns_each};
  p.rows = at_most(c->rows_each, c->rows - p.row);
  p.columns = at_most(c->columns_each, c->columns - p.column);
  return p;
}

static tn_status view_piece(const tn_tensor *tensor, piece p, tn_tensor **view) {
  tn_tensor *rows;
  tn_status status = tn_tensor_slice(tensor, 0, p.row, p.row + p.rows, 1, &rows);
  if (status) return status;
  status = tn_tensor_slice(rows, 1, p.column, p.column + p.columns, 1, view);
  tn_tensor_release(rows);
  return status;
}

/* ------------------------------------------------------------------ the threads --- */

typedef struct job {
  crew *crew;
  void *(*work)(void *worker);
  int count; /* tensors */
  const operand *operands;
  tn_tensor *const *tensors;
  const tn_tensor *y;
  const product *product;
  char *whole; /* where the product is gathered first, or NULL */
  cut cuts[2];
  int64_t pieces;
  _Atomic int64_t next;
  _Atomic tn_status status; /* the first failure */
} job;

typedef struct worker {
  job *job;
  lane *lane;
} worker;

/* Whether the job is lost, `status` being what became of this thread's part. Messages are kept by
 * thread, so the first failure's is taken along. */
static bool failed(job *j, tn_status status) {
  tn_status none = TN_OK;
  if (status && atomic_compare_exchange_strong(&j->status, &none, status))
    snprintf(j->crew->why, sizeof j->crew->why, "%s", tn_last_error());
  return atomic_load_explicit(&j->status, memory_order_relaxed) != TN_OK;
}

/* Signals are the program's threads' business. */
static bool start_thread(pthread_t *thread, void *(*work)(void *), worker *w) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(thread, NULL, work, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* Runs the job on as many lanes as it has pieces for, the caller's among them. */
static tn_status run_job(job *j) {
  pthread_t threads[MAX_LANES];
  worker workers[MAX_LANES];
  int wanted = (int)at_most(j->pieces / 2 + 1, j->crew->num_lanes), started = 1;
  for (int i = 0; i < wanted; ++i) workers[i] = (worker){j, &j->crew->lanes[i]};
  while (started < wanted && start_thread(&threads[started], j->work, &workers[started])) ++started;
  j->work(&workers[0]);
  for (int i = 1; i < started; ++i) pthread_join(threads[i], NULL);
  return atomic_load(&j->status);
}

/* ------------------------------------------------------------------ to the device --- */

static tn_status upload_piece(const job *j, lane *l, int slot, int64_t index) {
  int which = index < j->cuts[0].count ? 0 : 1;
  const operand *o = &j->operands[which];
  piece p = piece_at(&j->cuts[which], which ? index - j->cuts[0].count : index);
  tn_status status = tn_event_synchronize(l->done[slot]);
  if (status) return status;
  operand_pack(o, p, l->chunk[slot]);
  tn_tensor *view;
  status = view_piece(j->tensors[which], p, &view);
  if (status) return status;
  status = tn_tensor_write(l->stream, view, l->chunk[slot], tn_tensor_bytes(view));
  tn_tensor_release(view);
  return status ? status : tn_event_record(l->done[slot], l->stream);
}

static void *upload_worker(void *context) {
  worker *w = context;
  job *j = w->job;
  int slot = 0;
  for (int64_t i; !failed(j, TN_OK) && (i = atomic_fetch_add(&j->next, 1)) < j->pieces; slot ^= 1)
    failed(j, upload_piece(j, w->lane, slot, i));
  failed(j, tn_stream_synchronize(w->lane->stream));
  return NULL;
}

tn_status crew_upload(crew *c, int count, const operand *operands, tn_tensor *const *tensors) {
  job j = {
      .crew = c, .work = upload_worker, .count = count, .operands = operands, .tensors = tensors};
  for (int i = 0; i < count; ++i) {
    size_t bytes = operands[i].dtype == TN_F64 ? sizeof(double) : sizeof(float);
    j.cuts[i] = cut_tensor(operands[i].rows, operands[i].columns, bytes);
    j.pieces += j.cuts[i].count;
  }
  return run_job(&j);
}

/* ------------------------------------------------------------------ and back --- */

static tn_status begin_read(const job *j, lane *l, int slot, piece p) {
  tn_tensor *view;
  tn_status status = view_piece(j->y, p, &view);
  if (status) return status;
  status = tn_tensor_read(l->stream, view, l->chunk[slot], tn_tensor_bytes(view));
  tn_tensor_release(view);
  return status ? status : tn_event_record(l->done[slot], l->stream);
}

/* Behind each other in `whole`, in the order of their indices. */
static char *place_in_whole(const job *j, piece p) {
  size_t bytes = element_dtype(j->product->type) == TN_F64 ? sizeof(double) : sizeof(float);
  return j->whole + (size_t)(p.row * j->cuts[0].columns + p.column) * bytes;
}

static tn_status end_read(const job *j, lane *l, int slot, piece p) {
  tn_status status = tn_event_synchronize(l->done[slot]);
  if (status) return status;
  size_t bytes = element_dtype(j->product->type) == TN_F64 ? sizeof(double) : sizeof(float);
  if (j->whole)
    memcpy(place_in_whole(j, p), l->chunk[slot], (size_t)(p.rows * p.columns) * bytes);
  else
    product_merge(j->product, p, l->chunk[slot]);
  return TN_OK;
}

static void *download_worker(void *context) {
  worker *w = context;
  job *j = w->job;
  int slot = 0;
  int64_t index = atomic_fetch_add(&j->next, 1);
  if (index >= j->pieces) return NULL;
  failed(j, begin_read(j, w->lane, slot, piece_at(&j->cuts[0], index)));
  while (index < j->pieces && !failed(j, TN_OK)) {
    int64_t following = atomic_fetch_add(&j->next, 1);
    if (following < j->pieces)
      failed(j, begin_read(j, w->lane, slot ^ 1, piece_at(&j->cuts[0], following)));
    failed(j, end_read(j, w->lane, slot, piece_at(&j->cuts[0], index)));
    index = following, slot ^= 1;
  }
  failed(j, tn_stream_synchronize(w->lane->stream));
  return NULL;
}

static void *merge_worker(void *context) {
  job *j = ((worker *)context)->job;
  for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->pieces;) {
    piece p = piece_at(&j->cuts[0], i);
    product_merge(j->product, p, place_in_whole(j, p));
  }
  return NULL;
}

static bool beta_is_zero(const product *p) {
  const float *s = p->beta;
  const double *d = p->beta;
  bool is_complex = element_is_complex(p->type);
  if (element_dtype(p->type) == TN_F32) return s[0] == 0 && (!is_complex || s[1] == 0);
  return d[0] == 0 && (!is_complex || d[1] == 0);
}

/* Where beta is 0 the host may write all of C once more, so that pieces go there as they come. */
tn_status crew_download(crew *c, const tn_tensor *y, const product *p) {
  const int64_t *shape = tn_tensor_shape(y);
  size_t bytes = tn_tensor_bytes(y);
  job j = {.crew = c, .work = download_worker, .y = y, .product = p};
  j.cuts[0] = cut_tensor(shape[0], shape[1], bytes / (size_t)(shape[0] * shape[1]));
  j.pieces = j.cuts[0].count;
  if (beta_is_zero(p)) return run_job(&j);
  /* Fresh pages, large ones where there are: the first touch is most of what they cost. */
  j.whole = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (j.whole == MAP_FAILED) return TN_ERR_OUT_OF_MEMORY;
  (void)madvise(j.whole, bytes, MADV_HUGEPAGE);
  tn_status status = run_job(&j);
  if (!status) {
    j.work = merge_worker;
    atomic_store(&j.next, 0);
    (void)run_job(&j);
  }
  (void)munmap(j.whole, bytes);
  return status;
}
