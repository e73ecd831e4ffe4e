/*
 * The files of a new plugin, written out. In them the word "template" stands for the plugin's
 * name, "TEMPLATE" for that in capitals, "sim" and "SIM" for the device type; they do not use
 * these words otherwise. Each has a build file for meson and one for CMake, of which one is
 * written, and a README.md whose commands are meson's.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "newplugin.h"

/* --- what stands in their place --- */

/* Whether text[at] begins with the words. */
static bool has_words(const embedded_file *f, size_t at, const char *words) {
  size_t length = strlen(words);
  return at + length <= f->bytes && !memcmp(f->text + at, words, length);
}

/* Not as a part of a longer word; identifiers fall apart at '_'. */
static bool is_word(const embedded_file *f, size_t at, const char *word) {
  size_t end = at + strlen(word);
  return has_words(f, at, word) && (at == 0 || !isalnum(f->text[at - 1])) &&
         (end == f->bytes || !isalnum(f->text[end]));
}

static void put(const char *text, bool upper, FILE *out) {
  for (; *text; text++) putc(upper ? toupper((unsigned char)*text) : *text, out);
}

/* The bytes of a name that were replaced, 0 for none. */
static size_t put_name(const embedded_file *f, size_t at, const new_plugin *p, FILE *out) {
  const struct {
    const char *word, *name;
    bool upper;
  } names[] = {{"template", p->name, false},
               {"TEMPLATE", p->name, true},
               {"sim", p->device, false},
               {"SIM", p->device, true}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].name && is_word(f, at, names[i].word)) {
      put(names[i].name, names[i].upper, out);
      return strlen(names[i].word);
    }
  return 0;
}

/* The same for a command of meson's, in CMake's words. Longer ones first. */
static size_t put_command(const embedded_file *f, size_t at, FILE *out) {
  static const char *const commands[][2] = {
      {"meson setup build", "cmake -B build"},
      {"ninja -C build install", "cmake --install build"},
      {"ninja -C build", "cmake --build build"},
      {"meson test -C build", "ctest --test-dir build"},
      {"PKG_CONFIG_PATH=PREFIX/lib/pkgconfig", "CMAKE_PREFIX_PATH=PREFIX"},
  };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (has_words(f, at, commands[i][0])) {
      put(commands[i][1], false, out);
      return strlen(commands[i][0]);
    }
  return 0;
}

static void put_renamed(const embedded_file *f, const new_plugin *p, FILE *out) {
  bool commands = p->cmake && strcmp(f->name, "README.md") == 0;
  for (size_t at = 0; at < f->bytes;) {
    size_t done = put_name(f, at, p, out);
    if (!done && commands) done = put_command(f, at, out);
    if (!done) putc(f->text[at], out);
    at += done ? done : 1;
  }
}

/* --- writing --- */

static bool is_wanted(const embedded_file *f, const new_plugin *p) {
  return strcmp(f->name, p->cmake ? "meson.build" : "CMakeLists.txt") != 0;
}

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
static void remove_files(const skeleton *files, const new_plugin *p) {
  char path[PATH_MAX];
  for (size_t i = 0; i < files->count; i++)
    if (path_of(p, files->files[i].name, path, sizeof path)) unlink(path);
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

size_t skeleton_write(const skeleton *files, const new_plugin *p) {
  size_t written = 0;
  if (!make_folder(p)) return 0;
  for (size_t i = 0; i < files->count; i++) {
    if (!is_wanted(&files->files[i], p)) continue;
    if (!write_file(p, &files->files[i])) return remove_files(files, p), (size_t)0;
    written++;
  }
  return written;
}
