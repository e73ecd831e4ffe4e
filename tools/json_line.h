/* A reader of JSON lines as `tenon bench --json` and our benches print them: one object per line,
 * whose members are strings, numbers, true, false and null. */
#ifndef TENON_TOOLS_JSON_LINE_H
#define TENON_TOOLS_JSON_LINE_H

#include <stdbool.h>

/* One member: `text` of a string, else NULL; `number` of a number, 1 and 0 of true and false, NaN
 * of all else. Both names live until the call returns. */
typedef void json_member(void *ctx, const char *name, const char *text, double number);

/* Calls `member` for each member of the object that `line` is; the line is overwritten. False where
 * it is no such object: members before the fault were told. */
bool json_line_read(char *line, json_member *member, void *ctx);

#endif
