/*
 * A strict reader of the JSON that headers of files hold: objects, arrays, strings and whole
 * numbers from 0 on. It takes what its caller expects and nothing else, so the caller's grammar
 * bounds the depth. Strings are decoded where they stand and end with a 0 then.
 */
#ifndef TENON_DISPATCHER_JSON_H
#define TENON_DISPATCHER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json {
  char *begin, *at, *end; /* the text; not ended by a 0 */
  const char *wrong;      /* what is wrong at `at`, once something is; else NULL */
} json;

/* Takes the character behind white space if it is the next one. */
bool json_take(json *j, char wanted);
/* The same; it is an error if it is not. */
bool json_expect(json *j, char wanted);
/* A string: UTF-8 without a 0. NULL on error. */
char *json_string(json *j);
/* A whole number from 0 to 2^63 - 1, in digits alone. */
bool json_number(json *j, int64_t *value);
/* Nothing but white space is left. */
bool json_ends(json *j);

/* Bytes of the UTF-8 character at `text`, of which `left` bytes may be looked at; 0 where there is
 * none: too long forms, surrogates and what is beyond U+10FFFF among it. */
size_t utf8_bytes(const char *text, size_t left);

#endif
