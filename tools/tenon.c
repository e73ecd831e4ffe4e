/*
 * tenon: the command for people at a shell. This file knows the commands' names; each
 * command lives in a file of its own.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "help.h"
#include "tenon/tenon.h"

typedef struct command {
  const char *name; /* as in help.c, which has its texts */
  int (*run)(int argc, char **argv);
} command;

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const command commands[] = {
    {"info", command_info},       {"check", command_check},           {"bench", command_bench},
    {"run", command_run},         {"trace", command_trace},           {"blas", command_blas},
    {"scan", command_scan},       {"new-plugin", command_new_plugin}, {"help", command_help},
    {"version", command_version},
};
enum { NUM_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out) {
  fputs("usage: tenon COMMAND [OPTIONS]\n\n", out);
  for (int i = 0; i < num_command_texts; ++i)
    fprintf(out, "  tenon %-30s %s\n", command_texts[i].usage, command_texts[i].summary);
  fputs("\nTENON_DEVICE, TENON_PLUGIN_PATH and the other variables act as in any program: `tenon\n"
        "help env` lists them.\n",
        out);
}

/* What NAME --help prints; a line where that is all. */
static int print_help_of(const char *name) {
  for (int i = 0; i < num_command_texts; ++i) {
    const command_text *c = &command_texts[i];
    if (strcmp(c->name, name) != 0) continue;
    if (c->help)
      fputs(c->help, stdout);
    else
      printf("usage: tenon %s\n\n%s\n", c->usage, c->summary);
    return EXIT_OK;
  }
  fprintf(stderr, "tenon help: there is no command '%s'; `tenon help` lists them\n", name);
  return EXIT_USAGE;
}

static int command_help(int argc, char **argv) {
  if (argc > 2) return fputs(help_help, stderr), EXIT_USAGE;
  if (argc == 1)
    print_help(stdout);
  else if (strcmp(argv[1], "env") == 0)
    environment_print_text(stdout);
  else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
    fputs(help_help, stdout);
  else
    return print_help_of(argv[1]);
  return EXIT_OK;
}

static int command_version(int argc, char **argv) {
  (void)argc, (void)argv;
  printf("tenon %s\n", tn_version());
  return EXIT_OK;
}

static const command *find_command(const char *name) {
  static const char *const options[][2] = {
      {"--help", "help"}, {"-h", "help"}, {"--version", "version"}, {"-V", "version"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; ++i)
    if (strcmp(name, options[i][0]) == 0) name = options[i][1];
  for (int i = 0; i < NUM_COMMANDS; ++i)
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const command *found = find_command(argv[1]);
  if (!found) {
    fprintf(stderr, "tenon: unknown command '%s'; `tenon help` lists them\n", argv[1]);
    return EXIT_USAGE;
  }
  int status = found->run(argc - 1, argv + 1);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("tenon: cannot write the output");
    return EXIT_FAILED;
  }
  return status;
}
