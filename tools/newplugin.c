/*
 * tenon new-plugin: writes plugins/template/ out under another name, as a project that builds
 * and passes tenon check before its first edit. In the template the word "template" stands for
 * the plugin's name and "sim" and "SIM" for the device type; its files do not
 * use these words otherwise.
 */
#include "newplugin.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "help.h"
#include "tenon/tenon.h"

typedef struct new_plugin {
  const char *name, *device, *dir;
} new_plugin;

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

/* Two plugins of one name, or for one device type, cannot be used together. */
static bool is_free(tn_runtime *runtime, const new_plugin *p) {
  tn_plugin_info plugin = {.struct_size = sizeof plugin};
  for (size_t i = 0; tn_plugin_report(runtime, i, &plugin) == TN_OK; i++) {
    if (strcmp(plugin.name, p->name)) continue;
    fprintf(stderr, "tenon new-plugin: there is a plugin '%s' already: %s; choose another name\n",
            p->name, plugin.path);
    return false;
  }
  for (size_t i = 0; i < tn_device_count(runtime); i++) {
    tn_device_info device = {.struct_size = sizeof device};
    if (tn_device_get_info(tn_device_at(runtime, i), &device) || strcmp(device.type, p->device))
      continue;
    fprintf(stderr,
            "tenon new-plugin: plugin '%s' has the device type '%s' already; choose another "
            "with --device\n",
            device.plugin, p->device);
    return false;
  }
  return true;
}

/* Where no runtime opens there is nothing to clash with. */
static bool check_free(const new_plugin *p) {
  tn_runtime *runtime;
  if (tn_runtime_open(NULL, &runtime)) return true;
  bool ok = is_free(runtime, p);
  tn_runtime_close(runtime);
  return ok;
}

/* --- renaming --- */

/* Whether `word` stands at text[at], not as a part of a longer word; identifiers fall apart
 * at '_'. */
static bool is_word(const embedded_file *f, size_t at, const char *word) {
  size_t length = strlen(word), end = at + length;
  return end <= f->bytes && !memcmp(f->text + at, word, length) &&
         (at == 0 || !isalnum(f->text[at - 1])) && (end == f->bytes || !isalnum(f->text[end]));
}

static void put_upper(const char *name, FILE *out) {
  for (; *name; name++) putc(toupper((unsigned char)*name), out);
}

static void put_renamed(const embedded_file *f, const new_plugin *p, FILE *out) {
  for (size_t at = 0; at < f->bytes;) {
    if (is_word(f, at, "template")) {
      fputs(p->name, out);
      at += strlen("template");
    } else if (is_word(f, at, "sim")) {
      fputs(p->device, out);
      at += strlen("sim");
    } else if (is_word(f, at, "SIM")) {
      put_upper(p->device, out);
      at += strlen("SIM");
    } else {
      putc(f->text[at++], out);
    }
  }
}

/* --- writing --- */

static bool path_of(const new_plugin *p, const char *file, char *path, size_t size) {
  if ((size_t)snprintf(path, size, "%s/%s", p->dir, file) < size) return true;
  errno = ENAMETOOLONG;
  return false;
}

static bool write_file(const new_plugin *p, const embedded_file *f) {
  char path[PATH_MAX];
  if (!path_of(p, f->name, path, sizeof path)) return perror("tenon new-plugin"), false;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  bool ok = out != NULL;
  if (ok) {
    put_renamed(f, p, out);
    ok = !ferror(out);
    if (fclose(out)) ok = false;
  } else if (fd >= 0) {
    close(fd);
  }
  if (!ok) fprintf(stderr, "tenon new-plugin: cannot write %s: %s\n", path, strerror(errno));
  return ok;
}

/* Takes back what was written so far. */
static void remove_files(const new_plugin *p) {
  char path[PATH_MAX];
  for (size_t i = 0; i < num_template_files; i++)
    if (path_of(p, template_files[i].name, path, sizeof path)) unlink(path);
  rmdir(p->dir);
}

static bool make_folder(const new_plugin *p) {
  if (mkdir(p->dir, 0777) == 0) return true;
  if (errno == EEXIST)
    fprintf(stderr,
            "tenon new-plugin: %s exists already and was left as it is; name a new folder with "
            "--dir\n",
            p->dir);
  else
    fprintf(stderr, "tenon new-plugin: cannot make the folder %s: %s\n", p->dir, strerror(errno));
  return false;
}

static int write_plugin(const new_plugin *p) {
  if (!make_folder(p)) return EXIT_FAILED;
  for (size_t i = 0; i < num_template_files; i++)
    if (!write_file(p, &template_files[i])) {
      remove_files(p);
      return EXIT_FAILED;
    }
  printf("%s: %zu files of a plugin '%s' with the device type '%s'. Next:\n\n"
         "  cd %s\n"
         "  meson setup build\n"
         "  ninja -C build\n"
         "  tenon check build/libtenon-%s.so --device %s\n\n"
         "README.md says what to replace first.\n",
         p->dir, num_template_files, p->name, p->device, p->dir, p->name, p->device);
  return EXIT_OK;
}

int command_new_plugin(int argc, char **argv) {
  static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
                                          {"device", required_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  new_plugin p = {0};
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h') return fputs(help_new_plugin, stdout), EXIT_OK;
    if (option == '?') return fputs(help_new_plugin, stderr), EXIT_USAGE;
    *(option == 'd' ? &p.dir : &p.device) = optarg;
  }
  if (optind + 1 != argc) return fputs(help_new_plugin, stderr), EXIT_USAGE;
  p.name = argv[optind];
  if (!p.device) p.device = p.name;
  if (!p.dir) p.dir = p.name;
  if (!is_good("name", p.name) || !is_good("device type", p.device)) return EXIT_USAGE;
  return check_free(&p) ? write_plugin(&p) : EXIT_FAILED;
}
