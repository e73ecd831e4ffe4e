/*
 * tenon info: what this runtime found, what it refused and why, and who serves what.
 */
#include "info.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "plain.h"

/* The width of the widest string so far, for columns. */
static int widest(int width, const char *text) {
  int length = (int)strlen(plain(text));
  return length > width ? length : width;
}

static const char *plugin_name(const tn_plugin_info *p) {
  return p->name[0] ? plain(p->name) : "?";
}

static void print_contents(const tn_plugin_info *p) {
  const struct {
    uint32_t count;
    const char *one, *many;
  } parts[] = {{p->num_backends, "device type", "device types"},
               {p->num_kernels, "kernel", "kernels"},
               {p->num_operators, "operator", "operators"},
               {p->num_layers, "layer", "layers"}};
  const char *separator = "";
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (parts[i].count == 0) continue;
    printf("%s%" PRIu32 " %s", separator, parts[i].count,
           parts[i].count == 1 ? parts[i].one : parts[i].many);
    separator = ", ";
  }
  putchar('\n');
}

static void print_warnings(const char *warnings, int indent) {
  while (*warnings) {
    char line[1024];
    size_t length = strcspn(warnings, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, warnings);
    printf("%*swarning: %s\n", indent, "", plain(line));
    warnings += length + (warnings[length] == '\n');
  }
}

static void print_plugin(const tn_plugin_info *p, int width, bool verbose) {
  int indent = width + 13;
  printf("  %-*s  %-7s  %s\n", width, plugin_name(p), p->taken ? "taken" : "refused",
         plain(p->path));
  if (verbose) printf("%*sorigin: %s\n", indent, "", plain(p->origin));
  if (verbose && p->scan)
    printf("%*sscan: %s %.1f ms\n", indent, "",
           p->scan == TN_SCAN_MADE ? "made in" : "verdict remembered, found in", p->scan_us / 1e3);
  if (!p->taken) {
    printf("%*s%s\n", indent, "", plain(p->reason));
    return;
  }
  if (p->description[0]) printf("%*s%s\n", indent, "", plain(p->description));
  printf("%*s%s%s", indent, "", plain(p->version), p->version[0] ? ": " : "");
  print_contents(p);
  if (p->reason[0]) printf("%*sno device: %s\n", indent, "", plain(p->reason));
  print_warnings(p->warnings, indent);
}

static void print_plugins(const survey *s, bool verbose) {
  int width = 0;
  for (size_t i = 0; i < s->num_plugins; ++i) width = widest(width, plugin_name(&s->plugins[i]));
  puts("\nPlugins");
  if (s->num_plugins == 0) puts("  none found");
  for (size_t i = 0; i < s->num_plugins; ++i) print_plugin(&s->plugins[i], width, verbose);
}

static void print_memory(const tn_device_info *d) {
  const double gib = 1024.0 * 1024.0 * 1024.0;
  printf("%.1f GiB", (double)d->memory_bytes / gib);
  if (d->memory_free_bytes) printf(", %.1f GiB free", (double)d->memory_free_bytes / gib);
  puts(d->host_memory ? ", the host's own" : "");
}

static void print_served(const device_survey *d, size_t num_operators) {
  printf("%zu of %zu operators", d->num_served, num_operators);
  for (size_t i = 0; i < d->num_tallies; ++i)
    printf("%s%s %zu", i ? ", " : ": ", plain(d->tallies[i].plugin), d->tallies[i].operators);
  putchar('\n');
}

/* The word of the features that begins with `key`, without it; empty where there is none. */
static void feature(const char *features, const char *key, char *value, size_t size) {
  const char *at = strstr(features, key);
  value[0] = 0;
  if (at) snprintf(value, size, "%.*s", (int)strcspn(at + strlen(key), " "), at + strlen(key));
}

/* An OpenBLAS that does not know its processor: the words are the cpu plugin's. */
static void print_blas(const char *features, int indent) {
  char core[64], took[64], better[64], failed[64];
  feature(features, "openblas:", core, sizeof core);
  feature(features, "openblas-took:", took, sizeof took);
  feature(features, "openblas-better:", better, sizeof better);
  feature(features, "openblas-failed:", failed, sizeof failed);
  if (failed[0])
    printf(
        "%*sOpenBLAS uses less than the processor has: it computes with its kernels for %s, since "
        "it could not be loaded again with those for %s\n",
        indent, "", core, failed);
  else if (better[0])
    printf("%*sOpenBLAS uses less than the processor has: it computes with its kernels for %s; "
           "OPENBLAS_CORETYPE=%s in the environment gives it better ones\n",
           indent, "", core, better);
  else if (took[0])
    printf("%*sOpenBLAS took the processor for %s, and was given its kernels for %s\n", indent, "",
           took, core);
}

static void print_device(const device_survey *d, int width, size_t num_operators, bool verbose) {
  int indent = width + 4;
  printf("%c %-*s  %s\n", d->is_default ? '*' : ' ', width, plain(d->info.id), plain(d->info.name));
  if (d->info.unavailable[0]) {
    printf("%*sunavailable: %s\n", indent, "", plain(d->info.unavailable));
    return;
  }
  if (d->info.lost) printf("%*slost: the device has faulted\n", indent, "");
  printf("%*sfrom plugin %s; ", indent, "", plain(d->info.plugin));
  print_memory(&d->info);
  if (d->info.features[0]) printf("%*s%s\n", indent, "", plain(d->info.features));
  if (verbose) print_blas(plain(d->info.features), indent);
  printf("%*s", indent, "");
  print_served(d, num_operators);
}

static void print_devices(const survey *s, bool verbose) {
  int width = 0;
  for (size_t i = 0; i < s->num_devices; ++i) width = widest(width, s->devices[i].info.id);
  puts("\nDevices (* is used unless TENON_DEVICE says otherwise)");
  for (size_t i = 0; i < s->num_devices; ++i)
    print_device(&s->devices[i], width, s->num_operators, verbose);
}

static void print_layers(const survey *s) {
  int width = 0;
  for (size_t i = 0; i < s->num_layers; ++i) width = widest(width, s->layers[i].name);
  if (s->num_layers == 0) return;
  puts("\nLayers (TENON_LAYERS=NAME,NAME puts them between calls and kernels)");
  for (size_t i = 0; i < s->num_layers; ++i) {
    const tn_layer_info *l = &s->layers[i];
    printf("  %-*s  %s%s(plugin %s%s)\n", width, plain(l->name), plain(l->description),
           l->description[0] ? " " : "", plain(l->plugin), l->place ? ", on" : "");
  }
}

/* "bool u8 f32"; "-" for an operator without type variables. */
static void dtype_list(tn_dtype_set set, char *text, size_t bytes) {
  size_t used = 0;
  snprintf(text, bytes, "-");
  for (tn_dtype t = TN_BOOL; t < TN_DTYPE_SLOTS; ++t)
    if (set & TN_SET(t) && used < bytes)
      used +=
          (size_t)snprintf(text + used, bytes - used, "%s%s", used ? " " : "", tn_dtype_name(t));
}

/* The widest of each column of a device's operators. */
typedef struct widths {
  int op, dtypes, kernel, plugin;
} widths;

static widths measure(const device_survey *d) {
  widths w = {0, 0, 0, 0};
  char dtypes[128];
  for (size_t i = 0; i < d->num_services; ++i) {
    const service *s = &d->services[i];
    dtype_list(s->dtypes, dtypes, sizeof dtypes);
    w.op = widest(w.op, s->op);
    w.dtypes = widest(w.dtypes, dtypes);
    for (size_t k = 0; k < s->num_kernels; ++k) {
      w.kernel = widest(w.kernel, s->kernels[k].name);
      w.plugin = widest(w.plugin, s->kernels[k].plugin);
    }
  }
  return w;
}

/* Name, plugin, priority, and what the row says of itself. */
static void print_kernel(const tn_kernel_info *k, const widths *w) {
  printf("%-*s  %-*s  %5" PRId32, w->kernel, plain(k->name), w->plugin, plain(k->plugin),
         k->priority);
  if (k->some_calls) fputs("  some calls", stdout);
  if (k->note[0]) printf("%s %s", k->some_calls ? ":" : " ", plain(k->note));
  putchar('\n');
}

static void print_services(const device_survey *d) {
  widths w = measure(d);
  char dtypes[128];
  printf("\nOperators of %s\n  kernel, plugin and priority, in the order in which they are tried\n",
         plain(d->info.id));
  for (size_t i = 0; i < d->num_services; ++i) {
    const service *s = &d->services[i];
    bool same = i > 0 && strcmp(s->op, s[-1].op) == 0;
    dtype_list(s->dtypes, dtypes, sizeof dtypes);
    for (size_t k = 0; k < s->num_kernels; ++k) {
      printf("  %-*s  %-*s  ", w.op, same || k ? "" : plain(s->op), w.dtypes, k ? "" : dtypes);
      print_kernel(&s->kernels[k], &w);
    }
  }
}

static void print_duplicates(const survey *s) {
  if (s->num_duplicates == 0) return;
  puts("\nLibraries loaded twice (handles, memory and threads of one mean nothing to the other)");
  for (size_t i = 0; i < s->num_duplicates; ++i) {
    const tn_duplicate_library *d = &s->duplicates[i];
    int width = (int)strlen(plain(d->name));
    printf("  %s  %s\n  %*s  %s\n", plain(d->name), plain(d->first), width, "", plain(d->second));
  }
}

void info_print_text(const survey *s, bool verbose) {
  printf("Tenon %s\n", tn_version());
  print_plugins(s, verbose);
  print_devices(s, verbose);
  print_layers(s);
  if (verbose) print_duplicates(s);
  for (size_t i = 0; verbose && i < s->num_devices; ++i)
    if (!s->devices[i].info.unavailable[0]) print_services(&s->devices[i]);
}

static int failed(tn_status status) {
  const char *message = tn_last_error()[0] ? tn_last_error() : "no memory";
  fprintf(stderr, "tenon info: %s (%s)\n", plain(message), tn_status_name(status));
  return EXIT_FAILED;
}

typedef struct info_options {
  bool verbose, as_json, kernels, missing;
  info_filter filter;
} info_options;

static int nothing_left(const info_filter *f) {
  fprintf(stderr, "tenon info: nothing here fits%s%s%s%s%s%s\n", f->op ? " --op " : "",
          f->op ? plain(f->op) : "", f->device ? " --device " : "",
          f->device ? plain(f->device) : "", f->plugin ? " --plugin " : "",
          f->plugin ? plain(f->plugin) : "");
  return EXIT_FAILED;
}

static int show_survey(tn_runtime *runtime, const info_options *o) {
  survey s;
  tn_status status = survey_take(runtime, &s);
  int result = status ? failed(status) : EXIT_OK;
  if (!status && !info_keep(&o->filter, &s))
    result = nothing_left(&o->filter);
  else if (!status)
    (o->as_json ? info_print_json : info_print_text)(&s, o->verbose);
  survey_free(&s);
  return result;
}

static int show(const info_options *o) {
  tn_runtime *runtime;
  tn_status status = tn_runtime_open(NULL, &runtime);
  if (status) return failed(status);
  int result = o->kernels   ? info_print_support(runtime)
               : o->missing ? info_print_missing(runtime)
                            : show_survey(runtime, o);
  tn_runtime_close(runtime);
  return result;
}

static void take_option(int option, info_options *o) {
  o->verbose |= option == 'v' || option == 'o';
  o->as_json |= option == 'j';
  o->kernels |= option == 'k';
  o->missing |= option == 'm';
  if (option == 'o') o->filter.op = optarg;
  if (option == 'd') o->filter.device = optarg;
  if (option == 'p') o->filter.plugin = optarg;
}

int command_info(int argc, char **argv) {
  static const struct option options[] = {{"verbose", no_argument, NULL, 'v'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"kernels", no_argument, NULL, 'k'},
                                          {"op", required_argument, NULL, 'o'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"plugin", required_argument, NULL, 'p'},
                                          {"missing", no_argument, NULL, 'm'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  info_options o = {0};
  for (int option; (option = getopt_long(argc, argv, "vh", options, NULL)) != -1;) {
    if (option == 'h') return fputs(help_info, stdout), EXIT_OK;
    if (option == '?') return fputs(help_info, stderr), EXIT_USAGE;
    take_option(option, &o);
  }
  bool filtered = o.filter.op || o.filter.device || o.filter.plugin;
  int wholes = o.kernels + o.missing;
  if (optind < argc || wholes > 1 || (wholes && filtered))
    return fputs(help_info, stderr), EXIT_USAGE;
  return show(&o);
}
