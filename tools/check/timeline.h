/* Two curves over time, one above the other: bytes in use, and bytes taken for them. */
#ifndef TENON_CHECK_TIMELINE_H
#define TENON_CHECK_TIMELINE_H

#include <stdint.h>
#include <stdio.h>

enum { TIMELINE_COLUMNS = 72 };

/* The greatest of what falls into each column. */
typedef struct timeline {
  double live[TIMELINE_COLUMNS], reserved[TIMELINE_COLUMNS];
  uint64_t points, total; /* added so far, and that there will be */
} timeline;

void timeline_begin(timeline *t, uint64_t total);
void timeline_add(timeline *t, double live, double reserved);
/* Blocks of Unicode in lines of one height each. */
void timeline_print(const timeline *t, FILE *out);
/* An SVG picture. */
void timeline_draw(const timeline *t, const char *title, FILE *out);

#endif
