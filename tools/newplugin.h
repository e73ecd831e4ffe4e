/* The files of plugins/template/, as embed.c printed them into the program. */
#ifndef TENON_TOOLS_NEWPLUGIN_H
#define TENON_TOOLS_NEWPLUGIN_H

#include <stddef.h>

typedef struct embedded_file {
  const char *name;
  const unsigned char *text;
  size_t bytes;
} embedded_file;

extern const embedded_file template_files[];
extern const size_t num_template_files;

#endif
