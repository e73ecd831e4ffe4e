/* The command line of gpt: parsed and checked as far as it can be by itself. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include "sample.h"
#include "trainer.h"

typedef struct options {
  const char *text; /* NULL: the default one */
  const model_size *size;
  bool size_given, seed_given;
  recipe recipe; /* numbers that were not given are the size's defaults, see options_complete */
  int64_t stop;  /* after this step, as Ctrl-C does; 0: at the end */
  int64_t save_every; /* 0: at the end alone */
  uint64_t seed;
  const char *save, *load, *losses, *logprobs; /* NULL where not wanted */
  sampler sample;
  bool json;
} options;

/* Fills o. Returns -1 to go on, or the status to exit with: 0 after --help, 2 after
 * a mistake, which is told on standard error. */
int options_parse(options *o, int argc, char **argv);

/* Fills in what depends on the size, once it is known, and on the windows that the model has seen,
 * 0 where it has seen none; false after telling of a mistake. */
bool options_complete(options *o, const model_size *size, int64_t length);

#endif
