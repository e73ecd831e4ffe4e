#include "options.h"

#include <err.h>
#include <getopt.h>
#include <string.h>

#include "../arguments.h"

static const char usage[] =
    "usage: gpt [options] [TEXT]\n"
    "Trains a small transformer on a text file, byte by byte, and has it write some text, on\n"
    "the device that TENON_DEVICE names, or else on the best one. Without TEXT it learns from\n"
    "the English of Perl's messages (perldiag.pod, in Debian's package perl).\n"
    "\n"
    "  --size SIZE        tiny (the default) or 124M\n"
    "  --mode MODE        graph (the default), a program compiled once, or eager, call by call\n"
    "  --amp [TYPE]       compute products in bf16 (the default) or f16, which scales the\n"
    "                     loss; the scale begins anew with --load\n"
    "  --steps N          steps of the whole run (2000); 0 only writes text\n"
    "  --stop N           stop after step N of them\n"
    "  --batch N          windows of text per step (8; of 124M 16)\n"
    "  --length N         bytes of a window (64; of 124M 1024)\n"
    "  --lr X             largest learning rate (0.002; of 124M 0.0006)\n"
    "  --warm-up N        steps in which it rises (a twentieth of all)\n"
    "  --decay X          AdamW's weight decay (0.1)\n"
    "  --clip X           largest norm of the gradients (1)\n"
    "  --seed N           start values, windows and text drawn follow from it (1)\n"
    "  --load FILE        go on from a checkpoint\n"
    "  --save FILE        write a checkpoint at the end\n"
    "  --save-every N     and after every N steps\n"
    "  --losses FILE      write a table of all steps as CSV\n"
    "  --sample N         bytes to write at the end (400)\n"
    "  --prompt TEXT      what they follow (a new line)\n"
    "  --temperature X    how daring to write (0.8); 0 takes the likeliest byte\n"
    "  --top-k N          draw from the N likeliest bytes (256)\n"
    "  --no-cache         compute each byte from all before it\n"
    "  --logprobs FILE    write the log-probability of each byte written, one a line\n"
    "  --json             end with one line of JSON on standard output, the rest on\n"
    "                     standard error\n"
    "  --help             this text\n"
    "\n"
    "Ctrl-C stops after the current step and still writes what was asked for; with --load\n"
    "and the same options the run then goes on as if it had not been stopped.\n";

static bool parse_size(options *o, const char *text) {
  for (size_t i = 0; (o->size = model_size_at(i)); i++)
    if (!strcmp(o->size->name, text)) return o->size_given = true;
  warnx("--size: expected tiny or 124M, not '%s'", text);
  return false;
}

static bool parse_mode(options *o, const char *text) {
  o->recipe.eager = !strcmp(text, "eager");
  if (o->recipe.eager || !strcmp(text, "graph")) return true;
  warnx("--mode: expected graph or eager, not '%s'", text);
  return false;
}

static bool parse_file(options *o, const char *name, const char *text) {
  if (!strcmp(name, "load")) return argument_path(name, text, &o->load);
  if (!strcmp(name, "save")) return argument_path(name, text, &o->save);
  if (!strcmp(name, "losses")) return argument_path(name, text, &o->losses);
  return argument_path(name, text, &o->logprobs);
}

static bool parse_number(options *o, const char *name, const char *text) {
  recipe *r = &o->recipe;
  const int64_t most = INT32_MAX;
  if (!strcmp(name, "steps")) return argument_integer(name, text, 0, 10000000, &r->steps);
  if (!strcmp(name, "stop")) return argument_integer(name, text, 1, most, &o->stop);
  if (!strcmp(name, "batch")) return argument_integer(name, text, 1, 1 << 16, &r->batch);
  if (!strcmp(name, "length")) return argument_integer(name, text, 1, most, &r->length);
  if (!strcmp(name, "lr")) return argument_positive(name, text, &r->lr);
  if (!strcmp(name, "warm-up")) return argument_integer(name, text, 0, most, &r->warm_up);
  if (!strcmp(name, "decay")) return argument_not_negative(name, text, &r->decay);
  if (!strcmp(name, "clip")) return argument_positive(name, text, &r->clip);
  if (!strcmp(name, "seed")) return o->seed_given = true, argument_seed(name, text, &o->seed);
  if (!strcmp(name, "save-every")) return argument_integer(name, text, 1, most, &o->save_every);
  if (!strcmp(name, "sample")) return argument_integer(name, text, 0, most, &o->sample.bytes);
  if (!strcmp(name, "temperature"))
    return argument_not_negative(name, text, &o->sample.temperature);
  return argument_integer(name, text, 1, BYTES, &o->sample.top_k);
}

static bool parse_option(options *o, int kind, const char *name, const char *text) {
  if (kind == 'n') return parse_number(o, name, text);
  if (kind == 'f') return parse_file(o, name, text);
  if (!strcmp(name, "size")) return parse_size(o, text);
  if (!strcmp(name, "mode")) return parse_mode(o, text);
  if (!strcmp(name, "prompt")) o->sample.prompt = text;
  if (!strcmp(name, "no-cache")) o->sample.cache = false;
  if (!strcmp(name, "json")) o->json = true;
  return true;
}

static bool consistent(options *o, int argc, char **argv) {
  if (optind < argc) o->text = argv[optind++];
  if (optind < argc) {
    warnx("unexpected argument '%s'; gpt --help lists the options", argv[optind]);
    return false;
  }
  if (o->load && o->seed_given) {
    warnx("--seed and --load: a checkpoint brings its own seed; leave --seed out");
    return false;
  }
  if (o->save_every && !o->save) {
    warnx("--save-every: where to is missing; name a file with --save");
    return false;
  }
  return true;
}

int options_parse(options *o, int argc, char **argv) {
  /* n: a number, f: a file, o: else */
  static const struct option known[] = {{"steps", required_argument, NULL, 'n'},
                                        {"stop", required_argument, NULL, 'n'},
                                        {"batch", required_argument, NULL, 'n'},
                                        {"length", required_argument, NULL, 'n'},
                                        {"lr", required_argument, NULL, 'n'},
                                        {"warm-up", required_argument, NULL, 'n'},
                                        {"decay", required_argument, NULL, 'n'},
                                        {"clip", required_argument, NULL, 'n'},
                                        {"seed", required_argument, NULL, 'n'},
                                        {"save-every", required_argument, NULL, 'n'},
                                        {"sample", required_argument, NULL, 'n'},
                                        {"temperature", required_argument, NULL, 'n'},
                                        {"top-k", required_argument, NULL, 'n'},
                                        {"load", required_argument, NULL, 'f'},
                                        {"save", required_argument, NULL, 'f'},
                                        {"losses", required_argument, NULL, 'f'},
                                        {"logprobs", required_argument, NULL, 'f'},
                                        {"size", required_argument, NULL, 'o'},
                                        {"mode", required_argument, NULL, 'o'},
                                        {"prompt", required_argument, NULL, 'o'},
                                        {"no-cache", no_argument, NULL, 'o'},
                                        {"json", no_argument, NULL, 'o'},
                                        {"amp", optional_argument, NULL, 'a'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  *o = (options){.size = model_size_at(0), .seed = 1};
  o->recipe = (recipe){.steps = 2000, .warm_up = -1, .decay = 0.1, .clip = 1};
  o->sample =
      (sampler){.prompt = "", .bytes = 400, .temperature = 0.8, .top_k = BYTES, .cache = true};
  int index = 0, c;
  while ((c = getopt_long(argc, argv, "h", known, &index)) != -1) {
    if (c == 'h') return fputs(usage, stdout), 0;
    bool taken = false;
    if (c == 'a') {
      if (!argument_precision("amp", optarg, argv[optind], &o->recipe.products, &taken)) return 2;
      optind += taken;
      continue;
    }
    if (c == '?' || !parse_option(o, c, known[index].name, optarg)) return 2;
  }
  return consistent(o, argc, argv) ? -1 : 2;
}

bool options_complete(options *o, const model_size *size, int64_t length) {
  recipe *r = &o->recipe;
  if (o->size_given && o->size != size) {
    warnx("--size %s: %s has a model of size %s", o->size->name, o->load, size->name);
    return false;
  }
  o->size = size;
  bool tiny = size == model_size_at(0);
  if (!r->batch) r->batch = tiny ? 8 : 16;
  if (!r->length) r->length = length ? length : size->context;
  if (r->lr == 0) r->lr = tiny ? 2e-3 : 6e-4;
  if (r->warm_up < 0) r->warm_up = r->steps / 20;
  o->sample.context = r->length;
  if (r->length <= size->context) return true;
  warnx("--length: the context of %s is %lld bytes, not %lld", size->name, (long long)size->context,
        (long long)r->length);
  return false;
}
