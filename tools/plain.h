/* Text from plugins, paths and messages, as it may go to a terminal. */
#ifndef TENON_TOOLS_PLAIN_H
#define TENON_TOOLS_PLAIN_H

/* The text itself where every character of it can be shown; else a copy in which control
 * characters, those of Unicode too, and bytes that are not UTF-8 are "\x1b" and the like. New
 * lines and tabs count as control characters. The copy is cut at some thousand bytes and lives
 * until the tenth call after. Not thread-safe. */
const char *plain(const char *text);

/* Bytes of the UTF-8 sequence at s, 0 if there is no valid one (RFC 3629). */
int plain_sequence(const char *s);
/* Whether the valid sequence at s is a control character: C0, DEL or C1. */
int plain_is_control(const char *s);

#endif
