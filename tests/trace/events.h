/* What tests ask of a trace that was read. */
#ifndef TENON_TESTS_EVENTS_H
#define TENON_TESTS_EVENTS_H

#include "tests/trace/tree.h"

/* Events of a category, and of a name unless that is NULL. */
size_t events_count(const value *trace, const char *category, const char *name);
/* The one at `index` of those, NULL if there are fewer. */
const value *events_at(const value *trace, const char *category, const char *name, size_t index);
/* The sum of their lengths in microseconds. */
double events_length(const value *trace, const char *category, const char *name);

double event_begin(const value *event);
double event_end(const value *event);
const char *event_arg(const value *event, const char *name);

/* True where slices of one thread lie inside one another or apart; otherwise `text` names two
 * that cross. With `flat` none may lie inside another. Slices of `category` alone if not NULL. */
bool events_nest(const value *trace, const char *category, bool flat, char *text, size_t size);

#endif
