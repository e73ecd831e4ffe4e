#include "options.h"

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "../arguments.h"

#define DEFAULT_DATA "/usr/share/datasets/fashion-mnist"

static const char usage[] =
    "usage: train [options]\n"
    "Trains a small convolutional network to tell images apart, on the device that\n"
    "TENON_DEVICE names, or else on the best one.\n"
    "\n"
    "  --mode MODE     graph (the default), a program compiled once, or eager, call by call\n"
    "  --amp [TYPE]    compute convolutions and products in bf16 (the default) or f16, which\n"
    "                  scales the loss; the scale begins anew with --load\n"
    "  --epochs N      passes over the training images (3); 0 only tests\n"
    "  --batch N       images per step (64)\n"
    "  --lr X          Adam's learning rate (0.001)\n"
    "  --seed N        start values, order of images and dropout follow from it (1)\n"
    "  --data DIR      folder with the four gzipped IDX files\n"
    "                  (" DEFAULT_DATA ")\n"
    "  --load FILE     go on from a checkpoint\n"
    "  --save FILE     write a checkpoint at the end\n"
    "  --plot FILE     draw loss and accuracy as SVG\n"
    "  --losses FILE   write the loss of every step, one a line\n"
    "  --steps N       stop after N steps and do not test\n"
    "  --json          end with one line of JSON on standard output, the rest on\n"
    "                  standard error\n"
    "  --help          this text\n"
    "\n"
    "Ctrl-C stops after the current step and still writes what was asked for.\n";

static bool parse_mode(options *o, const char *text) {
  o->eager = !strcmp(text, "eager");
  if (o->eager || !strcmp(text, "graph")) return true;
  warnx("--mode: expected graph or eager, not '%s'", text);
  return false;
}

static bool parse_option(options *o, const char *name, const char *text) {
  if (!strcmp(name, "mode")) return parse_mode(o, text);
  if (!strcmp(name, "epochs")) return argument_integer(name, text, 0, 1000000, &o->epochs);
  if (!strcmp(name, "batch")) return argument_integer(name, text, 1, 1 << 20, &o->batch);
  if (!strcmp(name, "steps")) return argument_integer(name, text, 1, INT32_MAX, &o->steps);
  if (!strcmp(name, "lr")) return argument_positive(name, text, &o->lr);
  if (!strcmp(name, "seed")) return o->seed_given = true, argument_seed(name, text, &o->seed);
  if (!strcmp(name, "data")) return argument_path(name, text, &o->data);
  if (!strcmp(name, "save")) return argument_path(name, text, &o->save);
  if (!strcmp(name, "load")) return argument_path(name, text, &o->load);
  if (!strcmp(name, "plot")) return argument_path(name, text, &o->plot);
  if (!strcmp(name, "losses")) return argument_path(name, text, &o->losses);
  if (!strcmp(name, "json")) o->json = true;
  return true;
}

static bool consistent(const options *o, int argc, char **argv) {
  if (optind < argc) {
    warnx("unexpected argument '%s'; train --help lists the options", argv[optind]);
    return false;
  }
  if (o->load && o->seed_given) {
    warnx("--seed and --load: a checkpoint brings its own seed; leave --seed out");
    return false;
  }
  return true;
}

int options_parse(options *o, int argc, char **argv) {
  static const struct option known[] = {{"mode", required_argument, NULL, 'o'},
                                        {"epochs", required_argument, NULL, 'o'},
                                        {"batch", required_argument, NULL, 'o'},
                                        {"steps", required_argument, NULL, 'o'},
                                        {"lr", required_argument, NULL, 'o'},
                                        {"seed", required_argument, NULL, 'o'},
                                        {"data", required_argument, NULL, 'o'},
                                        {"save", required_argument, NULL, 'o'},
                                        {"load", required_argument, NULL, 'o'},
                                        {"plot", required_argument, NULL, 'o'},
                                        {"losses", required_argument, NULL, 'o'},
                                        {"json", no_argument, NULL, 'o'},
                                        {"amp", optional_argument, NULL, 'a'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *o = (options){.epochs = 3, .batch = 64, .lr = 1e-3, .seed = 1, .data = DEFAULT_DATA};
  int index = 0, c;
  while ((c = getopt_long(argc, argv, "h", known, &index)) != -1) {
    if (c == 'h') return fputs(usage, stdout), 0;
    bool taken = false;
    if (c == 'a') {
      if (!argument_precision("amp", optarg, argv[optind], &o->products, &taken)) return 2;
      optind += taken;
      continue;
    }
    if (c != 'o' || !parse_option(o, known[index].name, optarg)) return 2;
  }
  return consistent(o, argc, argv) ? -1 : 2;
}
