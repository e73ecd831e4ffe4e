/*
 * The operator table as the printers of opgen see it, and what they share.
 */
#ifndef TENON_API_OPGEN_H
#define TENON_API_OPGEN_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in tenon/plugin.h, which is not printed yet when this is compiled. */
#define TN_OPERATOR_ELEMENTWISE 1
#define TN_OPERATOR_RANDOM 2
#define TN_OPERATOR_ACCUMULATES 4
#define TN_OPERATOR_DATA_DEPENDENT 8
#define TN_OPERATOR_TYPED 16
#define TN_OPERATOR_ZERO_SIGN_OPEN 32
#define TN_OPERATOR_NEEDS_ELEMENTS 64
#define TN_ARG_LIST 1
#define TN_ARG_OR_ONE 2
enum { TN_BOUND_NONE, TN_BOUND_CLOSED, TN_BOUND_OPEN };
enum { TN_USE_REPLACES, TN_USE_ADDS, TN_USE_SKIPS };

typedef struct row {
  int id;
  const char *name, *NAME;
  int since, flags;
  double tolerance;
  const char *types[4];
  int shape;
  const char *doc, *maths, *source;
  const char *file;   /* ".../ops/binary.def" */
  const char *fields; /* as written in ops.def */
} row;

typedef struct arg {
  char kind; /* i input, p optional input, u in-out, o output, q optional output */
  const char *name, *type, *doc;
  int flags;
  double low, high;
} arg;

typedef struct attr {
  const char *kind, *name, *value, *doc;
  double low, high;
  int low_bound, high_bound;
  bool appended;   /* after the operator was released */
  const char *was; /* the name that it had before, or NULL */
  int use;         /* of a tensor: TN_USE_* */
  const char *of;  /* likewise: the attribute that it belongs to, or NULL */
} attr;

/* A shape rule of shapes.def. */
typedef struct shape {
  int number;
  const char *name, *NAME, *doc;
} shape;

/* A set of element types: TN_SET_<NAME> and its types' names. */
typedef struct type_set {
  const char *NAME, *types;
} type_set;

typedef struct row_lists {
  const arg *args;
  const attr *attrs;
} row_lists;

enum { TABLE_MAX = 1024 }; /* rows, at most */

/* table.c: the table in the order of its numbers, whatever files its rows stand in, and the
 * shape rules. The lists end with an argument of kind 0, an attribute without a name. */
extern row rows[];
extern row_lists lists[];
extern const shape shapes[];
extern const type_set sets[];
extern const int num_rows, num_shapes, num_sets;
/* Fills rows and lists; false, having said so, where two rows have one number. */
bool table_sort(void);

/* text.c */
extern const char banner[];
/* The C type of an attribute's kind, and the extent of its field. */
const char *c_type(const char *kind);
const char *extent(const attr *a);
bool is_output(char kind);
bool is_list(const arg *a);
/* The last list among an operator's arguments, NULL if there is none. */
const arg *last_list(int i);
/* "optional, ", "updated, " and the like. */
const char *kind_word(const arg *a);
/* The type of an argument of row i: "T", "I64", "T, or what attrs->dtype says". */
const char *type_text(int i, const arg *a);
/* tn_foo(...) of row i, without and with a semicolon. */
void print_signature(int i);
void print_prototype(int i);
/* abi.c: where an attribute lies in its struct, and its bytes. */
int attr_offset(const attr *attrs, const attr *a);
int attr_size(const attr *a, int *align);
/* Bytes of the struct without the attributes that were appended; 0 if there are none. */
int attrs_known(const attr *attrs);

/* A page of the manual: the rows of one file of ops/, or of several. */
typedef struct page {
  const char *name, *title, *about;
  const char *files; /* "binary power" */
} page;

/* pages.c */
extern const page pages[];
extern const int num_pages;
bool page_has(const page *p, const row *r);
/* False, having said so, where a row is on no page or on two. */
bool pages_check(void);

/* The printers; opgen.c says what each prints. */
void print_types(void);
void print_functions(void);
void print_cpp(void);
void print_index(void);
void print_page(const page *p);
void print_abi(void);
void print_schema(void);
void print_bodies(void);
void print_op_rows(void);
void print_elementwise(void);
void print_reductions(void);
void print_expressions(void);
void print_gradients(void);
void print_rules(void);

#endif
