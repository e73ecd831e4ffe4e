/* A strict reader of JSON (RFC 8259) into a tree, for looking at traces. Text must be UTF-8. */
#ifndef TENON_TESTS_TREE_H
#define TENON_TESTS_TREE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum kind { NOTHING, FLAG, NUMBER, TEXT, LIST, OBJECT } kind;

typedef struct value {
  kind kind;
  char *name;          /* of a member of an object, or NULL */
  char *text;          /* without escapes */
  double number;       /* of a flag 0 or 1 */
  struct value *first; /* of a list's or object's members, in order */
  struct value *next;
  size_t count; /* of members */
} value;

/* NULL where the text is no JSON; `where` then says what is wrong and at which byte. */
value *tree_read(const char *text, size_t length, char *where, size_t size);
void tree_free(value *v);

/* A member of an object, NULL if it has none of the name; its number or text, or what to take
 * where there is none. */
const value *tree_member(const value *object, const char *name);
double tree_number(const value *object, const char *name, double otherwise);
const char *tree_text(const value *object, const char *name, const char *otherwise);

#endif
