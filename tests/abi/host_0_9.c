/*
 * A host that knows nothing but the frozen plugin.h: it loads plugins built with later headers,
 * walks their tables at the distances that these state, and runs what they bring. All that it
 * hands over has version 0.9's size and ends at a page that traps, so that a plugin that takes
 * a host of 0.9 for a later one does not go unnoticed.
 *
 * usage: host_0_9 PLUGIN...
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tenon/plugin.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) fault(__LINE__, #condition);                                                 \
  } while (0)

static const char *path;
static char message[256], last_line[256];

static void fault(int line, const char *condition) {
  printf("%s: line %d: not so: %s (%s; %s)\n", path, line, condition, message, last_line);
  exit(1);
}

/* Memory of `bytes` bytes that ends where a page begins which cannot be touched. */
static void *at_the_edge(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
  char *memory =
      mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED && mprotect(memory + room, page, PROT_NONE) == 0);
  return memory + room - bytes;
}

/* A copy there, of what begins with its own size. */
static void *copy_at_the_edge(const void *from) {
  uint32_t size = *(const uint32_t *)from;
  return memcpy(at_the_edge(size), from, size);
}

/* ----------------------------------------------------------------- services --- */

static tn_status service_fail(tn_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static tn_status service_fail(tn_status code, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  return code;
}

static void service_log(const tn_host *host, tn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void service_log(const tn_host *host, tn_log_level level, const char *format, ...) {
  va_list list;
  (void)host, (void)level;
  va_start(list, format);
  vsnprintf(last_line, sizeof last_line, format, list);
  va_end(list);
}

static void *service_alloc(const tn_host *host, size_t bytes, size_t align) {
  void *memory = NULL;
  (void)host;
  if (align < sizeof(void *)) align = sizeof(void *);
  return posix_memalign(&memory, align, bytes ? bytes : 1) ? NULL : memory;
}

static void service_free(const tn_host *host, void *ptr) {
  (void)host;
  free(ptr);
}

static tn_status service_parallel_for(const tn_host *host, int64_t n, int64_t grain, tn_range_fn fn,
                                      void *ctx) {
  (void)host, (void)grain;
  return fn(ctx, 0, n);
}

static const tn_host *make_host(void) {
  const tn_host host = {.struct_size = sizeof host,
                        .abi_min = TN_ABI_VERSION_MIN,
                        .abi_max = TN_ABI_VERSION,
                        .num_threads = 1,
                        .version = "0.9",
                        .fail = service_fail,
                        .log = service_log,
                        .alloc = service_alloc,
                        .free = service_free,
                        .parallel_for = service_parallel_for};
  return copy_at_the_edge(&host);
}

/* ------------------------------------------------------------------ loading --- */

/* Finds the note among those of the library that holds `address`. */
typedef struct note_search {
  uintptr_t address;
  const tn_plugin_note *note;
} note_search;

static void search_notes(const char *at, size_t bytes, size_t align, note_search *search) {
  for (size_t i = 0; i + sizeof(ElfW(Nhdr)) <= bytes;) {
    const ElfW(Nhdr) *header = (const void *)(at + i);
    const char *owner = at + i + sizeof *header;
    size_t desc = (i + sizeof *header + header->n_namesz + align - 1) / align * align;
    if (header->n_namesz == sizeof TN_NOTE_OWNER && header->n_type == TN_NOTE_TYPE &&
        !memcmp(owner, TN_NOTE_OWNER, sizeof TN_NOTE_OWNER) &&
        header->n_descsz >= sizeof(tn_plugin_note))
      search->note = (const void *)(at + desc);
    i = (desc + header->n_descsz + align - 1) / align * align;
  }
}

static int visit_library(struct dl_phdr_info *info, size_t size, void *ctx) {
  note_search *search = ctx;
  bool ours = false;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++)
    ours = ours || (info->dlpi_phdr[i].p_type == PT_LOAD &&
                    search->address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr <
                        info->dlpi_phdr[i].p_memsz);
  for (int i = 0; ours && i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_NOTE)
      search_notes((const char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz,
                   p->p_align == 8 ? 8 : 4, search);
  }
  return ours;
}

static const tn_plugin *load(const tn_host *host) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) service_fail(TN_ERR_PLUGIN_REFUSED, "%s", dlerror());
  CHECK(library);
  void *symbol = dlsym(library, TN_PLUGIN_QUERY);
  CHECK(symbol);
  note_search search = {(uintptr_t)symbol, NULL};
  dl_iterate_phdr(visit_library, &search);
  CHECK(search.note && !strcmp(search.note->name, "sample"));
  CHECK(search.note->abi_min <= TN_ABI_VERSION && search.note->abi_max >= TN_ABI_VERSION);
  tn_plugin_query_fn query;
  memcpy(&query, &symbol, sizeof query);
  const tn_plugin *plugin = query(host);
  CHECK(plugin && plugin->struct_size >= sizeof *plugin);
  CHECK(!strcmp(plugin->name, "sample") && plugin->abi_max == search.note->abi_max);
  return plugin;
}

/* ---------------------------------------------------------------- the tables --- */

static const void *row(const void *rows, uint32_t index, size_t size_0_9) {
  uint32_t size = *(const uint32_t *)rows;
  CHECK(size >= size_0_9);
  return (const char *)rows + (size_t)index * size;
}

static const tn_kernel *kernel_named(const tn_plugin *plugin, const char *name) {
  for (uint32_t i = 0; i < plugin->num_kernels; i++) {
    const tn_kernel *kernel = row(plugin->kernels, i, sizeof *kernel);
    if (!strcmp(kernel->name, name)) return kernel;
  }
  service_fail(TN_ERR_NOT_FOUND, "no kernel %s", name);
  fault(__LINE__, "kernel");
  return NULL;
}

static const tn_operator *operator_named(const tn_plugin *plugin, const char *name) {
  for (uint32_t i = 0; i < plugin->num_operators; i++) {
    const tn_operator *op = row(plugin->operators, i, sizeof *op);
    if (!strcmp(op->name, name)) return op;
  }
  service_fail(TN_ERR_NOT_FOUND, "no operator %s", name);
  fault(__LINE__, "operator");
  return NULL;
}

static void check_rows(const tn_operator *op) {
  CHECK(op->arg_size >= sizeof(tn_arg) && op->attr_size >= sizeof(tn_attr));
  for (uint32_t i = 0; i < op->num_args; i++) {
    const tn_arg *arg = (const void *)((const char *)op->args + (size_t)i * op->arg_size);
    CHECK(arg->name[0] == "xyz"[i] && arg->kind <= TN_ARG_OUT && !arg->flags);
  }
  const tn_attr *last =
      (const void *)((const char *)op->attrs + (size_t)(op->num_attrs - 1) * op->attr_size);
  CHECK(!strcmp(last->name, "weight") && last->type == TN_ATTR_F64 && last->default_value == 0.5);
}

/* ------------------------------------------------------------------ running --- */

typedef struct vector {
  float values[4];
  int64_t shape[1], strides[1];
  DLTensor dl;
} vector;

static void fill(vector *v, float first) {
  *v = (vector){.shape = {4}, .strides = {1}};
  for (int i = 0; i < 4; i++) v->values[i] = first + (float)i;
  v->dl = (DLTensor){.data = v->values,
                     .device = {kDLCPU, 0},
                     .ndim = 1,
                     .dtype = {kDLFloat, 32, 1},
                     .shape = v->shape,
                     .strides = v->strides};
}

static vector a, b, y;
static const DLTensor *in[] = {&a.dl, &b.dl};
static DLTensor *out[] = {&y.dl};

static const tn_kernel_args *args_of(const tn_host *host, const tn_kernel *kernel,
                                     const void *attrs, void *device) {
  fill(&a, 1), fill(&b, 10), fill(&y, -1);
  const tn_kernel_args args = {.struct_size = sizeof args,
                               .num_in = 2,
                               .num_out = 1,
                               .in = in,
                               .out = out,
                               .attrs = attrs,
                               .host = host,
                               .kernel = kernel,
                               .device = device};
  return copy_at_the_edge(&args);
}

static void y_is(float y0, float y1, float y2, float y3) {
  CHECK(y.values[0] == y0 && y.values[1] == y1 && y.values[2] == y2 && y.values[3] == y3);
}

static void run_kernels(const tn_host *host, const tn_plugin *plugin, void *device) {
  const tn_kernel *add = kernel_named(plugin, "sample.add.f32");
  const tn_kernel *leaky = kernel_named(plugin, "sample.leaky_relu.f32");
  const tn_leaky_relu_attrs slope = {sizeof slope, 0.25};
  CHECK(add->op == TN_OP_ADD && leaky->op == TN_OP_LEAKY_RELU);
  CHECK(add->run(args_of(host, add, NULL, device)) == TN_OK);
  y_is(11, 13, 15, 17);
  const tn_kernel_args *args = args_of(host, leaky, &slope, device);
  a.values[0] = -8;
  CHECK(leaky->run(args) == TN_OK);
  y_is(-2, 2, 3, 4);
}

static void run_operators(const tn_host *host, const tn_plugin *plugin, void *device) {
  const tn_operator *blend = operator_named(plugin, "sample_blend");
  const tn_operator *pairs = operator_named(plugin, "sample_pairs");
  check_rows(blend);
  const struct {
    uint32_t struct_size;
    int32_t negate;
    double weight;
  } attrs = {sizeof attrs, 1, 0.25};
  CHECK(blend->attrs_size == sizeof attrs && blend->shape == TN_SHAPE_BROADCAST);
  const tn_kernel *kernel = kernel_named(plugin, "sample.blend");
  CHECK(kernel->run(args_of(host, kernel, copy_at_the_edge(&attrs), device)) == TN_OK);
  y_is(-7.75f, -8.75f, -9.75f, -10.75f);

  kernel = kernel_named(plugin, "sample.pairs");
  tn_kernel_args *args = (tn_kernel_args *)(uintptr_t)args_of(host, kernel, NULL, device);
  CHECK(pairs->shape == TN_SHAPE_CUSTOM && pairs->infer(host, in, out, NULL) == TN_OK);
  CHECK(y.dl.ndim == 1 && y.shape[0] == 2 && kernel->supports(args));
  CHECK(kernel->workspace(args, &args->workspace_bytes) == TN_OK && args->workspace_bytes == 16);
  args->workspace = at_the_edge(args->workspace_bytes);
  CHECK(kernel->run(args) == TN_OK);
  y_is(3, 7, 1, 2);
}

/* ---------------------------------------------------------------- the layer --- */

static tn_status next(const tn_layer_call *call, void *ctx) {
  (*(int *)ctx)++;
  return call->args->kernel->run(call->args);
}

static void run_layer(const tn_host *host, const tn_plugin *plugin, void *device) {
  const tn_layer *layer = row(plugin->layers, 0, sizeof *layer);
  const tn_kernel *kernel = kernel_named(plugin, "sample.blend");
  const struct {
    uint32_t struct_size;
    int32_t negate;
    double weight;
  } attrs = {sizeof attrs, 0, 1};
  const tn_layer_call call = {.struct_size = sizeof call,
                              .op = operator_named(plugin, "sample_blend"),
                              .device_type = "sample",
                              .args = args_of(host, kernel, &attrs, device),
                              .plugin = plugin->name,
                              .site = "the edge",
                              .backend = plugin->backends[0]};
  /* Told of what no header has yet, it passes over it. */
  const tn_layer_event made = {.struct_size = sizeof made, .kind = TN_LAYER_TENSOR_MADE};
  const tn_layer_event odd = {.struct_size = sizeof odd, .kind = 1000};
  void *state = NULL;
  int calls = 0;
  CHECK(layer->open(host, &state) == TN_OK);
  CHECK(layer->call(state, copy_at_the_edge(&call), next, &calls) == TN_OK && calls == 1);
  CHECK(!strcmp(last_line, "sample: sample_blend of z by sample.blend of sample at the edge"));
  y_is(1, 2, 3, 4);
  layer->notify(state, copy_at_the_edge(&made));
  layer->notify(state, copy_at_the_edge(&odd));
  layer->close(state);
  CHECK(!strcmp(last_line, "sample: 1 calls, 1 tensors, 0 released, 1 unknown"));
}

/* --------------------------------------------------------------- the device --- */

static void take(const char *plugin_path) {
  path = plugin_path;
  const tn_host *host = make_host();
  const tn_plugin *plugin = load(host);
  void *context = NULL, *device = NULL, *memory = NULL;
  uint32_t count = 0;
  CHECK(plugin->open(host, &context) == TN_OK);
  const tn_backend *backend = plugin->backends[0];
  CHECK(plugin->num_backends == 1 && backend->struct_size >= sizeof *backend);
  CHECK(backend->count(host, context, &count) == TN_OK && count == 1);
  tn_device_props *props = at_the_edge(sizeof *props);
  props->struct_size = sizeof *props;
  CHECK(backend->describe(host, context, 0, props) == TN_OK && props->memory_bytes == 1 << 30);
  CHECK(backend->open(host, context, 0, &device) == TN_OK);
  CHECK(backend->alloc(device, TN_MEMORY_DEVICE, 64, &memory) == TN_OK);
  CHECK(backend->copy(device, NULL, TN_COPY_TO_DEVICE, memory, 4, "abc", 1, 3) == TN_OK);
  CHECK(!memcmp((char *)memory + 4, "bc", 3));
  run_kernels(host, plugin, device);
  run_operators(host, plugin, device);
  run_layer(host, plugin, device);
  backend->free(device, TN_MEMORY_DEVICE, memory);
  backend->close(device);
  plugin->close(context);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) take(argv[i]);
  printf("%d plugins taken by a host of 0.9\n", argc - 1);
  return argc < 2;
}
