/* Random calls: what the parts of the fuzzing mode share. A step is one call with made-up shapes
 * and attributes, or a chain of calls on the same tensors; both can be written in one line of
 * text, which runs them again. */
#ifndef TENON_CHECK_FUZZ_H
#define TENON_CHECK_FUZZ_H

#include "../check.h"

enum { FUZZ_TEXT = 1800 };

/* How a step fails. */
typedef enum fuzz_kind {
  FUZZ_SOUND,
  FUZZ_UNREAD, /* its text means nothing */
  FUZZ_WRONG,  /* numbers, or a refusal without a name */
  FUZZ_STATUS,
  FUZZ_SIGNAL,
  FUZZ_EXIT,
  FUZZ_HANG,
} fuzz_kind;

/* What a step came to. */
typedef struct fuzz_result {
  tally tally;
  char why[1200]; /* of the first failure, "" if there was none */
} fuzz_result;

/* A step as it lies in memory: a case, or where `chained` a chain. */
typedef struct chain chain;

/* The next number of a sequence. */
uint64_t fuzz_random(uint64_t *state);
/* 0 <= i < n, n > 0. */
uint32_t fuzz_below(uint64_t *state, uint32_t n);

/* ------------------------------------------------------------- invent.c --- */

/* Makes up a call of an operator that the device has a kernel for; false where the draw gives
 * none. The same state gives the same call. */
bool invent_case(const workbench *w, const tn_operator *op, uint64_t *state, op_case *c);

/* Whether the reference prepares the call: TN_ERR_INVALID_ARGUMENT where a shape rule declines it,
 * with tn_last_error. */
tn_status invented_is_taken(const workbench *w, const op_case *c);

/* --------------------------------------------------------------- read.c --- */

/* The case that case_describe wrote; false, with why, for what it cannot have written. */
bool read_case(tn_runtime *runtime, const char *text, op_case *c, char *why, size_t size);

/* -------------------------------------------------------------- chain.c --- */

enum { CHAIN_STEPS = 24, CHAIN_TENSORS = CHAIN_STEPS };

/* One line of a chain: what, on which earlier lines' tensors, on which stream. */
typedef struct chain_line {
  uint8_t what;   /* place in chain.c's table */
  uint8_t stream; /* 0: the default one */
  uint8_t way;    /* made by the call, into a tensor, prepared, in place */
  int8_t in[2];   /* lines */
  int32_t rank;   /* of what is made from host memory */
  int64_t shape[2];
} chain_line;

struct chain {
  tn_dtype dtype;
  uint32_t count;
  uint64_t seed; /* of the numbers */
  chain_line line[CHAIN_STEPS];
};

/* Makes one up; false where the device lacks kernels for one. */
bool chain_invent(const workbench *w, const check_options *o, uint64_t *state, chain *c);
bool chain_is_text(const char *text);
void chain_write(const chain *c, char *text, size_t size);
bool chain_read(const char *text, chain *c, char *why, size_t size);
/* Runs it on the device, with streams and all, and on the reference, and compares what is left. */
void chain_run(const workbench *w, const chain *c, fuzz_result *r);
/* The chain without a line and what hangs on it; false where nothing is left. */
bool chain_without(const chain *c, uint32_t line, chain *less);

/* ------------------------------------------------------------- shrink.c --- */

/* Whether a text still fails; it writes why. */
typedef bool shrink_try_fn(void *ctx, const char *text, char *why, size_t size);
/* Makes a failing step smaller for as long as it fails, in place, until the time is over. */
void shrink_text(tn_runtime *runtime, char *text, char *why, size_t why_size, uint64_t until_ns,
                 shrink_try_fn *fails, void *ctx);

#endif
