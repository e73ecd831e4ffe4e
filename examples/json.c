#include "json.h"

#include <math.h>
#include <stdio.h>

void json_string(const char *key, const char *text, const char *end) {
  printf("\"%s\": \"", key);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    if ((unsigned char)*text >= ' ') putchar(*text);
  }
  printf("\"%s", end);
}

void json_number(const char *key, double value, const char *end) {
  if (isfinite(value))
    printf("\"%s\": %.9g%s", key, value, end);
  else
    printf("\"%s\": null%s", key, end);
}
