/* Elementwise frame; see map.h. */
#include "map.h"

typedef struct mapping {
  view views[WALK_VIEWS]; /* inputs, then outputs */
  int num_in, num_out, num_loaded;
  const void *attrs;
  body_f64 floats;
  body_i64 integers;
} mapping;

static mapping mapping_of(const tn_kernel_args *args) {
  mapping m = {.num_in = args->num_in, .num_out = args->num_out, .num_loaded = args->num_in};
  m.attrs = args->attrs;
  for (int i = 0; i < m.num_in; ++i) m.views[i] = view_of(args->in[i]);
  for (int i = 0; i < m.num_out; ++i) m.views[m.num_in + i] = view_of(args->out[i]);
  return m;
}

static tn_status run_floats(void *ctx, int64_t begin, int64_t end) {
  const mapping *m = ctx;
  double room[WALK_VIEWS][WALK_RUN], *at[WALK_VIEWS];
  int num_views = m->num_in + m->num_out;
  for (int v = 0; v < num_views; ++v) at[v] = room[v];
  walk w = walk_over(m->views, num_views, begin, end);
  while (walk_next(&w)) {
    for (int v = 0; v < m->num_loaded; ++v)
      load_f64(m->views[v].dtype, w.at[v], w.step[v], w.n, at[v]);
    run r = {m->attrs, m->views[0].dtype, w.first, w.n};
    m->floats(&r, at, at + m->num_in);
    for (int v = m->num_in; v < num_views; ++v)
      store_f64(m->views[v].dtype, w.at[v], w.step[v], w.n, at[v]);
  }
  return TN_OK;
}

static tn_status run_integers(void *ctx, int64_t begin, int64_t end) {
  const mapping *m = ctx;
  int64_t room[WALK_VIEWS][WALK_RUN], *at[WALK_VIEWS];
  int num_views = m->num_in + m->num_out;
  for (int v = 0; v < num_views; ++v) at[v] = room[v];
  walk w = walk_over(m->views, num_views, begin, end);
  while (walk_next(&w)) {
    for (int v = 0; v < m->num_in; ++v) load_i64(m->views[v].dtype, w.at[v], w.step[v], w.n, at[v]);
    run r = {m->attrs, m->views[0].dtype, w.first, w.n};
    m->integers(&r, at, at + m->num_in);
    for (int v = m->num_in; v < num_views; ++v)
      store_i64(m->views[v].dtype, w.at[v], w.step[v], w.n, at[v]);
  }
  return TN_OK;
}

static tn_status run_all(const tn_kernel_args *args, mapping *m, tn_range_fn fn) {
  int64_t count = view_count(&m->views[0]);
  return count ? args->host->parallel_for(args->host, count, 4096, fn, m) : TN_OK;
}

tn_status map(const tn_kernel_args *args, body_f64 floats, body_i64 integers) {
  mapping m = mapping_of(args);
  m.floats = floats;
  m.integers = integers;
  return run_all(args, &m, dtype_is_float(m.views[0].dtype) ? run_floats : run_integers);
}

tn_status map_f64(const tn_kernel_args *args, body_f64 body) {
  mapping m = mapping_of(args);
  m.floats = body;
  return run_all(args, &m, run_floats);
}

tn_status map_update(const tn_kernel_args *args, body_f64 body) {
  mapping m = mapping_of(args);
  m.floats = body;
  m.num_loaded = m.num_in + m.num_out;
  return run_all(args, &m, run_floats);
}
