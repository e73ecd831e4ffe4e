/* tenon run, where libtenon-onnx was not built. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "help.h"

int command_run(int argc, char **argv) {
  if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
    return fputs(help_run, stdout), EXIT_OK;
  fputs("tenon run: this tenon was built without libtenon-onnx; protobuf-c was not there\n"
        "(libprotobuf-c-dev and protobuf-c-compiler on Debian)\n",
        stderr);
  return EXIT_FAILED;
}
