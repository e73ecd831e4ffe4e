/* Compiling a graph: a copy of its record, a plan of its memory, its constants on the device. */
#include "graph/program.h"

#include <inttypes.h>
#include <string.h>

#include "dispatcher/device/device.h"
#include "dispatcher/notify/watch.h"
#include "dispatcher/tensor/tensor.h"
#include "graph/passes/passes.h"

enum { DEFAULT_RECOMPUTE_PERCENT = 3 };

static tn_status no_memory(void) {
  return fail(TN_ERR_OUT_OF_MEMORY, "no host memory for a program");
}

/* --- parameters and constants --- */

/* What the host wrote to a tensor of the graph, as bytes: values are views of them. */
static tn_status real_bytes(tn_device *device, const record_buffer *b, tn_tensor **real) {
  const int64_t bytes = (int64_t)b->bytes;
  return tn_tensor_from_host(device, TN_U8, 1, &bytes, b->data, real);
}

static tn_status real_of(const tn_program *p, const record_buffer *b, tn_tensor **real) {
  if (b->data) return real_bytes(p->device, b, real);
  if (b->real->device == p->device && b->real->contiguous) {
    tn_tensor_retain(b->real);
    *real = b->real;
    return TN_OK;
  }
  if (b->kind == TN_GRAPH_PARAMETER)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "parameter %s is on device %s, and the program is for %s: give the graph one there "
                "(tn_tensor_to_device)",
                b->name, b->real->device->id, p->device->id);
  return tn_tensor_to_device(b->real, p->device, real);
}

tn_status program_real(tn_program *p, uint32_t buffer, tn_tensor **real) {
  tn_status status = TN_OK;
  if (!p->real[buffer]) status = real_of(p, &p->record.buffers[buffer], &p->real[buffer]);
  *real = p->real[buffer];
  return status;
}

/* Constants lie on the device now, if anywhere: what they came from is not kept. */
static void drop_source(tn_program *p, record_buffer *b) {
  host_free(&p->record.memory, b->data);
  tn_tensor_release(b->real);
  b->data = NULL;
  b->real = NULL;
}

static tn_status take_real(tn_program *p) {
  tn_status status = TN_OK;
  tn_tensor *real;
  for (uint32_t i = 0; !status && i < p->record.num_buffers; ++i) {
    if (p->plan.buffers[i].place == PLACE_REAL) {
      status = program_real(p, i, &real);
    } else {
      tn_tensor_release(p->real[i]);
      p->real[i] = NULL;
    }
    if (!status && p->record.buffers[i].kind == TN_GRAPH_CONSTANT)
      drop_source(p, &p->record.buffers[i]);
  }
  /* Whatever stream a run is in, constants that were copied are there. */
  return status ? status : tn_stream_synchronize(p->device->default_stream);
}

/* --- random operators --- */

static const tn_attr *find_attr(const tn_operator *op, const char *name) {
  for (uint32_t i = 0; i < op->num_attrs; ++i)
    if (!strcmp(tn_operator_attr(op, i)->name, name)) return tn_operator_attr(op, i);
  return NULL;
}

/* How many counters a node takes: what a generator says of a tensor of that shape. */
static tn_status count_draws(const tn_program *p, const record_node *n, uint64_t *counters) {
  tn_generator *generator;
  const record_value *v = &p->record.values[record_inputs(n) ? n->in[0] : n->out[0]];
  tn_tensor shape = {.dtype = (uint8_t)v->dtype, .device = p->device, .elements = 1};
  void *attrs = host_alloc(&p->record.memory, n->op->attrs_size);
  if (!attrs) return no_memory();
  memcpy(attrs, n->attrs, n->op->attrs_size);
  shape.dl.ndim = v->rank;
  for (int32_t i = 0; i < v->rank; ++i) {
    shape.shape[i] = v->shape[i];
    shape.elements *= v->shape[i];
  }
  tn_status status = tn_generator_create(p->runtime, 0, &generator);
  if (!status) {
    status = tn_generator_next(generator, n->op->id, &shape, attrs);
    (void)tn_generator_get_state(generator, NULL, counters);
    tn_generator_destroy(generator);
  }
  host_free(&p->record.memory, attrs);
  return status;
}

/* The tensor that is added to an attribute, NULL if the operator has none. */
static const tn_attr *tensor_added_to(const tn_operator *op, const tn_attr *to) {
  for (uint32_t i = 0; i < op->num_attrs; ++i) {
    const tn_attr *a = tn_operator_attr(op, i);
    if (a->type == TN_ATTR_TENSOR && a->tensor.use == TN_USE_ADDS &&
        tn_operator_attr(op, a->tensor.of) == to)
      return a;
  }
  return NULL;
}

/* Whether the program itself says where a node draws from, by a tensor added to its offset. */
static bool is_told_offset(const record_node *n, const tn_attr *offset) {
  for (uint32_t k = 0; k < n->num_from; ++k) {
    const tn_attr *a = tn_operator_attr(n->op, n->op->num_attrs - n->num_from + k);
    if (tn_operator_attr(n->op, a->tensor.of) == offset && a->tensor.use != TN_USE_SKIPS)
      return n->in[record_inputs(n) + k] != TN_GRAPH_NONE;
  }
  return false;
}

/* Where a random node's offset is among its attributes, for runs to draw on from; NULL of nodes
 * that draw nothing, or whose program moves on by itself. */
static const tn_attr *draws_from(const record_node *n) {
  const tn_attr *a = n->op->flags & TN_OPERATOR_RANDOM ? find_attr(n->op, "offset") : NULL;
  return a && a->type == TN_ATTR_U64 && !is_told_offset(n, a) ? a : NULL;
}

static uint64_t offset_of(const record_node *n, const tn_attr *a) {
  uint64_t offset;
  memcpy(&offset, (const char *)n->attrs + a->offset, sizeof offset);
  return offset;
}

/* A run takes what lies between the first counter and the last of all nodes, those that are left
 * out and what lies between nodes included, so that no run draws what another did. */
static tn_status measure_draws(tn_program *p) {
  uint64_t first = UINT64_MAX, end = 0, counters;
  for (uint32_t k = 0; k < p->record.num_nodes; ++k) {
    const record_node *n = &p->record.nodes[k];
    const tn_attr *a = draws_from(n);
    if (!a) continue;
    tn_status status = count_draws(p, n, &counters);
    if (status) return status;
    uint64_t offset = offset_of(n, a);
    if (offset < first) first = offset;
    if (offset + counters > end) end = offset + counters;
  }
  p->random_first = first;
  p->random_step = end > first ? end - first : 0;
  return TN_OK;
}

void program_share_draws(tn_program *p, uint64_t first, _Atomic uint64_t *drawn) {
  p->drawn = drawn;
  p->draw_shift = first - p->random_first; /* modulo 2^64, as offsets are */
}

static void note_random(tn_program *p, uint32_t place, const record_node *n) {
  const tn_attr *a = draws_from(n);
  if (!a) return;
  p->random[p->num_random++] = (random_node){.place = place,
                                             .attr_offset = a->offset,
                                             .offset = offset_of(n, a),
                                             .from = tensor_added_to(n->op, a)};
}

/* Where runs may be replayed, what they draw must not be in their calls. */
static bool draws_by_tensor(const tn_program *p) {
  for (uint32_t i = 0; i < p->num_random; ++i)
    if (!p->random[i].from) return false;
  return p->num_random > 0;
}

static tn_status note_running(tn_program *p) {
  const host_memory *memory = &p->record.memory;
  uint32_t place = 0;
  p->running = host_alloc(memory, ((size_t)p->plan.num_running + 1) * sizeof *p->running);
  p->random = host_alloc(memory, ((size_t)p->plan.num_running + 1) * sizeof *p->random);
  if (!p->running || !p->random) return no_memory();
  for (uint32_t k = 0; k < p->record.num_nodes; ++k) {
    if (!p->plan.runs[k]) continue;
    note_random(p, place, &p->record.nodes[k]);
    p->running[place++] = k;
  }
  return TN_OK;
}

/* --- what runs bring --- */

static tn_status note_bound(tn_program *p) {
  p->bound = host_alloc(&p->record.memory, ((size_t)p->record.num_values + 1) * sizeof *p->bound);
  if (!p->bound) return no_memory();
  for (uint32_t i = 0; i < p->record.num_values; ++i) {
    const record_value *v = &p->record.values[i];
    const planned_buffer *b = &p->plan.buffers[v->buffer];
    if (b->place != PLACE_INPUT && b->place != PLACE_OUTPUT) continue;
    bool is_output = b->place == PLACE_OUTPUT;
    uint32_t place = is_output ? b->output : p->record.buffers[v->buffer].place;
    p->bound[p->num_bound++] = (bound_value){i, is_output, place, v->offset};
  }
  return TN_OK;
}

static bool is_updated(const tn_program *p, uint32_t buffer) {
  const record_buffer *b = &p->record.buffers[buffer];
  return b->kind == TN_GRAPH_PARAMETER && b->version;
}

/* What each run looks at, so that it need not look at every buffer. */
static tn_status note_sources(tn_program *p) {
  const record *r = &p->record;
  p->inputs = host_alloc(&r->memory, ((size_t)r->num_buffers + 1) * sizeof *p->inputs);
  p->reals = host_alloc(&r->memory, ((size_t)r->num_buffers + 1) * sizeof *p->reals);
  if (!p->inputs || !p->reals) return no_memory();
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    if (r->buffers[i].kind == TN_GRAPH_INPUT) p->inputs[r->buffers[i].place] = i;
    if (p->real[i] && is_updated(p, i)) p->reals[p->num_updated++] = i;
  }
  p->num_reals = p->num_updated;
  for (uint32_t i = 0; i < r->num_buffers; ++i)
    if (p->real[i] && !is_updated(p, i)) p->reals[p->num_reals++] = i;
  return TN_OK;
}

/* --- public --- */

static tn_status copy_graph(tn_program *p, const tn_graph *graph) {
  tn_status status = record_copy(&graph->record, &p->record);
  if (status) return status;
  const host_memory *memory = &p->record.memory;
  p->name = host_strdup(memory, graph->name);
  p->real = host_alloc(memory, ((size_t)p->record.num_buffers + 1) * sizeof *p->real);
  return p->name && p->real ? TN_OK : no_memory();
}

/* The instance that the default stream's runs take. */
static tn_status make_first(tn_program *p) {
  instance *first;
  tn_status status = instance_make_first(p, &first);
  return status ? status : replay_init(p, first);
}

static tn_status make_ready(tn_program *p, uint32_t flags) {
  p->draws_by_tensor = replay_allowed(p, flags) && draws_by_tensor(p);
  tn_status status = make_first(p);
  if (status || !p->draws_by_tensor || p->replay.state != TN_CAPTURE_OFF) return status;
  /* There will be no replay: attributes cost nothing, and every kernel knows them. */
  p->draws_by_tensor = false;
  p->replay.why[0] = '\0';
  instances_free(p);
  return make_first(p);
}

static tn_status compile(tn_program *p, const tn_graph *graph, const tn_compile_options *options) {
  tn_status status = copy_graph(p, graph);
  if (!status) status = measure_draws(p);
  if (!status) status = record_skip_unused(&p->record);
  if (!status) status = passes_run(p, options);
  if (!status) status = memory_plan_make(&p->record, &p->plan);
  if (!status) status = note_running(p);
  if (!status) status = note_bound(p);
  if (!status) status = take_real(p);
  if (!status) status = note_sources(p);
  return status ? status : make_ready(p, options->flags);
}

/* As much of the options as the caller has. */
static tn_status read_options(const tn_compile_options *given, tn_compile_options *options) {
  const uint32_t known = TN_COMPILE_AS_CALLED | TN_COMPILE_NO_CAPTURE;
  *options = (tn_compile_options){.struct_size = sizeof *options,
                                  .recompute_percent = DEFAULT_RECOMPUTE_PERCENT};
  if (!given) return TN_OK;
  tn_status status = struct_check("tn_graph_compile", "options", "tn_compile_options", given);
  if (status) return status;
  size_t size = given->struct_size;
  memcpy(options, given, size < sizeof *options ? size : sizeof *options);
  if (options->flags & ~known)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_compile: options.flags is 0x%x, of which this library knows 0x%x",
                options->flags, known);
  if (options->recompute_percent > 100)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_compile: options.recompute_percent is %" PRIu32 ": at most 100",
                options->recompute_percent);
  if (!options->recompute_percent) options->recompute_percent = DEFAULT_RECOMPUTE_PERCENT;
  return TN_OK;
}

tn_status tn_graph_compile(tn_graph *graph, tn_device *device, const tn_compile_options *options,
                           tn_program **program) {
  if (!graph || !device || !program)
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_graph_compile: graph, device and program must not be NULL");
  tn_compile_options full;
  tn_status status = runtime_check(graph->runtime);
  if (!status) status = read_options(options, &full);
  if (!status && (device->runtime != graph->runtime || device->recorder))
    status = fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_compile: %s is no device of the runtime",
                  device->id);
  if (!status) status = device_ready(device);
  if (status) return status;
  tn_program *p = host_alloc(&graph->memory, sizeof *p);
  if (!p) return no_memory();
  p->record.memory = p->plan.memory = graph->memory;
  p->runtime = graph->runtime;
  p->device = device;
  p->drawn = &p->own_drawn;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_mutex_init(&p->replay.mutex, NULL);
  runtime_retain_weak(p->runtime);
  bool paused = thread_watcher_pause(true);
  status = compile(p, graph, &full);
  thread_watcher_pause(paused);
  if (status) {
    fail_prefix("tn_graph_compile: ");
    tn_program_destroy(p);
  } else {
    *program = p;
  }
  return status;
}

void tn_program_destroy(tn_program *program) {
  if (!program || runtime_is_forked(program->runtime)) return;
  tn_runtime *runtime = program->runtime;
  host_memory memory = program->record.memory;
  replay_free(program);
  instances_free(program);
  for (uint32_t i = 0; program->real && i < program->record.num_buffers; ++i)
    tn_tensor_release(program->real[i]);
  host_free(&memory, program->real);
  host_free(&memory, program->inputs);
  host_free(&memory, program->reals);
  host_free(&memory, program->running);
  host_free(&memory, program->numbers);
  host_free(&memory, program->random);
  host_free(&memory, program->bound);
  memory_plan_free(&program->plan);
  record_free(&program->record);
  host_free(&memory, program->name);
  pthread_mutex_destroy(&program->mutex);
  host_free(&memory, program);
  runtime_release_weak(runtime);
}

/* pre: an instance exists. */
static void count_instances(tn_program *p, tn_program_info *info) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  pthread_mutex_lock(&p->mutex);
  for (const instance *i = p->instances; i; i = i->next) ++info->instances;
  const instance *one = p->instances;
  if (one) info->workspace_bytes += one->workspace_bytes;
  if (one && one->dense) info->workspace_bytes += tn_tensor_bytes(one->dense);
  for (uint32_t k = 0; one && k < one->num_calls; ++k)
    info->fallbacks += tn_prepared_kernel(one->calls[k], &kernel) == TN_ERR_UNSUPPORTED;
  pthread_mutex_unlock(&p->mutex);
}

tn_status tn_program_report(tn_program *program, tn_program_info *info) {
  if (!program) return fail(TN_ERR_INVALID_ARGUMENT, "tn_program_report: program is NULL");
  tn_status status = struct_check("tn_program_report", "info", "tn_program_info", info);
  if (!status) status = runtime_check(program->runtime);
  if (status) return status;
  tn_program_info full = {.struct_size = info->struct_size,
                          .nodes = program->plan.num_running,
                          .left_out = program->counts.left_out,
                          .merged = program->counts.merged,
                          .folded = program->counts.folded,
                          .fused = program->counts.fused,
                          .recomputed = program->counts.recomputed,
                          .parts = program->counts.parts,
                          .planned_bytes = program->plan.bytes,
                          .live_bytes = program->plan.live_bytes,
                          .separate_bytes = program->plan.separate_bytes,
                          .runs = atomic_load(&program->runs)};
  full.capture = atomic_load(&program->replay.state);
  full.captures = atomic_load(&program->replay.recorded);
  full.replays = atomic_load(&program->replay.launched);
  full.capture_reason = full.capture == TN_CAPTURE_OFF || full.capture == TN_CAPTURE_FAILED
                            ? program->replay.why
                            : "";
  count_instances(program, &full);
  struct_fill(info, &full, sizeof full);
  return TN_OK;
}
