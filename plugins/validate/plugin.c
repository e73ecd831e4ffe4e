/*
 * The plugin `validate`: a layer that checks what a program does with Tenon while it runs.
 * docs/layers.md says what it finds and what it costs.
 */
#include <stdlib.h>
#include <string.h>

#include "validate.h"
#include "verdict.h"

/* --- options --- */

static const struct {
  const char *word;
  uint32_t checks;
} words[] = {{"finite", CHECK_FINITE}, {"alias", CHECK_ALIAS}, {"lifetime", CHECK_LIFETIME},
             {"races", CHECK_RACES},   {"leaks", CHECK_LEAKS}, {"unwritten", CHECK_UNWRITTEN},
             {"index", CHECK_INDEX},   {"all", CHECK_ALL},     {"error", 0}};

static tn_status read_word(validate *v, const char *word, size_t length) {
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
    if (strlen(words[i].word) != length || strncmp(words[i].word, word, length) != 0) continue;
    v->checks |= words[i].checks;
    v->fail |= words[i].checks == 0;
    return TN_OK;
  }
  return v->host->fail(TN_ERR_INVALID_ARGUMENT,
                       "TENON_VALIDATE: '%.*s' is none of finite, alias, lifetime, races, leaks, "
                       "unwritten, index, all, error",
                       (int)length, word);
}

static tn_status read_options(validate *v) {
  const char *at = secure_getenv("TENON_VALIDATE");
  while (at && *at) {
    size_t length = strcspn(at, ",");
    tn_status status = length ? read_word(v, at, length) : TN_OK;
    if (status) return status;
    at += length + (at[length] == ',');
  }
  if (!v->checks) v->checks = CHECK_ALL;
  return TN_OK;
}

/* --- the layer --- */

static void validate_close(void *layer) {
  validate *v = layer;
  things_free(v);
  races_free(v);
  memories_free(v);
  for (size_t i = 0; i < v->sites.capacity; ++i)
    if (v->sites.slots[i].value) v->host->free(v->host, v->sites.slots[i].value);
  map_free(&v->sites);
  pthread_mutex_destroy(&v->mutex);
  v->host->free(v->host, v);
}

static tn_status validate_open(const tn_host *host, void **layer) {
  validate *v = host->alloc(host, sizeof *v, 64);
  if (!v) return host->fail(TN_ERR_OUT_OF_MEMORY, "validate: no host memory");
  memset(v, 0, sizeof *v);
  v->host = host;
  v->sites.host = v->actors.host = v->events.host = v->memories.host = host;
  for (int k = 0; k < THING_KINDS; ++k) v->things[k].host = host;
  pthread_mutex_init(&v->mutex, NULL);
  tn_status status = read_options(v);
  if (status)
    validate_close(v);
  else
    *layer = v;
  return status;
}

static tn_status check_before(validate *v, const tn_layer_call *call) {
  findings f = {.count = 0};
  pthread_mutex_lock(&v->mutex);
  check_call(v, &f, call);
  pthread_mutex_unlock(&v->mutex);
  if (v->checks & CHECK_INDEX && call->backend && call->backend->copy) check_indexes(v, &f, call);
  return settle(v, &f);
}

static tn_status validate_call(void *layer, const tn_layer_call *call,
                               tn_status (*next)(const tn_layer_call *, void *), void *ctx) {
  validate *v = layer;
  before b;
  tn_status status = check_before(v, call);
  if (status || !(v->checks & CHECK_FINITE) || !call->backend)
    return status ? status : next(call, ctx);
  status = finite_before(v, call, &b);
  if (status) return status;
  status = next(call, ctx);
  if (!status) {
    findings f = {.count = 0};
    finite_after(v, &f, call, &b);
    status = settle(v, &f);
  }
  finite_end(v, &b);
  return status;
}

static void closing(validate *v) {
  if (v->checks & CHECK_LEAKS) report_leaks(v);
  report_summary(v);
  if (v->fail && v->totals[REPORT_LEAK]) verdict_fail();
}

static void note_thing(validate *v, const tn_layer_event *e) {
  switch (e->kind) {
  case TN_LAYER_TENSOR_MADE:
    thing_made(v, TENSOR, e);
    break;
  case TN_LAYER_TENSOR_RELEASED:
    thing_gone(v, TENSOR, e->object);
    break;
  case TN_LAYER_STREAM_MADE: /* default streams are the host's to destroy */
    if (e->object) thing_made(v, STREAM, e);
    break;
  case TN_LAYER_STREAM_DESTROYED:
    thing_gone(v, STREAM, e->object);
    break;
  case TN_LAYER_EVENT_MADE:
    thing_made(v, EVENT, e);
    break;
  case TN_LAYER_EVENT_DESTROYED:
    thing_gone(v, EVENT, e->object);
    break;
  case TN_LAYER_PREPARED_MADE:
    thing_made(v, PREPARED, e);
    break;
  case TN_LAYER_PREPARED_RELEASED:
    thing_gone(v, PREPARED, e->object);
    break;
  case TN_LAYER_PINNED_MADE:
    thing_made(v, PINNED, e);
    break;
  case TN_LAYER_PINNED_FREED:
    thing_gone(v, PINNED, e->object);
    break;
  default:
    break;
  }
}

static void note_memory(validate *v, findings *f, const tn_layer_event *e) {
  switch (e->kind) {
  case TN_LAYER_TENSOR_MADE:
    memory_made(v, e);
    break;
  case TN_LAYER_MEMORY_RELEASED:
    memory_released(v, e->memory);
    break;
  case TN_LAYER_MEMORY_RETURNED:
    ghosts_forget(v, device_of(v, e->device_type, e->device_index, e->backend));
    break;
  case TN_LAYER_TENSOR_WRITTEN:
  case TN_LAYER_TENSOR_READ:
    check_copy(v, f, e);
    break;
  case TN_LAYER_TENSOR_EXPOSED:
    written_exposed(v, e->memory);
    break;
  case TN_LAYER_TENSOR_MISUSED:
    if (v->checks & CHECK_LIFETIME) tensor_misused(v, f, e);
    break;
  default:
    break;
  }
}

static void validate_notify(void *layer, const tn_layer_event *e) {
  validate *v = layer;
  findings f = {.count = 0};
  if (e->kind == TN_LAYER_RUNTIME_CLOSING) {
    closing(v);
    return;
  }
  pthread_mutex_lock(&v->mutex);
  note_thing(v, e);
  note_memory(v, &f, e);
  order_notice(v, e);
  pthread_mutex_unlock(&v->mutex);
  for (uint32_t i = 0; i < f.count; ++i) /* a notice cannot fail */
    if (f.item[i].fresh) v->host->log(v->host, TN_LOG_WARN, "validate: %s", f.item[i].text);
}

static const tn_layer layers[] = {{
    .struct_size = sizeof(tn_layer),
    .name = "validate",
    .open = validate_open,
    .close = validate_close,
    .call = validate_call,
    .notify = validate_notify,
    .description =
        "reports NaN, aliasing, use after release, races, leaks, unwritten tensors, wrong indexes",
}};

static const tn_plugin plugin = {
    .struct_size = sizeof(tn_plugin),
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "validate",
    .version = "0.1.0",
    .description = "the layer validate, which checks what a program does with Tenon",
    .num_layers = sizeof layers / sizeof *layers,
    .layers = layers,
};

TN_PLUGIN_BRINGS("layer:validate");

TN_PLUGIN_DEFINE("validate") {
  (void)host;
  return &plugin;
}
