/* tenon run, where libtenon-onnx was not built. */
#include <stdio.h>

#include "command.h"

int command_run(int argc, char **argv) {
  (void)argc, (void)argv;
  fputs("tenon run: this tenon was built without libtenon-onnx; protobuf-c was not there\n"
        "(libprotobuf-c-dev and protobuf-c-compiler on Debian)\n",
        stderr);
  return EXIT_FAILED;
}
