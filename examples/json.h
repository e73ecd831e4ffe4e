/* One line of JSON on standard output, for programs: pairs with `end` behind them. */
#ifndef EXAMPLES_JSON_H
#define EXAMPLES_JSON_H

void json_string(const char *key, const char *text, const char *end);
/* A number that is not finite is null. */
void json_number(const char *key, double value, const char *end);

#endif
