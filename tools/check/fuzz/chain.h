/* What the parts of chains share: what a line may do, and what is known before it runs. */
#ifndef TENON_CHECK_CHAIN_H
#define TENON_CHECK_CHAIN_H

#include "fuzz.h"

enum { STREAMS = 3, CHAIN_CALLS = 15 };
enum { WAY_MADE, WAY_GIVEN, WAY_PREPARED, WAY_IN_PLACE, WAYS };
extern const char *const chain_ways[WAYS];

/* What a line does. */
typedef enum line_kind {
  KIND_NEW,
  KIND_UNARY,
  KIND_BINARY,
  KIND_SUM,
  KIND_MATMUL,
  KIND_SLICE,
  KIND_TURN,
  KIND_FREE
} line_kind;

typedef struct chain_call {
  const char *name;
  line_kind kind;
  uint32_t op;
} chain_call;
extern const chain_call chain_calls[CHAIN_CALLS];

/* What is known of a line's tensor before anything runs. */
typedef struct known {
  bool there; /* a tensor, not freed yet */
  int32_t rank;
  int64_t shape[2];
  double most;   /* no element is larger */
  uint32_t root; /* the line whose memory it is */
  bool is_view;
} known;

/* How many earlier lines one of this kind names. */
uint32_t chain_inputs(line_kind kind);
/* Whether line `at` makes sense behind those before it; says what comes of it. */
bool chain_infer(const chain *c, uint32_t at, known *all);
/* Every line of it. */
bool chain_is_sound(const chain *c);

#endif
