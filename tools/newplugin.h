/* The files of plugins/template/ and of plugins/skeletons/, as embed.c printed them into the
 * program, and who writes them out under other names. */
#ifndef TENON_TOOLS_NEWPLUGIN_H
#define TENON_TOOLS_NEWPLUGIN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct embedded_file {
  const char *name;
  const unsigned char *text;
  size_t bytes;
} embedded_file;

typedef struct skeleton {
  const embedded_file *files;
  size_t count;
} skeleton;

extern const skeleton skeleton_backend, skeleton_kernels, skeleton_operator, skeleton_layer;

/* What is written: for which names, where, and with which of the two build files. */
typedef struct new_plugin {
  const char *name, *device, *dir;
  bool cmake;
} new_plugin;

/* skeletons.c: makes the folder and its files; how many, or 0 when it failed, having said why and
 * left nothing behind. */
size_t skeleton_write(const skeleton *files, const new_plugin *p);

#endif
