/* A writer of JSON (RFC 8259): commas, indentation and escapes. The caller keeps
 * brackets paired. Text that is not UTF-8, as a file name may be, comes out with U+FFFD
 * in place of the bytes that are not. */
#ifndef TENON_TOOLS_JSON_H
#define TENON_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json {
  FILE *out;
  int depth;
  bool follows; /* an item stands before the next one at this depth */
  bool compact; /* all in one line */
} json;

/* name: the member's name inside an object, NULL inside an array or at the top. */
void json_open(json *j, const char *name, char bracket); /* '{' or '[' */
void json_close(json *j, char bracket);                  /* '}' or ']' */
void json_string(json *j, const char *name, const char *value);
void json_number(json *j, const char *name, uint64_t value);
/* What is no number becomes null. */
void json_real(json *j, const char *name, double value);
void json_bool(json *j, const char *name, bool value);

#endif
