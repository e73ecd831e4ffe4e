/* Built against a later plugin.h, in which every struct and the note have grown, and
 * able to serve this host's version too. It must load. */
#include "fixture.h"

typedef struct later_kernel {
  tn_kernel now;
  void *more[3];
} later_kernel;

typedef struct later_backend {
  tn_backend now;
  void *more[5];
} later_backend;

typedef struct later_plugin {
  tn_plugin now;
  void *more[7];
} later_plugin;

static const later_backend backend = {.now = FIXTURE_BACKEND_OF("future", sizeof(later_backend))};
static const tn_backend *const backends[] = {&backend.now};

/* A member that no host of version 1 may look at. */
#define JUNK ((void *)16)

static const later_kernel kernels[] = {
    {FIXTURE_KERNEL_OF("future", sizeof(later_kernel)), {JUNK, JUNK, JUNK}},
    {FIXTURE_KERNEL_OF("later", sizeof(later_kernel)), {JUNK, JUNK, JUNK}},
};

static const later_plugin plugin = {.now = {.struct_size = sizeof(later_plugin),
                                            .abi_min = TN_ABI_VERSION,
                                            .abi_max = TN_ABI_VERSION + 5,
                                            .name = "future",
                                            .version = "9.0",
                                            .description = "a fixture from the future",
                                            .backends = backends,
                                            .num_backends = 1,
                                            .kernels = &kernels[0].now,
                                            .num_kernels = 2},
                                    .more = {JUNK, JUNK, JUNK, JUNK, JUNK, JUNK, JUNK}};

typedef struct later_note_image {
  uint32_t owner_size, desc_size, type;
  char owner[8];
  tn_plugin_note desc;
  uint32_t more[4];
} later_note_image;

__attribute__((section(TN_NOTE_SECTION), used, aligned(4))) static const later_note_image note = {
    sizeof TN_NOTE_OWNER,
    sizeof(tn_plugin_note) + 4 * sizeof(uint32_t),
    TN_NOTE_TYPE,
    TN_NOTE_OWNER,
    {TN_ABI_VERSION, TN_ABI_VERSION + 5, TN_FLAVOUR, 0, "future"},
    {1, 2, 3, 4}};

TN_PLUGIN_EXPORT const tn_plugin *tn_plugin_query(const tn_host *host);
const tn_plugin *tn_plugin_query(const tn_host *host) {
  /* A plugin that serves a range answers the highest version that both know. */
  return host->abi_max >= plugin.now.abi_min ? &plugin.now : NULL;
}
