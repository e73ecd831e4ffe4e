/* What the commands of `tenon` say of themselves: for --help, for `tenon help` and for the man
 * page, which a program prints while Tenon is built (manual.c). */
#ifndef TENON_TOOLS_HELP_H
#define TENON_TOOLS_HELP_H

#include <stdio.h>

extern const char help_info[], help_check[], help_bench[], help_run[], help_trace[], help_blas[],
    help_scan[], help_new_plugin[], help_help[];

typedef struct command_text {
  const char *name, *usage, *summary;
  const char *help; /* what --help prints; NULL where there is nothing more to say */
} command_text;

extern const command_text command_texts[];
extern const int num_command_texts;

/* environment.c: the variables of environment.def, as text for a terminal of 80 columns, as the
 * page docs/environment.md, and as the body of a man page. */
void environment_print_text(FILE *out);
void environment_print_page(FILE *out);
void environment_print_man(FILE *out);

#endif
