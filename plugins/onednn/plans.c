/*
 * The cache of plans: a hash table under a mutex, which is held for a look-up and while a
 * plan is made, so that no plan is made twice. Plans in use are never dropped.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { BUCKETS = 512, MOST_PLANS = 512 };

struct plans {
  const tn_host *host;
  pthread_mutex_t mutex;
  bool take_all;
  dnnl_engine_t engine; /* made with the first plan */
  plan *buckets[BUCKETS];
  plan *newest, *oldest;
  size_t count;
};

tn_status plans_open(const tn_host *host, void **context) {
  const char *word = secure_getenv("TENON_ONEDNN");
  const bool is_all = word && strcmp(word, "all") == 0;
  if (word && *word && !is_all)
    host->log(host, TN_LOG_WARN, "TENON_ONEDNN=%s is not known and does nothing: it takes all",
              word);
  plans *p = host->alloc(host, sizeof *p, _Alignof(plans));
  if (!p) return host->fail(TN_ERR_OUT_OF_MEMORY, "no memory for the plans of oneDNN");
  memset(p, 0, sizeof *p);
  p->host = host;
  p->take_all = is_all;
  pthread_mutex_init(&p->mutex, NULL);
  *context = p;
  return TN_OK;
}

static void step_free(step *s) {
  if (s->primitive) (void)dnnl_primitive_destroy(s->primitive);
  if (s->desc) (void)dnnl_primitive_desc_destroy(s->desc);
  *s = (step){0};
}

static void plan_clear(plan *p) {
  for (int i = 0; i < SLOTS; i++) {
    step_free(&p->slots[i].reorder);
    layout_free(&p->slots[i].user);
  }
  step_free(&p->main);
}

static void plan_free(plans *all, plan *p) {
  handles_free_spare(all->host, p);
  plan_clear(p);
  all->host->free(all->host, p);
}

void plans_close(void *context) {
  plans *p = context;
  const tn_host *host = p->host;
  for (plan *at = p->newest, *older; at; at = older) {
    older = at->older;
    plan_free(p, at);
  }
  if (p->engine) (void)dnnl_engine_destroy(p->engine);
  pthread_mutex_destroy(&p->mutex);
  host->free(host, p);
}

bool plans_take_all(const tn_kernel_args *args) {
  const plans *p = args->host->plugin_context(args->host, args->kernel);
  return p->take_all;
}

dnnl_engine_t plans_engine(const plans *p) { return p->engine; }

static uint64_t hash_of(const plan_key *key) {
  const uint64_t *words = (const uint64_t *)(const void *)key;
  uint64_t h = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < sizeof *key / sizeof *words; i++) {
    h = (h ^ words[i]) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return h;
}

/* --- the order of use --- */

static void unlink_plan(plans *all, plan *p) {
  *(p->newer ? &p->newer->older : &all->newest) = p->older;
  *(p->older ? &p->older->newer : &all->oldest) = p->newer;
  p->newer = p->older = NULL;
}

static void link_newest(plans *all, plan *p) {
  p->older = all->newest;
  *(all->newest ? &all->newest->newer : &all->oldest) = p;
  all->newest = p;
}

static void drop_oldest(plans *all) {
  plan *p = all->oldest;
  while (p && p->users) p = p->newer;
  if (!p) return;
  plan **at = &all->buckets[p->hash % BUCKETS];
  while (*at != p) at = &(*at)->chain;
  *at = p->chain;
  unlink_plan(all, p);
  all->count--;
  plan_free(all, p);
}

/* --- taking --- */

static plan *make(plans *all, const plan_key *key, uint64_t hash, plan_build build,
                  const void *ctx) {
  if (!all->engine && dnnl_engine_create(&all->engine, dnnl_cpu, 0) != dnnl_success) return NULL;
  plan *p = all->host->alloc(all->host, sizeof *p, _Alignof(plan));
  if (!p) return NULL;
  memset(p, 0, sizeof *p);
  p->key = *key;
  p->hash = hash;
  int threads = threads_hold();
  p->usable = build(all->engine, p, ctx) == dnnl_success;
  threads_release(threads);
  if (!p->usable) plan_clear(p);
  if (all->count == MOST_PLANS) drop_oldest(all);
  p->chain = all->buckets[hash % BUCKETS];
  all->buckets[hash % BUCKETS] = p;
  link_newest(all, p);
  all->count++;
  return p;
}

plan *plan_take(const tn_kernel_args *args, const plan_key *key, plan_build build,
                const void *ctx) {
  plans *all = args->host->plugin_context(args->host, args->kernel);
  const uint64_t hash = hash_of(key);
  pthread_mutex_lock(&all->mutex);
  plan *p = all->buckets[hash % BUCKETS];
  while (p && (p->hash != hash || memcmp(&p->key, key, sizeof *key) != 0)) p = p->chain;
  if (!p) {
    p = make(all, key, hash, build, ctx);
  } else if (p != all->newest) {
    unlink_plan(all, p);
    link_newest(all, p);
  }
  if (p && !p->usable) p = NULL;
  if (p) p->users++;
  pthread_mutex_unlock(&all->mutex);
  return p;
}

void plan_give_back(const tn_kernel_args *args, plan *p) {
  plans *all = args->host->plugin_context(args->host, args->kernel);
  if (!p) return;
  pthread_mutex_lock(&all->mutex);
  p->users--;
  pthread_mutex_unlock(&all->mutex);
}

/* --- building --- */

dnnl_status_t plan_attr(dnnl_primitive_attr_t *attr) {
  dnnl_status_t status = dnnl_primitive_attr_create(attr);
  if (status == dnnl_success)
    status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
  return status;
}

/* pre: s->desc. */
static dnnl_status_t step_finish(step *s) {
  const layout_ref scratch = dnnl_primitive_desc_query_md(s->desc, dnnl_query_scratchpad_md, 0);
  s->scratch = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
  return dnnl_primitive_create(&s->primitive, s->desc);
}

/* What oneDNN calls a primitive; "ref" where it does not say. */
static const char *name_of(dnnl_primitive_desc_t desc) {
  const char *name = NULL;
  if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) != dnnl_success || !name)
    return "ref";
  return name;
}

/* Plain loops, which oneDNN calls "ref", are slower than anything of ours. */
static bool is_slow(dnnl_primitive_desc_t desc) {
  const char *name = name_of(desc);
  return strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") != NULL;
}

/* oneDNN's sgemm without copies takes the stack pointer for its way through a buffer on the heap
 * where that is deeper than 16 KiB, so a signal's frame, 11 KiB with AMX, lands in front of the
 * buffer. Mended by "do not clobber rsp in autogenerated GEMM kernels" (d090db10cd). */
static bool leaves_stack(dnnl_primitive_desc_t desc, dnnl_data_type_t type) {
  const dnnl_version_t *v = dnnl_version();
  const int version = v->major * 10000 + v->minor * 100 + v->patch, mended = 31102;
  return type == dnnl_f32 && version < mended && strstr(name_of(desc), "gemm:jit");
}

/* Signals wait some 50 ms at the most. */
static const double MOST_HELD = 2e9;

dnnl_status_t plan_finish_main(plan *p, dnnl_primitive_desc_t desc, dnnl_data_type_t type,
                               double multiplications) {
  p->main.desc = desc;
  p->main.leaves_stack = leaves_stack(desc, type);
  if (is_slow(desc) || (p->main.leaves_stack && multiplications > MOST_HELD))
    return dnnl_unimplemented;
  return step_finish(&p->main);
}

dnnl_status_t plan_finish_slot(dnnl_engine_t engine, plan *p, int index, dnnl_query_t query,
                               int arg, bool always) {
  slot *s = &p->slots[index];
  s->present = true;
  s->arg = arg;
  s->own = dnnl_primitive_desc_query_md(p->main.desc, query, 0);
  if (!s->own) return dnnl_unimplemented;
  s->bytes = (dnnl_memory_desc_get_size(s->own) + 63) / 64 * 64;
  const layout_ref user = layout_of(&s->user);
  if (!always && dnnl_memory_desc_equal(user, s->own)) return dnnl_success;
  dnnl_primitive_attr_t attr = NULL;
  const bool out = index == SLOT_Y;
  dnnl_status_t status = plan_attr(&attr);
  if (status == dnnl_success)
    status = dnnl_reorder_primitive_desc_create(&s->reorder.desc, out ? s->own : user, engine,
                                                out ? user : s->own, engine, attr);
  (void)dnnl_primitive_attr_destroy(attr);
  if (status == dnnl_success && is_slow(s->reorder.desc)) status = dnnl_unimplemented;
  return status == dnnl_success ? step_finish(&s->reorder) : status;
}
