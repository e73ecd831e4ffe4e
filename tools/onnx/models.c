/* Runs: the program for a run's inputs, found or built, and kept for the next time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

enum { DEFAULT_PROGRAMS = 16, MOST_SPECIAL = 64 };

/* --- keys --- */

static bool key_add(program_key *k, int64_t number) {
  if (k->count == k->room) {
    size_t room = k->room ? 2 * k->room : 32;
    int64_t *more = realloc(k->of, room * sizeof *more);
    if (!more) return false;
    k->of = more;
    k->room = room;
  }
  k->of[k->count++] = number;
  return true;
}

static tn_status key_make(const tn_onnx *m, const given_input *in, bool special, program_key *k) {
  bool enough = true;
  for (size_t i = 0; i < m->num_in && enough; i++) {
    enough = key_add(k, in[i].dtype) && key_add(k, in[i].rank);
    for (int32_t d = 0; d < in[i].rank && enough; d++) enough = key_add(k, in[i].shape[d]);
    if (!special || !may_be_special(&in[i]) || !enough) continue;
    int64_t numbers[MAX_SPECIAL] = {0};
    tn_status status = tn_tensor_to_host(in[i].tensor, numbers, tn_tensor_bytes(in[i].tensor));
    if (status) return onnx_fail_by(status, "input %s", m->in[i].name);
    for (int d = 0; d < MAX_SPECIAL && enough; d++) enough = key_add(k, numbers[d]);
  }
  return enough ? TN_OK : onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a program's key");
}

static bool key_same(const program_key *a, const program_key *b) {
  return a->count == b->count && !memcmp(a->of, b->of, a->count * sizeof *a->of);
}

/* --- what is kept --- */

static void program_free(built_program *p) {
  if (!p) return;
  tn_program_destroy(p->program);
  free(p->key.of);
  free(p);
}

uint32_t programs_count(const tn_onnx *m) {
  uint32_t count = 0;
  for (const built_program *p = m->programs; p; p = p->next) count++;
  return count;
}

void programs_free(tn_onnx *m) {
  while (m->programs) {
    built_program *next = m->programs->next;
    program_free(m->programs);
    m->programs = next;
  }
}

/* The program of a key, moved to the front and marked as running. */
static built_program *program_find(tn_onnx *m, const program_key *key) {
  built_program *found = NULL;
  pthread_mutex_lock(&m->lock);
  for (built_program **at = &m->programs; *at; at = &(*at)->next) {
    if (!key_same(&(*at)->key, key)) continue;
    found = *at;
    *at = found->next;
    found->next = m->programs;
    m->programs = found;
    found->running++;
    break;
  }
  pthread_mutex_unlock(&m->lock);
  return found;
}

/* Not to be found again. pre: it runs. */
static void program_forget(tn_onnx *m, built_program *p) {
  pthread_mutex_lock(&m->lock);
  for (built_program **at = &m->programs; *at && !p->dropped; at = &(*at)->next)
    if (*at == p) {
      *at = p->next;
      p->dropped = true;
      break;
    }
  snprintf(m->by_node_reason, sizeof m->by_node_reason, "%s", p->reason);
  pthread_mutex_unlock(&m->lock);
}

static void program_done(tn_onnx *m, built_program *p) {
  pthread_mutex_lock(&m->lock);
  bool goes = !--p->running && p->dropped;
  pthread_mutex_unlock(&m->lock);
  if (goes) program_free(p);
}

/* Keeps a new program, which runs, and lets go of the one that ran longest ago. */
static void program_keep(tn_onnx *m, built_program *p) {
  uint32_t most = m->options.max_programs ? m->options.max_programs : DEFAULT_PROGRAMS;
  built_program *gone = NULL;
  pthread_mutex_lock(&m->lock);
  p->running = 1;
  p->next = m->programs;
  m->programs = p;
  m->built += p->program != NULL;
  m->build_ns = p->build_ns;
  m->compile_ns = p->compile_ns;
  m->folded = p->folded;
  if (programs_count(m) > most) {
    built_program **last = &m->programs;
    while ((*last)->next) last = &(*last)->next;
    gone = *last;
    *last = NULL;
    if (m->latest == gone) m->latest = NULL;
    gone->dropped = true;
    if (gone->running) gone = NULL;
  }
  pthread_mutex_unlock(&m->lock);
  program_free(gone);
}

/* --- finding or building --- */

/* Numbers of inputs that change with every run are no key to go by. */
static bool goes_special(tn_onnx *m) { return m->special && m->special_builds < MOST_SPECIAL; }

static tn_status program_make(tn_onnx *m, const given_input *in, program_key *key,
                              built_program **program) {
  bool again = false;
  built_program *p = calloc(1, sizeof *p);
  if (!p) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a program");
  tn_status status = program_build(m, m->num_in, in, p, &again);
  if (!status && again) {
    key->count = 0;
    status = key_make(m, in, true, key);
    if (!status) status = program_build(m, m->num_in, in, p, &again);
  }
  if (status) {
    program_free(p);
    return status;
  }
  m->special_builds += m->special;
  p->key = *key;
  *key = (program_key){0};
  program_keep(m, p);
  *program = p;
  return TN_OK;
}

/* The program for these inputs, marked as running. */
static tn_status program_for(tn_onnx *m, const given_input *in, built_program **program) {
  program_key key = {0};
  *program = NULL;
  tn_status status = key_make(m, in, goes_special(m), &key);
  if (!status) *program = program_find(m, &key);
  if (!status && !*program) {
    pthread_mutex_lock(&m->build_lock);
    key.count = 0;
    status = key_make(m, in, goes_special(m), &key); /* another thread may have learnt more */
    if (!status) *program = program_find(m, &key);
    if (!status && !*program) status = program_make(m, in, &key, program);
    pthread_mutex_unlock(&m->build_lock);
  }
  free(key.of);
  return status;
}

/* --- the public functions --- */

static tn_status check_input(const tn_onnx *m, size_t i, const given_input *in) {
  const tn_onnx_value *is = &m->in[i];
  if (is->dtype && in->dtype != is->dtype)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "input %s is of type %s and must be of %s", is->name,
                     tn_dtype_name(in->dtype), tn_dtype_name(is->dtype));
  if (is->rank != TN_RANK_OPEN && in->rank != is->rank)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "input %s has %d axes and must have %d", is->name,
                     in->rank, is->rank);
  return TN_OK;
}

tn_status tn_onnx_compile(tn_onnx *m, size_t num_in, const int32_t *ranks,
                          const int64_t *const *shapes) {
  if (!m || (num_in && (!ranks || !shapes)))
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_compile: NULL");
  if (num_in != m->num_in)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "the model has %zu inputs, and %zu were given",
                     m->num_in, num_in);
  given_input *in = calloc(num_in + 1, sizeof *in);
  tn_status status = in ? describe_check(m) : onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory");
  built_program *p = NULL;
  for (size_t i = 0; i < num_in && !status; i++) {
    in[i] = (given_input){m->in[i].dtype, ranks[i], shapes[i], NULL};
    status = check_input(m, i, &in[i]);
  }
  if (!status) status = program_for(m, in, &p);
  if (!status && !p->program) program_forget(m, p); /* a run, which has numbers, may find one */
  if (p) program_done(m, p);
  free(in);
  return status;
}

/* Inputs on the model's device: what lies elsewhere is copied, *moved being the copies. */
static tn_status take_inputs(tn_onnx *m, const tn_tensor *const *in, const tn_tensor **there,
                             tn_tensor **moved, given_input *given) {
  for (size_t i = 0; i < m->num_in; i++) {
    if (!in[i]) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "input %s is NULL", m->in[i].name);
    given[i] =
        (given_input){tn_tensor_dtype(in[i]), tn_tensor_rank(in[i]), tn_tensor_shape(in[i]), in[i]};
    tn_status status = check_input(m, i, &given[i]);
    if (status) return status;
    there[i] = in[i];
    if (tn_tensor_device(in[i]) == m->device) continue;
    status = tn_tensor_to_device(in[i], m->device, &moved[i]);
    if (status) return onnx_fail_by(status, "input %s", m->in[i].name);
    there[i] = moved[i];
  }
  return TN_OK;
}

static tn_status run_program(tn_onnx *m, built_program *p, tn_stream *stream,
                             const tn_tensor *const *in, tn_tensor **out) {
  pthread_mutex_lock(&m->lock);
  m->latest = p;
  m->by_node = !p->program;
  if (!p->program) snprintf(m->by_node_reason, sizeof m->by_node_reason, "%s", p->reason);
  pthread_mutex_unlock(&m->lock);
  if (!p->program) return run_by_node(m, stream, in, out);
  tn_status status = tn_program_run(p->program, stream, m->num_in, in, m->num_out, out);
  return status ? onnx_fail_by(status, "running the model") : TN_OK;
}

tn_status tn_onnx_run(tn_onnx *m, tn_stream *stream, size_t num_in, const tn_tensor *const *in,
                      size_t num_out, tn_tensor **out) {
  if (!m || (num_in && !in) || (num_out && !out))
    return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_run: NULL");
  if (num_in != m->num_in || num_out != m->num_out)
    return onnx_fail(TN_ERR_INVALID_ARGUMENT,
                     "the model has %zu inputs and %zu outputs, and %zu and %zu were given",
                     m->num_in, m->num_out, num_in, num_out);
  const tn_tensor **there = calloc(num_in + 1, sizeof *there);
  tn_tensor **moved = calloc(num_in + 1, sizeof *moved);
  given_input *given = calloc(num_in + 1, sizeof *given);
  built_program *p = NULL;
  tn_status status =
      there && moved && given ? describe_check(m) : onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory");
  if (!status) status = take_inputs(m, in, there, moved, given);
  if (!status) status = program_for(m, given, &p);
  if (!status) status = run_program(m, p, stream, there, out);
  if (p) program_done(m, p);
  for (size_t i = 0; moved && i < num_in; i++) tn_tensor_release(moved[i]);
  free(there), free(moved), free(given);
  return status;
}

tn_status tn_onnx_program_report(tn_onnx *m, tn_program_info *info) {
  tn_status status;
  if (!m || !info) return onnx_fail(TN_ERR_INVALID_ARGUMENT, "tn_onnx_program_report: NULL");
  pthread_mutex_lock(&m->lock);
  if (!m->latest || !m->latest->program)
    status = onnx_fail(TN_ERR_NOT_FOUND, "no program of this model ran last");
  else
    status = tn_program_report(m->latest->program, info);
  pthread_mutex_unlock(&m->lock);
  return status;
}
