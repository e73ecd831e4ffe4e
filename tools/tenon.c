/*
 * tenon: the command for people at a shell. This file knows the commands' names; each
 * command lives in a file of its own.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "tenon/tenon.h"

typedef struct command {
  const char *name, *usage, *summary;
  int (*run)(int argc, char **argv);
} command;

static int command_help(int argc, char **argv);
static int command_version(int argc, char **argv);

static const command commands[] = {
    {"info", "info [-v] [--op GLOB] [...]", "plugins, devices, and which backend serves what",
     command_info},
    {"check", "check [PLUGIN.so] [...]", "holds a device's operators against the reference",
     command_check},
    {"bench", "bench [...]", "times a device's operators", command_bench},
    {"trace", "trace [-o FILE] -- PROGRAM [...]", "runs a program and writes when it computes what",
     command_trace},
    {"new-plugin", "new-plugin NAME [...]", "writes the sources of a new backend",
     command_new_plugin},
    {"help", "help", "this text", command_help},
    {"version", "version", "the library's version", command_version},
};
enum { NUM_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out) {
  fputs("usage: tenon COMMAND [OPTIONS]\n\n", out);
  for (int i = 0; i < NUM_COMMANDS; ++i)
    fprintf(out, "  tenon %-30s %s\n", commands[i].usage, commands[i].summary);
  fputs("\nTENON_DEVICE, TENON_PLUGIN_PATH and the other variables act as in any program.\n", out);
}

static int command_help(int argc, char **argv) {
  (void)argc, (void)argv;
  print_help(stdout);
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
