/*
 * One case of an operator test: an operator, element types, shapes, attributes and how
 * inputs are drawn. A case says nothing of devices or memory layouts: those are the
 * variants in which run_case.c runs it.
 */
#ifndef TENON_TESTS_OP_CASE_H
#define TENON_TESTS_OP_CASE_H

#include "tenon/plugin.h"

/* How numbers are drawn. Integers: small ones, all bits, or extremes. */
typedef enum value_kind {
  VALUES_PLAIN,   /* -1..1, or the operator's domain */
  VALUES_RANGE,   /* -8..8 */
  VALUES_EXP,     /* -110..95, around the ends of exp in float32 */
  VALUES_WIDE,    /* sign * 2^-20..20 */
  VALUES_SPECIAL, /* half of them 0, -0, denormal, greatest, infinite, NaN */
  VALUES_SPARSE,  /* one in 16 infinite, NaN or 0 */
  VALUES_BITS,    /* any bits; in 16-bit floats, all values in turn */
  VALUES_TIES,    /* -2..2 in whole numbers */
  /* The first input's, or q's and k's; what else an operator has is plain. See extreme.c. */
  VALUES_FAR,      /* a few units about 1e5 or -1e5; in 16 bits some units in the last place */
  VALUES_LOGITS,   /* -1e4..1e4 */
  VALUES_HUGE,     /* -1e20..1e20, whose squares float32 does not hold; in float16 3e4 */
  VALUES_TINY,     /* -1e-25..1e-25, the same downwards; in float16 2^-14 */
  VALUES_DENORMAL, /* up to 1000 times the least */
  VALUES_CANCEL, /* whole numbers up to 4000, in float16 200, of either sign in turn: exact sums */
  VALUES_TWO_SCALES, /* whole numbers times 2^60, and times 2^-60 in the second input */
  VALUES_FINE,       /* -2^-7..2^-5: a million of them fit float16 */
  VALUES_NEAR_MOST,  /* integers: the greatest but few; of wide types 2^20 and some */
  /* Where two terms could nearly cancel, and leave no digits to compare. */
  VALUES_POSITIVE, /* 0.5..2, or the argument's domain */
  VALUES_WEIGHTED, /* the same, but the first input -8..8 in whole numbers */
  VALUE_KINDS,
} value_kind;

/* Ways to run a case; see variant_name. */
enum {
  VARIANT_MADE = 1u << 0,            /* outputs are made by the call */
  VARIANT_GIVEN = 1u << 1,           /* contiguous, one element off alignment */
  VARIANT_PERMUTED = 1u << 2,        /* axes of inputs reversed in memory, stride 0 kept */
  VARIANT_SLICED = 1u << 3,          /* inputs and outputs with steps and gaps */
  VARIANT_IN_PLACE = 1u << 4,        /* output is the first input that fits */
  VARIANT_IN_PLACE_SLICED = 1u << 5, /* the same with gaps */
  VARIANT_CHANNELS_LAST = 1u << 6,   /* rank 4 as n, h, w, c in memory */
  VARIANT_PREPARED = 1u << 7,        /* tn_prepare, then tn_run twice */
  VARIANT_TRAPPED = 1u << 8,         /* every tensor ends, or begins, at a page that traps */
  VARIANT_TOLD = 1u << 9,            /* numbers of attributes lie on the device: told.h */
  VARIANTS = 10,
};
#define VARIANTS_ALL (VARIANT_MADE | VARIANT_GIVEN | VARIANT_PERMUTED | VARIANT_SLICED)
#define VARIANTS_IN_PLACE (VARIANT_IN_PLACE | VARIANT_IN_PLACE_SLICED)

/* Most arguments of a case; each tensor of a list is one. */
enum { CASE_ARGS = 40 };

typedef struct op_case op_case;

/* Draws one integer for the element at index at[] of argument `arg`: for arguments whose
 * numbers are places in another tensor. */
typedef int64_t (*case_index)(const op_case *c, uint32_t arg, const int64_t *at, uint64_t random);

typedef struct case_arg {
  bool absent;  /* optional, and not passed or not wanted */
  int32_t rank; /* of inputs and in-out arguments; outputs follow from the operator */
  int64_t shape[TN_MAX_RANK];
  uint32_t expanded; /* bit per axis along which elements repeat */
  case_index index;  /* NULL: drawn as op_case.values says */
} case_arg;

struct op_case {
  const tn_operator *op;
  tn_dtype types[TN_MAX_TYPE_VARS];
  case_arg arg[CASE_ARGS];
  _Alignas(16) unsigned char attrs[256];
  value_kind values;
  uint64_t seed;
  uint32_t variants;
  bool typical;  /* small and plain: what bad calls start from */
  bool invented; /* at random: where its shape rule declines it, it is no case */
  double flops;  /* of the bench's cases: multiplications and additions; 0 = not counted */
};

/* Gets each case in turn. */
typedef struct case_sink {
  void (*take)(void *ctx, const op_case *c);
  void *ctx;
} case_sink;

/* The schema of a call of an operator with lists: every list is `length` arguments x[0],
 * x[1], ... instead, still marked TN_ARG_LIST. Cases and everything that runs them know
 * only such schemas. Kept until the process ends. An operator without lists is returned as it is.
 */
const tn_operator *op_of_length(const tn_operator *op, uint32_t length);

/* A case with default attributes, every argument present and of rank 0. */
op_case case_begin(const tn_operator *op, const tn_dtype *types);
void case_shape(op_case *c, uint32_t arg, int32_t rank, const int64_t *shape);
/* Sets an attribute by name; index 1 is a pair's second number. */
void case_set(op_case *c, const char *attr, int index, double value);
void case_set_pair(op_case *c, const char *attr, const int64_t *pair);
bool case_has(const op_case *c, const char *attr);
double case_get(const op_case *c, const char *attr, int index);
tn_axes *case_axes(op_case *c);

bool arg_is_input(const tn_arg *arg);
bool arg_is_output(const tn_arg *arg);
tn_dtype case_dtype(const op_case *c, uint32_t arg);
/* The attribute that may say the type of argument `arg`, or NULL. */
const tn_attr *case_result(const op_case *c, uint32_t arg);
/* Gives such an attribute, if there is one, its values in turn; the first leaves the argument its
 * own type, where it can be had. */
void case_widen(op_case *c, unsigned round);
int64_t case_elements(const case_arg *arg);
/* Number of inputs; in-out arguments and outputs follow. */
uint32_t op_inputs(const tn_operator *op);

/* Writes the case in one line: operator, types, shapes, attributes, seed. */
void case_describe(const op_case *c, char *text, size_t size);
/* Its attributes that are not at their defaults, a space before each; size > 0. */
void case_describe_given(const op_case *c, char *text, size_t size);
const char *variant_name(uint32_t variant);
/* "range" and the like, as case_describe writes it; VALUES_PLAIN for what it does not. */
value_kind values_named(const char *name);

/* Fills `data`, row-major, with the case's numbers for argument `arg`. The same case
 * gives the same numbers whatever the layout. */
void case_fill(const op_case *c, uint32_t arg, void *data);
/* The same numbers from element `first` on, so that threads can share a large argument. */
void case_fill_part(const op_case *c, uint32_t arg, int64_t first, int64_t count, void *data);

/* near_ties.c: numbers that rounding twice takes elsewhere than rounding once. */
int64_t near_tie_int(tn_dtype dtype, uint64_t random);
double near_tie_float(uint64_t random);

/* The next number of a sequence that begins anywhere (splitmix64). */
uint64_t case_mix(uint64_t x);

/* All cases of an operator for one choice of element types, by its shape rule. */
void cases_emit(const tn_operator *op, const tn_dtype *types, case_sink sink);

/* Those of every combination of the least sizes; see combine.h. */
void cases_degenerate(const tn_operator *op, const tn_dtype *types, case_sink sink);

/* Those with numbers that float32 has no room for; see extreme.c. */
void cases_extreme(const tn_operator *op, const tn_dtype *types, case_sink sink);

/* The sizes at which the bench times an operator, smallest first; `large` is the number
 * of elements that keeps the device busy. */
void sizes_emit(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink);

/* The families of shapes.def, called by the three above; several rules share one. */
#define SHAPE(number, name, NAME, family, ...)                                                     \
  void cases_##family(const tn_operator *op, const tn_dtype *types, case_sink sink);               \
  void degenerate_##family(const tn_operator *op, const tn_dtype *types, case_sink sink);          \
  void sizes_##family(const tn_operator *op, const tn_dtype *types, int64_t large, case_sink sink);
#include "shapes.def"

#endif
