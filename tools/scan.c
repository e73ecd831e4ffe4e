/*
 * tenon scan PLUGIN: whether a plugin may be loaded, and why; what its file says of itself, and
 * what it brings. The verdict is found anew, in a runtime with nothing but the reference beside it,
 * since a plugin of the same name, or for the same devices, is no fault of the file's; what it
 * brings, in one as any program has it, and only where the verdict is good.
 */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "plain.h"
#include "tenon/plugin.h"
#include "tenon/tenon.h"

enum { TYPES_MAX = 16 };

static int failed(const char *what) {
  fprintf(stderr, "tenon scan: %s: %s\n", what, plain(tn_last_error()));
  return EXIT_FAILED;
}

static tn_status open_runtime(const char *plugins, tn_runtime **runtime) {
  tn_runtime_options options = {.struct_size = sizeof options,
                                .plugins = plugins,
                                .device = "reference",
                                .log_level = 1 + TN_LOG_NONE};
  return tn_runtime_open(&options, runtime);
}

/* One that believes no verdict that is remembered. What follows goes by the user's own setting. */
static tn_status open_anew(tn_runtime **runtime) {
  const char *set = getenv("TENON_SCAN");
  char *kept = set ? strdup(set) : NULL;
  tn_status status = TN_ERR_OUT_OF_MEMORY;
  if ((!set || kept) && !setenv("TENON_SCAN", "anew", 1)) {
    status = open_runtime("reference", runtime);
    (void)(kept ? setenv("TENON_SCAN", kept, 1) : unsetenv("TENON_SCAN"));
  }
  free(kept);
  return status;
}

/* What became of the file: of several records the one that was taken, or else the last. */
static bool find_report(tn_runtime *runtime, const char *path, tn_plugin_info *found) {
  bool any = false;
  tn_plugin_info info = {.struct_size = sizeof info};
  for (size_t i = 0; tn_plugin_report(runtime, i, &info) == TN_OK; ++i) {
    if (strcmp(info.path, path) != 0 || (any && found->taken)) continue;
    *found = info;
    any = true;
  }
  return any;
}

/* --- what the file says, and the verdict --- */

static void print_note(const tn_plugin_info *p) {
  printf("file     %s\n", plain(p->path));
  if (!p->abi_min) {
    puts("note     none that could be read");
    return;
  }
  printf("note     plugin %s, ABI %u..%u (this host serves %u..%u)\n", plain(p->name), p->abi_min,
         p->abi_max, TN_ABI_VERSION_MIN, TN_ABI_VERSION);
  printf("         says that it brings: %s\n",
         p->brings[0] ? plain(p->brings) : "nothing, so it is loaded whenever a runtime opens");
}

static void print_verdict(const tn_plugin_info *p) {
  char from[80] = "before it was scanned";
  if (p->scan) snprintf(from, sizeof from, "by a scan made in %.1f ms", p->scan_us / 1e3);
  printf("verdict  %s %s\n", p->taken ? "accepted" : "refused", from);
  if (!p->taken) printf("         %s\n", plain(p->reason));
}

/* --- what it brings --- */

static void print_devices(tn_runtime *runtime, const tn_plugin_info *p) {
  bool any = false;
  for (size_t i = 0; i < tn_device_count(runtime); ++i) {
    tn_device_info d = {.struct_size = sizeof d};
    if (tn_device_get_info(tn_device_at(runtime, i), &d) || strcmp(d.plugin, p->name) != 0)
      continue;
    any = true;
    printf("device   %s, %s%s%s\n", plain(d.id), plain(d.name),
           d.unavailable[0] ? ": unavailable: " : "", plain(d.unavailable));
  }
  if (p->num_backends && !any) printf("device   none: %s\n", plain(p->reason));
}

typedef struct kernel_tally {
  const char *type;
  size_t kernels;
} kernel_tally;

/* Kernels by the type of device that they are for. */
static void print_kernels(tn_runtime *runtime, const tn_plugin_info *p) {
  kernel_tally tallies[TYPES_MAX];
  size_t count = 0;
  tn_kernel_row row = {.struct_size = sizeof row};
  for (size_t i = 0; tn_kernel_at(runtime, i, &row) == TN_OK; ++i) {
    size_t k = 0;
    if (strcmp(row.plugin, p->name) != 0) continue;
    while (k < count && strcmp(tallies[k].type, row.device_type) != 0) ++k;
    if (k == TYPES_MAX) continue;
    if (k == count) tallies[count++] = (kernel_tally){row.device_type, 0};
    ++tallies[k].kernels;
  }
  for (size_t k = 0; k < count; ++k)
    printf("kernels  %zu for device type %s\n", tallies[k].kernels, plain(tallies[k].type));
}

/* Operators that were not there before. */
static void print_operators(tn_runtime *runtime, size_t before, const tn_plugin_info *p) {
  for (size_t i = before; p->num_operators && i < tn_op_count(runtime); ++i)
    printf("operator %s: %s\n", plain(tn_op_at(runtime, i)->name),
           plain(tn_op_at(runtime, i)->doc));
}

static void print_layers(tn_runtime *runtime, const tn_plugin_info *p) {
  tn_layer_info layer = {.struct_size = sizeof layer};
  for (size_t i = 0; tn_layer_at(runtime, i, &layer) == TN_OK; ++i)
    if (strcmp(layer.plugin, p->name) == 0)
      printf("layer    %s: %s\n", plain(layer.name), plain(layer.description));
}

static void print_warnings(const char *warnings) {
  while (*warnings) {
    size_t length = strcspn(warnings, "\n");
    char line[1024];
    snprintf(line, sizeof line, "%.*s", (int)length, warnings);
    printf("warning  %s\n", plain(line));
    warnings += length + (warnings[length] == '\n');
  }
}

static int show_contents(const char *path) {
  tn_runtime *runtime;
  tn_plugin_info p = {.struct_size = sizeof p};
  if (open_runtime(NULL, &runtime)) return failed("no runtime");
  size_t operators = tn_op_count(runtime);
  (void)tn_runtime_load_plugin(runtime, path);
  bool found = find_report(runtime, path, &p);
  if (found && p.taken) {
    print_devices(runtime, &p);
    print_kernels(runtime, &p);
    print_operators(runtime, operators, &p);
    print_layers(runtime, &p);
    print_warnings(p.warnings);
  } else if (found) {
    printf("warning  beside the other plugins here it is not taken: %s\n", plain(p.reason));
  }
  tn_runtime_close(runtime);
  return EXIT_OK;
}

static int scan(const char *path) {
  tn_runtime *runtime;
  tn_plugin_info p = {.struct_size = sizeof p};
  if (open_anew(&runtime)) return failed("no runtime");
  (void)tn_runtime_load_plugin(runtime, path);
  bool found = find_report(runtime, path, &p), taken = p.taken;
  if (found) {
    print_note(&p);
    print_verdict(&p);
  }
  int result = found ? EXIT_OK : failed(path);
  tn_runtime_close(runtime);
  if (found && taken) result = show_contents(path);
  return result == EXIT_OK && !taken ? EXIT_FAILED : result;
}

int command_scan(int argc, char **argv) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
  char path[PATH_MAX];
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h') return fputs(help_scan, stdout), EXIT_OK;
    return fputs(help_scan, stderr), EXIT_USAGE;
  }
  if (optind != argc - 1) return fputs(help_scan, stderr), EXIT_USAGE;
  if (!realpath(argv[optind], path)) {
    fprintf(stderr, "tenon scan: %s: there is no such file\n", plain(argv[optind]));
    return EXIT_FAILED;
  }
  return scan(path);
}
