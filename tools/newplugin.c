/*
 * tenon new-plugin: writes plugins/template/, or one of plugins/skeletons/, out under another
 * name, as a project that builds and passes its tests before its first edit.
 */
#include "newplugin.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "tenon/tenon.h"

/* --- what there is to write --- */

typedef struct plugin_kind {
  const char *name;
  const skeleton *files;
  const char *article; /* "a backend" */
  /* The device type by default, NULL: the plugin's name; "": the plugin is for no device type. */
  const char *device;
  bool brings_device;
} plugin_kind;

static const plugin_kind kinds[] = {
    {"backend", &skeleton_backend, "a backend", NULL, true},
    {"kernels", &skeleton_kernels, "kernels", "cpu", false},
    {"operator", &skeleton_operator, "an operator", "", false},
    {"layer", &skeleton_layer, "a layer", "", false},
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

static const plugin_kind *find_kind(const char *name) {
  for (int i = 0; i < NUM_KINDS; i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  fprintf(stderr,
          "tenon new-plugin: '%s' is no kind of plugin; there are backend, kernels, operator and "
          "layer\n",
          name);
  return NULL;
}

/* --- names --- */

enum { NAME_MAX_BYTES = 31 };

/* Names become parts of identifiers and of file names. */
static bool is_good(const char *what, const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const char *fault = NULL;
  if (!*name)
    fault = "is empty";
  else if (name[strspn(name, allowed)])
    fault = "may have a-z, 0-9 and _ only";
  else if (!islower((unsigned char)*name))
    fault = "must begin with a letter, since functions are named after it";
  else if (strlen(name) > NAME_MAX_BYTES)
    fault = "may have 31 characters at the most";
  else if (!strcmp(name, "tn") || !strcmp(name, "tenon"))
    fault = "is Tenon's own, and its functions' names would clash";
  if (fault) fprintf(stderr, "tenon new-plugin: the %s '%s' %s\n", what, name, fault);
  return !fault;
}

/* Two plugins of one name cannot be used together. */
static bool name_is_free(tn_runtime *runtime, const char *name) {
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  for (size_t i = 0; tn_plugin_report(runtime, i, &plugin) == TN_OK; i++) {
    if (strcmp(plugin.name, name)) continue;
    fprintf(stderr, "tenon new-plugin: there is a plugin '%s' already: %s; choose another name\n",
            name, plugin.path);
    return false;
  }
  return true;
}

static bool find_type(tn_runtime *runtime, const char *type, tn_device_info *device) {
  for (size_t i = 0; i < tn_device_count(runtime); i++) {
    *device = (tn_device_info){.struct_size = sizeof *device};
    if (!tn_device_get_info(tn_device_at(runtime, i), device) && !strcmp(device->type, type))
      return true;
  }
  return false;
}

/* Nor two for one device type. */
static bool type_is_free(tn_runtime *runtime, const char *type) {
  tn_device_info device;
  if (!find_type(runtime, type, &device)) return true;
  fprintf(stderr,
          "tenon new-plugin: plugin '%s' has the device type '%s' already; choose another "
          "with --device\n",
          device.plugin, type);
  return false;
}

/* Kernels are for what is there, and these are C that runs on the processor. */
static bool type_has_host_memory(tn_runtime *runtime, const char *type) {
  tn_device_info device;
  bool found = find_type(runtime, type, &device);
  if (found && device.host_memory) return true;
  fprintf(stderr,
          found ? "tenon new-plugin: the memory of '%s' is not the host's, and the kernels that "
                  "this command writes run on the processor; those of --kind backend show how "
                  "others are launched\n"
                : "tenon new-plugin: there is no device '%s' for which kernels could be; 'tenon "
                  "info' lists what there is\n",
          type);
  return false;
}

/* Where no runtime opens there is nothing to clash with. */
static bool fits_in(const plugin_kind *kind, const new_plugin *p) {
  tn_runtime *runtime;
  if (tn_runtime_open(NULL, &runtime)) return true;
  bool ok = name_is_free(runtime, p->name);
  if (ok && p->device)
    ok = kind->brings_device ? type_is_free(runtime, p->device)
                             : type_has_host_memory(runtime, p->device);
  tn_runtime_close(runtime);
  return ok;
}

/* --- the command --- */

static void print_next(const plugin_kind *kind, const new_plugin *p, size_t files) {
  printf("%s: %zu files of %s, the plugin '%s'", p->dir, files, kind->article, p->name);
  if (p->device)
    printf(kind->brings_device ? " with the device type '%s'" : " for the device type '%s'",
           p->device);
  printf(". Next:\n\n  cd %s\n  %s\n  %s\n", p->dir,
         p->cmake ? "cmake -B build" : "meson setup build",
         p->cmake ? "cmake --build build" : "ninja -C build");
  if (kind->files == &skeleton_layer)
    printf("  %s\n", p->cmake ? "ctest --test-dir build" : "meson test -C build");
  else
    printf("  tenon check build/libtenon-%s.so%s%s\n", p->name,
           kind->brings_device ? " --device " : "", kind->brings_device ? p->device : "");
  puts("\nREADME.md says what to replace first.");
}

/* Whether the names are such as can be, and of things that the kind has. */
static bool check_names(const plugin_kind *kind, new_plugin *p) {
  bool has_device = !kind->device || *kind->device;
  if (p->device && !has_device) {
    fprintf(stderr, "tenon new-plugin: %s is for every device; leave out --device\n",
            kind->article);
    return false;
  }
  if (!p->device && has_device) p->device = kind->device ? kind->device : p->name;
  if (!p->dir) p->dir = p->name;
  return is_good("name", p->name) && (!p->device || is_good("device type", p->device));
}

static bool read_build(const char *value, bool *cmake) {
  *cmake = strcmp(value, "cmake") == 0;
  if (*cmake || strcmp(value, "meson") == 0) return true;
  fprintf(stderr, "tenon new-plugin: --build is meson or cmake, not '%s'\n", value);
  return false;
}

int command_new_plugin(int argc, char **argv) {
  static const struct option options[] = {
      {"dir", required_argument, NULL, 'd'},  {"device", required_argument, NULL, 't'},
      {"kind", required_argument, NULL, 'k'}, {"build", required_argument, NULL, 'b'},
      {"help", no_argument, NULL, 'h'},       {0}};
  new_plugin p = {0};
  const plugin_kind *kind = &kinds[0];
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h') return fputs(help_new_plugin, stdout), EXIT_OK;
    if (option == '?') return fputs(help_new_plugin, stderr), EXIT_USAGE;
    if (option == 'd') p.dir = optarg;
    if (option == 't') p.device = optarg;
    if (option == 'k' && !(kind = find_kind(optarg))) return EXIT_USAGE;
    if (option == 'b' && !read_build(optarg, &p.cmake)) return EXIT_USAGE;
  }
  if (optind + 1 != argc) return fputs(help_new_plugin, stderr), EXIT_USAGE;
  p.name = argv[optind];
  if (!check_names(kind, &p)) return EXIT_USAGE;
  size_t files = fits_in(kind, &p) ? skeleton_write(kind->files, &p) : 0;
  if (files) print_next(kind, &p, files);
  return files ? EXIT_OK : EXIT_FAILED;
}
