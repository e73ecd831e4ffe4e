/* Reading einsum's subscripts; see einsum.h. */
#include <inttypes.h>
#include <string.h>

#include "dispatcher/composite/einsum.h"

/* A term of the equation: the subscripts of one operand, or of the result. */
typedef struct term {
  const char *at, *end;
} term;

static int label_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return 26 + c - 'a';
  return -1;
}

static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

static bool is_ellipsis(const char *at, const char *end) {
  return end - at >= 3 && at[0] == '.' && at[1] == '.' && at[2] == '.';
}

/* How many letters a term has, and whether "..."; false where anything else stands in it. */
static bool count_letters(term t, int32_t *letters, bool *ellipsis) {
  *letters = 0;
  *ellipsis = false;
  for (const char *at = t.at; at < t.end; ++at) {
    if (*at == ' ') continue;
    if (label_of(*at) >= 0) {
      ++*letters;
    } else if (is_ellipsis(at, t.end) && !*ellipsis) {
      *ellipsis = true;
      at += 2;
    } else {
      return false;
    }
  }
  return true;
}

static tn_status refuse(const char *equation, const char *why) {
  return fail(TN_ERR_INVALID_ARGUMENT, "tn_einsum: \"%.100s\": %s", equation, why);
}

/* The labels of a term of which "..." stands for `dots` axes. pre: they fit. */
static void read_term(term t, int32_t dots, einsum_axes *axes) {
  axes->rank = 0;
  for (const char *at = t.at; at < t.end; ++at) {
    const int label = label_of(*at);
    if (label >= 0) axes->label[axes->rank++] = (uint8_t)label;
    if (*at != '.') continue;
    for (int32_t i = dots; i > 0; --i)
      axes->label[axes->rank++] = (uint8_t)(EINSUM_LETTERS + i - 1);
    at += 2;
  }
}

/* Adds the sizes of an operand's axes: equal ones, or 1. */
static tn_status add_sizes(einsum_plan *p, size_t number, const tn_tensor *t) {
  const einsum_axes *axes = &p->in[number];
  const int64_t *shape = tn_tensor_shape(t);
  for (int32_t i = 0; i < axes->rank; ++i) {
    const int label = axes->label[i];
    int64_t *size = &p->size[label];
    if (*size < 0 || *size == 1) *size = shape[i];
    if (shape[i] == *size || shape[i] == 1) continue;
    if (label >= EINSUM_LETTERS)
      return fail(TN_ERR_INVALID_ARGUMENT,
                  "tn_einsum: operand %zu has %" PRId64 " along an axis of \"...\" where another "
                  "has %" PRId64,
                  number, shape[i], *size);
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_einsum: operand %zu has %" PRId64 " along %c where another axis has %" PRId64,
                number, shape[i], letter_of(label), *size);
  }
  return TN_OK;
}

static tn_status read_operand(const char *equation, term t, size_t number, const tn_tensor *operand,
                              einsum_plan *p, int32_t *dots) {
  int32_t letters;
  bool ellipsis;
  const int32_t rank = tn_tensor_rank(operand);
  if (!count_letters(t, &letters, &ellipsis))
    return refuse(equation, "subscripts are letters, and \"...\" once in each");
  if (letters > rank || (letters < rank && !ellipsis))
    return fail(TN_ERR_INVALID_ARGUMENT,
                "tn_einsum: \"%.100s\": operand %zu has %d axes and subscripts for %d", equation,
                number, rank, letters);
  if (rank - letters > *dots) *dots = rank - letters;
  read_term(t, rank - letters, &p->in[number]);
  return add_sizes(p, number, operand);
}

/* Without "->": the axes of "...", then the letters that stand once, in the alphabet's order. */
static tn_status implicit_output(const char *equation, int32_t dots, einsum_plan *p) {
  int32_t times[EINSUM_LETTERS] = {0};
  for (size_t i = 0; i < p->count; ++i)
    for (int32_t k = 0; k < p->in[i].rank; ++k)
      if (p->in[i].label[k] < EINSUM_LETTERS) ++times[p->in[i].label[k]];
  for (int32_t i = dots; i > 0; --i)
    p->out.label[p->out.rank++] = (uint8_t)(EINSUM_LETTERS + i - 1);
  for (int label = 0; label < EINSUM_LETTERS; ++label) {
    if (times[label] != 1) continue;
    if (p->out.rank == TN_MAX_RANK) return refuse(equation, "the result has more than 8 axes");
    p->out.label[p->out.rank++] = (uint8_t)label;
  }
  return TN_OK;
}

static tn_status explicit_output(const char *equation, term t, int32_t dots, einsum_plan *p) {
  int32_t letters;
  bool ellipsis;
  if (!count_letters(t, &letters, &ellipsis))
    return refuse(equation, "subscripts are letters, and \"...\" once in each");
  if (letters + (ellipsis ? dots : 0) > TN_MAX_RANK)
    return refuse(equation, "the result has more than 8 axes");
  read_term(t, dots, &p->out);
  for (int32_t i = 0; i < p->out.rank; ++i) {
    const int label = p->out.label[i];
    if (p->size[label] < 0)
      return fail(TN_ERR_INVALID_ARGUMENT, "tn_einsum: \"%.100s\": no operand has %c", equation,
                  letter_of(label));
    for (int32_t k = 0; k < i; ++k)
      if (p->out.label[k] == label) return refuse(equation, "the result has a letter twice");
  }
  return TN_OK;
}

tn_status einsum_read(const char *equation, const tn_tensor *const *operands, size_t count,
                      einsum_plan *plan) {
  const char *arrow = strstr(equation, "->"), *at = equation;
  const char *end = arrow ? arrow : equation + strlen(equation);
  int32_t dots = 0;
  tn_status status = TN_OK;
  *plan = (einsum_plan){.count = count};
  for (int i = 0; i < EINSUM_LABELS; ++i) plan->size[i] = -1;
  for (size_t i = 0; i < count && !status; ++i) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    if (!comma != (i + 1 == count))
      return refuse(equation, "there must be as many terms before \"->\" as operands");
    status = read_operand(equation, (term){at, comma ? comma : end}, i, operands[i], plan, &dots);
    if (comma) at = comma + 1;
  }
  if (status) return status;
  if (!arrow) return implicit_output(equation, dots, plan);
  return explicit_output(equation, (term){arrow + 2, arrow + strlen(arrow)}, dots, plan);
}
